"""Babu, Stoica and Saini 2025: minorisation-maximisation."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

from fairpca._linalg import FloatArray
from fairpca.methods._base import MinMaxFound
from fairpca.methods._descent import ARMIJO, LocalSearch
from fairpca.solvers.problem import Problem
from fairpca.solvers.simplex_qp import maximise_on_simplex

# Most Newton steps on one surrogate. Past them the last point is used: the step is then less good,
# and the worst value still never rises.
_NEWTON_STEPS = 50
# Decrease, relative to the value, that rounding hides. A step that promises less is not made.
_ROUNDING = 1e-15
# Step length below which Newton's line search gives up. The surrogate is convex, so a step that
# fails at this length failed by rounding.
_SHORTEST = 1e-6
# Singular values are raised to this share of the largest image, and the Hessian gets a ridge of
# the same size: with a rank-deficient image it would be infinite, with equal groups singular.
_FLOOR = 1e-9


@dataclass(eq=False, repr=False)
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

    n_components: int | None = None
    _: KW_ONLY
    criterion: str = "loss"
    n_starts: int = 1
    tol: float = 1e-12
    max_iter: int = 2000
    center: str = "group"
    random_state: Any = None

    def _starts(self, problem: Problem) -> list[FloatArray]:
        k, r = problem.oracle.n_groups, problem.n_components
        mixture = problem.oracle.leading(np.full(k, 1 / k), r).vectors[:, :r]
        return [mixture, *super()._starts(problem)[1:]]

    def _descend(self, problem: Problem, start: FloatArray) -> MinMaxFound:
        # In units of the largest variance, so that `tol` means the same in any unit of X.
        scale = problem.oracle.scale or 1.0
        covariances, offsets = problem.oracle.matrices / scale, problem.offsets / scale
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
        return MinMaxFound.at(problem, basis, weights, steps, reason)


def _maximise_tangents(
    basis: FloatArray, images: FloatArray, offsets: FloatArray, start: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the basis with the best worst tangent value, and the weights that prove it.

    The dual ``min over the simplex of 2 |sum y_i S_i U|_* + y.d`` is solved by Newton's method;
    every step is a quadratic program with one variable per group.
    """
    weights = start
    if not images.any():
        # No group has variance in this span: every basis is as good, and the norm has no slope.
        return basis, weights
    constants = -offsets - np.einsum("nr,knr->k", basis, images)
    value, slope, hessian, polar = _nuclear(weights, images, constants)
    for _ in range(_NEWTON_STEPS):
        target = maximise_on_simplex(
            hessian @ weights - slope, hessian, np.ones(len(weights)), weights
        )
        change = target - weights
        promised = -float(slope @ change)
        if promised <= _ROUNDING * abs(value):
            break
        length = 1.0
        while length > _SHORTEST:
            there = weights + length * change
            found = _nuclear(there, images, constants)
            if found[0] <= value - ARMIJO * length * promised:
                break
            length *= 0.5
        else:
            break
        weights, (value, slope, hessian, polar) = there, found
    return polar, weights


def _nuclear(
    weights: FloatArray, images: FloatArray, constants: FloatArray
) -> tuple[float, FloatArray, FloatArray, FloatArray]:
    """Evaluate the dual at weights.

    Returns
    -------
    value : float
    slope : ndarray of shape (k,)
        Gradient: minus the linearised losses of the groups at `polar`.
    hessian : ndarray of shape (k, k)
        Positive definite.
    polar : ndarray of shape (n, r)
        Polar factor of the weighted image, the basis that attains the value.
    """
    u, s, vt = np.linalg.svd(np.tensordot(weights, images, axes=1), full_matrices=False)
    polar = u @ vt
    value = 2 * float(s.sum()) + float(weights @ constants)
    # The second derivative of the nuclear norm, in the singular vectors of the image: changes
    # inside the span count by their antisymmetric part, changes out of it count in full.
    turned = images @ vt.T
    inside = u.T @ turned
    outside = turned - u @ inside
    # The nuclear norm is smooth where the image has full rank; the floor covers the rest, and the
    # ridge the case of a norm that is linear in the weights.
    size = float(np.linalg.norm(images, axis=(1, 2)).max())
    s = np.maximum(s, _FLOOR * size)
    skew = (inside - np.swapaxes(inside, 1, 2)) / np.sqrt(2 * (s[:, None] + s))
    normal = outside / np.sqrt(s)
    flat = np.concatenate([skew.reshape(len(weights), -1), normal.reshape(len(weights), -1)], 1)
    slope = 2 * np.einsum("nr,knr->k", polar, images) + constants
    hessian = 2 * flat @ flat.T + _FLOOR * size * np.eye(len(weights))
    return value, slope, hessian, polar
