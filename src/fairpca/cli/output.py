"""Everything that leaves a command: notes on stderr, results on stdout, files.

Text from a table is data. On a terminal it is cleaned of characters that would steer the
terminal, in error messages it is translated into the words of the command line, in CSV it is kept
from being run as a formula by a spreadsheet. Files are written whole or not at all, and never
over another file unasked.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import json
import logging
import os
import re
import sys
import textwrap
import threading
import time
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import IO, Any

# Overrides and embeddings that reorder the text around them: "abc\u202e" hides what follows.
_BIDI_CONTROLS = re.compile("[\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c]")
# Control characters, and halves of characters, which no stream can encode.
_CONTROLS = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
# Spreadsheets take a cell that starts with one of these for a formula; some strip
# a leading tab or carriage return first.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")

# Seconds before a command says what it is doing: shorter waits need no explanation.
_PATIENCE = 2.0
# Seconds between two lines of progress where stderr is a file, so that a log stays short.
_SPARSE_SECONDS = 30.0
# Letters that a column of words has at least, where it has as many: less tells no groups apart.
_WORD = 12
# Spaces between two columns of a table.
_BETWEEN = 3
# The line of progress of the command that is running.
_LINE: ContextVar[Any] = ContextVar("line", default=None)

# What Python calls an argument and the command line an option. Applied to error texts, so that
# advice given by the library can be followed here.
_OPTION_OF = {
    "n_components": "-r",
    "sensitive_features": "--group",
    "sample_weight": "--weight",
    "n_bootstrap": "--bootstrap",
    "n_folds": "--folds",
    "n_repeats": "--repeats",
    "random_state": "--seed",
    "group_by": "--group-by",
    "min_group_size": "--min-group-size",
    "n_jobs": "--jobs",
    "features": "--feature",
    "target": "--target-kind",
    "criterion": "--criterion",
    "unlabelled": "--unlabelled",
    "missing": "--missing",
    "encoding": "--encoding",
    "shrinkage": "--shrinkage",
    "checkpoint": "--checkpoint",
}
# Advice that names no argument, as patterns. One the library no longer uses is only a dead line
# here; tests/cli/test_hostile_input.py notices when the advice itself is lost.
_PHRASES = {
    r"leave the column out, or encode it as numbers first": (
        "leave it out with --drop, or add --engine memory, where text becomes indicators"
    ),
    r"a header of 0 rows": "--header 0",
    r"ame its encoding": "ame its encoding with --encoding",
    r"read it with fairpca\.io\.read_moments": "use --engine local",
    r"name some with features": "name some with --feature",
    r"\by has\b": "--target has",
    r"pass None, 'auto' or": "leave it out, or pass auto or",
    r"Pass --shrinkage auto, merge": "Use fairpca fit --shrinkage auto, merge (--labels)",
    r"fairpca\.cross_fit shows": "fairpca audit shows",
    r"merge labels,": "merge labels with --labels,",
    r"for example with pandas\.qcut\([^)]*\)": "for example with --group 'COLUMN>=VALUE'",
    r"columns or groups, raise memory_limit.*": "columns (--feature, --drop) or groups.",
    r"because no folds were asked for": "because --folds is 0",
    r"Raise tau, lower": "Lower",
    r"prove=True searches": "fairpca fit --prove searches",
    r"use the separator ('\\t')": "use --sep tab",
    r"use the separator": "use --sep",
    r"with the separator": "with --sep",
}


def plain(text: str) -> str:
    """Return text without characters that a terminal would obey instead of show."""
    text = _BIDI_CONTROLS.sub("", re.sub("[\t\n]", " ", text))
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)


def in_option_words(text: str) -> str:
    """Return an error text with the names of options in place of those of Python arguments.

    "pass unlabelled='ignore'" becomes "pass --unlabelled ignore". Quoted words are left alone:
    they are values or names of columns, not arguments.
    """
    for name, option in _OPTION_OF.items():
        text = re.sub(rf"(?<![\w'\"-]){name}=(['\"]?)([^\s'\",;]+)\1", rf"{option} \2", text)
        # Only a word with an underscore is surely no English.
        if "_" in name:
            text = re.sub(rf"(?<![\w'\"]){name}(?![\w'\"])", option, text)
    for phrase, ours in _PHRASES.items():
        text = re.sub(phrase, ours, text)
    return text


def missing_file(name: str) -> str:
    """Return a sentence about a file that is not there, with the files that are called alike."""
    from fairpca._check import did_you_mean

    path = Path(name)
    if glob.glob(name, recursive=True):
        return (
            f"{name} does not exist, and patterns are read by fit in pieces only. Write it "
            "without quotes: then the shell names the files that match."
        )
    if not path.parent.is_dir():
        return f"{name} does not exist: there is no folder {path.parent}."
    near = did_you_mean(path.name, (other.name for other in path.parent.iterdir()))
    return f"{name} does not exist.{near or ' Check the name and the folder.'}"


def note(message: str) -> None:
    """Tell the user something on stderr, in lines that fit the terminal.

    A file gets one line per message, so that logs can be searched; COLUMNS overrules that. Text
    from a table is cleaned here. A stderr that cannot be written to is no reason to fail.
    """
    text = plain(message)
    if sys.stderr.isatty() or os.environ.get("COLUMNS"):
        width = console(stderr=True).width
        # A path or an option broken in two cannot be copied.
        text = textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False)
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def note_read(notes: Iterable[str]) -> None:
    """Tell what was read and how, in the words of the command line."""
    note(in_option_words("read " + "; ".join(notes) + "."))


@contextlib.contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Within it, a library's warning is one note, in the words of the command line."""
    seen = set()

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        # Methods are fitted one after the other, and each would say the same.
        if str(message) not in seen:
            note(f"note: {in_option_words(str(message))}")
        seen.add(str(message))

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


@contextlib.contextmanager
def progress(doing: str) -> Iterator[Callable[[str], None]]:
    """Say on stderr what is being done, once the command has taken longer than two seconds.

    The outermost call is around a whole command and keeps its clock and its line; calls within it
    only change what the line says, so that many short steps are not a long silence. Yields a
    function that takes a text to show instead. A terminal shows it at once; elsewhere a line is
    written every thirty seconds.
    """
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    line = _LINE.get()
    if line is not None:
        before = line.tasks[0].description
        _show(line, doing)
        try:
            yield functools.partial(_show, line)
        finally:
            line.update(line.tasks[0].id, description=before)
        return
    stderr = console(stderr=True)
    columns = SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn()
    settings: dict[str, Any] = {"transient": True, "disable": not stderr.is_terminal}
    # Results go to stdout, wherever that leads; rich would send them to stderr instead.
    line = Progress(*columns, console=stderr, redirect_stdout=False, **settings)
    line.add_task(plain(doing), total=None, last=time.monotonic())
    start = threading.Timer(_PATIENCE, line.start)
    # An interrupt must not wait for the timer.
    start.daemon = True
    start.start()
    reset = _LINE.set(line)
    try:
        yield functools.partial(_show, line)
    finally:
        _LINE.reset(reset)
        start.cancel()
        # The line may be starting right now; stopped before that it would stay for ever.
        start.join()
        line.live.stop()


@contextlib.contextmanager
def log_shown(show: Callable[[str], None]) -> Iterator[None]:
    """Within it, what the package logs (how far a search is) goes to a line of progress."""
    log = logging.getLogger("fairpca")
    handler = logging.Handler()
    handler.emit = lambda record: show(record.getMessage())  # type: ignore[method-assign]
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


def _show(line: Any, message: str) -> None:
    """Change the text of a line of progress; where it is none, write one every thirty seconds."""
    task, now = line.tasks[0], time.monotonic()
    line.update(task.id, description=plain(message))
    if line.disable and now - task.fields["last"] >= _SPARSE_SECONDS:
        line.update(task.id, last=now)
        note(message)


def console(*, stderr: bool = False) -> Any:
    """Return a new rich console without markup, so that labels are shown as they are."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, highlight=False, emoji=False)


@dataclass(frozen=True)
class Table:
    """A table for `print_lines`, with cleaned cells.

    A line break in a title makes it two lines high. Columns of `words` are to the left, folded
    where they are too long; others are numbers, to the right and never folded. Rows that are
    `strong` are in bold. Columns that are `joined` are read with the one before them.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    _: KW_ONLY
    words: Collection[int] = (0,)
    strong: Collection[int] = ()
    joined: Collection[int] = ()

    def parts(self, width: int) -> Iterator[Any]:
        """Yield tables of rich that are at most so wide.

        Columns that do not fit go into another table below, beside the first column once more: a
        number that is cut, or without the name of its group, is another number.
        """
        from rich.cells import cell_len

        titles = [[plain(line) for line in name.split("\n")] for name in self.columns]
        cells = [[plain(cell) for cell in row] for row in self.rows]
        natural = [
            max(map(cell_len, [*title, *(row[j] for row in cells)]))
            for j, title in enumerate(titles)
        ]
        least = [min(w, _WORD) if j in self.words else w for j, w in enumerate(natural)]
        shown = [0]
        for j in range(1, len(titles)):
            # A column and the one that belongs to it come together.
            wanted = [j, j + 1] if j + 1 in self.joined else [j]
            total = sum(least[i] + _BETWEEN for i in [*shown, *wanted]) - _BETWEEN
            if len(shown) > 1 and total > width and j not in self.joined:
                yield self._part(titles, cells, shown, least)
                shown = [0]
            shown.append(j)
        yield self._part(titles, cells, shown, least)

    def _part(
        self, titles: list[list[str]], cells: list[list[str]], shown: list[int], least: list[int]
    ) -> Any:
        from rich import box
        from rich.table import Table as RichTable
        from rich.text import Text

        found = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for j in shown:
            style: Any = {"justify": "right", "no_wrap": True}
            if j in self.words:
                style = {"justify": "left"}
            title = Text("\n".join(titles[j]))
            found.add_column(title, overflow="fold", min_width=least[j], **style)
        for i, row in enumerate(cells):
            line = [Text(row[j]) for j in shown]
            found.add_row(*line, style="bold" if i in self.strong else None)
        return found


def print_lines(lines: Iterable[Any]) -> None:
    """Write sentences and tables to stdout, as wide as the terminal."""
    from rich.text import Text

    out = console()
    # Captured first: rich would leave with exit code 1 where the reader has gone.
    with out.capture() as captured:
        for line in lines:
            if isinstance(line, str):
                # What is indented is a command to copy: broken in two it would not run.
                out.print(Text(plain(line)), soft_wrap=line.startswith("  "))
            else:
                for i, part in enumerate(line.parts(out.width)):
                    out.print(*([""] if i else []), part, sep="\n")
    # rich fills cells and broken lines with spaces; in a file or a diff they are only noise.
    text = re.sub(" +$", "", captured.get(), flags=re.M)
    # Letters that the stream cannot hold are written as Python writes them to stderr.
    encoding = sys.stdout.encoding or "utf-8"
    _write_stdout(text.encode(encoding, "backslashreplace").decode(encoding))


def print_text(text: str) -> None:
    """Write a result to stdout: as it is to a file or a pipe, cleaned to a terminal.

    A program that reads the result needs every byte of it; a terminal would obey some of them.
    """
    if sys.stdout.isatty():
        text = "\n".join(plain(line) for line in text.split("\n"))
    _write_stdout(text if text.endswith("\n") else text + "\n")


def json_text(value: Any, indent: int | None = None) -> str:
    """Return strict JSON; paths and dates become text, NaN is an error."""
    return json.dumps(value, indent=indent, allow_nan=False, default=str)


def print_json(value: Any) -> None:
    """Write a result to stdout as JSON; its escapes leave nothing a terminal would obey."""
    _write_stdout(json_text(value) + "\n")


def print_result(options: Any, data: Any, lines: Iterable[Any]) -> None:
    """Print a result as JSON where ``--json`` asks for it, and otherwise for people."""
    if options.json:
        print_json(data)
    else:
        print_lines(lines)


def _write_stdout(text: str) -> None:
    """Write and flush. Who stops reading has seen enough: the command keeps its exit code."""
    line = _LINE.get()
    if line is not None:
        # On a terminal the result would be written into the line, or the line into the result.
        # A line that is disabled cannot start again; nor does it stop, but what it shows does.
        line.disable = True
        line.live.stop()
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        silence_stdout()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"standard output is {error.encoding} and cannot hold {text[error.start]!r}; write a "
            "file with -o, or set PYTHONIOENCODING=utf-8."
        ) from None


def silence_stdout() -> None:
    """Send what is still to come to nowhere: the reader of our output has gone, or is full.

    Python flushes stdout once more at exit, and would print an error that nobody can act on.
    """
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    with contextlib.suppress(OSError, ValueError, AttributeError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def check_output(options: Any) -> None:
    """Refuse the output file of some FileOptions before work starts, rather than after it.

    Raises ValueError with the first of the reasons below that applies; None is always accepted.
    """
    path = options.output
    if path is None:
        return
    kept, ending = path.exists() and not options.force, ", ".join(options.endings)
    # What a link leads to is written, not the link.
    folder = (path.resolve() if path.is_symlink() else path).parent
    ending = f"one of {ending}" if len(options.endings) > 1 else ending
    # Nobody wants to lose a table for what was made of it, not even with --force.
    tables = [table.resolve() for table in getattr(options, "tables", ())]
    checkpoint = getattr(options, "checkpoint", None)
    reasons = {
        f": the ending must be {ending}": path.suffix.lower() not in options.endings,
        " is read by this very command; choose another name": path.resolve() in tables,
        # It is removed at the end, and the output would go with it.
        " is the --checkpoint, too; choose another name": checkpoint is not None
        and path.resolve() == checkpoint.resolve(),
        " is a directory; name a file": path.is_dir(),
        " is not an ordinary file and is left alone": path.exists() and not path.is_file(),
        " exists; add --force to replace it, or choose another name": kept,
        f": there is no directory {folder}": not folder.is_dir(),
        f": the directory {folder} cannot be written to": not os.access(folder, os.W_OK),
    }
    for reason, applies in reasons.items():
        if applies:
            raise ValueError(f"-o {path}{reason}.")


def deliver(
    options: Any,
    data: Callable[[], Any],
    show: Callable[[], None],
    **contents: Callable[[], str | Callable[[IO[Any]], Any]],
) -> None:
    """Give a result in the forms that FileOptions ask for; each form is made only if it is.

    `data` returns what is written as JSON, to stdout or to a file. `show` prints the result for
    people, where neither a file nor JSON was asked for. `contents` return what goes into a file
    with that ending: text, or a function that writes to a binary file.
    """
    from fairpca.moments.storage import atomic_write

    if options.output is not None:
        suffix = options.output.suffix.lower().lstrip(".")
        ending = "html" if suffix == "htm" else suffix
        content = contents.get(ending, lambda: json_text(data(), indent=1))()
        with atomic_write(options.output) as file:
            if isinstance(content, str):
                file.write(content.encode())
            else:
                content(file)
        note(f"wrote {options.output}")
    if options.json:
        print_json(data())
    elif options.output is None:
        show()


def csv_text(frame: Any, separator: str = ",") -> str:
    """Return a frame as CSV in which no text is a formula for a spreadsheet.

    Text that starts like a formula and is no number has an apostrophe in front, which
    spreadsheets show as text. Numbers are written with every digit.
    """
    # Names of columns come from the table, too.
    safe = frame.rename(columns=_no_formula)
    for name, kind in safe.dtypes.items():
        if kind.kind not in "biufmM":
            safe[name] = safe[name].map(_no_formula)
    return str(safe.to_csv(index=False, sep=separator))


def _no_formula(cell: Any) -> Any:
    """Return a cell with an apostrophe in front where a spreadsheet would calculate with it."""
    if isinstance(cell, str) and cell.startswith(_FORMULA_STARTS):
        try:
            # -5 is a number to a spreadsheet, too, and an apostrophe would make it text.
            float(cell)
        except ValueError:
            return f"'{cell}"
    return cell
