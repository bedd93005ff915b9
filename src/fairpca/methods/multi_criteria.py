"""Tantipongpipat et al. 2019: any concave welfare of the groups' variances."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np

from fairpca._linalg import FloatArray
from fairpca.criteria import CRITERIA, pose
from fairpca.methods._base import MinMaxFound, MinMaxMethod
from fairpca.methods._nash import frank_wolfe, geometric_mean, nash_columns
from fairpca.methods._relaxation import extreme_point, rank_bound, rounded, solve_relaxation
from fairpca.solvers.problem import Problem


@dataclass(eq=False, repr=False)
class MultiCriteriaPCA(MinMaxMethod):
    """Multi-criteria dimensionality reduction of Tantipongpipat et al. (2019).

    Maximises a welfare of the groups over the relaxed projectors ``0 <= P <= I``, ``Tr P = r``
    and moves the answer to an extreme point, whose rank exceeds r by at most
    ``floor(sqrt(2 k + 1/4) - 3/2)``: nothing for two groups, one dimension for three to five.

    Parameters
    ----------
    n_components : int or None, default=None
        Rank r; None keeps all.
    criterion : {"loss", "error", "variance", "relative", "share", "nash"}, default="loss"
        What the worst group is judged by, or "nash" for the geometric mean of the variances
        kept. The paper has "loss", "variance" and "nash".
    solver : {"columns", "frank-wolfe", "mw", "sdp"}, default="columns"
        Column generation (for "nash", fully corrective Frank-Wolfe steps); the authors' plain
        Frank-Wolfe for "nash"; the authors' multiplicative weights or a semidefinite program
        (cvxpy, extra `methods`) for the other criteria.
    eta : float, default=1.0
        Learning rate of "mw".
    max_iter : int, default=1000
        Linear programs, or weighted PCAs of "frank-wolfe" and "mw".
    tol : float, default=1e-9
        Relative gap at which to stop.
    center : {"group", "global", "none"}, default="group"
        Second moments are about each group's own mean (the paper), the overall mean, or zero.

    Attributes
    ----------
    projector_ : ndarray of shape (n_features_in_, n_features_in_)
        Extreme point of the relaxation.
    relaxed_losses_ : ndarray of shape (k,)
        The groups' criterion at `projector_` (minus the variance kept for "nash").
    rank_ : int
        Eigenvalues of `projector_` above 1e-6.
    rank_bound_ : int
        The theorem's bound on that rank.
    welfare_ : float
        Geometric mean of the variances that `components_` keeps.
    components_, mean_, group_losses_, certificate_, ...
        As in `fairpca.FairPCA`; `components_` are the r leading eigenvectors of `projector_`.
        For "nash" the certificate is that of minus `welfare_`.
    center_ : str
        What the second moments are about.

    See Also
    --------
    fairpca.FairPCA : Min-max without the relaxation.

    Notes
    -----
    The relaxed optimum can lie strictly below that of every projection of rank r as soon as there
    are three groups; `certificate_` then shows the gap.

    References
    ----------
    U. Tantipongpipat, S. Samadi, M. Singh, J. Morgenstern, S. Vempala. Multi-Criteria
    Dimensionality Reduction with Applications to Fairness. Advances in Neural Information
    Processing Systems 32, 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.methods import MultiCriteriaPCA
    >>> rng = np.random.default_rng(0)
    >>> scales = np.array([[3, 1, 1, 1], [1, 3, 1, 1], [1, 1, 3, 1]]).repeat(50, axis=0)
    >>> X, group = rng.normal(size=(150, 4)) * scales, np.repeat(["a", "b", "c"], 50)
    >>> model = MultiCriteriaPCA(2, criterion="nash").fit(X, sensitive_features=group)
    >>> model.rank_ <= model.rank_bound_, model.certificate_.gap < 0.05
    (True, True)
    """

    n_components: int | None = None
    _: KW_ONLY
    criterion: str = "loss"
    solver: str = "columns"
    eta: float = 1.0
    max_iter: int = 1000
    tol: float = 1e-9
    center: str = "group"

    _choices: ClassVar[dict[str, tuple[str, ...]]] = {
        "criterion": (*CRITERIA, "nash"),
        "solver": ("columns", "frank-wolfe", "mw", "sdp"),
    }
    _positive: ClassVar[tuple[str, ...]] = ("eta",)

    def _check_params(self) -> None:
        super()._check_params()
        nash = self.criterion == "nash"
        allowed = ("columns", "frank-wolfe") if nash else ("columns", "mw", "sdp")
        if self.solver not in allowed:
            raise ValueError(
                f"solver={self.solver!r} is not for criterion={self.criterion!r}; choose one of "
                f"{', '.join(map(repr, allowed))}."
            )

    def _pose(self, covariances: FloatArray, r: int) -> Problem:
        if self.criterion != "nash":
            return super()._pose(covariances, r)
        if np.trace(covariances, axis1=1, axis2=2).min() <= 0:
            raise ValueError(
                "criterion='nash' multiplies the groups' variances, and a group has none; choose "
                "another criterion, or drop that group."
            )
        return pose(covariances, r, "variance")

    def _solve(self, problem: Problem) -> MinMaxFound:
        limits: dict[str, Any] = {"tol": self.tol, "max_iter": self.max_iter}
        if self.criterion == "nash":
            climb = nash_columns if self.solver == "columns" else frank_wolfe
            relaxed = climb(problem, **limits)
        else:
            relaxed = solve_relaxation(problem, self.solver, eta=self.eta, **limits)
        found = rounded(problem, relaxed, extreme_point(problem, relaxed.projector))
        welfare = geometric_mean(problem.oracle.retained_variance(found.basis))
        found.own["welfare_"] = welfare
        found.own["rank_bound_"] = rank_bound(problem.n_components, problem.oracle.n_groups)
        if self.criterion == "nash":
            # The bound is one of the welfare, so the value beside it must be the welfare too and
            # not the worst group's variance.
            found.own["certificate_"] = problem.certificate(relaxed.lower_bound, -welfare)
        return found
