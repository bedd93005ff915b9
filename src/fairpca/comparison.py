"""Several reducers side by side on one table.

`compare` fits the reducers on the same rows and fills one `ComparisonRow` for each, with the same
`fairpca.metrics.Findings` that an audit has.
"""

from __future__ import annotations

import json
import re
import textwrap
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.decomposition import PCA

from fairpca import metrics
from fairpca._arrays import FloatArray
from fairpca._check import check_choice, distinct, require
from fairpca.auditing.findings import plain
from fairpca.auditing.words import MEANS, listed, number, percent
from fairpca.base import html_table
from fairpca.covariances.sources import CENTERS, MomentCovariances, Span, in_span, is_wide
from fairpca.fitting import Matrices, solve
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.groups import Groups, Label, Labels, Models, Rows

if TYPE_CHECKING:
    import pandas

# What the table for people shows beside the name, and the title of each column.
_TITLES = {
    "optimises": "makes small",
    "place": "place",
    "worst_loss": "worst loss",
    "gap": "above bound",
    "total_error": "total error",
    "error_gap": "error gap",
    "mean_gap": "mean gap",
    "covariance_gap": "cov. gap",
    "mmd_squared": "MMD²",
    "fit_seconds": "seconds",
}
# Characters in a line of `print`, and columns beside the name that fit into it.
_WIDTH, _BESIDE = 80, 6
# Two values closer than this share of the largest in their column share a place: solvers stop at a
# relative gap of 1e-10, and an order below that would be chance.
_TIE = 1e-9


@dataclass(frozen=True)
class ComparisonRow:
    """The numbers of one reducer; NaN where there is none.

    Attributes
    ----------
    name : str
    optimises : str
        What the reducer makes small: "loss", "variance", "total error", "mean gap" and so on.
    place : int or None
        Place among the reducers that optimise the same; None where that is not one number.
    n_components : int
        Zero where the reducer could not be fitted.
    found : Findings or None
        What every group gets, about `Comparison.center`; None where the reducer failed.
    errors : ndarray of shape (k,) or None
        Mean squared distance between each group's rows and what is rebuilt of them.
    bound : float
        No projection of this rank has a smaller worst loss.
    mean_gap, covariance_gap, mmd_squared : float
        How different two groups look after projection, the most different pair.
    fit_seconds : float
    message : str
        Warnings of the fit, or why it failed.
    """

    name: str
    optimises: str
    place: int | None = None
    n_components: int = 0
    found: metrics.Findings | None = None
    errors: FloatArray | None = None
    bound: float = np.nan
    mean_gap: float = np.nan
    covariance_gap: float = np.nan
    mmd_squared: float = np.nan
    fit_seconds: float = np.nan
    message: str = ""

    @property
    def failed(self) -> bool:
        """Whether the reducer could not be fitted."""
        return self.n_components == 0

    @property
    def worst_loss(self) -> float:
        """Largest loss of a group against its own PCA."""
        return self.found.worst_loss if self.found else np.nan

    @property
    def gap(self) -> float:
        """How far the worst loss is above the bound, as a share of it."""
        above = self.worst_loss - self.bound
        return above / self.worst_loss if above > 1e-12 * self.worst_loss else 0.0 * above

    @property
    def total_error(self) -> float:
        """Mean squared error of all rows."""
        return self.found.total_error if self.found else np.nan

    @property
    def least_variance(self) -> float:
        """Variance that the group with the least of it keeps."""
        return float((self.found.variance - self.found.error).min()) if self.found else np.nan

    @property
    def error_gap(self) -> float:
        """Largest difference between two groups' errors."""
        return np.nan if self.errors is None else float(np.ptp(self.errors))


# The number each notion makes small; it decides the place. A notion that is not here, such as a
# trade-off or a common basis, has no single number and gets no place.
_PLACED_BY: dict[str, Callable[[ComparisonRow], float]] = {
    "loss": lambda row: row.worst_loss,
    "error": lambda row: np.nan if row.errors is None else float(row.errors.max()),
    "variance": lambda row: -row.least_variance,
    "total error": lambda row: row.total_error,
    "mean error": lambda row: np.nan if row.errors is None else float(row.errors.mean()),
    "error gap": lambda row: row.error_gap,
    "mean gap": lambda row: row.mean_gap,
    "covariance gap": lambda row: row.covariance_gap,
    "mmd": lambda row: row.mmd_squared,
}


@dataclass(frozen=True, repr=False)
class Comparison:
    """The reducers side by side; `print` shows them as a table.

    Attributes
    ----------
    rows : tuple of ComparisonRow
        In the order in which the reducers were given; ``found[name]`` is one of them.
    groups : tuple
        Labels, sorted.
    center : {"global", "group"}
        What losses and variances of a group are about.

    See Also
    --------
    fairpca.compare : Makes one.
    """

    rows: tuple[ComparisonRow, ...]
    groups: tuple[Label, ...]
    center: str = "global"

    def __getitem__(self, name: str) -> ComparisonRow:
        """Return the row of a reducer; KeyError names those there are."""
        known = {row.name: row for row in self.rows}
        if name not in known:
            raise KeyError(f"{name!r}; there are {', '.join(known)}")
        return known[name]

    def to_records(self) -> list[dict[str, Any]]:
        """Return one flat dictionary per reducer; the loss of a group "a" is under "loss [a]"."""
        # Labels such as 1 and "1" differ, but are written alike.
        texts = distinct([str(label) for label in self.groups])
        found, unknown = [], [np.nan] * len(texts)
        for row in self.rows:
            names = ("name", "n_components", "bound", "least_variance", *_TITLES, "message")
            record = {name: getattr(row, name) for name in names}
            losses = row.found.loss if row.found else None
            for title, part in (("loss", losses), ("error", row.errors)):
                values = unknown if part is None else part.tolist()
                record |= {f"{title} [{t}]": v for t, v in zip(texts, values, strict=True)}
            found.append(record)
        return found

    def to_frame(self) -> pandas.DataFrame:
        """Return a pandas DataFrame, one reducer a row, with the columns of `to_records`."""
        pandas = require("pandas", extra="app", purpose="Comparison.to_frame")
        return pandas.DataFrame(self.to_records()).set_index("name")

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values; "rows" holds the records, a missing number is None."""
        found = {"groups": self.groups, "center": self.center, "verdict": self.verdict()}
        return plain(found | {"rows": self.to_records()})  # type: ignore[no-any-return]

    def to_json(self, *, indent: int | None = None) -> str:
        """Return `to_dict` as JSON text, on one line unless `indent` names spaces a level."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def verdict(self) -> str:
        """Return whose worst loss is smallest on these rows, and how far from the bound."""
        known = [row for row in self.rows if row.found]
        if not known:
            return "No method could be measured in the columns of X."
        best = min(known, key=lambda row: row.worst_loss)
        most = max(known, key=lambda row: row.worst_loss)
        above = f"{percent(best.gap)} above what" if best.gap > _TIE else "and"
        return (
            f"On these rows {best.name} has the smallest worst loss, {number(best.worst_loss)}, "
            f"{above} no projection of its rank goes below {number(best.bound)}; the largest has "
            f"{most.name}, {number(most.worst_loss)}. New rows are measured by fairpca.audit."
        )

    def notes(self) -> list[str]:
        """Return what is to be said about the numbers, a text each.

        What several reducers say is said once, with their names before it; so is why some of them
        could not be fitted.
        """
        said: dict[tuple[bool, str], list[str]] = {}
        for row in self.rows:
            said.setdefault((not row.failed, row.message), []).append(row.name)
        place = "A place is among the methods that make the same number small."
        found = [self.verdict(), f"Losses are about {MEANS[self.center]}. {place}"]
        for (ran, message), names in sorted(said.items()):
            if message:
                found.append(f"{', '.join(names)}{'' if ran else ' could not run'}: {message}")
        return found

    def table(self) -> tuple[list[str], list[list[str]]]:
        """Return titles, and a line for every reducer that could be fitted, as text."""
        ran = [row for row in self.rows if not row.failed]
        lines = [[row.name, *(_cell(n, getattr(row, n)) for n in _TITLES)] for row in ran]
        return ["method", *_TITLES.values()], lines

    def __str__(self) -> str:
        """Return the table, in parts of at most about 80 columns, and the notes below it."""
        titles, lines = self.table()
        found, columns = list[str](), list[list[str]]()
        for title, *cells in zip(titles, *lines, strict=True) if lines else []:
            width, sign = max(map(len, (title, *cells))), "<" if len(columns) < 2 else ">"
            columns.append([f"{cell:{sign}{width}}" for cell in (title, *cells)])
        for start in range(1, len(columns), _BESIDE):
            part = zip(columns[0], *columns[start : start + _BESIDE], strict=True)
            found += [*("  ".join(line).rstrip() for line in part), ""]
        return "\n".join([*found, *(textwrap.fill(note, _WIDTH) for note in self.notes())])

    def __repr__(self) -> str:
        """Return one line: what is compared, and where the numbers are."""
        return (
            f"Comparison of {listed([row.name for row in self.rows])} for {len(self.groups)} "
            "groups; print() shows the numbers, to_frame() and to_json() too."
        )

    def _repr_html_(self) -> str:
        """Return the table and the notes of `print` for notebooks."""
        return html_table(*self.table()) + "".join(f"<p>{escape(n)}</p>" for n in self.notes())


def _cell(name: str, value: Any) -> str:
    """Return a value of a row as it is shown, "-" where there is none."""
    if value is None or value != value:
        return "-"
    if name == "gap":
        return percent(value)
    return number(value) if isinstance(value, float) else str(value)


def compare(
    X: Rows,
    sensitive_features: Labels,
    estimators: Models | None = None,
    *,
    n_components: int = 2,
    center: str = "global",
    on_error: str = "record",
) -> Comparison:
    """Fit reducers on the same rows and put their numbers side by side.

    A reducer has a place only among those that optimise the same number; all others show what
    they do to it without being judged by it.

    Parameters
    ----------
    X : array-like of shape (m, n)
        Dense rows, or a frame.
    sensitive_features : array-like, Series, frame or dict
        One label per row, or several columns of labels.
    estimators : estimator, list of them, or mapping of name to estimator, optional
        Linear reducers with `fit` and `components_`; they are cloned, not changed. Those whose
        `fit` takes `sensitive_features` get them. Default: `default_estimators`, which is PCA,
        FairPCA and every published method.
    n_components : int, default=2
        Of the default estimators.
    center : {"global", "group"}, default="global"
        What losses and variances of a group are about: the mean of all rows, or the group's own.
        Estimators that are given keep their own `center`.
    on_error : {"record", "raise"}, default="record"
        Whether a reducer that cannot be fitted gets a row with its message.

    Returns
    -------
    Comparison

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.decomposition import PCA
    >>> from fairpca import FairPCA, compare
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(size=(80, 3)) * [3, 1, 1], rng.normal(size=(20, 3)) * [1, 3, 1]])
    >>> found = compare(X, ["a"] * 80 + ["b"] * 20, [PCA(1), FairPCA(1)])
    >>> found["FairPCA"].worst_loss < found["PCA"].worst_loss
    True
    """
    check_choice("center", center, CENTERS)
    check_choice("on_error", on_error, ("record", "raise"))
    given = default_estimators(n_components, center=center) if estimators is None else estimators
    named = metrics.named_reducers(given)
    for name, model in named.items():
        if isinstance(model, type) or not hasattr(model, "get_params"):
            raise ValueError(
                f"estimators: {name!r} is {model!r}; pass an estimator, such as FairPCA(2)."
            )
    # Not in float32: the bound is proven to ten digits, which the numbers beside it need too.
    rows = metrics.as_rows(X, accept_sparse=False, dtype=np.float64, ensure_min_samples=2)
    bench = _Bench(rows, sensitive_features, center)
    found = [bench.measure(name, model, on_error) for name, model in named.items()]
    scale = float(np.sqrt(bench.source.total.trace))
    placed = tuple(_placed(row, found, scale) for row in found)
    return Comparison(placed, bench.groups.labels, center)


def default_estimators(n_components: int, *, center: str = "global") -> dict[str, Any]:
    """Return PCA, FairPCA and every published method with this many components, by name.

    Judged about another mean than it was fitted about, a method looks worse than it is: those that
    have a choice get this `center`.

    Examples
    --------
    >>> from fairpca.comparison import default_estimators
    >>> list(default_estimators(2))[:2]
    ['PCA', 'FairPCA']
    """
    # Here, not above: comparing two reducers should not load all of them.
    from fairpca import methods
    from fairpca.estimator import FairPCA

    found: dict[str, Any] = {"PCA": PCA(n_components), "FairPCA": FairPCA(n_components)}
    found |= {name: getattr(methods, name)(n_components) for name in methods.__all__}
    for model in found.values():
        if "center" in model.get_params():
            model.set_params(center=center)
    return found


def _placed(row: ComparisonRow, rows: list[ComparisonRow], scale: float) -> ComparisonRow:
    """Return a row with its place, among those of one notion and number of components."""
    measure = _PLACED_BY.get(row.optimises)
    if measure is None or np.isnan(measure(row)):
        return row
    slack = _TIE * max(abs(value) for value in map(measure, rows) if not np.isnan(value))
    # Differences between equal means are rounding.
    slack = max(slack, 1e-12 * scale if row.optimises == "mean gap" else 0.0)
    better = [other for other in rows if measure(other) < measure(row) - slack]
    kind = row.optimises, row.n_components
    return replace(row, place=1 + sum((o.optimises, o.n_components) == kind for o in better))


class _Bench:
    """The rows every reducer is measured on, and what is computed once for all of them."""

    def __init__(self, X: FloatArray, labels: Any, center: str) -> None:
        groups = Groups.from_labels(labels, n_rows=len(X))
        self.X, self.labels, self.groups = X, labels, groups
        self.span: Span | None
        rows, self.span = in_span(X, groups, None) if is_wide(X, 1) else (X, None)
        self.source = MomentCovariances(GroupMoments.from_array(rows, groups), center=center)
        self.matrices = Matrices.of(self.source)
        # By number of components: the bound of the worst loss, and the bandwidth of the kernel.
        self.known: dict[int, tuple[float, float]] = {}

    def measure(self, name: str, model: Any, on_error: str) -> ComparisonRow:
        """Fit one reducer and return its row, without a place."""
        # Estimators of scikit-learn have neither: they are taken for PCA's relatives.
        notion = getattr(model, "notion", None) or getattr(model, "criterion", None)
        row = ComparisonRow(name, str(notion or "total error"))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                begin = time.perf_counter()
                fitted = metrics.fitted_to(self.X, model, sensitive_features=self.labels)
                row = replace(row, fit_seconds=time.perf_counter() - begin)
                row = replace(row, **self._numbers(fitted))
            except (ValueError, ImportError, RuntimeError, np.linalg.LinAlgError) as error:
                if on_error == "raise":
                    raise
                return replace(row, message=_unnamed(str(error), model))
        # A warning of every iteration is told once.
        message = " ".join(dict.fromkeys(str(warning.message) for warning in caught))
        return replace(row, message=_unnamed(message, model))

    def _numbers(self, fitted: Any) -> dict[str, Any]:
        """Return losses and errors in the columns of X, and how different groups look after."""
        Z = np.asarray(fitted.transform(self.X), dtype=float)
        r = Z.shape[1]
        if r not in self.known:
            # One bandwidth for all reducers; with its own, a reducer could blur what it leaves.
            centred = self.X - self.X.mean(axis=0)
            bandwidth = metrics.median_bandwidth(PCA(r).fit_transform(centred))
            rank = min(r, self.source.covariances.shape[1])
            bound = float(solve(self.source.covariances, rank).certificate.lower_bound)
            self.known[r] = bound, bandwidth
        bound, bandwidth = self.known[r]
        # Components need not be orthonormal (factor analysis): only their span counts.
        basis = metrics.basis_of(fitted)
        basis = basis if self.span is None else self.span.inside(basis)
        found = metrics.measured(basis, self.source, self.matrices)
        errors = self.source.errors(basis, found.variance - found.error)
        after: Any = np.eye(r), Z
        labels: dict[str, Any] = {"sensitive_features": self.groups}
        different = metrics.mean_gap, metrics.covariance_gap
        gaps = {gap.__name__: gap(*after, **labels) for gap in different}
        gaps["mmd_squared"] = metrics.mmd_squared(*after, bandwidth=bandwidth, **labels)
        return {"n_components": r, "found": found, "errors": errors, "bound": bound, **gaps}


def _unnamed(message: str, model: Any) -> str:
    """Return what a reducer said without its name, so that what several say is the same text."""
    return re.sub(rf"\b{type(model).__name__}\b", "the method", message)
