"""Whole tables in memory, for the command line: CSV, TSV, Parquet, Feather, Arrow and NumPy.

The readers are those of files in pieces (`delimited`, `columnar`), so a table is the same table
either way. Only archives of several NumPy arrays are read here and nowhere else.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fairpca._check import distinct, listed, require
from fairpca.io.columnar import another_type, read_whole
from fairpca.io.columns import FEW_ROWS, column_numbers, counts_rows, matching, no_header
from fairpca.io.delimited import Layout, TextFile, label_column, open_texts, read_text
from fairpca.io.sources import DataFile, check_distinct, file_kind
from fairpca.moments.storage import damage_named


@dataclass(frozen=True)
class TableFile:
    """Rows read from one or more files; the names of columns are distinct strings.

    `notes` say what was guessed or renamed, `row_number_columns` are those that only count the
    rows of their file, `repeated` are names that several columns had.
    """

    frame: Any
    notes: tuple[str, ...]
    row_number_columns: tuple[str, ...]
    repeated: tuple[str, ...] = ()


def read_tables(
    paths: Iterable[str | Path],
    layout: Layout | None = None,
    labels: Sequence[str] = (),
    as_text: Sequence[str] = (),
) -> TableFile:
    r"""Read files with the same columns and stack their rows.

    They end in .csv, .tsv, .txt (also .gz), .parquet, .feather, .arrow, .npy or .npz. What is None
    in the layout of delimited text is guessed; its columns of `labels` hold labels, of which 01
    and 1 are two, and those of `as_text` keep the texts of the file. Both are given by names,
    numbers or patterns of names. ValueError names the file that is damaged, or differs from the
    others.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from fairpca.io.tables import read_tables
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "people.csv")
    ...     _ = path.write_text("sex,age\nf,31\nm,45\n")
    ...     table = read_tables([path])
    >>> table.frame["age"].tolist(), table.notes
    ([31, 45], ('people.csv: comma-separated, 1 header row',))
    """
    files = [Path(path) for path in paths]
    if not files:
        raise ValueError("no table was given; pass at least one file.")
    for path in files:
        if path.is_dir():
            raise ValueError(f"{path} is a directory; pass the files in it.")
    found = {path: DataFile.at(path) for path in files}
    check_distinct(files)
    delimited = [path for path in files if file_kind(path) == "delimited"]
    texts: dict[Path, TextFile] = {}
    if delimited:
        opened = open_texts([found[path] for path in delimited], layout or Layout())
        texts = dict(zip(delimited, opened, strict=True))
    tables = [(path, _read_one(path, texts.get(path), labels, as_text)) for path in files]
    columns = list(tables[0][1].frame.columns)
    for path, table in tables:
        odd = sorted(set(table.frame.columns) ^ set(columns))
        if odd:
            raise ValueError(
                f"{path} has other columns than the first file: {listed(odd, 5)}; pass equal ones."
            )
    # A file without rows has columns, but no types that could agree or disagree.
    full = [(path, table) for path, table in tables if len(table.frame)]
    if not full:
        raise ValueError(f"{files[0]} has no rows of data.")
    mixed = _mixed_columns(full, texts)
    if mixed:
        as_text = [*as_text, *mixed]
        full = [(path, _read_one(path, texts.get(path), labels, as_text)) for path, _ in full]
    for file in found.values():
        # A file that somebody still writes is no table yet.
        file.check_unchanged()
    return _stacked([table for _, table in full], columns, mixed)


def _read_one(
    path: Path, text: TextFile | None, labels: Sequence[str], as_text: Sequence[str]
) -> TableFile:
    """Return the rows of one file; arguments are those of `read_tables`."""
    kind = file_kind(path)
    if text is not None:
        frame = _read_delimited(path, text, labels, as_text)
        note = text.layout.describe() + no_header(text.names)
    elif kind == "numpy":
        frame, note = _read_numpy(path), "NumPy"
    elif kind not in ("parquet", "arrow"):
        raise ValueError(
            f"{path}: a {kind} file is read in pieces only; count it with fit --engine local, or "
            "with fairpca.io.read_moments."
        )
    else:
        # What pandas wrote as the index of a frame is no column of the table.
        frame = _truth_values(read_whole(str(path)).to_pandas().reset_index(drop=True))
        note = kind.capitalize()
    frame, repeated, renamed = _distinct_names(frame)
    whole = [name for name, kind in frame.dtypes.items() if getattr(kind, "kind", "") in "iu"]
    few = len(frame) < FEW_ROWS
    numbers = [name for name in whole if not few and counts_rows(frame[name].to_numpy())]
    return TableFile(frame, (f"{path.name}: {note}", *renamed), tuple(numbers), repeated)


def _mixed_columns(
    tables: Sequence[tuple[Path, TableFile]], texts: dict[Path, TextFile]
) -> list[str]:
    """Return the columns that are text in one file and numbers in another.

    Delimited files have no types, so the numbers of such a column are read again as the texts they
    are, which is what one file with all rows would give. Files with types are refused.
    """
    mixed: list[str] = []
    if len(tables) == 1:
        return mixed
    for name in tables[0][1].frame.columns:
        columns = {path: table.frame[name] for path, table in tables}
        # A column without any value is of no kind.
        known = {p: c.dtype.kind in "biuf" for p, c in columns.items() if c.notna().any()}
        if len(set(known.values())) < 2:
            continue
        mixed.append(name)
        text = next(path for path, number in known.items() if not number)
        if text not in texts:
            first = next(iter(known))
            other = next(path for path in known if known[path] != known[first])
            types = columns[other].dtype, columns[first].dtype
            raise another_type(str(other), name, *types, str(first))
    return mixed


def _stacked(tables: Sequence[TableFile], columns: Sequence[str], mixed: list[str]) -> TableFile:
    """Return the rows of tables with the same columns as one table."""
    pandas = require("pandas", extra="data", purpose="reading tables")
    notes = list(dict.fromkeys(note for table in tables for note in table.notes))
    if mixed:
        are = "is" if len(mixed) == 1 else "are"
        notes.append(f"{listed(mixed)} {are} text in some files, so {are} read as text in all")
    if len(tables) == 1:
        return replace(tables[0], notes=tuple(notes))
    # pandas would stack numbers with truth values, or with a column of nothing, as objects.
    numbers = [n for n in columns if any(t.frame[n].dtype.kind in "iuf" for t in tables)]
    frames = []
    for table in tables:
        found = table.frame[columns]
        others = [n for n in numbers if found[n].dtype.kind == "b" or not found[n].notna().any()]
        frames.append(found.astype(dict.fromkeys(others, float)))
    rows = [name for name in columns if all(name in t.row_number_columns for t in tables)]
    repeated = sorted({name for table in tables for name in table.repeated})
    frame = pandas.concat(frames, ignore_index=True)
    return TableFile(frame, tuple(notes), tuple(rows), tuple(repeated))


def _read_delimited(
    path: Path, text: TextFile, labels: Sequence[str], as_text: Sequence[str]
) -> Any:
    """Return a delimited file as a frame; arguments are those of `read_tables`."""
    texts = _named(as_text, text.names)
    coded = _named(labels, text.names) - texts
    frame = next(read_text(str(path), text, as_text=texts | coded))[0]
    decimal = str(text.layout.decimal)
    for j, name in enumerate(text.names):
        if name in coded:
            frame.isetitem(j, label_column(frame.iloc[:, j], decimal))
    frame = _truth_values(frame)
    for j, name in enumerate(text.names):
        column = frame.iloc[:, j]
        known = name in coded or name in texts or column.dtype.kind in "biuf"
        if known or not column.notna().any():
            continue
        # Whole numbers past the largest integer come as text, and are numbers all the same. The
        # first cell alone tells most columns of text.
        if not column_numbers(column.dropna().iloc[:1], decimal)[1].any():
            values, odd = column_numbers(column, decimal)
            if not odd.any():
                frame.isetitem(j, _whole(column, values))
    return frame


def _whole(texts: Any, values: Any) -> Any:
    """Return a column of numbers whose texts have digits only as whole numbers, if they fit.

    Beside a gap, pandas has no such numbers from 2**63 on; as fractions two would become one.
    """
    known = texts.dropna()
    if known.astype(str).str.fullmatch("[0-9]+").all() and np.nanmax(values) < 2.0**64:
        return known.map(int).astype("UInt64").reindex(texts.index)
    return values


def _named(entries: Sequence[str], names: Sequence[str]) -> set[str]:
    """Return the columns that entries name; one that names none is refused by who uses it."""
    found: set[str] = set()
    for entry in entries:
        with contextlib.suppress(ValueError):
            found.update(matching(entry, names))
    return found


def _truth_values(frame: Any) -> Any:
    """Return the frame with a type for truth values with gaps, of which pandas makes objects."""
    types = require("pandas.api.types", extra="data", purpose="reading tables")
    for j, kind in enumerate(frame.dtypes):
        if kind.kind == "O" and types.infer_dtype(frame.iloc[:, j], skipna=True) == "boolean":
            frame.isetitem(j, frame.iloc[:, j].astype("boolean"))
    return frame


def _read_numpy(path: Path) -> Any:
    """Return arrays as a frame, without pickle.

    A 2-D array becomes columns, a 1-D array one column, a structured array its fields.
    """
    pandas = require("pandas", extra="data", purpose="reading tables")
    what = f"{path} cannot be read without running code stored in it, or is damaged"
    with damage_named(what, "save plain numeric or text arrays."), path.open("rb") as file:
        loaded = np.load(file, allow_pickle=False)
        arrays = {path.stem: loaded} if isinstance(loaded, np.ndarray) else dict(loaded.items())
    if len({len(array) if array.ndim else -1 for array in arrays.values()}) != 1:
        shapes = ", ".join(f"{name} {array.shape}" for name, array in arrays.items())
        raise ValueError(f"{path} holds arrays of different lengths ({shapes}); cut them first.")
    frames = []
    for name, array in arrays.items():
        if array.ndim > 2:
            raise ValueError(f"{path}: {name} has shape {array.shape}; pass rows and columns.")
        # Nobody else holds the array, so a copy would only take time.
        frames.append(pandas.DataFrame(array, copy=False))
        if array.ndim == 2:
            # The columns of one array are numbered from 1, as those of a text without a header.
            prefix, first = ("column", 1) if len(arrays) == 1 else (f"{name}_", 0)
            frames[-1].columns = [f"{prefix}{j + first}" for j in range(array.shape[1])]
        elif not array.dtype.names:
            frames[-1].columns = [name]
    return pandas.concat(frames, axis=1)


def _distinct_names(frame: Any) -> tuple[Any, tuple[str, ...], list[str]]:
    """Return the frame with distinct names, the names that were repeated, and a note on them."""
    columns = [str(column) for column in frame.columns]
    names = distinct(columns)
    renamed = [new for new, old in zip(names, columns, strict=True) if new != old]
    repeated = tuple(sorted(name for name, often in Counter(columns).items() if often > 1))
    note = [f"repeated column names became {listed(renamed, 5)}"] if renamed else []
    return frame.set_axis(names, axis=1), repeated, note
