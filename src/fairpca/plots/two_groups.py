"""The mathematics of two groups in pictures: the dual function and the joint numerical range."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from fairpca._arrays import FloatArray, orthonormal
from fairpca._check import check_names
from fairpca.auditing.words import label_texts
from fairpca.covariances.dense import leading_pairs
from fairpca.covariances.sources import MomentCovariances
from fairpca.fitting import pose, solve
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.groups import Labels, Model, Rows, Weights
from fairpca.paths import JointNumericalRange, joint_numerical_range, phi
from fairpca.plots.displays import CANDIDATES, Display, drawable, ink
from fairpca.solvers.problem import Problem

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class _TwoGroupDisplay(Display):
    """A display of two groups, made from their moments."""

    @classmethod
    def from_estimator(
        cls,
        estimator: Model,
        X: Rows,
        *,
        sensitive_features: Labels,
        sample_weight: Weights = None,
        ax: Axes | None = None,
        **options: Any,
    ) -> Self:
        """Draw two groups of rows beside a fitted linear reducer, with as many components.

        Parameters
        ----------
        estimator : fitted estimator with `components_`
            It is not fitted again. `DualDisplay` uses the number of its components alone.
        X, sensitive_features, sample_weight
            Rows, labels and weights as in `FairPCA.fit`.
        ax : matplotlib Axes, optional
            Default: a new figure.
        **options
            Of `from_moments`.
        """
        basis = orthonormal(np.asarray(estimator.components_, dtype=float).T)
        check_names(estimator, X)
        moments = GroupMoments.from_array(X, sensitive_features, sample_weight=sample_weight)
        center = "group" if getattr(estimator, "center", "global") == "group" else "global"
        options = {"center": center, "ax": ax, **options}
        return cls._beside(moments, basis, type(estimator).__name__, **options)

    @classmethod
    def _beside(cls, moments: GroupMoments, basis: FloatArray, name: str, **options: Any) -> Self:
        """Draw the groups; `NumericalRangeDisplay` shows the basis under its name."""
        raise NotImplementedError

    @staticmethod
    def _posed(
        moments: GroupMoments, r: int, center: str
    ) -> tuple[Problem, FloatArray, list[str]]:
        """Return the problem of two groups, their matrices and what they are called."""
        source = MomentCovariances(moments, "intersection", center)
        labels = source.groups.labels
        if len(labels) != 2:
            raise ValueError(
                f"this picture is of two groups and there are {len(labels)}; select two of "
                "them first."
            )
        texts = label_texts(labels, source.groups.names, "intersection")
        return pose(source.covariances, r, "loss"), source.covariances, texts


@dataclass(eq=False, repr=False)
class DualDisplay(_TwoGroupDisplay):
    """phi(t), the lower bound on every projection's worst loss, and the value attained.

    phi(t) is the smallest t-weighted average of the two losses that any projection has; see
    `fairpca.phi`. No worst loss is below it, for any t. With two groups its maximum is attained:
    where the curve touches the dashed line, the projection is proven to be the best.

    Parameters
    ----------
    t, phi : ndarray of shape (n_points,)
        Weights of the first group, and the bound at each.
    t_best, value : float
        The weight at which the bound is largest, and the worst loss of FairPCA.
    groups : list of str
        The two groups.

    Attributes
    ----------
    line_ : Line2D of the curve

    Examples
    --------
    >>> from fairpca import FairPCA, plots
    >>> from sklearn.datasets import load_wine
    >>> X, kind = load_wine(return_X_y=True)
    >>> model = FairPCA(2).fit(X, sensitive_features=kind == 0)
    >>> display = plots.DualDisplay.from_estimator(model, X, sensitive_features=kind == 0)
    >>> bool(abs(display.phi.max() - display.value) < 1e-6 * display.value)
    True
    """

    _size = (6, 3.8)
    t: FloatArray
    phi: FloatArray
    _: KW_ONLY
    t_best: float
    value: float
    groups: list[str]

    @classmethod
    def from_moments(
        cls,
        moments: GroupMoments,
        n_components: int,
        *,
        n_points: int = 101,
        center: str = "global",
        ax: Axes | None = None,
    ) -> Self:
        """Draw phi for the moments of two groups and return the display.

        Parameters
        ----------
        moments : GroupMoments
            Of two groups.
        n_components : int
            Number of components.
        n_points : int, default=101
            Weights at which phi is computed, beside the best one. Each takes a decomposition.
        center : {"global", "group"}, default="global"
            Whether losses are about the mean of all rows or about each group's own.
        ax : matplotlib Axes, optional
            Default: a new figure.
        """
        _, covariances, groups = cls._posed(moments, n_components, center)
        solution = solve(covariances, n_components)
        t_best, value = float(solution.weights[0]), float(solution.losses.max())
        # The maximum can be a corner of the curve, which a grid without it would cut off.
        t = np.unique(np.append(np.linspace(0, 1, n_points), t_best))
        bound = phi(covariances, n_components, t)
        return cls(t, bound, t_best=t_best, value=value, groups=groups).plot(ax=ax)

    @classmethod
    def _beside(cls, moments: GroupMoments, basis: FloatArray, name: str, **options: Any) -> Self:
        return cls.from_moments(moments, basis.shape[1], **options)

    def _draw(self, axes: Any) -> None:
        colour, _ = CANDIDATES["FairPCA"]
        top = float(self.phi.max())
        # Where no group loses anything all is zero, and the axis still needs a length.
        axes.set(xlim=(0, 1), ylim=(0, 1.15 * max(top, self.value) or 1.0))
        (self.line_,) = axes.plot(self.t, self.phi, color=colour, lw=2)
        axes.fill_between(self.t, self.phi, color=colour, alpha=0.12, lw=0)
        axes.axhline(self.value, color=ink(), alpha=0.6, ls="--", lw=1)
        axes.plot(self.t_best, top, "o", color=colour)
        offset = {"textcoords": "offset points", "fontsize": "small"}
        right = self.t_best < 0.5
        place = {"xytext": (-4 if right else 4, 4), "ha": "right" if right else "left"}
        axes.annotate("worst loss of FairPCA", (float(right), self.value), **place, **offset)
        axes.annotate(
            f"t = {self.t_best:.3g}", (self.t_best, top), xytext=(0, -16), ha="center", **offset
        )
        first, second = map(drawable, self.groups)
        axes.set(
            xlabel=f"weight t of group {first}, 1 − t of {second}",
            ylabel="bound φ(t) on the worst loss",
        )


@dataclass(eq=False, repr=False)
class NumericalRangeDisplay(_TwoGroupDisplay):
    """All pairs of losses two groups can have, and where PCA and FairPCA stand among them.

    Parameters
    ----------
    range_ : JointNumericalRange
        Of the two loss matrices, from `fairpca.joint_numerical_range`.
    points : dict of str to pair of float
        Losses of projections, by name.
    groups : list of str
        The two groups.

    Attributes
    ----------
    outline_ : Polygon of the range
    points_ : dict of str to Line2D, the projections by name

    Examples
    --------
    >>> from fairpca import FairPCA, plots
    >>> from sklearn.datasets import load_wine
    >>> X, kind = load_wine(return_X_y=True)
    >>> model = FairPCA(2).fit(X, sensitive_features=kind == 0)
    >>> draw = plots.NumericalRangeDisplay.from_estimator
    >>> sorted(draw(model, X, sensitive_features=kind == 0).points)
    ['FairPCA', 'PCA']
    """

    _size = (5.4, 5)
    range_: JointNumericalRange
    _: KW_ONLY
    points: dict[str, tuple[float, float]]
    groups: list[str]

    @classmethod
    def from_moments(
        cls,
        moments: GroupMoments,
        n_components: int,
        *,
        center: str = "global",
        ax: Axes | None = None,
    ) -> Self:
        """Draw the range of two groups' losses, PCA and FairPCA, and return the display.

        Parameters
        ----------
        moments, n_components, center, ax
            As in `DualDisplay.from_moments`.
        """
        _, covariances, _ = cls._posed(moments, n_components, center)
        basis = solve(covariances, n_components).components.T
        return cls._beside(moments, basis, "FairPCA", center=center, ax=ax)

    @classmethod
    def _beside(
        cls,
        moments: GroupMoments,
        basis: FloatArray,
        name: str,
        *,
        center: str = "global",
        ax: Axes | None = None,
        **_: Any,
    ) -> Self:
        r = basis.shape[1]
        problem, covariances, groups = cls._posed(moments, r, center)
        pca = leading_pairs(moments.pooled().covariances[0], r).vectors
        # A basis U with r columns loses trace(U' H U) in the group whose matrix H is.
        eye = np.eye(len(pca))
        first, second = problem.offsets[:, None, None] / r * eye - covariances
        points = {}
        for label, columns in {"PCA": pca, name: basis}.items():
            x, y = problem.losses(columns)
            points[label] = (float(x), float(y))
        # Finer than the line it is drawn with, also where the corner of good ones is enlarged.
        range_ = joint_numerical_range(first, second, r, tol=2e-3, max_angles=256)
        return cls(range_, points=points, groups=groups).plot(ax=ax)

    def _draw(self, axes: Any) -> None:
        outline = self.range_.outline
        # The corner where good projections lie; all of a large range would make it a dot.
        top = min(1.02 * float(outline.max()), 3 * max(map(max, self.points.values())) or 1.0)
        grey = {"color": ink(), "alpha": 0.16, "lw": 0, "label": "what some projection does"}
        (self.outline_,) = axes.fill(*outline.T, **grey)
        axes.plot([0, top], [0, top], color=ink(), alpha=0.6, ls="--", lw=1, label="equal losses")
        self.points_ = {}
        for name, (x, y) in self.points.items():
            colour, marker = CANDIDATES.get(name, CANDIDATES["FairPCA"])
            # Losses of zero lie on the axes, which would cut their marks in half.
            options = {"color": colour, "ms": 9, "label": drawable(name), "clip_on": False}
            (self.points_[name],) = axes.plot(x, y, marker, **options)
        # Equal scales: only then is the diagonal the line of equal losses to the eye.
        axes.set(xlim=(0, top), ylim=(0, top), aspect="equal")
        first, second = (f"loss of group {drawable(group)}" for group in self.groups)
        axes.set(xlabel=first, ylabel=second)
        axes.legend(frameon=False, fontsize="small", loc="upper right")
