"""Text on a terminal: tables that fit its width, and labels that cannot steer it."""

from __future__ import annotations

import contextlib
import os
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fairpca.auditing.findings import Audit

# Overrides and embeddings that reorder the text around them.
_BIDI_CONTROLS = "\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u200e\u200f\u061c"
_MOST_GROUPS = 25


def plain(text: str) -> str:
    """Return text without characters that a terminal would obey instead of show."""
    return "".join(
        char
        if unicodedata.category(char) not in ("Cc", "Cs") and char not in _BIDI_CONTROLS
        else ("" if char in _BIDI_CONTROLS else "\N{REPLACEMENT CHARACTER}")
        for char in text.replace("\t", " ").replace("\n", " ")
    )


@contextlib.contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Within it, a library's warning is one line on stderr, without a file name and a number."""
    import warnings

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        note(f"note: {message}")

    with warnings.catch_warnings():
        warnings.showwarning = show
        yield


def silence_stdout() -> None:
    """Send what is still to come to nowhere: the reader of our output has gone, or is full."""
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    with contextlib.suppress(OSError, ValueError, AttributeError):
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, sys.stdout.fileno())
        os.close(null)


def note(message: str) -> None:
    """Tell the user something on stderr."""
    print(plain(message), file=sys.stderr, flush=True)


def console(*, stderr: bool = False) -> Any:
    """Return a rich console without markup, so that labels are shown as they are."""
    from rich.console import Console

    return Console(stderr=stderr, markup=False, highlight=False, emoji=False)


def table(
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    strong: Sequence[int] = (),
    numbers: bool = True,
) -> Any:
    """Return a table: the first column text, the others numbers or text; some rows in bold."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    found = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for j, name in enumerate(columns):
        found.add_column(
            Text(plain(name)),
            justify="right" if j and numbers else "left",
            overflow="fold",
            no_wrap=numbers and j > 0,
        )
    for i, row in enumerate(rows):
        cells = [Text(plain(cell)) for cell in row]
        found.add_row(*cells, style="bold" if i in strong else None)
    return found


def audit_lines(audit: Audit) -> list[Any]:
    """Return what an audit says, as things to print."""
    from rich.text import Text

    from fairpca.auditing.verdict import components, group_title, number, percent, proof

    shown = [name for name in audit.reducers if audit.has(name)]
    pca = audit.at("PCA")
    order = sorted(range(len(audit.groups)), key=lambda i: -pca.loss[i])
    columns = [group_title(audit), "rows"]
    for name in shown:
        columns += [f"{name} loss", "kept"]
    rows = []
    for i in order[:_MOST_GROUPS]:
        row = [audit.groups[i].text, f"{audit.groups[i].count:,}"]
        for name in shown:
            finding = audit.at(name)
            row += [number(float(finding.loss[i])), percent(float(finding.share[i]))]
        rows.append(row)
    gaps = ["gap", ""]
    for name in shown:
        gaps += [percent(audit.at(name).gap), ""]
    lines = [
        Text(plain(audit.verdict())),
        Text(),
        table(columns, [*rows, gaps], strong=[len(rows)]),
    ]
    if len(order) > _MOST_GROUPS:
        lines.append(Text(f"{len(order) - _MOST_GROUPS} more groups: --json or -o has them all."))
    lines.append(
        Text(
            f"Loss per row against the group's own PCA, {components(pca.n_components)}; "
            "kept: share of the group's variance."
        )
    )
    lines.append(Text(plain(proof(audit.at("FairPCA")))))
    lines += [Text(f"! {plain(text)}") for text in audit.warnings]
    return lines
