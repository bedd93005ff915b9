"""Orthonormal bases as a manifold: tangent vectors, retraction, starts, and L-BFGS."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from fairpca._linalg import FloatArray, orthonormal, symmetric

_MEMORY = 10
_ARMIJO = 1e-4


def tangent(basis: FloatArray, gradient: FloatArray) -> FloatArray:
    """Return the part of a gradient that is tangent to the orthonormal bases at `basis`."""
    return np.asarray(gradient - basis @ symmetric(basis.T @ gradient))


def retract(basis: FloatArray, step: FloatArray) -> FloatArray:
    """Return the orthonormal factor of ``basis + step`` (thin QR, positive diagonal)."""
    return orthonormal(basis + step)


def random_bases(n_features: int, r: int, count: int, random_state: Any) -> list[FloatArray]:
    """Return orthonormal bases from a uniform distribution; None is a fixed seed."""
    rng = check_random_state(0 if random_state is None else random_state)
    return [orthonormal(rng.standard_normal((n_features, r))) for _ in range(count)]


def minimise(
    cost: Callable[[FloatArray], tuple[float, FloatArray]],
    start: FloatArray,
    *,
    tol: float,
    max_iter: int,
) -> tuple[FloatArray, int]:
    """Minimise a smooth function of a basis by Riemannian L-BFGS.

    Parameters
    ----------
    cost : callable
        Returns the value and the Euclidean gradient at a basis.
    start : ndarray of shape (n, r)
    tol : float
        Stop where the tangent gradient is shorter than this.
    max_iter : int

    Returns
    -------
    basis : ndarray of shape (n, r)
    n_iter : int
    """
    basis = start
    value, euclidean = cost(basis)
    gradient = tangent(basis, euclidean)
    pairs: list[tuple[FloatArray, FloatArray]] = []
    for step in range(max_iter):
        if float(np.linalg.norm(gradient)) <= tol:
            return basis, step
        direction = tangent(basis, -_two_loops(gradient, pairs))
        slope = float(np.sum(direction * gradient))
        if slope >= 0:
            pairs, direction = [], -gradient
            slope = -float(np.sum(gradient**2))
        length = 1.0 if pairs else min(1.0, 1.0 / float(np.linalg.norm(gradient)))
        while True:
            trial = retract(basis, length * direction)
            found, euclidean = cost(trial)
            if found <= value + _ARMIJO * length * slope:
                break
            length *= 0.5
            if length < 1e-10:
                return basis, step
        fresh = tangent(trial, euclidean)
        # Old pairs and the old gradient are carried over by projection on the new tangent space.
        moved, change = tangent(trial, length * direction), fresh - tangent(trial, gradient)
        pairs = [(tangent(trial, s), tangent(trial, y)) for s, y in pairs]
        if float(np.sum(moved * change)) > 1e-10 * float(np.sum(moved**2)):
            pairs = [*pairs, (moved, change)][-_MEMORY:]
        basis, value, gradient = trial, found, fresh
    return basis, max_iter


def _two_loops(gradient: FloatArray, pairs: list[tuple[FloatArray, FloatArray]]) -> FloatArray:
    """Apply the inverse Hessian that the pairs of steps and gradient changes describe."""
    q = gradient.copy()
    alphas = []
    for s, y in reversed(pairs):
        alpha = float(np.sum(s * q)) / float(np.sum(s * y))
        alphas.append(alpha)
        q -= alpha * y
    if pairs:
        s, y = pairs[-1]
        q *= float(np.sum(s * y)) / float(np.sum(y * y))
    for (s, y), alpha in zip(pairs, reversed(alphas), strict=True):
        q += (alpha - float(np.sum(y * q)) / float(np.sum(s * y))) * s
    return q
