"""Options that several verbs share, written down once."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

from typer import Argument, Option

_READING = "How the file is read"
_COLUMNS = "What becomes of the columns"
_ENGINE = "Tables larger than memory"

Tables = Annotated[
    list[Path],
    Argument(
        metavar="TABLE",
        help="CSV, TSV, Parquet, Feather/Arrow or NumPy files; rows are stacked.",
        show_default=False,
    ),
]
Table = Annotated[
    Path,
    Argument(
        metavar="TABLE",
        help="A CSV, TSV, Parquet, Feather/Arrow or NumPy file.",
        show_default=False,
    ),
]
Components = Annotated[
    str,
    Option(
        "-r",
        "--components",
        metavar="R",
        help="Number of components, or a share such as 0.9: the fewest with which every "
        "group keeps that share of its variance.",
        show_default=False,
    ),
]
Groups = Annotated[
    list[str],
    Option(
        "-g",
        "--group",
        metavar="COL",
        help="Column of group labels, or a cut such as 'age>=65'. Repeat it to cross columns.",
        show_default=False,
    ),
]
Json = Annotated[bool, Option("--json", help="Print the result as JSON.")]
Force = Annotated[bool, Option("--force", help="Replace the output file if it exists.")]
Seed = Annotated[int, Option("--seed", help="Seed of everything random.")]


@dataclass(frozen=True)
class ReadingOptions:
    """How delimited text is read; what is not given is guessed and said."""

    sep: Annotated[
        str | None,
        Option(
            metavar="CHAR",
            help="Separator, one character or 'tab'; guessed.",
            rich_help_panel=_READING,
            show_default=False,
        ),
    ] = None
    decimal: Annotated[
        str | None,
        Option(
            metavar="CHAR",
            help="Decimal sign, '.' or ','; guessed.",
            rich_help_panel=_READING,
            show_default=False,
        ),
    ] = None
    header: Annotated[
        int | None,
        Option(
            metavar="N",
            min=0,
            help="Header rows (the last one names the columns); guessed.",
            rich_help_panel=_READING,
            show_default=False,
        ),
    ] = None
    encoding: Annotated[
        str | None,
        Option(
            metavar="NAME",
            help="Encoding; UTF-8 unless the file says otherwise.",
            rich_help_panel=_READING,
            show_default=False,
        ),
    ] = None


@dataclass(frozen=True)
class TableOptions(ReadingOptions):
    """Which columns are groups and features, and what is done to them."""

    group_by: Annotated[
        str,
        Option(
            metavar="HOW",
            help="Several columns: 'intersection' or 'marginal' (each column's levels).",
            rich_help_panel=_COLUMNS,
        ),
    ] = "intersection"
    unlabelled: Annotated[
        str,
        Option(
            metavar="HOW",
            help="Rows without a label: 'error', or 'ignore' (in PCA, in no group).",
            rich_help_panel=_COLUMNS,
        ),
    ] = "error"
    features: Annotated[
        list[str],
        Option(
            "--feature",
            metavar="COL",
            help="Column to use; repeat, patterns such as 'BILL_*' work. Default: all but group "
            "columns and row numbers.",
            rich_help_panel=_COLUMNS,
            show_default=False,
        ),
    ] = field(default_factory=list)
    drop: Annotated[
        list[str],
        Option(
            "--drop",
            metavar="COL",
            help="Column to leave out; repeat, patterns work.",
            rich_help_panel=_COLUMNS,
            show_default=False,
        ),
    ] = field(default_factory=list)
    categorical: Annotated[
        list[str],
        Option(
            "--categorical",
            metavar="COL",
            help="Column of codes: one indicator per level. Text is always treated so.",
            rich_help_panel=_COLUMNS,
            show_default=False,
        ),
    ] = field(default_factory=list)
    standardize: Annotated[
        bool,
        Option(
            "--standardize/--no-standardize",
            help="Give every column mean 0 and standard deviation 1.",
            rich_help_panel=_COLUMNS,
        ),
    ] = True
    missing: Annotated[
        str,
        Option(
            metavar="HOW",
            help="Missing values: 'error', 'drop' the row, or fill in 'mean' or 'median'.",
            rich_help_panel=_COLUMNS,
        ),
    ] = "error"


@dataclass(frozen=True)
class EngineOptions:
    """Where the rows are counted."""

    engine: Annotated[
        str,
        Option(
            metavar="NAME",
            help="'memory', 'local' (in pieces, in bounded memory), 'dask', 'spark', or 'auto': "
            "in pieces where Parquet or Arrow files are large.",
            rich_help_panel=_ENGINE,
        ),
    ] = "auto"
    jobs: Annotated[
        int | None,
        Option(
            metavar="N",
            min=1,
            help="Pieces read at the same time; default one per core.",
            rich_help_panel=_ENGINE,
            show_default=False,
        ),
    ] = None
    checkpoint: Annotated[
        Path | None,
        Option(
            metavar="FILE",
            help="Keep what was counted there; an interrupted run goes on from it.",
            rich_help_panel=_ENGINE,
            show_default=False,
        ),
    ] = None
    scheduler: Annotated[
        str | None,
        Option(
            metavar="ADDRESS",
            help="Of the Dask or Spark cluster; default one on this machine.",
            rich_help_panel=_ENGINE,
            show_default=False,
        ),
    ] = None


@dataclass(frozen=True)
class FitOptions(EngineOptions, TableOptions):
    """What `fit` takes: how to read, what becomes of columns, where to count."""


def takes(options: type[Any]) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a verb every field of an options class as a command-line option.

    The verb receives them as one object in its parameter `options`.
    """
    hints = get_type_hints(options, include_extras=True)

    def decorate(verb: Callable[..., Any]) -> Callable[..., Any]:
        own_hints = get_type_hints(verb, include_extras=True)
        own = [
            parameter.replace(annotation=own_hints[parameter.name], kind=parameter.KEYWORD_ONLY)
            for parameter in inspect.signature(verb).parameters.values()
            if parameter.name != "options"
        ]
        shared = [
            inspect.Parameter(
                entry.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=entry.default if entry.default is not MISSING else [],
                annotation=hints[entry.name],
            )
            for entry in fields(options)
        ]

        def call(**given: Any) -> Any:
            chosen = {entry.name: given.pop(entry.name) for entry in fields(options)}
            return verb(options=options(**chosen), **given)

        call.__name__, call.__doc__ = verb.__name__, verb.__doc__
        call.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
        call.__annotations__ = {p.name: p.annotation for p in [*own, *shared]}
        return call

    return decorate


def parse_components(text: str) -> int | float:
    """Read -r: a number of components or a share; ValueError otherwise."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        share = float(text)
    except ValueError:
        share = float("nan")
    if not 0 < share < 1:
        raise ValueError(
            f"-r {text}: pass a number of components such as 5, or a share between 0 and 1 such "
            "as 0.9."
        )
    return share
