"""`fairpca inspect`, `fairpca compare` and `fairpca datasets`: tables of what there is.

Each prints one table: the columns of a file before anything is fitted, the published methods side
by side, the data sets the package can load.
"""

from __future__ import annotations

import inspect as inspection
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from fairpca.cli import output
from fairpca.cli.options import JsonOption, ReadingOptions, TableOptions, option

if TYPE_CHECKING:
    from fairpca.comparison import Comparison

# A column with more distinct values is hardly one of groups: an audit of them fills pages. It is
# only a suggestion; -g takes up to a thousand labels.
_MOST_LEVELS = 20
# Share of distinct values from which a column that is called an id is one; rows may be repeated.
_NEARLY_ALL = 0.95
# Names of columns that hold identifiers, such as "id", "customer_id", "userID" and "key". The name
# alone is a guess; it only counts where nearly all values differ.
_ID_NAME = re.compile(r"(^|[_\W])(id|uuid|guid|key)$|[a-z]ID$")
# Dates written as text, day, month and year in any order: 2024-03-01, 1.3.2024 08:15, 03/01/24.
_DATE = r"\d{1,4}[-./]\d{1,2}[-./]\d{1,4}([T ].*)?"
# Levels that a terminal shows of a column: the largest ones, and the smallest, which may be rare.
_SHOWN_LEVELS = 3

# Columns of a comparison, in this order: attributes of its rows.
_COMPARED = (
    "optimises rank worst_loss gap total_error error_gap mean_gap covariance_gap mmd_squared "
    "fit_seconds accuracy demographic_parity_difference equal_opportunity_difference"
).split()
# Titles that are not the name of the attribute: "rank" is the rank of a projection elsewhere.
_TITLES = {"rank": "place", "gap": "above\nbound", "fit_seconds": "seconds"}


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
    from fairpca.cli.loading import read

    found, files = read(options)
    frame = found.frame
    output.note("read " + "; ".join([f"{len(frame):,} rows", *found.notes]) + ".")
    columns = [_look(frame[name], name in found.row_number_columns) for name in frame.columns]
    ids = [row["name"] for row in columns if row["looks_like"] in ("row number", "id")]
    # As text, because a list in a cell (Parquet has such cells) cannot be compared.
    repeated = int(frame.drop(columns=ids).astype(str).duplicated().sum())
    if options.json:
        summary = {"files": files, "n_rows": len(frame), "repeated_rows": repeated}
        output.print_json({**summary, "columns": columns})
        return
    rows = []
    for row in columns:
        numbers = [f"{row[name]:,}" for name in ("distinct", "missing")]
        rows.append([row["name"], row["type"], row["looks_like"], *numbers, _values_text(row)])
    titles = ["column", "type", "looks like", "distinct", "missing", "values"]
    labels = [row["name"] for row in columns if row["looks_like"] == "labels"]
    lines = [output.table(titles, rows, words=(0, 1, 2, 5))]
    if repeated:
        lines.append(f"{repeated:,} row(s) repeat another one, ids aside.")
    output.print_lines([*lines, f"Likely groups (-g): {', '.join(labels) or 'none'}."])


def _look(column: Any, counts_rows: bool) -> dict[str, Any]:
    """Return what there is to say about one column, as plain values.

    Parameters
    ----------
    column : pandas.Series
    counts_rows : bool
        Whether its values only number the rows.

    Returns
    -------
    record : dict
        `levels` holds the rows of every level, largest first, where the column looks like labels;
        `range` the ends, where it holds numbers or dates. Otherwise they are None.
    """
    if column.dtype.kind == "O":
        column = column.map(str, na_action="ignore")
    known = column.dropna()
    counts, kind = known.value_counts(), _type(known)
    distinct, many = len(counts), len(known)
    named = bool(_ID_NAME.search(str(column.name))) and distinct >= _NEARLY_ALL * many
    guesses = {
        "empty": distinct == 0,
        "constant": distinct == 1,
        "row number": counts_rows,
        "id": kind in ("text", "whole number") and (distinct == many or named),
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
        "levels": {str(k): int(n) for k, n in counts.items()} if looks == "labels" else None,
        "range": None if ends is None else [e.item() if hasattr(e, "item") else e for e in ends],
    }


def _type(known: Any) -> str:
    """Return the type of the values of a column in a word or two.

    A column of whole numbers with gaps is stored as floats, so that floats are looked at. Dates
    in a text file are text; all of them have to look like one.
    """
    kind = known.dtype.kind
    if kind == "O":
        return "date" if len(known) and known.str.fullmatch(_DATE).all() else "text"
    if kind == "f" and not (known % 1 == 0).all():
        return "number"
    return {"b": "yes/no", "M": "date"}.get(kind, "whole number")


def _values_text(row: dict[str, Any]) -> str:
    """Return the levels or the range of a column in a few words, as `_look` found them.

    Of many levels the largest and the smallest are shown: a rare group is what an audit is about.
    """
    if row["range"] and not row["levels"]:
        ends = [f"{e:,.6g}" if isinstance(e, float | int) else str(e) for e in row["range"]]
        return " to ".join(dict.fromkeys(ends))
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
        Column of two classes a linear model predicts.
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
    output: Annotated[Path | None, option("FILE", "-o", "--output")] = None


def compare(options: CompareOptions) -> int:
    """Put every published fair PCA side by side on one table.

    A method has a place only among those that make the same number small.
    """
    from fairpca._checks import require
    from fairpca.cli.loading import load
    from fairpca.comparison import compare as run_compare
    from fairpca.estimator import FairPCA

    pandas = require("pandas", extra="app", purpose="the command line")
    # Refused first: all methods together can take minutes.
    r, about = options.n_components, options.pick("center")
    output.check_output(options)
    data = load(options, target=options.target)
    if isinstance(r, float):
        # The other methods take numbers only, so all of them get as many as FairPCA needs.
        model = FairPCA(r, **about).fit(data.X, sensitive_features=data.labels)
        r = int(model.n_components_)
    models = _methods(r, options.method, **about)
    doing = f"fitting {len(models)} methods"
    output.note(f"{doing}; --method picks some of them.")
    with output.progress(doing):
        settings = options.pick("center", "random_state")
        found = run_compare(models, data.X, data.labels, data.y, **settings)
    output.deliver(
        options,
        found.to_dict,
        lambda: output.print_lines(_comparison_lines(found)),
        # As objects, so that a place stays a whole number beside methods without one.
        csv=lambda: output.csv_text(pandas.DataFrame(found.to_records(), dtype=object)),
    )
    if all(row.failed for row in found.rows):
        output.note("fairpca: no method could run.")
        return 2
    return 0


def _methods(n_components: int, wanted: list[str], center: str) -> dict[str, Any]:
    """Return the methods asked for, not yet fitted.

    Parameters
    ----------
    n_components : int
    wanted : list of str
        Names; none at all wants every method.
    center : {"global", "group"}
        Of FairPCA; the others are as their authors have them.

    Returns
    -------
    models : dict of str to estimator
        In the order of `fairpca.comparison.default_estimators`.

    Raises
    ------
    ValueError
        For an unknown name, with the one that is spelled most alike.
    """
    from fairpca.comparison import default_estimators

    known = default_estimators(n_components, center=center)
    for name in wanted:
        if name not in known:
            raise ValueError(
                f"--method {name} is not known.{output.did_you_mean(name, known)} Choose among "
                f"{', '.join(sorted(known))}."
            )
    return {name: model for name, model in known.items() if not wanted or name in wanted}


def _comparison_lines(found: Comparison) -> list[Any]:
    """Return the methods as tables that fit the terminal, then those that could not run, and why.

    Columns without a number are left out. Columns that do not fit beside the names of the methods
    go into another table below.
    """
    from fairpca.auditing.verdict import MEANS

    rows = [row for row in found.rows if not row.failed]
    left = [key for key in _COMPARED if any(_cell(row, key) for row in rows)]
    console, lines = output.console(), []
    while left:
        # At least one column, however narrow the terminal is.
        n = len(left)
        while n > 1 and _width(console, _block(rows, left[:n])) > console.width:
            n -= 1
        lines += [_block(rows, left[:n]), ""]
        left = left[n:]
    if rows:
        lines.append("place: among the methods that make the same number small.")
        lines.append(f"Losses are about {MEANS[found.center]}.")
    for title, failed in (("Could not run:", True), ("Notes:", False)):
        texts = [f"{r.name}: {r.message}" for r in found.rows if r.message and r.failed == failed]
        lines += ["", title, *texts] if texts else []
    return lines


def _block(rows: Sequence[Any], keys: Sequence[str]) -> Any:
    """Return a table of some numbers of every method.

    Parameters
    ----------
    rows : sequence of ComparisonRow
    keys : sequence of str
        Some of `_COMPARED`.
    """
    titles = ["method", *(_TITLES.get(key, key.replace("_", "\n")) for key in keys)]
    cells = [[row.name, *(_cell(row, key) or "-" for key in keys)] for row in rows]
    return output.table(titles, cells, words=(0, 1) if keys[0] == "optimises" else (0,))


def _width(console: Any, table: Any) -> int:
    """Return the columns a table would like; rich says no more than those it is offered."""
    return int(console.measure(table, options=console.options.update(max_width=10_000)).maximum)


def _cell(row: Any, key: str) -> str:
    """Return a number of a comparison as it is shown, "" where there is none."""
    from fairpca.auditing.verdict import number, percent

    value = getattr(row, key)
    if value is None or value != value:
        return ""
    if key == "gap":
        return percent(value)
    return number(value) if isinstance(value, float) else str(value)


@dataclass(frozen=True, kw_only=True)
class DatasetsOptions(JsonOption):
    """What `datasets` takes."""

    examples: ClassVar[str] = "  fairpca datasets --json"


def datasets(options: DatasetsOptions) -> None:
    """List the data sets that `fairpca.datasets` loads or makes."""
    import fairpca.datasets as catalogue

    names = [name for name in catalogue.__all__ if name.startswith(("fetch_", "make_"))]
    abouts = [inspection.getdoc(getattr(catalogue, name)) or "" for name in names]
    rows = [[name, about.partition("\n")[0]] for name, about in zip(names, abouts, strict=True)]
    if options.json:
        output.print_json([{"name": name, "about": about} for name, about in rows])
    else:
        output.print_lines([output.table(["loader", "what it is"], rows, words=(0, 1))])
