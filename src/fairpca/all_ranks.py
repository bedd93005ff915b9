"""Every number of components at once: to choose one, or as a sequence that can be cut anywhere.

`component_path` solves every rank by itself. A nested sequence has components whose leading j are
the answer of rank j. Forward follows M. Matakos, M. Ciaperoni and H. Mannila (2025), who add one
fair component after the other; the offsets carry the debts of earlier steps. Backward drops one
after the other. Neither reaches the free optimum of every rank; the price is reported.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fairpca._checks import (
    check_at_least,
    check_choice,
    check_groups,
    check_rank,
    check_rows,
    is_share,
)
from fairpca._linalg import FloatArray, IntArray, complement, orthonormal
from fairpca.covariances.dense import DenseOracle
from fairpca.covariances.sources import CovarianceSource, MomentCovariances
from fairpca.fitting import Fit, Ranks, Settings, fit_source
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.label_codes import Label
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
    moments: GroupMoments,
    max_components: int | None = None,
    *,
    criterion: str = "loss",
    center: str = "global",
    shrinkage: float | str | None = None,
    group_by: str = "intersection",
    solver: str = "auto",
    tol: float = 1e-10,
    max_iter: int = 200,
    random_state: int = 0,
) -> ComponentPath:
    """Solve every rank from 1 to `max_components`, each starting from its neighbour.

    Parameters
    ----------
    moments : GroupMoments
    max_components : int, optional
        Largest rank; all columns by default.
    criterion, center, shrinkage, group_by, solver, tol, max_iter, random_state
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
    settings = Settings(criterion, shrinkage, solver, tol, max_iter, random_state)
    settings.check(center)
    check_choice("group_by", group_by, ("intersection", "marginal"))
    if not isinstance(moments, GroupMoments):
        raise ValueError(
            f"moments={type(moments).__name__}: pass GroupMoments, such as "
            "GroupMoments.from_array(X, sensitive_features)."
        )
    source = MomentCovariances(moments, group_by, center)
    check_rows(source.total.count, "component_path")
    check_groups(source.groups.labels, source.groups.weight)
    largest = moments.n_features if max_components is None else max_components
    check_at_least("max_components", largest, 1)
    check_rank(largest, moments.n_features)
    ranks = Ranks(source, settings, largest)
    fits: list[Any] = []
    start = None
    for r in range(1, largest + 1):
        fits.append(ranks.solve(r, start))
        start = fits[-1].solution.weights
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
    source: CovarianceSource, n_components: Any, settings: Settings, direction: str
) -> tuple[Fit, FloatArray, FloatArray]:
    """Solve for a nested sequence of components.

    Forward: each component is the best next one given those before (carrying the debts of earlier
    steps; after Matakos, Ciaperoni and Mannila 2025). Backward: the best subspace of the last
    rank, then the best one of rank r - 1 inside it, and so on. A share as `n_components` may take
    more of a sequence than of a free subspace; components are added until it is kept.

    Returns
    -------
    fit : Fit
        The last rank; the leading j columns of its basis are the answer for every j up to r. Its
        certificate compares with the free optimum of that rank.
    values, bounds : ndarray of shape (r,)
        Worst value at every rank, and the lower bound of the free problem of that rank.
    """
    share = float(n_components) if is_share(n_components) else 0.0
    begun = None
    while True:
        ranks, found = _sequence(source, n_components, settings, direction, begun)
        r = found[0].basis.shape[1]
        if ranks.keeps(found[0], share) or r == ranks.n_features:
            return found
        n_components = r + 1
        if direction == "forward" and not isinstance(settings.shrinkage, str):
            begun = found


def _sequence(
    source: CovarianceSource,
    n_components: Any,
    settings: Settings,
    direction: str,
    begun: tuple[Fit, FloatArray, FloatArray] | None,
) -> tuple[Ranks, tuple[Fit, FloatArray, FloatArray]]:
    """Return what solved the ranks, and a sequence of as many components as a subspace needs.

    `begun` is a shorter sequence that this one goes on with.
    """
    free = replace(settings, max_extra_components=0)
    last = fit_source(source, n_components, free)
    r = last.basis.shape[1]
    # A sequence is about one set of matrices: with "auto", those of the last rank.
    ranks = Ranks(source, replace(free, shrinkage=last.shrinkage), r)
    columns, known = np.empty((len(last.basis), 0)), np.empty(0)
    if begun is not None:
        columns, known = begun[0].basis, begun[2]
    # Of the ranks on the way only the dual's bound is shown; a search of each takes seconds.
    fits = [ranks.solve(j, exact_search=False) for j in range(len(known) + 1, r)] + [last]
    bounds = np.array([*known, *(fit.solution.certificate.lower_bound for fit in fits)])
    columns = (
        _forward(ranks, r, columns) if direction == "forward" else _backward(ranks, last.basis)
    )
    offsets = [ranks.problem(j).offsets for j in range(1, r + 1)]
    retained = np.cumsum(
        [ranks.oracle.retained_variance(columns[:, [j]]) for j in range(r)], axis=0
    )
    values = np.max(np.array(offsets) - retained, axis=1) / ranks.unit
    losses = offsets[-1] - retained[-1]
    solution = replace(
        last.solution,
        components=np.ascontiguousarray(columns.T),
        losses=losses,
        certificate=ranks.problem(r).certificate(bounds[-1] * ranks.unit, float(losses.max())),
        n_eigen=ranks.oracle.n_eigen + last.solution.n_eigen,
        stop_reason=f"nested {direction}",
        history=(),
    )
    return ranks, (ranks.described(solution, r), values, bounds)


def _forward(ranks: Ranks, r: int, columns: FloatArray) -> FloatArray:
    for j in range(columns.shape[1] + 1, r + 1):
        free = complement(columns)
        offsets = ranks.problem(j).offsets - ranks.oracle.retained_variance(columns)
        best = _inside(ranks, free, offsets, 1)
        columns = np.hstack([columns, free @ best])
    return orthonormal(columns)


def _backward(ranks: Ranks, basis: FloatArray) -> FloatArray:
    r = basis.shape[1]
    columns = np.empty((len(basis), 0))
    for j in range(r - 1, 0, -1):
        best = _inside(ranks, basis, ranks.problem(j).offsets, j)
        # What rank j drops from rank j + 1 is component j + 1.
        columns = np.hstack([basis @ complement(best), columns])
        basis = basis @ best
    return orthonormal(np.hstack([basis, columns]))


def _inside(ranks: Ranks, basis: FloatArray, offsets: FloatArray, r: int) -> FloatArray:
    """Return the best rank-`r` basis inside a subspace, in that subspace's coordinates."""
    # Rounding is that of the whole problem, however little variance is left in the subspace.
    oracle = DenseOracle(ranks.oracle.project(basis), scale=ranks.oracle.scale)
    problem = Problem(oracle, offsets, r)
    return ranks.settings.solve(problem, exact_search=False, solver="auto").components.T
