"""Tables: files with equal columns, the roles of the columns, and their preparation.

Parquet, Feather and delimited text are read by pyarrow, arrays by NumPy. Of delimited text only
the separator and marks of an encoding are guessed, and one header row is expected; everything else
is said by a `Layout`. scikit-learn prepares the columns: gaps are filled in, text becomes
one column a level, and all are standardised. Read `open_files` and `prepare` first.
"""

from __future__ import annotations

import csv
import fnmatch
import gzip
import io
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import gen_batches

from fairpca._arrays import AnyArray, FloatArray
from fairpca._check import as_numpy, check_choice, did_you_mean, listed, require
from fairpca.moments.groups import Groups, Threshold
from fairpca.moments.storage import damage_named

_require = partial(require, extra="data", purpose="reading tables")
#: What to do about missing values.
MISSING = ("error", "drop", "mean", "median")
#: Text with more levels than this is a name or a note, not a category.
MOST_LEVELS = 50
_KINDS = {
    "text": (".csv", ".tsv", ".txt"),
    "parquet": (".parquet", ".pq"),
    "feather": (".feather", ".arrow"),
    "numpy": (".npy",),
}
_SEPARATORS = ",;\t|"
# Lines that are looked at to guess the separator and whether the first one holds names.
_FIRST_LINES = 50
_MARKS = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
# The largest block that pyarrow takes, and that of a stream, which must hold a whole row.
_LARGEST_BLOCK, _STREAM_BLOCK = 2**31 - 1, 2**24
# Names of columns that hold identifiers. A column of that name is one if it has many values.
_ID_NAME = re.compile(r"(?i:(^|[_\W])(id|uid|uuid|guid|key|nr|no|ssn)$|^id[_\W])|[a-z]I[dD]$")
_ID_LEVELS = 20
# Text that reads as a number, with either decimal sign.
_NUMBER = r"\s*[-+]?(\d+([.,]\d*)?|[.,]\d+)([eE][-+]?\d+)?\s*"


@dataclass(frozen=True)
class Layout:
    """Of delimited text; what is None is guessed.

    Attributes
    ----------
    sep : str, optional
        The separator.
    decimal : {".", ","}, default="."
    header : int, optional
        The line with the names, counted from 1; 0 where there are none.
    encoding : str, optional
        By default UTF-8, or UTF-16 with its mark.
    """

    sep: str | None = None
    decimal: str = "."
    header: int | None = None
    encoding: str | None = None


@dataclass(frozen=True)
class Files:
    """Files of one kind with equal columns, which together are one table.

    Attributes
    ----------
    paths : tuple of Path
    kind : str
        A key of the table of endings.
    heads : tuple of (tuple of str, Layout)
        Names of the columns of every file, and its layout with what was guessed.
    """

    paths: tuple[Path, ...]
    kind: str
    heads: tuple[tuple[tuple[str, ...], Layout], ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in the order of the first file."""
        return self.heads[0][0]

    def frame(self, texts: Sequence[str] = (), columns: Sequence[str] | None = None) -> Any:
        """Return all rows as a pandas frame; columns in `texts` of delimited files stay text."""
        wanted = self.names if columns is None else columns
        whole = _require("pandas").concat(self.batches(wanted, None, texts), ignore_index=True)
        if not len(whole):
            raise ValueError(f"{self.paths[0]} has no rows of data.")
        return whole

    def batches(
        self, columns: Sequence[str], n_rows: int | None, texts: Sequence[str] = ()
    ) -> Iterator[Any]:
        """Yield pieces of at most so many rows as pandas frames, or whole files, file by file."""
        pandas, wanted = _require("pandas"), list(dict.fromkeys(columns))
        for path in self.paths:
            with damage_named(f"{path} cannot be read"):
                if self.kind == "numpy":
                    rows = _array(path)
                    for part in gen_batches(len(rows), n_rows or len(rows)):
                        piece = np.asarray(rows[part])
                        yield pandas.DataFrame(piece, columns=self.names)[wanted]
                elif n_rows is None:
                    # Compressed text is at most some four times as long.
                    whole = self._dataset(path, texts, 4 * path.stat().st_size)
                    yield _frame(whole.to_table(columns=wanted))
                else:
                    stream = self._dataset(path, texts, _STREAM_BLOCK)
                    batches = stream.to_batches(columns=wanted, batch_size=n_rows)
                    yield from (_frame(batch) for batch in batches if batch.num_rows)

    def _dataset(self, path: Path, texts: Sequence[str], block: int) -> Any:
        """Return one file as a dataset of pyarrow; numbers of delimited text are floats.

        The types of delimited text are told by its first `block` bytes.
        """
        libraries = "pyarrow", "pyarrow.csv", "pyarrow.dataset"
        arrow, reader, datasets = map(_require, libraries)
        if self.kind != "text":
            return datasets.dataset(path, format=self.kind)
        names, layout = self.heads[self.paths.index(path)]
        read = reader.ReadOptions(
            column_names=list(names),
            skip_rows=layout.header,
            encoding="utf8" if str(layout.encoding).startswith("utf-8") else layout.encoding,
            block_size=min(max(block, _STREAM_BLOCK), _LARGEST_BLOCK),
        )
        parse = reader.ParseOptions(delimiter=layout.sep, newlines_in_values=True)
        convert = reader.ConvertOptions(strings_can_be_null=True, decimal_point=layout.decimal)
        convert.column_types = dict.fromkeys(texts, arrow.string())
        form = datasets.CsvFileFormat(parse, None, convert, read)
        # The first cells tell which columns are numbers. Whole ones may have fractions later on.
        try:
            schema = datasets.dataset(path, format=form).schema
        except arrow.ArrowInvalid as error:
            raise ValueError(str(error).rpartition("Invalid: ")[2]) from None
        types = arrow.types
        whole = [f.name for f in schema if types.is_integer(f.type) or types.is_null(f.type)]
        convert.column_types = dict.fromkeys(whole, arrow.float64()) | convert.column_types
        return datasets.dataset(path, format=datasets.CsvFileFormat(parse, None, convert, read))


def open_files(source: Any, layout: Layout | None = None) -> Files:
    """Find files and the names of their columns; nothing else is read.

    Parameters
    ----------
    source : path, or sequence of paths
        Files of one kind: .csv, .tsv, .txt (also .gz), .parquet, .feather, .npy. A folder
        stands for the files in it, except those whose names begin with ``.`` or ``_``.
    layout : Layout, optional
        Of delimited text.

    Raises
    ------
    ValueError
        Naming the file that is of another kind or has other columns than the first one.
    """
    given = [source] if isinstance(source, str | Path) else list(source)
    paths = [path for entry in given for path in _in_folder(Path(entry))]
    if not paths:
        raise ValueError("no file was given, or the folder is empty; pass at least one file.")
    kind = file_kind(paths[0])
    found: list[tuple[tuple[str, ...], Layout]] = []
    for path in paths:
        if file_kind(path) != kind:
            raise ValueError(f"{path} is of another kind than {paths[0]}; pass files of one kind.")
        with damage_named(f"{path} cannot be read"):
            found.append(_names(path, kind, layout or Layout()))
        odd = sorted(set(found[-1][0]) ^ set(found[0][0]))
        if odd:
            raise ValueError(f"{path} has other columns than {paths[0]}: {listed(odd)}.")
    repeated = sorted(name for name, count in Counter(found[0][0]).items() if count > 1)
    if repeated:
        raise ValueError(f"{paths[0]} has several columns called {listed(repeated)}; rename them.")
    return Files(tuple(paths), kind, tuple(found))


def file_kind(path: Path) -> str:
    """Return the kind of a file by its ending, or raise ValueError."""
    ending = (path.with_suffix("") if path.suffix == ".gz" else path).suffix.lower()
    for kind, endings in _KINDS.items():
        if ending in endings:
            return kind
    known = ", ".join(ending for endings in _KINDS.values() for ending in endings)
    hint = " Save the sheet as CSV." if ending.startswith(".xls") else ""
    raise ValueError(f"{path} is of no known kind; its name must end in one of {known}.{hint}")


def _in_folder(path: Path) -> list[Path]:
    """Return the files of a folder in order, or the file itself; OSError where it is missing."""
    if not path.is_dir():
        path.stat()
        return [path]
    inside = (p for p in path.rglob("*") if p.is_file())
    return sorted(
        p for p in inside if not any(s.startswith((".", "_")) for s in p.relative_to(path).parts)
    )


def _names(path: Path, kind: str, layout: Layout) -> tuple[tuple[str, ...], Layout]:
    """Return the names of the columns of a file, and its layout."""
    if kind == "text":
        return _text_names(path, layout)
    if kind == "numpy":
        return tuple(f"column{j + 1}" for j in range(_array(path).shape[1])), layout
    names = _require("pyarrow.dataset").dataset(path, format=kind).schema.names
    # What pandas stored as the index of a frame is no column of the table.
    return tuple(n for n in names if not re.fullmatch(r"__index_level_\d+__", n)), layout


def _array(path: Path) -> AnyArray:
    """Return the rows of an array on disk; what is not read does not enter memory."""
    rows: AnyArray = np.load(path, mmap_mode="r", allow_pickle=False)
    if rows.ndim != 2 or rows.dtype.kind not in "biuf":
        raise ValueError(f"it has shape {rows.shape} and type {rows.dtype}; save rows of numbers")
    return rows


def _text_names(path: Path, layout: Layout) -> tuple[tuple[str, ...], Layout]:
    """Return the names of the columns of delimited text, and the layout with what was guessed.

    `header` is then the number of lines above the first row of data.
    """
    opened: Any = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rb") as file:
        start = file.read(3)
    marked = (name for mark, name in _MARKS.items() if start.startswith(mark))
    encoding = layout.encoding or next(marked, "utf-8")
    try:
        with opened(path, "rt", encoding=encoding, newline="") as lines:
            above = [lines.readline() for _ in range(max((layout.header or 1) - 1, 0))]
            # Whole lines, however long they are.
            head = [line for line, _ in zip(lines, range(_FIRST_LINES), strict=False)]
    except (UnicodeError, LookupError) as error:
        raise ValueError(f"{error}; name its encoding, such as --encoding latin-1") from None
    if any("\0" in line for line in head):
        raise ValueError("it has NUL characters; name its encoding, such as --encoding utf-16")
    sep = {"tab": "\t", "\\t": "\t"}.get(layout.sep or "", layout.sep) or _separator(head)
    if len(sep) != 1:
        raise ValueError(f"--sep {sep!r} is not one character")
    check_choice("decimal", layout.decimal, (".", ","))
    reader = csv.reader(io.StringIO("".join(head)), delimiter=sep)
    first = next((row for row in reader if row), None)
    if first is None:
        raise ValueError("it is empty")
    skipped = len(above) + reader.line_num
    names = [name.strip() for name in first]
    if layout.header == 0:
        names, skipped = [""] * len(first), 0
    elif layout.header is None:
        _check_header(names, [row for row in reader if len(row) == len(names)])
    names = [name or f"column{j}" for j, name in enumerate(names, 1)]
    return tuple(names), Layout(sep, layout.decimal, skipped, encoding)


def _separator(head: Sequence[str]) -> str:
    """Return the separator that cuts all lines into as many fields, the most there are."""
    # The last line may be cut within quotes.
    lines = re.sub('"[^"]*"', "", "".join(head)).splitlines()
    lines = [line for line in lines[: len(lines) - 1 or 1] if line]

    def fields(sep: str) -> tuple[bool, int]:
        counts = [line.count(sep) for line in lines] or [0]
        return len(set(counts)) == 1 and counts[0] > 0, min(counts)

    return max(_SEPARATORS, key=fields)


def _check_header(names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Raise ValueError where the first row looks like data: taken for names, it would be lost.

    Names that are years, or count the columns, are whole numbers in even steps.
    """
    numbers = [name for name in names if re.fullmatch(_NUMBER, name)]
    steps = np.diff([float(name) for name in numbers]) if len(numbers) > 1 else np.zeros(1)
    even = steps[0] > 0 and bool(np.all(steps == steps[0])) and all(n.isdigit() for n in numbers)
    wrong = [] if even else numbers
    wrong += [name for j, name in enumerate(names) if name and any(row[j] == name for row in rows)]
    if wrong:
        raise ValueError(
            f"its first row has {listed(wrong, 3)} and looks like data, not like names of "
            "columns; say --header 0 if it is data, and --header 1 if these are names"
        )


def _frame(table: Any) -> Any:
    """Return a table of pyarrow as a frame of numbers, text and dates."""
    arrow, types = _require("pyarrow"), _require("pyarrow.types")
    fields = []
    for field in table.schema:
        kind = field.type
        if types.is_binary(kind):
            raise ValueError(
                f"column {field.name!r} is not UTF-8; say encoding= (--encoding latin-1)"
            )
        if types.is_dictionary(kind):
            kind = kind.value_type
        elif types.is_decimal(kind):
            kind = arrow.float64()
        elif types.is_boolean(kind) and table[field.name].null_count:
            kind = arrow.uint8()
        fields.append(field.with_type(kind))
    return table.cast(arrow.schema(fields)).to_pandas(ignore_metadata=True)


@dataclass(frozen=True)
class Roles:
    """What the columns of a table are for.

    Attributes
    ----------
    features : tuple of str
    labels : dict of str to (str, Threshold or None)
        By the name of a group column, the column of the table and what cuts it in two.
    weight, blocks : str or None
    """

    features: tuple[str, ...]
    labels: dict[str, tuple[str, Threshold | None]]
    weight: str | None = None
    blocks: str | None = None

    @classmethod
    def choose(
        cls,
        names: Sequence[str],
        *,
        sensitive_features: str | Sequence[str] = (),
        columns: Sequence[str] | None = None,
        drop: Sequence[str] | None = None,
        sample_weight: str | None = None,
        blocks: str | None = None,
    ) -> Roles:
        """Choose among the names of columns; ValueError for a name that is not there.

        `columns` and `drop` take patterns such as ``BILL_*``; without `columns` every column is a
        feature that has no other role.
        """
        labels: dict[str, tuple[str, Threshold | None]] = {}
        for entry in as_list(sensitive_features):
            cut = None if entry in names else Threshold.parse(entry)
            column = entry if cut is None else cut.column
            labels[entry if column in labels else column] = (_known(column, names)[0], cut)
        others = [_known(name, names)[0] for name in (sample_weight, blocks) if name is not None]
        outside = {*others, *(column for column, _ in labels.values())}
        outside |= {name for entry in as_list(drop) for name in _known(entry, names)}
        chosen = [name for entry in as_list(columns) for name in _known(entry, names)]
        features = tuple(n for n in dict.fromkeys(chosen or names) if n not in outside)
        if not features:
            raise ValueError("no column is left as a feature; drop fewer.")
        return cls(features, labels, sample_weight, blocks)

    @property
    def columns(self) -> list[str]:
        """All columns that are read."""
        others = [name for name in (self.weight, self.blocks) if name is not None]
        return [*self.features, *(column for column, _ in self.labels.values()), *others]

    @property
    def texts(self) -> list[str]:
        """Columns of labels, of which 01 and 1 are two."""
        found = [column for column, cut in self.labels.values() if cut is None]
        return found if self.blocks is None else [*found, self.blocks]

    def label_values(self, frame: Any) -> dict[str, AnyArray]:
        """Return the labels of every row by the name of their column."""
        found: dict[str, AnyArray] = {}
        for name, (column, cut) in self.labels.items():
            values = frame[column].to_numpy() if cut is None else numbers(frame, [column])[:, 0]
            found[name] = values if cut is None else cut.apply(values)
        return found

    def groups(self, frame: Any, **rules: Any) -> Groups:
        """Return the groups of rows, with `rules` of `Groups.from_labels`."""
        return Groups.from_labels(self.label_values(frame), **rules)

    def counting(self, frame: Any) -> Any:
        """Return the rows of a frame that have a weight: one of weight zero is no row."""
        weight = self.weights(frame)
        return frame if weight is None else frame.iloc[np.flatnonzero(weight)]

    def weights(self, frame: Any) -> FloatArray | None:
        """Return the weights of rows, None where all are one."""
        return None if self.weight is None else numbers(frame, [self.weight])[:, 0]


def as_list(given: str | Sequence[str] | None) -> list[str]:
    """Return one name or several as a list."""
    return [given] if isinstance(given, str) else list(given or ())


def _known(entry: str, names: Sequence[str]) -> list[str]:
    """Return the column of that name, or those that match a pattern; ValueError without any."""
    found = [entry] if entry in names else fnmatch.filter(names, entry)
    if not found:
        raise ValueError(
            f"the table has no column {entry!r}; it has {listed(names, 12)}."
            f"{did_you_mean(entry, names)}"
        )
    return found


def numbers(frame: Any, columns: Sequence[str]) -> FloatArray:
    """Return columns of a frame as float64; ValueError names a cell that is no finite number."""
    kinds = frame.dtypes.to_dict()
    odd = [n for n in columns if kinds[n].kind not in "biuf" and frame[n].notna().any()]
    if odd:
        cells = frame[odd[0]].dropna()
        row = int(next(iter(_odd_rows(cells, ".")), 0))
        cell, place = cells.iloc[row], cells.index[row]
        raise ValueError(
            f"column {odd[0]!r} is not numbers: {str(cell)[:40]!r} in data row {place + 1:,}; "
            "correct the cell, or drop the column."
        )
    found = as_numpy(frame[list(columns)]).to_numpy(dtype=np.float64)
    infinite = np.argwhere(np.isinf(found))
    if len(infinite):
        row, j = infinite[0]
        raise ValueError(
            f"column {columns[j]!r} is infinite, or too large for a number, in data row "
            f"{frame.index[row] + 1:,}; correct the cell, or drop the column."
        )
    return np.asarray(found)


def _odd_rows(cells: Any, decimal: str) -> AnyArray:
    """Return which texts do not read as numbers."""
    pandas = _require("pandas")
    texts = cells.astype(str).str.strip()
    if decimal == ",":
        texts = texts.str.translate(str.maketrans(",.", ".,"))
    return np.flatnonzero(pandas.to_numeric(texts, errors="coerce").isna())


@dataclass(frozen=True)
class Columns:
    """Which features are numbers, which are text with which levels, and why others are neither."""

    numbers: tuple[str, ...]
    levels: dict[str, list[str]]
    notes: tuple[str, ...]

    @classmethod
    def of(
        cls, frame: Any, features: Sequence[str], texts: Mapping[str, set[str]] | None = None
    ) -> Columns:
        """Look at the cells of features, and at more `texts` that they hold elsewhere."""
        found: list[str] = []
        levels: dict[str, list[str]] = {}
        left: list[str] = []
        for name in features:
            known = frame[name].dropna()
            why = _why_left_out(name, known)
            if not why and known.dtype.kind in "biuf":
                found.append(name)
            elif not why:
                distinct = sorted({*map(str, known.unique()), *(texts or {}).get(name, ())})
                if len(distinct) > 1:
                    _refuse_numbers(name, known)
                if 1 < len(distinct) <= MOST_LEVELS:
                    levels[name] = distinct
                else:
                    why = f"{len(distinct):,} distinct texts" if len(distinct) > 1 else "constant"
            if why:
                left.append(f"{name!r} ({why})")
        if not found and not levels:
            raise ValueError(f"no column is left as a feature: {listed(left, show=str)}.")
        notes = [f"left out {listed(left, show=str)}"] if left else []
        if levels:
            notes.append(f"one column for every level of {listed(list(levels))}")
        return cls(tuple(found), levels, tuple(notes))

    def take(self, frame: Any, missing: str) -> tuple[Any, AnyArray]:
        """Return the rows that can be prepared, and which rows of the frame they are."""
        pandas = _require("pandas")
        lacking = [n for n in (*self.numbers, *self.levels) if n not in frame.columns]
        if lacking:
            raise ValueError(
                f"the table lacks the column(s) {listed(lacking)} of the fit; it has "
                f"{listed(list(frame.columns), 12)}.{did_you_mean(lacking[0], frame.columns)}"
            )
        X = numbers(frame, self.numbers)
        kept: AnyArray = np.ones(len(X), dtype=bool)
        gaps = np.isnan(X)
        if missing in ("error", "drop") and gaps.any():
            if missing == "error":
                counts = zip(self.numbers, gaps.sum(axis=0).tolist(), strict=True)
                named = [f"{name!r} ({count})" for name, count in counts if count]
                raise ValueError(
                    f"missing values in {listed(named, show=str)}; say what to do with them: "
                    "--missing drop, mean or median."
                )
            kept = np.asarray(~gaps.any(axis=1))
        found = pandas.DataFrame(X[kept], columns=list(self.numbers), copy=False)
        for name in self.levels:
            # A missing category is no category: none of its columns is one.
            texts = frame[name][kept].astype(object)
            found[name] = texts.where(texts.notna(), "").astype(str).to_numpy()
        return found, kept

    def transformer(self, missing: str) -> Any:
        """Return what makes numbers of them, not fitted yet."""
        from sklearn.compose import ColumnTransformer
        from sklearn.impute import SimpleImputer
        from sklearn.preprocessing import OneHotEncoder

        fill = SimpleImputer(strategy=missing) if missing in ("mean", "median") else "passthrough"
        lists = [np.array(found, dtype=object) for found in self.levels.values()]
        coder = OneHotEncoder(categories=lists, handle_unknown="ignore", sparse_output=False)
        steps = [("numbers", fill, list(self.numbers)), ("text", coder, list(self.levels))]
        return ColumnTransformer(
            [step for step in steps if step[2]], verbose_feature_names_out=False
        )

    @classmethod
    def stored(cls, pipeline: Any) -> tuple[Columns, str]:
        """Return the columns of a fitted pipeline of ours, and what it does with gaps."""
        steps = {name: (step, used) for name, step, used in pipeline[0].transformers_}
        filled, used = steps.get("numbers", (None, []))
        coder, texts = steps.get("text", (None, []))
        lists = () if coder is None else coder.categories_
        levels = {name: list(found) for name, found in zip(texts, lists, strict=True)}
        return cls(tuple(used), levels, ()), getattr(filled, "strategy", "error")


def _why_left_out(name: str, known: Any) -> str:
    """Return why a column holds neither text nor numbers that measure something, or ""."""
    if not len(known):
        return "no values"
    if known.dtype.kind not in "biuf":
        has_text = known.map(lambda cell: isinstance(cell, str)).any()
        return "" if has_text else type(known.iloc[0]).__name__.lower()
    values = known.to_numpy()
    with np.errstate(invalid="ignore"):
        if values.dtype.kind == "b" or np.any(values % 1):
            return ""
    if len(values) > 2 and bool(np.all(np.diff(values.astype(np.float64)) == 1)):
        return "row number"
    many = _ID_NAME.search(name) and len(np.unique(values)) > _ID_LEVELS
    return "identifier" if many else ""


def _refuse_numbers(name: str, known: Any) -> None:
    """Raise ValueError where at least half of the texts of a column are numbers."""
    point, comma = (_odd_rows(known, decimal) for decimal in ".,")
    if min(len(point), len(comma)) * 2 > len(known):
        return
    if len(point) and not len(comma):
        raise ValueError(f"column {name!r} has decimal commas: say decimal=',' (--decimal ,).")
    row = int(point[0]) if len(point) else 0
    raise ValueError(
        f"column {name!r} holds numbers and text, the first {str(known.iloc[row])[:40]!r} in data "
        f"row {known.index[row] + 1:,}; correct such cells, or leave the column out (--drop)."
    )


@dataclass(frozen=True)
class Prepared:
    """Rows as numbers, which rows of the table they are, the fitted steps, and what was done."""

    X: FloatArray
    kept: AnyArray
    steps: tuple[tuple[str, Any], ...]
    notes: tuple[str, ...]


def prepare(
    frame: Any,
    features: Sequence[str],
    *,
    missing: str = "error",
    standardize: bool = True,
    sample_weight: FloatArray | None = None,
) -> Prepared:
    """Fit what makes numbers of the columns of a table, and apply it.

    Parameters
    ----------
    frame : pandas.DataFrame
    features : sequence of str
        Columns; those that measure nothing are left out with a note.
    missing : {"error", "drop", "mean", "median"}, default="error"
        Raise, drop the rows, or fill numbers in. A missing category is no category.
    standardize : bool, default=True
        Subtract the mean and divide by the standard deviation of every resulting column.
    sample_weight : ndarray of shape (n_rows,), optional
        Weights of the mean and the standard deviation.

    Examples
    --------
    >>> import pandas as pd
    >>> from fairpca.io.tables import prepare
    >>> table = pd.DataFrame({"age": [20, 40, 30, 30], "plan": ["a", "b", "a", "a"]})
    >>> prepare(table, ["age", "plan"], standardize=False).X[1].tolist()
    [40.0, 0.0, 1.0]
    """
    from sklearn.preprocessing import StandardScaler

    check_choice("missing", missing, MISSING)
    columns = Columns.of(frame, features)
    table, kept = columns.take(frame, missing)
    if not kept.any():
        raise ValueError("every row has a missing value; fill them: --missing mean.")
    transformer = columns.transformer(missing)
    X = np.asarray(transformer.fit_transform(table), dtype=np.float64)
    steps = [("columns", transformer)]
    if standardize:
        weight = None if sample_weight is None else sample_weight[kept]
        scaler = StandardScaler(copy=False)
        X = scaler.fit_transform(X, sample_weight=weight)
        steps.append(("scale", scaler))
    notes = list(columns.notes)
    filled = int(np.isnan(table[list(columns.numbers)].to_numpy()).sum())
    if filled:
        notes.append(f"{filled:,} missing number(s) replaced by the {missing}")
    if not kept.all():
        notes.append(f"{int((~kept).sum()):,} row(s) with missing values dropped")
    return Prepared(X, kept, tuple(steps), tuple(notes))
