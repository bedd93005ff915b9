"""What losses and errors are about: the mean of all rows, or each group's own."""

import numpy as np
import pytest
import scipy.sparse
from sklearn.decomposition import PCA

from fairpca import FairPCA, GroupMoments, compare
from fairpca.metrics import group_losses

from data_dir import reference
from tables import COMMON


@pytest.mark.parametrize("name", ["iris", "wine", "cancer"])
def test_reference_about_the_common_mean(name):
    X, labels = COMMON[name]()
    for r, expected in reference("common_mean.json")[name].items():
        model = FairPCA(int(r)).fit(X, sensitive_features=labels)
        np.testing.assert_allclose(model.group_losses_, expected["losses"], rtol=1e-9)
        lower = expected["lower"] if "lower" in expected else expected["phi_star"]
        assert model.certificate_.lower_bound == pytest.approx(lower, rel=1e-9)
        assert model.certificate_.optimal
        if "t_star" in expected:
            # The weight of the first group.
            assert model.group_weights_[0] == pytest.approx(expected["t_star"], abs=1e-6)


def dense(m, n):
    """Return rows of three groups, each with a mean and a spread of its own."""
    rng = np.random.default_rng(m + n)
    labels = np.repeat(["a", "b", "c"], [m // 2, m // 3, m - m // 2 - m // 3])
    means, scales = rng.normal(size=(3, n)), rng.uniform(0.3, 2, size=(3, n))
    group = np.searchsorted(["a", "b", "c"], labels)
    return rng.normal(size=(m, n)) * scales[group] + means[group], labels


def sparse(m, n):
    """Return sparse rows, few enough of them filled to be known by products only."""
    X, labels = dense(m, n)
    filled = np.random.default_rng(0).random(size=X.shape) < 0.05
    return scipy.sparse.csr_array(X * filled), labels


ROWS = {
    "tall": lambda: dense(150, 8),
    "wide": lambda: dense(30, 400),
    "sparse": lambda: sparse(60, 40),
    "wide and sparse": lambda: sparse(90, 900),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("center", ["global", "group"])
@pytest.mark.parametrize("kind", ROWS)
def test_errors_are_those_of_the_rows_rebuilt(kind, center, weighted):
    X, labels = ROWS[kind]()
    rows = X.toarray() if scipy.sparse.issparse(X) else X
    weight = np.random.default_rng(1).uniform(0.5, 3, size=len(rows)) if weighted else None
    model = FairPCA(3, center=center).fit(X, sensitive_features=labels, sample_weight=weight)
    check_errors(model, rows, labels, weight)
    if kind == "tall":
        moments = GroupMoments.from_array(X, labels, sample_weight=weight)
        check_errors(FairPCA(3, center=center).fit_moments(moments), rows, labels, weight)


def check_errors(model, X, labels, weight=None, rtol=1e-9):
    """Assert that `group_errors_` are mean squared distances of rows and what is rebuilt."""
    left = np.sum((X - model.inverse_transform(model.transform(X))) ** 2, axis=1)
    weight = np.ones(len(X)) if weight is None else weight
    picks = [labels == label for label in model.groups_]
    expected = [np.average(left[pick], weights=weight[pick]) for pick in picks]
    np.testing.assert_allclose(model.group_errors_, expected, rtol=rtol)


@pytest.mark.parametrize("center", ["global", "group"])
def test_compare_measures_losses_about_the_mean_asked_for(center):
    X, labels = COMMON["wine"]()
    found = compare(X, labels, [PCA(2), FairPCA(2, center=center)], center=center)
    assert found.center == found.to_dict()["center"] == center
    for name, model in (("PCA", PCA(2)), ("FairPCA", FairPCA(2, center=center))):
        # PCA takes no labels.
        fitted = model.fit(X) if name == "PCA" else model.fit(X, sensitive_features=labels)
        expected = group_losses(fitted, X, sensitive_features=labels, center=center)
        assert found[name].found.loss == pytest.approx(expected)
        left = np.sum((X - fitted.inverse_transform(fitted.transform(X))) ** 2, axis=1)
        expected = [left[labels == label].mean() for label in found.groups]
        assert found[name].errors == pytest.approx(expected)
    assert found["FairPCA"].gap < 1e-8
    with pytest.raises(ValueError, match="center='none'"):
        compare(X, labels, [PCA(2)], center="none")
