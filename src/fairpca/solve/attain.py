"""A basis for a solved dual: exact where the tie allows it, by descent where it does not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fairpca.arrays import FloatArray, orthonormal, subspace_distance
from fairpca.solve.dual import Dual
from fairpca.solve.dual_point import Relaxed
from fairpca.solve.polish import held_vectors
from fairpca.solve.problem import Problem
from fairpca.solve.refine import refine
from fairpca.solve.rounding import exact_candidates

# One component, or few features, is where poor local optima are common: there more starts are
# tried, and more of them have to agree. (Of 228 random problems with a gap, 30 more random starts
# improved one, by 2 %; with three agreeing starts as the rule, one in thirty was missed.)
_FEW_FEATURES = 10
# Groups whose own basis is a start.
_OWN_STARTS = 12
_CLOSED = "gap closed"


@dataclass(frozen=True)
class Attained:
    """A basis, the weights at which it is stationary, and how it was found."""

    basis: FloatArray
    weights: FloatArray
    gap_closed: bool
    reason: str


def attain(dual: Dual, tol: float, random_state: int) -> Attained:
    """Return the best basis the solved dual leads to.

    Parameters
    ----------
    dual : Dual
    tol : float
        Relative gap that counts as closed.
    random_state : int
        Seed of the random starts.
    """
    assert dual.best is not None
    assert dual.relaxed is not None
    problem, r, relaxed, weights = dual.problem, dual.r, dual.relaxed, dual.best.weights
    # Where nothing is tied, the losses of the leading eigenvectors are known, and mostly enough.
    known = relaxed.cluster is dual.simple and dual.extra is None
    if known and problem.certificate(dual.bound, relaxed.value).gap <= dual.target:
        return Attained(relaxed.point.pairs.vectors[:, :r], weights, True, _CLOSED)

    def worst(basis: FloatArray) -> float:
        return float(problem.losses(basis).max())

    def gap(basis: FloatArray) -> float:
        return problem.certificate(dual.bound, worst(basis)).gap

    basis = min((point.pairs.vectors[:, :r] for point in (relaxed.point, dual.best)), key=worst)
    if gap(basis) <= dual.target:
        return Attained(basis, weights, True, _CLOSED)
    exact = exact_candidates(relaxed, r, problem.oracle.scale)
    basis = min([basis, *exact], key=worst)
    if gap(basis) <= dual.target:
        return Attained(basis, weights, True, "gap closed inside the tied eigenspace")
    hard = r == 1 or problem.oracle.n_features <= _FEW_FEATURES
    found = refine(
        problem,
        _distinct(_starts(relaxed, basis, problem, hard, random_state)),
        weights,
        good_enough=dual.bound + tol * dual.reference,
        agreements=4 if hard else 3,
        at_least=10 if hard else 5,
    )
    if found.value < worst(basis):
        basis, weights = found.basis, found.weights
    if gap(basis) <= tol:
        return Attained(basis, weights, True, "gap closed by descent")
    return Attained(basis, weights, False, "eigenvalue tied at the optimal weights, a gap remains")


def _starts(
    relaxed: Relaxed, basis: FloatArray, problem: Problem, hard: bool, random_state: int
) -> Iterator[FloatArray]:
    """Yield bases to descend from: the best known, P's own, the groups' own, random ones."""
    n, r = basis.shape
    held, fixed = relaxed.cluster, relaxed.point.pairs.vectors[:, : relaxed.cluster.first]
    tied, d = held_vectors(relaxed), r - relaxed.cluster.first
    order = np.argsort(-held.occupation, kind="stable")
    yield np.hstack([fixed, tied[:, order[:d]]])
    yield basis
    rng = np.random.default_rng(random_state)
    if hard:
        # The groups that bind the most know the most; hundreds of starts would only take time.
        for i in np.argsort(-relaxed.point.weights, kind="stable")[:_OWN_STARTS]:
            if problem.own:
                yield problem.own[i].vectors[:, :r]
    root = tied * np.sqrt(held.occupation)
    for turn in range(32 if hard else 10):
        if d and turn % 4 < 3:
            # In distribution P itself: directions drawn with their occupation as variance.
            yield orthonormal(np.hstack([fixed, root @ rng.standard_normal((tied.shape[1], d))]))
        else:
            yield orthonormal(rng.standard_normal((n, r)))


def _distinct(starts: Iterator[FloatArray]) -> Iterator[FloatArray]:
    """Drop repeated starts: two equal ones agreeing would prove nothing."""
    seen: list[FloatArray] = []
    for start in starts:
        if all(subspace_distance(start, other) > 1e-6 for other in seen):
            seen.append(start)
            yield start
