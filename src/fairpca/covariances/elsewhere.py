"""The oracle of explicit matrices that are decomposed on another device, where the rows live.

It is an idea of its own: nothing of a solver moves to the device, only what is large there. Sums
and products of matrices and their decompositions run where the rows are, in float64; the leading
vectors come back. A full decomposition takes a device as long as a partial one takes a processor,
so there is one driver, and all n pairs are there to prove a sum of r of them by their residual.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import sklearn

from fairpca._linalg import FloatArray, IntArray, fetched, placed
from fairpca.covariances.dense import PROVEN, DenseOracle
from fairpca.covariances.eigenpairs import EigenPairs
from fairpca.covariances.spectral_bounds import SumBound, bound_from_residual, random_signs

# Below this many columns a decomposition on the processor takes no longer than the calls and
# copies of one on the device (H200 beside 16 cores: 2 to 5 ms either way at 200 to 500 columns).
_ELSEWHERE_FROM = 300


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
    if place is None or method != "auto" or matrices.shape[1] < _ELSEWHERE_FROM:
        found = DenseOracle(matrices, method, ranks, scale, apart)
        found.place = place
        return found
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
        self._there = placed(matrices, place)
        # What the pairs at some weights prove: all values, the residual and how far the vectors
        # are from orthonormal.
        self._known: dict[bytes, tuple[FloatArray, float, float]] = {}

    def apply(self, columns: FloatArray) -> FloatArray:
        """Return ``S_i @ columns`` for every group."""
        return fetched(self._there @ placed(np.ascontiguousarray(columns), self.place))

    def leading(
        self, weights: FloatArray, r: int, start: FloatArray | None = None, rough: bool = False
    ) -> EigenPairs:
        """Return the `r` leading eigenpairs of the weighted sum."""
        self.n_eigen += 1
        return self._pairs(weights, r)

    def full(self, weights: FloatArray) -> EigenPairs:
        """Return all eigenpairs of the weighted sum."""
        return self.leading(weights, self.n_features)

    def own_pairs(self, r: int) -> tuple[EigenPairs, ...]:
        """Return at least `r` leading eigenpairs of every matrix by itself, their sum proven."""
        return tuple(self.leading(row, r) for row in np.eye(self.n_groups))

    def sum_bound(self, weights: FloatArray, r: int, near: EigenPairs) -> tuple[float, float]:
        """Return a proven upper bound on the sum of the r largest eigenvalues.

        By the residual of all pairs at these weights, which are computed if they are not known.
        """
        if weights.tobytes() not in self._known:
            self.n_eigen += 1
            self._pairs(weights, 1)
        found = self._proven(weights, r) if weights.tobytes() in self._known else None
        if found is None:
            return super().sum_bound(weights, r, near)
        return found.bound, found.slack

    def _proven(self, weights: FloatArray, r: int) -> SumBound | None:
        values, residual, apart = self._known[weights.tobytes()]
        return bound_from_residual(values, residual, apart, r)

    def _pairs(self, weights: FloatArray, r: int) -> EigenPairs:
        """Decompose on the device; return `r` leading pairs, from the processor if they are wrong.

        What all pairs prove is kept for `sum_bound`.
        """
        n = self.n_features
        with sklearn.config_context(array_api_dispatch=True):
            from sklearn.utils._array_api import get_namespace

            xp = get_namespace(self._there)[0]
            parts = placed(np.asarray(weights, dtype=float), self.place)
            matrix = xp.reshape(parts @ xp.reshape(self._there, (self.n_groups, -1)), (n, n))
            values, vectors = xp.linalg.eigh(matrix)
            signs = placed(random_signs(n), self.place)
            combined = vectors @ signs
            residual = xp.sqrt(xp.sum((matrix @ combined - vectors @ (values * signs)) ** 2))
            apart = xp.sqrt(xp.sum((vectors.T @ combined - signs) ** 2))
            found = fetched(values)[::-1].copy()
            leading = fetched(vectors[:, n - r :])[:, ::-1].copy()
        self._known[weights.tobytes()] = (found, float(residual), float(apart))
        proven = self._proven(weights, r)
        off = np.inf if proven is None else proven.bound - found[:r].sum()
        if not off <= PROVEN * self.resolution or not np.all(np.isfinite(leading)):
            # Wrong, or not right to rounding; the processor's own pairs are checked as well.
            del self._known[weights.tobytes()]
            return DenseOracle.full(self, weights).head(r)
        return EigenPairs(found[:r], leading)
