"""The functional front door, for people who already have covariances."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairpca.checks import check_choice, check_covariances, check_limits, check_rank
from fairpca.criteria import check_criterion, common_unit, pose
from fairpca.solve.dispatch import SOLVERS, solve_problem
from fairpca.solve.solution import Solution


def solve(
    covariances: Any,
    n_components: int,
    *,
    criterion: str = "loss",
    solver: str = "auto",
    tol: float = 1e-10,
    max_iter: int = 200,
    random_state: int = 0,
    max_extra_components: int = 0,
) -> Solution:
    """Find the rank-`n_components` projection whose worst group fares best.

    Parameters
    ----------
    covariances : array-like of shape (k, n, n)
        One symmetric matrix per group.
    n_components : int
        Rank r of the projection, 1 <= r <= n.
    criterion : {"loss", "error", "variance", "relative", "share"}, default="loss"
    solver : {"auto", "dense", "krylov", "paper"}, default="auto"
    tol : float, default=1e-10
        Relative gap between value and lower bound at which to stop.
    max_iter : int, default=200
        Most full-size eigen-decompositions.
    random_state : int, default=0
        Seed of the random starts where three or more groups tie.
    max_extra_components : int, default=0
        Take up to this many components more where that closes an open gap.

    Returns
    -------
    Solution

    Examples
    --------
    >>> import numpy as np
    >>> import fairpca
    >>> result = fairpca.solve([np.diag([1.0, 0.0]), np.diag([0.0, 1.0])], 1)
    >>> result.losses.round(6).tolist(), result.certificate.optimal
    ([0.5, 0.5], True)
    """
    check_choice("solver", solver, SOLVERS)
    check_limits(tol, max_iter, max_extra_components)
    matrices = check_covariances(covariances)
    check_rank(n_components, matrices.shape[-1])
    method = "auto" if solver == "paper" else solver
    check_criterion(criterion)
    unit = common_unit(np.trace(matrices, axis1=1, axis2=2), criterion)
    if unit != 1:
        matrices = matrices * unit
    problem = pose(matrices, int(n_components), criterion, method=method)
    solution = solve_problem(
        problem,
        solver=solver,
        tol=tol,
        max_iter=max_iter,
        random_state=random_state,
        max_extra_components=max_extra_components,
    )
    return solution.times(1 / unit)
