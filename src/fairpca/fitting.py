"""From a population and a number of components to a certified basis.

The estimator asks here; nothing here knows about attributes, and nothing below knows about rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairpca.arrays import FloatArray, complement, orthonormal, symmetric
from fairpca.checks import check_rank
from fairpca.criteria import group_scales, rank_offsets
from fairpca.population import Population
from fairpca.solve.dispatch import solve_problem
from fairpca.solve.eigen import DenseOracle, EigenPairs, Oracle
from fairpca.solve.problem import Problem
from fairpca.solve.solution import Certificate, Solution


@dataclass(frozen=True)
class Settings:
    """How to solve; the names are FairPCA's parameters."""

    criterion: str = "loss"
    solver: str = "auto"
    tol: float = 1e-10
    max_iter: int = 200
    random_state: int = 0
    max_extra_components: int = 0


@dataclass(frozen=True)
class Fit:
    """A solved rank.

    Attributes
    ----------
    basis : ndarray of shape (p, r)
        Orthonormal columns in the population's coordinates.
    solution : Solution
    kept : ndarray of shape (k,)
        Variance of each group that the basis keeps.
    losses : ndarray of shape (k,)
        What each group loses against its own PCA of the rank asked for.
    """

    basis: FloatArray
    solution: Solution
    kept: FloatArray
    losses: FloatArray


class Ranks:
    """One population solved for one rank after another; what ranks share is computed once."""

    def __init__(
        self, population: Population, settings: Settings, max_components: int | None = None
    ) -> None:
        self.population, self.settings = population, settings
        self.traces = population.groups.traces
        self.scales = group_scales(self.traces, settings.criterion)
        method = "auto" if settings.solver == "paper" else settings.solver
        self.oracle: Oracle = population.oracle(self.scales, method)
        self._own: tuple[EigenPairs, ...] = ()
        self._ask_for = max_components or 0

    @property
    def n_features(self) -> int:
        """Dimension of the population's coordinates."""
        return self.oracle.n_features

    def own(self, r: int) -> tuple[EigenPairs, ...]:
        """Return each group's own `r` leading pairs (of the scaled matrices)."""
        if not self._own or len(self._own[0].values) < r:
            wanted = min(max(r, self._ask_for), self.n_features)
            eye = np.eye(self.oracle.n_groups)
            self._own = tuple(self.oracle.leading(row, wanted) for row in eye)
        return tuple(pairs.head(r) for pairs in self._own)

    def own_sums(self, r: int) -> FloatArray:
        """Return the variance each group's own PCA of rank `r` keeps (scaled)."""
        return np.array([pairs.values.sum() for pairs in self.own(r)])

    def problem(self, r: int) -> Problem:
        """Return the problem of rank `r`."""
        if self.settings.criterion in ("loss", "relative"):
            return Problem(self.oracle, self.own_sums(r), r, self.own(r))
        offsets = rank_offsets(self.settings.criterion, self.traces * self.scales)
        return Problem(self.oracle, offsets, r)

    def solve(self, r: int, start: FloatArray | None = None) -> Fit:
        """Solve one rank; `start` are weights of a neighbouring one."""
        before = self.oracle.n_eigen
        solution = solve_problem(
            self.problem(r),
            solver=self.settings.solver,
            tol=self.settings.tol,
            max_iter=self.settings.max_iter + before,
            random_state=self.settings.random_state,
            start=start,
            max_extra_components=self.settings.max_extra_components,
        )
        return self.wrap(solution, r)

    def wrap(self, solution: Solution, r: int) -> Fit:
        """Add what every group keeps and loses, in unscaled variance."""
        basis = solution.components.T
        if self.settings.criterion in ("loss", "relative"):
            losses = solution.losses / self.scales
            kept = self.own_sums(r) / self.scales - losses
        else:
            kept = self.oracle.kept(basis) / self.scales
            losses = self.own_sums(r) / self.scales - kept
        if basis.shape[1] == r:
            # Rounding only; with extra components a group may truly beat its own PCA of rank r.
            losses = np.maximum(losses, 0.0)
        return Fit(basis, solution, kept, losses)

    def shares(self, fit: Fit) -> FloatArray:
        """Return the share of its variance that each group keeps; one if it has none."""
        return np.divide(fit.kept, self.traces, out=np.ones_like(fit.kept), where=self.traces > 0)


def fit_population(population: Population, n_components: Any, settings: Settings) -> Fit:
    """Solve for a number of components, None for all, or a share every group must keep."""
    ranks = Ranks(population, settings)
    if isinstance(n_components, float):
        return _fit_share(ranks, n_components)
    r = ranks.n_features if n_components is None else int(n_components)
    check_rank(r, ranks.n_features)
    return ranks.solve(r)


def _fit_share(ranks: Ranks, share: float) -> Fit:
    """Return the smallest rank with which every group keeps `share` of its variance."""
    needed = share * (1 - 1e-12)
    for fit in _ranks_upwards(ranks, needed):
        if np.all(ranks.shares(fit) >= needed):
            return fit
    raise AssertionError("all components keep everything")  # pragma: no cover


def _ranks_upwards(ranks: Ranks, needed: float) -> Iterator[Fit]:
    start = None
    for r in range(1, ranks.n_features + 1):
        # No projection serves a group better than its own PCA does: skip where even that fails.
        own = ranks.own_sums(r) / ranks.scales
        if np.any(own < needed * ranks.traces) and r < ranks.n_features:
            continue
        fit = ranks.solve(r, start)
        start = fit.solution.weights
        yield fit


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
    values = np.max(np.array(offsets) - kept, axis=1)
    losses = offsets[-1] - kept[-1]
    certificate = Certificate.of(
        bounds[-1], float(losses.max()), scale=ranks.oracle.scale, n_features=ranks.n_features
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
