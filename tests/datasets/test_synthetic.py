"""Generators with a known answer: the answer is the optimum of the sample that was drawn."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairpca
from fairpca import FairPCA, GroupMoments
from fairpca._arrays import subspace_distance
from fairpca.datasets import make_illustration, make_shared_subspace, make_three_lines


def covariances(known):
    return GroupMoments.from_array(known.data, known.sensitive_features).covariances


def worst_loss(components, matrices):
    r = len(components)
    own = np.linalg.eigvalsh(matrices)[:, ::-1][:, :r].sum(axis=1)
    return float((own - np.einsum("rn,knm,rm->k", components, matrices, components)).max())


@given(
    angles=st.tuples(st.floats(0, 360), st.floats(0, 360)),
    spread=st.tuples(st.floats(0.1, 9), st.floats(0.1, 9)),
    seed=st.integers(0, 1000),
)
def test_illustration_states_its_optimum(angles, spread, seed):
    variances = ((spread[0] + 0.5, 0.5), (spread[1] + 0.2, 0.2))
    known = make_illustration((30, 20), angles=angles, variances=variances, random_state=seed)
    matrices = covariances(known)
    found = fairpca.solve(matrices, 1)
    assert found.certificate.value == pytest.approx(known.optimum, abs=1e-12)
    assert worst_loss(known.components, matrices) == pytest.approx(known.optimum, abs=1e-12)


def test_illustration_direction():
    known = make_illustration(random_state=0)
    model = FairPCA(1).fit(known.data, sensitive_features=known.sensitive_features)
    assert subspace_distance(model.components_.T, known.components.T) < 1e-7
    x, y = model.components_[0]
    assert np.rad2deg(np.arctan2(y, x)) % 180 == pytest.approx(known.angle, abs=1e-6)
    assert known.data.shape == (200, 2)
    assert (known.sensitive_features == "A").sum() == 160


def test_rows_have_exactly_the_covariance():
    known = make_illustration(angles=(0, 90), variances=((4, 1), (9, 0)), random_state=1)
    first, second = covariances(known)
    np.testing.assert_allclose(first, np.diag([4.0, 1.0]), atol=1e-13)
    np.testing.assert_allclose(second, np.diag([0.0, 9.0]), atol=1e-13)
    means = GroupMoments.from_array(known.data, known.sensitive_features).mean
    np.testing.assert_allclose(means, 0, atol=1e-14)


@pytest.mark.parametrize("n", [2, 3, 7])
def test_three_lines_have_a_true_gap(n):
    known = make_three_lines(n_features=n, random_state=0)
    matrices = covariances(known)
    assert fairpca.phi(matrices, 1, np.full(3, 1 / 3)) == pytest.approx(0.5, abs=1e-13)
    assert known.lower_bound == 0.5
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(3), 200)
    assert fairpca.phi(matrices, 1, weights).max() <= 0.5 + 1e-12
    directions = rng.normal(size=(20000, n))
    directions[:, 2:] *= rng.random((20000, 1)) ** 4
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    losses = 1 - np.einsum("dn,knm,dm->dk", directions, matrices, directions)
    assert losses.max(axis=1).min() >= 0.75 - 1e-12
    assert worst_loss(known.components, matrices) == pytest.approx(0.75, abs=1e-12)


@given(
    sizes=st.lists(st.integers(13, 40), min_size=2, max_size=5),
    n_shared=st.integers(1, 4),
    private=st.floats(0.1, 8),
    seed=st.integers(0, 1000),
)
def test_shared_subspace_states_its_optimum(sizes, n_shared, private, seed):
    known = make_shared_subspace(
        sizes, n_shared=n_shared, private_variance=private, random_state=seed
    )
    matrices = covariances(known)
    r = known.n_components
    k = len(sizes)
    # No weights of the dual may be above it, and equal weights reach it by symmetry.
    bound = (
        fairpca.phi(matrices, r, 0.5) if k == 2 else fairpca.phi(matrices, r, np.full(k, 1 / k))
    )
    assert bound == pytest.approx(known.optimum, abs=1e-9)
    if private < 0.99 * k:
        assert known.components is not None
        assert known.optimum == pytest.approx(max(private - 1, 0), abs=1e-9)
        assert worst_loss(known.components, matrices) == pytest.approx(known.optimum, abs=1e-9)
    if k == 2:
        found = fairpca.solve(matrices, r)
        assert found.certificate.value == pytest.approx(known.optimum, abs=1e-9)


def test_ordinary_pca_follows_the_largest_source():
    known = make_shared_subspace(random_state=0)
    pooled = GroupMoments.from_array(known.data, known.sensitive_features).pooled().scatter[0]
    leading = np.linalg.eigh(pooled)[1][:, -1]
    assert abs(leading @ known.private[0]) > 0.99
    matrices = covariances(known)
    pca = np.linalg.eigh(pooled)[1][:, -3:].T
    assert worst_loss(pca, matrices) > known.optimum + 0.5


def test_unequal_sources_are_solved_by_the_linear_program():
    known = make_shared_subspace(
        (40, 50, 60), private_variance=(1.5, 2.5, 6.0), random_state=2, n_shared=2
    )
    matrices = covariances(known)
    rng = np.random.default_rng(0)
    bounds = fairpca.phi(matrices, 2, rng.dirichlet(np.ones(3), 3000))
    assert bounds.max() <= known.optimum + 1e-9
    assert bounds.max() >= known.optimum - 0.05


@pytest.mark.parametrize("make", [make_illustration, make_three_lines, make_shared_subspace])
def test_random_state(make):
    first, again, other = make(random_state=5), make(random_state=5), make(random_state=6)
    assert np.array_equal(first.data, again.data)
    assert not np.array_equal(first.data, other.data)
    assert "optimum" in first.DESCR


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: make_illustration((2, 40)), "more than 2 rows"),
        (lambda: make_illustration(variances=((1, 2), (2, 1))), "variances="),
        (lambda: make_three_lines(n_features=1), "n_features=1"),
        (lambda: make_three_lines((20, 20)), "must have 3 entries"),
        (lambda: make_three_lines(3, n_features=3), "more than 3 rows"),
        (lambda: make_shared_subspace(n_features=5), "n_features=5"),
        (lambda: make_shared_subspace(n_shared=0), "n_shared=0"),
    ],
)
def test_impossible_requests(call, message):
    with pytest.raises(ValueError, match=message):
        call()
