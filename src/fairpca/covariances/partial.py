"""Leading eigenpairs of matrices by products alone: a Krylov method, and a filter for devices.

`krylov_pairs` builds on single products, of whatever knows them. A device multiplies a matrix with
a block of columns far faster than it decomposes the matrix, so `filtered_pairs` iterates on a
subspace with a Chebyshev filter there (Zhou, Saad, Tiago and Chelikowsky 2006). Crossovers were
measured on an H200; a wrong one costs time and changes no result.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse.linalg
from scipy.sparse.linalg import ArpackError

from fairpca._arrays import (
    EPS,
    TINY,
    FloatArray,
    fetched,
    library_of,
    orthonormal,
    placed,
    symmetric,
)
from fairpca.covariances.oracle import EigenPairs

Product = Callable[[FloatArray], FloatArray]

# Residuals of a Krylov method past this share of the largest eigenvalue mean that it did not find
# eigenvectors. Converged ones have 1e-13, and 1e-9 where products centre rows far from zero.
_UNCONVERGED = 1e-7
# Residuals, relative to each value, of pairs whose sum is proven by the matrix itself: the proof
# loses their squares, and the last digits take a tenth of the time.
_CLOSELY = 1e-11
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

    found = _arpack(in_units, n, r, first, 1e-5 if rough else 0 if search else _CLOSELY, most)
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


# From this many columns on a filtered block beats a full decomposition (22 ms with 1,764 columns,
# 519 with 8,000), if the block has at most this share of the columns; without a start, which
# takes more rounds, at most the second share.
_FILTER_FROM, _FILTER_SHARE, _COLD_SHARE = 1000, 1 / 4, 1 / 12
# Columns of the block past those asked for, as a share of these and at least so many: the wider
# the block, the faster the others converge, and the longer a round takes.
_SPARE_SHARE, _SPARE = 1 / 4, 16
# Residuals, relative to the largest eigenvalue, at which a block has converged. Rounding leaves
# 1e-13 with 8,000 columns. Rough pairs serve for their directions only.
_CONVERGED, _ROUGH = 1e-12, 1e-4
# A round multiplies the block with at most so many matrices; after so many rounds, or products of
# this share of the columns in all, a full decomposition would have been as fast.
_MOST_DEGREE, _MOST_ROUNDS, _MOST_PRODUCTS = 80, 12, 1 / 8
# Below these residuals Ritz values are good enough to plan by: up to so many polynomials follow
# one another without new ones, which would take longer than the polynomials.
_TRUSTED, _MOST_BLIND = 1e-2, 3
# By how much a filter may amplify what is left of other directions in a column before it drowns
# the column's own: half of the digits, so that a QR decomposition finds the other half.
_DROWNING = math.log(1e8)


def filtered_pairs(matrix: Any, r: int, start: Any, rough: bool) -> tuple[FloatArray, Any] | None:
    """Return the `r` leading eigenvalues and a few more, and their vectors as columns.

    None is returned where a full decomposition is as fast.

    Every round rotates the block to its Ritz vectors, then multiplies it with Chebyshev
    polynomials that are small between zero and the least Ritz value and grow beyond.

    Parameters
    ----------
    matrix : array of shape (n, n)
        Positive semidefinite but for rounding, on the device.
    r : int
    start : array of shape (n, q) or None
        Columns near the answer, here or there.
    rough : bool
    """
    xp, n, target = library_of(matrix), matrix.shape[0], _ROUGH if rough else _CONVERGED
    width = r + max(_SPARE, int(_SPARE_SHARE * r))
    if n < _FILTER_FROM or width > (_COLD_SHARE if start is None else _FILTER_SHARE) * n:
        return None
    # Directions that were never looked at show in columns without a pattern.
    block = _noise(matrix, max(width - (0 if start is None else start.shape[1]), _SPARE))
    if start is not None:
        block = xp.concat([placed(start, matrix), block], axis=1)
    block = xp.linalg.qr(block)[0]
    products = 0
    for _ in range(_MOST_ROUNDS):
        image = matrix @ block
        inner = block.T @ image
        rising, rotation = xp.linalg.eigh(0.5 * (inner + inner.T))
        turn = xp.flip(rotation[:, -width:], axis=1)
        values, block = fetched(rising)[::-1][:width].copy(), block @ turn
        # Without a positive value the block spans all that there is, and rounding is left.
        if not values[-1] > 0:
            break
        residuals = image @ turn - block * placed(values, matrix)
        sizes = np.sqrt(fetched(xp.sum(residuals * residuals, axis=0))) / values[0]
        if sizes[:r].max() <= target:
            return values, block
        growth = np.arccosh(np.maximum(2 * values / values[-1] - 1, 1.0))
        if not growth[r - 1] > 0 or products > _MOST_PRODUCTS * n:
            break
        for _ in range(_MOST_BLIND if sizes[:r].max() <= _TRUSTED else 1):
            degree = _degree(growth, sizes, r, target)
            products += degree
            block = _polynomial(matrix, block, degree, float(values[-1]))
            block = xp.linalg.qr(block)[0]
            # What the polynomial should leave; the next Ritz values tell what it did leave.
            sizes = sizes * np.exp(-degree * growth)
            if sizes[:r].max() <= target:
                break
    return None


def _polynomial(matrix: Any, block: Any, degree: int, cut: float) -> Any:
    """Return ``T(2 A / cut - 1) @ block`` for the Chebyshev polynomial T of this degree."""
    xp = library_of(matrix)
    ones = xp.eye(matrix.shape[0], dtype=xp.float64, device=matrix.device)
    twice = (4 / cut) * matrix - 2 * ones
    before, now = block, 0.5 * (twice @ block)
    for _ in range(degree - 1):
        before, now = now, twice @ now - before
    return now


def _noise(matrix: Any, width: int) -> Any:
    """Return columns without a pattern that an eigenvector could have, always the same."""
    xp, n = library_of(matrix), matrix.shape[0]
    numbers = xp.arange(1, n * width + 1, dtype=xp.float64, device=matrix.device)
    waves = 43758.5453 * xp.sin(12.9898 * numbers)
    return xp.reshape(waves - xp.floor(waves) - 0.5, (n, width))


def _degree(growth: FloatArray, sizes: FloatArray, r: int, target: float) -> int:
    """Return the degree of the next polynomial of a filter.

    A polynomial of degree d amplifies the direction of a value by about ``exp(d * growth)``. As
    many are taken as the worst residual needs, but no more than leave every column its digits.

    Parameters
    ----------
    growth, sizes : ndarray of shape (width,)
        Of every column, decreasing, and its residual relative to the largest Ritz value.
    r : int
        How many have to converge.
    target : float
        Residuals to reach.
    """
    # A few more than wanted: another round costs more than they do.
    wanted = 1.2 * math.log(sizes[:r].max() / target) / float(growth[r - 1]) + 3
    room = _DROWNING - np.log(np.maximum(sizes[:r], EPS))
    apart = np.maximum(growth[:r] - growth[r - 1], 1e-300)
    most = max(min(float((room / apart).min()), 300 / float(growth[0]), _MOST_DEGREE), 1)
    # As many as possible at once would leave the least room to the last polynomial.
    return max(math.ceil(wanted / math.ceil(wanted / most)), 1)
