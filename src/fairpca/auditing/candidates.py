"""The projections an audit looks at: PCA, FairPCA, shrunk FairPCA and any that is given.

Also what every group would get from PCA and FairPCA fitted without it.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from fairpca._arrays import AnyArray, FloatArray, IntArray, is_sparse
from fairpca.auditing.findings import Finding, LeftOut
from fairpca.auditing.verdict import SHRUNK
from fairpca.covariances.dense import leading_pairs
from fairpca.covariances.sources import MomentCovariances, Span, seen_directions, seen_part
from fairpca.fitting import Ranks, Settings
from fairpca.metrics import basis_of, fitted_to, kept_variance
from fairpca.moments.group_moments import GroupMoments, memberships
from fairpca.moments.groups import Groups
from fairpca.shrinkage import NoisyGroupWarning
from fairpca.solvers.solution import Certificate

#: With more groups than this, what has to be solved once per group is done only on request: twenty
#: fits are a matter of seconds, and a table of more rows is not read.
FEW_GROUPS = 20
# Multiplications (about ten seconds on one core) above which the fits without each group are done
# only on request. Too small, and people miss them; too large, and an audit seems to hang.
_MOST_FLOPS = 3e10
# Multiplications of one decomposition of n columns, over n**3, and decompositions that one fair
# fit is taken to need. Both are estimates on the safe side; only the order of magnitude matters.
_DECOMPOSITION = 20.0
_FIT_DECOMPOSITIONS = 10


@dataclass(frozen=True)
class Table:
    """The rows under audit and their moments, those of unlabelled rows included.

    The second moments of the source are about the mean that the audit was asked for. Where only
    moments were given there are no rows, labels and groups; `folds` are the moments of each fold,
    where these were given. Labels, target and the rows `given` are as the caller passed them. `X`
    are the same rows, in coordinates of their `span` where they are far fewer than columns.
    """

    moments: GroupMoments
    source: MomentCovariances
    group_by: str
    X: AnyArray | None = None
    labels: Any = None
    groups: Groups | None = None
    weights: FloatArray | None = None
    y: Any = None
    folds: list[GroupMoments] | None = None
    given: AnyArray | None = None
    span: Span | None = None

    @property
    def n_features(self) -> int:
        """Number of columns as they were given."""
        return self.moments.n_features if self.given is None else int(self.given.shape[1])

    @property
    def mean(self) -> FloatArray:
        """Mean of all rows as they were given."""
        mean = self.source.total.mean
        return mean if self.span is None else self.span.point(mean)

    def projected(self, basis: FloatArray) -> FloatArray:
        """Return all rows as `transform` projects them: about one mean for everybody."""
        rows: Any = self.X
        mean = self.source.total.mean
        if is_sparse(rows):
            return np.asarray(rows @ basis - mean @ basis)
        return np.asarray((rows - mean) @ basis)

    def inside(self, basis: FloatArray) -> FloatArray:
        """Return columns in the coordinates of `X`."""
        return basis if self.span is None else self.span.inside(basis)

    @property
    def member(self) -> IntArray:
        """Which cells of the moments belong to which group, shape (k, cells), ones and zeros."""
        return memberships(self.moments.labels, self.moments.names, self.group_by)[1]

    @property
    def members(self) -> list[IntArray]:
        """The rows of every group; a row is in several where groups overlap."""
        if self.groups is None:
            return []
        codes, _, counts = self.groups.cells()
        cells = np.split(np.argsort(codes, kind="stable"), np.cumsum(counts)[:-1])
        return [np.concatenate([cells[c] for c in np.flatnonzero(row)]) for row in self.member]


@dataclass(frozen=True)
class Candidate:
    """One projection under audit: orthonormal columns, and what the solver said of them."""

    reducer: str
    basis: FloatArray
    certificate: Certificate | None = None

    @property
    def n_components(self) -> int:
        """Number of columns."""
        return int(self.basis.shape[1])


def pca_candidates(moments: GroupMoments, ranks: list[int]) -> list[Candidate]:
    """Return PCA of all rows with each number of components."""
    vectors = leading_pairs(moments.pooled().covariances[0], max(ranks)).vectors
    return [Candidate("PCA", vectors[:, :r]) for r in ranks]


def fair_candidates(
    table: Table, ranks: list[int], asked: int, *, shrinkage: str | None = None
) -> list[Candidate]:
    """Return FairPCA with each number of components.

    Each solve starts from the dual weights of the one before. An open gap of a small problem is
    searched exhaustively for `asked` components only: that can take seconds, and is worth them for
    the one answer that was asked for. With `shrinkage` a certificate says nothing about the rows,
    and is left out.
    """
    solver = Ranks(table.source, Settings(shrinkage=shrinkage), max(ranks))
    found, start, name = [], None, SHRUNK if shrinkage else "FairPCA"
    for r in ranks:
        fit = solver.solve(r, start, exact_search=r == asked)
        start, certificate = fit.solution.weights, fit.solution.certificate
        found.append(Candidate(name, fit.basis, None if shrinkage else certificate))
    return found


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


def given_candidates(named: dict[str, Any], table: Table, ranks: list[int]) -> list[Candidate]:
    """Return each given reducer: as it is where it is fitted, otherwise fitted at every rank."""
    found, n = [], table.n_features
    for name, reducer in named.items():
        if fitted_rank(reducer) is None:
            found += [Candidate(name, _fit(name, reducer, table, r)) for r in ranks]
            continue
        basis = basis_of(reducer)
        if len(basis) != n:
            raise ValueError(
                f"reducers: {name!r} was fitted on {len(basis)} columns and X has {n}; audit it "
                "on the columns it was fitted on."
            )
        found.append(Candidate(name, table.inside(basis)))
    return found


def _fit(name: str, reducer: Any, table: Table, r: int) -> FloatArray:
    """Return the basis of a clone fitted with r components to the groups of the audit.

    Where it can be, to moments, which know rows without a label; otherwise to rows, with those
    arguments that its `fit` takes.
    """
    if not hasattr(reducer, "fit") or "n_components" not in reducer.get_params():
        raise ValueError(
            f"reducers: {name!r} is {reducer!r}; pass a fitted linear reducer with `components_`, "
            "or an estimator with the parameter n_components."
        )
    model = clone(reducer).set_params(n_components=r)
    if "group_by" in model.get_params():
        model.set_params(group_by=table.group_by)
    with warnings.catch_warnings():
        # The audit says itself what is open, and what new rows get.
        for category in (ConvergenceWarning, NoisyGroupWarning):
            warnings.simplefilter("ignore", category)
        if hasattr(model, "fit_moments"):
            return basis_of(model.fit_moments(table.moments))
        if table.given is None:
            raise ValueError(
                f"reducers: {name!r} has to be fitted and X holds moments only; pass it fitted, "
                "or pass rows."
            )
        given = {"sensitive_features": table.labels, "sample_weight": table.weights}
        return table.inside(basis_of(fitted_to(table.given, model, y=table.y, **given)))


def left_out_groups(
    table: Table, findings: list[Finding], r: int, wanted: bool | None
) -> tuple[LeftOut, ...]:
    """Fit PCA and FairPCA with r components without each group in turn and return what it loses.

    A projection fitted without a group subtracts the mean of the other rows. With
    ``center="global"`` the group's loss under it is about that mean, as it would be for new rows.
    The findings are those of the complete fits. Where `wanted` is None it is done if it is cheap.
    """
    own_means, center = table.moments.grouped(table.group_by), table.source.center
    covariances = own_means.covariances
    k, n, _ = covariances.shape
    cheap = _DECOMPOSITION * n**3 * k * (1 + _FIT_DECOMPOSITIONS) <= _MOST_FLOPS
    if not (cheap and k <= FEW_GROUPS if wanted is None else wanted):
        return ()
    losses = {f.reducer: f.loss for f in findings if f.n_components == r}
    found = []
    for i, inside in enumerate(table.member):
        rest = table.moments.select(np.flatnonzero(inside == 0).tolist())
        if rest.weight.sum() <= 0:
            continue
        total, covariance = rest.pooled(), covariances[i]
        if center == "global":
            shift = own_means.distances_from(total)[i]
            covariance = covariance + np.outer(shift, shift)
        own = float(leading_pairs(covariance, r).values.sum())
        pca = leading_pairs(total.covariances[0], r).vectors
        others, fair = MomentCovariances(rest, table.group_by, center), pca
        if others.groups.labels:
            fair = Ranks(others, Settings()).solve(r, exact_search=False).basis
        seen = seen_directions(rest)
        for reducer, columns in (("PCA", pca), ("FairPCA", fair)):
            kept = float(kept_variance(seen_part(columns, seen), covariance[None])[0])
            found.append(LeftOut(i, reducer, float(losses[reducer][i]), max(own - kept, 0.0)))
    return tuple(found)
