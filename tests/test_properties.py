"""Invariances of the whole fit, over generated shapes, groups, weights and criteria."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairpca import FairPCA
from fairpca.criteria import CRITERIA
from fairpca.metrics import group_errors, group_losses


@st.composite
def fits(draw):
    """Rows of two groups, labels, weights, rank, criterion."""
    rng = np.random.default_rng(draw(st.integers(0, 2**31)))
    n, m = draw(st.integers(2, 7)), draw(st.integers(4, 40))
    X = rng.normal(size=(m, n)) * rng.uniform(0.2, 3, size=n)
    labels = np.r_[0, 1, rng.integers(0, 2, size=m - 2)]
    X += rng.normal(size=(2, n))[labels]
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
def test_certificate_basis_and_equal_losses(case):
    X, labels, weight, r, criterion = case
    model = fit(*case)
    u, certificate = model.components_, model.certificate_
    assert np.abs(u @ u.T - np.eye(r)).max() <= 1e-12
    assert certificate.lower_bound <= certificate.value + certificate.resolution
    assert certificate.gap <= 1e-9
    assert model.group_weights_.min() >= 0
    assert model.group_weights_.sum() == pytest.approx(1)
    assert model.group_losses_.min() >= -1e-9
    if criterion == "loss":
        size = model.group_errors_.max() + model.group_losses_.max()
        assert np.ptp(model.group_losses_) <= 1e-10 * size + certificate.resolution
    if criterion in ("loss", "error"):
        # No random projection beats the bound.
        metric = group_losses if criterion == "loss" else group_errors
        random = np.linalg.qr(np.random.default_rng(0).normal(size=(X.shape[1], r)))[0].T
        worst = metric(random, X, sensitive_features=labels, sample_weight=weight).max()
        assert worst >= certificate.lower_bound - 1e-9 * (1 + worst)


@settings(max_examples=30)
@given(fits(), st.sampled_from([1e-3, 7.0, 1e4]), st.integers(0, 2**31))
def test_order_names_scale_rotation_and_place_do_not_matter(case, factor, seed):
    X, labels, weight, r, criterion = case
    rng, model = np.random.default_rng(seed), fit(*case)
    order = rng.permutation(len(X))
    weights = None if weight is None else weight[order]
    same_value(model, fit(X[order], labels[order], weights, r, criterion))
    same_value(model, fit(X, np.where(labels == 0, "z", "a"), weight, r, criterion))
    unit = 1.0 if criterion in ("relative", "share") else factor**2
    same_value(model, fit(factor * X, labels, weight, r, criterion), unit)
    q = np.linalg.qr(rng.normal(size=(X.shape[1],) * 2))[0]
    same_value(model, fit(X @ q, labels, weight, r, criterion))
    same_value(model, fit(X + 50, labels, weight, r, criterion))
    # About the groups' own means, rows that are there twice change nothing.
    twice = np.r_[np.arange(len(X)), np.flatnonzero(labels == 0)]
    weights = None if weight is None else weight[twice]
    again = fit(X[twice], labels[twice], weights, r, criterion, center="group")
    same_value(fit(*case, center="group"), again)
