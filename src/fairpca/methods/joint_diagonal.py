"""Rathore and Manwani 2025: one orthogonal basis that nearly diagonalises every group."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np

from fairpca._linalg import FloatArray, IntArray, canonical
from fairpca.covariances.eigenpairs import full_pairs
from fairpca.methods._base import Found, PublishedMethod, Sample
from fairpca.methods._relaxation import least_worst
from fairpca.metrics import own_variance


@dataclass(frozen=True)
class JointBasis:
    """A common basis and how well it works.

    Attributes
    ----------
    vectors : ndarray of shape (n, n)
        Orthogonal.
    matrices : ndarray of shape (k, n, n)
        The matrices in that basis.
    sweeps : int
        Rounds through all pairs of axes.
    converged : bool
        Whether the last sweep turned nothing by more than the tolerance.
    """

    vectors: FloatArray
    matrices: FloatArray
    sweeps: int
    converged: bool

    @property
    def off_diagonal_share(self) -> float:
        """Squares off the diagonal over all squares."""
        total = float(np.sum(self.matrices**2))
        on = float(np.sum(np.einsum("kii->ki", self.matrices) ** 2))
        return (total - on) / total if total > 0 else 0.0


def joint_diagonalise(
    matrices: FloatArray, *, tol: float = 1e-10, max_sweeps: int = 100
) -> JointBasis:
    """Rotate symmetric matrices towards diagonal form by Jacobi angles.

    Each sweep visits every pair of axes once, in rounds of disjoint pairs that are turned at the
    same time.

    Parameters
    ----------
    matrices : ndarray of shape (k, n, n)
        Symmetric.
    tol : float, default=1e-10
        Stop when the largest sine of a sweep is below.
    max_sweeps : int, default=100
        Most sweeps.
    """
    n = matrices.shape[1]
    turned, vectors = matrices.copy(), np.eye(n)
    rounds = _disjoint_pairs(n)
    for sweep in range(1, max_sweeps + 1):
        largest = 0.0
        for p, q in rounds:
            c, s = _angles(turned, p, q)
            largest = max(largest, float(np.abs(s).max(initial=0.0)))
            _rotate(turned, p, q, c, s)
            _rotate(np.swapaxes(turned, 1, 2), p, q, c, s)
            _rotate(vectors[None], p, q, c, s)
        if largest < tol:
            return JointBasis(vectors, turned, sweep, True)
    return JointBasis(vectors, turned, max_sweeps, False)


def _disjoint_pairs(n: int) -> list[tuple[IntArray, IntArray]]:
    """Return rounds of a tournament: every pair of axes meets once, each axis once a round."""
    # The first player stays and the others move one seat on: everybody meets everybody.
    players = list(range(n + n % 2))
    rounds = []
    for _ in range(len(players) - 1):
        half = len(players) // 2
        pairs = np.sort(np.array([players[:half], players[: half - 1 : -1]]), axis=0)
        # With an odd number of axes one of them rests.
        pairs = pairs[:, pairs[1] < n]
        rounds.append((pairs[0], pairs[1]))
        players = [players[0], players[-1], *players[1:-1]]
    return rounds


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


@dataclass(eq=False, repr=False)
class JointDiagonalPCA(PublishedMethod):
    """PCA in a basis common to all groups, by joint diagonalisation (Rathore and Manwani, 2025).

    Finds one orthogonal basis in which the covariances of all groups are as diagonal as possible
    and keeps r of its directions: Flury's common principal components. A baseline.

    Parameters
    ----------
    n_components : int or None, default=None
        Rank r; None keeps all.
    order : {"mean", "loss"}, default="mean"
        Keep the directions with the largest variance averaged over groups, or the r directions
        with the least worst loss among all choices (an integer program).
    tol : float, default=1e-10
        Stop when no rotation of a sweep has a larger sine.
    max_iter : int, default=100
        Most sweeps.
    center : {"group", "global", "none"}, default="group"
        Second moments are about each group's own mean, the overall mean, or zero.

    Attributes
    ----------
    basis_ : ndarray of shape (n_features_in_, n_features_in_)
        The whole common basis, columns by decreasing mean variance.
    off_diagonal_share_ : float
        Squares left off the diagonal, over all squares.
    components_ : ndarray of shape (n_components_, n_features_in_)
        Rows of the common basis; for "mean" those of a smaller rank come first.
    mean_, group_losses_, group_errors_, ...
        As in `fairpca.FairPCA`, without a certificate: the method optimises no worst case.
    n_iter_ : int
        Sweeps.
    center_ : str
        What the second moments are about.

    Notes
    -----
    A common basis does not make losses equal: that takes directions which mix its axes. For
    covariances diag(1, 0) and diag(0, 1) and one component the worst loss here is 1, the optimum
    1/2.

    References
    ----------
    V. Rathore, N. Manwani. Achieving Fair PCA Using Joint Eigenvalue Decomposition.
    arXiv:2502.16933, 2025.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.methods import JointDiagonalPCA
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(size=(80, 3)) * [3, 1, 2], rng.normal(size=(20, 3)) * [1, 3, 2]])
    >>> model = JointDiagonalPCA(2).fit(X, sensitive_features=[0] * 80 + [1] * 20)
    >>> model.off_diagonal_share_ < 0.01
    True
    """

    n_components: int | None = None
    _: KW_ONLY
    order: str = "mean"
    tol: float = 1e-10
    max_iter: int = 100
    center: str = "group"

    notion: ClassVar[str] = "common basis"
    _choices: ClassVar[dict[str, tuple[str, ...]]] = {"order": ("mean", "loss")}

    def _find(self, sample: Sample) -> Found:
        covariances = sample.second_moments(self.center)
        r = self._rank(sample.n_features)
        inside, outside = _with_and_without_variance(covariances)
        joint = joint_diagonalise(
            inside.T @ covariances @ inside, tol=self.tol, max_sweeps=self.max_iter
        )
        vectors = np.hstack([inside @ joint.vectors, outside])
        nothing = np.zeros((len(covariances), outside.shape[1]))
        kept = np.hstack([np.einsum("kii->ki", joint.matrices), nothing])
        order = np.argsort(-kept.mean(axis=0), kind="stable")
        chosen = order[:r]
        if self.order == "loss":
            # The r directions share every group's own variance evenly among them.
            losses = own_variance(covariances, r)[:, None] / r - kept
            _, shares, _ = least_worst(losses, total=r, unit=float(kept.max()), integer=True)
            # Integers come back as floats, right to the tolerance of the program.
            chosen = order[shares[order] > 0.5]
        return Found(
            basis=vectors[:, chosen],
            stop_reason="rotations settled" if joint.converged else "max_iter reached",
            n_iter=joint.sweeps,
            own={
                "basis_": vectors[:, order],
                "off_diagonal_share_": joint.off_diagonal_share,
            },
            keep_order=True,
        )


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
