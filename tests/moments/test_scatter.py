"""The scatter of rows, dense and sparse, keeps its digits far from zero."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from fairpca import FairPCA, GroupMoments


def sparse_table(m, n, stored, seed):
    """Return rows of which this share is stored, as CSR."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, n)) * (rng.random((m, n)) < stored)
    return scipy.sparse.csr_array(X)


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


def test_entries_in_any_order_and_more_than_once():
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
    np.testing.assert_array_equal(X.data, kept[0])
    np.testing.assert_array_equal(X.indices, kept[1])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_named(bad):
    X = sparse_table(2000, 60, 0.01, 7)
    X.data[10] = bad
    with pytest.raises(ValueError, match=r"contains (NaN|infinity)"):
        FairPCA(2).fit(X, sensitive_features=np.arange(2000) % 2)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize(("mean", "drift"), [(0, 0), (1e6, 0), (1e8, 0), (0, 1e6)])
def test_against_extended_precision(order, mean, drift):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, 9000)
    X = rng.normal(size=(9000, 6)) * 10 ** rng.uniform(-2, 2, 6)
    X = X + (mean + np.linspace(0, drift, 9000))[:, None] * X.std(axis=0)
    got = GroupMoments.from_array(np.asarray(X, order=order), codes).scatter
    for g in range(3):
        rows = X[codes == g].astype(np.longdouble)
        rows = rows - rows.mean(axis=0)
        want = np.asarray(rows.T @ rows, dtype=float)
        size = np.sqrt(np.diag(want))
        assert np.all(np.abs(got[g] - want) <= 1e-13 * np.outer(size, size))
