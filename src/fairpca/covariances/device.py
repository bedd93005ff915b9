"""The oracle of explicit matrices that are decomposed on another device, where the rows live.

It is an idea of its own: nothing of a solver moves to the device, only what is large there. Sums
and products of matrices and their decompositions run where the rows are, in float64; the leading
vectors come back. A full decomposition takes a device as long as a partial one takes a processor,
so there is one driver; what it returns is checked and proven as everywhere, with products and a
factorisation on the device.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import sklearn

from fairpca._linalg import FloatArray, IntArray, array_namespace, fetched, placed
from fairpca.covariances.dense import DenseOracle
from fairpca.covariances.eigenpairs import FULL_SHARE, EigenPairs, are_pairs, full_pairs
from fairpca.covariances.spectral_bounds import (
    SumBound,
    bound_from_some,
    fits_margin,
    lifted_span,
)

# Below this many columns a decomposition on the processor takes no longer than the calls and
# copies of one on the device (H200 beside 16 cores: 2 to 5 ms either way at 200 to 500 columns).
_DEVICE_FROM = 300


def explicit_oracle(
    matrices: FloatArray,
    method: str = "auto",
    ranks: IntArray | None = None,
    scale: float | None = None,
    apart: float = 0.0,
    place: Any = None,
) -> DenseOracle:
    """Return the oracle of explicit matrices: on the device of `place` where that is faster.

    Parameters
    ----------
    matrices, method, ranks, scale, apart
        As in `DenseOracle`.
    place : array of another library, optional
        Where the rows live; an empty one will do. None for NumPy.
    """
    if place is None or method != "auto" or matrices.shape[1] < _DEVICE_FROM:
        return DenseOracle(matrices, method, ranks, scale, apart)
    return ArrayOracle(matrices, method, ranks, scale, apart, place)


class ArrayOracle(DenseOracle):
    """The oracle of explicit matrices with a copy on another device.

    Parameters
    ----------
    matrices, method, ranks, scale, apart
        As in `DenseOracle`.
    place : array of another library
        Any array on the device.
    """

    def __init__(
        self,
        matrices: FloatArray,
        method: str,
        ranks: IntArray | None,
        scale: float | None,
        apart: float,
        place: Any,
    ) -> None:
        super().__init__(matrices, method, ranks, scale, apart)
        self.place = place
        with sklearn.config_context(array_api_dispatch=True):
            self._xp = array_namespace(place)
        self._there = placed(matrices, place)

    def apply(self, columns: FloatArray) -> FloatArray:
        """Return ``S_i @ columns`` for every group."""
        return self._product(self._there, columns)

    def leading(
        self,
        weights: FloatArray,
        r: int,
        start: FloatArray | None = None,
        rough: bool = False,
        proven: bool = False,
    ) -> EigenPairs:
        """Return the `r` leading eigenpairs of the weighted sum.

        They are checked as the processor's are; where that fails, the processor answers.
        """
        self.n_eigen += 1
        n, xp, matrix = self.n_features, self._xp, self._combined(weights)
        values, vectors = xp.linalg.eigh(matrix)
        found = EigenPairs(
            fetched(values)[n - r :][::-1].copy(), fetched(vectors[:, n - r :])[:, ::-1].copy()
        )
        if are_pairs(functools.partial(self._product, matrix), found, n, r):
            return found
        return full_pairs(self.combine(weights)).head(r)

    def full(self, weights: FloatArray) -> EigenPairs:
        """Return all eigenpairs of the weighted sum."""
        return self.leading(weights, self.n_features)

    def in_full(self, r: int) -> bool:
        """Whether a problem of rank `r` is best solved with all pairs of every matrix."""
        return r > FULL_SHARE * self.n_features

    def _prove(self, weights: FloatArray, near: EigenPairs, r: int) -> SumBound | None:
        """Return what pairs prove about the weighted sum, None if nothing."""
        q, matrix = near.vectors.shape[1], self._combined(weights)
        if not r < q < self.n_features or not np.all(np.isfinite(near.vectors)):
            return super()._prove(weights, near, r)

        def rest_is_below(
            held: FloatArray, values: FloatArray, beta: float, margin: float
        ) -> bool:
            xp, n = self._xp, self.n_features
            lifted = self._placed(lifted_span(held, values, beta))
            ones = xp.eye(n, dtype=xp.float64, device=self.place.device)
            shifted = lifted @ lifted.T - matrix + (beta - margin) * ones
            trace = float(xp.linalg.trace(shifted))
            if not fits_margin(n, trace, values, beta, margin):
                return False
            try:
                factor = xp.linalg.cholesky(shifted)
            except (np.linalg.LinAlgError, RuntimeError):
                return False
            # Some libraries return what is no number rather than raise.
            return bool(xp.all(xp.isfinite(factor)))

        product = functools.partial(self._product, matrix)
        return bound_from_some(product, rest_is_below, near.vectors, r)

    def _product(self, matrix: Any, columns: FloatArray) -> FloatArray:
        """Return a matrix on the device times columns that are here."""
        return fetched(matrix @ self._placed(columns))

    def _combined(self, weights: FloatArray) -> Any:
        """Return ``sum_i weights[i] S_i`` on the device."""
        flat = self._xp.reshape(self._there, (self.n_groups, -1))
        shape = (self.n_features, self.n_features)
        return self._xp.reshape(self._placed(weights) @ flat, shape)

    def _placed(self, array: FloatArray) -> Any:
        return placed(np.ascontiguousarray(array, dtype=float), self.place)
