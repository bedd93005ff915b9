"""Mean and centred scatter of every group from columns, as a columnar file stores them.

A table that arrives column by column is never turned into rows, which would take its size in
memory once more: a block of columns is gathered in group order into a float64 buffer with one
column per line, each group's stretch of it is centred on its own mean and squared, and blocks
merge as in `row_scatter`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairpca._linalg import AnyArray, FloatArray, IntArray
from fairpca.moments.row_scatter import Scatter, cell_order, clear_dust

# Entries gathered at a time (measured on Parquet files of 10 to 500 columns: fewer pay for the
# calls, more for memory that left the cache; either way up to a third slower).
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

    Returns
    -------
    Scatter
        As from `row_scatter.group_scatter` for the same rows, to rounding.
    """
    m, n, n_cells = len(codes), len(columns), len(count)
    found = Scatter.zeros(count, n)
    order = cell_order(codes, n_cells)
    edges = np.r_[0, np.cumsum(count)]
    step = int(np.clip(_BLOCK_ENTRIES // max(n, 1), _LEAST_ROWS, _MOST_ROWS))
    buffer = np.empty((n, min(step, m)))
    scratch = {column.dtype: np.empty(min(step, m), column.dtype) for column in columns}
    for start in range(0, m, step):
        stop = min(start + step, m)
        block = buffer[:, : stop - start]
        part = slice(start, stop) if order is None else order[start:stop]
        _gather(columns, part, block, scratch)
        weight = None if sample_weight is None else sample_weight[part]
        first = int(np.searchsorted(edges, start, side="right")) - 1
        for cell in range(first, n_cells):
            low, high = max(int(edges[cell]), start), min(int(edges[cell + 1]), stop)
            if low >= stop:
                break
            if low < high:
                inside = slice(low - start, high - start)
                # np.dot would copy a part of the lines twice, and no longer see that it is
                # multiplied by itself.
                stretch = np.ascontiguousarray(block[:, inside])
                _count_in(found, cell, stretch, None if weight is None else weight[inside])
    clear_dust(found.weight, found.mean[:, 0], found.scatter)
    return found


def _gather(
    columns: Sequence[AnyArray],
    part: slice | IntArray,
    block: FloatArray,
    scratch: dict[np.dtype[Any], AnyArray],
) -> None:
    """Copy some rows of every column into the lines of `block`."""
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


def _count_in(
    found: Scatter, cell: int, stretch: FloatArray, sample_weight: FloatArray | None
) -> None:
    """Merge the rows of one cell (one a column of `stretch`, which is overwritten)."""
    weight = float(stretch.shape[1] if sample_weight is None else sample_weight.sum())
    if weight == 0:
        return
    # Twice, as in `row_scatter`: the second mean is what rounding left of the first.
    mean = np.empty((2, len(stretch)))
    for line in mean:
        sums = np.einsum("ij->i", stretch) if sample_weight is None else stretch @ sample_weight
        line[...] = sums / weight
        stretch -= line[:, None]
    if sample_weight is not None:
        stretch *= np.sqrt(sample_weight)
    # NumPy sees a matrix times its own transpose and asks BLAS for one triangle; np.dot, unlike
    # matmul, lets other threads run meanwhile.
    found.add(cell, weight, mean, np.dot(stretch, stretch.T))
