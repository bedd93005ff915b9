"""Whole tables in memory: layouts of text, other formats, files that do not fit together."""

import gzip
import os

import numpy as np
import pandas as pd
import pytest
from fairpca.io.delimited import Layout, detect

from fairpca.io import read_moments, tables
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

    @pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
    @pytest.mark.parametrize("n_rows", [2, 5, 30])
    @pytest.mark.parametrize("above", ["R", "title", "sep=", "SEP="])
    def test_a_first_row_that_is_unlike_the_others(self, tmp_path, separator, n_rows, above):
        names, rows = ["x", "y", "sex"], [[f"{i}.5", f"{i}.25", "f"] for i in range(n_rows)]
        if above == "R":
            rows = [[f'"{i}"', *row] for i, row in enumerate(rows)]
        lines = [separator.join(row) for row in [names, *rows]]
        lead = {"R": [], "title": ["Our people"]}.get(above, [above + separator])
        frame = read_tables([written(tmp_path, "\n".join([*lead, *lines]))]).frame
        assert frame.columns.tolist() == ["column1"] * (above == "R") + names
        assert frame["y"].tolist() == [i + 0.25 for i in range(n_rows)]

    @pytest.mark.parametrize("quote", ["", '"'])
    def test_a_first_line_for_excel_above_text(self, tmp_path, quote):
        lines = [f"{quote}sep=;{quote}", "sex;city;x", *["f;A;1,5", "m;B;2,5"] * 20]
        path = written(tmp_path, "\r\n".join(lines))
        for layout in (Layout(), Layout(separator=";")):
            frame = read_tables([path], layout).frame
            assert frame.columns.tolist() == ["sex", "city", "x"]
            assert frame["x"].tolist() == [1.5, 2.5] * 20

    @pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-sig"])
    def test_marked_encodings(self, tmp_path, encoding):
        path = written(tmp_path, "ä,b\n1,2\n3,4\n", encoding=encoding)
        assert read_tables([path]).frame.columns.tolist() == ["ä", "b"]

    @pytest.mark.parametrize("encodings", [("utf-16", "utf-8"), ("utf-8", "utf-16")])
    def test_a_file_without_rows_has_an_encoding_of_its_own(self, tmp_path, encodings):
        full = written(tmp_path, "a;b\n1;2\n3;4\n", "full.csv", encodings[0])
        empty = written(tmp_path, "a;b\n", "empty.csv", encodings[1])
        assert read_tables([full, empty]).frame["b"].tolist() == [2, 4]

    @pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
    def test_blank_lines_above_the_rows_take_no_row_along(self, tmp_path, end):
        lines = ["", "a,b", "", "", *(f"{i},{i * i}" for i in range(9))]
        table = tmp_path / "t.csv"
        table.write_bytes(end.join(lines).encode())
        assert read_tables([table]).frame["a"].tolist() == list(range(9))
        # Lines of an error are those of the file.
        table.write_bytes(end.join([*lines, "1,2,3"]).encode())
        with pytest.raises(ValueError, match="Expected 2 fields in line 14, saw 3"):
            read_tables([table])

    def test_other_encodings_are_asked_for(self, tmp_path):
        path = written(tmp_path, "größe,b\n1,2\n", encoding="latin-1")
        with pytest.raises(ValueError, match="latin-1"):
            read_tables([path])
        frame = read_tables([path], Layout(encoding="latin-1")).frame
        assert frame.columns[0] == "größe"
        # Python knows the second one, which is no encoding of text.
        for name in ("klingon", "hex"):
            with pytest.raises(ValueError, match=f"encoding='{name}' is not known"):
                read_tables([path], Layout(encoding=name))

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
            ("Our people\nname,city,age\nAnn,Bonn,3\nBob,Bonn,4\n", 2, ["name", "city", "age"]),
            ("Our people,,\nname,city,age\nAnn,Bonn,3\nBob,,4\n", 2, ["name", "city", "age"]),
            ("who,,\nAnn,Bonn,m\nBob,Bonn,f\n", 1, ["who", "column2", "column3"]),
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

    def test_a_file_that_somebody_still_writes(self, tmp_path, monkeypatch):
        path = written(tmp_path, "a,b\n1,2\n3,4\n")
        read = tables.read_text

        def meddle(*args, **kwargs):
            os.utime(path, (1, 1))
            return read(*args, **kwargs)

        monkeypatch.setattr(tables, "read_text", meddle)
        with pytest.raises(ValueError, match=r"t\.csv changed while the tables were read"):
            read_tables([path])

    @pytest.mark.parametrize("name", ["t.csv.gz", "T.CSV.GZ"])
    def test_compressed(self, tmp_path, name):
        path = tmp_path / name
        path.write_bytes(gzip.compress(b"a,b\n1,2\n3,4\n"))
        assert read_tables([path]).frame["b"].tolist() == [2, 4]

    def test_a_damaged_compressed_file_is_named(self, tmp_path):
        path = tmp_path / "t.csv.gz"
        path.write_bytes(gzip.compress(b"a,g\n1,x\n3,y\n")[:-9])
        with pytest.raises(ValueError, match=r"t\.csv\.gz cannot be read .*write it again"):
            read_tables([path])
        with pytest.raises(ValueError, match=r"t\.csv\.gz cannot be read .*write it again"):
            read_moments(path, sensitive_features="g")

    def test_row_numbers_are_recognised(self, tmp_path):
        text = "id,n,c\n" + "".join(f"{i},{i * 2},5\n" for i in range(7, 20))
        assert read_tables([written(tmp_path, text)]).row_number_columns == ("id",)


class TestOtherFormats:
    def test_a_column_without_values_in_one_file_stays_numbers(self, tmp_path):
        whole = pd.DataFrame({"a": [1.5, 2.5], "g": ["x", "y"]})
        whole.to_parquet(tmp_path / "0.parquet")
        whole.assign(a=None).to_parquet(tmp_path / "1.parquet")
        frame = read_tables(sorted(tmp_path.glob("*.parquet"))).frame
        assert frame["a"].dtype == float
        assert frame["a"].isna().tolist() == [False, False, True, True]
        texts = [written(tmp_path, f"a,b\n{a},1\n{a},2\n", f"{i}.csv") for i, a in enumerate("x ")]
        assert read_tables(texts).frame["a"].tolist()[:2] == ["x", "x"]

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

    def test_half_an_archive_is_named(self, tmp_path):
        path = tmp_path / "t.npz"
        np.savez(path, x=np.ones((50, 2)), y=np.ones(50))
        path.write_bytes(path.read_bytes()[:600])
        with pytest.raises(ValueError, match=r"t\.npz .*or is damaged"):
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


def test_dates_stay_as_they_were_written(tmp_path):
    """They may be labels; only `prepare` makes numbers of them."""
    path = written(tmp_path, "d,t\n2020-01-01,12:30:00\n2021-01-01,13:00:00\n")
    frame = read_tables([path]).frame
    assert frame["d"].tolist() == ["2020-01-01", "2021-01-01"]
    assert frame["t"].tolist() == ["12:30:00", "13:00:00"]


def test_a_row_that_is_too_short_has_missing_cells(tmp_path):
    frame = read_tables([written(tmp_path, "a,b\n1,2\n3\n5,6\n")]).frame
    assert frame["b"].isna().tolist() == [False, True, False]
