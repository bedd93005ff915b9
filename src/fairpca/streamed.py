"""The oracle of cells that are known by passes over rows stored elsewhere."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from fairpca.arrays import FloatArray
from fairpca.operators import Cells, MixtureOracle
from fairpca.solve.oracle import EigenPairs
from fairpca.solve.shared_space import Mixture, SharedSpace
from fairpca.solve.solution import rounding_level

# Columns beside the wanted ones: they speed convergence up and show what comes next.
_SPARE = 10
# A pass for a mixture of groups; past this something is wrong with the data source.
_MOST_PASSES = 100
# Residuals of all groups travel in one pass up to this many columns.
_WIDEST = 400


class StreamedCells(Cells, Protocol):
    """Cells of a table: facts that fit in memory, and products that cost a pass over the rows."""

    def products(self, columns: FloatArray) -> FloatArray:
        """Return the covariance of every cell times `columns`, shape (c, n, q)."""


class StreamedOracle(MixtureOracle):
    """The oracle of groups that are mixtures of streamed cells.

    Parameters
    ----------
    cells : Cells
    mixing, scales
        As in `MixtureOracle`.
    space : SharedSpace
        What earlier passes found; oracles of the same cells share it.
    """

    resolved = "streamed"

    def __init__(
        self, cells: Cells, mixing: FloatArray, scales: FloatArray, space: SharedSpace
    ) -> None:
        super().__init__(cells, mixing, scales)
        self.space = space

    def _mixture(self, weights: FloatArray) -> Mixture:
        return Mixture(weights @ self.mixing, self.between(weights))

    def apply(self, columns: FloatArray) -> FloatArray:
        """Return ``S_i @ columns`` for every group."""
        out = np.einsum("gc,cnq->gnq", self.mixing, self.space.images(columns))
        return self.add_between(out, columns)

    def leading(
        self, weights: FloatArray, r: int, start: FloatArray | None = None, rough: bool = False
    ) -> EigenPairs:
        """Return the `r` leading eigenpairs of the weighted sum; `start` is in the space."""
        self.n_eigen += 1
        asked = [self._mixture(weights)]
        width = r + _SPARE
        if np.count_nonzero(weights) == 1 and self.n_groups * width <= _WIDEST:
            # One group's own pairs: the others' will be asked for next, the pass is the same.
            asked = [self._mixture(row) for row in np.eye(self.n_groups)]
        self.space.start(min(len(asked) * width, _WIDEST))
        enough = 0.25 * rounding_level(self.scale, self.n_features)
        for _ in range(1 if rough else _MOST_PASSES):
            if not self.space.refine(asked, r, _SPARE, enough):
                break
        return self.space.ritz(self._mixture(weights), width).pairs(r)
