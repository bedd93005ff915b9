"""Per-group numbers of any linear reducer: variance kept, error, loss, share.

A reducer is a fitted estimator with `components_`, or an array with one component per row; only the
subspace it spans matters. Data are rows with `sensitive_features`, or `GroupMoments`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from fairpca.arrays import FloatArray, span
from fairpca.moments import GroupMoments


def basis_of(reducer: Any) -> FloatArray:
    """Return orthonormal columns that span what a reducer keeps.

    Parameters
    ----------
    reducer : fitted estimator with `components_`, or array-like of shape (r, n)

    Returns
    -------
    ndarray of shape (n, r)
    """
    components = getattr(reducer, "components_", reducer)
    try:
        rows = np.asarray(components, dtype=float)
    except (TypeError, ValueError):
        rows = np.empty(0)
    if rows.ndim != 2 or rows.size == 0:
        raise ValueError(
            f"reducer={reducer!r} is no linear reducer: pass a fitted estimator with `components_` "
            "or an array with one component per row."
        )
    return span(rows.T)


def as_moments(X: Any, sensitive_features: Any = None, sample_weight: Any = None) -> GroupMoments:
    """Return `X` if it is moments already, otherwise the moments of its rows."""
    if isinstance(X, GroupMoments):
        return X.grouped()
    rows = np.asarray(X)
    return GroupMoments.from_array(rows, sensitive_features, sample_weight=sample_weight).grouped()


def group_variances(
    reducer: Any, X: Any, *, sensitive_features: Any = None, sample_weight: Any = None
) -> FloatArray:
    """Variance of each group that the reducer keeps, about the group's own mean.

    Parameters
    ----------
    reducer : fitted estimator or array-like of shape (r, n)
    X : array-like of shape (m, n) or GroupMoments
    sensitive_features : array-like, optional
    sample_weight : array-like, optional

    Returns
    -------
    ndarray of shape (k,)
        In the order of the sorted group labels.
    """
    moments = as_moments(X, sensitive_features, sample_weight)
    return kept_variance(basis_of(reducer), moments.covariances)


def group_errors(
    reducer: Any, X: Any, *, sensitive_features: Any = None, sample_weight: Any = None
) -> FloatArray:
    """Mean squared reconstruction error of each group; arguments as in `group_variances`."""
    covariances = as_moments(X, sensitive_features, sample_weight).covariances
    errors = _traces(covariances) - kept_variance(basis_of(reducer), covariances)
    return np.maximum(errors, 0.0)


def group_losses(
    reducer: Any, X: Any, *, sensitive_features: Any = None, sample_weight: Any = None
) -> FloatArray:
    """What each group loses against its own PCA of the same rank, per row.

    Arguments as in `group_variances`.
    """
    covariances = as_moments(X, sensitive_features, sample_weight).covariances
    basis = basis_of(reducer)
    own = own_variance(covariances, basis.shape[1])
    return np.maximum(own - kept_variance(basis, covariances), 0.0)


def group_shares(
    reducer: Any, X: Any, *, sensitive_features: Any = None, sample_weight: Any = None
) -> FloatArray:
    """Share of each group's variance that the reducer keeps; arguments as in `group_variances`.

    A group without variance loses nothing: its share is one.
    """
    covariances = as_moments(X, sensitive_features, sample_weight).covariances
    return kept_share(basis_of(reducer), covariances)


def kept_variance(basis: FloatArray, covariances: FloatArray) -> FloatArray:
    """Return ``Tr(basis.T S_i basis)`` for orthonormal columns and (k, n, n) covariances."""
    return np.asarray(np.einsum("nr,knr->k", basis, covariances @ basis))


def kept_share(basis: FloatArray, covariances: FloatArray) -> FloatArray:
    """Return the share of each trace that a basis keeps; one where there is nothing to keep."""
    traces = _traces(covariances)
    kept = kept_variance(basis, covariances)
    return np.divide(kept, traces, out=np.ones_like(kept), where=traces > 0)


def own_variance(covariances: FloatArray, n_components: int) -> FloatArray:
    """Return the variance each group's own PCA of this rank keeps."""
    spectrum = np.linalg.eigvalsh(covariances)[:, ::-1]
    return np.asarray(spectrum[:, :n_components].sum(axis=1))


def _traces(covariances: FloatArray) -> FloatArray:
    return np.asarray(np.trace(covariances, axis1=1, axis2=2))
