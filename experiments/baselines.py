"""What the paper compares: PCA, EigOpt as printed and SDR, as coded and on Gram matrices.

"As coded" follows the cost of the published MATLAB: singular value decompositions of all rows, and
for SDR both Gram matrices again in every pass. "On Gram matrices" is the same mathematics after
``A.T @ A`` and ``B.T @ B`` have been formed once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy.linalg
import scipy.sparse.linalg
from scipy.optimize import minimize_scalar

from experiments.tables import FloatArray


def pca_as_coded(whole: FloatArray, r: int) -> FloatArray:
    """MATLAB's ``pca``: an economy SVD of the centred rows, then r columns of it."""
    return np.linalg.svd(whole, full_matrices=False)[2][:r].T


def eigopt_as_coded(first: FloatArray, second: FloatArray, r: int, tol: float) -> FloatArray:
    """Algorithm 2: singular values of A and B, Brent on phi, eigenvectors at the maximum."""
    sums = [float(np.sum(scipy.linalg.svdvals(part)[:r] ** 2)) for part in (first, second)]
    h_a, h_b = (
        (total / r * np.eye(part.shape[1]) - part.T @ part) / len(part)
        for total, part in zip(sums, (first, second), strict=True)
    )
    return _brent(h_a, h_b, r, tol, [])


def eigopt_on_gram(
    covariances: FloatArray, r: int, tol: float, seen: list[list[float]]
) -> FloatArray:
    """The same search from the group covariances; every t looked at, with phi, goes to `seen`."""
    own = [-smallest(-matrix, r)[0].sum() for matrix in covariances]
    h_a, h_b = (c / r * np.eye(len(s)) - s for c, s in zip(own, covariances, strict=True))
    return _brent(h_a, h_b, r, tol, seen)


def _brent(
    h_a: FloatArray, h_b: FloatArray, r: int, tol: float, seen: list[list[float]]
) -> FloatArray:
    def negative_phi(t: float) -> float:
        seen.append([t, float(np.sum(smallest(t * h_a + (1 - t) * h_b, r)[0]))])
        return -seen[-1][1]

    options = {"xatol": tol}
    t = minimize_scalar(negative_phi, bounds=(0, 1), method="bounded", options=options).x
    return smallest(t * h_a + (1 - t) * h_b, r)[1]


def smallest(matrix: FloatArray, r: int, tol: float = 1e-8) -> tuple[FloatArray, FloatArray]:
    """The r smallest eigenpairs, by a Krylov method where that is the cheaper one."""
    n = len(matrix)
    if n > 400 and r * 16 <= n:
        values, vectors = scipy.sparse.linalg.eigsh(matrix, k=r, which="SA", tol=tol)
        return values, vectors
    return scipy.linalg.eigh(matrix, subset_by_index=(0, r - 1), check_finite=False)


@dataclass(frozen=True)
class Relaxed:
    """What the multiplicative-weights SDR returns: losses of its matrix P, and P's rank."""

    losses: FloatArray
    rank: int


def sdr_as_coded(
    first: FloatArray, second: FloatArray, r: int, *, eta: float = 1.0, steps: int = 10
) -> Relaxed:
    """Ten weighted PCAs of the stacked rows; every pass forms both Gram matrices again."""
    sizes = len(first), len(second)
    own = [
        np.linalg.norm(part @ pca_as_coded(part, r)) ** 2 / m
        for part, m in zip((first, second), sizes, strict=True)
    ]
    weights, projectors = np.array([0.5, 0.5]), []
    for _ in range(steps):
        covariances = np.array([first.T @ first / sizes[0], second.T @ second / sizes[1]])
        scaled = [np.sqrt(w / m) for w, m in zip(weights, sizes, strict=True)]
        basis = pca_as_coded(np.vstack([scaled[0] * first, scaled[1] * second]), r)
        projectors.append(basis @ basis.T)
        losses = own - np.einsum("kij,ij->k", covariances, projectors[-1])
        weights = _reweigh(weights, losses, eta)
    return _better(projectors, covariances, np.array(own))


def sdr_on_gram(covariances: FloatArray, r: int, *, eta: float = 1.0, steps: int = 10) -> Relaxed:
    """The same ten steps from the group covariances."""
    own = np.array([-smallest(-matrix, r)[0].sum() for matrix in covariances])
    weights, projectors = np.array([0.5, 0.5]), []
    for _ in range(steps):
        basis = smallest(-np.tensordot(weights, covariances, axes=1), r)[1]
        losses = own - np.einsum("nr,knr->k", basis, covariances @ basis)
        weights = _reweigh(weights, losses, eta)
        projectors.append(basis @ basis.T)
    return _better(projectors, covariances, own)


def _reweigh(weights: FloatArray, losses: FloatArray, eta: float) -> FloatArray:
    grown = weights * np.exp(eta * (losses - losses.max()))
    return grown / grown.sum()


def _better(projectors: list[FloatArray], covariances: FloatArray, own: FloatArray) -> Relaxed:
    """The average of all iterates or the last one, whichever has the smaller worst loss."""
    average = sum(projectors) / len(projectors)
    found = []
    for matrix in (average, projectors[-1]):
        losses = own - np.einsum("kij,ij->k", covariances, matrix)
        found.append((float(losses.max()), losses, matrix))
    _, losses, matrix = min(found, key=lambda entry: entry[0])
    return Relaxed(losses, int(np.sum(np.linalg.eigvalsh(matrix) > 1e-6)))
