"""An audit in words: labels as they are shown, the verdict, and what to know before trusting it.

No sentence calls a result fair. Each says which number, for which group, changed by how much.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

from fairpca.auditing.candidates import Candidate, Table
from fairpca.auditing.findings import Audit, Finding, GroupRow
from fairpca.moments.label_codes import Label

if TYPE_CHECKING:
    from fairpca.auditing.resample import Intervals

# More names than this in one sentence are not read.
_MOST_NAMES = 6
_UNNAMED = "sensitive_feature"


def label_texts(labels: Sequence[Label], names: Sequence[str], group_by: str) -> list[str]:
    """Return the labels as they are shown; distinct labels get distinct texts."""
    if group_by == "marginal" and len(names) > 1:
        texts = [f"{label[0]}: {label[1]}" for label in labels]  # type: ignore[index]
    else:
        texts = [
            " · ".join(str(part) for part in label) if isinstance(label, tuple) else str(label)
            for label in labels
        ]
    texts = [text if text.strip() else "(empty)" for text in texts]
    if len(set(texts)) < len(texts):
        # 1 and "1" read alike: show which is which.
        return [repr(label) for label in labels]
    return texts


def number(value: float) -> str:
    """Three significant digits, without an exponent where that stays readable."""
    if value == 0:
        return "0"
    size = abs(value)
    if not 1e-4 <= size < 1e6:
        mantissa, exponent = f"{value:.1e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    return f"{value:.{max(0, 2 - math.floor(math.log10(size)))}f}"


def percent(share: float) -> str:
    """A share as a percentage with the digits that matter."""
    size = abs(share)
    if size < 1e-9:
        return "0%"
    if size < 1e-4:
        return "under 0.01%"
    # 99.9% is not 100%: what is left matters as much as what is there.
    fine = size < 0.1 or 0.99 <= size < 1
    return f"{100 * share:.{(1 if size >= 0.01 else 2) if fine else 0}f}%".replace("-", "−")


def components(n_components: int) -> str:
    """'1 component', '2 components'."""
    return f"{n_components} component{'' if n_components == 1 else 's'}"


def group_title(audit: Audit) -> str:
    """What the groups are groups of."""
    if audit.group_columns == (_UNNAMED,):
        return "group"
    return " · ".join(audit.group_columns)


def isolated(text: str) -> str:
    """Keep a right-to-left label from turning the sentence around it."""
    if any(unicodedata.bidirectional(char) in ("R", "AL", "RLE", "RLO", "RLI") for char in text):
        return f"\u2068{text}\u2069"
    return text


def named(audit: Audit, position: int) -> str:
    """A group as it is called in a sentence."""
    text = isolated(audit.groups[position].text)
    column = audit.group_columns[0]
    if column == _UNNAMED or len(audit.group_columns) > 1 or column in text:
        return f"group “{text}”"
    return f"{isolated(column)} “{text}”"


def verdict(audit: Audit, n_components: int | None = None) -> str:
    """Return the result in two or three sentences with numbers."""
    return " ".join(sentences(audit, n_components))


def sentences(audit: Audit, n_components: int | None = None) -> list[str]:
    """Return the verdict sentence by sentence: the problem, the remedy, the price."""
    r = audit.n_components if n_components is None else n_components
    pca, fair = audit.at("PCA", r), audit.at("FairPCA", r)
    if pca.worst_loss <= pca.certificate.resolution:
        return [
            f"With {components(r)}, PCA costs no group anything: each keeps as much of its "
            "variance as its own PCA would."
        ]
    level = float(audit.provenance.get("parameters", {}).get("level", 0.95))
    return [_problem(audit, pca), _remedy(pca, fair, level), _price(fair)]


def _problem(audit: Audit, pca: Finding) -> str:
    worst, best = named(audit, pca.worst), named(audit, pca.best)
    start = (
        f"With {components(pca.n_components)}, PCA serves {worst} worst: it loses "
        f"{number(pca.worst_loss)} per row against a PCA of its own, "
    )
    if pca.best_loss <= pca.certificate.resolution:
        return f"{start}while {best} loses nothing."
    times = pca.worst_loss / pca.best_loss
    if times < 1.005:
        return f"{start}no more than every other group."
    factor = f"{times:.2f}" if times < 2 else f"{times:.1f}" if times < 100 else f"{times:,.0f}"
    return f"{start}{factor} times what {best} loses ({number(pca.best_loss)})."


def _remedy(pca: Finding, fair: Finding, level: float) -> str:
    if fair.cut < 5e-4:
        return (
            "No projection with as many components makes the worst loss noticeably smaller "
            f"(none goes below {number(fair.certificate.lower_bound)})."
        )
    interval = ""
    if fair.cut_interval is not None and fair.cut_interval[0] > 0:
        low, high = fair.cut_interval
        interval = f" ({percent(level)} interval {percent(low)} to {percent(high)})"
    elif fair.cut_interval is not None:
        interval = f" in these rows (the {percent(level)} interval includes no change at all)"
    before, after = percent(pca.gap), percent(fair.gap)
    moves = f"stays at {before}" if before == after else f"goes from {before} to {after}"
    return (
        f"FairPCA with as many components brings the worst loss down to "
        f"{number(fair.worst_loss)}, {percent(fair.cut)} smaller{interval}; the gap between the "
        f"worst- and the best-served group {moves} of the worst loss."
    )


def _price(fair: Finding) -> str:
    if fair.price < 5e-5:
        return "The error over all rows rises by less than 0.01%."
    return f"The price: the error over all rows rises by {percent(fair.price)}."


def proof(finding: Finding) -> str:
    """The certificate in one sentence."""
    bound = number(finding.certificate.lower_bound)
    start = (
        f"No projection with {components(finding.n_components)}, by any method, has a worst loss "
        f"below {bound}; {finding.reducer} attains {number(finding.worst_loss)}"
    )
    if finding.certificate.optimal:
        return f"{start}, so it cannot be improved."
    return f"{start}, of which at most {percent(finding.certificate.gap)} could be gained."


def reader_warnings(
    table: Table,
    groups: tuple[GroupRow, ...],
    fair: Candidate,
    intervals: Intervals,
    min_group_size: int,
) -> tuple[str, ...]:
    """Return what a reader should know before trusting a number."""
    found = []
    r = fair.n_components
    small = [f"{isolated(g.text)} ({g.count})" for g in groups if g.small]
    if small:
        found.append(
            f"Fewer than {min_group_size} rows: {_listed(small)}. A few rows more or less can "
            "change these groups' numbers a lot."
        )
    flat = [isolated(g.text) for g in groups if g.variance == 0]
    if flat:
        found.append(
            f"No variance: {_listed(flat)}. Nothing can be lost where all rows are equal, so the "
            "loss is zero and enters the gap as zero."
        )
    few = [isolated(g.text) for g in groups if 0 < g.count - 1 <= r and g.variance > 0]
    if few:
        found.append(
            f"So few rows that {components(r)} of their own describe them exactly: "
            f"{_listed(few)}. There the loss is the whole error."
        )
    unlabelled = [i for i, label in enumerate(table.moments.labels) if label is None]
    if unlabelled:
        rows = int(table.moments.count[unlabelled].sum())
        found.append(
            f"{rows} row(s) have no label: they count in PCA and in the mean, and in no group."
        )
    if fair.certificate is not None and not fair.certificate.optimal:
        found.append(
            f"The proof is open: of FairPCA's worst loss at most "
            f"{percent(fair.certificate.gap)} could still be gained."
        )
    if not intervals.everywhere:
        found.append(
            "Intervals need rows, and only moments were given."
            if table.X is None
            else f"The table is large: intervals were computed for {components(r)} only."
        )
    if not intervals.refitted:
        found.append(
            "The table is wide: each group's own PCA was held fixed under resampling, so the "
            "interval of a loss near zero is too narrow."
        )
    return tuple(found)


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:_MOST_NAMES])
    return shown if len(names) <= _MOST_NAMES else f"{shown} and {len(names) - _MOST_NAMES} more"
