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
import shlex
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from html import escape
from typing import Any

import numpy as np

from fairpca import _checks
from fairpca.moments.groups import UNNAMED
from fairpca.moments.groups import Label

#: What the numbers of a group are about, by the value of `center`.
MEANS = {
    "global": "the mean of all rows, which a projection subtracts from everybody",
    "group": "the group's own mean",
}

#: What an audit calls ``FairPCA(shrinkage="auto")``.
SHRUNK = "shrunk FairPCA"
#: What an audit calls `fairpca.methods.BalancedPCA` where it is looked at by name.
BALANCED = "balanced PCA"
# What `shrinkage` is for each of an audit's own reducers, in Python and on the command line. PCA
# is the fit whose groups are all alike.
_SHRINKAGE = {"PCA": ("", " --shrinkage 1"), "FairPCA": ("", "")}
_SHRINKAGE[SHRUNK] = (', shrinkage="auto"', " --shrinkage auto")
# The first names of a list and how many more there are; labels have their quotes already.
listed = partial(_checks.listed, show=str)
# From here on numbers have an exponent.
_LARGE = 1e12
# Names of groups that share the worst place, where a sentence goes on after them.
_MOST_TIED = 3
# Cuts of the worst loss below this share round to "0.0%" and are called no improvement.
_NO_CUT = 5e-4
# Rises of the total error below this share round to "0.00%".
_NO_PRICE = 5e-5
#: A value that changes by less than this share has not changed, and values this close share a
#: place: it is the resolution of the three digits that are shown.
SAME = 5e-3
# How the warning starts that says why nothing is known of new rows.
_ONLY_IN_HAND = "Every number is about the rows in hand."
# Classes of Unicode characters that turn the direction of the text around them.
_RIGHT_TO_LEFT = ("R", "AL", "RLE", "RLO", "RLI")


def label_texts(labels: Sequence[Label], names: Sequence[str], group_by: str) -> list[str]:
    """Return the labels as they are shown; distinct labels get distinct texts.

    Labels are tuples where the columns called `names` are crossed; with several of them and
    ``group_by="marginal"`` they are pairs (column, level).

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

    Whole numbers are written out below a million, and thousands are set apart.

    Examples
    --------
    >>> from fairpca.auditing.verdict import number
    >>> number(0.26266), number(12345), number(1634567), number(1e-7)
    ('0.263', '12,345', '1,630,000', '1.0e-7')
    """
    if value == 0:
        return "0"
    if not math.isfinite(value):
        return str(value)
    size = abs(value)
    # Outside this range a number is mostly zeros, or digits nobody compares.
    if not 1e-4 <= size < _LARGE:
        mantissa, exponent = f"{value:.1e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    if size >= 1e6:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:,.{max(0, 2 - math.floor(math.log10(size)))}f}"


def with_interval(value: float, high: float) -> str:
    """Return a number and how far its interval reaches to either side; a dash where unknown.

    Digits that the interval makes meaningless are left out.

    Examples
    --------
    >>> from fairpca.auditing.verdict import with_interval
    >>> with_interval(0.2631, 0.3127), with_interval(3.661, 6.32)
    ('0.263 ±0.050', '3.7 ±2.7')
    """
    if not math.isfinite(value):
        return "–"
    half = high - value
    # As in `number`: outside this range decimals are not readable.
    if not 1e-4 <= half < 1e6 or abs(value) >= 1e6:
        return f"{number(value)} ±{number(half)}"
    decimals = max(0, 1 - math.floor(math.log10(half)))
    # Adding zero takes the sign off a zero.
    return f"{round(value, decimals) + 0.0:,.{decimals}f} ±{half:,.{decimals}f}"


def percent(share: float) -> str:
    """Return a share as a percentage with the digits that matter.

    Examples
    --------
    >>> from fairpca.auditing.verdict import percent
    >>> percent(0.0046), percent(-0.412), percent(0.9991)
    ('0.46%', '-41%', '99.9%')
    """
    size = abs(share)
    if size < 1e-9:
        return "0%"
    if size < 1e-4:
        return "under 0.01%"
    # 99.9% is not 100%: what is left matters as much as what is there.
    fine = size < 0.1 or 0.99 <= size < 1
    return f"{100 * share:.{(1 if size >= 0.01 else 2) if fine else 0}f}%"


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
    if audit.group_columns == (UNNAMED,):
        # The name that a column of labels without one gets would mean nothing to a reader.
        return "group"
    return " · ".join(audit.group_columns)


def quoted(group: Any) -> str:
    """Return the label of a group between quotation marks, so that a code is no number."""
    return f"“{isolated(group.text)}”"


def named(audit: Any, position: int) -> str:
    """Return a group of an audit as it is called in a sentence."""
    group, column = audit.groups[position], audit.group_columns[0]
    # "sex “female”" reads well; "site “site 4”" and a pair of columns do not.
    if column == UNNAMED or len(audit.group_columns) > 1 or column in group.text:
        return f"group {quoted(group)}"
    return f"{isolated(column)} {quoted(group)}"


def named_all(audit: Any, positions: Sequence[int]) -> str:
    """Return groups of an audit as a sentence calls them together: three names and a count."""
    first = named(audit, positions[0])
    if len(positions) == 1:
        return first
    more = [quoted(audit.groups[i]) for i in positions[1:_MOST_TIED]]
    rest = len(positions) - _MOST_TIED
    *before, last = [first, *more, *([f"{rest} more"] if rest > 0 else [])]
    text = f"{', '.join(before)} and {last}"
    return f"groups{text[5:]}" if text.startswith("group “") else text


def worst_places(values: Any, sign: int = 1) -> list[int]:
    """Return the groups that share the worst place: those the digits shown do not tell apart.

    `sign` is 1 where the largest value is the worst, and -1 where the smallest is. A value that is
    NaN is not known, and is not the worst.
    """
    most = values[np.nanargmax(sign * np.asarray(values))]
    return np.flatnonzero(np.abs(values - most) <= SAME * np.abs(most)).tolist()


def why_no_new_rows(audit: Any) -> str:
    """Return why an audit knows nothing of new rows."""
    for text in audit.warnings:
        if text.startswith(_ONLY_IN_HAND):
            return str(text.removeprefix(_ONLY_IN_HAND)).strip()
    return "New rows were not checked."


def told(audit: Any, part: str, name: str) -> Any:
    """Return an entry of a part of the provenance, None where it is not told.

    The file of an audit may come from anywhere, so nothing about its origins is certain.
    """
    found = audit.provenance.get(part)
    return found.get(name) if isinstance(found, dict) else None


def n_rows(audit: Any) -> int:
    """Return the number of rows of an audit; those of all groups together where it is not told."""
    rows = told(audit, "parameters", "rows")
    return rows if isinstance(rows, int) else sum(group.count for group in audit.groups)


def interval_level(audit: Any) -> str:
    """Return the level of the intervals of the rows in hand."""
    return percent(float(told(audit, "parameters", "level") or 0.95))


def rows_of(audit: Any, position: int) -> str:
    """Return how many of the rows are of a group."""
    return f"{audit.groups[position].count:,} of {n_rows(audit):,} rows"


def of_variance(audit: Any, position: int, loss: float) -> str:
    """Return a loss as a share of the group's own variance, if it has any."""
    variance = audit.groups[position].variance
    return f"{percent(loss / variance)} of its variance" if variance > 0 else ""


def worse(before: Any, after: Any, sign: int = 1) -> Any:
    """Return the groups that fare worse than before, by more than the digits shown, as a mask.

    `sign` is 1 where larger values are worse, and -1 where smaller ones are.
    """
    return sign * (after - before) > SAME * np.maximum(np.abs(after), np.abs(before))


def about(audit: Any) -> str:
    """Return the sentence that says which mean the numbers of an audit are about."""
    return f"Every number of a group is about {MEANS[audit.center]}."


def order(audit: Any) -> list[int]:
    """Return the groups by what they lose under PCA, most first; on new rows where it is known."""
    losses = audit.at("PCA").loss if audit.new_rows is None else audit.new_rows.at("PCA").loss
    return sorted(range(len(losses)), key=lambda i: -np.nan_to_num(losses[i], nan=-np.inf))


def tables(audit: Any) -> Iterator[tuple[str, list[str], list[list[str]], list[list[str]]]]:
    """Yield the numbers of the groups as text: of new rows where they are known, then in hand.

    Each is a caption, titles of columns, one line a group in `order`, and lines about all groups.
    """
    groups, about = audit.groups, f"with {components(audit.n_components)}"
    lines = [[groups[i].text, f"{groups[i].count:,}"] for i in order(audit)]
    head = [group_title(audit), "rows"]
    if audit.new_rows is not None:
        new = audit.new_rows.findings
        rows = [
            [*line, *(with_interval(float(f.loss[i]), float(f.high[i])) for f in new)]
            for line, i in zip(lines, order(audit), strict=True)
        ]
        totals = [
            ["worst loss", "", *(with_interval(f.worst_loss, f.worst_high) for f in new)],
            ["gap", "", *(percent(f.gap) for f in new)],
            ["total error", "", *(number(f.total_error) for f in new)],
        ]
        yield f"Loss on new rows, {about}", [*head, *(f.reducer for f in new)], rows, totals
    found = [audit.at(name) for name in audit.reducers if audit.has(name)]
    columns, totals = list(head), [["gap", ""], ["total error", ""]]
    for f in found:
        columns += [f.reducer, "kept"]
        totals[0] += [percent(f.gap), ""]
        totals[1] += [number(f.total_error), ""]
    rows = []
    for line, i in zip(lines, order(audit), strict=True):
        cells = [(number(float(f.loss[i])), percent(float(f.share[i]))) for f in found]
        rows.append([*line, *(cell for pair in cells for cell in pair)])
    yield f"Loss on the rows in hand, {about}", columns, rows, totals


def sentences(audit: Any, n_components: int | None = None) -> list[str]:
    """Return the verdict sentence by sentence: new rows, what to fit, then the rows in hand.

    Of other numbers of components than the one asked about, only the rows in hand are known.
    """
    in_hand = row_sentences(audit, n_components)
    if audit.new_rows is None or n_components not in (None, audit.n_components):
        return in_hand
    calls = filter(None, [advice(audit)["python"], advice(audit)["command"]])
    return [*new_sentences(audit), f"To fit it: {' or '.join(calls)}.", *in_hand]


def new_sentences(audit: Any) -> list[str]:
    """Return what is known of new rows, where something is.

    Whom PCA serves worst; what serves the worst-served group best, and whether that is beyond
    noise; what it costs the other groups and all rows; which groups could not be checked.
    """
    new = audit.new_rows
    pca, fit, asked = new.at("PCA"), new.advised, components(audit.n_components)
    nobody = nobody_loses(new)
    as_good = ": plain PCA is as good" if fit is pca else ""
    found = [f"On new rows, with {asked}, {nobody} under PCA{as_good}."]
    if pca.worst_loss > 0:
        share = of_variance(audit, pca.worst, pca.worst_loss)
        # That of the group named, as tables have it; `worst_low` is of whichever group is worst.
        low, high = (float(ends[pca.worst]) for ends in (pca.low, pca.high))
        interval = f"95% interval {number(low)} to {number(high)}"
        if low <= 0:
            interval += ", which includes zero"
        found = [
            f"On new rows, with {asked}, PCA serves {named(audit, pca.worst)} worst "
            f"({rows_of(audit, pca.worst)}): it loses {number(pca.worst_loss)} per row against a "
            f"PCA of its own ({'; '.join(filter(None, [share, interval]))})."
        ]
    if fit is pca:
        others = [f"{f.reducer} {number(f.worst_loss)}" for f in new.findings[1:]]
        if pca.worst_loss > 0 and others:
            found.append(
                f"No other fit makes the worst loss smaller beyond noise ({listed(others)}): "
                "plain PCA is as good, as far as these rows can tell."
            )
    else:
        found += [_gain(audit, pca, fit), _cost(audit, pca, fit)]
    few = [i for i in new.unchecked if audit.groups[i].count < new.n_folds]
    alone = [i for i in new.unchecked if i not in few]
    # Rows that are dealt out leave a group with enough of them unchecked for their weights only.
    weighted = bool(told(audit, "parameters", "weighted"))
    other = "Too few rows with weight to check" if weighted else "Not checked, in one fold alone"
    for why, groups in (("Too few rows to check", few), (other, alone)):
        if groups:
            texts = [f"{quoted(audit.groups[i])} ({audit.groups[i].count})" for i in groups]
            found.append(f"{why}: {listed(texts)}.")
    return found


def nobody_loses(new: Any) -> str:
    """Return in words that no group loses anything on new rows, of those that were checked."""
    return f"no group{' that could be checked' if new.unchecked else ''} loses anything"


def _gain(audit: Any, pca: Any, fit: Any) -> str:
    """Return by how much the worst loss is smaller than PCA's on new rows."""
    start = f"With {fit.reducer} the worst loss is {number(fit.worst_loss)}"
    # A share of what is lost says nothing where nothing is lost any more.
    smaller = f", below zero, so that {nobody_loses(audit.new_rows)}"
    if pca.worst_loss <= 0:
        smaller = f", below PCA's {number(pca.worst_loss)}"
    elif fit.worst_loss > 0:
        smaller = f", {percent(fit.gain / pca.worst_loss)} smaller"
    return (
        f"{start} ({named(audit, fit.worst)}){smaller}; that is beyond noise (95% interval of the "
        f"difference {number(fit.gain_low)} to {number(fit.gain_high)})."
    )


def _cost(audit: Any, pca: Any, fit: Any) -> str:
    """Return which groups pay on new rows, how much, and what it costs all rows."""
    rise = fit.error - pca.error
    paying = np.flatnonzero(rise > SAME * pca.error)
    price = fit.total_error / pca.total_error - 1 if pca.total_error > 0 else 0.0
    moves = f"{'rises' if price > 0 else 'falls'} by {percent(abs(price))}"
    all_rows = f"the error over all rows {'stays' if abs(price) < _NO_PRICE else moves}."
    gain = _counted(int(np.sum(rise < -SAME * pca.error)), "gain")
    among = f"Of {np.isfinite(rise).sum()} groups {gain} and {_counted(len(paying), 'pay')}"
    if not len(paying):
        return f"{among} noticeably; {all_rows}"
    most = int(paying[np.argmax(rise[paying])])
    before, after = float(pca.error[most]), float(fit.error[most])
    # Of no error there is no share.
    share = f" ({percent(after / before - 1)})" if before > 0 else ""
    return (
        f"{among}{', most of all' if len(paying) > 1 else ':'} {named(audit, most)}, whose error "
        f"rises from {number(before)} to {number(after)}{share}; {all_rows}"
    )


def _counted(count: int, verb: str) -> str:
    """Return 'none pays', '1 pays', '2 pay'."""
    return f"{count or 'none'} {verb}{'s' if count < 2 else ''}"


def advice(audit: Any) -> dict[str, str]:
    """Return what to fit by new rows: the reducer, the Python call and the command, if any."""
    name, r = audit.new_rows.advised.reducer, audit.n_components
    weighted = bool(told(audit, "parameters", "weighted"))
    fit = f"fit(X, sensitive_features=groups{', sample_weight=weights' if weighted else ''})"
    if name == BALANCED:
        call = f"fairpca.methods.BalancedPCA(n_components={r}).{fit}"
        return {"reducer": name, "python": call, "command": ""}
    if name not in _SHRINKAGE:
        return {"reducer": name, "python": f"the reducer “{isolated(name)}”", "command": ""}
    python, option = _SHRINKAGE[name]
    marginal = audit.group_by == "marginal"
    partly = told(audit, "parameters", "unlabelled") == "ignore"
    groups = ', group_by="marginal"' * marginal + ', unlabelled="ignore"' * partly
    call = f"FairPCA(n_components={r}{python}{groups}).{fit}"
    if name == "PCA":
        call = f"sklearn.decomposition.PCA(n_components={r}).fit(X)"
        if partly:
            # What all groups share is not what all rows do.
            return {"reducer": name, "python": call, "command": ""}
        if weighted:
            # scikit-learn's takes no weights.
            call = f"FairPCA(n_components={r}, shrinkage=1{groups}).{fit}"
    # Arguments from a file are quoted one by one: none can end this command and start another.
    arguments = told(audit, "source", "arguments")
    if not isinstance(arguments, list):
        names = [name if name != UNNAMED else "COLUMN" for name in audit.group_columns]
        columns = [part for name in names for part in ("-g", name)]
        by = ["--group-by", "marginal"] * marginal + ["--unlabelled", "ignore"] * partly
        # The rows of an audit in Python are measured as they are; a fit of a file standardises.
        arguments = ["TABLE", *columns, *by, "--no-standardize"]
    command = shlex.join(["fairpca", "fit", *map(str, arguments), "-r", str(r)])
    return {"reducer": name, "python": call, "command": f"{command}{option} -o model.skops"}


def row_sentences(audit: Any, n_components: int | None = None) -> list[str]:
    """Return what is known of the rows in hand.

    The problem (whom PCA serves worst), the remedy (what FairPCA changes) and the price (what it
    costs all rows); one sentence where PCA costs no group anything.
    """
    r = audit.n_components if n_components is None else n_components
    pca, fair = audit.at("PCA", r), audit.at("FairPCA", r)
    if pca.worst_loss <= pca.certificate.resolution:
        return [
            f"On the rows in hand, with {components(r)}, PCA costs no group anything: each keeps "
            "as much of its variance as its own PCA would."
        ]
    price = f"by {percent(fair.price)}" if fair.price >= _NO_PRICE else "by less than 0.01%"
    # About their own means every group can gain where all rows together lose.
    rows = "all rows" if audit.center == "global" else "all rows, about their common mean,"
    price = f"The price: the error over {rows} rises {price}, and {_payers(audit, pca, fair)}."
    return [_problem(audit, pca), _remedy(audit, pca, fair), price]


def _payers(audit: Any, pca: Any, fair: Any) -> str:
    """Return how many groups lose more in hand under FairPCA than under PCA, and which by most."""
    losers = worse(pca.loss, fair.loss)
    count = int(np.sum(losers))
    if not count:
        return "no group loses more than under PCA"
    most = int(np.argmax(np.where(losers, fair.loss - pca.loss, -np.inf)))
    return (
        f"{count} of {len(audit.groups)} groups {'lose' if count > 1 else 'loses'} more than "
        f"under PCA{', most of all' if count > 1 else ':'} {named(audit, most)} "
        f"({number(float(pca.loss[most]))} → {number(float(fair.loss[most]))})"
    )


def _problem(audit: Any, pca: Any) -> str:
    """Return the sentence about the group that PCA serves worst, set against the best-served."""
    worst, best = named(audit, pca.worst), named(audit, pca.best)
    asked = f"On the rows in hand, with {components(pca.n_components)}, PCA"
    loss = f"{number(pca.worst_loss)} per row against a PCA of its own"
    share = of_variance(audit, pca.worst, pca.worst_loss)
    serves = (
        f"{asked} serves {worst} worst ({rows_of(audit, pca.worst)}): it loses {loss}"
        f"{f' ({share})' if share else ''}"
    )
    if pca.best_loss <= pca.certificate.resolution:
        return f"{serves}, while {best} loses nothing."
    times = pca.worst_loss / pca.best_loss
    # Closer than that, two decimals would say 1.00 times.
    if times < 1.005:
        return f"{asked} costs every group the same, {loss}."
    factor = f"{times:.2f}" if times < 2 else f"{times:.1f}" if times < 100 else f"{times:,.0f}"
    return f"{serves}, {factor} times what {best} loses ({number(pca.best_loss)})."


def _remedy(audit: Any, pca: Any, fair: Any) -> str:
    """Return the sentence about the worst loss under FairPCA: whose it is, how sure the cut."""
    if fair.cut < _NO_CUT:
        return (
            "No projection with as many components makes the worst loss noticeably smaller "
            f"(none goes below {number(fair.certificate.lower_bound)})."
        )
    interval = ""
    if fair.cut_interval is not None:
        # No interval of the number before it, which is the largest cut and can lie above its end.
        low, high = map(_moved, fair.cut_interval)
        interval = (
            f" in these rows (the same projections on rows drawn again: from {low} to {high}, "
            f"{interval_level(audit)} interval)"
        )
    tied = worst_places(fair.loss)
    who = named_all(audit, tied) if len(tied) < len(audit.groups) else "every group alike"
    before, after = percent(pca.gap), percent(fair.gap)
    moves = f"stays at {before}" if before == after else f"goes from {before} to {after}"
    return (
        f"FairPCA with as many components brings the worst loss down to "
        f"{number(fair.worst_loss)} ({who}), {percent(fair.cut)} smaller{interval}; the gap "
        f"between the worst- and the best-served group {moves} of the worst loss."
    )


def _moved(cut: float) -> str:
    """Return by how much a loss is smaller, or larger where the cut is below zero."""
    if cut == 0:
        return "no change"
    return f"{percent(abs(cut))} {'smaller' if cut > 0 else 'larger'}"


def proof(finding: Any) -> str:
    """Return the certificate of a finding in one sentence."""
    bound = finding.certificate.lower_bound
    # A bound that is rounding would look larger than a loss of zero.
    bound = bound if bound > finding.certificate.resolution else 0.0
    start = (
        f"No projection with {components(finding.n_components)}, by any method, has a worst loss "
        f"below {number(bound)}; {finding.reducer} attains {number(finding.worst_loss)}"
    )
    if finding.certificate.optimal:
        return f"{start}, so it cannot be improved."
    return f"{start}, of which at most {percent(finding.certificate.gap)} could be gained."


def reader_warnings(
    groups: Sequence[Any],
    fair: Any,
    table: Any,
    intervals: Any,
    min_group_size: int,
    unknown: str | None,
) -> Iterator[str]:
    """Yield what a reader should know before trusting a number, one sentence or two at a time.

    `fair` is FairPCA as a candidate, with the number of components asked about; `unknown` says why
    nothing is known of new rows, if that is so.
    """
    if unknown is not None:
        yield f"{_ONLY_IN_HAND} {unknown}"
    asked = components(fair.n_components)
    small = [f"{quoted(g)} ({g.count})" for g in groups if g.small]
    if small:
        yield (
            f"Fewer than {min_group_size} rows: {listed(small)}. A few rows more or less can "
            "change these groups' numbers a lot."
        )
    flat = [quoted(g) for g in groups if g.variance == 0]
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
            f"{listed([quoted(g) for g in within])}. There the loss is the whole error."
        )
    cells = zip(table.moments.labels, table.moments.count, strict=True)
    unlabelled = sum(count for label, count in cells if label is None)
    if unlabelled:
        counts = "they count in PCA, in the mean and in the error over all rows, and in no group"
        yield f"{unlabelled} row(s) have no label: {counts}."
    if not fair.certificate.optimal:
        gained = percent(fair.certificate.gap)
        most = gained if gained.startswith("under") else f"at most {gained}"
        yield f"The proof is open: of FairPCA's worst loss {most} could still be gained."
    if table.X is None:
        yield "Intervals need rows, and only moments were given."
    elif not intervals.everywhere:
        yield f"The table is large: intervals were computed for {asked} only."
    if not intervals.refitted:
        yield (
            "The table is wide: each group's own PCA was held fixed under resampling, so the "
            "interval of a loss near zero is too narrow."
        )
