"""Three and more groups, at the level of the solver: bounds, values, proofs."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairpca._arrays import orthonormal, subspace_distance
from fairpca.covariances.dense import DenseOracle
from fairpca.covariances.oracle import Oracle
from fairpca.criteria import CRITERIA, pose, pose_on
from fairpca.solvers import solve_problem
from fairpca.solvers.descent import descend
from fairpca.solvers.dual import Dual
from fairpca.solvers.many_groups import maximise_dual, solve_many_groups

from data_dir import data_path, reference
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


def solve(covariances, r, criterion="loss", *, method="auto", **options):
    problem = pose(np.asarray(covariances, dtype=float), r, criterion, method=method)
    return solve_many_groups(problem, **options)


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
    assert solution.stop_reason
    # Unless a search proved more, the bound is phi at the weights that are returned.
    phi = problem.phi(solution.weights, problem.oracle.full(solution.weights))
    if "search" not in solution.stop_reason:
        assert certificate.lower_bound == pytest.approx(phi, abs=slack)
    else:
        assert certificate.lower_bound >= phi - slack
    return certificate


# ---------------------------------------------------------------- real data, known numbers


@cache
def credit():
    """Return the names and the columns of the credit table, label included."""
    path = data_path("default_degree.csv")
    names = path.read_text().splitlines()[1].split(",")[1:]
    return names, np.loadtxt(path, delimiter=",", skiprows=2)[:, 1:]


def per_group(rows, codes):
    found = []
    for code in np.unique(codes):
        part = rows[codes == code]
        part = part - part.mean(axis=0)
        found.append(part.T @ part / len(part))
    return np.array(found)


@cache
def credit_covariances(grouping, features):
    """Build the matrices as the reference file says."""
    names, table = credit()
    education, sex = (table[:, names.index(name)].astype(int) for name in ("EDUCATION", "SEX"))
    columns = [i for i, name in enumerate(names[:-1]) if features == 23 or name not in SENSITIVE]
    rows = table[:, columns]
    rows = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    levels = {"edu2": 2, "edu3": 3, "edu4": 4}
    plain = grouping.removeprefix("sex_")
    codes = education if plain == "edu7" else _first_levels(education, levels[plain])
    return per_group(rows, codes if plain == grouping else 10 * sex + codes)


SENSITIVE = ("EDUCATION", "SEX")


def _first_levels(education, k):
    """Codes 1, 2, ... on their own, everything else together and last."""
    return np.where((education >= 1) & (education < k), education, k)


@pytest.mark.parametrize("features", [21, 23])
@pytest.mark.parametrize(
    "grouping", ["edu2", "edu3", "edu4", "edu7", "sex_edu2", "sex_edu3", "sex_edu4"]
)
def test_reference_cases(grouping, features):
    for r, known in reference("many_groups.json")[grouping][str(features)].items():
        covariances = credit_covariances(grouping, features)
        dual = check(solve(covariances, int(r), exact_search=False), covariances, int(r))
        assert dual.lower_bound == pytest.approx(known["phi"], rel=1e-8), r
        certificate = check(solve(covariances, int(r)), covariances, int(r))
        assert certificate.lower_bound >= dual.lower_bound
        if known["gap"] < 1e-10:
            assert certificate.gap <= 1e-10, r
        else:
            assert certificate.value <= known["value"] * (1 + 1e-10), r


def test_the_open_gap_of_edu4_at_rank_six():
    covariances = credit_covariances("edu4", 21)
    certificate = check(solve(covariances, 6, exact_search=False), covariances, 6)
    assert certificate.lower_bound == pytest.approx(0.61604943, abs=5e-9)
    assert certificate.value <= 0.61850470 + 5e-9
    searched = check(solve(covariances, 6, prove=30.0, tol=1e-4), covariances, 6)
    assert searched.gap <= 1e-4
    assert searched.lower_bound >= 0.6184
    wider = solve(covariances, 6, max_extra_components=1)
    assert wider.components.shape == (7, 21)
    assert wider.losses.max() <= certificate.lower_bound + 1e-12
    assert wider.certificate.gap == 0


def test_descent_does_not_creep_along_the_valley_of_edu4():
    # Without levelling the losses after a step, this takes some 170 steps.
    covariances = credit_covariances("edu4", 21)
    problem = pose(covariances, 6)
    dual = Dual(problem, max_iter=200, target=1e-13)
    maximise_dual(dual, None)
    found = descend(problem, dual.best.pairs.vectors[:, :6], dual.best.weights)
    assert found.stationary
    assert found.steps <= 50


@cache
def tantipongpipat():
    """The three-group credit matrices of Tantipongpipat et al. 2019."""
    names, table = credit()
    rows = table[:, :-1].copy()
    for prefix in ("PAY_AMT", "BILL_AMT", "PAY_"):
        block = [
            i
            for i, name in enumerate(names[:-1])
            if name.startswith(prefix) and not (prefix == "PAY_" and name.startswith("PAY_AMT"))
        ]
        rows[:, block] /= rows[:, block].std(ddof=1)
    for name in ("EDUCATION", "SEX", "LIMIT_BAL", "MARRIAGE", "AGE"):
        rows[:, names.index(name)] /= rows[:, names.index(name)].std(ddof=1)
    education = table[:, names.index("EDUCATION")]
    codes = np.where(education <= 2, 0, np.where(education == 3, 1, 2))
    assert np.bincount(codes).tolist() == [24629, 4917, 454]
    return per_group(rows, codes)


@pytest.mark.parametrize(
    "r, value",
    [
        (1, 0.2081496461),
        (2, 0.1908603989),
        (3, 0.3711875525),
        (5, 0.5093941501),
        (7, 0.4779409973),
        (10, 0.3821848905),
    ],
)
def test_published_three_group_losses(r, value):
    certificate = check(solve(tantipongpipat(), r), tantipongpipat(), r)
    assert certificate.value == pytest.approx(value, abs=1e-7)
    assert certificate.gap <= 1e-10


def test_published_max_min_variance():
    solution = solve(tantipongpipat(), 5, "variance")
    assert -solution.certificate.value == pytest.approx(13.06532739, abs=1e-7)
    assert check(solution, tantipongpipat(), 5, "variance").gap <= 1e-10


# ---------------------------------------------------------------- random families


@pytest.mark.parametrize("k", [2, 3, 4, 6, 8, 10, 20])
def test_random_families_are_solved(k):
    for instance in instances(k, 12 if k < 20 else 8, first_seed=100):
        problem = pose(instance.covariances, instance.n_components)
        solution = solve_many_groups(problem, exact_search=False)
        check(solution, instance.covariances, instance.n_components)
        assert "open" not in solution.stop_reason, instance
        assert "max_iter" not in solution.stop_reason, instance


@pytest.mark.parametrize("seed", range(20))
def test_bound_is_the_semidefinite_relaxation(seed):
    cvxpy = pytest.importorskip("cvxpy", reason="needs cvxpy")
    rng = np.random.default_rng(seed)
    family = list(FAMILIES)[seed % 4]
    k, n = int(rng.integers(3, 8)), int(rng.integers(4, 11))
    r = int(rng.integers(1, n // 2 + 1))
    covariances = FAMILIES[family](rng, k, n)
    problem = pose(covariances, r)
    solution = solve_many_groups(problem, exact_search=False)
    p = cvxpy.Variable((n, n), symmetric=True)
    z = cvxpy.Variable()
    limits = [p >> 0, np.eye(n) - p >> 0, cvxpy.trace(p) == r]
    limits += [
        c - cvxpy.trace(s @ p) <= z for c, s in zip(problem.offsets, covariances, strict=True)
    ]
    relaxed = cvxpy.Problem(cvxpy.Minimize(z), limits).solve(solver="CLARABEL")
    assert solution.certificate.lower_bound == pytest.approx(
        relaxed, abs=1e-6 * problem.oracle.scale
    )


@settings(max_examples=25)
@given(
    st.integers(0, 10**6), st.integers(3, 6), st.integers(2, 7), st.sampled_from(sorted(CRITERIA))
)
def test_bound_holds_for_every_basis(seed, k, n, criterion):
    rng = np.random.default_rng(seed)
    r = int(rng.integers(1, n))
    covariances = random_psd(rng, k, n) * rng.choice([1e-3, 1.0, 50.0], (k, 1, 1))
    solution = solve(covariances, r, criterion, exact_search=False)
    certificate = check(solution, covariances, r, criterion)
    problem = pose(covariances, r, criterion)
    for _ in range(50):
        value = problem.losses(random_basis(rng, n, r)).max()
        assert value >= certificate.lower_bound - 10 * problem.resolution


@pytest.mark.parametrize("criterion", CRITERIA)
def test_weights_and_losses_are_complementary(criterion):
    rng = np.random.default_rng(5)
    covariances = wishart(rng, 6, 14)
    solution = solve(covariances, 5, criterion)
    certificate = check(solution, covariances, 5, criterion)
    if certificate.gap <= 1e-10:
        level = solution.losses[solution.weights > 0]
        np.testing.assert_allclose(level, certificate.value, rtol=1e-9)


def test_a_group_that_never_binds_has_no_weight():
    rng = np.random.default_rng(2)
    covariances = random_psd(rng, 3, 8)
    quiet = np.concatenate([covariances, 1e-3 * random_psd(rng, 2, 8)])
    solution = solve(quiet, 3)
    assert solution.weights[3:].tolist() == [0, 0]
    assert solution.certificate.value == pytest.approx(solve(covariances, 3).certificate.value)


# ---------------------------------------------------------------- true gaps


@pytest.mark.parametrize("k", [3, 4, 5, 8])
@pytest.mark.parametrize("n", [2, 3])
def test_evenly_spaced_lines(k, n):
    value = (1 + np.cos(np.pi / k)) / 2
    dual = check(solve(lines(k, n), 1, exact_search=False), lines(k, n), 1)
    assert dual.lower_bound == pytest.approx(0.5, abs=1e-12)
    assert dual.value == pytest.approx(value, abs=1e-12)
    assert not dual.optimal
    wider = solve(lines(k, n), 1, max_extra_components=1)
    assert len(wider.components) == 2
    assert wider.certificate.gap == 0


@pytest.mark.parametrize("n", [2, 3, 7])
def test_search_proves_three_lines(n):
    certificate = check(solve(lines(3, n), 1), lines(3, n), 1)
    assert certificate.optimal
    assert certificate.lower_bound <= 0.75 <= certificate.value + 1e-12


@pytest.mark.parametrize("n", [2, 3])
def test_a_search_that_nobody_asked_for_proves_seven_lines(n):
    # Symmetric cells close one after the other: the bound jumps where the last of them does.
    assert check(solve(lines(7, n), 1), lines(7, n), 1).gap < 1e-6


def test_lemma_8_1():
    dual = check(solve(lemma_8_1(), 1, "variance", exact_search=False), lemma_8_1(), 1, "variance")
    assert dual.lower_bound == pytest.approx(-7 / 4, abs=1e-12)
    assert dual.value == pytest.approx(-26 / 17, abs=1e-12)
    proven = check(solve(lemma_8_1(), 1, "variance"), lemma_8_1(), 1, "variance")
    assert proven.optimal
    assert proven.lower_bound <= -26 / 17 + 1e-12


@pytest.mark.parametrize("seed", range(6))
def test_search_never_claims_more_than_is_true(seed):
    rng = np.random.default_rng(200 + seed)
    k, (n, r) = int(rng.integers(3, 7)), [(3, 1), (3, 2), (4, 1)][seed % 3]
    covariances = random_psd(rng, k, n)
    certificate = check(solve(covariances, r), covariances, r)
    problem = pose(covariances, r)
    least = min(problem.losses(random_basis(rng, n, r)).max() for _ in range(4000))
    assert certificate.lower_bound <= least
    assert certificate.optimal


@pytest.mark.parametrize("copies", [3, 4])
@pytest.mark.parametrize("n, r", [(3, 1), (3, 2), (3, 4), (4, 5), (5, 2), (5, 7)])
def test_forced_multiplicity_leaves_no_gap_for_three_groups(n, r, copies):
    rng = np.random.default_rng([n, r, copies])
    covariances = forced_multiplicity(rng, 3, n, copies)
    assert check(solve(covariances, r), covariances, r).gap <= 1e-12


def test_a_large_tie():
    covariances = forced_multiplicity(np.random.default_rng(3), 3, 4, 30)
    assert check(solve(covariances, 15), covariances, 15).gap <= 1e-10


@pytest.mark.parametrize("seed", range(12))
def test_commuting_matrices_with_integer_spectra(seed):
    # The dual is a linear programme here, its solution rarely unique, and ties are everywhere.
    rng = np.random.default_rng(seed)
    k, n = int(rng.integers(3, 7)), int(rng.integers(3, 9))
    r = int(rng.integers(1, n))
    rotation = random_basis(rng, n, n)
    spectra = rng.integers(0, 3, (k, n)).astype(float)
    covariances = np.array([(rotation * s) @ rotation.T for s in spectra])
    certificate = check(solve(covariances, r), covariances, r)
    assert certificate.gap <= 1e-8


def test_extra_components_stay_within_the_known_number():
    for instance in instances(6, 12, first_seed=40, n_max=9):
        r = instance.n_components
        solution = solve(instance.covariances, r, max_extra_components=9, exact_search=False)
        bound = solution.certificate.lower_bound
        assert len(solution.components) <= r + 2
        assert solution.losses.max() <= bound + 1e-9 * abs(bound)


def test_extra_components_are_not_taken_beyond_what_is_allowed():
    # Six diagonals of the icosahedron: the relaxed solution is I/3, two components too many.
    golden = (1 + np.sqrt(5)) / 2
    axes = [np.roll([0.0, 1.0, sign * golden], shift) for shift in range(3) for sign in (1, -1)]
    covariances = np.array([np.outer(a, a) / (a @ a) for a in axes])
    for allowed, taken in ((0, 1), (1, 1), (2, 3), (5, 3)):
        solution = solve(covariances, 1, max_extra_components=allowed, exact_search=False)
        assert len(solution.components) == taken
    assert solution.certificate.lower_bound == pytest.approx(2 / 3, abs=1e-10)


# ---------------------------------------------------------------- awkward groups


def test_identical_groups():
    one = random_psd(np.random.default_rng(0), 1, 6)
    solution = solve(np.repeat(one, 4, axis=0), 2)
    assert solution.certificate.value == pytest.approx(0, abs=1e-14)
    assert solution.certificate.optimal


def test_duplicated_groups_change_nothing():
    covariances = random_psd(np.random.default_rng(1), 3, 6)
    once = solve(covariances, 2)
    twice = solve(np.concatenate([covariances, covariances, covariances[:1]]), 2)
    assert twice.certificate.value == pytest.approx(once.certificate.value, abs=1e-13)
    assert twice.certificate.gap <= 1e-12


@pytest.mark.parametrize("factor", [1e3, 1e6])
def test_groups_of_very_different_size(factor):
    covariances = random_psd(np.random.default_rng(4), 3, 6)
    covariances *= np.array([1.0, factor, np.sqrt(factor)])[:, None, None]
    assert check(solve(covariances, 2), covariances, 2).gap <= 1e-10


@pytest.mark.parametrize("criterion", CRITERIA)
def test_a_group_without_variance(criterion):
    covariances = random_psd(np.random.default_rng(6), 4, 6)
    covariances[2] = 0
    certificate = check(solve(covariances, 2, criterion), covariances, 2, criterion)
    assert certificate.gap <= 1e-10


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_losses_far_below_the_variance_are_proven_too(seed):
    # What the components leave out is a billionth of the variance, and known to four digits.
    rng = np.random.default_rng(seed)
    sizes = 0.7 ** np.arange(40) * np.exp(0.3 * rng.standard_normal((3, 40)))
    rows = rng.standard_normal((3, 400, 40)) * sizes[:, None]
    covariances = np.swapaxes(rows, 1, 2) @ rows / 400
    found = check(solve(covariances, 29), covariances, 29)
    assert found.value - found.lower_bound <= 1e-3 * found.value


@pytest.mark.parametrize("criterion", CRITERIA)
def test_no_variance_at_all(criterion):
    solution = solve(np.zeros((3, 5, 5)), 2, criterion)
    assert solution.certificate.value == 0
    assert solution.certificate.optimal


@pytest.mark.parametrize("k", [3, 6, 20])
def test_all_but_one_component(k):
    covariances = random_psd(np.random.default_rng(k), k, 8)
    certificate = check(solve(covariances, 7), covariances, 7)
    assert certificate.gap < 0.2


def test_fifty_groups():
    covariances = wishart(np.random.default_rng(0), 50, 100)
    problem = pose(covariances, 10)
    solution = solve_many_groups(problem)
    assert check(solution, covariances, 10).gap < 1e-2
    assert solution.n_eigen - 50 <= 40


@pytest.mark.parametrize("family", FAMILIES)
def test_hundreds_of_groups(family):
    covariances = FAMILIES[family](
        np.random.default_rng(11), 150 if family == "clustered" else 300, 6
    )
    problem = pose(covariances, 2)
    own = problem.oracle.n_eigen
    solution = solve_many_groups(problem, exact_search=False)
    certificate = check(solution, covariances, 2)
    assert solution.n_eigen - own <= 200
    assert "max_iter" not in solution.stop_reason
    # What binds is a few groups, and those alone give the same bound.
    some = np.flatnonzero(solution.weights)
    assert len(some) < 40
    alone = pose(covariances[some], 2)
    fewer = solve_many_groups(replace(alone, offsets=problem.offsets[some]), exact_search=False)
    assert fewer.certificate.lower_bound == pytest.approx(certificate.lower_bound, rel=1e-9)


def test_one_group_may_bind_alone():
    spectra = [np.full(5, 10.0), np.arange(5.0), np.arange(5.0)[::-1]]
    solution = solve([np.diag(s) for s in spectra], 2, "error")
    assert solution.weights.tolist() == [1, 0, 0]
    assert solution.certificate.gap == 0


# ---------------------------------------------------------------- invariances and options


def test_order_of_groups_and_rotation_of_features_do_not_matter():
    rng = np.random.default_rng(9)
    covariances = shared_basis(rng, 5, 12)
    base = solve(covariances, 4)
    order = rng.permutation(5)
    shuffled = solve(covariances[order], 4)
    np.testing.assert_allclose(shuffled.weights, base.weights[order], atol=1e-8)
    assert subspace_distance(shuffled.components.T, base.components.T) < 1e-7
    rotation = random_basis(rng, 12, 12)
    turned = solve(rotation @ covariances @ rotation.T, 4)
    assert turned.certificate.value == pytest.approx(base.certificate.value, rel=1e-11)
    assert subspace_distance(turned.components.T, rotation @ base.components.T) < 1e-7


def test_a_common_multiple_of_the_identity_only_shifts_the_variance():
    covariances = wishart(np.random.default_rng(3), 4, 9)
    base = solve(covariances, 3, "variance").certificate
    shifted = solve(covariances + 2 * np.eye(9), 3, "variance").certificate
    assert shifted.lower_bound == pytest.approx(base.lower_bound - 6, abs=1e-10)
    assert shifted.value == pytest.approx(base.value - 6, abs=1e-10)


def test_scaling_scales():
    covariances = random_psd(np.random.default_rng(8), 4, 7)
    base = solve(covariances, 3).certificate
    for factor in (1e-12, 1e12):
        scaled = solve(factor * covariances, 3).certificate
        assert scaled.value == pytest.approx(factor * base.value, rel=1e-10)
        assert scaled.lower_bound == pytest.approx(factor * base.lower_bound, rel=1e-10)


def test_a_warm_start_saves_decompositions_and_changes_nothing():
    covariances = credit_covariances("sex_edu4", 21)
    problem = pose(covariances, 10)
    own = problem.oracle.n_eigen
    cold = solve_many_groups(problem)
    warm = solve(covariances, 10, start=cold.weights)
    assert warm.certificate.value == pytest.approx(cold.certificate.value, rel=1e-11)
    assert warm.n_eigen - own <= 2 < cold.n_eigen - own


def test_the_same_seed_gives_the_same_basis():
    covariances = credit_covariances("sex_edu3", 23)
    first, second = (solve(covariances, 5, random_state=7) for _ in range(2))
    np.testing.assert_array_equal(first.components, second.components)


def test_max_iter_is_kept_and_said():
    covariances = random_psd(np.random.default_rng(0), 8, 20)
    problem = pose(covariances, 5)
    before = problem.oracle.n_eigen
    solution = solve_many_groups(problem, max_iter=2)
    assert solution.n_eigen - before == 2
    assert solution.stop_reason == "max_iter reached"
    assert not check(solution, covariances, 5).optimal


def test_two_groups_agree_with_their_own_solver():
    for instance in instances(2, 12, first_seed=70, n_max=30):
        own = solve_problem(pose(instance.covariances, instance.n_components))
        solution = solve(instance.covariances, instance.n_components)
        assert solution.certificate.value == pytest.approx(own.certificate.value, rel=1e-10)
        np.testing.assert_allclose(solution.weights, own.weights, atol=1e-5)


# ---------------------------------------------------------------- large matrices


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


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("k, n, r", [(4, 120, 8), (9, 100, 3)])
def test_subspace_route_needs_products_only_and_agrees(family, k, n, r):
    covariances = FAMILIES[family](np.random.default_rng(n), k, n)
    dense = solve(covariances, r)
    oracle = OnlyProducts(DenseOracle(covariances))
    traces = np.trace(covariances, axis1=1, axis2=2)
    problem = pose_on(oracle, traces, r, CRITERIA["loss"])
    own = problem.oracle.n_eigen
    solution = solve_many_groups(problem)
    certificate = check(solution, covariances, r)
    assert certificate.lower_bound == pytest.approx(dense.certificate.lower_bound, rel=1e-9)
    assert certificate.value == pytest.approx(dense.certificate.value, rel=1e-6)
    assert solution.n_eigen - own <= 16


def test_a_descent_is_not_confined_to_the_subspace():
    # Inside the eigenvectors that closed the dual the value would be too large by 1e-5 or more.
    covariances = random_psd(np.random.default_rng(1), 12, 100)
    dense = solve(covariances, 1).certificate
    assert not dense.optimal
    found = check(solve(covariances, 1, method="krylov"), covariances, 1)
    assert found.value == pytest.approx(dense.value, rel=1e-8)


@pytest.mark.parametrize("criterion", ["error", "variance"])
def test_subspace_route_without_the_groups_own_bases(criterion):
    covariances = wishart(np.random.default_rng(1), 5, 90)
    dense = solve(covariances, 6, criterion)
    solution = solve(covariances, 6, criterion, method="krylov")
    certificate = check(solution, covariances, 6, criterion)
    assert certificate.lower_bound == pytest.approx(dense.certificate.lower_bound, rel=1e-9)
    assert solution.solver == "krylov"


def test_a_subspace_that_cannot_grow_still_gets_the_bound_at_the_best_weights():
    # Of 200 columns five vary: the first eigenvectors span them all, and nothing is left to add.
    for seed in range(12):
        small = random_psd(np.random.default_rng(seed), 6, 5)
        covariances = np.zeros((6, 200, 200))
        covariances[:, :5, :5] = small
        dense = solve(small, 2, "error", exact_search=False).certificate
        found = check(solve(covariances, 2, "error"), covariances, 2, "error")
        assert found.lower_bound == pytest.approx(dense.lower_bound, rel=1e-9), seed


def test_subspace_route_on_few_features():
    covariances = random_psd(np.random.default_rng(2), 4, 7)
    solution = solve(covariances, 3, method="krylov")
    assert solution.certificate.lower_bound == pytest.approx(
        solve(covariances, 3).certificate.lower_bound, rel=1e-9
    )
