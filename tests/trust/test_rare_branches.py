"""Ways out that ordinary data never take: budgets spent, failed iterations, nobody labelled."""

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse.linalg import ArpackNoConvergence

import fairpca
from fairpca import FairPCA, GroupMoments
from fairpca.covariances import eigenpairs
from fairpca.covariances.eigenpairs import EigenPairs
from fairpca.solvers.dual import Cluster


def pair(n=8, seed=0):
    rng = np.random.default_rng(seed)
    return np.array([a @ a.T / n for a in rng.normal(size=(2, n, n))])


@pytest.mark.parametrize("solver,max_iter", [("dense", 1), ("krylov", 1), ("krylov", 3)])
def test_a_spent_budget_leaves_an_enclosure(solver, max_iter):
    S = pair()
    best = fairpca.solve(S, 3).certificate
    found = fairpca.solve(S, 3, solver=solver, max_iter=max_iter)
    assert found.stop_reason == "max_iter reached"
    assert found.certificate.lower_bound <= best.value + best.resolution
    assert found.certificate.value >= best.lower_bound - best.resolution
    assert np.abs(found.components @ found.components.T - np.eye(3)).max() <= 1e-12


def test_an_iteration_that_fails_is_replaced_by_the_dense_driver(monkeypatch):

    def failing(*args, **kwargs):
        raise ArpackNoConvergence("no convergence", np.empty(0), np.empty((0, 0)))

    want = fairpca.solve(pair(), 3).certificate.value
    monkeypatch.setattr(eigenpairs, "krylov_pairs", failing)
    found = fairpca.solve(pair(), 3, solver="krylov")
    assert found.certificate.value == pytest.approx(want, rel=1e-9)
    assert found.certificate.optimal


def test_sparse_rows_and_chosen_groups_of_moments():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 4)) * (rng.random((30, 4)) < 0.5)
    labels = np.arange(30) % 3
    dense = GroupMoments.from_array(X, labels)
    sparse = GroupMoments.from_array(scipy.sparse.csc_array(X), labels)
    np.testing.assert_allclose(sparse.scatter, dense.scatter, atol=1e-12)
    some = dense.select([2, 0])
    assert some.labels == (2, 0)
    np.testing.assert_array_equal(some.mean, dense.mean[[2, 0]])


def test_nobody_labelled_is_said():
    X = np.arange(12.0).reshape(4, 3)
    moments = GroupMoments.from_array(X, [None] * 4, unlabelled="ignore")
    assert moments.grouped("marginal").labels == ()
    with pytest.raises(ValueError, match="no labelled row; label at least one row"):
        FairPCA(1).fit_moments(moments)
    with pytest.raises(ValueError, match="no labelled row"):
        FairPCA(1, unlabelled="ignore").fit(X, sensitive_features=[None] * 4)


def test_a_copy_that_krylov_missed_is_found(monkeypatch):
    """A Krylov space of one vector may hold one copy of a repeated eigenvalue only."""
    honest, calls = eigenpairs._arpack, []

    def forgetful(product, n, r, *args, **kwargs):
        calls.append(r)
        if len(calls) == 1:
            return EigenPairs(np.array([5.0, 3.0]), np.eye(n)[:, [0, 2]])
        return honest(product, n, r, *args, **kwargs)

    monkeypatch.setattr(eigenpairs, "_arpack", forgetful)
    matrix = np.diag(np.r_[5.0, 5.0, 3.0, np.linspace(1, 0, 37)])
    pairs = eigenpairs.krylov_pairs(matrix.__matmul__, 40, 2)
    assert pairs.values.sum() == pytest.approx(10.0, abs=1e-9)
    # The copy is found roughly and then closely, and one search more finds nothing.
    assert len(calls) == 4


def test_large_problems_stop_at_their_budget():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(3, 600, 260)) * np.exp(-rng.uniform(0, 4, size=(3, 1, 260)))
    covariances = np.swapaxes(rows, 1, 2) @ rows / 600
    enough = fairpca.solve(covariances, 5)
    little = fairpca.solve(covariances, 5, solver="krylov", max_iter=4)
    assert little.stop_reason == "max_iter reached"
    assert little.certificate.lower_bound <= enough.certificate.value * (1 + 1e-9)
    assert little.certificate.value >= enough.certificate.lower_bound * (1 - 1e-9)


def test_a_cluster_as_it_is():
    cluster = Cluster(2, 4, np.array([0.7, 0.3]), np.eye(2))
    np.testing.assert_array_equal(cluster.matrix, np.diag([0.7, 0.3]))
