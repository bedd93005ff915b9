"""Many groups of which few can bind: solve with some of them, let in those it treats worst.

Weights that rest on a few groups are a point of the whole simplex, so every bound found on the way
is a bound for all groups. When no group left out has a relaxed loss above the worst of those in,
the small problem's solution is that of the whole. The number of groups that can bind is limited by
the dimension r (n - r) of the space of subspaces, whatever their total.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fairpca.arrays import FloatArray, IntArray
from fairpca.solve.dual import Dual, DualPoint, occupy
from fairpca.solve.eigen import DenseOracle
from fairpca.solve.problem import Problem

# Below this many groups all take part from the beginning.
_MANY = 24
# From this many on a part of them is tried first in any dimension.
_VERY_MANY = 100
import os
_FIRST, _MORE = int(os.environ.get('WF',32)), int(os.environ.get('WM',32))
_ROUGH=float(os.environ.get('WR',1e-2))


def worthwhile(k: int, n: int, r: int) -> bool:
    """Whether so few of k groups can bind that solving with a part of them pays."""
    return k >= _VERY_MANY or k > max(_MANY, 2 * (r * (n - r) + 1))


def by_working_set(
    dual: Dual, start: FloatArray | None, solve: Callable[[Dual, DualPoint], None]
) -> None:
    """Solve the dual with growing sets of groups.

    Parameters
    ----------
    dual : Dual
        Over all groups; takes what is found.
    start : ndarray of shape (k,), optional
        First weights.
    solve : callable
        Maximises a dual from a given point.
    """
    k = dual.oracle.n_groups
    point = dual.evaluate(np.full(k, 1.0 / k) if start is None else start)
    chosen = np.argsort(-point.losses, kind="stable")[:_FIRST]
    if start is not None:
        chosen = np.union1d(chosen, np.flatnonzero(start > 0))
    target = max(_ROUGH, dual.target)
    while not dual.closed:
        part = _part(dual, chosen, target)
        assert dual.best is not None
        weights = dual.best.weights[chosen] + 1e-3 / len(chosen)
        try:
            solve(part, part.evaluate(weights / float(weights.sum())))
        finally:
            losses = _adopt(dual, part, chosen)
        assert part.relaxed is not None
        excess = losses - part.relaxed.value
        excess[chosen] = -np.inf
        worst = np.argsort(-excess, kind="stable")[:_MORE]
        worst = worst[excess[worst] > 0.1 * target * dual.reference]
        if not len(worst) and target <= dual.target:
            return
        if not len(worst):
            target=dual.target
        chosen = np.union1d(chosen, worst)


def _part(dual: Dual, chosen: IntArray, target: float) -> Dual:
    """Return the dual of some of the groups, with the scales of the whole."""
    oracle = DenseOracle(dual.oracle.covariances[chosen])
    oracle.scale = dual.oracle.scale
    part = Dual(
        Problem(oracle, dual.problem.offsets[chosen], dual.r),
        max_iter=dual.left,
        target=target,
        spectral=dual.spectral,
    )
    part.group_scales = dual.group_scales[chosen]
    return part


def _adopt(dual: Dual, part: Dual, chosen: IntArray) -> FloatArray:
    """Give the whole dual what a part of it found; return all groups' relaxed losses."""
    used = len(part.history)
    dual.left -= used
    dual.oracle.n_eigen += used
    dual.history.extend(part.history)
    if part.best is None or part.relaxed is None:
        return np.full(dual.oracle.n_groups, np.inf)
    best = _lifted(dual, part.best, chosen)
    if dual.best is None or best.phi > dual.best.phi:
        dual.best = best
    relaxed = occupy(_lifted(dual, part.relaxed.point, chosen), part.relaxed.cluster, dual.r)
    dual.offer(relaxed)
    return relaxed.losses


def _lifted(dual: Dual, point: DualPoint, chosen: IntArray) -> DualPoint:
    """Return a point over some groups as one over all."""
    weights = np.zeros(dual.oracle.n_groups)
    weights[chosen] = point.weights
    losses = dual.problem.losses(point.pairs.vectors[:, : dual.r])
    return DualPoint(weights, point.pairs, point.phi, losses, dual.oracle.covariances)
