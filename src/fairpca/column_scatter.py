"""Mean and centred scatter of every group from columns, as a columnar file stores them.

A table that arrives column by column is never turned into rows: a block of columns is gathered in
group order into a float64 buffer with one column per line, each group's stretch of it is centred
on its own mean and squared, and blocks merge by the pairwise update of Chan, Golub and LeVeque.
Where means are small against the spread, the product is centred instead, as in `scatter`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairpca.arrays import AnyArray, FloatArray, IntArray
from fairpca.scatter import SAFE_OFFSET, SAMPLE_ROWS, Scatter, clear_dust

# A block of about this many entries is gathered at a time (measured: fewer pay for the calls,
# more for memory that left the cache).
_BLOCK_ENTRIES = 1_600_000
_MOST_ROWS = 32_768
# Adding a block's product to the sum costs a pass over n^2 numbers, whatever the block's height.
_LEAST_ROWS = 1024


def column_scatter(
    columns: Sequence[AnyArray],
    codes: IntArray,
    count: IntArray,
    sample_weight: FloatArray | None = None,
) -> Scatter:
    """Accumulate the scatter of every cell.

    Parameters
    ----------
    columns : sequence of ndarray of shape (m,)
        One array a feature, any numeric dtype.
    codes : ndarray of shape (m,)
        The cell of every row, 0..c-1.
    count : ndarray of shape (c,)
        Rows of every cell.
    sample_weight : ndarray of shape (m,), optional
    """
    m, n, n_cells = len(codes), len(columns), len(count)
    found = Scatter(count, np.zeros(n_cells), np.zeros((n_cells, n)), np.zeros((n_cells, n, n)))
    order = _group_order(codes, n_cells)
    edges = np.r_[0, np.cumsum(count)]
    step = int(np.clip(_BLOCK_ENTRIES // max(n, 1), _LEAST_ROWS, _MOST_ROWS))
    buffer = np.empty((n, min(step, m)))
    scratch = {column.dtype: np.empty(min(step, m), column.dtype) for column in columns}
    safe = False
    for start in range(0, m, step):
        stop = min(start + step, m)
        block = buffer[:, : stop - start]
        part = slice(start, stop) if order is None else order[start:stop]
        _gather(columns, part, block, scratch)
        if start == 0:
            safe = sample_weight is None and _looks_safe(block)
        weight = None if sample_weight is None else sample_weight[part]
        first = int(np.searchsorted(edges, start, side="right")) - 1
        for cell in range(first, n_cells):
            low, high = max(int(edges[cell]), start), min(int(edges[cell + 1]), stop)
            if low >= stop:
                break
            if low < high:
                inside = slice(low - start, high - start)
                w = None if weight is None else weight[inside]
                # np.dot would copy a part of the lines twice, and no longer see that it is
                # multiplied by itself.
                _count_in(found, cell, np.ascontiguousarray(block[:, inside]), w, safe)
    clear_dust(found.weight, found.mean, found.scatter)
    return found


def _group_order(codes: IntArray, n_cells: int) -> IntArray | None:
    """Return the rows in group order; None where they are already."""
    if n_cells == 1 or bool(np.all(codes[1:] >= codes[:-1])):
        return None
    # Sixteen-bit keys are sorted by radix.
    return np.argsort(codes.astype(np.int16) if n_cells < 2**15 else codes, kind="stable")


def _gather(
    columns: Sequence[AnyArray],
    part: slice | IntArray,
    block: FloatArray,
    scratch: dict[np.dtype[Any], AnyArray],
) -> None:
    for line, column in zip(block, columns, strict=True):
        if isinstance(part, slice):
            line[...] = column[part]
            continue
        # Gathered while narrow and widened while in the cache. mode="clip" lets take write
        # straight into its target; the indices are in range.
        target = line if column.dtype == np.float64 else scratch[column.dtype][: len(part)]
        column.take(part, out=target, mode="clip")
        if target is not line:
            line[...] = target


def _looks_safe(block: FloatArray) -> bool:
    sample = block[:, :: max(block.shape[1] // SAMPLE_ROWS, 1)]
    return bool(np.all(sample.mean(axis=1) ** 2 <= 0.7 * SAFE_OFFSET * sample.var(axis=1)))


def _count_in(
    found: Scatter,
    cell: int,
    stretch: FloatArray,
    sample_weight: FloatArray | None,
    safe: bool,
) -> None:
    """Merge the rows of one cell (one a column of `stretch`, which may be overwritten)."""
    if sample_weight is None:
        weight = float(stretch.shape[1])
        mean = np.einsum("ij->i", stretch) / weight
    else:
        weight = float(sample_weight.sum())
        if weight == 0:
            return
        mean = stretch @ sample_weight / weight
    product = _centred_afterwards(stretch, mean) if safe else None
    if product is None:
        stretch -= mean[:, None]
        if sample_weight is not None:
            stretch *= np.sqrt(sample_weight)
        # NumPy sees a matrix times its own transpose and asks BLAS for one triangle; np.dot,
        # unlike matmul, lets other threads run meanwhile.
        product = np.dot(stretch, stretch.T)
    scatter = found.scatter[cell]
    scatter += product
    before = float(found.weight[cell])
    after = before + weight
    shift = mean - found.mean[cell]
    if before > 0:
        scatter += np.outer(shift * (before * weight / after), shift)
    found.mean[cell] += shift * (weight / after)
    found.weight[cell] = after


def _centred_afterwards(stretch: FloatArray, mean: FloatArray) -> FloatArray | None:
    """Return the centred product without a pass over the rows; None where it loses digits."""
    product = np.dot(stretch, stretch.T)
    m = stretch.shape[1]
    if not np.all(mean**2 <= SAFE_OFFSET * (np.diag(product) / m - mean**2)):
        return None
    product -= np.outer(m * mean, mean)
    return np.asarray(product)
