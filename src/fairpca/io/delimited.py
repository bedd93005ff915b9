"""Delimited text (CSV, TSV): what a file looks like inside, and how its rows are read.

`detect` guesses the encoding, the separator, the decimal sign and the rows of the header. Every
guess can be overruled, and what was guessed is said in one line. `read_text` is the one parser,
pandas: a table in memory is one call of it, `TextSource` reads some rows at a time. So both find
the same cells missing, the same numbers and the same errors.
"""

from __future__ import annotations

import codecs
import contextlib
import csv
import gzip
import io
import re
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fairpca._check import require
from fairpca._arrays import AnyArray
from fairpca.io.columnar import arrow, check_schemas
from fairpca.io.columns import (
    INEXACT,
    Choose,
    Wanted,
    all_columns,
    column_numbers,
    data_row,
    odd_cells,
)
from fairpca.io.sources import Coded, DataFile, Piece, Rows, Source
from fairpca.moments.storage import damage_named

# How much of a file is looked at to guess its layout. A quarter of a megabyte holds 60 rows of
# several hundred columns; a file with longer rows is guessed from fewer of them.
_HEAD_BYTES = 1 << 18
_HEAD_ROWS = 60
# Rows that decide whether a column is text or numbers, and what its labels are. A column that
# changes its mind later ends in an error that names the cell.
_TYPE_ROWS = 50_000
# What a damaged compressed file makes gzip raise.
_DAMAGE = (EOFError, zlib.error, gzip.BadGzipFile)
# What a cell says where a value is missing: the list of pandas.
_MISSING = """,#N/A,#N/A N/A,#NA,-1.#IND,-1.#QNAN,-NaN,-nan,1.#IND,1.#QNAN,<NA>,N/A,NA,NULL,NaN,\
None,n/a,nan,null""".split(",")
# Tried in this order: a file whose lines all have as many ";" is not separated by the decimal
# commas that stand between them.
_SEPARATORS = {"\t": "tab", ";": "semicolon", "|": "bar", ",": "comma"}
# The first line of a file that was written for Excel may say its separator.
_SAID = re.compile(r'"?sep=([^"])"?[\r\n]*', re.IGNORECASE)
# A file that starts with one of these marks says its encoding itself, as those of Excel do. The
# first one is longer than that of UTF-16, and begins with it.
_MARKS = {
    codecs.BOM_UTF32_LE: "utf-32",
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}


@dataclass(frozen=True)
class Layout:
    """How to read a delimited file; None is to be guessed.

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
        separator, rows = str(self.separator), self.header_rows
        parts = [f"{_SEPARATORS.get(separator, repr(separator))}-separated"]
        if self.decimal == ",":
            parts.append("decimal commas")
        parts.append("no header row" if rows == 0 else f"{rows} header row{'s' * (rows != 1)}")
        if self.encoding == "utf-8-sig":
            parts.append("UTF-8 with byte-order mark")
        elif self.encoding not in ("utf-8", None):
            parts.append(str(self.encoding))
        return ", ".join(parts)


def detect(path: Path, wanted: Layout) -> tuple[Layout, dict[int, list[str]]]:
    """Complete a layout by looking at the file's first rows.

    Returns the layout without None, and the first rows that are not blank, header included, by
    their number in the file.
    """
    with damage_named(f"{path} cannot be read", "write it again."), _opened(path) as file:
        start = file.read(_HEAD_BYTES)
    marked = next((name for mark, name in _MARKS.items() if start.startswith(mark)), None)
    encoding = _encoding(wanted.encoding, marked)
    if b"\0" in start and not encoding.startswith(("utf-16", "utf-32")):
        raise ValueError(
            f"{path} is not text (it holds zero bytes); pass a table as text, Parquet or NumPy."
        )
    # Not `splitlines`, which breaks lines at letters that pandas does not break them at.
    lines = io.StringIO(_decode(path, start, encoding), newline="").readlines()
    if len(start) == _HEAD_BYTES and len(lines) > 1:
        # The last line may be cut in the middle.
        lines = lines[:-1]
    said = _SAID.fullmatch(next(iter(lines), ""))
    separator = wanted.separator or (said[1] if said else _separator(lines))
    head = _rows(lines, separator)
    if not head:
        raise ValueError(f"{path} has no rows.")
    decimal = wanted.decimal or _decimal(head.values(), separator)
    rows = wanted.header_rows
    if rows is None:
        above = 1 if said and len(head) > 1 else 0
        rows = above + _header_rows(list(head.values())[above:], decimal)
    return Layout(separator, decimal, rows, encoding), head


def _encoding(wanted: str | None, marked: str | None) -> str:
    """Return the encoding of a file: the one asked for, or that of the mark at its beginning.

    The mark is no part of the first name, whoever names an encoding without it.
    """
    if wanted is None:
        return marked or "utf-8"
    try:
        # Python knows encodings of other things than text, such as hex.
        "".encode(wanted)
        name = codecs.lookup(wanted).name
    except (LookupError, UnicodeError):
        raise ValueError(f"encoding={wanted!r} is not known; try utf-8 or latin-1.") from None
    return marked if marked and (marked.startswith(name) or name.startswith(marked)) else name


def _opened(path: Path) -> Any:
    """Open a file for its bytes, those inside of one whose name ends in ``.gz``."""
    return gzip.open(path) if path.suffix.lower() == ".gz" else path.open("rb")


def _decode(path: Path, start: bytes, encoding: str) -> str:
    """Return the text of the first bytes, of which the last letter may be cut."""
    try:
        return codecs.getincrementaldecoder(encoding)().decode(start)
    except UnicodeError as error:
        # UTF-16 without its mark is no error of a certain byte.
        why = str(error)
        if isinstance(error, UnicodeDecodeError):
            why = f"{error.reason} at byte {error.start}"
        raise ValueError(
            f"{path} is not {encoding}: {why}. Name its encoding, for example latin-1 or cp1252."
        ) from None


def _rows(lines: Sequence[str], separator: str) -> dict[int, list[str]]:
    """Return the first rows that are not blank, each by its number among all rows."""
    rows: dict[int, list[str]] = {}
    try:
        for number, row in enumerate(_reader(lines, separator)):
            if any(cell.strip() for cell in row):
                rows[number] = row
            if len(rows) == _HEAD_ROWS:
                break
    except csv.Error as error:
        raise ValueError(f"the text cannot be split into columns: {error}.") from None
    return rows


def _reader(lines: Iterable[str], separator: str) -> Any:
    """Return what reads lines as rows of cells, and knows how many lines it has read."""
    return csv.reader(lines, delimiter=separator, skipinitialspace=True)


def _separator(lines: Sequence[str]) -> str:
    """Return the first separator by which nearly all rows have the same number of cells.

    Of few rows these may be all below the first, which then is a title of one cell, or lacks the
    name of the first column, as R writes it.
    """
    widths: dict[str, list[int]] = {}
    for separator in _SEPARATORS:
        with contextlib.suppress(ValueError):
            widths[separator] = [len(row) for row in _rows(lines, separator).values()]
    for separator, found in widths.items():
        for width, often in Counter(found).most_common(1):
            if width > 1 and often >= 0.9 * len(found):
                return separator
    for titled in (False, True):
        for separator, found in widths.items():
            first, below = found[:1], found[1:]
            alike = len(below) > 1 and len(set(below)) == 1
            if alike and 1 < below[0] != first[0] and titled == (first == [1]):
                return separator
    return ","


def _is_number(cell: str, decimal: str = ".") -> bool:
    cell = cell.replace(",", ".") if decimal == "," else cell
    try:
        float(cell)
    except ValueError:
        return False
    # Python reads 1_000 as a number, pandas does not.
    return "_" not in cell


def _decimal(head: Iterable[list[str]], separator: str) -> str:
    """Return "," where cells become numbers by reading commas as points."""
    cells = [cell for row in head for cell in row if "," in cell]
    numbers = sum(_is_number(cell, ",") for cell in cells)
    return "," if separator != "," and numbers > 0.5 * len(cells) else "."


# What stands for a missing value at the start of a column of numbers, and is no name of it.
_NO_NAMES = {"-", "--", ".", "?", *map(str.casefold, _MISSING)}


def _header_rows(head: list[list[str]], decimal: str) -> int:
    """Count the rows of names: 0 where the first row is all numbers, 2 where the second is names.

    The second row is names where it is text above columns of numbers, or, below a title that is
    alone in its row, where it is texts that no column repeats.
    """
    first = [cell.strip() for cell in head[0] if cell.strip()]
    if all(_is_number(cell, decimal) for cell in first):
        # Column numbers are names too; fewer than four of them may as well be data.
        counted = [[str(i + offset) for i in range(len(first))] for offset in (0, 1)]
        return 1 if len(first) > 3 and first in counted else 0
    if len(head) < 3:
        return 1
    text_above_numbers = new_texts = 0
    for j, cell in enumerate(head[1]):
        below = [row[j] for row in head[2:] if j < len(row) and row[j].strip()]
        empty = cell.strip().casefold() in _NO_NAMES
        named = not empty and not _is_number(cell, decimal)
        if named and below and all(_is_number(cell, decimal) for cell in below):
            text_above_numbers += 1
        new_texts += named and cell not in below
    # Of two columns the first may have no name.
    titled = len(first) == 1 and new_texts == len(head[1]) > 2
    return 2 if titled or 2 * text_above_numbers > len(head[1]) else 1


@dataclass(frozen=True)
class TextFile:
    """How one delimited file is read: its full layout, its columns, the records above the data."""

    layout: Layout
    names: tuple[str, ...]
    skip: int


def open_texts(files: Sequence[DataFile], layout: Layout) -> list[TextFile]:
    """Look at the first rows of every file and return how each is read.

    What is None in the layout is guessed, file by file. A file that is only a header has the
    layout of the first file with rows. ValueError if a file is no delimited text, or no file has
    rows.
    """
    if not isinstance(layout, Layout):
        raise ValueError(
            f"layout={layout!r} must be a Layout, such as "
            "fairpca.io.delimited.Layout(separator=';')."
        )
    texts: list[TextFile | None] = []
    for file in files:
        path, asked = Path(file.path), layout
        if ".tsv" in map(str.lower, path.suffixes[-2:]) and layout.separator is None:
            asked = replace(layout, separator="\t")
        full, head = detect(path, asked)
        _check_separator(path, asked, full, list(head.values()))
        # One row alone is a header, unless the caller says that there is none.
        alone = len(head) == 1 and layout.header_rows != 0
        texts.append(None if alone else _text_file(path, full, head))
    known = next((text for text in texts if text is not None), None)
    if known is None:
        raise ValueError(
            f"{files[0].path} has no row of data, so the table has no rows; pass one with rows."
        )
    found = []
    for file, text in zip(files, texts, strict=True):
        if text is None:
            # What separates the names of one row cannot be guessed. Its encoding is its own.
            like = replace(known.layout, encoding=layout.encoding)
            full, head = detect(Path(file.path), like)
            ((number, names),) = head.items()
            text = TextFile(full, tuple(map(str.strip, names)), number + 1)
        found.append(text)
    return found


def _check_separator(path: Path, asked: Layout, full: Layout, head: list[list[str]]) -> None:
    """Raise ValueError where a separator that was asked for leaves the header in one piece.

    Read with it, the table would be one column of text, named by all names of the header at once.
    """
    if asked.separator is None or not full.header_rows or {len(row) for row in head} != {1}:
        return
    seen = str(detect(path, replace(asked, separator=None))[0].separator)
    if seen != asked.separator and seen in head[full.header_rows - 1][0]:
        raise ValueError(
            f"{path}: with the separator {asked.separator!r} the header is a single "
            f"column; it looks {_SEPARATORS[seen]}-separated: use the separator "
            f"{seen!r}."
        )


def _text_file(path: Path, layout: Layout, head: dict[int, list[str]]) -> TextFile:
    """Return how a file with these first rows is read; columns without a name are numbered."""
    rows, cells = layout.header_rows or 0, list(head.values())
    if rows >= len(head):
        raise ValueError(
            f"{path} has {rows} header row(s) and no row of data; if the first row is data, say "
            "so with a header of 0 rows."
        )
    width = max(len(row) for row in cells[rows:])
    names = [cell.strip() for cell in cells[rows - 1]] if rows else []
    longer = sum(len(row) > len(names) for row in cells[rows:])
    if rows and 2 * longer <= len(cells) - rows:
        # A cell too many in a few rows moves the others to the side: the parser refuses them. In
        # most rows, it is a column without a name.
        if len(cells[rows]) > len(names):
            # Of the first row alone the parser would say nothing, nor of others as long as it.
            raise ValueError(
                f"{path}: the first row has {len(cells[rows])} cells and the header "
                f"{len(names)} names; check the separator ({layout.describe()}), or quote cells "
                "that hold it."
            )
        width = len(names) if longer else width
    if len(names) > width:
        raise ValueError(
            f"{path} names {len(names)} columns and its rows have {width}; check the separator "
            f"({layout.describe()})."
        )
    if rows and len(names) == width - 1 and _last_is_full(cells[rows:]):
        # R writes the names of rows first, and none for their column.
        names.insert(0, "")
    names += [""] * (width - len(names))
    named = tuple(name or f"column{j + 1}" for j, name in enumerate(names))
    # Blank rows and rows of several lines stand above the data as well.
    return TextFile(layout, named, list(head)[rows])


def _last_is_full(rows: Sequence[Sequence[str]]) -> bool:
    """Whether all rows of full width end in a cell that is not empty.

    One that is empty follows a separator at the end of rows.
    """
    width = max(len(row) for row in rows)
    return all(row[-1].strip() for row in rows if len(row) == width)


def read_text(
    path: str, text: TextFile, *, as_text: Iterable[str] = (), batch_rows: int | None = None
) -> Iterator[tuple[Any, int]]:
    """Read a delimited file with pandas, whole or `batch_rows` rows at a time.

    Columns of `as_text` keep the texts that their cells are. Yields frames of all columns under
    their names, which may repeat, and the bytes of the file read so far, a little ahead of the
    rows. ValueError naming the file where it is damaged or not such a table.
    """
    pandas = require("pandas", extra="data", purpose="reading tables")
    layout, texts, above = text.layout, set(as_text), 0
    try:
        with _opened(Path(path)) as raw:
            rows = io.TextIOWrapper(raw, encoding=layout.encoding, newline="")
            # Read by what has counted them: pandas skips a blank row that ends in \r and the one
            # after it as one.
            skipped = _reader(rows, str(layout.separator))
            for _ in range(text.skip):
                next(skipped, None)
            above = skipped.line_num
            reader = pandas.read_csv(
                rows,
                sep=layout.separator,
                decimal=layout.decimal,
                header=None,
                # Numbers, because names may repeat. All columns are parsed, because pandas does
                # not notice rows that are too long when it is asked for some columns only.
                names=list(range(len(text.names))),
                dtype={j: str for j, name in enumerate(text.names) if name in texts},
                na_values=_MISSING,
                keep_default_na=False,
                index_col=False,
                skipinitialspace=True,
                low_memory=False,
                # Without a number, all rows are one batch, larger than any table.
                chunksize=batch_rows or sys.maxsize,
            )
            with reader:
                for frame in reader:
                    frame.columns = list(text.names)
                    _clear_gaps(frame, texts)
                    yield frame, getattr(raw, "fileobj", raw).tell()
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not {layout.encoding}: {error.reason}; name its encoding."
        ) from None
    except (pandas.errors.ParserError, pandas.errors.EmptyDataError, *_DAMAGE) as error:
        if "Calling read(nbytes) on source failed" in str(error):
            # pandas loses an exception without a value on the way, which only Ctrl-C has.
            raise KeyboardInterrupt from None
        what = str(error).strip().removeprefix("Error tokenizing data. C error: ").rstrip(".")
        # Lines are counted from the top of the file.
        what = re.sub(r"(line|row) (\d+)", lambda at: f"{at[1]} {int(at[2]) + above}", what)
        raise ValueError(
            f"{path} cannot be read as a table ({layout.describe()}): {what}."
        ) from None


def _clear_gaps(frame: Any, texts: set[str]) -> None:
    """Make missing cells of a frame missing that pandas has left as they were written.

    It does so beside whole numbers of 2**63 and more, which it reads as text.
    """
    for j, (name, kind) in enumerate(frame.dtypes.items()):
        if kind.kind == "O" and name not in texts and not frame.iloc[:, j].hasnans:
            gaps = frame.iloc[:, j].isin(_MISSING)
            if gaps.any():
                frame.isetitem(j, frame.iloc[:, j].mask(gaps))


@dataclass(frozen=True)
class TextRows(Rows):
    """Rows of a delimited file: label columns as text, other columns as pandas reads them.

    The source knows what the texts of labels stand for, the piece where the rows stand.
    """

    frame: Any
    source: TextSource
    piece: Piece

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def decimal(self) -> str:
        """Decimal sign of the file."""
        return str(self.source.texts[self.piece.file].layout.decimal)

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
        codes, texts = _factorized(self.frame[name])
        kind, labels = self.source.kinds[name], []
        for place, text in enumerate(texts):
            try:
                labels.append(_read_label(kind, text, self.decimal))
            except (ValueError, KeyError):
                row = int((codes == place).argmax())
                raise self._not_a(name, row, f"{kind} as the labels above it") from None
        return codes.astype(np.int64), labels

    def _not_a(self, name: str, row: int, what: str) -> ValueError:
        """Return the error about a cell that holds something else than its column."""
        where = self.source.files[self.piece.file].path
        return ValueError(
            f"{where}, {data_row(self.piece.first_row + row)}: column {name!r} holds "
            f"{self.frame[name].iloc[row]!r}, which is not {what}; correct the cell, or leave the "
            "column out."
        )


# How the text of a label becomes a label. The first of these that takes all texts in the first
# rows of a file is the kind of its column. Whole numbers stay exact, however large they are.
_READ_LABEL: dict[str, Callable[[str], Any]] = {
    "a whole number": int,
    "a fraction": float,
    "a truth value": lambda text: {"true": True, "false": False}[text.lower()],
    "a text": str,
}


def _read_label(kind: str, text: str, decimal: str) -> Any:
    """Return the label that a text stands for; ValueError or KeyError if it is of another kind.

    Digits that begin with a zero are a code, such as a postal one, and no number: as numbers 01
    and 1 would be one group.
    """
    if kind in ("a whole number", "a fraction") and re.search(r"_|^[\s+-]*0\d", text):
        raise ValueError(text)
    points = decimal == "," and kind == "a fraction"
    return _READ_LABEL[kind](text.replace(",", ".") if points else text)


def _label_kind(texts: Sequence[str], decimal: str) -> str:
    """Return the first kind of label that all texts are."""
    for kind in _READ_LABEL:
        with contextlib.suppress(ValueError, KeyError):
            for text in texts:
                _read_label(kind, text, decimal)
            break
    # Any text is a text, the last kind.
    return kind


def _factorized(column: Any) -> tuple[AnyArray, list[str]]:
    """Return the codes of a pandas column of texts, -1 where there is none, and the texts.

    The parser skips spaces before a cell; those behind it tell no labels apart either.
    """
    codes, texts = column.factorize()
    short: dict[str, int] = {}
    places = np.array([short.setdefault(text.rstrip(), len(short)) for text in texts], dtype=int)
    return np.where(codes < 0, -1, np.append(places, -1)[codes]), list(short)


def label_column(texts: Any, decimal: str) -> Any:
    """Return a pandas column of texts as labels of the one kind that all of them are."""
    codes, found = _factorized(texts)
    kind = _label_kind(found, decimal)
    values = [_read_label(kind, text, decimal) for text in found]
    dtype = texts.dtype if kind == "a text" else None
    if kind == "a whole number" and max(map(abs, values), default=0) >= INEXACT:
        # Beside a gap they would become floats.
        dtype = object
    labels = type(texts)(values, dtype=dtype)
    # A cell without a label has the code -1, which is no position of the labels.
    return labels.reindex(codes).set_axis(texts.index)


@dataclass(frozen=True)
class TextSource(Source):
    """Delimited files; a piece carries its rows, because only a reader from the top finds them.

    `texts` are how each file is read, `kinds` what the texts of each label column stand for, a key
    of `_READ_LABEL`.
    """

    texts: tuple[TextFile, ...]
    kinds: dict[str, str]

    def identity(self) -> dict[str, Any]:
        """Return what must be the same for one reading to continue another."""
        layout = str(self.texts[0].layout)
        return {**super().identity(), "layout": layout, "kinds": self.kinds}

    def guesses(self) -> list[str]:
        """Return how the files are read; they may differ."""
        return list(dict.fromkeys(text.layout.describe() for text in self.texts))

    def pieces(self) -> Iterator[Piece]:
        """Parse the files from the top."""
        # How far it is shows in bytes: the rows are known at the end only.
        before, done, total = 0, 0, sum(file.size for file in self.files)
        for i, (file, text) in enumerate(zip(self.files, self.texts, strict=True)):
            file.check_unchanged()
            row = 0
            # Of columns that nobody needs pandas makes what it likes: of numbers no texts, which
            # take several times as long.
            labels = self.wanted.plain_labels
            frames = read_text(file.path, text, as_text=labels, batch_rows=self.batch_rows)
            for frame, stop in frames:
                # A file that is only a header has one frame, without rows.
                if len(frame):
                    share, content = (done + stop) / total, frame[self.wanted.columns]
                    yield Piece(i, row, before, share, content=content)
                row += len(frame)
            before, done = before + row, done + file.size

    def read(self, piece: Piece) -> Iterator[TextRows]:
        """Return the rows that the piece carries."""
        yield TextRows(piece.content, self, piece)


def open_files(
    files: Sequence[DataFile], choose: Choose, *, layout: Layout | None, **_: Any
) -> TextSource:
    """Return the source of delimited files; see `open_source`."""
    pa = arrow()
    texts = open_texts(files, layout or Layout())
    wanted = choose(all_columns([text.names for text in texts]))
    # Text has no types. Those that its first rows show are compared as if the files had them.
    stored = {"a whole number": pa.int64(), "a truth value": pa.bool_(), "a text": pa.string()}
    kinds: dict[str, str] = {}
    schemas = []
    for file, text in zip(files, texts, strict=True):
        types = _column_types(file, text, wanted)
        kinds = types | kinds
        found = {name: stored.get(kind, pa.float64()) for name, kind in types.items()}
        schemas.append(pa.schema([(name, found.get(name, pa.null())) for name in text.names]))
    check_schemas(files, schemas, wanted)
    # A label column without any value in the first rows is text, should there be values later.
    kinds = {name: kinds.get(name, "a text") for name in wanted.plain_labels}
    return TextSource(tuple(files), wanted, tuple(texts), kinds)


def _column_types(file: DataFile, text: TextFile, wanted: Wanted) -> dict[str, str]:
    """Return what the first rows of a file show of its columns.

    "a number" or "a text" for columns of numbers, a key of `_READ_LABEL` for labels; columns
    without a value are left out. A column of numbers with a few odd cells counts as numbers, so
    that the error that follows names the cell and not the column.
    """
    decimal = str(text.layout.decimal)
    labels = wanted.plain_labels
    frame, _ = next(read_text(file.path, text, as_text=labels, batch_rows=_TYPE_ROWS))
    found: dict[str, str] = {}
    for name in wanted.columns:
        if name not in frame or not frame[name].notna().any():
            continue
        column = frame[name].dropna()
        if name in wanted.plain_labels:
            found[name] = _label_kind(column.unique(), decimal)
        # Labels that are a feature, too, stay the numbers they are.
        if name in wanted.numbers and found.get(name, "a text") == "a text":
            odd = column_numbers(column, decimal)[1].any() and odd_cells(column, decimal) is None
            found[name] = "a text" if odd else "a number"
    return found
