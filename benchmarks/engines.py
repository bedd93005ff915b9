"""The same Parquet files in memory, on Dask and on Spark: rows per second and the same answer."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fairpca import FairPCA, GroupMoments
from fairpca.distributed import dask as on_dask
from fairpca.distributed import spark as on_spark
from fairpca.distributed.parquet import find_pieces, read_piece
from fairpca.distributed.partial import Rules, merge_moments, moments_of

_FEATURES, _CHUNK, _COMPONENTS = 50, 500_000, 5


def write_files(folder: Path, rows: int, seed: int = 0) -> None:
    """Write seeded rows of two groups, one file a chunk."""
    turns = np.random.default_rng(seed)
    spectrum = 1 / np.sqrt(np.arange(1, _FEATURES + 1))
    mixing = [
        spectrum[:, None] * np.linalg.qr(turns.normal(size=(_FEATURES, _FEATURES)))[0]
        for _ in range(2)
    ]
    for i, start in enumerate(range(0, rows, _CHUNK)):
        rng = np.random.default_rng((seed, i))
        m = min(_CHUNK, rows - start)
        codes = (rng.random(m) < 0.2).astype(int)
        X = rng.standard_normal((m, _FEATURES))
        for g in range(2):
            X[codes == g] = X[codes == g] @ mixing[g] + g
        columns = {f"x{j}": X[:, j] for j in range(_FEATURES)}
        columns["group"] = np.array(["a", "b"])[codes]
        pq.write_table(pa.table(columns), folder / f"{i:04d}.parquet", row_group_size=125_000)


def in_memory(folder: Path) -> GroupMoments:
    """Count the files one after the other in this process."""
    rules = Rules.of("intersection", "error", None)
    pieces, columns = find_pieces([folder], sensitive_features=["group"])
    parts = (moments_of(*read_piece(piece, columns), rules, str(piece)) for piece in pieces)
    return merge_moments(parts, rules)


def run(rows: int) -> str:
    """Return a table of engines: rows per second, projector difference, difference of scatter."""
    options: dict[str, Any] = dict(
        sensitive_features=["group"],
        features=None,
        sample_weight=None,
        unlabelled="error",
        memory_limit=None,
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder, rows)
        size = sum(file.stat().st_size for file in folder.iterdir())
        lines = [
            f"{rows:,} x {_FEATURES}, {size / 1e9:.2f} GB of Parquet",
            "",
            "| engine | seconds | rows/s | projector difference | scatter difference |",
            "|---|---|---|---|---|",
        ]
        seconds, whole = _timed(lambda: in_memory(folder))
        lines.append(f"| in memory, one process | {seconds:.1f} | {rows / seconds:,.0f} | | |")
        for engine, count in (("Dask, 2 processes", _dask), ("Spark local[2]", _spark)):
            seconds, found = count(folder, options)
            lines.append(
                f"| {engine} | {seconds:.1f} | {rows / seconds:,.0f} "
                f"| {_projectors(found, whole):.1e} "
                f"| {np.abs(found.scatter - whole.scatter).max() / whole.scatter.max():.1e} |"
            )
    return "\n".join(lines)


def _timed(work: Callable[[], GroupMoments]) -> tuple[float, GroupMoments]:
    start = time.perf_counter()
    found = work()
    return time.perf_counter() - start, found


def _dask(folder: Path, options: dict[str, Any]) -> tuple[float, GroupMoments]:
    """Time a cluster that is already up."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster),
    ):
        return _timed(lambda: on_dask.read_moments([folder], scheduler=None, **options))


def _spark(folder: Path, options: dict[str, Any]) -> tuple[float, GroupMoments]:
    """Time a session that is already up and has run once."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    session = builder.config("spark.log.level", "OFF").getOrCreate()
    try:
        first = sorted(folder.iterdir())[0]
        session.read.parquet(str(first)).limit(10).mapInArrow(_pass_on, "x0 double").collect()
        return _timed(lambda: on_spark.read_moments([folder], scheduler=None, **options))
    finally:
        session.stop()


def _pass_on(batches: Any) -> Any:
    for batch in batches:
        yield batch.select(["x0"])


def _projectors(one: GroupMoments, other: GroupMoments) -> float:
    A, B = (FairPCA(_COMPONENTS).fit_moments(m).components_ for m in (one, other))
    return float(np.linalg.norm(A.T @ A - B.T @ B, 2))
