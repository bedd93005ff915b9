"""Every number of components at once, to choose one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairpca.arrays import FloatArray, IntArray
from fairpca.checks import check_choice, check_rank
from fairpca.criteria import check_criterion
from fairpca.fitting import Ranks, Settings
from fairpca.labels import Label
from fairpca.moments import GroupMoments
from fairpca.population import FromMoments
from fairpca.solve.dispatch import SOLVERS
from fairpca.solve.solution import Certificate


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
    """

    n_components: IntArray
    losses: FloatArray
    errors: FloatArray
    shares: FloatArray
    weights: FloatArray
    certificates: tuple[Certificate, ...]
    groups: tuple[Label, ...]


def component_path(
    moments: GroupMoments,
    max_components: int | None = None,
    *,
    criterion: str = "loss",
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
    criterion, group_by, solver, tol, max_iter, random_state
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
    check_criterion(criterion)
    check_choice("solver", solver, SOLVERS)
    population = FromMoments(moments, group_by)
    settings = Settings(criterion, solver, tol, max_iter, random_state)
    largest = moments.n_features if max_components is None else max_components
    check_rank(largest, moments.n_features)
    ranks = Ranks(population, settings, largest)
    fits: list[Any] = []
    start = None
    for r in range(1, largest + 1):
        fits.append(ranks.solve(r, start))
        start = fits[-1].solution.weights
    return ComponentPath(
        np.arange(1, largest + 1),
        np.array([fit.losses for fit in fits]),
        np.array([np.maximum(ranks.traces - fit.kept, 0.0) for fit in fits]),
        np.array([ranks.shares(fit) for fit in fits]),
        np.array([fit.solution.weights for fit in fits]),
        tuple(fit.solution.certificate for fit in fits),
        population.groups.labels,
    )
