"""Descent over orthonormal bases: tangent vectors, retraction, L-BFGS, and the best of starts.

Orthonormal bases form a smooth surface, the Stiefel manifold. A gradient step leaves it, so the
step is made along the tangent part of the gradient and the result is made orthonormal again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state

from fairpca._linalg import FloatArray, orthonormal, symmetric
from fairpca.methods._base import MinMaxFound, MinMaxMethod
from fairpca.solvers import solve_problem
from fairpca.solvers.problem import Problem

# Pairs of steps and gradient changes that L-BFGS remembers. Between 3 and 20 is customary (Nocedal
# and Wright); fewer cost steps, more cost memory and stale curvature.
_MEMORY = 10
# Part of the decrease promised by the slope that a step must achieve, the customary value.
ARMIJO = 1e-4
# Step length below which the line search gives up: the decrease is then lost in rounding.
_SHORTEST = 1e-10
# Curvature, relative to the squared step, below which a pair is forgotten. With a negative one
# the next direction would point uphill.
_LEAST_CURVATURE = 1e-10


def tangent(basis: FloatArray, gradient: FloatArray) -> FloatArray:
    """Return the part of a gradient that is tangent to the orthonormal bases at `basis`."""
    return np.asarray(gradient - basis @ symmetric(basis.T @ gradient))


def retract(basis: FloatArray, step: FloatArray) -> FloatArray:
    """Return the orthonormal factor of ``basis + step`` (thin QR, positive diagonal)."""
    return orthonormal(basis + step)


def generator(random_state: Any) -> Any:
    """Return the random generator of a method: None is a fixed seed, so that fits repeat."""
    return check_random_state(0 if random_state is None else random_state)


def random_bases(n_features: int, r: int, count: int, random_state: Any) -> list[FloatArray]:
    """Return orthonormal bases from a uniform distribution; None is a fixed seed."""
    rng = generator(random_state)
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
        Orthonormal columns.
    tol : float
        Stop where the tangent gradient is shorter than this.
    max_iter : int
        Most steps.

    Returns
    -------
    basis : ndarray of shape (n, r)
        The last basis, whose cost is at most that of `start`.
    n_iter : int
        Steps taken.
    """
    basis = start
    value, euclidean = cost(basis)
    gradient = tangent(basis, euclidean)
    pairs: list[tuple[FloatArray, FloatArray]] = []
    for step in range(max_iter):
        size = float(np.linalg.norm(gradient))
        if size <= tol:
            return basis, step
        direction = tangent(basis, -_two_loops(gradient, pairs))
        slope = float(np.sum(direction * gradient))
        if slope >= 0:
            # Old curvature misleads; the plain gradient always descends.
            pairs, direction, slope = [], -gradient, -(size**2)
        # Without curvature the length of the gradient says nothing about that of the step.
        length = 1.0 if pairs else min(1.0, 1.0 / size)
        while True:
            trial = retract(basis, length * direction)
            found, euclidean = cost(trial)
            if found <= value + ARMIJO * length * slope:
                break
            length *= 0.5
            if length < _SHORTEST:
                return basis, step
        fresh = tangent(trial, euclidean)
        # Old pairs and the old gradient are carried over by projection on the new tangent space:
        # vectors of different tangent spaces must not be subtracted.
        moved, change = tangent(trial, length * direction), fresh - tangent(trial, gradient)
        pairs = [(tangent(trial, s), tangent(trial, y)) for s, y in pairs]
        if float(np.sum(moved * change)) > _LEAST_CURVATURE * float(np.sum(moved**2)):
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
        # The newest pair sets the unit of the inverse Hessian before the older ones correct it.
        s, y = pairs[-1]
        q *= float(np.sum(s * y)) / float(np.sum(y * y))
    for (s, y), alpha in zip(pairs, reversed(alphas), strict=True):
        q += (alpha - float(np.sum(y * q)) / float(np.sum(s * y))) * s
    return q


def project_to_simplex(point: FloatArray) -> FloatArray:
    """Return the nearest point with non-negative entries that sum to one."""
    ordered = np.sort(point)[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, len(point) + 1)
    last = int(np.flatnonzero(ordered > excess)[-1])
    return np.asarray(np.maximum(point - excess[last], 0.0))


class LocalSearch(MinMaxMethod):
    """Base of descent methods: run from several starts, keep the best basis and the best bound.

    A subclass turns a `Problem` and a start into a `MinMaxFound`.
    """

    _ranges: ClassVar[dict[str, tuple[float, float]]] = {"n_starts": (1, np.inf)}

    n_starts: int
    random_state: Any

    def _solve(self, problem: Problem) -> MinMaxFound:
        if problem.oracle.n_groups == 1 or problem.n_components == problem.oracle.n_features:
            # One group or all components: the answer is known and descent would only wander.
            return MinMaxFound.of(solve_problem(problem))
        runs = [self._descend(problem, start) for start in self._starts(problem)]
        best = min(runs, key=lambda run: float(problem.losses(run.basis).max()))
        # Any weights bound every basis, so the best bound need not come from the best run.
        proof = max(runs, key=lambda run: run.lower_bound)
        return replace(
            best,
            weights=proof.weights,
            lower_bound=proof.lower_bound,
            n_iter=sum(run.n_iter for run in runs),
        )

    def _starts(self, problem: Problem) -> list[FloatArray]:
        """Return the bases to descend from, as many as `n_starts`."""
        n, r = problem.oracle.n_features, problem.n_components
        return random_bases(n, r, self.n_starts, self.random_state)

    def _descend(self, problem: Problem, start: FloatArray) -> MinMaxFound:
        """Descend from one start; the one method that a subclass has to write."""
        raise NotImplementedError
