"""The oracle of cells that are known by passes over rows stored elsewhere."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from fairpca._linalg import FloatArray
from fairpca.covariances.block_krylov import Mixture, Ritz, SharedSpace
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
        return self._settled([self._mixture(weights)], r, rough)[0].pairs(r)

    def own_pairs(self, r: int) -> tuple[EigenPairs, ...]:
        """Return the `r` leading eigenpairs of every matrix by itself.

        Losses are measured from their sums, so what these lack in digits a loss lacks, too.
        """
        own = [self._mixture(row) for row in np.eye(self.n_groups)]
        together = self.n_groups * (r + _SPARE) <= _WIDEST
        # The same passes serve all groups, unless the space would be too wide.
        batches = [own] if together else [[one] for one in own]
        self.n_eigen += self.n_groups
        found, slack = [], 0.0
        for batch in batches:
            for ritz in self._settled(batch, r):
                found.append(ritz.pairs(r))
                slack = max(slack, ritz.slack(r))
        self.own_slack = slack if slack > self._enough else 0.0
        return tuple(found)

    @property
    def _enough(self) -> float:
        """To how much a sum of eigenvalues is computed."""
        return 0.25 * self.resolution

    def _settled(self, asked: list[Mixture], r: int, rough: bool = False) -> list[Ritz]:
        """Widen the space until it has the `r` leading pairs of all mixtures; return them.

        After `_MOST_PASSES` they are what they are, and their residuals say so.
        """
        width, enough = r + _SPARE, self._enough
        fresh = self.space.start(min(len(asked) * width, _WIDEST))
        while True:
            for _ in range(1 if rough else _MOST_PASSES):
                if not self.space.refine(asked, r, _SPARE, enough):
                    break
            # A space that began with a random block for these very mixtures overlooks nothing.
            if rough or fresh or not self.space.blind:
                break
            # All are looked at before the next pass, which serves all that lack something.
            lacking = [self.space.overlooks(one, r, _SPARE, _MOST_PASSES) for one in asked]
            if not any(lacking):
                break
        return [self.space.ritz(one, width) for one in asked]
