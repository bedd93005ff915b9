"""Pelegrina and Duarte 2024: u-FPCA and c-FPCA, a one-dimensional family of PCAs."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np

from fairpca._linalg import FloatArray
from fairpca.covariances.eigenpairs import leading_pairs
from fairpca.methods._base import Found, PublishedMethod, Sample
from fairpca.metrics import kept_variance

# The golden ratio: with it, one of the two inner points of an interval is one of the next.
_GOLDEN = (1 + 5**0.5) / 2
# Slack of the constraint in the authors' code, in squared units of X. Without it, rounding alone
# could forbid to leave PCA.
_SLACK = 1e-6


@dataclass(frozen=True)
class _Trial:
    """The PCA at one value of alpha, and the mean squared errors of the two groups there."""

    alpha: float
    basis: FloatArray
    errors: FloatArray

    @property
    def gap(self) -> float:
        """Squared difference of the two errors."""
        return float((self.errors[0] - self.errors[1]) ** 2)


class _Family:
    """PCA of ``alpha S_M + (1 - alpha) G``, G favouring the group that PCA serves worse."""

    def __init__(self, covariances: FloatArray, shares: FloatArray, r: int) -> None:
        self.covariances, self.shares, self.r = covariances, shares, r
        self.traces = np.trace(covariances, axis1=1, axis2=2)
        self.n_eigen = 0
        # At alpha = 1, which is PCA, nobody is favoured; whom to favour is known afterwards.
        self.favour = np.zeros(2)
        self.pca = self.at(1.0)
        first_is_better = self.pca.errors[0] <= self.pca.errors[1]
        self.favour = np.array([-1.0, 1.0] if first_is_better else [1.0, -1.0])

    def weights(self, alpha: float) -> FloatArray:
        """Return what the two groups' matrices are multiplied by; one may be negative."""
        return np.asarray(alpha * self.shares + (1 - alpha) * self.favour)

    def at(self, alpha: float) -> _Trial:
        """Return the PCA at `alpha`."""
        self.n_eigen += 1
        matrix = np.tensordot(self.weights(alpha), self.covariances, axes=1)
        basis = leading_pairs(matrix, self.r).vectors[:, : self.r]
        return _Trial(alpha, basis, self.traces - kept_variance(basis, self.covariances))


@dataclass(eq=False, repr=False)
class UnconstrainedFPCA(PublishedMethod):
    """u-FPCA: equal errors of two groups along a line of PCAs (Pelegrina and Duarte, 2024).

    Golden-section search for the alpha in [0, 1] at which the PCA of ``alpha S_M + (1 - alpha) G``
    has the least squared difference between the two groups' errors; ``G = S_B - S_A`` when PCA
    serves A better, otherwise the opposite.

    Parameters
    ----------
    n_components : int or None, default=None
        Rank r; None keeps all.
    tol : float, default=1e-6
        Width of the last interval of alpha.
    center : {"global", "group", "none"}, default="global"
        Second moments are about the overall mean (the authors), each group's own mean, or zero.

    Attributes
    ----------
    alpha_ : float
    matrix_weights_ : ndarray of shape (2,)
        What the two groups' second moments are multiplied by. A negative entry means that this
        group was deliberately served worse.
    group_values_ : ndarray of shape (2,)
        Errors with the second moments of `center_`; the numbers that the method equalises.
    components_, mean_, group_losses_, group_errors_, ...
        As in `fairpca.FairPCA`, without a certificate: the method optimises no worst case.
    n_iter_ : int
        Eigen-decompositions.
    center_ : str
        What the second moments are about.

    See Also
    --------
    ConstrainedFPCA : The same, but neither group may fare worse than PCA's worse group.

    Notes
    -----
    The difference of errors is neither continuous nor unimodal in alpha, so the search can miss a
    root, and once a matrix weight is negative both groups can fare worse than with PCA. Equal
    errors are not equal losses. Two groups only.

    References
    ----------
    G. D. Pelegrina, L. T. Duarte. A Novel Approach for Fair Principal Component Analysis Based on
    Eigendecomposition. IEEE Transactions on Artificial Intelligence 5, 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.methods import UnconstrainedFPCA
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(size=(80, 3)) * [3, 1, 1], rng.normal(size=(20, 3)) * [1, 3, 2]])
    >>> model = UnconstrainedFPCA(1).fit(X, sensitive_features=[0] * 80 + [1] * 20)
    >>> bool(np.ptp(model.group_values_) < 1e-3), 0 < model.alpha_ < 1
    (True, True)
    """

    n_components: int | None = None
    _: KW_ONLY
    tol: float = 1e-6
    center: str = "global"

    _group_range: ClassVar[tuple[int, int | None]] = (2, 2)
    notion: ClassVar[str] = "error gap"

    def _find(self, sample: Sample) -> Found:
        r = self._rank(sample.n_features)
        family = _Family(sample.second_moments(self.center), sample.shares, r)
        found = self._search(family)
        own = {
            "alpha_": found.alpha,
            "matrix_weights_": family.weights(found.alpha),
            "group_values_": found.errors,
        }
        n_iter, reason = family.n_eigen, "interval closed"
        return Found(basis=found.basis, stop_reason=reason, n_iter=n_iter, own=own)

    def _search(self, family: _Family) -> _Trial:
        """Return the PCA in the middle of the last interval."""
        low, high = 0.0, 1.0
        inner = family.at(high - (high - low) / _GOLDEN)
        outer = family.at(low + (high - low) / _GOLDEN)
        while high - low > self.tol:
            # One of the two inner points serves the next interval again.
            if self._prefers(inner, outer, family.pca):
                high, outer = outer.alpha, inner
                inner = family.at(high - (high - low) / _GOLDEN)
            else:
                low, inner = inner.alpha, outer
                outer = family.at(low + (high - low) / _GOLDEN)
        return family.at(0.5 * (low + high))

    def _prefers(self, inner: _Trial, outer: _Trial, pca: _Trial) -> bool:
        """Whether the search goes on towards alpha = 0."""
        return inner.gap < outer.gap


class ConstrainedFPCA(UnconstrainedFPCA):
    """c-FPCA: as u-FPCA, but no group's error may exceed PCA's worse one.

    The search of `UnconstrainedFPCA` moves away from PCA only as long as both errors stay below
    the larger of PCA's two.

    Parameters
    ----------
    n_components, tol, center
        As in `UnconstrainedFPCA`.

    Attributes
    ----------
    alpha_, matrix_weights_, group_values_, components_, mean_, ...
        As in `UnconstrainedFPCA`.

    References
    ----------
    G. D. Pelegrina, L. T. Duarte. A Novel Approach for Fair Principal Component Analysis Based on
    Eigendecomposition. IEEE Transactions on Artificial Intelligence 5, 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.methods import ConstrainedFPCA
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(size=(80, 3)) * [3, 1, 1], rng.normal(size=(20, 3)) * [1, 3, 2]])
    >>> model = ConstrainedFPCA(1).fit(X, sensitive_features=[0] * 80 + [1] * 20)
    >>> model.matrix_weights_.round(1).tolist()
    [0.4, 0.4]
    """

    def _prefers(self, inner: _Trial, outer: _Trial, pca: _Trial) -> bool:
        limit = float(pca.errors.max()) + _SLACK
        return inner.gap < outer.gap and float(inner.errors.max()) <= limit
