"""A concave quadratic over a simplex with as many variables as there are groups.

Both the Newton step on phi and the step of the minimax refinement end in this problem. It is
small (one variable per group), so a dense active-set method is exact and quick, and no solver has
to be imported.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from fairpca.arrays import FloatArray

# Relative size of the ridge that makes duplicate groups share their weight evenly.
_RIDGE = 1e-13


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
    k = len(linear)
    # Where the quadratic vanishes (commuting matrices) the ridge is what keeps the faces solvable.
    flat = 1e-6 * float(np.abs(linear).max()) * float(sums.max())
    size = max(float(np.trace(quadratic)), flat, float(np.finfo(float).tiny))
    hessian = quadratic + _RIDGE * size * np.eye(k)
    x = np.where(start > 0, start, 0.0)
    free = x > 0
    blocked = -1
    # Finite by strict concavity; the cap guards against cycling at rounding level only.
    for _ in range(20 * k + 20):
        target, level = _on_face(linear, hessian, sums, free)
        step = target - x
        falling = free & (target < 0)
        if not falling.any():
            x = target
            if free.all():
                break
            slope = hessian @ x
            rise = linear - slope - level * sums
            noise = 1e-13 * (np.abs(linear).max() + np.abs(slope).max())
            rise[free] = -np.inf
            if blocked >= 0:
                # Leaving and re-entering at once would cycle.
                rise[blocked], blocked = -np.inf, -1
            entering = int(np.argmax(rise / sums))
            if rise[entering] <= noise:
                break
            free[entering] = True
            continue
        ratios = np.full(k, np.inf)
        ratios[falling] = x[falling] / -step[falling]
        blocked = int(np.argmin(ratios))
        x = np.maximum(x + min(float(ratios[blocked]), 1.0) * step, 0.0)
        x[blocked] = 0.0
        free[blocked] = False
    return x / float(sums @ x)


def _on_face(
    linear: FloatArray, hessian: FloatArray, sums: FloatArray, free: NDArray[np.bool_]
) -> tuple[FloatArray, float]:
    """Return the maximiser with zeros outside `free`, signs ignored, and the multiplier."""
    index = np.flatnonzero(free)
    m = len(index)
    if m == 1:
        target = np.zeros(len(linear))
        target[index] = 1.0 / sums[index]
        return target, float(((linear - hessian @ target) / sums)[index[0]])
    system = np.zeros((m + 1, m + 1))
    system[:m, :m] = hessian if m == len(hessian) else hessian[index[:, None], index]
    # The border is scaled to the block so that elimination pivots sensibly.
    weight = float(np.abs(system[:m, :m]).max()) or 1.0
    system[:m, m] = system[m, :m] = weight * sums[index]
    right = np.append(linear[index], weight)
    try:
        solved = np.linalg.solve(system, right)
    except np.linalg.LinAlgError:
        solved = np.linalg.lstsq(system, right, rcond=None)[0]
    target = np.zeros(len(linear))
    target[index] = solved[:m]
    return target, float(weight * solved[m])
