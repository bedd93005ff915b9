"""The oracle of explicit matrices that are decomposed on another device, where the rows live.

It is an idea of its own: nothing of a solver moves to the device, only what is large there. The
matrices, their sums, products and decompositions stay where the rows are, in float64; eigenvectors
come back. What a device returns is checked and proven as everywhere, with products and a
factorisation there.

Leading pairs come from subspace iteration with a Chebyshev filter (Zhou, Saad, Tiago and
Chelikowsky 2006): a device multiplies a matrix with a block of columns far faster than it
decomposes the matrix. Read `ArrayOracle.leading` first.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from fairpca._linalg import (
    FloatArray,
    IntArray,
    fetched,
    is_foreign,
    library_of,
    placed,
)
from fairpca.covariances.dense import DenseOracle
from fairpca.covariances.eigenpairs import FULL_SHARE, EigenPairs, are_pairs, full_pairs
from fairpca.covariances.spectral_bounds import (
    SumBound,
    bound_from_some,
    fits_margin,
    lifted_span,
)

# The crossovers were measured on an H200 beside 16 cores; a wrong one costs time and changes no
# result.

# Below this many columns a decomposition on the processor takes no longer than one there (1.3 ms
# there and 0.9 here with 100 columns, 1.6 and 3 with 173).
_DEVICE_FROM = 128
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


def pays_there(n: int) -> bool:
    """Whether matrices of n columns are best kept and decomposed where the rows live."""
    return n >= _DEVICE_FROM


def explicit_oracle(
    matrices: Any,
    method: str = "auto",
    ranks: IntArray | None = None,
    scale: float | None = None,
    apart: float = 0.0,
    place: Any = None,
) -> DenseOracle:
    """Return the oracle of explicit matrices: on the device of `place` where that is faster.

    Parameters
    ----------
    matrices : array of shape (k, n, n)
        Here, or on the device.
    method, ranks, scale, apart
        As in `DenseOracle`.
    place : array of another library, optional
        Where the rows live; an empty one will do. None for NumPy.
    """
    if place is None or method != "auto" or not pays_there(matrices.shape[1]):
        return DenseOracle(fetched(matrices), method, ranks, scale, apart)
    return ArrayOracle(matrices, scale, apart, place)


class ArrayOracle(DenseOracle):
    """The oracle of explicit matrices on another device.

    Columns given there are answered there, columns given here are answered here.

    Parameters
    ----------
    matrices : array of shape (k, n, n)
        Here, or on the device.
    scale, apart
        As in `DenseOracle`.
    place : array of another library
        Any array on the device.
    """

    def __init__(self, matrices: Any, scale: float | None, apart: float, place: Any) -> None:
        self._there, self._xp = placed(matrices, place), library_of(place)
        if scale is None:
            traces = fetched(self._xp.linalg.trace(self._there))
            scale = float(np.abs(traces).max(initial=0.0))
        super().__init__(matrices, "auto", None, scale, apart)
        self.place = place
        # Leading vectors of the last sum: those of the next one are not far from them.
        self._block: Any = None

    @property
    def matrices(self) -> FloatArray:
        """The matrices themselves, brought here when they are first asked for."""
        self._matrices = fetched(self._matrices)
        return self._matrices

    def apply(self, columns: Any) -> Any:
        """Return ``S_i @ columns`` for every group, where the columns are."""
        return self._product(self._there, columns)

    def combine(self, weights: FloatArray) -> Any:
        """Return ``sum_i weights[i] S_i``, there."""
        flat = self._xp.reshape(self._there, (self.n_groups, -1))
        shape = (self.n_features, self.n_features)
        return self._xp.reshape(placed(weights, self.place) @ flat, shape)

    def retained_variance(self, basis: Any) -> FloatArray:
        """Return ``Tr(basis.T @ S_i @ basis)`` for every group, shape (k,)."""
        there = placed(basis, self.place)
        return fetched(self._xp.sum((self._there @ there) * there, axis=(1, 2)))

    def leading(
        self,
        weights: FloatArray,
        r: int,
        start: Any = None,
        rough: bool = False,
        proven: bool = False,
    ) -> EigenPairs:
        """Return the `r` leading eigenpairs of the weighted sum; the vectors stay there.

        They are checked as the processor's are; where that fails, the processor answers.
        """
        self.n_eigen += 1
        n, xp, matrix = self.n_features, self._xp, self.combine(weights)
        values: FloatArray | None = None
        vectors: Any = None
        width = r + max(_SPARE, int(_SPARE_SHARE * r))
        known = self._block
        if start is not None:
            known = placed(start, self.place)
            if self._block is not None:
                known = xp.concat([known, self._block[:, known.shape[1] :]], axis=1)
        if n >= _FILTER_FROM and width <= (_COLD_SHARE if known is None else _FILTER_SHARE) * n:
            values, vectors = self._filtered(matrix, r, width, known, rough)
        if values is None:
            rising, vectors = xp.linalg.eigh(matrix)
            values, vectors = fetched(rising)[::-1], xp.flip(vectors[:, -min(width, n) :], axis=1)
        self._block = vectors
        found = EigenPairs(values[:r].copy(), vectors[:, :r])
        if rough or are_pairs(functools.partial(self._product, matrix), found, n, r):
            return found
        self._block = None
        here = full_pairs(fetched(matrix)).head(r)
        return EigenPairs(here.values, placed(here.vectors, self.place))

    def _filtered(
        self, matrix: Any, r: int, width: int, known: Any, rough: bool
    ) -> tuple[FloatArray | None, Any]:
        """Return `width` values and vectors of which the leading `r` have converged.

        Every round rotates the block to its Ritz vectors, then multiplies it with Chebyshev
        polynomials that are small between zero and the least Ritz value and grow beyond.

        Parameters
        ----------
        matrix : array of shape (n, n)
            Positive semidefinite but for rounding, on the device.
        r, width : int
        known : array of shape (n, q) or None
            Columns near the answer, there.
        rough : bool

        Returns
        -------
        values : ndarray of shape (width,) or None
            None where a full decomposition would have been as fast.
        vectors : array of shape (n, width)
        """
        xp, n, target = self._xp, self.n_features, _ROUGH if rough else _CONVERGED
        # Directions that were never looked at show in columns without a pattern.
        block = self._noise(max(width - (0 if known is None else known.shape[1]), _SPARE))
        if known is not None:
            block = xp.concat([known, block], axis=1)
        block = xp.linalg.qr(block)[0]
        products = 0
        for _ in range(_MOST_ROUNDS):
            image = matrix @ block
            inner = block.T @ image
            rising, rotation = xp.linalg.eigh(0.5 * (inner + inner.T))
            turn = xp.flip(rotation[:, -width:], axis=1)
            values, block = fetched(rising)[::-1][:width].copy(), block @ turn
            if not values[0] > 0:
                # A matrix of zeros, or none of numbers.
                break
            residuals = image @ turn - block * placed(values, self.place)
            sizes = np.sqrt(fetched(xp.sum(residuals * residuals, axis=0))) / values[0]
            if not np.all(np.isfinite(sizes)):
                break
            if sizes[:r].max() <= target:
                return values, block
            if not values[-1] > 0:
                # The block spans all that there is: rounding is left, which no product improves.
                break
            growth = np.arccosh(np.maximum(2 * values / values[-1] - 1, 1.0))
            if not growth[r - 1] > 0 or products > _MOST_PRODUCTS * n:
                break
            for _ in range(_MOST_BLIND if sizes[:r].max() <= _TRUSTED else 1):
                degree = _degree(growth, sizes, r, target)
                products += degree
                block = self._polynomial(matrix, block, degree, float(values[-1]))
                block = xp.linalg.qr(block)[0]
                # What the polynomial should leave; the next Ritz values tell what it did leave.
                sizes = sizes * np.exp(-degree * growth)
                if sizes[:r].max() <= target:
                    break
        return None, None

    def _polynomial(self, matrix: Any, block: Any, degree: int, cut: float) -> Any:
        """Return ``T(2 A / cut - 1) @ block`` for the Chebyshev polynomial T of this degree."""
        ones = self._xp.eye(self.n_features, dtype=self._xp.float64, device=self.place.device)
        twice = (4 / cut) * matrix - 2 * ones
        before, now = block, 0.5 * (twice @ block)
        for _ in range(degree - 1):
            before, now = now, twice @ now - before
        return now

    def _noise(self, width: int) -> Any:
        """Return columns without a pattern that an eigenvector could have, always the same."""
        xp, n = self._xp, self.n_features
        numbers = xp.arange(1, n * width + 1, dtype=xp.float64, device=self.place.device)
        waves = 43758.5453 * xp.sin(12.9898 * numbers)
        return xp.reshape(waves - xp.floor(waves) - 0.5, (n, width))

    def full(self, weights: FloatArray) -> EigenPairs:
        """Return all eigenpairs of the weighted sum."""
        return self.leading(weights, self.n_features)

    def own_pairs(self, r: int) -> tuple[EigenPairs, ...]:
        """Return at least `r` leading eigenpairs of every matrix by itself, as `DenseOracle`."""
        if self.in_full(r):
            return tuple(self.full(row) for row in np.eye(self.n_groups))
        return super().own_pairs(r)

    def in_full(self, r: int) -> bool:
        """Whether a problem of rank `r` is best solved with all pairs of every matrix."""
        return r > FULL_SHARE * self.n_features

    def _prove(self, weights: FloatArray, near: EigenPairs, r: int) -> SumBound | None:
        """Return what pairs prove about the weighted sum, None if nothing."""
        q, matrix = near.columns.shape[1], self.combine(weights)
        columns = placed(near.columns, self.place)
        if not r < q < self.n_features or not bool(self._xp.all(self._xp.isfinite(columns))):
            return super()._prove(weights, near, r)

        def rest_is_below(held: Any, values: FloatArray, beta: float, margin: float) -> bool:
            xp, n = self._xp, self.n_features
            lifted = lifted_span(held, values, beta)
            ones = xp.eye(n, dtype=xp.float64, device=self.place.device)
            shifted = lifted @ lifted.T - matrix + (beta - margin) * ones
            trace = float(xp.linalg.trace(shifted))
            if not fits_margin(n, trace, values, beta, margin):
                return False
            try:
                factor = xp.linalg.cholesky(shifted)
            except (np.linalg.LinAlgError, RuntimeError):
                return False
            # CuPy returns numbers where there is no factor, and says nothing. So the factor is
            # multiplied out: whatever it is, a matrix that differs from it times its transpose by
            # less than the margin has no eigenvalue below minus the margin.
            return float(xp.linalg.matrix_norm(factor @ factor.T - shifted)) <= margin

        product = functools.partial(self._product, matrix)
        return bound_from_some(product, rest_is_below, columns, r)

    def _product(self, matrix: Any, columns: Any) -> Any:
        """Return a matrix on the device times columns, where the columns are."""
        if is_foreign(columns):
            return matrix @ columns
        return fetched(matrix @ placed(columns, self.place))


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
    room = _DROWNING - np.log(np.maximum(sizes[:r], np.finfo(float).eps))
    apart = np.maximum(growth[:r] - growth[r - 1], 1e-300)
    most = max(min(float((room / apart).min()), 300 / float(growth[0]), _MOST_DEGREE), 1)
    # As many as possible at once would leave the least room to the last polynomial.
    return max(math.ceil(wanted / math.ceil(wanted / most)), 1)
