"""Numbers of any linear reducer: what each group keeps, and how alike the groups look afterwards.

A reducer is a fitted estimator with `components_`, or an array with one component per row; only
the subspace it spans matters. Data are rows with `sensitive_features`, or `GroupMoments`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from fairpca._linalg import AnyArray, FloatArray, IntArray, span
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.groups import Groups

# Rows per block of a Gaussian kernel: the block stays in cache.
_KERNEL_ROWS = 128


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
            f"reducer={reducer!r} is no linear reducer: pass a fitted estimator with "
            "`components_` or an array with one component per row."
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


def mean_gap(
    reducer: Any, X: Any, *, sensitive_features: Any = None, sample_weight: Any = None
) -> float:
    """Largest distance between two groups' means after projection.

    Arguments as in `group_variances`; zero for one group.
    """
    means = as_moments(X, sensitive_features, sample_weight).mean @ basis_of(reducer)
    return max((float(np.linalg.norm(a - b)) for a, b in combinations(means, 2)), default=0.0)


def covariance_gap(
    reducer: Any, X: Any, *, sensitive_features: Any = None, sample_weight: Any = None
) -> float:
    """Largest spectral norm of the difference of two groups' covariances after projection.

    Arguments as in `group_variances`; zero for one group.
    """
    basis = basis_of(reducer)
    moments = as_moments(X, sensitive_features, sample_weight)
    inner = basis.T @ moments.covariances @ basis
    return max((float(np.linalg.norm(a - b, 2)) for a, b in combinations(inner, 2)), default=0.0)


def median_bandwidth(Z: Any, *, max_rows: int = 3000, random_state: Any = None) -> float:
    """Bandwidth of a Gaussian kernel: the root of half the median squared distance of rows.

    Parameters
    ----------
    Z : array-like of shape (m, r)
    max_rows : int, default=3000
        Of more rows, this many are drawn.
    random_state : int, RandomState instance or None, default=None
        Of the draw; None is a fixed seed.
    """
    from scipy.spatial.distance import pdist

    rows = np.asarray(Z, dtype=float)
    rows = rows[_draw(len(rows), max_rows, random_state)]
    distances = pdist(rows, "sqeuclidean")
    median = float(np.median(distances)) if distances.size else 0.0
    # More than half of all pairs coincide: any other scale is better than none.
    if median == 0 and distances.any():
        median = float(distances[distances > 0].mean())
    return float(np.sqrt(median / 2)) or 1.0


def mmd_squared(
    reducer: Any,
    X: Any,
    *,
    sensitive_features: Any,
    sample_weight: Any = None,
    bandwidth: float | None = None,
    max_rows: int = 5000,
    random_state: Any = None,
) -> float:
    """Largest squared maximum mean discrepancy of two groups after projection.

    The kernel is ``exp(-|x - y|^2 / (2 bandwidth^2))`` and the estimate keeps the diagonal, so
    it does not fall below about ``1/m_1 + 1/m_2`` for samples of one distribution.

    Parameters
    ----------
    reducer : fitted estimator or array-like of shape (r, n)
    X : array-like of shape (m, n)
    sensitive_features : array-like
    sample_weight : array-like, optional
    bandwidth : float, optional
        None takes `median_bandwidth` of the projected rows. Give the same one to every reducer
        that is compared.
    max_rows : int, default=5000
        Of more rows, this many are drawn, as many of each group as there are; the cost grows with
        their square.
    random_state : int, RandomState instance or None, default=None
        Of the draw; None is a fixed seed.
    """
    rows = np.asarray(X, dtype=float)
    groups = Groups.from_labels(sensitive_features, n_rows=len(rows))
    weight = np.ones(len(rows)) if sample_weight is None else np.asarray(sample_weight, float)
    chosen = balanced_draw(groups.codes, max_rows, random_state)
    Z = rows[chosen] @ basis_of(reducer)
    if bandwidth is None:
        bandwidth = median_bandwidth(Z)
    members = np.zeros((len(Z), groups.n_groups))
    members[np.arange(len(Z)), groups.codes[chosen]] = weight[chosen]
    totals = members.sum(axis=0)
    members = members[:, totals > 0] / totals[totals > 0]
    inner = members.T @ gaussian_product(Z / bandwidth, members)
    pairs = combinations(range(len(inner)), 2)
    found = (inner[i, i] + inner[j, j] - 2 * inner[i, j] for i, j in pairs)
    return max((float(value) for value in found), default=0.0)


def gaussian_product(Z: FloatArray, vectors: FloatArray) -> FloatArray:
    """Return ``K @ vectors`` for ``K_ij = exp(-|z_i - z_j|^2 / 2)``, never forming K.

    Every pair of rows is exponentiated once, which is where the time goes.
    """
    half, one = -0.5 * np.sum(Z * Z, axis=1, keepdims=True), np.ones((len(Z), 1))
    left, right = np.hstack([Z, half, one]), np.hstack([Z, one, half])
    product = np.zeros_like(vectors)
    for start in range(0, len(Z), _KERNEL_ROWS):
        stop = min(start + _KERNEL_ROWS, len(Z))
        block = left[start:stop] @ right[start:].T
        np.minimum(block, 0.0, out=block)
        np.exp(block, out=block)
        product[start:stop] += block @ vectors[start:]
        product[stop:] += block[:, stop - start :].T @ vectors[start:stop]
    return product


def _draw(m: int, most: int, random_state: Any) -> IntArray:
    if m <= most:
        return np.arange(m)
    rng = check_random_state(0 if random_state is None else random_state)
    return np.sort(rng.choice(m, most, replace=False))


def balanced_draw(codes: IntArray, most: int, random_state: Any = None) -> IntArray:
    """Return all rows, or `most` of them: equally many of each group, as far as it has them.

    A draw in proportion would leave a small group with a few rows, and an average over these.
    """
    if len(codes) <= most:
        return np.arange(len(codes))
    rng = check_random_state(0 if random_state is None else random_state)
    members = [np.flatnonzero(codes == code) for code in range(int(codes.max()) + 1)]
    chosen, left = [], most
    # Smallest first: what a small group does not use goes to the larger ones.
    for i, rows in enumerate(sorted(members, key=len)):
        take = min(len(rows), left // (len(members) - i))
        chosen.append(rng.permutation(rows)[:take])
        left -= take
    return np.sort(np.concatenate(chosen))


@dataclass(frozen=True)
class Parity:
    """How a linear classifier on the reduced rows does, on rows it has not seen.

    Attributes
    ----------
    accuracy : float
    demographic_parity_difference : float
        Largest difference between two groups' rates of positive predictions.
    equal_opportunity_difference : float
        The same among rows whose label is positive; NaN where a group has none.
    """

    accuracy: float
    demographic_parity_difference: float
    equal_opportunity_difference: float


def held_out_parity(
    Z_train: Any, y_train: Any, Z_test: Any, y_test: Any, *, sensitive_features: Any
) -> Parity:
    """Train a logistic regression on reduced rows and judge it on others.

    Parameters
    ----------
    Z_train, Z_test : array-like of shape (m, r)
        Reduced rows.
    y_train, y_test : array-like of shape (m,)
        Two classes; the larger label is the positive one.
    sensitive_features : array-like of shape (m_test,)
        Labels of the test rows.

    Returns
    -------
    Parity
    """
    from sklearn.linear_model import LogisticRegression

    y_train, y_test = np.asarray(y_train), np.asarray(y_test)
    classes = np.unique(y_train)
    if len(classes) != 2:
        raise ValueError(
            f"y has {len(classes)} class(es); the classifier needs two, for example 0 and 1."
        )
    Z_train = np.asarray(Z_train, dtype=float)
    center, spread = Z_train.mean(axis=0), float(Z_train.std()) or 1.0
    model = LogisticRegression(max_iter=1000).fit((Z_train - center) / spread, y_train)
    predicted = model.predict((np.asarray(Z_test, dtype=float) - center) / spread)
    positive, actual = predicted == classes[1], y_test == classes[1]
    codes = Groups.from_labels(sensitive_features, n_rows=len(predicted)).codes
    return Parity(
        float(np.mean(predicted == y_test)),
        _largest_difference(positive, codes),
        _largest_difference(positive[actual], codes[actual], n_groups=int(codes.max()) + 1),
    )


def _largest_difference(positive: AnyArray, codes: AnyArray, n_groups: int | None = None) -> float:
    k = int(codes.max()) + 1 if n_groups is None else n_groups
    counts = np.bincount(codes, minlength=k)
    if (counts == 0).any():
        return float("nan")
    return float(np.ptp(np.bincount(codes, positive, minlength=k) / counts))
