"""The leading-subspace oracle."""

import numpy as np
import pytest
from scipy.sparse.linalg import ArpackError

from fairpca._arrays import subspace_distance
from fairpca.covariances import dense as eigenpairs
from fairpca.covariances.dense import DenseOracle
from fairpca.covariances.dense import full_pairs
from fairpca.covariances.oracle import EigenPairs, krylov_pairs


def spectrum(n, values, seed=0):
    q = np.linalg.qr(np.random.default_rng(seed).normal(size=(n, n)))[0]
    full = np.r_[values, np.linspace(0.5, 0.01, n - len(values))]
    return (q * full) @ q.T, full


@pytest.mark.parametrize("n", [30, 250, 450])
@pytest.mark.parametrize("method", ["auto", "dense", "krylov"])
def test_drivers_agree(n, method):
    matrix, full = spectrum(n, [9, 7, 5, 3, 1.5])
    pairs = DenseOracle(matrix[None], method).leading(np.ones(1), 5)
    np.testing.assert_allclose(pairs.values, full[:5], rtol=1e-12)
    want = full_pairs(matrix).head(5)
    assert subspace_distance(pairs.vectors, want.vectors) < 1e-10
    assert np.abs(pairs.vectors.T @ pairs.vectors - np.eye(5)).max() < 1e-12


def test_repeated_eigenvalues_are_not_missed():
    """A Krylov space of one vector holds one copy of a repeated eigenvalue in exact arithmetic."""
    matrix = np.diag(np.r_[np.full(6, 4.0), np.full(6, 2.0), np.zeros(88)])
    pairs = krylov_pairs(matrix.__matmul__, 100, 8)
    np.testing.assert_allclose(pairs.values, [4.0] * 6 + [2.0] * 2, rtol=1e-10)


def test_a_bad_start_hides_nothing():
    matrix = np.diag(np.r_[5.0, 4.0, np.linspace(1, 0.1, 98)])
    start = np.eye(100)[:, 50:52]
    pairs = krylov_pairs(matrix.__matmul__, 100, 2, start)
    np.testing.assert_allclose(pairs.values, [5, 4], rtol=1e-10)


def test_values_are_never_too_small():
    """The lower bound rests on their sum."""
    rng = np.random.default_rng(1)
    for seed in range(10):
        a = rng.normal(size=(60, 60))
        matrix = a @ a.T
        exact = full_pairs(matrix).values[:7].sum()
        got = krylov_pairs(matrix.__matmul__, 60, 7, rng.normal(size=(60, 7))).values.sum()
        assert exact * (1 - 1e-15) <= got <= exact * (1 + 1e-10), seed


def test_every_decomposition_is_counted():
    oracle = DenseOracle(np.array([np.eye(4), np.diag([4.0, 3, 2, 1])]))
    oracle.full(np.array([0.5, 0.5]))
    oracle.leading(np.array([0.5, 0.5]), 2)
    assert oracle.n_eigen == 2


def test_low_rank_and_zero_matrices():
    assert np.all(krylov_pairs(np.zeros((50, 50)).__matmul__, 50, 3).values == 0)
    u = np.linalg.qr(np.random.default_rng(0).normal(size=(50, 2)))[0]
    pairs = krylov_pairs((u @ np.diag([3.0, 2.0]) @ u.T).__matmul__, 50, 4)
    np.testing.assert_allclose(pairs.values, [3, 2, 0, 0], atol=1e-12)


@pytest.mark.parametrize("unit", [1e-200, 1e-39, 1e-12])
def test_small_eigenvalues_are_as_good_as_others(unit):
    """ARPACK takes what is below 4e-11 for zero."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(90, 60))
    matrix = rows.T @ rows
    true = np.linalg.eigvalsh(matrix)[::-1][:5]
    found = krylov_pairs((unit * matrix).__matmul__, 60, 5)
    np.testing.assert_allclose(found.values / unit, true, rtol=1e-13)


@pytest.mark.parametrize("noise", [1e-9, 1e-3])
def test_a_bound_from_unfinished_vectors_is_lowered_by_their_residual(monkeypatch, noise):
    """The sum of Ritz values is too small; with the residuals added it must not be."""
    rng = np.random.default_rng(0)
    vectors = np.linalg.qr(rng.normal(size=(30, 30)))[0]
    values = np.linspace(3, 0.1, 30)
    matrix = (vectors * values) @ vectors.T
    rough = np.linalg.qr(vectors[:, :3] + noise * rng.normal(size=(30, 3)))[0]
    monkeypatch.setattr(eigenpairs, "_arpack", lambda *_, **__: EigenPairs(values[:3], rough))
    monkeypatch.setattr(eigenpairs, "_largest_left", lambda *_, **__: None)
    if noise > 1e-6:
        # So far from eigenvectors that nothing may rest on them.
        with pytest.raises(ArpackError):
            krylov_pairs(matrix.__matmul__, 30, 3)
        return
    found = krylov_pairs(matrix.__matmul__, 30, 3)
    assert found.values.sum() >= values[:3].sum()
    assert found.values.sum() == pytest.approx(values[:3].sum(), abs=1e-7)


@pytest.mark.parametrize("r", [1, 2, 3])
def test_as_many_pairs_as_were_missed_are_found(monkeypatch, r):
    """A driver whose answer has none of the leading pairs: the search finds them one by one."""
    matrix = np.diag(np.r_[9.0, 8.0, 7.0, np.linspace(3.0, 1.0, 27)])
    real = eigenpairs._arpack

    def trailing(product, n, k, v0, tol, most=None):
        if tol == 0:
            return EigenPairs(np.diag(matrix)[3 : 3 + r], np.eye(n)[:, 3 : 3 + r])
        return real(product, n, k, v0, tol, most)

    monkeypatch.setattr(eigenpairs, "_arpack", trailing)
    found = krylov_pairs(matrix.__matmul__, 30, r)
    assert found.vectors.shape == (30, r)
    np.testing.assert_allclose(found.values, [9.0, 8.0, 7.0][:r], rtol=1e-9)


@pytest.mark.parametrize("seed", [2, 10, 24])
def test_copies_just_above_a_dense_rest_are_not_missed(seed):
    """A rough value of what is left may lie below the smallest value found; the true one not."""
    diagonal = 1 - np.random.default_rng(seed).random(300) ** 2
    diagonal[:3] = 1 + 1e-4
    start = np.eye(300)[:, 100:103]
    found = krylov_pairs(lambda columns: (diagonal * columns.T).T, 300, 3, start)
    assert found.values.sum() >= 3 * diagonal[0] - 1e-12
