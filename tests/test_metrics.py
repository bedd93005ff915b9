"""Numbers of any reducer: against plain NumPy, on rows in every form they come in."""

from functools import partial

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA, FactorAnalysis
from sklearn.metrics.pairwise import rbf_kernel

from fairpca import FairPCA, GroupMoments, metrics
from fairpca.metrics import findings, group_errors, group_losses, group_shares, group_variances


def table(seed=0, m=90, n=5, k=3):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, k, m)
    return rng.normal(size=(m, n)) * np.linspace(3, 1, n) + labels[:, None], labels


def reference(model, X, labels, weight=None, center="global"):
    """Errors, losses and variances of every group by projecting its rows one group at a time."""
    weight = np.ones(len(X)) if weight is None else weight
    found = []
    for label in np.unique(labels):
        rows, w = X[labels == label], weight[labels == label]
        about = model.mean_ if center == "global" else np.average(rows, axis=0, weights=w)
        rows = rows - about
        basis = np.linalg.qr(model.components_.T)[0]
        matrix = (rows * w[:, None]).T @ rows / w.sum()
        best = np.linalg.eigvalsh(matrix)[::-1][: basis.shape[1]].sum()
        kept = np.trace(basis.T @ matrix @ basis)
        found.append((np.trace(matrix) - kept, best - kept, np.trace(matrix)))
    return np.array(found).T


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1000), st.sampled_from(["global", "group"]), st.booleans(), st.booleans())
def test_findings_are_those_of_each_group_alone(seed, center, weighted, new):
    X, labels = table(seed)
    weight = np.random.default_rng(seed).uniform(0.2, 3, len(X)) if weighted else None
    model = PCA(2).fit(X[:40] if new else X)
    how = {"sensitive_features": labels, "sample_weight": weight, "center": center}
    found = findings(model, X, **how)
    error, loss, variance = reference(model, X, labels, weight, center)
    np.testing.assert_allclose(found.error, error, atol=1e-9)
    np.testing.assert_allclose(found.loss, loss, atol=1e-9)
    np.testing.assert_allclose(found.variance, variance)
    np.testing.assert_allclose(found.share, 1 - error / variance, atol=1e-9)
    np.testing.assert_allclose(found.own, error - loss, atol=1e-9)
    errors = np.sum((X - model.inverse_transform(model.transform(X))) ** 2, axis=1)
    assert found.total_error == pytest.approx(np.average(errors, weights=weight))
    assert found.worst == np.argmax(loss)
    assert found.gap == pytest.approx((loss.max() - loss.min()) / loss.max())
    for name, number in (("error", group_errors), ("loss", group_losses), ("share", group_shares)):
        np.testing.assert_array_equal(number(model, X, **how), getattr(found, name))
    kept = group_variances(model, X, **how)
    np.testing.assert_allclose(kept + found.error, found.variance)


def test_every_form_of_rows_has_the_same_numbers():
    X, labels = table()
    model = PCA(2).fit(X)
    expected = findings(model, X, sensitive_features=labels)
    forms = {
        "frame": (pd.DataFrame(X), pd.Series(labels)),
        "sparse": (scipy.sparse.csr_array(X), labels),
        "float32": (X.astype(np.float32), labels.tolist()),
        "two columns": (X, {"a": labels > 0, "b": labels}),
    }
    for rows, groups in forms.values():
        found = findings(model, rows, sensitive_features=groups)
        np.testing.assert_allclose(found.loss, expected.loss, rtol=1e-4)
        np.testing.assert_allclose(found.error, expected.error, rtol=1e-4)
    moments = findings(model, GroupMoments.from_array(X, labels))
    np.testing.assert_allclose(moments.loss, expected.loss)
    frame = expected.to_frame()
    assert frame["group"].tolist() == [0, 1, 2]
    assert frame["rows"].sum() == len(X)


@pytest.mark.parametrize("shape", [(30, 600), (60, 2000)])
@pytest.mark.parametrize("sparse", [False, True])
def test_wide_and_sparse_rows_are_measured_without_their_matrices(shape, sparse):
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=shape) * (rng.random(shape) < 0.2), np.arange(shape[0]) % 2
    model = PCA(2).fit(X)
    rows = scipy.sparse.csr_array(X) if sparse else X
    found = findings(model, rows, sensitive_features=labels)
    np.testing.assert_allclose(found.loss, reference(model, X, labels)[1], rtol=1e-6)


def test_what_a_reducer_keeps_is_its_span():
    X, labels = table()
    mixing = np.array([[2.0, 1.0], [0.0, 3.0]])
    rows = PCA(2).fit(X).components_
    one, other = (
        group_losses(part, X, sensitive_features=labels) for part in (rows, mixing @ rows)
    )
    np.testing.assert_allclose(one, other)
    assert metrics.basis_of([[1.0, 0, 0], [2.0, 0, 0]]).shape == (3, 1)
    loss = group_losses(FactorAnalysis(2).fit(X), X, sensitive_features=labels)
    assert np.all(loss >= 0)
    nothing = findings(np.eye(5)[:1], X * [1, 0, 0, 0, 0], sensitive_features=labels)
    np.testing.assert_array_equal(nothing.share, 1)
    np.testing.assert_array_equal(nothing.loss, 0)


def test_wrong_input_is_named():
    X, labels = table()
    model = PCA(2).fit(pd.DataFrame(X, columns=list("abcde")))
    how = {"sensitive_features": labels}
    for wrong, message in (
        (lambda: group_losses("pca", X, **how), "is no linear reducer"),
        (
            lambda: group_losses(model, X[:, :4], **how),
            "X has 4 columns and the components have 5",
        ),
        (lambda: group_losses(model, pd.DataFrame(X, columns=list("abced")), **how), "column 4"),
        (lambda: group_losses(model, X, center="none", **how), "center='none' is not known"),
        (lambda: group_losses(model, GroupMoments.from_array(X, labels), **how), "counted in the"),
        (lambda: metrics.mean_error(X, X[:, :2]), "y_pred"),
        (lambda: metrics.mmd_squared(model, X, bandwidth=0, **how), "must be positive"),
    ):
        with pytest.raises(ValueError, match=message):
            wrong()


def test_numbers_of_rows_average_to_those_of_groups():
    X, labels = table()
    model = FairPCA(2).fit(X, sensitive_features=labels)
    rebuilt = model.inverse_transform(model.transform(X))
    rows = metrics.sample_errors(model, X)
    for g in range(3):
        part = labels == g
        assert rows[part].mean() == pytest.approx(model.group_errors_[g])
        assert metrics.mean_error(X[part], rebuilt[part]) == pytest.approx(model.group_errors_[g])
        loss = metrics.mean_loss(X[part], rebuilt[part], reducer=model)
        assert loss == pytest.approx(model.group_losses_[g])


@pytest.mark.slow
def test_fairlearn_calls_them_as_its_own():
    fairlearn = pytest.importorskip("fairlearn.metrics")
    X, labels = table()
    model = FairPCA(2).fit(X, sensitive_features=labels)
    frame = fairlearn.MetricFrame(
        metrics={"error": metrics.mean_error, "loss": partial(metrics.mean_loss, reducer=model)},
        y_true=X,
        y_pred=model.inverse_transform(model.transform(X)),
        sensitive_features=labels,
    )
    np.testing.assert_allclose(frame.by_group["loss"].to_numpy(float), model.group_losses_)


@pytest.mark.parametrize("weighted", [False, True])
def test_gaps_and_mmd_are_those_of_the_most_different_pair(weighted):
    X, labels = table(m=120)
    weight = np.random.default_rng(0).integers(1, 4, 120).astype(float) if weighted else None
    times = np.ones(120, dtype=int) if weight is None else weight.astype(int)
    rows, groups = np.repeat(X, times, axis=0), np.repeat(labels, times)
    model, how = PCA(2).fit(X), {"sensitive_features": labels, "sample_weight": weight}
    parts = [rows[groups == g] @ model.components_.T for g in range(3)]
    pairs = [(0, 1), (0, 2), (1, 2)]
    means = [np.linalg.norm(parts[i].mean(axis=0) - parts[j].mean(axis=0)) for i, j in pairs]
    covs = [np.cov(part.T, bias=True) for part in parts]
    apart = [np.linalg.norm(covs[i] - covs[j], 2) for i, j in pairs]
    assert metrics.mean_gap(model, X, **how) == pytest.approx(max(means))
    assert metrics.covariance_gap(model, X, **how) == pytest.approx(max(apart))
    kernel = [[rbf_kernel(a, b, gamma=1 / 8).mean() for b in parts] for a in parts]
    mmd = max(kernel[i][i] + kernel[j][j] - 2 * kernel[i][j] for i, j in pairs)
    assert metrics.mmd_squared(model, X, bandwidth=2.0, **how) == pytest.approx(mmd)
    bandwidth = metrics.median_bandwidth(X, weight)
    assert bandwidth == pytest.approx(metrics.median_bandwidth(rows), rel=0.02)


def test_bandwidths_of_rows_that_coincide():
    assert metrics.median_bandwidth(np.zeros((5, 2))) == 1.0
    assert metrics.median_bandwidth([[0.0]] * 9 + [[2.0]]) == pytest.approx(np.sqrt(2))


def test_many_rows_are_drawn_evenly():
    codes = np.array([0] * 1000 + [1] * 30 + [2])
    counts = np.bincount(codes[metrics.balanced_draw(codes, 100)])
    assert counts.tolist() == [69, 30, 1]
    assert len(metrics.balanced_draw(codes, 2000)) == 1031
