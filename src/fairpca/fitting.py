"""From matrices and a number of components to a certified basis.

The estimator asks here; nothing here knows about attributes, and nothing below knows about rows.
`solve` is the same for people who already have covariances.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.exceptions import ConvergenceWarning

from fairpca._checks import (
    check_at_least,
    check_choice,
    check_covariances,
    check_groups,
    check_limits,
    check_rank,
    check_shrinkage,
    is_share,
    warn,
)
from fairpca._linalg import FloatArray, symmetric
from fairpca._threads import blas_for
from fairpca.covariances.eigenpairs import EigenPairs
from fairpca.covariances.sources import CENTERS, CovarianceSource, MomentCovariances
from fairpca.criteria import find_criterion, pose, pose_on, unit_for
from fairpca.moments.group_moments import GroupMoments
from fairpca.shrinkage import shares_by_rows
from fairpca.solvers import SOLVERS, solve_problem
from fairpca.solvers.branch_and_bound import MOST_FEATURES
from fairpca.solvers.problem import Problem
from fairpca.solvers.rank_path import RankPath
from fairpca.solvers.solution import Solution

# Eigenvalues that a search for a share begins with, twice as many where these are not enough.
_FIRST_WIDTH = 32
#: Why a fit with a share of variance stopped, where the share cost something of the criterion.
SHARE_KEPT = "the projection with the largest smallest share, for the sake of n_components"

# What ``prove=True`` allows. Nearly all gaps of five groups close in seconds, as
# docs/theory/branch_and_bound.md shows; who has a harder problem names a number.
_SECONDS = 60.0


@dataclass(frozen=True)
class Settings:
    """How to solve; the names are FairPCA's parameters."""

    criterion: str = "loss"
    # Or an array with a number for each group.
    shrinkage: float | str | FloatArray | None = None
    solver: str = "auto"
    tol: float = 1e-10
    max_iter: int = 200
    random_state: int = 0
    max_extra_components: int = 0
    prove: bool | float = False

    def check(self, center: str) -> None:
        """Raise ValueError naming the first setting that makes no sense, `center` included."""
        find_criterion(self.criterion)
        check_choice("solver", self.solver, SOLVERS)
        check_choice("center", center, CENTERS)
        check_shrinkage(self.shrinkage)
        check_limits(self.tol, self.max_iter, self.max_extra_components, self.prove)
        if self.random_state is not None:
            check_at_least("random_state", self.random_state, 0)

    @property
    def seconds(self) -> float:
        """For how long a problem with a gap may be searched."""
        # NumPy's own truth values come from grids of parameters.
        asked = self.prove and isinstance(self.prove, bool | np.bool_)
        return _SECONDS if asked else float(self.prove)

    def more_proof(self, n_groups: int, n_features: int) -> str:
        """Return what to do about an open gap, for a warning; empty where no search follows."""
        searched = n_groups > 2 and n_features <= MOST_FEATURES
        return "" if self.prove or not searched else " prove=True searches for a better proof."

    def solve(self, problem: Problem, *, exact_search: bool = True, **changes: Any) -> Solution:
        """Solve a problem of one rank; `changes` are options of `solve_problem`.

        Without `exact_search` a gap is reported as the dual leaves it.
        """
        options: dict[str, Any] = {
            "solver": self.solver,
            "tol": self.tol,
            "max_iter": self.max_iter,
            "random_state": self.random_state,
            "max_extra_components": self.max_extra_components,
            "exact_search": exact_search,
            "prove": self.seconds if exact_search else 0.0,
        }
        return solve_problem(problem, **{**options, **changes})


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
    unshrunk : Ranks, optional
        Of the same source with its own matrices, where somebody has it.
    """

    def __init__(
        self,
        source: CovarianceSource,
        settings: Settings,
        max_components: int | None = None,
        unshrunk: Ranks | None = None,
    ) -> None:
        # The rows as they are, and what is solved for.
        self.rows, self.settings = source, settings
        # Those of "auto" depend on the rank, and `solve` finds them.
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
        self._unshrunk = unshrunk

    @property
    def unshrunk(self) -> Ranks:
        """The losses of the rows as they are, whatever is solved for; made when first asked for.

        The rows' own matrices are not divided by their traces, whatever the criterion does.
        """
        if self._unshrunk is None:
            self._unshrunk = Ranks(self.rows, Settings(), self._ask_for)
        return self._unshrunk

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

        Without `exact_search` a gap is reported as the dual leaves it.
        """
        with blas_for(self.n_features, self.source.place):
            if isinstance(self.settings.shrinkage, str):
                plain = self.unshrunk
                own = plain.own_sums(r)
                shares = shares_by_rows(self.rows, plain.oracle, plain.unit, own, r)
                settings = replace(self.settings, shrinkage=shares)
                return Ranks(self.rows, settings, unshrunk=plain).solve(r, start, exact_search)
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
        if basis.shape[1] != r or found.value > rounding or found.gap > certificate.gap:
            return solution
        components = np.ascontiguousarray(basis.T)
        return replace(solution, components=components, losses=losses, certificate=found)

    def _solution(self, r: int, start: FloatArray | None, exact_search: bool) -> Solution:
        problem, settings = self.problem(r), self.settings
        max_iter = settings.max_iter + self.oracle.n_eigen
        path = self._shared()
        if path is not None:
            return path.solve(problem, tol=settings.tol, max_iter=max_iter, start=start)
        return settings.solve(problem, exact_search=exact_search, max_iter=max_iter, start=start)

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
        """Add what every group keeps and loses of its rows, in unscaled variance.

        The certificate of a shrunk problem stays one of the shrunk matrices, and says so.
        """
        basis = solution.components.T
        shrunk = self.rows is not self.source
        ranks = self.unshrunk if shrunk else self
        own = ranks.own_sums(r)
        if not shrunk and np.array_equal(self.criterion.offsets(own, self.traces), own):
            # The solver's values are the losses themselves: equal ones stay equal to the last
            # digit.
            losses = solution.losses / self.scales
            retained = own - losses
        else:
            retained = ranks.oracle.retained_variance(basis) / ranks.scales
            losses = own - retained
        if basis.shape[1] == r:
            # Rounding only; with extra components a group may truly beat its own PCA of rank r.
            losses = np.maximum(losses, 0.0)
        certificate = replace(solution.certificate, shrunk=shrunk)
        solution = replace(solution, certificate=certificate).times(1 / self.unit)
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

    def next_rank(self, r: int, weights: FloatArray, share: float) -> int:
        """Return the smallest rank past `r` with which every group may keep that share.

        The criterion is "share". The mean of the groups' shares with any weights is at most a sum
        of eigenvalues of their weighted sum (Ky Fan), so where that is less than the share, some
        group keeps less, whatever the projection. Ranks that are passed over are proven to fail.
        """
        n, width = self.n_features, min(max(r, _FIRST_WIDTH), self.n_features)
        needed = _to_rounding(share) * float(weights @ self.problem(1).offsets)
        with blas_for(n, self.source.place):
            while True:
                pairs = self.oracle.leading(weights, width)
                enough = np.flatnonzero(np.cumsum(pairs.values) >= needed)
                if len(enough) or width == n:
                    break
                width = min(2 * width, n)
            found = int(enough[0]) + 1 if len(enough) else n
            if found <= r + 1 or self.oracle.sum_bound(weights, found - 1, pairs)[0] >= needed:
                return r + 1
        return found

    def keeps(self, fit: Fit, share: float) -> bool:
        """Return whether every group keeps that share of its variance, up to rounding."""
        shares = self.rows.groups.shares(fit.retained)
        return bool(np.all(shares >= _to_rounding(share)))


def _to_rounding(share: float) -> float:
    """Return what counts as a share that is kept."""
    return share * (1 - 1e-12)


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
    if is_share(n_components):
        return _fit_share(source, float(n_components), settings)
    ranks = Ranks(source, settings)
    r = ranks.n_features if n_components is None else int(n_components)
    check_rank(r, ranks.n_features)
    return ranks.solve(r, start)


def _fit_share(source: CovarianceSource, share: float, settings: Settings) -> Fit:
    """Return the smallest rank with which every group can keep `share` of its variance.

    Where a gap leaves open whether a smaller rank would do, that is said in a warning.

    Which rank that is, the projections with the largest smallest share tell. Of that rank, the
    projection of the criterion asked for is returned if it keeps the share too; else the one that
    told, and the certificate shows its price over the optimum of the criterion.
    """
    # The published algorithm may stop short of the largest share, and would ask for more.
    solver = _method(settings.solver)
    free = replace(settings, solver=solver, shrinkage=None, max_extra_components=0, prove=False)
    largest = Ranks(source, replace(free, criterion="share"))
    k = len(source.groups.weight)
    r, weights = 0, np.full(k, 1.0 / k)
    undecided: dict[int, Fit] = {}
    while True:
        r = largest.next_rank(r, weights, share)
        told = largest.solve(r, weights)
        if largest.keeps(told, share) or r == largest.n_features:
            break
        weights = told.solution.weights
        if _leaves_open(told, share):
            undecided[r] = told
    left = settings.seconds
    for fewer in sorted(undecided):
        if left <= 0:
            break
        # The limit in seconds is for all that is searched for.
        began = time.monotonic()
        searching = Ranks(source, replace(free, criterion="share", prove=left))
        found = searching.solve(fewer, undecided.pop(fewer).solution.weights)
        left -= time.monotonic() - began
        if largest.keeps(found, share):
            r, told = fewer, found
            break
        if _leaves_open(found, share):
            undecided[fewer] = found
    fewer = min(undecided, default=r)
    if fewer < r:
        kept = 1 - undecided[fewer].solution.certificate.value
        warn(
            f"n_components={share:g}: {r} components are enough, and {fewer} may be: the best "
            f"projection found with {fewer} keeps {kept:.4g} of the worst-served group's "
            "variance, and no bound rules the share out."
            f"{settings.more_proof(k, largest.n_features)}",
            ConvergenceWarning,
        )
    ranks = Ranks(source, settings)
    if replace(free, criterion="share") == settings:
        return told
    asked = ranks.solve(r)
    if settings.shrinkage is None:
        if ranks.keeps(asked, share):
            return asked
        with blas_for(ranks.n_features):
            return ranks.priced(told, asked, r)
    # Shrunk covariances are another problem, and may need more components for the same share.
    while not ranks.keeps(asked, share) and r < ranks.n_features:
        r += 1
        asked = ranks.solve(r)
    return asked


def _leaves_open(fit: Fit, share: float) -> bool:
    """Whether some projection of this rank may keep the share, for all that is proven."""
    certificate = fit.solution.certificate
    return not certificate.closed and certificate.lower_bound <= 1 - share


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
    prove: bool | float = False,
    B: Any = None,
) -> Solution:
    """Find the rank-`n_components` projection whose worst group fares best.

    Parameters
    ----------
    covariances : array-like of shape (k, n, n) or GroupMoments
        One symmetric matrix per group, or moments, from which they are taken. Matrices need not
        be covariances: differences of covariances and block matrices, which have negative
        eigenvalues, are solved and proven the same way. "relative" and "share" divide by traces
        and need positive ones.
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
    prove : bool or float, default=False
        As in `FairPCA`.
    B : array-like of shape (n, n), optional
        Symmetric and positive definite. Components U then satisfy ``U.T B U = I`` instead of
        ``U.T U = I``, as in `scipy.linalg.eigh`: what groups keep is compared with their own
        generalised eigenvalues (docs/theory/other_matrices.md).

    Returns
    -------
    Solution
        With `B`, the rows of its components satisfy ``components @ B @ components.T = I``.

    Examples
    --------
    >>> import numpy as np
    >>> import fairpca
    >>> result = fairpca.solve([np.diag([1.0, 0.0]), np.diag([0.0, 1.0])], 1)
    >>> result.losses.round(6).tolist(), result.certificate.optimal
    ([0.5, 0.5], True)
    """
    settings = Settings(
        criterion, shrinkage, solver, tol, max_iter, random_state, max_extra_components, prove
    )
    settings.check(center)
    if isinstance(covariances, GroupMoments):
        if B is not None:
            raise ValueError("B= needs matrices; pass moments.covariances instead of moments.")
        source = MomentCovariances(covariances, center=center)
        check_groups(source.groups.labels, source.groups.weight)
        check_rank(n_components, covariances.n_features)
        return fit_source(source, int(n_components), settings).solution
    if shrinkage is not None:
        raise ValueError(
            f"shrinkage={shrinkage!r} needs to know how many rows every group has; pass "
            "GroupMoments instead of covariances, or shrink the matrices yourself."
        )
    matrices = check_covariances(covariances)
    check_rank(n_components, matrices.shape[-1])
    root = None if B is None else _root(B, matrices.shape[-1])
    if root is not None:
        # With U = L^-T V and B = L L.T, U.T B U is V.T V.
        inverse = scipy.linalg.solve_triangular(root, np.eye(len(root)), lower=True)
        matrices = symmetric(inverse @ matrices @ inverse.T)
    unit = unit_for(matrices, criterion)
    with blas_for(matrices.shape[-1]):
        problem = pose(matrices * unit, int(n_components), criterion, method=_method(solver))
        solution = settings.solve(problem)
    if root is not None:
        back = scipy.linalg.solve_triangular(root, solution.components.T, trans="T", lower=True)
        # The way back loses as many digits as B is ill-conditioned by; units of columns lose none.
        condition = float(np.linalg.cond(root / np.linalg.norm(root, axis=1)[:, None])) ** 2
        lost = np.finfo(float).eps * condition * problem.oracle.scale
        proof = solution.certificate
        proof = replace(proof, resolution=proof.resolution + lost)
        components = np.ascontiguousarray(back.T)
        solution = replace(solution, components=components, certificate=proof)
    return solution.times(1 / unit)


def _root(B: Any, n: int) -> FloatArray:
    """Return the Cholesky factor of `B`, or raise ValueError."""
    matrix = check_covariances([B])[0] if np.ndim(B) == 2 else np.zeros((0, 0))
    if len(matrix) != n:
        raise ValueError(f"B has shape {np.shape(B)} and must be ({n}, {n}), like covariances.")
    try:
        return np.asarray(np.linalg.cholesky(matrix))
    except np.linalg.LinAlgError:
        raise ValueError(
            "B is not positive definite; add a small multiple of the identity, or leave out the "
            "columns that depend on others."
        ) from None
