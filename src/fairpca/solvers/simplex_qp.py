"""A concave quadratic over a simplex with as many variables as there are groups.

The steps of `dual.ascend` and of `descent.descend` end in this problem. It is
small (one variable per group), so a dense active-set method is exact and quick, and no solver has
to be imported. On a face of the simplex, with x zero outside it, the maximiser solves

    Q x + s a = l,   a . x = 1

for x and a multiplier s. The method walks from face to face: a variable that would turn negative
leaves, and the one whose derivative exceeds ``s a`` by the most, relative to a, enters (see
Nocedal and Wright, "Numerical Optimization", chapter 16). Read `maximise_on_simplex` first.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg.lapack import dgesv

from fairpca._arrays import TINY, FloatArray, IntArray

# Relative size of the ridge that makes duplicate groups share their weight evenly.
_RIDGE = 1e-13
# A support larger than this is not walked down one by one. 300 groups took 21 s where they take 4
# from a corner; for few groups the old point is the better start.
_MANY = 64
# Up to this, linear and quadratic term are as good as none, and products underflow.
_SMALLEST = 1e-200


def maximise_on_simplex(
    linear: FloatArray,
    quadratic: FloatArray,
    sums: FloatArray,
    start: FloatArray,
) -> FloatArray:
    """Maximise ``linear @ x - x @ quadratic @ x / 2`` over ``x >= 0, sums @ x = 1``.

    Parameters
    ----------
    linear : ndarray of shape (k,)
    quadratic : ndarray of shape (k, k)
        Positive semidefinite.
    sums : ndarray of shape (k,)
        Positive.
    start : ndarray of shape (k,)
        A feasible point.

    Returns
    -------
    ndarray of shape (k,)
        Exactly zero outside the support.
    """
    k = len(sums)
    # The system of all variables is bordered by the sum; the border is scaled to the block so that
    # elimination pivots sensibly. The largest entry of a semidefinite matrix is on its diagonal.
    # As lists: for so few numbers NumPy's calls take longer than Python's.
    diagonal = quadratic.diagonal().tolist()
    # A tiny ridge makes every face have one maximiser. Where the quadratic vanishes (commuting
    # matrices) it keeps the faces solvable.
    flat = 1e-6 * max(map(abs, linear.tolist())) * max(sums.tolist())
    ridge = _RIDGE * max(sum(diagonal), flat, TINY)
    unit = max(diagonal) + ridge
    if unit <= _SMALLEST:
        # Nothing to gain anywhere; an even spread is as good as any other point.
        ridge = unit = 1.0
    system = np.zeros((k + 1, k + 1))
    system[:k, :k] = quadratic
    system.flat[: -1 : k + 2] += ridge
    system[:k, k] = system[k, :k] = unit * sums
    # The last entry stands for the sum, which every face keeps, and its multiplier.
    right, x, free = np.empty(k + 1), np.empty(k + 1), np.empty(k + 1, dtype=bool)
    right[:k], right[k] = linear, unit
    x[:k], x[k] = np.maximum(start, 0.0), 1.0
    if k > _MANY and np.count_nonzero(x[:k]) > _MANY:
        x[:k] = _best_corner(linear, system.diagonal()[:k], sums)
    np.greater(x, 0.0, out=free)
    blocked = -1
    # Finite by strict concavity; the cap guards against cycling at rounding level only.
    for _ in range(20 * k + 20):
        index = free.nonzero()[0]
        target = _on_face(system, right, index, sums)
        if min(target[:-1].tolist()) >= 0:
            x = np.zeros(k + 1)
            x[index] = target
            if len(index) > k:
                break
            slope = system[:, index] @ target if k > _MANY else system @ x
            rise = right - slope
            rise[index] = -np.inf
            if blocked >= 0:
                # Leaving and re-entering at once would cycle.
                rise[blocked], blocked = -np.inf, -1
            if max(rise.tolist()) <= 0:
                break
            entering = int((rise[:k] / sums).argmax())
            noise = 1e-13 * float(np.abs(linear).max() + np.abs(slope).max())
            if rise[entering] <= noise:
                break
            free[entering] = True
            continue
        here = x[index]
        step = target - here
        falling = (target[:-1] < 0).nonzero()[0]
        ratios = here[falling] / -step[falling]
        first = int(ratios.argmin())
        blocked = int(index[falling[first]])
        x[index] = np.maximum(here + min(float(ratios[first]), 1.0) * step, 0.0)
        x[blocked] = 0.0
        free[blocked] = False
    found = x[:k]
    return np.asarray(found / float(sums @ found))


def _best_corner(linear: FloatArray, diagonal: FloatArray, sums: FloatArray) -> FloatArray:
    """Return the best point of a single group.

    Of many groups few bind in the end, and the others would leave one by one, for a solve each.
    """
    corner = np.zeros_like(sums)
    best = int((linear / sums - 0.5 * diagonal / sums**2).argmax())
    corner[best] = 1.0 / sums[best]
    return corner


def _on_face(
    system: FloatArray, right: FloatArray, index: IntArray, sums: FloatArray
) -> FloatArray:
    """Return the maximiser on a face, signs ignored, followed by its multiplier.

    The face consists of the variables in `index`, whose last entry stands for the multiplier.
    `system` and `right` are the bordered system of all variables.
    """
    if len(index) == 2:
        # A corner; elimination with a vanishing quadratic would miss even that.
        i, share = int(index[0]), float(sums[index[0]])
        level = float(right[i] - system[i, i] / share) / share
        return np.array([1.0 / share, level / right[-1]])
    if len(index) < len(right):
        system, right = system[index[:, None], index], right[index]
    # The driver behind np.linalg.solve, whose wrapping takes longer than the solving.
    _, _, solved, failed = dgesv(system, right)
    if failed or not math.isfinite(sum(solved.tolist())):
        solved = np.linalg.lstsq(system, right, rcond=None)[0]
    return np.asarray(solved)
