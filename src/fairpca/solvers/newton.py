"""Newton's method on phi: the fast path of the dual.

As long as the r-th eigenvalue of A(t) is well separated from the next, phi is smooth and one
decomposition gives value, gradient and Hessian; the quadratic model is maximised over the whole
simplex, so groups enter and leave the active set in one step. Where the step would rotate the
leading eigenvectors too far, phi bends on the way and the quadratic is wrong: the step is
shortened, and after one that failed the curvature is corrected to what it met. Where that does not
help either, eigenvalues tie, and the interior-point method goes on. Read `ascend` first.

It is an idea of its own: Newton's method on the dual, separate from the dual function it climbs.
"""

from __future__ import annotations

import numpy as np

from fairpca._linalg import FloatArray
from fairpca.solvers.dual import Dual, DualPoint
from fairpca.solvers.simplex_qp import maximise_on_simplex

# Steps in all; problems that are smooth take five to ten.
_MAX_STEPS = 16
# Steps in a row that may fail to help. A step is one decomposition, and the interior-point method
# takes thirty and more (measured on 1,100 generated problems: 3 to 5 make no difference).
_MAX_STALLS = 4
# Points that may fail around one and the same.
_MAX_FAILED = 5
# Rotation of the leading eigenvectors (a tangent) up to which the quadratic model is trusted; a
# step that rotates them further is shortened to that. Between 0.01 and 0.3 the count of
# decompositions hardly moves; above, steps fail.
_SMALL_ROTATION = 0.3


def ascend(dual: Dual, point: DualPoint) -> None:
    """Run steps from `point` until the dual is solved or they stop helping.

    Nothing is returned: every point evaluated leaves its bound and relaxed value in `dual`. The
    search gives up early, because the interior-point method takes over where phi has kinks.
    """
    stalls = 0
    failed: list[DualPoint] = []
    for _ in range(_MAX_STEPS):
        if dual.closed or not _separated(dual, point):
            return
        gap, bound = dual.gap, dual.bound
        trial = dual.evaluate(_newton_step(dual, point, failed))
        tried = [trial]
        if trial.phi < point.phi and not dual.closed:
            trial = _between(dual, point, trial)
            tried.append(trial)
        helped = dual.gap <= 0.7 * gap or (dual.bound - bound) / dual.reference > 0.03 * gap
        stalls = 0 if helped else stalls + 1
        assert dual.best is not None
        before, point = point, trial if trial.phi >= dual.bound else dual.best
        failed += [other for other in tried if other is not before]
        if point is not before:
            failed = []
        if stalls >= _MAX_STALLS or len(failed) >= _MAX_FAILED or (stalls and dual.good):
            return


def _separated(dual: Dual, point: DualPoint) -> bool:
    # Next to a tie the Hessian is so large that every Newton step looks harmless.
    values = point.pairs.values
    return bool(values[dual.r - 1] - values[dual.r] > 1e-8 * dual.spectral)


def _newton_step(dual: Dual, point: DualPoint, failed: list[DualPoint]) -> FloatArray:
    """Return weights at the maximiser over the simplex of the model of phi at `point`.

    The curvature is that at `point`, towards `failed` points (where earlier steps ended without a
    larger phi) the mean one on the way there. Where the step would rotate the eigenvectors too
    far, only a part of it is taken.
    """
    curvature = point.curvature(dual.simple)
    for other in failed:
        step, change = other.weights - point.weights, point.losses - other.losses
        curvature = _corrected(curvature, step, change)
    # Unknowns in units in which every group moves phi about equally.
    units = 1.0 / dual.group_scales
    linear = (point.losses + curvature @ point.weights) * units
    found = maximise_on_simplex(
        linear, curvature * units[:, None] * units, units, point.weights * dual.group_scales
    )
    step = found * units - point.weights
    rotation = float(np.abs(step @ point.rotations).max())
    return point.weights + min(1.0, _SMALL_ROTATION / max(rotation, 1e-300)) * step


def _corrected(curvature: FloatArray, step: FloatArray, change: FloatArray) -> FloatArray:
    """Return the curvature, corrected so that `step` changes the gradient by `change` (BFGS)."""
    before = curvature @ step
    known, met = float(step @ before), float(step @ change)
    if min(known, met) <= 0:
        return curvature
    return curvature - np.outer(before, before) / known + np.outer(change, change) / met


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
