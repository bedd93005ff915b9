"""Samadi et al. 2018: semidefinite relaxation, by multiplicative weights or exactly."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

from fairpca.methods._base import MinMaxFound, MinMaxMethod
from fairpca.methods._relaxation import (
    rounded,
    solve_relaxation,
    square_root_map,
    vertex_of_spectrum,
)
from fairpca.solvers.problem import Problem

# Most linear programs of "columns". The parameter `max_iter` counts the authors' ten steps, which
# are far too few for it; reached, the certificate stays open and says so.
_PROGRAMS = 500


@dataclass(eq=False, repr=False)
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

    n_components: int | None = None
    _: KW_ONLY
    solver: str = "mw"
    eta: float = 1.0
    scale_losses: bool = False
    max_iter: int = 10
    tol: float = 1e-9
    center: str = "group"

    # Not a parameter: the relaxation of the paper is that of the loss.
    criterion = "loss"
    _choices: ClassVar[dict[str, tuple[str, ...]]] = {"solver": ("mw", "columns", "sdp")}
    _positive: ClassVar[tuple[str, ...]] = ("eta",)

    def _solve(self, problem: Problem) -> MinMaxFound:
        mw = self.solver == "mw"
        relaxed = solve_relaxation(
            problem,
            self.solver,
            tol=self.tol,
            eta=self.eta,
            max_iter=self.max_iter if mw else _PROGRAMS,
            scale_losses=self.scale_losses,
        )
        # The authors' code returns the projector of its loop as it is.
        projector = relaxed.projector if mw else vertex_of_spectrum(problem, relaxed.projector)
        return rounded(problem, relaxed, projector, square_root_map_=square_root_map(projector))
