"""Nash social welfare: the geometric mean of the variances kept, maximised by Frank-Wolfe.

Over 0 <= P <= I, Tr P = r the sum of log <S_i, P> is concave. Its linearisation at X is a weighted
PCA with weights 1 / <S_i, X>, and the Frank-Wolfe gap g of that PCA bounds the optimum: no basis
has a geometric mean above ``exp(g / k)`` times the current one.

A module of its own, although only `MultiCriteriaPCA` uses it: a welfare is not a worst case, and
nothing of the min-max solvers applies to it.
"""

from __future__ import annotations

import numpy as np
import scipy.optimize

from fairpca._linalg import FloatArray
from fairpca.methods._relaxation import Relaxed, mixture
from fairpca.solvers.problem import Problem

# Accuracy of a mixture, as a share of the gap that asked for it. The next weighted PCA changes the
# problem anyway, so more would be wasted; less would add columns instead of using those there are.
_MIXTURE_SHARE = 0.01
# Most pairwise steps for one mixture. Past them the mixture is merely less good: the gap is always
# computed for the mixture in hand.
_MIXTURE_STEPS = 2000
# Accuracy of a line search, in a step length of at most one.
_STEP_TOL = 1e-15


def geometric_mean(kept: FloatArray) -> float:
    """Return the geometric mean of the groups' kept variances, zero if one of them is."""
    if kept.min() <= 0:
        return 0.0
    return float(np.exp(np.log(kept).mean()))


def nash_columns(problem: Problem, *, tol: float, max_iter: int) -> Relaxed:
    """Maximise Nash welfare by fully corrective Frank-Wolfe steps.

    After each weighted PCA the mixture of all bases met so far is optimised anew, so a few dozen
    decompositions replace the thousands of the plain method.

    Parameters
    ----------
    problem : Problem
        Only its matrices and rank count; offsets do not enter.
    tol : float
        Relative accuracy of the geometric mean at which to stop.
    max_iter : int
        Weighted PCAs.
    """
    k, r = problem.oracle.n_groups, problem.n_components
    first = problem.oracle.leading(np.full(k, 1 / k), r).vectors[:, :r]
    bases, kept = [first], [problem.oracle.retained_variance(first)]
    shares, reason, steps = np.ones(1), "max_iter reached", 0
    while steps < max_iter:
        steps += 1
        current = np.array(kept).T @ shares
        basis, found, gap = _best_response(problem, current)
        if gap <= k * tol:
            reason = "gap closed"
            break
        bases.append(basis)
        kept.append(found)
        shares = np.append(shares, 0.0)
        shares = _best_mixture(np.array(kept).T, shares, _MIXTURE_SHARE * gap)
    return _relaxed(current, mixture(bases, shares), gap, steps, reason)


def frank_wolfe(problem: Problem, *, tol: float, max_iter: int) -> Relaxed:
    """Maximise Nash welfare as the authors do: from ``(r / n) I``, one line search per PCA.

    Arguments as in `nash_columns`.
    """
    k, r, n = problem.oracle.n_groups, problem.n_components, problem.oracle.n_features
    projector = np.eye(n) * (r / n)
    current = np.einsum("kii->k", problem.oracle.matrices) * (r / n)
    reason, steps = "max_iter reached", 0
    while steps < max_iter:
        steps += 1
        basis, found, gap = _best_response(problem, current)
        if gap <= k * tol:
            reason = "gap closed"
            break
        length = _line_search(current, found - current)
        projector += length * (basis @ basis.T - projector)
        current = current + length * (found - current)
    return _relaxed(current, projector, gap, steps, reason)


def _best_response(problem: Problem, current: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Return the weighted PCA at the current variances, what it keeps, and the gap it leaves."""
    r, weights = problem.n_components, 1 / current
    basis = problem.oracle.leading(weights, r).vectors[:, :r]
    found = problem.oracle.retained_variance(basis)
    return basis, found, float(weights @ found) - len(current)


def _relaxed(
    current: FloatArray, projector: FloatArray, gap: float, steps: int, reason: str
) -> Relaxed:
    """Return the point with its bound, from the variances it keeps and the gap there."""
    weights = 1 / current
    # In the library's sense every criterion is made small: the bound is that of minus the mean.
    bound = -geometric_mean(current) * float(np.exp(gap / len(current)))
    return Relaxed(projector, weights / weights.sum(), bound, steps, reason)


def _line_search(current: FloatArray, change: FloatArray, longest: float = 1.0) -> float:
    """Return the step in [0, longest] with the largest sum of logarithms."""

    def slope(length: float) -> float:
        return float(np.sum(change / (current + length * change)))

    if slope(longest) >= 0:
        return longest
    return float(scipy.optimize.brentq(slope, 0.0, longest, xtol=_STEP_TOL))


def _best_mixture(kept: FloatArray, shares: FloatArray, tol: float) -> FloatArray:
    """Mix columns of (k, j) variances for the largest sum of logarithms, by pairwise steps."""
    k = len(kept)
    for _ in range(_MIXTURE_STEPS):
        current = kept @ shares
        slopes = (1 / current) @ kept
        towards = int(np.argmax(slopes))
        used = np.flatnonzero(shares > 0)
        away = int(used[np.argmin(slopes[used])])
        if slopes[towards] - k <= tol and slopes[towards] - slopes[away] <= tol:
            break
        # Weight moves from one column to another. A plain step would shrink all the others too,
        # and zigzag.
        length = _line_search(current, kept[:, towards] - kept[:, away], float(shares[away]))
        shares = shares.copy()
        shares[towards] += length
        shares[away] -= length
    return np.asarray(shares / shares.sum())
