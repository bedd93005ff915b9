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
from fairpca.solvers.interior_point import Barrier, occupations
from fairpca.solvers.simplex_qp import maximise_on_simplex

from many_group_problems import random_psd, wishart

seeds = st.integers(0, 10**6)


def dual_of(covariances, r):
    dual = Dual(pose(covariances, r), max_iter=500, target=1e-13)
    return dual, dual.evaluate(np.full(len(covariances), 1 / len(covariances)))


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


def test_nothing_to_gain_is_shared_evenly():
    found = maximise_on_simplex(np.zeros(3), np.zeros((3, 3)), np.ones(3), np.full(3, 1 / 3))
    np.testing.assert_allclose(found, 1 / 3)


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


@given(seeds, st.integers(2, 9), st.sampled_from([1e-12, 1e-4, 1.0]))
def test_occupations_of_the_barrier_add_up_to_the_rank(seed, n, mu):
    rng = np.random.default_rng(seed)
    values, r = np.sort(rng.random(n))[::-1], int(rng.integers(1, n))
    level, p, v = occupations(values, np.asarray(mu), r, np.asarray(values[r - 1]))
    assert p[r:].sum() == pytest.approx(v[:r].sum(), rel=1e-9)
    np.testing.assert_allclose(p + v, 1, atol=1e-14)
    ratio = (level - values) / mu
    np.testing.assert_allclose(1 / p - 1 / v, ratio, rtol=1e-8, atol=1e-3)


def test_the_central_path_ends_at_the_largest_phi():
    dual, point = dual_of(wishart(np.random.default_rng(1), 4, 9), 3)
    path = Barrier(dual, point.weights)
    path.advance(1e-9 * dual.spectral)
    assert dual.gap <= 1e-7
    assert dual.relaxed.value >= dual.bound


@given(seeds)
def test_relaxed_losses_are_those_of_the_matrix(seed):
    rng = np.random.default_rng(seed)
    n, r, first, last = 7, 3, 2, 6
    covariances = random_psd(rng, 3, n)
    dual, point = dual_of(covariances, r)
    rotation = orthonormal(rng.standard_normal((last - first, last - first)))
    occupation = fill(rng.random(last - first), r - first)
    cluster = Cluster(first, last, occupation, rotation)
    above, tied = point.vectors[:, :first], point.vectors[:, first:last] @ rotation
    p = above @ above.T + (tied * occupation) @ tied.T
    expected = dual.problem.offsets - np.einsum("kij,ij->k", covariances, p)
    np.testing.assert_allclose(occupy(point, cluster, r).losses, expected, atol=1e-12)


@settings(max_examples=20)
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
