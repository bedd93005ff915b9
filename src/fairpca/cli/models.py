"""`fairpca fit` and `fairpca transform`."""

from __future__ import annotations

import json as json_text
import warnings
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Option

from fairpca.cli.options import (
    Components,
    FitOptions,
    Force,
    Groups,
    Json,
    ReadingOptions,
    Seed,
    Table,
    Tables,
    parse_components,
    takes,
)

_TABLES = (".csv", ".tsv", ".parquet", ".feather", ".npy", ".json")


@takes(FitOptions)
def fit(
    tables: Tables,
    group: Groups,
    components: Components,
    options: FitOptions,
    output: Annotated[
        Path, Option("-o", "--output", help="Model file to write (.skops).", show_default=False)
    ],
    criterion: Annotated[
        str,
        Option(
            help="What is minimised for the worst group: loss, error, variance, relative or share."
        ),
    ] = "loss",
    weight: Annotated[
        str | None, Option(help="Column of row weights.", show_default=False)
    ] = None,
    seed: Seed = 0,
    json: Json = False,
    force: Force = False,
) -> None:
    """Fit FairPCA and save it, without pickle, with everything needed for new rows."""
    from sklearn.exceptions import ConvergenceWarning

    from fairpca.cli.loading import load
    from fairpca.cli.output import check_output, print_json, print_lines
    from fairpca.cli.streaming import choose_engine, stream
    from fairpca.cli.terminal import note
    from fairpca.estimator import FairPCA
    from fairpca.persistence import save_model

    r = parse_components(components)
    check_output(output, (".skops",), force)
    model = FairPCA(
        r,
        criterion=criterion,
        group_by=options.group_by,
        unlabelled=options.unlabelled,
        random_state=seed,
    )
    engine = choose_engine(options, tables, options)
    with warnings.catch_warnings():
        # What is open is in the certificate, which is printed.
        warnings.simplefilter("ignore", ConvergenceWarning)
        if engine == "memory":
            data = load(tables, group, options, weight=weight)
            preparation, notes = data.preparation, tuple(data.source["preparation"])
            model.fit(data.X, sensitive_features=data.labels, sample_weight=data.weight)
        else:
            found = stream(tables, group, options, options, name=engine, weight=weight)
            preparation, notes = found.preparation, found.notes
            model.fit_moments(found.moments)
    save_model(
        output,
        model,
        feature_names=preparation.feature_names,
        preparation=preparation,
        notes=notes,
    )
    note(f"wrote {output}")
    if json:
        print_json(_summary(model, output))
    else:
        print_lines(_model_lines(model))


@takes(ReadingOptions)
def transform(
    model: Annotated[
        Path,
        Argument(
            metavar="MODEL", help="A model file written by `fairpca fit`.", show_default=False
        ),
    ],
    table: Table,
    options: ReadingOptions,
    keep: Annotated[
        list[str] | None,
        Option(
            "--keep",
            help="Column of the table to copy beside the components; repeat.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        Option(
            "-o",
            "--output",
            help="A .csv, .tsv, .parquet, .feather, .npy or .json file; default CSV on stdout.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
    force: Force = False,
) -> None:
    """Project the rows of a table with a saved model; groups are not needed."""
    from fairpca._checks import require
    from fairpca.cli.loading import find_column, layout_of
    from fairpca.cli.output import check_output, print_json, print_text
    from fairpca.cli.terminal import note
    from fairpca.io.tables import read_tables
    from fairpca.persistence import load_model

    check_output(output, _TABLES, force)
    saved = load_model(model)
    read = read_tables([table], layout_of(options))
    if saved.preparation is None:
        raise ValueError(f"{model} does not say how columns become features; use it from Python.")
    prepared = saved.preparation.apply(read.frame)
    projected = saved.model.transform(prepared.X)
    note("read " + "; ".join([f"{len(read.frame):,} rows", *read.notes, *prepared.notes]) + ".")
    pandas = require("pandas", extra="app", purpose="transform")
    frame = pandas.DataFrame(projected, columns=list(saved.model.get_feature_names_out()))
    for name in reversed(keep or []):
        column = find_column(read, name)
        frame.insert(0, column, read.frame[column].to_numpy()[prepared.kept])
    if output is not None:
        _write(frame, output)
    if json:
        rows = None if output is not None else _plain_rows(frame)
        print_json(
            {
                "output": None if output is None else str(output),
                "columns": list(frame.columns),
                "n_rows": len(frame),
                "rows": rows,
            }
        )
    elif output is None:
        print_text(frame.to_csv(index=False))


def _write(frame: Any, output: Path) -> None:
    from fairpca.cli.output import write_file

    ending = output.suffix.lower()
    if ending == ".parquet":
        write_file(output, lambda file: frame.to_parquet(file, index=False), text=False)
    elif ending == ".feather":
        write_file(output, frame.to_feather, text=False)
    elif ending == ".npy":
        import numpy as np

        numbers = frame.to_numpy(dtype=float)
        write_file(output, lambda file: np.save(file, numbers), text=False)
    elif ending == ".json":
        rows = [dict(zip(frame.columns, row, strict=True)) for row in _plain_rows(frame)]
        write_file(output, lambda file: json_text.dump(rows, file, default=str))
    else:
        separator = "\t" if ending == ".tsv" else ","
        write_file(output, lambda file: frame.to_csv(file, index=False, sep=separator))


def _plain_rows(frame: Any) -> list[list[Any]]:
    """Return rows of plain values with every digit; None where a kept column has a hole."""
    values = frame.astype(object).where(frame.notna(), None).to_numpy().tolist()
    return [list(row) for row in values]


def _summary(model: Any, output: Path) -> dict[str, Any]:
    from fairpca.auditing.verdict import label_texts

    texts = label_texts(model.groups_, model.group_names_, model.group_by)
    certificate = model.certificate_
    return {
        "output": str(output),
        "n_components": model.n_components_,
        "criterion": model.criterion,
        "groups": [
            {"text": text, "count": int(count), "loss": float(loss), "error": float(error)}
            for text, count, loss, error in zip(
                texts, model.group_counts_, model.group_losses_, model.group_errors_, strict=True
            )
        ],
        "certificate": {
            "value": certificate.value,
            "lower_bound": certificate.lower_bound,
            "gap": certificate.gap,
            "optimal": certificate.optimal,
        },
    }


def _model_lines(model: Any) -> list[Any]:
    from rich.text import Text

    from fairpca.auditing.verdict import components, label_texts, number
    from fairpca.cli.terminal import table

    texts = label_texts(model.groups_, model.group_names_, model.group_by)
    rows = [
        [text, f"{count:,}", number(float(loss)), number(float(error))]
        for text, count, loss, error in zip(
            texts, model.group_counts_, model.group_losses_, model.group_errors_, strict=True
        )
    ]
    return [
        Text(f"FairPCA, {components(model.n_components_)}"),
        table([" · ".join(model.group_names_), "rows", "loss", "error"], rows),
        Text(str(model.certificate_)),
    ]
