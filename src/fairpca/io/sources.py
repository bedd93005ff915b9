"""Sources: which files are read, how they are cut into pieces, and pieces as batches of numbers.

Tables in memory, files read in pieces and clusters find their files here (`find_files`), so that a
folder means the same files to all of them.

A source is planned first (`open_source`: which files, which columns, do they agree) and read
afterwards, so that a wrong column is found before an hour of work and not after it. The subclasses
of `Source` know how to cut and read one kind of file; how rows become a `Batch` is written here,
once, for all of them and for the partitions of a cluster.
"""

from __future__ import annotations

import fnmatch
import glob
import importlib
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from fairpca._check import check_at_least, check_weights
from fairpca._arrays import AnyArray, FloatArray, IntArray, is_sparse
from fairpca.io.columns import Wanted, choose, data_row
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.groups import Groups, row_folds
from fairpca.moments.groups import Label

# An ending in none of these is refused, because guessing the format of a file from its bytes goes
# wrong silently. A file without any ending is taken for text, as the UCI archive names its tables.
# Of every kind of file how its names end, and the module whose `open_files` reads it: a name, not
# an import, because such a module imports this one.
FORMATS = {
    "delimited": ((".csv", ".tsv", ".txt", ".dat", ".data", ""), "fairpca.io.delimited"),
    "parquet": ((".parquet", ".pq"), "fairpca.io.columnar"),
    "arrow": ((".feather", ".arrow", ".ipc"), "fairpca.io.columnar"),
    "numpy": ((".npy", ".npz"), "fairpca.io.npy"),
}
# Spark, Hadoop and Dask give these first letters to files and folders that are not data, such as
# _SUCCESS, _temporary/ and .part.crc. Reading them would count rows twice.
_NOT_DATA = (".", "_")
# Numbers in a batch: 64 MB as float64. BLAS reaches its full speed from about a tenth of that,
# and every worker holds one or two batches, so more would only cost memory.
_BATCH_ENTRIES = 8_000_000
# Bounds on the rows of a batch. With fewer than the first, narrow row groups of very wide tables
# would cost more calls than work; more than the second bring nothing to tables of few columns.
_LEAST_BATCH_ROWS, _MOST_BATCH_ROWS = 1024, 131_072

#: Labels of rows as codes into a list of values; a negative code is a missing label.
Coded = tuple[IntArray, Sequence[Label]]


@dataclass(frozen=True)
class DataFile:
    """A file as it was when the reading was planned: absolute path, bytes, last change."""

    path: str
    size: int
    mtime_ns: int

    @classmethod
    def at(cls, path: Path) -> DataFile:
        """Return what is known about a file; an error if it is missing, no file, or empty."""
        if not path.exists():
            raise FileNotFoundError(f"{path} does not exist; check the name and the folder.")
        if not path.is_file():
            raise ValueError(f"{path} is not an ordinary file; pass files or one directory.")
        found = path.stat()
        if found.st_size == 0:
            raise ValueError(f"{path} is empty (0 bytes); leave it out or write it again.")
        return cls(os.path.abspath(path), found.st_size, found.st_mtime_ns)

    def check_unchanged(self) -> None:
        """Raise ValueError if the file was replaced since the reading was planned."""
        # Half of the rows of one version and half of another would be moments of no table.
        if DataFile.at(Path(self.path)) != self:
            raise ValueError(f"{self.path} changed while the tables were read; start again.")


def file_kind(path: Path) -> str:
    """Return which format a file has, a key of `FORMATS`, by the ending of its name.

    A ``.gz`` at the end is looked through. ValueError if the ending is not known.
    """
    ending = (path.with_suffix("") if path.suffix.lower() == ".gz" else path).suffix.lower()
    for kind, (endings, _) in FORMATS.items():
        if ending in endings:
            return kind
    known = " ".join(filter(None, chain.from_iterable(endings for endings, _ in FORMATS.values())))
    raise ValueError(
        f"{path}: the ending {ending!r} is not known; pass a file that ends in one of {known}, "
        "text also with .gz behind it."
    )


def find_files(source: Any) -> tuple[list[DataFile], str]:
    """Return the files of a source, in order, and their kind.

    The source is a path, a pattern, a directory, or a sequence of them. A directory stands for the
    files in it and in its folders, a pattern such as ``data/**/*.parquet`` for the files that
    match; both in the order of their names. Files and folders whose names start with "." or "_"
    are left out, at every level. FileNotFoundError if a file does not exist, or a pattern matches
    none; ValueError if there is no file, a file is given twice, or the files are of several kinds.
    """
    entries = [source] if isinstance(source, str | os.PathLike) else list(source)
    if not all(isinstance(entry, str | os.PathLike) for entry in entries):
        raise ValueError(
            f"source is a {type(source).__name__}, not the names of files; rows in memory are "
            "counted by GroupMoments.from_array(X, labels)."
        )
    paths = [path for entry in entries for path in _expand(entry)]
    if not paths:
        raise ValueError("source names no file; pass at least one.")
    kinds = {file_kind(path): path for path in paths}
    if len(kinds) > 1:
        shown = ", ".join(f"{path.name} ({kind})" for kind, path in kinds.items())
        raise ValueError(f"source mixes kinds of files: {shown}; read one kind at a time.")
    files = [DataFile.at(path) for path in paths]
    check_distinct(paths)
    return files, next(iter(kinds))


def check_distinct(paths: Iterable[Path]) -> None:
    """Raise ValueError if two paths lead to one file, which two names may do by a link."""
    path, count = Counter(os.path.realpath(path) for path in paths).most_common(1)[0]
    if count > 1:
        raise ValueError(f"{path} is given twice, and its rows would count twice; name it once.")


def _expand(entry: Any) -> list[Path]:
    """Return the files that one entry of a source stands for."""
    path = Path(entry)
    if path.is_dir():
        # Folders behind a link, too, as in a pattern.
        every = glob.glob(str(Path(glob.escape(str(path)), "**", "*")), recursive=True)
        inside = sorted(p for p in map(Path, every) if p.is_file() and _is_data(p, path))
        if not inside:
            raise ValueError(f"{path} holds no files; pass a directory of tables.")
        return inside
    # A file may have a star in its name; only what is no file is a pattern.
    if path.exists() or not glob.has_magic(str(entry)):
        return [path]
    # The part of a pattern before its first wildcard was written by hand and may be anything.
    first = next(i for i, part in enumerate(path.parts) if glob.has_magic(part))
    above = Path(*path.parts[:first])
    found = [Path(name) for name in sorted(glob.glob(str(entry), recursive=True))]
    kept = [p for p in found if _is_data(p, above)]
    if not kept:
        raise FileNotFoundError(f"no file matches {str(entry)!r}; check the pattern.")
    # Clusters write a table as a folder. A pattern may match it and the files in it.
    return list(dict.fromkeys(file for p in kept for file in _expand(p)))


def takes_in(entry: str | Path, file: Path) -> bool:
    """Return whether a folder or a pattern stands for a file, too, once it is written there."""
    whole, path = Path(entry).resolve(), file.resolve()
    if whole in path.parents:
        return True
    # A pattern may match the folder as well as the file; "**" stands for no folder, too.
    pattern = str(whole).replace(f"**{os.sep}", "*")
    is_data = not path.name.startswith(_NOT_DATA)
    return glob.has_magic(str(entry)) and is_data and fnmatch.fnmatchcase(str(path), pattern)


def _is_data(path: Path, above: Path) -> bool:
    """Return whether no name between a folder and a file marks what is not data."""
    return not any(part.startswith(_NOT_DATA) for part in path.relative_to(above).parts)


@dataclass(frozen=True)
class Piece:
    """A part of one file that is counted as a whole.

    Attributes
    ----------
    file : int
        Position of the file in the source.
    first_row, rows_before : int
        Row of the file that it starts with, and rows of all files before that one.
    share : float
        Part of all data up to its end, between 0 and 1.
    start, stop : int
        In the unit of the kind of file: row groups, record batches or rows.
    content : object
        The rows themselves, where a file can only be read from its beginning.
    """

    file: int
    first_row: int
    rows_before: int
    share: float
    start: int = 0
    stop: int = 0
    content: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Batch:
    """Rows ready to be counted.

    Attributes
    ----------
    columns : list of ndarray of shape (m,), or array or sparse matrix of shape (m, n)
        The features as they are stored: column by column, or row by row.
    groups, weight : Groups, ndarray of shape (m,) or None
        The group and the sample weight of every row.
    names : tuple of str
        Names of the features.
    where, first_row : str, int
        What errors call the table, a path or a partition of a cluster, and which of its rows is
        the first one here.
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
        rows, groups, weight = self.columns, self.groups, self.weight
        # Looking for NaN beforehand would read the rows twice. It shows in the result.
        with np.errstate(invalid="ignore", over="ignore"):
            try:
                stored = isinstance(rows, list)
                count: Any = GroupMoments.from_columns if stored else GroupMoments.from_array
                found: GroupMoments = count(rows, groups, sample_weight=weight)
            except ValueError as error:
                if is_sparse(rows):
                    # To look at every column, sparse rows would have to become dense.
                    raise ValueError(f"{self.where}: {error}") from None
                self.check_finite()
                raise ValueError(
                    f"{self.where}: values are too large to square; rescale the columns first."
                ) from None
        # Columns without a name have their number, which no other table knows them by.
        numbers = tuple(map(str, range(len(self.names))))
        unnamed = all(re.fullmatch(r"column\d+", name) for name in self.names)
        return found if unnamed or self.names == numbers else found.named(self.names)

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


class Rows(Protocol):
    """Some rows of a table, in whatever form the reader of a format has them."""

    def __len__(self) -> int: ...

    def numbers(self, name: str) -> AnyArray:
        """Return a column of numbers, NaN where a value is missing."""

    def labels(self, name: str) -> Coded:
        """Return a column of labels as codes."""

    def features(self, names: Sequence[str]) -> list[AnyArray] | AnyArray:
        """Return the feature columns, in the form of `Batch.columns`."""
        return [self.numbers(name) for name in names]


def make_batch(
    rows: Rows, wanted: Wanted, where: str, first_row: int, rows_before: int = 0, part: int = 0
) -> Batch:
    """Return rows as a batch, of which the first is row `first_row` of the table called `where`.

    `rows_before` are the rows before that table and `part` the part they are counted in: what
    decides about folds, as in `row_folds`. ValueError names the table, and the row where a label
    is missing.
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
    """Files with the same columns, in the order in which they are counted.

    Subclasses know how to read one kind of file. `wanted` are the columns that are read,
    `batch_rows` the most rows in memory at a time, for each piece being read.
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

    def guesses(self) -> list[str]:
        """Return what was guessed about the files, in a few words each."""
        return []

    def pieces(self) -> Iterator[Piece]:
        """Return the pieces in order, the same ones every time."""
        raise NotImplementedError

    def read(self, piece: Piece) -> Iterable[Rows]:
        """Read one piece, at most `batch_rows` rows at a time."""
        raise NotImplementedError

    def batches(self, piece: Piece) -> Iterator[Batch]:
        """Read one piece as batches."""
        row, where = piece.first_row, self.files[piece.file].path
        for rows in self.read(piece):
            yield make_batch(rows, self.wanted, where, row, piece.rows_before)
            row += len(rows)


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

    The arguments are those of `read_moments`; `options` are `features`, `drop`, `group_by`,
    `unlabelled` and `n_folds`. Without any label, all rows are one group. Nothing is read yet of
    the source that is returned. ValueError names the file and the column that does not fit, or the
    argument.
    """
    check_at_least("batch_rows", 1 if batch_rows is None else batch_rows, 1)
    files, kind = find_files(source)
    given = {"labels": sensitive_features, "weight": sample_weight}
    choose_from = partial(choose, where=files[0].path, **given, **options)
    reader = importlib.import_module(FORMATS[kind][1])
    opened: Source = reader.open_files(files, choose_from, layout=layout, **given)
    fitting = np.clip(_BATCH_ENTRIES // opened.n_features, _LEAST_BATCH_ROWS, _MOST_BATCH_ROWS)
    return replace(opened, batch_rows=int(batch_rows or fitting))
