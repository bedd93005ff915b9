"""Mean and centred scatter of every group from rows, in float64, for about one X.T @ X.

Rows are read in blocks. Every group has a shift, about the mean of its rows, that is subtracted
from all of them; squares and sums about it add up over blocks, and what the shift lacks to the
mean is taken away at the end. Where that is much, the group is counted once more about its mean.
Sparse rows of few entries are multiplied as they are, and rows on another device where they live.

How rows are cut into pieces does not depend on the number of threads, so neither does a single bit
of the result. Read `group_scatter` first. A cell is a group here, or the unlabelled rows.
"""

from __future__ import annotations

import functools
import itertools
import sys
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import dgemm, dsyrk

from fairpca._arrays import (
    EPS,
    FloatArray,
    IntArray,
    available_threads,
    diagonals,
    fetched,
    in_threads,
    is_foreign,
    is_sparse,
    library_of,
    mirrored,
    placed,
    threads_for,
)
from fairpca._check import as_numpy

# Entries of a block: enough to keep BLAS busy, little beside the memory of a machine. Narrow rows
# come at most so many to a block, so that it stays in the cache between its uses; wide ones at
# least so many, because adding up a product costs a pass over n^2 numbers.
_BLOCK_ENTRIES, _MOST_ROWS, _LEAST_ROWS = 3_000_000, 1024, 256
# Up to this many columns, products of one thread on every core beat one product on all cores;
# pieces of this many entries are worth a thread.
_OWN_THREADS_TO, _PIECE_ENTRIES = 300, 4_000_000
# Up to this many entries one thread counts them all as fast as several.
_ALONE = 1_000_000
# Up to this many columns a general product of SciPy's is faster than NumPy's symmetric one.
_GENERAL_TO = 24
# Entries of a block on another device: half a gigabyte in float64.
_DEVICE_ENTRIES = 1 << 26
# A group is counted again where the mean is further from the shift than this, in variances.
_FAR = 16.0
# A multiplication of a sparse product takes as long as this many of a dense one (measured on two
# cores with 300 to 5,000 columns: from 60 to 100). If it is wrong, counting takes longer.
_SPARSE_COST, _SPARSE_PARTS = 75, 16


class GroupSums(NamedTuple):
    """What was counted of c cells: the mean of each is its shift plus what that is off by.

    Attributes
    ----------
    weight : ndarray of shape (c,)
    shift, off : ndarray of shape (c, n)
    scatter : array of shape (c, n, n)
        About the mean, where the rows live.
    """

    weight: FloatArray
    shift: FloatArray
    off: FloatArray
    scatter: Any


@np.errstate(invalid="ignore", over="ignore")
def group_scatter(
    rows: Any, codes: Any, count: IntArray, weights: FloatArray | None = None
) -> GroupSums:
    """Accumulate the scatter of every cell.

    What is not finite in the rows shows in the sums, and the caller says so.

    Parameters
    ----------
    rows : array or sparse matrix of shape (m, n)
        Any numeric dtype; read block by block, never copied whole.
    codes : array of shape (m,)
        The cell of every row, 0..c-1; where the rows live, or NumPy's.
    count : ndarray of shape (c,)
        Rows of every cell, at least one.
    weights : ndarray of shape (m,), optional
        Positive.
    """
    positions, n = _positions(rows, codes, count), rows.shape[1]
    here = not is_foreign(rows)
    # Asked before BLAS is limited to one thread.
    threads = available_threads() if here and len(codes) * n > _ALONE else 1
    counted = functools.partial(_count_here, threads) if here else _count_there
    with threads_for(n if here else 0):
        found = counted(rows, weights, positions, None)
        dust = found.weight[:, None] * (16 * EPS * found.shift) ** 2
        far = found.weight[:, None] * found.off**2 > _FAR * diagonals(found.scatter) + dust
        again = np.flatnonzero(far.any(axis=1)).tolist()
        if again:
            mean = (found.shift + found.off)[again]
            closer = counted(rows, weights, [positions[i] for i in again], mean)
            for i, cell in enumerate(again):
                for whole, part in zip(found, closer, strict=True):
                    whole[cell, ...] = part[i, ...]
    return found


def _positions(rows: Any, codes: Any, count: IntArray) -> list[Any]:
    """Return the rows of every cell: a range where they are consecutive, else an array."""
    ends = itertools.pairwise([0, *np.cumsum(count).tolist()])
    # The fewest bytes that hold them: copying codes to a device may take longer than counting
    # there, and short keys are sorted by radix.
    short = np.int16 if len(count) < 2**15 else np.int64
    if is_foreign(rows):
        there = codes if is_foreign(codes) else placed(codes.astype(short), rows)
        order = library_of(rows).argsort(there, stable=True)
    elif (codes[1:] >= codes[:-1]).all():
        return [range(low, high) for low, high in ends]
    elif len(count) <= 4:
        return [np.flatnonzero(codes == cell) for cell in range(len(count))]
    else:
        order = np.argsort(codes.astype(short), kind="stable")
    return [order[low:high] for low, high in ends]


def _index(picks: Any) -> Any:
    """Return what reads the rows at these positions; a slice, which copies nothing, if it can."""
    return slice(picks.start, picks.stop, picks.step) if isinstance(picks, range) else picks


def _sample(rows: Any, picks: Any) -> FloatArray:
    """Return the mean of some of a cell's rows, exactly the value of a constant column.

    Means within a standard deviation of zero are taken for zero: shifting would save no digit.
    """
    some = rows[_index(picks[:: max(len(picks) // 128, 1)])]
    some = np.asarray(some.toarray() if is_sparse(some) else some, dtype=float)
    mean = some[0] + (some - some[0]).mean(axis=0)
    return np.asarray(mean * (np.abs(mean) > some.std(axis=0)))


def _count_here(
    threads: int, rows: Any, weights: FloatArray | None, positions: list[Any], shifts: Any
) -> GroupSums:
    """Return the sums of cells whose rows are in this process."""
    c, n = len(positions), rows.shape[1]
    found = GroupSums(np.zeros(c), np.zeros((c, n)), np.zeros((c, n)), np.zeros((c, n, n)))
    wide, parts = n > _OWN_THREADS_TO, []
    for cell, picks in enumerate(positions):
        if shifts is None and is_sparse(rows):
            own = None if weights is None else weights[_index(picks)]
            sparse = _sparse_sums(rows[_index(picks)], own, found.scatter[cell], threads)
            if sparse is not None:
                found.weight[cell], found.shift[cell], found.off[cell] = sparse
                continue
        found.shift[cell] = _sample(rows, picks) if shifts is None else shifts[cell]
        size = len(picks) if wide else max(_PIECE_ENTRIES // n, _MOST_ROWS)
        for low in range(0, len(picks), size):
            # Wide rows go straight into the matrix they end in: a second one is much memory.
            into = found.scatter[cell].T if wide else np.zeros((n, n))
            piece = rows, weights, picks[low : low + size], found.shift[cell], into
            parts.append((cell, functools.partial(_dense_sums, *piece)))
    counted = in_threads([task for _, task in parts], 1 if wide else threads)
    for (cell, _), (weight, sums, squares) in zip(parts, counted, strict=True):
        found.weight[cell] += weight
        found.off[cell] += sums
        if not wide:
            found.scatter[cell] += squares
    found.off[...] /= found.weight[:, None]
    for weight, off, scatter in zip(found.weight, found.off, found.scatter, strict=True):
        if wide:
            dsyrk(-weight, off[:, None], beta=1.0, c=scatter.T, overwrite_c=1)
            mirrored(scatter)
        else:
            scatter -= weight * np.multiply.outer(off, off)
    return found


@np.errstate(invalid="ignore", over="ignore")
def _dense_sums(
    rows: Any, weights: FloatArray | None, picks: Any, shift: FloatArray, squares: FloatArray
) -> tuple[float, FloatArray, FloatArray]:
    """Return weight, sums and squares of some rows less a shift, read into one buffer.

    The squares are added to a matrix; of wide rows only the upper triangle of its transpose.
    """
    m, n = len(picks), rows.shape[1]
    step = min(max(_BLOCK_ENTRIES // n, _LEAST_ROWS), _MOST_ROWS if n <= 3000 else _LEAST_ROWS, m)
    buffer, ones = np.empty(step * n), np.ones(step)
    plain = isinstance(rows, np.ndarray) and rows.dtype == np.float64
    # Rows that are stored column by column make blocks that are, too.
    by_column = isinstance(rows, np.ndarray) and rows.flags.f_contiguous and n > 1
    # One line of the length of a block: row by row costs NumPy more than the additions.
    moved = shift.any()
    tiled = np.tile(shift, step) if moved and not by_column else None
    weight, sums = 0.0, np.zeros(n)
    for low in range(0, m, step):
        some = picks[low : low + step]
        flat = buffer[: len(some) * n]
        block = flat.reshape(n, -1).T if by_column else flat.reshape(-1, n)
        if plain and not isinstance(some, range):
            # mode="clip" lets take write straight into the block; the indices are in range.
            if by_column:
                rows.T.take(some, axis=1, out=block.T, mode="clip")
            else:
                rows.take(some, axis=0, out=block, mode="clip")
        else:
            read = rows[_index(some)]
            block[...] = read.toarray() if is_sparse(read) else read
        if tiled is not None:
            flat -= tiled[: flat.size]
        elif moved:
            block -= shift
        w = ones[: len(some)] if weights is None else weights[_index(some)]
        weight += float(len(some) if weights is None else w.sum())
        sums += np.dot(w, block)
        if weights is not None:
            block *= np.sqrt(w)[:, None]
        if n > _OWN_THREADS_TO:
            turned = block if by_column else block.T
            dsyrk(1.0, turned, beta=1.0, c=squares, trans=int(by_column), overwrite_c=1)
        elif n <= _GENERAL_TO and not by_column:
            squares += dgemm(1.0, block.T, block.T, trans_b=True)
        else:
            squares += np.dot(block.T, block)
    return weight, sums, squares


def _sparse_sums(
    rows: Any, weights: FloatArray | None, squares: FloatArray, threads: int
) -> tuple[float, FloatArray, FloatArray] | None:
    """Write the squares of sparse rows; return weight, shift and sums less the shift.

    None where dense blocks are faster.

    A sparse product costs the squares of the stored entries of every row: 500,000 rows of 2,000
    columns with a hundredth of the entries take 2.5 s instead of a minute on two cores. It cannot
    be centred before it is squared, so columns whose mean is large beside their deviation are
    multiplied as dense, centred ones; most of such a column is stored.
    """
    m, n = rows.shape
    lengths = np.diff(rows.indptr).astype(float)
    if _SPARSE_COST * np.dot(lengths, lengths) >= m * float(n) ** 2:
        return None
    w = np.ones(m) if weights is None else weights
    total, root = float(w.sum()), np.sqrt(w)
    columns = rows.astype(float).T.tocsr()
    columns.sum_duplicates()
    scaled = columns.multiply(root[None, :]).tocsr()
    sums, turned = columns @ w, scaled.T.tocsr()

    def part(start: int) -> None:
        lines = slice(start, None, _SPARSE_PARTS)
        squares[lines] = (scaled[lines] @ turned).toarray()

    # Every so many columns instead of neighbours: the common words of a text stand side by side.
    tasks = [functools.partial(part, start) for start in range(min(_SPARSE_PARTS, n))]
    in_threads(tasks, threads)
    shift, far = np.zeros(n), np.flatnonzero(sums**2 > 0.5 * total * np.diagonal(squares))
    if len(far) * m > 4 * columns.nnz:
        squares[...] = 0.0
        return None
    if len(far):
        lines = columns[far].toarray()
        shift[far] = lines[:, 0] + (lines - lines[:, :1]) @ w / total
        lines = (lines - shift[far, None]) * root
        sums[far] = lines @ root
        squares[:, far] = scaled @ lines.T
        squares[far] = squares[:, far].T
        squares[far[:, None], far] = lines @ lines.T
    return total, shift, sums


def _count_there(
    rows: Any, weights: FloatArray | None, positions: list[Any], shifts: Any
) -> GroupSums:
    """Return the sums of cells whose rows are on another device, made there."""
    xp, n = library_of(rows), rows.shape[1]
    weight_of = None if weights is None else placed(weights, rows)
    step = max(1, _DEVICE_ENTRIES // n)
    # Fetched at the end: the device does not wait for the host.
    found: list[tuple[Any, ...]] = []
    for cell, picks in enumerate(positions):
        m = picks.shape[0]
        if shifts is None:
            some = xp.take(rows, picks[:: max(m // 128, 1)], axis=0)
            some = xp.astype(some, xp.float64, copy=False)
            shift = some[0, :] + xp.mean(some - some[0, :], axis=0)
        else:
            shift = placed(shifts[cell], rows)
        weight, sums = 0.0 * shift[0], xp.zeros_like(shift)
        squares = xp.zeros((n, n), dtype=xp.float64, device=rows.device)
        for low in range(0, m, step):
            part = picks[low : min(low + step, m)]
            block = xp.astype(xp.take(rows, part, axis=0), xp.float64, copy=False) - shift
            # Sums by products: CuPy's own sums of a tall block take a hundred times as long.
            ones = xp.ones_like(block[:, 0])
            w = ones if weight_of is None else xp.take(weight_of, part, axis=0)
            weight, sums = weight + ones @ w, sums + w @ block
            squares = squares + (block if weight_of is None else block * w[:, None]).T @ block
        off = sums / weight
        found.append((weight, shift, off, squares - sums[:, None] * off))
    weight, shift, off, scatter = (xp.stack(list(part)) for part in zip(*found, strict=True))
    return GroupSums(fetched(weight), fetched(shift), fetched(off), scatter)


def sender(like: Any) -> Callable[[Any], Any]:
    """Return what copies rows to the device of another array; None leaves them where they are.

    PyTorch's own copy from ordinary memory to a CUDA device keeps the device's products waiting.
    """
    if like is None:
        return lambda rows: rows
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(like, torch.Tensor) or not like.is_cuda:
        return lambda rows: placed(as_numpy(rows), like)
    stream = torch.cuda.Stream(like.device)

    def send(rows: Any) -> Any:
        # Through memory that the device can read, beside its products.
        here = placed(as_numpy(rows), torch.empty(0)).pin_memory()
        with torch.cuda.stream(stream):
            there = here.to(like.device, non_blocking=True)
        stream.synchronize()
        return there

    return send
