"""
A group has 51 rows: may its loss be believed? Credit by education
==================================================================

A PCA of 51 rows fits their noise, so a small group seems to lose much under any shared
projection, and the projection that serves the worst group best then serves that noise. This
example shows, on a table of credit card clients, how losses of the rows in hand differ from
losses of new rows, and what the audit says about it.
"""

# %%
# Seven groups of very different size
# -----------------------------------
# 30,000 clients of a bank in Taiwan (I.-C. Yeh and C.-H. Lien, 2009), by the code of their
# education as it is in the file: 1 graduate school, 2 university, 3 high school, 4 others; 0, 5
# and 6 are documented nowhere. ``fit`` warns by itself: it knows how large a loss chance alone
# makes in so few rows.

import textwrap
import warnings

import matplotlib.pyplot as plt
import numpy as np

from fairpca import FairPCA, NoisyGroupWarning, audit
from fairpca.datasets import fetch_credit_default

clients = fetch_credit_default(sensitive=None)
column = clients.feature_names.index("EDUCATION")
education = clients.data[:, column].astype(int)
X = np.delete(clients.data, column, axis=1)
X = (X - X.mean(axis=0)) / X.std(axis=0)
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always", NoisyGroupWarning)
    FairPCA(5).fit(X, sensitive_features=education)
print(*(textwrap.fill(str(warning.message), 90) for warning in caught), sep="\n")
model = FairPCA(5, shrinkage="auto").fit(X, sensitive_features={"education": education})
print(model.groups_frame().assign(shrinkage=model.shrinkage_).round(3))

# %%
# Rows in hand and new rows
# -------------------------
# ``shrinkage="auto"`` moves each group's covariance towards what all groups share: small groups
# far, large ones hardly. Left, below: what FairPCA makes of the rows in hand looks like a great
# success. Right: on rows left out of the fits, the intervals of small groups are so wide that
# little can be said about them. The large groups are known well, and they pay.

found = audit(X, {"education": education}, 5)
names = {"PCA": "#D55E00", "FairPCA": "#0072B2", "careful FairPCA": "#882255"}
order = np.argsort([group.count for group in found.groups])
figure, axes = plt.subplots(1, 2, figsize=(10, 4.6), sharey=True, layout="constrained")
for shift, (name, colour) in enumerate(names.items()):
    places = np.arange(len(order)) + 0.24 * (shift - 1)
    hand, new = found.at(name, on="hand"), found.at(name, on="new")
    axes[0].plot(hand.loss[order], places, "o", color=colour, label=name)
    axes[1].plot(new.loss[order], places, "o", color=colour)
    axes[1].hlines(places, new.low[order], new.high[order], color=colour)
rows = [f"{found.groups[g].text}\n{found.groups[g].count:,} rows" for g in order]
axes[0].set_yticks(range(len(order)), rows)
axes[0].invert_yaxis()
axes[0].legend(frameon=False, loc="lower right")
titles = ("rows in hand", "new rows, with 95 % intervals")
for axis, title, reach in zip(axes, titles, ((-0.5, 10), (-6, 14)), strict=True):
    axis.axvline(0, color="0.6", lw=0.8, zorder=0)
    axis.set_title(title, fontsize="medium")
    axis.set(xlabel="loss per row, 5 components", xlim=reach)
    axis.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# What the audit says: it advises another fit than PCA only where the gain is beyond noise.

print(textwrap.fill(found.verdict(), 90))

# %%
# Merge codes that mean the same, or nothing: ``fetch_credit_default()`` by default makes one group
# "other" of the four small codes. The guide has more: :doc:`/guide/new_rows`.
