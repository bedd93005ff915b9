"""From matrices and a number of components to a certified basis.

The estimator asks here; nothing here knows about attributes, and nothing below knows about rows.
`solve` is the same for people who already have covariances.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairpca._checks import (
    check_choice,
    check_covariances,
    check_groups,
    check_limits,
    check_rank,
    check_shrinkage,
)
from fairpca._linalg import FloatArray
from fairpca._threads import blas_for
from fairpca.covariances.eigenpairs import EigenPairs
from fairpca.covariances.oracle import Oracle
from fairpca.covariances.sources import CENTERS, CovarianceSource, MomentCovariances
from fairpca.criteria import find_criterion, pose, pose_on
from fairpca.moments.group_moments import GroupMoments
from fairpca.solvers import SOLVERS, solve_problem
from fairpca.solvers.problem import Problem
from fairpca.solvers.rank_path import RankPath
from fairpca.solvers.solution import Solution

# Where a group's few rows are asked for a projection or a spectrum of the group's own, what all
# groups share counts as this many rows beside them. Chosen among 30, 50, 80, 100 and 150 on
# credit, bank and faces; `python -m benchmarks intervals` shows that losses measured against such
# projections are right. With fewer, groups of 20 are fitted to their noise; with more, groups of
# 200 lose what is their own.
_PRIOR_ROWS = 80.0
# What shrinkage="auto" is made of; `shares_by_rows` says how. All were chosen together, by the
# worst group's loss in the population, on samples of credit, bank and faces in which one group
# has 20 to 1,000 rows and the others 2,000. Over 60 samples each, the loss is 0.79 to 1.03 times
# that of the better of PCA and the fit without shrinkage in every one of 40 cases, and at most
# 1.01 times that of PCA with 20 or 50 rows. `python -m benchmarks new_rows` has the table.
# Rows at which half of the matrix is taken to be noise. With 200, groups of 200 faces lose 1.06
# times what they lose by the better fit; with 130, groups of 50 in credit by sex 1.02 times PCA's.
_NOISY_ROWS = 150.0
# How much a mean that explains the loss holds a group back. With the power 2, a table that holds
# the sensitive column itself has 1.45 times the loss of the better fit in place of 1.27; with 4,
# groups of 20 rows have 1.04 times PCA's.
_KNOWN_POWER = 3
# A mean is believed from this many times its squared error on. With 1, groups of 20 rows have 1.05
# times PCA's loss; with 2, credit by marriage 1.12 times that of the better fit.
_CLEAR_OF_CHANCE = 1.8
# Chance makes this many times more than among normal rows, whose tails are lighter than those of
# real columns. With 4, groups of 50 in bank by marital status have 1.02 times PCA's loss; with 8,
# two hundred digits are not believed to differ (1.19 times the better fit).
_TAILS = 6.0
# How fast a loss beyond chance frees a group. With 6 no ratio changes by more than 0.02.
_DOUBT_POWER = 4
# Numbers that products with many groups' means may hold at once; only memory depends on it.
_NUMBERS_AT_ONCE = 2**23
# Losses below this share of the variance explain nothing and are explained by nothing.
_NO_LOSS = 1e-6


#: Why a fit with a share of variance stopped, where the share cost something of the criterion.
SHARE_KEPT = "the projection with the largest smallest share, for the sake of n_components"


@dataclass(frozen=True)
class Settings:
    """How to solve; the names are FairPCA's parameters."""

    criterion: str = "loss"
    # Also one share a group.
    shrinkage: float | str | FloatArray | None = None
    solver: str = "auto"
    tol: float = 1e-10
    max_iter: int = 200
    random_state: int = 0
    max_extra_components: int = 0


def prior_shares(weight: FloatArray) -> FloatArray:
    """Return how far a group's matrix is moved when asked for what is the group's own."""
    return np.asarray(_PRIOR_ROWS / (weight + _PRIOR_ROWS))


def shares_by_rows(source: CovarianceSource, r: int) -> FloatArray:
    """Return how far ``shrinkage="auto"`` moves each group's matrix towards what all share.

    The covariance of few rows is mostly noise, the more so the fewer they are, and is moved by
    ``1 / (1 + (rows / 150)**2)``. Two things say that a group is no noise, and make that less:

    * its mean, which few rows tell far better than a covariance, explains what it loses by PCA;
    * it loses more by PCA than chance makes groups of its size lose.

    Parameters
    ----------
    source : CovarianceSource
    r : int
        Number of components.

    Returns
    -------
    ndarray of shape (k,)
        Between 0, the group's own matrix, and 1, the mean of all groups' matrices.
    """
    groups = source.groups
    # Beyond a million times as many rows the square may be no number, and nothing is moved.
    noisy = 1 / (1 + np.minimum(groups.weight / _NOISY_ROWS, 1e6) ** 2)
    # In units of the variance: squares of very large variances are no numbers.
    unit = find_criterion("loss").unit(groups.traces)
    oracle = source.oracle(np.full(len(noisy), unit), "auto")
    pooled = groups.weight / groups.weight.sum()
    pca = oracle.leading(pooled, r)
    own = np.array([pairs.values[:r].sum() for pairs in oracle.own_pairs(r)])
    trace = unit * float(pooled @ groups.traces)
    if trace < np.finfo(float).tiny / _NO_LOSS:
        # Nobody who weighs anything varies.
        return np.asarray(noisy)
    losses = np.maximum(own - oracle.retained_variance(pca.vectors), _NO_LOSS * trace)
    # The mean of n rows is off by a squared distance of a row's variance over n.
    shift = groups.shift * (np.sqrt(unit) if source.center == "global" else 0.0)
    squares = np.einsum("kn,kn->k", shift, shift)
    chance = _CLEAR_OF_CHANCE * trace / np.maximum(groups.weight, 1.0)
    real = 1 - np.divide(chance, squares, out=np.ones_like(squares), where=squares > chance) ** 2
    explained = _loss_of_mean(oracle, pooled, pca, shift * np.sqrt(real)[:, None])
    known = np.clip(explained / losses, 0.0, 1.0)
    # Products show the leading eigenvalues only; the others share the variance that is left.
    dimension = min(shift.shape[1], source.total.count)
    rest = np.full(max(dimension - r, 0), (trace - pca.values.sum()) / max(dimension - r, 1))
    by_chance = loss_of_chance(np.r_[pca.values, rest][None], groups.weight / _TAILS, r)
    doubtful = np.clip(by_chance / losses, 0.0, 1.0)
    return np.asarray(noisy * (1 - known) ** _KNOWN_POWER * doubtful**_DOUBT_POWER)


def _loss_of_mean(
    oracle: Oracle, pooled: FloatArray, pca: EigenPairs, shift: FloatArray
) -> FloatArray:
    """Return what PCA would lose for groups that differ from all rows by their mean alone.

    Such a group has the matrix W of all rows and beside it its mean times itself. In PCA's
    subspace and the one direction of the mean outside of it, that is a diagonal and one outer
    product; PCA gives the direction outside up, and the best choice gives up the least one.

    Parameters
    ----------
    oracle : Oracle
    pooled : ndarray of shape (k,)
        Weights of the groups in W.
    pca : EigenPairs
        Leading pairs of W.
    shift : ndarray of shape (k, n)
        Mean of every group minus mean of all rows.

    Returns
    -------
    ndarray of shape (k,)
    """
    inside = shift @ pca.vectors
    outside = shift - inside @ pca.vectors.T
    distance = np.linalg.norm(outside, axis=1)
    directions = (outside / np.where(distance > 0, distance, 1.0)[:, None]).T
    found = np.zeros(len(shift))
    few = max(1, _NUMBERS_AT_ONCE // outside.size)
    for start in range(0, len(shift), few):
        columns = directions[:, start : start + few]
        spread = pooled @ np.einsum("np,knp->kp", columns, oracle.apply(columns))
        for g, variance in enumerate(spread, start):
            ends = np.r_[inside[g], distance[g]]
            matrix = np.diag(np.r_[pca.values, variance]) + np.outer(ends, ends)
            found[g] = matrix[-1, -1] - np.linalg.eigvalsh(matrix)[0]
    return np.maximum(found, 0.0)


class NoisyGroupWarning(UserWarning):
    """The optimum rests on groups with so few rows that it may serve their noise."""


# Groups with at least this many rows are not suspected: what chance adds to their losses is small,
# and looking would cost every fit a decomposition more.
_MANY_ROWS = 1000
# Dual weight on suspected groups from which on the answer is theirs. Of two groups each has about
# half of the weight, whichever of them is noise.
_TELLING_WEIGHT = 0.25


def loss_of_chance(spectra: FloatArray, rows: FloatArray, r: int) -> FloatArray:
    """Return the loss that groups show under the best shared projection by chance alone.

    A group's own PCA fits the noise of its rows: it keeps more of them than it would of new ones.
    Take one direction inside the leading r and one outside, with variances a > b. In a sample
    their covariance is not zero; its square has the mean ``a b / rows``. With that entry off the
    diagonal, the larger eigenvalue of the 2 x 2 matrix exceeds a by
    ``(sqrt((a - b)**2 + 4 a b / rows) - (a - b)) / 2``. The own PCA gains this in the rows at hand
    and loses about as much in new ones; both are added up over all pairs of directions.

    Parameters
    ----------
    spectra : ndarray of shape (q, n)
        All eigenvalues of every group's matrix, largest first.
    rows : ndarray of shape (q,)
        Rows of every group.
    r : int
        Number of components.

    Returns
    -------
    ndarray of shape (q,)
        The gain in these rows and the loss in new ones together.
    """
    # In units of the largest: squares of very large variances are no numbers.
    unit = float(spectra.max(initial=0.0)) or 1.0
    spectra = np.maximum(spectra, 0.0) / unit
    inside, outside = spectra[:, :r, None], spectra[:, None, r:]
    apart = inside - outside
    # Weights may add up to less than one row; fewer than that nobody has.
    coupled = 4 * inside * outside / np.reshape(np.maximum(rows, 1.0), (-1, 1, 1))
    return np.asarray(unit * np.sum(np.sqrt(apart**2 + coupled) - apart, axis=(1, 2)))


def warn_of_noise(
    source: CovarianceSource, losses: FloatArray, weights: FloatArray, r: int
) -> None:
    """Warn where the optimum rests on groups whose losses are no larger than chance makes them.

    Nothing is said where matrices are known by products only.

    Parameters
    ----------
    source : CovarianceSource
    losses : ndarray of shape (k,)
        Of the projection found.
    weights : ndarray of shape (k,)
        Its dual weights.
    r : int
        Number of components.
    """
    groups = source.groups
    few = np.flatnonzero((groups.count < _MANY_ROWS) & (weights > 0) & (groups.weight > 0))
    if len(weights) < 2 or weights[few].sum() <= _TELLING_WEIGHT:
        return
    # What so few rows say about their own spectrum is noise, too.
    spectra = source.shrunk(prior_shares(groups.weight)).spectra(few)
    if spectra is None:
        return
    noisy = few[losses[few] <= loss_of_chance(spectra, groups.weight[few], r)]
    if weights[noisy].sum() <= _TELLING_WEIGHT:
        return
    order = noisy[np.argsort(-weights[noisy], kind="stable")]
    named = ", ".join(f"{groups.labels[g]!r} ({groups.count[g]} rows)" for g in order[:5])
    more = f" and {len(order) - 5} more" if len(order) > 5 else ""
    warnings.warn(
        f"The projection rests on groups whose loss is no larger than chance makes it in so few "
        f"rows: {named}{more}. They have {100 * weights[noisy].sum():.0f} % of the dual weight, "
        "and on new rows PCA may serve everybody as well. Pass shrinkage='auto', merge small "
        "groups or add rows; fairpca.cross_fit shows what every group loses on rows left out.",
        NoisyGroupWarning,
        stacklevel=5,
    )


@dataclass(frozen=True)
class Fit:
    """A solved rank.

    Attributes
    ----------
    basis : ndarray of shape (p, r)
        Orthonormal columns in the source's coordinates.
    solution : Solution
    retained : ndarray of shape (k,)
        What the basis keeps of every group's variance.
    losses : ndarray of shape (k,)
        What each group loses against its own PCA of the rank asked for.
    shrinkage : ndarray of shape (k,)
        How far each group's matrix was moved towards what all groups share.
    """

    basis: FloatArray
    solution: Solution
    retained: FloatArray
    losses: FloatArray
    shrinkage: FloatArray


class Ranks:
    """One table solved for one rank after another; what ranks share is computed once.

    Parameters
    ----------
    source : CovarianceSource
    settings : Settings
    max_components : int, optional
        Largest rank that will be asked for, where all of them will be.
    """

    def __init__(
        self, source: CovarianceSource, settings: Settings, max_components: int | None = None
    ) -> None:
        # The rows as they are, and what is solved for.
        self.rows, self.settings = source, settings
        # Shares that depend on the rank are those of `solve`.
        fixed = settings.shrinkage
        if fixed is None or isinstance(fixed, str):
            fixed = 0.0
        self.shrinkage = np.broadcast_to(fixed, source.groups.weight.shape).astype(float)
        self.source = source = source.shrunk(self.shrinkage) if self.shrinkage.any() else source
        self.criterion = find_criterion(settings.criterion)
        self.traces = source.groups.traces
        self.unit = self.criterion.unit(self.traces)
        self.scales = self.criterion.scales(self.traces) * self.unit
        self.oracle = source.oracle(self.scales, _method(settings.solver))
        self._own: tuple[EigenPairs, ...] = ()
        self._own_rank = 0
        self._ask_for = max_components or 0
        self._path: RankPath | None = None

    @property
    def n_features(self) -> int:
        """Dimension of the source's coordinates."""
        return self.oracle.n_features

    def own_pairs(self, r: int) -> tuple[EigenPairs, ...]:
        """Return at least `r` leading pairs of each group's own (scaled) matrix."""
        if r > self._own_rank:
            self._own_rank = min(max(r, self._ask_for), self.n_features)
            self._own = self.oracle.own_pairs(self._own_rank)
        return self._own

    def own_sums(self, r: int) -> FloatArray:
        """Return the variance each group's own PCA of rank `r` keeps."""
        return np.array([pairs.values[:r].sum() for pairs in self.own_pairs(r)]) / self.scales

    def problem(self, r: int) -> Problem:
        """Return the problem of rank `r`."""
        own = self.own_pairs(r) if self.criterion.against_own_pca else None
        return pose_on(self.oracle, self.traces * self.scales, r, self.criterion, own)

    def solve(self, r: int, start: FloatArray | None = None, exact_search: bool = True) -> Fit:
        """Solve one rank; `start` are weights of a neighbouring one.

        Without `exact_search` a small problem with a gap is not searched exhaustively.
        """
        with blas_for(self.n_features, r):
            if isinstance(self.settings.shrinkage, str):
                shares = shares_by_rows(self.rows, r)
                fixed = Ranks(self.rows, replace(self.settings, shrinkage=shares))
                return fixed.solve(r, start, exact_search)
            solution = self._solution(r, start, exact_search)
            return self.described(self._with_spare_components(solution, r), r)

    def _with_spare_components(self, solution: Solution, r: int) -> Solution:
        """Return PCA's basis where it leaves no group a loss either.

        Once nobody loses anything, some components may serve no group, and the solver's are then
        any. They belong to the variance of all rows together.
        """
        certificate = solution.certificate
        rounding = 16 * certificate.resolution
        nothing = abs(certificate.value) <= rounding
        if not nothing or solution.components.shape[0] != r or r == self.n_features:
            return solution
        basis = self.source.total_pca(r)
        losses = self.problem(r).losses(basis)
        found = certificate.with_value(float(losses.max()), scale=self.oracle.scale)
        if basis.shape[1] != r or found.gap > certificate.gap:
            return solution
        components = np.ascontiguousarray(basis.T)
        return replace(solution, components=components, losses=losses, certificate=found)

    def _solution(self, r: int, start: FloatArray | None, exact_search: bool) -> Solution:
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
            exact_search=exact_search,
        )

    def _shared(self) -> RankPath | None:
        """Return what solves all ranks of two large groups; None where each is solved alone."""
        oracle = self.oracle
        if not self._ask_for or not oracle.cheap_products or oracle.n_groups != 2:
            return None
        if self.settings.solver == "paper" or oracle.in_full(self._ask_for):
            return None
        if self._path is None:
            self._path = RankPath(oracle, self.own_pairs(self._ask_for))
        return self._path

    def described(self, solution: Solution, r: int) -> Fit:
        """Add what every group keeps and loses of its rows, in unscaled variance."""
        basis = solution.components.T
        if self.rows is not self.source:
            return self._described_by_rows(solution, r)
        own = self.own_sums(r)
        if np.array_equal(self.criterion.offsets(own, self.traces), own):
            # The solver's values are the losses themselves: equal ones stay equal to the last
            # digit.
            losses = solution.losses / self.scales
            retained = own - losses
        else:
            retained = self.oracle.retained_variance(basis) / self.scales
            losses = own - retained
        if basis.shape[1] == r:
            # Rounding only; with extra components a group may truly beat its own PCA of rank r.
            losses = np.maximum(losses, 0.0)
        return Fit(basis, solution.times(1 / self.unit), retained, losses, self.shrinkage)

    def _described_by_rows(self, solution: Solution, r: int) -> Fit:
        """Return the fit of a shrunk problem: its certificate, and losses of the rows."""
        basis = solution.components.T
        # The rows' own matrices are not divided by their traces, whatever the criterion does.
        unit = find_criterion("loss").unit(self.rows.groups.traces)
        oracle = self.rows.oracle(np.full(len(self.traces), unit), "auto")
        retained = oracle.retained_variance(basis) / unit
        own = np.array([pairs.values[:r].sum() for pairs in oracle.own_pairs(r)]) / unit
        solution = solution.times(1 / self.unit)
        certificate = replace(solution.certificate, shrunk=True)
        losses = own - retained
        if basis.shape[1] == r:
            losses = np.maximum(losses, 0.0)
        solution = replace(solution, certificate=certificate)
        return Fit(basis, solution, retained, losses, self.shrinkage)

    def priced(self, kept: Fit, best: Fit, r: int) -> Fit:
        """Return the basis of `kept` with its values of this criterion and the bound of `best`."""
        losses = self.problem(r).losses(kept.basis) / self.unit
        certificate = best.solution.certificate.with_value(
            float(losses.max()), scale=self.oracle.scale / self.unit
        )
        solution = replace(
            best.solution,
            components=kept.solution.components,
            losses=losses,
            certificate=certificate,
            stop_reason=SHARE_KEPT,
        )
        return replace(kept, solution=solution)

    def shares(self, fit: Fit) -> FloatArray:
        """Return the share of its variance that each group keeps; one if it has none."""
        traces = self.rows.groups.traces
        ones = np.ones_like(fit.retained)
        return np.divide(fit.retained, traces, out=ones, where=traces > 0)


def _method(solver: str) -> str:
    """Return how eigenpairs are computed for a solver; the paper's leaves that open."""
    return "auto" if solver == "paper" else solver


def fit_source(
    source: CovarianceSource,
    n_components: Any,
    settings: Settings,
    start: FloatArray | None = None,
) -> Fit:
    """Solve for a number of components, None for all, or a share every group must keep.

    `start` are weights of a neighbouring problem with the same groups.
    """
    if isinstance(n_components, float):
        return _fit_share(source, n_components, settings)
    ranks = Ranks(source, settings)
    r = ranks.n_features if n_components is None else int(n_components)
    check_rank(r, ranks.n_features)
    return ranks.solve(r, start)


def _fit_share(source: CovarianceSource, share: float, settings: Settings) -> Fit:
    """Return the smallest rank with which every group can keep `share` of its variance.

    Which rank that is, the projections with the largest smallest share tell. Of that rank, the
    projection of the criterion asked for is returned if it keeps the share too; else the one that
    told, and the certificate shows its price over the optimum of the criterion.
    """
    needed = share * (1 - 1e-12)
    # The published algorithm may stop short of the largest share, and would ask for more.
    exact = replace(settings, solver=_method(settings.solver))
    largest = Ranks(
        source, replace(exact, criterion="share", shrinkage=None, max_extra_components=0)
    )
    start = None
    for r in range(1, largest.n_features + 1):
        # No projection serves a group better than its own PCA does: skip where even that fails.
        if np.any(largest.own_sums(r) < needed * largest.traces) and r < largest.n_features:
            continue
        told = largest.solve(r, start)
        start = told.solution.weights
        if np.all(largest.shares(told) >= needed) or r == largest.n_features:
            break
    ranks = Ranks(source, settings)
    if settings.criterion == "share" and settings.shrinkage is None and settings == exact:
        return told
    asked = ranks.solve(r)
    if settings.shrinkage is None:
        return asked if np.all(ranks.shares(asked) >= needed) else ranks.priced(told, asked, r)
    # Shrunk covariances are another problem, and may need more components for the same share.
    while np.any(ranks.shares(asked) < needed) and r < ranks.n_features:
        r += 1
        asked = ranks.solve(r)
    return asked


def solve(
    covariances: Any,
    n_components: int,
    *,
    criterion: str = "loss",
    center: str = "global",
    shrinkage: float | str | None = None,
    solver: str = "auto",
    tol: float = 1e-10,
    max_iter: int = 200,
    random_state: int = 0,
    max_extra_components: int = 0,
) -> Solution:
    """Find the rank-`n_components` projection whose worst group fares best.

    Parameters
    ----------
    covariances : array-like of shape (k, n, n) or GroupMoments
        One symmetric matrix per group, or moments, from which they are taken.
    n_components : int
        Rank r of the projection, 1 <= r <= n.
    criterion : {"loss", "error", "variance", "relative", "share"}, default="loss"
        As in `FairPCA`.
    center, shrinkage
        As in `FairPCA`, for moments. Matrices are taken as they are.
    solver : {"auto", "dense", "krylov", "paper"}, default="auto"
        As in `FairPCA`.
    tol : float, default=1e-10
        Relative gap between value and lower bound at which to stop.
    max_iter : int, default=200
        Most full-size eigen-decompositions.
    random_state : int, default=0
        Seed of the random starts where three or more groups tie.
    max_extra_components : int, default=0
        Take up to this many components more where that closes an open gap.

    Returns
    -------
    Solution

    Examples
    --------
    >>> import numpy as np
    >>> import fairpca
    >>> result = fairpca.solve([np.diag([1.0, 0.0]), np.diag([0.0, 1.0])], 1)
    >>> result.losses.round(6).tolist(), result.certificate.optimal
    ([0.5, 0.5], True)
    """
    check_choice("solver", solver, SOLVERS)
    check_limits(tol, max_iter, max_extra_components)
    check_choice("center", center, CENTERS)
    check_shrinkage(shrinkage)
    if isinstance(covariances, GroupMoments):
        source = MomentCovariances(covariances, center=center)
        check_groups(source.groups.labels, source.groups.weight)
        check_rank(n_components, covariances.n_features)
        settings = Settings(
            criterion, shrinkage, solver, tol, max_iter, random_state, max_extra_components
        )
        return fit_source(source, int(n_components), settings).solution
    if shrinkage is not None:
        raise ValueError(
            f"shrinkage={shrinkage!r} needs to know how many rows every group has; pass "
            "GroupMoments instead of covariances, or shrink the matrices yourself."
        )
    matrices = check_covariances(covariances)
    check_rank(n_components, matrices.shape[-1])
    unit = find_criterion(criterion).unit(np.trace(matrices, axis1=1, axis2=2))
    if unit != 1:
        matrices = matrices * unit
    problem = pose(matrices, int(n_components), criterion, method=_method(solver))
    solution = solve_problem(
        problem,
        solver=solver,
        tol=tol,
        max_iter=max_iter,
        random_state=random_state,
        max_extra_components=max_extra_components,
    )
    return solution.times(1 / unit)
