"""Rows in a Dask array or dataframe: moments by a tree on the cluster, lazy projections.

`open_table` cuts rows, labels and weights into matching delayed pieces. `moments` counts the
pieces on the workers and merges the results in a tree; `operators` passes over them once a
product.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from fairpca._checks import require
from fairpca._linalg import FloatArray, is_dask
from fairpca.distributed.parquet import open_parquet
from fairpca.distributed.pieces import (
    GroupingOptions,
    cell_labels,
    check_counted,
    choose_from_frame,
    groups_of,
    merge_moments,
    moments_of,
    named,
    project,
)
from fairpca.distributed.products import CellSums, PassOperators, piece_products, piece_sums
from fairpca.io.columns import Wanted
from fairpca.io.read_moments import Budget, count_batches
from fairpca.io.sources import Piece, Source
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.groups import Groups
from fairpca.moments.memory import check_moments_size

_PURPOSE = "computing on a Dask cluster"
# Products of pieces added by one task. They are small beside moments, so no limit is asked.
_FAN_IN_PRODUCTS = 8


@dataclass(frozen=True)
class Table:
    """The pieces of a distributed table, delayed.

    Attributes
    ----------
    rows, labels, weights : tuple
        One entry a piece; None where there are no labels or weights.
    n_features : int
        Number of columns.
    features : tuple of str or None
        Names of the columns; None for arrays.
    n_groups : int or None
        None until the labels are read.
    """

    rows: tuple[Any, ...]
    labels: tuple[Any, ...]
    weights: tuple[Any, ...]
    n_features: int
    features: tuple[str, ...] | None
    n_groups: int | None

    def pieces(self) -> Iterator[tuple[tuple[Any, Any, Any], str]]:
        """Yield rows, labels and weights of every piece, and what errors call it."""
        parts = zip(self.rows, self.labels, self.weights, strict=True)
        for i, part in enumerate(parts):
            yield part, f"partition {i}"


def open_table(
    X: Any, sensitive_features: Any, sample_weight: Any, options: GroupingOptions
) -> Table:
    """Cut rows, labels and weights into matching delayed pieces.

    Nothing is computed, unless labels in memory have to be cut along chunks of unknown sizes.

    Parameters
    ----------
    X, sensitive_features, sample_weight
        As in `moments`.
    options : GroupingOptions
        How labels in memory become groups.
    """
    features: tuple[str, ...] | None = None
    if _is_frame(X):
        names = _column_names(X, sensitive_features)
        weight = sample_weight if isinstance(sample_weight, str) else None
        wanted = _choose(X, names, None, weight)
        features = tuple(map(str, wanted.features))
        if names:
            sensitive_features = X[names]
        if weight is not None:
            sample_weight = X[weight]
        rows = X[list(wanted.features)]
        n = len(features)
    else:
        rows = _whole_rows(X)
        n = int(rows.shape[1])
    pieces = _pieces_of(rows)
    cut = _Cutter(rows, len(pieces))
    n_groups: int | None = 1 if sensitive_features is None else None
    labels = cut.like_rows("sensitive_features", sensitive_features)
    if labels is None:
        groups = Groups.from_labels(
            sensitive_features, group_by=options.group_by, unlabelled=options.unlabelled
        )
        n_groups = len(cell_labels(groups))
        labels = cut.groups(groups)
    weights = cut.like_rows("sample_weight", sample_weight)
    if weights is None:
        weights = cut.array("sample_weight", np.asarray(sample_weight, dtype=float))
    return Table(pieces, labels, weights, n, features, n_groups)


def _is_frame(X: Any) -> bool:
    return hasattr(X, "columns")


def _whole_rows(X: Any) -> Any:
    """Return a Dask array of rows whose chunks hold whole rows."""
    if X.ndim != 2:
        raise ValueError(f"X has {X.ndim} dimension(s); pass rows and columns, shape (m, n).")
    if np.isnan(X.shape[1]):
        raise ValueError("X has an unknown number of columns; call X.compute_chunk_sizes() first.")
    return X.rechunk({1: -1}) if X.numblocks[1] > 1 else X


def _choose(
    X: Any, labels: Sequence[str], features: Sequence[str] | None, weight: str | None = None
) -> Wanted:
    """Return the columns of a Dask dataframe that are needed."""
    types = require("pandas.api.types", extra="dask", purpose="a Dask dataframe")
    found = {name: (types.is_numeric_dtype(kind), str(kind)) for name, kind in X.dtypes.items()}
    return choose_from_frame(found, labels, features, weight)


def _column_names(X: Any, sensitive_features: Any) -> list[str]:
    """Return the label columns if they were given by name, else nothing."""
    if isinstance(sensitive_features, str):
        return [sensitive_features]
    if not isinstance(sensitive_features, list | tuple):
        return []
    # A list may also be the labels of all rows, even of objects that cannot be looked up.
    try:
        named_columns = 0 < len(sensitive_features) <= len(X.columns) and all(
            name in set(X.columns) for name in sensitive_features
        )
    except TypeError:
        return []
    return list(sensitive_features) if named_columns else []


def _pieces_of(collection: Any) -> tuple[Any, ...]:
    return tuple(np.asarray(collection.to_delayed(), dtype=object).ravel())


class _Cutter:
    """Cuts whatever belongs to rows the way the rows are cut.

    Parameters
    ----------
    rows : dask array or dataframe
        The rows.
    n_pieces : int
        Number of its row chunks or partitions.
    """

    def __init__(self, rows: Any, n_pieces: int) -> None:
        self.rows, self.n_pieces = rows, n_pieces
        self._edges: list[int] | None = None

    def like_rows(self, argument: str, values: Any) -> tuple[Any, ...] | None:
        """Return pieces of None or of a collection; None for values in memory."""
        if values is None:
            return (None,) * self.n_pieces
        if not is_dask(values):
            return None
        if not _is_frame(values) and hasattr(values, "chunks"):
            values = self._rechunked(values)
        pieces = _pieces_of(values)
        if len(pieces) != self.n_pieces:
            raise ValueError(
                f"{argument} has {len(pieces)} partition(s) and X has {self.n_pieces}; take both "
                "from one dataframe, or repartition one like the other."
            )
        mine, theirs = (getattr(each, "divisions", (None,)) for each in (self.rows, values))
        # Unknown divisions are None; then the workers compare the index of every piece.
        if None not in (*mine, *theirs) and mine != theirs:
            raise ValueError(
                f"{argument} has other divisions than X, so that rows would get the values of "
                "others; take both from one dataframe, or align them first."
            )
        return pieces

    def _rechunked(self, values: Any) -> Any:
        """Return a Dask array with one chunk per piece of the rows."""
        wanted: dict[int, Any] = {1: -1} if values.ndim == 2 else {}
        mine = getattr(self.rows, "chunks", ((np.nan,),))[0]
        if not (np.isnan(values.chunks[0]).any() or np.isnan(mine).any()):
            if sum(mine) != sum(values.chunks[0]):
                raise ValueError(
                    f"sensitive_features or sample_weight has {sum(values.chunks[0])} rows but X "
                    f"has {sum(mine)}; pass one per row."
                )
            wanted[0] = mine
        return values.rechunk(wanted) if wanted else values

    def edges(self) -> list[int]:
        """Return where pieces start and end; computes lengths that are unknown."""
        if self._edges is None:
            chunks = getattr(self.rows, "chunks", ((np.nan,),))[0]
            if np.isnan(chunks).any():
                dask = require("dask", extra="dask", purpose="a Dask collection")
                chunks = dask.compute(*(dask.delayed(len)(p) for p in _pieces_of(self.rows)))
            self._edges = [0, *np.cumsum(chunks).tolist()]
        return self._edges

    def groups(self, groups: Groups) -> tuple[Groups, ...]:
        """Return the groups of every piece; all of them know all labels."""
        # Codes travel with the graph: the fewer bytes the better.
        small = np.int16 if groups.n_groups < 2**15 else np.int32
        codes = self.array("sensitive_features", groups.codes.astype(small))
        return tuple(groups.with_codes(part) for part in codes)

    def array(self, argument: str, values: FloatArray) -> tuple[Any, ...]:
        """Return the part of every piece."""
        edges = self.edges()
        if values.shape != (edges[-1],):
            raise ValueError(
                f"{argument} has shape {values.shape} but X has {edges[-1]} rows; pass one value "
                "per row."
            )
        return tuple(values[a:b] for a, b in pairwise(edges))


def moments(
    X: Any,
    sensitive_features: Any = None,
    *,
    sample_weight: Any = None,
    group_by: str = "intersection",
    unlabelled: str = "error",
    memory_limit: int | None = None,
) -> GroupMoments:
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
    memory_limit : int, optional
        Bytes that moments may take in one process; a quarter of this machine's memory by default.

    Returns
    -------
    GroupMoments

    Raises
    ------
    MemoryError
        Before any row is read where the moments of one group exceed the limit; before any row
        is counted where those of all groups do.
    """
    options = GroupingOptions.of(group_by, unlabelled, memory_limit)
    return count(open_table(X, sensitive_features, sample_weight, options), options)


def count(table: Table, options: GroupingOptions) -> GroupMoments:
    """Count the moments of an opened table; see `moments`."""
    dask = require("dask", extra="dask", purpose=_PURPOSE)
    n, k = table.n_features, table.n_groups
    check_moments_size(n, k or 1, options.limit)
    if k is None and options.must_count_groups(n):
        labels_of = dask.delayed(_piece_labels)
        k = _n_cells(labels_of(piece[1], options, where) for piece, where in table.pieces())
    count_piece = dask.delayed(moments_of, pure=False)
    parts = [count_piece(*piece, options, where) for piece, where in table.pieces()]
    return _merged(parts, n, k or 1, options)


def operators(
    X: Any,
    sensitive_features: Any = None,
    *,
    sample_weight: Any = None,
    group_by: str = "intersection",
    unlabelled: str = "error",
) -> PassOperators:
    """Return products with the groups' covariances, one pass over the collection each.

    For `FairPCA.fit_operators`, where ``k n^2`` numbers would not fit. Every pass computes X
    again from its source; ``X.persist()`` first if the cluster's memory holds it.

    Parameters
    ----------
    X, sensitive_features, sample_weight, group_by, unlabelled
        As in `moments`.
    """
    options = GroupingOptions.of(group_by, unlabelled, None)
    return iterate(open_table(X, sensitive_features, sample_weight, options), options)


def iterate(table: Table, options: GroupingOptions) -> PassOperators:
    """Return the products of an opened table; see `operators`."""
    dask = require("dask", extra="dask", purpose=_PURPOSE)
    sum_piece, multiply, add = (
        dask.delayed(f, pure=False) for f in (piece_sums, piece_products, _add)
    )

    def sums() -> list[CellSums]:
        parts = [sum_piece(*piece, options, where) for piece, where in table.pieces()]
        return list(dask.compute(*parts))

    def products(facts: CellSums, columns: FloatArray) -> FloatArray:
        shared, block = _sent(facts), _sent(columns)
        parts = [multiply(*piece, shared, block, options) for piece, _ in table.pieces()]
        return np.asarray(_tree(parts, add, _FAN_IN_PRODUCTS).compute())

    return PassOperators(sums, products)


def moments_or_products(table: Table, options: GroupingOptions) -> GroupMoments | PassOperators:
    """Return the moments of an opened table, or products with it where they do not fit."""
    try:
        return count(table, options)
    except MemoryError:
        return iterate(table, options)


def read_moments(
    paths: Sequence[Path],
    *,
    sensitive_features: Sequence[str],
    features: Sequence[str] | None,
    sample_weight: str | None,
    unlabelled: str,
    scheduler: str | None,
    memory_limit: int | None,
) -> GroupMoments:
    """Count the moments of Parquet files on a Dask cluster.

    Parameters
    ----------
    paths : sequence of path
        Files, or directories of them, that every worker can read.
    sensitive_features, features, sample_weight
        Names of columns; features None takes all others.
    unlabelled : {"error", "ignore"}
    scheduler : str, optional
        Address of a running scheduler, such as ``tcp://host:8786``; None computes with the
        current client, or in threads of this process.
    memory_limit : int, optional
        As in `moments`.
    """
    dask = require("dask", extra="dask", purpose=_PURPOSE)
    options = GroupingOptions.of("intersection", unlabelled, memory_limit)
    source = open_parquet(
        paths,
        sensitive_features=sensitive_features,
        features=features,
        sample_weight=sample_weight,
        unlabelled=unlabelled,
    )
    n, k = source.n_features, 1
    check_moments_size(n, k, options.limit)
    budget, pieces = Budget(n, options.limit, 1), list(source.pieces())
    with _connected(scheduler):
        # Sent whole: Dask would look for collections in every field of every file.
        shared = dask.delayed(source, traverse=False)
        if sensitive_features and options.must_count_groups(n):
            k = _n_cells(dask.delayed(_file_labels)(shared, piece) for piece in pieces)
        count_piece = dask.delayed(_file_moments, pure=False)
        parts = [count_piece(shared, piece, budget) for piece in pieces]
        return _merged(parts, n, k, options)


def transform(model: Any, X: Any) -> Any:
    """Project distributed rows, lazily, partition by partition.

    Parameters
    ----------
    model : fitted estimator of this package
        Only its mean and components travel to the workers.
    X : dask array or dataframe
        Of a dataframe the columns the model was fitted on are taken, by name where it knows them.

    Returns
    -------
    dask array of shape (m, n_components_), or dataframe with the components' names
        With the chunks or partitions of X.
    """
    mean, components = model.mean_, model.components_
    if not _is_frame(X):
        X = _whole_rows(X)
        _check_width(X.shape[1], len(mean))
        dtype = np.dtype(np.float32 if X.dtype == np.float32 else np.float64)
        return X.map_blocks(
            project,
            mean,
            components,
            dtype=dtype,
            chunks=(X.chunks[0], (len(components),)),
            meta=np.empty((0, 0), dtype=dtype),
        )
    pandas = require("pandas", extra="dask", purpose=_PURPOSE)
    names = [str(name) for name in model.get_feature_names_out()]
    known = getattr(model, "feature_names_in_", None)
    chosen = list(_choose(X, (), None if known is None else list(known)).features)
    _check_width(len(chosen), len(mean))
    meta = pandas.DataFrame({name: np.empty(0) for name in names}, index=X._meta.index[:0])
    return X[chosen].map_partitions(_project_frame, mean, components, names, meta=meta)


def _check_width(got: int, wanted: int) -> None:
    if got != wanted:
        raise ValueError(
            f"X has {got} features and the model was fitted on {wanted}; pass the same columns."
        )


def _project_frame(frame: Any, mean: FloatArray, components: FloatArray, names: list[str]) -> Any:
    return type(frame)(project(frame, mean, components), columns=names, index=frame.index)


def _file_moments(source: Source, piece: Piece, budget: Budget) -> GroupMoments | None:
    return count_batches(source.batches(piece), budget)


def _file_labels(source: Source, piece: Piece) -> set[Any]:
    """Return the distinct labels of a piece of a file, reading its label columns only."""
    only = replace(source, wanted=replace(source.wanted, features=(), weight=None))
    return set().union(*(cell_labels(batch.groups) for batch in only.batches(piece)))


def _piece_labels(labels: Any, options: GroupingOptions, where: str) -> set[Any]:
    """Return the distinct labels of a piece of a collection."""
    with named(where):
        return cell_labels(groups_of(labels, len(labels), options))


def _n_cells(found: Iterable[Any]) -> int:
    dask = require("dask", extra="dask", purpose=_PURPOSE)
    return len(set().union(*dask.compute(*found)))


def _merged(parts: list[Any], n: int, k: int, options: GroupingOptions) -> GroupMoments:
    """Return the moments of all pieces, merged on the cluster."""
    dask = require("dask", extra="dask", purpose=_PURPOSE)
    merge = dask.delayed(merge_moments, pure=False)
    width = options.fan_in(n, k)
    tree = _tree(parts, lambda some: merge(some, options), width) if parts else None
    return check_counted(None if tree is None else tree.compute())


def _tree(parts: list[Any], merge: Callable[[list[Any]], Any], fan_in: int) -> Any:
    """Merge neighbours, level by level: the order never depends on who finishes first."""
    while len(parts) > 1:
        parts = [merge(parts[i : i + fan_in]) for i in range(0, len(parts), fan_in)]
    return parts[0]


def _add(parts: list[FloatArray]) -> FloatArray:
    total = parts[0].copy()
    for part in parts[1:]:
        total += part
    return total


def _sent(value: Any) -> Any:
    """Put a value where all workers reach it, once."""
    dask = require("dask", extra="dask", purpose=_PURPOSE)
    if "distributed" in sys.modules:
        # A large block inside the graph would pass through the scheduler.
        with contextlib.suppress(ValueError):
            return sys.modules["distributed"].get_client().scatter(value, broadcast=True)
    return dask.delayed(value, traverse=False)


@contextlib.contextmanager
def _connected(scheduler: str | None) -> Iterator[None]:
    if scheduler is None:
        yield
        return
    distributed = require("distributed", extra="dask", purpose=_PURPOSE)
    with distributed.Client(scheduler):
        yield
