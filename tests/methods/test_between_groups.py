"""How different the groups look after projection, and to a classifier."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from fairpca.metrics import (
    balanced_draw,
    covariance_gap,
    gaussian_product,
    held_out_parity,
    mean_gap,
    median_bandwidth,
    mmd_squared,
)


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 3, 300)
    return rng.normal(size=(300, 4)) * (1 + group[:, None]) + group[:, None], group


def test_gaps_are_those_of_the_most_different_pair(rows):
    X, group = rows
    pca = PCA(2).fit(X)
    Z = pca.transform(X)
    parts = [Z[group == g] for g in range(3)]
    pairs = [(0, 1), (0, 2), (1, 2)]
    means = [np.linalg.norm(parts[i].mean(axis=0) - parts[j].mean(axis=0)) for i, j in pairs]
    covs = [np.cov(part.T, bias=True) for part in parts]
    differences = [np.linalg.norm(covs[i] - covs[j], 2) for i, j in pairs]
    assert mean_gap(pca, X, sensitive_features=group) == pytest.approx(max(means))
    assert covariance_gap(pca, X, sensitive_features=group) == pytest.approx(max(differences))
    assert mean_gap(pca, X) == covariance_gap(pca, X) == 0
    separate = [
        mmd_squared(
            pca, X[np.isin(group, pair)], sensitive_features=group[np.isin(group, pair)],
            bandwidth=2.0,
        )
        for pair in pairs
    ]  # fmt: skip
    together = mmd_squared(pca, X, sensitive_features=group, bandwidth=2.0)
    assert together == pytest.approx(max(separate))


def test_weights_are_repeated_rows(rows):
    X, group = rows
    weight = np.random.default_rng(1).integers(1, 4, 300)
    again, labels = np.repeat(X, weight, axis=0), np.repeat(group, weight)
    reducer = np.eye(4)[:2]
    for metric in (mean_gap, covariance_gap):
        assert metric(reducer, X, sensitive_features=group, sample_weight=weight) == pytest.approx(
            metric(reducer, again, sensitive_features=labels)
        )
    assert mmd_squared(
        reducer, X, sensitive_features=group, sample_weight=weight, bandwidth=1.5
    ) == pytest.approx(mmd_squared(reducer, again, sensitive_features=labels, bandwidth=1.5))


def test_identical_groups_cannot_be_told_apart(rows):
    X, _ = rows
    both, group = np.vstack([X, X]), np.repeat(["a", "b"], 300)
    reducer = np.eye(4)[:3]
    assert mean_gap(reducer, both, sensitive_features=group) < 1e-12
    assert covariance_gap(reducer, both, sensitive_features=group) < 1e-12
    assert abs(mmd_squared(reducer, both, sensitive_features=group)) < 1e-12


@pytest.mark.parametrize("m", [1, 127, 128, 300])
def test_kernel_product_in_blocks(m):
    rng = np.random.default_rng(m)
    Z, vectors = rng.normal(size=(m, 3)), rng.normal(size=(m, 2))
    K = np.exp(-((Z[:, None] - Z) ** 2).sum(axis=2) / 2)
    np.testing.assert_allclose(gaussian_product(Z, vectors), K @ vectors, atol=1e-12)


def test_bandwidth():
    Z = np.array([[0.0], [1.0], [3.0]])
    assert median_bandwidth(Z) == pytest.approx(np.sqrt(4 / 2))
    # More than half of the pairs coincide, then all of them.
    assert median_bandwidth([[0.0]] * 9 + [[2.0]]) == pytest.approx(np.sqrt(2))
    assert median_bandwidth(np.zeros((5, 2))) == 1.0


def test_a_draw_keeps_small_groups():
    codes = np.repeat([0, 1, 2], [20, 5000, 900])
    chosen = balanced_draw(codes, 1000)
    assert np.bincount(codes[chosen]).tolist() == [20, 490, 490]
    assert np.array_equal(balanced_draw(codes, 10**4), np.arange(len(codes)))
    assert np.array_equal(chosen, balanced_draw(codes, 1000))
    assert len(np.unique(chosen)) == 1000


def test_a_draw_of_rows_is_reproducible(rows):
    X, group = rows
    first, second = (
        mmd_squared(np.eye(4), X, sensitive_features=group, max_rows=100) for _ in range(2)
    )
    assert first == second
    whole = mmd_squared(np.eye(4), X, sensitive_features=group)
    assert first == pytest.approx(whole, rel=0.5)


def test_classifier_parity():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 2000)
    group = np.where(rng.random(2000) < 0.8, y, 1 - y)
    Z = y[:, None] + 0.01 * rng.normal(size=(2000, 1))
    found = held_out_parity(
        Z[:1000], y[:1000], Z[1000:], y[1000:], sensitive_features=group[1000:]
    )
    rates = [y[1000:][group[1000:] == g].mean() for g in (0, 1)]
    assert found.accuracy == 1
    assert found.demographic_parity_difference == pytest.approx(abs(rates[0] - rates[1]))
    assert found.equal_opportunity_difference == 0
    labels = np.where(y == 1, "yes", "no")
    same = held_out_parity(
        Z[:1000], labels[:1000], Z[1000:], labels[1000:], sensitive_features=group[1000:]
    )
    assert same == found


def test_parity_needs_two_classes_and_positives():
    Z = np.arange(6.0)[:, None]
    with pytest.raises(ValueError, match=r"y has 3 class\(es\)"):
        held_out_parity(Z, [0, 1, 2, 0, 1, 2], Z, [0] * 6, sensitive_features=[0, 1] * 3)
    found = held_out_parity(
        Z, [0, 0, 0, 1, 1, 1], Z, [0, 1, 0, 1, 0, 1], sensitive_features=[0, 1] * 3
    )
    assert np.isnan(found.equal_opportunity_difference)
