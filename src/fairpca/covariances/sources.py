"""What a fit needs to know of the data, and the four ways to know it.

`MomentCovariances` has explicit matrices; `RowSpaceCovariances` has them in the coordinates of the
rows' span, for dense rows with more columns than rows; `RowCovariances` keeps few rows of many
groups; `OperatorCovariances` has only products, for sparse and very wide rows. `choose_source`
tells which one serves given rows; the estimator does not ask which one it was given.
"""

from __future__ import annotations

import copy
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, NamedTuple, Self

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import LinearOperator

from fairpca._arrays import (
    TINY,
    FloatArray,
    IntArray,
    diagonals,
    fetched,
    is_sparse,
    library_of,
    placed,
    symmetric,
)
from fairpca._check import check_finite, check_square
from fairpca.covariances.dense import DenseOracle, leading_pairs
from fairpca.covariances.oracle import Oracle
from fairpca.covariances.products import CellRows, Mixing, OperatorOracle, RowOracle
from fairpca.moments.group_moments import GroupMoments, memberships, split_folds
from fairpca.moments.groups import Groups, Label

#: What second moments may be about: the mean of all rows, or each group's own.
CENTERS = ("global", "group")
# Rounding of the mean of all rows that counts in a group's matrix, in the units of `resolution`,
# which are eight times as large as one rounding. Of 50,000 tables the worst needed half of this.
_MEAN_ROUNDING = 0.25
# Rows are solved in the coordinates of their span with more columns than this, and more than this
# many columns a row: below, explicit covariances cost no more than finding the coordinates.
_WIDE_FROM, _WIDE_SHARE = 256, 1.5
# Covariances of sparse rows are formed up to this many columns, and beyond while the square of
# that number is at most this many times the stored entries: a product with them is then not much
# slower than one with the rows.
_SPARSE_FROM, _ENTRIES = 512, 5
# Rows are kept instead of matrices from this many columns on, where they are at most this share
# of the numbers that the matrices of three or more groups have, and r at most this share of n.
_FEW_FROM, _FEW_SHARE, _FEW_RANK = 200, 1 / 4, 1 / 8
# Folds that ``shrinkage="auto"`` leaves out in turn.
FOLDS = 5


@dataclass(frozen=True)
class GroupFacts:
    """The groups whose worst is minimised.

    Attributes
    ----------
    labels, names : tuple
    count : ndarray of shape (k,)
        Rows.
    weight : ndarray of shape (k,)
    mean : ndarray of shape (k, n)
    traces : ndarray of shape (k,)
        Of the groups' matrices.
    shift : ndarray of shape (k, p)
        Mean of the group minus that of all rows, or minus another origin that the source was
        given, in the source's coordinates.
    """

    labels: tuple[Label, ...]
    names: tuple[str, ...]
    count: IntArray
    weight: FloatArray
    mean: FloatArray
    traces: FloatArray
    shift: FloatArray

    def shares(self, retained: FloatArray) -> FloatArray:
        """Return which share of its variance each group keeps, shape (k,); one if it has none."""
        ones = np.ones_like(retained)
        return np.divide(retained, self.traces, out=ones, where=self.traces > 0)


@dataclass(frozen=True)
class TotalFacts:
    """All rows together, unlabelled ones included; the trace is of the biased covariance."""

    count: int
    weight: float
    mean: FloatArray
    trace: float


class CovarianceSource(ABC):
    """The groups, all rows together, and the matrices.

    Attributes
    ----------
    groups : GroupFacts
    total : TotalFacts
    center : {"global", "group"}
        What every group's second moments are about: the mean of all rows, or the group's own.
    moments : GroupMoments or None
        What `partial_fit` merges further rows with; None if rows were not kept as moments.
    folds : list of GroupMoments or None
        The same rows in parts, where they were counted so.
    """

    groups: GroupFacts
    total: TotalFacts
    center: str
    moments: GroupMoments | None = None
    folds: list[GroupMoments] | None = None

    @abstractmethod
    def oracle(self, scales: FloatArray) -> Oracle:
        """Return the oracle of every group's matrix times its scale."""

    @abstractmethod
    def total_compression(self, basis: FloatArray) -> Any:
        """Return ``basis.T C basis`` for the biased covariance C of all rows, where that lives."""

    @abstractmethod
    def total_pca(self, r: int) -> FloatArray:
        """Return the leading `r` eigenvectors of the covariance of all rows, as columns."""

    @abstractmethod
    def _mix(self, matrix: FloatArray) -> None:
        """Replace the groups' matrices, in a copy of the source, by weighted sums of them."""

    def shrunk(self, shares: FloatArray) -> Self:
        """Return the same data with every group's matrix moved towards what all groups share.

        Parameters
        ----------
        shares : ndarray of shape (k,)
            Group g gets ``(1 - shares[g]) S_g + shares[g] W``, where W is the mean of all S_g by
            weight.
        """
        pooled = self.groups.weight / self.groups.weight.sum()
        found = copy.copy(self)
        found._mix(np.diag(1 - shares) + np.outer(shares, pooled))
        return found

    def to_features(self, basis: FloatArray) -> FloatArray:
        """Return the columns of `basis` in the original coordinates."""
        return basis

    def errors(self, basis: FloatArray, retained: FloatArray) -> FloatArray:
        """Return each group's mean squared distance between its rows and their reconstruction.

        `transform` subtracts the mean of all rows from everybody, so the reconstruction goes
        through that mean, whatever the matrices are about.

        Parameters
        ----------
        basis : ndarray of shape (p, r)
            In the source's coordinates.
        retained : ndarray of shape (k,)
            What the basis keeps of every group's matrix.

        Returns
        -------
        ndarray of shape (k,)
        """
        found = self.groups.traces - retained
        if self.center == "group":
            # A matrix about the group's own mean does not know how far that mean lies outside.
            shift, basis = self.groups.shift, fetched(basis)
            found = found + np.sum(shift**2, axis=1) - np.sum((shift @ basis) ** 2, axis=1)
        return np.maximum(found, 0.0)


class MomentCovariances(CovarianceSource):
    """Groups known by their moments, as explicit matrices.

    Parameters
    ----------
    moments : GroupMoments, or a list of them
        A list has the same rows in folds.
    group_by : {"intersection", "marginal"}
    center : {"global", "group"}
    origin : ndarray of shape (n,), optional
        What "global" second moments are about; by default the mean of all rows.
    """

    # Columns of rows that were put into fewer coordinates before they were counted, else 0. Each
    # coordinate is a sum over all columns, and its rounding grows with their number.
    _summed = 0

    def __init__(
        self,
        moments: Any,
        group_by: str = "intersection",
        center: str = "global",
        origin: FloatArray | None = None,
    ) -> None:
        if isinstance(moments, list):
            self.folds = [fold.grouped(group_by) for fold in moments]
            moments = reduce(GroupMoments.merge, moments)
        self.moments, self.center, self._pooled = moments, center, group_by == "marginal"
        chosen, total = moments.grouped(group_by), moments.pooled()
        self.covariances, everything = chosen.covariances, total.covariances
        self._total, trace = everything[0, :, :], float(diagonals(everything).sum())
        shift = chosen.distances_from(total)
        if origin is not None:
            shift = shift + (total.mean - origin)
        if center == "global":
            way = placed(shift, self.covariances)
            # One matrix after the other: all at once would take the memory of all once more.
            for i in range(len(shift)):
                self.covariances[i, :, :] += way[i, :, None] * way[i, None, :]
        traces = diagonals(self.covariances).sum(axis=1)
        # Small weights make numbers of squares that are none by themselves.
        check_square(traces, trace)
        self.groups = GroupFacts(
            chosen.labels, chosen.names, chosen.count, chosen.weight, chosen.mean, traces, shift
        )
        self.total = TotalFacts(int(total.count[0]), float(total.weight[0]), total.mean[0], trace)

    def oracle(self, scales: FloatArray) -> Oracle:
        """Return the oracle of the scaled matrices."""
        apart, n = 0.0, self.covariances.shape[1]
        if self._summed > n:
            size = float((scales * self.groups.traces).max(initial=0.0))
            apart = size * float(np.sqrt((self._summed + 6) / (n + 6)))
        if np.all(scales == 1):
            return DenseOracle(self.covariances, float(self.groups.traces.max(initial=0.0)), apart)
        if self.center == "global" or self._pooled:
            # A group of few rows near the mean of all, or of cells far from it, has the rounding
            # of that mean, which is one of the standard deviation of all rows, and a scale can
            # make it large.
            sizes = np.sqrt(scales * self.groups.traces) * np.sqrt(scales * self.total.trace)
            apart = max(apart, _MEAN_ROUNDING * float(sizes.max(initial=0.0)))
        scaled = self.covariances * placed(scales[:, None, None], self.covariances)
        return DenseOracle(scaled, apart=apart)

    def _mix(self, matrix: FloatArray) -> None:
        shape, xp = self.covariances.shape, library_of(self.covariances)
        flat = xp.reshape(self.covariances, (shape[0], -1))
        self.covariances = xp.reshape(placed(matrix, flat) @ flat, shape)
        self.groups = replace(self.groups, traces=diagonals(self.covariances).sum(axis=1))

    def total_compression(self, basis: FloatArray) -> Any:
        """Return the covariance of all rows in `basis`."""
        there = placed(basis, self._total)
        return symmetric(there.T @ (self._total @ there))

    def total_pca(self, r: int) -> FloatArray:
        """Return the leading eigenvectors of the covariance of all rows."""
        # In units of the trace: squares of very large variances are no numbers.
        return leading_pairs(fetched(self._total) / (self.total.trace or 1.0), r).vectors


class RowSpaceCovariances(MomentCovariances):
    """Dense rows with more columns than rows, in coordinates of their span.

    Nothing outside the span of the m centred rows carries variance, so an m x m problem has the
    same answer. The coordinates come from a QR decomposition of the rows, about 2 m^2 n
    operations; unlike those from inner products of rows they are right to rounding for every row
    by itself, however much smaller it is than the others.
    """

    def __init__(
        self, X: Any, groups: Groups, weight: FloatArray | None, in_folds: bool, **how: Any
    ) -> None:
        check_finite(X)
        rows, self._span = in_span(X, groups, weight)
        super().__init__(counted(rows, groups, weight, in_folds), **how)
        # In coordinates of a span nothing can be merged with rows of another one.
        self.moments, self._summed = None, X.shape[1]
        self.total = replace(self.total, mean=self._span.point(self.total.mean))
        self.groups = replace(self.groups, mean=self._span.point(self.groups.mean))

    def to_features(self, basis: FloatArray) -> FloatArray:
        """Return the columns of `basis` in the original coordinates."""
        return np.asarray(self._span.directions @ basis)


class OperatorCovariances(CovarianceSource):
    """Sparse or very wide rows, known by products only.

    Parameters
    ----------
    cells : CellRows
    group_by : {"intersection", "marginal"}
    center : {"global", "group"}
    origin : ndarray of shape (n,), optional
        What "global" second moments are about; by default the mean of all rows.
    """

    def __init__(
        self,
        cells: CellRows,
        group_by: str = "intersection",
        center: str = "global",
        origin: FloatArray | None = None,
    ) -> None:
        self.cells, self.center = cells, center
        labels, member = memberships(cells.labels, cells.names, group_by)
        shares = _shares(member, cells.weight)
        everything = _shares(np.ones((1, len(cells.labels))), cells.weight)
        mean = (everything @ cells.mean)[0]
        apart = cells.mean - mean
        self._everything = Mixing(everything, apart, everything)
        self._mixing = Mixing(shares, apart if origin is None else cells.mean - origin, shares)
        if center == "group":
            self._mixing = _about_own_means(cells, shares)
        shift = shares @ cells.mean - (mean if origin is None else origin)
        count, weight, means = member @ cells.count, member @ cells.weight, shares @ cells.mean
        traces = self._mixing.traces(cells.traces)
        self.groups = GroupFacts(labels, cells.names, count, weight, means, traces, shift)
        trace = float(self._everything.traces(cells.traces)[0])
        self.total = TotalFacts(int(cells.count.sum()), float(cells.weight.sum()), mean, trace)

    def oracle(self, scales: FloatArray) -> Oracle:
        """Return the oracle of products with the scaled matrices."""
        return self._oracle(self._mixing.mixed(np.diag(scales)))

    def _oracle(self, mixing: Mixing) -> Oracle:
        return OperatorOracle(self.cells, mixing, fits(self.cells.n_features, 1))

    def _mix(self, matrix: FloatArray) -> None:
        self._mixing = self._mixing.mixed(matrix)
        self.groups = replace(self.groups, traces=self._mixing.traces(self.cells.traces))

    def total_compression(self, basis: FloatArray) -> FloatArray:
        """Return the covariance of all rows in `basis`."""
        return np.asarray(self._oracle(self._everything).project(basis)[0])

    def total_pca(self, r: int) -> FloatArray:
        """Return the leading eigenvectors of the covariance of all rows."""
        # In units of the trace, as for moments.
        trace = self.total.trace
        mixing = self._everything.mixed(np.eye(1) / (trace if trace >= TINY else 1.0))
        return self._oracle(mixing).leading(np.ones(1), r).vectors


class RowCovariances(OperatorCovariances):
    """Few dense rows in three or more groups: only weighted sums of matrices are ever formed."""

    def _oracle(self, mixing: Mixing) -> Oracle:
        return RowOracle(self.cells, mixing)


def _shares(member: FloatArray | IntArray, weight: FloatArray) -> FloatArray:
    """Return the share of every cell in every group; rows sum to one where there is weight."""
    found = member * weight
    totals = found.sum(axis=1, keepdims=True)
    return np.asarray(found / np.where(totals > 0, totals, 1.0))


def _about_own_means(cells: CellRows, shares: FloatArray) -> Mixing:
    """Return the mixing of groups about their own means.

    A group of several cells has, beside their covariances, one direction for each cell: from the
    group's mean to the cell's.
    """
    directions, outer = [np.empty((0, cells.n_features))], [np.empty((len(shares), 0))]
    for g, share in enumerate(shares):
        inside = np.flatnonzero(share)
        if len(inside) > 1:
            directions.append(cells.mean[inside] - share[inside] @ cells.mean[inside])
            outer.append(np.where(np.arange(len(shares))[:, None] == g, share[inside], 0.0))
    return Mixing(shares, np.concatenate(directions), np.hstack(outer))


def memory_limit() -> int:
    """Return the bytes that matrices may take: a quarter of the memory, the solver needs more."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4
    except (AttributeError, OSError, ValueError):
        return 4 * 2**30


def fits(n_features: int, n_groups: int) -> bool:
    """Whether explicit matrices of so many groups fit into the memory."""
    return 8 * n_groups * n_features**2 <= memory_limit()


def is_wide(X: Any, r: int) -> bool:
    """Whether rows with far more columns than rows are best put into coordinates of their span."""
    m, n = X.shape
    return isinstance(X, np.ndarray) and n > _WIDE_SHARE * m and n > _WIDE_FROM and r < m


def is_for_products(X: Any, n_groups: int, r: int, in_folds: bool = False) -> bool:
    """Whether products with rows beat explicit covariances of so many groups."""
    n = X.shape[1]
    if isinstance(X, LinearOperator):
        return True
    if fits(n, n_groups * (FOLDS if in_folds else 1)):
        few = is_sparse(X) and n > _SPARSE_FROM and n * n > _ENTRIES * X.nnz
        return few and not in_folds
    return is_sparse(X) or not is_wide(X, r)


def dense_if_wide(X: Any, r: int) -> Any:
    """Return sparse rows, and those known by products, as dense ones where these are then wide.

    For whoever needs moments, one matrix of all columns a group: dense rows are smaller than one.
    Rows that would not fit stay as they are.
    """
    m, n = X.shape
    few = n > _WIDE_SHARE * m and n > _WIDE_FROM and r < m and 8 * m * n <= memory_limit()
    if few and isinstance(X, LinearOperator):
        return np.ascontiguousarray((X.T @ np.eye(m)).T)
    return X.toarray() if few and is_sparse(X) else X


class Span(NamedTuple):
    """What rows span, with coordinates in which lengths and angles are those of the rows.

    What rests on these alone, such as every loss and error of a projection, is the same there.

    Attributes
    ----------
    directions : ndarray of shape (n, q)
        Orthonormal columns.
    origin : ndarray of shape (n,)
        The point that has the coordinates zero: the mean of the rows.
    """

    directions: FloatArray
    origin: FloatArray

    def inside(self, columns: FloatArray) -> FloatArray:
        """Return columns in these coordinates; what lies outside is no part of any row."""
        return np.asarray(self.directions.T @ columns)

    def coordinates(self, point: FloatArray) -> FloatArray:
        """Return the coordinates of a point."""
        return self.inside(point - self.origin)

    def point(self, coordinates: FloatArray) -> FloatArray:
        """Return the point, or points, that have these coordinates."""
        return np.asarray(self.origin + coordinates @ self.directions.T)


def in_span(
    X: FloatArray, groups: Groups, weight: FloatArray | None, *also: FloatArray
) -> tuple[FloatArray, Span]:
    """Return rows in coordinates of what they span, shape (m, q), and the span.

    Parameters
    ----------
    X : ndarray of shape (m, n)
        Rows, finite.
    groups : Groups
        Rows that hardly differ from others of their group keep the digits of that.
    weight : ndarray of shape (m,) or None
        Positive.
    *also : ndarray of shape (n,)
        Further points of the span, such as the mean that a reducer subtracts.
    """
    codes, labels, _ = groups.cells()
    w = np.ones(len(X)) if weight is None else weight
    first = np.asarray(X[0], dtype=float)
    rows = X - first
    means = np.array(
        [np.average(rows[codes == c], axis=0, weights=w[codes == c]) for c in range(len(labels))]
    )
    middle = np.bincount(codes, w, len(labels)) @ means / w.sum()
    origin = first + middle
    rows -= means[codes]
    points = np.column_stack([rows.T, (means - middle).T, *(point - origin for point in also)])
    check_square(np.einsum("ij,ij->", points, points))
    directions, triangle = scipy.linalg.qr(
        points, mode="economic", overwrite_a=True, check_finite=False
    )
    m = len(X)
    coordinates = triangle[:, :m] + triangle[:, m:][:, codes]
    return np.ascontiguousarray(coordinates.T), Span(np.asarray(directions, dtype=float), origin)


def choose_source(
    X: Any,
    groups: Groups,
    weight: FloatArray | None,
    r: int,
    *,
    group_by: str,
    center: str,
    in_folds: bool = False,
) -> CovarianceSource:
    """Return what knows validated rows best.

    Parameters
    ----------
    X : array, sparse matrix or LinearOperator of shape (m, n)
        An array of another library is counted where it lives.
    groups : Groups
    weight : ndarray of shape (m,) or None
        Positive.
    r : int
        Components that may be asked for.
    group_by, center : str
    in_folds : bool
        Whether the rows are needed in parts.
    """
    how: dict[str, Any] = {"group_by": group_by, "center": center}
    if isinstance(X, LinearOperator):
        X = dense_if_wide(X, r)
    (m, n), k = X.shape, len(groups.labels)
    if is_for_products(X, k, r, in_folds):
        return OperatorCovariances(CellRows.from_rows(X, groups, weight), **how)
    if is_wide(X, r):
        return RowSpaceCovariances(X, groups, weight, in_folds, **how)
    few = k > 2 and n >= _FEW_FROM and m <= _FEW_SHARE * k * n and r <= _FEW_RANK * n
    alone = group_by == "intersection" or len(groups.names) == 1
    if few and alone and not in_folds and isinstance(X, np.ndarray):
        return RowCovariances(CellRows.from_rows(X, groups, weight), **how)
    return MomentCovariances(counted(X, groups, weight, in_folds), **how)


def counted(X: Any, groups: Groups, weight: FloatArray | None, in_folds: bool) -> Any:
    """Return the moments of validated rows; a list of them, one a fold."""
    if not in_folds:
        return GroupMoments.of_rows(X, groups, weight)
    return split_folds(GroupMoments.of_rows(X, groups.dealt(FOLDS), weight), FOLDS)
