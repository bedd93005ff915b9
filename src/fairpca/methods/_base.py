"""What the published methods share: the rows they read, one `fit`, the fitted attributes.

To add a method, write one module with a class that derives from `PublishedMethod` (or from
`MinMaxMethod`, as the example in CONTRIBUTING.md), and add its import to
``fairpca/methods/__init__.py``, the only list of methods there is. Annotated class attributes are
the parameters; `dataclass` writes the constructor that scikit-learn asks for. `choice` and
`number` declare what a parameter may be, rows and labels are read and checked here, and only
`PublishedMethod.fit` sets fitted attributes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from numbers import Integral, Real
from typing import Any, ClassVar, Self, dataclass_transform

import numpy as np

from fairpca._check import check_choice, check_groups, check_limits, check_rows
from fairpca._arrays import FloatArray
from fairpca._arrays import threads_for
from fairpca.base import LinearReducer, Rows, projection_attributes
from fairpca.covariances.sources import MomentCovariances
from fairpca.fitting import pose
from fairpca.metrics import kept_variance, own_variance
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.groups import Groups, warn_of_measurements
from fairpca.solvers.problem import Problem
from fairpca.solvers.solution import Solution

#: What second moments can be about: each group's own mean, the mean of all rows, or zero.
CENTERS = ("group", "global", "none")


#: The end of a range that is open, but does not hold infinity.
LARGEST = float(np.finfo(float).max)
#: The least of all numbers above zero.
POSITIVE = float(np.nextafter(0, 1))


def choice(default: str, *others: str) -> Any:
    """Declare a parameter that is one of some names."""
    return field(default=default, metadata={"choices": (default, *others)})


def number(default: float | None, least: float, most: float = np.inf) -> Any:
    """Declare a parameter that is a number between two, or None where that is the default."""
    return field(default=default, metadata={"range": (least, most)})


@dataclass(frozen=True)
class Sample:
    """The moments of every group, and the rows, groups and weights that they were counted from.

    Without labels there is a single group. Where only moments are known the others are None.
    """

    moments: GroupMoments
    X: Any = None
    groups: Any = None
    weight: FloatArray | None = None

    @classmethod
    def of(cls, X: Any, groups: Groups, weight: FloatArray | None) -> Sample:
        """Count validated rows."""
        return cls(GroupMoments.from_array(X, groups, sample_weight=weight), X, groups, weight)

    @cached_property
    def source(self) -> MomentCovariances:
        """The groups' covariances about their own means, and the facts about all rows."""
        return MomentCovariances(self.moments, center="group")

    @cached_property
    def covariance(self) -> FloatArray:
        """Covariance of all rows about the overall mean, divided by the weight."""
        return np.asarray(self.moments.pooled().covariances[0])

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return self.moments.n_features

    @property
    def shares(self) -> FloatArray:
        """Weight of every group over the weight of all rows."""
        return np.asarray(self.moments.weight / self.source.total.weight)

    @property
    def column_variance(self) -> float:
        """Mean variance of a column, one where there is none: a unit for tolerances."""
        return float(np.trace(self.covariance)) / self.n_features or 1.0

    def second_moments(self, center: str) -> FloatArray:
        """Return every group's mean square about its own mean, the overall mean or zero."""
        if center == "group":
            return self.source.covariances
        facts = self.source.groups
        shift = facts.shift if center == "global" else facts.mean
        # The mean square about a point is the covariance plus the square of the way to the mean.
        return np.asarray(self.source.covariances + shift[:, :, None] * shift[:, None, :])


@dataclass(frozen=True)
class Found:
    """What a method found: orthonormal columns, why it stopped, and how many iterations it took.

    `own` are fitted attributes that only this method has. With `keep_order` the columns keep the
    order they have; otherwise they are rotated so that their variances decrease, as those of PCA
    do. `sample` are the rows that the basis is for, where the method maps them first.
    """

    basis: FloatArray
    stop_reason: str
    n_iter: int = 1
    own: dict[str, Any] = field(default_factory=dict)
    keep_order: bool = False
    sample: Sample | None = None


@dataclass(frozen=True, kw_only=True)
class MinMaxFound(Found):
    """What a min-max method found, with a bound that no basis of this rank can beat.

    `lower_bound` is a value of the dual function, usually the one at `weights`, a point of the
    simplex.
    """

    weights: FloatArray
    lower_bound: float

    @classmethod
    def at(
        cls, problem: Problem, basis: FloatArray, weights: FloatArray, n_iter: int, reason: str
    ) -> MinMaxFound:
        """Take a basis and weights of the method's own, and compute the bound at the weights."""
        return cls(basis, reason, n_iter, weights=weights, lower_bound=phi_at(problem, weights))

    @classmethod
    def of(cls, solution: Solution) -> MinMaxFound:
        """Take over the answer of the library's own solver."""
        basis, reason, weights = solution.components.T, solution.stop_reason, solution.weights
        bound = solution.certificate.lower_bound
        # As the solver states it: with the nodes of a search, if there was one.
        own = {"certificate_": solution.certificate}
        return cls(basis, reason, solution.n_eigen, own, weights=weights, lower_bound=bound)


def phi_at(problem: Problem, weights: FloatArray) -> float:
    """Return the dual function at a point of the simplex: a bound for every basis."""
    return problem.phi(weights, problem.oracle.leading(weights, problem.n_components))


@dataclass_transform(eq_default=False, kw_only_default=True)
@dataclass(eq=False, repr=False)
class PublishedMethod(LinearReducer):
    """Base of the estimators: a subclass declares its parameters and writes `_find`.

    Every subclass is made a dataclass, with `n_components` first and all else by keyword.
    """

    #: Fewest and most groups.
    _group_range: ClassVar[tuple[int, float]] = (1, np.inf)
    #: What the method makes small; `fairpca.compare` ranks methods with the same notion together.
    notion: ClassVar[str] = "loss"

    n_components: int | None = number(None, 1)

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        dataclass(eq=False, repr=False, kw_only=True)(cls)

    def fit(
        self, X: Any, y: Any = None, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> Self:
        """Fit the projection.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Numeric rows without NaN.
        y : Ignored
        sensitive_features : array-like, Series, frame or dict, optional
            One label per row, or several columns of labels, whose combinations are the groups.
            None is one group, ordinary PCA, and warns; methods that compare groups refuse it.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative; weight 2 is the row twice.

        Returns
        -------
        self
        """
        self._check_params()
        with self._restore_on_error():
            rows = self._rows(X, sensitive_features, sample_weight)
            warn_of_measurements(rows.groups)
            groups = rows.groups or Groups.one(len(rows.X))
            return self._fit_sample(Sample.of(rows.X, groups, rows.weight))

    def _fit_sample(self, sample: Sample) -> Self:
        """Find the basis for these rows and set what follows from it."""
        known = sample.source.groups
        check_rows(sample.source.total.count, type(self).__name__)
        check_groups(known.labels, known.weight)
        self._check_group_number(len(known.labels))
        with threads_for(sample.n_features):
            found = self._find(sample)
            source, basis = (found.sample or sample).source, found.basis
            retained = kept_variance(basis, source.covariances)
            losses = own_variance(source.covariances, basis.shape[1]) - retained
        losses, kept = np.maximum(losses, 0.0), found.keep_order
        common = projection_attributes(source, basis, losses, retained, keep_order=kept)
        shared = {
            "center_": getattr(self, "center", "global"),
            # Where there was nothing to iterate the count is 0, and scikit-learn asks for 1.
            "n_iter_": max(found.n_iter, 1),
            "stop_reason_": found.stop_reason,
        }
        self._clear_fitted()
        self._set_fitted({**common, **shared, **found.own})
        return self

    def _find(self, sample: Sample) -> Found:
        """Compute the basis; the one method that a subclass has to write."""
        raise NotImplementedError

    def _check_params(self) -> None:
        """Raise ValueError naming the first parameter whose value makes no sense."""
        check_choice("center", getattr(self, "center", "global"), CENTERS)
        limits = {"tol": 0.5, "max_iter": 1, "prove": False}
        check_limits(**{name: getattr(self, name, valid) for name, valid in limits.items()})
        for declared in fields(self):
            name, value = declared.name, getattr(self, declared.name)
            if "choices" in declared.metadata:
                check_choice(name, value, declared.metadata["choices"])
            if "range" not in declared.metadata or (value is None and declared.default is None):
                continue
            low, high = declared.metadata["range"]
            # A text where a module postpones annotations, a class where it does not.
            whole = str(declared.type).removeprefix("<class '").startswith("int")
            kind: Any = Integral if whole else Real
            if isinstance(value, bool) or not isinstance(value, kind) or not low <= value <= high:
                limit = f"at least {low}" if high >= LARGEST else f"between {low} and {high}"
                limit = "positive" if low == POSITIVE else limit
                finite, integer = ", and finite" * (high == LARGEST), ", and an integer" * whole
                raise ValueError(f"{name}={value!r} must be {limit}{finite}{integer}.")

    def _rows(
        self, X: Any, labels: Any, sample_weight: Any, *, reset: bool = True, part: bool = False
    ) -> Rows:
        """Validate the arguments of `fit`."""
        if labels is None and self._group_range[0] > 1:
            raise ValueError(
                f"{type(self).__name__} needs sensitive_features: it compares groups, and without "
                "labels there is nothing to compare; pass one label per row."
            )
        return self._read(X, labels, sample_weight, reset=reset, part=part)

    def _check_group_number(self, k: int) -> None:
        """Raise ValueError unless the method is written for k groups."""
        fewest, most = self._group_range
        if not fewest <= k <= most:
            needs = f"needs at least {fewest}; check the labels"
            if k > most:
                needs = "is written for two; merge labels, or use FairPCA, which takes any number"
            groups = f"{k} group{'s' * (k != 1)}"
            raise ValueError(f"sensitive_features has {groups} and {type(self).__name__} {needs}.")

    def _rank(self, most: int, of: str = "features") -> int:
        """Return the requested rank, or `most`, the number of what `of` names, for None."""
        name = type(self).__name__
        if most < 1:
            raise ValueError(
                f"X has {self.n_features_in_} feature(s), too few for {name}: it needs {of}, and "
                "there are none. Pass more features."
            )
        r = most if self.n_components is None else int(self.n_components)
        if r > most:
            raise ValueError(
                f"n_components={r} must be between 1 and {most}, the number of {of}, for {name}."
            )
        return r


class MinMaxMethod(PublishedMethod):
    """Base of methods that serve the worst group; a subclass writes `_solve`."""

    #: Of a method that has no such parameter.
    criterion = "loss"
    center: str = "group"

    @property
    def notion(self) -> str:  # type: ignore[override]
        """The criterion, which is what the worst group is judged by."""
        return self.criterion

    def _find(self, sample: Sample) -> MinMaxFound:
        covariances = sample.second_moments(self.center)
        problem = self._pose(covariances, self._rank(sample.n_features))
        found = self._solve(problem)
        values = problem.losses(found.basis)
        own = {
            "group_values_": values,
            "group_weights_": found.weights,
            "certificate_": problem.certificate(found.lower_bound, float(values.max())),
        }
        return replace(found, own={**own, **found.own})

    def _pose(self, covariances: FloatArray, r: int) -> Problem:
        """Return the problem of the criterion."""
        return pose(covariances, r, self.criterion)

    def _solve(self, problem: Problem) -> MinMaxFound:
        """Solve it; the one method that a subclass has to write."""
        raise NotImplementedError
