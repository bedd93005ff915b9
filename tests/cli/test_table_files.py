"""Reading tables and turning columns into numbers."""

import gzip

import numpy as np
import pandas as pd
import pytest

from fairpca.io.delimited import Layout, detect
from fairpca.io.preparation import Preparation, choose_columns, matching, prepare
from fairpca.io.tables import read_tables


def written(tmp_path, text, name="t.csv", encoding="utf-8"):
    path = tmp_path / name
    path.write_bytes(text.encode(encoding))
    return path


class TestDelimited:
    @pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
    def test_separators(self, tmp_path, separator):
        lines = [["a", "b", "c"], ["1", "2.5", "x"], ["3", "4.5", "y, z"]]
        text = "\n".join(separator.join(f'"{c}"' if "," in c else c for c in row) for row in lines)
        frame = read_tables([written(tmp_path, text)]).frame
        assert frame.columns.tolist() == ["a", "b", "c"]
        assert frame["b"].tolist() == [2.5, 4.5]
        assert frame["c"].tolist() == ["x", "y, z"]

    def test_excel_in_europe(self, tmp_path):
        text = "\ufeffgröße;gewicht;wer\r\n1,75;80,5;müller\r\n1,60;60;meier\r\n"
        read = read_tables([written(tmp_path, text)])
        assert read.frame["größe"].tolist() == [1.75, 1.6]
        assert read.frame["gewicht"].tolist() == [80.5, 60.0]
        assert read.frame["wer"].tolist() == ["müller", "meier"]
        assert "semicolon-separated, decimal commas, 1 header row" in read.notes[0]
        assert "byte-order mark" in read.notes[0]

    @pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
    def test_marked_encodings(self, tmp_path, encoding):
        path = written(tmp_path, "ä,b\n1,2\n3,4\n", encoding=encoding)
        assert read_tables([path]).frame.columns.tolist() == ["ä", "b"]

    def test_other_encodings_are_asked_for(self, tmp_path):
        path = written(tmp_path, "größe,b\n1,2\n", encoding="latin-1")
        with pytest.raises(ValueError, match="latin-1"):
            read_tables([path])
        frame = read_tables([path], Layout(encoding="latin-1")).frame
        assert frame.columns[0] == "größe"
        with pytest.raises(ValueError, match="not known"):
            read_tables([path], Layout(encoding="klingon"))

    @pytest.mark.parametrize(
        "text, rows, names",
        [
            ("a,b\n1,2\n3,4\n", 1, ["a", "b"]),
            ("1,2\n3,4\n5,6\n", 0, ["column1", "column2"]),
            ("0,1,2,3\n3,4,7,7\n5,6,7,7\n", 1, ["0", "1", "2", "3"]),
            (",X1,X2\nID,a,b\n1,2,3\n2,5,6\n", 2, ["ID", "a", "b"]),
            ("a,b\nx,y\nz,w\n", 1, ["a", "b"]),
            ("a,b\nx,1\nz,2\n", 1, ["a", "b"]),
            (",b\n1,2\n3,4\n", 1, ["column1", "b"]),
            ("\n\na,b\n1,2\n3,4\n", 1, ["a", "b"]),
            ('"two\nlines",b\n1,2\n3,4\n', 1, ["two\nlines", "b"]),
        ],
    )
    def test_header_rows(self, tmp_path, text, rows, names):
        path = written(tmp_path, text)
        assert detect(path, Layout())[0].header_rows == rows
        frame = read_tables([path]).frame
        assert frame.columns.tolist() == names
        assert len(frame) >= 2

    def test_everything_can_be_overruled(self, tmp_path):
        path = written(tmp_path, "1;2\n3;4\n")
        frame = read_tables([path], Layout(";", ".", 1)).frame
        assert frame.columns.tolist() == ["1", "2"]
        assert len(frame) == 1

    def test_names_and_rows_that_do_not_fit(self, tmp_path):
        with pytest.raises(ValueError, match="names 3 columns and its rows have 2"):
            read_tables([written(tmp_path, "a,b,c\n1,2\n3,4\n")])
        with pytest.raises(ValueError, match="cannot be read as a table"):
            read_tables([written(tmp_path, "a,b\n" + "1,2\n" * 100 + "1,2,3\n" + "1,2\n" * 5)])
        with pytest.raises(ValueError, match="no row of data"):
            read_tables([written(tmp_path, "a,b\n")])

    def test_repeated_names(self, tmp_path):
        read = read_tables([written(tmp_path, "a,b,a,a\n1,2,3,4\n5,6,7,8\n")])
        assert read.frame.columns.tolist() == ["a", "b", "a (2)", "a (3)"]
        assert read.repeated == ("a",)
        assert any("a (2)" in note for note in read.notes)

    def test_compressed(self, tmp_path):
        path = tmp_path / "t.csv.gz"
        path.write_bytes(gzip.compress(b"a,b\n1,2\n3,4\n"))
        assert read_tables([path]).frame["b"].tolist() == [2, 4]

    def test_row_numbers_are_recognised(self, tmp_path):
        text = "id,n,c\n" + "".join(f"{i},{i * 2},5\n" for i in range(7, 20))
        assert read_tables([written(tmp_path, text)]).row_number_columns == ("id",)


class TestOtherFormats:
    def test_all_give_the_same_frame(self, frame, tmp_path):
        frame.to_csv(tmp_path / "t.csv", index=False)
        frame.to_csv(tmp_path / "t.tsv", index=False, sep="\t")
        frame.to_parquet(tmp_path / "t.parquet", index=False)
        frame.to_feather(tmp_path / "t.feather")
        first = read_tables([tmp_path / "t.csv"]).frame
        for name in ("t.tsv", "t.parquet", "t.feather"):
            other = read_tables([tmp_path / name]).frame
            pd.testing.assert_frame_equal(first, other, check_dtype=False)

    def test_arrow_streams(self, frame, tmp_path):
        import pyarrow as pa

        table = pa.Table.from_pandas(frame[["v0", "sex"]])
        with pa.ipc.new_stream(tmp_path / "t.arrow", table.schema) as sink:
            sink.write_table(table)
        read = read_tables([tmp_path / "t.arrow"]).frame
        assert read["sex"].tolist() == frame["sex"].tolist()

    def test_numpy(self, tmp_path):
        np.save(tmp_path / "a.npy", np.arange(6.0).reshape(3, 2))
        assert read_tables([tmp_path / "a.npy"]).frame.columns.tolist() == ["column1", "column2"]
        np.savez(tmp_path / "b.npz", x=np.ones((3, 2)), sex=np.array(["f", "m", "f"]))
        read = read_tables([tmp_path / "b.npz"]).frame
        assert read.columns.tolist() == ["x_0", "x_1", "sex"]
        structured = np.array([(1, 2.0)] * 3, dtype=[("p", int), ("q", float)])
        np.save(tmp_path / "c.npy", structured)
        assert read_tables([tmp_path / "c.npy"]).frame.columns.tolist() == ["p", "q"]

    def test_numpy_files_never_run_code(self, tmp_path):
        path = tmp_path / "evil.npy"
        np.save(path, np.array([{"a": 1}], dtype=object), allow_pickle=True)
        with pytest.raises(ValueError, match="without running code"):
            read_tables([path])

    @pytest.mark.parametrize("name", ["t.parquet", "t.feather", "t.npy", "t.npz", "t.csv"])
    def test_rubbish(self, tmp_path, name):
        path = tmp_path / name
        path.write_bytes(b"\x00\x01rubbish" * 50)
        with pytest.raises(ValueError, match=name.replace(".", r"\.")):
            read_tables([path])

    def test_arrays_that_are_no_table(self, tmp_path):
        np.savez(tmp_path / "a.npz", x=np.ones((3, 2)), y=np.ones(4))
        with pytest.raises(ValueError, match="different lengths"):
            read_tables([tmp_path / "a.npz"])
        np.save(tmp_path / "b.npy", np.ones((2, 2, 2)))
        with pytest.raises(ValueError, match="shape"):
            read_tables([tmp_path / "b.npy"])

    def test_files_with_other_columns(self, tmp_path):
        first = written(tmp_path, "a,b\n1,2\n3,4\n", "a.csv")
        second = written(tmp_path, "a,c\n1,2\n3,4\n", "b.csv")
        with pytest.raises(ValueError, match="'b', 'c'"):
            read_tables([first, second])

    def test_unknown_endings(self, tmp_path):
        with pytest.raises(ValueError, match=r"'\.xlsx' is not known"):
            read_tables([written(tmp_path, "a", "t.xlsx")])


class TestPreparation:
    def test_numbers_and_categories(self, frame):
        preparation, found = prepare(frame, columns=["v0", "plan"])
        assert preparation.feature_names == ["v0", "plan=basic", "plan=plus", "plan=pro"]
        np.testing.assert_allclose(found.X.mean(axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(found.X.std(axis=0, ddof=1), 1)
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
            when=pd.Timestamp("2020-01-01"),
            name=[f"person {i}" for i in range(160)],
            nothing=np.nan,
        )
        _, found = prepare(odd, columns=["v0", "when", "name", "nothing"])
        assert found.X.shape == (160, 1)
        for name in ("'when'", "'name' (text, 160 distinct values)", "'nothing' (no values)"):
            assert name in found.notes[1]
        with pytest.raises(ValueError, match="no column is left"):
            prepare(odd, columns=["name"])

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
