"""Draw docs/one_direction.svg: two groups, the first direction of PCA and that of FairPCA."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA

from fairpca import FairPCA
from fairpca.metrics import group_losses

# Colours of groups. Vermilion and blue are those of PCA and FairPCA in every other picture.
_GROUPS = {"large group, 120 rows": "#009e73", "small group, 40 rows": "#cc79a7"}


def main() -> None:
    """Fit one component to rows of two groups; draw both lines and what each group loses."""
    rng = np.random.default_rng(7)
    large = rng.normal(size=(120, 2)) * [2.6, 0.6] @ [[0.95, 0.31], [-0.31, 0.95]]
    small = rng.normal(size=(40, 2)) * [0.5, 1.7]
    X, groups = np.vstack([large, small]), np.repeat(list(_GROUPS), [120, 40])
    models = {
        "PCA": PCA(1).fit(X),
        "FairPCA": FairPCA(1).fit(X, sensitive_features=groups),
    }
    plt.rcParams.update({"svg.hashsalt": "one direction", "font.size": 11})
    figure, axes = plt.subplots(
        1, 3, figsize=(9.6, 3.1), layout="constrained", width_ratios=[1.3, 1.3, 1]
    )
    for axis, (name, model) in zip(axes, models.items(), strict=False):
        for label, colour in _GROUPS.items():
            rows = X[groups == label]
            axis.scatter(*rows.T, s=14, color=colour, label=label, linewidths=0)
        ends = model.mean_ + np.outer([-6, 6], model.components_[0])
        axis.plot(*ends.T, color="#222222", linewidth=2)
        axis.set(xlim=(-6.6, 6.6), ylim=(-4.6, 4.6), aspect="equal", xticks=[], yticks=[])
        axis.set_title(f"{name}: one direction for everybody", fontsize=11)
    axes[0].legend(
        frameon=False,
        loc="upper left",
        fontsize=9,
        handletextpad=0.2,
        borderpad=0.4,
        markerscale=1.5,
    )
    for i, (label, colour) in enumerate(_GROUPS.items()):
        losses = [
            group_losses(model, X, sensitive_features=groups)[sorted(_GROUPS).index(label)]
            for model in models.values()
        ]
        bars = axes[2].bar(np.arange(2) + 0.38 * (i - 0.5), losses, 0.36, color=colour)
        axes[2].bar_label(bars, fmt="%.2f", padding=2)
    axes[2].set_xticks(range(2), list(models))
    axes[2].set_yticks([])
    axes[2].margins(y=0.15)
    axes[2].set_title("loss against the group's own PCA", fontsize=11)
    axes[2].spines[["top", "right", "left"]].set_visible(False)
    figure.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})


if __name__ == "__main__":
    main()
