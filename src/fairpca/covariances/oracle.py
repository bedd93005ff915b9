"""What solvers ask of the matrices S_1 ... S_k: products, sums, eigenpairs, compressions.

What an oracle is good at it declares (`in_full`, `cheap_products`); nobody asks
which class it is.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairpca._arrays import FloatArray, dot, fetched, rounding_level, symmetric


@dataclass(frozen=True)
class EigenPairs:
    """Eigenvalues in decreasing order and the matching orthonormal columns.

    Attributes
    ----------
    values : ndarray of shape (r,)
    columns : array of shape (n, r)
        Where the matrix lives: here, or on another device.
    """

    values: FloatArray
    columns: Any

    @functools.cached_property
    def vectors(self) -> FloatArray:
        """The columns, brought here when they are first asked for."""
        return fetched(self.columns)

    def head(self, r: int) -> EigenPairs:
        """Return the `r` leading pairs."""
        return EigenPairs(self.values[:r], self.columns[:, :r])


class Oracle(ABC):
    """The matrices of k groups, known by their products at least.

    Attributes
    ----------
    n_groups, n_features : int
    scale : float
        Magnitude of the matrices: no eigenvalue and no loss is larger. Rounding is relative to it.
    driver : str
        What its eigenpairs come from.
    cheap_products : bool
        Whether products are so cheap that the last digits of a subspace are worth them.
    n_eigen : int
        Eigen-decompositions of full size so far.
    """

    n_groups: int
    n_features: int
    scale: float
    driver: str
    cheap_products: bool = True
    n_eigen: int = 0

    @property
    def resolution(self) -> float:
        """Absolute accuracy of a sum of eigenvalues, and so of a loss."""
        return rounding_level(self.scale, self.n_features)

    @abstractmethod
    def apply(self, columns: Any) -> Any:
        """Return ``S_i @ columns`` for every group, shape (k, n, q)."""

    @abstractmethod
    def leading(
        self, weights: FloatArray, r: int, start: Any = None, rough: bool = False
    ) -> EigenPairs:
        """Return the `r` leading eigenpairs of ``sum_i weights[i] S_i``.

        Parameters
        ----------
        weights : ndarray of shape (k,)
        r : int
        start : array of shape (n, q), optional
            A basis near the answer.
        rough : bool
            Rough pairs are cheaper and good for their directions only: no bound may rest on them.
        """

    def in_full(self, r: int) -> bool:
        """Whether a problem of rank `r` is best solved with all pairs of every matrix."""
        return False

    @property
    def matrices(self) -> FloatArray:
        """The matrices themselves, shape (k, n, n); formed by products where nobody has them."""
        return symmetric(np.asarray(self.apply(np.eye(self.n_features))))

    def combine(self, weights: FloatArray) -> Any:
        """Return ``sum_i weights[i] S_i``."""
        return np.tensordot(weights, self.matrices, axes=1)

    def full(self, weights: FloatArray) -> EigenPairs:
        """Return all eigenpairs of the weighted sum."""
        return self.leading(weights, self.n_features)

    def own_pairs(self, r: int) -> tuple[EigenPairs, ...]:
        """Return the `r` leading eigenpairs of every matrix by itself."""
        return tuple(self.leading(row, r) for row in np.eye(self.n_groups))

    def sum_bound(self, weights: FloatArray, r: int, near: EigenPairs) -> tuple[float, float]:
        """Return an upper bound on the sum of the r largest eigenvalues of the weighted sum.

        Products alone prove nothing about directions nobody looked at. The values of `near`, which
        must then be leading pairs at exactly these weights, are raised by their residuals, and
        what they leave out was searched from a random start.

        Parameters
        ----------
        weights : ndarray of shape (k,)
        r : int
        near : EigenPairs
            Leading pairs at, or near, the weights.

        Returns
        -------
        bound : float
            Infinite where nothing could be proven.
        slack : float
            By how much rounding may have raised it.
        """
        values = near.values[:r]
        known = len(values) == r and bool(np.all(np.isfinite(values)))
        return (float(values.sum()), 0.0) if known else (np.inf, 0.0)

    def halves(self, columns: Any) -> Any:
        """Return what `compressed` needs to know of columns, one column each."""
        return columns

    def compressed(self, left: Any, right: Any) -> Any:
        """Return ``U.T @ S_i @ V`` for every group, shape (k, p, q), from halves of U and V."""
        return dot(left.T, self.apply(right))

    def project(self, basis: FloatArray) -> Any:
        """Return ``basis.T @ S_i @ basis`` for every group, shape (k, q, q)."""
        half = self.halves(basis)
        return symmetric(self.compressed(half, half))

    def retained_variance(self, basis: Any) -> FloatArray:
        """Return ``Tr(basis.T @ S_i @ basis)`` for every group, shape (k,)."""
        return np.asarray(np.einsum("nr,knr->k", basis, self.apply(basis)))
