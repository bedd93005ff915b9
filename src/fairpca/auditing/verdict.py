"""An audit in words: how numbers and labels are written, the verdict, and what to be wary of.

No sentence calls a result fair. Each says which number, for which group, changed by how much. The
terminal, the page and the notebook all take their sentences from here, so that they cannot
disagree.

`findings` imports this module, because an `Audit` can state its own verdict. Naming the classes of
`findings` here would close a circle of imports; arguments annotated with `Any` are therefore
described in the docstrings.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import Any

from fairpca.moments.label_codes import Label

#: What the numbers of a group are about, by the value of `center`.
MEANS = {
    "global": "the mean of all rows, which a projection subtracts from everybody",
    "group": "the group's own mean",
}

# Names in one sentence. Longer lists are not read; the rest is counted ("and 4 more").
_MOST_NAMES = 6
# What `Groups` calls a column of labels that came without a name. It would mean nothing to a
# reader, so such groups are shown as "group" alone.
_UNNAMED = "sensitive_feature"
# Cuts of the worst loss below this share round to "0.0%" and are called no improvement.
_NO_CUT = 5e-4
# Rises of the total error below this share round to "0.00%".
_NO_PRICE = 5e-5
# Classes of Unicode characters that turn the direction of the text around them.
_RIGHT_TO_LEFT = ("R", "AL", "RLE", "RLO", "RLI")


def label_texts(labels: Sequence[Label], names: Sequence[str], group_by: str) -> list[str]:
    """Return the labels as they are shown; distinct labels get distinct texts.

    Parameters
    ----------
    labels : sequence
        Labels of the groups; tuples where several columns are crossed.
    names : sequence of str
        Names of the label columns.
    group_by : {"intersection", "marginal"}
        With "marginal" and several columns the labels are pairs (column, level).

    Returns
    -------
    list of str

    Examples
    --------
    >>> from fairpca.auditing.verdict import label_texts
    >>> label_texts([("f", 1), ("m", 2)], ["sex", "site"], "intersection")
    ['f · 1', 'm · 2']
    >>> label_texts([1, "1"], ["site"], "intersection")
    ['1', "'1'"]
    """
    between = ": " if group_by == "marginal" and len(names) > 1 else " · "
    texts = [
        between.join(str(part) for part in label) if isinstance(label, tuple) else str(label)
        for label in labels
    ]
    texts = [text if text.strip() else "(empty)" for text in texts]
    if len(set(texts)) < len(texts):
        # 1 and "1" read alike: show which is which.
        return [repr(label) for label in labels]
    return texts


def number(value: float) -> str:
    """Return three significant digits, without an exponent where that stays readable.

    Examples
    --------
    >>> from fairpca.auditing.verdict import number
    >>> number(0.26266), number(12345), number(1e-7)
    ('0.263', '12345', '1.0e-7')
    """
    if value == 0:
        return "0"
    if not math.isfinite(value):
        return str(value)
    size = abs(value)
    # Outside this range a number is mostly zeros, or digits nobody compares.
    if not 1e-4 <= size < 1e6:
        mantissa, exponent = f"{value:.1e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(size)))}f}"


def percent(share: float) -> str:
    """Return a share as a percentage with the digits that matter.

    Examples
    --------
    >>> from fairpca.auditing.verdict import percent
    >>> percent(0.0046), percent(0.412), percent(0.9991)
    ('0.46%', '41%', '99.9%')
    """
    size = abs(share)
    if size < 1e-9:
        return "0%"
    if size < 1e-4:
        return "under 0.01%"
    # 99.9% is not 100%: what is left matters as much as what is there.
    fine = size < 0.1 or 0.99 <= size < 1
    return f"{100 * share:.{(1 if size >= 0.01 else 2) if fine else 0}f}%".replace("-", "−")


def components(n_components: int) -> str:
    """Return '1 component', '2 components'."""
    return f"{n_components} component{'' if n_components == 1 else 's'}"


def isolated(text: str) -> str:
    """Return a label that cannot turn the sentence around it.

    Text in a right-to-left script is put between the marks that isolate it; other text comes back
    as it is.
    """
    if any(unicodedata.bidirectional(char) in _RIGHT_TO_LEFT for char in text):
        return f"\u2068{text}\u2069"
    return text


def listed(names: Sequence[str]) -> str:
    """Return the first few names separated by commas, and how many more there are."""
    shown = ", ".join(names[:_MOST_NAMES])
    return shown if len(names) <= _MOST_NAMES else f"{shown} and {len(names) - _MOST_NAMES} more"


def html_table(columns: Iterable[str], rows: Iterable[Iterable[str]], caption: str = "") -> str:
    """Return an HTML table for notebooks; every text is escaped and nothing in it can run.

    The first cell of a row is isolated, so that a label in a right-to-left script does not turn
    the numbers beside it around.
    """
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = ""
    for first, *cells in rows:
        body += f"<tr><td><bdi>{escape(first)}</bdi></td>"
        body += "".join(f"<td>{escape(cell)}</td>" for cell in cells) + "</tr>"
    return (
        f"<table><caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody></table>"
    )


def group_title(audit: Any) -> str:
    """Return what the groups of an audit are groups of: the names of the label columns."""
    if audit.group_columns == (_UNNAMED,):
        return "group"
    return " · ".join(audit.group_columns)


def named(audit: Any, position: int) -> str:
    """Return a group of an audit as it is called in a sentence."""
    text = isolated(audit.groups[position].text)
    column = audit.group_columns[0]
    # "sex “female”" reads well; "site “site 4”" and a pair of columns do not.
    if column == _UNNAMED or len(audit.group_columns) > 1 or column in text:
        return f"group “{text}”"
    return f"{isolated(column)} “{text}”"


def about(audit: Any) -> str:
    """Return the sentence that says which mean the numbers of an audit are about."""
    return f"Every number of a group is about {MEANS[audit.center]}."


def sentences(audit: Any, n_components: int | None = None) -> list[str]:
    """Return the verdict sentence by sentence.

    Parameters
    ----------
    audit : Audit
    n_components : int, optional
        One of `audit.ranks`. Default: the number of components asked about.

    Returns
    -------
    list of str
        The problem (whom PCA serves worst), the remedy (what FairPCA changes) and the price (what
        it costs all rows); one sentence where PCA costs no group anything.
    """
    r = audit.n_components if n_components is None else n_components
    pca, fair = audit.at("PCA", r), audit.at("FairPCA", r)
    if pca.worst_loss <= pca.certificate.resolution:
        return [
            f"With {components(r)}, PCA costs no group anything: each keeps as much of its "
            "variance as its own PCA would."
        ]
    level = float(audit.provenance.get("parameters", {}).get("level", 0.95))
    return [_problem(audit, pca), _remedy(pca, fair, level), _price(fair)]


def _problem(audit: Any, pca: Any) -> str:
    """Return the sentence about the group that PCA serves worst, set against the best-served."""
    worst, best = named(audit, pca.worst), named(audit, pca.best)
    start = (
        f"With {components(pca.n_components)}, PCA serves {worst} worst: it loses "
        f"{number(pca.worst_loss)} per row against a PCA of its own, "
    )
    if pca.best_loss <= pca.certificate.resolution:
        return f"{start}while {best} loses nothing."
    times = pca.worst_loss / pca.best_loss
    # Closer than that, two decimals would say 1.00 times.
    if times < 1.005:
        return f"{start}no more than every other group."
    factor = f"{times:.2f}" if times < 2 else f"{times:.1f}" if times < 100 else f"{times:,.0f}"
    return f"{start}{factor} times what {best} loses ({number(pca.best_loss)})."


def _remedy(pca: Any, fair: Any, level: float) -> str:
    """Return the sentence about the worst loss under FairPCA, with its interval where known."""
    if fair.cut < _NO_CUT:
        return (
            "No projection with as many components makes the worst loss noticeably smaller "
            f"(none goes below {number(fair.certificate.lower_bound)})."
        )
    interval = ""
    if fair.cut_interval is not None and fair.cut_interval[0] > 0:
        low, high = fair.cut_interval
        interval = f" ({percent(level)} interval {percent(low)} to {percent(high)})"
    elif fair.cut_interval is not None:
        # The interval reaches zero: the improvement may be chance, and the sentence says so.
        interval = f" in these rows (the {percent(level)} interval includes no change at all)"
    before, after = percent(pca.gap), percent(fair.gap)
    moves = f"stays at {before}" if before == after else f"goes from {before} to {after}"
    return (
        f"FairPCA with as many components brings the worst loss down to "
        f"{number(fair.worst_loss)}, {percent(fair.cut)} smaller{interval}; the gap between the "
        f"worst- and the best-served group {moves} of the worst loss."
    )


def _price(fair: Any) -> str:
    if fair.price < _NO_PRICE:
        return "The error over all rows rises by less than 0.01%."
    return f"The price: the error over all rows rises by {percent(fair.price)}."


def proof(finding: Any) -> str:
    """Return the certificate of a finding in one sentence."""
    start = (
        f"No projection with {components(finding.n_components)}, by any method, has a worst loss "
        f"below {number(finding.certificate.lower_bound)}; {finding.reducer} attains "
        f"{number(finding.worst_loss)}"
    )
    if finding.certificate.optimal:
        return f"{start}, so it cannot be improved."
    return f"{start}, of which at most {percent(finding.certificate.gap)} could be gained."


def reader_warnings(
    groups: Sequence[Any], fair: Any, table: Any, intervals: Any, min_group_size: int
) -> Iterator[str]:
    """Yield what a reader should know before trusting a number, one sentence or two at a time.

    Parameters
    ----------
    groups : sequence of GroupRow
    fair : Candidate
        FairPCA with the number of components asked about.
    table : Table
        The rows and moments under audit.
    intervals : Intervals
        They say themselves how far they go.
    min_group_size : int
        Groups with fewer rows are named.
    """
    asked = components(fair.n_components)
    small = [f"{isolated(g.text)} ({g.count})" for g in groups if g.small]
    if small:
        yield (
            f"Fewer than {min_group_size} rows: {listed(small)}. A few rows more or less can "
            "change these groups' numbers a lot."
        )
    flat = [isolated(g.text) for g in groups if g.variance == 0]
    if flat:
        yield (
            f"No variance: {listed(flat)}. Nothing can be lost where there is none, so the loss "
            "is zero and enters the gap as zero."
        )
    # About its own mean a group spans one dimension less than it has rows.
    spare = int(table.source.center == "group")
    within = [g for g in groups if g.count - spare <= fair.n_components and g.variance > 0]
    if within:
        yield (
            f"So few rows that {asked} of their own describe them exactly: "
            f"{listed([isolated(g.text) for g in within])}. There the loss is the whole error."
        )
    cells = zip(table.moments.labels, table.moments.count, strict=True)
    unlabelled = sum(count for label, count in cells if label is None)
    if unlabelled:
        counts = "they count in PCA and in the mean, and in no group"
        yield f"{unlabelled} row(s) have no label: {counts}."
    if not fair.certificate.optimal:
        gained = percent(fair.certificate.gap)
        yield f"The proof is open: of FairPCA's worst loss at most {gained} could still be gained."
    if table.X is None:
        yield "Intervals need rows, and only moments were given."
    elif not intervals.everywhere:
        yield f"The table is large: intervals were computed for {asked} only."
    if not intervals.refitted:
        yield (
            "The table is wide: each group's own PCA was held fixed under resampling, so the "
            "interval of a loss near zero is too narrow."
        )
