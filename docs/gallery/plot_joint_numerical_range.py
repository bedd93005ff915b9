"""
What does Fair PCA of two groups look like? The joint numerical range
=====================================================================

Every projection gives two groups a pair of losses. Drawn as points in the plane, all those pairs
form one region, which with three and more columns has no holes and no dents, and Fair PCA is the
point where the diagonal enters it. That is why two groups always have a certificate without a
gap: J. Shen, A. J. Davis, D. Lu and Z. Bai, "Hidden Convexity of Fair PCA and Fast Solver via
Eigenvalue Optimization".
"""

# %%
# Two groups in the plane, one direction
# --------------------------------------
# In two dimensions a projection on one direction is an angle. Left: rows of two groups, and all
# directions. Right: the losses that each direction, in the same colour, gives the two groups.
# They form an ellipse, and only its outline can be reached. PCA, which serves the larger group,
# is at one side of it; FairPCA is where both lose the same.

# sphinx_gallery_thumbnail_number = 2
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_wine
from sklearn.decomposition import PCA

import fairpca
from fairpca import FairPCA, GroupMoments, plots
from fairpca.datasets import make_illustration
from fairpca.metrics import group_losses

known = make_illustration(random_state=1)
X, group = known.data, known.sensitive_features
models = {"PCA": PCA(1).fit(X), "FairPCA": FairPCA(1).fit(X, sensitive_features=group)}
colours = {"PCA": "#D55E00", "FairPCA": "#0072B2"}
angles = np.linspace(0, np.pi, 181)
directions = np.column_stack([np.cos(angles), np.sin(angles)])
losses = np.array([group_losses([u], X, sensitive_features=group) for u in directions])
shades = plt.get_cmap("twilight_shifted")(angles / np.pi)

figure, axes = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
for u, shade in zip(directions[::3], shades[::3], strict=True):
    axes[0].plot(*np.outer(u, [-12, 12]), color=shade, lw=1, alpha=0.5, zorder=0)
for label, marker in zip("AB", "o^", strict=True):
    axes[0].scatter(
        *X[group == label].T, s=16, marker=marker, color="0.15", linewidths=0, label=label
    )
for name, model in models.items():
    axes[0].plot(*np.outer(model.components_[0], [-12, 12]), color=colours[name], lw=2.5)
axes[0].set(aspect="equal", xticks=[], yticks=[], xlim=(-8, 8), ylim=(-6.5, 6.5))
axes[0].spines[:].set_visible(False)
axes[0].legend(loc="lower right", title="group", framealpha=0.9)
axes[1].scatter(*losses.T, c=shades, s=22, linewidths=0)
axes[1].plot([0, 5], [0, 5], color="0.6", ls="--", lw=1)
for name, model in models.items():
    point = group_losses(model, X, sensitive_features=group)
    print(f"{name:8} loses {point[0]:.2f} of A and {point[1]:.2f} of B")
    axes[1].plot(*point, "o", color=colours[name], ms=10)
    axes[1].annotate(name, point, (4, 13), textcoords="offset points", color=colours[name])
axes[1].text(4.1, 4.4, "equal losses", color="0.45", fontsize="small", ha="right")
axes[1].set(aspect="equal", xlabel="loss of A", ylabel="loss of B", ylim=(-0.3, 5))
axes[1].spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# More dimensions fill the region
# -------------------------------
# Wine, 13 standardised columns, one kind against the two others, still one direction. The dots
# are the losses of random directions. :func:`fairpca.joint_numerical_range` computes the outline
# of all of them, from the matrices that give the losses: a direction *u* loses u'Hu, where H is
# the group's largest eigenvalue times the identity minus the group's second moment.

X, kind = load_wine(return_X_y=True)
X = (X - X.mean(axis=0)) / X.std(axis=0)
second = [X[rows].T @ X[rows] / rows.sum() for rows in (kind != 1, kind == 1)]
H = [np.linalg.eigvalsh(S)[-1] * np.eye(13) - S for S in second]
region = fairpca.joint_numerical_range(*H, 1)
solution = fairpca.solve(second, 1)
print(f"outline of {len(region.points)} points, area {region.area:.1f}")
print(solution.certificate)

# Random directions lie in the middle of the region. Multiplied by a mixture of the two matrices, a
# few times over, they lie nearer to what the groups want.
rng = np.random.default_rng(0)
directions = []
for _ in range(300):
    share = rng.uniform()
    mixture = share * second[0] + (1 - share) * second[1]
    directions.append(rng.normal(size=(8, 13)) @ np.linalg.matrix_power(mixture, rng.integers(6)))
directions = np.vstack(directions)
directions /= np.linalg.norm(directions, axis=1, keepdims=True)


def loss_pairs(directions):
    """Return the losses of the two groups, one line a direction."""
    return np.stack([np.einsum("mi,ij,mj->m", directions, matrix, directions) for matrix in H], 1)


cloud, pca = loss_pairs(directions), loss_pairs(PCA(1).fit(X).components_)[0]

# %%
# Now the dual. Take a weight *t* for the first group and 1 - *t* for the second. No projection
# has an average of the two losses, so weighted, below φ(t), which :func:`fairpca.phi` computes.
# In the middle picture that is a line which the whole region lies above, and it crosses the
# diagonal exactly at the height φ(t). So no projection has a worst loss below φ(t). The line that
# crosses highest touches the region just where the diagonal enters it: bound and value meet.

t = np.linspace(0, 1, 201)
best = float(solution.weights[0])
shown = {0.7: ("#E69F00", (8, 6)), 0.1: ("#CC79A7", (11, -13)), best: ("#0072B2", (8, 6))}
marks = {"PCA": (pca, "o", "#D55E00"), "FairPCA": (solution.losses, "s", "#0072B2")}
figure, axes = plt.subplot_mosaic(
    [["whole", "corner", "dual"]], figsize=(11, 3.9), layout="constrained"
)
edge = np.array([0, 8])
for key in ("whole", "corner"):
    axis = axes[key]
    axis.fill(*region.outline.T, facecolor="0.93", edgecolor="0.45")
    axis.scatter(*cloud.T, s=4, color="0.55", linewidths=0)
    axis.plot(edge, edge, color="0.6", ls="--", lw=1)
    for name, (point, marker, colour) in marks.items():
        axis.plot(*point, marker, color=colour, ms=8, zorder=4, clip_on=False)
        axis.annotate(
            name, point, (9, 8), textcoords="offset points", color=colour, zorder=4,
            bbox={"color": "white", "alpha": 0.8, "pad": 1.5},
        )  # fmt: skip
    axis.set(xlabel="loss of kinds 0 and 2", ylabel="loss of kind 1")
axes["whole"].set(xlim=(0, 7.2), ylim=(0, 7.2), aspect="equal")
axes["whole"].set_title("all pairs of losses", fontsize="medium")
axes["corner"].set(xlim=(0, 2.3), ylim=(0, 2.3), aspect="equal")
axes["corner"].set_title("where the diagonal enters", fontsize="medium")
axes["dual"].plot(t, fairpca.phi(second, 1, t), color="black", lw=2, zorder=1)
axes["dual"].set(xlim=(0, 1), ylim=(0, 2.3), xlabel="weight t of kinds 0 and 2", box_aspect=1)
axes["dual"].set_title("φ(t), at the same height", fontsize="medium")
for weight, (colour, beside) in shown.items():
    height = float(fairpca.phi(second, 1, weight))
    axes["corner"].plot(edge, (height - weight * edge) / (1 - weight), color=colour, lw=2)
    axes["corner"].plot([height, edge[1]], [height, height], color=colour, lw=1.2, ls=":")
    axes["dual"].plot([0, weight], [height, height], color=colour, lw=1.2, ls=":")
    axes["dual"].plot(weight, height, "o", color=colour, ms=8)
    axes["dual"].annotate(
        f"t = {weight:.2f}", (weight, height), beside, textcoords="offset points", color=colour
    )
for axis in axes.values():
    axis.spines[["top", "right"]].set_visible(False)
plt.show()

# %%
# For your own two groups both pictures are one line each, and work with any number of components.

moments = GroupMoments.from_array(X, np.where(kind == 1, "kind 1", "kinds 0 and 2"))
figure, axes = plt.subplots(1, 2, figsize=(9.6, 4.2), layout="constrained")
plots.NumericalRangeDisplay.from_moments(moments, 2, ax=axes[0])
plots.DualDisplay.from_moments(moments, 2, ax=axes[1])
print(fairpca.solve(moments, 2).certificate)
plt.show()

# %%
# Three groups have losses in space, and there the region may have dents:
# :ref:`sphx_glr_auto_gallery_plot_three_lines.py`. The proof for two groups is in
# :doc:`/theory/two_groups`.
