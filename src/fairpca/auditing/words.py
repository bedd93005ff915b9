"""An audit in words: how numbers and labels are written, the verdict, and what to be wary of.

No sentence calls a result fair. Each says which number, for which group, on which rows, changed by
how much. The terminal, the page and the notebook all take their sentences from here, so that they
cannot disagree.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from fairpca import _check
from fairpca._arrays import FloatArray
from fairpca.moments.groups import UNNAMED, Label

if TYPE_CHECKING:
    from fairpca.auditing.findings import Audit, Finding, GroupRow, ModelAudit

#: What an audit calls ``FairPCA(shrinkage="auto", max_harm=0.02)``, and the harm it allows.
CAREFUL, MAX_HARM = "careful FairPCA", 0.02
#: What the numbers of a group are about, by the value of `center`.
MEANS = {
    "global": "the mean of all rows, which a projection subtracts from everybody",
    "group": "the group's own mean",
}
# What each of an audit's own fits is in Python and in the terminal.
_FITS = {
    "PCA": ("sklearn.decomposition.PCA(n_components={r}).fit(X)", "--shrinkage 1"),
    "balanced PCA": ("fairpca.methods.BalancedPCA(n_components={r}).{fit}", None),
    "FairPCA": ("fairpca.FairPCA(n_components={r}{more}).{fit}", ""),
    CAREFUL: (
        'fairpca.FairPCA(n_components={r}, shrinkage="auto", max_harm=0.02{more}).{fit}',
        "--shrinkage auto --max-harm 0.02",
    ),
}
# A gain below this share of the group's variance is small; one below this share of the largest
# loss is not noticed, however certain it is.
_SMALL, _NOTICED = 0.01, 0.05
# Changes of the error over all rows below this share round to "0.0%".
_NO_PRICE = 5e-4
#: Groups with fewer rows are named: a few rows more or less change their numbers a lot.
FEW_ROWS = 30
# From here on numbers have an exponent.
_LARGE = 1e12
# Multiples outside of this range are not said: they rest on a loss of next to nothing.
_MULTIPLES = (1.5, 100.0)
# The first names of a list and how many more there are; labels have their quotes already.
listed = partial(_check.listed, show=str)


def label_texts(labels: Sequence[Label], names: Sequence[str], group_by: str) -> list[str]:
    """Return the labels as they are shown; distinct labels get distinct texts.

    Labels are tuples where the columns called `names` are crossed; with several of them and
    ``group_by="marginal"`` they are pairs (column, level).

    Examples
    --------
    >>> from fairpca.auditing.words import label_texts
    >>> label_texts([("f", 1), ("m", 2)], ["sex", "site"], "intersection")
    ['f · 1', 'm · 2']
    >>> label_texts([1, "1"], ["site"], "intersection")
    ['1', "'1'"]
    """
    between = ": " if group_by == "marginal" and len(names) > 1 else " · "
    parts = (label if isinstance(label, tuple) else (label,) for label in labels)
    joined = (between.join(map(str, part)) for part in parts)
    texts = [text if text.strip() else "(empty)" for text in joined]
    # 1 and "1" read alike: show which is which.
    return texts if len(set(texts)) == len(texts) else [repr(label) for label in labels]


def number(value: float) -> str:
    """Return three significant digits, without an exponent where that stays readable.

    Examples
    --------
    >>> from fairpca.auditing.words import number
    >>> number(0.26266), number(12345), number(1634567), number(1e-7)
    ('0.263', '12,345', '1,630,000', '1.0e-7')
    """
    if value == 0 or not math.isfinite(value):
        return "0" if value == 0 else "–"
    size = abs(value)
    # Outside this range a number is mostly zeros, or digits nobody compares.
    if not 1e-4 <= size < _LARGE:
        mantissa, exponent = f"{value:.1e}".split("e")
        return f"{mantissa}e{int(exponent)}"
    if size >= 1e6:
        return f"{float(f'{value:.3g}'):,.0f}"
    return f"{value:,.{max(0, 2 - math.floor(math.log10(size)))}f}"


def percent(share: float) -> str:
    """Return a share as a percentage with the digits that matter.

    Examples
    --------
    >>> from fairpca.auditing.words import percent
    >>> percent(0.0046), percent(-0.412), percent(0.9991)
    ('0.46%', '-41%', '99.9%')
    """
    size = abs(share)
    if size < 1e-9 or not math.isfinite(share):
        return "0%" if size < 1e-9 else "–"
    if size < 1e-4:
        return "under 0.01%"
    # 99.9% is not 100%: what is left matters as much as what is there.
    fine = size < 0.1 or 0.99 <= size < 1
    return f"{100 * share:.{(1 if size >= 0.01 else 2) if fine else 0}f}%"


def percent_within(share: float, high: float) -> str:
    """Return a share as a percentage and how far its interval reaches to either side.

    Examples
    --------
    >>> from fairpca.auditing.words import percent_within
    >>> percent_within(0.0512, 0.0634), percent_within(0.3, float("nan"))
    ('5.1% ±1.2', '30%')
    """
    half = 100 * (high - share)
    if not (math.isfinite(share) and math.isfinite(half)):
        return percent(share)
    decimals = 2 if half < 0.1 else 1 if half < 10 else 0
    # Adding zero takes the sign off a zero.
    return f"{round(100 * share, decimals) + 0.0:.{decimals}f}% ±{half:.{decimals}f}"


def capital(name: str) -> str:
    """Return a name as a sentence begins with it."""
    return name[:1].upper() + name[1:]


def components(n_components: int) -> str:
    """Return '1 component', '2 components'."""
    return f"{n_components} component{'' if n_components == 1 else 's'}"


def group_title(audit: Audit | ModelAudit) -> str:
    """Return what the groups are groups of: the names of the label columns."""
    # The name that a column of labels without one gets would mean nothing to a reader.
    unnamed = audit.group_columns == (UNNAMED,)
    return "group" if unnamed else " · ".join(audit.group_columns)


def quoted(group: GroupRow) -> str:
    """Return the label of a group between quotation marks, so that a code is no number."""
    return f"“{group.text}”"


def named(audit: Audit | ModelAudit, position: int) -> str:
    """Return a group as it is called in a sentence."""
    group, column = audit.groups[position], audit.group_columns[0]
    # "sex “female”" reads well; "site “site 4”" and a pair of columns do not.
    if column == UNNAMED or len(audit.group_columns) > 1 or column in group.text:
        return f"group {quoted(group)}"
    return f"{column} {quoted(group)}"


def of_variance(finding: Finding, position: int) -> str:
    """Return the loss of a group as a share of its variance; of no variance the loss itself."""
    loss, variance = float(finding.loss[position]), float(finding.variance[position])
    return f"{percent(loss / variance)} of its variance" if variance > 0 else number(loss)


def order(audit: Audit) -> list[int]:
    """Return the groups by what they lose under PCA, most first; on new rows where it is known."""
    losses = audit.at("PCA", on="hand" if audit.why_not_new else "new").loss
    return [int(i) for i in np.argsort(-np.nan_to_num(losses, nan=-np.inf), kind="stable")]


def parted(audit: Audit) -> tuple[list[int], list[int]]:
    """Return the groups with rows enough and those with few, each in the order of `order`.

    Where all have few, the second list is empty.
    """
    ranked = order(audit)
    few = [i for i in ranked if audit.groups[i].count < FEW_ROWS]
    return ([i for i in ranked if i not in few], few) if len(few) < len(ranked) else (ranked, [])


def bar_limits(values: FloatArray, ends: FloatArray) -> tuple[float, float]:
    """Return the ends of an axis for bars from zero; intervals may take as much room again."""
    values, ends = np.nan_to_num(values), np.nan_to_num(ends)
    low, high = min(float(values.min()), 0.0), max(float(values.max()), 0.0)
    room = (high - low) or 1.0
    ends = np.clip(ends, low - room, high + room)
    return min(float(ends.min()), low), max(float(ends.max()), high) or 1.0


class TextTable(NamedTuple):
    """Numbers as text: a title, names of columns, a line a group, lines about all groups."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    totals: list[list[str]]


def tables(audit: Audit) -> list[TextTable]:
    """Return what every group loses as text: on new rows where it is known, then in hand, ..."""
    r, found = audit.n_components, []
    heads = [[group.text, f"{group.count:,}"] for group in audit.groups]
    titles = {
        "new": "on new rows",
        "hand": "on the rows in hand",
        "unseen": "of a group that was not there, under fits to the other groups",
    }
    for on, where in titles.items():
        if fits := audit.of(on, r):
            rows = [[*heads[i], *(_cell(f, i) for f in fits)] for i in order(audit)]
            totals = [["largest loss, raw", "", *(number(f.worst_loss) for f in fits)]]
            if on != "unseen":
                totals.append(["error of all rows", "", *(number(f.total_error) for f in fits)])
            title = f"Loss {where}, % of the group's variance, with {components(r)}"
            columns = [group_title(audit), "rows", *(f.reducer for f in fits)]
            found.append(TextTable(title, columns, rows, totals))
    return found


def _cell(finding: Finding, i: int) -> str:
    variance = float(finding.variance[i]) or 1.0
    return percent_within(float(finding.loss[i]) / variance, float(finding.high[i]) / variance)


@dataclass(frozen=True)
class Advice:
    """What to fit, and what is known of it on new rows.

    Attributes
    ----------
    kind : {"better", "as good", "cannot tell"}
        Whether another fit than PCA makes the worst loss smaller beyond noise; or none can make it
        smaller by 1 % of the group's variance; or these rows do not show either.
    reducer : str
        What to fit: PCA unless another is better.
    may_gain : str
        The fit that may gain most over PCA.
    most : float
        The most that any fit may gain: the upper end of its interval, as a share of the variance
        of the group that PCA serves worst. NaN where new rows were not checked.
    cut : float
        Share by which `reducer` makes the worst loss smaller.
    harm : float
        On new rows no group's error rises by more than this share of its variance, with the
        reducer, or with careful FairPCA where it is not known what to fit.
    python, command : str
        How to fit the reducer; "" where there is no such call.
    """

    kind: str
    reducer: str
    may_gain: str
    most: float
    cut: float
    harm: float
    python: str
    command: str


def advice(audit: Audit) -> Advice:
    """Return what to fit by new rows.

    Of the fits that are better beyond noise that is careful FairPCA, which harms nobody by much,
    and otherwise the one with the smallest worst loss.
    """
    pca, *others = audit.of("new", audit.n_components) or (None,)
    if pca is None or not others:
        return Advice("cannot tell", "PCA", "", math.nan, 0.0, math.nan, *_calls(audit, "PCA"))
    better = [f for f in others if f.beyond_noise and f.gain >= _NOTICED * pca.worst_loss]
    best = min(better or [pca], key=lambda f: (f.reducer != CAREFUL, f.worst_loss))
    most = max(others, key=lambda f: f.gain_high)
    gain = max(most.gain_high, 0.0) / (float(pca.variance[pca.worst]) or 1.0)
    kind = "better" if better else "as good" if gain < _SMALL else "cannot tell"
    cut = best.gain / pca.worst_loss if pca.worst_loss > 0 else 0.0
    careful = [f for f in others if f.reducer == CAREFUL] or [most]
    harm = harmed(careful[0] if kind == "cannot tell" else best)[1]
    return Advice(kind, best.reducer, most.reducer, gain, cut, harm, *_calls(audit, best.reducer))


def harmed(finding: Finding) -> tuple[int, float]:
    """Return the group whose error may rise most over PCA's, and by which share of its variance.

    It is the upper end of its interval; zero where no group's error may rise.
    """
    ends = finding.change_high if np.isfinite(finding.change_high).any() else finding.change
    shares = np.divide(ends, finding.variance, where=finding.variance > 0, out=np.zeros(len(ends)))
    worst = int(np.nanargmax(shares)) if np.isfinite(shares).any() else 0
    return worst, max(float(np.nan_to_num(shares[worst])), 0.0)


def _calls(audit: Audit, reducer: str) -> tuple[str, str]:
    """Return how to fit a candidate in Python and in the terminal."""
    if reducer not in _FITS:
        return f"the reducer “{reducer}”", ""
    python, options = _FITS[reducer]
    parameters, source = (audit.provenance.get(name, {}) for name in ("parameters", "source"))
    marginal = audit.group_by == "marginal"
    ignore = parameters.get("unlabelled") == "ignore"
    weights = ", sample_weight=weights" if parameters.get("weighted") else ""
    more = ', group_by="marginal"' * marginal + ', unlabelled="ignore"' * ignore
    fit = f"fit(X, sensitive_features=groups{weights})"
    arguments = source.get("arguments")
    if arguments is None:
        names = ["COLUMN" if name == UNNAMED else name for name in audit.group_columns]
        columns = [part for name in names for part in ("-g", name)]
        by = ["--group-by", "marginal"] * marginal + ["--unlabelled", "ignore"] * ignore
        arguments = ["TABLE", *columns, *by]
    command = shlex.join(["fairpca", "fit", *map(str, arguments), "-r", str(audit.n_components)])
    call = python.format(r=audit.n_components, more=more, fit=fit)
    whole = f"{command} {options} -o model.skops".replace("  ", " ")
    return call, whole if options is not None else ""


def sentences(audit: Audit) -> list[str]:
    """Return the verdict in at most three sentences: whom PCA serves worst, what to fit, who pays.

    All are about new rows; where nothing is known of these, that is what they say.
    """
    found, asked = audit.advice, f"with {components(audit.n_components)}"
    if audit.why_not_new:
        pca, fair = audit.at("PCA"), audit.at("FairPCA")
        return [
            f"Nothing is known of new rows: {audit.why_not_new}",
            f"On the rows in hand, {asked}, {_served(audit, pca)}; with FairPCA the largest loss "
            f"goes from {number(pca.worst_loss)} to {number(fair.worst_loss)} per row, and "
            f"{_pays(audit, fair, 'here')}.",
        ]
    pca = audit.at("PCA", on="new")
    served = _served(audit, pca)
    if pca.worst_loss <= 0:
        served = "no group loses anything by PCA against a PCA of its own; "
        served += f"{named(audit, pca.worst)} comes nearest"
    first = f"On new rows, {asked}, {served}."
    most = f"{percent(max(found.most, 1e-4))} of that group's variance"
    if found.kind == "as good":
        good = f"Plain PCA is as good: no fit can gain more than {most}, and with PCA nobody pays."
        return [first, good]
    if found.kind == "cannot tell":
        careful = audit.at(CAREFUL, on="new")
        return [
            first,
            f"{capital(found.may_gain)} may gain up to {most}, and these rows do not show whether "
            f"it does: collect more rows of {named(audit, pca.worst)}, or choose by hand.",
            f"With {CAREFUL}, {_pays(audit, careful, 'on new rows')}.",
        ]
    fit = audit.at(found.reducer, on="new")
    cut = f"by {percent(found.cut)}" if fit.worst_loss > 0 else "to nothing"
    price = fit.total_error / pca.total_error - 1 if pca.total_error > 0 else 0.0
    moves = f"{'rises' if price > 0 else 'falls'} by {percent(abs(price))}"
    moves = moves if abs(price) >= _NO_PRICE else "stays"
    return [
        first,
        f"{capital(found.reducer)} cuts the largest loss {cut}, beyond noise: most is then lost "
        f"by {named(audit, fit.worst)}, {of_variance(fit, fit.worst)} ({number(fit.worst_loss)}).",
        f"The error of all rows {moves}, and {_pays(audit, fit, 'on new rows')}.",
    ]


def multiple(finding: Finding) -> str:
    """Return how many times the best-served group's loss the worst-served one has.

    "" where the smaller loss may be zero, or the multiple is next to one or beyond all sense.
    """
    least, most = finding.best, finding.worst_loss
    known = finding.loss[least] > 0 and not finding.low[least] <= 0
    times = most / float(finding.loss[least]) if known else 0.0
    said = _MULTIPLES[0] <= times <= _MULTIPLES[1]
    return f"{times:.{int(times < 10)}f}" if said else ""


def _served(audit: Audit, pca: Finding) -> str:
    """Return whom PCA serves worst, by how much, and how often the best-served group's loss."""
    worst, often = pca.worst, multiple(pca)
    share, raw = of_variance(pca, worst), number(pca.worst_loss)
    best = f", {often} times the loss of {quoted(audit.groups[pca.best])}" if often else ""
    return (
        f"PCA serves {named(audit, worst)} worst ({audit.groups[worst].count:,} rows): it loses "
        f"{share} against a PCA of its own ({raw} per row{best})"
    )


def _pays(audit: Audit, fit: Finding, where: str) -> str:
    """Return the most by which the error of any group rises."""
    worst, harm = harmed(fit)
    if harm < 1e-4:
        return f"{where} no group's error rises"
    return (
        f"{where} no group's error rises by more than {percent(harm)} of its variance "
        f"(most of all that of {quoted(audit.groups[worst])})"
    )


def proof(audit: Audit, n_components: int | None = None) -> str:
    """Return in one sentence how good FairPCA is among all projections, on the rows in hand."""
    fair = audit.at("FairPCA", n_components)
    start = (
        f"On the rows in hand no projection with {components(fair.n_components)}, by any method, "
        f"has a largest loss below {number(fair.bound)}; FairPCA attains "
        f"{number(fair.worst_loss)}"
    )
    open_part = (fair.worst_loss - fair.bound) / (fair.worst_loss or 1.0)
    gained = f"of which at most {percent(open_part)} could be gained"
    return f"{start}, {gained if open_part >= 1e-8 else 'so it cannot be improved'}."


def unseen_sentence(audit: Audit) -> str:
    """Return what groups would lose that are missing in the fit; "" where that is not known."""
    fits = audit.of("unseen", audit.n_components)
    if not fits:
        return ""
    spread = [
        f"{f.reducer} {number(f.worst_loss)} (median {number(float(np.nanmedian(f.loss)))})"
        for f in fits
    ]
    worst = fits[0].worst
    return (
        f"A group that was not there: each group in turn left out of the fit loses at most, per "
        f"row, {listed(spread)}; under PCA that is {named(audit, worst)}."
    )


def reader_warnings(groups: Sequence[GroupRow], unlabelled: int) -> Iterator[str]:
    """Yield what a reader should know before trusting a number; some rows may have no label."""
    small = [f"{quoted(g)} ({g.count})" for g in groups if g.count < FEW_ROWS]
    if small:
        yield (
            f"Fewer than {FEW_ROWS} rows: {listed(small)}. A few rows more or less can change "
            "these groups' numbers a lot."
        )
    if unlabelled:
        yield (
            f"{unlabelled} row(s) have no label: they count in PCA, in the mean and in the error "
            "of all rows, and in no group."
        )


def model_sentences(audit: ModelAudit) -> str:
    """Return the result of an audit of a model in words."""
    worst, best, asked = audit.worst, audit.best, components(audit.n_components)
    return (
        f"On these rows the model, with {asked}, serves {named(audit, worst)} worst "
        f"({audit.groups[worst].count:,} rows): it keeps {percent(float(audit.share[worst]))} of "
        f"its variance and loses {number(audit.worst_loss)} per row against a PCA of these very "
        f"rows. Least loses {named(audit, best)}: {number(float(audit.loss[best]))}."
    )
