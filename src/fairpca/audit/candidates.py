"""The projections an audit looks at: PCA, FairPCA and any linear reducer that is given."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from fairpca.arrays import AnyArray, FloatArray
from fairpca.criteria import pose
from fairpca.estimator import FairPCA
from fairpca.functional import solve
from fairpca.groups import Groups
from fairpca.metrics import basis_of
from fairpca.moments import GroupMoments
from fairpca.solve.eigen import leading_pairs
from fairpca.solve.many_groups import solve_many_groups
from fairpca.solve.solution import Certificate, Solution


@dataclass(frozen=True)
class Table:
    """The rows under audit and their moments.

    Attributes
    ----------
    X : ndarray of shape (m, n) or None
        None where only moments were given.
    labels : object
        `sensitive_features` as given.
    groups : Groups or None
    weights : ndarray or None
    moments : GroupMoments
        Of every cell, unlabelled rows included.
    target : GroupMoments
        Of the groups compared.
    group_by : str
    y : object
    """

    X: AnyArray | None
    labels: Any
    groups: Groups | None
    weights: FloatArray | None
    moments: GroupMoments
    target: GroupMoments
    group_by: str
    y: Any = None


def in_level(cell: Any, level: Any, names: Sequence[str]) -> bool:
    """Return whether a cell of crossed labels lies in the level (column, value)."""
    name, value = level
    return cell is not None and bool(cell[names.index(name)] == value)


@dataclass(frozen=True)
class Candidate:
    """One projection: orthonormal columns, and the certificate where the solver gave one."""

    reducer: str
    basis: FloatArray
    certificate: Certificate | None = None
    weights: FloatArray | None = None

    @property
    def n_components(self) -> int:
        """Number of columns."""
        return int(self.basis.shape[1])


def pca_candidates(moments: GroupMoments, ranks: Iterable[int]) -> list[Candidate]:
    """Return PCA of all rows with each number of components."""
    ranks = list(ranks)
    vectors = leading_pairs(moments.pooled().covariances[0], max(ranks)).vectors
    return [Candidate("PCA", vectors[:, :r]) for r in ranks]


def fair_solution(
    covariances: FloatArray, r: int, *, search: bool, start: FloatArray | None = None
) -> Solution:
    """Solve; without `search` an open gap of a small problem is not searched exhaustively.

    The search can take seconds; it is worth them for the one answer that was asked for. `start`
    are weights near the optimal ones.
    """
    k, n, _ = covariances.shape
    if search or k < 3 or r == n:
        return solve(covariances, r)
    return solve_many_groups(pose(covariances, r), exact_search=False, start=start)


def fair_candidates(covariances: FloatArray, ranks: Iterable[int], asked: int) -> list[Candidate]:
    """Return the fair projection with each number of components, certified."""
    found: list[Candidate] = []
    for r in ranks:
        start = found[-1].weights if found else None
        solution = fair_solution(covariances, r, search=r == asked, start=start)
        found.append(
            Candidate("FairPCA", solution.components.T, solution.certificate, solution.weights)
        )
    return found


def named_reducers(reducers: Any) -> list[tuple[str, Any]]:
    """Return (name, reducer) pairs with distinct names other than PCA and FairPCA."""
    if reducers is None:
        return []
    if isinstance(reducers, Mapping):
        pairs = [(str(name), reducer) for name, reducer in reducers.items()]
    elif isinstance(reducers, list | tuple):
        pairs = [(type(reducer).__name__, reducer) for reducer in reducers]
    else:
        pairs = [(type(reducers).__name__, reducers)]
    taken, named = {"PCA", "FairPCA"}, []
    for name, reducer in pairs:
        unique, number = (f"{name} (given)" if name in taken else name), 2
        while unique in taken:
            unique, number = f"{name} (given {number})", number + 1
        taken.add(unique)
        named.append((unique, reducer))
    return named


def fitted_rank(reducer: Any) -> int | None:
    """Return the number of components of a fitted reducer, None when it is not fitted."""
    if hasattr(reducer, "steps"):
        raise ValueError(
            "reducers has a Pipeline: its steps before the last one change the columns, and "
            "losses in different columns cannot be compared. Pass its last step, and as X the "
            "rows that reach it: pipeline[:-1].transform(X)."
        )
    if hasattr(reducer, "components_") or isinstance(reducer, np.ndarray | list):
        return int(basis_of(reducer).shape[1])
    return None


def given_candidates(
    named: list[tuple[str, Any]], table: Table, ranks: Iterable[int]
) -> list[Candidate]:
    """Return each given reducer: as it is where it is fitted, otherwise fitted at every rank."""
    found = []
    n = table.target.n_features
    for name, reducer in named:
        if fitted_rank(reducer) is None:
            found += [Candidate(name, basis_of(_fit(name, reducer, table, r))) for r in ranks]
            continue
        basis = basis_of(reducer)
        if len(basis) != n:
            raise ValueError(
                f"reducers: {name!r} was fitted on {len(basis)} columns and X has {n}; audit it "
                "on the columns it was fitted on."
            )
        found.append(Candidate(name, basis))
    return found


def _fit(name: str, reducer: Any, table: Table, r: int) -> Any:
    if not hasattr(reducer, "fit") or "n_components" not in reducer.get_params():
        raise ValueError(
            f"reducers: {name!r} is {reducer!r}; pass a fitted linear reducer with `components_`, "
            "or an estimator with the parameter n_components."
        )
    model = clone(reducer).set_params(n_components=r)
    with warnings.catch_warnings():
        # What is open is in the audit's own certificate.
        warnings.simplefilter("ignore", ConvergenceWarning)
        if table.X is None:
            if not isinstance(model, FairPCA):
                raise ValueError(
                    f"reducers: {name!r} has to be fitted and X holds moments only; pass it "
                    "fitted, or pass rows."
                )
            return model.fit_moments(table.moments)
        accepted = inspect.signature(model.fit).parameters
        extra = {"sensitive_features": table.labels, "sample_weight": table.weights}
        known = {k: v for k, v in extra.items() if k in accepted and v is not None}
        return model.fit(table.X, table.y, **known)
