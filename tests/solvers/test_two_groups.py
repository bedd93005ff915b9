"""Two groups: the gap is zero, ties included, in few decompositions."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st

import fairpca
from fairpca.criteria import CRITERIA
from fairpca.fitting import pose
from fairpca.solvers.two_groups import RootSearch

from subspaces import subspace_distance
from two_group_problems import degenerate_problems, psd, rotation

seeds = st.integers(0, 10**6)


def test_degenerate_problems():
    """Mirror images, commuting integers, copies, near ties down to 1e-12: 55 constructions."""
    for name, a, b, r in degenerate_problems():
        found = fairpca.solve([a, b], r)
        value, scale = found.certificate.value, max(np.trace(a), np.trace(b))
        # Where both losses vanish a ratio means nothing: rounding is the measure.
        size = scale if value <= 1e-13 * scale else value
        assert abs(found.losses[0] - found.losses[1]) <= 1e-12 * size, name
        assert found.certificate.gap <= 1e-12, name
        u = found.components
        assert np.abs(u @ u.T - np.eye(r)).max() <= 1e-12, name


def test_known_optimum_of_swapped_axes():
    found = fairpca.solve([np.diag([1.0, 0.0]), np.diag([0.0, 1.0])], 1)
    assert np.allclose(np.abs(found.components), np.sqrt(0.5))
    assert found.certificate.value == pytest.approx(0.5, abs=1e-14)


@pytest.mark.parametrize("n", [1, 2, 5])
@pytest.mark.parametrize("criterion", CRITERIA)
def test_all_components_kept(n, criterion):
    rng = np.random.default_rng(n)
    found = fairpca.solve([psd(rng, n), psd(rng, n)], n, criterion=criterion)
    assert found.certificate.gap == 0
    if criterion != "variance":
        assert np.abs(found.losses).max() <= 1e-12


@given(seeds, st.sampled_from(sorted(CRITERIA)), st.integers(2, 12))
def test_every_criterion_closes_its_gap(seed, criterion, n):
    rng = np.random.default_rng(seed)
    r = int(rng.integers(1, n))
    S = [psd(rng, n), psd(rng, n, rank=max(1, n // 2)) * rng.uniform(0.1, 10)]
    found = fairpca.solve(S, r, criterion=criterion)
    assert found.certificate.gap <= 1e-11
    assert found.certificate.lower_bound <= found.certificate.value
    slack = 1e-9 * np.abs(found.losses).max() + found.certificate.resolution
    assert np.all(found.weights * (found.losses.max() - found.losses) <= slack)
    if criterion == "loss":
        assert np.ptp(found.losses) <= slack


def test_freedom_left_by_the_binding_group_serves_the_other():
    """Max-min variance: a group without variance binds everywhere; the other gets its own PCA."""
    spread = np.diag([1.0, 5.0, 2.0])
    for pair in ([np.zeros((3, 3)), spread], [spread, np.zeros((3, 3))]):
        found = fairpca.solve(pair, 1, criterion="variance")
        assert sorted(found.losses) == pytest.approx([-5, 0], abs=1e-12)
        bound = fairpca.phi(pair, 1, found.weights[0], criterion="variance")
        assert bound == pytest.approx(found.certificate.lower_bound, abs=1e-14)


@pytest.mark.parametrize("apart", [0.02, 0.5])
@pytest.mark.parametrize("n, spectrum, r", [(200, "power", 8), (320, "power", 8)])
def test_large_matrices_are_solved_to_rounding_in_few_decompositions(n, spectrum, r, apart):
    """Weights and subspace too, not only the value; LAPACK below 250 columns, Krylov above."""
    rng = np.random.default_rng(n)
    scale = 1 / np.arange(1, n + 1) ** 0.75
    pair = []
    for _ in range(2):
        rows = rng.normal(size=(2 * n, n)) * scale * (1 + apart * rng.random(n))
        pair.append(np.cov(rows.T))
    own = np.linalg.eigvalsh(pair)[:, -r:].sum(axis=1)

    def leading(t):
        return np.linalg.eigh(t * pair[0] + (1 - t) * pair[1])[1][:, -r:]

    def difference(t):
        basis = leading(t)
        return float(np.subtract(*(own - [np.trace(basis.T @ S @ basis) for S in pair])))

    t = scipy.optimize.brentq(difference, 0.01, 0.99, xtol=1e-15)
    found = fairpca.solve(pair, r)
    # The groups' own, one for directions, and one or two near the optimum.
    assert found.n_eigen <= 5
    assert found.stop_reason == "gap closed"
    assert found.weights[0] == pytest.approx(t, abs=1e-6)
    assert subspace_distance(found.components.T, leading(t)) <= 1e-8


def test_the_search_ends_with_equal_losses_and_a_bound_that_meets_them():
    for seed in range(10):
        rng = np.random.default_rng(seed)
        problem = pose(np.array([psd(rng, 20), psd(rng, 20)]), 6)
        best, reason = RootSearch(problem).run(max_iter=50)
        assert reason == "losses equal to rounding"
        there = problem.oracle.full(np.array([best.t, 1 - best.t]))
        assert subspace_distance(best.basis, there.vectors[:, :6]) < 1e-9
        assert best.spread <= problem.resolution
        assert best.value - best.bound <= problem.resolution


def test_a_search_is_not_left_where_eigenvectors_still_turn():
    """Nearly tied at the optimum: left after steps of a hundredth it went round in circles."""
    rng = np.random.default_rng(0)
    spectrum = 1.0 / np.arange(1, 301)
    bases = [rotation(rng, 300) for _ in range(2)]
    found = fairpca.solve([(q * spectrum) @ q.T for q in bases], 5)
    assert found.certificate.optimal
    assert found.n_eigen <= 7


@pytest.mark.parametrize("criterion", ["error", "share"])
def test_eigenvalues_below_rounding_open_no_gap(criterion):
    """Nearly tied eigenvalues of 1e-13 were mixed as if tied, and the bound lost as much."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        r, q, x = int(rng.integers(5, 12)), rotation(rng, 12), rng.normal(size=12)
        first = (q * 10.0 ** -np.linspace(0, 15, 12)) @ q.T
        second = first + 10.0 ** rng.uniform(-6, 0) * np.outer(x, x)
        assert fairpca.solve([first, second], r, criterion=criterion).certificate.optimal, seed


@pytest.mark.parametrize("criterion", ["error", "variance"])
def test_two_groups_twelve_orders_apart_close_the_gap(criterion):
    """All eigenvalues of the small group were taken for tied beside the large one."""
    S = [np.diag([4.0, 3.0, 2.0, 1.0]) * 1e-12, psd(np.random.default_rng(0), 4)]
    assert fairpca.solve(S, 2, criterion=criterion).certificate.optimal


@settings(max_examples=10)
@given(seeds)
def test_derivatives_of_phi_are_those_of_differences(seed):
    rng = np.random.default_rng(seed)
    n, r = int(rng.integers(3, 12)), int(rng.integers(1, 3))
    search = RootSearch(pose(np.array([psd(rng, n) + np.diag(np.arange(n)) for _ in "ab"]), r))
    search._end(0.0)
    h = 1e-4
    before, here, after = (search._evaluate(0.4 + step) for step in (-h, 0.0, h))
    size = 1e-4 * abs(here.curvature) + 1e-6
    assert (after.value - before.value) / (2 * h) == pytest.approx(here.slope, abs=size)
    assert (after.slope - before.slope) / (2 * h) == pytest.approx(here.curvature, abs=size)
    assert (after.curvature - before.curvature) / (2 * h) == pytest.approx(
        here.bend, rel=1e-2, abs=1e-2 * abs(here.curvature) + 1e-6
    )
