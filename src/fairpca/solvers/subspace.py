"""The problem inside a growing subspace, for matrices too large to decompose often.

With an orthonormal Q of shape (n, p) the matrices become ``Q.T S_i Q``, of shape (p, p); offsets
and rank stay. Any basis of the subspace is one of the large problem, so what is found inside is
attained outside; a bound still has to come from the large matrices. Eigenvectors of the large
matrices at the weights found inside widen Q, and the two values approach each other (compare
Kangal, Meerbergen, Mengi and Michiels, "A subspace method for large-scale eigenvalue
optimization", 2018).

Both routes for large matrices, two groups and more, and the search over all ranks grow their
subspace here. Read `restricted` first.
"""

from __future__ import annotations

from typing import Any

from fairpca.covariances.block_krylov import ProjectedBasis
from fairpca.covariances.device import explicit_oracle
from fairpca.covariances.eigenpairs import EigenPairs
from fairpca.solvers.problem import Problem


class Subspace(ProjectedBasis):
    """A problem restricted to an orthonormal basis that can be widened.

    Parameters
    ----------
    problem : Problem
        The large problem.
    place : array of another library, optional
        Where the basis lives.

    Attributes
    ----------
    large : Problem
    basis : ndarray of shape (n, p)
        Orthonormal columns; none at first.
    compressed : ndarray of shape (k, p, p)
        ``basis.T @ S_i @ basis`` for every group.
    """

    def __init__(self, problem: Problem, place: Any = None) -> None:
        oracle = problem.oracle
        super().__init__(
            oracle.apply, oracle.n_groups, oracle.n_features, keep_images=False, place=place
        )
        self.large = problem

    def problem(self, *, holds_own: bool = False) -> Problem:
        """Return the problem inside the subspace; see `restricted`."""
        return restricted(self.large, self, holds_own=holds_own)


def restricted(large: Problem, space: ProjectedBasis, *, holds_own: bool = False) -> Problem:
    """Return a large problem inside the span of a basis.

    Rounding is that of the whole problem, however small the compression is.

    Parameters
    ----------
    large : Problem
    space : ProjectedBasis
    holds_own : bool
        Whether the groups' own bases lie in the span; their pairs are then known inside too.

    Returns
    -------
    Problem
        With matrices of shape (k, p, p). A basis V of it has the losses that ``space.basis @ V``
        has in the large problem.
    """
    place = large.oracle.place
    oracle = explicit_oracle(space.compressed, scale=large.oracle.scale, place=place)
    own = None
    if holds_own and large.own is not None:
        own = tuple(
            EigenPairs(pairs.values, space.coordinates(pairs.columns[:, : large.n_components]))
            for pairs in large.own
        )
    return Problem(oracle, large.offsets, large.n_components, own)
