"""Group labels: any container of one or more label columns -> integer codes.

Labels come back as the user wrote them (Python scalars; tuples when several columns are crossed).
A missing label (None, NaN, NaT, null) makes a row unlabelled.

Every column is coded by itself (`label_codes`), then the codes of several columns are combined
into one number per row, so that no tuple is built for a row. Read `Groups.from_labels` first.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np

from fairpca._checks import check_choice, framed, warn
from fairpca._linalg import (
    AnyArray,
    FloatArray,
    IntArray,
    array_namespace,
    fetched,
    is_foreign,
    library_of,
    placed,
)
from fairpca.moments.label_codes import (
    Coded,
    Label,
    factorize,
    factorize_integers,
    factorize_objects,
    recode,
    sort_labels,
)

#: What a column of labels is called that came without a name.
UNNAMED = "sensitive_feature"

# Whole numbers that span fewer values than this are coded on the device that they live on, in the
# two bytes that device_scatter would send; others are coded here.
_DEVICE_SPAN = 2**15
# Up to this many different texts in a column, its library replaces them by codes.
_FEW_KINDS = 1000
# More distinct labels than this are a measurement or a name, not groups: an audit of them would
# take minutes and say nothing. Both numbers are a judgement about what people mean, not a limit of
# what can be computed.
_MOST_LABELS = 1000
# The same where labels are fractions, since a code is a whole number, and where most rows have a
# label of their own, as with names.
_MOST_FRACTIONS = 50


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
        sensitive_features: Any,
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
            missing and that is an error, if a categorical column declares levels that no row has,
            or if a label cannot be compared.
        """
        columns = [
            (name, _code_column(name, values)) for name, values in _columns(sensitive_features)
        ]
        return cls._crossed(columns, n_rows, group_by, unlabelled)

    @classmethod
    def _on_device(cls, labels: Any, rows: Any) -> Groups | None:
        """Code whole numbers where the rows live too; None where that cannot be.

        Copying ten million labels from a device takes longer than counting their rows there.

        Returns
        -------
        Groups or None
            Its `codes` are an array of that library; only `device_scatter` takes them.
        """
        if not is_foreign(labels) or labels.device != rows.device or labels.ndim != 1:
            return None
        xp, m = library_of(rows), int(rows.shape[0])
        if labels.shape[0] != m or not m or not xp.isdtype(labels.dtype, "integral"):
            return None
        low, high = int(xp.min(labels)), int(xp.max(labels))
        if high - low >= _DEVICE_SPAN or high >= 2**62:
            return None
        values, counts = (fetched(part) for part in xp.unique_counts(labels))
        places = np.zeros(high - low + 1, dtype=np.int16)
        places[values.astype(np.int64) - low] = np.arange(len(values))
        # Widened first: 127 - (-128) does not fit into an int8.
        codes = xp.take(placed(places, rows), xp.astype(labels, xp.int64) - low, axis=0)
        return cls(codes, tuple(values.tolist()), (UNNAMED,), counts.astype(np.int64))

    @classmethod
    def from_dictionaries(
        cls,
        columns: Mapping[str, tuple[IntArray, Sequence[Label]]],
        *,
        group_by: str = "intersection",
        unlabelled: str = "error",
    ) -> Groups:
        """Take labels that a table stores as codes into a short list of values.

        Parameters
        ----------
        columns : mapping of str to (codes, values)
            A row's label is ``values[code]``, missing where the code is negative. Values may
            repeat, be missing themselves, or occur in no row.
        group_by, unlabelled : str
            As in `from_labels`.
        """
        coded = [(name, recode(codes, kinds)) for name, (codes, kinds) in columns.items()]
        return cls._crossed(coded, None, group_by, unlabelled)

    @classmethod
    def _crossed(
        cls, columns: list[tuple[str, Coded]], n_rows: int | None, group_by: str, unlabelled: str
    ) -> Groups:
        """Return the groups of coded columns; ValueError where rows or labels are missing."""
        check_choice("group_by", group_by, ("intersection", "marginal"))
        check_choice("unlabelled", unlabelled, ("error", "ignore"))
        if not columns:
            raise ValueError(
                "sensitive_features has no columns; pass at least one column of labels."
            )
        _check_lengths(columns, n_rows)
        names, coded = zip(*columns, strict=True)
        if unlabelled == "error" and any(part.codes.min(initial=0) < 0 for part in coded):
            missing = np.flatnonzero(np.any([part.codes < 0 for part in coded], axis=0))
            first = f"the first in row {missing[0] + 1:,}, counting from 1"
            raise ValueError(
                f"sensitive_features has {len(missing):,} missing label(s), {first}; fill them "
                "in, or leave those rows out. unlabelled='ignore' of FairPCA, fairpca.audit and "
                "GroupMoments.from_array keeps them in the mean and the pooled variance but out "
                "of the worst case."
            )
        found = coded[0]
        if len(coded) > 1:
            found = _cross(coded, keep_partial=group_by == "marginal")
        return cls(found.codes, found.labels, names, found.rows_per_label())

    @classmethod
    def one(cls, n_rows: int) -> Groups:
        """Return the groups of a table without labels: every row in one, called "all"."""
        return cls(np.zeros(n_rows, dtype=np.int64), ("all",), ("all",), np.array([n_rows]))

    @classmethod
    def of(cls, labels: Any, n_rows: int, *, rows: Any = None, **rules: Any) -> Groups:
        """Return the groups of a table, with `rules` of `from_labels`.

        None is one group. Groups are taken as they are; ValueError where they are of other rows.
        Labels that live on the device of `rows` are coded there, if scikit-learn was told to
        follow arrays and they are whole numbers.
        """
        if labels is None:
            return cls.one(n_rows)
        if not isinstance(labels, Groups):
            followed = rows is not None and array_namespace(rows) is not None
            there = cls._on_device(labels, rows) if followed else None
            return there or cls.from_labels(labels, n_rows=n_rows, **rules)
        _check_rows(labels.codes.shape[0], n_rows)
        return labels

    def cells(self) -> tuple[IntArray, tuple[Label, ...], IntArray]:
        """Return codes, labels and counts with unlabelled rows, if there are any, as cell 0.

        Their label is None.
        """
        unlabelled = self.codes.shape[0] - int(self.counts.sum())
        if not unlabelled:
            return self.codes, self.labels, self.counts
        return self.codes + 1, (None, *self.labels), np.r_[unlabelled, self.counts]

    def with_codes(self, codes: IntArray) -> Groups:
        """Return the same labels for other rows."""
        return Groups(codes, self.labels, self.names, Coded(codes, self.labels).rows_per_label())

    def in_folds(self, folds: IntArray, n_folds: int) -> Groups:
        """Return the groups of every fold: labels are pairs (fold, label), of rows that exist.

        Unlabelled rows have the label (fold, None), so that they stay with their fold.
        `split_folds` takes the moments of such groups apart.
        """
        codes, labels, _ = self.cells()
        pairs = factorize_integers(codes * np.int64(n_folds) + folds)
        numbers: Any = pairs.labels
        found = tuple((number % n_folds, labels[number // n_folds]) for number in numbers)
        return Groups(pairs.codes, found, self.names, pairs.rows_per_label())

    @property
    def n_groups(self) -> int:
        """Number of distinct labels."""
        return len(self.labels)


def are_measurements(labels: Collection[Label], n_rows: int) -> bool:
    """Return whether the labels of one column look like measurements or names, not like groups.

    Parameters
    ----------
    labels : collection
        Distinct labels, without missing ones.
    n_rows : int
        Rows of the whole table; of a piece of it nothing can be told.

    Examples
    --------
    >>> from fairpca.moments.groups import are_measurements
    >>> are_measurements(range(60), 1000), are_measurements(range(60), 100)
    (False, True)
    """
    if len(labels) <= _MOST_FRACTIONS:
        return False
    fractions = any(isinstance(value, float) and not value.is_integer() for value in labels)
    return fractions or 2 * len(labels) > n_rows or len(labels) > _MOST_LABELS


def warn_of_measurements(groups: Groups | None) -> None:
    """Warn where a column of labels looks like a measurement; the labels are of a whole table.

    Nobody is served by groups of one row each, and a fit of them takes long. None is a table
    without labels.
    """
    if groups is None or len(groups.labels) <= _MOST_FRACTIONS:
        return
    # With several columns a label is a tuple, with an entry of each.
    labels: Any = groups.labels
    columns = zip(*labels, strict=True) if len(groups.names) > 1 else [labels]
    for name, column in zip(groups.names, columns, strict=True):
        distinct = set(column) - {None}
        n_rows = int(groups.codes.shape[0])
        if are_measurements(distinct, n_rows):
            called = "" if name == UNNAMED else f" column {name!r}"
            warn(
                f"sensitive_features{called} has {len(distinct):,} distinct labels in "
                f"{n_rows:,} rows; they look like measurements or names, not like "
                "groups. Cut numbers into a few ranges first, for example with "
                "pandas.qcut(values, 4), or join rare labels."
            )


def row_folds(start: int, n_rows: int, n_folds: int, part: int = 0) -> IntArray:
    """Return the folds of rows by their position: the same rows have the same folds everywhere.

    Parameters
    ----------
    start : int
        Position of the first row, counted from 0.
    n_rows : int
        How many rows follow one another from there.
    n_folds : int
        Folds are numbered from 0.
    part : int, default=0
        The part in which positions are counted: 0 for files, which are counted through, and the
        number of the partition on a cluster.

    Returns
    -------
    ndarray of shape (n_rows,)
        Every row falls into each fold with the same probability, whatever its label: folds are
        nearly equal where there are many rows, and need not be for a group of few.

    Examples
    --------
    >>> from fairpca.moments.groups import row_folds
    >>> row_folds(0, 6, 3).tolist() == [*row_folds(0, 2, 3), *row_folds(2, 4, 3)]
    True
    """
    # A generator that can be advanced: any piece of a table finds its folds without the others.
    # NumPy keeps the stream of PCG64 the same from version to version.
    numbers = np.random.PCG64(part).advance(start).random_raw(n_rows)
    return (numbers % np.uint64(n_folds)).astype(np.int64)


def check_folds(n_folds: Any) -> int | None:
    """Return the number of folds, or raise ValueError unless it is None or at least 2."""
    whole = isinstance(n_folds, int | np.integer) and not isinstance(n_folds, bool)
    if n_folds is not None and not (whole and n_folds >= 2):
        raise ValueError(
            f"n_folds={n_folds!r} must be an integer of at least 2, because one fold leaves no "
            "rows to fit to; leave n_folds out for the moments of all rows together."
        )
    return None if n_folds is None else int(n_folds)


def _columns(sensitive_features: Any) -> list[tuple[str, Any]]:
    """Split any container into named 1-D columns."""
    if sensitive_features is None:
        raise ValueError("sensitive_features=None: pass one label per row.")
    if isinstance(sensitive_features, Mapping):
        return [(str(name), values) for name, values in sensitive_features.items()]
    if np.ma.isMA(sensitive_features) and np.ma.getmaskarray(sensitive_features).any():
        # A masked label is a missing one.
        hidden = np.ma.getmaskarray(sensitive_features)
        sensitive_features = sensitive_features.data.astype(object)
        sensitive_features[hidden] = None
    if hasattr(sensitive_features, "levels") and hasattr(sensitive_features, "to_frame"):
        # An index of several levels is a table of labels, not a column of tuples.
        sensitive_features = sensitive_features.to_frame(index=False)
    if is_foreign(sensitive_features):
        sensitive_features = fetched(sensitive_features)
    native = _native(sensitive_features)
    if isinstance(native, nw.LazyFrame):
        native = native.collect()
    if isinstance(native, nw.DataFrame):
        return [(str(name), native.get_column(name)) for name in native.columns]
    if isinstance(native, nw.Series):
        # Of a table without a header, names are numbers.
        return [(UNNAMED if native.name in (None, "") else str(native.name), native)]
    if isinstance(sensitive_features, str):
        raise ValueError(
            f"sensitive_features={sensitive_features!r} is one name; pass the labels themselves, "
            f"one per row, such as table[{sensitive_features!r}]."
        )
    array = _as_array(sensitive_features)
    if array.ndim == 2 and array.shape[1] != 1:
        return [(f"{UNNAMED}_{j}", column) for j, column in enumerate(array.T)]
    if array.ndim in (1, 2):
        return [(UNNAMED, array.ravel())]
    raise ValueError(
        f"sensitive_features has {array.ndim} dimensions; pass one label per row, or one column "
        "of labels per attribute."
    )


def _native(values: Any) -> Any:
    """Return a narwhals frame or series if `values` is one of any library, else `values`."""
    if isinstance(values, np.ndarray | list | tuple | nw.Series | nw.DataFrame):
        # narwhals would find the same, after a third of a millisecond of asking.
        return values
    return framed(values, "sensitive_features", allow_series=True)


def _as_array(values: Any) -> AnyArray:
    """Return labels as an array, of objects where they were a list or a tuple.

    Rows of several labels become a table of shape (m, number of labels in a row).
    """
    # A list keeps its own objects: np.asarray would turn ["a", 1] into two strings.
    if not isinstance(values, list | tuple):
        return np.asarray(values)
    kinds = set(map(type, values))
    nested = {kind for kind in kinds if issubclass(kind, list | tuple | np.ndarray)}
    if not nested:
        array = np.empty(len(values), dtype=object)
        array[:] = values
        return array
    widths = {len(item) for item in values} if nested == kinds else set()
    if len(widths) != 1:
        raise ValueError(
            "sensitive_features mixes rows of different lengths; pass one label per row, or rows "
            "with one label per attribute."
        )
    table = np.empty((len(values), widths.pop()), dtype=object)
    for i, row in enumerate(values):
        table[i, :] = list(row)
    return table


def _code_column(name: str, values: Any) -> Coded:
    """Return one column as codes.

    Levels of a categorical column that no row has are no groups: pandas keeps them on every
    selection of rows, such as the parts of a cross-validation.
    """
    series = _native(values)
    if isinstance(series, nw.Series):
        return _factorize_series(series)
    array = _as_array(values)
    if array.ndim != 1:
        raise ValueError(f"sensitive_features column {name!r} is not one-dimensional.")
    return factorize(array)


def _factorize_series(series: Any) -> Coded:
    """Return the codes of a column of any frame library, by the quickest way it offers."""
    if series.dtype.is_numeric() and not series.is_null().any():
        return factorize(np.asarray(series.to_numpy()))
    if series.implementation.is_pandas():
        # By its hash table, or the codes it already has: ten times faster than by its objects.
        native = series.to_native()
        if series.dtype in (nw.Categorical, nw.Enum):
            return recode(native.cat.codes.to_numpy(np.int64), native.cat.categories.tolist())
        with contextlib.suppress(TypeError):
            codes, kinds = native.factorize()
            return recode(codes, kinds.tolist())
    elif series.dtype in (nw.String, nw.Categorical, nw.Enum) and not series.is_null().any():
        kinds = series.unique().to_list()
        if len(kinds) <= _FEW_KINDS:
            places = series.replace_strict(kinds, range(len(kinds)), return_dtype=nw.Int64)
            return recode(places.to_numpy(), kinds)
    return factorize_objects(series.to_list())


def _cross(columns: Sequence[Coded], *, keep_partial: bool) -> Coded:
    """Code the combinations that occur; unlabelled where a label is missing.

    With `keep_partial` a row that lacks some labels, but not all, keeps the others.
    """
    codes = np.zeros(len(columns[0].codes), dtype=np.int64)
    cells: list[tuple[Label, ...]] = [()]
    for column in columns:
        levels = (None, *column.labels)
        # One number for the combination so far and the next label. Those that occur are counted
        # anew for every column: they are at most as many as rows, and the number never overflows.
        numbers: Any
        codes, numbers = factorize_integers(codes * len(levels) + column.codes + 1)
        pairs = (divmod(number, len(levels)) for number in numbers)
        cells = [(*cells[known], levels[level]) for known, level in pairs]

    def dropped(cell: tuple[Label, ...]) -> bool:
        gone = [part is None for part in cell]
        return all(gone) if keep_partial else any(gone)

    labels = sort_labels(cell for cell in cells if not dropped(cell))
    rank = {label: i for i, label in enumerate(labels)}
    table = np.array([rank.get(cell, -1) for cell in cells], dtype=np.int64)
    return Coded(table.take(codes), tuple(labels))


def _check_lengths(columns: list[tuple[str, Coded]], n_rows: int | None) -> None:
    first, m = columns[0][0], len(columns[0][1].codes)
    for name, coded in columns:
        if len(coded.codes) != m:
            raise ValueError(
                f"sensitive_features column {name!r} has {len(coded.codes)} rows and "
                f"{first!r} has {m}; give every column one label per row."
            )
    if n_rows is not None:
        _check_rows(m, n_rows)


def _check_rows(m: int, n_rows: int) -> None:
    if m != n_rows:
        raise ValueError(
            f"sensitive_features has {m} rows but X has {n_rows}; pass one label (or one row of "
            "labels) per row of X."
        )


_THRESHOLD = re.compile(
    r"^(?P<column>.+?)\s*(?P<sign>>=|<=|>|<)\s*(?P<value>[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)$"
)
_OPPOSITE = {">=": "<", "<=": ">", ">": "<=", "<": ">="}
_COMPARE = {">=": np.greater_equal, "<=": np.less_equal, ">": np.greater, "<": np.less}


@dataclass(frozen=True)
class Threshold:
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

    @property
    def labels(self) -> tuple[str, str]:
        """Names of the two sides."""
        return (
            f"{self.column} {self.sign} {self.value}",
            f"{self.column} {_OPPOSITE[self.sign]} {self.value}",
        )

    def codes(self, numbers: FloatArray) -> IntArray:
        """Return 0 on the side of the sign, 1 on the other, -1 where the number is missing."""
        codes = np.where(_COMPARE[self.sign](numbers, float(self.value)), 0, 1)
        return np.where(np.isnan(numbers), -1, codes)

    def apply(self, numbers: FloatArray) -> AnyArray:
        """Return the label of every number, None where it is missing."""
        return np.array([*self.labels, None], dtype=object)[self.codes(numbers)]
