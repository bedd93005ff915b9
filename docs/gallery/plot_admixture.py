"""
Where are the small populations in a PCA of genes?
==================================================

The first two components of a table of genotypes are drawn in almost every paper on human
populations. What they show depends on who was sampled: McVean (*A genealogical interpretation of
principal components analysis*, 2009) has shown that the plane turns with the sizes of the samples.
This example simulates four populations of very unequal sample size and people with ancestors in
two of them. It shows what PCA keeps of the small ones, what ``FairPCA`` changes, and who pays,
on people who were in neither fit.
"""

# %%
# Four populations, and people between two of them
# ------------------------------------------------
# Allele frequencies drift away from common ancestors as in the model of Balding and Nichols; the
# two large populations have drifted least. Genotypes are counts 0, 1, 2, scaled by what drift
# alone would make of them, as Patterson, Price and Reich (2006) do before a PCA.

import textwrap
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA

from fairpca import FairPCA
from fairpca.methods import BalancedPCA
from fairpca.metrics import group_losses

rng = np.random.default_rng(1)
n_sites = 400
ancestral = rng.uniform(0.1, 0.9, n_sites)


def drifted(f):
    """Return allele frequencies after drift by `f`, the share of variety that was lost."""
    a = ancestral * (1 - f) / f
    return np.clip(rng.beta(a, (1 - f) / f - a), 0.01, 0.99)


sizes = {"coast": 500, "plain": 300, "hills": 50, "island": 25}
drift = {"coast": 0.03, "plain": 0.03, "hills": 0.08, "island": 0.15}
frequency = {name: drifted(f) for name, f in drift.items()}


def people(counts):
    """Return genotypes and populations of so many people each."""
    rows = [rng.binomial(2, frequency[name], (m, n_sites)) for name, m in counts.items()]
    return np.concatenate(rows), np.repeat(list(counts), list(counts.values()))


genotypes, population = people(sizes)
share = rng.uniform(0, 1, 80)[:, None]
between = rng.binomial(2, share * frequency["island"] + (1 - share) * frequency["coast"])
mean = genotypes.mean(axis=0) / 2


def scaled(counts):
    return (counts - 2 * mean) / np.sqrt(2 * mean * (1 - mean))


X = scaled(genotypes)
print(X.shape, sizes)

# %%
# Two components
# --------------
# Beside PCA and FairPCA stands balanced PCA, in which every population counts alike. People
# between populations have no group of their own: they are projected afterwards. None of the three
# needs to know who somebody is to place them.

with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    models = {
        "PCA": PCA(2).fit(X),
        "balanced PCA": BalancedPCA(2).fit(X, sensitive_features=population),
        "FairPCA": FairPCA(2).fit(X, sensitive_features=population),
    }
print(models["FairPCA"].certificate_)
for warning in said:
    print(textwrap.fill(str(warning.message), 90))

# %%
# The warning asks the right question. A loss is what two components lose of a population against
# the two that would be best for it alone, and with few people and many sites a large part of it
# is chance: the own components of 25 people fit their noise. New people answer it. With real
# genotypes that would be `fairpca.cross_fit`; here we can draw 300 more of each population.

new, new_population = people(dict.fromkeys(sizes, 300))
new = scaled(new)
losses = {}
order = sorted(sizes)
for name, model in models.items():
    found = group_losses(model, new, sensitive_features=new_population)
    losses[name] = dict(zip(order, found.tolist(), strict=True))
    print(f"{name:13}", {p: round(losses[name][p], 1) for p in sizes})

# %%
# Grey crosses are the people between coast and island; the darker, the more of their ancestors are
# from the island. Below, what the new people of each population lose.

colours = dict(zip(sizes, ["#009E73", "#CC79A7", "#E69F00", "#56B4E9"], strict=True))
marks = dict(zip(sizes, "os^D", strict=True))
figure, axes = plt.subplots(
    2, 3, figsize=(10.5, 6.6), layout="constrained", height_ratios=[2.1, 1], sharey="row"
)
for column, (name, model) in zip(axes.T, models.items(), strict=True):
    Z, mixed = model.transform(X), model.transform(scaled(between))
    # A picture may be mirrored: put the island's side up and the coast on the left.
    sign = np.sign(Z[population == "plain"].mean(axis=0) - Z[population == "coast"].mean(axis=0))
    sign[1] = np.sign(Z[population == "island", 1].mean()) or 1.0
    Z, mixed = Z * sign, mixed * sign
    for p in sizes:
        at = population == p
        column[0].scatter(*Z[at].T, s=14, marker=marks[p], color=colours[p], alpha=0.6, label=p)
    column[0].scatter(*mixed.T, c=share, cmap="Greys", vmin=-0.4, marker="x", s=26, lw=1.4)
    column[0].set(title=name, xlabel="component 1")
    values = [losses[name][p] for p in sizes]
    bars = column[1].bar(list(sizes), values, color=[colours[p] for p in sizes])
    column[1].bar_label(bars, fmt="%.0f", padding=2)
    for axis in column:
        axis.spines[["top", "right"]].set_visible(False)
axes[0, 0].set_ylabel("component 2")
axes[1, 0].set_ylabel("loss of new people")
axes[1, 0].margins(y=0.2)
axes[0, 0].legend(frameon=False, fontsize="small", markerscale=1.5)
plt.show()

# %%
# Can one read the ancestors?
# ---------------------------
# The share of ancestors from the island was drawn above, so we can ask whether it can be read from
# the plane: place everybody on the straight line from the middle of the coast to the middle of the
# island, both estimated from the sample.

figure, axes = plt.subplots(1, 2, figsize=(8, 3.8), layout="constrained", sharey=True)
shades = {"PCA": "#D55E00", "FairPCA": "#0072B2"}
for axis, (name, colour) in zip(axes, shades.items(), strict=True):
    Z, mixed = models[name].transform(X), models[name].transform(scaled(between))
    start, end = (Z[population == p].mean(axis=0) for p in ("coast", "island"))
    position = (mixed - start) @ (end - start) / np.sum((end - start) ** 2)
    off = np.sqrt(np.mean((position - share[:, 0]) ** 2))
    print(f"{name}: off by {off:.2f} (root mean square)")
    axis.axline((0, 0), slope=1, color="0.6", lw=1)
    axis.scatter(share, position, color=colour, s=22, alpha=0.8)
    axis.set(title=f"{name}: off by {off:.2f}", xlabel="ancestors from the island, true share")
    axis.spines[["top", "right"]].set_visible(False)
axes[0].set_ylabel("read from two components")
plt.show()

# %%
# Nothing here is free: two components cannot hold the three contrasts between four populations.
# PCA keeps the large samples apart and loses the island; FairPCA brings the island back, and the
# coast and the plain move together. Balanced PCA goes the same way, and on new people does about
# as well here; it has no proof of its worst case. With three components all contrasts fit, and the
# worst loss of new people is about as large by PCA as by FairPCA. Draw a plane for what you want
# to see, and say in the caption how it was chosen.
