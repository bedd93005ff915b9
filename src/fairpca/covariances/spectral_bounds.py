"""An upper bound on the sum of the r largest eigenvalues that trusts no eigensolver.

A certificate rests on such sums: the dual bound on one at its weights, every loss on one of the
group's own matrix. An eigensolver that missed a direction makes the sum too small, and the proof
false. So a sum is never taken as it comes. Orthonormal columns V that claim to span the leading
eigenvectors are checked against the matrix A itself:

* With all n columns, the residual A V - V diag(values) bounds every error.
* With fewer, split R^n into the span of V and the rest. A factorisation by Cholesky proves that A
  restricted to the rest is below some beta; the part that couples the two is the residual. Then
  ``diag(values) + R.T R / (values[j] - beta)`` on the span is no smaller than what A can reach,
  and the error is quadratic in the residual.

It is an idea of its own: nothing here computes an eigenvector, and every road asks here.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpotrf

from fairpca._linalg import FloatArray, dot, fetched, orthonormal, placed, symmetric
from fairpca.covariances.eigenpairs import EigenPairs

_EPS = float(np.finfo(float).eps)
# Residuals past this share of the largest eigenvalue are no rounding: the pairs are wrong.
_WRONG = 1e-9
# A step of the spectrum of this share of the widest one will do. The bound is too large by the
# squared residual over the step, which is below rounding where pairs have converged.
_WIDE_STEP = 0.1


class SumBound(NamedTuple):
    """An upper bound on a sum of eigenvalues, and how much of it allows for rounding."""

    bound: float
    slack: float


def sum_bound(matrix: FloatArray, pairs: EigenPairs, r: int) -> SumBound | None:
    """Return an upper bound on the sum of the `r` largest eigenvalues, None if none is proven.

    Parameters
    ----------
    matrix : ndarray of shape (n, n)
        Symmetric.
    pairs : EigenPairs
        More than r of them, or r = n; what they claim is checked.
    r : int

    Returns
    -------
    SumBound or None
        Above the sum of the r largest eigenvalues by about rounding, if the pairs are what they
        claim. None if they are not, or if no step of the spectrum among them is wide enough to
        separate them from the rest.
    """
    n, q = pairs.vectors.shape
    if len(matrix) != n or not r <= q <= n or not _finite(pairs):
        return None
    if q == n:
        return _from_all(matrix, pairs, r)
    below = functools.partial(_rest_is_below, matrix)
    return bound_from_some(functools.partial(dot, matrix), below, pairs.vectors, r)


def _finite(pairs: EigenPairs) -> bool:
    return bool(np.all(np.isfinite(pairs.vectors)) and np.all(np.isfinite(pairs.values)))


def _from_all(matrix: FloatArray, pairs: EigenPairs, r: int) -> SumBound | None:
    """Return the bound from all n pairs: their sum, raised by residual and lack of orthogonality.

    Whatever V and D are, ``A - V D V.T = (A V - V D) V.T + A (I - V V.T)``, and a change of A by a
    matrix moves a sum of r eigenvalues by at most ``sqrt(r)`` times its Frobenius norm. Where V is
    nearly orthogonal the last term has the norm of ``D (I - V.T V)``, to first order: every
    direction counts with its own eigenvalue, not with the largest.
    """
    n, vectors, values = len(matrix), pairs.vectors, pairs.values
    residual = float(np.linalg.norm(dot(matrix, vectors) - vectors * values))
    off = dot(vectors.T, vectors) - np.eye(n)
    size = float(np.abs(values).max(initial=0.0))
    wrong = residual + size * float(np.linalg.norm(off))
    if not wrong <= _WRONG * np.sqrt(n) * size + np.finfo(float).tiny:
        return None
    slack = float(np.sqrt(r) * (residual + np.linalg.norm(values * off)))
    return SumBound(float(np.sort(values)[n - r :].sum()) + slack, slack)


def bound_from_some(
    product: Callable[[Any], Any],
    rest_is_below: Callable[[Any, FloatArray, float, float], bool],
    vectors: Any,
    r: int,
) -> SumBound | None:
    """Return the bound from fewer than n vectors, by a Cholesky factorisation of the rest.

    What is as long as the matrix stays where the vectors are: here, or on another device.

    Parameters
    ----------
    product : callable
        Returns the matrix times columns, where the columns are.
    rest_is_below : callable
        As `_rest_is_below` without its matrix.
    vectors : array of shape (n, q)
        Finite, more than r of them.
    r : int
    """
    basis = orthonormal(vectors)
    image = product(basis)
    inner = symmetric(fetched(dot(basis.T, image)))
    if not np.all(np.isfinite(inner)):
        return None
    values = np.diag(inner)
    # Of the steps that may be chosen below.
    narrowest = _WIDE_STEP * _steps(values, r).max(initial=0.0)
    if np.any(np.diff(values) > 0) or _apart(inner) > 0.1 * narrowest:
        # The columns span something, but are no eigenvectors of it.
        values, rotation = np.linalg.eigh(inner)
        turn = placed(rotation[:, ::-1], basis)
        basis, image = basis @ turn, image @ turn
        values = values[::-1]
        inner = np.diag(values)
    # Where the spectrum steps down: past r at once, unless it steps down far more later. A tie at
    # r is held in the span as a whole.
    steps = _steps(values, r)
    if not steps.max(initial=0.0) > 0:
        return None
    j = r + int(np.argmax(steps >= _WIDE_STEP * steps.max()))
    held, inner, step = basis[:, :j], inner[:j, :j], float(steps[j - r])
    beta = float(values[j]) + 0.5 * step
    if not rest_is_below(held, values[:j], beta, 0.25 * step):
        return None
    residual = image[:, :j] - dot(held, placed(inner, basis))
    # The rest counts as beta + 0.4 step, which is below every value that is held.
    lifted = inner + fetched(dot(residual.T, residual)) / (0.4 * step)
    # The sum of all that are held is a trace.
    leading = np.diag(lifted) if j == r else np.linalg.eigvalsh(symmetric(lifted))[::-1][:r]
    # The basis is orthonormal and the products are right to a few units of the largest value.
    rounding = 4 * _EPS * float(np.sqrt(basis.shape[0] * r) * np.abs(values).max())
    return SumBound(float(leading.sum()) + rounding, rounding)


def _steps(values: FloatArray, r: int) -> FloatArray:
    """Return by how much each value from the r-th on is above the next one."""
    return values[r - 1 : -1] - values[r:]


def _apart(matrix: FloatArray) -> float:
    """Return the Frobenius norm of what is off the diagonal."""
    return float(np.linalg.norm(matrix - np.diag(np.diag(matrix))))


def _rest_is_below(
    matrix: FloatArray, held: FloatArray, values: FloatArray, beta: float, margin: float
) -> bool:
    """Whether the matrix, outside the span of `held`, is proven to be below `beta`.

    ``beta I - A`` is made safely positive on the span and then factorised. If that succeeds, it is
    positive definite but for the rounding of forming and factorising it (Higham 2002, theorem
    10.7), which has to fit into the margin.
    """
    lifted = lifted_span(held, values, beta)
    shifted = dsyrk(1.0, lifted, beta=-1.0, c=matrix.T.copy(order="F"), lower=1, overwrite_c=1)
    diagonal = np.einsum("ii->i", shifted)
    diagonal += beta - margin
    if not fits_margin(len(matrix), float(diagonal.sum()), values, beta, margin):
        return False
    # In place: fresh memory for the factor takes longer than the factorisation (NumPy's cholesky
    # takes 2.5 times as long with 1,764 columns, on two cores and on eight).
    return bool(dpotrf(shifted, lower=1, clean=0, overwrite_a=1)[1] == 0)


def lifted_span(held: Any, values: FloatArray, beta: float) -> Any:
    """Return L with ``L L.T`` large enough to make ``beta I - A`` positive on the span."""
    size = float(np.abs(values).max(initial=0.0))
    # What is held lies above beta, so that the roots exist; rounding may say otherwise.
    return held * placed(np.sqrt(np.maximum(values - beta, 0.0) + size), held)


def fits_margin(n: int, trace: float, values: FloatArray, beta: float, margin: float) -> bool:
    """Whether the rounding of forming and factorising the shifted matrix fits into the margin."""
    size = float(np.abs(values).max(initial=0.0))
    return _EPS * ((n + 2) * max(trace, 0.0) + n * (2 * size + abs(beta))) <= margin
