"""Pelegrina and Duarte 2024: u-FPCA and c-FPCA, a one-dimensional family of PCAs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairpca._arrays import FloatArray
from fairpca.covariances.dense import leading_pairs
from fairpca.methods._base import Found, PublishedMethod, Sample, kept_variance

# The golden ratio: with it, one of the two inner points of an interval is one of the next.
_GOLDEN = (1 + 5**0.5) / 2
# Slack of the constraint, in units of the mean variance of a column; the authors' code has the
# same number in squared units of X, for standardised columns. Without it, rounding alone could
# forbid to leave PCA.
_SLACK = 1e-6


@dataclass(frozen=True)
class _Trial:
    """The PCA at one value of alpha, with the groups' weights and mean squared errors there."""

    alpha: float
    weights: FloatArray
    basis: FloatArray
    errors: FloatArray

    @property
    def gap(self) -> float:
        """Squared difference of the two errors."""
        return float((self.errors[0] - self.errors[1]) ** 2)


class UnconstrainedFPCA(PublishedMethod):
    """u-FPCA: equal errors of two groups along a line of PCAs.

    G. D. Pelegrina, L. T. Duarte. A Novel Approach for Fair Principal Component Analysis Based on
    Eigendecomposition. IEEE Transactions on Artificial Intelligence 5, 2024.

    Golden-section search for the alpha in [0, 1] at which the PCA of ``alpha S_M + (1 - alpha) G``
    has the least squared difference between the two groups' errors; ``G = S_B - S_A`` when PCA
    serves A better, otherwise the opposite. The difference is neither continuous nor unimodal in
    alpha, so the search can miss a root. Equal errors are not equal losses. Two groups only.

    Parameters
    ----------
    n_components, center
        As in all of `fairpca.methods`; the authors' center is "global", the default here.
    tol : float, default=1e-6
        Width of the last interval of alpha. `n_iter_` counts eigen-decompositions.

    Attributes
    ----------
    alpha_ : float
    matrix_weights_ : ndarray of shape (2,)
        What the two groups' second moments are multiplied by. A group with a negative entry was
        deliberately served worse, and both groups may fare worse than with PCA.
    group_values_ : ndarray of shape (2,)
        Errors with the second moments of `center_`; the numbers that the method equalises.

    Examples
    --------
    >>> from fairpca import datasets, methods
    >>> known = datasets.make_illustration(random_state=0)
    >>> model = methods.UnconstrainedFPCA(1)
    >>> model = model.fit(known.data, sensitive_features=known.sensitive_features)
    >>> model.group_values_.round(3).tolist(), model.group_losses_.round(3).tolist()
    ([2.312, 2.312], [1.812, 2.012])
    """

    tol: float = 1e-6
    center: str = "global"

    _group_range = (2, 2)
    notion = "error gap"
    # Whether the search goes towards alpha = 0 only where both errors stay below PCA's larger one.
    _limited = False

    def _find(self, sample: Sample) -> Found:
        r = self._rank(sample.n_features)
        unit = sample.column_variance
        covariances = sample.second_moments(self.center) / unit
        traces = np.trace(covariances, axis1=1, axis2=2)
        trials: list[_Trial] = []

        def at(alpha: float) -> _Trial:
            """Return the PCA at `alpha`, counted; what favours a group is known after PCA."""
            weights = alpha * sample.shares + (1 - alpha) * favour
            matrix = np.tensordot(weights, covariances, axes=1)
            basis = leading_pairs(matrix, r).vectors
            errors = traces - kept_variance(basis, covariances)
            trials.append(_Trial(alpha, weights, basis, errors))
            return trials[-1]

        favour = np.zeros(2)
        pca = at(1.0)
        favour = np.array([-1.0, 1.0] if pca.errors[0] <= pca.errors[1] else [1.0, -1.0])
        limit = float(pca.errors.max()) + _SLACK if self._limited else np.inf
        low, high = 0.0, 1.0
        inner, outer = at(high - (high - low) / _GOLDEN), at(low + (high - low) / _GOLDEN)
        while high - low > self.tol:
            # One of the two inner points serves the next interval again.
            if inner.gap < outer.gap and float(inner.errors.max()) <= limit:
                high, outer = outer.alpha, inner
                inner = at(high - (high - low) / _GOLDEN)
            else:
                low, inner = inner.alpha, outer
                outer = at(low + (high - low) / _GOLDEN)
        found = at(0.5 * (low + high))
        own = {
            "alpha_": found.alpha,
            "matrix_weights_": found.weights,
            "group_values_": unit * found.errors,
        }
        return Found(found.basis, "interval closed", len(trials), own)


class ConstrainedFPCA(UnconstrainedFPCA):
    """c-FPCA: as u-FPCA, but no group's error may exceed PCA's worse one.

    By Pelegrina and Duarte, too (see `UnconstrainedFPCA`). The search moves away from PCA only as
    long as both errors stay below the larger of PCA's two.

    Parameters
    ----------
    n_components, center, tol
        As in `UnconstrainedFPCA`.

    Attributes
    ----------
    alpha_, matrix_weights_, group_values_
        As in `UnconstrainedFPCA`.

    Examples
    --------
    >>> from fairpca import datasets, methods
    >>> known = datasets.make_illustration(random_state=0)
    >>> model = methods.ConstrainedFPCA(1)
    >>> model = model.fit(known.data, sensitive_features=known.sensitive_features)
    >>> model.matrix_weights_.round(2).tolist()
    [0.24, 0.45]
    """

    _limited = True
