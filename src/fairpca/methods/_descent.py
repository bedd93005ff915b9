"""Descent over orthonormal bases and over the simplex.

Orthonormal bases form a smooth surface, the Stiefel manifold. A gradient step leaves it, so the
step is made along the tangent part of the gradient and the result is made orthonormal again.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import scipy.optimize
from sklearn.utils import check_random_state

from fairpca._arrays import FloatArray, orthonormal, symmetric
from fairpca.solvers.simplex_qp import maximise_on_simplex

# A function with its gradient, and one with its second derivatives, too.
Cost: TypeAlias = Callable[[FloatArray], tuple[float, FloatArray]]
Curve: TypeAlias = Callable[[FloatArray], tuple[float, FloatArray, FloatArray]]

# Part of the decrease promised by the slope that a step must achieve, the customary value.
ARMIJO = 1e-4
# Most Newton steps over the simplex. Past them the last point is used, which is merely less good.
_NEWTON_STEPS = 50
# Step length below which Newton's line search gives up. The function is convex, so a step that
# fails at this length failed by rounding.
_SHORTEST = 1e-6


def tangent(basis: FloatArray, gradient: FloatArray) -> FloatArray:
    """Return the part of a gradient that is tangent to the orthonormal bases at `basis`."""
    return np.asarray(gradient - basis @ symmetric(basis.T @ gradient))


def generator(random_state: Any) -> Any:
    """Return the random generator of a method: None is a fixed seed, so that fits repeat."""
    return check_random_state(0 if random_state is None else random_state)


def minimise(cost: Cost, start: FloatArray, *, tol: float, max_iter: int) -> FloatArray:
    """Minimise a smooth function of the span of a basis by L-BFGS; return the last basis.

    `cost` returns the value and the Euclidean gradient G at a basis. The variables are n x r
    matrices A = U R, whose orthonormal factor U is the basis. What does not change when the basis
    turns inside its span has the gradient ``(I - U U.T) G R^-T`` there. The search ends where no
    entry of that is larger than `tol`.
    """

    def flat_cost(variables: FloatArray) -> tuple[float, FloatArray]:
        basis, factor = np.linalg.qr(variables.reshape(start.shape))
        value, gradient = cost(basis)
        outside = gradient - basis @ (basis.T @ gradient)
        return value, np.linalg.solve(factor, outside.T).T.ravel()

    # No stop by the decrease of the value: only the gradient tells how near the minimum is.
    options: Any = {"gtol": tol, "ftol": 0.0, "maxiter": max_iter, "maxfun": 20 * max_iter}
    found = scipy.optimize.minimize(
        flat_cost, start.ravel(), jac=True, method="L-BFGS-B", options=options
    )
    return orthonormal(found.x.reshape(start.shape))


def minimise_on_simplex(evaluate: Curve, start: FloatArray, tol: float) -> FloatArray:
    """Minimise a smooth convex function over the simplex by Newton's method; return the point.

    `evaluate` returns the value, the gradient and the Hessian at a point of the simplex. The
    search ends where the next step promises no larger decrease than `tol`.
    """
    point, (value, slope, hessian) = start, evaluate(start)
    for _ in range(_NEWTON_STEPS):
        linear = hessian @ point - slope
        change = maximise_on_simplex(linear, hessian, np.ones(len(point)), point) - point
        promised, length = -float(slope @ change), 1.0
        if promised <= tol:
            break
        while (found := evaluate(point + length * change))[0] > value - ARMIJO * length * promised:
            length *= 0.5
            if length < _SHORTEST:
                return point
        point, (value, slope, hessian) = point + length * change, found
    return point


def project_to_simplex(point: FloatArray) -> FloatArray:
    """Return the nearest point with non-negative entries that sum to one."""
    ordered = np.sort(point)[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, len(point) + 1)
    last = int(np.flatnonzero(ordered > excess)[-1])
    return np.asarray(np.maximum(point - excess[last], 0.0))
