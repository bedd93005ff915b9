"""Folds of files are those of rows in memory, counted in one pass over the rows."""

from collections import Counter
from functools import reduce

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pytest
from fairpca.io.sources import Batch

from fairpca import GroupMoments, cross_fit
from fairpca.distributed import dask
from fairpca.io import read_moments
from fairpca.moments.groups import Groups, row_folds

from engine_rows import (
    PARQUET_OPTIONS,
    assert_same_folds,
    assert_same_moments,
    counted_in_memory,
    small_rows,
)

NAMES = [f"x{j}" for j in range(7)]
OPTIONS = dict(sensitive_features="sex", sample_weight="weight", batch_rows=70)


def write_parts(folder, kind, rows=((0, 130), (130, 137), (137, 600))):
    """Write the rows as files of unequal lengths and return their paths."""
    X, labels, weight = small_rows()
    frame = pd.DataFrame(X, columns=NAMES).assign(sex=labels, weight=weight)
    paths = []
    for i, (start, stop) in enumerate(rows):
        path, part = folder / f"{i}.{kind}", frame.iloc[start:stop]
        if kind == "parquet":
            part.to_parquet(path, index=False, row_group_size=50)
        elif kind == "feather":
            table = pa.Table.from_pandas(part, preserve_index=False)
            pyarrow.feather.write_feather(table, path, chunksize=50)
        else:
            part.to_csv(path, index=False)
        paths.append(path)
    return paths


def expected(n_folds):
    X, labels, weight = small_rows()
    return counted_in_memory(X, labels, row_folds(0, len(X), n_folds), n_folds, weight)


@pytest.fixture
def rows_read(monkeypatch):
    """Count how often every row of every file is counted."""
    seen = Counter()
    count = Batch.count

    def spy(self):
        rows = range(self.first_row, self.first_row + len(self.groups.codes))
        seen.update((self.where, row) for row in rows)
        return count(self)

    monkeypatch.setattr(Batch, "count", spy)
    return seen


@pytest.mark.parametrize("kind", ["parquet", "feather", "csv"])
def test_files(tmp_path, kind, rows_read):
    paths = write_parts(tmp_path, kind)
    got = read_moments(paths, n_folds=4, **OPTIONS)
    assert len(rows_read) == 600
    assert set(rows_read.values()) == {1}
    assert_same_folds(got, expected(4), read_moments(paths, **OPTIONS))


@pytest.mark.parametrize("order", ["C", "F"])
def test_memory_maps(tmp_path, order):
    X, labels, weight = small_rows()
    np.save(tmp_path / "x.npy", np.asarray(X, order=order))
    options = dict(sensitive_features=labels, batch_rows=70)
    for weights in (None, weight):
        options["sample_weight"] = weights
        got = read_moments(tmp_path / "x.npy", n_folds=4, **options)
        want = counted_in_memory(X, labels, row_folds(0, len(X), 4), 4, weights)
        assert_same_folds(got, want, read_moments(tmp_path / "x.npy", **options))


def test_parquet_on_dask_has_the_folds_of_files(tmp_path):
    paths = write_parts(tmp_path, "parquet")
    got = dask.read_moments(paths, n_folds=4, **PARQUET_OPTIONS)
    assert_same_folds(got, expected(4), dask.read_moments(paths, **PARQUET_OPTIONS))


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_neither_pieces_nor_interruptions_move_a_row(tmp_path, kind):
    """The fold follows from the number of the row, however the files are cut and read."""

    class Stop(Exception):
        pass

    def stop(state):
        if state.rows > 250:
            raise Stop

    (tmp_path / "data").mkdir()
    paths = write_parts(tmp_path / "data", kind)
    whole = read_moments(paths, n_folds=3, **OPTIONS | {"batch_rows": None})
    options = {**OPTIONS, "n_folds": 3, "checkpoint": tmp_path / "c.npz"}
    with pytest.raises(Stop):
        read_moments(paths, progress=stop, **options)
    for n_folds in (None, 4):
        with pytest.raises(ValueError, match=r"other n_folds.*deleting"):
            read_moments(paths, **options | {"n_folds": n_folds})
    resumed = read_moments(paths, n_jobs=1, **options)
    processes = read_moments(paths, n_folds=3, n_jobs=2, backend="process", **OPTIONS)
    for one, two, three in zip(whole, resumed, processes, strict=True):
        assert_same_moments(two, one)
        np.testing.assert_array_equal(three.scatter, two.scatter)


def test_a_fold_lacks_groups_that_it_has_no_row_of(tmp_path):
    """Unlabelled rows keep their fold; groups of two columns and of mixed types keep theirs."""
    X, labels, _ = small_rows()
    sex, city = labels.astype(object), np.resize(["u", "v"], len(X))
    sex[:40] = None
    sex[-1] = "rare"
    frame = pd.DataFrame(X, columns=NAMES).assign(sex=sex, city=city)
    frame.to_parquet(tmp_path / "x.parquet")
    fold = row_folds(0, len(X), 3)
    rules = dict(unlabelled="ignore", group_by="intersection")
    for columns in (["sex"], ["sex", "city"]):
        got = read_moments(
            tmp_path / "x.parquet",
            sensitive_features=columns,
            features=NAMES,
            n_folds=3,
            **rules,
        )
        for i, one in enumerate(got):
            rows = frame[fold == i]
            assert_same_moments(one, GroupMoments.from_array(X[fold == i], rows[columns], **rules))
    holders = [i for i, one in enumerate(got) if ("rare", city[-1]) in one.labels]
    assert holders == [fold[-1]]
    assert ("rare", city[-1]) in cross_fit(got, n_components=2).unchecked


def test_more_folds_than_rows(tmp_path):
    write_parts(tmp_path, "parquet", rows=((0, 5),))
    got = read_moments(tmp_path, n_folds=40, sensitive_features="sex")
    assert [one.count.sum() for one in got] == np.bincount(
        row_folds(0, 5, 40), minlength=40
    ).tolist()
    assert reduce(GroupMoments.merge, got).count.sum() == 5


@pytest.mark.parametrize("n_folds", [1, 0, -3, 2.5, True, "3"])
def test_numbers_of_folds_that_make_no_sense(tmp_path, n_folds):
    paths = write_parts(tmp_path, "parquet")
    with pytest.raises(ValueError, match=rf"n_folds={n_folds!r} .*at least 2.*leave n_folds out"):
        read_moments(paths, n_folds=n_folds, **OPTIONS)


def test_memory_of_all_folds_is_asked_for_first(tmp_path):
    paths = write_parts(tmp_path, "parquet")
    seen = []
    with pytest.raises(MemoryError, match=r"5 group\(s\) of 7 features"):
        read_moments(
            paths,
            n_folds=5,
            memory_limit=4 * 7 * 7 * 8 * 3,
            n_jobs=1,
            progress=seen.append,
            **OPTIONS,
        )
    assert not seen


def test_folds_by_position():
    """Any piece finds its own folds, folds are even, and parts differ."""
    whole = row_folds(0, 50_000, 5)
    pieces = [row_folds(start, 1000, 5) for start in range(0, 50_000, 1000)]
    np.testing.assert_array_equal(np.concatenate(pieces), whole)
    np.testing.assert_allclose(np.bincount(whole), 10_000, rtol=0.04)
    assert np.mean(whole == row_folds(0, 50_000, 5, part=1)) < 0.25
    # Written down, so that folds stay the same from version to version.
    assert row_folds(0, 12, 5).tolist() == [1, 2, 4, 3, 1, 4, 2, 2, 3, 1, 0, 4]
    assert row_folds(10**9, 6, 5, part=3).tolist() == [1, 4, 1, 2, 0, 4]
    groups = Groups.from_labels(["b", None, "a", "b"], unlabelled="ignore")
    cells = groups.in_folds(np.array([1, 0, 1, 1]), 2)
    assert [cells.labels[code] for code in cells.codes] == [
        (1, "b"),
        (0, None),
        (1, "a"),
        (1, "b"),
    ]
