"""From a relaxed projector to one of small rank, and to an honest linear map."""

from __future__ import annotations

import numpy as np
import scipy.optimize

from fairpca._linalg import FloatArray, symmetric
from fairpca.covariances.eigenpairs import EigenPairs, full_pairs
from fairpca.methods.base import Found, matrices
from fairpca.methods.relaxation import Relaxed, relaxed_losses
from fairpca.solvers.problem import Problem

# Eigenvalues of a projector nearer than this to 0 or 1 count as 0 or 1.
_SNAP = 1e-9


def spectrum(projector: FloatArray) -> EigenPairs:
    """Return the eigenpairs of a relaxed projector, eigenvalues clipped to [0, 1]."""
    pairs = full_pairs(symmetric(projector))
    return EigenPairs(np.clip(pairs.values, 0.0, 1.0), pairs.vectors)


def numerical_rank(projector: FloatArray, *, tol: float = 1e-6) -> int:
    """Number of eigenvalues above `tol`."""
    return int(np.count_nonzero(spectrum(projector).values > tol))


def rank_bound(n_components: int, n_groups: int) -> int:
    """Largest rank of an extreme optimal point of the relaxation (Tantipongpipat et al., 2019).

    >>> [rank_bound(5, k) for k in (2, 3, 5, 6, 9, 10, 14)]
    [5, 6, 6, 7, 7, 8, 8]
    """
    return n_components + int(np.floor(np.sqrt(2 * n_groups + 0.25) - 1.5))


def square_root_map(projector: FloatArray) -> FloatArray:
    """Return ``I - (I - P)^(1/2)``: the map whose mean squared error is that of P relaxed.

    ``I - P`` is not idempotent, so ``X P`` itself would report an error that is too small.
    """
    pairs = spectrum(projector)
    factors = 1 - np.sqrt(1 - pairs.values)
    return symmetric((pairs.vectors * factors) @ pairs.vectors.T)


def vertex_of_spectrum(problem: Problem, projector: FloatArray) -> FloatArray:
    """Keep the eigenvectors, choose the eigenvalues by a linear program; return a vertex.

    At most k - 1 coordinates beyond r stay positive, so the rank is at most r + k - 1.
    """
    pairs = spectrum(projector)
    k, n = problem.oracle.n_groups, len(pairs.values)
    unit = problem.oracle.scale or 1.0
    gains = np.einsum("nj,knj->kj", pairs.vectors, matrices(problem) @ pairs.vectors) / unit
    found = scipy.optimize.linprog(
        np.append(np.zeros(n), 1.0),
        A_ub=np.vstack(
            [np.hstack([-gains, -np.ones((k, 1))]), np.append(np.ones(n), 0.0)],
        ),
        b_ub=np.append(-problem.offsets / unit, float(problem.n_components)),
        bounds=[(0, 1)] * n + [(None, None)],
        # The dual simplex ends in a vertex; an interior point would keep every coordinate.
        method="highs-ds",
    )
    if found.x is None:  # pragma: no cover - the program is feasible and bounded
        raise RuntimeError(f"the linear program over the spectrum failed: {found.message}")
    values = np.clip(found.x[:n], 0.0, 1.0)
    return symmetric((pairs.vectors * values) @ pairs.vectors.T)


def extreme_point(problem: Problem, projector: FloatArray) -> FloatArray:
    """Move a relaxed projector to an extreme point without a loss to any group.

    While the fractional eigenspace is large enough, some direction changes neither the trace nor
    the value of groups 2..k; along it, on the side where group 1 does not lose, some eigenvalue
    reaches 0 or 1.
    """
    covariances = matrices(problem)
    current = projector
    # Every round fixes at least one more eigenvalue.
    for _ in range(len(projector) + 1):
        pairs = spectrum(current)
        fractional = (pairs.values > _SNAP) & (pairs.values < 1 - _SNAP)
        basis = pairs.vectors[:, fractional]
        inner = symmetric(basis.T @ (covariances @ basis))
        direction = _free_direction(inner)
        if direction is None:
            break
        values = pairs.values[fractional]
        length = _distance_to_boundary(values, direction)
        moved = np.diag(values) + length * direction
        fixed = np.where(fractional, 0.0, np.round(pairs.values))
        current = symmetric((pairs.vectors * fixed) @ pairs.vectors.T + basis @ moved @ basis.T)
    return _snapped(current)


def _free_direction(inner: FloatArray) -> FloatArray | None:
    """Return a symmetric matrix that only group 1 notices, and to its advantage."""
    t = inner.shape[-1]
    rows, columns = np.triu_indices(t)
    if len(rows) <= len(inner):
        return None
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
    steps = [1 / slope for slope in (-down, up) if slope > 0]
    return min(steps)


def _snapped(projector: FloatArray) -> FloatArray:
    pairs = spectrum(projector)
    values = pairs.values
    values = np.where(values < _SNAP, 0.0, np.where(values > 1 - _SNAP, 1.0, values))
    return symmetric((pairs.vectors * values) @ pairs.vectors.T)


def rounded(problem: Problem, relaxed: Relaxed, projector: FloatArray) -> Found:
    """Return the leading eigenvectors of a projector, with what was relaxed kept beside them."""
    own = {
        "projector_": projector,
        "relaxed_losses_": relaxed_losses(problem, projector),
        "rank_": numerical_rank(projector),
    }
    basis = spectrum(projector).vectors[:, : problem.n_components]
    return Found(
        basis, relaxed.weights, relaxed.lower_bound, relaxed.n_iter, relaxed.stop_reason, own
    )
