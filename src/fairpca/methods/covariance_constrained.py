"""Olfat and Aswani 2019: a semidefinite program with mean and covariance constraints."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from fairpca._checks import check_choice
from fairpca._linalg import FloatArray, symmetric
from fairpca.covariances.eigenpairs import full_pairs
from fairpca.methods.base import PublishedMethod, import_cvxpy
from fairpca.methods.null_space import allowed_directions, mean_directions
from fairpca.methods.rounding import spectrum


@dataclass(frozen=True)
class _Relaxed:
    """Answer of the program: P, the variance it keeps, and the bound t it pays for."""

    projector: FloatArray
    objective: float
    bound: float
    status: str


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

    _group_range: ClassVar[tuple[int, int | None]] = (2, 2)
    notion: ClassVar[str] = "covariance gap"

    def __init__(
        self,
        n_components: int | None = None,
        *,
        mu: float = 1.0,
        delta: float = 0.0,
        solver: str = "SCS",
    ) -> None:
        self.n_components = n_components
        self.mu = mu
        self.delta = delta
        self.solver = solver

    def fit(
        self, X: Any, y: Any = None, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> CovarianceConstrainedPCA:
        """Fit the projection; arguments as in `fairpca.FairPCA.fit`, two groups required."""
        check_choice("solver", self.solver, ("SCS", "CLARABEL"))
        if self.mu < 0 or self.delta < 0:
            raise ValueError(f"mu={self.mu!r} and delta={self.delta!r} must be zero or more.")
        sample = self._sample(X, sensitive_features, sample_weight)
        forbidden = mean_directions(sample)
        allowed = np.eye(len(sample.covariance))
        if self.delta == 0:
            allowed = allowed_directions(forbidden)
        r = self._rank(allowed.shape[1], "the directions along which the group means agree,")
        gap = sample.moments.mean[0] - sample.moments.mean[1]
        covariances = sample.moments.covariances
        difference = covariances[0] - covariances[1]
        inner = [symmetric(allowed.T @ a @ allowed) for a in (sample.covariance, difference)]
        relaxed = self._relax(inner[0], inner[1], allowed.T @ gap, r)
        pairs = spectrum(relaxed.projector)
        basis = allowed @ pairs.vectors[:, :r]
        after = np.append(pairs.values, 0.0)
        return self._record(
            basis,
            sample,
            center_="global",
            projector_=symmetric(allowed @ relaxed.projector @ allowed.T),
            spectrum_gap_=float(after[r - 1] - after[r]),
            objective_=relaxed.objective,
            covariance_bound_=relaxed.bound,
            mean_gap_=float(np.linalg.norm(gap @ basis)),
            covariance_gap_=float(np.linalg.norm(basis.T @ difference @ basis, 2)),
            n_iter_=1,
            stop_reason_=f"{self.solver}: {relaxed.status}",
        )

    def _relax(
        self, covariance: FloatArray, difference: FloatArray, gap: FloatArray, r: int
    ) -> _Relaxed:
        cvxpy = import_cvxpy()
        n = len(covariance)
        projector = cvxpy.Variable((n, n), PSD=True)
        constraints = [np.eye(n) - projector >> 0, cvxpy.trace(projector) <= r]
        objective = cvxpy.trace(covariance @ projector)
        if self.delta > 0:
            constraints.append(cvxpy.trace(np.outer(gap, gap) @ projector) <= self.delta**2)
        # In units of phi, which keeps the two blocks of the matrix inequality comparable.
        phi = 1.1 * float(np.linalg.norm(difference, 2))
        bound = cvxpy.Variable(nonneg=True)
        # Covariances that differ by rounding only have no direction to constrain.
        if self.mu > 0 and phi > 1e-12 * float(np.trace(covariance)):
            objective -= self.mu * phi * bound
            for sign in (1, -1):
                root = _root(np.eye(n) + sign * difference / phi)
                blocks = [[bound * np.eye(n), projector @ root], [root @ projector, np.eye(n)]]
                constraints.append(cvxpy.bmat(blocks) >> 0)
        program = cvxpy.Problem(cvxpy.Maximize(objective), constraints)
        program.solve(solver=self.solver)
        if projector.value is None:
            raise RuntimeError(f"{self.solver} did not solve the program: {program.status}.")
        found = symmetric(np.asarray(projector.value))
        paid = float(bound.value) if bound.value is not None else float("nan")
        return _Relaxed(found, float(program.value), phi * (paid - 1), str(program.status))


def _root(matrix: FloatArray) -> FloatArray:
    """Return the symmetric square root of a positive definite matrix."""
    pairs = full_pairs(matrix)
    return symmetric((pairs.vectors * np.sqrt(np.maximum(pairs.values, 0.0))) @ pairs.vectors.T)
