"""The audit: candidates beside PCA, for every group, on new rows and on those in hand.

In this order: rows and labels become moments of folds; every candidate is fitted to these and
measured by `fairpca.metrics.measured`; `fairpca.cross_fit` measures rows, and groups, that were
left out of the fits; and everything is put into one `Audit`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
import sklearn
from sklearn.base import clone

import fairpca
from fairpca import _check, metrics
from fairpca._arrays import AnyArray, FloatArray
from fairpca.auditing.findings import Audit, Finding, GroupRow, ModelAudit
from fairpca.auditing.words import CAREFUL, label_texts, reader_warnings
from fairpca.base import LinearReducer
from fairpca.covariances import sources
from fairpca.cross_fitting import cross_fit, fitted_quietly, usual_fits
from fairpca.estimator import FairPCA
from fairpca.fitting import Matrices
from fairpca.moments.group_moments import GroupMoments, as_folds, split_folds
from fairpca.moments.groups import (
    Data,
    Groups,
    Labels,
    Models,
    Rows,
    Weights,
    warn_of_measurements,
)

# Up to this many columns and groups several numbers of components are looked at on the rows in
# hand, at most this many; beyond, where fits take longer, only the one asked for.
_FEW_COLUMNS, _FEW_GROUPS, _MOST_RANKS = 64, 5, 6
# Gap at which fits stop that are only looked at: searches for the rest take long.
_ROUGH = 1e-6
# With more groups each is not left out in turn: that takes as many fits of every candidate, and
# `cross_fit(unseen=True)` is for those who want them.
_MOST_UNSEEN = 8
# Columns with such names and at least so many distinct values, which repeat, may list blocks.
_FEW_BLOCKS = 20
_LIKE_AN_ID = re.compile(r"(^|[_\W])(id|person|patient|subject|household|user|client)s?$", re.I)


@dataclass(frozen=True)
class _Rows:
    """The rows under audit: moments of folds, and what they were counted from, where it is known.

    Where rows are far fewer than columns, `X` and the moments are in coordinates of their `span`;
    `n_features` are the columns as they were given.
    """

    folds: list[GroupMoments]
    source: sources.MomentCovariances
    n_features: int
    X: AnyArray | None = None
    groups: Groups | None = None
    weights: FloatArray | None = None
    labels: Any = None
    given: AnyArray | None = None
    span: sources.Span | None = None

    def inside(self, reducer: Any) -> tuple[FloatArray, FloatArray | None]:
        """Return the basis of a reducer of the given columns, and its mean, in the coordinates."""
        basis, mean = metrics.subspace(reducer, self.given, self.n_features)
        if self.span is None:
            return basis, mean
        return self.span.inside(basis), None if mean is None else self.span.coordinates(mean)


def audit(
    X: Data | Sequence[GroupMoments],
    sensitive_features: Labels | None = None,
    n_components: int | float | None = None,
    *,
    reducers: Models | None = None,
    model: LinearReducer | None = None,
    ranks: Sequence[int] | None = None,
    sample_weight: Weights = None,
    center: str = "global",
    group_by: str = "intersection",
    unlabelled: str = "error",
    blocks: Labels | None = None,
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
    ('better', 'FairPCA')
    """
    _check.check_choice("center", center, sources.CENTERS)
    usual, own = usual_fits(), {"group_by": group_by, "center": center, "tol": _ROUGH}
    for fit in usual.values():
        fit.set_params(**{name: v for name, v in own.items() if name in fit.get_params()})
    model_named = {} if model is None else {"model": model}
    named = model_named | metrics.named_reducers(reducers, reserved=[*usual, *model_named])
    for name, reducer in named.items():
        known = getattr(reducer, "get_params", dict)
        if not hasattr(reducer, "components_") and "n_components" not in known():
            raise ValueError(
                f"reducers: {name!r} is {reducer!r}; pass a fitted linear reducer with "
                "`components_`, or an estimator with the parameter n_components; of a Pipeline "
                "its last step, and as X the rows that reach it."
            )
        _check.check_names(reducer, X)
    fitted = [len(r.components_) for r in named.values() if hasattr(r, "components_")]
    largest = int(max([1, *fitted, *(ranks or ()), n_components or 1]))
    rules = {"group_by": group_by, "unlabelled": unlabelled}
    table = _read(X, sensitive_features, sample_weight, largest, center, blocks, rules)
    r = _asked(n_components, fitted, table, usual["FairPCA"])
    if len(table.folds) < 2:
        # It learns from rows that are left out in turn.
        del usual[CAREFUL]
    looked_at, fits = _ranks(ranks, {r, *fitted}, r, table.source), {**usual, **named}
    in_hand, components = _in_hand(table, fits, looked_at, r, group_by)
    new, unseen, why_not = _new_rows(table, fits, r, blocks, random_state)
    known, moments, mean = table.source.groups, table.source.moments, table.source.total.mean
    assert moments is not None
    groups = _group_rows(in_hand[0], known.names, group_by)
    cells = dict(zip(moments.labels, moments.count.tolist(), strict=True))
    notes = [*reader_warnings(groups, cells.get(None, 0))]
    if blocks is None and (together := block_columns(X)):
        notes.append(
            f"Rows may belong together by {_check.listed(together)}, and intervals are then too "
            "narrow: pass blocks=, and leave such columns out of X."
        )
    frame, weighted = _check.framed(X, "X"), sample_weight is not None
    asked = {"n_components": n_components, "ranks": looked_at, "center": center, **rules}
    more = {"weighted": weighted, "blocks": blocks is not None, "random_state": random_state}
    names = {"features": [*map(str, frame.columns)]} if isinstance(frame, nw.DataFrame) else {}
    libraries = {lib.__name__: lib.__version__ for lib in (fairpca, np, sklearn)}
    settings = {**asked, **more, "rows": sum(cells.values()), "features": table.n_features}
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
        warnings=tuple(notes),
        provenance={"versions": libraries, "parameters": settings, "source": names},
        moments=moments,
        components=components,
        mean=mean if table.span is None else table.span.point(mean),
    )


def _read(
    X: Any, labels: Any, sample_weight: Any, largest: int, center: str, blocks: Any, rules: Any
) -> _Rows:
    """Return validated rows and labels, and their moments in folds."""
    if (folds := as_folds(X)) is not None:
        _check.check_counted(labels, sample_weight, blocks)
        source = sources.MomentCovariances(folds, rules["group_by"], center)
        table = _Rows(folds, source, folds[0].n_features)
    else:
        if labels is None:
            raise ValueError(
                "sensitive_features=None: an audit compares groups; pass one label per row."
            )
        given = metrics.as_rows(X, ensure_min_samples=2)
        groups = Groups.from_labels(labels, n_rows=given.shape[0], **rules)
        warn_of_measurements(groups)
        weights = _check.check_weights(sample_weight, given.shape[0])
        rows, span = sources.dense_if_wide(given, largest), None
        if sources.is_wide(rows, largest):
            rows, span = sources.in_span(rows, groups, weights)
        # Rows of one block stay in one fold here, too.
        parts = groups.dealt(sources.FOLDS, blocks)
        whole = GroupMoments.from_array(rows, parts, sample_weight=weights)
        folds = [fold for fold in split_folds(whole, sources.FOLDS) if fold.labels]
        source = sources.MomentCovariances(folds, rules["group_by"], center)
        table = _Rows(folds, source, given.shape[1], rows, groups, weights, labels, given, span)
    known = table.source.groups
    if len(known.labels) < 2:
        what = f"one group only, {known.labels[0]!r}" if known.labels else "no labels"
        raise ValueError(f"sensitive_features has {what}; an audit compares at least two groups.")
    _check.check_groups(known.labels, known.weight)
    return table


def _asked(n_components: Any, fitted: list[int], table: _Rows, fair: Any) -> int:
    """Return the number of components asked about; by default that of the first fitted reducer."""
    n = table.folds[0].n_features
    if n_components is None:
        return fitted[0] if fitted else min(2, n)
    if _check.is_share(n_components):
        shared = clone(fair).set_params(n_components=n_components)
        return int(fitted_quietly(shared, table.folds, table.source.moments).n_components_)
    _check.check_rank(n_components, n)
    return int(n_components)


def _ranks(
    ranks: Sequence[int] | None, wanted: set[int], r: int, source: sources.MomentCovariances
) -> list[int]:
    """Return the numbers of components to look at on the rows in hand, increasing."""
    k, n, _ = source.covariances.shape
    for rank in ranks or ():
        _check.check_rank(rank, n)
    if ranks is not None or n > _FEW_COLUMNS or k > _FEW_GROUPS:
        return sorted({*wanted, *map(int, ranks or ())})
    top = max(min(n - 1, max(2 * r, _MOST_RANKS)), 1)
    several = np.geomspace(1, top, min(top, _MOST_RANKS)).round().astype(int).tolist()
    return sorted({*wanted, *several})


def _fit(name: str, model: Any, table: _Rows) -> tuple[FloatArray, Any]:
    """Return the basis of a reducer fitted here, and the reducer.

    Where it can be, it is fitted to moments, which know rows without a label; otherwise to rows,
    with those arguments that its `fit` takes.
    """
    if hasattr(model, "fit_moments"):
        fitted = fitted_quietly(model, table.folds, table.source.moments)
        return metrics.basis_of(fitted), fitted
    if table.given is None:
        raise ValueError(
            f"reducers: {name!r} has to be fitted and X holds moments only; pass it fitted, or "
            "pass rows."
        )
    known = {"sensitive_features": table.labels, "sample_weight": table.weights}
    fitted = metrics.fitted_to(table.given, model, **known)
    return table.inside(fitted)[0], fitted


def _in_hand(
    table: _Rows, fits: dict[str, Any], ranks: list[int], asked: int, group_by: str
) -> tuple[list[Finding], dict[tuple[str, int], FloatArray]]:
    """Measure every candidate with every number of components, PCA first at each of these.

    Also return their components in the columns given. A reducer that is fitted already is measured
    about its own mean, with the number of components that it has.
    """
    source, found, kept = table.source, [], {}
    fixed = {name: table.inside(fit) for name, fit in fits.items() if hasattr(fit, "components_")}
    matrices = Matrices.of(source, ask_for=ranks[-1])
    for r in ranks:
        lines, bound = {}, np.nan
        for name, reducer in fits.items():
            origin = None
            if name not in fixed:
                # The one answer that was asked for has the proof that `fit` has.
                proof = {"tol": FairPCA().tol} if (name, r) == ("FairPCA", asked) else {}
                model = clone(reducer).set_params(n_components=r, **proof)
                basis, model = _fit(name, model, table)
                bound = model.certificate_.lower_bound if name == "FairPCA" else bound
            elif fixed[name][0].shape[1] == r:
                basis, origin = fixed[name]
            else:
                continue
            where: tuple[sources.MomentCovariances, Matrices | None] = source, matrices
            if origin is not None and source.center == "global":
                where = sources.MomentCovariances(source.moments, group_by, "global", origin), None
            lines[name] = metrics.measured(basis, *where, origin=origin)
            columns = basis if table.span is None else table.span.directions @ basis
            kept[name, r] = np.ascontiguousarray(columns.T)
        pca = lines["PCA"]
        found += [_finding("hand", n, r, line, pca, bound=bound) for n, line in lines.items()]
    return found, kept


def _finding(
    on: str, name: str, r: int, line: metrics.Findings, pca: metrics.Findings, **more: Any
) -> Finding:
    """Return what a candidate does beside PCA; of what is not known, such as intervals, NaN."""
    unknown = np.full(len(line.labels), np.nan)
    ends = dict.fromkeys(("low", "high", "change_low", "change_high"), unknown)
    beside = {"change": line.error - pca.error, "gain": pca.worst_loss - line.worst_loss}
    numbers = vars(line) | ends | beside | more
    return Finding(on=on, reducer=name, n_components=r, **numbers)


def _new_rows(
    table: _Rows, fits: dict[str, Any], r: int, blocks: Any, seed: int
) -> tuple[list[Finding], list[Finding], str]:
    """Return the findings on rows and on groups left out of the fits, or why there are none."""
    groups, why_not = table.source.groups, ""
    k, n_rows = len(groups.labels), int(groups.count.sum())
    if table.source.center == "group":
        why_not = "they are checked only where losses are about the mean of all rows."
    elif len(table.folds) < 2:
        why_not = (
            "moments of all rows together do not tell; count them in folds, for example with "
            "n_folds=5 of read_moments, and pass the list."
        )
    elif r > 0.9 * n_rows - k - 1:
        why_not = f"{n_rows} rows are too few for {r} components and a check."
    if why_not:
        return [], [], why_not
    again = {n: fit for n, fit in fits.items() if not hasattr(fit, "components_")}
    rows = {"sensitive_features": table.groups, "sample_weight": table.weights, "blocks": blocks}
    crossed = cross_fit(
        table.folds if table.X is None else table.X,
        n_components=r,
        fits={name: fit for name, fit in again.items() if hasattr(fit, "fit_moments")},
        unseen=2 < k <= _MOST_UNSEEN,
        random_state=seed,
        **({} if table.X is None else rows),
    )
    if len(crossed.unchecked) == k:
        return [], [], "no group has rows enough in all folds."
    found, n, new = (groups, crossed.variances), table.folds[0].n_features, []
    numbers = zip(crossed.errors, crossed.losses, crossed.total_errors.tolist(), strict=True)
    lines = [metrics.filled(*found, e[0], loss[0], total[0], n) for e, loss, total in numbers]
    for f, name in enumerate(crossed.fits):
        gain, change = crossed.improvement(name), crossed.change(name)
        ends: dict[str, Any] = {"change_low": change.low, "change_high": change.high}
        ends |= {"gain_low": float(gain.low), "gain_high": float(gain.high)}
        ends |= {"low": crossed.low[f, 0], "high": crossed.high[f, 0]}
        new.append(_finding("new", name, r, lines[f], lines[0], **ends))
    if (away := crossed.unseen) is None:
        return new, [], ""
    pairs = zip(away.errors, away.losses, strict=True)
    lines = [metrics.filled(*found, e[0], loss[0], np.nan, n) for e, loss in pairs]
    unseen = zip(away.fits, lines, strict=True)
    return new, [_finding("unseen", name, r, line, lines[0]) for name, line in unseen], ""


def block_columns(table: Any) -> list[str]:
    """Return the names of columns that look like lists of blocks: ids that repeat.

    Rows of one person, month or utterance belong together; dealt into different folds they make
    intervals too narrow. Pass the columns that are no features, or a whole table: of that only
    those with a name like "id" or "patient" count.

    Parameters
    ----------
    table : frame of any library

    Examples
    --------
    >>> import pandas as pd
    >>> from fairpca.auditing import block_columns
    >>> block_columns(pd.DataFrame({"patient_id": [i // 3 for i in range(90)], "age": range(90)}))
    ['patient_id']
    """
    frame = _check.framed(table, "X")
    if not isinstance(frame, nw.DataFrame):
        return []
    named = [str(name) for name in frame.columns if _LIKE_AN_ID.search(str(name))]
    return [n for n in named if _FEW_BLOCKS <= frame[n].n_unique() <= len(frame) / 2]


def audit_model(
    model: LinearReducer,
    X: Rows,
    sensitive_features: Labels,
    *,
    sample_weight: Weights = None,
    group_by: str = "intersection",
) -> ModelAudit:
    """Measure a fitted model on rows it has not seen.

    Parameters
    ----------
    model : fitted estimator
        With `components_`, and `mean_` if it subtracts one.
    X : array-like or sparse matrix of shape (m, n)
        New rows, prepared as those the model was fitted to.
    sensitive_features : array-like, Series, frame or dict
        One label per row, or several columns of labels.
    sample_weight, group_by
        As in `fairpca.audit`.

    Returns
    -------
    ModelAudit

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca import FairPCA
    >>> from fairpca.auditing import audit_model
    >>> rng = np.random.default_rng(0)
    >>> X, labels = rng.normal(size=(200, 4)) * [3, 2, 1, 1], np.arange(200) % 2
    >>> model = FairPCA(2).fit(X[:100], sensitive_features=labels[:100])
    >>> audit_model(model, X[100:], labels[100:]).error.round(1).tolist()
    [1.8, 2.3]
    """
    how: Any = {"sample_weight": sample_weight, "group_by": group_by}
    found = metrics.findings(model, X, sensitive_features=sensitive_features, **how)
    names = Groups.from_labels(sensitive_features, group_by=group_by).names
    groups, r = _group_rows(found, names, group_by), len(model.components_)
    return ModelAudit(n_components=r, groups=groups, group_columns=tuple(names), **vars(found))


def _group_rows(
    found: metrics.Findings, names: Sequence[str], group_by: str
) -> tuple[GroupRow, ...]:
    """Return the groups of findings by their labels as given and as shown."""
    texts = label_texts(found.labels, names, group_by)
    lines = zip(found.labels, texts, found.rows.tolist(), found.variance.tolist(), strict=True)
    return tuple(GroupRow(*line) for line in lines)
