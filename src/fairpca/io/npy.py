"""NumPy files: rows of a memory map, never read whole, with labels and weights beside them.

A .npy file has no names, so its columns are called column1, column2, ... as in a text file
without a header. Arrays of labels or weights that come beside the file are treated as two more
columns of it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from fairpca._linalg import AnyArray
from fairpca.io.columns import LabelColumn, Wanted
from fairpca.io.files import DataFile
from fairpca.io.sources import Coded, Piece, Source
from fairpca.moments.label_codes import factorize

#: Names of the columns that stand beside the file.
LABELS, WEIGHT = "sensitive_feature", "sample_weight"


@dataclass(frozen=True)
class ArrayRows:
    """Rows of an array.

    Attributes
    ----------
    array : ndarray of shape (m, n)
        The rows.
    beside : mapping of str to ndarray of shape (m,)
        Columns that are not in the array.
    weighted : bool
        Whether the rows have weights.
    """

    array: AnyArray
    beside: Mapping[str, AnyArray]
    weighted: bool

    def __len__(self) -> int:
        return len(self.array)

    def numbers(self, name: str) -> AnyArray:
        """Return a column of the array, or beside it."""
        return self.beside[name] if name in self.beside else self.array[:, _position(name)]

    def labels(self, name: str) -> Coded:
        """Return a column of labels as codes."""
        coded = factorize(np.asarray(self.numbers(name)))
        return coded.codes, coded.labels

    def features(self, names: Sequence[str]) -> list[AnyArray] | AnyArray:
        """Return the features row by row if they are stored so, else column by column."""
        picks = [_position(name) for name in names]
        # Moments of whole rows take no weights of which all may be zero.
        if not self.array.flags.c_contiguous or self.weighted:
            return [self.array[:, j] for j in picks]
        return self.array if picks == list(range(self.array.shape[1])) else self.array[:, picks]


@dataclass(frozen=True)
class MappedSource(Source):
    """Arrays of shape (m, n) in .npy files.

    Attributes
    ----------
    shapes : tuple of (int, int)
        Rows and columns of every file.
    beside : dict of str to ndarray
        Labels and weights that are not columns of the file.
    """

    shapes: tuple[tuple[int, int], ...]
    beside: dict[str, AnyArray] = field(default_factory=dict)

    def identity(self) -> dict[str, Any]:
        """Return what must be the same for one reading to continue another."""
        digests = {name: _digest(values) for name, values in self.beside.items()}
        return {**super().identity(), "outside": digests}

    def pieces(self, skip: int = 0) -> Iterator[Piece]:
        """Return runs of `batch_rows` rows."""
        number = 0
        for file, (m, _) in enumerate(self.shapes):
            for start in range(0, m, self.batch_rows):
                if number >= skip:
                    yield Piece(file, start, min(start + self.batch_rows, m), start)
                number += 1

    def read(self, piece: Piece) -> Iterator[ArrayRows]:
        """Map one piece."""
        part = slice(piece.start, piece.stop)
        beside = {name: values[part] for name, values in self.beside.items()}
        rows = open_array(self.files[piece.file].path)[part]
        yield ArrayRows(rows, beside, self.wanted.weight is not None)

    def sizes(self) -> Sequence[int]:
        """Return the rows of every file."""
        return [m for m, _ in self.shapes]


def _position(name: str) -> int:
    return int(name.removeprefix("column")) - 1


def open_array(path: str, dimensions: int = 2) -> AnyArray:
    """Return a .npy file as a memory map.

    Parameters
    ----------
    path : str
        The file.
    dimensions : int, default=2
        How many the array must have; with two, it must hold numbers.

    Raises
    ------
    ValueError
        Naming the file, where it is damaged or another kind of array.
    """
    if path.endswith(".npz"):
        raise ValueError(f"{path} cannot be read in pieces; save its arrays as .npy files.")
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        if isinstance(error, FileNotFoundError | PermissionError):
            raise
        raise ValueError(
            f"{path} cannot be read ({error}); save a plain numeric array with np.save."
        ) from None
    if array.ndim != dimensions:
        raise ValueError(f"{path} has shape {array.shape}; pass {dimensions} dimension(s).")
    if dimensions == 2 and array.dtype.kind not in "biuf":
        raise ValueError(f"{path} has the type {array.dtype}, not numbers; save it as numbers.")
    return np.asarray(array)


def open_shapes(files: Sequence[DataFile]) -> tuple[tuple[int, int], ...]:
    """Return rows and columns of every file; ValueError unless all have the same columns."""
    shapes = [open_array(file.path).shape for file in files]
    for file, shape in zip(files, shapes, strict=True):
        if shape[1] != shapes[0][1]:
            raise ValueError(
                f"{file.path} has {shape[1]} columns and {files[0].path} has {shapes[0][1]}; pass "
                "arrays with the same columns."
            )
    return tuple((int(m), int(n)) for m, n in shapes)


def columns_or_values(
    given: Any, argument: str, files: Sequence[DataFile], shapes: Sequence[tuple[int, int]]
) -> list[str] | AnyArray:
    """Return which columns of the files an argument names, or the array that it is.

    Parameters
    ----------
    given : int, str, path, sequence or array
        Columns by name or by number from 0, a .npy file, or one entry per row.
    argument : str
        Name of the argument, for the errors.
    files : sequence of DataFile
        The files; an array can stand beside one file only.
    shapes : sequence of (int, int)
        Their rows and columns.

    Returns
    -------
    list of str, or ndarray of shape (m,)
    """
    if isinstance(given, int | np.integer):
        given = [int(given)]
    if isinstance(given, str | os.PathLike):
        given = open_array(str(given), 1) if Path(given).suffix == ".npy" else [str(given)]
    m, n = shapes[0]
    if isinstance(given, Sequence) and len(given) != m:
        if all(isinstance(entry, int) and not isinstance(entry, bool) for entry in given):
            if not all(0 <= entry < n for entry in given):
                raise ValueError(f"{argument}={given!r}: the columns are numbered 0 to {n - 1}.")
            return [f"column{entry + 1}" for entry in given]
        if all(isinstance(entry, str) for entry in given):
            return list(given)
    values = np.asarray(given)
    if len(files) > 1:
        raise ValueError(
            f"{argument} can stand beside one .npy file only; for several, make it a column."
        )
    if values.shape != (m,):
        raise ValueError(
            f"{argument} has shape {values.shape} but {files[0].path} has {m:,} rows; "
            "pass one entry per row."
        )
    return values


def beside(wanted: Wanted, columns: Mapping[str, AnyArray]) -> Wanted:
    """Return what is wanted, with labels and weights that stand beside the file."""
    labels = (LabelColumn(LABELS, LABELS),) if LABELS in columns else wanted.labels
    weight = WEIGHT if WEIGHT in columns else wanted.weight
    return replace(wanted, labels=labels, weight=weight)


def _digest(values: AnyArray) -> str:
    """Return a digest by which a checkpoint knows the labels or weights it was written with."""
    digest = hashlib.sha256(str((values.dtype, values.shape)).encode())
    data = np.asarray(values.tolist(), dtype=str) if values.dtype == object else values
    digest.update(np.ascontiguousarray(data).tobytes())
    return digest.hexdigest()
