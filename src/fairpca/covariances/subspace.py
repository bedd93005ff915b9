"""A subspace that grows, with all matrices compressed to it.

Products with the matrices are the expensive part, so each direction meets them once: widening the
subspace costs products with the new columns only.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairpca._arrays import (
    FloatArray,
    dot,
    expand,
    fetched,
    is_foreign,
    joined,
    placed,
    symmetric,
)
from fairpca.covariances.dense import full_pairs
from fairpca.covariances.oracle import EigenPairs, Oracle


class ProjectedBasis:
    """An orthonormal basis Q that is widened, and ``Q.T @ S_i @ Q`` for every group.

    `basis` has shape (n, q), `compressed` has shape (k, q, q).

    Parameters
    ----------
    oracle : Oracle
    here : bool
        Whether both are NumPy's; otherwise they live where the matrices are.
    """

    def __init__(self, oracle: Oracle, *, here: bool = True) -> None:
        self.oracle, self._here = oracle, here
        self.basis: Any = np.empty((oracle.n_features, 0))
        self.compressed: Any = np.empty((oracle.n_groups, 0, 0))
        self._halves: Any = None

    @property
    def width(self) -> int:
        """Dimension of the span."""
        return int(self.basis.shape[1])

    def widen(self, columns: Any) -> bool:
        """Add the span of unit columns; return whether it added a direction."""
        columns = fetched(columns) if self._here else columns
        wider = expand(placed(self.basis, columns), columns)
        fresh = wider[:, self.width :]
        if not fresh.shape[1]:
            return False
        half = self.oracle.halves(fresh)
        corner = symmetric(self.oracle.compressed(half, half))
        if self._halves is None:
            self.compressed, self._halves = corner, half
        else:
            side = self.oracle.compressed(self._halves, half)
            turned = side.mT if is_foreign(side) else np.swapaxes(side, 1, 2)
            above = joined([placed(self.compressed, side), side], axis=2)
            self.compressed = joined([above, joined([turned, corner], axis=2)], axis=1)
            self._halves = joined([self._halves, half], axis=1)
        if self._here:
            self.compressed = fetched(self.compressed)
        self.basis = wider
        return True

    def lifted(self, coordinates: Any) -> Any:
        """Return ``basis @ coordinates``, where the basis lives."""
        return dot(self.basis, placed(coordinates, self.basis))

    def coordinates(self, columns: Any) -> Any:
        """Return ``basis.T @ columns``, where the basis lives."""
        return dot(self.basis.T, placed(columns, self.basis))

    def ritz(self, weights: FloatArray, r: int) -> EigenPairs:
        """Return up to `r` leading Ritz pairs of a weighted sum, without a product."""
        mixed = np.tensordot(weights, fetched(self.compressed), axes=1)
        pairs = full_pairs(mixed).head(r)
        return EigenPairs(pairs.values, fetched(self.lifted(pairs.vectors)))
