"""Small operations on arrays, bases and symmetric matrices that every room shares."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np
import scipy.linalg
import scipy.sparse
import sklearn
from numpy.typing import NDArray
from scipy.linalg.blas import dgemm

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
AnyArray: TypeAlias = NDArray[Any]
# Columns of NumPy or of another library; what is computed of them lives where they do.
_Columns = TypeVar("_Columns")
# Multiplications of a product up to which NumPy's BLAS takes no longer on one thread than SciPy's
# on several: about a tenth of a millisecond.
_SMALL_PRODUCT = 1_000_000


_EPS = float(np.finfo(float).eps)
_SMALLEST = float(np.finfo(float).smallest_subnormal)

# Inner products this close to those of an orthonormal basis leave nothing to remove. Four times as
# much was seen to move a group's value by more than the resolution that its certificate states.
_ORTHONORMAL = 4 * _EPS
# Residuals of eigenvectors, relative to the largest eigenvalue, that are no rounding.
_WRONG = 1e-10
# Inner products of different columns, times their number, below which one step of Newton and
# Schulz leaves rounding: the step squares what is off.
_NEARLY_ORTHONORMAL = 1e-8


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
    if hasattr(array, "detach"):
        return np.asarray(array.detach().cpu().numpy())
    if type(array).__module__ == "cupy":
        return np.asarray(array.get())
    if not is_foreign(array) or not hasattr(array, "__array_namespace__"):
        return np.asarray(array)
    from sklearn.utils._array_api import _convert_to_numpy

    return np.asarray(_convert_to_numpy(array, array.__array_namespace__()))


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
    Of few columns the matrices themselves are known less well than their eigenvalues: where many
    rows are equal their squares are rounded the same way every time, by up to 15 units in two
    columns of 767 rows.
    """
    return 8 * math.sqrt(n_features + 6) * (_EPS * scale + _SMALLEST)


def constant_columns(mean: FloatArray, spread: FloatArray) -> NDArray[np.bool_]:
    """Which columns never change, by their means and standard deviations.

    Rounding leaves a constant column a spread of about 1e-16 of its mean; dividing by that would
    blow noise up.
    """
    return np.asarray(spread <= 1e-12 * np.maximum(np.abs(mean), 1e-300))


def symmetric(matrix: _Columns) -> _Columns:
    """Return the symmetric part, so that rounding never leaks into an eigensolver."""
    given: Any = matrix
    turned = given.mT if is_foreign(given) else np.swapaxes(given, -1, -2)
    return 0.5 * (given + turned)  # type: ignore[no-any-return]


def joined(arrays: Sequence[Any], axis: int) -> Any:
    """Return arrays one after the other along an axis, where they live."""
    # NumPy before 2.0 has no concat.
    join = library_of(arrays[0]).concat if is_foreign(arrays[0]) else np.concatenate
    return join(arrays, axis=axis)


def eigh(matrix: Any) -> tuple[Any, Any]:
    """Return eigenvalues, rising, and eigenvectors of a symmetric matrix, where it lives.

    What another library returns is checked, and computed here where it is wrong.
    """
    if not is_foreign(matrix):
        return np.linalg.eigh(matrix)
    xp = library_of(matrix)
    values, vectors = xp.linalg.eigh(matrix)
    ones = placed(np.eye(matrix.shape[0]), matrix)
    wrong = xp.linalg.matrix_norm(matrix @ vectors - vectors * values)
    askew = xp.linalg.matrix_norm(vectors.T @ vectors - ones)
    # What is not a number is not small.
    if not (float(wrong) <= _WRONG * float(xp.max(xp.abs(values))) and float(askew) <= _WRONG):
        values, vectors = (placed(part, matrix) for part in np.linalg.eigh(fetched(matrix)))
    return values, vectors


def dot(left: Any, right: Any) -> Any:
    """Return ``left @ right``, of large matrices by SciPy's BLAS, which alone may have threads.

    `_threads` says why. Either may be a stack of matrices, of shape (k, n, q). Arrays of another
    library are multiplied where they live.
    """
    if is_foreign(left) or left.shape[-2] * left.shape[-1] * right.shape[-1] <= _SMALL_PRODUCT:
        return left @ right
    if left.ndim > 2:
        return np.stack([dot(matrix, right) for matrix in left])
    if right.ndim > 2:
        return np.stack([dot(left, matrix) for matrix in right])
    # Transposed, so that the result comes out in the order of memory of C.
    (first, turned), (second, turned_too) = _fortran(right.T), _fortran(left.T)
    return dgemm(1.0, first, second, trans_a=turned, trans_b=turned_too).T


def _fortran(matrix: FloatArray) -> tuple[FloatArray, bool]:
    """Return a matrix in Fortran's order of memory, and whether it is transposed then."""
    if matrix.flags.c_contiguous:
        return matrix.T, True
    return matrix, False


def orthonormal(columns: _Columns) -> _Columns:
    """Return an orthonormal basis with the same span as nearly orthonormal `columns`.

    Columns that are orthonormal to rounding are returned as they are. Where only rounding has to
    be removed, one step of Newton and Schulz does it with two products, several times faster than
    a QR decomposition. The basis lives where the columns do.
    """
    given: Any = columns
    xp, width = library_of(given), given.shape[1]
    with np.errstate(over="ignore", invalid="ignore"):
        off = dot(given.T, given)
    off = off - placed(np.eye(width), given)
    apart = float(xp.max(xp.abs(off))) if width else 0.0
    if apart <= _ORTHONORMAL:
        return columns
    if apart * width <= _NEARLY_ORTHONORMAL:
        found: Any = given - dot(given, 0.5 * off)
    else:
        q, r = xp.linalg.qr(given)
        found = q * placed(np.where(np.diag(fetched(r)) < 0, -1.0, 1.0), given)
    return found  # type: ignore[no-any-return]


def span(columns: FloatArray, *, rtol: float = 1e-10) -> FloatArray:
    """Return an orthonormal basis of the span of `columns`, dependent directions dropped."""
    u, s, _ = np.linalg.svd(columns, full_matrices=False)
    if s.size == 0 or s[0] == 0:
        return np.asarray(u[:, :0])
    return np.asarray(u[:, s > rtol * s[0]])


def expand(basis: Any, columns: Any, *, rtol: float = 1e-9) -> Any:
    """Return `basis` followed by an orthonormal basis of what `columns` adds to it.

    Columns are of unit length; what is left of one below `rtol` adds nothing. Directions come from
    inner products (Stathopoulos and Wu's SVQB), which is several times faster than a pivoted QR;
    the digits that squaring loses are restored afterwards.
    """
    fresh, room = outside(basis, columns), basis.shape[0] - basis.shape[1]
    xp = library_of(basis)
    lengths = np.sqrt(fetched(xp.sum(fresh * fresh, axis=0)))
    kept = np.flatnonzero(lengths > rtol)
    if not kept.size or not room:
        return basis
    fresh = xp.take(fresh, placed(kept, basis), axis=1) / placed(lengths[kept], basis)
    values, rotation = eigh(dot(fresh.T, fresh))
    # Below this, a direction is rounding of the inner products. The strong ones come last.
    strong = np.count_nonzero(fetched(values) > 1e-13 * float(values[-1]))
    first = len(kept) - min(int(strong), room)
    fresh = dot(fresh, rotation[:, first:] / xp.sqrt(values[first:]))
    return joined([basis, orthonormal(outside(basis, fresh))], axis=1)


def outside(basis: Any, columns: Any) -> Any:
    """Return what the span of an orthonormal `basis` leaves of columns."""
    for _ in range(2 if basis.shape[1] else 0):
        # Twice is enough (Kahan): the second pass removes what rounding left behind.
        columns = columns - dot(basis, dot(basis.T, columns))
    return columns


def complement(basis: FloatArray) -> FloatArray:
    """Return an orthonormal basis of the orthogonal complement of orthonormal `basis`."""
    n, r = basis.shape
    if r == 0:
        return np.eye(n)
    q, _ = np.linalg.qr(basis, mode="complete")
    return np.asarray(q[:, r:])


def fix_signs(components: FloatArray) -> FloatArray:
    """Flip rows so that each row's entry of largest magnitude is positive.

    Entries within 1e-9 of the largest count as tied and the first of them decides, so that
    rounding cannot flip a component such as ``(1, -1) / sqrt(2)``.
    """
    magnitude = np.abs(components)
    tied = magnitude >= magnitude.max(axis=1, keepdims=True) * (1 - 1e-9)
    first = np.argmax(tied, axis=1)
    signs = np.sign(components[np.arange(len(components)), first])
    return np.asarray(components * np.where(signs == 0, 1.0, signs)[:, None])


def principal_rotation(basis: FloatArray, covariance: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Rotate orthonormal columns so that `covariance` is diagonal and decreasing in them.

    Returns
    -------
    components : ndarray of shape (r, n)
        The rotated basis as rows, signs fixed.
    variances : ndarray of shape (r,)
    """
    rotated, variances = diagonalise(basis, basis.T @ covariance @ basis)
    return fix_signs(np.ascontiguousarray(rotated.T)), variances


def diagonalise(basis: Any, compressed: Any) -> tuple[Any, FloatArray]:
    """Rotate orthonormal columns by the eigenvectors of a covariance compressed to them.

    It is decomposed where it lives.

    Returns
    -------
    rotated : array of shape (n, r)
        Where the basis lives, unless a direction has no variance.
    variances : ndarray of shape (r,)
        Decreasing.
    """
    values, rotation = eigh(symmetric(compressed))
    variances = np.maximum(fetched(values)[::-1], 0.0)
    turn = library_of(rotation).flip(rotation, axis=1)
    rotated = orthonormal(basis @ placed(turn, basis))
    empty = variances <= basis.shape[0] * np.finfo(float).eps * variances[0]
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


def subspace_distance(first: FloatArray, second: FloatArray) -> float:
    """Spectral norm of the difference of two projectors, from orthonormal columns."""
    outside = second - first @ (first.T @ second)
    return float(np.linalg.norm(outside, 2)) if outside.size else 0.0
