"""Olfat and Aswani 2019: a semidefinite program with mean and covariance constraints."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np

from fairpca._linalg import FloatArray, symmetric
from fairpca.covariances.eigenpairs import full_pairs
from fairpca.methods._base import Found, PublishedMethod, Sample
from fairpca.methods._relaxation import from_spectrum, import_cvxpy, spectrum
from fairpca.methods.null_space import AGREEING, allowed_directions, mean_directions

# phi over the norm of the covariance difference. It must be above 1 for the roots to exist; the
# authors add 0.5 instead, which depends on the unit of X.
_MARGIN = 1.1
# Covariances that differ by less than this share of the variance differ by rounding only, and have
# no direction to constrain.
_NO_DIFFERENCE = 1e-12


@dataclass(eq=False, repr=False)
class CovarianceConstrainedPCA(PublishedMethod):
    """PCA with equal group means and similar group covariances (Olfat and Aswani, 2019).

    Solves ``max <S, P> - mu t`` over ``0 <= P <= I``, ``Tr P <= r`` with
    ``f.T P f <= delta^2`` for the difference f of the two group means, and
    ``P (phi I + s Q) P <= t I`` for s = +-1 and the difference Q of the two group covariances.
    The components are the r leading eigenvectors of P.

    Parameters
    ----------
    n_components : int or None, default=None
        Rank r; None keeps all that the constraint on the means leaves.
    mu : float, default=1.0
        Price of the covariance bound t, in units of variance; 0 leaves covariances free. The
        authors' 0.01 is ``0.01 * norm(X)`` here.
    delta : float, default=0.0
        Largest distance of the projected means; 0 removes their difference exactly.
    solver : {"SCS", "CLARABEL"}, default="SCS"
        Of cvxpy (extra `methods`). Up to about 60 features.

    Attributes
    ----------
    projector_ : ndarray of shape (n_features_in_, n_features_in_)
        The relaxed P.
    spectrum_gap_ : float
        r-th minus next eigenvalue of P; near 1 the relaxation is tight, near 0 the components
        need not have what P promises.
    covariance_bound_ : float
        ``t - phi``: the program's bound on the covariance gap, true of P.
    mean_gap_, covariance_gap_ : float
        Recomputed for the components: the distance of the means, and the spectral norm of the
        difference of the covariances.
    components_, mean_, group_losses_, group_errors_, ...
        As in `fairpca.FairPCA`, without a certificate: the method optimises no worst case.
    center_ : str
        Always "global". About the groups' own means the difference of means would be gone.

    Notes
    -----
    With ``mu=0, delta=0`` the answer is a projector, that of `NullSpaceFairPCA`. Otherwise
    rounding can lose all of the covariance constraint: compare `covariance_gap_` with
    `covariance_bound_`. With ``delta=0`` the constraint is eliminated instead of imposed, because
    the program would have no interior point. The paper standardises columns (ddof=0); do that
    before. Two groups only.

    References
    ----------
    M. Olfat, A. Aswani. Convex Formulations for Fair Principal Component Analysis. AAAI, 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.methods import CovarianceConstrainedPCA
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(size=(80, 3)), rng.normal(size=(20, 3)) + [3, 0, 0]])
    >>> model = CovarianceConstrainedPCA(1, mu=0).fit(X, sensitive_features=[0] * 80 + [1] * 20)
    >>> model.mean_gap_ < 1e-6
    True
    """

    n_components: int | None = None
    _: KW_ONLY
    mu: float = 1.0
    delta: float = 0.0
    solver: str = "SCS"

    _group_range: ClassVar[tuple[int, int | None]] = (2, 2)
    notion: ClassVar[str] = "covariance gap"
    _choices: ClassVar[dict[str, tuple[str, ...]]] = {"solver": ("SCS", "CLARABEL")}
    _ranges: ClassVar[dict[str, tuple[float, float]]] = {"mu": (0, np.inf), "delta": (0, np.inf)}

    def _find(self, sample: Sample) -> Found:
        allowed = np.eye(sample.n_features)
        if self.delta == 0:
            # Eliminated instead of imposed: with the constraint the program has no interior point,
            # and Clarabel took 14 to 37 s for 22 columns (credit) instead of 6 s.
            allowed = allowed_directions(mean_directions(sample))
        r = self._rank(allowed.shape[1], AGREEING)
        gap = sample.moments.mean[0] - sample.moments.mean[1]
        covariances = sample.source.covariances
        difference = covariances[0] - covariances[1]
        matrices = np.stack([sample.covariance, difference])
        inner = symmetric(allowed.T @ matrices @ allowed)
        projector, objective, bound, status = self._relax(inner, allowed.T @ gap, r)
        pairs = spectrum(projector)
        basis = allowed @ pairs.vectors[:, :r]
        # Where nothing is left out, the next eigenvalue is that of no direction.
        after = np.append(pairs.values, 0.0)
        own = {
            "projector_": symmetric(allowed @ projector @ allowed.T),
            "spectrum_gap_": float(after[r - 1] - after[r]),
            "objective_": objective,
            "covariance_bound_": bound,
            "mean_gap_": float(np.linalg.norm(gap @ basis)),
            "covariance_gap_": float(np.linalg.norm(basis.T @ difference @ basis, 2)),
        }
        return Found(basis=basis, stop_reason=f"{self.solver}: {status}", own=own)

    def _relax(
        self, inner: FloatArray, gap: FloatArray, r: int
    ) -> tuple[FloatArray, float, float, str]:
        """Solve the program for the pooled covariance and the differences of the two groups.

        Returns
        -------
        projector : ndarray of shape (q, q)
            The relaxed P, in the coordinates of the allowed directions.
        objective : float
            Variance that P keeps, minus the price of the bound.
        bound : float
            ``t - phi``, the bound on the covariance gap; NaN where it was not asked for.
        status : str
            The solver's own word.
        """
        cvxpy = import_cvxpy()
        covariance, difference = inner
        n = len(covariance)
        projector = cvxpy.Variable((n, n), PSD=True)
        constraints = [np.eye(n) - projector >> 0, cvxpy.trace(projector) <= r]
        objective = cvxpy.trace(covariance @ projector)
        if self.delta > 0:
            constraints.append(cvxpy.trace(np.outer(gap, gap) @ projector) <= self.delta**2)
        # In units of phi, which keeps the two blocks of the matrix inequality comparable.
        phi = _MARGIN * float(np.linalg.norm(difference, 2))
        bound = cvxpy.Variable(nonneg=True)
        if self.mu > 0 and phi > _NO_DIFFERENCE * float(np.trace(covariance)):
            objective -= self.mu * phi * bound
            # A Schur complement: the block matrix is semidefinite exactly where
            # t I >= P (phi I + s Q) P, which is quadratic in P, holds.
            for sign in (1, -1):
                root = _root(np.eye(n) + sign * difference / phi)
                blocks = [[bound * np.eye(n), projector @ root], [root @ projector, np.eye(n)]]
                constraints.append(cvxpy.bmat(blocks) >> 0)
        program = cvxpy.Problem(cvxpy.Maximize(objective), constraints)
        program.solve(solver=self.solver)
        if projector.value is None:
            raise RuntimeError(f"{self.solver} did not solve the program: {program.status}.")
        paid = float(bound.value) if bound.value is not None else float("nan")
        found = symmetric(np.asarray(projector.value))
        return found, float(program.value), phi * (paid - 1), str(program.status)


def _root(matrix: FloatArray) -> FloatArray:
    """Return the symmetric square root of a positive definite matrix."""
    pairs = full_pairs(matrix)
    return from_spectrum(pairs.vectors, np.sqrt(np.maximum(pairs.values, 0.0)))
