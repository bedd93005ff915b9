"""Moments: exact in any order, any chunking, any weights."""

import itertools
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairpca import GroupMoments, Groups


def direct(X, codes, weight, k):
    """Two-pass moments in extended precision."""
    X, weight = X.astype(np.longdouble), weight.astype(np.longdouble)
    means, scatters = [], []
    for group in range(k):
        rows, w = X[codes == group], weight[codes == group]
        mean = (w[:, None] * rows).sum(axis=0) / w.sum()
        means.append(mean)
        scatters.append((rows - mean).T @ (w[:, None] * (rows - mean)))
    return np.array(means, dtype=float), np.array(scatters, dtype=float)


shapes = st.tuples(
    st.integers(1, 60), st.integers(1, 6), st.integers(1, 4), st.integers(0, 2**31), st.booleans()
)


@given(shapes, st.sampled_from([0.0, 1e3, -1e6]), st.sampled_from(["f8", "f4", "i2"]))
def test_against_extended_precision(shape, offset, dtype):
    m, n, k, seed, weighted = shape
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(m, n)) * 10 + (offset if dtype != "i2" else 0)).astype(dtype)
    codes = np.r_[np.arange(min(k, m)), rng.integers(0, min(k, m), size=m - min(k, m))]
    weight = rng.uniform(0.1, 3, size=m) if weighted else np.ones(m)
    got = GroupMoments.from_array(X, codes, sample_weight=weight if weighted else None)
    mean, scatter = direct(X, codes, weight, min(k, m))
    np.testing.assert_allclose(got.mean, mean, rtol=1e-12, atol=1e-12)
    size = max(1.0, np.abs(scatter).max(), abs(offset) * 1e-3)
    np.testing.assert_allclose(got.scatter, scatter, atol=1e-11 * size)
    assert got.count.sum() == m


@given(st.integers(0, 2**31), st.lists(st.integers(0, 40), min_size=1, max_size=6))
def test_any_chunking_and_order_of_merges(seed, cuts):
    rng = np.random.default_rng(seed)
    X, labels = rng.normal(size=(40, 3)) + 100, rng.choice(["a", "b", "c"], size=40)
    weight = rng.uniform(0, 2, size=40) + 1e-3
    whole = GroupMoments.from_array(X, labels, sample_weight=weight)
    edges = sorted({0, 40, *cuts})
    parts = [
        GroupMoments.from_array(X[a:b], labels[a:b], sample_weight=weight[a:b])
        for a, b in itertools.pairwise(edges)
    ]
    order = rng.permutation(len(parts))
    merged = parts[order[0]]
    for i in order[1:]:
        merged = merged.merge(parts[i])
    assert merged.labels == whole.labels
    np.testing.assert_allclose(merged.weight, whole.weight)
    np.testing.assert_allclose(merged.mean, whole.mean, rtol=1e-13)
    np.testing.assert_allclose(merged.scatter, whole.scatter, atol=1e-10)


def test_marginal_groups_are_merges_of_cells():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(90, 3))
    sex, race = rng.choice(["f", "m"], size=90), rng.choice(["x", "y", "z"], size=90)
    cells = GroupMoments.from_array(X, {"sex": sex, "race": race})
    marginal = cells.grouped("marginal")
    assert marginal.labels == (
        ("sex", "f"),
        ("sex", "m"),
        ("race", "x"),
        ("race", "y"),
        ("race", "z"),
    )
    alone = GroupMoments.from_array(X, race)
    np.testing.assert_allclose(marginal.scatter[2:], alone.scatter)
    np.testing.assert_allclose(cells.pooled().scatter[0], GroupMoments.from_array(X).scatter[0])


def test_unlabelled_rows_are_a_cell_but_no_group():
    X = np.arange(12.0).reshape(4, 3)
    moments = GroupMoments.from_array(X, ["a", None, "b", "a"], unlabelled="ignore")
    assert moments.labels == (None, "a", "b")
    assert moments.grouped().labels == ("a", "b")
    assert moments.pooled().count[0] == 4


@pytest.mark.parametrize(
    "labels", [["a", "b", "a"], [1, 2, 1], [True, False, True], [("a", 1)] * 3]
)
def test_saved_labels_keep_their_type(labels, tmp_path):
    X = np.eye(3)
    moments = GroupMoments.from_array(
        X,
        {"g": labels}
        if not isinstance(labels[0], tuple)
        else {"g": [x[0] for x in labels], "h": [x[1] for x in labels]},
    )
    moments.save(tmp_path / "m.npz")
    loaded = GroupMoments.load(tmp_path / "m.npz")
    assert loaded.labels == moments.labels
    assert [type(a) for a in loaded.labels] == [type(a) for a in moments.labels]


def test_a_failed_save_leaves_the_old_file(tmp_path):
    import datetime

    path = tmp_path / "m.npz"
    GroupMoments.from_array(np.eye(3), ["a", "b", "a"]).save(path)
    before = path.read_bytes()
    odd = GroupMoments.from_array(
        np.eye(2), [datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)]
    )
    with pytest.raises(ValueError, match="cannot be saved; use strings"):
        odd.save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["m.npz"]


def test_load_refuses_other_files(tmp_path):
    np.savez(tmp_path / "x.npz", a=1)
    with pytest.raises(ValueError, match="not a moments file"):
        GroupMoments.load(tmp_path / "x.npz")


@pytest.mark.parametrize(
    "other,match",
    [
        (lambda: GroupMoments.from_array(np.eye(4), {"g": list("abab")}), "3 and of 4 features"),
        (lambda: GroupMoments.from_array(np.eye(3), {"h": list("aba")}), "grouped by"),
    ],
)
def test_unlike_moments_do_not_merge(other, match):
    with pytest.raises(ValueError, match=match):
        GroupMoments.from_array(np.eye(3), {"g": list("aba")}).merge(other())


def test_rows_must_be_a_finite_table():
    with pytest.raises(ValueError, match="1 dimension"):
        GroupMoments.from_array(np.ones(3), ["a", "b", "a"])
    with pytest.raises(ValueError, match="X contains NaN"):
        GroupMoments.from_array(np.array([[np.nan], [1.0]]), ["a", "b"])


@pytest.mark.parametrize("weight", [None, 0.3])
@pytest.mark.parametrize("value", [0.1, 1e8 / 3])
def test_a_constant_column_has_no_variance_at_all(value, weight):
    """Otherwise "relative" and "share" divide by rounding dust."""
    X = np.full((7, 2), value)
    X[:, 1] = np.arange(7)
    moments = GroupMoments.from_array(X, sample_weight=weight)
    assert np.all(moments.scatter[0, 0] == 0)
    assert moments.scatter[0, 1, 1] > 0


@pytest.mark.parametrize("size", [1e-3, 1e6])
def test_a_constant_group_has_no_variance_in_pieces_either(size):
    """Each piece has an origin of its own; what lies near or far from it is rounded."""
    rng = np.random.default_rng(0)
    X, labels = rng.normal(1.0, 1.0, size=(60, 9)), np.arange(60) % 3
    X[labels == 2] = rng.normal(0.0, size, size=9)
    pieces = [GroupMoments.from_array(X[i : i + 20], labels[i : i + 20]) for i in (0, 20, 40)]
    merged = pieces[0].merge(pieces[1]).merge(pieces[2])
    assert not merged.covariances[2].any()
    assert merged.covariances[1].any()


@pytest.mark.parametrize("shape", [(9000, 24), (2500, 450)])
@pytest.mark.parametrize("offset", [0.0, 1e4])
def test_many_blocks_are_one(shape, offset):
    """Threads, strands and blocks, few columns and many, rows squared first or centred first."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=shape) + offset
    weight = rng.integers(0, 3, len(X)).astype(float)
    # Whole blocks of one group without weight.
    weight[: len(X) // 2] = 0.0
    labels = np.where(np.arange(len(X)) % 3 == 0, "a", "b")
    for w in (None, weight):
        found = GroupMoments.from_array(X, labels, sample_weight=w)
        for i, label in enumerate("ab"):
            rows = X[labels == label]
            v = np.ones(len(rows)) if w is None else w[labels == label]
            mean = v @ rows / v.sum()
            want = (rows - mean).T @ ((rows - mean) * v[:, None])
            np.testing.assert_allclose(found.mean[i], mean, rtol=1e-12, atol=1e-14)
            np.testing.assert_allclose(found.scatter[i], want, atol=1e-9 * np.abs(want).max())


@pytest.mark.parametrize("rows", [8, 12])
def test_groups_of_other_rows_are_refused(rows):
    groups = Groups.from_labels(np.arange(rows) % 2)
    with pytest.raises(ValueError, match=f"sensitive_features has {rows} rows but X has 10"):
        GroupMoments.from_array(np.ones((10, 3)), groups)


def counted_with_peak(X, codes):
    """Return the moments of rows, and the most memory that counting them took."""
    tracemalloc.start()
    try:
        return GroupMoments.from_array(X, codes), tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("order", ["C", "F"])
def test_wide_rows_are_added_up_in_the_matrices_they_end_in(order):
    # A second matrix for every group would be as much memory once more.
    rng = np.random.default_rng(0)
    X = np.asarray(rng.normal(3.0, 1.0, size=(1_200, 600)), order=order)
    codes = rng.integers(0, 8, size=len(X))
    got, peak = counted_with_peak(X, codes)
    assert peak < 1.5 * got.scatter.nbytes
    for i, scatter in enumerate(got.scatter):
        centred = X[codes == i] - X[codes == i].mean(axis=0)
        np.testing.assert_allclose(scatter, centred.T @ centred, rtol=1e-12, atol=1e-10)
        np.testing.assert_array_equal(scatter, scatter.T)


@pytest.mark.parametrize("kind", ["Int64", "boolean", "double[pyarrow]"])
def test_gaps_of_nullable_columns_are_missing_values(kind):
    """They ended in an error of Python's about pandas' NAType."""
    frame = pd.DataFrame({"x": [0, 1, 0, 1], "y": [1, 1, 0, 0]}).astype(kind)
    whole = GroupMoments.from_array(frame, list("aabb"))
    np.testing.assert_array_equal(whole.mean, [[0.5, 1], [0.5, 0]])
    with pytest.raises(ValueError, match="X contains NaN"):
        GroupMoments.from_array(frame.mask(frame["x"] == 0), list("aabb"))
