"""JointDiagonalPCA: Rathore and Manwani 2025."""

import numpy as np
import pytest
from credit_variants import by_education, covariances

from fairpca.methods import JointDiagonalPCA
from fairpca.methods.joint_diagonal import joint_diagonalise

# methods.md section 14 [C], test (d): worst loss at r = 1..10, mean order.
WORST = {
    2: [0.03620, 0.24090, 0.57817, 0.16161, 0.21650, 0.21348, 0.34984, 0.31653, 0.32700, 0.18720],
    4: [0.31281, 0.33390, 0.67019, 0.80115, 0.64512, 1.02670, 1.14418, 0.99710, 0.92344, 0.65447],
}


@pytest.mark.parametrize("k", [2, 4])
def test_worst_losses_on_credit(k):
    X, group = by_education(k)
    found = [
        JointDiagonalPCA(r).fit(X, sensitive_features=group).group_losses_.max()
        for r in range(1, 11)
    ]
    assert found == pytest.approx(WORST[k], abs=5e-6)


@pytest.mark.parametrize(
    ("k", "share", "pooled", "sweeps"), [(2, 9.91e-3, 1.230e-2, 14), (4, 2.058e-2, 3.075e-2, 35)]
)
def test_off_diagonal_share_on_credit(k, share, pooled, sweeps):
    # methods.md section 14, test (c).
    X, group = by_education(k)
    model = JointDiagonalPCA(3).fit(X, sensitive_features=group)
    assert model.off_diagonal_share_ == pytest.approx(share, rel=5e-4)
    assert model.n_iter_ == pytest.approx(sweeps, abs=5)
    S = covariances(X, group)
    counts = np.unique(group, return_counts=True)[1]
    V = np.linalg.eigh(np.tensordot(counts / counts.sum(), S, 1))[1]
    turned = V.T @ S @ V
    off = np.sum(turned**2) - np.sum(np.einsum("kii->ki", turned) ** 2)
    assert off / np.sum(turned**2) == pytest.approx(pooled, rel=5e-4)


@pytest.mark.parametrize(("k", "value"), [(2, 0.18720), (4, 0.52400)])
def test_best_choice_of_directions(k, value):
    # methods.md section 14, test (d): best subset at r=10.
    X, group = by_education(k)
    model = JointDiagonalPCA(10, order="loss").fit(X, sensitive_features=group)
    assert model.group_losses_.max() == pytest.approx(value, abs=5e-6)


def test_commuting_matrices_are_diagonalised():
    # methods.md section 14, test (a): n=8, k=3.
    rng = np.random.default_rng(0)
    V = np.linalg.qr(rng.normal(size=(8, 8)))[0]
    S = np.array([(V * values) @ V.T for values in rng.random((3, 8))])
    vectors, turned, sweeps, settled = joint_diagonalise(S)
    assert np.sum(turned**2) - np.sum(np.einsum("kii->ki", turned) ** 2) < 1e-20 * np.sum(S**2)
    assert sweeps <= 8
    assert settled
    overlap = np.abs(V.T @ vectors)
    np.testing.assert_allclose(np.sort(overlap, axis=0)[-1], 1, atol=1e-8)


def test_a_common_basis_is_not_a_fair_one():
    # methods.md section 14, test (b): worst loss 1, optimum 1/2.
    X = np.array([[1.0, 0], [-1, 0], [0, 1], [0, -1]])
    model = JointDiagonalPCA(1).fit(X, sensitive_features=[0, 0, 1, 1])
    assert model.group_losses_.max() == pytest.approx(1)


@pytest.mark.filterwarnings("ignore:sensitive_features=None")
def test_one_group_is_pca():
    # methods.md section 14, test (e).
    X = np.random.default_rng(0).normal(size=(60, 5)) * [5, 4, 3, 2, 1]
    model = JointDiagonalPCA(2).fit(X)
    values = np.linalg.eigvalsh(np.cov(X.T))[::-1]
    np.testing.assert_allclose(model.explained_variance_, values[:2], rtol=1e-9)


def test_multiples_of_the_identity_change_nothing():
    # methods.md section 14, test (f).
    rng = np.random.default_rng(1)
    root = rng.normal(size=(3, 9, 6))
    S = np.swapaxes(root, 1, 2) @ root
    shifted = S + rng.random(3)[:, None, None] * np.eye(6)
    plain, moved = joint_diagonalise(S)[0], joint_diagonalise(shifted)[0]
    np.testing.assert_allclose(np.abs(plain), np.abs(moved), atol=1e-6)


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_basis_is_orthogonal_and_nested(n):
    rng = np.random.default_rng(n)
    X, group = rng.normal(size=(40, n)), rng.integers(0, 3, 40)
    model = JointDiagonalPCA().fit(X, sensitive_features=group)
    np.testing.assert_allclose(model.basis_.T @ model.basis_, np.eye(n), atol=1e-12)
    fewer = JointDiagonalPCA(1).fit(X, sensitive_features=group)
    np.testing.assert_allclose(fewer.components_, model.components_[:1])
