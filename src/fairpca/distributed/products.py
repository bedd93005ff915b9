"""Products with group covariances, each one pass over rows that stay where they are.

A pass multiplies the covariances of all cells with a block of columns at once. The solver
(`fairpca.covariances.block_krylov`) keeps every image, so that few passes are needed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from fairpca._linalg import AnyArray, FloatArray, IntArray, is_sparse
from fairpca.distributed.pieces import GroupingOptions, named, unpack
from fairpca.moments.group_moments import all_labels
from fairpca.moments.label_codes import Label
from fairpca.moments.row_scatter import block_rows


@dataclass(frozen=True)
class CellSums:
    """Rows, weight, mean and total scatter (its trace only) of every cell.

    Attributes
    ----------
    count, weight : ndarray of shape (c,)
        Rows of every cell, and the sum of their weights.
    spread : ndarray of shape (c,)
        Weighted sum of squared distances to the mean of the cell.
    mean : ndarray of shape (c, n)
        Weighted mean of every cell.
    labels : tuple
        Label of every cell; None is the cell of unlabelled rows.
    names : tuple of str
        Names of the label columns.
    """

    count: IntArray
    weight: FloatArray
    spread: FloatArray
    mean: FloatArray
    labels: tuple[Label, ...]
    names: tuple[str, ...]

    @classmethod
    def zeros(cls, labels: tuple[Label, ...], names: tuple[str, ...], n_features: int) -> CellSums:
        """Return the sums of no rows."""
        c = len(labels)
        count = np.zeros(c, dtype=np.int64)
        return cls(count, np.zeros(c), np.zeros(c), np.zeros((c, n_features)), labels, names)

    def merge(self, other: CellSums) -> CellSums:
        """Return the sums of the rows of both; ValueError unless they are of one table."""
        n = self.mean.shape[1]
        if n != other.mean.shape[1] or self.names != other.names:
            raise ValueError(
                f"pieces with {n} features grouped by {self.names} and with "
                f"{other.mean.shape[1]} grouped by {other.names} do not belong to one table."
            )
        total = CellSums.zeros(all_labels(self.labels, other.labels), self.names, n)
        position = {label: i for i, label in enumerate(total.labels)}
        for part in (self, other):
            at = np.array([position[label] for label in part.labels], dtype=np.intp)
            total.add(at, part.count, part.weight, part.spread, part.mean)
        return total

    def add(self, at: Any, count: Any, weight: Any, spread: Any, mean: AnyArray) -> None:
        """Add sums of further rows to the cells `at`, in place, by Chan's formula."""
        together = self.weight[at] + weight
        share = np.divide(weight, together, out=np.zeros_like(together), where=together > 0)
        shift = mean - self.mean[at]
        between = self.weight[at] * share * np.sum(shift**2, axis=-1)
        self.spread[at] += spread + between
        self.mean[at] += shift * share[..., None]
        self.weight[at] = together
        self.count[at] += count


def _blocks(X: Any, codes: IntArray, cell: int) -> Iterator[tuple[IntArray, FloatArray]]:
    """Yield the positions and the rows of one cell, a block at a time, as float64."""
    picks = np.flatnonzero(codes == cell)
    step = block_rows(X.shape[1])
    for start in range(0, len(picks), step):
        part = picks[start : start + step]
        rows = X[part].toarray() if is_sparse(X) else X[part]
        yield part, np.asarray(rows, dtype=np.float64)


def piece_sums(
    rows: Any, labels: Any, sample_weight: Any, options: GroupingOptions, where: str
) -> CellSums:
    """Return the sums of one piece.

    Parameters
    ----------
    rows, labels, sample_weight, options
        As in `pieces.unpack`.
    where : str
        Name of the piece, for errors.
    """
    with named(where):
        X, groups, weights = unpack(rows, labels, sample_weight, options)
        codes, cells, _ = groups.cells()
        total = CellSums.zeros(cells, groups.names, X.shape[1])
        for cell in range(len(cells)):
            for part, block in _blocks(X, codes, cell):
                w = np.ones(len(part)) if weights is None else weights[part]
                weight = w.sum()
                mean = w @ block / weight if weight > 0 else np.zeros(X.shape[1])
                # Centred before it is squared: a large mean would leave only rounding behind.
                spread = w @ np.sum((block - mean) ** 2, axis=1)
                total.add(np.array([cell]), len(part), weight, spread, mean)
        if not np.all(np.isfinite(total.mean)):
            raise ValueError("X contains NaN or infinity; impute, drop or rescale them first.")
        return total


def piece_products(
    rows: Any,
    labels: Any,
    sample_weight: Any,
    facts: CellSums,
    columns: FloatArray,
    options: GroupingOptions,
    out: FloatArray | None = None,
) -> FloatArray:
    """Return what one piece adds to ``S_c @ columns`` of every cell c.

    Rows are centred on the mean of the whole cell before the product: a large mean would leave
    only rounding of it behind.

    Parameters
    ----------
    rows, labels, sample_weight, options
        As in `pieces.unpack`.
    facts : CellSums
        Of all rows.
    columns : ndarray of shape (n, q)
        What the covariances are multiplied with.
    out : ndarray of shape (c, n, q), optional
        Added to, and returned; by default a new array of zeros.
    """
    X, groups, weights = unpack(rows, labels, sample_weight, options)
    codes, cells, _ = groups.cells()
    position = {label: i for i, label in enumerate(facts.labels)}
    total = np.zeros((len(facts.labels), *columns.shape)) if out is None else out
    for local, label in enumerate(cells):
        for part, block in _blocks(X, codes, local):
            cell = position[label]
            if facts.weight[cell] <= 0:
                continue
            centred = block - facts.mean[cell]
            inner = centred @ columns
            w = 1.0 if weights is None else weights[part][:, None]
            total[cell] += centred.T @ (inner * (w / facts.weight[cell]))
    return total


class PassOperators:
    """The cells of a table known by passes over it; what `FairPCA.fit_operators` takes.

    Parameters
    ----------
    sums : callable
        One pass: returns the `CellSums` of every piece, in order.
    products : callable
        One pass: maps facts and columns (n, q) to ``S_c @ columns``, shape (c, n, q).

    Attributes
    ----------
    count, weight, traces : ndarray of shape (c,)
        Rows and weight of every cell, and the trace of its covariance.
    mean : ndarray of shape (c, n)
        Mean of every cell.
    labels, names : tuple
        Labels of the cells, and names of the label columns.
    n_passes : int
        Passes over the rows so far, the first one (counts and means) included.

    Raises
    ------
    ValueError
        If no row has weight.
    """

    def __init__(
        self,
        sums: Callable[[], list[CellSums]],
        products: Callable[[CellSums, FloatArray], FloatArray],
    ) -> None:
        self._facts = reduce(CellSums.merge, sums())
        self._products = products
        self.n_passes = 1
        self.count, self.weight = self._facts.count, self._facts.weight
        if not self.weight.any():
            raise ValueError("X has no row with positive weight; check the filter or the files.")
        self.traces = self._facts.spread / np.where(self.weight > 0, self.weight, 1.0)
        self.mean = self._facts.mean
        self.labels, self.names = self._facts.labels, self._facts.names

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.mean.shape[1])

    def products(self, columns: FloatArray) -> FloatArray:
        """Return the covariance of every cell times `columns`, shape (c, n, q): one pass."""
        self.n_passes += 1
        return self._products(self._facts, columns)
