"""What an audit says of new rows: the numbers are cross-fitted, the advice follows from them."""

import json
from dataclasses import replace

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.decomposition import PCA

from fairpca import FairPCA, GroupMoments, Groups, cross_fit
from fairpca.auditing import Audit, audit
from fairpca.auditing.verdict import SHRUNK, advice, new_sentences, number, tables, with_interval
from fairpca.report import render_page

QUICK = {"ranks": [], "n_bootstrap": 0, "leave_one_out": False}


def unlike(sizes=(1500, 1000), n=5, seed=0):
    """Rows of groups that spread along different directions: PCA fails the smaller one."""
    rng = np.random.default_rng(seed)
    rows = [
        rng.normal(size=(m, n)) * np.roll([4.0, 1, 1, 1, 0.5], 2 * i) for i, m in enumerate(sizes)
    ]
    return np.vstack(rows), np.repeat([f"g{i}" for i in range(len(sizes))], sizes)


def alike(sizes=(300, 100), n=5, seed=0):
    """Rows of groups with one distribution: whatever a group loses is noise."""
    rng = np.random.default_rng(seed)
    return rng.normal(size=(sum(sizes), n)) * [3, 2, 1, 1, 1], np.repeat(["a", "b"], sizes)


@pytest.fixture(scope="module")
def better():
    return audit(*unlike(), 1, **QUICK)


@pytest.fixture(scope="module")
def even():
    return audit(*alike(), 2, **QUICK)


class TestNumbers:
    @pytest.mark.parametrize("weighted", [False, True])
    def test_are_those_of_cross_fit(self, weighted):
        X, labels = unlike((120, 70, 50))
        weight = np.random.default_rng(1).uniform(0.5, 2, len(X)) if weighted else None
        found = audit(X, labels, 2, sample_weight=weight, random_state=3, **QUICK).new_rows
        crossed = cross_fit(X, labels, 2, n_folds=5, sample_weight=weight, random_state=3)
        worst = crossed.worst()
        assert [finding.reducer for finding in found.findings] == ["PCA", "FairPCA", SHRUNK]
        for f, finding in enumerate(found.findings):
            np.testing.assert_allclose(finding.loss, crossed.losses[f, 0])
            np.testing.assert_allclose(finding.low, crossed.low[f, 0])
            np.testing.assert_allclose(finding.high, crossed.high[f, 0])
            np.testing.assert_allclose(finding.error, crossed.errors[f, 0])
            assert finding.worst_loss == pytest.approx(finding.loss.max())
            assert finding.worst_high == pytest.approx(worst.high[f, 0])
            gain = crossed.improvement(crossed.fits[f], "PCA")
            assert finding.gain == pytest.approx(gain.value, abs=1e-12)
            assert finding.gain_low == pytest.approx(gain.low, abs=1e-12)

    def test_the_total_error_is_that_of_all_rows_left_out(self):
        X, labels = unlike((90, 60))
        folds = np.arange(150) % 3
        parts = [GroupMoments.from_array(X[folds == i], labels[folds == i]) for i in range(3)]
        found = audit(parts, n_components=2, **QUICK)
        squares = np.zeros(150)
        for i in range(3):
            model = PCA(2).fit(X[folds != i])
            new = X[folds == i]
            again = model.inverse_transform(model.transform(new))
            squares[folds == i] = np.sum((new - again) ** 2, axis=1)
        assert found.new_rows.n_folds == 3
        assert found.new_rows.at("PCA").total_error == pytest.approx(squares.mean())

    def test_moments_of_folds_give_what_the_rows_give(self):
        X, labels = unlike((120, 80))
        folds = np.arange(200) % 4
        parts = [GroupMoments.from_array(X[folds == i], labels[folds == i]) for i in range(4)]
        found = audit(parts, n_components=2, ranks=[2])
        again = audit(X, labels, 2, ranks=[2], n_bootstrap=0)
        for name in found.reducers:
            np.testing.assert_allclose(found.at(name).loss, again.at(name).loss, atol=1e-9)
        crossed = cross_fit(parts, n_components=2)
        np.testing.assert_allclose(found.new_rows.at("FairPCA").loss, crossed.losses[1, 0])

    def test_unlabelled_rows_and_overlapping_groups(self):
        X, labels = unlike((120, 80))
        labels = labels.astype(object)
        labels[::9] = None
        found = audit(X, labels, 2, unlabelled="ignore", **QUICK)
        assert np.all(np.isfinite(found.new_rows.at("PCA").loss))
        only_pca = replace(found.new_rows, findings=found.new_rows.findings[:1])
        # No command fits PCA of rows without a label.
        assert advice(replace(found, new_rows=only_pca))["command"] == ""
        crossed = cross_fit(X, Groups.from_labels(labels, unlabelled="ignore"), 2)
        np.testing.assert_array_equal(found.new_rows.at("PCA").error, crossed.errors[0, 0])
        second = np.array(["x", "y"])[np.arange(200) % 2]
        both = {"a": unlike((120, 80))[1], "b": second}
        found = audit(X, both, 2, group_by="marginal", **QUICK)
        assert found.new_rows.at("FairPCA").loss.shape == (4,)
        assert (
            'group_by="marginal"' in advice(found)["python"] or "PCA" in advice(found)["reducer"]
        )

    def test_nothing_is_lost_with_all_components(self):
        X, labels = alike()
        found = audit(X, labels, X.shape[1], **QUICK).new_rows
        for finding in found.findings:
            assert finding.worst_loss == finding.gap == finding.gain_low == 0
            # An error that is rounding is none; a squared distance is never below zero.
            assert finding.total_error == 0
            np.testing.assert_array_equal(finding.error, 0.0)
        assert found.advised.reducer == "PCA"

    def test_a_given_fairpca_joins_and_others_do_not(self):
        X, labels = unlike((120, 80))
        given = {"mine": FairPCA(criterion="error"), "own": FairPCA(center="group"), "pca": PCA()}
        found = audit(X, labels, 2, reducers=given, **QUICK)
        names = [finding.reducer for finding in found.new_rows.findings]
        assert names == ["PCA", "FairPCA", SHRUNK, "mine"]
        with pytest.raises(KeyError, match="'mine'"):
            found.new_rows.at("pca")

    def test_a_split_in_halves_by_hand_agrees(self):
        """NumPy alone, 20 random halves of a real table, beside the audit of all its rows."""
        table = load_breast_cancer()
        X, labels, r = table.data, table.target, 3
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        rng = np.random.default_rng(0)
        worst = {"PCA": [], "FairPCA": []}
        for _ in range(20):
            half = rng.permutation(len(X)) < len(X) // 2
            fits = {
                name: FairPCA(r, shrinkage=amount).fit(X[half], sensitive_features=labels[half])
                for name, amount in (("PCA", 1.0), ("FairPCA", None), ("auto", "auto"))
            }
            centred = X - X[half].mean(axis=0)
            seen = [centred[half & (labels == g)] for g in (0, 1)]
            moments = [rows.T @ rows / len(rows) for rows in seen]
            pooled = sum(len(rows) * S for rows, S in zip(seen, moments, strict=True)) / half.sum()
            losses = {name: [] for name in worst}
            for g, S, share in zip((0, 1), moments, fits["auto"].shrinkage_, strict=True):
                own = np.linalg.eigh((1 - share) * S + share * pooled)[1][:, -r:].T
                new = centred[~half & (labels == g)]
                kept = np.mean(np.sum((new @ own.T) ** 2, axis=1))
                for name in worst:
                    mine = np.mean(np.sum((new @ fits[name].components_.T) ** 2, axis=1))
                    losses[name].append(kept - mine)
            for name, values in losses.items():
                worst[name].append(values)
        found = audit(X, labels, r, **QUICK).new_rows
        for name, values in worst.items():
            # Half as many rows to learn from: the mean of the halves, not each of them.
            by_hand = np.mean(values, axis=0).max()
            finding = found.at(name)
            assert finding.worst_low < by_hand < finding.worst_high


class TestUnknown:
    def test_moments_without_folds_say_how_to_get_them(self):
        X, labels = alike()
        found = audit(GroupMoments.from_array(X, labels), n_components=2, **QUICK)
        assert found.new_rows is None
        assert "n_folds=5" in found.warnings[0]
        assert found.verdict().startswith("On the rows in hand")

    @pytest.mark.parametrize(
        ("change", "why"),
        [({"n_folds": 0}, "no folds"), ({"center": "group"}, "only where losses are about")],
    )
    def test_left_out_on_purpose(self, change, why):
        found = audit(*alike(), 2, **QUICK, **change)
        assert found.new_rows is None
        assert why in found.warnings[0]
        assert next(tables(found))[0].startswith("Loss on the rows in hand")
        assert "The rows in hand" in render_page(found)

    def test_groups_that_are_all_too_small(self):
        found = audit(
            np.random.default_rng(0).normal(size=(12, 3)), list("aaabbbcccddd"), 1, **QUICK
        )
        assert found.new_rows is None
        assert "No group has the 5 rows" in found.warnings[0]

    @pytest.mark.parametrize("wrong", [{"n_folds": 1}, {"n_folds": -2}, {"n_repeats": 0}])
    def test_wrong_numbers_of_folds(self, wrong):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            audit(*alike(), 2, **wrong)


class TestVerdict:
    def test_what_serves_the_worst_group_best_is_advised(self, better):
        assert better.new_rows.advised.reducer in ("FairPCA", SHRUNK)
        text = better.verdict()
        assert text.startswith("On new rows, with 1 component, PCA serves group “g1” worst")
        assert "that is beyond noise" in text
        assert text.index("On new rows") < text.index("On the rows in hand")
        assert "pay" in text
        assert "the error over all rows rises by" in text
        call = advice(better)
        assert call["python"] in text
        assert call["command"] in text

    def test_the_interval_is_that_of_the_group_named(self):
        X, labels = load_breast_cancer(return_X_y=True)
        found = audit((X - X.mean(axis=0)) / X.std(axis=0), labels, 2, **QUICK)
        pca = found.new_rows.at("PCA")
        low, high = (number(float(ends[pca.worst])) for ends in (pca.low, pca.high))
        # That of the largest loss, whichever group has it, is another one.
        assert low != number(pca.worst_low)
        assert f"95% interval {low} to {high}, which includes zero" in new_sentences(found)[0]

    def test_no_percentage_of_a_loss_that_is_gone(self, better):
        fit = replace(better.new_rows.advised, worst_loss=-0.1)
        only = replace(better.new_rows, findings=(better.new_rows.findings[0], fit))
        text = replace(better, new_rows=only).verdict()
        assert "below zero, so that no group loses anything; that is beyond noise" in text

    def test_plain_pca_is_not_as_good_as_what_is_advised(self, better):
        """Own projections of few rows are so poor that nobody loses, and one fit still gains."""
        pca = replace(better.new_rows.findings[0], worst_loss=-0.1)
        fit = replace(better.new_rows.advised, worst_loss=-0.3)
        text = replace(better, new_rows=replace(better.new_rows, findings=(pca, fit))).verdict()
        assert "with 1 component, no group loses anything under PCA. With" in text
        assert "the worst loss is -0.300" in text
        assert "below PCA's -0.100; that is beyond noise" in text
        assert "as good" not in text

    def test_plain_pca_is_as_good_where_groups_are_alike(self, even):
        assert even.new_rows.advised.reducer == "PCA"
        assert "plain PCA is as good" in even.verdict()
        call = advice(even)
        assert call["python"] == "sklearn.decomposition.PCA(n_components=2).fit(X)"
        assert call["command"].endswith("-r 2 --shrinkage 1 -o model.skops")

    def test_the_calls_fit_what_is_advised(self, even):
        calls = {}
        for finding in even.new_rows.findings:
            sure = replace(finding, gain_low=1.0)
            only = replace(even.new_rows, findings=(even.new_rows.findings[0], sure))
            calls[finding.reducer] = advice(replace(even, new_rows=only))
        shrunk = 'FairPCA(n_components=2, shrinkage="auto").fit(X, sensitive_features=groups)'
        assert calls[SHRUNK]["python"] == shrunk
        assert calls[SHRUNK]["command"].endswith("-r 2 --shrinkage auto -o model.skops")
        assert calls["FairPCA"]["command"].endswith("-r 2 -o model.skops")
        X, labels = alike()
        same = FairPCA(2, shrinkage=1.0).fit(X, sensitive_features=labels)
        np.testing.assert_allclose(np.abs(same.components_), np.abs(PCA(2).fit(X).components_))

    def test_a_command_in_a_file_cannot_end_and_start_another(self, even):
        source = {"arguments": ["t.csv; rm -rf x", "-g", "$(id)"]}
        call = advice(replace(even, provenance={"source": source}))
        assert call["command"].startswith("fairpca fit 't.csv; rm -rf x' -g '$(id)' -r 2")

    def test_groups_too_small_to_check_are_named(self):
        X, labels = unlike((120, 80, 3))
        found = audit(X, labels, 2, **QUICK)
        assert found.new_rows.unchecked == (2,)
        assert "Too few rows to check: “g2” (3)." in new_sentences(found)
        assert next(tables(found))[2][-1][-1] == "–"
        again = Audit.from_json(found.to_json())
        assert again.to_json() == found.to_json()
        assert np.isnan(again.new_rows.at("PCA").loss[2])
        assert "too few rows to check" in render_page(again)

    def test_the_group_that_pays_had_no_error(self):
        """PCA rebuilds one group exactly in every fold; its rise is no share of anything."""
        rng = np.random.default_rng(0)
        folds = []
        for _ in range(5):
            flat = [rng.uniform(-size, size, size=(m, 2)) for m, size in ((200, 5), (60, 4))]
            one, other = np.pad(flat[0], ((0, 0), (0, 3))), np.pad(flat[1], ((0, 0), (2, 1)))
            # Rows and their opposites have the mean zero.
            rows = np.vstack([one, -one, other, -other])
            folds.append(GroupMoments.from_array(rows, np.repeat(["a", "b"], [400, 120])))
        found = audit(folds, n_components=2, **QUICK)
        assert found.new_rows.at("PCA").error[0] == 0
        after = number(float(found.new_rows.advised.error[0]))
        assert f"group “a”, whose error rises from 0 to {after}; the error over" in found.verdict()

    @pytest.mark.parametrize("group_by", ["intersection", "marginal"])
    def test_the_calls_for_moments_let_unlabelled_rows_in(self, group_by):
        """What was advised ended in the error about rows without a label."""
        X, labels = unlike()
        site = np.arange(len(X)) % 2
        columns = [
            [None if i % 9 == 0 else a, b]
            for i, (a, b) in enumerate(zip(labels, site, strict=True))
        ]
        given = np.array(columns, dtype=object)
        folds = []
        for i in range(5):
            options = {"group_by": group_by, "unlabelled": "ignore"}
            groups = Groups.from_labels(given[i::5], n_rows=len(given[i::5]), **options)
            folds.append(GroupMoments.from_array(X[i::5], groups))
        found = audit(folds, n_components=1, group_by=group_by, **QUICK)
        assert found.new_rows.advised.reducer != "PCA"
        call = advice(found)
        assert 'unlabelled="ignore"' in call["python"]
        assert "--unlabelled ignore" in call["command"]

    def test_a_group_whose_rows_have_no_weight_is_in_no_fold_alone(self):
        X, labels = unlike((120, 80))
        weight = np.ones(200)
        weight[123:] = 0
        found = audit(X, labels, 2, sample_weight=weight, **QUICK)
        assert "Too few rows with weight to check: “g1” (80)." in new_sentences(found)
        again = Audit.from_json(found.to_json())
        assert again.verdict() == found.verdict()

    def test_nothing_is_said_of_groups_that_could_not_be_checked(self):
        """PCA loses much of the two rows that stand alone, and costs nobody else anything."""
        X = np.random.default_rng(1).normal(size=(200, 4)) * [9, 8, 1, 1]
        X[-2:] = [[0, 0, 5, 5], [0, 0, 6, -6]]
        labels = ["x"] * 100 + ["y"] * 98 + ["alone", "too"]
        found = audit(X, labels, 2, n_repeats=1, **QUICK)
        assert found.new_rows.at("PCA").worst_loss < 0 < found.at("PCA").worst_loss
        assert "no group that could be checked loses anything" in new_sentences(found)[0]
        assert "no group that could be checked loses anything" in render_page(found)

    def test_equal_losses_have_no_worst_group(self):
        labels = np.arange(400) % 2
        X = np.random.default_rng(0).normal(size=(200, 4)) * [3, 2, 1, 1]
        found = audit(np.repeat(X, 2, axis=0) + 0.1, labels, 2, **QUICK)
        assert "worst" not in found.verdict().split("On the rows in hand")[1].split(".")[0]

    def test_intervals_keep_the_digits_they_know(self):
        cases = {(3.661, 6.32): "3.7 ±2.7", (-0.003, 0.28): "0.00 ±0.28", (5.0, 5.0): "5.00 ±0"}
        for (value, high), text in cases.items():
            assert with_interval(value, high) == text
        assert with_interval(float("nan"), 1.0) == "–"


class TestRecords:
    def test_json_says_it_all(self, better):
        data = json.loads(better.to_json())
        new = data["new_rows"]
        assert new["advice"]["reducer"] == better.new_rows.advised.reducer
        first = new["findings"][0]
        assert (first["reducer"], first["worst_group"]) == ("PCA", "g1")
        assert first["gap"] == better.new_rows.at("PCA").gap
        assert new["findings"][1]["beyond_noise"] is True
        assert Audit.from_dict(data).to_json() == better.to_json()

    def test_files_without_new_rows_still_load(self, better):
        data = json.loads(better.to_json())
        del data["new_rows"]
        data["reducers"] = ["PCA", "FairPCA"]
        data["findings"] = [f for f in data["findings"] if f["reducer"] != SHRUNK]
        old = Audit.from_dict(data)
        assert old.new_rows is None
        assert old.verdict().startswith("On the rows in hand")
        assert "New rows, group by group" not in render_page(old)

    def test_the_frame_has_new_rows_first(self, better):
        frame = better.to_frame()
        new = frame[frame["rows"] == "new"]
        assert frame["rows"].tolist() == ["new"] * 6 + ["in hand"] * 6
        np.testing.assert_array_equal(
            new.query("reducer == 'FairPCA'")["loss"], better.new_rows.at("FairPCA").loss
        )
        assert new["loss_low"].le(new["loss"]).all()

    @pytest.mark.parametrize(
        "damage",
        [
            lambda new: new.update(findings=[]),
            lambda new: new.update(findings=new["findings"][1:]),
            lambda new: new["findings"][0].update(loss=[1.0]),
            lambda new: new["findings"][0].update(loss=[None, None]),
            lambda new: new["findings"][0].update(error="abc"),
            lambda new: new["findings"][0].pop("worst_loss"),
            lambda new: new.pop("n_folds"),
        ],
    )
    def test_damaged_files_are_refused(self, better, damage):
        data = json.loads(better.to_json())
        damage(data["new_rows"])
        with pytest.raises(ValueError, match="damaged"):
            Audit.from_dict(data)

    def test_the_gap_counts_a_loss_below_zero_as_none(self, better):
        finding = better.new_rows.at("PCA")
        assert replace(finding, loss=np.array([-1.0, 2.0])).gap == 1
        assert replace(finding, loss=np.array([1.0, 2.0])).gap == 0.5
        assert replace(finding, loss=np.array([-1.0, -2.0])).gap == 0
