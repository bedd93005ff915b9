"""FairPCA, the scikit-learn estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from fairpca._checks import (
    as_numpy,
    check_choice,
    check_groups,
    check_rank,
    check_rows,
    is_share,
    warn,
)
from fairpca._linalg import (
    FloatArray,
    array_namespace,
    fetched,
    is_dask,
    is_foreign,
    placed,
    rounding_level,
)
from fairpca.all_ranks import fit_nested
from fairpca.base import LinearReducer, Rows, is_result, projection_attributes, warn_one_group
from fairpca.covariances.sources import (
    CovarianceSource,
    MomentCovariances,
    OperatorCovariances,
    choose_source,
    count_rows,
)
from fairpca.covariances.streamed import StreamedCells
from fairpca.criteria import find_criterion
from fairpca.fitting import (
    SHARE_KEPT,
    Settings,
    fit_source,
)
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.groups import warn_of_measurements
from fairpca.shrinkage import warn_of_noise


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
        Where the projection of `criterion` with so many components would leave a group below the
        share, the one with the largest smallest share is returned, and `certificate_` shows its
        price over the optimum of `criterion`. With `shrinkage` or `nested`, components are added
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
        "auto" moves groups of fewer than about 150 rows far and larger ones little, and less
        where a group's mean alone explains what it loses by PCA. A number from 0 to 1 is the same
        for all groups; 1 is PCA (with ``center="global"`` and every row labelled). The components
        and `certificate_` are then those of the shrunk covariances; `group_losses_` and
        `group_errors_` stay those of the rows.
    group_by : {"intersection", "marginal"}, default="intersection"
        With several columns of labels: every combination is a group, or every level of every
        column is (groups then overlap).
    unlabelled : {"error", "ignore"}, default="error"
        Rows with a missing label raise, or count in the mean and the pooled variance only.
    nested : bool or {"forward", "backward"}, default=False
        False gives the best subspace for this rank. Otherwise a sequence of components whose
        leading j are the answer for every smaller j too: "forward" (or True) adds the best next
        one, "backward" drops the least needed one. `certificate_` then shows the price over the
        free optimum, and `max_extra_components` has no effect.
    whiten : bool, default=False
        Divide the columns of `transform` by their standard deviation over all rows, as PCA does.
        Components, losses and proofs are the same; `inverse_transform` multiplies again.
    solver : {"auto", "dense", "krylov", "paper"}, default="auto"
        How eigenvectors are computed. "paper" runs the published Algorithm 2 (two groups) with
        `tol` as its tolerance on t, for comparison.
    tol : float, default=1e-10
        Relative gap between value and lower bound at which to stop.
    max_iter : int, default=200
        Most eigen-decompositions of full size.
    random_state : int, RandomState instance or None, default=None
        Used only for random starts where three or more groups tie; None means a fixed seed, so
        the default is deterministic.
    max_extra_components : int, default=0
        Three or more groups can leave a true gap. Components beyond `n_components` close it, one
        of them for up to five groups, two for up to nine; `n_components_` tells how many were
        taken. Losses are still measured against each group's own PCA of `n_components`.
    prove : bool or float, default=False
        Three or more groups can leave a gap between `certificate_`'s value and its bound. Small
        problems are then searched for a better proof while that is cheap. True searches on, for
        up to a minute; a number is the limit in seconds. The search stops at a gap of 1e-8, or of
        `tol` if that is larger, and needs at most 256 columns. With a limit in seconds the bound
        depends on the machine; it is valid in any case.

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
    solver_ : str
        What ran.
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

    Weights act like repeated rows. Variances divide by the sum of weights minus one.

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
    # Groups and dual weights of the last solve before partial_fit counted on.
    _last_weights: tuple[list[Any], FloatArray] | None
    # An empty array where the rows live, if not in NumPy's memory: results go there, also those
    # that are computed later.
    _lives_on: Any

    def __init__(
        self,
        n_components: int | float | None = None,
        *,
        criterion: str = "loss",
        center: str = "global",
        shrinkage: float | str | None = None,
        group_by: str = "intersection",
        unlabelled: str = "error",
        nested: bool | str = False,
        whiten: bool = False,
        solver: str = "auto",
        tol: float = 1e-10,
        max_iter: int = 200,
        random_state: Any = None,
        max_extra_components: int = 0,
        prove: bool | float = False,
    ) -> None:
        self.n_components = n_components
        self.criterion = criterion
        self.center = center
        self.shrinkage = shrinkage
        self.group_by = group_by
        self.unlabelled = unlabelled
        self.nested = nested
        self.whiten = whiten
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state
        self.max_extra_components = max_extra_components
        self.prove = prove

    def fit(
        self, X: Any, y: Any = None, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> FairPCA:
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
        self._check_params()
        with self._restore_on_error():
            if is_dask(X):
                return self._solve_and_set(self._dask_source(X, sensitive_features, sample_weight))
            rows = self._rows(X, sensitive_features, sample_weight, reset=True)
            warn_of_measurements(rows.groups)
            return self._solve_and_set(self._source(rows))

    def partial_fit(
        self, X: Any, y: Any = None, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> FairPCA:
        """Count further rows in; exactly `fit` on all rows seen so far.

        Any batch size works, single rows and batches without some group included. The
        projection is computed when a fitted attribute is next asked for, starting from the last
        one's weights while the groups are the same.

        Parameters
        ----------
        X, y, sensitive_features, sample_weight
            As in `fit`.

        Returns
        -------
        self
        """
        self._check_params()
        fresh = "_moments" not in self.__dict__
        seen: GroupMoments | None = self.__dict__.get("_moments")
        if not fresh and seen is None:
            raise ValueError(
                "partial_fit cannot go on: this model has no moments. The rows of its fit were "
                "too wide to keep their moments, or it was stored without them; store it with "
                "save_model(..., moments=True), or count all rows with partial_fit on a new "
                "estimator."
            )
        with self._restore_on_error():
            rows = self._rows(X, sensitive_features, sample_weight, reset=fresh, part=True)
            moments = count_rows(rows.X, rows.groups, rows.weight, type(self).__name__)
            if "group_weights_" in self.__dict__:
                self._last_weights = (self.groups_, fetched(self.group_weights_))
            # In this order: another thread that solves meanwhile keeps its result only while the
            # moments are those it solved for.
            self._moments = moments if seen is None else seen.on_host().merge(moments)
            self._clear_fitted()
        return self

    def fit_moments(self, moments: GroupMoments) -> FairPCA:
        """Fit from moments that were counted elsewhere: in chunks, in processes, on a cluster.

        Parameters
        ----------
        moments : GroupMoments

        Returns
        -------
        self
        """
        self._check_params()
        with self._restore_on_error():
            self._note_moments(moments)
            return self._solve_and_set(MomentCovariances(moments, self.group_by, self.center))

    def fit_operators(self, cells: StreamedCells) -> FairPCA:
        """Fit from products with covariances that are never formed.

        Parameters
        ----------
        cells : PassOperators
            Of `fairpca.distributed.dask.operators` or `fairpca.distributed.parquet.operators`.
            Its `n_passes` tells afterwards how often the rows were read.

        Returns
        -------
        self
        """
        self._check_params()
        with self._restore_on_error():
            self._note_columns(cells.n_features, getattr(cells, "feature_names", None))
            return self._solve_and_set(OperatorCovariances(cells, self.group_by, self.center))

    def get_covariance(self) -> Any:
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
        # The components are asked for first: after `partial_fit` that solves.
        if is_foreign(self.components_):
            return placed(self._on_host().get_covariance(), self.components_)
        # Not as in PCA, whose components never have less variance than what is left out.
        rows, noise = self.components_, self.noise_variance_
        found = (rows.T * (self.explained_variance_ - noise)) @ rows
        found[np.diag_indices_from(found)] += noise
        return found

    def get_precision(self) -> Any:
        """Return the inverse of `get_covariance`.

        Returns
        -------
        ndarray of shape (n_features_in_, n_features_in_)
        """
        check_is_fitted(self)
        if is_foreign(self.components_):
            return placed(self._on_host().get_precision(), self.components_)
        rows, noise = self.components_, self.noise_variance_
        # A direction without variance has a precision beyond all bounds.
        variances = np.maximum(self.explained_variance_, np.finfo(float).tiny)[:, None]
        if len(rows) == rows.shape[1]:
            return np.asarray(rows.T @ (rows / variances))
        if noise == 0:
            raise ValueError(
                "the rows of the fit have no variance outside of the components, so their "
                "covariance has no inverse; leave out columns that are constant or depend on "
                "others, or fit fewer components."
            )
        outside = np.eye(rows.shape[1]) - rows.T @ rows
        return np.asarray(rows.T @ (rows / variances) + outside / noise)

    def score_samples(self, X: Any) -> Any:
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
        if self._followed(X, "score_samples") is not None:
            return placed(self._on_host().score_samples(fetched(X)), X)
        X = validate_data(self, as_numpy(X), dtype=[np.float64, np.float32], reset=False)
        rows, noise, known = self.components_, self.noise_variance_, self.explained_variance_ > 0
        variances = self.explained_variance_[known]
        centred, spare = X - self.mean_, rows.shape[1] - len(rows)
        lengths = np.einsum("ij,ij->i", centred, centred)
        # Along the components and outside of them, without a matrix of all columns.
        inside = centred @ rows.T
        distances = np.sum(inside[:, known] ** 2 / variances, axis=1)
        constant = known.sum() * np.log(2 * np.pi) + np.sum(np.log(variances))
        off = np.sum(inside[:, ~known] ** 2, axis=1)
        if spare:
            centred -= inside @ rows
            outside = np.einsum("ij,ij->i", centred, centred)
            if noise > 0:
                distances += outside / noise
                constant += spare * np.log(2 * np.pi * noise)
            else:
                off += outside
        # What a model of no variance along a direction holds for impossible, up to rounding.
        never = off > rounding_level(1.0, rows.shape[1]) * (variances.sum() + lengths)
        return np.where(never, -np.inf, -0.5 * (distances + constant))

    def score(self, X: Any, y: Any = None) -> float:
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

    @property
    def _losses_about(self) -> str:  # type: ignore[override]
        return self.center

    def _check_params(self) -> None:
        self._settings().check(self.center)
        check_choice("group_by", self.group_by, ("intersection", "marginal"))
        check_choice("unlabelled", self.unlabelled, ("error", "ignore"))
        check_choice("nested", self.nested, (False, True, "forward", "backward"))
        check_choice("whiten", self.whiten, (False, True))
        r = self.n_components
        if is_share(r) and not 0 < r < 1:
            raise ValueError(
                f"n_components={r!r}: a float is the share of variance every group keeps and must "
                "lie between 0 and 1; for a number of components pass an integer."
            )

    def _settings(self, seed: int = 0) -> Settings:
        return Settings(
            self.criterion,
            self.shrinkage,
            self.solver,
            self.tol,
            self.max_iter,
            seed,
            self.max_extra_components,
            self.prove,
        )

    def _rows(self, X: Any, labels: Any, sample_weight: Any, **how: bool) -> Rows:
        rows = self._read(X, labels, sample_weight, check_finite=False, **how)
        self.__dict__.pop("_lives_on", None)
        if array_namespace(rows.X) is not None:
            # Not a slice of the rows, which would keep all of them.
            self._lives_on = placed(np.empty(0), rows.X)
        if self.n_components is not None and not is_share(self.n_components):
            check_rank(self.n_components, rows.X.shape[1])
        return rows

    def _source(self, rows: Rows) -> CovarianceSource:
        return choose_source(
            rows.X,
            rows.groups,
            rows.weight,
            self.n_components,
            self.group_by,
            self.center,
            type(self).__name__,
        )

    def _dask_source(self, X: Any, labels: Any, sample_weight: Any) -> CovarianceSource:
        """Return the matrices of a Dask collection: moments, or products where they do not fit."""
        from fairpca.distributed import dask
        from fairpca.distributed.pieces import GroupingOptions

        if labels is None:
            warn_one_group()
        rules = GroupingOptions.of(self.group_by, self.unlabelled, None)
        table = dask.open_table(X, labels, sample_weight, rules)
        if self.n_components is not None and not is_share(self.n_components):
            check_rank(self.n_components, table.n_features)
        self._note_columns(table.n_features, table.features)
        # Only the moments know how many groups there are, and with that whether they fit.
        try:
            moments = dask.count_table(table, rules)
        except MemoryError:
            return OperatorCovariances(
                dask.iterate_table(table, rules), self.group_by, self.center
            )
        return MomentCovariances(moments, self.group_by, self.center)

    def _solve_and_set(self, source: CovarianceSource) -> FairPCA:
        self._last_weights = None
        fitted = self._solved(source)
        self._clear_fitted()
        self._moments = source.moments
        self._set_fitted(fitted)
        return self

    def __getattr__(self, name: str) -> Any:
        # partial_fit only counts; the first look at a result solves.
        moments = self.__dict__.get("_moments") if is_result(name) else None
        if moments is not None and "components_" not in self.__dict__:
            try:
                # They may be others than those that the last rows were counted with.
                self._check_params()
                found = self._solved(MomentCovariances(moments, self.group_by, self.center))
            except ValueError as error:
                # Too few rows so far. This class is an AttributeError too, as `hasattr` expects.
                raise NotFittedError(str(error)) from error
            self._set_fitted(found)
            if self.__dict__.get("_moments") is not moments:
                # Another thread has counted further rows meanwhile. What was found is right for
                # the rows seen when it was asked for, and is not kept.
                self._clear_fitted()
            if name in found:
                return found[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __sklearn_is_fitted__(self) -> bool:
        return "_moments" in self.__dict__

    def _solved(self, source: CovarianceSource) -> dict[str, Any]:
        """Return every fitted attribute for these data."""
        groups, total = source.groups, source.total
        check_rows(total.count, type(self).__name__)
        check_groups(groups.labels, groups.weight)
        # NumPy's own truth values come from grids of parameters.
        forward = self.nested in (True, "forward")
        nested = "forward" if forward else "backward" if self.nested else None
        settings = self._settings(_seed(self.random_state))
        extra: dict[str, Any] = {}
        if nested:
            fit, values, bounds = fit_nested(source, self.n_components, settings, nested)
            extra = {"nested_values_": values, "nested_bounds_": bounds}
        else:
            known, weights = self.__dict__.get("_last_weights") or (None, None)
            start = weights if known == list(groups.labels) else None
            fit = fit_source(source, self.n_components, settings, start)
        solution = fit.solution
        priced = nested or solution.stop_reason == SHARE_KEPT
        certificate = solution.certificate
        # A gap that was asked for is none to be warned of.
        is_open = not certificate.closed and certificate.gap > self.tol
        if is_open and self.solver != "paper" and not priced:
            warn(
                f"The gap between the worst group's value and its lower bound is open: "
                f"{solution.certificate}. The projection is valid; only its optimality is "
                f"unproven.{settings.more_proof(len(groups.labels), len(fit.basis))}",
                ConvergenceWarning,
            )
        about_losses = find_criterion(self.criterion).against_own_pca
        if self.shrinkage is None and about_losses and fit.basis.shape[1] < len(fit.basis):
            warn_of_noise(source, fit.losses, solution.weights, fit.basis.shape[1])
        found = {
            **projection_attributes(
                source, fit.basis, fit.losses, fit.retained, keep_order=bool(nested)
            ),
            "shrinkage_": fit.shrinkage,
            "group_values_": solution.losses,
            "group_weights_": solution.weights,
            "certificate_": solution.certificate,
            "solver_": solution.solver,
            # The rotation to principal order is a decomposition too when it is the only one.
            "n_iter_": max(solution.n_eigen, 1),
            "stop_reason_": solution.stop_reason,
            **extra,
        }
        place = self.__dict__.get("_lives_on")
        return {
            name: placed(value, place) if isinstance(value, np.ndarray) else value
            for name, value in found.items()
        }


def _seed(random_state: Any) -> int:
    """Return one integer; None is a fixed seed, so that the default is deterministic."""
    if random_state is None:
        return 0
    if isinstance(random_state, int | np.integer):
        if random_state < 0:
            raise ValueError(f"random_state={random_state} must be at least 0, or None.")
        return int(random_state)
    return int(check_random_state(random_state).randint(2**31 - 1))
