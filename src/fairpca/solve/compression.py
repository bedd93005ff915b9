"""The problem inside a growing subspace, for matrices too large to decompose often."""

from __future__ import annotations

import copy

from fairpca.arrays import FloatArray, symmetric
from fairpca.solve.eigen import DenseOracle
from fairpca.solve.images import ImagedBasis
from fairpca.solve.oracle import EigenPairs
from fairpca.solve.problem import Problem


class Compression(ImagedBasis):
    """A problem restricted to an orthonormal basis that can be widened.

    Parameters
    ----------
    problem : Problem
        The large problem.
    """

    def __init__(self, problem: Problem) -> None:
        oracle = problem.oracle
        super().__init__(oracle.apply, oracle.n_groups, oracle.n_features, keep_images=False)
        self.large = problem

    def within(self, coordinates: FloatArray) -> Compression:
        """Return the problem restricted to ``basis @ coordinates``, which takes no product."""
        part = copy.copy(self)
        part.basis = self.basis @ coordinates
        part.compressed = symmetric(coordinates.T @ self.compressed @ coordinates)
        return part

    def problem(self) -> Problem:
        """Return the problem inside the subspace; any basis of it is one of the large problem."""
        return restricted(self.large, self)


def restricted(large: Problem, space: ImagedBasis) -> Problem:
    """Return a large problem inside the span of a basis."""
    oracle = DenseOracle(space.compressed)
    # Rounding is that of the whole problem, however small the compression is.
    oracle.scale = large.oracle.scale
    return Problem(oracle, large.offsets, large.n_components)


def own_inside(large: Problem, space: ImagedBasis) -> tuple[EigenPairs, ...] | None:
    """Return the groups' own pairs, where they are known, in coordinates of the basis."""
    return large.own and tuple(
        EigenPairs(pairs.values, space.basis.T @ pairs.vectors[:, : large.n_components])
        for pairs in large.own
    )
