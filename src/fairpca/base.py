"""What every linear reducer of the package shares: reading rows, projecting, fitted attributes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse.linalg import LinearOperator
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.decomposition import PCA
from sklearn.utils import check_array, gen_batches
from sklearn.utils.validation import check_is_fitted, validate_data

from fairpca._arrays import (
    EPS,
    FloatArray,
    IntArray,
    array_namespace,
    diagonalise,
    fetched,
    fix_signs,
    is_dask,
    is_sparse,
    library_of,
    orthonormal,
    placed,
    rounding_level,
)
from fairpca._check import as_numpy, check_weights, require, warn
from fairpca.covariances.sources import CovarianceSource
from fairpca.moments.group_moments import GroupMoments, with_weight
from fairpca.moments.groups import Frame, Groups, Label, Labels, Rows, Weights

if TYPE_CHECKING:
    import faiss
    from sentence_transformers.models import Dense

# What a fitted sklearn PCA has too, under the same names.
_LIKE_PCA = (
    "components_ mean_ explained_variance_ explained_variance_ratio_ singular_values_ "
    "noise_variance_ n_components_ n_samples_ n_features_in_ feature_names_in_"
).split()
# Groups in the table of a notebook, those that lose most; more than a screen of them is not read.
_NOTEBOOK_ROWS = 30
# Entries of the rows that `transform` centres at a time: 32 megabytes. All at once would take the
# memory of the table once more, in no less time.
_CENTRED_ENTRIES = 4_000_000


def warn_one_group() -> None:
    """Warn that without labels there is nobody to be fair to."""
    warn(
        "sensitive_features=None: all rows are one group and the result is ordinary PCA. Pass "
        "fit(X, sensitive_features=labels); in a Pipeline call set_fit_request("
        "sensitive_features=True) on this estimator, with enable_metadata_routing=True."
    )


def html_table(columns: Iterable[str], rows: Iterable[Iterable[str]], caption: str = "") -> str:
    """Return an HTML table for notebooks; every text is escaped and nothing in it can run."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    lines = ("".join(f"<td><bdi>{escape(cell)}</bdi></td>" for cell in row) for row in rows)
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    top = f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead>"
    return f"<table>{top}<tbody>{body}</tbody></table>"


def projection_attributes(
    source: CovarianceSource,
    basis: FloatArray,
    losses: FloatArray,
    retained: FloatArray,
    *,
    keep_order: bool = False,
) -> dict[str, Any]:
    """Return what every fitted reducer has: components, variances, groups and their losses.

    Parameters
    ----------
    source : CovarianceSource
    basis : ndarray of shape (p, r)
        Orthonormal columns in the source's coordinates.
    losses, retained : ndarray of shape (k,)
        What every group loses against its own PCA, and what the basis keeps of its variance.
    keep_order : bool
        Leave the columns as they are (nested components) instead of rotating them to principal
        order.
    """
    groups, total = source.groups, source.total
    # Weights act like repeated rows. Those that were divided by their sum make no number of rows.
    rows = max(total.weight, float(total.count)) if total.weight < 2 else total.weight
    freedom = total.weight * (rows - 1) / rows
    compressed = source.total_compression(basis)
    if keep_order:
        variances = np.maximum(np.diag(fetched(compressed)), 0.0)
        columns = source.to_features(basis)
    else:
        rotated, variances = diagonalise(placed(basis, compressed), compressed)
        columns = source.to_features(rotated)
        columns = columns if columns is rotated else orthonormal(columns)
    components = fix_signs(np.ascontiguousarray(fetched(columns).T))
    variances = variances * (total.weight / freedom)
    (r, n), all_variance = components.shape, total.trace * (total.weight / freedom)
    # With every direction taken nothing is left, and what the difference says is rounding.
    spare = min(n, max(total.count, rows)) - r
    left = all_variance - float(variances.sum()) if spare > 0 else 0.0
    left = left if left > rounding_level(all_variance, n) else 0.0
    return {
        "components_": components,
        "mean_": total.mean,
        "explained_variance_": variances,
        "explained_variance_ratio_": variances / (all_variance or 1.0),
        "singular_values_": np.sqrt(variances * freedom),
        "noise_variance_": left / max(spare, 1.0),
        "n_components_": r,
        "n_samples_": total.count,
        "groups_": list(groups.labels),
        "group_names_": list(groups.names),
        "group_counts_": groups.count,
        "group_means_": groups.mean,
        "group_losses_": losses,
        "group_shares_": np.clip(groups.shares(retained), 0.0, 1.0),
        "group_errors_": source.errors(basis, retained),
    }


class LinearReducer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """Base of estimators with orthonormal `components_` (rows) and one `mean_` for everybody.

    A subclass writes `fit` with the signature below and sets the fitted attributes; groups are
    never needed after it.
    """

    components_: FloatArray
    mean_: FloatArray
    explained_variance_: FloatArray
    n_components_: int
    groups_: list[Label]
    group_names_: list[str]
    group_counts_: IntArray
    group_losses_: FloatArray
    # Every subclass has its own: (X, y=None, *, sensitive_features=None, sample_weight=None).
    fit: Callable[..., Any]
    # How labels become groups: parameters of FairPCA.
    group_by: str = "intersection"
    unlabelled: str = "error"
    # Whether projected columns are divided by their standard deviation: a parameter of FairPCA.
    whiten: bool = False
    # Whether rows of other array libraries are followed to where they live (`array_namespace`).
    _follows_arrays: bool = False
    # Formats of sparse rows that `fit` takes; False for methods that need dense rows.
    _accept_sparse: tuple[str, ...] | bool = False

    def fit_transform(
        self, X: Rows, y: object = None, *,
        sensitive_features: Labels | None = None, sample_weight: Weights = None,
    ) -> Any:  # fmt: skip
        """Fit, then project the same rows; arguments as in `fit`."""
        self.fit(X, sensitive_features=sensitive_features, sample_weight=sample_weight)
        return self.transform(X)

    def transform(self, X: Rows) -> Any:
        """Project rows: subtract the overall mean, multiply by the components.

        With `whiten` every column of the result is divided by its standard deviation in the rows
        of the fit.

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
        xp = self._followed(X, "transform")
        rows: Any = self._validated(X, xp, reset=False)
        columns = self._scoring_rows.T
        if is_sparse(rows):
            projected = rows @ columns
            projected -= self.mean_ @ columns
            return projected.astype(rows.dtype, copy=False)
        # Centred before the product: afterwards, a large mean would have eaten the digits.
        if xp is not np:
            return xp.astype((rows - self.mean_) @ columns, rows.dtype)
        projected = np.empty((len(rows), columns.shape[1]), dtype=rows.dtype)
        for block in gen_batches(len(rows), max(_CENTRED_ENTRIES // rows.shape[1], 1)):
            projected[block] = (rows[block] - self.mean_) @ columns
        return projected

    def _validated(self, X: Any, xp: Any, **options: Any) -> Any:
        """Return rows in float64 or float32, as arrays of the library `xp`."""
        rows, dtypes = as_numpy(X) if xp is np else X, [xp.float64, xp.float32]
        sparse = self._accept_sparse
        return validate_data(self, rows, dtype=dtypes, accept_sparse=sparse, **options)

    def _followed(self, X: Any, method: str) -> Any:
        """Return the library of X and of the model, which must be one.

        Raises
        ------
        ValueError
            If X and the model live in different libraries or on different devices.
        """
        xp, mine = (self._follows_arrays and array_namespace(X)) or np, self.components_
        if xp is library_of(mine) and (xp is np or X.device == mine.device):
            return xp
        raise ValueError(
            f"X given to {type(self).__name__}.{method}() must use the same namespace and the "
            "same device as the rows of the fit. Within "
            "sklearn.config_context(array_api_dispatch=True), pass X where the model is, or move "
            "the model with sklearn.utils._array_api.move_estimator_to."
        )

    @property
    def _scoring_rows(self) -> FloatArray:
        """What `transform` multiplies centred rows with, shape (r, n)."""
        return self.components_ / self._spread if self.whiten else self.components_

    @property
    def _spread(self) -> FloatArray:
        """Standard deviation along every component, shape (r, 1); none is taken to be zero."""
        found = np.maximum(np.sqrt(fetched(self.explained_variance_)), EPS)
        return placed(found[:, None], self.components_)  # type: ignore[no-any-return]

    def inverse_transform(self, X: Rows) -> Any:
        """Map projected rows back to the original columns.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components_)

        Returns
        -------
        ndarray of shape (n_samples, n_features_in_)
            float32 where X is.
        """
        check_is_fitted(self)
        xp = self._followed(X, "inverse_transform")
        Z = check_array(X, dtype=[xp.float64, xp.float32], input_name="X", ensure_min_samples=0)
        if Z.shape[1] != self.n_components_:
            raise ValueError(
                f"X has shape {Z.shape}; inverse_transform needs {self.n_components_} columns, "
                "those that transform returns."
            )
        rows = self.components_ * self._spread if self.whiten else self.components_
        return xp.astype(xp.astype(Z, xp.float64) @ rows + self.mean_, Z.dtype)

    def to_sklearn(self) -> PCA:
        """Return a fitted `sklearn.decomposition.PCA` with the same transform.

        For tools that know PCA but not this class (exporters, explainers).
        """
        check_is_fitted(self)
        pca = PCA(n_components=self.n_components_, whiten=self.whiten)
        vars(pca).update({name: v for name, v in vars(self).items() if name in _LIKE_PCA})
        pca._fit_svd_solver = "full"
        return pca

    def to_faiss(self) -> faiss.LinearTransform:
        """Return a `faiss.LinearTransform` with the same transform, in float32.

        For ``faiss.IndexPreTransform(model.to_faiss(), faiss.IndexFlatL2(r))``: vectors are
        reduced as they are added, and so are queries.
        """
        faiss = require("faiss", extra="vectors", purpose="to_faiss")
        rows, shift = self._affine()
        transform = faiss.LinearTransform(*rows.shape[::-1], True)
        faiss.copy_array_to_vector(rows.astype(np.float32).ravel(), transform.A)
        faiss.copy_array_to_vector(shift.astype(np.float32), transform.b)
        transform.is_trained = True
        return transform  # type: ignore[no-any-return]

    def to_sentence_transformers(self) -> Dense:
        """Return a `Dense` module of sentence-transformers with the same transform, in float32.

        For ``SentenceTransformer(modules=[*encoder, model.to_sentence_transformers()])``.
        """
        torch = require("torch", extra="vectors", purpose="to_sentence_transformers")
        require("sentence_transformers", extra="vectors", purpose="to_sentence_transformers")
        try:
            from sentence_transformers.sentence_transformer.modules import Dense
        except ImportError:
            # Before version 6.
            from sentence_transformers.models import Dense
        rows, shift = self._affine()
        return Dense(
            rows.shape[1],
            len(rows),
            activation_function=torch.nn.Identity(),
            init_weight=torch.tensor(rows, dtype=torch.float32),
            init_bias=torch.tensor(shift, dtype=torch.float32),
        )

    def _affine(self) -> tuple[FloatArray, FloatArray]:
        """Return the matrix A, shape (r, n), and the vector b of the transform ``A x + b``."""
        check_is_fitted(self)
        rows = np.ascontiguousarray(fetched(self._scoring_rows))
        return rows, -rows @ fetched(self.mean_)

    def groups_frame(self) -> Frame:
        """Return a pandas frame with one row a group: labels, rows, loss, error, share kept.

        They are about the rows of the fit; `fairpca.cross_fit` measures rows left out.
        """
        check_is_fitted(self)
        pandas = require("pandas", extra="app", purpose="groups_frame")
        return pandas.DataFrame(self._groups_table())

    def _groups_table(self) -> dict[str, Any]:
        several = len(self.group_names_) > 1 and self.group_by != "marginal"
        labels = list(zip(*self.groups_, strict=True)) if several else [self.groups_]
        names = self.group_names_ if several else [" or ".join(self.group_names_)]
        found: dict[str, Any] = dict(zip(map(str, names), map(list, labels), strict=True))
        for name in ("counts", "losses", "errors", "shares"):
            if f"group_{name}_" in self.__dict__:
                found[name] = fetched(self.__dict__[f"group_{name}_"])
        return found

    def _read(
        self,
        X: Any,
        labels: Any,
        sample_weight: Any,
        *,
        reset: bool = True,
        check_finite: bool = True,
        part: bool = False,
    ) -> tuple[Any, Groups, FloatArray | None]:
        """Validate rows, labels and weights; the same errors for every estimator.

        Rows of weight zero are no rows, and are left out. Without `check_finite` the caller has to
        find NaN and infinity by itself, for instance in sums that it computes anyway. A `part` of
        the rows may have no weight at all.
        """
        if isinstance(X, LinearOperator):
            self._note_columns(X.shape[1])
        else:
            xp = (self._follows_arrays and array_namespace(X)) or np
            X = self._validated(X, xp, reset=reset, ensure_all_finite=check_finite)
        weights = check_weights(sample_weight, X.shape[0], all_zero=part)
        if labels is None:
            warn_one_group()
        rules = {"group_by": self.group_by, "unlabelled": self.unlabelled}
        groups = Groups.of(labels, X.shape[0], rows=X, **rules)
        return with_weight(X, groups, weights)

    def _note_moments(self, moments: Any) -> None:
        """Set the number of columns of moments; ValueError where they are something else."""
        if not isinstance(moments, GroupMoments):
            raise ValueError(
                f"moments is a {type(moments).__name__}; pass GroupMoments, for example those of "
                "GroupMoments.from_array(X, labels), or rows to fit."
            )
        self._note_columns(moments.n_features, moments.feature_names)

    def _note_columns(self, n_features: int, names: Sequence[str] | None = None) -> None:
        """Set number and names, if they are known, of columns whose rows are not at hand."""
        self.n_features_in_ = n_features
        self.__dict__.pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = np.array(names, dtype=object)

    def _repr_html_inner(self) -> str:
        """Return what notebooks show: scikit-learn's diagram, and what every group gets."""
        return str(super()._repr_html_inner()) + self._groups_html()

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        """Return what Jupyter shows, which asks for this rather than for `_repr_html_`."""
        found: dict[str, str] = super()._repr_mimebundle_(**options)
        if "text/html" in found:
            found["text/html"] += self._groups_html()
        return found

    def _groups_html(self) -> str:
        """Return a table of the groups and the certificate; "" where nothing is fitted."""
        if "group_losses_" not in self.__dict__:
            return ""
        table = self._groups_table()
        order = np.argsort(-np.asarray(table["losses"]), kind="stable")[:_NOTEBOOK_ROWS]
        rows = ([column[g] for column in table.values()] for g in order)
        shown = ([f"{c:.4g}" if isinstance(c, float) else str(c) for c in row] for row in rows)
        return (
            f"{html_table(table, shown)}<p>{escape(str(getattr(self, 'certificate_', '')))}</p>"
            f"<p>Of the rows of the fit, the {len(order)} groups that lose most against a PCA of "
            "their own; fairpca.audit measures new rows.</p>"
        )

    def _set_fitted(self, attributes: dict[str, Any]) -> None:
        """Set fitted attributes in place of those of an earlier fit; the one place that does."""
        kept = {n: v for n, v in vars(self).items() if not n.endswith("_") or n.endswith("_in_")}
        self.__dict__ = kept | attributes

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "components_")

    @property
    def _n_features_out(self) -> int:
        return int(self.components_.shape[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        tags.input_tags.sparse = bool(self._accept_sparse)
        tags.array_api_support = self._follows_arrays
        return tags
