"""NumPy files: rows of a memory map, never read whole, with labels and weights beside them.

A .npy file has no names, so its columns are called column1, column2, ... as in a text file
without a header. Arrays of labels or weights that come beside the file are treated as two more
columns of it.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fairpca._arrays import AnyArray
from fairpca.io.columns import Choose
from fairpca.io.sources import Coded, DataFile, Piece, Rows, Source
from fairpca.moments.groups import factorize
from fairpca.moments.storage import damage_named

# Names of the columns that stand beside the file; a column of the file is called column1, so that
# none can have such a name.
_LABELS, _WEIGHT = "sensitive_feature", "sample_weight"


@dataclass(frozen=True)
class ArrayRows(Rows):
    """Rows of an array of shape (m, n), and columns beside it by name.

    Positions of columns follow from their names.
    """

    array: AnyArray
    beside: Mapping[str, AnyArray]

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
        if not self.array.flags.c_contiguous or self.beside.keys() & set(names):
            return super().features(names)
        picks = [_position(name) for name in names]
        # All columns in their order are the array itself, which need not be copied.
        return self.array if picks == list(range(self.array.shape[1])) else self.array[:, picks]


@dataclass(frozen=True)
class MappedSource(Source):
    """Arrays of shape (m, n) in .npy files, with the rows of each file.

    `beside` are labels and weights that are not columns of the file.
    """

    rows: tuple[int, ...]
    beside: dict[str, AnyArray] = field(default_factory=dict)

    def identity(self) -> dict[str, Any]:
        """Return what must be the same for one reading to continue another."""
        digests = {name: _digest(values) for name, values in self.beside.items()}
        return {**super().identity(), "outside": digests}

    def pieces(self) -> Iterator[Piece]:
        """Return runs of `batch_rows` rows."""
        before = 0
        for file, m in enumerate(self.rows):
            for start in range(0, m, self.batch_rows):
                stop = min(start + self.batch_rows, m)
                yield Piece(file, start, before, (before + stop) / sum(self.rows), start, stop)
            before += m

    def read(self, piece: Piece) -> Iterator[ArrayRows]:
        """Map one piece."""
        part = slice(piece.start, piece.stop)
        beside = {name: values[part] for name, values in self.beside.items()}
        yield ArrayRows(open_array(self.files[piece.file].path)[part], beside)


def open_files(
    files: Sequence[DataFile], choose: Choose, *, labels: Any, weight: Any, **_: Any
) -> MappedSource:
    """Return the source of .npy files, with arrays of labels and weights beside them."""
    shapes = [open_array(file.path).shape for file in files]
    m, n = shapes[0]
    for file, shape in zip(files, shapes, strict=True):
        if shape[1] != n:
            raise ValueError(
                f"{file.path} has {shape[1]} columns and {files[0].path} has {n}; pass as many."
            )
    labels = _columns_or_values(labels, "sensitive_features", files, m, n)
    weight = _columns_or_values(weight, "sample_weight", files, m, n)
    given = {_LABELS: labels, _WEIGHT: weight}
    beside = {name: found for name, found in given.items() if isinstance(found, np.ndarray)}
    # An array beside the file is one more column of it.
    labels, weight = ([name] if name in beside else found for name, found in given.items())
    names = [*(f"column{j + 1}" for j in range(n)), *beside]
    wanted = choose(names, labels=labels, weight=next(iter(weight), None))
    return MappedSource(tuple(files), wanted, tuple(int(rows) for rows, _ in shapes), beside)


def _position(name: str) -> int:
    return int(name.removeprefix("column")) - 1


def open_array(path: str, dimensions: int = 2) -> AnyArray:
    """Return a .npy file as a memory map; ValueError naming it where it is damaged or another.

    With two dimensions, it must hold numbers.
    """
    if path.lower().endswith(".npz"):
        raise ValueError(f"{path} cannot be read in pieces; save its arrays as .npy files.")
    with damage_named(f"{path} cannot be read", "save it again with np.save."):
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    if array.ndim != dimensions:
        raise ValueError(f"{path} has shape {array.shape}; pass {dimensions} dimension(s).")
    if dimensions == 2 and array.dtype.kind not in "biuf":
        raise ValueError(f"{path} has the type {array.dtype}, not numbers; save it as numbers.")
    return np.asarray(array)


def _columns_or_values(
    given: Any, argument: str, files: Sequence[DataFile], m: int, n: int
) -> list[str] | AnyArray:
    """Return which columns of the files an argument names, or the array that it is.

    Columns are given by name or by number from 0; an array, which can stand beside one file only,
    as a .npy file or one entry per row. m and n are the rows of the first file and its columns.
    """
    if given is None:
        return []
    if isinstance(given, int | np.integer):
        given = [int(given)]
    if isinstance(given, str | os.PathLike):
        given = open_array(str(given), 1) if Path(given).suffix == ".npy" else [str(given)]
    # A list as long as the table holds the labels themselves.
    if isinstance(given, Sequence) and len(given) != m:
        if all(isinstance(entry, int) and not isinstance(entry, bool) for entry in given):
            if not all(0 <= entry < n for entry in given):
                raise ValueError(f"{argument}={given!r}: the columns are numbered 0 to {n - 1}.")
            return [f"column{entry + 1}" for entry in given]
        if all(isinstance(entry, str) for entry in given):
            return list(given)
    values = np.asarray(given)
    if len(files) > 1:
        raise ValueError(f"{argument} can stand beside one .npy file only; make it a column.")
    if values.shape != (m,):
        raise ValueError(
            f"{argument} has shape {values.shape}, the file {m:,} rows; pass one entry per row."
        )
    return values


def _digest(values: AnyArray) -> str:
    """Return a digest by which a checkpoint knows the labels or weights it was written with."""
    digest = hashlib.sha256(str((values.dtype, values.shape)).encode())
    # The bytes of an array of objects are addresses, which differ from run to run.
    data = np.asarray(values.tolist(), dtype=str) if values.dtype == object else values
    digest.update(np.ascontiguousarray(data).tobytes())
    return digest.hexdigest()
