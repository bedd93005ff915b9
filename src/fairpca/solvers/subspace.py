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

from fairpca._linalg import fetched
from fairpca.covariances.block_krylov import ProjectedBasis
from fairpca.covariances.device import explicit_oracle
from fairpca.covariances.eigenpairs import EigenPairs
from fairpca.solvers.problem import Problem


def empty_subspace(large: Problem, place: Any = None) -> ProjectedBasis:
    """Return a basis without columns, to be widened, in which a large problem can be restricted.

    It lives on the device of `place`, an array of another library; here by default.
    """
    oracle = large.oracle
    return ProjectedBasis(oracle.apply, oracle.n_groups, oracle.n_features, place=place)


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
    own, r = None, large.n_components
    if holds_own and large.own is not None:
        columns = [space.coordinates(pairs.columns[:, :r]) for pairs in large.own]
        if oracle.place is None:
            # Small compressed matrices are decomposed here.
            columns = [fetched(inside) for inside in columns]
        pairs_of = zip(large.own, columns, strict=True)
        own = tuple(EigenPairs(pairs.values, inside) for pairs, inside in pairs_of)
    return Problem(oracle, large.offsets, r, own)
