"""Descent on the worst group's value: ARPGDA and RADA (Xu et al., 2024), and Babu et al. (2025).

All can end in a local optimum from three groups on; the certificate then stays open.
"""

from __future__ import annotations

import numpy as np

from fairpca._arrays import FloatArray, orthonormal
from fairpca.methods._base import (
    ARMIJO,
    POSITIVE,
    Found,
    MinMaxMethod,
    certified,
    generator,
    minimise_on_simplex,
    number,
    tangent,
)
from fairpca.moments.groups import Seed
from fairpca.solvers import solve_problem
from fairpca.solvers.problem import Problem

# The constants of the released code of RADA. Trials of a step, after which the last is taken as it
# is; what a failed trial is multiplied by; the first step length; limits of a step length.
_TRIALS, _SHRINK = 5, 0.1
_FIRST_STEP, _SHORTEST, _LONGEST = 1e-3, 1e-20, 1e20
# The proximal term never becomes weaker than this: its weights are divided by it.
_SMALLEST_BETA = 1e-9
# Where the drift of the weights is at least the first and no less than the second share of the
# last one, the proximal term holds the weights back and is multiplied by the third.
_DRIFT, _SAME_DRIFT, _WEAKER = 1e-3, 0.999, 0.9
# Decrease of a surrogate, in units of the largest variance, that rounding hides.
_ROUNDING = 1e-15
# Singular values are raised to this share of the largest image, and the Hessian gets a ridge of
# the same size: with a rank-deficient image it would be infinite, with equal groups singular.
_FLOOR = 1e-9


class _Run:
    """One start: the current basis, the step length, and the best basis and weights seen.

    The worst value is smoothed: max over weights y of ``y.h - lam/2 |y|^2 - beta/2 |y - y_0|^2``
    with the anchor y_0. Everything is in units of the largest variance that a group's own PCA
    keeps, so that beta has no unit.
    """

    def __init__(self, problem: Problem, start: FloatArray, lam: float, beta: float) -> None:
        self.problem, self.lam, self.beta = problem, lam, beta
        self.unit = max(float(pairs.values.sum()) for pairs in problem.own_pairs()) or 1.0
        self.anchor = np.full(problem.oracle.n_groups, 1 / problem.oracle.n_groups)
        self.length, self.steps, self.residual = _FIRST_STEP, 0, np.inf
        self.last: tuple[FloatArray, FloatArray] | None = None
        self._move(start)
        self.best, self.value = start, float(self.values.max())
        self.best_weights = self.anchor

    def _move(self, basis: FloatArray) -> None:
        """Go to a basis."""
        images, values = self.problem.images_and_losses(basis)
        self.basis, self.images, self.values = basis, images / self.unit, values / self.unit
        self._weigh()

    def _weigh(self) -> None:
        """Find the weights, the smoothed worst value and its gradient at the current basis."""
        shifted = (self.beta * self.anchor + self.values) / (self.lam + self.beta)
        y = self.weights = _nearest_on_simplex(shifted)
        self.gradient = tangent(self.basis, -2 * np.tensordot(y, self.images, axes=1))
        cost = self.lam * y @ y + self.beta * np.sum((y - self.anchor) ** 2)
        self.smoothed = float(y @ self.values - 0.5 * cost)

    def descend(self) -> None:
        """One gradient step with non-monotone backtracking from a Barzilai-Borwein length."""
        basis, gradient = self.basis, self.gradient
        if self.last is not None:
            moved, change = basis - self.last[0], gradient - self.last[1]
            across = abs(float(np.sum(moved * change)))
            # The long and the short formula in turn.
            above, below = float(np.sum(moved**2)), across
            if self.steps % 2:
                above, below = across, float(np.sum(change**2))
            # A step of length zero would give 0 / 0; the last length then stays.
            if above > 0 and below > 0:
                self.length = float(np.clip(above / below, _SHORTEST, _LONGEST))
        self.steps += 1
        # The slack lets the smoothed value rise while beta is still large.
        level = self.smoothed + 2 * self.beta
        size = float(np.sum(gradient**2))
        for _ in range(_TRIALS):
            self._move(orthonormal(basis - self.length * gradient))
            if self.smoothed <= level - ARMIJO * self.length * size:
                break
            self.length *= _SHRINK
        self.last = (basis, gradient)
        # Accepting after failed trials breaks monotonicity, hence the record.
        if self.values.max() < self.value:
            self.best, self.value = self.basis, float(self.values.max())

    def advance(self, beta: float) -> float:
        """Move the anchor to the current weights; return how far from stationary the pair is."""
        ascent = self.weights - _nearest_on_simplex(self.weights + self.values)
        residual = float(max(np.linalg.norm(self.gradient), np.linalg.norm(ascent)))
        if residual < self.residual:
            self.best_weights, self.residual = self.weights, residual
        self.anchor, self.beta = self.weights, beta
        self._weigh()
        return residual


class ARPGDA(MinMaxMethod):
    """Fair PCA by alternating Riemannian and projected gradient steps.

    M. Xu, B. Jiang, W. Pu, Y.-F. Liu, A. M.-C. So. An Efficient Alternating Riemannian/Projected
    Gradient Descent Ascent Algorithm for Fair Principal Component Analysis. ICASSP, 2024.

    One descent step of the basis on the worst value, smoothed by a proximal term around the
    current weights, then one step of the weights, with the smoothing fading away. The authors'
    step length was not released; here it is that of `RADA`. Steps follow rounding: the same rows
    in another order, or weights instead of repeated rows, move the result by up to 1e-3.

    Parameters
    ----------
    n_components, criterion, center, random_state
        As in all of `fairpca.methods`; the paper maximises the least "variance".
    beta, rho : float, default=10.0, 1.5
        Initial weight of the proximal term, in units of the largest variance times
        ``k^2 sqrt(r)``, and the power of 1 / t with which it fades. Large values of `beta`
        freeze the weights at first.
    n_starts : int, default=5
        Random starts; the best basis is kept.
    tol, max_iter : float, int, default=1e-4, 2000
        Stop where gradient and weights are stationary to this accuracy, relative to the largest
        variance, or after as many steps per start. A smaller `tol` also smooths less, and then
        needs many more steps.

    Examples
    --------
    >>> from fairpca import datasets, methods
    >>> known = datasets.make_illustration(random_state=0)
    >>> model = methods.ARPGDA(1).fit(known.data, sensitive_features=known.sensitive_features)
    >>> model.certificate_.gap < 1e-2
    True
    """

    criterion: str = "loss"
    beta: float = number(10.0, POSITIVE)
    rho: float = number(1.5, POSITIVE)
    n_starts: int = number(5, 1)
    tol: float = 1e-4
    max_iter: int = 2000
    random_state: Seed = None

    def _solve(self, problem: Problem) -> Found:
        n, r = problem.oracle.n_features, problem.n_components
        if problem.oracle.n_groups == 1 or r == n:
            # The answer is known and descent would only wander.
            return Found.of(solve_problem(problem))
        draw = generator(self.random_state).standard_normal
        starts = [orthonormal(draw((n, r))) for _ in range(self.n_starts)]
        runs = [self._descend(problem, start) for start in starts]
        best = min(runs, key=lambda run: float(problem.losses(run.basis).max()))
        # Any weights bound every basis, so the best bound need not come from the best run.
        proof = max(runs, key=lambda run: float(run.own["certificate_"].lower_bound))
        weights, steps = proof.own["group_weights_"], sum(run.n_iter for run in runs)
        return certified(problem, best.basis, weights, steps, best.stop_reason)

    def _descend(self, problem: Problem, start: FloatArray) -> Found:
        # The authors' choice: the smoothing then costs at most a quarter of the tolerance.
        lam = 0.5 * self.tol
        beta = self.beta * problem.oracle.n_groups**2 * np.sqrt(problem.n_components)
        run = _Run(problem, start, lam, beta)
        reason, before = "max_iter reached", np.inf
        for step in range(1, self.max_iter + 1):
            for _ in range(getattr(self, "inner_steps", 1)):
                run.descend()
            drift = np.abs(lam * run.weights + run.beta * (run.anchor - run.weights)).max()
            if drift >= _DRIFT and drift >= _SAME_DRIFT * before:
                beta *= _WEAKER
            before = drift
            if run.advance(max(beta / (step + 1) ** self.rho, _SMALLEST_BETA)) <= self.tol:
                reason = "stationary"
                break
        return certified(problem, run.best, run.best_weights, step, reason)


class RADA(ARPGDA):
    """Fair PCA by the Riemannian alternating descent ascent framework.

    M. Xu, B. Jiang, Y.-F. Liu, A. M.-C. So. A Riemannian Alternating Descent Ascent Algorithmic
    Framework for Nonconvex-Linear Minimax Problems on Riemannian Manifolds. arXiv:2409.19588.

    The loop of `ARPGDA` with several descent steps between two steps of the weights, as in the
    released code ("RADA-RGD"). Faster and more accurate than `ARPGDA`: weights instead of repeated
    rows move the losses by up to 1e-6.

    Parameters
    ----------
    n_components, criterion, rho, n_starts, max_iter, center, random_state
        As in `ARPGDA`.
    inner_steps : int, default=5
        Descent steps per step of the weights.
    beta, tol : float, default=0.1, 1e-8
        As in `ARPGDA`; the authors' beta of 1e4 is for data in their own unit.

    Examples
    --------
    >>> from fairpca import datasets, methods
    >>> known = datasets.make_illustration(random_state=0)
    >>> model = methods.RADA(1).fit(known.data, sensitive_features=known.sensitive_features)
    >>> model.certificate_.gap < 1e-6
    True
    """

    inner_steps: int = number(5, 1)
    beta: float = number(0.1, POSITIVE)
    tol: float = 1e-8


class MinorizationFairPCA(MinMaxMethod):
    """Fair PCA by minorisation-maximisation.

    P. Babu, P. Stoica, A. Saini. Fair Principal Component Analysis (PCA):
    Minorization-Maximization Algorithms for Fair PCA, Fair Robust PCA and Fair Sparse PCA.
    Transactions on Machine Learning Research, 2025.

    Each convex ``Tr(U.T S_i U)`` is replaced by its tangent at the current basis. The worst of
    these is maximised exactly through a convex problem in one variable per group. The worst value
    never rises. The robust and the sparse variant of the paper are not here.

    Parameters
    ----------
    n_components, criterion, center
        As in all of `fairpca.methods`; the paper has "variance" and mentions the offsets.
    tol, max_iter : float, int, default=1e-12, 2000
        Stop when a step improves the worst value by less, relative to the largest variance, or
        after as many steps. The start is the PCA of the equal mixture of the groups.

    Examples
    --------
    >>> from fairpca import datasets, methods
    >>> known = datasets.make_illustration(random_state=0)
    >>> model = methods.MinorizationFairPCA(1)
    >>> model.fit(known.data, sensitive_features=known.sensitive_features).certificate_.gap < 1e-6
    True
    """

    criterion: str = "loss"
    tol: float = 1e-12
    max_iter: int = 2000

    def _solve(self, problem: Problem) -> Found:
        # In units of the largest variance, so that tolerances mean the same in any unit of X.
        unit = problem.oracle.scale or 1.0
        k, offsets = problem.oracle.n_groups, problem.offsets / unit
        weights = np.full(k, 1 / k)
        basis = problem.oracle.leading(weights, problem.n_components).vectors
        basis = basis[:, : problem.n_components]
        images, losses = problem.images_and_losses(basis)
        reason, steps = "max_iter reached", 0
        while steps < self.max_iter:
            steps += 1
            candidate, found = _maximise_tangents(basis, images / unit, offsets, weights)
            images_there, losses_there = problem.images_and_losses(candidate)
            if losses_there.max() >= losses.max() - self.tol * unit:
                reason = "no further improvement"
                break
            basis, images, losses, weights = candidate, images_there, losses_there, found
        return certified(problem, basis, weights, steps, reason)


def _maximise_tangents(
    basis: FloatArray, images: FloatArray, offsets: FloatArray, start: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return the basis with the best worst tangent value, and the weights that prove it.

    The weights solve the dual, ``min over the simplex of 2 |sum y_i S_i U|_* + y.d``; the basis is
    the polar factor of the weighted image there.
    """
    if not images.any():
        # No group has variance in this span: every basis is as good, and the norm has no slope.
        return basis, start
    constants = -offsets - np.einsum("nr,knr->k", basis, images)
    size = float(np.linalg.norm(images, axis=(1, 2)).max())

    def evaluate(weights: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        u, s, vt = np.linalg.svd(np.tensordot(weights, images, axes=1), full_matrices=False)
        value = 2 * float(s.sum()) + float(weights @ constants)
        slope = 2 * np.einsum("nr,knr->k", u @ vt, images) + constants
        # The second derivative of the nuclear norm, in the singular vectors of the image: changes
        # inside the span count by their antisymmetric part, changes out of it count in full.
        turned = images @ vt.T
        inside = u.T @ turned
        s = np.maximum(s, _FLOOR * size)
        skew = (inside - np.swapaxes(inside, 1, 2)) / np.sqrt(2 * (s[:, None] + s))
        normal = (turned - u @ inside) / np.sqrt(s)
        flat = np.concatenate([skew, normal], axis=1).reshape(len(weights), -1)
        return value, slope, 2 * flat @ flat.T + _FLOOR * size * np.eye(len(weights))

    weights = minimise_on_simplex(evaluate, start, _ROUNDING)
    u, _, vt = np.linalg.svd(np.tensordot(weights, images, axes=1), full_matrices=False)
    return u @ vt, weights


def _nearest_on_simplex(point: FloatArray) -> FloatArray:
    """Return the nearest point with non-negative entries that sum to one."""
    ordered = np.sort(point)[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, len(point) + 1)
    last = int(np.flatnonzero(ordered > excess)[-1])
    return np.asarray(np.maximum(point - excess[last], 0.0))
