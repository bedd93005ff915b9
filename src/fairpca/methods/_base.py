"""What the published methods share: the rows they read, one `fit`, the fitted attributes.

To add a method, write one module with a class such as this one, and add its import to
``fairpca/methods/__init__.py``, the only list of methods there is::

    @dataclass(eq=False, repr=False)
    class MyPCA(PublishedMethod):
        n_components: int | None = None
        _: KW_ONLY
        strength: float = 1.0

        notion: ClassVar[str] = "mean gap"
        _positive: ClassVar[tuple[str, ...]] = ("strength",)

        def _find(self, sample: Sample) -> Found:
            r = self._rank(sample.n_features)
            basis = ...
            return Found(basis=basis, stop_reason="closed form")

The fields are the parameters. `dataclass` writes the constructor that scikit-learn asks for, one
that stores its arguments and does nothing else; comparison and display stay scikit-learn's. Checks
of parameters are declared (`_choices`, `_ranges`, `_positive`), rows and labels are read and
checked here, and only `PublishedMethod.fit` sets fitted attributes.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np

from fairpca._checks import check_choice, check_groups, check_limits, check_rank, check_rows
from fairpca._linalg import AnyArray, FloatArray
from fairpca.base import LinearReducer, projection_attributes
from fairpca.covariances.sources import MomentCovariances
from fairpca.criteria import CRITERIA, pose
from fairpca.metrics import kept_variance, own_variance
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.groups import Groups
from fairpca.solvers.problem import Problem
from fairpca.solvers.solution import Solution

#: What second moments can be about: each group's own mean, the mean of all rows, or zero.
CENTERS = ("group", "global", "none")


@dataclass(frozen=True)
class Sample:
    """Validated rows and what is known of them.

    Attributes
    ----------
    X : ndarray of shape (m, n)
        The rows, without NaN.
    groups : Groups
        The group of every row; a single one where no labels were given.
    weight : ndarray of shape (m,) or None
        Sample weights.
    moments : GroupMoments
        Of every group.
    source : MomentCovariances
        The groups' covariances about their own means, and the facts about all rows together.
    covariance : ndarray of shape (n, n)
        Covariance of all rows about the overall mean, divided by the weight.
    """

    X: AnyArray
    groups: Groups
    weight: FloatArray | None
    moments: GroupMoments
    source: MomentCovariances
    covariance: FloatArray

    @classmethod
    def of(cls, X: AnyArray, groups: Groups, weight: FloatArray | None) -> Sample:
        """Count the moments of rows."""
        moments = GroupMoments.from_array(X, groups, sample_weight=weight)
        covariance = moments.pooled().covariances[0]
        source = MomentCovariances(moments, center="group")
        return cls(X, groups, weight, moments, source, covariance)

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.X.shape[1])

    @property
    def shares(self) -> FloatArray:
        """Weight of every group over the weight of all rows."""
        return np.asarray(self.moments.weight / self.source.total.weight)

    def second_moments(self, center: str) -> FloatArray:
        """Return every group's mean square about its own mean, the overall mean or zero."""
        if center == "group":
            return self.source.covariances
        shift = self.source.groups.shift if center == "global" else self.moments.mean
        # The mean square about a point is the covariance plus the square of the way to the mean.
        return np.asarray(self.source.covariances + shift[:, :, None] * shift[:, None, :])


@dataclass(frozen=True, kw_only=True)
class Found:
    """What a method found.

    Attributes
    ----------
    basis : ndarray of shape (n, r)
        Orthonormal columns.
    stop_reason : str
        Why the method stopped, in words.
    n_iter : int, default=1
        Iterations, in the unit that the method documents.
    own : dict, default={}
        Fitted attributes that only this method has.
    keep_order : bool, default=False
        Whether the columns have an order of their own. Otherwise they are rotated so that their
        variances decrease, as those of PCA do.
    sample : Sample, optional
        The rows that the basis is for, where the method maps them first.
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

    Attributes
    ----------
    weights : ndarray of shape (k,)
        A point of the simplex.
    lower_bound : float
        A value of the dual function, usually the one at `weights`.
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
        )


def phi_at(problem: Problem, weights: FloatArray) -> float:
    """Return the dual function at a point of the simplex: a bound for every basis."""
    return problem.phi(weights, problem.oracle.leading(weights, problem.n_components))


class PublishedMethod(LinearReducer):
    """Base of the estimators in `fairpca.methods`.

    A subclass declares its parameters and their limits, computes a basis from a `Sample` in
    `_find`, and returns it as a `Found`.
    """

    #: Fewest and most groups; None is any number.
    _group_range: ClassVar[tuple[int, int | None]] = (1, None)
    #: What the method makes small; `fairpca.compare` ranks methods with the same notion together.
    notion: ClassVar[str] = "loss"
    #: Allowed values of parameters that are choices. `center` is always checked.
    _choices: ClassVar[dict[str, tuple[str, ...]]] = {}
    #: Smallest and largest value of numeric parameters. `tol` and `max_iter` are always checked.
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
            For scikit-learn's pipelines.
        sensitive_features : array-like, Series, frame or dict, optional
            One label per row, or several columns of labels, whose combinations are the groups.
            None treats all rows as one group, which is ordinary PCA, and warns; methods that
            compare groups refuse it.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative; weight 2 is the row twice.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            If an argument or a parameter makes no sense, or if the number of groups is not one
            that the method is written for. The message names the argument and the remedy.
        """
        self._check_params()
        sample = self._sample(X, sensitive_features, sample_weight)
        found = self._find(sample)
        source = (found.sample or sample).source
        retained = kept_variance(found.basis, source.covariances)
        own = own_variance(source.covariances, found.basis.shape[1])
        losses = np.maximum(own - retained, 0.0)
        basis, order = found.basis, found.keep_order
        common = projection_attributes(source, basis, losses, retained, keep_order=order)
        shared = {
            # Methods without a choice of center compare the groups' means, so theirs is "global":
            # about the groups' own means there would be nothing to compare.
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
        check_limits(getattr(self, "tol", 0.5), getattr(self, "max_iter", 1))
        for name, (low, high) in self._ranges.items():
            value = getattr(self, name)
            if not low <= value <= high:
                limit = f"at least {low}" if high == np.inf else f"between {low} and {high}"
                raise ValueError(f"{name}={value!r} must be {limit}.")
        for name in self._positive:
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name}={value!r} must be positive.")

    def _sample(self, X: Any, labels: Any, sample_weight: Any) -> Sample:
        """Validate the arguments of `fit` and count the moments."""
        name = type(self).__name__
        if labels is None and self._group_range[0] > 1:
            raise ValueError(
                f"{name} needs sensitive_features: it compares groups, and without labels there "
                "is nothing to compare; pass one label per row."
            )
        rows = self._read(X, labels, sample_weight)
        if self.n_components is not None:
            check_rank(self.n_components, rows.X.shape[1])
        sample = Sample.of(rows.X, rows.groups or Groups.one(len(rows.X)), rows.weight)
        check_rows(sample.source.total.count, name)
        check_groups(sample.moments.labels, sample.moments.weight)
        self._check_group_number(len(sample.moments.labels))
        return sample

    def _check_group_number(self, k: int) -> None:
        """Raise ValueError unless the method is written for k groups."""
        fewest, most = self._group_range
        name = type(self).__name__
        if most == 2 and k != 2:
            raise ValueError(
                f"{name} is written for two groups and got {k} in sensitive_features; merge "
                "labels, or use FairPCA, which takes any number."
            )
        if k < fewest:
            raise ValueError(
                f"{name} needs at least {fewest} groups and got {k} in sensitive_features; check "
                "the labels."
            )

    def _rank(self, most: int, of: str = "features") -> int:
        """Return the requested rank, or the largest possible one when none was requested.

        Parameters
        ----------
        most : int
            The largest rank.
        of : str
            What that number counts, for the errors.
        """
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
    """Base of methods that serve the worst group by one of the five criteria.

    A subclass turns a `Problem` into a `MinMaxFound`; the certificate is added here.
    """

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
