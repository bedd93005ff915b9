"""`fairpca compare` and `fairpca datasets`."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated, Any

from typer import Option

from fairpca.cli.options import (
    Components,
    Force,
    Groups,
    Json,
    Seed,
    Table,
    TableOptions,
    parse_components,
    takes,
)


@takes(TableOptions)
def compare(
    table: Table,
    group: Groups,
    components: Components,
    options: TableOptions,
    method: Annotated[
        list[str] | None,
        Option(
            "--method",
            help="A method by name, such as PCA, FairPCA or SDRFairPCA; repeat. Default: all.",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        str | None,
        Option(help="Column of two classes a linear model predicts.", show_default=False),
    ] = None,
    seed: Seed = 0,
    output: Annotated[
        Path | None,
        Option("-o", "--output", help="Write the table here (.csv or .json).", show_default=False),
    ] = None,
    json: Json = False,
    force: Force = False,
) -> None:
    """Put every published fair PCA side by side on one table."""
    from fairpca.cli.loading import load
    from fairpca.cli.output import check_output, print_text, write_file
    from fairpca.cli.terminal import note, plain
    from fairpca.comparison import compare as run_compare

    wanted = parse_components(components)
    check_output(output, (".csv", ".json"), force)
    data = load([table], group, options, target=target)
    models = _methods(_rank(wanted, data), method or [])
    note(f"fitting {len(models)} methods; --method picks some of them.")
    found = run_compare(models, data.X, data.labels, data.y, random_state=seed)
    if output is not None:
        text = found.to_json(indent=1) if output.suffix == ".json" else found.to_csv()
        write_file(output, lambda file: file.write(text))
    if json:
        print_text(found.to_json())
    elif output is None:
        print_text("\n".join(plain(line) for line in str(found).splitlines()))


def _rank(wanted: int | float, data: Any) -> int:
    """Return the number of components a share asks for, FairPCA deciding."""
    if isinstance(wanted, int):
        return wanted
    from fairpca.estimator import FairPCA

    model = FairPCA(wanted).fit(data.X, sensitive_features=data.labels)
    return int(model.n_components_)


def _methods(n_components: int, wanted: list[str]) -> dict[str, Any]:
    from fairpca.comparison import default_estimators

    known = default_estimators(n_components)
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise ValueError(
            f"--method {unknown[0]} is not known; choose among {', '.join(sorted(known))}."
        )
    return {name: model for name, model in known.items() if not wanted or name in wanted}


def datasets(json: Json = False) -> None:
    """List the data sets that `fairpca.datasets` loads or makes."""
    import fairpca.datasets as catalogue
    from fairpca.cli.output import print_json, print_lines
    from fairpca.cli.terminal import table

    rows = [
        {"name": name, "about": _first_line(getattr(catalogue, name))}
        for name in catalogue.__all__
        if name.startswith(("fetch_", "make_"))
    ]
    if json:
        print_json(rows)
    else:
        cells = [[row["name"], row["about"]] for row in rows]
        print_lines([table(["loader", "what it is"], cells, numbers=False)])


def _first_line(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").partition("\n")[0]
