"""One answer from memory, from shuffled chunks and from every kind of file."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

from fairpca import FairPCA, GroupMoments
from fairpca.io import Progress, read_moments

from tables import credit, faces


def projector(model):
    return model.components_.T @ model.components_


def frame_of(X, labels):
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])
    frame["group"] = labels
    return frame


def write_parts(frame, folder, kind, n_files=3, **kwargs):
    """Write a frame as several files of a kind and return their paths."""
    paths = []
    for i, rows in enumerate(np.array_split(np.arange(len(frame)), n_files)):
        path, part = folder / f"part{i}.{kind}", frame.iloc[rows]
        if kind == "parquet":
            part.to_parquet(path, index=False, **kwargs)
        elif kind == "feather":
            pa.feather.write_feather(pa.Table.from_pandas(part, preserve_index=False), path)
        else:
            part.to_csv(path, index=False, sep="\t" if kind == "tsv" else ",")
        paths.append(path)
    return paths


@pytest.fixture(scope="module", params=["credit", "faces"])
def table(request):
    """Return rows, labels, a rank and the model fitted in memory."""
    load, r, step = {"credit": (credit, 5, 1), "faces": (faces, 8, 9)}[request.param]
    X, labels = load()
    # Every fifth row, and every ninth pixel: the same kinds of files, a fraction of the work.
    X, labels = np.ascontiguousarray(X[::5, ::step]), labels[::5]
    return X, labels, r, FairPCA(r).fit(X, sensitive_features=labels)


def assert_same_model(moments, table):
    *_, r, expected = table
    model = FairPCA(r).fit_moments(moments)
    assert np.abs(projector(model) - projector(expected)).max() <= 1e-10
    assert model.groups_ == expected.groups_
    np.testing.assert_array_equal(model.group_counts_, expected.group_counts_)
    np.testing.assert_allclose(model.mean_, expected.mean_, atol=1e-11)
    np.testing.assert_allclose(model.group_losses_, expected.group_losses_, rtol=1e-7)


class TestOneAnswer:
    def test_a_thousand_shuffled_chunks(self, table):
        X, labels, *_ = table
        order = np.random.default_rng(0).permutation(len(X))
        chunks = np.array_split(order, 1000)
        moments = GroupMoments.from_array(X[chunks[0]], labels[chunks[0]])
        for chunk in chunks[1:]:
            moments = moments.update(X[chunk], labels[chunk])
        assert_same_model(moments, table)

    @pytest.mark.parametrize("kind", ["parquet", "feather", "csv", "tsv"])
    def test_files(self, table, tmp_path, kind):
        paths = write_parts(frame_of(*table[:2]), tmp_path, kind)
        assert_same_model(read_moments(paths, sensitive_features="group"), table)

    def test_small_row_groups_and_batches(self, table, tmp_path):
        write_parts(frame_of(*table[:2]), tmp_path, "parquet", row_group_size=97)
        moments = read_moments(tmp_path, sensitive_features=["group"], batch_rows=301)
        assert_same_model(moments, table)

    @pytest.mark.parametrize("order", ["C", "F"])
    def test_memory_map(self, table, tmp_path, order):
        X, labels, *_ = table
        np.save(tmp_path / "x.npy", np.asarray(X, order=order))
        np.save(tmp_path / "g.npy", labels)
        given = {"file": str(tmp_path / "g.npy"), "array": labels, "list": labels.tolist()}
        for labels_given in given.values():
            moments = read_moments(
                tmp_path / "x.npy", sensitive_features=labels_given, batch_rows=500
            )
            assert_same_model(moments, table)

    def test_memory_map_with_a_column_of_labels(self, table, tmp_path):
        X, labels, r, expected = table
        np.save(tmp_path / "x.npy", np.column_stack([labels == "B", X]))
        for column in (0, [0], "column1"):
            model = FairPCA(r).fit_moments(
                read_moments(tmp_path / "x.npy", sensitive_features=column)
            )
            assert np.abs(projector(model) - projector(expected)).max() <= 1e-10
            assert model.groups_ == [0.0, 1.0]

    def test_memory_map_with_chosen_columns_and_weights(self, tmp_path):
        rng = np.random.default_rng(6)
        X, weight = rng.normal(size=(90, 4)), rng.uniform(size=90)
        labels = np.resize(["a", "b", "c"], 90)
        np.save(tmp_path / "w.npy", weight)
        expected = GroupMoments.from_array(X[:, [2, 0]], labels, sample_weight=weight)
        for order in "CF":
            np.save(tmp_path / "x.npy", np.asarray(np.column_stack([X, weight]), order=order))
            for given in (weight, str(tmp_path / "w.npy"), 4, "column5"):
                got = read_moments(
                    tmp_path / "x.npy",
                    sensitive_features=labels,
                    sample_weight=given,
                    features=[2, "column1"],
                    batch_rows=40,
                )
                assert_same_moments(got, expected)


@pytest.fixture
def people():
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(rng.normal(size=(400, 4)), columns=["a", "b", "c", "d"])
    frame["sex"] = rng.choice(["f", "m"], size=400)
    frame["w"] = rng.uniform(0.5, 2, size=400)
    return frame


def assert_same_moments(got, expected):
    assert (got.labels, got.names) == (expected.labels, expected.names)
    assert [type(label) for label in got.labels] == [type(label) for label in expected.labels]
    np.testing.assert_array_equal(got.count, expected.count)
    np.testing.assert_allclose(got.weight, expected.weight)
    np.testing.assert_allclose(got.mean, expected.mean, atol=1e-12)
    np.testing.assert_allclose(got.scatter, expected.scatter, atol=1e-9)


class TestLabels:
    @pytest.mark.parametrize("kind", ["parquet", "feather", "csv"])
    @pytest.mark.parametrize(
        "labels",
        [
            ["f", "m", "x", "m"],
            [3, 1, 2, 1],
            [True, False, True, True],
            [1.5, 2.5, 1.5, 1.5],
            [" f", "m", " f", "m"],
            ["2020-01-01", "2021-01-01", "2020-01-01", "2020-01-01"],
        ],
        ids=["text", "whole", "truth", "float", "spaces", "dates"],
    )
    def test_as_in_memory(self, people, labels, kind, tmp_path):
        people["sex"] = np.resize(np.array(labels), len(people))
        paths = write_parts(people, tmp_path, kind)
        if kind == "csv":
            # As the command line reads it.
            first = pd.read_csv(paths[0], skipinitialspace=True)["sex"].iloc[:4]
            people["sex"] = first.tolist() * 100
        expected = GroupMoments.from_array(people[list("abcd")].to_numpy(), people[["sex"]])
        got = read_moments(paths, sensitive_features="sex", drop=["w"])
        assert_same_moments(got, expected)

    @pytest.mark.parametrize("kind", ["parquet", "feather", "csv"])
    def test_numbers_cut_in_two(self, people, tmp_path, kind):
        people.loc[::9, "d"] = np.nan
        paths = write_parts(people, tmp_path, kind)
        side = np.where(people["d"] > 0.5, "d > 0.5", "d <= 0.5").astype(object)
        side[people["d"].isna()] = None
        expected = GroupMoments.from_array(
            people[list("abc")].to_numpy(), {"d": side}, unlabelled="ignore"
        )
        options = dict(sensitive_features=["d>0.5"], drop=["w", "sex"], unlabelled="ignore")
        assert_same_moments(read_moments(paths, **options), expected)
        np.save(tmp_path / "x.npy", people[list("abcd")].to_numpy())
        options["sensitive_features"], options["drop"] = ["column4 > 0.5"], None
        got = read_moments(tmp_path / "x.npy", **options)
        np.testing.assert_allclose(got.scatter, expected.scatter[[0, 1, 2]], atol=1e-9)

    def test_dictionaries_with_unused_levels(self, people, tmp_path):
        expected = GroupMoments.from_array(people[list("abcd")].to_numpy(), people[["sex"]])
        people["sex"] = pd.Categorical(people["sex"], categories=["never", "m", "f"])
        paths = write_parts(people, tmp_path, "parquet")
        (tmp_path / "more").mkdir()
        paths += write_parts(people.iloc[:0], tmp_path / "more", "parquet", n_files=1)
        got = read_moments(paths, sensitive_features="sex", features=["a", "b", "c", "d"])
        assert_same_moments(got, expected)

    @pytest.mark.parametrize("kind", ["parquet", "feather", "csv"])
    def test_missing_labels_and_crossed_columns(self, people, tmp_path, kind):
        people["city"] = np.resize(["x", "y", "z"], len(people))
        people.loc[::7, "sex"] = None
        paths = write_parts(people, tmp_path, kind)
        with pytest.raises(ValueError, match=r"part0.*label is missing.*unlabelled='ignore'"):
            read_moments(paths, sensitive_features=["sex", "city"], drop=["w"])
        for group_by in ("intersection", "marginal"):
            options = {"group_by": group_by, "unlabelled": "ignore"}
            got = read_moments(paths, sensitive_features=["sex", "city"], drop=["w"], **options)
            expected = GroupMoments.from_array(
                people[list("abcd")].to_numpy(), people[["sex", "city"]], **options
            )
            assert_same_moments(got, expected)


class TestColumns:
    def test_only_the_columns_asked_for(self, people, tmp_path):
        people["note"] = "text"
        paths = write_parts(people, tmp_path, "parquet")
        got = read_moments(paths, sensitive_features="sex", features=["[a-c]"], drop=["b"])
        expected = GroupMoments.from_array(people[["a", "c"]].to_numpy(), people[["sex"]])
        assert_same_moments(got, expected)

    @pytest.mark.parametrize("kind", ["parquet", "feather", "csv"])
    def test_weights(self, people, tmp_path, kind):
        people.loc[:199, "w"] = 0.0
        paths = write_parts(people, tmp_path, kind, n_files=2)
        got = read_moments(paths, sensitive_features="sex", sample_weight="w")
        expected = GroupMoments.from_array(
            people[list("abcd")].to_numpy(), people[["sex"]], sample_weight=people["w"]
        )
        assert_same_moments(got, expected)

    def test_numbers_of_any_width(self, people, tmp_path):
        people = people.astype({"a": "float32", "b": "float16"})
        people["c"] = np.arange(400, dtype="int16")
        people["d"] = people["d"] > 0
        paths = write_parts(people, tmp_path, "parquet")
        got = read_moments(paths, sensitive_features="sex", drop=["w"])
        X = people[list("abcd")].astype(float).to_numpy()
        assert_same_moments(got, GroupMoments.from_array(X, people[["sex"]]))

    def test_a_decimal_comma_and_a_compressed_file(self, people, tmp_path):
        people.to_csv(tmp_path / "p.csv.gz", index=False, sep=";", decimal=",")
        got = read_moments(tmp_path / "p.csv.gz", sensitive_features="sex", drop=["w"])
        expected = GroupMoments.from_array(people[list("abcd")].to_numpy(), people[["sex"]])
        assert_same_moments(got, expected)


class TestTheRun:
    @pytest.mark.parametrize("kind", ["parquet", "csv"])
    def test_neither_jobs_nor_backend_change_a_digit(self, people, tmp_path, kind):
        write_parts(people, tmp_path, kind, **({} if kind == "csv" else {"row_group_size": 20}))
        runs = [
            read_moments(
                tmp_path, sensitive_features="sex", batch_rows=40, n_jobs=n_jobs, backend=backend
            )
            for n_jobs, backend in [(1, "thread"), (4, "thread"), (2, "process")]
        ]
        for run in runs[1:]:
            np.testing.assert_array_equal(run.scatter, runs[0].scatter)
            np.testing.assert_array_equal(run.mean, runs[0].mean)

    def test_progress(self, people, tmp_path):
        write_parts(people, tmp_path, "parquet", row_group_size=50)
        seen = []
        read_moments(tmp_path, sensitive_features="sex", batch_rows=50, progress=seen.append)
        assert [state.rows for state in seen] == sorted({state.rows for state in seen})
        assert (seen[-1].rows, seen[-1].share, seen[-1].seconds_left) == (400, 1.0, 0.0)
        text = Progress(1_234_567, 0.5, 1e6, 75.4).text()
        assert text == "1,234,567 rows (50%), 1,000,000 rows/s, 1 min 15 s left"

    @pytest.mark.parametrize("kind", ["feather", "csv"])
    def test_progress_of_other_files(self, people, tmp_path, kind):
        seen = []
        paths = write_parts(people, tmp_path, kind)
        read_moments(paths, sensitive_features="sex", progress=seen.append)
        assert (seen[-1].rows, seen[-1].share) == (400, 1.0)

    def test_memory_is_refused_before_rows_are_read(self, people, tmp_path):
        paths = write_parts(people, tmp_path, "parquet")
        seen = []
        with pytest.raises(MemoryError, match=r"5 features.*raise memory_limit"):
            read_moments(paths, sensitive_features="sex", memory_limit=300, progress=seen.append)
        assert seen == []
        people["sex"] = np.arange(400)
        paths = write_parts(people, tmp_path, "parquet")
        with pytest.raises(MemoryError, match=r"134 group\(s\)"):
            read_moments(paths, sensitive_features="sex", memory_limit=10_000, n_jobs=1)

    @pytest.mark.parametrize(
        "arguments, match",
        [
            (dict(n_jobs=0), "n_jobs=0"),
            (dict(backend="fork"), "backend='fork'"),
            (dict(n_jobs="2"), "n_jobs='2' must be at least 1, and an integer"),
            (dict(batch_rows=0), "batch_rows=0"),
            (dict(batch_rows=2.5), r"batch_rows=2\.5 must be at least 1, and an integer"),
            (dict(memory_limit="1GB"), "memory_limit='1GB' must be a number of bytes"),
            (dict(unlabelled="drop"), "unlabelled='drop'"),
            (dict(sensitive_features="age"), "has no column 'age'; it has 'a'"),
            (dict(sensitive_features=[]), "names no column"),
            (dict(sample_weight="ww"), "has no column 'ww'"),
            (dict(sample_weight=[1.0]), "name the column of weights"),
            (dict(features=["zz*"]), "no column 'zz"),
            (dict(drop=["*"]), "no column is left"),
            (dict(checkpoint="/no/such/place/c.npz"), "no directory"),
        ],
    )
    def test_arguments(self, people, tmp_path, arguments, match):
        paths = write_parts(people, tmp_path, "parquet")
        with pytest.raises(ValueError, match=match):
            read_moments(paths, **{"sensitive_features": "sex", **arguments})


class TestFiles:
    def test_patterns_and_directories(self, people, tmp_path):
        paths = write_parts(people, tmp_path, "parquet")
        (tmp_path / "_SUCCESS").write_text("")
        expected = read_moments(paths, sensitive_features="sex")
        for source in (tmp_path, str(tmp_path), tmp_path / "*.parquet", f"{tmp_path}/p?rt*"):
            got = read_moments(source, sensitive_features="sex")
            np.testing.assert_array_equal(got.scatter, expected.scatter)

    def test_row_groups_larger_than_a_batch(self, people, tmp_path):
        pq.write_table(pa.Table.from_pandas(people), tmp_path / "one.parquet")
        got = read_moments(tmp_path / "one.parquet", sensitive_features="sex", batch_rows=30)
        expected = GroupMoments.from_array(
            people[["a", "b", "c", "d", "w"]].to_numpy(), people[["sex"]]
        )
        assert_same_moments(got, expected)

    def test_which_files_are_refused(self, people, tmp_path):
        paths = write_parts(people, tmp_path, "parquet")
        csv = write_parts(people, tmp_path, "csv", n_files=1)
        np.savez(tmp_path / "x.npz", x=np.eye(3))
        for source, error, match in [
            ([*paths, paths[0]], ValueError, "given twice"),
            (people.to_numpy(), ValueError, r"GroupMoments\.from_array"),
            ([*paths, *csv], ValueError, "mixes kinds"),
            ([], ValueError, "names no file"),
            (tmp_path / "*.pq", FileNotFoundError, "no file matches"),
            (tmp_path / "gone.parquet", FileNotFoundError, "does not exist"),
            (tmp_path / "x.xyz", ValueError, "ending '.xyz'"),
            (tmp_path / "x.npz", ValueError, "save its arrays as .npy"),
        ]:
            with pytest.raises(error, match=match):
                read_moments(source, sensitive_features="sex")


def test_a_separator_is_no_layout(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("sex;age\nf;31\nm;45\n")
    with pytest.raises(ValueError, match=r"layout=';' must be a Layout"):
        read_moments(path, sensitive_features="sex", layout=";")


class TestWhichFiles:
    """Clusters write a table as a folder, and folders may be links."""

    def write(self, path, rows, first=0):
        frame = pd.DataFrame(
            {"x": np.arange(first, first + rows) ** 0.5, "g": ["a", "b"] * (rows // 2)}
        )
        path.parent.mkdir(exist_ok=True)
        frame.to_parquet(path)

    @pytest.mark.parametrize("pattern", ["*.parquet", "**", "**/*.parquet"])
    def test_a_pattern_matches_folders_too(self, tmp_path, pattern):
        self.write(tmp_path / "a.parquet", 10)
        self.write(tmp_path / "b.parquet" / "part-0.parquet", 20, first=10)
        found = read_moments(str(tmp_path / pattern), sensitive_features="g")
        assert found.count.sum() == 30

    def test_a_folder_behind_a_link(self, tmp_path):
        self.write(tmp_path / "here" / "a.parquet", 10)
        self.write(tmp_path / "there" / "b.parquet", 20, first=10)
        (tmp_path / "here" / "linked").symlink_to(tmp_path / "there")
        assert read_moments(tmp_path / "here", sensitive_features="g").count.sum() == 30

    def test_a_checkpoint_in_the_folder_that_is_read(self, tmp_path):
        """It was written, and the next call found it among the tables."""
        self.write(tmp_path / "a.parquet", 10)
        with pytest.raises(ValueError, match=r"c\.npz lies in .*name a file elsewhere"):
            read_moments(tmp_path, sensitive_features="g", checkpoint=tmp_path / "c.npz")

    @pytest.mark.parametrize("pattern", ["*", "a*", "**/*"])
    def test_a_checkpoint_that_a_pattern_matches(self, tmp_path, pattern):
        self.write(tmp_path / "a.parquet", 10)
        source, elsewhere = str(tmp_path / pattern), {"checkpoint": tmp_path / "_c.npz"}
        with pytest.raises(ValueError, match=r"ac\.npz lies in .*name a file elsewhere"):
            read_moments(source, sensitive_features="g", checkpoint=tmp_path / "ac.npz")
        # Names that mark what is no data are not read, and the checkpoint is found again.
        for _ in range(2):
            kept = read_moments(source, sensitive_features="g", keep_checkpoint=True, **elsewhere)
            assert kept.count.sum() == 10
        ending = {"checkpoint": tmp_path / "c.npz"}
        table = str(tmp_path / "*.parquet")
        assert read_moments(table, sensitive_features="g", **ending).count.sum() == 10

    def test_unsigned_codes_of_labels(self, tmp_path):
        codes = pa.DictionaryArray.from_arrays(
            pa.array([0, 1, None, 0, 1], pa.uint32()), pa.array(["f", "m"])
        )
        table = pa.table({"x": [1.0, 2.0, 4.0, 7.0, 1.0], "sex": codes})
        pyarrow.feather.write_feather(table, tmp_path / "t.feather")
        options = {"sensitive_features": "sex", "unlabelled": "ignore"}
        found = read_moments(tmp_path / "t.feather", **options)
        assert (found.labels, found.count.tolist()) == ((None, "f", "m"), [1, 2, 2])

    def test_years_are_names(self, tmp_path):
        frame = pd.DataFrame({"2019": np.arange(6.0), "2020": np.ones(6), "g": ["a", "b"] * 3})
        frame.to_parquet(tmp_path / "t.parquet")
        found = read_moments(tmp_path / "t.parquet", sensitive_features="g")
        assert found.feature_names == ("2019", "2020")
