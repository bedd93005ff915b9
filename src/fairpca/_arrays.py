"""Arrays of any library, small operations on bases and symmetric matrices, and threads."""

from __future__ import annotations

import functools
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any, TypeAlias, TypeVar

import numpy as np
import scipy.linalg
import scipy.sparse
import sklearn
from numpy.typing import NDArray
from scipy.linalg.blas import dgemm
from scipy.linalg.lapack import dpotrf
from threadpoolctl import ThreadpoolController

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
AnyArray: TypeAlias = NDArray[Any]
# Columns of NumPy or of another library; what is computed of them lives where they do.
_Columns = TypeVar("_Columns")
_Result = TypeVar("_Result")

EPS = float(np.finfo(float).eps)
TINY = float(np.finfo(float).tiny)
# Multiplications of a product up to which one thread takes no longer than several: about a tenth
# of a millisecond.
_SMALL_PRODUCT = 1_000_000
# Inner products this close to those of an orthonormal basis leave nothing to remove. Four times as
# much was seen to move a group's value by more than the resolution that its certificate states.
_ORTHONORMAL = 4 * EPS
# Inner products of different columns, times their number, below which one step of Newton and
# Schulz leaves rounding: the step squares what is off.
_NEARLY_ORTHONORMAL = 1e-8
# Up to this many columns BLAS has one thread: its threads made fits of 51 to 300 columns twice as
# slow, and on cores that other processes use too, one of 30 to 50 columns eight times.
_SMALL_MATRIX = 300


def is_sparse(rows: Any) -> bool:
    """Whether rows are a SciPy sparse matrix or array."""
    return bool(scipy.sparse.issparse(rows))


def is_dask(rows: Any) -> bool:
    """Whether rows are a Dask collection; told by its module, so that Dask is not imported."""
    return type(rows).__module__.partition(".")[0] in ("dask", "dask_expr")


def is_foreign(array: Any) -> bool:
    """Whether this is an array of another library: PyTorch's, CuPy's or one of the array API."""
    if isinstance(array, np.ndarray | np.generic) or is_dask(array):
        return False
    return hasattr(array, "__array_namespace__") or type(array).__module__ in ("torch", "cupy")


def array_namespace(array: Any) -> Any:
    """Return the library of a foreign array that is to be followed, else None.

    Followed means computed with where it lives, and answered there. scikit-learn asks for that
    with ``sklearn.config_context(array_api_dispatch=True)``; without it arrays become NumPy's.
    """
    if not is_foreign(array) or not sklearn.get_config()["array_api_dispatch"]:
        return None
    return library_of(array)


# The library of every type of array met so far: scikit-learn compares versions of all libraries
# whenever it is asked, which takes longer than a small product.
_LIBRARIES: dict[type, Any] = {}


def library_of(array: Any) -> Any:
    """Return the library whose functions take this array: NumPy, or one of the array API."""
    if not is_foreign(array):
        return np
    kind = type(array)
    if kind not in _LIBRARIES:
        from sklearn.utils._array_api import get_namespace

        with sklearn.config_context(array_api_dispatch=True):
            _LIBRARIES[kind] = get_namespace(array)[0]
    return _LIBRARIES[kind]


def fetched(array: Any) -> AnyArray:
    """Return an array as NumPy's, brought from whatever device it lives on."""
    if not is_foreign(array):
        return np.asarray(array)
    from sklearn.utils._array_api import _convert_to_numpy

    return np.asarray(_convert_to_numpy(array, library_of(array)))


def placed(array: Any, like: Any) -> Any:
    """Return an array in the library and on the device of another one; itself if it is there.

    None is no place: the array stays where it is.
    """
    if like is None or is_foreign(array) == is_foreign(like):
        return array
    if is_foreign(array):
        return fetched(array)
    array = np.asarray(array)
    if not array.flags.writeable or min(array.strides, default=0) < 0:
        # PyTorch warns of the one and refuses the other.
        array = array.copy()
    return library_of(like).asarray(array, device=like.device)


def rounding_level(scale: float, n_features: int) -> float:
    """Accuracy to which a sum of eigenvalues of magnitude `scale` is known.

    Eight units: the worst of 170,000 random matrices of 2 to 200 columns, one of three, took 4.6.
    Of few columns the matrices themselves are known less well than their eigenvalues.
    """
    return 8 * math.sqrt(n_features + 6) * (EPS * scale + 5e-324)


def constant_columns(mean: FloatArray, spread: FloatArray) -> NDArray[np.bool_]:
    """Which columns never change, by their means and standard deviations.

    Rounding leaves a constant column a spread of about 1e-16 of its mean; dividing by that would
    blow noise up.
    """
    return np.asarray(spread <= 1e-12 * np.maximum(np.abs(mean), 1e-300))


def symmetric(matrix: _Columns) -> _Columns:
    """Return the symmetric part, so that rounding never leaks into an eigensolver."""
    given: Any = matrix
    return 0.5 * (given + given.mT)  # type: ignore[no-any-return]


def diagonals(matrices: Any) -> FloatArray:
    """Return the diagonals of matrices of shape (k, n, n), here or elsewhere, as (k, n)."""
    return fetched(library_of(matrices).linalg.diagonal(matrices))


def joined(arrays: Sequence[Any], axis: int) -> Any:
    """Return arrays one after the other along an axis, where they live."""
    return library_of(arrays[0]).concat(arrays, axis=axis)


def dot(left: Any, right: Any) -> Any:
    """Return ``left @ right``, of large matrices by SciPy's BLAS, which alone may have threads.

    `threads_for` says why. Either may be a stack of matrices, of shape (k, n, q). Arrays of
    another library are multiplied where they live.
    """
    if left.shape[-2] * left.shape[-1] * right.shape[-1] <= _SMALL_PRODUCT or is_foreign(left):
        return left @ right
    if left.ndim > 2:
        return dot(left.reshape(-1, left.shape[-1]), right).reshape(*left.shape[:-1], -1)
    if right.ndim > 2:
        return np.stack([dot(left, matrix) for matrix in right])

    def fortran(matrix: FloatArray) -> tuple[FloatArray, bool]:
        return (matrix.T, True) if matrix.flags.c_contiguous else (matrix, False)

    # Transposed, so that the result comes out in the order of memory of C.
    (first, turned), (second, turned_too) = fortran(right.T), fortran(left.T)
    return dgemm(1.0, first, second, trans_a=turned, trans_b=turned_too).T


def mirrored(matrix: FloatArray) -> FloatArray:
    """Write the lower triangle into the upper one, row by row, and return the matrix."""
    for i in range(len(matrix)):
        matrix[i, i:] = matrix[i:, i]
    return matrix


def is_positive(matrix: Any) -> bool:
    """Whether a Cholesky factorisation of a symmetric matrix succeeds; overwrites the matrix."""
    if not is_foreign(matrix):
        # In place: fresh memory for the factor takes longer than the factorisation.
        return bool(dpotrf(matrix.T, lower=0, clean=0, overwrite_a=1)[1] == 0)
    xp = library_of(matrix)
    try:
        factor = xp.linalg.cholesky(matrix)
    except (np.linalg.LinAlgError, RuntimeError):
        return False
    # CuPy returns numbers where there is no factor, and says nothing.
    left = float(xp.linalg.matrix_norm(factor @ factor.T - matrix))
    return left <= 1e-12 * float(xp.linalg.matrix_norm(matrix))


def orthonormal(columns: _Columns) -> _Columns:
    """Return an orthonormal basis with the same span as nearly orthonormal `columns`.

    Columns that are orthonormal to rounding are returned as they are. Where only rounding has to
    be removed, one step of Newton and Schulz does it with two products, several times faster than
    a QR decomposition. The basis lives where the columns do.
    """
    given: Any = columns
    xp, width = library_of(given), given.shape[1]
    off = dot(given.T, given)
    off = off - placed(np.eye(width), given)
    furthest = float(xp.max(xp.abs(off))) if width else 0.0
    if furthest <= _ORTHONORMAL:
        return columns
    if furthest * width <= _NEARLY_ORTHONORMAL:
        found: Any = given - dot(given, 0.5 * off)
    else:
        q, r = xp.linalg.qr(given)
        found = q * placed(np.where(np.diag(fetched(r)) < 0, -1.0, 1.0), given)
    return found  # type: ignore[no-any-return]


def span(columns: FloatArray, *, rtol: float = 1e-10) -> FloatArray:
    """Return an orthonormal basis of the span of `columns`, dependent directions dropped."""
    u, s, _ = np.linalg.svd(columns, full_matrices=False)
    return np.asarray(u[:, s > rtol * s.max(initial=0.0)])


def expand(basis: Any, columns: Any, *, rtol: float = 1e-9) -> Any:
    """Return `basis` followed by an orthonormal basis of what `columns` adds to it.

    Columns are of unit length; what is left of one below `rtol` adds nothing. Directions come from
    inner products (Stathopoulos and Wu's SVQB), which is several times faster than a pivoted QR;
    the digits that squaring loses are restored afterwards.
    """
    # Once is enough for now: what rounding leaves is removed afterwards.
    fresh, room = outside(basis, columns, times=1), basis.shape[0] - basis.shape[1]
    xp = library_of(basis)
    lengths = np.sqrt(fetched(xp.sum(fresh * fresh, axis=0)))
    kept = np.flatnonzero(lengths > rtol)
    if not kept.size or not room:
        return basis
    fresh = xp.take(fresh, placed(kept, basis), axis=1) / placed(lengths[kept], basis)
    values, rotation = xp.linalg.eigh(dot(fresh.T, fresh))
    # Below this, a direction is rounding of the inner products. The strong ones come last.
    strong = np.count_nonzero(fetched(values) > 1e-13 * float(values[-1]))
    first = len(kept) - min(int(strong), room)
    fresh = dot(fresh, rotation[:, first:] / xp.sqrt(values[first:]))
    return joined([basis, orthonormal(outside(basis, fresh))], axis=1)


def outside(basis: Any, columns: Any, times: int = 2) -> Any:
    """Return what the span of an orthonormal `basis` leaves of columns.

    Twice is enough (Kahan): the second pass removes what rounding left behind.
    """
    for _ in range(times if basis.shape[1] else 0):
        columns = columns - dot(basis, dot(basis.T, columns))
    return columns


def complement(basis: FloatArray) -> FloatArray:
    """Return an orthonormal basis of the orthogonal complement of orthonormal `basis`."""
    q, _ = np.linalg.qr(basis, mode="complete")
    return np.asarray(q[:, basis.shape[1] :])


def fix_signs(components: FloatArray) -> FloatArray:
    """Flip rows so that each row's entry of largest magnitude is positive.

    Entries within 1e-9 of the largest count as tied and the first of them decides, so that
    rounding cannot flip a component such as ``(1, -1) / sqrt(2)``.
    """
    magnitude = np.abs(components)
    tied = magnitude >= magnitude.max(axis=1, keepdims=True) * (1 - 1e-9)
    first = np.argmax(tied, axis=1)
    signs = np.where(components[np.arange(len(components)), first] < 0, -1.0, 1.0)
    return np.asarray(components * signs[:, None])


def diagonalise(basis: Any, compressed: Any) -> tuple[Any, FloatArray]:
    """Rotate orthonormal columns by the eigenvectors of a covariance compressed to them.

    Returns
    -------
    rotated : array of shape (n, r)
        Where the basis lives, unless a direction has no variance.
    variances : ndarray of shape (r,)
        Decreasing.
    """
    xp = library_of(compressed)
    values, rotation = xp.linalg.eigh(symmetric(compressed))
    variances = np.maximum(fetched(values)[::-1], 0.0)
    rotated = orthonormal(basis @ placed(xp.flip(rotation, axis=1), basis))
    empty = variances <= basis.shape[0] * EPS * variances[0]
    if empty.any():
        rotated = fetched(rotated).copy()
        rotated[:, empty] = canonical(rotated[:, empty])
    return rotated, variances


def canonical(basis: FloatArray) -> FloatArray:
    """Return the one basis of a subspace that does not depend on the basis it came in.

    Directions without variance have no natural order; an eigensolver returns any rotation of
    them. Pivots come from row norms, which no rotation changes.
    """
    q, r, _ = scipy.linalg.qr(basis.T, mode="economic", pivoting=True)
    return np.asarray(basis @ (q * np.where(np.diag(r) < 0, -1.0, 1.0)))


# Threads. NumPy and SciPy each bring a BLAS with threads of its own. They spin for milliseconds
# after every call and take the cores from each other: a solve of 512 columns by partial
# decompositions took twice as long with both. So small problems run with BLAS on one thread, large
# ones with the threads of SciPy's alone, which decomposes.


@functools.cache
def _blas() -> tuple[ThreadpoolController, ThreadpoolController]:
    """Return what limits every BLAS, and what limits NumPy's own if SciPy has another one."""
    every = ThreadpoolController().select(user_api="blas")
    paths = [library.filepath for library in every.lib_controllers]
    own = [path for path in paths if re.search(r"[/\\]numpy(\.libs)?[/\\]", path)]
    return every, every.select(filepath=own if len(own) < len(paths) else [])


def threads_for(n: int) -> ExitStack:
    """Return a context for problems of n columns: BLAS as these are solved fastest."""
    found, (every, numpys) = ExitStack(), _blas()
    limited = every if n <= _SMALL_MATRIX else numpys
    # Setting a limit that is there takes as long as a small decomposition.
    if any(library.num_threads > 1 for library in limited.lib_controllers):
        found.enter_context(limited.limit(limits=1))
    return found


def available_threads() -> int:
    """Threads this process may use: its cores, or as many as BLAS is allowed if that is less."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    limits = [library.num_threads for library in _blas()[0].lib_controllers]
    return min(cores or 1, max(limits, default=cores or 1))


def in_threads(tasks: Sequence[Callable[[], _Result]], n_threads: int) -> list[_Result]:
    """Run tasks on up to `n_threads` cores, each with one thread of BLAS; results in order."""
    if min(n_threads, len(tasks)) <= 1:
        return [task() for task in tasks]
    with _blas()[0].limit(limits=1), ThreadPoolExecutor(n_threads) as pool:
        return [done.result() for done in [pool.submit(task) for task in tasks]]


def one_ahead(items: Iterable[_Result]) -> Iterator[_Result]:
    """Yield items, each while a thread of its own makes the next one."""
    waiting, end = iter(items), object()
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, waiting, end)
        while (item := coming.result()) is not end:
            coming = pool.submit(next, waiting, end)
            yield item  # type: ignore[misc]
