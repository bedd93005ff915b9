"""Sources: files cut into pieces, each read as batches of numbers, groups and weights.

A source is planned first (`open_source`: which files, which columns, do they agree) and read
afterwards, so that a wrong column is found before an hour of work and not after it. The subclasses
of `Source` know how to cut and read one kind of file; how rows become a `Batch` is written here,
once, for all of them and for the partitions of a cluster.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import accumulate
from typing import Any

import numpy as np

from fairpca._checks import check_weights
from fairpca._linalg import AnyArray, FloatArray, IntArray
from fairpca.io.columns import Wanted, choose, data_row
from fairpca.io.files import FORMATS, DataFile, find_files
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.groups import Groups, row_folds
from fairpca.moments.label_codes import Label

# Numbers in a batch: 64 MB as float64. BLAS reaches its full speed from about a tenth of that,
# and every worker holds one or two batches, so more would only cost memory.
_BATCH_ENTRIES = 8_000_000
# Bounds on the rows of a batch. With fewer than the first, narrow row groups of very wide tables
# would cost more calls than work; more than the second bring nothing to tables of few columns.
_LEAST_BATCH_ROWS, _MOST_BATCH_ROWS = 1024, 131_072

#: Labels of rows as codes into a list of values; a negative code is a missing label.
Coded = tuple[IntArray, Sequence[Label]]


@dataclass(frozen=True)
class Piece:
    """A part of one file that is counted as a whole.

    Attributes
    ----------
    file : int
        Position of the file in the source.
    start, stop : int
        Where the piece starts and stops, in the unit of the kind of file: row groups, record
        batches, rows, or bytes of text.
    first_row : int
        Row of the file that it starts with.
    rows_before : int
        Rows of all files before that one.
    content : object
        The rows themselves, where a file can only be read from its beginning.
    """

    file: int
    start: int
    stop: int
    first_row: int
    rows_before: int
    content: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Batch:
    """Rows ready to be counted.

    Attributes
    ----------
    columns : list of ndarray of shape (m,), or ndarray of shape (m, n)
        The features as the file stores them: column by column, or row by row.
    groups : Groups
        The group of every row.
    weight : ndarray of shape (m,) or None
        Sample weights.
    names : tuple of str
        Names of the features.
    where : str
        What errors call the table: a path, or a partition of a cluster.
    first_row : int
        Number of the first row in that table.
    """

    columns: list[AnyArray] | AnyArray
    groups: Groups
    weight: FloatArray | None
    names: tuple[str, ...]
    where: str
    first_row: int

    def matrix(self) -> AnyArray:
        """Return the features as one array of shape (m, n)."""
        return np.column_stack(self.columns) if isinstance(self.columns, list) else self.columns

    def by_name(self) -> Iterator[tuple[str, AnyArray]]:
        """Yield the name and the values of every feature."""
        columns = self.columns if isinstance(self.columns, list) else self.columns.T
        return zip(self.names, columns, strict=True)

    def count(self) -> GroupMoments:
        """Return the moments of the rows; ValueError naming the first value that is no number."""
        # Looking for NaN beforehand would read the rows twice. It shows in the result.
        with np.errstate(invalid="ignore", over="ignore"):
            try:
                if isinstance(self.columns, list):
                    return GroupMoments.from_columns(
                        self.columns, self.groups, sample_weight=self.weight
                    )
                return GroupMoments.from_array(self.columns, self.groups)
            except ValueError:
                self.check_finite()
                raise ValueError(
                    f"{self.where}: values are too large to square; rescale the columns first."
                ) from None

    def check_finite(self) -> None:
        """Raise ValueError naming row and column of the first NaN or infinity, if there is one."""
        for name, column in self.by_name():
            bad = ~np.isfinite(np.asarray(column, dtype=float))
            if bad.any():
                row = int(bad.argmax())
                what = "NaN or no value" if np.isnan(column[row]) else "an infinite value"
                raise ValueError(
                    f"{self.where}, {data_row(self.first_row + row)}: column {name!r} holds "
                    f"{what} ({int(bad.sum()):,} such value(s) in the batch); fill them in, drop "
                    "those rows, or drop the column."
                )


class Rows:
    """Some rows of a table, in whatever form the reader of a format has them."""

    def __len__(self) -> int:
        raise NotImplementedError

    def numbers(self, name: str) -> AnyArray:
        """Return a column of numbers, NaN where a value is missing."""
        raise NotImplementedError

    def labels(self, name: str) -> Coded:
        """Return a column of labels as codes."""
        raise NotImplementedError

    def features(self, names: Sequence[str]) -> list[AnyArray] | AnyArray:
        """Return the feature columns, in the form of `Batch.columns`."""
        return [self.numbers(name) for name in names]


def make_batch(
    rows: Rows, wanted: Wanted, where: str, first_row: int, rows_before: int = 0, part: int = 0
) -> Batch:
    """Return rows of a table as a batch.

    Parameters
    ----------
    rows : Rows
        The rows, as a reader brought them.
    wanted : Wanted
        Which columns are features, labels and weights.
    where : str
        What errors call the table.
    first_row : int
        Number of the first row in that table.
    rows_before, part : int, default=0
        Rows before that table, and the part they are counted in: what decides about folds, as in
        `row_folds`.

    Raises
    ------
    ValueError
        Naming the table, and the row where a label is missing.
    """
    coded: dict[str, Coded] = {}
    for label in wanted.labels:
        if label.cut is None:
            coded[label.name] = rows.labels(label.column)
        else:
            numbers = np.asarray(rows.numbers(label.column), dtype=float)
            coded[label.name] = label.cut.codes(numbers), label.cut.labels
    groups = _group_rows(coded, len(rows), wanted, where, first_row)
    if wanted.n_folds is not None:
        folds = row_folds(rows_before + first_row, len(rows), wanted.n_folds, part)
        groups = groups.in_folds(folds, wanted.n_folds)
    try:
        weight = None if wanted.weight is None else rows.numbers(wanted.weight)
        # The weights of one batch may all be zero, as long as those of another are not.
        weights = check_weights(weight, len(rows), all_zero=True)
    except ValueError as error:
        rows_read = f"rows {first_row + 1:,} to {first_row + len(rows):,}"
        raise ValueError(f"{where} ({rows_read}, counted from 1): {error}") from None
    columns = rows.features(wanted.features)
    return Batch(columns, groups, weights, wanted.features, where, first_row)


def _group_rows(
    coded: dict[str, Coded], n_rows: int, wanted: Wanted, where: str, first_row: int
) -> Groups:
    """Return the groups of rows; a missing label is an error that names its row in the table."""
    if not coded:
        return Groups.one(n_rows)
    try:
        return Groups.from_dictionaries(
            coded, group_by=wanted.group_by, unlabelled=wanted.unlabelled
        )
    except ValueError as error:
        # The error counts rows from the start of the batch, which means nothing to the reader.
        for name, column in coded.items():
            codes = Groups.from_dictionaries({name: column}, unlabelled="ignore").codes
            missing = np.flatnonzero(codes < 0)
            if len(missing) and wanted.unlabelled == "error":
                raise ValueError(
                    f"{where}, {data_row(first_row + missing[0])}: the label is missing in column "
                    f"{name!r} ({len(missing):,} such row(s) in the batch); fill it in, or pass "
                    "unlabelled='ignore' to keep those rows in the mean and the pooled variance "
                    "but out of the worst case."
                ) from None
        raise ValueError(f"{where}: {error}") from None


@dataclass(frozen=True)
class Source:
    """Files with the same columns; subclasses know how to read one kind of file.

    Attributes
    ----------
    files : tuple of DataFile
        In the order in which they are counted.
    wanted : Wanted
        Columns that are read.
    batch_rows : int
        Most rows in memory at a time, for each piece being read.
    """

    files: tuple[DataFile, ...]
    wanted: Wanted
    batch_rows: int = field(default=_LEAST_BATCH_ROWS, kw_only=True)

    @property
    def n_features(self) -> int:
        """Number of feature columns."""
        return len(self.wanted.features)

    def identity(self) -> dict[str, Any]:
        """Return what must be the same for one reading to continue another."""
        labels = [str(label) for label in self.wanted.labels]
        plain = {"features": list(self.wanted.features), "labels": labels}
        return vars(self.wanted) | plain | {"batch_rows": self.batch_rows}

    def pieces(self) -> Iterator[Piece]:
        """Return the pieces in order, the same ones every time."""
        raise NotImplementedError

    def read(self, piece: Piece) -> Iterable[Rows]:
        """Read one piece, at most `batch_rows` rows at a time."""
        raise NotImplementedError

    def sizes(self) -> Sequence[int]:
        """Return the size of every file, in the unit in which `end` counts."""
        raise NotImplementedError

    def end(self, piece: Piece) -> int:
        """Return where in its file a piece ends, in the unit of `sizes`."""
        return piece.stop

    def batches(self, piece: Piece) -> Iterator[Batch]:
        """Read one piece as batches."""
        row, where = piece.first_row, self.files[piece.file].path
        for rows in self.read(piece):
            yield make_batch(rows, self.wanted, where, row, piece.rows_before)
            row += len(rows)

    def share(self, piece: Piece) -> float:
        """Return the part of all data up to the end of a piece, between 0 and 1."""
        return (self.before[piece.file] + self.end(piece)) / max(self.before[-1], 1)

    @cached_property
    def before(self) -> list[int]:
        """Sizes of the files before each file, and of all."""
        return [0, *accumulate(self.sizes())]


def open_source(
    source: Any,
    *,
    sensitive_features: Any,
    sample_weight: Any = None,
    batch_rows: int | None = None,
    layout: Any = None,
    **options: Any,
) -> Source:
    """Look at every file, choose the columns and check that all files have them.

    Parameters
    ----------
    source, sensitive_features, sample_weight, batch_rows, layout
        As in `read_moments`. Without any label, all rows are one group.
    **options
        `features`, `drop`, `group_by`, `unlabelled` and `n_folds`, as in `read_moments`.

    Returns
    -------
    Source
        Nothing of it is read yet.

    Raises
    ------
    ValueError
        Naming the file and the column that does not fit, or the argument.
    """
    if batch_rows is not None and batch_rows < 1:
        raise ValueError(f"batch_rows={batch_rows!r} must be at least 1.")
    files, kind = find_files(source)
    given = {"labels": sensitive_features, "weight": sample_weight}
    choose_from = partial(choose, where=files[0].path, **given, **options)
    reader = importlib.import_module(FORMATS[kind][1])
    opened: Source = reader.open_files(files, choose_from, layout=layout, **given)
    return replace(opened, batch_rows=batch_rows or default_batch_rows(opened.n_features))


def default_batch_rows(n_features: int) -> int:
    """Return how many rows a batch with this many features has.

    Examples
    --------
    >>> from fairpca.io.sources import default_batch_rows
    >>> default_batch_rows(10), default_batch_rows(1000)
    (131072, 8000)
    """
    rows = _BATCH_ENTRIES // max(n_features, 1)
    return int(np.clip(rows, _LEAST_BATCH_ROWS, _MOST_BATCH_ROWS))
