"""A reduced barrier method on the dual: slower than Newton, but it always arrives.

For a parameter mu > 0 the concave function

    F(t) = t . offsets + min_P [ -<A(t), P> - mu logdet P - mu logdet(I - P) ] + mu sum_i log t_i

over the interior of the simplex (tr P = r) is smooth whatever the eigenvalues do. The inner
minimum is explicit in the eigenbasis of A(t), so one decomposition gives value, gradient and
Hessian of F, and the minimiser P is feasible for the relaxation: its worst loss is a rigorous
upper bound on phi at every step. As mu falls, t approaches the maximiser of phi and P an optimal
relaxed point, whose fractional eigenvalues tell which eigenvalues of A(t) are tied.

The barrier alone would need a tiny mu for the last digits. So `polish` finishes: with the tied
eigenvalues guessed, Newton's method on the optimality conditions converges quadratically.

`follow_central_path` is the method, read it first; then `Barrier.advance` and `cluster_step`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from fairpca._arrays import FloatArray, symmetric
from fairpca.solvers.dual import Cluster, Dual, DualPoint, Relaxed, fill, occupy

# The first barrier parameter, relative to the spectral scale, what it is multiplied by, and the
# share of even weights that lifts zeros into the interior. If they are wrong, the path takes more
# steps: Newton's method leaves weights near the optimal ones, and a first parameter of 0.1 or 1e-5
# took a sixth more decompositions on 500 generated problems.
_START, _SHRINK, _LIFT = 1e-4, 0.1, 0.01
# A Newton decrement below this is close enough to the path to move on along it.
_CENTRED = 1.0
# Per call of `advance`; the path to 1e-10 takes some 40. At rounding level the decrement may
# refuse to fall, and then this ends it.
_MAX_STEPS = 80


# Barrier parameters, relative to the spectral scale, at which Newton with ties held is tried. The
# last ones are for losses far below that scale: many components of a steep spectrum.
_STAGES = (1e-4, 1e-6, 1e-8, 1e-10, 1e-12, 1e-14)
# The unknown W has q (q + 1) / 2 entries; a wrong guess of a large cluster would cost seconds.
_MAX_CLUSTER = 24
_MAX_POLISH_STEPS = 8
# An occupation within this of 0 or 1 counts as whole; likeliest reading first.
_THRESHOLDS = (3e-2, 3e-3, 3e-4, 1e-1)


def follow_central_path(dual: Dual) -> None:
    """Follow the central path, trying to finish by Newton at a few places on the way.

    Which eigenvalues are tied shows earlier than the last digits of the weights do. So every stage
    reads the ties off P and lets `polish` try; only if that fails does mu fall further.
    """
    assert dual.best is not None
    path = Barrier(dual, dual.best.weights)
    for stage in _STAGES:
        centre = path.advance(stage * dual.spectral)
        if dual.closed:
            return
        # Groups that may carry weight: not much less of it than they have slack.
        slack, sizes = centre.losses.max() - centre.losses, centre.weights * dual.group_scales
        active = (sizes > 0.03 * slack) & (sizes > 1e-9 * sizes.max())
        for block in guesses(np.diag(centre.matrix), dual.r):
            tied = Cluster.of(block.start, symmetric(centre.matrix[block, block]), dual.r)
            polish(dual, occupy(centre.point, tied, dual.r), active)
            if dual.good:
                return


@dataclass(frozen=True)
class PathPoint:
    """A point near the central path: the dual point, occupations of P and their complements.

    Attributes
    ----------
    point : DualPoint
    level : float
        The eigenvalue that would be half occupied; the multiplier of tr P = r.
    occupied, vacant : ndarray of shape (n,)
        p and 1 - p, each computed without cancellation, in the order of the eigenvalues.
    value : float
        F at this point.
    """

    point: DualPoint
    level: float
    occupied: FloatArray
    vacant: FloatArray
    value: float


@dataclass(frozen=True)
class Centre:
    """Where one more Newton step leads from a point of the path, to first order.

    Within a decrement of one the corrected P is feasible (it stays in the Dikin ellipsoid) and its
    losses are level, while those of the point itself may still be far from it.

    Attributes
    ----------
    point : DualPoint
        The one that the step starts from.
    weights : ndarray of shape (k,)
    matrix : ndarray of shape (n, n)
        The corrected P in the eigenbasis of the point.
    losses : ndarray of shape (k,)
        What the step predicts.
    """

    point: DualPoint
    weights: FloatArray
    matrix: FloatArray
    losses: FloatArray


@dataclass(frozen=True)
class _Step:
    """A Newton step of the barrier function.

    Attributes
    ----------
    weights, short : ndarray of shape (k,)
        After the whole step, and after the damped one of length 1 / (1 + decrement).
    decrement : float
        Length of the step in the metric of the Hessian over mu: how far the path is away.
    losses : ndarray of shape (k,)
        Losses of P after the whole step, to first order.
    """

    weights: FloatArray
    short: FloatArray
    decrement: float
    losses: FloatArray


class Barrier:
    """Follows the central path of the dual, starting near given weights.

    Parameters
    ----------
    dual : Dual
        Evaluated at least once.
    weights : ndarray of shape (k,)
        Zeros are lifted into the interior.
    """

    def __init__(self, dual: Dual, weights: FloatArray) -> None:
        self.dual, self.mu = dual, _START * dual.spectral
        start = dual.evaluate((1 - _LIFT) * weights + _LIFT / len(weights))
        guess = 0.5 * float(start.values[dual.r - 1] + start.values[dual.r])
        self.here = self.path_point(start, guess)

    def path_point(self, point: DualPoint, level: float) -> PathPoint:
        """Return the inner minimiser P at a dual point, and offer it to the dual.

        `level` is a guess of its level.
        """
        r, values, n = self.dual.r, point.values, len(point.values)
        found, p, v = occupations(values, np.asarray(self.mu), r, np.asarray(level))
        value = point.phi + float(above_phi(values, p, v, point.weights, self.mu, r))
        occupation = fill(np.where(p < 0.5, p, 1 - v), r)
        # As `occupy` would, which rotates first: that takes as long as the decomposition.
        changes = np.diagonal(point.columns(n), axis1=1, axis2=2)
        losses = point.losses - changes @ (occupation - (np.arange(n) < r))
        self.dual.offer(Relaxed(point, Cluster(0, n, occupation, np.eye(n)), losses))
        return PathPoint(point, float(found), p, v, value)

    def advance(self, mu: float) -> Centre:
        """Go down the path until it is centred at a parameter of at most `mu`.

        Newton steps at a fixed parameter until the decrement is below one, then a smaller one. It
        ends earlier if the dual is solved on the way.
        """
        step = self.newton()
        for _ in range(_MAX_STEPS):
            if step.decrement < _CENTRED:
                if self.mu <= mu:
                    break
                self.mu *= _SHRINK
                self.here = self.path_point(self.here.point, self.here.level)
                step = self.newton()
            # The whole step nearly always raises F. The short one is sure to, but alone takes two
            # to four times as many decompositions.
            before, level = self.here.value, self.here.level
            self.here = self.path_point(self.dual.evaluate(step.weights), level)
            if step.decrement > 1 and not self.here.value > before:
                self.here = self.path_point(self.dual.evaluate(step.short), level)
            step = self.newton()
            if self.dual.closed:
                break
        # P moves with A as the inner minimiser responds.
        here, point = self.here, self.here.point
        change = np.tensordot(step.weights - point.weights, point.columns(len(here.vacant)), 1)
        response = _responses(here.occupied, here.vacant)
        own = np.diagonal(response)
        level = float(own @ np.diagonal(change)) / float(own.sum())
        matrix = response * (change - level * np.eye(len(own))) / self.mu
        return Centre(point, step.weights, matrix + np.diag(here.occupied), step.losses)

    def newton(self) -> _Step:
        """Return the Newton step of F at the present point, with the sum of the weights kept."""
        point, p, v, r = self.here.point, self.here.occupied, self.here.vacant, self.dual.r
        t, rotated = point.weights, point.columns(len(p))
        moved = np.diagonal(rotated, axis1=1, axis2=2) @ np.concatenate([-v[:r], p[r:]])
        # The losses of P are the gradient.
        gradient, hessian = point.losses - moved, curvature(rotated, p, v, np.asarray(self.mu))
        step, away = newton_steps(hessian, gradient, t, np.asarray(self.mu), len(t))
        decrement = float(away)
        longest = min(1.0, 0.95 / max(-float(step.min()), 1e-300))
        long = t * (1.0 + longest * step)
        short = t * (1.0 + min(longest, 1.0 / (1.0 + decrement)) * step)
        losses = gradient - hessian @ (long - t)
        return _Step(long / float(long.sum()), short / float(short.sum()), decrement, losses)


# What follows takes one problem, or a stack of them along the first axis, of shape (...).


def occupations(
    values: FloatArray, mu: FloatArray, r: int, level: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the inner minimiser P as its level, its eigenvalues and their complements.

    P has the eigenvectors of A(t), and each occupation p solves
    ``(level - lambda) / mu = 1 / p - 1 / (1 - p)``. The level is found by safeguarded Newton steps
    so that the occupations add up to r.

    Parameters
    ----------
    values : ndarray of shape (..., n)
        Eigenvalues of A(t), decreasing.
    mu, level : ndarray of shape (...)
        The barrier parameter, and a guess of the level.
    r : int
    """
    spread = 2 * mu * values.shape[-1]
    low, high = values[..., -1] - spread, values[..., 0] + spread
    level = np.clip(level, low, high)
    for _ in range(100):
        # Of p and 1 - p the smaller one, and then the other: neither is cancelled.
        a = (level[..., None] - values) / mu[..., None]
        size = np.abs(a) + np.sqrt(a * a + 4.0)
        small, large, empty = 2.0 / (size + 2.0), size / (size + 2.0), a >= 0
        occupied, vacant = np.where(empty, small, large), np.where(empty, large, small)
        # Excess against deficit: the plain sum minus r would cancel at small mu. In logarithms
        # the two are nearly straight lines, and Newton needs few steps.
        excess, deficit = occupied[..., r:].sum(axis=-1), vacant[..., :r].sum(axis=-1)
        residual = np.log(excess / deficit)
        low, high = np.where(residual > 0, level, low), np.where(residual > 0, high, level)
        slopes = 1.0 / (occupied**-2 + vacant**-2)
        slope = slopes[..., r:].sum(axis=-1) / excess + slopes[..., :r].sum(axis=-1) / deficit
        step = level + mu * residual / slope
        settled = (np.abs(residual) <= 2e-13) | (np.abs(step - level) <= 1e-15 * np.abs(level))
        if settled.all():
            break
        step = np.where((low < step) & (step < high), step, 0.5 * (low + high))
        level = np.where(settled, level, step)
    return level, occupied, vacant


def above_phi(
    values: FloatArray, p: FloatArray, v: FloatArray, x: FloatArray, mu: Any, r: int
) -> FloatArray:
    """Return F minus phi, shape (...): what P changes against a projector, and the barriers.

    `p` and `v` are the occupations of P and their complements, `x` the multipliers.
    """
    moved = (values[..., :r] * v[..., :r]).sum(axis=-1)
    moved -= (values[..., r:] * p[..., r:]).sum(axis=-1)
    barriers = np.log(x).sum(axis=-1) - np.log(p).sum(axis=-1) - np.log(v).sum(axis=-1)
    return np.asarray(moved + mu * barriers)


def _responses(p: FloatArray, v: FloatArray) -> FloatArray:
    """Return how P moves with A, entry by entry in the eigenbasis (times 1 / mu)."""
    both, neither = (part[..., :, None] * part[..., None, :] for part in (p, v))
    return np.asarray(1.0 / (1.0 / both + 1.0 / neither))


def curvature(rotated: FloatArray, p: FloatArray, v: FloatArray, mu: FloatArray) -> FloatArray:
    """Return minus the Hessian of F, shape (..., j, j), without the log terms.

    `rotated` are the j matrices in the eigenbasis, shape (..., j, n, n). The Hessian follows from
    how P moves with A; the term that is subtracted keeps the trace of P.
    """
    omega = _responses(p, v)
    flat = rotated.reshape(*rotated.shape[:-2], -1)
    hessian = flat @ np.swapaxes(flat * omega.reshape(*omega.shape[:-2], 1, -1), -1, -2)
    own = np.diagonal(omega, axis1=-2, axis2=-1)[..., None]
    mean = np.diagonal(rotated, axis1=-2, axis2=-1) @ own
    hessian -= mean * np.swapaxes(mean, -1, -2) / own.sum(axis=-2, keepdims=True)
    return np.asarray(hessian / mu[..., None, None])


def newton_steps(
    hessian: FloatArray, gradient: FloatArray, x: FloatArray, mu: FloatArray, g: int
) -> tuple[FloatArray, FloatArray]:
    """Return Newton's steps of F, in units of the multipliers `x`, and their decrements.

    The first g multipliers keep their sum. In their units weights near zero do not drown the rest.
    A singular system is solved by least squares.
    """
    j = x.shape[-1]
    system, right = np.zeros((*x.shape[:-1], j + 1, j + 1)), np.zeros((*x.shape[:-1], j + 1, 1))
    system[..., :j, :j] = hessian * x[..., :, None] * x[..., None, :]
    system[..., :j, :j] += mu[..., None, None] * np.eye(j)
    size = np.abs(system).max(axis=(-2, -1))
    system[..., :g, j] = system[..., j, :g] = size[..., None] * x[..., :g]
    right[..., :j, 0] = x * gradient + mu[..., None]
    try:
        solved = np.linalg.solve(system, right)
    except np.linalg.LinAlgError:
        solved = np.linalg.pinv(system, hermitian=True) @ right
    decrement = np.sqrt(np.maximum((solved * right).sum(axis=(-2, -1)), 0.0) / mu)
    return np.asarray(solved[..., :j, 0]), np.asarray(decrement)


def guesses(occupation: FloatArray, r: int) -> Iterator[slice]:
    """Yield the blocks of tied eigenvalues that occupations, in the order of these, suggest.

    Occupations are near 1 above the tied eigenvalues, near 0 below, and fractions in between. How
    near is not known while mu is positive, so several thresholds are read.
    """
    seen: set[tuple[int, int]] = set()
    for threshold in _THRESHOLDS:
        inside = np.flatnonzero((occupation > threshold) & (occupation < 1 - threshold))
        # One fractional occupation cannot add up to a whole number: lambda_r is simple then.
        first, last = (int(inside[0]), int(inside[-1]) + 1) if len(inside) > 1 else (r, r)
        first, last = min(first, r), max(last, r)
        if (first, last) in seen or last - first > _MAX_CLUSTER:
            continue
        seen.add((first, last))
        yield slice(first, last)


def polish(dual: Dual, relaxed: Relaxed, active: NDArray[np.bool_]) -> None:
    """Run Newton steps with the cluster of `relaxed` held; offer what they find to `dual`.

    `active` tells which groups are taken to have the common, largest loss. A wrong guess of these
    or of the cluster shows in a step that is inconsistent or does not halve the gap, and then
    nothing is lost but a few decompositions.
    """
    here, point = relaxed, relaxed.point
    dual.offer(here)
    last_gap = np.inf
    for step in range(_MAX_POLISH_STEPS):
        gap = here.value - point.phi
        if gap > 0.5 * last_gap:
            break
        last_gap = gap if step else np.inf
        taken = _constrained_step(dual, here, active)
        if not _consistent(here, taken):
            break
        vectors = here.held_vectors
        matrix = np.diag(here.cluster.occupation) + taken.change
        active = taken.active
        weights = np.where(active, np.maximum(point.weights + taken.delta, 0.0), 0.0)
        if not weights.sum() > 0:
            break
        point = dual.evaluate(weights / weights.sum())
        # The tied eigenvectors of both points span nearly the same space. The rotation between
        # them is the orthogonal matrix nearest to their inner products (Procrustes).
        first, q = here.cluster.first, vectors.shape[1]
        u, _, vt = np.linalg.svd(point.vectors[:, first : first + q].T @ vectors)
        turn = u @ vt
        cluster = Cluster.of(first, symmetric(turn @ matrix @ turn.T), dual.r)
        here = occupy(point, cluster, dual.r)
        dual.offer(here)
        if dual.closed:
            break


@dataclass(frozen=True)
class _Solved:
    """A step: change of the weights, change of W, losses it predicts, and who is active.

    W is P on the tied eigenvectors; its change, of shape (q, q), is symmetric and of trace zero.
    `level` is the common loss of the active groups after the step.
    """

    delta: FloatArray
    change: FloatArray
    losses: FloatArray
    level: float
    active: NDArray[np.bool_]


def _constrained_step(dual: Dual, here: Relaxed, active: NDArray[np.bool_]) -> _Solved:
    """Return the step whose weights stay nonnegative and whose idle groups stay below the rest.

    Which groups take part is settled on the linearised conditions, before a decomposition is
    spent. A group that was put out is let in again once at most.
    """
    active = active.copy()
    curvature = here.point.curvature(here.cluster)
    returned = np.zeros(len(active), dtype=bool)
    while True:
        solved = cluster_step(dual, here, active, curvature)
        target = here.point.weights + solved.delta
        falling = np.flatnonzero(active & (target < 0))
        if len(falling) and np.count_nonzero(active) > 1:
            # The worse half at once: one by one is slow where hundreds of groups are idle.
            order = np.argsort(target[falling] * dual.group_scales[falling], kind="stable")
            active[falling[order[: (len(falling) + 1) // 2]]] = False
            continue
        excess = np.where(active | returned, -np.inf, solved.losses - solved.level)
        worst = int(np.argmax(excess))
        if excess[worst] <= dual.target * dual.reference:
            return solved
        active[worst] = returned[worst] = True


def _consistent(here: Relaxed, solved: _Solved) -> bool:
    """Whether a step keeps the order of the blocks and W near its limits, to first order.

    A W far outside [0, 1] means that the cluster is too large, a crossing that it is too small;
    both can be seen before any decomposition is spent.
    """
    held, point = here.cluster, here.point
    n = len(point.values)
    moved = point.values.copy()
    upto = min(held.last + 4, n)
    diagonals = np.diagonal(point.columns(upto), axis1=1, axis2=2)
    moved[:upto] += solved.delta @ diagonals
    top = moved[: held.first].min(initial=np.inf)
    bottom = moved[held.last : upto].max(initial=-np.inf)
    if held.last == held.first:
        return bool(top >= bottom)
    new = np.linalg.eigvalsh(np.diag(held.occupation) + solved.change)
    tied = float(moved[held.first : held.last].mean())
    return bool(new[0] > -0.3 and new[-1] < 1.3 and top >= tied >= bottom)


def cluster_step(
    dual: Dual, here: Relaxed, active: NDArray[np.bool_], curvature: FloatArray
) -> _Solved:
    """Solve the linearised optimality conditions for given active groups.

    The active groups have equal losses, the q held eigenvalues are equal, the weights keep their
    sum and W its trace. Unknowns are the active weights, the q (q + 1) / 2 entries of W, the
    common loss and the common eigenvalue (compare Overton and Womersley 1995). The system is
    singular where groups repeat, hence least squares.

    W and its change are in the basis in which W is diagonal. `curvature`, of shape (k, k), is that
    of the point with the cluster held.
    """
    held, point = here.cluster, here.point
    index = np.flatnonzero(active)
    block = slice(held.first, held.last)
    q, m = held.last - held.first, len(index)
    # The conditions on sums are in units of the matrices, so that none of them drowns in the rest.
    unit = dual.spectral
    units = unit / dual.group_scales[index]
    tied = point.columns(held.last)[:, block, block]
    tied = held.rotation.T @ tied @ held.rotation
    level = (held.rotation.T * point.values[block]) @ held.rotation
    rows, columns = np.triu_indices(q)
    root = np.where(rows == columns, 1.0, np.sqrt(2.0))
    inner = tied[:, rows, columns] * root
    size = m + len(rows)
    system = np.zeros((size + 2, size + 2))
    system[:m, :m] = -curvature[np.ix_(index, index)] * units[:, None] * units
    system[:m, m:size] = -inner[index] * units[:, None]
    system[m:size, :m] = system[:m, m:size].T
    system[:m, size] = system[size, :m] = -unit * units
    system[m:size, size + 1] = system[size + 1, m:size] = unit * (rows == columns)
    # Groups outside the active set give up their weight in this step.
    delta = np.where(active, 0.0, -point.weights)
    # Common loss and common eigenvalue enter as changes too: a least-norm solution then stays
    # near the present point where the optimal weights are not unique.
    loss, tie = here.value, float(np.trace(level)) / max(q, 1)
    right = np.concatenate(
        [
            (loss - here.losses[index] + curvature[index] @ delta) * units,
            (level - tie * np.eye(q))[rows, columns] * root + delta @ inner,
            [unit * delta.sum(), 0.0],
        ]
    )
    solved = scipy.linalg.lstsq(
        system, right, cond=1e-13, lapack_driver="gelsy", check_finite=False
    )[0]
    delta[index] = solved[:m] * units
    entries = solved[m:size]
    change = np.zeros((q, q))
    change[rows, columns] = change[columns, rows] = entries / root
    losses = here.losses - inner @ entries - curvature @ delta
    return _Solved(delta, change, losses, loss + unit * float(solved[size]), active)
