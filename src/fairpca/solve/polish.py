"""Newton's method for the dual at a kink: the tied eigenvalues are kept tied.

At the maximiser of phi the eigenvalues around position r may coincide. Given which ones (the
cluster), the optimality conditions are smooth again: unknown are the weights t, the occupation
matrix W of the tied eigenspace, the common loss s and the common eigenvalue z,

    y_i(W) = s for active groups,   U2.T A(t) U2 = z I,   tr W = d,   sum t = 1.

One step is a linear system in as many unknowns as groups and entries of W; it converges
quadratically. Minimum-norm least squares takes care of duplicate groups and of a W that is not
unique.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from fairpca.arrays import FloatArray, symmetric
from fairpca.solve.dual import Dual
from fairpca.solve.dual_point import Cluster, DualPoint, Relaxed, fill, occupy

# The unknown W has q (q + 1) / 2 entries; a wrong guess of a large cluster would cost seconds.
_MAX_CLUSTER = 24
_MAX_STEPS = 8
# An occupation within this of 0 or 1 counts as whole; likeliest reading first.
_THRESHOLDS = (3e-2, 3e-3, 3e-4, 1e-1)


def guesses(occupation: FloatArray, r: int) -> Iterator[Cluster]:
    """Yield the clusters that occupations in the order of the eigenvalues suggest."""
    seen: set[tuple[int, int]] = set()
    for threshold in _THRESHOLDS:
        inside = np.flatnonzero((occupation > threshold) & (occupation < 1 - threshold))
        # One fractional occupation cannot add up to a whole number: lambda_r is simple then.
        first, last = (int(inside[0]), int(inside[-1]) + 1) if len(inside) > 1 else (r, r)
        first, last = min(first, r), max(last, r)
        if (first, last) in seen or last - first > _MAX_CLUSTER:
            continue
        seen.add((first, last))
        yield Cluster(first, last, fill(occupation[first:last], r - first))


def binding(weights: FloatArray, losses: FloatArray, scales: FloatArray) -> NDArray[np.bool_]:
    """Return which groups may carry weight: not much less of it than they have slack."""
    slack = losses.max() - losses
    sizes = weights * scales
    return np.asarray((sizes > 0.03 * slack) & (sizes > 1e-9 * sizes.max()))


def polish(dual: Dual, relaxed: Relaxed, active: NDArray[np.bool_]) -> bool:
    """Run Newton steps with the cluster of `relaxed` held; offer what they find to `dual`.

    Returns
    -------
    bool
        Whether the first step was consistent with the cluster at all.
    """
    here, point = relaxed, relaxed.point
    dual.offer(here)
    last_gap = np.inf
    for step in range(_MAX_STEPS):
        gap = here.value - point.phi
        if gap > 0.5 * last_gap:
            break
        last_gap = gap if step else np.inf
        solved = _constrained_step(dual, here, active)
        if not _consistent(here, solved):
            return step > 0
        vectors = held_vectors(here)
        matrix = np.diag(here.cluster.occupation) + solved.change
        active = solved.active
        weights = np.where(active, np.maximum(point.weights + solved.delta, 0.0), 0.0)
        point = dual.evaluate(weights / weights.sum())
        cluster = carry(vectors, matrix, here.cluster.first, point, dual.r)
        here = occupy(point, cluster, dual.r)
        dual.offer(here)
        if dual.closed:
            break
    return True


@dataclass(frozen=True)
class _Solved:
    """A step: change of the weights, change of W, losses it predicts, and who is active."""

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
    curvature = dual.curvature(here.point, here.cluster)
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


def held_vectors(here: Relaxed) -> FloatArray:
    """Return the tied eigenvectors, rotated so that W is diagonal in them."""
    held = here.cluster
    vectors = here.point.pairs.vectors[:, held.first : held.last]
    return vectors if held.rotation is None else vectors @ held.rotation


def _consistent(here: Relaxed, solved: _Solved) -> bool:
    """Whether a step keeps the order of the blocks and W near its limits, to first order.

    A W far outside [0, 1] means that the cluster is too large, a crossing that it is too small;
    both can be seen before any decomposition is spent.
    """
    held, point = here.cluster, here.point
    n = len(point.pairs.values)
    moved = point.pairs.values.copy()
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

    W and its change are in the basis in which W is diagonal.
    """
    held, point = here.cluster, here.point
    index = np.flatnonzero(active)
    block = slice(held.first, held.last)
    q, m = held.last - held.first, len(index)
    units = dual.spectral / dual.group_scales[index]
    tied = point.columns(held.last)[:, block, block]
    level = np.diag(point.pairs.values[block])
    if held.rotation is not None:
        tied = held.rotation.T @ tied @ held.rotation
        level = held.rotation.T @ level @ held.rotation
    rows, columns = np.triu_indices(q)
    root = np.where(rows == columns, 1.0, np.sqrt(2.0))
    inner = tied[:, rows, columns] * root
    size = m + len(rows)
    system = np.zeros((size + 2, size + 2))
    system[:m, :m] = -curvature[np.ix_(index, index)] * units[:, None] * units
    system[:m, m:size] = -inner[index] * units[:, None]
    system[m:size, :m] = system[:m, m:size].T
    system[:m, size] = system[size, :m] = -units
    system[m:size, size + 1] = system[size + 1, m:size] = rows == columns
    # Groups outside the active set give up their weight in this step.
    delta = np.where(active, 0.0, -point.weights)
    # Common loss and common eigenvalue enter as changes too: a least-norm solution then stays
    # near the present point where the optimal weights are not unique.
    loss, tie = here.value, float(np.trace(level)) / max(q, 1)
    right = np.concatenate(
        [
            (loss - here.losses[index] + curvature[index] @ delta) * units,
            (level - tie * np.eye(q))[rows, columns] * root + delta @ inner,
            [delta.sum(), 0.0],
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
    return _Solved(delta, change, losses, loss + float(solved[size]), active)


def carry(vectors: FloatArray, matrix: FloatArray, first: int, to: DualPoint, r: int) -> Cluster:
    """Express P on the orthonormal block `vectors` in the eigenvectors of another point."""
    q = vectors.shape[1]
    if q == 0:
        return Cluster(r, r, np.zeros(0))
    u, _, vt = np.linalg.svd(to.pairs.vectors[:, first : first + q].T @ vectors)
    turn = u @ vt
    return Cluster.of(first, symmetric(turn @ matrix @ turn.T), r)
