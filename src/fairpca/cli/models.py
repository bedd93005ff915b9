"""`fairpca fit` and `fairpca transform`: a model to a file, and new rows through it.

The file also says how the columns of the table became features, so that `transform` needs a table
with the same columns and nothing else.
"""

from __future__ import annotations

import contextlib
import re
import warnings
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, cast

from fairpca.cli import output
from fairpca.cli.options import FileOptions, FitOptions, ReadingOptions, argument, option

if TYPE_CHECKING:
    from fairpca.io.preparation import Preparation, Prepared
    from fairpca.io.tables import TableFile
    from fairpca.persistence import SavedModel


def fit(options: FitOptions) -> None:
    """Fit FairPCA and save it, without pickle, with everything needed for new rows.

    Prints the loss and the error of every group, and how far the worst loss is from the best any
    projection could reach.
    """
    from sklearn.exceptions import ConvergenceWarning

    from fairpca._check import check_shrinkage
    from fairpca.cli.loading import choose_engine, label_names, load, stream
    from fairpca.estimator import FairPCA
    from fairpca.persistence import save_model

    output.check_output(options)
    settings = options.pick(
        "criterion", "center", "shrinkage", "group_by", "unlabelled", "random_state", "prove"
    )
    with contextlib.suppress(TypeError, ValueError):
        settings["shrinkage"] = float(options.shrinkage)  # type: ignore[arg-type]
    # Wrong values and contradictions between options are found before any row is read.
    check_shrinkage(settings["shrinkage"])
    engine, model = choose_engine(options), FairPCA(options.n_components, **settings)
    # What is open is in the certificate, which is printed.
    with warnings.catch_warnings(action="ignore", category=ConvergenceWarning):
        if engine == "memory":
            data = load(options, weight=options.weight)
            preparation, notes = data.preparation, tuple(data.source["preparation"])
            with output.progress("fitting FairPCA") as show, output.log_shown(show):
                model.fit(data.X, sensitive_features=data.labels, sample_weight=data.weight)
        else:
            moments, preparation, notes = stream(options, engine)
            with output.progress("fitting FairPCA") as show, output.log_shown(show):
                model.fit_moments(moments)
    save_model(
        options.output,
        model,
        feature_names=preparation.feature_names,
        preparation=preparation,
        label_names=label_names(list(model.group_names_), options.labels),
        notes=notes,
    )
    if options.checkpoint is not None:
        options.checkpoint.unlink(missing_ok=True)
    output.note(f"wrote {options.output}")
    if len(model.groups_) == 1:
        output.note(
            f"all rows are in one group, {model.groups_[0]!r}, and the result is ordinary PCA: "
            "check the column, or the threshold, of --group."
        )
    output.print_result(options, *_described(model, options.output))


def _described(model: Any, path: Path) -> tuple[dict[str, Any], list[Any]]:
    """Return what `fit` prints about a model that was saved at a path: as JSON, and for people."""
    import numpy as np

    from fairpca.auditing.verdict import MEANS, components, label_texts, number
    from fairpca.criteria import find_criterion

    texts = label_texts(model.groups_, model.group_names_, model.group_by)
    groups: list[dict[str, Any]] = [
        {"text": text, "count": int(count)}
        for text, count in zip(texts, model.group_counts_, strict=True)
    ]
    measures = {"loss": model.group_losses_, "error": model.group_errors_}
    # The proof has the worst value of the criterion; without its column nobody could tell whose.
    # Errors of rows rebuilt are not those of the proof about other means or shrunk covariances.
    proven = model.criterion
    if proven == "error" and not np.allclose(model.group_values_, model.group_errors_):
        proven = "proven_error"
    measures.setdefault(proven, model.group_values_)
    for name, values in measures.items():
        for group, value in zip(groups, values, strict=True):
            group[name] = float(value)
    certificate = ("value", "lower_bound", "gap", "optimal")
    summary = {
        "output": str(path),
        "n_components": model.n_components_,
        "criterion": model.criterion,
        "center": model.center,
        "shrinkage": model.shrinkage_.tolist(),
        "groups": groups,
        "certificate": {name: getattr(model.certificate_, name) for name in certificate},
    }
    rows = [
        [g["text"], f"{g['count']:,}", *(number(g[name]) for name in measures)] for g in groups
    ]
    name, proof = "FairPCA", str(model.certificate_)
    about = []
    if model.criterion != "loss":
        meaning = find_criterion(model.criterion).meaning
        about = [f'The proof is about the column "{proven}"{", " * bool(meaning)}{meaning}.']
    if (model.shrinkage_ == 1).all():
        # The audit advises it. Of groups that are all alike it is proven that none loses anything.
        name = "PCA"
        about = []
        proof = "Shrunk altogether, groups do not count: this is PCA of all of them together."
    lines = [
        f"{name}, {components(model.n_components_)}",
        output.Table([" · ".join(model.group_names_), "rows", *measures], rows),
        f"Losses are about {MEANS[model.center]}; errors are those of the rows rebuilt.",
        *about,
        proof,
    ]
    return summary, lines


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

    from fairpca.cli.loading import find_column, read

    output.check_output(options)
    # Before the table, which is named second: who swaps them is told so.
    saved = stored(options.model)
    table, _ = read(options, _texts(saved, options))
    prepared, notes = prepared_for(saved, table, options.missing)
    output.note_read(notes)
    frame = saved.model.set_output(transform="pandas").transform(prepared.X)
    kept = dict.fromkeys(find_column(table, name) for name in options.keep)
    # Each goes to the front, the first one named last.
    for column in reversed(kept):
        if column in frame:
            raise ValueError(
                f"--keep {column}: a component is called so; rename the column first."
            )
        frame.insert(0, column, _copied(table.frame[column], column)[prepared.kept])
        if options.output is not None and options.output.suffix.lower() == ".npy":
            _check_array(frame[column], options)
    _check_digits(table, list(kept), options)
    summary = {"output": options.output, "columns": list(frame.columns), "n_rows": len(frame)}
    output.deliver(
        options,
        lambda: summary | {"rows": None if options.output else _records(frame, "split")["data"]},
        lambda: output.print_text(output.csv_text(frame)),
        csv=lambda: output.csv_text(frame),
        tsv=lambda: output.csv_text(frame, "\t"),
        parquet=lambda: partial(frame.to_parquet, index=False),
        feather=lambda: frame.to_feather,
        npy=lambda: partial(np.save, arr=frame.to_numpy(dtype=float, na_value=np.nan)),
        json=lambda: output.json_text(_records(frame, "records")),
    )


def _check_array(values: Any, options: TransformOptions) -> None:
    """Refuse a column that is kept in an array of float64, and is no such numbers."""
    from fairpca.io.columns import INEXACT

    if values.dtype.kind not in "biuf":
        what, why = "holds numbers only", "is text or dates"
    elif values.dtype.kind in "iu" and not values.between(-INEXACT, INEXACT).all():
        what, why = "keeps 15 digits", "has more"
    else:
        return
    raise ValueError(
        f"-o {options.output}: a .npy file {what}, and --keep {values.name} {why}; write .csv or "
        ".parquet instead."
    )


def _check_digits(table: TableFile, kept: list[str], options: TransformOptions) -> None:
    """Refuse kept columns of which the parser made fractions that have lost digits of the file.

    It does so with whole numbers that no type of 64 bits holds. Two people would get one number.
    """
    from fairpca.cli.loading import read
    from fairpca.io.columns import INEXACT

    columns = {name: table.frame[name].dropna() for name in kept}
    large = [n for n, c in columns.items() if c.dtype.kind == "f" and (c.abs() >= INEXACT).any()]
    if not large:
        return
    # Only the texts tell such numbers from 9.5e30.
    texts = read(options, large)[0].frame
    for name in large:
        for cell in texts[name].dropna().unique():
            if re.fullmatch(r"[+-]?\d{19,}", str(cell).strip()):
                raise ValueError(
                    f"--keep {name}: numbers such as {cell} lose digits there; write .csv, or a "
                    "letter in front of them."
                )


def _copied(values: Any, column: str) -> Any:
    """Return a column that is kept: whole numbers are whole, though gaps made fractions of them.

    ValueError where they have lost digits that way: two people would get one number.
    """
    from fairpca.io.columns import INEXACT

    known = values.dropna()
    if values.dtype.kind != "f" or len(known) == len(values) or (known % 1 != 0).any():
        return values.array
    if known.abs().max() >= 2**64:
        # No file stores such numbers as whole ones.
        return values.array
    if known.abs().max() >= INEXACT:
        raise ValueError(
            f"--keep {column}: whole numbers of more than 15 digits beside empty cells lose "
            "digits; store the column as text."
        )
    return values.astype("Int64").array


def _texts(saved: SavedModel, options: TransformOptions) -> list[str]:
    """Return the columns that are read as the texts they are.

    What is copied into text stays as it was written, 007 and 1E1 too. Other formats have types.
    """
    features = cast("Preparation", saved.preparation).features
    numbers = {feature.name for feature in features if not feature.levels}
    text = options.output is None or options.output.suffix.lower() in (".csv", ".tsv")
    kept = [name for name in options.keep if text and not options.json and name not in numbers]
    return [*level_columns(saved), *kept]


def level_columns(saved: SavedModel) -> list[str]:
    """Return the columns of which a model knows levels, which are texts."""
    features = cast("Preparation", saved.preparation).features
    return [feature.name for feature in features if feature.levels]


def stored(path: Path) -> SavedModel:
    """Return a model that `fairpca fit` has written; ValueError for any other file."""
    from fairpca.persistence import load_model

    saved = load_model(path)
    if saved.preparation is None:
        raise ValueError(f"{path} does not say how columns become features; use it from Python.")
    return saved


def prepared_for(
    saved: SavedModel, table: TableFile, missing: str | None
) -> tuple[Prepared, list[str]]:
    """Return the rows of a table as a stored model takes them, and what was done to them.

    Nothing but the columns the model knows is looked at, so a label column may be missing. Where
    `missing` is None, missing values are treated as they were when the model was fitted.
    """
    from fairpca.cli.loading import rows_text

    try:
        preparation = cast("Preparation", saved.preparation)
        prepared = _with_missing(preparation, saved.model, missing).apply(table.frame)
    except ValueError as error:
        # A median is not known here, so it is no remedy.
        text = str(error).replace(", --missing mean or --missing median", " or --missing mean")
        raise ValueError(text) from None
    return prepared, [rows_text(len(table.frame)), *table.notes, *prepared.notes]


def _with_missing(preparation: Preparation, model: Any, missing: str | None) -> Preparation:
    """Return the preparation of a model with what ``--missing`` asks for, if anything.

    The mean of a raw column is known from the fit: features are scaled about it, and the model
    has the mean of what is left. A median is not known.
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


def _records(frame: Any, form: Literal["records", "split"]) -> Any:
    """Return plain values with every digit, in a form of pandas; None where JSON has no number.

    pandas' own `to_json` keeps ten digits, which is not enough to get the same components back.
    """
    known = frame.notna() & ~frame.isin([float("inf"), float("-inf")])
    return frame.astype(object).where(known, None).to_dict(form)
