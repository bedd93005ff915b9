"""Rows in a Spark DataFrame: partial moments by `mapInArrow`, merged on the executors.

Only the DataFrame API is used, nothing of the JVM, so Spark Connect works too. What crosses
processes are the bytes of `GroupMoments`, never pickles. Executors need fairpca installed.
"""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from fairpca._check import require
from fairpca.distributed import pieces
from fairpca.distributed.parquet import open_parquet
from fairpca.distributed.pieces import GroupingOptions
from fairpca.io.columnar import ArrowRows, joined
from fairpca.io.columns import Wanted
from fairpca.io.read_moments import count_batches
from fairpca.io.sources import Batch, make_batch
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.memory import check_moments_size, moments_bytes

__all__ = ["moments", "read_moments", "transform"]

_require = partial(require, extra="spark", purpose="computing on a Spark cluster")
# What a task yields: one row with the number of its partition, and an error or moments.
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
    n_folds: int | None = None,
) -> Any:
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
    n_folds : int, optional
        Count the rows of every fold apart, in the same pass. The fold of a row depends on the
        number of its partition and its position there, as in `fairpca.moments.groups.row_folds`;
        other partitions give other folds.

    Returns
    -------
    GroupMoments, or a list of `n_folds` of them for `fairpca.cross_fit`

    Examples
    --------
    >>> from pyspark.sql import SparkSession
    >>> from fairpca.distributed import spark
    >>> session = SparkSession.builder.getOrCreate()
    >>> people = [(1.0, 2.0, "f"), (2.0, 5.0, "m"), (3.0, 1.0, "f"), (4.0, 0.0, "m")]
    >>> frame = session.createDataFrame(people, "x double, y double, sex string")
    >>> found = spark.moments(frame, sensitive_features="sex")
    >>> found.labels, found.mean.tolist()
    (('f', 'm'), [[2.0, 1.5], [3.0, 2.5]])
    """
    functions = _require("pyspark.sql.functions")
    options = GroupingOptions.of("intersection", unlabelled, memory_limit, n_folds)
    rules = {"unlabelled": unlabelled, "n_folds": options.n_folds}
    wanted = _choose(frame, sensitive_features, features=features, weight=sample_weight, **rules)
    limit = min(options.limit, _ROW_BYTES)
    n, k = len(wanted.features), options.n_folds or 1
    check_moments_size(n, k, limit)
    if options.must_count_groups(n):
        labels = frame.select(*_quoted(wanted.plain_labels))
        k *= max(labels.distinct().count(), 1)
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
    for row in rows:
        if row["error"]:
            raise ValueError(row["error"])
    parts = (GroupMoments.from_bytes(bytes(row["moments"])) for row in rows)
    return pieces.check_counted(pieces.merge_moments(parts, options), options.n_folds)


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

    Examples
    --------
    >>> from pyspark.sql import SparkSession
    >>> from fairpca import FairPCA
    >>> from fairpca.distributed import spark
    >>> session = SparkSession.builder.getOrCreate()
    >>> people = [(1.0, 2.0, "f"), (2.0, 5.0, "m"), (3.0, 1.0, "f"), (4.0, 0.0, "m")]
    >>> frame = session.createDataFrame(people, "x double, y double, sex string")
    >>> X, sex = [row[:2] for row in people], [row[2] for row in people]
    >>> model = FairPCA(1).fit(X, sensitive_features=sex)
    >>> scored = spark.transform(model, frame, features=["x", "y"])
    >>> scored.columns
    ['x', 'y', 'sex', 'fairpca']
    """
    pandas = _require("pandas")
    functions = _require("pyspark.sql.functions")
    # Spark knows columns by name only, and a model of an array has no names.
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
    _choose(frame, (), features=features)
    mean, components = model.mean_, model._scoring_rows

    def score(rows: Any) -> Any:
        return pandas.Series(list(pieces.project(rows, mean, components)))

    # Spark reads the kind of function off its annotations, and wants classes, not their names.
    score.__annotations__ = {"rows": pandas.DataFrame, "return": pandas.Series}
    udf = functions.pandas_udf(score, "array<double>")
    return frame.withColumn(output, udf(functions.struct(*_quoted(features))))


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
    """Count the moments of Parquet files with Spark.

    Parameters
    ----------
    paths, sensitive_features, features, sample_weight, unlabelled
        As in `fairpca.distributed.dask.read_moments`; every executor must be able to read the
        files.
    scheduler : str, optional
        A master URL such as ``spark://host:7077`` or ``local[2]``, or ``sc://host:port`` for Spark
        Connect; None takes the active session, or all cores of this machine.
    memory_limit, n_folds : int, optional
        As in `moments`.

    Returns
    -------
    GroupMoments, or a list of `n_folds` of them for `fairpca.cross_fit`

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np, pyarrow as pa, pyarrow.parquet as pq
    >>> from fairpca.distributed import spark
    >>> table = pa.table({"x": np.arange(6.0), "y": np.ones(6), "sex": ["f", "m"] * 3})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pq.write_table(table, f"{folder}/people.parquet")
    ...     found = spark.read_moments([folder], sensitive_features=["sex"])
    >>> found.labels, found.mean[:, 0].tolist()
    (('f', 'm'), [2.0, 3.0])
    """
    names = [str(path) for path in paths]
    columns: dict[str, Any] = {"sensitive_features": sensitive_features}
    columns["sample_weight"] = sample_weight
    if all(Path(path).exists() for path in paths):
        # Spark would read a column that a file lacks as nulls; the footers tell which file it is.
        source = open_parquet(paths, features=features, **columns)
        # The files themselves: of a folder such as year=2020 Spark would make a column.
        features = source.wanted.features
        # Spark takes a name with brackets or stars for a pattern.
        names = [re.sub(r"([\[\]{}*?\\])", r"\\\1", file.path) for file in source.files]
    rules: dict[str, Any] = {"unlabelled": unlabelled, "n_folds": n_folds}
    with _session(scheduler) as session:
        frame = session.read.parquet(*names)
        return moments(frame, features=features, memory_limit=memory_limit, **columns, **rules)


def _choose(frame: Any, labels: str | Sequence[str], **options: Any) -> Wanted:
    """Return the columns of a Spark DataFrame that are needed; options as in `choose`."""
    types = _require("pyspark.sql.types")
    numeric = types.NumericType | types.BooleanType
    found = {
        field.name: (isinstance(field.dataType, numeric), field.dataType.simpleString())
        for field in frame.schema.fields
    }
    return pieces.choose_from_frame(found, labels, **options)


def _quoted(names: Sequence[str]) -> list[str]:
    return ["`" + name.replace("`", "``") + "`" for name in names]


# What follows runs on executors. A wrong row is reported as a result: Spark would run a task that
# raises four times, and bury the message.


def _count(batches: Iterator[Any], wanted: Wanted, limit: int) -> Iterator[Any]:
    """Yield one row with the moments of a partition, or none where it has no rows."""
    part = _require("pyspark").TaskContext.get().partitionId()
    try:
        total = count_batches(_read(batches, wanted, part), limit)
        if total is not None:
            with pieces.named(f"partition {part}"):
                yield _row(part, None, total.to_bytes())
    except (ValueError, MemoryError) as error:
        yield _row(part, str(error), None)


def _read(batches: Iterator[Any], wanted: Wanted, part: int) -> Iterator[Batch]:
    """Yield the rows of a partition; Spark's small batches are joined before they are squared."""
    arrow = _require("pyarrow")
    first_row = 0
    for batch in joined(batches, max(_ENTRIES // len(wanted.features), 1)):
        rows = ArrowRows(arrow.RecordBatch.from_arrays(batch.columns, names=wanted.columns))
        yield make_batch(rows, wanted, f"partition {part}", first_row, part=part)
        first_row += len(rows)


def _merge(batches: Iterator[Any], options: GroupingOptions) -> Iterator[Any]:
    """Yield one row with the merged moments of all rows, or the first error among them."""
    first, total = -1, None
    try:
        for batch in batches:
            for part, error, data in zip(*(c.to_pylist() for c in batch.columns), strict=True):
                first = part if first < 0 else first
                if error is not None:
                    raise ValueError(error)
                # Merged at once: a worker holds two of them, not all.
                total = pieces.merge_moments([total, GroupMoments.from_bytes(data)], options)
        if total is not None:
            yield _row(first, None, total.to_bytes())
    except (ValueError, MemoryError) as error:
        yield _row(first, str(error), None)


def _row(part: int, error: str | None, data: bytes | None) -> Any:
    """Return one row of `_SCHEMA` as Arrow."""
    pa = _require("pyarrow")
    schema = pa.schema({"part": pa.int64(), "error": pa.string(), "moments": pa.binary()})
    return pa.RecordBatch.from_pylist([{"part": part, "error": error, "moments": data}], schema)


@contextlib.contextmanager
def _session(scheduler: str | None) -> Iterator[Any]:
    """Return a session; one that was not running before is stopped again."""
    sql = _require("pyspark.sql")
    running = sql.SparkSession.getActiveSession()
    if scheduler is None and running is not None:
        yield running
        return
    builder, master = sql.SparkSession.builder, scheduler or "local[*]"
    if master.startswith("local"):
        # Local workers must be this Python, which has fairpca, not the first on the path.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if master.startswith("sc://"):
        builder = builder.remote(master)
    else:
        quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
        builder = builder.master(master).config(map={**quiet, "spark.log.level": "ERROR"})
        builder = builder.appName("fairpca")
    session = builder.getOrCreate()
    try:
        yield session
    finally:
        if running is None:
            session.stop()
