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
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fairpca._arrays import (
    EPS,
    TINY,
    FloatArray,
    diagonals,
    dot,
    fetched,
    is_foreign,
    is_positive,
    library_of,
    orthonormal,
    placed,
    symmetric,
)
from fairpca.covariances.oracle import EigenPairs

# Residuals past this share of the largest eigenvalue are no rounding: the pairs are wrong.
_WRONG = 1e-9
# A step of the spectrum of this share of the widest one will do. The bound is too large by the
# squared residual over the step, which is below rounding where pairs have converged.
_WIDE_STEP = 0.1


class SumBound(NamedTuple):
    """An upper bound on a sum of eigenvalues, and how much of it allows for rounding."""

    bound: float
    slack: float


def sum_bound(matrix: Any, pairs: EigenPairs, r: int) -> SumBound | None:
    """Return an upper bound on the sum of the `r` largest eigenvalues, None if none is proven.

    Parameters
    ----------
    matrix : array of shape (n, n)
        Symmetric; here, or on another device.
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
    n, (_, q) = matrix.shape[0], pairs.columns.shape
    if not (r <= q <= n and np.all(np.isfinite(pairs.values))):
        return None
    vectors = placed(pairs.columns, matrix)
    return (
        _from_all(matrix, pairs.values, vectors, r) if q == n else _from_some(matrix, vectors, r)
    )


def _from_all(matrix: Any, values: FloatArray, vectors: Any, r: int) -> SumBound | None:
    """Return the bound from all n pairs: their sum, raised by residual and lack of orthogonality.

    Whatever V and D are, ``A - V D V.T = (A V - V D) V.T + A (I - V V.T)``, and a change of A by a
    matrix moves a sum of r eigenvalues by at most ``sqrt(r)`` times its Frobenius norm. Where V is
    nearly orthogonal the last term has the norm of ``D (I - V.T V)``, to first order: every
    direction counts with its own eigenvalue, not with the largest.
    """
    xp, n, there = library_of(matrix), len(values), placed(values, matrix)
    norm = xp.linalg.matrix_norm
    residual = float(norm(dot(matrix, vectors) - vectors * there))
    off = dot(vectors.T, vectors) - placed(np.eye(n), matrix)
    size = float(np.abs(values).max(initial=0.0))
    wrong = residual + size * float(norm(off))
    if not wrong <= _WRONG * np.sqrt(n) * size + TINY:
        return None
    slack = float(np.sqrt(r) * (residual + float(norm(there * off))))
    return SumBound(float(np.sort(values)[n - r :].sum()) + slack, slack)


def _from_some(matrix: Any, vectors: Any, r: int) -> SumBound | None:
    """Return the bound from fewer than n vectors, by a Cholesky factorisation of the rest."""
    basis = orthonormal(vectors)
    image = dot(matrix, basis)
    inner = symmetric(fetched(dot(basis.T, image)))
    if not np.all(np.isfinite(inner)):
        return None
    values = np.diag(inner)
    off = float(np.linalg.norm(inner - np.diag(values)))
    if np.any(np.diff(values) > 0) or off > 0.1 * _WIDE_STEP * _steps(values, r).max(initial=0.0):
        # The columns span something, but are no eigenvectors of it.
        values, rotation = np.linalg.eigh(inner)
        turn = placed(rotation[:, ::-1], basis)
        basis, image, values = basis @ turn, image @ turn, values[::-1]
        inner = np.diag(values)
    # Where the spectrum steps down: past r at once, unless it steps down far more later. A tie at
    # r is held in the span as a whole.
    steps = _steps(values, r)
    if not steps.max(initial=0.0) > 0:
        return None
    j = r + int(np.argmax(steps >= _WIDE_STEP * steps.max()))
    held, inner, step = basis[:, :j], inner[:j, :j], float(steps[j - r])
    beta = float(values[j]) + 0.5 * step
    if not _rest_is_below(matrix, held, values[:j], beta, 0.25 * step):
        return None
    residual = image[:, :j] - dot(held, placed(inner, basis))
    # The rest counts as beta + 0.4 step, which is below every value that is held.
    lifted = inner + fetched(dot(residual.T, residual)) / (0.4 * step)
    # The sum of all that are held is a trace.
    leading = np.diag(lifted) if j == r else np.linalg.eigvalsh(symmetric(lifted))[::-1][:r]
    # The basis is orthonormal and the products are right to a few units of the largest value.
    rounding = 4 * EPS * float(np.sqrt(basis.shape[0] * r) * np.abs(values).max())
    return SumBound(float(leading.sum()) + rounding, rounding)


def _steps(values: FloatArray, r: int) -> FloatArray:
    """Return by how much each value from the r-th on is above the next one."""
    return values[r - 1 : -1] - values[r:]


def _rest_is_below(matrix: Any, held: Any, values: FloatArray, beta: float, margin: float) -> bool:
    """Whether the matrix, outside the span of `held`, is proven to be below `beta`.

    ``beta I - A`` is made safely positive on the span and then factorised. If that succeeds, it is
    positive definite but for the rounding of forming and factorising it (Higham 2002, theorem
    10.7), which has to fit into the margin.
    """
    n, size = matrix.shape[0], float(np.abs(values).max(initial=0.0))
    # What is held lies above beta, so that the roots exist; rounding may say otherwise.
    lifted = held * placed(np.sqrt(np.maximum(values - beta, 0.0) + size), held)
    shifted = dot(lifted, lifted.T) - matrix
    if is_foreign(matrix):
        shifted = shifted + (beta - margin) * placed(np.eye(n), matrix)
    else:
        shifted[np.diag_indices(n)] += beta - margin
    trace = float(diagonals(shifted[None, :, :])[0].sum())
    if EPS * ((n + 2) * max(trace, 0.0) + n * (2 * size + abs(beta))) > margin:
        return False
    return is_positive(shifted)
