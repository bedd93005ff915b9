"""`fairpca audit` and `fairpca report`: whom a projection serves.

The audit itself is `fairpca.auditing.audit`, its sentences come from `fairpca.auditing.verdict`,
the page from `fairpca.report`. What is left for here: options to arguments, and a result to the
terminal, to a file and to an exit code. An option that only sets an argument of the audit is a
field of `AuditOptions` and a name in `_PASSED_ON`.
"""

from __future__ import annotations

import datetime
import os
import re
import time
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_type_hints

from fairpca.cli import output
from fairpca.cli.options import FileOptions, FitOptions, TableOptions, argument, option

if TYPE_CHECKING:
    from fairpca.auditing import Audit, ModelAudit

#: Exit code where the gap is larger than ``--max-gap`` allows.
GAP_EXCEEDED = 3

# Options that are called like the argument of the audit they set.
_PASSED_ON = (
    "center",
    "group_by",
    "unlabelled",
    "n_folds",
    "n_repeats",
    "n_bootstrap",
    "min_group_size",
)
# Names of ``--reducer`` and what an audit calls them.
_REDUCERS = {"pca": "PCA", "fairpca": "FairPCA", "auto": "shrunk FairPCA"}
# Options about what a model file decides itself, or about fits. Ignored in silence, they would
# mislead.
_NOT_WITH_MODEL = (
    "components",
    "balanced",
    "ranks",
    "target",
    "features",
    "drop",
    "categorical",
    "standardize",
    "center",
    "reducer",
    "on",
    "n_folds",
    "n_repeats",
    "n_bootstrap",
)
# Options of `fit` that are given by the advice itself, or say nothing about a model.
_NOT_IN_ADVICE = ("tables", "components", "output", "force", "json")
# Groups shown on a terminal; more than a screen of them is read in the page or the CSV.
_MOST_GROUPS = 25
# Columns named on a terminal: a few lines. The JSON and the page name all of them.
_MOST_COLUMNS = 40
# Most numbers in one range of ``--ranks``: more would be a typing error that takes hours.
_LONGEST_RANGE = 10_000


@dataclass(frozen=True, kw_only=True)
class AuditOptions(TableOptions):
    """What `audit` takes.

    Attributes
    ----------
    components : str
        Number of components, or a share such as 0.9: the fewest with which every group keeps that
        share of its variance. Needed unless --model is given.
    model : Path, optional
        A model file written by `fairpca fit`: audit this model on the rows of the table, which it
        has not seen, instead of fitting anything.
    reducer : str, default="pca"
        Whose gap --max-gap is about: 'pca', 'fairpca' or 'auto' (FairPCA with --shrinkage auto).
    max_gap : float, optional
        Exit with 3 if (worst loss - best loss) / worst loss is larger; 0.5 is a half.
    on : str, default="new"
        What --max-gap is about: 'new', rows that were left out of the fit, or 'rows', the rows in
        hand.
    n_folds : int, default=5
        Folds that are left out in turn to see what new rows get; 0 leaves new rows out.
    n_repeats : int, optional
        How often rows are dealt into folds, each time with new fits; by default 5 times with up to
        200 columns and 20 groups, once with more.
    balanced : bool, default=False
        Look at balanced PCA too, in which every group weighs the same.
    ranks : str, optional
        Numbers of components to look at, such as 1-10,15,20.
    target : str, optional
        Column a linear model predicts from the components; scores by group.
    target_kind : str, default="auto"
        What the target holds: 'classes' (accuracy), 'numbers' (R squared) or 'auto', which takes
        text and a few distinct whole numbers for classes.
    weight : str, optional
        Column of row weights.
    n_bootstrap : int, default=200
        Replicates behind the intervals.
    min_group_size : int, default=30
        Name groups with fewer rows in a warning.
    output : Path, optional
        Write a page (.html), everything (.json) or the table (.csv). In CSV, text that a
        spreadsheet would run as a formula gets a leading apostrophe.
    """

    examples: ClassVar[str] = """\
  fairpca audit people.csv -g sex -r 2
  fairpca audit people.csv -g sex -g city -r 0.9 -o audit.html
  fairpca audit people.csv -g sex --labels f=women,m=men -r 2 --max-gap 0.5
  fairpca audit new.csv -g sex --model model.skops
  cat people.csv | fairpca audit - -g 'age>=65' -r 2 --json"""
    endings: ClassVar[tuple[str, ...]] = (".html", ".htm", ".json", ".csv")

    components: Annotated[str, option("R", "-r", "--components")] = ""
    model: Annotated[Path | None, option("FILE")] = None
    reducer: Annotated[str, option("NAME", among=("pca", "fairpca", "auto"))] = "pca"
    max_gap: Annotated[float | None, option("GAP", min=0.0, max=1.0)] = None
    on: Annotated[str, option("ROWS", among=("new", "rows"))] = "new"
    n_folds: Annotated[int, option("N", "--folds", min=0)] = 5
    n_repeats: Annotated[int | None, option("N", "--repeats", min=1)] = None
    balanced: Annotated[bool, option("", "--balanced")] = False
    ranks: Annotated[str | None, option("LIST")] = None
    target: Annotated[str | None, option("COL")] = None
    target_kind: Annotated[str, option("KIND", among=("auto", "classes", "numbers"))] = "auto"
    weight: Annotated[str | None, option("COL")] = None
    n_bootstrap: Annotated[int, option("N", "--bootstrap", min=0)] = 200
    min_group_size: Annotated[int, option("N", min=0)] = 30
    output: Annotated[Path | None, option("FILE", "-o", "--output")] = None


def audit(options: AuditOptions) -> int:
    """Find out whom PCA serves: every group, PCA beside FairPCA, on new rows and on these.

    A group's loss is what it gives up per row against a PCA of its own with as many components.
    New rows are rows of the table that were left out of the fit, fold by fold.
    """
    from fairpca.auditing import audit as run_audit
    from fairpca.auditing.verdict import BALANCED
    from fairpca.cli.loading import load
    from fairpca.methods import BalancedPCA
    from fairpca.report import render_page

    output.check_output(options)
    if options.model is not None:
        return _audit_stored(options, options.model)
    if not options.components:
        raise ValueError("-r is missing: pass a number of components such as 5, or --model FILE.")
    r = options.n_components
    ranks = None if options.ranks is None else parse_ranks(options.ranks)
    data = load(options, target=options.target, weight=options.weight)
    if ranks and ranks[-1] > data.X.shape[1]:
        raise ValueError(
            f"--ranks {options.ranks}: {ranks[-1]:,} components are more than the "
            f"{data.X.shape[1]:,} features; leave larger numbers out."
        )
    with output.progress(f"auditing {len(data.X):,} rows"):
        found = run_audit(
            data.X,
            data.labels,
            r,
            reducers={BALANCED: BalancedPCA()} if options.balanced else None,
            y=data.y,
            target=options.target_kind,
            ranks=ranks,
            sample_weight=data.weight,
            random_state=options.random_state,
            **options.pick(*_PASSED_ON),
        )
    columns = [feature.name for feature in data.preparation.features]
    source = {**data.source, "features": columns, "target": options.target}
    source["arguments"] = _fit_arguments(options, [path.name for path in options.tables])
    found = replace(found, provenance={"created": _now(), "source": source, **found.provenance})
    if options.max_gap is not None and options.on == "new" and found.new_rows is None:
        raise ValueError(f"--max-gap is about new rows: add --on rows. {found.warnings[0]}")
    if isinstance(r, float):
        output.note(_share_note(found, r))
    output.deliver(
        options,
        found.to_dict,
        lambda: output.print_lines(audit_lines(_here(found, options), columns, options.target)),
        html=lambda: render_page(found),
        csv=lambda: output.csv_text(found.to_frame()),
    )
    if options.output is not None:
        # Nothing was printed, and the verdict is what everybody wants to know.
        output.note(_here(found, options).verdict())
    name = _REDUCERS[options.reducer]
    if options.on == "new" and found.new_rows is not None:
        return _gate(f"{name} on new rows", found, found.new_rows.at(name), options.max_gap)
    return _gate(f"{name} on the rows in hand", found, found.at(name), options.max_gap)


def _here(found: Audit, options: AuditOptions) -> Audit:
    """Return an audit as the terminal shows it: the command to copy finds the files.

    Where an audit is passed on, their directory is nobody's business.
    """
    arguments = _fit_arguments(options, [str(path) for path in options.tables])
    source = {**found.provenance["source"], "arguments": arguments}
    return replace(found, provenance={**found.provenance, "source": source})


def _share_note(found: Audit, share: float) -> str:
    """Return how many components a share takes, and whom PCA with as many leaves below it."""
    from fairpca.auditing.verdict import named

    text = f"{share:g} of every group's variance takes {found.n_components} components of FairPCA"
    kept = found.at("PCA").share
    if kept.min() >= share:
        return f"{text}."
    group = named(found, int(kept.argmin()))
    return f"{text}; PCA with as many keeps {kept.min():.3g} of {group}."


def _fit_arguments(options: AuditOptions, files: list[str]) -> list[str]:
    """Return the arguments with which `fairpca fit` reads and prepares the table in the same way.

    `files` are the names of the tables of the options.
    """
    tables = zip(options.tables, files, strict=True)
    found = ["-" if path.name == "stdin" else name for path, name in tables]
    # A target is no feature of the audit, unless it was named as one.
    if options.target is not None and options.target not in options.features:
        options = replace(options, drop=[*options.drop, options.target])
    for entry in fields(FitOptions):
        default = [] if entry.default is MISSING else entry.default
        value = getattr(options, entry.name, default)
        if entry.name in _NOT_IN_ADVICE or value == default:
            continue
        if value is False:
            found.append(f"--no-{entry.name}")
            continue
        for part in value if isinstance(value, list) else [value]:
            found += [_flag(entry.name), str(part)]
    return found


def _flag(name: str) -> str:
    """Return what the option of a field of `AuditOptions` is called."""
    # typer keeps the first name of an option, where it has one, in the place of its default.
    first = get_type_hints(AuditOptions, include_extras=True)[name].__metadata__[0].default
    return first if isinstance(first, str) else f"--{name.replace('_', '-')}"


def audit_lines(found: Audit, used: list[str], target: str | None = None) -> list[Any]:
    """Return what the terminal shows, in the order in which a reader asks.

    New rows, and how to fit what is advised; the rows in hand with the proof; the scores of the
    target; the columns used, and the warnings.
    """
    from fairpca.auditing import verdict as words

    lines: list[Any] = []
    if found.new_rows is not None:
        call = words.advice(found)
        where = "in Python or here" if call["command"] else "in Python"
        lines = [" ".join(words.new_sentences(found)), "", f"To fit it, {where}:"]
        lines += [f"  {text}" for text in (call["python"], call["command"]) if text] + [""]
        lines += table_lines(*next(words.tables(found)))
        about = "Loss per row against the group's own PCA, on rows left out of every fit; value ± "
        about += "half of its 95% interval. Worst loss: the largest, whichever group has it. "
        lines += [f"{about}Total error: of all rows.", ""]
    scores = _score_lines(found, words.order(found)[:_MOST_GROUPS], target) if found.scores else ()
    return [
        *lines,
        " ".join(words.row_sentences(found)),
        "",
        *table_lines(*list(words.tables(found))[-1]),
        "Loss per row against the group's own PCA; kept: share of the group's variance.",
        words.about(found),
        words.proof(found.at("FairPCA")),
        *scores,
        f"Columns used ({len(used)}): {words.listed(used, _MOST_COLUMNS)}.",
        *(f"! {output.in_option_words(text)}" for text in found.warnings),
    ]


def table_lines(
    caption: str, columns: list[str], rows: list[list[str]], totals: list[list[str]]
) -> list[Any]:
    """Return a table of the first groups, with what is about all of them in bold."""
    # A title in two lines leaves room for the others.
    titles = [re.sub("^(shrunk|balanced) ", "\\1\n", title) for title in columns]
    shown, more = rows[:_MOST_GROUPS], len(rows) - _MOST_GROUPS
    strong = range(len(shown), len(shown) + len(totals))
    joined = [j for j, title in enumerate(titles) if title == "kept"]
    table = output.Table(titles, [*shown, *totals], strong=strong, joined=joined)
    lines = [f"{caption}:", table]
    return [*lines, *([f"{more} more groups: --json or -o has them all."] if more > 0 else [])]


def _audit_stored(options: AuditOptions, path: Path) -> int:
    """Audit a model file on the rows of a table; return the exit code."""
    from fairpca.auditing import audit_model
    from fairpca.cli.loading import group_labels, read, renamed, row_weights, with_names
    from fairpca.cli.models import level_columns, prepared_for, stored

    for name in _NOT_WITH_MODEL:
        if getattr(options, name) not in (getattr(AuditOptions, name, None), []):
            raise ValueError(
                f"{_flag(name)} with --model: the model file decides that, and nothing is fitted; "
                "leave it out."
            )
    if options.output is not None and options.output.suffix.lower() not in (".json", ".csv"):
        raise ValueError(f"-o {options.output}: with --model the ending must be .json or .csv.")
    saved = stored(path)
    table, files = read(options, level_columns(saved))
    # What the model was fitted with is the default here.
    missing = None if options.missing == "error" else options.missing
    labels, _ = group_labels(table, options.group)
    prepared, notes = prepared_for(saved, table, missing)
    # The names of the fit serve here as well, where no others are given.
    labels = with_names(labels, saved.label_names) if not options.labels else labels
    labels = renamed(labels, options.labels)
    output.note_read(notes)
    weight = None if options.weight is None else row_weights(table, options.weight)[prepared.kept]
    found = audit_model(
        saved.model,
        prepared.X,
        {name: values[prepared.kept] for name, values in labels.items()},
        sample_weight=weight,
        **options.pick("group_by", "unlabelled", "min_group_size"),
    )
    output.deliver(
        options,
        lambda: {**found.to_dict(), "model": path.name, "created": _now(), "files": files},
        lambda: output.print_lines(_stored_lines(found)),
        csv=lambda: output.csv_text(found.to_frame()),
    )
    if options.output is not None:
        output.note(found.verdict())
    return _gate(f"{path.name} on these rows", found, found, options.max_gap)


def _stored_lines(found: ModelAudit) -> list[Any]:
    """Return what the terminal shows of a model on new rows, worst-served groups first."""
    import numpy as np

    from fairpca.auditing.verdict import listed, number

    trained = (found.trained_count, found.trained_error, found.trained_loss)
    rows = []
    for i in sorted(range(len(found.groups)), key=lambda i: -found.loss[i]):
        group, seen = found.groups[i], [float(column[i]) for column in trained]
        known = [f"{seen[0]:,.0f}", number(seen[1]), number(seen[2])]
        new = [f"{group.count:,}", number(found.error[i]), number(found.loss[i])]
        rows.append([group.text, *new, *(text.replace("nan", "–") for text in known)])
    titles = ["rows", "error", "loss"]
    columns = [" · ".join(found.names), *titles, *(f"fitted to:\n{name}" for name in titles)]
    beside = "Beside them: the rows the model was fitted to, against a PCA of those."
    if not np.isfinite(found.trained_count).any():
        beside = "The model was fitted with other groups, and remembers nothing about these."
        columns, rows = columns[:4], [row[:4] for row in rows]
    few = [f"{group.text} ({group.count})" for group in found.groups if group.small]
    return [
        found.verdict(),
        "",
        *table_lines("What every group gets", columns, rows, []),
        "Error per row about the mean the model subtracts. Loss: error minus that of the group's "
        f"own PCA of these rows, which it has seen and the model has not. {beside}",
        f"Error over all rows: {number(found.total_error)}.",
        *([f"! Few rows: {listed(few)}. Of few rows every loss is large."] if few else []),
    ]


def _score_lines(found: Audit, order: list[int], target: str | None) -> list[Any]:
    """Return a table of how well the target is predicted, for all rows and groups in an order."""
    score = found.scores["score"]
    columns = {**found.scores["reducers"], "baseline": found.scores["baseline"]}
    rows = [["all", *(_score(entry["all"]) for entry in columns.values())]]
    for i in order:
        cells = [_score(entry["groups"][i]) for entry in columns.values()]
        rows.append([found.groups[i].text, *cells])
    what = "the most frequent class" if score == "accuracy" else "the mean"
    return [
        "",
        output.Table([f"{score} of {target}", *columns], rows, strong=[0]),
        "A linear model on the components, scored on rows it has not seen; the baseline always "
        f"predicts {what}.",
        "",
    ]


def _score(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _gate(whose: str, audit: Any, finding: Any, max_gap: float | None) -> int:
    """Compare the gap of a finding with the largest one allowed and return the exit code.

    How it went is said on stderr. Without a largest gap every one is allowed, in silence.
    """
    if max_gap is None:
        return 0
    start = f"gap of {whose}: {finding.gap:.4f}"
    if finding.gap <= max_gap:
        output.note(f"{start}, within --max-gap {max_gap:g}.")
        return 0
    worst, best = (f"group {audit.groups[i].text}" for i in (finding.worst, finding.best))
    losses = finding.loss[[finding.worst, finding.best]]
    # Groups that are alike have any gap on new rows; rows in hand have no such interval.
    chance = ""
    if getattr(finding, "worst_low", 1.0) <= 0:
        chance = " The interval of the worst loss includes zero, so the gap may be chance."
    output.note(
        f"{start} is larger than --max-gap {max_gap:g} ({worst} loses {losses[0]:.4g}, {best} "
        f"{losses[1]:.4g}).{chance}"
    )
    return GAP_EXCEEDED


def parse_ranks(text: str) -> list[int]:
    """Read numbers and ranges such as ``1-10,15`` into an increasing list.

    ValueError says where the text is something else, or a range goes down or is longer than any
    table is wide.

    Examples
    --------
    >>> from fairpca.cli.auditing import parse_ranks
    >>> parse_ranks("5,1-3")
    [1, 2, 3, 5]
    """
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part)
        first, last = (0, 0) if match is None else (int(match[1]), int(match[2] or match[1]))
        if first < 1 or not 0 <= last - first <= _LONGEST_RANGE:
            raise ValueError(
                f"--ranks {text}: pass numbers from 1 and ranges that go up, such as 1-10,15,20."
            )
        found |= set(range(first, last + 1))
    return sorted(found)


def _now() -> str:
    """Return the time, or the one SOURCE_DATE_EPOCH asks for, so that a page can be remade.

    The variable is that of reproducible-builds.org: seconds since 1970.
    """
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    seconds = int(epoch) if epoch.isdigit() else time.time()
    return datetime.datetime.fromtimestamp(seconds, datetime.UTC).isoformat(timespec="seconds")


@dataclass(frozen=True, kw_only=True)
class ReportOptions(FileOptions):
    """What `report` takes.

    Attributes
    ----------
    source : Path
        An audit written by `fairpca audit --json`.
    output : Path, optional
        Write the page here; default stdout.
    title : str, optional
        Title of the page.
    """

    examples: ClassVar[str] = """\
  fairpca audit people.csv -g sex -r 2 --json > audit.json
  fairpca report audit.json -o audit.html --title 'Whom does it serve?'"""
    endings: ClassVar[tuple[str, ...]] = (".html", ".htm")

    source: Annotated[Path, argument("AUDIT")]
    output: Annotated[Path | None, option("FILE", "-o", "--output")] = None
    title: Annotated[str | None, option("TEXT")] = None


def report(options: ReportOptions) -> None:
    """Turn an audit into one HTML page that needs no network."""
    from fairpca.auditing.findings import Audit
    from fairpca.report import render_page

    output.check_output(options)
    try:
        found = Audit.from_json(options.source.read_bytes())
    except ValueError as error:
        raise ValueError(f"{options.source}: {error}") from None
    page = render_page(found, title=options.title)
    size = len(page.encode())
    output.deliver(
        options,
        lambda: {"output": options.output, "bytes": size, "verdict": found.verdict()},
        lambda: output.print_text(page),
        html=lambda: page,
    )
