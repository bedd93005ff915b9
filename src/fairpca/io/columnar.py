"""Parquet and Arrow files: only the columns that are needed, a run of row groups at a time.

Tables in memory are read whole. `ColumnarSource` reads pieces, here or on the workers of a
cluster.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fairpca._check import require
from fairpca._arrays import AnyArray
from fairpca.io.columns import Choose, Wanted, all_columns, not_numbers
from fairpca.io.sources import Coded, DataFile, Piece, Rows, Source, file_kind
from fairpca.moments.storage import damage_named

# What columns hold, by the names of Arrow's types, which has several for texts and for numbers. A
# type that is none of these can be neither a feature nor a label.
_KINDS = {
    "null": "null",
    "text": r"(large_)?string(_view)?",
    "integer": r"u?int\d+",
    "fraction": r"halffloat|float|double",
    "boolean": "bool",
    "decimal": r"decimal\d+\(.*\)",
}
# Kinds of columns that can be features, and those that can be labels. Decimals are no labels,
# because the same number written with other digits would be another label.
_NUMBERS = ("integer", "fraction", "boolean", "decimal")
_LABELS = ("text", "integer", "fraction", "boolean")


def arrow(module: str = "pyarrow") -> Any:
    """Import a part of pyarrow, or say what to install."""
    return require(module, extra="data", purpose="reading Parquet and Arrow files")


@dataclass(frozen=True)
class ArrowRows(Rows):
    """Rows in an Arrow record batch, in which columns that are not wanted may be as well."""

    batch: Any

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def numbers(self, name: str) -> AnyArray:
        """Return a column of numbers, NaN where a value is null."""
        column, types = self.batch.column(name), arrow("pyarrow.types")
        # A null among whole numbers or truth values has no NaN to become, and decimals would be
        # Python objects. Integers above 2**53 are rounded, as everywhere else.
        if column.null_count or types.is_decimal(column.type):
            column = column.cast(arrow().float64(), safe=False)
        return np.asarray(column.to_numpy(zero_copy_only=False))

    def labels(self, name: str) -> Coded:
        """Return a column of labels as codes into the dictionary of its values."""
        column, types = self.batch.column(name), arrow("pyarrow.types")
        if not types.is_dictionary(column.type):
            column = column.dictionary_encode()
        # Unsigned codes, such as those of polars, cannot be -1.
        codes = column.indices.cast(arrow().int64()).fill_null(-1)
        return codes.to_numpy(zero_copy_only=False), column.dictionary.to_pylist()


@dataclass(frozen=True)
class ColumnarSource(Source):
    """Parquet, Arrow IPC or Feather files.

    `parts` are the rows of every row group or record batch of every file.
    """

    parts: tuple[tuple[int, ...], ...]

    def pieces(self) -> Iterator[Piece]:
        """Return runs of parts with about `batch_rows` rows; larger parts stand alone."""
        before, total = 0, sum(map(sum, self.parts))
        for file, parts in enumerate(self.parts):
            start, first_row = 0, 0
            while start < len(parts):
                stop, rows = start + 1, parts[start]
                while stop < len(parts) and rows + parts[stop] <= self.batch_rows:
                    rows += parts[stop]
                    stop += 1
                share = (before + first_row + rows) / max(total, 1)
                yield Piece(file, first_row, before, share, start, stop)
                start, first_row = stop, first_row + rows
            before += first_row

    def read(self, piece: Piece) -> Iterator[ArrowRows]:
        """Read one piece, small parts joined and large ones cut."""
        path, parts = self.files[piece.file].path, range(piece.start, piece.stop)
        read = self._parquet_batches if _is_parquet(path) else self._arrow_batches
        for batch in joined(read(path, parts), self.batch_rows):
            # A record batch of an Arrow file may have any number of rows.
            for start in range(0, batch.num_rows, self.batch_rows):
                yield ArrowRows(batch.slice(start, self.batch_rows))

    def _parquet_batches(self, path: str, groups: Iterable[int]) -> Iterator[Any]:
        """Yield the record batches of row groups of a Parquet file."""
        with (
            readable(path),
            arrow("pyarrow.parquet").ParquetFile(
                path,
                # Text labels come as the codes that Parquet stores them with.
                read_dictionary=self.wanted.plain_labels,
                # Mapped, so that nothing is copied before it is decoded, and only pages of need.
                memory_map=True,
                pre_buffer=False,
                page_checksum_verification=True,
            ) as file,
        ):
            # The pieces run in parallel already, so threads inside would only compete.
            yield from file.iter_batches(
                self.batch_rows, list(groups), self.wanted.columns, use_threads=False
            )

    def _arrow_batches(self, path: str, numbers: Iterable[int]) -> Iterator[Any]:
        """Yield record batches of an Arrow file, with the columns that are wanted."""
        ipc = arrow("pyarrow.ipc")
        with readable(path), arrow().memory_map(path) as file:
            names = ipc.open_file(file).schema.names
            fields = sorted(names.index(name) for name in self.wanted.columns)
            options = ipc.IpcReadOptions(included_fields=fields)
            reader = ipc.open_file(file, options=options)
            yield from map(reader.get_batch, numbers)


def open_files(files: Sequence[DataFile], choose: Choose, **_: Any) -> ColumnarSource:
    """Return the source of Parquet or Arrow files; see `open_source`."""
    schemas, parts = zip(*(_open(file.path) for file in files), strict=True)
    wanted = choose(all_columns([schema.names for schema in schemas]))
    check_schemas(files, schemas, wanted)
    return ColumnarSource(tuple(files), wanted, parts)


def readable(path: str) -> AbstractContextManager[None]:
    """Return a context in which what goes wrong is a ValueError that names the file."""
    return damage_named(f"{path} cannot be read", "write the file again, or leave it out.")


def _open(path: str) -> tuple[Any, tuple[int, ...]]:
    """Return the schema of a file, and the rows of its row groups or record batches.

    Columns that hold the index of a pandas frame are left out of the schema: in memory pandas does
    not count them among the columns either.
    """
    with readable(path):
        if _is_parquet(path):
            with arrow("pyarrow.parquet").ParquetFile(path) as opened:
                schema, meta = opened.schema_arrow, opened.metadata
            groups = range(meta.num_row_groups)
            parts = tuple(meta.row_group(i).num_rows for i in groups)
        else:
            schema, parts = _arrow_parts(path)
    metadata = schema.pandas_metadata or {}
    index = {entry for entry in metadata.get("index_columns", ()) if isinstance(entry, str)}
    return arrow().schema([entry for entry in schema if entry.name not in index]), parts


def _arrow_parts(path: str) -> tuple[Any, tuple[int, ...]]:
    """Return the schema of an Arrow file and the rows of its record batches."""
    magic = _magic(path)
    if magic != b"ARROW1":
        what = "a Feather version 1 file" if magic[:4] == b"FEA1" else "an Arrow stream or other"
        raise ValueError(
            f"it is {what}, not an Arrow file; write it with pyarrow.feather.write_feather"
        )
    pa, ipc = arrow(), arrow("pyarrow.ipc")
    with pa.memory_map(path) as opened:
        schema = ipc.open_file(opened).schema
        # Only the batches themselves know their rows. One column of numbers is the least to
        # decompress for that; without any the first column has to do.
        fixed = [i for i, kind in enumerate(schema.types) if pa.types.is_primitive(kind)]
        options = ipc.IpcReadOptions(included_fields=fixed[:1] or [0])
        reader = ipc.open_file(opened, options=options)
        rows = (reader.get_batch(i).num_rows for i in range(reader.num_record_batches))
        return schema, tuple(rows)


def _magic(path: str) -> bytes:
    """Return the first bytes of a file, by which Arrow tells its own formats apart."""
    with open(path, "rb") as file:
        return file.read(6)


def _is_parquet(path: str) -> bool:
    return file_kind(Path(path)) == "parquet"


def joined(parts: Iterable[Any], rows: int) -> Iterator[Any]:
    """Join small record batches until there are about `rows` rows; empty ones are left out."""
    waiting: list[Any] = []

    def join() -> Any:
        # Every batch has its own dictionary of labels; codes mean the same only in a common one.
        table = arrow().Table.from_batches(waiting).unify_dictionaries()
        return table.combine_chunks().to_batches()[0]

    for part in parts:
        if not part.num_rows:
            continue
        if waiting and sum(p.num_rows for p in waiting) + part.num_rows > rows:
            yield join()
            waiting.clear()
        waiting.append(part)
    if waiting:
        yield join()


def check_schemas(files: Sequence[DataFile], schemas: Sequence[Any], wanted: Wanted) -> None:
    """Raise ValueError naming the file and column that does not fit.

    Feature columns must be numbers in every file, of any width. Label columns must be of one kind
    in all files: text, whole numbers, fractions or truth values. Columns that are not read may
    differ as they like. There is one `pyarrow.Schema` a file.
    """
    types = arrow("pyarrow.types")
    known: dict[str, tuple[str, Any, DataFile]] = {}
    for file, schema in zip(files, schemas, strict=True):
        count = Counter(schema.names)
        for name in wanted.columns:
            if count[name] != 1:
                times = "more than one" if count[name] else "no"
                others = zip(files, schemas, strict=True)
                other = next(f.path for f, s in others if f is not file and name in s.names)
                raise ValueError(
                    f"{file.path} has {times} column {name!r}, which {other} has; pass tables "
                    "with the same columns, or leave it out."
                )
            found = schema.field(name).type
            kind = _column_kind(found)
            if kind == "null":
                # Only missing values: an error where rows are read, none where there are none.
                continue
            # A category of numbers is a category: in memory it becomes indicators.
            category = types.is_dictionary(found)
            # Text has several types in Arrow, which say nothing to the reader of an error.
            found = "string" if kind == "text" and not category else found
            if name in wanted.numbers and (category or kind not in _NUMBERS):
                raise not_numbers(file.path, name, found)
            if name not in wanted.plain_labels:
                continue
            if kind not in _LABELS:
                raise ValueError(
                    f"{file.path}: column {name!r} has the type {found} and labels must be "
                    "text, numbers or booleans; cast it first."
                )
            expected, shown, first = known.setdefault(name, (kind, found, file))
            if kind != expected:
                raise another_type(file.path, name, found, shown, first.path)


def another_type(path: str, name: str, found: Any, expected: Any, first: str) -> ValueError:
    """Return the error about a column whose type differs between two files."""
    return ValueError(
        f"{path}: column {name!r} has the type {found} and in {first} it has {expected}; write "
        "both with one type, or leave the column out."
    )


def _column_kind(found: Any) -> str:
    """Return what the values of an Arrow type are, the same for every way to store them."""
    category = arrow("pyarrow.types").is_dictionary(found)
    shown = str(found.value_type if category else found)
    return next((kind for kind, form in _KINDS.items() if re.fullmatch(form, shown)), shown)


def read_whole(path: str) -> Any:
    """Return a Parquet, Arrow or Feather file as one Arrow table, decimals as float64.

    Arrow streams and Feather files of version 1 cannot be read in pieces, but they can be read
    whole.
    """
    pa, types = arrow(), arrow("pyarrow.types")
    with readable(path), open(path, "rb") as file:
        if _is_parquet(path):
            parquet = arrow("pyarrow.parquet")
            table = parquet.ParquetFile(path, page_checksum_verification=True).read()
        elif _magic(path)[:4] in (b"FEA1", b"ARRO"):
            table = arrow("pyarrow.feather").read_table(path)
        else:
            table = arrow("pyarrow.ipc").open_stream(file).read_all()
    # pandas would make Python objects of decimals.
    for i, entry in enumerate(table.schema):
        if types.is_decimal(entry.type):
            column = table.column(i).cast(pa.float64())
            table = table.set_column(i, pa.field(entry.name, pa.float64()), column)
    return table
