"""Dask collections give the moments, the answer and the projections of rows in memory."""

import os
import signal
import threading
import time

import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from fairpca import FairPCA, GroupMoments
from fairpca.distributed import check_columns
from fairpca.distributed import dask as engine

from engine_rows import assert_same_folds, assert_same_moments, folds_in_memory, small_rows

NAMES = [f"x{j}" for j in range(7)]


@pytest.fixture
def frame():
    X, labels, weight = small_rows()
    table = pd.DataFrame(X, columns=NAMES)
    # Declared levels belong to the whole table: most partitions lack some of them.
    return table.assign(sex=pd.Categorical(labels), weight=weight, person=np.arange(600) // 3)


def forms():
    """Yield every way to hand the same rows over."""
    X, labels, weight = small_rows()
    person = np.arange(600) // 3
    A = da.from_array(X, chunks=(70, 3))
    yield "arrays", A, *(da.from_array(v, chunks=150) for v in (labels, weight, person))
    yield "labels in memory", A, labels, weight, person.tolist()
    table = pd.DataFrame(X, columns=NAMES).assign(sex=labels, weight=weight, person=person)
    D = dd.from_pandas(table, npartitions=5)
    yield "names of columns", D, "sex", "weight", "person"
    yield "series", D[NAMES], D["sex"], D["weight"], D["person"]
    yield "frame of labels", D[NAMES], D[["sex"]], weight, D["person"]
    unknown = D[NAMES].to_dask_array().rechunk({1: 2})
    yield "unknown sizes", unknown, list(labels), D["weight"].to_dask_array(), person


@pytest.mark.parametrize("form", list(forms()), ids=lambda form: form[0])
def test_every_way_to_hand_rows_over(form):
    """Moments, and folds by position and by block, are those of the rows in memory."""
    _, D, labels, weight, person = form
    X, *rest = small_rows()
    want = GroupMoments.from_array(X, rest[0], sample_weight=rest[1])
    got = engine.moments(D, labels, sample_weight=weight, blocks=person)
    assert got.names in (("sex",), ("sensitive_feature",))
    assert_same_moments(got, want, names=got.names)
    for blocks, given in ((np.arange(600) // 3, person), (None, None)):
        if given is None and isinstance(person, str):
            D = D.drop(columns=person)
        folds = engine.moments(D, labels, sample_weight=weight, n_folds=3, blocks=given)
        assert_same_folds(folds, folds_in_memory(X, *rest, 3, blocks), got)


def test_pieces_are_unequal(frame):
    """A partition without rows, a group in one partition, weights that are zero in another."""
    X, labels, weight = small_rows()
    want = GroupMoments.from_array(X, labels, sample_weight=weight)
    D = dd.from_pandas(frame.sort_values("sex", ignore_index=True), npartitions=6, sort=False)
    D = dd.concat([D, D.loc[D["x0"] > 1e9]]).drop(columns="person")
    assert_same_moments(engine.moments(D, "sex", sample_weight="weight"), want, names=("sex",))
    weight[:100] = 0
    got = engine.moments(da.from_array(X, chunks=(100, -1)), labels, sample_weight=weight)
    assert_same_moments(got, GroupMoments.from_array(X, labels, sample_weight=weight))


def test_several_columns_and_missing_labels(frame):
    frame = frame.assign(code=np.arange(len(frame)) % 2, sex=frame["sex"].astype(object))
    frame.loc[5, "sex"] = None
    D = dd.from_pandas(frame, npartitions=4)
    labels, X = frame[["sex", "code"]].to_dict("list"), frame[NAMES].to_numpy()
    for group_by in ("intersection", "marginal"):
        rules = dict(group_by=group_by, unlabelled="ignore")
        got = engine.moments(D.drop(columns=["weight", "person"]), ["sex", "code"], **rules)
        assert_same_moments(got, GroupMoments.from_array(X, labels, **rules))
    with pytest.raises(ValueError, match=r"partition 0: .*1 missing label"):
        engine.moments(D[NAMES], D["sex"])


@pytest.mark.parametrize("options", [{}, {"whiten": True}, {"shrinkage": "auto"}])
def test_fit_and_transform_are_those_of_rows_in_memory(frame, options):
    D = dd.from_pandas(frame.drop(columns="person"), npartitions=3)
    model = FairPCA(2, **options).fit(D, sensitive_features="sex", sample_weight="weight")
    labels = {"sensitive_features": frame["sex"], "sample_weight": frame["weight"]}
    whole = FairPCA(2, **options).fit(frame[NAMES], **labels)
    np.testing.assert_allclose(model.components_, whole.components_, atol=1e-9)
    assert list(model.feature_names_in_) == NAMES
    # Columns by name, in any order, with others beside them; one partition is empty.
    D = dd.from_pandas(frame[frame.columns[::-1]].set_index(frame.index + 7), npartitions=3)
    D = dd.concat([D, D.loc[D["x0"] > 1e9]])
    Z = model.transform(D)
    assert (Z.npartitions, list(Z.columns)) == (D.npartitions, ["fairpca0", "fairpca1"])
    pd.testing.assert_index_equal(Z.compute().index, frame.index + 7, exact=False)
    np.testing.assert_allclose(Z.compute(), whole.transform(frame[NAMES]), atol=1e-8)
    A = da.from_array(frame[NAMES].to_numpy(np.float32), chunks=(100, 4))
    Z = model.transform(A)
    assert (Z.chunks, Z.dtype, Z.compute().dtype) == ((A.chunks[0], (2,)), np.float32, np.float32)


def test_errors_name_partition_column_and_remedy(frame):
    X, labels, _ = small_rows()
    X[333, 4] = np.nan
    A, D = da.from_array(X, chunks=(100, -1)), dd.from_pandas(frame, npartitions=3)
    for call, match in [
        (lambda: engine.moments(A, labels), r"partition 3: .*NaN"),
        (lambda: engine.moments(D), r"partition \d: .*no numbers in the column\(s\) 'sex'"),
        (lambda: engine.moments(D, "age"), "X has no column 'age'"),
        (lambda: engine.moments(A[:500], labels), "600 rows .*but X has 500"),
        (lambda: engine.moments(A[:500], da.from_array(labels)), "Chunks do not add up"),
        (lambda: engine.moments(D[NAMES], dd.from_pandas(frame["sex"], 5)), r"5 partition"),
        (lambda: engine.moments(A[:0], labels[:0]), "no rows"),
        (lambda: engine.moments(A[0]), "1 dimension"),
    ]:
        with pytest.raises(ValueError, match=match):
            call()
    with pytest.raises(MemoryError, match=r"1,000,000 columns, .* fit .*; choose columns"):
        check_columns((), (), 1_000_000)


def test_every_row_is_computed_once():
    """Chunks are neither computed for each fold nor for labels, weights and rows apart."""
    X, labels, weight = small_rows()
    counted = []

    def count(block):
        counted.append(len(block))
        return block

    A = da.from_array(X, chunks=(100, -1)).map_blocks(count, meta=np.empty((0, 0)))
    engine.moments(A, da.from_array(labels, chunks=100), sample_weight=weight, n_folds=3)
    assert sum(counted) == len(X)


@pytest.mark.slow
def test_a_worker_of_a_cluster_dies():
    """Its partitions are counted again, and the bits are those of an undisturbed run."""
    import distributed

    X, labels, _ = small_rows()

    def slowly(block):
        time.sleep(0.15)
        return block

    options = dict(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0")
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        A = da.from_array(X, chunks=(30, -1))
        calm = engine.moments(A, labels)
        before = client.run(os.getpid)
        killer = threading.Timer(0.8, os.kill, (next(iter(before.values())), signal.SIGKILL))
        killer.start()
        got = engine.moments(A.map_blocks(slowly, meta=np.empty((0, 0))), labels)
        killer.join()
        client.wait_for_workers(2, timeout=60)
        assert set(client.run(os.getpid).values()) != set(before.values())
        model = FairPCA(2).fit(A, sensitive_features=labels)
        projected = model.transform(A).compute()
    np.testing.assert_array_equal(got.scatter, calm.scatter)
    assert_same_moments(got, GroupMoments.from_array(X, labels))
    np.testing.assert_allclose(projected, model.transform(X), atol=1e-9)
