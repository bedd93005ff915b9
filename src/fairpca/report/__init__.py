"""An audit as one HTML file: its answer, its tables with bars, and the template that shows them.

`render_page` returns the document and `write_page` stores it. The sentences come from
`fairpca.auditing.words`, the numbers from the audit, the layout from `page.html`. Labels and names
are data: Jinja2 escapes every text. The page has no script, and a content security policy forbids
any and lets nothing be fetched.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from fairpca._check import require
from fairpca.auditing import words
from fairpca.auditing.findings import Audit
from fairpca.moments.storage import atomic_write

__all__ = ["render_page", "write_page"]

# Classes of the style sheet for an audit's own candidates; a reducer that was given has "other".
_STYLES = {"PCA": "pca", "balanced PCA": "balanced", "FairPCA": "fair", words.CAREFUL: "careful"}
# Groups in a table with bars; the others are counted. More than a printed page are not read.
_MOST_GROUPS, _MOST_UNSEEN = 30, 6
# Lines in the table of all numbers; a longer one is a job for `Audit.to_frame`.
_MOST_LINES = 400
_KINDS = {
    "better": "Worth a change: better beyond noise",
    "as good": "Keep plain PCA",
    "cannot tell": "These rows cannot tell",
}
_WORDS = {
    "components": "Many columns are replaced by a few new ones, the components, from which the "
    "rows can be rebuilt as well as possible.",
    "error": "The mean squared distance between a group's rows and what the components rebuild of "
    "them.",
    "loss": "What a group gives up because everybody shares one projection: its error minus the "
    "error of a PCA made for that group alone, with as many components. Zero is best. On new rows "
    "it can be below zero: then the shared projection serves the group better than its own.",
    "variance": "How widely a group's rows are spread. An error of 100% of it would mean that "
    "nothing is rebuilt.",
    "interval": "95 of 100 such intervals hold the number that endless new rows would give.",
    "new rows": "Rows that were left out while the projection was fitted. They stand for people "
    "who come later.",
    "PCA": "One projection that rebuilds all rows together as well as possible. Large and widely "
    "spread groups decide what it looks like.",
    "balanced PCA": "PCA in which every group weighs the same, however many rows it has.",
    "FairPCA": "The projection whose largest loss of any group is as small as possible. It needs "
    "the groups only while it is fitted.",
    words.CAREFUL: "FairPCA with two brakes: it trusts a group's own pattern only as far as "
    "left-out rows confirm it, and in the rows of the fit no group loses more than "
    f"{words.MAX_HARM:.0%} of its variance above what PCA costs it. In Python: "
    f'FairPCA(shrinkage="auto", max_harm={words.MAX_HARM}).',
    "AnchorPCA": "A PCA drawn towards the directions that the groups share, made for groups "
    "nobody has seen (Seiter and others, 2026).",
}
_WHERE = {"new": "on new rows", "hand": "on the rows of the fit", "unseen": "group not in the fit"}


def render_page(audit: Audit, *, title: str | None = None) -> str:
    """Return an audit as one HTML document that asks for nothing from outside.

    Parameters
    ----------
    audit : Audit
        What `fairpca.audit` returned.
    title : str, optional
        What was audited, above the answer. Default: the name of the file, where it is known.

    Examples
    --------
    >>> import fairpca
    >>> from fairpca.report import render_page
    >>> from sklearn.datasets import load_wine
    >>> X, kind = load_wine(return_X_y=True)
    >>> found = fairpca.audit(X / X.std(axis=0), kind, 2)
    >>> "<title>Three vineyards</title>" in render_page(found, title="Three vineyards")
    True
    """
    jinja2 = require("jinja2", extra="app", purpose="the audit page")
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    template = (resources.files("fairpca.report") / "page.html").read_text(encoding="utf-8")
    on, advice = "hand" if audit.why_not_new else "new", audit.advice
    source = audit.provenance.get("source", {})
    files = [str(file["name"]) for file in source.get("files", ())]
    return str(
        environment.from_string(template).render(
            title=title or words.listed(files) or "An audit of PCA",
            version=audit.provenance.get("versions", {}).get("fairpca", ""),
            basis=_basis(audit),
            headline=_headline(audit),
            kind=advice.kind,
            badge=_KINDS[advice.kind] if on == "new" else "Nothing is known of new rows",
            sentences=words.sentences(audit),
            calls=[c for c in (advice.python, advice.command) if c and advice.kind == "better"],
            fit=advice.reducer,
            by=words.group_title(audit),
            where=_WHERE[on],
            where_is_new=on == "new",
            few_rows=words.FEW_ROWS,
            lost=_bars(audit, on),
            prices=_prices(audit, on),
            other_worst=_other_worst(audit, on),
            paid=_bars(audit, on, changes=True),
            unseen=_bars(audit, "unseen"),
            unseen_sentence=words.unseen_sentence(audit),
            warnings=audit.warnings,
            proof=words.proof(audit),
            numbers=list(_numbers(audit)),
            glossary={n: _WORDS[n] for n in _WORDS if n != "AnchorPCA" or audit.of("unseen")},
            provenance=list(_flat(audit.provenance)),
        )
    )


def write_page(audit: Audit, path: str | Path, *, title: str | None = None) -> str:
    """Write the page of an audit to a file, and return it.

    Parameters
    ----------
    audit : Audit
        What `fairpca.audit` returned.
    path : str or Path
        An existing file is replaced, in one step and only when the page is complete.
    title : str, optional
        As in `render_page`.
    """
    page = render_page(audit, title=title)
    with atomic_write(path, "w", encoding="utf-8") as file:
        file.write(page)
    return page


def _basis(audit: Audit) -> str:
    """Return on how many rows, groups and columns the page is based."""
    parameters = audit.provenance.get("parameters", {})
    rows, columns = parameters.get("rows"), parameters.get("features")
    said = f"{rows:,} rows, " if rows else ""
    said += f"{len(audit.groups)} groups by {words.group_title(audit)}, "
    return (
        said + (f"{columns} columns as " if columns else "") + words.components(audit.n_components)
    )


def _headline(audit: Audit) -> str:
    """Return the answer: whom PCA serves worst, what cuts that, and who pays."""
    new, advice = not audit.why_not_new, audit.advice
    pca = audit.at("PCA", on="new" if new else "hand")
    who, often = words.named(audit, pca.worst), words.multiple(pca)
    if pca.worst_loss <= 0:
        return "PCA costs no group anything."
    if new and advice.kind == "as good":
        most = words.percent(max(advice.most, 1e-4))
        return f"Plain PCA is as good: no fit can gain more than {most} of the variance of {who}."
    first = f"PCA costs {who} {words.of_variance(pca, pca.worst)}"
    if often:
        best = words.quoted(audit.groups[pca.best])
        first = f"Under PCA, {who} loses {often} times as much as {best}"
    if not new:
        return f"{first}, on the rows of the fit."
    if advice.kind == "cannot tell":
        return f"{first}. Whether another fit mends that, these rows do not show."
    more = f" by more than {words.percent(advice.harm)} of its variance"
    cut = f"by {words.percent(advice.cut)}" if advice.cut < 1 else "to nothing"
    return (
        f"{first}. {words.capital(advice.reducer)} cuts that {cut}; "
        f"no group's error rises{more if advice.harm >= 1e-4 else ''}."
    )


def _percent(share: float) -> str:
    """Return a share in a table, where two digits after the point are enough."""
    return "0%" if abs(share) < 1e-4 else words.percent(share).replace("-", "−")


def _signed(share: float) -> str:
    return "+" * (share >= 1e-4) + _percent(share)


def _bars(audit: Audit, on: str, *, changes: bool = False) -> dict[str, Any] | None:
    """Return a table of what every group loses, or of how its error changes against PCA.

    The bars have one scale, that of the groups with rows enough. A group with few rows neither
    stands before a larger one nor makes its bars short: what is too long is cut.
    """
    fits = audit.of(on, audit.n_components)[int(changes) :]
    if not fits:
        return None
    names = ("change", "change_low", "change_high") if changes else ("loss", "low", "high")
    # By value or end of interval, candidate, group.
    shares = np.array([[f.as_share(name) for f in fits] for name in names])
    marked = [f.worst for f in fits]
    if changes:
        marked = [worst if harm > 0 else -1 for worst, harm in map(words.harmed, fits)]
    large, few = words.parted(audit)
    most = _MOST_GROUPS
    if on == "unseen":
        most, worst_first = _MOST_UNSEEN, np.argsort(-fits[0].loss).tolist()
        large, few = ([i for i in worst_first if i in part] for part in (large, few))
    low, high = words.bar_limits(shares[0][:, large], shares[1:][:, :, large])

    def at(value: float) -> float:
        return round(100 * float(np.clip((value - low) / (high - low), 0, 1)), 2)

    def cell(j: int, i: int) -> dict[str, Any]:
        value, first, last = map(float, shares[:, j, i])
        start, end = sorted((at(0.0), at(np.nan_to_num(value))))
        known = np.isfinite(first)
        raw = float(fits[j].loss[i])
        return {
            "text": (_signed if changes else _percent)(value),
            "raw": ""
            if changes or not np.isfinite(raw)
            else f"{words.number(raw)} per row".replace("-", "−"),
            "ends": f"{_percent(first).removesuffix('%')} to {_percent(last)}" if known else "",
            "line": (at(first), at(last)) if known else None,
            "bar": (start, round(end - start, 2)) if np.isfinite(value) else None,
            "worst": marked[j] == i,
        }

    def lines(groups: list[int]) -> list[Any]:
        return [(audit.groups[i], [cell(j, i) for j in range(len(fits))]) for i in groups[:most]]

    return {
        "columns": [(f.reducer, _STYLES.get(f.reducer, "other")) for f in fits],
        "lines": lines(large),
        "few": lines(few),
        "more": sum(max(0, len(part) - most) for part in (large, few)),
        "zero": at(0.0),
        "intervals": bool(np.isfinite(shares[1]).any()),
    }


def _prices(audit: Audit, on: str) -> list[str]:
    """Return the error of all rows under PCA, and how it changes under the other candidates."""
    pca, *others = (f.total_error for f in audit.of(on, audit.n_components))
    changes = [_signed(error / pca - 1) if pca > 0 else "–" for error in others]
    return [words.number(pca), *changes]


def _other_worst(audit: Audit, on: str) -> str:
    """Return a sentence where another group than the one PCA serves worst loses a larger share."""
    pca = audit.at("PCA", on=on)
    shares = pca.as_share("loss")
    largest = int(np.argmax(np.nan_to_num(shares, nan=-np.inf)))
    if largest == pca.worst or not shares[largest] > shares[pca.worst]:
        return ""
    return (
        f"Per row {words.named(audit, pca.worst)} loses most under PCA "
        f"({words.number(pca.worst_loss)}), and that is what FairPCA makes small; as a share of "
        f"its variance {words.named(audit, largest)} does. "
        'For shares there is criterion="relative".'
    )


def _numbers(audit: Audit) -> Iterator[dict[str, Any]]:
    """Yield tables of all numbers: groups, and the largest loss by number of components."""
    columns = "group, fit, rows, variance, loss, from, to, error, variance kept".split(", ")
    for on, where in _WHERE.items():
        fits = audit.of(on, audit.n_components)
        names = ("variance", "loss", "low", "high", "error")
        lines = [
            [
                group.text,
                f.reducer,
                f"{group.count:,}",
                *(words.number(float(getattr(f, name)[i])) for name in names),
                words.percent(float(f.share[i])),
            ]
            for i, group in enumerate(audit.groups)
            for f in fits
        ]
        if lines:
            yield {"title": where, "columns": columns, "lines": lines[:_MOST_LINES]}
    ranks = [
        [words.components(r), *(words.number(f.worst_loss) for f in audit.of("hand", r))]
        for r in audit.ranks
    ]
    if len(ranks) > 1:
        heads = ["", *(f.reducer for f in audit.of("hand", audit.n_components))]
        title = "largest loss on the rows of the fit, by number of components"
        yield {"title": title, "columns": heads, "lines": ranks}


def _flat(value: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield (name, text) pairs of nested data; names of inner entries follow the outer ones."""
    if isinstance(value, dict):
        for key, entry in value.items():
            yield from _flat(entry, f"{prefix} › {key}" if prefix else str(key))
    elif isinstance(value, list | tuple) and any(isinstance(entry, dict) for entry in value):
        for entry in value:
            yield from _flat(entry, prefix)
    elif isinstance(value, list | tuple):
        yield prefix, words.listed([str(entry) for entry in value], 200)
    elif value is not None:
        yield prefix, str(value)
