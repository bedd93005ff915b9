"""Samadi et al. 2018: semidefinite relaxation, by multiplicative weights or exactly."""

from __future__ import annotations

from dataclasses import replace

from fairpca._checks import check_choice, check_limits
from fairpca.methods.base import Found, MinMaxMethod, check_positive
from fairpca.methods.relaxation import (
    Relaxed,
    column_generation,
    multiplicative_weights,
    semidefinite_program,
)
from fairpca.methods.rounding import rounded, square_root_map, vertex_of_spectrum
from fairpca.solvers.problem import Problem

_SOLVERS = ("mw", "columns", "sdp")


class SDRFairPCA(MinMaxMethod):
    """Fair PCA by relaxing the projector, after Samadi et al. (2018).

    Minimises the largest group loss over matrices ``0 <= P <= I``, ``Tr P = r`` instead of
    projectors. ``solver="mw"`` is the loop of the authors' code, ten multiplicative-weights
    steps of which the better of the average and the last projector is kept. The other two solve
    the relaxation and then choose its eigenvalues by a linear program, as in the paper, which
    leaves a rank of at most r + k - 1.

    Parameters
    ----------
    n_components : int or None, default=None
        Rank r; None keeps all.
    solver : {"mw", "columns", "sdp"}, default="mw"
        "columns" solves the relaxation by column generation, "sdp" by cvxpy and Clarabel (extra
        `methods`, up to about 60 features).
    eta : float, default=1.0
        Learning rate of "mw". It multiplies losses in squared units of X.
    scale_losses : bool, default=False
        Divide losses by the largest group variance first, so that `eta` has no unit. The authors
        do not.
    max_iter : int, default=10
        Steps of "mw"; the authors use 10 on credit data and 5 on faces.
    tol : float, default=1e-9
        Relative gap of "columns".
    center : {"group", "global", "none"}, default="group"
        Second moments are about each group's own mean (the paper), the overall mean, or zero.

    Attributes
    ----------
    projector_ : ndarray of shape (n_features_in_, n_features_in_)
        The relaxed P. Its trace is r; its rank is often larger.
    square_root_map_ : ndarray of shape (n_features_in_, n_features_in_)
        ``I - (I - P)^(1/2)``. Applied to rows it realises the relaxed losses exactly; P itself
        does not.
    relaxed_losses_ : ndarray of shape (k,)
        Losses of the relaxed P, at most those of any projection of rank r for the exact solvers.
    rank_ : int
        Eigenvalues of P above 1e-6.
    components_, mean_, group_losses_, certificate_, ...
        As in `fairpca.FairPCA`; `components_` are the r leading eigenvectors of P, and
        `certificate_` bounds their worst loss by the best dual value met.
    center_ : str
        What the second moments are about.

    See Also
    --------
    fairpca.FairPCA : The exact optimum without the relaxation.

    References
    ----------
    S. Samadi, U. Tantipongpipat, J. Morgenstern, M. Singh, S. Vempala. The Price of Fair PCA: One
    Extra Dimension. Advances in Neural Information Processing Systems 31, 2018.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.methods import SDRFairPCA
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(size=(80, 3)) * [3, 1, 1], rng.normal(size=(20, 3)) * [1, 3, 1]])
    >>> model = SDRFairPCA(1, solver="columns").fit(X, sensitive_features=[0] * 80 + [1] * 20)
    >>> model.rank_, bool(np.ptp(model.relaxed_losses_) < 1e-6)
    (1, True)
    """

    criterion = "loss"

    def __init__(
        self,
        n_components: int | None = None,
        *,
        solver: str = "mw",
        eta: float = 1.0,
        scale_losses: bool = False,
        max_iter: int = 10,
        tol: float = 1e-9,
        center: str = "group",
    ) -> None:
        self.n_components = n_components
        self.solver = solver
        self.eta = eta
        self.scale_losses = scale_losses
        self.max_iter = max_iter
        self.tol = tol
        self.center = center

    def _check_params(self) -> None:
        super()._check_params()
        check_choice("solver", self.solver, _SOLVERS)
        check_limits(self.tol, self.max_iter)
        check_positive(eta=self.eta)

    def _solve(self, problem: Problem) -> Found:
        relaxed = self._relax(problem)
        projector = relaxed.projector
        if self.solver != "mw":
            projector = vertex_of_spectrum(problem, projector)
        found = rounded(problem, relaxed, projector)
        own = {"square_root_map_": square_root_map(projector)}
        return replace(found, own={**found.own, **own})

    def _relax(self, problem: Problem) -> Relaxed:
        if self.solver == "sdp":
            return semidefinite_program(problem)
        if self.solver == "columns":
            return column_generation(problem, tol=self.tol)
        return multiplicative_weights(
            problem, eta=self.eta, max_iter=self.max_iter, scale_losses=self.scale_losses
        )
