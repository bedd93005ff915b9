"""Progress on standard error: a bar on a terminal with rich, plain lines otherwise."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator


class Lines:
    """One line per finished step."""

    def __init__(self, total: int) -> None:
        self.total, self.done, self.start = total, 0, time.monotonic()

    def step(self, name: str) -> None:
        """Announce the step that begins."""
        self.done += 1
        spent = time.monotonic() - self.start
        print(f"[{self.done}/{self.total}] {spent:6.1f} s  {name}", file=sys.stderr, flush=True)


class Bar:
    """The same as a bar."""

    def __init__(self, bar: object, task: object) -> None:
        self.bar, self.task, self.first = bar, task, True

    def step(self, name: str) -> None:
        """Announce the step that begins."""
        advance = 0 if self.first else 1
        self.first = False
        self.bar.update(self.task, advance=advance, description=name)  # type: ignore[attr-defined]


@contextlib.contextmanager
def progress(total: int) -> Iterator[Lines | Bar]:
    """Yield an object whose `step(name)` announces each of `total` steps."""
    try:
        from rich.console import Console
        from rich.progress import (
            BarColumn,
            MofNCompleteColumn,
            Progress,
            TextColumn,
            TimeElapsedColumn,
        )
    except ImportError:
        yield Lines(total)
        return
    if not sys.stderr.isatty():
        yield Lines(total)
        return
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=total)
        yield Bar(bar, task)
        bar.update(task, completed=total, description="done")
