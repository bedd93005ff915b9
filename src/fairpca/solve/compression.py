"""The problem inside a growing subspace, for matrices too large to decompose often.

Products with the large matrices are the expensive part, so each direction meets them once: the
images S_i Q are kept, and widening Q costs products with the new columns only.
"""

from __future__ import annotations

import numpy as np

from fairpca.arrays import FloatArray, expand, symmetric
from fairpca.solve.eigen import DenseOracle
from fairpca.solve.problem import Problem


class Compression:
    """A problem restricted to an orthonormal basis that can be widened.

    Parameters
    ----------
    problem : Problem
        The large problem.
    """

    def __init__(self, problem: Problem) -> None:
        k, n = problem.oracle.n_groups, problem.oracle.n_features
        self.large = problem
        self.basis: FloatArray = np.empty((n, 0))
        self._images: FloatArray = np.empty((k, n, 0))
        self._matrices: FloatArray = np.empty((k, 0, 0))

    @property
    def width(self) -> int:
        """Dimension of the subspace."""
        return int(self.basis.shape[1])

    def widen(self, columns: FloatArray) -> bool:
        """Add the span of `columns`; return whether it added a direction."""
        wider = expand(self.basis, columns)
        fresh = wider[:, self.width :]
        if not fresh.shape[1]:
            return False
        images = self.large.oracle.apply(fresh)
        corner = symmetric(fresh.T @ images)
        side = self.basis.T @ images
        self._matrices = np.block([[self._matrices, side], [np.swapaxes(side, 1, 2), corner]])
        self._images = np.concatenate([self._images, images], axis=2)
        self.basis = wider
        return True

    def problem(self) -> Problem:
        """Return the problem inside the subspace; any basis of it is one of the large problem."""
        oracle = DenseOracle(self._matrices)
        # Rounding is that of the whole problem, however small the compression is.
        oracle.scale = self.large.oracle.scale
        return Problem(oracle, self.large.offsets, self.large.n_components)
