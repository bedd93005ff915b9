"""Two groups: the root of phi'(t) = f_1 - f_2 on [0, 1], with the certificate as stopping rule.

Searching for the largest *value* of phi, as the paper prints it, stops near the square root of
machine precision in t and leaves the two losses different in the seventh digit. The derivative is
the loss difference itself, costs nothing extra, and its root is found to rounding.

Two routes share the root finder. Small matrices are decomposed in full, which gives the second
derivative for nothing, hence Newton. Large ones (or operators) are solved inside the span of the
eigenvectors seen so far, where equal losses hold exactly; one partial decomposition at the optimum
found there gives the lower bound and the next directions. Its gap closes quadratically.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fairpca._linalg import FloatArray, symmetric
from fairpca.covariances.eigenpairs import EigenPairs, full_pairs
from fairpca.solvers.problem import Problem
from fairpca.solvers.solution import Solution
from fairpca.solvers.subspace import Subspace
from fairpca.solvers.two_group_ties import geodesic_candidate, swap_candidates

# Newton is cheap enough to be driven to rounding; this is where it may stop before.
_CLOSED = 1e-14


@dataclass(frozen=True)
class _Point:
    """phi at one weight t of the first group, with its derivatives and eigenpairs."""

    t: float
    value: float
    slope: float
    curvature: float
    basis: FloatArray
    pairs: EigenPairs


@dataclass(frozen=True)
class Best:
    """The best basis (met at weight `t`) and the best bound (phi at weight `proof`) so far."""

    basis: FloatArray
    value: float
    spread: float
    t: float
    bound: float
    proof: float


class NewtonSearch:
    """Bracketed Newton on phi' with full decompositions."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.oracle = problem.oracle
        self.r = problem.n_components
        self.difference = self.oracle.matrices[0] - self.oracle.matrices[1]
        self.delta = float(problem.offsets[0] - problem.offsets[1])
        self.resolution = problem.resolution
        self.best: Best | None = None
        self.bound, self.proof = -np.inf, 0.5
        self.history: list[dict[str, float]] = []

    def run(self, *, max_iter: int, first: float | None = None) -> tuple[Best, str]:
        """Search between the two groups' own bases; return the best basis and why it stopped.

        `first` is a weight near the answer.
        """
        own = self.problem.own
        low, high = (
            self._end(t, self._served(t) if own is None else own[0 if t == 1 else 1])
            for t in (0.0, 1.0)
        )
        # Where one group's own optimum already serves the other better, there is nothing to trade.
        if low.slope <= 0 or high.slope >= 0:
            return self._result(), "one group binds alone"
        same_side, falling = 0, True
        last: _Point | None = None
        known = first is not None and low.t < first < high.t
        t = first if first is not None and known else _tangent_intersection(low, high)
        reason = "max_iter reached"
        for _ in range(max_iter):
            point = self._evaluate(t)
            if abs(point.slope) <= self.resolution:
                reason = "losses equal to rounding"
                break
            side = 1 if point.slope > 0 else -1
            same_side = same_side + side if same_side * side > 0 else side
            low, high = (point, high) if side > 0 else (low, point)
            if self._nearly_tied(point, low, high):
                self._recover(point, low, high)
                if self._closed():
                    reason = "losses equalised between neighbours, gap closed"
                    break
            falling = last is None or abs(point.slope) <= 0.5 * abs(last.slope)
            t = _next(point, low, high, abs(same_side), falling)
            last = point
            if not low.t < t < high.t:
                self._recover(point, low, high)
                reason = "bracket at working precision"
                break
        return self._result(), reason

    def _end(self, t: float, pairs: EigenPairs) -> _Point:
        basis = pairs.vectors[:, : self.r]
        value = self.problem.phi(np.array([t, 1 - t]), pairs)
        self._raise_bound(value, t)
        slope = self._consider(basis, t, *self.problem.losses(basis).tolist())
        return _Point(t, value, slope, 0.0, basis, pairs)

    def _served(self, t: float) -> EigenPairs:
        """Return one group's own pairs, ties among them resolved in favour of the other group.

        Only criteria whose optimum may lie at an end need it: with "loss" both groups bind.
        """
        pairs = self.oracle.full(np.array([t, 1 - t]))
        near = np.abs(pairs.values - pairs.values[self.r - 1]) <= 1e-12 * self.oracle.scale
        first, last = int(np.argmax(near)), len(near) - int(np.argmax(near[::-1]))
        cluster = pairs.vectors[:, first:last]
        other = self.oracle.matrices[1 if t == 1 else 0]
        best = full_pairs(symmetric(cluster.T @ other @ cluster)).vectors
        return EigenPairs(pairs.values, np.hstack([pairs.vectors[:, :first], cluster @ best]))

    def _evaluate(self, t: float) -> _Point:
        weights = np.array([t, 1 - t])
        pairs = self.oracle.full(weights)
        basis = pairs.vectors[:, : self.r]
        value = self.problem.phi(weights, pairs)
        self._raise_bound(value, t)
        # One product gives the slope (its diagonal) and the curvature (the rest).
        inner = pairs.vectors.T @ (self.difference @ basis)
        slope = self.delta - float(inner.trace())
        self._consider(basis, t, value + (1 - t) * slope, value - t * slope)
        coupling = inner[self.r :]
        # A vanishing gap means a kink: the huge curvature makes Newton stand still there.
        gaps = np.maximum(pairs.values[: self.r] - pairs.values[self.r :, None], 1e-300)
        curvature = -2 * float(np.vdot(coupling, coupling / gaps))
        self.history.append({"t": t, "phi": value, "slope": slope})
        return _Point(t, value, slope, curvature, basis, pairs)

    def _raise_bound(self, value: float, t: float) -> None:
        # Among weights equal to rounding the later ones are nearer to the optimum.
        if value >= self.bound - self.resolution:
            self.proof = t
        self.bound = max(self.bound, value)

    def _consider(self, basis: FloatArray, t: float, *losses: float) -> float:
        """Keep `basis` if it has the smallest worst loss so far; return its loss difference."""
        value, slope = max(losses), losses[0] - losses[1]
        if self.best is None or value < self.best.value:
            self.best = Best(basis, value, abs(slope), t, self.bound, self.proof)
        return slope

    def _nearly_tied(self, point: _Point, low: _Point, high: _Point) -> bool:
        values = point.pairs.values
        tie = values[self.r - 1] - values[self.r] <= 1e-7 * self.oracle.scale
        # Newton wants a step t can hardly resolve, yet the losses still differ.
        # A recovery costs about one decomposition of 60 columns: below that, one more Newton step
        # is the cheaper way to the last digits.
        step = 1e-15 if self.oracle.n_features <= 60 else 1e-9
        stiff = point.curvature < 0 and abs(point.slope) <= step * abs(point.curvature)
        return bool(tie or stiff or high.t - low.t <= step)

    def _recover(self, point: _Point, low: _Point, high: _Point) -> None:
        on_the_way = geodesic_candidate(low.basis, high.basis, self.difference, self.delta)
        if on_the_way is not None:
            self._consider(on_the_way, point.t, *self.problem.losses(on_the_way).tolist())
        for basis in swap_candidates(
            point.pairs, self.r, self.difference, self.delta, self.oracle.scale
        ):
            self._consider(basis, point.t, *self.problem.losses(basis).tolist())

    def _closed(self) -> bool:
        assert self.best is not None
        limit = max(_CLOSED * abs(self.best.value), self.resolution)
        return self.best.value - self.bound <= limit and self.best.spread <= limit

    def _result(self) -> Best:
        assert self.best is not None
        return replace(self.best, bound=self.bound, proof=self.proof)


def _tangent_intersection(low: _Point, high: _Point) -> float:
    """Where the tangents at both ends meet: exact at a kink between two linear branches."""
    rise = high.value - low.value + low.slope * low.t - high.slope * high.t
    t = rise / (low.slope - high.slope)
    # Slopes of pure rounding cross anywhere; the middle is as good as any weight then.
    return t if low.t < t < high.t else 0.5 * (low.t + high.t)


def _next(point: _Point, low: _Point, high: _Point, same_side: int, falling: bool) -> float:
    """Return the next weight, strictly inside the bracket unless the bracket is exhausted."""
    if high.t - low.t <= 4 * np.finfo(float).eps:
        return high.t
    # Newton as long as it halves the slope; past a kink it would jump back and forth.
    if falling and point.curvature < 0:
        newton = point.t - point.slope / point.curvature
        if low.t < newton < high.t:
            return float(newton)
    t = _tangent_intersection(low, high)
    if same_side >= 2:
        # The same end moved twice: step past the estimate so that the stale end moves too.
        t += t - point.t
    return t if low.t < t < high.t and same_side < 4 else 0.5 * (low.t + high.t)


# Relative gaps at which a decomposition is worth its directions only, and at which it suffices.
_WIDE_GAP, _NARROW_GAP = 1e-3, 1e-5
# Up to this many components the subspace is found to rounding too, not only the value. A gap of
# rounding leaves weights and subspace uncertain from the seventh digit on, and the same rows
# counted in another order would show it. The error of the subspace is about the product of the
# distances from the weight to the last two at which there are eigenvectors.
_FEW = 32
_SETTLED = 4e-9


def solve_two_groups(
    problem: Problem,
    *,
    tol: float = 1e-10,
    max_iter: int = 200,
    start: FloatArray | None = None,
) -> Solution:
    """Solve the two-group problem; the gap is zero up to rounding, always.

    Parameters
    ----------
    problem : Problem
    tol : float
        Relative gap at which the large-matrix route stops.
    max_iter : int
        Most full-size decompositions.
    start : ndarray of shape (2,), optional
        Weights of a neighbouring problem, for small matrices; large ones are solved in the span
        of both groups' own bases first, which finds better weights for nothing.
    """
    oracle = problem.oracle
    first = None if start is None else float(start[0])
    if oracle.in_full(problem.n_components):
        search = NewtonSearch(problem)
        best, reason = search.run(max_iter=max_iter, first=first)
        history = search.history
    else:
        best, reason, history = _solve_in_subspace(problem, tol, max_iter)
    return problem.solution(
        best.basis,
        np.array([best.proof, 1 - best.proof]),
        best.bound,
        stop_reason=reason,
        solver=oracle.driver,
        history=history,
    )


def _solve_in_subspace(
    problem: Problem, tol: float, max_iter: int
) -> tuple[Best, str, list[dict[str, float]]]:
    r, oracle = problem.n_components, problem.oracle
    own = problem.own_pairs()
    vertices = zip(np.eye(2), own, strict=True)
    # The best bound, and the weight of the first group that proves it.
    bound, proof = max((problem.phi(vertex, pairs), vertex[0]) for vertex, pairs in vertices)
    space = Subspace(problem)
    for pairs in own:
        space.widen(pairs.vectors[:, :r])
    # Behind products alone, the last digits of the subspace cost more than they are worth.
    settles = oracle.cheap_products and r <= _FEW
    history: list[dict[str, float]] = []
    slopes: list[tuple[float, float]] = []
    t: float | None = None
    # Where eigenvectors were taken.
    visited = [0.0, 1.0]
    while True:
        inner = NewtonSearch(space.problem(holds_own=True))
        found, _ = inner.run(max_iter=max_iter, first=t)
        t = found.t
        best = replace(found, basis=space.basis @ found.basis, bound=bound, proof=proof)
        closed = problem.certificate(bound, best.value).gap <= tol
        if closed and not settles:
            return _with_weights(best, slopes), "gap closed", history
        if closed and abs(t - visited[-1]) * abs(t - visited[-2]) <= _SETTLED:
            # Nearer to the optimum than where the bound was computed: to rounding as good a proof.
            return replace(best, proof=found.proof), "gap closed", history
        if oracle.n_eigen >= max_iter:
            return best, "gap closed" if closed else "max_iter reached", history
        weights = np.array([best.t, 1 - best.t])
        # While the gap is wide a decomposition serves for its directions only.
        first = not history and space.width < oracle.n_features
        rough = first and problem.certificate(bound, best.value).gap > _WIDE_GAP
        pairs = oracle.leading(weights, r, start=best.basis, rough=rough)
        visited.append(best.t)
        if not rough:
            phi = problem.phi(weights, pairs)
            # Within rounding the later weight is the better one, and as good a proof.
            if phi >= bound - problem.resolution:
                bound, proof = phi, best.t
        best = replace(best, bound=bound, proof=proof)
        history.append({"t": best.t, "value": best.value, "bound": bound, "width": space.width})
        gap = problem.certificate(bound, best.value).gap
        columns = pairs.vectors[:, :r]
        # The answer lies between the basis found and the eigenvectors just computed: one more
        # solve in their span, much narrower than all that was seen, squares the error of both.
        narrow = not settles and not rough and gap <= _NARROW_GAP
        near = space.within(found.basis) if narrow else space
        grown = near.widen(columns)
        if not settles and oracle.cheap_products:
            slopes.append((t, _slope(near.problem(), near.basis.T @ columns)))
        if narrow:
            best = _between(problem, best, near)
            if problem.certificate(bound, best.value).gap <= tol:
                return _with_weights(best, slopes), "gap closed", history
            grown = space.widen(columns)
        if not grown and not rough:
            reason = "gap closed" if gap <= tol else "no new direction at working precision"
            return best, reason, history


def _between(problem: Problem, best: Best, space: Subspace) -> Best:
    """Return the optimum in `space`, unless it is no better."""
    found, _ = NewtonSearch(space.problem()).run(max_iter=50, first=best.t)
    if found.value > best.value + problem.resolution:
        return best
    return replace(
        best, basis=space.basis @ found.basis, value=found.value, spread=found.spread, t=found.t
    )


def _with_weights(best: Best, slopes: list[tuple[float, float]]) -> Best:
    """Return the optimum with weights closer to it than those of the last decomposition.

    Where the slope vanishes, by a secant; they are no worse a proof of the bound.
    """
    if len(slopes) < 2:
        return best
    return replace(best, proof=_secant(slopes[-2], slopes[-1], best.proof))


def _slope(problem: Problem, basis: FloatArray) -> float:
    losses = problem.losses(basis)
    return float(losses[0] - losses[1])


def _secant(one: tuple[float, float], other: tuple[float, float], otherwise: float) -> float:
    """Return where the line through two (weight, slope) pairs vanishes, if between 0 and 1."""
    rise = other[1] - one[1]
    t = other[0] - other[1] * (other[0] - one[0]) / rise if rise else otherwise
    return t if 0 < t < 1 else otherwise
