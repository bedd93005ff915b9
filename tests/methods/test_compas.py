"""The published means over the ten COMPAS splits, of methods 7, 8 and 9 and of PCA."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from fairpca.methods import CovarianceConstrainedPCA, MMDFairPCA, NullSpaceFairPCA
from fairpca.metrics import median_bandwidth, mmd_squared

from data_dir import data_path

# Standard deviation over the splits of PCA's explained variance, methods.md section 8: 5.17. The
# mean of ten has a third of it.
SPREAD = 5.17 / np.sqrt(10)


@pytest.fixture(scope="module")
def splits():
    with np.load(data_path("compas_splits.npz")) as file:
        return [(file[f"train_{i}"], file[f"test_{i}"]) for i in range(10)]


def scores(splits, make, r):
    """Return explained variance (per cent) and MMD^2 on the test rows, one split a row."""
    found = []
    for train, test in splits:
        X, group, Y, group_test = train[:, :-2], train[:, -1], test[:, :-2], test[:, -1]
        model = make(X, group)
        bandwidth = median_bandwidth(PCA(r).fit_transform(X))
        C, U = np.cov(Y.T), model.components_
        found.append(
            (
                100 * np.trace(U @ C @ U.T) / np.trace(C),
                mmd_squared(model, Y, sensitive_features=group_test, bandwidth=bandwidth),
            )
        )
    return np.array(found)


def test_pca(splits):
    # methods.md section 8, test (b) [R]: 39.28 (sd 5.17), MMD^2 0.0916.
    found = scores(splits, lambda X, group: PCA(2).fit(X), 2)
    assert found.mean(axis=0) == pytest.approx([39.28, 0.0916], abs=5e-3)
    assert found[:, 1].mean() == pytest.approx(0.0916, abs=1e-4)
    assert found[:, 0].std(ddof=1) == pytest.approx(5.17, abs=5e-3)


@pytest.mark.parametrize(("r", "variance", "mmd"), [(2, 35.56, 0.0187), (10, 87.4375, None)])
def test_kleindessner(splits, r, variance, mmd):
    # methods.md section 9, test (c): 35.56 / 87.44, MMD^2 0.0187 at r=2.
    found = scores(
        splits, lambda X, group: NullSpaceFairPCA(r).fit(X, sensitive_features=group), r
    )
    assert found[:, 0].mean() == pytest.approx(variance, abs=5e-3)
    if mmd is not None:
        assert found[:, 1].mean() == pytest.approx(mmd, abs=5e-5)


def test_olfat_with_all_directions_left_is_the_closed_form(splits):
    # methods.md section 7, test (c), section 9 note: r = n - 1 leaves one answer, 87.44 [P].
    found = scores(
        splits,
        lambda X, group: CovarianceConstrainedPCA(10, mu=0.01 * np.linalg.norm(X)).fit(
            X, sensitive_features=group
        ),
        10,
    )
    assert found[:, 0].mean() == pytest.approx(87.44, abs=5e-3)


def test_olfat(splits):
    # methods.md section 7, test (c) [P]: 35.06 with MMD^2 0.0118, delta=0, mu=0.01 in the
    # authors' unit. Rounding a fractional projector is unstable, so only the spread is asserted.
    found = scores(
        splits,
        lambda X, group: CovarianceConstrainedPCA(2, mu=0.01 * np.linalg.norm(X)).fit(
            X, sensitive_features=group
        ),
        2,
    )
    assert found[:, 0].mean() == pytest.approx(35.06, abs=SPREAD)
    assert found[:, 1].mean() == pytest.approx(0.0118, abs=0.005)


@pytest.mark.parametrize(("start", "spread"), [("mean", SPREAD), ("random", 2.5)])
def test_mbf(splits, start, spread):
    # methods.md section 8, test (b) [P]: tau = 1e-3 gives 33.95 with MMD^2 0.0053. The authors
    # start at random; ours then ends at 32.5, and at 32.0, 32.0 and 33.3 with three other seeds.
    found = scores(
        splits, lambda X, group: MMDFairPCA(2, start=start).fit(X, sensitive_features=group), 2
    )
    assert found[:, 0].mean() == pytest.approx(33.95, abs=spread)
    assert found[:, 1].mean() == pytest.approx(0.0053, abs=0.001)
