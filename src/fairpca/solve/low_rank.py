"""Groups with fewer rows than columns: their matrices as a thin factor times its transpose.

A group of m rows has a covariance of rank m - 1 at most; from the factor its own eigenpairs come
out of an m x m problem. Products keep to the matrix itself: the factor is right to 1e-13 only.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dpstrf

from fairpca.arrays import FloatArray, expand
from fairpca.solve.solution import rounding_level

_EPS = float(np.finfo(float).eps)
# Up to this share of the columns a factor pays (measured at 1764 columns: a third of the time for
# own pairs at an eighth, none gained at a third).
LOW = 0.25


def factor(matrix: FloatArray, rank: int) -> FloatArray | None:
    """Return L of shape (n, q) with ``matrix = L @ L.T`` to rounding, q about `rank` or less.

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


def leading_of_factor(thin: FloatArray, r: int) -> tuple[FloatArray, FloatArray]:
    """Return the `r` leading eigenvalues and eigenvectors of ``thin @ thin.T``.

    Past the rank, eigenvalues are zero and any orthonormal directions serve.
    """
    n = len(thin)
    values, rotation = np.linalg.eigh(thin.T @ thin)
    keep = values > _EPS * values.max(initial=0.0) * n
    values, rotation = values[keep][::-1][:r], rotation[:, keep][:, ::-1][:, :r]
    vectors = thin @ (rotation / np.sqrt(values))
    missing = r - len(values)
    if missing:
        drawn = np.random.default_rng(0).standard_normal((n, missing))
        vectors = expand(vectors, drawn / np.linalg.norm(drawn, axis=0))
    return np.concatenate([values, np.zeros(missing)]), vectors
