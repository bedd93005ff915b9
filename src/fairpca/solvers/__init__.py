"""Solvers of the minimax problem; they never see a row of X.

Given symmetric matrices S_1 ... S_k, offsets c_i and a rank r, find U with ``U.T U = I`` that
minimises

    max_i f_i(U),    f_i(U) = c_i - Tr(U.T S_i U).

Every route bounds that minimum from below by the dual function (see `dual`) and from above by the
basis it returns; the pair is the certificate. Read `solve_problem` first, which sends a problem to
the algorithm that fits it, then `problem`, and `solution` for what comes out.
"""

from __future__ import annotations

import numpy as np

from fairpca._arrays import FloatArray
from fairpca.covariances.oracle import EigenPairs
from fairpca.solvers.problem import Problem
from fairpca.solvers.solution import Certificate, Solution

__all__ = ["Certificate", "Problem", "Solution", "solve_problem"]


def solve_problem(
    problem: Problem,
    *,
    tol: float = 1e-10,
    max_iter: int = 200,
    random_state: int = 0,
    start: FloatArray | None = None,
    exact_search: bool = True,
    prove: bool = False,
) -> Solution:
    """Solve a problem with any number of groups.

    Parameters
    ----------
    problem : Problem
    tol : float
        Relative gap at which to stop.
    max_iter : int
        Most full-size decompositions, those of the groups' own matrices aside.
    random_state : int
        Seed of the random starting bases that three or more groups may need.
    start : ndarray of shape (k,), optional
        Weights of a neighbouring problem.
    exact_search : bool
        With three or more groups: whether a small problem with a gap may be searched for a better
        bound where that is cheap.
    prove : bool
        Whether a problem with a gap may be searched for a minute for a better bound or basis.

    Returns
    -------
    Solution
        Its certificate says how good the basis is, its `stop_reason` why the search ended. The
        basis is the best one found, whether or not the gap is closed.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.fitting import pose
    >>> from fairpca.solvers import solve_problem
    >>> problem = pose(np.array([[[3.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 2.0]]]), 1)
    >>> print(solve_problem(problem).certificate)
    worst group 0.666667, no basis below 0.666667: proven optimal (gap 0.0e+00)
    """
    # Imported here: most fits need only one of them.
    from fairpca.solvers.many_groups import solve_many_groups
    from fairpca.solvers.two_groups import solve_two_groups

    oracle = problem.oracle
    k, n, r = oracle.n_groups, oracle.n_features, problem.n_components
    if r == n:
        # Nothing to choose: phi is linear, and the worst group carries all the weight.
        losses = problem.losses(np.eye(n))
        weights = np.where(np.arange(k) == np.argmax(losses), 1.0, 0.0)
        near = EigenPairs(np.zeros(0), np.zeros((n, 0)))
        reason, value = "all components kept", float(losses.max())
        return problem.solution(
            np.eye(n), weights, near, stop_reason=reason, solver="exact", searched=value
        )
    if k == 1:
        near, reason = problem.own_pairs()[0], "one group: ordinary PCA"
        return problem.solution(
            near.vectors[:, :r], np.ones(1), near, stop_reason=reason, solver=oracle.driver
        )
    if k == 2:
        return solve_two_groups(problem, tol=tol, max_iter=max_iter, start=start)
    return solve_many_groups(
        problem,
        tol=tol,
        max_iter=max_iter,
        random_state=random_state,
        start=start,
        exact_search=exact_search,
        prove=prove,
    )
