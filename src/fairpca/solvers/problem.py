"""The problem every solver gets: matrices through an oracle, offsets, a rank."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairpca._linalg import FloatArray, orthonormal, rounding_level
from fairpca.covariances.eigenpairs import EigenPairs
from fairpca.covariances.oracle import Oracle
from fairpca.solvers.solution import Certificate, Solution


@dataclass(frozen=True)
class Problem:
    """Minimise ``max_i f_i(U)``, ``f_i(U) = offsets[i] - Tr(U.T S_i U)``, over orthonormal U.

    Attributes
    ----------
    oracle : Oracle
        Answers for the matrices S_i.
    offsets : ndarray of shape (k,)
    n_components : int
        The rank r.
    own : tuple of EigenPairs or None
        Each group's own leading pairs, when the criterion already had to compute them.
    """

    oracle: Oracle
    offsets: FloatArray
    n_components: int
    own: tuple[EigenPairs, ...] | None = None

    @property
    def resolution(self) -> float:
        """Absolute accuracy of a computed value or bound."""
        return rounding_level(self.oracle.scale, self.oracle.n_features)

    def losses(self, basis: FloatArray) -> FloatArray:
        """Return f_i of an orthonormal basis, for every group."""
        return self.offsets - self.oracle.retained_variance(basis)

    def images_and_losses(self, basis: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``S_i @ basis``, shape (k, n, r), and f_i of the basis, for every group."""
        images = self.oracle.apply(basis)
        return images, self.offsets - np.einsum("nr,knr->k", basis, images)

    def phi(self, weights: FloatArray, pairs: EigenPairs) -> float:
        """Return the dual value at `weights` from the leading pairs of the weighted sum."""
        return float(weights @ self.offsets - pairs.values[: self.n_components].sum())

    def own_pairs(self) -> tuple[EigenPairs, ...]:
        """Return each group's own leading pairs, computing them if nobody did."""
        return self.own or self.oracle.own_pairs(self.n_components)

    def certificate(self, lower_bound: float, value: float) -> Certificate:
        """Return the certificate of a bound and a value of this problem."""
        return Certificate.of(
            lower_bound, value, scale=self.oracle.scale, n_features=self.oracle.n_features
        )

    def solution(
        self,
        basis: FloatArray,
        weights: FloatArray,
        lower_bound: float,
        *,
        stop_reason: str,
        solver: str,
        history: list[dict[str, float]] | None = None,
    ) -> Solution:
        """Return a basis (columns) and the best bound as the common result of all solvers."""
        basis = orthonormal(basis)
        losses = self.losses(basis)
        return Solution(
            components=np.ascontiguousarray(basis.T),
            weights=weights,
            losses=losses,
            certificate=self.certificate(lower_bound, float(losses.max())),
            n_eigen=self.oracle.n_eigen,
            stop_reason=stop_reason,
            solver=solver,
            history=tuple(history or ()),
        )
