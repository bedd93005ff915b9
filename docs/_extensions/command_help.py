"""The directive ``command-help``: what a command of ``fairpca`` prints for ``--help``.

It is asked when the site is built, so that the page cannot differ from the program.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from typing import Any

from docutils import nodes
from sphinx.util.docutils import SphinxDirective

# Columns of the help, as of a terminal; site.css makes room for as many.
_WIDTH = 80


def help_of(*command: str) -> str:
    """Return what ``fairpca COMMAND --help`` prints, without colours."""
    from fairpca.cli import run

    wanted = {"COLUMNS": str(_WIDTH), "TERMINAL_WIDTH": str(_WIDTH), "NO_COLOR": "1"}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            run([*command, "--help"])
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})
    text = re.sub(r"\x1b\[[0-9;]*m", "", printed.getvalue())
    return "\n".join(line.rstrip() for line in text.strip("\n").splitlines())


class CommandHelp(SphinxDirective):
    """Show the help of the command named by the arguments; of ``fairpca`` itself without any."""

    optional_arguments = 2

    def run(self) -> list[nodes.Node]:
        """Return the block of text."""
        text = help_of(*self.arguments)
        block = nodes.literal_block(text, text, language="text")
        self.set_source_info(block)
        return [block]


def setup(app: Any) -> dict[str, bool]:
    """Add the directive."""
    app.add_directive("command-help", CommandHelp)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
