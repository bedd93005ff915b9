"""The mathematics of two groups in pictures: the dual function and the joint numerical range."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np

from fairpca._linalg import FloatArray
from fairpca.auditing.findings import Audit
from fairpca.auditing.verdict import label_texts
from fairpca.covariances.eigenpairs import leading_pairs
from fairpca.covariances.sources import MomentCovariances
from fairpca.fitting import solve
from fairpca.metrics import as_moments, basis_of, kept_variance, own_variance
from fairpca.moments.group_moments import GroupMoments
from fairpca.numerical_range import JointNumericalRange, joint_numerical_range, phi
from fairpca.plots.display import Display, center_of
from fairpca.plots.style import FAIR_COLOUR, PCA_COLOUR, drawable

# How far the outline of the range may be from the true one, as a share of its diameter. A
# hundredth of the picture is finer than the line it is drawn with.
_TOLERANCE = 1e-2


class _TwoGroupDisplay(Display):
    """A display of two groups, made from their moments."""

    # Every subclass has one, each with parameters of its own.
    from_moments: ClassVar[Callable[..., Any]]

    @classmethod
    def from_audit(
        cls, audit: Audit, *, n_components: int | None = None, ax: Any = None, **options: Any
    ) -> Self:
        """Draw an audit of two groups.

        Parameters
        ----------
        audit : Audit
            What `fairpca.audit` returned, not read from a file.
        n_components : int, optional
            Default: the number asked about.
        ax : matplotlib Axes, optional
            Default: a new figure.
        **options
            Of `from_moments`.
        """
        r = audit.n_components if n_components is None else n_components
        moments = audit.moments
        if moments is None:
            raise ValueError(
                "this audit was read from a file, which holds no covariances; run the audit "
                "again, or use from_estimator."
            )
        options.setdefault("center", audit.center)
        return cls.from_moments(moments, r, ax=ax, **options)  # type: ignore[no-any-return]

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
        X : array-like of shape (m, n), or GroupMoments
            The rows.
        sensitive_features : array-like, Series, frame or dict
            One label per row, two in all.
        sample_weight : array-like of shape (m,), optional
            Weight 2 is the row twice.
        ax : matplotlib Axes, optional
            Default: a new figure.
        **options
            Of `from_moments`.
        """
        basis = basis_of(estimator)
        options |= {"ax": ax, **cls._shown(basis, type(estimator).__name__)}
        options.setdefault("center", center_of(estimator))
        moments = as_moments(X, sensitive_features, sample_weight)
        return cls.from_moments(moments, basis.shape[1], **options)  # type: ignore[no-any-return]

    @classmethod
    def _shown(cls, basis: FloatArray, name: str) -> dict[str, Any]:
        """Return the arguments of `from_moments` that show an estimator: by default none."""
        return {}

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

    phi(t) is the smallest t-weighted average of the two losses that any projection has. No worst
    loss is below it, for any t. With two groups its maximum is attained: where the curve touches
    the dotted line, the projection is proven to be the best.

    Parameters
    ----------
    t : ndarray of shape (n_points,)
        Weight of the first group.
    phi : ndarray of shape (n_points,)
        The bound at every weight.
    t_best : float
        Where it is largest.
    value : float
        The worst loss of the fair projection.
    groups : list of str
        The two groups.
    n_components : int
        Number of components of all projections.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    line_ : Line2D
        The curve.

    See Also
    --------
    fairpca.phi : The function itself, for any number of groups.

    Examples
    --------
    >>> import fairpca
    >>> from fairpca.plots import DualDisplay
    >>> from sklearn.datasets import load_wine
    >>> X, kind = load_wine(return_X_y=True)
    >>> model = fairpca.FairPCA(2).fit(X, sensitive_features=kind == 0)
    >>> display = DualDisplay.from_estimator(model, X, sensitive_features=kind == 0)
    >>> bool(abs(display.phi.max() - display.value) < 1e-6 * display.value)
    True
    """

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
        """Draw phi for the moments of two groups.

        Parameters
        ----------
        moments : GroupMoments
            Of two groups.
        n_components : int
            Number of components.
        n_points : int, default=101
            Weights at which phi is computed, beside the best one. Each takes a decomposition.
        center : {"global", "group"}, default="global"
            Whether losses are about the mean of all rows or about each group's own, as in
            `FairPCA`.
        ax : matplotlib Axes, optional
            Default: a new figure.

        Returns
        -------
        DualDisplay
        """
        covariances, texts = cls._two_groups(moments, center)
        solution = solve(covariances, n_components)
        t_best = float(solution.weights[0])
        # The maximum can be a corner of the curve, which a grid without it would cut off.
        t = np.unique(np.append(np.linspace(0, 1, n_points), t_best))
        return cls(
            t,
            phi(covariances, n_components, t),
            t_best=t_best,
            value=float(solution.losses.max()),
            groups=texts,
            n_components=n_components,
        ).plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the curve, its maximum and the value attained.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Default: a new figure.

        Returns
        -------
        self
        """
        top = float(self.phi.max())
        with self._axes(ax, (6, 4)) as axes:
            (self.line_,) = axes.plot(self.t, self.phi, color=FAIR_COLOUR, label="φ(t)")
            axes.axhline(self.value, color="0.45", linestyle=":", label="worst loss of FairPCA")
            axes.plot(self.t_best, top, "o", color=FAIR_COLOUR)
            below = {"xytext": (0, -16), "textcoords": "offset points", "ha": "center"}
            axes.annotate(f"t = {self.t_best:.3f}", (self.t_best, top), **below)
            axes.set_xlim(0, 1)
            # Where no group loses anything all is zero, and the axis still needs a length.
            axes.set_ylim(0, 1.12 * max(top, self.value, 1e-300))
            first = drawable(self.groups[0])
            axes.set(xlabel=f"weight t of {first}", ylabel="bound on the worst loss")
            axes.legend(frameon=False, loc="lower center")
        return self


@dataclass(eq=False, repr=False)
class NumericalRangeDisplay(_TwoGroupDisplay):
    """All pairs of losses two groups can have, and where PCA and FairPCA stand among them.

    Parameters
    ----------
    range_ : JointNumericalRange
        Of the two loss matrices.
    points : dict of str to pair of float
        Losses of projections, by name.
    groups : list of str
        The two groups.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    outline_ : Polygon
        The range.
    points_ : dict of str to Line2D
        The projections, by name.

    See Also
    --------
    fairpca.joint_numerical_range : Computes the range.

    Examples
    --------
    >>> import fairpca
    >>> from fairpca.plots import NumericalRangeDisplay
    >>> from sklearn.datasets import load_wine
    >>> X, kind = load_wine(return_X_y=True)
    >>> model = fairpca.FairPCA(2).fit(X, sensitive_features=kind == 0)
    >>> display = NumericalRangeDisplay.from_estimator(model, X, sensitive_features=kind == 0)
    >>> sorted(display.points)
    ['FairPCA', 'PCA']
    """

    range_: JointNumericalRange
    _: KW_ONLY
    points: dict[str, tuple[float, float]]
    groups: list[str]

    @classmethod
    def _shown(cls, basis: FloatArray, name: str) -> dict[str, Any]:
        return {"basis": basis, "name": name}

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
        """Draw the range of two groups' losses.

        Parameters
        ----------
        moments : GroupMoments
            Of two groups.
        n_components : int
            Number of components.
        basis : ndarray of shape (n, n_components), optional
            Orthonormal columns of the projection to show beside PCA. Default: the fair one.
        name : str, default="FairPCA"
            What it is called.
        n_angles : int, default=64
            Directions in which the outline is computed first; more follow where it bends.
        center : {"global", "group"}, default="global"
            Whether losses are about the mean of all rows or about each group's own, as in
            `FairPCA`.
        ax : matplotlib Axes, optional
            Default: a new figure.

        Returns
        -------
        NumericalRangeDisplay
        """
        covariances, texts = cls._two_groups(moments, center)
        own = own_variance(covariances, n_components)
        pca = leading_pairs(moments.pooled().covariances[0], n_components).vectors
        # A basis U with as many columns loses trace(U' H U) in the group whose matrix H is.
        first, second = own[:, None, None] / n_components * np.eye(len(pca)) - covariances
        if basis is None:
            basis = solve(covariances, n_components).components.T
        points = {}
        for label, columns in (("PCA", pca), (name, basis)):
            x, y = own - kept_variance(columns, covariances)
            points[label] = (float(x), float(y))
        range_ = joint_numerical_range(
            first, second, n_components, n_angles=n_angles, max_angles=4 * n_angles, tol=_TOLERANCE
        )
        return cls(range_, points=points, groups=texts).plot(ax=ax)

    def plot(self, ax: Any = None) -> Self:
        """Draw the range, the diagonal of equal losses and the projections.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Default: a new figure.

        Returns
        -------
        self
        """
        outline = self.range_.outline
        top = float(outline.max())
        with self._axes(ax, (5.2, 5)) as axes:
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
        return self
