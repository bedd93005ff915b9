"""max_harm: no group loses more than a share of its variance above what it loses by PCA."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits

from fairpca import FairPCA, GroupMoments
from fairpca.criteria import CRITERIA

pytestmark = pytest.mark.filterwarnings("ignore")


@st.composite
def problems(draw, fewest=1, most=10):
    """Rows of groups that differ in size, spread and mean, and a rank."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, k = draw(st.integers(2, 7)), draw(st.integers(fewest, most))
    counts = [draw(st.integers(2, 40)) for _ in range(k)]
    parts = [
        rng.normal(size=(m, n)) * np.exp(-rng.permutation(n)) + draw(st.sampled_from([0, 1])) * g
        for g, m in enumerate(counts)
    ]
    return np.vstack(parts), np.repeat(np.arange(k), counts), draw(st.integers(1, n - 1))


def values(X, labels, basis, r, criterion):
    """Return every group's criterion by its definition, and its variance in the same unit."""
    found, units, rows = [], [], X - X.mean(axis=0)
    for g in np.unique(labels):
        S = rows[labels == g].T @ rows[labels == g] / np.sum(labels == g)
        record, trace = CRITERIA[criterion], np.trace(S)
        unit = trace if record.as_share and trace > 0 else 1.0
        own = np.linalg.eigvalsh(S)[-r:].sum()
        kept = np.trace(basis.T @ S @ basis)
        found.append((record.own * own + record.trace * trace - kept) / unit)
        units.append(trace / unit)
    return np.array(found), np.array(units)


def pca_basis(X, r):
    return np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2][:r].T


@settings(max_examples=25)
@given(problems(), st.sampled_from(sorted(CRITERIA)), st.sampled_from([0.0, 0.02, 0.3]))
def test_nobody_is_harmed_and_the_worst_group_gains(problem, criterion, harm):
    X, labels, r = problem
    model = FairPCA(r, criterion=criterion, max_harm=harm).fit(X, sensitive_features=labels)
    before, units = values(X, labels, pca_basis(X, r), r, criterion)
    after, _ = values(X, labels, model.components_.T, r, criterion)
    rounding = 1e-7 * max(units.max(), 1e-12)
    assert np.all(after <= before + harm * units + rounding)
    assert after.max() <= before.max() + rounding
    proof = model.certificate_
    assert proof.value >= proof.lower_bound
    assert proof.value == pytest.approx(after.max(), abs=rounding)
    np.testing.assert_allclose(model.group_values_, after, atol=rounding)


@settings(max_examples=15)
@given(problems(fewest=2), st.sampled_from(sorted(CRITERIA)))
def test_much_harm_is_the_plain_fit(problem, criterion):
    X, labels, r = problem
    plain = FairPCA(r, criterion=criterion).fit(X, sensitive_features=labels)
    free = FairPCA(r, criterion=criterion, max_harm=1.0).fit(X, sensitive_features=labels)
    before, units = values(X, labels, pca_basis(X, r), r, criterion)
    allowed = plain.certificate_.value <= (before + units).min()
    if allowed:
        scale = max(abs(plain.certificate_.value), 1e-3 * units.max())
        assert free.certificate_.value == pytest.approx(plain.certificate_.value, abs=1e-8 * scale)


@settings(max_examples=25)
@given(problems(fewest=2, most=2), st.sampled_from(sorted(CRITERIA)), st.floats(0, 0.2))
def test_two_groups_are_proven(problem, criterion, harm):
    X, labels, r = problem
    proof = (
        FairPCA(r, criterion=criterion, max_harm=harm).fit(X, sensitive_features=labels)
    ).certificate_
    traces = (
        GroupMoments.from_array(X, labels).second_moments(X.mean(axis=0)).trace(axis1=1, axis2=2)
    )
    unit = 1.0 if CRITERIA[criterion].as_share else traces.max()
    assert proof.value - proof.lower_bound <= 1e-9 * max(abs(proof.value), unit)


@settings(max_examples=10)
@given(problems(fewest=2, most=5), st.sampled_from([0.0, 0.05, 0.2]))
def test_against_all_directions_of_a_plane(problem, harm):
    X, labels = problem[0][:, :2], problem[1]
    model = FairPCA(1, max_harm=harm).fit(X, sensitive_features=labels)
    angles = np.linspace(0, np.pi, 3601)
    directions = np.array([np.cos(angles), np.sin(angles)])
    matrices = GroupMoments.from_array(X, labels).second_moments(X.mean(axis=0))
    kept = np.einsum("ia,kij,ja->ak", directions, matrices, directions, optimize=True)
    every = np.linalg.eigvalsh(matrices)[:, -1] - kept
    before, units = values(X, labels, pca_basis(X, 1), 1, "loss")
    feasible = np.all(every <= before + harm * units, axis=1)
    # Between two directions of the grid there may be feasible ones.
    best = np.append(every[feasible].max(axis=1), before.max()).min()
    assert model.certificate_.lower_bound <= best + 1e-5 * units.max()
    assert model.group_values_.max() <= best + 0.01 * units.max()


def test_more_may_be_gained_where_more_harm_is_allowed():
    X, digit = load_digits(return_X_y=True)
    worst = [
        FairPCA(5, max_harm=harm, tol=1e-6)
        .fit(X, sensitive_features=digit == 1)
        .group_losses_.max()
        for harm in (0.0, 0.02, 0.05, 1.0)
    ]
    assert np.all(np.diff(worst) <= 1e-9)
    assert worst[0] < 0.99 * worst[3] or worst[3] < 0.7 * worst[0]


@pytest.mark.parametrize("harm", [-0.1, 1.5, "a", True])
def test_wrong_values_are_named(harm):
    with pytest.raises(ValueError, match="max_harm="):
        FairPCA(1, max_harm=harm).fit(np.eye(4), sensitive_features=[0, 0, 1, 1])
