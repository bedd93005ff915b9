"""Spark DataFrames give the moments and the projections of rows in memory."""

import ast
import doctest
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fairpca import FairPCA, GroupMoments
from fairpca.distributed import spark as engine

from engine_rows import assert_same_folds, assert_same_moments, folds_in_memory, small_rows

NAMES = ["x.0", "x`1", *(f"x{j}" for j in range(2, 7))]
# A server that lives for a minute is not worth the second compiler and the threads of a collector.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def session():
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    quiet = {"spark.ui.enabled": "false", "spark.ui.showConsoleProgress": "false"}
    quiet |= {"spark.log.level": "OFF", "spark.sql.shuffle.partitions": "2"}
    session = SparkSession.builder.master("local[2]").config(map=quiet).getOrCreate()
    yield session
    session.stop()


@pytest.fixture
def path(tmp_path):
    """Return a file of rows with labels of two types, names that need quoting, and weights."""
    X, labels, weight = small_rows()
    columns = {name: X[:, j] for j, name in enumerate(NAMES)}
    columns |= {"sex": labels, "code": np.arange(len(X)) % 2, "weight": weight}
    pq.write_table(pa.table({**columns, "person": np.arange(len(X)) // 3}), tmp_path / "x.parquet")
    return str(tmp_path / "x.parquet")


def test_moments_folds_and_projections(session, path):
    X, labels, weight = small_rows()
    frame = session.read.parquet(path)
    # More partitions than rows of the rarest group, and some without any row.
    spread = frame.repartition(5).union(frame.where("weight > 1e9"))
    got = engine.moments(spread, NAMES, "sex", sample_weight="weight")
    want = GroupMoments.from_array(X, labels, sample_weight=weight)
    assert_same_moments(got, want, names=("sex",))
    others = frame.drop("weight", "person")
    table = {"sex": labels, "code": np.arange(len(X)) % 2}
    pairs = engine.moments(others, None, ["sex", "code"])
    assert_same_moments(pairs, GroupMoments.from_array(X, table))
    by_person = folds_in_memory(X, labels, weight, 4, np.arange(len(X)) // 3)
    folds = engine.moments(
        spread, NAMES, "sex", sample_weight="weight", n_folds=4, blocks="person"
    )
    assert_same_folds(folds, by_person, got)
    # The rows in the order of the partitions.
    ordered = (
        frame.repartitionByRange(3, "person").sortWithinPartitions("person", "weight").cache()
    )
    rows = ordered.selectExpr("spark_partition_id() as part", "person", "weight").collect()
    assert len({row["part"] for row in rows}) == 3
    place = {value: i for i, value in enumerate(weight)}
    order = [place[row["weight"]] for row in rows]
    folds = engine.moments(ordered, NAMES, "sex", sample_weight="weight", n_folds=4)
    by_place = folds_in_memory(X[order], labels[order], weight[order], 4)
    assert_same_folds(folds, by_place, got)

    model = FairPCA(2).fit_moments(got)
    projected = engine.transform(model, frame, output="z")
    assert projected.columns == [*frame.columns, "z"]
    Z = np.array([row["z"] for row in projected.select("z").collect()])
    np.testing.assert_allclose(Z, FairPCA(2).fit_moments(want).transform(X), atol=1e-9)


def test_errors_name_the_place_and_the_remedy(session, path):
    frame = session.read.parquet(path)
    odd = frame.selectExpr("x3", "nullif(sex, 'c') as sex")
    gap = frame.selectExpr("if(person = 111, null, x3) as x3", "sex")
    for call, match in [
        (lambda: engine.moments(gap, None, "sex"), r"partition \d+: .*NaN"),
        (lambda: engine.moments(frame, None, "age"), "no column 'age'"),
        (lambda: engine.moments(frame, None, "code"), r"no numbers in the column\(s\) 'sex'"),
        (lambda: engine.moments(odd, None, "sex"), r"missing label.*unlabelled='ignore'"),
        (lambda: engine.moments(odd.where("x3 > 1e9"), None, "sex"), "no rows"),
        (lambda: FairPCA(1).fit(frame), r"distributed\.spark\.moments"),
    ]:
        with pytest.raises(ValueError, match=match):
            call()
    ignored = engine.moments(odd, None, "sex", unlabelled="ignore")
    assert ignored.labels == (None, "a", "b")


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
found = spark.moments(frame, names, "sex", sample_weight="weight")
found.save(out)
model = FairPCA(2).fit_moments(found)
(first,) = spark.transform(model, frame.limit(1)).select("fairpca").collect()
print(json.dumps(list(first["fairpca"])))
session.stop()
"""


def test_spark_connect(path, tmp_path):
    """A server of its own and a client without a JVM, in a process of their own."""
    X, labels, weight = small_rows()
    command = [sys.executable, "-c", CONNECT, path, str(tmp_path / "m.npz"), *NAMES]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    assert done.returncode == 0, done.stderr[-3000:]
    found = GroupMoments.load(tmp_path / "m.npz")
    want = GroupMoments.from_array(X, labels, sample_weight=weight)
    assert_same_moments(found, want, names=("sex",))
    row = ast.literal_eval(done.stdout.strip().splitlines()[-1])
    np.testing.assert_allclose([row], FairPCA(2).fit_moments(want).transform(X[:1]), atol=1e-9)


def test_no_jvm_objects():
    """What Spark Connect does not have is not used."""
    tree = ast.parse(Path(engine.__file__).read_text())
    used = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    assert not used & {"rdd", "_jdf", "_jvm", "_jsc", "sparkContext", "_sc", "sc"}


def test_examples_of_docstrings_run(session):
    done = doctest.testmod(engine)
    assert done.attempted
    assert not done.failed
