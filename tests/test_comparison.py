"""Methods side by side: numbers are those of the metrics, places go by what a method optimises."""

import json

import numpy as np
import pytest
from sklearn.decomposition import PCA, FactorAnalysis

from fairpca import FairPCA, compare, methods, metrics
from fairpca.comparison import default_estimators


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    many, few = rng.normal(size=(80, 4)) * [3, 1, 1, 1], rng.normal(size=(30, 4)) * [1, 3, 1, 1]
    return np.vstack([many, few]), np.array(["a"] * 80 + ["b"] * 30)


@pytest.fixture(scope="module")
def found(people):
    chosen = {
        "PCA": PCA(1), "fair": FairPCA(1), "balanced": methods.BalancedPCA(1),
        "sdr": methods.SDRFairPCA(1, center="global"), "null": methods.NullSpaceFairPCA(1),
        "factors": FactorAnalysis(1),
    }  # fmt: skip
    return compare(*people, chosen)


def test_numbers_are_those_of_the_metrics(found, people):
    X, labels = people
    row, pca, how = found["PCA"], PCA(1).fit(X), {"sensitive_features": labels}
    np.testing.assert_allclose(row.found.loss, metrics.group_losses(pca, X, **how))
    np.testing.assert_allclose(row.errors, metrics.group_errors(pca, X, **how))
    assert row.error_gap == pytest.approx(np.ptp(metrics.group_errors(pca, X, **how)))
    assert row.mean_gap == pytest.approx(metrics.mean_gap(pca, X, **how))
    assert row.covariance_gap == pytest.approx(metrics.covariance_gap(pca, X, **how))
    assert row.total_error == pytest.approx(metrics.sample_errors(pca, X).mean())
    fair = FairPCA(1).fit(X, sensitive_features=labels)
    assert found["fair"].bound == pytest.approx(fair.certificate_.lower_bound)
    assert found["fair"].gap == pytest.approx(0, abs=1e-9)
    assert all(row.worst_loss >= row.bound - 1e-9 for row in found.rows)


@pytest.mark.parametrize("center", ["global", "group"])
def test_the_fair_one_is_best_about_its_own_center(people, center):
    found = compare(*people, [PCA(2), FairPCA(2, center=center)], center=center)
    assert found["FairPCA"].worst_loss < found["PCA"].worst_loss
    assert found["FairPCA"].gap == pytest.approx(0, abs=1e-8)


def test_places_are_among_those_that_optimise_the_same(found):
    places = {row.name: (row.optimises, row.place) for row in found.rows}
    assert places["fair"] == ("loss", 1)
    assert places["sdr"] == ("loss", 2)
    assert places["balanced"] == ("mean error", 1)
    assert places["PCA"] == ("total error", 1)
    assert places["factors"] == ("total error", 2)
    assert found["null"].mean_gap == pytest.approx(0, abs=1e-9)


def test_what_cannot_be_fitted_says_why_and_warnings_are_told_once(people):
    X, labels = people
    three = np.where(np.arange(len(X)) % 3 == 0, "c", labels)
    chosen = {"one": methods.MMDFairPCA(1), "two": methods.MMDFairPCA(1), "pca": PCA(1)}
    found = compare(X, three, chosen)
    assert found["one"].failed
    assert np.isnan(found["one"].worst_loss)
    said = [note for note in found.notes() if note.startswith("one, two could not run: ")]
    assert len(said) == 1
    assert "one" not in str(found).split("\n\n")[0]
    records = found.to_dict()["rows"]
    assert records[0]["worst_loss"] is None
    everything = compare(X, three, {"bad": methods.MMDFairPCA(1)})
    assert everything.verdict().startswith("No method could be measured")


def test_forms(found):
    frame, data = found.to_frame(), json.loads(found.to_json())
    assert frame.index.tolist() == [row.name for row in found.rows]
    assert frame.loc["PCA", "loss [b]"] == found["PCA"].found.loss[1]
    assert data["rows"][1]["worst_loss"] == found["fair"].worst_loss
    assert max(map(len, str(found).splitlines())) <= 90
    assert "fair has the smallest worst loss" in found.verdict()
    assert "New rows are measured by fairpca.audit" in found.verdict()
    shown = found._repr_html_()
    assert shown.count("<tr>") == 1 + len(found.rows)
    assert repr(found).startswith("Comparison of PCA, fair, balanced")
    with pytest.raises(KeyError, match="there are PCA, fair"):
        found["FairPCA"]


def test_every_published_method_is_compared_by_default(people):
    names = list(default_estimators(2))
    assert names[:2] == ["PCA", "FairPCA"]
    assert {"AnchorPCA", "EigOpt", *methods.__all__} <= set(names)
    fast = {name: default_estimators(1)[name] for name in ("AnchorPCA", "EigOpt", "StablePCA")}
    found = compare(*people, fast)
    assert not any(row.failed for row in found.rows)
    assert found["EigOpt"].gap == pytest.approx(0, abs=1e-4)


@pytest.mark.slow
def test_all_of_them_run(people):
    found = compare(*people)
    assert [row.name for row in found.rows if row.failed] == []


def test_wide_rows():
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(40, 600)), np.arange(40) % 2
    found = compare(X, labels, [PCA(2, random_state=0), FairPCA(2)])
    loss = metrics.group_losses(PCA(2, random_state=0).fit(X), X, sensitive_features=labels)
    np.testing.assert_allclose(found["PCA"].found.loss, loss, rtol=1e-6)
    assert found["FairPCA"].gap == pytest.approx(0, abs=1e-8)


def test_wrong_input_is_named(people):
    X, labels = people
    for options, message in (
        ({"estimators": {"a": FairPCA}}, "estimators: 'a' is <class"),
        ({"center": "none"}, "center='none' is not known"),
        ({"sensitive_features": labels[:5]}, "5 rows"),
    ):
        with pytest.raises(ValueError, match=message):
            compare(X, **({"sensitive_features": labels} | options))
