"""Numbers of any linear reducer: what each group keeps, and how alike the groups look afterwards.

A reducer is a fitted estimator with `components_`, or an array with one component per row; only
the subspace it spans matters. Data are rows with `sensitive_features`, or `GroupMoments`. Rows may
be dense, sparse, or a frame of any library; a lazy frame has to be collected first.

`sample_errors` and `sample_losses` are numbers of every row. `mean_error`, `mean_loss` and
`share_kept` take rows and what was rebuilt of them: fairlearn's `MetricFrame` calls a metric so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.metrics import r2_score
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import has_fit_parameter

from fairpca._arrays import (
    AnyArray,
    FloatArray,
    IntArray,
    array_namespace,
    fetched,
    is_sparse,
    span,
)
from fairpca._check import (
    as_numpy,
    check_at_least,
    check_choice,
    check_counted,
    check_groups,
    check_names,
    check_weights,
    distinct,
)
from fairpca.covariances.oracle import Oracle
from fairpca.covariances.products import CellRows
from fairpca.covariances.sources import (
    CENTERS,
    CovarianceSource,
    MomentCovariances,
    OperatorCovariances,
    in_span,
    is_wide,
)
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.groups import Groups

__all__ = [
    "Parity", "basis_of", "covariance_gap", "group_errors", "group_losses", "group_shares",
    "group_variances", "held_out_parity", "mean_error", "mean_gap", "mean_loss",
    "median_bandwidth", "mmd_squared", "neighbours_kept", "sample_errors", "sample_losses",
    "share_kept",
]  # fmt: skip

#: What a target can be taken for; "auto" decides by its values.
TARGETS = ("auto", "classes", "numbers")
# Whole numbers with more distinct values than this are a quantity (an age, an amount), not
# classes; so are those with fewer rows a value than this. With `target` people decide otherwise.
_MOST_CLASSES = 20
_ROWS_PER_CLASS = 5
# Rows per block of a Gaussian kernel. A block of 128 times a few thousand rows stays in the cache;
# larger ones do not, smaller ones spend their time in the loop.
_KERNEL_ROWS = 128


def basis_of(reducer: Any) -> FloatArray:
    """Return orthonormal columns that span what a reducer keeps.

    Parameters
    ----------
    reducer : fitted estimator with `components_`, or array-like of shape (r, n)

    Returns
    -------
    ndarray of shape (n, r)
        Fewer columns where components depend on each other.

    Examples
    --------
    >>> from fairpca.metrics import basis_of
    >>> basis_of([[3.0, 0.0, 0.0], [1.0, 2.0, 0.0]]).shape
    (3, 2)
    """
    if getattr(reducer, "kernel_map_", None) is not None:
        raise ValueError(
            "the components of a reducer with a kernel are not in the columns of X; pass "
            "np.eye(r) as the reducer, and reducer.transform(X) as X."
        )
    components = getattr(reducer, "components_", reducer)
    try:
        rows = np.asarray(fetched(components), dtype=float)
    except (TypeError, ValueError):
        # Empty, so that the one message below covers it.
        rows = np.empty(0)
    if rows.ndim != 2 or rows.size == 0:
        raise ValueError(
            f"reducer={reducer!r} is no linear reducer: pass a fitted estimator with "
            "`components_` or an array with one component per row."
        )
    return span(rows.T)


def named_reducers(reducers: Any, reserved: Iterable[str] = ()) -> dict[str, Any]:
    """Return reducers by distinct names, given as one, a list, a mapping or None.

    Without a name a reducer is called after its class; one whose name is reserved gets the mark
    "(given)".
    """
    if reducers is None:
        return {}
    if isinstance(reducers, Mapping):
        pairs = [(str(name), reducer) for name, reducer in reducers.items()]
    else:
        several = reducers if isinstance(reducers, list | tuple) else [reducers]
        pairs = [(type(reducer).__name__, reducer) for reducer in several]
    names = distinct([f"{name} (given)" if name in reserved else name for name, _ in pairs])
    return {name: reducer for name, (_, reducer) in zip(names, pairs, strict=True)}


def as_rows(X: Any, **limits: Any) -> AnyArray:
    """Return rows as an array of floats or in compressed sparse rows.

    The limits are options of `sklearn.utils.check_array` that differ from those here, such as
    ``accept_sparse=False``. A lazy frame, no columns or rows, and what is not a finite number are
    a ValueError that says what to do about it.
    """
    # scikit-learn's own error for no columns does not say what to do.
    options = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "input_name": "X"}
    rows: AnyArray = check_array(as_numpy(X), ensure_min_features=0, **(options | limits))
    if rows.shape[1] == 0:
        raise ValueError(f"X has shape {rows.shape}: no columns; pass at least one feature.")
    return rows


def fitted_to(X: Any, model: Any, **extra: Any) -> Any:
    """Return a clone fitted to rows, with those further arguments that are known and it takes."""
    known = {k: v for k, v in extra.items() if v is not None and has_fit_parameter(model, k)}
    return clone(model).fit(X, **known)


def as_moments(X: Any, sensitive_features: Any, sample_weight: Any) -> GroupMoments:
    """Return the moments of the groups: those of rows, or the ones given as `X`.

    Arguments are those of `group_variances`. Without labels every row is in one group.
    """
    if isinstance(X, GroupMoments):
        check_counted(sensitive_features, sample_weight)
        return X
    # Rows of another array library are counted where they live.
    rows = as_rows(X) if array_namespace(X) is None else X
    return GroupMoments.from_array(rows, sensitive_features, sample_weight=sample_weight)


def _read(
    reducer: Any, X: Any, sensitive_features: Any, sample_weight: Any, center: str = "group"
) -> tuple[FloatArray, CovarianceSource]:
    """Return what a reducer keeps, as orthonormal columns, and the groups' second moments.

    "global" ones are about the mean of the reducer, where it has one: a projection subtracts it
    from all rows, also from rows that it was not fitted to. Where rows are far fewer than columns,
    all are in coordinates of what the rows span.
    """
    check_choice("center", center, CENTERS)
    basis, mean = basis_of(reducer), getattr(reducer, "mean_", None)
    mean = None if mean is None else np.asarray(fetched(mean), dtype=float)
    if isinstance(X, GroupMoments) or array_namespace(X) is not None:
        moments = as_moments(X, sensitive_features, sample_weight)
        check_columns(reducer, basis, X, moments.n_features)
        return basis, _covariances(moments, center, mean)
    rows = as_rows(X)
    check_columns(reducer, basis, X, rows.shape[1])
    groups = Groups.of(sensitive_features, rows.shape[0])
    weight = check_weights(sample_weight, rows.shape[0])
    if is_wide(rows, basis.shape[1]):
        rows, inner = in_span(rows, groups, weight, *([] if mean is None else [mean]))
        basis, mean = inner.inside(basis), None if mean is None else inner.coordinates(mean)
    elif OperatorCovariances.accepts(rows, groups, basis.shape[1]):
        return basis, _covariances(CellRows.from_rows(rows, groups, weight), center, mean)
    moments = GroupMoments.from_array(rows, groups, sample_weight=weight)
    return basis, _covariances(moments, center, mean)


def _covariances(
    counted: GroupMoments | CellRows, center: str, origin: FloatArray | None
) -> CovarianceSource:
    """Return the groups' second moments; ValueError for a group whose rows have no weight."""
    source: CovarianceSource
    if isinstance(counted, GroupMoments):
        source = MomentCovariances(counted, center=center, origin=origin)
    else:
        source = OperatorCovariances(counted, center=center, origin=origin)
    check_groups(source.groups.labels, source.groups.weight)
    return source


def _oracle(source: CovarianceSource) -> Oracle:
    """Return the oracle of the groups' matrices as they are."""
    return source.oracle(np.ones(len(source.groups.labels)))


def check_columns(reducer: Any, basis: FloatArray, X: Any, n_features: int) -> None:
    """Raise ValueError where X has other columns than a reducer was fitted to."""
    check_names(reducer, X)
    if len(basis) != n_features:
        raise ValueError(
            f"X has {n_features} columns and the components have {len(basis)}; pass the columns "
            "that the reducer was fitted to, in the same order."
        )


def group_variances(
    reducer: Any,
    X: Any,
    *,
    sensitive_features: Any = None,
    sample_weight: Any = None,
    center: str = "global",
) -> FloatArray:
    """Variance of each group that the reducer keeps.

    Parameters
    ----------
    reducer : fitted estimator or array-like of shape (r, n)
    X : array-like, sparse matrix or frame of shape (m, n), or GroupMoments
    sensitive_features : array-like, Series, frame or dict, optional
        One label per row; not needed where `X` is moments.
    sample_weight : array-like of shape (m,), optional
        Weight 2 is the row twice.
    center : {"global", "group"}, default="global"
        What the variance of a group is about: the mean that the reducer subtracts, its `mean_`,
        also on rows it was not fitted to (the mean of all rows of `X` where it has none); or the
        group's own mean.

    Returns
    -------
    ndarray of shape (k,)
        In the order of the sorted group labels.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.metrics import group_variances
    >>> X = np.array([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> group_variances([[1.0, 0.0]], X, sensitive_features=["a", "a", "b", "b"]).tolist()
    [4.0, 0.0]
    """
    basis, source = _read(reducer, X, sensitive_features, sample_weight, center)
    return _oracle(source).retained_variance(basis)


def group_errors(
    reducer: Any,
    X: Any,
    *,
    sensitive_features: Any = None,
    sample_weight: Any = None,
    center: str = "global",
) -> FloatArray:
    """Mean squared reconstruction error of each group.

    Together with `group_variances` it adds up to the variance of the group about `center`. With
    "global" it is the mean squared distance between the rows, in hand or new, and what a PCA-like
    ``inverse_transform(transform(X))`` gives back.

    Parameters
    ----------
    reducer, X, sensitive_features, sample_weight, center
        As in `group_variances`.

    Returns
    -------
    ndarray of shape (k,)
        In the order of the sorted group labels.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.metrics import group_errors
    >>> X = np.array([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> group_errors([[1.0, 0.0]], X, sensitive_features=["a", "a", "b", "b"]).tolist()
    [0.0, 1.0]
    """
    basis, source = _read(reducer, X, sensitive_features, sample_weight, center)
    # Rounding can leave a group that keeps everything slightly below zero.
    return np.maximum(source.groups.traces - _oracle(source).retained_variance(basis), 0.0)


def group_losses(
    reducer: Any,
    X: Any,
    *,
    sensitive_features: Any = None,
    sample_weight: Any = None,
    center: str = "global",
) -> FloatArray:
    """What each group loses against its own PCA of the same rank, per row.

    Parameters
    ----------
    reducer, X, sensitive_features, sample_weight, center
        As in `group_variances`.

    Returns
    -------
    ndarray of shape (k,)
        In the order of the sorted group labels.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.metrics import group_losses
    >>> X = np.array([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> group_losses([[1.0, 0.0]], X, sensitive_features=["a", "a", "b", "b"]).tolist()
    [0.0, 1.0]
    """
    basis, source = _read(reducer, X, sensitive_features, sample_weight, center)
    oracle, r = _oracle(source), basis.shape[1]
    own = np.array([pairs.values[:r].sum() for pairs in oracle.own_pairs(r)])
    return np.maximum(own - oracle.retained_variance(basis), 0.0)


def group_shares(
    reducer: Any,
    X: Any,
    *,
    sensitive_features: Any = None,
    sample_weight: Any = None,
    center: str = "global",
) -> FloatArray:
    """Share of each group's variance that the reducer keeps.

    Parameters
    ----------
    reducer, X, sensitive_features, sample_weight, center
        As in `group_variances`.

    Returns
    -------
    ndarray of shape (k,)
        In the order of the sorted group labels. A group without variance loses nothing: its share
        is one.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.metrics import group_shares
    >>> X = np.array([[2.0, 2.0], [-2.0, -2.0], [0.0, 1.0], [0.0, -1.0]])
    >>> group_shares([[1.0, 0.0]], X, sensitive_features=["a", "a", "b", "b"]).tolist()
    [0.5, 0.0]
    """
    basis, source = _read(reducer, X, sensitive_features, sample_weight, center)
    return source.groups.shares(_oracle(source).retained_variance(basis))


def sample_errors(reducer: Any, X: Any) -> FloatArray:
    """Squared distance between every row and what the reducer rebuilds of it.

    Parameters
    ----------
    reducer : fitted estimator or array-like of shape (r, n)
        Rows are taken about its `mean_`; about their own mean where it has none.
    X : array-like or frame of shape (m, n)

    Returns
    -------
    ndarray of shape (m,)
        Its mean over the rows of a group is the group's entry of `group_errors`.

    Examples
    --------
    >>> from fairpca.metrics import sample_errors
    >>> sample_errors([[1.0, 0.0]], [[2.0, 0.0], [-2.0, 0.0], [0.0, 3.0], [0.0, -3.0]]).tolist()
    [0.0, 0.0, 9.0, 9.0]
    """
    basis, centred, _ = _centred(reducer, X)
    return _left(centred, basis)


def sample_losses(
    reducer: Any, X: Any, *, sensitive_features: Any, sample_weight: Any = None
) -> FloatArray:
    """By how much every row is rebuilt worse than by a PCA of its own group.

    A row may gain while its group loses, so that numbers below zero are no mistake.

    Parameters
    ----------
    reducer : fitted estimator or array-like of shape (r, n)
        As in `sample_errors`.
    X : array-like or frame of shape (m, n)
    sensitive_features : array-like, Series, frame or dict
        One label per row, or several columns of labels.
    sample_weight : array-like of shape (m,), optional
        Of the rows in the PCA of their group, and in their mean where the reducer has none.

    Returns
    -------
    ndarray of shape (m,)
        Its mean over the rows of a group, by their weights, is the group's entry of
        `group_losses`.

    Examples
    --------
    >>> from fairpca.metrics import sample_losses
    >>> X = [[2.0, 0.0], [-2.0, 0.0], [0.0, 3.0], [0.0, -3.0]]
    >>> sample_losses([[1.0, 0.0]], X, sensitive_features=["a", "a", "b", "b"]).tolist()
    [0.0, 0.0, 9.0, 9.0]
    """
    basis, centred, weight = _centred(reducer, X, sample_weight)
    groups = Groups.from_labels(sensitive_features, n_rows=len(centred))
    losses = _left(centred, basis)
    for code in range(groups.n_groups):
        rows = groups.codes == code
        own = _own_basis(centred[rows], basis.shape[1], None if weight is None else weight[rows])
        losses[rows] -= _left(centred[rows], own)
    return losses


def mean_error(y_true: Any, y_pred: Any, sample_weight: Any = None) -> float:
    """Mean squared distance between rows and what was rebuilt of them.

    Parameters
    ----------
    y_true : array-like of shape (m, n)
        The rows.
    y_pred : array-like of shape (m, n)
        ``model.inverse_transform(model.transform(rows))``.
    sample_weight : array-like of shape (m,), optional

    Examples
    --------
    >>> from fairpca.metrics import mean_error
    >>> mean_error([[1.0, 0.0], [0.0, 3.0]], [[1.0, 0.0], [0.0, 0.0]])
    4.5
    """
    rows, rebuilt = _rows_and_rebuilt(y_true, y_pred)
    weight = check_weights(sample_weight, len(rows))
    return float(np.average(np.sum((rows - rebuilt) ** 2, axis=1), weights=weight))


def mean_loss(y_true: Any, y_pred: Any, sample_weight: Any = None, *, reducer: Any) -> float:
    """How much worse rows are rebuilt, on average, than by a PCA of their own of the same rank.

    For the rows of a group this is the group's loss. Give `reducer` with `functools.partial`.

    Parameters
    ----------
    y_true, y_pred : array-like of shape (m, n)
        As in `mean_error`.
    sample_weight : array-like of shape (m,), optional
    reducer : fitted estimator
        What rebuilt the rows; its `mean_` and its number of components are those of their own PCA.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.decomposition import PCA
    >>> from fairpca.metrics import mean_loss
    >>> X = np.array([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> pca = PCA(1).fit(X)
    >>> rebuilt = pca.inverse_transform(pca.transform(X))
    >>> mean_loss(X[:2], rebuilt[:2], reducer=pca), mean_loss(X[2:], rebuilt[2:], reducer=pca)
    (0.0, 1.0)
    """
    rows, _ = _rows_and_rebuilt(y_true, y_pred)
    basis, centred, weight = _centred(reducer, rows, sample_weight)
    own = _own_basis(centred, basis.shape[1], weight)
    best = float(np.average(_left(centred, own), weights=weight))
    return mean_error(y_true, y_pred, weight) - best


def share_kept(y_true: Any, y_pred: Any, sample_weight: Any = None, *, reducer: Any) -> float:
    """Share of the rows' variance about the mean of the reducer that is kept; one without any.

    Parameters
    ----------
    y_true, y_pred, sample_weight, reducer
        As in `mean_loss`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.decomposition import PCA
    >>> from fairpca.metrics import share_kept
    >>> X = np.array([[2.0, 2.0], [-2.0, -2.0], [0.5, -0.5], [-0.5, 0.5]])
    >>> pca = PCA(1).fit(X)
    >>> round(share_kept(X, pca.inverse_transform(pca.transform(X)), reducer=pca), 3)
    0.941
    """
    rows, _ = _rows_and_rebuilt(y_true, y_pred)
    _, centred, weight = _centred(reducer, rows, sample_weight)
    whole = float(np.average(np.sum(centred**2, axis=1), weights=weight))
    return 1.0 - mean_error(y_true, y_pred, weight) / whole if whole > 0 else 1.0


def _rows_and_rebuilt(y_true: Any, y_pred: Any) -> tuple[FloatArray, FloatArray]:
    """Return both as tables of the same shape, or raise ValueError."""
    rows, rebuilt = np.asarray(y_true, dtype=float), np.asarray(y_pred, dtype=float)
    if rows.ndim != 2 or rows.shape != rebuilt.shape:
        raise ValueError(
            f"y_true has shape {rows.shape} and y_pred {rebuilt.shape}; pass rows as y_true, and "
            "what was rebuilt of them, model.inverse_transform(model.transform(rows)), as y_pred."
        )
    return rows, rebuilt


def _centred(
    reducer: Any, X: Any, sample_weight: Any = None
) -> tuple[FloatArray, FloatArray, FloatArray | None]:
    """Return a reducer's orthonormal columns, rows about its mean or else their own, weights."""
    rows = as_rows(X, accept_sparse=False, dtype=np.float64)
    weight = check_weights(sample_weight, len(rows))
    basis = basis_of(reducer)
    check_columns(reducer, basis, X, rows.shape[1])
    mean = getattr(reducer, "mean_", None)
    if mean is None:
        mean = np.average(rows, axis=0, weights=weight)
    return basis, rows - np.asarray(fetched(mean), dtype=float), weight


def _left(centred: FloatArray, basis: FloatArray) -> FloatArray:
    """Return the squared length of what orthonormal columns leave of every row."""
    left = centred - (centred @ basis) @ basis.T
    return np.asarray(np.einsum("ij,ij->i", left, left))


def _own_basis(centred: FloatArray, r: int, weight: FloatArray | None) -> FloatArray:
    """Return the r directions that keep most of some rows, as columns; fewer for fewer rows."""
    scaled = centred if weight is None else centred * np.sqrt(weight)[:, None]
    return np.linalg.svd(scaled, full_matrices=False)[2][:r].T


def kept_variance(basis: FloatArray, covariances: FloatArray) -> FloatArray:
    """Return ``Tr(basis.T S_i basis)`` for orthonormal columns and (k, n, n) covariances."""
    return np.asarray(np.einsum("nr,knr->k", basis, covariances @ basis))


def share_of(part: FloatArray, whole: FloatArray) -> FloatArray:
    """Return part / whole, and one where there is nothing to divide by."""
    return np.asarray(np.divide(part, whole, out=np.ones(part.shape), where=whole > 0))


def own_variance(covariances: FloatArray, n_components: int) -> FloatArray:
    """Return the variance each group's own PCA of this rank keeps, for (k, n, n) covariances."""
    # All eigenvalues, although the leading ones would do: NumPy takes all groups in one call.
    spectrum = np.linalg.eigvalsh(covariances)[:, ::-1]
    return np.asarray(spectrum[:, :n_components].sum(axis=1))


def mean_gap(
    reducer: Any, X: Any, *, sensitive_features: Any = None, sample_weight: Any = None
) -> float:
    """Largest distance between two groups' means after projection.

    Parameters
    ----------
    reducer, X, sensitive_features, sample_weight
        As in `group_variances`.

    Returns
    -------
    float
        Zero for one group.

    Examples
    --------
    >>> from fairpca.metrics import mean_gap
    >>> mean_gap([[1.0, 0.0]], [[0.0, 9.0], [3.0, 1.0]], sensitive_features=["a", "b"])
    3.0
    """
    basis, source = _read(reducer, X, sensitive_features, sample_weight)
    means = source.groups.mean @ basis
    return max((float(np.linalg.norm(a - b)) for a, b in combinations(means, 2)), default=0.0)


def covariance_gap(
    reducer: Any, X: Any, *, sensitive_features: Any = None, sample_weight: Any = None
) -> float:
    """Largest spectral norm of the difference of two groups' covariances after projection.

    Parameters
    ----------
    reducer, X, sensitive_features, sample_weight
        As in `group_variances`.

    Returns
    -------
    float
        Zero for one group.

    Examples
    --------
    >>> from fairpca.metrics import covariance_gap
    >>> X = [[2.0, 0.0], [-2.0, 0.0], [1.0, 0.0], [-1.0, 0.0]]
    >>> covariance_gap([[1.0, 0.0]], X, sensitive_features=["a", "a", "b", "b"])
    3.0
    """
    basis, source = _read(reducer, X, sensitive_features, sample_weight)
    inner = _oracle(source).project(basis)
    return max((float(np.linalg.norm(a - b, 2)) for a, b in combinations(inner, 2)), default=0.0)


# Rows whose distances to all others are in memory at a time.
_NEIGHBOUR_ROWS = 256


def neighbours_kept(reducer: Any, X: Any, sensitive_features: Any, k: int = 10) -> FloatArray:
    """Share of the k nearest neighbours that rows keep after the reduction, group by group.

    A neighbour of a row is any other row of `X`, of whatever group, by Euclidean distance. Of the
    k rows nearest to a row after the reduction those count that are no farther from it, before the
    reduction, than its k-th nearest neighbour. All distances are computed: 10,000 rows of 256
    columns take some five seconds. Rows that the reducer was not fitted to tell more.

    Parameters
    ----------
    reducer : fitted estimator with `transform`, or array-like of shape (r, n)
        With `whiten` distances are those of whitened columns.
    X : array-like or frame of shape (m, n)
    sensitive_features : array-like, Series, frame or dict
        One label per row, or several columns of labels.
    k : int, default=10

    Returns
    -------
    ndarray of shape (n_groups,)
        Recall at k, the mean over each group's rows, in the order of the sorted group labels.

    Examples
    --------
    >>> from fairpca.metrics import neighbours_kept
    >>> X = [[0.0, 0.0], [1.0, 0.0], [0.0, 5.0], [1.5, 5.0]]
    >>> labels = ["low", "low", "high", "high"]
    >>> neighbours_kept([[0.0, 1.0]], X, labels, k=1).tolist()
    [1.0, 1.0]
    >>> neighbours_kept([[1.0, 0.0]], X, labels, k=1).tolist()
    [0.0, 0.0]
    """
    rows = as_rows(X, accept_sparse=False, dtype=np.float64)
    groups = Groups.from_labels(sensitive_features, n_rows=len(rows))
    check_at_least("k", k, 1)
    if k >= len(rows):
        raise ValueError(f"k={k} neighbours need more than {k} rows, and X has {len(rows)}.")
    project = getattr(reducer, "transform", lambda given: rows @ basis_of(reducer))
    before, after = (_halved_distances(space) for space in (rows, as_rows(project(X))))
    kept = np.empty(len(rows))
    for start in range(0, len(rows), _NEIGHBOUR_ROWS):
        block = np.arange(start, min(start + _NEIGHBOUR_ROWS, len(rows)))
        nearest = np.argpartition(after(block), k - 1, axis=1)[:, :k]
        distances = before(block)
        found = np.take_along_axis(distances, nearest, axis=1)
        limit = np.partition(distances, k - 1, axis=1)[:, k - 1 : k]
        kept[block] = np.mean(found <= limit, axis=1)
    return np.asarray(np.bincount(groups.codes, kept) / groups.counts)


def _halved_distances(rows: AnyArray) -> Callable[[IntArray], FloatArray]:
    """Return what computes half the squared distances of some rows from all, and inf from itself.

    They are rounded to 12 digits of the largest, so that equal distances are equal.
    """
    centred = np.asarray(rows - rows.mean(axis=0), dtype=float)
    halves = 0.5 * np.einsum("ij,ij->i", centred, centred)
    digits = 1e-12 * float(halves.max()) or 1.0

    def distances(block: IntArray) -> FloatArray:
        found: FloatArray = centred[block] @ centred.T
        np.subtract(halves, found, out=found)
        found += halves[block, None]
        np.rint(found / digits, out=found)
        found[np.arange(len(block)), block] = np.inf
        return found

    return distances


def median_bandwidth(Z: Any, *, max_rows: int = 3000, random_state: Any = None) -> float:
    """Bandwidth of a Gaussian kernel: the root of half the median squared distance of rows.

    Parameters
    ----------
    Z : array-like of shape (m, r)
    max_rows : int, default=3000
        Of more rows, this many are drawn; the cost grows with their square.
    random_state : int, RandomState instance or None, default=None
        Of the draw; None is a fixed seed.

    Examples
    --------
    >>> from fairpca.metrics import median_bandwidth
    >>> median_bandwidth([[0.0], [2.0], [4.0]])
    1.4142135623730951
    """
    from scipy.spatial.distance import pdist

    rows = np.asarray(Z, dtype=float)
    chosen = balanced_draw(np.zeros(len(rows), dtype=np.int64), max_rows, random_state)
    distances = pdist(rows[chosen], "sqeuclidean")
    median = float(np.median(distances)) if distances.size else 0.0
    # More than half of all pairs coincide: any other scale is better than none. Where all of them
    # do, every bandwidth gives the same kernel.
    if median == 0 and distances.any():
        median = float(distances[distances > 0].mean())
    return float(np.sqrt(median / 2)) or 1.0


def weighted_bandwidth(Z: FloatArray, weight: FloatArray | None, max_rows: int = 3000) -> float:
    """Return the `median_bandwidth` of rows that are repeated as often as their weights say."""
    if weight is None:
        return median_bandwidth(Z, max_rows=max_rows)
    from scipy.spatial.distance import pdist

    rows = balanced_draw(np.zeros(len(weight), dtype=np.int64), max_rows, weight=weight)
    w = weight[rows]
    first, second = np.triu_indices(len(rows), 1)
    # The copies of one row are at distance zero from each other; a share of a row has no copy.
    copies = float(np.maximum(w * (w - 1) / 2, 0.0).sum())
    distances = np.append(0.0, pdist(np.asarray(Z[rows], dtype=float), "sqeuclidean"))
    counts = np.append(copies, w[first] * w[second])
    order = np.argsort(distances, kind="stable")
    distances, counts = distances[order], counts[order]
    upto = np.cumsum(counts)
    # An even number of pairs has two middle ones, of which NumPy's median is the mean.
    middle = [np.searchsorted(upto, upto[-1] / 2, side=side) for side in ("left", "right")]
    median = float(distances[np.minimum(middle, len(distances) - 1)].mean())
    if median == 0 and distances.any():
        # More than half of all pairs coincide: any other scale is better than none.
        median = float(np.average(distances[distances > 0], weights=counts[distances > 0]))
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
    X : array-like, sparse matrix or frame of shape (m, n)
    sensitive_features, sample_weight
        As in `group_variances`.
    bandwidth : float, optional
        None takes `median_bandwidth` of the projected rows. Give the same one to every reducer
        that is compared.
    max_rows : int, default=5000
        Of more rows, this many are drawn, equally many of each group that has them and at least
        one; the cost grows with their square.
    random_state : int, RandomState instance or None, default=None
        Of the draw; None is a fixed seed.

    Returns
    -------
    float
        Zero for one group.

    Examples
    --------
    >>> from fairpca.metrics import mmd_squared
    >>> X = [[2.0, 0.0], [-2.0, 0.0], [2.0, 1.0], [-2.0, 1.0]]
    >>> mmd_squared([[1.0, 0.0]], X, sensitive_features=["a", "a", "b", "b"])
    0.0
    >>> round(mmd_squared([[0.0, 1.0]], X, sensitive_features=["a", "a", "b", "b"]), 2)
    1.26
    """
    rows = as_rows(X)
    m, n = rows.shape
    basis = basis_of(reducer)
    check_columns(reducer, basis, X, n)
    if bandwidth is not None and not bandwidth > 0:
        raise ValueError(f"bandwidth={bandwidth!r} must be positive.")
    groups = Groups.from_labels(sensitive_features, n_rows=m)
    given = check_weights(sample_weight, m)
    weight = np.ones(m) if given is None else given
    chosen = balanced_draw(groups.codes, max_rows, random_state, weight)
    drawn = rows[chosen]
    # Centred before the product: distances of rows far from zero would lose their digits.
    Z = drawn @ basis if is_sparse(drawn) else (drawn - drawn.mean(axis=0)) @ basis
    if bandwidth is None:
        bandwidth = weighted_bandwidth(Z, None if given is None else given[chosen])
    members = np.eye(groups.n_groups)[groups.codes[chosen]] * weight[chosen, None]
    totals = members.sum(axis=0)
    # A group without weight has no distribution to compare.
    members = members[:, totals > 0] / totals[totals > 0]
    inner = members.T @ gaussian_product(Z / bandwidth, members)
    pairs = combinations(range(len(inner)), 2)
    found = (inner[i, i] + inner[j, j] - 2 * inner[i, j] for i, j in pairs)
    return max((float(value) for value in found), default=0.0)


def gaussian_product(Z: FloatArray, vectors: FloatArray) -> FloatArray:
    """Return ``K @ vectors`` for ``K_ij = exp(-|z_i - z_j|^2 / 2)``, never forming K.

    Shapes are (m, r) for rows and (m, q) for vectors and result. Every pair of rows is
    exponentiated once, which is where the time goes.
    """
    half, one = -0.5 * np.sum(Z * Z, axis=1, keepdims=True), np.ones((len(Z), 1))
    # One product of these gives -|z_i - z_j|^2 / 2.
    left, right = np.hstack([Z, half, one]), np.hstack([Z, one, half])
    product = np.zeros_like(vectors)
    for start in range(0, len(Z), _KERNEL_ROWS):
        stop = min(start + _KERNEL_ROWS, len(Z))
        block = left[start:stop] @ right[start:].T
        # Rounding can leave a distance slightly negative.
        np.minimum(block, 0.0, out=block)
        np.exp(block, out=block)
        product[start:stop] += block @ vectors[start:]
        product[stop:] += block[:, stop - start :].T @ vectors[start:stop]
    return product


def balanced_draw(
    codes: IntArray, most: int, random_state: Any = None, weight: FloatArray | None = None
) -> IntArray:
    """Return the positions of all rows, or of `most`: equally many of each group that has them.

    One of each is drawn in any case: a group without rows would be compared with nobody. The codes
    are the group of every row, 0 to k - 1; a row without weight is as good as none; a random state
    of None is a fixed seed. A draw in proportion would leave a small group with a few rows, and an
    average over these.
    """
    counted = np.arange(len(codes)) if weight is None else np.flatnonzero(weight)
    if len(counted) <= most:
        return counted
    rng = check_random_state(0 if random_state is None else random_state)
    members = [counted[codes[counted] == code] for code in range(int(codes.max()) + 1)]
    chosen, left = [], most
    # Smallest first: what a small group does not use goes to the larger ones.
    for i, rows in enumerate(sorted(members, key=len)):
        take = min(len(rows), max(left // (len(members) - i), 1))
        chosen.append(rng.permutation(rows)[:take])
        left -= take
    return np.sort(np.concatenate(chosen))


def read_target(y: Any, target: str = "auto") -> tuple[AnyArray, bool]:
    """Return a target as codes of classes or as numbers, and whether they are classes.

    Of `TARGETS`, "auto" takes text and a few distinct whole numbers for classes. ValueError where
    values are missing, infinite, all the same, or no numbers although numbers were asked for.
    """
    coded = Groups.from_labels(np.asarray(y), unlabelled="ignore")
    labels: tuple[Any, ...] = coded.labels
    missing, n_labels = int(np.sum(coded.codes < 0)), len(labels)
    if missing:
        raise ValueError(f"y has {missing} missing value(s); fill them in or drop those rows.")
    if n_labels < 2:
        raise ValueError("y has one class only; pass a target that varies.")
    few = n_labels <= max(2, min(_MOST_CLASSES, len(coded.codes) // _ROWS_PER_CLASS))
    numbers = [value for value in labels if type(value) in (int, float)]
    classes = len(numbers) < n_labels or (
        few and all(float(value).is_integer() for value in numbers)
    )
    if target == "classes" or (target == "auto" and classes):
        return coded.codes, True
    try:
        values = np.asarray(y, dtype=float)
    except (TypeError, ValueError):
        what = f"target='numbers' needs numbers and y holds {labels[0]!r}"
        raise ValueError(f"{what}; pass target='classes'.") from None
    infinite = int(np.isinf(values).sum())
    if infinite:
        raise ValueError(f"y has {infinite} infinite value(s); replace them or drop those rows.")
    return values, False


def held_out_predictions(
    Z_train: Any, y_train: Any, Z_test: Any, *, classes: bool, weight: FloatArray | None = None
) -> AnyArray:
    """Return what a linear model fitted on reduced rows predicts for others.

    It is a logistic regression of classes or a ridge regression of numbers. All columns are
    divided by one number, not each by its own: then rotating the components changes no
    prediction, and only the subspace matters. The weights are those of the rows trained on.
    """
    from sklearn.linear_model import LogisticRegression, Ridge

    Z_train, Z_test = np.asarray(Z_train, dtype=float), np.asarray(Z_test, dtype=float)
    center = np.average(Z_train, axis=0, weights=weight)
    apart = Z_train - center
    # About the mean of every column: means that lie far apart are no spread.
    spread = float(np.average((apart**2).mean(axis=1), weights=weight)) ** 0.5 or 1.0
    model = LogisticRegression(max_iter=1000) if classes else Ridge()
    model.fit(apart / spread, y_train, sample_weight=weight)
    return np.asarray(model.predict((Z_test - center) / spread))


@dataclass(frozen=True)
class HeldOut:
    """A target as `read_target` returns it, and the rows to learn it from and to test it on.

    The weights are those of all rows; without any all count alike.
    """

    y: AnyArray
    classes: bool
    train: IntArray
    test: IntArray
    weight: FloatArray | None = None

    def baseline(self) -> AnyArray:
        """Return what who knows no row predicts: the most frequent class, or the mean."""
        known, weight = self.y[self.train], self._weight(self.train)
        if self.classes:
            return np.full(len(self.test), np.bincount(known, weight).argmax())
        return np.full(len(self.test), np.average(known, weights=weight))

    def predictions(self, Z_train: AnyArray, Z_test: AnyArray) -> AnyArray:
        """Return what a linear model on reduced rows predicts."""
        known, weight = self.y[self.train], self._weight(self.train)
        return held_out_predictions(Z_train, known, Z_test, classes=self.classes, weight=weight)

    def _weight(self, rows: IntArray) -> FloatArray | None:
        return None if self.weight is None else self.weight[rows]

    def score(self, predicted: AnyArray, rows: Any = slice(None)) -> float | None:
        """Return accuracy or R squared of some of the test rows, None of too few for either."""
        actual, predicted = self.y[self.test][rows], predicted[rows]
        if len(actual) < 2 or (not self.classes and np.ptp(actual) == 0):
            return None
        weight = self._weight(self.test[rows])
        if self.classes:
            return float(np.average(predicted == actual, weights=weight))
        return float(r2_score(actual, predicted, sample_weight=weight))


@dataclass(frozen=True)
class Parity:
    """How a linear classifier on the reduced rows does, on rows it has not seen.

    Attributes
    ----------
    accuracy : float
        Share of rows it gets right.
    demographic_parity_difference : float
        Largest difference between two groups' rates of positive predictions.
    equal_opportunity_difference : float
        The same among rows whose label is positive; NaN where a group has none.

    Examples
    --------
    >>> from fairpca.metrics import held_out_parity
    >>> Z, y = [[-1.0], [1.0], [-1.1], [-1.2]], [0, 1, 0, 1]
    >>> held_out_parity(Z[:2], y[:2], Z, y, sensitive_features=["a", "a", "b", "b"])
    Parity(accuracy=0.75, demographic_parity_difference=0.5, equal_opportunity_difference=1.0)
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

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.metrics import held_out_parity
    >>> Z, y = np.array([[-1.0], [1.0], [-1.1], [1.1]]), [0, 1, 0, 1]
    >>> held_out_parity(Z, y, Z, y, sensitive_features=["a", "a", "b", "b"]).accuracy
    1.0
    """
    y_train, y_test = np.asarray(y_train), np.asarray(y_test)
    classes = np.unique(y_train)
    if len(classes) != 2:
        raise ValueError(
            f"y has {len(classes)} class(es); the classifier needs two, for example 0 and 1."
        )
    predicted = held_out_predictions(Z_train, y_train, Z_test, classes=True)
    groups = Groups.from_labels(sensitive_features, n_rows=len(predicted))

    def difference(rows: AnyArray) -> float:
        positive, codes = predicted[rows] == classes[1], groups.codes[rows]
        counts = np.bincount(codes, minlength=groups.n_groups)
        if (counts == 0).any():
            # A group without such rows has no rate.
            return float("nan")
        return float(np.ptp(np.bincount(codes, positive, minlength=groups.n_groups) / counts))

    every, actual = np.ones(len(predicted), dtype=bool), y_test == classes[1]
    return Parity(float(np.mean(predicted == y_test)), difference(every), difference(actual))
