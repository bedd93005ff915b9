"""The same rows by every route: in memory, in shuffled chunks, from Parquet, on Dask, on Spark.

Rows per second of each, and how far its components are from those of the rows in memory, on
credit, on faces and on a synthetic table of any length.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import cases, streaming
from benchmarks.race import say
from fairpca import FairPCA, GroupMoments
from fairpca.distributed import dask as on_dask
from fairpca.distributed import spark as on_spark

_FEATURES, _CHUNK = 50, 500_000
_CHUNKS = 1000
_PIECES = 16


def run(rows: int) -> str:
    """Return one table: every engine on credit, on faces and on ``rows`` synthetic rows."""
    lines = [
        "| rows | engine | seconds | rows/s | projector difference |",
        "|---|---|---|---|---|",
    ]
    for name, load, r in (
        ("credit", cases.credit, 10),
        ("faces", cases.faces, 10),
        ("synthetic", partial(synthetic, rows), 5),
    ):
        X, groups = load()
        table = f"{name} {X.shape[0]:,} x {X.shape[1]:,}, r = {r}"
        for engine, seconds, difference in race(X, groups, r):
            speed = f"{seconds:.2f} | {len(X) / seconds:,.0f}"
            lines.append(f"| {table} | {engine} | {speed} | {difference} |")
            say(lines[-1])
    return "\n".join(lines)


def race(X: Any, groups: Any, r: int) -> Iterator[tuple[str, float, str]]:
    """Give each engine the rows; yield its name, its seconds and its distance from memory."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder, X, groups)
        yield "pyarrow, read only", _timed(lambda: streaming.read_only(folder))[0], ""
        seconds, fitted = _timed(lambda: FairPCA(r).fit(X, sensitive_features=groups))
        yield "in memory, with the solve", seconds, ""
        want = fitted.components_
        for engine, count in (
            (f"{_CHUNKS:,} shuffled chunks", lambda: _timed(lambda: in_chunks(X, groups))),
            ("Parquet stream, 2 jobs", lambda: _timed(lambda: streaming.local(folder, 2))),
            ("Dask, 2 processes", lambda: _dask(folder)),
            ("Spark local[2]", lambda: _spark(folder)),
        ):
            seconds, found = count()
            if int(np.sum(found.count)) != len(X):
                raise AssertionError(f"{engine} counted {found.count} of {len(X):,} rows")
            got = FairPCA(r).fit_moments(found).components_
            yield engine, seconds, f"{np.linalg.norm(got.T @ got - want.T @ want, 2):.1e}"


def synthetic(rows: int, seed: int = 0) -> tuple[Any, Any]:
    """Return rows of two groups with different directions and means."""
    turns = np.random.default_rng(seed)
    spectrum = 1 / np.sqrt(np.arange(1, _FEATURES + 1))
    mixing = [
        spectrum[:, None] * np.linalg.qr(turns.normal(size=(_FEATURES, _FEATURES)))[0]
        for _ in range(2)
    ]
    X = np.empty((rows, _FEATURES))
    codes = (turns.random(rows) < 0.2).astype(int)
    for start in range(0, rows, _CHUNK):
        part, code = X[start : start + _CHUNK], codes[start : start + _CHUNK]
        drawn = turns.standard_normal(part.shape)
        for g in range(2):
            part[code == g] = drawn[code == g] @ mixing[g] + g
    return X, np.array(["a", "b"])[codes]


def write_files(folder: Path, X: Any, groups: Any) -> None:
    """Write the rows as several files of several row groups."""
    size = min(_CHUNK, -(-len(X) // _PIECES))
    for i, start in enumerate(range(0, len(X), size)):
        part = slice(start, start + size)
        columns = {f"x{j:04d}": np.ascontiguousarray(X[part, j]) for j in range(X.shape[1])}
        columns["group"] = groups[part]
        pq.write_table(
            pa.table(columns), folder / f"part{i:04d}.parquet", row_group_size=size // 4
        )


def in_chunks(X: Any, groups: Any, seed: int = 0) -> GroupMoments:
    """Count the rows in random order, in a thousand parts, merged one after the other."""
    order = np.random.default_rng(seed).permutation(len(X))
    found: GroupMoments | None = None
    for rows in np.array_split(order, _CHUNKS):
        part = GroupMoments.from_array(X[rows], groups[rows])
        found = part if found is None else found.merge(part)
    assert found is not None
    return found


def _timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    found = work()
    return time.perf_counter() - start, found


def _dask(folder: Path) -> tuple[float, GroupMoments]:
    """Time a cluster that is already up."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster,
        Client(cluster),
    ):
        return _timed(lambda: streaming.cluster(folder, on_dask))


def _spark(folder: Path) -> tuple[float, GroupMoments]:
    """Time a session that is already up and has run once."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    session = builder.config("spark.log.level", "OFF").getOrCreate()
    try:
        first = session.read.parquet(str(sorted(folder.iterdir())[0])).select("x0000")
        first.limit(10).mapInArrow(_pass_on, "x0000 double").collect()
        return _timed(lambda: streaming.cluster(folder, on_spark))
    finally:
        session.stop()


def _pass_on(batches: Any) -> Any:
    yield from batches
