"""Memory, pieces and clusters take the same files, refuse the same files and say the same."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from fairpca.cli.loading import as_written
from fairpca.io.preparation import prepare

from fairpca import GroupMoments
from fairpca.distributed import dask, parquet
from fairpca.io import delimited, read_moments
from fairpca.io.tables import read_tables

KINDS = ["parquet", "feather", "csv"]


def write(frame, path):
    table = frame if isinstance(frame, pa.Table) else pa.Table.from_pandas(frame)
    if path.suffix == ".parquet":
        pq.write_table(table, path)
    elif path.suffix == ".feather":
        pyarrow.feather.write_feather(table, path)
    else:
        table.to_pandas(ignore_metadata=True).to_csv(path, index=False)
    return path


def in_memory(paths, features, label="g"):
    frame = read_tables(paths).frame
    _, found = prepare(frame, columns=features, standardize=False)
    return GroupMoments.from_array(found.X, {label: frame[label].to_numpy()[found.kept]})


def on_dask(paths, features, label="g"):
    return dask.read_moments(
        paths,
        sensitive_features=[label],
        features=features,
        sample_weight=None,
        unlabelled="error",
        scheduler=None,
        memory_limit=None,
    )


def in_pieces(paths, features, label="g"):
    return read_moments(paths, sensitive_features=[label], features=features)


def by_products(paths, features, label="g"):
    return parquet.operators(paths, sensitive_features=[label], features=features)


def readers(kind):
    """Return the readers that take a kind of file."""
    clusters = [on_dask, by_products] if kind == "parquet" else []
    return [in_memory, in_pieces, *clusters]


def rows(m=50, seed=0):
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {"a": rng.normal(size=m), "b": rng.normal(size=m), "g": ["x", "y"] * (m // 2)}
    )


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


class TestTypesThatDiffer:
    def test_numbers_are_numbers(self, tmp_path, kind):
        """Whole numbers in one file, fractions in the next, truth values in the third."""
        one, two, three = rows(seed=0), rows(seed=1), rows(seed=2)
        one["a"], three["a"] = np.arange(50) % 7, three["a"] > 0
        one["b"] = one["b"].astype("float32")
        paths = [write(f, tmp_path / f"{i}.{kind}") for i, f in enumerate((one, two, three))]
        whole = pd.concat([f.astype({"a": float, "b": float}) for f in (one, two, three)])
        want = GroupMoments.from_array(whole[["a", "b"]].to_numpy(), whole["g"].to_numpy())
        for read in readers(kind):
            got = read(paths, ["a", "b"])
            np.testing.assert_array_equal(got.count, want.count)
            np.testing.assert_allclose(got.mean, want.mean, atol=1e-7)

    @pytest.mark.parametrize("column", ["a", "g"])
    def test_text_is_not_a_number(self, tmp_path, column):
        one, two = rows(seed=0), rows(seed=1)
        two[column] = 1 if column == "g" else "text"
        paths = [write(f, tmp_path / f"{i}.parquet") for i, f in enumerate((one, two))]
        for read in readers("parquet"):
            with pytest.raises(ValueError, match=rf"1\.parquet: column '{column}' has the type"):
                read(paths, ["a", "b"])

    def test_text_files_become_text_with_a_note(self, tmp_path):
        """A column of numbers beside a column of text is what one file with both would be."""
        one, two = rows(seed=0).assign(code=7), rows(seed=1).assign(code="7a")
        table = read_tables([write(f, tmp_path / f"{i}.csv") for i, f in enumerate((one, two))])
        assert set(table.frame["code"]) == {"7", "7a"}
        assert any("'code' is text in some files" in note for note in table.notes)

    def test_decimals_are_numbers(self, tmp_path):
        table = pa.table({"a": pa.array([1, 2, 4], pa.decimal128(9, 2)), "g": list("xyx")})
        path = write(table, tmp_path / "t.parquet")
        for read in readers("parquet"):
            np.testing.assert_allclose(read([path], ["a"]).mean, [[2.5], [2.0]])

    def test_the_index_of_a_frame_is_no_column(self, tmp_path):
        frame = rows().sample(frac=1.0, random_state=0)
        frame.to_parquet(tmp_path / "t.parquet")
        assert "__index_level_0__" in pq.read_schema(tmp_path / "t.parquet").names
        for read in (in_pieces, on_dask, by_products):
            assert read([tmp_path / "t.parquet"], None).mean.shape == (2, 2)
        assert list(read_tables([tmp_path / "t.parquet"]).frame.columns) == ["a", "b", "g"]


class TestCodesThatBeginWithZero:
    """01 and 1 were one group in silence, and 00501 was called 501."""

    def write(self, path, codes):
        path.write_text("a,code\n" + "".join(f"{i * i % 7},{c}\n" for i, c in enumerate(codes)))
        return path

    def test_they_are_text(self, tmp_path):
        path = self.write(tmp_path / "t.csv", ["01234", "1234", "00501", "1234"])
        assert read_tables([path], labels=["code"]).frame["code"].tolist() == [
            "01234",
            "1234",
            "00501",
            "1234",
        ]
        moments = in_pieces([path], ["a"], "code")
        assert dict(zip(moments.labels, moments.count, strict=True)) == {
            "00501": 1,
            "01234": 1,
            "1234": 2,
        }

    @pytest.mark.parametrize("codes", ["10 0 -3", "0.5 1 ", "2  4", "True FALSE true", "x 01 "])
    def test_other_labels_are_what_they_are_as_features(self, tmp_path, codes):
        path = self.write(tmp_path / "t.csv", codes.split(" "))
        frame = read_tables([path], labels=["code"]).frame
        pd.testing.assert_frame_equal(frame, read_tables([path]).frame)

    def test_a_column_without_a_name(self, tmp_path):
        path = tmp_path / "t.csv"
        path.write_text("1.5,01\n2.5,1\n3.5,01\n")
        assert read_tables([path], labels=["2"]).frame["column2"].tolist() == ["01", "1", "01"]

    def test_one_file_with_them_and_one_without(self, tmp_path):
        one = self.write(tmp_path / "1.csv", ["01", "02"])
        two = self.write(tmp_path / "2.csv", ["10", "11"])
        frame = read_tables([two, one], labels=["code"]).frame
        assert frame["code"].tolist() == ["10", "11", "01", "02"]

    def test_in_pieces_a_late_one_is_an_error(self, tmp_path):
        """The first rows say that labels are numbers, and 01 is none."""
        path = self.write(tmp_path / "t.csv", ["1", "2"] * delimited._TYPE_ROWS + ["01"])
        with pytest.raises(ValueError, match=r"holds '01', which is not a whole number"):
            in_pieces([path], ["a"], "code")


class TestTruthValuesWithGaps:
    """pandas stores them as objects, which are neither text nor numbers here."""

    cells = ([True, False, None, True, False] * 10)[:50]

    def test_they_are_labels_of_their_own(self, tmp_path, kind):
        path = write(pa.table({"a": np.arange(50.0), "g": self.cells}), tmp_path / f"t.{kind}")
        labels = as_written(read_tables([path]).frame["g"])
        assert set(labels) == {True, False, None} == set(self.cells)
        assert {type(label) for label in labels} == {bool, type(None)}
        pieces = read_moments(path, sensitive_features="g", unlabelled="ignore")
        assert pieces.labels == (None, False, True)

    def test_they_are_numbers_with_gaps(self, tmp_path, kind):
        """In a Parquet file they were text, and no gap was an error."""
        table = pa.table({"a": self.cells, "g": ["x", "y"] * 25})
        paths = [write(table, tmp_path / f"{i}.{kind}") for i in range(2)]
        whole = pa.table({"a": [True, False] * 5, "g": ["x", "y"] * 5})
        paths.append(write(whole, tmp_path / f"2.{kind}"))
        for read in readers(kind):
            with pytest.raises(ValueError, match=r"'a' \(20\)|NaN"):
                read(paths, ["a"])
        frame = read_tables(paths).frame
        found, prepared = prepare(frame, columns=["a"], missing="mean", standardize=False)
        assert found.feature_names == ["a"]
        assert set(prepared.X[:, 0]) == {0.0, 0.5, 1.0}


class TestLargeIntegers:
    def test_features_are_rounded_to_the_nearest_double(self, tmp_path, kind):
        big = 2**53 + 1 + 2 * np.arange(50)
        path = write(rows().assign(a=big), tmp_path / f"t.{kind}")
        for read in readers(kind):
            got = read([path], ["a"])
            np.testing.assert_allclose(got.mean[:, 0], [big[::2].mean(), big[1::2].mean()])

    def test_labels_stay_exact(self, tmp_path, kind):
        frame = rows().assign(g=np.where(np.arange(50) % 2, 2**53, 2**53 + 1))
        path = write(frame, tmp_path / f"t.{kind}")
        for read in readers(kind):
            assert read([path], ["a", "b"]).labels == (2**53, 2**53 + 1)

    def test_larger_than_any_integer_type(self, tmp_path):
        path = tmp_path / "t.csv"
        path.write_text("a,g\n" + "".join(f"{10**25 + i},x\n{i},y\n" for i in range(40)))
        for read in readers("csv"):
            np.testing.assert_allclose(read([path], ["a"]).mean, [[1e25], [19.5]])


class TestEmptyFiles:
    @pytest.mark.parametrize("at", [0, 1])
    def test_a_file_without_rows_beside_one_with_rows(self, tmp_path, kind, at):
        frames = [rows(), rows(seed=1)]
        frames[at] = frames[at].iloc[:0]
        paths = [write(f, tmp_path / f"{i}.{kind}") for i, f in enumerate(frames)]
        for read in readers(kind):
            assert read(paths, ["a", "b"]).count.sum() == 50

    def test_no_rows_at_all(self, tmp_path, kind):
        path = write(rows().iloc[:0], tmp_path / f"t.{kind}")
        for read in readers(kind):
            with pytest.raises(ValueError, match="no row"):
                read([path], ["a", "b"])

    def test_no_bytes(self, tmp_path, kind):
        path = tmp_path / f"t.{kind}"
        path.touch()
        for read in readers(kind):
            with pytest.raises(ValueError, match=rf"t\.{kind} is empty \(0 bytes\)"):
                read([path], ["a", "b"])


class TestColumnsThatDiffer:
    @pytest.mark.parametrize("at", [0, 1])
    def test_a_column_that_one_file_lacks_is_refused_in_any_order(self, tmp_path, kind, at):
        """In pieces, a column that only a later file has was left out in silence."""
        frames = [rows(seed=0), rows(seed=1)]
        frames[at]["c"] = 1.0
        paths = [write(f, tmp_path / f"{i}.{kind}") for i, f in enumerate(frames)]
        with pytest.raises(ValueError, match=r"1\.\w+ has other columns than the first file: 'c'"):
            read_tables(paths)
        for read in [read for read in readers(kind) if read is not in_memory]:
            match = rf"{1 - at}\.\w+ has no column 'c', which .*{at}\.\w+ has"
            with pytest.raises(ValueError, match=match):
                read(paths, None)
            with pytest.raises(ValueError, match=match):
                read(paths, ["a", "c*"])
            assert read(paths, ["a", "b"]).count.sum() == 100
        dropped = read_moments(paths, sensitive_features="g", drop=["c"])
        assert dropped.mean.shape == (2, 2)


class TestFoldersAndDamage:
    def test_names_with_a_dot_or_underscore_are_left_out_at_every_level(self, tmp_path):
        for place in (".", "year=2020", "_temporary/0", ".hidden", "year=2020/_tmp"):
            (tmp_path / place).mkdir(parents=True, exist_ok=True)
            write(rows(), tmp_path / place / "part.parquet")
        write(rows(), tmp_path / "_metadata.parquet")
        write(rows(), tmp_path / "year=2020" / ".part.parquet")
        for read in (in_pieces, on_dask, by_products):
            assert read([tmp_path], ["a", "b"]).count.sum() == 100
        assert in_pieces(f"{tmp_path}/**/*.parquet", ["a", "b"]).count.sum() == 100

    @pytest.mark.parametrize("damage", ["cut", "garbage"])
    def test_a_damaged_file_is_named(self, tmp_path, damage):
        good, bad = write(rows(), tmp_path / "good.parquet"), tmp_path / "bad.parquet"
        data = good.read_bytes()
        bad.write_bytes(data[:700] if damage == "cut" else b"PAR1" + bytes(99) + b"PAR1")
        for read in readers("parquet"):
            with pytest.raises(ValueError, match=r"bad\.parquet cannot be read"):
                read([good, bad], ["a", "b"])

    def test_clusters_read_parquet_only(self, tmp_path):
        path = write(rows(), tmp_path / "t.csv")
        for read in (on_dask, by_products):
            with pytest.raises(ValueError, match=r"t\.csv is no Parquet file"):
                read([path], ["a", "b"])


class TestMissingLabels:
    def test_the_row_of_the_file_is_named(self, tmp_path, kind):
        frame = rows(400)
        frame.loc[[333, 350], "g"] = None
        path = tmp_path / f"t.{kind}"
        if kind == "parquet":
            frame.to_parquet(path, row_group_size=30)
        elif kind == "feather":
            pyarrow.feather.write_feather(pa.Table.from_pandas(frame), path, chunksize=30)
        else:
            frame.to_csv(path, index=False)
        match = rf"t\.{kind}, data row 334 .*: the label is missing.*unlabelled='ignore'"
        for source in (path, [path]):
            with pytest.raises(ValueError, match=match):
                read_moments(source, sensitive_features="g", batch_rows=60)
        if kind == "parquet":
            for read in (on_dask, by_products):
                with pytest.raises(ValueError, match=match):
                    read([path], ["a", "b"])

    def test_beside_a_memory_map(self, tmp_path):
        np.save(tmp_path / "x.npy", np.random.default_rng(0).normal(size=(90, 2)))
        labels = np.array(["x", "y"] * 45, dtype=object)
        labels[77] = None
        with pytest.raises(ValueError, match=r"x\.npy, data row 78 .*: the label is missing"):
            read_moments(tmp_path / "x.npy", sensitive_features=labels, batch_rows=40)


class TestText:
    """What pandas reads in memory is what it reads in pieces."""

    @pytest.mark.parametrize(
        "text",
        [
            '1, "f, or x"\n2, "m"\n3, "f, or x"\n4, "m"\n',
            "1,f\n2,m\n\n3,f\n4,m\n",
            "1, f\n2, m\n NA, f\n4, m\n",
        ],
        ids=["quotes after a space", "blank lines", "missing after a space"],
    )
    def test_one_parser(self, tmp_path, text):
        path = tmp_path / "t.csv"
        path.write_text("a,g\n" + text)
        frame = read_tables([path]).frame.dropna()
        memory = GroupMoments.from_array(frame[["a"]].to_numpy(), frame[["g"]])
        if frame["a"].isna().any() or len(frame) < 4:
            with pytest.raises(ValueError, match=r"data row 3 .*: column 'a' holds NaN"):
                in_pieces([path], ["a"])
            return
        pieces = in_pieces([path], ["a"])
        assert pieces.labels == memory.labels
        np.testing.assert_array_equal(pieces.mean, memory.mean)

    def test_an_odd_cell_is_named_in_pieces(self, tmp_path):
        cells = [str(i) for i in range(300)]
        cells[250] = "0x10"
        path = tmp_path / "t.csv"
        path.write_text("a,g\n" + "".join(f"{c},{'xy'[i % 2]}\n" for i, c in enumerate(cells)))
        for batch_rows in (100, 1000):
            with pytest.raises(
                ValueError, match=r"t\.csv, data row 251 .*: column 'a' holds '0x10'"
            ):
                read_moments(path, sensitive_features="g", batch_rows=batch_rows)
