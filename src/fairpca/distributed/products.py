"""Products with group covariances, each one pass over rows that stay where they are.

A pass multiplies all cells' covariances with a block of columns at once; `solve.shared_space`
keeps every image, so that few passes are needed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from fairpca._linalg import FloatArray, IntArray, is_sparse
from fairpca.distributed.pieces import Rules, groups_of, matrix, named, weights_of
from fairpca.moments.groups import Groups
from fairpca.moments.label_codes import Label, sort_labels
from fairpca.moments.row_scatter import block_rows


@dataclass(frozen=True)
class CellSums:
    """Rows, weight, mean and total scatter (its trace only) of every cell.

    Attributes
    ----------
    count, weight, spread : ndarray of shape (c,)
        `spread` is the weighted sum of squared distances to the mean.
    mean : ndarray of shape (c, n)
    labels, names : tuple
        Label None is the cell of unlabelled rows.
    """

    count: IntArray
    weight: FloatArray
    spread: FloatArray
    mean: FloatArray
    labels: tuple[Label, ...]
    names: tuple[str, ...]

    def merge(self, other: CellSums) -> CellSums:
        """Return the sums of the rows of both."""
        if self.mean.shape[1] != other.mean.shape[1] or self.names != other.names:
            raise ValueError(
                f"pieces with {self.mean.shape[1]} features grouped by {self.names} and with "
                f"{other.mean.shape[1]} grouped by {other.names} do not belong to one table."
            )
        union = set(self.labels) | set(other.labels)
        labels = (*((None,) if None in union else ()), *sort_labels(union - {None}))
        mine, theirs = self._spread_over(labels), other._spread_over(labels)
        weight = mine.weight + theirs.weight
        share = np.divide(theirs.weight, weight, out=np.zeros_like(weight), where=weight > 0)
        shift = theirs.mean - mine.mean
        between = mine.weight * share * np.sum(shift**2, axis=1)
        return CellSums(
            mine.count + theirs.count,
            weight,
            mine.spread + theirs.spread + between,
            mine.mean + shift * share[:, None],
            labels,
            self.names,
        )

    def _spread_over(self, labels: tuple[Label, ...]) -> CellSums:
        position = {label: i for i, label in enumerate(labels)}
        at = [position[label] for label in self.labels]
        c, n = len(labels), self.mean.shape[1]
        count, weight = np.zeros(c, dtype=np.int64), np.zeros(c)
        spread, mean = np.zeros(c), np.zeros((c, n))
        count[at], weight[at], spread[at], mean[at] = (
            self.count,
            self.weight,
            self.spread,
            self.mean,
        )
        return CellSums(count, weight, spread, mean, labels, self.names)


def _cells(groups: Groups) -> tuple[IntArray, tuple[Label, ...]]:
    """Return codes from 0 and labels, with unlabelled rows as the first cell if there are any."""
    if (groups.codes < 0).any():
        return groups.codes + 1, (None, *groups.labels)
    return groups.codes, groups.labels


def _blocks(X: Any, codes: IntArray, cell: int) -> Any:
    """Yield the positions and the rows of one cell, a block at a time, as float64."""
    picks = np.flatnonzero(codes == cell)
    step = block_rows(X.shape[1])
    for start in range(0, len(picks), step):
        part = picks[start : start + step]
        rows = X[part].toarray() if is_sparse(X) else X[part]
        yield part, np.asarray(rows, dtype=np.float64)


def piece_sums(rows: Any, labels: Any, sample_weight: Any, rules: Rules, where: str) -> CellSums:
    """Return the sums of one piece; arguments as in `partial.moments_of`."""
    with named(where):
        X = matrix(rows)
        groups = groups_of(labels, X.shape[0], rules)
        weights = weights_of(sample_weight, X.shape[0])
        codes, cells = _cells(groups)
        c, n = len(cells), X.shape[1]
        total = CellSums(
            np.zeros(c, dtype=np.int64),
            np.zeros(c),
            np.zeros(c),
            np.zeros((c, n)),
            cells,
            groups.names,
        )
        for cell in range(c):
            for part, block in _blocks(X, codes, cell):
                w = np.ones(len(part)) if weights is None else weights[part]
                total = total.merge(_block_sums(block, w, cell, total))
        if not np.all(np.isfinite(total.mean)):
            raise ValueError("X contains NaN or infinity; impute, drop or rescale them first.")
        return total


def _block_sums(block: FloatArray, w: FloatArray, cell: int, like: CellSums) -> CellSums:
    found = CellSums(
        np.zeros_like(like.count),
        np.zeros_like(like.weight),
        np.zeros_like(like.spread),
        np.zeros_like(like.mean),
        like.labels,
        like.names,
    )
    total = float(w.sum())
    found.count[cell], found.weight[cell] = len(block), total
    mean = w @ block / total if total > 0 else np.zeros(block.shape[1])
    found.mean[cell] = mean
    found.spread[cell] = float(w @ np.sum((block - mean) ** 2, axis=1))
    return found


def piece_products(
    rows: Any,
    labels: Any,
    sample_weight: Any,
    facts: CellSums,
    columns: FloatArray,
    rules: Rules,
    out: FloatArray | None = None,
) -> FloatArray:
    """Return what one piece adds to ``S_c @ columns`` of every cell c.

    Rows are centred on the mean of the whole cell before the product: a large mean would leave
    only rounding of it behind.

    Parameters
    ----------
    rows, labels, sample_weight, rules
        As in `partial.moments_of`.
    facts : CellSums
        Of all rows.
    columns : ndarray of shape (n, q)
    out : ndarray of shape (c, n, q), optional
        Added to, and returned.
    """
    X = matrix(rows)
    groups = groups_of(labels, X.shape[0], rules)
    weights = weights_of(sample_weight, X.shape[0])
    codes, cells = _cells(groups)
    position = {label: i for i, label in enumerate(facts.labels)}
    total = np.zeros((len(facts.labels), *columns.shape)) if out is None else out
    for local, label in enumerate(cells):
        cell = position[label]
        if facts.weight[cell] <= 0:
            continue
        for part, block in _blocks(X, codes, local):
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
    mean : ndarray of shape (c, n)
    labels, names : tuple
    n_passes : int
        Passes over the rows so far, the first one (counts and means) included.
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
