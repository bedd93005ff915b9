"""Errors about arguments: each names the argument, its value and the remedy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from fairpca.arrays import FloatArray, symmetric


def check_choice(argument: str, value: Any, allowed: Sequence[Any]) -> None:
    """Raise ValueError naming the argument, its value and what is allowed."""
    if value not in allowed:
        raise ValueError(
            f"{argument}={value!r} is not known; choose one of {', '.join(map(repr, allowed))}."
        )


def check_covariances(covariances: Any) -> FloatArray:
    """Return a (k, n, n) float64 array of symmetric matrices, or raise ValueError."""
    matrices = np.asarray(covariances, dtype=float)
    if matrices.ndim != 3 or matrices.shape[1] != matrices.shape[2] or matrices.shape[0] == 0:
        raise ValueError(
            f"covariances has shape {matrices.shape}; pass one square matrix per group, "
            "shape (n_groups, n_features, n_features)."
        )
    if not np.all(np.isfinite(matrices)):
        raise ValueError("covariances contains NaN or infinity; remove or impute them first.")
    asymmetry = np.abs(matrices - np.swapaxes(matrices, 1, 2)).max()
    if asymmetry > 1e-8 * max(np.abs(matrices).max(), np.finfo(float).tiny):
        raise ValueError(
            f"covariances is not symmetric (largest difference {asymmetry:.3g}); "
            "pass (S + S.T) / 2 if that is what you mean."
        )
    # What is smaller than the smallest normal number has lost its digits, and no reciprocal.
    gone = np.abs(np.trace(matrices, axis1=1, axis2=2)) < np.finfo(float).tiny
    gone &= np.abs(matrices).max(axis=(1, 2)) < np.finfo(float).tiny
    return symmetric(np.where(gone[:, None, None], 0.0, matrices))


def check_rank(n_components: Any, n_features: int) -> None:
    """Raise ValueError unless 1 <= n_components <= n_features and it is an integer."""
    if isinstance(n_components, bool) or not isinstance(n_components, int | np.integer):
        raise ValueError(f"n_components={n_components!r} must be an integer here.")
    if not 1 <= n_components <= n_features:
        raise ValueError(
            f"n_components={n_components} must be between 1 and the number of features, "
            f"{n_features}."
        )


def check_limits(tol: float, max_iter: int) -> None:
    """Raise ValueError unless the stopping rule makes sense."""
    if not 0 < tol < 1:
        raise ValueError(f"tol={tol!r} must be between 0 and 1, for example 1e-10.")
    if max_iter < 1:
        raise ValueError(f"max_iter={max_iter!r} must be at least 1.")


def check_weights(sample_weight: Any, n_rows: int) -> FloatArray | None:
    """Return float64 weights, or raise ValueError naming what is wrong with them."""
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, dtype=float)
    if weights.ndim == 0:
        weights = np.full(n_rows, float(weights))
    if weights.shape != (n_rows,):
        raise ValueError(
            f"sample_weight has shape {weights.shape} but X has {n_rows} rows; pass one weight "
            "per row."
        )
    if not np.all(np.isfinite(weights)):
        raise ValueError("sample_weight contains NaN or infinity; replace or drop those rows.")
    if (weights < 0).any():
        raise ValueError(
            f"sample_weight has a negative value, {weights.min():g}; weights count rows and must "
            "be zero or more."
        )
    if n_rows and not weights.any():
        raise ValueError("sample_weight is zero for every row; give some row a positive weight.")
    return weights


def check_rows(n_rows: int, estimator: str) -> None:
    """Raise ValueError unless there are two rows."""
    if n_rows < 2:
        raise ValueError(
            f"X has {n_rows} sample(s) and {estimator} needs at least 2: a single row has no "
            "variance. Pass more rows."
        )


def check_groups(labels: Sequence[Any], weight: FloatArray) -> None:
    """Raise ValueError where there is no group, or one without weight."""
    empty = [label for label, w in zip(labels, weight, strict=True) if w <= 0]
    if empty:
        raise ValueError(
            f"sensitive_features: group(s) {', '.join(map(repr, empty))} have no row with "
            "positive sample_weight; drop those rows or give them weight."
        )
    if not labels:
        raise ValueError(
            "sensitive_features has no labelled row; label at least one row, or pass None for "
            "ordinary PCA."
        )
