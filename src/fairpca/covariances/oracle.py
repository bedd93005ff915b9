"""What may be asked about the matrices S_1 ... S_k by a solver, which never sees them itself.

The leading eigenpairs of a weighted sum, the compression of all S_i to a small basis, the variance
a basis keeps. What an oracle is good at it declares (`in_full`, `cheap_products`); nobody asks
which class it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from fairpca._linalg import FloatArray, rounding_level, symmetric
from fairpca.covariances.eigenpairs import EigenPairs, full_pairs


class Oracle(ABC):
    """The matrices of k groups, known by their products at least.

    Attributes
    ----------
    n_groups, n_features : int
    scale : float
        Magnitude of the matrices: no eigenvalue and no loss is larger. Rounding is relative to it.
    driver : str
        What its eigenpairs come from, for the estimator's `solver_`.
    cheap_products : bool
        Whether products are so cheap that the last digits of a subspace are worth them.
    n_eigen : int
        Eigen-decompositions of full size so far.
    own_slack : float
        By how much the sum of a group's own eigenvalues may be too large where they did not
        converge. Losses are measured from these sums.
    place : array of another library or None
        Where the rows live, if that is not NumPy; large decompositions are made there.
    """

    n_groups: int
    n_features: int
    scale: float
    driver: str
    cheap_products: bool = False
    n_eigen: int = 0
    own_slack: float = 0.0
    place: Any = None

    @property
    def resolution(self) -> float:
        """Absolute accuracy of a sum of eigenvalues, and so of a loss."""
        return rounding_level(self.scale, self.n_features)

    @abstractmethod
    def apply(self, columns: FloatArray) -> FloatArray:
        """Return ``S_i @ columns`` for every group, shape (k, n, q)."""

    @abstractmethod
    def leading(
        self, weights: FloatArray, r: int, start: FloatArray | None = None, rough: bool = False
    ) -> EigenPairs:
        """Return the `r` leading eigenpairs of ``sum_i weights[i] S_i``.

        Parameters
        ----------
        weights : ndarray of shape (k,)
        r : int
        start : ndarray of shape (n, q), optional
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
        return symmetric(self.apply(np.eye(self.n_features)))

    def combine(self, weights: FloatArray) -> Any:
        """Return ``sum_i weights[i] S_i``, where it is decomposed."""
        return np.asarray(np.tensordot(weights, self.matrices, axes=1))

    def full(self, weights: FloatArray) -> EigenPairs:
        """Return all eigenpairs of the weighted sum."""
        self.n_eigen += 1
        return full_pairs(self.combine(weights))

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

    def project(self, basis: FloatArray) -> FloatArray:
        """Return ``basis.T @ S_i @ basis`` for every group, shape (k, q, q)."""
        return symmetric(basis.T @ self.apply(basis))

    def retained_variance(self, basis: FloatArray) -> FloatArray:
        """Return ``Tr(basis.T @ S_i @ basis)`` for every group, shape (k,)."""
        return np.asarray(np.einsum("nr,knr->k", basis, self.apply(basis)))
