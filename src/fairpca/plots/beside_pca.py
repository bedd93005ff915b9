"""The audit behind `from_estimator`: an estimator beside PCA."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sklearn.base import clone

from fairpca.auditing import audit
from fairpca.auditing.findings import Audit


def audit_beside_pca(
    estimator: Any,
    X: Any,
    sensitive_features: Any,
    sample_weight: Any = None,
    *,
    over_ranks: bool = False,
    ranks: Sequence[int] | None = None,
) -> tuple[Audit, str]:
    """Audit a fitted estimator as it is, or clones of it over the number of components.

    Returns
    -------
    audit : Audit
        Without intervals.
    name : str
        What the estimator is called in it.
    """
    name = type(estimator).__name__
    name = f"{name} (given)" if name in ("PCA", "FairPCA") else name
    found = audit(
        X,
        sensitive_features,
        getattr(estimator, "n_components_", None),
        reducers={name: clone(estimator) if over_ranks else estimator},
        ranks=ranks if over_ranks else [],
        sample_weight=sample_weight,
        n_bootstrap=0,
        leave_one_out=False,
    )
    return found, name


def shown_name(name: str) -> str:
    """Return a reducer's name without the mark that tells it from the audit's own."""
    return name.removesuffix(" (given)")
