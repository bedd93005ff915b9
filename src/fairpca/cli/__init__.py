"""The command line: commands over the public functions, nothing computed here.

`run` is the one place where errors become words and exit codes: 0 done, 2 something is wrong with
the call, the input or the output, 130 interrupted. Nothing heavier than typer is imported before
options and paths are known to be right.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Sequence

#: Set this variable and errors are raised with their traceback.
DEBUG = "FAIRPCA_DEBUG"
_NEEDS_TYPER = 'fairpca: the command line needs typer: run pip install "fairpca[app]"'


def main() -> None:
    """Run the command line and leave with its exit code."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command, given without the program's name, and return its exit code.

    Examples
    --------
    >>> from fairpca.cli import run
    >>> run(["--version"])
    fairpca 0.3.0
    0
    """
    if sys.stdout is None:
        # A shell closed it, and no result could be read.
        return 2
    try:
        from fairpca.cli.app import app
    except ImportError as error:
        if error.name not in ("typer", "rich"):
            raise
        print(_NEEDS_TYPER, file=sys.stderr)
        return 2
    from fairpca.cli.output import log_shown, note

    try:
        with log_shown():
            code = app(args=list(arguments), prog_name="fairpca", standalone_mode=False)
        # A full disk is noticed here, and not when nobody can report it any more.
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except KeyboardInterrupt:
        note("fairpca: interrupted; no output file was touched")
        return 130
    except BrokenPipeError:
        # Who stops reading has seen enough; Python would complain once more at exit.
        with contextlib.suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if hasattr(error, "show"):
            # A wrong call: typer shows the usage beside the message.
            error.show()
            return 2
        if os.environ.get(DEBUG):
            raise
        if isinstance(error, OSError):
            where = f"{error.filename}: " if error.filename else ""
            note(f"fairpca: {where}{error.strerror or error}")
        elif isinstance(error, ValueError | ImportError | MemoryError | NotImplementedError):
            note(
                f"fairpca: {str(error) or 'there is not enough memory; use fewer rows or columns'}"
            )
        else:
            kind = type(error).__name__
            note(f"fairpca: {kind}: {error} (a defect of fairpca; {DEBUG}=1 shows where)")
        return 2
