"""SPEA2FairPCA: Pelegrina et al. 2022, and the exact front."""

import numpy as np
import pytest
from credit_variants import pelegrina

from fairpca.methods import SPEA2FairPCA, spea2
from fairpca.methods.spea2 import PCAAxes, efficient


@pytest.fixture
def small():
    rng = np.random.default_rng(1)
    return rng.normal(size=(300, 9)) * rng.uniform(0.5, 2, 9), rng.integers(0, 2, 300)


def dominated(costs):
    better = np.all(costs[:, None] <= costs, axis=2) & np.any(costs[:, None] < costs, axis=2)
    return better.any(axis=0)


def test_costs_from_three_numbers_per_axis_are_the_costs():
    # methods.md section 4, test (a).
    X, group = pelegrina()
    model = SPEA2FairPCA(4, max_iter=2).fit(X, sensitive_features=group)
    for axes, (error, gap) in zip(model.front_axes_, model.front_, strict=True):
        Z = X - X.mean(axis=0)
        values = np.linalg.eigh(Z.T @ Z / len(Z))[1][:, ::-1][:, axes]
        residual = ((Z - Z @ values @ values.T) ** 2).sum(axis=1)
        errors = [residual[group == label].mean() for label in ("high", "low")]
        assert error == pytest.approx(residual.mean(), abs=1e-10)
        assert gap == pytest.approx((errors[0] - errors[1]) ** 2, abs=1e-10)


@pytest.mark.parametrize("r", [1, 2, 3, 4])
def test_search_finds_points_of_the_true_front(small, r):
    # methods.md section 4, test (b): n <= 10, r <= 4.
    X, group = small
    true = SPEA2FairPCA(r, search="exact").fit(X, sensitive_features=group).front_
    found = SPEA2FairPCA(r).fit(X, sensitive_features=group).front_
    assert not dominated(true).any()
    for point in found:
        assert np.abs(true - point).sum(axis=1).min() < 1e-12


def test_integer_programs_give_the_listed_front(small, monkeypatch):
    X, group = small
    listed = SPEA2FairPCA(4, search="exact").fit(X, sensitive_features=group)
    monkeypatch.setattr(spea2, "_LIST_BELOW", 0)
    programmed = SPEA2FairPCA(4, search="exact").fit(X, sensitive_features=group)
    np.testing.assert_allclose(programmed.front_, listed.front_, atol=1e-12)
    assert programmed.n_iter_ == listed.n_iter_ == len(listed.front_)


def test_least_error_is_pca_and_nothing_is_dominated():
    # methods.md section 4, test (c).
    X, group = pelegrina()
    chosen = {
        name: SPEA2FairPCA(5, selection=name, max_iter=15).fit(X, sensitive_features=group)
        for name in ("error", "gap", "balanced", "weighted")
    }
    assert chosen["error"].axes_.tolist() == [0, 1, 2, 3, 4]
    front = chosen["error"].front_
    assert not dominated(front).any()
    gap = chosen["gap"].group_values_
    assert (gap[0] - gap[1]) ** 2 == pytest.approx(front[:, 1].min())
    for model in chosen.values():
        assert model.components_ @ model.components_.T == pytest.approx(np.eye(5), abs=1e-12)


def test_all_components_and_identical_costs():
    X = np.random.default_rng(0).normal(size=(40, 4))
    group = [0, 1] * 20
    assert SPEA2FairPCA().fit(X, sensitive_features=group).axes_.tolist() == [0, 1, 2, 3]
    same = np.vstack([X, X])
    model = SPEA2FairPCA(2).fit(same, sensitive_features=[0] * 40 + [1] * 40)
    assert np.isfinite(model.front_).all()
    assert model.front_[:, 1].max() < 1e-20


def test_efficient_keeps_one_of_equal_rows():
    costs = np.array([[1.0, 2.0], [1.0, 2.0], [2.0, 1.0], [2.0, 3.0], [0.5, 4.0]])
    assert costs[efficient(costs)].tolist() == [[0.5, 4.0], [1.0, 2.0], [2.0, 1.0]]


def test_axes_of_two_groups():
    rng = np.random.default_rng(2)
    root = rng.normal(size=(2, 9, 5))
    S = np.swapaxes(root, 1, 2) @ root
    axes = PCAAxes.of(S, np.array([0.3, 0.7]))
    assert np.all(np.diff(axes.gains) <= 0)
    np.testing.assert_allclose(axes.costs(np.arange(5)[None]), 0, atol=1e-13)
