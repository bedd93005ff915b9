"""FairPCA, the scikit-learn estimator."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from fairpca.arrays import FloatArray, principal_rotation
from fairpca.checks import check_choice, check_rank
from fairpca.criteria import check_criterion, pose
from fairpca.metrics import kept_share, kept_variance, own_variance
from fairpca.moments import GroupMoments
from fairpca.reducer import LIKE_PCA, LinearReducer
from fairpca.solve.dispatch import SOLVERS, solve_problem
from fairpca.solve.solution import Solution

_FITTED = frozenset(
    (
        *LIKE_PCA,
        "groups_",
        "group_names_",
        "group_counts_",
        "group_means_",
        "group_losses_",
        "group_errors_",
        "group_values_",
        "group_weights_",
        "certificate_",
        "solver_",
        "n_iter_",
        "stop_reason_",
    )
)


class FairPCA(LinearReducer):
    """PCA whose worst-served group is served as well as possible.

    Finds the one orthonormal projection that minimises the largest reconstruction loss over
    groups of rows, and certifies the result: `certificate_` holds the worst group's value and a
    lower bound that no projection of the same rank can beat. Groups are needed only in `fit`.

    Parameters
    ----------
    n_components : int, float or None, default=None
        Number of components, 1 to n_features. None keeps all. A float in (0, 1) keeps the fewest
        components with which every group retains at least that share of its own variance.
    criterion : {"loss", "error", "variance", "relative", "share"}, default="loss"
        What is minimised for the worst group: the loss against the group's own PCA, the mean
        squared reconstruction error, minus the variance kept, or the loss or error as a share of
        the group's variance.
    group_by : {"intersection", "marginal"}, default="intersection"
        With several columns of labels: every combination is a group, or every level of every
        column is (groups then overlap).
    unlabelled : {"error", "ignore"}, default="error"
        Rows with a missing label raise, or count in the mean and the pooled variance only.
    nested : bool or {"forward", "backward"}, default=False
        False gives the best subspace for this rank.
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
        What each group loses against its own PCA of the same rank (per row, squared units).
    group_errors_ : ndarray of shape (k,)
        Mean squared reconstruction error of each group about its own mean.
    group_values_ : ndarray of shape (k,)
        Each group's value of `criterion`; equal to `group_losses_` for "loss".
    group_weights_ : ndarray of shape (k,)
        Dual weights: how much each group binds; they sum to one.
    certificate_ : Certificate
        Worst value, lower bound and their relative gap.
    solver_ : str
        What ran.
    n_iter_ : int
        Eigen-decompositions of full size.
    stop_reason_ : str

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

    def __init__(
        self,
        n_components: int | float | None = None,
        *,
        criterion: str = "loss",
        group_by: str = "intersection",
        unlabelled: str = "error",
        nested: bool | str = False,
        solver: str = "auto",
        tol: float = 1e-10,
        max_iter: int = 200,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.criterion = criterion
        self.group_by = group_by
        self.unlabelled = unlabelled
        self.nested = nested
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any = None, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> FairPCA:
        """Fit the projection.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
        y : Ignored
        sensitive_features : array-like, Series, frame or dict, optional
            One label per row, or several columns of labels. None treats all rows as one group,
            which is ordinary PCA, and warns.
        sample_weight : array-like of shape (n_samples,), optional
            Non-negative; weight 2 is the row twice.

        Returns
        -------
        self
        """
        self._check_params()
        moments = self._count(X, sensitive_features, sample_weight, reset=True)
        return self._adopt(moments)

    def partial_fit(
        self, X: Any, y: Any = None, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> FairPCA:
        """Count further rows in; exactly `fit` on all rows seen so far.

        Any batch size works, single rows and batches without some group included. The
        projection is computed when a fitted attribute is next asked for.

        Parameters
        ----------
        X, y, sensitive_features, sample_weight
            As in `fit`.

        Returns
        -------
        self
        """
        self._check_params()
        seen: GroupMoments | None = self.__dict__.get("_moments")
        moments = self._count(X, sensitive_features, sample_weight, reset=seen is None)
        self._forget()
        self._moments = moments if seen is None else seen.merge(moments)
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
        self.n_features_in_ = moments.n_features
        self.__dict__.pop("feature_names_in_", None)
        return self._adopt(moments)

    # What follows fills the attributes; nothing below is called by users.

    def _check_params(self) -> None:
        check_criterion(self.criterion)
        check_choice("solver", self.solver, SOLVERS)
        check_choice("group_by", self.group_by, ("intersection", "marginal"))
        check_choice("unlabelled", self.unlabelled, ("error", "ignore"))
        check_choice("nested", self.nested, (False, True, "forward", "backward"))
        if not 0 < self.tol < 1:
            raise ValueError(f"tol={self.tol!r} must be between 0 and 1, for example 1e-10.")
        if self.max_iter < 1:
            raise ValueError(f"max_iter={self.max_iter!r} must be at least 1.")
        r = self.n_components
        if isinstance(r, float) and not 0 < r < 1:
            raise ValueError(
                f"n_components={r!r}: a float is the share of variance every group keeps and must "
                "lie between 0 and 1; for a number of components pass an integer."
            )

    def _count(self, X: Any, labels: Any, sample_weight: Any, *, reset: bool) -> GroupMoments:
        rows = self._read(X, labels, sample_weight, reset=reset)
        if self.n_components is not None and not isinstance(self.n_components, float):
            check_rank(self.n_components, rows.X.shape[1])
        return GroupMoments.from_array(rows.X, rows.groups, sample_weight=rows.weight)

    def _adopt(self, moments: GroupMoments) -> FairPCA:
        fitted = self._solved(moments)
        self._forget()
        self._moments = moments
        self.__dict__.update(fitted)
        return self

    def _forget(self) -> None:
        for name in _FITTED:
            self.__dict__.pop(name, None)

    def __getattr__(self, name: str) -> Any:
        # partial_fit only counts; the first look at a result solves.
        if name in _FITTED and "_moments" in self.__dict__:
            self.__dict__.update(self._solved(self._moments))
            return self.__dict__[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __sklearn_is_fitted__(self) -> bool:
        return "_moments" in self.__dict__

    def _solved(self, moments: GroupMoments) -> dict[str, Any]:
        """Return every fitted attribute for these moments."""
        total = moments.pooled()
        rows, weight = int(total.count[0]), float(total.weight[0])
        if rows < 2:
            raise ValueError(
                f"X has {rows} sample(s) and FairPCA needs at least 2: a single row has no "
                "variance. Pass more rows."
            )
        target = moments.grouped(self.group_by)
        _check_groups(target)
        covariances = target.covariances
        solution = self._solve(covariances)
        # Frequency-like weights; normalised ones (sum at most 1) have no "minus one" to take.
        freedom = weight - 1 if weight > 1 else weight
        spread = total.scatter[0] / freedom
        components, variances = principal_rotation(solution.components.T, spread)
        r, n = components.shape
        all_variance = float(np.trace(spread))
        share = variances / all_variance if all_variance > 0 else np.zeros(r)
        kept = kept_variance(components.T, covariances)
        if not solution.certificate.optimal and self.solver != "paper":
            warnings.warn(
                f"The gap between the worst group's value and its lower bound is open: "
                f"{solution.certificate}. The projection is valid; only its optimality is "
                "unproven.",
                ConvergenceWarning,
                stacklevel=4,
            )
        return {
            "components_": components,
            "mean_": total.mean[0],
            "explained_variance_": variances,
            "explained_variance_ratio_": share,
            "singular_values_": np.sqrt(variances * freedom),
            "noise_variance_": max(all_variance - float(variances.sum()), 0.0)
            / max(min(n, rows) - r, 1),
            "n_components_": r,
            "n_samples_": rows,
            "groups_": list(target.labels),
            "group_names_": list(target.names),
            "group_counts_": target.count,
            "group_means_": target.mean,
            "group_losses_": self._losses(covariances, kept, solution),
            "group_errors_": np.maximum(np.trace(covariances, axis1=1, axis2=2) - kept, 0.0),
            "group_values_": solution.losses,
            "group_weights_": solution.weights,
            "certificate_": solution.certificate,
            "solver_": solution.solver,
            # The rotation to principal order above is a decomposition too when it is the only one.
            "n_iter_": max(solution.n_eigen, 1),
            "stop_reason_": solution.stop_reason,
        }

    def _solve(self, covariances: FloatArray) -> Solution:
        n = covariances.shape[1]
        if isinstance(self.n_components, float):
            return self._solve_for_share(covariances, self.n_components)
        r = n if self.n_components is None else int(self.n_components)
        check_rank(r, n)
        return self._solve_rank(covariances, r)

    def _solve_rank(self, covariances: FloatArray, r: int) -> Solution:
        method = "auto" if self.solver == "paper" else self.solver
        problem = pose(covariances, r, self.criterion, method=method)
        return solve_problem(problem, solver=self.solver, tol=self.tol, max_iter=self.max_iter)

    def _solve_for_share(self, covariances: FloatArray, share: float) -> Solution:
        """Return the smallest rank with which every group keeps `share` of its variance."""
        traces = np.trace(covariances, axis1=1, axis2=2)
        own = np.cumsum(np.linalg.eigvalsh(covariances)[:, ::-1], axis=1)
        # No rank serves a group better than its own PCA does: start where that is possible.
        enough = own >= share * traces[:, None] * (1 - 1e-12)
        first = int(np.max(np.argmax(enough, axis=1))) + 1
        for r in range(first, covariances.shape[1] + 1):
            solution = self._solve_rank(covariances, r)
            if np.all(kept_share(solution.components.T, covariances) >= share * (1 - 1e-12)):
                break
        return solution

    def _losses(self, covariances: FloatArray, kept: FloatArray, solution: Solution) -> FloatArray:
        """Reconstruction losses, whichever criterion was minimised."""
        if self.criterion == "loss":
            return solution.losses
        own = own_variance(covariances, len(solution.components))
        return np.maximum(own - kept, 0.0)


def _check_groups(moments: GroupMoments) -> None:
    """Raise ValueError where a group has no weight."""
    empty = [label for label, w in zip(moments.labels, moments.weight, strict=True) if w <= 0]
    if empty:
        raise ValueError(
            f"sensitive_features: group(s) {', '.join(map(repr, empty))} have no row with "
            "positive sample_weight; drop those rows or give them weight."
        )
    if not moments.labels:
        raise ValueError(
            "sensitive_features has no labelled row; label at least one row, or pass None for "
            "ordinary PCA."
        )
