"""
Why does my certificate not close? Three lines and a true gap
=============================================================

With two groups the value and the lower bound of a certificate always meet. With three they may
not, and this example shows the smallest case in which no better projection exists *and* the dual
bound stays far below: three groups on three lines. It also shows what closes such a gap: a search
(``prove=True``).
"""

# %%
# Three lines, one component
# --------------------------
# Each group lies on a line of a plane, 60 degrees from the next, and one direction must serve
# all. :func:`fairpca.datasets.make_three_lines` knows the answer.

# sphinx_gallery_thumbnail_number = 2
import matplotlib.pyplot as plt
import numpy as np

import fairpca
from fairpca import FairPCA, GroupMoments
from fairpca.datasets import make_three_lines

known = make_three_lines(1000, n_features=2, random_state=0)
X, group = known.data, known.sensitive_features
moments = GroupMoments.from_array(X, group)
covariances = [np.cov(X[group == label].T, bias=True) for label in ("0", "60", "120")]
print(f"best worst loss {known.optimum}, best dual bound {known.lower_bound}")

# %%
# A group at angle *a* loses sin² of the angle between its line and the direction. Left: the rows.
# Right: what each group loses, for all directions. Whichever direction one takes, some line is at
# least 60 degrees away, so the worst loss (black) never falls below 3/4. On average over the
# groups every direction loses exactly 1/2, and averages are all that the dual sees.

palette = {"0": "#009E73", "60": "#CC79A7", "120": "#E69F00"}
degrees = np.linspace(0, 180, 361)
directions = np.array([np.cos(np.deg2rad(degrees)), np.sin(np.deg2rad(degrees))])
losses = np.array([1 - np.einsum("id,ij,jd->d", directions, S, directions) for S in covariances])

figure, axes = plt.subplots(1, 2, figsize=(9.6, 3.9), layout="constrained", width_ratios=[1, 1.45])
for label, colour in palette.items():
    axes[0].scatter(*X[group == label][::40].T, s=26, color=colour, linewidths=0)
best = known.components[0]
axes[0].axline((0, 0), best, color="black", lw=1.5, zorder=0)
axes[0].set(aspect="equal", xticks=[], yticks=[])
axes[0].set_title("three groups, one direction", fontsize="medium")
axes[0].spines[:].set_visible(False)
for values, (label, colour) in zip(losses, palette.items(), strict=True):
    axes[1].plot(degrees, values, color=colour, lw=2, label=f"group at {label}°")
axes[1].plot(degrees, losses.max(axis=0), color="black", lw=2.5, label="worst loss")
axes[1].axhline(known.lower_bound, color="0.45", ls=":", lw=1.8, label="dual bound")
axes[1].axhspan(known.lower_bound, known.optimum, color="0.92", zorder=0, label="the gap")
axes[1].set(xlim=(0, 180), ylim=(0, 1.04), xlabel="direction (degrees)", ylabel="loss")
axes[1].set_xticks([0, 30, 60, 90, 120, 150, 180])
axes[1].spines[["top", "right"]].set_visible(False)
axes[1].legend(frameon=False, loc="upper left", bbox_to_anchor=(1, 1), fontsize="small")
plt.show()

# %%
# What the dual believes
# ----------------------
# The dual weighs the groups and bounds the worst loss by the weighted loss of the direction that
# is best for these weights: :func:`fairpca.phi`. Here it is over all weights of three groups. Its
# highest point is in the middle, where all groups weigh the same, and it is 1/2.

m = 60
steps = [(i, j, m - i - j) for i in range(m + 1) for j in range(m + 1 - i)]
weights = np.array(steps) / m
bound = fairpca.phi(covariances, 1, weights)
corners = np.array([[0, 0], [1, 0], [0.5, np.sqrt(3) / 2]])
places = weights @ corners
print(f"largest phi {bound.max():.6f} at weights {weights[bound.argmax()].round(3)}")

figure, axis = plt.subplots(figsize=(6.4, 4.6), layout="constrained")
levels = np.linspace(0, 0.5, 11)
filled = axis.tricontourf(*places.T, bound, levels=levels, cmap="Blues")
axis.tricontour(*places.T, bound, levels=levels, colors="white", linewidths=0.7)
axis.plot(*places[bound.argmax()], "o", color="black", ms=7)
for (x, y), label in zip(corners, palette, strict=True):
    above, va = (0.03, "bottom") if y else (-0.03, "top")
    axis.text(x, y + above, f"all weight on {label}°", ha="center", va=va, color="0.25")
axis.set(aspect="equal", xticks=[], yticks=[], xlim=(-0.16, 1.16), ylim=(-0.1, 0.96))
axis.spines[:].set_visible(False)
figure.colorbar(filled, ax=axis, shrink=0.75, label="φ, bound on the worst loss")
plt.show()

# %%
# A search that proves it
# -----------------------
# Where the dual leaves a gap, all directions are divided into sectors, each sector gets a bound
# of its own, and the sector with the smallest bound is divided further: branch and bound. A
# default fit searches small problems while that is cheap; ``prove=True`` searches on, for up to a
# minute. ``nodes`` counts the sectors that were bounded.

model = FairPCA(1).fit_moments(moments)
print(model.certificate_)
print("losses", model.group_losses_.round(6))

# %%
# More lines, larger gaps
# -----------------------
# With more lines, evenly spaced, the dual still believes in 1/2 and the truth moves towards 1.
# The search proves every one of them, to a millionth. (Tantipongpipat et al. 2019 have a gap of
# another kind, and show that with many groups the problem is NP-hard.)

counts = [3, 4, 5, 6, 7]
values, duals, proven, nodes = [], [], [], []
for k in counts:
    angles = np.pi * np.arange(k) / k
    lines = np.column_stack([np.cos(angles), np.sin(angles)])
    matrices = [np.outer(line, line) for line in lines]
    solution = fairpca.solve(matrices, 1, prove=True, tol=1e-6)
    values.append(solution.certificate.value)
    proven.append(solution.certificate.lower_bound)
    nodes.append(solution.certificate.nodes)
    duals.append(float(fairpca.phi(matrices, 1, np.full(k, 1 / k))))
    print(f"{k:2d} lines: {solution.certificate}")

figure, axis = plt.subplots(figsize=(7.2, 3.6), layout="constrained")
axis.vlines(counts, duals, proven, color="0.85", lw=9)
axis.plot(counts, values, "o", color="#0072B2", ms=9, label="worst loss of FairPCA")
axis.plot(counts, proven, "_", color="black", ms=20, mew=2, label="bound of the search")
axis.plot(counts, duals, "_", color="0.45", ms=20, mew=2, label="bound of the dual")
axis.set(ylabel="worst loss", ylim=(0.4, 1.02), xlim=(2.5, 7.5))
axis.set_xticks(counts, [f"{k} lines\n{n} nodes" for k, n in zip(counts, nodes, strict=True)])
axis.spines[["top", "right"]].set_visible(False)
axis.legend(frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
plt.show()

# %%
# When your own certificate does not close
# ----------------------------------------
# * Read it: "at most 0.3 % could be gained" is often all one needs to know.
# * ``FairPCA(..., prove=True)`` looks for a better projection and a better bound, for tables of
#   up to 256 columns.
#
# Why two groups never have a gap: :ref:`sphx_glr_auto_gallery_plot_joint_numerical_range.py`. How
# the search works: :doc:`/theory/branch_and_bound`.
