"""A fitted model on rows it has not seen: what every group gets there.

Nothing is fitted but each group's own PCA, to which the model is compared. Rows are rebuilt
through the mean that the model subtracts, so the errors are those its users meet.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairpca._checks import check_groups, check_weights, require
from fairpca._linalg import FloatArray
from fairpca.auditing.findings import GroupRow, plain
from fairpca.auditing.verdict import components, named, number, percent
from fairpca.covariances.eigenpairs import leading_pairs
from fairpca.metrics import as_rows, basis_of, kept_variance
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.groups import Groups


@dataclass(frozen=True)
class ModelAudit:
    """What a fitted model does to the groups of a table.

    Attributes
    ----------
    n_components, names, groups
        As in `Audit`; the names are those of the label columns.
    error : ndarray of shape (k,)
        Mean squared distance between a group's rows and what the model rebuilds of them.
    loss : ndarray of shape (k,)
        The error, minus that of a PCA of these very rows of the group. Their own PCA knows them
        and the model does not, so the loss is never negative, and of few rows it is large.
    total_error : float
        The error over all rows, unlabelled ones included.
    trained_count, trained_error, trained_loss : ndarray of shape (k,)
        The same on the rows the model was fitted to; NaN where it does not remember the group, or
        remembers losses about another mean.
    """

    n_components: int
    names: tuple[str, ...]
    groups: tuple[GroupRow, ...]
    error: FloatArray
    loss: FloatArray
    total_error: float
    trained_count: FloatArray
    trained_error: FloatArray
    trained_loss: FloatArray

    @property
    def group_columns(self) -> tuple[str, ...]:
        """The label columns, as `Audit` calls them."""
        return self.names

    @property
    def gap(self) -> float:
        """``(worst loss - best loss) / worst loss``; zero where nothing is lost."""
        worst = float(self.loss.max())
        return (worst - float(self.loss.min())) / worst if worst > 0 else 0.0

    def verdict(self) -> str:
        """Return the result in two sentences."""
        worst, best = int(np.argmax(self.loss)), int(np.argmin(self.loss))
        start = f"On these rows the model, with {components(self.n_components)}, "
        if self.gap < 1e-3:
            return f"{start}costs every group the same, {number(self.loss[worst])} per row."
        return (
            f"{start}serves {named(self, worst)} worst: it loses "
            f"{number(self.loss[worst])} per row against a PCA of these rows of its own; "
            f"{named(self, best)} loses {number(self.loss[best])}. The gap is "
            f"{percent(self.gap)} of the worst loss."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists, numbers and strings; None where something is not known."""
        names = ("n_components", "names", "gap", "total_error")
        found: dict[str, Any] = {"kind": "fairpca model audit", "verdict": self.verdict()}
        found |= {name: plain(getattr(self, name)) for name in names}
        return found | {"groups": plain(self.to_frame().to_dict("records"))}

    def to_frame(self) -> Any:
        """Return a pandas frame with one line a group."""
        pandas = require("pandas", extra="app", purpose="ModelAudit.to_frame")
        columns: dict[str, Any] = {
            "group": [group.text for group in self.groups],
            "count": [group.count for group in self.groups],
            "variance": [group.variance for group in self.groups],
        }
        names = ("error", "loss", "trained_count", "trained_error", "trained_loss")
        return pandas.DataFrame(columns | {name: getattr(self, name) for name in names})


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
    X : array-like of shape (m, n)
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
    rows = as_rows(X, accept_sparse=False, ensure_min_samples=1)
    basis = basis_of(model)
    n, r = basis.shape
    if rows.shape[1] != n:
        raise ValueError(
            f"X has {rows.shape[1]} columns and the model was fitted to {n}; pass the same "
            "columns in the same order."
        )
    groups = Groups.from_labels(
        sensitive_features, n_rows=len(rows), group_by=group_by, unlabelled=unlabelled
    )
    weight = check_weights(sample_weight, len(rows))
    cells = GroupMoments.from_array(rows, groups, sample_weight=weight)
    chosen = cells.grouped(group_by)
    check_groups(chosen.labels, chosen.weight)
    second = chosen.second_moments(model.mean_)
    whole = cells.pooled().second_moments(model.mean_)
    traces, kept = np.trace(second, axis1=1, axis2=2), kept_variance(basis, second)
    own = np.array([leading_pairs(matrix, r).values.sum() for matrix in second])
    known = _trained(model, tuple(chosen.names), group_by)
    trained = np.array([known.get(label, (np.nan,) * 3) for label in chosen.labels]).T
    return ModelAudit(
        r,
        tuple(chosen.names),
        GroupRow.rows(chosen, traces, group_by, min_group_size),
        np.maximum(traces - kept, 0.0),
        np.maximum(own - kept, 0.0),
        max(float(np.trace(whole[0]) - kept_variance(basis, whole)[0]), 0.0),
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
    losses = model.group_losses_
    if getattr(model, "center", "global") == "group":
        # About each group's own mean, and so no neighbours of the losses here.
        losses = np.full(len(losses), np.nan)
    columns = (model.group_counts_, model.group_errors_, losses)
    return dict(zip(model.groups_, zip(*columns, strict=True), strict=True))
