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

from fairpca._linalg import AnyArray, FloatArray
from fairpca.auditing.findings import Finding, LeftOut
from fairpca.covariances.eigenpairs import leading_pairs
from fairpca.criteria import pose
from fairpca.estimator import FairPCA
from fairpca.fitting import solve
from fairpca.metrics import basis_of, kept_variance
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.groups import Groups
from fairpca.solvers.many_groups import solve_many_groups
from fairpca.solvers.solution import Certificate, Solution

# MERGED: """What a group would get from a projection fitted without it."""


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


#: With more groups than this, what has to be solved once per group is done only on request.
FEW_GROUPS = 20

# Multiplications (about ten seconds on one core) above which it is done only on request.
_MOST_FLOPS = 3e10

# A dual weight below this is zero: the group does not bind.
_BINDS = 1e-12


def left_out_groups(
    table: Table, findings: list[Finding], fair: Candidate, wanted: bool | None
) -> tuple[LeftOut, ...]:
    """Fit PCA and FairPCA without each group in turn and measure what it loses.

    Parameters
    ----------
    table : Table
    findings : list of Finding
        Of the complete fits.
    fair : Candidate
        The fair projection at the number of components asked about, with its dual weights.
    wanted : bool or None
        None where that is cheap.
    """
    target, r = table.target, fair.n_components
    k, n = len(target.labels), target.n_features
    cost = 20.0 * n**3 * (k + np.count_nonzero(_binding(fair, k)) * 10)
    if wanted is False or (wanted is None and (cost > _MOST_FLOPS or k > FEW_GROUPS)):
        return ()
    losses = {f.reducer: f.loss for f in findings if f.n_components == r}
    overlapping = table.group_by == "marginal" and len(target.names) > 1
    found = []
    for i in range(k):
        cells = _cells_without(table, i)
        rest = table.moments.select(cells)
        if not cells or rest.weight.sum() <= 0:
            continue
        covariance = target.covariances[i]
        own = float(leading_pairs(covariance, r).values.sum())
        pca = leading_pairs(rest.pooled().covariances[0], r).vectors
        others = rest.grouped(table.group_by)
        if others.labels and (overlapping or _binding(fair, k)[i]):
            basis = fair_solution(others.covariances, r, search=False).components.T
        else:
            # The bound holds without a group of weight zero, and so does the value: the same
            # projection is optimal for the others.
            basis = fair.basis
        for reducer, columns in (("PCA", pca), ("FairPCA", basis)):
            kept = float(kept_variance(columns, covariance[None])[0])
            found.append(LeftOut(i, reducer, float(losses[reducer][i]), max(own - kept, 0.0)))
    return tuple(found)


def _binding(fair: Candidate, k: int) -> FloatArray:
    weights = np.ones(k) if fair.weights is None else fair.weights
    return np.asarray(weights > _BINDS)


def _cells_without(table: Table, i: int) -> list[int]:
    """Return the cells of the moments that hold no row of group i."""
    label = table.target.labels[i]
    labels = table.moments.labels
    if table.group_by == "intersection" or len(table.target.names) == 1:
        return [c for c, cell in enumerate(labels) if cell != label]
    names = table.target.names
    return [c for c, cell in enumerate(labels) if not in_level(cell, label, names)]
