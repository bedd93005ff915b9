"""Components that stay valid when truncated: the leading j are the answer of rank j.

Forward follows M. Matakos, M. Ciaperoni and H. Mannila (2025), who add one fair component after
the other; the offsets carry the debts of earlier steps. Backward drops one after the other.
Neither reaches the free optimum of every rank; the price is reported.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairpca.arrays import FloatArray, complement, orthonormal, symmetric
from fairpca.fitting import Fit, Ranks, Settings, fit_population
from fairpca.population import Population
from fairpca.solve.dispatch import solve_problem
from fairpca.solve.eigen import DenseOracle
from fairpca.solve.problem import Problem
from fairpca.solve.solution import Certificate, Solution


@dataclass(frozen=True)
class NestedFit:
    """Components whose leading j columns are the answer for every j up to r.

    Attributes
    ----------
    fit : Fit
        The last rank; its certificate compares with the free optimum of that rank.
    values, bounds : ndarray of shape (r,)
        Worst value at every rank, and the lower bound of the free problem of that rank.
    """

    fit: Fit
    values: FloatArray
    bounds: FloatArray


def fit_nested(
    population: Population, n_components: Any, settings: Settings, direction: str
) -> NestedFit:
    """Solve for a nested sequence of components.

    Forward: each component is the best next one given those before (carrying the debts of earlier
    steps; after Matakos, Ciaperoni and Mannila 2025). Backward: the best subspace of the last
    rank, then the best one of rank r - 1 inside it, and so on.
    """
    free = replace(settings, max_extra_components=0)
    last = fit_population(population, n_components, free)
    r = last.basis.shape[1]
    ranks = Ranks(population, free, r)
    fits = [ranks.solve(j) for j in range(1, r)] + [last]
    bounds = np.array([fit.solution.certificate.lower_bound for fit in fits])
    columns = _forward(ranks, r) if direction == "forward" else _backward(ranks, last.basis)
    offsets = [ranks.problem(j).offsets for j in range(1, r + 1)]
    kept = np.cumsum([ranks.oracle.kept(columns[:, [j]]) for j in range(r)], axis=0)
    values = np.max(np.array(offsets) - kept, axis=1) / ranks.unit
    losses = offsets[-1] - kept[-1]
    certificate = Certificate.of(
        bounds[-1] * ranks.unit,
        float(losses.max()),
        scale=ranks.oracle.scale,
        n_features=ranks.n_features,
    )
    solution = Solution(
        components=np.ascontiguousarray(columns.T),
        weights=last.solution.weights,
        losses=losses,
        certificate=certificate,
        n_eigen=ranks.oracle.n_eigen + last.solution.n_eigen,
        stop_reason=f"nested {direction}",
        solver=last.solution.solver,
    )
    return NestedFit(ranks.wrap(solution, r), values, bounds)


def _forward(ranks: Ranks, r: int) -> FloatArray:
    columns = np.empty((ranks.n_features, 0))
    for j in range(1, r + 1):
        free = complement(columns)
        offsets = ranks.problem(j).offsets - ranks.oracle.kept(columns)
        best = _inside(ranks, free, offsets, 1)
        columns = np.hstack([columns, free @ best])
    return orthonormal(columns)


def _backward(ranks: Ranks, basis: FloatArray) -> FloatArray:
    r = basis.shape[1]
    columns = np.empty((len(basis), 0))
    for j in range(r - 1, 0, -1):
        best = _inside(ranks, basis, ranks.problem(j).offsets, j)
        # What rank j drops from rank j + 1 is component j + 1.
        columns = np.hstack([basis @ complement(best), columns])
        basis = basis @ best
    return orthonormal(np.hstack([basis, columns]))


def _inside(ranks: Ranks, basis: FloatArray, offsets: FloatArray, r: int) -> FloatArray:
    """Return the best rank-`r` basis inside a subspace, in that subspace's coordinates."""
    oracle = DenseOracle(symmetric(ranks.oracle.project(basis)))
    settings = ranks.settings
    solution = solve_problem(
        Problem(oracle, offsets, r),
        tol=settings.tol,
        max_iter=settings.max_iter,
        random_state=settings.random_state,
    )
    return solution.components.T
