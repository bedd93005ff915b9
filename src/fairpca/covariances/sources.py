"""What a fit needs to know of the data, and the three ways to know it.

`MomentCovariances` has explicit matrices; `RowSpaceCovariances` has them in the coordinates of the
rows' span, for dense rows with more columns than rows; `OperatorCovariances` has only products,
for sparse and very wide rows and for rows that are read anew for every product. The estimator does
not ask which one it was given.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import scipy.linalg
from scipy.sparse.linalg import LinearOperator
from sklearn.utils import assert_all_finite

from fairpca._checks import check_square, check_vanished, is_share
from fairpca._linalg import (
    FloatArray,
    IntArray,
    array_namespace,
    fetched,
    is_foreign,
    is_sparse,
    library_of,
    placed,
    rounding_level,
    symmetric,
)
from fairpca._threads import blas_for
from fairpca.covariances.block_krylov import SharedSpace
from fairpca.covariances.device import explicit_oracle, pays_there
from fairpca.covariances.eigenpairs import leading_pairs
from fairpca.covariances.implicit import (
    GroupOperators,
    Mixing,
    MixtureOracle,
    OperatorOracle,
    products_pay,
    wants_operators,
)
from fairpca.covariances.oracle import Oracle
from fairpca.covariances.streamed import StreamedCells, StreamedOracle
from fairpca.moments.group_moments import GroupMoments, memberships
from fairpca.moments.groups import Groups
from fairpca.moments.label_codes import Label
from fairpca.moments.memory import default_limit
from fairpca.moments.row_scatter import clear_dust, device_scatter, diagonals

#: What second moments may be about: the mean of all rows, or each group's own.
CENTERS = ("global", "group")
_TINY, _EPS = float(np.finfo(float).tiny), float(np.finfo(float).eps)
# Rounding of the mean of all rows that counts in a group's matrix, in the units of `resolution`,
# which are eight times as large as one rounding. The worst that was seen is a fifth of this.
_MEAN_ROUNDING = 0.125
# Relative to the mean they were subtracted from, differences up to this are its rounding.
_DUST = 16 * _EPS
# Rows are solved in the coordinates of their span with more columns than this, and more than this
# many columns a row: below, explicit covariances cost no more than finding the coordinates.
_WIDE_FROM, _WIDE_SHARE = 256, 1.5
# Numbers of the moments that a model keeps on a device, a quarter of a gigabyte; partial_fit after
# a fit brings them here. Without them it has to begin anew, and says so.
_MOST_KEPT = 1 << 25
# Sums of squares between this and its reciprocal take no care of vanishing or infinite ones.
_ORDINARY = 1e-100
# Most columns of the shared space of a streamed table; beyond, a pass costs more in products with
# the space than it saves in passes.
_MOST_SHARED = 512


@dataclass(frozen=True)
class GroupFacts:
    """The groups of the minimax.

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

    @property
    def rows(self) -> FloatArray:
        """Number of rows each group's noise is judged by, shape (k,).

        A weight below one makes it smaller, down to a row that is not there. One above does not
        make it larger: weights that add up to a population say nothing about a sample's noise.
        """
        return np.minimum(self.weight * unit_of(self.weight, self.count), self.count)

    def shares(self, retained: FloatArray) -> FloatArray:
        """Return which share of its variance each group keeps, shape (k,); one if it has none."""
        ones = np.ones_like(retained)
        return np.divide(retained, self.traces, out=ones, where=self.traces > 0)


def unit_of(weight: Any, count: Any) -> float:
    """Return the factor that makes numbers of rows of the weights of so many rows.

    It is one where a weight says how often a row counts. Weights that were divided by their sum
    are told by a total below two, which two rows that count once already have; the factor makes
    their mean one.
    """
    total = float(np.sum(weight))
    return float(np.sum(count)) / total if 0 < total < min(2, np.sum(count)) else 1.0


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
        What further rows can be merged with; None where nobody has them.
    place : array of another library or None
        An empty array where the rows live, if matrices are best decomposed there.
    """

    groups: GroupFacts
    total: TotalFacts
    center: str
    moments: GroupMoments | None = None
    place: Any = None

    @abstractmethod
    def oracle(self, scales: FloatArray, method: str) -> Oracle:
        """Return the oracle of every group's matrix times its scale."""

    @abstractmethod
    def total_compression(self, basis: FloatArray) -> Any:
        """Return ``basis.T C basis`` for the biased covariance C of all rows, where that lives."""

    @abstractmethod
    def total_pca(self, r: int) -> FloatArray:
        """Return the leading `r` eigenvectors of the covariance of all rows, as columns."""

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

    @abstractmethod
    def _mix(self, matrix: FloatArray) -> None:
        """Replace the groups' matrices, in a copy of the source, by weighted sums of them."""

    def shared_spectrum(self) -> FloatArray | None:
        """Return the eigenvalues of the mean of all groups' matrices, largest first.

        The mean is by weight. None where the matrices are known by products only, which do not
        show all of them.
        """
        return None

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
            shift = self.groups.shift
            found = found + np.sum(shift**2, axis=1) - np.sum((shift @ basis) ** 2, axis=1)
        return np.maximum(found, 0.0)


class MomentCovariances(CovarianceSource):
    """Groups known by their moments, as explicit matrices.

    Parameters
    ----------
    moments : GroupMoments
    group_by : {"intersection", "marginal"}
    center : {"global", "group"}
    origin : ndarray of shape (n,), optional
        What "global" second moments are about; by default the mean of all rows.
    """

    def __init__(
        self,
        moments: GroupMoments,
        group_by: str = "intersection",
        center: str = "global",
        origin: FloatArray | None = None,
    ) -> None:
        self.moments, self.center = moments, center
        with (
            blas_for(moments.n_features),
            np.errstate(over="ignore", invalid="ignore"),
        ):
            chosen, total = moments.grouped(group_by), moments.pooled()
            if not np.isfinite(diagonals(total.scatter).sum()):
                # Every group by itself may be in the range of numbers, and all together not.
                raise ValueError(
                    "sample_weight times the squares of X, added up over all groups, leaves the "
                    "range of numbers; rescale all weights, or the columns of X, by one number."
                )
            self.covariances = chosen.covariances
            everything = total.covariances
            self._total, trace = everything[0, :, :], float(diagonals(everything).sum())
            shift = chosen.distances_from(total)
            if origin is not None:
                shift = shift + _apart(total.mean, origin, origin)
            # Small weights make numbers of squares that are none by themselves.
            check_square(diagonals(self.covariances), shift**2, trace)
        if center == "global":
            way = placed(shift, self.covariances)
            # One matrix after the other: all at once would take the memory of all once more.
            for i in range(len(shift)):
                self.covariances[i, :, :] += way[i, :, None] * way[i, None, :]
        traces = diagonals(self.covariances).sum(axis=1)
        # Squares below the smallest normal number have lost their digits.
        gone = (traces < _TINY) & (center == "global")
        if gone.any():
            self.covariances *= placed(1.0 - gone[:, None, None], self.covariances)
            traces[gone] = 0.0
        self.groups = GroupFacts(
            chosen.labels,
            chosen.names,
            chosen.count,
            chosen.weight,
            chosen.mean,
            traces,
            shift,
        )
        self.total = TotalFacts(int(total.count[0]), float(total.weight[0]), total.mean[0], trace)
        # A group's matrix has no higher rank than it has rows; about its own mean one less.
        self._ranks: IntArray | None = np.maximum(chosen.count - (center == "group"), 0)
        # Columns of rows that were put into fewer coordinates before they were counted, else 0.
        # Each coordinate is a sum over all columns, and its rounding grows with their number.
        self._summed = 0

    def oracle(self, scales: FloatArray, method: str) -> Oracle:
        """Return the oracle of the scaled matrices."""
        apart = 0.0
        n = self.covariances.shape[1]
        if self._summed > n:
            size = float((scales * self.groups.traces).max(initial=0.0))
            apart = size * float(np.sqrt((self._summed + 6) / (n + 6)))
        if np.all(scales == 1):
            return explicit_oracle(
                self.covariances, method, self._ranks, apart=apart, place=self.place
            )
        if self.center == "global":
            # A group of few rows near the mean of all has the rounding of that mean, which is one
            # of the standard deviation of all rows, and a scale can make it large.
            sizes = np.sqrt(scales * self.groups.traces) * np.sqrt(scales * self.total.trace)
            apart = max(apart, _MEAN_ROUNDING * float(sizes.max(initial=0.0)))
        scaled = self.covariances * placed(scales[:, None, None], self.covariances)
        return explicit_oracle(scaled, method, self._ranks, apart=apart, place=self.place)

    def shared_spectrum(self) -> FloatArray | None:
        """Return the eigenvalues of the mean of all groups' matrices, largest first."""
        shape, xp = self.covariances.shape, library_of(self.covariances)
        pooled = self.groups.weight / self.groups.weight.sum()
        flat = xp.reshape(self.covariances, (shape[0], -1))
        shared = placed(xp.reshape(placed(pooled, flat) @ flat, shape[1:]), self.place)
        return fetched(library_of(shared).linalg.eigvalsh(shared))[::-1]

    def _mix(self, matrix: FloatArray) -> None:
        shape, xp = self.covariances.shape, library_of(self.covariances)
        flat = xp.reshape(self.covariances, (shape[0], -1))
        self.covariances = xp.reshape(placed(matrix, flat) @ flat, shape)
        self.groups = replace(self.groups, traces=diagonals(self.covariances).sum(axis=1))
        self._ranks = None

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
        self,
        X: Any,
        groups: Groups | None,
        weight: FloatArray | None,
        group_by: str = "intersection",
        center: str = "global",
    ) -> None:
        groups = Groups.one(len(X)) if groups is None else groups
        centred, mean = _centred_cells(X, groups, weight)
        distances = centred[:, len(X) :].T.copy()
        (reflectors, self._tau), triangle = scipy.linalg.qr(
            centred, mode="raw", overwrite_a=True, check_finite=False
        )
        self._reflectors = reflectors[:, : len(self._tau)]
        coordinates = triangle.T
        rows, shifts = coordinates[: len(X)], coordinates[len(X) :]
        moments = GroupMoments.from_array(rows, groups, sample_weight=weight)
        super().__init__(replace(moments, mean=np.asarray(shifts)), group_by, center)
        # Moments in these coordinates say nothing about further rows.
        self.moments = None
        self._summed = X.shape[1]
        member = memberships(moments.labels, moments.names, group_by)[1]
        own = _shares(member, moments.weight) @ distances
        self.groups = replace(self.groups, mean=own + mean)
        overall = moments.weight / max(float(moments.weight.sum()), _TINY)
        self.total = replace(self.total, mean=overall @ distances + mean)

    @property
    def n_features(self) -> int:
        """Dimension of the rows' span."""
        return int(self.covariances.shape[1])

    def to_features(self, basis: FloatArray) -> FloatArray:
        """Return the columns of `basis` in the original coordinates."""
        padded = np.zeros((len(self._reflectors), basis.shape[1]), order="F")
        padded[: len(basis)] = basis
        multiply = scipy.linalg.lapack.dormqr
        size = int(multiply("L", "N", self._reflectors, self._tau, padded, lwork=-1)[1][0])
        return np.asarray(multiply("L", "N", self._reflectors, self._tau, padded, lwork=size)[0])


def _centred_cells(
    X: Any, groups: Groups, weight: FloatArray | None
) -> tuple[FloatArray, FloatArray]:
    """Return every row minus the mean of its cell, then the cells' means, as columns.

    Cells are centred one by one: about a common mean, a cell whose rows are small would lose its
    digits to those that are large. Rows without weight span nothing that counts and become zero.
    The cells' means are relative to the mean of all rows, which is the second result.
    """
    codes, labels, _ = groups.cells()
    m, n = X.shape
    weights = np.ones(m) if weight is None else weight / max(float(weight.max()), _TINY)
    columns = np.empty((n, m + len(labels)), order="F")
    apart, dusts = np.empty((n, len(labels))), np.empty((n, len(labels)))
    with np.errstate(over="ignore", invalid="ignore"):
        mean = weights @ X / max(float(weights.sum()), _TINY)
        for cell in range(len(labels)):
            picks = np.flatnonzero(codes == cell)
            # Beside a much larger weight of another cell nothing would be left of these.
            given = np.ones(len(picks)) if weight is None else weight[picks]
            w = given / max(float(given.max(initial=0.0)), _TINY)
            total = max(float(w.sum()), _TINY)
            block = np.asarray(X[picks], dtype=np.float64)
            check_vanished(block, given, w)
            own = w @ block / total
            block = block - own
            # What rounding left of the mean, too.
            rest = w @ block / total
            block -= rest
            block[w == 0] = 0.0
            # A constant column leaves the rounding of its own mean behind, which is no variance.
            dust = _DUST * np.abs(own)
            block[:, np.sqrt(w / total) @ np.abs(block) <= dust] = 0.0
            columns[:, picks] = block.T
            # Means that agree differ by the rounding of that rest, over all rows.
            apart[:, cell], dusts[:, cell] = (own - mean) + rest, _EPS * len(picks) * dust
        # The mean of all rows is rounded too, by more than small distances of the cells from it
        # where columns are far from zero; together they know what it lacks.
        inside = np.bincount(codes, weights, len(labels)) / max(float(weights.sum()), _TINY)
        lacks = apart @ inside
        apart -= lacks[:, None]
        columns[:, m:] = np.where(np.abs(apart) <= dusts, 0.0, apart)
        check_square(np.einsum("ij,ij->", columns, columns))
    return columns, np.asarray(mean + lacks)


class OperatorCovariances(CovarianceSource):
    """Sparse, very wide or far-away rows, known by products only.

    Parameters
    ----------
    cells : GroupOperators or StreamedCells
    group_by : {"intersection", "marginal"}
    center : {"global", "group"}
    origin : ndarray of shape (n,), optional
        What "global" second moments are about; by default the mean of all rows.
    """

    def __init__(
        self,
        cells: GroupOperators | StreamedCells,
        group_by: str = "intersection",
        center: str = "global",
        origin: FloatArray | None = None,
    ) -> None:
        self.cells, self.center = cells, center
        self._space: SharedSpace | None = None
        if not isinstance(cells, GroupOperators):
            # As many columns as a share of the memory holds, images under every cell included.
            numbers = default_limit() // (8 * (len(cells.labels) + 1) * cells.n_features)
            self._space = SharedSpace(
                cells.products, len(cells.labels), cells.n_features, min(numbers, _MOST_SHARED)
            )
        labels, member = memberships(cells.labels, cells.names, group_by)
        shares = _shares(member, cells.weight)
        everything = _shares(np.ones((1, len(cells.labels))), cells.weight)
        total_mean = (everything @ cells.mean)[0]
        # Relative to a common point: means far from zero have lost digits of their distances.
        means = (cells.origin - total_mean) + cells.offset
        middle = (everything @ means)[0]
        sizes = np.abs(cells.offset) + _EPS * np.abs(cells.origin)
        rounded = (everything @ sizes)[0]
        apart = _apart(means, middle, rounded)
        self._everything = self._oracle(Mixing(everything, apart, everything))
        origin = middle if origin is None else origin - total_mean
        if center == "group":
            self._mixing = _about_own_means(cells, shares, sizes)
        else:
            self._mixing = Mixing(shares, _apart(means, origin, rounded), shares)
        self.groups = GroupFacts(
            labels,
            cells.names,
            member @ cells.count,
            member @ cells.weight,
            shares @ cells.mean,
            self._mixing.traces(cells.traces),
            _apart(shares @ means, origin, rounded),
        )
        self.total = TotalFacts(
            int(cells.count.sum()),
            float(cells.weight.sum()),
            total_mean,
            float(self._everything.traces[0]),
        )

    def oracle(self, scales: FloatArray, method: str) -> Oracle:
        """Return the oracle of products with the scaled matrices."""
        return self._oracle(self._mixing.mixed(np.diag(scales)))

    def _mix(self, matrix: FloatArray) -> None:
        self._mixing = self._mixing.mixed(matrix)
        self.groups = replace(self.groups, traces=self._mixing.traces(self.cells.traces))

    def _oracle(self, mixing: Mixing) -> MixtureOracle:
        if isinstance(self.cells, GroupOperators):
            return OperatorOracle(self.cells, mixing)
        assert self._space is not None
        return StreamedOracle(self.cells, mixing, self._space)

    def total_compression(self, basis: FloatArray) -> FloatArray:
        """Return the covariance of all rows in `basis`."""
        return np.asarray(self._everything.project(basis)[0])

    def total_pca(self, r: int) -> FloatArray:
        """Return the leading eigenvectors of the covariance of all rows."""
        # In units of the trace, as for moments.
        trace = self.total.trace
        mixing = self._everything.mixing.mixed(np.eye(1) / (trace if trace >= _TINY else 1.0))
        return self._oracle(mixing).leading(np.ones(1), r).vectors


def _shares(member: FloatArray | IntArray, weight: FloatArray) -> FloatArray:
    """Return the share of every cell in every group; rows sum to one where there is weight."""
    found = member * weight
    totals = found.sum(axis=1, keepdims=True)
    return np.asarray(found / np.where(totals > 0, totals, 1.0))


def _apart(mean: FloatArray, origin: FloatArray, rounded: FloatArray) -> FloatArray:
    """Return the distance between means, zero where it is rounding of numbers so large."""
    found = mean - origin
    found[np.abs(found) <= _DUST * np.abs(rounded)] = 0.0
    return found


def _about_own_means(
    cells: GroupOperators | StreamedCells, shares: FloatArray, sizes: FloatArray
) -> Mixing:
    """Return the mixing of groups about their own means.

    A group of several cells has, beside their covariances, one direction for each cell: from the
    group's mean to the cell's. `sizes` are the numbers whose rounding the cells' means have.
    """
    directions, outer = [np.empty((0, cells.n_features))], [np.empty((len(shares), 0))]
    for g, share in enumerate(shares):
        inside = np.flatnonzero(share)
        if len(inside) < 2:
            continue
        # Cells that lie near each other may lie far from all others.
        means = cells.origin[inside] - cells.origin[inside[0]]
        means += cells.offset[inside] - cells.offset[inside[0]]
        part = share[inside]
        directions.append(_apart(means, part @ means, part @ sizes[inside]))
        outer.append(np.where(np.arange(len(shares))[:, None] == g, part, 0.0))
    return Mixing(shares, np.concatenate(directions), np.hstack(outer))


def is_wide(X: Any, r: int) -> bool:
    """Whether rows with far more columns than rows are best put into coordinates of their span."""
    return isinstance(X, np.ndarray) and _few_rows(X, r)


def _few_rows(X: Any, r: int) -> bool:
    m, n = X.shape
    return bool(n > _WIDE_SHARE * m and n > _WIDE_FROM and r < m)


def dense_if_wide(X: Any, r: int) -> Any:
    """Return sparse rows as dense ones where `is_wide` is then true of them.

    For whoever needs moments, one matrix of all columns a group: dense rows are smaller than one.
    Rows that would not fit stay as they are.
    """
    fits = 8 * X.shape[0] * X.shape[1] <= default_limit()
    return X.toarray() if is_sparse(X) and _few_rows(X, r) and fits else X


@dataclass(frozen=True)
class Span:
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
        """Return the point that has these coordinates."""
        return np.asarray(self.origin + self.directions @ coordinates)


def seen_directions(moments: GroupMoments) -> FloatArray | None:
    """Return orthonormal columns that span what counted rows differ in, None if that is all.

    A fit with more components than its rows span chooses the others at will. Coordinates of a span
    have no room for them but directions of other rows, and those left out to be measured would
    seem to be known. So what a projection keeps of other rows is measured within these columns.
    """
    n = moments.n_features
    if moments.count.sum() > n:
        return None
    pairs = leading_pairs(moments.pooled().covariances[0], n)
    return pairs.vectors[:, pairs.values > rounding_level(float(pairs.values[0]), n)]


def seen_part(columns: FloatArray, seen: FloatArray | None) -> FloatArray:
    """Return what columns have along `seen_directions`, which is all where these are None."""
    return columns if seen is None else np.asarray(seen @ (seen.T @ columns))


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
        Rows without weight get the coordinates of their group's mean.
    *also : ndarray of shape (n,)
        Further points of the span, such as the mean that a reducer subtracts.
    """
    m = len(X)
    centred, origin = _centred_cells(X, groups, weight)
    points = np.column_stack([centred, *(point - origin for point in also)])
    directions, triangle = scipy.linalg.qr(
        points, mode="economic", overwrite_a=True, check_finite=False
    )
    coordinates = triangle[:, :m] + triangle[:, m:][:, groups.cells()[0]]
    return np.ascontiguousarray(coordinates.T), Span(np.asarray(directions, dtype=float), origin)


def choose_source(
    X: Any,
    groups: Groups | None,
    weight: FloatArray | None,
    n_components: Any,
    group_by: str,
    center: str,
    estimator: str,
) -> CovarianceSource:
    """Choose how to know validated rows by their shape.

    Parameters
    ----------
    X : array, sparse matrix or LinearOperator of shape (m, n)
        An array of another library is counted where it lives.
    groups : Groups or None
    weight : ndarray of shape (m,) or None
    n_components : int, float or None
        As in FairPCA.
    group_by, center : str
    estimator : str
        Named in errors.
    """
    m, n = X.shape
    k = len(groups.labels) if groups else 1
    broad = n > _WIDE_SHARE * m and n > _WIDE_FROM
    if array_namespace(X) is not None:
        if not broad and not products_pay(n, k, None):
            return _device_source(X, groups, weight, group_by, center, estimator)
        # Too many columns for their covariances; what else there is needs the rows here.
        X = fetched(X)
        if groups is not None:
            groups = replace(groups, codes=fetched(groups.codes).astype(np.int64))
    # A share of variance never needs more directions than the rows span.
    r = 1 if is_share(n_components) else n_components or n
    wide = is_wide(X, r)
    # The row space knows cells by their distance from the mean of all rows. About the own mean of
    # a group of several cells their distances from each other count, and may be far smaller.
    between_cells = center == "group" and group_by == "marginal"
    if wants_operators(X, k) or (wide and between_cells):
        _check_finite(X, estimator)
        return OperatorCovariances(GroupOperators.from_rows(X, groups, weight), group_by, center)
    if wide:
        _check_finite(X, estimator)
        reduced = RowSpaceCovariances(X, groups, weight, group_by, center)
        if reduced.n_features >= r:
            return reduced
    return MomentCovariances(count_rows(X, groups, weight, estimator), group_by, center)


def _device_source(
    X: Any,
    groups: Groups | None,
    weight: FloatArray | None,
    group_by: str,
    center: str,
    estimator: str,
) -> MomentCovariances:
    """Return the covariances of rows on a device: there if they are large, else as moments."""
    place = placed(np.empty(0), X)
    known = Groups.one(X.shape[0]) if groups is None else groups
    codes, labels, counts = known.cells()
    crossed = group_by == "intersection" or len(known.names) == 1
    moments: GroupMoments | None = None
    if pays_there(X.shape[1]) and crossed and labels == known.labels and weight is None:
        found = device_scatter(X, codes, counts)
        squares = diagonals(found.scatter)
        # What is not finite, or so small or large that it may vanish, is counted with more care.
        if np.all(np.isfinite(squares)) and _ORDINARY < squares.max() < 1 / _ORDINARY:
            rows, rest = found.mean[:, 0], found.mean[:, 1]
            clear_dust(found.weight, rows, found.scatter)
            moments = GroupMoments(
                counts, found.weight, rows, found.scatter, labels, known.names, rest
            )
    if moments is None:
        moments = count_rows(X, groups, weight, estimator)
    source = MomentCovariances(moments, group_by, center)
    source.place = place if pays_there(X.shape[1]) else None
    if is_foreign(moments.scatter) and math.prod(moments.scatter.shape) > _MOST_KEPT:
        source.moments = None
    return source


def count_rows(
    X: Any, groups: Groups | None, weight: FloatArray | None, estimator: str
) -> GroupMoments:
    """Return the moments of rows not yet checked for NaN; errors are worded as scikit-learn's."""
    try:
        return GroupMoments.from_array(X, groups, sample_weight=weight)
    except ValueError:
        # The moments notice NaN for nothing; only then is it worth a pass to name it.
        _check_finite(X, estimator)
        raise


def _check_finite(X: Any, estimator: str) -> None:
    if not isinstance(X, LinearOperator):
        assert_all_finite(X, estimator_name=estimator, input_name="X")
