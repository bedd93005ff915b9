"""Any number of groups: maximise phi over the simplex, then find a basis that attains it.

The dual is solved first, by Newton's method (`dual.ascend`) and, where eigenvalues tie, by an
interior point method (`interior_point`). If lambda_r is simple at the optimal weights, the leading
eigenvectors have level losses and the gap is zero, whatever the number of groups. If it is tied,
`descent` looks for a basis with the losses of the relaxed solution; where there is none, it ends
at the best basis it meets and a gap remains. `branch_and_bound` can then prove more than the dual
does: by default while that is cheap, and for as long as the caller allows where a proof is asked
for.

Large matrices and operators are never decomposed in full: the problem is solved inside the span
of the eigenvectors seen so far, one partial decomposition at the weights found there gives the
lower bound and the next directions, and the two bounds close quadratically.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from fairpca._arrays import FloatArray, IntArray, rounding_level
from fairpca.covariances.dense import DenseOracle, ProjectedBasis
from fairpca.covariances.oracle import EigenPairs
from fairpca.solvers.branch_and_bound import MOST_FEATURES, Search
from fairpca.solvers.descent import attain, descend
from fairpca.solvers.dual import BudgetSpent, Dual, DualPoint, ascend, newton_step, occupy
from fairpca.solvers.interior_point import follow_central_path
from fairpca.solvers.problem import Problem
from fairpca.solvers.solution import OPTIMAL_GAP, Solution

# Groups that the dual is solved among at first, and that join them in a round. At most
# n (n + 1) / 2 + 1 groups need any weight, and of thousands mostly a few dozen have it.
_FEW = 64
# The gap at which they are let in.
_ROUGH = 1e-3
# The dual is driven this much further than the tolerance: Newton gives the digits away.
_TARGET = 1e-3
# The dual inside a subspace is driven to this share of the gap that is left outside of it.
_ROUGHLY = 1e-2
# Eigenvectors past r that every partial decomposition adds to the subspace.
_SPARE = 6
# The groups' own bases begin the subspace, with up to this many columns in all and this share of
# the space: they save one to five decompositions (of three to seven), but every column has to meet
# all matrices, and takes part in every decomposition inside (765 columns, ten groups, r = 50: 336
# ms with a quarter of the space, 364 with a third or a fifth, 375 with an eighth, 435 with half).
_OWN_COLUMNS, _OWN_SHARE = 400, 1 / 4
# Rounds in which a descent inside the subspace may still widen it.
_ROUNDS = 3
_NO_LIMIT = 10**9
# Nodes of a search that nobody asked for, and the work it may be: nodes times groups times the
# cube of the columns. On problems of 10 columns and 5 groups with a gap it then takes about as
# long as the rest of the fit, and closes nearly all of them.
_CHEAP_NODES, _CHEAP_WORK = 300, 500_000
# Fewer nodes than the root and its children prove nothing. The descents from these five find
# bases that others miss, so they are always visited up to this many groups times the cube of the
# columns (five groups of 58): 0.2 seconds, and only where a gap is open.
_LEAST_NODES, _LEAST_WORK = 5, 1_000_000
# Random descents where no cut divides a problem, without `prove` and with it. Of five problems of
# 10 columns and 50 groups, 20 of them (0.3 seconds) improved three, and 200 four; of 300 groups
# none, in half of a fit's time.
_ROUNDINGS, _ASKED_ROUNDINGS = 20, 200
# How long a search may take that was asked for.
_SECONDS = 60.0
_SOLVED = "dual solved"


@dataclass(frozen=True)
class _Outcome:
    """What a route hands back: a basis, weights that prove a bound with their eigenpairs, a story.

    Attributes
    ----------
    basis : ndarray of shape (n, q)
    weights : ndarray of shape (k,)
    near : EigenPairs
        Leading pairs at the weights.
    reason : str
    bound : float
        phi at the weights.
    open : bool
        Whether the dual is solved and leaves a gap, so that a search may prove more.
    history : list of dict
    searched : float
        The bound that a search proved; minus infinity without one.
    nodes : int
        How many nodes that took.
    """

    basis: FloatArray
    weights: FloatArray
    near: EigenPairs
    reason: str
    bound: float
    open: bool
    history: list[dict[str, float]] = field(default_factory=list)
    searched: float = -np.inf
    nodes: int = 0


def solve_many_groups(
    problem: Problem,
    *,
    tol: float = 1e-10,
    max_iter: int = 200,
    random_state: int = 0,
    start: FloatArray | None = None,
    exact_search: bool = True,
    prove: bool = False,
) -> Solution:
    """Solve a problem with any number of groups; parameters as in `solvers.solve_problem`.

    Returns
    -------
    Solution
        Its lower bound is phi at `weights`, unless a search proved a larger one. Its count of
        decompositions is that of A(t); those of descent and search are not counted.
    """
    oracle = problem.oracle
    if start is not None:
        start = np.maximum(np.asarray(start, dtype=float), 0.0)
        start = start / start.sum() if start.sum() > 0 else None
    route = _solve_dense if oracle.in_full(problem.n_components) else _solve_in_subspace
    found = route(problem, tol, max_iter, random_state, start)
    if found.open:
        found = _searched(problem, found, tol, random_state, exact_search, prove)
    return problem.solution(
        found.basis,
        found.weights,
        found.near,
        stop_reason=found.reason,
        solver=oracle.driver,
        history=found.history,
        searched=found.searched,
        nodes=found.nodes,
    )


def maximise_dual(dual: Dual, start: FloatArray | None) -> str:
    """Solve the dual from given weights or even ones; return why it stopped, in words."""
    k = dual.oracle.n_groups
    try:
        point = dual.evaluate(np.full(k, 1.0 / k) if start is None else start)
        if k > 2 * _FEW:
            _climb_among_few(dual, point)
        else:
            _climb(dual, point)
    except BudgetSpent:
        return "max_iter reached"
    return _SOLVED if dual.good else "dual open at working precision"


def _climb(dual: Dual, point: DualPoint) -> None:
    ascend(dual, point)
    if not dual.good:
        follow_central_path(dual)


def _climb_among_few(dual: Dual, point: DualPoint) -> None:
    """Solve the dual among a few of many groups, until no other group is worse off than these.

    With the other groups' weights at zero phi is a bound for all groups, and the relaxed optimum
    of the few is a relaxed point of all. Groups that are worse off with it join the few.
    """
    problem, oracle = dual.problem, dual.oracle
    chosen, losses, level = point.weights > 1e-9, point.losses, -np.inf
    if np.count_nonzero(chosen) > oracle.n_groups / 2:
        chosen[:] = False
    weights, target = point.weights, max(dual.target, _ROUGH)
    while True:
        worse = np.flatnonzero(~chosen & (losses > level))
        if not len(worse):
            if target == dual.target:
                return
            # Only the last few are solved to the last digit.
            target = dual.target
        chosen[worse[np.argsort(-losses[worse], kind="stable")[:_FEW]]] = True
        few = np.flatnonzero(chosen)
        matrices = DenseOracle(oracle.matrices[few], oracle.scale)
        inner = Dual(
            Problem(matrices, problem.offsets[few], dual.r), max_iter=dual.left, target=target
        )

        def among_all(point: DualPoint, few: IntArray = few) -> DualPoint:
            weights = np.zeros(oracle.n_groups)
            weights[few] = point.weights
            return DualPoint(problem, weights, point.pairs)

        share = float(weights[few].sum())
        start = weights[few] / share if share > 0 else np.full(len(few), 1.0 / len(few))
        try:
            _climb(inner, inner.evaluate(start))
        finally:
            dual.left = inner.left
            oracle.n_eigen += matrices.n_eigen
            dual.history += inner.history
            if inner.best is not None and inner.relaxed is not None:
                best = among_all(inner.best)
                weights = best.weights
                if dual.best is None or best.phi > dual.best.phi:
                    dual.best = best
                found = occupy(among_all(inner.relaxed.point), inner.relaxed.cluster, dual.r)
                dual.offer(found)
                losses = found.losses
                level = inner.relaxed.value + max(target * inner.reference, problem.resolution)


def _solve_dense(
    problem: Problem, tol: float, max_iter: int, random_state: int, start: FloatArray | None
) -> _Outcome:
    """Return the result of a problem whose weighted sums are decomposed in full.

    First the dual, then a basis.
    """
    dual = Dual(problem, max_iter=max_iter, target=_TARGET * tol)
    reason = maximise_dual(dual, start)
    attained, best = attain(dual, tol, random_state), dual.best
    assert best is not None
    solved, closed = reason == _SOLVED, attained.gap_closed
    reason = attained.reason if solved or closed else reason
    left, story = solved and not closed, dual.history
    return _Outcome(attained.basis, best.weights, best.pairs, reason, dual.bound, left, story)


def _solve_in_subspace(
    problem: Problem, tol: float, max_iter: int, random_state: int, start: FloatArray | None
) -> _Outcome:
    """Return the result of a problem with large matrices, solved inside a growing subspace.

    The maximum of phi inside is an upper bound on that of the large matrices, because leaving out
    directions only makes sums of eigenvalues smaller. phi of the large matrices at the weights
    found inside is a lower bound. The loop ends when they meet, when a decomposition adds no
    direction, or at `max_iter`. Decompositions inside the subspace are not counted.
    """
    # Decompositions of the groups' own matrices are not counted either.
    most = problem.oracle.n_eigen + max_iter
    space = _Visited(problem, start, most)
    grown, apart, exact = True, 1.0, _TARGET * tol
    target, inside = exact, problem.restricted(space.inside)
    while True:
        # A subspace that has to be widened anyway is not searched to the last digit.
        early = grown and problem.oracle.n_eigen < most
        before, target = target, max(exact, _ROUGHLY * apart) if early else exact
        dual = Dual(inside, max_iter=_NO_LIMIT, target=target)
        basis = space.inside.basis
        maximise_dual(dual, start)
        assert dual.best is not None
        assert dual.relaxed is not None
        start, upper = dual.best.weights, dual.relaxed.value
        limit = upper - tol * dual.reference
        reason = ""
        if space.bound >= limit:
            reason = _SOLVED
        elif not grown and before == exact:
            # Weights that were found roughly get a bound at the exact ones first.
            reason = "no new direction at working precision"
        elif target == exact and space.bound >= dual.bound - problem.resolution:
            # phi is the same inside and outside: a wider subspace closes no gap of the inner dual.
            reason = "dual open at working precision"
        elif problem.oracle.n_eigen >= most and space.bound > -np.inf:
            reason = "max_iter reached"
        else:
            near = basis @ dual.best.vectors[:, : dual.r]
            grown = space.visit(start, near, upper, enough=limit)
            apart = (upper - space.bound) / dual.reference
            reason = _SOLVED if space.bound >= limit else ""
            inside = problem.restricted(space.inside)
            if not reason and dual.is_smooth(dual.best):
                # The gradient outside, with the curvature inside: one decomposition less there.
                leading = space.inside.coordinates(space.near.columns[:, : dual.r])
                start = newton_step(dual, dual.best, space.weights, inside.losses(leading))
        if reason:
            break
    attained = attain(dual, tol, random_state)
    found, solved, closed = basis @ attained.basis, reason == _SOLVED, attained.gap_closed
    if not closed:
        found = _descend_outside(space, found, attained.weights, most)
    reason, left = attained.reason if solved else reason, solved and not closed
    return _Outcome(found, space.weights, space.near, reason, space.bound, left, space.history)


def _searched(
    problem: Problem,
    found: _Outcome,
    tol: float,
    random_state: int,
    exact_search: bool,
    prove: bool,
) -> _Outcome:
    """Return the result with whatever a search can add to it."""
    oracle, n = problem.oracle, problem.oracle.n_features
    apart = float(problem.losses(found.basis).max()) - found.bound
    if apart <= 2 * problem.resolution:
        # Nothing finer than rounding is claimed, so there is nothing to prove.
        return found
    if n > MOST_FEATURES:
        more = f"; more than {MOST_FEATURES} columns" if prove else ""
        return replace(found, reason=found.reason + more)
    work, nodes = oracle.n_groups * n**3, 0
    if exact_search:
        least = _LEAST_NODES if work <= _LEAST_WORK else 0
        nodes = max(least, min(_CHEAP_NODES, _CHEAP_WORK // work))
    if nodes < _LEAST_NODES and not prove:
        return found
    tol = max(tol, 0.9 * OPTIMAL_GAP)
    # The bounds of cells build on that of the dual, so it has to be proven before.
    total, _ = oracle.sum_bound(found.weights, problem.n_components, found.near)
    bound = min(found.bound, float(found.weights @ problem.offsets) - total)
    if not oracle.cheap_products:
        # A descent needs the matrices: by products alone it would take a hundred times as long.
        size = oracle.resolution / rounding_level(1.0, n)
        explicit = DenseOracle(oracle.matrices, scale=oracle.scale, apart=size)
        problem = replace(problem, oracle=explicit)
    result = Search(problem, found.basis, found.weights, bound, tol).run(
        max_nodes=_NO_LIMIT if prove else nodes,
        seconds=_SECONDS if prove else np.inf,
        roundings=_ASKED_ROUNDINGS if prove else min(_ROUNDINGS, _LEAST_WORK // work),
        random_state=random_state,
    )
    gap = problem.certificate(result.bound, result.value).gap
    reason = "proven by a search" if gap <= 1.1 * tol else f"{found.reason} after a search"
    if result.stuck:
        reason += ", and no cut divides it further"
    return replace(
        found,
        basis=result.basis,
        searched=result.bound,
        nodes=result.nodes,
        reason=reason,
        history=[*found.history, {"phi": result.bound, "nodes": float(result.nodes)}],
    )


class _Visited:
    """The problem in the span of all eigenvectors seen, and the best bound they came with.

    Attributes
    ----------
    inside : ProjectedBasis
    width : int
        Pairs that every partial decomposition returns.
    bound : float
        The largest phi of the large matrices; minus infinity before the first one.
    weights, near : ndarray of shape (k,), EigenPairs
        Where the bound was met, and the pairs that it comes from.
    history : list of dict
    """

    def __init__(self, problem: Problem, start: FloatArray | None, max_iter: int) -> None:
        k, r = problem.oracle.n_groups, problem.n_components
        self.problem = problem
        self.width = min(r + _SPARE, problem.oracle.n_features)
        self.history: list[dict[str, float]] = []
        self.bound = -np.inf
        self.near = EigenPairs(np.zeros(0), np.zeros((problem.oracle.n_features, 0)))
        self.weights = np.full(k, 1.0 / k) if start is None else start
        self.inside = ProjectedBasis(problem.oracle)
        # Known for nothing where the criterion needed them anyway.
        most = min(_OWN_COLUMNS, int(_OWN_SHARE * problem.oracle.n_features))
        share = min(r, most // k)
        if problem.own is not None and share:
            heads = [pairs.head(share) for pairs in problem.own]
            # Only where there is any variance.
            occupied = [own.vectors[:, own.values > 1e-9 * own.values[0]] for own in heads]
            self.inside.widen(np.hstack(occupied))
        if start is None and 4 * share >= r and self.inside.width >= self.width:
            return
        # Even weights are a first guess: their eigenvectors serve for directions only, unless
        # there is no second decomposition to come.
        rough = start is None and problem.oracle.n_eigen + 1 < max_iter
        self.visit(self.weights, None, np.inf, rough=rough)

    def visit(
        self,
        weights: FloatArray,
        near: FloatArray | None,
        upper: float,
        *,
        rough: bool = False,
        enough: float = np.inf,
    ) -> bool:
        """Decompose at `weights`, keep bound and directions; return whether any was new.

        With a bound that is `enough`, directions are of no more use.
        """
        pairs = self.problem.oracle.leading(weights, self.width, start=near, rough=rough)
        phi = self.problem.phi(weights, pairs)
        if phi > self.bound and not rough:
            self.bound, self.weights, self.near = phi, weights, pairs
        self.history.append({"phi": phi, "upper": upper, "width": float(self.inside.width)})
        return self.bound < enough and self.inside.widen(pairs.vectors)


def _descend_outside(
    space: _Visited, basis: FloatArray, weights: FloatArray, max_iter: int
) -> FloatArray:
    """Continue a descent past the subspace it was made in; return where it ends, shape (n, r).

    A stationary basis is spanned by eigenvectors of A(weights) at its own multipliers, so those
    eigenvectors are what the subspace lacks.
    """
    problem = space.problem
    for _ in range(_ROUNDS):
        if problem.oracle.n_eigen >= max_iter or not space.visit(weights, basis, np.inf):
            break
        before = float(problem.losses(basis).max())
        inside = problem.restricted(space.inside)
        found = descend(inside, space.inside.basis.T @ basis, weights)
        basis, weights = space.inside.basis @ found.basis, found.weights
        if before - found.value <= 1e-9 * max(abs(found.value), problem.resolution):
            break
    return basis
