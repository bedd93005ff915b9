"""`fairpca fit` and `fairpca transform`: a model to a file, and new rows through it.

The file holds the model and how the columns of the table became features, so that `transform`
needs a table with the same columns and nothing else. `fairpca.persistence` writes and reads it.
"""

from __future__ import annotations

import contextlib
import warnings
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from fairpca.cli import output
from fairpca.cli.options import FileOptions, FitOptions, ReadingOptions, argument, option

if TYPE_CHECKING:
    from fairpca.io.preparation import Preparation


def fit(options: FitOptions) -> None:
    """Fit FairPCA and save it, without pickle, with everything needed for new rows.

    Prints the loss and the error of every group, and how far the worst loss is from the best any
    projection could reach.
    """
    from sklearn.exceptions import ConvergenceWarning

    from fairpca.cli.loading import load
    from fairpca.cli.streaming import choose_engine, stream
    from fairpca.estimator import FairPCA
    from fairpca.persistence import save_model

    output.check_output(options)
    settings = options.pick("criterion", "center", "group_by", "unlabelled", "random_state")
    model = FairPCA(options.n_components, shrinkage=_amount(options.shrinkage), **settings)
    # Contradictions between options are found before any row is read.
    engine = choose_engine(options)
    with warnings.catch_warnings():
        # What is open is in the certificate, which is printed.
        warnings.simplefilter("ignore", ConvergenceWarning)
        if engine == "memory":
            data = load(options, weight=options.weight)
            preparation, notes = data.preparation, tuple(data.source["preparation"])
            with output.progress("fitting FairPCA"):
                model.fit(data.X, sensitive_features=data.labels, sample_weight=data.weight)
        else:
            moments, preparation, notes = stream(options, engine)
            with output.progress("fitting FairPCA"):
                model.fit_moments(moments)
    names = preparation.feature_names
    save_model(options.output, model, feature_names=names, preparation=preparation, notes=notes)
    output.note(f"wrote {options.output}")
    summary = _summary(model, options.output)
    if options.json:
        output.print_json(summary)
    else:
        output.print_lines(_model_lines(model, summary))


def _amount(text: str | None) -> float | str | None:
    """Return the value of ``--shrinkage`` as FairPCA takes it, or raise ValueError."""
    from fairpca._checks import check_shrinkage

    found: float | str | None = text
    if text is not None and text != "auto":
        with contextlib.suppress(ValueError):
            found = float(text)
    check_shrinkage(found)
    return found


def _summary(model: Any, path: Path) -> dict[str, Any]:
    """Return what `fit --json` prints: plain values, the groups in the order of the model.

    Parameters
    ----------
    model : FairPCA
        Fitted.
    path : Path
        Where it was saved.
    """
    from fairpca.auditing.verdict import label_texts

    texts = label_texts(model.groups_, model.group_names_, model.group_by)
    columns = texts, model.group_counts_, model.group_losses_, model.group_errors_
    certificate = ("value", "lower_bound", "gap", "optimal")
    return {
        "output": str(path),
        "n_components": model.n_components_,
        "criterion": model.criterion,
        "center": model.center,
        "shrinkage": model.shrinkage_.tolist(),
        "groups": [
            {"text": text, "count": int(count), "loss": float(loss), "error": float(error)}
            for text, count, loss, error in zip(*columns, strict=True)
        ],
        "certificate": {name: getattr(model.certificate_, name) for name in certificate},
    }


def _model_lines(model: Any, summary: dict[str, Any]) -> list[Any]:
    """Return what `fit` prints for people: a table of the groups and the certificate.

    Parameters
    ----------
    model : FairPCA
    summary : dict
        What `_summary` returned for it.
    """
    from fairpca.auditing.verdict import MEANS, components, number

    rows = [
        [group["text"], f"{group['count']:,}", number(group["loss"]), number(group["error"])]
        for group in summary["groups"]
    ]
    return [
        f"FairPCA, {components(model.n_components_)}",
        output.table([" · ".join(model.group_names_), "rows", "loss", "error"], rows),
        f"Losses are about {MEANS[model.center]}; errors are those of the rows rebuilt.",
        str(model.certificate_),
    ]


@dataclass(frozen=True, kw_only=True)
class TransformOptions(ReadingOptions, FileOptions):
    """What `transform` takes.

    Attributes
    ----------
    model : Path
        A model file written by `fairpca fit`.
    keep : list of str
        Column of the table to copy beside the components; repeat.
    missing : str, optional
        Missing numbers: 'error', 'drop' the row, or fill in the 'mean' of the rows the model was
        fitted on. Default: as the model was fitted.
    output : Path, optional
        A .csv, .tsv, .parquet, .feather, .npy or .json file; default CSV on stdout. In CSV, text
        that a spreadsheet would run as a formula gets a leading apostrophe.
    """

    examples: ClassVar[str] = """\
  fairpca transform model.skops people.csv -o scores.csv
  fairpca transform model.skops new.csv --keep id -o scores.parquet"""
    endings: ClassVar[tuple[str, ...]] = (".csv", ".tsv", ".parquet", ".feather", ".npy", ".json")
    panel: ClassVar[str | None] = None

    model: Annotated[Path, argument("MODEL")]
    keep: Annotated[list[str], option("COL")] = field(default_factory=list)
    missing: Annotated[str | None, option("HOW", among=("error", "drop", "mean"))] = None
    output: Annotated[Path | None, option("FILE", "-o", "--output")] = None


def transform(options: TransformOptions) -> None:
    """Project the rows of a table with a saved model; groups are not needed.

    The columns are prepared as they were when the model was fitted. Columns the model does not
    know are ignored.
    """
    import numpy as np

    from fairpca._checks import require
    from fairpca.cli.loading import find_column, read
    from fairpca.persistence import load_model

    output.check_output(options)
    saved = load_model(options.model)
    if saved.preparation is None:
        raise ValueError(
            f"{options.model} does not say how columns become features; use it from Python."
        )
    table, _ = read(options)
    # Nothing but the columns the model knows is looked at, so a label column may be missing.
    preparation = _with_missing(saved.preparation, saved.model, options.missing)
    try:
        prepared = preparation.apply(table.frame)
    except ValueError as error:
        # A median is not known here, so it is no remedy.
        text = str(error).replace(", --missing mean or --missing median", " or --missing mean")
        raise ValueError(text) from None
    notes = [f"{len(table.frame):,} rows", *table.notes, *prepared.notes]
    output.note("read " + "; ".join(notes) + ".")
    pandas = require("pandas", extra="app", purpose="transform")
    scores, names = saved.model.transform(prepared.X), saved.model.get_feature_names_out()
    frame = pandas.DataFrame(scores, columns=list(names))
    # Each goes to the front, the first one named last.
    for name in reversed(options.keep):
        column = find_column(table, name)
        frame.insert(0, column, table.frame[column].to_numpy()[prepared.kept])
    formats = {
        "csv": lambda: output.csv_text(frame),
        "tsv": lambda: output.csv_text(frame, "\t"),
        "parquet": lambda: partial(frame.to_parquet, index=False),
        "feather": lambda: frame.to_feather,
        "npy": lambda: partial(np.save, arr=frame.to_numpy(dtype=float)),
        "json": lambda: output.json_text(_records(frame)),
    }
    output.deliver(
        options,
        lambda: {
            "output": options.output,
            "columns": list(frame.columns),
            "n_rows": len(frame),
            "rows": None if options.output else [list(row.values()) for row in _records(frame)],
        },
        lambda: output.print_text(output.csv_text(frame)),
        **formats,
    )


def _with_missing(preparation: Preparation, model: Any, missing: str | None) -> Preparation:
    """Return the preparation with what ``--missing`` asks for in place of what was fitted.

    The mean of a raw column is known from the fit: features are scaled about it, and the model
    has the mean of what is left. A median is not known.

    Parameters
    ----------
    preparation : Preparation
        From the model file.
    model : FairPCA
        Fitted on what the preparation makes.
    missing : {"error", "drop", "mean"} or None
        None leaves everything as it was fitted.
    """
    if missing is None:
        return preparation
    means = dict(zip(preparation.feature_names, model.mean_.tolist(), strict=True))
    features = []
    for feature in preparation.features:
        filled = missing == "mean" and not feature.levels
        fill = feature.mean[0] + feature.scale[0] * means[feature.name] if filled else None
        features.append(replace(feature, fill=fill))
    return replace(preparation, features=tuple(features), missing=missing)


def _records(frame: Any) -> list[dict[str, Any]]:
    """Return rows of plain values with every digit; None where JSON has no number for it.

    pandas' own `to_json` keeps ten digits, which is not enough to get the same components back.
    """
    known = frame.notna() & ~frame.isin([float("inf"), float("-inf")])
    rows: list[dict[str, Any]] = frame.astype(object).where(known, None).to_dict("records")
    return rows
