"""Solvers of the minimax problem: everything with eigenvalues in it, and no row of X.

`solve_problem` sends a problem to the algorithm that fits it: one group, two groups, or more.
"""

from __future__ import annotations

import numpy as np

from fairpca._linalg import FloatArray
from fairpca.covariances.eigenpairs import EigenPairs
from fairpca.solvers.many_groups import solve_many_groups
from fairpca.solvers.paper import solve_paper
from fairpca.solvers.problem import Problem
from fairpca.solvers.solution import Certificate, Solution
from fairpca.solvers.two_groups import solve_two_groups

__all__ = ["SOLVERS", "Certificate", "Problem", "Solution", "solve_problem"]

SOLVERS = ("auto", "dense", "krylov", "paper")


def solve_problem(
    problem: Problem,
    *,
    solver: str = "auto",
    tol: float = 1e-10,
    max_iter: int = 200,
    random_state: int = 0,
    start: FloatArray | None = None,
    max_extra_components: int = 0,
) -> Solution:
    """Solve a problem with any number of groups.

    Parameters
    ----------
    problem : Problem
    solver : {"auto", "dense", "krylov", "paper"}
        "dense" and "krylov" are choices of the oracle; only "paper" changes the algorithm.
    tol : float
        Relative gap at which to stop.
    max_iter : int
        Most full-size decompositions.
    random_state : int
        Seed of the random starts where three or more groups tie.
    start : ndarray of shape (k,), optional
        Weights of a neighbouring problem.
    max_extra_components : int
        With three or more groups, take up to this many components more than asked for where that
        closes an open gap.
    """
    oracle = problem.oracle
    k, n, r = oracle.n_groups, oracle.n_features, problem.n_components
    if r == n:
        return _solve_full_rank(problem)
    if k == 1:
        return _solve_one_group(problem)
    if solver == "paper":
        if k != 2:
            raise ValueError(
                f"solver='paper' is written for two groups and got {k}; use solver='auto'."
            )
        return solve_paper(problem, tol=tol, max_iter=max_iter)
    if k == 2:
        return solve_two_groups(problem, tol=tol, max_iter=max_iter, start=start)
    return solve_many_groups(
        problem,
        tol=tol,
        max_iter=max_iter,
        random_state=random_state,
        start=start,
        max_extra_components=max_extra_components,
    )


def _solve_full_rank(problem: Problem) -> Solution:
    # The whole space: nothing to choose, phi is linear, the worst group carries all the weight.
    n = problem.oracle.n_features
    losses = problem.losses(np.eye(n))
    weights = np.zeros(len(losses))
    weights[np.argmax(losses)] = 1.0
    return problem.solution(
        np.eye(n),
        weights,
        EigenPairs(np.zeros(0), np.zeros((n, 0))),
        stop_reason="all components kept",
        solver="exact",
        # Every basis of this rank spans everything, so what one attains all attain.
        searched=float(losses.max()),
    )


def _solve_one_group(problem: Problem) -> Solution:
    oracle, r, weights = problem.oracle, problem.n_components, np.ones(1)
    pairs = problem.own[0] if problem.own else oracle.leading(weights, r)
    return problem.solution(
        pairs.vectors[:, :r],
        weights,
        pairs,
        stop_reason="one group: ordinary PCA",
        solver=oracle.driver,
    )
