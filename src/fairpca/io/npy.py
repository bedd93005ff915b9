"""NumPy files: rows of a memory map, never read whole."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fairpca._checks import check_weights
from fairpca._linalg import AnyArray
from fairpca.io.files import DataFile
from fairpca.io.sources import Batch, LabelColumn, Piece, Source
from fairpca.moments.groups import Groups


@dataclass(frozen=True)
class MappedSource(Source):
    """Arrays of shape (m, n) in .npy files; columns are called column1, column2, ...

    Attributes
    ----------
    shapes : tuple of (int, int)
    labels : dict of str to (ndarray or column name), or None
        Labels that are not columns of the file.
    weight : ndarray or None
        Weights that are not a column of the file.
    """

    shapes: tuple[tuple[int, int], ...]
    labels: dict[str, AnyArray] | None = None
    weight: AnyArray | None = None

    def identity(self) -> dict[str, Any]:
        """Return what must be the same for two readings to continue one another."""
        outside = {**(self.labels or {}), **({} if self.weight is None else {"": self.weight})}
        digests = {name: _digest(values) for name, values in outside.items()}
        return {**super().identity(), "outside": digests}

    def pieces(self, skip: int = 0) -> Iterator[Piece]:
        """Return runs of `batch_rows` rows."""
        number = 0
        for file, (m, _) in enumerate(self.shapes):
            for start in range(0, m, self.batch_rows):
                stop = min(start + self.batch_rows, m)
                if number >= skip:
                    yield Piece(file, start, stop, stop - start, start)
                number += 1

    def batches(self, piece: Piece) -> Iterator[Batch]:
        """Read one piece."""
        file, wanted = self.files[piece.file], self.wanted
        rows = open_array(file.path)[piece.start : piece.stop]
        part = slice(piece.start, piece.stop)
        try:
            if self.labels is None:
                labels = {label.name: _labels(rows, label) for label in wanted.labels}
            else:
                labels = {name: np.asarray(values[part]) for name, values in self.labels.items()}
            groups = Groups.from_labels(
                labels, group_by=wanted.group_by, unlabelled=wanted.unlabelled
            )
            weights = None if self.weight is None else self.weight[part]
            if wanted.weight is not None:
                weights = rows[:, column(wanted.weight)]
            weight = check_weights(weights, len(rows), all_zero=True)
        except ValueError as error:
            raise ValueError(
                f"{file.path} (rows {piece.start:,} to {piece.stop - 1:,}): {error}"
            ) from None
        picks = [column(name) for name in wanted.features]
        block: AnyArray | list[AnyArray] = rows
        if rows.flags.f_contiguous or not rows.flags.c_contiguous or weight is not None:
            block = [rows[:, j] for j in picks]
        elif picks != list(range(rows.shape[1])):
            block = rows[:, picks]
        yield Batch(block, groups, weight, file, piece.start)

    def share(self, piece: Piece) -> float | None:
        """Return the part of all rows up to the end of a piece."""
        before = sum(m for m, _ in self.shapes[: piece.file])
        return (before + piece.stop) / max(sum(m for m, _ in self.shapes), 1)


def _labels(rows: AnyArray, label: LabelColumn) -> AnyArray:
    values = np.asarray(rows[:, column(label.column)])
    return values if label.cut is None else label.cut.apply(values.astype(float))


def column(name: str) -> int:
    """Return the position of a column called column1, column2, ..."""
    return int(name.removeprefix("column")) - 1


def open_array(path: str, dimensions: int = 2) -> AnyArray:
    """Map a .npy file, or raise ValueError naming it."""
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


def open_arrays(
    files: Sequence[DataFile], sensitive_features: Any, sample_weight: Any
) -> tuple[list[tuple[int, int]], Any, Any]:
    """Return the shapes, and labels and weights: column names, or arrays beside the file.

    Labels are column numbers from 0 (or names such as "column1"), a .npy file, or anything
    one-dimensional with a label a row.
    """
    shapes = [open_array(file.path).shape for file in files]
    for file, shape in zip(files, shapes, strict=True):
        if shape[1] != shapes[0][1]:
            raise ValueError(
                f"{file.path} has {shape[1]} columns and {files[0].path} has {shapes[0][1]}; pass "
                "arrays with the same columns."
            )
    labels = _outside(sensitive_features, "sensitive_features", files, shapes)
    weight = (
        None if sample_weight is None else _outside(sample_weight, "sample_weight", files, shapes)
    )
    return [(int(m), int(n)) for m, n in shapes], labels, weight


def _outside(given: Any, argument: str, files: Sequence[DataFile], shapes: Any) -> Any:
    """Return a list of column names, or an array with an entry a row."""
    if isinstance(given, int | np.integer):
        given = [int(given)]
    if isinstance(given, str | os.PathLike):
        given = open_array(str(given), 1) if Path(given).suffix == ".npy" else [str(given)]
    names = [f"column{j + 1}" for j in range(shapes[0][1])]
    if isinstance(given, Sequence) and len(given) != shapes[0][0]:
        if all(isinstance(entry, int) and not isinstance(entry, bool) for entry in given):
            if not all(0 <= entry < len(names) for entry in given):
                raise ValueError(
                    f"{argument}={given!r}: the columns are numbered 0 to {len(names) - 1}."
                )
            return [names[entry] for entry in given]
        if all(isinstance(entry, str) for entry in given):
            return list(given)
    values = np.asarray(given)
    if len(files) > 1:
        raise ValueError(
            f"{argument} can stand beside one .npy file only; for several, make it a column."
        )
    if values.ndim != 1 or len(values) != shapes[0][0]:
        raise ValueError(
            f"{argument} has shape {values.shape} but {files[0].path} has {shapes[0][0]:,} rows; "
            "pass one entry per row."
        )
    return values


def _digest(values: AnyArray) -> str:
    digest = hashlib.sha256(str((values.dtype, values.shape)).encode())
    data = np.asarray(values.tolist(), dtype=str) if values.dtype == object else values
    digest.update(np.ascontiguousarray(data).tobytes())
    return digest.hexdigest()
