"""Which of a few known rows every row of a table is, by the bytes that tell them apart.

Rows are integers: the letters of a text, or where in memory an object is.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from fairpca.arrays import AnyArray, IntArray

# Bytes compared at a time.
_COMPARED_BYTES = 250_000
# Places a row can be hashed to, and the odd number nearest to 2^64 over the golden ratio.
_SLOTS = 256
_FACTOR = 0x9E3779B97F4A7C15


def words_of(text: AnyArray) -> AnyArray:
    """Return an array of fixed-width text as a table of integers, as wide as fit."""
    size = text.dtype.itemsize
    width = next(width for width in (8, 4, 2, 1) if size % width == 0)
    return text.view(f"u{width}").reshape(len(text), size // width)


def code_rows(words: AnyArray, known: AnyArray) -> tuple[IntArray, IntArray]:
    """Return which row of `known` every row is, and the rows that are none of them.

    The latter are coded as one of `known` all the same.
    """
    columns = _telling_columns(known)
    if not columns:
        codes = np.zeros(len(words), dtype=np.int64)
    elif len(known) == 2:
        codes = (words[:, columns[0]] == known[1, columns[0]]).astype(np.int64)
    else:
        factors, table = _perfect_hash(known, columns)
        codes = table.take(_slots(words, columns, factors))
    return codes, _differing(words, known, codes)


def _telling_columns(known: AnyArray) -> list[int]:
    """Return few columns that together tell all rows apart."""
    columns = {c: column for c, column in enumerate(known.T.tolist()) if len(set(column)) > 1}
    chosen: list[int] = []
    seen: list[Any] = [0] * len(known)
    while len(set(seen)) < len(known):
        pairs = {c: list(zip(seen, column, strict=True)) for c, column in columns.items()}
        chosen.append(max(pairs, key=lambda c: len(set(pairs[c]))))
        seen = pairs[chosen[-1]]
    return chosen


def _perfect_hash(known: AnyArray, columns: list[int]) -> tuple[list[int], IntArray]:
    """Return factors that give every row its own slot, and the row of each slot."""
    # A few rows in many slots: most factors will do.
    for first in itertools.count(1, len(columns)):
        factors = [pow(_FACTOR, first + j, 1 << 64) for j in range(len(columns))]
        slots = _slots(known, columns, factors)
        if len(set(slots.tolist())) == len(known):
            break
    table = np.zeros(_SLOTS, dtype=np.int64)
    table[slots] = np.arange(len(known))
    return factors, table


def _slots(rows: AnyArray, columns: list[int], factors: list[int]) -> IntArray:
    """Return the highest bits of a weighted sum of columns (Knuth's multiplicative hashing)."""
    total: Any = None
    for column, factor in zip(columns, factors, strict=True):
        part = np.multiply(rows[:, column], np.uint64(factor), dtype=np.uint64)
        total = part if total is None else np.add(total, part, out=total)
    total >>= np.uint64(64 - _SLOTS.bit_length() + 1)
    slots: IntArray = total.view(np.int64)
    return slots


def _differing(rows: AnyArray, table: AnyArray, codes: IntArray) -> IntArray:
    """Return the rows that are not ``table[codes]``, compared in the cache."""
    step = max(_COMPARED_BYTES // table[0].nbytes, 1)
    expected = np.empty((min(len(rows), step), rows.shape[1]), dtype=rows.dtype)
    found = []
    for start in range(0, len(rows), step):
        part = rows[start : start + step]
        other = expected[: len(part)]
        # mode="clip" writes straight into its target; the codes are in range.
        table.take(codes[start : start + len(part)], axis=0, out=other, mode="clip")
        differs = part != other
        if differs.any():
            found.append(start + np.flatnonzero(differs.any(axis=1)))
    return np.concatenate(found) if found else np.empty(0, dtype=np.int64)
