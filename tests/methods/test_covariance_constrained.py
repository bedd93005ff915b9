"""CovarianceConstrainedPCA: Olfat and Aswani 2019."""

import numpy as np
import pytest
from credit_variants import olfat
from sklearn.decomposition import PCA

from fairpca._arrays import subspace_distance
from fairpca.methods import CovarianceConstrainedPCA, NullSpaceFairPCA
from fairpca.metrics import covariance_gap, mean_gap


def share(model, X):
    return float(model.explained_variance_ratio_.sum())


def test_pca_of_the_same_table():
    # methods.md section 7, test (a): PCA 0.661153, |U^T f| = 0.7180; covariance gap 1.629.
    X, group = olfat()
    pca = PCA(5).fit(X)
    assert share(pca, X) == pytest.approx(0.661153, abs=1e-6)
    assert mean_gap(pca, X, sensitive_features=group) == pytest.approx(0.7180, abs=5e-5)
    assert covariance_gap(pca, X, sensitive_features=group) == pytest.approx(1.629, abs=5e-4)


@pytest.mark.parametrize("solver", ["SCS", "CLARABEL"])
def test_means_only_is_a_projector_and_the_closed_form(solver):
    # methods.md section 7, test (a): explained variance 0.613273.
    X, group = olfat()
    model = CovarianceConstrainedPCA(5, mu=0, solver=solver).fit(X, sensitive_features=group)
    assert share(model, X) == pytest.approx(0.613273, abs=1e-6)
    assert model.mean_gap_ < 1e-9
    assert model.spectrum_gap_ > 0.999
    closed = NullSpaceFairPCA(5).fit(X, sensitive_features=group)
    assert subspace_distance(model.components_.T, closed.components_.T) < 1e-6


def test_rounding_loses_the_covariance_constraint():
    # methods.md section 7 [C], mu=2: spectrum 0.63..1.0 over six directions, bound about
    # 0.009 phi, yet the rounded basis keeps a gap of 1.568.
    X, group = olfat()
    model = CovarianceConstrainedPCA(5, mu=2).fit(X, sensitive_features=group)
    spectrum = np.linalg.eigvalsh(model.projector_)[::-1]
    assert spectrum[5] == pytest.approx(0.63, abs=0.01)
    assert spectrum[6] < 1e-3
    assert model.covariance_gap_ == pytest.approx(1.568, abs=1e-3)
    assert model.covariance_bound_ < 0.03
    assert model.spectrum_gap_ < 0.2
    assert covariance_gap(model, X, sensitive_features=group) == pytest.approx(
        model.covariance_gap_
    )


def test_objective_falls_with_the_price():
    # methods.md section 7, test (b).
    X, group = olfat()
    X = X[:, :8]
    models = [
        CovarianceConstrainedPCA(2, mu=mu).fit(X, sensitive_features=group)
        for mu in (0, 1e-3, 0.5, 1, 4)
    ]
    assert np.all(np.diff([model.objective_ for model in models]) <= 1e-4)
    # A tight relaxation keeps its promise.
    assert models[1].spectrum_gap_ > 0.999
    assert models[1].covariance_bound_ >= models[1].covariance_gap_ - 1e-3


def test_a_positive_delta_bounds_the_mean_gap_of_the_projector():
    X, group = olfat()
    X = X[:, :8]
    model = CovarianceConstrainedPCA(3, mu=0, delta=0.2, solver="CLARABEL")
    model.fit(X, sensitive_features=group)
    gap = model.group_means_[0] - model.group_means_[1]
    assert gap @ model.projector_ @ gap <= 0.04 + 1e-6
    free = CovarianceConstrainedPCA(3, mu=0, solver="CLARABEL").fit(X, sensitive_features=group)
    assert model.objective_ >= free.objective_ - 1e-6


def test_a_delta_that_no_projection_exceeds_constrains_nothing():
    X, group = olfat()
    X = X[:, :8]
    for delta in (100.0, np.inf):
        model = CovarianceConstrainedPCA(3, mu=0, delta=delta).fit(X, sensitive_features=group)
        assert subspace_distance(model.components_.T, PCA(3).fit(X).components_.T) < 1e-3
        assert model.n_iter_ > 1


def test_missing_cvxpy_names_the_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "cvxpy", None)
    X, group = np.random.default_rng(0).normal(size=(20, 4)), [0, 1] * 10
    with pytest.raises(ImportError, match=r'pip install "\.\[methods\]"'):
        CovarianceConstrainedPCA(1).fit(X, sensitive_features=group)
