"""Input from people who make mistakes, and from people who mean harm."""

import errno
import json
import os
import resource
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fairpca.auditing.findings import Audit
from fairpca.cli.output import plain

AUDIT = ("--group", "g", "-r", 1)


def save(tmp_path, frame, name="t.csv", **options):
    path = tmp_path / name
    frame.to_csv(path, index=False, **options)
    return path


def rows(m=60, n=3, seed=0):
    values = np.random.default_rng(seed).normal(size=(m, n))
    return pd.DataFrame(values, columns=[f"v{j}" for j in range(n)]).assign(
        g=np.array(["a", "b"])[np.arange(m) % 2]
    )


class TestMistakes:
    @pytest.mark.parametrize(
        "arguments, message",
        [
            (("none.csv", *AUDIT), "does not exist"),
            (("t.csv", "--group", "nope", "-r", 1), "no column 'nope'"),
            (("t.csv", "--group", "g", "-r", 4), "-r 4 must be between 1 and"),
            (("t.csv", "--group", "g", "-r", 0), "-r 0: pass a number"),
            (("t.csv", "--group", "g", "-r", "many"), "-r many"),
            (("t.csv", "--group", "g", "-r", "1.5"), "-r 1.5"),
            (("t.csv", "--group", "g"), "-r"),
            (("t.csv", "-r", 1), "--group"),
            ((*AUDIT,), "TABLE"),
            (("t.csv", *AUDIT, "--feature", "zz*"), "no column 'zz*'"),
            (("t.csv", *AUDIT, "--drop", "v*"), "no column is left"),
            (("t.csv", *AUDIT, "--reducer", "ica"), "--reducer ica"),
            (("t.csv", *AUDIT, "--max-gap", "-1"), "--max-gap"),
            (("t.csv", *AUDIT, "--max-gap", "x"), "--max-gap"),
            (("t.csv", *AUDIT, "--ranks", "a-b"), "--ranks"),
            (("t.csv", *AUDIT, "--sep", "ab"), "--sep"),
            (("t.csv", *AUDIT, "--decimal", "x"), "--decimal"),
            (("t.csv", *AUDIT, "--encoding", "klingon"), "klingon"),
            (("t.csv", *AUDIT, "--missing", "guess"), "--missing guess is not known"),
            (("t.csv", *AUDIT, "--group-by", "both"), "--group-by both is not known"),
            (("t.csv", *AUDIT, "--unlabelled", "no"), "--unlabelled no is not known"),
            (("t.csv", *AUDIT, "--missing", "medain"), "Did you mean 'median'"),
            (("t.csv", *AUDIT, "--header", 500), "no row of data"),
            (("latin.csv", *AUDIT), "--encoding"),
            (("wide.csv", *AUDIT), "no row of data"),
            (("t.csv", *AUDIT, "-o", "a.pdf"), "ending"),
            (("t.csv", *AUDIT, "-o", "none/a.html"), "no directory"),
            (("t.csv", *AUDIT, "-o", "folder.html"), "is a directory"),
            (("t.csv", *AUDIT, "--target", "zz"), "no column 'zz'"),
            (("t.csv", "--group", "v0", "-r", 1), "too many to be groups"),
            (("t.csv", "--group", "g>=3", "-r", 1), "is not a number; correct the cell"),
            (("empty.csv", *AUDIT), "0 bytes"),
            (("folder.html", *AUDIT), "is a directory"),
            (("const.csv", *AUDIT), "at least two"),
            (("nan.csv", *AUDIT), "--missing drop"),
            (("holes.csv", *AUDIT), "--unlabelled ignore"),
            (("twice.csv", *AUDIT), "are called 'g'"),
            (("binary.csv", *AUDIT), "not text"),
            (("gap.parquet", *AUDIT, "--unlabelled", "ignore"), "have more digits"),
            (("t.csv", *AUDIT, "--weight", "g"), "--weight g: 'a' in data row 1 "),
            (("t.zst", *AUDIT), "also with .gz behind it"),
            (
                ("t.csv", *AUDIT, "-o", "locked/a.html"),
                "the directory locked cannot be written to",
            ),
            (
                ("lists.parquet", "-g", "tags", "-r", 1),
                "'tags' holds lists or records, not labels",
            ),
        ],
    )
    def test_exit_2_and_a_sentence(self, cli, tmp_path, monkeypatch, arguments, message):
        monkeypatch.chdir(tmp_path)
        table = pd.concat([rows()] * 2, ignore_index=True)
        table["v0"] = np.random.default_rng(1).normal(size=len(table))
        save(tmp_path, table)
        save(tmp_path, table.assign(g="a"), "const.csv")
        save(tmp_path, table.assign(v1=table["v1"].where(table.index != 3)), "nan.csv")
        save(tmp_path, table.assign(g=table["g"].where(table.index != 3)), "holes.csv")
        (tmp_path / "twice.csv").write_text("g,v,g\na,1,b\nb,2,a\na,3,b\n")
        (tmp_path / "latin.csv").write_bytes("größe,g\n1,a\n2,b\n".encode("latin-1"))
        (tmp_path / "wide.csv").write_text('g,v,"w"\n')
        # Of different labels one became before, and of two groups a single one.
        rounded = 2.0**60 + 2**10 * (table.index % 2)
        table.assign(g=rounded).to_parquet(tmp_path / "gap.parquet")
        (tmp_path / "empty.csv").touch()
        (tmp_path / "binary.csv").write_bytes(bytes(range(256)))
        (tmp_path / "folder.html").mkdir()
        (tmp_path / "locked").mkdir()
        (tmp_path / "t.zst").write_bytes(b"(")
        table.assign(tags=[[1, 2]] * len(table)).to_parquet(tmp_path / "lists.parquet")
        # Nothing is locked for the one who owns the machine.
        monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "locked")
        before = sorted(os.listdir(tmp_path))
        done = cli("audit", *arguments)
        assert done.code == 2
        assert done.out == ""
        assert message in done.err.replace("\n", " ")
        assert sorted(os.listdir(tmp_path)) == before

    @pytest.mark.parametrize("gap", [False, True])
    def test_labels_of_many_digits_are_told_apart(self, cli, tmp_path, gap):
        table = pd.concat([rows()] * 2, ignore_index=True)
        codes = ["100000000000000000000", "100000000000000000001"]
        table["g"] = np.where(table["g"] == "a", *codes)
        table.loc[0, "g"] = None if gap else codes[0]
        save(tmp_path, table)
        done = cli("audit", tmp_path / "t.csv", *AUDIT, "--unlabelled", "ignore", "--json")
        assert sorted(group["text"] for group in done.json["groups"]) == codes

    def test_remedies_work(self, cli, tmp_path):
        table = rows()
        holes = save(tmp_path, table.assign(v1=table["v1"].where(table.index != 3)))
        for missing in ("drop", "mean", "median"):
            assert cli("audit", holes, *AUDIT, "--missing", missing).code == 0
        labels = save(tmp_path, table.assign(g=table["g"].where(table.index != 3)), "l.csv")
        done = cli("audit", labels, *AUDIT, "--unlabelled", "ignore", "--json")
        assert sum(group["count"] for group in done.json["groups"]) == 59

    def test_other_verbs(self, cli, tmp_path):
        table = save(tmp_path, rows())
        assert cli("fit", table, *AUDIT).code == 2
        assert cli("fit", table, *AUDIT, "-o", tmp_path / "m.pkl").code == 2
        assert cli("transform", table, table).code == 2
        assert cli("transform", tmp_path / "none.skops", table).code == 2
        (tmp_path / "a.json").write_text('{"kind": "fairpca audit"}')
        assert cli("report", tmp_path / "a.json").code == 2
        assert cli("report", table).code == 2
        assert cli("report", tmp_path).code == 2


class TestOutputs:
    def test_nothing_is_overwritten_unasked(self, cli, tmp_path):
        table, page = save(tmp_path, rows()), tmp_path / "a.html"
        page.write_text("precious")
        assert cli("audit", table, *AUDIT, "-o", page).code == 2
        assert page.read_text() == "precious"
        assert cli("audit", table, *AUDIT, "-o", page, "--force").code == 0
        assert page.read_text().startswith("<!DOCTYPE html>")

    def test_special_files_are_left_alone(self, cli, tmp_path):
        table, pipe = save(tmp_path, rows()), tmp_path / "pipe.json"
        os.mkfifo(pipe)
        done = cli("audit", table, *AUDIT, "-o", pipe, "--force")
        assert done.code == 2
        assert "not an ordinary file" in done.err

    def test_a_full_disk_loses_nothing(self, cli, tmp_path, monkeypatch):
        table, page = save(tmp_path, rows()), tmp_path / "a.html"
        page.write_text("precious")

        def full(_):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(os, "fsync", full)
        for verb, path in (("audit", page), ("fit", tmp_path / "m.skops")):
            done = cli(verb, table, *AUDIT, "-o", path, "--force")
            assert done.code == 2
            assert "No space left" in done.err
        assert page.read_text() == "precious"
        assert sorted(p.name for p in tmp_path.iterdir()) == ["a.html", "t.csv"]

    def test_a_real_limit_on_file_size(self, tmp_path):
        table = save(tmp_path, rows(600))
        done = command(
            ["audit", table, *AUDIT, "--bootstrap", 0, "-o", tmp_path / "a.html"],
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)),
        )
        assert done.returncode == 2
        assert b"File too large" in done.stderr
        assert b"Traceback" not in done.stderr
        assert sorted(p.name for p in tmp_path.iterdir()) == ["t.csv"]

    def test_stdout_that_is_full(self, tmp_path):
        table = save(tmp_path, rows())
        with open("/dev/full", "w") as full:
            done = command(["inspect", table, "--json"], stdout=full)
        assert done.returncode == 2
        assert b"No space left" in done.stderr
        assert b"Traceback" not in done.stderr

    def test_streams_that_are_closed(self, tmp_path):
        table, model = save(tmp_path, rows()), tmp_path / "m.skops"
        code = "from fairpca.cli import main; main()"
        line = shlex.join([sys.executable, "-c", code, "fit", str(table), "-g", "g", "-r", "1"])
        done = subprocess.run(["sh", "-c", f"{line} -o {model} >&- 2>&-"])
        assert done.returncode == 0
        assert model.exists()

    def test_a_reader_that_stops_reading(self, tmp_path):
        table = save(tmp_path, rows(200))
        read, write = os.pipe()
        os.close(read)
        done = command(["inspect", table, "--json"], stdout=write)
        os.close(write)
        assert done.returncode == 0
        assert b"Traceback" not in done.stderr

    def test_no_permission(self, cli, tmp_path, monkeypatch):
        table = save(tmp_path, rows())
        real = Path.open

        def refuse(self, *args, **kwargs):
            if self == table:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(self))
            return real(self, *args, **kwargs)

        monkeypatch.setattr(Path, "open", refuse)
        done = cli("audit", table, *AUDIT)
        assert done.code == 2
        assert "Permission denied" in done.err
        assert "t.csv" in done.err

    def test_no_permission_to_write(self, cli, tmp_path, monkeypatch):
        import tempfile

        table = save(tmp_path, rows())

        def refuse(*_, **__):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(tmp_path))

        monkeypatch.setattr(tempfile, "mkstemp", refuse)
        done = cli("audit", table, *AUDIT, "-o", tmp_path / "a.html")
        assert done.code == 2
        assert "Permission denied" in done.err


def command(arguments, **options):
    """Run the real command line in a process of its own."""
    code = "import sys; from fairpca.cli import main; main()"
    options.setdefault("stdout", subprocess.PIPE)
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)], stderr=subprocess.PIPE, **options
    )


class TestHarm:
    NAMES = (
        "<script>alert(1)</script>",
        "'; DROP TABLE x; --",
        '"quoted"',
        "emoji 😀🦊",
        "עברית",
        "[bold red]markup[/]",
        "\x1b[31mred\x1b[0m",
        "=cmd|' /C calc'!A0",
        "../../etc/passwd",
        "a,b;c",
    )

    def test_names_and_labels(self, cli, tmp_path):
        k = len(self.NAMES)
        values = np.random.default_rng(0).normal(size=(20 * k, k))
        # Names are the point: with two groups that matter the fits are easy.
        values[40:] *= 0.1
        table = pd.DataFrame(values, columns=list(self.NAMES))
        table["who are you?"] = np.repeat(self.NAMES, 20)
        path = save(tmp_path, table, "t <b>&'x'😀.csv")
        call = ("audit", path, "--group", "who are you?", "-r", 2, "--ranks", 2)
        call = (*call, "--bootstrap", 5, "--folds", 2)
        done = cli(*call)
        assert done.code == 0
        assert "\x1b" not in done.out + done.err
        assert "[bold red]markup[/]" in done.out
        found, page = tmp_path / "found.json", tmp_path / "page.html"
        found.write_text(cli(*call, "--json").out)
        groups = json.loads(found.read_text())["groups"]
        assert sorted(group["label"] for group in groups) == sorted(self.NAMES)
        assert cli("report", found, "-o", page).code == 0
        assert "<script>alert(1)" not in page.read_text()
        model = tmp_path / "m.skops"
        assert cli("fit", path, "--group", "who are you?", "-r", 2, "-o", model).code == 0
        assert cli("transform", model, path, "-o", tmp_path / "o.csv").code == 0

    def test_a_hostile_column_of_groups(self, cli, tmp_path):
        table = rows().rename(columns={"g": "<img src=x onerror=alert(1)>"})
        path = save(tmp_path, table)
        done = cli("audit", path, "--group", "<img src=x onerror=alert(1)>", "-r", 1, "--json")
        assert Audit.from_json(done.out).group_columns == ("<img src=x onerror=alert(1)>",)

    def test_a_terminal_is_not_steered(self):
        assert plain("a\x1b[2Jb\r\x07") == "a\ufffd[2Jb\ufffd\ufffd"
        assert plain("x\u202ey") == "xy"
        assert plain("tab\tline\n") == "tab line "

    def test_many_more_columns_than_rows(self, cli, tmp_path):
        path = save(tmp_path, rows(40, 600))
        done = cli(
            "audit", path, *AUDIT, "--ranks", 1, "--bootstrap", 5, "-o", tmp_path / "a.html"
        )
        assert done.code == 0
        assert "600 features" in done.err
        assert (tmp_path / "a.html").stat().st_size < 500_000

    def test_a_group_of_one_row(self, cli, tmp_path):
        table = rows()
        table.loc[0, "g"] = "alone"
        done = cli("audit", save(tmp_path, table), *AUDIT, "--json")
        assert done.code == 0
        assert any("alone" in text for text in done.json["warnings"])

    def test_a_csv_from_europe(self, cli, tmp_path):
        table = rows()
        one = save(tmp_path, table)
        other = tmp_path / "eu.csv"
        text = table.to_csv(index=False, sep=";", decimal=",", lineterminator="\r\n")
        other.write_bytes(b"\xef\xbb\xbf" + text.encode())
        first, second = (cli("audit", path, *AUDIT, "--json").json for path in (one, other))
        np.testing.assert_allclose(first["findings"][0]["loss"], second["findings"][0]["loss"])

    def test_one_row_and_one_column(self, cli, tmp_path):
        assert cli("audit", save(tmp_path, rows(1)), *AUDIT).code == 2
        assert cli("audit", save(tmp_path, rows(60, 1), "n.csv"), *AUDIT).code == 0

    def test_text_that_is_no_table(self, cli, tmp_path):
        for i, text in enumerate(
            ('"', ",,,\n,,,\n", "g\n" * 3, "\n\n\n", "a" * 200_000, "g,v\na,")
        ):
            path = tmp_path / f"{i}.csv"
            path.write_text(text)
            assert cli("audit", path, *AUDIT).code == 2


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (["audit", "{csv}", "-g", "sex", "-r", 2, "-o", "{csv}", "--force"], "choose another"),
        (["transform", "{model}", "{csv}", "-o", "{csv}", "--force"], "choose another name"),
        (["transform", "{csv}", "{model}"], "t.csv is not a model file"),
        (["audit", "{model}", "-g", "sex", "--model", "{csv}"], "t.csv is not a model file"),
        (["audit", "{csv}", "-g", "sex", "-r", 2, "--seed", -1], "--seed"),
        (["audit", "{csv}", "-g", "sex", "-g", "sex", "-r", 2], "'sex' twice"),
        (["audit", "{csv}", "-g", "sex>=3", "-r", 2], "is not a number; correct the cell"),
    ],
)
def test_slips_of_the_hand_cost_no_file_and_are_named(cli, frame, tmp_path, call, said):
    csv, model = tmp_path / "t.csv", tmp_path / "m.skops"
    frame.to_csv(csv, index=False)
    assert cli("fit", csv, "-g", "sex", "-r", 2, "-o", model).code == 0
    before = csv.read_bytes()
    done = cli(*(str(word).format(csv=csv, model=model) for word in call))
    assert done.code == 2
    assert said in done.err
    assert csv.read_bytes() == before
