"""The oracle of cells that are known by passes over rows stored elsewhere."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from fairpca._linalg import FloatArray
from fairpca.covariances.block_krylov import Mixture, SharedSpace
from fairpca.covariances.eigenpairs import EigenPairs
from fairpca.covariances.implicit import Cells, Mixing, MixtureOracle

# Columns beside the wanted ones: they speed convergence up and show what comes next.
_SPARE = 10
# Passes for one mixture of groups; past this something is wrong with the data source.
_MOST_PASSES = 100
# Residuals of all groups travel in one pass up to this many columns; more would have to be held
# in memory by every worker at once.
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
    mixing : Mixing
    space : SharedSpace
        What earlier passes found; oracles of the same cells share it.
    """

    driver = "streamed"

    def __init__(self, cells: Cells, mixing: Mixing, space: SharedSpace) -> None:
        super().__init__(cells, mixing)
        self.space = space

    def _mixture(self, weights: FloatArray) -> Mixture:
        return Mixture(weights @ self.mixing.cells, self.between(weights))

    def apply(self, columns: FloatArray) -> FloatArray:
        """Return ``S_i @ columns`` for every group."""
        return self.sum_cells(self.space.images(columns), columns)

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
        enough = 0.25 * self.resolution
        for _ in range(1 if rough else _MOST_PASSES):
            if not self.space.refine(asked, r, _SPARE, enough):
                break
        return self.space.ritz(self._mixture(weights), width).pairs(r)
