"""Rows in a Spark DataFrame: partial moments by `mapInArrow`, merged on the executors.

Only the DataFrame API is used, nothing of the JVM, so Spark Connect works too. What crosses
processes are the bytes of `GroupMoments`, never pickles. Executors need fairpca installed.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fairpca._checks import require
from fairpca.distributed.parquet import open_parquet
from fairpca.distributed.pieces import (
    GroupingOptions,
    check_counted,
    choose_from_frame,
    merge_moments,
    named,
    project,
)
from fairpca.io.columnar import ArrowRows, joined
from fairpca.io.columns import Wanted
from fairpca.io.read_moments import Budget, count_batches
from fairpca.io.sources import Batch, make_batch
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.memory import check_moments_size, moments_bytes

_PURPOSE = "computing on a Spark cluster"
_SCHEMA = "part long, error string, moments binary"
# Entries of rows collected before they are squared: Spark hands over small batches.
_ENTRIES = 3_000_000
# Tasks of the second stage, and the bytes that its results may bring to the driver, whose
# default limit is 1 GB.
_SLOTS, _RESULT_BYTES = 8, 512 << 20
# A value of a Spark row holds less than 2 GB.
_ROW_BYTES = (2 << 30) - (1 << 20)


def moments(
    frame: Any,
    *,
    sensitive_features: str | Sequence[str],
    features: Sequence[str] | None = None,
    sample_weight: str | None = None,
    unlabelled: str = "error",
    memory_limit: int | None = None,
) -> GroupMoments:
    """Count the moments of a Spark DataFrame, partition by partition.

    Every task yields one row, its partial moments; a second stage merges them in the order of
    the partitions, and the driver merges at most eight.

    Parameters
    ----------
    frame : pyspark DataFrame
        Classic or Connect.
    sensitive_features : str or sequence of str
        Label columns.
    features : sequence of str, optional
        All other columns by default.
    sample_weight : str, optional
        Weight column.
    unlabelled : {"error", "ignore"}
    memory_limit : int, optional
        Bytes that moments may take in one process; a quarter of this machine's memory by
        default, and at most 2 GB, the most a Spark value holds.

    Returns
    -------
    GroupMoments
    """
    functions = require("pyspark.sql.functions", extra="spark", purpose=_PURPOSE)
    options = GroupingOptions.of("intersection", unlabelled, memory_limit)
    wanted = _choose(frame, sensitive_features, features, sample_weight, unlabelled)
    limit = min(options.limit, _ROW_BYTES)
    n, k = len(wanted.features), 1
    check_moments_size(n, k, limit)
    if options.must_count_groups(n):
        labels = frame.select(*_quoted(wanted.plain_labels))
        k = max(labels.distinct().count(), 1)
        check_moments_size(n, k, limit)
    slots = max(min(_SLOTS, _RESULT_BYTES // moments_bytes(n, k)), 1)
    # mapInArrow cannot find a column with a dot in its name; on the way they have numbers.
    numbered = map(str, range(len(wanted.columns)))
    rows_only = frame.select(*_quoted(wanted.columns)).toDF(*numbered)
    partials = rows_only.mapInArrow(partial(_count, wanted=wanted, limit=limit), _SCHEMA)
    # Sorted by partition, so that the same partitions give the same bits.
    merged = (
        partials.repartition(slots, functions.col("part") % slots)
        .sortWithinPartitions("part")
        .mapInArrow(partial(_merge, options=options), _SCHEMA)
    )
    rows = sorted(merged.collect(), key=lambda row: row["part"])
    errors = [row["error"] for row in rows if row["error"]]
    if errors:
        raise ValueError(errors[0])
    parts = (GroupMoments.from_bytes(bytes(row["moments"])) for row in rows)
    return check_counted(merge_moments(parts, options))


def transform(
    model: Any, frame: Any, features: Sequence[str] | None = None, *, output: str = "fairpca"
) -> Any:
    """Add a column with the components of every row, lazily.

    Parameters
    ----------
    model : fitted estimator of this package
        Only its mean and components travel to the executors.
    frame : pyspark DataFrame
    features : sequence of str, optional
        The columns the model was fitted on, in order; by default the model's own names.
    output : str
        Name of the new column, an array of doubles.

    Returns
    -------
    pyspark DataFrame
    """
    pandas = require("pandas", extra="spark", purpose=_PURPOSE)
    functions = require("pyspark.sql.functions", extra="spark", purpose=_PURPOSE)
    if features is None:
        if not hasattr(model, "feature_names_in_"):
            raise ValueError(
                "the model knows no column names; pass features=[...], in the order of the fit."
            )
        features = [str(name) for name in model.feature_names_in_]
    if len(features) != model.n_features_in_:
        raise ValueError(
            f"features names {len(features)} column(s) and the model was fitted on "
            f"{model.n_features_in_}; pass the same columns."
        )
    _choose(frame, (), features, None)
    mean, components = model.mean_, model.components_

    def score(rows: Any) -> Any:
        return pandas.Series(list(project(rows, mean, components)))

    # Spark reads the kind of function off its annotations, and wants classes, not their names.
    score.__annotations__ = {"rows": pandas.DataFrame, "return": pandas.Series}
    udf = functions.pandas_udf(score, "array<double>")
    return frame.withColumn(output, udf(functions.struct(*_quoted(features))))


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
    """Count the moments of Parquet files with Spark.

    Parameters
    ----------
    paths : sequence of path
        Files, or directories of them, that every executor can read.
    sensitive_features, features, sample_weight
        Names of columns; features None takes all others.
    unlabelled : {"error", "ignore"}
    scheduler : str, optional
        A master URL such as ``spark://host:7077`` or ``local[2]``, or ``sc://host:port`` for Spark
        Connect; None takes the active session, or all cores of this machine.
    memory_limit : int, optional
        As in `moments`.
    """
    names = [str(path) for path in paths]
    if all(Path(path).exists() for path in paths):
        # Spark would read a column that a file lacks as nulls; the footers tell which file it is.
        source = open_parquet(
            paths,
            sensitive_features=sensitive_features,
            features=features,
            sample_weight=sample_weight,
        )
        # The files themselves: of a folder such as year=2020 Spark would make a column.
        names = [file.path for file in source.files]
        features = source.wanted.features
    with _session(scheduler) as session:
        return moments(
            session.read.parquet(*names),
            sensitive_features=sensitive_features,
            features=features,
            sample_weight=sample_weight,
            unlabelled=unlabelled,
            memory_limit=memory_limit,
        )


def _choose(
    frame: Any,
    sensitive_features: str | Sequence[str],
    features: Sequence[str] | None,
    sample_weight: str | None,
    unlabelled: str = "error",
) -> Wanted:
    """Return the columns of a Spark DataFrame that are needed; arguments as in `moments`."""
    types = require("pyspark.sql.types", extra="spark", purpose=_PURPOSE)
    labels = (sensitive_features,) if isinstance(sensitive_features, str) else sensitive_features
    numeric = types.NumericType | types.BooleanType
    found = {
        field.name: (isinstance(field.dataType, numeric), field.dataType.simpleString())
        for field in frame.schema.fields
    }
    return choose_from_frame(found, labels, features, sample_weight, unlabelled)


def _quoted(names: Sequence[str]) -> list[str]:
    return ["`" + name.replace("`", "``") + "`" for name in names]


# What follows runs on executors. A wrong row is reported as a result: Spark would run a task that
# raises four times, and bury the message.


def _count(batches: Iterator[Any], wanted: Wanted, limit: int) -> Iterator[Any]:
    """Yield one row with the moments of a partition, or none where it has no rows."""
    part = require("pyspark", extra="spark", purpose=_PURPOSE).TaskContext.get().partitionId()
    where = f"partition {part}"
    n = len(wanted.features)
    try:
        total = count_batches(_read(batches, wanted, where), Budget(n, limit, 1))
        if total is not None:
            with named(where):
                yield _row(part, None, total.to_bytes())
    except (ValueError, MemoryError) as error:
        yield _row(part, str(error), None)


def _read(batches: Iterator[Any], wanted: Wanted, where: str) -> Iterator[Batch]:
    """Yield the rows of a partition; Spark's small batches are joined before they are squared."""
    arrow = require("pyarrow", extra="spark", purpose=_PURPOSE)
    first_row = 0
    for batch in joined(batches, max(_ENTRIES // len(wanted.features), 1)):
        rows = ArrowRows(arrow.RecordBatch.from_arrays(batch.columns, names=wanted.columns))
        yield make_batch(rows, wanted, where, first_row)
        first_row += len(rows)


def _merge(batches: Iterator[Any], options: GroupingOptions) -> Iterator[Any]:
    """Yield one row with the merged moments of all rows, or the first error among them."""
    first = -1
    parts: list[GroupMoments | None] = []
    try:
        for batch in batches:
            for part, error, data in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                first = part if first < 0 else first
                if error is not None:
                    raise ValueError(error)
                # Merged at once: a worker holds two of them, not all.
                parts = [merge_moments([*parts, GroupMoments.from_bytes(data)], options)]
        total = parts[0] if parts else None
        if total is not None:
            yield _row(first, None, total.to_bytes())
    except (ValueError, MemoryError) as error:
        yield _row(first, str(error), None)


def _row(part: int, error: str | None, data: bytes | None) -> Any:
    arrow = require("pyarrow", extra="spark", purpose=_PURPOSE)
    schema = arrow.schema(
        [("part", arrow.int64()), ("error", arrow.string()), ("moments", arrow.binary())]
    )
    return arrow.RecordBatch.from_pydict(
        {"part": [part], "error": [error], "moments": [data]}, schema=schema
    )


@contextlib.contextmanager
def _session(scheduler: str | None) -> Iterator[Any]:
    """Return a session; one that was not running before is stopped again."""
    sql = require("pyspark.sql", extra="spark", purpose=_PURPOSE)
    running = sql.SparkSession.getActiveSession()
    if scheduler is None and running is not None:
        yield running
        return
    builder = sql.SparkSession.builder
    if scheduler is not None and scheduler.startswith("sc://"):
        builder = builder.remote(scheduler)
    else:
        master = scheduler or "local[*]"
        if master.startswith("local"):
            # Local workers must be this Python, which has fairpca, not the first on the path.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        builder = builder.master(master).config("spark.ui.enabled", "false")
        builder = builder.config("spark.ui.showConsoleProgress", "false")
        builder = builder.config("spark.log.level", "ERROR").appName("fairpca")
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        if running is None:
            session.stop()
