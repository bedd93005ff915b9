"""Products with group covariances that are never formed, for sparse and very wide rows.

A covariance of n columns needs n^2 numbers; a product with it needs only the rows. Rows are
centred implicitly: S v = X.T (w y) - mean (w . y) over the weight, with y = X v - mean . v.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse
from scipy.sparse.linalg import ArpackError, LinearOperator

from fairpca.arrays import FloatArray, IntArray, is_sparse, symmetric
from fairpca.checks import check_square
from fairpca.groups import Groups
from fairpca.labels import Label
from fairpca.solve.eigen import full_pairs, krylov_pairs
from fairpca.solve.oracle import EigenPairs, ProductOracle


@dataclass(frozen=True)
class GroupOperators:
    """The rows of every cell, kept apart, with the cells' weights and means.

    Attributes
    ----------
    parts : tuple
        Per cell: its rows (anything that multiplies dense columns from both sides).
    row_weights : tuple of ndarray
        Per cell: the weight of every row.
    count, weight, traces : ndarray of shape (c,)
        Rows, total weight and total variance of every cell.
    mean : ndarray of shape (c, n)
    labels, names : tuple
    """

    parts: tuple[Any, ...]
    row_weights: tuple[FloatArray, ...]
    count: IntArray
    weight: FloatArray
    traces: FloatArray
    mean: FloatArray
    labels: tuple[Label, ...]
    names: tuple[str, ...]

    @classmethod
    def from_rows(
        cls, X: Any, groups: Groups | None = None, sample_weight: FloatArray | None = None
    ) -> GroupOperators:
        """Prepare products with the covariances of sparse rows or of a LinearOperator.

        Parameters
        ----------
        X : sparse matrix or array, ndarray, or LinearOperator of shape (m, n)
        groups : Groups, optional
        sample_weight : ndarray of shape (m,), optional
        """
        m, n = X.shape
        if is_sparse(X):
            X = scipy.sparse.csr_array(X, dtype=np.float64)
        if groups is None:
            groups = Groups(np.zeros(m, dtype=np.int64), ("all",), ("all",), np.array([m]))
        unlabelled = bool((groups.codes < 0).any())
        codes = groups.codes + 1 if unlabelled else groups.codes
        labels = (None, *groups.labels) if unlabelled else groups.labels
        weights = np.ones(m) if sample_weight is None else sample_weight
        parts, row_weights = [], []
        mean, traces = np.zeros((len(labels), n)), np.zeros(len(labels))
        for cell in range(len(labels)):
            picks = np.flatnonzero(codes == cell)
            part = _RowsOf(X, picks) if isinstance(X, LinearOperator) else X[picks]
            w = weights[picks]
            total = max(float(w.sum()), np.finfo(float).tiny)
            with np.errstate(over="ignore", invalid="ignore"):
                mean[cell] = part.T @ w / total
                trace = _squares(part) @ w / total - mean[cell] @ mean[cell]
            check_square(mean[cell], trace)
            traces[cell] = max(trace, 0.0)
            parts.append(part)
            row_weights.append(w)
        return cls(
            tuple(parts),
            tuple(row_weights),
            np.array([len(w) for w in row_weights]),
            np.array([w.sum() for w in row_weights]),
            traces,
            mean,
            labels,
            groups.names,
        )

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.mean.shape[1])

    def product(self, cell: int, columns: FloatArray) -> FloatArray:
        """Return the covariance of one cell times `columns`."""
        part, w, mean = self.parts[cell], self.row_weights[cell], self.mean[cell]
        centred = np.asarray(part @ columns) - mean @ columns
        centred *= w[:, None] / max(self.weight[cell], np.finfo(float).tiny)
        return np.asarray(part.T @ centred - np.outer(mean, centred.sum(axis=0)))


def wants_operators(X: Any, n_groups: int) -> bool:
    """Whether products beat explicit covariances for these rows.

    Explicit ones cost m n^2 operations and k n^2 numbers; products cost the stored entries times
    some hundreds of iterations.
    """
    m, n = X.shape
    if isinstance(X, LinearOperator):
        return True
    if is_sparse(X):
        return bool(n > 512 and X.nnz < 0.1 * m * n)
    return bool(m >= n and n_groups * n * n * 8 > _MOST_BYTES)


# Explicit covariances of dense rows may take this much memory.
_MOST_BYTES = 8 << 30


class _RowsOf:
    """Some rows of a LinearOperator."""

    def __init__(self, operator: LinearOperator, picks: IntArray) -> None:
        self.operator, self.picks = operator, picks
        self.shape = (len(picks), operator.shape[1])
        self.T = _ColumnsOf(self)

    def __matmul__(self, columns: FloatArray) -> FloatArray:
        return np.asarray(self.operator @ columns)[self.picks]


class _ColumnsOf:
    """The transpose of some rows of a LinearOperator."""

    def __init__(self, rows: _RowsOf) -> None:
        self.rows = rows

    def __matmul__(self, values: FloatArray) -> FloatArray:
        full = np.zeros((self.rows.operator.shape[0], *values.shape[1:]))
        full[self.rows.picks] = values
        return np.asarray(self.rows.operator.T @ full)


def _squares(part: Any) -> FloatArray:
    """Return the sum of squares of every row."""
    if is_sparse(part):
        return np.asarray((part * part).sum(axis=1)).ravel()
    if isinstance(part, np.ndarray):
        return np.asarray(np.einsum("ij,ij->i", part, part))
    # A LinearOperator shows its entries only through products: take columns a few at a time.
    m, n = part.shape
    total = np.zeros(m)
    for start in range(0, n, 256):
        unit = np.eye(n, min(256, n - start), k=-start)
        total += np.sum(np.asarray(part @ unit) ** 2, axis=1)
    return total


class Cells(Protocol):
    """What is known of cells before any product."""

    @property
    def count(self) -> IntArray:
        """Rows of every cell, shape (c,)."""

    @property
    def weight(self) -> FloatArray:
        """Total weight of every cell."""

    @property
    def traces(self) -> FloatArray:
        """Total variance of every cell."""

    @property
    def mean(self) -> FloatArray:
        """Mean of every cell, shape (c, n)."""

    @property
    def labels(self) -> tuple[Label, ...]:
        """Label of every cell; None for unlabelled rows."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the label columns."""

    @property
    def n_features(self) -> int:
        """Number of columns."""


class MixtureOracle(ProductOracle):
    """The part of an oracle of mixtures of cells that needs no product.

    Parameters
    ----------
    cells : Cells
    mixing : ndarray of shape (k, c)
        Share of every cell in every group (rows sum to one).
    scales : ndarray of shape (k,)
        Factor of every group's matrix, for criteria that divide by the variance.
    """

    def __init__(self, cells: Cells, mixing: FloatArray, scales: FloatArray) -> None:
        self.mixing = mixing * scales[:, None]
        self.n_groups, self.n_features = len(mixing), cells.n_features
        self.n_eigen = 0
        means = mixing @ cells.mean
        # Between-cell part: one direction per (group, cell) pair that is not the cell itself.
        pairs = [(g, c) for g, c in np.argwhere(mixing > 0) if mixing[g, c] < 1]
        self._owner = np.array([g for g, _ in pairs], dtype=np.int64)
        shifts = [np.sqrt(self.mixing[g, c]) * (cells.mean[c] - means[g]) for g, c in pairs]
        self._shifts = np.array(shifts).reshape(-1, self.n_features)
        self.traces = self.mixing @ cells.traces + np.bincount(
            self._owner, np.sum(self._shifts**2, axis=1), minlength=self.n_groups
        )
        self.scale = float(self.traces.max(initial=0.0))

    def between(self, weights: FloatArray) -> FloatArray:
        """Return rows B with ``B.T @ B`` the between-cell part of the weighted sum."""
        return np.asarray(self._shifts * np.sqrt(weights[self._owner])[:, None])

    def add_between(self, out: FloatArray, columns: FloatArray) -> FloatArray:
        """Add every group's between-cell part times `columns` to `out`."""
        for g, shift in zip(self._owner, self._shifts, strict=True):
            out[g] += np.outer(shift, shift @ columns)
        return out


class OperatorOracle(MixtureOracle):
    """The oracle of groups that are mixtures of cells whose rows are in memory.

    Parameters
    ----------
    cells : GroupOperators
    mixing, scales
        As in `MixtureOracle`.
    """

    resolved = "krylov"

    def __init__(self, cells: GroupOperators, mixing: FloatArray, scales: FloatArray) -> None:
        super().__init__(cells, mixing, scales)
        self.cells = cells

    def apply(self, columns: FloatArray) -> FloatArray:
        """Return ``S_i @ columns`` for every group."""
        out = np.zeros((self.n_groups, *columns.shape))
        for cell in range(len(self.cells.parts)):
            product = self.cells.product(cell, columns)
            for g in np.flatnonzero(self.mixing[:, cell]):
                out[g] += self.mixing[g, cell] * product
        return self.add_between(out, columns)

    def leading(
        self, weights: FloatArray, r: int, start: FloatArray | None = None, rough: bool = False
    ) -> EigenPairs:
        """Return the `r` leading eigenpairs of the weighted sum."""
        self.n_eigen += 1
        n = self.n_features
        cell_weights = weights @ self.mixing
        between = self.between(weights)

        def product(columns: FloatArray) -> FloatArray:
            if columns.ndim == 1:
                return product(columns[:, None])[:, 0]
            out = np.asarray(between.T @ (between @ columns))
            for cell in np.flatnonzero(cell_weights):
                out += cell_weights[cell] * self.cells.product(int(cell), columns)
            return out

        if r >= n - 1:
            return full_pairs(symmetric(product(np.eye(n)))).head(r)
        try:
            return krylov_pairs(product, n, r, start, rough=rough)
        except ArpackError as error:
            raise RuntimeError(
                f"the leading {r} eigenvectors did not converge; ask for fewer components, or "
                "pass dense rows with fewer columns."
            ) from error
