"""Mean and centred scatter of every group from rows, in float64, for about one X.T @ X.

A block of rows is copied into a float64 buffer, centred on its own mean and squared. What rounding
left of the mean is taken away from the squares afterwards, which saves a pass over the block.
Blocks merge by the pairwise update of Chan, Golub and LeVeque.

Threads take strands of several blocks. How rows are cut into strands and blocks does not depend on
the number of threads, so neither does a single bit of the result.

Rows that a file stores column by column (`Columns`) go the same way, in blocks with one column a
line: such a table is never turned into rows, which would take its size in memory once more. Sparse
rows of few entries are multiplied as they are (`sparse_scatter`).

Read `group_scatter` first, then `_Worker.strand`. A cell is a group here, or the unlabelled rows.
"""

from __future__ import annotations

import functools
import itertools
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
from scipy.linalg.blas import dsyrk

from fairpca._checks import check_vanished
from fairpca._linalg import (
    AnyArray,
    FloatArray,
    IntArray,
    array_namespace,
    fetched,
    is_foreign,
    is_sparse,
    library_of,
    placed,
)
from fairpca._threads import available_threads, in_threads
from fairpca.moments.sparse_scatter import count_sparse

# Entries of a block: enough to keep BLAS busy, little beside the memory of a machine.
_BLOCK_ENTRIES = 3_000_000
# Narrow rows come this many to a block, so that it stays in the cache between its uses (measured
# from 16 to 173 columns: a third slower with four times as many); wide ones at least this many,
# because adding up a product costs a pass over n^2 numbers whatever the height of the block.
_MOST_ROWS, _LEAST_ROWS = 4096, 256
# The same for rows that are stored column by column, where every column of a block is a call
# (measured on Parquet files of 10 to 500 columns: fewer entries pay for the calls, more for memory
# that left the cache; either way up to a third slower).
_COLUMN_ENTRIES = 1_600_000
_MOST_COLUMN_ROWS, _LEAST_COLUMN_ROWS = 32_768, 1024
# A block times these is the sum of its columns. np.dot lets other threads run meanwhile, and is
# faster for few columns than numpy's own sums, which do not.
_ONES = np.ones(_MOST_COLUMN_ROWS)
# Where weights lie outside this range, those of a cell are counted relative to its largest one.
# Others lose nothing, and stay as they are so that whole numbers stay whole.
_PLAIN_WEIGHTS = (1e-50, 1e50)
# A column whose standard deviation is below this share of its mean counts as constant: rounding of
# the mean leaves as much.
_DUST = 16 * float(np.finfo(float).eps)
# Entries of a block on another device: half a gigabyte in float64. More would compete with the
# rows for its memory, fewer wait for every product.
_DEVICE_ENTRIES = 1 << 26
# Strands a group is cut into; each holds one matrix of results while it is worked on.
_STRANDS = 16
# Up to this many columns, single-threaded products on every core beat one product on all cores
# (measured on two cores: by a third at 23 to 64 columns, a fifth at 173, nothing at 512).
_OWN_THREADS_TO = 400


@dataclass(frozen=True)
class Columns:
    """Rows stored column by column: one array of shape (m,) a feature, any numeric dtype."""

    columns: Sequence[AnyArray]
    n_rows: int

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of features."""
        return self.n_rows, len(self.columns)

    def __getitem__(self, picks: IntArray) -> FloatArray:
        return np.array([column[picks] for column in self.columns], dtype=float).T

    def gather(self, picks: slice | IntArray, lines: FloatArray) -> None:
        """Copy some rows into an array of shape (n, rows), one column a line."""
        for line, column in zip(lines, self.columns, strict=True):
            line[...] = column[picks] if isinstance(picks, slice) else column.take(picks)


@dataclass(frozen=True)
class Scatter:
    """Rows, weight, mean and centred scatter of each of c cells.

    Attributes
    ----------
    count, weight : ndarray of shape (c,)
    mean : ndarray of shape (c, 2, n)
        The mean and what is left of it after rounding: with columns far from zero the distance
        between two means is smaller than the last digit of either.
    scatter : array of shape (c, n, n)
        NumPy's, or where the rows live (`device_scatter`).
    """

    count: IntArray
    weight: FloatArray
    mean: FloatArray
    scatter: Any


def merge_means(
    weight: Any, mean: FloatArray, other_weight: Any, other_mean: FloatArray
) -> tuple[Any, FloatArray, FloatArray]:
    """Merge the weights and means of two sets of rows (Chan, Golub and LeVeque).

    Weights are numbers with means of shape (2, n), or arrays of shape (c,) with means of shape
    (c, 2, n) for c pairs of sets at once; the second line is what rounding left of the first.

    Returns
    -------
    weight, mean
        Of both sets together.
    between : ndarray of shape (n,) or (c, n)
        What the distance of the means adds to the scatter is the outer product of this vector
        with itself.
    """
    total = np.add(weight, other_weight)
    shift = (other_mean - mean).sum(axis=-2)
    smaller, larger = np.minimum(weight, other_weight), np.maximum(weight, other_weight)
    most, least = (
        np.divide(part, total, out=np.zeros_like(total), where=total > 0)
        for part in (larger, smaller)
    )
    # The share of the smaller weight may vanish where that weight times a square does not.
    between = shift * (np.sqrt(smaller) * np.sqrt(most))[..., None]
    # From the mean of the larger side: the way from an empty set would be the whole of the other
    # mean, in which the rest of its rounding is lost. It is short, and one minus the share of the
    # larger side would have few digits of it.
    far = np.asarray(other_weight > weight)[..., None]
    start = np.where(far[..., None], other_mean, mean)
    way = shift * np.where(far, -least[..., None], least[..., None])
    return total, moved(start, way), between


def moved(mean: FloatArray, by: FloatArray) -> FloatArray:
    """Return means of shape (..., 2, n) plus vectors of shape (..., n), no digit lost.

    The second line takes what the sum of the first lines loses to rounding (Knuth's TwoSum).
    """
    high, low = mean[..., 0, :], mean[..., 1, :]
    total = high + by
    part = total - high
    rest = (high - (total - part)) + (by - part) + low
    return np.stack([total, rest], axis=-2)


def overall_mean(weight: FloatArray, mean: FloatArray) -> FloatArray:
    """Return the mean of all cells together, shape (2, n), from their means, shape (c, 2, n).

    It is zero where there is no weight, or no cell at all.
    """
    total = float(weight.sum())
    if total == 0:
        return np.zeros(mean.shape[1:])
    # Distances from one cell's mean, not from zero: a large mean would eat their digits.
    origin = mean[int(np.argmax(weight))]
    shifts = (mean - origin).sum(axis=1)
    return moved(origin, weight @ shifts / total)


@np.errstate(over="ignore", invalid="ignore", under="ignore")
def check_between(between: FloatArray, weight: FloatArray, mean: FloatArray, scatter: Any) -> None:
    """Raise ValueError where tiny weights make the distance between means vanish.

    Parameters
    ----------
    between : ndarray of shape (c, n)
        What `merge_means` returns for every cell.
    weight, mean, scatter
        Of the merged cells, of shapes (c,), (c, n) and (c, n, n). A distance that is rounding of
        the mean, or whose own square is no number, counts as none, as it does without weights.
    """
    size, least, eps = np.abs(between), np.sqrt(np.finfo(float).tiny), np.finfo(float).eps
    lost = (size > 0) & (size < least)
    if not lost.any():
        return
    lost &= size >= np.maximum(least, _DUST * np.abs(mean)) * np.sqrt(weight)[:, None]
    # Beside other columns of the same rows, less than this is rounding and may vanish.
    others = np.sqrt(diagonals(scatter).max(axis=1))
    lost &= size > eps * np.maximum(others, size.max(axis=1))[:, None]
    if lost.any():
        _refuse_weights(weight[lost.any(axis=1)].max())


def _refuse_weights(largest: float) -> NoReturn:
    raise ValueError(
        f"sample_weight reaches {largest:.3g} in a group, and times the squares of X that leaves "
        "the range of numbers; rescale all weights by one number, which changes no component."
    )


@np.errstate(invalid="ignore", over="ignore")
def group_scatter(
    rows: Any, codes: IntArray, count: IntArray, sample_weight: FloatArray | None = None
) -> Scatter:
    """Accumulate the scatter of every cell.

    What is not finite in the rows shows in the sums, and the caller says so.

    Parameters
    ----------
    rows : array, sparse matrix or Columns of shape (m, n)
        Any numeric dtype; read block by block, never copied whole.
    codes : array of shape (m,)
        The cell of every row, 0..c-1; where the rows live, or NumPy's.
    count : ndarray of shape (c,)
        Rows of every cell.
    sample_weight : ndarray of shape (m,), optional

    Returns
    -------
    Scatter
        Centred; constant columns have exactly zero scatter.

    Raises
    ------
    ValueError
        If the weights times the squares of the rows leave the range of float64.
    """
    largest = np.ones(len(count))
    if sample_weight is not None:
        given = sample_weight
        largest, sample_weight = _relative_weights(given, fetched(codes), len(count))
        check_vanished(rows, given, sample_weight)
    if array_namespace(rows) is not None:
        there = device_scatter(rows, codes, count, sample_weight)
        found = replace(there, scatter=np.require(fetched(there.scatter), requirements="W"))
    else:
        c, n = len(count), rows.shape[1]
        found = Scatter(count, np.zeros(c), np.zeros((c, 2, n)), np.zeros((c, n, n)))
        positions, cells = _positions(codes, count), np.flatnonzero(count).tolist()
        if is_sparse(rows):
            cells = _count_sparse_cells(found, rows, sample_weight, positions, cells)
        _count_strands(found, _Worker(rows, sample_weight), positions, cells)
    clear_dust(found.weight, found.mean[:, 0], found.scatter)
    if np.any(largest != 1):
        squares = np.einsum("kii->ki", found.scatter)
        scaled = squares * largest[:, None]
        # Beside another column of the same rows, less than this is rounding and may vanish.
        counts = squares > np.finfo(float).eps ** 2 * squares.max(axis=1, keepdims=True)
        lost = counts & (scaled < np.finfo(float).tiny)
        if np.any(lost) or (np.isfinite(squares.sum()) and not np.isfinite(scaled.sum())):
            _refuse_weights(float(largest.max()))
        found.scatter[...] *= largest[:, None, None]
        found.weight[...] *= largest
    return found


@np.errstate(invalid="ignore", over="ignore")
def device_scatter(
    rows: Any, codes: Any, count: IntArray, weights: FloatArray | None = None
) -> Scatter:
    """Count rows of another array library where they live, in float64.

    Every block is centred on its own mean before it is squared. A device without float64 is
    refused by its library.

    Parameters
    ----------
    rows : array of another library, of shape (m, n)
    codes : array of shape (m,)
        The cell of every row, 0..c-1, here or there.
    count : ndarray of shape (c,)
        Rows of every cell.
    weights : ndarray of shape (m,), optional

    Returns
    -------
    Scatter
        Its `scatter` stays where the rows live; the rest is NumPy's.
    """
    xp, n, c = library_of(rows), rows.shape[1], len(count)
    if not is_foreign(codes):
        # The fewest bytes that hold them: copying codes may take longer than counting.
        codes = placed(codes.astype(np.int16 if c < 2**15 else np.int64), rows)
    weight_of = None if weights is None else placed(weights, rows)
    order, edges = xp.argsort(codes, stable=True), [0, *np.cumsum(count).tolist()]
    step = max(1, _DEVICE_ENTRIES // max(n, 1))
    # One entry a block. Means are fetched at the end, and without weights nothing is before: the
    # device does not wait for the host.
    cells, totals, means = [], [], []
    scatters = []
    for cell in range(c):
        squares = xp.zeros((n, n), dtype=xp.float64, device=rows.device)
        for start in range(edges[cell], edges[cell + 1], step):
            picks = order[start : min(start + step, edges[cell + 1])]
            block = xp.astype(xp.take(rows, picks, axis=0), xp.float64, copy=False)
            w = None if weight_of is None else xp.take(weight_of, picks, axis=0)
            total = float(picks.shape[0]) if w is None else float(xp.sum(w))
            if total == 0:
                continue
            # Means by products: CuPy's own mean of a tall block takes a hundred times as long.
            each = xp.ones_like(block[:, 0]) if w is None else w
            mean = each @ block / total
            block = block - mean
            # What rounding left of the mean is taken away from the squares afterwards.
            rest = each @ block / total
            squares = squares + (block if w is None else block * w[:, None]).T @ block
            squares = squares - total * (rest[:, None] * rest[None, :])
            cells.append(cell)
            totals.append(total)
            means.append(xp.stack([mean, rest]))
        scatters.append(squares)
    weight, mean_of = np.zeros(c), np.zeros((c, 2, n))
    fetched_means = fetched(xp.stack(means)) if means else mean_of[:0]
    for cell in np.unique(cells).tolist():
        own = np.equal(cells, cell)
        weight[cell], mean_of[cell], between = _joined(np.array(totals)[own], fetched_means[own])
        apart = placed(between, rows)
        scatters[cell] = scatters[cell] + apart.T @ apart
    return Scatter(count, weight, mean_of, xp.stack(scatters))


def _joined(weight: FloatArray, mean: FloatArray) -> tuple[float, FloatArray, FloatArray]:
    """Return weight and mean, shape (2, n), of blocks with weights (b,) and means (b, 2, n).

    Third, of shape (b, n), is what the distances between their means add to the scatter: the
    product of this matrix with itself.
    """
    together = overall_mean(weight, mean)
    between = np.sqrt(weight)[:, None] * (mean - together).sum(axis=1)
    return float(weight.sum()), together, between


def sender(like: Any) -> Callable[[Any], Any]:
    """Return what copies NumPy arrays to the device of another one; None for no device.

    PyTorch's own copy from ordinary memory to a CUDA device keeps the device's products waiting.
    """
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(like, torch.Tensor) or not like.is_cuda:
        return lambda array: placed(array, like)
    stream = torch.cuda.Stream(like.device)

    def send(array: AnyArray) -> Any:
        # Through memory that the device can read, beside its products.
        here = placed(array, torch.empty(0)).pin_memory()
        with torch.cuda.stream(stream):
            there = here.to(like.device, non_blocking=True)
        stream.synchronize()
        return there

    return send


def _relative_weights(
    weights: FloatArray, codes: IntArray, n_cells: int
) -> tuple[FloatArray, FloatArray]:
    """Return a factor for every cell and the weights over it.

    Where roots and products of weights would leave the range of numbers, the factor of a cell is
    its largest weight; elsewhere it is one.
    """
    largest = np.ones(n_cells)
    low, high = _PLAIN_WEIGHTS
    if weights.max(initial=0.0) <= high and weights.min(initial=1.0, where=weights > 0) >= low:
        return largest, weights
    largest = np.zeros(n_cells)
    np.maximum.at(largest, codes, weights)
    largest[largest == 0] = 1.0
    return largest, weights / largest[codes]


def _index(picks: range | IntArray) -> slice | IntArray:
    """Return what reads the rows at these positions; a slice, which copies nothing, if it can."""
    return slice(picks.start, picks.stop, picks.step) if isinstance(picks, range) else picks


def _count_sparse_cells(
    found: Scatter,
    rows: Any,
    sample_weight: FloatArray | None,
    positions: Callable[[int], range | IntArray],
    cells: list[int],
) -> list[int]:
    """Write the cells that sparse products are made for into `found`, and return the others."""
    left = []
    for cell in cells:
        picks = _index(positions(cell))
        weights = None if sample_weight is None else sample_weight[picks]
        weight = count_sparse(rows[picks], weights, found.mean[cell], found.scatter[cell])
        if weight is None:
            left.append(cell)
        else:
            found.weight[cell] = weight
    return left


def _count_strands(
    found: Scatter,
    worker: _Worker,
    positions: Callable[[int], range | IntArray],
    cells: list[int],
) -> None:
    """Write the weight, mean and scatter of some cells into `found`."""
    strands = {cell: _strands(positions(cell), worker) for cell in cells}
    wide = worker.rows.shape[1] > _OWN_THREADS_TO
    results: Iterator[tuple[FloatArray, FloatArray, FloatArray]]
    if wide:
        # One strand a cell, straight into the matrix it ends in: a second one is much memory.
        results = (worker.strand(own[0], found.scatter[cell].T) for cell, own in strands.items())
    else:
        parts = itertools.chain.from_iterable(strands.values())
        tasks = [functools.partial(worker.strand, part) for part in parts]
        results = iter(in_threads(tasks, available_threads()))
    for cell, own in strands.items():
        weights, means, squares = zip(*itertools.islice(results, len(own)), strict=True)
        weight, mean = np.concatenate(weights), np.concatenate(means)
        found.weight[cell], found.mean[cell], between = _joined(weight, mean)
        # What rounding left of the blocks' means is no part of the squares.
        rest = np.sqrt(weight)[:, None] * mean[:, 1]
        scatter = found.scatter[cell]
        if wide:
            for sign, part in ((1.0, between), (-1.0, rest)):
                dsyrk(sign, part.T, beta=1.0, c=scatter.T, overwrite_c=1)
            _mirror(scatter.T)
            continue
        for part in squares:
            scatter += part
        scatter += np.dot(between.T, between) - np.dot(rest.T, rest)


def block_rows(n_features: int) -> int:
    """Rows per block for this many features."""
    return min(max(_BLOCK_ENTRIES // max(n_features, 1), _LEAST_ROWS), _MOST_ROWS)


def _positions(codes: IntArray, count: IntArray) -> Callable[[int], range | IntArray]:
    """Return a function from a cell to its rows: a range where they are consecutive."""
    edges = [0, *np.cumsum(count).tolist()]
    # Short keys are compared faster, and sorted by radix.
    keys = codes.astype(np.int16) if len(count) < 2**15 else codes
    if (keys[1:] >= keys[:-1]).all():
        return lambda cell: range(edges[cell], edges[cell + 1])
    order = np.argsort(keys, kind="stable")
    return lambda cell: order[edges[cell] : edges[cell + 1]]


def _strands(rows: range | IntArray, worker: _Worker) -> list[list[range | IntArray]]:
    """Cut the rows of a cell into strands of blocks.

    A strand is what one thread works on, a block what one product takes. Narrow rows are cut into
    at most 16 strands; wide ones stay in one, since BLAS uses threads of its own there.
    """
    blocks = [rows[low : low + worker.step] for low in range(0, len(rows), worker.step)]
    each = len(blocks) if worker.rows.shape[1] > _OWN_THREADS_TO else -(-len(blocks) // _STRANDS)
    return [blocks[j : j + each] for j in range(0, len(blocks), each)]


class _Worker(threading.local):
    """Squares blocks of rows in one buffer a thread, because fresh memory is slow.

    Parameters
    ----------
    rows : array, sparse matrix or Columns of shape (m, n)
    sample_weight : ndarray of shape (m,) or None
    """

    def __init__(self, rows: Any, sample_weight: FloatArray | None) -> None:
        self.rows, self.sample_weight = rows, sample_weight
        # Of others, such as the columns of a data frame, `take` would copy all for every block.
        plain = isinstance(rows, np.ndarray) and rows.flags.c_contiguous
        self.gathers = plain and rows.dtype == np.float64
        m, n = rows.shape
        self.step = block_rows(n)
        if isinstance(rows, Columns):
            fitting = max(_COLUMN_ENTRIES // max(n, 1), _LEAST_COLUMN_ROWS)
            self.step = min(fitting, _MOST_COLUMN_ROWS)
        self.buffer = np.empty(min(self.step, m) * n)

    @np.errstate(invalid="ignore", over="ignore")
    def strand(
        self, blocks: list[range | IntArray], squares: FloatArray | None = None
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return weight, shape (b,), and mean, shape (b, 2, n), of b blocks, and their squares.

        The squares, of shape (n, n), are the sum over all blocks. Those of wide rows are added to
        `squares`, a matrix stored column by column, in its upper triangle.
        """
        weight, mean = np.zeros(len(blocks)), np.zeros((len(blocks), 2, self.rows.shape[1]))
        for i, picks in enumerate(blocks):
            block = self.copied(picks)
            weights = None if self.sample_weight is None else self.sample_weight[_index(picks)]
            weight[i] = _centre(block, weights, mean[i])
            squares = _add_product(squares, block)
        assert squares is not None
        return weight, mean, squares

    def copied(self, picks: range | IntArray) -> FloatArray:
        """Return a copy of some rows, dense or sparse, of any numeric dtype."""
        size, n = len(picks), self.rows.shape[1]
        entries = self.buffer[: size * n]
        if isinstance(self.rows, Columns):
            lines = entries.reshape(n, size)
            self.rows.gather(_index(picks), lines)
            return lines.T
        block = entries.reshape(size, n)
        if self.gathers and not isinstance(picks, range):
            # mode="clip" lets take write straight into the block; the indices are in range.
            self.rows.take(picks, axis=0, out=block, mode="clip")
        else:
            rows = self.rows[_index(picks)]
            block[...] = rows.toarray() if is_sparse(rows) else rows
        return block


def _sums(block: FloatArray, weights: FloatArray | None) -> FloatArray:
    """Return the weighted sum of every column."""
    if block.shape[1] > _OWN_THREADS_TO:
        # Here BLAS uses its threads, and those of NumPy's would wait in a loop beside SciPy's.
        found = block.sum(axis=0) if weights is None else np.einsum("i,ij->j", weights, block)
        return np.asarray(found)
    return np.asarray(np.dot(_ONES[: len(block)] if weights is None else weights, block))


def _centre(block: FloatArray, weights: FloatArray | None, means: FloatArray) -> float:
    """Centre a block in place, scale its rows by the root of their weight; return the weight.

    Written into `means`, of shape (2, n), are the mean, which is subtracted, and the mean of what
    is left then, which is not: rounding, and the more so the further the mean is from zero.
    """
    total = float(len(block) if weights is None else weights.sum())
    if total == 0:
        # Not set to zero: what is no number must show in the sums.
        block *= 0.0
        return 0.0
    means[0] = _sums(block, weights) / total
    block -= means[0]
    means[1] = _sums(block, weights) / total
    if weights is not None:
        block *= np.sqrt(weights)[:, None]
    return total


def _add_product(total: FloatArray | None, block: FloatArray) -> FloatArray:
    """Return ``total + block.T @ block``, in `total` where there is one.

    Of wide rows that are stored row by row only the upper triangle is added.
    """
    if block.shape[1] > _OWN_THREADS_TO and not block.flags.f_contiguous:
        return np.asarray(dsyrk(1.0, block.T, beta=1.0, c=total, overwrite_c=1))
    # np.dot lets other threads run meanwhile, such as those that read the columns of further
    # pieces; matmul and SciPy do not.
    product: FloatArray = np.dot(block.T, block)
    return product if total is None else np.add(total, product, out=total)


def _mirror(matrix: FloatArray) -> None:
    """Copy the upper triangle to the lower one in place, by blocks that fit into the cache."""
    n, step = len(matrix), 256
    for i in range(0, n, step):
        j = min(i + step, n)
        corner = np.triu(matrix[i:j, i:j])
        matrix[i:j, i:j] = corner + np.triu(corner, 1).T
        matrix[j:, i:j] = matrix[i:j, j:].T


@np.errstate(over="ignore")
def clear_dust(weight: FloatArray, mean: FloatArray, scatter: Any) -> None:
    """Set constant columns of every cell's scatter to exactly zero, in place, wherever it lives.

    A constant column leaves the rounding of its own mean behind; a criterion that divides by the
    group's variance would take that dust for data. So would it take squares that underflowed.
    """
    squares = diagonals(scatter)
    dust = weight[:, None] * (_DUST * mean) ** 2
    dust = np.maximum(dust, np.finfo(float).tiny * np.maximum(weight, 1.0)[:, None])
    # An infinite square is no dust: the caller refuses it.
    constant = (squares <= dust) & np.isfinite(squares)
    if constant.any():
        kept = placed(1.0 - constant, scatter)
        scatter *= kept[:, :, None]
        scatter *= kept[:, None, :]


def diagonals(matrices: Any) -> FloatArray:
    """Return the diagonals of matrices of shape (k, n, n), here or elsewhere, as (k, n)."""
    if isinstance(matrices, np.ndarray):
        return np.asarray(np.einsum("kii->ki", matrices))
    return fetched(library_of(matrices).linalg.diagonal(matrices))
