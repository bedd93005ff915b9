"""Newton's method on phi: the fast path of the dual.

As long as the r-th eigenvalue of A(t) is well separated from the next, phi is smooth and one
decomposition gives value, gradient and Hessian; the quadratic model is maximised over the whole
simplex, so groups enter and leave the active set in one step. Where the step would rotate the
leading eigenvectors too far, phi bends on the way and the quadratic is wrong: the step is
shortened. Where it went too far all the same, the maximum lies between its ends and is looked for
there. Where that does not help either, eigenvalues tie, and the interior-point method goes on.
Read `ascend` first.

It is an idea of its own: Newton's method on the dual, separate from the dual function it climbs.
"""

from __future__ import annotations

import numpy as np

from fairpca._arrays import FloatArray
from fairpca.solvers.dual import Dual, DualPoint
from fairpca.solvers.simplex_qp import maximise_on_simplex

# Steps in all; problems that are smooth take five to ten.
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


def ascend(dual: Dual, point: DualPoint) -> None:
    """Run steps from `point` until the dual is solved or they stop helping.

    Nothing is returned: every point evaluated leaves its bound and relaxed value in `dual`. The
    search gives up early, because the interior-point method takes over where phi has kinks.
    """
    stalls = 0
    for _ in range(_MAX_STEPS):
        if dual.closed or not _separation(dual, point) > 1e-8 * dual.spectral:
            # Next to a tie the Hessian is so large that every Newton step looks harmless.
            return
        gap, bound, before = dual.gap, dual.bound, point
        trial = dual.evaluate(_newton_step(dual, point))
        for _ in range(_MAX_BETWEEN):
            if trial.phi >= point.phi or dual.closed:
                break
            trial = _between(dual, point, trial)
        assert dual.best is not None
        point = trial if trial.phi >= dual.bound else dual.best
        # Away from a near tie the steps are short at first, and grow with the distance.
        apart = _separation(dual, point) > _separation(dual, before)
        closer = dual.gap <= 0.7 * gap or (dual.bound - bound) / dual.reference > 0.03 * gap
        stalls = 0 if apart or closer else stalls + 1
        if stalls >= _MAX_STALLS or (stalls and dual.good):
            return


def _separation(dual: Dual, point: DualPoint) -> float:
    """Return how far the r-th eigenvalue is from the next."""
    values = point.pairs.values
    return float(values[dual.r - 1] - values[dual.r])


def _newton_step(dual: Dual, point: DualPoint) -> FloatArray:
    """Return weights at the maximiser over the simplex of the quadratic model of phi at `point`.

    Where the step would rotate the eigenvectors too far, only a part of it is taken.
    """
    curvature = point.curvature(dual.simple)
    # Unknowns in units in which every group moves phi about equally.
    units = 1.0 / dual.group_scales
    linear = (point.losses + curvature @ point.weights) * units
    found = maximise_on_simplex(
        linear, curvature * units[:, None] * units, units, point.weights * dual.group_scales
    )
    step = found * units - point.weights
    rotation = float(np.abs(step @ point.rotations).max())
    return point.weights + min(1.0, _SMALL_ROTATION / max(rotation, 1e-300)) * step


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
