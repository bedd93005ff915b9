"""From a population and a number of components to a certified basis.

The estimator asks here; nothing here knows about attributes, and nothing below knows about rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairpca.arrays import FloatArray, diagonalise, fix_signs, orthonormal
from fairpca.checks import check_rank
from fairpca.criteria import common_unit, group_scales, rank_offsets
from fairpca.population import Population
from fairpca.solve.dispatch import solve_problem
from fairpca.solve.eigen import DenseOracle
from fairpca.solve.oracle import EigenPairs, Oracle
from fairpca.solve.problem import Problem, own_pairs
from fairpca.solve.rank_path import RankPath
from fairpca.solve.solution import Solution
from fairpca.threads import blas_for


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
        self.unit = common_unit(self.traces, settings.criterion)
        self.scales = group_scales(self.traces, settings.criterion) * self.unit
        method = "auto" if settings.solver == "paper" else settings.solver
        self.oracle: Oracle = population.oracle(self.scales, method)
        self._own: tuple[EigenPairs, ...] = ()
        self._own_sums: dict[int, FloatArray] = {}
        self._ask_for = max_components or 0
        self._path: RankPath | None = None

    @property
    def n_features(self) -> int:
        """Dimension of the population's coordinates."""
        return self.oracle.n_features

    def own(self, r: int) -> tuple[EigenPairs, ...]:
        """Return each group's own `r` leading pairs (of the scaled matrices)."""
        if not self._own or len(self._own[0].values) < r:
            wanted = min(max(r, self._ask_for), self.n_features)
            self._own = own_pairs(self.oracle, wanted)
        if len(self._own[0].values) == r:
            return self._own
        return tuple(pairs.head(r) for pairs in self._own)

    def own_sums(self, r: int) -> FloatArray:
        """Return the variance each group's own PCA of rank `r` keeps (scaled)."""
        if r not in self._own_sums:
            self._own_sums[r] = np.array([pairs.values.sum() for pairs in self.own(r)])
        return self._own_sums[r]

    def problem(self, r: int) -> Problem:
        """Return the problem of rank `r`."""
        if self.settings.criterion in ("loss", "relative"):
            return Problem(self.oracle, self.own_sums(r), r, self.own(r))
        offsets = rank_offsets(self.settings.criterion, self.traces * self.scales)
        return Problem(self.oracle, offsets, r)

    def solve(self, r: int, start: FloatArray | None = None) -> Fit:
        """Solve one rank; `start` are weights of a neighbouring one."""
        with blas_for(self.n_features, r):
            return self.wrap(self._solution(r, start), r)

    def _solution(self, r: int, start: FloatArray | None) -> Solution:
        problem, settings = self.problem(r), self.settings
        max_iter = settings.max_iter + self.oracle.n_eigen
        path = self._shared()
        if path is not None:
            return path.solve(problem, tol=settings.tol, max_iter=max_iter, start=start)
        return solve_problem(
            problem,
            solver=settings.solver,
            tol=settings.tol,
            max_iter=max_iter,
            random_state=settings.random_state,
            start=start,
            max_extra_components=settings.max_extra_components,
        )

    def _shared(self) -> RankPath | None:
        """Return what solves all ranks of two large groups; None where each is solved alone."""
        oracle = self.oracle
        if not self._ask_for or not isinstance(oracle, DenseOracle) or oracle.n_groups != 2:
            return None
        if self.settings.solver == "paper" or oracle.decomposes_in_full(self._ask_for):
            return None
        if self._path is None:
            self._path = RankPath(oracle, self.own(self._ask_for))
        return self._path

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
        return Fit(basis, solution.times(1 / self.unit), kept, losses)

    def shares(self, fit: Fit) -> FloatArray:
        """Return the share of its variance that each group keeps; one if it has none."""
        return np.divide(fit.kept, self.traces, out=np.ones_like(fit.kept), where=self.traces > 0)


def fit_population(
    population: Population,
    n_components: Any,
    settings: Settings,
    start: FloatArray | None = None,
) -> Fit:
    """Solve for a number of components, None for all, or a share every group must keep.

    `start` are weights of a neighbouring population with the same groups.
    """
    ranks = Ranks(population, settings)
    if isinstance(n_components, float):
        return _fit_share(ranks, n_components)
    r = ranks.n_features if n_components is None else int(n_components)
    check_rank(r, ranks.n_features)
    return ranks.solve(r, start)


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


def describe(population: Population, fit: Fit, *, keep_order: bool = False) -> dict[str, Any]:
    """Return the fitted attributes of an estimator: components, variances, groups, certificate.

    Parameters
    ----------
    population : Population
    fit : Fit
    keep_order : bool
        Leave the columns as they are (nested components) instead of rotating them to principal
        order.
    """
    groups, total, solution = population.groups, population.total, fit.solution
    # Frequency-like weights; normalised ones (sum at most 1) have no "minus one" to take.
    freedom = total.weight - 1 if total.weight > 1 else total.weight
    inflate = total.weight / freedom
    with blas_for(*fit.basis.shape):
        components, variances = _oriented(population, fit.basis, keep_order)
    variances = variances * inflate
    r, n = components.shape
    all_variance = total.trace * inflate
    left = max(all_variance - float(variances.sum()), 0.0)
    return {
        "components_": components,
        "mean_": total.mean,
        "explained_variance_": variances,
        "explained_variance_ratio_": variances / (all_variance or 1.0),
        "singular_values_": np.sqrt(variances * freedom),
        "noise_variance_": left / max(min(n, total.count) - r, 1),
        "n_components_": r,
        "n_samples_": total.count,
        "groups_": list(groups.labels),
        "group_names_": list(groups.names),
        "group_counts_": groups.count,
        "group_means_": groups.mean,
        "group_losses_": fit.losses,
        "group_errors_": np.maximum(groups.traces - fit.kept, 0.0),
        "group_values_": solution.losses,
        "group_weights_": solution.weights,
        "certificate_": solution.certificate,
        "solver_": solution.solver,
        # The rotation to principal order is a decomposition too when it is the only one.
        "n_iter_": max(solution.n_eigen, 1),
        "stop_reason_": solution.stop_reason,
    }


def _oriented(
    population: Population, basis: FloatArray, keep_order: bool
) -> tuple[FloatArray, FloatArray]:
    """Return component rows in their final order and signs, and the variance along each."""
    compressed = population.total_compression(basis)
    if keep_order:
        rows = population.lift(basis).T
        return fix_signs(np.ascontiguousarray(rows)), np.diag(compressed).copy()
    rotated, variances = diagonalise(basis, compressed)
    lifted = population.lift(rotated)
    if lifted is not rotated:
        lifted = orthonormal(lifted)
    return fix_signs(np.ascontiguousarray(lifted.T)), variances
