"""Minimax descent over subspaces, for the cases in which the dual leaves a gap.

The worst loss is minimised directly over U by sequential quadratic programming on the
Grassmannian (its geometry: Edelman, Arias and Smith 1998). At U, with weights t, the Lagrangian's
Hessian is diagonal in the bases that diagonalise A(t) inside U and inside its complement, so a
step costs two small decompositions and a quadratic problem in as many variables as groups. Steps
are Newton steps on the optimality conditions when those make sense, and steps with the Hessian
made positive otherwise. The problem is not convex: several starts are tried, and only the dual
bound says how good the best is.

`descend` is the method, read it first; `attain` applies it to a solved dual.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg.lapack import dgesv

from fairpca._arrays import (
    FloatArray,
    IntArray,
    complement,
    fetched,
    orthonormal,
    symmetric,
)
from fairpca.solvers.dual import Dual, Relaxed
from fairpca.solvers.problem import Problem
from fairpca.solvers.simplex_qp import maximise_on_simplex
from fairpca.solvers.solution import OPTIMAL_GAP

_MAX_STEPS = 200
_STATIONARY = 1e-14
_AGREE = 1e-9
# Groups that one step looks at. With 2,000 groups a step over all of them takes a hundred times as
# long, and the answer is the same: the number that bind in the end is at most r (n - r) + 1.
_MOST_AT_ONCE = 64
# Longest Newton step, as a tangent, that the second-order model is trusted for.
_TAME = 0.5


@dataclass(frozen=True)
class Refined:
    """A basis, its worst loss, the multipliers, and whether the descent became stationary.

    Attributes
    ----------
    basis : ndarray of shape (n, r)
    value : float
    weights : ndarray of shape (k,)
        Multipliers of the last quadratic problem; positive for the groups that bind.
    stationary : bool
        False where the descent was given up, or ran out of steps.
    """

    basis: FloatArray
    value: float
    weights: FloatArray
    stationary: bool


def descend(
    problem: Problem,
    start: FloatArray,
    weights: FloatArray,
    best: float = np.inf,
    enough: float = 0.0,
) -> Refined:
    """Descend from one basis; give up where the value `best` is clearly out of reach.

    Parameters
    ----------
    problem : Problem
    start : ndarray of shape (n, r)
        Orthonormal.
    weights : ndarray of shape (k,)
        First guess of the multipliers.
    best : float
        The worst loss of the best basis that is already known.
    enough : float
        A step that promises to lower the value by less is not taken.

    Returns
    -------
    Refined
        Its value is never above that of the start.
    """
    basis, losses, damping = start, problem.losses(start), 1.0
    value = float(losses.max())
    for step in range(_MAX_STEPS):
        local = _Local(problem, basis, losses, weights)
        found, move, predicted = local.convex(damping)
        weights = np.zeros_like(losses)
        weights[local.worst] = found
        if predicted <= max(enough, _STATIONARY * max(abs(value), problem.resolution)):
            return Refined(basis, value, weights, True)
        # Far too slow to overtake the best start so far.
        if step >= 10 and value - 30 * predicted > best:
            break
        newton = local.newton(found)
        trial = None if newton is None else local.levelled(*newton)
        if trial is None or trial[1].max() >= value:
            trial = local.levelled(move, np.flatnonzero(found > 0))
            if trial[1].max() > value - 0.1 * predicted:
                damping *= 3.0
                if damping > 1e9:
                    break
                continue
            damping = max(0.5 * damping, 1e-3)
        basis, losses = trial
        value = float(losses.max())
    return Refined(basis, value, weights, False)


class _Local:
    """Losses, first and second derivatives at one basis, of the groups that are worst off there.

    The tangent space is written in bases of U and of its complement that diagonalise A(weights). A
    tangent is a vector of d = r (n - r) numbers.

    Attributes
    ----------
    outside : ndarray of shape (n, n - r)
        The basis of the complement.
    inside : ndarray of shape (r, r)
        The rotation of U.
    worst : ndarray of int of shape (m,)
        The groups that the step looks at; losses, weights and slopes are theirs.
    slopes : ndarray of shape (m, d)
        Minus half the derivative of every loss.
    hessian : ndarray of shape (d,)
        The diagonal of the Lagrangian's Hessian; negative where U is no leading subspace.
    positive : ndarray of shape (d,)
        Its absolute values, none of them near zero.
    """

    def __init__(
        self, problem: Problem, basis: FloatArray, losses: FloatArray, weights: FloatArray
    ) -> None:
        rest = complement(basis)
        combined = fetched(problem.oracle.combine(weights))
        below, turn_out = np.linalg.eigh(symmetric(rest.T @ combined @ rest))
        above, turn_in = np.linalg.eigh(symmetric(basis.T @ combined @ basis))
        # A short step brings no other group among the worst, and where a longer one does, the
        # value at its end is too large and the step is damped.
        matrices, worst = problem.oracle.matrices, np.arange(len(losses))
        most = max(_MOST_AT_ONCE, basis.shape[1] * rest.shape[1] + 1)
        if len(losses) > most:
            worst = np.argsort(-losses, kind="stable")[:most]
            matrices, weights = matrices[worst], weights[worst]
            weights = weights / weights.sum() if weights.sum() > 0 else np.eye(most)[0]
        self.problem, self.basis, self.value = problem, basis, float(losses.max())
        self.worst, self.losses, self.weights = worst, losses[worst], weights
        self.outside, self.inside = rest @ turn_out, turn_in
        # Row i: minus half the derivative of loss i.
        slopes = self.outside.T @ (matrices @ (basis @ turn_in))
        self.slopes = slopes.reshape(len(slopes), -1)
        self.shape = slopes.shape[1:]
        self.hessian = 2.0 * (above - below[:, None]).ravel()
        size = np.abs(self.hessian)
        # Where all curvature vanishes, squared slopes over this must still be numbers.
        self._least = 1e-30 * problem.oracle.scale + 1e-300
        self.positive = np.maximum(size, 1e-3 * float(size.max()) + self._least)

    def at(self, step: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the basis that a tangent step leads to, and the losses there."""
        moved = self.outside @ step.reshape(self.shape) @ self.inside.T
        basis = np.linalg.qr(self.basis + moved)[0]
        return basis, self.problem.losses(basis)

    def convex(self, damping: float) -> tuple[FloatArray, FloatArray, float]:
        """Solve the subproblem with the Hessian made positive.

        By duality it is a concave quadratic in the multipliers alone.

        Returns
        -------
        weights, step, predicted decrease of the worst loss
            The weights are those of the worst groups.
        """
        scaled = self.slopes / (damping * self.positive)
        quadratic = 4.0 * scaled @ self.slopes.T
        losses, sums = self.losses - self.value, np.ones(len(self.worst))
        found = maximise_on_simplex(losses, quadratic, sums, self.weights)
        reached = found @ losses - 0.5 * found @ quadratic @ found
        return found, 2.0 * (found @ scaled), -float(reached)

    def levelled(self, step: FloatArray, index: IntArray) -> tuple[FloatArray, FloatArray]:
        """Return where a step leads, its losses levelled by a second, small step if it went up.

        The losses of the groups `index` curve differently along the step, which the Lagrangian
        cannot see. Without this second-order correction the descent creeps along curved valleys
        (the Maratos effect).
        """
        trial = self.at(step)
        if len(index) == 1 or trial[1].max() < self.value:
            return trial
        slopes = self.slopes[index]
        scaled = slopes / self.positive
        shift = _bordered(4.0 * scaled @ slopes.T, trial[1][self.worst[index]], 0.0)
        if shift is None:
            return trial
        with np.errstate(over="ignore", invalid="ignore"):
            second = step + 2.0 * shift @ scaled
        if not np.all(np.isfinite(second)):
            return trial
        return min(trial, self.at(second), key=lambda end: float(end[1].max()))

    def newton(self, weights: FloatArray) -> tuple[FloatArray, IntArray] | None:
        """Return the Newton step on the optimality conditions, if tame, and its groups.

        Weights and groups are those among the worst.
        """
        floor = 1e-10 * float(np.abs(self.hessian).max()) + self._least
        hessian = np.where(np.abs(self.hessian) > floor, self.hessian, floor)
        index = np.flatnonzero(weights > 0)
        while True:
            slopes = self.slopes[index]
            solved = _bordered(4.0 * (slopes / hessian) @ slopes.T, self.losses[index], 1.0)
            if solved is None or not np.all(np.isfinite(solved)):
                return None
            if solved.min() >= 0:
                break
            index = np.delete(index, int(np.argmin(solved)))
        step = 2.0 * (solved @ slopes) / hessian
        # Entry by entry first: a step this wild may overflow when squared.
        if np.abs(step).max() > _TAME or np.linalg.norm(step) > _TAME:
            return None
        return step, index


def _bordered(matrix: FloatArray, right: FloatArray, total: float) -> FloatArray | None:
    """Solve ``matrix @ x + s = right, sum(x) = total`` for x; None where that has no solution."""
    m = len(right)
    system = np.ones((m + 1, m + 1))
    size = float(np.abs(matrix).max()) or 1.0
    system[:m, :m] = matrix / size
    system[m, m] = 0.0
    with np.errstate(over="ignore"):
        scaled = right / size
    if not np.all(np.isfinite(scaled)):
        # The groups hardly differ where the losses do: there is no such step.
        return None
    # The driver behind np.linalg.solve, whose wrapping takes longer than the solving.
    _, _, solved, failed = dgesv(system, np.append(scaled, total))
    return None if failed else np.asarray(solved[:m])


# Few components, or few features, is where poor local optima are common: there more starts are
# tried, and more of them have to agree. (Of 228 random problems with a gap, 30 more random starts
# improved one, by 2 %; with three agreeing starts as the rule, one in thirty was missed.)
_FEW_COMPONENTS, _FEW_FEATURES = 2, 10
# Starts from the groups' own bases, and random ones, each the best of so many: looking at a basis
# costs little beside a descent. (With 300 to 5,000 groups, 12 and 32 starts, each best of four,
# took 1.4 times as long and left the same gaps to .1 points of 10.)
_OWN_STARTS, _RANDOM_STARTS, _DRAWS = 4, 24, 32


@dataclass(frozen=True)
class Attained:
    """A basis, the weights at which it is stationary, and how it was found."""

    basis: FloatArray
    weights: FloatArray
    gap_closed: bool
    reason: str


def attain(dual: Dual, tol: float, random_state: int) -> Attained:
    """Return the best basis the solved dual leads to.

    Where lambda_r is simple these are the leading eigenvectors. Otherwise the relaxed P is no
    projector, and descent from several bases near it looks for one that is as good.

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
    problem, r, weights = dual.problem, dual.r, dual.best.weights
    # Where nothing is tied the leading eigenvectors are mostly enough.
    points = dual.relaxed.point, dual.best
    basis = min((point.vectors[:, :r] for point in points), key=lambda one: _worst(problem, one))
    value = _worst(problem, basis)
    if problem.certificate(dual.bound, value).gap <= dual.target:
        return Attained(basis, weights, True, "gap closed")
    hard = r <= _FEW_COMPONENTS or problem.oracle.n_features <= _FEW_FEATURES
    # Whoever is content with a rough bound is content with one descent.
    rough = tol > OPTIMAL_GAP
    most = 1 if rough else 2 if problem.is_step else 10
    agreements, at_least = np.minimum((4, 10) if hard else (3, 5), most)
    enough = tol * dual.reference if rough else 0.0
    starts: list[FloatArray] = []
    tried: list[Refined] = []
    reached = np.inf
    for start in _starts(dual.relaxed, basis, problem, hard, random_state):
        if any(r - np.sum((start.T @ other) ** 2) <= 1e-12 for other in starts):
            # Two equal starts that agree would prove nothing.
            continue
        starts.append(start)
        tried.append(descend(problem, start, dual.best.weights, reached, enough))
        reached = min(reached, tried[-1].value)
        near = reached + _AGREE * max(abs(reached), problem.resolution)
        agreeing = sum(one.value <= near for one in tried)
        if reached <= dual.bound + tol * dual.reference or (
            agreeing >= agreements and len(tried) >= at_least
        ):
            break
    found = min(tried, key=lambda one: one.value)
    if found.value < value:
        basis, value, weights = found.basis, found.value, found.weights
    if problem.certificate(dual.bound, value).gap <= tol:
        return Attained(basis, weights, True, "gap closed by descent")
    return Attained(basis, weights, False, "eigenvalue tied at the optimal weights, a gap remains")


def _worst(problem: Problem, basis: FloatArray) -> float:
    return float(problem.losses(basis).max())


def _starts(
    relaxed: Relaxed, basis: FloatArray, problem: Problem, hard: bool, random_state: int
) -> Iterator[FloatArray]:
    """Yield bases to descend from: the best known, P's own, the groups' own, random ones."""
    n, r = basis.shape
    held, fixed = relaxed.cluster, relaxed.point.vectors[:, : relaxed.cluster.first]
    tied, d = relaxed.held_vectors, r - relaxed.cluster.first
    order = np.argsort(-held.occupation, kind="stable")
    yield np.hstack([fixed, tied[:, order[:d]]])
    yield basis
    rng = np.random.default_rng(random_state)
    if hard:
        # The groups that bind the most know the most.
        order = np.argsort(-relaxed.point.weights, kind="stable")[:_MOST_AT_ONCE]
        own = [fetched(problem.own[i].columns[:, :r]) for i in order] if problem.own else []
        yield from sorted(own, key=lambda one: _worst(problem, one))[:_OWN_STARTS]
    root = tied * np.sqrt(held.occupation)
    for turn in range(_RANDOM_STARTS if hard else 10):
        if d and turn % 4 < 3:
            # In distribution P itself: directions drawn with their occupation as variance.
            drawn = root @ rng.standard_normal((_DRAWS, tied.shape[1], d))
            heads = np.broadcast_to(fixed, (_DRAWS, *fixed.shape))
            found = np.linalg.qr(np.concatenate([heads, drawn], axis=2))[0]
            yield min(found, key=lambda one: _worst(problem, one))
        else:
            yield orthonormal(rng.standard_normal((n, r)))
