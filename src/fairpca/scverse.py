"""FairPCA for single cells: AnnData in, AnnData out, where `scanpy.pp.pca` stands today.

A PCA of several batches is mostly one of the batch with the most cells. `pca` takes the groups
from columns of `adata.obs`, solves the same problem as `fairpca.FairPCA`, and leaves the result
where scanpy looks for it, so that ``sc.pp.neighbors(adata, use_rep="X_fairpca")`` and all that
follows work as before. Sparse rows are never made dense, and those of a file opened with
``backed="r"`` are read a piece at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse
from numpy.typing import ArrayLike

from fairpca._arrays import AnyArray, is_dask, is_sparse
from fairpca._check import require
from fairpca.estimator import FairPCA
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.groups import Groups

if TYPE_CHECKING:
    from anndata import AnnData

__all__ = ["pca"]

# Cells that are read from a file at a time.
_CELLS = 5000


def pca(
    adata: AnnData,
    n_comps: int = 50,
    *,
    groupby: str | Sequence[str],
    layer: str | None = None,
    mask_var: str | ArrayLike | None = None,
    key_added: str = "X_fairpca",
    criterion: str = "loss",
    center: str = "global",
    shrinkage: float | str | None = None,
    max_harm: float | None = None,
    copy: bool = False,
) -> AnnData | None:
    """Fit FairPCA to cells and store the result as `scanpy.pp.pca` does.

    With one group it is the PCA of `scanpy.pp.pca`, up to the signs of components.

    Parameters
    ----------
    adata : AnnData
        In memory, or opened with ``backed="r"``. Normalise and scale as you would for PCA.
    n_comps : int, default=50
        Number of components.
    groupby : str or sequence of str
        Columns of `adata.obs` that say which group a cell belongs to, such as the batch, the
        donor or the type. Several columns: every combination that occurs is a group.
    layer : str, optional
        The layer to use instead of `adata.X`.
    mask_var : str or array of bool, optional
        Genes to use: a column of `adata.var`, such as "highly_variable", or one value a gene.
        None uses all of them, also where `scanpy.pp.pca` would by itself take the highly variable
        ones.
    key_added : str, default="X_fairpca"
        Under which name the result is stored.
    criterion, center, shrinkage, max_harm
        As in `fairpca.FairPCA`.
    copy : bool, default=False
        Return a changed copy and leave `adata` alone. Not for a file that is open.

    Returns
    -------
    AnnData or None
        The copy, if one was asked for. These fields are set:

        ``.obsm[key_added]`` : ndarray of shape (n_obs, n_comps), float32
            The cells, projected.
        ``.varm[key_added]`` : ndarray of shape (n_vars, n_comps)
            The components; zero for genes that were not used.
        ``.uns[key_added]`` : dict
            "variance" and "variance_ratio" as of `scanpy.pp.pca`; "mean", one value a gene, which
            was subtracted; "groups", a frame with the cells, loss, error, share kept and dual
            weight of every group; "certificate" with the worst value, the bound that no
            projection of this rank goes below, and their relative gap; "params".

    Raises
    ------
    ValueError
        Where a column or layer does not exist, or a cell has no label.

    Examples
    --------
    >>> import anndata as ad, numpy as np
    >>> import fairpca.scverse
    >>> rng = np.random.default_rng(0)
    >>> adata = ad.AnnData(rng.poisson(2.0, size=(60, 8)).astype(float))
    >>> adata.obs["batch"] = ["a"] * 50 + ["b"] * 10
    >>> fairpca.scverse.pca(adata, n_comps=3, groupby="batch")
    >>> adata.obsm["X_fairpca"].shape, adata.varm["X_fairpca"].shape
    ((60, 3), (8, 3))
    >>> adata.uns["X_fairpca"]["groups"]["cells"].tolist()
    [50, 10]
    """
    require("anndata", extra="scverse", purpose="fairpca.scverse")
    names = [groupby] if isinstance(groupby, str) else list(groupby)
    marked = mask_var if isinstance(mask_var, str) else None
    for name, part in ((layer, "layers"), (marked, "var"), *((name, "obs") for name in names)):
        if name is not None and name not in getattr(adata, part):
            raise ValueError(f"adata.{part} has no {name!r}; it has {list(getattr(adata, part))}.")
    if adata.isbacked and (copy or adata.is_view):
        raise ValueError(
            "adata is an open file, of which no copy and no part can be changed; pass all of it, "
            "without copy, or read it with adata.to_memory() first."
        )
    mask = mask_var if marked is None else adata.var[marked]
    genes = np.ones(adata.n_vars, dtype=bool) if mask is None else np.asarray(mask, dtype=bool)
    # As objects: categories that only other cells have are no groups of these.
    labels = adata.obs[names].astype(object)
    options: dict[str, Any] = {"criterion": criterion, "center": center}
    options |= {"shrinkage": shrinkage, "max_harm": max_harm}
    model = FairPCA(n_comps, **options)
    X = adata.X if layer is None else adata.layers[layer]
    if isinstance(X, np.ndarray) or is_sparse(X) or is_dask(X):
        used = X if genes.all() else X[:, genes]
        model.fit(used, sensitive_features=labels)
        projected = np.asarray(model.transform(used), dtype=np.float32)
    else:
        projected = _fit_file(model, X, labels, genes)
    out = adata.copy() if copy else adata
    loadings, mean = np.zeros((adata.n_vars, n_comps)), np.zeros(adata.n_vars)
    loadings[genes], mean[genes] = model.components_.T, model.mean_
    out.obsm[key_added], out.varm[key_added] = projected, loadings
    params = {"groupby": names, "zero_center": True, "mask_var": marked, "layer": layer, **options}
    params["use_highly_variable"] = marked == "highly_variable"
    proof = model.certificate_
    groups = model.groups_frame().rename(columns={"counts": "cells"})
    # As objects: not every version of anndata can write the newer texts of pandas to a file.
    texts = groups[names].astype(str).astype(object)
    groups[names] = texts
    groups.index = texts.agg(", ".join, axis=1).astype(object)
    out.uns[key_added] = {
        # What is None cannot be written to older files, and says no more than its absence.
        "params": {name: value for name, value in params.items() if value is not None},
        "variance": model.explained_variance_,
        "variance_ratio": model.explained_variance_ratio_,
        "mean": mean,
        "groups": groups.assign(weight=model.group_weights_),
        "certificate": {**asdict(proof), "optimal": proof.optimal, "text": str(proof)},
    }
    return out if copy else None


def _fit_file(model: FairPCA, X: Any, labels: Any, genes: AnyArray) -> AnyArray:
    """Fit rows of a file, and return their projection; both are read a piece at a time."""
    if getattr(X, "format", None) == "csc":
        # A file stored by columns has no rows to read one after the other.
        X = X.to_memory()
    groups, m = Groups.from_labels(labels), X.shape[0]
    pieces = [slice(i, min(i + _CELLS, m)) for i in range(0, m, _CELLS)]

    def read(piece: slice) -> Any:
        if is_sparse(X) or not hasattr(X, "group"):
            return X[piece][:, genes]
        # From the three arrays of the format: how anndata slices them changes with SciPy.
        starts = X.group["indptr"][piece.start : piece.stop + 1]
        stored = slice(int(starts[0]), int(starts[-1]))
        arrays = X.group["data"][stored], X.group["indices"][stored], starts - starts[0]
        return scipy.sparse.csr_array(arrays, shape=(len(starts) - 1, X.shape[1]))[:, genes]

    model.fit_moments(GroupMoments.from_batches((read(p), groups.take(p)) for p in pieces))
    return np.concatenate([np.asarray(model.transform(read(p)), np.float32) for p in pieces])
