"""Delimited text (CSV, TSV): what a file looks like inside, and how its rows are read.

`detect` guesses the encoding, the separator, the decimal sign and the rows of the header. Every
guess can be overruled, and what was guessed is said in one line. `read_text` is the one parser,
pandas: a table in memory is one call of it, `TextSource` reads some rows at a time. So both find
the same cells missing, the same numbers and the same errors.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import io
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fairpca._checks import require
from fairpca._linalg import AnyArray
from fairpca.io.columns import Wanted, column_numbers, odd_cells
from fairpca.io.files import DataFile
from fairpca.io.sources import Coded, Piece, Source

# How much of a file is looked at to guess its layout. A quarter of a megabyte holds 60 rows of
# several hundred columns; a file with longer rows is guessed from fewer of them.
_HEAD_BYTES = 1 << 18
_HEAD_ROWS = 60
# Rows that decide whether a column is text or numbers, and what its labels are. A column that
# changes its mind later ends in an error that names the cell.
_TYPE_ROWS = 50_000
# What a damaged compressed file makes gzip raise.
_DAMAGE = (EOFError, zlib.error, gzip.BadGzipFile)
# Tried in this order: a file whose lines all have as many ";" is not separated by the decimal
# commas that stand between them.
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
    # An unknown encoding is noticed before there is a file to close.
    codecs.lookup(encoding)
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


@dataclass(frozen=True)
class TextFile:
    """How one delimited file is read.

    Attributes
    ----------
    layout : Layout
        Nothing in it is None.
    names : tuple of str
        Names of the columns.
    skip : int
        Records above the data.
    rows : bool
        Whether there is any data below the header.
    """

    layout: Layout
    names: tuple[str, ...]
    skip: int
    rows: bool = True


def open_texts(files: Sequence[DataFile], layout: Layout) -> list[TextFile]:
    """Look at the first rows of every file.

    Parameters
    ----------
    files : sequence of DataFile
        Delimited files.
    layout : Layout
        What is None is guessed, file by file.

    Returns
    -------
    list of TextFile
        A file that is only a header has the layout of the first file with rows.

    Raises
    ------
    ValueError
        If a file is no delimited text, or no file has rows.
    """
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
        skip = _records_above(path, full)
        texts.append(TextFile(full, tuple(_header_names(path, full, head)), skip))
    known = next((text for text in texts if text is not None), None)
    if known is None:
        raise ValueError(
            f"{files[0].path} has a header and no row of data, so the table has no rows; pass a "
            "table with rows."
        )
    return [text or _without_rows(file, known) for file, text in zip(files, texts, strict=True)]


def _only_header(path: Path, layout: Layout) -> bool:
    """Return whether a file has one line that is not blank."""
    if layout.header_rows == 0:
        return False
    lines = 0
    try:
        with open_text(path, layout.encoding or "utf-8") as file:
            for line in file:
                lines += bool(line.strip())
                if lines > 1:
                    return False
    except (UnicodeError, LookupError, *_DAMAGE):
        # `detect` says what to do about it.
        return False
    return lines == 1


def _without_rows(file: DataFile, known: TextFile) -> TextFile:
    """Return how a file that is only a header would be read."""
    with open_text(Path(file.path), str(known.layout.encoding)) as opened:
        rows = csv.reader(opened, delimiter=str(known.layout.separator), skipinitialspace=True)
        names = next(row for row in rows if any(cell.strip() for cell in row))
    return TextFile(known.layout, tuple(name.strip() for name in names), 0, rows=False)


def _header_names(path: Path, layout: Layout, head: Sequence[Sequence[str]]) -> list[str]:
    """Return the names of the columns from the first rows; columns without one are numbered."""
    rows = layout.header_rows or 0
    width = max(len(row) for row in head[rows:])
    names = [cell.strip() for cell in head[rows - 1]] if rows else []
    if len(names) > width:
        raise ValueError(
            f"{path} names {len(names)} columns and its rows have {width}; check the separator "
            f"({layout.describe()})."
        )
    names += [""] * (width - len(names))
    return [name or f"column{j + 1}" for j, name in enumerate(names)]


def _records_above(path: Path, layout: Layout) -> int:
    """Return how many records the header takes, blank ones included (a cell may hold a line)."""
    rows, seen = layout.header_rows or 0, 0
    with open_text(path, str(layout.encoding)) as file:
        reader = csv.reader(file, delimiter=str(layout.separator), skipinitialspace=True)
        for count, row in enumerate(reader):
            if seen == rows:
                return count
            seen += any(cell.strip() for cell in row)
    return rows


def read_text(
    path: str, text: TextFile, *, as_text: Iterable[str] = (), batch_rows: int | None = None
) -> Iterator[tuple[Any, int]]:
    """Read a delimited file with pandas, whole or some rows at a time.

    Parameters
    ----------
    path : str
        The file.
    text : TextFile
        How it is read.
    as_text : iterable of str, default=()
        Columns whose cells stay the texts they are.
    batch_rows : int, optional
        Rows at a time, by default all.

    Yields
    ------
    frame : pandas.DataFrame
        All columns, under their names. A column whose name occurred before is left as it is.
    position : int
        Bytes of the file read so far, a little ahead of the rows.

    Raises
    ------
    ValueError
        Naming the file, where it is damaged or not such a table.
    """
    pandas = require("pandas", extra="data", purpose="reading tables")
    layout, texts = text.layout, set(as_text)
    try:
        with Path(path).open("rb") as binary:
            raw: Any = gzip.GzipFile(fileobj=binary) if path.endswith(".gz") else binary
            file = io.TextIOWrapper(raw, encoding=layout.encoding, newline="")
            reader = pandas.read_csv(
                file,
                sep=layout.separator,
                decimal=layout.decimal,
                header=None,
                # Numbers, because names may repeat. All columns are parsed, because pandas does
                # not notice rows that are too long when it is asked for some columns only.
                names=list(range(len(text.names))),
                dtype={j: str for j, name in enumerate(text.names) if name in texts},
                index_col=False,
                skiprows=text.skip,
                skipinitialspace=True,
                low_memory=False,
                on_bad_lines="error",
                iterator=True,
                chunksize=batch_rows,
            )
            with reader:
                for frame in reader if batch_rows else [reader.read()]:
                    frame.columns = list(text.names)
                    yield frame, binary.tell()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not {layout.encoding}: {error.reason}; name its encoding."
        ) from None
    except (pandas.errors.ParserError, pandas.errors.EmptyDataError, *_DAMAGE) as error:
        what = str(error).strip().removeprefix("Error tokenizing data. C error: ").rstrip(".")
        raise ValueError(
            f"{path} cannot be read as a table ({layout.describe()}): {what}."
        ) from None


@dataclass(frozen=True)
class TextRows:
    """Rows of a delimited file.

    Attributes
    ----------
    frame : pandas.DataFrame
        Label columns as text, other columns as pandas reads them.
    kinds : dict of str to str
        Of every label column what its texts stand for, a key of `_READ_LABEL`.
    decimal : str
        Decimal sign of the file.
    where : str
        Path of the file.
    first_row : int
        Row of the file that these rows start with.
    """

    frame: Any
    kinds: dict[str, str]
    decimal: str
    where: str
    first_row: int

    def __len__(self) -> int:
        return len(self.frame)

    def numbers(self, name: str) -> AnyArray:
        """Return a column of numbers; ValueError naming the first cell that is none."""
        column = self.frame[name]
        if column.dtype.kind in "biuf":
            return np.asarray(column.to_numpy())
        values, odd = column_numbers(column, self.decimal)
        if odd.any():
            raise self._not_a(name, int(odd.argmax()), "a number")
        return values

    def labels(self, name: str) -> Coded:
        """Return a column of labels; only the distinct texts are converted."""
        codes, texts = self.frame[name].factorize()
        kind = self.kinds[name]
        labels: list[Any] = []
        for place, text in enumerate(texts):
            try:
                labels.append(_read_label(kind, text, self.decimal))
            except (ValueError, KeyError):
                row = int((codes == place).argmax())
                raise self._not_a(name, row, f"{kind} as the labels above it") from None
        return codes.astype(np.int64), labels

    def features(self, names: Sequence[str]) -> list[AnyArray]:
        """Return the feature columns."""
        return [self.numbers(name) for name in names]

    def _not_a(self, name: str, row: int, what: str) -> ValueError:
        """Return the error about a cell that holds something else than its column."""
        return ValueError(
            f"{self.where}, row {self.first_row + row:,}: column {name!r} holds "
            f"{self.frame[name].iloc[row]!r}, which is not {what}; correct the cell, or leave "
            "the column out."
        )


def _whole_number(text: str) -> int:
    if "_" in text:
        raise ValueError(text)
    return int(text)


def _fraction(text: str) -> float:
    if "_" in text:
        raise ValueError(text)
    return float(text)


def _truth(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


# How the text of a label becomes a label. The first of these that takes all texts in the first
# rows of a file is the kind of its column. Whole numbers stay exact, however large they are.
_READ_LABEL: dict[str, Callable[[str], Any]] = {
    "a whole number": _whole_number,
    "a fraction": _fraction,
    "a truth value": _truth,
    "a text": str,
}


def _read_label(kind: str, text: str, decimal: str) -> Any:
    """Return the label that a text stands for; ValueError or KeyError if it is of another kind."""
    points = decimal == "," and kind == "a fraction"
    return _READ_LABEL[kind](text.replace(",", ".") if points else text)


def _label_kind(texts: Sequence[str], decimal: str) -> str:
    """Return the first kind of label that all texts are."""
    for kind in _READ_LABEL:
        try:
            for text in texts:
                _read_label(kind, text, decimal)
        except (ValueError, KeyError):
            continue
        return kind
    raise AssertionError("any text is a text")  # pragma: no cover


def _kept_as_text(text: TextFile, wanted: Wanted) -> set[str]:
    """Return the columns that are not parsed: labels, and what is not needed at all."""
    return (set(text.names) - wanted.numbers) | set(wanted.plain_labels)


@dataclass(frozen=True)
class TextSource(Source):
    """Delimited files; a piece carries its rows, because only a reader from the top finds them.

    Attributes
    ----------
    texts : tuple of TextFile
        How each file is read.
    kinds : dict of str to str
        What the texts of each label column stand for, a key of `_READ_LABEL`.
    """

    texts: tuple[TextFile, ...]
    kinds: dict[str, str]

    def identity(self) -> dict[str, Any]:
        """Return what must be the same for one reading to continue another."""
        layout = str(self.texts[0].layout)
        return {**super().identity(), "layout": layout, "kinds": self.kinds}

    def pieces(self, skip: int = 0) -> Iterator[Piece]:
        """Parse the files; the first `skip` pieces are parsed and forgotten."""
        number = 0
        for i, (file, text) in enumerate(zip(self.files, self.texts, strict=True)):
            if not text.rows:
                continue
            file.check_unchanged()
            row, start = 0, 0
            texts = _kept_as_text(text, self.wanted)
            frames = read_text(file.path, text, as_text=texts, batch_rows=self.batch_rows)
            for frame, stop in frames:
                if number >= skip:
                    yield Piece(i, start, stop, row, frame[self.wanted.columns])
                row, start, number = row + len(frame), stop, number + 1

    def read(self, piece: Piece) -> Iterator[TextRows]:
        """Return the rows that the piece carries."""
        decimal, path = str(self.texts[piece.file].layout.decimal), self.files[piece.file].path
        yield TextRows(piece.content, self.kinds, decimal, path, piece.first_row)

    def sizes(self) -> Sequence[int]:
        """Return the bytes of every file."""
        return [file.size for file in self.files]


def column_types(file: DataFile, text: TextFile, wanted: Wanted) -> dict[str, str]:
    """Return what the first rows of a file show of its columns.

    A column of numbers with a few odd cells counts as numbers, so that the error that follows
    names the cell and not the column.

    Returns
    -------
    dict of str to str
        "a number" or "a text" for columns of numbers, a key of `_READ_LABEL` for labels; columns
        without a value are left out.
    """
    if not text.rows:
        return {}
    decimal = str(text.layout.decimal)
    texts = _kept_as_text(text, wanted)
    frame, _ = next(read_text(file.path, text, as_text=texts, batch_rows=_TYPE_ROWS))
    found: dict[str, str] = {}
    for name in wanted.columns:
        if name not in frame or not frame[name].notna().any():
            continue
        column = frame[name].dropna()
        if name in wanted.plain_labels:
            found[name] = _label_kind(column.unique(), decimal)
        if name in wanted.numbers:
            odd = column_numbers(column, decimal)[1].any() and odd_cells(column, decimal) is None
            found[name] = "a text" if odd else "a number"
    return found
