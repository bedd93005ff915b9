"""Parquet and Arrow files: only the columns that are needed, a run of row groups at a time.

`read_batches` is the one place where such files are read. Tables in memory read all of a file with
it, `ColumnarSource` reads pieces, and the workers of a cluster read the pieces of a
`ColumnarSource`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fairpca._checks import require
from fairpca._linalg import AnyArray
from fairpca.io.columns import Wanted, not_numbers
from fairpca.io.files import DataFile
from fairpca.io.sources import Coded, Piece, Source

# What damaged files make pyarrow and zlib raise, beside pyarrow's own exceptions.
_DAMAGE = (OSError, EOFError, ValueError, KeyError)


def arrow(module: str = "pyarrow") -> Any:
    """Import a part of pyarrow, or say what to install."""
    return require(module, extra="data", purpose="reading Parquet and Arrow files")


@dataclass(frozen=True)
class ArrowRows:
    """Rows in an Arrow record batch or table of one chunk.

    Attributes
    ----------
    batch : pyarrow.RecordBatch
        Columns that are not wanted may be there as well.
    """

    batch: Any

    def __len__(self) -> int:
        return int(self.batch.num_rows)

    def numbers(self, name: str) -> AnyArray:
        """Return a column of numbers, NaN where a value is null."""
        column, types = self.batch.column(name), arrow("pyarrow.types")
        # A null among whole numbers or truth values has no NaN to become, and decimals would be
        # Python objects. Integers above 2**53 are rounded, as everywhere else.
        if column.null_count or types.is_decimal(column.type) or types.is_null(column.type):
            column = column.cast(arrow().float64(), safe=False)
        return np.asarray(column.to_numpy(zero_copy_only=False))

    def labels(self, name: str) -> Coded:
        """Return a column of labels as codes into the dictionary of its values."""
        column, types = self.batch.column(name), arrow("pyarrow.types")
        if types.is_null(column.type):
            return np.full(len(self), -1, dtype=np.int64), []
        if not types.is_dictionary(column.type):
            column = column.dictionary_encode()
        codes = column.indices
        codes = codes.fill_null(-1) if codes.null_count else codes
        kinds = column.dictionary.to_pylist()
        return codes.to_numpy(zero_copy_only=False).astype(np.int64), kinds

    def features(self, names: Sequence[str]) -> list[AnyArray]:
        """Return the feature columns."""
        return [self.numbers(name) for name in names]


@dataclass(frozen=True)
class ColumnarSource(Source):
    """Parquet, Arrow IPC or Feather files.

    Attributes
    ----------
    kind : {"parquet", "arrow"}
        Of all files.
    parts : tuple of tuple of int
        Rows of every row group (Parquet) or record batch (Arrow) of every file.
    """

    kind: str
    parts: tuple[tuple[int, ...], ...]

    def pieces(self, skip: int = 0) -> Iterator[Piece]:
        """Return runs of parts with about `batch_rows` rows; larger parts stand alone."""
        number = 0
        for file, parts in enumerate(self.parts):
            start, first_row = 0, 0
            while start < len(parts):
                stop, rows = start + 1, parts[start]
                while stop < len(parts) and rows + parts[stop] <= self.batch_rows:
                    rows += parts[stop]
                    stop += 1
                if number >= skip:
                    yield Piece(file, start, stop, first_row)
                number, start, first_row = number + 1, stop, first_row + rows

    def read(self, piece: Piece) -> Iterator[ArrowRows]:
        """Read one piece, small parts joined and large ones cut."""
        batches = read_batches(
            self.files[piece.file].path,
            self.kind,
            range(piece.start, piece.stop),
            columns=self.wanted.columns,
            # Text labels come as the codes that Parquet stores them with.
            dictionaries=self.wanted.plain_labels,
            batch_rows=self.batch_rows,
        )
        for batch in joined(batches, self.batch_rows):
            for start in range(0, batch.num_rows, self.batch_rows):
                yield ArrowRows(batch.slice(start, self.batch_rows))

    def sizes(self) -> Sequence[int]:
        """Return the rows of every file."""
        return [sum(parts) for parts in self.parts]

    def end(self, piece: Piece) -> int:
        """Return the rows of the file up to the end of a piece."""
        return sum(self.parts[piece.file][: piece.stop])


def read_batches(
    path: str,
    kind: str,
    parts: Sequence[int] | None = None,
    *,
    columns: Sequence[str] | None = None,
    dictionaries: Sequence[str] = (),
    batch_rows: int = 65_536,
) -> Iterator[Any]:
    """Read a Parquet or Arrow file, or some parts of it, as record batches.

    Parameters
    ----------
    path : str
        The file.
    kind : {"parquet", "arrow"}
        Its format.
    parts : sequence of int, optional
        Row groups or record batches to read, by default all.
    columns : sequence of str, optional
        Columns to read, by default all.
    dictionaries : sequence of str, default=()
        Text columns of a Parquet file to read as codes and a dictionary.
    batch_rows : int, default=65536
        Most rows of a batch of a Parquet file. An Arrow file has the batches it has.

    Yields
    ------
    pyarrow.RecordBatch

    Raises
    ------
    ValueError
        Naming the file, where it is damaged.
    """
    read = _parquet_batches if kind == "parquet" else _arrow_batches
    yield from readable(path, read(path, parts, columns, dictionaries, batch_rows))


def _parquet_batches(
    path: str, parts: Any, columns: Any, dictionaries: Sequence[str], batch_rows: int
) -> Iterator[Any]:
    """Yield the record batches of row groups; arguments as in `read_batches`."""
    with arrow("pyarrow.parquet").ParquetFile(
        path,
        read_dictionary=list(dictionaries),
        # Mapped, so that nothing is copied before it is decoded, and only pages that are needed.
        memory_map=True,
        pre_buffer=False,
        page_checksum_verification=True,
    ) as file:
        groups = range(file.metadata.num_row_groups) if parts is None else parts
        # The pieces run in parallel already, so threads inside would only compete.
        yield from file.iter_batches(
            batch_rows, row_groups=list(groups), columns=columns, use_threads=False
        )


def _arrow_batches(
    path: str, parts: Any, columns: Any, dictionaries: Sequence[str], batch_rows: int
) -> Iterator[Any]:
    """Yield the record batches of an Arrow file; dictionaries are as the file has them."""
    pa, ipc = arrow(), arrow("pyarrow.ipc")
    with pa.memory_map(path) as file:
        options = None
        if columns is not None:
            names = ipc.open_file(file).schema.names
            fields = sorted(names.index(name) for name in columns)
            options = ipc.IpcReadOptions(included_fields=fields)
        reader = ipc.open_file(file, options=options)
        for i in range(reader.num_record_batches) if parts is None else parts:
            yield reader.get_batch(i)


def open_columnar(file: DataFile, kind: str) -> tuple[Any, tuple[int, ...]]:
    """Return the schema of a file, and the rows of its row groups or record batches.

    Columns that hold the index of a pandas frame are left out of the schema: in memory pandas does
    not count them among the columns either.
    """
    look: Callable[[str], tuple[Any, tuple[int, ...]]]
    look = _open_parquet if kind == "parquet" else _open_arrow
    schema, parts = next(readable(file.path, (look(path) for path in [file.path])))
    metadata = schema.pandas_metadata or {}
    index = {entry for entry in metadata.get("index_columns", ()) if isinstance(entry, str)}
    return arrow().schema([entry for entry in schema if entry.name not in index]), parts


def _open_parquet(path: str) -> tuple[Any, tuple[int, ...]]:
    with arrow("pyarrow.parquet").ParquetFile(path) as opened:
        meta = opened.metadata
        rows = (meta.row_group(i).num_rows for i in range(meta.num_row_groups))
        return opened.schema_arrow, tuple(rows)


def _open_arrow(path: str) -> tuple[Any, tuple[int, ...]]:
    """Return the schema of an Arrow file and the rows of its record batches."""
    with open(path, "rb") as start:
        magic = start.read(6)
    if magic != b"ARROW1":
        what = "a Feather version 1 file" if magic[:4] == b"FEA1" else "an Arrow stream or other"
        raise ValueError(
            f"it is {what}, not an Arrow file that can be read in pieces; write it with "
            "pyarrow.feather.write_feather"
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


def readable(path: str, parts: Iterable[Any]) -> Iterator[Any]:
    """Pass parts on; what goes wrong while reading them becomes a ValueError naming the file."""
    pa = arrow()
    iterator = iter(parts)
    while True:
        try:
            part = next(iterator)
        except StopIteration:
            return
        except (FileNotFoundError, PermissionError):
            raise
        except (pa.ArrowException, *_DAMAGE) as error:
            what = " ".join(str(error).split())[:300].rstrip(".")
            raise ValueError(
                f"{path} cannot be read: {what}. Write the file again, or leave it out."
            ) from None
        yield part


def joined(parts: Iterable[Any], rows: int) -> Iterator[Any]:
    """Join small record batches until there are about `rows` rows; empty ones are left out."""
    pa = arrow()
    waiting: list[Any] = []

    def join() -> Any:
        if len(waiting) == 1:
            return waiting[0]
        table = pa.Table.from_batches(waiting).unify_dictionaries()
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
    differ as they like.

    Parameters
    ----------
    files : sequence of DataFile
        The files, for the errors.
    schemas : sequence of pyarrow.Schema
        One a file.
    wanted : Wanted
        The columns that are read.
    """
    types = arrow("pyarrow.types")
    known: dict[str, tuple[str, Any, DataFile]] = {}
    for file, schema in zip(files, schemas, strict=True):
        count = Counter(schema.names)
        for name in wanted.columns:
            if count[name] != 1:
                times = "more than one" if count[name] else "no"
                raise ValueError(
                    f"{file.path} has {times} column {name!r}, which {files[0].path} has once; "
                    "pass tables with the same columns, or leave it out."
                )
            found = schema.field(name).type
            kind = column_kind(found)
            if kind == "null":
                # Only missing values: an error where rows are read, none where there are none.
                continue
            # A category of numbers is a category: in memory it becomes indicators.
            category = types.is_dictionary(found)
            number = kind in _NUMBERS and not category
            # Text has several types in Arrow, which say nothing to the reader of an error.
            found = "string" if kind == "text" and not category else found
            if name in wanted.numbers and not number:
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


# Kinds of columns that can be features, and those that can be labels. Decimals are no labels,
# because the same number written with other digits would be another label.
_NUMBERS = ("integer", "fraction", "boolean", "decimal")
_LABELS = ("text", "integer", "fraction", "boolean")


def read_whole(path: str, kind: str) -> Any:
    """Return a Parquet, Arrow or Feather file as one Arrow table, decimals as float64.

    Arrow streams and Feather files of version 1 cannot be read in pieces, but they can be read
    whole.
    """
    pa, types = arrow(), arrow("pyarrow.types")

    def whole() -> Iterator[Any]:
        with open(path, "rb") as file:
            magic = file.read(6)
        if kind == "arrow" and magic[:4] == b"FEA1":
            yield arrow("pyarrow.feather").read_table(path)
        elif kind == "arrow" and magic != b"ARROW1":
            with open(path, "rb") as file:
                yield arrow("pyarrow.ipc").open_stream(file).read_all()
        else:
            look = _open_parquet if kind == "parquet" else _open_arrow
            yield pa.Table.from_batches(read_batches(path, kind), schema=look(path)[0])

    table = next(readable(path, whole()))
    for i, entry in enumerate(table.schema):
        if types.is_decimal(entry.type):
            column = table.column(i).cast(pa.float64())
            table = table.set_column(i, pa.field(entry.name, pa.float64()), column)
    return table


def column_kind(found: Any) -> str:
    """Return what the values of an Arrow type are, the same for every way to store them."""
    types = arrow("pyarrow.types")
    if types.is_dictionary(found):
        found = found.value_type
    views = getattr(types, "is_string_view", lambda _: False)
    for kind, test in {
        "null": types.is_null,
        "text": lambda t: types.is_string(t) or types.is_large_string(t) or views(t),
        "integer": types.is_integer,
        "fraction": types.is_floating,
        "boolean": types.is_boolean,
        "decimal": types.is_decimal,
    }.items():
        if test(found):
            return kind
    return str(found)
