"""The audit: PCA beside FairPCA, for every group and over the number of components."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_array

from fairpca._checks import check_choice, check_rank, check_weights
from fairpca._linalg import FloatArray, rounding_level
from fairpca.auditing.candidates import (
    FEW_GROUPS,
    Candidate,
    Table,
    fair_candidates,
    fitted_rank,
    given_candidates,
    left_out_groups,
    named_reducers,
    pca_candidates,
)
from fairpca.auditing.downstream import held_out_scores
from fairpca.auditing.findings import Audit, Finding, GroupRow
from fairpca.auditing.provenance import provenance
from fairpca.auditing.resample import Intervals, group_intervals, group_members
from fairpca.auditing.verdict import label_texts, reader_warnings
from fairpca.covariances.eigenpairs import leading_pairs
from fairpca.estimator import FairPCA
from fairpca.metrics import kept_variance
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.groups import Groups
from fairpca.solvers.solution import Certificate


def audit(
    X: Any,
    sensitive_features: Any = None,
    n_components: int | float | None = None,
    *,
    reducers: Any = None,
    y: Any = None,
    ranks: Sequence[int] | None = None,
    sample_weight: Any = None,
    group_by: str = "intersection",
    unlabelled: str = "error",
    n_bootstrap: int = 200,
    level: float = 0.95,
    leave_one_out: bool | None = None,
    min_group_size: int = 30,
    random_state: int = 0,
) -> Audit:
    """Find out whom a projection serves.

    For every group: size, variance, reconstruction error, loss against the group's own PCA and
    share of variance kept, under PCA and FairPCA (and any linear reducer given), over a range of
    numbers of components; with bootstrap intervals, the price of fairness, what each group would
    get from a projection fitted without it, and a bound no projection goes below.

    Parameters
    ----------
    X : array-like of shape (m, n), or GroupMoments
        The columns as the reducer sees them: standardise first if you would for PCA. Moments give
        everything except intervals and `y`.
    sensitive_features : array-like, Series, frame or dict
        One label per row, or several columns of labels.
    n_components : int or float, optional
        The number of components asked about. A float in (0, 1): the fewest with which FairPCA
        keeps that share of every group's variance. Default: those of the first fitted reducer
        given, otherwise 2.
    reducers : estimator, list or dict of estimators, optional
        Looked at beside PCA and FairPCA: fitted ones with `components_` as they are, others
        fitted here for every number of components.
    y : array-like of shape (m,), optional
        A target: held-out scores, by group, of a linear model on the projected rows.
    ranks : sequence of int, optional
        Numbers of components to look at; by default a range around `n_components`, with more
        than 40 groups `n_components` alone.
    sample_weight : array-like of shape (m,), optional
        Weight 2 is the row twice.
    group_by : {"intersection", "marginal"}, default="intersection"
        As in `FairPCA`.
    unlabelled : {"error", "ignore"}, default="error"
        As in `FairPCA`.
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
        Seed of the bootstrap and of the split behind `y`.

    Returns
    -------
    Audit

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.auditing import audit
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(size=(90, 3)) * [3, 1, 1], rng.normal(size=(40, 3)) * [1, 3, 1]])
    >>> found = audit(X, ["many"] * 90 + ["few"] * 40, n_components=1)
    >>> found.groups[found.at("PCA").worst].text
    'few'
    >>> found.at("FairPCA").worst_loss < found.at("PCA").worst_loss
    True
    """
    _check(n_bootstrap, level, min_group_size, group_by)
    table = _read(X, sensitive_features, sample_weight, group_by, unlabelled, y)
    named = named_reducers(reducers)
    r = _asked(n_components, named, table)
    ranks = _ranks(ranks, r, named, table.target)
    candidates = [
        *pca_candidates(table.moments, ranks),
        *fair_candidates(table.target.covariances, ranks, r),
        *given_candidates(named, table, ranks),
    ]
    intervals = group_intervals(
        table, candidates, r, n_replicates=n_bootstrap, level=level, seed=random_state
    )
    findings = _measure(table, candidates, intervals)
    fair = next(c for c in candidates if c.reducer == "FairPCA" and c.n_components == r)
    groups = _group_rows(table, min_group_size)
    return Audit(
        n_components=r,
        ranks=tuple(ranks),
        reducers=("PCA", "FairPCA", *(name for name, _ in named)),
        groups=groups,
        group_columns=tuple(table.target.names),
        group_by=group_by,
        findings=tuple(findings),
        left_out=left_out_groups(table, findings, fair, leave_one_out),
        scores=_scores(table, [c for c in candidates if c.n_components == r], random_state),
        warnings=reader_warnings(table, groups, fair, intervals, min_group_size),
        provenance=_provenance(
            table,
            n_components=n_components,
            ranks=list(ranks),
            group_by=group_by,
            unlabelled=unlabelled,
            n_bootstrap=n_bootstrap,
            level=level,
            min_group_size=min_group_size,
            random_state=random_state,
        ),
        moments=table.moments,
        bases={(c.reducer, c.n_components): c.basis for c in candidates},
    )


def _check(n_bootstrap: int, level: float, min_group_size: int, group_by: str) -> None:
    check_choice("group_by", group_by, ("intersection", "marginal"))
    if n_bootstrap < 0:
        raise ValueError(f"n_bootstrap={n_bootstrap} must be zero or more.")
    if not 0 < level < 1:
        raise ValueError(f"level={level} must be between 0 and 1, for example 0.95.")
    if min_group_size < 0:
        raise ValueError(f"min_group_size={min_group_size} must be zero or more.")


def _read(
    X: Any, labels: Any, sample_weight: Any, group_by: str, unlabelled: str, y: Any
) -> Table:
    """Validate rows and labels and count the moments."""
    if isinstance(X, GroupMoments):
        if y is not None:
            raise ValueError("y needs rows and X holds moments only; pass the rows as X.")
        table = Table(None, None, None, None, X, X.grouped(group_by), group_by)
    else:
        if labels is None:
            raise ValueError(
                "sensitive_features=None: an audit compares groups; pass one label per row."
            )
        rows = check_array(X, dtype=[np.float64, np.float32], ensure_min_samples=2, input_name="X")
        groups = Groups.from_labels(
            labels, n_rows=len(rows), group_by=group_by, unlabelled=unlabelled
        )
        weights = check_weights(sample_weight, len(rows))
        moments = GroupMoments.from_array(rows, groups, sample_weight=weights)
        if y is not None and len(y) != len(rows):
            raise ValueError(f"y has {len(y)} entries and X has {len(rows)} rows.")
        target = moments.grouped(group_by)
        table = Table(rows, labels, groups, weights, moments, target, group_by, y)
    if len(table.target.labels) < 2:
        raise ValueError(
            f"sensitive_features has {len(table.target.labels)} group(s), "
            f"{table.target.labels!r}; an audit compares at least two."
        )
    if np.any(table.target.weight <= 0):
        empty = table.target.labels[int(np.argmin(table.target.weight))]
        raise ValueError(f"sample_weight is zero for every row of group {empty!r}; drop it.")
    return table


def _asked(n_components: int | float | None, named: list[tuple[str, Any]], table: Table) -> int:
    """Return the number of components asked about."""
    n = table.target.n_features
    if n_components is None:
        fitted = [rank for _, reducer in named if (rank := fitted_rank(reducer)) is not None]
        return fitted[0] if fitted else min(2, n)
    if isinstance(n_components, float):
        model = FairPCA(n_components, group_by=table.group_by)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return int(model.fit_moments(table.moments).n_components_)
    check_rank(n_components, n)
    return int(n_components)


def _ranks(
    ranks: Sequence[int] | None, r: int, named: list[tuple[str, Any]], target: GroupMoments
) -> list[int]:
    """Return the numbers of components to look at: always `r`, and those of fitted reducers."""
    n = target.n_features
    wanted = {r, *(rank for _, reducer in named if (rank := fitted_rank(reducer)) is not None)}
    if ranks is not None:
        for rank in ranks:
            check_rank(rank, n)
        return sorted(wanted | {int(rank) for rank in ranks})
    # Fewer points where each of them costs more: a decomposition grows with the cube of n, and
    # with many groups the proof stays open and the search for a better projection is long.
    most = 24 if n <= 64 else 12 if n <= 512 else 8
    if len(target.labels) > FEW_GROUPS:
        most = 4 if len(target.labels) <= 2 * FEW_GROUPS else 0
    if most == 0:
        return sorted(wanted)
    top = max(min(n - 1, max(3 * r, most)), 1)
    grid = np.geomspace(1, top, most) if top > most else np.arange(1, top + 1)
    return sorted(wanted | {round(float(value)) for value in grid})


def _measure(table: Table, candidates: list[Candidate], intervals: Intervals) -> list[Finding]:
    """Return what every candidate does to every group."""
    covariances = table.target.covariances
    total = table.moments.pooled().covariances[0]
    traces = np.trace(covariances, axis1=1, axis2=2)
    rounding = rounding_level(float(traces.max()), len(total))
    highest = max(c.n_components for c in candidates)
    own = np.cumsum([leading_pairs(S, highest).values for S in covariances], axis=1)
    bounds = {c.n_components: c.certificate for c in candidates if c.certificate is not None}
    base: dict[int, tuple[float, float]] = {}
    findings = []
    for position, candidate in enumerate(candidates):
        r = candidate.n_components
        kept = kept_variance(candidate.basis, covariances)
        loss = own[:, r - 1] - kept
        loss[loss <= rounding] = 0.0
        left = float(np.trace(total) - kept_variance(candidate.basis, total[None])[0])
        worst = float(loss.max())
        # PCA comes first in the list: it is what the others are set against.
        base.setdefault(r, (max(left, 0.0), worst))
        pca_error, pca_worst = base[r]
        certificate = candidate.certificate
        if certificate is None:
            certificate = _certificate(bounds[r], worst, traces, len(total))
        findings.append(
            Finding(
                reducer=candidate.reducer,
                n_components=r,
                loss=loss,
                error=np.maximum(traces - kept, 0.0),
                share=np.divide(kept, traces, out=np.ones_like(kept), where=traces > 0),
                total_error=max(left, 0.0),
                price=_excess(left, pca_error, float(np.trace(total))),
                certificate=certificate,
                cut=0.0 - _excess(worst, pca_worst, float(traces.max())),
                intervals=intervals.measures.get(position, {}),
                cut_interval=intervals.cuts.get(position),
            )
        )
    return findings


def _certificate(
    bound: Certificate, value: float, traces: FloatArray, n_features: int
) -> Certificate:
    """Set another projection's worst loss against the bound the fair solver proved."""
    scale = float(traces.max())
    return Certificate.of(bound.lower_bound, value, scale=scale, n_features=n_features)


def _excess(value: float, base: float, scale: float) -> float:
    """Return value / base - 1, and zero where both are rounding."""
    if base <= 1e-12 * scale or not math.isfinite(base):
        return 0.0
    return value / base - 1.0


def _group_rows(table: Table, min_group_size: int) -> tuple[GroupRow, ...]:
    target = table.target
    texts = label_texts(target.labels, target.names, table.group_by)
    traces = np.trace(target.covariances, axis1=1, axis2=2)
    return tuple(
        GroupRow(
            label=label,
            text=text,
            count=int(count),
            weight=float(weight),
            variance=float(trace),
            small=bool(count < min_group_size),
        )
        for label, text, count, weight, trace in zip(
            target.labels, texts, target.count, target.weight, traces, strict=True
        )
    )


def _scores(table: Table, candidates: list[Candidate], seed: int) -> dict[str, Any]:
    if table.y is None or table.X is None or table.groups is None:
        return {}
    centred = table.X - table.moments.pooled().mean[0]
    projected = {c.reducer: centred @ c.basis for c in candidates}
    rows = group_members(table)
    return held_out_scores(projected, table.y, rows, seed=seed)


def _provenance(table: Table, **parameters: Any) -> dict[str, Any]:
    if table.X is None or table.groups is None:
        arrays: list[Any] = [table.moments.weight, table.moments.mean, table.moments.scatter]
    else:
        arrays = [table.X, table.groups.codes, table.weights]
    parameters["rows"] = int(table.moments.count.sum())
    parameters["features"] = table.target.n_features
    found: dict[str, Any] = provenance(arrays, map(repr, table.moments.labels), **parameters)
    return found
