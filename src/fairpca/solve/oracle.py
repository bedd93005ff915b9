"""What a solver may ask about the matrices S_1 ... S_k, which it never sees itself.

The leading eigenpairs of a weighted sum, the compression of all S_i to a small basis, the variance
a basis keeps. Any class that answers those questions can stand in for `eigen.DenseOracle`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from fairpca.arrays import FloatArray, symmetric


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

    def leading(
        self, weights: FloatArray, r: int, start: FloatArray | None = None, rough: bool = False
    ) -> EigenPairs:
        """Return the `r` leading eigenpairs of ``sum_i weights[i] S_i``.

        Rough ones are cheaper and good for their directions only: no bound may rest on them.
        """

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
