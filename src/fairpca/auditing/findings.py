"""What an audit found: frozen records, and their form as a dictionary, JSON, a frame and a page.

The file form is driven by the records themselves. Writing walks over their fields; reading looks
up, for every field, a reader by the field's annotation, and checks the value as if a stranger had
written the file. A new field of a known type therefore needs no code here; give it a default, so
that files written before it existed can still be read.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from functools import partial
from html import escape
from pathlib import Path
from typing import Any

import numpy as np

from fairpca._check import check_choice, require
from fairpca._arrays import AnyArray, FloatArray
from fairpca.auditing import verdict as words
from fairpca.covariances.sources import Span
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.groups import Label
from fairpca.moments.storage import damage_named
from fairpca.solvers.solution import Certificate

#: Version of the dictionary that `Audit.to_dict` writes. Raise it when a reader of today would
#: misunderstand what a later version writes; files of another version are refused.
FORMAT = 1
# Tells a file of ours from any other JSON.
_KIND = "fairpca audit"
_MODEL_KIND = "fairpca model audit"

#: The measures every group has: the attributes of a `Finding` that have one number for each.
MEASURES = ("loss", "error", "share")

# Fields of an audit that stay in memory: they are large, and moments say more about people than a
# report should.
_NOT_WRITTEN = ("moments", "bases", "span")
# Groups in the table of a notebook; more push the warnings below it off the screen.
_NOTEBOOK_ROWS = 30
# One number for every group, NaN for a group with too few rows to check. The name is looked up by
# the reader of files, which turns what is missing there into NaN again.
CheckedArray = FloatArray
# Bytes hashed at a time (4 MiB): a transposed or strided array is copied block by block only, and
# never takes its size in memory once more.
_HASH_BLOCK = 1 << 22


@dataclass(frozen=True)
class GroupRow:
    """One group of the audited rows.

    Attributes
    ----------
    label, text : hashable and str
        The label as given, a tuple where several columns are crossed, and as it is shown.
    count, weight : int and float
        Rows, and the sum of their weights.
    variance : float
        Total variance, about `Audit.center`.
    small : bool
        Whether the group has too few rows for its numbers to be steady.
    """

    label: Label
    text: str
    count: int
    weight: float
    variance: float
    small: bool

    @classmethod
    def rows(
        cls, groups: Any, variance: FloatArray, group_by: str, min_group_size: int
    ) -> tuple[GroupRow, ...]:
        """Return one for every group of moments or of covariances."""
        texts = words.label_texts(groups.labels, groups.names, group_by)
        numbers = (groups.count, groups.weight, variance, groups.count < min_group_size)
        columns = (groups.labels, texts, *(column.tolist() for column in numbers))
        return tuple(cls(*row) for row in zip(*columns, strict=True))


class _Losses:
    """A record whose `loss` has one number for every group, NaN for one that is not known."""

    loss: FloatArray

    @property
    def worst(self) -> int:
        """Position of the group that loses most."""
        return int(np.nanargmax(self.loss))

    @property
    def best(self) -> int:
        """Position of the group that loses least."""
        return int(np.nanargmin(self.loss))

    @property
    def gap(self) -> float:
        """``(worst loss - best loss) / worst loss``, where a loss below zero is none."""
        worst, best = (max(float(self.loss[i]), 0.0) for i in (self.worst, self.best))
        return (worst - best) / worst if worst > 0 else 0.0


@dataclass(frozen=True)
class Finding(_Losses):
    """One reducer with one number of components: what every group gets.

    Attributes
    ----------
    reducer : str
    n_components : int
    loss, error, share : ndarray of shape (k,)
        Loss against the group's own PCA, mean squared reconstruction error, share of the group's
        variance kept, all about `Audit.center`.
    total_error : float
        Mean squared error of all rows about the common mean, the number PCA makes smallest.
    price : float
        `total_error` over PCA's with as many components, minus one.
    cut : float
        By how much the worst loss is smaller than PCA's, as a share of PCA's.
    certificate : Certificate
        The worst loss, and the bound no projection with as many components goes below.
    intervals : dict of str to ndarray of shape (k, 2)
        Bootstrap intervals by measure; empty where none were computed.
    cut_interval : tuple of float or None
        Bootstrap interval of `cut`; None where none was computed.
    """

    reducer: str
    n_components: int
    loss: FloatArray
    error: FloatArray
    share: FloatArray
    total_error: float
    price: float
    cut: float
    certificate: Certificate
    intervals: dict[str, FloatArray] = field(default_factory=dict, repr=False)
    cut_interval: tuple[float, float] | None = None

    @property
    def worst_loss(self) -> float:
        """The largest loss."""
        return float(self.loss.max())

    @property
    def best_loss(self) -> float:
        """The smallest loss."""
        return float(self.loss.min())

    @property
    def gap(self) -> float:
        """``(worst loss - best loss) / worst loss``; zero where every loss is rounding."""
        return super().gap if self.worst_loss > self.certificate.resolution else 0.0

    def measure(self, name: str) -> FloatArray:
        """Return the values of one of `MEASURES`, one for every group."""
        check_choice("measure", name, MEASURES)
        values: FloatArray = getattr(self, name)
        return values


@dataclass(frozen=True)
class NewFinding(_Losses):
    """One reducer on rows that were left out of its fit, with the components asked about.

    Attributes
    ----------
    reducer : str
    loss, low, high : ndarray of shape (k,)
        Loss against the group's own PCA, fitted to the same rows (shrunk or not, as `cross_fit`
        says), and the ends of its 95 % interval. A loss below zero means that the
        shared projection serves the group better than its own. NaN where a group has too few rows.
    error : ndarray of shape (k,)
        Mean squared error, about the mean that the projection subtracts.
    total_error : float
        The same over all rows, those without a label included.
    worst_loss, worst_low, worst_high : float
        The largest loss of any group, and the ends of its interval.
    gain, gain_low, gain_high : float
        By how much the worst loss is smaller than PCA's, and the ends of its interval.
    """

    reducer: str
    loss: CheckedArray
    low: CheckedArray
    high: CheckedArray
    error: CheckedArray
    total_error: float
    worst_loss: float
    worst_low: float
    worst_high: float
    gain: float = 0.0
    gain_low: float = 0.0
    gain_high: float = 0.0

    @property
    def beyond_noise(self) -> bool:
        """Whether the worst loss is smaller than PCA's by more than chance explains."""
        return self.gain_low > 0


@dataclass(frozen=True)
class NewRows:
    """What every group gets on rows that were left out of the fit, by cross-fitting.

    Attributes
    ----------
    n_folds : int
        Folds the rows were dealt into; each was left out once.
    findings : tuple of NewFinding
        PCA first, then every other reducer that could be fitted again.
    n_repeats : int
        How often rows were dealt into folds; the numbers are means over all dealings.
    """

    n_folds: int
    findings: tuple[NewFinding, ...]
    n_repeats: int = 1

    def at(self, reducer: str) -> NewFinding:
        """Return what one reducer does; KeyError where it was not fitted again."""
        found = {finding.reducer: finding for finding in self.findings}
        if reducer not in found:
            raise KeyError(f"no check on new rows for {reducer!r}; there are {list(found)}.")
        return found[reducer]

    @property
    def unchecked(self) -> tuple[int, ...]:
        """Positions of the groups with too few rows to check."""
        return tuple(np.flatnonzero(np.isnan(self.findings[0].loss)).tolist())

    @property
    def advised(self) -> NewFinding:
        """What to fit: of all that gain over PCA beyond noise the smallest worst loss, or PCA."""
        better = [finding for finding in self.findings if finding.beyond_noise]
        return min(better or self.findings[:1], key=lambda finding: finding.worst_loss)


@dataclass(frozen=True)
class LeftOut:
    """What a group, by its position, loses under a reducer fitted with it and without it."""

    group: int
    reducer: str
    loss_with: float
    loss_without: float


@dataclass(frozen=True, repr=False, eq=False)
class Audit:
    """Whom a projection serves: every reducer, every number of components, every group.

    Attributes
    ----------
    n_components : int
        The number of components asked about.
    ranks : tuple of int
        All numbers of components looked at.
    reducers : tuple of str
        "PCA", "FairPCA", "shrunk FairPCA" (that is ``FairPCA(shrinkage="auto")``), then those
        given.
    groups : tuple of GroupRow
    group_columns : tuple of str
        Names of the label columns.
    group_by : str
        "intersection" or "marginal".
    findings : tuple of Finding
        One for every reducer and number of components, on the rows in hand; `at` looks one up.
    center : {"global", "group"}
        What every number of a group is about: the mean of all rows, which a projection subtracts
        from everybody, or the group's own mean.
    new_rows : NewRows or None
        The same for rows that were left out of the fit. None where it is not known; a warning
        then says why.
    left_out : tuple of LeftOut
        Empty where it was not computed.
    scores : dict
        Empty without `y`. Otherwise "score" names the score ("accuracy" or "R squared"),
        "baseline" is that of a model that does not look at the rows (it predicts the most frequent
        class, or the mean) and "reducers" maps each name to the held-out score of a linear model
        on the projected rows. Both are ``{"all": float, "groups": list}``; a group without enough
        held-out rows has None.
    warnings : tuple of str
        What a reader should know before trusting a number.
    provenance : dict
        Versions, a hash of the data, parameters.
    moments : GroupMoments or None
        What the numbers were computed from; not written to files.
    bases : dict
        Orthonormal columns by (reducer, number of components); not written to files.
    span : Span or None
        Where rows are far fewer than columns, moments and bases are in coordinates of what the
        rows span, from its `origin` along its `directions`; not written to files.

    See Also
    --------
    fairpca.audit : Makes one.

    Examples
    --------
    >>> import numpy as np
    >>> import fairpca
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(size=(90, 3)) * [3, 1, 1], rng.normal(size=(40, 3)) * [1, 3, 1]])
    >>> found = fairpca.audit(X, ["many"] * 90 + ["few"] * 40, n_components=1)
    >>> found.groups[found.at("PCA").worst].text
    'few'
    >>> fairpca.Audit.from_json(found.to_json()).verdict() == found.verdict()
    True
    """

    n_components: int
    ranks: tuple[int, ...]
    reducers: tuple[str, ...]
    groups: tuple[GroupRow, ...]
    group_columns: tuple[str, ...]
    group_by: str
    findings: tuple[Finding, ...]
    # Files that do not name it were written when there was only this one.
    center: str = "group"
    new_rows: NewRows | None = None
    left_out: tuple[LeftOut, ...] = ()
    scores: dict[str, Any] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    provenance: dict[str, Any] = field(default_factory=dict)
    moments: GroupMoments | None = field(default=None, compare=False)
    bases: dict[tuple[str, int], FloatArray] = field(default_factory=dict, compare=False)
    span: Span | None = field(default=None, compare=False)

    def at(self, reducer: str, n_components: int | None = None) -> Finding:
        """Return what one reducer does to the rows in hand; KeyError names the findings there are.

        Parameters
        ----------
        reducer : str
            One of `reducers`.
        n_components : int, optional
            Default: the number of components asked about.
        """
        r = self.n_components if n_components is None else n_components
        for finding in self.findings:
            if (finding.reducer, finding.n_components) == (reducer, r):
                return finding
        ranks = sorted({f.n_components for f in self.findings if f.reducer == reducer})
        known = f"it has {ranks}" if ranks else f"the reducers are {list(self.reducers)}"
        raise KeyError(f"no finding for {reducer!r} with {r} components; {known}.")

    def has(self, reducer: str, n_components: int | None = None) -> bool:
        """Return whether `at` has an answer; arguments as there."""
        r = self.n_components if n_components is None else n_components
        return any((f.reducer, f.n_components) == (reducer, r) for f in self.findings)

    def verdict(self, n_components: int | None = None) -> str:
        """Return the result in a few sentences with numbers: new rows first, then those in hand.

        Parameters
        ----------
        n_components : int, optional
            One of `ranks`. Default: the number of components asked about; new rows were checked
            for no other.
        """
        return " ".join(words.sentences(self, n_components))

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, numbers and strings; `from_dict` reads them back.

        Beside the fields it holds what other programs would have to compute: the verdict, the
        gaps, what to fit, and of every finding the worst- and the best-served group.
        """
        texts = [group.text for group in self.groups]
        names = [f.name for f in fields(self) if f.name not in _NOT_WRITTEN]
        data: dict[str, Any] = {name: plain(getattr(self, name)) for name in names}
        data |= {"kind": _KIND, "format": FORMAT, "verdict": self.verdict(), "gap": {}}
        for row, finding in zip(data["findings"], self.findings, strict=True):
            row |= {name: getattr(finding, name) for name in ("worst_loss", "best_loss", "gap")}
            row |= {"worst_group": texts[finding.worst], "best_group": texts[finding.best]}
            row["certificate"]["optimal"] = finding.certificate.optimal
            if finding.n_components == self.n_components:
                data["gap"][finding.reducer] = finding.gap
        if self.new_rows is not None:
            for row, new in zip(data["new_rows"]["findings"], self.new_rows.findings, strict=True):
                row |= {"gap": new.gap, "beyond_noise": new.beyond_noise}
                row |= {"worst_group": texts[new.worst], "best_group": texts[new.best]}
            unchecked = [texts[i] for i in self.new_rows.unchecked]
            data["new_rows"] |= {"unchecked": unchecked, "advice": words.advice(self)}
        # Readers of the file want the group's name; `from_dict` needs its position.
        for row in data["left_out"]:
            row |= {"index": row["group"], "group": texts[row["group"]]}
        return data

    @classmethod
    def from_dict(cls, data: Any) -> Audit:
        """Read what `to_dict` returned.

        The data may come from anywhere: every field is checked, and ValueError says what is wrong.
        """
        # The kind first: of any other file nothing else can be expected to be there.
        kind = data.get("kind") if isinstance(data, dict) else None
        if kind == _MODEL_KIND:
            raise ValueError(
                "this is the audit of a model on other rows, of which there is no page; write an "
                "audit of a table, without --model."
            )
        if kind != _KIND:
            raise ValueError(
                "this is not an audit: write one with `Audit.to_json` or `fairpca audit --json`."
            )
        if data.get("format") != FORMAT:
            raise ValueError(
                f"the audit has format {data.get('format')!r} and this version reads {FORMAT}; "
                "use the version of fairpca that wrote it, or write it again."
            )
        with damage_named("the audit is damaged", "write it again."):
            audit: Audit = _record(cls, data, len(data["groups"]))
            _check_complete(audit)
        return audit

    def to_json(self, *, indent: int | None = None) -> str:
        """Return `to_dict` as JSON text, on one line unless `indent` names spaces a level."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> Audit:
        """Read what `to_json` returned; raises ValueError naming what is wrong with the text."""
        remedy = "write an audit with `Audit.to_json` or `fairpca audit --json`."
        with damage_named("this is not JSON", remedy):
            data = json.loads(text)
        return cls.from_dict(data)

    def to_frame(self) -> Any:
        """Return a pandas frame, one row per reducer, number of components and group.

        The column "rows" tells new rows, which come first, from those in hand.
        """
        pandas = require("pandas", extra="app", purpose="Audit.to_frame")
        every = {"center": self.center} | _group_columns(self.groups)
        place = np.arange(len(self.groups))
        parts = []
        for new in self.new_rows.findings if self.new_rows else ():
            head = {"rows": "new", "reducer": new.reducer, "n_components": self.n_components}
            ends = {"loss": new.loss, "loss_low": new.low, "loss_high": new.high}
            columns = head | every | ends | {"error": new.error, "worst": place == new.worst}
            parts.append(pandas.DataFrame(columns))
        for finding in self.findings:
            head = {"rows": "in hand", "reducer": finding.reducer}
            columns = head | {"n_components": finding.n_components} | every
            for name in MEASURES:
                columns[name] = finding.measure(name)
                if name in finding.intervals:
                    columns[f"{name}_low"], columns[f"{name}_high"] = finding.intervals[name].T
            columns["worst"] = place == finding.worst
            score = self.scores.get("reducers", {}).get(finding.reducer)
            # Scores exist only for the number of components asked about.
            if score is not None and finding.n_components == self.n_components:
                baseline = self.scores.get("baseline") or {"groups": None}
                columns[self.scores["score"]] = np.array(score["groups"], dtype=float)
                columns["baseline"] = np.array(baseline["groups"], dtype=float)
            parts.append(pandas.DataFrame(columns))
        return pandas.concat(parts, ignore_index=True)

    def to_html(self, path: str | Path | None = None, *, title: str | None = None) -> str:
        """Return the whole audit as one HTML page that needs no network, under a title.

        With a path the page is written there, too.
        """
        # The page imports this module; going through the package's lazy names keeps it that way.
        import fairpca

        if path is not None:
            return fairpca.report.write_page(self, path, title=title)
        return fairpca.report.render_page(self, title=title)

    def plot(self, **options: Any) -> Any:
        """Draw what every group gets, by `fairpca.plots.GroupLossDisplay.from_audit`.

        Parameters
        ----------
        **options
            `n_components`, `measure`, `reducers`, `max_groups` and `ax` of that function.
        """
        # As in `to_html`: the pictures import this module.
        import fairpca

        return fairpca.plots.GroupLossDisplay.from_audit(self, **options)

    def __repr__(self) -> str:
        """Return the size of the audit and its verdict, in a few lines."""
        return (
            f"Audit of {words.listed(self.reducers)} for {len(self.groups)} groups by "
            f"{words.group_title(self)}, with {words.components(self.n_components)} (looked at: "
            f"{words.listed([str(r) for r in self.ranks])})\n{self.verdict()}\n"
            "See to_frame(), to_json(), to_html() and plot()."
        )

    def _repr_html_(self) -> str:
        """Return the verdict, a table of the groups and the warnings, for notebooks."""
        more = len(self.groups) - _NOTEBOOK_ROWS
        notes = [f"{more} more groups: see to_frame()."] if more > 0 else []
        tables = [
            words.html_table(columns, [*rows[:_NOTEBOOK_ROWS], *totals], caption)
            for caption, columns, rows, totals in words.tables(self)
        ]
        paragraphs = [
            f"<p>{escape(text)}</p>"
            for text in (self.verdict(), *notes, words.about(self), *self.warnings)
        ]
        return "".join([paragraphs[0], *tables, *paragraphs[1:]])


@dataclass(frozen=True)
class ModelAudit(_Losses):
    """What a fitted model does to the groups of a table.

    Attributes
    ----------
    n_components, names, groups
        As in `Audit`; the names are those of the label columns.
    error : ndarray of shape (k,)
        Mean squared distance between a group's rows and what the model rebuilds of them.
    loss : ndarray of shape (k,)
        The error, minus that of a PCA of these very rows of the group. Their own PCA knows them
        and the model does not, so the loss is never negative, and of few rows it is large.
    total_error : float
        The error over all rows, unlabelled ones included.
    trained_count, trained_error, trained_loss : ndarray of shape (k,)
        The same on the rows the model was fitted to; NaN where it does not remember the group, or
        remembers losses about another mean.
    """

    n_components: int
    names: tuple[str, ...]
    groups: tuple[GroupRow, ...]
    error: FloatArray
    loss: FloatArray
    total_error: float
    trained_count: FloatArray
    trained_error: FloatArray
    trained_loss: FloatArray

    @property
    def group_columns(self) -> tuple[str, ...]:
        """The label columns, as `Audit` calls them."""
        return self.names

    def verdict(self) -> str:
        """Return the result in two sentences."""
        worst, best = self.worst, self.best
        start = f"On these rows the model, with {words.components(self.n_components)}, "
        if self.gap < 1e-3:
            return f"{start}costs every group the same, {words.number(self.loss[worst])} per row."
        return (
            f"{start}serves {words.named(self, worst)} worst: it loses "
            f"{words.number(self.loss[worst])} per row against a PCA of its own, fitted to these "
            f"very rows, which makes losses too large; {words.named(self, best)} loses "
            f"{words.number(self.loss[best])}. The gap is {words.percent(self.gap)} of the worst "
            "loss."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, numbers and strings; None where something is not known."""
        names = ("n_components", "names", "gap", "total_error")
        found: dict[str, Any] = {"kind": _MODEL_KIND, "verdict": self.verdict()}
        found |= {name: plain(getattr(self, name)) for name in names}
        return found | {"groups": plain(self.to_frame().to_dict("records"))}

    def to_frame(self) -> Any:
        """Return a pandas frame with one line a group."""
        pandas = require("pandas", extra="app", purpose="ModelAudit.to_frame")
        names = ("error", "loss", "trained_count", "trained_error", "trained_loss")
        columns = {name: getattr(self, name) for name in names}
        return pandas.DataFrame(_group_columns(self.groups) | columns)


def _group_columns(groups: Sequence[GroupRow]) -> dict[str, Any]:
    """Return the columns about the groups that the frame of every audit has."""
    names = {"group": "text", "count": "count", "variance": "variance"}
    return {title: [getattr(g, name) for g in groups] for title, name in names.items()}


def plain(value: Any) -> Any:
    """Return records, arrays, tuples and labels as dictionaries, lists, numbers and text.

    A number that is not finite becomes None, since JSON has no word for it; a label of any other
    type (a date, an interval) becomes its text.
    """
    if is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, dict):
        return {str(name): plain(entry) for name, entry in value.items()}
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(entry) for entry in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _record(cls: Any, row: Any, k: int) -> Any:
    """Return one record; a field with a default may be absent, and is then not known."""
    row = _typed(dict, row)
    found = {}
    for f in fields(cls):
        optional = f.default is not MISSING or f.default_factory is not MISSING
        if f.name not in _NOT_WRITTEN and not (optional and row.get(f.name) is None):
            found[f.name] = _read(str(f.type), row[f.name], k)
    return cls(**found)


def _read(kind: str, value: Any, k: int) -> Any:
    """Return a value of a file as the annotation of its field asks for it."""
    if kind.startswith("tuple[") and kind.endswith(", ...]"):
        inner = kind.removeprefix("tuple[").removesuffix(", ...]")
        return tuple(_read(inner, entry, k) for entry in _typed(list, value))
    return _READERS[kind.removesuffix(" | None")](value, k)


def _typed(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise ValueError(f"expected a {kind.__name__}, found {type(value).__name__}")
    return value


def _numbers(values: Any, shape: tuple[int, ...]) -> FloatArray:
    array = np.asarray(values, dtype=float)
    if array.shape != shape or not np.all(np.isfinite(array)):
        raise ValueError(f"expected finite numbers of shape {shape}, found shape {array.shape}")
    return array


def _checked(values: Any, k: int) -> FloatArray:
    """Return one number for every group, NaN where the file has none; one must be known."""
    known = [value is not None for value in _typed(list, values)]
    found = _numbers([value or 0.0 for value in values], (k,))
    if not any(known):
        raise ValueError("new_rows has no group that could be checked")
    return np.where(known, found, np.nan)


def _label(value: Any) -> Label:
    if isinstance(value, list):
        return tuple(_label(part) for part in value)
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError(f"{value!r} is no group label")


# How a value is read, by its type: from what is in the file and the number of groups.
_READERS: dict[str, Callable[[Any, int], Any]] = {
    "bool": lambda value, k: bool(value),
    "int": lambda value, k: int(value),
    "str": lambda value, k: str(value),
    "float": lambda value, k: float(_numbers(value, ())),
    "Label": lambda value, k: _label(value),
    "FloatArray": lambda value, k: _numbers(value, (k,)),
    "CheckedArray": lambda value, k: _checked(value, k),
    "tuple[float, float]": lambda value, k: tuple(_numbers(value, (2,)).tolist()),
    "dict[str, Any]": lambda value, k: _typed(dict, value),
    "dict[str, FloatArray]": lambda value, k: {
        name: _numbers(value[name], (k, 2)) for name in MEASURES if name in value
    },
    # Files name the group in words, too, under "group".
    "LeftOut": lambda value, k: _record(LeftOut, {**value, "group": value["index"]}, k),
}
for _kind in (Certificate, Finding, GroupRow, NewFinding, NewRows):
    _READERS[_kind.__name__] = partial(_record, _kind)


def _check_complete(audit: Audit) -> None:
    """Raise ValueError unless all that the verdict and the page look up is there."""
    k = len(audit.groups)
    if not k or audit.n_components not in audit.ranks:
        raise ValueError("it has no groups, or its ranks lack the one asked about")
    check_choice("center", audit.center, tuple(words.MEANS))
    if not all(0 <= row.group < k for row in audit.left_out):
        raise ValueError(f"left_out names a group beyond its {k}")
    if audit.new_rows is not None and not audit.new_rows.findings:
        raise ValueError("new_rows has no findings")
    # A verdict looks up PCA and FairPCA, and fails where one is missing.
    for r in audit.ranks:
        audit.verdict(r)
    if audit.scores:
        # Version 0.1 wrote no baseline.
        known = {**audit.scores["reducers"], "baseline": audit.scores.get("baseline")}
        for entry in (entry for entry in known.values() if entry is not None):
            every = [entry["all"], *_typed(list, entry["groups"])]
            _numbers([0.0 if score is None else score for score in every], (1 + k,))


def data_hash(arrays: Iterable[AnyArray | None], texts: Iterable[str] = ()) -> str:
    """Return the SHA-256 of arrays (type, shape and content) and texts, in order.

    The memory layout of an array does not change the hash.
    """
    digest = hashlib.sha256()
    for array in arrays:
        if array is None:
            digest.update(b"none")
            continue
        # Type and shape too: the same bytes can be other numbers.
        digest.update(f"{array.dtype.str}{array.shape}".encode())
        step = max(1, _HASH_BLOCK // max(1, array[:1].nbytes))
        for start in range(0, len(array), step):
            digest.update(array[start : start + step].tobytes())
    for text in texts:
        digest.update(text.encode("utf-8", "surrogatepass") + b"\0")
    return digest.hexdigest()
