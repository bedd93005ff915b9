"""`fairpca audit` and `fairpca report`."""

from __future__ import annotations

import datetime
import os
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option

from fairpca.cli.options import (
    Components,
    Force,
    Groups,
    Json,
    Seed,
    TableOptions,
    Tables,
    parse_components,
    takes,
)

if TYPE_CHECKING:
    from fairpca.auditing.findings import Audit

_REDUCERS = {"pca": "PCA", "fairpca": "FairPCA"}
_ENDINGS = (".html", ".htm", ".json", ".csv")


@takes(TableOptions)
def audit(
    tables: Tables,
    group: Groups,
    components: Components,
    options: TableOptions,
    reducer: Annotated[
        str, Option(metavar="NAME", help="Whose gap --max-gap is about: 'pca' or 'fairpca'.")
    ] = "pca",
    max_gap: Annotated[
        float | None,
        Option(
            "--max-gap",
            metavar="GAP",
            min=0.0,
            help="Exit with 1 if (worst loss - best loss) / worst loss is larger.",
            show_default=False,
        ),
    ] = None,
    ranks: Annotated[
        str | None,
        Option(
            metavar="LIST",
            help="Numbers of components to look at, such as 1-10,15,20.",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        str | None,
        Option(
            metavar="COL",
            help="Column a linear model predicts from the components; scores by group.",
            show_default=False,
        ),
    ] = None,
    weight: Annotated[
        str | None, Option(metavar="COL", help="Column of row weights.", show_default=False)
    ] = None,
    bootstrap: Annotated[
        int, Option(metavar="N", min=0, help="Replicates behind the intervals.")
    ] = 200,
    min_group_size: Annotated[
        int, Option(metavar="N", min=0, help="Name groups with fewer rows in a warning.")
    ] = 30,
    seed: Seed = 0,
    output: Annotated[
        Path | None,
        Option(
            "-o",
            "--output",
            metavar="FILE",
            help="Write a page (.html), everything (.json) or the table (.csv).",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
    force: Force = False,
) -> int:
    """Find out whom PCA serves: every group, PCA beside FairPCA, with intervals and a proof."""
    from fairpca.auditing import audit as run_audit
    from fairpca.cli.loading import load
    from fairpca.cli.output import check_output, print_lines, print_text
    from fairpca.cli.terminal import audit_lines, note

    name = _reducer(reducer)
    r = parse_components(components)
    check_output(output, _ENDINGS, force)
    wanted = None if ranks is None else parse_ranks(ranks)
    data = load(tables, group, options, target=target, weight=weight)
    found = run_audit(
        data.X,
        data.labels,
        r,
        y=data.y,
        ranks=wanted,
        sample_weight=data.weight,
        group_by=options.group_by,
        unlabelled=options.unlabelled,
        n_bootstrap=bootstrap,
        min_group_size=min_group_size,
        random_state=seed,
    )
    source = {**data.source, "features": len(data.preparation.feature_names)}
    found = replace(found, provenance={"created": _now(), "source": source, **found.provenance})
    if isinstance(r, float):
        note(f"{r:g} of every group's variance takes {found.n_components} components.")
    if output is not None:
        _write(found, output)
        note(found.verdict())
    if json:
        print_text(found.to_json())
    elif output is None:
        print_lines(audit_lines(found))
    return _gate(found, name, max_gap)


def report(
    source: Annotated[
        Path,
        Argument(
            metavar="AUDIT", help="An audit written by `fairpca audit --json`.", show_default=False
        ),
    ],
    output: Annotated[
        Path | None,
        Option("-o", "--output", help="Write the page here; default stdout.", show_default=False),
    ] = None,
    title: Annotated[str | None, Option(help="Title of the page.", show_default=False)] = None,
    json: Json = False,
    force: Force = False,
) -> None:
    """Turn an audit into one HTML page that needs no network."""
    from fairpca.auditing.findings import Audit
    from fairpca.cli.output import check_output, print_json, print_text, write_file
    from fairpca.report import render_page

    check_output(output, (".html", ".htm"), force)
    try:
        found = Audit.from_json(source.read_bytes())
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from None
    page = render_page(found, title=title)
    if output is not None:
        write_file(output, lambda file: file.write(page))
    if json:
        written = None if output is None else str(output)
        print_json({"output": written, "bytes": len(page.encode()), "verdict": found.verdict()})
    elif output is None:
        print_text(page)


def parse_ranks(text: str) -> list[int]:
    """Read numbers and ranges such as 1-10,15."""
    found: set[int] = set()
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d+)\s*(?:-\s*(\d+)\s*)?", part)
        if match is None or (match[2] and int(match[2]) - int(match[1]) > 10_000):
            raise ValueError(f"--ranks {text}: pass numbers and ranges such as 1-10,15,20.")
        first = int(match[1])
        found |= set(range(first, int(match[2] or first) + 1))
    return sorted(found)


def _reducer(name: str) -> str:
    if name.lower() not in _REDUCERS:
        raise ValueError(f"--reducer {name}: choose one of {', '.join(_REDUCERS)}.")
    return _REDUCERS[name.lower()]


def _write(found: Audit, output: Path) -> None:
    from fairpca.cli.output import write_file

    ending = output.suffix.lower()
    if ending == ".json":
        text = found.to_json(indent=1)
    elif ending == ".csv":
        text = found.to_frame().to_csv(index=False)
    else:
        from fairpca.report import render_page

        text = render_page(found)
    write_file(output, lambda file: file.write(text))


def _gate(found: Audit, name: str, max_gap: float | None) -> int:
    """Return 1 where the gap is larger than allowed, else 0."""
    from fairpca.cli.terminal import note

    if max_gap is None:
        return 0
    gap = found.at(name).gap
    if gap <= max_gap:
        note(f"gap of {name}: {gap:.4f}, within --max-gap {max_gap:g}.")
        return 0
    finding = found.at(name)
    worst, best = found.groups[finding.worst].text, found.groups[finding.best].text
    note(
        f"gap of {name}: {gap:.4f} is larger than --max-gap {max_gap:g} (group {worst} loses "
        f"{finding.worst_loss:.4g}, group {best} {finding.best_loss:.4g})."
    )
    return 1


def _now() -> str:
    """The time, or the one SOURCE_DATE_EPOCH asks for, so that a page can be made twice alike."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    zone = datetime.UTC
    moment = (
        datetime.datetime.fromtimestamp(int(epoch), zone)
        if epoch.isdigit()
        else datetime.datetime.now(zone)
    )
    return moment.isoformat(timespec="seconds")
