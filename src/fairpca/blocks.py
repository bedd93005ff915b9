"""Sums and squares of sets of rows, in float64, block after block and on every core.

A set of rows is cut into strands, a strand into blocks. Strands are what threads take; how rows
are cut does not depend on the number of threads, so neither does a single bit of the result.
"""

from __future__ import annotations

import functools
import operator
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from scipy.linalg.blas import dsyrk

from fairpca.arrays import AnyArray, FloatArray, IntArray, is_sparse
from fairpca.threads import available_threads, in_threads

RowSet = slice | IntArray
_Result = TypeVar("_Result")

# A block of about this many entries feeds BLAS well and is little memory.
_BLOCK_ENTRIES = 3_000_000
# Pieces of a set that may be worked on at the same time; each holds one matrix of results.
_STRANDS = 16
# Of narrow rows a block has this many: in float64 it stays in the cache between its uses.
_MOST_ROWS = 4096
# A block times these is the sum of its columns; made once, because fresh memory is slow.
_ONES = np.ones(_MOST_ROWS)
# Below this many entries a second thread costs more than it saves.
_THREADS_FROM_ENTRIES = 200_000
# Up to this many columns, single-threaded products on every core beat one product on all cores
# (measured: by a third at 23 to 64 columns, a fifth at 173, nothing at 512).
_OWN_THREADS_TO = 400
# What is not finite shows in the sums, and the caller says so.
_SILENT = np.errstate(invalid="ignore", over="ignore")


@dataclass(frozen=True)
class Moments:
    """Weight, mean and centred scatter of one set of rows."""

    weight: float
    mean: FloatArray
    scatter: FloatArray


def block_rows(n_features: int) -> int:
    """Rows per block for this many features."""
    return min(max(_BLOCK_ENTRIES // max(n_features, 1), 256), _MOST_ROWS)


def length(picks: RowSet) -> int:
    """Number of rows of a set."""
    return picks.stop - picks.start if isinstance(picks, slice) else len(picks)


@_SILENT
def squares(rows: FloatArray, sets: Sequence[RowSet]) -> list[tuple[FloatArray, FloatArray]]:
    """Return the sums and the products ``x.T @ x`` of each set of plain float64 rows."""
    found = _by_strands(rows, sets, _square, whole_slices=rows.shape[1] > _OWN_THREADS_TO)
    return [functools.reduce(_both_added, parts) for parts in found]


def centred_moments(
    rows: Any, sets: Sequence[RowSet], sample_weight: FloatArray | None
) -> list[Moments]:
    """Return the moments of each set: every block is copied, centred on its own mean, squared."""

    def work(blocks: list[RowSet], buffers: _Buffers) -> Moments:
        return _centre_and_square(blocks, buffers, sample_weight)

    return [functools.reduce(_merged, parts) for parts in _by_strands(rows, sets, work)]


class _Buffers(threading.local):
    """One block of float64 rows a thread, for as long as one call: fresh memory is slow."""

    def __init__(self, rows: Any, n_rows: int) -> None:
        self.rows = rows
        self.shape = (n_rows, rows.shape[1])
        self.plain = is_plain(rows) and rows.flags.c_contiguous
        self._block: FloatArray | None = None

    def filled(self, part: RowSet) -> FloatArray:
        """Return a copy of some rows, dense or sparse, of any numeric dtype."""
        if self._block is None:
            self._block = np.empty(self.shape)
        block = self._block[: length(part)]
        if self.plain and not isinstance(part, slice):
            # mode="clip" lets take write straight into the block; the indices are in range. From
            # columns it would copy everything first.
            self.rows.take(part, axis=0, out=block, mode="clip")
        else:
            rows = self.rows[part]
            block[...] = rows.toarray() if is_sparse(rows) else rows
        return block


def is_plain(rows: Any) -> bool:
    """Whether BLAS can read the rows as they are."""
    return (
        isinstance(rows, np.ndarray)
        and rows.dtype == np.float64
        and (rows.flags.c_contiguous or rows.flags.f_contiguous)
    )


def _by_strands(
    rows: Any,
    sets: Sequence[RowSet],
    work: Callable[[list[RowSet], _Buffers], _Result],
    *,
    whole_slices: bool = False,
) -> list[list[_Result]]:
    """Return what `work` makes of every strand, set by set, in order."""
    n, step = rows.shape[1], block_rows(rows.shape[1])
    sizes = [length(picks) for picks in sets]
    alone = n > _OWN_THREADS_TO or sum(sizes) * n < _THREADS_FROM_ENTRIES
    strands = []
    for i, (picks, size) in enumerate(zip(sets, sizes, strict=True)):
        whole = whole_slices and isinstance(picks, slice)
        blocks = _cut(picks, max(size, 1) if whole else step)
        # Of large matrices one at a time is in memory, and BLAS adds every block into it.
        each = max(len(blocks) if alone else -(-len(blocks) // _STRANDS), 1)
        # The longest first, so that threads end together; those of one set stay in order.
        strands += [
            (max(j * step - size, -each * step), i, blocks[j : j + each])
            for j in range(0, len(blocks), each)
        ]
    strands.sort(key=operator.itemgetter(0))
    buffers = _Buffers(rows, min(step, max(sizes, default=0)))
    results = in_threads(
        [functools.partial(work, blocks, buffers) for _, _, blocks in strands],
        1 if alone else available_threads(),
    )
    found: list[list[_Result]] = [[] for _ in sets]
    for (_, i, _), result in zip(strands, results, strict=True):
        found[i].append(result)
    return found


def _square(blocks: list[RowSet], buffers: _Buffers) -> tuple[FloatArray, FloatArray]:
    sums: FloatArray | None = None
    total: FloatArray | None = None
    for part in blocks:
        block = buffers.rows[part] if isinstance(part, slice) else buffers.filled(part)
        if not block.flags.forc:
            # Part of every column; np.dot would copy it twice and not see one matrix squared.
            block = block.copy(order="F")
        of_block = _column_sums(block)
        sums = of_block if sums is None else _added(sums, of_block)
        total = _add_product(total, block, last=part is blocks[-1])
    assert sums is not None
    assert total is not None
    return sums, total


@_SILENT
def _centre_and_square(
    blocks: list[RowSet], buffers: _Buffers, sample_weight: FloatArray | None
) -> Moments:
    n = buffers.shape[1]
    total: FloatArray | None = None
    between: list[FloatArray] = []
    mean, weight = np.zeros(n), 0.0
    for part in blocks:
        block = buffers.filled(part)
        w = None if sample_weight is None else sample_weight[part]
        block_weight, block_mean = _centre(block, w)
        total = _add_product(total, block, last=part is blocks[-1])
        if block_weight == 0:
            continue
        after = weight + block_weight
        shift = block_mean - mean
        between.append(shift * np.sqrt(weight * block_weight / after))
        mean += shift * (block_weight / after)
        weight = after
    assert total is not None
    between_rows = np.array(between).reshape(-1, n)
    total += np.dot(between_rows.T, between_rows)
    return Moments(weight, mean, total)


def _both_added(
    one: tuple[FloatArray, FloatArray], other: tuple[FloatArray, FloatArray]
) -> tuple[FloatArray, FloatArray]:
    return np.add(one[0], other[0], out=other[0]), np.add(one[1], other[1], out=other[1])


@_SILENT
def _added(total: FloatArray, part: FloatArray) -> FloatArray:
    """Add `total` into `part`."""
    return np.add(total, part, out=part)


def _column_sums(block: FloatArray) -> FloatArray:
    if block.shape[1] > _OWN_THREADS_TO:
        # Here BLAS uses its threads, and those of NumPy's would wait in a loop beside SciPy's.
        return np.asarray(np.einsum("ij->j", block))
    # np.dot lets other threads run; matmul and numpy's reductions do not, and those reductions
    # are slow for few columns besides.
    return np.asarray(np.dot(_ONES[: len(block)], block))


def _add_product(total: FloatArray | None, block: FloatArray, *, last: bool) -> FloatArray:
    """Return ``total + block.T @ block``; only the last call need leave it symmetric."""
    if block.shape[1] <= _OWN_THREADS_TO or (total is None and last):
        product: FloatArray = np.dot(block.T, block)
        return product if total is None else _added(total, product)
    # One large matrix: let BLAS add into it, one triangle only.
    start = np.zeros((block.shape[1],) * 2, order="F") if total is None else total
    total = dsyrk(1.0, block.T, beta=1.0, c=start, overwrite_c=1)
    return _mirrored(total) if last else total


def _mirrored(matrix: FloatArray) -> FloatArray:
    """Copy the upper triangle to the lower one in place, by blocks that fit into the cache."""
    n, step = len(matrix), 256
    for i in range(0, n, step):
        j = min(i + step, n)
        corner = np.triu(matrix[i:j, i:j])
        matrix[i:j, i:j] = corner + np.triu(corner, 1).T
        matrix[j:, i:j] = matrix[i:j, j:].T
    return matrix


def _merged(one: Moments, other: Moments) -> Moments:
    """Return the moments of both sets of rows (Chan, Golub and LeVeque)."""
    weight = one.weight + other.weight
    if weight == 0:
        return one
    shift = other.mean - one.mean
    share = other.weight / weight
    between = shift * np.sqrt(one.weight * share)
    scatter = one.scatter + other.scatter
    scatter += np.outer(between, between)
    return Moments(weight, one.mean + shift * share, scatter)


def _cut(picks: RowSet, step: int) -> list[RowSet]:
    """Cut rows into parts of at most `step`."""
    if isinstance(picks, slice):
        starts = range(picks.start, picks.stop, step)
        return [slice(start, min(start + step, picks.stop)) for start in starts]
    return [picks[start : start + step] for start in range(0, len(picks), step)]


def _centre(block: FloatArray, weight: AnyArray | None) -> tuple[float, FloatArray]:
    """Centre the block in place (and scale rows by the root of their weight)."""
    if weight is None:
        mean = np.einsum("ij->j", block) / len(block)
        block -= mean
        return float(len(block)), mean
    total = float(weight.sum())
    if total == 0:
        block[...] = 0.0
        return 0.0, np.zeros(block.shape[1])
    mean = weight @ block / total
    block -= mean
    block *= np.sqrt(weight)[:, None]
    return total, mean
