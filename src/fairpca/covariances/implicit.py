"""Products with group covariances that are never formed, for sparse and very wide rows.

A covariance of n columns needs n^2 numbers; a product with it needs only the rows. Rows are kept
apart by cell, a cell being a combination of labels that occurs. Every group's matrix is a sum of
cells' covariances and of outer products of distances between means.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import scipy.sparse
from scipy.sparse.linalg import ArpackError, LinearOperator, aslinearoperator

from fairpca._checks import check_square
from fairpca._linalg import FloatArray, IntArray, is_sparse, rounding_level, symmetric
from fairpca.covariances.eigenpairs import EigenPairs, full_pairs, krylov_pairs, krylov_width
from fairpca.covariances.oracle import Oracle
from fairpca.moments.groups import Groups
from fairpca.moments.label_codes import Label
from fairpca.moments.memory import default_limit, moments_bytes

_TINY = float(np.finfo(float).tiny)
# Covariances of sparse rows are formed up to this many columns, and beyond while the square of
# that number is at most this many times the stored entries: a product with them is then not much
# slower than one with the rows. Measured on 1,000 to 5,000 columns of low rank and of text, two
# and four groups, 20 and 50 components: at a ratio of 5 covariances take from half to 1.7 times
# the time of products, at 10 and more they are mostly slower. If wrong, fits take longer and find
# the same.
_SPARSE_FROM, _ENTRIES = 512, 5
# Mean over standard deviation past which a column of sparse rows is stored dense and centred.
# Products with the rows as they are lose about the square of this number of units in the last
# place: nine hundred here. Such a column has fewer than one zero in a thousand entries, so storing
# it dense costs nothing.
_FAR = 30.0
# Products with single vectors, as a multiple of the columns, past which a matrix that fits is
# formed and decomposed instead. Where many eigenvalues are nearly tied, Krylov methods took 170
# times as many products as there were columns.
_MOST_PRODUCTS = 3


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
    def origin(self) -> FloatArray:
        """A point near the mean of every cell, or zero, shape (c, n)."""

    @property
    def offset(self) -> FloatArray:
        """Mean of every cell, relative to `origin`, shape (c, n)."""

    @property
    def labels(self) -> tuple[Label, ...]:
        """Label of every cell; None for unlabelled rows."""

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the label columns."""

    @property
    def n_features(self) -> int:
        """Number of columns."""


@dataclass(frozen=True)
class GroupOperators:
    """The rows of every cell, kept apart, with the cells' weights and means.

    Attributes
    ----------
    parts : tuple
        Per cell: its rows (anything that multiplies dense columns from both sides), relative to
        `origin`.
    row_weights : tuple of ndarray
        Per cell: the weight of every row, relative to the largest one of the cell.
    count, weight, traces : ndarray of shape (c,)
        Rows, total weight and total variance of every cell.
    offset : ndarray of shape (c, n)
        Mean of every cell, relative to `origin`.
    origin : ndarray of shape (c, n)
        What was subtracted from every row of the cell when its part was made: about the mean of
        dense rows; of others zero, but for columns of sparse rows that are far from zero there.
    labels, names : tuple
    """

    parts: tuple[Any, ...]
    row_weights: tuple[FloatArray, ...]
    count: IntArray
    weight: FloatArray
    traces: FloatArray
    offset: FloatArray
    origin: FloatArray
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
            if not X.has_canonical_format:
                # Sorting happens in place, and of float32 rows only the indices are shared with
                # what was given: the caller's entries would move to other columns.
                X = X.copy()
                X.sum_duplicates()
        groups = Groups.one(m) if groups is None else groups
        codes, labels, count = groups.cells()
        weights = np.ones(m) if sample_weight is None else sample_weight
        parts, row_weights = [], []
        (offset, origin), traces = np.zeros((2, len(labels), n)), np.zeros(len(labels))
        largest = np.ones(len(labels))
        for cell in range(len(labels)):
            picks = np.flatnonzero(codes == cell)
            part = _some_rows(X, picks) if isinstance(X, LinearOperator) else X[picks]
            # Products of very small weights would vanish; what counts is their size in the cell.
            largest[cell] = float(weights[picks].max(initial=0.0)) or 1.0
            w = weights[picks] / largest[cell]
            total = max(float(w.sum()), _TINY)
            aside, far = np.empty((len(picks), 0)), np.empty(0, dtype=np.intp)
            if is_sparse(part):
                part, aside, far, origin[cell] = _split_far_columns(part)
            elif isinstance(part, np.ndarray):
                with np.errstate(over="ignore", invalid="ignore"):
                    origin[cell] = w @ part / total
                    part = part - origin[cell]
            with np.errstate(over="ignore", invalid="ignore"):
                offset[cell] = part.T @ w / total
                traces[cell] = _variance(part, w, offset[cell]) / total
                offset[cell, far] = aside.T @ w / total
                traces[cell] += _variance(aside, w, offset[cell, far]) / total
            check_square(offset[cell], traces[cell])
            if len(far):
                part = _with_columns(part, aside, far)
            parts.append(part)
            row_weights.append(w)
        sums = np.array([w.sum() for w in row_weights]) * largest
        return cls(
            tuple(parts),
            tuple(row_weights),
            count,
            sums,
            traces,
            offset,
            origin,
            labels,
            groups.names,
        )

    @property
    def mean(self) -> FloatArray:
        """Mean of every cell, without the digits that `offset` has beside a large origin."""
        return self.offset + self.origin

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.offset.shape[1])

    def product(self, cell: int, columns: FloatArray) -> FloatArray:
        """Return the covariance of one cell times `columns`.

        Rows are centred implicitly: S v = X.T (w y) - mean (w . y) over the weight, with
        y = X v - mean . v. What rounding leaves of the mean of y is subtracted again: times the
        mean of the rows it would be the largest error of all.
        """
        if self.traces[cell] == 0:
            # Equal rows have no variance; products with them would return rounding.
            return np.zeros_like(columns)
        part, w, mean = self.parts[cell], self.row_weights[cell], self.offset[cell]
        shares = w / max(float(w.sum()), _TINY)
        centred = np.asarray(part @ columns) - mean @ columns
        centred -= shares @ centred
        centred *= shares[:, None]
        return np.asarray(part.T @ centred - np.outer(mean, centred.sum(axis=0)))


def wants_operators(X: Any, n_groups: int) -> bool:
    """Whether products beat explicit covariances for these rows."""
    m, n = X.shape
    if isinstance(X, LinearOperator):
        return True
    if is_sparse(X):
        return products_pay(n, n_groups, int(X.nnz))
    return m >= n and products_pay(n, n_groups, None)


def products_pay(n: int, n_groups: int, stored: int | None) -> bool:
    """Whether rows are better multiplied with than made into explicit covariances.

    Explicit ones take k n^2 numbers, and every iteration reads n^2 of them; products read the
    stored entries instead.

    Parameters
    ----------
    n, n_groups : int
        Columns and groups.
    stored : int or None
        Stored entries of sparse rows; None of dense ones.
    """
    if moments_bytes(n, n_groups) > default_limit():
        return True
    return stored is not None and n > _SPARSE_FROM and n * n > _ENTRIES * stored


def _split_far_columns(X: Any) -> tuple[Any, FloatArray, IntArray, FloatArray]:
    """Return a cell's sparse rows without the columns far from zero, and those centred and dense.

    A column of timestamps has a mean 1e5 times its spread; squares of it leave no digit of the
    spread. The last two results are the numbers of those columns, and what was subtracted from
    every column.
    """
    n = X.shape[1]
    with np.errstate(over="ignore", invalid="ignore"):
        far, mean = _far_columns(X)
    origin = np.zeros(n)
    origin[far] = mean[far]
    dense = X[:, far].toarray() - origin[far]
    if len(far):
        near = np.ones(n)
        near[far] = 0.0
        X = X @ scipy.sparse.diags_array(near, format="csr")
        X.eliminate_zeros()
    return X, dense, far, origin


def _far_columns(X: Any) -> tuple[IntArray, FloatArray]:
    """Return the columns of sparse rows with a mean large against the spread, and all means."""
    m, n = X.shape
    stored = np.bincount(X.indices, minlength=n)
    mean = np.bincount(X.indices, X.data, minlength=n) / max(m, 1)
    squares = np.bincount(X.indices, (X.data - mean[X.indices]) ** 2, minlength=n)
    variance = (squares + (m - stored) * mean**2) / max(m, 1)
    return np.flatnonzero(np.abs(mean) > _FAR * np.sqrt(variance)), mean


def _some_rows(operator: LinearOperator, picks: IntArray) -> LinearOperator:
    """Return some rows of an operator, as one."""
    entries = np.ones(len(picks)), (np.arange(len(picks)), picks)
    shape = (len(picks), operator.shape[0])
    return aslinearoperator(scipy.sparse.csr_array(entries, shape=shape)) @ operator


def _with_columns(left: Any, dense: FloatArray, columns: IntArray) -> LinearOperator:
    """Return sparse rows with some columns that are dense, as one operator."""

    def product(values: FloatArray) -> FloatArray:
        return np.asarray(left @ values + dense @ values[columns])

    def transposed(values: FloatArray) -> FloatArray:
        out = np.asarray(left.T @ values)
        out[columns] += dense.T @ values
        return out

    return LinearOperator(
        left.shape,
        matvec=product,
        rmatvec=transposed,
        matmat=product,
        rmatmat=transposed,
        dtype=np.float64,
    )


def _variance(part: Any, weights: FloatArray, mean: FloatArray) -> float:
    """Return the weighted sum of the rows' squared distances to their mean.

    Entries are centred before they are squared, those that sparse rows do not store included.
    What is left of rows that are all equal is rounding of the mean, and is returned as zero.
    """
    total = 0.0
    if is_sparse(part):
        stored = np.diff(part.indptr)
        total = float(np.repeat(weights, stored) @ (part.data - mean[part.indices]) ** 2)
        rows = np.bincount(part.indices, minlength=len(mean))
        # The weight of the rows without an entry, in two parts, the first of which adds up
        # without rounding: that of the whole weight, times the squared mean, can be more than
        # the variance.
        grid = np.exp2(np.ceil(np.log2(max(float(weights.sum()), _TINY))) - 26)
        coarse = np.round(weights / grid) * grid
        left = np.zeros(len(mean))
        for share in (coarse, weights - coarse):
            own = np.repeat(share, stored)
            left += share.sum() - np.bincount(part.indices, own, minlength=len(mean))
        total += float(np.where(rows < part.shape[0], np.maximum(left, 0.0), 0.0) @ mean**2)
    else:
        # A LinearOperator shows its entries only through products: take columns a few at a time.
        n = part.shape[1]
        for start in range(0, n, 256):
            some = slice(start, start + 256)
            # Of an array the columns themselves: products with the identity take as long as X.T X.
            dense = isinstance(part, np.ndarray)
            block = part[:, some] if dense else part @ np.eye(n, min(256, n - start), k=-start)
            total += float(weights @ np.sum((np.asarray(block) - mean[some]) ** 2, axis=1))
    dust = float(weights.sum()) * float(np.sum((16 * np.finfo(float).eps * mean) ** 2))
    # What is no number stays none, and is refused.
    return 0.0 if total <= dust else total


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


class MixtureOracle(Oracle):
    """The part of an oracle of mixtures of cells that needs no product.

    Parameters
    ----------
    cells : Cells
    mixing : Mixing
    distance : ndarray of shape (c,), optional
        Distance of every cell's mean from the origin of its rows. Products centre rows
        implicitly, so their rounding grows with it.
    """

    def __init__(self, cells: Cells, mixing: Mixing, distance: FloatArray | None = None) -> None:
        self.mixing = mixing
        self.n_groups, self.n_features = len(mixing.cells), cells.n_features
        with np.errstate(over="ignore", invalid="ignore"):
            self.traces = mixing.traces(cells.traces)
            self.scale = float(self.traces.max(initial=0.0))
            squares = np.zeros(self.n_groups) if distance is None else mixing.cells @ distance**2
            check_square(self.traces, squares)
        self._apart = float(np.sqrt(squares.max(initial=0.0)))

    @property
    def resolution(self) -> float:
        """Absolute accuracy of a sum of eigenvalues, the rounding of products included."""
        apart = self._apart * float(np.sqrt(self.scale))
        return rounding_level(self.scale + apart, self.n_features)

    def between(self, weights: FloatArray) -> FloatArray:
        """Return rows B with ``B.T @ B`` the part of the weighted sum made of distances."""
        return np.asarray(self.mixing.directions * np.sqrt(weights @ self.mixing.outer)[:, None])

    def sum_cells(self, images: FloatArray, columns: FloatArray) -> FloatArray:
        """Return ``S_g @ columns`` for every group from ``C_c @ columns`` of every cell."""
        mixing = self.mixing
        out = np.tensordot(mixing.cells, images, axes=1)
        inner = mixing.directions @ columns
        return np.asarray(out + np.einsum("gj,jn,jq->gnq", mixing.outer, mixing.directions, inner))


class OperatorOracle(MixtureOracle):
    """The oracle of groups that are mixtures of cells whose rows are in memory.

    Parameters
    ----------
    cells : GroupOperators
    mixing : Mixing
    """

    driver = "krylov"

    def __init__(self, cells: GroupOperators, mixing: Mixing) -> None:
        with np.errstate(over="ignore"):
            far = np.linalg.norm(cells.offset, axis=1)
        # Cells of equal rows are multiplied without rounding.
        super().__init__(cells, mixing, np.where(cells.traces > 0, far, 0.0))
        self.cells = cells

    def apply(self, columns: FloatArray) -> FloatArray:
        """Return ``S_i @ columns`` for every group."""
        images = [self.cells.product(cell, columns) for cell in range(len(self.cells.parts))]
        return self.sum_cells(np.array(images), columns)

    def leading(
        self, weights: FloatArray, r: int, start: FloatArray | None = None, rough: bool = False
    ) -> EigenPairs:
        """Return the `r` leading eigenpairs of the weighted sum."""
        self.n_eigen += 1
        n = self.n_features
        cell_weights = weights @ self.mixing.cells
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
        fits = moments_bytes(n, 1) <= default_limit()
        try:
            most = _MOST_PRODUCTS * n if fits else None
            return krylov_pairs(product, n, r, start, rough=rough, most=most)
        except ArpackError as error:
            if not fits:
                raise ValueError(
                    f"the leading {r} eigenvectors of {n:,} columns did not converge; ask for "
                    "fewer components (n_components), or pass dense rows with fewer columns."
                ) from error
            # Tied, or nearly so; the matrix itself still fits.
            return full_pairs(symmetric(product(np.eye(n)))).head(r)
