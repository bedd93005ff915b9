"""Xu et al. 2024: ARPGDA and RADA, descent on a smoothed worst case."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairpca._linalg import FloatArray
from fairpca.methods.base import check_positive, matrices
from fairpca.methods.local_search import Descent, LocalSearch, project_to_simplex
from fairpca.methods.riemannian import retract, tangent
from fairpca.solvers.problem import Problem

# The line search of the authors' code: trials per step, shrinking, first step, slack constant.
_TRIALS = 5
_SHRINK = 0.1
_FIRST_STEP = 1e-3
_ARMIJO = 1e-4
_SMALLEST_BETA = 1e-9


@dataclass(frozen=True)
class _Point:
    """A basis with the groups' values, their gradients' common factor and the smoothed weights."""

    basis: FloatArray
    values: FloatArray
    images: FloatArray
    weights: FloatArray
    smoothed: float

    @property
    def gradient(self) -> FloatArray:
        """Riemannian gradient of the smoothed worst value."""
        return tangent(self.basis, -2 * np.tensordot(self.weights, self.images, axes=1))


@dataclass(frozen=True)
class _Smoothing:
    """The worst value, smoothed: max over weights y of ``y.h - lam/2 |y|^2 - beta/2 |y - y_0|^2``.

    Matrices and offsets are in units of the largest variance, so that beta has no unit.
    """

    covariances: FloatArray
    offsets: FloatArray
    lam: float

    def at(self, basis: FloatArray, anchor: FloatArray, beta: float) -> _Point:
        """Evaluate a basis."""
        images = self.covariances @ basis
        values = self.offsets - np.einsum("nr,knr->k", basis, images)
        return self.reweigh(basis, values, images, anchor, beta)

    def reweigh(
        self,
        basis: FloatArray,
        values: FloatArray,
        images: FloatArray,
        anchor: FloatArray,
        beta: float,
    ) -> _Point:
        """Evaluate a known basis for another anchor or beta."""
        weights = project_to_simplex((beta * anchor + values) / (self.lam + beta))
        away = weights - anchor
        smoothed = weights @ values - 0.5 * self.lam * weights @ weights - 0.5 * beta * away @ away
        return _Point(basis, values, images, weights, float(smoothed))


class _Run:
    """One start: the current point, the step length, and the best seen."""

    def __init__(self, smoothing: _Smoothing, start: FloatArray, beta: float) -> None:
        self.smoothing = smoothing
        k = len(smoothing.offsets)
        self.anchor = np.full(k, 1 / k)
        self.beta = beta
        self.point = smoothing.at(start, self.anchor, beta)
        self.length = _FIRST_STEP
        self.steps = 0
        self.last: tuple[FloatArray, FloatArray] | None = None
        self.best, self.value = self.point.basis, float(self.point.values.max())
        self.weights, self.residual = self.anchor, np.inf

    def descend(self) -> None:
        """One gradient step with non-monotone backtracking from a Barzilai-Borwein length."""
        gradient = self.point.gradient
        self._propose(gradient)
        # The slack lets the smoothed value rise while beta is still large.
        level = self.point.smoothed + 2 * self.beta
        size = float(np.sum(gradient**2))
        for _ in range(_TRIALS):
            basis = retract(self.point.basis, -self.length * gradient)
            trial = self.smoothing.at(basis, self.anchor, self.beta)
            if trial.smoothed <= level - _ARMIJO * self.length * size:
                break
            self.length *= _SHRINK
        self.last = (self.point.basis, gradient)
        self.point = trial
        worst = float(trial.values.max())
        # Accepting after failed trials breaks monotonicity, hence the record.
        if worst < self.value:
            self.best, self.value = trial.basis, worst

    def _propose(self, gradient: FloatArray) -> None:
        if self.last is not None:
            moved, change = self.point.basis - self.last[0], gradient - self.last[1]
            across = abs(float(np.sum(moved * change)))
            long = self.steps % 2 == 0
            above = float(np.sum(moved**2)) if long else across
            below = across if long else float(np.sum(change**2))
            if above > 0 and below > 0:
                self.length = float(np.clip(above / below, 1e-20, 1e20))
        self.steps += 1

    def advance(self, beta: float) -> float:
        """Move the anchor to the current weights; return how far from stationary the pair is."""
        here = self.point
        self.anchor, self.beta = here.weights, beta
        residual = max(
            float(np.linalg.norm(here.gradient)),
            float(np.linalg.norm(here.weights - project_to_simplex(here.weights + here.values))),
        )
        if residual < self.residual:
            self.weights, self.residual = here.weights, residual
        self.point = self.smoothing.reweigh(
            here.basis, here.values, here.images, self.anchor, beta
        )
        return residual


class ARPGDA(LocalSearch):
    """Fair PCA by alternating Riemannian and projected gradient steps (Xu et al., 2024).

    One descent step of the basis on the worst value, smoothed by a proximal term around the
    current weights, then one step of the weights, with the smoothing fading away.

    Parameters
    ----------
    n_components : int or None, default=None
        Rank r; None keeps all.
    criterion : {"loss", "error", "variance", "relative", "share"}, default="loss"
        What the worst group is judged by; the paper maximises the least "variance".
    beta : float, default=10.0
        Initial weight of the proximal term, in units of the largest variance times
        ``k^2 sqrt(r)``. Large values freeze the weights at first.
    rho : float, default=1.5
        The proximal term fades like ``1 / t^rho``.
    n_starts : int, default=5
        Random starts; the best basis is kept. Local optima exist from three groups on.
    tol : float, default=1e-4
        Stop where gradient and weights are stationary to this accuracy, relative to the largest
        variance. A smaller value also smooths less, and then needs many more steps.
    max_iter : int, default=2000
        Most steps per start.
    center : {"group", "global", "none"}, default="group"
        Second moments are about each group's own mean, the overall mean, or zero.
    random_state : int, RandomState instance or None, default=None
        Of the starts; None is a fixed seed.

    Attributes
    ----------
    components_, mean_, group_losses_, group_values_, certificate_, ...
        As in `fairpca.FairPCA`. `certificate_` bounds the worst value by the dual function at
        the method's own weights, `group_weights_`.
    n_iter_ : int
        Steps, all starts together.
    center_ : str
        What the second moments are about.

    See Also
    --------
    RADA : Several descent steps per step of the weights; faster and more accurate.

    Notes
    -----
    The authors' step length was not released; here it is that of `RADA`: Barzilai-Borwein with
    non-monotone backtracking.

    References
    ----------
    M. Xu, B. Jiang, W. Pu, Y.-F. Liu, A. M.-C. So. An Efficient Alternating Riemannian/Projected
    Gradient Descent Ascent Algorithm for Fair Principal Component Analysis. ICASSP, 2024.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.methods import ARPGDA
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(size=(80, 3)) * [3, 1, 1], rng.normal(size=(20, 3)) * [1, 3, 1]])
    >>> model = ARPGDA(1).fit(X, sensitive_features=[0] * 80 + [1] * 20)
    >>> model.certificate_.gap < 1e-2
    True
    """

    inner_steps: int = 1

    def __init__(
        self,
        n_components: int | None = None,
        *,
        criterion: str = "loss",
        beta: float = 10.0,
        rho: float = 1.5,
        n_starts: int = 5,
        tol: float = 1e-4,
        max_iter: int = 2000,
        center: str = "group",
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.criterion = criterion
        self.beta = beta
        self.rho = rho
        self.n_starts = n_starts
        self.tol = tol
        self.max_iter = max_iter
        self.center = center
        self.random_state = random_state

    def _check_params(self) -> None:
        super()._check_params()
        check_positive(beta=self.beta, rho=self.rho, inner_steps=self.inner_steps)

    def _descend(self, problem: Problem, start: FloatArray) -> Descent:
        unit = max(float(pairs.values.sum()) for pairs in problem.own_pairs()) or 1.0
        smoothing = _Smoothing(matrices(problem) / unit, problem.offsets / unit, 0.5 * self.tol)
        beta = self.beta * len(problem.offsets) ** 2 * np.sqrt(problem.n_components)
        run = _Run(smoothing, start, beta)
        reason, stuck = "max_iter reached", np.inf
        for step in range(1, self.max_iter + 1):
            for _ in range(self.inner_steps):
                run.descend()
            drift = smoothing.lam * run.point.weights + run.beta * (run.anchor - run.point.weights)
            dual = float(np.abs(drift).max())
            if dual >= 1e-3 and dual >= 0.999 * stuck:
                beta *= 0.9
            stuck = dual
            if run.advance(max(beta / (step + 1) ** self.rho, _SMALLEST_BETA)) <= self.tol:
                reason = "stationary"
                break
        return Descent(run.best, run.weights, run.value * unit, step, reason)


class RADA(ARPGDA):
    """Fair PCA by the Riemannian alternating descent ascent framework (Xu et al., 2024).

    The loop of `ARPGDA` with several descent steps between two steps of the weights, as in the
    released code ("RADA-RGD").

    Parameters
    ----------
    n_components, criterion, rho, n_starts, max_iter, center, random_state
        As in `ARPGDA`.
    inner_steps : int, default=5
        Descent steps per step of the weights.
    beta : float, default=0.1
        As in `ARPGDA`; the authors' 1e4 is for data in their own unit.
    tol : float, default=1e-8
        As in `ARPGDA`.

    Attributes
    ----------
    components_, mean_, group_losses_, group_values_, certificate_, ...
        As in `ARPGDA`.

    References
    ----------
    M. Xu, B. Jiang, Y.-F. Liu, A. M.-C. So. A Riemannian Alternating Descent Ascent Algorithmic
    Framework for Nonconvex-Linear Minimax Problems on Riemannian Manifolds. arXiv:2409.19588,
    2024.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.methods import RADA
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(size=(80, 3)) * [3, 1, 1], rng.normal(size=(20, 3)) * [1, 3, 1]])
    >>> model = RADA(1).fit(X, sensitive_features=[0] * 80 + [1] * 20)
    >>> model.certificate_.gap < 1e-6
    True
    """

    def __init__(
        self,
        n_components: int | None = None,
        *,
        criterion: str = "loss",
        inner_steps: int = 5,
        beta: float = 0.1,
        rho: float = 1.5,
        n_starts: int = 5,
        tol: float = 1e-8,
        max_iter: int = 2000,
        center: str = "group",
        random_state: Any = None,
    ) -> None:
        super().__init__(
            n_components,
            criterion=criterion,
            beta=beta,
            rho=rho,
            n_starts=n_starts,
            tol=tol,
            max_iter=max_iter,
            center=center,
            random_state=random_state,
        )
        self.inner_steps = inner_steps
