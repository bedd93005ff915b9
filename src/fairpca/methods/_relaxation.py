"""The relaxation 0 <= P <= I, Tr P = r of the min-max problem: three solvers, and the way back.

The relaxed optimum is the dual optimum, so each solver returns a projector, weights and a value of
phi that bounds every basis. Multiplicative weights are what Samadi et al. (2018) run; column
generation is exact and needs only weighted PCA; the semidefinite program is the independent check
for small n. The second half of the module moves a relaxed projector to one of small rank and to a
linear map that has the relaxed losses.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.optimize
import scipy.special

from fairpca._checks import require
from fairpca._linalg import FloatArray, symmetric
from fairpca.covariances.eigenpairs import EigenPairs, full_pairs
from fairpca.methods._base import MinMaxFound, phi_at
from fairpca.solvers.problem import Problem

# Feasibility tolerance asked of the linear program, the smallest that HiGHS accepts. Its default,
# 1e-7, would be the accuracy of the weights and of the bound.
_LP_TOLERANCE = 1e-10
# What the program then achieves, in units of the largest variance. Waiting for more stalls: the
# same columns come back.
_LP_ACCURACY = 1e-9
# Eigenvalues of a projector nearer than this to 0 or 1 count as 0 or 1: far above the rounding of
# an eigenvalue, far below what a loss would show.
_SNAP = 1e-9
# Eigenvalues above this count for `rank_`, as the estimators document. Interior-point solvers
# leave small positive eigenvalues where the optimum has zeros.
_RANK_TOL = 1e-6


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
        Iterations, in the solver's own unit.
    stop_reason : str
        Why the solver stopped, in words.
    """

    projector: FloatArray
    weights: FloatArray
    lower_bound: float
    n_iter: int
    stop_reason: str


def import_cvxpy() -> Any:
    """Return the module cvxpy, or say how to get it."""
    return require("cvxpy", extra="methods", purpose="A semidefinite program")


def relaxed_losses(problem: Problem, projector: FloatArray) -> FloatArray:
    """Return ``c_i - <S_i, P>`` for every group."""
    kept = np.einsum("kij,ij->k", problem.oracle.matrices, projector)
    return np.asarray(problem.offsets - kept)


def mixture(bases: list[FloatArray], shares: FloatArray) -> FloatArray:
    """Return the sum of the bases' projectors, each times its share."""
    # Columns times the root of the share, so that one product forms the sum.
    scaled = [basis * np.sqrt(share) for basis, share in zip(bases, shares, strict=True)]
    columns = np.hstack(scaled)
    return symmetric(columns @ columns.T)


def multiplicative_weights(
    problem: Problem, *, eta: float, max_iter: int, scale_losses: bool = False
) -> Relaxed:
    """Run the authors' loop; return the better of the average and the last projector.

    Parameters
    ----------
    problem : Problem
        Posed on explicit matrices.
    eta : float
        Learning rate, of the losses as they are unless `scale_losses`.
    max_iter : int
        Weighted PCAs.
    scale_losses : bool, default=False
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


def column_generation(problem: Problem, *, tol: float = 1e-9, max_iter: int = 500) -> Relaxed:
    """Solve the relaxation by a linear program over the projectors of weighted PCAs.

    The program's dual weights pose the next weighted PCA, whose value is a lower bound. A second
    PCA half way to the best weights so far keeps the weights from jumping between corners, where
    three or more groups would otherwise need hundreds of steps.

    Parameters
    ----------
    problem : Problem
        Posed on explicit matrices.
    tol : float, default=1e-9
        Relative gap between mixture and bound at which to stop.
    max_iter : int, default=500
        Linear programs.
    """
    k, r, scale = problem.oracle.n_groups, problem.n_components, problem.oracle.scale
    bases: list[FloatArray] = []
    losses: list[FloatArray] = []
    best, bound = np.empty(0), -np.inf

    def price(weights: FloatArray) -> None:
        """Add the best basis for these weights; keep them if their phi is the largest."""
        nonlocal best, bound
        pairs = problem.oracle.leading(weights, r)
        bases.append(pairs.vectors[:, :r])
        losses.append(problem.losses(bases[-1]))
        value = problem.phi(weights, pairs)
        if value > bound:
            best, bound = weights, value

    for row in (*np.eye(k), np.full(k, 1 / k)):
        price(row)
    reason, steps = "max_iter reached", 0
    while steps < max_iter:
        steps += 1
        value, shares, weights = least_worst(np.array(losses).T, total=1, unit=scale)
        if problem.certificate(bound, value).gap <= tol:
            reason = "gap closed"
            break
        before = bound
        price(weights)
        if k > 2:
            price(0.5 * (weights + best))
        if value - bound <= _LP_ACCURACY * scale and bound <= before:
            reason = "linear program at its accuracy"
            break
    # Columns priced in the last round have no share yet.
    _, shares, _ = least_worst(np.array(losses).T, total=1, unit=scale)
    return Relaxed(mixture(bases, shares / shares.sum()), best, bound, steps, reason)


def least_worst(
    losses: FloatArray, *, total: int, unit: float, integer: bool = False
) -> tuple[float, FloatArray, FloatArray]:
    """Mix columns of losses so that the worst group's sum is least.

    Parameters
    ----------
    losses : ndarray of shape (k, j)
        What every column adds to every group.
    total : int
        Sum of the shares; each is between zero and one.
    unit : float
        Magnitude of the losses: the tolerances of the program are absolute.
    integer : bool, default=False
        Whether the shares are zero or one, which makes it an integer program.

    Returns
    -------
    value : float
        The worst sum.
    shares : ndarray of shape (j,)
        A vertex: at most k of them are neither zero nor one.
    weights : ndarray of shape (k,)
        The dual weights of the groups; uniform for an integer program, which has none.
    """
    k, j = losses.shape
    names = ("primal_feasibility_tolerance", "dual_feasibility_tolerance")
    options: Any = dict.fromkeys(names, _LP_TOLERANCE)
    # The dual simplex ends in a vertex; an interior point would keep every column.
    method: Any = "highs-ds"
    if integer:
        # The default gap would stop 0.01 % short of the best choice.
        options["mip_rel_gap"], method = 0.0, "highs"
    found = scipy.optimize.linprog(
        np.append(np.zeros(j), 1.0),
        A_ub=np.hstack([losses / (unit or 1.0), -np.ones((k, 1))]),
        b_ub=np.zeros(k),
        A_eq=np.append(np.ones(j), 0.0)[None],
        b_eq=[float(total)],
        bounds=[(0, 1)] * j + [(None, None)],
        method=method,
        integrality=np.append(np.full(j, int(integer)), 0),
        options=options,
    )
    if found.x is None:  # pragma: no cover - the program is feasible and bounded
        raise RuntimeError(f"the program over columns of losses failed: {found.message}")
    # Within its tolerance the program returns slightly negative numbers, whose roots do not exist.
    shares = np.clip(found.x[:j], 0.0, 1.0)
    weights = np.full(k, 1.0)
    if not integer:
        weights = np.maximum(-np.asarray(found.ineqlin.marginals), 0.0)
    return float((losses @ shares).max()), shares, weights / weights.sum()


def semidefinite_program(problem: Problem, *, solver: str = "CLARABEL") -> Relaxed:
    """Solve the relaxation as a semidefinite program; wise for up to about 60 features.

    Parameters
    ----------
    problem : Problem
        Posed on explicit matrices.
    solver : str, default="CLARABEL"
        A solver that cvxpy knows.

    Raises
    ------
    RuntimeError
        If the solver gives up.
    """
    cvxpy = import_cvxpy()
    # In units of the largest variance: the solvers' tolerances are absolute.
    n, r, unit = problem.oracle.n_features, problem.n_components, problem.oracle.scale or 1.0
    projector, worst = cvxpy.Variable((n, n), PSD=True), cvxpy.Variable()
    served = [
        offset / unit - cvxpy.trace((matrix / unit) @ projector) <= worst
        for offset, matrix in zip(problem.offsets, problem.oracle.matrices, strict=True)
    ]
    program = cvxpy.Problem(
        cvxpy.Minimize(worst), [*served, np.eye(n) - projector >> 0, cvxpy.trace(projector) == r]
    )
    program.solve(solver=solver)
    if projector.value is None:
        raise RuntimeError(f"{solver} did not solve the relaxation: {program.status}.")
    weights = np.maximum([float(constraint.dual_value) for constraint in served], 0.0)
    weights /= weights.sum()
    # The bound is recomputed from the weights: the solver's own value is right to its tolerance
    # only and may lie above the optimum.
    return Relaxed(
        symmetric(np.asarray(projector.value)),
        weights,
        phi_at(problem, weights),
        int(program.solver_stats.num_iters or 0),
        f"{solver}: {program.status}",
    )


def solve_relaxation(
    problem: Problem, solver: str, *, tol: float, eta: float, max_iter: int, **mw: Any
) -> Relaxed:
    """Solve the relaxation by the solver with this name.

    Parameters
    ----------
    problem : Problem
        Posed on explicit matrices.
    solver : {"mw", "columns", "sdp"}
        Multiplicative weights, column generation or the semidefinite program.
    tol, eta, max_iter : float, float, int
        As in those functions, as far as the solver has them.
    **mw
        Further arguments of `multiplicative_weights`.
    """
    if solver == "sdp":
        return semidefinite_program(problem)
    if solver == "columns":
        return column_generation(problem, tol=tol, max_iter=max_iter)
    return multiplicative_weights(problem, eta=eta, max_iter=max_iter, **mw)


def spectrum(projector: FloatArray) -> EigenPairs:
    """Return the eigenpairs of a relaxed projector, eigenvalues clipped to [0, 1]."""
    pairs = full_pairs(symmetric(projector))
    return EigenPairs(np.clip(pairs.values, 0.0, 1.0), pairs.vectors)


def numerical_rank(projector: FloatArray, *, tol: float = _RANK_TOL) -> int:
    """Number of eigenvalues above `tol`."""
    return int(np.count_nonzero(spectrum(projector).values > tol))


def rank_bound(n_components: int, n_groups: int) -> int:
    """Largest rank of an extreme optimal point of the relaxation (Tantipongpipat et al., 2019).

    >>> [rank_bound(5, k) for k in (2, 3, 5, 6, 9, 10, 14)]
    [5, 6, 6, 7, 7, 8, 8]
    """
    return n_components + int(np.floor(np.sqrt(2 * n_groups + 0.25) - 1.5))


def from_spectrum(vectors: FloatArray, values: FloatArray) -> FloatArray:
    """Return the symmetric matrix with these eigenvectors (columns) and eigenvalues."""
    return symmetric((vectors * values) @ vectors.T)


def square_root_map(projector: FloatArray) -> FloatArray:
    """Return ``I - (I - P)^(1/2)``: the map whose mean squared error is that of P relaxed.

    ``I - P`` is not idempotent, so ``X P`` itself would report an error that is too small.
    """
    pairs = spectrum(projector)
    return from_spectrum(pairs.vectors, 1 - np.sqrt(1 - pairs.values))


def vertex_of_spectrum(problem: Problem, projector: FloatArray) -> FloatArray:
    """Keep the eigenvectors, choose the eigenvalues by a linear program; return a vertex.

    At most k - 1 coordinates beyond r stay positive, so the rank is at most r + k - 1.
    """
    pairs, r = spectrum(projector), problem.n_components
    images = problem.oracle.matrices @ pairs.vectors
    gains = np.einsum("nj,knj->kj", pairs.vectors, images)
    # The shares add up to r, so the offsets can be spread over the columns.
    losses = problem.offsets[:, None] / r - gains
    _, values, _ = least_worst(losses, total=r, unit=problem.oracle.scale)
    return from_spectrum(pairs.vectors, values)


def extreme_point(problem: Problem, projector: FloatArray) -> FloatArray:
    """Move a relaxed projector to an extreme point without a loss to any group.

    While the fractional eigenspace is large enough, some direction changes neither the trace nor
    the value of groups 2..k; along it, on the side where group 1 does not lose, some eigenvalue
    reaches 0 or 1.
    """
    current = projector
    # Every round fixes at least one more eigenvalue.
    for _ in range(len(projector) + 1):
        pairs = spectrum(current)
        fractional = (pairs.values > _SNAP) & (pairs.values < 1 - _SNAP)
        basis = pairs.vectors[:, fractional]
        direction = _free_direction(symmetric(basis.T @ (problem.oracle.matrices @ basis)))
        if direction is None:
            break
        values = pairs.values[fractional]
        moved = np.diag(values) + _distance_to_boundary(values, direction) * direction
        # What is as good as fixed becomes exactly 0 or 1 here, so that it cannot drift back.
        fixed = np.where(fractional, 0.0, np.round(pairs.values))
        current = from_spectrum(pairs.vectors, fixed) + symmetric(basis @ moved @ basis.T)
    pairs = spectrum(current)
    near_one = np.where(pairs.values > 1 - _SNAP, 1.0, pairs.values)
    return from_spectrum(pairs.vectors, np.where(pairs.values < _SNAP, 0.0, near_one))


def _free_direction(inner: FloatArray) -> FloatArray | None:
    """Return a symmetric matrix that only group 1 notices, and to its advantage.

    None where the symmetric matrices have no more dimensions than there are conditions.
    """
    t = inner.shape[-1]
    rows, columns = np.triu_indices(t)
    if len(rows) <= len(inner):
        return None
    # Entries off the diagonal occur twice in the inner product of symmetric matrices.
    double = np.where(rows == columns, 1.0, 2.0)
    functionals = np.vstack([inner[1:, rows, columns] * double, (rows == columns).astype(float)])
    # Rows in units of their own size, so that a group with small variance counts as well.
    sizes = np.linalg.norm(functionals, axis=1, keepdims=True)
    _, _, vt = np.linalg.svd(functionals / np.where(sizes > 0, sizes, 1.0))
    direction = np.zeros((t, t))
    direction[rows, columns] = direction[columns, rows] = vt[-1]
    gain = float(np.sum(inner[0] * direction))
    return -direction if gain < 0 else direction


def _distance_to_boundary(values: FloatArray, direction: FloatArray) -> float:
    """Return the largest step for which ``diag(values) + step * direction`` stays in [0, I]."""
    low, high = np.sqrt(values), np.sqrt(1 - values)
    down = float(np.linalg.eigvalsh(direction / np.outer(low, low))[0])
    up = float(np.linalg.eigvalsh(direction / np.outer(high, high))[-1])
    return min(1 / slope for slope in (-down, up) if slope > 0)


def rounded(problem: Problem, relaxed: Relaxed, projector: FloatArray, **own: Any) -> MinMaxFound:
    """Return the leading eigenvectors of a projector, with what was relaxed kept beside them.

    Parameters
    ----------
    problem : Problem
        Posed on explicit matrices.
    relaxed : Relaxed
        The answer of one of the solvers.
    projector : ndarray of shape (n, n)
        That answer's projector, or what it was moved to.
    **own
        Further fitted attributes of the method.
    """
    return MinMaxFound(
        basis=spectrum(projector).vectors[:, : problem.n_components],
        weights=relaxed.weights,
        lower_bound=relaxed.lower_bound,
        n_iter=relaxed.n_iter,
        stop_reason=relaxed.stop_reason,
        own={
            "projector_": projector,
            "relaxed_losses_": relaxed_losses(problem, projector),
            "rank_": numerical_rank(projector),
            **own,
        },
    )
