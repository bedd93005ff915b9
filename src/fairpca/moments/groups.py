"""Group labels: any container of one or more label columns -> integer codes.

Labels come back as the user wrote them (Python scalars; tuples when several columns are crossed).
A missing label (None, NaN, NaT, null) makes a row unlabelled. Every column is coded by itself,
then the codes of several columns are combined into one number per row, so that no tuple is built
for a row. Read `Groups.from_labels` first.
"""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import re
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import narwhals.stable.v2 as nw
import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from fairpca._arrays import (
    AnyArray,
    FloatArray,
    IntArray,
    array_namespace,
    fetched,
    is_foreign,
)
from fairpca._check import check_choice, framed, warn

if TYPE_CHECKING:
    import pandas

    from fairpca.moments.group_moments import GroupMoments


class Shaped(Protocol):
    """Table or column of any library: frame, sparse matrix, tensor, Dask array, LinearOperator."""

    @property
    def shape(self) -> tuple[object, ...]: ...


# What users pass: rows or their moments, labels, weights, projections and seeds.
Frame: TypeAlias = "pandas.DataFrame"
Rows: TypeAlias = ArrayLike | Shaped
Data: TypeAlias = "Rows | GroupMoments"
Labels: TypeAlias = "ArrayLike | Shaped | Sequence[Hashable] | Mapping[str, object] | Groups"
Weights: TypeAlias = ArrayLike | None
Batch: TypeAlias = "tuple[Rows, Labels | None] | tuple[Rows, Labels | None, Weights]"
Model: TypeAlias = BaseEstimator
Models: TypeAlias = Model | Sequence[Model] | Mapping[str, Model]
Reducer: TypeAlias = Model | Rows
Seed: TypeAlias = int | np.random.RandomState | None

Label: TypeAlias = Hashable
# Codes of a column, -1 where a label is missing, its distinct labels, sorted, and rows of each.
_Coded: TypeAlias = tuple[IntArray, list[Label], IntArray]

#: What a column of labels is called that came without a name.
UNNAMED = "sensitive_feature"

# Integer labels that span at most this many values are counted in a table, which takes a third of
# the time of a sort at 30,000 rows.
_TABLE_SPAN = 2**15
# More distinct labels than this are a measurement or a name, not groups: an audit of them would
# take minutes and say nothing. The second is for labels that are fractions, since a code is a
# whole number, or where most rows have a label of their own, as with names.
_MOST_LABELS, _MOST_FRACTIONS = 1000, 50


@dataclass(frozen=True)
class Groups:
    """Which group every row belongs to.

    Attributes
    ----------
    codes : ndarray of shape (m,)
        Position of the row's label in `labels`; -1 for an unlabelled row.
    labels : tuple
        Distinct labels, sorted. With several columns each label is a tuple, one entry a column;
        an entry is None only where ``group_by="marginal"`` met a missing label.
    names : tuple of str
        Names of the label columns.
    counts : ndarray of shape (k,)
        Rows per label.

    Examples
    --------
    >>> from fairpca import Groups
    >>> groups = Groups.from_labels(["north", "south", "north"])
    >>> groups.labels, groups.codes.tolist(), groups.counts.tolist()
    (('north', 'south'), [0, 1, 0], [2, 1])
    >>> Groups.from_labels({"sex": ["f", "m", "f"], "age": ["old", "old", "young"]}).labels
    (('f', 'old'), ('f', 'young'), ('m', 'old'))
    """

    codes: IntArray
    labels: tuple[Label, ...]
    names: tuple[str, ...]
    counts: IntArray

    @classmethod
    def from_labels(
        cls,
        sensitive_features: Labels,
        *,
        n_rows: int | None = None,
        group_by: str = "intersection",
        unlabelled: str = "error",
    ) -> Groups:
        """Code the labels of every row.

        Parameters
        ----------
        sensitive_features : array-like, Series, frame or dict
            One label per row, or several columns of labels.
        n_rows : int, optional
            The number of rows expected.
        group_by : {"intersection", "marginal"}, default="intersection"
            With several columns and "marginal", a row with some labels missing keeps the others.
        unlabelled : {"error", "ignore"}, default="error"
            What a missing label means.

        Returns
        -------
        Groups
            With the labels, or combinations of labels, that occur in some row.

        Raises
        ------
        ValueError
            If a column has another number of rows than the others or `n_rows`, if a label is
            missing and that is an error, or if a label cannot be compared.
        """
        check_choice("group_by", group_by, ("intersection", "marginal"))
        check_choice("unlabelled", unlabelled, ("error", "ignore"))
        columns = [(name, *_coded(values)) for name, values in _columns(sensitive_features)]
        if not columns:
            raise ValueError(
                "sensitive_features has no columns; pass at least one column of labels."
            )
        m = len(columns[0][1]) if n_rows is None else n_rows
        for name, codes, *_ in columns:
            _check_rows("sensitive_features", len(codes), m, f" in column {name!r}")
        if unlabelled == "error" and any(counts.sum() < m for *_, counts in columns):
            missing = np.flatnonzero(np.any([codes < 0 for _, codes, *_ in columns], axis=0))
            raise ValueError(
                f"sensitive_features has {len(missing):,} missing label(s), the first in row "
                f"{missing[0] + 1:,}, counting from 1; fill them in, or leave those rows out. "
                "unlabelled='ignore' keeps them in the mean and the pooled variance but out of "
                "the worst case."
            )
        (_, codes, labels, counts), *others = columns
        if others:
            codes, labels, counts = _crossed([c[1:3] for c in columns], group_by == "marginal")
        return cls(codes, tuple(labels), tuple(name for name, *_ in columns), counts)

    @classmethod
    def of(
        cls, labels: Labels | None, n_rows: int, *, rows: Rows | None = None, **rules: Any
    ) -> Groups:
        """Return the groups of a table, with `rules` of `from_labels`.

        None is one group. Groups are taken as they are; ValueError where they are of other rows.
        Labels that live on the device of `rows` are coded there, if scikit-learn was told to
        follow arrays and they are whole numbers.
        """
        if labels is None:
            return cls(np.zeros(n_rows, dtype=np.int64), ("all",), ("all",), np.array([n_rows]))
        if not isinstance(labels, Groups):
            there = cls._on_device(labels, rows) if is_foreign(labels) else None
            return there or cls.from_labels(labels, n_rows=n_rows, **rules)
        _check_rows("sensitive_features", labels.codes.shape[0], n_rows)
        return labels

    @classmethod
    def _on_device(cls, labels: Any, rows: Any) -> Groups | None:
        """Code whole numbers where the rows live too; None where that cannot be.

        Copying ten million labels from a device takes longer than counting their rows there.
        """
        xp = array_namespace(rows)
        if xp is None or labels.device != rows.device or labels.ndim != 1:
            return None
        if labels.shape[0] != rows.shape[0] or not xp.isdtype(labels.dtype, "integral"):
            return None
        values, counts = xp.unique_counts(labels)
        codes, found = xp.searchsorted(values, labels), tuple(fetched(values).tolist())
        return cls(codes, found, (UNNAMED,), fetched(counts).astype(np.int64))

    def cells(self) -> tuple[IntArray, tuple[Label, ...], IntArray]:
        """Return codes, labels and counts with unlabelled rows, if there are any, as cell 0.

        Their label is None.
        """
        unlabelled = self.codes.shape[0] - int(self.counts.sum())
        if not unlabelled:
            return self.codes, self.labels, self.counts
        return self.codes + 1, (None, *self.labels), np.r_[unlabelled, self.counts]

    def take(self, rows: IntArray | slice) -> Groups:
        """Return the groups of some rows; labels that none of them has are left out."""
        codes, labels, counts = _sorted(fetched(self.codes)[rows], self.labels)
        return Groups(codes, tuple(labels), self.names, counts)

    def in_folds(self, folds: IntArray, n_folds: int) -> Groups:
        """Return the groups of every fold: labels are pairs (fold, label), of rows that exist.

        Unlabelled rows have the label (fold, None), so that they stay with their fold.
        `split_folds` separates the moments of such groups.
        """
        codes, labels, _ = self.cells()
        pairs, numbers, counts = _of_numbers(fetched(codes).astype(np.int64) * n_folds + folds)
        found = tuple((number % n_folds, labels[number // n_folds]) for number in numbers)  # type: ignore[operator]
        return Groups(pairs, found, self.names, counts)

    def dealt(self, n_folds: int, blocks: Any = None, start: int = 0) -> Groups:
        """Return the groups of every fold; rows are dealt by block, or else by position.

        Without folds these groups are returned. The first row has the number `start` in its table.
        """
        if not n_folds:
            return self
        m = self.codes.shape[0]
        folds = row_folds(start, m, n_folds) if blocks is None else block_folds(blocks, n_folds, m)
        return self.in_folds(folds, n_folds)

    @property
    def n_groups(self) -> int:
        """Number of distinct labels."""
        return len(self.labels)


def warn_of_measurements(groups: Groups) -> None:
    """Warn where a column of labels looks like a measurement; the labels are of a whole table.

    Nobody is served by groups of one row each, and a fit of them takes long.
    """
    if len(groups.labels) <= _MOST_FRACTIONS:
        return
    # With several columns a label is a tuple, with an entry of each.
    labels: Any = groups.labels
    columns = zip(*labels, strict=True) if len(groups.names) > 1 else [labels]
    n_rows = int(groups.codes.shape[0])
    for name, column in zip(groups.names, columns, strict=True):
        distinct = set(column) - {None}
        fractions = any(isinstance(v, float) and not v.is_integer() for v in distinct)
        most = 0 if fractions else min(_MOST_LABELS, n_rows / 2)
        if len(distinct) > max(most, _MOST_FRACTIONS):
            warn(
                f"sensitive_features has {len(distinct):,} distinct labels in column {name!r} of "
                f"{n_rows:,} rows; they look like measurements or names, not like groups. Cut "
                "numbers into a few ranges first, for example with pandas.qcut(values, 4), or "
                "join rare labels."
            )


def row_folds(start: int, n_rows: int, n_folds: int) -> IntArray:
    """Return the folds of rows by their position: the same rows have the same folds everywhere.

    Parameters
    ----------
    start : int
        Position of the first row, counted from 0.
    n_rows : int
        How many rows follow one another from there.
    n_folds : int
        Folds are numbered from 0.

    Returns
    -------
    ndarray of shape (n_rows,)
        Every row falls into each fold with the same probability, whatever its label.

    Examples
    --------
    >>> from fairpca.moments.groups import row_folds
    >>> row_folds(0, 6, 3).tolist() == [*row_folds(0, 2, 3), *row_folds(2, 4, 3)]
    True
    """
    # A generator that can be advanced: any piece of a table finds its folds without the others.
    # NumPy keeps the stream of PCG64 the same from version to version.
    numbers = np.random.PCG64(0).advance(start).random_raw(n_rows)
    return (numbers % np.uint64(n_folds)).astype(np.int64)


def block_folds(blocks: Any, n_folds: int, n_rows: int | None = None) -> IntArray:
    """Return the folds of rows by the block they belong to: a person, a month, a household.

    The fold of a block follows from its label alone, so that the rows of one block have the same
    fold in every piece of a table. Folds hold about as many blocks each where there are many.

    Parameters
    ----------
    blocks : array-like of shape (n_rows,)
        Labels; 7, 7.0 and "7" are the same block.
    n_folds : int
        Folds are numbered from 0.
    n_rows : int, optional
        The number of rows expected.

    Returns
    -------
    ndarray of shape (n_rows,)

    Examples
    --------
    >>> from fairpca.moments.groups import block_folds
    >>> first, second, third = block_folds(["ann", "bob", "ann"], 5).tolist()
    >>> first == third, block_folds([7.0], 5).tolist() == block_folds(["7"], 5).tolist()
    (True, True)
    """
    codes, labels = block_codes(blocks, n_rows)
    texts = [str(int(b) if isinstance(b, float) and b.is_integer() else b) for b in labels]
    hashes = [hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts]
    folds = np.array([int.from_bytes(h, "big") % n_folds for h in hashes], dtype=np.int64)
    return folds[codes]


def block_codes(blocks: Any, n_rows: int | None = None) -> tuple[IntArray, list[Label]]:
    """Return the number of every row's block, and the blocks' labels; every row needs one."""
    codes, labels, counts = _coded(blocks)
    _check_rows("blocks", len(codes), n_rows or len(codes))
    if counts.sum() < len(codes):
        raise ValueError(
            f"blocks has {len(codes) - counts.sum():,} missing label(s); a row that belongs to "
            "no block needs a label of its own."
        )
    return codes, labels


def _check_rows(argument: str, found: int, n_rows: int, where: str = "") -> None:
    """Raise ValueError unless an argument has as many rows as X."""
    if found != n_rows:
        raise ValueError(
            f"{argument} has {found} rows{where} but X has {n_rows}; pass one label (or one row "
            "of labels) per row of X."
        )


def _columns(given: Any) -> list[tuple[str, Any]]:
    """Split any container into named 1-D columns."""
    if isinstance(given, Mapping):
        return [(str(name), values) for name, values in given.items()]
    if isinstance(given, str) or given is None:
        raise ValueError(
            f"sensitive_features={given!r}: pass the labels themselves, one per row, such as "
            "table['sex']."
        )
    table = _opened(given)
    if isinstance(table, nw.DataFrame):
        return [(str(name), table.get_column(name)) for name in table.columns]
    if isinstance(table, nw.Series):
        return [(UNNAMED if table.name in (None, "") else str(table.name), table)]
    if table.ndim == 2 and table.shape[1] != 1:
        return [(f"{UNNAMED}_{j}", column) for j, column in enumerate(table.T)]
    if table.ndim in (1, 2):
        return [(UNNAMED, table.ravel())]
    raise ValueError(
        f"sensitive_features has {table.ndim} dimensions; pass one label per row, or one column "
        "of labels per attribute."
    )


def _opened(values: Any) -> Any:
    """Return labels as a frame or a series of narwhals, or as an array.

    A list keeps its own objects, which NumPy would turn into strings.
    """
    if isinstance(values, list | tuple):
        return np.array(values, dtype=object)
    if isinstance(values, np.ndarray | nw.Series):
        # narwhals would find the same, after a third of a millisecond of asking.
        return values
    table = framed(values, "sensitive_features", allow_series=True)
    return table if isinstance(table, nw.DataFrame | nw.Series) else fetched(values)


def _coded(values: Any) -> _Coded:
    """Code one column by the quickest method it offers."""
    column = _opened(values)
    if isinstance(column, nw.Series):
        if not column.dtype.is_numeric() or column.is_null().any():
            if column.implementation.is_pandas():
                # By its hash table, or the codes it already has: ten times faster than by its
                # objects.
                with contextlib.suppress(TypeError):
                    codes, kinds = column.to_native().factorize()
                    return _sorted(codes, kinds.tolist())
            return _of_objects(column.to_list())
        column = np.asarray(column.to_numpy())
    kind = column.dtype.kind
    if kind in "biuf":
        return _of_numbers(column)
    if kind == "U" and (column == "nan").any():
        warn(
            "sensitive_features has the label 'nan': NumPy writes missing labels as text beside "
            "other text. If it stands for a missing one, pass a list, or an array of objects."
        )
    if kind == "M":
        # Nanoseconds would become bare numbers; the standard library counts microseconds.
        column = column.astype("M8[us]")
    return _of_objects(column.ravel().tolist())


def _of_numbers(array: AnyArray) -> _Coded:
    """Code numbers; NaN is missing.

    Whole numbers that span a short range are counted in a table, without sorting; others are
    sorted.
    """
    with np.errstate(invalid="ignore"):
        whole = array.astype(np.int64, copy=False)
    low, high = (int(whole.min()), int(whole.max())) if array.size else (0, -1)
    if high - low < _TABLE_SPAN and (whole is array or (whole == array).all()):
        values, codes = low + np.arange(high - low + 1), whole - low
        counts = np.bincount(codes, minlength=len(values))
    else:
        values, codes, counts = np.unique(array, return_inverse=True, return_counts=True)
    used = np.flatnonzero((counts > 0) & (values == values))
    if len(used) < len(values):
        table = np.full(len(values), -1)
        table[used] = np.arange(len(used))
        codes, values, counts = table.take(codes), values[used], counts[used]
    return codes, values.astype(array.dtype).tolist(), counts


def _of_objects(values: Sequence[Any]) -> _Coded:
    """Return codes and the sorted labels of any hashable values; None and NaN are missing."""
    # Numbers values in the order in which they are first met.
    numbering: defaultdict[Any, int] = defaultdict(itertools.count().__next__)
    try:
        places = np.fromiter(map(numbering.__getitem__, values), np.int64, len(values))
    except TypeError as error:
        raise ValueError(
            f"sensitive_features has a label that cannot be compared ({error}); use strings, "
            "numbers or tuples."
        ) from None
    return _sorted(places, list(numbering))


def _sorted(codes: IntArray, values: Sequence[Any]) -> _Coded:
    """Return codes for labels that are sorted, distinct and all in use.

    `values` may repeat, be missing, or occur in no row; negative codes stay missing.
    """
    rows = np.bincount(np.asarray(codes, dtype=np.int64) + 1, minlength=len(values) + 1)[1:]
    plain = {i: _plain(values[i]) for i in np.flatnonzero(rows).tolist()}
    # Labels that differ as objects may be equal once they are plain: np.int64(1) and 1.
    labels = sort_labels(set(plain.values()) - {None})
    rank = {label: i for i, label in enumerate(labels)}
    # The entry after the last serves the code -1.
    table, counts = np.full(len(values) + 1, -1), np.zeros(len(labels), dtype=np.int64)
    for i, label in plain.items():
        if label is not None:
            table[i] = rank[label]
            counts[rank[label]] += rows[i]
    return table.take(codes), labels, counts


def _plain(value: Any) -> Label:
    """Return a label with NumPy's own scalars as Python's, and None for a missing one."""
    if isinstance(value, tuple):
        return tuple(_plain(part) for part in value)
    value = value.item() if isinstance(value, np.generic) else value
    # NaN and NaT differ from themselves, and pandas' own NA does not say whether it does.
    return value if (value != value) is False else None


def sort_labels(labels: Iterable[Label]) -> list[Label]:
    """Sort labels of any type: by value where they compare, by type and text otherwise."""
    labels = list(labels)
    try:
        return sorted(labels)  # type: ignore[type-var]
    except TypeError:
        return sorted(labels, key=lambda label: (type(label).__name__, str(label)))


def _crossed(columns: Sequence[tuple[IntArray, list[Label]]], keep_partial: bool) -> _Coded:
    """Code the combinations that occur; unlabelled where a label is missing.

    With `keep_partial` a row that lacks some labels, but not all, keeps the others.
    """
    codes = np.zeros(len(columns[0][0]), dtype=np.int64)
    cells: list[tuple[Label, ...]] = [()]
    for column, labels in columns:
        levels = (None, *labels)
        # One number for the combination so far and the next label. Those that occur are counted
        # anew for every column: they are at most as many as rows, and the number never overflows.
        numbers: Any
        codes, numbers, _ = _of_numbers(codes * len(levels) + column + 1)
        pairs = (divmod(number, len(levels)) for number in numbers)
        cells = [(*cells[known], levels[level]) for known, level in pairs]
    enough = any if keep_partial else all
    found = [cell if enough(part is not None for part in cell) else None for cell in cells]
    return _sorted(codes, found)


_THRESHOLD = re.compile(
    r"^(?P<column>.+?)\s*(?P<sign>>=|<=|>|<)\s*(?P<value>[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)$"
)
_OPPOSITE = {">=": "<", "<=": ">", ">": "<=", "<": ">="}
_COMPARE = {">=": np.greater_equal, "<=": np.less_equal, ">": np.greater, "<": np.less}


class Threshold(NamedTuple):
    """Two groups from a column of numbers: ``age>=65`` and the rest.

    Attributes
    ----------
    column : str
    sign : {">=", "<=", ">", "<"}
    value : str
        As it was written.
    """

    column: str
    sign: str
    value: str

    @classmethod
    def parse(cls, entry: str) -> Threshold | None:
        """Read a threshold such as ``age>=65``; None if it is none."""
        found = _THRESHOLD.match(entry)
        return None if found is None else cls(**found.groupdict())

    def apply(self, numbers: FloatArray) -> AnyArray:
        """Return the label of every number, None where it is missing."""
        above = f"{self.column} {self.sign} {self.value}"
        below = f"{self.column} {_OPPOSITE[self.sign]} {self.value}"
        sides = np.where(_COMPARE[self.sign](numbers, float(self.value)), above, below)
        return np.where(np.isnan(numbers), np.array(None), sides)
