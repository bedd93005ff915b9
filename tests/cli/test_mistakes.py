"""What goes wrong is said in a sentence with a remedy, and leaves exit code 2 and no file."""

import os
import subprocess
import sys
import time
import warnings

import numpy as np
import pandas as pd
import pytest

from fairpca._check import warn
from fairpca.cli import output

FAIRPCA = [sys.executable, "-c", "from fairpca.cli import main; main()"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("audit pepole.csv -g sex", "pepole.csv does not exist. Did you mean 'people.csv'?"),
        ("audit people.csv -g sxe", "no column 'sxe'"),
        ("audit people.csv", "Missing option '--sensitive-features' / '-g'"),
        ("audit people.csv -g sex -r two", "--n-components 'two'"),
        ("audit people.csv -g sex -r 99", "must be between 1 and the number of features"),
        ("audit people.csv -g sex --ranks 1-x", "--ranks '1-x'"),
        ("audit people.csv -g sex --missing zero", "missing='zero' is not known"),
        ("audit people.csv -g sex -o a.doc", "must be one of .html, .json, .csv"),
        ("audit people.csv -g sex -o nowhere/a.html", "there is no directory nowhere"),
        ("audit people.csv -g sex --model people.csv", "is not a model file that can be read"),
        ("fit people.csv -g sex -o people.csv", "the ending must be one of .skops"),
        ("fit people.csv -g sex --shrinkage x -o m.skops", "--shrinkage 'x': pass auto"),
        ("fit people.csv -g sex --criterion los -o m.skops", "criterion='los' is not known"),
        ("fit people.csv -g sex --separate --max-harm 0 -o m.skops", "--separate has no"),
        ("transform people.csv --model m.skops", "m.skops does not exist"),
        ("inspect people.csv --sep xx", "--sep 'xx' is not one character"),
        ("compare people.csv -g sex -r 0.9", "methods are compared with a number"),
        ("fti people.csv", "No such command 'fti'"),
    ],
)
def test_a_mistake_is_named(cli, csv, monkeypatch, arguments, said):
    monkeypatch.chdir(csv.parent)
    done = cli(*arguments.split())
    assert done.code == 2
    assert said in " ".join(done.err.split())
    assert "defect" not in done.err
    assert [path.name for path in csv.parent.iterdir()] == ["people.csv"]


def test_a_cell_that_is_no_number_is_named(cli, tmp_path):
    rows = [f"{'ab'[i % 2]},{i * i % 7},{'9' * 400 if i == 39 else i}" for i in range(40)]
    (tmp_path / "t.csv").write_text("\n".join(["g,x,y", *rows]))
    said = "column 'y' is infinite, or too large for a number, in data row 40"
    assert said in " ".join(cli("inspect", tmp_path / "t.csv").out.split())
    done = cli("audit", tmp_path / "t.csv", "-g", "g", "-r", "1")
    assert (done.code, said in " ".join(done.err.split())) == (2, True)


def test_an_output_that_cannot_be_is_named_before_the_work(cli, csv, tmp_path):
    loop = tmp_path / "loop.skops"
    loop.symlink_to(loop)
    done = cli("fit", csv, "-g", "sex", "-o", loop)
    assert (done.code, "a link that leads to itself" in done.err) == (2, True)
    (tmp_path / "copy.csv").symlink_to(csv)
    done = cli("audit", csv, "-g", "sex", "-o", tmp_path / "copy.csv")
    assert (done.code, "read by this very command" in done.err) == (2, True)


def test_a_wrong_model_is_named_with_its_columns(cli, csv, frame, tmp_path):
    path = tmp_path / "m.skops"
    cli("fit", csv, "-g", "sex", "-o", path)
    frame.drop(columns="v1").to_csv(tmp_path / "u.csv", index=False)
    done = cli("transform", tmp_path / "u.csv", "--model", path)
    assert (done.code, "lacks the column(s) 'v1' of the fit" in done.err) == (2, True)


def test_labels_steer_no_terminal_and_no_spreadsheet(cli, frame, tmp_path):
    names = frame["sex"].map({"f": "\x1b[31mred", "m": '=HYPERLINK("x")'})
    frame.assign(sex=names).to_csv(tmp_path / "t.csv", index=False)
    done = cli("audit", tmp_path / "t.csv", "-g", "sex", "-o", tmp_path / "a.csv")
    assert done.code == 0
    assert "\x1b" not in done.out + done.err
    assert "'=HYPERLINK" in (tmp_path / "a.csv").read_text()


def test_a_closed_stdout_is_no_success(csv):
    command = [*FAIRPCA, "inspect", str(csv)]
    shell = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *command], capture_output=True)
    assert shell.returncode == 2
    full = subprocess.run(["sh", "-c", '"$@" >/dev/full', "sh", *command], capture_output=True)
    assert (full.returncode, b"No space left" in full.stderr) == (2, True)


def test_piped_output_shows_what_is_being_done(capsys, monkeypatch):
    monkeypatch.setattr(output, "_PATIENCE", 0.02)
    monkeypatch.setattr(output, "_BETWEEN", 0.02)
    with output.progress("counting rows"):
        time.sleep(0.3)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) > 1
    assert all(line.startswith("counting rows ... ") for line in lines)


def test_a_warning_is_one_note(capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        with output.log_shown():
            for _ in range(3):
                warn("few rows")
    assert capsys.readouterr().err == "note: few rows\n"


def test_python_is_not_loaded_before_paths_are_checked(tmp_path):
    code = (
        "import sys; from fairpca.cli import run; print(run(sys.argv[1:]),"
        "[m for m in ('sklearn', 'pandas', 'scipy', 'pyarrow', 'matplotlib') if m in sys.modules])"
    )
    environment = {**os.environ, "COLUMNS": "80"}
    for arguments in (["--help"], ["audit", str(tmp_path / "nosuch.csv"), "-g", "x"]):
        shown = subprocess.run(
            [sys.executable, "-c", code, *arguments],
            capture_output=True, text=True, env=environment, check=True,
        )  # fmt: skip
        assert shown.stdout.splitlines()[-1].endswith(" []"), shown.stdout


def test_numbers_are_not_cut_on_a_narrow_terminal(cli, csv, monkeypatch):
    monkeypatch.setenv("COLUMNS", "30")
    done = cli("audit", csv, "-g", "sex", "--drop", "paid")
    assert done.code == 0
    assert "…" not in done.out


def test_the_advice_runs_when_it_is_pasted(cli, tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    many, few = rng.normal(size=(900, 3)) * [3, 1, 1], rng.normal(size=(400, 3)) * [1, 3, 1]
    frame = pd.DataFrame(np.vstack([many, few]), columns=list("xyz"))
    frame["my group"] = np.repeat(["many", "few"], [900, 400])
    frame.to_csv(tmp_path / "t.csv", index=False)
    monkeypatch.chdir(tmp_path)
    done = cli("audit", "t.csv", "-g", "my group", "-r", "1", "--raw")
    command = next(line for line in done.out.splitlines() if "fairpca fit" in line)
    import shlex

    assert cli(*shlex.split(command)[1:]).code == 0
    assert (tmp_path / "model.skops").exists()
