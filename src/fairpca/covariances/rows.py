"""The oracle of few dense rows in many groups, of which only weighted sums are ever formed.

With k groups of m rows in all and n columns, k matrices would take k n^2 numbers and m n^2
operations, and every product with them k n^2 more. A weighted sum is one product of scaled rows, a
compression one of projected rows, and groups' own eigenvalues come from inner products of rows.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from scipy.linalg.blas import dsyrk

from fairpca._arrays import FloatArray, dot, expand
from fairpca.covariances.dense import DenseOracle, full_pairs
from fairpca.covariances.oracle import EigenPairs, Oracle
from fairpca.covariances.products import CellRows, Mixing


class RowOracle(DenseOracle):
    """The oracle of groups that are mixtures of cells of dense rows.

    Parameters
    ----------
    cells : CellRows
    mixing : Mixing
    """

    driver = "rows"

    def __init__(self, cells: CellRows, mixing: Mixing) -> None:
        self.n_groups, self.n_features = len(mixing.cells), cells.n_features
        self.scale = float(mixing.traces(cells.traces).max(initial=0.0))
        # Rows of all cells, then the directions between means: every group's matrix is a weighted
        # sum of their outer products.
        roots = (np.sqrt(shares)[:, None] for shares in cells.row_weights)
        scaled = (part * root for part, root in zip(cells.parts, roots, strict=True))
        self._rows = np.vstack([*scaled, mixing.directions])
        self._cells, self._mix = len(cells.parts), np.hstack([mixing.cells, mixing.outer])
        sizes = [*map(len, cells.parts), *np.ones(len(mixing.directions), dtype=int)]
        self._sizes = np.array(sizes, dtype=np.int64)
        self._edges = [0, *np.cumsum(self._sizes).tolist()]

    @property
    def matrices(self) -> FloatArray:
        """The matrices themselves; nobody needs them where this oracle is chosen."""
        return Oracle.matrices.fget(self)  # type: ignore[attr-defined,no-any-return]

    def apply(self, columns: Any) -> Any:
        """Return ``S_i @ columns`` for every group."""
        half = self.halves(columns)
        pieces = [self._rows[low:high].T @ half[low:high] for low, high in self._pieces()]
        return np.tensordot(self._mix, np.array(pieces), axes=1)

    def _pieces(self) -> Any:
        return itertools.pairwise(self._edges)

    def combine(self, weights: FloatArray) -> Any:
        """Return ``sum_i weights[i] S_i``."""
        of_rows = np.repeat(weights @ self._mix, self._sizes)
        total = np.zeros((self.n_features, self.n_features), order="F")
        for sign in (1.0, -1.0):
            some = np.flatnonzero(sign * of_rows > 0)
            if len(some):
                scaled = self._rows[some] * np.sqrt(sign * of_rows[some])[:, None]
                total = dsyrk(sign, scaled.T, beta=1.0, c=total, overwrite_c=1, lower=1)
        return total + np.tril(total, -1).T

    def halves(self, columns: Any) -> Any:
        """Return the projected rows."""
        return dot(self._rows, columns)

    def compressed(self, left: Any, right: Any) -> Any:
        """Return ``U.T @ S_i @ V`` for every group from rows projected to U and V."""
        pieces = [left[low:high].T @ right[low:high] for low, high in self._pieces()]
        return np.tensordot(self._mix, np.array(pieces), axes=1)

    def retained_variance(self, basis: Any) -> FloatArray:
        """Return ``Tr(basis.T @ S_i @ basis)`` for every group, shape (k,)."""
        half = self.halves(basis)
        kept = np.einsum("ij,ij->i", half, half)
        return np.asarray(self._mix @ np.add.reduceat(kept, self._edges[:-1]))

    def own_pairs(self, r: int) -> tuple[EigenPairs, ...]:
        """Return `r` leading eigenpairs of every matrix, from inner products of its rows."""
        found = []
        for i, of_rows in enumerate(np.repeat(self._mix, self._sizes, axis=1)):
            some = np.flatnonzero(of_rows)
            if len(some) >= self.n_features:
                found.append(self._own(np.eye(self.n_groups)[i], r, r + 1))
                continue
            self.n_eigen += 1
            rows = self._rows[some] * np.sqrt(of_rows[some])[:, None]
            inner = full_pairs(dot(rows, rows.T)).head(r)
            occupied = int(np.count_nonzero(inner.values > 1e-12 * inner.values[0]))
            columns = rows.T @ (inner.vectors[:, :occupied] / np.sqrt(inner.values[:occupied]))
            if occupied < r:
                # Past the rank any orthonormal directions serve.
                drawn = np.random.default_rng(0).standard_normal((self.n_features, r - occupied))
                columns = expand(columns, drawn / np.linalg.norm(drawn, axis=0))
            values = np.zeros(r)
            values[:occupied] = inner.values[:occupied]
            found.append(EigenPairs(values, columns))
        return tuple(found)
