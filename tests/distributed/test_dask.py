"""Dask collections give the moments, the answer and the projections of rows in memory."""

import os
import signal
import threading
import time

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fairpca import FairPCA, GroupMoments, cross_fit
from fairpca.distributed import dask as engine
from fairpca.distributed import parquet
from fairpca.moments.groups import row_folds

from engine_rows import (
    PARQUET_OPTIONS,
    assert_same_folds,
    assert_same_moments,
    assert_same_subspace,
    counted_in_memory,
    small_rows,
    write_rows,
)
from tables import TABLES

NAMES = [f"x{j}" for j in range(7)]


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed")
    # Any free port: tests of this file may run in several processes, each with a cluster.
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def frame():
    X, labels, weight = small_rows()
    table = pd.DataFrame(X, columns=NAMES)
    # Declared levels belong to the whole table: most partitions lack some of them.
    return table.assign(sex=pd.Categorical(labels), weight=weight)


def want(weighted=True, **kwargs):
    X, labels, weight = small_rows()
    return GroupMoments.from_array(X, labels, sample_weight=weight if weighted else None, **kwargs)


def forms():
    """Yield every way to hand the same rows over."""
    X, labels, weight = small_rows()
    A = da.from_array(X, chunks=(70, 3))
    yield "arrays", A, da.from_array(labels, chunks=150), da.from_array(weight, chunks=70)
    yield "labels in memory", A, labels, weight
    table = pd.DataFrame(X, columns=NAMES).assign(sex=labels, weight=weight)
    D = dd.from_pandas(table, npartitions=5)
    yield "names of columns", D, "sex", "weight"
    yield "series", D[NAMES], D["sex"], D["weight"]
    yield "frame of labels", D[NAMES], D[["sex"]], weight
    unknown = D[NAMES].to_dask_array()
    yield "unknown sizes", unknown, D["sex"], D["weight"].to_dask_array()
    yield "unknown sizes, labels in memory", unknown.rechunk({1: 2}), list(labels), weight


@pytest.mark.parametrize("form", list(forms()), ids=lambda form: form[0])
def test_every_way_to_hand_rows_over(form):
    _, X, labels, weight = form
    got = engine.moments(X, labels, sample_weight=weight)
    assert_same_moments(got, want(), names=got.names)
    assert got.names in (("sex",), ("sensitive_feature",))


def test_pieces_are_unequal(frame):
    """A partition without rows, a group in one partition, weights that are zero in another."""
    D = dd.from_pandas(frame.sort_values("sex", ignore_index=True), npartitions=6, sort=False)
    D = dd.concat([D, D.loc[D["x0"] > 1e9]])
    assert_same_moments(engine.moments(D, "sex", sample_weight="weight"), want(), names=("sex",))
    X, labels, weight = small_rows()
    weight[:100] = 0
    got = engine.moments(da.from_array(X, chunks=(100, -1)), labels, sample_weight=weight)
    assert_same_moments(got, GroupMoments.from_array(X, labels, sample_weight=weight))


def test_several_columns_and_missing_labels(frame):
    frame = frame.assign(code=np.arange(len(frame)) % 2, sex=frame["sex"].astype(object))
    frame.loc[5, "sex"] = None
    D = dd.from_pandas(frame, npartitions=4)
    labels = frame[["sex", "code"]].to_dict("list")
    X = frame[NAMES].to_numpy()
    for group_by in ("intersection", "marginal"):
        rules = dict(group_by=group_by, unlabelled="ignore")
        got = engine.moments(D.drop(columns="weight"), ["sex", "code"], **rules)
        assert_same_moments(got, GroupMoments.from_array(X, labels, **rules))
    with pytest.raises(ValueError, match=r"partition 0: .*1 missing label"):
        engine.moments(D[NAMES], D["sex"])


@pytest.mark.parametrize("whiten", [False, True])
def test_fit_and_transform_are_those_of_rows_in_memory(frame, whiten):
    model = FairPCA(2, whiten=whiten).fit(
        dd.from_pandas(frame, npartitions=3), sensitive_features="sex", sample_weight="weight"
    )
    whole = FairPCA(2, whiten=whiten).fit(
        frame[NAMES], sensitive_features=frame["sex"], sample_weight=frame["weight"]
    )
    np.testing.assert_allclose(model.components_, whole.components_, atol=1e-10)
    assert list(model.feature_names_in_) == NAMES
    D = dd.from_pandas(frame.set_index(frame.index + 7), npartitions=3)
    Z = model.transform(D)
    assert (Z.npartitions, list(Z.columns)) == (3, ["fairpca0", "fairpca1"])
    pd.testing.assert_index_equal(Z.compute().index, frame.index + 7, exact=False)
    np.testing.assert_allclose(Z.compute(), whole.transform(frame[NAMES]), atol=1e-9)
    A = da.from_array(frame[NAMES].to_numpy(np.float32), chunks=(100, 4))
    Z = model.transform(A)
    assert (Z.chunks, Z.dtype) == ((A.chunks[0], (2,)), np.float32)
    assert Z.compute().dtype == np.float32
    with pytest.raises(ValueError, match="6 features and the model was fitted on 7"):
        model.transform(A[:, :6])
    with pytest.warns(UserWarning, match="ordinary PCA"):
        FairPCA(2).fit(A)


def test_errors_name_partition_column_and_remedy(frame):
    X, labels, _ = small_rows()
    X[333, 4] = np.nan
    A = da.from_array(X, chunks=(100, -1))
    with pytest.raises(ValueError, match=r"partition 3, data row 34 .*: column '4' holds NaN"):
        engine.moments(A, labels)
    with pytest.raises(ValueError, match=r"partition 3: .*NaN"):
        engine.operators(A, labels)
    with pytest.raises(ValueError, match="NaN"):
        FairPCA(2).fit(X[:300], sensitive_features=labels[:300]).transform(A).compute()
    D = dd.from_pandas(frame, npartitions=3)
    with pytest.raises(
        ValueError, match=r"'sex' has the type category, not .*leave the column out"
    ):
        engine.moments(D)
    with pytest.raises(ValueError, match=r"X has no column 'age'"):
        engine.moments(D, "age")
    with pytest.raises(ValueError, match="600 rows but X has 500"):
        engine.moments(A[:500], da.from_array(labels))
    with pytest.raises(ValueError, match=r"5 partition\(s\) and X has 3"):
        engine.moments(D[NAMES], dd.from_pandas(frame["sex"], npartitions=5))
    with pytest.raises(ValueError, match="no rows"):
        engine.moments(A[:0], labels[:0])


def test_labels_belong_to_rows_by_their_index(frame):
    """Partitions that agree in number only would give rows the labels of others."""
    D = dd.from_pandas(frame, npartitions=3)
    moved = dd.from_pandas(frame["sex"].set_axis(frame.index + 100), npartitions=3)
    with pytest.raises(ValueError, match="sensitive_features has other divisions than X"):
        engine.moments(D[NAMES], moved)
    shuffled = frame["sex"].sample(frac=1.0, random_state=0)
    unsorted = dd.from_pandas(shuffled, npartitions=3, sort=False)
    for run in (engine.moments, engine.operators):
        with pytest.raises(ValueError, match=r"partition \d: .*features has another index"):
            run(D[NAMES], unsorted)
    weights = dd.from_pandas(frame["weight"].iloc[::-1], npartitions=3, sort=False)
    with pytest.raises(ValueError, match=r"partition \d: sample_weight has another index"):
        engine.moments(D[NAMES], D["sex"], sample_weight=weights)
    unknown = D["sex"].clear_divisions()
    assert_same_moments(engine.moments(D[NAMES], unknown), want(weighted=False), names=("sex",))


def watched_rows():
    """Return rows and labels in blocks, and a list that gets the length of each block computed."""
    counted = []

    def count(block):
        counted.append(len(block))
        return block

    X, labels, _ = small_rows()
    A = da.from_array(X, chunks=(100, -1)).map_blocks(count, meta=np.empty((0, 0)))
    return A, da.from_array(labels, chunks=100), counted


def test_memory_is_refused_before_the_work(frame):
    A, lazy, counted = watched_rows()
    one_group = 7 * 7 * 8
    for limit in (one_group - 1, 3 * one_group):
        with pytest.raises(MemoryError, match="fit_operators"):
            engine.moments(A, lazy, memory_limit=limit)
    assert not counted
    # Three groups, two of them and their sum at once: the least that a merge needs.
    engine.moments(A, lazy, memory_limit=9 * one_group)
    assert sum(counted) == len(A)


def test_rows_of_a_dask_array_are_computed_once_without_a_cluster_too():
    """`from_array` computed every chunk for each of its blocks, and `cross_fit` for each fold."""
    A, _, counted = watched_rows()
    _, labels, weight = small_rows()
    assert_same_moments(GroupMoments.from_array(A, labels, sample_weight=weight), want())
    assert sum(counted) == len(A)
    counted.clear()
    cross_fit(A, labels, n_components=2, n_repeats=1)
    assert sum(counted) == len(A)
    with pytest.raises(ValueError, match=r"unknown number of rows; call X.compute_chunk_sizes"):
        GroupMoments.from_array(A[A[:, 0] > 0], labels)


def test_files(tmp_path, frame):
    frame = frame.assign(sex=frame["sex"].astype(str))
    for i in range(3):
        part = pa.Table.from_pandas(frame[i * 200 : i * 200 + 200], preserve_index=False)
        pq.write_table(part, tmp_path / f"{i}.parquet", row_group_size=50)
    options = PARQUET_OPTIONS
    assert_same_moments(engine.read_moments([tmp_path], **options), want(), names=("sex",))
    tight = {**options, "memory_limit": 9 * 7 * 7 * 8}
    assert_same_moments(engine.read_moments([tmp_path], **tight), want(), names=("sex",))
    with pytest.raises(MemoryError, match="raise memory_limit"):
        engine.read_moments([tmp_path], **{**options, "memory_limit": 9 * 7 * 7 * 8 - 1})
    with pytest.raises(FileNotFoundError, match=r"none\.parquet does not exist"):
        engine.read_moments([tmp_path / "none.parquet"], **options)
    frame.loc[450, "x2"] = np.nan
    pq.write_table(pa.Table.from_pandas(frame[400:]), tmp_path / "2.parquet", row_group_size=50)
    with pytest.raises(ValueError, match=r"2\.parquet, data row 51 .*: column 'x2' holds NaN"):
        engine.read_moments([tmp_path], **options)
    pq.write_table(pa.Table.from_pandas(frame.drop(columns="x3")), tmp_path / "2.parquet")
    with pytest.raises(ValueError, match=r"2\.parquet has no column 'x3'"):
        engine.read_moments([tmp_path], **options)


def test_real_tables_on_a_cluster(client, tmp_path):
    X, labels = TABLES["DCC"]()
    A = da.from_array(X, chunks=(len(X) // 5, X.shape[1] // 2))
    assert_same_subspace(engine.moments(A, labels), X, labels, 5)
    X, labels = TABLES["LFW"]()
    # A twelfth of the pixels: the time goes into writing and reading columns.
    X = X[:, ::12]
    write_rows(tmp_path / "faces.parquet", X, labels, row_group_size=3000)
    found = engine.read_moments(
        [tmp_path / "faces.parquet"],
        sensitive_features=["group"],
        features=None,
        sample_weight=None,
        unlabelled="error",
        scheduler=None,
        memory_limit=None,
    )
    assert_same_subspace(found, X, labels, 10)


def test_a_worker_dies(client, tmp_path, frame):
    """Its partitions are counted again, and the bits are those of an undisturbed run."""
    X, labels, _ = small_rows()

    def slowly(block):
        time.sleep(0.15)
        return block

    A = da.from_array(X, chunks=(30, -1)).map_blocks(slowly, meta=np.empty((0, 0)))
    calm = engine.moments(da.from_array(X, chunks=(30, -1)), labels)
    before = client.run(os.getpid)
    killer = threading.Timer(0.8, os.kill, (next(iter(before.values())), signal.SIGKILL))
    killer.start()
    got = engine.moments(A, labels)
    killer.join()
    np.testing.assert_array_equal(got.scatter, calm.scatter)
    assert_same_moments(got, want(weighted=False))
    client.wait_for_workers(2, timeout=60)
    assert set(client.run(os.getpid).values()) != set(before.values())
    # The command line gives an address.
    pq.write_table(pa.Table.from_pandas(frame.assign(sex=labels)), tmp_path / "x.parquet")
    found = engine.read_moments(
        [tmp_path / "x.parquet"],
        sensitive_features=["sex"],
        features=NAMES,
        sample_weight=None,
        unlabelled="error",
        scheduler=client.scheduler.address,
        memory_limit=None,
    )
    assert_same_moments(found, want(weighted=False), names=("sex",))


def test_folds_are_those_of_rows_in_memory(frame, client):
    """By partition and position, for labels of a column, of another array and in memory."""
    frame = frame.assign(sex=frame["sex"].astype(str))
    D = dd.from_pandas(frame, npartitions=5)
    lengths = D.map_partitions(len).compute()
    fold = np.concatenate([row_folds(0, m, 3, part=i) for i, m in enumerate(lengths)])
    X, labels, weight = small_rows()
    expected = counted_in_memory(X, labels, fold, 3, weight)
    got = engine.moments(D, "sex", sample_weight="weight", n_folds=3)
    assert_same_folds(got, expected, engine.moments(D, "sex", sample_weight="weight"))
    A = D[NAMES].to_dask_array(lengths=True)
    for given in (labels, da.from_array(labels, chunks=(tuple(lengths),))):
        plain = engine.moments(A, given, sample_weight=weight)
        got = engine.moments(A, given, sample_weight=weight, n_folds=3)
        assert_same_folds(got, expected, plain)


def test_folds_cost_one_pass_and_their_memory_is_known_first():
    A, lazy, counted = watched_rows()
    one_group = 7 * 7 * 8
    for limit in (2 * one_group - 1, 3 * 6 * one_group - 1):
        with pytest.raises(MemoryError, match="fit_operators"):
            engine.moments(A, lazy, memory_limit=limit, n_folds=2)
    for n_folds in (1, 0):
        with pytest.raises(ValueError, match=f"n_folds={n_folds} .*leave n_folds out"):
            engine.moments(A, lazy, n_folds=n_folds)
    assert not counted
    # Six cells, two of such moments and their sum at once; in threads, which share the list.
    with dask.config.set(scheduler="threads"):
        engine.moments(A, lazy, memory_limit=3 * 6 * one_group, n_folds=2)
    assert sum(counted) == len(A)


class TestColumnsAndCells:
    def rows(self):
        return np.random.default_rng(0).normal(size=(60, 3)) * [3, 1, 1], ["a", "b"] * 30

    def test_a_fitted_name_is_no_pattern(self):
        X, labels = self.rows()
        frame = pd.DataFrame(X, columns=["x[0]", "y", "z"])
        model = FairPCA(1).fit(frame, sensitive_features=labels)
        other = dd.from_pandas(frame.rename(columns={"x[0]": "x0"}), npartitions=2)
        with pytest.raises(ValueError, match=r"lacks the column\(s\) 'x\[0\]'"):
            model.transform(other)

    def test_products_of_files_know_the_columns(self, tmp_path):
        X, labels = self.rows()
        frame = pd.DataFrame(X, columns=list("abc"))
        frame.assign(sex=labels).to_parquet(tmp_path / "t.parquet")
        cells = parquet.operators([tmp_path], sensitive_features=["sex"])
        model = FairPCA(1).fit_operators(cells)
        turned = dd.from_pandas(frame[["c", "b", "a"]], npartitions=2)
        np.testing.assert_allclose(model.transform(turned).compute(), model.transform(frame))
        with pytest.raises(ValueError, match="feature names should match"):
            model.transform(frame[["c", "b", "a"]])

    def test_hidden_and_complex_values_are_refused(self):
        X, labels = self.rows()
        hidden = np.zeros(X.shape, dtype=bool)
        hidden[3, 2] = True
        model = FairPCA(1).fit(X, sensitive_features=labels)
        parts = [da.from_array(part, chunks=(20, 3)) for part in (X, hidden)]
        masked = da.ma.masked_array(parts[0], mask=parts[1])
        for call in (
            lambda: model.transform(masked).compute(),
            lambda: engine.moments(masked, np.array(labels)),
        ):
            with pytest.raises(ValueError, match="masked array with 1 masked"):
                call()
        frame = pd.DataFrame({"a": X[:, 0] + 1j, "b": X[:, 1], "g": labels})
        with pytest.raises(ValueError, match="'a' has the type complex128"):
            FairPCA(1).fit(dd.from_pandas(frame, npartitions=2), sensitive_features="g")
