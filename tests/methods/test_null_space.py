"""NullSpaceFairPCA (Kleindessner et al. 2023) and StreamingFairPCA (Lee et al. 2023)."""

import numpy as np
import pytest
import scipy.linalg
from credit_variants import by_education, olfat
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import rbf_kernel

from fairpca._arrays import subspace_distance
from fairpca.methods import NullSpaceFairPCA, StreamingFairPCA
from fairpca.metrics import covariance_gap, mean_gap


def share(model):
    return float(model.explained_variance_ratio_.sum())


def test_credit_with_equal_means():
    # methods.md section 9, tests (a) and (b).
    X, group = olfat()
    model = NullSpaceFairPCA(5).fit(X, sensitive_features=group)
    assert share(model) == pytest.approx(0.613273, abs=1e-6)
    z = (group == "low") - np.mean(group == "low")
    assert np.linalg.norm(z @ X @ model.components_.T) <= 1e-10 * len(X)


@pytest.mark.parametrize(
    ("kept", "variance", "gap"), [(18, 0.315842, 0.3877), (21, 0.613273, 1.5958)]
)
def test_credit_with_similar_covariances(kept, variance, gap):
    # methods.md section 9, test (b): l = 18, and l = 21, which is mean-only.
    X, group = olfat()
    model = NullSpaceFairPCA(5, n_kept_directions=kept).fit(X, sensitive_features=group)
    assert share(model) == pytest.approx(variance, abs=1e-6)
    assert covariance_gap(model, X, sensitive_features=group) == pytest.approx(gap, abs=5e-5)


@pytest.mark.parametrize(
    ("m", "variance", "gap"),
    [(0, 0.613273, 1.5958), (2, 0.318170, 0.4679), (5, 0.307068, 0.2447), (10, 0.125660, 0.0675)],
)
def test_credit_with_directions_removed(m, variance, gap):
    # methods.md section 10, tests (b) and (d).
    X, group = olfat()
    model = StreamingFairPCA(5, n_directions=m).fit(X, sensitive_features=group)
    assert share(model) == pytest.approx(variance, abs=1e-6)
    assert covariance_gap(model, X, sensitive_features=group) == pytest.approx(gap, abs=5e-5)
    assert np.abs(model.components_ @ model.removed_).max() <= 1e-10
    assert model.removed_.shape == (22, m + 1)


@pytest.mark.parametrize("k", [3, 4])
def test_any_number_of_groups(k):
    X, group = by_education(k)
    model = NullSpaceFairPCA(5).fit(X, sensitive_features=group)
    assert mean_gap(model, X, sensitive_features=group) < 1e-10
    assert model.n_allowed_ == 21 - k + 1
    # Best of all such: adding any allowed direction in exchange loses variance.
    shifts = np.array([X[group == g].mean(axis=0) for g in np.unique(group)])
    allowed = scipy.linalg.null_space(shifts - X.mean(axis=0), rcond=1e-10)
    best = np.linalg.eigvalsh(allowed.T @ np.cov(X.T) @ allowed)[-5:].sum()
    assert model.explained_variance_.sum() == pytest.approx(best)
    alike = NullSpaceFairPCA(5, n_kept_directions=8).fit(X, sensitive_features=group)
    assert covariance_gap(alike, X, sensitive_features=group) < covariance_gap(
        model, X, sensitive_features=group
    )


def test_rank_is_limited_by_the_means():
    X, group = by_education(4)
    with pytest.raises(ValueError, match="n_components=19 must be between 1 and 18"):
        NullSpaceFairPCA(19).fit(X, sensitive_features=group)
    assert NullSpaceFairPCA().fit(X, sensitive_features=group).n_components_ == 18
    with pytest.raises(ValueError, match="n_components=12 must be between 1 and 11"):
        StreamingFairPCA(12, n_directions=10).fit(*(olfat()[0],), sensitive_features=olfat()[1])


def test_kernel_form_solves_the_authors_problem():
    # methods.md section 9, kernel variant: R^T K K R v = lambda R^T K R v on the null space of
    # Z^T K, K doubly centred.
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    group = (X[:, 0] + 0.5 * rng.normal(size=60) > 0).astype(int)
    model = NullSpaceFairPCA(3, kernel="rbf", gamma=0.3).fit(X, sensitive_features=group)
    centring = np.eye(60) - 1 / 60
    K = centring @ rbf_kernel(X, gamma=0.3) @ centring
    z = group - group.mean()
    values, vectors = np.linalg.eigh(K)
    root = vectors[:, values > 1e-10] * np.sqrt(values[values > 1e-10])
    free = scipy.linalg.null_space((z @ root)[None])
    best = np.linalg.eigvalsh(free.T @ root.T @ root @ free)[::-1][:3]
    Z = model.transform(X)
    np.testing.assert_allclose(np.sum(Z**2, axis=0), best, rtol=1e-8)
    assert np.abs(z @ Z).max() < 1e-8
    assert np.isnan(model.transform(rng.normal(size=(5, 3)))).sum() == 0
    with pytest.raises(ValueError, match="kernel='rbf' has no inverse"):
        model.inverse_transform(Z)


def test_linear_kernel_is_the_linear_method():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(50, 4)) @ rng.normal(size=(4, 4))
    group = (X[:, 0] > 0).astype(int)
    linear, kernel = (
        NullSpaceFairPCA(2, kernel=k).fit(X, sensitive_features=group) for k in (None, "linear")
    )
    np.testing.assert_allclose(np.abs(linear.transform(X)), np.abs(kernel.transform(X)), atol=1e-9)


def test_equal_means_remove_nothing():
    X = np.random.default_rng(0).normal(size=(40, 4))
    model = NullSpaceFairPCA(2).fit(np.vstack([X, X]), sensitive_features=[0] * 40 + [1] * 40)
    assert model.n_allowed_ == 4
    assert subspace_distance(model.components_.T, PCA(2).fit(X).components_.T) < 1e-10


@pytest.fixture(scope="module")
def stream():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 600)
    X = rng.normal(size=(600, 8)) * [5, 4, 3, 2.5, 1, 1, 1, 1]
    X[group == 1] = X[group == 1] * [1, 1, 1, 1, 4, 1, 1, 0.2] + [0, 1, 0, 0, 0, 2, 0, 0]
    return X + 3, group


@pytest.mark.parametrize("m", [0, 1])
def test_stream_of_full_batches_ends_at_the_offline_answer(stream, m):
    # methods.md section 10, test (c): sin theta <= 1e-6.
    X, group = stream
    offline = StreamingFairPCA(2, n_directions=m).fit(X, sensitive_features=group)
    online = StreamingFairPCA(2, n_directions=m, learning_blocks=100)
    for _ in range(200):
        online.partial_fit(X, sensitive_features=group)
    assert subspace_distance(offline.components_.T, online.components_.T) <= 1e-6
    np.testing.assert_allclose(online.mean_, offline.mean_)
    assert np.abs(online.components_ @ online.removed_).max() <= 1e-10


def test_stream_of_small_blocks_stays_orthonormal_and_outside(stream):
    X, group = stream
    model = StreamingFairPCA(3, n_directions=1, learning_blocks=30)
    for block in np.array_split(np.random.default_rng(1).permutation(600), 60):
        model.partial_fit(X[block], sensitive_features=group[block])
    # Single rows, then a block of one group only.
    for row in range(3):
        model.partial_fit(X[row : row + 1], sensitive_features=group[row : row + 1])
    model.partial_fit(X[group == 0], sensitive_features=group[group == 0])
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(3), atol=1e-12)
    assert np.abs(model.components_ @ model.removed_).max() <= 1e-10
    assert model.transform(X).shape == (600, 3)
    assert model.group_counts_.sum() == 600 + 3 + np.sum(group == 0)


def test_stream_weights_are_repeated_rows(stream):
    X, group = stream
    weight = np.random.default_rng(2).integers(1, 4, len(X))
    weighted, repeated = StreamingFairPCA(2, n_directions=1), StreamingFairPCA(2, n_directions=1)
    weighted.set_params(learning_blocks=5), repeated.set_params(learning_blocks=5)
    for _ in range(8):
        weighted.partial_fit(X, sensitive_features=group, sample_weight=weight)
        repeated.partial_fit(np.repeat(X, weight, 0), sensitive_features=np.repeat(group, weight))
    np.testing.assert_allclose(weighted.components_, repeated.components_, atol=1e-9)


@pytest.mark.parametrize("change", [{"n_components": 3}, {"n_directions": 2}])
def test_a_stream_keeps_its_numbers_of_columns(change):
    """Another number between two blocks was ignored without a word."""
    rng = np.random.default_rng(0)
    X, group = rng.normal(size=(60, 6)), np.arange(60) % 2
    model = StreamingFairPCA(2, n_directions=1, learning_blocks=1)
    model.partial_fit(X, sensitive_features=group).set_params(**change)
    with pytest.raises(ValueError, match="set them back, or begin the stream anew"):
        model.partial_fit(X, sensitive_features=group)
    model.set_params(n_components=2, n_directions=1).partial_fit(X, sensitive_features=group)
    assert model.components_.shape == (2, 6)
    again = clone(model).set_params(**change).partial_fit(X, sensitive_features=group)
    again.partial_fit(X, sensitive_features=group)
    assert len(again.components_) == again.n_components


def test_stream_refuses_a_third_group(stream):
    X, group = stream
    model = StreamingFairPCA(1).partial_fit(X, sensitive_features=group)
    with pytest.raises(ValueError, match="has 3 groups and StreamingFairPCA is written for two"):
        model.partial_fit(X[:4], sensitive_features=[0, 1, 2, 0])
    with pytest.raises(ValueError, match="needs sensitive_features"):
        model.partial_fit(X)


def test_a_kernel_has_as_many_directions_as_rows_and_no_pca_of_scikit_learn():
    X, group = np.random.default_rng(0).normal(size=(90, 4)), np.arange(90) % 2
    everything = NullSpaceFairPCA(kernel="rbf").fit(X, sensitive_features=group)
    some = NullSpaceFairPCA(7, kernel="rbf").fit(X, sensitive_features=group)
    leading = np.abs(everything.transform(X)[:, :7])
    np.testing.assert_allclose(np.abs(some.transform(X)), leading, atol=1e-8)
    with pytest.raises(ValueError, match="kernel='rbf' maps rows"):
        some.to_sklearn()
    with pytest.raises(ValueError, match="n_components=91 must be between 1"):
        NullSpaceFairPCA(91, kernel="rbf").fit(X, sensitive_features=group)
    some.set_params(kernel=None, n_components=2).fit(X, sensitive_features=group)
    np.testing.assert_allclose(some.to_sklearn().transform(X), some.transform(X), atol=1e-12)


def test_a_stream_knows_nothing_of_the_fit_before():
    rng = np.random.default_rng(0)
    X, Y = rng.normal(size=(80, 4)) * [3, 2, 1, 1], rng.normal(size=(80, 3)) * [1, 2, 30]
    group = ["a"] * 40 + ["b"] * 40
    stream = StreamingFairPCA(1, learning_blocks=1).fit(X, sensitive_features=group)
    stream.partial_fit(Y, sensitive_features=group)
    with pytest.raises(NotFittedError, match="learning_blocks=1"):
        stream.transform(Y)
    stream.partial_fit(Y, sensitive_features=group)
    # A block without weight counts for nothing.
    known = stream.components_
    stream.partial_fit(Y, sensitive_features=group, sample_weight=np.zeros(80))
    np.testing.assert_array_equal(stream.components_, known)
    assert not hasattr(stream, "explained_variance_")
    with pytest.raises(NotFittedError, match="fit all rows at once"):
        stream.to_sklearn()
    with pytest.raises(ValueError):
        stream.fit(X, sensitive_features=group[:3])
    stream.partial_fit(Y, sensitive_features=group)
    np.testing.assert_allclose(stream.mean_, Y.mean(axis=0), rtol=1e-12)
