"""Sources: files cut into pieces, each read as batches of numbers, groups and weights.

A source is planned first (which files, which columns, do they agree) and read afterwards, so that
a wrong column is found before an hour of work and not after it. The subclasses of `Source` know
how to cut and read one kind of file; how rows become a `Batch` is written here, once, for all of
them and for the partitions of a cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any, Protocol

import numpy as np

from fairpca._checks import check_weights
from fairpca._linalg import AnyArray, FloatArray, IntArray
from fairpca.io.columns import Wanted
from fairpca.io.files import DataFile
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.groups import Groups, Threshold
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
    content : object
        The rows themselves, where a file can only be read from its beginning.
    """

    file: int
    start: int
    stop: int
    first_row: int
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
        """Return the features as one array of shape (m, n); float64 where stored by columns."""
        if not isinstance(self.columns, list):
            return self.columns
        # Filled column by column, which is how Fortran stores rows.
        rows = np.empty((len(self.groups.codes), len(self.columns)), order="F")
        for j, column in enumerate(self.columns):
            rows[:, j] = column
        return rows

    def count(self) -> GroupMoments:
        """Return the moments of the rows; ValueError naming the first value that is no number."""
        # Looking for NaN beforehand would read the rows twice. It shows in the result.
        with np.errstate(invalid="ignore", over="ignore"):
            try:
                if isinstance(self.columns, list):
                    found = GroupMoments.from_columns(
                        self.columns, self.groups, sample_weight=self.weight
                    )
                else:
                    found = GroupMoments.from_array(self.columns, self.groups)
            except ValueError:
                self.check_finite()
                raise ValueError(
                    f"{self.where}: values are too large to square; rescale the columns first."
                ) from None
        return found

    def check_finite(self) -> None:
        """Raise ValueError naming row and column of the first NaN or infinity, if there is one."""
        columns = self.columns if isinstance(self.columns, list) else self.columns.T
        for name, column in zip(self.names, columns, strict=True):
            bad = ~np.isfinite(np.asarray(column, dtype=float))
            if bad.any():
                row = int(bad.argmax())
                what = "NaN or no value" if np.isnan(column[row]) else "an infinite value"
                raise ValueError(
                    f"{self.where}, row {self.first_row + row:,}: column {name!r} holds {what} "
                    f"({int(bad.sum()):,} such value(s) in the batch); fill them in, drop those "
                    "rows, or drop the column."
                )


class Rows(Protocol):
    """Some rows of a table, in whatever form the reader of a format has them."""

    def __len__(self) -> int:
        """Return how many rows there are."""

    def numbers(self, name: str) -> AnyArray:
        """Return a column of numbers, NaN where a value is missing."""

    def labels(self, name: str) -> Coded:
        """Return a column of labels as codes."""

    def features(self, names: Sequence[str]) -> list[AnyArray] | AnyArray:
        """Return the feature columns, in the form of `Batch.columns`."""


def make_batch(
    rows: Rows, wanted: Wanted, where: str, first_row: int, weight: AnyArray | None = None
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
    weight : ndarray of shape (m,), optional
        Weights that are no column of the table.

    Raises
    ------
    ValueError
        Naming the table, and the row where a label is missing.
    """
    coded = {
        label.name: rows.labels(label.column)
        if label.cut is None
        else cut_labels(rows.numbers(label.column), label.cut)
        for label in wanted.labels
    }
    groups = group_rows(coded, len(rows), wanted, where, first_row)
    try:
        if wanted.weight is not None:
            weight = rows.numbers(wanted.weight)
        weights = check_weights(weight, len(rows), all_zero=True)
    except ValueError as error:
        last = first_row + len(rows) - 1
        raise ValueError(f"{where} (rows {first_row:,} to {last:,}): {error}") from None
    columns = rows.features(wanted.features)
    return Batch(columns, groups, weights, wanted.features, where, first_row)


def cut_labels(numbers: AnyArray, cut: Threshold) -> Coded:
    """Return the two sides of a threshold as codes."""
    return cut.codes(np.asarray(numbers, dtype=float)), cut.labels


def group_rows(
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
                    f"{where}, row {first_row + missing[0]:,}: the label is missing in column "
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
    batch_rows: int

    @property
    def n_features(self) -> int:
        """Number of feature columns."""
        return len(self.wanted.features)

    def identity(self) -> dict[str, Any]:
        """Return what must be the same for one reading to continue another."""
        return {
            "features": list(self.wanted.features),
            "labels": [str(label) for label in self.wanted.labels],
            "weight": self.wanted.weight,
            "group_by": self.wanted.group_by,
            "unlabelled": self.wanted.unlabelled,
            "batch_rows": self.batch_rows,
        }

    def pieces(self, skip: int = 0) -> Iterator[Piece]:
        """Return the pieces in order, without the first `skip` of them."""
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
        row = piece.first_row
        for rows in self.read(piece):
            yield self.batch(rows, piece, row)
            row += len(rows)

    def batch(self, rows: Rows, piece: Piece, first_row: int) -> Batch:
        """Return rows of a piece as a batch."""
        return make_batch(rows, self.wanted, self.files[piece.file].path, first_row)

    def share(self, piece: Piece) -> float:
        """Return the part of all data up to the end of a piece, between 0 and 1."""
        return (self._before[piece.file] + self.end(piece)) / max(self._before[-1], 1)

    @cached_property
    def _before(self) -> list[int]:
        """Sizes of the files before each file, and of all."""
        return [0, *accumulate(self.sizes())]


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
