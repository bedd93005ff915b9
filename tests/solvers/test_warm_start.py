"""partial_fit solves again from the weights it had: the same answer, no more decompositions."""

import numpy as np
import pytest

from fairpca import FairPCA


def stream(k, n=40, m=2400, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.choice(list("abcd")[:k], size=m)
    X = rng.normal(size=(m, n)) / np.arange(1, n + 1) ** 0.7
    for label in "abcd"[:k]:
        turn = np.linalg.qr(3 * np.eye(n) + 0.3 * rng.normal(size=(n, n)))[0]
        X[labels == label] = X[labels == label] @ turn
    return X, labels


@pytest.mark.parametrize("k", [2, 4])
@pytest.mark.parametrize("r", [2, 10])
def test_the_same_answer_with_no_more_decompositions(k, r):
    X, labels = stream(k)
    warm, counts = FairPCA(r), []
    for part in np.split(np.arange(len(X)), range(1500, len(X), 100)):
        warm.partial_fit(X[part], sensitive_features=labels[part])
        cold = FairPCA(r).fit_moments(warm._moments)
        assert warm.certificate_.optimal
        assert warm.certificate_.value == pytest.approx(cold.certificate_.value, rel=1e-9)
        np.testing.assert_allclose(
            warm.components_.T @ warm.components_, cold.components_.T @ cold.components_, atol=1e-4
        )
        counts.append((warm.n_iter_, cold.n_iter_))
    ours, theirs = np.sum(counts, axis=0)
    assert ours <= theirs


def test_new_groups_and_a_new_fit_start_afresh():
    X, labels = stream(4)
    model = FairPCA(3).partial_fit(X[:900], sensitive_features=np.repeat(["a", "b", "c"], 300))
    assert len(model.group_weights_) == 3
    model.partial_fit(X, sensitive_features=labels)
    want = FairPCA(3).fit_moments(model._moments)
    np.testing.assert_array_equal(model.components_, want.components_)
    model.fit(X, sensitive_features=labels)
    want = FairPCA(3).fit(X, sensitive_features=labels)
    np.testing.assert_array_equal(model.components_, want.components_)
