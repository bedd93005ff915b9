"""Coding one column of labels: distinct values, sorted, and the position of every row's."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fairpca.arrays import AnyArray, IntArray

Label: TypeAlias = Hashable

# Integer labels that span at most this many values are coded by a table instead of a sort.
_TABLE_SPAN = 1 << 16
# Up to this many text labels are coded by comparison instead of a sort.
_FEW_LABELS = 12
# Rows in which labels are looked for first.
_SAMPLE_ROWS = 128
# Bytes of text compared at a time.
_COMPARED_BYTES = 250_000


class Coded(NamedTuple):
    """A column as codes: the position of every row's label, -1 where it is missing.

    `counts` are the rows of every label, where they were counted on the way and none is missing.
    """

    codes: IntArray
    labels: tuple[Label, ...]
    counts: IntArray | None = None

    def rows_per_label(self) -> IntArray:
        """Return `counts`, counting the codes if nobody did."""
        if self.counts is not None:
            return self.counts
        codes = self.codes
        labelled = codes[codes >= 0] if codes.min(initial=0) < 0 else codes
        return np.bincount(labelled, minlength=len(self.labels))


def sort_labels(labels: Iterable[Label]) -> list[Label]:
    """Sort labels of any type: by value where they compare, by type and text otherwise."""
    labels = list(labels)
    try:
        return sorted(labels)  # type: ignore[type-var]
    except TypeError:
        return sorted(labels, key=_sort_key)


def _sort_key(label: Label) -> tuple[Any, ...]:
    if isinstance(label, tuple):
        return tuple(_sort_key(part) for part in label)
    if isinstance(label, bool | int | float):
        return (0, "", label)
    return (1, type(label).__name__, str(label))


def factorize(array: AnyArray) -> Coded:
    """Return codes and the sorted labels of a 1-D array."""
    if array.dtype == object:
        return factorize_objects(array.tolist())
    if array.dtype.kind == "b":
        coded = factorize_integers(array.astype(np.int8))
        return coded._replace(labels=tuple(bool(label) for label in coded.labels))
    if array.dtype.kind in "iu":
        return factorize_integers(array)
    if array.dtype.kind in "US":
        if len(array) <= _SAMPLE_ROWS:
            return factorize_objects(array.tolist())
        text = _factorize_text(array)
        if text is not None:
            return text
    missing = np.isnan(array) if array.dtype.kind in "fc" else np.zeros(len(array), dtype=bool)
    if array.dtype.kind in "mM":
        missing = np.isnat(array)
    values, inverse = np.unique(array[~missing], return_inverse=True)
    codes = np.full(len(array), -1, dtype=np.int64)
    codes[~missing] = inverse
    return Coded(codes, tuple(plain(value) for value in values))


def factorize_integers(array: AnyArray) -> Coded:
    """Return codes and the sorted values of an array of integers."""
    if not array.size:
        return Coded(np.empty(0, dtype=np.int64), ())
    array = np.ascontiguousarray(array)
    low, high = int(array.min()), int(array.max())
    if high - low > _TABLE_SPAN:
        values, inverse = np.unique(array, return_inverse=True)
        return Coded(inverse.astype(np.int64), tuple(values.tolist()))
    shifted = _shifted(array, low)
    # A copy: the labels stay the caller's, to change as they please.
    own = shifted.copy() if shifted is array else shifted
    codes, places, counts = _by_table(own, high - low + 1)
    return Coded(codes, tuple(low + place for place in places), counts)


def _by_table(values: IntArray, span: int) -> tuple[IntArray, list[int], IntArray]:
    """Return codes, the distinct values and the count of each, for values from 0 below `span`.

    Where all occur, the values are the codes.
    """
    counts = np.bincount(values, minlength=span)
    if counts.all():
        return values, list(range(span)), counts
    present = np.flatnonzero(counts)
    table = np.zeros(span, dtype=np.int64)
    table[present] = np.arange(len(present))
    return table.take(values), present.tolist(), counts[present]


def _shifted(array: AnyArray, low: int) -> IntArray:
    """Return the distance of every value from the lowest."""
    # Widened first: 127 - (-128) does not fit into an int8. Of eight bytes, unsigned ones may be
    # past the largest signed integer, but their distance is not.
    wide = array if array.dtype.itemsize == 8 else array.astype(np.int64)
    return (wide - wide.dtype.type(low) if low else wide).astype(np.int64, copy=False)


def distinct_rows(table: AnyArray) -> Coded | None:
    """Code a table of text or integers by its distinct rows, as tuples; None if they are many."""
    if table.dtype.kind in "iu":
        return _distinct_integers(table)
    order_and_kind, width = table.dtype.str[:2], int(table.dtype.str[2:])
    joined = np.ascontiguousarray(table).view(f"{order_and_kind}{width * table.shape[1]}")
    coded = _factorize_text(joined[:, 0])
    if coded is None:
        return None
    # Sorted as they were joined, they are sorted column by column.
    kinds = np.array(coded.labels, dtype=joined.dtype)
    rows = kinds.view(table.dtype).reshape(-1, table.shape[1])
    return coded._replace(labels=tuple(map(tuple, rows.tolist())))


def _distinct_integers(table: AnyArray) -> Coded | None:
    # One range for all columns: two looks at the table instead of two at each column.
    low, n_columns = int(table.min()), table.shape[1]
    span = int(table.max()) - low + 1
    if span**n_columns > _TABLE_SPAN:
        return None
    shifted = _shifted(table, low)
    cells = shifted[:, 0]
    for column in shifted.T[1:]:
        cells = cells * span
        cells += column
    codes, numbers, counts = _by_table(cells, span**n_columns)
    places = np.unravel_index(np.array(numbers), (span,) * n_columns)
    columns = [[low + place for place in column.tolist()] for column in places]
    return Coded(codes, tuple(zip(*columns, strict=True)), counts)


def _factorize_text(array: AnyArray) -> Coded | None:
    """Code an array of strings by a few of their characters.

    For a handful of labels that beats sorting; None past that. Labels seen in a sample tell which
    characters distinguish them. Every row is coded by those and then compared in full; rows that
    are none of the labels are looked up one by one.
    """
    m = len(array)
    if not m:
        return Coded(np.empty(0, dtype=np.int64), ())
    array = np.ascontiguousarray(array)
    known = sorted(set(array[:: max(m // _SAMPLE_ROWS, 1)].tolist()))
    if len(known) > _FEW_LABELS:
        return None
    codes, odd = _code_rows(array, np.array(known, dtype=array.dtype))
    if not len(odd):
        return Coded(codes, tuple(known))
    others = array[odd].tolist()
    labels = sorted({*known, *others})
    if len(labels) > _FEW_LABELS:
        return None
    rank = {label: i for i, label in enumerate(labels)}
    found = np.array([rank[label] for label in known]).take(codes)
    found[odd] = [rank[label] for label in others]
    return Coded(found, tuple(labels))


def _code_rows(array: AnyArray, known: AnyArray) -> tuple[IntArray, IntArray]:
    """Return the label of every row by its position, and the rows that have another label."""
    words, table = _units(array, 8), _units(known, 8)
    if len(known) == 2:
        word = int(np.argmax(table[0] != table[1]))
        codes = (words[:, word] == table[1, word]).astype(np.int64)
    else:
        codes = _code_by_bytes(_units(array, 1), _units(known, 1))
    # A row that is none of the labels was coded as one of them all the same.
    return codes, _differing(words, table, codes)


def _code_by_bytes(letters: AnyArray, table: AnyArray) -> IntArray:
    """Return which row of `table` every row of `letters` is, if it is one of them."""
    codes = np.zeros(len(letters), dtype=np.int64)
    for i, (column, before, after) in enumerate(_telling_bytes(table)):
        lookup = np.zeros(256 * len(table), dtype=np.int64)
        lookup[256 * before + table[:, column]] = after
        here = np.ascontiguousarray(letters[:, column])
        codes = lookup.take((codes << 8) + here if i else here)
    return codes


def _telling_bytes(table: AnyArray) -> list[tuple[int, IntArray, IntArray]]:
    """Return few columns that together tell all rows apart.

    Each with the class of every row before and after the column is read; at the end every row is
    a class, and its position is its number.
    """
    varying = np.flatnonzero((table != table[0]).any(axis=0)).tolist()
    columns = {c: table[:, c].tolist() for c in varying}
    chosen: list[tuple[int, IntArray, IntArray]] = []
    seen = [0] * len(table)
    while max(seen) + 1 < len(table):
        pairs = {c: list(zip(seen, column, strict=True)) for c, column in columns.items()}
        best = max(pairs, key=lambda c: len(set(pairs[c])))
        ranks = {pair: i for i, pair in enumerate(dict.fromkeys(pairs[best]))}
        before, seen = seen, [ranks[pair] for pair in pairs[best]]
        chosen.append((best, np.array(before), np.array(seen)))
    return chosen


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


def _units(array: AnyArray, widest: int) -> AnyArray:
    """Return fixed-width text as a table of integers, of as many bytes as fit up to `widest`."""
    size = array.dtype.itemsize
    kind = next(unit for unit in (8, 4, 2, 1) if unit <= widest and size % unit == 0)
    return array.view(f"u{kind}").reshape(len(array), size // kind)


def factorize_objects(values: list[Any]) -> Coded:
    """Return codes and the sorted labels of any hashable values."""
    try:
        distinct = set(values)
    except TypeError:
        odd = next(value for value in values if not _is_hashable(value))
        raise ValueError(
            f"sensitive_features has the label {odd!r} of type {type(odd).__name__}, which cannot "
            "be compared; use strings, numbers or tuples."
        ) from None
    found = {value: plain(value) for value in distinct if not _is_missing(value)}
    labels = sort_labels(set(found.values()))
    rank = {label: i for i, label in enumerate(labels)}
    table = {value: rank[found[value]] if value in found else -1 for value in distinct}
    codes = np.fromiter(map(table.__getitem__, values), dtype=np.int64, count=len(values))
    return Coded(codes, tuple(labels))


def recode(codes: IntArray, values: Sequence[Label]) -> Coded:
    """Return codes for labels that are sorted, distinct and all in use.

    `values` may repeat, be missing, or occur in no row; negative codes stay missing.
    """
    used = np.flatnonzero(np.bincount(codes + 1, minlength=len(values) + 1)[1:])
    ranks, labels, _ = factorize_objects([values[i] for i in used.tolist()])
    # The entry after the last serves the code -1.
    table = np.full(len(values) + 1, -1, dtype=np.int64)
    table[used] = ranks
    return Coded(table.take(codes, mode="wrap"), labels)


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def _is_missing(value: Any) -> bool:
    if value is None:
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):
        # pandas.NA refuses to be a truth value.
        return True


def plain(value: Any) -> Label:
    """Return a label as a Python scalar."""
    scalar: Label = value.item() if isinstance(value, np.generic) else value
    return scalar
