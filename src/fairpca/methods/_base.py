"""What the published methods share: the rows they read, one `fit`, the fitted attributes.

To add a method, write one module with a class that derives from `PublishedMethod` (as the example
in CONTRIBUTING.md) or from `MinMaxMethod`, and add its import to
``fairpca/methods/__init__.py``, the only list of methods there is. Annotated class attributes are
the parameters; `dataclass` writes the constructor that scikit-learn asks for. `choice` and
`number` declare what a parameter may be, rows and labels are read and checked here, and only
`PublishedMethod.fit` sets fitted attributes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import cached_property
from numbers import Integral, Real
from typing import Any, ClassVar, Self, TypeAlias, dataclass_transform

import numpy as np
from sklearn.utils import check_random_state

from fairpca._arrays import FloatArray, symmetric, threads_for
from fairpca._check import check_choice, check_groups
from fairpca.base import LinearReducer, projection_attributes
from fairpca.covariances.dense import DenseOracle
from fairpca.covariances.sources import MomentCovariances
from fairpca.criteria import CRITERIA
from fairpca.fitting import pose
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.groups import Groups, Labels, Rows, Weights, warn_of_measurements
from fairpca.solvers.problem import Problem
from fairpca.solvers.simplex_qp import maximise_on_simplex
from fairpca.solvers.solution import Solution

#: The ends of open ranges: the largest number, and the least above zero.
LARGEST, POSITIVE = float(np.finfo(float).max), float(np.nextafter(0, 1))
#: Part of the decrease promised by the slope that a step must achieve, the customary value.
ARMIJO = 1e-4
# Most Newton steps over the simplex. Past them the last point is used, which is merely less good.
_NEWTON_STEPS = 50
# Step length below which Newton's line search gives up. The function is convex, so a step that
# fails at this length failed by rounding.
_SHORTEST = 1e-6
# A function over the simplex with its first and second derivatives.
_Curve: TypeAlias = Callable[[FloatArray], tuple[float, FloatArray, FloatArray]]


def choice(default: str, *others: str) -> Any:
    """Declare a parameter that is one of some names."""
    return field(default=default, metadata={"choices": tuple(dict.fromkeys((default, *others)))})


def number(default: float | None, least: float, most: float = LARGEST) -> Any:
    """Declare a parameter that is a number between two, or None where that is the default."""
    return field(default=default, metadata={"range": (least, most)})


#: What parameters of these names may be, in every method that has them.
SHARED: dict[str, dict[str, Any]] = {
    "center": {"choices": ("group", "global", "none")},
    "criterion": {"choices": tuple(CRITERIA)},
    "tol": {"range": (POSITIVE, 1.0)},
    "max_iter": {"range": (1, LARGEST)},
}


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
        """Weight of every group over the weight of all groups."""
        weight = self.source.groups.weight
        return np.asarray(weight / weight.sum())

    @property
    def column_variance(self) -> float:
        """Mean variance of a column, one where there is none: a unit for tolerances."""
        return float(np.trace(self.covariance)) / self.n_features or 1.0

    def second_moments(self, center: str) -> FloatArray:
        """Return every group's mean square about its own mean, the overall mean or zero."""
        origin = np.zeros(self.n_features) if center == "none" else None
        how = "group" if center == "group" else "global"
        return np.asarray(MomentCovariances(self.moments, center=how, origin=origin).covariances)


@dataclass(frozen=True)
class Found:
    """What a method found: orthonormal columns, why it stopped, and how many iterations it took.

    `own` are fitted attributes that only this method has. With `keep_order` the columns keep the
    order they have; otherwise they are rotated so that their variances decrease, as those of PCA
    do.
    """

    basis: FloatArray
    stop_reason: str
    n_iter: int = 1
    own: dict[str, Any] = field(default_factory=dict)
    keep_order: bool = False

    @classmethod
    def of(cls, solution: Solution, n_iter: int = 0, **own: Any) -> Found:
        """Take over a certified solution."""
        own = {
            "group_values_": solution.losses,
            "group_weights_": solution.weights,
            "certificate_": solution.certificate,
            **own,
        }
        basis, reason = solution.components.T, solution.stop_reason
        return cls(basis, reason, n_iter or solution.n_eigen, own)


def certified(
    problem: Problem, basis: FloatArray, weights: FloatArray, n_iter: int, reason: str, **own: Any
) -> Found:
    """Return a basis with the bound that its weights prove, whatever the method believed."""
    pairs = problem.oracle.leading(weights, problem.n_components)
    solution = problem.solution(basis, weights, pairs, stop_reason=reason, solver="")
    return Found.of(solution, n_iter, **own)


def kept_variance(basis: FloatArray, covariances: FloatArray) -> FloatArray:
    """Return ``Tr(basis.T S_i basis)`` for orthonormal columns and (k, n, n) covariances."""
    return DenseOracle(covariances).retained_variance(basis)


def own_variance(covariances: FloatArray, r: int) -> FloatArray:
    """Return the variance each group's own PCA of rank r keeps, for (k, n, n) covariances."""
    return np.array([pairs.values[:r].sum() for pairs in DenseOracle(covariances).own_pairs(r)])


def generator(random_state: Any) -> Any:
    """Return the random generator of a method: None is a fixed seed, so that fits repeat."""
    return check_random_state(0 if random_state is None else random_state)


def tangent(basis: FloatArray, gradient: FloatArray) -> FloatArray:
    """Return the part of a gradient that is tangent to the orthonormal bases at `basis`."""
    return np.asarray(gradient - basis @ symmetric(basis.T @ gradient))


def minimise_on_simplex(evaluate: _Curve, start: FloatArray, tol: float) -> FloatArray:
    """Minimise a smooth convex function over the simplex by Newton's method; return the point.

    `evaluate` returns the value, the gradient and the Hessian at a point of the simplex. The
    search ends where the next step promises no larger decrease than `tol`.
    """
    point, (value, slope, hessian) = start, evaluate(start)
    for _ in range(_NEWTON_STEPS):
        linear = hessian @ point - slope
        change = maximise_on_simplex(linear, hessian, np.ones(len(point)), point) - point
        promised, length = -float(slope @ change), 1.0
        if promised <= tol:
            break
        while (found := evaluate(point + length * change))[0] > value - ARMIJO * length * promised:
            length *= 0.5
            if length < _SHORTEST:
                return point
        point, (value, slope, hessian) = point + length * change, found
    return point


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
        self, X: Rows, y: object = None, *,
        sensitive_features: Labels | None = None, sample_weight: Weights = None,
    ) -> Self:  # fmt: skip
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
            Non-negative; weight 2 is the row twice, weight 0 is no row.

        Returns
        -------
        self
        """
        self._check_params()
        X, groups, weight = self._rows(X, sensitive_features, sample_weight)
        warn_of_measurements(groups)
        return self._fit_sample(Sample.of(X, groups, weight))

    def fit_moments(self, moments: GroupMoments) -> Self:
        """Fit from moments that were counted elsewhere: in chunks, in processes, on a cluster.

        Parameters
        ----------
        moments : GroupMoments

        Returns
        -------
        self
        """
        self._check_params()
        self._note_moments(moments)
        return self._fit_sample(Sample(moments))

    def _fit_sample(self, sample: Sample) -> Self:
        """Find the basis for these rows and set what follows from it."""
        known = sample.source.groups
        check_groups(known.labels, known.weight, sample.source.total.count)
        self._check_group_number(len(known.labels))
        with threads_for(sample.n_features):
            found = self._find(sample)
            source, basis = sample.source, found.basis
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
        self._set_fitted({**common, **shared, **found.own})
        return self

    def _find(self, sample: Sample) -> Found:
        """Compute the basis; the one method that a subclass has to write."""
        raise NotImplementedError

    def _check_params(self) -> None:
        """Raise ValueError naming the first parameter whose value makes no sense."""
        for declared in fields(self):
            name, value = declared.name, getattr(self, declared.name)
            allowed = declared.metadata or SHARED.get(name, {})
            if "choices" in allowed:
                check_choice(name, value, allowed["choices"])
            if "range" not in allowed or (value is None and declared.default is None):
                continue
            low, high = allowed["range"]
            # A text where a module postpones annotations, a class where it does not.
            kind: Any = Integral if "int" in str(declared.type) else Real
            if isinstance(value, bool) or not isinstance(value, kind) or not low <= value <= high:
                least = "above 0" if low == POSITIVE else f"of at least {low}"
                most = f" and at most {high}" if high < LARGEST else ""
                what = "an integer" if kind is Integral else "a finite number"
                raise ValueError(f"{name}={value!r} must be {what} {least}{most}.")

    def _rows(
        self, X: Any, labels: Any, sample_weight: Any, **options: bool
    ) -> tuple[Any, Groups, FloatArray | None]:
        """Validate the arguments of `fit`."""
        if labels is None and self._group_range[0] > 1:
            raise ValueError(
                f"{type(self).__name__} needs sensitive_features: it compares groups, and without "
                "labels there is nothing to compare; pass one label per row."
            )
        return self._read(X, labels, sample_weight, **options)

    def _check_group_number(self, k: int) -> None:
        """Raise ValueError unless the method is written for k groups."""
        fewest, most = self._group_range
        if not fewest <= k <= most:
            needs = f"needs at least {fewest}; check the labels"
            if k > most:
                needs = "is written for two; merge labels, or use FairPCA, which takes any number"
            mine = f"{type(self).__name__} {needs}"
            raise ValueError(f"sensitive_features has {k} group(s) and {mine}.")

    def _rank(self, most: int, of: str = "features") -> int:
        """Return the requested rank, or `most`, the number of what `of` names, for None."""
        if most < (self.n_components or 1):
            raise ValueError(
                f"n_components={self.n_components} is too many for {type(self).__name__}: X has "
                f"{self.n_features_in_} feature(s), and of {of} there are {most}."
            )
        return most if self.n_components is None else int(self.n_components)


class MinMaxMethod(PublishedMethod):
    """Base of methods that serve the worst group; a subclass writes `_solve`."""

    #: Of a method that has no such parameter.
    criterion = "loss"
    center: str = "group"

    @property
    def notion(self) -> str:  # type: ignore[override]
        """The criterion, which is what the worst group is judged by."""
        return self.criterion

    def _find(self, sample: Sample) -> Found:
        covariances = sample.second_moments(self.center)
        return self._solve(self._pose(covariances, self._rank(sample.n_features)))

    def _pose(self, covariances: FloatArray, r: int) -> Problem:
        """Return the problem of the criterion."""
        return pose(covariances, r, self.criterion)

    def _solve(self, problem: Problem) -> Found:
        """Solve it; the one method that a subclass has to write."""
        raise NotImplementedError
