"""Lee et al. 2022: MbF-PCA, PCA under a bound on the maximum mean discrepancy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.optimize
from sklearn.exceptions import ConvergenceWarning

from fairpca._arrays import FloatArray, orthonormal
from fairpca._check import warn
from fairpca.covariances.dense import leading_pairs
from fairpca.methods._base import POSITIVE, Found, PublishedMethod, Sample, number
from fairpca.methods.null_space import equal_mean_directions, leading_within
from fairpca.metrics import balanced_draw, gaussian_product, median_bandwidth
from fairpca.moments.groups import Seed

# The authors' schedule. The tolerance of the gradient falls from the first to the last value by
# the factor; the penalty doubles as long as the bound is not met, up to the largest.
_FIRST_TOL, _LAST_TOL, _TOL_FACTOR = 1e-1, 1e-6, 0.1
_PENALTY_FACTOR, _LARGEST_PENALTY = 2.0, 1e10
# The authors' limit of descent steps for one penalty, and the movement of the projector below
# which the basis counts as settled.
_INNER_STEPS, _SETTLED = 300, 1e-6
# MMD^2 has stalled where a doubled penalty leaves more than this share of it. After that many
# stalls in a row the bound counts as out of reach; the authors double about 30 times.
_STALLED, _MOST_STALLS = 0.999, 6


class Discrepancy:
    """MMD^2 of two groups' projected rows and its gradient, as one quadratic form.

    With signed weights a (a group's rows sum to 1, the other's to -1), MMD^2 = a.T K a. Equal
    rows are merged first, which is exact and pays on data with few distinct values.
    """

    def __init__(self, X: FloatArray, signed: FloatArray, bandwidth: float) -> None:
        self.rows, position = np.unique(X, axis=0, return_inverse=True)
        self.signed = np.bincount(position.ravel(), signed, minlength=len(self.rows))
        self.bandwidth = bandwidth

    def __call__(self, basis: FloatArray) -> tuple[float, FloatArray]:
        """Return value and Euclidean gradient at a basis."""
        a = self.signed[:, None]
        Z = self.rows @ basis / self.bandwidth
        product = a * gaussian_product(Z, np.hstack([a * Z, a]))
        sums = product[:, -1:]
        # X.T (diag(W 1) - W) Z for W_ij = a_i a_j K_ij; the n x n bracket is never formed.
        gradient = self.rows.T @ (sums * Z - product[:, :-1])
        return float(sums.sum()), -(2 / self.bandwidth) * gradient


class MMDFairPCA(PublishedMethod):
    """MbF-PCA: PCA whose projected groups have nearly the same distribution.

    J. Lee, G. Kim, M. Olfat, M. Hasegawa-Johnson, C. D. Yoo. Fast and Efficient MMD-Based Fair PCA
    via Optimization over Stiefel Manifold. AAAI, 2022.

    Maximises the explained variance subject to a bound on the squared maximum mean discrepancy of
    the two groups' projected rows under a Gaussian kernel, by a penalty that doubles until the
    bound is met. The descent starts at the PCA with equal group means, where the authors start at
    random bases; the problem has local optima. Nothing is given back from there on, so the result
    may lie well inside the bound and keep less variance than the bound would allow; where PCA
    meets it, PCA is the answer. For equal opportunity instead of demographic parity fit on the
    rows with a positive label. Two groups only. A descent ends where its tolerance says: weights
    instead of repeated rows move the losses by up to 1e-5.

    Parameters
    ----------
    n_components, random_state
        As in all of `fairpca.methods`.
    tau : float, default=1e-3
        Bound on MMD^2. Far below ``1/m_1 + 1/m_2`` it cannot be met.
    bandwidth : float or None, default=None
        Of the kernel. None is that of `fairpca.metrics.median_bandwidth` after PCA.
    max_iter : int, default=100
        Values of the penalty; `n_iter_` counts them.
    max_rows : int, default=2000
        Of more rows, this many are drawn, equally many of each group.

    Attributes
    ----------
    mmd_squared_, bandwidth_, penalty_ : float
        On the rows used, of the kernel, and the last one of the schedule.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.methods import MMDFairPCA
    >>> X, group = np.random.default_rng(0).normal(size=(160, 3)), np.arange(160) < 80
    >>> X[group, 0] += 3
    >>> model = MMDFairPCA(1, tau=0.03).fit(X, sensitive_features=group)
    >>> model.mmd_squared_ <= 0.03
    True
    """

    tau: float = number(1e-3, POSITIVE)
    bandwidth: float | None = number(None, POSITIVE)
    max_iter: int = 100
    max_rows: int = number(2000, 1)
    random_state: Seed = None

    _group_range = (2, 2)
    notion = "mmd"

    def _find(self, sample: Sample) -> Found:
        if sample.X is None:
            raise ValueError(
                "MMDFairPCA compares distributions, which moments do not know; pass rows."
            )
        r = self._rank(sample.n_features)
        pca = leading_pairs(sample.covariance, r).vectors
        bandwidth = self.bandwidth or median_bandwidth(sample.X @ pca, sample.weight)
        weight = np.ones(len(sample.X)) if sample.weight is None else sample.weight
        chosen = balanced_draw(sample.groups.codes, self.max_rows, self.random_state, weight)
        rows = np.asarray(sample.X[chosen], dtype=float) - sample.source.total.mean
        codes, weight = sample.groups.codes[chosen], weight[chosen]
        totals = np.maximum(np.bincount(codes, weight, minlength=2), np.finfo(float).tiny)
        signed = weight / totals[codes] * np.where(codes == 0, 1.0, -1.0)
        discrepancy = Discrepancy(rows, signed, bandwidth)
        basis, penalty, n_iter, reason = self._descend(sample, discrepancy, pca)
        value = discrepancy(basis)[0]
        if value > self.tau:
            warn(
                f"MMDFairPCA ended with MMD^2 = {value:.3g}, above tau = {self.tau:g}: {reason}. "
                "Raise tau, lower n_components, or use more rows.",
                ConvergenceWarning,
            )
        own = {"mmd_squared_": value, "bandwidth_": bandwidth, "penalty_": penalty}
        return Found(basis, reason, n_iter, own)

    def _descend(
        self, sample: Sample, discrepancy: Discrepancy, pca: FloatArray
    ) -> tuple[FloatArray, float, int, str]:
        """Return the basis, the last penalty, the number of penalties and why it ended."""
        n, r = pca.shape
        before = discrepancy(pca)[0]
        if r == n or before <= self.tau:
            # A rotation of all columns changes no distance, so there is nothing to descend on.
            return pca, 0.0, 0, "all components kept" if r == n else "PCA meets the bound"
        covariance = sample.covariance / max(np.trace(sample.covariance), np.finfo(float).tiny)
        basis = leading_within(sample.covariance, equal_mean_directions(sample), r)
        first = penalty = 1 / before
        tol, value, stalls = _FIRST_TOL, np.inf, 0
        for step in range(1, self.max_iter + 1):

            def cost(U: FloatArray, penalty: float = penalty) -> tuple[float, FloatArray]:
                value, gradient = discrepancy(U)
                image = covariance @ U
                return penalty * value - float(np.sum(U * image)), penalty * gradient - 2 * image

            last_basis, last_value = basis, value
            # The cost grows with the penalty, and so does the gradient's rounding.
            basis = _minimise(cost, basis, tol=tol * penalty / first, max_iter=_INNER_STEPS)
            value = discrepancy(basis)[0]
            # Projectors are compared: the basis itself may turn inside its span.
            moved = float(np.linalg.norm(basis - last_basis @ (last_basis.T @ basis)))
            if value <= self.tau and tol <= _LAST_TOL and moved <= _SETTLED:
                return basis, penalty, step, "bound met, basis settled"
            stalls = stalls + 1 if value > self.tau and value > _STALLED * last_value else 0
            if penalty > _LARGEST_PENALTY or stalls >= _MOST_STALLS:
                return basis, penalty, step, "MMD^2 falls no further"
            tol = max(_LAST_TOL, _TOL_FACTOR * tol)
            if value > self.tau:
                penalty *= _PENALTY_FACTOR
        return basis, penalty, self.max_iter, "max_iter reached"


def _minimise(
    cost: Callable[[FloatArray], tuple[float, FloatArray]],
    start: FloatArray,
    *,
    tol: float,
    max_iter: int,
) -> FloatArray:
    """Minimise a smooth function of the span of a basis by L-BFGS; return the last basis.

    `cost` returns the value and the Euclidean gradient G at a basis. The variables are n x r
    matrices A = U R, whose orthonormal factor U is the basis. What does not change when the basis
    turns inside its span has the gradient ``(I - U U.T) G R^-T`` there. The search ends where no
    entry of that is larger than `tol`.
    """

    def flat_cost(variables: FloatArray) -> tuple[float, FloatArray]:
        basis, factor = np.linalg.qr(variables.reshape(start.shape))
        value, gradient = cost(basis)
        outside = gradient - basis @ (basis.T @ gradient)
        return value, np.linalg.solve(factor, outside.T).T.ravel()

    # No stop by the decrease of the value: only the gradient tells how near the minimum is.
    options: Any = {"gtol": tol, "ftol": 0.0, "maxiter": max_iter, "maxfun": 20 * max_iter}
    found = scipy.optimize.minimize(
        flat_cost, start.ravel(), jac=True, method="L-BFGS-B", options=options
    )
    return orthonormal(found.x.reshape(start.shape))
