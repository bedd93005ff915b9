"""BalancedPCA: what it makes small, and where it stands beside PCA and FairPCA."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

import fairpca
from fairpca import FairPCA, GroupMoments
from fairpca.methods import BalancedPCA


@pytest.fixture(scope="module")
def batches():
    """Two batches, ten to one, each with directions of its own and a mean of its own."""
    rng = np.random.default_rng(0)
    batch = np.repeat(["large", "small"], [500, 50])
    X = rng.normal(size=(550, 8)) * [3, 2.5, 2, 1, 1, 1, 1, 1]
    X[batch == "small"] = X[batch == "small"][:, [4, 5, 6, 0, 1, 2, 3, 7]] + 0.5
    return X, batch


def test_groups_of_one_size_have_the_pca_of_all_rows(batches):
    X, _ = batches
    model = BalancedPCA(3).fit(X, sensitive_features=["a", "b"] * 275)
    pca = PCA(3).fit(X)
    np.testing.assert_allclose(
        model.components_.T @ model.components_, pca.components_.T @ pca.components_, atol=1e-10
    )


def test_the_mean_of_the_groups_errors_is_the_least(batches):
    X, batch = batches
    models = [model(3).fit(X, sensitive_features=batch) for model in (BalancedPCA, FairPCA)]
    balanced, fair = (model.group_errors_.mean() for model in models)
    moments = GroupMoments.from_array(X, batch).second_moments(X.mean(axis=0))
    best = np.linalg.eigvalsh(moments.mean(axis=0))[:-3].sum()
    assert balanced == pytest.approx(best)
    assert balanced < fair
    # The worst group is FairPCA's business.
    assert models[0].group_losses_.max() > models[1].group_losses_.max()


def test_repeating_a_group_changes_nothing_about_its_own_mean(batches):
    X, batch = batches
    often = np.repeat(np.arange(550), np.where(batch == "small", 10, 1))
    one = BalancedPCA(3, center="group").fit(X, sensitive_features=batch)
    other = BalancedPCA(3, center="group").fit(X[often], sensitive_features=batch[often])
    P, Q = (m.components_.T @ m.components_ for m in (one, other))
    np.testing.assert_allclose(P, Q, atol=1e-10)


@pytest.mark.parametrize("center", ["global", "group", "none"])
def test_moments_give_the_same_fit_as_rows(batches, center):
    X, batch = batches
    rows = BalancedPCA(3, center=center).fit(X, sensitive_features=batch)
    counted = BalancedPCA(3, center=center).fit_moments(GroupMoments.from_array(X, batch))
    np.testing.assert_allclose(counted.components_, rows.components_, atol=1e-10)
    np.testing.assert_allclose(counted.transform(X), rows.transform(X), atol=1e-9)
    with pytest.raises(ValueError, match="n_components=9"):
        BalancedPCA(9).fit_moments(GroupMoments.from_array(X, batch))


def test_compare_ranks_it_by_the_mean_error(batches):
    X, batch = batches
    found = fairpca.compare([PCA(3), FairPCA(3), BalancedPCA(3)], X, batch)
    row = found["BalancedPCA"]
    assert (row.optimises, row.place) == ("mean error", 1)
    assert np.mean(row.group_errors) < np.mean(found["PCA"].group_errors)
    assert "BalancedPCA" in fairpca.comparison.default_estimators(2)


def test_an_audit_takes_it_as_a_candidate_for_rows_and_folds(batches):
    X, batch = batches
    settings = {"reducers": BalancedPCA(), "ranks": [2], "n_bootstrap": 0}
    found = fairpca.audit(X, batch, 2, **settings)
    assert "BalancedPCA" in found.reducers
    assert [f.reducer for f in found.new_rows.findings][-1] == "BalancedPCA"
    folds = [GroupMoments.from_array(X[i::5], batch[i::5]) for i in range(5)]
    of_folds = fairpca.audit(folds, n_components=2, **settings)
    np.testing.assert_allclose(of_folds.at("BalancedPCA").loss, found.at("BalancedPCA").loss)
    assert of_folds.new_rows.at("BalancedPCA").worst_loss > 0
