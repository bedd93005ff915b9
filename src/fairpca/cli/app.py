"""Commands and their options; what they do is in `fairpca.cli.commands`.

Options have the names of the arguments in Python. Paths are checked here, before anything heavy is
imported.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from fairpca.cli.output import check_paths

_EXAMPLES = "Examples: fairpca demo | fairpca inspect t.csv | fairpca audit t.csv -g sex -r 2"
app = typer.Typer(
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=_EXAMPLES,
)


def _option(names: str, metavar: str, text: str) -> Any:
    return typer.Option(*names.split(), metavar=metavar, help=text, show_default=False)


Tables = Annotated[
    list[Path],
    typer.Argument(metavar="TABLE...", show_default=False, help="Files of one table."),
]
Rank = Annotated[
    str,
    _option("--n-components -r", "R", "Number of components, or a share of variance such as 0.9."),
]
Labels = Annotated[
    list[str],
    _option("--sensitive-features -g", "COL", "Group column, or a cut such as 'age>=65'; repeat."),
]
Drop = Annotated[
    list[str] | None, _option("--drop", "COL", "Column to leave out, or a pattern; repeat.")
]
Missing = Annotated[
    str | None,
    _option("--missing", "HOW", "error (default), drop the row, or fill in the mean or median."),
]
Weight = Annotated[str | None, _option("--sample-weight", "COL", "Column of row weights.")]
Raw = Annotated[
    bool,
    typer.Option("--raw", help="Do not give every column mean 0 and standard deviation 1."),
]
Model = Annotated[Path, _option("--model", "FILE", "A model written by `fairpca fit`.")]
Sep = Annotated[str | None, _option("--sep", "CHAR", "Separator of text files, or 'tab'.")]
Decimal = Annotated[str, _option("--decimal", "CHAR", "Decimal sign of text files: . or ,")]
Header = Annotated[
    int | None, _option("--header", "LINE", "Line with the names of columns; 0: there is none.")
]
Encoding = Annotated[str | None, _option("--encoding", "NAME", "Encoding of text files.")]


def _version(wanted: bool) -> None:
    if wanted:
        from fairpca import __version__

        print(f"fairpca {__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """PCA that serves every group, with a proof."""


@app.command()
def inspect(
    tables: Tables,
    sep: Sep = None,
    decimal: Decimal = ".",
    header: Header = None,
    encoding: Encoding = None,
) -> None:
    """Look at the columns of a table before anything is fitted."""
    check_paths(tables, None, ())
    from fairpca.cli import commands

    commands.inspect(tables, (sep, decimal, header, encoding))


@app.command()
def audit(
    tables: Tables,
    sensitive_features: Labels,
    n_components: Rank = "2",
    model: Annotated[
        Path | None, _option("--model", "FILE", "Measure this model on the rows; fit nothing.")
    ] = None,
    ranks: Annotated[
        str | None, _option("--ranks", "LIST", "Numbers of components to look at: 1-10,15.")
    ] = None,
    block: Annotated[
        str | None, _option("--block", "COL", "Column of what rows belong to: a person, a month.")
    ] = None,
    drop: Drop = None,
    missing: Missing = None,
    sample_weight: Weight = None,
    raw: Raw = False,
    output: Annotated[
        Path | None, _option("--output -o", "FILE", "Write a page (.html), .json or .csv.")
    ] = None,
    sep: Sep = None,
    decimal: Decimal = ".",
    header: Header = None,
    encoding: Encoding = None,
) -> None:
    """Find out whom PCA serves, on new rows and on these, and what to fit."""
    # Of a model there is no page.
    endings = [".html", ".json", ".csv"] if model is None else [".json", ".csv"]
    check_paths(tables if model is None else [*tables, model], output, endings)
    from fairpca.cli import commands

    asked = commands.Asked(
        tables, sensitive_features, drop, missing, sample_weight, block, raw,
        (sep, decimal, header, encoding),
    )  # fmt: skip
    commands.audit(asked, n_components, model, ranks, output)


@app.command()
def fit(
    tables: Tables,
    sensitive_features: Annotated[
        list[str], _option("--sensitive-features -g", "COL", "As in audit; of .bed files a file.")
    ],
    output: Annotated[Path, _option("--output -o", "FILE", "The model file, .skops.")],
    n_components: Rank = "2",
    criterion: Annotated[
        str, _option("--criterion", "NAME", "loss (default), error, variance, relative, share.")
    ] = "loss",
    shrinkage: Annotated[
        str | None, _option("--shrinkage", "S", "auto, or 0 to 1: towards what groups share.")
    ] = None,
    max_harm: Annotated[
        float | None, _option("--max-harm", "H", "Most any group may lose above PCA, as a share.")
    ] = None,
    separate: Annotated[
        bool, typer.Option("--separate", help="Keep every pair of groups apart instead.")
    ] = False,
    drop: Drop = None,
    missing: Missing = None,
    sample_weight: Weight = None,
    raw: Raw = False,
    sep: Sep = None,
    decimal: Decimal = ".",
    header: Header = None,
    encoding: Encoding = None,
) -> None:
    """Fit FairPCA and store it, with everything that new rows need."""
    check_paths(tables, output, (".skops",))
    from fairpca.cli import commands

    asked = commands.Asked(
        tables, sensitive_features, drop, missing, sample_weight, None, raw,
        (sep, decimal, header, encoding),
    )  # fmt: skip
    settings = {"criterion": criterion, "shrinkage": shrinkage, "max_harm": max_harm}
    commands.fit(asked, n_components, settings, separate, output)


@app.command()
def transform(
    tables: Tables,
    model: Model,
    keep: Annotated[
        list[str] | None, _option("--keep", "COL", "Column to copy beside the components; repeat.")
    ] = None,
    missing: Missing = None,
    output: Annotated[
        Path | None, _option("--output -o", "FILE", "A .csv, .parquet or .npy file; else stdout.")
    ] = None,
    eigenvec: Annotated[
        Path | None, _option("--eigenvec", "FILE", "Of .bed files: scores as PLINK writes them.")
    ] = None,
    sep: Sep = None,
    decimal: Decimal = ".",
    header: Header = None,
    encoding: Encoding = None,
) -> None:
    """Project rows with a stored model; groups are not needed."""
    check_paths([*tables, model], output, (".csv", ".parquet", ".npy"))
    check_paths([], eigenvec, (".eigenvec",))
    from fairpca.cli import commands

    layout = (sep, decimal, header, encoding)
    commands.transform(tables, model, keep or [], missing, output, eigenvec, layout)


@app.command()
def compare(
    tables: Tables,
    sensitive_features: Labels,
    n_components: Rank = "2",
    method: Annotated[
        list[str] | None, _option("--method", "NAME", "Such as PCA or FairPCA; repeat. Else all.")
    ] = None,
    drop: Drop = None,
    missing: Missing = None,
    raw: Raw = False,
    output: Annotated[Path | None, _option("--output -o", "FILE", "Write .csv or .json.")] = None,
    sep: Sep = None,
    decimal: Decimal = ".",
    header: Header = None,
    encoding: Encoding = None,
) -> None:
    """Put the published fair PCAs side by side on one table."""
    check_paths(tables, output, (".csv", ".json"))
    from fairpca.cli import commands

    asked = commands.Asked(
        tables, sensitive_features, drop, missing, None, None, raw,
        (sep, decimal, header, encoding),
    )  # fmt: skip
    commands.compare(asked, n_components, method or [], output)


@app.command()
def demo(
    output: Annotated[Path, _option("--output -o", "FILE", "Where the picture goes.")] = Path(
        "fairpca-demo.png"
    ),
) -> None:
    """Show PCA beside FairPCA on rows that come with the package."""
    check_paths([], output, (".png", ".svg", ".pdf"))
    from fairpca.cli.demo import demo as show

    show(output)
