"""Files of every kind give the same table, or an error that names the file and the remedy."""

import numpy as np
import pandas as pd
import pytest

from fairpca.io import tables
from fairpca.io.tables import Layout, Roles, open_files


def read(path, texts=(), **layout):
    return open_files(path, Layout(**layout)).frame(texts)


@pytest.fixture
def numbers(frame):
    """Return the columns that every kind of file can hold."""
    return frame[["v0", "v1", "v2", "v3", "paid"]].astype(float)


WRITERS = {
    "t.csv": lambda f, p: f.to_csv(p, index=False),
    "t.csv.gz": lambda f, p: f.to_csv(p, index=False),
    "t.tsv": lambda f, p: f.to_csv(p, index=False, sep="\t"),
    "t.parquet": lambda f, p: f.to_parquet(p, row_group_size=37),
    "t.feather": lambda f, p: f.to_feather(p),
    "t.npy": lambda f, p: np.save(p, f.to_numpy()),
}


@pytest.mark.parametrize("name", WRITERS)
def test_every_kind_of_file_holds_the_same_rows(numbers, tmp_path, name):
    WRITERS[name](numbers, tmp_path / name)
    files = open_files(tmp_path / name)
    whole = files.frame()
    np.testing.assert_allclose(whole.to_numpy(), numbers.to_numpy(), rtol=1e-15)
    if name != "t.npy":
        assert list(whole) == list(numbers)
    pieces = list(files.batches(files.names[::2], 50))
    assert max(map(len, pieces)) <= 50
    assert len(pieces) > 1
    np.testing.assert_array_equal(np.vstack(pieces), whole.to_numpy()[:, ::2])


@pytest.mark.parametrize("sep", [",", ";", "\t", "|"])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_separators_and_marks_of_an_encoding_are_found(frame, tmp_path, sep, encoding):
    frame.rename(columns={"city": "čity"}).to_csv(
        tmp_path / "t.csv", sep=sep, index=False, encoding=encoding
    )
    found = read(tmp_path / "t.csv")
    assert list(found)[2] == "čity"
    np.testing.assert_array_equal(found[["id", "v0"]], frame[["id", "v0"]])
    assert found["plan"].tolist() == frame["plan"].tolist()


def test_what_is_not_guessed_is_said(tmp_path):
    path = tmp_path / "t.txt"
    path.write_bytes("Bericht;;\nname;größe;x\na;1,5;2\nb;2,5;3\n".encode("latin-1"))
    found = read(path, sep=";", decimal=",", header=2, encoding="latin-1")
    assert list(found) == ["name", "größe", "x"]
    assert found["größe"].tolist() == [1.5, 2.5]
    with pytest.raises(ValueError, match="--encoding latin-1"):
        read(path)
    (tmp_path / "n.csv").write_text("1,2.5\n3,4.5\n")
    assert read(tmp_path / "n.csv", header=0).to_numpy().tolist() == [[1, 2.5], [3, 4.5]]


@pytest.mark.parametrize(
    "text",
    ["1.5,2\n3,4\n5,6\n", "anna,7,f\nben,8,m\ncara,9,f\n", "f,yes\nm,yes\nf,no\nm,yes\n"],
)
def test_a_first_row_of_data_is_never_taken_for_names_in_silence(tmp_path, text):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(ValueError, match=r"t\.csv.*--header 0"):
        read(tmp_path / "t.csv")
    assert len(read(tmp_path / "t.csv", header=0)) == text.count("\n")
    assert len(read(tmp_path / "t.csv", header=1)) == text.count("\n") - 1


def test_names_that_are_years_or_count_the_columns_are_names(tmp_path):
    (tmp_path / "t.csv").write_text("city,2019,2020,2021\na,1,2,3\nb,4,5,7\n")
    assert list(read(tmp_path / "t.csv")) == ["city", "2019", "2020", "2021"]


def test_numbers_keep_fractions_and_gaps_that_come_late(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "_STREAM_BLOCK", 2**14)
    rows = [f"a,{i % 7},{i}" for i in range(4_000)] + ["b,2.5,"]
    (tmp_path / "t.csv").write_text("\n".join(["g,x,y", *rows]))
    found = read(tmp_path / "t.csv")
    assert found["x"].iloc[-1] == 2.5
    assert np.isnan(found["y"].iloc[-1])
    last = list(open_files(tmp_path / "t.csv").batches(["x"], 500))[-1]
    assert last["x"].iloc[-1] == 2.5


def test_lines_of_more_than_256_kilobytes_are_read(tmp_path):
    X = np.arange(9_000.0).reshape(3, -1) / 7
    names = [f"gene{j:0120d}" for j in range(X.shape[1])]
    pd.DataFrame(X, columns=names).to_csv(tmp_path / "t.csv", index=False)
    assert len(",".join(names)) > 256_000
    np.testing.assert_allclose(read(tmp_path / "t.csv"), X, rtol=1e-15)


def test_labels_stay_as_they_are_written(tmp_path):
    (tmp_path / "t.csv").write_text("zip,x\n01234,1\n1234,2\n01234,3\n")
    assert read(tmp_path / "t.csv", texts=["zip"])["zip"].tolist() == ["01234", "1234", "01234"]


def test_several_files_and_folders_are_one_table(numbers, tmp_path):
    (tmp_path / "part" / "_old").mkdir(parents=True)
    numbers[:60].to_parquet(tmp_path / "part" / "a.parquet")
    numbers[60:][numbers.columns[::-1]].to_parquet(tmp_path / "part" / "b.parquet")
    numbers.to_parquet(tmp_path / "part" / "_old" / "c.parquet")
    pd.testing.assert_frame_equal(read(tmp_path / "part"), numbers)


def damaged(name, content):
    def write(folder):
        (folder / name).write_bytes(content)
        return folder / name

    return write


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (damaged("t.csv", b""), "it is empty"),
        (damaged("t.csv", b"a,b\n"), "has no rows of data"),
        (damaged("t.csv", b"a,b\n1,2\n3,4,5\n"), "Expected 2 columns, got 3"),
        (damaged("t.csv", b"a,a\n1,2\n"), "several columns called 'a'"),
        (damaged("t.csv", b"a\0,b\n1,2\n"), "NUL characters"),
        (damaged("t.parquet", b"PAR1 and no more"), "t.parquet cannot be read"),
        (damaged("t.feather", b"ARROW1"), "t.feather cannot be read"),
        (damaged("t.npy", b"\x93NUMPY\x01"), "t.npy cannot be read"),
        (damaged("t.xlsx", b"a"), "no known kind.*Save the sheet as CSV"),
        (lambda folder: [folder], "folder is empty"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path, write, said):
    with pytest.raises(ValueError, match=said):
        read(write(tmp_path))


def test_files_that_do_not_belong_together_are_named(numbers, tmp_path):
    numbers.to_csv(tmp_path / "a.csv", index=False)
    numbers.rename(columns={"v1": "w1"}).to_csv(tmp_path / "b.csv", index=False)
    numbers.to_parquet(tmp_path / "c.parquet")
    with pytest.raises(ValueError, match=r"b\.csv has other columns .*'v1', 'w1'"):
        read([tmp_path / "a.csv", tmp_path / "b.csv"])
    with pytest.raises(ValueError, match=r"c\.parquet is of another kind"):
        read([tmp_path / "a.csv", tmp_path / "c.parquet"])


def test_roles_of_columns(frame):
    roles = Roles.choose(
        list(frame),
        sensitive_features=["sex", "v0>=1"],
        drop=["v[12]", "id"],
        sample_weight="paid",
        blocks="city",
    )
    assert roles.features == ("v3", "plan")
    assert set(roles.groups(frame).labels) == {(s, t) for s in "fm" for t in ("v0 < 1", "v0 >= 1")}
    with pytest.raises(ValueError, match=r"no column 'Plan'.*Did you mean"):
        Roles.choose(list(frame), columns=["Plan"])
    with pytest.raises(ValueError, match="drop fewer"):
        Roles.choose(list(frame), drop="*")
