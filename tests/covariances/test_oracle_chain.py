"""Methods that must agree, by theorem, checked against each other on the same data.

The chain at the end of the method specifications, in its order.
"""

import sys
from pathlib import Path

import numpy as np
import pytest
from sklearn.decomposition import PCA

import fairpca
from fairpca._arrays import subspace_distance
from fairpca.fitting import pose
from fairpca.methods import (
    ARPGDA,
    RADA,
    ConstrainedFPCA,
    CovarianceConstrainedPCA,
    JointDiagonalPCA,
    MinorizationFairPCA,
    MMDFairPCA,
    MultiCriteriaPCA,
    NullSpaceFairPCA,
    ParetoFairPCA,
    SDRFairPCA,
    SPEA2FairPCA,
    StablePCA,
    StreamingFairPCA,
    UnconstrainedFPCA,
    WorstCasePCA,
)
from fairpca.methods.sdr import column_generation, semidefinite_program
from fairpca.metrics import (
    covariance_gap,
    group_errors,
    group_losses,
    kept_variance,
    mean_gap,
    mmd_squared,
    own_variance,
)

from many_group_problems import lemma_8_1, lines
from tables import about_own_means, credit

sys.path.insert(0, str(Path(__file__).parents[1] / "methods"))

from credit_variants import (
    THREE_GROUP_LOSSES,
    covariances,
    olfat,
    tantipongpipat,
)

# methods.md section 0 [C]: credit, common loss.
TWO_GROUPS = {1: 0.0277142888, 5: 0.2626556625, 10: 0.1722215097, 15: 0.0135750005}


# 1. Two groups.


@pytest.mark.parametrize("r", TWO_GROUPS)
def test_two_groups_all_roads_lead_to_one_value(r):
    X, group = credit()
    ours = about_own_means(r).fit(X, sensitive_features=group)
    value = ours.certificate_.value
    assert value == pytest.approx(TWO_GROUPS[r], abs=1e-10)
    for model in (
        SDRFairPCA(r, solver="columns"),
        MultiCriteriaPCA(r),
        RADA(r, n_starts=5),
        MinorizationFairPCA(r),
        StablePCA(r, criterion="loss"),
        WorstCasePCA(r, variant="maxRegret"),
    ):
        found = model.fit(X, sensitive_features=group).group_losses_.max()
        assert found == pytest.approx(value, abs=1e-6), type(model).__name__
        assert found >= value - 1e-9
    weights = SDRFairPCA(r).fit(X, sensitive_features=group)
    assert weights.relaxed_losses_.max() >= value - 1e-9


@pytest.mark.parametrize("r", [5, 15])
def test_two_groups_semidefinite_program(r):
    X, group = credit()
    found = semidefinite_program(pose(covariances(X, group), r))
    assert found.lower_bound == pytest.approx(TWO_GROUPS[r], abs=1e-6)


def test_pareto_front_ends_at_the_fair_optimum():
    X, group = credit()
    fair = about_own_means(5).fit(X, sensitive_features=group)
    shares = fair.group_counts_ / fair.n_samples_
    within = np.tensordot(shares, covariances(X, group), 1)
    total = float(np.trace(within) - np.trace(fair.components_ @ within @ fair.components_.T))
    for model in (ParetoFairPCA(5), ParetoFairPCA(5, start="random", max_iter=300)):
        model.fit(X, sensitive_features=group)
        assert model.total_error_ >= total - model.disparity_


# 2. Three groups.


@pytest.mark.parametrize("r", THREE_GROUP_LOSSES)
def test_three_groups(r):
    X, group = tantipongpipat()
    problem = pose(covariances(X, group), r)
    exact = fairpca.solve(covariances(X, group), r).certificate
    assert exact.value == pytest.approx(THREE_GROUP_LOSSES[r], abs=1e-8)
    assert exact.optimal
    assert column_generation(problem).lower_bound == pytest.approx(exact.value, abs=1e-7)
    rada = RADA(r).fit(X, sensitive_features=group)
    assert rada.group_losses_.max() == pytest.approx(exact.value, abs=1e-6)


@pytest.mark.parametrize("r", [1, 5, 10])
def test_three_groups_semidefinite_program(r):
    X, group = tantipongpipat()
    found = semidefinite_program(pose(covariances(X, group), r))
    assert found.lower_bound == pytest.approx(THREE_GROUP_LOSSES[r], abs=1e-6)


# 3. True gaps.


@pytest.mark.parametrize(
    ("matrices", "criterion", "relaxed", "true"),
    [(lines(3), "loss", 1 / 2, 3 / 4), (lemma_8_1(), "variance", -7 / 4, -26 / 17)],
)
def test_relaxed_solvers_report_a_true_gap(matrices, criterion, relaxed, true):
    problem = pose(matrices, 1, criterion)
    for solver in ("columns", "sdp"):
        found = MultiCriteriaPCA(1, criterion=criterion, solver=solver)._solve(problem)
        assert found.lower_bound == pytest.approx(relaxed, abs=1e-6)
        assert found.own["relaxed_losses_"].max() == pytest.approx(relaxed, abs=1e-6)
        certificate = problem.certificate(
            found.lower_bound, float(problem.losses(found.basis).max())
        )
        assert not certificate.optimal
        assert certificate.value >= true - 1e-9
    for model in (RADA(1, criterion=criterion, n_starts=8), MinorizationFairPCA(1, n_starts=8)):
        basis = model._solve(problem).basis
        assert problem.losses(basis).max() == pytest.approx(true, abs=1e-6)
    ours = fairpca.solve(matrices, 1, criterion=criterion).certificate
    assert ours.value == pytest.approx(true, abs=1e-9)
    assert ours.lower_bound >= relaxed - 1e-9


# 4. Equal means.


def test_three_roads_to_equal_means():
    X, group = olfat()
    closed = NullSpaceFairPCA(5).fit(X, sensitive_features=group)
    for model in (
        CovarianceConstrainedPCA(5, mu=0, delta=0, solver="CLARABEL"),
        StreamingFairPCA(5, n_directions=0),
    ):
        model.fit(X, sensitive_features=group)
        assert subspace_distance(closed.components_.T, model.components_.T) < 1e-7


# 5. Groups that only their distribution tells apart.


def test_equal_moments_hide_the_groups_from_all_but_the_mmd():
    # Lee et al. 2022, synthetic 1, with the sample's own noise in means and covariances removed.
    rng = np.random.default_rng(2)
    first = np.sqrt(0.1) * rng.normal(size=(400, 3)) + np.repeat([-1, 1], 200)[:, None]
    second = rng.multivariate_normal(np.zeros(3), 0.1 * np.eye(3) + 1, size=400)
    roots = [np.linalg.cholesky(np.cov(part.T)) for part in (first, second)]
    second = (second - second.mean(axis=0)) @ np.linalg.solve(roots[1].T, roots[0].T)
    X, group = np.vstack([first, second + first.mean(axis=0)]), np.repeat([0, 1], 400)
    pca, mmd = PCA(2).fit(X), MMDFairPCA(2).fit(X, sensitive_features=group)

    def discrepancy(model):
        return mmd_squared(model, X, sensitive_features=group, bandwidth=mmd.bandwidth_)

    assert mean_gap(np.eye(3), X, sensitive_features=group) < 1e-12
    assert covariance_gap(np.eye(3), X, sensitive_features=group) < 1e-12
    for model in (
        CovarianceConstrainedPCA(2, mu=2),
        NullSpaceFairPCA(2, n_kept_directions=3),
        StreamingFairPCA(2),
    ):
        model.fit(X, sensitive_features=group)
        assert discrepancy(model) == pytest.approx(discrepancy(pca), rel=1e-3)
    assert discrepancy(mmd) < 1e-3 < 0.04 < discrepancy(pca)


# 6. Invariances.


MIN_MAX = [
    about_own_means(2),
    SDRFairPCA(2),
    SDRFairPCA(2, solver="columns"),
    MultiCriteriaPCA(2),
    MultiCriteriaPCA(2, criterion="nash"),
    RADA(2, n_starts=2),
    ARPGDA(2, n_starts=2),
    MinorizationFairPCA(2),
    StablePCA(2),
    WorstCasePCA(2),
    JointDiagonalPCA(2),
]
POOLED = [
    ParetoFairPCA(2, max_iter=200),
    SPEA2FairPCA(2, max_iter=5, selection="error"),
    UnconstrainedFPCA(2),
    ConstrainedFPCA(2),
    CovarianceConstrainedPCA(2, mu=0.5),
    MMDFairPCA(2, tau=0.05),
    NullSpaceFairPCA(2),
    StreamingFairPCA(2),
]
ALL = MIN_MAX + POOLED


def label(model):
    return repr(model).replace("\n", "")


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(7)
    group = np.repeat(["a", "b"], [120, 60])
    X = rng.normal(size=(180, 6)) * [4, 3, 2.5, 2, 1.5, 1]
    turn = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    X[120:] = X[120:] @ turn + [1, 0.5, 0, 0, 0, 0]
    return X, group


@pytest.mark.parametrize("model", ALL, ids=label)
def test_all_components_lose_nothing(rows, model):
    X, group = rows
    model = fairpca_clone(model)
    if isinstance(model, NullSpaceFairPCA | StreamingFairPCA | CovarianceConstrainedPCA):
        # r = n - 1 is the most, and then all of them give the same answer.
        model.set_params(n_components=5).fit(X, sensitive_features=group)
        f = X[group == "a"].mean(axis=0) - X[group == "b"].mean(axis=0)
        assert np.abs(model.components_ @ f).max() < 1e-9
        return
    if isinstance(model, MMDFairPCA):
        model.set_params(tau=0.9)
    model.set_params(n_components=6).fit(X, sensitive_features=group)
    assert model.group_losses_.max() < 1e-9


@pytest.mark.parametrize("model", ALL, ids=label)
def test_names_and_order_of_groups_do_not_matter(rows, model):
    X, group = rows
    first = fairpca_clone(model).fit(X, sensitive_features=group)
    swapped = np.where(group == "a", "z", "y")
    second = fairpca_clone(model).fit(X[::-1], sensitive_features=swapped[::-1])
    np.testing.assert_allclose(second.group_losses_[::-1], first.group_losses_, atol=1e-4)


@pytest.mark.parametrize("model", MIN_MAX, ids=label)
def test_repeating_a_group_changes_no_min_max_method(rows, model):
    X, group = rows
    once = fairpca_clone(model).fit(X, sensitive_features=group)
    many, labels = np.vstack([X, X[120:], X[120:]]), np.append(group, ["b"] * 120)
    again = fairpca_clone(model).fit(many, sensitive_features=labels)
    # Alternating descent and ascent stops after a number of steps, some 2e-5 from the optimum.
    atol = 1e-4 if isinstance(model, ARPGDA) else 1e-6
    np.testing.assert_allclose(again.group_losses_, once.group_losses_, atol=atol)
    assert subspace_distance(once.components_.T, again.components_.T) < 100 * atol


@pytest.mark.parametrize("model", POOLED, ids=label)
def test_repeating_a_group_changes_the_pooled_methods(rows, model):
    X, group = rows
    once = fairpca_clone(model).fit(X, sensitive_features=group)
    many, labels = np.vstack([X, X[120:], X[120:]]), np.append(group, ["b"] * 120)
    again = fairpca_clone(model).fit(many, sensitive_features=labels)
    assert subspace_distance(once.components_.T, again.components_.T) > 1e-4


@pytest.mark.parametrize("model", ALL, ids=label)
def test_identities(rows, model):
    X, group = rows
    fitted = fairpca_clone(model).fit(X, sensitive_features=group)
    U = fitted.components_
    S = covariances(X, group)
    shares = np.array([120, 60]) / 180
    best = np.trace(S, axis1=1, axis2=2) - own_variance(S, 2)
    within = np.tensordot(shares, S, 1)
    total = np.trace(within) - np.trace(U @ within @ U.T)
    assert shares @ fitted.group_losses_ == pytest.approx(total - shares @ best)
    assert total >= np.linalg.eigvalsh(within)[:-2].sum() - 1e-12
    # Only the subspace counts.
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(2, 2)))[0]
    losses = group_losses(turn @ U, X, sensitive_features=group, center="group")
    np.testing.assert_allclose(losses, fitted.group_losses_, atol=1e-10)
    errors = group_errors(turn @ U, X, sensitive_features=group)
    np.testing.assert_allclose(errors, fitted.group_errors_, atol=1e-10)


def test_each_groups_own_pca_loses_nothing_for_it(rows):
    X, group = rows
    for i, name in enumerate("ab"):
        own = PCA(2).fit(X[group == name])
        assert group_losses(own, X, sensitive_features=group, center="group")[i] < 1e-12
    S = covariances(X, group)
    assert np.all(kept_variance(own.components_.T, S) <= own_variance(S, 2) + 1e-12)


def fairpca_clone(model):
    return type(model)(**model.get_params())
