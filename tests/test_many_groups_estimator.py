"""FairPCA with three and more groups: certificates, nesting, paths, invariances."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.exceptions import ConvergenceWarning

from fairpca import FairPCA, GroupMoments, component_path, phi, solve
from fairpca.criteria import CRITERIA, find_criterion, pose
from fairpca.datasets import make_three_lines
from fairpca.methods._base import kept_variance, own_variance
from fairpca.metrics import group_losses
from fairpca.solvers import solve_problem

from tables import about_own_means, credit_codes, education

# Price of nesting on the credit table, worst loss at rank 1..10; source: the worked-out table of
# the nested method (cumulative and top-down rows), groups by education.
NESTED = {
    (2, "forward"): [
        0.02470, 0.13316, 0.39716, 0.11406, 0.14665, 0.18901, 0.19175, 0.22772, 0.23929, 0.16143,
    ],
    (2, "backward"): [
        0.02830, 0.14399, 0.40029, 0.12467, 0.17276, 0.21115, 0.20416, 0.20571, 0.22437, 0.15078,
    ],
    (4, "forward"): [
        0.20160, 0.21289, 0.51720, 0.43556, 0.55783, 0.64864, 0.66505, 0.65085, 0.61780, 0.50493,
    ],
    (4, "backward"): [
        0.21097, 0.26272, 0.58555, 0.46802, 0.51550, 0.66826, 0.64497, 0.60178, 0.54024, 0.40757,
    ],
}  # fmt: skip
OPTIMAL = {
    2: [0.02470, 0.13274, 0.37673, 0.09878, 0.13856, 0.18134, 0.17702, 0.20306, 0.22225, 0.15078],
    4: [0.20160, 0.20785, 0.48822, 0.36978, 0.48974, 0.61850, 0.61607, 0.59190, 0.53095, 0.40757],
}


@pytest.mark.parametrize("k,direction", NESTED)
def test_price_of_nesting_on_credit(k, direction):
    X = credit_codes()[0]
    model = about_own_means(10, nested=direction).fit(X, sensitive_features=education(k))
    np.testing.assert_allclose(model.nested_values_, NESTED[k, direction], atol=1e-4)
    assert np.all(model.nested_bounds_ <= model.nested_values_ + 1e-12)
    moments = GroupMoments.from_array(X, education(k))
    for j in range(1, 11):
        # The leading j components are the answer of rank j: containment is exact.
        worst = group_losses(model.components_[:j], moments, center="group").max()
        assert worst == pytest.approx(model.nested_values_[j - 1], abs=1e-10)
    gram = model.components_ @ model.components_.T
    assert np.abs(gram - np.eye(10)).max() < 1e-12


@pytest.mark.parametrize("k", [2, 4])
def test_component_path_on_credit(k):
    moments = GroupMoments.from_array(credit_codes()[0], education(k))
    path = component_path(moments, 10, center="group")
    np.testing.assert_allclose(path.losses.max(axis=1), OPTIMAL[k], atol=1e-5)
    assert path.groups == tuple(range(1, k + 1))
    for r in (1, 4, 10):
        model = about_own_means(r).fit_moments(moments)
        assert path.certificates[r - 1].value == pytest.approx(model.certificate_.value, rel=1e-8)
        np.testing.assert_allclose(path.errors[r - 1], model.group_errors_, atol=1e-6)
    np.testing.assert_allclose(path.weights.sum(axis=1), 1)


def test_open_gap_warns_with_its_size_and_extra_components_close_it():
    X = credit_codes()[0]
    # The dual alone proves 0.616049; a few nodes of a search, which are cheap, most of the rest.
    with pytest.warns(ConvergenceWarning, match=r"no basis below 0\.618.*at most 0\.0\d%"):
        model = about_own_means(6).fit(X, sensitive_features=education(4))
    assert 0.618 < model.certificate_.lower_bound < 0.6185047
    assert model.certificate_.value <= 0.61850470 + 1e-8
    assert model.n_components_ == 6
    wider = about_own_means(6, max_extra_components=2)
    wider.fit(X, sensitive_features=education(4))
    assert wider.n_components_ in (7, 8)
    assert wider.certificate_.gap <= 1e-10
    assert wider.group_losses_.max() <= 0.61604943 + 1e-8


def test_three_lines():
    """Three groups are not always exact: the dual ends at 1/2, the optimum is 3/4.

    The search over all directions proves 3/4; one more component reaches the dual bound.
    """
    angles = np.deg2rad([0, 60, 120])
    lines = np.stack([np.cos(angles), np.sin(angles), 0 * angles], axis=1)
    X, labels = np.vstack([lines, -lines]), [0, 1, 2, 0, 1, 2]
    covariances = GroupMoments.from_array(X, labels).covariances
    assert float(phi(covariances, 1, np.full(3, 1 / 3))) == pytest.approx(0.5)
    model = FairPCA(1).fit(X, sensitive_features=labels)
    assert model.certificate_.value == pytest.approx(0.75, abs=1e-10)
    assert model.certificate_.lower_bound == pytest.approx(0.75, abs=1e-7)
    closed = FairPCA(1, max_extra_components=1).fit(X, sensitive_features=labels)
    assert closed.n_components_ == 2
    assert closed.certificate_.lower_bound == pytest.approx(0.5)
    assert closed.certificate_.gap == 0


@pytest.mark.parametrize("criterion", ["loss", "error", "relative", "share"])
def test_mixtures_lose_no_more_than_the_worst_group(criterion):
    """For any blend p of the groups' covariances, its value is at most the worst group's."""
    rng = np.random.default_rng(0)
    covariances = np.array([a @ a.T / 6 for a in rng.normal(size=(5, 6, 6))])
    r = 2
    solution = solve(covariances, r, criterion=criterion)
    traces = np.trace(covariances, axis1=1, axis2=2)
    mixtures = rng.dirichlet(np.full(5, 0.5), size=2000)
    blends = np.tensordot(mixtures, covariances, axes=1)
    if criterion in ("relative", "share"):
        # A blend of populations of unit variance each.
        blends = np.tensordot(mixtures, covariances / traces[:, None, None], axes=1)
    kept = kept_variance(solution.components.T, blends)
    offset = (
        own_variance(blends, r)
        if criterion in ("loss", "relative")
        else np.trace(blends, axis1=1, axis2=2)
    )
    assert np.all(offset - kept <= solution.losses.max() + 1e-12)


@st.composite
def problems(draw):
    seed = draw(st.integers(0, 2**31))
    rng = np.random.default_rng(seed)
    n, k = draw(st.integers(3, 7)), draw(st.integers(3, 5))
    r = draw(st.integers(1, n - 1))
    covariances = np.array([a @ a.T / n for a in rng.normal(size=(k, n, n))])
    return covariances, r, draw(st.sampled_from(sorted(CRITERIA))), rng


def bound(covariances, r, criterion):
    """The dual alone: what a search adds to it depends on where it stops."""
    unit = find_criterion(criterion).unit(np.trace(covariances, axis1=1, axis2=2))
    problem = pose(covariances * unit, r, criterion)
    return solve_problem(problem, exact_search=False).times(1 / unit).certificate


@settings(max_examples=12)
@given(problems())
def test_invariances_of_bound_and_value(case):
    covariances, r, criterion, rng = case
    base = bound(covariances, r, criterion)
    size = np.trace(covariances, axis1=1, axis2=2).max()
    slack = 1e-8 * (1 if criterion in ("relative", "share") else size)
    assert base.lower_bound <= base.value + base.resolution
    order = rng.permutation(len(covariances))
    q = np.linalg.qr(rng.normal(size=covariances.shape[1:]))[0]
    for other in (
        covariances[order],
        np.concatenate([covariances, covariances[:1]]),
        q.T @ covariances @ q,
    ):
        assert bound(other, r, criterion).lower_bound == pytest.approx(base.lower_bound, abs=slack)
    unit = 1.0 if criterion in ("relative", "share") else 1e3
    scaled = bound(1e3 * covariances, r, criterion)
    assert scaled.lower_bound == pytest.approx(unit * base.lower_bound, abs=1e3 * slack)
    extra = np.concatenate([covariances, [np.cov(rng.normal(size=(covariances.shape[1], 9)))]])
    # One more group to serve never makes the worst one better off.
    assert bound(extra, r, criterion).lower_bound >= base.lower_bound - slack


def test_groups_that_do_not_bind_have_no_weight():
    quiet = np.diag([1.0, 0.5, 0.1])
    loud = [np.diag([1.0, 5.0, 0.0]), np.diag([1.0, 0.0, 5.0])]
    solution = solve([*loud, quiet], 2)
    assert solution.weights[2] == 0
    assert solution.losses[2] < solution.losses[:2].max()


def test_scales_far_apart_and_many_groups():
    rng = np.random.default_rng(4)
    spread = np.array([a @ a.T for a in rng.normal(size=(3, 8, 8))]) * [[[1.0]], [[1e3]], [[1e6]]]
    assert solve(spread, 3).certificate.gap <= 1e-8
    many = np.array([a @ a.T / 120 for a in rng.normal(size=(50, 100, 120))])
    solution = solve(many, 10)
    assert solution.certificate.gap <= 1e-3
    assert solution.weights.sum() == pytest.approx(1)


def test_seven_groups_one_of_14_rows():
    X, codes, _ = credit_codes()
    model = about_own_means(5).fit(X, sensitive_features=codes)
    assert model.groups_ == list(range(7))
    assert model.group_counts_.min() == 14
    assert model.certificate_.value == pytest.approx(1.86872649, abs=1e-7)


def test_marginal_groups_overlap():
    X, _, sex = credit_codes()
    table = {"education": education(3), "sex": sex}
    model = FairPCA(4, group_by="marginal").fit(X, sensitive_features=table)
    assert model.groups_ == [
        ("education", 1), ("education", 2), ("education", 3), ("sex", 1), ("sex", 2),
    ]  # fmt: skip
    assert model.group_counts_[:3].sum() == model.group_counts_[3:].sum() == len(X)
    crossed = FairPCA(4).fit(X, sensitive_features=table)
    assert len(crossed.groups_) == 6
    # Every marginal group is a blend of crossings (and their means): its loss is reported as such.
    alone = GroupMoments.from_array(X, education(3))
    np.testing.assert_allclose(group_losses(model, alone), model.group_losses_[:3], atol=1e-10)


def test_same_seed_same_answer():
    X = credit_codes()[0]
    with pytest.warns(ConvergenceWarning):
        one = FairPCA(6, random_state=3).fit(X, sensitive_features=education(4))
    with pytest.warns(ConvergenceWarning):
        other = FairPCA(6, random_state=3).fit(X, sensitive_features=education(4))
    np.testing.assert_array_equal(one.components_, other.components_)


def test_a_share_says_where_fewer_components_may_do():
    rng = np.random.default_rng(1)
    spread = np.r_[3, 2, [0.3] * 6][:, None]
    parts = [rng.normal(size=(12, 8)) @ (rng.normal(size=(8, 8)) * spread) for _ in range(30)]
    X, labels = np.vstack(parts), np.repeat(np.arange(30), 12)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = FairPCA(0.375).fit(X, sensitive_features=labels)
    said = [str(warning.message) for warning in caught]
    assert any("4 components are enough, and 3 may be" in text for text in said)
    assert model.n_components_ == 4
    assert model.group_shares_.min() >= 0.375


@pytest.mark.parametrize("prove", [True, np.True_, 60.0])
def test_a_share_that_a_search_rules_out_is_not_said_to_be_open(prove):
    rows = np.random.default_rng(38).normal(size=(7, 14))
    X, labels = np.concatenate([rows, -rows]), np.tile(np.arange(7), 2)

    def fitted(**options):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = FairPCA(criterion="share", **options).fit(X, sensitive_features=labels)
        return model, "".join(str(warning.message) for warning in caught)

    assert "2 components are enough, and 1 may be" in fitted(n_components=0.21)[1]
    model, said = fitted(n_components=0.21, prove=prove)
    assert model.n_components_ == 2
    assert "may be" not in said
    # The same search by itself: no projection with one component keeps as much.
    assert 1 - fitted(n_components=1, prove=prove)[0].certificate_.lower_bound < 0.21


def test_no_search_is_advised_where_there_is_none():
    """A search takes up to 256 columns."""
    rng = np.random.default_rng(2)
    for n in (200, 300):
        X = rng.normal(size=(2 * n, n))
        labels = np.arange(2 * n) % 8
        with pytest.warns(ConvergenceWarning) as caught:
            FairPCA(2, max_iter=2).fit(X, sensitive_features=labels)
        said = "".join(str(one.message) for one in caught if one.category is ConvergenceWarning)
        assert ("prove=True" in said) == (n <= 256)


def test_a_gap_that_was_asked_for_is_none_to_be_warned_of():
    known = make_three_lines(random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        model = FairPCA(1, tol=1e-4).fit(known.data, sensitive_features=known.sensitive_features)
    assert model.certificate_.gap <= 1e-4


def test_a_certificate_beside_a_huge_group_says_what_its_numbers_say():
    rng = np.random.default_rng(5)
    X, labels = rng.normal(size=(90, 6)) @ rng.normal(size=(6, 6)), np.arange(90) % 3
    for factor, criterion in ((1e6, "loss"), (1e7, "variance")):
        Z = np.where(labels[:, None] == 1, factor * X, X)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = FairPCA(2, criterion=criterion, center="group")
            found = model.fit(Z, sensitive_features=labels).certificate_
        apart = (found.value - found.lower_bound) / abs(found.value)
        if apart > 1e-8:
            assert "proven optimal" not in str(found)
        if "could be gained" in str(found):
            assert f"{apart:.2%}" in str(found)
