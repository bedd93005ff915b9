"""StablePCA: Wang, Liu, Lei, Bach and Guo 2026."""

import sys
from pathlib import Path

import numpy as np
import pytest
from credit_variants import by_education, covariances

import fairpca
from fairpca.fitting import pose
from fairpca.methods import StablePCA

from many_group_problems import instance, lines

ROOT = Path(__file__).resolve().parents[2]

# methods.md section 12 [C], credit edu4: least variance, and worst loss.
VARIANCES = {2: 9.03744670, 5: 12.42391517, 10: 15.67793702, 15: 17.34111973}
LOSSES = {2: 0.20785182, 5: 0.48973596, 10: 0.40756878, 15: 0.02853299}


@pytest.mark.parametrize("r", VARIANCES)
def test_least_variance(r):
    X, group = by_education(4)
    model = StablePCA(r).fit(X, sensitive_features=group)
    assert -model.group_values_.max() == pytest.approx(VARIANCES[r], abs=1e-8)
    assert model.certificate_.optimal
    # Often only "PCA of the group with least variance": the weights are a unit vector.
    assert model.group_weights_.max() == pytest.approx(1)


@pytest.mark.parametrize("r", VARIANCES)
def test_weights_on_three_groups_are_a_unit_vector(r):
    X, group = by_education(3)
    model = StablePCA(r).fit(X, sensitive_features=group)
    assert model.group_weights_.max() == pytest.approx(1)


@pytest.mark.parametrize("r", LOSSES)
def test_worst_loss(r):
    X, group = by_education(4)
    model = StablePCA(r, criterion="loss").fit(X, sensitive_features=group)
    assert model.group_values_.max() == pytest.approx(LOSSES[r], abs=1e-8)


def test_worst_share():
    # methods.md section 12 (e): r=2 .488810; loss optimum .4851, PCA .4805, variance .4736.
    X, group = by_education(4)
    S = covariances(X, group)

    def share(model):
        U = model.components_
        return float(np.min(np.einsum("rn,knm,rm->k", U, S, U) / np.trace(S, axis1=1, axis2=2)))

    fits = {
        c: StablePCA(2, criterion=c).fit(X, sensitive_features=group)
        for c in ("share", "loss", "variance")
    }
    assert share(fits["share"]) == pytest.approx(0.488810, abs=1e-6)
    assert share(fits["loss"]) == pytest.approx(0.4851, abs=5e-5)
    assert share(fits["variance"]) == pytest.approx(0.4736, abs=5e-5)
    five = StablePCA(5, criterion="share").fit(X, sensitive_features=group)
    assert share(five) == pytest.approx(0.676816, abs=1e-6)
    assert five.certificate_.gap < 1e-3
    loss = StablePCA(5, criterion="loss").fit(X, sensitive_features=group)
    assert share(loss) == pytest.approx(0.6706, abs=5e-5)


def test_three_lines():
    # methods.md section 12, test (b): variance 1/4, bound 1/2.
    problem = pose(lines(3), 1, "variance")
    found = StablePCA(1)._solve(problem)
    assert -problem.losses(found.basis).max() == pytest.approx(0.25)
    assert 0.25 - 1e-9 <= -found.lower_bound <= 0.5 + 1e-9
    third = np.full(3, 1 / 3)
    assert fairpca.phi(lines(3), 1, third, criterion="variance") == pytest.approx(-0.5)


@pytest.mark.parametrize("seed", range(3))
def test_mirror_prox_brackets_the_same_optimum(seed):
    # methods.md section 12, test (c).
    sys.path.insert(0, str(ROOT))
    peers = pytest.importorskip("benchmarks.peers", reason="needs the benchmarks beside the tests")
    S, r = instance("wishart", seed, 3, n_max=15).covariances, 2
    basis, weights = peers.mirror_prox(S, r, steps=300)
    problem = pose(S, r)
    best = fairpca.solve(S, r).certificate
    assert fairpca.phi(S, r, weights) <= best.lower_bound + 1e-9
    assert problem.losses(basis).max() >= best.lower_bound - 1e-9


def test_every_mixture_is_served():
    # methods.md section 12, test (d): edu4 r=5, 2000 mixtures, at most .489736.
    X, group = by_education(4)
    model = StablePCA(5, criterion="loss").fit(X, sensitive_features=group)
    S, U = covariances(X, group), model.components_
    kept = np.einsum("rn,knm,rm->k", U, S, U)
    mixtures = np.random.default_rng(0).dirichlet(np.ones(4), size=2000)
    own = np.linalg.eigvalsh(np.tensordot(mixtures, S, 1))[:, -5:].sum(axis=1)
    losses = own - mixtures @ kept
    assert losses.max() <= model.group_losses_.max() + 1e-12
    assert model.group_losses_.max() == pytest.approx(0.489736, abs=1e-6)


def test_a_common_multiple_of_the_identity_changes_only_the_value():
    # methods.md section 12, test (e).
    S = instance("random", 1, 3, n_max=12).covariances
    shifted = S + 2.0 * np.eye(S.shape[1])
    plain, moved = (StablePCA(2)._solve(pose(A, 2, "variance")) for A in (S, shifted))
    assert moved.lower_bound == pytest.approx(plain.lower_bound - 4.0)
    np.testing.assert_allclose(plain.basis @ plain.basis.T, moved.basis @ moved.basis.T, atol=1e-7)


def test_identical_groups_lose_nothing():
    # methods.md section 12, test (f).
    X = np.random.default_rng(0).normal(size=(50, 5)) * [3, 2, 1, 1, 1]
    model = StablePCA(2, criterion="loss")
    model.fit(np.vstack([X] * 3), sensitive_features=np.repeat([0, 1, 2], 50))
    assert model.group_losses_.max() < 1e-12


def test_the_release_does_not_centre():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 4)) * [1, 2, 1, 1] + [10, 0, 0, 0]
    group = np.repeat([0, 1], 50)
    raw, centred = (
        StablePCA(1, center=c).fit(X, sensitive_features=group) for c in ("none", "group")
    )
    assert abs(raw.components_[0, 0]) > 0.99
    assert abs(centred.components_[0, 1]) > 0.9
    assert (raw.center_, centred.center_) == ("none", "group")
    assert -raw.group_values_.max() > 90
