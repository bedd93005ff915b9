"""A Dask collection with its labels and weights, cut into matching pieces."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from fairpca.arrays import FloatArray, is_dask
from fairpca.distributed.partial import Rules, feature_columns
from fairpca.extras import require
from fairpca.groups import Groups


@dataclass(frozen=True)
class Table:
    """The pieces of a distributed table, delayed.

    Attributes
    ----------
    rows, labels, weights : tuple
        One entry a piece.
    n_features : int
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

    def pieces(self) -> Iterator[tuple[Any, Any, Any]]:
        """Yield rows, labels and weights of every piece."""
        yield from zip(self.rows, self.labels, self.weights, strict=True)


def open_table(X: Any, sensitive_features: Any, sample_weight: Any, rules: Rules) -> Table:
    """Cut rows, labels and weights into matching delayed pieces.

    Nothing is computed, unless labels in memory have to be cut along chunks of unknown sizes.

    Parameters
    ----------
    X, sensitive_features, sample_weight
        As in `dask.moments`.
    rules : Rules
    """
    features: tuple[str, ...] | None = None
    if is_frame(X):
        names = _column_names(X, sensitive_features)
        weight_name = [sample_weight] if isinstance(sample_weight, str) else []
        chosen = frame_features(X, None, [*names, *weight_name])
        features = tuple(map(str, chosen))
        if names:
            sensitive_features = X[names]
        if weight_name:
            sample_weight = X[sample_weight]
        rows = X[chosen]
        n = len(chosen)
    else:
        rows = whole_rows(X)
        n = int(rows.shape[1])
    pieces = _pieces_of(rows)
    cut = _Cutter(rows, len(pieces))
    n_groups: int | None = 1 if sensitive_features is None else None
    labels = cut.like_rows("sensitive_features", sensitive_features)
    if labels is None:
        groups = Groups.from_labels(
            sensitive_features, group_by=rules.group_by, unlabelled=rules.unlabelled
        )
        n_groups = groups.n_groups + bool((groups.codes < 0).any())
        labels = cut.groups(groups)
    weights = cut.like_rows("sample_weight", sample_weight)
    if weights is None:
        weights = cut.array("sample_weight", np.asarray(sample_weight, dtype=float))
    return Table(pieces, labels, weights, n, features, n_groups)


def is_frame(X: Any) -> bool:
    """Whether a Dask collection has named columns."""
    return hasattr(X, "columns")


def whole_rows(X: Any) -> Any:
    """Return a Dask array of rows whose chunks hold whole rows."""
    if X.ndim != 2:
        raise ValueError(f"X has {X.ndim} dimension(s); pass rows and columns, shape (m, n).")
    if np.isnan(X.shape[1]):
        raise ValueError("X has an unknown number of columns; call X.compute_chunk_sizes() first.")
    return X.rechunk({1: -1}) if X.numblocks[1] > 1 else X


def frame_features(X: Any, features: Sequence[str] | None, taken: Sequence[str]) -> list[Any]:
    """Return the feature columns of a Dask dataframe."""
    types = require("pandas.api.types", extra="dask", purpose="a Dask dataframe")
    numeric = [types.is_numeric_dtype(dtype) for dtype in X.dtypes]
    return feature_columns(list(X.columns), numeric, features, taken)


def _column_names(X: Any, sensitive_features: Any) -> list[str]:
    """Return the label columns if they were given by name, else nothing."""
    if isinstance(sensitive_features, str):
        return [sensitive_features]
    if isinstance(sensitive_features, list | tuple) and 0 < len(sensitive_features) <= len(
        X.columns
    ):
        columns = set(X.columns)
        try:
            named = all(name in columns for name in sensitive_features)
        except TypeError:
            named = False
        return list(sensitive_features) if named else []
    return []


def _pieces_of(collection: Any) -> tuple[Any, ...]:
    return tuple(np.asarray(collection.to_delayed(), dtype=object).ravel())


class _Cutter:
    """Cuts whatever belongs to rows the way the rows are cut."""

    def __init__(self, rows: Any, n_pieces: int) -> None:
        self.rows, self.n_pieces = rows, n_pieces
        self._edges: list[int] | None = None

    def like_rows(self, argument: str, values: Any) -> tuple[Any, ...] | None:
        """Return pieces of None or of a collection; None for values in memory."""
        if values is None:
            return (None,) * self.n_pieces
        if not is_dask(values):
            return None
        if not is_frame(values) and hasattr(values, "chunks"):
            values = self._rechunked(values)
        pieces = _pieces_of(values)
        if len(pieces) != self.n_pieces:
            raise ValueError(
                f"{argument} has {len(pieces)} partition(s) and X has {self.n_pieces}; take both "
                "from one dataframe, or repartition one like the other."
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
