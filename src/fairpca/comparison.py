"""Several reducers on one table: every number of each, in places only by what it optimises.

`compare` fits the reducers on the same rows and fills one `ComparisonRow` for each. A `Comparison`
holds the rows and shows them as text, HTML, records, a frame, JSON or CSV.
"""

from __future__ import annotations

import csv
import io
import json
import math
import re
import textwrap
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from html import escape
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split

from fairpca import metrics
from fairpca._check import check_choice, distinct, is_share, require
from fairpca._arrays import FloatArray, IntArray, rounding_level
from fairpca.auditing.findings import plain
from fairpca.auditing.verdict import MEANS, html_table, listed, number, percent
from fairpca.covariances.sources import CENTERS, MomentCovariances, Span, in_span, is_wide
from fairpca.fitting import solve
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.groups import Groups
from fairpca.moments.groups import Label

# A number that a reducer does not have: it failed, works in other columns, or `y` was not given.
_NAN = float("nan")
# What the table for people shows beside the name, in order, and the title of each column. As text
# a title has a line for every word, since most numbers are shorter than their titles.
_TITLES = {
    "optimises": "optimises",
    "place": "place",
    "worst_loss": "worst loss",
    "gap": "above bound",
    "total_error": "total error",
    "error_gap": "error gap",
    "mean_gap": "mean gap",
    "covariance_gap": "cov. gap",
    "mmd_squared": "MMD squared",
    "fit_seconds": "seconds",
    "accuracy": "accuracy",
    "r_squared": "R squared",
    "demographic_parity_difference": "parity difference",
    "equal_opportunity_difference": "opportunity difference",
}
# Characters in a line of `print`: those of the narrowest terminal in use.
_WIDTH = 80
# Two values closer than this share of the largest value in their column share a place: solvers
# stop at a relative gap of 1e-10, and an order below that would be chance.
_TIE = 1e-9
# Means closer than this share of the root of the variance differ by rounding.
_EQUAL_MEANS = 1e-12


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
    worst_loss : float
        Largest loss of a group against its own PCA, about `Comparison.center`.
    bound : float
        No projection of this rank has a smaller worst loss.
    gap : float
        ``(worst_loss - bound) / worst_loss``.
    group_losses, group_errors : tuple of float
        In the order of the labels. Losses are about `Comparison.center`; errors are mean squared
        distances between rows and what is rebuilt of them, for every centre.
    least_variance : float
        Variance that the group with the least of it keeps, about `Comparison.center`.
    total_error : float
        Mean squared reconstruction error of all rows about the overall mean.
    error_gap : float
        Largest difference between two of the `group_errors`.
    mean_gap, covariance_gap, mmd_squared : float
        How different two groups look after projection, the most different pair.
    fit_seconds : float
        Of the fit on all rows.
    accuracy, r_squared : float
        Of a linear model that predicts y on held-out rows: the one where y holds classes, the
        other where it holds numbers.
    demographic_parity_difference, equal_opportunity_difference : float
        Of the same predictions, where y holds two classes.
    message : str
        Warnings of the fit, or why it failed.
    """

    name: str
    optimises: str
    place: int | None = None
    n_components: int = 0
    worst_loss: float = _NAN
    bound: float = _NAN
    gap: float = _NAN
    group_losses: tuple[float, ...] = ()
    group_errors: tuple[float, ...] = ()
    least_variance: float = _NAN
    total_error: float = _NAN
    error_gap: float = _NAN
    mean_gap: float = _NAN
    covariance_gap: float = _NAN
    mmd_squared: float = _NAN
    fit_seconds: float = _NAN
    accuracy: float = _NAN
    demographic_parity_difference: float = _NAN
    equal_opportunity_difference: float = _NAN
    r_squared: float = _NAN
    message: str = ""

    @property
    def failed(self) -> bool:
        """Whether the reducer could not be fitted."""
        return self.n_components == 0


# The number each notion makes small; it decides the place. A notion that is not here, such as a
# trade-off or a common basis, has no single number and gets no place.
_PLACED_BY: dict[str, Callable[[ComparisonRow], float]] = {
    "loss": lambda row: row.worst_loss,
    "error": lambda row: max(row.group_errors, default=_NAN),
    "variance": lambda row: -row.least_variance,
    "total error": lambda row: row.total_error,
    "mean error": lambda row: float(np.mean(row.group_errors)) if row.group_errors else _NAN,
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
    group_counts : tuple of int
        Rows of every group.
    center : {"global", "group"}
        What losses and variances of a group are about.
    baseline : float or None
        Accuracy of predicting the most frequent class for every held-out row, or R squared of
        predicting the mean; None without y.

    See Also
    --------
    fairpca.compare : Makes one.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.decomposition import PCA
    >>> from fairpca import FairPCA, compare
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> found = compare({"pca": PCA(2), "fair": FairPCA(2)}, X, ["a", "b"] * 30)
    >>> found
    Comparison of pca, fair for 2 groups; print() shows the numbers, to_frame() and to_json() too.
    >>> found["fair"].n_components, found["pca"].optimises
    (2, 'total error')
    """

    rows: tuple[ComparisonRow, ...]
    groups: tuple[Label, ...]
    group_counts: tuple[int, ...]
    center: str = "global"
    baseline: float | None = None

    def __getitem__(self, name: str) -> ComparisonRow:
        """Return the row of a reducer; KeyError names those there are."""
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(f"{name!r}; there are {', '.join(row.name for row in self.rows)}")

    def to_records(self) -> list[dict[str, Any]]:
        """Return one flat dictionary per reducer; group columns carry the label.

        The losses of a group "a" are under "loss [a]", its errors under "error [a]".
        """
        found = []
        # Labels such as 1 and "1" differ, but are written alike.
        texts = distinct([str(label) for label in self.groups])
        for row in self.rows:
            record = asdict(row)
            for title, name in (("loss", "group_losses"), ("error", "group_errors")):
                values = record.pop(name) or (_NAN,) * len(self.groups)
                for label, value in zip(texts, values, strict=True):
                    record[f"{title} [{label}]"] = value
            found.append(record)
        return found

    def to_frame(self) -> Any:
        """Return a pandas DataFrame, one reducer a row, with the columns of `to_records`."""
        pandas = require("pandas", extra="app", purpose="Comparison.to_frame")
        return pandas.DataFrame(self.to_records()).set_index("name")

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values, by attribute; "rows" holds those of every reducer.

        A missing number is None. A label that is neither text nor a number becomes its text.
        """
        found: dict[str, Any] = plain(self)
        return found

    def to_json(self, *, indent: int | None = None) -> str:
        """Return `to_dict` as JSON text, on one line unless `indent` names spaces a level."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def to_csv(self) -> str:
        """Return the records as CSV text; a missing number is an empty field."""
        # What is None is written as an empty field.
        records = plain(self.to_records())
        text = io.StringIO()
        writer = csv.DictWriter(text, list(records[0]) if records else ["name"])
        writer.writeheader()
        writer.writerows(records)
        return text.getvalue()

    def __str__(self) -> str:
        """Return tables of at most 80 columns for people, and below them what is to be said."""
        notes = [textwrap.fill(note, _WIDTH, break_long_words=False) for note in self.notes()]
        return "\n".join([*self.table_lines(), *notes])

    def table_lines(self, width: int = _WIDTH) -> list[str]:
        """Return the reducers that could be fitted as lines of text; none where there are none.

        Parameters
        ----------
        width : int, default=80
            Characters in a line. Columns that do not fit go into another table below; names are
            never cut, however long they are. Every table ends with an empty line.
        """
        cells = self._cells()
        if len(cells) == 1:
            return []
        names, *columns = _columns(cells)
        tables = [[names]]
        for column in columns:
            wider = sum(len(entry[0]) + 2 for entry in tables[-1]) + len(column[0])
            # At least one column beside the names, however narrow the terminal is.
            if len(tables[-1]) > 1 and wider > width:
                tables.append([names])
            tables[-1].append(column)
        lines = [[*zip(*table, strict=True), ()] for table in tables]
        return ["  ".join(parts).rstrip() for table in lines for parts in table]

    def notes(self) -> list[str]:
        """Return what is to be said about the numbers, a text each.

        What several reducers say is said once, with their names before it; so is why some of them
        could not be fitted.
        """
        said: dict[tuple[bool, str], list[str]] = {}
        for row in self.rows:
            said.setdefault((row.failed, row.message), []).append(row.name)
        found = []
        fitted = [row for row in self.rows if not row.failed]
        if fitted:
            found.append("place: among the methods that make the same number small.")
            found.append(f"Losses are about {MEANS[self.center]}.")
        if fitted and self.baseline is not None:
            score, guess = "accuracy", "most frequent class"
            if _missing(fitted[0].accuracy):
                score, guess = "R squared", "mean"
            found.append(
                f"{score}: of a linear model on held-out rows; always predicting the {guess} has "
                f"{number(self.baseline)}."
            )
        for (failed, message), names in sorted(said.items(), key=lambda entry: not entry[0][0]):
            if message:
                what = " could not run" if failed else ""
                found.append(f"{', '.join(names)}{what}: {message}")
        return found

    def __repr__(self) -> str:
        """Return one line: what is compared, and where the numbers are."""
        return (
            f"Comparison of {listed([row.name for row in self.rows])} for {len(self.groups)} "
            "groups; print() shows the numbers, to_frame() and to_json() too."
        )

    def _repr_html_(self) -> str:
        """Return the table and the notes of `print` for notebooks."""
        titles, *rows = self._cells()
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes())
        return (html_table(titles, rows) if rows else "") + notes

    def _cells(self) -> list[list[str]]:
        """Return titles, then a line for every reducer that could be fitted, as text.

        Columns without any number are left out.
        """
        fitted = [row for row in self.rows if not row.failed]
        shown = [
            name for name in _TITLES if not all(_missing(getattr(row, name)) for row in fitted)
        ]
        titles = ["method", *(_TITLES[name] for name in shown)]
        return [titles, *([row.name, *(_cell(row, name) for name in shown)] for row in fitted)]


def _missing(value: Any) -> bool:
    # NaN alone differs from itself.
    return value is None or bool(value != value)


def _cell(row: ComparisonRow, name: str) -> str:
    """Return a value of a row as it is shown, "-" where there is none."""
    value = getattr(row, name)
    if _missing(value):
        return "-"
    if name == "gap":
        return percent(value)
    return number(value) if isinstance(value, float) else str(value)


def _columns(cells: list[list[str]]) -> list[list[str]]:
    """Return the columns of a table, each in one width, with a rule below the title.

    The first two hold words and start at the left; numbers end at the right.
    """
    titles, *rows = cells
    words = [title.split() for title in titles]
    height = max(map(len, words))
    heads = [[*[""] * (height - len(title)), *title] for title in words]
    found = []
    for j, (head, body) in enumerate(zip(heads, zip(*rows, strict=True), strict=True)):
        width = max(map(len, (*head, *body)))
        side = str.ljust if j < 2 else str.rjust
        found.append([side(cell, width) for cell in (*head, "-" * width, *body)])
    return found


def compare(
    estimators: Any,
    X: Any,
    sensitive_features: Any,
    y: Any = None,
    *,
    target: str = "auto",
    center: str = "global",
    test_size: float = 0.3,
    random_state: Any = 0,
    on_error: str = "record",
) -> Comparison:
    """Fit reducers on the same rows and put their numbers side by side.

    A reducer has a place only among those that optimise the same number; all others show what
    they do to it without being judged by it.

    Parameters
    ----------
    estimators : estimator, list of them, or mapping of name to estimator
        Linear reducers with `fit` and `components_`; they are cloned, not changed. Those whose
        `fit` takes `sensitive_features` get them.
    X : array-like of shape (m, n)
        Dense rows, or a frame.
    sensitive_features : array-like, Series, frame or dict
        One label per row, or several columns of labels.
    y : array-like of shape (m,), optional
        Classes or numbers. Each reducer is then fitted once more on the training rows alone, and a
        linear model on its output is judged on the rest: a logistic regression or a ridge
        regression.
    target : {"auto", "classes", "numbers"}, default="auto"
        What `y` holds. "auto" takes text and a few distinct whole numbers for classes.
    center : {"global", "group"}, default="global"
        What losses and variances of a group are about: the mean of all rows, or the group's own.
        The reducers keep their own `center`.
    test_size : float, default=0.3
        Share of rows held out, with `y`.
    random_state : int, RandomState instance or None, default=0
        Of the split.
    on_error : {"record", "raise"}, default="record"
        Whether a reducer that cannot be fitted gets a row with its message.

    Returns
    -------
    Comparison

    Raises
    ------
    ValueError
        Where rows, labels or `y` do not fit together; with ``on_error="raise"`` also what a
        reducer raises.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.decomposition import PCA
    >>> from fairpca import FairPCA
    >>> from fairpca.comparison import compare
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(size=(80, 3)) * [3, 1, 1], rng.normal(size=(20, 3)) * [1, 3, 1]])
    >>> found = compare([PCA(1), FairPCA(1)], X, ["a"] * 80 + ["b"] * 20)
    >>> found["FairPCA"].worst_loss < found["PCA"].worst_loss
    True
    """
    check_choice("center", center, CENTERS)
    check_choice("target", target, metrics.TARGETS)
    check_choice("on_error", on_error, ("record", "raise"))
    if hasattr(estimators, "shape"):
        raise ValueError(
            f"estimators is a table, {type(estimators).__name__}; they come first, then rows: "
            "compare([PCA(2), FairPCA(2)], X, sensitive_features)."
        )
    named = metrics.named_reducers(estimators)
    if not named:
        raise ValueError("estimators is empty; pass at least one, such as FairPCA(2).")
    for name, model in named.items():
        if isinstance(model, type) or not hasattr(model, "get_params"):
            raise ValueError(
                f"estimators: {name!r} is {model!r}; pass an estimator, such as FairPCA(2)."
            )
    # Not in float32: the bound is proven to ten digits, which the numbers beside it need too.
    rows = metrics.as_rows(X, accept_sparse=False, dtype=np.float64, ensure_min_samples=2)
    groups = Groups.from_labels(sensitive_features, n_rows=len(rows))
    counted, span = rows, None
    if is_wide(rows, 1):
        counted, span = in_span(rows, groups, None)
    source = MomentCovariances(GroupMoments.from_array(counted, groups), center=center)
    task = None
    if y is not None:
        if np.shape(y) != (len(rows),):
            raise ValueError(f"y has shape {np.shape(y)} but X has {len(rows)} rows.")
        train, test = train_test_split(
            np.arange(len(rows)),
            test_size=test_size,
            random_state=random_state,
            # Every group on both sides, where both have room for all.
            stratify=groups.codes if _fits_both(groups, test_size) else None,
        )
        task = metrics.HeldOut(*metrics.read_target(y, target), train, test)
        if task.classes and len(np.unique(task.y[train])) < 2:
            # Refused once: it would fail for every reducer.
            raise ValueError(
                "y has one class only in the training rows; pass more rows of the other class."
            )
    bench = _Bench(rows, groups, source, task, span)
    found = [bench.measure(name, model, on_error) for name, model in named.items()]
    counts = tuple(source.groups.count.tolist())
    labels = tuple(source.groups.labels)
    baseline = None if task is None else task.score(task.baseline())
    nothing = _EQUAL_MEANS * float(np.sqrt(source.total.trace))
    return Comparison(tuple(_placed(found, nothing)), labels, counts, center, baseline)


def _fits_both(groups: Groups, test_size: Any) -> bool:
    """Whether every group has two rows, and both sides of a split have one for each group."""
    m, k = len(groups.codes), len(groups.labels)
    # None is what scikit-learn takes for a quarter.
    size = 0.25 if test_size is None else test_size
    tested = math.ceil(size * m) if is_share(size) else int(size)
    return bool(groups.counts.min() >= 2 and k <= min(tested, m - tested))


def default_estimators(n_components: int, *, center: str = "global") -> dict[str, Any]:
    """Return PCA, FairPCA and every published method with this many components, by name.

    Parameters
    ----------
    n_components : int
    center : {"global", "group"}, default="global"
        Of FairPCA and of the methods that have a choice. Judged about another mean than it was
        fitted about, a method looks worse than it is.

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


def _placed(rows: list[ComparisonRow], nothing: float) -> Iterator[ComparisonRow]:
    """Yield the rows with their places, among those of one notion and number of components.

    Differences between means that are smaller than `nothing` are rounding.
    """
    for row in rows:
        measure = _PLACED_BY.get(row.optimises)
        if measure is None or np.isnan(measure(row)):
            yield row
            continue
        slack = _TIE * max(abs(value) for value in map(measure, rows) if not np.isnan(value))
        slack = max(slack, nothing if row.optimises == "mean gap" else 0.0)
        better = [
            other
            for other in rows
            if (other.optimises, other.n_components) == (row.optimises, row.n_components)
            and measure(other) < measure(row) - slack
        ]
        yield replace(row, place=1 + len(better))


@dataclass(frozen=True)
class _Bench:
    """The rows every reducer is measured on, and what is computed once for all of them.

    The second moments of the source are about the mean that `compare` was asked for; where rows
    are far fewer than columns, in coordinates of their `span`.
    """

    X: FloatArray
    groups: Groups
    source: MomentCovariances
    task: metrics.HeldOut | None
    span: Span | None = None
    # By number of components: the bound of the worst loss, and the bandwidth of the kernel.
    known: dict[int, tuple[float, float]] = field(default_factory=dict)

    def measure(self, name: str, model: Any, on_error: str) -> ComparisonRow:
        """Fit one reducer and return its row, without a place."""
        # Estimators of scikit-learn have neither: they are taken for PCA's relatives.
        notion = getattr(model, "notion", None) or getattr(model, "criterion", None)
        optimises = str(notion or "total error")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                begin = time.perf_counter()
                fitted = self._fit(model, np.arange(len(self.X)))
                seconds = time.perf_counter() - begin
                numbers = self._after(fitted)
                numbers |= self._in_columns(fitted, numbers["n_components"], numbers["bound"])
                numbers |= self._predicted(model)
            except (ValueError, ImportError, RuntimeError, np.linalg.LinAlgError) as error:
                if on_error == "raise":
                    raise
                return ComparisonRow(name, optimises, message=_unnamed(str(error), model))
        # A warning of every iteration is told once.
        message = " ".join(dict.fromkeys(str(warning.message) for warning in caught))
        message = _unnamed(message, model)
        return ComparisonRow(name, optimises, fit_seconds=seconds, message=message, **numbers)

    def _fit(self, model: Any, rows: IntArray) -> Any:
        labels = _labels_as_given(self.groups, rows)
        return metrics.fitted_to(self.X[rows], model, sensitive_features=labels)

    def _after(self, fitted: Any) -> dict[str, Any]:
        """Return how different the groups look in the columns that the reducer makes."""
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
        of_groups: dict[str, Any] = {"sensitive_features": self.groups.codes}
        return {
            "n_components": r,
            "bound": bound,
            "mean_gap": metrics.mean_gap(np.eye(r), Z, **of_groups),
            "covariance_gap": metrics.covariance_gap(np.eye(r), Z, **of_groups),
            "mmd_squared": metrics.mmd_squared(np.eye(r), Z, bandwidth=bandwidth, **of_groups),
        }

    def _in_columns(self, fitted: Any, r: int, bound: float) -> dict[str, Any]:
        """Return losses and errors in the columns of X; none after a kernel, which leaves them."""
        # Components need not be orthonormal (factor analysis): only their span counts.
        if getattr(fitted, "kernel_map_", None) is not None:
            return {}
        basis = metrics.basis_of(fitted)
        if len(basis) != self.X.shape[1]:
            return {}
        if self.span is not None:
            basis = self.span.inside(basis)
        total = self.source.total.trace
        kept = metrics.kept_variance(basis, self.source.covariances)
        losses = np.maximum(metrics.own_variance(self.source.covariances, r) - kept, 0.0)
        errors = self.source.errors(basis, kept)
        worst = float(losses.max())
        rounding = rounding_level(float(self.source.groups.traces.max()), self.X.shape[1])
        left = total - float(np.trace(self.source.total_compression(basis)))
        return {
            "worst_loss": worst,
            "gap": (worst - bound) / worst if worst - bound > rounding else 0.0,
            "group_losses": tuple(losses.tolist()),
            "group_errors": tuple(errors.tolist()),
            "least_variance": float(kept.min()),
            "total_error": max(left, 0.0),
            "error_gap": float(np.ptp(errors)),
        }

    def _predicted(self, model: Any) -> dict[str, Any]:
        """Return how well the target is predicted on held-out rows, nothing without one."""
        task = self.task
        if task is None:
            return {}
        # The fit on all rows has said it, with the numbers that the table is about.
        with warnings.catch_warnings(action="ignore"):
            fitted = self._fit(model, task.train)
        Z_train, Z_test = (fitted.transform(self.X[part]) for part in (task.train, task.test))
        if task.classes and task.y.max() == 1:
            classes, of_groups = task.y[task.train], self.groups.codes[task.test]
            found = metrics.held_out_parity(
                Z_train, classes, Z_test, task.y[task.test], sensitive_features=of_groups
            )
            return asdict(found)
        score = task.score(task.predictions(Z_train, Z_test))
        name = "accuracy" if task.classes else "r_squared"
        return {name: _NAN if score is None else score}


def _unnamed(message: str, model: Any) -> str:
    """Return what a reducer said without its name, so that what several say is the same text.

    The name stands beside the message anyway, as the caller chose it.
    """
    return re.sub(rf"\b{type(model).__name__}\b", "the method", message)


def _labels_as_given(groups: Groups, rows: IntArray) -> Any:
    """Return the labels of some rows as the caller wrote them: what a fit says names them.

    One column is an array; several are a dictionary of arrays by name, so that a fit may do with
    them what it would do without a comparison. They are arrays of objects, in which labels of
    mixed types stay apart: in one of text 1 and "1" would be the same.
    """
    if len(groups.names) == 1:
        return np.fromiter(groups.labels, object)[groups.codes[rows]]
    columns = zip(groups.names, zip(*groups.labels, strict=True), strict=True)
    return {name: np.fromiter(part, object)[groups.codes[rows]] for name, part in columns}
