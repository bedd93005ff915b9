"""What every command takes: one frozen dataclass per command, one field per option.

A command is a function of one such record; `as_command` makes of it the function typer wants, with
one keyword per option. Options that several commands share stand in the base classes here, once;
a command's own stand beside the command. To add an option, add a field with an annotation and a
default, and two lines about it under "Attributes": they are its help. Where the field is called
like the Python argument it sets, `pick` passes it on.

Only typer is imported here, so that ``fairpca --help`` appears at once.
"""

from __future__ import annotations

import copy
import inspect
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, get_type_hints

import typer
from typer.core import TyperCommand, TyperGroup
from typer.models import OptionInfo

from fairpca.cli.output import progress

# The end of every help page. Scripts rely on these numbers.
_EXIT_CODES = """\
Exit codes: 0 done; 2 something is wrong with the call or the input, or no
method could run; 3 the gap is larger than --max-gap allows; 130 interrupted."""

# Fields that come after others, in this order: in the help, and, if they are arguments without a
# name, on the command line.
_LAST = ("tables", "output", "force", "json")
# The name of a table that stands for standard input.
_STDIN = Path("-")


def _criteria() -> tuple[str, ...]:
    # Not before: the help needs no NumPy.
    from fairpca.criteria import CRITERIA

    return tuple(CRITERIA)


def option(
    metavar: str,
    *names: str,
    among: tuple[str, ...] | Callable[[], tuple[str, ...]] = (),
    **settings: Any,
) -> Any:
    """Return what typer has to know about an option; it stands in the annotation of a field.

    The metavar stands for the value in the help, such as ``COL``; it is empty for a flag. Without
    `names` the option is called like the field. Values that are not `among` those given, or those
    that a function returns, are refused before any work starts; case does not count. Settings are
    those of `typer.Option`, say ``min=0``.
    """
    info = typer.Option(*names, metavar=metavar, **settings)
    info.among = among
    return info


def argument(metavar: str) -> Any:
    """Return what typer has to know about an argument without a name, as `option` does."""
    return typer.Argument(metavar=metavar)


@dataclass(frozen=True, kw_only=True)
class JsonOption:
    """What every command takes.

    Attributes
    ----------
    examples : str
        Stand under "Examples" in the help; lines of more than 78 characters would be broken.
    panel : str
        Title of the options of this very class in the help; without one it is "Options".
    json : bool, default=False
        Print the result as JSON.
    """

    examples: ClassVar[str] = ""
    json: Annotated[bool, option("", "--json")] = False

    def pick(self, *names: str) -> dict[str, Any]:
        """Return some fields by name, to be passed on as keywords of a Python function."""
        return {name: getattr(self, name) for name in names}


@dataclass(frozen=True, kw_only=True)
class FileOptions(JsonOption):
    """What every command takes that writes a file.

    Attributes
    ----------
    endings : tuple of str
        Endings of files it can write.
    force : bool, default=False
        Replace the output file if it exists.
    """

    endings: ClassVar[tuple[str, ...]] = ()
    force: Annotated[bool, option("", "--force")] = False


@dataclass(frozen=True, kw_only=True)
class ReadingOptions(JsonOption):
    """Which tables are read, and how. What is not given is guessed, and the guess is printed.

    Attributes
    ----------
    tables : list of Path
        CSV, TSV, Parquet, Feather/Arrow or NumPy files, whose rows are stacked; - is delimited
        text from standard input.
    sep : str, optional
        Separator, one character or 'tab'; guessed.
    decimal : str, optional
        Decimal sign, '.' or ','; guessed.
    header : int, optional
        Header rows (the last one names the columns); guessed.
    encoding : str, optional
        Encoding; UTF-8 unless the file says otherwise.
    """

    panel: ClassVar[str] = "How the file is read"
    tables: Annotated[list[Path], argument("TABLE")]
    sep: Annotated[str | None, option("CHAR")] = None
    decimal: Annotated[str | None, option("CHAR")] = None
    header: Annotated[int | None, option("N", min=0)] = None
    encoding: Annotated[str | None, option("NAME")] = None


@dataclass(frozen=True, kw_only=True)
class ColumnOptions(ReadingOptions):
    """Which columns are features, and what is done to them.

    Attributes
    ----------
    labels : list of str
        Names for the codes of the group column, such as 1=graduate,2=university; codes with one
        name become one group. With several group columns repeat it and begin with the column,
        such as SEX:1=male,2=female.
    group_by : str, default="intersection"
        Several columns: 'intersection' or 'marginal' (each column's levels).
    unlabelled : str, default="error"
        Rows without a label: 'error', or 'ignore' (in PCA, in no group).
    features : list of str
        Column to use; repeat, patterns such as 'BILL_*' work. Default: all but group columns and
        row numbers.
    drop : list of str
        Column to leave out; repeat, patterns work.
    categorical : list of str
        Column of codes: one indicator per level. Text is always treated so.
    standardize : bool, default=True
        Give every column mean 0 and standard deviation 1.
    missing : str, default="error"
        Missing values: 'error', 'drop' the row, or fill in 'mean' or 'median'.
    """

    panel: ClassVar[str] = "What becomes of the columns"
    labels: Annotated[list[str], option("MAP")] = field(default_factory=list)
    group_by: Annotated[str, option("HOW", among=("intersection", "marginal"))] = "intersection"
    unlabelled: Annotated[str, option("HOW", among=("error", "ignore"))] = "error"
    features: Annotated[list[str], option("COL", "--feature")] = field(default_factory=list)
    drop: Annotated[list[str], option("COL")] = field(default_factory=list)
    categorical: Annotated[list[str], option("COL")] = field(default_factory=list)
    standardize: Annotated[bool, option("")] = True
    missing: Annotated[str, option("HOW", among=("error", "drop", "mean", "median"))] = "error"


@dataclass(frozen=True, kw_only=True)
class TableOptions(ColumnOptions, FileOptions):
    """What every command takes that compares groups.

    Attributes
    ----------
    group : list of str
        Column of group labels, or a cut such as 'age>=65'. Repeat it to cross columns.
    components : str
        Number of components, or a share such as 0.9: the fewest with which every group keeps that
        share of its variance.
    center : str, default="global"
        What losses are about: 'global', the mean of all rows, which a projection subtracts from
        everybody, or 'group', each group's own mean.
    random_state : int, default=0
        Seed of everything random.
    """

    group: Annotated[list[str], option("COL", "-g", "--group")]
    components: Annotated[str, option("R", "-r", "--components")]
    center: Annotated[str, option("MEAN", among=("global", "group"))] = "global"
    random_state: Annotated[int, option("N", "--seed", min=0)] = 0

    @property
    def n_components(self) -> int | float:
        """The number of components, or the share of variance, that ``-r`` asks for."""
        return parse_components(self.components)


@dataclass(frozen=True, kw_only=True)
class EngineOptions(JsonOption):
    """Where the rows are counted.

    Attributes
    ----------
    engine : str, default="auto"
        'memory', 'local' (in pieces, in bounded memory), 'dask', 'spark', or 'auto': in pieces
        where Parquet or Arrow files are large.
    jobs : int, optional
        Pieces read at the same time; default one per core.
    checkpoint : Path, optional
        Keep what was counted there; an interrupted run goes on from it.
    scheduler : str, optional
        Of the Dask or Spark cluster; default one on this machine.
    """

    panel: ClassVar[str] = "Tables larger than memory"
    engine: Annotated[str, option("NAME", among=("auto", "memory", "local", "dask", "spark"))] = (
        "auto"
    )
    jobs: Annotated[int | None, option("N", min=1)] = None
    checkpoint: Annotated[Path | None, option("FILE")] = None
    scheduler: Annotated[str | None, option("ADDRESS")] = None


@dataclass(frozen=True, kw_only=True)
class FitOptions(EngineOptions, TableOptions):
    """What `fit` takes, and what reading in pieces needs to know.

    Attributes
    ----------
    output : Path
        Model file to write (.skops).
    criterion : str, default="loss"
        What is minimised for the worst group: loss, error, variance, relative or share.
    shrinkage : str, optional
        For groups of few rows: "auto", or a number from 0 (each group's own covariance) to 1
        (what all groups share).
    prove : bool, default=False
        Where three or more groups leave a gap between the worst loss and its bound, search for up
        to a minute for a better proof.
    weight : str, optional
        Column of row weights.
    """

    examples: ClassVar[str] = """\
  fairpca fit people.csv -g sex -r 2 -o model.skops
  fairpca fit 'parts/*.parquet' -g sex -r 2 --engine local -o model.skops"""
    endings: ClassVar[tuple[str, ...]] = (".skops",)
    output: Annotated[Path, option("FILE", "-o", "--output")]
    criterion: Annotated[str, option("NAME", among=_criteria)] = "loss"
    shrinkage: Annotated[str | None, option("AMOUNT")] = None
    prove: Annotated[bool, option("", "--prove")] = False
    weight: Annotated[str | None, option("COL")] = None


def _show_version(wanted: bool) -> None:
    """Print the version and leave, before typer asks for a command."""
    if wanted:
        from importlib.metadata import version

        typer.echo(f"fairpca {version('fairpca')}")
        raise typer.Exit


def root(
    version: Annotated[
        bool,
        typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True),
    ] = False,
) -> None:
    """One projection whose worst-served group is served as well as possible, with a proof."""


class _WithExamples:
    """A command whose help ends with examples and exit codes, as they were written.

    typer would fill the lines of its epilog like prose, and a command broken over two lines
    cannot be copied. It would also show the types of Python, such as ``<bool>`` for a flag.
    """

    epilog: str | None

    def format_help(self, ctx: Any, formatter: Any) -> None:
        examples, self.epilog = self.epilog, None
        for parameter in self.get_params(ctx):  # type: ignore[attr-defined]
            if parameter.param_type_name == "argument" or parameter.is_flag:
                parameter.display_type_rich = lambda ctx: ""
        super().format_help(ctx, formatter)  # type: ignore[misc]
        self.epilog = examples
        typer.echo(f"Examples:\n{examples}\n\n{_EXIT_CODES}")


class Command(_WithExamples, TyperCommand):
    """One command of `fairpca`."""


class Group(_WithExamples, TyperGroup):
    """The command `fairpca` itself."""


def as_command(verb: Callable[..., Any]) -> Any:
    """Return a function with one keyword per option of a command, as typer reads it.

    The verb takes one parameter, `options`, annotated with a dataclass of this module's kind; its
    docstring is the help of the command. What is returned checks its keywords, gathers them into
    the dataclass and calls the verb; its `examples` are those of the dataclass.
    """
    record = get_type_hints(verb)["options"]
    # Found once for all fields: every call evaluates the annotations of all base classes.
    hints = get_type_hints(record, include_extras=True)
    annotations = {f.name: _annotation(record, f.name, hints[f.name]) for f in fields(record)}

    def gather(**given: Any) -> Any:
        for name, hint in annotations.items():
            among, value = getattr(hint.__metadata__[0], "among", ()), given[name]
            among = among() if callable(among) else among
            if among and value is not None:
                given[name] = value.lower()
                if value.lower() not in among:
                    from fairpca._check import did_you_mean

                    raise ValueError(
                        f"--{name.replace('_', '-')} {value} is not known."
                        f"{did_you_mean(value, among)} Choose one of {', '.join(among)}."
                    )
        # One clock and one line of progress for all that a command does.
        doing = progress(f"fairpca {verb.__name__}")
        with doing, _stdin_on_disk(record(**given)) as options:
            return verb(options)

    # Where a dataclass has a function that makes the default, typer needs the default itself.
    empty: dict[str, Any] = {f.name: [] for f in fields(record) if f.default_factory is list}
    parameters = [
        p.replace(default=empty.get(p.name, p.default), annotation=annotations[p.name])
        for p in inspect.signature(record).parameters.values()
    ]
    # What is required comes first, what many commands share last; the model before the tables.
    parameters.sort(
        key=lambda p: (p.default is not p.empty, p.name in _LAST and 1 + _LAST.index(p.name))
    )
    # typer reads name, docstring and signature of a function, and nothing says how it got them.
    call: Any = gather
    # Line breaks of the source would be shown as they are; only paragraphs are meant.
    call.__doc__ = re.sub(r"(?<!\n)\n(?!\n)", " ", inspect.getdoc(verb) or "")
    call.__name__, call.__annotations__ = verb.__name__, annotations
    call.__signature__ = inspect.Signature(parameters)
    call.examples = record.examples
    return call


@contextmanager
def _stdin_on_disk(options: Any) -> Iterator[Any]:
    """Yield options in which standard input (``-``) is a temporary file, gone afterwards.

    The readers look at a file twice, once to guess its layout and once to read it.
    """
    tables = list(getattr(options, "tables", ()))
    if _STDIN not in tables:
        yield options
        return
    if tables.count(_STDIN) > 1:
        # The second copy would be empty.
        raise ValueError("- is given twice, and standard input can be read only once.")
    with tempfile.TemporaryDirectory(prefix="fairpca-") as folder:
        # A name without an ending is read as delimited text.
        copied = Path(folder, "stdin")
        with copied.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        tables = [copied if path == _STDIN else path for path in tables]
        try:
            yield replace(options, tables=tables)
        except ValueError as error:
            raise ValueError(str(error).replace(str(copied), "standard input")) from None


def _annotation(record: type[Any], name: str, hint: Any) -> Any:
    """Return the annotation of a field with the help and the panel of the class that has it."""
    # The class that declares a field documents it, and may be a base class of the record.
    owner = next(base for base in record.__mro__ if name in vars(base).get("__annotations__", ()))
    info = copy.copy(hint.__metadata__[0])
    # Two lines of numpydoc: "name : type", then the text, indented. Interpreters that strip
    # docstrings (-OO) show options without a help.
    text = inspect.cleandoc(owner.__doc__ or "")
    found = re.search(rf"^{name} : .*\n((?: .*\n?)+)", text, re.MULTILINE)
    info.help = " ".join(found[1].split()) if found else None
    info.rich_help_panel = vars(owner).get("panel") if isinstance(info, OptionInfo) else None
    # "[default: ]" and "[default: None]" tell nobody anything.
    info.show_default = isinstance(getattr(record, name, None), str | int | Path)
    return Annotated[hint.__origin__, info]


def parse_components(text: str) -> int | float:
    """Read the value of ``-r``: a number of components such as 5, or a share such as 0.9."""
    with suppress(ValueError):
        if int(text) >= 1:
            return int(text)
    with suppress(ValueError):
        if 0 < float(text) < 1:
            return float(text)
    raise ValueError(
        f"-r {text}: pass a number of components such as 5, or a share between 0 and 1 such as "
        "0.9."
    )
