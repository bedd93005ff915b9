"""What new users ran into in their first hour, and does not happen again."""

import io
import json
import os
import pty
import re
import subprocess
import sys
import time
import warnings
from typing import get_type_hints

import numpy as np
import pandas as pd
import pytest
from fairpca.cli.options import FitOptions
from fairpca.io.columns import looks_like_id
from fairpca.moments.memory import check_moments_size
from sklearn.base import BaseEstimator
from typer.main import get_command

from fairpca import FairPCA
from fairpca._check import check_shrinkage, did_you_mean
from fairpca.cli import _app, output
from fairpca.cli.output import csv_text, in_option_words, warnings_as_notes
from fairpca.criteria import CRITERIA
from fairpca.methods import NullSpaceFairPCA, UnconstrainedFPCA
from fairpca.persistence import load_model

MAIN = "import sys; from fairpca.cli import main; main()"


def process(arguments, **options):
    """Run the real command line in a process of its own."""
    command = [sys.executable, "-c", MAIN, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, **options)


def on_a_terminal(*commands):
    """Return what commands write to a terminal, one after the other, stderr left out."""
    ours, theirs = pty.openpty()
    calls = [[str(argument) for argument in arguments] for arguments in commands]
    code = f"import sys; from fairpca.cli import run; sys.exit(max(map(run, {calls!r})))"
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=theirs, stderr=subprocess.DEVNULL) as running:
        os.close(theirs)
        parts = []
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:
                # Linux ends a closed terminal with an error instead of with nothing.
                break
            if not part:
                break
            parts.append(part)
    os.close(ours)
    assert running.returncode == 0
    return b"".join(parts)


@pytest.fixture
def model(cli, csv, tmp_path):
    path = tmp_path / "m.skops"
    assert cli("fit", csv, "-g", "sex", "-r", 2, "--feature", "v*", "-o", path).code == 0
    return path


class TestTarget:
    def test_the_terminal_shows_scores_and_a_baseline(self, cli, csv):
        done = cli("audit", csv, "-g", "sex", "-r", 2, "--target", "paid", "--bootstrap", 0)
        assert "accuracy of paid" in done.out
        assert "baseline" in done.out
        # The command to copy names the folder of the table, and is never broken.
        lines = [line for line in done.out.splitlines() if not line.startswith("  fairpca fit")]
        assert max(map(len, lines)) <= 80

    def test_the_csv_has_them(self, cli, csv, tmp_path):
        path = tmp_path / "a.csv"
        call = ("audit", csv, "-g", "sex", "-r", 2, "--target", "paid", "--bootstrap", 0)
        scores = cli(*call, "--json", "-o", path).json["scores"]
        table = pd.read_csv(path).query("reducer == 'FairPCA' and n_components == 2")
        table = table[table["rows"] == "in hand"]
        assert table["accuracy"].tolist() == pytest.approx(scores["reducers"]["FairPCA"]["groups"])
        assert table["baseline"].tolist() == pytest.approx(scores["baseline"]["groups"])

    def test_whole_numbers_that_are_amounts(self, cli, frame, tmp_path):
        amounts = np.arange(160) % 40
        frame.assign(amount=amounts).to_csv(tmp_path / "t.csv", index=False)
        call = ("audit", tmp_path / "t.csv", "-g", "sex", "-r", 2, "--bootstrap", 0, "--json")
        call = (*call, "--target", "amount", "--ranks", 2)
        assert cli(*call).json["scores"]["score"] == "R squared"
        done = cli(*call, "--target-kind", "classes")
        assert done.json["scores"]["score"] == "accuracy"

    def test_a_target_with_gaps_is_called_by_its_option(self, cli, frame, tmp_path):
        path = tmp_path / "t.csv"
        frame.assign(paid=frame["paid"].where(frame.index != 3)).to_csv(path, index=False)
        done = cli("audit", path, "-g", "sex", "-r", 2, "--target", "paid", "--drop", "plan")
        assert done.code == 2
        assert "--target has 1 missing value(s)" in done.err
        income = frame["v0"].where(frame.index != 3, np.inf)
        frame.assign(paid=income).to_csv(path, index=False)
        for verb in ("audit", "compare"):
            done = cli(verb, path, "-g", "sex", "-r", 2, "--target", "paid", "--drop", "plan")
            assert done.code == 2
            assert "--target has 1 infinite value(s); replace them" in done.err


def test_the_columns_used_are_named(cli, csv, tmp_path):
    done = cli("audit", csv, "-g", "sex", "-r", 2, "--bootstrap", 0)
    assert "Columns used (7): city, v0, v1, v2, v3, plan, paid." in done.out
    data = cli("audit", csv, "-g", "sex", "-r", 2, "--bootstrap", 0, "--json").json
    used = ["city", "v0", "v1", "v2", "v3", "plan", "paid"]
    assert data["provenance"]["source"]["features"] == used


class TestCompare:
    def test_fits_a_terminal_of_80_columns(self, cli, csv, monkeypatch):
        monkeypatch.setenv("COLUMNS", "80")
        methods = ("--method", "CovarianceConstrainedPCA", "--method", "PCA")
        done = cli("compare", csv, "-g", "sex", "-r", 2, *methods, "--target", "paid")
        lines = done.out.splitlines()
        assert max(map(len, lines)) <= 80
        # Every table names its methods in full.
        tables = sum(line.startswith("method ") for line in lines)
        assert tables > 1
        assert sum(line.startswith("CovarianceConstrainedPCA ") for line in lines) == tables

    def test_one_method_is_one(self, cli, csv):
        done = cli("compare", csv, "-g", "sex", "-r", 2, "--method", "PCA", "--json")
        assert "fitting 1 method" in done.err

    def test_every_method_failing(self, cli, csv, monkeypatch):
        class Broken(BaseEstimator):
            def fit(self, X, y=None, *, sensitive_features=None):
                raise ValueError("two groups only")

        monkeypatch.setattr(
            "fairpca.comparison.default_estimators", lambda *_, **__: {"B": Broken()}
        )
        done = cli("compare", csv, "-g", "sex", "-r", 2)
        assert done.code == 2
        assert "B could not run: two groups only" in done.out
        assert "no method could run" in done.err

    def test_too_many_components_are_refused_once(self, cli, csv):
        done = cli("compare", csv, "-g", "sex", "-r", 99)
        assert done.code == 2
        assert done.err.count("-r 99 must be between 1 and") == 1
        assert done.out == ""

    def test_a_place_is_a_whole_number_in_a_file(self, cli, csv, tmp_path):
        methods = ("--method", "PCA", "--method", "JointDiagonalPCA")
        cli("compare", csv, "-g", "sex", "-r", 2, *methods, "-o", tmp_path / "c.csv")
        written = pd.read_csv(tmp_path / "c.csv", dtype=str, keep_default_na=False)
        assert written["place"].tolist() == ["1", ""]

    def test_a_target_of_numbers(self, cli, frame, tmp_path):
        path = tmp_path / "t.csv"
        frame.assign(amount=frame["v0"] + 0.25).to_csv(path, index=False)
        call = ("compare", path, "-g", "sex", "-r", 2, "--method", "PCA", "--method", "FairPCA")
        done = cli(*call, "--target", "amount")
        assert done.code == 0
        assert "squared" in done.out
        assert "class" not in done.out + done.err
        data = cli(*call, "--target", "plan", "--json").json
        assert data["rows"][0]["accuracy"] > 0
        assert 0.3 < data["baseline"] < 0.4
        data = cli(*call, "--target", "paid", "--target-kind", "numbers", "--json").json
        assert data["rows"][0]["accuracy"] is None
        assert data["rows"][0]["r_squared"] > data["baseline"]

    def test_a_target_that_cannot_be_predicted_is_said_once(self, cli, frame, tmp_path):
        path = tmp_path / "t.csv"
        frame.assign(paid=frame["paid"].where(frame.index != 3)).to_csv(path, index=False)
        done = cli("compare", path, "-g", "sex", "-r", 2, "--target", "paid")
        assert done.code == 2
        assert done.err.count("--target has 1 missing value(s)") == 1
        assert done.out == ""


class TestSuggestions:
    @pytest.mark.parametrize(
        "arguments, meant",
        [
            (("audit", "-g", "ctiy", "-r", 1), "city"),
            (("audit", "-g", "sex", "-r", 1, "--feature", "v11"), "v1"),
            (("audit", "-g", "sex", "-r", 1, "--drop", "Plan"), "plan"),
            (("audit", "-g", "sex", "-r", 1, "--target", "payd"), "paid"),
            (("audit", "-g", "plan", "-r", 1, "--labels", "basik=b"), "basic"),
            (("compare", "-g", "sex", "-r", 1, "--method", "FairPca"), "FairPCA"),
        ],
    )
    def test_did_you_mean(self, cli, csv, arguments, meant):
        verb, *rest = arguments
        done = cli(verb, csv, *rest)
        assert done.code == 2
        assert f"Did you mean '{meant}'" in done.err

    @pytest.mark.parametrize("engine", ["memory", "local"])
    def test_a_first_row_of_data_is_no_header(self, cli, tmp_path, engine):
        path = tmp_path / "rows.csv"
        path.write_text("".join(f"{i}.5,-{i}.25,{'ab'[i % 2]}\n" for i in range(40)))
        call = ("fit", path, "-r", 1, "-o", tmp_path / "m.skops", "--engine", engine)
        done = cli(*call, "-g", "sex")
        assert done.code == 2
        assert "names such as '0.5': is the first row data? Then say --header 0" in done.err
        assert cli(*call, "-g", "3", "--header", 0).code == 0
        assert "say --header 0" in cli("inspect", path).err
        path.write_text("2001,2002,sex\n" + path.read_text())
        assert "--header" not in cli("inspect", path).err

    def test_files(self, cli, csv, model, tmp_path):
        """As for columns and methods: a file of nearly that name is suggested."""
        (tmp_path / "audit.json").write_text("{}")
        folder = tmp_path / "nowhere"
        calls = {
            ("report", tmp_path / "adit.json"): "Did you mean 'audit.json'?",
            ("inspect", tmp_path / "poeple.csv"): "Did you mean 'people.csv'?",
            ("transform", tmp_path / "mm.skops", csv): "Did you mean 'm.skops'?",
            ("report", tmp_path / "zzz"): "zzz does not exist. Check the name and the folder.",
            ("inspect", folder / "people.csv"): f"there is no folder {folder}.",
        }
        for call, said in calls.items():
            done = cli(*call)
            assert done.code == 2
            assert said in done.err
            assert len(done.err.splitlines()) == 1

    def test_columns_a_model_needs(self, cli, frame, model, tmp_path):
        path = tmp_path / "new.csv"
        frame.rename(columns={"v1": "V1"}).to_csv(path, index=False)
        for call in (("transform", model, path), ("audit", path, "-g", "sex", "--model", model)):
            done = cli(*call)
            assert done.code == 2
            assert "lacks the column(s) 'v1' of the fit; it has 'id', 'sex'" in done.err
            assert "Add or rename columns" in done.err
            assert "Did you mean 'V1'?" in done.err

    def test_another_case_is_the_one(self):
        assert did_you_mean("fairpca", ["FairPCA", "SDRFairPCA"]) == " Did you mean 'FairPCA'?"
        assert did_you_mean("zzz", ["FairPCA"]) == ""
        assert did_you_mean("zero", ["error", "drop", "mean"]) == ""

    def test_words_of_the_command_line(self):
        assert in_option_words("n_components=3 is too many") == "-r 3 is too many"
        assert in_option_words("Pass shrinkage='auto'") == "Pass --shrinkage auto"
        # Quoted words are columns or values.
        assert in_option_words("there is no column 'missing'") == "there is no column 'missing'"

    @pytest.mark.parametrize(
        "call, said",
        [
            (
                lambda: check_shrinkage("x"),
                "--shrinkage x is not known; leave it out, or pass auto",
            ),
            (
                lambda: check_moments_size(10**6, 2, 10**6),
                "Choose fewer columns (--feature, --drop) or groups.",
            ),
            (
                lambda: NullSpaceFairPCA(1).fit(np.eye(3), sensitive_features=[1, 1, 1]),
                "--group has 1 group",
            ),
            (
                lambda: FairPCA(1).fit(np.eye(60), sensitive_features=np.arange(60) / 7),
                "ranges first, for example with --group 'COLUMN>=VALUE', or",
            ),
            (
                lambda: UnconstrainedFPCA(1).fit(np.eye(3), sensitive_features=[1, 2, 3]),
                "merge labels with --labels, or use",
            ),
        ],
        ids=["shrinkage", "memory", "one group", "measurements", "three groups"],
    )
    def test_advice_of_the_library_can_be_followed(self, call, said):
        with pytest.raises((ValueError, MemoryError, UserWarning)) as raised:
            call()
        assert said in in_option_words(str(raised.value))

    def test_notes_of_a_comparison_name_options(self, cli, tmp_path):
        rng = np.random.default_rng(0)
        table = pd.DataFrame(rng.normal(size=(60, 5)), columns=list("abcde"))
        table.assign(sex=np.repeat([1, 2], 30)).to_csv(tmp_path / "n.csv", index=False)
        call = ("compare", tmp_path / "n.csv", "-g", "sex", "-r", 2, "--method", "FairPCA")
        done = cli(*call)
        text = " ".join(done.out.split())
        assert "1 (30 rows)" in text
        assert "2 (30 rows)" in text
        assert "Use fairpca fit --shrinkage auto, merge (--labels) small groups" in text
        assert "fairpca audit shows what every group loses" in text
        assert "--shrinkage auto" in cli(*call, "--json").json["rows"][0]["message"]

    def test_every_option_that_is_named_exists(self):
        known = {"-g"}
        for command in get_command(_app()).commands.values():
            known |= {name for parameter in command.params for name in parameter.opts}
        named = [*output._OPTION_OF.values(), *output._PHRASES.values()]
        options = {option for text in named for option in re.findall(r"(?<!\w)--?[\w-]+", text)}
        assert len(options) > 10
        assert options <= known

    def test_choices_are_those_of_the_library(self):
        hint = get_type_hints(FitOptions, include_extras=True)["criterion"]
        assert hint.__metadata__[0].among() == tuple(CRITERIA)


class TestTransform:
    def test_missing_numbers_have_a_remedy_that_works(self, cli, model, frame, tmp_path):
        path = tmp_path / "holes.csv"
        holes = frame.assign(v1=frame["v1"].where(frame.index != 3))
        holes.to_csv(path, index=False)
        done = cli("transform", model, path)
        assert done.code == 2
        assert "--missing drop or --missing mean" in done.err
        assert "median" not in done.err
        dropped = cli("transform", model, path, "--missing", "drop", "--json").json
        assert dropped["n_rows"] == 159
        filled = cli("transform", model, path, "--missing", "mean", "--json").json
        assert filled["n_rows"] == 160
        said = cli("transform", model, path, "--missing", "mean", "-o", tmp_path / "z.csv").err
        assert "1 missing number(s) replaced by the mean" in said
        frame.assign(v1=holes["v1"].fillna(frame["v1"].mean())).to_csv(path, index=False)
        expected = cli("transform", model, path, "--json").json
        np.testing.assert_allclose(filled["rows"], expected["rows"], atol=1e-12)


class TestContradictions:
    """What a command cannot mean is refused in the words of its options."""

    AUDIT = ("-g", "sex", "-r", 2, "--bootstrap", 0, "--folds", 0)

    @pytest.mark.parametrize(
        "more, said",
        [
            (("--ranks", "5-1"), "--ranks 5-1: pass numbers from 1 and ranges that go up"),
            (("--ranks", "0-2"), "--ranks 0-2: pass numbers from 1"),
            (("--ranks", "1,99"), "--ranks 1,99: 99 components are more than the 10 features"),
            (("--drop", "*"), "no column is left as a feature beside 'sex'; --drop '*' leaves"),
            (("--sep", ";"), "with --sep ';' the header is a single column; it looks comma-"),
        ],
    )
    def test_refused(self, cli, csv, more, said):
        done = cli("audit", csv, *self.AUDIT, *more)
        assert done.code == 2
        assert said in done.err

    @pytest.mark.parametrize(
        "name, text, call, said",
        [
            ("t.csv", "a,b,g\n1,2,x\n", "audit -g g -r 1", "1 of 1 row(s) is left"),
            ("t.csv", "a,b,g\n1,2,x\n3,,\n5,6,x\n", "audit -g g -r 1 --missing mean", "row 2 "),
            ("t.csv", "a,b,g\n1,2,x\n3,4,5,y\n" + "1,2,x\n" * 9, "inspect", "in line 3, saw 4"),
            ("t.csv", "a,b,g\n1,2,x\n", "audit -g g -r 0", "-r 0: pass a number of components"),
            ("t.csv", "a,b,g\n1,2,x\n", "fit -g g -r 1 -o m.pkl", "ending must be .skops."),
            ("t.csv", "a,b,g\n,2,x\n3,4,\n", "audit -g g -r 1", "missing values in 'a' (1):"),
            ("t.csv", "a,n,g\n1,,x\n,y,x\n", "audit -g g -r 1", "missing values in 'a' (1):"),
        ],
    )
    def test_tables(self, cli, tmp_path, name, text, call, said):
        (tmp_path / name).write_text(text)
        verb, *more = call.split()
        done = cli(verb, tmp_path / name, *more)
        assert done.code == 2
        assert said in done.err

    def test_a_table_twice(self, cli, csv):
        done = cli("inspect", csv, csv)
        assert done.code == 2
        assert "is given twice" in done.err

    @pytest.mark.parametrize(
        "call",
        [
            ("audit", "-g", "sex", "-r", 2),
            ("inspect",),
            ("fit", "-g", "sex", "-r", 2, "--engine", "memory", "-o", "m.skops"),
        ],
        ids=lambda call: call[0],
    )
    def test_a_pattern_in_quotes(self, cli, csv, call):
        done = cli(call[0], csv.parent / "*.csv", *call[1:])
        assert done.code == 2
        assert "Write it without quotes: then the shell names the files" in done.err
        assert "Did you mean" not in done.err

    def test_the_separator_that_was_seen(self, cli, frame, tmp_path):
        path = tmp_path / "t.csv"
        frame.to_csv(path, index=False, sep="\t")
        assert "use --sep tab." in cli("inspect", path, "--sep", ",").err
        # One column with decimal commas is what it is said to be.
        path.write_text("x\n" + "1,5\n2,5\n" * 20)
        assert cli("inspect", path, "--sep", ";").code == 0

    @pytest.mark.parametrize("engine", ["memory", "local"])
    def test_a_group_that_is_a_feature(self, cli, csv, tmp_path, engine):
        call = ("fit", csv, "-g", "paid", "-g", "city", "-r", 1, "--engine", engine)
        done = cli(*call, "--feature", "paid", "--feature", "v*", "-o", tmp_path / "m.skops")
        assert done.code == 0
        assert "group column 'paid' is a feature, too, as asked" in done.err
        assert "group column 'city' is no feature" in done.err

    def test_warnings_name_options(self, cli, csv):
        assert "--folds is 0" in " ".join(cli("audit", csv, *self.AUDIT).out.split())


def test_names_are_no_groups(cli, frame, tmp_path):
    path = tmp_path / "t.csv"
    frame.assign(name=[f"person {i}" for i in range(160)]).to_csv(path, index=False)
    done = cli("audit", path, "-g", "name", "-r", 1)
    assert done.code == 2
    assert "160 distinct labels are too many to be groups; label the rows first." in done.err


def test_a_warning_is_said_once(capsys):
    with warnings_as_notes():
        warnings.simplefilter("always")
        for _ in range(2):
            warnings.warn("tol=1 is large", stacklevel=1)
            warnings.warn("tol=1 is large", stacklevel=2)
    assert capsys.readouterr().err == "note: tol=1 is large\n"


class TestPipelines:
    def test_a_reader_that_leaves_keeps_the_exit_code(self, csv):
        """The code 0 is in test_hostile_input.py, with a cheaper command."""
        arguments = ["audit", csv, "-g", "sex", "-r", "2", "--bootstrap", "0", "--max-gap", "0"]
        read, write = os.pipe()
        os.close(read)
        command = [sys.executable, "-c", MAIN, *map(str, arguments)]
        done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE)
        os.close(write)
        assert done.returncode == 3
        assert b"Traceback" not in done.stderr

    def test_help_to_a_reader_that_leaves(self):
        read, write = os.pipe()
        os.close(read)
        done = subprocess.run(
            [sys.executable, "-c", MAIN, "audit", "--help"], stdout=write, stderr=subprocess.PIPE
        )
        os.close(write)
        assert done.returncode == 0
        assert done.stderr == b""

    def test_standard_input(self, csv, cli, monkeypatch):
        arguments = ["audit", "-", "-g", "sex", "-r", "2", "--bootstrap", "0", "--json"]
        piped = process(arguments, input=csv.read_bytes())
        assert piped.returncode == 0, piped.stderr
        direct = cli("audit", csv, *arguments[2:])
        for one, other in zip(
            json.loads(piped.stdout)["findings"], direct.json["findings"], strict=True
        ):
            assert one["reducer"] == other["reducer"]
            for name in ("loss", "error", "share", "total_error"):
                np.testing.assert_allclose(one[name], other[name], rtol=1e-9, atol=1e-12)
        # What is refused needs no process of its own.
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"")))
        assert cli("audit", "-", "-", *arguments[2:]).code == 2
        empty = cli(*arguments)
        assert empty.code == 2
        assert "standard input" in empty.err

    def test_no_line_ends_in_spaces(self, cli, csv, model, monkeypatch):
        monkeypatch.setenv("COLUMNS", "70")
        audit = ("audit", csv, "-g", "sex", "-r", 2, "--bootstrap", 0)
        for call in (audit, ("inspect", csv), ("audit", csv, "-g", "sex", "--model", model)):
            done = cli(*call)
            lines = (done.out + done.err).splitlines()
            assert len(lines) > 5
            assert [line for line in lines if line.endswith(" ")] == []

    def test_messages_are_wrapped_on_request(self, cli, csv, monkeypatch):
        call = ("audit", csv, "-g", "sex", "-r", 2, "--bootstrap", 0, "--json")
        assert len(cli(*call).err.splitlines()) == 1
        monkeypatch.setenv("COLUMNS", "60")
        assert max(map(len, cli(*call).err.splitlines())) <= 60


class TestInspect:
    def test_what_columns_look_like(self, cli, frame, tmp_path):
        path = tmp_path / "t.csv"
        odd = frame.assign(
            when=pd.date_range("2020-01-01", periods=160).strftime("%Y-%m-%d"),
            user_id=[f"u{i}" for i in range(160)],
            same=7,
            v0=frame["v0"].where(frame.index > 4),
        )
        odd.to_csv(path, index=False)
        done = cli("inspect", path, "--json")
        rows = {row["name"]: row for row in done.json["columns"]}
        looks = {name: row["looks_like"] for name, row in rows.items()}
        expected = {"id": "row number", "sex": "labels", "when": "date", "user_id": "id"}
        assert expected.items() <= looks.items()
        assert looks["same"] == "constant"
        assert rows["v0"]["missing"] == 5
        assert rows["sex"]["levels"] == {"f": 110, "m": 50}
        text = cli("inspect", path).out
        assert "Likely groups (-g): sex, city, plan, paid." in text
        assert max(map(len, text.splitlines())) <= 80

    def test_rows_that_repeat_another(self, cli, frame, tmp_path):
        twice = pd.concat([frame, frame.iloc[:3]]).assign(id=range(163))
        twice.to_csv(tmp_path / "t.csv", index=False)
        assert cli("inspect", tmp_path / "t.csv", "--json").json["repeated_rows"] == 3


class TestIdentifiers:
    """A column of ids measures nothing, and standardised it weighs as much as any other."""

    @pytest.fixture
    def table(self, frame, tmp_path):
        """Return a table whose rows are partly repeated, with an id and other whole numbers."""
        rng = np.random.default_rng(0)
        wide = frame.drop(columns=["id", "plan"]).assign(
            customer=5000 + rng.permutation(160),
            member_id=rng.integers(0, 90, 160),
            income=rng.permutation(np.arange(160)) * 997 + 18000,
            age=rng.integers(18, 80, 160),
            paid_no=rng.integers(0, 9, 160),
        )
        path = tmp_path / "t.csv"
        pd.concat([wide, wide.iloc[:5]]).to_csv(path, index=False)
        return path

    def test_inspect_names_them(self, cli, table):
        columns = cli("inspect", table, "--json").json["columns"]
        ids = [row["name"] for row in columns if row["looks_like"] == "id"]
        assert ids == ["customer", "member_id"]
        text = cli("inspect", table).out
        assert "Likely identifiers: customer, member_id; leave out with" in text
        assert "--drop customer --drop member_id." in " ".join(text.split())

    def test_whole_numbers_keep_their_text(self, cli, frame, tmp_path):
        path = tmp_path / "t.csv"
        frame.assign(code=np.where(frame.index < 5, np.nan, 1 + frame.index % 2)).to_csv(path)
        rows = {row["name"]: row for row in cli("inspect", path, "--json").json["columns"]}
        assert sorted(rows["code"]["levels"]) == ["1", "2"]

    @pytest.mark.parametrize("engine", ["memory", "local"])
    def test_a_fit_says_so_and_uses_them(self, cli, table, tmp_path, engine):
        path = tmp_path / "m.skops"
        call = ("fit", table, "-g", "sex", "-g", "city", "-r", 2, "--engine", engine, "--force")
        done = cli(*call, "-o", path)
        assert done.err.count("look like identifiers") == 1
        assert "--drop customer --drop member_id" in done.err
        assert "customer" in load_model(path).feature_names
        dropped = cli(*call, "-o", path, "--drop", "customer", "--drop", "member_id")
        assert "identifier" not in dropped.err
        # Who names a column has thought about it.
        named = cli(*call, "-o", path, "--feature", "customer", "--feature", "v*")
        assert "identifier" not in named.err

    def test_an_audit_says_so_and_keeps_it(self, cli, table):
        call = ("audit", table, "-g", "sex", "-r", 2, "--drop", "member_id", "--folds", 0)
        done = cli(*call, "--bootstrap", 0, "--json")
        said = "'customer' looks like an identifier and counts as a feature"
        assert f"note: {said}; to leave out: --drop customer." in done.err
        assert said in done.json["provenance"]["source"]["preparation"]

    @pytest.mark.parametrize(
        "name, is_id",
        [("ID", True), ("userId", True), ("PATIENT-NO", True), ("paid", False), ("grid", False)],
    )
    def test_names(self, name, is_id):
        far_apart = np.arange(60) * 1000
        assert looks_like_id(name, far_apart) == is_id
        assert not looks_like_id(name, far_apart + 0.5)
        assert not looks_like_id(name, np.arange(60) % 8)

    def test_texts(self):
        assert looks_like_id("who", np.array([f"u{i}" for i in range(60)], dtype=object))
        assert not looks_like_id("remark", np.array([f"no {i}" for i in range(60)], dtype=object))


class TestLabels:
    def test_codes_get_names(self, cli, csv):
        call = ("audit", csv, "-g", "sex", "-r", 2, "--bootstrap", 0, "--json")
        named = cli(*call, "--labels", "f=women,m=men").json
        assert [group["label"] for group in named["groups"]] == ["men", "women"]
        crossed = (*call, "-g", "city")
        done = cli(*crossed, "--labels", "f=women")
        assert done.code == 2
        assert "begin with the column, such as sex:f=women" in done.err
        named = cli(*crossed, "--labels", "sex:f=women").json
        assert named["groups"][0]["label"] == ["m", "x"]

    def test_a_code_has_one_name(self, cli, csv):
        call = ("audit", csv, "-g", "sex", "-r", 2, "--bootstrap", 0, "--labels")
        for more in (["f=women,f=girls"], ["f=women", "--labels", "f=girls"]):
            done = cli(*call, *more)
            assert done.code == 2
            assert "'f' is 'women' already; name it once" in done.err
        assert cli(*call, "f=women,f=women").code == 0

    @pytest.mark.parametrize("entry", ["f", "=x", "f=", "f=a,"])
    def test_pairs_that_cannot_be_read(self, cli, csv, entry):
        done = cli("audit", csv, "-g", "sex", "-r", 2, "--labels", entry)
        assert done.code == 2
        assert "--labels" in done.err


class TestHelp:
    @pytest.mark.parametrize("verb", ["audit", "fit", "transform", "compare", "report", "demo"])
    def test_examples_and_no_types_of_python(self, cli, verb):
        text = cli(verb, "--help").out
        assert "Examples:\n  fairpca " in text
        assert "bool" not in text
        assert "Path" not in text
        assert "Exit codes: 0 done" in text

    def test_examples_fit_a_narrow_terminal(self):
        from fairpca.cli import _app

        for command in _app().registered_commands:
            assert all(len(line) <= 80 for line in command.epilog.splitlines())


class TestTextIsData:
    EVIL = "\x1b[2J\x1b]0;title\x07x"

    @pytest.fixture
    def evil(self, frame, tmp_path):
        path = tmp_path / "evil.csv"
        names = np.array([self.EVIL, '=HYPERLINK("http://x")', "-1", "+a"])[np.arange(160) % 4]
        frame.assign(name=names).to_csv(path, index=False)
        return path

    def test_transform_and_report_cannot_steer_a_terminal(self, cli, evil, model, tmp_path):
        done = cli("audit", evil, "-g", "name", "-r", 1, "--bootstrap", 0, "--json")
        (tmp_path / "a.json").write_text(done.out)
        shown = on_a_terminal(
            ("transform", model, evil, "--keep", "name"), ("report", tmp_path / "a.json")
        )
        assert b"name,fairpca0,fairpca1" in shown
        assert b"<!DOCTYPE html>" in shown
        assert b"\x1b" not in shown
        assert b"\x07" not in shown

    def test_a_pipe_gets_the_text_as_it_is(self, cli, evil, model):
        assert self.EVIL in cli("transform", model, evil, "--keep", "name").out

    def test_no_formula_reaches_a_spreadsheet(self, cli, evil, model, tmp_path):
        for ending in ("csv", "tsv"):
            path = tmp_path / f"o.{ending}"
            assert cli("transform", model, evil, "--keep", "name", "-o", path).code == 0
            table = pd.read_csv(path, sep="\t" if ending == "tsv" else ",", dtype=str)
            assert table["name"][1] == '\'=HYPERLINK("http://x")'
            # A number stays one.
            assert table["name"][2] == "-1"
            assert table["name"][3] == "'+a"
        path = tmp_path / "a.csv"
        cli("audit", evil, "-g", "name", "-r", 1, "--bootstrap", 0, "-o", path)
        groups = set(pd.read_csv(path)["group"])
        assert '\'=HYPERLINK("http://x")' in groups

    def test_cells_and_titles(self):
        frame = pd.DataFrame({"=a": ["@x", "-2", "- 2", "a", None], "n": [-1.5, 2, 3, 4, 5]})
        back = pd.read_csv(io.StringIO(csv_text(frame)), dtype=str)
        assert back.columns.tolist() == ["'=a", "n"]
        assert back["'=a"].tolist()[:4] == ["'@x", "-2", "'- 2", "a"]
        assert back["n"][0] == "-1.5"


class TestCarelessFiles:
    """Tables as people have them; each of these was silently another table."""

    def rows(self, m=60):
        rng = np.random.default_rng(0)
        return pd.DataFrame({"sex": ["f", "m"] * (m // 2)}).join(
            pd.DataFrame(rng.normal(size=(m, 3)), columns=list("abc")).round(3)
        )

    def test_points_between_thousands_are_no_decimals(self, cli, tmp_path):
        path = tmp_path / "t.csv"
        lines = [f"{'fm'[i % 2]};{i / 7:.2f};{400 + 31 * i}" for i in range(60)]
        lines = [re.sub(r"(\d)(\d{3})$", r"\1.\2", line.replace(".", ",")) for line in lines]
        path.write_text("sex;lab;salary\n" + "\n".join(lines) + "\n")
        salary = cli("inspect", path, "--json").json["columns"][2]
        assert salary["type"] == "text"
        assert (salary["looks_like"], salary["odd_cell"]) == ("numbers?", "1.020")
        assert "text because of cells such as '1.020'" in " ".join(
            cli("inspect", path).out.split()
        )

    @pytest.mark.parametrize("cell", ["?", "<0.6", "5,3"])
    def test_a_column_that_is_text_because_of_some_cells_is_named(self, cli, tmp_path, cell):
        frame = self.rows(400)
        frame["crp"] = [cell if i % 20 == 0 else f"{i / 9:.3f}" for i in range(400)]
        frame["score"] = [cell if i % 30 == 0 else str(i % 9) for i in range(400)]
        frame.to_csv(tmp_path / "t.csv", index=False)
        done = cli("fit", tmp_path / "t.csv", "-g", "sex", "-r", 1, "-o", tmp_path / "m.skops")
        assert f"'crp' (text, only because of cells such as {cell!r}, 3" in done.err
        assert f"'score' is text only because of cells such as {cell!r}: correct them" in done.err

    @pytest.mark.parametrize("written", ["%Y%m%d", "%Y"])
    def test_numbers_are_no_dates(self, cli, tmp_path, written):
        frame = self.rows().assign(day=pd.date_range("2020-01-01", periods=60, freq="17D"))
        frame.to_csv(tmp_path / "t.csv", index=False)
        model = tmp_path / "m.skops"
        cli("fit", tmp_path / "t.csv", "-g", "sex", "-r", 1, "-o", model)
        frame["day"] = frame["day"].dt.strftime(written)
        frame.to_csv(tmp_path / "new.csv", index=False)
        done = cli("transform", model, tmp_path / "new.csv")
        assert done.code == 2
        assert "'day' holds numbers where dates were fitted: 2020" in done.err

    def test_dates_that_fit_leaves_out_are_no_dates(self, cli, tmp_path):
        days = pd.date_range("2020-01-01", periods=60, freq="17D").strftime("%m/%d/%Y")
        self.rows().assign(day=days).to_csv(tmp_path / "t.csv", index=False)
        row = cli("inspect", tmp_path / "t.csv", "--json").json["columns"][-1]
        assert (row["type"], row["looks_like"], row["range"]) == ("text", "no ISO date", None)
        assert "2022-02-09" in cli("inspect", tmp_path / "t.csv").out

    def test_a_gap_among_codes_changes_no_other_row(self, cli, tmp_path):
        frame = self.rows().assign(zip=["01067", "10115", "20095"] * 20)
        frame.to_csv(tmp_path / "t.csv", index=False)
        frame.loc[7, "zip"] = None
        frame.to_csv(tmp_path / "gap.csv", index=False)
        model, other = tmp_path / "m.skops", tmp_path / "other.skops"
        options = ("-g", "sex", "-r", 2, "--categorical", "zip")
        cli("fit", tmp_path / "t.csv", *options, "-o", model)
        cli("fit", tmp_path / "gap.csv", *options, "-o", other)
        assert "zip=01067" in load_model(model).feature_names
        assert load_model(other).preparation.feature_names == list(load_model(model).feature_names)
        one, two = (
            pd.read_csv(io.StringIO(cli("transform", model, tmp_path / name).out))
            for name in ("t.csv", "gap.csv")
        )
        pd.testing.assert_frame_equal(one.drop(7), two.drop(7))

    def test_codes_of_a_typed_file_with_a_gap(self, cli, tmp_path):
        frame = self.rows().assign(zip=[1067, 10115, 20095] * 20)
        frame.to_parquet(tmp_path / "t.parquet")
        frame.loc[7, "zip"] = None
        frame.to_parquet(tmp_path / "gap.parquet")
        options = ("-g", "sex", "-r", 2, "--categorical", "zip", "-o", tmp_path / "m.skops")
        cli("fit", tmp_path / "t.parquet", *options)
        done = cli("transform", tmp_path / "m.skops", tmp_path / "gap.parquet")
        assert "not there when the model was fitted" not in done.err

    def test_copied_columns_stay_as_they_were_written(self, cli, tmp_path):
        frame = self.rows().assign(mrn=[f"{i:06}" for i in range(60)], code=["1E1", "2E0"] * 30)
        frame.to_csv(tmp_path / "t.csv", index=False)
        options = ("-g", "sex", "-r", 1, "--drop", "mrn", "--drop", "code")
        cli("fit", tmp_path / "t.csv", *options, "-o", tmp_path / "m.skops")
        keep = ("--keep", "mrn", "--keep", "code", "--keep", "a")
        done = cli("transform", tmp_path / "m.skops", tmp_path / "t.csv", *keep)
        lines = done.out.splitlines()
        assert lines[0] == "mrn,code,a,fairpca0"
        assert lines[2].startswith(f"000001,2E0,{frame['a'][1]},")
        scores = tmp_path / "s.parquet"
        cli("transform", tmp_path / "m.skops", tmp_path / "t.csv", *keep, "-o", scores)
        assert pd.read_parquet(scores)["a"].dtype == float

    @pytest.mark.parametrize("engine", ["memory", "local"])
    def test_spaces_behind_a_label_are_no_part_of_it(self, cli, tmp_path, engine):
        frame = self.rows()
        frame.loc[::4, "sex"] = "f "
        frame.to_csv(tmp_path / "t.csv", index=False)
        options = ("-g", "sex", "-r", 1, "-o", tmp_path / "m.skops", "--engine", engine)
        assert cli("fit", tmp_path / "t.csv", *options).code == 0
        assert load_model(tmp_path / "m.skops").model.groups_ == ["f", "m"]

    def test_a_gap_is_no_percentage(self, cli, csv):
        done = cli("audit", csv, "-g", "sex", "-r", 2, "--max-gap", 50)
        assert done.code == 2
        assert "--max-gap" in done.err

    def test_advice_with_weights_and_the_folder_of_the_table(self, cli, frame, tmp_path):
        (tmp_path / "folder").mkdir()
        path = tmp_path / "folder" / "t.csv"
        frame.assign(w=np.linspace(0.5, 2, 160)).to_csv(path, index=False)
        options = ("-g", "sex", "-r", 2, "--drop", "plan", "--weight", "w")
        done = cli("audit", path, *options)
        assert "sample_weight=weights)" in done.out
        assert f"fairpca fit {path} " in done.out
        assert str(tmp_path) not in cli("audit", path, *options, "--json").out

    def test_another_encoding_is_named(self, cli, csv):
        done = cli("inspect", csv, "--encoding", "utf-16")
        assert done.code == 2
        assert "people.csv is not utf-16: UTF-16 stream does not start with BOM" in done.err


class TestNarrowTerminals:
    """Digits were cut without a mark, and the names of groups went first."""

    @pytest.mark.parametrize("width", [80, 60, 50, 30])
    def test_no_number_is_cut(self, cli, frame, tmp_path, monkeypatch, width):
        path = tmp_path / "t.csv"
        names = {"f": "Northern Community", "m": "St. Mary General"}
        frame.assign(sex=frame["sex"].map(names)).to_csv(path, index=False)
        options = ("audit", path, "-g", "sex", "-r", 2, "--drop", "plan", "--balanced")
        monkeypatch.setenv("COLUMNS", "200")
        wide = cli(*options).out
        monkeypatch.setenv("COLUMNS", str(width))
        narrow = cli(*options).out
        tables = [line for line in wide.splitlines() if line.startswith(("Northern", "St. Mary"))]
        assert tables
        for line in tables:
            for number in re.split(r"\s{2,}", line)[1:]:
                assert number in narrow
        assert max(len(line) for line in narrow.splitlines() if "  " not in line[:2]) <= width

    def test_a_share_stays_beside_its_loss(self):
        titles = ["group", "PCA", "kept", "FairPCA", "kept"]
        table = output.Table(titles, [["a" * 9, *"1234"]], joined=[2, 4])
        parts = [[str(c.header) for c in part.columns] for part in table.parts(30)]
        assert parts == [["group", "PCA", "kept"], ["group", "FairPCA", "kept"]]


def test_a_result_is_not_written_into_the_line_of_progress(monkeypatch):
    """On a terminal it stood behind the spinner, and the cursor stayed hidden."""
    screen, result = io.StringIO(), io.StringIO()
    console = output.console()
    console.file, console._force_terminal = screen, True
    monkeypatch.setattr(output, "console", lambda **_: console)
    monkeypatch.setattr(output, "_PATIENCE", 0.0)
    monkeypatch.setattr(sys, "stdout", result)
    with output.progress("working"):
        line = output._LINE.get()
        for _ in range(200):
            if line.live.is_started:
                break
            time.sleep(0.01)
        output.print_text("done")
        shown = screen.getvalue()
    assert shown.rindex("\x1b[?25h") > shown.rindex("\x1b[?25l")
    assert result.getvalue() == "done\n"
