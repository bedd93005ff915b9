"""phi at one point of the simplex: derivatives, how the eigenvectors turn, what P can occupy.

Everything here follows from one decomposition of A(t); `solve.dual` has the function itself.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from fairpca.arrays import FloatArray, turned
from fairpca.solve.oracle import EigenPairs


@dataclass(frozen=True)
class Cluster:
    """Which eigenvalues of A(t) count as tied, and how a relaxed P occupies their eigenvectors.

    P is one on the eigenvectors before `first`, zero from `last` on, and on the block between them
    ``rotation @ diag(occupation) @ rotation.T``; no rotation means the eigenvectors as they are.
    """

    first: int
    last: int
    occupation: FloatArray
    rotation: FloatArray | None = None

    @property
    def matrix(self) -> FloatArray:
        """P on the block."""
        if self.rotation is None:
            return np.diag(self.occupation)
        return np.asarray((self.rotation * self.occupation) @ self.rotation.T)

    @classmethod
    def of(cls, first: int, matrix: FloatArray, r: int) -> Cluster:
        """Return the cluster of the feasible block nearest to a symmetric `matrix`."""
        values, rotation = np.linalg.eigh(matrix)
        occupation = fill(values[::-1], r - first)
        return cls(first, first + len(matrix), occupation, rotation[:, ::-1])


@dataclass(frozen=True)
class DualPoint:
    """phi at one point of the simplex, with all eigenpairs there.

    `losses` are those of the r leading eigenvectors: the gradient of phi where it has one.
    `images` are S_i times those eigenvectors, shape (k, n, r).
    """

    weights: FloatArray
    pairs: EigenPairs
    phi: float
    losses: FloatArray
    covariances: FloatArray
    images: FloatArray
    _cache: dict[str, FloatArray] = field(default_factory=dict, repr=False, compare=False)

    def columns(self, m: int) -> FloatArray:
        """The first m columns of every S_i in the eigenbasis of A(t), shape (k, n, m)."""
        known = self._cache.get("columns")
        if known is None or known.shape[2] < m:
            vectors = self.pairs.vectors
            enough = self.images.shape[2] >= m
            known = vectors.T @ (self.images if enough else self.covariances @ vectors[:, :m])
            self._cache["columns"] = known
        return known[:, :, :m]

    @cached_property
    def couplings(self) -> FloatArray:
        """How each S_i couples the r leading eigenvectors to the others, shape (k, (n-r) r)."""
        r = self.images.shape[2]
        return self.columns(r)[:, r:].reshape(len(self.weights), -1)

    @cached_property
    def turns(self) -> FloatArray:
        """How each group's weight turns the leading eigenvectors, to first order (a tangent)."""
        return np.asarray(self.couplings / self._cut_gaps.ravel())

    def bend(self, step: FloatArray) -> FloatArray:
        """Return the second-order change of `losses` when the weights move by `step`."""
        k, _, r = self.images.shape
        X, Y = self._turns_by(step)
        moved = self.pairs.vectors[:, r:] @ X
        kept = self.covariances.reshape(k, -1) @ (moved @ moved.T).ravel()
        kept -= self._inner @ (X.T @ X).ravel()
        return np.asarray(-kept - 2.0 * (self.couplings @ Y.ravel()))

    def vectors_after(self, step: FloatArray) -> FloatArray:
        """Return eigenvectors for weights moved by `step`, their leading span to second order."""
        r = self.images.shape[2]
        leading, others = self.pairs.vectors[:, :r], self.pairs.vectors[:, r:]
        first, second = self._turns_by(step)
        turn = first + second
        return np.hstack([turned(leading, others, turn), turned(others, leading, -turn.T)])

    def _turns_by(self, step: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return how far `step` turns the leading eigenvectors U towards the others V.

        They become U + V Z with Z solving a Riccati equation; these are its first two terms.
        """
        k, n, r = self.images.shape
        others = self.pairs.vectors[:, r:]
        X = (step @ self.turns).reshape(n - r, r)
        moved = (step @ self.covariances.reshape(k, -1)).reshape(n, n)
        within = (step @ self._inner).reshape(r, r)
        return X, (others.T @ (moved @ (others @ X)) - X @ within) / self._cut_gaps

    @cached_property
    def _inner(self) -> FloatArray:
        """Every S_i among the leading eigenvectors, shape (k, r r)."""
        k, _, r = self.images.shape
        return self.columns(r)[:, :r].reshape(k, -1)

    @cached_property
    def _cut_gaps(self) -> FloatArray:
        values, r = self.pairs.values, self.images.shape[2]
        return self._gaps(values[:r], values[r:])

    def _gaps(self, upper: FloatArray, lower: FloatArray) -> FloatArray:
        # A tie across a block's border means the block is too small; it must not divide by zero.
        values = self.pairs.values
        floor = 1e-14 * max(abs(float(values[0])), abs(float(values[-1]))) + 1e-300
        return np.maximum(upper - lower[:, None], floor)

    def curvature(self, cluster: Cluster) -> FloatArray:
        """Minus the second derivative of phi, pairs inside the cluster left out.

        With an empty cluster at r this is the Hessian of phi itself.
        """
        first, last = cluster.first, cluster.last
        size = last - first
        if not size:
            return np.asarray(2.0 * self.couplings @ self.turns.T)
        values = self.pairs.values
        part, upper, lower = self.columns(last)[:, first:], values[:last], values[first:]
        occupied, empty = np.ones(last), np.zeros(len(lower))
        occupied[first:], empty[:size] = cluster.occupation, cluster.occupation
        if cluster.rotation is not None:
            part, upper, lower = part.copy(), upper.copy(), lower.copy()
            part[:, :, first:] = part[:, :, first:] @ cluster.rotation
            part[:, :size] = cluster.rotation.T @ part[:, :size]
            # Rayleigh quotients stand for the eigenvalues of rotated vectors.
            upper[first:] = lower[:size] = (cluster.rotation**2).T @ values[first:last]
        ratio = (occupied - empty[:, None]) / self._gaps(upper, lower)
        ratio[:size, first:] = 0.0
        flat = part.reshape(len(part), -1)
        return np.asarray(2.0 * flat @ (flat * ratio.ravel()).T)


@dataclass(frozen=True)
class Relaxed:
    """A feasible point of the relaxation in the eigenbasis of a dual point, with its losses."""

    point: DualPoint
    cluster: Cluster
    losses: FloatArray

    @cached_property
    def value(self) -> float:
        """The relaxed worst loss, an upper bound on every phi."""
        return float(self.losses.max())


def occupy(point: DualPoint, cluster: Cluster, r: int) -> Relaxed:
    """Return the relaxed point that `cluster` describes at a dual point."""
    first, last = cluster.first, cluster.last
    if last == first:
        return Relaxed(point, cluster, point.losses)
    block = point.columns(last)[:, first:last, first:last]
    # Only what P changes against the r leading eigenvectors: the rest would cancel.
    if cluster.rotation is None:
        moved = cluster.occupation.copy()
        moved[: r - first] -= 1.0
        change = np.diagonal(block, axis1=1, axis2=2) @ moved
    else:
        matrix = cluster.matrix
        matrix[np.arange(r - first), np.arange(r - first)] -= 1.0
        change = block.reshape(len(block), -1) @ matrix.ravel()
    return Relaxed(point, cluster, point.losses - change)


def fill(occupation: FloatArray, total: float) -> FloatArray:
    """Project onto ``{0 <= p <= 1, sum p = total}`` in the Euclidean sense.

    At tiny barrier parameters occupations add up to r only roughly, and a P of smaller trace
    would look better than any feasible one.
    """
    if not occupation.size:
        return occupation
    low, high = -1.0 - float(occupation.max()), 1.0 - float(occupation.min())
    shift = 0.0
    for _ in range(200):
        clipped = np.clip(occupation + shift, 0.0, 1.0)
        missing = total - float(clipped.sum())
        if abs(missing) <= 4e-16 * total:
            break
        low, high = (shift, high) if missing > 0 else (low, shift)
        free = np.count_nonzero((clipped > 0) & (clipped < 1))
        step = shift + missing / free if free else 0.5 * (low + high)
        shift = step if low < step < high else 0.5 * (low + high)
        if not low < shift < high:
            break
    return clipped
