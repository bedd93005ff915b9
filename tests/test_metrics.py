"""Per-group numbers of any linear reducer."""

import numpy as np
import polars
import pytest
import scipy.sparse
from sklearn.decomposition import PCA, TruncatedSVD

from fairpca import FairPCA, GroupMoments
from fairpca.metrics import (
    covariance_gap,
    group_errors,
    group_losses,
    group_shares,
    group_variances,
    mean_gap,
    mmd_squared,
)

EVERY_NUMBER = (
    group_variances,
    group_errors,
    group_losses,
    group_shares,
    mean_gap,
    covariance_gap,
    mmd_squared,
)


@pytest.fixture
def rows():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(80, 5)) * [3, 2, 1, 1, 0.5]
    return X, rng.choice(["a", "b", "c"], size=80)


def test_error_is_the_mean_squared_residual(rows):
    X, group = rows
    pca = PCA(2).fit(X)
    P = pca.components_.T @ pca.components_
    lost = ((X - pca.inverse_transform(pca.transform(X))) ** 2).sum(axis=1)
    about_one_mean = group_errors(pca, X, sensitive_features=group)
    about_their_own = group_errors(pca, X, sensitive_features=group, center="group")
    for i, label in enumerate("abc"):
        part = X[group == label] - X[group == label].mean(axis=0)
        assert about_one_mean[i] == pytest.approx(lost[group == label].mean())
        assert about_their_own[i] == pytest.approx(((part - part @ P) ** 2).sum(axis=1).mean())
    with pytest.raises(ValueError, match="center='none'"):
        group_errors(pca, X, sensitive_features=group, center="none")


@pytest.mark.parametrize("center", ["global", "group"])
def test_the_numbers_fit_together(rows, center):
    X, group = rows
    moments, about = GroupMoments.from_array(X, group), {"center": center}
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 2)))[0].T
    variance = group_variances(basis, moments, **about)
    error = group_errors(basis, moments, **about)
    for i, label in enumerate("abc"):
        part = X[group == label]
        part = part - (X if center == "global" else part).mean(axis=0)
        trace = (part**2).sum(axis=1).mean()
        assert variance[i] + error[i] == pytest.approx(trace)
        assert group_shares(basis, moments, **about)[i] == pytest.approx(variance[i] / trace)
        own = np.linalg.svd(part)[2][:2]
        assert group_losses(own, moments, **about)[i] == pytest.approx(0, abs=1e-12)
        assert group_losses(basis, moments, **about)[i] == pytest.approx(
            error[i] - group_errors(own, moments, **about)[i]
        )


def test_estimator_and_metrics_agree(rows):
    X, group = rows
    labels = np.where(group == "c", "b", group)
    for center in ("group", "global"):
        model = FairPCA(2, center=center).fit(X, sensitive_features=labels)
        losses = group_losses(model, X, sensitive_features=labels, center=center)
        np.testing.assert_allclose(losses, model.group_losses_, atol=1e-12)
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
    shares = group_shares([[1.0, 0]], X, sensitive_features=[0, 0, 1, 1], center="group")
    assert shares[0] == 1


@pytest.mark.parametrize("number", EVERY_NUMBER)
@pytest.mark.parametrize(
    "form",
    [
        scipy.sparse.csr_array,
        scipy.sparse.csc_matrix,
        scipy.sparse.coo_array,
        polars.from_numpy,
    ],
    ids=["csr array", "csc matrix", "coo array", "frame"],
)
def test_rows_in_any_form(rows, number, form):
    X, group = rows
    X = np.where(np.abs(X) > 1, X, 0.0)
    reducer = PCA(2).fit(X)
    expected = number(reducer, X, sensitive_features=group)
    np.testing.assert_allclose(number(reducer, form(X), sensitive_features=group), expected)


@pytest.mark.parametrize("number", EVERY_NUMBER)
@pytest.mark.parametrize("X", [np.ones((80, 0)), np.full((80, 5), np.nan), np.full((80, 5), "a")])
def test_rows_without_numbers_are_refused(rows, number, X):
    with pytest.raises(ValueError, match=r"pass at least one feature|NaN|convert"):
        number(np.eye(5)[:2], X, sensitive_features=rows[1])


@pytest.mark.parametrize("number", EVERY_NUMBER)
def test_a_lazy_frame_has_to_be_collected(rows, number):
    X, group = rows
    with pytest.raises(ValueError, match=r"X is a LazyFrame.*X\.collect\(\)"):
        number(np.eye(5)[:2], polars.from_numpy(X).lazy(), sensitive_features=group)


def test_a_reducer_of_other_columns_is_named(rows):
    X, group = rows
    for number in EVERY_NUMBER:
        with pytest.raises(ValueError, match="reducer has components of 4 columns and X has 5"):
            number(np.eye(4)[:2], X, sensitive_features=group)
