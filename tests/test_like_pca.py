"""What a fitted sklearn PCA can do beside projecting: whitening and the probabilistic model."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError

from fairpca import FairPCA
from fairpca.fitting import Ranks

pytestmark = pytest.mark.filterwarnings("ignore:sensitive_features=None")
TABLES = {"iris": load_iris, "wine": load_wine, "cancer": load_breast_cancer}


def table(name):
    X, y = TABLES[name](return_X_y=True)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("r", [1, 2, None])
@pytest.mark.parametrize("whiten", [False, True])
class TestOneGroupIsPca:
    def both(self, name, r, whiten):
        X, _ = table(name)
        return X, FairPCA(r, whiten=whiten).fit(X), PCA(r, whiten=whiten).fit(X)

    def test_rows_and_back(self, name, r, whiten):
        X, ours, theirs = self.both(name, r, whiten)
        # The signs of components are a convention.
        np.testing.assert_allclose(abs(ours.transform(X)), abs(theirs.transform(X)), atol=1e-10)
        back = ours.inverse_transform(ours.transform(X))
        wanted = theirs.inverse_transform(theirs.transform(X))
        np.testing.assert_allclose(back, wanted, atol=1e-10)

    def test_model(self, name, r, whiten):
        X, ours, theirs = self.both(name, r, whiten)
        # With whiten=True scikit-learn scales the components twice; the covariance is the same.
        theirs.set_params(whiten=False)
        for method in ("get_covariance", "get_precision"):
            found, wanted = getattr(ours, method)(), getattr(theirs, method)()
            np.testing.assert_allclose(found, wanted, atol=1e-10 * abs(wanted).max())
        wanted = theirs.score_samples(X)
        np.testing.assert_allclose(ours.score_samples(X), wanted, rtol=1e-10, atol=1e-9)
        assert ours.score(X) == pytest.approx(theirs.score(X), rel=1e-10)


@pytest.mark.parametrize("name", TABLES)
class TestGroups:
    def test_whitened_columns_have_variance_one(self, name):
        X, y = table(name)
        plain = FairPCA(2).fit(X, sensitive_features=y)
        white = FairPCA(2, whiten=True).fit(X, sensitive_features=y)
        np.testing.assert_array_equal(white.components_, plain.components_)
        np.testing.assert_array_equal(white.group_errors_, plain.group_errors_)
        np.testing.assert_allclose(np.cov(white.transform(X).T), np.eye(2), atol=1e-10)
        rebuilt = white.inverse_transform(white.transform(X))
        np.testing.assert_allclose(
            rebuilt, plain.inverse_transform(plain.transform(X)), atol=1e-12
        )
        wanted = [((X - rebuilt)[y == g] ** 2).sum(axis=1).mean() for g in white.groups_]
        np.testing.assert_allclose(white.group_errors_, wanted, rtol=1e-10)

    def test_likelihood_is_that_of_the_covariance(self, name):

        X, y = table(name)
        model = FairPCA(2).fit(X, sensitive_features=y)
        wanted = multivariate_normal(model.mean_, model.get_covariance()).logpdf(X)
        np.testing.assert_allclose(model.score_samples(X), wanted, rtol=1e-8)
        # What PCA is the best at, by definition of its model.
        assert model.score(X) <= PCA(2).fit(X).score(X) + 1e-10


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 4))
def test_precision_is_the_inverse(seed, r):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 5)) * np.exp(-rng.random(5) * 3)
    model = FairPCA(r, whiten=bool(seed % 2)).fit(X, sensitive_features=rng.integers(0, 2, 40))
    np.testing.assert_allclose(
        model.get_precision() @ model.get_covariance(), np.eye(5), atol=1e-8
    )


def test_likelihood_needs_no_matrix_of_all_columns():
    # That matrix would take 3 GB, and its determinant a minute.
    X = np.random.default_rng(0).normal(size=(40, 20_000))
    model = FairPCA(3).fit(X, sensitive_features=np.arange(40) % 2)
    tracemalloc.start()
    try:
        found = model.score_samples(X)
        assert tracemalloc.get_traced_memory()[1] < 4 * X.nbytes
    finally:
        tracemalloc.stop()
    assert found.shape == (40,)
    assert np.all(np.isfinite(found))


def test_mistakes_are_named():
    X, y = table("iris")
    with pytest.raises(NotFittedError):
        FairPCA(2).score(X)
    with pytest.raises(ValueError, match="whiten='yes' is not known"):
        FairPCA(2, whiten="yes").fit(X, sensitive_features=y)
    with pytest.raises(ValueError, match="3 features, but FairPCA is expecting 4"):
        FairPCA(2).fit(X, sensitive_features=y).score_samples(X[:, :3])


def test_rows_come_back_in_the_type_of_their_projection():
    X, y = table("iris")
    model = FairPCA(2).fit(X, sensitive_features=y)
    wanted = model.inverse_transform(model.transform(X))
    found = model.inverse_transform(model.transform(X.astype(np.float32)))
    assert found.dtype == np.float32
    assert wanted.dtype == model.inverse_transform([[1, 0]]).dtype == np.float64
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_a_share_is_found_without_a_solve_for_every_rank(monkeypatch):
    X = np.random.default_rng(0).normal(size=(400, 60)) * np.linspace(2, 1, 60)
    solved = []
    solve = Ranks.solve
    monkeypatch.setattr(Ranks, "solve", lambda self, r, *a: solved.append(r) or solve(self, r, *a))
    assert FairPCA(0.7).fit(X).n_components_ == PCA(0.7).fit(X).n_components_ > 20
    FairPCA(0.7).fit(X, sensitive_features=np.arange(400) % 5)
    # Each fit solves a rank or two for the largest share, and the last one for the loss.
    assert len(solved) <= 8


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 5), st.floats(0.05, 0.99))
def test_a_share_takes_the_fewest_components_of_all_ranks(seed, k, share):
    rng = np.random.default_rng(seed)
    matrices = [rng.normal(size=(9, 9)) * rng.uniform(0.1, 3, size=9) for _ in range(k)]
    codes = np.arange(300) % k
    X = np.array([rng.normal(size=9) @ matrices[code] for code in codes])
    found = FairPCA(share).fit(X, sensitive_features=codes)
    assert found.group_shares_.min() >= share * (1 - 1e-9)
    if found.n_components_ > 1:
        fewer = FairPCA(found.n_components_ - 1, criterion="share")
        fewer.fit(X, sensitive_features=codes)
        # Where a gap is open, another start may find a better basis of that rank.
        assert fewer.group_shares_.min() < share or not fewer.certificate_.optimal


def test_labels_in_the_place_of_y_are_no_groups_and_the_warning_says_so():
    X, y = table("iris")
    with pytest.warns(UserWarning, match=r"fit\(X, sensitive_features=labels\).*set_fit_request"):
        model = FairPCA(2).fit(X, y)
    assert len(model.groups_) == 1


def test_no_loss_is_printed_below_zero():
    """One group, or as many components as columns: nothing is lost, to rounding."""
    X, species = load_iris(return_X_y=True)
    for r, labels in ((2, ["all"] * len(X)), (4, species)):
        model = FairPCA(r).fit(X, sensitive_features=labels)
        assert str(model.certificate_).startswith("worst group 0,")
        assert model.group_losses_.min() >= 0


def test_components_with_less_variance_than_the_rest_keep_their_own():
    # PCA's never have; those that serve a small group may.
    rng = np.random.default_rng(0)
    X = np.vstack(
        [
            rng.normal(size=(400, 4)) * [4, 4, 4, 0.5],
            rng.normal(size=(200, 4)) * [0.1, 0.1, 0.1, 3],
        ]
    )
    model = FairPCA(1).fit(X, sensitive_features=["a"] * 400 + ["b"] * 200)
    assert model.explained_variance_[0] < model.noise_variance_
    covariance, component = model.get_covariance(), model.components_[0]
    assert component @ covariance @ component == pytest.approx(model.explained_variance_[0])
    assert np.trace(covariance) == pytest.approx(X.var(axis=0, ddof=1).sum())
    np.testing.assert_allclose(model.get_precision() @ covariance, np.eye(4), atol=1e-10)
    wanted = multivariate_normal(model.mean_, covariance).logpdf(X)
    np.testing.assert_allclose(model.score_samples(X), wanted, rtol=1e-10)


def test_no_variance_outside_of_the_components_has_no_precision():
    X = np.c_[np.random.default_rng(0).normal(size=(50, 3)), np.full(50, 7.0)]
    model = FairPCA(3).fit(X, sensitive_features=np.arange(50) % 2)
    with pytest.raises(ValueError, match="leave out columns that are constant"):
        model.get_precision()


@pytest.mark.parametrize("constant", [False, True])
def test_rows_without_variance_in_some_directions_have_a_likelihood_in_the_others(constant):
    """Rounding was divided by the smallest number there is: rows of the fit had -1e276."""
    rng = np.random.default_rng(0)
    mixed = np.eye(3, 6) if constant else rng.normal(size=(3, 6))
    X = rng.normal(size=(60, 3)) @ mixed + 5
    model = FairPCA(3).fit(X, sensitive_features=np.arange(60) % 2)
    law = multivariate_normal(model.mean_, model.get_covariance(), allow_singular=True)
    np.testing.assert_allclose(model.score_samples(X), law.logpdf(X), rtol=1e-9)
    others = np.r_[X[:1] + 1e-3 * rng.normal(size=6), rng.normal(size=(3, 6))]
    assert np.all(model.score_samples(others) == -np.inf)
    assert np.all(law.logpdf(others) == -np.inf)


def test_weights_act_like_repeated_rows_in_the_noise_too():
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(6, 10)), np.array([0, 0, 0, 1, 1, 1])
    for weight in ([2] * 6, [3, 1, 1, 2, 1, 1]):
        one = FairPCA(2, shrinkage=0.5).fit(X, sensitive_features=labels, sample_weight=weight)
        repeated = np.repeat(np.arange(6), weight)
        other = FairPCA(2, shrinkage=0.5).fit(X[repeated], sensitive_features=labels[repeated])
        assert one.noise_variance_ == pytest.approx(other.noise_variance_, rel=1e-9)
        assert one.score(X) == pytest.approx(other.score(X), rel=1e-6)


def test_small_weights_of_many_rows_leave_the_noise():
    rng, sizes = np.random.default_rng(0), [200, 80, 20]
    X, labels = rng.normal(size=(300, 10)), np.repeat(["a", "b", "c"], sizes)
    weight = 1 / np.repeat(sizes, sizes)
    model = FairPCA(3, shrinkage=0.5).fit(X, sensitive_features=labels, sample_weight=weight)
    assert 0.5 < model.noise_variance_ < 2
    assert np.isfinite(model.score(X))
