"""FairPCA, the scikit-learn estimator."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted, validate_data

from fairpca._arrays import TINY, FloatArray, fetched, is_dask, placed, rounding_level, threads_for
from fairpca._check import as_numpy, check_choice, check_rank, is_share, listed, warn
from fairpca.base import LinearReducer, projection_attributes
from fairpca.covariances.sources import (
    FOLDS,
    CovarianceSource,
    MomentCovariances,
    choose_source,
)
from fairpca.criteria import CRITERIA
from fairpca.fitting import SHARE_KEPT, Settings, fit_source
from fairpca.moments.group_moments import GroupMoments, as_folds
from fairpca.moments.groups import Labels, Rows, Seed, Weights, warn_of_measurements
from fairpca.paths import fit_nested
from fairpca.shrinkage import NoisyGroupWarning
from fairpca.solvers.solution import OPTIMAL_GAP

# Groups with at least this many rows are not suspected: what chance adds to their losses is small.
_MANY_ROWS = 1000
# Dual weight on suspected groups from which on the answer is theirs. Of two groups each has about
# half of the weight, whichever of them is noise.
_TELLING_WEIGHT = 0.25


class FairPCA(LinearReducer):
    """PCA whose worst-served group is served as well as possible.

    Finds the one orthonormal projection that minimises the largest reconstruction loss over
    groups of rows, and certifies the result: `certificate_` holds the worst group's value and a
    lower bound that no projection of the same rank can beat. Groups are needed only in `fit`.

    Parameters
    ----------
    n_components : int, float or None, default=None
        Number of components, 1 to n_features. None keeps all. A float in (0, 1) keeps the fewest
        components with which every group can retain at least that share of its own variance.
        If the optimum of `criterion` leaves a group below the share, the projection with the
        largest smallest share is returned, and `certificate_` shows what it costs in terms of
        `criterion`. With `shrinkage` or `nested`, components are added
        until the projection of the shrunk covariances, or the sequence, keeps the share.
    criterion : {"loss", "error", "variance", "relative", "share"}, default="loss"
        What is minimised for the worst group: the loss against the group's own PCA, the mean
        squared reconstruction error, minus the variance kept, or the loss or error as a share of
        the group's variance.
    center : {"global", "group"}, default="global"
        What a group's variance and losses are about: the mean of all rows, which `transform`
        subtracts from everybody, or the group's own mean. With "global" they are what
        `inverse_transform` gives back. With "group" a group whose mean lies elsewhere can be
        rebuilt far worse than its loss says; the published experiments on matrices that are
        centred by group need it.
    shrinkage : float, "auto" or None, default=None
        How far each group's covariance is moved towards what all groups share. The covariance of
        few rows is mostly noise, and the projection that serves it best serves nobody on new rows.
        "auto" leaves rows out in turn: a group whose own PCA does well on them is moved less. A
        number from 0 to 1 is the same for all groups; 1 is PCA (with
        ``center="global"`` and every row labelled). The components and `certificate_` are then
        those of the shrunk covariances; `group_losses_` and `group_errors_` stay those of the
        rows.
    max_harm : float or None, default=None
        The most that any group may lose above what it loses by PCA, as a share of its variance.
        0 lets nobody lose more than by PCA. `certificate_` is then about the best projection
        within this limit. ``FairPCA(r, shrinkage="auto", max_harm=0.02)`` is what we advise where
        nothing is known of the groups.
    group_by : {"intersection", "marginal"}, default="intersection"
        With several columns of labels: every combination is a group, or every level of every
        column is (groups then overlap).
    unlabelled : {"error", "ignore"}, default="error"
        Rows with a missing label raise, or count in the mean and the pooled variance only.
    nested : bool, default=False
        False gives the best subspace for this rank. True gives a sequence of components whose
        leading j are the answer for every smaller j too: each is the best next one. `certificate_`
        then shows the price over the free optimum.
    whiten : bool, default=False
        Divide the columns of `transform` by their standard deviation over all rows, as PCA does.
        Components, losses and proofs are the same; `inverse_transform` multiplies again.
    tol : float, default=1e-10
        Relative gap between value and lower bound at which to stop. Components of hundreds of
        columns and three or more groups are then known to about 1e-5, because a gap is the square
        of what they are off by; 1e-14 gives their last digits.
    max_iter : int, default=200
        Most eigen-decompositions of full size, those of the groups' own covariances aside.
    random_state : int, RandomState instance or None, default=None
        For the random starting bases that three or more groups may need; None means a fixed seed,
        so the default is deterministic.
    prove : bool, default=False
        Three or more groups can leave a gap between `certificate_`'s value and its bound. Small
        problems are then searched for a better proof while that is cheap. True searches on, for
        up to a minute (with `max_harm` a minute a step), to a gap of 1e-8, or of `tol` if that is
        larger; it needs at most 256 columns.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features_in_)
        Orthonormal rows, ordered by the variance of all rows along them; the entry of largest
        magnitude in each is positive.
    mean_ : ndarray of shape (n_features_in_,)
        Mean of all rows, subtracted by `transform` from everybody.
    explained_variance_, explained_variance_ratio_, singular_values_ : ndarray
        As in `sklearn.decomposition.PCA`, for all rows together.
    noise_variance_ : float
        Mean variance of all rows over the directions left out.
    n_components_ : int
    n_samples_ : int
    n_features_in_ : int
    feature_names_in_ : ndarray
        Only when the columns of X have string names.
    groups_ : list
        Group labels, sorted, as they were given; tuples for combinations of columns.
    group_names_ : list of str
        Names of the label columns.
    group_counts_ : ndarray of shape (k,)
        Rows per group.
    group_means_ : ndarray of shape (k, n_features_in_)
    group_losses_ : ndarray of shape (k,)
        What each group loses against its own PCA of the same rank, both about `center` (per row,
        squared units).
    group_shares_ : ndarray of shape (k,)
        Share of its variance about `center` that each group keeps.
    group_errors_ : ndarray of shape (k,)
        Mean squared distance between each group's rows and their reconstruction by
        ``inverse_transform(transform(X))``, for every `center`.
    group_values_ : ndarray of shape (k,)
        Each group's value of `criterion`, of the shrunk covariances where `shrinkage` is given;
        equal to `group_losses_` for "loss" without it.
    shrinkage_ : ndarray of shape (k,)
        How far each group's covariance was moved: 0 is its own, 1 is what all groups share.
    group_weights_ : ndarray of shape (k,)
        Dual weights: how much each group binds; they sum to one.
    certificate_ : Certificate
        Worst value, lower bound and their relative gap.
    n_iter_ : int
        Eigen-decompositions of full size.
    stop_reason_ : str
    nested_values_, nested_bounds_ : ndarray of shape (n_components_,)
        Only with `nested`: worst value at every rank, and the free problem's lower bound there.

    See Also
    --------
    sklearn.decomposition.PCA : The projection with the least total error.
    fairpca.solve : The same for given covariances.

    Notes
    -----
    Two groups: J. Shen, A. J. Davis, D. Lu and Z. Bai, "Hidden Convexity of Fair PCA and Fast
    Solver via Eigenvalue Optimization". The model is that of S. Samadi, U. Tantipongpipat,
    J. Morgenstern, M. Singh and S. Vempala, "The Price of Fair PCA" (2018).

    Weights act like repeated rows; with ``shrinkage="auto"`` a row of weight 2 is left out once,
    two equal rows each by itself. Variances divide by the sum of weights minus one.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca import FairPCA
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(size=(80, 3)) * [3, 1, 1], rng.normal(size=(20, 3)) * [1, 3, 1]])
    >>> group = ["a"] * 80 + ["b"] * 20
    >>> model = FairPCA(n_components=1).fit(X, sensitive_features=group)
    >>> bool(np.isclose(*model.group_losses_)), model.certificate_.optimal
    (True, True)
    >>> model.transform(X).shape
    (100, 1)
    """

    _accept_sparse = ("csr", "csc")
    _follows_arrays = True
    # What partial_fit has counted; None after a fit too wide to keep it.
    _moments: GroupMoments | None

    def __init__(
        self,
        n_components: int | float | None = None,
        *,
        criterion: str = "loss",
        center: str = "global",
        shrinkage: float | str | None = None,
        max_harm: float | None = None,
        group_by: str = "intersection",
        unlabelled: str = "error",
        nested: bool = False,
        whiten: bool = False,
        prove: bool = False,
        tol: float = 1e-10,
        max_iter: int = 200,
        random_state: Seed = None,
    ) -> None:
        self.n_components = n_components
        self.criterion = criterion
        self.center = center
        self.shrinkage = shrinkage
        self.max_harm = max_harm
        self.group_by = group_by
        self.unlabelled = unlabelled
        self.nested = nested
        self.whiten = whiten
        self.prove = prove
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(
        self, X: Rows, y: object = None, *,
        sensitive_features: Labels | None = None, sample_weight: Weights = None,
    ) -> FairPCA:  # fmt: skip
        """Fit the projection.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Or a Dask array or dataframe, whose rows stay on the cluster. Within
            ``sklearn.config_context(array_api_dispatch=True)`` a tensor or any array of the array
            API standard is counted on its device, and the fitted arrays live there.
        y : Ignored
        sensitive_features : array-like, Series, frame or dict, optional
            One label per row, or several columns of labels; names of columns where X is a Dask
            dataframe. None treats all rows as one group, which is ordinary PCA, and warns.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative; weight 2 is the row twice.

        Returns
        -------
        self
        """
        settings, in_folds = self._checked(), self.shrinkage == "auto"
        if is_dask(X):
            from fairpca.distributed import dask

            how: Any = {"group_by": self.group_by, "unlabelled": self.unlabelled}
            how |= {"sample_weight": sample_weight, "n_folds": FOLDS if in_folds else 0}
            return self.fit_moments(dask.moments(X, sensitive_features, **how))
        rows, groups, weight = self._read(X, sensitive_features, sample_weight, check_finite=False)
        warn_of_measurements(groups)
        r: Any = self.n_components
        if r is not None and not is_share(r):
            check_rank(r, rows.shape[1])
        # A share of variance never needs more directions than the rows span.
        most = 1 if is_share(r) else r or rows.shape[1]
        how = {"group_by": self.group_by, "center": self.center}
        source = choose_source(rows, groups, weight, most, in_folds=in_folds, **how)
        return self._solve(source, settings, like=rows)

    def partial_fit(
        self, X: Rows, y: object = None, *,
        sensitive_features: Labels | None = None, sample_weight: Weights = None,
    ) -> FairPCA:  # fmt: skip
        """Count further rows in, and fit all rows seen so far; exactly `fit` on all of them.

        Any batch size works, and batches without some group included; the first needs two rows.
        Whoever has many batches counts them with `GroupMoments` and fits once.

        Parameters
        ----------
        X, y, sensitive_features, sample_weight
            As in `fit`.

        Returns
        -------
        self
        """
        settings = self._checked()
        seen: GroupMoments | None = self.__dict__.get("_moments")
        fresh = "components_" not in self.__dict__
        if not fresh and seen is None:
            raise ValueError(
                "partial_fit cannot go on: this model has no moments. The rows of its fit were "
                "too wide to keep their moments, or it was stored without them; count all rows "
                "with partial_fit on a new estimator."
            )
        X, groups, weight = self._read(
            X, sensitive_features, sample_weight, check_finite=False, reset=fresh, part=True
        )
        moments = GroupMoments.of_rows(X, groups, weight)
        moments = moments if seen is None else seen.merge(moments)
        source = MomentCovariances(moments, self.group_by, self.center)
        return self._solve(source, settings, like=X)

    def fit_moments(self, moments: GroupMoments | list[GroupMoments]) -> FairPCA:
        """Fit from moments that were counted elsewhere: in chunks, in processes, on a cluster.

        Parameters
        ----------
        moments : GroupMoments, or a list of them
            A list has the rows in folds, which ``shrinkage="auto"`` needs.

        Returns
        -------
        self
        """
        settings = self._checked()
        folds: Any = as_folds(moments) or [moments]
        self._note_moments(folds[0])
        return self._solve(MomentCovariances(moments, self.group_by, self.center), settings)

    def get_covariance(self) -> FloatArray:
        """Return the covariance of rows under the probabilistic model of PCA.

        Along the components rows have the variances of `explained_variance_`, in every other
        direction that of `noise_variance_` (Tipping and Bishop 1999). Groups play no part in it.
        With `whiten` too it is the covariance of rows, where that of
        `sklearn.decomposition.PCA` is not.

        Returns
        -------
        ndarray of shape (n_features_in_, n_features_in_)
        """
        check_is_fitted(self)
        # Not as in PCA, whose components never have less variance than what is left out.
        return self._with_values(fetched(self.explained_variance_), self.noise_variance_)

    def get_precision(self) -> FloatArray:
        """Return the inverse of `get_covariance`.

        Returns
        -------
        ndarray of shape (n_features_in_, n_features_in_)
        """
        check_is_fitted(self)
        (r, n), noise = self.components_.shape, self.noise_variance_
        if r < n and noise == 0:
            raise ValueError(
                "the rows of the fit have no variance outside of the components, so their "
                "covariance has no inverse; leave out columns that are constant or depend on "
                "others, or fit fewer components."
            )
        # A direction without variance has a precision beyond all bounds.
        variances = np.maximum(fetched(self.explained_variance_), TINY)
        return self._with_values(1 / variances, 1 / noise if r < n else 0.0)

    def _with_values(self, along: FloatArray, elsewhere: float) -> FloatArray:
        """Return the matrix with these eigenvalues along the components, one in all others."""
        rows = fetched(self.components_)
        found = (rows.T * (along - elsewhere)) @ rows
        found[np.diag_indices_from(found)] += elsewhere
        return placed(found, self.components_)  # type: ignore[no-any-return]

    def score_samples(self, X: Rows) -> FloatArray:
        """Return the log-likelihood of every row under the model of `get_covariance`.

        Where the rows of the fit had no variance in some directions, it is that of a normal
        distribution in the others alone, and minus infinity for rows that leave them, as in
        ``scipy.stats.multivariate_normal(..., allow_singular=True)``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        self._followed(X, "score_samples")
        X = validate_data(self, as_numpy(X), dtype=[np.float64, np.float32], reset=False)
        rows = fetched(self.components_)
        r, n = rows.shape
        centred = X - fetched(self.mean_)
        lengths = np.einsum("ij,ij->i", centred, centred)
        # Along the components and outside of them, without a matrix of all columns.
        inside = centred @ rows.T
        centred -= inside @ rows
        outside = np.einsum("ij,ij->i", centred, centred)
        squares = np.column_stack([inside**2, outside])
        variances = np.append(fetched(self.explained_variance_), self.noise_variance_)
        times = np.append(np.ones(r), n - r)
        known = variances > 0
        distances = squares[:, known] @ (1 / variances[known])
        constant = times[known] @ np.log(2 * np.pi * variances[known])
        # What a model of no variance along a direction holds for impossible, up to rounding.
        limit = rounding_level(1.0, n) * (variances[:-1].sum() + lengths)
        never = squares[:, ~known].sum(axis=1) > limit
        found = np.where(never, -np.inf, -0.5 * (distances + constant))
        return placed(found, self.components_)  # type: ignore[no-any-return]

    def score(self, X: Rows, y: object = None) -> float:
        """Return the mean of `score_samples`: a model of all rows, whomever it serves.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : Ignored

        Returns
        -------
        float
        """
        return float(np.mean(fetched(self.score_samples(X))))

    # What follows fills the attributes; nothing below is called by users.

    def _checked(self) -> Settings:
        """Return how to solve; ValueError for a parameter that makes no sense."""
        for name in ("nested", "whiten"):
            check_choice(name, getattr(self, name), (False, True))
        r = self.n_components
        if is_share(r) and not 0 < r < 1:
            raise ValueError(
                f"n_components={r!r}: a float is the share of variance every group keeps and must "
                "lie between 0 and 1; for a number of components pass an integer."
            )
        known = {field.name: getattr(self, field.name) for field in fields(Settings)}
        # A fixed seed, so that the default is deterministic.
        seed = 0 if self.random_state is None else self.random_state
        if hasattr(seed, "randint"):
            seed = int(seed.randint(2**31 - 1))
        return Settings(**known | {"random_state": seed}).check()

    def _solve(self, source: CovarianceSource, settings: Settings, like: Any = None) -> FairPCA:
        """Solve and set every fitted attribute; arrays go where `like` is."""
        extra: dict[str, Any] = {}
        with threads_for(source.groups.shift.shape[1]):
            if self.nested:
                fit, values, bounds = fit_nested(source, self.n_components, settings)
                extra = {"nested_values_": values, "nested_bounds_": bounds}
            else:
                fit = fit_source(source, self.n_components, settings)
            found = projection_attributes(
                source, fit.basis, fit.losses, fit.retained, keep_order=self.nested
            )
        solution, (n, r) = fit.solution, fit.basis.shape
        certificate, priced = solution.certificate, solution.stop_reason == SHARE_KEPT
        # A gap that was asked for is none to be warned of.
        open_gap = certificate.gap > max(self.tol, OPTIMAL_GAP)
        if open_gap and not (priced or self.nested):
            warn(
                f"The gap between the worst group's value and its lower bound is open: "
                f"{certificate}. The projection is valid; only its optimality is unproven."
                f"{settings.more_proof(len(source.groups.labels), n)}",
                ConvergenceWarning,
            )
        plain = self.shrinkage is None and self.max_harm is None
        if plain and CRITERIA[self.criterion].own and r < n:
            # The components' variances, and a flat rest.
            spectrum = np.full(n, found["noise_variance_"])
            spectrum[:r] = np.sort(found["explained_variance_"])[::-1]
            _warn_of_noise(source.groups, fit.losses, solution.weights, spectrum, r)
        found |= {
            "shrinkage_": fit.shrinkage,
            "group_values_": solution.losses,
            "group_weights_": solution.weights,
            "certificate_": certificate,
            # The rotation to principal order is a decomposition too when it is the only one.
            "n_iter_": max(solution.n_eigen, 1),
            "stop_reason_": solution.stop_reason,
            **extra,
        }
        for name, part in found.items():
            found[name] = placed(part, like) if isinstance(part, np.ndarray) else part
        self._set_fitted(found)
        self._moments = source.moments
        return self


def _warn_of_noise(
    groups: Any, losses: FloatArray, weights: FloatArray, spectrum: FloatArray, r: int
) -> None:
    """Warn where the optimum rests on groups whose losses are no larger than chance makes them.

    A group's own PCA fits the noise of its rows: it keeps more of them than it would of new ones.
    Take one direction inside the leading r and one outside, with variances a > b. In a sample
    their covariance is not zero; its square has the mean ``a b / rows``, and with that entry off
    the diagonal the larger eigenvalue of the 2 x 2 matrix exceeds a. The own PCA gains this in the
    rows at hand and loses about as much in new ones; both are added up over all pairs.

    Parameters
    ----------
    groups : GroupFacts
    losses, weights : ndarray of shape (k,)
        Losses and dual weights of the projection found.
    spectrum : ndarray of shape (n,)
        Variances of all rows, largest first.
    r : int
    """
    few = np.flatnonzero((groups.count < _MANY_ROWS) & (weights > 0))
    if len(weights) < 2 or weights[few].sum() <= _TELLING_WEIGHT or not spectrum[0] > 0:
        return
    if losses.max() <= rounding_level(float(groups.traces.max()), len(spectrum)):
        # Nobody loses anything, and then the dual weights say nothing.
        return
    inside, outside = spectrum[:r, None], spectrum[None, r:]
    apart = np.maximum(inside - outside, 0.0)
    unit = groups.traces[few] / spectrum.sum()
    rows = np.maximum(groups.count[few], 1.0)
    chance = np.array([np.sum(np.sqrt(apart**2 + 4 * inside * outside / m) - apart) for m in rows])
    noisy = few[losses[few] <= unit * chance]
    if weights[noisy].sum() <= _TELLING_WEIGHT:
        return
    order = noisy[np.argsort(-weights[noisy], kind="stable")]
    sizes = [f"{m} row{'s' if m != 1 else ''}" for m in groups.count]
    named = listed(order.tolist(), 5, lambda g: f"{groups.labels[g]!r} ({sizes[g]})")
    warn(
        f"The projection rests on groups whose loss is no larger than chance makes it in so few "
        f"rows: {named}. They count for {100 * weights[noisy].sum():.0f} % in its choice, "
        "and on new rows PCA may serve everybody as well. Pass shrinkage='auto', merge small "
        "groups or add rows; fairpca.cross_fit shows what every group loses on rows left out.",
        NoisyGroupWarning,
    )
