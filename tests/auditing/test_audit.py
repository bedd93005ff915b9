"""The audit: numbers are those of cross_fit and of the metrics, advice follows from them."""

import json

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.decomposition import PCA
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fairpca import FairPCA, GroupMoments, audit, cross_fit
from fairpca.auditing import audit_model, block_columns, words
from fairpca.methods import BalancedPCA
from fairpca.metrics import findings
from fairpca.moments.group_moments import split_folds
from fairpca.moments.groups import Groups

from data_dir import data_path


def unlike(sizes=(600, 300), n=5, seed=0):
    """Rows of groups that spread along different directions: PCA fails the smaller one."""
    rng = np.random.default_rng(seed)
    spreads = [np.roll([4.0, 1, 1, 1, 0.5], 2 * i) for i in range(len(sizes))]
    rows = [rng.normal(size=(m, n)) * s for m, s in zip(sizes, spreads, strict=True)]
    return np.vstack(rows) + 3.0, np.repeat([f"g{i}" for i in range(len(sizes))], sizes)


def in_folds(X, labels, weight=None):
    """The moments of rows, counted by fold."""
    fold = np.random.default_rng(1).integers(0, 5, len(X))
    parts = Groups.from_labels(labels).in_folds(fold, 5)
    return split_folds(GroupMoments.from_array(X, parts, sample_weight=weight), 5)


def squared_errors(model, X):
    return np.sum((X - model.inverse_transform(model.transform(X))) ** 2, axis=1)


@pytest.fixture(scope="module")
def found():
    return audit(*unlike((400, 200, 100)), 2, ranks=[1, 3])


class TestNumbers:
    @pytest.mark.parametrize("weighted", [False, True])
    def test_on_new_rows_are_those_of_cross_fit(self, weighted):
        X, labels = unlike((120, 70))
        weight = np.random.default_rng(1).uniform(0.5, 2, len(X)) if weighted else None
        found = audit(X, labels, 2, sample_weight=weight, random_state=3, ranks=[])
        crossed = cross_fit(X, labels, 2, sample_weight=weight, random_state=3)
        assert [f.reducer for f in found.of("new")] == list(crossed.fits) == list(found.reducers)
        for f, finding in enumerate(found.of("new")):
            np.testing.assert_allclose(finding.loss, crossed.losses[f, 0], atol=1e-4)
            np.testing.assert_allclose(finding.error, crossed.errors[f, 0], atol=1e-4)
            np.testing.assert_allclose(finding.high, crossed.high[f, 0], atol=1e-3)
            assert finding.total_error == pytest.approx(crossed.total_errors[f, 0], rel=1e-4)
            gain, change = crossed.improvement(finding.reducer), crossed.change(finding.reducer)
            assert finding.gain_low == pytest.approx(float(gain.low), abs=1e-3)
            np.testing.assert_allclose(finding.change_high, change.high, atol=1e-3)

    @pytest.mark.parametrize("center", ["global", "group"])
    @pytest.mark.parametrize("r", [1, 2])
    def test_in_hand_are_those_of_the_fitted_estimators(self, center, r):
        X, labels = unlike()
        found = audit(X, labels, r, center=center, ranks=[])
        fair = FairPCA(r, center=center).fit(X, sensitive_features=labels)
        finding = found.at("FairPCA")
        np.testing.assert_allclose(finding.loss, fair.group_losses_, rtol=1e-8)
        assert finding.bound == pytest.approx(fair.certificate_.lower_bound)
        assert finding.bound <= found.at("careful FairPCA").worst_loss
        assert found.at("PCA").total_error == pytest.approx(
            squared_errors(PCA(r).fit(X), X).mean()
        )
        balanced = BalancedPCA(r).fit(X, sensitive_features=labels)
        for name, model in (("PCA", PCA(r).fit(X)), ("balanced PCA", balanced)):
            own = findings(model, X, sensitive_features=labels, center=center)
            for number in ("loss", "error", "share", "own"):
                values = getattr(found.at(name), number)
                np.testing.assert_allclose(values, getattr(own, number), atol=1e-9)

    def test_careful_fair_pca_harms_nobody_by_much(self, found):
        for r in found.ranks:
            # The limit of 2 % is one of the shrunk covariances.
            assert found.at("careful FairPCA", r).as_share("change").max() <= 0.05

    def test_of_groups_left_out_are_those_of_fits_to_the_others(self, found):
        X, labels = unlike((400, 200, 100))
        finding = found.at("PCA", on="unseen")
        for i, group in enumerate(found.groups):
            away = labels == group.label
            new = findings(PCA(2).fit(X[~away]), X[away], sensitive_features=labels[away])
            assert finding.loss[i] == pytest.approx(new.loss[0])
            assert finding.error[i] == pytest.approx(new.error[0])
        assert [f.reducer for f in found.of("unseen")] == [*found.reducers, "AnchorPCA"]
        assert "A group that was not there" in words.unseen_sentence(found)

    @settings(max_examples=3, deadline=None)
    @given(st.integers(0, 100), st.booleans())
    def test_of_folds_are_those_of_rows(self, seed, weighted):
        X, labels = unlike((60, 40), seed=seed)
        weight = np.random.default_rng(seed).uniform(0.5, 2, len(X)) if weighted else None
        folds = in_folds(X, labels, weight)
        counted = audit(folds, n_components=2, ranks=[1])
        rows = audit(X, labels, 2, sample_weight=weight, ranks=[1])
        crossed = cross_fit(folds, n_components=2)
        np.testing.assert_allclose(counted.of("new")[2].loss, crossed.losses[2, 0], atol=1e-3)
        for name in ("PCA", "balanced PCA", "FairPCA"):
            for r in rows.ranks:
                one, other = (each.at(name, r) for each in (counted, rows))
                np.testing.assert_allclose(one.loss, other.loss, atol=1e-4)
                np.testing.assert_allclose(one.error, other.error, atol=1e-4)
        assert [g.count for g in counted.groups] == [g.count for g in rows.groups]

    def test_wide_rows_are_measured_in_what_they_span(self):
        X, labels = unlike((30, 20))
        mixed = X @ np.linalg.qr(np.random.default_rng(0).normal(size=(400, 5)))[0].T
        narrow, wide = (audit(rows, labels, 2, ranks=[]) for rows in (X, mixed))
        for name in ("PCA", "balanced PCA", "FairPCA"):
            one, other = narrow.at(name), wide.at(name)
            np.testing.assert_allclose(one.error, other.error, rtol=1e-4)
        components = wide.components["PCA", 2]
        np.testing.assert_allclose(np.abs(components), np.abs(PCA(2).fit(mixed).components_))
        np.testing.assert_allclose(wide.mean, mixed.mean(axis=0), atol=1e-9)

    def test_marginal_groups_overlap(self):
        X, labels = unlike((200, 100))
        people = {"sex": labels, "age": np.arange(300) % 2}
        found = audit(X, people, 1, group_by="marginal", ranks=[])
        fair = FairPCA(1, group_by="marginal").fit(X, sensitive_features=people)
        assert [group.text for group in found.groups] == ["sex: g0", "sex: g1", "age: 0", "age: 1"]
        np.testing.assert_allclose(found.at("FairPCA").loss, fair.group_losses_, rtol=1e-8)

    def test_rows_without_a_label_count_in_pca_alone(self):
        X, labels = unlike((200, 100))
        labelled = np.arange(300) % 10 > 0
        some = np.where(labelled, labels, None)
        found = audit(X, some, 1, unlabelled="ignore", ranks=[])
        assert any("30 row(s) have no label" in text for text in found.warnings)
        pca = findings(PCA(1).fit(X), X[labelled], sensitive_features=labels[labelled])
        np.testing.assert_allclose(found.at("PCA").loss, pca.loss, rtol=1e-6)


class TestVerdict:
    def test_better_says_who_gains_by_how_much_and_who_pays(self):
        found = audit(*unlike((1500, 1000)), 1, ranks=[])
        advice, text = found.advice, found.verdict()
        assert advice.kind == "better"
        new, pca = (found.at(name, on="new") for name in (advice.reducer, "PCA"))
        assert new.gain_low > 0
        assert advice.cut == pytest.approx(1 - new.worst_loss / pca.worst_loss)
        assert advice.harm == pytest.approx(new.as_share("change_high").max())
        assert "“g1” worst (1,000 rows)" in text
        assert f"rises by more than {words.percent(advice.harm)} of its variance" in text
        assert advice.python.startswith("fairpca.FairPCA(n_components=1")
        assert advice.command.startswith("fairpca fit TABLE -g COLUMN -r 1")

    def test_groups_dealt_at_random_are_as_good(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(6000, 8)) * np.linspace(3, 1, 8)
        found = audit(X, rng.integers(0, 2, 6000), 2, ranks=[])
        assert (found.advice.kind, found.advice.reducer) == ("as good", "PCA")
        assert found.advice.most < 0.01
        assert "no fit can gain more than" in found.verdict()

    def test_few_rows_cannot_tell_and_say_of_whom_to_collect_more(self):
        found = audit(*unlike((40, 12)), 2, ranks=[])
        assert found.advice.kind == "cannot tell"
        assert "collect more rows of group “g" in found.verdict()
        assert any("Fewer than 30 rows: “g1” (12)" in text for text in found.warnings)

    @pytest.mark.slow
    @pytest.mark.parametrize("picks", [None, 150])
    def test_of_law_students(self, picks):
        table = pd.read_csv(data_path("law_school.csv"))
        table = table.sample(picks, random_state=0) if picks else table
        X = StandardScaler().fit_transform(table.drop(columns=["race", "pass_bar"]))
        found = audit(X, table["race"], 2, ranks=[])
        if picks:
            assert found.advice.kind != "better"
            return
        assert (found.advice.kind, found.advice.reducer) == ("better", "careful FairPCA")
        assert found.at("PCA", on="new").worst_loss == pytest.approx(0.302, abs=0.005)
        assert found.at("careful FairPCA", on="new").worst_loss == pytest.approx(0.099, abs=0.003)
        assert found.advice.harm < 0.02

    @settings(max_examples=4, deadline=None)
    @given(st.integers(0, 1000), st.integers(20, 60), st.integers(2, 4), st.sampled_from([1, 2]))
    def test_has_three_sentences_at_most_and_no_promise(self, seed, m, k, r):
        rng = np.random.default_rng(seed)
        X, labels = rng.normal(size=(m, 4)) ** 3, np.arange(m) % k
        found = audit(X, labels, r, ranks=[])
        kind = json.loads(found.to_json())["verdict"]["kind"]
        assert kind in {"better", "as good", "cannot tell"}
        assert len(words.sentences(found)) <= 3
        assert "nan" not in found.verdict()
        assert "is fair" not in found.verdict()
        assert found.why_not_new or 0 <= found.advice.harm < np.inf

    def test_of_rows_in_hand_alone_says_why(self):
        X, labels = unlike((60, 40))
        found = audit(X, labels, 1, center="group", ranks=[])
        assert found.verdict().startswith("Nothing is known of new rows: ")
        assert found.to_dict()["verdict"]["kind"] == "cannot tell"
        assert not found.of("new")
        assert words.tables(found)[0].title.startswith("Loss on the rows in hand")
        counted = audit(GroupMoments.from_array(X, labels), n_components=1, ranks=[])
        assert "count them in folds" in counted.verdict()
        assert counted.reducers == ("PCA", "balanced PCA", "FairPCA")


class TestBlocks:
    def test_stay_together_and_widen_the_intervals(self):
        X, labels = unlike((60, 40))
        rows, groups, person = (np.repeat(part, 4, axis=0) for part in (X, labels, range(100)))
        apart = audit(rows, groups, 1, ranks=[])
        together = audit(rows, groups, 1, blocks=person, ranks=[])
        new, old = (each.at("FairPCA", on="new") for each in (together, apart))
        crossed = cross_fit(rows, groups, 1, blocks=person)
        np.testing.assert_allclose(new.loss, crossed.losses[2, 0], atol=1e-3)
        assert np.all(new.high - new.low > old.high - old.low)
        folds = [GroupMoments.from_array(rows[j::2], groups[j::2]) for j in (0, 1)]
        with pytest.raises(ValueError, match="blocks are counted in the moments"):
            audit(folds, blocks=person)

    def test_are_named_where_a_column_looks_like_them(self):
        X, labels = unlike((60, 40))
        frame = pd.DataFrame(X, columns=list("abcde")).assign(patient_id=np.arange(100) // 4)
        assert block_columns(frame) == ["patient_id"]
        assert not block_columns(frame.assign(patient_id=range(100)))
        said = [text for text in audit(frame, labels, 1, ranks=[]).warnings if "blocks=" in text]
        assert "'patient_id'" in said[0]
        given = audit(frame, labels, 1, ranks=[], blocks=frame["patient_id"])
        assert not any("blocks=" in text for text in given.warnings)


class TestReducers:
    def test_fitted_ones_are_measured_about_their_own_mean(self):
        X, labels = unlike()
        old, model = PCA(3).fit(X[:200]), FairPCA(1).fit(X, sensitive_features=labels)
        found = audit(X, labels, reducers={"old": old}, model=model, ranks=[])
        assert (found.n_components, found.ranks) == (1, (1, 3))
        errors, finding = squared_errors(old, X), found.at("old", 3)
        np.testing.assert_allclose(
            finding.error, [errors[labels == g.label].mean() for g in found.groups]
        )
        assert finding.total_error == pytest.approx(errors.mean())
        assert found.at("model").worst_loss == pytest.approx(found.at("FairPCA").worst_loss)
        with pytest.raises(KeyError, match="'old' with 1 components"):
            found.at("old", 1)

    def test_others_are_fitted_and_known_on_new_rows_where_moments_do(self):
        X, labels = unlike((200, 100))
        found = audit(X, labels, 2, reducers=[FairPCA(criterion="error"), PCA()], ranks=[])
        assert found.reducers[-2:] == ("FairPCA (given)", "PCA (given)")
        np.testing.assert_allclose(found.at("PCA (given)").loss, found.at("PCA").loss, atol=1e-9)
        new = [f.reducer for f in found.of("new")]
        assert "FairPCA (given)" in new
        assert "PCA (given)" not in new

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"reducers": make_pipeline(PCA(2))}, "of a Pipeline its last step"),
            ({"reducers": "FairPCA"}, "pass a fitted linear reducer"),
            ({"reducers": PCA(1).fit(np.eye(4))}, "the components have 4"),
            ({"n_components": 9}, "between 1 and the number of features"),
            ({"ranks": [0]}, "between 1 and the number of features"),
            ({"center": "none"}, "center='none' is not known"),
            ({"sensitive_features": None}, "one label per row"),
            ({"blocks": [1, 2]}, "blocks has 2 rows but X has 900"),
            ({"sensitive_features": ["a"] * 900}, "one group only, 'a'"),
        ],
    )
    def test_wrong_input_is_named(self, wrong, message):
        X, labels = unlike()
        with pytest.raises(ValueError, match=message):
            audit(X, **({"sensitive_features": labels} | wrong))

    def test_a_share_is_kept_of_every_group(self):
        X, labels = unlike()
        found = audit(X, labels, 0.9, ranks=[])
        fair = FairPCA(0.9).fit(X, sensitive_features=labels)
        assert found.n_components == fair.n_components_


class TestForms:
    def test_frame_and_dictionary_have_the_same_lines(self, found):
        frame, data = found.to_frame(), json.loads(found.to_json())
        assert len(frame) == len(data["findings"]) == 3 * len(found.findings)
        assert frame["on"].iloc[0] == "new"
        assert data["findings"][0]["loss"] == pytest.approx(frame["loss"].iloc[0])
        assert data["groups"][1] == vars(found.groups[1])
        assert data["verdict"]["text"] == found.verdict()
        assert data["provenance"]["parameters"]["rows"] == 700

    def test_notebooks_get_one_table_whose_texts_cannot_run(self):
        X, labels = unlike((60, 40))
        shown = audit(X, np.where(labels == "g0", "<b>a</b>", "b"), 1, ranks=[])._repr_html_()
        assert "<b>" not in shown
        assert "&lt;b&gt;a" in shown
        assert shown.count("<table>") == 1
        assert len(shown) < 5000

    def test_tables_are_new_rows_first_in_shares(self, found):
        new, hand, unseen = words.tables(found)
        assert new.title == "Loss on new rows, % of the group's variance, with 2 components"
        assert new.columns == ["group", "rows", *found.reducers]
        finding, first = found.at("PCA", on="new"), words.order(found)[0]
        share, high = finding.as_share("loss")[first], finding.as_share("high")[first]
        assert new.rows[0][2] == words.percent_within(share, high)
        assert "±" not in "".join(hand.rows[0])
        assert unseen.columns[-1] == "AnchorPCA"

    def test_words_of_labels_and_numbers(self, found):
        assert words.label_texts([1, "1", ""], ["site"], "intersection") == ["1", "'1'", "''"]
        assert words.number(float("nan")) == "–"
        assert words.percent(1e-5) == "under 0.01%"
        assert "On the rows in hand no projection with 2 components" in words.proof(found)


class TestModels:
    def test_audit_model_is_what_the_model_rebuilds(self):
        X, labels = unlike()
        model = FairPCA(2).fit(X[::2], sensitive_features=labels[::2])
        new, groups = X[1::2], labels[1::2]
        checked, errors = audit_model(model, new, groups), squared_errors(model, new)
        np.testing.assert_allclose(
            checked.error, [errors[groups == g].mean() for g in ("g0", "g1")]
        )
        assert checked.total_error == pytest.approx(errors.mean())
        assert "serves group “g" in checked.verdict()
        assert checked.to_frame()["error"].tolist() == checked.error.tolist()
        assert checked.to_dict()["groups"][0]["group"] == "g0"

    def test_other_columns_are_named(self):
        X, labels = unlike()
        with pytest.raises(ValueError, match="X has 4 columns and the components have 5"):
            audit_model(PCA(2).fit(X), X[:, :4], labels)
