"""The verbs and what each is called; every one imports what it needs when it runs."""

from __future__ import annotations

from typing import Annotated

import typer

from fairpca.cli.auditing import audit, report
from fairpca.cli.demo import demo
from fairpca.cli.listing import compare, datasets
from fairpca.cli.models import fit, transform

app = typer.Typer(
    name="fairpca",
    help="One projection whose worst-served group is served as well as possible, with a proof.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)

for verb in (audit, fit, transform, compare, report, datasets, demo):
    app.command()(verb)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"fairpca {version('fairpca')}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """One projection whose worst-served group is served as well as possible, with a proof."""
