"""Runs that are killed, files that are damaged, tables that do not fit together."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest
from fairpca.io.sources import Batch

from fairpca import GroupMoments
from fairpca.io import read_moments

N_FILES, ROWS = 6, 400


def parts(seed=0):
    """Return six tables; the group "rare" is in the fourth only."""
    rng = np.random.default_rng(seed)
    made = []
    for i in range(N_FILES):
        frame = pd.DataFrame(rng.normal(size=(ROWS, 3)), columns=["a", "b", "c"])
        frame["sex"] = rng.choice(["f", "m", "rare"] if i == 3 else ["f", "m"], size=ROWS)
        made.append(frame)
    return made


def write(frame, path, kind="parquet"):
    if kind == "parquet":
        frame.to_parquet(path, index=False, row_group_size=100)
    elif kind == "feather":
        table = pa.Table.from_pandas(frame, preserve_index=False)
        pyarrow.feather.write_feather(table, path, chunksize=100)
    else:
        frame.to_csv(path, index=False)
    return path


@pytest.fixture(params=["parquet", "feather", "csv"])
def kind(request):
    return request.param


@pytest.fixture
def paths(tmp_path, kind):
    folder = tmp_path / "data"
    folder.mkdir()
    return [write(f, folder / f"p{i}.{kind}", kind) for i, f in enumerate(parts())]


def read(paths, **kwargs):
    kwargs = {"sensitive_features": "sex", "batch_rows": 100, "n_jobs": 2, **kwargs}
    return read_moments(paths, **kwargs)


class TestFilesThatDoNotFit:
    def test_a_group_in_one_file_only(self, paths):
        frame = pd.concat(parts())
        got = read(paths)
        expected = GroupMoments.from_array(frame[["a", "b", "c"]].to_numpy(), frame[["sex"]])
        assert got.labels == ("f", "m", "rare")
        np.testing.assert_array_equal(got.count, expected.count)
        np.testing.assert_allclose(got.scatter, expected.scatter, rtol=1e-10, atol=1e-9)

    @pytest.mark.parametrize("at", [0, 2, N_FILES - 1])
    def test_a_file_without_rows(self, paths, kind, at):
        before = read(paths).count.sum()
        rows = pd.read_csv(paths[at]) if kind == "csv" else parts()[at]
        write(rows.iloc[:0], paths[at], kind)
        assert read(paths).count.sum() == before - ROWS

    def test_no_rows_at_all(self, paths, kind):
        write(parts()[0].iloc[:0], paths[0], kind)
        with pytest.raises(ValueError, match=r"p0.*no rows"):
            read(paths[:1])

    def test_columns_may_be_in_another_order(self, paths, kind):
        expected = read(paths)
        write(parts()[4][["sex", "c", "a", "b"]], paths[4], kind)
        np.testing.assert_allclose(read(paths).scatter, expected.scatter)

    def test_a_column_is_missing(self, paths, kind):
        write(parts()[4].drop(columns="b"), paths[4], kind)
        with pytest.raises(ValueError, match=r"p4\.\w+ has no column 'b'"):
            read(paths)

    @pytest.mark.parametrize("column", ["b", "sex"])
    def test_a_column_has_another_type(self, paths, kind, column):
        frame = parts()[4]
        frame[column] = "text" if column == "b" else 1
        write(frame, paths[4], kind)
        with pytest.raises(ValueError, match=rf"p4\.\w+: column '{column}' has the type"):
            read(paths)

    def test_text_is_no_feature(self, paths, kind):
        for i, frame in enumerate(parts()):
            write(frame.assign(note="text"), paths[i], kind)
        with pytest.raises(ValueError, match=r"p0\.\w+: column 'note' has the type string"):
            read(paths)

    def test_a_category_is_no_number(self, tmp_path):
        """In memory it would become indicators."""
        frame = parts()[0].assign(code=pd.Categorical(np.resize([1, 2], ROWS)))
        path = write(frame, tmp_path / "x.feather", "feather")
        with pytest.raises(ValueError, match="'code' has the type dictionary"):
            read(path)
        with pytest.raises(ValueError, match="'sex' has the type"):
            read_moments(path, sensitive_features="sex", features=["a", "sex"])
        assert read_moments(path, sensitive_features="code", drop=["sex"]).labels == (1, 2)

    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_a_hole_in_the_middle(self, paths, kind, value):
        frame = parts()[3]
        frame.loc[250, "b"] = value
        write(frame, paths[3], kind)
        with pytest.raises(ValueError, match=r"p3\.\w+, data row 251 .*: column 'b'.*drop"):
            read(paths)

    def test_a_column_of_nothing(self, tmp_path):
        """Its type says nothing about the other files; missing labels are labels that miss."""
        folder = tmp_path / "data"
        folder.mkdir()
        nothing = pa.table({"a": [1.0, 2.0], "sex": pa.nulls(2)})
        pq.write_table(nothing, folder / "p0.parquet")
        for i, labels in enumerate((["f", "m"], [1, 2]), start=1):
            pq.write_table(pa.table({"a": [3.0, 5.0], "sex": labels}), folder / f"p{i}.parquet")
        two = [folder / "p0.parquet", folder / "p1.parquet"]
        assert read(two, unlabelled="ignore").labels == (None, "f", "m")
        with pytest.raises(ValueError, match=r"p2.*'sex' has the type int64 and in .*p1"):
            read(folder, unlabelled="ignore")

    def test_nan_is_not_null(self, tmp_path):
        """Parquet has both, and pandas writes null for NaN."""
        table = pa.table({"a": pa.array([1.0, float("nan")]), "sex": ["f", "m"]})
        pq.write_table(table, tmp_path / "n.parquet")
        with pytest.raises(ValueError, match=r"data row 2 .*: column 'a' holds NaN"):
            read(tmp_path / "n.parquet")

    def test_values_too_large_to_square(self, tmp_path):
        frame = pd.DataFrame({"a": [1e200, -1e200, 1.0], "sex": list("fff")})
        with pytest.raises(ValueError, match="too large to square"):
            read(write(frame, tmp_path / "x.parquet"))

    def test_memory_maps(self, tmp_path):
        X = np.random.default_rng(0).normal(size=(50, 3))
        X[33, 1] = np.nan
        np.save(tmp_path / "x.npy", X)
        labels = np.resize(["a", "b"], 50)
        with pytest.raises(ValueError, match=r"x.npy, data row 34 .*: column 'column2' holds NaN"):
            read_moments(tmp_path / "x.npy", sensitive_features=labels)
        with pytest.raises(ValueError, match="50 rows; pass one entry per row"):
            read_moments(tmp_path / "x.npy", sensitive_features=labels[:-1])
        with pytest.raises(ValueError, match="numbered 0 to 2"):
            read_moments(tmp_path / "x.npy", sensitive_features=3)
        with (tmp_path / "x.npy").open("r+b") as file:
            file.truncate(700)
        with pytest.raises(ValueError, match=r"x.npy cannot be read"):
            read_moments(tmp_path / "x.npy", sensitive_features=labels)


class TestDamage:
    @pytest.mark.parametrize("where", ["middle", "end"])
    def test_a_damaged_file_is_named(self, paths, kind, where):
        if kind == "csv":
            text = paths[3].read_text().splitlines()
            text[300 if where == "middle" else -1] = "1,2,3,4,5,f"
            paths[3].write_text("\n".join(text))
        else:
            data = bytearray(paths[3].read_bytes())
            if where == "end":
                del data[-200:]
            elif kind == "parquet":
                # The first page's header, after the magic bytes.
                data[4:40] = b"\xff" * 36
            else:
                data = data[: len(data) // 2]
            paths[3].write_bytes(data)
        with pytest.raises(ValueError, match=r"p3\.\w+ (cannot be read|is an Arrow)"):
            read(paths)

    def test_after_the_repair_it_goes_on(self, tmp_path):
        folder = tmp_path / "data"
        folder.mkdir()
        paths = [write(f, folder / f"p{i}.parquet") for i, f in enumerate(parts())]
        expected = read(paths)
        whole = paths[3].read_bytes()
        damaged = bytearray(whole)
        damaged[4:40] = b"\xff" * 36
        paths[3].write_bytes(damaged)
        checkpoint = tmp_path / "c.npz"
        with pytest.raises(ValueError, match="p3"):
            read(paths, checkpoint=checkpoint)
        assert checkpoint.exists()
        paths[3].write_bytes(whole)
        seen = []
        got = read(paths, checkpoint=checkpoint, progress=seen.append)
        assert seen[0].rows > 3 * ROWS
        np.testing.assert_array_equal(got.scatter, expected.scatter)
        np.testing.assert_array_equal(got.count, expected.count)
        assert not checkpoint.exists()

    def test_a_file_that_changes_under_way(self, paths):
        def meddle(state):
            if state.rows <= ROWS:
                os.utime(paths[-1], (1, 1))

        with pytest.raises(ValueError, match=r"p5\.\w+ changed while"):
            read(paths, progress=meddle)

    def test_a_file_that_changes_while_its_last_rows_are_counted(self, paths, monkeypatch):
        count = Batch.count

        def meddle(batch):
            os.utime(paths[0], (1, 1))
            return count(batch)

        monkeypatch.setattr(Batch, "count", meddle)
        with pytest.raises(ValueError, match=r"p0\.\w+ changed while"):
            read(paths[:1])


class Stop(Exception):
    pass


def interrupted(paths, checkpoint, after=700, error=Stop, **kwargs):
    def stop(state):
        if state.rows >= after:
            raise error

    with pytest.raises(error):
        read(paths, checkpoint=checkpoint, progress=stop, **kwargs)


class TestResuming:
    @pytest.mark.parametrize("error", [KeyboardInterrupt, Stop])
    def test_as_if_nothing_had_happened(self, paths, tmp_path, error):
        checkpoint = tmp_path / "c.npz"
        expected = read(paths)
        for rows in (300, 900, 1500):
            interrupted(paths, checkpoint, rows, error)
            assert checkpoint.exists()
        got = read(paths, checkpoint=checkpoint)
        np.testing.assert_array_equal(got.count, expected.count)
        np.testing.assert_array_equal(got.mean, expected.mean)
        np.testing.assert_array_equal(got.scatter, expected.scatter)
        assert not checkpoint.exists()
        assert [p.name for p in tmp_path.iterdir()] == ["data"]

    def test_memory_maps(self, tmp_path):
        X = np.random.default_rng(0).normal(size=(900, 3))
        np.save(tmp_path / "x.npy", X)
        labels = np.resize(["a", "b", "c"], 900)

        def stop(state):
            if state.rows > 400:
                raise Stop

        def run(labels, **kwargs):
            return read_moments(
                tmp_path / "x.npy", sensitive_features=labels, batch_rows=100, **kwargs
            )

        checkpoint = tmp_path / "c.npz"
        with pytest.raises(Stop):
            run(labels, checkpoint=checkpoint, progress=stop)
        with pytest.raises(ValueError, match="other outside"):
            run(labels[::-1], checkpoint=checkpoint)
        got = run(labels, checkpoint=checkpoint)
        np.testing.assert_array_equal(got.scatter, run(labels).scatter)

    @pytest.mark.parametrize(
        "change, match",
        [
            (dict(features=["a", "b"]), "other features"),
            (dict(unlabelled="ignore"), "other unlabelled"),
            (dict(sensitive_features=["sex", "a>=0.5"]), "other features, labels"),
        ],
    )
    def test_other_options_are_refused(self, paths, tmp_path, change, match):
        checkpoint = tmp_path / "c.npz"
        interrupted(paths, checkpoint)
        before = checkpoint.read_bytes()
        with pytest.raises(ValueError, match=rf"{match}.*Start over by deleting"):
            read(paths, checkpoint=checkpoint, **change)
        assert checkpoint.read_bytes() == before

    def test_another_cut_is_refused(self, paths, tmp_path):
        checkpoint = tmp_path / "c.npz"
        interrupted(paths, checkpoint, sensitive_features=["sex", "a>=0.5"])
        with pytest.raises(ValueError, match="other labels"):
            read(paths, checkpoint=checkpoint, sensitive_features=["sex", "a>=0.6"])

    def test_other_data_are_refused(self, paths, tmp_path, kind):
        checkpoint = tmp_path / "c.npz"
        interrupted(paths, checkpoint)
        with pytest.raises(ValueError, match="not file number 1"):
            read(paths[1:], checkpoint=checkpoint)
        write(parts(seed=1)[0], paths[0], kind)
        with pytest.raises(ValueError, match="changed since"):
            read(paths, checkpoint=checkpoint)

    @pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04 nonsense"])
    def test_no_checkpoint_at_all(self, paths, tmp_path, content):
        checkpoint = tmp_path / "c.npz"
        checkpoint.write_bytes(content)
        with pytest.raises(ValueError, match="is not a checkpoint"):
            read(paths, checkpoint=checkpoint)
        assert checkpoint.read_bytes() == content

    def test_one_flipped_bit_is_noticed(self, tmp_path):
        """NumPy's own reader stops before the checksum of a member."""
        path, checkpoint = write(parts()[0], tmp_path / "p.parquet"), tmp_path / "c.npz"
        interrupted([path], checkpoint, after=200)
        whole = checkpoint.read_bytes()
        at = whole.rfind(b"\x93NUMPY") + 8
        for place in (at, at + 200, len(whole) // 2):
            damaged = bytearray(whole)
            damaged[place] ^= 0x10
            checkpoint.write_bytes(damaged)
            with pytest.raises(ValueError, match="is not a checkpoint"):
                read([path], checkpoint=checkpoint)

    def test_a_name_as_long_as_names_can_be(self, tmp_path):
        path, checkpoint = (
            write(parts()[0], tmp_path / "p.parquet"),
            tmp_path / ("c" * 251 + ".npz"),
        )
        interrupted([path], checkpoint, after=200)
        assert checkpoint.exists()
        assert read([path], checkpoint=checkpoint).count.sum() == ROWS

    def test_other_arrays_are_no_checkpoint(self, paths, tmp_path):
        read(paths).save(tmp_path / "c.npz")
        with pytest.raises(ValueError, match="is not a checkpoint"):
            read(paths, checkpoint=tmp_path / "c.npz")


SCRIPT = """
import sys, time
from fairpca.io import read_moments

def slow(state):
    print(state.rows, flush=True)
    time.sleep(0.05)

if __name__ == "__main__":
    moments = read_moments(
        sys.argv[1], sensitive_features="sex", batch_rows=100, n_jobs=2, progress=slow,
        checkpoint=sys.argv[2], checkpoint_seconds=0, backend=sys.argv[3],
    )
    moments.save(sys.argv[4])
"""


def start(*arguments):
    source = Path(sys.modules["fairpca"].__file__).parents[1]
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(source)},
    )


class TestKilled:
    """Real processes, really killed, in the middle of their work."""

    @pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
    def test_a_killed_run_goes_on(self, tmp_path, number):
        folder = tmp_path / "data"
        folder.mkdir()
        for i, frame in enumerate(parts()):
            write(frame, folder / f"p{i}.parquet")
        checkpoint, result = tmp_path / "c.npz", tmp_path / "moments.npz"
        arguments = (folder, checkpoint, "thread", result)
        with start(*arguments) as process:
            for line in process.stdout:
                if int(line) >= 800:
                    process.send_signal(number)
                    break
            process.stdout.read()
        assert process.returncode != 0
        assert not result.exists()
        assert checkpoint.exists()
        with start(*arguments) as process:
            rows = [int(line) for line in process.stdout]
        assert process.returncode == 0
        # It went on where the other stopped, and no row was counted twice.
        assert rows[0] > 800
        assert rows[-1] == N_FILES * ROWS
        expected, got = read(folder), GroupMoments.load(result)
        np.testing.assert_array_equal(got.count, expected.count)
        np.testing.assert_array_equal(got.weight, expected.weight)
        np.testing.assert_array_equal(got.scatter, expected.scatter)
        left = {p.name for p in tmp_path.iterdir()}
        assert {name for name in left if not name.endswith(".part")} == {"data", "moments.npz"}

    def test_worker_processes(self, tmp_path):
        folder = tmp_path / "data"
        folder.mkdir()
        for i, frame in enumerate(parts()):
            write(frame, folder / f"p{i}.parquet")
        damaged = bytearray((folder / "p3.parquet").read_bytes())
        damaged[4:40] = b"\xff" * 36
        (folder / "p3.parquet").write_bytes(damaged)
        with pytest.raises(ValueError, match=r"p3\.parquet cannot be read"):
            read(folder, backend="process")


def test_no_thread_is_left_behind(tmp_path):
    path = write(parts()[0], tmp_path / "x.parquet")
    before = threading.active_count()
    read(path)
    with pytest.raises(MemoryError):
        read(path, memory_limit=1)
    for _ in range(100):
        if threading.active_count() <= before:
            break
        time.sleep(0.05)
    assert threading.active_count() <= before
