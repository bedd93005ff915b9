"""Columns of a table become numbers, once fitted and then the same for new rows."""

import numpy as np
import pandas as pd
import pytest
from fairpca.io.columns import choose_columns, matching
from fairpca.io.preparation import Preparation, prepare


class TestPreparation:
    def test_numbers_and_categories(self, frame):
        preparation, found = prepare(frame, columns=["v0", "plan"])
        assert preparation.feature_names == ["v0", "plan=basic", "plan=plus", "plan=pro"]
        np.testing.assert_allclose(found.X.mean(axis=0), 0, atol=1e-12)
        # As scikit-learn's StandardScaler: the divisor is the number of rows.
        np.testing.assert_allclose(found.X.std(axis=0), 1)
        assert "1 text column(s) became 3 indicators" in found.notes[0]
        raw, plain = prepare(frame, columns=["v0", "plan"], standardize=False)
        np.testing.assert_allclose(plain.X[:, 0], frame["v0"])
        np.testing.assert_array_equal(plain.X[:, 1:].sum(axis=1), 1)
        assert not raw.standardized

    def test_new_rows_use_the_old_mean(self, frame):
        preparation, found = prepare(frame, columns=["v0", "v1", "plan"])
        again = preparation.apply(frame.iloc[5:9])
        np.testing.assert_allclose(again.X, found.X[5:9])
        read = Preparation.from_dict(preparation.to_dict())
        assert read == preparation

    def test_codes_as_categories(self, frame):
        preparation, _ = prepare(frame, columns=["paid", "v0"], categorical=["paid"])
        assert preparation.feature_names == ["paid=0", "paid=1", "v0"]

    @pytest.mark.parametrize("missing", ["error", "drop", "mean", "median"])
    def test_missing_values(self, frame, missing):
        holed = frame.copy()
        holed.loc[3, "v1"] = np.nan
        if missing == "error":
            with pytest.raises(ValueError, match=r"'v1' \(1\).*--missing drop"):
                prepare(holed, columns=["v0", "v1"])
            return
        preparation, found = prepare(
            holed, columns=["v0", "v1"], missing=missing, standardize=False
        )
        assert len(found.X) == (159 if missing == "drop" else 160)
        assert found.kept.sum() == len(found.X)
        if missing != "drop":
            expected = getattr(holed["v1"], missing)()
            assert found.X[3, 1] == pytest.approx(expected)
            assert any("1 missing number(s) replaced" in note for note in found.notes)
        assert len(preparation.apply(holed).X) == len(found.X)

    def test_a_missing_category_is_no_category(self, frame):
        holed = frame.copy()
        holed.loc[0, "plan"] = None
        _, found = prepare(holed, columns=["plan"], standardize=False)
        assert found.X[0].sum() == 0

    def test_what_cannot_be_a_feature_is_named(self, frame):
        odd = frame.assign(
            when=pd.Timedelta(days=1),
            name=[f"person {i}" for i in range(160)],
            nothing=np.nan,
        )
        _, found = prepare(odd, columns=["v0", "when", "name", "nothing"])
        assert found.X.shape == (160, 1)
        for name in ("'when'", "'name' (text, 160 distinct values)", "'nothing' (no values)"):
            assert name in found.notes[1]
        with pytest.raises(ValueError, match="no column is left"):
            prepare(odd, columns=["name"])

    def test_lists_records_and_bytes_are_left_out(self, frame):
        odd = frame.assign(
            list=[[1, 2]] * 160, array=[np.arange(3)] * 160, record=[{"a": 1}] * 160, raw=b"x\xff"
        )
        _, found = prepare(odd, columns=["v0", "list", "array", "record", "raw"])
        assert found.X.shape == (160, 1)
        for name in ("list", "array", "record"):
            assert f"'{name}' (lists or records)" in found.notes[1]
        assert "'raw' (bytes)" in found.notes[1]

    def test_odd_types(self):
        frame = pd.DataFrame(
            {
                "flag": [True, False, True, False],
                "count": pd.array([1, 2, None, 4], dtype="Int64"),
                "kind": pd.Categorical(["a", "b", "a", "b"]),
                "same": [7, 7, 7, 7],
            }
        )
        preparation, found = prepare(frame, columns=list(frame.columns), missing="mean")
        assert preparation.feature_names == ["flag", "count", "kind=a", "kind=b", "same"]
        assert np.isfinite(found.X).all()
        np.testing.assert_array_equal(found.X[:, -1], 0)

    def test_infinity(self, frame):
        odd = frame.assign(v0=np.inf)
        with pytest.raises(ValueError, match="infinite"):
            prepare(odd, columns=["v0"])

    @pytest.mark.parametrize("standardize", [True, False])
    @pytest.mark.parametrize("value", [1e200, 1.7e308])
    def test_values_too_large_to_square(self, frame, standardize, value):
        name = next(n for n in frame.columns if frame[n].dtype.kind == "f")
        large = frame.assign(**{name: frame[name].where(frame.index != 0, value)})
        with pytest.raises(ValueError, match=f"'{name}' has values too large to square"):
            prepare(large, columns=[name], standardize=standardize)

    def test_text_where_numbers_were(self, frame):
        preparation, _ = prepare(frame, columns=["v0"])
        with pytest.raises(ValueError, match="holds text"):
            preparation.apply(frame.assign(v0="x"))

    def test_choosing_columns(self):
        names = ["a", "b1", "b2", "c", "b*"]
        assert choose_columns(names, [], [], {"a"}) == ["b1", "b2", "c", "b*"]
        assert choose_columns(names, ["b?"], [], set()) == ["b1", "b2", "b*"]
        assert choose_columns(names, ["b*"], [], set()) == ["b*"]
        assert choose_columns(names, ["a", "c"], ["c"], {"a"}) == ["a"]
        with pytest.raises(ValueError, match="no column 'z'"):
            matching("z", names)


def texts(*cells, repeat=1):
    return pd.DataFrame({"a": list(cells) * repeat, "v": np.arange(len(cells) * repeat) % 5})


class TestOddCells:
    def test_a_column_of_numbers_with_one_odd_cell(self, tmp_path):
        cells = [str(i) for i in range(300)]
        cells[117] = "0x10"
        match = r"'a' .*'0x10' in data row 118 .*--categorical.*--drop"
        with pytest.raises(ValueError, match=match):
            prepare(texts(*cells), columns=["a", "v"])
        _, found = prepare(texts(*cells), columns=["a", "v"], categorical=["a"])
        assert found.X.shape == (300, 301)
        _, found = prepare(texts(*cells), columns=["v"])
        assert found.X.shape == (300, 1)

    def test_decimal_commas(self):
        cells = [f"{i},5" for i in range(300)]
        cells[3] = "?"
        with pytest.raises(ValueError, match=r"'\?' in data row 4 \(the first is 1\)"):
            prepare(texts(*cells), columns=["a"])

    @pytest.mark.parametrize(
        "cells",
        [
            ["12", "12a", "13", "14"] * 20,
            ["x", "y"] * 50,
            [str(i) for i in range(40)] + [f"odd{i}" for i in range(30)],
        ],
        ids=["a quarter odd", "words", "many odd"],
    )
    def test_a_text_column_stays_text(self, cells):
        _, found = prepare(texts(*cells), columns=["a", "v"])
        assert found.X.shape[0] == len(cells)

    def test_new_rows_name_the_cell(self, frame):
        preparation, _ = prepare(frame, columns=["v0"])
        odd = frame.assign(v0=frame["v0"].astype(str).where(frame.index != 7, "x"))
        with pytest.raises(
            ValueError, match=r"'v0' holds text where numbers were.*'x' in data row 8 "
        ):
            preparation.apply(odd)


class TestDates:
    @pytest.mark.parametrize(
        "cells, days",
        [
            (["1970-01-02", "1970-01-11", None], [1, 10]),
            (["1970-01-02T12:00", "1970-01-03 06:00:00"], [1.5, 2.25]),
            (["1970-01-02T00:00:00Z", "1970-01-02T00:00:00+12:00"], [1, 0.5]),
            # What stands for "never" in many tables is past the range of nanoseconds.
            (["1970-01-02", "9999-12-31", "1600-01-01"], [1, 2932896, -135140]),
        ],
        ids=["dates", "times", "zones", "far away"],
    )
    def test_iso_dates_are_days_since_1970(self, cells, days):
        frame = texts(*cells, repeat=4)
        preparation, found = prepare(frame, columns=["a"], standardize=False, missing="drop")
        np.testing.assert_allclose(found.X[: len(days), 0], days)
        assert any("'a'" in note and "days since 1970-01-01" in note for note in found.notes)
        read = Preparation.from_dict(preparation.to_dict())
        assert read == preparation
        np.testing.assert_array_equal(read.apply(frame).X, found.X)

    def test_every_way_to_store_them(self):
        days = pd.Series(pd.date_range("2020-02-28", periods=8))
        ways = [days, days.dt.tz_localize("UTC"), days.dt.date, days.dt.strftime("%Y-%m-%d")]
        for way in ways:
            _, found = prepare(pd.DataFrame({"a": way}), columns=["a"], standardize=False)
            np.testing.assert_allclose(found.X[:, 0], 18320 + np.arange(8))

    def test_what_only_looks_like_a_date_is_text(self):
        for cells in (["2020-02-30", "2020-01-01"], ["2020", "2021"], ["2020-01-01", "soon"]):
            preparation, _ = prepare(texts(*cells, repeat=3), columns=["a"])
            assert preparation.feature_names == [f"a={cell}" for cell in sorted(cells)]

    def test_text_where_dates_were(self):
        preparation, _ = prepare(texts("2020-01-01", "2021-01-01"), columns=["a"])
        with pytest.raises(ValueError, match="'a' holds text where dates were fitted: 'soon'"):
            preparation.apply(texts("2020-01-01", "soon"))

    def test_models_of_before_know_no_dates(self):
        data = prepare(texts("1", "2"), columns=["v"])[0].to_dict()
        for feature in data["features"]:
            del feature["date"]
        assert Preparation.from_dict(data).feature_names == ["v"]


class TestNotes:
    @pytest.mark.parametrize("missing", ["mean", "median"])
    def test_filled_numbers_and_missing_texts(self, frame, missing):
        holed = frame.copy()
        holed.loc[[3, 4], "v1"] = np.nan
        holed.loc[[5, 6, 7], "plan"] = None
        _, found = prepare(holed, columns=["v1", "plan"], missing=missing)
        notes = "; ".join(found.notes)
        assert f"2 missing number(s) replaced by the {missing}" in notes
        assert "3 missing text(s) in 'plan' count as no category" in notes

    @pytest.mark.parametrize("standardize", [True, False])
    def test_constant_columns(self, frame, standardize):
        odd = frame.assign(same=7.25, kind="k")
        columns = ["v0", "same", "kind"]
        _, found = prepare(odd, columns=columns, standardize=standardize)
        assert found.X.shape == (160, 3)
        assert "constant column(s) 'same', 'kind=k' kept; they contribute nothing" in found.notes
        _, found = prepare(frame, columns=["v0"], standardize=standardize)
        assert not any("constant" in note for note in found.notes)


def test_standardised_as_scikit_learn_does(frame):
    from sklearn.preprocessing import StandardScaler

    columns = ["v0", "v1", "paid"]
    _, found = prepare(frame, columns=columns)
    np.testing.assert_allclose(found.X, StandardScaler().fit_transform(frame[columns]), atol=1e-12)


def test_columns_of_all_kinds_of_numbers_keep_their_places():
    """Columns of numbers are read at once, whatever stands between them and however stored."""
    table = pd.DataFrame(
        {
            "text": ["x", "y", "x", "y"],
            "nullable": pd.array([1, None, 3, 4], dtype="Int64"),
            "truth": [True, False, True, True],
            "when": ["2020-01-01", "2020-01-02", "2020-01-03", "2020-01-04"],
            "single": np.array([0.5, 1.5, np.nan, 2.5], dtype=np.float32),
            "whole": [7, 8, 9, 10],
        }
    )
    preparation, found = prepare(
        table, columns=list(table), standardize=False, missing="mean", categorical=["whole"]
    )
    column = dict(zip(preparation.feature_names, found.X.T.tolist(), strict=True))
    assert column["nullable"] == pytest.approx([1, 8 / 3, 3, 4])
    assert column["truth"] == [1, 0, 1, 1]
    assert column["single"] == pytest.approx([0.5, 1.5, 1.5, 2.5])
    assert column["when"] == [18262, 18263, 18264, 18265]
    assert column["text=y"] == [0, 1, 0, 1]
    assert column["whole=9"] == [0, 0, 1, 0]
    again = preparation.apply(table)
    np.testing.assert_array_equal(again.X, found.X)


def test_numbers_are_not_looked_at_one_by_one(monkeypatch):
    """Thousands of columns took seconds in pandas; NumPy needs a pass over all of them."""
    calls = []
    monkeypatch.setattr("fairpca.io.preparation.column_numbers", lambda *_: calls.append(1))
    rng = np.random.default_rng(0)
    wide = pd.DataFrame(rng.normal(size=(5, 300)), columns=[f"c{j}" for j in range(300)])
    _, found = prepare(wide, columns=list(wide))
    assert calls == []
    np.testing.assert_allclose(found.X.std(axis=0), 1.0)
