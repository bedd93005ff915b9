"""What a fit needs to know of the data, and the three ways to know it.

`FromMoments` has explicit covariances; `FromRowSpace` has them in the coordinates of the rows'
span, for dense rows with more columns than rows; `FromOperators` has only products, for sparse and
very wide rows and for rows that are read anew for every product. The estimator does not ask which
one it was given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from scipy.sparse.linalg import LinearOperator
from sklearn.utils import assert_all_finite

from fairpca.arrays import FloatArray, IntArray, symmetric
from fairpca.budget import default_limit
from fairpca.checks import check_square
from fairpca.groups import Groups
from fairpca.labels import Label
from fairpca.moments import GroupMoments, memberships
from fairpca.operators import GroupOperators, OperatorOracle, wants_operators
from fairpca.solve.eigen import DenseOracle
from fairpca.solve.oracle import Oracle
from fairpca.solve.shared_space import SharedSpace
from fairpca.streamed import StreamedCells, StreamedOracle
from fairpca.threads import blas_for


@dataclass(frozen=True)
class GroupFacts:
    """The groups of the minimax."""

    labels: tuple[Label, ...]
    names: tuple[str, ...]
    count: IntArray
    weight: FloatArray
    mean: FloatArray
    traces: FloatArray


@dataclass(frozen=True)
class TotalFacts:
    """All rows together, unlabelled ones included; the trace is of the biased covariance."""

    count: int
    weight: float
    mean: FloatArray
    trace: float


class Population(Protocol):
    """The groups, the total, and the matrices."""

    groups: GroupFacts
    total: TotalFacts

    def oracle(self, scales: FloatArray, method: str) -> Oracle:
        """Return the oracle of every group's covariance times its scale."""

    def total_compression(self, basis: FloatArray) -> FloatArray:
        """Return ``basis.T C basis`` for the biased covariance C of all rows."""

    def lift(self, basis: FloatArray) -> FloatArray:
        """Return the columns of `basis` in the original coordinates."""


class FromMoments:
    """A population known by its moments."""

    moments: GroupMoments | None

    def __init__(self, moments: GroupMoments, group_by: str = "intersection") -> None:
        self.moments = moments
        with blas_for(moments.n_features, len(moments.labels)):
            chosen, total = moments.grouped(group_by), moments.pooled()
        self.covariances = chosen.covariances
        weight = float(total.weight[0])
        self._total = total.scatter[0]
        self._total /= weight or 1.0
        self.groups = GroupFacts(
            chosen.labels,
            chosen.names,
            chosen.count,
            chosen.weight,
            chosen.mean,
            np.trace(self.covariances, axis1=1, axis2=2),
        )
        self.total = TotalFacts(
            int(total.count[0]), weight, total.mean[0], float(np.trace(self._total))
        )

    def oracle(self, scales: FloatArray, method: str) -> Oracle:
        """Return the oracle of the scaled covariances."""
        scaled = self.covariances
        if not np.all(scales == 1):
            scaled = scaled * scales[:, None, None]
        # The mean takes one dimension from the rows of a group.
        return DenseOracle(scaled, method, np.maximum(self.groups.count - 1, 0))

    def total_compression(self, basis: FloatArray) -> FloatArray:
        """Return the covariance of all rows in `basis`."""
        return symmetric(basis.T @ self._total @ basis)

    def lift(self, basis: FloatArray) -> FloatArray:
        """Return `basis`: the coordinates are the original ones."""
        return basis


class FromRowSpace(FromMoments):
    """Dense rows with more columns than rows, in coordinates of their span.

    Nothing outside the span of the m centred rows carries variance, so an m x m problem has the
    same answer. Its coordinates come from the Gram matrix of the rows, m^2 n operations, once.
    """

    def __init__(
        self, X: Any, groups: Groups | None, weight: FloatArray | None, group_by: str
    ) -> None:
        mean = X.mean(axis=0, dtype=np.float64)
        gram = np.zeros((len(X), len(X)))
        with np.errstate(over="ignore", invalid="ignore"):
            for start in range(0, X.shape[1], _GRAM_COLUMNS):
                block = X[:, start : start + _GRAM_COLUMNS] - mean[start : start + _GRAM_COLUMNS]
                gram += block @ block.T
        check_square(gram)
        values, vectors = np.linalg.eigh(gram)
        # Below rounding there is no direction, only noise of the product.
        keep = values > len(X) * np.finfo(float).eps * max(values[-1], 0.0)
        roots = np.sqrt(values[keep])
        coordinates = np.ascontiguousarray(vectors[:, keep] * roots)
        moments = GroupMoments.from_array(coordinates, groups, sample_weight=weight)
        super().__init__(moments, group_by)
        # Moments in these coordinates say nothing about further rows.
        self.moments = None
        self._X, self._centre, self._dual = X, mean, vectors[:, keep] / roots
        self.groups = GroupFacts(
            self.groups.labels,
            self.groups.names,
            self.groups.count,
            self.groups.weight,
            self.lift_rows(self.groups.mean) + mean,
            self.groups.traces,
        )
        self.total = TotalFacts(
            self.total.count,
            self.total.weight,
            self.lift_rows(self.total.mean[None])[0] + mean,
            self.total.trace,
        )

    @property
    def n_features(self) -> int:
        """Dimension of the rows' span."""
        return int(self.covariances.shape[1])

    def lift(self, basis: FloatArray) -> FloatArray:
        """Return the columns of `basis` in the original coordinates."""
        return self.lift_rows(basis.T).T

    def lift_rows(self, rows: FloatArray) -> FloatArray:
        """Map rows of coordinates back to the original columns."""
        # X - mean is never formed: the mean is subtracted from the small factor's image.
        combination = rows @ self._dual.T
        return np.asarray(combination @ self._X - np.outer(combination.sum(axis=1), self._centre))


class FromOperators:
    """Sparse, very wide or far-away rows, known by products only."""

    def __init__(
        self, cells: GroupOperators | StreamedCells, group_by: str = "intersection"
    ) -> None:
        self.cells = cells
        self._space: SharedSpace | None = None
        if not isinstance(cells, GroupOperators):
            # As many columns as a share of the memory holds, images under every cell included.
            numbers = default_limit() // (8 * (len(cells.labels) + 1) * cells.n_features)
            self._space = SharedSpace(
                cells.products, len(cells.labels), cells.n_features, min(numbers, 512)
            )
        labels, self.mixing, member = _mixtures(cells, group_by)
        everything = (cells.weight / cells.weight.sum())[None]
        self._everything = self._oracle(everything, np.ones(1))
        self.groups = GroupFacts(
            labels,
            cells.names,
            member @ cells.count,
            member @ cells.weight,
            self.mixing @ cells.mean,
            self._oracle(self.mixing, np.ones(len(labels))).traces,
        )
        self.total = TotalFacts(
            int(cells.count.sum()),
            float(cells.weight.sum()),
            (everything @ cells.mean)[0],
            float(self._everything.traces[0]),
        )

    def oracle(self, scales: FloatArray, method: str) -> Oracle:
        """Return the oracle of products with the scaled covariances."""
        return self._oracle(self.mixing, scales)

    def _oracle(self, mixing: FloatArray, scales: FloatArray) -> OperatorOracle | StreamedOracle:
        if isinstance(self.cells, GroupOperators):
            return OperatorOracle(self.cells, mixing, scales)
        assert self._space is not None
        return StreamedOracle(self.cells, mixing, scales, self._space)

    def total_compression(self, basis: FloatArray) -> FloatArray:
        """Return the covariance of all rows in `basis`."""
        return np.asarray(self._everything.project(basis)[0])

    def lift(self, basis: FloatArray) -> FloatArray:
        """Return `basis`: the coordinates are the original ones."""
        return basis


# Columns of a block of the Gram matrix: one block of rows is copied at a time.
_GRAM_COLUMNS = 4096


def _mixtures(
    cells: GroupOperators | StreamedCells, group_by: str
) -> tuple[tuple[Label, ...], FloatArray, IntArray]:
    """Return the groups' labels, the share of every cell in every group, and membership."""
    labels, member = memberships(cells.labels, cells.names, group_by)
    shares = member * cells.weight
    totals = shares.sum(axis=1, keepdims=True)
    return labels, shares / np.where(totals > 0, totals, 1.0), member


def choose_population(
    X: Any,
    groups: Groups | None,
    weight: FloatArray | None,
    n_components: Any,
    group_by: str,
    estimator: str,
) -> Population:
    """Choose how to know validated rows by their shape.

    Parameters
    ----------
    X : array, sparse matrix or LinearOperator of shape (m, n)
    groups : Groups or None
    weight : ndarray of shape (m,) or None
    n_components : int, float or None
        As in FairPCA.
    group_by : str
    estimator : str
        Named in errors.
    """
    m, n = X.shape
    # A share of variance never needs more directions than the rows span.
    r = 1 if isinstance(n_components, float) else n_components or n
    if wants_operators(X, len(groups.labels) if groups else 1):
        _check_finite(X, estimator)
        return FromOperators(GroupOperators.from_rows(X, groups, weight), group_by)
    if n > 1.5 * m and n > 256 and r < m and isinstance(X, np.ndarray):
        _check_finite(X, estimator)
        reduced = FromRowSpace(X, groups, weight, group_by)
        if reduced.n_features >= r:
            return reduced
    return FromMoments(count_rows(X, groups, weight, estimator), group_by)


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
