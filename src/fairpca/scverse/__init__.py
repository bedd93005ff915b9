"""FairPCA for single cells: AnnData in, AnnData out, where `scanpy.pp.pca` stands today.

A PCA of several batches is mostly one of the batch with the most cells. The functions here take
the groups from columns of `adata.obs`, solve the same problem as `fairpca.FairPCA`, and leave the
result where scanpy looks for it, so that ``sc.pp.neighbors(adata, use_rep="X_fairpca")`` and all
that follows work as before.

Rows stay as they are stored. Sparse ones are never made dense, and those of a file opened with
``backed="r"`` are read a piece at a time. How they become covariances is decided by their shape:
few columns are counted once, as moments; many are multiplied with, once a step, and the
covariances are never formed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial, reduce
from typing import Any

import numpy as np
import scipy.sparse

import fairpca.auditing
from fairpca._check import distinct, require
from fairpca._arrays import AnyArray, is_dask, is_sparse
from fairpca.auditing.findings import Audit
from fairpca.covariances.implicit import products_pay
from fairpca.distributed.pieces import PassOperators
from fairpca.estimator import FairPCA
from fairpca.moments.group_moments import GroupMoments, split_folds
from fairpca.moments.groups import Groups, row_folds
from fairpca.moments.memory import check_fits

__all__ = ["audit", "pca"]

# Stored numbers that are read from a file at a time: 64 MB of them in double precision. Fewer pay
# for calls, more only for memory.
_PIECE = 8_000_000
_require = partial(require, extra="scverse", purpose="fairpca.scverse")


def pca(
    adata: Any,
    groupby: str | Sequence[str],
    n_comps: int = 50,
    *,
    layer: str | None = None,
    mask_var: Any = None,
    key_added: str = "X_fairpca",
    criterion: str = "loss",
    center: str = "global",
    shrinkage: float | str | None = None,
    copy: bool = False,
) -> Any:
    """Fit FairPCA to cells and store the result as `scanpy.pp.pca` does.

    With one group it is the PCA of `scanpy.pp.pca`, up to the signs of components.

    Parameters
    ----------
    adata : AnnData
        In memory, or opened with ``backed="r"``. Normalise and scale as you would for PCA.
    groupby : str or sequence of str
        Columns of `adata.obs` that say which group a cell belongs to, such as the batch, the
        donor or the type. Several columns: every combination that occurs is a group.
    n_comps : int, default=50
        Number of components.
    layer : str, optional
        The layer to use instead of `adata.X`.
    mask_var : str or array of bool, optional
        Genes to use: a column of `adata.var`, such as "highly_variable", or one value a gene.
        None uses all of them, also where `scanpy.pp.pca` would by itself take the highly variable
        ones.
    key_added : str, default="X_fairpca"
        Under which name the result is stored.
    criterion, center, shrinkage
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
            was subtracted; "groups", a frame with the cells, loss, error, dual weight and
            shrinkage of every group; "certificate" with the worst value, the bound that no
            projection of this rank goes below, and their relative gap; "params".

    Raises
    ------
    ValueError
        Where a column, layer or key does not exist, or a cell has no label.
    ImportError
        Without anndata: ``pip install ".[scverse]"``.

    Examples
    --------
    >>> import anndata as ad, numpy as np
    >>> import fairpca.scverse
    >>> rng = np.random.default_rng(0)
    >>> adata = ad.AnnData(rng.poisson(2.0, size=(60, 8)).astype(float))
    >>> adata.obs["batch"] = ["a"] * 50 + ["b"] * 10
    >>> fairpca.scverse.pca(adata, "batch", n_comps=3)
    >>> adata.obsm["X_fairpca"].shape, adata.varm["X_fairpca"].shape
    ((60, 3), (8, 3))
    >>> adata.uns["X_fairpca"]["groups"]["cells"].tolist()
    [50, 10]
    """
    cells = _Cells.of(adata, groupby, layer, mask_var)
    n_genes = int(cells.genes.sum())
    if not isinstance(n_comps, int | np.integer) or not 1 <= n_comps <= n_genes:
        raise ValueError(
            f"n_comps={n_comps!r} must be an integer from 1 to the number of genes in use, "
            f"{n_genes}."
        )
    if adata.isbacked and (copy or adata.is_view):
        what = "copy=True of" if copy else "adata is a part of"
        raise ValueError(
            f"{what} a file that is open: pass all of it, without copy, which changes nothing in "
            "the file, or read it with adata.to_memory() first."
        )
    model = FairPCA(n_comps, criterion=criterion, center=center, shrinkage=shrinkage)
    cells.fit(model)
    out = adata.copy() if copy else adata
    loadings, mean = np.zeros((adata.n_vars, n_comps)), np.zeros(adata.n_vars)
    loadings[cells.genes], mean[cells.genes] = model.components_.T, model.mean_
    out.obsm[key_added] = cells.projected(model)
    out.varm[key_added] = loadings
    params = {
        "groupby": list(cells.groups.names),
        "zero_center": True,
        "use_highly_variable": isinstance(mask_var, str) and mask_var == "highly_variable",
        # A series cannot be written to a file.
        "mask_var": mask_var if mask_var is None or isinstance(mask_var, str) else cells.genes,
        "criterion": criterion,
        "center": center,
        "shrinkage": shrinkage,
        "layer": layer,
    }
    proof = model.certificate_
    out.uns[key_added] = {
        # What is None cannot be written to older files, and says no more than its absence.
        "params": {name: value for name, value in params.items() if value is not None},
        "variance": model.explained_variance_,
        "variance_ratio": model.explained_variance_ratio_,
        "mean": mean,
        "groups": _group_frame(model),
        "certificate": {**asdict(proof), "optimal": proof.optimal, "text": str(proof)},
    }
    return out if copy else None


def audit(
    adata: Any,
    groupby: str | Sequence[str],
    n_comps: int = 50,
    *,
    layer: str | None = None,
    mask_var: Any = None,
    n_folds: int = 5,
    **options: Any,
) -> Audit:
    """Find out whom a PCA of these cells serves; `fairpca.audit` for AnnData.

    Rows in memory are audited as they are. Of those in a file or a Dask array the moments of every
    fold are counted in one pass; they say the same, but for the intervals of the rows in hand,
    which need rows.

    Parameters
    ----------
    adata, groupby, n_comps, layer, mask_var
        As in `pca`. An audit forms the covariances of all groups, so choose genes:
        ``mask_var="highly_variable"``.
    n_folds : int, default=5
        As in `fairpca.audit`.
    **options
        Further arguments of `fairpca.audit`, such as `ranks` or `reducers`.

    Returns
    -------
    Audit

    Raises
    ------
    ValueError
        As `pca`.
    MemoryError
        Where the covariances of all groups and folds would not fit.

    Examples
    --------
    >>> import anndata as ad, numpy as np
    >>> import fairpca.scverse
    >>> rng = np.random.default_rng(0)
    >>> adata = ad.AnnData(rng.poisson(2.0, size=(90, 5)).astype(float))
    >>> adata.obs["batch"] = ["a"] * 60 + ["b"] * 30
    >>> found = fairpca.scverse.audit(adata, "batch", n_comps=2, ranks=[2], n_bootstrap=0)
    >>> [group.label for group in found.groups], found.n_components
    (['a', 'b'], 2)
    """
    cells = _Cells.of(adata, groupby, layer, mask_var)
    data, labels = cells.X, cells.labels
    if not isinstance(data, np.ndarray):
        counted = 1 if is_sparse(data) else max(n_folds, 1)
        n, k = int(cells.genes.sum()), cells.groups.n_groups
        what = f"{n:,} genes in {k} group(s) and {counted} fold(s)"
        check_fits(n, k * counted, what, "choose genes, for example mask_var='highly_variable'")
        if not is_sparse(data):
            data, labels = cells.folds(counted), None
    return fairpca.auditing.audit(data, labels, n_comps, n_folds=n_folds, **options)


def _group_frame(model: FairPCA) -> Any:
    """Return what is known of every group: one line each, the label columns first."""
    pandas = _require("pandas")
    facts = {
        "cells": model.group_counts_,
        "loss": model.group_losses_,
        "error": model.group_errors_,
        "weight": model.group_weights_,
        "shrinkage": model.shrinkage_,
    }
    # A column of labels may have the name of a fact.
    names = distinct([*facts, *model.group_names_])[len(facts) :]
    labels = [(label,) if len(names) == 1 else label for label in model.groups_]
    rows = [[str(part) for part in label] for label in labels]
    # As objects: not every version of anndata can write the newer texts of pandas to a file.
    index = pandas.Index([", ".join(row) for row in rows], dtype=object)
    return pandas.DataFrame(rows, index, names, dtype=object).assign(**facts)


@dataclass(frozen=True)
class _Cells:
    """The numbers of some genes of all cells, wherever they are, and the groups of the cells.

    `X` has the columns of the genes in use where it is in memory, and of all genes where it is in
    a file and rows have to be read (`on_disk`). `genes` says of each whether it is used. `labels`
    are the columns that were named, without declared categories, `groups` what follows from them.
    """

    X: Any
    genes: AnyArray
    labels: Any
    groups: Groups
    on_disk: bool

    @classmethod
    def of(cls, adata: Any, groupby: Any, layer: str | None, mask: Any) -> _Cells:
        """Take the rows and labels of an AnnData; ValueError names what is missing."""
        anndata = _require("anndata")
        if not isinstance(adata, anndata.AnnData):
            raise ValueError(
                f"adata is a {type(adata).__name__}; pass an AnnData, or rows and labels to "
                "fairpca.FairPCA."
            )
        if layer is not None:
            _check_known("layer", layer, adata, "layers")
        labels, genes = _labels(adata, groupby), _genes(adata, mask)
        X = adata.X if layer is None else adata.layers[layer]
        if X is None:
            raise ValueError("adata.X is None; name the layer that holds the numbers: layer=.")
        if getattr(X, "format", None) == "csc" and not is_sparse(X):
            # A file stored by columns has no rows to read one after the other.
            X = X.to_memory()
        on_disk = not (isinstance(X, np.ndarray) or is_sparse(X) or is_dask(X))
        if not on_disk and not genes.all():
            X = X[:, genes]
        return cls(X, genes, labels, Groups.from_labels(labels, n_rows=adata.n_obs), on_disk)

    def fit(self, model: FairPCA) -> None:
        """Fit a model to the rows; those in a file are treated as `fit` treats others.

        Covariances are formed where they fit, and are no slower than products with rows.
        """
        if not self.on_disk:
            model.fit(self.X, sensitive_features=self.labels)
        elif products_pay(int(self.genes.sum()), self.groups.n_groups, _stored(self.X)):
            model.fit_operators(PassOperators.over(partial(self._pieces, self.groups)))
        else:
            model.fit_moments(self._moments(self.groups))

    def projected(self, model: FairPCA) -> AnyArray:
        """Return all cells projected by a fitted model, in single precision as scanpy has them."""
        # Of a Dask array this is where it is computed.
        pieces = self._pieces(self.groups)
        return np.concatenate([np.asarray(model.transform(X), np.float32) for X, *_ in pieces])

    def folds(self, n_folds: int) -> Any:
        """Return the moments of every fold, in a list."""
        numbers = row_folds(0, len(self.groups.codes), n_folds)
        return split_folds(self._moments(self.groups.in_folds(numbers, n_folds)), n_folds)

    def _pieces(self, groups: Groups) -> Iterator[tuple[Any, Groups, None, str]]:
        """Yield rows in order, the genes in use only: all at once where they are in memory.

        With them come their groups, no weights, and where they are.
        """
        m, n = self.X.shape
        if not self.on_disk:
            yield self.X, groups, None, "all cells"
            return
        stored = _stored(self.X)
        a_row = n if stored is None else stored / max(m, 1)
        step = max(int(_PIECE / max(a_row, 1.0)), 1)
        for start in range(0, m, step):
            part = slice(start, min(start + step, m))
            rows = self.X[part] if stored is None else _stored_rows(self.X, part)
            rows = rows if self.genes.all() else rows[:, self.genes]
            yield rows, groups.with_codes(groups.codes[part]), None, f"cells {start} on"

    def _moments(self, groups: Groups) -> GroupMoments:
        """Return the moments of every group, from one pass over the rows."""
        pieces = self._pieces(groups)
        return reduce(GroupMoments.merge, (GroupMoments.from_array(X, g) for X, g, *_ in pieces))


def _stored(X: Any) -> int | None:
    """Return the stored entries of a sparse matrix in a file; None of a dense one."""
    return int(X.group["data"].shape[0]) if getattr(X, "format", None) == "csr" else None


def _stored_rows(X: Any, part: slice) -> Any:
    """Return some rows of a sparse matrix in a file, which stores it row by row.

    Read from the three arrays of the format: how anndata slices them changes with SciPy.
    """
    starts = X.group["indptr"][part.start : part.stop + 1]
    inside = slice(int(starts[0]), int(starts[-1]))
    arrays = X.group["data"][inside], X.group["indices"][inside], starts - starts[0]
    return scipy.sparse.csr_array(arrays, shape=(len(starts) - 1, X.shape[1]))


def _check_known(argument: str, name: str, adata: Any, part: str) -> None:
    """Raise ValueError unless a part of an AnnData has an entry of that name."""
    found = getattr(adata, part)
    if name not in found:
        known = ", ".join(map(repr, found)) or "none"
        raise ValueError(f"{argument}={name!r} is not in adata.{part}; there are: {known}.")


def _labels(adata: Any, groupby: Any) -> dict[str, AnyArray]:
    """Return the label columns; ValueError names a column or a cell without a label."""
    names = [groupby] if isinstance(groupby, str) else list(groupby)
    if not names:
        raise ValueError("groupby=[] names no column; name one or more columns of adata.obs.")
    for name in names:
        _check_known("groupby", name, adata, "obs")
        missing = adata.obs[name].isna().to_numpy()
        if missing.any():
            raise ValueError(
                f"groupby={name!r} has no label for {int(missing.sum())} cell(s), the first is "
                f"{adata.obs_names[missing][0]!r}; fill them in, or leave those cells out: "
                f"adata[adata.obs[{name!r}].notna()]."
            )
    # As objects: categories that only other cells have are no mistake in a part of a table.
    return {name: adata.obs[name].astype(object).to_numpy() for name in names}


def _genes(adata: Any, mask: Any) -> AnyArray:
    """Return which genes are used, one bool a gene."""
    if mask is None:
        return np.ones(adata.n_vars, dtype=bool)
    if isinstance(mask, str):
        _check_known("mask_var", mask, adata, "var")
        mask = adata.var[mask]
    found = np.asarray(mask)
    if found.dtype != bool or found.shape != (adata.n_vars,):
        raise ValueError(
            f"mask_var has dtype {found.dtype} and shape {found.shape}; pass one bool for each of "
            f"the {adata.n_vars} genes, or the name of such a column of adata.var."
        )
    return found
