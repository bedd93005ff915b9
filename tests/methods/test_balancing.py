"""Methods that balance groups otherwise; marks as in `test_worst_group`."""

from itertools import combinations

import numpy as np
import pytest
from credit_variants import by_education, pelegrina
from sklearn.decomposition import PCA

from fairpca import FairPCA, GroupMoments, datasets
from fairpca._arrays import orthonormal, subspace_distance
from fairpca.methods import (
    AnchorPCA,
    BalancedPCA,
    ConstrainedFPCA,
    JointDiagonalPCA,
    ParetoFairPCA,
    SPEA2FairPCA,
    UnconstrainedFPCA,
    WorstCasePCA,
)
from fairpca.methods.joint_diagonal import joint_diagonalise
from fairpca.methods.pareto import common_descent, gradients
from fairpca.methods.spea2 import PCAAxes, efficient

from data_dir import data_path
from tables import credit

# Section 5 [C]: alpha, error of codes not in {1, 2}, error of the others.
CREDIT = [
    (UnconstrainedFPCA, 2, 0.0, 11.30834, 11.81180),
    (ConstrainedFPCA, 2, None, 8.31791, 9.65357),
    (UnconstrainedFPCA, 5, 0.8832, 6.05985, 6.05985),
    (UnconstrainedFPCA, 15, 0.5168, 0.30078, 0.30078),
    (ConstrainedFPCA, 15, 0.7344, 0.28228, 0.29421),
]
# Section 14 (d) [C]: worst loss of joint diagonalisation at r = 1..10.
WORST = {
    2: [0.03620, 0.24090, 0.57817, 0.16161, 0.21650, 0.21348, 0.34984, 0.31653, 0.32700, 0.18720],
    4: [0.31281, 0.33390, 0.67019, 0.80115, 0.64512, 1.02670, 1.14418, 0.99710, 0.92344, 0.65447],
}


@pytest.fixture(scope="module")
def batches():
    """Two batches, ten to one, each with directions of its own and a mean of its own."""
    rng = np.random.default_rng(0)
    batch = np.repeat(["large", "small"], [500, 50])
    X = rng.normal(size=(550, 8)) * [3, 2.5, 2, 1, 1, 1, 1, 1]
    X[batch == "small"] = X[batch == "small"][:, [4, 5, 6, 0, 1, 2, 3, 7]] + 0.5
    return X, batch


def test_balanced_pca_makes_the_mean_of_the_groups_errors_least(batches):
    X, batch = batches
    balanced, fair = (m(3).fit(X, sensitive_features=batch) for m in (BalancedPCA, FairPCA))
    moments = GroupMoments.from_array(X, batch).second_moments(X.mean(axis=0))
    best = np.linalg.eigvalsh(moments.mean(axis=0))[:-3].sum()
    assert balanced.group_errors_.mean() == pytest.approx(best)
    assert balanced.group_errors_.mean() < fair.group_errors_.mean()
    # The worst group is FairPCA's business.
    assert balanced.group_losses_.max() > fair.group_losses_.max()
    often = np.repeat(np.arange(550), np.where(batch == "small", 10, 1))
    one = BalancedPCA(3, center="group").fit(X, sensitive_features=batch)
    other = BalancedPCA(3, center="group").fit(X[often], sensitive_features=batch[often])
    assert subspace_distance(one.components_.T, other.components_.T) < 1e-9


def projector(matrix, r):
    vectors = np.linalg.eigh(matrix)[1][:, -r:]
    return vectors @ vectors.T


@pytest.mark.parametrize("lam", [0.0, 0.3, 5.0])
@pytest.mark.parametrize("center", ["group", "global"])
def test_anchor_pca_is_its_formula(batches, lam, center):
    X, batch = batches
    model = AnchorPCA(3, lam=lam, center=center).fit(X, sensitive_features=batch)
    parts = [X[batch == label] for label in np.unique(batch)]
    means = [X.mean(axis=0) if center == "global" else part.mean(axis=0) for part in parts]
    S = [(p - m).T @ (p - m) / len(p) for p, m in zip(parts, means, strict=True)]
    own = [projector(matrix, 3) for matrix in S]
    whole = np.mean(S, axis=0) + 2 * len(S) * lam * np.mean(own, axis=0)
    expected, found = projector(whole, 3), model.components_.T @ model.components_
    np.testing.assert_allclose(found, expected, atol=1e-9)
    shared = [np.trace(found @ P) / 3 for P in own]
    np.testing.assert_allclose(model.agreement_, shared, atol=1e-9)


def test_anchor_pca_finds_what_groups_share():
    """The claim of the paper: with a large weight the shared subspace, which PCA may miss."""
    known = datasets.make_shared_subspace(private_variance=20.0, random_state=0)
    r = known.n_components
    models = [AnchorPCA(r, lam=100.0), BalancedPCA(r)]
    away = [
        subspace_distance(
            model.fit(known.data, sensitive_features=known.sensitive_features).components_.T,
            known.shared.T,
        )
        for model in models
    ]
    assert away[0] < 1e-6 < 0.5 < away[1]


@pytest.mark.slow
@pytest.mark.parametrize("r", [3, 4, 6])
def test_anchor_pca_on_a_speaker_who_was_not_there(r):
    """As in the paper: more variance of new groups, on average, than pooling or a worst case."""
    table = np.genfromtxt(data_path("japanese_vowels.csv"), delimiter=",", skip_header=1)
    X, speaker, shares = table[:, 2:], table[:, 0], []
    models = [AnchorPCA(r), WorstCasePCA(r, variant="minPCA"), PCA(r)]
    for left_out in np.unique(speaker):
        inside, new = speaker != left_out, X[speaker == left_out]
        for model in models[:2]:
            model.fit(X[inside], sensitive_features=speaker[inside])
        models[2].fit(X[inside])
        shares.append([m.transform(new).var(axis=0).sum() / new.var(axis=0).sum() for m in models])
    anchor, worst_case, pooled = np.mean(shares, axis=0)
    assert anchor > pooled + 0.01
    assert anchor > worst_case + 0.01


@pytest.mark.parametrize(("method", "r", "alpha", "low", "high"), CREDIT)
def test_credit_by_the_line_of_pcas(method, r, alpha, low, high):
    X, group = pelegrina()
    model = method(r).fit(X, sensitive_features=group)
    assert model.group_values_[::-1] == pytest.approx([low, high], abs=1e-5)
    if alpha is not None:
        assert model.alpha_ == pytest.approx(alpha, abs=5e-5)
    if (method, r) == (UnconstrainedFPCA, 15):
        # Deliberate damage: both fare worse than with PCA.
        assert model.matrix_weights_.min() < 0
        assert np.all(model.group_values_[::-1] > [0.27779, 0.29421])


@pytest.mark.slow
def test_pareto_moves_from_pca_to_nearly_equal_losses():
    # Section 3 [C]: E = 8.346, losses 0.2901 / 0.2740 after 3000 steps from PCA; the best total
    # error with equal losses, that of FairPCA, is 8.3288.
    X, group = credit()
    model = ParetoFairPCA(5).fit(X, sensitive_features=group)
    assert model.total_error_ == pytest.approx(8.346, abs=5e-4)
    assert model.group_losses_ == pytest.approx([0.2901, 0.2740], abs=1e-4)
    assert model.total_error_ >= 8.3288 - 5e-5 - model.disparity_
    # Degeneracy (i): PCA is stationary without the floor.
    pca = ParetoFairPCA(5, floor=0).fit(X, sensitive_features=group)
    assert pca.group_losses_ == pytest.approx([0.4416176, 0.1057660], abs=1e-4)


@pytest.mark.parametrize("k", [2, 3])
def test_pareto_gradients_and_their_shortest_combination(k):
    rng = np.random.default_rng(k)
    root = rng.normal(size=(k, 8, 6))
    S, shares = np.swapaxes(root, 1, 2) @ root / 8, rng.dirichlet(np.ones(k))

    def values(U):
        losses = -np.einsum("nr,knm,mr->k", U, S, U)
        apart = np.hypot(losses[:, None] - losses, 0.1).sum(axis=1) / (k - 1)
        return np.append(shares @ losses, apart[: 1 if k == 2 else k])

    basis, step = (np.linalg.qr(rng.normal(size=(6, 2)))[0] for _ in range(2))
    step -= basis @ (basis.T @ step)
    losses = -np.einsum("nr,knm,mr->k", basis, S, basis)
    slopes = gradients(basis, S @ basis, losses, shares, 0.1)
    h = 1e-5
    ahead, behind = (values(orthonormal(basis + s * step)) for s in (h, -h))
    numeric = (ahead - behind) / (2 * h)
    np.testing.assert_allclose(np.einsum("inr,nr->i", slopes, step), numeric, atol=1e-6)
    weights = common_descent(slopes, 0.3)
    assert weights.min() >= 0.3 / len(weights) - 1e-12
    shortest = np.linalg.norm(np.tensordot(weights, slopes, 1))
    for other in 0.3 / len(weights) + 0.7 * np.eye(len(weights)):
        assert shortest <= np.linalg.norm(np.tensordot(other, slopes, 1)) + 1e-9


@pytest.mark.parametrize("r", [1, 2, 4])
def test_spea2_finds_points_of_the_true_front(r):
    # Section 4 (b): n <= 10, r <= 4.
    rng = np.random.default_rng(1)
    X, group = rng.normal(size=(300, 9)) * rng.uniform(0.5, 2, 9), rng.integers(0, 2, 300)
    model = SPEA2FairPCA(r).fit(X, sensitive_features=group)
    S = GroupMoments.from_array(X, group).second_moments(X.mean(axis=0))
    axes = PCAAxes.of(S, np.bincount(group) / 300)
    subsets = np.array(list(combinations(range(9), r)))
    costs = axes.costs(subsets)
    # Section 4 (a): the costs are those of the definition.
    V = axes.vectors[:, subsets[-1]]
    errors = [np.trace(s) - np.trace(V.T @ s @ V) for s in S]
    assert costs[-1] == pytest.approx(
        [np.bincount(group) @ errors / 300, (errors[0] - errors[1]) ** 2], abs=1e-10
    )
    true = costs[efficient(costs)]
    better = np.all(costs[:, None] <= true, axis=2) & np.any(costs[:, None] < true, axis=2)
    assert not better.any()
    for point in model.front_:
        assert np.abs(true - point).sum(axis=1).min() < 1e-12


def test_joint_diagonalisation_of_matrices_that_commute():
    # Section 14 (a) n=8, k=3, and (f): multiples of the identity change nothing.
    rng = np.random.default_rng(0)
    V = np.linalg.qr(rng.normal(size=(8, 8)))[0]
    S = np.array([(V * values) @ V.T for values in rng.random((3, 8))])
    vectors, turned, sweeps, settled = joint_diagonalise(S)
    assert np.sum(turned**2) - np.sum(np.einsum("kii->ki", turned) ** 2) < 1e-20 * np.sum(S**2)
    assert settled
    assert sweeps <= 8
    np.testing.assert_allclose(np.abs(V.T @ vectors).max(axis=0), 1, atol=1e-8)
    moved = joint_diagonalise(S + rng.random(3)[:, None, None] * np.eye(8))[0]
    np.testing.assert_allclose(np.abs(vectors), np.abs(moved), atol=1e-6)
    # Section 14 (b): a common basis is no fair one; the optimum is 1/2.
    X = np.array([[1.0, 0], [-1, 0], [0, 1], [0, -1]])
    model = JointDiagonalPCA(1).fit(X, sensitive_features=[0, 0, 1, 1])
    assert model.group_losses_.max() == pytest.approx(1)
    # Directions without variance: rotations settle all the same.
    X = rng.normal(size=(12, 9)) @ rng.normal(size=(9, 20))
    model = JointDiagonalPCA(14).fit(X, sensitive_features=np.arange(12) % 2)
    assert model.stop_reason_ == "rotations settled"
    np.testing.assert_allclose(model.basis_ @ model.basis_.T, np.eye(20), atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("k", "share"), [(2, 9.91e-3), (4, 2.058e-2)])
def test_joint_diagonalisation_of_credit(k, share):
    # Section 14 (c), (d).
    X, group = by_education(k)
    models = [JointDiagonalPCA(r).fit(X, sensitive_features=group) for r in range(1, 11)]
    assert [m.group_losses_.max() for m in models] == pytest.approx(WORST[k], abs=5e-6)
    assert models[0].off_diagonal_share_ == pytest.approx(share, rel=5e-4)
