"""One rank after another of two large groups, in a subspace that all of them share.

Neighbouring ranks have neighbouring weights, so the eigenvectors met on the way to one rank serve
the next. Each rank is solved inside the span of all that were seen, where it costs little; the
lower bound is that of the large matrices, from Ritz values raised by what residuals allow. Only
where that leaves a gap are the matrices themselves decomposed, for the largest rank at once.
"""

from __future__ import annotations

import numpy as np

from fairpca._arrays import FloatArray
from fairpca.covariances.oracle import EigenPairs, Oracle
from fairpca.covariances.subspace import ProjectedBasis
from fairpca.solvers.problem import Problem
from fairpca.solvers.solution import Solution
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
        self._space = ProjectedBasis(oracle)
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
            reduced = problem.restricted(self._space, holds_own=True)
            found = solve_two_groups(reduced, tol=tol, max_iter=max_iter, start=start)
            start = found.weights
            solution = problem.solution(
                self._space.basis @ found.components.T,
                start,
                # Ritz values are never above the eigenvalues, so they are checked before a
                # bound rests on them.
                self._space.ritz(start, problem.n_components + _SPARE),
                stop_reason=found.stop_reason,
                solver=self.oracle.driver,
                history=list(found.history),
            )
            if solution.certificate.gap <= tol or self.oracle.n_eigen >= max_iter:
                return solution
            if not self._space.widen(self.oracle.leading(start, self._width).vectors):
                return solution
