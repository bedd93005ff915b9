"""Mean and centred scatter of every group from rows, in blocks, in float64.

Each block is centred on its own mean before it is squared, and blocks are merged by the pairwise
update of Chan, Golub and LeVeque. Subtracting ``m mean mean.T`` afterwards would lose every digit
once the mean is large against the spread.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg.blas import dsyrk

from fairpca.arrays import AnyArray, FloatArray, IntArray

# A block of about this many entries stays in the last-level cache and feeds BLAS well.
_BLOCK_ENTRIES = 700_000


@dataclass(frozen=True)
class Scatter:
    """Rows, weight, mean and centred scatter of each of c cells."""

    count: IntArray
    weight: FloatArray
    mean: FloatArray
    scatter: FloatArray


def block_rows(n_features: int) -> int:
    """Rows per block for this many features."""
    return int(np.clip(_BLOCK_ENTRIES // max(n_features, 1), 256, 16384))


def group_scatter(
    rows: Any, codes: IntArray, n_cells: int, sample_weight: FloatArray | None = None
) -> Scatter:
    """Accumulate the scatter of every cell; rows with a code outside 0..n_cells-1 do not count.

    Parameters
    ----------
    rows : array of shape (m, n)
        Any numeric dtype; read block by block, never copied whole.
    codes : ndarray of shape (m,)
    n_cells : int
    sample_weight : ndarray of shape (m,), optional
    """
    n = rows.shape[1]
    mean, scatter = np.zeros((n_cells, n)), np.zeros((n_cells, n, n))
    weight, count = np.zeros(n_cells), np.zeros(n_cells, dtype=np.int64)
    buffer = np.empty((min(block_rows(n), max(len(codes), 1)), n))
    for cell, picks in _cells(codes, n_cells):
        total = np.zeros((n, n), order="F")
        for start in range(0, _length(picks), len(buffer)):
            part = _part(picks, start, start + len(buffer))
            block = buffer[: _length(part)]
            _gather(rows, part, block)
            w = None if sample_weight is None else sample_weight[part]
            block_weight, block_mean = _centre(block, w)
            if block_weight == 0:
                continue
            total = dsyrk(1.0, block.T, beta=1.0, c=total, overwrite_c=1)
            before, after = weight[cell], weight[cell] + block_weight
            shift = block_mean - mean[cell]
            if before > 0:
                total += np.outer(shift * (before * block_weight / after), shift)
            mean[cell] += shift * (block_weight / after)
            weight[cell] = after
        count[cell] = _length(picks)
        upper = np.triu(total)
        scatter[cell] = upper + np.triu(upper, 1).T
        # A constant column leaves the rounding of its own mean behind; a criterion that divides by
        # the group's variance would take that dust for data.
        dust = weight[cell] * (16 * np.finfo(float).eps * mean[cell]) ** 2
        constant = np.diag(upper) <= dust
        scatter[cell][constant] = 0.0
        scatter[cell][:, constant] = 0.0
    return Scatter(count, weight, mean, scatter)


def _cells(codes: IntArray, n_cells: int) -> Iterator[tuple[int, slice | IntArray]]:
    """Yield each non-empty cell with its rows: a slice where they are contiguous."""
    if np.all(codes[1:] >= codes[:-1]):
        edges = np.searchsorted(codes, np.arange(n_cells + 1))
        for cell in range(n_cells):
            if edges[cell + 1] > edges[cell]:
                yield cell, slice(int(edges[cell]), int(edges[cell + 1]))
        return
    order = np.argsort(codes, kind="stable")
    edges = np.searchsorted(codes[order], np.arange(n_cells + 1))
    for cell in range(n_cells):
        if edges[cell + 1] > edges[cell]:
            yield cell, order[edges[cell] : edges[cell + 1]]


def _length(picks: slice | IntArray) -> int:
    return picks.stop - picks.start if isinstance(picks, slice) else len(picks)


def _part(picks: slice | IntArray, start: int, stop: int) -> slice | IntArray:
    if isinstance(picks, slice):
        return slice(picks.start + start, min(picks.start + stop, picks.stop))
    return picks[start:stop]


def _gather(rows: Any, part: slice | IntArray, block: FloatArray) -> None:
    if isinstance(part, slice):
        block[...] = rows[part]
    elif rows.dtype == block.dtype and isinstance(rows, np.ndarray):
        # mode="clip" lets take write straight into the buffer; the indices are in range.
        np.take(rows, part, axis=0, out=block, mode="clip")
    else:
        block[...] = rows[part]


def _centre(block: FloatArray, weight: AnyArray | None) -> tuple[float, FloatArray]:
    """Centre the block in place (and scale rows by the root of their weight)."""
    if weight is None:
        mean = block.mean(axis=0)
        block -= mean
        return float(len(block)), mean
    total = float(weight.sum())
    if total == 0:
        return 0.0, np.zeros(block.shape[1])
    mean = weight @ block / total
    block -= mean
    block *= np.sqrt(weight)[:, None]
    return total, mean
