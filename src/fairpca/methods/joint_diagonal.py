"""Rathore and Manwani 2025: one orthogonal basis that nearly diagonalises every group."""

from __future__ import annotations

import numpy as np

from fairpca._arrays import FloatArray, IntArray, canonical
from fairpca.covariances.dense import full_pairs
from fairpca.methods._base import Found, PublishedMethod, Sample


def joint_diagonalise(
    matrices: FloatArray, *, tol: float = 1e-10, max_sweeps: int = 100
) -> tuple[FloatArray, FloatArray, int, bool]:
    """Rotate symmetric (k, n, n) matrices towards diagonal form by Jacobi angles.

    Each sweep visits every pair of axes once, in rounds of disjoint pairs that are turned at the
    same time, until the largest sine of a sweep is below `tol`. Returns the orthogonal basis, the
    matrices in it, the number of sweeps, and whether the last one turned less than that.
    """
    n = matrices.shape[1]
    turned, vectors = matrices.copy(), np.eye(n)
    first = np.arange(n)
    # Axes whose numbers add up to the same modulo n are disjoint pairs.
    partners = [(total - first) % n for total in first]
    rounds = [(first[first < second], second[first < second]) for second in partners]
    for sweep in range(1, max_sweeps + 1):
        largest = 0.0
        for p, q in rounds:
            c, s = _angles(turned, p, q)
            largest = max(largest, float(np.abs(s).max(initial=0.0)))
            _rotate(turned, p, q, c, s)
            _rotate(np.swapaxes(turned, 1, 2), p, q, c, s)
            _rotate(vectors[None], p, q, c, s)
        if largest < tol:
            return vectors, turned, sweep, True
    return vectors, turned, max_sweeps, False


def _angles(matrices: FloatArray, p: IntArray, q: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return cosines and sines of the rotations that diagonalise the pairs best."""
    difference = matrices[:, p, p] - matrices[:, q, q]
    coupling = 2 * matrices[:, p, q]
    on = np.sum(difference**2 - coupling**2, axis=0)
    off = 2 * np.sum(difference * coupling, axis=0)
    # The smaller of the two angles that solve the problem: the larger would swap the axes too, and
    # sweeps would never settle.
    theta = 0.5 * np.arctan2(off, on + np.hypot(on, off))
    return np.cos(theta), np.sin(theta)


def _rotate(matrices: FloatArray, p: IntArray, q: IntArray, c: FloatArray, s: FloatArray) -> None:
    """Turn columns p and q of every matrix, in place."""
    first, second = matrices[:, :, p], matrices[:, :, q]
    matrices[:, :, p] = c * first + s * second
    matrices[:, :, q] = c * second - s * first


class JointDiagonalPCA(PublishedMethod):
    """PCA in a basis common to all groups, by joint diagonalisation.

    V. Rathore, N. Manwani. Achieving Fair PCA Using Joint Eigenvalue Decomposition.
    arXiv:2502.16933, 2025.

    Finds one orthogonal basis in which the covariances of all groups are as diagonal as possible
    and keeps the r directions with the largest variance averaged over groups: Flury's common
    principal components. A baseline, because equal
    losses take directions that mix the axes: of diag(1, 0) and diag(0, 1) one component has a
    worst loss of 1, the optimum is 1/2.

    Parameters
    ----------
    n_components, center
        As in all of `fairpca.methods`.
    tol, max_iter : float, int, default=1e-10, 100
        Stop when no rotation of a sweep has a larger sine, or after as many sweeps.

    Attributes
    ----------
    basis_ : ndarray of shape (n_features_in_, n_features_in_)
        The whole common basis, columns by decreasing mean variance.
    off_diagonal_share_ : float
        Squares left off the diagonal, over all squares.

    Examples
    --------
    >>> from fairpca import datasets, methods
    >>> known = datasets.make_shared_subspace(random_state=0)
    >>> model = methods.JointDiagonalPCA(3)
    >>> model = model.fit(known.data, sensitive_features=known.sensitive_features)
    >>> model.off_diagonal_share_ < 1e-12
    True
    """

    tol: float = 1e-10
    max_iter: int = 100
    center: str = "group"

    notion = "common basis"

    def _find(self, sample: Sample) -> Found:
        covariances = sample.second_moments(self.center)
        r = self._rank(sample.n_features)
        inside, outside = _with_and_without_variance(covariances)
        turned, matrices, sweeps, settled = joint_diagonalise(
            inside.T @ covariances @ inside, tol=self.tol, max_sweeps=self.max_iter
        )
        vectors = np.hstack([inside @ turned, outside])
        kept = np.zeros((len(covariances), len(vectors)))
        kept[:, : len(matrices[0])] = np.einsum("kii->ki", matrices)
        order = np.argsort(-kept.mean(axis=0), kind="stable")
        total = float(np.sum(matrices**2))
        share = (total - float(np.sum(kept**2))) / total if total > 0 else 0.0
        own = {"basis_": vectors[:, order], "off_diagonal_share_": share}
        reason = "rotations settled" if settled else "max_iter reached"
        return Found(vectors[:, order[:r]], reason, sweeps, own, keep_order=True)


def _with_and_without_variance(covariances: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return a basis of the directions in which some group has variance, and one of the rest.

    In the rest every angle is decided by rounding. Jacobi rotations never settle there, and the
    same rows written with weights would end in another basis.
    """
    n = covariances.shape[1]
    pairs = full_pairs(covariances.mean(axis=0))
    empty = pairs.values <= n * np.finfo(float).eps * max(pairs.values[0], 0.0)
    if not empty.any():
        # The original axes are the usual start of the rotations.
        return np.eye(n), np.empty((n, 0))
    return pairs.vectors[:, ~empty], canonical(pairs.vectors[:, empty])
