"""
A group has 51 rows: may its loss be believed? Credit by education
==================================================================

A PCA of 51 rows fits their noise, so a small group seems to lose much under any shared
projection, and the projection that serves the worst group best then serves that noise. This
example shows, on a table of credit card clients, how losses of the rows in hand differ from
losses of new rows, what ``shrinkage="auto"`` does about it, and what the audit advises.
"""

# %%
# Seven groups of very different size
# -----------------------------------
# 30,000 clients of a bank in Taiwan (I.-C. Yeh and C.-H. Lien, 2009), by the code of their
# education as it is in the file: 1 graduate school, 2 university, 3 high school, 4 others; 0, 5
# and 6 are documented nowhere. Their rows are few, and such codes are just what one finds in a
# table.

import textwrap
import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.decomposition import PCA

from fairpca import FairPCA, GroupMoments, NoisyGroupWarning, audit, cross_fit
from fairpca.datasets import fetch_credit_default
from fairpca.metrics import group_losses

clients = fetch_credit_default(sensitive=None)
column = clients.feature_names.index("EDUCATION")
education = clients.data[:, column].astype(int)
X = np.delete(clients.data, column, axis=1)
X = (X - X.mean(axis=0)) / X.std(axis=0)
r = 5

moments = GroupMoments.from_array(X, education)
print(dict(zip(moments.labels, moments.count.tolist(), strict=True)))

# %%
# ``fit`` warns by itself: it knows how large a loss chance alone makes in so few rows.

with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    fair = FairPCA(r).fit(X, sensitive_features=education)
for warning in caught:
    if issubclass(warning.category, NoisyGroupWarning):
        print(textwrap.fill(str(warning.message), 90))

# %%
# ``shrinkage="auto"`` moves each group's covariance towards what all groups share: small groups
# far, large ones hardly. How far is in ``shrinkage_``.

shrunk = FairPCA(r, shrinkage="auto").fit(X, sensitive_features=education)
for label, count, moved in zip(
    shrunk.groups_, shrunk.group_counts_, shrunk.shrinkage_, strict=True
):
    print(f"EDUCATION {label}: {count:6d} rows, moved by {moved:.3f}")

# %%
# Rows in hand and new rows
# -------------------------
# ``cross_fit`` deals the rows of every group into five folds. Each fold is left out of the fits
# once and then measured; the group's own PCA, which losses are set against, is fitted without it,
# too. That is done five times with other folds, and the numbers are means. Intervals come from the
# spread between folds. A loss below zero means that the shared projection serves the group better
# than one of its own.

found = cross_fit(X, education, r)
in_hand = {
    "PCA": group_losses(PCA(r).fit(X), moments),
    "FairPCA": fair.group_losses_,
    "shrunk FairPCA": shrunk.group_losses_,
}
worst = found.worst()
print("worst loss         in hand   new rows   95 % interval")
for f, (name, losses) in enumerate(in_hand.items()):
    low, high = worst.low[f, 0], worst.high[f, 0]
    print(f"{name:16} {losses.max():8.2f} {worst.value[f, 0]:10.2f}   {low:.2f} to {high:.2f}")

# %%
# Left: what FairPCA makes of the rows in hand looks like a great success. Right: on new rows most
# of it is gone, and the intervals of small groups are so wide that little can be said about them.
# The large groups are known well, and they pay.

colours = dict(zip(in_hand, ("#D55E00", "#0072B2", "#882255"), strict=True))
order = np.argsort(found.counts)
figure, axes = plt.subplots(
    1, 2, figsize=(10, 4.6), sharex=True, sharey=True, layout="constrained"
)
for f, (name, losses) in enumerate(in_hand.items()):
    places = np.arange(len(order)) + 0.24 * (f - 1)
    style = {"color": colours[name], "fmt": "o", "ms": 6}
    axes[0].errorbar(losses[order], places, **style, label=name)
    axes[0].hlines(places, 0, losses[order], color=colours[name], lw=1.6, alpha=0.5)
    new = found.losses[f, 0, order]
    ends = np.abs(np.array([found.low[f, 0, order], found.high[f, 0, order]]) - new)
    axes[1].errorbar(new, places, xerr=ends, **style, elinewidth=1.6, capsize=2.5)
axes[0].set_yticks(
    range(len(order)), [f"{found.groups[g]}\n{found.counts[g]:,} rows" for g in order]
)
axes[0].invert_yaxis()
axes[0].set_ylabel("EDUCATION")
axes[0].legend(frameon=False, loc="lower right")
for axis, title in zip(axes, ("rows in hand", "new rows, with 95 % intervals"), strict=True):
    axis.axvline(0, color="0.6", lw=0.8, zorder=0)
    axis.set_title(title, fontsize="medium")
    axis.set_xlabel(f"loss per row, {r} components")
    axis.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# Is one fit better than another, beyond noise?
# ---------------------------------------------
# Two worst losses are measured on the same rows, so their difference is known better than either.
# A gain is beyond noise where its whole interval lies above zero.

for name in found.fits[1:]:
    gain = found.improvement(name, "PCA")
    print(f"{name} over PCA: {gain.value:.2f}, between {gain.low:.2f} and {gain.high:.2f}")

# %%
# The audit puts the same numbers into words. It advises another fit than PCA only where the gain
# is beyond noise.

report = audit(X, education, r, ranks=[r], n_bootstrap=0, leave_one_out=False)
print("advised:", report.new_rows.advised.reducer)
print(textwrap.fill(report.verdict(), 90))

# %%
# What to do with groups like these
# ---------------------------------
# * Look at new rows before believing a loss: :func:`fairpca.cross_fit`, or the audit.
# * Where groups are small, pass ``shrinkage="auto"``; where the audit says that plain PCA is as
#   good, use PCA.
# * Merge codes that mean the same, or nothing. ``fetch_credit_default()`` by default makes one
#   group "other" of the four small codes.
#
# The guide has more: :doc:`/guide/new_rows`.
