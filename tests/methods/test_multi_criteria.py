"""MultiCriteriaPCA: Tantipongpipat et al. 2019."""

import numpy as np
import pytest
from credit_variants import SEX, covariances, education, raw, tantipongpipat
from credit_variants import THREE_GROUP_LOSSES as LOSSES
from sklearn.datasets import load_wine
from sklearn.preprocessing import StandardScaler

from fairpca.fitting import pose
from fairpca.methods import MultiCriteriaPCA
from fairpca.methods.multi_criteria import nash, rank_bound
from fairpca.methods.sdr import (
    column_generation,
    extreme_point,
    relaxed_losses,
    semidefinite_program,
)

from many_group_problems import instance, lemma_8_1, lines


def test_group_sizes():
    _, group = tantipongpipat()
    assert np.unique(group, return_counts=True)[1].tolist() == [24629, 4917, 454]


@pytest.mark.parametrize("r", LOSSES)
def test_max_min_loss(r):
    X, group = tantipongpipat()
    model = MultiCriteriaPCA(r).fit(X, sensitive_features=group)
    assert model.relaxed_losses_.max() == pytest.approx(LOSSES[r], abs=1e-8)
    assert model.group_losses_.max() == pytest.approx(LOSSES[r], abs=2e-8)
    assert model.rank_ == r <= model.rank_bound_


def test_max_min_variance():
    X, group = tantipongpipat()
    model = MultiCriteriaPCA(5, criterion="variance").fit(X, sensitive_features=group)
    assert -model.group_values_.max() == pytest.approx(13.06532739, abs=1e-7)
    assert model.rank_ == 5


@pytest.mark.parametrize(("solver", "tol"), [("columns", 1e-9), ("frank-wolfe", 1e-5)])
def test_nash_social_welfare(solver, tol):
    X, group = tantipongpipat()
    model = MultiCriteriaPCA(5, criterion="nash", solver=solver, tol=tol)
    model.fit(X, sensitive_features=group)
    assert model.welfare_ == pytest.approx(14.12222407, abs=1e-7 if tol < 1e-8 else 1e-4)
    assert model.rank_ == 5
    assert model.certificate_.gap <= 2 * tol


def test_the_authors_multiplicative_weights():
    X, group = tantipongpipat()
    model = MultiCriteriaPCA(5, solver="mw", max_iter=400).fit(X, sensitive_features=group)
    assert LOSSES[5] - 1e-8 <= model.relaxed_losses_.max() <= LOSSES[5] * 1.05


@pytest.mark.parametrize("r", [1, 5])
def test_semidefinite_program_agrees(r):
    X, group = tantipongpipat()
    model = MultiCriteriaPCA(r, solver="sdp").fit(X, sensitive_features=group)
    assert model.relaxed_losses_.max() == pytest.approx(LOSSES[r], abs=1e-6)
    assert model.certificate_.lower_bound == pytest.approx(LOSSES[r], abs=1e-6)


@pytest.mark.parametrize(("cut", "r", "k"), [((2,), 8, 4), ((2, 3), 7, 6)])
def test_published_rank_violations(cut, r, k):
    # methods.md section 2 [P]: rank r + 1 at k=4 (education x sex) r=8 and k=6 r=7.
    X, _ = tantipongpipat()
    labels = {"education": np.searchsorted(cut, education()), "sex": raw()[:, SEX]}
    model = MultiCriteriaPCA(r).fit(X, sensitive_features=labels)
    assert len(model.groups_) == k
    assert model.rank_ == r + 1 <= model.rank_bound_
    assert model.certificate_.gap > 0.01


def test_lemma_8_1_relaxation_lies_above_every_line():
    problem = pose(lemma_8_1(), 1, "variance")
    found = column_generation(problem)
    assert -relaxed_losses(problem, found.projector).max() == pytest.approx(7 / 4)
    assert np.linalg.matrix_rank(extreme_point(problem, found.projector), 1e-6) == 2
    angles = np.linspace(0, np.pi, 200_001)
    directions = np.stack([np.cos(angles), np.sin(angles)])
    kept = np.einsum("im,kij,jm->km", directions, lemma_8_1(), directions, optimize=True)
    assert kept.min(axis=0).max() == pytest.approx(26 / 17, abs=1e-5)


def test_three_lines_report_their_gap():
    problem = pose(lines(3), 1)
    for found in (column_generation(problem), semidefinite_program(problem)):
        assert relaxed_losses(problem, found.projector).max() == pytest.approx(0.5, abs=1e-6)
        assert found.lower_bound == pytest.approx(0.5, abs=1e-6)


def test_rank_bound_table():
    # methods.md section 2: extra dimensions 0 (k=2), 1 (3..5), 2 (6..9), 3 (10..14).
    extra = {k: rank_bound(4, k) - 4 for k in range(2, 15)}
    assert extra == {2: 0, **dict.fromkeys((3, 4, 5), 1), **dict.fromkeys((6, 7, 8, 9), 2),
                     **dict.fromkeys(range(10, 15), 3)}  # fmt: skip


@pytest.mark.parametrize("family", ["random", "wishart", "clustered", "shared basis"])
@pytest.mark.parametrize("k", [2, 3, 6])
def test_rounding_keeps_values_and_the_rank_bound(family, k):
    case = instance(family, 5, k, n_max=25)
    problem = pose(case.covariances, case.n_components)
    relaxed = column_generation(problem)
    value = relaxed_losses(problem, relaxed.projector).max()
    extreme = extreme_point(problem, relaxed.projector)
    scale = problem.oracle.scale
    assert relaxed.lower_bound <= value + 1e-9 * scale
    assert relaxed_losses(problem, extreme).max() <= value + 1e-7 * scale
    assert np.linalg.matrix_rank(extreme, 1e-5) <= rank_bound(case.n_components, k)
    spectrum = np.linalg.eigvalsh(extreme)
    assert spectrum.min() > -1e-12
    assert spectrum.max() < 1 + 1e-12
    assert np.trace(extreme) == pytest.approx(case.n_components, abs=1e-8)


@pytest.mark.parametrize("seed", range(4))
def test_nash_bound_holds_for_every_basis(seed):
    case = instance("random", seed, 4, n_max=15)
    problem = pose(case.covariances, case.n_components, "variance")
    found = nash(problem, corrective=True, tol=1e-6, max_iter=300)
    assert found.stop_reason == "gap closed"
    rng = np.random.default_rng(seed)
    for _ in range(50):
        basis = np.linalg.qr(rng.normal(size=(problem.oracle.n_features, case.n_components)))[0]
        mean = np.exp(np.log(problem.oracle.retained_variance(basis)).mean())
        assert -mean >= found.lower_bound


def test_nash_needs_variance_in_every_group():
    X = np.vstack([np.random.default_rng(0).normal(size=(20, 3)), np.ones((5, 3))])
    with pytest.raises(ValueError, match="criterion='nash' multiplies"):
        MultiCriteriaPCA(1, criterion="nash").fit(X, sensitive_features=[0] * 20 + [1] * 5)


def test_solver_must_fit_the_criterion():
    X, group = np.eye(4), [0, 0, 1, 1]
    with pytest.raises(ValueError, match="criterion='loss' with solver='frank-wolfe'"):
        MultiCriteriaPCA(1, solver="frank-wolfe").fit(X, sensitive_features=group)


def test_covariances_of_the_table_are_the_groups():
    X, group = tantipongpipat()
    model = MultiCriteriaPCA(2).fit(X, sensitive_features=group)
    S = covariances(X, group)
    U = model.components_
    own = np.linalg.eigvalsh(S)[:, -2:].sum(axis=1)
    np.testing.assert_allclose(model.group_losses_, own - np.einsum("rn,knm,rm->k", U, S, U))


@pytest.mark.parametrize("criterion", ["loss", "share", "relative", "nash"])
def test_welfare_is_of_the_variances_kept(criterion):
    X, y = load_wine(return_X_y=True)
    X, group = StandardScaler().fit_transform(X), y == 0
    model = MultiCriteriaPCA(3, criterion=criterion).fit(X, sensitive_features=group)
    kept = [model.transform(X)[group == label].var(axis=0).sum() for label in model.groups_]
    assert model.welfare_ == pytest.approx(np.sqrt(np.prod(kept)), rel=1e-9)
