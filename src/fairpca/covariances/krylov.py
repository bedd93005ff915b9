"""Leading eigenpairs of matrices that are known by their products."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse.linalg
from scipy.sparse.linalg import ArpackError

from fairpca._arrays import TINY, FloatArray, orthonormal, symmetric
from fairpca.covariances.oracle import EigenPairs

Product = Callable[[FloatArray], FloatArray]

# Residuals of a Krylov method past this share of the largest eigenvalue mean that it did not find
# eigenvectors. Converged ones have 1e-13, and 1e-9 where products centre rows far from zero.
_UNCONVERGED = 1e-7
# What is left is looked at more closely where a rough value of it is within this share of the
# smallest value found: ten times the residual of the rough one.
_NEAR = 1e-2
# Products below this are taken in larger units. ARPACK takes eigenvalues below 4e-11 for zero and
# any vectors for theirs, and the last one asked for may be far below the first.
_SMALL = 1e-6


def krylov_pairs(
    product: Product,
    n: int,
    r: int,
    start: FloatArray | None = None,
    *,
    rough: bool = False,
    search: bool = True,
    most: int | None = None,
) -> EigenPairs:
    """Return the `r` leading eigenpairs of a positive semidefinite matrix known by its products.

    A lower bound may rest on the sum of these eigenvalues, so it must not come out too small. With
    `search`, each value is raised by the norm of its residual; and since a Krylov space of one
    vector may miss copies of a repeated eigenvalue, what is left after removing the found
    directions is searched once more, from another start, and anything larger is taken in.

    Parameters
    ----------
    product : callable
        Maps one vector, or columns of shape (n, q), to the matrix times them.
    n, r : int
        With r < n.
    start : ndarray of shape (n, r), optional
        A basis near the answer; its sum is the first vector.
    rough : bool
        Stop early and skip the search: for directions only.
    search : bool
        Whether to look for what was missed.
    most : int, optional
        Give up after about this many products.

    Raises
    ------
    scipy.sparse.linalg.ArpackError
        If the iteration does not converge.
    """
    first = _first_vector(n, 0, start)
    size = float(np.abs(product(first)).max())
    if size == 0:
        # The zero matrix, which ARPACK refuses: every direction is as good as any other.
        return EigenPairs(np.zeros(r), np.eye(n, r))
    unit = 2.0 ** np.floor(np.log2(size)) if size < _SMALL else 1.0

    def in_units(columns: FloatArray) -> FloatArray:
        return product(columns) / unit if unit != 1 else product(columns)

    found = _arpack(in_units, n, r, first, tol=1e-5 if rough else 0, most=most)
    if rough or not search:
        return EigenPairs(found.values * unit, found.vectors)
    vectors = found.vectors
    # As many directions as were asked for may have been missed, and one search more finds none.
    for attempt in range(r + 1):
        image = in_units(vectors)
        rising, rotation = np.linalg.eigh(symmetric(vectors.T @ image))
        values, rotation = rising[::-1][:r], rotation[:, ::-1][:, :r]
        vectors, image = vectors @ rotation, image @ rotation
        residual = np.linalg.norm(image - vectors * values, axis=0)
        missed = _largest_left(in_units, EigenPairs(values, vectors), 1 + attempt, most)
        if missed is None:
            break
        vectors = np.linalg.qr(np.column_stack([vectors, missed]))[0]
    else:
        raise ArpackError(-9999)
    if not np.all(residual <= _UNCONVERGED * max(float(values[0]), TINY)):
        raise ArpackError(-9999)
    return EigenPairs((values + residual) * unit, vectors)


def _largest_left(
    product: Product, found: EigenPairs, seed: int, most: int | None
) -> FloatArray | None:
    """Return a direction outside `found` with an eigenvalue above its smallest, if any.

    Raises ArpackError where about `most` products do not tell.
    """
    values, vectors = found.values, found.vectors
    n, r = vectors.shape

    def rest(columns: FloatArray) -> FloatArray:
        inside = vectors.T @ columns
        return product(columns) - vectors @ (values * inside.T).T

    first = _first_vector(n, seed, None)
    if r >= n - 1 or np.linalg.norm(rest(first)) <= 1e-13 * abs(values[0]):
        return None
    left = _arpack(rest, n, 1, first, tol=1e-3)
    # A Ritz value is never above the largest eigenvalue, but a rough one may be well below it.
    if abs(left.values[0] - values[-1]) <= _NEAR * abs(values[-1]):
        left = _arpack(rest, n, 1, _first_vector(n, seed, left.vectors), tol=1e-7, most=most)
    if left.values[0] <= values[-1] * (1 + 1e-6) + TINY:
        return None
    # What is taken in is computed as closely as the rest, since its residual raises the sum.
    try:
        closer = _arpack(rest, n, 1, left.vectors[:, 0], tol=0, most=most)
    except ArpackError:
        return left.vectors
    return closer.vectors if closer.values[0] >= left.values[0] * (1 - 1e-6) else left.vectors


def krylov_width(r: int) -> int:
    """Return how many columns the space has in which a Krylov method looks for `r` pairs.

    Shorter bases than ARPACK's own choice, 2 r, cost it less than they cost in restarts.
    """
    return max(r + 20, r + r // 2)


# ARPACK draws new vectors where its Krylov space ends early, by the tie of eigenvalues; from a
# fixed seed where SciPy lets us give one, so that the same rows give the same bits.
_SEEDED: dict[str, Any] = (
    {"rng": 0} if "rng" in inspect.signature(scipy.sparse.linalg.eigsh).parameters else {}
)


def _arpack(
    product: Product, n: int, r: int, v0: FloatArray, tol: float, most: int | None = None
) -> EigenPairs:
    """Return `r` leading pairs by ARPACK, with orthonormal vectors."""
    width = min(n, krylov_width(r))
    restarts = None if most is None else max(2, -(-(most - width) // (width - r)))
    operator = scipy.sparse.linalg.LinearOperator((n, n), matvec=product, dtype=np.float64)
    values, vectors = scipy.sparse.linalg.eigsh(
        operator, k=r, which="LA", v0=v0, tol=tol, ncv=width, maxiter=restarts, **_SEEDED
    )
    order = np.argsort(values)[::-1]
    return EigenPairs(values[order], orthonormal(vectors[:, order]))


def _first_vector(n: int, seed: int, start: FloatArray | None) -> FloatArray:
    """Return the first vector of a Krylov space: generic, and near `start` where that is known.

    A generic part is always mixed in: a start orthogonal to a wanted direction would hide it.
    """
    generic: FloatArray = np.random.default_rng(seed).standard_normal(n) / np.sqrt(n)
    if start is None:
        return generic
    return np.asarray(0.1 * generic + start.sum(axis=1) / np.sqrt(start.shape[1]))
