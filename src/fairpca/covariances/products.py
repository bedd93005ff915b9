"""Products with group covariances that are never formed, for sparse and very wide rows.

A covariance of n columns needs n^2 numbers; a product with it needs only the rows. Rows are kept
apart by cell, a cell being a combination of labels that occurs. Every group's matrix is a sum of
cells' covariances and of outer products of distances between means.

Of few dense rows in many groups only weighted sums are ever formed (`RowOracle`). With k groups of
m rows in all and n columns, k matrices would take k n^2 numbers and m n^2 operations, and every
product with them k n^2 more. A weighted sum is one product of scaled rows, a compression one of
projected rows, and groups' own eigenvalues come from inner products of rows.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse
from scipy.linalg.blas import dsyrk
from scipy.sparse.linalg import ArpackError

from fairpca._arrays import (
    FloatArray,
    IntArray,
    dot,
    expand,
    fetched,
    is_foreign,
    is_sparse,
    mirrored,
    rounding_level,
    symmetric,
)
from fairpca._check import check_square
from fairpca.covariances.dense import DenseOracle, full_pairs
from fairpca.covariances.oracle import EigenPairs, Oracle
from fairpca.covariances.partial import krylov_pairs, krylov_width
from fairpca.moments.group_moments import some_rows
from fairpca.moments.groups import Groups, Label

# Products with single vectors, as a multiple of the columns, past which a matrix that fits is
# formed and decomposed instead. Where many eigenvalues are nearly tied, Krylov methods took 170
# times as many products as there were columns.
_MOST_PRODUCTS = 3


@dataclass(frozen=True)
class CellRows:
    """The rows of every cell, kept apart, with the cells' weights and means.

    Attributes
    ----------
    parts : tuple
        Per cell: its rows (anything that multiplies dense columns from both sides), dense ones
        less their mean.
    row_weights : tuple of ndarray
        Per cell: the share of every row in its weight.
    count, weight, traces : ndarray of shape (c,)
        Rows, total weight and total variance of every cell.
    mean, offset : ndarray of shape (c, n)
        Mean of every cell, and of what `parts` holds.
    labels, names : tuple
    """

    parts: tuple[Any, ...]
    row_weights: tuple[FloatArray, ...]
    count: IntArray
    weight: FloatArray
    traces: FloatArray
    mean: FloatArray
    offset: FloatArray
    labels: tuple[Label, ...]
    names: tuple[str, ...]

    @classmethod
    def from_rows(
        cls, X: Any, groups: Groups, sample_weight: FloatArray | None = None
    ) -> CellRows:
        """Prepare products with the covariances of dense or sparse rows or of a LinearOperator.

        Parameters
        ----------
        X : sparse matrix or array, ndarray, or LinearOperator of shape (m, n)
        groups : Groups
        sample_weight : ndarray of shape (m,), optional
        """
        m, n = X.shape
        if is_sparse(X):
            X = scipy.sparse.csr_array(X, dtype=np.float64)
        elif is_foreign(X):
            X = fetched(X)
        codes, labels, count = groups.cells()
        codes = fetched(codes)
        weights: FloatArray = np.ones(m) if sample_weight is None else sample_weight
        parts, row_weights = [], []
        (mean, offset), traces = np.zeros((2, len(labels), n)), np.zeros(len(labels))
        for cell in range(len(labels)):
            picks = np.flatnonzero(codes == cell)
            part = some_rows(X, picks)
            w = weights[picks] / weights[picks].sum()
            with np.errstate(over="ignore", invalid="ignore"):
                mean[cell] = part.T @ w
                if isinstance(part, np.ndarray):
                    part = part - mean[cell]
                    part -= w @ part
                    traces[cell] = w @ np.einsum("ij,ij->i", part, part)
                else:
                    offset[cell] = mean[cell]
                    traces[cell] = _variance(part, w, mean[cell])
            parts.append(part)
            row_weights.append(w)
        check_square(mean, traces)
        totals: FloatArray = np.bincount(codes, weights, len(labels)).astype(float, copy=False)
        rows = tuple(parts), tuple(row_weights)
        return cls(*rows, count, totals, traces, mean, offset, labels, groups.names)

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.mean.shape[1])

    def product(self, cell: int, columns: FloatArray) -> FloatArray:
        """Return the covariance of one cell times `columns`.

        Rows are centred implicitly: S v = X.T (w y) - mean (w . y), with y = X v - mean . v. What
        rounding leaves of the mean of y is subtracted again: times the mean of the rows it would
        be the largest error of all.
        """
        part, shares, mean = self.parts[cell], self.row_weights[cell], self.offset[cell]
        centred = np.asarray(part @ columns) - mean @ columns
        centred -= shares @ centred
        centred *= shares[:, None]
        return np.asarray(part.T @ centred - np.outer(mean, centred.sum(axis=0)))


def _variance(part: Any, shares: FloatArray, mean: FloatArray) -> float:
    """Return the weighted mean of the rows' squared distances to their mean."""
    if is_sparse(part):
        stored = np.repeat(shares, np.diff(part.indptr))
        inside = float(stored @ (part.data - mean[part.indices]) ** 2)
        # The weight of the rows without an entry in a column.
        left = 1 - np.bincount(part.indices, stored, minlength=len(mean))
        return inside + float(np.maximum(left, 0.0) @ mean**2)
    # A LinearOperator shows its entries only through products: take columns a few at a time.
    total, n = 0.0, part.shape[1]
    for start in range(0, n, 256):
        block = part @ np.eye(n, min(256, n - start), k=-start)
        total += float(shares @ np.sum((block - mean[start : start + 256]) ** 2, axis=1))
    return total


@dataclass(frozen=True)
class Mixing:
    """How groups' matrices are made of cells' covariances and of distances between means.

    ``S_g = sum_c cells[g, c] C_c + sum_j outer[g, j] d_j d_j.T`` for the rows d_j of `directions`.

    Attributes
    ----------
    cells : ndarray of shape (k, c)
    directions : ndarray of shape (j, n)
    outer : ndarray of shape (k, j)
    """

    cells: FloatArray
    directions: FloatArray
    outer: FloatArray

    def mixed(self, matrix: FloatArray) -> Mixing:
        """Return the mixing of new groups that are weighted sums of these."""
        return Mixing(matrix @ self.cells, self.directions, matrix @ self.outer)

    def traces(self, cell_traces: FloatArray) -> FloatArray:
        """Return the trace of every group's matrix."""
        lengths = np.sum(self.directions**2, axis=1)
        return np.asarray(self.cells @ cell_traces + self.outer @ lengths)


class OperatorOracle(Oracle):
    """The oracle of groups that are mixtures of cells, known by products only.

    Parameters
    ----------
    cells : CellRows
    mixing : Mixing
    fits : bool
        Whether one matrix of all columns may be formed where products do not converge.
    """

    driver, cheap_products = "krylov", False

    def __init__(self, cells: CellRows, mixing: Mixing, fits: bool = True) -> None:
        self.cells, self.mixing, self._fits = cells, mixing, fits
        self.n_groups, self.n_features = len(mixing.cells), cells.n_features
        self.traces = mixing.traces(cells.traces)
        self.scale = float(self.traces.max(initial=0.0))
        # Products centre rows implicitly, so their rounding grows with the means.
        far = mixing.cells @ np.sum(cells.offset**2, axis=1)
        check_square(self.traces, far)
        self._apart = float(np.sqrt(far.max(initial=0.0) * self.scale))

    @property
    def resolution(self) -> float:
        """Absolute accuracy of a sum of eigenvalues, the rounding of products included."""
        return rounding_level(self.scale + self._apart, self.n_features)

    def between(self, weights: FloatArray) -> FloatArray:
        """Return rows B with ``B.T @ B`` the part of the weighted sum made of distances."""
        return np.asarray(self.mixing.directions * np.sqrt(weights @ self.mixing.outer)[:, None])

    def apply(self, columns: Any) -> Any:
        """Return ``S_i @ columns`` for every group."""
        mixing = self.mixing
        images = [self.cells.product(cell, columns) for cell in range(len(self.cells.parts))]
        out = np.tensordot(mixing.cells, np.array(images), axes=1)
        inner = mixing.directions @ columns
        return out + np.einsum("gj,jn,jq->gnq", mixing.outer, mixing.directions, inner)

    def leading(
        self, weights: FloatArray, r: int, start: Any = None, rough: bool = False
    ) -> EigenPairs:
        """Return the `r` leading eigenpairs of the weighted sum."""
        self.n_eigen += 1
        n, cell_weights = self.n_features, weights @ self.mixing.cells
        between = self.between(weights)

        def product(columns: FloatArray) -> FloatArray:
            if columns.ndim == 1:
                return product(columns[:, None])[:, 0]
            out = np.asarray(between.T @ (between @ columns))
            for cell in np.flatnonzero(cell_weights):
                out += cell_weights[cell] * self.cells.product(int(cell), columns)
            return out

        if n <= krylov_width(r):
            # The Krylov space would be everything, and one vector at a time is slow.
            return full_pairs(symmetric(product(np.eye(n)))).head(r)
        try:
            most = _MOST_PRODUCTS * n if self._fits else None
            return krylov_pairs(product, n, r, start, rough=rough, most=most)
        except ArpackError as error:
            if not self._fits:
                raise ValueError(
                    f"the leading {r} eigenvectors of {n:,} columns did not converge; ask for "
                    "fewer components (n_components), or pass dense rows with fewer columns."
                ) from error
            # Tied, or nearly so; the matrix itself still fits.
            return full_pairs(symmetric(product(np.eye(n)))).head(r)


class RowOracle(DenseOracle):
    """The oracle of groups that are mixtures of cells of dense rows.

    Parameters
    ----------
    cells : CellRows
    mixing : Mixing
    """

    driver = "rows"
    # The weights of the last sum, and the sum.
    _last: tuple[FloatArray, FloatArray] | None = None

    def __init__(self, cells: CellRows, mixing: Mixing) -> None:
        self.n_groups, self.n_features = len(mixing.cells), cells.n_features
        self.scale = float(mixing.traces(cells.traces).max(initial=0.0))
        # Rows of all cells, then the directions between means: every group's matrix is a weighted
        # sum of their outer products.
        roots = (np.sqrt(shares)[:, None] for shares in cells.row_weights)
        scaled = (part * root for part, root in zip(cells.parts, roots, strict=True))
        self._rows = np.vstack([*scaled, mixing.directions])
        self._mix = np.hstack([mixing.cells, mixing.outer])
        sizes = [*map(len, cells.parts), *np.ones(len(mixing.directions), dtype=int)]
        self._sizes = np.array(sizes, dtype=np.int64)
        self._edges = [0, *np.cumsum(self._sizes).tolist()]

    # Formed by products; nobody needs them where this oracle is chosen.
    matrices = Oracle.matrices

    def apply(self, columns: Any) -> Any:
        """Return ``S_i @ columns`` for every group."""
        return self.compressed(self._rows, self.halves(columns))

    def combine(self, weights: FloatArray) -> Any:
        """Return ``sum_i weights[i] S_i``."""
        if self._last is not None and np.array_equal(self._last[0], weights):
            return self._last[1]
        of_rows = np.repeat(weights @ self._mix, self._sizes)
        total = np.zeros((self.n_features, self.n_features))
        for sign in (1.0, -1.0):
            some = sign * of_rows > 0
            if some.any():
                rows = self._rows if some.all() else self._rows[some]
                scaled = rows * np.sqrt(np.abs(of_rows[some]))[:, None]
                dsyrk(sign, scaled.T, beta=1.0, c=total.T, overwrite_c=1)
        # The proof asks for the matrix that was decomposed last.
        self._last = weights.copy(), mirrored(total)
        return total

    def halves(self, columns: Any) -> Any:
        """Return the projected rows."""
        return dot(self._rows, columns)

    def compressed(self, left: Any, right: Any) -> Any:
        """Return ``U.T @ S_i @ V`` for every group from rows projected to U and V."""
        pieces = [left[a:b].T @ right[a:b] for a, b in itertools.pairwise(self._edges)]
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
