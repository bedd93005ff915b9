"""The oracle of explicit matrices: every eigen-decomposition of the package happens here.

Full, partial by LAPACK, or by a Krylov method from products alone; chosen by measured crossovers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse.linalg
from scipy.linalg.blas import dsymv
from scipy.linalg.lapack import dsyevd

from fairpca.arrays import FloatArray, IntArray, symmetric
from fairpca.solve.low_rank import LOW, factor, leading_of_factor
from fairpca.solve.oracle import EigenPairs, ProductOracle
from fairpca.threads import (
    FEW_COLUMNS,
    ONE_THREAD_TO,
    available_threads,
    blas_alone,
    in_threads,
)

# Measured crossovers (2 cores, OpenBLAS, four kinds of spectra). Full decompositions, which give
# the second derivative for nothing, win where the subspace of several partial ones would be wide
# against the matrix: with r over n / FULL_SHARE. Two groups take few partial ones; they are in
# full up to FULL_TO columns, where every call shows, and with r over n / PAIR_SHARE (the worst
# spectrum counts; on average it would be n / 9.5) in matrices of up to PAIR_TO, past which the
# vectors nobody asked for cost too much. Three or more groups take many evaluations where there
# are kinks, cheap only inside a subspace: with r over n^2 / FULL_SQUARE. From KRYLOV_FROM columns
# on, and with r under n / KRYLOV_SHARE, a Krylov method wins over LAPACK's partial decomposition
# unless the spectrum is flat, which shows by the products it needs: LAPACK takes as long as about
# n / 2 of them, fewer in small matrices, and is asked then.
FULL_SHARE = 6
FULL_SQUARE = 2000
FULL_TO = 80
PAIR_SHARE = 8
PAIR_TO = 800
KRYLOV_SHARE = 10
KRYLOV_FROM = 250
# Up to this many columns the wrapping of a decomposition shows beside the decomposition.
_UNWRAPPED_TO = 64
# Matrices with so many entries in all are decomposed in one call.
_TOGETHER = 200_000
# Up to this many operations (about a millisecond) one thread decomposes them all.
_ALONE = 200_000
# Past this many columns BLAS uses more cores than there are groups, if there are so many.
_SPREAD_TO = 200


class DenseOracle(ProductOracle):
    """The oracle of explicit symmetric matrices.

    Parameters
    ----------
    covariances : ndarray of shape (k, n, n)
    method : {"auto", "dense", "krylov"}
    ranks : ndarray of shape (k,), optional
        What the rank of each matrix cannot exceed, where that is known.
    """

    def __init__(
        self, covariances: FloatArray, method: str = "auto", ranks: IntArray | None = None
    ) -> None:
        self.covariances = covariances
        self.ranks = ranks
        self.n_groups, self.n_features, _ = covariances.shape
        self.method = method
        self.n_eigen = 0
        self._failures = 0
        # The largest trace bounds every eigenvalue and every loss, and costs nothing.
        self.scale = float(np.max(np.abs(np.trace(covariances, axis1=1, axis2=2)), initial=0.0))

    @property
    def resolved(self) -> str:
        """The driver that leading pairs of a typical rank come from."""
        return "krylov" if self.method == "krylov" else "dense"

    def decomposes_in_full(self, r: int) -> bool:
        """Whether a problem of rank `r` is best solved with all pairs of every matrix."""
        n: int = self.n_features
        if self.method == "krylov":
            return False
        if self.n_groups > 2:
            return r * FULL_SQUARE > n * n or r * FULL_SHARE > n
        return n <= FULL_TO or r * (PAIR_SHARE if n <= PAIR_TO else FULL_SHARE) > n

    def combine(self, weights: FloatArray) -> FloatArray:
        """Return ``sum_i weights[i] S_i``."""
        if np.count_nonzero(weights) == 1 and weights.max() == 1.0:
            return np.asarray(self.covariances[int(weights.argmax())])
        flat = self.covariances.reshape(self.n_groups, -1)
        return np.asarray((weights @ flat).reshape(self.n_features, self.n_features))

    def full(self, weights: FloatArray) -> EigenPairs:
        """Return all eigenpairs of the weighted sum."""
        self.n_eigen += 1
        return full_pairs(self.combine(weights))

    def leading(
        self, weights: FloatArray, r: int, start: FloatArray | None = None, rough: bool = False
    ) -> EigenPairs:
        """Return the `r` leading eigenpairs of the weighted sum."""
        self.n_eigen += 1
        matrix = self.combine(weights)
        # One matrix of low rank says nothing about the others; two failures do.
        if self._failures < 2 and _prefers_krylov(self.n_features, r, self.method):
            found = _by_krylov(matrix, r, self.method, start, rough)
            if found is not None:
                return found
            self._failures += 1
        return _by_lapack(matrix, r, rough)

    def own(self, r: int) -> tuple[EigenPairs, ...]:
        """Return the `r` leading eigenpairs of every matrix by itself."""
        if not self.decomposes_in_full(r):
            return tuple(self._own(i, r) for i in range(self.n_groups))
        self.n_eigen += self.n_groups
        k, n, threads = self.n_groups, self.n_features, available_threads()
        if k * n**3 <= _ALONE or (n > _SPREAD_TO and k < threads):
            threads = 1
        # As few calls as there are threads, unless that much should not be in memory at once.
        each = -(-k // threads) if k * n * n <= _TOGETHER else 1
        starts = range(0, k, each)
        parts = [functools.partial(_heads, self.covariances[i : i + each], r) for i in starts]
        return tuple(pairs for part in in_threads(parts, threads) for pairs in part)

    def _own(self, i: int, r: int) -> EigenPairs:
        rank = self.n_features if self.ranks is None else int(self.ranks[i])
        if rank <= LOW * self.n_features and self.method == "auto":
            thin = factor(self.covariances[i], rank)
            if thin is not None:
                self.n_eigen += 1
                return EigenPairs(*leading_of_factor(thin, r))
        return self.leading(np.eye(self.n_groups)[i], r)

    def apply(self, columns: FloatArray) -> FloatArray:
        """Return ``S_i @ columns`` for every group."""
        return np.asarray(self.covariances @ columns)


def _heads(matrices: FloatArray, r: int) -> list[EigenPairs]:
    """Return the `r` leading eigenpairs of every matrix, from full decompositions."""
    values, vectors = np.linalg.eigh(matrices)
    # A copy, so that only what is asked for stays in memory.
    heads = np.ascontiguousarray(vectors[:, :, : -r - 1 : -1])
    return [EigenPairs(v[: -r - 1 : -1], u) for v, u in zip(values, heads, strict=True)]


def full_pairs(matrix: FloatArray) -> EigenPairs:
    """Return all eigenpairs of a symmetric matrix, largest first."""
    if len(matrix) <= _UNWRAPPED_TO:
        # The driver behind np.linalg.eigh.
        values, vectors, failed = dsyevd(matrix)
        if failed:
            raise np.linalg.LinAlgError("Eigenvalues did not converge")
    else:
        values, vectors = np.linalg.eigh(matrix)
    # A reversed view would be copied in every product it enters.
    return EigenPairs(values[::-1], np.ascontiguousarray(vectors[:, ::-1]))


def leading_pairs(matrix: FloatArray, r: int) -> EigenPairs:
    """Return the `r` leading eigenpairs of a symmetric matrix by the cheapest driver."""
    found = None
    if _prefers_krylov(len(matrix), r, "auto"):
        found = _by_krylov(np.ascontiguousarray(matrix), r, "auto")
    return _by_lapack(matrix, r) if found is None else found


def _threads(n: int) -> AbstractContextManager[Any]:
    """Return the context for SciPy's decomposition of a matrix of n columns."""
    return blas_alone if n <= ONE_THREAD_TO else nullcontext()


def _prefers_krylov(n: int, r: int, method: str) -> bool:
    if method == "auto":
        return n >= KRYLOV_FROM and r * KRYLOV_SHARE <= n
    return method == "krylov" and r < n - 1


def _by_krylov(
    matrix: FloatArray,
    r: int,
    method: str,
    start: FloatArray | None = None,
    rough: bool = False,
) -> EigenPairs | None:
    """Return leading pairs, or None where that takes longer than LAPACK or fails."""
    # Asked for by name, it may take as long as it likes; otherwise about as long as LAPACK.
    n = len(matrix)
    most = None if method == "krylov" else max(int(2.2 * r) + 40, int(0.45 * n) - 45)
    try:
        # Rough ones to rounding too: that costs a tenth more, and without it the rounding of the
        # matrices would show in the ninth digit of the answer.
        with _threads(n if r > FEW_COLUMNS else 0):
            return krylov_pairs(_product_with(matrix), n, r, start, search=not rough, most=most)
    except scipy.sparse.linalg.ArpackError:
        return None


def _by_lapack(matrix: FloatArray, r: int, rough: bool = False) -> EigenPairs:
    """Return leading pairs, rough ones in single precision."""
    n = len(matrix)
    if n <= 2 * FULL_SHARE or r * FULL_SHARE > n:
        return full_pairs(matrix).head(r)
    with _threads(n):
        values, vectors = scipy.linalg.eigh(
            matrix.astype(np.float32) if rough else matrix,
            subset_by_index=(n - r, n - 1),
            driver="evr",
            check_finite=False,
        )
    return EigenPairs(values[::-1].astype(float), vectors[:, ::-1].astype(float))


def _product_with(matrix: FloatArray) -> Callable[[FloatArray], FloatArray]:
    """Return the product with a symmetric matrix, of one vector or of several columns."""

    def product(columns: FloatArray) -> FloatArray:
        if columns.ndim > 1:
            return np.asarray(matrix @ columns)
        # Reads one triangle only; a single vector costs what the memory takes to read.
        return np.asarray(dsymv(1.0, matrix.T, columns))

    return product


def krylov_pairs(
    product: Callable[[FloatArray], FloatArray],
    n: int,
    r: int,
    start: FloatArray | None = None,
    *,
    rough: bool = False,
    search: bool = True,
    most: int | None = None,
) -> EigenPairs:
    """Return the `r` leading eigenpairs of a positive semidefinite matrix known by its products.

    A lower bound rests on the sum of these eigenvalues, so it must not come out too small. Each
    value is raised by the norm of its residual; and since a Krylov space of one vector may miss
    copies of a repeated eigenvalue, what is left after removing the found directions is searched
    once more, from another start, and anything larger is taken in.

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
    if not np.any(product(first)):
        # The zero matrix, which ARPACK refuses: every direction is as good as any other.
        return EigenPairs(np.zeros(r), np.eye(n, r))
    values, vectors = _arpack(product, n, r, first, tol=1e-5 if rough else 0, most=most)
    if rough or not search:
        return EigenPairs(values, vectors)
    for attempt in range(r):
        image = product(vectors)
        values, rotation = np.linalg.eigh(symmetric(vectors.T @ image))
        values, rotation = values[::-1][:r], rotation[:, ::-1][:, :r]
        vectors, image = vectors @ rotation, image @ rotation
        residual = np.linalg.norm(image - vectors * values, axis=0)
        missed = _largest_left(product, vectors, values, seed=1 + attempt)
        if missed is None:
            break
        vectors = np.linalg.qr(np.column_stack([vectors, missed]))[0]
    return EigenPairs(values + residual, vectors)


def _largest_left(
    product: Callable[[FloatArray], FloatArray], vectors: FloatArray, values: FloatArray, seed: int
) -> FloatArray | None:
    """Return a direction outside `vectors` with an eigenvalue above their smallest, if any."""
    n, r = vectors.shape

    def rest(columns: FloatArray) -> FloatArray:
        inside = vectors.T @ columns
        return product(columns) - vectors @ (values * inside.T).T

    first = _first_vector(n, seed, None)
    if r >= n - 1 or np.linalg.norm(rest(first)) <= 1e-13 * abs(values[0]):
        return None
    found, direction = _arpack(rest, n, 1, first, tol=1e-3)
    if found[0] <= values[-1] * (1 + 1e-6) + np.finfo(float).tiny:
        return None
    return np.asarray(direction[:, 0])


def _arpack(
    product: Callable[[FloatArray], FloatArray],
    n: int,
    r: int,
    v0: FloatArray,
    tol: float,
    most: int | None = None,
) -> tuple[FloatArray, FloatArray]:
    # Shorter bases than ARPACK's own choice, 2 r, cost it less than they cost in restarts.
    width = min(n, max(r + 20, r + r // 2))
    restarts = None if most is None else max(2, -(-(most - width) // (width - r)))
    operator = scipy.sparse.linalg.LinearOperator((n, n), matvec=product, dtype=np.float64)
    values, vectors = scipy.sparse.linalg.eigsh(
        operator, k=r, which="LA", v0=v0, tol=tol, ncv=width, maxiter=restarts
    )
    order = np.argsort(values)[::-1]
    return values[order], vectors[:, order]


def _first_vector(n: int, seed: int, start: FloatArray | None) -> FloatArray:
    # A generic vector is always mixed in: a start orthogonal to a wanted direction would hide it.
    generic: FloatArray = np.random.default_rng(seed).standard_normal(n) / np.sqrt(n)
    if start is None:
        return generic
    return np.asarray(0.1 * generic + start.sum(axis=1) / np.sqrt(start.shape[1]))
