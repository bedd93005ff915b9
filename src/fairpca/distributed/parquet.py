"""Parquet files cut into pieces that any worker can read on its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fairpca._checks import require
from fairpca._linalg import FloatArray
from fairpca.distributed.pieces import Rules, feature_columns, named
from fairpca.distributed.products import CellSums, PassOperators, piece_products, piece_sums

_PURPOSE = "reading Parquet files"
# Uncompressed bytes of a piece: enough to keep BLAS busy, little beside a worker's memory.
_PIECE_BYTES = 128 << 20


@dataclass(frozen=True)
class Columns:
    """The columns of a table and what they are for."""

    features: tuple[str, ...]
    sensitive_features: tuple[str, ...]
    sample_weight: str | None = None

    @property
    def all(self) -> list[str]:
        """Every column, once."""
        weight = () if self.sample_weight is None else (self.sample_weight,)
        return list(dict.fromkeys((*self.features, *self.sensitive_features, *weight)))


@dataclass(frozen=True)
class Piece:
    """Some row groups of one file."""

    path: str
    row_groups: tuple[int, ...]

    def __str__(self) -> str:
        """Name the piece in errors."""
        return f"{self.path}, row groups {self.row_groups[0]} to {self.row_groups[-1]}"


def find_pieces(
    paths: Sequence[str | Path],
    *,
    sensitive_features: Sequence[str] = (),
    features: Sequence[str] | None = None,
    sample_weight: str | None = None,
) -> tuple[list[Piece], Columns]:
    """Threshold files into pieces, reading only their footers.

    Parameters
    ----------
    paths : sequence of path
        Files, or directories searched for ``*.parquet``.
    sensitive_features, features, sample_weight
        Names of columns; features None takes all others.

    Raises
    ------
    ValueError
        Naming the file whose columns differ from the first one's.
    """
    parquet = require("pyarrow.parquet", extra="data", purpose=_PURPOSE)
    types = require("pyarrow.types", extra="data", purpose=_PURPOSE)
    weight = () if sample_weight is None else (sample_weight,)
    pieces: list[Piece] = []
    columns: Columns | None = None
    for path in _files(paths):
        footer = parquet.ParquetFile(path)
        schema = footer.schema_arrow
        numeric = [
            types.is_integer(t)
            or types.is_floating(t)
            or types.is_boolean(t)
            or types.is_decimal(t)
            for t in schema.types
        ]
        if columns is None:
            taken = (*sensitive_features, *weight)
            chosen = feature_columns(schema.names, numeric, features, taken)
            columns = Columns(tuple(chosen), tuple(sensitive_features), sample_weight)
        else:
            with named(str(path)):
                taken = (*columns.sensitive_features, *weight)
                feature_columns(schema.names, numeric, columns.features, taken)
        pieces += _cut(str(path), footer.metadata)
    if columns is None:
        raise ValueError("paths is empty; pass at least one Parquet file.")
    return pieces, columns


def _files(paths: Sequence[str | Path]) -> list[Path]:
    found: list[Path] = []
    for path in map(Path, paths):
        inside = sorted(path.rglob("*.parquet")) if path.is_dir() else [path]
        if not inside or not all(file.exists() for file in inside):
            raise FileNotFoundError(f"{path}: no Parquet file there; check paths.")
        found += inside
    return found


def _cut(path: str, metadata: Any) -> list[Piece]:
    pieces, groups, size = [], [], 0
    for i in range(metadata.num_row_groups):
        groups.append(i)
        size += metadata.row_group(i).total_byte_size
        if size >= _PIECE_BYTES or i == metadata.num_row_groups - 1:
            pieces.append(Piece(path, tuple(groups)))
            groups, size = [], 0
    return pieces


def read_piece(piece: Piece, columns: Columns) -> tuple[FloatArray, Any, Any]:
    """Return rows, labels and weights of a piece."""
    parquet = require("pyarrow.parquet", extra="data", purpose=_PURPOSE)
    with parquet.ParquetFile(piece.path) as file:
        table = file.read_row_groups(list(piece.row_groups), columns=columns.all)
    return split_table(table, columns)


def split_table(table: Any, columns: Columns) -> tuple[FloatArray, Any, Any]:
    """Return rows, labels (None without label columns) and weights of an Arrow table."""
    # Column after column of a table is how Fortran stores rows.
    rows = np.empty((table.num_rows, len(columns.features)), order="F")
    for j, name in enumerate(columns.features):
        rows[:, j] = _numbers(table.column(name))
    labels = None
    if columns.sensitive_features:
        labels = {name: table.column(name) for name in columns.sensitive_features}
    weight = None
    if columns.sample_weight is not None:
        weight = _numbers(table.column(columns.sample_weight))
    return rows, labels, weight


def _numbers(column: Any) -> FloatArray:
    # Nulls arrive as NaN, which is refused with the other NaNs.
    return np.asarray(column.cast("float64").to_numpy(), dtype=np.float64)


def operators(
    paths: Sequence[str | Path],
    *,
    sensitive_features: Sequence[str] = (),
    features: Sequence[str] | None = None,
    sample_weight: str | None = None,
    group_by: str = "intersection",
    unlabelled: str = "error",
) -> PassOperators:
    """Return products with the groups' covariances, one pass over the files each.

    For `FairPCA.fit_operators`, where ``k n^2`` numbers would not fit in memory.

    Parameters
    ----------
    paths : sequence of path
        Parquet files, or directories of them.
    sensitive_features, features, sample_weight
        Names of columns; features None takes all others.
    group_by, unlabelled : str
        As in `FairPCA`.
    """
    pieces, columns = find_pieces(
        paths,
        sensitive_features=sensitive_features,
        features=features,
        sample_weight=sample_weight,
    )
    rules = Rules.of(group_by, unlabelled, None)

    def sums() -> list[CellSums]:
        return [piece_sums(*read_piece(piece, columns), rules, str(piece)) for piece in pieces]

    def products(facts: CellSums, matrix: FloatArray) -> FloatArray:
        total = np.zeros((len(facts.labels), *matrix.shape))
        for piece in pieces:
            rows, labels, weight = read_piece(piece, columns)
            piece_products(rows, labels, weight, facts, matrix, rules, out=total)
        return total

    return PassOperators(sums, products)
