"""What the min-max descent methods share: the simplex, starts, the best of several."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairpca._checks import check_limits
from fairpca._linalg import FloatArray
from fairpca.methods.base import Found, MinMaxMethod, found_from, phi_at
from fairpca.methods.riemannian import random_bases
from fairpca.solvers import solve_problem
from fairpca.solvers.problem import Problem


def project_to_simplex(point: FloatArray) -> FloatArray:
    """Return the nearest point with non-negative entries that sum to one."""
    ordered = np.sort(point)[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, len(point) + 1)
    last = int(np.flatnonzero(ordered > excess)[-1])
    return np.asarray(np.maximum(point - excess[last], 0.0))


@dataclass(frozen=True)
class Descent:
    """Where one start ended."""

    basis: FloatArray
    weights: FloatArray
    value: float
    n_iter: int
    stop_reason: str


class LocalSearch(MinMaxMethod):
    """Base of descent methods: run from several starts, keep the best basis and the best bound.

    A subclass turns a `Problem` and a start into a `Descent`.
    """

    n_starts: int
    tol: float
    max_iter: int
    random_state: Any

    def _check_params(self) -> None:
        super()._check_params()
        check_limits(self.tol, self.max_iter)
        if self.n_starts < 1:
            raise ValueError(f"n_starts={self.n_starts!r} must be at least 1.")

    def _solve(self, problem: Problem) -> Found:
        n, r = problem.oracle.n_features, problem.n_components
        if problem.oracle.n_groups == 1 or r == n:
            return found_from(solve_problem(problem))
        runs = [self._descend(problem, start) for start in self._starts(problem)]
        best = min(runs, key=lambda run: run.value)
        bounds = [phi_at(problem, run.weights) for run in runs]
        at = int(np.argmax(bounds))
        return Found(
            best.basis,
            runs[at].weights,
            bounds[at],
            sum(run.n_iter for run in runs),
            best.stop_reason,
        )

    def _starts(self, problem: Problem) -> list[FloatArray]:
        n, r = problem.oracle.n_features, problem.n_components
        return random_bases(n, r, self.n_starts, self.random_state)

    def _descend(self, problem: Problem, start: FloatArray) -> Descent:
        raise NotImplementedError
