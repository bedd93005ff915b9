"""Babu, Stoica and Saini 2025: minorisation-maximisation."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairpca._linalg import FloatArray
from fairpca.methods.base import matrices
from fairpca.methods.local_search import Descent, LocalSearch
from fairpca.solvers.problem import Problem
from fairpca.solvers.simplex_qp import maximise_on_simplex


class MinorizationFairPCA(LocalSearch):
    """Fair PCA by minorisation-maximisation (Babu, Stoica and Saini, 2025).

    Each convex ``Tr(U.T S_i U)`` is replaced by its tangent at the current basis. The worst of
    these is maximised exactly through a convex problem in one variable per group, whose answer is
    a polar factor. No step length; the worst value never rises.

    Parameters
    ----------
    n_components : int or None, default=None
        Rank r; None keeps all.
    criterion : {"loss", "error", "variance", "relative", "share"}, default="loss"
        What the worst group is judged by; the paper has "variance" and mentions the offsets.
    n_starts : int, default=1
        The first start is the PCA of the equal mixture of the groups, the others are random.
    tol : float, default=1e-12
        Stop when a step improves the worst value by less than this, relative to the largest
        variance.
    max_iter : int, default=2000
        Most steps per start.
    center : {"group", "global", "none"}, default="group"
        Second moments are about each group's own mean, the overall mean, or zero.
    random_state : int, RandomState instance or None, default=None
        Of the random starts; None is a fixed seed.

    Attributes
    ----------
    components_, mean_, group_losses_, group_values_, certificate_, ...
        As in `fairpca.FairPCA`. `certificate_` bounds the worst value by the dual function at
        the last step's weights, `group_weights_`.
    n_iter_ : int
        Steps, all starts together.
    center_ : str
        What the second moments are about.

    Notes
    -----
    From three groups on the method can end in a local optimum; the certificate then stays open.
    The robust and the sparse variant of the paper are not here.

    References
    ----------
    P. Babu, P. Stoica, A. Saini. Fair Principal Component Analysis (PCA):
    Minorization-Maximization Algorithms for Fair PCA, Fair Robust PCA and Fair Sparse PCA.
    Transactions on Machine Learning Research, 2025.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.methods import MinorizationFairPCA
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(size=(80, 3)) * [3, 1, 1], rng.normal(size=(20, 3)) * [1, 3, 1]])
    >>> model = MinorizationFairPCA(1).fit(X, sensitive_features=[0] * 80 + [1] * 20)
    >>> model.certificate_.gap < 1e-6
    True
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        criterion: str = "loss",
        n_starts: int = 1,
        tol: float = 1e-12,
        max_iter: int = 2000,
        center: str = "group",
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.criterion = criterion
        self.n_starts = n_starts
        self.tol = tol
        self.max_iter = max_iter
        self.center = center
        self.random_state = random_state

    def _starts(self, problem: Problem) -> list[FloatArray]:
        k, r = problem.oracle.n_groups, problem.n_components
        mixture = problem.oracle.leading(np.full(k, 1 / k), r).vectors[:, :r]
        return [mixture, *super()._starts(problem)[1:]]

    def _descend(self, problem: Problem, start: FloatArray) -> Descent:
        scale = problem.oracle.scale or 1.0
        covariances, offsets = matrices(problem) / scale, problem.offsets / scale
        k = len(offsets)
        basis, weights = start, np.full(k, 1 / k)
        images = covariances @ basis
        worst = float((offsets - np.einsum("nr,knr->k", basis, images)).max())
        reason, steps = "max_iter reached", 0
        while steps < self.max_iter:
            steps += 1
            candidate, found = _maximise_tangents(basis, images, offsets, weights)
            images_there = covariances @ candidate
            value = float((offsets - np.einsum("nr,knr->k", candidate, images_there)).max())
            if value >= worst - self.tol:
                reason = "no further improvement"
                break
            basis, images, worst, weights = candidate, images_there, value, found
        return Descent(basis, weights, worst * scale, steps, reason)


def _maximise_tangents(
    basis: FloatArray, images: FloatArray, offsets: FloatArray, start: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the basis with the best worst tangent value, and the weights that prove it.

    The dual ``min over the simplex of 2 |sum y_i S_i U|_* + y.d`` is solved by Newton's method;
    every step is a quadratic program with one variable per group.
    """
    weights = start
    if not images.any():
        return basis, weights
    constants = -offsets - np.einsum("nr,knr->k", basis, images)
    value, slope, hessian, polar = _nuclear(weights, images, constants)
    for _ in range(50):
        target = maximise_on_simplex(
            hessian @ weights - slope, hessian, np.ones(len(weights)), weights
        )
        change = target - weights
        promised = -float(slope @ change)
        if promised <= 1e-15 * abs(value):
            break
        length = 1.0
        while length > 1e-6:
            there = weights + length * change
            found = _nuclear(there, images, constants)
            if found[0] <= value - 1e-4 * length * promised:
                break
            length *= 0.5
        else:
            break
        weights, (value, slope, hessian, polar) = there, found
    return polar, weights


def _nuclear(
    weights: FloatArray, images: FloatArray, constants: FloatArray
) -> tuple[float, FloatArray, FloatArray, FloatArray]:
    """Return the dual, its gradient, its Hessian, and the polar factor of the weighted image."""
    u, s, vt = np.linalg.svd(np.tensordot(weights, images, axes=1), full_matrices=False)
    polar = u @ vt
    value = 2 * float(s.sum()) + float(weights @ constants)
    turned = images @ vt.T
    inside = u.T @ turned
    outside = turned - u @ inside
    # The nuclear norm is smooth where the image has full rank; the floor covers the rest, and the
    # ridge the case of a norm that is linear in the weights.
    size = float(np.linalg.norm(images, axis=(1, 2)).max())
    s = np.maximum(s, 1e-9 * size)
    skew = (inside - np.swapaxes(inside, 1, 2)) / np.sqrt(2 * (s[:, None] + s))
    normal = outside / np.sqrt(s)
    flat = np.concatenate([skew.reshape(len(weights), -1), normal.reshape(len(weights), -1)], 1)
    slope = 2 * np.einsum("nr,knr->k", polar, images) + constants
    hessian = 2 * flat @ flat.T + 1e-9 * size * np.eye(len(weights))
    return value, slope, hessian, polar
