"""Two groups: the root of phi'(t) = f_1 - f_2 on [0, 1], with the certificate as stopping rule.

Searching for the largest *value* of phi, as the paper prints it, stops near the square root of
machine precision in t and leaves the two losses different in the seventh digit. The derivative is
the loss difference itself, costs nothing extra, and its root is found to rounding. With
E = S_1 - S_2, delta = offsets[0] - offsets[1] and eigenpairs (lambda_a, v_a) of A(t),

    phi'(t) = delta - sum_{b <= r} v_b . E v_b
    phi''(t) = -2 sum_{b <= r < a} (v_a . E v_b)^2 / (lambda_b - lambda_a)
    phi'''(t) = -6 (Tr(R.T E_out R) - Tr(R E_in R.T))

with R_ab = v_a . E v_b / (lambda_b - lambda_a), and E_in and E_out for E in the leading and in the
other eigenvectors.

Two routes share the root finder. Small matrices are decomposed in full, which gives the second and
the third derivative for nothing, hence Halley's method, which takes a fifth fewer decompositions
than Newton's. Large ones (or operators) are solved inside the span of the eigenvectors seen so
far, where equal losses hold exactly; one partial decomposition at the optimum found there gives
the lower bound and the next directions. Its gap closes quadratically.

Where lambda_r is tied at the optimal t, the eigensolver returns some basis of the tied eigenspace,
not the one with equal losses. `geodesic_candidate` moves to it from bases on either side, without
ever losing rank and without knowing which eigenvalues are tied. (The paper interpolates
``orth(t V_M + (1 - t) V_m)``, which loses rank when the two ends share directions and are listed
in opposite order.)

Neighbouring ranks have neighbouring weights, so `RankPath` solves one after another in a subspace
that all of them share. Its bounds are those of the large matrices, from Ritz values raised by what
residuals allow; only where these leave a gap are the matrices themselves decomposed.

Read `RootSearch.run` first, then `_LargeSearch.run`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.optimize import brentq

from fairpca._arrays import FloatArray, fetched, orthonormal, rounding_level, symmetric
from fairpca.covariances.dense import ProjectedBasis, derivatives, full_pairs
from fairpca.covariances.oracle import EigenPairs, Oracle
from fairpca.solvers.problem import Problem
from fairpca.solvers.solution import Solution

# The root finder is cheap enough to be driven to rounding; this is where it may stop before.
_CLOSED = 1e-14
# Steps of t below this leave it as it is. A basis between two others equalises the losses after
# longer ones too, but off the right one by a thousand times the step (at 1e-9, by 2e-6 in a table
# of 400 columns).
_SHORTEST = 1e-15
# Steps that turn eigenvectors by up to this are short: the next one is smaller by orders of
# magnitude. A step of t alone says nothing near a tie, where they turn fast.
_SHORT = 1e-2
# After steps that turn them by up to this no decomposition is needed for the basis: what a
# second-order step leaves out is the cube of this.
_TINY = 1e-5


@dataclass(frozen=True)
class _Point:
    """phi at one weight t of the first group, with its derivatives and eigenpairs.

    Attributes
    ----------
    t, value : float
        The weight and phi there.
    slope : float
        phi'(t), the first group's loss minus the second's.
    curvature, bend : float
        phi''(t), never positive, and phi'''(t); 0 at the ends of the interval, where they are not
        computed.
    basis : ndarray of shape (n, r)
        The r leading eigenvectors.
    pairs : EigenPairs
    turn : pair of arrays or None
        How the leading eigenvectors turn with t, to second order; see `derivatives`.
    """

    t: float
    value: float
    slope: float
    curvature: float
    bend: float
    basis: FloatArray
    pairs: EigenPairs
    turn: Any = None


@dataclass(frozen=True)
class Best:
    """The best basis (met at weight `t`) and the best bound (phi at weight `proof`) so far.

    Attributes
    ----------
    basis : ndarray of shape (n, r)
    value : float
        Its worst loss.
    spread : float
        The distance between its two losses.
    t : float
        The weight of the first group at which it was met.
    bound, proof : float
        The largest phi, and the weight of the first group at which phi has it.
    near : EigenPairs
        The pairs that the bound was computed from.
    """

    basis: FloatArray
    value: float
    spread: float
    t: float
    bound: float
    proof: float
    near: EigenPairs


class RootSearch:
    """Halley's method on phi', in a bracket, with full decompositions.

    phi is concave, so its slope falls on [0, 1] and its root always has a bracket. The method
    converges cubically where lambda_r is simple. Where it is tied phi' jumps, and the tangents
    of both sides find the kink.

    Parameters
    ----------
    problem : Problem
        Of two groups, with matrices small enough to be decomposed in full.

    Attributes
    ----------
    difference : array of shape (n, n)
        ``S_1 - S_2``, where the oracle's eigenvectors are.
    delta : float
        ``offsets[0] - offsets[1]``.
    best : Best or None
        The basis with the smallest worst loss so far.
    bound, proof, near : float, float, EigenPairs or None
        The largest phi so far, with its weight and pairs.
    turning : float
        How far a unit of weight turns the leading eigenvectors (a tangent, to first order), at the
        last weight inside the interval; where they tie, a large number.
    left_at : float or None
        The weight that would have been next where the search was left early.
    history : list of dict
        One entry for every full decomposition inside the interval.
    """

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.oracle = problem.oracle
        self.r = problem.n_components
        self.difference = self.oracle.combine(np.array([1.0, -1.0]))
        self.delta = float(problem.offsets[0] - problem.offsets[1])
        self.resolution = problem.resolution
        self.best: Best | None = None
        self.bound, self.proof = -np.inf, 0.5
        self.near: EigenPairs | None = None
        self.turning = 0.0
        self.left_at: float | None = None
        self.history: list[dict[str, float]] = []

    def run(
        self,
        *,
        max_iter: int,
        first: float | None = None,
        leave: Callable[[float], bool] | None = None,
    ) -> tuple[Best, str]:
        """Search between the two groups' own bases; return the best basis and why it stopped.

        Parameters
        ----------
        max_iter : int
            Most decompositions inside the interval.
        first : float, optional
            A weight near the answer, to start from.
        leave : callable, optional
            Asked with the next weight once steps are short. Where it says so, the search ends
            there, one decomposition before it knows that it has arrived.

        Returns
        -------
        best : Best
        reason : str
            Why the search stopped, in words.
        """
        low, high = self._end(0.0), self._end(1.0)
        # Where one group's own optimum already serves the other better, there is nothing to trade.
        if low.slope <= 0 or high.slope >= 0:
            return self._result(), "one group binds alone"
        same_side, last = 0, np.inf
        t = first if first is not None and 0 < first < 1 else _tangent_intersection(low, high)
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
                self._recover(point.t, low, high)
                if self._closed():
                    reason = "losses equalised between neighbours, gap closed"
                    break
            falling, last = abs(point.slope) <= 0.5 * last, abs(point.slope)
            t = _next(point, low, high, abs(same_side), falling)
            if not low.t < t < high.t:
                self._recover(point.t, low, high)
                reason = "bracket at working precision"
                break
            turned = max(self.turning, 1.0) * abs(t - point.t)
            known = turned <= _TINY and abs(point.slope * (t - point.t)) <= self.resolution
            if known and abs(self._follow(point, t)) <= self.resolution:
                reason = "losses equal to rounding"
                break
            if leave is not None and turned <= _SHORT and leave(t):
                self.left_at = t
                reason = "left early"
                break
        return self._result(), reason

    def _end(self, t: float) -> _Point:
        """Return the point at an end of the interval, where one group has all the weight."""
        weights, own = np.array([t, 1 - t]), self.problem.own
        pairs = self.oracle.full(weights) if own is None else own[0 if t == 1 else 1]
        basis = self._served(t, pairs) if own is None else pairs.columns[:, : self.r]
        value = self.problem.phi(weights, pairs)
        self._raise_bound(value, t, pairs)
        slope = self._consider(basis, t, *self.problem.losses(basis).tolist())
        return _Point(t, value, slope, 0.0, 0.0, basis, pairs)

    def _served(self, t: float, pairs: EigenPairs) -> FloatArray:
        """Return one group's own basis, with its ties resolved in favour of the other group.

        Only criteria whose optimum may lie at an end need it: with "loss" both groups bind.
        """
        # Relative to this group: beside a much larger one all of its eigenvalues would seem tied.
        width = rounding_level(float(np.abs(pairs.values).max()), len(pairs.values))
        near = np.abs(pairs.values - pairs.values[self.r - 1]) <= width
        first, last = int(np.argmax(near)), len(near) - int(np.argmax(near[::-1]))
        cluster = pairs.vectors[:, first:last]
        other = self.oracle.matrices[1 if t == 1 else 0]
        best = full_pairs(symmetric(cluster.T @ other @ cluster)).vectors
        return np.hstack([pairs.vectors[:, :first], cluster @ best])[:, : self.r]

    def _evaluate(self, t: float) -> _Point:
        """Decompose at weight `t`; keep its bound and its basis if they are the best so far.

        Returns the point with all derivatives, from one product with the difference.
        """
        weights = np.array([t, 1 - t])
        pairs = self.oracle.full(weights)
        basis = pairs.columns[:, : self.r]
        value = self.problem.phi(weights, pairs)
        self._raise_bound(value, t, pairs)
        first, second, third, self.turning, turn = derivatives(
            self.difference, pairs.columns, pairs.values, self.r
        )
        slope = self.delta - first
        self._consider(basis, t, value + (1 - t) * slope, value - t * slope)
        self.history.append({"t": t, "phi": value, "slope": slope})
        return _Point(t, value, slope, -second, -third, basis, pairs, turn)

    def _follow(self, point: _Point, t: float) -> float:
        """Consider the basis at a weight so near that a second-order step reaches it.

        Returns its loss difference. The bound of the point is that of `t` to rounding.
        """
        step, others = t - point.t, point.pairs.columns[:, self.r :]
        turn = step * point.turn[0] + step**2 * point.turn[1]
        basis = orthonormal(point.basis + others @ turn)
        return self._consider(basis, t, *self.problem.losses(basis).tolist())

    def _raise_bound(self, value: float, t: float, pairs: EigenPairs) -> None:
        # Among weights equal to rounding the later ones are nearer to the optimum.
        if value >= self.bound - self.resolution:
            self.proof, self.near = t, pairs
        self.bound = max(self.bound, value)

    def _consider(self, basis: FloatArray, t: float, *losses: float) -> float:
        """Keep `basis` if it has the smallest worst loss so far; return its loss difference."""
        value, slope = max(losses), losses[0] - losses[1]
        if self.best is None or value < self.best.value:
            assert self.near is not None
            self.best = Best(basis, value, abs(slope), t, self.bound, self.proof, self.near)
        return slope

    def _nearly_tied(self, point: _Point, low: _Point, high: _Point) -> bool:
        """Whether lambda_r is so nearly tied, or the bracket so narrow, that t no longer helps.

        The basis that equalises the losses then has to be built from the eigenvectors at hand.
        """
        values = point.pairs.values
        tie = values[self.r - 1] - values[self.r] <= 1e-7 * self.oracle.scale
        # The next step is one that t can hardly resolve, yet the losses still differ.
        stiff = point.curvature < 0 and abs(point.slope) <= _SHORTEST * abs(point.curvature)
        return bool(tie or stiff or high.t - low.t <= _SHORTEST)

    def _recover(self, t: float, low: _Point, high: _Point) -> None:
        """Consider the basis with equal losses between the bracket's ends.

        It is only a candidate: it replaces the best basis if its worst loss is smaller.
        """
        ends = fetched(low.basis), fetched(high.basis)
        on_the_way = geodesic_candidate(*ends, fetched(self.difference), self.delta)
        if on_the_way is not None:
            self._consider(on_the_way, t, *self.problem.losses(on_the_way).tolist())

    def _closed(self) -> bool:
        assert self.best is not None
        limit = max(_CLOSED * abs(self.best.value), self.resolution)
        return self.best.value - self.bound <= limit and self.best.spread <= limit

    def _result(self) -> Best:
        assert self.best is not None
        assert self.near is not None
        return replace(self.best, bound=self.bound, proof=self.proof, near=self.near)


def _tangent_intersection(low: _Point, high: _Point) -> float:
    """Where the tangents at both ends meet: exact at a kink between two linear branches."""
    rise = high.value - low.value + low.slope * low.t - high.slope * high.t
    t = rise / (low.slope - high.slope)
    # Slopes of pure rounding cross anywhere; the middle is as good as any weight then.
    return t if low.t < t < high.t else 0.5 * (low.t + high.t)


def _next(point: _Point, low: _Point, high: _Point, same_side: int, falling: bool) -> float:
    """Return the next weight, strictly inside the bracket unless the bracket is exhausted.

    Parameters
    ----------
    point : _Point
        The last one evaluated; it is one end of the bracket.
    low, high : _Point
        The bracket: positive slope at `low`, negative at `high`.
    same_side : int
        How many times in a row the same end of the bracket moved.
    falling : bool
        Whether the last step at least halved the slope.
    """
    if high.t - low.t <= 4 * np.finfo(float).eps:
        return high.t
    # Halley's step as long as it halves the slope; past a kink it would jump back and forth.
    if falling and point.curvature < 0:
        newton = -point.slope / point.curvature
        change = -0.5 * newton * point.bend / point.curvature
        t = point.t + (newton / (1 - change) if abs(change) < 0.5 else newton)
        if low.t < t < high.t:
            return t
    t = _tangent_intersection(low, high)
    if same_side >= 2:
        # The same end moved twice: step past the estimate so that the stale end moves too.
        t += t - point.t
    return t if low.t < t < high.t and same_side < 4 else 0.5 * (low.t + high.t)


# Relative gap above which the first decomposition is worth its directions only.
_WIDE_GAP = 1e-3
# The subspace is found to about this angle too, not only the value: a gap of rounding leaves it
# uncertain from the fifth digit on, and the same rows counted in another order would show it. The
# angle is estimated, and the true one is mostly ten times smaller or less (faces, 50 components:
# 4e-8 estimated, 3e-10 true). With 1e-8 faces take a decomposition more.
_SETTLED = 1e-7
# Decompositions inside the subspace that one search may take; they are not of full size.
_MOST_INSIDE = 200
# Where the groups' own bases span less than this share of the columns, a search inside that span
# comes first: it finds the side of a crossing of eigenvalues for a few small decompositions.
_NARROW = 0.4
# Eigenpairs past r that a decomposition of explicit matrices returns: the certificate needs them
# to separate the leading ones from the rest.
_SPARE = 6


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

    Returns
    -------
    Solution
        Its two losses are equal, unless one group is worse off than the other even under its own
        optimal basis and binds alone, or `max_iter` was too small.
    """
    oracle = problem.oracle
    if oracle.in_full(problem.n_components):
        search = RootSearch(problem)
        first, own = None if start is None else float(start[0]), problem.own
        if first is None and own and 2 * own[0].columns.shape[1] <= _NARROW * oracle.n_features:
            first = _first_inside(problem, own)
        best, reason = search.run(max_iter=max_iter, first=first)
        weight, history = best.proof, search.history
    else:
        large = _LargeSearch(problem, tol)
        best, reason = large.run(max_iter)
        # Nearer to the optimum than where eigenvectors were last taken.
        weight, history = best.t, large.history
    return problem.solution(
        best.basis,
        np.array([weight, 1 - weight]),
        best.near,
        stop_reason=reason,
        solver=oracle.driver,
        history=history,
        proof=np.array([best.proof, 1 - best.proof]),
    )


def _first_inside(problem: Problem, own: tuple[EigenPairs, ...]) -> float:
    """Return the best weight in the span of both groups' own bases, roughly."""
    space = ProjectedBasis(problem.oracle, here=False)
    for pairs in own:
        space.widen(pairs.columns)
    inner = RootSearch(problem.restricted(space, holds_own=True))
    found, _ = inner.run(max_iter=_MOST_INSIDE, leave=lambda t: True)
    return inner.left_at or found.proof


class _LargeSearch:
    """Two large groups: the optimum inside a growing subspace, bounds from the large matrices.

    Attributes
    ----------
    space : ProjectedBasis
        The span of all eigenvectors seen; both groups' own bases at first.
    bound, proof, near : float, float, EigenPairs
        The largest phi of the large matrices, with its weight and pairs.
    spare : int
        Pairs past r that the next decomposition returns.
    """

    def __init__(self, problem: Problem, tol: float) -> None:
        self.problem, self.tol = problem, tol
        self.r, self.oracle = problem.n_components, problem.oracle
        own = problem.own_pairs()
        ends = zip(np.eye(2), own, strict=True)
        # The best bound, the weight of the first group that proves it, and its eigenpairs.
        self.bound, self.proof, self.near = max(
            ((problem.phi(end, pairs), float(end[0]), pairs) for end, pairs in ends),
            key=lambda known: known[0],
        )
        # What is as long as the matrices stays where they are.
        self.space = ProjectedBasis(self.oracle, here=False)
        for pairs in own:
            self.space.widen(pairs.columns[:, : self.r])
        self.spare = _SPARE if self.oracle.cheap_products else 0
        self.history: list[dict[str, float]] = []

    def run(self, max_iter: int) -> tuple[Best, str]:
        """Return the best basis, with the bound's weight and pairs, and why the search stopped.

        Each round solves the problem inside the subspace by `RootSearch`, decomposes the large
        matrices once at the weight found there, and widens the subspace by the eigenvectors.

        Parameters
        ----------
        max_iter : int
            Most decompositions of the large matrices.
        """
        # Decompositions of the groups' own matrices are not counted.
        max_iter += self.oracle.n_eigen
        t: float | None = None
        visited, growing = [0.0, 1.0], True
        while True:
            inner = RootSearch(self.problem.restricted(self.space, holds_own=True))

            def unsettled(t: float, inner: RootSearch = inner) -> bool:
                # Eigenvectors are known at the last two weights. As in any interpolation, the
                # error of what lies between them is the product of both distances, times how fast
                # they turn, squared. Behind products alone, the last digits of the subspace cost
                # more than they are worth.
                off = inner.turning**2 * abs(t - visited[-1]) * abs(t - visited[-2])
                return off > _SETTLED and self.oracle.cheap_products

            # A subspace that has to be widened anyway is not searched to the last digit.
            early = unsettled if growing and self.oracle.n_eigen < max_iter else None
            found, _ = inner.run(max_iter=_MOST_INSIDE, first=t, leave=early)
            # Where several bases tie, the best one was met at another weight than the bound; the
            # next decomposition belongs to the bound.
            t = found.proof if inner.left_at is None else inner.left_at
            best = replace(found, basis=self.space.lifted(found.basis), t=t)
            closed = inner.left_at is None and self._gap(best.value) <= self.tol
            if closed and not unsettled(t):
                return self._proven(best), "gap closed"
            if self.oracle.n_eigen >= max_iter:
                reason = "gap closed" if closed else "max_iter reached"
                return self._proven(best), reason
            # While the gap is wide a decomposition serves for its directions only, unless it is
            # the last one: then the bound has to come from it.
            rough = len(visited) == 2 and self._gap(found.bound) > _WIDE_GAP
            rough &= self.oracle.n_eigen + 1 < max_iter
            rough &= self.space.width < self.oracle.n_features
            pairs = self._decompose(best, rough)
            visited.append(t)
            growing = self._widen(pairs) or rough
            if not growing and inner.left_at is None:
                reason = "no new direction at working precision"
                return self._proven(best), "gap closed" if closed else reason

    def _gap(self, value: float) -> float:
        return self.problem.certificate(self.bound, value).gap

    def _decompose(self, best: Best, rough: bool) -> EigenPairs:
        """Decompose at the weight of `best` and keep the bound if it is the largest.

        Rough pairs are cheaper and serve for directions only; no bound is taken from them.
        """
        weights = np.array([best.t, 1 - best.t])
        width = min(self.r + self.spare, self.oracle.n_features)
        pairs = self.oracle.leading(weights, width, start=best.basis, rough=rough)
        if not rough:
            phi = self.problem.phi(weights, pairs)
            # Within rounding the later weight is the better one, and as good a proof.
            if phi >= self.bound - self.problem.resolution:
                self.bound, self.proof, self.near = phi, best.t, pairs
        self.history.append(
            {"t": best.t, "value": best.value, "bound": self.bound, "width": self.space.width}
        )
        return pairs

    def _widen(self, pairs: EigenPairs) -> bool:
        """Add the eigenvectors to the subspace, with all that are tied to the r-th.

        Returns whether that added anything. If not, twice as many are asked for next time: a tie
        may be longer than what was looked at.
        """
        values = pairs.values
        tie = values > values[self.r - 1] - 1e-9 * self.oracle.scale
        used = max(self.r, int(np.count_nonzero(tie)))
        if self.space.widen(pairs.columns[:, :used]):
            return True
        if self.r + self.spare >= self.oracle.n_features or used < len(values):
            return False
        self.spare = 2 * self.spare + _SPARE
        return True

    def _proven(self, best: Best) -> Best:
        """Return the basis with the bound, its weight and its eigenpairs."""
        return replace(best, bound=self.bound, proof=self.proof, near=self.near)


def geodesic_candidate(
    start: FloatArray, end: FloatArray, difference: FloatArray, delta: float
) -> FloatArray | None:
    """Return the basis with equal losses on the way from `start` (g >= 0) to `end` (g <= 0).

    One principal pair is rotated at a time, largest angle first. Along such a leg g is a constant
    plus a cosine and a sine of twice the angle, so its root is cheap to find. No cluster has to be
    guessed, which makes this the right tool for nearly tied eigenvalues.

    Parameters
    ----------
    start, end : ndarray of shape (n, r)
        Orthonormal.
    difference : ndarray of shape (n, n)
        ``S_1 - S_2``.
    delta : float
        ``offsets[0] - offsets[1]``.

    Returns
    -------
    ndarray of shape (n, r) or None
        None if g does not change sign on the way.
    """
    y, _, zt = np.linalg.svd(start.T @ end)
    source, target = start @ y, end @ zt.T
    cosines = np.sum(source * target, axis=0)
    residual = target - source * cosines
    # Angles from the residual: arccos of a cosine near 1 has lost half its digits.
    sines = np.linalg.norm(residual, axis=0)
    angles = np.arctan2(sines, cosines)
    normal = residual / np.where(sines > 0, sines, 1.0)

    image_source, image_normal = difference @ source, difference @ normal
    p = np.sum(source * image_source, axis=0)
    q = np.sum(source * image_normal, axis=0)
    s = np.sum(normal * image_normal, axis=0)

    value = delta - float(p.sum())
    basis = source.copy()
    for j in np.argsort(-angles, kind="stable"):
        half = 0.5 * (p[j] - s[j])

        def left(x: float, value: float = value, half: float = half, q: float = q[j]) -> float:
            """Return g after a rotation by x, without cancellation where x is small."""
            return value - float(2 * np.sin(x) * (q * np.cos(x) - half * np.sin(x)))

        after = left(angles[j])
        if value >= 0 >= after or value <= 0 <= after:
            x = brentq(left, 0.0, angles[j], xtol=1e-18, maxiter=200)
            basis[:, j] = np.cos(x) * source[:, j] + np.sin(x) * normal[:, j]
            return np.asarray(orthonormal(basis))
        basis[:, j] = target[:, j]
        value = after
    return None


# Columns beside the wanted ones: they show what comes next, which the bound rests on.
_SPARE_RANKS = 10


class RankPath:
    """Solves the ranks of one pair of large matrices.

    Parameters
    ----------
    oracle : Oracle
        Of two matrices.
    own : tuple of EigenPairs
        Their leading pairs, as many as the largest rank. They begin the shared subspace.
    """

    def __init__(self, oracle: Oracle, own: tuple[EigenPairs, ...]) -> None:
        self.oracle = oracle
        self._space = ProjectedBasis(oracle)
        self._space.widen(np.hstack([pairs.vectors for pairs in own]))
        self._width = min(own[0].vectors.shape[1] + _SPARE_RANKS, oracle.n_features)

    def solve(
        self, problem: Problem, *, tol: float, max_iter: int, start: FloatArray | None
    ) -> Solution:
        """Solve one rank; arguments as in `solve_two_groups`.

        The problem is solved inside the subspace and certified against the large matrices. These
        are decomposed, and the subspace widened, only while the gap is open.

        Returns
        -------
        Solution
            Of the large problem. Its gap may be open where `max_iter` is reached or a
            decomposition adds no direction.
        """
        while True:
            reduced = problem.restricted(self._space, holds_own=True)
            found = solve_two_groups(reduced, tol=tol, max_iter=max_iter, start=start)
            start = found.weights
            solution = problem.solution(
                self._space.basis @ found.components.T,
                start,
                # Ritz values are never above the eigenvalues, so they are checked before a
                # bound rests on them.
                self._space.ritz(start, problem.n_components + _SPARE_RANKS),
                stop_reason=found.stop_reason,
                solver=self.oracle.driver,
                history=list(found.history),
            )
            if solution.certificate.gap <= tol or self.oracle.n_eigen >= max_iter:
                return solution
            if not self._space.widen(self.oracle.leading(start, self._width).vectors):
                return solution
