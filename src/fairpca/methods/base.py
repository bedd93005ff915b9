"""What the published methods share: reading rows, second moments, the fitted attributes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeVar

import numpy as np

from fairpca._checks import check_choice, check_groups, check_rank, check_rows, require
from fairpca._linalg import AnyArray, FloatArray, IntArray
from fairpca.base import LinearReducer, projection_attributes
from fairpca.covariances.sources import MomentCovariances
from fairpca.criteria import find_criterion, pose
from fairpca.metrics import kept_variance, own_variance
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.groups import Groups
from fairpca.solvers.problem import Problem
from fairpca.solvers.solution import Solution

CENTERS = ("group", "global", "none")

AnyMethod = TypeVar("AnyMethod", bound="PublishedMethod")


@dataclass(frozen=True)
class Sample:
    """Validated rows and their moments.

    Attributes
    ----------
    X : ndarray of shape (m, n)
    codes : ndarray of shape (m,)
        Group of every row.
    weight : ndarray of shape (m,) or None
    moments : GroupMoments
        Of every group, about the group's own mean.
    total : GroupMoments
        Of all rows as one group.
    """

    X: AnyArray
    codes: IntArray
    weight: FloatArray | None
    moments: GroupMoments
    total: GroupMoments

    @property
    def source(self) -> MomentCovariances:
        """The groups' covariances about their own means, and all rows together."""
        return MomentCovariances(self.moments)

    @property
    def shares(self) -> FloatArray:
        """Weight of every group over the weight of all rows."""
        return np.asarray(self.moments.weight / self.total.weight[0])

    @property
    def covariance(self) -> FloatArray:
        """Covariance of all rows about the overall mean, divided by the weight."""
        return np.asarray(self.total.scatter[0] / self.total.weight[0])

    def mapped(self, X: AnyArray) -> Sample:
        """Return the same rows after a map of their columns."""
        groups = Groups(self.codes, self.moments.labels, self.moments.names, self.moments.count)
        moments = GroupMoments.from_array(X, groups, sample_weight=self.weight)
        return Sample(X, self.codes, self.weight, moments, moments.pooled())

    def second_moments(self, center: str) -> FloatArray:
        """Return every group's mean square about its own mean, the overall mean or zero."""
        covariances = self.moments.covariances
        if center == "group":
            return covariances
        origin = self.total.mean[0] if center == "global" else 0.0
        shift = self.moments.mean - origin
        return np.asarray(covariances + shift[:, :, None] * shift[:, None, :])


class PublishedMethod(LinearReducer):
    """Base of the estimators in `fairpca.methods`.

    A subclass says how many groups it takes and which mean its second moments are about, computes
    a basis from a `Sample`, and hands it to `_record`.
    """

    #: Fewest and most groups; None is any number.
    _group_range: ClassVar[tuple[int, int | None]] = (1, None)
    #: The fairness notion, by which `fairpca.compare` decides who is ranked with whom.
    notion: ClassVar[str] = "loss"

    n_components: int | None

    def _sample(self, X: Any, labels: Any, sample_weight: Any) -> Sample:
        """Validate the arguments of `fit` and count the moments."""
        if labels is None and self._group_range[0] > 1:
            raise ValueError(
                f"{type(self).__name__} needs sensitive_features: it compares groups, and without "
                "labels there is nothing to compare; pass one label per row."
            )
        rows = self._read(X, labels, sample_weight)
        if self.n_components is not None:
            check_rank(self.n_components, rows.X.shape[1])
        counted = GroupMoments.from_array(rows.X, rows.groups, sample_weight=rows.weight)
        moments, total = counted.grouped(), counted.pooled()
        check_rows(int(total.count[0]), type(self).__name__)
        check_groups(moments.labels, moments.weight)
        self._check_group_number(len(moments.labels))
        codes = np.zeros(len(rows.X), dtype=np.int64) if rows.groups is None else rows.groups.codes
        return Sample(rows.X, codes, rows.weight, moments, total)

    def _check_group_number(self, k: int) -> None:
        fewest, most = self._group_range
        if most == 2 and k != 2:
            raise ValueError(
                f"{type(self).__name__} is written for two groups and got {k} in "
                "sensitive_features; merge labels, or use FairPCA, which takes any number."
            )
        if k < fewest:
            raise ValueError(
                f"{type(self).__name__} needs at least {fewest} groups and got {k} in "
                "sensitive_features; check the labels."
            )

    def _rank(self, most: int, reason: str = "the number of features") -> int:
        """Return the requested rank, or the largest one when none was requested."""
        r = most if self.n_components is None else int(self.n_components)
        if r > most:
            raise ValueError(
                f"n_components={r} must be between 1 and {most}, {reason} of "
                f"{type(self).__name__}."
            )
        return r

    def _record(
        self: AnyMethod, basis: FloatArray, sample: Sample, *, rotate: bool = True, **own: Any
    ) -> AnyMethod:
        """Set what every fitted method has, for an orthonormal basis (columns)."""
        source = sample.source
        covariances = source.covariances
        retained = kept_variance(basis, covariances)
        losses = np.maximum(own_variance(covariances, basis.shape[1]) - retained, 0.0)
        common = projection_attributes(source, basis, losses, retained, keep_order=not rotate)
        self._set_fitted({**common, **own})
        return self


@dataclass(frozen=True)
class Found:
    """What a min-max method found.

    Attributes
    ----------
    basis : ndarray of shape (n, r)
    weights : ndarray of shape (k,)
        A point of the simplex.
    lower_bound : float
        A value of the dual function.
    n_iter : int
    stop_reason : str
    own : dict
        Further fitted attributes.
    """

    basis: FloatArray
    weights: FloatArray
    lower_bound: float
    n_iter: int
    stop_reason: str
    own: dict[str, Any] = field(default_factory=dict)


def found_from(solution: Solution) -> Found:
    """Return the answer of the library's own solver as that of a method."""
    bound = solution.certificate.lower_bound
    basis = solution.components.T
    return Found(basis, solution.weights, bound, solution.n_eigen, solution.stop_reason)


class MinMaxMethod(PublishedMethod):
    """Base of methods that serve the worst group by one of the five criteria.

    A subclass turns a `Problem` into a `Found`.
    """

    criterion: str
    center: str

    @property
    def notion(self) -> str:  # type: ignore[override]
        """The criterion, which is what the worst group is judged by."""
        return self.criterion

    def fit(
        self: AnyMethod,
        X: Any,
        y: Any = None,
        *,
        sensitive_features: Any = None,
        sample_weight: Any = None,
    ) -> AnyMethod:
        """Fit the projection.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : Ignored
        sensitive_features : array-like, Series, frame or dict, optional
            One label per row, or several columns of labels, whose combinations are the groups.
            None treats all rows as one group, which is ordinary PCA, and warns.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative; weight 2 is the row twice.

        Returns
        -------
        self
        """
        self._check_params()
        sample = self._sample(X, sensitive_features, sample_weight)
        covariances = sample.second_moments(self.center)
        problem = self._pose(covariances, self._rank(covariances.shape[1]))
        found = self._solve(problem)
        return self._record(
            found.basis,
            sample,
            center_=self.center,
            group_values_=problem.losses(found.basis),
            group_weights_=found.weights,
            certificate_=problem.certificate(found.lower_bound, self._value(problem, found.basis)),
            n_iter_=found.n_iter,
            stop_reason_=found.stop_reason,
            **found.own,
        )

    def _check_params(self) -> None:
        check_choice("center", self.center, CENTERS)
        find_criterion(self.criterion)

    def _pose(self, covariances: FloatArray, r: int) -> Problem:
        return pose(covariances, r, self.criterion)

    def _solve(self, problem: Problem) -> Found:
        raise NotImplementedError

    def _value(self, problem: Problem, basis: FloatArray) -> float:
        return float(problem.losses(basis).max())


def check_positive(**named: float | None) -> None:
    """Raise ValueError naming the first parameter that is not positive; None is left alone."""
    for name, value in named.items():
        if value is not None and not value > 0:
            raise ValueError(f"{name}={value!r} must be positive.")


def import_cvxpy() -> Any:
    """Return the module cvxpy, or say how to get it."""
    return require("cvxpy", extra="methods", purpose="A semidefinite program")


def matrices(problem: Problem) -> FloatArray:
    """Return the (k, n, n) matrices of a problem posed on explicit covariances."""
    return problem.oracle.matrices


def phi_at(problem: Problem, weights: FloatArray) -> float:
    """Return the dual function at a point of the simplex: a bound for every basis."""
    return problem.phi(weights, problem.oracle.leading(weights, problem.n_components))
