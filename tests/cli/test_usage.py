"""Help, version, the demo, and what a command costs before it does anything."""

import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from fairpca.cli import run

VERBS = ["audit", "fit", "transform", "compare", "report", "datasets", "demo"]


class TestHelp:
    def test_lists_every_verb(self, cli):
        done = cli("--help")
        assert done.code == 0
        for verb in VERBS:
            assert re.search(rf"^\W+{verb} ", done.out, re.M), verb

    @pytest.mark.parametrize("verb", VERBS)
    def test_every_verb_explains_itself(self, cli, verb):
        done = cli(verb, "--help")
        assert done.code == 0
        assert "--json" in done.out

    def test_version(self, cli):
        from fairpca import __version__

        assert cli("--version").out.strip() == f"fairpca {__version__}"

    def test_unknown_verbs_and_options(self, cli):
        assert cli("frobnicate").code == 2
        assert cli("audit", "--frobnicate").code == 2
        assert cli("audit").code == 2


class TestDemo:
    def test_prints_and_draws(self, cli, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        done = cli("demo")
        assert done.code == 0
        assert (tmp_path / "fairpca-demo.png").read_bytes().startswith(b"\x89PNG")
        known = ("PCA", "FairPCA", "gap", "ms", "No projection", "fairpca-demo.png")
        for text in (*known, "value ± half of its 95% interval"):
            assert text in done.out
        lines = done.out.splitlines()
        assert len(lines) <= 24
        assert max(map(len, lines)) <= 80
        # Its own picture may be drawn again; another file is left alone.
        assert cli("demo").code == 0
        (tmp_path / "mine.png").write_text("mine")
        assert cli("demo", "-o", "mine.png").code == 2
        assert (tmp_path / "mine.png").read_text() == "mine"

    def test_numbers(self, cli, tmp_path):
        data = cli("demo", "--json", "-o", tmp_path / "d.svg").json
        assert set(data["seconds"]) == {"PCA", "FairPCA"}
        assert data["audit"]["gap"]["FairPCA"] < 1e-6
        assert data["audit"]["gap"]["PCA"] > 0.5
        assert "<svg" in (tmp_path / "d.svg").read_text()

    def test_text_and_picture_say_which_rows_they_are_about(self, cli, tmp_path, monkeypatch):
        labels = []
        monkeypatch.setattr(
            "matplotlib.figure.Figure.savefig",
            lambda figure, file, **_: labels.append(figure.axes[0].get_xlabel()),
        )
        done = cli("demo", "-o", tmp_path / "d.png")
        assert labels == ["loss per row on the rows in hand, 6 components"]
        assert "Picture, of the losses on the rows in hand:" in done.out
        # What a fit warns about is the first sentence already.
        assert done.err == ""


def python(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
    )


def test_help_imports_nothing_heavy():
    heavy = ["numpy", "scipy", "sklearn", "pandas", "matplotlib", "jinja2", "pyarrow", "skops"]
    code = (
        "import sys\nfrom fairpca.cli import run\nassert run(['--help']) == 0\n"
        f"print([m for m in {heavy} if m in sys.modules], file=sys.stderr)"
    )
    assert python(code).stderr.strip() == "[]"


def test_without_typer_the_remedy_is_named():
    done = python(
        "import sys; sys.modules['typer'] = None\nfrom fairpca.cli import run\nsys.exit(run([]))"
    )
    assert done.returncode == 2
    assert 'pip install ".[app]"' in done.stderr


def test_without_pandas_the_remedy_is_named(csv):
    code = (
        "import sys; sys.modules['pandas'] = None\nfrom fairpca.cli import run\n"
        f"sys.exit(run(['audit', {str(csv)!r}, '-g', 'sex', '-r', '2']))"
    )
    done = python(code)
    assert done.returncode == 2
    assert 'pip install ".[data]"' in done.stderr
    assert "Traceback" not in done.stderr


def test_a_defect_shows_where_on_request(csv, monkeypatch, cli):
    def broken(*_, **__):
        raise AssertionError("boom")

    monkeypatch.setattr("fairpca.cli.loading.read_tables", broken)
    done = cli("audit", csv, "-g", "sex", "-r", 2)
    assert done.code == 2
    assert "FAIRPCA_DEBUG=1" in done.err
    monkeypatch.setenv("FAIRPCA_DEBUG", "1")
    with pytest.raises(AssertionError, match="boom"):
        cli("audit", csv, "-g", "sex", "-r", 2)


@pytest.mark.parametrize("moment", ["_app", "loading.read_tables"])
def test_interrupting_leaves_with_130(csv, monkeypatch, cli, tmp_path, moment):
    """While the commands are imported, too, which takes a second on a busy machine."""

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"fairpca.cli.{moment}", interrupted)
    done = cli("audit", csv, "-g", "sex", "-r", 2, "-o", tmp_path / "a.html")
    assert done.code == 130
    assert done.err == "fairpca: interrupted; no output file was touched\n"
    assert not (tmp_path / "a.html").exists()


def test_a_terminal_without_a_width(csv, monkeypatch, cli):
    # Some shells of editors and of containers say so.
    for call, shown in ((["inspect", csv], "Likely groups (-g): sex, city"), (["-h"], "Usage:")):
        monkeypatch.setenv("COLUMNS", "0")
        done = cli(*call)
        assert done.code == 0
        assert shown in done.out


class TestOtherEncodings:
    @pytest.fixture
    def ascii_stdout(self, monkeypatch):
        """Return a function that runs a command, and gives its exit code and bytes on stdout."""

        def call(*arguments):
            stream = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
            monkeypatch.setattr(sys, "stdout", stream)
            return run([str(argument) for argument in arguments]), stream.buffer.getvalue()

        return call

    def test_people_read_what_the_stream_can_hold(self, frame, tmp_path, ascii_stdout):
        city = frame["city"].replace("x", "K\xf6ln")
        frame.assign(city=city).to_csv(tmp_path / "t.csv", index=False)
        code, out = ascii_stdout("inspect", tmp_path / "t.csv")
        assert code == 0
        assert b"K\\xf6ln (80)" in out

    def test_data_are_never_changed(self, frame, tmp_path, ascii_stdout, capsys):
        table, model = tmp_path / "t.csv", tmp_path / "m.skops"
        frame.assign(city="K\xf6ln").to_csv(table, index=False)
        assert ascii_stdout("fit", table, "-g", "sex", "-r", 2, "-o", model, "--json")[0] == 0
        assert ascii_stdout("transform", model, table, "--keep", "city") == (2, b"")
        assert "cannot hold '\xf6'; write a file with -o" in capsys.readouterr().err


class TestTheTour:
    """docs/start/terminal.md, block by block."""

    PAGE = Path(__file__).parents[2] / "docs" / "start" / "terminal.md"

    def test_prints_what_it_shows(self, cli, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        text = self.PAGE.read_text("utf-8")
        blocks = re.findall(r"^```(\w+)\n(.*?)^```", text, re.S | re.M)
        assert [kind for kind, _ in blocks].count("sh") == 5
        for kind, block in blocks:
            if kind == "python":
                exec(compile(block, "terminal.md", "exec"), {})
            elif kind == "sh":
                done = cli(*shlex.split(block)[1:])
                assert done.code == 0
                printed = "\n".join(line.rstrip() for line in done.out.splitlines())
            else:
                assert kind == "text"
                assert block.strip("\n") in printed
        assert {"audit.html", "model.skops", "reduced.csv"} <= {
            path.name for path in tmp_path.iterdir()
        }
