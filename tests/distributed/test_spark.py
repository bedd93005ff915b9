"""Spark DataFrames give the moments, the answer and the projections of rows in memory."""

import ast
import doctest
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fairpca import FairPCA, GroupMoments
from fairpca.distributed import spark as engine
from fairpca.moments.groups import row_folds

from engine_rows import (
    assert_same_folds,
    assert_same_moments,
    assert_same_subspace,
    counted_in_memory,
    small_rows,
    write_rows,
)
from tables import TABLES

NAMES = ["x.0", "x`1", *(f"x{j}" for j in range(2, 7))]
# A server that lives for a minute is not worth the second compiler and the threads of a collector.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


@pytest.fixture(scope="module")
def session():
    sql = pytest.importorskip("pyspark.sql")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    session = (
        sql.SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "OFF")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    yield session
    session.stop()


def write(path, *, start=0, stop=None, drop=(), bad=None):
    """Write rows with labels of two types, names that need quoting, and weights."""
    X, labels, weight = small_rows()
    columns = {name: X[:, j].copy() for j, name in enumerate(NAMES)}
    if bad is not None:
        columns[NAMES[2]][bad] = np.nan
    code = np.arange(len(X)) % 2
    columns |= {"sex": labels, "code": code, "weight": weight}
    kept = {name: v[start:stop] for name, v in columns.items() if name not in drop}
    pq.write_table(pa.table(kept), path)


def test_moments_and_projections(session, tmp_path):
    X, labels, weight = small_rows()
    write(tmp_path / "x.parquet")
    frame = session.read.parquet(str(tmp_path / "x.parquet"))
    # More partitions than rows of the rarest group, and some without any row.
    spread = frame.repartition(5).union(frame.where("weight > 1e9"))
    got = engine.moments(spread, sensitive_features="sex", features=NAMES, sample_weight="weight")
    want = GroupMoments.from_array(X, labels, sample_weight=weight)
    assert_same_moments(got, want, names=("sex",))
    pairs = engine.moments(frame, sensitive_features=["sex", "code"], features=NAMES)
    table = {"sex": labels, "code": np.arange(len(X)) % 2}
    assert_same_moments(pairs, GroupMoments.from_array(X, table))

    model = FairPCA(2).fit_moments(got)
    with pytest.raises(ValueError, match="knows no column names"):
        engine.transform(FairPCA(2).fit_moments(want), frame)
    with pytest.raises(ValueError, match=r"names 6 column\(s\) and the model was fitted on 7"):
        engine.transform(model, frame, NAMES[:6])
    projected = engine.transform(model, frame, output="z")
    assert projected.columns == [*frame.columns, "z"]
    assert projected.schema["z"].dataType.simpleString() == "array<double>"
    Z = np.array([row["z"] for row in projected.select("z").collect()])
    np.testing.assert_allclose(Z, FairPCA(2).fit_moments(want).transform(X), atol=1e-9)
    by_name = engine.transform(model, frame, NAMES, output="z")
    np.testing.assert_array_equal(np.array([row["z"] for row in by_name.collect()]), Z)


def test_errors_name_the_place_and_the_remedy(session, tmp_path):
    write(tmp_path / "x.parquet", bad=333)
    frame = session.read.parquet(str(tmp_path / "x.parquet"))
    for labels, match in [
        ("sex", r"partition \d+, data row \d+ \(the first is 1\): column 'x2' holds NaN"),
        ("age", r"X has no column 'age'"),
        ("code", r"X: column 'sex' has the type string, not numbers"),
    ]:
        features = NAMES if labels == "sex" else None
        with pytest.raises(ValueError, match=match):
            engine.moments(frame, sensitive_features=labels, features=features)
    with pytest.raises(ValueError, match=r"label is missing.*unlabelled='ignore'"):
        odd = frame.selectExpr("x3", "nullif(sex, 'c') as sex")
        engine.moments(odd, sensitive_features="sex")
    ignored = engine.moments(odd, sensitive_features="sex", unlabelled="ignore")
    assert ignored.labels == (None, "a", "b")
    with pytest.raises(ValueError, match="no rows"):
        engine.moments(odd.where("x3 > 1e9"), sensitive_features="sex")
    for limit in (7 * 7 * 8 - 1, 3 * 7 * 7 * 8 - 1):
        with pytest.raises(MemoryError, match="raise memory_limit"):
            engine.moments(frame, sensitive_features="sex", features=NAMES, memory_limit=limit)


def test_files_of_real_tables(session, tmp_path):
    options = dict(features=None, unlabelled="error", scheduler=None, memory_limit=None)
    # A twelfth of the pixels: Spark spends its time on columns, not on us.
    for name, r, step in [("DCC", 5, 1), ("LFW", 10, 12)]:
        X, labels = TABLES[name]()
        X = X[:, ::step]
        half = len(X) // 2
        folder = tmp_path / name
        folder.mkdir()
        write_rows(folder / "0.parquet", X[:half], labels[:half])
        write_rows(folder / "1.parquet", X[half:], labels[half:])
        found = engine.read_moments(
            [folder], sensitive_features=["group"], sample_weight=None, **options
        )
        assert_same_subspace(found, X, labels, r)
    write(tmp_path / "0.parquet", stop=300)
    write(tmp_path / "1.parquet", start=300, drop=("x4",))
    with pytest.raises(ValueError, match=r"1\.parquet has no column 'x4'"):
        engine.read_moments(
            [tmp_path / "0.parquet", tmp_path / "1.parquet"],
            sensitive_features=["sex", "code"],
            sample_weight="weight",
            **options,
        )


def test_folds_are_those_of_rows_in_memory(session, tmp_path):
    """By partition and position, in one pass over the rows."""
    X, labels, weight = small_rows()
    read = tmp_path / "read"
    read.mkdir()
    table = pa.table({"id": np.arange(600), "sex": labels, "weight": weight})
    # mapInArrow, which counts the reads below, finds no column with a dot in its name.
    names = [f"y{j}" for j in range(7)]
    for name, column in zip(names, X.T, strict=True):
        table = table.append_column(name, pa.array(column))
    pq.write_table(table, tmp_path / "x.parquet")
    frame = session.read.parquet(str(tmp_path / "x.parquet")).repartition(3).cache()
    # A column of the partition, and rows in the order in which a task meets them.
    rows = frame.selectExpr("id", "spark_partition_id() as part").collect()
    order, part = (np.array([row[name] for row in rows]) for name in ("id", "part"))
    assert len(set(part.tolist())) == 3
    fold = np.empty(600, dtype=int)
    for i in range(3):
        mine = order[part == i]
        fold[mine] = row_folds(0, len(mine), 4, part=i)
    options = dict(sensitive_features="sex", features=names, sample_weight="weight")

    def spy(batches):
        for batch in batches:
            for row in batch.column("id").to_pylist():
                with (read / str(row)).open("a") as file:
                    file.write(".")
            yield batch

    got = engine.moments(frame.mapInArrow(spy, frame.schema), n_folds=4, **options)
    assert {path.name: path.read_text() for path in read.iterdir()} == {
        str(row): "." for row in range(600)
    }
    want = counted_in_memory(X, labels, fold, 4, weight)
    assert_same_folds(got, want, engine.moments(frame, **options))
    for n_folds in (1, 0):
        with pytest.raises(ValueError, match=f"n_folds={n_folds} .*leave n_folds out"):
            engine.moments(frame, n_folds=n_folds, **options)
    files = dict(unlabelled="error", scheduler=None, memory_limit=None, **options)
    files["sensitive_features"] = ["sex"]
    from_files = engine.read_moments([tmp_path / "x.parquet"], n_folds=4, **files)
    assert [one.count.sum() for one in from_files] == np.bincount(row_folds(0, 600, 4)).tolist()


CONNECT = """
import json, os, sys
os.environ["PYSPARK_PYTHON"] = sys.executable
from pyspark.sql import SparkSession
builder = SparkSession.builder.remote("local[2]").config("spark.sql.shuffle.partitions", "2")
session = builder.getOrCreate()
assert "connect" in type(session).__module__, type(session)
from fairpca import FairPCA
from fairpca.distributed import spark
path, out, *names = sys.argv[1:]
frame = session.read.parquet(path)
found = spark.moments(frame, sensitive_features="sex", features=names, sample_weight="weight")
found.save(out)
model = FairPCA(2).fit_moments(found)
(first,) = spark.transform(model, frame.limit(1), names).select("fairpca").collect()
print(json.dumps(list(first["fairpca"])))
session.stop()
"""


def test_spark_connect(tmp_path):
    """A server of its own and a client without a JVM, in a process of their own."""
    X, labels, weight = small_rows()
    write(tmp_path / "x.parquet")
    done = subprocess.run(
        [sys.executable, "-c", CONNECT, tmp_path / "x.parquet", tmp_path / "m.npz", *NAMES],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = GroupMoments.load(tmp_path / "m.npz")
    want = GroupMoments.from_array(X, labels, sample_weight=weight)
    assert_same_moments(found, want, names=("sex",))
    row = ast.literal_eval(done.stdout.strip().splitlines()[-1])
    np.testing.assert_allclose([row], FairPCA(2).fit_moments(want).transform(X[:1]), atol=1e-9)


def test_names_of_files_are_no_patterns(session, tmp_path):
    """Of x1 and x[1], Spark read the first twice and the second never."""
    pd.DataFrame({"x": np.arange(10.0), "g": ["a", "b"] * 5}).to_parquet(tmp_path / "x1.parquet")
    other = pd.DataFrame({"x": np.arange(6.0), "g": ["a", "b"] * 3})
    other.to_parquet(tmp_path / "x[1].parquet")
    found = engine.read_moments([tmp_path], sensitive_features=["g"])
    assert found.count.tolist() == [8, 8]
    np.testing.assert_allclose(found.mean[:, 0], [(20 + 6) / 8, (25 + 9) / 8])


def test_a_fit_says_what_counts_rows_of_spark(session):
    rows = session.createDataFrame(pd.DataFrame({"x": [1.0, 2.0], "y": [2.0, 1.0]}))
    with pytest.raises(ValueError, match=r"X.toPandas\(\) of Spark.*distributed.spark.moments"):
        FairPCA(1).fit(rows)


def test_no_jvm_objects():
    """What Spark Connect does not have is not used."""
    tree = ast.parse(Path(engine.__file__).read_text())
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not used & {"rdd", "_jdf", "_jvm", "_jsc", "sparkContext", "_sc", "sc"}


def test_examples_of_docstrings_run(session):
    done = doctest.testmod(engine)
    assert done.attempted
    assert not done.failed
