"""FairPCA with three and more groups: certificates, nesting, paths, blends of groups."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from fairpca import FairPCA, GroupMoments, component_path, solve
from fairpca.datasets import make_three_lines
from fairpca.methods._base import kept_variance, own_variance
from fairpca.metrics import group_losses

from tables import about_own_means, credit_codes, education

# The credit table, groups by education: worst loss at rank 1..10 of the nested sequence (source:
# the worked-out table of the method), and the free optimum of every rank.
NESTED = {
    2: [0.02470, 0.13316, 0.39716, 0.11406, 0.14665, 0.18901, 0.19175, 0.22772, 0.23929, 0.16143],
    4: [0.20160, 0.21289, 0.51720, 0.43556, 0.55783, 0.64864, 0.66505, 0.65085, 0.61780, 0.50493],
}
OPTIMAL = {
    2: [0.02470, 0.13274, 0.37673, 0.09878, 0.13856, 0.18134, 0.17702, 0.20306, 0.22225, 0.15078],
    4: [0.20160, 0.20785, 0.48822, 0.36978, 0.48974, 0.61850, 0.61607, 0.59190, 0.53095, 0.40757],
}


@pytest.mark.parametrize("k", NESTED)
def test_price_of_nesting_on_credit(k):
    moments = GroupMoments.from_array(credit_codes()[0], education(k))
    model = about_own_means(10, nested=True).fit_moments(moments)
    np.testing.assert_allclose(model.nested_values_, NESTED[k], atol=1e-4)
    assert np.all(model.nested_bounds_ <= model.nested_values_ + 1e-12)
    for j in range(1, 11):
        # The leading j components are the answer of rank j: containment is exact.
        worst = group_losses(model.components_[:j], moments, center="group").max()
        assert worst == pytest.approx(model.nested_values_[j - 1], abs=1e-10)
    assert np.abs(model.components_ @ model.components_.T - np.eye(10)).max() < 1e-12


@pytest.mark.parametrize("k", OPTIMAL)
def test_component_path_on_credit(k):
    moments = GroupMoments.from_array(credit_codes()[0], education(k))
    path = component_path(moments, 10, center="group")
    np.testing.assert_allclose(path.losses.max(axis=1), OPTIMAL[k], atol=1e-5)
    assert path.groups == tuple(range(1, k + 1))
    model = about_own_means(4).fit_moments(moments)
    assert path.certificates[3].value == pytest.approx(model.certificate_.value, rel=1e-8)
    np.testing.assert_allclose(path.errors[3], model.group_errors_, atol=1e-6)
    np.testing.assert_allclose(path.weights.sum(axis=1), 1)


def test_an_open_gap_warns_with_its_size():
    # The dual alone proves 0.616049; a few nodes of a search, which are cheap, most of the rest.
    with pytest.warns(ConvergenceWarning, match=r"no basis below 0\.618.*at most 0\.0\d%"):
        model = about_own_means(6).fit(credit_codes()[0], sensitive_features=education(4))
    assert 0.618 < model.certificate_.lower_bound < 0.6185047
    assert model.certificate_.value <= 0.61850470 + 1e-8


def test_three_lines():
    """Three groups are not always exact: the dual ends at 1/2, a search proves 3/4."""
    known = make_three_lines(random_state=0)
    model = FairPCA(1).fit(known.data, sensitive_features=known.sensitive_features)
    assert model.certificate_.value == pytest.approx(0.75, abs=1e-10)
    assert model.certificate_.lower_bound == pytest.approx(0.75, abs=1e-7)


@pytest.mark.parametrize("criterion", ["loss", "error", "relative", "share"])
def test_mixtures_lose_no_more_than_the_worst_group(criterion):
    """For any blend p of the groups' covariances, its value is at most the worst group's."""
    rng = np.random.default_rng(0)
    covariances = np.array([a @ a.T / 6 for a in rng.normal(size=(5, 6, 6))])
    solution = solve(covariances, 2, criterion=criterion)
    if criterion in ("relative", "share"):
        # A blend of populations of unit variance each.
        covariances /= np.trace(covariances, axis1=1, axis2=2)[:, None, None]
    blends = np.tensordot(rng.dirichlet(np.full(5, 0.5), size=2000), covariances, axes=1)
    own, traces = own_variance(blends, 2), np.trace(blends, axis1=1, axis2=2)
    offset = own if criterion in ("loss", "relative") else traces
    kept = kept_variance(solution.components.T, blends)
    assert np.all(offset - kept <= solution.losses.max() + 1e-12)


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
    levels = [("education", 1), ("education", 2), ("education", 3), ("sex", 1), ("sex", 2)]
    assert model.groups_ == levels
    assert model.group_counts_[:3].sum() == model.group_counts_[3:].sum() == len(X)
    assert len(FairPCA(4).fit(X, sensitive_features=table).groups_) == 6
    alone = GroupMoments.from_array(X, education(3))
    np.testing.assert_allclose(group_losses(model, alone), model.group_losses_[:3], atol=1e-10)


def test_a_share_that_a_search_rules_out_is_not_said_to_be_open():
    rows = np.random.default_rng(38).normal(size=(7, 14))
    X, labels = np.concatenate([rows, -rows]), np.tile(np.arange(7), 2)
    for prove in (False, True):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model = FairPCA(0.21, criterion="share", prove=prove)
            model.fit(X, sensitive_features=labels)
        said = "".join(str(warning.message) for warning in caught)
        assert ("2 components are enough, and 1 may be" in said) != prove
        assert model.n_components_ == 2
