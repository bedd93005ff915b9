"""
May I keep the first few components of a fit? Nested components
===============================================================

The first five components of a PCA with eight are the PCA with five. People rely on that: they fit
once and cut later. FairPCA is not like that. The best eight components for the worst group do not
contain the best five. ``nested=True`` makes a sequence that may be cut anywhere, and this example
measures what the cut costs without it, and what the sequence costs with it.
"""

# %%
# Cutting a fit that is not nested
# --------------------------------
# Handwritten digits in two groups, those below five and the others.

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from fairpca import FairPCA, GroupMoments
from fairpca.metrics import group_losses

X, digit = load_digits(return_X_y=True)
group = np.where(digit < 5, "0 to 4", "5 to 9")
moments = GroupMoments.from_array(X, group)
r = 8

free = FairPCA(r).fit_moments(moments)
five = FairPCA(5).fit_moments(moments)
print("worst loss of 5 components, fitted as 5:", five.group_losses_.max().round(1))
print(
    "the first 5 of 8:                       ",
    group_losses(free.components_[:5], moments).max().round(1),
)

# %%
# Two sequences that may be cut
# -----------------------------
# "forward" (or ``True``) begins with the best single component and adds the best next one,
# carrying the debts of earlier steps, after Matakos, Ciaperoni and Mannila (2025). "backward"
# begins with the best eight and drops the one that is needed least, and so on. ``nested_values_``
# is the worst value at every length, ``nested_bounds_`` what no projection of that length can go
# below.

forward = FairPCA(r, nested="forward").fit_moments(moments)
backward = FairPCA(r, nested="backward").fit_moments(moments)
bounds = forward.nested_bounds_
pca = PCA(r).fit(X)
worst = {
    "PCA, cut": [group_losses(pca.components_[:j], moments).max() for j in range(1, r + 1)],
    "FairPCA, cut": [group_losses(free.components_[:j], moments).max() for j in range(1, r + 1)],
    "nested forward": forward.nested_values_,
    "nested backward": backward.nested_values_,
}
print("components     ", *(f"{j:7d}" for j in range(1, r + 1)))
for name, values in worst.items():
    print(f"{name:15}", *(f"{value:7.1f}" for value in values))
print("no one below   ", *(f"{bound:7.1f}" for bound in bounds))

# %%
# How far is each sequence above the bound? Zero is the best fit of that length, which takes a fit
# of its own. FairPCA that is cut has about the losses of PCA until nearly all components are
# kept. Forward costs nothing at the beginning and backward nothing at the end; neither is best
# everywhere.

styles = {
    "PCA, cut": {"color": "#D55E00", "marker": "o"},
    "FairPCA, cut": {"color": "#0072B2", "marker": "o", "ls": ":"},
    "nested forward": {"color": "#009E73", "marker": ">"},
    "nested backward": {"color": "#5D3A9B", "marker": "<"},
}
lengths = np.arange(1, r + 1)
figure, axis = plt.subplots(figsize=(7.6, 4), layout="constrained")
for name, values in worst.items():
    above = 100 * (np.asarray(values) / bounds - 1)
    axis.plot(lengths, above, lw=2, ms=7, label=name, **styles[name])
axis.axhline(0, color="0.6", lw=0.8, zorder=0)
axis.set(xlabel="components kept", ylabel="worst loss above the bound (%)")
axis.spines[["top", "right"]].set_visible(False)
axis.legend(frameon=False)
plt.show()

# %%
# What the components look like
# -----------------------------
# The eight components of each fit, in the order in which they are kept. Those of a free fit are
# sorted by the variance of all rows, like PCA's, so cutting them keeps what the large variance
# wants and not what the worst group needs. Nested ones keep their order.

rows = {"PCA": pca, "FairPCA": free, "forward": forward, "backward": backward}
figure, axes = plt.subplots(4, r, figsize=(9, 5), layout="constrained")
for line, (name, model) in zip(axes, rows.items(), strict=True):
    # The sign of a component means nothing; take the one that is nearer to PCA's.
    signs = np.sign(np.sum(model.components_ * pca.components_, axis=1))
    for axis, component in zip(line, signs[:, None] * model.components_, strict=True):
        limit = np.abs(component).max()
        axis.imshow(
            component.reshape(8, 8), cmap="RdBu", vmin=-limit, vmax=limit, interpolation="bicubic"
        )
        axis.set(xticks=[], yticks=[])
        axis.spines[:].set_visible(False)
    line[0].set_ylabel(name)
for j, axis in enumerate(axes[0]):
    axis.set_title(str(j + 1), fontsize="medium")
plt.show()

# %%
# A nested sequence can also be made longer: forward components do not change when more are asked
# for.

shorter = FairPCA(5, nested="forward").fit_moments(moments)
same = np.allclose(np.abs(np.sum(shorter.components_ * forward.components_[:5], axis=1)), 1)
print("forward with 5 and the first 5 of 8 are the same:", same)
print(forward.certificate_)

# %%
# Which one to take
# -----------------
# * You know how many components you want: leave ``nested`` out.
# * The number is chosen later, or differs from user to user: ``nested="forward"`` if few
#   components matter most, ``"backward"`` if nearly all will be kept.
# * ``certificate_`` compares the last length with the free optimum, so it shows a gap by design:
#   that gap is the price of being nested.
