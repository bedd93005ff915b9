"""UnconstrainedFPCA and ConstrainedFPCA: Pelegrina and Duarte 2024."""

import numpy as np
import pytest
from credit_variants import pelegrina
from sklearn.decomposition import PCA

from fairpca.methods import ConstrainedFPCA, UnconstrainedFPCA

from tables import bank, credit

# methods.md section 5 [C]: alpha, error of codes not in {1, 2}, error of the others.
CREDIT = [
    (UnconstrainedFPCA, 2, 0.0, 11.30834, 11.81180),
    (ConstrainedFPCA, 2, None, 8.31791, 9.65357),
    (UnconstrainedFPCA, 5, 0.8832, 6.05985, 6.05985),
    (UnconstrainedFPCA, 10, 0.9572, 1.98678, 1.98678),
    (UnconstrainedFPCA, 15, 0.5168, 0.30078, 0.30078),
    (ConstrainedFPCA, 15, 0.7344, 0.28228, 0.29421),
]
PCA_ERRORS = {2: (8.23656, 9.65357), 5: (5.21011, 6.12989), 15: (0.27779, 0.29421)}

# reference/README.md, tol 1e-8, group centred: losses of A and B, errors of A and B.
SEED = [
    (bank, UnconstrainedFPCA, 2, (1.16637, 0.233153), (12.192, 12.192)),
    (bank, ConstrainedFPCA, 2, (1.16637, 0.233153), (12.192, 12.192)),
    (bank, UnconstrainedFPCA, 4, (2.66107, 0.118338), (9.52034, 9.52034)),
    (bank, ConstrainedFPCA, 4, (2.66107, 0.118338), (9.52034, 9.52034)),
    (bank, UnconstrainedFPCA, 8, (3.45724, 0.0950459), (5.33215, 5.33215)),
    (bank, ConstrainedFPCA, 8, (3.45724, 0.0950459), (5.33215, 5.33215)),
    (credit, UnconstrainedFPCA, 5, (0.474626, 2.10198), (9.59321, 9.59321)),
    (credit, ConstrainedFPCA, 5, (0.441619, 2.04681), (9.5602, 9.53804)),
    (credit, UnconstrainedFPCA, 10, (0.0321926, 0.321659), (3.93773, 3.93773)),
    (credit, ConstrainedFPCA, 10, (0.0321926, 0.321659), (3.93773, 3.93773)),
    (credit, UnconstrainedFPCA, 15, (0.000391511, 0.0520055), (1.00933, 1.00933)),
    (credit, ConstrainedFPCA, 15, (0.000391511, 0.0520055), (1.00933, 1.00933)),
]


@pytest.mark.parametrize(("method", "r", "alpha", "low", "high"), CREDIT)
def test_credit_table(method, r, alpha, low, high):
    X, group = pelegrina()
    model = method(r).fit(X, sensitive_features=group)
    assert model.groups_ == ["high", "low"]
    assert model.group_values_[::-1] == pytest.approx([low, high], abs=1e-5)
    if alpha is not None:
        assert model.alpha_ == pytest.approx(alpha, abs=5e-5)


@pytest.mark.parametrize("r", PCA_ERRORS)
def test_pca_errors_of_the_same_table(r):
    X, group = pelegrina()
    U = PCA(r).fit(X).components_
    residual = ((X - X @ U.T @ U) ** 2).sum(axis=1)
    errors = [residual[group == label].mean() for label in ("low", "high")]
    assert errors == pytest.approx(PCA_ERRORS[r], abs=1e-5)


@pytest.mark.parametrize(("table", "method", "r", "losses", "errors"), SEED)
def test_the_seed_papers_comparison(table, method, r, losses, errors):
    X, group = table()
    model = method(r, center="group", tol=1e-8).fit(X, sensitive_features=group)
    assert model.group_losses_ == pytest.approx(losses, rel=5e-6)
    assert model.group_values_ == pytest.approx(errors, rel=5e-6)


def test_total_error_rises_with_equality():
    # methods.md section 5: total 5.96479 -> 6.05985 at r=5.
    X, group = pelegrina()
    model = UnconstrainedFPCA(5).fit(X, sensitive_features=group)
    U = model.components_
    total = ((X - X @ U.T @ U) ** 2).sum(axis=1).mean()
    assert total == pytest.approx(6.05985, abs=1e-5)
    V = PCA(5).fit(X).components_
    assert ((X - X @ V.T @ V) ** 2).sum(axis=1).mean() == pytest.approx(5.96479, abs=1e-5)


def test_a_negative_weight_shows_deliberate_damage():
    X, group = pelegrina()
    model = UnconstrainedFPCA(15).fit(X, sensitive_features=group)
    assert model.matrix_weights_.min() < 0
    assert np.all(model.group_values_[::-1] > PCA_ERRORS[15])


@pytest.mark.parametrize("r", [1, 3, 7, 12, 19])
def test_constrained_never_exceeds_the_worse_error_of_pca(r):
    X, group = pelegrina()
    U = PCA(r).fit(X).components_
    residual = ((X - X @ U.T @ U) ** 2).sum(axis=1)
    worst = max(residual[group == label].mean() for label in ("low", "high"))
    model = ConstrainedFPCA(r).fit(X, sensitive_features=group)
    assert model.group_values_.max() <= worst + 1e-5
