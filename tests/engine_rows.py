"""Rows for the tests of the engines, and what every engine's answer is compared with."""

from __future__ import annotations

from functools import reduce

import numpy as np

from fairpca import GroupMoments
from fairpca.moments.groups import block_folds, row_folds


def small_rows(m=600, n=7, seed=0):
    """Return rows far from zero, labels of three sizes, and weights."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, n)) * np.linspace(3, 0.5, n) + 100
    labels = rng.choice(["a", "b", "c"], size=m, p=[0.6, 0.35, 0.05])
    X[labels == "b"] @= np.linalg.qr(rng.normal(size=(n, n)))[0]
    return X, labels, rng.uniform(0.5, 2, size=m)


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


def folds_in_memory(X, labels, weight, n_folds, blocks=None):
    """Return the moments of every fold of rows in memory."""
    fold = row_folds(0, len(X), n_folds) if blocks is None else block_folds(blocks, n_folds)
    return [
        GroupMoments.from_array(X[fold == i], labels[fold == i], sample_weight=weight[fold == i])
        for i in range(n_folds)
    ]


def assert_same_folds(got, want, plain):
    """Compare folds with those of rows in memory, their sum with moments without folds."""
    assert len(got) == len(want)
    for one, other in zip(got, want, strict=True):
        assert_same_moments(one, other, names=plain.names)
    assert_same_moments(reduce(GroupMoments.merge, got), plain)
