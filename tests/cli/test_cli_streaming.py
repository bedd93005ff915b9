"""`fairpca fit` on files read in pieces: the same model as in memory, or a clear refusal."""

import sys
import time
import types
from contextlib import contextmanager

import numpy as np
import pandas as pd
import pytest
from fairpca.cli.options import JsonOption, as_command

from fairpca import GroupMoments
from fairpca.cli import loading, output, run
from fairpca.io import read_moments
from fairpca.persistence import load_model

from data_dir import data_path

ENDINGS = ["parquet", "feather", "csv"]


def write(frame, path):
    if path.suffix == ".parquet":
        frame.to_parquet(path, index=False)
    elif path.suffix == ".feather":
        frame.to_feather(path)
    else:
        frame.to_csv(path, index=False)
    return path


@pytest.fixture
def numbers(frame):
    """Return the shared table without its text features."""
    return frame.drop(columns="plan").assign(city=np.arange(160) % 2)


@pytest.fixture
def parts(numbers, tmp_path, request):
    """Return two files of an ending with half of the rows each."""
    ending = getattr(request, "param", "parquet")
    halves = numbers.iloc[:70], numbers.iloc[70:].reset_index(drop=True)
    return [write(half, tmp_path / f"p{i}.{ending}") for i, half in enumerate(halves)]


def both(cli, tmp_path, *arguments):
    """Fit in memory and in pieces; return both saved models."""
    saved = []
    for engine in ("memory", "local"):
        path = tmp_path / f"{engine}.skops"
        done = cli("fit", *arguments, "--engine", engine, "-o", path, "--force")
        assert done.code == 0, done.err
        saved.append(load_model(path))
    return saved


def assert_same(memory, local, tol=1e-10):
    one, two = (saved.model.components_ for saved in (memory, local))
    assert np.abs(one.T @ one - two.T @ two).max() <= tol
    assert memory.feature_names == local.feature_names
    assert memory.model.groups_ == local.model.groups_
    assert list(map(type, memory.model.groups_)) == list(map(type, local.model.groups_))
    np.testing.assert_array_equal(memory.model.group_counts_, local.model.group_counts_)
    for a, b in zip(memory.preparation.features, local.preparation.features, strict=True):
        assert (a.name, a.levels, a.fill) == (b.name, b.levels, b.fill)
        np.testing.assert_allclose(a.mean + a.scale, b.mean + b.scale, rtol=1e-11, atol=1e-12)


class TestSameModel:
    @pytest.mark.parametrize("parts", ENDINGS, indirect=True)
    @pytest.mark.parametrize("standardize", ["--standardize", "--no-standardize"])
    def test_as_in_memory(self, cli, parts, tmp_path, standardize):
        memory, local = both(cli, tmp_path, *parts, "-g", "sex", "-r", 2, standardize)
        assert_same(memory, local)
        # The row number is no feature either way.
        assert "id" not in local.feature_names

    def test_transform_is_the_same(self, cli, parts, tmp_path):
        both(cli, tmp_path, *parts, "-g", "sex", "-g", "city", "-r", 2)
        frames = []
        for engine in ("memory", "local"):
            out = tmp_path / f"{engine}.csv"
            done = cli("transform", tmp_path / f"{engine}.skops", parts[0], "-o", out)
            assert done.code == 0
            frames.append(pd.read_csv(out).to_numpy())
        np.testing.assert_allclose(*frames, atol=1e-9)

    @pytest.mark.parametrize(
        "options",
        [
            ("--feature", "v*"),
            ("--feature", "id", "--feature", "v*"),
            ("--drop", "v3", "--drop", "pa*"),
            ("--weight", "paid", "--no-standardize"),
            ("--group", "city", "--group-by", "marginal"),
            ("--criterion", "share"),
            ("--group", "v0>=0.5"),
            ("--group", "v0>=0.5", "--group", "v0<-1"),
        ],
    )
    def test_options(self, cli, parts, tmp_path, options):
        memory, local = both(cli, tmp_path, *parts, "-g", "sex", "-r", 2, *options)
        assert_same(memory, local)

    @pytest.mark.parametrize("ending", ENDINGS)
    def test_labels_are_as_they_were_written(self, cli, numbers, tmp_path, ending):
        numbers["sex"] = np.where(numbers["sex"] == "f", 1.0, 2.0)
        numbers.loc[::9, "sex"] = None
        path = write(numbers, tmp_path / f"p.{ending}")
        memory, local = both(cli, tmp_path, path, "-g", "sex", "-r", 2, "--unlabelled", "ignore")
        assert local.model.groups_ == [1, 2]
        assert_same(memory, local)

    def test_columns_without_names(self, cli, numbers, tmp_path):
        numbers["sex"] = (numbers["sex"] == "f").astype(int)
        table = numbers
        table.to_csv(tmp_path / "p.csv", index=False, header=False)
        call = (tmp_path / "p.csv", "--header", 0, "-g", "2", "-r", 2)
        memory, local = both(cli, tmp_path, *call)
        assert_same(memory, local)
        memory, local = both(cli, tmp_path, *call, "-g", "4>=0.5", "--drop", "7")
        assert_same(memory, local)
        assert "column7" not in local.feature_names
        np.save(tmp_path / "p.npy", table.to_numpy(dtype=float))
        memory, local = both(cli, tmp_path, tmp_path / "p.npy", "-g", "2", "-r", 2)
        assert_same(memory, local)

    def test_credit(self, cli, tmp_path):
        table = np.loadtxt(data_path("default_degree.csv"), delimiter=",", skiprows=2)
        frame = pd.DataFrame(table[:, 1:], columns=[f"c{j}" for j in range(table.shape[1] - 1)])
        frame["c0"] = frame["c0"].astype(int)
        for i, rows in enumerate(np.array_split(np.arange(len(frame)), 5)):
            frame.iloc[rows].to_parquet(tmp_path / f"p{i}.parquet", index=False)
        parts = sorted(tmp_path.glob("p*.parquet"))
        memory, local = both(cli, tmp_path, *parts, "-g", "c0", "-r", 5)
        assert_same(memory, local)


class TestEngines:
    def test_large_columnar_files_are_read_in_pieces(self, cli, parts, tmp_path, monkeypatch):
        def fit():
            done = cli("fit", *parts, "-g", "sex", "-r", 2, "-o", tmp_path / "m.skops", "--force")
            assert done.code == 0
            return "in pieces" in done.err

        assert not fit()
        monkeypatch.setattr(loading, "_LARGE", 100)
        assert fit()

    def test_directories_and_patterns_are_read_in_pieces(self, cli, parts, tmp_path):
        folder = tmp_path / "data"
        folder.mkdir()
        for path in parts:
            path.rename(folder / path.name)
        for source in (folder, f"{folder}/*.parquet"):
            done = cli("fit", source, "-g", "sex", "-r", 2, "-o", tmp_path / "m.skops", "--force")
            assert done.code == 0
            assert "160 rows in 2 file(s), in pieces" in done.err

    @pytest.mark.parametrize("engine", ["dask", "spark"])
    def test_clusters_are_asked_through_one_function(
        self, cli, parts, tmp_path, monkeypatch, engine
    ):
        asked = {}

        def count(paths, **kwargs):
            asked.update(kwargs, paths=[path.name for path in paths])
            kept = {k: v for k, v in kwargs.items() if k != "scheduler"}
            return read_moments(paths, **kept)

        module = types.ModuleType(f"fairpca.distributed.{engine}")
        module.read_moments = count
        monkeypatch.setitem(
            sys.modules, "fairpca.distributed", types.ModuleType("fairpca.distributed")
        )
        monkeypatch.setitem(sys.modules, module.__name__, module)
        arguments = ("fit", *parts, "-g", "sex", "-r", 2, "-o", tmp_path / "m.skops")
        done = cli(*arguments, "--engine", engine, "--scheduler", "tcp://there:1")
        assert done.code == 0, done.err
        assert asked == {
            "paths": ["p0.parquet", "p1.parquet"],
            "sensitive_features": ["sex"],
            "features": ["city", "v0", "v1", "v2", "v3", "paid"],
            "sample_weight": None,
            "unlabelled": "error",
            "scheduler": "tcp://there:1",
            "memory_limit": None,
        }

    @pytest.mark.parametrize(
        "options, match",
        [
            (("--engine", "fast"), "--engine fast is not known"),
            (("--engine", "local", "--criterion", "los"), "Did you mean 'loss'?"),
            (("--engine", "local", "--missing", "mean"), "--missing mean cannot be done in"),
            (("--engine", "local", "--categorical", "paid"), "--categorical cannot be done"),
            (("--engine", "dask", "-g", "v0>=0"), "'v0>=0' is a cut of numbers, which --engine"),
            (("--engine", "local", "-g", "sex>=0"), "column 'sex' has the type string"),
            (("--engine", "memory", "--jobs", 2), "--jobs goes with --engine local"),
            (("--engine", "dask", "--checkpoint", "c"), "--checkpoint goes with --engine local"),
            (("--scheduler", "x"), "--scheduler goes with --engine dask or spark"),
            (("--engine", "local", "--weight", "paid"), "--no-standardize"),
            (("--engine", "local", "--drop", "nothing"), "no column 'nothing'"),
            (("--engine", "local", "--jobs", 0), "--jobs"),
            (("--engine", "local", "-g", "v0"), "--group v0: 70 distinct labels are too many"),
            (("--engine", "local", "-g", "id", "-g", "city"), "--group id: 160 distinct labels"),
        ],
    )
    def test_refusals_leave_the_old_file(self, cli, parts, tmp_path, options, match):
        output = tmp_path / "m.skops"
        output.write_bytes(b"old")
        done = cli("fit", *parts, "-g", "sex", "-r", 2, "-o", output, "--force", *options)
        assert done.code == 2
        assert match in done.err.replace("\n", " ")
        assert output.read_bytes() == b"old"
        assert not list(tmp_path.glob(".*"))

    @pytest.mark.parametrize("engine", ["memory", "local"])
    @pytest.mark.parametrize(
        "groups, said",
        [
            (("-g", "sexx"), "has no column 'sexx'; it has 'id', 'sex'"),
            (("-g", "sexx"), "Did you mean 'sex'?"),
            (("-g", "city>=1", "-g", "city"), "--group names the column 'city' twice"),
        ],
    )
    def test_columns_are_looked_up_alike(self, cli, parts, tmp_path, engine, groups, said):
        call = ("fit", *parts, *groups, "-r", 2, "-o", tmp_path / "m.skops", "--engine", engine)
        done = cli(*call)
        assert done.code == 2
        assert said in done.err

    def test_how_text_was_read_is_said(self, cli, numbers, tmp_path):
        numbers.to_csv(tmp_path / "t.csv", sep=";", decimal=",", index=False)
        call = ("fit", tmp_path / "t.csv", "-g", "sex", "-r", 2, "-o", tmp_path / "m.skops")
        done = cli(*call, "--engine", "local")
        assert "in pieces; semicolon-separated, decimal commas, 1 header row; 6" in done.err
        # How many groups there are is not known yet.
        assert "take 288 B a group" in done.err

    def test_too_many_components_are_refused_before_rows_are_counted(
        self, cli, parts, tmp_path, monkeypatch
    ):
        monkeypatch.setattr(loading, "read_moments", None)
        call = ("fit", *parts, "-g", "sex", "-o", tmp_path / "m.skops", "--engine", "local")
        done = cli(*call, "-r", 7)
        assert done.code == 2
        assert "-r 7 must be between 1 and the number of features, 6" in done.err

    def test_measurements_are_refused_before_rows_are_counted(
        self, cli, parts, tmp_path, monkeypatch
    ):
        monkeypatch.setattr(loading, "read_moments", None)
        call = ("fit", *parts, "-r", 2, "-o", tmp_path / "m.skops", "--engine", "local")
        done = cli(*call, "-g", "v0", "--drop", "sex")
        assert done.code == 2
        assert "--group v0: 70 distinct labels are too many" in done.err

    def test_clusters_read_parquet(self, cli, csv, tmp_path):
        call = ("fit", csv, "-g", "sex", "-r", 2, "-o", tmp_path / "m.skops")
        done = cli(*call, "--feature", "v*", "--engine", "dask")
        assert done.code == 2
        assert "Write the table as Parquet, or use --engine local." in done.err

    def test_labels_that_only_a_folder_names(self, cli, parts, tmp_path):
        folder = tmp_path / "data" / "town=a"
        folder.mkdir(parents=True)
        parts[0].rename(folder / "p.parquet")
        call = ("fit", tmp_path / "data", "-r", 2, "-o", tmp_path / "m.skops", "-g", "town")
        done = cli(*call)
        assert done.code == 2
        assert "names of folders are not read: write 'town' into the files" in done.err


class TestFaults:
    def test_text_is_for_memory(self, cli, frame, tmp_path):
        path = write(frame, tmp_path / "p.parquet")
        done = cli("fit", path, "-g", "sex", "-r", 2, "-o", tmp_path / "m.skops", "--jobs", 1)
        assert done.code == 2
        assert "p.parquet: column 'city' has the type string" in done.err
        assert "--engine memory" in done.err

    def test_a_damaged_file_leaves_the_old_output(self, cli, parts, tmp_path):
        output = tmp_path / "m.skops"
        output.write_bytes(b"old")
        data = bytearray(parts[1].read_bytes())
        data[4:60] = b"\xff" * 56
        parts[1].write_bytes(data)
        done = cli("fit", *parts, "-g", "sex", "-r", 2, "-o", output, "--force", "--jobs", 1)
        assert done.code == 2
        assert "p1.parquet cannot be read" in done.err
        assert output.read_bytes() == b"old"

    def test_an_interrupted_run_goes_on(self, cli, parts, tmp_path, monkeypatch):
        checkpoint, output = tmp_path / "c.npz", tmp_path / "m.skops"
        arguments = ("fit", *parts, "-g", "sex", "-r", 2, "-o", output)
        arguments = (*arguments, "--checkpoint", checkpoint)

        def interrupt(text):
            raise KeyboardInterrupt

        def shown_by(function):
            return contextmanager(lambda doing: (yield function))

        with monkeypatch.context() as patch:
            patch.setattr(loading, "progress", shown_by(interrupt))
            done = cli(*arguments)
        assert done.code == 130
        assert checkpoint.exists()
        assert not output.exists()
        seen = []
        monkeypatch.setattr(loading, "progress", shown_by(seen.append))
        done = cli(*arguments)
        assert done.code == 0
        # Only the second file was read again.
        assert len(seen) == 1
        assert seen[0].startswith("160 rows")
        assert not checkpoint.exists()
        assert load_model(output).model.n_samples_ == 160

    def test_memory_is_refused_with_a_remedy(self, capsys, parts, tmp_path, monkeypatch):
        monkeypatch.setattr("fairpca.moments.memory.default_limit", lambda: 100)
        arguments = ["fit", *parts, "-g", "sex", "-r", 2, "-o", tmp_path / "m.skops"]
        code = run([*map(str, arguments), "--engine", "local"])
        assert code == 2
        assert "Choose fewer columns" in capsys.readouterr().err


class TestProgress:
    def test_a_terminal_shows_a_line_that_goes_away(self, capsys, monkeypatch):
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setattr(output, "_PATIENCE", 0.0)
        with output.progress("counting \x1b[2J") as update:
            time.sleep(0.3)
            update("1,000 rows")
            time.sleep(0.3)
        err = capsys.readouterr().err
        assert "counting \ufffd[2J" in err
        assert "1,000 rows" in err
        # The line is erased at the end.
        assert err.rstrip().endswith("\x1b[2K")

    def test_short_work_is_done_in_silence(self, capsys, monkeypatch):
        monkeypatch.setenv("FORCE_COLOR", "1")
        with output.progress("counting"):
            pass
        assert "counting" not in capsys.readouterr().err

    def test_short_steps_add_up(self, capsys, monkeypatch):
        """Each of them is shorter than anybody's patience, and all together are not."""
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setattr(output, "_PATIENCE", 0.3)

        def work(options: JsonOption) -> None:
            for step in ("first", "second", "third"):
                with output.progress(f"{step} step"):
                    time.sleep(0.2)
            output.print_json("result")
            time.sleep(0.2)

        as_command(work)(json=True)
        done = capsys.readouterr()
        assert "third step" in done.err
        assert "first step" not in done.err
        assert done.out == '"result"\n'

    def test_a_result_ends_the_line(self, capsys, monkeypatch):
        """One that started after the result would be written into it."""
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.setattr(output, "_PATIENCE", 0.1)
        with output.progress("counting"):
            output.print_json(1)
            time.sleep(0.2)
        assert "counting" not in capsys.readouterr().err

    def test_a_line_now_and_then_elsewhere(self, capsys, monkeypatch):
        with output.progress("counting") as update:
            update("1,000 rows")
            assert capsys.readouterr().err == ""
            monkeypatch.setattr(output, "_SPARSE_SECONDS", 0.0)
            update("2,000 rows")
            with output.progress("fitting"):
                pass
        assert capsys.readouterr().err == "2,000 rows\nfitting\n"


def test_whole_labels_of_crossed_columns():
    rows = np.random.default_rng(0).normal(size=(6, 2))
    moments = GroupMoments.from_array(
        rows,
        {"a": [1.0, 2.0, 1.0, None, 2.0, 1.0], "b": list("xyxyxy")},
        unlabelled="ignore",
    )
    labels = loading._relabelled(moments, ()).labels
    assert labels == (None, (1, "x"), (1, "y"), (2, "x"), (2, "y"))
    assert all(type(label[0]) is int for label in labels if label is not None)


@pytest.mark.parametrize("parts", ENDINGS, indirect=True)
def test_named_codes(cli, parts, tmp_path):
    """Codes with one name are one group, in pieces as in memory."""
    arguments = (*parts, "-g", "sex", "-g", "city", "-r", 2)
    labels = ("--labels", "city:0=town,1=town", "--labels", "sex:f=women")
    memory, local = both(cli, tmp_path, *arguments, *labels)
    assert_same(memory, local)
    assert local.model.groups_ == [("m", "town"), ("women", "town")]
