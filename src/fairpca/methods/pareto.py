"""Kamani et al. 2022: Pareto-stationary trade-offs by multiple-gradient descent."""

from __future__ import annotations

import numpy as np

from fairpca._arrays import TINY, FloatArray, orthonormal
from fairpca.covariances.dense import leading_pairs
from fairpca.methods._base import Found, PublishedMethod, Sample, number, own_variance, tangent
from fairpca.solvers.simplex_qp import maximise_on_simplex

# Smoothing of |z|: starts here and falls with the step number, never below the second value. With
# these, 3000 steps on credit, r = 5, end 0.2 % above the least total error with equal losses.
_FIRST_SMOOTHING, _LAST_SMOOTHING = 0.1, 1e-6


def gradients(
    basis: FloatArray, images: FloatArray, losses: FloatArray, shares: FloatArray, smoothing: float
) -> FloatArray:
    """Return the tangent gradients of the total error and of every group's disparity.

    `images` are the groups' matrices times the basis. The disparity of a group is the mean over
    the others of ``hypot(difference of losses, smoothing)``; of two groups, whose disparities are
    equal, there is one.
    """
    k = len(losses)
    slopes = losses[:, None] - losses
    slopes = slopes / np.hypot(slopes, smoothing)
    # sum_j slope_ij (S_i - S_j) U, for every i at once.
    mixed = slopes.sum(axis=1)[:, None, None] * images - np.tensordot(slopes, images, axes=1)
    parts = np.tensordot(shares, images, axes=1), *(mixed[: 1 if k == 2 else k] / (k - 1))
    return np.array([tangent(basis, -2 * part) for part in parts])


def common_descent(slopes: FloatArray, floor: float) -> FloatArray:
    """Return the weights of p objectives whose combined gradient is shortest.

    `slopes` has shape (p, n, r). The part `floor` of the weight is spread evenly.
    """
    p = len(slopes)
    flat = slopes.reshape(p, -1)
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

    This is our variant. The text leaves constants open, and two natural settings stall: PCA is
    Pareto-stationary, and a squared penalty has a zero gradient wherever losses are equal. So the
    penalty is the absolute difference, smoothed less and less, and ``floor`` leaves PCA, where the
    descent starts.

    Parameters
    ----------
    n_components, center
        As in all of `fairpca.methods`.
    floor : float, default=0.6
        Part of the objective weights that is spread evenly; 0 is plain multiple-gradient descent,
        which stays at PCA.
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

    floor: float = number(0.6, 0, 1)
    disparity_weight: float = number(1.0, 0)
    tol: float = 1e-6
    max_iter: int = 3000
    center: str = "group"

    _group_range = (2, np.inf)
    notion = "trade-off"

    def _find(self, sample: Sample) -> Found:
        r, shares = self._rank(sample.n_features), sample.shares
        # Smoothing and `tol` are lengths: in this unit they mean the same for every table.
        unit = sample.column_variance
        covariances = sample.second_moments(self.center) / unit
        own, traces = own_variance(covariances, r), np.einsum("kii->k", covariances)
        pairs = leading_pairs(np.tensordot(shares, covariances, axes=1), r)
        basis, least, reason = pairs.vectors, np.inf, "max_iter reached"
        # The total error has a second derivative of at most twice the largest eigenvalue.
        eta = 0.5 / max(float(pairs.values[0]), TINY)
        for steps in range(1, self.max_iter + 1):
            images = covariances @ basis
            kept = np.einsum("nr,knr->k", basis, images)
            total, disparity = float(shares @ (traces - kept)), float(np.ptp(own - kept))
            # A vector has no least value, so the iterates are compared by a sum.
            if total + self.disparity_weight * disparity < least:
                least, best = total + self.disparity_weight * disparity, (basis, total, disparity)
            smoothing = max(_LAST_SMOOTHING, _FIRST_SMOOTHING / steps)
            slopes = gradients(basis, images, own - kept, shares, smoothing)
            weights = common_descent(slopes, self.floor)
            direction = np.tensordot(weights, slopes, axes=1)
            if float(np.linalg.norm(direction)) <= self.tol:
                reason = "stationary"
                break
            basis = orthonormal(basis - eta / np.sqrt(steps) * direction)
        fitted = {
            "total_error_": unit * best[1],
            "disparity_": unit * best[2],
            "objective_weights_": weights,
        }
        return Found(best[0], reason, steps, fitted)
