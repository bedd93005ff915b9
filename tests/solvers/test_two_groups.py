"""The two-group solver: reference numbers, ties, an independent SDP."""

import numpy as np
import pytest
import scipy.optimize

import fairpca
from fairpca import GroupMoments
from fairpca._arrays import subspace_distance
from fairpca.criteria import CRITERIA, pose
from fairpca.solvers.two_groups import RootSearch

from data_dir import reference
from tables import TABLES
from two_group_problems import degenerate_problems, psd, rotation

# The ranks of the reference table; listed here so that every case is a test of its own.
CASES = {"BM": (1, 2, 4, 8, 10, 15), "DCC": (1, 4, 5, 10, 15), "LFW": (1, 50, 100, 200)}
SMALL = [(name, r) for name in ("BM", "DCC") for r in CASES[name]]


@pytest.fixture(scope="module")
def covariances():
    known = {}

    def of(name):
        if name not in known:
            X, group = TABLES[name]()
            known[name] = GroupMoments.from_array(X, group).covariances
        return known[name]

    return of


def expected(name, r):
    return reference("two_groups.json")[name]["r"][str(r)]


def check_exact(solution, want):
    u = solution.components
    assert abs(solution.certificate.value / want["phi_star"] - 1) <= 1e-9
    assert abs(solution.losses[0] / solution.losses[1] - 1) <= 1e-10
    assert solution.certificate.gap <= 1e-10
    assert np.abs(u @ u.T - np.eye(len(u))).max() <= 1e-12
    assert abs(solution.weights[0] - want["t_star"]) <= 1e-6
    # The two decompositions for the groups' own sums are counted.
    assert solution.n_eigen <= 12


@pytest.mark.parametrize("solver", ["auto", "krylov"])
@pytest.mark.parametrize("name,r", SMALL)
def test_reference_values(covariances, name, r, solver):
    check_exact(fairpca.solve(covariances(name), r, solver=solver), expected(name, r))


@pytest.mark.parametrize("solver,r", [("auto", r) for r in CASES["LFW"]] + [("dense", 1)])
def test_reference_values_on_faces(covariances, solver, r):
    check_exact(fairpca.solve(covariances("LFW"), r, solver=solver), expected("LFW", r))


@pytest.mark.parametrize("name,r", [*SMALL, ("LFW", 1)])
def test_paper_solver_agrees_but_leaves_losses_apart(covariances, name, r):
    want = expected(name, r)
    solution = fairpca.solve(covariances(name), r, solver="paper", tol=1e-8)
    assert solution.solver == "paper"
    assert abs(solution.weights[0] - want["t_star"]) <= 1e-6
    assert abs(solution.losses[0] / solution.losses[1] - 1) <= 1e-5
    # Faces, r = 1: the loss is 2000 times smaller than the variance it is a difference of.
    assert solution.certificate.lower_bound <= want["phi_star"] * (1 + 1e-11)


def test_value_search_error_is_visible(covariances):
    """Somewhere in the table the search by value misses what root finding reaches."""
    errors = []
    for name, r in SMALL:
        losses = fairpca.solve(covariances(name), r, solver="paper", tol=1e-8).losses
        errors.append(abs(losses[0] / losses[1] - 1))
    assert 1e-8 < max(errors) <= 1e-5


def test_printed_tolerance_misses_the_claim_of_the_paper(covariances):
    """The three-line listing leaves TolX at 1e-4; losses then differ by more than 1e-5."""
    errors = []
    for r in CASES["DCC"]:
        losses = fairpca.solve(covariances("DCC"), r, solver="paper", tol=1e-4).losses
        errors.append(abs(losses[0] / losses[1] - 1))
    assert max(errors) > 1e-5


DEGENERATE = degenerate_problems()


def test_there_are_enough_degenerate_problems():
    assert len(DEGENERATE) >= 40


@pytest.mark.parametrize("name,a,b,r", DEGENERATE, ids=[case[0] for case in DEGENERATE])
def test_degenerate_problem(name, a, b, r):
    solution = fairpca.solve([a, b], r)
    losses, value = solution.losses, solution.certificate.value
    scale = max(np.trace(a), np.trace(b))
    # Where both losses vanish (identical groups) a ratio means nothing: rounding is the measure.
    vanishing = value <= 1e-13 * scale
    assert abs(losses[0] - losses[1]) <= 1e-12 * (scale if vanishing else value)
    assert solution.certificate.gap <= 1e-12
    u = solution.components
    assert np.abs(u @ u.T - np.eye(r)).max() <= 1e-12


def test_known_optimum_of_swapped_axes():
    solution = fairpca.solve([np.diag([1.0, 0.0]), np.diag([0.0, 1.0])], 1)
    assert np.allclose(np.abs(solution.components), np.sqrt(0.5))
    assert solution.certificate.value == pytest.approx(0.5, abs=1e-14)


@pytest.mark.parametrize("n", [1, 2, 3, 5])
@pytest.mark.parametrize("criterion", CRITERIA)
def test_all_components_kept(n, criterion):
    rng = np.random.default_rng(n)
    solution = fairpca.solve([psd(rng, n), psd(rng, n)], n, criterion=criterion)
    assert solution.components.shape == (n, n)
    assert solution.certificate.gap == 0
    if criterion != "variance":
        assert np.abs(solution.losses).max() <= 1e-12


@pytest.mark.parametrize("criterion", CRITERIA)
@pytest.mark.parametrize("seed", range(12))
def test_every_criterion_closes_its_gap(criterion, seed):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(2, 12))
    r = int(rng.integers(1, n))
    a, b = psd(rng, n), psd(rng, n, rank=max(1, n // 2)) * rng.uniform(0.1, 10)
    solution = fairpca.solve([a, b], r, criterion=criterion)
    assert solution.certificate.gap <= 1e-11
    assert solution.certificate.lower_bound <= solution.certificate.value + 1e-13


def sdp_value(covariances, offsets, r):
    import cvxpy as cp

    n = covariances.shape[1]
    P = cp.Variable((n, n), symmetric=True)
    z = cp.Variable()
    constraints = [P >> 0, np.eye(n) - P >> 0, cp.trace(P) == r]
    constraints += [z >= c - cp.trace(S @ P) for c, S in zip(offsets, covariances, strict=True)]
    problem = cp.Problem(cp.Minimize(z), constraints)
    problem.solve(solver=cp.CLARABEL)
    return problem.value


@pytest.mark.parametrize("seed", range(50))
def test_agrees_with_an_independent_sdp(seed):
    rng = np.random.default_rng(1000 + seed)
    n = int(rng.integers(2, 9))
    r = int(rng.integers(1, n))
    covariances = np.array([psd(rng, n), psd(rng, n)])
    own = np.linalg.eigvalsh(covariances)[:, ::-1][:, :r].sum(axis=1)
    solution = fairpca.solve(covariances, r)
    assert solution.certificate.value == pytest.approx(sdp_value(covariances, own, r), abs=2e-6)


def test_the_paper_solver_refuses_three_groups():
    with pytest.raises(ValueError, match="solver='paper' is written for two groups and got 3"):
        fairpca.solve([np.eye(3)] * 3, 1, solver="paper")


def test_freedom_left_by_the_binding_group_serves_the_other():
    """Max-min variance: a group without variance binds everywhere; the other gets its own PCA."""
    spread = np.diag([1.0, 5.0, 2.0])
    for pair in ([np.zeros((3, 3)), spread], [spread, np.zeros((3, 3))]):
        solution = fairpca.solve(pair, 1, criterion="variance")
        assert sorted(solution.losses) == pytest.approx([-5, 0], abs=1e-12)


def test_slopes_of_pure_rounding_keep_the_weights_on_the_simplex():
    """Both groups keep everything: found by hypothesis with a group of one row, r = 3 of 5."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        a = psd(rng, 5, rank=2)
        solution = fairpca.solve([np.zeros((5, 5)), a], 3, criterion="share")
        assert solution.weights.min() >= 0
        assert solution.certificate.gap == 0


@pytest.mark.parametrize("solver", ["dense", "krylov"])
def test_the_weights_are_the_proof_of_the_bound(solver):
    """A group without variance alone carries the bound of max-min variance, so it is weighed."""
    rng = np.random.default_rng(3)
    for pair in ([np.zeros((4, 4)), psd(rng, 4)], [psd(rng, 4), np.zeros((4, 4))]):
        solution = fairpca.solve(pair, 2, criterion="variance", solver=solver)
        bound = fairpca.phi(pair, 2, solution.weights[0], criterion="variance")
        assert bound == pytest.approx(solution.certificate.lower_bound, abs=1e-14)


@pytest.mark.parametrize("apart", [0.02, 0.5])
@pytest.mark.parametrize(
    ("n", "spectrum", "r"),
    [
        (200, "power", 8),
        (320, "power", 8),
        (320, "power", 40),
        (320, "flat", 33),
        (320, "few directions", 40),
    ],
)
def test_large_matrices_are_solved_to_rounding_in_few_decompositions(n, spectrum, r, apart):
    """Weights and subspace too, not only the value; LAPACK below 250 columns, Krylov above.

    Where the groups are nearly alike, phi of neighbouring weights is equal to rounding.
    """
    rng = np.random.default_rng(n)
    scale = {
        "power": 1 / np.arange(1, n + 1) ** 0.75,
        "flat": 1 + 0.5 * rng.random(n),
        "few directions": np.exp(-np.arange(n) / 8) + 1e-3,
    }[spectrum]
    pair = []
    for _ in range(2):
        rows = rng.normal(size=(2000, n)) * scale * (1 + apart * rng.random(n))
        pair.append(np.cov(rows.T))
    own = np.linalg.eigvalsh(pair)[:, -r:].sum(axis=1)

    def leading(t):
        return np.linalg.eigh(t * pair[0] + (1 - t) * pair[1])[1][:, -r:]

    def difference(t):
        basis = leading(t)
        return float(np.subtract(*(own - [np.trace(basis.T @ S @ basis) for S in pair])))

    t = scipy.optimize.brentq(difference, 0.01, 0.99, xtol=1e-15)
    solution = fairpca.solve(pair, r)
    # The groups' own, one for directions, and one near the optimum; two where they differ much.
    assert solution.n_eigen <= (4 if apart < 0.1 and spectrum != "flat" else 5)
    assert solution.stop_reason == "gap closed"
    assert solution.weights[0] == pytest.approx(t, abs=1e-9)
    assert subspace_distance(solution.components.T, leading(t)) <= 1e-8


def test_the_rounding_of_a_small_decomposition_lifts_no_bound():
    """For its size, a decomposition of three columns rounds worst of all."""
    X = np.array(
        [
            [0.6889243017178575, 4.969343156530889, -1.260829439297883],
            [-1.7209620453060532, 2.1878772997396467, 0.19261970352393665],
            [-0.9070988633660411, 3.262374196935282, -1.1571180123605112],
            [0.5958765790896953, -0.6604304926653211, -0.6037304790124565],
        ]
    )
    model = fairpca.FairPCA(1, criterion="error").fit(X, sensitive_features=[0, 1, 0, 0])
    assert model.certificate_.lower_bound <= model.certificate_.value
    assert model.certificate_.gap == 0


def test_the_search_ends_with_equal_losses_and_a_bound_that_meets_them():
    for seed in range(20):
        rng = np.random.default_rng(seed)
        problem = pose(np.array([psd(rng, 20), psd(rng, 20)]), 6)
        best, reason = RootSearch(problem).run(max_iter=50)
        assert reason == "losses equal to rounding"
        there = problem.oracle.full(np.array([best.proof, 1 - best.proof]))
        assert subspace_distance(best.basis, there.vectors[:, :6]) < 1e-9
        assert best.spread <= problem.resolution
        assert best.value - best.bound <= problem.resolution


def test_many_components_of_one_large_direction_leave_no_gap():
    rng = np.random.default_rng(0)
    bases = [np.linalg.qr(rng.normal(size=(200, 200)))[0] for _ in range(2)]
    spectrum = np.r_[1.0, np.full(199, 1e-9)]
    found = fairpca.solve([(q * spectrum) @ q.T for q in bases], 100).certificate
    assert found.gap == 0.0


def test_a_search_is_not_left_where_eigenvectors_still_turn():
    """Nearly tied at the optimum: left after steps of a hundredth it went round in circles."""
    rng = np.random.default_rng(0)
    spectrum = 1.0 / np.arange(1, 301)
    bases = [rotation(rng, 300) for _ in range(2)]
    found = fairpca.solve([(q * spectrum) @ q.T for q in bases], 5)
    assert found.certificate.optimal
    assert found.n_eigen <= 7


@pytest.mark.parametrize("n", [6, 60])
def test_max_iter_counts_decompositions_of_full_size_alone(n):
    """Few of them are no reason to stop early inside the subspace, nor to go without a bound."""
    for seed in range(10):
        rng = np.random.default_rng(seed)
        matrices = [psd(rng, n), psd(rng, n)]
        found = fairpca.solve(matrices, 2, criterion="error", solver="krylov", max_iter=3)
        assert found.n_eigen <= 4
        assert found.certificate.gap <= 0.2, seed
        assert found.certificate.closed or found.stop_reason == "max_iter reached", seed


@pytest.mark.parametrize("criterion", ["error", "share"])
def test_eigenvalues_below_rounding_open_no_gap(criterion):
    """Nearly tied eigenvalues of 1e-13 were mixed as if tied, and the bound lost as much."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        r, q, x = int(rng.integers(5, 12)), rotation(rng, 12), rng.normal(size=12)
        first = (q * 10.0 ** -np.linspace(0, 15, 12)) @ q.T
        second = first + 10.0 ** rng.uniform(-6, 0) * np.outer(x, x)
        assert fairpca.solve([first, second], r, criterion=criterion).certificate.optimal, seed


@pytest.mark.parametrize("seed", range(5))
def test_derivatives_of_phi_are_those_of_differences(seed):
    rng = np.random.default_rng(seed)
    n, r = int(rng.integers(3, 12)), int(rng.integers(1, 3))
    search = RootSearch(pose(np.array([psd(rng, n), psd(rng, n)]), r))
    search._end(0.0)
    h = 1e-4
    before, here, after = (search._evaluate(0.4 + step) for step in (-h, 0.0, h))
    assert (after.value - before.value) / (2 * h) == pytest.approx(here.slope, rel=1e-5)
    assert (after.slope - before.slope) / (2 * h) == pytest.approx(here.curvature, rel=1e-4)
    assert (after.curvature - before.curvature) / (2 * h) == pytest.approx(here.bend, rel=1e-3)
