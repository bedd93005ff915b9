"""Every pair of groups apart: the projection that keeps the largest smallest share of a distance.

With d_ij the difference of two groups' means, a projection keeps a share of its squared length.
Discriminant analysis makes the mean of all distances large and gives up the closest pair; here the
smallest share of any pair is made as large as possible (max-min distance analysis: Bian and Tao
2011; Zhang and Yeung 2010). Lengths are relative to the covariance within groups, by default.

The rows are needed for the groups' means and for the covariance within groups. All else happens in
the span of the means, which has one dimension less than there are groups. Read
`MaxMinDistanceAnalysis`, then `keep_apart`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
from scipy.linalg.blas import dsyrk
from scipy.spatial.distance import cdist
from sklearn.base import (
    BaseEstimator,
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.utils import check_array, check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from fairpca._arrays import (
    EPS,
    TINY,
    AnyArray,
    FloatArray,
    IntArray,
    fix_signs,
    is_dask,
    is_sparse,
    orthonormal,
)
from fairpca._check import as_numpy, check_at_least, check_choice, check_weights
from fairpca.fitting import pose
from fairpca.genetics import StandardizedGenotypes
from fairpca.moments.group_moments import GroupMoments
from fairpca.solvers import Certificate, solve_problem
from fairpca.solvers.descent import descend

#: What distances are relative to: the covariance within groups, or nothing.
WITHIN = ("pooled", "identity")
# Inner products of rows are counted, instead of those of columns, from this many columns a row on.
_WIDE = 1.5
# Entries of a block that is float64 at a time: 64 megabytes.
_ENTRIES = 8_000_000
# Directions between means shorter than this share of the longest are rounding.
_RANK = 1e-7
# The search begins with a soft minimum over about all pairs and ends with one over the closest.
_SOFTNESS = (1.0, 1000.0)
# Entries of all starts of a search together, and the fewest and most starts.
_SEARCHED, _STARTS = 200_000, (4, 64)
# The best starts are followed to the last digit where pairs times columns times rank are so few.
_FOLLOWED, _POLISHED = 5, 60_000
# Pairs that a bound rests on. Any of them prove it; few are missed by leaving the others out.
_MOST_PAIRS = 500


class MaxMinDistanceAnalysis(  # type: ignore[misc]
    ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """Linear projection that keeps every pair of groups apart.

    Maximises, over projections, the smallest share that any distance between two groups' means
    keeps. Small groups and close groups count as much as large and distant ones.

    Parameters
    ----------
    n_components : int, optional
        By default, and at most, one fewer than groups, which keep every distance whole.
    within : {"pooled", "identity"}, default="pooled"
        "pooled" measures distances relative to the covariance within groups, as discriminant
        analysis does; "identity" takes them as they are, with orthonormal components.
    shrinkage : float or "auto", default="auto"
        How far the pooled covariance is moved towards a multiple of the identity, from 0 to 1.
        "auto" takes the oracle approximating estimate (Chen, Wiesel, Eldar and Hero 2010); it is
        1 where rows are few, and the distances are then the plain ones.
    prove : bool, default=False
        Search for a better proof for up to a minute.
    tol : float, default=1e-6
        Gap of the lost share at which to stop.
    max_iter : int, default=300
        Steps of every descent.
    random_state : int, RandomState instance or None, default=None
        Of the starts; None means a fixed seed.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features_in_)
        Their scores have the (shrunk) within-group covariance identity; with "identity" they are
        orthonormal. Ordered by the spread of the groups' means.
    patterns_ : ndarray of shape (n_components_, n_features_in_)
        What `inverse_transform` multiplies scores with.
    mean_ : ndarray of shape (n_features_in_,)
        Mean of all rows, subtracted by `transform`.
    classes_ : ndarray of shape (k,)
    means_ : ndarray of shape (k, n_features_in_)
    class_count_ : ndarray of shape (k,)
        Rows of every group.
    pair_shares_ : ndarray of shape (k, k)
        Share that every squared distance keeps, of the rows in hand; see `new_rows`.
    distances_ : ndarray of shape (k, k)
        Squared distances themselves.
    shrinkage_ : float
        How far the covariance was moved; 1 with "identity".
    certificate_ : Certificate
        Of the largest lost share, one minus the smallest entry of `pair_shares_`.
    n_components_, n_features_in_ : int
    feature_names_in_ : ndarray
        Only when the columns of X have string names.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from fairpca import MaxMinDistanceAnalysis
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MaxMinDistanceAnalysis(n_components=1).fit(X, y)
    >>> model.transform(X).shape, round(float(model.pair_shares_.min()), 2)
    ((150, 1), 0.99)
    """

    _moments: GroupMoments | None = None

    def __init__(
        self,
        n_components: int | None = None,
        *,
        within: str = "pooled",
        shrinkage: float | str = "auto",
        prove: bool = False,
        tol: float = 1e-6,
        max_iter: int = 300,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.within = within
        self.shrinkage = shrinkage
        self.prove = prove
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> MaxMinDistanceAnalysis:
        """Fit the projection.

        Parameters
        ----------
        X : array-like, sparse matrix or StandardizedGenotypes of shape (n_samples, n_features)
            Or a Dask array.
        y : array-like of shape (n_samples,)
            The group of every row.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative; weight 2 is the row twice.

        Returns
        -------
        self
        """
        self._check()
        if is_dask(X):
            moments = GroupMoments.from_array(X, np.asarray(y), sample_weight=sample_weight)
            return self.fit_moments(moments)
        X, classes, codes, weight = self._read(X, y, sample_weight)
        counted = _Counted.of_rows(X, codes, weight, len(classes), self.within == "pooled")
        self._moments = None
        return self._fit(counted, classes)

    def partial_fit(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None
    ) -> MaxMinDistanceAnalysis:
        """Count further rows in, and fit all rows seen so far; the same as `fit` on all of them.

        Parameters
        ----------
        X, y, sample_weight
            As in `fit`; any batch size, and groups may be new.
        classes : Ignored

        Returns
        -------
        self
        """
        self._check()
        if self._moments is None and hasattr(self, "components_"):
            raise ValueError(
                "partial_fit cannot go on from fit, which keeps no moments; count all rows with "
                "partial_fit on a new estimator."
            )
        X, names, codes, weight = self._read(X, y, sample_weight, reset=self._moments is None)
        found = GroupMoments.from_array(X, names[codes], sample_weight=weight)
        return self._fit_moments(found if self._moments is None else self._moments.merge(found))

    def fit_moments(self, moments: GroupMoments) -> MaxMinDistanceAnalysis:
        """Fit from moments that were counted elsewhere: in chunks, in processes, on a cluster."""
        self._check()
        self.n_features_in_ = moments.n_features
        if moments.feature_names is not None:
            self.feature_names_in_ = np.array(moments.feature_names, dtype=object)
        return self._fit_moments(moments)

    def _fit_moments(self, moments: GroupMoments) -> MaxMinDistanceAnalysis:
        """Fit from moments, and keep them for the next batch."""
        self._moments = moments
        moments = moments.grouped()
        counted = _Counted.of_moments(moments, self.within == "pooled")
        return self._fit(counted, np.array(moments.labels))

    def _check(self) -> None:
        check_choice("within", self.within, WITHIN)
        if self.n_components is not None:
            check_at_least("n_components", self.n_components, 1)
        check_at_least("max_iter", self.max_iter, 1)
        if self.shrinkage != "auto" and not 0 <= float(self.shrinkage) <= 1:
            raise ValueError(f"shrinkage={self.shrinkage!r} must be 'auto' or from 0 to 1.")

    def _read(
        self, X: Any, y: Any, sample_weight: Any, reset: bool = True
    ) -> tuple[Any, AnyArray, IntArray, FloatArray]:
        """Return validated rows, the groups, and code and weight of every row that counts."""
        X = self._rows(X, reset=reset)
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed: groups of rows.")
        check_classification_targets(y)
        y = column_or_1d(y, warn=True)
        weight = check_weights(sample_weight, X.shape[0])
        weight = np.ones(X.shape[0]) if weight is None else weight
        if len(y) != X.shape[0]:
            raise ValueError(f"y has {len(y)} entries and X {X.shape[0]} rows.")
        if not weight.all():
            kept = np.flatnonzero(weight)
            X, y, weight = _some(X, kept), y[kept], weight[kept]
        classes, codes = np.unique(y, return_inverse=True)
        return X, classes, codes, weight

    def _rows(self, X: Any, reset: bool) -> Any:
        """Return validated rows; genotypes stay as they are."""
        if not isinstance(X, StandardizedGenotypes):
            kinds, sparse = [np.float64, np.float32], ("csr", "csc")
            return validate_data(self, as_numpy(X), dtype=kinds, accept_sparse=sparse, reset=reset)
        if reset:
            self.n_features_in_ = X.shape[1]
        if X.shape[1] != self.n_features_in_:
            raise ValueError(f"X has {X.shape[1]} SNPs; the model has {self.n_features_in_}.")
        return X

    def _fit(self, counted: _Counted, classes: AnyArray) -> MaxMinDistanceAnalysis:
        found = _separate(counted, self)
        pooled = counted.weight / counted.weight.sum()
        self.classes_, self.means_, self.class_count_ = classes, counted.mean, counted.count
        self.mean_ = pooled @ counted.mean
        self.__dict__.update({f"{name}_": part for name, part in vars(found).items()})
        self.n_components_ = len(found.components)
        return self

    def transform(self, X: Any) -> Any:
        """Project rows: subtract the mean, multiply by the components.

        Parameters
        ----------
        X : array-like, sparse matrix or StandardizedGenotypes of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_components_)
        """
        check_is_fitted(self)
        X = self._rows(X, reset=False)
        columns = self.components_.T
        if isinstance(X, np.ndarray):
            return ((X - self.mean_) @ columns).astype(X.dtype, copy=False)
        return np.asarray(X @ columns - self.mean_ @ columns).astype(X.dtype, copy=False)

    def inverse_transform(self, X: Any) -> Any:
        """Map scores to rows that differ as group means do; a mean that is kept whole comes back.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components_)

        Returns
        -------
        ndarray of shape (n_samples, n_features_in_)
        """
        check_is_fitted(self)
        scores = check_array(X, dtype=[np.float64, np.float32])
        return (scores @ self.patterns_ + self.mean_).astype(scores.dtype, copy=False)

    def predict(self, X: Any) -> AnyArray:
        """Return the group whose mean is nearest in the projection."""
        scores = self.transform(X)
        means = (self.means_ - self.mean_) @ self.components_.T
        return np.asarray(self.classes_[cdist(scores, means).argmin(axis=1)])

    def new_rows(self, X: Any, y: Any, *, n_folds: int = 5) -> NewRows:
        """Return what fits with these parameters keep of rows that they have not seen.

        Distances between means of few rows in many columns are mostly noise, and a projection can
        keep apart noise as well. Every fold is left out in turn, in two halves: the product of two
        independent estimates of a difference has no bias.

        Parameters
        ----------
        X, y
            As in `fit`.
        n_folds : int, default=5

        Returns
        -------
        NewRows
        """
        check_at_least("n_folds", n_folds, 2)
        other = type(self)(**self.get_params())
        other._check()
        X, classes, codes, weight = other._read(X, y, None)
        rng, k = check_random_state(self.random_state or 0), len(classes)
        order = rng.permutation(len(codes))
        order = order[np.argsort(codes[order], kind="stable")]
        # Rows of every group are dealt to the halves of all folds in turn.
        begin = np.searchsorted(codes[order], np.arange(k))
        part = np.empty(len(codes), dtype=int)
        part[order] = (np.arange(len(codes)) - begin[codes[order]]) % (2 * n_folds)
        kept, length, landed = np.zeros((3, k, k))
        for fold in range(n_folds):
            train = np.flatnonzero(part // 2 != fold)
            present, inside = np.unique(codes[train], return_inverse=True)
            counted = _Counted.of_rows(
                _some(X, train), inside, weight[train], len(present), self.within == "pooled"
            )
            found = _separate(counted, other)
            centre = counted.weight @ counted.mean / counted.weight.sum()
            halves = [np.flatnonzero(part == 2 * fold + half) for half in (0, 1)]
            means, has = zip(*(_means(X, h, codes, k) for h in halves), strict=True)
            scores = [(mean - centre) @ found.components.T for mean in means]
            metric = counted.solve(means[1] - centre, found.shrinkage)
            both = np.outer(has[0] & has[1], has[0] & has[1])
            kept += np.where(both, _squared(scores[0] @ scores[1].T), 0)
            length += np.where(both, _squared((means[0] - centre) @ metric), 0)
            test = np.concatenate(halves)
            seen = _some(X, test) @ found.components.T
            near = cdist(seen, counted.mean @ found.components.T).argmin(axis=1)
            np.add.at(landed, (codes[test], present[near]), 1)
        shares = np.divide(kept, length, out=np.full((k, k), np.nan), where=length > 0)
        np.fill_diagonal(shares, 1.0)
        confusion = landed / np.maximum(landed.sum(axis=1, keepdims=True), 1)
        return NewRows(classes, shares, confusion)

    def to_sklearn(self) -> LinearDiscriminantAnalysis:
        """Return a fitted LinearDiscriminantAnalysis with the same `transform` and `predict`."""
        check_is_fitted(self)
        found = LinearDiscriminantAnalysis(n_components=self.n_components_)
        scores = (self.means_ - self.mean_) @ self.components_.T
        coef = scores @ self.components_
        intercept = -0.5 * np.sum(scores**2, axis=1) - coef @ self.mean_
        if len(coef) == 2:
            coef, intercept = coef[1:] - coef[:1], intercept[1:] - intercept[:1]
        found.classes_, found.means_, found.xbar_ = self.classes_, self.means_, self.mean_
        found.priors_ = np.full(len(self.classes_), 1 / len(self.classes_))
        found.scalings_, found.coef_, found.intercept_ = self.components_.T, coef, intercept
        found._max_components = self.n_components_
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self, name):
                setattr(found, name, getattr(self, name))
        return found

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


@dataclass(frozen=True)
class NewRows:
    """What becomes of rows that were left out of the fit.

    Attributes
    ----------
    classes : ndarray of shape (k,)
    shares : ndarray of shape (k, k)
        Share that every squared distance keeps, estimated without bias; chance can take it out of
        0 to 1. NaN for groups with fewer than two rows left out at a time.
    confusion : ndarray of shape (k, k)
        Share of each group's rows (a line) that are nearest to every group's mean (a column).
    """

    classes: AnyArray
    shares: FloatArray
    confusion: FloatArray

    @property
    def recognised(self) -> FloatArray:
        """Share of each group's rows that are nearest to their own mean, shape (k,)."""
        return np.diag(self.confusion)


@dataclass(frozen=True)
class _Counted:
    """What is known of the rows: the groups' means, and products of rows about them.

    Attributes
    ----------
    count, weight : ndarray of shape (k,)
    mean : ndarray of shape (k, n)
    inner : ndarray of shape (n, n) or (m, m), or None
        Sum of products of columns, or of rows, about the groups' means.
    cross : ndarray of shape (m, k) or None
        Products of rows about the groups' means with these, where `inner` is of rows.
    rows : tuple or None
        X, codes and root of the weight of every row, where `inner` is of rows.
    """

    count: IntArray
    weight: FloatArray
    mean: FloatArray
    inner: FloatArray | None
    cross: FloatArray | None = None
    rows: tuple[Any, IntArray, FloatArray] | None = None

    @classmethod
    def of_moments(cls, moments: GroupMoments, pooled: bool) -> _Counted:
        """Return what moments know."""
        inner = moments.scatter.sum(axis=0) if pooled else None
        return cls(moments.count, moments.weight, moments.mean, inner)

    @classmethod
    def of_rows(
        cls, X: Any, codes: IntArray, weight: FloatArray, k: int, pooled: bool
    ) -> _Counted:
        """Count rows in blocks: of columns where these are many, else of rows."""
        m, n = X.shape
        count, total = np.bincount(codes, minlength=k), np.bincount(codes, weight, minlength=k)
        share = scipy.sparse.csr_array((weight / total[codes], (codes, np.arange(m))), (k, m))
        root, wide = np.sqrt(weight)[:, None], n > _WIDE * m
        inner = np.zeros((m if wide else n,) * 2, order="F")
        mean, cross = np.empty((k, n)), np.zeros((m, k))
        if is_sparse(X):
            X = X.tocsc()
        for part, block in _blocks(X, columns=True):
            mean[:, part] = share @ block
            if pooled and wide:
                rest = np.asfortranarray(root * (block - mean[:, part][codes]))
                inner = dsyrk(1.0, rest, beta=1.0, c=inner, overwrite_c=1)
                cross += rest @ mean[:, part].T
        if not pooled:
            return cls(count, total, mean, None)
        if wide:
            return cls(count, total, mean, _mirrored(inner), cross, (X, codes, root))
        for part, block in _blocks(X.tocsr() if is_sparse(X) else X, columns=False):
            rest = root[part] * (block - mean[codes[part]])
            inner = dsyrk(1.0, rest.T, beta=1.0, c=inner, overwrite_c=1)
        return cls(count, total, mean, _mirrored(inner))

    @property
    def freedom(self) -> float:
        """Rows that count, less one for every mean; weights act like repeated rows."""
        rows = max(float(self.weight.sum()), float(self.count.sum()))
        return float(self.weight.sum()) * max(1 - len(self.count) / rows, 1 / rows)

    def auto_shrinkage(self) -> float:
        """Return the oracle approximating share (Chen, Wiesel, Eldar and Hero 2010)."""
        if self.inner is None:
            return 1.0
        n, rows = self.mean.shape[1], max(self.freedom, 1.0)
        trace, square = float(np.trace(self.inner)), float(np.sum(self.inner**2))
        over = (rows + 1 - 2 / n) * (square - trace**2 / n)
        return min(((1 - 2 / n) * square + trace**2) / over, 1.0) if over > 0 else 1.0

    def solve(
        self, points: FloatArray, shrinkage: float, cross: FloatArray | None = None
    ) -> FloatArray:
        """Return ``W^-1 @ points.T``, shape (n, q), for the shrunk covariance W within groups.

        `cross` are products of the rows with the points, where somebody has them.
        """
        n = self.mean.shape[1]
        trace = 0.0 if self.inner is None else float(np.trace(self.inner)) / self.freedom
        if self.inner is None or trace == 0:
            return points.T
        ridge, part = shrinkage * trace / n, (1 - shrinkage) / self.freedom
        if part == 0:
            return points.T / ridge
        matrix = part * self.inner
        matrix[np.diag_indices_from(matrix)] += ridge
        try:
            factor = scipy.linalg.cho_factor(matrix, overwrite_a=True)
        except np.linalg.LinAlgError:
            raise ValueError(
                f"shrinkage={shrinkage:g}: the covariance within groups has no inverse; take "
                "'auto' or a larger number, or leave out columns that depend on others."
            ) from None
        if self.rows is None:
            return np.asarray(scipy.linalg.cho_solve(factor, points.T))
        # Woodbury: the covariance is a multiple of the identity and one of R.T R.
        if cross is None:
            cross = sum(rest @ points[:, at].T for at, rest in self._about_means())
        inside = scipy.linalg.cho_solve(factor, part * np.asarray(cross))
        found = points.T.copy()
        for at, rest in self._about_means():
            found[at] -= rest.T @ inside
        return found / ridge

    def _about_means(self) -> Iterator[tuple[slice, FloatArray]]:
        """Yield blocks of columns of the rows about their groups' means."""
        assert self.rows is not None
        X, codes, root = self.rows
        for part, block in _blocks(X, columns=True):
            yield part, root * (block - self.mean[:, part][codes])


def _some(X: Any, rows: IntArray) -> Any:
    """Return some rows, in the form that all have."""
    return X.take(rows) if isinstance(X, StandardizedGenotypes) else X[rows]


def _blocks(X: Any, *, columns: bool) -> Iterator[tuple[slice, FloatArray]]:
    """Yield dense float64 blocks of columns, or of rows, and where they are."""
    m, n = X.shape
    length, step = (n, _ENTRIES // m) if columns else (m, _ENTRIES // n)
    for start in range(0, length, max(step, 1)):
        part = slice(start, start + max(step, 1))
        if isinstance(X, StandardizedGenotypes):
            yield part, X.columns(part) if columns else X.take(part).columns(slice(None))
            continue
        block = X[:, part] if columns else X[part]
        yield part, np.asarray(block.toarray() if is_sparse(X) else block, dtype=np.float64)


def _means(X: Any, rows: IntArray, codes: IntArray, k: int) -> tuple[FloatArray, AnyArray]:
    """Return the means of some rows by group, shape (k, n), and which groups have any."""
    count = np.bincount(codes[rows], minlength=k)
    share = np.eye(k)[codes[rows]] / np.maximum(count, 1)
    return np.asarray(_some(X, rows).T @ share).T, count > 0


def _mirrored(lower: FloatArray) -> FloatArray:
    """Return the symmetric matrix of which BLAS has filled the upper half."""
    found = np.asarray(lower + lower.T)
    found[np.diag_indices_from(found)] /= 2
    return found


def _squared(inner: FloatArray) -> FloatArray:
    """Return squared distances of points from their inner products, shape (k, k)."""
    own = np.diag(inner)
    return np.asarray(own[:, None] + own - inner - inner.T)


@dataclass(frozen=True)
class _Separated:
    """What a fit finds; the attributes of `MaxMinDistanceAnalysis` without the underscore."""

    components: FloatArray
    patterns: FloatArray
    pair_shares: FloatArray
    distances: FloatArray
    shrinkage: float
    certificate: Certificate


def _separate(counted: _Counted, model: MaxMinDistanceAnalysis) -> _Separated:
    """Return the projection of counted rows with the parameters of a model."""
    k = len(counted.mean)
    if k < 2:
        raise ValueError("y has one class; distances between groups need two or more.")
    shrinkage = 1.0 if counted.inner is None else model.shrinkage
    shrinkage = counted.auto_shrinkage() if shrinkage == "auto" else float(shrinkage)
    points, cross = counted.mean - counted.mean.mean(axis=0), counted.cross
    if cross is not None:
        cross = cross - cross.mean(axis=1, keepdims=True)
    images = counted.solve(points, shrinkage, cross)
    inner = points @ images
    values, vectors = np.linalg.eigh((inner + inner.T) / 2)
    kept = values > _RANK**2 * max(values[-1], TINY)
    if not kept.any():
        raise ValueError("all groups have the same mean; no projection keeps them apart.")
    sizes, vectors = np.sqrt(values[kept]), vectors[:, kept]
    points_inside, distances = vectors * sizes, np.maximum(_squared(inner), 0.0)
    first, second = np.triu_indices(k, 1)
    apart = points_inside[first] - points_inside[second]
    lengths = np.linalg.norm(apart, axis=1)
    apart = apart[lengths > _RANK * lengths.max()]
    apart /= np.linalg.norm(apart, axis=1, keepdims=True)
    r = min(model.n_components or k - 1, len(sizes))
    basis, certificate = keep_apart(
        apart,
        r,
        prove=model.prove,
        tol=model.tol,
        max_iter=model.max_iter,
        random_state=model.random_state or 0,
    )
    # In order of the spread of the means, every group counting once.
    spread = points_inside @ basis
    basis = basis @ np.linalg.eigh(spread.T @ spread)[1][:, ::-1]
    mix = vectors / sizes @ basis
    components, patterns = (images @ mix).T, (points.T @ mix).T
    if counted.inner is None:
        components = patterns = orthonormal(patterns.T).T
    fixed = fix_signs(components)
    patterns = patterns * np.sign(np.sum(fixed * components, axis=1))[:, None]
    scores = points @ fixed.T
    shares = np.divide(
        _squared(scores @ scores.T),
        distances,
        out=np.ones((k, k)),
        where=distances > (_RANK * lengths.max()) ** 2,
    )
    return _Separated(fixed, patterns, np.minimum(shares, 1.0), distances, shrinkage, certificate)


def keep_apart(
    directions: FloatArray,
    r: int,
    *,
    prove: bool = False,
    tol: float = 1e-6,
    max_iter: int = 300,
    random_state: Any = 0,
) -> tuple[FloatArray, Certificate]:
    """Return the basis of rank r that keeps most of the direction it keeps least of.

    Many descents run side by side, from random starts. Each follows the maximum of a soft minimum
    over all directions while that hardens; few directions then bind, and the best descents are
    followed to the last digit. The bound comes from the relaxed problem, whose solution is any
    matrix with trace r and eigenvalues from 0 to 1.

    Parameters
    ----------
    directions : ndarray of shape (p, q)
        Of unit length.
    r : int
    prove, tol, max_iter, random_state
        As in `MaxMinDistanceAnalysis`.

    Returns
    -------
    basis : ndarray of shape (q, r)
        Orthonormal columns.
    certificate : Certificate
        Of the largest share that is lost.
    """
    p, q = directions.shape
    if r >= q:
        return np.eye(q), Certificate.of(0.0, 0.0, scale=1.0, resolution=q * EPS)
    rng = check_random_state(random_state)
    n_starts = int(np.clip(_SEARCHED // (p * q), *_STARTS))
    bases = np.linalg.qr(rng.standard_normal((n_starts, q, r)))[0]
    bases, weights = _descents(directions, bases, max_iter), _relaxed(directions, r, 2 * max_iter)

    def smallest(basis: FloatArray) -> float:
        return float(np.sum((directions @ basis) ** 2, axis=1).min())

    order = sorted(bases, key=smallest, reverse=True)
    if p * q * r <= _POLISHED:
        problem = _problem(directions, r)
        order = [descend(problem, one, weights).basis for one in order[:_FOLLOWED]]
    basis = max(order, key=smallest)
    # The bound needs few pairs, and the value those that are kept worst.
    closest = np.argsort(np.sum((directions @ basis) ** 2, axis=1))[:_MOST_PAIRS]
    chosen = np.union1d(np.argsort(-weights)[:_MOST_PAIRS], closest[: r * q])
    problem, weights = _problem(directions[chosen], r), weights[chosen] / weights[chosen].sum()
    near = problem.oracle.leading(weights, r)
    how = {"stop_reason": "descents ended", "solver": "descent"}
    certificate = problem.solution(basis, weights, near, **how).certificate
    if prove and certificate.gap > tol:
        searched = solve_problem(problem, tol=tol, prove=True)
        bound = max(certificate.lower_bound, searched.certificate.lower_bound)
        basis = max(basis, searched.components.T, key=smallest)
        certificate = problem.certificate(bound, 1.0 - smallest(basis))
    return basis, certificate


def _problem(directions: FloatArray, r: int) -> Any:
    """Return the problem whose losses are the lost shares of directions."""
    return pose(directions[:, :, None] * directions[:, None, :], r, "share")


def _hardening(ratio: float, steps: int) -> FloatArray:
    """Return how hard the soft minimum is at every step, where shares are about 1 / ratio."""
    return ratio * np.geomspace(*_SOFTNESS, steps)


def _descents(directions: FloatArray, bases: FloatArray, steps: int) -> FloatArray:
    """Return bases after steps with momentum up a soft minimum that hardens, shape (b, q, r)."""
    q, r = bases.shape[1:]
    pace = np.zeros_like(bases)
    for hardness in _hardening(q / r, steps):
        scores = directions @ bases
        shares = np.sum(scores**2, axis=2)
        soft = np.exp(hardness * (shares.min(axis=1, keepdims=True) - shares))
        soft /= soft.sum(axis=1, keepdims=True)
        pace = 0.9 * pace + q / hardness * (directions.T @ (soft[:, :, None] * scores))
        pace -= bases @ (np.swapaxes(bases, 1, 2) @ pace)
        bases = np.linalg.qr(bases + pace)[0]
    return bases


def _relaxed(directions: FloatArray, r: int, steps: int) -> FloatArray:
    """Return the weights of directions with the best bound on the way to the relaxed optimum."""
    q = directions.shape[1]
    matrix, pace = np.eye(q) * r / q, np.zeros((q, q))
    best, weights = np.inf, np.empty(0)
    for hardness in _hardening(q / r, steps):
        shares = np.einsum("pq,pq->p", directions @ matrix, directions)
        soft = np.exp(hardness * (shares.min() - shares))
        soft /= soft.sum()
        slope = directions.T @ (soft[:, None] * directions)
        bound = float(np.linalg.eigvalsh(slope)[-r:].sum())
        if bound < best:
            best, weights = bound, soft
        pace = 0.95 * pace + q / hardness * slope
        values, vectors = np.linalg.eigh(matrix + pace)
        # The nearest matrix with trace r and eigenvalues from 0 to 1.
        low, high = values[0] - 1.0, values[-1]
        for _ in range(50):
            middle = (low + high) / 2
            enough = np.clip(values - middle, 0, 1).sum() > r
            low, high = (middle, high) if enough else (low, middle)
        moved = (vectors * np.clip(values - low, 0, 1)) @ vectors.T
        matrix, pace = moved, moved - matrix
    return weights
