"""
Hide the group, or serve every group?
=====================================

Two aims share the name *fair PCA*, and a method for the one does nothing for the other. One wants
components from which nobody can tell who belongs to which group. The other wants components that
lose little of anybody. This example shows both on the same clients of a bank: what a classifier of
the group still sees, and what each group loses.
"""

# %%
# Clients of a bank, 65 or older and younger
# ------------------------------------------
# Moro, Cortez and Rita's table of a marketing campaign; age itself is no column any more. Of the
# younger clients we take three times as many as there are older ones. Half of the rows are fitted,
# the other half is measured.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler

from fairpca import FairPCA
from fairpca.datasets import fetch_bank_marketing
from fairpca.methods import NullSpaceFairPCA
from fairpca.metrics import group_losses

table = fetch_bank_marketing()
age = np.asarray(table.sensitive_features)
rng = np.random.default_rng(0)
older = rng.permutation(np.flatnonzero(age == "65 or older"))
younger = rng.permutation(np.flatnonzero(age == "under 65"))[: 3 * len(older)]
rows = rng.permutation(np.concatenate([older, younger]))
X, age = StandardScaler().fit_transform(table.data[rows]), age[rows]
fitted, measured = np.arange(len(X)) % 2 == 0, np.arange(len(X)) % 2 == 1
print({str(name): int(np.sum(age == name)) for name in np.unique(age)}, X.shape[1], "columns")

# %%
# Four reductions to five components
# ----------------------------------
# PCA has neither aim. Kleindessner, Donini, Russell and Zafar (2023) project away the directions
# along which the groups' means differ; their stricter variant also gives up those along which the
# covariances differ most. ``FairPCA`` solves the other problem, that of Samadi, Tantipongpipat,
# Morgenstern, Singh and Vempala (2018).

r = 5
models = {
    "PCA": PCA(r),
    "FairPCA": FairPCA(r),
    "null space": NullSpaceFairPCA(r),
    "null space,\nstricter": NullSpaceFairPCA(r, n_kept_directions=r + 3),
}
for name, model in models.items():
    known = {} if name == "PCA" else {"sensitive_features": age[fitted]}
    model.fit(X[fitted], **known)

# %%
# What a classifier of the group can still see
# --------------------------------------------
# Train one on the components of the first half, and ask on the other half how often it ranks an
# older client above a younger one: 0.5 is guessing, 1 is knowing. One classifier is linear; the
# other, boosted trees, is not.

readers = {
    "linear": LogisticRegression(),
    "boosted trees": HistGradientBoostingClassifier(
        max_iter=60, max_leaf_nodes=12, random_state=0
    ),
}
is_old = age == "65 or older"
seen, losses = {}, {}
for name, model in models.items():
    Z = model.transform(X)
    seen[name] = [
        roc_auc_score(
            is_old[measured],
            reader.fit(Z[fitted], is_old[fitted]).predict_proba(Z[measured])[:, 1],
        )
        for reader in readers.values()
    ]
    losses[name] = group_losses(model, X[measured], sensitive_features=age[measured])
    shown = " ".join(name.split())
    print(f"{shown:21} seen: linear {seen[name][0]:.2f}, trees {seen[name][1]:.2f}", end="")
    print(f"   loss: older {losses[name][0]:.2f}, younger {losses[name][1]:.2f}")

# %%
# Above, the first two components of clients in the measured half, as many of each group; below,
# the two answers. The null space removes what a *linear* reader could use: it is left close to
# guessing, and that is what the authors promise. Boosted trees still see the group in the shape of
# the cloud, less so when the stricter variant gives up more directions. What is hidden is gone for
# everybody, so neither comes near FairPCA's larger loss, and the strict one costs the younger
# clients most. FairPCA hides nothing, no more than PCA does: it sees to the larger loss only.

colours = {"65 or older": "#009E73", "under 65": "#E69F00"}
figure, axes = plt.subplots(
    2, 4, figsize=(10.5, 5.6), layout="constrained", sharex="row", height_ratios=[1.5, 1]
)
count = int(np.sum(is_old & measured))
for column, (name, model) in zip(axes.T, models.items(), strict=True):
    top = column[0]
    for label in ("under 65", "65 or older"):
        points = model.transform(X[measured & (age == label)][:count])
        top.scatter(*points[:, :2].T, s=7, color=colours[label], alpha=0.55, label=label, lw=0)
    top.set(title=name, xlabel="component 1", xlim=(-4.5, 5), ylim=(-4.5, 6))
    top.spines[["top", "right"]].set_visible(False)
axes[0, 0].set_ylabel("component 2")
axes[0, 0].legend(fontsize="small", frameon=False, markerscale=3, loc="upper left")

grid = axes[1, 0].get_gridspec()
for axis in axes[1]:
    axis.remove()
place = np.arange(len(models))
left, right = figure.add_subplot(grid[1, :2]), figure.add_subplot(grid[1, 2:])
for j, (reader, shade) in enumerate(zip(readers, ("0.65", "0.25"), strict=True)):
    values = [seen[name][j] for name in models]
    bars = left.bar(place + 0.4 * j - 0.2, np.subtract(values, 0.5), 0.38, bottom=0.5, color=shade)
    left.bar_label(bars, [f"{value:.2f}" for value in values], fontsize="small", padding=1)
    bars.set_label(reader)
left.axhline(0.5, color="0.2", lw=1)
left.set(title="how well the group is seen (0.5: guessing)", ylim=(0.4, 1.12), yticks=[0.5, 1])
left.legend(fontsize="small", frameon=False, ncols=2, loc="upper right")
for j, (label, colour) in enumerate(colours.items()):
    values = [losses[name][j] for name in models]
    bars = right.bar(place + 0.4 * j - 0.2, values, 0.38, color=colour, label=label)
    right.bar_label(bars, fmt="%.1f", fontsize="small", padding=1)
right.set_title("loss of each group")
right.margins(y=0.2)
for axis in (left, right):
    axis.set_xticks(place, models, fontsize="small")
    axis.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# So decide first what is wanted. If what follows must not use the group, and would be able to,
# the methods that hide it are the ones to try, and a classifier as above is the test. If people
# are to be described, compressed, compared or searched by the components, and none of them much
# worse than others, hiding is not the aim: it takes directions away from everybody and looks at
# nobody's loss.
