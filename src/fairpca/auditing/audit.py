"""The audit: candidates beside PCA, for every group, on new rows and on those in hand.

In this order: rows and labels become moments of folds; every candidate is fitted to these and
measured by `fairpca.metrics.measured`; `fairpca.cross_fit` measures rows, and groups, that were
left out of the fits; and everything is put into one `Audit`.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from fairpca import metrics
from fairpca._arrays import AnyArray, FloatArray, fetched
from fairpca._check import (
    check_choice,
    check_counted,
    check_groups,
    check_names,
    check_rank,
    check_weights,
    framed,
    is_share,
    listed,
)
from fairpca.auditing.findings import Audit, Finding, GroupRow, ModelAudit
from fairpca.auditing.words import CAREFUL, MAX_HARM, label_texts, reader_warnings
from fairpca.base import LinearReducer
from fairpca.covariances.sources import (
    CENTERS,
    FOLDS,
    MomentCovariances,
    Span,
    counted,
    dense_if_wide,
    in_span,
    is_wide,
)
from fairpca.cross_fitting import CrossFit, cross_fit, pooled_pca
from fairpca.estimator import FairPCA
from fairpca.fitting import Matrices
from fairpca.methods import BalancedPCA
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.groups import Groups, block_folds, warn_of_measurements
from fairpca.persistence import versions
from fairpca.shrinkage import NoisyGroupWarning

# Up to this many columns and groups every number of components from 1 to twice that asked for is
# looked at, on the rows in hand, up to this many; beyond, where fits take longer, only that one.
_FEW_COLUMNS, _FEW_GROUPS, _MOST_RANKS = 64, 10, 8
# A column of numbers or names with fewer distinct values than this is no list of blocks.
_FEW_BLOCKS = 20
_LIKE_AN_ID = re.compile(r"(^|[_\W])(id|person|patient|subject|household|user|client)s?$", re.I)


def candidates(group_by: str = "intersection", center: str = "global") -> dict[str, Any]:
    """Return what every audit compares, by name."""
    how: dict[str, Any] = {"group_by": group_by, "center": center}
    return {
        "PCA": pooled_pca(**how),
        "balanced PCA": BalancedPCA(center=center),
        "FairPCA": FairPCA(**how),
        CAREFUL: FairPCA(shrinkage="auto", max_harm=MAX_HARM, **how),
    }


@dataclass(frozen=True)
class _Table:
    """The rows under audit: moments of folds, and what they were counted from, where it is known.

    Where rows are far fewer than columns, `X` and the moments are in coordinates of their `span`.
    """

    folds: list[GroupMoments]
    source: MomentCovariances
    X: AnyArray | None = None
    groups: Groups | None = None
    weights: FloatArray | None = None
    labels: Any = None
    given: AnyArray | None = None
    span: Span | None = None

    @property
    def n_features(self) -> int:
        """Number of columns as they were given."""
        return self.folds[0].n_features if self.given is None else int(self.given.shape[1])

    def inside(self, reducer: Any) -> tuple[FloatArray, FloatArray | None]:
        """Return the basis of a reducer of the given columns, and its mean, in the coordinates."""
        basis, mean = metrics.basis_of(reducer), getattr(reducer, "mean_", None)
        mean = None if mean is None else np.asarray(fetched(mean), dtype=float)
        if self.span is None:
            return basis, mean
        return self.span.inside(basis), None if mean is None else self.span.coordinates(mean)


def audit(
    X: Any,
    sensitive_features: Any = None,
    n_components: int | float | None = None,
    *,
    reducers: Any = None,
    model: LinearReducer | None = None,
    ranks: Sequence[int] | None = None,
    sample_weight: Any = None,
    center: str = "global",
    group_by: str = "intersection",
    unlabelled: str = "error",
    blocks: Any = None,
    random_state: int = 0,
) -> Audit:
    """Find out whom a projection serves.

    First for new rows: what every group loses and by how much it errs on rows that were left out
    of the fit, under PCA, balanced PCA (every group weighs the same), FairPCA and careful FairPCA
    (``FairPCA(shrinkage="auto", max_harm=0.02)``), and which of them to fit. Then for the rows in
    hand, over a range of numbers of components; and for groups that were missing in the fit.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (m, n), GroupMoments, or list of GroupMoments
        The columns as the reducer sees them: standardise first if you would for PCA. Moments of
        all rows together say nothing about new rows; those of every fold, in a list, do.
    sensitive_features : array-like, Series, frame or dict
        One label per row, or several columns of labels.
    n_components : int or float, optional
        The number of components asked about. A float in (0, 1): the fewest with which FairPCA
        keeps that share of every group's variance. Default: those of the model, otherwise 2.
    reducers : estimator, list or dict of estimators, optional
        Looked at beside the others: fitted ones with `components_` as they are, about their own
        mean; others are fitted here. Only those with `fit_moments` are known on new rows.
    model : fitted reducer, optional
        Looked at under the name "model".
    ranks : sequence of int, optional
        Numbers of components to look at on the rows in hand.
    sample_weight : array-like of shape (m,), optional
        Weight 2 is the row twice.
    center : {"global", "group"}, default="global"
        What variances, errors and losses of a group are about, for every candidate: the mean of
        all rows, as in `FairPCA`, or the group's own. With "group" nothing is said of new rows.
    group_by : {"intersection", "marginal"}, default="intersection"
        As in `FairPCA`.
    unlabelled : {"error", "ignore"}, default="error"
        As in `FairPCA`.
    blocks : array-like of shape (m,), optional
        Which rows belong together, such as those of one person or month: they are left out
        together, and intervals are of blocks.
    random_state : int, default=0
        Seed of the folds.

    Returns
    -------
    Audit

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca import audit
    >>> rng = np.random.default_rng(0)
    >>> many, few = rng.normal(size=(900, 3)) * [3, 1, 1], rng.normal(size=(400, 3)) * [1, 3, 1]
    >>> found = audit(np.vstack([many, few]), ["many"] * 900 + ["few"] * 400, n_components=1)
    >>> found.groups[found.at("PCA").worst].text
    'few'
    >>> found.at("FairPCA").worst_loss < found.at("PCA").worst_loss
    True
    >>> found.advice.kind, found.advice.reducer
    ('better', 'careful FairPCA')
    """
    check_choice("center", center, CENTERS)
    check_choice("group_by", group_by, ("intersection", "marginal"))
    usual = candidates(group_by, center)
    given = {} if model is None else {"model": model}
    named = given | metrics.named_reducers(reducers, reserved=[*usual, *given])
    for name, reducer in named.items():
        _check_reducer(name, reducer, X)
    fitted = [len(r.components_) for r in named.values() if hasattr(r, "components_")]
    largest = max([1, *fitted, *(ranks or ()), *([n_components] if n_components else [])])
    rules = {"group_by": group_by, "unlabelled": unlabelled}
    table = _read(X, sensitive_features, sample_weight, int(largest), center, blocks, rules)
    r = _asked(n_components, fitted, table, usual["FairPCA"])
    looked_at = _ranks(ranks, r, table.source)
    in_hand, components = _in_hand(table, usual, named, looked_at)
    why_not = _why_not(table, center)
    new, unseen = [], []
    if not why_not:
        fits = {name: fit for name, fit in {**usual, **named}.items() if _refits(fit, table)}
        new = _left_out(table, fits, r, in_hand, blocks, random_state, unseen=False)
        unseen = _left_out(table, fits, r, in_hand, blocks, random_state, unseen=True)
    known, moments = table.source.groups, table.source.moments
    texts = label_texts(known.labels, known.names, group_by)
    rows = zip(known.labels, texts, known.count.tolist(), known.traces.tolist(), strict=True)
    groups = tuple(GroupRow(*row) for row in rows)
    cells = zip(moments.labels, moments.count.tolist(), strict=True)
    without = sum(count for label, count in cells if label is None)
    own_rows = r + (center == "group")
    parameters = {
        "n_components": n_components, "ranks": looked_at, "center": center, **rules,
        "weighted": sample_weight is not None, "blocks": blocks is not None,
        "random_state": random_state, "rows": int(moments.count.sum()),
        "features": table.n_features,
    }  # fmt: skip
    frame = framed(X, "X")
    names = list(map(str, frame.columns)) if isinstance(frame, nw.DataFrame) else None
    mean = table.source.total.mean
    return Audit(
        n_components=r,
        ranks=tuple(looked_at),
        reducers=(*usual, *named),
        groups=groups,
        group_columns=tuple(known.names),
        group_by=group_by,
        center=center,
        findings=(*new, *in_hand, *unseen),
        why_not_new=why_not,
        warnings=(*reader_warnings(groups, without, r, own_rows), *_of_blocks(frame, blocks)),
        provenance={
            "versions": versions(),
            "parameters": parameters,
            "source": {} if names is None else {"features": names},
        },
        moments=moments,
        components=components,
        mean=mean if table.span is None else table.span.point(mean),
    )


def _check_reducer(name: str, reducer: Any, X: Any) -> None:
    """Raise ValueError for what is no linear reducer, or one of other columns."""
    if hasattr(reducer, "steps"):
        raise ValueError(
            "reducers has a Pipeline: its steps before the last one change the columns, and "
            "losses in different columns cannot be compared. Pass its last step, and as X the "
            "rows that reach it: pipeline[:-1].transform(X)."
        )
    unfitted = hasattr(reducer, "fit") and "n_components" in reducer.get_params()
    if not hasattr(reducer, "components_") and not unfitted:
        raise ValueError(
            f"reducers: {name!r} is {reducer!r}; pass a fitted linear reducer with `components_`, "
            "or an estimator with the parameter n_components."
        )
    check_names(reducer, X)


def _read(
    X: Any,
    labels: Any,
    sample_weight: Any,
    largest: int,
    center: str,
    blocks: Any,
    rules: dict[str, str],
) -> _Table:
    """Return validated rows and labels, and their moments in folds."""
    if isinstance(X, GroupMoments) or (isinstance(X, list) and isinstance(X[0], GroupMoments)):
        check_counted(labels, sample_weight)
        folds = X if isinstance(X, list) else [X]
        table = _Table(folds, MomentCovariances(folds, rules["group_by"], center))
    else:
        if labels is None:
            raise ValueError(
                "sensitive_features=None: an audit compares groups; pass one label per row."
            )
        given = metrics.as_rows(X, ensure_min_samples=2)
        groups = Groups.from_labels(labels, n_rows=given.shape[0], **rules)
        warn_of_measurements(groups)
        weights = check_weights(sample_weight, given.shape[0])
        rows, span = dense_if_wide(given, largest), None
        if is_wide(rows, largest):
            rows, span = in_span(rows, groups, weights)
        folds = counted(rows, groups, weights, in_folds=True)
        source = MomentCovariances(folds, rules["group_by"], center)
        table = _Table(folds, source, rows, groups, weights, labels, given, span)
    known = table.source.groups
    if len(known.labels) < 2:
        what = f"one group only, {known.labels[0]!r}" if known.labels else "no labels"
        raise ValueError(f"sensitive_features has {what}; an audit compares at least two groups.")
    check_groups(known.labels, known.weight)
    return table


def _asked(n_components: Any, fitted: list[int], table: _Table, fair: FairPCA) -> int:
    """Return the number of components asked about; by default that of the first fitted reducer."""
    n = table.folds[0].n_features
    if n_components is None:
        return fitted[0] if fitted else min(2, n)
    if is_share(n_components):
        shared = clone(fair).set_params(n_components=n_components)
        return int(_fitted(shared, table.folds).n_components_)
    check_rank(n_components, n)
    return int(n_components)


def _ranks(ranks: Sequence[int] | None, r: int, source: MomentCovariances) -> list[int]:
    """Return the numbers of components to look at on the rows in hand, increasing."""
    k, n, _ = source.covariances.shape
    if ranks is not None:
        for rank in ranks:
            check_rank(rank, n)
        return sorted({r, *map(int, ranks)})
    if n > _FEW_COLUMNS or k > _FEW_GROUPS:
        return [r]
    top = max(min(n - 1, max(2 * r, _MOST_RANKS)), 1)
    return sorted({r, *(round(float(v)) for v in np.geomspace(1, top, min(top, _MOST_RANKS)))})


def _fitted(model: Any, folds: list[GroupMoments]) -> Any:
    """Return a model fitted to moments; the audit says itself what new rows get."""
    with warnings.catch_warnings():
        for category in (ConvergenceWarning, NoisyGroupWarning):
            warnings.simplefilter("ignore", category)
        return model.fit_moments(folds)


def _in_hand(
    table: _Table, usual: dict[str, Any], named: dict[str, Any], ranks: list[int]
) -> tuple[list[Finding], dict[tuple[str, int], FloatArray]]:
    """Measure every candidate with every number of components, PCA first at each of these.

    Also return their components in the columns given.
    """
    source, found, kept = table.source, [], {}
    matrices = Matrices(source, ask_for=max(ranks))
    group_by = usual["FairPCA"].group_by
    fixed = {name: model for name, model in named.items() if hasattr(model, "components_")}
    for name, reducer in fixed.items():
        if reducer.components_.shape[1] != table.n_features:
            raise ValueError(
                f"reducers: {name!r} was fitted on {reducer.components_.shape[1]} columns and X "
                f"has {table.n_features}; audit it on the columns it was fitted on."
            )
    for r in sorted({*ranks, *(len(model.components_) for model in fixed.values())}):
        pca, bound = None, np.nan
        for name, reducer in {**usual, **named}.items():
            origin, about = None, source
            if name in fixed:
                if len(reducer.components_) != r:
                    continue
                basis, origin = table.inside(reducer)
                if origin is not None and source.center == "global":
                    about = MomentCovariances(source.moments, group_by, "global", origin)
            else:
                basis = _fit(name, reducer, table, r)
            same = about is source
            line = metrics.measured(basis, about, matrices if same else None, origin)
            pca = pca or line
            if name == "FairPCA":
                bound = bounds
            finding = _finding("hand", name, r, line, pca)
            found.append(finding)
            columns = basis if table.span is None else table.span.directions @ basis
            kept[name, r] = np.ascontiguousarray(columns.T)
    return found, kept
