"""Any list of reducers on one table: every number of each, ranked only on what it optimises."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.utils.validation import has_fit_parameter

from fairpca.arrays import FloatArray, IntArray
from fairpca.checks import check_choice
from fairpca.comparison import Comparison, ComparisonRow
from fairpca.functional import solve
from fairpca.groups import Groups
from fairpca.metrics import (
    covariance_gap,
    held_out_parity,
    kept_variance,
    mean_gap,
    median_bandwidth,
    mmd_squared,
    own_variance,
)
from fairpca.moments import GroupMoments


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
    >>> from fairpca.compare import compare
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
