"""Olfat and Aswani 2019: a semidefinite program with mean and covariance constraints."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairpca._arrays import FloatArray, symmetric
from fairpca._check import require
from fairpca.covariances.dense import full_pairs
from fairpca.methods._base import Found, PublishedMethod, Sample, number
from fairpca.methods.null_space import AGREEING, equal_mean_directions
from fairpca.methods.sdr import from_spectrum, spectrum

# phi over the norm of the covariance difference. It must be above 1 for the roots to exist; the
# authors add 0.5 instead, which depends on the unit of X.
_MARGIN = 1.1
# Covariances that differ by less than this share of the variance differ by rounding only.
_NO_DIFFERENCE = 1e-12


class CovarianceConstrainedPCA(PublishedMethod):
    """PCA with equal group means and similar group covariances.

    M. Olfat, A. Aswani. Convex Formulations for Fair Principal Component Analysis. AAAI, 2019.

    Solves ``max <S, P> - mu t`` over ``0 <= P <= I``, ``Tr P <= r`` with
    ``f.T P f <= delta^2`` for the difference f of the two group means, and
    ``P (phi I + s Q) P <= t I`` for s = +-1 and the difference Q of the two group covariances.
    The components are the r leading eigenvectors of P. With ``mu=0, delta=0`` they are those of
    `NullSpaceFairPCA`. Otherwise rounding can lose all of the covariance constraint: compare
    `covariance_gap_` with `covariance_bound_`. Standardise columns before, as the paper does.
    Needs cvxpy and SCS (extra `methods`); for up to about 60 columns. SCS stops at a tolerance:
    weights instead of repeated rows move the losses by up to 1e-5.

    Parameters
    ----------
    n_components : int or None, default=None
        Rank r; None keeps all that the constraint on the means leaves.
    mu : float, default=1.0
        Price of the covariance bound t, in units of variance; 0 leaves covariances free. The
        authors' 0.01 is ``0.01 * norm(X)`` here.
    delta : float, default=0.0
        Largest distance of the projected means; 0 removes their difference exactly.

    Attributes
    ----------
    projector_, spectrum_gap_ : ndarray of shape (n_features_in_, n_features_in_), float
        The relaxed P, and its r-th minus next eigenvalue; near 1 the relaxation is tight, near 0
        the components need not have what P promises.
    covariance_bound_ : float
        ``t - phi``: what the program pays for. It bounds the covariance gap where P is a
        projection; where it is not, it may be negative.
    mean_gap_, covariance_gap_ : float
        Of the components: distance of the means, spectral norm of the covariances' difference.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.methods import CovarianceConstrainedPCA
    >>> X, group = np.random.default_rng(0).normal(size=(100, 3)), np.arange(100) < 20
    >>> X[group, 0] += 3
    >>> model = CovarianceConstrainedPCA(1, mu=0).fit(X, sensitive_features=group)
    >>> model.mean_gap_ < 1e-6
    True
    """

    mu: float = number(1.0, 0)
    delta: float = number(0.0, 0)

    _group_range = (2, 2)
    notion = "covariance gap"

    def _find(self, sample: Sample) -> Found:
        allowed = np.eye(sample.n_features)
        if self.delta == 0:
            # Eliminated instead of imposed: with the constraint the program has no interior point,
            # and Clarabel took 14 to 37 s for 22 columns (credit) instead of 6 s.
            allowed = equal_mean_directions(sample)
        r = self._rank(allowed.shape[1], AGREEING)
        shift, covariances = sample.source.groups.shift, sample.source.covariances
        gap, difference = shift[0] - shift[1], covariances[0] - covariances[1]
        inner = symmetric(allowed.T @ np.stack([sample.covariance, difference]) @ allowed)
        # In units of the largest variance: solvers stop by tolerances that know no units.
        unit = float(np.linalg.norm(sample.covariance, 2)) or 1.0
        projector, bound, program = self._relax(inner / unit, allowed.T @ gap / unit**0.5, r, unit)
        pairs = spectrum(projector)
        basis = allowed @ pairs.vectors[:, :r]
        # Where nothing is left out, the next eigenvalue is that of no direction.
        after = np.append(pairs.values, 0.0)
        own = {
            "objective_": unit * float(program.value),
            "covariance_bound_": unit * bound,
            "projector_": symmetric(allowed @ projector @ allowed.T),
            "spectrum_gap_": float(after[r - 1] - after[r]),
            "mean_gap_": float(np.linalg.norm(gap @ basis)),
            "covariance_gap_": float(np.linalg.norm(basis.T @ difference @ basis, 2)),
        }
        steps = int(program.solver_stats.num_iters or 1)
        return Found(basis, f"SCS: {program.status}", steps, own)

    def _relax(
        self, inner: FloatArray, gap: FloatArray, r: int, unit: float
    ) -> tuple[FloatArray, float, Any]:
        """Solve the program in the allowed directions, of matrices in a `unit` of variance.

        Returns the relaxed P, ``t - phi``, which is NaN where that was not asked for, and the
        program.
        """
        cvxpy = require("cvxpy", extra="methods", purpose="A semidefinite program")
        covariance, difference = inner
        n = len(covariance)
        projector = cvxpy.Variable((n, n), PSD=True)
        constraints = [np.eye(n) - projector >> 0, cvxpy.trace(projector) <= r]
        objective = cvxpy.trace(covariance @ projector)
        # A distance that no projection of the means exceeds constrains nothing, and an infinite
        # one would keep the solver busy for ever.
        if 0 < self.delta**2 / unit < float(gap @ gap):
            constraints.append(cvxpy.trace(np.outer(gap, gap) @ projector) <= self.delta**2 / unit)
        # In units of phi, which keeps the two blocks of the matrix inequality comparable.
        phi = _MARGIN * float(np.linalg.norm(difference, 2))
        bound = cvxpy.Variable(nonneg=True)
        if self.mu > 0 and phi > _NO_DIFFERENCE * float(np.trace(covariance)):
            objective -= self.mu * phi * bound
            # A Schur complement: the block matrix is semidefinite where t I >= P (phi I + s Q) P.
            for sign in (1, -1):
                pairs = full_pairs(np.eye(n) + sign * difference / phi)
                root = from_spectrum(pairs.vectors, np.sqrt(np.maximum(pairs.values, 0.0)))
                blocks = [[bound * np.eye(n), projector @ root], [root @ projector, np.eye(n)]]
                constraints.append(cvxpy.bmat(blocks) >> 0)
        program = cvxpy.Problem(cvxpy.Maximize(objective), constraints)
        program.solve(solver="SCS")
        if projector.value is None:
            raise RuntimeError(f"SCS did not solve the program: {program.status}.")
        paid = float("nan") if bound.value is None else float(bound.value)
        return symmetric(np.asarray(projector.value)), phi * (paid - 1), program
