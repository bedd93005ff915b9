"""Parquet and Arrow files: only the columns that are needed, a run of row groups at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Any

import numpy as np

from fairpca._checks import check_weights, require
from fairpca._linalg import AnyArray
from fairpca.io.files import DataFile
from fairpca.io.sources import Batch, Piece, Source, Wanted
from fairpca.moments.groups import Groups, Threshold

# Record batches of an Arrow file are taken together up to about this many bytes on disk.
_PIECE_BYTES = 32 << 20


def arrow(module: str = "pyarrow") -> Any:
    """Import a part of pyarrow, or say what to install."""
    return require(module, extra="data", purpose="reading tables in pieces")


@dataclass(frozen=True)
class ArrowSource(Source):
    """Files whose batches arrive as Arrow record batches."""

    def record_batches(self, piece: Piece) -> Iterator[Any]:
        """Read the record batches of a piece."""
        raise NotImplementedError

    def batches(self, piece: Piece) -> Iterator[Batch]:
        """Read one piece."""
        file = self.files[piece.file]
        row = piece.first_row
        for batch in readable(file, self.record_batches(piece)):
            for start in range(0, batch.num_rows, self.batch_rows):
                part = batch.slice(start, self.batch_rows)
                yield self._batch(part, file, row)
                row = None if row is None else row + part.num_rows

    def _batch(self, batch: Any, file: DataFile, row: int | None) -> Batch:
        wanted = self.wanted
        where = "" if row is None else f" (rows {row:,} to {row + batch.num_rows - 1:,})"
        columns = [_numbers(batch.column(name), name, file, row) for name in wanted.features]
        weight = None
        if wanted.weight is not None:
            numbers = _numbers(batch.column(wanted.weight), wanted.weight, file, row)
            weight = _in_file(file, where, check_weights, numbers, batch.num_rows, all_zero=True)
        groups = _in_file(
            file,
            where,
            Groups.from_dictionaries,
            {label.name: coded(batch.column(label.column), label.cut) for label in wanted.labels},
            group_by=wanted.group_by,
            unlabelled=wanted.unlabelled,
        )
        return Batch(columns, groups, weight, file, row)


@dataclass(frozen=True)
class ParquetSource(ArrowSource):
    """Parquet files.

    Attributes
    ----------
    row_groups : tuple of tuple of int
        Rows of every row group of every file.
    """

    row_groups: tuple[tuple[int, ...], ...]

    def pieces(self, skip: int = 0) -> Iterator[Piece]:
        """Return runs of row groups with about `batch_rows` rows; large ones stand alone."""
        number = 0
        for file, sizes in enumerate(self.row_groups):
            start, first_row = 0, 0
            while start < len(sizes):
                stop, rows = start + 1, sizes[start]
                while stop < len(sizes) and rows + sizes[stop] <= self.batch_rows:
                    rows += sizes[stop]
                    stop += 1
                if number >= skip:
                    yield Piece(file, start, stop, rows, first_row)
                number, start, first_row = number + 1, stop, first_row + rows

    def record_batches(self, piece: Piece) -> Iterator[Any]:
        """Read the record batches of a piece."""
        parquet = arrow("pyarrow.parquet")
        with parquet.ParquetFile(
            self.files[piece.file].path,
            # Text labels come as the codes they are stored with.
            read_dictionary=self.wanted.plain_labels,
            # Mapped, so that nothing is copied before it is decoded; only this piece's pages.
            memory_map=True,
            pre_buffer=False,
            page_checksum_verification=True,
        ) as file:
            yield from file.iter_batches(
                self.batch_rows,
                row_groups=list(range(piece.start, piece.stop)),
                columns=self.wanted.columns,
                # The pieces run in parallel already.
                use_threads=False,
            )

    def share(self, piece: Piece) -> float | None:
        """Return the part of all rows up to the end of a piece."""
        before = self.rows_before
        inside = (piece.first_row or 0) + (piece.rows or 0)
        return (before[piece.file] + inside) / max(before[-1], 1)

    @cached_property
    def rows_before(self) -> list[int]:
        """Rows of the files before each file, and of all."""
        return [0, *accumulate(map(sum, self.row_groups))]


@dataclass(frozen=True)
class ArrowFileSource(ArrowSource):
    """Arrow IPC and Feather files.

    Attributes
    ----------
    n_batches : tuple of int
        Record batches in every file.
    """

    n_batches: tuple[int, ...]

    def pieces(self, skip: int = 0) -> Iterator[Piece]:
        """Return runs of record batches."""
        number = 0
        for file, (found, count) in enumerate(zip(self.files, self.n_batches, strict=True)):
            step = max(_PIECE_BYTES * count // max(found.size, 1), 1)
            for start in range(0, count, step):
                if number >= skip:
                    yield Piece(file, start, min(start + step, count), None, None)
                number += 1

    def record_batches(self, piece: Piece) -> Iterator[Any]:
        """Read the record batches of a piece, small ones joined."""
        pa, ipc = arrow(), arrow("pyarrow.ipc")
        with pa.memory_map(self.files[piece.file].path) as file:
            names = ipc.open_file(file).schema.names
            fields = sorted(names.index(name) for name in self.wanted.columns)
            reader = ipc.open_file(file, options=ipc.IpcReadOptions(included_fields=fields))
            parts = (reader.get_batch(i) for i in range(piece.start, piece.stop))
            yield from joined(parts, self.batch_rows)

    def share(self, piece: Piece) -> float | None:
        """Return the part of all bytes up to the end of a piece."""
        before = self.bytes_before
        inside = self.files[piece.file].size * piece.stop / max(self.n_batches[piece.file], 1)
        return (before[piece.file] + inside) / before[-1]


def open_parquet(file: DataFile) -> tuple[Any, tuple[int, ...]]:
    """Return the schema of a Parquet file and the rows of its row groups."""
    parquet = arrow("pyarrow.parquet")

    def look() -> Iterator[tuple[Any, tuple[int, ...]]]:
        with parquet.ParquetFile(file.path) as opened:
            meta = opened.metadata
            rows = (meta.row_group(i).num_rows for i in range(meta.num_row_groups))
            yield opened.schema_arrow, tuple(rows)

    found: tuple[Any, Any] = next(readable(file, look()))
    return found


def open_arrow(file: DataFile) -> tuple[Any, int]:
    """Return the schema of an Arrow file and the number of its record batches."""
    pa, ipc = arrow(), arrow("pyarrow.ipc")
    with open(file.path, "rb") as start:
        magic = start.read(6)
    if magic != b"ARROW1":
        what = "a Feather version 1 file" if magic[:4] == b"FEA1" else "an Arrow stream or other"
        raise ValueError(
            f"{file.path} is {what}, not an Arrow file that can be read in pieces; write it again "
            "with pyarrow.feather.write_feather."
        )

    def look() -> Iterator[tuple[Any, int]]:
        with pa.memory_map(file.path) as opened:
            reader = ipc.open_file(opened)
            yield reader.schema, reader.num_record_batches

    found: tuple[Any, Any] = next(readable(file, look()))
    return found


def check_schemas(files: Sequence[DataFile], schemas: Sequence[Any], wanted: Wanted) -> None:
    """Raise ValueError naming the file and column that does not fit.

    Columns that are not read may differ as they like.
    """
    types = arrow("pyarrow.types")
    numbers, columns = wanted.numbers, wanted.columns
    known: dict[str, tuple[Any, DataFile]] = {}
    for file, schema in zip(files, schemas, strict=True):
        count = Counter(schema.names)
        for name in columns:
            if count[name] != 1:
                times = "more than one" if count[name] else "no"
                raise ValueError(
                    f"{file.path} has {times} column {name!r}, which {files[0].path} has once; "
                    "pass tables with the same columns, or leave it out."
                )
            found = plain_type(schema, name)
            if types.is_null(found):
                # Only missing values: an error where rows are read, none where there are none.
                continue
            numeric = types.is_integer(found) or types.is_floating(found)
            numeric |= types.is_boolean(found)
            # A category of numbers is a category: in memory it becomes indicators.
            category = types.is_dictionary(schema.field(name).type)
            if name in numbers and (category or not numeric):
                what = schema.field(name).type if category else found
                raise ValueError(
                    f"{file.path}: column {name!r} has the type {what}, not numbers; reading in "
                    "pieces takes numeric features only: drop the column (--drop), or read it in "
                    "memory, where text becomes indicators (--engine memory)."
                )
            if not (numeric or types.is_string(found)):
                raise ValueError(
                    f"{file.path}: column {name!r} has the type {found} and labels must be "
                    "text, numbers or booleans; cast it first."
                )
            expected, first = known.setdefault(name, (found, file))
            if found != expected:
                raise ValueError(
                    f"{file.path}: column {name!r} has the type {found} and in {first.path} it "
                    f"has {expected}; write both with one type, or leave the column out."
                )


def plain_type(schema: Any, name: str) -> Any:
    """Return the type of a column's values, the same for every way to store text."""
    pa, types = arrow(), arrow("pyarrow.types")
    found = schema.field(name).type
    if types.is_dictionary(found):
        found = found.value_type
    views = getattr(types, "is_string_view", lambda _: False)
    return pa.string() if types.is_large_string(found) or views(found) else found


def readable(file: DataFile, parts: Iterable[Any]) -> Iterator[Any]:
    """Pass parts on; what goes wrong while reading them becomes a ValueError naming the file."""
    pa = arrow()
    iterator = iter(parts)
    while True:
        try:
            part = next(iterator)
        except StopIteration:
            return
        except (pa.ArrowException, OSError, EOFError, ValueError, KeyError) as error:
            what = " ".join(str(error).split())[:300].rstrip(".")
            raise ValueError(
                f"{file.path} cannot be read: {what}. Write the file again, or leave it out."
            ) from None
        yield part


def joined(parts: Iterable[Any], rows: int) -> Iterator[Any]:
    """Join small record batches until there are about `rows` rows."""
    pa = arrow()
    waiting: list[Any] = []

    def join() -> Any:
        if len(waiting) == 1:
            return waiting[0]
        return pa.Table.from_batches(waiting).combine_chunks().to_batches()[0]

    for part in parts:
        if not part.num_rows:
            continue
        if waiting and sum(p.num_rows for p in waiting) + part.num_rows > rows:
            yield join()
            waiting.clear()
        waiting.append(part)
    if waiting:
        yield join()


def coded(column: Any, cut: Threshold | None = None) -> tuple[AnyArray, Sequence[Any]]:
    """Return the labels of a column as codes into a list of values; -1 where null."""
    types = arrow("pyarrow.types")
    if cut is not None:
        numbers = column.cast(arrow().float64()).to_numpy(zero_copy_only=False)
        return cut.codes(numbers), cut.labels
    if types.is_null(column.type):
        return np.full(len(column), -1, dtype=np.int64), []
    if not types.is_dictionary(column.type):
        column = column.dictionary_encode()
    codes = column.indices
    codes = codes.fill_null(-1) if codes.null_count else codes
    return codes.to_numpy(zero_copy_only=False).astype(np.int64), column.dictionary.to_pylist()


def _numbers(column: Any, name: str, file: DataFile, first_row: int | None) -> AnyArray:
    if column.null_count:
        row = int(column.is_null().to_numpy(zero_copy_only=False).argmax())
        near = (
            f"row {row:,} of a record batch" if first_row is None else f"row {first_row + row:,}"
        )
        raise ValueError(
            f"{file.path}, {near}: column {name!r} is missing a value ({column.null_count:,} in "
            "the batch); fill them in, drop those rows, or drop the column."
        )
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _in_file(file: DataFile, where: str, call: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a function; its ValueError names the file."""
    try:
        return call(*args, **kwargs)
    except ValueError as error:
        raise ValueError(f"{file.path}{where}: {error}") from None
