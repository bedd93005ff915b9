"""fairpca.compare: reducers side by side."""

import csv
import io
import json
from typing import ClassVar

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.random_projection import GaussianRandomProjection

from fairpca import FairPCA
from fairpca.comparison import compare, default_estimators
from fairpca.methods import (
    MMDFairPCA,
    MultiCriteriaPCA,
    NullSpaceFairPCA,
    SDRFairPCA,
    StablePCA,
    UnconstrainedFPCA,
    WorstCasePCA,
)
from fairpca.metrics import basis_of, covariance_gap, group_errors, group_losses, mean_gap

from tables import credit


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    sex = rng.choice(["f", "m"], size=300, p=[0.35, 0.65])
    X = rng.normal(size=(300, 5)) * [3, 1, 2, 1, 1]
    X[sex == "f"] = X[sex == "f"][:, [1, 0, 2, 4, 3]] + [0, 0, 1, 0, 0]
    y = (X[:, 2] + rng.normal(size=300) > 0.3).astype(int)
    return X, sex, y


@pytest.fixture(scope="module")
def table(people):
    X, sex, y = people
    estimators = [
        PCA(2),
        FairPCA(2),
        SDRFairPCA(2, center="global"),
        MultiCriteriaPCA(2, center="global"),
        StablePCA(2),
        WorstCasePCA(2),
        UnconstrainedFPCA(2),
        NullSpaceFairPCA(2),
        MMDFairPCA(2, tau=0.05),
    ]
    return compare(estimators, X, sex, y)


def test_numbers_are_those_of_the_metrics(people, table):
    X, sex, _ = people
    for name, model in (
        ("PCA", PCA(2).fit(X)),
        ("FairPCA", FairPCA(2).fit(X, sensitive_features=sex)),
    ):
        row = table[name]
        losses = group_losses(model, X, sensitive_features=sex)
        assert row.group_losses == pytest.approx(losses)
        assert row.worst_loss == pytest.approx(losses.max())
        assert row.group_errors == pytest.approx(group_errors(model, X, sensitive_features=sex))
        assert row.mean_gap == pytest.approx(mean_gap(model, X, sensitive_features=sex))
        assert row.covariance_gap == pytest.approx(
            covariance_gap(model, X, sensitive_features=sex)
        )
        back = model.inverse_transform(model.transform(X))
        residual = ((X - back) ** 2).sum(axis=1)
        assert row.total_error == pytest.approx(residual.mean())
        assert row.error_gap == pytest.approx(
            abs(residual[sex == "f"].mean() - residual[sex == "m"].mean())
        )
        assert row.n_components == 2
    assert table.groups == ("f", "m")
    assert sum(table.group_counts) == 300


def test_nobody_beats_fair_pca_on_the_worst_loss(table):
    fair = table["FairPCA"]
    assert fair.gap < 1e-8
    for row in table.rows:
        assert row.worst_loss >= fair.worst_loss * (1 - 1e-8)
        assert row.bound == fair.bound


def test_nobody_beats_fair_pca_on_a_real_table():
    X, group = credit()
    estimators = default_estimators(5)
    # Fewer steps where the number of steps is not the point, and no kernel of all pairs of rows.
    estimators["SPEA2FairPCA"].set_params(max_iter=5)
    estimators["ParetoFairPCA"].set_params(max_iter=300)
    estimators["ARPGDA"].set_params(n_starts=1)
    estimators["MMDFairPCA"].set_params(max_rows=200, tau=0.1)
    found = compare(estimators, X, group, on_error="raise")
    fair = found["FairPCA"]
    assert fair.gap < 1e-8
    for row in found.rows:
        assert row.worst_loss >= fair.worst_loss * (1 - 1e-8), row.name
        assert row.total_error >= found["PCA"].total_error * (1 - 1e-12), row.name


def test_places_stay_within_one_notion(table):
    places = {row.name: (row.optimises, row.place) for row in table.rows}
    assert places["PCA"] == ("total error", 1)
    assert places["FairPCA"] == ("loss", 1)
    assert places["MultiCriteriaPCA"] == ("loss", 1)
    assert places["SDRFairPCA"] == ("loss", 3)
    assert places["StablePCA"] == ("variance", 1)
    assert places["WorstCasePCA"] == ("share", None)
    assert places["UnconstrainedFPCA"] == ("error gap", 1)
    assert places["NullSpaceFairPCA"] == ("mean gap", 1)
    assert places["MMDFairPCA"] == ("mmd", 1)


def test_classifier_columns_need_y(people, table):
    X, sex, _ = people
    for row in table.rows:
        assert 0.5 < row.accuracy <= 1
        assert 0 <= row.demographic_parity_difference <= 1
        assert 0 <= row.equal_opportunity_difference <= 1
    assert 0.4 < table.baseline < 0.7
    without = compare(PCA(2), X, sex)
    assert without.baseline is None
    assert np.isnan(without["PCA"].accuracy)
    assert "accuracy" not in str(without)
    assert "accuracy" in str(table)


def test_forms(table):
    frame = table.to_frame()
    assert list(frame.index) == [row.name for row in table.rows]
    assert frame.loc["PCA", "loss [f]"] == table["PCA"].group_losses[0]
    data = json.loads(table.to_json(indent=1))
    assert data == json.loads(json.dumps(table.to_dict()))
    assert data["rows"][1]["name"] == "FairPCA"
    records = list(csv.DictReader(io.StringIO(table.to_csv())))
    assert float(records[0]["worst_loss"]) == table["PCA"].worst_loss
    lines = str(table).splitlines()
    assert lines[1].split()[:3] == ["method", "optimises", "place"]
    assert lines[4].startswith("FairPCA ")
    with pytest.raises(KeyError, match="there are PCA"):
        table["nobody"]


def test_shown_in_a_few_lines(people):
    X, sex, _ = people
    found = compare({"<b>mine</b>": PCA(2), "FairPCA": FairPCA(2)}, X, sex)
    assert len(repr(found).splitlines()) <= 5
    assert len(repr(found)) < 500
    assert "FairPCA" in repr(found)
    html = found._repr_html_()
    assert "<table" in html
    assert "&lt;b&gt;mine&lt;/b&gt;" in html
    assert "<b>" not in html
    many = compare({f"pca {i}": PCA(1) for i in range(40)}, X, sex)
    assert len(repr(many)) < 500


def test_missing_numbers_are_none_and_empty(people):
    X, sex, _ = people
    found = compare({"kernel": NullSpaceFairPCA(2, kernel="rbf")}, X[:80], sex[:80])
    row = found["kernel"]
    assert np.isnan(row.worst_loss)
    assert row.mean_gap < 1e-8
    assert json.loads(found.to_json())["rows"][0]["worst_loss"] is None
    assert next(csv.DictReader(io.StringIO(found.to_csv())))["worst_loss"] == ""


def test_failures_are_recorded_or_raised(people):
    X, _, _ = people
    three = np.arange(len(X)) % 3
    found = compare([FairPCA(2), UnconstrainedFPCA(2), TruncatedSVD(2)], X, three)
    failed = found["UnconstrainedFPCA"]
    assert failed.failed
    assert failed.place is None
    assert "sensitive_features has 3 groups and the method is written" in failed.message
    assert f"UnconstrainedFPCA could not run: {failed.message}" in found.notes()
    assert not any(line.startswith("UnconstrainedFPCA") for line in found.table_lines())
    assert not found["TruncatedSVD"].failed
    assert len(found.to_records()) == 3
    with pytest.raises(ValueError, match="UnconstrainedFPCA is written for two"):
        compare(UnconstrainedFPCA(2), X, three, on_error="raise")
    with pytest.raises(ValueError, match="on_error='ignore'"):
        compare(PCA(2), X, three, on_error="ignore")


def test_what_several_methods_say_is_said_once(people):
    X, _, _ = people
    three = np.arange(len(X)) % 3
    methods = {"mine": UnconstrainedFPCA(2), "MMD": MMDFairPCA(2), "FairPCA": FairPCA(2)}
    found = compare(methods, X, three)
    said = [note for note in found.notes() if "could not run" in note]
    assert len(said) == 1
    assert said[0].startswith("mine, MMD could not run: sensitive_features has 3 groups and the")
    html = found._repr_html_()
    assert html.count("could not run") == 1
    assert "<th>place</th>" in html
    # A row of dashes says less than the line below the table.
    assert html.count("<tr>") == 2
    alone = compare({"mine": UnconstrainedFPCA(2)}, X, three)
    assert alone.table_lines() == []
    assert str(alone).startswith("mine could not run")
    assert len(compare(UnconstrainedFPCA(2), X, three, X[:, 0]).notes()) == 1
    assert "<table" not in alone._repr_html_()


def test_a_table_of_80_columns(table):
    lines = str(table).splitlines()
    assert max(map(len, lines)) <= 80
    parts = sum(line.startswith("method ") for line in lines)
    assert parts > 1
    # Every part names all methods.
    assert sum(line.startswith("UnconstrainedFPCA ") for line in lines) == parts
    one = table.table_lines(1000)
    assert sum(line.startswith("method ") for line in one) == 1
    # No column is lost on the way.
    narrow = table.table_lines(10)
    assert sum(line.startswith("method ") for line in narrow) == len(one[1].split()) - 1


def test_the_fit_on_the_training_rows_says_nothing_again():
    rng = np.random.default_rng(0)
    X, sex = rng.normal(size=(60, 5)), np.repeat([1, 2], [40, 20])
    message = compare(FairPCA(2), X, sex, np.arange(60) % 2)["FairPCA"].message
    assert message.count("The projection rests on groups") == 1


def test_warnings_become_messages(people):
    X, sex, _ = people
    found = compare([MMDFairPCA(4, tau=1e-9)], X, sex)
    assert "above tau" in found["MMDFairPCA"].message


class _Recorder(PCA):
    """Remember the labels that `fit` is given, by class: the estimator itself is cloned."""

    seen: ClassVar[list] = []

    def fit(self, X, y=None, *, sensitive_features=None):
        self.seen.append(sensitive_features)
        return super().fit(X)


def test_fits_know_the_labels_of_the_caller():
    rng = np.random.default_rng(0)
    X, sex = rng.normal(size=(60, 5)), np.repeat([1, 2], [40, 20])
    message = compare(FairPCA(2), X, sex)["FairPCA"].message
    assert "1 (40 rows)" in message
    assert "2 (20 rows)" in message
    crossed = compare(FairPCA(2), X, {"sex": sex, "site": ["a", "b"] * 30})["FairPCA"].message
    assert "(2, 'b') (10 rows)" in crossed


@pytest.mark.parametrize(
    "labels",
    [[1, 2], ["f", "m"], ["f\0", "f"], [True, 2.5], [2**70, "m"], [False, True], [(1,), (1, 2)]],
    ids=repr,
)
def test_fits_are_given_labels_of_the_same_type(labels):
    given = np.fromiter(labels * 10, dtype=object)
    _Recorder.seen.clear()
    compare(_Recorder(1), np.random.default_rng(0).normal(size=(20, 3)), given)
    found = _Recorder.seen[0].tolist()
    assert found == given.tolist()
    assert list(map(type, found)) == list(map(type, given))


def test_a_marginal_fit_is_given_the_columns():
    rng = np.random.default_rng(0)
    labels = {"sex": rng.choice(["f", "m"], 200), "site": rng.choice([1, 2], 200)}
    X = rng.normal(size=(200, 4)) * [3, 2, 1, 1]
    found = compare(FairPCA(2, group_by="marginal"), X, labels, y=X[:, 0] > 0)["FairPCA"]
    model = FairPCA(2, group_by="marginal").fit(X, sensitive_features=labels)
    assert model.group_names_ == ["sex", "site"]
    residual = ((X - model.inverse_transform(model.transform(X))) ** 2).sum(axis=1)
    assert found.total_error == pytest.approx(residual.mean())


def test_names_and_bad_input(people):
    X, sex, y = people
    found = compare([PCA(1), PCA(2), PCA(3)], X, sex)
    assert [row.name for row in found.rows] == ["PCA", "PCA (2)", "PCA (3)"]
    with pytest.raises(ValueError, match="sensitive_features has 299 rows"):
        compare(PCA(1), X, sex[:-1])
    with pytest.raises(ValueError, match="NaN"):
        compare(PCA(1), np.where(X > 5, np.nan, X), sex)
    with pytest.raises(ValueError, match="y has shape"):
        compare(PCA(1), X, sex, y[:-1])
    with pytest.raises(ValueError, match="y has 1 missing"):
        compare(PCA(1), X, sex, [None, *y[1:]])
    with pytest.raises(ValueError, match="one class only in the training rows"):
        compare(PCA(1), X, sex, np.arange(300) == 0, random_state=2)
    with pytest.raises(ValueError, match="target='size' is not known"):
        compare(PCA(1), X, sex, y, target="size")


def test_a_target_of_numbers_or_of_several_classes(people):
    """As in an audit: what the target holds is decided by its values, or by the caller."""
    X, sex, _ = people
    amount = X[:, 0] + 0.1 * np.arange(300)
    found = compare([PCA(2), FairPCA(2)], X, sex, amount)
    for row in found.rows:
        assert row.message == ""
        assert np.isnan(row.accuracy)
        assert -0.1 < row.r_squared < 1
    assert found.baseline < 0.01
    assert "R squared: of a linear model" in str(found)
    assert "always predicting the mean has" in " ".join(str(found).split())
    assert "accuracy" not in str(found)
    kinds = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-1, 1])]
    found = compare(PCA(2), X, sex, kinds)
    assert found["PCA"].accuracy > found.baseline > 0.3
    assert np.isnan(found["PCA"].demographic_parity_difference)
    assert np.isnan(found["PCA"].r_squared)
    whole = np.arange(300) % 3
    assert not np.isnan(compare(PCA(2), X, sex, whole)["PCA"].accuracy)
    assert not np.isnan(compare(PCA(2), X, sex, whole, target="numbers")["PCA"].r_squared)


def test_every_published_method_is_at_hand():
    from fairpca import methods

    estimators = default_estimators(3)
    assert list(estimators)[:2] == ["PCA", "FairPCA"]
    assert set(estimators) == {"PCA", "FairPCA", *methods.__all__}
    assert all(model.get_params()["n_components"] == 3 for model in estimators.values())


@pytest.mark.parametrize("center", ["global", "group"])
def test_methods_are_fitted_about_the_mean_they_are_measured_by(center):
    """Fitted about another one, an exact method of the same notion looks far from the best."""
    X, diagnosis = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    known = default_estimators(2, center=center)
    some = {name: known[name] for name in ("FairPCA", "SDRFairPCA", "MultiCriteriaPCA")}
    found = compare(some, X, diagnosis, center=center)
    for row in found.rows:
        assert row.worst_loss <= 1.1 * found["FairPCA"].worst_loss, row.name


def test_estimators_are_left_alone(people):
    X, sex, _ = people
    model = FairPCA(2)
    compare(model, X, sex)
    assert not hasattr(model, "components_")


@pytest.mark.parametrize("center", ["global", "group"])
def test_far_more_columns_than_rows_are_compared_in_what_they_span(people, center):
    X, sex, _ = people
    X, sex = X[:100], sex[:100]
    rng = np.random.default_rng(1)
    axes = np.linalg.qr(rng.normal(size=(400, 5)))[0]
    # Random components reach out of the span of the rows.
    away = GaussianRandomProjection(2, random_state=0)
    models = {"PCA": PCA(2), "FairPCA": FairPCA(2, center=center), "random": away}
    found = compare(models, X @ axes.T + rng.normal(size=400), sex, center=center)
    wanted = compare([PCA(2), FairPCA(2, center=center)], X, sex, center=center)
    for name in ("PCA", "FairPCA"):
        for number in ("group_losses", "group_errors", "total_error", "bound", "gap"):
            one, other = getattr(found[name], number), getattr(wanted[name], number)
            np.testing.assert_allclose(one, other, atol=1e-8)
    rows = X @ axes.T
    basis = basis_of(away.fit(rows))
    left = rows - rows.mean(axis=0)
    left = left - left @ basis @ basis.T
    errors = [np.mean(np.sum(left[sex == g] ** 2, axis=1)) for g in ("f", "m")]
    np.testing.assert_allclose(found["random"].group_errors, errors, rtol=1e-10)


def test_labels_that_are_written_alike_keep_their_numbers():
    X = np.random.default_rng(0).normal(size=(120, 3))
    (record,) = compare([PCA(1)], X, [1, "1"] * 60).to_records()
    titles = [title for title in record if "[" in title]
    assert titles == ["loss [1]", "loss [1 (2)]", "error [1]", "error [1 (2)]"]


def test_more_groups_than_test_rows_are_split_without_them():
    X, y = np.random.default_rng(0).normal(size=(10, 3)), np.arange(10) % 2
    (row,) = compare([PCA(1)], X, np.arange(10) // 2, y=y).rows
    assert row.accuracy is not None
