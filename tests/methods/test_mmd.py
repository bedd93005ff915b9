"""MMDFairPCA: Lee et al. 2022."""

import numpy as np
import pytest
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning

from fairpca._arrays import subspace_distance
from fairpca.methods import MMDFairPCA
from fairpca.methods._descent import random_bases
from fairpca.methods.mmd import Discrepancy
from fairpca.metrics import covariance_gap, mean_gap, mmd_squared


def two_clusters(m=400):
    """Lee et al., synthetic 1: equal means and covariances, different distributions.

    What MMD^2 can reach is the sample's own noise: 1e-4 to 2e-3 between draws of 400 + 400.
    """
    rng = np.random.default_rng(2)
    first = np.sqrt(0.1) * rng.normal(size=(m, 3)) + np.repeat([-1, 1], m // 2)[:, None]
    second = rng.multivariate_normal(np.zeros(3), 0.1 * np.eye(3) + 1, size=m)
    return np.vstack([first, second]), np.repeat([0, 1], m)


def test_only_the_distribution_gives_the_groups_away():
    # methods.md section 8, test (a): MMD^2 < 1e-3 and |U^T 1| / sqrt 3 < 0.5.
    X, group = two_clusters()
    model = MMDFairPCA(2).fit(X, sensitive_features=group)
    pca = PCA(2).fit(X)
    before = mmd_squared(pca, X, sensitive_features=group, bandwidth=model.bandwidth_)
    assert before == pytest.approx(0.082, abs=0.02)
    assert model.mmd_squared_ < 1e-3
    assert np.linalg.norm(model.components_.sum(axis=1)) / np.sqrt(3) < 0.5
    assert mean_gap(pca, X, sensitive_features=group) < 0.15
    assert covariance_gap(pca, X, sensitive_features=group) < 0.4


def test_both_starts_meet_the_bound():
    X, group = two_clusters(200)
    for start in ("mean", "random"):
        model = MMDFairPCA(2, tau=3e-3, start=start).fit(X, sensitive_features=group)
        assert model.mmd_squared_ <= 3e-3
        assert model.stop_reason_ == "bound met, basis settled"


def test_gradient_by_finite_differences():
    # methods.md section 8, test (c): the formula checked to 1e-9.
    rng = np.random.default_rng(3)
    X = np.round(rng.normal(size=(60, 5)), 1)
    signed = np.where(rng.integers(0, 2, 60) == 0, 1 / 30, -1 / 30)
    discrepancy = Discrepancy(X, signed, 1.3)
    basis, step = random_bases(5, 2, 2, 0)
    h = 1e-5
    numeric = (discrepancy(basis + h * step)[0] - discrepancy(basis - h * step)[0]) / (2 * h)
    assert np.sum(discrepancy(basis)[1] * step) == pytest.approx(numeric, abs=1e-9)


def test_value_is_that_of_the_definition():
    X, group = two_clusters(50)
    model = MMDFairPCA(2, tau=0.05).fit(X, sensitive_features=group)
    Z = model.transform(X)
    squared = ((Z[:, None] - Z) ** 2).sum(axis=2)
    K = np.exp(-squared / (2 * model.bandwidth_**2))
    a, b = group == 0, group == 1
    expected = K[np.ix_(a, a)].mean() + K[np.ix_(b, b)].mean() - 2 * K[np.ix_(a, b)].mean()
    assert model.mmd_squared_ == pytest.approx(expected, abs=1e-12)
    assert mmd_squared(
        model, X, sensitive_features=group, bandwidth=model.bandwidth_
    ) == pytest.approx(expected, abs=1e-12)


def test_a_bound_out_of_reach_warns():
    X, group = two_clusters(100)
    with pytest.warns(ConvergenceWarning, match="above tau"):
        MMDFairPCA(2, tau=1e-6).fit(X, sensitive_features=group)
    with pytest.warns(ConvergenceWarning, match="all components kept"):
        MMDFairPCA(3, tau=1e-6).fit(X, sensitive_features=group)


def test_many_rows_are_drawn_reproducibly():
    X, group = two_clusters(400)
    first, second = (
        MMDFairPCA(2, tau=0.02, max_rows=200).fit(X, sensitive_features=group) for _ in range(2)
    )
    np.testing.assert_array_equal(first.components_, second.components_)


@pytest.mark.parametrize("largest", [1, 2, 5, 40])
def test_the_bandwidth_of_weighted_rows_is_that_of_repeated_rows(largest):
    rng = np.random.default_rng(largest)
    X, group = rng.normal(size=(30, 3)), np.arange(30) % 2
    weight = rng.integers(0, largest + 1, 30)
    # One row that is most of the table: more than half of all pairs coincide.
    weight[:2] = [largest**2, 1]
    model = MMDFairPCA(2, tau=0.9)
    weighted = model.fit(X, sensitive_features=group, sample_weight=weight).bandwidth_
    repeated = model.fit(
        X.repeat(weight, axis=0), sensitive_features=group.repeat(weight)
    ).bandwidth_
    assert weighted == pytest.approx(repeated, rel=1e-12)


def test_pca_is_the_answer_where_it_meets_the_bound():
    rng = np.random.default_rng(0)
    X, group = rng.normal(size=(60, 4)) * [3, 2, 1, 0.5], np.arange(60) < 25
    X[group, 0] += 2
    model = MMDFairPCA(2, tau=0.1).fit(X, sensitive_features=group)
    assert model.stop_reason_ == "PCA meets the bound"
    assert model.mmd_squared_ <= 0.1
    assert subspace_distance(model.components_.T, PCA(2).fit(X).components_.T) < 1e-9
