"""What a delimited text file looks like inside: encoding, separator, decimal sign, header rows.

Every guess can be overruled; what was guessed is said in one line.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

# Enough to see the shape of a table.
_HEAD_BYTES = 1 << 18
_HEAD_ROWS = 60
# In this order: a file whose lines all have as many ";" is not separated by the decimal commas
# that stand between them.
_SEPARATORS = ("\t", ";", "|", ",")
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_SEPARATOR_NAMES = {"\t": "tab", ";": "semicolon", "|": "bar", ",": "comma"}


@dataclass(frozen=True)
class Layout:
    """How to read a delimited file; None and "auto" are to be guessed.

    Attributes
    ----------
    separator : str or None
        One character.
    decimal : str or None
        "." or ",".
    header_rows : int or None
        Rows of names at the top; the last of them counts.
    encoding : str or None
    """

    separator: str | None = None
    decimal: str | None = None
    header_rows: int | None = None
    encoding: str | None = None

    def describe(self) -> str:
        """Say it in a few words."""
        separator = str(self.separator)
        parts = [f"{_SEPARATOR_NAMES.get(separator, repr(separator))}-separated"]
        if self.decimal == ",":
            parts.append("decimal commas")
        rows = self.header_rows
        parts.append("no header row" if rows == 0 else f"{rows} header row{'s' * (rows != 1)}")
        if self.encoding not in ("utf-8", None):
            parts.append(
                "UTF-8 with byte-order mark"
                if self.encoding == "utf-8-sig"
                else str(self.encoding)
            )
        return ", ".join(parts)


def open_text(path: Path, encoding: str) -> io.TextIOWrapper:
    """Open a text file, through gzip where its name ends in .gz."""
    raw: Any = (gzip.open if path.suffix == ".gz" else open)(path, "rb")
    return io.TextIOWrapper(raw, encoding=encoding, newline="")


def detect(path: Path, wanted: Layout) -> tuple[Layout, list[list[str]]]:
    """Complete a layout by looking at the file's first rows.

    Returns
    -------
    layout : Layout
        Without None.
    head : list of list of str
        The first rows, header included.
    """
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        start = file.read(_HEAD_BYTES)
    encoding = wanted.encoding or _encoding(start)
    if b"\0" in start and not encoding.startswith("utf-16"):
        raise ValueError(
            f"{path} is not text (it holds zero bytes); pass a CSV, TSV, Parquet, Feather or "
            "NumPy file."
        )
    text = _decode(path, start, encoding)
    lines = text.splitlines(keepends=True)
    if len(start) == _HEAD_BYTES and len(lines) > 1:
        # The last line may be cut in the middle.
        lines = lines[:-1]
    separator = wanted.separator or _separator(lines)
    head = _rows(lines, separator)
    if not head:
        raise ValueError(f"{path} has no rows.")
    decimal = wanted.decimal or _decimal(head, separator)
    rows = _header_rows(head, decimal) if wanted.header_rows is None else wanted.header_rows
    if rows >= len(head):
        raise ValueError(
            f"{path} has {rows} header row(s) and no row of data; if the first row is data, say "
            "so with a header of 0 rows."
        )
    return replace(
        wanted, separator=separator, decimal=decimal, header_rows=rows, encoding=encoding
    ), head


def _encoding(start: bytes) -> str:
    for mark, name in _BOMS:
        if start.startswith(mark):
            return name
    return "utf-8"


def _decode(path: Path, start: bytes, encoding: str) -> str:
    try:
        decoder = codecs.getincrementaldecoder(encoding)()
        return decoder.decode(start)
    except LookupError:
        raise ValueError(
            f"encoding={encoding!r} is not known; try utf-8, latin-1 or utf-16."
        ) from None
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not {encoding}: {error.reason} at byte {error.start}. Name its encoding, "
            "for example latin-1 or cp1252."
        ) from None


def _rows(lines: Sequence[str], separator: str) -> list[list[str]]:
    rows: list[list[str]] = []
    try:
        for row in csv.reader(lines, delimiter=separator, skipinitialspace=True):
            if any(cell.strip() for cell in row):
                rows.append(row)
            if len(rows) == _HEAD_ROWS:
                break
    except csv.Error as error:
        raise ValueError(f"the text cannot be split into columns: {error}.") from None
    return rows


def _separator(lines: Sequence[str]) -> str:
    for separator in _SEPARATORS:
        try:
            counts = Counter(len(row) for row in _rows(lines, separator))
        except ValueError:
            continue
        if not counts:
            continue
        width, often = counts.most_common(1)[0]
        if width > 1 and often >= 0.9 * sum(counts.values()):
            return separator
    return ","


def _is_number(cell: str, decimal: str = ".") -> bool:
    cell = cell.strip()
    if decimal == ",":
        cell = cell.replace(",", ".")
    try:
        float(cell)
    except ValueError:
        return False
    return "_" not in cell


def _decimal(head: list[list[str]], separator: str) -> str:
    """Return "," where cells become numbers by reading commas as points."""
    if separator == ",":
        return "."
    cells = [cell for row in head for cell in row if "," in cell]
    return "," if cells and sum(_is_number(c, ",") for c in cells) > 0.5 * len(cells) else "."


def _header_rows(head: list[list[str]], decimal: str) -> int:
    """Count the rows of names: 0 where the first row is all numbers, 2 where the second is names.

    The second row is names where it is text above columns of numbers.
    """
    first = [cell for cell in head[0] if cell.strip()]
    if first and all(_is_number(cell, decimal) for cell in first):
        # Column numbers are names too; fewer than four of them may as well be data.
        counted = [[str(i + offset) for i in range(len(first))] for offset in (0, 1)]
        return 1 if len(first) > 3 and [cell.strip() for cell in first] in counted else 0
    if len(head) < 3:
        return 1
    width = len(head[1])
    text_above_numbers = 0
    for j in range(width):
        below = [row[j] for row in head[2:] if j < len(row) and row[j].strip()]
        named = head[1][j].strip() and not _is_number(head[1][j], decimal)
        if named and below and all(_is_number(cell, decimal) for cell in below):
            text_above_numbers += 1
    return 2 if 2 * text_above_numbers > width else 1
