"""The parts the many-group solver is made of, each against what defines it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairpca._arrays import orthonormal
from fairpca.fitting import pose
from fairpca.solvers.descent import descend
from fairpca.solvers.dual import Cluster, Dual, fill, occupy
from fairpca.solvers.interior_point import path_point
from fairpca.solvers.many_groups import maximise_dual
from fairpca.solvers.rounding import extreme_point
from fairpca.solvers.simplex_qp import maximise_on_simplex

from many_group_problems import forced_multiplicity, random_psd, wishart

seeds = st.integers(0, 10**6)


def dual_of(covariances, r, *, weights=None):
    dual = Dual(pose(covariances, r), max_iter=500, target=1e-13)
    k = len(covariances)
    return dual, dual.evaluate(np.full(k, 1 / k) if weights is None else weights)


@given(seeds, st.integers(1, 7), st.booleans())
def test_simplex_quadratic_meets_its_optimality_conditions(seed, k, duplicate):
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((k, rng.integers(1, k + 1)))
    linear, sums = rng.standard_normal(k), rng.uniform(0.5, 2, k)
    if duplicate and k > 1:
        root[0], linear[0], sums[0] = root[1], linear[1], sums[1]
    quadratic = root @ root.T
    start = rng.random(k) * (rng.random(k) < 0.7)
    start[0] += 0.1
    x = maximise_on_simplex(linear, quadratic, sums, start / (sums @ start))
    assert x.min() >= 0
    assert sums @ x == pytest.approx(1)
    slope = (linear - quadratic @ x) / sums
    assert slope.max() <= slope[x > 0].min() + 1e-6 * (1 + np.abs(linear).max())


@given(seeds, st.integers(1, 9))
def test_fill_is_the_nearest_feasible_point(seed, n):
    rng = np.random.default_rng(seed)
    total = int(rng.integers(0, n + 1))
    start = rng.normal(0.5, 1, n)
    found = fill(start, total)
    assert found.min() >= 0
    assert found.max() <= 1
    assert found.sum() == pytest.approx(total, abs=1e-12)
    for _ in range(20):
        other = fill(rng.random(n), total)
        assert (found - start) @ (other - found) >= -1e-9


def test_phi_its_gradient_and_its_curvature_agree():
    rng = np.random.default_rng(0)
    dual, point = dual_of(wishart(rng, 5, 12), 4)
    direction = rng.standard_normal(5)
    direction -= direction.mean()
    h = 1e-4
    ahead, behind = (dual.evaluate(point.weights + s * h * direction) for s in (1, -1))
    slope = (ahead.phi - behind.phi) / (2 * h)
    assert point.losses @ direction == pytest.approx(slope, rel=1e-6)
    bend = (ahead.phi - 2 * point.phi + behind.phi) / h**2
    curvature = point.curvature(dual.simple)
    assert direction @ curvature @ direction == pytest.approx(-bend, rel=1e-4)
    assert point.weights @ point.losses == pytest.approx(point.phi, rel=1e-12)


def test_barrier_occupations_and_curvature():
    rng = np.random.default_rng(1)
    dual, point = dual_of(wishart(rng, 4, 9), 3)
    mu = 0.01 * dual.spectral
    here = path_point(point, mu, 3)
    assert here.occupied.sum() == pytest.approx(3, rel=1e-12)
    np.testing.assert_allclose(here.occupied + here.vacant, 1, atol=1e-14)
    gradient, hessian = here.derivatives(3)
    direction = np.array([1.0, -2.0, 0.5, 0.5])
    h = 1e-5
    ends = [
        path_point(dual.evaluate(point.weights + s * h * direction), mu, 3).derivatives(3)[0]
        for s in (1, -1)
    ]
    change = (ends[0] - ends[1]) / (2 * h)
    # Gradients are known up to a common constant only: the weights add up to one.
    moved = -hessian @ direction
    np.testing.assert_allclose(change - change.mean(), moved - moved.mean(), rtol=1e-4, atol=1e-6)
    relaxed = here.relaxed(3)
    np.testing.assert_allclose(relaxed.losses, gradient, atol=1e-12)


@given(seeds)
def test_relaxed_losses_are_those_of_the_matrix(seed):
    rng = np.random.default_rng(seed)
    n, r = 7, 3
    covariances = random_psd(rng, 3, n)
    dual, point = dual_of(covariances, r)
    first, last = 2, 6
    q = last - first
    rotation = orthonormal(rng.standard_normal((q, q)))
    cluster = Cluster(first, last, fill(rng.random(q), r - first), rotation)
    vectors = point.pairs.vectors
    p = vectors[:, :first] @ vectors[:, :first].T
    tied = vectors[:, first:last]
    p += tied @ cluster.matrix @ tied.T
    expected = dual.problem.offsets - np.einsum("kij,ij->k", covariances, p)
    np.testing.assert_allclose(occupy(point, cluster, r).losses, expected, atol=1e-12)


@pytest.mark.parametrize("k", [3, 4, 6])
def test_extreme_points_keep_the_losses_and_have_few_fractions(k):
    rng = np.random.default_rng(k)
    covariances = forced_multiplicity(rng, k, 4, 4)
    dual, _ = dual_of(covariances, 6)
    maximise_dual(dual, None)
    relaxed = dual.relaxed
    vectors, occupation = extreme_point(relaxed, 4, 8)
    f = np.count_nonzero((occupation > 0) & (occupation < 1))
    assert f * (f + 1) / 2 <= k
    p = (vectors * occupation) @ vectors.T
    losses = dual.problem.offsets - np.einsum("kij,ij->k", covariances, p)
    assert losses.max() <= relaxed.value + 1e-9
    assert np.trace(p) == pytest.approx(6)


@given(seeds, st.integers(2, 6))
def test_extreme_points_push_no_group_above_the_worst(seed, k):
    # Any relaxed point will do, optimal or not: here most groups are not binding at first.
    rng = np.random.default_rng(seed)
    n, r, q = 6, 3, int(rng.integers(2, 7))
    covariances = random_psd(rng, k, n)
    dual, point = dual_of(covariances, r)
    first = max(0, min(r - 1, n - q))
    rotation = orthonormal(rng.standard_normal((q, q)))
    cluster = Cluster(first, first + q, fill(rng.random(q), r - first), rotation)
    relaxed = occupy(point, cluster, r)
    vectors, occupation = extreme_point(relaxed, first, first + q)
    p = (vectors * occupation) @ vectors.T
    losses = dual.problem.offsets - np.einsum("kij,ij->k", covariances, p)
    assert losses.max() <= relaxed.value + 1e-8
    assert np.trace(p) == pytest.approx(r)


@settings(max_examples=25)
@given(seeds)
def test_descent_never_ascends_and_ends_stationary(seed):
    rng = np.random.default_rng(seed)
    k, n = int(rng.integers(2, 7)), int(rng.integers(3, 12))
    r = int(rng.integers(1, n))
    problem = pose(random_psd(rng, k, n), r)
    start = orthonormal(rng.standard_normal((n, r)))
    found = descend(problem, start, np.full(k, 1 / k))
    assert found.value <= problem.losses(start).max() + 1e-12
    assert found.value == pytest.approx(problem.losses(found.basis).max(), abs=1e-12)
    if found.stationary:
        # No tangent direction lowers all binding losses: their slopes combine to zero.
        combined = np.tensordot(found.weights, problem.oracle.matrices, axes=1)
        image = combined @ found.basis
        outside = image - found.basis @ (found.basis.T @ image)
        assert np.linalg.norm(outside) <= 1e-5 * problem.oracle.scale


def test_nothing_to_gain_is_shared_evenly():
    found = maximise_on_simplex(np.zeros(3), np.zeros((3, 3)), np.ones(3), np.full(3, 1 / 3))
    np.testing.assert_allclose(found, 1 / 3)
