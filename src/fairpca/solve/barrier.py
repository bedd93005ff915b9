"""A reduced barrier method on the dual: slower than Newton, but it always arrives.

For a parameter mu > 0 the concave function

    F(t) = t . offsets + min_P [ -<A(t), P> - mu logdet P - mu logdet(I - P) ] + mu sum_i log t_i

over the interior of the simplex (tr P = r) is smooth whatever the eigenvalues do. The inner
minimum is explicit in the eigenbasis of A(t), so one decomposition gives value, gradient and
Hessian of F, and the minimiser P is feasible for the relaxation: its worst loss is a rigorous
upper bound on phi at every step. As mu falls, t approaches the maximiser of phi and P an optimal
relaxed point, whose fractional eigenvalues tell which eigenvalues of A(t) are tied.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from fairpca.arrays import FloatArray
from fairpca.solve.dual import Dual
from fairpca.solve.dual_point import Cluster, DualPoint, Relaxed, fill, occupy

_START = 0.1
_SHRINK = 0.1
# A Newton decrement below this is close enough to the path to move on along it.
_CENTRED = 1.0
# Per call of `advance`; the path to 1e-10 takes some 40. At rounding level the decrement may
# refuse to fall, and then this ends it.
_MAX_STEPS = 80


@dataclass(frozen=True)
class PathPoint:
    """A point near the central path: the dual point, occupations of P and their complements."""

    point: DualPoint
    mu: float
    level: float
    occupied: FloatArray
    vacant: FloatArray

    @cached_property
    def response(self) -> FloatArray:
        """How P moves with A, entry by entry in the eigenbasis (times 1 / mu)."""
        p, v = self.occupied, self.vacant
        return np.asarray(1.0 / (1.0 / (p[:, None] * p) + 1.0 / (v[:, None] * v)))

    def value(self, r: int) -> float:
        """F at this point: phi, what P changes against a projector, and the barriers."""
        p, v, values = self.occupied, self.vacant, self.point.pairs.values
        moved = float(values[:r] @ v[:r] - values[r:] @ p[r:])
        barriers = np.log(self.point.weights).sum() - np.log(p).sum() - np.log(v).sum()
        return self.point.phi + moved + self.mu * float(barriers)

    def relaxed(self, r: int) -> Relaxed:
        """Return P as a feasible point of the relaxation."""
        occupation = fill(np.where(self.occupied < 0.5, self.occupied, 1 - self.vacant), r)
        return occupy(self.point, Cluster(0, len(occupation), occupation), r)


@dataclass(frozen=True)
class Centre:
    """Where one more Newton step leads from a point of the path, to first order.

    Within a decrement of one the corrected P is feasible (it stays in the Dikin ellipsoid) and its
    losses are level, while those of the point itself may still be far from it.
    """

    path: PathPoint
    weights: FloatArray
    matrix: FloatArray
    losses: FloatArray


class Barrier:
    """Follows the central path of the dual, starting near given weights.

    Parameters
    ----------
    dual : Dual
        Evaluated at least once.
    weights : ndarray of shape (k,)
        Zeros are lifted into the interior.
    mu : float
        The first barrier parameter, relative to the spectral scale.
    """

    def __init__(self, dual: Dual, weights: FloatArray, mu: float = _START) -> None:
        self.dual = dual
        self.mu = mu * dual.spectral
        lift = min(mu, 0.1)
        self.here = self._at(dual.evaluate((1 - lift) * weights + lift / len(weights)), None)

    def advance(self, mu: float) -> Centre:
        """Go down the path until it is centred at a parameter of at most `mu`."""
        step = self._newton()
        for _ in range(_MAX_STEPS):
            if step.decrement < _CENTRED:
                if self.mu <= mu:
                    break
                self.mu *= _SHRINK
                self.here = occupations(self.here.point, self.mu, self.dual.r, self.here.level)
                step = self._newton()
            self.here = self._moved(step)
            step = self._newton()
            if self.dual.closed:
                break
        return self._centre(step)

    def _moved(self, step: _Step) -> PathPoint:
        """Take the whole step if F rises on it, else the short one that is sure to raise it.

        The whole step nearly always passes, and the short one alone takes two to four times as
        many decompositions.
        """
        here = self._at(self.dual.evaluate(step.weights), self.here.level)
        if step.decrement <= 1 or here.value(self.dual.r) > self.here.value(self.dual.r):
            return here
        return self._at(self.dual.evaluate(step.short), self.here.level)

    def _at(self, point: DualPoint, level: float | None) -> PathPoint:
        here = occupations(point, self.mu, self.dual.r, level)
        self.dual.offer(here.relaxed(self.dual.r))
        return here

    def _newton(self) -> _Step:
        t, k = self.here.point.weights, len(self.here.point.weights)
        gradient, hessian = derivatives(self.here, self.dual.r)
        if self.dual.extra is not None:
            hessian += self.dual.extra.matrix
        # Rows and columns in units of t: weights near zero would otherwise drown the rest.
        system = np.zeros((k + 1, k + 1))
        system[:k, :k] = hessian * t[:, None] * t
        system[np.arange(k), np.arange(k)] += self.mu
        size = float(np.abs(system[:k, :k]).max())
        system[:k, k] = system[k, :k] = size * t
        step = np.linalg.solve(system, np.append(t * gradient + self.mu, 0.0))[:k]
        decrement = float(np.sqrt(max(float(step @ system[:k, :k] @ step), 0.0) / self.mu))
        longest = min(1.0, 0.95 / max(-float(step.min()), 1e-300))
        long, short = (
            t * (1.0 + min(longest, length) * step) for length in (1.0, 1.0 / (1.0 + decrement))
        )
        losses = gradient - hessian @ (long - t)
        return _Step(long / float(long.sum()), short / float(short.sum()), decrement, losses)

    def _centre(self, step: _Step) -> Centre:
        here = self.here
        change = np.tensordot(
            step.weights - here.point.weights, here.point.columns(len(here.occupied)), axes=1
        )
        own = np.diagonal(here.response)
        level = float(own @ np.diagonal(change)) / float(own.sum())
        moved = here.response * (change - level * np.eye(len(own))) / self.mu
        matrix = np.diag(here.occupied) + moved
        return Centre(here, step.weights, matrix, step.losses)


@dataclass(frozen=True)
class _Step:
    weights: FloatArray
    short: FloatArray
    decrement: float
    losses: FloatArray


def occupations(point: DualPoint, mu: float, r: int, near: float | None = None) -> PathPoint:
    """Return the inner minimiser P at a dual point, as eigenvalues and their complements.

    `near` is a guess of the level at which an eigenvalue would be half occupied.
    """
    values = point.pairs.values
    spread = 2 * mu * len(values)
    low, high = values[-1] - spread, values[0] + spread
    level = 0.5 * (values[r - 1] + values[r]) if near is None else near
    for _ in range(100):
        if not low < level < high:
            level = 0.5 * (low + high)
        occupied, vacant = _inner((level - values) / mu)
        # Excess against deficit: the plain sum minus r would cancel at small mu. In logarithms
        # the two are nearly straight lines, and Newton needs few steps.
        excess, deficit = float(occupied[r:].sum()), float(vacant[:r].sum())
        residual = float(np.log(excess / deficit))
        if abs(residual) <= 2e-13:
            break
        low, high = (level, high) if residual > 0 else (low, level)
        slopes = 1.0 / (occupied**-2 + vacant**-2)
        slope = float(slopes[r:].sum()) / excess + float(slopes[:r].sum()) / deficit
        step = level + mu * residual / slope
        if step == level or high - low <= 1e-15 * max(abs(low), abs(high)):
            break
        level = step
    return PathPoint(point, mu, level, occupied, vacant)


def _inner(a: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Solve ``a = 1/p - 1/(1-p)``; return p and 1 - p, neither of them cancelled."""
    size = np.abs(a)
    high = size + np.sqrt(a * a + 4.0)
    small = 2.0 / (high + 2.0)
    large = high / (high + 2.0)
    empty = a >= 0
    return np.where(empty, small, large), np.where(empty, large, small)


def derivatives(here: PathPoint, r: int) -> tuple[FloatArray, FloatArray]:
    """Return gradient and minus the Hessian of F, both without the log t terms."""
    p, v, omega = here.occupied, here.vacant, here.response
    rotated = here.point.columns(len(p))
    diagonals = np.diagonal(rotated, axis1=1, axis2=2)
    gradient = here.point.losses - diagonals @ np.concatenate([-v[:r], p[r:]])
    flat = rotated.reshape(len(rotated), -1)
    hessian = flat @ (flat * omega.ravel()).T
    own = np.diagonal(omega)
    mean = diagonals @ own
    hessian -= mean[:, None] * mean / own.sum()
    return gradient, hessian / here.mu
