"""Coding one column of labels: distinct values, sorted, and the position of every row's."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fairpca.arrays import AnyArray, IntArray
from fairpca.label_words import code_rows, words_of

Label: TypeAlias = Hashable

# Integer labels that span at most this many values are coded by a table instead of a sort.
_TABLE_SPAN = 1 << 16
# Up to this many labels are coded by comparison instead of a sort.
_FEW_LABELS = 12
# Rows in which labels are looked for first.
_SAMPLE_ROWS = 128


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
        return _factorize_shared(array[:, None]) or factorize_objects(array.tolist())
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
    """Code a table of labels by its distinct rows, as tuples; None if they are many.

    Text, integers, or objects none of which is missing.
    """
    if table.dtype.kind in "iu":
        return _distinct_integers(table)
    if table.dtype == object:
        return _factorize_shared(table)
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
    """Code an array of strings that has a handful of labels; None past that."""
    array = np.ascontiguousarray(array)
    return _by_words(words_of(array), lambda rows: array[rows].tolist())


def _factorize_shared(table: AnyArray) -> Coded | None:
    """Code the rows of a table of objects by where the objects are in memory.

    Labels that come from a short list are the same few objects over and over. What is told apart
    this way may still be equal, and is then one label. None where there are many different
    objects, or where a label is missing or no label at all.
    """
    m, n_columns = table.shape
    if m <= _SAMPLE_ROWS:
        return None

    def read(rows: Any) -> list[Label]:
        if n_columns == 1:
            return [plain(value) for value in table[rows, 0].tolist()]
        return [tuple(map(plain, row)) for row in table[rows].tolist()]

    try:
        coded = _by_words(_addresses(table), read)
    except TypeError:
        # A label without a hash; whoever looks at one label at a time can say which.
        return None
    if coded is None:
        return None
    rows: Any = zip(coded.labels) if n_columns == 1 else coded.labels
    return None if any(_is_missing(part) for row in rows for part in row) else coded


def _addresses(table: AnyArray) -> AnyArray:
    """Return where every object of a table is in memory."""
    if table.flags.f_contiguous:
        # Frames store columns; copying numbers is faster than copying objects.
        columns = np.frombuffer(table.T, dtype=np.uintp).reshape(table.shape[::-1])
        return np.ascontiguousarray(columns.T)
    return np.frombuffer(np.ascontiguousarray(table), dtype=np.uintp).reshape(table.shape)


def _by_words(words: AnyArray, read: Callable[[Any], list[Label]]) -> Coded | None:
    """Code rows that are each a few integers, if there are only a few different ones.

    For a handful of labels that beats sorting. Those of a sample are known; rows that are none of
    them are looked up one by one. `read` returns the labels of rows.
    """
    step = max(len(words) // _SAMPLE_ROWS, 1)
    sample = np.ascontiguousarray(words[::step])
    width = sample.shape[1]
    seen = sample.view(f"V{width * sample.itemsize}")[:, 0].tolist()
    # Of rows that are the same the last one is read.
    example = {kind: step * i for i, kind in enumerate(seen)}
    if len(example) > _FEW_LABELS:
        return None
    known = dict(zip(example, read(list(example.values())), strict=True))
    labels = sort_labels(set(known.values()))
    rank = {label: i for i, label in enumerate(labels)}
    # In the order of their labels, so that a row's place is its code.
    kinds = sorted(known, key=lambda kind: rank[known[kind]])
    table = np.frombuffer(b"".join(kinds), words.dtype).reshape(-1, width)
    places, odd = code_rows(words, table)
    if not len(odd) and len(labels) == len(kinds):
        return Coded(places, tuple(labels), np.bincount(places, minlength=len(labels)))
    others = read(odd)
    labels = sort_labels({*labels, *others})
    if len(labels) > _FEW_LABELS:
        return None
    rank = {label: i for i, label in enumerate(labels)}
    codes = np.array([rank[known[kind]] for kind in kinds]).take(places)
    codes[odd] = [rank[label] for label in others]
    return Coded(codes, tuple(labels))


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
