"""What must not matter to a method: units, rows without weight, what a refused block held."""

import numpy as np
import pandas as pd
import pytest

from fairpca import compare, methods, metrics

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def table(seed=0, n=5):
    rng = np.random.default_rng(seed)
    rows = []
    for m in (60, 70):
        turn = np.linalg.qr(rng.normal(size=(n, n)))[0]
        spread = np.sort(rng.uniform(0.3, 3, n))[::-1]
        rows.append(rng.normal(size=(m, n)) * spread @ turn.T + rng.normal(size=n) * 0.7)
    return np.vstack(rows), np.repeat(["a", "b"], (60, 70))


@pytest.mark.parametrize("unit", [1e-60, 1e-3, 1e5])
@pytest.mark.parametrize(
    "model, name",
    [
        (methods.UnconstrainedFPCA(1), "group_values_"),
        (methods.ConstrainedFPCA(1), "group_values_"),
        (methods.CovarianceConstrainedPCA(2), "objective_"),
        (methods.ParetoFairPCA(2, max_iter=50), "total_error_"),
    ],
    ids=lambda part: type(part).__name__,
)
def test_the_unit_of_the_rows_changes_nothing_but_the_unit(model, name, unit):
    """Limits and tolerances without units made others of them in small units."""
    X, groups = table(6, 4)
    found, scaled = (
        getattr(type(model)(**model.get_params()).fit(rows, sensitive_features=groups), name)
        for rows in (X, unit * X)
    )
    np.testing.assert_allclose(scaled / unit**2, found, rtol=1e-3)


def test_nobody_fares_worse_than_the_worse_of_pca_in_any_unit():
    X, groups = table(6, 4)
    model = methods.ConstrainedFPCA(1).fit(X * 1e-4, sensitive_features=groups)
    pca = np.linalg.svd(X * 1e-4 - X.mean(axis=0) * 1e-4, full_matrices=False)[2][0]
    errors = metrics.group_errors([pca], X * 1e-4, sensitive_features=groups)
    assert model.group_values_.max() <= errors.max() * (1 + 1e-5)


class TestKernels:
    def rows(self):
        X = np.random.default_rng(0).normal(size=(60, 3))
        X[::2, 0] += 2
        return X, np.array(["a", "b"] * 30)

    def test_their_components_are_not_in_the_columns_of_the_rows(self):
        """A linear kernel has as many dimensions as there are columns, and was not told apart."""
        X, groups = table()
        model = methods.NullSpaceFairPCA(2, kernel="linear").fit(X, sensitive_features=groups)
        with pytest.raises(ValueError, match=r"with a kernel.*reducer.transform\(X\)"):
            metrics.group_errors(model, X, sensitive_features=groups)
        row = compare(methods.NullSpaceFairPCA(2, kernel="linear"), X, groups).rows[0]
        assert np.isnan(row.worst_loss)
        assert row.mean_gap == pytest.approx(0, abs=1e-9)

    def test_a_row_without_weight_does_not_choose_the_kernel(self):
        X, groups = self.rows()
        model = methods.NullSpaceFairPCA(2, kernel="rbf").fit(X, sensitive_features=groups)
        far = methods.NullSpaceFairPCA(2, kernel="rbf").fit(
            np.vstack([X, [[1e4, 0, 0]]]),
            sensitive_features=np.append(groups, "a"),
            sample_weight=np.append(np.ones(60), 0),
        )
        assert far.kernel_map_.gamma == pytest.approx(model.kernel_map_.gamma)

    def test_columns_in_another_order_are_refused(self):
        X, groups = self.rows()
        frame = pd.DataFrame(X, columns=list("xyz"))
        model = methods.NullSpaceFairPCA(2, kernel="rbf").fit(frame, sensitive_features=groups)
        assert model.transform(frame.astype(np.float32)).dtype == np.float32
        with pytest.raises(ValueError, match="feature names should match"):
            model.transform(frame[["y", "x", "z"]])


class TestDiscrepancy:
    def test_rows_without_weight_are_not_drawn(self):
        """Of 6,000 rows, two with weight, none was drawn: "no difference"."""
        rng = np.random.default_rng(0)
        X, groups, weight = rng.normal(size=(6000, 2)), np.array(["a", "b"] * 3000), np.zeros(6000)
        weight[:2] = 1
        found = metrics.mmd_squared(
            np.eye(2), X, sensitive_features=groups, sample_weight=weight, bandwidth=1.0
        )
        alone = metrics.mmd_squared(np.eye(2), X[:2], sensitive_features=groups[:2], bandwidth=1.0)
        assert found == pytest.approx(alone)
        assert found > 0.1

    def test_a_fit_with_most_rows_without_weight(self):
        rng = np.random.default_rng(1)
        X, groups = rng.normal(size=(3000, 3)), np.array(["a", "b"] * 1500)
        X[::2, 0] += 1
        weight = (np.arange(3000) >= 2800).astype(float)
        found = methods.MMDFairPCA(1, tau=0.05)
        found.fit(X, sensitive_features=groups, sample_weight=weight)
        alone = methods.MMDFairPCA(1, tau=0.05).fit(X[2800:], sensitive_features=groups[2800:])
        assert found.mmd_squared_ == pytest.approx(alone.mmd_squared_, rel=1e-6)

    def test_rows_far_from_zero(self):
        Z = np.random.default_rng(0).normal(size=(200, 2))
        groups = np.array(["a", "b"] * 100)
        Z[::2, 0] += 1
        here, there = (
            metrics.mmd_squared(np.eye(2), rows, sensitive_features=groups, bandwidth=1.0)
            for rows in (Z, Z + 1e9)
        )
        assert there == pytest.approx(here, rel=1e-6)

    def test_weights_count_in_the_bandwidth(self):
        rng = np.random.default_rng(0)
        X, groups = rng.normal(size=(40, 2)), np.array(["a", "b"] * 20)
        weight = rng.integers(0, 4, 40)
        weighted = metrics.mmd_squared(
            np.eye(2), X, sensitive_features=groups, sample_weight=weight
        )
        repeated = metrics.mmd_squared(
            np.eye(2), np.repeat(X, weight, axis=0), sensitive_features=np.repeat(groups, weight)
        )
        assert weighted == pytest.approx(repeated)


class TestStream:
    def test_one_row_of_each_group_teaches_nothing(self):
        """Its covariance is zero, and the directions became the first columns."""
        X, groups = table()
        model = methods.StreamingFairPCA(2, n_directions=2, learning_blocks=51)
        for _ in range(20):
            model.partial_fit(X, sensitive_features=groups)
        before = model._stream.directions
        model.partial_fit(X[[0, 60]], sensitive_features=groups[[0, 60]])
        np.testing.assert_array_equal(model._stream.directions, before)

    def test_a_refused_block_leaves_no_trace(self):
        X, groups = table()
        model, other = (methods.StreamingFairPCA(2, learning_blocks=1) for _ in range(2))
        for each in (model, other):
            each.partial_fit(X, sensitive_features=groups)
        with pytest.raises(ValueError, match="3 groups"):
            model.partial_fit(X[:3], sensitive_features=["a", "b", "typo"])
        for each in (model, other):
            each.partial_fit(X, sensitive_features=groups)
        np.testing.assert_array_equal(model.components_, other.components_)


def test_equal_means_share_a_place():
    found = compare([methods.NullSpaceFairPCA(2), methods.StreamingFairPCA(2)], *table(n=6))
    assert [row.place for row in found.rows] == [1, 1]
