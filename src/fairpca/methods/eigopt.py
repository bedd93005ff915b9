"""Shen et al. 2025: EigOpt, the algorithm of the paper as it is printed."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import minimize_scalar

from fairpca._arrays import FloatArray, symmetric
from fairpca.methods._base import Found, MinMaxMethod, certified
from fairpca.solvers import solve_problem
from fairpca.solvers.problem import Problem

# Eigenvalues this close to the r-th one, relative to the largest variance, are tied with it.
_TIED = 1e-12


class EigOpt(MinMaxMethod):
    """Fair PCA of two groups by Brent's search for the largest value of the dual function.

    J. Shen, A. J. Davis, D. Lu, Z. Bai. Hidden Convexity of Fair PCA and Fast Solver via
    Eigenvalue Optimization. arXiv:2503.00299, 2025.

    Algorithm 2 as printed: the t in [0, 1] with the largest sum of the r smallest eigenvalues of
    ``t H_A + (1 - t) H_B``, then the eigenvectors there. A search by value places t no better than
    about the root of machine precision, so the two losses agree to some seven digits, and weights
    instead of repeated rows move them by up to 1e-6.
    `fairpca.FairPCA` finds the root of the derivative instead, which is exact and takes fewer
    decompositions. Two groups only.

    Parameters
    ----------
    n_components, criterion, center
        As in all of `fairpca.methods`; the paper has "loss" about each group's own mean.
    tol : float, default=1e-8
        Absolute accuracy of t, as in the authors' experiments; the printed listing leaves it at
        MATLAB's 1e-4.
    max_iter : int, default=200
        Most evaluations. `n_iter_` counts them.

    Examples
    --------
    >>> from fairpca import datasets, methods
    >>> known = datasets.make_illustration(random_state=0)
    >>> model = methods.EigOpt(1).fit(known.data, sensitive_features=known.sensitive_features)
    >>> model.certificate_.gap < 1e-6
    True
    """

    criterion: str = "loss"
    tol: float = 1e-8
    max_iter: int = 200

    _group_range = (2, 2)

    def _solve(self, problem: Problem) -> Found:
        oracle, r = problem.oracle, problem.n_components
        if r == oracle.n_features:
            return Found.of(solve_problem(problem))

        def negative_phi(t: float) -> float:
            weights = np.array([t, 1 - t])
            return -problem.phi(weights, oracle.leading(weights, r))

        options: Any = {"xatol": self.tol, "maxiter": self.max_iter}
        found = minimize_scalar(negative_phi, bounds=(0.0, 1.0), method="bounded", options=options)
        weights = np.array([found.x, 1 - found.x])
        basis = _inside_a_tie(problem, weights)
        return certified(problem, basis, weights, int(found.nfev), str(found.message))


def _inside_a_tie(problem: Problem, weights: FloatArray) -> FloatArray:
    """Return the leading eigenvectors; where the r-th is tied, those with equal losses.

    Section 4.2, remark 3: bisection along ``orth(s V_M + (1 - s) V_m)``. The curve can lose rank;
    `fairpca.solvers.two_groups` says what is done elsewhere.
    """
    r, pairs = problem.n_components, problem.oracle.leading(weights, problem.oracle.n_features)
    tied = np.abs(pairs.values - pairs.values[r - 1]) <= _TIED * problem.oracle.scale
    first, last = np.flatnonzero(tied)[[0, -1]] + [0, 1]
    fixed, cluster = pairs.vectors[:, :first], pairs.vectors[:, first:last]
    losses = problem.offsets - problem.oracle.retained_variance(fixed)
    compressed = problem.oracle.project(cluster)
    gains = -symmetric(compressed[0] - compressed[1])
    order = np.linalg.eigh(gains)[1]
    low, high = order[:, : r - first], order[:, first - r :]
    left, right = 0.0, 1.0
    for _ in range(60):
        s = 0.5 * (left + right)
        chosen = np.linalg.qr(s * high + (1 - s) * low)[0]
        apart = losses[0] - losses[1] + np.sum(chosen * (gains @ chosen))
        left, right = (s, right) if apart < 0 else (left, s)
    return np.hstack([fixed, cluster @ chosen])
