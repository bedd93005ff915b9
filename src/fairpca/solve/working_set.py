"""Many groups of which few can bind: solve with some of them, let in those it treats worst.

Weights that rest on a few groups are a point of the whole simplex, so every bound found on the way
is a bound for all groups. When no group left out has a relaxed loss above the worst of those in,
the small problem's solution is that of the whole. How many groups can bind is limited by the
dimension of the matrices, whatever their total.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

import numpy as np

from fairpca.arrays import FloatArray, IntArray
from fairpca.solve.dual import BudgetSpent, Dual
from fairpca.solve.dual_point import DualPoint, occupy
from fairpca.solve.eigen import DenseOracle
from fairpca.solve.problem import Problem

# From this many groups on the work per group weighs more than a few more decompositions.
MANY = 250
# Groups in the first set, and most that join at a time.
_FIRST, _MORE = 32, 32
# Relative gap to which the problem is solved while the set still grows.
_ROUGH = 1e-2


def by_working_set(
    dual: Dual, start: FloatArray | None, solve: Callable[[Dual, DualPoint], None]
) -> None:
    """Solve the dual with growing sets of groups; half of the decompositions left are spared.

    Parameters
    ----------
    dual : Dual
        Over all groups; takes what is found.
    start : ndarray of shape (k,), optional
        First weights.
    solve : callable
        Maximises a dual from a given point.
    """
    k, reserve = dual.oracle.n_groups, dual.left // 2
    point = dual.evaluate(np.full(k, 1.0 / k) if start is None else start)
    chosen = np.argsort(-point.losses, kind="stable")[:_FIRST]
    if start is not None:
        chosen = np.union1d(chosen, np.flatnonzero(start > 0))
    target = max(_ROUGH, dual.target)
    while not dual.closed and dual.left > reserve:
        part = _part(dual, chosen, target, dual.left - reserve)
        assert dual.best is not None
        # A little weight for all: those that just came in have none yet.
        weights = dual.best.weights[chosen] + 1e-3 / len(chosen)
        with suppress(BudgetSpent):
            solve(part, part.evaluate(weights / float(weights.sum())))
        excess = _adopt(dual, part, chosen)
        worst = np.argsort(-excess, kind="stable")[:_MORE]
        worst = worst[excess[worst] > 0.1 * target * dual.reference]
        if not len(worst) and target <= dual.target:
            return
        if not len(worst):
            target = dual.target
        chosen = np.union1d(chosen, worst)


def _part(dual: Dual, chosen: IntArray, target: float, max_iter: int) -> Dual:
    """Return the dual of some of the groups, with the scales of the whole."""
    oracle = DenseOracle(dual.oracle.covariances[chosen])
    oracle.scale = dual.oracle.scale
    part = Dual(
        Problem(oracle, dual.problem.offsets[chosen], dual.r),
        max_iter=max_iter,
        target=target,
        spectral=dual.spectral,
    )
    part.group_scales = dual.group_scales[chosen]
    return part


def _adopt(dual: Dual, part: Dual, chosen: IntArray) -> FloatArray:
    """Give the whole dual what a part of it found.

    Returns
    -------
    ndarray of shape (k,)
        By how much the groups left out exceed the worst relaxed loss of those in.
    """
    used = len(part.history)
    dual.left -= used
    dual.oracle.n_eigen += used
    dual.history.extend(part.history)
    assert dual.best is not None
    assert part.best is not None
    assert part.relaxed is not None
    if part.best.phi > dual.best.phi:
        dual.best = _lifted(dual, part.best, chosen)
    relaxed = occupy(_lifted(dual, part.relaxed.point, chosen), part.relaxed.cluster, dual.r)
    dual.offer(relaxed)
    excess = relaxed.losses - part.relaxed.value
    excess[chosen] = -np.inf
    return excess


def _lifted(dual: Dual, point: DualPoint, chosen: IntArray) -> DualPoint:
    """Return a point over some groups as one over all."""
    weights = np.zeros(dual.oracle.n_groups)
    weights[chosen] = point.weights
    images, losses = dual.problem.images_and_losses(point.pairs.vectors[:, : dual.r])
    return DualPoint(weights, point.pairs, point.phi, losses, dual.oracle.covariances, images)
