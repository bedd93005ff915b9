"""The leading-subspace oracle: every eigen-decomposition of the package happens here.

A solver never sees the matrices S_i themselves. It asks the oracle for the leading eigenpairs of a
weighted sum, for the compression of all S_i to a small basis, or for the variance a basis keeps.
Any class that answers those three questions can stand in for `DenseOracle`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import scipy.linalg
import scipy.sparse.linalg

from fairpca.arrays import FloatArray, symmetric

# Measured crossovers (2 cores, OpenBLAS; shared between the dense drivers and ARPACK):
# below FULL_BELOW one full decomposition is cheaper than a partial one, and it gives the second
# derivative for nothing; Krylov wins while r is under n / KRYLOV_SHARE.
FULL_BELOW = 220
KRYLOV_SHARE = 16
KRYLOV_FROM = 400


@dataclass(frozen=True)
class EigenPairs:
    """Eigenvalues in decreasing order and the matching orthonormal columns."""

    values: FloatArray
    vectors: FloatArray

    def head(self, r: int) -> EigenPairs:
        """Return the `r` leading pairs."""
        return EigenPairs(self.values[:r], self.vectors[:, :r])


class Oracle(Protocol):
    """What a solver may ask about the matrices S_1 ... S_k."""

    n_groups: int
    n_features: int
    scale: float
    n_eigen: int

    def leading(self, weights: FloatArray, r: int, start: FloatArray | None = None) -> EigenPairs:
        """Return the `r` leading eigenpairs of ``sum_i weights[i] S_i``."""

    def apply(self, columns: FloatArray) -> FloatArray:
        """Return ``S_i @ columns`` for every group, shape (k, n, q)."""

    def project(self, basis: FloatArray) -> FloatArray:
        """Return ``basis.T @ S_i @ basis`` for every group, shape (k, q, q)."""

    def kept(self, basis: FloatArray) -> FloatArray:
        """Return ``Tr(basis.T @ S_i @ basis)`` for every group, shape (k,)."""


class ProductOracle:
    """What follows from products with the matrices alone."""

    def apply(self, columns: FloatArray) -> FloatArray:
        """Return ``S_i @ columns`` for every group."""
        raise NotImplementedError

    def project(self, basis: FloatArray) -> FloatArray:
        """Return the compression of every matrix to `basis`."""
        return symmetric(basis.T @ self.apply(basis))

    def kept(self, basis: FloatArray) -> FloatArray:
        """Return the trace of every compression to `basis`."""
        return np.asarray(np.einsum("nr,knr->k", basis, self.apply(basis)))


class DenseOracle(ProductOracle):
    """The oracle of explicit symmetric matrices.

    Parameters
    ----------
    covariances : ndarray of shape (k, n, n)
    method : {"auto", "dense", "krylov"}
    """

    def __init__(self, covariances: FloatArray, method: str = "auto") -> None:
        self.covariances = covariances
        self.n_groups, self.n_features, _ = covariances.shape
        self.method = method
        self.n_eigen = 0
        # The largest trace bounds every eigenvalue and every loss, and costs nothing.
        self.scale = float(np.max(np.abs(np.trace(covariances, axis1=1, axis2=2)), initial=0.0))

    @property
    def resolved(self) -> str:
        """The driver that leading pairs of a typical rank come from."""
        return "krylov" if self.method == "krylov" else "dense"

    @property
    def decomposes_in_full(self) -> bool:
        """Whether all pairs of a matrix this small cost no more than a few."""
        return self.method != "krylov" and self.n_features <= FULL_BELOW

    def combine(self, weights: FloatArray) -> FloatArray:
        """Return ``sum_i weights[i] S_i``."""
        flat = self.covariances.reshape(self.n_groups, -1)
        return np.asarray((weights @ flat).reshape(self.n_features, self.n_features))

    def full(self, weights: FloatArray) -> EigenPairs:
        """Return all eigenpairs of the weighted sum."""
        self.n_eigen += 1
        return full_pairs(self.combine(weights))

    def leading(self, weights: FloatArray, r: int, start: FloatArray | None = None) -> EigenPairs:
        """Return the `r` leading eigenpairs of the weighted sum."""
        self.n_eigen += 1
        return leading_pairs(self.combine(weights), r, method=self.method, start=start)

    def apply(self, columns: FloatArray) -> FloatArray:
        """Return ``S_i @ columns`` for every group."""
        return np.asarray(self.covariances @ columns)


def full_pairs(matrix: FloatArray) -> EigenPairs:
    """Return all eigenpairs of a symmetric matrix, largest first."""
    values, vectors = np.linalg.eigh(matrix)
    return EigenPairs(values[::-1], vectors[:, ::-1])


def leading_pairs(
    matrix: FloatArray, r: int, *, method: str = "auto", start: FloatArray | None = None
) -> EigenPairs:
    """Return the `r` leading eigenpairs by the cheapest driver for this size.

    `start` is a basis near the answer; its sum is the Krylov method's first vector.
    """
    n = len(matrix)
    krylov = method == "krylov" or (
        method == "auto" and n >= KRYLOV_FROM and r * KRYLOV_SHARE <= n
    )
    if krylov and r < n - 1:
        return _krylov_pairs(matrix, r, start)
    if n <= FULL_BELOW or r > n // 2:
        return full_pairs(matrix).head(r)
    values, vectors = scipy.linalg.eigh(
        matrix, subset_by_index=(n - r, n - 1), driver="evr", check_finite=False
    )
    return EigenPairs(values[::-1], vectors[:, ::-1])


def krylov_start(n: int, start: FloatArray | None) -> FloatArray:
    """Return a first Krylov vector: the sum of a basis near the answer, if there is one.

    A fixed generic vector is mixed in: a start orthogonal to a wanted direction would hide it.
    """
    generic: FloatArray = np.random.default_rng(0).standard_normal(n) / np.sqrt(n)
    if start is None:
        return generic
    return np.asarray(0.1 * generic + start.sum(axis=1) / np.sqrt(start.shape[1]))


def _krylov_pairs(matrix: FloatArray, r: int, start: FloatArray | None) -> EigenPairs:
    v0 = krylov_start(len(matrix), start)
    try:
        values, vectors = scipy.sparse.linalg.eigsh(matrix, k=r, which="LA", v0=v0, tol=0)
    except scipy.sparse.linalg.ArpackError:
        # No convergence: the dense driver always answers.
        return leading_pairs(matrix, r, method="dense")
    order = np.argsort(values)[::-1]
    return EigenPairs(values[order], vectors[:, order])
