"""Methods that hide the group; marks as in `test_worst_group`."""

import numpy as np
import pytest
import scipy.linalg
from credit_variants import olfat
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning

from fairpca.methods import (
    CovarianceConstrainedPCA,
    MMDFairPCA,
    NullSpaceFairPCA,
    StreamingFairPCA,
)
from fairpca.metrics import covariance_gap, median_bandwidth, mmd_squared

from data_dir import data_path
from subspaces import subspace_distance
from tables import credit_codes, education


def share(model):
    return float(model.explained_variance_ratio_.sum())


@pytest.mark.parametrize(
    ("model", "variance", "gap"),
    [
        # Sections 9 (a), (b) and 10 (b), (d) [C].
        (NullSpaceFairPCA(5), 0.613273, 1.5958),
        (NullSpaceFairPCA(5, n_kept_directions=18), 0.315842, 0.3877),
        (NullSpaceFairPCA(5, n_kept_directions=21), 0.613273, 1.5958),
        (StreamingFairPCA(5), 0.613273, 1.5958),
        (StreamingFairPCA(5, n_directions=2), 0.318170, 0.4679),
        (StreamingFairPCA(5, n_directions=10), 0.125660, 0.0675),
        # Section 7 (a).
        (CovarianceConstrainedPCA(5, mu=0), 0.613273, 1.5958),
    ],
)
def test_credit(model, variance, gap):
    X, group = olfat()
    model.fit(X, sensitive_features=group)
    assert share(model) == pytest.approx(variance, abs=1e-6)
    assert covariance_gap(model, X, sensitive_features=group) == pytest.approx(gap, abs=5e-5)
    z = (group == "low") - np.mean(group == "low")
    assert np.linalg.norm(z @ X @ model.components_.T) <= 1e-9 * len(X)


@pytest.mark.parametrize("k", [3, 4])
def test_null_space_of_any_number_of_groups(k):
    X, group = credit_codes()[0], education(k)
    model = NullSpaceFairPCA(5).fit(X, sensitive_features=group)
    assert model.mean_gap_ == pytest.approx(0, abs=1e-10)
    assert model.n_allowed_ == 21 - k + 1
    shifts = np.array([X[group == g].mean(axis=0) for g in np.unique(group)])
    allowed = scipy.linalg.null_space(shifts - X.mean(axis=0), rcond=1e-10)
    best = np.linalg.eigvalsh(allowed.T @ np.cov(X.T) @ allowed)[-5:].sum()
    assert model.explained_variance_.sum() == pytest.approx(best)
    with pytest.raises(ValueError, match="n_components=21 is too many for NullSpaceFairPCA"):
        NullSpaceFairPCA(21).fit(X, sensitive_features=group)


@pytest.fixture(scope="module")
def stream():
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 600)
    X = rng.normal(size=(600, 8)) * [5, 4, 3, 2.5, 1, 1, 1, 1]
    X[group == 1] = X[group == 1] * [1, 1, 1, 1, 4, 1, 1, 0.2] + [0, 1, 0, 0, 0, 2, 0, 0]
    return X + 3, group


@pytest.mark.parametrize("m", [0, 1])
def test_stream_of_full_batches_ends_at_the_offline_answer(stream, m):
    # Section 10 (c): sin theta <= 1e-6. Weights are repeated rows.
    X, group = stream
    weight = np.random.default_rng(2).integers(0, 4, len(X))
    offline = StreamingFairPCA(2, n_directions=m)
    offline.fit(X, sensitive_features=group, sample_weight=weight)
    online = StreamingFairPCA(2, n_directions=m, learning_blocks=100)
    for _ in range(200):
        online.partial_fit(X, sensitive_features=group, sample_weight=weight)
    assert subspace_distance(offline.components_.T, online.components_.T) <= 1e-6
    np.testing.assert_allclose(online.mean_, offline.mean_)
    assert np.abs(online.components_ @ online.removed_).max() <= 1e-10


def test_stream_of_small_blocks(stream):
    X, group = stream
    model = StreamingFairPCA(3, n_directions=1, learning_blocks=30)
    for block in np.array_split(np.random.default_rng(1).permutation(600), 60):
        model.partial_fit(X[block], sensitive_features=group[block])
    known = model.components_
    # Rows without weight change nothing, and a third group is refused.
    model.partial_fit(X, sensitive_features=group, sample_weight=np.zeros(600))
    with pytest.raises(ValueError, match=r"has 3 group\(s\) and StreamingFairPCA is written"):
        model.partial_fit(X[:3], sensitive_features=[0, 1, 2])
    np.testing.assert_array_equal(model.components_, known)
    assert np.abs(known @ model.removed_).max() <= 1e-10
    assert model.group_counts_.sum() == 600


def two_clusters(m):
    """Lee et al., synthetic 1: equal means and covariances, different distributions."""
    rng = np.random.default_rng(2)
    first = np.sqrt(0.1) * rng.normal(size=(m, 3)) + np.repeat([-1, 1], m // 2)[:, None]
    second = rng.multivariate_normal(np.zeros(3), 0.1 * np.eye(3) + 1, size=m)
    return np.vstack([first, second]), np.repeat([0, 1], m)


def test_mmd_is_that_of_the_definition():
    X, group = two_clusters(60)
    model = MMDFairPCA(2, tau=0.05).fit(X, sensitive_features=group)
    Z = model.transform(X)
    K = np.exp(-((Z[:, None] - Z) ** 2).sum(axis=2) / (2 * model.bandwidth_**2))
    signed = np.where(group == 0, 1.0, -1.0) / 60
    assert model.mmd_squared_ == pytest.approx(signed @ K @ signed, abs=1e-12)
    assert model.mmd_squared_ <= 0.05
    with pytest.warns(ConvergenceWarning, match="above tau"):
        MMDFairPCA(3, tau=1e-6).fit(X, sensitive_features=group)


# Section 8 (b) [R], 9 (c) and 7 (c) [P]: means over the ten COMPAS splits of the share of variance
# (per cent) and MMD^2 on test rows. Section 8: 5.17 is the standard deviation over splits; where
# only that is known to agree, a third of it is asserted, as of a mean of ten.
COMPAS = [
    (lambda X, group: PCA(2).fit(X), 39.28, 5e-3, 0.0916, 1e-4),
    (lambda X, group: NullSpaceFairPCA(2).fit(X, sensitive_features=group), 35.56, 5e-3, 0.0187,
     5e-5),
    (lambda X, group: CovarianceConstrainedPCA(2, mu=0.01 * np.linalg.norm(X)).fit(
        X, sensitive_features=group), 35.06, 1.7, 0.0118, 5e-3),
    (lambda X, group: MMDFairPCA(2).fit(X, sensitive_features=group), 33.95, 1.7, 0.0053, 1e-3),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("make", "variance", "exact", "mmd", "near"), COMPAS)
def test_published_means_over_the_compas_splits(make, variance, exact, mmd, near):
    found = []
    with np.load(data_path("compas_splits.npz")) as file:
        splits = [(file[f"train_{i}"], file[f"test_{i}"]) for i in range(10)]
    for train, test in splits:
        model = make(train[:, :-2], train[:, -1])
        Y, C, U = test[:, :-2], np.cov(test[:, :-2].T), model.components_
        width = median_bandwidth(PCA(len(U)).fit_transform(train[:, :-2]))
        gap = mmd_squared(model, Y, sensitive_features=test[:, -1], bandwidth=width)
        found.append((100 * np.trace(U @ C @ U.T) / np.trace(C), gap))
    means = np.mean(found, axis=0)
    assert means[0] == pytest.approx(variance, abs=exact)
    assert means[1] == pytest.approx(mmd, abs=near)
