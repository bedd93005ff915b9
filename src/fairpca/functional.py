"""The functional front door, for people who already have covariances."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairpca.criteria import pose
from fairpca.arrays import FloatArray, symmetric
from fairpca.solve.dispatch import check_solver, solve_problem
from fairpca.solve.solution import Solution


def solve(
    covariances: Any,
    n_components: int,
    *,
    criterion: str = "loss",
    solver: str = "auto",
    tol: float = 1e-10,
    max_iter: int = 200,
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
    check_solver(solver)
    matrices = check_covariances(covariances)
    check_rank(n_components, matrices.shape[-1])
    method = "auto" if solver == "paper" else solver
    problem = pose(matrices, int(n_components), criterion, method=method)
    return solve_problem(problem, solver=solver, tol=tol, max_iter=max_iter)


def check_covariances(covariances: Any) -> FloatArray:
    """Return a (k, n, n) float64 array of symmetric matrices, or raise ValueError."""
    matrices = np.asarray(covariances, dtype=float)
    if matrices.ndim != 3 or matrices.shape[1] != matrices.shape[2] or matrices.shape[0] == 0:
        raise ValueError(
            f"covariances has shape {matrices.shape}; pass one square matrix per group, "
            "shape (n_groups, n_features, n_features)."
        )
    if not np.all(np.isfinite(matrices)):
        raise ValueError("covariances contains NaN or infinity; remove or impute them first.")
    asymmetry = np.abs(matrices - np.swapaxes(matrices, 1, 2)).max()
    if asymmetry > 1e-8 * max(np.abs(matrices).max(), np.finfo(float).tiny):
        raise ValueError(
            f"covariances is not symmetric (largest difference {asymmetry:.3g}); "
            "pass (S + S.T) / 2 if that is what you mean."
        )
    return symmetric(matrices)


def check_rank(n_components: Any, n_features: int) -> None:
    """Raise ValueError unless 1 <= n_components <= n_features and it is an integer."""
    if isinstance(n_components, bool) or not isinstance(n_components, int | np.integer):
        raise ValueError(f"n_components={n_components!r} must be an integer here.")
    if not 1 <= n_components <= n_features:
        raise ValueError(
            f"n_components={n_components} must be between 1 and the number of features, "
            f"{n_features}."
        )
