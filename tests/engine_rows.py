"""Rows for the tests of the engines, and what every engine's answer is compared with."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from fairpca import FairPCA, GroupMoments, cross_fit

#: What Dask's `read_moments`, which has no defaults, is asked in tests of weighted Parquet files.
PARQUET_OPTIONS = dict(
    sensitive_features=["sex"],
    features=None,
    sample_weight="weight",
    unlabelled="error",
    scheduler=None,
    memory_limit=None,
)


def small_rows(m=600, n=7, seed=0):
    """Return rows far from zero, labels of three sizes, and weights."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, n)) * np.linspace(3, 0.5, n) + 100
    labels = rng.choice(["a", "b", "c"], size=m, p=[0.6, 0.35, 0.05])
    X[labels == "b"] @= np.linalg.qr(rng.normal(size=(n, n)))[0]
    return X, labels, rng.uniform(0.5, 2, size=m)


def write_rows(path, X, labels, **options):
    """Write rows as a Parquet file with columns x0, x1, ... and group."""
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])}
    pq.write_table(pa.table({**columns, "group": labels}), path, **options)


def assert_same_moments(got, want, names=None):
    """Compare moments to rounding, labels with their types."""
    assert got.labels == want.labels
    assert [type(label) for label in got.labels] == [type(label) for label in want.labels]
    assert got.names == (want.names if names is None else names)
    np.testing.assert_array_equal(got.count, want.count)
    np.testing.assert_allclose(got.weight, want.weight, rtol=1e-13)
    np.testing.assert_allclose(got.mean, want.mean, rtol=1e-12, atol=1e-13)
    scale = np.abs(want.scatter).max()
    np.testing.assert_allclose(got.scatter, want.scatter, rtol=0, atol=1e-12 * scale)


def assert_same_subspace(moments, X, labels, r):
    """Compare moments and projector with those of rows in memory."""
    whole = GroupMoments.from_array(X, labels)
    assert_same_moments(moments, whole, names=moments.names)
    got = FairPCA(r).fit_moments(moments)
    want = FairPCA(r).fit_moments(whole)
    assert projector_difference(got, want) <= 1e-10
    assert got.certificate_.optimal


def projector_difference(one, other):
    """Return the spectral norm of the difference of two models' projectors."""
    A, B = one.components_, other.components_
    return np.linalg.norm(A.T @ A - B.T @ B, 2)


def counted_in_memory(X, labels, fold, n_folds, weight=None):
    """Return the moments of every fold, for rows whose folds are known."""
    return [
        GroupMoments.from_array(
            X[fold == i],
            labels[fold == i],
            sample_weight=None if weight is None else weight[fold == i],
        )
        for i in range(n_folds)
    ]


def assert_same_folds(got, want, plain):
    """Compare folds with those of rows in memory, their sum with moments without folds."""
    assert len(got) == len(want)
    for one, other in zip(got, want, strict=True):
        assert_same_moments(one, other, names=plain.names)
    merged = reduce(GroupMoments.merge, got)
    assert merged.labels == plain.labels
    np.testing.assert_array_equal(merged.count, plain.count)
    for name in ("weight", "mean", "scatter"):
        ours, theirs = getattr(merged, name), getattr(plain, name)
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9 * np.abs(theirs).max())
    ours, theirs = (cross_fit(folds, n_components=[1, 3]) for folds in (got, want))
    assert ours.unchecked == theirs.unchecked
    for name in ("losses", "errors", "low", "high"):
        one, other = getattr(ours, name), getattr(theirs, name)
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9 * np.nanmax(theirs.errors))
