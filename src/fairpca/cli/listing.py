"""`fairpca inspect`, `compare`, `datasets` and `demo`: commands to look around with."""

from __future__ import annotations

import inspect as inspection
import math
import timeit
import warnings
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar

from fairpca.cli import output
from fairpca.cli.auditing import table_lines
from fairpca.cli.options import FileOptions, JsonOption, ReadingOptions, TableOptions, option

# A column with more distinct values is hardly one of groups: an audit of them fills pages. It is
# only a suggestion; -g takes up to a thousand labels.
_MOST_LEVELS = 20
# Dates written as text, day, month and year in any order: 2024-03-01, 1.3.2024 08:15, 03/01/24.
_DATE = r"\d{1,4}[-./]\d{1,2}[-./]\d{1,4}([T ].*)?"
# Levels that a terminal shows of a column: the largest ones, and the smallest, which may be rare.
_SHOWN_LEVELS = 3

# Where the picture goes unless asked otherwise.
_PICTURE = Path("fairpca-demo.png")
# Components: with six, PCA treats the two groups of the diabetes data most unequally (the gap is
# 74%; with one to eight it lies between 29% and 74%).
_RANK = 6
# Fits that are timed. The fastest counts: the machine was busy with something else in the others.
_REPEATS = 7


@dataclass(frozen=True, kw_only=True)
class InspectOptions(ReadingOptions):
    """What `inspect` takes."""

    examples: ClassVar[str] = """\
  fairpca inspect people.csv
  cat people.csv | fairpca inspect - --json"""


def inspect(options: InspectOptions) -> None:
    """Look at the columns of a table before anything is fitted.

    Shows the type, distinct and missing values of every column, and what it looks like: labels of
    groups, a row number, an id, a date, free text, a constant.
    """
    from fairpca.cli.loading import drop_options, read, rows_text

    found, files = read(options)
    frame = found.frame
    output.note_read([rows_text(len(frame)), *found.notes])
    columns = [_look(frame[name], name in found.row_number_columns) for name in frame.columns]
    ids = [row["name"] for row in columns if row["looks_like"] in ("row number", "id")]
    cells = frame.drop(columns=ids)
    # As text, because a list in a cell (Parquet has such cells) cannot be compared.
    objects = [name for name, kind in cells.dtypes.items() if kind.kind == "O"]
    cells[objects] = cells[objects].map(str)
    repeated = int(cells.duplicated().sum())
    rows = []
    for row in columns:
        numbers = [f"{row[name]:,}" for name in ("distinct", "missing")]
        rows.append([row["name"], row["type"], row["looks_like"], *numbers, _values_text(row)])
    titles = ["column", "type", "looks like", "distinct", "missing", "values"]
    labels = [row["name"] for row in columns if row["looks_like"] == "labels"]
    lines: list[Any] = [output.Table(titles, rows, words=(0, 1, 2, 5))]
    if repeated:
        lines.append(f"{repeated:,} row(s) repeat another one, ids aside.")
    lines.append(f"Likely groups (-g): {', '.join(labels) or 'none'}.")
    ids = [row["name"] for row in columns if row["looks_like"] == "id"]
    if ids:
        lines.append(f"Likely identifiers: {', '.join(ids)}; leave out with {drop_options(ids)}.")
    summary = {"files": files, "n_rows": len(frame), "repeated_rows": repeated, "columns": columns}
    output.print_result(options, summary, lines)


def _look(column: Any, counts_rows: bool) -> dict[str, Any]:
    """Return what there is to say about one pandas column, as a dict of plain values.

    `odd_cell` is one that makes a column of numbers text. `levels` holds the rows of every level,
    largest first, where the column looks like labels; `range` the ends, where it holds numbers or
    dates. Otherwise they are None.
    """
    # Not before: the help needs no NumPy.
    from fairpca.io.columns import INEXACT, cell_among_numbers, looks_like_id

    if column.dtype.kind == "O":
        column = column.map(str, na_action="ignore")
    known = column.dropna()
    counts, kind = known.value_counts(), _type(known)
    if kind == "whole number" and known.dtype.kind == "f" and known.abs().max() < INEXACT:
        # Gaps make floats of whole numbers, and -g knows no label "1.0".
        counts.index = counts.index.astype(int)
    distinct, many = len(counts), len(known)
    odd = cell_among_numbers(known) if kind == "text" else None
    guesses = {
        "empty": distinct == 0,
        "constant": distinct == 1,
        "row number": counts_rows,
        "numbers?": odd is not None,
        "no ISO date": kind == "text" and bool(known.str.fullmatch(_DATE).all()),
        "id": kind != "date" and looks_like_id(str(column.name), known.to_numpy()),
        "labels": kind != "date" and distinct <= min(_MOST_LEVELS, many // 2),
        "date": kind == "date",
        "free text": kind == "text",
    }
    # The first guess that holds counts, so the order matters: a row number is an id, too.
    looks = next((guess for guess, holds in guesses.items() if holds), "")
    ends = [known.min(), known.max()] if distinct and kind != "text" else None
    return {
        "name": str(column.name),
        "type": kind,
        "looks_like": looks,
        "distinct": distinct,
        "missing": len(column) - many,
        "odd_cell": odd,
        "levels": {str(k): int(n) for k, n in counts.items()} if looks == "labels" else None,
        "range": None if ends is None else [_plain(end) for end in ends],
    }


def _plain(end: Any) -> Any:
    """Return the end of a range for JSON, which has no infinity: that is text."""
    value = end.item() if hasattr(end, "item") else end
    return str(value) if isinstance(value, float) and math.isinf(value) else value


def _type(known: Any) -> str:
    """Return the type of the values of a column in a word or two.

    Whole numbers with gaps are stored as floats; dates in a text file are text.
    """
    # Not before: the help needs no NumPy.
    from fairpca.io.preparation import ISO_DATE

    kind = known.dtype.kind
    if kind == "O":
        return "date" if len(known) and known.str.fullmatch(ISO_DATE).all() else "text"
    if kind == "f" and not (known % 1 == 0).all():
        return "number"
    return {"b": "yes/no", "M": "date"}.get(kind, "whole number")


def _values_text(row: dict[str, Any]) -> str:
    """Return the levels or the range of a column in a few words, as `_look` found them."""
    if row["range"] and not row["levels"]:
        ends = [f"{e:,.6g}" if isinstance(e, float | int) else str(e) for e in row["range"]]
        return " to ".join(dict.fromkeys(ends))
    if row["looks_like"] == "no ISO date":
        return "left out as text; write dates such as 2022-02-09"
    if row["odd_cell"] is not None:
        return f"text because of cells such as {row['odd_cell']!r}"
    levels = [f"{label} ({count:,})" for label, count in (row["levels"] or {}).items()]
    if len(levels) > _SHOWN_LEVELS + 1:
        return f"{', '.join(levels[:_SHOWN_LEVELS])} .. {levels[-1]}"
    return ", ".join(levels)


@dataclass(frozen=True, kw_only=True)
class CompareOptions(TableOptions):
    """What `compare` takes.

    Attributes
    ----------
    method : list of str
        A method, such as PCA, FairPCA or SDRFairPCA; repeat. Default: all.
    target : str, optional
        Column a linear model predicts from the components.
    target_kind : str, default="auto"
        What the target holds: 'classes' (accuracy), 'numbers' (R squared) or 'auto', which takes
        text and a few distinct whole numbers for classes.
    output : Path, optional
        Write the table (.csv or .json). In CSV, text that a spreadsheet would run as a formula
        gets a leading apostrophe.
    """

    examples: ClassVar[str] = """\
  fairpca compare people.csv -g sex -r 2
  fairpca compare people.csv -g sex -r 2 --method PCA --method FairPCA -o c.csv"""
    endings: ClassVar[tuple[str, ...]] = (".csv", ".json")
    method: Annotated[list[str], option("NAME")] = field(default_factory=list)
    target: Annotated[str | None, option("COL")] = None
    target_kind: Annotated[str, option("KIND", among=("auto", "classes", "numbers"))] = "auto"
    output: Annotated[Path | None, option("FILE", "-o", "--output")] = None


def compare(options: CompareOptions) -> int:
    """Put every published fair PCA side by side on one table.

    A method has a place only among those that make the same number small.
    """
    from fairpca._check import check_rank, did_you_mean
    from fairpca.cli.loading import load
    from fairpca.comparison import compare as run_compare
    from fairpca.comparison import default_estimators
    from fairpca.estimator import FairPCA

    # Refused first: all methods together can take minutes.
    r, center = options.n_components, options.center
    output.check_output(options)
    data = load(options, target=options.target)
    # Not before: `load` says in a sentence what to install where pandas is missing.
    import pandas

    if isinstance(r, float):
        # The other methods take numbers only, so all of them get as many as FairPCA needs.
        model = FairPCA(r, center=center).fit(data.X, sensitive_features=data.labels)
        r = int(model.n_components_)
    # Once, and not by every method in words of its own.
    check_rank(r, data.X.shape[1])
    known = default_estimators(r, center=center)
    for name in options.method:
        if name not in known:
            raise ValueError(
                f"--method {name} is not known.{did_you_mean(name, known)} Choose among "
                f"{', '.join(sorted(known))}."
            )
    wanted = options.method or known
    models = {name: model for name, model in known.items() if name in wanted}
    doing = f"fitting {len(models)} method{'s' * (len(models) != 1)}"
    output.note(doing if options.method else f"{doing}; --method picks some of them.")
    with output.progress(doing):
        about = {**options.pick("center", "random_state"), "target": options.target_kind}
        found = run_compare(models, data.X, data.labels, data.y, **about)
    # What the fits said is advice, which has to name what there is here.
    said = [replace(row, message=output.in_option_words(row.message)) for row in found.rows]
    found, width = replace(found, rows=tuple(said)), output.console().width
    output.deliver(
        options,
        found.to_dict,
        lambda: output.print_lines([*found.table_lines(width), *found.notes()]),
        # A place stays a whole number beside methods without one.
        csv=lambda: output.csv_text(
            pandas.DataFrame(found.to_records()).astype({"place": "Int64"})
        ),
    )
    if all(row.failed for row in found.rows):
        output.note("fairpca: no method could run.")
        return 2
    return 0


@dataclass(frozen=True, kw_only=True)
class DatasetsOptions(JsonOption):
    """What `datasets` takes."""

    examples: ClassVar[str] = "  fairpca datasets --json"


def datasets(options: DatasetsOptions) -> None:
    """List the data sets that `fairpca.datasets` loads or makes."""
    import fairpca.datasets as catalogue

    names = [name for name in catalogue.__all__ if name.startswith(("fetch_", "make_"))]
    abouts = {name: inspection.getdoc(getattr(catalogue, name)) or "" for name in names}
    rows = [[name, about.partition("\n")[0]] for name, about in abouts.items()]
    table = output.Table(["loader", "what it is"], rows, words=(0, 1))
    output.print_result(options, [{"name": name, "about": text} for name, text in rows], [table])


@dataclass(frozen=True, kw_only=True)
class DemoOptions(FileOptions):
    """What `demo` takes.

    Attributes
    ----------
    output : Path
        Where the picture goes (.png, .svg or .pdf).
    """

    examples: ClassVar[str] = """\
  fairpca demo
  fairpca demo -o losses.svg"""
    endings: ClassVar[tuple[str, ...]] = (".png", ".svg", ".pdf")
    output: Annotated[Path, option("FILE", "-o", "--output")] = _PICTURE


def demo(options: DemoOptions) -> None:
    """Show PCA beside FairPCA on the diabetes data of scikit-learn, and draw the losses.

    The 442 patients are grouped by sex; nine measurements are reduced to six components.
    """
    from sklearn.datasets import load_diabetes
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import StandardScaler

    from fairpca._check import require
    from fairpca.auditing import audit
    from fairpca.auditing.verdict import new_sentences, proof, tables
    from fairpca.estimator import FairPCA
    from fairpca.moments.storage import atomic_write
    from fairpca.plots import GroupLossDisplay
    from fairpca.shrinkage import NoisyGroupWarning

    # A second demo may replace the picture of the first, and no other file.
    again = options.output == _PICTURE and _PICTURE.is_file()
    output.check_output(replace(options, force=options.force or again))
    # No window and no display needed: the figure only goes to a file.
    figures = require("matplotlib.figure", extra="app", purpose="the demo's picture")
    with output.progress("measuring and drawing"):
        table = load_diabetes(scaled=False, as_frame=True).data
        labels = {"sex": table.pop("sex").to_numpy(dtype=int)}
        X = StandardScaler().fit_transform(table)
        fits = {
            "PCA": lambda: PCA(_RANK).fit(X),
            "FairPCA": lambda: FairPCA(_RANK).fit(X, sensitive_features=labels),
        }
        # That these groups are mostly noise is what the first sentence says.
        with warnings.catch_warnings(action="ignore", category=NoisyGroupWarning):
            times = {
                name: min(timeit.repeat(f, number=1, repeat=_REPEATS)) for name, f in fits.items()
            }
        found = audit(X, labels, _RANK, n_bootstrap=0)
        figure = figures.Figure(figsize=(7, 3.5), layout="constrained")
        GroupLossDisplay.from_audit(found, ax=figure.subplots())
        with atomic_write(options.output) as file:
            figure.savefig(file, format=options.output.suffix.lower().lstrip("."), dpi=120)
    said = ", ".join(f"{name} {1000 * seconds:.1f} ms" for name, seconds in times.items())
    lines = [
        "Diabetes data of scikit-learn: 442 patients, 9 measurements, grouped by sex.",
        "",
        " ".join(new_sentences(found)),
        "",
        *table_lines(*next(tables(found))),
        "Loss per row against the group's own PCA; value ± half of its 95% interval.",
        f"On the rows in hand there is a proof. {proof(found.at('FairPCA'))}",
        f"Time of a fit: {said}.",
        f"Picture, of the losses on the rows in hand: {options.output}",
    ]
    data = {"picture": options.output, "seconds": times, "audit": found.to_dict()}
    output.print_result(options, data, lines)
