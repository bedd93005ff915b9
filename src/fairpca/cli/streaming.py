"""From files that need not fit into memory to moments and the preparation of their columns."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fairpca._checks import check_choice
from fairpca.cli.loading import layout_of
from fairpca.cli.options import EngineOptions, TableOptions
from fairpca.cli.terminal import note, plain
from fairpca.io.preparation import Feature, Preparation, listed
from fairpca.io.tables import ARROW, PARQUET
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.groups import Threshold
from fairpca.moments.memory import check_moments_size

if TYPE_CHECKING:
    from fairpca.io import Progress
    from fairpca.io.sources import Source

ENGINES = ("auto", "memory", "local", "dask", "spark")
# Columnar files of more bytes than this are read in pieces unless asked otherwise.
_LARGE = 1_000_000_000
_SPARSE_SECONDS = 30.0
_LINE_SECONDS = 0.1


@dataclass(frozen=True)
class Streamed:
    """What a fit needs of tables that were read in pieces.

    Attributes
    ----------
    moments : GroupMoments
        Of the prepared columns.
    preparation : Preparation
    notes : tuple of str
        What was done.
    """

    moments: GroupMoments
    preparation: Preparation
    notes: tuple[str, ...]


def choose_engine(asked: EngineOptions, tables: Sequence[Path], options: TableOptions) -> str:
    """Return the engine to use, or raise ValueError where options contradict it."""
    check_choice("--engine", asked.engine, ENGINES)
    engine = asked.engine
    reasons = _needs_memory(options)
    if engine == "auto":
        wanted = asked.checkpoint is not None or asked.jobs is not None
        many = any(path.is_dir() or _is_pattern(path) for path in tables)
        large = _columnar_bytes(tables) > _LARGE
        engine = "local" if wanted or many or (large and not reasons) else "memory"
    for name, given in (("--checkpoint", asked.checkpoint), ("--jobs", asked.jobs)):
        if given is not None and engine != "local":
            raise ValueError(f"{name} goes with --engine local, not with --engine {engine}.")
    if asked.scheduler is not None and engine not in ("dask", "spark"):
        raise ValueError(f"--scheduler goes with --engine dask or spark, not with {engine}.")
    if engine != "memory" and reasons:
        raise ValueError(
            f"{' and '.join(reasons)} cannot be done in pieces; use --engine memory, or prepare "
            "the tables first."
        )
    return engine


def _is_pattern(path: Path) -> bool:
    return not path.exists() and any(sign in str(path) for sign in "*?[")


def _needs_memory(options: TableOptions) -> list[str]:
    reasons = []
    if options.categorical:
        reasons.append("--categorical")
    if options.missing != "error":
        reasons.append(f"--missing {options.missing}")
    return reasons


def _columnar_bytes(tables: Sequence[Path]) -> int:
    columnar = [path for path in tables if path.suffix.lower() in (*PARQUET, *ARROW)]
    return sum(path.stat().st_size for path in columnar if path.is_file())


def stream(
    tables: Sequence[Path],
    group: Sequence[str],
    options: TableOptions,
    engine: EngineOptions,
    *,
    name: str,
    weight: str | None,
) -> Streamed:
    """Count the rows of the tables with an engine and say on stderr what was done."""
    from fairpca.io.open_source import open_source

    if weight is not None and options.standardize:
        raise ValueError(
            "--weight with --standardize cannot be done in pieces: in memory, weights do not "
            "count in the standard deviation. Add --no-standardize, or use --engine memory."
        )
    paths = [str(path) for path in tables]
    layout = layout_of(options)
    labels = [_column(entry, paths, layout) for entry in group]
    shared: dict[str, Any] = {
        "sensitive_features": labels,
        "sample_weight": None if weight is None else _column(weight, paths, layout),
        "unlabelled": options.unlabelled,
    }
    local: dict[str, Any] = {**shared, "group_by": options.group_by, "layout": layout}
    source = open_source(paths, features=options.features or None, drop=options.drop, **local)
    source, counters = _without_row_numbers(source, paths, options, local)
    features = list(source.wanted.features)
    note(
        f"counting {len(source.files)} file(s) in pieces; {check_moments_size(len(features), 1)}."
    )
    if name == "local":
        moments = _count_here(paths, features, engine, local)
    else:
        moments = _count_there(source, features, engine, name, options, shared)
    moments = _whole_labels(moments)
    moments, preparation = _prepared(moments, features, options.standardize)
    how = "standardised" if options.standardize else "not standardised"
    notes = [
        f"{int(moments.count.sum()):,} rows in {len(source.files)} file(s), in pieces",
        f"{len(features)} feature{'s' * (len(features) != 1)}, {how}",
        f"group column {listed([label.column for label in source.wanted.labels])} is no feature",
    ]
    if counters:
        notes.append(f"row number {listed(counters)} left out")
    note("read " + "; ".join(notes) + ".")
    return Streamed(moments, preparation, tuple(notes))


def _column(entry: str, paths: Sequence[str], layout: Any) -> str:
    """Return the name of a column; a number counts columns where there is no header."""
    from fairpca.io.files import find_files

    cut = Threshold.parse(entry)
    if cut is not None and cut.column.isdigit():
        return f"{_column(cut.column, paths, layout)}{cut.sign}{cut.value}"
    if not entry.isdigit():
        return entry
    files, kind = find_files(paths)
    headed = kind != "numpy"
    if kind == "delimited":
        from fairpca.io.text import open_texts

        headed = open_texts(files[:1], layout)[0].layout.header_rows != 0
    return entry if headed else f"column{entry}"


def _without_row_numbers(
    source: Source, paths: Sequence[str], options: TableOptions, local: dict[str, Any]
) -> tuple[Source, list[str]]:
    """Leave out columns that only number the rows, unless they were named."""
    from fairpca.io.open_source import open_source
    from fairpca.io.row_numbers import row_number_columns

    found = row_number_columns(lambda names: open_source(paths, features=names, **local), source)
    counters = [name for name in found if name not in options.features]
    if not counters:
        return source, []
    drop = [*options.drop, *counters]
    return open_source(paths, features=options.features or None, drop=drop, **local), counters


def _count_here(
    paths: Sequence[str], features: list[str], engine: EngineOptions, local: dict[str, Any]
) -> GroupMoments:
    from fairpca.io import read_moments

    shown = ProgressLine()
    try:
        return read_moments(
            paths,
            features=features,
            n_jobs=engine.jobs,
            checkpoint=engine.checkpoint,
            progress=shown,
            **local,
        )
    finally:
        shown.close()


def _count_there(
    source: Source,
    features: list[str],
    engine: EngineOptions,
    name: str,
    options: TableOptions,
    shared: dict[str, Any],
) -> GroupMoments:
    if options.group_by == "marginal" and options.unlabelled == "ignore":
        raise ValueError(
            f"--group-by marginal with --unlabelled ignore cannot be done with --engine {name}; "
            "use --engine local."
        )
    cuts = [label.name for label in source.wanted.labels if label.cut is not None]
    if cuts:
        raise ValueError(
            f"--group {cuts[0]!r} is a cut of numbers, which --engine {name} does not take; use "
            "--engine local, or label the rows first."
        )
    module = f"fairpca.distributed.{name}"
    try:
        room = importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not module.startswith(error.name):
            raise
        raise NotImplementedError(f"--engine {name} is not in this version of fairpca.") from None
    moments: GroupMoments = room.read_moments(
        [Path(file.path) for file in source.files],
        features=features,
        scheduler=engine.scheduler,
        memory_limit=None,
        **shared,
    )
    return moments


def _whole_labels(moments: GroupMoments) -> GroupMoments:
    """Return labels as they were written: whole numbers are whole, as they are in memory."""
    cells = [
        label if isinstance(label, tuple) or label is None else (label,)
        for label in moments.labels
    ]
    whole = []
    for j in range(len(moments.names)):
        known = [cell[j] for cell in cells if cell is not None and cell[j] is not None]
        whole.append(
            bool(known)
            and all(isinstance(v, float) and v.is_integer() and abs(v) < 2**53 for v in known)
        )
    if not any(whole):
        return moments

    def cleaned(cell: tuple[Any, ...] | None) -> Any:
        if cell is None:
            return None
        parts = tuple(
            int(value) if flag and value is not None else value
            for value, flag in zip(cell, whole, strict=True)
        )
        return parts if len(moments.names) > 1 else parts[0]

    return replace(moments, labels=tuple(cleaned(cell) for cell in cells))


def _prepared(
    moments: GroupMoments, features: list[str], standardize: bool
) -> tuple[GroupMoments, Preparation]:
    if not standardize:
        plain_features = tuple(Feature(name, (), (0.0,), (1.0,)) for name in features)
        return moments, Preparation(plain_features, False, "error")
    found = moments.standardized()
    scaled = tuple(
        Feature(name, (), (float(mean),), (float(scale),))
        for name, mean, scale in zip(features, found.mean, found.scale, strict=True)
    )
    return found.moments, Preparation(scaled, True, "error")


class ProgressLine:
    """Progress on stderr: one line that moves on a terminal, a line now and then elsewhere."""

    def __init__(self) -> None:
        self.live = sys.stderr.isatty()
        self.last = time.monotonic()
        self.width = 0

    def __call__(self, state: Progress) -> None:
        """Show a state if it is time to."""
        now = time.monotonic()
        if now - self.last < (_LINE_SECONDS if self.live else _SPARSE_SECONDS):
            return
        self.last = now
        if not self.live:
            note(state.text())
            return
        text = plain(state.text())
        print(f"\r{text:<{self.width}}", end="", file=sys.stderr, flush=True)
        self.width = len(text)

    def close(self) -> None:
        """Clear the line."""
        if self.live and self.width:
            print(f"\r{'':<{self.width}}\r", end="", file=sys.stderr, flush=True)
