"""The search over sectors: its cuts, its bounds, and what it proves."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fairpca
from fairpca._arrays import orthonormal
from fairpca.covariances.dense import EigenPairs
from fairpca.fitting import pose
from fairpca.solvers.branch_and_bound import MOST_FEATURES, Search, cut, sectors
from fairpca.solvers.descent import descend
from fairpca.solvers.many_groups import _Outcome, _searched, solve_many_groups

from many_group_problems import environments, lines, random_psd

seeds = st.integers(0, 10**6)
shapes = st.sampled_from([(2, 1), (3, 1), (3, 2), (4, 2), (6, 3), (7, 5)])


def occupied(rng, n, r):
    """Eigenvalues of a relaxed P that a cut excludes: only the middle pair is shared."""
    share = rng.uniform(0.001, 0.5)
    tail = rng.uniform(0, 0.2 * share, n - r - 1)
    above = 1 - rng.uniform(0, 1, r - 1) * 0.3 * share / max(r - 1, 1)
    return np.concatenate([np.sort(above)[::-1], [1 - share, share], np.sort(tail)[::-1]])


@given(seeds, shapes)
def test_every_projector_obeys_a_cut_and_the_relaxed_optimum_none(seed, shape):
    n, r = shape
    rng = np.random.default_rng(seed)
    vectors, values = orthonormal(rng.standard_normal((n, n))), occupied(rng, n, r)
    found = sectors(values, r)
    assert sum(2 * half for _, half in found) == pytest.approx(np.pi)
    ends = sorted((middle - half, middle + half) for middle, half in found)
    assert all(a[1] == pytest.approx(b[0]) for a, b in pairwise(ends))
    # Near the plane of the pair as well as anywhere: there the sectors matter.
    start = vectors[:, :r] + rng.choice([0.0, 0.1, 10.0]) * rng.standard_normal((n, r))
    turn = rng.uniform(0, np.pi)
    start[:, -1] += np.cos(turn) * vectors[:, r - 1] + np.sin(turn) * vectors[:, r]
    basis = orthonormal(start)
    projector, relaxed = basis @ basis.T, (vectors * values) @ vectors.T
    obeyed = []
    for angle, half in found:
        form, level = cut(vectors, r, angle, half)
        obeyed.append(np.sum(form * projector) - level)
        assert np.sum(form * relaxed) < level
    assert max(obeyed) >= 0


def opened(seed, n=5, k=4, r=2):
    """A problem whose dual leaves a gap, with what a search needs."""
    for attempt in range(100):
        rng = np.random.default_rng([seed, attempt])
        problem = pose(random_psd(rng, k, n), r)
        solution = solve_many_groups(problem, exact_search=False)
        certificate = solution.certificate
        if certificate.gap > 1e-4:
            return problem, solution.components.T, solution.weights, certificate.lower_bound
    raise AssertionError("no problem with a gap")


@pytest.mark.parametrize("seed", range(2))
def test_bounds_of_nodes_hold_in_fifty_digits(seed):
    """The number that is claimed is below the dual value of the same multipliers, to 50 digits."""
    mpmath = pytest.importorskip("mpmath", reason="needs mpmath")
    problem, basis, weights, bound = opened(seed)
    search = Search(problem, basis, weights, bound, 1e-8)
    root = search.root()

    def exact(node):
        multipliers = [mpmath.mpf(float(x)) for x in node.multipliers]
        # Weights of groups add up to one to rounding; the claim is about exact ones.
        total = mpmath.fsum(multipliers[: search.g])
        multipliers[: search.g] = [x / total for x in multipliers[: search.g]]
        matrix = mpmath.zeros(search.n)
        for x, form in zip(multipliers, [*search.matrices, *node.forms], strict=True):
            matrix += x * mpmath.matrix(form.tolist())
        values = sorted(mpmath.eigsy((matrix + matrix.T) / 2, eigvals_only=True))
        levels = [mpmath.mpf(float(y)) for y in (*search.offsets, *node.levels)]
        return mpmath.fdot(multipliers, levels) - mpmath.fsum(values[-search.r :])

    with mpmath.workdps(50):
        known = max(exact(root), mpmath.mpf(bound))
        assert root.bound <= known
        for child in search.children([root]):
            # A child inherits its parent's bound.
            assert child.bound <= max(exact(child), known)


@settings(max_examples=6)
@given(seeds, st.sampled_from([(3, 1), (4, 2), (5, 4)]), st.integers(3, 6))
def test_no_descent_gets_below_the_bound(seed, shape, k):
    n, r = shape
    rng = np.random.default_rng(seed)
    problem = pose(random_psd(rng, k, n), r)
    bound = solve_many_groups(problem).certificate.lower_bound
    for _ in range(5):
        start = orthonormal(rng.standard_normal((n, r)))
        found = descend(problem, start, np.full(k, 1 / k)).value
        assert found >= bound - problem.resolution


@pytest.mark.parametrize("k", [3, 4, 7])
def test_lines_are_proven(k):
    value = (1 + np.cos(np.pi / k)) / 2
    found = fairpca.solve(lines(k), 1).certificate
    assert found.value == pytest.approx(value, abs=1e-9)
    assert found.lower_bound <= value
    assert found.gap <= (1e-6 if k == 7 else 1e-8)


def test_a_search_finds_what_a_poor_start_misses():
    search = Search(
        pose(lines(3), 1), np.array([[0.0], [0.0], [1.0]]), np.full(3, 1 / 3), 0.5, 1e-6
    )
    found = search.run(max_nodes=1000)
    assert found.value == pytest.approx(0.75, abs=1e-9)
    assert 0.75 - 1e-6 <= found.bound <= 0.75


def test_a_search_that_is_cut_short_still_tells_the_truth():
    problem, basis, weights, bound = opened(7)
    runs = [
        Search(problem, basis, weights, bound, 1e-8).run(max_nodes=m) for m in (1, 20, 60, 400)
    ]
    bounds = [run.bound for run in runs]
    assert bounds == sorted(bounds)
    assert bound <= bounds[0] < bounds[-1]
    assert runs[-1].value * (1 - 2e-8) <= bounds[-1] <= runs[-1].value + problem.resolution
    short = Search(problem, basis, weights, bound, 1e-8).run(max_nodes=400, seconds=0)
    assert short.nodes == 1


def test_a_search_builds_on_what_is_proven_only():
    """Eigenvalues that came out too small make a dual bound too large."""
    problem, good, weights, _ = opened(0)
    pairs = problem.oracle.full(weights)
    small = EigenPairs(0.8 * pairs.values, pairs.vectors)
    poor = pairs.vectors[:, -problem.n_components :]
    bound, best = problem.phi(weights, small), problem.losses(good).max()
    assert best < bound < problem.losses(poor).max()
    claimed = _Outcome(poor, weights, small, "dual solved", bound, True)
    found = _searched(problem, claimed, 1e-10, 0, True, False)
    assert found.searched <= best + problem.resolution


def test_gaps_of_five_groups_close_without_being_asked():
    """Ten columns, five groups, ranks 2 and 6: the dual leaves 0.3 and 7 % open."""
    covariances = environments(10, 5, seed=2)
    for r, gap in ((2, 3.1e-3), (6, 6.5e-2)):
        alone = solve_many_groups(pose(covariances, r), exact_search=False).certificate
        assert alone.gap == pytest.approx(gap, rel=0.02)
        assert alone.nodes == 0
        found = fairpca.solve(covariances, r)
        assert found.certificate.optimal
        assert 5 <= found.certificate.nodes <= 200
        assert found.stop_reason == "proven by a search"
        assert f"by a search of {found.certificate.nodes} nodes" in str(found.certificate)


@pytest.mark.slow
def test_prove_closes_what_is_too_large_by_default():
    """Fifty columns among twenty more of next to no variance."""
    covariances = np.zeros((5, 70, 70))
    covariances[:, :50, :50] = environments(50, 5, seed=3)
    covariances[:, 50:, 50:] = 1e-4 * np.eye(20)
    default = fairpca.solve(covariances, 3).certificate
    assert default.gap > 0.01
    assert default.nodes == 0
    proven = fairpca.solve(covariances, 3, prove=True).certificate
    assert proven.optimal
    assert proven.value < 0.995 * default.value


@pytest.mark.slow
def test_tol_ends_the_search():
    covariances = environments(10, 5, seed=4)
    rough = fairpca.solve(covariances, 3, prove=True, tol=1e-2).certificate
    fine = fairpca.solve(covariances, 3, prove=True).certificate
    assert rough.gap <= 1e-2
    assert rough.nodes <= fine.nodes
    assert rough.lower_bound <= fine.lower_bound


def test_too_many_columns_are_said():
    n = MOST_FEATURES + 1
    covariances = np.zeros((3, n, n))
    covariances[:, :2, :2] = lines(3)[:, :2, :2]
    found = fairpca.solve(covariances, 1, prove=True)
    assert found.certificate.gap > 0.1
    assert "more than 256 columns" in found.stop_reason


@pytest.mark.slow
def test_a_node_that_no_cut_divides_ends_the_search_and_is_said():
    """Fifty groups: several components over four and more tied values."""
    found = fairpca.solve(environments(10, 50, seed=2), 4, prove=True)
    assert found.certificate.gap > 0.1
    assert found.certificate.nodes < 100
    assert "no cut divides it further" in found.stop_reason
