"""Leading eigenpairs of symmetric matrices: every eigen-decomposition of the package is here.

In full, in part by LAPACK, or by a Krylov method from products alone, whichever is cheapest for
the size. LAPACK's partial drivers have returned fewer pairs than asked for, and other ones, where
eigenvalues are tied; so every answer is checked, and asked for again from a safer driver where the
check fails.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse.linalg
from scipy.linalg.blas import dsymv
from scipy.linalg.lapack import dpstrf

from fairpca._linalg import (
    FloatArray,
    dot,
    expand,
    fetched,
    orthonormal,
    placed,
    rounding_level,
    symmetric,
)

Product = Callable[[FloatArray], FloatArray]

# All crossovers below were measured on two cores with OpenBLAS on four kinds of spectra. A wrong
# one costs time and changes no result.

# With more than this share of the pairs wanted, all of them cost no more (LAPACK reduces the
# whole matrix either way).
FULL_SHARE = 1 / 6
# From this many columns on, and up to this share of the pairs, a Krylov method beats LAPACK's
# partial decomposition, unless the spectrum is flat.
KRYLOV_FROM = 250
KRYLOV_SHARE = 1 / 10
# Up to this share of the columns as rank, pairs from a thin factor beat those from the matrix
# (measured at 1,764 columns: a third of the time at an eighth, nothing gained at a third).
LOW_RANK_SHARE = 1 / 4
# Residual, relative to the largest eigenvalue, past which a pair is no eigenpair. Correct answers
# of LAPACK and ARPACK stay below 1e-13.
_WRONG = 1e-10

# Residuals of a Krylov method past this share of the largest eigenvalue mean that it did not find
# eigenvectors. Converged ones have 1e-13, and 1e-9 where products centre rows far from zero.
_UNCONVERGED = 1e-7
# What is left is looked at more closely where a rough value of it is within this share of the
# smallest value found: ten times the residual of the rough one.
_NEAR = 1e-2
# Products below this are taken in larger units. ARPACK takes eigenvalues below 4e-11 for zero and
# any vectors for theirs, and the last one asked for may be far below the first.
_SMALL = 1e-6

# Random numbers of the check, drawn once: drawing takes as long as decomposing 16 columns.
_MIXTURE = np.random.default_rng(0).standard_normal(4096)


@dataclass(frozen=True)
class EigenPairs:
    """Eigenvalues in decreasing order and the matching orthonormal columns.

    Attributes
    ----------
    values : ndarray of shape (r,)
    columns : array of shape (n, r)
        Where the matrix lives: here, or on another device.
    """

    values: FloatArray
    columns: Any

    @property
    def vectors(self) -> FloatArray:
        """The columns, brought here when they are first asked for."""
        # Not functools.cached_property: on Python 3.11 it holds a lock that all instances share,
        # and a process forked while another thread held it would wait for ever.
        if "_here" not in self.__dict__:
            self.__dict__["_here"] = fetched(self.columns)
        return self.__dict__["_here"]  # type: ignore[no-any-return]

    def head(self, r: int) -> EigenPairs:
        """Return the `r` leading pairs."""
        return EigenPairs(self.values[:r], self.columns[:, :r])


def full_pairs(matrix: FloatArray) -> EigenPairs:
    """Return all eigenpairs of a symmetric matrix, largest first."""
    n = len(matrix)
    found = _attempt(lambda: _reversed(*np.linalg.eigh(matrix)))
    if found is None or not are_pairs(matrix.__matmul__, found, n, n):
        # The oldest driver, QR, is the slowest and the most robust.
        found = _attempt(lambda: _reversed(*scipy.linalg.eigh(matrix, driver="ev")))
        if found is None or not are_pairs(matrix.__matmul__, found, n, n):
            raise np.linalg.LinAlgError(
                f"the eigenvalues of a matrix of {n} columns could not be computed; rescale the "
                "columns, or leave out those that are nearly constant."
            )
    return found


def leading_pairs(matrix: FloatArray, r: int) -> EigenPairs:
    """Return the `r` leading eigenpairs of a symmetric matrix by the cheapest driver."""
    found = None
    if prefers_krylov(len(matrix), r):
        found = by_krylov(np.ascontiguousarray(matrix), r)
    return by_lapack(matrix, r) if found is None else found


def prefers_krylov(n: int, r: int) -> bool:
    """Whether a Krylov method is the first choice for `r` pairs of a matrix of n columns."""
    return n >= KRYLOV_FROM and r <= KRYLOV_SHARE * n


def by_lapack(matrix: FloatArray, r: int, rough: bool = False) -> EigenPairs:
    """Return the `r` leading pairs by LAPACK; rough ones in single precision, unchecked."""
    n = len(matrix)
    if n <= 2 / FULL_SHARE or r > FULL_SHARE * n:
        return full_pairs(matrix).head(r)

    # Single precision has fewer orders of magnitude.
    unit = (float(np.abs(matrix).max()) or 1.0) if rough else 1.0

    def partial() -> EigenPairs:
        values, vectors = scipy.linalg.eigh(
            (matrix / unit).astype(np.float32) if rough else matrix,
            subset_by_index=(n - r, n - 1),
            driver="evr",
            check_finite=False,
        )
        return _reversed(values.astype(float) * unit, vectors.astype(float))

    found = _attempt(partial)
    if found is not None and found.vectors.shape == (n, r):
        if rough and np.all(np.isfinite(found.vectors)):
            return found
        if are_pairs(matrix.__matmul__, found, n, r):
            return found
    return full_pairs(matrix).head(r)


def by_krylov(
    matrix: FloatArray,
    r: int,
    start: FloatArray | None = None,
    *,
    patient: bool = False,
    rough: bool = False,
    proven: bool = False,
) -> EigenPairs | None:
    """Return the `r` leading pairs by a Krylov method, or None where LAPACK would be faster.

    A flat spectrum shows by the products it takes: LAPACK takes as long as about half as many as
    there are columns. With `patient` the method may take as long as it likes. With `proven` the
    caller proves that the pairs lead, and what they may have missed is not searched for.
    """
    n = len(matrix)
    most = None if patient else max(int(2.2 * r) + 40, int(0.45 * n) - 45)

    def product(columns: FloatArray) -> FloatArray:
        if columns.ndim > 1:
            return np.asarray(dot(matrix, columns))
        # Reads one triangle only; a single vector costs what the memory takes to read.
        return np.asarray(dsymv(1.0, matrix.T, columns))

    def found() -> EigenPairs:
        # Rough ones to rounding too: that costs a tenth more, and without it the rounding of the
        # matrices would show in the ninth digit of the answer.
        search = not (rough or proven)
        return krylov_pairs(product, n, r, start, search=search, most=most)

    pairs = _attempt(found)
    if proven and pairs is not None and not are_pairs(product, pairs, n, r):
        return None
    return pairs


def _attempt(decompose: Callable[[], EigenPairs]) -> EigenPairs | None:
    """Return what a driver finds, None where it gives up."""
    try:
        return decompose()
    except (np.linalg.LinAlgError, scipy.sparse.linalg.ArpackError, ValueError, IndexError):
        return None


def _reversed(values: FloatArray, vectors: FloatArray) -> EigenPairs:
    """Return pairs in decreasing order; a reversed view would be copied in every product."""
    if np.any(values[1:] < values[:-1]):
        # No driver should return this; whoever takes the leading ones must not rely on it.
        order = np.argsort(values)
        values, vectors = values[order], vectors[:, order]
    return EigenPairs(values[::-1], np.ascontiguousarray(vectors[:, ::-1]))


def are_pairs(product: Product, pairs: EigenPairs, n: int, r: int) -> bool:
    """Whether `pairs` are `r` orthonormal eigenpairs of a matrix of n columns, to rounding.

    One random combination of the vectors is multiplied. A wrong pair among them shows with
    probability one, and the check costs one product instead of r. Whether other pairs lead is not
    seen here; the certificate checks that.
    """
    values, vectors = pairs.values, pairs.columns
    if values.shape != (r,) or tuple(vectors.shape) != (n, r):
        return False
    size = float(np.abs(values).max(initial=0.0))
    if not math.isfinite(size):
        return False
    mixture = _MIXTURE[:r] if r <= len(_MIXTURE) else np.resize(_MIXTURE, r)
    length = math.sqrt(mixture @ mixture)
    # Vectors that are not finite make distances that are not, and no such distance is small.
    with np.errstate(invalid="ignore", over="ignore"):
        combined = vectors @ placed(mixture, vectors)
        apart = fetched(vectors.T @ combined) - mixture
        residual = fetched(product(combined) - vectors @ placed(values * mixture, vectors))
        return bool(
            np.sqrt(apart @ apart) <= _WRONG * length
            and np.sqrt(residual @ residual) <= _WRONG * length * size + np.finfo(float).tiny
        )


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
    size = float(np.abs(product(first)).max())
    if size == 0:
        # The zero matrix, which ARPACK refuses: every direction is as good as any other.
        return EigenPairs(np.zeros(r), np.eye(n, r))
    if size < _SMALL:
        unit = 2.0 ** np.floor(np.log2(size))
        options: dict[str, Any] = {"rough": rough, "search": search, "most": most}
        found = krylov_pairs(lambda columns: product(columns) / unit, n, r, start, **options)
        return EigenPairs(found.values * unit, found.vectors)
    found = _arpack(product, n, r, first, tol=1e-5 if rough else 0, most=most)
    if rough or not search:
        return found
    vectors = found.vectors
    # As many directions as were asked for may have been missed, and one search more finds none.
    for attempt in range(r + 1):
        image = product(vectors)
        inner = full_pairs(symmetric(vectors.T @ image)).head(r)
        values, rotation = inner.values, inner.vectors
        vectors, image = vectors @ rotation, image @ rotation
        residual = np.linalg.norm(image - vectors * values, axis=0)
        missed = _largest_left(product, EigenPairs(values, vectors), 1 + attempt, most)
        if missed is None:
            break
        vectors = np.linalg.qr(np.column_stack([vectors, missed]))[0]
    else:
        raise scipy.sparse.linalg.ArpackError(-9999)
    if not np.all(residual <= _UNCONVERGED * max(float(values[0]), np.finfo(float).tiny)):
        raise scipy.sparse.linalg.ArpackError(-9999)
    return EigenPairs(values + residual, vectors)


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
    if left.values[0] <= values[-1] * (1 + 1e-6) + np.finfo(float).tiny:
        return None
    # What is taken in is computed as closely as the rest, since its residual raises the sum.
    try:
        closer = _arpack(rest, n, 1, left.vectors[:, 0], tol=0, most=most)
    except scipy.sparse.linalg.ArpackError:
        return left.vectors
    return closer.vectors if closer.values[0] >= left.values[0] * (1 - 1e-6) else left.vectors


def krylov_width(r: int) -> int:
    """Return how many columns the space has in which a Krylov method looks for `r` pairs.

    Shorter bases than ARPACK's own choice, 2 r, cost it less than they cost in restarts.
    """
    return max(r + 20, r + r // 2)


def _arpack(
    product: Product, n: int, r: int, v0: FloatArray, tol: float, most: int | None = None
) -> EigenPairs:
    """Return `r` leading pairs by ARPACK, orthonormal whatever it returned.

    Copies and other dependent vectors are replaced by directions orthogonal to the rest; what is
    computed from them shows by its residual that they are no eigenvectors.
    """
    width = min(n, krylov_width(r))
    restarts = None if most is None else max(2, -(-(most - width) // (width - r)))
    operator = scipy.sparse.linalg.LinearOperator((n, n), matvec=product, dtype=np.float64)
    values, vectors = scipy.sparse.linalg.eigsh(
        operator, k=r, which="LA", v0=v0, tol=tol, ncv=width, maxiter=restarts, **_SEEDED
    )
    if vectors.shape != (n, r) or not np.all(np.isfinite(vectors)):
        raise scipy.sparse.linalg.ArpackError(-9999)
    order = np.argsort(values)[::-1]
    return EigenPairs(values[order], orthonormal(vectors[:, order]))


# ARPACK draws new vectors where its Krylov space ends early, by the tie of eigenvalues; from a
# fixed seed where SciPy lets us give one, so that the same rows give the same bits.
_SEEDED: dict[str, Any] = (
    {"rng": 0} if "rng" in inspect.signature(scipy.sparse.linalg.eigsh).parameters else {}
)


def _first_vector(n: int, seed: int, start: FloatArray | None) -> FloatArray:
    """Return the first vector of a Krylov space: generic, and near `start` where that is known.

    A generic part is always mixed in: a start orthogonal to a wanted direction would hide it.
    """
    generic: FloatArray = np.random.default_rng(seed).standard_normal(n) / np.sqrt(n)
    if start is None:
        return generic
    return np.asarray(0.1 * generic + start.sum(axis=1) / np.sqrt(start.shape[1]))


def thin_factor(matrix: FloatArray, rank: int) -> FloatArray | None:
    """Return L of shape (n, q) with ``matrix = L @ L.T`` to rounding, q about `rank` or less.

    A group of m rows has a covariance of rank m - 1 at most; from the factor its eigenpairs come
    out of an m x m problem. Products keep to the matrix itself: the factor is right to 1e-13 only.

    Parameters
    ----------
    matrix : ndarray of shape (n, n)
        Positive semidefinite.
    rank : int
        What its rank should not exceed. None is returned if it does.
    """
    largest = float(matrix.diagonal().max())
    if largest <= 0:
        return np.zeros((len(matrix), 0))
    # Symmetric, so its transpose is the same matrix in the order LAPACK wants. What is left below
    # its tolerance, n roundings, is rounding of the matrix itself.
    upper, pivots, found, _ = dpstrf(matrix.T)
    rows = np.triu(upper[:found])
    everything = float(np.trace(matrix))
    left = everything - float(np.vdot(rows, rows))
    if found > rank or abs(left) > rounding_level(everything, len(matrix)):
        return None
    thin = np.empty((len(matrix), found))
    thin[pivots - 1] = rows.T
    return thin


def pairs_of_factor(thin: FloatArray, r: int) -> EigenPairs:
    """Return the `r` leading eigenpairs of ``thin @ thin.T``.

    Past the rank, eigenvalues are zero and any orthonormal directions serve.
    """
    n = len(thin)
    inner = full_pairs(thin.T @ thin) if thin.shape[1] else EigenPairs(np.zeros(0), np.eye(0))
    keep = inner.values > np.finfo(float).eps * inner.values.max(initial=0.0) * n
    values, rotation = inner.values[keep][:r], inner.vectors[:, keep][:, :r]
    vectors = thin @ (rotation / np.sqrt(values))
    missing = r - len(values)
    if missing:
        drawn = np.random.default_rng(0).standard_normal((n, missing))
        vectors = expand(vectors, drawn / np.linalg.norm(drawn, axis=0))
    return EigenPairs(np.concatenate([values, np.zeros(missing)]), vectors)
