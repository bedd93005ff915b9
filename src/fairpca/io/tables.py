"""Tables from files for the command line: CSV, TSV, Parquet, Feather/Arrow and NumPy."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fairpca._checks import require
from fairpca.io.delimited import Layout, detect, open_text

DELIMITED = (".csv", ".tsv", ".txt", ".dat", ".data")
PARQUET = (".parquet", ".pq")
ARROW = (".feather", ".arrow", ".ipc")
NUMPY = (".npy", ".npz")
_PURPOSE = "reading tables"


def file_kind(path: Path) -> str:
    """Return "delimited", "parquet", "arrow" or "numpy" by the ending; ValueError otherwise."""
    ending = (path.with_suffix("") if path.suffix.lower() == ".gz" else path).suffix.lower()
    kinds = {"parquet": PARQUET, "arrow": ARROW, "numpy": NUMPY, "delimited": (*DELIMITED, "")}
    for kind, endings in kinds.items():
        if ending in endings:
            return kind
    known = " ".join((*DELIMITED, *PARQUET, *ARROW, *NUMPY))
    raise ValueError(
        f"{path}: the ending {ending!r} is not known; pass a file that ends in one of {known}."
    )


@dataclass(frozen=True)
class TableFile:
    """Rows read from one or more files.

    Attributes
    ----------
    frame : pandas.DataFrame
        Column names are distinct strings.
    notes : tuple of str
        What was guessed or renamed.
    row_number_columns : tuple of str
        Columns that only count the rows of their file.
    headed : bool
        Whether the files name their columns.
    repeated : tuple of str
        Names that several columns had.
    """

    frame: Any
    notes: tuple[str, ...]
    row_number_columns: tuple[str, ...]
    headed: bool = True
    repeated: tuple[str, ...] = ()


def read_tables(paths: Iterable[str | Path], layout: Layout | None = None) -> TableFile:
    """Read files with the same columns and stack their rows.

    Parameters
    ----------
    paths : iterable of path
        .csv, .tsv, .txt (also .gz), .parquet, .feather, .arrow, .npy, .npz.
    layout : Layout, optional
        Of delimited text; what is None is guessed.
    """
    pandas = require("pandas", extra="app", purpose=_PURPOSE)
    files = [Path(path) for path in paths]
    tables = [_read_one(path, layout or Layout()) for path in files]
    if not tables:
        raise ValueError("no table was given; pass at least one file.")
    first = tables[0]
    columns = list(first.frame.columns)
    for path, table in zip(files, tables, strict=True):
        if set(table.frame.columns) != set(columns):
            odd = sorted(set(table.frame.columns) ^ set(columns))
            raise ValueError(
                f"{path} has other columns than the first file: {_quoted(odd)}. Pass tables with "
                "the same columns."
            )
    rows = [name for name in columns if all(name in t.row_number_columns for t in tables)]
    notes = tuple(dict.fromkeys(note for table in tables for note in table.notes))
    if len(tables) == 1:
        return first
    frame = pandas.concat([table.frame[columns] for table in tables], ignore_index=True)
    repeated = {name for table in tables for name in table.repeated}
    return TableFile(frame, notes, tuple(rows), first.headed, tuple(sorted(repeated)))


def _quoted(names: Sequence[str], most: int = 5) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def _read_one(path: Path, layout: Layout) -> TableFile:
    _check_file(path)
    kind = file_kind(path)
    if kind == "parquet":
        frame, notes, headed = _read_parquet(path), [f"{path.name}: Parquet"], True
    elif kind == "arrow":
        frame, notes, headed = _read_arrow(path), [f"{path.name}: Arrow"], True
    elif kind == "numpy":
        frame, notes, headed = _read_numpy(path), [f"{path.name}: NumPy"], False
    else:
        if ".tsv" in path.suffixes[-2:] and layout.separator is None:
            layout = Layout("\t", layout.decimal, layout.header_rows, layout.encoding)
        frame, notes, headed = _read_delimited(path, layout)
    frame, repeated, renamed = _distinct_names(frame)
    if len(frame) == 0:
        raise ValueError(f"{path} has no rows of data.")
    counters = tuple(name for name in frame.columns if _counts_rows(frame[name]))
    return TableFile(frame, (*notes, *renamed), counters, headed, repeated)


def _check_file(path: Path) -> None:
    if path.is_dir():
        raise ValueError(f"{path} is a directory; pass the files in it.")
    if not path.exists():
        raise FileNotFoundError(
            f"{path} does not exist; check the name and the current directory."
        )
    if path.is_file() and path.stat().st_size == 0:
        raise ValueError(f"{path} is empty (0 bytes).")


def _read_delimited(path: Path, layout: Layout) -> tuple[Any, list[str], bool]:
    pandas = require("pandas", extra="app", purpose=_PURPOSE)
    layout, head = detect(path, layout)
    rows = layout.header_rows or 0
    names = header_names(path, layout, head)
    try:
        with open_text(path, str(layout.encoding)) as file:
            frame = pandas.read_csv(
                file,
                sep=layout.separator,
                decimal=layout.decimal,
                header=None,
                names=list(range(len(names))),
                index_col=False,
                skiprows=records_above(path, layout, rows),
                skipinitialspace=True,
                low_memory=False,
                on_bad_lines="error",
            )
    except (pandas.errors.ParserError, pandas.errors.EmptyDataError) as error:
        what = str(error).strip().removeprefix("Error tokenizing data. C error: ")
        raise ValueError(
            f"{path} cannot be read as a table ({layout.describe()}): {what}."
        ) from None
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is not {layout.encoding}: {error.reason}; name its encoding."
        ) from None
    frame.columns = names
    return frame, [f"{path.name}: {layout.describe()}"], rows > 0


def header_names(path: Path, layout: Layout, head: Sequence[Sequence[str]]) -> list[str]:
    """Return the names of the columns of a delimited file from its first rows."""
    rows = layout.header_rows or 0
    width = max(len(row) for row in head[rows:])
    names = [cell.strip() for cell in head[rows - 1]] if rows else []
    if len(names) > width:
        raise ValueError(
            f"{path} names {len(names)} columns and its rows have {width}; check the separator "
            f"({layout.describe()})."
        )
    names = [name or f"column{j + 1}" for j, name in enumerate(names)]
    return names + [f"column{j + 1}" for j in range(len(names), width)]


def records_above(path: Path, layout: Layout, rows: int) -> int:
    """Return how many records the header takes, blank ones included (a cell may hold a line)."""
    seen = 0
    with open_text(path, str(layout.encoding)) as file:
        reader = csv.reader(file, delimiter=str(layout.separator), skipinitialspace=True)
        for count, row in enumerate(reader):
            if seen == rows:
                return count
            seen += any(cell.strip() for cell in row)
    return rows


def _read_parquet(path: Path) -> Any:
    parquet = require("pyarrow.parquet", extra="app", purpose="reading Parquet")
    arrow = require("pyarrow", extra="app", purpose="reading Parquet")
    try:
        return parquet.ParquetFile(path).read().to_pandas()
    except (arrow.ArrowException, ValueError) as error:
        raise ValueError(f"{path} is not a readable Parquet file: {error}") from None


def _read_arrow(path: Path) -> Any:
    arrow = require("pyarrow", extra="app", purpose="reading Feather and Arrow files")
    feather = require("pyarrow.feather", extra="app", purpose="reading Feather and Arrow files")
    ipc = require("pyarrow.ipc", extra="app", purpose="reading Feather and Arrow files")
    try:
        with path.open("rb") as file:
            magic = file.read(6)
        if magic in (b"ARROW1", b"FEA1\x00\x00") or magic[:4] == b"FEA1":
            return feather.read_table(path).to_pandas()
        with path.open("rb") as file:
            return ipc.open_stream(file).read_all().to_pandas()
    except (arrow.ArrowException, OSError, ValueError) as error:
        if isinstance(error, PermissionError):
            raise
        raise ValueError(f"{path} is not a readable Arrow file: {error}") from None


def _read_numpy(path: Path) -> Any:
    """Read arrays without pickle: a 2-D array becomes columns, a 1-D array one column."""
    pandas = require("pandas", extra="app", purpose=_PURPOSE)
    try:
        loaded = np.load(path, allow_pickle=False)
        arrays = {path.stem: loaded} if isinstance(loaded, np.ndarray) else dict(loaded.items())
    except (ValueError, EOFError, OSError) as error:
        if isinstance(error, PermissionError):
            raise
        raise ValueError(
            f"{path} cannot be read without running code stored in it, or is damaged ({error}); "
            "save plain numeric or text arrays."
        ) from None
    if len({len(array) if array.ndim else -1 for array in arrays.values()}) != 1:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise ValueError(
            f"{path} holds arrays of different lengths ({shapes}); pass one row per record."
        )
    single = len(arrays) == 1
    columns: dict[str, Any] = {}
    for name, array in arrays.items():
        if array.ndim == 1 and array.dtype.names:
            columns |= {field: array[field] for field in array.dtype.names}
        elif array.ndim == 1:
            columns[name] = array
        elif array.ndim == 2:
            prefix = "column" if single else f"{name}_"
            first = 1 if single else 0
            columns |= {f"{prefix}{j + first}": array[:, j] for j in range(array.shape[1])}
        else:
            raise ValueError(f"{path}: {name} has shape {array.shape}; pass rows and columns.")
    return pandas.DataFrame(columns)


def _distinct_names(frame: Any) -> tuple[Any, tuple[str, ...], list[str]]:
    """Return the frame with distinct names, the names that were repeated, and a note on them."""
    names: list[str] = []
    renamed = []
    taken = {str(name) for name in frame.columns}
    for column in frame.columns:
        name, number = str(column), 2
        while name in names:
            candidate = f"{column} ({number})"
            number += 1
            if candidate not in taken:
                name = candidate
        if name != str(column):
            renamed.append(name)
        names.append(name)
    columns = [str(column) for column in frame.columns]
    frame = frame.set_axis(names, axis=1)
    if not renamed:
        return frame, (), []
    repeated = tuple(sorted({name for name in columns if columns.count(name) > 1}))
    return frame, repeated, [f"repeated column names became {_quoted(renamed)}"]


def _counts_rows(column: Any) -> bool:
    """Return whether a column only numbers the rows: whole numbers, each one more."""
    if column.dtype.kind not in "iu" or len(column) < 3:
        return False
    values = column.to_numpy()
    return bool(np.all(np.diff(values) == 1))
