"""CSV and TSV files: parsed from the beginning, one block of bytes after the other."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from fairpca.io.columnar import ArrowSource, arrow, readable
from fairpca.io.delimited import Layout, detect, open_text
from fairpca.io.files import DataFile
from fairpca.io.sources import Piece
from fairpca.io.tables import header_names, records_above

# Fixed, so that a block is the same block in every run.
_BLOCK_BYTES = 8 << 20
# What pandas takes for missing, so that both ways of reading agree.
_MISSING = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN"),
    *("<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
)


@dataclass(frozen=True)
class TextFile:
    """How one delimited file is read.

    Attributes
    ----------
    layout : Layout
        Complete.
    names : tuple of str
        Of its columns.
    skip : int
        Records above the data.
    rows : bool
        Whether there is any data.
    """

    layout: Layout
    names: tuple[str, ...]
    skip: int
    rows: bool = True


@dataclass(frozen=True)
class TextSource(ArrowSource):
    """Delimited files; a piece carries its rows, because only a reader from the top finds them.

    Attributes
    ----------
    texts : tuple of TextFile
    types : tuple of (str, str)
        Arrow type of every column that is read.
    """

    texts: tuple[TextFile, ...]
    types: tuple[tuple[str, str], ...]

    def identity(self) -> dict[str, Any]:
        """Return what must be the same for two readings to continue one another."""
        types = [list(entry) for entry in self.types]
        return {**super().identity(), "layout": str(self.texts[0].layout), "types": types}

    def pieces(self, skip: int = 0) -> Iterator[Piece]:
        """Parse the files; the first `skip` blocks are parsed and forgotten."""
        number = 0
        for i, (file, text) in enumerate(zip(self.files, self.texts, strict=True)):
            if not text.rows:
                continue
            row = 0
            file.check_unchanged()
            for block, batch in enumerate(readable(file, _parse(file, text, dict(self.types)))):
                if number >= skip:
                    yield Piece(i, block, block + 1, batch.num_rows, row, batch)
                row += batch.num_rows
                number += 1

    def record_batches(self, piece: Piece) -> Iterator[Any]:
        """Return the rows the piece carries."""
        yield piece.content

    def share(self, piece: Piece) -> float | None:
        """Return the part of all bytes up to the end of a piece; unknown where compressed."""
        if any(file.path.endswith(".gz") for file in self.files):
            return None
        before = self.bytes_before
        inside = min(piece.stop * _BLOCK_BYTES, self.files[piece.file].size)
        return (before[piece.file] + inside) / before[-1]


def open_texts(files: list[DataFile], layout: Layout) -> list[TextFile]:
    """Look at the first rows of every file; the layout must be the same in all of them."""
    texts: list[TextFile | None] = []
    for file in files:
        path = Path(file.path)
        asked = layout
        if ".tsv" in path.suffixes[-2:] and layout.separator is None:
            asked = replace(layout, separator="\t")
        if _only_header(path, asked):
            texts.append(None)
            continue
        full, head = detect(path, asked)
        skip = records_above(path, full, full.header_rows or 0)
        texts.append(TextFile(full, tuple(header_names(path, full, head)), skip))
    known = next((text for text in texts if text is not None), None)
    if known is None:
        raise ValueError(f"{files[0].path} has a header and no rows; pass a table with rows.")
    return [text or _empty(file, known) for file, text in zip(files, texts, strict=True)]


def _only_header(path: Path, layout: Layout) -> bool:
    """Whether a file has one line that is not blank."""
    if layout.header_rows == 0:
        return False
    lines = 0
    try:
        with open_text(path, layout.encoding or "utf-8") as file:
            for line in file:
                lines += bool(line.strip())
                if lines > 1:
                    return False
    except (UnicodeDecodeError, LookupError):
        # `detect` says what to do about it.
        return False
    return lines == 1


def _empty(file: DataFile, known: TextFile) -> TextFile:
    with open_text(Path(file.path), str(known.layout.encoding)) as opened:
        rows = csv.reader(opened, delimiter=str(known.layout.separator), skipinitialspace=True)
        names = next(row for row in rows if any(cell.strip() for cell in row))
    return TextFile(known.layout, tuple(name.strip() for name in names), 0, rows=False)


def text_schema(file: DataFile, text: TextFile, columns: list[str] | None) -> Any:
    """Return the types found in the first block, widened to what later rows may hold."""
    pa, types = arrow(), arrow("pyarrow.types")
    if not text.rows:
        return pa.schema([(name, pa.null()) for name in text.names])
    first = next(readable(file, _parse(file, text, {}, columns)))
    fields = []
    for entry in first.schema:
        found = entry.type
        if types.is_integer(found):
            found = pa.int64()
        elif types.is_temporal(found):
            # Dates as labels are text, as they are in memory.
            found = pa.string()
        fields.append((entry.name, found))
    return pa.schema(fields)


def _parse(
    file: DataFile, text: TextFile, types: dict[str, str], columns: list[str] | None = None
) -> Iterator[Any]:
    pa, types_of = arrow(), arrow("pyarrow.types")
    text_reader, compute = arrow("pyarrow.csv"), arrow("pyarrow.compute")
    chosen = list(types) or columns
    wanted = {name: pa.type_for_alias(kind) for name, kind in types.items()}
    with text_reader.open_csv(
        file.path,
        read_options=text_reader.ReadOptions(
            block_size=_BLOCK_BYTES,
            skip_rows=text.skip,
            column_names=list(text.names),
            encoding=(text.layout.encoding or "utf-8").replace("-sig", ""),
        ),
        parse_options=text_reader.ParseOptions(
            delimiter=text.layout.separator, newlines_in_values=True
        ),
        convert_options=text_reader.ConvertOptions(
            include_columns=chosen,
            column_types=wanted,
            null_values=list(_MISSING),
            strings_can_be_null=True,
            decimal_point=text.layout.decimal or ".",
        ),
    ) as reader:
        for batch in reader:
            arrays = [
                compute.utf8_ltrim_whitespace(column)
                if types_of.is_string(column.type)
                else column
                for column in batch.columns
            ]
            yield pa.RecordBatch.from_arrays(arrays, names=batch.schema.names)
