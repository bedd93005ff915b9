"""
Which fair PCA does what?
=========================

More than a dozen methods have been published under the name of fair or robust PCA. They optimise
different numbers, so no single ranking of them makes sense. ``fairpca.compare`` fits them on
the same rows, computes all numbers for all of them, and ranks only those that optimise the same.
This example runs every one of them on a real table.
"""

# %%
# A table that all of them can take
# ---------------------------------
# Some methods take two groups only, and some are slow on many rows, so the table is small: 150
# clients of a bank who are 65 or older and 450 younger ones, of the table of Moro, Cortez and
# Rita.

import inspect

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from fairpca import FairPCA, compare, methods
from fairpca.datasets import fetch_bank_marketing

table = fetch_bank_marketing()
age = np.asarray(table.sensitive_features)
rng = np.random.default_rng(0)
parts = {"65 or older": 150, "under 65": 450}
rows = [rng.permutation(np.flatnonzero(age == name))[:m] for name, m in parts.items()]
rows = np.concatenate(rows)
X, age = StandardScaler().fit_transform(table.data[rows]), age[rows]

# %%
# Every method is an estimator of `fairpca.methods`. Where one has a choice, we take the mean of
# all rows for all of them, which is what ``transform`` subtracts; otherwise some would be judged
# by another number than the one they optimised. Three that take long get fewer steps or starts
# than by default, which costs them a little.

authors = {
    "PCA": "Pearson 1901, Hotelling 1933",
    "BalancedPCA": "equal weights, as multiBatchPCA",
    "FairPCA": "Shen et al. 2025, and more groups",
    "EigOpt": "Shen et al. 2025, as printed",
    "SDRFairPCA": "Samadi et al. 2018",
    "MultiCriteriaPCA": "Tantipongpipat et al. 2019",
    "ARPGDA": "Xu et al. 2024",
    "RADA": "Xu et al. 2024",
    "MinorizationFairPCA": "Babu et al. 2025",
    "StablePCA": "Wang et al. 2026",
    "WorstCasePCA": "Fries et al. 2026",
    "AnchorPCA": "Seiter et al. 2026",
    "ParetoFairPCA": "Kamani et al. 2022",
    "UnconstrainedFPCA": "Pelegrina, Duarte 2024",
    "ConstrainedFPCA": "Pelegrina, Duarte 2024",
    "SPEA2FairPCA": "Pelegrina et al. 2022",
    "JointDiagonalPCA": "Rathore, Manwani 2025",
    "NullSpaceFairPCA": "Kleindessner et al. 2023",
    "StreamingFairPCA": "Lee et al. 2023",
    "CovarianceConstrainedPCA": "Olfat, Aswani 2019",
    "MMDFairPCA": "Lee et al. 2022",
}
assert set(authors) == {"PCA", "FairPCA", *methods.__all__}

known = {"PCA": PCA, "FairPCA": FairPCA} | {
    name: getattr(methods, name) for name in methods.__all__
}
quicker = {
    "ARPGDA": {"n_starts": 1, "max_iter": 300},
    "ParetoFairPCA": {"max_iter": 500},
    "SPEA2FairPCA": {"max_iter": 10},
}
estimators = {}
for name in authors:
    options = quicker.get(name, {})
    if "center" in inspect.signature(known[name]).parameters:
        options = options | {"center": "global"}
    estimators[name] = known[name](3, **options)

found = compare(X, age, estimators)
print(found)

# %%
# The same, to look at
# --------------------
# Methods with the same aim stand together. On the left, what each group loses against three
# components of its own: a short line is a small difference, a line far to the left a small loss,
# and no projection has both ends left of the dashed line. In the middle, how far apart the
# groups' means are after projection, which is what a linear classifier of the group sees. On the
# right the error of all rows, which is PCA's own aim.

aims = {
    "total\nerror": ["PCA", "BalancedPCA"],
    "the worst group": list(authors)[2:11],
    "a trade-off,\nor equal errors": list(authors)[11:17],
    "hide the group": list(authors)[17:],
}
columns = {"mean_gap": "distance of the means", "total_error": "total error"}
groups = dict(zip(found.groups, ("#009E73", "#E69F00"), strict=True))
marks = dict(zip(found.groups, "Do", strict=True))
figure, axes = plt.subplots(
    1, 3, figsize=(10.5, 7.4), layout="constrained", sharey=True, width_ratios=[2, 1, 1]
)
place, labels, places = 0.0, [], []
for aim, names in aims.items():
    top = place
    for name in names:
        row = found[name]
        colour = {"PCA": "#D55E00", "FairPCA": "#0072B2"}.get(name, "0.35")
        axes[0].plot(row.found.loss, [place, place], color="0.75", lw=2.5, zorder=1)
        for loss, group in zip(row.found.loss, found.groups, strict=True):
            axes[0].scatter(loss, place, s=46, marker=marks[group], color=groups[group], zorder=2)
        for axis, column in zip(axes[1:], columns, strict=True):
            axis.scatter(getattr(row, column), place, s=46, color=colour, marker="s", zorder=2)
        places.append(place)
        labels.append(f"{name}\n")
        axes[0].text(
            -0.02,
            place + 0.27,
            authors[name],
            transform=axes[0].get_yaxis_transform(),
            ha="right",
            va="center",
            fontsize=7.5,
            color="0.4",
        )
        place += 1
    for axis in axes:
        axis.axhspan(top - 0.5, place - 0.5, color="0.96", zorder=0, lw=0)
    axes[2].text(
        1.02,
        (top + place - 1) / 2,
        aim,
        transform=axes[2].get_yaxis_transform(),
        rotation=-90,
        va="center",
        ha="left",
        multialignment="center",
    )
    place += 0.35
axes[0].axvline(found["FairPCA"].bound, color="#0072B2", ls="--", lw=1.2, zorder=1)
axes[0].set_yticks(places, labels, fontsize=9, va="center", linespacing=0.9)
axes[0].set_ylim(place - 0.8, -0.6)
axes[0].set_xlabel("loss of each group")
for axis, title in zip(axes[1:], columns.values(), strict=True):
    axis.set_xlabel(title)
axes[1].set_xlim(left=-0.06)
for group in found.groups:
    axes[0].scatter([], [], s=46, marker=marks[group], color=groups[group], label=group)
axes[0].legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
for axis in axes:
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(axis="y", length=0)
    axis.grid(axis="x", alpha=0.4)
plt.show()

# %%
# What to read from it
# --------------------
# * Methods that serve the worst group by its *loss* end at the same line, ``SDRFairPCA`` and
#   ``ARPGDA`` a little above it; they differ in how they get there, in time, and in whether they
#   can tell that they have arrived. ``StablePCA`` and ``WorstCasePCA`` are asked by default for
#   the variance or the share that is kept, which is another aim.
# * Methods that hide the group have the means on top of each other, or nearly. The older clients
#   lose more for it than by PCA.
# * The others lie between, each where its own aim puts it.
#
# The places of the table are about these rows. `fairpca.cross_fit` asks the same of rows left out,
# for every method that can be fitted to moments.
