"""What every linear reducer of the package shares: reading rows, projecting, mapping back."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.decomposition import PCA
from sklearn.utils.validation import check_is_fitted, validate_data

from fairpca.arrays import AnyArray, FloatArray, is_dask, is_sparse
from fairpca.checks import as_numpy, check_weights
from fairpca.groups import Groups

# What a fitted sklearn PCA has too, under the same names.
LIKE_PCA = (
    "components_",
    "mean_",
    "explained_variance_",
    "explained_variance_ratio_",
    "singular_values_",
    "noise_variance_",
    "n_components_",
    "n_samples_",
)


@dataclass(frozen=True)
class Rows:
    """Validated input of a fit; `groups` is None when no labels were given."""

    X: AnyArray
    groups: Groups | None
    weight: FloatArray | None


def warn_one_group(*, stacklevel: int) -> None:
    """Warn that without labels there is nobody to be fair to."""
    warnings.warn(
        "sensitive_features=None: all rows are one group and the result is ordinary PCA. "
        "Pass one label per row to serve the worst group.",
        UserWarning,
        stacklevel=stacklevel,
    )


class LinearReducer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Base of estimators with orthonormal `components_` (rows) and one `mean_` for everybody.

    A subclass writes `fit` with the signature below and sets the fitted attributes; groups are
    never needed after it.
    """

    components_: FloatArray
    mean_: FloatArray
    n_components_: int
    # Formats of sparse rows that `fit` takes; False for methods that need dense rows.
    _accept_sparse: tuple[str, ...] | bool = False

    def fit(
        self, X: Any, y: Any = None, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> LinearReducer:
        """Fit the projection; see the subclass."""
        raise NotImplementedError

    def fit_transform(
        self, X: Any, y: Any = None, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> Any:
        """Fit, then project the same rows; arguments as in `fit`."""
        self.fit(X, sensitive_features=sensitive_features, sample_weight=sample_weight)
        return self.transform(X)

    def transform(self, X: Any) -> Any:
        """Project rows: subtract the overall mean, multiply by the components.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Of a Dask collection the projection is lazy, see `fairpca.distributed.dask`.

        Returns
        -------
        ndarray of shape (n_samples, n_components_)
        """
        check_is_fitted(self)
        if is_dask(X):
            from fairpca.distributed import dask

            return dask.transform(self, X)
        X = validate_data(
            self,
            as_numpy(X),
            dtype=[np.float64, np.float32],
            reset=False,
            accept_sparse=self._accept_sparse,
        )
        if is_sparse(X):
            projected = X @ self.components_.T - self.mean_ @ self.components_.T
        else:
            # Centred before the product: afterwards, a large mean would have eaten the digits.
            projected = (X - self.mean_) @ self.components_.T
        return projected.astype(X.dtype, copy=False)

    def inverse_transform(self, X: Any) -> Any:
        """Map projected rows back to the original columns.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components_)

        Returns
        -------
        ndarray of shape (n_samples, n_features_in_)
        """
        check_is_fitted(self)
        Z = np.asarray(X)
        if Z.ndim != 2 or Z.shape[1] != self.n_components_:
            raise ValueError(
                f"X has shape {Z.shape}; inverse_transform needs {self.n_components_} columns, "
                "those that transform returns."
            )
        return Z @ self.components_ + self.mean_

    def to_sklearn(self) -> PCA:
        """Return a fitted `sklearn.decomposition.PCA` with the same transform.

        For tools that know PCA but not this class (exporters, explainers).
        """
        check_is_fitted(self)
        pca = PCA(n_components=self.n_components_)
        for name in LIKE_PCA:
            setattr(pca, name, getattr(self, name))
        pca.n_features_in_ = self.n_features_in_
        if hasattr(self, "feature_names_in_"):
            pca.feature_names_in_ = self.feature_names_in_
        pca._fit_svd_solver = "full"
        return pca

    def _read(
        self,
        X: Any,
        labels: Any,
        sample_weight: Any,
        *,
        reset: bool = True,
        check_finite: bool = True,
    ) -> Rows:
        """Validate rows, labels and weights; the same errors for every estimator.

        Without `check_finite` the caller has to find NaN and infinity by itself, for instance in
        sums that it computes anyway.
        """
        if isinstance(X, LinearOperator) or (reset and not check_finite and _is_checked(X)):
            self.n_features_in_ = X.shape[1]
            self.__dict__.pop("feature_names_in_", None)
        else:
            X = validate_data(
                self,
                as_numpy(X),
                dtype=[np.float64, np.float32],
                reset=reset,
                ensure_min_samples=1,
                ensure_all_finite=check_finite,
                accept_sparse=self._accept_sparse,
            )
        weights = check_weights(sample_weight, X.shape[0])
        if labels is None:
            warn_one_group(stacklevel=5)
            return Rows(X, None, weights)
        groups = Groups.from_labels(
            labels,
            n_rows=X.shape[0],
            group_by=getattr(self, "group_by", "intersection"),
            unlabelled=getattr(self, "unlabelled", "error"),
        )
        return Rows(X, groups, weights)

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.sparse = bool(self._accept_sparse)
        return tags


def _is_checked(X: Any) -> bool:
    """Whether `X` is an array that scikit-learn's check would return as it is.

    Looking for something to convert takes a fortieth of a small fit.
    """
    floating = type(X) is np.ndarray and X.dtype in (np.float64, np.float32)
    return floating and X.ndim == 2 and X.size > 0
