"""Mean and centred scatter of every group from rows, in float64, for the price of one X.T @ X.

The safe way is by blocks: copy a block into a float64 buffer, centre it on its own mean, square
it, and merge blocks by the pairwise update of Chan, Golub and LeVeque. Squaring first and
subtracting ``m mean mean.T`` afterwards loses every digit once the mean is large against the
spread; it is used only where it is checked to cost at most a digit or two, because it needs no
copy of the rows at all.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg.blas import dsyrk

from fairpca.arrays import AnyArray, FloatArray, IntArray, is_sparse

# A block of about this many entries feeds BLAS well and is little memory.
_BLOCK_ENTRIES = 3_000_000
# Squared mean over variance up to which centring may follow the squaring: less than two digits.
_SAFE_OFFSET = 50.0
# Rows looked at before deciding whether to try.
_SAMPLE_ROWS = 512
# A difference keeps its digits while it is at least this share of what it is taken from.
_SAFE_SHARE = 1 / 64
# From this many columns on BLAS itself keeps every core busy.
_BLAS_THREADS_FROM = 64
# Below this many entries a second thread costs more than it saves.
_THREADS_FROM_ENTRIES = 200_000


@dataclass(frozen=True)
class Scatter:
    """Rows, weight, mean and centred scatter of each of c cells."""

    count: IntArray
    weight: FloatArray
    mean: FloatArray
    scatter: FloatArray


@dataclass(frozen=True)
class _Moments:
    """The same for one set of rows."""

    weight: float
    mean: FloatArray
    scatter: FloatArray


def block_rows(n_features: int) -> int:
    """Rows per block for this many features."""
    return int(np.clip(_BLOCK_ENTRIES // max(n_features, 1), 256, 4096))


def group_scatter(
    rows: Any, codes: IntArray, n_cells: int, sample_weight: FloatArray | None = None
) -> Scatter:
    """Accumulate the scatter of every cell.

    Parameters
    ----------
    rows : array of shape (m, n)
        Any numeric dtype; read block by block, never copied whole.
    codes : ndarray of shape (m,)
        The cell of every row, 0..n_cells-1.
    n_cells : int
    sample_weight : ndarray of shape (m,), optional
    """
    n = rows.shape[1]
    count = np.bincount(codes, minlength=n_cells)
    sets = _row_sets(codes, count)
    found: dict[int, _Moments] = {}
    if sample_weight is None and len(codes) and _is_plain(rows) and _looks_safe(rows):
        found = _squared_first(rows, sets)
    for cell, picks in sets.items():
        if cell not in found:
            found[cell] = _by_blocks(rows, picks, sample_weight)
    mean, scatter, weight = np.zeros((n_cells, n)), np.zeros((n_cells, n, n)), np.zeros(n_cells)
    for cell, moments in found.items():
        weight[cell], mean[cell] = moments.weight, moments.mean
        scatter[cell] = _without_dust(moments)
    return Scatter(count, weight, mean, scatter)


def _row_sets(codes: IntArray, count: IntArray) -> dict[int, slice | IntArray]:
    """Return the rows of every cell that occurs: a slice where they are consecutive."""
    cells = np.flatnonzero(count).tolist()
    edges = np.r_[0, np.cumsum(count)].tolist()
    if len(cells) == 1 or bool(np.all(codes[1:] >= codes[:-1])):
        return {cell: slice(edges[cell], edges[cell + 1]) for cell in cells}
    # Sixteen-bit keys compare fast and are sorted by radix.
    keys = codes.astype(np.int16) if len(count) < 2**15 else codes
    if len(cells) <= 4:
        return {cell: np.flatnonzero(keys == cell) for cell in cells}
    order = np.argsort(keys, kind="stable")
    return {cell: order[edges[cell] : edges[cell + 1]] for cell in cells}


def _is_plain(rows: Any) -> bool:
    return (
        isinstance(rows, np.ndarray)
        and rows.dtype == np.float64
        and (rows.flags.c_contiguous or rows.flags.f_contiguous)
    )


def _looks_safe(rows: FloatArray) -> bool:
    """Whether a sample of rows promises that squaring first will pass its check.

    Failing that check afterwards would mean squaring everything twice.
    """
    sample = rows[:: max(len(rows) // _SAMPLE_ROWS, 1)]
    return bool(np.all(sample.mean(axis=0) ** 2 <= 0.7 * _SAFE_OFFSET * sample.var(axis=0)))


def _squared_first(rows: FloatArray, sets: dict[int, slice | IntArray]) -> dict[int, _Moments]:
    """Moments by squaring rows as they are; sets for which that loses digits are left out.

    Where the largest group is scattered among the others and gathering its rows would cost more
    than squaring the others twice, all rows are squared in place and the others subtracted.
    """
    n = rows.shape[1]
    largest = max(sets, key=lambda cell: _length(sets[cell]))
    rest = sum(_length(picks) for cell, picks in sets.items() if cell != largest)
    subtract = not isinstance(sets[largest], slice) and _subtraction_pays(
        rest, _length(sets[largest]), n
    )
    asked = {**sets, largest: slice(0, len(rows))} if subtract else sets
    found = {
        cell: moments
        for cell, moments in zip(asked, _products(rows, list(asked.values())), strict=True)
        if moments is not None
    }
    if subtract:
        whole = found.pop(largest, None)
        remainder = whole and len(found) == len(sets) - 1 and _subtract(whole, found.values())
        if remainder:
            found[largest] = remainder
    return found


def _subtraction_pays(rest: int, largest: int, n: int) -> bool:
    """Whether squaring all rows in place beats gathering the largest group's.

    Either way the other groups are gathered. Squaring an entry costs about 1 + n / 28 times what
    gathering it does (measured from 16 to 1764 columns).
    """
    return rest * (1 + n / 28) < largest


def _products(rows: FloatArray, sets: list[slice | IntArray]) -> list[_Moments | None]:
    """Return the moments of each set, None where squaring first is not safe."""
    if rows.shape[1] >= _BLAS_THREADS_FROM:
        return [_centred_afterwards(*_wide_product(rows, picks), picks) for picks in sets]
    return _narrow_products(rows, sets)


def _wide_product(rows: FloatArray, picks: slice | IntArray) -> tuple[FloatArray, FloatArray]:
    """Return sums and products of many columns; BLAS keeps every core busy with them."""
    n = rows.shape[1]
    if isinstance(picks, slice):
        view = rows[picks]
        return np.einsum("ij->j", view), view.T @ view
    buffer = np.empty((min(block_rows(n), len(picks)), n))
    sums, product = np.zeros(n), np.zeros((n, n), order="F")
    for part in _cut(picks, len(buffer)):
        block = buffer[: len(part)]
        _gather(rows, part, block)
        sums += np.einsum("ij->j", block)
        product = dsyrk(1.0, block.T, beta=1.0, c=product, overwrite_c=1)
    return sums, _mirrored(product)


def _narrow_products(rows: FloatArray, sets: list[slice | IntArray]) -> list[_Moments | None]:
    """Moments of few columns, cut into parts for several threads.

    BLAS leaves tall and narrow products on one core. The cuts do not depend on the number of
    threads, so neither does the result.
    """
    n = rows.shape[1]
    step = block_rows(n)
    parts = [(i, part) for i, picks in enumerate(sets) for part in _cut(picks, step)]
    results: list[Any] = [None] * len(parts)
    queue = iter(range(len(parts)))

    def work() -> None:
        buffer = np.empty((step, n))
        for j in queue:
            part = parts[j][1]
            block = rows[part] if isinstance(part, slice) else buffer[: len(part)]
            if not isinstance(part, slice):
                _gather(rows, part, block)
            # Not by BLAS, whose threads would wait for each other, nor by numpy's own reduction,
            # which is slow for few columns.
            results[j] = np.einsum("ij->j", block), block.T @ block

    helpers = []
    if len(rows) * n >= _THREADS_FROM_ENTRIES:
        count = min(available_threads(), len(parts)) - 1
        helpers = [threading.Thread(target=work) for _ in range(count)]
    for helper in helpers:
        helper.start()
    work()
    for helper in helpers:
        helper.join()
    found = []
    for j, picks in enumerate(sets):
        mine = [result for (i, _), result in zip(parts, results, strict=True) if i == j]
        sums, products = (np.sum(values, axis=0) for values in zip(*mine, strict=True))
        found.append(_centred_afterwards(sums, products, picks))
    return found


def _centred_afterwards(
    sums: FloatArray, product: FloatArray, picks: slice | IntArray
) -> _Moments | None:
    m = _length(picks)
    mean = sums / m
    variance = np.diag(product) / m - mean**2
    if not np.all(mean**2 <= _SAFE_OFFSET * variance):
        return None
    product -= np.outer(m * mean, mean)
    return _Moments(float(m), mean, product)


def available_threads() -> int:
    """Threads this process may use: its cores, or fewer if the environment says so."""
    limits = [os.environ.get(name, "") for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")]
    stated = [int(limit) for limit in limits if limit.isdigit() and int(limit) > 0]
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else (os.cpu_count() or 1)
    return min([cores, *stated])


def _length(picks: slice | IntArray) -> int:
    return picks.stop - picks.start if isinstance(picks, slice) else len(picks)


def _cut(picks: slice | IntArray, step: int) -> Iterator[Any]:
    """Cut rows into parts of at most `step`."""
    if isinstance(picks, slice):
        for start in range(picks.start, picks.stop, step):
            yield slice(start, min(start + step, picks.stop))
    else:
        for start in range(0, len(picks), step):
            yield picks[start : start + step]


def _subtract(whole: _Moments, parts: Collection[_Moments]) -> _Moments | None:
    """Return the moments of the rows of `whole` that are in none of `parts`, if that is safe."""
    weight = whole.weight - sum(part.weight for part in parts)
    if weight <= _SAFE_SHARE * whole.weight:
        return None
    mean = whole.mean * whole.weight - sum(part.weight * part.mean for part in parts)
    mean = mean / weight
    scatter = whole.scatter - weight * np.outer(mean - whole.mean, mean - whole.mean)
    for part in parts:
        shift = part.mean - whole.mean
        scatter -= part.scatter
        scatter -= np.outer(part.weight * shift, shift)
    if not np.all(np.diag(scatter) >= _SAFE_SHARE * np.diag(whole.scatter)):
        return None
    return _Moments(weight, mean, scatter)


def _by_blocks(rows: Any, picks: slice | IntArray, sample_weight: FloatArray | None) -> _Moments:
    """Copy, centre, square, merge: block after block."""
    n = rows.shape[1]
    size = min(block_rows(n), _length(picks))
    buffer = np.empty((size, n))
    total = np.zeros((n, n), order="F")
    mean, weight = np.zeros(n), 0.0
    for part in _cut(picks, size):
        block = buffer[: _length(part)]
        _gather(rows, part, block)
        w = None if sample_weight is None else sample_weight[part]
        block_weight, block_mean = _centre(block, w)
        if block_weight == 0:
            continue
        total = dsyrk(1.0, block.T, beta=1.0, c=total, overwrite_c=1)
        after = weight + block_weight
        shift = block_mean - mean
        if weight > 0:
            total += np.outer(shift * (weight * block_weight / after), shift)
        mean += shift * (block_weight / after)
        weight = after
    return _Moments(weight, mean, _mirrored(total))


def _mirrored(upper: FloatArray) -> FloatArray:
    """Return the symmetric matrix whose upper triangle is given."""
    upper = np.triu(upper)
    return np.asarray(upper + np.triu(upper, 1).T)


def _gather(rows: Any, part: slice | IntArray, block: FloatArray) -> None:
    if isinstance(part, np.ndarray) and isinstance(rows, np.ndarray) and rows.dtype == block.dtype:
        # mode="clip" lets take write straight into the buffer; the indices are in range.
        np.take(rows, part, axis=0, out=block, mode="clip")
    else:
        block[...] = rows[part].toarray() if is_sparse(rows) else rows[part]


def _centre(block: FloatArray, weight: AnyArray | None) -> tuple[float, FloatArray]:
    """Centre the block in place (and scale rows by the root of their weight)."""
    w = np.ones(len(block)) if weight is None else weight
    total = float(w.sum())
    if total == 0:
        return 0.0, np.zeros(block.shape[1])
    mean = w @ block / total
    block -= mean
    if weight is not None:
        block *= np.sqrt(weight)[:, None]
    return total, mean


def _without_dust(moments: _Moments) -> FloatArray:
    """Return the scatter with constant columns at exactly zero.

    A constant column leaves the rounding of its own mean behind; a criterion that divides by the
    group's variance would take that dust for data. So would it take squares that underflowed.
    """
    dust = moments.weight * (16 * np.finfo(float).eps * moments.mean) ** 2
    dust = np.maximum(dust, np.finfo(float).tiny * max(moments.weight, 1.0))
    # An infinite square is no dust: the caller refuses it.
    constant = (np.diag(moments.scatter) <= dust) & np.isfinite(np.diag(moments.scatter))
    scatter = moments.scatter
    if constant.any():
        scatter = scatter.copy()
        scatter[constant] = 0.0
        scatter[:, constant] = 0.0
    return scatter
