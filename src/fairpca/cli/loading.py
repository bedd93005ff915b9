"""From files and options to rows and labels in memory, with an account of what was done.

`load` is what `audit`, `compare` and `fit` start with, `read` what `inspect` and `transform` start
with. Files are read by `fairpca.io.tables`, columns become numbers in `fairpca.io.preparation`;
here names on the command line become columns, and columns become labels. Whatever is guessed or
left out is said in one note on stderr and kept for the provenance of an audit.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fairpca._linalg import AnyArray, FloatArray
from fairpca.cli.options import ReadingOptions, TableOptions
from fairpca.cli.output import did_you_mean, note, progress
from fairpca.io.columns import choose_columns, data_row, listed, looks_like_id, matching
from fairpca.io.delimited import Layout
from fairpca.io.preparation import Preparation, prepare
from fairpca.io.tables import TableFile, read_tables
from fairpca.moments.groups import Threshold, are_measurements


@dataclass(frozen=True)
class Loaded:
    """Rows ready for a reducer.

    Attributes
    ----------
    X : ndarray of shape (m, n)
        The features, prepared.
    labels : dict of str to ndarray of shape (m,)
        Group columns by name.
    y, weight : ndarray of shape (m,) or None
        Target and row weights, where they were asked for.
    preparation : Preparation
        How the columns became features.
    source : dict
        Files and what was done to them, for the provenance of an audit.
    """

    X: FloatArray
    labels: dict[str, AnyArray]
    y: AnyArray | None
    weight: FloatArray | None
    preparation: Preparation
    source: dict[str, Any]


def layout_of(options: ReadingOptions) -> Layout:
    """Return the layout of delimited text the options ask for; None where it is to be guessed."""
    sep = {"tab": "\t", "\\t": "\t"}.get(options.sep or "", options.sep)
    if sep is not None and len(sep) != 1:
        raise ValueError(f"--sep {options.sep!r}: pass one character, or 'tab'.")
    if options.decimal not in (None, ".", ","):
        raise ValueError(f"--decimal {options.decimal!r}: pass '.' or ','.")
    return Layout(sep, options.decimal, options.header, options.encoding)


def read(options: ReadingOptions) -> tuple[TableFile, list[Any]]:
    """Read tables into one frame.

    Returns
    -------
    table : TableFile
        The rows of all files.
    files : list of dict
        Name, size and SHA-256 of every file.
    """
    with progress(f"reading {listed([path.name for path in options.tables])}"):
        table = read_tables(options.tables, layout_of(options))
        return table, [_file_record(path) for path in options.tables]


def load(options: TableOptions, *, target: str | None = None, weight: str | None = None) -> Loaded:
    """Read tables, pick columns, prepare them, and say on stderr what was done.

    Parameters
    ----------
    options : TableOptions
        The command's options.
    target, weight : str, optional
        Columns of a target and of row weights; they are no features.

    Returns
    -------
    data : Loaded

    Raises
    ------
    ValueError
        Naming the column, the option or the file that is wrong.
    """
    table, files = read(options)
    frame, names = table.frame, list(table.frame.columns)
    labels, used = group_labels(table, options.group)
    labels = renamed(labels, options.labels)
    outside = {name: find_column(table, name) for name in (target, weight) if name is not None}
    # Asked before anything is chosen, so that the error can suggest a name.
    for entry in (*options.features, *options.drop, *options.categorical):
        _known(entry, names)
    # A row number is left out unless somebody says it is a code.
    categorical = [name for entry in options.categorical for name in matching(entry, names)]
    counters = [name for name in table.row_number_columns if name not in categorical]
    features = choose_columns(
        names, options.features, options.drop, {*used, *outside.values(), *counters}
    )
    if not features:
        why = f"; {drop_options(options.drop)} leaves too many out" if options.drop else ""
        raise ValueError(f"no column is left as a feature beside {listed(used)}{why}.")
    preparation, prepared = prepare(
        frame,
        columns=features,
        categorical=categorical,
        standardize=options.standardize,
        missing=options.missing,
    )
    notes = [rows_text(len(frame)), *table.notes, *prepared.notes]
    notes += group_notes(used, features)
    if counters and not set(counters) <= set(features):
        notes.append(f"row number {listed(counters)} left out")
    note("read " + "; ".join(notes) + ".")
    asked = {*options.features, *categorical}
    unasked = [f.name for f in preparation.features if not f.date and f.name not in asked]
    notes += note_identifiers({name: _known_values(frame[name]) for name in unasked})
    # Rows that were dropped for missing values have no label and no target either.
    kept = prepared.kept
    y = None if target is None else as_written(frame[outside[target]])[kept]
    weights = None if weight is None else frame[outside[weight]].to_numpy(dtype=float)[kept]
    labels = {name: values[kept] for name, values in labels.items()}
    if options.unlabelled == "error":
        _check_labelled(labels, np.flatnonzero(kept))
    if len(prepared.X) < 2:
        raise ValueError(
            f"{len(prepared.X)} of {len(frame):,} row(s) is left, and one row has no variance; "
            "pass a table with more rows."
        )
    return Loaded(
        prepared.X, labels, y, weights, preparation, {"files": files, "preparation": notes}
    )


def _check_labelled(labels: Mapping[str, AnyArray], rows: AnyArray) -> None:
    """Refuse rows without a label; `rows` are the positions of the labels in the table."""
    for name, values in labels.items():
        gaps = [i for i, value in enumerate(values.tolist()) if value is None or value != value]
        if gaps:
            raise ValueError(
                f"--group {name}: {len(gaps):,} label(s) are missing, the first in "
                f"{data_row(int(rows[gaps[0]]))}; fill them in, or pass --unlabelled ignore to "
                "keep those rows in the mean and the pooled variance but out of the worst case."
            )


def group_notes(used: Sequence[str], features: Sequence[str]) -> list[str]:
    """Say which group columns are features, which happens only on request, and which are not."""
    roles = {"is no feature": [name for name in used if name not in features]}
    roles["is a feature, too, as asked"] = [name for name in used if name in features]
    return [f"group column {listed(names)} {role}" for role, names in roles.items() if names]


def note_identifiers(columns: Mapping[str, AnyArray]) -> list[str]:
    """Say on stderr which features look like identifiers; return that, or nothing, as a list.

    They are kept: only their owner knows what they are.
    """
    found = [name for name, values in columns.items() if looks_like_id(name, values)]
    if not found:
        return []
    look = "looks like an identifier and counts as a feature"
    if len(found) > 1:
        look = "look like identifiers and count as features"
    note(f"note: {listed(found)} {look}; to leave out: {drop_options(found)}.")
    return [f"{listed(found)} {look}"]


def _known_values(column: Any) -> AnyArray:
    """Return the values of a pandas column that are there; gaps of floats are left in as NaN."""
    plain = isinstance(column.dtype, np.dtype) and column.dtype.kind in "iuf"
    return np.asarray(column.to_numpy() if plain else column.dropna().to_numpy())


def rows_text(count: int) -> str:
    """Return a number of rows in words."""
    return f"{count:,} row{'s' * (count != 1)}"


def drop_options(names: Sequence[str]) -> str:
    """Return the options that leave columns out, as a shell takes them."""
    return " ".join(f"--drop {shlex.quote(name)}" for name in names)


def find_column(table: TableFile, name: str) -> str:
    """Return the column of that name; a number counts columns where there is no header.

    Parameters
    ----------
    table : TableFile
    name : str
        As given on the command line; "1" is the first column.

    Raises
    ------
    ValueError
        Where there is no such column, with the one that is spelled most alike, or where several
        columns had that name in the file.
    """
    names = list(table.frame.columns)
    if name in table.repeated:
        alike = [n for n in names if n == name or n.startswith(f"{name} (")]
        raise ValueError(
            f"{len(alike)} columns are called {name!r}; they are now {listed(alike)}. Rename the "
            "one you mean in the file."
        )
    if name in names:
        return name
    if not table.headed and name.isdigit() and 1 <= int(name) <= len(names):
        return str(names[int(name) - 1])
    raise _no_column(name, names)


def _known(entry: str, names: Sequence[str]) -> None:
    """Raise ValueError with a suggestion where a name or pattern matches no column."""
    try:
        matching(entry, names)
    except ValueError:
        raise _no_column(entry, names) from None


def _no_column(name: str, names: Sequence[str]) -> ValueError:
    return ValueError(
        f"there is no column {name!r}.{did_you_mean(name, names)} The table has "
        f"{listed(names, 12)}."
    )


def group_labels(table: TableFile, wanted: Sequence[str]) -> tuple[dict[str, AnyArray], list[str]]:
    """Return the labels by name, and the columns of the table they come from.

    Parameters
    ----------
    table : TableFile
    wanted : sequence of str
        Columns, or cuts of numbers such as ``age>=65``; a column of that very name comes first.

    Returns
    -------
    labels : dict of str to ndarray of shape (m,)
        By name of the column; None in an array of objects is a row without a label.
    used : list of str
        Each column once, in the order given. They are no features.
    """
    labels: dict[str, AnyArray] = {}
    used = []
    for entry in wanted:
        cut = None if entry in table.frame.columns else Threshold.parse(entry)
        column = find_column(table, entry if cut is None else cut.column)
        series = table.frame[column]
        if cut is None:
            labels[column] = as_written(series)
            _check_labels(column, labels[column])
        else:
            # A second cut of one column is named by what was written.
            name = entry if column in labels else column
            labels[name] = _cut(series, entry, replace(cut, column=column))
        used.append(column)
    return labels, list(dict.fromkeys(used))


def _cut(series: Any, entry: str, cut: Threshold) -> AnyArray:
    """Return two labels, on one side of a number and on the other; a gap has no label.

    Parameters
    ----------
    series : pandas.Series
    entry : str
        As given on the command line, for the error where the column holds text.
    cut : Threshold
    """
    try:
        numbers = series.to_numpy(dtype=float, na_value=np.nan)
    except (TypeError, ValueError):
        raise ValueError(
            f"--group {entry}: column {cut.column!r} holds text, not numbers."
        ) from None
    return cut.apply(numbers)


def as_written(series: Any) -> AnyArray:
    """Return the values of a pandas column as they were written in the file.

    A column of whole numbers with a gap is read as floats; its values are whole again here, with
    None in the gaps. Text is an array of objects with None in the gaps.
    """
    if series.dtype.kind in "iub" and not series.hasnans:
        return np.asarray(series.to_numpy())
    values = series.astype(object).where(series.notna(), None).tolist()
    if series.dtype.kind != "f":
        return np.array(values, dtype=object)
    whole = whole_numbers(values)
    if whole is None:
        return np.asarray(series.to_numpy())
    return np.array(whole, dtype=object if None in whole else np.int64)


def whole_numbers(values: Sequence[Any]) -> list[Any] | None:
    """Return floats as integers, None for None; None where one of them is no whole number.

    From 2**53 on every float is whole, so nothing is known about such numbers.

    Examples
    --------
    >>> from fairpca.cli.loading import whole_numbers
    >>> whole_numbers([1.0, None, 2.0])
    [1, None, 2]
    >>> whole_numbers([1.0, 2.5]) is None
    True
    """
    known = [value for value in values if value is not None]
    whole = all(isinstance(v, float) and v.is_integer() and abs(v) < 2**53 for v in known)
    return [None if v is None else int(v) for v in values] if known and whole else None


def _check_labels(column: str, values: AnyArray) -> None:
    """Refuse measurements as labels, with the remedy.

    It is about what people mean, not about what can be computed: from Python the same is a
    warning.
    """
    # NaN alone differs from itself.
    distinct = {value for value in values.tolist() if value is not None and value == value}
    if are_measurements(distinct, len(values)):
        cut = f"cut a number in two with --group '{column}>=VALUE', or "
        cut = cut if any(isinstance(value, int | float) for value in distinct) else ""
        raise ValueError(
            f"--group {column}: {len(distinct):,} distinct labels are too many to be groups; "
            f"{cut}label the rows first."
        )


def renamed(labels: Mapping[str, Any], entries: Sequence[str]) -> dict[str, Any]:
    """Return labels with the names that ``--labels`` gives them.

    Parameters
    ----------
    labels : dict of str to sequence
        Labels by column, None where there is none.
    entries : sequence of str
        As `label_names` takes them.

    Raises
    ------
    ValueError
        Naming the entry that cannot be read or the code that no row has.

    Examples
    --------
    >>> from fairpca.cli.loading import renamed
    >>> renamed({"school": [1, 2, None]}, ["1=graduate"])["school"].tolist()
    ['graduate', '2', None]
    """
    names = label_names(list(labels), entries)
    for column, pairs in names.items():
        codes = {str(value) for value in labels[column] if value is not None}
        for code, name in pairs.items():
            if code not in codes:
                hint = did_you_mean(code, codes) or f" The labels are {listed(sorted(codes))}."
                raise ValueError(
                    f"--labels {code}={name}: {code!r} is no label of {column!r}.{hint}"
                )
    return with_names(labels, names)


def label_names(columns: Sequence[str], entries: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the names that ``--labels`` gives to the codes of group columns.

    Parameters
    ----------
    columns : sequence of str
        The group columns.
    entries : sequence of str
        Such as ``1=graduate,2=university``, or ``SEX:1=male,2=female`` where several columns are
        given.

    Returns
    -------
    dict of str to dict
        For some columns, from code to name, both as text.

    Examples
    --------
    >>> from fairpca.cli.loading import label_names
    >>> label_names(["sex", "school"], ["school:1=graduate"])
    {'school': {'1': 'graduate'}}
    """
    found: dict[str, dict[str, str]] = {}
    for entry in entries:
        first = columns[0]
        column = next((name for name in columns if entry.startswith(f"{name}:")), first)
        if len(columns) > 1 and not entry.startswith(f"{column}:"):
            raise ValueError(f"--labels {entry}: begin with the column, such as {first}:{entry}.")
        for pair in entry.removeprefix(f"{column}:").split(","):
            # The label of a cut has a sign of equality itself; a name hardly ever has.
            code, _, name = (part.strip() for part in pair.rpartition("="))
            if not code or not name:
                raise ValueError(f"--labels {entry}: pass pairs such as 1=graduate,2=university.")
            found.setdefault(column, {})[code] = name
    return found


def with_names(
    labels: Mapping[str, Any], names: Mapping[str, Mapping[str, str]]
) -> dict[str, Any]:
    """Return labels by column with the names of their codes.

    Other codes of a renamed column keep their own text as a name; columns without names, and names
    of columns that are not there, are left alone.
    """
    found = dict(labels)
    for column in names.keys() & labels.keys():
        values = [None if v is None else names[column].get(str(v), str(v)) for v in labels[column]]
        found[column] = np.array(values, dtype=object)
    return found


def _file_record(path: Path) -> dict[str, Any]:
    """Return what tells one version of a file from another; the directory is nobody's business."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"name": path.name, "bytes": path.stat().st_size, "sha256": digest}
