"""Every pair of groups apart: the projection that keeps the largest smallest share of a distance.

With d_ij the difference of two groups' means, a projection keeps a share of its squared length.
Discriminant analysis makes the mean of all distances large and gives up the closest pair; here the
smallest share of any pair is made as large as possible (max-min distance analysis: Bian and Tao
2011; Zhang and Yeung 2010). Lengths are relative to the covariance within groups, by default.

The rows are needed for the groups' means and for the covariance within groups. All else happens in
the span of the means, which has one dimension less than there are groups. Read
`MaxMinDistanceAnalysis._fit`, then `keep_apart`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
from scipy.linalg.blas import dsyrk
from scipy.spatial.distance import cdist
from sklearn import base
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import confusion_matrix
from sklearn.utils import check_array, check_consistent_length, check_random_state, gen_batches
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from fairpca._arrays import AnyArray, FloatArray, fix_signs, is_dask, is_sparse, one_ahead
from fairpca._check import as_numpy, check_at_least, check_choice, check_weights
from fairpca.fitting import pose
from fairpca.genetics import BLOCK_ENTRIES, StandardizedGenotypes
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.groups import Labels, Rows, Weights
from fairpca.solvers import Certificate, solve_problem
from fairpca.solvers.descent import descend

# Inner products of rows are counted, instead of those of columns, from this many columns a row on.
_WIDE = 1.5
# Directions between means shorter than this share of the longest are rounding.
_RANK = 1e-7
# The search begins with a soft minimum over about all pairs and ends with one over the closest.
_SOFTNESS = (1.0, 1000.0)
# Entries of all starts of a search together, and the fewest and most starts.
_SEARCHED, _STARTS = 200_000, (4, 64)
# The best starts are followed to the last digit where pairs times columns times rank are so few.
_FOLLOWED, _POLISHED = 3, 60_000
# Steps of every descent, and the gap that `prove` does not try to close.
_STEPS, _GAP = 300, 1e-6
# Pairs that a bound rests on. Any of them prove it; few are missed by leaving the others out.
_MOST_PAIRS = 500


class MaxMinDistanceAnalysis(
    base.ClassifierMixin,  # type: ignore[misc]
    base.ClassNamePrefixFeaturesOutMixin,  # type: ignore[misc]
    base.TransformerMixin,  # type: ignore[misc]
    base.BaseEstimator,  # type: ignore[misc]
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
        Rows of every group, or the sum of their weights.
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
    ((150, 1), 0.96)
    """

    _moments: GroupMoments | None = None

    def __init__(
        self,
        n_components: int | None = None,
        *,
        within: str = "pooled",
        shrinkage: float | str = "auto",
        prove: bool = False,
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_components = n_components
        self.within = within
        self.shrinkage = shrinkage
        self.prove = prove
        self.random_state = random_state

    def fit(self, X: Rows, y: Labels, sample_weight: Weights = None) -> MaxMinDistanceAnalysis:
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
        return self._fit(self._counted(*self._read(X, y, sample_weight)))

    def partial_fit(
        self, X: Rows, y: Labels, classes: Labels | None = None, sample_weight: Weights = None
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
        fresh = not hasattr(self, "components_")
        X, y, weight = self._read(X, y, sample_weight, reset=fresh)
        moments = GroupMoments.from_array(X, y, sample_weight=weight)
        if not fresh:
            if self._moments is None:
                raise ValueError(
                    "partial_fit cannot go on: the rows of the fit were too wide for moments, or "
                    "the model was stored without; count all rows with a new estimator."
                )
            moments = self._moments.merge(moments)
        return self._fit(_Counted.of_moments(moments, self.within == "pooled"))

    def fit_moments(self, moments: GroupMoments) -> MaxMinDistanceAnalysis:
        """Fit from moments that were counted elsewhere: in chunks, in processes, on a cluster."""
        self._check()
        self.n_features_in_ = moments.n_features
        if moments.feature_names is not None:
            self.feature_names_in_ = np.array(moments.feature_names, dtype=object)
        return self._fit(_Counted.of_moments(moments, self.within == "pooled"))

    def _check(self) -> None:
        check_choice("within", self.within, ("pooled", "identity"))
        if self.n_components is not None:
            check_at_least("n_components", self.n_components, 1)
        if self.shrinkage != "auto" and not 0 <= float(self.shrinkage) <= 1:
            raise ValueError(f"shrinkage={self.shrinkage!r} must be 'auto' or from 0 to 1.")

    def _read(
        self, X: Any, y: Any, sample_weight: Any = None, reset: bool = True
    ) -> tuple[Any, AnyArray, FloatArray]:
        """Return validated rows, and group and weight of each; those without weight are gone."""
        X = self._rows(X, reset=reset)
        y = check_array(column_or_1d(y, warn=True), ensure_2d=False, dtype=None, input_name="y")
        check_classification_targets(y)
        weight = check_weights(sample_weight, X.shape[0])
        check_consistent_length(X, y)
        weight = np.ones(len(y)) if weight is None else weight
        kept = np.flatnonzero(weight)
        return (X, y, weight) if len(kept) == len(y) else (X[kept], y[kept], weight[kept])

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

    def _counted(self, X: Any, y: AnyArray, weight: FloatArray) -> _Counted:
        """Return what is needed of rows; moments unless they are wide."""
        pooled = self.within == "pooled"
        if isinstance(X, StandardizedGenotypes) or X.shape[1] > _WIDE * X.shape[0]:
            return _Counted.of_wide(X, y, weight, pooled)
        return _Counted.of_moments(GroupMoments.from_array(X, y, sample_weight=weight), pooled)

    def _fit(self, counted: _Counted) -> MaxMinDistanceAnalysis:
        k = len(counted.mean)
        if k < 2:
            raise ValueError("y has one class; distances between groups need two or more.")
        shrinkage = 1.0 if counted.inner is None else self.shrinkage
        shrinkage = counted.auto_shrinkage() if shrinkage == "auto" else float(shrinkage)
        points = counted.mean - counted.mean.mean(axis=0)
        images = counted.solve(points, shrinkage)
        inner = points @ images
        values, vectors = np.linalg.eigh((inner + inner.T) / 2)
        kept = values > _RANK**2 * values[-1]
        if not values[-1] > 0:
            raise ValueError("all groups have the same mean; no projection keeps them apart.")
        sizes, vectors = np.sqrt(values[kept]), vectors[:, kept]
        inside, distances = vectors * sizes, np.maximum(_squared(inner), 0.0)
        first, second = np.triu_indices(k, 1)
        apart = inside[first] - inside[second]
        lengths = np.linalg.norm(apart, axis=1)
        differ = lengths > _RANK * lengths.max()
        apart = apart[differ] / lengths[differ, None]
        r = min(self.n_components or k - 1, len(sizes))
        basis, self.certificate_ = keep_apart(apart, r, self.prove, self.random_state or 0)
        # In order of the spread of the means, every group counting once.
        spread = inside @ basis
        mix = vectors / sizes @ basis @ np.linalg.eigh(spread.T @ spread)[1][:, ::-1]
        components, patterns = (images @ mix).T, (points.T @ mix).T
        self.components_ = fix_signs(components)
        self.patterns_ = patterns * np.sign(np.sum(self.components_ * components, axis=1))[:, None]
        scores = points @ self.components_.T
        shares, some = np.ones((k, k)), distances > (_RANK * lengths.max()) ** 2
        shares[some] = (_squared(scores @ scores.T)[some] / distances[some]).clip(0, 1)
        self.pair_shares_, self.distances_, self.shrinkage_ = shares, distances, shrinkage
        self.classes_, self.class_count_ = counted.classes, counted.weight
        self.means_, self.mean_ = counted.mean, counted.centre
        self.n_components_ = self._n_features_out = r
        self._moments = counted.moments
        return self

    def transform(self, X: Rows) -> Any:
        """Project rows: subtract the mean, multiply by the components.

        Parameters
        ----------
        X : array-like, sparse matrix or StandardizedGenotypes of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples, n_components_)
        """
        check_is_fitted(self)
        rows = self._rows(X, reset=False)
        columns = self.components_.T
        if isinstance(rows, np.ndarray):
            return ((rows - self.mean_) @ columns).astype(rows.dtype, copy=False)
        return np.asarray(rows @ columns - self.mean_ @ columns).astype(rows.dtype, copy=False)

    def inverse_transform(self, X: Rows) -> FloatArray:
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
        return np.asarray((scores @ self.patterns_ + self.mean_).astype(scores.dtype, copy=False))

    def predict(self, X: Rows) -> AnyArray:
        """Return the group whose mean is nearest in the projection.

        The mean of n rows lies from new rows of its group, squared, 1 + 1/n times as far as the
        group's true mean does. Squared distances are divided by that, so that groups of few rows
        do not lose their own.
        """
        scores, means = self.transform(X), (self.means_ - self.mean_) @ self.components_.T
        squared = cdist(scores, means, "sqeuclidean") / (1 + 1 / self.class_count_)
        return np.asarray(self.classes_[squared.argmin(axis=1)])

    def new_rows(self, X: Rows, y: Labels, *, n_folds: int = 5) -> NewRows:
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
        other = base.clone(self)
        other._check()
        data, groups, weight = other._read(X, y)
        classes, codes = np.unique(groups, return_inverse=True)
        # Rows of every group are dealt to the halves of all folds in turn.
        order = check_random_state(self.random_state or 0).permutation(len(groups))
        part = np.empty(len(groups), dtype=int)
        for group in range(len(classes)):
            own = order[codes[order] == group]
            part[own] = np.arange(len(own)) % (2 * n_folds)
        kept, length = np.zeros((2, len(classes), len(classes)))
        predicted = np.empty_like(groups)
        for fold in range(n_folds):
            train, test = np.flatnonzero(part // 2 != fold), np.flatnonzero(part // 2 == fold)
            counted = other._counted(data[train], groups[train], weight[train])
            other._fit(counted)
            predicted[test] = other.predict(data[test])
            means, both = [], np.ones_like(kept, dtype=bool)
            for half in (2 * fold, 2 * fold + 1):
                rows = np.flatnonzero(part == half)
                member = np.eye(len(classes))[codes[rows]]
                count = member.sum(axis=0)
                both &= np.minimum.outer(count, count) > 0
                mean = np.asarray(data[rows].T @ (member / np.maximum(count, 1))).T
                means.append(mean - other.mean_)
            scores = [mean @ other.components_.T for mean in means]
            whole = means[0] @ counted.solve(means[1], other.shrinkage_)
            kept += np.where(both, _squared(scores[0] @ scores[1].T), 0)
            length += np.where(both, _squared(whole), 0)
        shares = np.divide(kept, length, out=np.full_like(kept, np.nan), where=length > 0)
        np.fill_diagonal(shares, 1.0)
        return NewRows(classes, shares, confusion_matrix(groups, predicted, normalize="true"))

    def to_sklearn(self) -> LinearDiscriminantAnalysis:
        """Return a fitted LinearDiscriminantAnalysis with the same `transform`.

        It predicts by the nearest mean, as `predict` does where groups have equally many rows.
        """
        check_is_fitted(self)
        found = LinearDiscriminantAnalysis(n_components=self.n_components_)
        scores = (self.means_ - self.mean_) @ self.components_.T
        coef = scores @ self.components_
        intercept = -0.5 * np.sum(scores**2, axis=1) - coef @ self.mean_
        if len(coef) == 2:
            coef, intercept = coef[1:] - coef[:1], intercept[1:] - intercept[:1]
        found.classes_, found.means_, found.xbar_ = self.classes_, self.means_, self.mean_
        found.scalings_, found.coef_, found.intercept_ = self.components_.T, coef, intercept
        found._max_components = self.n_components_
        vars(found).update({name: v for name, v in vars(self).items() if name.endswith("_in_")})
        return found

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
    classes : ndarray of shape (k,)
    count, weight : ndarray of shape (k,)
    mean : ndarray of shape (k, n)
    inner : ndarray of shape (n, n) or (m, m), or None
        Sum of products of columns about the groups' means; of wide rows, products of rows.
    moments : GroupMoments or None
    wide : tuple or None
        Of wide rows: the rows, the root of every row's weight, shape (m, 1), and an orthonormal
        basis of what is the same in every row of a group, shape (m, k).
    """

    classes: AnyArray
    count: AnyArray
    weight: FloatArray
    mean: FloatArray
    inner: FloatArray | None
    moments: GroupMoments | None = None
    wide: tuple[Any, FloatArray, Any] | None = None

    @classmethod
    def of_moments(cls, moments: GroupMoments, pooled: bool) -> _Counted:
        """Return what moments know."""
        some = moments.grouped()
        inner = some.scatter.sum(axis=0) if pooled else None
        return cls(np.array(some.labels), some.count, some.weight, some.mean, inner, moments)

    @classmethod
    def of_wide(cls, X: Any, y: AnyArray, weight: FloatArray, pooled: bool) -> _Counted:
        """Count rows in blocks of columns."""
        classes, codes, count = np.unique(y, return_inverse=True, return_counts=True)
        (m, n), k, total = X.shape, len(classes), np.bincount(codes, weight)
        share: Any = scipy.sparse.csr_array((weight / total[codes], (codes, np.arange(m))), (k, m))
        root, mean, member = np.sqrt(weight)[:, None], np.empty((k, n)), share.T.toarray()
        inner: FloatArray | None = np.zeros((m, m), order="F") if pooled else None
        X = X.tocsc() if is_sparse(X) else X

        def about_means(part: slice) -> FloatArray:
            own: Any = X.columns(part) if isinstance(X, StandardizedGenotypes) else X[:, part]
            block = np.array(own.toarray() if is_sparse(own) else own, np.float64, order="F")
            means = block.T @ member
            mean[:, part] = means.T
            # In the order of the block: twice as fast as rows of means.
            block -= np.take(means, codes, axis=1).T
            block *= root
            return block

        for block in one_ahead(map(about_means, gen_batches(n, max(BLOCK_ENTRIES // m, 1)))):
            if inner is not None:
                inner = dsyrk(1.0, block, beta=1.0, c=inner, overwrite_c=1)
        if inner is not None:
            inner += np.triu(inner, 1).T
        wide = X, root, share.sqrt().T
        return cls(classes, count, total.astype(float), mean, inner, None, wide)

    @property
    def centre(self) -> FloatArray:
        """Mean of all rows, shape (n,)."""
        return np.asarray(self.weight @ self.mean / self.weight.sum())

    @property
    def freedom(self) -> float:
        """Rows that count, less one for every mean; weights act like repeated rows."""
        rows = max(float(self.weight.sum()), float(self.count.sum()))
        return float(self.weight.sum()) * max(1 - len(self.count) / rows, 1 / rows)

    def auto_shrinkage(self) -> float:
        """Return the oracle approximating share (Chen, Wiesel, Eldar and Hero 2010)."""
        assert self.inner is not None
        n, rows = self.mean.shape[1], max(self.freedom, 1.0)
        trace, square = float(np.trace(self.inner)), float(np.sum(self.inner**2))
        over = (rows + 1 - 2 / n) * (square - trace**2 / n)
        return min(((1 - 2 / n) * square + trace**2) / over, 1.0) if over > 0 else 1.0

    def solve(self, points: FloatArray, shrinkage: float) -> FloatArray:
        """Return ``W^-1 @ points.T``, shape (n, q), for the shrunk covariance W within groups."""
        if self.inner is None or not np.trace(self.inner) > 0:
            return points.T
        n, trace = self.mean.shape[1], float(np.trace(self.inner)) / self.freedom
        ridge, part = shrinkage * trace / n, (1 - shrinkage) / self.freedom
        if part == 0:
            return np.asarray(points.T / ridge)
        matrix = part * self.inner
        matrix[np.diag_indices_from(matrix)] += ridge
        try:
            factor = scipy.linalg.cho_factor(matrix, overwrite_a=True)
        except np.linalg.LinAlgError:
            raise ValueError(
                f"shrinkage={shrinkage:g}: the covariance within groups has no inverse; take "
                "'auto' or a larger number, or leave out columns that depend on others."
            ) from None
        if self.wide is None:
            return np.asarray(scipy.linalg.cho_solve(factor, points.T))
        # Woodbury: the covariance is a multiple of the identity and one of R.T R, where R are the
        # rows about their groups' means, times the root of their weight.
        X, root, same = self.wide
        cross = root * (X @ points.T)
        cross -= same @ (same.T @ cross)
        inside = root * scipy.linalg.cho_solve(factor, part * cross)
        return np.asarray((points.T - X.T @ inside) / ridge)


def _squared(inner: FloatArray) -> FloatArray:
    """Return squared distances of points from their inner products, shape (k, k)."""
    own = np.diag(inner)
    return np.asarray(own[:, None] + own - inner - inner.T)


def keep_apart(
    directions: FloatArray, r: int, prove: bool = False, random_state: Any = 0
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
    prove, random_state
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
        return np.eye(q), Certificate.of(0.0, 0.0, scale=1.0, resolution=q * np.finfo(float).eps)
    rng = check_random_state(random_state)
    n_starts = int(np.clip(_SEARCHED // (p * q), _STARTS[0], min(_STARTS[1], 8 * r * (q - r))))
    bases = np.linalg.qr(rng.standard_normal((n_starts, q, r)))[0]
    bases, weights = _descents(directions, bases), _relaxed(directions, r)

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
    if prove and certificate.gap > _GAP:
        searched = solve_problem(problem, tol=_GAP, prove=True)
        bound = max(certificate.lower_bound, searched.certificate.lower_bound)
        basis = max(basis, searched.components.T, key=smallest)
        certificate = problem.certificate(bound, 1.0 - smallest(basis))
    return basis, certificate


def _problem(directions: FloatArray, r: int) -> Any:
    """Return the problem whose losses are the lost shares of directions."""
    return pose(directions[:, :, None] * directions[:, None, :], r, "share")


def _descents(directions: FloatArray, bases: FloatArray) -> FloatArray:
    """Return bases after steps with momentum up a soft minimum that hardens, shape (b, q, r)."""
    q, r = bases.shape[1:]
    pace = np.zeros_like(bases)
    for hardness in q / r * np.geomspace(*_SOFTNESS, _STEPS):
        scores = directions @ bases
        shares = np.sum(scores**2, axis=2)
        soft = np.exp(hardness * (shares.min(axis=1, keepdims=True) - shares))
        soft /= soft.sum(axis=1, keepdims=True)
        pace = 0.9 * pace + q / hardness * (directions.T @ (soft[:, :, None] * scores))
        pace -= bases @ (np.swapaxes(bases, 1, 2) @ pace)
        bases = np.linalg.qr(bases + pace)[0]
    return bases


def _relaxed(directions: FloatArray, r: int) -> FloatArray:
    """Return the weights of directions with the best bound on the way to the relaxed optimum."""
    q = directions.shape[1]
    matrix, pace = np.eye(q) * r / q, np.zeros((q, q))
    best, weights = np.inf, np.empty(0)
    for hardness in q / r * np.geomspace(*_SOFTNESS, 2 * _STEPS):
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
        ends = np.sort(np.concatenate([values, values - 1.0]))[::-1]
        low = np.interp(r, np.clip(values[:, None] - ends, 0, 1).sum(axis=0), ends)
        moved = (vectors * np.clip(values - low, 0, 1)) @ vectors.T
        matrix, pace = moved, moved - matrix
    return weights
