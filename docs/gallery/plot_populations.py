"""
Populations: which pairs does a plot keep apart?
================================================

A PCA of genotypes is drawn to see which populations are apart. Where the sample is unbalanced, the
populations with many people take the axes. This example fits to 100 and 79 people of two European
populations and ten of each of nine others (International HapMap 3 Consortium, 2010), and places
everybody else. ``MaxMinDistanceAnalysis`` keeps as much as it can of the distance that is kept
least; PCA keeps almost nothing of some.
"""

# %%
# Genotypes, and who is new
# -------------------------
# The files are the thinned autosomal SNPs of HapMap 3, with the list of populations, in the folder
# ``hapmap3`` of the directory ``FAIRPCA_DATA``. Genotypes are scaled as Patterson, Price and Reich
# (2006) do, by the allele frequencies of the people of the fit alone.

import os
from pathlib import Path

import bed_reader  # noqa: F401  (what read_plink needs)
import matplotlib.pyplot as plt
import numpy as np
from scipy.spatial.distance import cdist
from sklearn.decomposition import PCA
from sklearn.metrics import confusion_matrix

from fairpca import MaxMinDistanceAnalysis
from fairpca.genetics import read_plink, read_populations, standardize

folder = Path(os.environ["FAIRPCA_DATA"]) / "hapmap3"
people = read_plink(folder / "HM3_thinned_autosomal_overlap")
population = read_populations(folder / "relationships_w_pops_121708.txt", people.samples)
names = np.unique(population)

rng = np.random.default_rng(100)
size = {"CEU": 100, "TSI": 79}
fit = np.concatenate(
    [rng.choice(np.flatnonzero(population == p), size.get(p, 10), replace=False) for p in names]
)
new = np.setdiff1d(np.arange(len(population)), fit)
rows = standardize(people.take(fit))
X = rows.columns(slice(None))
X_new = standardize(people.take(new), frequencies=rows.frequencies).columns(slice(None))

# %%
# Both fits, at four components
# -----------------------------

r = 4
ours = MaxMinDistanceAnalysis(r).fit(X, population[fit])
pca = PCA(r, random_state=0).fit(X)
print(ours.certificate_)

# %%
# What each keeps of every distance between two populations, of the people in hand. The darkest
# cells are pairs that a plot of these components cannot show apart.

scores = pca.transform(ours.means_)
kept = cdist(scores, scores, "sqeuclidean")
whole = cdist(ours.means_, ours.means_, "sqeuclidean")
shares = {"PCA": np.divide(kept, whole, out=np.ones_like(kept), where=whole > 0)}
shares["every pair"] = ours.pair_shares_


def heat_maps(tables, title, colours):
    """Draw a table of populations by populations for each method."""
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.8), sharey=True, layout="constrained")
    for axis, (name, table) in zip(axes, tables.items(), strict=True):
        image = axis.imshow(table, vmin=0, vmax=1, cmap=colours)
        axis.set_xticks(range(len(names)), names, rotation=90)
        axis.set_yticks(range(len(names)), names)
        axis.set_title(name)
    figure.colorbar(image, ax=axes, label=title)


heat_maps(shares, "share of the squared distance kept", "cividis")
for name, table in shares.items():
    i, j = np.unravel_index(table.argmin(), table.shape)
    print(f"{name:10} keeps least of {names[i]} and {names[j]}: {table[i, j]:.3f}")
plt.show()

# %%
# Where new people land
# ---------------------
# With 14,000 columns and ten people a population, much of a distance in hand is noise, so only new
# people decide. Each goes to the nearest mean; a line is the population somebody is from.

near = cdist(pca.transform(X_new), scores) ** 2 / (1 + 1 / ours.class_count_)
guess = {"PCA": names[near.argmin(axis=1)], "every pair": ours.predict(X_new)}
landed = {
    name: confusion_matrix(population[new], found, labels=names, normalize="true")
    for name, found in guess.items()
}
heat_maps(landed, "share of a population's new people", "cividis")
for name, table in landed.items():
    own = np.diag(table)
    worst = names[own.argmin()]
    print(
        f"{name:10} finds {own.mean():.2f} (mean of populations), {worst} least: {own.min():.2f}"
    )
plt.show()

# %%
# Who pays: populations that PCA's axes were about, and which keep less now.

change = np.diag(landed["every pair"]) - np.diag(landed["PCA"])
for i in change.argsort():
    print(f"{names[i]:4} {change[i]:+.2f}")

# %%
# The plot itself
# ---------------
# New people in the first two components, small populations drawn on top of large ones.

order = sorted(names, key=lambda p: -np.sum(population == p))
colours = dict(zip(names, plt.get_cmap("tab20")(np.arange(len(names))), strict=True))
figure, axes = plt.subplots(1, 2, figsize=(10, 4.8), layout="constrained")
for axis, (name, model) in zip(axes, {"PCA": pca, "every pair": ours}.items(), strict=True):
    placed = model.transform(X_new)
    for rank, p in enumerate(order):
        some = placed[population[new] == p]
        axis.scatter(*some[:, :2].T, s=12, color=colours[p], label=p, zorder=rank)
    axis.set(title=name, xlabel="component 1", ylabel="component 2")
    axis.spines[["top", "right"]].set_visible(False)
axes[1].legend(frameon=False, bbox_to_anchor=(1, 1))
plt.show()

# %%
# Two components cannot keep eleven populations apart, by whichever method: look at several pairs
# of components, and at the confusion. The guide says when to use which: :doc:`/guide/separation`.
