"""Draw iris_center.svg: what every group of iris gets back, by `center`."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_iris
from sklearn.decomposition import PCA

from fairpca import FairPCA


def main() -> None:
    """Fit two components to the standardised table, rebuild its rows, and draw the errors."""
    table = load_iris()
    X = (table.data - table.data.mean(axis=0)) / table.data.std(axis=0)
    models = {
        "PCA": PCA(2).fit(X),
        'FairPCA(center="group")': FairPCA(2, center="group").fit(
            X, sensitive_features=table.target
        ),
        "FairPCA()": FairPCA(2).fit(X, sensitive_features=table.target),
    }
    plt.rcParams.update({"svg.hashsalt": "iris", "font.size": 11})
    figure, axes = plt.subplots(figsize=(7.2, 3.4), layout="constrained")
    for i, (name, model) in enumerate(models.items()):
        rebuilt = model.inverse_transform(model.transform(X))
        squares = np.sum((X - rebuilt) ** 2, axis=1)
        errors = [squares[table.target == g].mean() for g in range(3)]
        places, colour = np.arange(3) + 0.27 * (i - 1), ("#8c8c8c", "#c44e52", "#1f77b4")[i]
        bars = axes.bar(places, errors, 0.25, label=name, color=colour)
        axes.bar_label(bars, fmt="%.2f", padding=2)
    axes.set_ylim(0, 2.8)
    axes.set_xticks(range(3), table.target_names)
    axes.set_ylabel("mean squared distance\nfrom row to rebuilt row")
    axes.set_title("iris, 2 components, standardised columns", loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(Path(__file__).with_suffix(".svg"), metadata={"Date": None})


if __name__ == "__main__":
    main()
