"""What `fairpca.compare` returns: one row per reducer, and its forms as table, frame and text."""

from __future__ import annotations

import csv
import io
import json
import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.utils.validation import has_fit_parameter

from fairpca._checks import check_choice, require
from fairpca._linalg import FloatArray, IntArray
from fairpca.fitting import solve
from fairpca.metrics import (
    Parity,
    covariance_gap,
    held_out_parity,
    kept_variance,
    mean_gap,
    median_bandwidth,
    mmd_squared,
    own_variance,
)
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.groups import Groups
from fairpca.moments.label_codes import Label

# MERGED: """Any list of reducers on one table: every number of each, ranked only on what it optimises."""

_NAN = float("nan")
_TEXT_COLUMNS = {
    "name": "method",
    "optimises": "optimises",
    "rank": "rank",
    "worst_loss": "worst loss",
    "gap": "above bound",
    "total_error": "total error",
    "error_gap": "error gap",
    "mean_gap": "mean gap",
    "covariance_gap": "cov. gap",
    "mmd_squared": "MMD^2",
    "fit_seconds": "seconds",
    "accuracy": "accuracy",
    "demographic_parity_difference": "parity diff.",
    "equal_opportunity_difference": "opport. diff.",
}
_HELD_OUT = tuple(field.name for field in fields(Parity))


@dataclass(frozen=True)
class ComparisonRow:
    """One reducer.

    Attributes
    ----------
    name : str
    optimises : str
        What the reducer makes small: "loss", "variance", "total error", "mean gap" and so on.
    rank : int or None
        Place among the reducers that optimise the same; None where that is not one number.
    n_components : int
    worst_loss : float
        Largest loss of a group against its own PCA.
    bound : float
        No projection of this rank has a smaller worst loss.
    gap : float
        ``(worst_loss - bound) / worst_loss``.
    group_losses, group_errors : tuple of float
        About the groups' own means, in the order of the labels.
    least_variance : float
        Variance that the group with the least of it keeps.
    total_error : float
        Mean squared reconstruction error of all rows about the overall mean.
    error_gap : float
        Largest difference between two groups' mean squared errors about the overall mean.
    mean_gap, covariance_gap, mmd_squared : float
        How different two groups look after projection, the most different pair.
    fit_seconds : float
    accuracy, demographic_parity_difference, equal_opportunity_difference : float
        Of a linear classifier on held-out rows; NaN without y.
    message : str
        Warnings of the fit, or why it failed.
    """

    name: str
    optimises: str
    rank: int | None = None
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
    message: str = ""

    @property
    def failed(self) -> bool:
        """Whether the reducer could not be fitted."""
        return self.n_components == 0


# The number each notion makes small. Trade-offs and common bases have no single one.
_RANKED_BY: dict[str, Callable[[ComparisonRow], float]] = {
    "loss": lambda row: row.worst_loss,
    "error": lambda row: max(row.group_errors),
    "variance": lambda row: -row.least_variance,
    "total error": lambda row: row.total_error,
    "error gap": lambda row: row.error_gap,
    "mean gap": lambda row: row.mean_gap,
    "covariance gap": lambda row: row.covariance_gap,
    "mmd": lambda row: row.mmd_squared,
}


@dataclass(frozen=True)
class Comparison:
    """The reducers side by side.

    Attributes
    ----------
    rows : tuple of ComparisonRow
    groups : tuple
        Labels, sorted.
    group_counts : tuple of int
    """

    rows: tuple[ComparisonRow, ...]
    groups: tuple[Label, ...]
    group_counts: tuple[int, ...]

    @classmethod
    def of(
        cls, rows: Iterable[ComparisonRow], groups: Iterable[Label], counts: Iterable[int]
    ) -> Comparison:
        """Rank rows and keep them."""
        return cls(_ranked(list(rows)), tuple(groups), tuple(int(count) for count in counts))

    def __getitem__(self, name: str) -> ComparisonRow:
        """Return the row of a reducer."""
        for row in self.rows:
            if row.name == name:
                return row
        raise KeyError(f"{name!r}; there are {', '.join(row.name for row in self.rows)}")

    def to_records(self) -> list[dict[str, Any]]:
        """Return one flat dictionary per reducer; group columns carry the label."""
        found = []
        for row in self.rows:
            record = asdict(row)
            for title, name in (("loss", "group_losses"), ("error", "group_errors")):
                values = record.pop(name) or (_NAN,) * len(self.groups)
                for label, value in zip(self.groups, values, strict=True):
                    record[f"{title} [{label}]"] = value
            found.append(record)
        return found

    def to_frame(self) -> Any:
        """Return a pandas DataFrame, one reducer a row."""
        pandas = require("pandas", extra="app", purpose="Comparison.to_frame")
        return pandas.DataFrame(self.to_records()).set_index("name")

    def to_dict(self) -> dict[str, Any]:
        """Return plain Python values; a missing number is None."""
        rows = [{key: _plain(value) for key, value in asdict(row).items()} for row in self.rows]
        groups = [_plain(label) for label in self.groups]
        return {"groups": groups, "group_counts": list(self.group_counts), "rows": rows}

    def to_json(self, *, indent: int | None = None) -> str:
        """Return `to_dict` as JSON text."""
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def to_csv(self) -> str:
        """Return the records as CSV text; a missing number is an empty field."""
        records = self.to_records()
        text = io.StringIO()
        writer = csv.DictWriter(text, list(records[0]) if records else ["name"])
        writer.writeheader()
        for record in records:
            writer.writerow({key: "" if _missing(cell) else cell for key, cell in record.items()})
        return text.getvalue()

    def __str__(self) -> str:
        """Return a table for people; columns without a number are left out."""

        def known(name: str) -> bool:
            return any(not _missing(getattr(row, name)) for row in self.rows)

        kept = [name for name in _TEXT_COLUMNS if name not in _HELD_OUT or known(name)]
        cells = [[_TEXT_COLUMNS[name] for name in kept]]
        cells += [[_cell(getattr(row, name)) for name in kept] for row in self.rows]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        lines = ["  ".join(_aligned(line, widths)).rstrip() for line in cells]
        lines.insert(1, "  ".join("-" * width for width in widths))
        notes = [f"{row.name}: {row.message}" for row in self.rows if row.message]
        return "\n".join([*lines, *([""] if notes else []), *notes])


def _ranked(rows: list[ComparisonRow]) -> tuple[ComparisonRow, ...]:
    """Fill in the ranks, each among the reducers of one notion and one number of components."""
    found = []
    for row in rows:
        number = _RANKED_BY.get(row.optimises)
        if row.failed or number is None or np.isnan(number(row)):
            found.append(row)
            continue
        # Values that agree to rounding, on the scale of the whole column, share a place.
        column = [abs(number(other)) for other in rows if other.group_errors]
        slack = 1e-9 * max(column, default=0.0)
        rivals = [
            number(other)
            for other in rows
            if other.optimises == row.optimises and other.n_components == row.n_components
        ]
        better = sum(value < number(row) - slack for value in rivals)
        found.append(replace(row, rank=1 + better))
    return tuple(found)


def _missing(value: Any) -> bool:
    return value is None or bool(value != value)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_plain(part) for part in value]
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def _cell(value: Any) -> str:
    if _missing(value):
        return "-"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1e-3 else f"{value:.4f}"
    return str(value)


def _aligned(line: list[str], widths: list[int]) -> list[str]:
    """Pad the cells of a line: words to the left, numbers to the right."""
    words, numbers = zip(line[:2], widths[:2], strict=True), zip(line[2:], widths[2:], strict=True)
    return [text.ljust(width) for text, width in words] + [
        text.rjust(width) for text, width in numbers
    ]


def compare(
    estimators: Any,
    X: Any,
    sensitive_features: Any,
    y: Any = None,
    *,
    test_size: float = 0.3,
    random_state: Any = 0,
    on_error: str = "record",
) -> Comparison:
    """Fit reducers on the same rows and put their numbers side by side.

    A reducer is ranked only among those that optimise the same number; all others show what they
    do to it without being judged by it.

    Parameters
    ----------
    estimators : estimator, list of them, or mapping of name to estimator
        Linear reducers with `fit` and `components_`; they are cloned, not changed. Those whose
        `fit` takes `sensitive_features` get them.
    X : array-like of shape (m, n)
    sensitive_features : array-like, Series, frame or dict
    y : array-like of shape (m,), optional
        Two classes. Each reducer is then fitted once more on the training rows alone, and a
        logistic regression on its output is judged on the rest.
    test_size : float, default=0.3
        Share of rows held out, with `y`.
    random_state : int, RandomState instance or None, default=0
        Of the split.
    on_error : {"record", "raise"}, default="record"
        Whether a reducer that cannot be fitted gets a row with its message.

    Returns
    -------
    Comparison

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
    check_choice("on_error", on_error, ("record", "raise"))
    bench = _Bench.of(X, sensitive_features, y, test_size, random_state)
    rows = [bench.measure(name, model, on_error) for name, model in _named(estimators)]
    return Comparison.of(rows, bench.moments.labels, bench.moments.count)


def default_estimators(n_components: int) -> dict[str, Any]:
    """Return PCA, FairPCA and every published method with this many components, by name."""
    from fairpca import methods
    from fairpca.estimator import FairPCA

    found: dict[str, Any] = {"PCA": PCA(n_components), "FairPCA": FairPCA(n_components)}
    for name in methods.__all__:
        found[name] = getattr(methods, name)(n_components)
    return found


def _named(estimators: Any) -> list[tuple[str, Any]]:
    """Return pairs of distinct names and estimators."""
    if isinstance(estimators, Mapping):
        return [(str(name), model) for name, model in estimators.items()]
    models = list(estimators) if isinstance(estimators, list | tuple) else [estimators]
    names: list[str] = []
    for model in models:
        name, number = type(model).__name__, 2
        while name in names:
            name, number = f"{type(model).__name__} ({number})", number + 1
        names.append(name)
    return list(zip(names, models, strict=True))


@dataclass
class _Bench:
    """The rows every reducer is measured on, and what is computed once for all of them."""

    X: FloatArray
    codes: IntArray
    moments: GroupMoments
    y: Any
    split: tuple[IntArray, IntArray] | None
    bounds: dict[int, float]
    bandwidths: dict[int, float]

    @classmethod
    def of(
        cls, X: Any, sensitive_features: Any, y: Any, test_size: float, random_state: Any
    ) -> _Bench:
        from sklearn.model_selection import train_test_split
        from sklearn.utils import check_array

        rows = check_array(X, dtype=float, ensure_min_samples=2)
        groups = Groups.from_labels(sensitive_features, n_rows=len(rows))
        moments = GroupMoments.from_array(rows, groups).grouped()
        split = None
        if y is not None:
            y = np.asarray(y)
            if y.shape != (len(rows),):
                raise ValueError(f"y has shape {y.shape} but X has {len(rows)} rows.")
            train, test = train_test_split(
                np.arange(len(rows)),
                test_size=test_size,
                random_state=random_state,
                stratify=groups.codes if groups.counts.min() >= 2 else None,
            )
            split = (train, test)
        return cls(rows, groups.codes, moments, y, split, {}, {})

    def measure(self, name: str, model: Any, on_error: str) -> ComparisonRow:
        """Fit one reducer and fill its row."""
        optimises = _notion(model)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                begin = time.perf_counter()
                fitted = self._fit(model, np.arange(len(self.X)))
                seconds = time.perf_counter() - begin
                numbers = self._numbers(fitted)
                parity = self._parity(model)
            except (ValueError, ImportError, RuntimeError, np.linalg.LinAlgError) as error:
                if on_error == "raise":
                    raise
                return ComparisonRow(name, optimises, message=str(error))
        message = " ".join(dict.fromkeys(str(warning.message) for warning in caught))
        return ComparisonRow(
            name, optimises, fit_seconds=seconds, message=message, **numbers, **parity
        )

    def _fit(self, model: Any, rows: IntArray) -> Any:
        known = {}
        if has_fit_parameter(model, "sensitive_features"):
            known["sensitive_features"] = self.codes[rows]
        return clone(model).fit(self.X[rows], **known)

    def _numbers(self, fitted: Any) -> dict[str, Any]:
        Z = np.asarray(fitted.transform(self.X), dtype=float)
        r = Z.shape[1]
        after, codes = np.eye(r), self.codes
        found: dict[str, Any] = {
            "n_components": r,
            "bound": self._bound(r),
            "mean_gap": mean_gap(after, Z, sensitive_features=codes),
            "covariance_gap": covariance_gap(after, Z, sensitive_features=codes),
            "mmd_squared": mmd_squared(
                after, Z, sensitive_features=codes, bandwidth=self._bandwidth(r)
            ),
        }
        basis = np.asarray(fitted.components_, dtype=float).T
        # After a kernel the components live in other columns: no loss in these.
        if len(basis) != self.X.shape[1]:
            return found
        covariances, total = self.moments.covariances, self.moments.pooled()
        kept = kept_variance(basis, covariances)
        losses = np.maximum(own_variance(covariances, r) - kept, 0.0)
        errors = np.maximum(np.trace(covariances, axis1=1, axis2=2) - kept, 0.0)
        # Rows are reconstructed about the overall mean; a group's own shift outside adds to it.
        shift = self.moments.mean - total.mean[0]
        outside = np.sum((shift - shift @ basis @ basis.T) ** 2, axis=1)
        worst, bound = float(losses.max()), found["bound"]
        spread = total.covariances[0]
        floor = max(worst, 1e-12 * float(np.trace(spread)), np.finfo(float).tiny)
        return {
            **found,
            "worst_loss": worst,
            "gap": max(worst - bound, 0.0) / floor,
            "group_losses": tuple(losses.tolist()),
            "group_errors": tuple(errors.tolist()),
            "least_variance": float(kept.min()),
            "total_error": float(np.trace(spread) - np.sum(basis * (spread @ basis))),
            "error_gap": float(np.ptp(errors + outside)),
        }

    def _parity(self, model: Any) -> dict[str, Any]:
        if self.split is None:
            return {}
        train, test = self.split
        fitted = self._fit(model, train)
        found = held_out_parity(
            fitted.transform(self.X[train]),
            self.y[train],
            fitted.transform(self.X[test]),
            self.y[test],
            sensitive_features=self.codes[test],
        )
        return asdict(found)

    def _bound(self, r: int) -> float:
        if r not in self.bounds:
            certificate = solve(self.moments.covariances, r).certificate
            self.bounds[r] = float(certificate.lower_bound)
        return self.bounds[r]

    def _bandwidth(self, r: int) -> float:
        if r not in self.bandwidths:
            self.bandwidths[r] = median_bandwidth(PCA(r).fit_transform(self.X))
        return self.bandwidths[r]


def _notion(model: Any) -> str:
    """Return what an estimator makes small."""
    named = getattr(model, "notion", None) or getattr(model, "criterion", None)
    return str(named) if named else "total error"
