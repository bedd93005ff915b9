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

from dataclasses import replace

import numpy as np

from fairpca.arrays import FloatArray
from fairpca.solve.compression import Compression, own_inside
from fairpca.solve.eigen import DenseOracle
from fairpca.solve.equal_losses import Best, NewtonSearch
from fairpca.solve.problem import Problem
from fairpca.solve.solution import Solution

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
    if isinstance(oracle, DenseOracle) and oracle.decomposes_in_full(problem.n_components):
        search = NewtonSearch(problem)
        best, reason = search.run(problem.own, max_iter=max_iter, first=first)
        name, history = "dense", search.history
    else:
        best, reason, history = _solve_in_subspace(problem, tol, max_iter)
        name = getattr(oracle, "resolved", "krylov")
    return problem.solution(
        best.basis,
        np.array([best.proof, 1 - best.proof]),
        best.bound,
        stop_reason=reason,
        solver=name,
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
    space = Compression(problem)
    for pairs in own:
        space.widen(pairs.vectors[:, :r])
    # Behind products alone, the last digits of the subspace cost more than they are worth.
    settles = isinstance(oracle, DenseOracle) and r <= _FEW
    history: list[dict[str, float]] = []
    slopes: list[tuple[float, float]] = []
    t: float | None = None
    # Where eigenvectors were taken.
    visited = [0.0, 1.0]
    while True:
        inner = NewtonSearch(space.problem())
        found, _ = inner.run(own_inside(problem, space), max_iter=max_iter, first=t)
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
        if not settles and isinstance(oracle, DenseOracle):
            slopes.append((t, _slope(near.problem(), near.basis.T @ columns)))
        if narrow:
            best = _between(problem, best, near)
            if problem.certificate(bound, best.value).gap <= tol:
                return _with_weights(best, slopes), "gap closed", history
            grown = space.widen(columns)
        if not grown and not rough:
            reason = "gap closed" if gap <= tol else "no new direction at working precision"
            return best, reason, history


def _between(problem: Problem, best: Best, space: Compression) -> Best:
    """Return the optimum in `space`, unless it is no better."""
    found, _ = NewtonSearch(space.problem()).run(None, max_iter=50, first=best.t)
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
