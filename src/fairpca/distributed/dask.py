"""Rows in a Dask array or dataframe: moments by a tree on the cluster, lazy projections."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from fairpca._arrays import is_dask
from fairpca._check import require
from fairpca.distributed import Grouping, check_columns, light, merged, project
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.groups import Groups, Labels, Model, Weights

if TYPE_CHECKING:
    from dask.array import Array
    from dask.dataframe import DataFrame

__all__ = ["moments", "transform"]

_require = partial(require, extra="dask", purpose="computing on a Dask cluster")


def moments(
    X: Array | DataFrame,
    sensitive_features: Labels | None = None,
    *,
    sample_weight: Weights = None,
    group_by: str = "intersection",
    unlabelled: str = "error",
    n_folds: int = 0,
    blocks: Labels | None = None,
) -> GroupMoments | list[GroupMoments]:
    """Count the moments of distributed rows, partition by partition.

    Partial moments are merged in a tree on the cluster, always in the order of the partitions; a
    partition whose worker dies is counted again by another.

    Parameters
    ----------
    X : dask array or dataframe
        Row chunks of any sizes, unknown ones included.
    sensitive_features : str, list of str, dask Series, array or dataframe, or array-like
        Names of columns of X (which are then no features), a collection with the partitions of
        X, or one label per row in memory. None is one group.
    sample_weight : str, dask Series or array, or array-like, optional
    group_by, unlabelled : str
        As in `FairPCA`.
    n_folds : int, default=0
        Count the rows of so many folds apart, in the same pass, as `fairpca.cross_fit` and
        ``shrinkage="auto"`` need them. Folds are those of the same rows in memory; where the sizes
        of partitions are not known, they are counted first.
    blocks : str, dask Series or array, or array-like, optional
        What rows belong to, such as a person: rows of one block have the same fold.

    Returns
    -------
    GroupMoments, or a list of `n_folds` of them

    Raises
    ------
    ValueError
        Naming the partition whose rows, labels or weights are wrong.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from fairpca import FairPCA
    >>> from fairpca.distributed import dask
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> rows, labels = da.from_array(X, chunks=(20, 4)), np.array(["a", "b"] * 30)
    >>> moments = dask.moments(rows, labels)
    >>> moments.count.tolist()
    [30, 30]
    >>> FairPCA(2).fit_moments(moments).certificate_.optimal
    True
    """
    dask = _require("dask")
    roles = dict(sensitive_features=sensitive_features, sample_weight=sample_weight, blocks=blocks)
    columns = list(getattr(X, "columns", ()))
    named: Any = {name: v for name, v in roles.items() if _names_columns(columns, v)}
    beside: Any = {name: v for name, v in roles.items() if v is not None and name not in named}
    grouping = Grouping({"group_by": group_by, "unlabelled": unlabelled}, n_folds, named)
    rows: Any = X if columns else _whole_rows(X)
    check_columns(grouping.others, columns, rows.shape[1] - len(grouping.others))
    pieces, sizes = _pieces(rows), getattr(rows, "chunks", ((np.nan,),))[0]
    by_place = (n_folds and blocks is None) or not all(map(is_dask, beside.values()))
    if by_place and np.isnan(sizes).any():
        sizes = dask.compute(*map(dask.delayed(len), pieces))
    starts = np.cumsum([0, *sizes]).tolist() if by_place else [0] * (len(pieces) + 1)
    if "sensitive_features" in beside and not is_dask(sensitive_features):
        beside["sensitive_features"] = Groups.of(sensitive_features, starts[-1], **grouping.rules)
    cut = {name: _cut(name, v, sizes, starts) for name, v in beside.items()}
    # Not pure: Dask would hash all rows in memory to find a task that it has done before.
    count, merge = (dask.delayed(f, pure=False) for f in (grouping.count, merged))
    parts = [
        count(piece, {name: values[i] for name, values in cut.items()}, starts[i], i)
        for i, piece in enumerate(pieces)
    ]
    # The order of merging never depends on who finishes first.
    while len(parts) > 1:
        parts = [merge(parts[i : i + 2]) for i in range(0, len(parts), 2)]
    return grouping.finished(dask.compute(parts[0])[0])


def transform(model: Model, X: Array | DataFrame) -> Array | DataFrame:
    """Project distributed rows, lazily, partition by partition.

    Parameters
    ----------
    model : fitted estimator of this package
    X : dask array or dataframe
        Of a dataframe the columns the model was fitted on are taken, by name where it knows them.

    Returns
    -------
    dask array of shape (m, n_components_), or dataframe with the components' names
        With the chunks or partitions of X.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from fairpca import FairPCA
    >>> from fairpca.distributed import dask
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> rows, labels = da.from_array(X, chunks=(20, 4)), np.array(["a", "b"] * 30)
    >>> model = FairPCA(2).fit(X, sensitive_features=labels)
    >>> scores = dask.transform(model, rows)
    >>> scores.chunks, np.allclose(scores.compute(), model.transform(X))
    (((20, 20, 20), (2,)), True)
    """
    if hasattr(X, "columns"):
        rows = X[list(getattr(model, "feature_names_in_", X.columns))]
        names = list(map(str, model.get_feature_names_out()))
        return rows.map_partitions(_project_frame, light(model), names)
    rows = _whole_rows(X)
    # An empty array tells Dask the result without computing a block.
    empty = np.empty((0, 0), np.float32 if X.dtype == np.float32 else np.float64)
    chunks = rows.chunks[0], (model.n_components_,)
    return rows.map_blocks(project, light(model), chunks=chunks, dtype=empty.dtype, meta=empty)


def _project_frame(frame: Any, model: Any, names: list[str]) -> Any:
    return type(frame)(project(frame, model), columns=names, index=frame.index)


def _whole_rows(X: Any) -> Any:
    """Return a Dask array of rows whose chunks hold whole rows."""
    if X.ndim != 2:
        raise ValueError(f"X has {X.ndim} dimension(s); pass rows and columns, shape (m, n).")
    return X.rechunk({1: -1}) if X.numblocks[1] > 1 else X


def _names_columns(columns: list[str], value: Any) -> bool:
    """Whether a value names columns; a list may also be the labels of all rows."""
    if isinstance(value, list):
        return bool(value) and all(isinstance(n, str) and n in columns for n in value)
    return isinstance(value, str)


def _pieces(collection: Any) -> list[Any]:
    return list(np.asarray(collection.to_delayed(), dtype=object).ravel())


def _cut(argument: str, values: Any, sizes: Sequence[float], starts: Sequence[int]) -> list[Any]:
    """Return what belongs to every piece of the rows, from a collection or from memory."""
    if is_dask(values):
        if hasattr(values, "chunks") and not np.isnan([*sizes, *values.chunks[0]]).any():
            values = values.rechunk((tuple(sizes), *values.shape[1:]))
        found = _pieces(values)
    else:
        if not isinstance(values, Groups):
            values = np.asarray(values)
            if len(values) != starts[-1]:
                raise ValueError(f"{argument} has {len(values)} rows but X has {starts[-1]}.")
        found = [values.take(np.arange(*ends)) for ends in itertools.pairwise(starts)]
    if len(found) != len(starts) - 1:
        raise ValueError(
            f"{argument} has {len(found)} partition(s) and X has {len(starts) - 1}; take both "
            "from one dataframe, or repartition one like the other."
        )
    return found
