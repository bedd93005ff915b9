"""The command line: verbs over the public functions, nothing computed here.

Exit codes: 0 done, 1 the gap is larger than ``--max-gap`` allows, 2 anything wrong with the call
or the input. Nothing heavier than typer is imported until a verb runs.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence

DEBUG = "FAIRPCA_DEBUG"


def main() -> None:
    """Run the command line and leave with its exit code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code.

    Parameters
    ----------
    arguments : sequence of str
        Without the program's name.
    """
    try:
        from fairpca.cli.app import app
    except ImportError as error:
        if error.name is None or not error.name.startswith(("typer", "click", "rich")):
            raise
        _complain('the command line needs typer: pip install "fairpca[app]"')
        return 2
    from fairpca.cli.terminal import warnings_as_notes

    try:
        with warnings_as_notes():
            code = app(args=list(arguments), prog_name="fairpca", standalone_mode=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except KeyboardInterrupt:
        _complain("interrupted; no output file was touched")
        return 130
    except Exception as error:
        if os.environ.get(DEBUG):
            raise
        return _report(error)


def _report(error: Exception) -> int:
    """Say what went wrong in one message, without a traceback."""
    from fairpca.cli.terminal import silence_stdout

    show = getattr(error, "show", None)
    if callable(show):
        show()
    elif type(error).__name__ == "Abort":
        _complain("aborted")
    elif isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        _complain(f"{where}{error.strerror or error}")
        silence_stdout()
    elif type(error) is MemoryError and error.args:
        # Refused by a budget, which says what to do.
        _complain(str(error))
    elif isinstance(error, MemoryError):
        _complain("there is not enough memory; use fewer rows or columns, or a machine with more")
    elif isinstance(error, ValueError | ImportError | NotImplementedError):
        _complain(str(error))
    else:
        _complain(
            f"{type(error).__name__}: {error} (this is a defect of fairpca; {DEBUG}=1 shows where)"
        )
    return 2


def _complain(message: str) -> None:
    from fairpca.cli.terminal import plain

    with contextlib.suppress(OSError):
        print(f"fairpca: {plain(message)}", file=sys.stderr)
