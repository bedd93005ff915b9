"""Parquet files on the workers of a cluster, or one pass after the other on this machine.

Files are found, checked and read by `fairpca.io`; a worker reads the pieces of an opened source.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from fairpca.distributed.pieces import PassOperators
from fairpca.io.sources import Batch, Source, find_files, open_source

__all__ = ["operators"]


def open_parquet(paths: Sequence[str | Path], **options: Any) -> Source:
    """Open Parquet files, reading only their footers.

    Pieces of the source can be read anywhere that reaches the files. The options are those of
    `fairpca.io.sources.open_source`. ValueError naming the file that is no Parquet file, is
    damaged, or lacks a column.
    """
    files, kind = find_files(paths)
    if kind != "parquet":
        raise ValueError(
            f"{files[0].path} is no Parquet file; a cluster reads Parquet only. Write the table "
            "as Parquet, or read it with fairpca.io.read_moments."
        )
    return open_source(paths, **options)


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
    columns = {"sensitive_features": sensitive_features, "sample_weight": sample_weight}
    rules = {"group_by": group_by, "unlabelled": unlabelled}
    source = open_parquet(paths, features=features, **columns, **rules)

    def batches() -> Iterator[Batch]:
        for piece in source.pieces():
            # A pass over other rows than the first would answer another question.
            source.files[piece.file].check_unchanged()
            yield from source.batches(piece)

    try:
        return PassOperators.over(
            lambda: ((b.matrix(), b.groups, b.weight, b.where) for b in batches()),
            source.wanted.features,
        )
    except ValueError:
        # A NaN shows in the sums of the first pass; a batch knows its row and column.
        for batch in batches():
            batch.check_finite()
        raise
