"""The paper's own Algorithm 2 (EigOpt), kept as printed for comparison.

Shen, Davis, Lu and Bai, "Hidden Convexity of Fair PCA and Fast Solver via Eigenvalue
Optimization". Brent's search for the largest value of phi on [0, 1], then the leading eigenvectors
there. A search by value cannot place t better than about the square root of machine precision, so
the two losses agree to some seven digits only; `two_groups` finds the root of phi' instead.

It is an idea of its own: the published algorithm, kept as it was printed for comparison.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize_scalar

from fairpca._arrays import FloatArray, symmetric
from fairpca.covariances.oracle import EigenPairs
from fairpca.solvers.problem import Problem
from fairpca.solvers.solution import Solution


def solve_paper(problem: Problem, *, tol: float = 1e-8, max_iter: int = 200) -> Solution:
    """Run Algorithm 2 on a two-group problem.

    Parameters
    ----------
    problem : Problem
    tol : float
        Absolute tolerance on t (MATLAB's ``TolX``; the printed listing leaves it at 1e-4, the
        authors' experiments use 1e-8).
    max_iter : int
        Most evaluations of phi.

    Returns
    -------
    Solution
        Certified like every other; its gap shows what the search by value leaves open.
    """
    oracle, r = problem.oracle, problem.n_components
    history: list[dict[str, float]] = []

    def negative_phi(t: float) -> float:
        weights = np.array([t, 1 - t])
        value = problem.phi(weights, oracle.leading(weights, r))
        history.append({"t": t, "phi": value})
        return -value

    found = minimize_scalar(
        negative_phi,
        bounds=(0.0, 1.0),
        method="bounded",
        options={"xatol": tol, "maxiter": max_iter},
    )
    t = float(found.x)
    weights = np.array([t, 1 - t])
    spare = min(r + _LOOKAHEAD, oracle.n_features)
    pairs = oracle.leading(weights, spare)
    basis = _postprocess(problem, pairs)
    return problem.solution(
        basis,
        weights,
        pairs,
        stop_reason=str(found.message),
        solver="paper",
        history=history,
    )


# Eigenpairs past r that are looked at for a tie; the paper assumes there is none.
_LOOKAHEAD = 8


def _postprocess(problem: Problem, pairs: EigenPairs) -> FloatArray:
    """Section 4.2, remark 3: if lambda_r is tied, bisect along ``orth(t V_M + (1 - t) V_m)``.

    Parameters
    ----------
    problem : Problem
    pairs : EigenPairs
        A few more than r leading pairs at the weight found.

    Returns
    -------
    ndarray of shape (n, r)
        The leading eigenvectors themselves where nothing is tied. The curve can lose rank; see
        `two_group_ties` for what is done elsewhere.
    """
    r = problem.n_components
    tied = np.abs(pairs.values - pairs.values[r - 1]) <= 1e-12 * problem.oracle.scale
    inside = np.flatnonzero(tied)
    first, last = int(inside[0]), int(inside[-1]) + 1
    if last <= r:
        return pairs.vectors[:, :r]
    fixed, cluster = pairs.vectors[:, :first], pairs.vectors[:, first:last]
    compressed = problem.oracle.project(cluster)
    losses = problem.offsets - problem.oracle.retained_variance(fixed)
    gamma = float(losses[0] - losses[1])
    gains = -symmetric(compressed[0] - compressed[1])
    _, order = np.linalg.eigh(gains)
    d = r - first
    low, high = order[:, :d], order[:, -d:]

    def curve(s: float) -> FloatArray:
        return np.asarray(np.linalg.qr(s * high + (1 - s) * low)[0])

    def g(v: FloatArray) -> float:
        return gamma + float(np.sum(v * (gains @ v)))

    left, right = 0.0, 1.0
    for _ in range(60):
        middle = 0.5 * (left + right)
        left, right = (middle, right) if g(curve(middle)) < 0 else (left, middle)
    return np.hstack([fixed, cluster @ curve(0.5 * (left + right))])
