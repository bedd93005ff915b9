"""Three and more groups, at the level of the solver: bounds, values, proofs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fairpca
from fairpca import FairPCA, GroupMoments
from fairpca._arrays import orthonormal
from fairpca.covariances.dense import DenseOracle
from fairpca.covariances.oracle import Oracle
from fairpca.criteria import CRITERIA
from fairpca.fitting import Matrices, pose
from fairpca.solvers import solve_problem
from fairpca.solvers.many_groups import solve_many_groups

from many_group_problems import (
    FAMILIES,
    forced_multiplicity,
    instances,
    lemma_8_1,
    lines,
    random_psd,
    shared_basis,
    wishart,
)
from subspaces import subspace_distance

seeds = st.integers(0, 10**6)


def solve(covariances, r, criterion="loss", **options):
    return solve_many_groups(pose(np.asarray(covariances, float), r, criterion), **options)


def random_basis(rng, n, r):
    return orthonormal(rng.standard_normal((n, r)))


def check(solution, covariances, r, criterion="loss"):
    """Everything that must hold of any solution, good or bad."""
    problem = pose(np.asarray(covariances, dtype=float), r, criterion)
    certificate, basis = solution.certificate, solution.components.T
    slack = 10 * problem.resolution
    np.testing.assert_allclose(basis.T @ basis, np.eye(basis.shape[1]), atol=1e-12)
    np.testing.assert_allclose(solution.losses, problem.losses(basis), atol=slack)
    assert certificate.value == pytest.approx(solution.losses.max(), abs=slack)
    assert certificate.lower_bound <= certificate.value + slack
    assert solution.weights.min() >= 0
    assert solution.weights.sum() == pytest.approx(1, abs=1e-12)
    # Unless a search proved more, the bound is phi at the weights that are returned.
    phi = problem.phi(solution.weights, problem.oracle.full(solution.weights))
    if certificate.nodes:
        assert certificate.lower_bound >= phi - slack
    else:
        assert certificate.lower_bound == pytest.approx(phi, abs=slack)
    return certificate


@settings(max_examples=15)
@given(seeds, st.integers(3, 6), st.integers(2, 6), st.sampled_from(sorted(CRITERIA)))
def test_the_bound_holds_for_every_basis(seed, k, n, criterion):
    rng = np.random.default_rng(seed)
    r = int(rng.integers(1, n))
    covariances = random_psd(rng, k, n) * rng.choice([1e-3, 1.0, 50.0], (k, 1, 1))
    solution = solve(covariances, r, criterion)
    certificate = check(solution, covariances, r, criterion)
    problem = pose(covariances, r, criterion)
    for _ in range(50):
        value = problem.losses(random_basis(rng, n, r)).max()
        assert value >= certificate.lower_bound - 10 * problem.resolution
    if certificate.gap <= 1e-10 and not certificate.nodes:
        level = solution.losses[solution.weights > 1e-9]
        size = 1e-7 * np.abs(solution.losses).max() + problem.resolution
        np.testing.assert_allclose(level, certificate.value, atol=size)


@settings(max_examples=15)
@given(seeds, st.integers(2, 5), st.integers(2, 6), st.sampled_from(sorted(CRITERIA)))
def test_any_weights_bound_any_basis(seed, k, n, criterion):
    rng = np.random.default_rng(seed)
    problem = pose(random_psd(rng, k, n), int(rng.integers(1, n)), criterion)
    for _ in range(20):
        t, basis = rng.dirichlet(np.ones(k)), random_basis(rng, n, problem.n_components)
        bound, slack = problem.oracle.sum_bound(t, problem.n_components, problem.oracle.full(t))
        assert float(t @ problem.offsets) - bound <= problem.losses(basis).max()
        assert slack <= 1e-10


@pytest.mark.parametrize("k", [3, 4, 6, 10])
def test_random_families_are_solved(k):
    for instance in instances(k, 4, first_seed=100, n_max=30):
        solution = solve(instance.covariances, instance.n_components, exact_search=False)
        check(solution, instance.covariances, instance.n_components)
        assert "open" not in solution.stop_reason, instance
        assert "max_iter" not in solution.stop_reason, instance


@pytest.mark.parametrize("seed", range(4))
def test_the_bound_is_the_semidefinite_relaxation(seed):
    cvxpy = pytest.importorskip("cvxpy", reason="needs cvxpy")
    rng = np.random.default_rng(seed)
    k, n = int(rng.integers(2, 8)), int(rng.integers(4, 9))
    r = int(rng.integers(1, n // 2 + 1))
    covariances = FAMILIES[list(FAMILIES)[seed % 4]](rng, k, n)
    problem = pose(covariances, r)
    solution = solve_problem(problem, exact_search=False)
    p, z = cvxpy.Variable((n, n), symmetric=True), cvxpy.Variable()
    limits = [p >> 0, np.eye(n) - p >> 0, cvxpy.trace(p) == r]
    limits += [
        c - cvxpy.trace(s @ p) <= z for c, s in zip(problem.offsets, covariances, strict=True)
    ]
    relaxed = cvxpy.Problem(cvxpy.Minimize(z), limits).solve(solver="CLARABEL")
    assert solution.certificate.lower_bound == pytest.approx(relaxed, abs=1e-6)


@pytest.mark.parametrize("k", [3, 4, 8])
def test_evenly_spaced_lines(k):
    value = (1 + np.cos(np.pi / k)) / 2
    dual = check(solve(lines(k), 1, exact_search=False), lines(k), 1)
    assert dual.lower_bound == pytest.approx(0.5, abs=1e-12)
    assert dual.value == pytest.approx(value, abs=1e-12)
    assert not dual.optimal


@pytest.mark.parametrize("n, r", [(3, 1), (3, 2), (4, 5), (5, 7)])
def test_forced_multiplicity_leaves_no_gap_for_three_groups(n, r):
    covariances = forced_multiplicity(np.random.default_rng([n, r]), 3, n, 3)
    assert check(solve(covariances, r), covariances, r).gap <= 1e-12


@pytest.mark.slow
def test_a_large_tie():
    covariances = forced_multiplicity(np.random.default_rng(3), 3, 4, 30)
    assert check(solve(covariances, 15), covariances, 15).gap <= 1e-10


@pytest.mark.parametrize("seed", range(5))
def test_commuting_matrices_with_integer_spectra(seed):
    # The dual is a linear programme here, its solution rarely unique, and ties are everywhere.
    rng = np.random.default_rng(seed)
    k, n = int(rng.integers(3, 7)), int(rng.integers(3, 9))
    r, rotation = int(rng.integers(1, n)), random_basis(rng, n, n)
    spectra = rng.integers(0, 3, (k, n)).astype(float)
    covariances = np.array([(rotation * s) @ rotation.T for s in spectra])
    assert check(solve(covariances, r), covariances, r).gap <= 1e-8


# Awkward groups.


def test_identical_groups_and_repeated_ones():
    one = random_psd(np.random.default_rng(0), 1, 6)
    same = solve(np.repeat(one, 4, axis=0), 2).certificate
    assert same.value == pytest.approx(0, abs=1e-14)
    assert same.optimal
    covariances = random_psd(np.random.default_rng(1), 3, 6)
    once = solve(covariances, 2).certificate
    twice = solve(np.concatenate([covariances, covariances, covariances[:1]]), 2).certificate
    assert twice.value == pytest.approx(once.value, abs=1e-13)
    assert twice.gap <= 1e-12


@pytest.mark.parametrize("factor", [1e3, 1e6])
def test_groups_of_very_different_size(factor):
    covariances = random_psd(np.random.default_rng(4), 3, 6)
    covariances *= np.array([1.0, factor, np.sqrt(factor)])[:, None, None]
    assert check(solve(covariances, 2), covariances, 2).gap <= 1e-10


@pytest.mark.parametrize("criterion", CRITERIA)
def test_a_group_without_variance_and_none_at_all(criterion):
    covariances = random_psd(np.random.default_rng(6), 4, 6)
    covariances[2] = 0
    assert check(solve(covariances, 2, criterion), covariances, 2, criterion).gap <= 1e-10
    nothing = solve(np.zeros((3, 5, 5)), 2, criterion).certificate
    assert nothing.value == 0
    assert nothing.optimal


def test_one_group_may_bind_alone():
    spectra = [np.full(5, 10.0), np.arange(5.0), np.arange(5.0)[::-1]]
    solution = solve([np.diag(s) for s in spectra], 2, "error")
    assert solution.weights.tolist() == [1, 0, 0]
    assert solution.certificate.gap == 0


def test_losses_far_below_the_variance_are_proven_too():
    # What the components leave out is a billionth of the variance, and known to four digits.
    rng = np.random.default_rng(0)
    sizes = 0.7 ** np.arange(40) * np.exp(0.3 * rng.standard_normal((3, 40)))
    rows = rng.standard_normal((3, 400, 40)) * sizes[:, None]
    covariances = np.swapaxes(rows, 1, 2) @ rows / 400
    found = check(solve(covariances, 29), covariances, 29)
    assert found.value - found.lower_bound <= 1e-3 * found.value


# Hundreds and thousands of groups.


def test_hundreds_of_groups():
    covariances = random_psd(np.random.default_rng(11), 300, 6)
    problem = pose(covariances, 2)
    own = problem.oracle.n_eigen
    solution = solve_many_groups(problem, exact_search=False)
    check(solution, covariances, 2)
    assert solution.n_eigen - own <= 200
    assert "max_iter" not in solution.stop_reason
    # What binds is a few groups.
    assert np.count_nonzero(solution.weights) < 40


@pytest.mark.slow
def test_five_thousand_groups():
    covariances = random_psd(np.random.default_rng(0), 5000, 8)
    assert check(solve(covariances, 2), covariances, 2).gap < 0.178


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_matrices_and_rows_have_the_same_gap():
    """The groups' own decompositions do not count against `max_iter`."""
    k, n, r = 220, 100, 5
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(k), 20)
    X = rng.normal(size=(len(labels), n)) * np.exp(0.5 * rng.normal(size=(k, n)))[labels]
    moments = GroupMoments.from_array(X, labels)
    matrices = moments.second_moments(moments.pooled().mean)
    model = FairPCA(r).fit_moments(moments).certificate_
    found = fairpca.solve(matrices, r).certificate
    assert found.gap == pytest.approx(model.gap, abs=1e-6)
    assert found.gap < 0.03


# What changes nothing, and options.


def test_order_of_groups_rotation_and_scale_do_not_matter():
    rng = np.random.default_rng(9)
    covariances = shared_basis(rng, 5, 12)
    base = solve(covariances, 4)
    order, rotation = rng.permutation(5), random_basis(rng, 12, 12)
    shuffled = solve(covariances[order], 4)
    np.testing.assert_allclose(shuffled.weights, base.weights[order], atol=1e-8)
    turned = solve(rotation @ covariances @ rotation.T, 4)
    assert turned.certificate.value == pytest.approx(base.certificate.value, rel=1e-11)
    assert subspace_distance(turned.components.T, rotation @ base.components.T) < 1e-7
    for factor in (1e-12, 1e12):
        scaled = solve(factor * covariances, 4).certificate
        assert scaled.value == pytest.approx(factor * base.certificate.value, rel=1e-10)
    shifted = solve(covariances + 2 * np.eye(12), 4, "variance").certificate
    plain = solve(covariances, 4, "variance").certificate
    assert shifted.lower_bound == pytest.approx(plain.lower_bound - 8, abs=1e-10)


def test_the_same_seed_gives_the_same_basis():
    covariances = random_psd(np.random.default_rng(1), 6, 6)
    first, second = (solve(covariances, 2, random_state=7) for _ in range(2))
    np.testing.assert_array_equal(first.components, second.components)


def test_max_iter_is_kept_and_said():
    covariances = random_psd(np.random.default_rng(0), 8, 20)
    problem = pose(covariances, 5)
    before = problem.oracle.n_eigen
    solution = solve_many_groups(problem, max_iter=2)
    assert solution.n_eigen - before == 2
    assert solution.stop_reason == "max_iter reached"
    assert solution.certificate.nodes == 0
    assert not check(solution, covariances, 5).optimal


def test_a_warm_start_saves_decompositions_and_changes_nothing():
    covariances = wishart(np.random.default_rng(5), 6, 14)
    problem = pose(covariances, 5)
    own = problem.oracle.n_eigen
    cold = solve_many_groups(problem)
    warm = solve(covariances, 5, start=cold.weights)
    assert warm.certificate.value == pytest.approx(cold.certificate.value, rel=1e-11)
    assert warm.n_eigen - own <= 2 < cold.n_eigen - own


def test_two_groups_agree_with_their_own_solver():
    for instance in instances(2, 6, first_seed=70, n_max=20):
        own = solve_problem(pose(instance.covariances, instance.n_components))
        solution = solve(instance.covariances, instance.n_components)
        assert solution.certificate.value == pytest.approx(own.certificate.value, rel=1e-10)
        np.testing.assert_allclose(solution.weights, own.weights, atol=1e-5)


# Large matrices.


class OnlyProducts(Oracle):
    """An oracle that answers what every oracle must, and hides its matrices."""

    driver = "products"

    def __init__(self, oracle):
        self._oracle = oracle
        self.n_groups, self.n_features = oracle.n_groups, oracle.n_features
        self.scale = oracle.scale

    @property
    def matrices(self):
        raise AssertionError("the matrices were asked for")

    def leading(self, weights, r, start=None, rough=False):
        self.n_eigen += 1
        return self._oracle.leading(weights, r, start, rough)

    def apply(self, columns):
        return self._oracle.apply(columns)


@pytest.mark.parametrize("family", ["wishart", "shared basis"])
def test_large_matrices_need_products_only(family):
    covariances = FAMILIES[family](np.random.default_rng(120), 4, 120)
    dense = solve(covariances, 8)
    traces = np.trace(covariances, axis1=1, axis2=2)
    problem = Matrices(OnlyProducts(DenseOracle(covariances)), traces).problem(8, CRITERIA["loss"])
    own = problem.oracle.n_eigen
    solution = solve_many_groups(problem, exact_search=False)
    certificate = check(solution, covariances, 8)
    assert certificate.lower_bound == pytest.approx(dense.certificate.lower_bound, rel=1e-9)
    assert certificate.value == pytest.approx(dense.certificate.value, rel=1e-6)
    assert solution.n_eigen - own <= 16


def test_a_subspace_that_cannot_grow_still_gets_the_bound_at_the_best_weights():
    # Of 200 columns five vary: the first eigenvectors span them all, and nothing is left to add.
    small = random_psd(np.random.default_rng(0), 6, 5)
    covariances = np.zeros((6, 200, 200))
    covariances[:, :5, :5] = small
    dense = solve(small, 2, "error", exact_search=False).certificate
    found = check(solve(covariances, 2, "error"), covariances, 2, "error")
    assert found.lower_bound == pytest.approx(dense.lower_bound, rel=1e-9)


def test_lemma_8_1():
    proven = check(solve(lemma_8_1(), 1, "variance"), lemma_8_1(), 1, "variance")
    assert proven.optimal
    assert proven.value == pytest.approx(-26 / 17, abs=1e-12)
    dual = solve(lemma_8_1(), 1, "variance", exact_search=False).certificate
    assert dual.lower_bound == pytest.approx(-7 / 4, abs=1e-12)
