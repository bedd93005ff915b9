"""The mathematics of two groups in pictures: the dual function and the joint numerical range."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairpca._linalg import FloatArray
from fairpca.auditing.findings import Audit
from fairpca.auditing.verdict import label_texts
from fairpca.covariances.eigenpairs import leading_pairs
from fairpca.fitting import solve
from fairpca.metrics import as_moments, kept_variance, own_variance
from fairpca.moments.group_moments import GroupMoments
from fairpca.numerical_range import JointNumericalRange, joint_numerical_range, phi
from fairpca.plots.style import FAIR_COLOUR, PCA_COLOUR, axes, drawable, drawing


def _two_groups(moments: GroupMoments) -> tuple[GroupMoments, list[str]]:
    target = moments.grouped()
    if len(target.labels) != 2:
        raise ValueError(
            f"this picture is of two groups and there are {len(target.labels)}; select two of "
            "them first."
        )
    return target, label_texts(target.labels, target.names, "intersection")


def _audit_moments(audit: Audit) -> GroupMoments:
    if audit.moments is None:
        raise ValueError(
            "this audit was read from a file, which holds no covariances; run the audit again, or "
            "use from_estimator."
        )
    return audit.moments


class DualDisplay:
    """phi(t), the lower bound on every projection's worst loss, and the value attained.

    Parameters
    ----------
    t : ndarray
        Weight of the first group.
    phi : ndarray
    t_best : float
    value : float
        The worst loss of the fair projection.
    groups : list of str
        The two groups.
    n_components : int

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    line_ : Line2D
    """

    def __init__(
        self,
        t: FloatArray,
        phi: FloatArray,
        *,
        t_best: float,
        value: float,
        groups: list[str],
        n_components: int,
    ) -> None:
        self.t = t
        self.phi = phi
        self.t_best = t_best
        self.value = value
        self.groups = groups
        self.n_components = n_components

    @classmethod
    def from_moments(
        cls, moments: GroupMoments, n_components: int, *, n_points: int = 101, ax: Any = None
    ) -> DualDisplay:
        """Draw phi for the moments of two groups."""
        target, texts = _two_groups(moments)
        solution = solve(target.covariances, n_components)
        t_best = float(solution.weights[0])
        t = np.unique(np.append(np.linspace(0, 1, n_points), t_best))
        display = cls(
            t,
            phi(target.covariances, n_components, t),
            t_best=t_best,
            value=float(solution.losses.max()),
            groups=texts,
            n_components=n_components,
        )
        return display.plot(ax=ax)

    @classmethod
    def from_audit(
        cls,
        audit: Audit,
        *,
        n_components: int | None = None,
        n_points: int = 101,
        ax: Any = None,
    ) -> DualDisplay:
        """Draw phi for an audit of two groups."""
        r = audit.n_components if n_components is None else n_components
        return cls.from_moments(_audit_moments(audit), r, n_points=n_points, ax=ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        sensitive_features: Any,
        sample_weight: Any = None,
        n_points: int = 101,
        ax: Any = None,
    ) -> DualDisplay:
        """Draw phi at the number of components of a fitted estimator."""
        moments = as_moments(X, sensitive_features, sample_weight)
        r = len(np.asarray(estimator.components_))
        return cls.from_moments(moments, r, n_points=n_points, ax=ax)

    def plot(self, ax: Any = None) -> DualDisplay:
        """Draw the curve, its maximum and the value attained."""
        with drawing():
            self.figure_, self.ax_ = axes(ax, figsize=(6, 4))
            (self.line_,) = self.ax_.plot(self.t, self.phi, color=FAIR_COLOUR, label="φ(t)")
            self.ax_.axhline(
                self.value, color="0.45", linestyle=":", label="worst loss of FairPCA"
            )
            self.ax_.plot(self.t_best, self.phi.max(), "o", color=FAIR_COLOUR)
            self.ax_.annotate(
                f"t = {self.t_best:.3f}",
                (self.t_best, self.phi.max()),
                xytext=(0, -16),
                textcoords="offset points",
                ha="center",
            )
            self.ax_.set_xlim(0, 1)
            self.ax_.set_ylim(0, 1.12 * max(float(self.phi.max()), self.value, 1e-300))
            self.ax_.set_xlabel(f"weight t of {drawable(self.groups[0])}")
            self.ax_.set_ylabel("bound on the worst loss")
            self.ax_.spines[["top", "right"]].set_visible(False)
            self.ax_.legend(frameon=False, loc="lower center")
        return self


class NumericalRangeDisplay:
    """All pairs of losses two groups can have, and where PCA and FairPCA stand among them.

    Parameters
    ----------
    range_ : JointNumericalRange
        Of the two loss matrices.
    points : dict of str to pair of float
        Losses of projections, by name.
    groups : list of str

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
    outline_ : Polygon
    points_ : dict of str to Line2D
    """

    def __init__(
        self,
        range_: JointNumericalRange,
        *,
        points: dict[str, tuple[float, float]],
        groups: list[str],
    ) -> None:
        self.range_ = range_
        self.points = points
        self.groups = groups

    @classmethod
    def from_moments(
        cls,
        moments: GroupMoments,
        n_components: int,
        *,
        basis: FloatArray | None = None,
        name: str = "FairPCA",
        n_angles: int = 64,
        ax: Any = None,
    ) -> NumericalRangeDisplay:
        """Draw the range of two groups' losses; `basis` defaults to the fair projection."""
        target, texts = _two_groups(moments)
        covariances = target.covariances
        n, r = covariances.shape[1], n_components
        own = own_variance(covariances, r)
        losses = own[:, None, None] / r * np.eye(n) - covariances
        pca = leading_pairs(moments.pooled().covariances[0], r).vectors
        if basis is None:
            basis = solve(covariances, r).components.T

        def pair(columns: FloatArray) -> tuple[float, float]:
            first, second = own - kept_variance(columns, covariances)
            return float(first), float(second)

        display = cls(
            # A hundredth of the picture is finer than the line it is drawn with.
            joint_numerical_range(
                losses[0], losses[1], r, n_angles=n_angles, tol=1e-2, max_angles=4 * n_angles
            ),
            points={"PCA": pair(pca), name: pair(basis)},
            groups=texts,
        )
        return display.plot(ax=ax)

    @classmethod
    def from_audit(
        cls,
        audit: Audit,
        *,
        n_components: int | None = None,
        n_angles: int = 64,
        ax: Any = None,
    ) -> NumericalRangeDisplay:
        """Draw the range for an audit of two groups."""
        r = audit.n_components if n_components is None else n_components
        return cls.from_moments(_audit_moments(audit), r, n_angles=n_angles, ax=ax)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        *,
        sensitive_features: Any,
        sample_weight: Any = None,
        n_angles: int = 64,
        ax: Any = None,
    ) -> NumericalRangeDisplay:
        """Draw where a fitted linear reducer stands in the range."""
        from fairpca.metrics import basis_of

        basis = basis_of(estimator)
        return cls.from_moments(
            as_moments(X, sensitive_features, sample_weight),
            basis.shape[1],
            basis=basis,
            name=type(estimator).__name__,
            n_angles=n_angles,
            ax=ax,
        )

    def plot(self, ax: Any = None) -> NumericalRangeDisplay:
        """Draw the range, the diagonal of equal losses and the projections."""
        with drawing():
            self.figure_, self.ax_ = axes(ax, figsize=(5.2, 5))
            outline = self.range_.outline
            (self.outline_,) = self.ax_.fill(
                *outline.T, facecolor="0.92", edgecolor="0.45", label="every projection"
            )
            top = float(outline.max())
            self.ax_.plot([0, top], [0, top], color="0.6", linestyle="--", label="equal losses")
            self.points_ = {}
            for name, (x, y) in self.points.items():
                colour = PCA_COLOUR if name == "PCA" else FAIR_COLOUR
                marker = "o" if name == "PCA" else "s"
                (artist,) = self.ax_.plot(
                    x, y, marker, color=colour, label=drawable(name), clip_on=False
                )
                self.points_[name] = artist
            self.ax_.set_xlim(0, top * 1.02)
            self.ax_.set_ylim(0, top * 1.02)
            self.ax_.set_aspect("equal")
            self.ax_.set_xlabel(f"loss of {drawable(self.groups[0])}")
            self.ax_.set_ylabel(f"loss of {drawable(self.groups[1])}")
            self.ax_.spines[["top", "right"]].set_visible(False)
            self.ax_.legend(frameon=False, fontsize="small")
        return self
