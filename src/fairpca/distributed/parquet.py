"""Parquet files on the workers of a cluster, or one pass after the other on this machine.

Files are found, checked and read by `fairpca.io`; a worker reads the pieces of an opened source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np

from fairpca._linalg import FloatArray
from fairpca.distributed.pieces import GroupingOptions
from fairpca.distributed.products import CellSums, PassOperators, piece_products, piece_sums
from fairpca.io.files import find_files
from fairpca.io.open_source import open_source
from fairpca.io.sources import Batch, Source

# Batches carry groups already, so no option about labels applies to them any more.
_AS_READ = GroupingOptions()


def open_parquet(
    paths: Sequence[str | Path],
    *,
    sensitive_features: Sequence[str] = (),
    features: Sequence[str] | None = None,
    sample_weight: str | None = None,
    group_by: str = "intersection",
    unlabelled: str = "error",
) -> Source:
    """Open Parquet files, reading only their footers.

    Parameters
    ----------
    paths : sequence of path
        Files, or directories of them.
    sensitive_features, features, sample_weight, group_by, unlabelled
        As in `operators`.

    Returns
    -------
    Source
        Its pieces can be read anywhere that reaches the files.

    Raises
    ------
    ValueError
        Naming the file that is no Parquet file, is damaged, or lacks a column.
    """
    files, kind = find_files(paths)
    if kind != "parquet":
        raise ValueError(
            f"{files[0].path} is no Parquet file; a cluster reads Parquet only. Write the table "
            "as Parquet, or read it with fairpca.io.read_moments."
        )
    return open_source(
        paths,
        sensitive_features=list(sensitive_features),
        features=None if features is None else list(features),
        sample_weight=sample_weight,
        group_by=group_by,
        unlabelled=unlabelled,
    )


def operators(
    paths: Sequence[str | Path],
    *,
    sensitive_features: Sequence[str] = (),
    features: Sequence[str] | None = None,
    sample_weight: str | None = None,
    group_by: str = "intersection",
    unlabelled: str = "error",
) -> PassOperators:
    """Return products with the groups' covariances, one pass over the files each.

    For `FairPCA.fit_operators`, where ``k n^2`` numbers would not fit in memory.

    Parameters
    ----------
    paths : sequence of path
        Parquet files, or directories of them. Names that start with "." or "_" are left out.
    sensitive_features : sequence of str, default=()
        Label columns; none puts all rows in one group.
    features : sequence of str, optional
        Feature columns, by default all that are neither labels nor weights.
    sample_weight : str, optional
        Column of weights; by default every row counts once.
    group_by : {"intersection", "marginal"}, default="intersection"
        As in `FairPCA`.
    unlabelled : {"error", "ignore"}, default="error"
        As in `FairPCA`.

    Returns
    -------
    PassOperators
        The first pass, over counts and means, is already done.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import numpy as np, pyarrow as pa, pyarrow.parquet as pq
    >>> from fairpca import FairPCA
    >>> from fairpca.distributed import parquet
    >>> rng = np.random.default_rng(0)
    >>> columns = {f"x{j}": rng.normal(size=60) for j in range(4)}
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pq.write_table(pa.table({**columns, "g": ["a", "b"] * 30}), Path(folder, "t.parquet"))
    ...     cells = parquet.operators([folder], sensitive_features=["g"])
    ...     model = FairPCA(2).fit_operators(cells)
    >>> model.groups_, cells.n_features
    (['a', 'b'], 4)
    """
    source = open_parquet(
        paths,
        sensitive_features=sensitive_features,
        features=features,
        sample_weight=sample_weight,
        group_by=group_by,
        unlabelled=unlabelled,
    )

    def sums() -> list[CellSums]:
        found = [_batch_sums(batch) for batch in _batches(source)]
        if not found:
            raise ValueError("X has no rows; check the files it is read from.")
        return [reduce(CellSums.merge, found)]

    def products(facts: CellSums, matrix: FloatArray) -> FloatArray:
        total = np.zeros((len(facts.labels), *matrix.shape))
        for batch in _batches(source):
            piece_products(*_parts(batch), facts, matrix, _AS_READ, out=total)
        return total

    return PassOperators(sums, products)


def _batches(source: Source) -> Iterator[Batch]:
    for piece in source.pieces():
        source.files[piece.file].check_unchanged()
        yield from source.batches(piece)


def _parts(batch: Batch) -> tuple[Any, Any, Any]:
    return batch.matrix(), batch.groups, batch.weight


def _batch_sums(batch: Batch) -> CellSums:
    """Return the sums of a batch; ValueError naming row and column of a NaN."""
    try:
        return piece_sums(*_parts(batch), _AS_READ, batch.where)
    except ValueError:
        batch.check_finite()
        raise
