"""Per-group numbers of any linear reducer."""

import tracemalloc

import numpy as np
import pandas
import polars
import pytest
import scipy.sparse
from sklearn.decomposition import PCA, TruncatedSVD

from fairpca import FairPCA, GroupMoments, Groups, metrics
from fairpca.auditing import audit_model
from fairpca.comparison import compare
from fairpca.metrics import (
    covariance_gap,
    group_errors,
    group_losses,
    group_shares,
    group_variances,
    mean_gap,
    mmd_squared,
)

EVERY_NUMBER = (
    group_variances,
    group_errors,
    group_losses,
    group_shares,
    mean_gap,
    covariance_gap,
    mmd_squared,
)


@pytest.fixture
def rows():
    rng = np.random.default_rng(4)
    X = rng.normal(size=(80, 5)) * [3, 2, 1, 1, 0.5]
    return X, rng.choice(["a", "b", "c"], size=80)


def test_error_is_the_mean_squared_residual(rows):
    X, group = rows
    pca = PCA(2).fit(X)
    P = pca.components_.T @ pca.components_
    lost = ((X - pca.inverse_transform(pca.transform(X))) ** 2).sum(axis=1)
    about_one_mean = group_errors(pca, X, sensitive_features=group)
    about_their_own = group_errors(pca, X, sensitive_features=group, center="group")
    for i, label in enumerate("abc"):
        part = X[group == label] - X[group == label].mean(axis=0)
        assert about_one_mean[i] == pytest.approx(lost[group == label].mean())
        assert about_their_own[i] == pytest.approx(((part - part @ P) ** 2).sum(axis=1).mean())
    with pytest.raises(ValueError, match="center='none'"):
        group_errors(pca, X, sensitive_features=group, center="none")


def test_new_rows_are_measured_about_the_mean_that_the_model_subtracts(rows):
    X, group = rows
    model = FairPCA(2).fit(X[:40], sensitive_features=group[:40])
    new, labels = X[40:] + 0.5, group[40:]
    lost = ((new - model.inverse_transform(model.transform(new))) ** 2).sum(axis=1)
    whole = ((new - model.mean_) ** 2).sum(axis=1)
    one = metrics.sample_losses(model, new, sensitive_features=labels)
    for X_new in (new, GroupMoments.from_array(new, labels)):
        given = {} if X_new is not new else {"sensitive_features": labels}
        errors, losses = group_errors(model, X_new, **given), group_losses(model, X_new, **given)
        shares = group_shares(model, X_new, **given)
        for i, label in enumerate("abc"):
            inside = labels == label
            assert errors[i] == pytest.approx(lost[inside].mean())
            assert losses[i] == pytest.approx(one[inside].mean())
            assert shares[i] == pytest.approx(1 - lost[inside].sum() / whole[inside].sum())


def test_a_mean_far_from_zero_costs_no_digits(rows):
    X, group = rows
    far = X + np.array([1e9, 0, -1e8, 0, 0])
    model = FairPCA(2).fit(far, sensitive_features=group)
    found = group_errors(model, far, sensitive_features=group)
    np.testing.assert_allclose(found, model.group_errors_, rtol=1e-12)


@pytest.mark.parametrize("center", ["global", "group"])
def test_the_numbers_fit_together(rows, center):
    X, group = rows
    moments, about = GroupMoments.from_array(X, group), {"center": center}
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 2)))[0].T
    variance = group_variances(basis, moments, **about)
    error = group_errors(basis, moments, **about)
    for i, label in enumerate("abc"):
        part = X[group == label]
        part = part - (X if center == "global" else part).mean(axis=0)
        trace = (part**2).sum(axis=1).mean()
        assert variance[i] + error[i] == pytest.approx(trace)
        assert group_shares(basis, moments, **about)[i] == pytest.approx(variance[i] / trace)
        own = np.linalg.svd(part)[2][:2]
        assert group_losses(own, moments, **about)[i] == pytest.approx(0, abs=1e-12)
        assert group_losses(basis, moments, **about)[i] == pytest.approx(
            error[i] - group_errors(own, moments, **about)[i]
        )


def test_estimator_and_metrics_agree(rows):
    X, group = rows
    labels = np.where(group == "c", "b", group)
    for center in ("group", "global"):
        model = FairPCA(2, center=center).fit(X, sensitive_features=labels)
        losses = group_losses(model, X, sensitive_features=labels, center=center)
        np.testing.assert_allclose(losses, model.group_losses_, atol=1e-12)
    np.testing.assert_allclose(
        group_errors(model, X, sensitive_features=labels), model.group_errors_
    )


def test_only_the_span_counts(rows):
    X, group = rows
    skewed = np.array([[1.0, 0, 0, 0, 0], [5.0, 2, 0, 0, 0]])
    np.testing.assert_allclose(
        group_errors(skewed, X, sensitive_features=group),
        group_errors(np.eye(5)[:2], X, sensitive_features=group),
    )
    assert group_losses(TruncatedSVD(2).fit(X), X, sensitive_features=group).shape == (3,)


def test_a_reducer_needs_components():
    with pytest.raises(ValueError, match="no linear reducer"):
        group_errors(object(), np.eye(3), sensitive_features=[0, 1, 1])


def test_a_group_without_variance_keeps_everything():
    X = np.array([[1.0, 2], [1, 2], [0, 1], [3, 5]])
    shares = group_shares([[1.0, 0]], X, sensitive_features=[0, 0, 1, 1], center="group")
    assert shares[0] == 1


@pytest.mark.parametrize("number", EVERY_NUMBER)
@pytest.mark.parametrize(
    "form",
    [
        scipy.sparse.csr_array,
        scipy.sparse.csc_matrix,
        scipy.sparse.coo_array,
        polars.from_numpy,
    ],
    ids=["csr array", "csc matrix", "coo array", "frame"],
)
def test_rows_in_any_form(rows, number, form):
    X, group = rows
    X = np.where(np.abs(X) > 1, X, 0.0)
    reducer = PCA(2).fit(X)
    expected = number(reducer, X, sensitive_features=group)
    np.testing.assert_allclose(number(reducer, form(X), sensitive_features=group), expected)


@pytest.mark.parametrize("number", EVERY_NUMBER)
@pytest.mark.parametrize("X", [np.ones((80, 0)), np.full((80, 5), np.nan), np.full((80, 5), "a")])
def test_rows_without_numbers_are_refused(rows, number, X):
    with pytest.raises(ValueError, match=r"pass at least one feature|NaN|convert"):
        number(np.eye(5)[:2], X, sensitive_features=rows[1])


@pytest.mark.parametrize("number", EVERY_NUMBER)
def test_a_lazy_frame_has_to_be_collected(rows, number):
    X, group = rows
    with pytest.raises(ValueError, match=r"X is a LazyFrame.*X\.collect\(\)"):
        number(np.eye(5)[:2], polars.from_numpy(X).lazy(), sensitive_features=group)


def test_a_reducer_of_other_columns_is_named(rows):
    X, group = rows
    for number in EVERY_NUMBER:
        with pytest.raises(ValueError, match="X has 5 columns and the components have 4"):
            number(np.eye(4)[:2], X, sensitive_features=group)


@pytest.mark.parametrize("number", [*EVERY_NUMBER, metrics.sample_errors, audit_model])
def test_columns_in_another_order_are_refused(rows, number):
    X, group = rows
    frame = pandas.DataFrame(X, columns=list("abcde"))
    labels = {} if number is metrics.sample_errors else {"sensitive_features": group}
    for model in (PCA(2).fit(frame), FairPCA(2).fit(frame, sensitive_features=group)):
        number(model, frame, **labels)
        number(model, X, **labels)
        with pytest.raises(ValueError, match=r"column 1 of X is 'e'.*fitted to is 'a'"):
            number(model, frame[list("edcba")], **labels)


def test_a_kernel_compares_every_group_at_a_positive_bandwidth(rows):
    X, group = rows
    assert mmd_squared(np.eye(5)[:2], X, sensitive_features=group, max_rows=1) > 0
    with pytest.raises(ValueError, match=r"bandwidth=0 must be positive"):
        mmd_squared(np.eye(5)[:2], X, sensitive_features=group, bandwidth=0)


@pytest.fixture(scope="module")
def rebuilt_people():
    """Rows of people of two columns of labels, a fitted model, and what it rebuilds."""
    rng = np.random.default_rng(5)
    sex, age = rng.choice(["f", "m"], 300), rng.choice(["old", "young"], 300)
    X = rng.normal(size=(300, 5)) * [3, 2, 1, 1, 1] + 7
    X[sex == "f"] = X[sex == "f"][:, [2, 3, 0, 1, 4]]
    labels = {"sex": sex, "age": age}
    model = FairPCA(2).fit(X, sensitive_features=labels)
    return X, labels, model, model.inverse_transform(model.transform(X))


def test_numbers_of_rows_have_the_means_of_their_groups(rebuilt_people):
    X, labels, model, _ = rebuilt_people
    weight = np.random.default_rng(0).integers(1, 4, 300)
    errors = metrics.sample_errors(model, X)
    losses = metrics.sample_losses(model, X, sensitive_features=labels)
    weighted = metrics.sample_losses(model, X, sensitive_features=labels, sample_weight=weight)
    assert errors.shape == losses.shape == (300,)
    codes = Groups.from_labels(labels).codes
    heavy = FairPCA(2).fit(X, sensitive_features=labels, sample_weight=weight)
    heavy_losses = metrics.sample_losses(heavy, X, sensitive_features=labels, sample_weight=weight)
    for g, (loss, error) in enumerate(zip(model.group_losses_, model.group_errors_, strict=True)):
        rows = codes == g
        assert errors[rows].mean() == pytest.approx(error)
        assert losses[rows].mean() == pytest.approx(loss)
        found = np.average(heavy_losses[rows], weights=weight[rows])
        assert found == pytest.approx(heavy.group_losses_[g])
    assert not np.allclose(losses, weighted)
    # Without a mean of its own, a reducer has that of the rows, by their weights.
    given = {"sensitive_features": labels, "sample_weight": weight}
    bare = metrics.sample_losses(model.components_, X, **given)
    sums = np.bincount(codes, bare * weight) / np.bincount(codes, weight)
    np.testing.assert_allclose(sums, metrics.group_losses(model.components_, X, **given))


def test_metrics_of_rebuilt_rows(rebuilt_people):
    X, labels, model, rebuilt = rebuilt_people
    rows = (labels["sex"] == "f") & (labels["age"] == "old")
    pair = X[rows], rebuilt[rows]
    assert metrics.mean_error(*pair) == pytest.approx(model.group_errors_[0])
    assert metrics.mean_loss(*pair, reducer=model) == pytest.approx(model.group_losses_[0])
    shares = metrics.group_shares(model, X, sensitive_features=labels)
    assert metrics.share_kept(*pair, reducer=model) == pytest.approx(shares[0])
    twice = np.r_[np.flatnonzero(rows), np.flatnonzero(rows)[:5]]
    weight = np.r_[np.full(5, 2.0), np.ones(rows.sum() - 5)]
    for metric in (metrics.mean_loss, metrics.share_kept):
        weighted = metric(*pair, weight, reducer=model)
        assert weighted == pytest.approx(metric(X[twice], rebuilt[twice], reducer=model))
    same = np.tile(model.mean_, (3, 1))
    assert metrics.share_kept(same, same, reducer=model) == 1.0
    with pytest.raises(ValueError, match=r"y_true has shape \(300, 5\) and y_pred \(300, 2\)"):
        metrics.mean_error(X, rebuilt[:, :2])


def test_a_metric_frame_of_two_sensitive_columns(rebuilt_people):
    """What fairlearn makes of the metrics are the numbers of every group, controls included."""
    from functools import partial

    import pandas as pd
    from fairlearn.metrics import MetricFrame

    X, labels, model, rebuilt = rebuilt_people
    frame = pd.DataFrame(labels)
    found = MetricFrame(
        metrics={"error": metrics.mean_error, "loss": partial(metrics.mean_loss, reducer=model)},
        y_true=X,
        y_pred=rebuilt,
        sensitive_features=frame,
    ).by_group
    assert found.index.names == ["sex", "age"]
    assert found.index.tolist() == model.groups_
    np.testing.assert_allclose(found["error"].astype(float), model.group_errors_)
    np.testing.assert_allclose(found["loss"].astype(float), model.group_losses_)
    weight = np.arange(300) % 3 + 1.0
    controlled = MetricFrame(
        metrics={"error": metrics.mean_error},
        y_true=X,
        y_pred=rebuilt,
        sensitive_features=frame[["sex"]],
        control_features=frame[["age"]],
        sample_params={"error": {"sample_weight": weight}},
    )
    assert controlled.by_group.index.names == ["age", "sex"]
    rows = (labels["age"] == "old") & (labels["sex"] == "f")
    expected = np.average(metrics.sample_errors(model, X)[rows], weights=weight[rows])
    assert controlled.by_group.loc[("old", "f"), "error"] == pytest.approx(expected)
    assert (controlled.difference()["error"] > 0).all()


@pytest.mark.parametrize("about", ["a mean elsewhere", "no mean"])
def test_far_more_columns_than_rows(about):
    # The numbers are those of the rows themselves; matrices of 2,000 columns are never made.
    rng = np.random.default_rng(0)
    X = rng.normal(2.0, 1.0, size=(60, 2_000))
    labels = np.repeat(["a", "b", "c"], [30, 20, 10])
    X[labels == "c"] = X[-1]
    weight = rng.uniform(0.5, 2.0, size=60)
    # Components and mean of other rows, outside of what these rows span.
    other = PCA(4).fit(rng.normal(size=(50, 2_000)))
    reducer = other if about == "a mean elsewhere" else other.components_
    mean = other.mean_ if about == "a mean elsewhere" else np.average(X, axis=0, weights=weight)
    given = {"sensitive_features": labels, "sample_weight": weight}
    tracemalloc.start()
    try:
        errors, kept = group_errors(reducer, X, **given), group_variances(reducer, X, **given)
        losses, shares = group_losses(reducer, X, **given), group_shares(reducer, X, **given)
        own = group_errors(reducer, X, center="group", **given)
        assert tracemalloc.get_traced_memory()[1] < 2_000**2 * 8
    finally:
        tracemalloc.stop()
    means = []
    for i, label in enumerate("abc"):
        picks = labels == label
        w = weight[picks] / weight[picks].sum()
        centred = (X[picks] - mean) * np.sqrt(w)[:, None]
        inside = centred @ other.components_.T
        assert kept[i] == pytest.approx(np.sum(inside**2), rel=1e-10)
        whole = np.sum(centred**2)
        assert errors[i] == pytest.approx(whole - kept[i], rel=1e-10)
        assert shares[i] == pytest.approx(kept[i] / whole, rel=1e-10)
        best = np.sum(np.linalg.svd(centred, compute_uv=False)[:4] ** 2)
        assert losses[i] == pytest.approx(best - kept[i], rel=1e-10)
        means.append(w @ X[picks])
        about_own = (X[picks] - means[i]) * np.sqrt(w)[:, None]
        left = about_own - (about_own @ other.components_.T) @ other.components_
        assert own[i] == pytest.approx(np.sum(left**2), rel=1e-10, abs=1e-12)
    # Rows of a group that are all the same have no variance, and nothing of it is lost.
    assert own[2] == 0
    assert group_shares(reducer, X, center="group", **given)[2] == 1
    apart = [np.linalg.norm((a - b) @ other.components_.T) for a in means for b in means]
    assert mean_gap(reducer, X, **given) == pytest.approx(max(apart), rel=1e-10)
    if about == "a mean elsewhere":
        found = audit_model(reducer, X, labels, sample_weight=weight)
        np.testing.assert_allclose(found.error, errors, rtol=1e-10)
        np.testing.assert_allclose(found.loss, losses, rtol=1e-10)


@pytest.mark.parametrize("measure", [m for m in EVERY_NUMBER if m is not mmd_squared])
@pytest.mark.parametrize("about", ["a mean elsewhere", "no mean"])
def test_sparse_rows_of_many_columns_are_never_made_into_matrices(measure, about, monkeypatch):
    rng = np.random.default_rng(0)
    X = scipy.sparse.random(400, 2_500, 0.01, format="csr", random_state=0)
    labels, weight = rng.choice(["a", "b"], size=400), rng.uniform(0.5, 2.0, size=400)
    other = PCA(4).fit(rng.normal(size=(50, 2_500)))
    reducer = other if about == "a mean elsewhere" else other.components_
    given = {"sensitive_features": labels, "sample_weight": weight}
    wanted = measure(reducer, X.toarray(), **given)
    monkeypatch.setattr(GroupMoments, "from_array", None)
    np.testing.assert_allclose(measure(reducer, X, **given), wanted, rtol=1e-8, atol=1e-10)
    if measure is group_errors:
        own = measure(reducer, X, center="group", **given)
        assert np.all(own < wanted + 1e-10)


def test_a_group_without_weight_is_refused():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3)) + np.array([50, 0, 0])
    group = np.array(["a"] * 30 + ["b"] * 70)
    weight = np.where(group == "a", 0.0, 1.0)
    for metric in (metrics.mean_gap, metrics.covariance_gap, metrics.group_losses):
        with pytest.raises(ValueError, match=r"group\(s\) 'a' have no row"):
            metric([[1.0, 0, 0]], X, sensitive_features=group, sample_weight=weight)


@pytest.mark.parametrize("classes", [True, False])
def test_predictions_know_only_the_subspace_and_count_weights_as_rows(classes):
    """Of columns with means far apart nothing was learned: the means were taken for spread."""
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(120, 2))
    y = Z[:, 0] + 0.1 * rng.normal(size=120)
    y = (y > 0).astype(int) if classes else y
    weight = rng.integers(1, 4, 80).astype(float)
    twice = np.repeat(np.arange(80), weight.astype(int))
    turn = np.array([[0.6, 0.8], [-0.8, 0.6]])

    def predicted(Z, rows=slice(80), **options):
        return metrics.held_out_predictions(Z[rows], y[rows], Z[80:], classes=classes, **options)

    far = Z + 1000.0 * np.array([1.0, -1.0])
    tolerance = {"rtol": 1e-6, "atol": 1e-6}
    np.testing.assert_allclose(predicted(far), predicted(Z), **tolerance)
    np.testing.assert_allclose(predicted(far @ turn), predicted(Z), **tolerance)
    np.testing.assert_allclose(predicted(Z, weight=weight), predicted(Z, twice), **tolerance)


def test_a_reducer_that_subtracts_no_mean_predicts_as_well():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 4)) * [3, 2, 1, 1] + [0, 1e4, 0, -1e4]
    found = compare([PCA(3), TruncatedSVD(3)], X, np.arange(300) % 2, X[:, 0])
    assert found["TruncatedSVD"].r_squared > 0.99
