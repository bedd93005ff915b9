"""Numbers of any linear reducer: what each group gets, and how alike the groups look afterwards.

A reducer is a fitted estimator with `components_`, or an array with one component per row; only
the subspace it spans matters. Data are rows with `sensitive_features`, or `GroupMoments`. Rows may
be dense, sparse, or a frame of any library; a lazy frame has to be collected first.

`Findings` is the table behind every number of a group: `fairpca.audit`, `fairpca.compare` and the
pictures read the same one, and `measured` fills it. `mean_error` and `mean_loss` take rows and
what was rebuilt of them: fairlearn's `MetricFrame` calls a metric so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import has_fit_parameter

from fairpca import _arrays, _check
from fairpca._arrays import AnyArray, FloatArray, IntArray, array_namespace, fetched, is_sparse
from fairpca.covariances import sources
from fairpca.covariances.products import CellRows
from fairpca.covariances.sources import CovarianceSource, MomentCovariances, OperatorCovariances
from fairpca.fitting import Matrices
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.groups import Data, Frame, Groups, Label, Labels, Reducer, Rows, Seed, Weights

__all__ = [
    "Findings", "basis_of", "covariance_gap", "findings", "group_errors", "group_losses",
    "group_shares", "group_variances", "mean_error", "mean_gap", "mean_loss", "median_bandwidth",
    "mmd_squared", "neighbours_kept", "sample_errors",
]  # fmt: skip

# Rows per block of a Gaussian kernel. A block of 128 times a few thousand rows stays in the cache;
# larger ones do not, smaller ones spend their time in the loop.
_KERNEL_ROWS = 128
# `center` and `group_by` of what is about differences between groups.
_WITHIN = "group", "intersection"


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What every group of some rows gets from one projection: one line a group.

    Attributes
    ----------
    labels : tuple
        Labels of the groups, k of them.
    rows : ndarray of shape (k,)
        How many rows each has.
    variance, error, loss, share, own : ndarray of shape (k,)
        Variance; mean squared error; what the group loses against its own PCA of the same rank;
        share of its variance that is kept; and the error of its own PCA.
    total_error : float
        Mean squared error of all rows about the mean that the projection subtracts.
    """

    labels: tuple[Label, ...]
    rows: IntArray = field(repr=False)
    variance: FloatArray = field(repr=False)
    error: FloatArray
    loss: FloatArray
    share: FloatArray = field(repr=False)
    own: FloatArray = field(repr=False)
    total_error: float = np.nan

    @property
    def worst(self) -> int:
        """Position of the group that loses most, of those whose loss is known."""
        return int(np.nanargmax(self.loss))

    @property
    def best(self) -> int:
        """Position of the group that loses least."""
        return int(np.nanargmin(self.loss))

    @property
    def worst_loss(self) -> float:
        """The largest loss."""
        return float(self.loss[self.worst])

    @property
    def gap(self) -> float:
        """``(worst loss - best loss) / worst loss``, where a loss below zero is none."""
        worst, best = (max(float(self.loss[i]), 0.0) for i in (self.worst, self.best))
        return (worst - best) / worst if worst > 0 else 0.0

    def columns(self) -> dict[str, Sequence[Label] | AnyArray]:
        """Return the table by columns, one entry a group in each."""
        names = ("rows", "variance", "error", "loss", "share", "own")
        return {"group": list(self.labels)} | {name: getattr(self, name) for name in names}

    def to_frame(self) -> Frame:
        """Return the table as a pandas frame."""
        pandas = _check.require("pandas", extra="app", purpose="to_frame")
        return pandas.DataFrame(self.columns())


def measured(
    basis: FloatArray,
    source: CovarianceSource,
    matrices: Matrices | None = None,
    origin: FloatArray | None = None,
) -> Findings:
    """Return the findings of orthonormal columns on rows that a source knows.

    Parameters
    ----------
    basis : ndarray of shape (p, r)
        In the coordinates of the source.
    source : CovarianceSource
    matrices : Matrices, optional
        Of the source: keeps the groups' own directions for several projections.
    origin : ndarray of shape (p,), optional
        What the projection subtracts, where that is not the mean of all rows.
    """
    groups, total, r = source.groups, source.total, basis.shape[1]
    matrices = matrices or Matrices.of(source)
    kept = matrices.oracle.retained_variance(basis)
    own = np.array([pairs.values[:r].sum() for pairs in matrices.own_pairs(r)])
    error, loss = (np.maximum(part, 0.0) for part in (groups.traces - kept, own - kept))
    left = total.trace - float(np.trace(fetched(source.total_compression(basis))))
    if origin is not None:
        apart = total.mean - origin
        left += float(apart @ apart - np.sum((apart @ basis) ** 2))
    return filled(groups, groups.traces, error, loss, max(left, 0.0), len(basis))


def filled(
    groups: Any, variance: FloatArray, error: FloatArray, loss: FloatArray, total: float, n: int
) -> Findings:
    """Return findings by errors and losses; what is less than rounding in n columns is zero."""
    rounding = _arrays.rounding_level(float(variance.max()), n)
    error, loss = (np.where(np.abs(part) <= rounding, 0.0, part) for part in (error, loss))
    # Nothing is missing where the error is none.
    share = 1.0 - np.divide(error, variance, out=np.zeros(len(error)), where=variance > 0)
    numbers = {"variance": variance, "error": error, "loss": loss, "share": share}
    left, labels = 0.0 if abs(total) <= rounding else total, tuple(groups.labels)
    own = error - loss
    return Findings(labels=labels, rows=groups.count, total_error=left, own=own, **numbers)


def basis_of(reducer: Reducer) -> FloatArray:
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
    components = getattr(reducer, "components_", reducer)
    try:
        rows = np.asarray(fetched(components), dtype=float)
    except (TypeError, ValueError):
        # Empty, so that the one message below covers it.
        rows = np.empty(0)
    if rows.ndim != 2 or rows.size == 0 or not np.isfinite(rows).all():
        raise ValueError(
            f"reducer={reducer!r} is no linear reducer: pass a fitted estimator with "
            "`components_` or an array with one component per row, all of them finite."
        )
    return _arrays.span(rows.T)


def named_reducers(reducers: Any, reserved: Iterable[str] = ()) -> dict[str, Any]:
    """Return reducers by distinct names, given as one, a list, a mapping or None.

    Without a name a reducer is called after its class; one whose name is reserved gets the mark
    "(given)".
    """
    if isinstance(reducers, Mapping):
        pairs = [(str(name), reducer) for name, reducer in reducers.items()]
    else:
        several = reducers if isinstance(reducers, list | tuple) else [reducers]
        pairs = [(type(reducer).__name__, reducer) for reducer in several if reducer is not None]
    names = _check.distinct([f"{name} (given)" if name in reserved else name for name, _ in pairs])
    return {name: reducer for name, (_, reducer) in zip(names, pairs, strict=True)}


def as_rows(X: Any, **limits: Any) -> AnyArray:
    """Return rows as an array of floats or in compressed sparse rows.

    The limits are options of `sklearn.utils.check_array` that differ from those here, such as
    ``accept_sparse=False``.
    """
    options = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "input_name": "X"}
    rows: AnyArray = check_array(_check.as_numpy(X), **(options | limits))
    return rows


def fitted_to(X: Any, model: Any, **extra: Any) -> Any:
    """Return a clone fitted to rows, with those further arguments that are known and it takes."""
    known = {k: v for k, v in extra.items() if v is not None and has_fit_parameter(model, k)}
    return clone(model).fit(X, **known)


def _read(
    reducer: Any, X: Any, sensitive_features: Any, sample_weight: Any, center: str, group_by: str
) -> tuple[FloatArray, CovarianceSource, FloatArray | None]:
    """Return what a reducer keeps, as orthonormal columns, the groups' matrices, and its mean.

    "global" matrices are about the mean of the reducer, where it has one: a projection subtracts
    it from all rows, also from rows that it was not fitted to. Where rows are far fewer than
    columns, all are in coordinates of what the rows span.
    """
    _check.check_choice("center", center, sources.CENTERS)
    if isinstance(X, GroupMoments):
        _check.check_counted(sensitive_features, sample_weight)
    elif array_namespace(X) is not None:
        # Rows of another array library are counted where they live.
        X = GroupMoments.from_array(X, sensitive_features, sample_weight=sample_weight)
    known: Any = X
    kind: Any = MomentCovariances
    if isinstance(X, GroupMoments):
        basis, mean = subspace(reducer, X, X.n_features)
    else:
        rows = as_rows(X)
        basis, mean = subspace(reducer, X, rows.shape[1])
        groups = Groups.of(sensitive_features, rows.shape[0], group_by=group_by)
        weight = _check.check_weights(sample_weight, rows.shape[0])
        if sources.is_wide(rows, basis.shape[1]):
            rows, inner = sources.in_span(rows, groups, weight, *([] if mean is None else [mean]))
            basis, mean = inner.inside(basis), None if mean is None else inner.coordinates(mean)
        if sources.is_for_products(rows, len(groups.labels), basis.shape[1]):
            known, kind = CellRows.from_rows(rows, groups, weight), OperatorCovariances
        else:
            known = GroupMoments.from_array(rows, groups, sample_weight=weight)
    source: CovarianceSource = kind(known, group_by, center, mean)
    _check.check_groups(source.groups.labels, source.groups.weight)
    return basis, source, mean


def subspace(reducer: Any, X: Any, n_features: int) -> tuple[FloatArray, FloatArray | None]:
    """Return the basis and the mean of a reducer; ValueError where X has other columns than it."""
    basis, mean = basis_of(reducer), getattr(reducer, "mean_", None)
    _check.check_names(reducer, X)
    if len(basis) != n_features:
        raise ValueError(
            f"X has {n_features} columns and the components have {len(basis)}; pass the columns "
            "that the reducer was fitted to, in the same order."
        )
    return basis, None if mean is None else np.asarray(fetched(mean), dtype=float)


def findings(
    reducer: Reducer,
    X: Data,
    *,
    sensitive_features: Labels | None = None,
    sample_weight: Weights = None,
    center: str = "global",
    group_by: str = "intersection",
) -> Findings:
    """Return all numbers of every group at once.

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
    group_by : {"intersection", "marginal"}, default="intersection"
        As in `fairpca.FairPCA`.

    Returns
    -------
    Findings

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.metrics import findings
    >>> X = np.array([[2.0, 0.0], [-2.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    >>> found = findings([[1.0, 0.0]], X, sensitive_features=["a", "a", "b", "b"])
    >>> found.loss.tolist(), found.share.tolist(), found.labels[found.worst]
    ([0.0, 1.0], [1.0, 0.0], 'b')
    """
    basis, source, mean = _read(reducer, X, sensitive_features, sample_weight, center, group_by)
    return measured(basis, source, origin=mean)


def group_variances(reducer: Reducer, X: Data, **options: Any) -> FloatArray:
    """Variance of each group that the reducer keeps.

    Parameters
    ----------
    reducer, X, **options
        As in `findings`.

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
    found = findings(reducer, X, **options)
    return np.asarray(found.variance - found.error)


def group_errors(reducer: Reducer, X: Data, **options: Any) -> FloatArray:
    """Mean squared reconstruction error of each group.

    Together with `group_variances` it adds up to the variance of the group about `center`. With
    "global" it is the mean squared distance between the rows, in hand or new, and what a PCA-like
    ``inverse_transform(transform(X))`` gives back.

    Parameters
    ----------
    reducer, X, **options
        As in `findings`.

    Returns
    -------
    ndarray of shape (k,)
        In the order of the sorted group labels.
    """
    return findings(reducer, X, **options).error


def group_losses(reducer: Reducer, X: Data, **options: Any) -> FloatArray:
    """What each group loses against its own PCA of the same rank, per row.

    Parameters
    ----------
    reducer, X, **options
        As in `findings`.

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
    return findings(reducer, X, **options).loss


def group_shares(reducer: Reducer, X: Data, **options: Any) -> FloatArray:
    """Share of each group's variance that the reducer keeps.

    Parameters
    ----------
    reducer, X, **options
        As in `findings`.

    Returns
    -------
    ndarray of shape (k,)
        In the order of the sorted group labels. A group without variance loses nothing: its share
        is one.
    """
    return findings(reducer, X, **options).share


def sample_errors(reducer: Reducer, X: Rows) -> FloatArray:
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
    rows = as_rows(X, accept_sparse=False, dtype=np.float64)
    basis, mean = subspace(reducer, X, rows.shape[1])
    rows = rows - (rows.mean(axis=0) if mean is None else mean)
    left = rows - (rows @ basis) @ basis.T
    return np.asarray(np.einsum("ij,ij->i", left, left))


def mean_error(y_true: Rows, y_pred: Rows, sample_weight: Weights = None) -> float:
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
    rows, rebuilt = np.asarray(y_true, dtype=float), np.asarray(y_pred, dtype=float)
    if rows.ndim != 2 or rows.shape != rebuilt.shape:
        raise ValueError(
            f"y_true has shape {rows.shape} and y_pred {rebuilt.shape}; pass rows as y_true, and "
            "what was rebuilt of them, model.inverse_transform(model.transform(rows)), as y_pred."
        )
    weight = _check.check_weights(sample_weight, len(rows))
    return float(np.average(np.sum((rows - rebuilt) ** 2, axis=1), weights=weight))


def mean_loss(
    y_true: Rows, y_pred: Rows, sample_weight: Weights = None, *, reducer: Reducer
) -> float:
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
    own = findings(reducer, y_true, sample_weight=sample_weight).own
    return mean_error(y_true, y_pred, sample_weight) - float(own[0])


def neighbours_kept(
    reducer: Reducer, X: Rows, sensitive_features: Labels, k: int = 10
) -> FloatArray:
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
    _check.check_at_least("k", k, 1)
    if k >= len(rows):
        raise ValueError(f"k={k} neighbours need more than {k} rows, and X has {len(rows)}.")
    project = getattr(reducer, "transform", lambda given: rows @ basis_of(reducer))
    after = as_rows(project(X), accept_sparse=False, dtype=np.float64)
    before, after = (part - part.mean(axis=0) for part in (rows, after))
    # Squared distances closer to each other than their rounding count as equal.
    unit = 1e-12 * float(np.einsum("ij,ij->i", before, before).max())
    furthest = NearestNeighbors(n_neighbors=k).fit(before).kneighbors()[0][:, -1]
    nearest = NearestNeighbors(n_neighbors=k).fit(after).kneighbors(return_distance=False)
    kept = np.zeros(len(rows))
    for neighbours in nearest.T:
        apart = before - before[neighbours]
        kept += np.einsum("ij,ij->i", apart, apart) <= furthest**2 + unit
    return np.asarray(np.bincount(groups.codes, kept / k) / groups.counts)


def mean_gap(
    reducer: Reducer, X: Data, *,
    sensitive_features: Labels | None = None, sample_weight: Weights = None,
) -> float:  # fmt: skip
    """Largest distance between two groups' means after projection.

    Parameters
    ----------
    reducer, X, sensitive_features, sample_weight
        As in `findings`.

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
    basis, source, _ = _read(reducer, X, sensitive_features, sample_weight, *_WITHIN)
    means = source.groups.mean @ basis
    return max((float(np.linalg.norm(a - b)) for a, b in combinations(means, 2)), default=0.0)


def covariance_gap(
    reducer: Reducer, X: Data, *,
    sensitive_features: Labels | None = None, sample_weight: Weights = None,
) -> float:  # fmt: skip
    """Largest spectral norm of the difference of two groups' covariances after projection.

    Parameters
    ----------
    reducer, X, sensitive_features, sample_weight
        As in `findings`.

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
    basis, source, _ = _read(reducer, X, sensitive_features, sample_weight, *_WITHIN)
    inner = Matrices.of(source).oracle.project(basis)
    return max((float(np.linalg.norm(a - b, 2)) for a, b in combinations(inner, 2)), default=0.0)


def median_bandwidth(
    Z: Rows, weight: FloatArray | None = None, *, max_rows: int = 3000, random_state: Seed = None
) -> float:
    """Bandwidth of a Gaussian kernel: the root of half the median squared distance of rows.

    Parameters
    ----------
    Z : array-like of shape (m, r)
    weight : ndarray of shape (m,), optional
        Rows are repeated as often as their weights say.
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
    chosen = balanced_draw(np.zeros(len(rows), dtype=np.int64), max_rows, random_state, weight)
    w = np.ones(len(chosen)) if weight is None else weight[chosen]
    # The copies of one row are at distance zero from each other; a share of a row has none.
    copies, first, second = np.maximum(w * (w - 1) / 2, 0.0).sum(), *np.triu_indices(len(w), 1)
    distances = np.append(0.0, pdist(rows[chosen], "sqeuclidean"))
    counts = np.append(copies, w[first] * w[second])
    if not distances.any():
        return 1.0
    order = np.argsort(distances, kind="stable")
    upto = np.cumsum(counts[order])
    # An even number of pairs has two middle ones, of which the median is the mean.
    middle = [np.searchsorted(upto, upto[-1] / 2, side=side) for side in ("left", "right")]
    median = float(distances[order][np.minimum(middle, len(distances) - 1)].mean())
    if median == 0:
        # More than half of all pairs coincide: any other scale is better than none.
        median = float(np.average(distances[distances > 0], weights=counts[distances > 0]))
    return float(np.sqrt(median / 2))


def mmd_squared(
    reducer: Reducer,
    X: Rows,
    *,
    sensitive_features: Labels,
    sample_weight: Weights = None,
    bandwidth: float | None = None,
    max_rows: int = 5000,
    random_state: Seed = None,
) -> float:
    """Largest squared maximum mean discrepancy of two groups after projection.

    The kernel is ``exp(-|x - y|^2 / (2 bandwidth^2))`` and the estimate keeps the diagonal, so
    it does not fall below about ``1/m_1 + 1/m_2`` for samples of one distribution.

    Parameters
    ----------
    reducer : fitted estimator or array-like of shape (r, n)
    X : array-like, sparse matrix or frame of shape (m, n)
    sensitive_features, sample_weight
        As in `findings`.
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
    basis, _ = subspace(reducer, X, n)
    if bandwidth is not None and not bandwidth > 0:
        raise ValueError(f"bandwidth={bandwidth!r} must be positive.")
    groups = Groups.of(sensitive_features, m)
    given = _check.check_weights(sample_weight, m)
    weight = np.ones(m) if given is None else given
    chosen = balanced_draw(groups.codes, max_rows, random_state, weight)
    drawn = rows[chosen]
    # Centred before the product: distances of rows far from zero would lose their digits.
    Z = drawn @ basis if is_sparse(drawn) else (drawn - drawn.mean(axis=0)) @ basis
    if bandwidth is None:
        bandwidth = median_bandwidth(Z, None if given is None else given[chosen])
    members = np.eye(groups.n_groups)[groups.codes[chosen]] * weight[chosen, None]
    totals = members.sum(axis=0)
    # A group without weight has no distribution to compare.
    members = members[:, totals > 0] / totals[totals > 0]
    inner = members.T @ gaussian_product(Z / bandwidth, members)
    own = np.diag(inner)
    return float((own[:, None] + own - 2 * inner).max())


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
