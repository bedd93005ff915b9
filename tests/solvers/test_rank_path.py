"""Every rank of two large groups in one shared subspace: the same answers, few decompositions."""

import numpy as np
import pytest

from fairpca import FairPCA, GroupMoments, component_path, phi
from fairpca.covariances.sources import MomentCovariances
from fairpca.fitting import Ranks, Settings

MOST = 8


def large(spectrum="power", n=300, m=900, seed=0):
    """Return moments of two groups with more columns than are decomposed in full."""
    rng = np.random.default_rng(seed)
    labels = rng.choice(["a", "b"], size=m, p=[0.3, 0.7])
    scale = {
        "power": 1 / np.arange(1, n + 1) ** 0.7,
        "flat": np.ones(n),
        "few": np.where(np.arange(n) < 8, 1.0, 0.0),
    }[spectrum]
    X = rng.normal(size=(m, n)) * scale
    turn = np.linalg.qr(3 * np.eye(n) + 0.3 * rng.normal(size=(n, n)))[0]
    X[labels == "a"] = X[labels == "a"] @ turn
    return GroupMoments.from_array(X, labels)


@pytest.mark.parametrize(
    "spectrum, criterion", [("power", "loss"), ("flat", "error"), ("few", "relative")]
)
def test_every_rank_is_that_of_a_fit(spectrum, criterion):
    moments = large(spectrum)
    path = component_path(moments, MOST, criterion=criterion)
    for r in (1, 5, MOST):
        model = FairPCA(r, criterion=criterion).fit_moments(moments)
        certificate = path.certificates[r - 1]
        assert certificate.gap <= 1e-9
        assert certificate.value == pytest.approx(model.certificate_.value, rel=1e-9, abs=1e-12)
        np.testing.assert_allclose(path.losses[r - 1], model.group_losses_, atol=1e-6)


def test_bounds_are_not_above_those_of_the_large_matrices():
    moments = large()
    path = component_path(moments, MOST)
    for r, weights, certificate in zip(
        path.n_components, path.weights, path.certificates, strict=True
    ):
        exact = float(phi(MomentCovariances(moments).covariances, int(r), weights[0]))
        assert certificate.lower_bound <= exact + 4 * certificate.resolution
        assert certificate.lower_bound <= certificate.value


def test_decompositions_are_shared():
    moments = large()
    ranks = Ranks(MomentCovariances(moments), Settings(), MOST)
    start = None
    for r in range(1, MOST + 1):
        start = ranks.solve(r, start).solution.weights
    alone = sum(FairPCA(r).fit_moments(moments).n_iter_ for r in range(1, MOST + 1))
    assert ranks.rows.oracle.n_eigen <= alone / 3


def test_the_allowance_of_decompositions_is_kept():
    path = component_path(large("flat"), MOST, max_iter=1)
    assert np.all(np.isfinite(path.losses))
    for certificate in path.certificates:
        assert certificate.lower_bound <= certificate.value
