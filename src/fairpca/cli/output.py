"""Everything that leaves a command: notes on stderr, results on stdout, files."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import sys
import threading
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

# Characters that would steer a terminal, and halves of characters, which no stream can encode.
_CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\ud800-\udfff\u202a-\u202e\u2066-\u2069]")
# Spreadsheets take a cell that starts with one of these for a formula.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
# Seconds before a command says what it is doing, and between two lines of a log.
_PATIENCE, _BETWEEN = 3.0, 20.0


def plain(text: str) -> str:
    """Return text without characters that would steer a terminal."""
    return _CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)


def note(message: str) -> None:
    """Tell the user something on stderr; one that cannot be written to is no reason to fail."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        print(plain(message), file=sys.stderr, flush=True)


def show(text: str) -> None:
    """Write a result to stdout, letters that it cannot hold as Python writes them to stderr."""
    encoding = sys.stdout.encoding or "utf-8"
    print(plain(text).encode(encoding, "backslashreplace").decode(encoding))


def sentence(text: str) -> None:
    """Write a sentence to stdout, in lines that fit the terminal."""
    import shutil
    import textwrap

    width = min(shutil.get_terminal_size((88, 24)).columns, 100)
    show(textwrap.fill(text, width, break_long_words=False, break_on_hyphens=False))


def table(columns: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1) -> None:
    """Write a table to stdout; the first columns hold words, all others numbers."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    found = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for j, name in enumerate(columns):
        column = Text(plain(name))
        if j < words:
            found.add_column(column, overflow="fold")
        else:
            found.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        found.add_row(*(Text(plain(cell)) for cell in row))
    console = Console(highlight=False, emoji=False, no_color=not sys.stdout.isatty())
    # A number that is cut is another number: a narrow terminal wraps the line instead.
    wide = console.options.update(width=10_000)
    console.width = max(console.width, console.measure(found, options=wide).minimum + 12 * words)
    with console.capture() as captured:
        console.print(found, crop=False, soft_wrap=True)
    show(re.sub(" +$", "", captured.get(), flags=re.M))


@contextlib.contextmanager
def progress(doing: str) -> Iterator[None]:
    """Say on stderr what is being done, and how long already, as long as it takes.

    A terminal shows one line that changes; a file or a pipe gets a line every twenty seconds.
    """
    started, done = time.monotonic(), threading.Event()
    live = sys.stderr is not None and sys.stderr.isatty()

    def tell() -> None:
        wait = _PATIENCE
        while not done.wait(wait):
            seconds = f"{time.monotonic() - started:.0f} s"
            text = f"{_LAST.get('message') or doing} ... {seconds}"
            with contextlib.suppress(OSError, ValueError):
                sys.stderr.write(f"\r\x1b[K{plain(text)}" if live else f"{plain(text)}\n")
                sys.stderr.flush()
            wait = 1.0 if live else _BETWEEN

    _LAST.clear()
    thread = threading.Thread(target=tell, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        if live and time.monotonic() - started > _PATIENCE:
            sys.stderr.write("\r\x1b[K")


# What the package said last of a long count or search.
_LAST: dict[str, str] = {}


@contextlib.contextmanager
def log_shown() -> Iterator[None]:
    """Within it, what the package logs is shown as progress, and a warning is one note."""
    log, seen = logging.getLogger("fairpca"), set()
    handler = logging.Handler()
    handler.emit = lambda record: _LAST.update(message=record.getMessage())  # type: ignore[method-assign]

    def tell(message: Warning | str, *_: Any, **__: Any) -> None:
        if str(message) not in seen:
            note(f"note: {message}")
        seen.add(str(message))

    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = tell
            yield
    finally:
        log.removeHandler(handler)
        log.setLevel(level)


def check_paths(tables: Sequence[Path], output: Path | None, endings: Sequence[str]) -> None:
    """Raise before any work for a file that is missing, or an output that cannot be written."""
    for path in tables:
        if not path.exists():
            import difflib

            folder = path.parent
            names = [p.name for p in folder.iterdir()] if folder.is_dir() else []
            near = difflib.get_close_matches(path.name, names, 1, 0.7)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ValueError(f"{path} does not exist.{hint}")
    if output is None:
        return
    reasons = {
        f"the ending must be one of {', '.join(endings)}": output.suffix.lower() not in endings,
        "it is read by this very command": any(
            path.exists() and path.samefile(output) for path in tables if output.exists()
        ),
        "it is a link that leads to itself": os.path.islink(os.path.realpath(output)),
        "it is a directory": output.is_dir(),
        f"there is no directory {output.parent}": not output.parent.is_dir(),
    }
    for reason, applies in reasons.items():
        if applies:
            raise ValueError(f"-o {output}: {reason}.")


def csv_text(frame: Any) -> str:
    """Return a frame as CSV in which no text is a formula for a spreadsheet."""
    safe = frame.rename(columns=_no_formula)
    for name, kind in safe.dtypes.items():
        if kind.kind not in "biufmM":
            safe[name] = safe[name].map(_no_formula)
    return str(safe.to_csv(index=False))


def _no_formula(cell: Any) -> Any:
    """Return a cell with an apostrophe in front where a spreadsheet would calculate with it."""
    if not isinstance(cell, str) or not cell.startswith(_FORMULA_STARTS):
        return cell
    with contextlib.suppress(ValueError):
        # -5 is a number to a spreadsheet, too.
        float(cell)
        return cell
    return f"'{cell}"


def write(path: Path, text: str | bytes) -> None:
    """Write a file, whole or not at all, and say so."""
    from fairpca.moments.storage import atomic_write

    with atomic_write(path) as file:
        file.write(text.encode() if isinstance(text, str) else text)
    note(f"wrote {path}")
