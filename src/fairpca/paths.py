"""Every number of components at once, nested sequences, and the curves of the paper.

`component_path` solves every rank by itself. A nested sequence has components whose leading j are
the answer of rank j, following M. Matakos, M. Ciaperoni and H. Mannila (2025), who add one fair
component after the other; the offsets carry the debts of earlier steps. It does not reach the free
optimum of every rank; the price is reported. `joint_numerical_range` is Algorithm 1 of the paper,
`phi` its dual function.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairpca._arrays import FloatArray, IntArray, complement, orthonormal
from fairpca._check import check_at_least, check_choice, check_covariances, check_rank, is_share
from fairpca.covariances.dense import DenseOracle, leading_pairs
from fairpca.covariances.sources import CovarianceSource, MomentCovariances
from fairpca.fitting import Fit, Ranks, Settings, fit_source, pose
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.groups import Label, Rows
from fairpca.solvers import solve_problem
from fairpca.solvers.problem import Problem
from fairpca.solvers.solution import Certificate


@dataclass(frozen=True)
class ComponentPath:
    """What every rank from 1 to R offers every group.

    Attributes
    ----------
    n_components : ndarray of shape (R,)
    losses, errors, shares, weights : ndarray of shape (R, k)
        Loss against the group's own PCA, mean squared error, share of variance kept, dual weight.
    certificates : tuple of Certificate
    groups : tuple
        Labels, in the order of the columns.
    shrinkage : ndarray of shape (R, k)
        How far each group's matrix was moved towards what all groups share.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca import GroupMoments, component_path
    >>> X = np.array([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> path = component_path(GroupMoments.from_array(X, ["a", "a", "b", "b"]))
    >>> path.groups, path.n_components.tolist()
    (('a', 'b'), [1, 2])
    >>> path.losses.round(2).tolist()
    [[0.8, 0.8], [0.0, 0.0]]
    """

    n_components: IntArray
    losses: FloatArray
    errors: FloatArray
    shares: FloatArray
    weights: FloatArray
    certificates: tuple[Certificate, ...]
    groups: tuple[Label, ...]
    shrinkage: FloatArray


def component_path(
    moments: GroupMoments | list[GroupMoments],
    max_components: int | None = None,
    *,
    criterion: str = "loss",
    center: str = "global",
    shrinkage: float | str | None = None,
    max_harm: float | None = None,
    group_by: str = "intersection",
    tol: float = 1e-10,
    max_iter: int = 200,
    random_state: int = 0,
) -> ComponentPath:
    """Solve every rank from 1 to `max_components`, each starting from its neighbour.

    Parameters
    ----------
    moments : GroupMoments, or a list of them, one a fold
    max_components : int, optional
        Largest rank; all columns by default.
    criterion, center, shrinkage, max_harm, group_by, tol, max_iter, random_state
        As in `FairPCA`.

    Returns
    -------
    ComponentPath

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca import GroupMoments, component_path
    >>> rng = np.random.default_rng(0)
    >>> moments = GroupMoments.from_array(rng.normal(size=(50, 4)), ["a", "b"] * 25)
    >>> path = component_path(moments, 3)
    >>> path.losses.shape, all(c.optimal for c in path.certificates)
    ((3, 2), True)
    """
    settings = Settings(criterion, center, shrinkage, max_harm, tol, max_iter, random_state)
    settings.check()
    check_choice("group_by", group_by, ("intersection", "marginal"))
    source = MomentCovariances(moments, group_by, center)
    n = source.groups.mean.shape[1]
    largest = n if max_components is None else max_components
    check_at_least("max_components", largest, 1)
    check_rank(largest, n)
    ranks = Ranks(source, settings, largest)
    fits = [ranks.solve(1)]
    for r in range(2, largest + 1):
        fits.append(ranks.solve(r, fits[-1].solution.weights))
    return ComponentPath(
        np.arange(1, largest + 1),
        np.array([fit.losses for fit in fits]),
        np.array([source.errors(fit.basis, fit.retained) for fit in fits]),
        np.array([source.groups.shares(fit.retained) for fit in fits]),
        np.array([fit.solution.weights for fit in fits]),
        tuple(fit.solution.certificate for fit in fits),
        source.groups.labels,
        np.array([fit.shrinkage for fit in fits]),
    )


def fit_nested(
    source: CovarianceSource, n_components: Any, settings: Settings
) -> tuple[Fit, FloatArray, FloatArray]:
    """Solve for a nested sequence of components.

    Each component is the best next one given those before, carrying the debts of earlier steps. A
    share as `n_components` may take more of a sequence than of a free subspace; components are
    added until it is kept.

    Returns
    -------
    fit : Fit
        The last rank; the leading j columns of its basis are the answer for every j up to r. Its
        certificate compares with the free optimum of that rank.
    values, bounds : ndarray of shape (r,)
        Worst value at every rank, and the lower bound of the free problem of that rank.
    """
    if settings.max_harm is not None:
        raise ValueError("max_harm= is about one subspace; leave it out, or nested=False.")
    last = fit_source(source, n_components, settings)
    r = last.basis.shape[1]
    # A sequence is about one set of matrices: with "auto", those of the last rank.
    ranks = Ranks(source, replace(settings, shrinkage=last.shrinkage), r)
    matrices, columns = ranks.matrices(last.shrinkage), np.empty((len(last.basis), 0))
    values: list[float] = []
    bounds: list[float] = []
    while True:
        j = columns.shape[1] + 1
        # Of the ranks before the last only the dual's bound is shown; a search takes seconds.
        alone = last if j == r else ranks.solve(j, exact_search=False)
        bounds.append(alone.solution.certificate.lower_bound)
        problem, free = matrices.problem(j, ranks.criterion), complement(columns)
        offsets = problem.offsets - matrices.oracle.retained_variance(columns)
        # Rounding is that of the whole problem, however little variance is left.
        inner = DenseOracle(matrices.oracle.project(free), matrices.oracle.scale)
        step = solve_problem(Problem(inner, offsets, 1), exact_search=False, **ranks.options)
        best = step.components.T
        columns = orthonormal(np.hstack([columns, free @ best]))
        found = replace(
            last.solution,
            components=np.ascontiguousarray(columns.T),
            losses=problem.losses(columns),
            stop_reason="nested",
        )
        values.append(float(found.losses.max()))
        fit = ranks.described(found, j, last.shrinkage)
        enough = not is_share(n_components) or ranks.keeps(fit, float(n_components))
        if j >= r and (enough or j == ranks.n_features):
            break
    proof = problem.certificate(bounds[-1], values[-1])
    proof = replace(proof, about=last.solution.certificate.about)
    found = replace(found, certificate=proof)
    return replace(fit, solution=found), np.array(values), np.array(bounds)


@dataclass(frozen=True)
class JointNumericalRange:
    """Support points of ``{(Tr U.T S U, Tr U.T T U) : U orthonormal, r columns}``.

    Attributes
    ----------
    angles : ndarray of shape (l,)
        Directions, increasing in [0, 2 pi).
    points : ndarray of shape (l, 2)
        The point of the range furthest in each direction; in order, the corners of its hull.
    n_components : int
    """

    angles: FloatArray
    points: FloatArray
    n_components: int

    @property
    def outline(self) -> FloatArray:
        """The points closed into a polygon."""
        return np.vstack([self.points, self.points[:1]])

    @property
    def area(self) -> float:
        """Area of the inscribed polygon."""
        x, y = self.points.T
        return float(0.5 * abs(x @ np.roll(y, -1) - y @ np.roll(x, -1)))


def joint_numerical_range(
    S: Rows,
    T: Rows,
    n_components: int,
    *,
    n_angles: int = 64,
    tol: float = 1e-3,
    max_angles: int = 2048,
) -> JointNumericalRange:
    """Sample the boundary of the joint numerical range of two symmetric matrices.

    Starts from equally spaced directions and adds directions where two neighbouring support
    points and their tangents leave more than `tol` of the diameter undetermined, so corners and
    strongly bent stretches are resolved and flat ones are not oversampled.

    Parameters
    ----------
    S, T : array-like of shape (n, n)
        Any two symmetric matrices. For Fair PCA pass the loss matrices
        ``(c_i / r) I - S_i``: the optimum is where the range meets the diagonal.
    n_components : int
        Rank r.
    n_angles : int, default=64
        Equally spaced directions to start with, at least 3.
    tol : float, default=1e-3
        Distance to the true boundary relative to the diameter; 0 switches refinement off.
    max_angles : int, default=2048
        Most directions in all.

    Returns
    -------
    JointNumericalRange

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca import joint_numerical_range
    >>> w = joint_numerical_range(np.diag([1.0, -1.0]), [[0.0, 1.0], [1.0, 0.0]], 1)
    >>> bool(np.allclose(np.hypot(*w.points.T), 1.0))  # two real directions: the unit circle
    True
    """
    matrices = check_covariances([S, T])
    check_rank(n_components, matrices.shape[1])
    # Two directions have their support points on one line.
    check_at_least("n_angles", n_angles, 3)
    check_at_least("max_angles", max_angles, 3)
    if not tol >= 0:
        raise ValueError(f"tol={tol!r} must be at least 0.")

    def support(angle: float) -> FloatArray:
        direction = np.cos(angle) * matrices[0] + np.sin(angle) * matrices[1]
        basis = leading_pairs(direction, n_components).vectors
        return np.asarray(np.einsum("nr,knm,mr->k", basis, matrices, basis, optimize=True))

    angles = 2 * np.pi * np.arange(n_angles) / n_angles
    points = np.array([support(angle) for angle in angles])
    # A range of one point has diameter zero, and nothing to refine.
    diameter = float(np.ptp(points, axis=0).max())
    while tol > 0 and diameter > 0 and len(angles) < max_angles:
        fresh = _undetermined(angles, points, tol * diameter)[: max_angles - len(angles)]
        if not len(fresh):
            break
        angles = np.concatenate([angles, fresh])
        points = np.vstack([points, [support(angle) for angle in fresh]])
        order = np.argsort(angles)
        angles, points = angles[order], points[order]
    return JointNumericalRange(angles, points, int(n_components))


def _undetermined(angles: FloatArray, points: FloatArray, limit: float) -> FloatArray:
    """Return midpoints of neighbouring angles whose tangents meet further than `limit` off."""
    after = np.roll(angles, -1)
    # The last direction's neighbour is the first one, a turn further on.
    after[-1] += 2 * np.pi
    chord = np.roll(points, -1, axis=0) - points
    length = np.hypot(*chord.T)
    # Triangle over the chord between the two tangents: its height bounds what is unknown.
    outward = np.arctan2(-chord[:, 0], chord[:, 1])
    left = np.abs((outward - angles + np.pi) % (2 * np.pi) - np.pi)
    right = np.abs((after - outward + np.pi) % (2 * np.pi) - np.pi)
    # Tangents that coincide leave nothing unknown: the floor makes their height zero, not 0 / 0.
    width = np.sin(np.clip(left + right, 1e-300, np.pi))
    with np.errstate(divide="ignore", invalid="ignore"):
        height = length * np.sin(left) * np.sin(right) / width
    # An edge seen from two directions is a true edge of the hull: nothing is hidden behind it.
    # Directions a microradian apart are not split further: at a corner that would never end.
    todo = (height > limit) & (after - angles > 1e-6) & (length > limit)
    return np.asarray(0.5 * (angles + after)[todo] % (2 * np.pi))


def phi(covariances: Rows, n_components: int, t: Rows, *, criterion: str = "loss") -> FloatArray:
    """Evaluate the dual function, a lower bound on every projection's worst-group value.

    Parameters
    ----------
    covariances : array-like of shape (k, n, n)
    n_components : int
    t : array-like
        Two groups: weights of the first group, any shape, the result has the same shape.
        Otherwise points of the simplex, shape (..., k), the result has shape (...).
    criterion : str, default="loss"

    Returns
    -------
    ndarray

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca import phi
    >>> phi([np.diag([1.0, 0.0]), np.diag([0.0, 1.0])], 1, [0.0, 0.5, 1.0]).tolist()
    [0.0, 0.5, 0.0]
    """
    matrices = check_covariances(covariances)
    check_rank(n_components, matrices.shape[1])
    problem = pose(matrices, int(n_components), criterion)
    k = len(matrices)
    points = np.asarray(t, dtype=float)
    if k == 2:
        points = np.stack([points, 1 - points], axis=-1)
    on_simplex = points.shape[-1:] == (k,) and np.all(points >= 0)
    if not on_simplex or not np.allclose(points.sum(axis=-1), 1):
        raise ValueError(
            f"t={t!r} must hold weights: numbers in [0, 1] for two groups, otherwise {k} "
            "non-negative numbers that sum to one along the last axis."
        )
    flat = points.reshape(-1, k)
    values = [problem.phi(row, problem.oracle.leading(row, problem.n_components)) for row in flat]
    return np.array(values).reshape(points.shape[:-1])
