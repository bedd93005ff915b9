"""Results: to stdout or to a file, whole or not at all, never over another file unasked."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from fairpca.cli.terminal import console, note, silence_stdout
from fairpca.moments.storage import atomic_write


def check_output(path: Path | None, endings: tuple[str, ...], force: bool) -> None:
    """Refuse an output file before work starts, rather than after it."""
    if path is None:
        return
    if path.suffix.lower() not in endings:
        raise ValueError(f"-o {path}: the ending must be one of {', '.join(endings)}.")
    if path.is_dir():
        raise ValueError(f"-o {path} is a directory; name a file.")
    if path.exists() and not path.is_file():
        raise ValueError(f"-o {path} is not an ordinary file and is left alone.")
    if path.exists() and not force:
        raise ValueError(f"-o {path} exists; add --force to replace it, or choose another name.")
    if not path.parent.is_dir():
        raise ValueError(f"-o {path}: there is no directory {path.parent}.")


def write_file(path: Path, write: Callable[[IO[Any]], Any], *, text: bool = True) -> None:
    """Write a file atomically and say so on stderr."""
    mode: dict[str, Any] = {"mode": "w", "encoding": "utf-8"} if text else {"mode": "wb"}
    with atomic_write(path, **mode) as file:
        write(file)
    note(f"wrote {path}")


def print_text(text: str) -> None:
    """Write a result to stdout."""
    with _readers_may_leave():
        sys.stdout.write(text if text.endswith("\n") else text + "\n")
        sys.stdout.flush()


@contextlib.contextmanager
def _readers_may_leave() -> Iterator[None]:
    """Whoever stops reading has seen enough: the command goes on and keeps its exit code."""
    try:
        yield
    except BrokenPipeError:
        silence_stdout()


def print_json(value: Any) -> None:
    """Write a result to stdout as JSON."""
    print_text(json.dumps(value, allow_nan=False, default=str))


def print_lines(lines: list[Any]) -> None:
    """Write rich objects to stdout."""
    out = console()
    with _readers_may_leave():
        for line in lines:
            out.print(line)
        sys.stdout.flush()
