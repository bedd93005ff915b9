"""A step on phi where eigenvalues meet at the cut between kept and dropped directions.

The eigenvectors near the cut are left free: compressed to them the problem is one of the same
kind, only small, and what the compression leaves out enters to second order. The small problem is
solved by the barrier, whose occupations also show which eigenvalues are tied in the end; Newton's
method with those held tied then finishes. (Second-order spectral bundle methods model the kink in
the same way: Helmberg, Overton and Rendl 2014.)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairpca.arrays import FloatArray, symmetric
from fairpca.solve.barrier import Barrier
from fairpca.solve.dual import Dual, Quadratic
from fairpca.solve.dual_point import Cluster, DualPoint, Relaxed, occupy
from fairpca.solve.eigen import DenseOracle
from fairpca.solve.polish import binding, carry, guesses, polish
from fairpca.solve.problem import Problem

# Most eigenvectors left free; never more than half of all, but two at least.
_NEAR = 24
# Relative gap below which the occupations are worth a Newton step with ties held.
_WORTH_POLISHING = 0.05
# The barrier ends by itself; its decompositions here are of the small size.
_NO_LIMIT = 10**9


@dataclass(frozen=True)
class _Model:
    """The solution of the small problem: weights, losses it predicts, P on the near block."""

    weights: FloatArray
    losses: FloatArray
    occupation: FloatArray
    rotation: FloatArray


def step_by_model(dual: Dual, point: DualPoint) -> DualPoint:
    """Evaluate phi at the maximiser of the model around `point`, then polish if it is close."""
    near = near_block(point, dual.r)
    model = _solve_model(dual, point, near)
    vectors = point.pairs.vectors[:, near] @ model.rotation
    active = binding(model.weights, model.losses, dual.group_scales)
    weights = np.where(active, model.weights, 0.0)
    trial = dual.evaluate(weights / float(weights.sum()))
    dual.offer(_lift(trial, vectors, model.occupation, near.start, dual.r))
    if dual.closed or dual.gap > _WORTH_POLISHING:
        return trial
    for guess in guesses(model.occupation, dual.r - near.start):
        part = vectors[:, guess.first : guess.last]
        here = _lift(trial, part, guess.occupation, guess.first + near.start, dual.r)
        if polish(dual, here, active):
            break
    return trial


def _lift(
    point: DualPoint, vectors: FloatArray, occupation: FloatArray, first: int, r: int
) -> Relaxed:
    return occupy(point, carry(vectors, np.diag(occupation), first, point, r), r)


def near_block(point: DualPoint, r: int) -> slice:
    """Return the positions of the eigenvalues nearest to the cut."""
    values = point.pairs.values
    size = min(max(len(values) // 2, 2), _NEAR)
    first, last = r - 1, r + 1
    cut = 0.5 * (values[r - 1] + values[r])
    while last - first < size:
        above = values[first - 1] - cut if first > 0 else np.inf
        below = cut - values[last] if last < len(values) else np.inf
        first, last = (first - 1, last) if above <= below else (first, last + 1)
    return slice(first, last)


def _solve_model(dual: Dual, point: DualPoint, near: slice) -> _Model:
    part = point.columns(near.stop)
    kept = np.diagonal(part, axis1=1, axis2=2)[:, : near.start].sum(axis=1)
    oracle = DenseOracle(np.ascontiguousarray(part[:, near, near]))
    oracle.scale = dual.oracle.scale
    inside = Problem(oracle, dual.problem.offsets - kept, dual.r - near.start)
    # Far from the optimum an exact maximiser of the model is no better than a rough one.
    accuracy = max(1e-8, min(1e-4, 0.01 * dual.gap))
    full = np.where(np.arange(near.start, near.stop) < dual.r, 1.0, 0.0)
    held = Cluster(near.start, near.stop, full)
    # The first pass finds how the near block is occupied; the second uses it for the curvature
    # that the block leaves out.
    weights, mu = point.weights, 0.1
    for _ in range(2):
        extra = Quadratic(point.weights, dual.curvature(point, held))
        small = Dual(inside, max_iter=_NO_LIMIT, target=0.0, extra=extra, spectral=dual.spectral)
        small.group_scales = dual.group_scales
        centre = Barrier(small, weights, mu).advance(accuracy * small.spectral)
        weights, mu = centre.weights, min(0.1, 125 * accuracy)
        block = Cluster.of(0, symmetric(centre.matrix), inside.n_components)
        assert block.rotation is not None
        rotation = centre.path.point.pairs.vectors @ block.rotation
        held = Cluster(near.start, near.stop, block.occupation, rotation)
    return _Model(centre.weights, centre.losses, block.occupation, rotation)
