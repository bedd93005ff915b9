"""Sources: files cut into pieces, each read as batches of columns, labels and weights.

Every source plans first (which files, which columns, do they agree) and reads afterwards, so that
a wrong column is found before an hour of work and not after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np

from fairpca._linalg import AnyArray, FloatArray
from fairpca.io.files import DataFile
from fairpca.io.preparation import choose_columns, listed, matching
from fairpca.moments.groups import Groups, Threshold

# Entries in a batch: 64 MB as float64, enough to feed BLAS.
_BATCH_ENTRIES = 8_000_000
_MOST_BATCH_ROWS = 131_072


@dataclass(frozen=True)
class LabelColumn:
    """A column of labels, or of numbers that are cut in two.

    Attributes
    ----------
    name : str
        Of the labels.
    column : str
        Where they come from.
    cut : Threshold or None
    """

    name: str
    column: str
    cut: Threshold | None = None


@dataclass(frozen=True)
class Wanted:
    """What is read of a table.

    Attributes
    ----------
    features : tuple of str
    labels : tuple of LabelColumn
    weight : str or None
    group_by, unlabelled : str
        As in `Groups.from_labels`.
    """

    features: tuple[str, ...]
    labels: tuple[LabelColumn, ...]
    weight: str | None
    group_by: str
    unlabelled: str

    @property
    def columns(self) -> list[str]:
        """Every column that has to be read, once."""
        weight = () if self.weight is None else (self.weight,)
        labels = (label.column for label in self.labels)
        return list(dict.fromkeys((*self.features, *labels, *weight)))

    @property
    def plain_labels(self) -> list[str]:
        """Columns whose values are labels."""
        return [label.column for label in self.labels if label.cut is None]

    @property
    def numbers(self) -> set[str]:
        """Columns whose values must be numbers."""
        weight = () if self.weight is None else (self.weight,)
        cuts = (label.column for label in self.labels if label.cut is not None)
        return {*self.features, *weight, *cuts}


@dataclass(frozen=True)
class Piece:
    """A part of one file that is counted as a whole.

    Attributes
    ----------
    file : int
        Position of the file in the source.
    start, stop : int
        Row groups, record batches or rows, as the kind of file has it.
    rows : int or None
        Where it is known before reading.
    first_row : int or None
        Row of the file it starts with, where that is known.
    content : object
        The rows themselves, where a file can only be read from its beginning.
    """

    file: int
    start: int
    stop: int
    rows: int | None
    first_row: int | None
    content: Any = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class Batch:
    """Rows ready to be counted.

    Attributes
    ----------
    columns : list of ndarray of shape (m,), or ndarray of shape (m, n)
        As the file stores them: columns, or rows.
    groups : Groups
    weight : ndarray of shape (m,) or None
    file : DataFile
    first_row : int or None
    """

    columns: list[AnyArray] | AnyArray
    groups: Groups
    weight: FloatArray | None
    file: DataFile
    first_row: int | None

    def place(self, row: int) -> str:
        """Say where a row of the batch is."""
        if self.first_row is None:
            return f"{self.file.path}, row {row:,} of a record batch"
        return f"{self.file.path}, row {self.first_row + row:,}"


@dataclass(frozen=True)
class Source:
    """Files with the same columns; subclasses know how to read one kind of file.

    Attributes
    ----------
    files : tuple of DataFile
    wanted : Wanted
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

    @cached_property
    def bytes_before(self) -> list[int]:
        """Bytes of the files before each file, and of all."""
        return [0, *accumulate(file.size for file in self.files)]

    def identity(self) -> dict[str, Any]:
        """Return what must be the same for two readings to continue one another."""
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

    def batches(self, piece: Piece) -> Iterator[Batch]:
        """Read one piece."""
        raise NotImplementedError

    def share(self, piece: Piece) -> float | None:
        """Return the part of all bytes up to the end of a piece, where the files tell."""
        raise NotImplementedError


def default_batch_rows(n_features: int) -> int:
    """Rows in a batch for this many features."""
    return int(np.clip(_BATCH_ENTRIES // max(n_features, 1), 1024, _MOST_BATCH_ROWS))


def choose(
    names: Sequence[str],
    *,
    labels: Sequence[str],
    features: Sequence[str] | None,
    drop: Sequence[str] | None,
    weight: str | None,
    group_by: str,
    unlabelled: str,
    path: str,
) -> Wanted:
    """Pick columns by name or pattern from those of the first file."""
    repeated = sorted(name for name, count in Counter(names).items() if count > 1)
    if repeated:
        raise ValueError(f"{path} has several columns called {listed(repeated)}; rename them.")
    chosen_labels = _label_columns(labels, names, path)
    if weight is not None and weight not in names:
        raise ValueError(
            f"sample_weight: {path} has no column {weight!r}; it has {listed(names, 12)}."
        )
    for entry in (*(features or ()), *(drop or ())):
        try:
            matching(entry, names)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None
    outside = {label.column for label in chosen_labels} | ({weight} if weight else set())
    chosen = choose_columns(names, features or (), drop or (), outside)
    if not chosen:
        raise ValueError(
            f"{path}: no column is left as a feature; name some with features, or drop fewer."
        )
    return Wanted(tuple(chosen), tuple(chosen_labels), weight, group_by, unlabelled)


def _label_columns(labels: Sequence[str], names: Sequence[str], path: str) -> list[LabelColumn]:
    """Find label columns; what is no column may be a cut of one."""
    found: list[LabelColumn] = []
    for entry in labels:
        cut = None if entry in names else Threshold.parse(entry)
        column = entry if cut is None else cut.column
        if column not in names:
            raise ValueError(
                f"sensitive_features: {path} has no column {column!r}; it has {listed(names, 12)}."
            )
        taken = column in [label.name for label in found]
        if taken and cut is None:
            raise ValueError(f"sensitive_features names the column {column!r} twice.")
        found.append(LabelColumn(entry if taken else column, column, cut))
    return found


def check_finite(batch: Batch, names: Sequence[str]) -> None:
    """Raise ValueError naming the first NaN, infinity or overflow; called once something is."""
    columns = batch.columns if isinstance(batch.columns, list) else batch.columns.T
    for name, column in zip(names, columns, strict=True):
        bad = ~np.isfinite(np.asarray(column, dtype=float))
        if bad.any():
            row = int(bad.argmax())
            what = "NaN" if np.isnan(column[row]) else "an infinite value"
            raise ValueError(
                f"{batch.place(row)}: column {name!r} holds {what} ({int(bad.sum()):,} such "
                "value(s) in the batch); fill them in, drop those rows, or drop the column."
            )
    raise ValueError(
        f"{batch.file.path}: values are too large to square; rescale the columns first."
    )
