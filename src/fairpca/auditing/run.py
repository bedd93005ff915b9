"""The audit: PCA beside FairPCA, for every group, on new rows and over the number of components.

One function does it, in this order: read rows and labels into moments, decide which numbers of
components to look at, collect the projections, resample, measure every projection for every
group, leave rows out to see what new ones would get, and put everything into one `Audit`. Numbers
of the rows in hand come from one `MomentCovariances`, which knows what mean they are about; so
they are those of ``FairPCA`` with the same `center`. Those of new rows are `fairpca.cross_fit`'s.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from numbers import Integral
from typing import Any

import narwhals.stable.v2 as nw
import numpy as np
from sklearn.base import clone
from sklearn.model_selection import train_test_split

from fairpca import metrics
from fairpca._check import (
    check_at_least,
    check_choice,
    check_counted,
    check_groups,
    check_names,
    check_rank,
    check_weights,
    framed,
    is_share,
)
from fairpca._arrays import FloatArray, fetched, is_sparse, rounding_level
from fairpca.auditing.candidates import (
    FEW_GROUPS,
    Candidate,
    Table,
    fair_candidates,
    fitted_rank,
    given_candidates,
    left_out_groups,
    pca_candidates,
)
from fairpca.auditing.findings import (
    Audit,
    Finding,
    GroupRow,
    ModelAudit,
    NewFinding,
    NewRows,
    data_hash,
)
from fairpca.auditing.resample import Intervals, group_intervals
from fairpca.auditing.verdict import SHRUNK, reader_warnings
from fairpca.covariances.dense import leading_pairs
from fairpca.covariances.sources import CENTERS, MomentCovariances, dense_if_wide, in_span, is_wide
from fairpca.cross_fitting import cross_fit, usual_fits
from fairpca.estimator import FairPCA
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.groups import Groups, warn_of_measurements
from fairpca.moments.memory import check_fits
from fairpca.persistence import versions
from fairpca.solvers.solution import Certificate

# Numbers of components that are looked at by default, by the number of columns: fewer where each
# costs more, since a decomposition grows with the cube of the columns.
_RANKS_BY_COLUMNS = ((64, 24), (512, 12), (math.inf, 8))
# The same above FEW_GROUPS and above twice as many: with many groups the proof stays open and the
# search for a better projection is long.
_RANKS_OF_MANY_GROUPS = (4, 0)
# A value below this share of the scale of the problem is rounding, and no base for a ratio.
_NOTHING = 1e-12
# What every audit compares: the fits of `usual_fits`, in their order.
_USUAL = ("PCA", "FairPCA", SHRUNK)
# Means whose squared distance is below this share of the variance are one, but for rounding.
_SAME_MEAN = 1e-9


def audit(
    X: Any,
    sensitive_features: Any = None,
    n_components: int | float | None = None,
    *,
    reducers: Any = None,
    y: Any = None,
    target: str = "auto",
    ranks: Sequence[int] | None = None,
    sample_weight: Any = None,
    center: str = "global",
    group_by: str = "intersection",
    unlabelled: str = "error",
    n_folds: int = 5,
    n_repeats: int | None = None,
    n_bootstrap: int = 200,
    level: float = 0.95,
    leave_one_out: bool | None = None,
    min_group_size: int = 30,
    random_state: int = 0,
) -> Audit:
    """Find out whom a projection serves.

    First for new rows: what every group loses and by how much it errs on rows that were left out
    of the fit, under PCA, FairPCA and ``FairPCA(shrinkage="auto")``, and which of them to fit.

    Then for the rows in hand, for every group: size, variance, reconstruction error, loss against
    the group's own PCA and share of variance kept, under the same three (and any linear reducer
    given), over a range of numbers of components; with bootstrap intervals, the price of fairness,
    what each group would get from a projection fitted without it, and a bound no projection goes
    below.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (m, n), GroupMoments, or sequence of GroupMoments
        The columns as the reducer sees them: standardise first if you would for PCA. Moments give
        everything except intervals and `y`; those of all rows together say nothing about new
        rows, those of every fold, in a list, do.
    sensitive_features : array-like, Series, frame or dict
        One label per row, or several columns of labels.
    n_components : int or float, optional
        The number of components asked about. A float in (0, 1): the fewest with which FairPCA
        keeps that share of every group's variance. Default: those of the first fitted reducer
        given, otherwise 2.
    reducers : estimator, list or dict of estimators, optional
        Looked at beside PCA and FairPCA: fitted ones with `components_` as they are, but about
        the mean of these rows (`audit_model` measures one about its own), others fitted here for
        every number of components, such as
        ``{"balanced PCA": fairpca.methods.BalancedPCA()}``. New rows are known of those only that
        can be fitted to moments: unfitted FairPCA and BalancedPCA.
    y : array-like of shape (m,), optional
        A target: held-out scores, by group, of a linear model on the projected rows.
    target : {"auto", "classes", "numbers"}, default="auto"
        What `y` holds: classes (logistic regression, accuracy) or numbers (ridge regression, R
        squared). "auto" takes text, truth values and up to 20 distinct whole numbers for classes,
        as long as there are at least five rows for each, and everything else for numbers. Two
        distinct whole numbers are always classes.
    ranks : sequence of int, optional
        Numbers of components to look at; by default a range around `n_components`, with more
        than 40 groups `n_components` alone.
    sample_weight : array-like of shape (m,), optional
        Weight 2 is the row twice.
    center : {"global", "group"}, default="global"
        What variances, errors, losses and shares of a group are about, for every reducer: the mean
        of all rows, as in `FairPCA`, or the group's own mean. With "global" an error is the mean
        squared distance between the group's rows and what ``inverse_transform(transform(X))`` of a
        PCA-like reducer fitted to all of them gives back. With "group" nothing tells how far the
        group's mean is from that of all rows; the published experiments are measured so.
    group_by : {"intersection", "marginal"}, default="intersection"
        As in `FairPCA`.
    unlabelled : {"error", "ignore"}, default="error"
        As in `FairPCA`.
    n_folds : int, default=5
        Folds that rows are dealt into for what new rows get; 0 leaves new rows out. With
        ``center="group"`` they are always left out: losses about a group's own mean say nothing
        about what is rebuilt of its new rows.
    n_repeats : int, optional
        How often rows are dealt into folds, each time with new fits: what new rows get is the
        mean. By default 5 times with up to 200 columns and 20 groups, and once with more. Once
        takes a fifth of the time, and leaves more to chance.
    n_bootstrap : int, default=200
        Replicates behind the intervals; 0 for none.
    level : float, default=0.95
        Share of replicates inside an interval.
    leave_one_out : bool, optional
        Whether to fit without each group in turn; by default with up to 20 groups, where
        that is cheap.
    min_group_size : int, default=30
        Groups with fewer rows are named in a warning.
    random_state : int, default=0
        Seed of the folds, of the bootstrap and of the split behind `y`.

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
    >>> found.new_rows.advised.reducer
    'FairPCA'
    """
    _check_choices(center, group_by, target)
    _check(n_bootstrap, level, min_group_size, n_folds, n_repeats)
    named = metrics.named_reducers(reducers, reserved=_USUAL)
    fitted = _fitted_ranks(named, X)
    largest = _largest(n_components, ranks, fitted)
    table = _read(X, sensitive_features, sample_weight, center, group_by, unlabelled, y, largest)
    r = _asked(n_components, fitted, table)
    ranks = _ranks(ranks, {r, *fitted}, r, table.source.covariances)
    candidates = [
        *pca_candidates(table.moments, ranks),
        *fair_candidates(table, ranks, r),
        *fair_candidates(table, ranks, r, shrinkage="auto"),
        *given_candidates(named, table, ranks),
    ]
    intervals = group_intervals(
        table, candidates, r, n_replicates=n_bootstrap, level=level, seed=random_state
    )
    findings = _measure(table, candidates, intervals)
    asked = [c for c in candidates if c.n_components == r]
    fair = next(c for c in asked if c.reducer == "FairPCA")
    known = table.source.groups
    groups = GroupRow.rows(known, known.traces, group_by, min_group_size)
    new_rows, unknown = _new_rows(table, named, r, n_folds, n_repeats, random_state)
    parameters = {
        "n_components": n_components,
        "ranks": ranks,
        "target": target,
        "center": center,
        "group_by": group_by,
        "unlabelled": "ignore" if _lets_unlabelled_in(table) else unlabelled,
        "weighted": table.weights is not None,
        # What was done, where rows were dealt out: the defaults depend on the table.
        "n_folds": new_rows.n_folds if new_rows else n_folds,
        "n_repeats": new_rows.n_repeats if new_rows else n_repeats,
        "n_bootstrap": n_bootstrap,
        "level": level,
        "min_group_size": min_group_size,
        "random_state": random_state,
    }
    return Audit(
        n_components=r,
        ranks=tuple(ranks),
        reducers=(*_USUAL, *named),
        groups=groups,
        group_columns=tuple(table.moments.names),
        group_by=group_by,
        findings=tuple(findings),
        center=center,
        new_rows=new_rows,
        left_out=left_out_groups(table, findings, r, leave_one_out),
        scores=_scores(table, asked, target, random_state),
        warnings=(
            *reader_warnings(groups, fair, table, intervals, min_group_size, unknown),
            *_of_other_rows(named, table),
        ),
        provenance=_provenance(X, table, parameters),
        moments=table.moments,
        bases={(c.reducer, c.n_components): c.basis for c in candidates},
        span=table.span,
    )


def _largest(n_components: Any, ranks: Any, fitted: list[int]) -> int:
    """Return the largest number of components that is asked for; ValueError for other `ranks`."""
    if ranks is not None and not isinstance(ranks, Iterable):
        raise ValueError(f"ranks={ranks!r} must be several numbers of components, such as [2, 5].")
    asked = [n_components, *(() if ranks is None else ranks)]
    # What is no whole number is a share, or refused later.
    return max([1, *fitted, *(int(r) for r in asked if isinstance(r, int | np.integer))])


def _check_choices(center: str, group_by: str, target: str) -> None:
    check_choice("center", center, CENTERS)
    check_choice("group_by", group_by, ("intersection", "marginal"))
    check_choice("target", target, metrics.TARGETS)


def _fitted_ranks(named: dict[str, Any], X: Any) -> list[int]:
    """Return the numbers of components of the reducers that are fitted, to the columns of X."""
    for reducer in named.values():
        check_names(reducer, X)
    return [rank for rank in map(fitted_rank, named.values()) if rank is not None]


def _of_other_rows(named: dict[str, Any], table: Table) -> Iterator[str]:
    """Yield a warning for every reducer that subtracts another mean than that of these rows."""
    for name, reducer in named.items():
        # A matrix of components says nothing about a mean; what was fitted without one has none.
        fitted = hasattr(reducer, "components_")
        mean = getattr(reducer, "mean_", np.zeros(table.n_features) if fitted else None)
        if mean is None or table.source.center == "group":
            continue
        apart = table.mean - np.asarray(fetched(mean), dtype=float)
        if apart @ apart > _SAME_MEAN * table.source.total.trace:
            yield (
                f"{name} subtracts another mean than that of these rows, about which all are "
                "measured here; fairpca.auditing.audit_model measures it about its own."
            )


def _lets_unlabelled_in(table: Table) -> bool:
    """Whether a table is known by moments in which rows lack a label, or one of several."""
    parts = [label if isinstance(label, tuple) else (label,) for label in table.moments.labels]
    return table.X is None and any(None in part for part in parts)


def _provenance(X: Any, table: Table, parameters: dict[str, Any]) -> dict[str, Any]:
    """Return where the numbers come from: versions, a hash of the data, options, columns."""
    content: list[Any] = [table.moments.weight, table.moments.mean, table.moments.scatter]
    if table.groups is not None:
        rows: Any = table.given
        parts = [rows.data, rows.indices, rows.indptr] if is_sparse(rows) else [rows]
        content = [*parts, table.groups.codes, table.weights]
    digest = data_hash(content, map(repr, table.moments.labels))
    size = {"rows": int(table.moments.count.sum()), "features": table.n_features}
    parameters = {**parameters, **size}
    found = {"versions": versions(), "data_sha256": digest, "parameters": parameters}
    frame = framed(X, "X")
    if isinstance(frame, nw.DataFrame):
        # Where the command line names its columns, too.
        found["source"] = {"features": [str(name) for name in frame.columns]}
    return found


def _check(
    n_bootstrap: int, level: Any, min_group_size: int, n_folds: Any, n_repeats: int | None
) -> None:
    check_at_least("n_bootstrap", n_bootstrap, 0)
    check_at_least("min_group_size", min_group_size, 0)
    check_at_least("n_repeats", 1 if n_repeats is None else n_repeats, 1)
    if not isinstance(level, float | np.floating) or not 0 < level < 1:
        raise ValueError(f"level={level!r} must be between 0 and 1, for example 0.95.")
    if not isinstance(n_folds, Integral) or n_folds < 0 or n_folds == 1:
        raise ValueError(f"n_folds={n_folds!r} must be at least 2, or 0 to leave new rows out.")


def _read(
    X: Any,
    labels: Any,
    sample_weight: Any,
    center: str,
    group_by: str,
    unlabelled: str,
    y: Any,
    largest: int,
) -> Table:
    """Return validated rows and labels, and their moments.

    Arguments are those of `audit`, and the largest number of components that is asked for.
    """
    folds = None
    if isinstance(X, list | tuple) and X and all(isinstance(part, GroupMoments) for part in X):
        folds = list(X)
        X = reduce(GroupMoments.merge, folds)
    if isinstance(X, GroupMoments):
        if y is not None:
            raise ValueError("y needs rows and X holds moments only; pass the rows as X.")
        check_counted(labels, sample_weight)
        source = MomentCovariances(X, group_by, center)
        table = Table(X, source, group_by, folds=folds)
    else:
        if labels is None:
            raise ValueError(
                "sensitive_features=None: an audit compares groups; pass one label per row."
            )
        rows = metrics.as_rows(X, ensure_min_samples=2)
        m, n = rows.shape
        groups = Groups.from_labels(labels, n_rows=m, group_by=group_by, unlabelled=unlabelled)
        warn_of_measurements(groups)
        weights = check_weights(sample_weight, m)
        counted, span = dense_if_wide(rows, largest), None
        if is_wide(counted, largest):
            counted, span = in_span(counted, groups, weights)
        else:
            remedy = "choose columns, such as the most variable ones"
            check_fits(n, len(groups.cells()[2]), f"the groups of {n:,} columns", remedy)
        moments = GroupMoments.from_array(counted, groups, sample_weight=weights)
        if y is not None and np.shape(y) != (m,):
            raise ValueError(f"y has shape {np.shape(y)} but X has {m} rows.")
        source = MomentCovariances(moments, group_by, center)
        table = Table(
            moments,
            source,
            group_by,
            counted,
            labels,
            groups,
            weights,
            y,
            given=rows,
            span=span,
        )
    known = source.groups.labels
    if len(known) < 2:
        what = f"one group only, {known[0]!r}" if known else "no labels"
        raise ValueError(f"sensitive_features has {what}; an audit compares at least two groups.")
    check_groups(known, source.groups.weight)
    return table


def _asked(n_components: int | float | None, fitted: list[int], table: Table) -> int:
    """Return the number of components asked about; by default the first of the `fitted` ones."""
    n = table.moments.n_features
    if n_components is None:
        return fitted[0] if fitted else min(2, n)
    if is_share(n_components):
        model = FairPCA(n_components, group_by=table.group_by, center=table.source.center)
        # The audit solves this rank again, and says what is open or noise.
        with warnings.catch_warnings(action="ignore"):
            return int(model.fit_moments(table.moments).n_components_)
    check_rank(n_components, n)
    return int(n_components)


def _ranks(
    ranks: Sequence[int] | None, wanted: set[int], r: int, covariances: FloatArray
) -> list[int]:
    """Return the numbers of components to look at, increasing, `wanted` ones among them.

    Where the user gave none, a range from 1 to three times `r` at least, as far as the size of the
    covariances makes that affordable.
    """
    k, n, _ = covariances.shape
    if ranks is not None:
        for rank in ranks:
            check_rank(rank, n)
        return sorted(wanted | {int(rank) for rank in ranks})
    most = next(most for columns, most in _RANKS_BY_COLUMNS if n <= columns)
    if k > FEW_GROUPS:
        most = _RANKS_OF_MANY_GROUPS[k > 2 * FEW_GROUPS]
    top = max(min(n - 1, max(3 * r, most)), 1)
    # Every number where they are few; otherwise evenly on a logarithmic scale, since losses change
    # most at the first components. With very many groups there are none beside those wanted.
    grid = np.geomspace(1, top, most) if top > most else np.arange(1, top + 1)
    return sorted(wanted | {round(float(value)) for value in grid})


def _measure(table: Table, candidates: list[Candidate], intervals: Intervals) -> list[Finding]:
    """Return what every candidate does to every group, in their order.

    PCA must come first, since price and cut are set against it, and FairPCA be there at every
    rank, since its bound holds for all others.
    """
    covariances, traces = table.source.covariances, table.source.groups.traces
    total_trace, scale = table.source.total.trace, float(traces.max())
    highest = max(c.n_components for c in candidates)
    own = np.cumsum([leading_pairs(S, highest).values for S in covariances], axis=1)
    rounding = rounding_level(scale, table.moments.n_features)
    bounds = {c.n_components: c.certificate for c in candidates if c.certificate is not None}
    base: dict[int, tuple[float, float]] = {}
    findings = []
    for position, candidate in enumerate(candidates):
        r = candidate.n_components
        kept = metrics.kept_variance(candidate.basis, covariances)
        loss, error = _settled(np.maximum([own[:, r - 1] - kept, traces - kept], 0.0), rounding)
        worst = float(loss.max())
        of_all = float(np.trace(table.source.total_compression(candidate.basis)))
        left = float(_settled(max(total_trace - of_all, 0.0), rounding))
        ends = intervals.measures.get(position, {})
        # PCA comes first in the list: it is what the others are set against.
        pca_error, pca_worst = base.setdefault(r, (left, worst))
        findings.append(
            Finding(
                reducer=candidate.reducer,
                n_components=r,
                loss=loss,
                error=error,
                # Nothing is missing where the error is none.
                share=np.where(error > 0, metrics.share_of(kept, traces), 1.0),
                total_error=left,
                price=_excess(left, pca_error, total_trace),
                cut=0.0 - _excess(worst, pca_worst, scale),
                # The bound the fair solver proved holds for every projection of the same rank.
                certificate=candidate.certificate
                or Certificate.of(bounds[r].lower_bound, worst, scale=scale, resolution=rounding),
                intervals={name: _settled(pair, rounding) for name, pair in ends.items()},
                cut_interval=intervals.cuts.get(position),
            )
        )
    return findings


def _new_rows(
    table: Table, named: dict[str, Any], r: int, n_folds: int, n_repeats: int | None, seed: int
) -> tuple[NewRows | None, str | None]:
    """Return what every group gets on rows left out of the fit, or why that is not known.

    Of the reducers given, those join that can be fitted to moments about the mean of all rows.
    """
    groups, folds = table.source.groups, table.folds
    if folds is not None and n_folds:
        n_folds = sum(bool(fold.weight.any()) for fold in folds)
    if not n_folds:
        return None, "New rows were not checked, because no folds were asked for."
    if table.source.center == "group":
        return None, "New rows are checked only where losses are about the mean of all rows."
    if table.X is None and folds is None:
        return None, (
            "New rows cannot be checked from moments of all rows together: count them in folds, "
            "for example with n_folds=5 of read_moments, and pass the list."
        )
    if n_folds < 2:
        return None, "New rows cannot be checked with a single fold; count rows in two or more."
    if groups.count.max() < n_folds:
        return None, f"No group has the {n_folds} rows that a check on new rows needs."
    usual = zip(_USUAL, usual_fits(), strict=True)
    fits = {name: fit.set_params(group_by=table.group_by) for name, fit in usual}
    for name, reducer in named.items():
        counted = hasattr(reducer, "fit_moments") and fitted_rank(reducer) is None
        if not counted or reducer.center != "global":
            continue
        if "group_by" in reducer.get_params():
            fits[name] = clone(reducer).set_params(group_by=table.group_by)
        elif table.group_by == "intersection":
            fits[name] = clone(reducer)
    found = cross_fit(
        table.X if folds is None else folds,
        table.groups,
        r,
        fits=fits,
        n_folds=n_folds,
        n_repeats=n_repeats,
        sample_weight=table.weights,
        random_state=seed,
    )
    if len(found.unchecked) == len(found.groups):
        return None, (
            f"New rows cannot be checked: no group has {n_folds} rows with weight in more than "
            "one fold. Deal the rows of every group into all folds."
        )
    worst = found.worst()
    rounding = rounding_level(float(groups.traces.max()), table.moments.n_features)
    findings = []
    for f, name in enumerate(fits):
        gain, errors = found.improvement(name, "PCA"), found.errors[f, 0]
        total = float(found.total_errors[f, 0])
        losses = [part[f, 0] for part in (found.losses, found.low, found.high)]
        ends = [part[f, 0] for part in (worst.value, worst.low, worst.high)]
        groupwise = _settled([*losses, errors], rounding)
        overall = _settled([total, *ends, gain.value, gain.low, gain.high], rounding).tolist()
        findings.append(NewFinding(name, *groupwise, *overall))
    return NewRows(n_folds, tuple(findings), len(found.fold_losses)), None


def _settled(values: Any, rounding: float) -> FloatArray:
    """Return the values; below the rounding of the sums they have no digits, and no sign."""
    return np.where(np.abs(values) <= rounding, 0.0, values)


def _excess(value: float, base: float, scale: float) -> float:
    """Return value / base - 1, and zero where the base is rounding at this scale."""
    if base <= _NOTHING * scale or not math.isfinite(base):
        return 0.0
    return value / base - 1.0


def _scores(table: Table, candidates: list[Candidate], target: str, seed: int) -> dict[str, Any]:
    """Fit a linear model on half of the rows, score it on the other, and return `Audit.scores`."""
    if table.y is None or table.X is None:
        return {}
    y, classes = metrics.read_target(table.y, target)
    weight = np.ones(len(y)) if table.weights is None else table.weights
    # A row without weight is as good as none.
    counted = np.flatnonzero(weight)
    # Every class on both sides, where every class has two rows.
    balanced = classes and np.unique(y[counted], return_counts=True)[1].min() >= 2
    train, test = train_test_split(
        counted, test_size=0.5, random_state=seed, stratify=y[counted] if balanced else None
    )
    if classes and len(np.unique(y[train])) < 2:
        raise ValueError(
            "y has one class only in the rows a model is trained on; pass more rows of the other."
        )
    # Where among the held-out rows all of them and those of every group stand.
    place = np.full(len(y), -1)
    place[test] = np.arange(len(test))
    parts = [place[rows][place[rows] >= 0] for rows in (test, *table.members)]
    task = metrics.HeldOut(y, classes, train, test, weight)
    predicted = {"baseline": task.baseline()}
    for candidate in candidates:
        Z = table.projected(candidate.basis)
        predicted[candidate.reducer] = task.predictions(Z[train], Z[test])
    found = {}
    for name, values in predicted.items():
        scores = [task.score(values, part) for part in parts]
        found[name] = {"all": scores[0], "groups": scores[1:]}
    score = "accuracy" if classes else "R squared"
    return {"score": score, "baseline": found.pop("baseline"), "reducers": found}


def audit_model(
    model: Any,
    X: Any,
    sensitive_features: Any,
    *,
    sample_weight: Any = None,
    group_by: str = "intersection",
    unlabelled: str = "error",
    min_group_size: int = 30,
) -> ModelAudit:
    """Measure a fitted model on rows it has not seen.

    Parameters
    ----------
    model : estimator
        With `components_` and `mean_`.
    X : array-like or sparse matrix of shape (m, n)
        New rows, prepared as those the model was fitted to.
    sensitive_features : array-like, Series, frame or dict
        One label per row, or several columns of labels.
    sample_weight, group_by, unlabelled, min_group_size
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
    if not hasattr(model, "components_"):
        raise ValueError(
            f"model={model!r} is no fitted estimator with `components_`; fit it first, or pass an "
            "array of components to fairpca.metrics."
        )
    rows = metrics.as_rows(X, ensure_min_samples=1)
    basis = metrics.basis_of(model)
    metrics.check_columns(model, basis, X, rows.shape[1])
    r = basis.shape[1]
    groups = Groups.from_labels(
        sensitive_features, n_rows=rows.shape[0], group_by=group_by, unlabelled=unlabelled
    )
    # What was fitted without a mean subtracts none.
    mean = np.asarray(fetched(getattr(model, "mean_", np.zeros(rows.shape[1]))), dtype=float)
    rows = dense_if_wide(rows, r)
    if is_wide(rows, r):
        rows, span = in_span(rows, groups, check_weights(sample_weight, len(rows)), mean)
        basis, mean = span.inside(basis), span.coordinates(mean)
    cells = GroupMoments.from_array(rows, groups, sample_weight=sample_weight)
    chosen = cells.grouped(group_by)
    check_groups(chosen.labels, chosen.weight)
    second, whole = chosen.second_moments(mean), cells.pooled().second_moments(mean)
    traces, kept = np.trace(second, axis1=1, axis2=2), metrics.kept_variance(basis, second)
    own = np.array([leading_pairs(matrix, r).values.sum() for matrix in second])
    known = _trained(model, tuple(chosen.names), group_by)
    trained = np.array([known.get(label, (np.nan,) * 3) for label in chosen.labels]).T
    return ModelAudit(
        r,
        tuple(chosen.names),
        GroupRow.rows(chosen, traces, group_by, min_group_size),
        np.maximum(traces - kept, 0.0),
        np.maximum(own - kept, 0.0),
        max(float(np.trace(whole[0]) - metrics.kept_variance(basis, whole)[0]), 0.0),
        *trained,
    )


def _trained(
    model: Any, names: tuple[str, ...], group_by: str
) -> dict[Any, tuple[float, float, float]]:
    """Return rows, error and loss of every group the model remembers from its fit.

    Empty where it was fitted to groups of other columns: a label may well mean another group.
    """
    fitted = tuple(getattr(model, "group_names_", ())), getattr(model, "group_by", group_by)
    if fitted != (names, group_by):
        return {}
    losses = fetched(model.group_losses_)
    if getattr(model, "_losses_about", "global") == "group":
        # About each group's own mean, and so no neighbours of the losses here.
        losses = np.full(len(losses), np.nan)
    columns = (fetched(model.group_counts_), fetched(model.group_errors_), losses)
    return dict(zip(model.groups_, zip(*columns, strict=True), strict=True))
