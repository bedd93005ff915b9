"""Invariances of the whole fit, over generated shapes, groups, weights and criteria."""

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fairpca import FairPCA
from fairpca.criteria import CRITERIA


@st.composite
def fits(draw, max_groups=2):
    """Rows, labels, weights, rank, criterion."""
    seed = draw(st.integers(0, 2**31))
    rng = np.random.default_rng(seed)
    n = draw(st.integers(2, 7))
    k = draw(st.integers(2, max_groups))
    m = draw(st.integers(2 * k, 40))
    X = rng.normal(size=(m, n)) * rng.uniform(0.2, 3, size=n)
    labels = np.r_[np.arange(k), rng.integers(0, k, size=m - k)]
    X += rng.normal(size=(k, n))[labels]
    X[labels == 0] *= rng.uniform(0.3, 3, size=n)
    weight = rng.uniform(0.5, 2, size=m) if draw(st.booleans()) else None
    return X, labels, weight, draw(st.integers(1, n - 1)), draw(st.sampled_from(sorted(CRITERIA)))


def fit(X, labels, weight, r, criterion, **options):
    model = FairPCA(r, criterion=criterion, **options)
    return model.fit(X, sensitive_features=labels, sample_weight=weight)


def same_value(one, other, unit=1.0):
    """Equal up to rounding of the data, whose magnitude the certificate's resolution tells."""
    want = unit * one.certificate_.value
    slack = 1e5 * (unit * one.certificate_.resolution + other.certificate_.resolution)
    assert abs(other.certificate_.value - want) <= 1e-8 * abs(want) + slack


@given(fits())
def test_certificate_and_basis(case):
    model = fit(*case)
    u = model.components_
    assert np.abs(u @ u.T - np.eye(len(u))).max() <= 1e-12
    certificate = model.certificate_
    assert certificate.lower_bound <= certificate.value + certificate.resolution
    assert certificate.gap <= 1e-9
    assert model.group_weights_.min() >= 0
    assert model.group_weights_.sum() == pytest.approx(1)
    assert model.group_losses_.min() >= -1e-9


@given(fits())
def test_two_groups_end_equal_in_loss(case):
    X, labels, weight, r, _ = case
    model = fit(X, labels, weight, r, "loss")
    size = model.group_errors_.max() + model.group_losses_.max()
    # Three rows lose nothing in a plane; what is left is rounding of their variance.
    rounding = model.certificate_.resolution
    assert abs(model.group_losses_[0] - model.group_losses_[1]) <= 1e-10 * size + rounding


@given(fits(), st.integers(0, 2**31))
def test_row_order_and_names_do_not_matter(case, seed):
    X, labels, weight, r, criterion = case
    model = fit(*case)
    order = np.random.default_rng(seed).permutation(len(X))
    shuffled = fit(
        X[order], labels[order], None if weight is None else weight[order], r, criterion
    )
    same_value(model, shuffled)
    swapped = fit(X, np.where(labels == 0, "z", "a"), weight, r, criterion)
    same_value(model, swapped)
    np.testing.assert_allclose(
        swapped.group_values_[::-1],
        model.group_values_,
        atol=1e-7 * (1 + model.group_errors_.max()),
    )


@given(fits(), st.sampled_from([1e-3, 7.0, 1e4]), st.integers(0, 2**31))
def test_scaling_and_rotation(case, factor, seed):
    X, labels, weight, r, criterion = case
    model = fit(*case)
    unit = 1.0 if criterion in ("relative", "share") else factor**2
    same_value(model, fit(factor * X, labels, weight, r, criterion), unit)
    q = np.linalg.qr(np.random.default_rng(seed).normal(size=(X.shape[1],) * 2))[0]
    same_value(model, fit(X @ q, labels, weight, r, criterion))
    same_value(model, fit(X + 50, labels, weight, r, criterion))


@given(fits())
def test_duplicating_a_group_changes_nothing(case):
    """About the groups' own means; the mean of all rows moves towards a group that is repeated."""
    X, labels, weight, r, criterion = case
    model = fit(*case, center="group")
    twice = np.r_[np.arange(len(X)), np.flatnonzero(labels == 0)]
    weights = None if weight is None else weight[twice]
    again = fit(X[twice], labels[twice], weights, r, criterion, center="group")
    same_value(model, again)


@given(fits())
def test_worst_loss_falls_short_of_no_projection(case):
    """A random projection never beats the lower bound."""
    X, labels, weight, r, criterion = case
    assume(criterion in ("loss", "error"))
    model = fit(*case)
    from fairpca.metrics import group_errors, group_losses

    metric = group_losses if criterion == "loss" else group_errors
    random = np.linalg.qr(np.random.default_rng(0).normal(size=(X.shape[1], r)))[0].T
    worst = metric(random, X, sensitive_features=labels, sample_weight=weight).max()
    assert worst >= model.certificate_.lower_bound - 1e-9 * (1 + worst)
