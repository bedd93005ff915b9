"""Leading eigenpairs by subspace iteration with a Chebyshev filter, for matrices on a device.

A device multiplies a matrix with a block of columns far faster than it decomposes the matrix
(Zhou, Saad, Tiago and Chelikowsky 2006). Arrays of any library of the array API are taken. The
crossovers were measured on an H200; a wrong one costs time and changes no result.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fairpca._arrays import EPS, FloatArray, fetched, library_of, placed

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
