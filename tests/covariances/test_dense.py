"""The leading-subspace oracle."""

import numpy as np
import pytest

from fairpca.covariances.dense import DenseOracle, by_krylov, by_lapack, full_pairs, leading_pairs
from fairpca.covariances.partial import krylov_pairs

from subspaces import subspace_distance


def spectrum(n, values, seed=0):
    q = np.linalg.qr(np.random.default_rng(seed).normal(size=(n, n)))[0]
    full = np.r_[values, np.linspace(0.5, 0.01, n - len(values))]
    return (q * full) @ q.T, full


@pytest.mark.parametrize("n", [30, 250, 450])
@pytest.mark.parametrize("driver", [leading_pairs, by_lapack, by_krylov])
def test_drivers_agree(n, driver):
    matrix, full = spectrum(n, [9, 7, 5, 3, 1.5])
    pairs = driver(matrix, 5)
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


@pytest.mark.parametrize("seed", [2, 10, 24])
def test_copies_just_above_a_dense_rest_are_not_missed(seed):
    """A rough value of what is left may lie below the smallest value found; the true one not."""
    diagonal = 1 - np.random.default_rng(seed).random(300) ** 2
    diagonal[:3] = 1 + 1e-4
    start = np.eye(300)[:, 100:103]
    found = krylov_pairs(lambda columns: (diagonal * columns.T).T, 300, 3, start)
    assert found.values.sum() >= 3 * diagonal[0] - 1e-12
