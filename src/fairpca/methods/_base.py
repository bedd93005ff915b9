"""What the published methods share: the rows they read, one `fit`, the fitted attributes.

To add a method, write one module with a dataclass that derives from `PublishedMethod` (or from
`MinMaxMethod`, as the example in CONTRIBUTING.md), and add its import to
``fairpca/methods/__init__.py``, the only list of methods there is. The fields are the parameters;
`dataclass` writes the constructor that scikit-learn asks for. Checks of parameters are declared
(`_choices`, `_ranges`, `_positive`), rows and labels are read and checked here, and only
`PublishedMethod.fit` sets fitted attributes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np

from fairpca._checks import check_choice, check_groups, check_limits, check_rank, check_rows
from fairpca._linalg import FloatArray
from fairpca._threads import blas_for
from fairpca.base import LinearReducer, Rows, projection_attributes
from fairpca.covariances.sources import MomentCovariances
from fairpca.criteria import CRITERIA, pose
from fairpca.metrics import kept_variance, own_variance
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.groups import Groups, warn_of_measurements
from fairpca.solvers.problem import Problem
from fairpca.solvers.solution import Solution

#: What second moments can be about: each group's own mean, the mean of all rows, or zero.
CENTERS = ("group", "global", "none")


@dataclass(frozen=True)
class Sample:
    """Validated rows, their groups (a single one without labels), weights, and what follows.

    Without rows, `counted` are their moments.
    """

    X: Any
    groups: Any
    weight: FloatArray | None
    counted: GroupMoments | None = None

    @cached_property
    def moments(self) -> GroupMoments:
        """Weight, mean and scatter of every group."""
        if self.counted is not None:
            return self.counted
        return GroupMoments.from_array(self.X, self.groups, sample_weight=self.weight)

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


@dataclass(frozen=True, kw_only=True)
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
        bound = phi_at(problem, weights)
        return cls(
            basis=basis, weights=weights, lower_bound=bound, n_iter=n_iter, stop_reason=reason
        )

    @classmethod
    def of(cls, solution: Solution) -> MinMaxFound:
        """Take over the answer of the library's own solver."""
        return cls(
            basis=solution.components.T,
            weights=solution.weights,
            lower_bound=solution.certificate.lower_bound,
            n_iter=solution.n_eigen,
            stop_reason=solution.stop_reason,
            # As the solver states it: with the nodes of a search, if there was one.
            own={"certificate_": solution.certificate},
        )


def phi_at(problem: Problem, weights: FloatArray) -> float:
    """Return the dual function at a point of the simplex: a bound for every basis."""
    return problem.phi(weights, problem.oracle.leading(weights, problem.n_components))


class PublishedMethod(LinearReducer):
    """Base of the estimators: a subclass declares its parameters and writes `_find`."""

    #: Fewest and most groups; None is any number.
    _group_range: ClassVar[tuple[int, int | None]] = (1, None)
    #: What the method makes small; `fairpca.compare` ranks methods with the same notion together.
    notion: ClassVar[str] = "loss"
    #: Allowed values of parameters that are choices. `center` is always checked.
    _choices: ClassVar[dict[str, tuple[str, ...]]] = {}
    #: Smallest and largest value of numeric parameters. Those that say when to stop are always
    #: checked.
    _ranges: ClassVar[dict[str, tuple[float, float]]] = {}
    #: Parameters that must be above zero, or None where None is the default.
    _positive: ClassVar[tuple[str, ...]] = ()

    n_components: int | None

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
        rows = self._rows(X, sensitive_features, sample_weight)
        warn_of_measurements(rows.groups, stacklevel=2)
        return self._fit_sample(
            Sample(rows.X, rows.groups or Groups.one(len(rows.X)), rows.weight)
        )

    def _fit_sample(self, sample: Sample) -> Self:
        """Find the basis for these rows and set what follows from it."""
        known = sample.source.groups
        check_rows(sample.source.total.count, type(self).__name__)
        check_groups(known.labels, known.weight)
        self._check_group_number(len(known.labels))
        with blas_for(sample.n_features):
            found = self._find(sample)
            source = (found.sample or sample).source
            retained = kept_variance(found.basis, source.covariances)
            own = own_variance(source.covariances, found.basis.shape[1])
        losses = np.maximum(own - retained, 0.0)
        common = projection_attributes(
            source, found.basis, losses, retained, keep_order=found.keep_order
        )
        shared = {
            "center_": getattr(self, "center", "global"),
            # Where there was nothing to iterate the count is 0, and scikit-learn asks for 1.
            "n_iter_": max(found.n_iter, 1),
            "stop_reason_": found.stop_reason,
        }
        self._set_fitted({**common, **shared, **found.own})
        return self

    def _find(self, sample: Sample) -> Found:
        """Compute the basis; the one method that a subclass has to write."""
        raise NotImplementedError

    def _check_params(self) -> None:
        """Raise ValueError naming the first parameter whose value makes no sense."""
        choices = {"center": CENTERS} if hasattr(self, "center") else {}
        for name, allowed in {**choices, **self._choices}.items():
            check_choice(name, getattr(self, name), allowed)
        limits = {"tol": 0.5, "max_iter": 1, "prove": False}
        check_limits(**{name: getattr(self, name, valid) for name, valid in limits.items()})
        for name, (low, high) in self._ranges.items():
            limit = f"at least {low}" if high == np.inf else f"between {low} and {high}"
            self._check_number(name, low, high, limit)
        for name in self._positive:
            self._check_number(name, np.nextafter(0, 1), np.inf, "positive")

    def _check_number(self, name: str, low: float, high: float, limit: str) -> None:
        """Raise ValueError unless a parameter is a number within limits, or None as by default.

        Annotations tell which are integers.
        """
        declared = self.__dataclass_fields__[name]
        value, whole = getattr(self, name), declared.type.startswith("int")
        if value is None and declared.default is None:
            return
        kind: Any = Integral if whole else Real
        if not isinstance(value, kind) or not low <= value <= high:
            raise ValueError(f"{name}={value!r} must be {limit}{', and an integer' * whole}.")

    def _rows(self, X: Any, labels: Any, sample_weight: Any, *, reset: bool = True) -> Rows:
        """Validate the arguments of `fit` and the rank."""
        if labels is None and self._group_range[0] > 1:
            raise ValueError(
                f"{type(self).__name__} needs sensitive_features: it compares groups, and without "
                "labels there is nothing to compare; pass one label per row."
            )
        rows = self._read(X, labels, sample_weight, reset=reset)
        if self.n_components is not None:
            check_rank(self.n_components, rows.X.shape[1])
        return rows

    def _check_group_number(self, k: int) -> None:
        """Raise ValueError unless the method is written for k groups."""
        fewest, most = self._group_range
        name = type(self).__name__
        if k < fewest:
            raise ValueError(
                f"sensitive_features has {k} group{'s' * (k != 1)} and {name} needs at least "
                f"{fewest}; check the labels."
            )
        if most is not None and k > most:
            raise ValueError(
                f"sensitive_features has {k} groups and {name} is written for two; merge labels, "
                "or use FairPCA, which takes any number."
            )

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

    _choices: ClassVar[dict[str, tuple[str, ...]]] = {"criterion": tuple(CRITERIA)}

    criterion: str
    center: str

    @property
    def notion(self) -> str:  # type: ignore[override]
        """The criterion, which is what the worst group is judged by."""
        return self.criterion

    def _find(self, sample: Sample) -> Found:
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
