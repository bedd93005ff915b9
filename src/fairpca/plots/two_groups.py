"""The mathematics of two groups in pictures: the dual function and the joint numerical range."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np

from fairpca._check import check_names
from fairpca._arrays import FloatArray
from fairpca.auditing.findings import Audit
from fairpca.auditing.verdict import label_texts
from fairpca.covariances.dense import leading_pairs
from fairpca.covariances.sources import MomentCovariances
from fairpca.fitting import solve
from fairpca.metrics import as_moments, basis_of, kept_variance, own_variance
from fairpca.moments.group_moments import GroupMoments
from fairpca.paths import JointNumericalRange, joint_numerical_range, phi
from fairpca.plots.display import FAIR_COLOUR, PCA_COLOUR, Display, center_of, drawable

# How far the outline of the range may be from the true one, as a share of its diameter. A
# hundredth of the picture is finer than the line it is drawn with.
_TOLERANCE = 1e-2


class _TwoGroupDisplay(Display):
    """A display of two groups, made from their moments."""

    # Whether `from_moments` takes a projection to show, as `basis` and `name`.
    _shows_projection: ClassVar[bool] = False

    @classmethod
    def from_audit(
        cls, audit: Audit, *, n_components: int | None = None, ax: Any = None, **options: Any
    ) -> Self:
        """Draw an audit of two groups.

        Parameters
        ----------
        audit : Audit
            What `fairpca.audit` returned, not read from a file.
        n_components, ax
            As in `GroupLossDisplay.from_audit`; any number of components.
        **options
            Of `from_moments`.
        """
        r = audit.n_components if n_components is None else n_components
        if audit.moments is None:
            raise ValueError(
                "this audit was read from a file, which holds no covariances; run the audit "
                "again, or use from_estimator."
            )
        options = {"center": audit.center, "ax": ax, **options}
        return cls.from_moments(audit.moments, r, **options)  # type: ignore[attr-defined,no-any-return]

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        sensitive_features: Any,
        sample_weight: Any = None,
        ax: Any = None,
        **options: Any,
    ) -> Self:
        """Draw two groups at the number of components of a fitted estimator.

        Parameters
        ----------
        estimator : fitted estimator with `components_`
            It is not fitted again. `NumericalRangeDisplay` shows its losses; `DualDisplay` uses
            the number of its components alone.
        X, sensitive_features, sample_weight, ax
            As in `GroupLossDisplay.from_estimator`; `X` may be GroupMoments. Two groups in all.
        **options
            Of `from_moments`.
        """
        basis = basis_of(estimator)
        check_names(estimator, X)
        options = {"center": center_of(estimator), "ax": ax, **options}
        if cls._shows_projection:
            options |= {"basis": basis, "name": type(estimator).__name__}
        moments = as_moments(X, sensitive_features, sample_weight).grouped()
        return cls.from_moments(moments, basis.shape[1], **options)  # type: ignore[attr-defined,no-any-return]

    @staticmethod
    def _two_groups(moments: GroupMoments, center: str) -> tuple[FloatArray, list[str]]:
        """Return the matrices of the two groups and what they are called.

        Raises ValueError unless there are two. Rows without a label are in no group.
        """
        source = MomentCovariances(moments, "intersection", center)
        labels = source.groups.labels
        if len(labels) != 2:
            raise ValueError(
                f"this picture is of two groups and there are {len(labels)}; select two of "
                "them first."
            )
        return source.covariances, label_texts(labels, source.groups.names, "intersection")


@dataclass(eq=False, repr=False)
class DualDisplay(_TwoGroupDisplay):
    """phi(t), the lower bound on every projection's worst loss, and the value attained.

    phi(t) is the smallest t-weighted average of the two losses that any projection has; see
    `fairpca.phi`. No worst loss is below it, for any t. With two groups its maximum is attained:
    where the curve touches the dotted line, the projection is proven to be the best.

    Parameters
    ----------
    t, phi : ndarray of shape (n_points,)
        Weights of the first group, and the bound at each.
    t_best, value : float
        The weight at which the bound is largest, and the worst loss of the fair projection.
    groups : list of str
        The two groups.
    n_components : int
        Number of components of all projections.

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

    _size = (6, 4)
    t: FloatArray
    phi: FloatArray
    _: KW_ONLY
    t_best: float
    value: float
    groups: list[str]
    n_components: int

    @classmethod
    def from_moments(
        cls,
        moments: GroupMoments,
        n_components: int,
        *,
        n_points: int = 101,
        center: str = "global",
        ax: Any = None,
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
        covariances, texts = cls._two_groups(moments, center)
        solution = solve(covariances, n_components)
        t_best = float(solution.weights[0])
        # The maximum can be a corner of the curve, which a grid without it would cut off.
        t = np.unique(np.append(np.linspace(0, 1, n_points), t_best))
        bound, value = phi(covariances, n_components, t), float(solution.losses.max())
        found = cls(t, bound, t_best=t_best, value=value, groups=texts, n_components=n_components)
        return found.plot(ax=ax)

    def _draw(self, axes: Any) -> None:
        """Draw the curve, its maximum and the value attained."""
        top = float(self.phi.max())
        (self.line_,) = axes.plot(self.t, self.phi, color=FAIR_COLOUR, label="φ(t)")
        axes.axhline(self.value, color="0.45", linestyle=":", label="worst loss of FairPCA")
        axes.plot(self.t_best, top, "o", color=FAIR_COLOUR)
        below = {"xytext": (0, -16), "textcoords": "offset points", "ha": "center"}
        axes.annotate(f"t = {self.t_best:.3f}", (self.t_best, top), **below)
        # Where no group loses anything all is zero, and the axis still needs a length.
        axes.set(xlim=(0, 1), ylim=(0, 1.12 * max(top, self.value, 1e-300)))
        axes.set(
            xlabel=f"weight t of {drawable(self.groups[0])}", ylabel="bound on the worst loss"
        )
        axes.legend(frameon=False, loc="lower center")


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
    >>> from fairpca import audit, plots
    >>> from sklearn.datasets import load_wine
    >>> X, kind = load_wine(return_X_y=True)
    >>> found = audit(X, kind == 0, 2, n_bootstrap=0)
    >>> sorted(plots.NumericalRangeDisplay.from_audit(found).points)
    ['FairPCA', 'PCA']
    """

    _size = (5.2, 5)
    _shows_projection: ClassVar[bool] = True
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
        basis: FloatArray | None = None,
        name: str = "FairPCA",
        n_angles: int = 64,
        center: str = "global",
        ax: Any = None,
    ) -> Self:
        """Draw the range of two groups' losses and return the display.

        Parameters
        ----------
        moments, n_components, center, ax
            As in `DualDisplay.from_moments`.
        basis : ndarray of shape (n, n_components), optional
            Orthonormal columns of the projection to show beside PCA. Default: the fair one.
        name : str, default="FairPCA"
            What it is called.
        n_angles : int, default=64
            Directions in which the outline is computed first; more follow where it bends.
        """
        covariances, texts = cls._two_groups(moments, center)
        own = own_variance(covariances, n_components)
        pca = leading_pairs(moments.pooled().covariances[0], n_components).vectors
        # A basis U with as many columns loses trace(U' H U) in the group whose matrix H is.
        first, second = own[:, None, None] / n_components * np.eye(len(pca)) - covariances
        if basis is None:
            basis = solve(covariances, n_components).components.T
        losses = {"PCA": own - kept_variance(pca, covariances)}
        losses[name] = own - kept_variance(basis, covariances)
        points = {label: (float(x), float(y)) for label, (x, y) in losses.items()}
        angles = {"n_angles": n_angles, "max_angles": 4 * n_angles}
        range_ = joint_numerical_range(first, second, n_components, tol=_TOLERANCE, **angles)
        return cls(range_, points=points, groups=texts).plot(ax=ax)

    def _draw(self, axes: Any) -> None:
        """Draw the range, the diagonal of equal losses and the projections."""
        outline = self.range_.outline
        top = float(outline.max())
        (self.outline_,) = axes.fill(
            *outline.T, facecolor="0.92", edgecolor="0.45", label="every projection"
        )
        axes.plot([0, top], [0, top], color="0.6", linestyle="--", label="equal losses")
        self.points_ = {}
        for name, (x, y) in self.points.items():
            marker, colour = ("o", PCA_COLOUR) if name == "PCA" else ("s", FAIR_COLOUR)
            # Losses of zero lie on the axes, which would cut their marks in half.
            options = {"color": colour, "label": drawable(name), "clip_on": False}
            (self.points_[name],) = axes.plot(x, y, marker, **options)
        # Equal scales: only then is the diagonal the line of equal losses to the eye.
        axes.set(xlim=(0, top * 1.02), ylim=(0, top * 1.02), aspect="equal")
        first, second = (f"loss of {drawable(group)}" for group in self.groups)
        axes.set(xlabel=first, ylabel=second)
        axes.legend(frameon=False, fontsize="small")
