"""Moments of sparse rows are those of the dense ones, also where digits are easily lost."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from fairpca import FairPCA, GroupMoments
from fairpca.moments import sparse_scatter


def sparse_table(m, n, stored, seed):
    """Return rows of which this share is stored, as CSR."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, n)) * (rng.random((m, n)) < stored)
    return scipy.sparse.csr_array(X)


@pytest.fixture
def always_sparse(monkeypatch):
    monkeypatch.setattr(sparse_scatter, "_SPARSE_COST", 0)
    monkeypatch.setattr(sparse_scatter, "_MOST_DENSE", np.inf)


@pytest.fixture
def calls(monkeypatch):
    """What every group of sparse rows was counted as: its weight, or None for dense blocks."""
    found = []
    add = sparse_scatter.count_sparse

    def watched(*args):
        found.append(add(*args))
        return found[-1]

    monkeypatch.setattr("fairpca.moments.scatter.count_sparse", watched)
    return found


def assert_like_dense(X, codes, weight=None):
    """Compare with the dense rows, entry by entry beside the deviations of both columns."""
    got = GroupMoments.from_array(X, codes, sample_weight=weight)
    expected = GroupMoments.from_array(X.toarray(), codes, sample_weight=weight)
    np.testing.assert_allclose(got.weight, expected.weight)
    np.testing.assert_allclose(got.mean, expected.mean, rtol=1e-12, atol=1e-300)
    deviation = np.sqrt(np.einsum("kii->ki", expected.scatter))
    np.testing.assert_array_equal(np.einsum("kii->ki", got.scatter) == 0, deviation == 0)
    scale = deviation[:, :, None] * deviation[:, None, :]
    # Rounding of a mean far from zero is all that rows of either form have in common.
    far = np.abs(expected.mean) * np.sqrt(expected.weight)[:, None]
    reach = deviation + 1e-15 * far
    slack = 1e-12 * scale + 1e-14 * reach[:, :, None] * reach[:, None, :]
    assert np.all(np.abs(got.scatter - expected.scatter) <= slack)
    np.testing.assert_array_equal(got.scatter, got.scatter.transpose(0, 2, 1))


@given(
    st.tuples(st.integers(1, 60), st.integers(1, 12), st.integers(0, 2**31)),
    st.sampled_from([0.0, 0.05, 0.3, 0.7, 1.0]),
    st.sampled_from([None, 0.0, 1.0, 1e3, -1e6]),
    st.sampled_from(["none", "random", "some zero", "one large"]),
    st.sampled_from(["f8", "f4", "i4"]),
)
@pytest.mark.usefixtures("always_sparse")
def test_like_dense_rows(shape, stored, offset, weighting, dtype):
    m, n, seed = shape
    rng = np.random.default_rng(seed)
    X = sparse_table(m, n, stored, seed).toarray() * 10
    if offset is not None:
        # A column that is stored in every row, far from zero.
        X[:, 0] = offset + rng.normal(size=m)
    X = scipy.sparse.csr_array(X.astype(dtype))
    codes = np.arange(m) % min(3, m)
    weight = {
        "none": None,
        "random": rng.uniform(0.1, 3, size=m),
        "some zero": np.where(codes == 0, 0.0, rng.uniform(0.1, 3, size=m)),
        "one large": np.r_[1e6, rng.uniform(0.1, 3, size=m - 1)],
    }[weighting]
    assert_like_dense(X, codes, weight)


@pytest.mark.parametrize("mean", [1.0, 1e8])
def test_columns_that_are_stored_in_every_row_lose_no_digits(mean, calls):
    rng = np.random.default_rng(3)
    X = sparse_table(3000, 80, 0.02, 3).toarray()
    X[:, :3] = mean + rng.normal(size=(3000, 3))
    X[:, 3] = mean
    X = scipy.sparse.csr_array(X)
    assert_like_dense(X, np.arange(3000) % 2)
    assert calls == [1500.0, 1500.0]
    moments = GroupMoments.from_array(X, np.arange(3000) % 2)
    assert np.all(moments.scatter[:, 3] == 0)
    assert np.all(moments.scatter[:, :, 3] == 0)


def test_entries_in_any_order_and_more_than_once(calls):
    rng = np.random.default_rng(4)
    m, n, entries = 2000, 60, 3000
    where = (rng.integers(0, m, size=entries), rng.integers(0, n, size=entries))
    values = rng.normal(size=entries)
    # Twice the same column in a row, and columns that are not sorted.
    order = np.lexsort((rng.random(entries), where[0]))
    indptr = np.r_[0, np.cumsum(np.bincount(where[0], minlength=m))]
    X = scipy.sparse.csr_array((values[order], where[1][order], indptr), shape=(m, n))
    assert not X.has_canonical_format
    kept = X.data.copy(), X.indices.copy()
    assert_like_dense(X, np.arange(m) % 2)
    assert calls == [1000.0, 1000.0]
    np.testing.assert_array_equal(X.data, kept[0])
    np.testing.assert_array_equal(X.indices, kept[1])


def test_full_rows_are_counted_as_dense_ones(calls):
    GroupMoments.from_array(sparse_table(200, 30, 0.5, 5), np.arange(200) % 2)
    assert calls == [None, None]


def test_dense_columns_do_not_outgrow_the_table(calls):
    # All the weight is that of one full row, beside whose mean no other row counts.
    X = sparse_table(2000, 60, 0.01, 6).toarray()
    X[0] = 5.0
    weight = np.r_[1e9, np.ones(1999)]
    assert_like_dense(scipy.sparse.csr_array(X), np.zeros(2000, dtype=int), weight)
    assert calls == [None]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_named(bad, calls):
    X = sparse_table(2000, 60, 0.01, 7)
    X.data[10] = bad
    with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
        FairPCA(2).fit(X, sensitive_features=np.arange(2000) % 2)
    assert calls[0] is not None


def test_threads_change_no_bit(monkeypatch, calls):
    X = sparse_table(4000, 300, 0.02, 8)
    found = []
    for threads in (1, 4):
        monkeypatch.setattr(sparse_scatter, "available_threads", lambda threads=threads: threads)
        found.append(GroupMoments.from_array(X, np.arange(4000) % 3).scatter)
    np.testing.assert_array_equal(*found)
    assert None not in calls
