"""Coding one column of labels: the distinct labels, sorted, and the position of every row's.

Every way of coding returns the same result; they differ in speed alone. Integers are counted in a
table, fixed-width text is compared with one known label after the other, everything else is looked
up in a dictionary. `factorize` chooses; `factorize_objects` is the way that works for all.
"""

from __future__ import annotations

import itertools
import operator
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from fairpca._linalg import AnyArray, IntArray

Label: TypeAlias = Hashable

# Integer labels that span at most this many values are counted in a table, which takes a third of
# the time of a sort at 30,000 rows; a larger table would leave the cache.
_TABLE_SPAN = 1 << 16
# Up to this many different texts, comparing all rows with each of them beats a dictionary (1.6
# against 8.9 ms for 30,000 rows of four texts of 15 letters); each more costs another comparison.
_FEW_TEXTS = 12
# Rows in which the texts of a column are looked for first.
_SAMPLE_ROWS = 128


class Coded(NamedTuple):
    """A column as codes: the position of every row's label, -1 where it is missing.

    Attributes
    ----------
    codes : ndarray of shape (m,)
    labels : tuple
        Distinct and sorted.
    """

    codes: IntArray
    labels: tuple[Label, ...]

    def rows_per_label(self) -> IntArray:
        """Return how many rows have each label, shape (k,)."""
        return np.bincount(self.codes + 1, minlength=len(self.labels) + 1)[1:]


def sort_labels(labels: Iterable[Label]) -> list[Label]:
    """Sort labels of any type: by value where they compare, by type and text otherwise."""
    labels = list(labels)
    try:
        return sorted(labels)  # type: ignore[type-var]
    except TypeError:
        return sorted(labels, key=_sort_key)


def _sort_key(label: Label) -> tuple[Any, ...]:
    """Return what labels of mixed types are sorted by: numbers, others by type, tuples last."""
    if isinstance(label, tuple):
        return (2, "", tuple(_sort_key(part) for part in label))
    if isinstance(label, bool | int | float):
        return (0, "", label)
    return (1, type(label).__name__, str(label))


def factorize(array: AnyArray) -> Coded:
    """Return codes and sorted labels of a one-dimensional array of any type."""
    kind = array.dtype.kind
    if kind == "b":
        coded = factorize_integers(array.astype(np.int8))
        return coded._replace(labels=tuple(bool(label) for label in coded.labels))
    if kind in "iu":
        return factorize_integers(array)
    if kind in "US":
        return _factorize_text(array)
    if kind not in "fcmM":
        return factorize_objects(array.tolist())
    missing = np.isnat(array) if kind in "mM" else np.isnan(array)
    values, inverse = np.unique(array[~missing], return_inverse=True)
    codes = np.full(len(array), -1, dtype=np.int64)
    codes[~missing] = inverse
    if kind in "mM" and np.datetime_data(values.dtype)[0] == "ns":
        # Nanoseconds would become bare numbers; the standard library counts microseconds. All or
        # none of a column: labels of two kinds would be in no order.
        coarser = values.astype(f"{kind}8[us]")
        values = coarser if np.array_equal(coarser, values) else values
    return Coded(codes, tuple(values.tolist()))


def factorize_integers(array: AnyArray) -> Coded:
    """Return codes and the sorted values of an array of integers.

    Values that span a short range are counted in a table, without sorting; others are sorted.
    """
    if not array.size:
        return Coded(np.empty(0, dtype=np.int64), ())
    low, span = int(array.min()), int(array.max()) - int(array.min()) + 1
    if span > _TABLE_SPAN:
        values, inverse = np.unique(array, return_inverse=True)
        return Coded(inverse.astype(np.int64), tuple(values.tolist()))
    # Widened first: 127 - (-128) does not fit into an int8. Of eight bytes, unsigned ones may be
    # past the largest signed integer, but their distance from the lowest is not.
    wide = array if array.dtype.itemsize == 8 else array.astype(np.int64)
    places = (wide - wide.dtype.type(low)).astype(np.int64, copy=False)
    present = np.flatnonzero(np.bincount(places, minlength=span))
    table = np.zeros(span, dtype=np.int64)
    table[present] = np.arange(len(present))
    # As Python's integers: an unsigned one may be past the largest signed one.
    labels = tuple(low + place for place in present.tolist())
    return Coded(table.take(places), labels)


def _factorize_text(array: AnyArray) -> Coded:
    """Return codes and sorted labels of fixed-width text.

    The labels are guessed from a sample of the rows. If they are few, each is compared with all
    rows at once, and rows that match none are coded one by one.
    """
    sample = set(array[:: max(len(array) // _SAMPLE_ROWS, 1)].tolist())
    if len(sample) > _FEW_TEXTS:
        return factorize_objects(array.tolist())
    places = np.full(len(array), -1, dtype=np.int64)
    texts = list(sample)
    for place, text in enumerate(texts):
        places[array == text] = place
    # What the sample missed is mostly little.
    others = np.flatnonzero(places < 0)
    rare, labels = factorize_objects(array[others].tolist())
    places[others] = rare + len(texts)
    return recode(places, [*texts, *labels])


def factorize_objects(values: list[Any]) -> Coded:
    """Return codes and the sorted labels of any hashable values; None and NaN are missing."""
    # Numbers values in the order in which they are first met.
    numbering: defaultdict[Any, int] = defaultdict(itertools.count().__next__)
    waiting = iter(values)
    try:
        numbers = map(numbering.__getitem__, waiting)
        places = np.fromiter(numbers, dtype=np.int64, count=len(values))
    except TypeError:
        # The last one that was taken has no hash: it is a list, or a tuple that holds one.
        odd = values[-1 - operator.length_hint(waiting)]
        raise ValueError(
            f"sensitive_features has the label {odd!r} of type {type(odd).__name__}, which cannot "
            "be compared; use strings, numbers or tuples."
        ) from None
    found = [None if _is_missing(value) else plain(value) for value in numbering]
    # Labels that differ as objects may be equal once they are plain: np.int64(1) and 1.
    labels = sort_labels({label for label in found if label is not None})
    rank = {label: i for i, label in enumerate(labels)}
    table = np.array([-1 if label is None else rank[label] for label in found], dtype=np.int64)
    return Coded(table.take(places), tuple(labels))


def recode(codes: IntArray, values: Sequence[Label]) -> Coded:
    """Return codes for labels that are sorted, distinct and all in use.

    `values` may repeat, be missing, or occur in no row; negative codes stay missing.
    """
    used = np.flatnonzero(np.bincount(codes + 1, minlength=len(values) + 1)[1:])
    ranks, labels = factorize_objects([values[i] for i in used.tolist()])
    # The entry after the last serves the code -1.
    table = np.full(len(values) + 1, -1, dtype=np.int64)
    table[used] = ranks
    return Coded(table.take(codes, mode="wrap"), labels)


def _is_missing(value: Any) -> bool:
    """Whether a label is None, NaN, NaT or pandas.NA."""
    if value is None:
        return True
    try:
        return bool(value != value)
    except (TypeError, ValueError):
        # pandas.NA refuses to be a truth value.
        return True


def plain(value: Any) -> Label:
    """Return a label as a Python scalar; times of the standard library are equal to pandas'."""
    if isinstance(value, np.datetime64 | np.timedelta64) and np.datetime_data(value)[0] == "ns":
        # Nanoseconds would become a bare number; the standard library counts microseconds.
        coarser = value.astype(f"{value.dtype.kind}8[us]")
        value = coarser if coarser == value else value
    scalar: Label = value.item() if isinstance(value, np.generic) else value
    return scalar
