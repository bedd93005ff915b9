"""ParetoFairPCA: Kamani et al. 2022, our variant."""

import numpy as np
import pytest
from credit_variants import covariances

from fairpca import FairPCA
from fairpca._arrays import orthonormal
from fairpca.methods import ParetoFairPCA
from fairpca.methods.pareto import Objectives, common_descent

from tables import credit


@pytest.fixture(scope="module")
def trade_off():
    X, group = credit()
    return ParetoFairPCA(5).fit(X, sensitive_features=group)


def test_the_variant_moves_from_pca_to_nearly_equal_losses(trade_off):
    # methods.md section 3 [C]: E = 8.346, losses 0.2901 / 0.2740 after 3000 steps from PCA.
    assert trade_off.total_error_ == pytest.approx(8.346, abs=5e-4)
    assert trade_off.group_losses_ == pytest.approx([0.2901, 0.2740], abs=5e-5)
    assert trade_off.objective_weights_ == pytest.approx([0.7, 0.3])


def test_fair_pca_is_the_zero_disparity_end(trade_off):
    # methods.md section 3, invariants (a) and (b): E_EigOpt = 8.3288.
    X, group = credit()
    fair = FairPCA(5, center="group").fit(X, sensitive_features=group)
    shares = fair.group_counts_ / fair.n_samples_
    pooled = np.tensordot(shares, covariances(X, group), 1)
    kept = np.trace(fair.components_ @ pooled @ fair.components_.T)
    # `group_errors_` are about the mean of all rows; the trade-off is about the groups' own.
    best = np.trace(pooled) - kept
    assert best == pytest.approx(8.3288, abs=5e-5)
    assert trade_off.total_error_ >= best - trade_off.disparity_
    pca = np.trace(pooled) - np.linalg.eigvalsh(pooled)[-5:].sum()
    assert pca <= trade_off.total_error_


def test_pca_is_stationary_without_the_floor():
    # methods.md section 3, degeneracy (i).
    X, group = credit()
    model = ParetoFairPCA(5, penalty="square", floor=0).fit(X, sensitive_features=group)
    assert model.n_iter_ == 1
    assert model.group_losses_ == pytest.approx([0.4416176, 0.1057660], abs=1e-6)


def test_a_square_penalty_stalls_at_any_equal_loss():
    # methods.md section 3, degeneracy (ii): zero disparity far above 8.3288; the very value
    # depends on the start and the step (9.9 to 11.6 there).
    X, group = credit()
    for seed in range(3):
        model = ParetoFairPCA(5, penalty="square", floor=0, start="random", random_state=seed)
        model.fit(X, sensitive_features=group)
        assert model.disparity_ < 1e-5
        assert model.total_error_ > 9.9


def _objectives(penalty, k):
    rng = np.random.default_rng(k)
    root = rng.normal(size=(k, 8, 6))
    S = np.swapaxes(root, 1, 2) @ root / 8
    basis = np.linalg.qr(rng.normal(size=(6, 2)))[0]
    return Objectives(S, np.full(k, 1 / k), 2, penalty), basis


@pytest.mark.parametrize("penalty", ["absolute", "square"])
@pytest.mark.parametrize("k", [2, 3])
def test_gradients_by_finite_differences(penalty, k):
    objectives, basis = _objectives(penalty, k)
    gradients = objectives.gradients(objectives.at(basis), 0.1)
    assert len(gradients) == (2 if k == 2 else k + 1)
    rng = np.random.default_rng(0)
    step = rng.normal(size=basis.shape)
    step -= basis @ (basis.T @ step)
    h = 1e-5
    ahead, behind = (
        objectives.values(objectives.at(orthonormal(basis + s * step)), 0.1) for s in (h, -h)
    )
    slopes = np.einsum("inr,nr->i", gradients, step)
    np.testing.assert_allclose((ahead - behind) / (2 * h), slopes, atol=1e-7)


@pytest.mark.parametrize("floor", [0.0, 0.3])
def test_common_descent_is_the_shortest_combination(floor):
    objectives, basis = _objectives("absolute", 3)
    gradients = objectives.gradients(objectives.at(basis), 0.1)
    weights = common_descent(gradients, floor)
    assert weights.sum() == pytest.approx(1)
    assert weights.min() >= floor / 4 - 1e-12
    length = np.linalg.norm(np.tensordot(weights, gradients, 1))
    rng = np.random.default_rng(1)
    for _ in range(200):
        other = floor / 4 + (1 - floor) * rng.dirichlet(np.ones(4))
        assert length <= np.linalg.norm(np.tensordot(other, gradients, 1)) + 1e-9


def test_armijo_steps_never_raise_an_objective():
    # methods.md section 3, invariant (c).
    X, group = credit()
    values = []
    for steps in (1, 4, 16):
        model = ParetoFairPCA(
            5, penalty="square", floor=0, step="armijo", start="random", max_iter=steps,
            disparity_weight=0.0,
        ).fit(X, sensitive_features=group)  # fmt: skip
        values.append((model.total_error_, model.disparity_))
    assert values == sorted(values, reverse=True)
    assert values[-1][1] <= values[0][1]
