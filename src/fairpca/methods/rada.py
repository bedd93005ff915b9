"""Xu et al. 2024: ARPGDA and RADA, descent on a smoothed worst case."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from fairpca._linalg import FloatArray
from fairpca.methods._base import MinMaxFound
from fairpca.methods._descent import ARMIJO, LocalSearch, project_to_simplex, retract, tangent
from fairpca.solvers.problem import Problem

# The constants of the authors' released code. Trials of a step, after which the last is taken as
# it is; what a failed trial is multiplied by; the first step length; limits of a step length.
_TRIALS, _SHRINK = 5, 0.1
_FIRST_STEP, _SHORTEST, _LONGEST = 1e-3, 1e-20, 1e20
# The proximal term never becomes weaker than this: its weights are divided by it.
_SMALLEST_BETA = 1e-9
# Where the drift of the weights is at least the first and falls to no less than the second share
# of the last one, the proximal term holds the weights back. It is then multiplied by the third.
_DRIFT, _SAME_DRIFT, _WEAKER = 1e-3, 0.999, 0.9


@dataclass(frozen=True)
class _Point:
    """A basis with everything that the next step needs.

    Attributes
    ----------
    basis : ndarray of shape (n, r)
    values : ndarray of shape (k,)
        Of the groups.
    images : ndarray of shape (k, n, r)
        The groups' matrices times the basis.
    weights : ndarray of shape (k,)
        Where the smoothed worst value is attained.
    smoothed : float
        The smoothed worst value.
    """

    basis: FloatArray
    values: FloatArray
    images: FloatArray
    weights: FloatArray
    smoothed: float

    @property
    def gradient(self) -> FloatArray:
        """Riemannian gradient of the smoothed worst value."""
        return tangent(self.basis, -2 * np.tensordot(self.weights, self.images, axes=1))


class _Run:
    """One start: the current point, the step length, and the best seen.

    The worst value is smoothed: max over weights y of ``y.h - lam/2 |y|^2 - beta/2 |y - y_0|^2``
    with the anchor y_0. Matrices and offsets are in units of the largest variance, so that beta
    has no unit.
    """

    def __init__(
        self, problem: Problem, unit: float, start: FloatArray, lam: float, beta: float
    ) -> None:
        self.covariances, self.offsets = problem.oracle.matrices / unit, problem.offsets / unit
        self.lam, self.beta = lam, beta
        self.anchor = np.full(len(self.offsets), 1 / len(self.offsets))
        self.point = self._at(start)
        self.length, self.steps = _FIRST_STEP, 0
        self.last: tuple[FloatArray, FloatArray] | None = None
        self.best, self.value = self.point.basis, float(self.point.values.max())
        self.weights, self.residual = self.anchor, np.inf

    def _at(self, basis: FloatArray) -> _Point:
        """Evaluate a basis."""
        images = self.covariances @ basis
        return self._weigh(basis, self.offsets - np.einsum("nr,knr->k", basis, images), images)

    def _weigh(self, basis: FloatArray, values: FloatArray, images: FloatArray) -> _Point:
        """Find the weights of a basis whose values are known."""
        weights = project_to_simplex((self.beta * self.anchor + values) / (self.lam + self.beta))
        away = weights - self.anchor
        cost = self.lam * weights @ weights + self.beta * away @ away
        return _Point(basis, values, images, weights, float(weights @ values - 0.5 * cost))

    def descend(self) -> None:
        """One gradient step with non-monotone backtracking from a Barzilai-Borwein length."""
        gradient = self.point.gradient
        self._propose(gradient)
        # The slack lets the smoothed value rise while beta is still large.
        level = self.point.smoothed + 2 * self.beta
        size = float(np.sum(gradient**2))
        for _ in range(_TRIALS):
            trial = self._at(retract(self.point.basis, -self.length * gradient))
            if trial.smoothed <= level - ARMIJO * self.length * size:
                break
            self.length *= _SHRINK
        self.last = (self.point.basis, gradient)
        self.point = trial
        worst = float(trial.values.max())
        # Accepting after failed trials breaks monotonicity, hence the record.
        if worst < self.value:
            self.best, self.value = trial.basis, worst

    def _propose(self, gradient: FloatArray) -> None:
        """Set the step length from the last step: the long and the short formula in turn."""
        if self.last is not None:
            moved, change = self.point.basis - self.last[0], gradient - self.last[1]
            across = abs(float(np.sum(moved * change)))
            long = self.steps % 2 == 0
            above = float(np.sum(moved**2)) if long else across
            below = across if long else float(np.sum(change**2))
            # A step of length zero would give 0 / 0; the last length then stays.
            if above > 0 and below > 0:
                self.length = float(np.clip(above / below, _SHORTEST, _LONGEST))
        self.steps += 1

    def advance(self, beta: float) -> float:
        """Move the anchor to the current weights; return how far from stationary the pair is."""
        here = self.point
        self.anchor, self.beta = here.weights, beta
        ascent = here.weights - project_to_simplex(here.weights + here.values)
        residual = max(float(np.linalg.norm(here.gradient)), float(np.linalg.norm(ascent)))
        if residual < self.residual:
            self.weights, self.residual = here.weights, residual
        self.point = self._weigh(here.basis, here.values, here.images)
        return residual


@dataclass(eq=False, repr=False)
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

    n_components: int | None = None
    _: KW_ONLY
    criterion: str = "loss"
    beta: float = 10.0
    rho: float = 1.5
    n_starts: int = 5
    tol: float = 1e-4
    max_iter: int = 2000
    center: str = "group"
    random_state: Any = None

    _positive: ClassVar[tuple[str, ...]] = ("beta", "rho")

    def _descend(self, problem: Problem, start: FloatArray) -> MinMaxFound:
        unit = max(float(pairs.values.sum()) for pairs in problem.own_pairs()) or 1.0
        # The authors' choice: the smoothing then costs at most a quarter of the tolerance.
        lam = 0.5 * self.tol
        beta = self.beta * problem.oracle.n_groups**2 * np.sqrt(problem.n_components)
        run = _Run(problem, unit, start, lam, beta)
        reason, before = "max_iter reached", np.inf
        for step in range(1, self.max_iter + 1):
            for _ in range(getattr(self, "inner_steps", 1)):
                run.descend()
            weights = run.point.weights
            drift = float(np.abs(lam * weights + run.beta * (run.anchor - weights)).max())
            if drift >= _DRIFT and drift >= _SAME_DRIFT * before:
                beta *= _WEAKER
            before = drift
            if run.advance(max(beta / (step + 1) ** self.rho, _SMALLEST_BETA)) <= self.tol:
                reason = "stationary"
                break
        return MinMaxFound.at(problem, run.best, run.weights, step, reason)


@dataclass(eq=False, repr=False)
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

    _: KW_ONLY
    inner_steps: int = 5
    beta: float = 0.1
    tol: float = 1e-8

    _positive: ClassVar[tuple[str, ...]] = ("beta", "rho", "inner_steps")
