"""What an audit found: frozen records, and their form as a frame, a dictionary and JSON."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from fairpca._arrays import FloatArray
from fairpca._check import require
from fairpca.auditing import words
from fairpca.base import html_table
from fairpca.metrics import Findings
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.groups import Label

if TYPE_CHECKING:
    import pandas

    from fairpca.plots import GroupLossDisplay

# Groups in the table of a notebook; more push the sentences below it off the screen.
_NOTEBOOK_ROWS = 30


@dataclass(frozen=True)
class GroupRow:
    """One group of the audited rows: its label as given and as shown, its rows and variance."""

    label: Label
    text: str
    count: int
    variance: float


@dataclass(frozen=True, kw_only=True)
class Finding(Findings):
    """What every group gets from one candidate with one number of components.

    Beside the attributes of `fairpca.metrics.Findings`:

    Attributes
    ----------
    on : {"new", "hand", "unseen"}
        Which rows: those left out of the fit, those of the fit, or the rows of each group under a
        fit to all other groups. A group without a number has NaN there.
    reducer : str
    n_components : int
    low, high : ndarray of shape (k,)
        Ends of the 95 % interval of the loss, on new rows; elsewhere NaN.
    change, change_low, change_high : ndarray of shape (k,)
        The error minus that of PCA on the same rows; on new rows with the ends of 95 % intervals
        that hold for all groups at once, elsewhere NaN.
    gain, gain_low, gain_high : float
        By how much the worst loss is smaller than PCA's; with the ends of a 95 % interval on new
        rows.
    bound : float
        On the rows in hand, no projection of this rank has a smaller worst loss; elsewhere NaN.
    """

    on: str
    reducer: str
    n_components: int
    low: FloatArray = field(repr=False)
    high: FloatArray = field(repr=False)
    change: FloatArray = field(repr=False)
    change_low: FloatArray = field(repr=False)
    change_high: FloatArray = field(repr=False)
    gain: float = 0.0
    gain_low: float = math.nan
    gain_high: float = math.nan
    bound: float = math.nan

    @property
    def beyond_noise(self) -> bool:
        """Whether new rows show that the worst loss is smaller than PCA's."""
        return self.gain_low > 0

    def as_share(self, name: str) -> FloatArray:
        """Return "loss", "change", ... over the groups' variances; NaN where there is none."""
        values: FloatArray = getattr(self, name)
        unknown = np.full(len(values), np.nan)
        shares = np.divide(values, self.variance, out=unknown, where=self.variance > 0)
        return np.asarray(shares)

    def columns(self) -> dict[str, Any]:
        """Return the table by columns, one entry a group in each."""
        head = {"on": self.on, "reducer": self.reducer, "n_components": self.n_components}
        names = ("low", "high", "change", "change_low", "change_high")
        ends = {name: getattr(self, name) for name in names}
        return head | super().columns() | ends | {"bound": self.bound}


@dataclass(frozen=True, repr=False, eq=False)
class Audit:
    """Whom a projection serves: every candidate, every number of components, every group.

    Attributes
    ----------
    n_components : int
        The number of components asked about.
    ranks : tuple of int
        All numbers of components looked at, on the rows in hand.
    reducers : tuple of str
        "PCA", "balanced PCA", "FairPCA", "careful FairPCA" (that is
        ``FairPCA(shrinkage="auto", max_harm=0.02)``), then those given.
    groups : tuple of GroupRow
    group_columns : tuple of str
        Names of the label columns.
    group_by : {"intersection", "marginal"}
    center : {"global", "group"}
        What every number of a group is about: the mean of all rows, or the group's own.
    findings : tuple of Finding
        New rows first, then those in hand, then groups that were not there; `at` looks one up.
    why_not_new : str
        Why nothing is known of new rows; "" where it is.
    warnings : tuple of str
        What a reader should know before trusting a number.
    provenance : dict
        Versions, parameters, names of the columns.
    moments : GroupMoments or None
        What the numbers in hand were computed from; where rows are far fewer than columns, in
        coordinates of what they span.
    components : dict
        Orthonormal rows in the columns of X by (reducer, number of components).
    mean : ndarray of shape (n,) or None
        Mean of all rows.

    See Also
    --------
    fairpca.audit : Makes one.
    """

    n_components: int
    ranks: tuple[int, ...]
    reducers: tuple[str, ...]
    groups: tuple[GroupRow, ...]
    group_columns: tuple[str, ...]
    group_by: str
    center: str
    findings: tuple[Finding, ...]
    why_not_new: str = ""
    warnings: tuple[str, ...] = ()
    provenance: dict[str, Any] = field(default_factory=dict)
    moments: GroupMoments | None = None
    components: dict[tuple[str, int], FloatArray] = field(default_factory=dict)
    mean: FloatArray | None = None

    def at(self, reducer: str, n_components: int | None = None, *, on: str = "hand") -> Finding:
        """Return what one candidate does; KeyError names the findings there are.

        Parameters
        ----------
        reducer : str
            One of `reducers`.
        n_components : int, optional
            Default: the number of components asked about, the only one for new rows.
        on : {"new", "hand", "unseen"}, default="hand"
            Which rows.
        """
        r = self.n_components if n_components is None else n_components
        for finding in self.of(on):
            if (finding.reducer, finding.n_components) == (reducer, r):
                return finding
        known = [(f.reducer, f.n_components) for f in self.of(on)]
        raise KeyError(f"no finding for {reducer!r} with {r} components on={on!r}; known: {known}")

    def of(self, on: str, n_components: int | None = None) -> tuple[Finding, ...]:
        """Return all findings on "new", "hand" or "unseen" rows, of one rank or of all."""
        ranks = self.ranks if n_components is None else (n_components,)
        return tuple(f for f in self.findings if f.on == on and f.n_components in ranks)

    @property
    def advice(self) -> words.Advice:
        """What to fit by new rows, and what that is known to cost."""
        return words.advice(self)

    def verdict(self) -> str:
        """Return the answer in at most three sentences; they are about new rows."""
        return " ".join(words.sentences(self))

    def to_frame(self) -> pandas.DataFrame:
        """Return a pandas frame, one row for every group of every finding; new rows come first."""
        pandas = require("pandas", extra="app", purpose="Audit.to_frame")
        return pandas.DataFrame([line for finding in self.findings for line in _lines(finding)])

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, numbers and texts; a number that is not known is None.

        "verdict" has the kind ("better", "as good" or "cannot tell"), the text, and what to fit;
        "findings" one entry for every line of `to_frame`.
        """
        names = ("n_components", "ranks", "reducers", "group_columns", "group_by", "center")
        found: dict[str, Any] = {"verdict": {**vars(self.advice), "text": self.verdict()}}
        found |= {name: getattr(self, name) for name in (*names, "warnings", "provenance")}
        found["groups"] = [vars(group) for group in self.groups]
        found["findings"] = [line for finding in self.findings for line in _lines(finding)]
        return plain(found)  # type: ignore[no-any-return]

    def to_json(self, *, indent: int | None = None) -> str:
        """Return `to_dict` as JSON text, on one line unless `indent` names spaces a level."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def to_html(self, path: str | Path | None = None, *, title: str | None = None) -> str:
        """Return the whole audit as one HTML page that needs no network; also write it to `path`.

        Parameters
        ----------
        path : str or Path, optional
        title : str, optional
        """
        # The page imports this module; going through the package's lazy names keeps it that way.
        import fairpca

        if path is not None:
            return fairpca.report.write_page(self, path, title=title)
        return fairpca.report.render_page(self, title=title)

    def plot(self, **options: Any) -> GroupLossDisplay:
        """Draw what every group gets, by `fairpca.plots.GroupLossDisplay.from_audit`."""
        import fairpca

        return fairpca.plots.GroupLossDisplay.from_audit(self, **options)

    def __repr__(self) -> str:
        """Return the size of the audit and its verdict, in a few lines."""
        return (
            f"Audit of {words.listed(self.reducers)} for {len(self.groups)} groups by "
            f"{words.group_title(self)}, with {words.components(self.n_components)}\n"
            f"{self.verdict()}\nSee to_frame(), to_json(), to_html() and plot()."
        )

    def _repr_html_(self) -> str:
        """Return the verdict, a table of the groups and the warnings, for notebooks."""
        title, columns, rows, totals = words.tables(self)[0]
        more = len(rows) - _NOTEBOOK_ROWS
        notes = [f"{more} more groups: see to_frame()."] if more > 0 else []
        texts = [self.verdict(), *notes, *self.warnings]
        table = html_table(columns, [*rows[:_NOTEBOOK_ROWS], *totals], title)
        first, *others = (f"<p>{escape(text)}</p>" for text in texts)
        return "".join([first, table, *others])


@dataclass(frozen=True, kw_only=True)
class ModelAudit(Findings):
    """What a fitted model does to the groups of a table it has not seen.

    All numbers are about the mean that the model subtracts. A loss is set against a PCA of these
    very rows of the group, which knows them; of few rows it is large. Beside the attributes of
    `fairpca.metrics.Findings`:

    Attributes
    ----------
    n_components : int
    groups : tuple of GroupRow
    group_columns : tuple of str
    """

    n_components: int
    groups: tuple[GroupRow, ...]
    group_columns: tuple[str, ...]

    def verdict(self) -> str:
        """Return the result in two sentences."""
        return words.model_sentences(self)

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, numbers and texts."""
        found = {name: getattr(self, name) for name in ("n_components", "gap", "total_error")}
        found |= {"verdict": self.verdict(), "groups": _lines(self)}
        return plain(found)  # type: ignore[no-any-return]


def _lines(finding: Findings) -> list[dict[str, Any]]:
    """Return one dictionary for every group of a finding."""
    k, columns = len(finding.labels), finding.columns()
    whole = [v if isinstance(v, list | np.ndarray) else [v] * k for v in columns.values()]
    return [dict(zip(columns, line, strict=True)) for line in zip(*whole, strict=True)]


def plain(value: Any) -> Any:
    """Return arrays, tuples and labels as lists, numbers and texts, as JSON has them.

    A number that is not finite becomes None; a label of any other type (a date) its text.
    """

    def simpler(part: Any) -> Any:
        return part.tolist() if hasattr(part, "tolist") else str(part)

    return json.loads(json.dumps(value, default=simpler), parse_constant=lambda _: None)
