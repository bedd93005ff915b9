"""One rank after another of two large groups, in a subspace that all of them share.

Neighbouring ranks have neighbouring weights, so the eigenvectors met on the way to one rank serve
the next. Each rank is solved inside the span of all that were seen, where it costs little; the
lower bound is that of the large matrices, from Ritz values raised by what residuals allow. Only
where that leaves a gap are the matrices themselves decomposed, for the largest rank at once.

It is an idea of its own: one subspace for all ranks.
"""

from __future__ import annotations

import numpy as np

from fairpca._linalg import FloatArray
from fairpca.covariances.block_krylov import Mixture, SharedSpace
from fairpca.covariances.eigenpairs import EigenPairs
from fairpca.covariances.oracle import Oracle
from fairpca.solvers.problem import Problem
from fairpca.solvers.solution import Solution
from fairpca.solvers.subspace import restricted
from fairpca.solvers.two_groups import solve_two_groups

# Columns beside the wanted ones: they show what comes next, which the bound rests on.
_SPARE = 10


class RankPath:
    """Solves the ranks of one pair of large matrices.

    Parameters
    ----------
    oracle : Oracle
        Of two matrices.
    own : tuple of EigenPairs
        Their leading pairs, as many as the largest rank. They begin the shared subspace.
    """

    def __init__(self, oracle: Oracle, own: tuple[EigenPairs, ...]) -> None:
        self.oracle = oracle
        self._space = SharedSpace(oracle.apply, oracle.n_groups, oracle.n_features)
        self._space.widen(np.hstack([pairs.vectors for pairs in own]))
        self._width = min(own[0].vectors.shape[1] + _SPARE, oracle.n_features)

    def solve(
        self, problem: Problem, *, tol: float, max_iter: int, start: FloatArray | None
    ) -> Solution:
        """Solve one rank; arguments as in `solve_two_groups`.

        The problem is solved inside the subspace and certified against the large matrices. These
        are decomposed, and the subspace widened, only while the gap is open.

        Returns
        -------
        Solution
            Of the large problem. Its gap may be open where `max_iter` is reached or a
            decomposition adds no direction.
        """
        while True:
            reduced = restricted(problem, self._space, holds_own=True)
            found = solve_two_groups(reduced, tol=tol, max_iter=max_iter, start=start)
            start = found.weights
            solution = problem.solution(
                self._space.basis @ found.components.T,
                start,
                self._leading(start, problem.n_components),
                stop_reason=found.stop_reason,
                solver=self.oracle.driver,
                history=list(found.history),
            )
            if solution.certificate.gap <= tol or self.oracle.n_eigen >= max_iter:
                return solution
            if not self._space.widen(self.oracle.leading(start, self._width).vectors):
                return solution

    def _leading(self, weights: FloatArray, r: int) -> EigenPairs:
        """Return leading Ritz pairs of the weighted sum, a few more than `r`, without a product.

        Ritz values are never above the eigenvalues, so `Problem.solution` has them checked
        before a bound rests on them.
        """
        mixture = Mixture(weights, np.zeros((0, self.oracle.n_features)))
        ritz = self._space.ritz(mixture, r + _SPARE)
        return EigenPairs(ritz.values, ritz.vectors)
