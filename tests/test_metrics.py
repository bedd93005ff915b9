"""Per-group numbers of any linear reducer."""

import numpy as np
import pytest
from sklearn.decomposition import PCA, TruncatedSVD

from fairpca import FairPCA, GroupMoments
from fairpca.metrics import group_errors, group_losses, group_shares, group_variances


@pytest.fixture
def rows():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(80, 5)) * [3, 2, 1, 1, 0.5]
    return X, rng.choice(["a", "b", "c"], size=80)


def test_error_is_the_mean_squared_residual(rows):
    X, group = rows
    pca = PCA(2).fit(X)
    P = pca.components_.T @ pca.components_
    for label, error in zip("abc", group_errors(pca, X, sensitive_features=group), strict=True):
        part = X[group == label] - X[group == label].mean(axis=0)
        assert error == pytest.approx(((part - part @ P) ** 2).sum(axis=1).mean())


def test_the_numbers_fit_together(rows):
    X, group = rows
    moments = GroupMoments.from_array(X, group)
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 2)))[0].T
    variance, error = group_variances(basis, moments), group_errors(basis, moments)
    traces = np.trace(moments.covariances, axis1=1, axis2=2)
    np.testing.assert_allclose(variance + error, traces)
    np.testing.assert_allclose(group_shares(basis, moments), variance / traces)
    own = np.array([PCA(2).fit(X[group == g]).components_ for g in "abc"], dtype=object)
    for i, components in enumerate(own):
        assert group_losses(components, moments)[i] == pytest.approx(0, abs=1e-12)
        assert group_losses(basis, moments)[i] == pytest.approx(
            group_errors(basis, moments)[i] - group_errors(components, moments)[i]
        )


def test_estimator_and_metrics_agree(rows):
    X, group = rows
    labels = np.where(group == "c", "b", group)
    model = FairPCA(2).fit(X, sensitive_features=labels)
    np.testing.assert_allclose(
        group_losses(model, X, sensitive_features=labels), model.group_losses_, atol=1e-12
    )
    np.testing.assert_allclose(
        group_errors(model, X, sensitive_features=labels), model.group_errors_
    )


def test_only_the_span_counts(rows):
    X, group = rows
    skewed = np.array([[1.0, 0, 0, 0, 0], [5.0, 2, 0, 0, 0]])
    np.testing.assert_allclose(
        group_errors(skewed, X, sensitive_features=group),
        group_errors(np.eye(5)[:2], X, sensitive_features=group),
    )
    assert group_losses(TruncatedSVD(2).fit(X), X, sensitive_features=group).shape == (3,)


def test_a_reducer_needs_components():
    with pytest.raises(ValueError, match="no linear reducer"):
        group_errors(object(), np.eye(3), sensitive_features=[0, 1, 1])


def test_a_group_without_variance_keeps_everything():
    X = np.array([[1.0, 2], [1, 2], [0, 1], [3, 5]])
    shares = group_shares(np.array([[1.0, 0]]), X, sensitive_features=[0, 0, 1, 1])
    assert shares[0] == 1
