"""The root of phi'(t) = f_1 - f_2 on [0, 1]: bracketed Newton with full decompositions.

One decomposition gives phi, its slope and its curvature, and how the basis turns with the weight:
the last step, too short to raise the bound, turns the basis and needs no decomposition. Where
eigenvalues tie at the optimum the slope jumps over zero; a basis between the neighbours then has
equal losses (`solve.recovery`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fairpca.arrays import FloatArray, symmetric, turned
from fairpca.solve.eigen import DenseOracle, full_pairs
from fairpca.solve.oracle import EigenPairs
from fairpca.solve.problem import Problem
from fairpca.solve.recovery import geodesic_candidate, swap_candidates

# Newton is cheap enough to be driven to rounding; this is where it may stop before.
_CLOSED = 1e-14


@dataclass(frozen=True)
class _Point:
    """phi at one weight t of the first group.

    `turns` are the first derivatives of the basis in the other eigenvectors, shape (n - r, r);
    unknown at the ends.
    """

    t: float
    value: float
    slope: float
    curvature: float
    basis: FloatArray
    pairs: EigenPairs
    turns: FloatArray | None = None


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
        assert isinstance(problem.oracle, DenseOracle)
        self.problem = problem
        self.oracle = problem.oracle
        self.r = problem.n_components
        self.difference = self.oracle.covariances[0] - self.oracle.covariances[1]
        self.delta = float(problem.offsets[0] - problem.offsets[1])
        self.resolution = problem.resolution
        self.best: Best | None = None
        self.bound, self.proof = -np.inf, 0.5
        self.history: list[dict[str, float]] = []

    def run(
        self, own: tuple[EigenPairs, ...] | None, *, max_iter: int, first: float | None = None
    ) -> tuple[Best, str]:
        """Search between the two groups' own bases; return the best basis and why it stopped.

        `first` is a weight near the answer.
        """
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
            t = _next(point, last if falling else None, low, high, abs(same_side), falling)
            last = point
            if not low.t < t < high.t:
                self._recover(point, low, high)
                reason = "bracket at working precision"
                break
            if self._arrives(point, t):
                reason = "losses equal to rounding"
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
        other = self.oracle.covariances[1 if t == 1 else 0]
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
        turns = coupling / gaps
        curvature = -2 * float(np.vdot(coupling, turns))
        self.history.append({"t": t, "phi": value, "slope": slope})
        return _Point(t, value, slope, curvature, basis, pairs, turns)

    def _arrives(self, point: _Point, t: float) -> bool:
        """Whether the basis, turned by the step to `t`, closes the gap to rounding.

        On the step phi rises by half the slope times the step; turned to first order, the losses
        still differ by about the slope times the turn. Both have to be below rounding.
        """
        step = t - point.t
        if point.turns is None or abs(point.slope * step) > self.resolution:
            return False
        turn = step * point.turns
        if abs(point.slope) * float(np.abs(turn).max(initial=0.0)) > self.resolution:
            return False
        basis = turned(point.basis, point.pairs.vectors[:, self.r :], turn)
        self._consider(basis, t, *self.problem.losses(basis).tolist())
        if self._closed():
            self.proof = t
            return True
        return False

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


def _next(
    point: _Point, last: _Point | None, low: _Point, high: _Point, same_side: int, falling: bool
) -> float:
    """Return the next weight, strictly inside the bracket unless the bracket is exhausted."""
    if high.t - low.t <= 4 * np.finfo(float).eps:
        return high.t
    # Newton as long as it halves the slope; past a kink it would jump back and forth.
    if falling and point.curvature < 0:
        newton = point.t - point.slope / point.curvature
        closer = None if last is None else _inverse_cubic(last, point)
        if closer is not None and low.t < closer < high.t:
            return closer
        if low.t < newton < high.t:
            return float(newton)
    t = _tangent_intersection(low, high)
    if same_side >= 2:
        # The same end moved twice: step past the estimate so that the stale end moves too.
        t += t - point.t
    return t if low.t < t < high.t and same_side < 4 else 0.5 * (low.t + high.t)


def _inverse_cubic(last: _Point, point: _Point) -> float | None:
    """Return the root of the cubic t(slope) through two points with their derivatives.

    One order more than Newton for nothing: both points and both second derivatives are known.
    None where the two do not look like one smooth falling slope.
    """
    run = last.slope - point.slope
    if last.curvature >= 0 or run == 0:
        return None
    secant = (last.t - point.t) / run
    ahead, behind = 1 / point.curvature, 1 / last.curvature
    # On a smooth slope the three inverse derivatives are of one size.
    if not 0.5 < secant / ahead < 2 or not 0.5 < secant / behind < 2:
        return None
    s = -point.slope
    first = (secant - ahead) / run
    second = (behind - 2 * secant + ahead) / run**2
    return float(point.t + s * (ahead + s * (first + second * (s - run))))
