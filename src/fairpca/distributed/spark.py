"""Rows in a Spark DataFrame: partial moments by `mapInArrow`, merged on the executors.

Only the DataFrame API is used, nothing of the JVM, so Spark Connect works too. What crosses
processes are the bytes of `GroupMoments`, never pickles. Executors need fairpca installed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from fairpca._check import require
from fairpca.distributed import Grouping, check_columns, light, merged, project
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.groups import Model

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["moments", "transform"]

_require = partial(require, extra="spark", purpose="computing on a Spark cluster")
# What a task yields: one row with the number of its partition, and an error or moments.
_SCHEMA = "part long, error string, moments binary"
# Tasks of the second stage, and the entries of the matrices that each brings to the driver.
_SLOTS, _ENTRIES = 8, 4_000_000


def moments(
    frame: DataFrame,
    features: Sequence[str] | None = None,
    sensitive_features: str | Sequence[str] | None = None,
    *,
    sample_weight: str | None = None,
    group_by: str = "intersection",
    unlabelled: str = "error",
    n_folds: int = 0,
    blocks: str | None = None,
) -> GroupMoments | list[GroupMoments]:
    """Count the moments of a Spark DataFrame, partition by partition.

    Every task yields one row, its partial moments; a second stage merges them in the order of
    the partitions, and the driver merges at most eight.

    Parameters
    ----------
    frame : pyspark DataFrame
        Classic or Connect.
    features : sequence of str, optional
        By default all columns without another role.
    sensitive_features : str or sequence of str, optional
        Label columns. None is one group.
    sample_weight, blocks : str, optional
        Columns of weights, and of what rows belong to: rows of one block have the same fold.
    group_by, unlabelled : str
        As in `FairPCA`.
    n_folds : int, default=0
        Count the rows of so many folds apart. Folds are those of the same rows in memory, in the
        order of the partitions, whose rows are counted first; name `blocks` where that order may
        change from one reading to the next, as after a shuffle.

    Returns
    -------
    GroupMoments, or a list of `n_folds` of them for `fairpca.cross_fit`

    Raises
    ------
    ValueError
        Naming the column that is not there, or the partition whose rows are wrong.

    Examples
    --------
    >>> from pyspark.sql import SparkSession
    >>> from fairpca.distributed import spark
    >>> session = SparkSession.builder.getOrCreate()
    >>> people = [(1.0, 2.0, "f"), (2.0, 5.0, "m"), (3.0, 1.0, "f"), (4.0, 0.0, "m")]
    >>> frame = session.createDataFrame(people, "x double, y double, sex string")
    >>> found = spark.moments(frame, ["x", "y"], "sex")
    >>> found.labels, found.mean.tolist()
    (('f', 'm'), [[2.0, 1.5], [3.0, 2.5]])
    """
    functions = _require("pyspark.sql.functions")
    roles = dict(sensitive_features=sensitive_features, sample_weight=sample_weight, blocks=blocks)
    named = {name: v for name, v in roles.items() if v}
    grouping = Grouping({"group_by": group_by, "unlabelled": unlabelled}, n_folds, named)
    features = features or [name for name in frame.columns if name not in grouping.others]
    columns = [*features, *grouping.others]
    check_columns(columns, frame.columns, len(features))
    # mapInArrow cannot find a column with a dot in its name; on the way they have numbers.
    rows = frame.select(*_quoted(columns)).toDF(*map(str, range(len(columns))))
    starts: dict[int, int] = {}
    if n_folds and blocks is None:
        sizes = sorted(map(tuple, rows.mapInArrow(_sizes, "part long, size long").collect()))
        starts = {part: sum(size for _, size in sizes[:i]) for i, (part, _) in enumerate(sizes)}
    count = partial(_count, columns=columns, starts=starts, grouping=grouping)
    slots = max(min(_SLOTS, _ENTRIES // len(features) ** 2), 1)
    # Sorted by partition, so that the same partitions give the same bits.
    found = (
        rows.mapInArrow(count, _SCHEMA)
        .repartition(slots, functions.col("part") % slots)
        .sortWithinPartitions("part")
        .mapInArrow(_merge, _SCHEMA)
    ).collect()
    return grouping.finished(merged(map(_read, sorted(found, key=lambda row: row["part"]))))


def transform(
    model: Model, frame: DataFrame, features: Sequence[str] | None = None, *,
    output: str = "fairpca",
) -> DataFrame:  # fmt: skip
    """Add a column with the components of every row, lazily.

    Parameters
    ----------
    model : fitted estimator of this package
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
    # Spark knows columns by name only; a model of an array has none.
    names, small = features or model.feature_names_in_, light(model)

    def score(rows: Any) -> Any:
        return pandas.Series(list(project(rows, small)))

    # Spark reads the kind of function off its annotations, and wants classes, not their names.
    score.__annotations__ = {"rows": pandas.DataFrame, "return": pandas.Series}
    udf = functions.pandas_udf(score, "array<double>")
    return frame.withColumn(output, udf(functions.struct(*_quoted(names))))


def _quoted(names: Sequence[str]) -> list[str]:
    return ["`" + name.replace("`", "``") + "`" for name in names]


# What follows runs on executors. A wrong row is reported as a result: Spark would run a task that
# raises four times, and bury the message.


def _part() -> int:
    return int(_require("pyspark").TaskContext.get().partitionId())


def _sizes(batches: Iterator[Any]) -> Iterator[Any]:
    """Yield the number of a partition and that of its rows."""
    sizes = {"part": [_part()], "size": [sum(batch.num_rows for batch in batches)]}
    yield _require("pyarrow").RecordBatch.from_pydict(sizes)


def _count(
    batches: Iterator[Any], columns: Sequence[str], starts: Mapping[int, int], grouping: Grouping
) -> Iterator[Any]:
    """Yield one row with the moments of a partition, or none where it has no rows."""

    def counted() -> Iterator[GroupMoments | None]:
        start = starts.get(_part(), 0)
        for batch in batches:
            rows = batch.to_pandas().set_axis(columns, axis=1)
            yield grouping.count(rows, {}, start, _part())
            start += len(rows)

    return _reduced(counted())


def _merge(batches: Iterator[Any]) -> Iterator[Any]:
    """Yield one row with the merged moments of all rows, or the first error among them."""
    return _reduced(_read(row) for batch in batches for row in batch.to_pylist())


def _read(row: Any) -> GroupMoments:
    """Return the moments of one row of `_SCHEMA`, or raise its error."""
    if row["error"]:
        raise ValueError(row["error"])
    return GroupMoments.from_bytes(bytes(row["moments"]))


def _reduced(parts: Iterator[GroupMoments | None]) -> Iterator[Any]:
    """Yield one row of `_SCHEMA` as Arrow, unless all parts are None."""
    total, error = None, ""
    try:
        total = merged(parts)
    except ValueError as raised:
        error = str(raised)
    if total is not None or error:
        data = b"" if total is None else total.to_bytes()
        row = {"part": [_part()], "error": [error], "moments": [data]}
        yield _require("pyarrow").RecordBatch.from_pydict(row)
