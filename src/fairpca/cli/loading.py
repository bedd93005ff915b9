"""From files and options to rows and labels in memory, or to moments of files of any size.

`load` is what `audit`, `compare` and `fit` start with, `read` what `inspect` and `transform` start
with. Files are read by `fairpca.io`; here names on the command line become columns, and columns
become labels. Whatever is guessed or left out is said in one note on stderr and kept for the
provenance of an audit.

`fit` can do without the rows: moments are enough for it, and `stream` counts them in pieces, here
(``--engine local``) or on a cluster (dask, spark). What needs the rows themselves, such as medians
and indicators of text, is refused with the remedy before any row is read.
"""

from __future__ import annotations

import hashlib
import importlib
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np

from fairpca._check import check_rank, did_you_mean, listed
from fairpca._arrays import AnyArray, FloatArray
from fairpca.cli.options import FitOptions, ReadingOptions, TableOptions
from fairpca.cli.output import note, note_read, progress
from fairpca.io import read_moments
from fairpca.io.columns import (
    FEW_ROWS,
    INEXACT,
    choose_columns,
    column_numbers,
    compound,
    counts_rows,
    data_row,
    known_column,
    label_columns,
    looks_like_id,
    matching,
)
from fairpca.io.delimited import Layout
from fairpca.io.preparation import Feature, Preparation, prepare
from fairpca.io.sources import FORMATS, Source, open_source
from fairpca.io.tables import TableFile, read_tables
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.groups import Groups, are_measurements
from fairpca.moments.memory import check_moments_size, moments_bytes, readable

# Columnar files of more bytes than this are read in pieces unless asked otherwise: in memory
# their columns take several times as much, which an ordinary laptop no longer has.
_LARGE = 1_000_000_000


@dataclass(frozen=True)
class Loaded:
    """Rows ready for a reducer: prepared features, labels by group column, and their origin.

    There are a target and row weights where they were asked for. The source, for the provenance of
    an audit, holds the files and what was done to them.
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


def read(options: ReadingOptions, as_text: Sequence[str] = ()) -> tuple[TableFile, list[Any]]:
    """Read tables into one frame; return it, and name, size and SHA-256 of every file.

    Columns of `as_text` keep the texts that delimited files have.
    """
    with progress(f"reading {listed([path.name for path in options.tables])}"):
        labels = getattr(options, "group", ())
        table = read_tables(options.tables, layout_of(options), labels, as_text)
        return table, [_file_record(path) for path in options.tables]


def load(options: TableOptions, *, target: str | None = None, weight: str | None = None) -> Loaded:
    """Read tables, pick columns, prepare them, say on stderr what was done, and return the rows.

    Columns of a `target` and of row weights are no features. ValueError names the column, the
    option or the file that is wrong.
    """
    table, files = read(options, options.categorical)
    frame, names = table.frame, list(table.frame.columns)
    labels, used = group_labels(table, options.group)
    labels = renamed(labels, options.labels)
    outside = {name: find_column(table, name) for name in (target, weight) if name is not None}
    weights = None if weight is None else row_weights(table, weight)
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
    note_read(notes)
    asked = {*options.features, *categorical}
    unasked = [f.name for f in preparation.features if not f.date and f.name not in asked]
    notes += note_identifiers({name: frame[name].dropna().to_numpy() for name in unasked})
    # Rows that were dropped for missing values have no label and no target either.
    kept = prepared.kept
    y = None if target is None else as_written(frame[outside[target]])[kept]
    weights = None if weights is None else weights[kept]
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


def row_weights(table: TableFile, name: str) -> FloatArray:
    """Return the weights in a column; ValueError names the first cell that is no number."""
    return _numbers(table.frame[find_column(table, name)], f"--weight {name}")


def _numbers(column: Any, asked: str) -> FloatArray:
    """Return a pandas column that an option asks for as numbers; a gap is NaN.

    ValueError names the option, as it was `asked`, and the first cell that is no number.
    """
    values, odd = column_numbers(column)
    if odd.any():
        row = int(odd.argmax())
        raise ValueError(
            f"{asked}: {column.iloc[row]!r} in {data_row(row)} is not a number; correct the cell, "
            "or name another column."
        )
    return values


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
    roles = {("is no feature", "are no features"): [n for n in used if n not in features]}
    asked = ("is a feature, too, as asked", "are features, too, as asked")
    roles[asked] = [name for name in used if name in features]
    return [
        f"group column{'s' * (len(names) > 1)} {listed(names)} {role[len(names) > 1]}"
        for role, names in roles.items()
        if names
    ]


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


def rows_text(count: int) -> str:
    """Return a number of rows in words."""
    return f"{count:,} row{'s' * (count != 1)}"


def drop_options(names: Sequence[str]) -> str:
    """Return the options that leave columns out, as a shell takes them."""
    return " ".join(f"--drop {shlex.quote(name)}" for name in names)


def find_column(table: TableFile, name: str) -> str:
    """Return the column of that name, as `known_column` does.

    ValueError where there is no such column, or where several columns had that name in the file.
    """
    names = list(table.frame.columns)
    if name in table.repeated:
        alike = [n for n in names if n == name or n.startswith(f"{name} (")]
        raise ValueError(
            f"{len(alike)} columns are called {name!r}; they are now {listed(alike)}. Rename the "
            "one you mean in the file."
        )
    return known_column(name, names)


def group_labels(table: TableFile, wanted: Sequence[str]) -> tuple[dict[str, AnyArray], list[str]]:
    """Return the labels of every row by name, and the columns of the table they come from.

    What is wanted are columns, or cuts of numbers such as ``age>=65``; a column of that very name
    comes first. None in an array of objects is a row without a label.
    """
    labels: dict[str, AnyArray] = {}
    found = label_columns(wanted, list(table.frame.columns), partial(find_column, table))
    for entry, label in zip(wanted, found, strict=True):
        series = table.frame[label.column]
        if label.cut is None:
            values = labels[label.name] = as_written(series)
            # NaN alone differs from itself.
            distinct = {value for value in values.tolist() if value is not None and value == value}
            _check_labels(label.column, distinct, len(values))
        else:
            labels[label.name] = label.cut.apply(_numbers(series, f"--group {entry}"))
    return labels, list(dict.fromkeys(label.column for label in found))


def as_written(series: Any) -> AnyArray:
    """Return the values of a pandas column as they were written in the file.

    A column of whole numbers with a gap is read as floats; its values are whole again here, with
    None in the gaps. Text is an array of objects with None in the gaps. ValueError names a column
    of lists or records.
    """
    kind = compound(series)
    if kind:
        raise ValueError(
            f"column {series.name!r} holds {kind}, not labels; write it as text or numbers first."
        )
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

    From 2**53 on every float is whole, so nothing is known about such numbers (`INEXACT`).
    """
    known = [value for value in values if value is not None]
    whole = all(isinstance(v, float) and v.is_integer() and abs(v) < INEXACT for v in known)
    return [None if v is None else int(v) for v in values] if known and whole else None


def _check_labels(column: str, distinct: set[Any], n_rows: int) -> None:
    """Refuse measurements as labels of a table with so many rows, with the remedy.

    It is about what people mean, not about what can be computed: from Python the same is a
    warning. Whole numbers that were rounded are refused, too: different labels may be one now.
    """
    floats = (value for value in distinct if isinstance(value, float) and value.is_integer())
    rounded = [value for value in floats if abs(value) >= INEXACT]
    if rounded:
        raise ValueError(
            f"--group {column}: labels such as {rounded[0]:.0f} have more digits than numbers "
            "keep apart; write a letter in front of them, or shorter codes."
        )
    if are_measurements(distinct, n_rows):
        cut = f"cut a number in two with --group '{column}>=VALUE', or "
        cut = cut if any(isinstance(value, int | float) for value in distinct) else ""
        raise ValueError(
            f"--group {column}: {len(distinct):,} distinct labels are too many to be groups; "
            f"{cut}label the rows first."
        )


def renamed(labels: Mapping[str, Any], entries: Sequence[str]) -> dict[str, Any]:
    """Return labels by column with the names that entries of ``--labels`` give them.

    ValueError names the entry that cannot be read or the code that no row has.
    """
    names = label_names(list(labels), entries)
    for column, pairs in names.items():
        codes = {str(value) for value in labels[column] if not _is_gap(value)}
        for code, name in pairs.items():
            if code not in codes:
                hint = did_you_mean(code, codes) or f" The labels are {listed(sorted(codes))}."
                raise ValueError(
                    f"--labels {code}={name}: {code!r} is no label of {column!r}.{hint}"
                )
    return with_names(labels, names)


def _is_gap(label: Any) -> bool:
    """Whether a label is missing: None, or NaN in a column of fractions."""
    return label is None or label != label


def label_names(columns: Sequence[str], entries: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the names that ``--labels`` gives to codes of group columns, by column and code.

    An entry is ``1=graduate,2=university``, or ``SEX:1=male,2=female`` where there are several
    columns.

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
            before = found.setdefault(column, {}).setdefault(code, name)
            if before != name:
                raise ValueError(
                    f"--labels {entry}: {code!r} is {before!r} already; name it once."
                )
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
        texts = names[column]
        values = [None if _is_gap(v) else texts.get(str(v), str(v)) for v in labels[column]]
        found[column] = np.array(values, dtype=object)
    return found


def _file_record(path: Path) -> dict[str, Any]:
    """Return what tells one version of a file from another; the directory is nobody's business."""
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"name": path.name, "bytes": path.stat().st_size, "sha256": digest}


def choose_engine(options: FitOptions) -> str:
    """Return the engine to use: "memory", "local", "dask" or "spark".

    Without ``--engine`` that is "local" for directories, patterns of names, columnar files of
    more than a gigabyte, and where a checkpoint or a number of jobs is asked for; else "memory".
    Other options that contradict the engine are a ValueError that names both.
    """
    engine = options.engine
    needs_memory = ["--categorical"] if options.categorical else []
    if options.missing != "error":
        needs_memory.append(f"--missing {options.missing}")
    local_only = {"--checkpoint": options.checkpoint, "--jobs": options.jobs}
    if engine == "auto":
        asked = any(value is not None for value in local_only.values())
        # A pattern such as data/*.parquet names no file; the readers in pieces expand it.
        many = any(not path.is_file() and set("*?[") & set(str(path)) for path in options.tables)
        folders = any(path.is_dir() for path in options.tables)
        endings = (*FORMATS["parquet"][0], *FORMATS["arrow"][0])
        columnar = [p for p in options.tables if p.suffix.lower() in endings and p.is_file()]
        size = sum(path.stat().st_size for path in columnar)
        large = size > _LARGE and not needs_memory
        engine = "local" if asked or many or folders or large else "memory"
    # An option that would be ignored is refused: its owner expects it to work.
    for name, value in local_only.items():
        if value is not None and engine != "local":
            raise ValueError(f"{name} goes with --engine local, not with --engine {engine}.")
    if options.scheduler is not None and engine not in ("dask", "spark"):
        raise ValueError(f"--scheduler goes with --engine dask or spark, not with {engine}.")
    if engine != "memory" and needs_memory:
        raise ValueError(
            f"{' and '.join(needs_memory)} cannot be done in pieces; use --engine memory, or "
            "prepare the tables first."
        )
    return engine


def stream(options: FitOptions, engine: str) -> tuple[GroupMoments, Preparation, tuple[str, ...]]:
    """Count the rows of the tables with an engine and say on stderr what was done.

    Returns the moments of the prepared columns, how new rows become such columns, and what was
    done in words. The engine is what `choose_engine` returned, other than "memory".
    """
    if options.weight is not None and options.standardize:
        raise ValueError(
            "--weight with --standardize cannot be done in pieces: in memory, weights do not "
            "count in the standard deviation. Add --no-standardize, or use --engine memory."
        )
    paths = [str(path) for path in options.tables]
    # What every engine takes; a cluster has no say about layouts and crosses columns itself.
    shared = {"sensitive_features": options.group, "sample_weight": options.weight}
    shared |= options.pick("unlabelled")
    local = {**shared, **options.pick("group_by"), "layout": layout_of(options)}
    source, counters, first_values = _open(paths, options, local)
    features = list(source.wanted.features)
    if isinstance(options.n_components, int):
        # A share takes rows to be found out, a number does not.
        check_rank(options.n_components, len(features))
    many = f"{len(source.files)} file(s)"
    # Said before the work: the size of the moments depends on the columns alone.
    check_moments_size(len(features), 1)
    size = readable(moments_bytes(len(features), 1))
    note(f"counting {many} in pieces; moments of {len(features):,} features take {size} a group.")
    if engine == "local":
        with progress("counting rows") as update:
            counted = read_moments(
                paths,
                features=features,
                n_jobs=options.jobs,
                checkpoint=options.checkpoint,
                # Whatever is refused from here on, no row need be counted again.
                keep_checkpoint=True,
                progress=lambda state: update(state.text()),
                **local,
            )
    else:
        counted = _count_on_cluster(source, options, engine, shared)
    _check_cells(counted, int(counted.count.sum()))
    moments = _relabelled(counted, options.labels)
    moments, preparation = _prepared(moments, features, options.standardize)
    how = "standardised" if options.standardize else "not standardised"
    notes = [
        f"{int(moments.count.sum()):,} rows in {many}, in pieces",
        *source.guesses(),
        f"{len(features)} feature{'s' * (len(features) != 1)}, {how}",
        *group_notes([label.column for label in source.wanted.labels], features),
    ]
    if counters:
        notes.append(f"row number {listed(counters)} left out")
    note_read(notes)
    notes += note_identifiers(first_values)
    # A model takes what the preparation makes of the columns, which has no names; the file has.
    return replace(moments, feature_names=None), preparation, tuple(notes)


def _open(
    paths: Sequence[str], options: FitOptions, local: dict[str, Any]
) -> tuple[Source, list[str], dict[str, AnyArray]]:
    """Return the source, the columns left out because they only number the rows, and first values.

    A row number has the largest variance of all columns without saying anything about a person.
    Who wants it as a feature names it with ``--feature``. The first values of the features that
    nobody named, by column, tell whether they look like identifiers.
    """
    features = options.features or None
    source = open_source(paths, features=features, drop=options.drop, **local)
    first = next((batch for piece in source.pieces() for batch in source.batches(piece)), None)
    found = {} if first is None else {name: np.asarray(column) for name, column in first.by_name()}
    if first is not None:
        # So many labels in a piece of the table are too many, however many rows follow.
        _check_cells(first.groups, sys.maxsize)
    counters = [n for n, c in found.items() if n not in options.features and counts_rows(c)]
    counters = _row_number_columns(source, counters)
    if counters:
        source = open_source(paths, features=features, drop=[*options.drop, *counters], **local)
    known = {*counters, *options.features}
    return source, counters, {n: c for n, c in found.items() if n not in known}


def _row_number_columns(source: Source, left: list[str]) -> list[str]:
    """Return which of some features only number the rows, in every file.

    The first batch shows which columns may do so; those alone, few if any, are read to the end.
    """
    narrow = replace(source, wanted=replace(source.wanted, features=tuple(left)))
    rows = [0] * len(source.files)
    last: dict[tuple[int, str], int] = {}
    for piece in narrow.pieces():
        if not left:
            break
        for batch in narrow.batches(piece):
            rows[piece.file] += len(batch.groups.codes)
            for name, column in batch.by_name():
                if not counts_rows(column, last.get((piece.file, name))):
                    left = [other for other in left if other != name]
                last[piece.file, name] = column[-1].item()
    return [] if any(0 < count < FEW_ROWS for count in rows) else left


def _count_on_cluster(
    source: Source, options: FitOptions, engine: str, shared: dict[str, Any]
) -> GroupMoments:
    """Return the moments of the rows, counted on a cluster, after refusing what it cannot do.

    The module of the engine in `fairpca.distributed` is imported only here: it brings a library
    that most people do not have.
    """
    if options.group_by == "marginal" and options.unlabelled == "ignore":
        raise ValueError(
            f"--group-by marginal with --unlabelled ignore cannot be done with --engine {engine}; "
            "use --engine local."
        )
    labels = zip(options.group, source.wanted.labels, strict=True)
    cuts = [entry for entry, label in labels if label.cut is not None]
    if cuts:
        raise ValueError(
            f"--group {cuts[0]!r} is a cut of numbers, which --engine {engine} does not take; use "
            "--engine local, or label the rows first."
        )
    room = importlib.import_module(f"fairpca.distributed.{engine}")
    with progress(f"counting rows with {engine}"):
        moments: GroupMoments = room.read_moments(
            [Path(file.path) for file in source.files],
            features=list(source.wanted.features),
            scheduler=options.scheduler,
            # Workers have memory of their own, which is not known here.
            memory_limit=None,
            **shared,
        )
    return moments


def _cells(found: Groups | GroupMoments) -> dict[str, Any]:
    """Return the labels of all groups by column; the label None, of no group, is left out."""
    single, known = len(found.names) == 1, [label for label in found.labels if label is not None]
    cells = zip(*[(label,) if single else label for label in known], strict=True)
    return dict(zip(found.names, cells, strict=False))


def _check_cells(found: Groups | GroupMoments, n_rows: int) -> None:
    """Refuse measurements as labels, as `_check_labels` does, column by column."""
    for column, labels in _cells(found).items():
        _check_labels(column, set(labels) - {None}, n_rows)


def _relabelled(moments: GroupMoments, entries: Sequence[str]) -> GroupMoments:
    """Return moments whose labels are as in memory: whole numbers whole, codes named.

    Rows without any label have the label None, also where columns are crossed. The entries are
    those of ``--labels``; codes with one name become one group.
    """
    single = len(moments.names) == 1
    known = [label for label in moments.labels if label is not None]
    columns = _cells(moments)
    columns = {name: whole_numbers(values) or values for name, values in columns.items()}
    columns = renamed(columns, entries if known else ())
    new = [cell[0] if single else cell for cell in zip(*columns.values(), strict=True)]
    names = {None: None, **dict(zip(known, new, strict=True))}
    labels = [names[label] for label in moments.labels]
    if not entries:
        return replace(moments, labels=tuple(labels))
    parts = [
        moments.pooled([i for i, other in enumerate(labels) if other == label], label)
        for label in dict.fromkeys(labels)
    ]
    # Merging sorts the labels, as counting in memory does.
    return reduce(GroupMoments.merge, parts)


def _prepared(
    moments: GroupMoments, features: list[str], standardize: bool
) -> tuple[GroupMoments, Preparation]:
    """Return the moments of the prepared columns, and the preparation that `prepare` would find.

    Given are the moments of the columns as they are in the files. They are enough to divide by
    standard deviations: no row is read again.
    """
    means, scales = [0.0] * len(features), [1.0] * len(features)
    if standardize:
        found = moments.standardized()
        moments, means, scales = found.moments, found.mean.tolist(), found.scale.tolist()
    prepared = tuple(
        Feature(name, (), (mean,), (scale,))
        for name, mean, scale in zip(features, means, scales, strict=True)
    )
    return moments, Preparation(prepared, standardize, "error")
