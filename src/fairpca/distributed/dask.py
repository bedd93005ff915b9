"""Rows in a Dask array or dataframe: moments by a tree on the cluster, lazy projections.

`open_table` cuts rows, labels and weights into matching delayed pieces. `moments` counts the
pieces on the workers and merges the results in a tree; `operators` passes over them once a
product.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from pathlib import Path
from typing import Any

import numpy as np

from fairpca._check import listed, require
from fairpca._arrays import FloatArray, is_dask
from fairpca.distributed import pieces
from fairpca.distributed.parquet import open_parquet
from fairpca.distributed.pieces import CellSums, GroupingOptions, PassOperators
from fairpca.io.columns import Wanted
from fairpca.io.read_moments import count_batches
from fairpca.io.sources import Piece, Source
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.groups import Groups
from fairpca.moments.memory import check_moments_size

__all__ = ["moments", "operators", "read_moments", "transform"]

_require = partial(require, extra="dask", purpose="computing on a Dask cluster")


@dataclass(frozen=True)
class Table:
    """The pieces of a distributed table: delayed rows, labels and weights, None for none.

    `features` are the names of columns, None for arrays; `n_groups` is None until the labels are
    read.
    """

    pieces: tuple[tuple[Any, Any, Any], ...]
    n_features: int
    features: tuple[str, ...] | None
    n_groups: int | None


def open_table(
    X: Any, sensitive_features: Any, sample_weight: Any, options: GroupingOptions
) -> Table:
    """Cut rows, labels and weights, as in `moments`, into matching delayed pieces.

    The options say how labels in memory become groups. Nothing is computed, unless such labels
    have to be cut along chunks of unknown sizes.
    """
    features: tuple[str, ...] | None = None
    if hasattr(X, "columns"):
        names = _column_names(X, sensitive_features)
        weight = sample_weight if isinstance(sample_weight, str) else None
        # Labels and weights in columns of X are no features; those given beside X are no columns.
        wanted = _choose(X, names, weight=weight)
        features = tuple(map(str, wanted.features))
        sensitive_features = X[wanted.plain_labels] if names else sensitive_features
        sample_weight = sample_weight if weight is None else X[wanted.weight]
        rows = X[list(wanted.features)]
    else:
        rows = _whole_rows(X)
    cut = _Cutter(rows)
    n_groups: int | None = 1 if sensitive_features is None else None
    labels = cut.like_rows("sensitive_features", sensitive_features)
    if labels is None:
        groups = Groups.from_labels(
            sensitive_features, group_by=options.group_by, unlabelled=options.unlabelled
        )
        n_groups = len(pieces.cell_labels(groups))
        # Codes travel with the graph: the fewer bytes the better.
        small = groups.codes.astype(np.int16 if groups.n_groups < 2**15 else np.int32)
        parts = cut.array("sensitive_features", small)
        labels = tuple(groups.with_codes(part) for part in parts)
    weights = cut.like_rows("sample_weight", sample_weight)
    if weights is None:
        weights = cut.array("sample_weight", np.asarray(sample_weight, dtype=float))
    n = int(rows.shape[1]) if features is None else len(features)
    return Table(tuple(zip(cut.pieces, labels, weights, strict=True)), n, features, n_groups)


def _whole_rows(X: Any) -> Any:
    """Return a Dask array of rows whose chunks hold whole rows."""
    if X.ndim != 2:
        raise ValueError(f"X has {X.ndim} dimension(s); pass rows and columns, shape (m, n).")
    if np.isnan(X.shape[1]):
        raise ValueError("X has an unknown number of columns; call X.compute_chunk_sizes() first.")
    return X.rechunk({1: -1}) if X.numblocks[1] > 1 else X


def _choose(X: Any, labels: Sequence[str], **options: Any) -> Wanted:
    """Return the columns of a Dask dataframe that are needed; options as in `choose`."""
    types = _require("pandas.api.types")
    found = {
        name: (types.is_numeric_dtype(kind) and not types.is_complex_dtype(kind), str(kind))
        for name, kind in X.dtypes.items()
    }
    return pieces.choose_from_frame(found, labels, **options)


def _column_names(X: Any, sensitive_features: Any) -> list[str]:
    """Return the label columns if they were given by name, else nothing."""
    if isinstance(sensitive_features, str):
        return [sensitive_features]
    # A list may also be the labels of all rows, even of objects that cannot be looked up.
    is_list = isinstance(sensitive_features, list | tuple)
    if not is_list or not 0 < len(sensitive_features) <= len(X.columns):
        return []
    known = all(isinstance(n, str | int) and n in X.columns for n in sensitive_features)
    return list(sensitive_features) if known else []


def _pieces_of(collection: Any) -> tuple[Any, ...]:
    return tuple(np.asarray(collection.to_delayed(), dtype=object).ravel())


class _Cutter:
    """Cuts whatever belongs to rows (a Dask array or dataframe) the way the rows are cut."""

    def __init__(self, rows: Any) -> None:
        self.rows, self.pieces = rows, _pieces_of(rows)
        # Sizes of the chunks; those of a dataframe and of some arrays are not known.
        self.sizes: Any = getattr(rows, "chunks", ((np.nan,),))[0]

    def like_rows(self, argument: str, values: Any) -> tuple[Any, ...] | None:
        """Return pieces of None or of a collection; None for values in memory."""
        if values is None:
            return (None,) * len(self.pieces)
        if not is_dask(values):
            return None
        if hasattr(values, "chunks") and not hasattr(values, "columns"):
            values = self._rechunked(values)
        found = _pieces_of(values)
        if len(found) != len(self.pieces):
            raise ValueError(
                f"{argument} has {len(found)} partition(s) and X has {len(self.pieces)}; take "
                "both from one dataframe, or repartition one like the other."
            )
        mine, theirs = (getattr(each, "divisions", (None,)) for each in (self.rows, values))
        # Unknown divisions are None; then the workers compare the index of every piece.
        if None not in (*mine, *theirs) and mine != theirs:
            raise ValueError(
                f"{argument} has other divisions than X, so that rows would get the values of "
                "others; take both from one dataframe, or align them first."
            )
        return found

    def _rechunked(self, values: Any) -> Any:
        """Return a Dask array with one chunk per piece of the rows."""
        wanted: dict[int, Any] = {1: -1} if values.ndim == 2 else {}
        if not (np.isnan(values.chunks[0]).any() or np.isnan(self.sizes).any()):
            if sum(self.sizes) != sum(values.chunks[0]):
                raise ValueError(
                    f"sensitive_features or sample_weight has {sum(values.chunks[0])} rows but X "
                    f"has {sum(self.sizes)}; pass one per row."
                )
            wanted[0] = self.sizes
        return values.rechunk(wanted) if wanted else values

    def array(self, argument: str, values: Any) -> tuple[Any, ...]:
        """Return the part of every piece; computes the sizes of pieces that are unknown."""
        if np.isnan(self.sizes).any():
            dask = _require("dask")
            self.sizes = dask.compute(*(dask.delayed(len)(piece) for piece in self.pieces))
        m = sum(self.sizes)
        if values.shape != (m,):
            raise ValueError(
                f"{argument} has shape {values.shape} but X has {m} rows; pass one value per row."
            )
        return tuple(np.split(values, np.cumsum(self.sizes)[:-1]))


def moments(
    X: Any,
    sensitive_features: Any = None,
    *,
    sample_weight: Any = None,
    group_by: str = "intersection",
    unlabelled: str = "error",
    memory_limit: int | None = None,
    n_folds: int | None = None,
) -> Any:
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
    n_folds : int, optional
        Count the rows of every fold apart, in the same pass. The fold of a row depends on the
        number of its partition and its position there, as in `fairpca.moments.groups.row_folds`;
        other partitions give other folds.

    Returns
    -------
    GroupMoments, or a list of `n_folds` of them for `fairpca.cross_fit`

    Raises
    ------
    MemoryError
        Before any row is read where the moments of one group exceed the limit; before any row
        is counted where those of all groups do.

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
    options = GroupingOptions.of(group_by, unlabelled, memory_limit, n_folds)
    return count_table(open_table(X, sensitive_features, sample_weight, options), options)


def count_table(table: Table, options: GroupingOptions) -> Any:
    """Count the moments of an opened table; see `moments`."""
    dask = _require("dask")
    # Not pure: Dask would hash all rows in memory to find a task that it has done before.
    labels_of, count = dask.delayed(_piece_labels), dask.delayed(pieces.moments_of, pure=False)
    labels = (labels_of(piece[1], options, part) for part, piece in enumerate(table.pieces))
    parts = (count(*piece, options, part) for part, piece in enumerate(table.pieces))
    return _merged(parts, labels, table.n_features, table.n_groups, options)


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

    Returns
    -------
    PassOperators
        For `FairPCA.fit_operators`.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from fairpca import FairPCA
    >>> from fairpca.distributed import dask
    >>> X = np.random.default_rng(0).normal(size=(60, 4))
    >>> rows, labels = da.from_array(X, chunks=(20, 4)), np.array(["a", "b"] * 30)
    >>> FairPCA(2).fit_operators(dask.operators(rows, labels)).groups_
    ['a', 'b']
    """
    options = GroupingOptions.of(group_by, unlabelled, None)
    return iterate_table(open_table(X, sensitive_features, sample_weight, options), options)


def iterate_table(table: Table, options: GroupingOptions) -> PassOperators:
    """Return the products of an opened table; see `operators`."""
    dask = _require("dask")
    sum_piece = dask.delayed(pieces.piece_sums, pure=False)
    multiply = dask.delayed(pieces.piece_products, pure=False)
    add = dask.delayed(partial(reduce, np.add), pure=False)

    def sums() -> list[CellSums]:
        parts = [sum_piece(*p, options, f"partition {i}") for i, p in enumerate(table.pieces)]
        return list(dask.compute(*parts))

    def products(facts: CellSums, columns: FloatArray) -> FloatArray:
        shared, block = _sent(facts), _sent(columns)
        parts = [multiply(*piece, shared, block, options) for piece in table.pieces]
        return np.asarray(_tree(parts, add).compute())

    return PassOperators(sums, products, table.features)


def read_moments(
    paths: Sequence[Path],
    *,
    sensitive_features: Sequence[str],
    features: Sequence[str] | None = None,
    sample_weight: str | None = None,
    unlabelled: str = "error",
    scheduler: str | None = None,
    memory_limit: int | None = None,
    n_folds: int | None = None,
) -> Any:
    """Count the moments of Parquet files on a Dask cluster.

    Parameters
    ----------
    paths : sequence of path
        Files, or directories of them, that every worker can read.
    sensitive_features, features, sample_weight
        Names of columns; features None takes all others.
    unlabelled : {"error", "ignore"}
    scheduler : str, optional
        Address of a running scheduler, such as ``tcp://host:8786``; None computes with the current
        client, or in threads of this process.
    memory_limit : int, optional
        As in `moments`.
    n_folds : int, optional
        As in `fairpca.io.read_moments`, with the same folds: files know the number of every row.

    Returns
    -------
    GroupMoments, or a list of `n_folds` of them for `fairpca.cross_fit`

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np, pyarrow as pa, pyarrow.parquet as pq
    >>> from fairpca.distributed import dask
    >>> table = pa.table({"x": np.arange(6.0), "y": np.ones(6), "sex": ["f", "m"] * 3})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pq.write_table(table, f"{folder}/people.parquet")
    ...     found = dask.read_moments([folder], sensitive_features=["sex"])
    >>> found.labels, found.mean[:, 0].tolist()
    (('f', 'm'), [2.0, 3.0])
    """
    dask = _require("dask")
    options = GroupingOptions.of("intersection", unlabelled, memory_limit, n_folds)
    columns = {"sensitive_features": sensitive_features, "sample_weight": sample_weight}
    rules = {"unlabelled": unlabelled, "n_folds": n_folds}
    source = open_parquet(paths, features=features, **columns, **rules)
    connected: Any = contextlib.nullcontext()
    if scheduler is not None:
        connected = _require("distributed").Client(scheduler)
    with connected:
        # Sent whole: Dask would look for collections in every field of every file.
        shared = dask.delayed(source, traverse=False)
        labels_of, count = dask.delayed(_file_labels), dask.delayed(_file_moments, pure=False)
        labels = (labels_of(shared, piece) for piece in source.pieces())
        parts = (count(shared, piece, options.limit) for piece in source.pieces())
        n_groups = None if sensitive_features else 1
        return _merged(parts, labels, source.n_features, n_groups, options)


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
    mean, components = model.mean_, model._scoring_rows
    is_frame = hasattr(X, "columns")
    if is_frame:
        known = getattr(model, "feature_names_in_", None)
        # A name is no pattern of others here.
        lacking = [name for name in (() if known is None else known) if name not in X.columns]
        if lacking:
            raise ValueError(
                f"X lacks the column(s) {listed(lacking)} that the model was fitted to; it has "
                f"{listed(list(X.columns), 12)}."
            )
        rows = X[list(_choose(X, (), features=known).features)]
    else:
        rows = _whole_rows(X)
    if rows.shape[1] != len(mean):
        raise ValueError(
            f"X has {rows.shape[1]} features and the model was fitted on {len(mean)}; pass the "
            "same columns."
        )
    if is_frame:
        names = [str(name) for name in model.get_feature_names_out()]
        frame = _require("pandas").DataFrame
        # An empty frame tells Dask the result without computing a partition.
        meta = frame({name: np.empty(0) for name in names}, index=X._meta.index[:0])
        return rows.map_partitions(_project_frame, mean, components, names, meta=meta)
    dtype = np.dtype(np.float32 if X.dtype == np.float32 else np.float64)
    chunks, meta = (rows.chunks[0], (len(components),)), np.empty((0, 0), dtype=dtype)
    return rows.map_blocks(pieces.project, mean, components, dtype=dtype, chunks=chunks, meta=meta)


def _project_frame(frame: Any, mean: FloatArray, components: FloatArray, names: list[str]) -> Any:
    return type(frame)(pieces.project(frame, mean, components), columns=names, index=frame.index)


def _file_moments(source: Source, piece: Piece, limit: int) -> GroupMoments | None:
    return count_batches(source.batches(piece), limit)


def _file_labels(source: Source, piece: Piece) -> set[Any]:
    """Return the distinct labels of a piece of a file, reading its label columns only."""
    only = replace(source, wanted=replace(source.wanted, features=(), weight=None))
    return set().union(*(pieces.cell_labels(batch.groups) for batch in only.batches(piece)))


def _piece_labels(labels: Any, options: GroupingOptions, part: int) -> set[Any]:
    """Return the distinct labels of a piece of a collection."""
    with pieces.named(f"partition {part}"):
        return pieces.cell_labels(pieces.groups_of(labels, len(labels), options, part))


def _merged(
    parts: Iterable[Any],
    labels: Iterable[Any],
    n_features: int,
    n_groups: int | None,
    options: GroupingOptions,
) -> Any:
    """Return the moments of all pieces, merged on the cluster, fold by fold.

    `parts` and `labels` are the delayed moments and label sets of the pieces. The labels are
    computed, before any row is counted, only where their number is not known and could matter.
    """
    dask = _require("dask")
    cells = (n_groups or 1) * (options.n_folds or 1)
    check_moments_size(n_features, cells, options.limit)
    if n_groups is None and options.must_count_groups(n_features):
        cells = len(set().union(*dask.compute(*labels)))
    # Two that are merged, and their sum, are in one worker's memory at the same time.
    check_moments_size(n_features, cells, options.limit, copies=3)
    merge = dask.delayed(pieces.merge_moments, pure=False)
    # Files without rows have no pieces, and None stands for the moments of no rows.
    tree = _tree([*parts] or [None], lambda pair: merge(pair, options))
    return pieces.check_counted(dask.compute(tree)[0], options.n_folds)


def _tree(parts: list[Any], merge: Callable[[list[Any]], Any]) -> Any:
    """Merge neighbours, level by level: the order never depends on who finishes first."""
    while len(parts) > 1:
        parts = [merge(parts[i : i + 2]) for i in range(0, len(parts), 2)]
    return parts[0]


def _sent(value: Any) -> Any:
    """Put a value where all workers reach it, once."""
    if "distributed" in sys.modules:
        # A large block inside the graph would pass through the scheduler.
        with contextlib.suppress(ValueError):
            return sys.modules["distributed"].get_client().scatter(value, broadcast=True)
    return _require("dask").delayed(value, traverse=False)
