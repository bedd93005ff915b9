"""The dual function over the simplex, what is known about it, and Newton's method on it.

``phi(t) = t . offsets - (sum of the r largest eigenvalues of A(t))``, ``A(t) = sum_i t_i S_i``, is
concave, and phi of *any* weights is a lower bound on the worst loss of *every* basis: the worst
loss is at least the mean loss with weights t, and the smallest mean loss is phi(t) by Ky Fan's
theorem (1949). Its partner is the relaxation: a matrix P with eigenvalues in [0, 1] and trace r
has the losses ``y_i(P) = offsets[i] - <S_i, P>``, and the smallest ``max_i y_i(P)`` equals the
largest phi (Overton and Womersley 1993). A solver of the dual is done when the two meet; whether P
can also be a projector is what `descent` finds out.

As long as the r-th eigenvalue of A(t) is well separated from the next, phi is smooth and one
decomposition gives value, gradient and Hessian. `ascend` maximises the quadratic model over the
whole simplex, so groups enter and leave the active set in one step. Where eigenvalues tie phi has
kinks, and the interior-point method goes on.

Read `Dual.evaluate` first, then `DualPoint` for what one decomposition gives, then `ascend`.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from fairpca._arrays import TINY, FloatArray, fetched
from fairpca.covariances.oracle import EigenPairs
from fairpca.solvers.problem import Problem
from fairpca.solvers.simplex_qp import maximise_on_simplex

# Newton steps in all; problems that are smooth take five to ten.
_MAX_STEPS = 16
# Steps in a row that may fail to help before the interior-point method goes on. It starts from the
# best weights so far, so a step that does not help is better left out (measured on 500 generated
# problems: with 4 a tenth more decompositions, with 1 as many).
_MAX_STALLS = 2
# Points that are tried between the ends of a step that went too far. With one, eight groups of 50
# columns of which seven hardly differ take half as many decompositions again; 4 change nothing.
_MAX_BETWEEN = 3
# Rotation of the leading eigenvectors (a tangent) up to which the quadratic model is trusted; a
# step that rotates them further is shortened to that. Between 0.01 and 0.3 the count of
# decompositions hardly moves; above, steps fail.
_SMALL_ROTATION = 0.3


@dataclass(frozen=True)
class Cluster:
    """Which eigenvalues of A(t) count as tied, and how a relaxed P occupies their eigenvectors.

    P is one on the eigenvectors before `first`, zero from `last` on, and on the block between them
    ``rotation @ diag(occupation) @ rotation.T``.

    Attributes
    ----------
    first, last : int
        The block is ``first:last`` in decreasing order of the eigenvalues, q = last - first.
        Both are r where nothing is tied.
    occupation : ndarray of shape (q,)
        Eigenvalues of P on the block, between 0 and 1, with the sum r - first.
    rotation : ndarray of shape (q, q)
        Orthogonal; the identity where P has the eigenvectors as they are.
    """

    first: int
    last: int
    occupation: FloatArray
    rotation: FloatArray

    @classmethod
    def of(cls, first: int, matrix: FloatArray, r: int) -> Cluster:
        """Return the cluster of the feasible block nearest to a symmetric `matrix`.

        The matrix, of shape (q, q), is P on the block that begins at `first`. It comes from steps
        taken to first order, so its eigenvalues may lie outside [0, 1].
        """
        values, rotation = np.linalg.eigh(matrix)
        occupation = fill(values[::-1], r - first)
        return cls(first, first + len(matrix), occupation, rotation[:, ::-1])


class DualPoint:
    """phi at one point of the simplex, with all eigenpairs there.

    Attributes
    ----------
    weights : ndarray of shape (k,)
    pairs : EigenPairs
        All pairs of A(weights).
    values, vectors : ndarray of shape (n,), ndarray of shape (n, n)
        The pairs, here.
    phi : float
    r : int
    losses : ndarray of shape (k,)
        Of the r leading eigenvectors: the gradient of phi where it has one.
    matrices : ndarray of shape (k, n, n)
    images : ndarray of shape (k, n, r)
        Every S_i times the leading eigenvectors.
    """

    def __init__(self, problem: Problem, weights: FloatArray, pairs: EigenPairs) -> None:
        self.weights, self.pairs = weights, pairs
        self.values, self.vectors = pairs.values, np.asarray(fetched(pairs.columns))
        self.matrices = problem.oracle.matrices
        self.phi = problem.phi(weights, pairs)
        self.r = problem.n_components
        self.images, self.losses = problem.images_and_losses(self.vectors[:, : self.r])
        self._columns = np.empty((0, 0, 0))

    def columns(self, m: int) -> FloatArray:
        """Return the first m columns of every S_i in the eigenbasis of A(t), shape (k, n, m).

        They are kept: the product takes as long as the decomposition where there are many groups.
        """
        if self._columns.shape[2] < m:
            images = self.images if m <= self.r else self.matrices @ self.vectors[:, :m]
            self._columns = self.vectors.T @ images
        return self._columns[:, :, :m]

    @property
    def separation(self) -> float:
        """How far the r-th eigenvalue is from the next."""
        return float(self.values[self.r - 1] - self.values[self.r])

    @functools.cached_property
    def rotations(self) -> FloatArray:
        """How each group's weight rotates the leading eigenvectors, shape (k, (n - r) r).

        An entry is a tangent, to first order: ``v_a . S_i v_b``, with v_b among the leading
        eigenvectors and v_a among the others, over the distance of the two eigenvalues.
        """
        values, r = self.values, self.r
        couplings = self.columns(r)[:, r:]
        found = couplings / self._gaps(values[:r], values[r:], couplings)
        return np.asarray(found.reshape(len(found), -1))

    def _gaps(self, upper: FloatArray, lower: FloatArray, couplings: FloatArray) -> FloatArray:
        """Return the distances of eigenvalues that `couplings` are to be divided by.

        A tie across a block's border means that the block is too small; it must not divide by
        zero, nor make numbers of 1e300 where the groups that have the weight have no variance.
        """
        values = self.values
        floor = 1e-14 * max(abs(float(values[0])), abs(float(values[-1])))
        floor += 1e-60 * float(np.abs(couplings).max(initial=0.0)) + 1e-300
        return np.maximum(upper - lower[:, None], floor)

    def curvature(self, cluster: Cluster) -> FloatArray:
        """Return minus the second derivative of phi, pairs inside the cluster left out.

        With an empty cluster at r this is minus the Hessian of phi itself. Inside a cluster the
        distances of the eigenvalues vanish and phi has a kink: there P takes the place of the
        missing derivative.

        Parameters
        ----------
        cluster : Cluster
            Describes a P with occupations p in the eigenbasis of this point.

        Returns
        -------
        ndarray of shape (k, k)
            Positive semidefinite. Entry (i, j) is twice the sum of
            ``(p_b - p_a) / (lambda_b - lambda_a) (S_i)_ab (S_j)_ab`` over the pairs a > b.
        """
        first, last = cluster.first, cluster.last
        size, values = last - first, self.values
        if not size:
            couplings = self.columns(last)[:, first:].reshape(len(self.weights), -1)
            return np.asarray(2.0 * couplings @ self.rotations.T)
        part, upper, lower = self.columns(last)[:, first:].copy(), values[:last], values[first:]
        occupied, empty = np.ones(last), np.zeros(len(lower))
        occupied[first:], empty[:size] = cluster.occupation, cluster.occupation
        part[:, :, first:] = part[:, :, first:] @ cluster.rotation
        part[:, :size] = cluster.rotation.T @ part[:, :size]
        # Rayleigh quotients stand for the eigenvalues of rotated vectors.
        tied = (cluster.rotation**2).T @ values[first:last]
        upper, lower = np.append(upper[:first], tied), np.append(tied, lower[size:])
        ratio = (occupied - empty[:, None]) / self._gaps(upper, lower, part)
        ratio[:size, first:] = 0.0
        flat = part.reshape(len(part), -1)
        return np.asarray(2.0 * flat @ (flat * ratio.ravel()).T)


@dataclass(frozen=True)
class Relaxed:
    """A feasible point of the relaxation in the eigenbasis of a dual point, with its losses.

    Attributes
    ----------
    point : DualPoint
    cluster : Cluster
        Describes P in the eigenvectors of the point.
    losses : ndarray of shape (k,)
        ``offsets[i] - <S_i, P>``.
    """

    point: DualPoint
    cluster: Cluster
    losses: FloatArray

    @property
    def value(self) -> float:
        """The relaxed worst loss, an upper bound on every phi."""
        return float(self.losses.max())

    @property
    def held_vectors(self) -> FloatArray:
        """The tied eigenvectors, rotated so that P is diagonal in them."""
        held = self.cluster
        return np.asarray(self.point.vectors[:, held.first : held.last] @ held.rotation)


def occupy(point: DualPoint, cluster: Cluster, r: int) -> Relaxed:
    """Return the relaxed point that a feasible `cluster` describes at a dual point.

    An empty cluster gives the losses of the r leading eigenvectors.
    """
    first, last = cluster.first, cluster.last
    if last == first:
        return Relaxed(point, cluster, point.losses)
    block = point.columns(last)[:, first:last, first:last]
    # Only what P changes against the r leading eigenvectors: the rest would cancel.
    matrix = (cluster.rotation * cluster.occupation) @ cluster.rotation.T
    matrix[np.arange(r - first), np.arange(r - first)] -= 1.0
    change = block.reshape(len(block), -1) @ matrix.ravel()
    return Relaxed(point, cluster, point.losses - change)


def fill(occupation: FloatArray, total: float) -> FloatArray:
    """Project onto ``{0 <= p <= 1, sum p = total}`` in the Euclidean sense.

    At tiny barrier parameters occupations add up to r only roughly, and a P of smaller trace
    would look better than any feasible one.

    The projection is ``clip(p + shift, 0, 1)`` for a single number shift. The sum is piecewise
    linear in it: an entry that leaves 0 makes it steeper by one, and flatter again when it
    reaches 1.
    """
    n = len(occupation)
    if not n:
        return occupation
    knots = np.concatenate([-occupation, 1.0 - occupation])
    order = np.argsort(knots)
    knots, slopes = knots[order], np.cumsum(np.where(order < n, 1, -1))
    sums = np.append(0.0, np.cumsum(slopes[:-1] * np.diff(knots)))
    return np.asarray(np.clip(occupation + np.interp(total, sums, knots), 0.0, 1.0))


class BudgetSpent(Exception):
    """The allowance of decompositions is used up."""


class Dual:
    """phi with its best values, a count of decompositions and their history.

    Parameters
    ----------
    problem : Problem
        With matrices small enough to be decomposed in full.
    max_iter : int
        Most decompositions; then `evaluate` raises `BudgetSpent`.
    target : float
        The gap between relaxed value and bound at which the dual counts as solved, relative to
        the larger of |phi| and a thousandth of the spectral scale.

    Attributes
    ----------
    best : DualPoint or None
        The point with the largest phi; None before the first evaluation.
    relaxed : Relaxed or None
        The relaxed point with the smallest worst loss. It may belong to another dual point.
    simple : Cluster
        The empty one: P is the projector on the r leading eigenvectors.
    left : int
        Decompositions that are still allowed.
    spectral : float
        Magnitude of the eigenvalues of H(t) at the first weights.
    group_scales : ndarray of shape (k,)
        How strongly each group's weight can move phi. Newton steps are taken in these units: in
        plain weights, groups whose variances differ by orders of magnitude would make their
        systems badly scaled.
    history : list of dict
        phi and the worst loss at every point evaluated.
    """

    def __init__(self, problem: Problem, *, max_iter: int, target: float) -> None:
        self.problem = problem
        self.oracle = problem.oracle
        self.r = problem.n_components
        self.target = target
        self.left = max_iter
        # The empty cluster: P is the projector on the r leading eigenvectors.
        self.simple = Cluster(self.r, self.r, np.zeros(0), np.zeros((0, 0)))
        self.best: DualPoint | None = None
        self.relaxed: Relaxed | None = None
        self.spectral = 0.0
        self.history: list[dict[str, float]] = []
        # The spread of H_i = (c_i / r) I - S_i plus its mean level.
        matrices, n = self.oracle.matrices, self.oracle.n_features
        means = np.trace(matrices, axis1=1, axis2=2) / n
        squares = np.einsum("kij,kij->k", matrices, matrices)
        spread = np.sqrt(np.maximum(squares - n * means**2, 0.0))
        scales = spread + np.abs(problem.offsets / self.r - means)
        # A group without variance and offset never moves phi; any positive scale will do. One that
        # is smaller than the others by sixty orders does not either, and its reciprocal times
        # the curvature would be infinite.
        largest = float(scales.max())
        scales = np.where(scales > 0, scales, largest if largest > 0 else 1.0)
        self.group_scales = np.maximum(scales, 1e-60 * largest)

    def evaluate(self, weights: FloatArray) -> DualPoint:
        """Decompose A(weights) and keep the point if it has the largest phi.

        The projector on its leading eigenvectors is offered as a relaxed point too: at the optimal
        weights it is the optimal one, unless lambda_r is tied.

        Raises
        ------
        BudgetSpent
            If no decomposition is left.
        """
        if self.left <= 0:
            raise BudgetSpent
        self.left -= 1
        point = DualPoint(self.problem, weights, self.oracle.full(weights))
        if not self.spectral:
            shift = float(weights @ self.problem.offsets) / self.r
            floor = 1e-8 * float(self.group_scales.max())
            self.spectral = max(float(np.abs(shift - point.values).max()), floor)
        if self.best is None or point.phi > self.best.phi:
            self.best = point
        relaxed = occupy(point, self.simple, self.r)
        self.history.append({"phi": point.phi, "worst": relaxed.value})
        self.offer(relaxed)
        return point

    def offer(self, relaxed: Relaxed) -> None:
        """Keep a feasible relaxed point if its worst loss is the smallest."""
        if self.relaxed is None or relaxed.value < self.relaxed.value:
            self.relaxed = relaxed

    def is_smooth(self, point: DualPoint) -> bool:
        """Whether a Newton step from a point means anything.

        Next to a tie the Hessian is so large that every step looks harmless.
        """
        return point.separation > 1e-8 * self.spectral

    @property
    def bound(self) -> float:
        """The largest phi seen."""
        assert self.best is not None
        return self.best.phi

    @property
    def reference(self) -> float:
        """The magnitude tolerances are relative to."""
        return max(abs(self.bound), 1e-3 * self.spectral, TINY)

    @property
    def gap(self) -> float:
        """Best relaxed value minus best bound, relative to `reference`."""
        assert self.relaxed is not None
        return (self.relaxed.value - self.bound) / self.reference

    @property
    def closed(self) -> bool:
        """Whether relaxed value and bound have met, to `target` or to rounding."""
        assert self.relaxed is not None
        allowed = max(self.target * self.reference, self.problem.resolution)
        return self.relaxed.value - self.bound <= allowed

    @property
    def good(self) -> bool:
        """Whether they are so close that only rounding keeps them apart.

        Where lambda_r is nearly tied the last three digits of `target` are out of reach: the
        eigenvectors are not known well enough.
        """
        return self.closed or self.gap <= 1e3 * self.target


def ascend(dual: Dual, point: DualPoint) -> None:
    """Run steps from `point` until the dual is solved or they stop helping.

    Nothing is returned: every point evaluated leaves its bound and relaxed value in `dual`. The
    search gives up early, because the interior-point method takes over where phi has kinks.
    """
    stalls = 0
    for _ in range(_MAX_STEPS):
        if dual.closed or not dual.is_smooth(point):
            return
        gap, bound, before = dual.gap, dual.bound, point
        trial = dual.evaluate(newton_step(dual, point, point.weights, point.losses))
        for _ in range(_MAX_BETWEEN):
            if trial.phi >= point.phi or dual.closed:
                break
            trial = _between(dual, point, trial)
        assert dual.best is not None
        point = trial if trial.phi >= dual.bound else dual.best
        # Away from a near tie the steps are short at first, and grow with the distance.
        apart = point.separation > before.separation
        closer = dual.gap <= 0.7 * gap or (dual.bound - bound) / dual.reference > 0.03 * gap
        stalls = 0 if apart or closer else stalls + 1
        if stalls >= _MAX_STALLS or (stalls and dual.good):
            return


def newton_step(
    dual: Dual, point: DualPoint, weights: FloatArray, losses: FloatArray
) -> FloatArray:
    """Return weights at the maximiser over the simplex of a quadratic model of phi.

    Where the step would rotate the eigenvectors too far, only a part of it is taken.

    Parameters
    ----------
    dual : Dual
    point : DualPoint
        Gives the curvature.
    weights, losses : ndarray of shape (k,)
        Where the step begins, and the gradient there; mostly those of the point.
    """
    curvature = point.curvature(dual.simple)
    # Unknowns in units in which every group moves phi about equally.
    units = 1.0 / dual.group_scales
    linear = (losses + curvature @ weights) * units
    found = maximise_on_simplex(
        linear, curvature * units[:, None] * units, units, weights * dual.group_scales
    )
    step = found * units - weights
    rotation = float(np.abs(step @ point.rotations).max())
    return weights + min(1.0, _SMALL_ROTATION / max(rotation, 1e-300)) * step


def _between(dual: Dual, point: DualPoint, trial: DualPoint) -> DualPoint:
    """Evaluate where the tangents at both ends of a step that went too far meet."""
    direction = trial.weights - point.weights
    up, down = float(point.losses @ direction), -float(trial.losses @ direction)
    if up + down <= 0:
        return point
    fraction = (trial.phi - point.phi + down) / (up + down)
    if not 0 < fraction < 1:
        return point
    return dual.evaluate(point.weights + fraction * direction)
