"""
How many components are enough for every group?
===============================================

"As many as keep 80 % of the variance" is a common rule, and it is about all rows together. A
group may keep far less. This example finds the fewest components with which *every* group keeps
its share, under PCA and under FairPCA.
"""

# %%
# The usual rule
# --------------
# Handwritten digits; the groups are the ten digits. How much of each digit's variance do the
# components keep that keep 80 % of everything?

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA

from fairpca import FairPCA, GroupMoments, component_path
from fairpca.metrics import group_shares

X, digit = load_digits(return_X_y=True)
moments = GroupMoments.from_array(X, digit)
wanted = 0.8

usual = PCA(wanted, svd_solver="full").fit(X)
kept = group_shares(usual, moments)
low = int(np.argmin(kept))
print(f"PCA keeps {wanted:.0%} of all variance with {usual.n_components_} components,")
print(f"and of the digit {moments.labels[low]} it keeps {kept[low]:.0%}.")

# %%
# Every number of components at once
# ----------------------------------
# :func:`fairpca.component_path` solves all numbers of components from one count of the moments,
# each starting from its neighbour. ``criterion="share"`` makes the smallest share of any group as
# large as possible. For comparison, the shares that PCA leaves each digit.

most = 24
path = component_path(moments, most, criterion="share")
full = PCA(most).fit(X).components_
by_pca = np.array([group_shares(full[:r], moments) for r in path.n_components])
gaps = [certificate.gap for certificate in path.certificates]
print(f"proven optimal: {sum(gap < 1e-8 for gap in gaps)} of {most}, largest gap {max(gaps):.1%}")


def enough(shares):
    """Return the fewest components with which the smallest share is what was wanted."""
    return int(path.n_components[np.argmax(shares.min(axis=1) >= wanted)])


needed = {"PCA": enough(by_pca), "FairPCA": enough(path.shares)}
for name, count in needed.items():
    print(f"every digit keeps {wanted:.0%}: {count} components of {name}")

# %%
# Each grey line is a digit, the coloured one the digit that keeps least. Under PCA the digits are
# far apart, and the worst of them reaches the line long after the average does. Under FairPCA the
# worst one runs close below the average of all rows under PCA, which nothing can beat.

pooled = np.cumsum(PCA(most).fit(X).explained_variance_ratio_)
colours = {"PCA": "#D55E00", "FairPCA": "#0072B2"}
figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), sharey=True, layout="constrained")
for axis, (name, shares) in zip(
    axes, {"PCA": by_pca, "FairPCA": path.shares}.items(), strict=True
):
    axis.plot(path.n_components, shares, color="0.78", lw=1)
    axis.plot([], [], color="0.78", lw=1, label="each digit")
    axis.plot(path.n_components, pooled, color="black", ls="--", lw=1.4, label="all rows, PCA")
    axis.plot(
        path.n_components,
        shares.min(axis=1),
        color=colours[name],
        lw=2.6,
        label="the least of any",
    )
    axis.axhline(wanted, color="0.5", lw=0.8, ls=":")
    axis.plot(needed[name], shares[needed[name] - 1].min(), "o", color=colours[name], ms=9)
    axis.annotate(
        f"{needed[name]} components",
        (needed[name], wanted),
        (10, -22),
        textcoords="offset points",
        color=colours[name],
    )
    axis.set_title(name, fontsize="medium")
    axis.set(xlabel="number of components", ylim=(0, 1), xlim=(1, most))
    axis.spines[["top", "right"]].set_visible(False)
    axis.legend(frameon=False, loc="lower right")
axes[0].set_ylabel("share of variance kept")
plt.show()

# %%
# In one line
# -----------
# A number below one as ``n_components`` asks for exactly this: the fewest components with which
# every group can keep that share.

model = FairPCA(wanted, criterion="share").fit_moments(moments)
print(f"FairPCA({wanted}) takes {model.n_components_} components")
print("least share kept:", model.group_shares_.min().round(3))

# %%
# Whom the choice is about
# ------------------------
# The dual weights tell who binds, and how much: the more weight a group has, the more it is the
# one that keeps the others from more, and a group with weight zero could be left out and nothing
# would change. One digit stands out; it is the one that PCA served worst.

figure, axis = plt.subplots(figsize=(7.6, 3.9), layout="constrained")
drawn = axis.imshow(path.weights.T, aspect="auto", cmap="Blues", vmin=0)
axis.set_yticks(range(10), [str(label) for label in path.groups])
shown = np.arange(0, most, 3)
axis.set_xticks(shown, path.n_components[shown])
axis.set(xlabel="number of components", ylabel="digit")
axis.spines[:].set_visible(False)
figure.colorbar(drawn, ax=axis, label="dual weight")
heaviest = path.weights[:, low]
print(f"weight of the digit {moments.labels[low]}: {heaviest.min():.2f} to {heaviest.max():.2f}")
plt.show()

# %%
# * Choose the number of components by the group that keeps least, and say which number you took.
# * A few more components of PCA may do as well as FairPCA, here four; the picture says how many.
# * ``criterion="share"`` is about variance kept. Losses against a group's own PCA are another
#   question: :doc:`/guide/criteria`. More about the number: :doc:`/guide/n_components`.
