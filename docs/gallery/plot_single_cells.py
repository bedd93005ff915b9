"""
What does a rare cell type get from a PCA of all cells?
=======================================================

Almost every analysis of single cells begins with a PCA: neighbours, clusters and the picture are
made of its components. A type, a donor or a batch with few cells has little say in them.
``fairpca.scverse.pca`` stands where ``scanpy.pp.pca`` stands and finds the components whose
worst-served group is served as well as possible. This example asks who gains by it, over PCA and
over balanced PCA, on cells that were left out of the fit.
"""

# %%
# Where scanpy looks
# ------------------
# 700 blood cells of ten types, which scanpy brings along (of Zheng and others, 2017). The groups
# are a column of ``adata.obs``: the type here, the batch or the donor in other tables. The 200
# genes that vary most are enough for a page that is built quickly.

import warnings

import matplotlib.pyplot as plt
import numpy as np
import scanpy as sc

import fairpca.scverse
from fairpca import FairPCA, NoisyGroupWarning, cross_fit
from fairpca.methods import BalancedPCA
from fairpca.metrics import group_losses

# Ten types of few cells are noise to a large part; the fits say so each time, we measure it below.
warnings.simplefilter("ignore", NoisyGroupWarning)

adata = sc.datasets.pbmc68k_reduced()
types = adata.obs["bulk_labels"].astype(str).to_numpy()
most_variable = adata.var["dispersions_norm"].rank(ascending=False) <= 200
adata.var["used"] = most_variable.to_numpy()
sc.pp.pca(adata, n_comps=10, mask_var="used")
fairpca.scverse.pca(adata, 10, groupby="bulk_labels", mask_var="used")

found = adata.uns["X_fairpca"]
print(found["certificate"]["text"])
print(found["groups"][["cells", "loss", "weight"]].round(2))

# %%
# ``sc.pp.neighbors(adata, use_rep="X_fairpca")`` goes on from here as always. New cells need no
# type: subtract ``found["mean"]`` and multiply with ``adata.varm["X_fairpca"]``.
#
# In hand
# -------
# What each type loses with ten components against ten of its own. CD34+, which ``sc.pp.pca``
# serves worst, gains most, and most other types pay. But ten components of 13 cells fit their
# noise as well: most of such a loss is chance, and a method that minimises it may chase chance.

used = adata.var["used"].to_numpy()
X = adata.X[:, used].astype(float)
in_hand = {
    "sc.pp.pca": group_losses(adata.varm["PCs"][used].T, X, sensitive_features=types),
    "FairPCA": found["groups"]["loss"].to_numpy(),
}
for name, losses in in_hand.items():
    print(f"{name:10} worst loss in hand {losses.max():.0f}")

# %%
# On new cells
# ------------
# Each fifth of the cells in turn is left out of the fit and measured. ``shrinkage=1`` is PCA;
# balanced PCA gives every type the same weight, the idea of ``multiBatchPCA`` in batchelor. The
# last fit is for groups of few rows: it moves their covariances towards what all cells share. A
# proof to four digits is enough here.

fits = {
    "PCA": FairPCA(shrinkage=1.0),
    "balanced PCA": BalancedPCA(),
    "FairPCA": FairPCA(tol=1e-4),
    "shrunk FairPCA": FairPCA(tol=1e-4, shrinkage="auto"),
}
new = cross_fit(X, types, 10, fits=fits)
for name, worst in zip(new.fits, new.worst().value[:, 0], strict=True):
    print(f"{name:14} worst loss on new cells {worst:.0f}")
pairs = [(name, "PCA") for name in new.fits[1:]]
pairs += [(name, "balanced PCA") for name in new.fits[2:]]
for name, than in pairs:
    gain = new.improvement(name, than)
    shown = f"{gain.value:.0f}, 95 % interval {gain.low:.0f} to {gain.high:.0f}"
    print(f"worst loss of {name} smaller than that of {than} by {shown}")

# %%
# Types in the order of their cells, the rarest first. Points are losses on new cells, lines their
# 95 % intervals; left of zero, a type is served better by the common components than by its own.

order = np.argsort(new.counts)
colours = dict(zip(fits, ("#D55E00", "#E69F00", "#0072B2", "#882255"), strict=True))
figure, axes = plt.subplots(
    1, 2, figsize=(10.5, 5.8), layout="constrained", sharey=True, width_ratios=[1, 1.4]
)
hand = {"PCA": in_hand["sc.pp.pca"], "FairPCA": in_hand["FairPCA"]}
for f, (name, colour) in enumerate(colours.items()):
    place = np.arange(len(order)) + 0.2 * (f - 1.5)
    if name in hand:
        axes[0].scatter(hand[name][order], place, color=colour, s=34, zorder=2)
    low, loss, high = (values[f, 0][order] for values in (new.low, new.losses, new.high))
    axes[1].hlines(place, low, high, color=colour, alpha=0.45, lw=2)
    axes[1].scatter(loss, place, color=colour, s=34, label=name, zorder=2)
labels = [f"{new.groups[g]} ({new.counts[g]})" for g in order]
axes[0].set_yticks(np.arange(len(order)), labels)
axes[0].set(title="cells in hand", xlabel="loss per cell", ylim=(len(order) - 0.4, -0.6))
axes[1].set(title="new cells", xlabel="loss per cell")
axes[1].legend(frameon=False, loc="lower right")
for axis in axes:
    axis.axvline(0, color="0.5", lw=1)
    axis.grid(axis="x", alpha=0.3)
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(axis="y", length=0)
plt.show()

# %%
# Read the two panels together. In hand FairPCA has the smallest worst loss, as it must. On new
# cells the intervals of the rare types are wide, and the lines printed above say whether a gain is
# beyond noise: it is where its interval lies above zero. Where it is not, plain PCA is as good as
# far as these cells can tell, and balanced PCA is the cheaper thing to try.
#
# The picture that people look at
# -------------------------------
# The first two components of each. Rare types are drawn large, common ones small and grey.

rare = [new.groups[g] for g in order[:4]]
shades = dict(zip(rare, ("#009E73", "#CC79A7", "#E69F00", "#000000"), strict=True))
figure, axes = plt.subplots(1, 2, figsize=(9.5, 4.2), layout="constrained")
for axis, (title, key) in zip(
    axes, {"sc.pp.pca": "X_pca", "fairpca.scverse.pca": "X_fairpca"}.items(), strict=True
):
    cells = adata.obsm[key][:, :2]
    common = ~np.isin(types, rare)
    axis.scatter(*cells[common].T, s=6, color="0.75", label="all others")
    for kind, mark in zip(rare, "os^D", strict=True):
        axis.scatter(
            *cells[types == kind].T, s=30, color=shades[kind], marker=mark, label=kind, alpha=0.85
        )
    axis.set(title=title, xlabel="component 1", ylabel="component 2")
    axis.spines[["top", "right"]].set_visible(False)
axes[1].legend(frameon=False, fontsize="small", loc="upper left", bbox_to_anchor=(1, 1))
plt.show()
