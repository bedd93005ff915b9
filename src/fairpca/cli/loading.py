"""From files and options to rows and labels, with an account of what was done."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from fairpca._linalg import AnyArray, FloatArray
from fairpca.cli.options import ReadingOptions, TableOptions
from fairpca.cli.terminal import note
from fairpca.io.delimited import Layout
from fairpca.io.preparation import Preparation, choose_columns, listed, matching, prepare
from fairpca.io.tables import TableFile, read_tables
from fairpca.moments.groups import Threshold

# More distinct labels than this is a measurement, not a group.
_MOST_LABELS = 1000


@dataclass(frozen=True)
class Loaded:
    """Rows ready for a reducer.

    Attributes
    ----------
    X : ndarray of shape (m, n)
    labels : dict of str to ndarray
        Group columns.
    y : ndarray or None
    weight : ndarray or None
    preparation : Preparation
    source : dict
        Files and what was done to them, for provenance.
    """

    X: FloatArray
    labels: dict[str, AnyArray]
    y: AnyArray | None
    weight: FloatArray | None
    preparation: Preparation
    source: dict[str, Any]


def layout_of(options: ReadingOptions) -> Layout:
    """Return the layout the options ask for."""
    sep = {"tab": "\t", "\\t": "\t"}.get(options.sep or "", options.sep)
    if sep is not None and len(sep) != 1:
        raise ValueError(f"--sep {options.sep!r}: pass one character, or 'tab'.")
    if options.decimal not in (None, ".", ","):
        raise ValueError(f"--decimal {options.decimal!r}: pass '.' or ','.")
    return Layout(sep, options.decimal, options.header, options.encoding)


def load(
    paths: Sequence[Path],
    group: Sequence[str],
    options: TableOptions,
    *,
    target: str | None = None,
    weight: str | None = None,
) -> Loaded:
    """Read tables, pick columns, prepare them, and say on stderr what was done."""
    table = read_tables(paths, layout_of(options))
    names = list(table.frame.columns)
    labels, used = group_labels(table, group)
    outside = [find_column(table, name) for name in (target, weight) if name is not None]
    categorical = [name for entry in options.categorical for name in matching(entry, names)]
    counters = [n for n in table.row_number_columns if n not in categorical]
    features = choose_columns(names, options.features, options.drop, {*used, *outside, *counters})
    preparation, prepared = prepare(
        table.frame,
        columns=features,
        categorical=categorical,
        standardize=options.standardize,
        missing=options.missing,
    )
    left = [f"group column {listed(used)} is no feature"]
    if counters and not set(counters) <= set(features):
        left.append(f"row number {listed(counters)} left out")
    notes = [f"{len(table.frame):,} rows", *table.notes, *prepared.notes, *left]
    note("read " + "; ".join(notes) + ".")
    kept = prepared.kept
    return Loaded(
        X=prepared.X,
        labels={name: values[kept] for name, values in labels.items()},
        y=None if target is None else _values(table.frame[find_column(table, target)])[kept],
        weight=None
        if weight is None
        else np.asarray(table.frame[find_column(table, weight)].to_numpy(dtype=float))[kept],
        preparation=preparation,
        source={"files": [_file_record(path) for path in paths], "preparation": notes},
    )


def find_column(table: TableFile, name: str) -> str:
    """Return the column of that name; a number counts columns where there is no header."""
    names = list(table.frame.columns)
    if name in table.repeated:
        raise ValueError(
            f"{names.count(name) + 1} or more columns are called {name!r}; they are now "
            f"{listed([n for n in names if n == name or n.startswith(name + ' (')])}. Rename the "
            "one you mean in the file."
        )
    if name in names:
        return name
    if not table.headed and name.isdigit() and 1 <= int(name) <= len(names):
        return str(names[int(name) - 1])
    raise ValueError(f"there is no column {name!r}; the table has {listed(names, 12)}.")


def group_labels(table: TableFile, wanted: Sequence[str]) -> tuple[dict[str, AnyArray], list[str]]:
    """Return the label columns by name, and the columns of the table they come from."""
    labels: dict[str, AnyArray] = {}
    used = []
    for entry in wanted:
        cut = Threshold.parse(entry)
        if cut and entry not in table.frame.columns:
            column = find_column(table, cut.column)
            labels[column if column not in labels else entry] = _cut(
                table.frame[column], entry, replace(cut, column=column)
            )
        else:
            column = find_column(table, entry)
            labels[column] = _values(table.frame[column])
            _check_labels(column, labels[column])
        used.append(column)
    return labels, list(dict.fromkeys(used))


def _cut(series: Any, entry: str, cut: Threshold) -> AnyArray:
    """Return two labels: on one side of a number and on the other."""
    try:
        numbers = series.to_numpy(dtype=float, na_value=np.nan)
    except (TypeError, ValueError):
        raise ValueError(
            f"--group {entry}: column {cut.column!r} holds text, not numbers."
        ) from None
    return cut.apply(numbers)


def _values(series: Any) -> AnyArray:
    """Return labels as they were written: whole numbers stay whole where some are missing."""
    if series.dtype.kind == "f":
        numbers = series.to_numpy()
        known = numbers[~np.isnan(numbers)]
        if len(known) and np.all(known == np.round(known)) and np.all(np.abs(known) < 2**53):
            whole = np.array([None if np.isnan(x) else int(x) for x in numbers], dtype=object)
            return whole if len(known) < len(numbers) else known.astype(np.int64)
        return np.asarray(numbers)
    if series.dtype.kind in "iub":
        return np.asarray(series.to_numpy())
    values = series.astype(object).where(series.notna(), None)
    return np.asarray(values.to_numpy(dtype=object))


def _check_labels(column: str, values: AnyArray) -> None:
    distinct = len({value for value in values.tolist() if value is not None})
    fractional = values.dtype.kind == "f" and distinct > 50
    if distinct > _MOST_LABELS or fractional:
        raise ValueError(
            f"--group {column}: {distinct:,} distinct labels are too many to be groups; cut a "
            f"number in two with --group '{column}>=VALUE', or label the rows first."
        )


def _file_record(path: Path) -> dict[str, Any]:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return {"name": path.name, "bytes": path.stat().st_size, "sha256": digest.hexdigest()}
