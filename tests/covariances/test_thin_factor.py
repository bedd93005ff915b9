"""Thin factors of the matrices of small groups."""

import numpy as np
import pytest

import fairpca
from fairpca import FairPCA
from fairpca.covariances.dense import DenseOracle
from fairpca.covariances.eigenpairs import pairs_of_factor, thin_factor
from fairpca.moments.group_moments import GroupMoments

# More columns than are decomposed in full.
_MANY = 720


def covariance(m, n, seed=0):
    X = np.random.default_rng(seed).standard_normal((m, n)) * np.geomspace(1, 0.1, n)
    X = X - X.mean(axis=0)
    return X.T @ X / m


@pytest.mark.parametrize("m", [2, 7, 40])
def test_factor_is_the_matrix(m):
    matrix = covariance(m, 120)
    thin = thin_factor(matrix, m - 1)
    assert thin.shape == (120, m - 1)
    np.testing.assert_allclose(thin @ thin.T, matrix, atol=1e-13 * np.trace(matrix))


def test_matrix_of_higher_rank_than_promised_has_no_factor():
    assert thin_factor(covariance(40, 120), 20) is None


def test_group_without_variance():
    thin = thin_factor(np.zeros((6, 6)), 2)
    assert thin.shape == (6, 0)
    pairs = pairs_of_factor(thin, 3)
    values, vectors = pairs.values, pairs.vectors
    np.testing.assert_array_equal(values, 0)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(3), atol=1e-14)


@pytest.mark.parametrize("r", [3, 12])
def test_leading_pairs_of_a_factor(r):
    matrix = covariance(8, 60)
    pairs = pairs_of_factor(thin_factor(matrix, 7), r)
    values, vectors = pairs.values, pairs.vectors
    np.testing.assert_allclose(values, np.linalg.eigvalsh(matrix)[::-1][:r], atol=1e-14)
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(r), atol=1e-12)
    np.testing.assert_allclose(matrix @ vectors, vectors * values, atol=1e-13)


def test_own_pairs_do_not_depend_on_what_is_known_of_the_rank():
    matrices = np.array([covariance(m, _MANY, seed=m) for m in (6, 50, 400)])
    plain = DenseOracle(matrices)
    told = DenseOracle(matrices, ranks=np.array([5, 49, 399]))
    for one, other in zip(plain.own_pairs(10), told.own_pairs(10), strict=True):
        np.testing.assert_allclose(one.values[:10], other.values[:10], atol=1e-13)
        assert other.vectors.shape[1] >= 10


def test_tiny_groups_among_many_columns():
    """Some groups have fewer rows than components."""
    rng = np.random.default_rng(3)
    labels = np.repeat([0, 1, 2, 3], [4, 30, 60, 500])
    X = rng.standard_normal((594, _MANY)) * np.geomspace(1, 0.02, _MANY)
    X[labels == 1] = X[labels == 1][:, ::-1]
    model = FairPCA(8).fit(X, sensitive_features=labels)
    whole = fairpca.solve(GroupMoments.from_array(X, labels), 8, solver="dense")
    assert model.certificate_.gap <= 1e-10
    assert model.certificate_.value == pytest.approx(whole.certificate.value, rel=1e-9)
