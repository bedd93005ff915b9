"""The problem every solver gets: matrices through an oracle, offsets, a rank.

All criteria have the form ``f_i(U) = c_i - Tr(U.T S_i U)``. They differ in the offsets c_i and in
the scale of each S_i, so one set of solvers serves them all, and no solver knows which criterion
it solves. Every solver ends in `Problem.solution`, which computes the certificate from the
matrices anew; read it first.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from fairpca._arrays import FloatArray, fetched, orthonormal
from fairpca.covariances.dense import DenseOracle, ProjectedBasis
from fairpca.covariances.oracle import EigenPairs, Oracle
from fairpca.solvers.solution import Certificate, Solution


@dataclass(frozen=True)
class Problem:
    """Minimise ``max_i f_i(U)``, ``f_i(U) = offsets[i] - Tr(U.T S_i U)``, over orthonormal U.

    Attributes
    ----------
    oracle : Oracle
        Answers for the matrices S_i, each of shape (n, n).
    offsets : ndarray of shape (k,)
        The constants c_i of the criterion.
    n_components : int
        The rank r, the number of columns of U.
    own : tuple of EigenPairs or None
        Each group's own leading pairs, at least r of them, when the criterion already had to
        compute them. They are good starting points, and directions that cost nothing.
    is_step : bool
        Whether this is one of many problems on the way to another one's answer: where the dual
        leaves a gap, two descents that agree are enough.

    Examples
    --------
    `fairpca.fitting.pose` makes a problem of matrices, a rank and a criterion.

    >>> import numpy as np
    >>> from fairpca.fitting import pose
    >>> problem = pose(np.array([[[3.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 2.0]]]), 1)
    >>> problem.offsets.tolist()
    [3.0, 2.0]
    >>> problem.losses(np.array([[1.0], [0.0]])).tolist()
    [0.0, 1.0]
    """

    oracle: Oracle
    offsets: FloatArray
    n_components: int
    own: tuple[EigenPairs, ...] | None = None
    is_step: bool = False

    @property
    def resolution(self) -> float:
        """Absolute accuracy of a computed value or bound."""
        return self.oracle.resolution

    def losses(self, basis: FloatArray) -> FloatArray:
        """Return f_i of an orthonormal basis of shape (n, q) for every group, shape (k,)."""
        return self.offsets - self.oracle.retained_variance(basis)

    def images_and_losses(self, basis: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return ``S_i @ basis``, shape (k, n, r), and f_i of the basis, for every group."""
        images = self.oracle.apply(basis)
        return images, self.offsets - np.einsum("nr,knr->k", basis, images)

    def phi(self, weights: FloatArray, pairs: EigenPairs) -> float:
        """Return the dual value at `weights` from the leading pairs of the weighted sum.

        Parameters
        ----------
        weights : ndarray of shape (k,)
            A point of the simplex.
        pairs : EigenPairs
            The r leading pairs of ``sum_i weights[i] S_i``, or more. Values that are too small
            make phi too large, and then it is no bound.
        """
        return float(weights @ self.offsets - pairs.values[: self.n_components].sum())

    def own_pairs(self) -> tuple[EigenPairs, ...]:
        """Return each group's own leading pairs, computing them if nobody did."""
        return self.own or self.oracle.own_pairs(self.n_components)

    def certificate(self, lower_bound: float, value: float, slack: float = 0.0) -> Certificate:
        """Return the certificate of a bound and a value of this problem; see `Certificate.of`."""
        scale, resolution = self.oracle.scale, self.resolution
        return Certificate.of(lower_bound, value, scale=scale, resolution=resolution, slack=slack)

    def restricted(self, space: ProjectedBasis, *, holds_own: bool = False) -> Problem:
        """Return the problem inside the span of a basis.

        Any basis of the span is one of this problem, so what is found inside is attained; a bound
        still has to come from the whole matrices. Rounding is that of the whole problem, however
        small the compression is.

        Parameters
        ----------
        space : ProjectedBasis
        holds_own : bool
            Whether the groups' own bases lie in the span; their pairs are then known inside too.

        Returns
        -------
        Problem
            With matrices of shape (k, p, p). A basis V of it has the losses that
            ``space.basis @ V`` has here.
        """
        oracle, own, r = DenseOracle(space.compressed, self.oracle.scale), None, self.n_components
        if holds_own and self.own is not None:
            inside = [oracle.near(space.coordinates(pairs.columns[:, :r])) for pairs in self.own]
            known = zip(self.own, inside, strict=True)
            own = tuple(EigenPairs(pairs.values[:r], columns) for pairs, columns in known)
        return replace(self, oracle=oracle, own=own)

    def solution(
        self,
        basis: FloatArray,
        weights: FloatArray,
        near: EigenPairs,
        *,
        stop_reason: str,
        solver: str,
        history: list[dict[str, float]] | None = None,
        proof: FloatArray | None = None,
        searched: float = -np.inf,
        nodes: int = 0,
    ) -> Solution:
        """Certify a basis and return it as the common result of all solvers.

        The certificate is computed here, from the matrices, the basis and the weights, whatever
        the solver believed: the value from products with the matrices, the bound from a sum of
        eigenvalues that is checked by itself.

        Parameters
        ----------
        basis : array of shape (n, r)
            Here, or where the matrices are.
        weights : ndarray of shape (k,)
            A point of the simplex.
        near : EigenPairs
            Leading pairs of the weighted sum at the weights of the proof.
        stop_reason, solver : str
        history : list of dict, optional
        proof : ndarray of shape (k,), optional
            The weights that the bound is computed at; `weights` by default. Weights nearer to the
            optimum may be known without a decomposition at them.
        searched : float
            A bound that a search proved.
        nodes : int
            How many nodes that search took.

        Returns
        -------
        Solution
            Its components span the basis. A stop reason that claims a closed gap is replaced where
            the certificate does not confirm it.
        """
        basis = orthonormal(basis)
        losses = self.losses(basis)
        at = weights if proof is None else proof
        total, slack = self.oracle.sum_bound(at, self.n_components, near)
        bound = max(float(at @ self.offsets) - total, searched)
        certificate = self.certificate(bound, float(losses.max()), slack)
        certificate = replace(certificate, nodes=nodes)
        if "gap closed" in stop_reason and not certificate.closed:
            stop_reason = "gap open at working precision"
        return Solution(
            components=np.ascontiguousarray(fetched(basis).T),
            weights=weights,
            losses=losses,
            certificate=certificate,
            n_eigen=self.oracle.n_eigen,
            stop_reason=stop_reason,
            solver=solver,
            history=tuple(history or ()),
        )
