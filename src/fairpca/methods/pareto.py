"""Kamani et al. 2022: Pareto-stationary trade-offs by multiple-gradient descent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fairpca._checks import check_choice, check_limits
from fairpca._linalg import FloatArray
from fairpca.covariances.eigenpairs import leading_pairs
from fairpca.methods.base import CENTERS, PublishedMethod
from fairpca.methods.riemannian import random_bases, retract, tangent
from fairpca.metrics import own_variance
from fairpca.solvers.simplex_qp import maximise_on_simplex

# Smoothing of |z|: starts here and falls with the step number, never below the second value.
_FIRST_SMOOTHING = 0.1
_LAST_SMOOTHING = 1e-6


@dataclass(frozen=True)
class _Point:
    """A basis, the groups' matrices applied to it, and what it costs."""

    basis: FloatArray
    images: FloatArray
    losses: FloatArray
    total: float

    @property
    def disparity(self) -> float:
        """Largest difference between two losses."""
        return float(self.losses.max() - self.losses.min())


class Objectives:
    """Total error and loss disparities of a basis, with their gradients.

    Parameters
    ----------
    covariances : ndarray of shape (k, n, n)
    shares : ndarray of shape (k,)
        Weight of every group in the total error.
    n_components : int
    penalty : {"absolute", "square"}
    """

    def __init__(
        self, covariances: FloatArray, shares: FloatArray, n_components: int, penalty: str
    ) -> None:
        self.covariances = covariances
        self.shares = shares
        self.own = own_variance(covariances, n_components)
        self.penalty = penalty
        self.pooled = np.tensordot(shares, covariances, axes=1)
        self.everything = float(np.trace(self.pooled))

    def at(self, basis: FloatArray) -> _Point:
        """Evaluate a basis."""
        images = self.covariances @ basis
        kept = np.einsum("nr,knr->k", basis, images)
        return _Point(basis, images, self.own - kept, self.everything - float(self.shares @ kept))

    def values(self, point: _Point, smoothing: float) -> FloatArray:
        """Return the total error, then the disparities; two groups have only one."""
        differences = point.losses[:, None] - point.losses
        k = len(differences)
        if self.penalty == "square":
            penalties = 0.5 * differences**2
        else:
            penalties = np.hypot(differences, smoothing) - smoothing
        disparities = penalties.sum(axis=1) / (k - 1)
        return np.append(point.total, disparities[: 1 if k == 2 else k])

    def gradients(self, point: _Point, smoothing: float) -> FloatArray:
        """Return the tangent gradients of `values`, one objective a row of (n, r) matrices."""
        slopes = point.losses[:, None] - point.losses
        if self.penalty == "absolute":
            slopes = slopes / np.hypot(slopes, smoothing)
        k = len(slopes)
        # sum_j slope_ij (S_i - S_j) U, for every i at once.
        mixed = slopes.sum(axis=1)[:, None, None] * point.images
        mixed -= np.tensordot(slopes, point.images, axes=1)
        disparities = -2 * mixed[: 1 if k == 2 else k] / (k - 1)
        total = -2 * np.tensordot(self.shares, point.images, axes=1)
        return np.array([tangent(point.basis, gradient) for gradient in (total, *disparities)])


def common_descent(gradients: FloatArray, floor: float) -> FloatArray:
    """Return the objective weights whose combined gradient is shortest.

    `floor` is the part of the weight that is spread evenly and cannot be taken away.
    """
    p = len(gradients)
    flat = gradients.reshape(p, -1)
    gram = flat @ flat.T
    base, free = np.full(p, floor / p), 1 - floor
    if free <= 0:
        return base
    start = np.full(p, 1 / p)
    chosen = maximise_on_simplex(-free * (gram @ base), free**2 * gram, np.ones(p), start)
    return base + free * chosen


class ParetoFairPCA(PublishedMethod):
    """Trade-off between total error and equal losses, after Kamani et al. (2022).

    Minimises a vector: the total error, and for every group the mean penalty on the difference of
    its loss from the others'. Each step goes along the shortest combination of the gradients,
    which lowers all of them at once.

    Parameters
    ----------
    n_components : int or None, default=None
        Rank r; None keeps all.
    penalty : {"absolute", "square"}, default="absolute"
        Of a loss difference z: |z|, smoothed less and less, or z^2 / 2.
    floor : float, default=0.6
        Part of the objective weights that is spread evenly; 0 is plain multiple-gradient descent.
    step : {"decreasing", "armijo"}, default="decreasing"
        Length ``eta / sqrt(t)`` with ``eta = 1 / (2 lambda_max)``, or backtracking until every
        objective falls.
    start : {"pca", "random"}, default="pca"
    disparity_weight : float, default=1.0
        The iterate kept has the least total error plus this times the largest loss difference.
    tol : float, default=1e-6
        Stop where the combined gradient is shorter than this.
    max_iter : int, default=3000
    center : {"group", "global", "none"}, default="group"
        Second moments are about each group's own mean, the overall mean, or zero.
    random_state : int, RandomState instance or None, default=None
        Of ``start="random"``; None is a fixed seed.

    Attributes
    ----------
    total_error_ : float
        Mean squared error of all rows, second moments as in `center_`.
    disparity_ : float
        Largest difference between two groups' losses.
    objective_weights_ : ndarray
        Of the total error and the disparities at the last step.
    components_, mean_, group_losses_, group_errors_, ...
        As in `fairpca.FairPCA`, without a certificate: the method optimises no worst case.
    n_iter_ : int
    center_ : str
        What the second moments are about.

    Notes
    -----
    This is our variant. The published text leaves constants open, and two of its settings stall:
    PCA is Pareto-stationary, so descent from there never moves, and a squared penalty has a zero
    gradient wherever losses are equal, so every such basis counts as an answer. The absolute
    penalty and ``floor=0.6`` cure both; ``penalty="square", floor=0`` shows them.

    References
    ----------
    M. M. Kamani, F. Haddadpour, R. Forsati, M. Mahdavi. Efficient Fair Principal Component
    Analysis. Machine Learning 111, 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.methods import ParetoFairPCA
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(size=(80, 3)) * [3, 1, 1], rng.normal(size=(20, 3)) * [1, 3, 1]])
    >>> model = ParetoFairPCA(1).fit(X, sensitive_features=[0] * 80 + [1] * 20)
    >>> model.disparity_ < 0.1
    True
    """

    _group_range: ClassVar[tuple[int, int | None]] = (2, None)
    notion: ClassVar[str] = "trade-off"

    def __init__(
        self,
        n_components: int | None = None,
        *,
        penalty: str = "absolute",
        floor: float = 0.6,
        step: str = "decreasing",
        start: str = "pca",
        disparity_weight: float = 1.0,
        tol: float = 1e-6,
        max_iter: int = 3000,
        center: str = "group",
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.penalty = penalty
        self.floor = floor
        self.step = step
        self.start = start
        self.disparity_weight = disparity_weight
        self.tol = tol
        self.max_iter = max_iter
        self.center = center
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any = None, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> ParetoFairPCA:
        """Fit the projection; arguments as in `fairpca.FairPCA.fit`, labels required."""
        self._check_params()
        sample = self._sample(X, sensitive_features, sample_weight)
        covariances = sample.second_moments(self.center)
        r = self._rank(covariances.shape[1])
        objectives = Objectives(covariances, sample.shares, r, self.penalty)
        found, weights, n_iter, reason = self._descend(objectives, r)
        return self._record(
            found.basis,
            sample,
            center_=self.center,
            total_error_=found.total,
            disparity_=found.disparity,
            objective_weights_=weights,
            n_iter_=n_iter,
            stop_reason_=reason,
        )

    def _check_params(self) -> None:
        check_choice("penalty", self.penalty, ("absolute", "square"))
        check_choice("step", self.step, ("decreasing", "armijo"))
        check_choice("start", self.start, ("pca", "random"))
        check_choice("center", self.center, CENTERS)
        check_limits(self.tol, self.max_iter)
        if not 0 <= self.floor <= 1:
            raise ValueError(f"floor={self.floor!r} must be between 0 and 1, for example 0.6.")

    def _descend(self, objectives: Objectives, r: int) -> tuple[_Point, FloatArray, int, str]:
        pooled = objectives.pooled
        if self.start == "pca":
            start = leading_pairs(pooled, r).vectors[:, :r]
        else:
            (start,) = random_bases(len(pooled), r, 1, self.random_state)
        eta = 0.5 / max(float(leading_pairs(pooled, 1).values[0]), np.finfo(float).tiny)
        best = point = objectives.at(start)
        for t in range(self.max_iter):
            smoothing = max(_LAST_SMOOTHING, _FIRST_SMOOTHING / (t + 1))
            gradients = objectives.gradients(point, smoothing)
            weights = common_descent(gradients, self.floor)
            direction = -np.tensordot(weights, gradients, axes=1)
            if float(np.linalg.norm(direction)) <= self.tol:
                return best, weights, t, "stationary"
            if self.step == "decreasing":
                length = eta / np.sqrt(t + 1)
                moved: _Point | None = objectives.at(retract(point.basis, length * direction))
            else:
                moved = _backtrack(objectives, point, direction, eta, smoothing)
            if moved is None:
                return best, weights, t, "no common descent at working precision"
            point = moved
            if self._score(point) < self._score(best):
                best = point
        return best, weights, self.max_iter, "max_iter reached"

    def _score(self, point: _Point) -> float:
        return point.total + self.disparity_weight * point.disparity


def _backtrack(
    objectives: Objectives, point: _Point, direction: FloatArray, length: float, smoothing: float
) -> _Point | None:
    """Return the first point along `direction` at which every objective has fallen enough."""
    before = objectives.values(point, smoothing)
    enough = 1e-4 * float(np.sum(direction**2))
    while length * enough > np.finfo(float).eps * before[0]:
        there = objectives.at(retract(point.basis, length * direction))
        if np.all(objectives.values(there, smoothing) <= before - length * enough):
            return there
        length *= 0.5
    return None
