"""Newton's method on phi: the fast path of the dual.

As long as the r-th eigenvalue of A(t) is well separated from the next, phi is smooth and one
decomposition gives value, gradient and Hessian; the quadratic model is maximised over the whole
simplex, so groups enter and leave the active set in one step. A few more products tell how the
gradient bends along that step and correct it, one order more for a fraction of a decomposition.
Where the step would turn the leading eigenvectors too far, phi bends on the way and the quadratic
is wrong: the step is shortened, and after one that failed the curvature is corrected to what it
met. Where that does not help either, `solve.kink` takes the step with the eigenvectors near the
cut left free.
"""

from __future__ import annotations

import numpy as np

from fairpca.arrays import FloatArray
from fairpca.solve.dual import Dual
from fairpca.solve.dual_point import DualPoint
from fairpca.solve.eigen import DenseOracle
from fairpca.solve.kink import step_by_model
from fairpca.solve.problem import Problem
from fairpca.solve.quadratic import SimplexQuadratic, maximise_on_simplex

_MAX_STEPS = 16
# Steps in a row that do not help, until the model of a kink is asked, and until others are. A step
# is a decomposition; the model takes as long as ten and more.
_PATIENCE, _MAX_STALLS = 3, 4
# Points that failed around one and the same, until the model is asked.
_MAX_FAILED = 5
# Groups whose scales differ by more than this get two more starting points.
_UNEVEN = 10.0
# Turn of the leading eigenvectors (a tangent) up to which the quadratic model is trusted.
# Between 0.01 and 0.3 the count of decompositions hardly moves; below 0.3 the time grows. A step
# that turns them further is shortened to that and tried.
_SMALL_TURN = 0.3
# Turn up to which the correction by the bend is taken; past it the series means nothing.
_BENT_TURN = 0.5


def starting_point(dual: Dual, start: FloatArray | None = None) -> DualPoint:
    """Evaluate phi at sensible first weights and return the best of them.

    Even weights, or better ones where the groups' own bases are known; where the groups'
    magnitudes differ widely also weights that even out the magnitudes, and the geometric mean of
    both. A given `start` is tried instead.
    """
    if start is not None:
        return dual.evaluate(start)
    scales = dual.group_scales
    uneven = scales.max() > _UNEVEN * scales.min()
    even = np.full(len(scales), 1.0 / len(scales))
    own = dual.problem.own
    first = dual.evaluate(even if uneven or own is None else _from_own_bases(dual.problem, even))
    if not uneven:
        return first
    inverse = 1.0 / scales
    candidates = [inverse / inverse.sum(), np.sqrt(inverse) / np.sqrt(inverse).sum()]
    points = [first, *(dual.evaluate(weights) for weights in candidates)]
    return max(points, key=lambda point: point.phi)


def _from_own_bases(problem: Problem, even: FloatArray) -> FloatArray:
    """Return weights that maximise a quadratic with the values and slopes of phi at the corners.

    phi vanishes where one group has all the weight, and its slope there is what the others lose
    under that group's own basis; the quadratic takes the mean of both directions of each pair.
    """
    assert problem.own is not None
    assert isinstance(problem.oracle, DenseOracle)
    k, r = len(even), problem.n_components
    bases = np.stack([pairs.vectors[:, :r] for pairs in problem.own])
    projectors = (bases @ np.swapaxes(bases, 1, 2)).reshape(k, -1)
    kept = problem.oracle.covariances.reshape(k, -1) @ projectors.T
    lost = problem.offsets[:, None] - kept
    # On the simplex a constant added to all entries changes nothing.
    quadratic = lost.max() - 0.5 * (lost + lost.T)
    lowest = float(np.linalg.eigvalsh(quadratic)[0])
    if lowest < 0:
        quadratic.flat[:: k + 1] -= lowest
    return maximise_on_simplex(np.zeros(k), quadratic, np.ones(k), even)


def ascend(dual: Dual, point: DualPoint) -> None:
    """Run steps from `point` until the dual is solved or they stop helping."""
    stalls, kinked = 0, False
    # With many groups for the columns the optimum is mostly a tie, and the model is asked at once.
    patient = 2 * dual.oracle.n_groups <= dual.oracle.n_features
    failed: list[DualPoint] = []
    for _ in range(_MAX_STEPS):
        if dual.closed:
            return
        gap, bound = dual.gap, dual.bound
        trial = None
        if not kinked and _separated(dual, point):
            weights, turn = _newton_step(dual, point, failed)
            if turn < _SMALL_TURN:
                if dual.arrives(point, weights):
                    return
                trial = dual.evaluate(weights)
            elif patient:
                share = _SMALL_TURN / turn
                trial = dual.evaluate(point.weights + share * (weights - point.weights))
        smooth = trial is not None
        if trial is None:
            trial = step_by_model(dual, point)
        if not smooth and dual.good:
            return
        tried = [trial]
        if trial.phi < point.phi and not dual.closed:
            trial = _between(dual, point, trial)
            tried.append(trial)
        helped = dual.gap <= 0.7 * gap or (dual.bound - bound) / dual.reference > 0.03 * gap
        stalls = 0 if helped else stalls + 1
        if stalls >= _MAX_STALLS or (stalls and dual.good):
            return
        assert dual.best is not None
        before, point = point, trial if trial.phi >= dual.bound else dual.best
        if point is before and smooth:
            failed += [other for other in tried if other is not before]
        else:
            failed = []
        # Smooth steps that do not help have met a kink they could not see.
        kinked = smooth and (stalls >= _PATIENCE or len(failed) >= (_MAX_FAILED if patient else 1))


def _separated(dual: Dual, point: DualPoint) -> bool:
    # Next to a tie the Hessian is so large that every Newton step looks harmless.
    values = point.pairs.values
    return bool(values[dual.r - 1] - values[dual.r] > 1e-8 * dual.spectral)


def _newton_step(
    dual: Dual, point: DualPoint, failed: list[DualPoint]
) -> tuple[FloatArray, float]:
    """Return the maximiser over the simplex of the model of phi at `point`, and its turn.

    The curvature is that at `point`, towards `failed` points the mean one on the way there.
    """
    curvature = dual.curvature(point, dual.simple)
    for other in failed:
        step, change = other.weights - point.weights, point.losses - other.losses
        curvature = _corrected(curvature, step, change)
    # Unknowns in units in which every group moves phi about equally.
    units = 1.0 / dual.group_scales
    linear = (point.losses + curvature @ point.weights) * units
    model = SimplexQuadratic(linear, curvature * units[:, None] * units, units)
    found = model.maximise(linear, point.weights * dual.group_scales)
    weights = found * units
    step = weights - point.weights
    turn = _turn(point, step)
    if turn < _BENT_TURN and not failed:
        bent = model.maximise(linear + point.bend(step) * units, found) * units
        # A second term larger than the first is no correction.
        if _turn(point, bent - weights) <= turn:
            return bent, _turn(point, bent - point.weights)
    return weights, turn


def _corrected(curvature: FloatArray, step: FloatArray, change: FloatArray) -> FloatArray:
    """Return the curvature, corrected so that `step` changes the gradient by `change` (BFGS)."""
    before = curvature @ step
    known, met = float(step @ before), float(step @ change)
    if min(known, met) <= 0:
        return curvature
    return curvature - np.outer(before, before) / known + np.outer(change, change) / met


def _turn(point: DualPoint, step: FloatArray) -> float:
    """How far a step would turn the leading eigenvectors, to first order (a tangent)."""
    return float(np.abs(step @ point.turns).max())


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
