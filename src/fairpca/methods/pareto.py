"""Kamani et al. 2022: Pareto-stationary trade-offs by multiple-gradient descent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairpca._arrays import FloatArray, orthonormal
from fairpca.covariances.dense import leading_pairs
from fairpca.methods._base import (
    Found,
    PublishedMethod,
    Sample,
    about,
    choice,
    number,
    own_variance,
    tolerance,
)
from fairpca.methods._descent import ARMIJO, random_bases, tangent
from fairpca.solvers.simplex_qp import maximise_on_simplex

# Smoothing of |z|: starts here and falls with the step number, never below the second value. With
# these, 3000 steps on credit, r = 5, end 0.2 % above the least total error with equal losses.
_FIRST_SMOOTHING, _LAST_SMOOTHING = 0.1, 1e-6


@dataclass(frozen=True)
class _Point:
    """A basis, the groups' matrices times it, what every group loses, and the total error."""

    basis: FloatArray
    images: FloatArray
    losses: FloatArray
    total: float


class Objectives:
    """Total error and loss disparities of a basis, with their gradients.

    `covariances` are the groups' second moments, shape (k, n, n), `shares` the weight of every
    group in the total error, `penalty` that of a difference of losses.
    """

    def __init__(
        self, covariances: FloatArray, shares: FloatArray, n_components: int, penalty: str
    ) -> None:
        self.covariances, self.shares, self.penalty = covariances, shares, penalty
        self.own = own_variance(covariances, n_components)
        self.pooled = np.tensordot(shares, covariances, axes=1)

    def at(self, basis: FloatArray) -> _Point:
        """Evaluate a basis."""
        images = self.covariances @ basis
        kept = np.einsum("nr,knr->k", basis, images)
        total = float(np.trace(self.pooled) - self.shares @ kept)
        return _Point(basis, images, self.own - kept, total)

    def values(self, point: _Point, smoothing: float) -> FloatArray:
        """Return the total error, then the disparities; two groups have only one."""
        differences = point.losses[:, None] - point.losses
        if self.penalty == "square":
            penalties = 0.5 * differences**2
        else:
            penalties = np.hypot(differences, smoothing) - smoothing
        return np.append(point.total, self._distinct(penalties.sum(axis=1)))

    def gradients(self, point: _Point, smoothing: float) -> FloatArray:
        """Return the tangent gradients of `values`, one objective a row of (n, r) matrices."""
        slopes = point.losses[:, None] - point.losses
        if self.penalty == "absolute":
            slopes = slopes / np.hypot(slopes, smoothing)
        # sum_j slope_ij (S_i - S_j) U, for every i at once.
        mixed = slopes.sum(axis=1)[:, None, None] * point.images
        mixed -= np.tensordot(slopes, point.images, axes=1)
        total = np.tensordot(self.shares, point.images, axes=1)
        return np.array([tangent(point.basis, -2 * g) for g in (total, *self._distinct(mixed))])

    def _distinct(self, sums: FloatArray) -> FloatArray:
        """Return sums over the other groups as means; of two groups, whose are equal, only one."""
        k = len(self.shares)
        return sums[: 1 if k == 2 else k] / (k - 1)


def common_descent(gradients: FloatArray, floor: float) -> FloatArray:
    """Return the weights of p objectives whose combined gradient is shortest.

    `gradients` has shape (p, n, r). The part `floor` of the weight is spread evenly.
    """
    p = len(gradients)
    flat = gradients.reshape(p, -1)
    gram = flat @ flat.T
    base, free, start = np.full(p, floor / p), 1 - floor, np.full(p, 1 / p)
    chosen = maximise_on_simplex(-free * (gram @ base), free**2 * gram, np.ones(p), start)
    return base + free * chosen


class ParetoFairPCA(PublishedMethod):
    """Trade-off between total error and equal losses.

    After M. M. Kamani, F. Haddadpour, R. Forsati, M. Mahdavi. Efficient Fair Principal Component
    Analysis. Machine Learning 111, 2022.

    Minimises a vector: the total error, and for every group the mean penalty on the difference of
    its loss from the others'. Each step goes along the shortest combination of the gradients,
    which lowers all of them at once.

    This is our variant. The text leaves constants open, and two of its settings stall: PCA is
    Pareto-stationary, and a squared penalty has a zero gradient wherever losses are equal. The
    absolute penalty and ``floor=0.6`` cure both; ``penalty="square", floor=0`` shows them.

    Parameters
    ----------
    n_components, center, random_state
        As in all of `fairpca.methods`.
    penalty : {"absolute", "square"}, default="absolute"
        Of a loss difference z: its absolute value, smoothed less and less, or z^2 / 2.
    floor : float, default=0.6
        Part of the objective weights that is spread evenly; 0 is plain multiple-gradient descent.
    step : {"decreasing", "armijo"}, default="decreasing"
        Length ``1 / (2 lambda_max sqrt(t))``, or backtracking until every objective falls. At PCA
        the total error cannot fall, and backtracking makes no step: give it ``start="random"``.
    start : {"pca", "random"}, default="pca"
        Descend from the PCA of all rows, or from a random basis.
    disparity_weight : float, default=1.0
        The iterate kept has the least total error plus this times the largest loss difference.
    tol, max_iter : float, int, default=1e-6, 3000
        Stop where the combined gradient is shorter, in units of the mean variance of a column, or
        after as many steps.

    Attributes
    ----------
    total_error_, disparity_ : float
        Mean squared error of all rows about what `center` names (with "group" it is below
        that about `mean_`), and the largest difference between two groups' losses.
    objective_weights_ : ndarray
        Of the total error and the disparities at the last step.

    Examples
    --------
    >>> from fairpca import datasets, methods
    >>> known = datasets.make_illustration(random_state=0)
    >>> model = methods.ParetoFairPCA(1)
    >>> round(model.fit(known.data, sensitive_features=known.sensitive_features).disparity_, 1)
    1.0
    """

    penalty: str = choice("absolute", "square")
    floor: float = number(0.6, 0, 1)
    step: str = choice("decreasing", "armijo")
    start: str = choice("pca", "random")
    disparity_weight: float = number(1.0, 0)
    tol: float = tolerance(1e-6)
    max_iter: int = number(3000, 1)
    center: str = about()
    random_state: Any = None

    _group_range = (2, np.inf)
    notion = "trade-off"

    def _find(self, sample: Sample) -> Found:
        r = self._rank(sample.n_features)
        # Smoothing and `tol` are lengths: in this unit they mean the same for every table.
        unit = sample.column_variance
        covariances = sample.second_moments(self.center) / unit
        objectives = Objectives(covariances, sample.shares, r, self.penalty)
        pairs = leading_pairs(objectives.pooled, r)
        start = pairs.vectors[:, :r]
        if self.start == "random":
            (start,) = random_bases(sample.n_features, r, 1, self.random_state)
        # The total error has a second derivative of at most twice the largest eigenvalue.
        eta = 0.5 / max(float(pairs.values[0]), np.finfo(float).tiny)
        best = point = objectives.at(start)
        reason = "max_iter reached"
        for steps in range(1, self.max_iter + 1):
            smoothing = max(_LAST_SMOOTHING, _FIRST_SMOOTHING / steps)
            gradients = objectives.gradients(point, smoothing)
            weights = common_descent(gradients, self.floor)
            direction = -np.tensordot(weights, gradients, axes=1)
            if float(np.linalg.norm(direction)) <= self.tol:
                reason = "stationary"
                break
            if self.step == "decreasing":
                length = eta / np.sqrt(steps)
                point = objectives.at(orthonormal(point.basis + length * direction))
            elif (lower := _backtrack(objectives, point, direction, eta, smoothing)) is not None:
                point = lower
            else:
                reason = "no common descent at working precision"
                break
            # A vector has no least value, so the iterates are compared by a sum.
            best = min(
                best, point, key=lambda p: p.total + self.disparity_weight * np.ptp(p.losses)
            )
        own = {
            "total_error_": unit * best.total,
            "disparity_": unit * float(np.ptp(best.losses)),
            "objective_weights_": weights,
        }
        return Found(best.basis, reason, steps, own)


def _backtrack(
    objectives: Objectives, point: _Point, direction: FloatArray, length: float, smoothing: float
) -> _Point | None:
    """Return the first point along `direction` at which every objective has fallen enough.

    None where steps become so short that rounding decides.
    """
    before = objectives.values(point, smoothing)
    enough = ARMIJO * float(np.sum(direction**2))
    # A decrease below the rounding of the total error could not be seen.
    while length * enough > np.finfo(float).eps * before[0]:
        there = objectives.at(orthonormal(point.basis + length * direction))
        if np.all(objectives.values(there, smoothing) <= before - length * enough):
            return there
        length *= 0.5
    return None
