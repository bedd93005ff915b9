"""scikit-learn's checks of methods that compare groups: its own calls never pass any labels."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils import estimator_checks

from fairpca import methods

# Few steps: here the number of steps is not the point.
QUICK = {
    "ARPGDA": {"max_iter": 50},
    "MMDFairPCA": {"tau": 0.9},
    "ParetoFairPCA": {"max_iter": 30},
    "SPEA2FairPCA": {"max_iter": 3},
}
every_method = pytest.mark.parametrize("name", sorted(methods.__all__))
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def by_position(X):
    return np.arange(len(X)) % 2


def by_value(X):
    """Labels that a repeated row keeps."""
    return np.where(np.asarray(X)[:, 0] > 0.5, "a", "b")


def labelled(name, labels, **params):
    """Return an estimator that labels the rows by itself."""

    class Labelled(getattr(methods, name)):
        def fit(self, X, y=None, *, sensitive_features=None, sample_weight=None):
            return super().fit(X, y, sensitive_features=labels(X), sample_weight=sample_weight)

    return Labelled(**QUICK.get(name, {}), **params)


@every_method
def test_iterations_are_counted_from_one(name):
    estimator_checks.check_transformer_n_iter(name, labelled(name, by_position))


@every_method
@pytest.mark.parametrize("n_components", [None, 2])
def test_at_least_one_iteration(name, n_components):
    X = np.random.default_rng(0).normal(size=(40, 4))
    model = labelled(name, by_position, n_components=n_components).fit(X)
    assert model.n_iter_ >= 1


@every_method
@pytest.mark.parametrize("n_components", [None, 1])
def test_one_feature_is_enough_or_is_named(name, n_components):
    model = labelled(name, by_position, n_components=n_components)
    estimator_checks.check_fit2d_1feature(name, model)


def test_a_stream_of_one_feature_says_so():
    X = np.random.default_rng(0).normal(size=(10, 1))
    with pytest.raises(ValueError, match=r"1 feature\(s\), too few for StreamingFairPCA"):
        methods.StreamingFairPCA().partial_fit(X, sensitive_features=by_position(X))


@every_method
def test_weights_are_repeated_rows(name):
    model = labelled(name, by_value)
    estimator_checks.check_sample_weight_equivalence_on_dense_data(name, model)


@pytest.mark.parametrize("order", ["mean", "loss"])
def test_weights_are_repeated_rows_where_some_directions_have_no_variance(order):
    rng = np.random.default_rng(4)
    X, weight = rng.normal(size=(12, 9)) @ rng.normal(size=(9, 20)), rng.integers(1, 4, 12)
    model = methods.JointDiagonalPCA(14, order=order)
    group = np.arange(12) % 2
    weighted = clone(model).fit(X, sensitive_features=group, sample_weight=weight)
    repeated = clone(model).fit(X.repeat(weight, axis=0), sensitive_features=group.repeat(weight))
    np.testing.assert_allclose(weighted.components_, repeated.components_, atol=1e-7)
    assert weighted.stop_reason_ == repeated.stop_reason_ == "rotations settled"
    np.testing.assert_allclose(weighted.basis_ @ weighted.basis_.T, np.eye(20), atol=1e-12)
