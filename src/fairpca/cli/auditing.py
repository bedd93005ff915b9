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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from fairpca.cli import output
from fairpca.cli.options import FileOptions, TableOptions, argument, option

if TYPE_CHECKING:
    from fairpca.auditing.findings import Audit

#: Exit code where the gap is larger than ``--max-gap`` allows.
GAP_EXCEEDED = 3

# Options that are called like the argument of the audit they set.
_PASSED_ON = (
    "center",
    "group_by",
    "unlabelled",
    "n_bootstrap",
    "min_group_size",
    "random_state",
)
# Names of ``--reducer`` and what an audit calls them.
_REDUCERS = {"pca": "PCA", "fairpca": "FairPCA"}
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
    reducer : str, default="pca"
        Whose gap --max-gap is about: 'pca' or 'fairpca'.
    max_gap : float, optional
        Exit with 3 if (worst loss - best loss) / worst loss is larger.
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
  cat people.csv | fairpca audit - -g 'age>=65' -r 2 --json"""
    endings: ClassVar[tuple[str, ...]] = (".html", ".htm", ".json", ".csv")

    reducer: Annotated[str, option("NAME", among=("pca", "fairpca"))] = "pca"
    max_gap: Annotated[float | None, option("GAP", min=0.0)] = None
    ranks: Annotated[str | None, option("LIST")] = None
    target: Annotated[str | None, option("COL")] = None
    target_kind: Annotated[str, option("KIND", among=("auto", "classes", "numbers"))] = "auto"
    weight: Annotated[str | None, option("COL")] = None
    n_bootstrap: Annotated[int, option("N", "--bootstrap", min=0)] = 200
    min_group_size: Annotated[int, option("N", min=0)] = 30
    output: Annotated[Path | None, option("FILE", "-o", "--output")] = None


def audit(options: AuditOptions) -> int:
    """Find out whom PCA serves: every group, PCA beside FairPCA, with intervals and a proof.

    A group's loss is what it gives up per row against a PCA of its own with as many components.
    """
    from fairpca.auditing import audit as run_audit
    from fairpca.cli.loading import load
    from fairpca.report import render_page

    r = options.n_components
    output.check_output(options)
    ranks = None if options.ranks is None else parse_ranks(options.ranks)
    data = load(options, target=options.target, weight=options.weight)
    with output.progress(f"auditing {len(data.X):,} rows"):
        found = run_audit(
            data.X,
            data.labels,
            r,
            y=data.y,
            target=options.target_kind,
            ranks=ranks,
            sample_weight=data.weight,
            **options.pick(*_PASSED_ON),
        )
    columns = [feature.name for feature in data.preparation.features]
    source = {**data.source, "features": columns, "target": options.target}
    found = replace(found, provenance={"created": _now(), "source": source, **found.provenance})
    if isinstance(r, float):
        output.note(f"{r:g} of every group's variance takes {found.n_components} components.")
    output.deliver(
        options,
        found.to_dict,
        lambda: output.print_lines(audit_lines(found, columns, options.target)),
        html=lambda: render_page(found),
        htm=lambda: render_page(found),
        csv=lambda: output.csv_text(_frame(found)),
    )
    if options.output is not None:
        # Nothing was printed, and the verdict is what everybody wants to know.
        output.note(found.verdict())
    return _gate(found, _REDUCERS[options.reducer], options.max_gap)


def audit_lines(found: Audit, used: list[str], target: str | None = None) -> list[Any]:
    """Return what the terminal shows, in the order in which a reader asks.

    Parameters
    ----------
    found : Audit
    used : list of str
        Columns of the table that became features.
    target : str, optional
        Column that was predicted.

    Returns
    -------
    lines : list
        For `output.print_lines`: the verdict, the groups (those PCA serves worst first), the
        proof, the scores of the target, the columns, and the warnings.
    """
    from fairpca.auditing.verdict import about, components, group_title, number, percent, proof

    findings = [found.at(name) for name in found.reducers if found.has(name)]
    pca = found.at("PCA")
    columns, gaps = [group_title(found), "rows"], ["gap", ""]
    for finding in findings:
        columns += [f"{finding.reducer} loss", "kept"]
        gaps += [percent(finding.gap), ""]
    # By what PCA does: the order must not change with the remedy that is shown beside it.
    order = sorted(range(len(found.groups)), key=lambda i: -pca.loss[i])
    rows = []
    for i in order[:_MOST_GROUPS]:
        row = [found.groups[i].text, f"{found.groups[i].count:,}"]
        for finding in findings:
            row += [number(float(finding.loss[i])), percent(float(finding.share[i]))]
        rows.append(row)
    lines = [found.verdict(), "", output.table(columns, [*rows, gaps], strong=[len(rows)])]
    if len(order) > len(rows):
        lines.append(f"{len(order) - len(rows)} more groups: --json or -o has them all.")
    more = f" and {len(used) - _MOST_COLUMNS} more" if len(used) > _MOST_COLUMNS else ""
    return [
        *lines,
        f"Loss per row against the group's own PCA, {components(pca.n_components)}; "
        "kept: share of the group's variance.",
        about(found),
        proof(found.at("FairPCA")),
        *(_score_lines(found, order[:_MOST_GROUPS], target) if found.scores else ()),
        f"Columns used ({len(used)}): {', '.join(used[:_MOST_COLUMNS])}{more}.",
        *(f"! {text}" for text in found.warnings),
    ]


def _score_lines(found: Audit, order: list[int], target: str | None) -> list[Any]:
    """Return a table of how well the target is predicted, for all rows and for some groups.

    Parameters
    ----------
    found : Audit
        With `scores`.
    order : list of int
        Positions of the groups to show.
    target : str or None
        Column that was predicted.
    """
    score = found.scores["score"]
    columns = {**found.scores["reducers"], "baseline": found.scores["baseline"]}
    rows = [["all", *(_score(entry["all"]) for entry in columns.values())]]
    for i in order:
        cells = [_score(entry["groups"][i]) for entry in columns.values()]
        rows.append([found.groups[i].text, *cells])
    what = "the most frequent class" if score == "accuracy" else "the mean"
    return [
        "",
        output.table([f"{score} of {target}", *columns], rows, strong=[0]),
        "A linear model on the components, scored on rows it has not seen; the baseline always "
        f"predicts {what}.",
        "",
    ]


def _score(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _frame(found: Audit) -> Any:
    """Return the table of an audit with the scores of the target, where there are any.

    Scores exist only for the number of components asked about; other rows have no number there.
    """
    import numpy as np

    frame = found.to_frame()
    for name, entry in found.scores.get("reducers", {}).items():
        rows = (frame["reducer"] == name) & (frame["n_components"] == found.n_components)
        for column, scores in (
            (found.scores["score"], entry),
            ("baseline", found.scores["baseline"]),
        ):
            frame.loc[rows, column] = np.array(scores["groups"], dtype=float)
    return frame


def _gate(found: Audit, name: str, max_gap: float | None) -> int:
    """Compare a gap with the largest one allowed, and say on stderr how it went.

    Parameters
    ----------
    found : Audit
    name : str
        Whose gap: "PCA" or "FairPCA".
    max_gap : float or None
        None allows every gap, in silence.

    Returns
    -------
    code : int
        `GAP_EXCEEDED` where the gap is larger, else 0.
    """
    if max_gap is None:
        return 0
    finding = found.at(name)
    if finding.gap <= max_gap:
        output.note(f"gap of {name}: {finding.gap:.4f}, within --max-gap {max_gap:g}.")
        return 0
    worst, best = found.groups[finding.worst].text, found.groups[finding.best].text
    output.note(
        f"gap of {name}: {finding.gap:.4f} is larger than --max-gap {max_gap:g} (group {worst} "
        f"loses {finding.worst_loss:.4g}, group {best} {finding.best_loss:.4g})."
    )
    return GAP_EXCEEDED


def parse_ranks(text: str) -> list[int]:
    """Read numbers and ranges such as ``1-10,15``.

    Parameters
    ----------
    text : str
        Separated by commas; blanks do not matter.

    Returns
    -------
    ranks : list of int
        In increasing order, each once.

    Raises
    ------
    ValueError
        Where the text is something else, or a range is longer than any table is wide.

    Examples
    --------
    >>> from fairpca.cli.auditing import parse_ranks
    >>> parse_ranks("5,1-3")
    [1, 2, 3, 5]
    """
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part)
        if match is None or (match[2] and int(match[2]) - int(match[1]) > _LONGEST_RANGE):
            raise ValueError(f"--ranks {text}: pass numbers and ranges such as 1-10,15,20.")
        found |= set(range(int(match[1]), int(match[2] or match[1]) + 1))
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
        htm=lambda: page,
    )
