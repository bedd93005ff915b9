"""From files that need not fit into memory to moments and the preparation of their columns.

`fit` is the one command that can do without the rows: moments are enough for it. Rows are counted
here (``--engine local``) or on a cluster (dask, spark); what needs the rows themselves, such as
medians and indicators of text, is refused with the remedy before any row is read.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from fairpca._linalg import AnyArray
from fairpca.cli.loading import group_notes, layout_of, note_identifiers, renamed, whole_numbers
from fairpca.cli.options import FitOptions
from fairpca.cli.output import note, progress
from fairpca.io.columns import FEW_ROWS, counts_rows, listed
from fairpca.io.preparation import Feature, Preparation
from fairpca.io.sources import FORMATS, Source, open_source
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.groups import Threshold
from fairpca.moments.memory import check_moments_size

# Columnar files of more bytes than this are read in pieces unless asked otherwise: in memory
# their columns take several times as much, which an ordinary laptop no longer has.
_LARGE = 1_000_000_000


def choose_engine(options: FitOptions) -> str:
    """Return the engine to use: "memory", "local", "dask" or "spark".

    Without ``--engine`` that is "local" for directories, patterns of names, columnar files of
    more than a gigabyte, and where a checkpoint or a number of jobs is asked for; else "memory".

    Raises
    ------
    ValueError
        Where other options contradict the engine, naming both.
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

    Parameters
    ----------
    options : FitOptions
    engine : str
        What `choose_engine` returned, other than "memory".

    Returns
    -------
    moments : GroupMoments
        Of the prepared columns.
    preparation : Preparation
        How new rows become such columns.
    notes : tuple of str
        What was done.
    """
    if options.weight is not None and options.standardize:
        raise ValueError(
            "--weight with --standardize cannot be done in pieces: in memory, weights do not "
            "count in the standard deviation. Add --no-standardize, or use --engine memory."
        )
    paths, layout = [str(path) for path in options.tables], layout_of(options)
    columns = [_column(name, paths, layout) for name in options.group]
    weight = None if options.weight is None else _column(options.weight, paths, layout)
    # What every engine takes; a cluster has no say about layouts and crosses columns itself.
    shared = {"sensitive_features": columns, "sample_weight": weight}
    shared |= options.pick("unlabelled")
    local = {**shared, **options.pick("group_by"), "layout": layout}
    source, counters, first_values = _open(paths, options, local)
    features = list(source.wanted.features)
    many = f"{len(source.files)} file(s)"
    # Said before the work: the size of the moments depends on the columns alone.
    note(f"counting {many} in pieces; {check_moments_size(len(features), 1)}.")
    if engine == "local":
        moments = _count_here(paths, features, options, local)
    else:
        moments = _count_there(source, options, engine, shared)
    moments = _relabelled(moments, options.labels)
    moments, preparation = _prepared(moments, features, options.standardize)
    how = "standardised" if options.standardize else "not standardised"
    notes = [
        f"{int(moments.count.sum()):,} rows in {many}, in pieces",
        f"{len(features)} feature{'s' * (len(features) != 1)}, {how}",
        *group_notes([label.column for label in source.wanted.labels], features),
    ]
    if counters:
        notes.append(f"row number {listed(counters)} left out")
    note("read " + "; ".join(notes) + ".")
    notes += note_identifiers(first_values)
    return moments, preparation, tuple(notes)


def _column(entry: str, paths: Sequence[str], layout: Any) -> str:
    """Return the name of a column; a number counts columns, from 1, where there is no header.

    Only the first file is asked: files with other columns are refused later. A cut such as
    ``1>=65`` is returned with the name in place of the number.
    """
    from fairpca.io.delimited import open_texts
    from fairpca.io.sources import find_files

    cut = Threshold.parse(entry)
    if cut is not None and cut.column.isdigit():
        return f"{_column(cut.column, paths, layout)}{cut.sign}{cut.value}"
    if not entry.isdigit():
        return entry
    files, kind = find_files(paths)
    # Parquet and Arrow name their columns, and a column may well be called "1".
    headed = kind != "numpy"
    if kind == "delimited":
        headed = open_texts(files[:1], layout)[0].layout.header_rows != 0
    return entry if headed else f"column{entry}"


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


def _count_here(
    paths: Sequence[str], features: list[str], options: FitOptions, local: dict[str, Any]
) -> GroupMoments:
    """Return the moments of the rows, counted on this machine in bounded memory."""
    from fairpca.io import read_moments

    with progress("counting rows") as update:
        moments: GroupMoments = read_moments(
            paths,
            features=features,
            n_jobs=options.jobs,
            checkpoint=options.checkpoint,
            progress=lambda state: update(state.text()),
            **local,
        )
    return moments


def _count_there(
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
    cuts = [label.name for label in source.wanted.labels if label.cut is not None]
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


def _relabelled(moments: GroupMoments, entries: Sequence[str]) -> GroupMoments:
    """Return moments whose labels are as in memory: whole numbers whole, codes named.

    Parameters
    ----------
    moments : GroupMoments
        Rows without any label have the label None, also where columns are crossed.
    entries : sequence of str
        As `fairpca.cli.loading.renamed` takes them. Codes with one name become one group.

    Returns
    -------
    moments : GroupMoments
    """
    single = len(moments.names) == 1
    known = [label for label in moments.labels if label is not None]
    cells = zip(*[(label,) if single else label for label in known], strict=True)
    columns = dict(zip(moments.names, cells, strict=False))
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
    """Return the moments of the prepared columns, and how they are prepared.

    Parameters
    ----------
    moments : GroupMoments
        Of the columns as they are in the files.
    features : list of str
        Their names.
    standardize : bool
        Whether to divide by standard deviations. The moments are enough for that: no row is read
        again.

    Returns
    -------
    moments : GroupMoments
    preparation : Preparation
        The same that `fairpca.io.preparation.prepare` finds in memory.
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
