"""The search over sectors: its cuts, its bounds, and what it proves."""

from __future__ import annotations

from itertools import pairwise

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

import fairpca
from fairpca import FairPCA, NoisyGroupWarning
from fairpca._arrays import orthonormal
from fairpca.covariances.dense import EigenPairs
from fairpca.fitting import pose
from fairpca.solvers.branch_and_bound import MOST_FEATURES, _Relaxations, cut, search, sectors
from fairpca.solvers.descent import descend
from fairpca.solvers.dual import Dual
from fairpca.solvers.many_groups import (
    _Found,
    _Options,
    _searched,
    maximise_dual,
    solve_many_groups,
)

from many_group_problems import environments, lines, random_psd

seeds = st.integers(0, 10**6)
shapes = st.sampled_from([(2, 1), (3, 1), (3, 2), (4, 2), (6, 3), (7, 5)])


def occupations(rng, n, r):
    """Eigenvalues of a relaxed P that a cut excludes: only the middle pair is shared."""
    share = rng.uniform(0.001, 0.5)
    tail = rng.uniform(0, 0.2 * share, n - r - 1)
    above = 1 - rng.uniform(0, 1, r - 1) * 0.3 * share / max(r - 1, 1)
    return np.concatenate([np.sort(above)[::-1], [1 - share, share], np.sort(tail)[::-1]])


@given(seeds, shapes)
def test_every_projector_obeys_the_cut_of_one_sector(seed, shape):
    n, r = shape
    rng = np.random.default_rng(seed)
    vectors = orthonormal(rng.standard_normal((n, n)))
    # Near the plane of the pair as well as anywhere: there the sectors matter.
    start = vectors[:, :r] + rng.choice([0.0, 0.1, 10.0]) * rng.standard_normal((n, r))
    turn = rng.uniform(0, np.pi)
    start[:, -1] += np.cos(turn) * vectors[:, r - 1] + np.sin(turn) * vectors[:, r]
    basis = orthonormal(start)
    projector = basis @ basis.T
    slack = []
    for angle, half in sectors(occupations(rng, n, r), r):
        form, level = cut(vectors, r, angle, half)
        slack.append(np.sum(form * projector) - level)
    assert max(slack) >= 0


@given(seeds, shapes)
def test_the_cut_of_its_own_sector_holds(seed, shape):
    n, r = shape
    rng = np.random.default_rng(seed)
    vectors = orthonormal(rng.standard_normal((n, n)))
    basis = orthonormal(rng.standard_normal((n, r)))
    projector = basis @ basis.T
    pair = vectors[:, r - 1 : r + 1].T @ projector @ vectors[:, r - 1 : r + 1]
    direction = np.linalg.eigh(pair)[1][:, -1]
    half = rng.uniform(0.001, np.pi / 4)
    angle = np.arctan2(direction[1], direction[0]) + rng.uniform(-1, 1) * half
    form, level = cut(vectors, r, angle, half)
    assert np.sum(form * projector) >= level


@given(seeds, shapes)
def test_the_sectors_cover_all_angles_and_exclude_the_relaxed_optimum(seed, shape):
    n, r = shape
    rng = np.random.default_rng(seed)
    occupied = occupations(rng, n, r)
    found = sectors(occupied, r)
    assert sum(2 * half for _, half in found) == pytest.approx(np.pi)
    ends = sorted((middle - half, middle + half) for middle, half in found)
    assert all(a[1] == pytest.approx(b[0]) for a, b in pairwise(ends))
    vectors = orthonormal(rng.standard_normal((n, n)))
    relaxed = (vectors * occupied) @ vectors.T
    for angle, half in found:
        form, level = cut(vectors, r, angle, half)
        assert np.sum(form * relaxed) < level


def opened(seed, n=5, k=4, r=2):
    """A problem whose dual leaves a gap, with what `search` needs."""
    for attempt in range(100):
        rng = np.random.default_rng([seed, attempt])
        problem = pose(random_psd(rng, k, n), r)
        solution = solve_many_groups(problem, exact_search=False)
        certificate = solution.certificate
        if certificate.gap > 1e-4:
            return problem, solution.components.T, solution.weights, certificate.lower_bound
    raise AssertionError("no problem with a gap")


@pytest.mark.parametrize("seed", range(4))
def test_bounds_of_nodes_hold_in_fifty_digits(seed):
    """The number that is claimed is below the dual value of the same multipliers, to 50 digits."""
    problem, basis, weights, bound = opened(seed)
    relaxed = _Relaxations(problem, weights)
    value = float(problem.losses(basis).max())
    goal = value * (1 - 1e-8)
    family = [(relaxed.root(bound, value, goal), -1)]
    for _ in range(3):
        # The latest node that is still open is split next; a child inherits its parent's bound.
        last = max(i for i, (node, _) in enumerate(family) if node.bound < goal)
        family += [(child, last) for child in relaxed.children([family[last][0]], value, goal)]
    assert len(family) == 13
    with mpmath.workdps(50):
        exact = []
        for node, parent in family:
            found = dual_value(relaxed, node, problem.n_components)
            exact.append(max(found, exact[parent] if exact else mpmath.mpf(bound)))
            assert node.bound <= exact[-1]


def dual_value(relaxed, node, r):
    """The dual value of a node's multipliers, in the working precision of mpmath."""
    multipliers = [mpmath.mpf(float(x)) for x in node.multipliers]
    # Weights of groups add up to one to rounding; the claim is about exact ones.
    total = mpmath.fsum(multipliers[: relaxed.g])
    multipliers[: relaxed.g] = [x / total for x in multipliers[: relaxed.g]]
    matrix = mpmath.zeros(relaxed.n)
    for x, form in zip(multipliers, [*relaxed.matrices, *node.forms], strict=True):
        matrix += x * mpmath.matrix(form.tolist())
    values = sorted(mpmath.eigsy((matrix + matrix.T) / 2, eigvals_only=True))
    levels = [mpmath.mpf(float(y)) for y in (*relaxed.offsets, *node.levels)]
    return mpmath.fdot(multipliers, levels) - mpmath.fsum(values[-r:])


@settings(max_examples=10)
@given(seeds, st.sampled_from([(3, 1), (4, 2), (5, 2), (5, 4)]), st.integers(3, 9))
def test_no_descent_gets_below_the_bound(seed, shape, k):
    n, r = shape
    rng = np.random.default_rng(seed)
    problem = pose(random_psd(rng, k, n), r)
    solution = solve_many_groups(problem)
    bound, even = solution.certificate.lower_bound, np.full(k, 1 / k)
    for _ in range(5):
        start = orthonormal(rng.standard_normal((n, r)))
        assert descend(problem, start, even).value >= bound - problem.resolution


def test_search_finds_what_a_poor_start_misses():
    problem = pose(lines(3), 1)
    poor = np.array([[0.0], [0.0], [1.0]])
    found = search(problem, poor, np.full(3, 1 / 3), 0.5, tol=1e-6, max_nodes=1000)
    assert found.value == pytest.approx(0.75, abs=1e-9)
    assert 0.75 - 1e-6 <= found.bound <= 0.75


def test_search_that_is_cut_short_still_tells_the_truth():
    problem, basis, weights, bound = opened(7)
    bounds = [
        search(problem, basis, weights, bound, tol=1e-8, max_nodes=m).bound
        for m in (1, 20, 60, 400)
    ]
    value = search(problem, basis, weights, bound, tol=1e-8, max_nodes=400).value
    assert bounds == sorted(bounds)
    assert bound <= bounds[0] < bounds[-1]
    assert value * (1 - 2e-8) <= bounds[-1] <= value + problem.resolution
    assert search(problem, basis, weights, bound, tol=1e-8, max_nodes=400, seconds=0).nodes == 1


def test_a_search_builds_on_what_is_proven_only():
    """Eigenvalues that came out too small make a dual bound too large."""
    problem, _, weights, _ = opened(0)
    pairs = problem.oracle.full(weights)
    small = EigenPairs(0.8 * pairs.values, pairs.vectors)
    poor = pairs.vectors[:, -problem.n_components :]
    bound = problem.phi(weights, small)
    best = solve_many_groups(problem, prove=10.0).certificate.value
    assert best < bound < problem.losses(poor).max()
    claimed = _Found(poor, weights, small, "dual solved", bound, True)
    found = _searched(problem, claimed, _Options(1e-10, 200, 0, 0, True, 0.0))
    assert found.searched <= best + problem.resolution


def test_gaps_of_five_groups_close_without_being_asked():
    """Ten columns, five groups, ranks 2, 3 and 6: the dual leaves 0.3, 0.9 and 7 % open."""
    covariances = environments(10, 5, seed=2)
    for r, gap in ((2, 3.1e-3), (3, 8.6e-3), (6, 6.5e-2)):
        alone = solve_many_groups(pose(covariances, r), exact_search=False).certificate
        assert alone.gap == pytest.approx(gap, rel=0.02)
        assert alone.nodes == 0
        found = fairpca.solve(covariances, r)
        assert found.certificate.optimal
        assert 5 <= found.certificate.nodes <= 200
        assert found.stop_reason == "proven by a search"
        assert f"by a search of {found.certificate.nodes} nodes" in str(found.certificate)


def test_first_nodes_find_a_better_basis_than_descent_alone():
    """Fifty columns: descent alone ends 1 % above the best basis."""
    covariances = environments(50, 5, seed=3)
    default = fairpca.solve(covariances, 3).certificate
    assert default.optimal
    assert default.nodes == 5


def test_prove_closes_what_is_too_large_by_default():
    """The same problem among twenty more columns, of next to no variance."""
    covariances = np.zeros((5, 70, 70))
    covariances[:, :50, :50] = environments(50, 5, seed=3)
    covariances[:, 50:, 50:] = 1e-4 * np.eye(20)
    default = fairpca.solve(covariances, 3).certificate
    assert default.gap > 0.01
    assert default.nodes == 0
    proven = fairpca.solve(covariances, 3, prove=True).certificate
    assert proven.optimal
    assert proven.value < 0.995 * default.value


def test_tol_ends_the_search():
    covariances = environments(10, 5, seed=4)
    rough = fairpca.solve(covariances, 3, prove=True, tol=1e-2).certificate
    fine = fairpca.solve(covariances, 3, prove=True).certificate
    assert 1e-8 < rough.gap <= 1e-2
    assert rough.nodes < fine.nodes
    assert rough.lower_bound < fine.lower_bound


def test_the_estimator_passes_prove_on():
    rng = np.random.default_rng(0)
    n = 80
    labels = np.repeat(np.arange(3), 40)
    # Three groups, each along a line of its own, 60 degrees from the others, in 80 columns.
    angles = np.pi * labels / 3
    signs = np.tile([-1.0, 1.0], 60)
    X = 0.01 * rng.standard_normal((120, n))
    X[:, 0] += signs * np.cos(angles)
    X[:, 1] += signs * np.sin(angles)
    with pytest.warns(ConvergenceWarning, match="prove=True"):
        open_ = FairPCA(1).fit(X, sensitive_features=labels).certificate_
    # A rough gap takes a few nodes, for which a slow machine has time enough.
    rough = FairPCA(1, prove=60.0, tol=1e-2)
    # A gap that was asked for is no reason to warn; three groups of forty rows are.
    with pytest.warns(NoisyGroupWarning):
        proven = rough.fit(X, sensitive_features=labels).certificate_
    assert open_.nodes == 0
    assert open_.gap > 0.1
    assert proven.gap <= 1e-2
    assert proven.nodes > 0


@pytest.mark.parametrize("wrong", ["yes", 0, -1.0, None])
def test_prove_is_checked(wrong):
    X, labels = np.eye(6), np.arange(6) % 3
    with pytest.raises(ValueError, match=r"prove=.* most seconds"):
        FairPCA(1, prove=wrong).fit(X, sensitive_features=labels)


def test_too_many_columns_are_said():
    n = MOST_FEATURES + 1
    covariances = np.zeros((3, n, n))
    covariances[:, :2, :2] = lines(3)[:, :2, :2]
    found = fairpca.solve(covariances, 1, prove=True)
    assert found.certificate.gap > 0.1
    assert "more than 256 columns" in found.stop_reason


def test_dual_that_is_not_solved_is_not_searched():
    problem, basis, weights, bound = opened(3)
    del basis, weights, bound
    dual = Dual(problem, max_iter=1, target=1e-13)
    assert maximise_dual(dual, None) == "max_iter reached"
    found = solve_many_groups(problem, max_iter=1)
    assert found.certificate.nodes == 0


def test_a_node_that_no_cut_divides_ends_the_search_and_is_said():
    """Fifty groups: several components over four and more tied values."""
    found = fairpca.solve(environments(10, 50, seed=2), 4, prove=True)
    assert found.certificate.gap > 0.1
    assert found.certificate.nodes < 100
    assert "no cut divides it further" in found.stop_reason
