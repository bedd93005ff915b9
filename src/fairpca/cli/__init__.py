"""The command line: commands over the public functions, nothing computed here.

`run` is the one place where errors become words and exit codes: 0 done, 2 something is wrong with
the call or the input, 3 the gap is larger than ``--max-gap`` allows, 130 interrupted. A reader of
our output that leaves early, such as ``head``, is no error. Code 1 is never used: the shell and
the interpreter use it for failures of their own, and a pipeline could not tell them apart.

Nothing heavier than typer is imported until a command runs.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Any

#: Set this variable and errors are raised with their traceback.
DEBUG = "FAIRPCA_DEBUG"

# Exit code of a command that was interrupted, as shells have it.
_INTERRUPTED = 130
# What typer consists of.
_TYPER = ("typer", "click", "rich")
# How to install it; `fairpca._check.require`, which says so of others, would import NumPy.
_NEEDS_TYPER = """the command line needs typer, which is not installed: run pip install ".[app]" \
in the folder of fairpca's source"""
# What stands under "Examples" in the help of `fairpca` itself.
_EXAMPLES = """\
  fairpca demo
  fairpca inspect people.csv
  fairpca audit people.csv -g sex -r 2 -o audit.html"""


def main() -> None:
    """Run the command line and leave with its exit code."""
    for name in ("stdout", "stderr"):
        # A shell may close them, and some windows of Windows have none.
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """Run one command, given without the program's name, and return its exit code.

    Examples
    --------
    >>> from fairpca.cli import run
    >>> run(["--version"])
    fairpca 0.2.0
    0
    """
    from fairpca.cli.output import note, silence_stdout, warnings_as_notes

    if os.environ.get("COLUMNS") == "0":
        # Some terminals of editors and of containers say so; nothing would be shown at all.
        del os.environ["COLUMNS"]
    try:
        with warnings_as_notes():
            code = _app()(args=list(arguments), prog_name="fairpca", standalone_mode=False)
        # A full disk is noticed here, and not when nobody can report it any more.
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = _INTERRUPTED
    except (BrokenPipeError, SystemExit):
        # The reader of a help page has gone; rich turns that into an exit with code 1.
        silence_stdout()
        return 0
    except Exception as error:
        if isinstance(error, ImportError) and str(error.name).startswith(_TYPER):
            print(f"fairpca: {_NEEDS_TYPER}", file=sys.stderr)
            return 2
        if os.environ.get(DEBUG):
            raise
        _report(error)
        return 2
    # Newer versions of typer make an exit code of an interrupt themselves, in silence.
    if code == _INTERRUPTED:
        note("fairpca: interrupted; no output file was touched")
    return code if isinstance(code, int) else 0


def _app() -> Any:
    """Return the commands, in the order in which a new user meets them; ImportError without typer.

    Everything is imported here, so that a missing typer can be reported in a sentence.
    """
    import typer

    from fairpca.cli.auditing import audit, report
    from fairpca.cli.listing import compare, datasets, demo, inspect
    from fairpca.cli.models import fit, transform
    from fairpca.cli.options import Command, Group, as_command, root

    app = typer.Typer(
        name="fairpca",
        cls=Group,
        epilog=_EXAMPLES,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    )
    app.callback()(root)
    for verb in (inspect, audit, fit, transform, compare, report, datasets, demo):
        command = as_command(verb)
        app.command(cls=Command, epilog=command.examples)(command)
    return app


def _report(error: Exception) -> None:
    """Say what went wrong in one message on stderr, without a traceback.

    Errors that the library raises on purpose speak for themselves. No input should be able to
    cause any other, which is called a defect of fairpca.
    """
    from fairpca.cli.output import in_option_words, missing_file, note, silence_stdout

    if hasattr(error, "show"):
        # A wrong call: typer shows the usage beside the message.
        error.show()
        return
    text = str(error)
    if type(error).__name__ == "Abort":
        text = "aborted"
    elif isinstance(error, OSError):
        text = f"{f'{error.filename}: ' if error.filename else ''}{error.strerror or error}"
        if isinstance(error, FileNotFoundError):
            # Python's own error has the name apart, that of our readers begins with it.
            name, ours, _ = str(error).partition(" does not exist")
            missing = name if ours else error.filename
            text = missing_file(missing) if missing else text
        # It may be stdout itself that is full; flushing it again at exit would raise once more.
        silence_stdout()
    elif isinstance(error, MemoryError):
        # A budget that refuses says what to do; the interpreter says nothing.
        text = text or "there is not enough memory; use fewer rows or columns"
    elif not isinstance(error, ValueError | ImportError | NotImplementedError):
        name = type(error).__name__
        text = f"{name}: {text} (this is a defect of fairpca; {DEBUG}=1 shows where)"
    note(f"fairpca: {in_option_words(text)}")
