"""The convex relaxation 0 <= P <= I, Tr P = r of the min-max problem, solved three ways.

The relaxed optimum is the dual optimum, so each way returns a projector, weights and a value of
phi that bounds every basis. Multiplicative weights are what the authors run; column generation is
exact and needs only weighted PCA; the semidefinite program is the independent check for small n.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import scipy.optimize
import scipy.special

from fairpca._linalg import FloatArray, symmetric
from fairpca.methods.base import import_cvxpy, matrices, phi_at
from fairpca.solvers.problem import Problem

# The linear program's own accuracy, in units of the largest variance; asking for more stalls.
_LP_ACCURACY = 1e-9


@dataclass(frozen=True)
class Relaxed:
    """A point of the relaxation and a bound.

    Attributes
    ----------
    projector : ndarray of shape (n, n)
        Symmetric, eigenvalues in [0, 1], trace r.
    weights : ndarray of shape (k,)
        A point of the simplex.
    lower_bound : float
        phi there, or the best phi seen.
    n_iter : int
    stop_reason : str
    """

    projector: FloatArray
    weights: FloatArray
    lower_bound: float
    n_iter: int
    stop_reason: str


def relaxed_losses(problem: Problem, projector: FloatArray) -> FloatArray:
    """Return ``c_i - <S_i, P>`` for every group."""
    return np.asarray(problem.offsets - np.einsum("kij,ij->k", matrices(problem), projector))


def multiplicative_weights(
    problem: Problem, *, eta: float, max_iter: int, scale_losses: bool = False
) -> Relaxed:
    """Run the authors' loop; return the better of the average and the last projector.

    Parameters
    ----------
    problem : Problem
    eta : float
        Learning rate, of the losses as they are unless `scale_losses`.
    max_iter : int
        Weighted PCAs.
    scale_losses : bool
        Divide losses by the largest offset, so that `eta` means the same in any unit.
    """
    k, r = problem.oracle.n_groups, problem.n_components
    unit = float(np.abs(problem.offsets).max()) if scale_losses else 1.0
    log_weights = np.zeros(k)
    average = np.zeros((problem.oracle.n_features,) * 2)
    bound, best_weights = -np.inf, np.full(k, 1 / k)
    for _ in range(max_iter):
        # The softmax subtracts the largest exponent: exp(eta z) itself overflows.
        weights = scipy.special.softmax(log_weights)
        pairs = problem.oracle.leading(weights, r)
        basis = pairs.vectors[:, :r]
        last = basis @ basis.T
        average += last / max_iter
        losses = problem.losses(basis)
        value = problem.phi(weights, pairs)
        if value > bound:
            bound, best_weights = value, weights
        log_weights = log_weights + eta * losses / (unit or 1.0)
    better = average if relaxed_losses(problem, average).max() < losses.max() else last
    return Relaxed(symmetric(better), best_weights, bound, max_iter, "all iterations done")


@dataclass
class _Columns:
    """Bases met so far, with their losses, and the best bound."""

    problem: Problem
    bases: list[FloatArray] = field(default_factory=list)
    losses: list[FloatArray] = field(default_factory=list)
    weights: FloatArray = field(default_factory=lambda: np.empty(0))
    bound: float = -np.inf

    def price(self, weights: FloatArray) -> None:
        """Add the best basis for these weights; keep them if their phi is the largest."""
        r = self.problem.n_components
        pairs = self.problem.oracle.leading(weights, r)
        self.bases.append(pairs.vectors[:, :r])
        self.losses.append(self.problem.losses(self.bases[-1]))
        value = self.problem.phi(weights, pairs)
        if value > self.bound:
            self.bound, self.weights = value, weights

    def mix(self, shares: FloatArray) -> FloatArray:
        """Return the mixture of the projectors."""
        n = self.problem.oracle.n_features
        total = np.zeros((n, n))
        for share, basis in zip(shares, self.bases, strict=True):
            if share > 0:
                total += share * (basis @ basis.T)
        return symmetric(total)


def column_generation(problem: Problem, *, tol: float = 1e-9, max_iter: int = 500) -> Relaxed:
    """Solve the relaxation by a linear program over the projectors of weighted PCAs.

    The program's dual weights pose the next weighted PCA, whose value is a lower bound. A second
    PCA half way to the best weights so far keeps the weights from jumping between corners, where
    three or more groups would otherwise need hundreds of steps.

    Parameters
    ----------
    problem : Problem
    tol : float
        Relative gap between mixture and bound at which to stop.
    max_iter : int
        Linear programs.
    """
    k = problem.oracle.n_groups
    columns = _Columns(problem)
    for row in (*np.eye(k), np.full(k, 1 / k)):
        columns.price(row)
    reason, steps = "max_iter reached", 0
    while steps < max_iter:
        steps += 1
        value, shares, weights = _master(np.array(columns.losses).T, problem.oracle.scale)
        if problem.certificate(columns.bound, value).gap <= tol:
            reason = "gap closed"
            break
        before = columns.bound
        columns.price(weights)
        if k > 2:
            columns.price(0.5 * (weights + columns.weights))
        near = value - columns.bound <= _LP_ACCURACY * problem.oracle.scale
        if near and columns.bound <= before:
            reason = "linear program at its accuracy"
            break
    _, shares, _ = _master(np.array(columns.losses).T, problem.oracle.scale)
    return Relaxed(columns.mix(shares), columns.weights, columns.bound, steps, reason)


def _master(losses: FloatArray, scale: float) -> tuple[float, FloatArray, FloatArray]:
    """Mix columns of (k, j) losses for the least worst one; return it, shares and weights."""
    k, j = losses.shape
    unit = scale or 1.0
    found = scipy.optimize.linprog(
        np.append(np.zeros(j), 1.0),
        A_ub=np.hstack([losses / unit, -np.ones((k, 1))]),
        b_ub=np.zeros(k),
        A_eq=np.append(np.ones(j), 0.0)[None],
        b_eq=[1.0],
        bounds=[(0, None)] * j + [(None, None)],
        method="highs-ds",
        options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
    )
    if found.x is None:  # pragma: no cover - the program is feasible and bounded
        raise RuntimeError(f"the master program of column generation failed: {found.message}")
    shares = np.maximum(found.x[:j], 0.0)
    weights = np.maximum(-np.asarray(found.ineqlin.marginals), 0.0)
    shares /= shares.sum()
    return float((losses @ shares).max()), shares, weights / weights.sum()


def semidefinite_program(problem: Problem, *, solver: str = "CLARABEL") -> Relaxed:
    """Solve the relaxation as a semidefinite program; wise for up to about 60 features.

    Parameters
    ----------
    problem : Problem
    solver : str
        A solver that cvxpy knows.
    """
    cvxpy = import_cvxpy()
    n, r, unit = problem.oracle.n_features, problem.n_components, problem.oracle.scale or 1.0
    projector = cvxpy.Variable((n, n), PSD=True)
    worst = cvxpy.Variable()
    served = [
        offset / unit - cvxpy.trace((matrix / unit) @ projector) <= worst
        for offset, matrix in zip(problem.offsets, matrices(problem), strict=True)
    ]
    program = cvxpy.Problem(
        cvxpy.Minimize(worst), [*served, np.eye(n) - projector >> 0, cvxpy.trace(projector) == r]
    )
    program.solve(solver=solver)
    if projector.value is None:
        raise RuntimeError(f"{solver} did not solve the relaxation: {program.status}.")
    weights = np.maximum([float(constraint.dual_value) for constraint in served], 0.0)
    weights /= weights.sum()
    iterations = program.solver_stats.num_iters or 0
    return Relaxed(
        symmetric(np.asarray(projector.value)),
        weights,
        phi_at(problem, weights),
        int(iterations),
        f"{solver}: {program.status}",
    )
