"""From matrices and a number of components to a certified basis.

The estimator calls `fit_source`. No attributes are set here, and the solvers see no rows.
`solve` is the same for people who already have covariances.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import Any

import numpy as np
import scipy.linalg
from sklearn.exceptions import ConvergenceWarning

from fairpca._arrays import EPS, TINY, FloatArray, symmetric, threads_for
from fairpca._check import (
    check_at_least,
    check_choice,
    check_covariances,
    check_groups,
    check_rank,
    is_share,
    warn,
)
from fairpca.covariances.dense import DenseOracle
from fairpca.covariances.oracle import EigenPairs, Oracle
from fairpca.covariances.sources import CENTERS, CovarianceSource, MomentCovariances
from fairpca.criteria import CRITERIA, Criterion
from fairpca.moments.group_moments import GroupMoments, as_folds
from fairpca.moments.groups import Rows
from fairpca.shrinkage import held_out_shares
from fairpca.solvers import solve_problem
from fairpca.solvers.branch_and_bound import MOST_FEATURES
from fairpca.solvers.problem import Problem
from fairpca.solvers.solution import OPTIMAL_GAP, Solution
from fairpca.solvers.thresholds import solve_thresholds
from fairpca.solvers.two_groups import RankPath

# Squares of eigenvalues, and products of these, are no numbers outside of this range.
_RANGE = (1e-100, 1e100)
# The part of a share that counts as all of it, up to rounding.
_KEPT = 1 - 1e-12
# Eigenvalues that a search for a share begins with, twice as many where these are not enough.
_FIRST_WIDTH = 32
# No group is moved towards what all share.
_NONE = np.zeros(1)
#: Why a fit with a share of variance stopped, where the share cost something of the criterion.
SHARE_KEPT = "the projection with the largest smallest share, for the sake of n_components"


@dataclass(frozen=True)
class Settings:
    """How to solve; the names are FairPCA's parameters, and this is where they are checked."""

    criterion: str = "loss"
    center: str = "global"
    # A number, None or "auto"; or an array with a number for each group.
    shrinkage: Any = None
    max_harm: Any = None
    tol: Any = 1e-10
    max_iter: int = 200
    random_state: int = 0
    prove: bool = False

    def check(self) -> Settings:
        """Return the settings; ValueError names the first one that makes no sense."""
        check_choice("criterion", self.criterion, CRITERIA)
        check_choice("center", self.center, CENTERS)
        for name, others in (("shrinkage", (None, "auto")), ("max_harm", (None,))):
            given = getattr(self, name)
            number = isinstance(given, Real) and not isinstance(given, bool)
            if given not in others and not (number and 0 <= float(given) <= 1):
                known = ", ".join(map(repr, others))
                raise ValueError(f"{name}={given!r} must be {known} or a number from 0 to 1.")
        if not isinstance(self.tol, Real) or not 0 < float(self.tol) < 1:
            raise ValueError(f"tol={self.tol!r} must be between 0 and 1, for example 1e-10.")
        check_at_least("max_iter", self.max_iter, 1)
        check_choice("prove", self.prove, (False, True))
        check_at_least("random_state", self.random_state, 0)
        return self

    def more_proof(self, n_groups: int, n_features: int) -> str:
        """Return what to do about an open gap, for a warning; empty where no search follows."""
        searched = n_groups > 2 and n_features <= MOST_FEATURES
        return "" if self.prove or not searched else " prove=True searches for a better proof."


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


@dataclass
class Matrices:
    """The matrices of groups, scaled or not, with their own leading pairs.

    Attributes
    ----------
    oracle : Oracle
    traces : ndarray of shape (k,)
    ask_for : int
        The largest rank that own pairs will be asked for, where that is known.
    """

    oracle: Oracle
    traces: FloatArray
    ask_for: int = 0
    _own: tuple[EigenPairs, ...] = ()
    _own_rank: int = 0

    @classmethod
    def of(cls, source: CovarianceSource, as_share: bool = False, ask_for: int = 0) -> Matrices:
        """Return the matrices of a source, divided by their traces or not."""
        traces = source.groups.traces
        # A group without variance loses nothing by any projection; its factor stays one.
        scales = 1 / np.where(as_share & (traces >= TINY), traces, 1.0)
        return cls(source.oracle(scales), traces * scales, ask_for)

    def own_pairs(self, r: int) -> tuple[EigenPairs, ...]:
        """Return at least `r` leading pairs of each group's own (scaled) matrix."""
        if r > self._own_rank:
            self._own_rank = min(max(r, self.ask_for), self.oracle.n_features)
            self._own = self.oracle.own_pairs(self._own_rank)
        return self._own

    def problem(self, r: int, criterion: Criterion) -> Problem:
        """Return the problem of rank `r`."""
        low, high = _RANGE
        if not (low < self.oracle.scale < high or self.oracle.scale == 0):
            raise ValueError(
                f"the variances reach {self.oracle.scale:.3g}, and their squares leave the range "
                "of numbers; divide all columns of X, or all covariances, by one number."
            )
        offsets, own = criterion.trace * self.traces, None
        if criterion.own:
            own = self.own_pairs(r)
            offsets = offsets + criterion.own * np.array([p.values[:r].sum() for p in own])
        return Problem(self.oracle, offsets, r, own)


class Ranks:
    """One table solved for one rank after another; what ranks share is computed once.

    Parameters
    ----------
    source : CovarianceSource
    settings : Settings
    max_components : int, optional
        Largest rank that will be asked for, where all of them will be.

    Attributes
    ----------
    n_features : int
        Dimension of the source's coordinates.
    """

    def __init__(
        self, source: CovarianceSource, settings: Settings, max_components: int | None = None
    ) -> None:
        groups = source.groups
        check_groups(groups.labels, groups.weight, source.total.count)
        self.source, self.settings = source, settings
        self.criterion = CRITERIA[settings.criterion]
        names = ("tol", "max_iter", "random_state", "prove")
        self.options: dict[str, Any] = {name: getattr(settings, name) for name in names}
        self._ask_for = max_components or 0
        # Of the rows as they are; losses are measured with these, whatever is solved for.
        self.rows = Matrices.of(source, ask_for=self._ask_for)
        self.n_features = self.rows.oracle.n_features
        self._known: tuple[bytes, Matrices] | None = None
        self._path: RankPath | None = None

    def matrices(self, shares: FloatArray = _NONE) -> Matrices:
        """Return the matrices to solve for: scaled by the criterion, shrunk by `shares`."""
        moved = shares.any()
        if not moved and not self.criterion.as_share:
            return self.rows
        key = shares.tobytes() if moved else b""
        if self._known is None or self._known[0] != key:
            source = self.source.shrunk(shares) if moved else self.source
            self._known = key, Matrices.of(source, self.criterion.as_share, self._ask_for)
        return self._known[1]

    def solve(self, r: int, start: FloatArray | None = None, exact_search: bool = True) -> Fit:
        """Solve one rank; `start` are weights of a neighbouring one.

        Without `exact_search` a gap is reported as the dual leaves it.
        """
        settings, moved = self.settings, self.settings.shrinkage
        with threads_for(self.n_features):
            moved = self._held_out(r) if isinstance(moved, str) else moved
            shares = np.zeros_like(self.source.groups.weight) + (0.0 if moved is None else moved)
            matrices = self.matrices(shares)
            problem = matrices.problem(r, self.criterion)
            # Whoever is content with a rough bound does not wait for a search.
            search = exact_search and settings.tol <= OPTIMAL_GAP
            about = ["of the shrunk covariances"] if shares.any() else []
            if settings.max_harm is not None:
                solution = self._harmless(problem, matrices, search)
                about.append(f"with nobody harmed by more than {settings.max_harm:.3g}")
            elif self._ask_for and (path := self._shared(matrices)) is not None:
                how = {"tol": settings.tol, "max_iter": settings.max_iter}
                solution = path.solve(problem, start=start, **how)
            else:
                solution = solve_problem(problem, start=start, exact_search=search, **self.options)
            if about:
                proof = replace(solution.certificate, about=", ".join(about))
                solution = replace(solution, certificate=proof)
            return self.described(solution, r, shares)

    def _held_out(self, r: int) -> FloatArray:
        """Return the shares of ``shrinkage="auto"``."""
        if self.source.folds is None:
            raise ValueError(
                "shrinkage='auto' learns from rows that are left out in turn, and these rows were "
                "not counted in folds; pass rows, or moments in folds, such as those of "
                "read_moments(..., n_folds=5), or a number from 0 to 1."
            )
        return held_out_shares(self.source.folds, r, center=self.source.center)

    def _harmless(self, problem: Problem, matrices: Matrices, search: bool) -> Solution:
        """Return the best basis with which no group is much worse off than with PCA.

        The most that a group may lose above what it loses by PCA is a share of its variance.
        """
        basis = self.source.total_pca(problem.n_components)
        caps = problem.losses(basis) + self.settings.max_harm * matrices.traces
        solve = partial(solve_problem, exact_search=search, **self.options)
        return solve_thresholds(
            problem, lambda t: np.minimum(t, caps), solve, basis, tol=self.settings.tol
        )

    def _shared(self, matrices: Matrices) -> RankPath | None:
        """Return what solves all ranks of two large groups; None where each is solved alone."""
        oracle = matrices.oracle
        large = (
            oracle.n_groups == 2 and oracle.cheap_products and not oracle.in_full(self._ask_for)
        )
        if large and (self._path is None or self._path.oracle is not oracle):
            self._path = RankPath(oracle, matrices.own_pairs(self._ask_for))
        return self._path if large else None

    def described(self, solution: Solution, r: int, shares: FloatArray) -> Fit:
        """Add what every group keeps and loses of its rows."""
        basis = solution.components.T
        own = np.array([pairs.values[:r].sum() for pairs in self.rows.own_pairs(r)])
        if self.criterion.is_loss and not shares.any():
            # The solver's values are the losses: equal ones stay equal to the last digit.
            losses = solution.losses
            retained = own - losses
        else:
            retained = self.rows.oracle.retained_variance(basis)
            losses = own - retained
        return Fit(basis, solution, retained, np.maximum(losses, 0.0), shares)

    def next_rank(self, r: int, weights: FloatArray, share: float) -> int:
        """Return the smallest rank past `r` with which every group may keep that share.

        The criterion is "share". The mean of the groups' shares with any weights is at most a sum
        of eigenvalues of their weighted sum (Ky Fan), so where that is less than the share, some
        group keeps less, whatever the projection. Ranks that are passed over are proven to fail.
        """
        n, width = self.n_features, min(max(r, _FIRST_WIDTH), self.n_features)
        matrices = self.matrices()
        needed = _KEPT * share * float(weights @ matrices.traces)
        with threads_for(n):
            while True:
                pairs = matrices.oracle.leading(weights, width)
                enough = np.flatnonzero(np.cumsum(pairs.values) >= needed)
                if len(enough) or width == n:
                    break
                width = min(2 * width, n)
            found = int(enough[0]) + 1 if len(enough) else n
            if found <= r + 1 or matrices.oracle.sum_bound(weights, found - 1, pairs)[0] >= needed:
                return r + 1
        return found

    def keeps(self, fit: Fit, share: float) -> bool:
        """Return whether every group keeps that share of its variance, up to rounding."""
        return bool(np.all(self.source.groups.shares(fit.retained) >= _KEPT * share))


def pose(covariances: FloatArray, n_components: int, criterion: str = "loss") -> Problem:
    """Return the problem of a criterion for explicit group covariances, shape (k, n, n).

    ValueError where the criterion divides by traces, and one of them is not positive.
    """
    check_choice("criterion", criterion, CRITERIA)
    chosen, traces = CRITERIA[criterion], np.einsum("kii->k", covariances)
    # Only a matrix of zeros has nothing to be divided.
    wrong = (traces <= 0) & np.any(covariances, axis=(1, 2))
    if chosen.as_share and wrong.any():
        raise ValueError(
            f"criterion={criterion!r} divides by traces, and one of them is {traces.min():.3g}; "
            "choose 'loss', 'error' or 'variance'."
        )
    scales = 1 / np.where(chosen.as_share & (traces >= TINY), traces, 1.0)
    if chosen.as_share:
        covariances = covariances * scales[:, None, None]
    # Positive and negative eigenvalues may cancel in a trace. Without negative ones the trace is
    # the larger number.
    norms = np.sqrt(np.einsum("kij,kij->k", covariances, covariances))
    largest = float(np.maximum(np.abs(traces * scales), norms).max())
    oracle = DenseOracle(covariances, largest)
    return Matrices(oracle, traces * scales).problem(n_components, chosen)


def fit_source(source: CovarianceSource, n_components: Any, settings: Settings) -> Fit:
    """Solve for a number of components, None for all, or a share every group must keep."""
    if is_share(n_components):
        return _fit_share(source, float(n_components), settings)
    ranks = Ranks(source, settings)
    r = ranks.n_features if n_components is None else int(n_components)
    check_rank(r, ranks.n_features)
    return ranks.solve(r)


def _fit_share(source: CovarianceSource, share: float, settings: Settings) -> Fit:
    """Return the smallest rank with which every group can keep `share` of its variance.

    The rank is found by the projections with the largest smallest share. Of that rank, the
    projection of the criterion asked for is returned if it keeps the share too; else the one with
    the largest smallest share, and the certificate shows its price over the optimum of the
    criterion. With other matrices or limits components are added until the share is kept.
    """
    plain = replace(settings, criterion="share", shrinkage=None, max_harm=None)
    largest, k = Ranks(source, plain), len(source.groups.weight)
    r, weights, still_open = 0, np.full(k, 1.0 / k), 0
    while True:
        r = largest.next_rank(r, weights, share)
        most = largest.solve(r, weights)
        if largest.keeps(most, share) or r == largest.n_features:
            break
        weights, certificate = most.solution.weights, most.solution.certificate
        if not still_open and not certificate.optimal and certificate.lower_bound <= 1 - share:
            still_open = r
    if still_open:
        warn(
            f"n_components={share:g}: {r} components are enough, and {still_open} may be: no "
            f"bound rules the share out.{settings.more_proof(k, largest.n_features)}",
            ConvergenceWarning,
        )
    if plain == settings:
        return most
    ranks = Ranks(source, settings)
    asked = ranks.solve(r)
    if ranks.keeps(asked, share):
        return asked
    if settings.shrinkage is None and settings.max_harm is None:
        problem = ranks.matrices().problem(r, ranks.criterion)
        losses = problem.losses(most.basis)
        proof = problem.certificate(asked.solution.certificate.lower_bound, float(losses.max()))
        solution = replace(
            asked.solution,
            components=most.solution.components,
            losses=losses,
            certificate=proof,
            stop_reason=SHARE_KEPT,
        )
        return replace(most, solution=solution)
    while not ranks.keeps(asked, share) and r < ranks.n_features:
        r += 1
        asked = ranks.solve(r)
    return asked


def solve(
    covariances: Rows | GroupMoments | Sequence[GroupMoments],
    n_components: int,
    *,
    criterion: str = "loss",
    center: str = "global",
    shrinkage: float | str | None = None,
    max_harm: float | None = None,
    thresholds: Callable[[float], FloatArray | float] | None = None,
    tol: float = 1e-10,
    max_iter: int = 200,
    random_state: int = 0,
    prove: bool = False,
    B: Rows | None = None,
) -> Solution:
    """Find the rank-`n_components` projection whose worst group fares best.

    Parameters
    ----------
    covariances : array-like of shape (k, n, n), GroupMoments or a list of these
        One symmetric matrix per group, or moments, from which they are taken. Matrices need not
        be covariances: differences of covariances and block matrices, which have negative
        eigenvalues, are solved and proven the same way. "relative" and "share" divide by traces
        and need positive ones. A list of moments has the same rows in folds.
    n_components : int
        Rank r of the projection, 1 <= r <= n.
    criterion : {"loss", "error", "variance", "relative", "share"}, default="loss"
        As in `FairPCA`.
    center, shrinkage, max_harm
        As in `FairPCA`, for moments. Matrices are taken as they are.
    thresholds : callable, optional
        Maps a number t to the most that each group may have of the criterion, shape (k,); every
        entry must rise with t, or stay. The smallest t is found for which some projection is
        within them, and value and bound of the certificate are numbers t. So
        ``lambda t: np.minimum(t, caps)`` keeps groups below caps, and ``lambda t: t**2`` makes the
        largest root of the criterion small (docs/theory/thresholds.md).
    tol : float, default=1e-10
        Relative gap between value and lower bound at which to stop.
    max_iter : int, default=200
        Most full-size eigen-decompositions, those of the groups' own matrices aside.
    random_state : int, default=0
        Seed of the random starting bases that three or more groups may need.
    prove : bool, default=False
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
        criterion, center, shrinkage, max_harm, tol, max_iter, random_state, prove
    ).check()
    if as_folds(covariances) is not None:
        if B is not None or thresholds is not None:
            raise ValueError("B= and thresholds= need matrices; pass moments.covariances.")
        source = MomentCovariances(covariances, center=center)
        check_rank(n_components, len(source.groups.mean[0]))
        return fit_source(source, int(n_components), settings).solution
    if shrinkage is not None or max_harm is not None:
        raise ValueError(
            "shrinkage= and max_harm= need to know the rows that groups have; pass GroupMoments "
            "instead of covariances, or shrink the matrices yourself and pass thresholds=."
        )
    matrices = check_covariances(covariances)
    check_rank(n_components, matrices.shape[-1])
    root = None if B is None else np.linalg.cholesky(check_covariances([B])[0])
    if root is not None:
        # With U = L^-T V and B = L L.T, U.T B U is V.T V.
        inverse = scipy.linalg.solve_triangular(root, np.eye(len(root)), lower=True)
        matrices = symmetric(inverse @ matrices @ inverse.T)
    with threads_for(matrices.shape[-1]):
        problem = pose(matrices, int(n_components), criterion)
        how: Any = {"tol": tol, "max_iter": max_iter, "random_state": random_state, "prove": prove}
        if thresholds is None:
            solution = solve_problem(problem, **how)
        else:
            solution = solve_thresholds(problem, thresholds, partial(solve_problem, **how))
    if root is None:
        return solution
    back = scipy.linalg.solve_triangular(root, solution.components.T, trans="T", lower=True)
    # This loses as many digits as B is ill-conditioned by; units of columns lose none.
    condition = float(np.linalg.cond(root / np.linalg.norm(root, axis=1)[:, None])) ** 2
    proof = solution.certificate
    proof = replace(proof, resolution=proof.resolution + EPS * condition * problem.oracle.scale)
    return replace(solution, components=np.ascontiguousarray(back.T), certificate=proof)
