"""The dual function over the simplex, and what is known about it so far.

``phi(t) = t . offsets - (sum of the r largest eigenvalues of A(t))``, ``A(t) = sum_i t_i S_i``, is
concave, and phi of *any* weights is a lower bound on the worst loss of *every* basis. Its partner
is the relaxation: a matrix P with eigenvalues in [0, 1] and trace r has the losses
``y_i(P) = offsets[i] - <S_i, P>``, and the smallest ``max_i y_i(P)`` equals the largest phi. A
solver of the dual is done when the two meet; whether P can also be a projector is another room's
question.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairpca.arrays import FloatArray
from fairpca.solve.dual_point import Cluster, DualPoint, Relaxed, occupy
from fairpca.solve.eigen import DenseOracle
from fairpca.solve.oracle import EigenPairs
from fairpca.solve.problem import Problem

_TINY = float(np.finfo(float).tiny)


@dataclass(frozen=True)
class Quadratic:
    """A concave term ``-(t - centre) @ matrix @ (t - centre) / 2`` added to phi.

    It stands for what a compression of the problem leaves out, to second order.
    """

    centre: FloatArray
    matrix: FloatArray


class BudgetSpent(Exception):
    """The allowance of decompositions is used up."""


class Dual:
    """phi with its best values, a count of decompositions and their history.

    Parameters
    ----------
    problem : Problem
        On a `DenseOracle`.
    max_iter : int
        Most decompositions; then `evaluate` raises `BudgetSpent`.
    target : float
        The gap between relaxed value and bound at which the dual counts as solved, relative to
        the larger of |phi| and a thousandth of the spectral scale.
    extra : Quadratic, optional
        Added to phi.
    spectral : float
        The magnitude of the eigenvalues of H(t); taken from the first evaluation if not given.
    """

    def __init__(
        self,
        problem: Problem,
        *,
        max_iter: int,
        target: float,
        extra: Quadratic | None = None,
        spectral: float = 0.0,
    ) -> None:
        assert isinstance(problem.oracle, DenseOracle)
        self.problem = problem
        self.oracle = problem.oracle
        self.r = problem.n_components
        self.target = target
        self.extra = extra
        self.left = max_iter
        self.resolution = problem.resolution
        # The empty cluster: P is the projector on the r leading eigenvectors.
        self.simple = Cluster(self.r, self.r, np.zeros(0))
        self.best: DualPoint | None = None
        self.relaxed: Relaxed | None = None
        self.spectral = spectral
        self.history: list[dict[str, float]] = []
        self.group_scales = self._group_scales()

    def _group_scales(self) -> FloatArray:
        """How strongly each H_i = (c_i / r) I - S_i can move phi: spread plus mean level."""
        matrices = self.oracle.covariances
        n = self.oracle.n_features
        means = np.trace(matrices, axis1=1, axis2=2) / n
        squares = np.einsum("kij,kij->k", matrices, matrices)
        spread = np.sqrt(np.maximum(squares - n * means**2, 0.0))
        scales = spread + np.abs(self.problem.offsets / self.r - means)
        # A group without variance and offset never moves phi; any positive scale will do.
        largest = float(scales.max())
        return np.where(scales > 0, scales, largest if largest > 0 else 1.0)

    def evaluate(self, weights: FloatArray) -> DualPoint:
        """Decompose A(weights) and keep the point if it has the largest phi."""
        if self.left <= 0:
            raise BudgetSpent
        self.left -= 1
        pairs = self.oracle.full(weights)
        images, losses = self.problem.images_and_losses(pairs.vectors[:, : self.r])
        phi = self.problem.phi(weights, pairs)
        if self.extra is not None:
            change = weights - self.extra.centre
            slope = -(self.extra.matrix @ change)
            term = 0.5 * float(slope @ change)
            phi += term
            # The constant keeps weights @ losses equal to phi and max(losses) an upper bound.
            losses = losses + slope + (term - float(slope @ weights))
        point = DualPoint(weights, pairs, phi, losses, self.oracle.covariances, images)
        if not self.spectral:
            shift = float(weights @ self.problem.offsets) / self.r
            floor = 1e-8 * float(self.group_scales.max())
            self.spectral = max(float(np.abs(shift - pairs.values).max()), floor)
        if self.best is None or phi > self.best.phi:
            self.best = point
        relaxed = occupy(point, self.simple, self.r)
        self.history.append({"phi": phi, "worst": relaxed.value})
        self.offer(relaxed)
        return point

    def arrives(self, point: DualPoint, weights: FloatArray) -> bool:
        """Whether the basis at `point`, turned by the step to `weights`, solves the dual.

        On the step phi rises by half its slope times the step; where that is below the target, a
        decomposition at `weights` could only confirm. They are the better ones, and to rounding
        as good a proof.
        """
        step = weights - point.weights
        if self.extra is not None or 0.5 * float(point.losses @ step) > self._allowed:
            return False
        pairs = EigenPairs(point.pairs.values, point.vectors_after(step))
        images, losses = self.problem.images_and_losses(pairs.vectors[:, : self.r])
        if float(losses.max()) - self.bound > self._allowed:
            return False
        self.best = DualPoint(weights, pairs, self.bound, losses, point.covariances, images)
        self.offer(occupy(self.best, self.simple, self.r))
        return True

    def offer(self, relaxed: Relaxed) -> None:
        """Keep a feasible relaxed point if its worst loss is the smallest."""
        if self.relaxed is None or relaxed.value < self.relaxed.value:
            self.relaxed = relaxed

    def curvature(self, point: DualPoint, cluster: Cluster) -> FloatArray:
        """Minus the second derivative of phi with the cluster held, extra term included."""
        found = point.curvature(cluster)
        return found if self.extra is None else found + self.extra.matrix

    @property
    def bound(self) -> float:
        """The largest phi seen."""
        assert self.best is not None
        return self.best.phi

    @property
    def reference(self) -> float:
        """The magnitude tolerances are relative to."""
        return max(abs(self.bound), 1e-3 * self.spectral, _TINY)

    @property
    def gap(self) -> float:
        """Best relaxed value minus best bound, relative to `reference`."""
        assert self.relaxed is not None
        return (self.relaxed.value - self.bound) / self.reference

    @property
    def closed(self) -> bool:
        """Whether relaxed value and bound have met."""
        assert self.relaxed is not None
        return self.relaxed.value - self.bound <= self._allowed

    @property
    def _allowed(self) -> float:
        return max(self.target * self.reference, self.resolution)

    @property
    def good(self) -> bool:
        """Whether they are so close that only rounding keeps them apart.

        Where lambda_r is nearly tied the last three digits of `target` are out of reach: the
        eigenvectors are not known well enough.
        """
        return self.closed or self.gap <= 1e3 * self.target
