"""Every verb: what it prints, what it writes, and the code it leaves with."""

import json
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from fairpca.auditing.verdict import number
from fairpca.cli.auditing import parse_ranks
from fairpca.cli.options import parse_components

from fairpca import FairPCA
from fairpca.auditing import audit
from fairpca.auditing.findings import Audit
from fairpca.persistence import load_model

from data_dir import data_path, reference


class TestAudit:
    def test_json_is_the_audit_of_the_prepared_rows(self, cli, csv, frame):
        done = cli("audit", csv, "--group", "sex", "-r", 2, "--json", "--feature", "v*")
        assert done.code == 0
        X = frame[["v0", "v1", "v2", "v3"]].to_numpy()
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        expected = audit(X, frame["sex"], 2)
        found = Audit.from_json(done.out)
        for name in ("PCA", "FairPCA"):
            np.testing.assert_allclose(found.at(name).loss, expected.at(name).loss, rtol=1e-9)
        assert found.group_columns == ("sex",)
        source = found.provenance["source"]
        assert source["files"][0]["name"] == "people.csv"
        assert len(source["files"][0]["sha256"]) == 64
        assert "4 features, standardised" in done.err

    def test_by_default_it_prints_a_table(self, cli, csv):
        done = cli("audit", csv, "-g", "sex", "-r", 2)
        assert done.code == 0
        assert "Loss on new rows, with 2 components" in done.out
        assert done.out.index("On new rows") < done.out.index("On the rows in hand")
        assert "No projection with 2 components" in done.out
        # The command to copy names the folder of the table, and is never broken.
        lines = [line for line in done.out.splitlines() if not line.startswith("  fairpca fit")]
        assert max(map(len, lines)) <= 80
        assert "row number 'id' left out" in done.err
        assert "group column 'sex' is no feature" in done.err

    @pytest.mark.parametrize("ending", ["html", "json", "csv"])
    def test_output_files(self, cli, csv, tmp_path, ending):
        path = tmp_path / f"audit.{ending}"
        done = cli("audit", csv, "--group", "sex", "-r", 2, "-o", path)
        assert (done.code, done.out) == (0, "")
        assert f"wrote {path}" in done.err
        text = path.read_text()
        if ending == "html":
            assert "people.csv" in text
            assert text.startswith("<!DOCTYPE html>")
        elif ending == "json":
            assert Audit.from_json(text).n_components == 2
        else:
            assert set(pd.read_csv(path)["reducer"]) == {"PCA", "FairPCA", "shrunk FairPCA"}

    def test_page_and_json_at_once(self, cli, csv, tmp_path):
        path = tmp_path / "page.html"
        done = cli("audit", csv, "--group", "sex", "-r", 2, "-o", path, "--json")
        assert done.json["n_components"] == 2
        assert path.exists()

    def test_max_gap_decides_the_exit_code(self, cli, csv):
        call = ("audit", csv, "--group", "sex", "-r", 2, "--json", "--on", "rows")
        gaps = cli(*call).json["gap"]
        assert gaps["FairPCA"] < 1e-6 < gaps["PCA"]
        below, above = gaps["PCA"] * 0.99, gaps["PCA"] * 1.01
        done = cli(*call, "--max-gap", below)
        assert done.code == 3
        assert "larger than --max-gap" in done.err
        assert done.json["gap"] == gaps
        assert cli(*call, "--max-gap", above).code == 0
        assert cli(*call, "--max-gap", below, "--reducer", "fairpca").code == 0
        assert cli(*call, "--max-gap", 0.0, "--reducer", "PCA").code == 3
        done = cli(*call, "--max-gap", 1, "--reducer", "auto")
        assert "gap of shrunk FairPCA on the rows in hand" in done.err

    @pytest.mark.parametrize("name", ["pca", "fairpca", "auto"])
    def test_max_gap_is_about_new_rows(self, cli, csv, name):
        call = ("audit", csv, "--group", "sex", "-r", 2, "--json")
        call = (*call, "--bootstrap", 0, "--ranks", 2, "--reducer", name)
        position = ["pca", "fairpca", "auto"].index(name)
        gap = cli(*call).json["new_rows"]["findings"][position]["gap"]
        done = cli(*call, "--max-gap", gap * 0.99)
        assert done.code == 3
        assert f"on new rows: {gap:.4f} is larger than --max-gap" in done.err
        done = cli(*call, "--max-gap", min(gap * 1.01, 1))
        assert done.code == 0
        assert "on new rows" in done.err

    def test_max_gap_without_new_rows_is_refused(self, cli, csv):
        call = ("audit", csv, "-g", "sex", "-r", 2, "--bootstrap", 0, "--max-gap", 1)
        for more in (("--folds", 0), ("--center", "group")):
            done = cli(*call, *more)
            assert (done.code, done.out) == (2, "")
            assert "add --on rows" in done.err
            assert cli(*call, *more, "--on", "rows").code == 0
        assert "--folds 1 must be at least 2" in cli(*call, "--folds", 1).err

    # A target is a feature where it is named as one.
    @pytest.mark.parametrize("more", [(), ("--feature", "paid")])
    def test_the_command_it_advises_fits_what_was_audited(
        self, cli, csv, tmp_path, monkeypatch, more
    ):
        monkeypatch.chdir(tmp_path)
        call = ("audit", csv, "-g", "sex", "-r", 2, "--target", "paid", "--no-standardize")
        call = (*call, "--labels", "f=women,m=men", "--feature", "v*", "--json", "--ranks", 2)
        data = cli(*call, "--bootstrap", 0, *more).json
        advice = data["new_rows"]["advice"]
        arguments = shlex.split(advice["command"])
        assert arguments[:3] == ["fairpca", "fit", "people.csv"]
        done = cli(*arguments[1:], "--json")
        assert done.code == 0
        finding = next(f for f in data["findings"] if f["reducer"] == advice["reducer"])
        fitted = {group["text"]: group["loss"] for group in done.json["groups"]}
        audited = [group["text"] for group in data["groups"]]
        assert fitted == pytest.approx(dict(zip(audited, finding["loss"], strict=True)))

    def test_a_file_is_written_even_when_the_gap_is_too_large(self, cli, csv, tmp_path):
        path = tmp_path / "a.html"
        call = ("audit", csv, "-g", "sex", "-r", 2, "-o", path, "--max-gap", 0)
        assert cli(*call).code == 3
        assert path.exists()

    def test_crossed_and_marginal_groups(self, cli, csv):
        call = ("audit", csv, "--group", "sex", "--group", "city", "-r", 2, "--json")
        assert [g["label"] for g in cli(*call).json["groups"]] == [
            ["f", "x"],
            ["f", "y"],
            ["m", "x"],
            ["m", "y"],
        ]
        marginal = cli(*call, "--group-by", "marginal").json
        assert [g["text"] for g in marginal["groups"]] == [
            "city: x",
            "city: y",
            "sex: f",
            "sex: m",
        ] or [g["text"] for g in marginal["groups"]] == ["sex: f", "sex: m", "city: x", "city: y"]

    def test_one_group_is_noticed(self, cli, csv, tmp_path):
        done = cli("fit", csv, "-g", "id>=900", "-r", 2, "-o", tmp_path / "m.skops")
        assert done.code == 0
        assert "all rows are in one group" in done.err
        assert "threshold, of --group" in done.err

    def test_a_share_of_variance(self, cli, csv):
        done = cli("audit", csv, "--group", "sex", "-r", "0.8", "--json")
        found = Audit.from_json(done.out)
        assert found.at("FairPCA").share.min() >= 0.8
        assert f"takes {found.n_components} components of FairPCA" in done.err
        kept = found.at("PCA").share.min()
        assert (f"PCA with as many keeps {kept:.3g} of" in done.err) == (kept < 0.8)

    def test_the_mean_can_be_chosen(self, cli, csv, tmp_path):
        call = ("audit", csv, "-g", "sex", "-r", 2, "--ranks", 2, "--bootstrap", 0)
        said = {"global": "about the mean of all rows", "group": "about the group's own mean"}
        losses = []
        for center, words in said.items():
            data = cli(*call, "--center", center, "--json").json
            assert data["center"] == data["provenance"]["parameters"]["center"] == center
            losses.append(data["findings"][0]["loss"])
            assert words in " ".join(cli(*call, "--center", center).out.split())
            path = tmp_path / f"{center}.csv"
            assert cli(*call, "--center", center, "-o", path).code == 0
            assert set(pd.read_csv(path)["center"]) == {center}
        assert not np.allclose(*losses, rtol=1e-6)
        assert cli(*call, "--json").json["center"] == "global"
        wrong = cli(*call, "--center", "none")
        assert wrong.code == 2
        assert "global" in wrong.err

    def test_a_number_cut_in_two(self, cli, csv):
        done = cli("audit", csv, "--group", "v0>=1.5", "-r", 2, "--json")
        assert [g["label"] for g in done.json["groups"]] == ["v0 < 1.5", "v0 >= 1.5"]
        assert "'v0' is no feature" in done.err

    def test_target_weight_ranks_and_seed(self, cli, csv):
        call = ("audit", csv, "--group", "sex", "-r", 2, "--json", "--bootstrap", 50)
        scored = cli(*call, "--target", "paid", "--ranks", "1-3").json
        assert scored["scores"]["score"] == "accuracy"
        assert scored["ranks"] == [1, 2, 3]
        weighted = cli(*call, "--weight", "id").json
        assert weighted["groups"][0]["weight"] == sum(range(1, 111))
        one, other = (cli(*call, "--seed", seed).json for seed in (0, 1))
        for data in (one, other):
            data["provenance"].pop("created")
        assert one != other
        again = cli(*call).json
        again["provenance"].pop("created")
        assert again == one

    def test_several_files_are_one_table(self, cli, frame, tmp_path):
        frame.iloc[:70].to_csv(tmp_path / "a.csv", index=False)
        second = frame.iloc[70:].assign(id=range(1, 91))
        second.to_parquet(tmp_path / "b.parquet", index=False)
        frame.to_csv(tmp_path / "all.csv", index=False)
        whole = cli("audit", tmp_path / "all.csv", "-g", "sex", "-r", 2, "--json").json
        parts = cli(
            "audit", tmp_path / "a.csv", tmp_path / "b.parquet", "-g", "sex", "-r", 2, "--json"
        ).json
        np.testing.assert_allclose(
            parts["findings"][0]["loss"], whole["findings"][0]["loss"], rtol=1e-9
        )

    def test_the_same_page_twice(self, cli, csv, tmp_path, monkeypatch):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
        pages = []
        for name in ("a.html", "b.html"):
            cli("audit", csv, "-g", "sex", "-r", 2, "-o", tmp_path / name)
            pages.append((tmp_path / name).read_text())
        assert pages[0] == pages[1]
        assert "1970-01-02" in pages[0]


def of_scaled(value, data):
    """Return a reference loss in our columns: scaled with divisor m, the reference with m - 1."""
    rows = data["provenance"]["parameters"]["rows"]
    return value * rows / (rows - 1)


class TestCredit:
    def test_as_published_and_as_parquet(self, cli, tmp_path):
        path = data_path("default_degree.csv")
        done = cli("audit", path, "--group", "EDUCATION", "-r", 5, "-o", tmp_path / "audit.html")
        assert done.code == 0
        assert "2 header rows; 23 features, standardised" in done.err
        table = pd.read_csv(path, header=1)
        table.to_parquet(tmp_path / "credit.parquet", index=False)
        call = ("--group", "EDUCATION", "-r", 5, "--json", "--bootstrap", 20, "--ranks", 5)
        found = [
            cli("audit", source, *call).json for source in (path, tmp_path / "credit.parquet")
        ]
        losses = [data["findings"][0]["loss"] for data in found]
        np.testing.assert_allclose(*losses, rtol=1e-9)
        assert [g["label"] for g in found[0]["groups"]] == [0, 1, 2, 3, 4, 5, 6]

    def test_the_readme_shows_what_it_prints(self, cli):
        page = (Path(__file__).parents[2] / "README.md").read_text()
        command = next(line for line in page.splitlines() if line.startswith("fairpca audit"))
        _, verb, _, *options = shlex.split(command)
        done = cli(verb, data_path("default_degree.csv"), *options)
        shown = page.split("```text\n")[1].split("```")[0].splitlines()
        found = [line.rstrip() for line in done.out.splitlines()][: len(shown)]
        assert [line for line in found if "fairpca fit" not in line] == [
            line for line in shown if "fairpca fit" not in line
        ]

    @pytest.mark.parametrize("center", ["global", "group"])
    def test_the_papers_groups_give_the_reference_value(self, cli, center):
        path = data_path("default_degree.csv")
        call = ("audit", path, "-g", "EDUCATION<=1", "-r", 5, "--ranks", 5, "--bootstrap", 0)
        done = cli(*call, "--center", center, "--json")
        cases = {
            "global": reference("common_mean.json")["DCC"]["5"],
            "group": reference("two_groups.json")["DCC"]["r"]["5"],
        }
        fair = done.json["findings"][1]
        assert fair["reducer"] == "FairPCA"
        expected = of_scaled(cases[center]["phi_star"], done.json)
        np.testing.assert_allclose(fair["loss"], expected, rtol=1e-8)

    def test_fit_transform_and_gate(self, cli, tmp_path):
        path, model = data_path("default_degree.csv"), tmp_path / "model.skops"
        assert cli("fit", path, "--group", "EDUCATION", "-r", 5, "-o", model).code == 0
        with path.open() as file:
            lines = [next(file) for _ in range(12)]
        (tmp_path / "new.csv").write_text("".join(lines))
        out = tmp_path / "out.csv"
        assert cli("transform", model, tmp_path / "new.csv", "-o", out).code == 0
        saved = load_model(model)
        table = pd.read_csv(path, header=1)
        X = saved.preparation.apply(table.iloc[:10]).X
        np.testing.assert_allclose(pd.read_csv(out), saved.model.transform(X), rtol=1e-12)
        gate = cli("audit", path, "--group", "EDUCATION", "-r", 5, "--max-gap", 0.5)
        assert gate.code == 3

    def test_bank_has_no_header(self, cli):
        done = cli("audit", data_path("bank.csv"), "-g", "1>=65", "-r", 4, "--json", "--ranks", 4)
        expected = of_scaled(reference("common_mean.json")["BM"]["4"]["phi_star"], done.json)
        np.testing.assert_allclose(done.json["findings"][1]["loss"], expected, rtol=1e-8)
        assert "no header row" in done.err


class TestModels:
    def test_what_is_advised_for_pca_says_that_it_is_pca(self, cli, csv, tmp_path):
        call = ("fit", csv, "-g", "sex", "-r", 2, "--drop", "id", "--shrinkage", 1, "-o")
        done = cli(*call, tmp_path / "m.skops")
        assert done.out.startswith("PCA, 2 components")
        assert "this is PCA of all of them together" in " ".join(done.out.split())
        # That nobody loses anything is proven of matrices that are all the same, and misleads.
        assert "proven optimal" not in done.out

    def test_fit_says_what_it_fitted(self, cli, csv, tmp_path):
        model = tmp_path / "m.skops"
        done = cli("fit", csv, "--group", "sex", "-r", 2, "-o", model, "--json")
        assert done.code == 0
        assert done.json["certificate"]["optimal"]
        losses = [group["loss"] for group in done.json["groups"]]
        assert losses[0] == pytest.approx(losses[1])
        saved = load_model(model)
        assert isinstance(saved.model, FairPCA)
        assert saved.feature_names[-4:] == ("plan=basic", "plan=plus", "plan=pro", "paid")
        assert saved.versions["fairpca"]
        assert saved.model.center == done.json["center"] == "global"
        again = ("fit", csv, "--group", "sex", "-r", 2, "--center", "group", "-o")
        text = cli(*again, tmp_path / "n.skops")
        assert "proven optimal" in text.out
        assert "Losses are about the group's own mean" in text.out
        assert load_model(tmp_path / "n.skops").model.center == "group"

    @pytest.mark.parametrize("criterion", ["error", "share", "relative", "variance"])
    def test_the_number_of_the_proof_is_in_the_table(self, cli, csv, tmp_path, criterion):
        call = ("fit", csv, "-g", "sex", "-r", 2, "--criterion", criterion, "-o")
        done = cli(*call, tmp_path / "m.skops")
        certificate = load_model(tmp_path / "m.skops").model.certificate_
        head, *rows = done.out.splitlines()[1:5]
        assert head.split()[-1] == criterion
        assert number(certificate.value) in [row.split()[-1] for row in rows[1:]]
        assert f'The proof is about the column "{criterion}"' in " ".join(done.out.split())

    def test_a_proof_about_other_errors_has_a_column_of_its_own(self, cli, csv, tmp_path):
        """Rows are rebuilt through the mean of all rows; the proof is about the group's own."""
        more = ("--criterion", "error", "--center", "group", "-o")
        call = ("fit", csv, "-g", "sex", "-r", 2, *more)
        done = cli(*call, tmp_path / "m.skops")
        model = load_model(tmp_path / "m.skops").model
        assert not np.allclose(model.group_values_, model.group_errors_)
        head, *rows = done.out.splitlines()[1:5]
        assert head.split()[-2:] == ["error", "proven_error"]
        assert number(model.certificate_.value) in [row.split()[-1] for row in rows[1:]]
        assert 'The proof is about the column "proven_error"' in " ".join(done.out.split())

    @pytest.mark.parametrize("ending", ["csv", "tsv", "parquet", "feather", "npy", "json"])
    def test_transform_writes_every_format(self, cli, csv, frame, tmp_path, ending):
        model, out = tmp_path / "m.skops", tmp_path / f"out.{ending}"
        cli("fit", csv, "--group", "sex", "-r", 2, "-o", model, "--criterion", "error")
        assert cli("transform", model, csv, "-o", out).code == 0
        read = {
            "csv": pd.read_csv,
            "tsv": lambda path: pd.read_csv(path, sep="\t"),
            "parquet": pd.read_parquet,
            "feather": pd.read_feather,
            "npy": np.load,
            "json": pd.read_json,
        }[ending](out)
        saved = load_model(model)
        expected = saved.model.transform(saved.preparation.apply(frame).X)
        np.testing.assert_allclose(np.asarray(read, dtype=float), expected, rtol=1e-9)

    def test_transform_needs_no_groups_and_keeps_columns(self, cli, csv, frame, tmp_path):
        model = tmp_path / "m.skops"
        cli("fit", csv, "--group", "sex", "-r", 2, "-o", model)
        new = tmp_path / "new.csv"
        frame.drop(columns="sex").iloc[::-1].to_csv(new, index=False)
        done = cli("transform", model, new, "--keep", "id")
        lines = done.out.splitlines()
        assert lines[0] == "id,fairpca0,fairpca1"
        assert lines[1].startswith("160,")
        rows = cli("transform", model, new, "--json").json
        assert rows["columns"] == ["fairpca0", "fairpca1"]
        assert rows["n_rows"] == len(rows["rows"]) == 160
        done = cli("transform", model, new, "--keep", "id", "--keep", "id")
        assert done.out.splitlines() == lines
        done = cli("transform", model, new, "--keep", "plan", "-o", tmp_path / "z.npy")
        assert done.code == 2
        assert "z.npy: a .npy file holds numbers only, and --keep plan is text" in done.err
        frame.assign(fairpca1=1).to_csv(new, index=False)
        done = cli("transform", model, new, "--keep", "fairpca1")
        assert done.code == 2
        assert "--keep fairpca1: a component is called so" in done.err

    def test_new_levels_and_missing_columns(self, cli, csv, frame, tmp_path):
        model = tmp_path / "m.skops"
        cli("fit", csv, "--group", "sex", "-r", 2, "-o", model)
        frame.assign(plan="gold").to_csv(tmp_path / "gold.csv", index=False)
        done = cli("transform", model, tmp_path / "gold.csv", "-o", tmp_path / "o.csv")
        assert done.code == 0
        assert "'gold' were not there" in done.err
        frame.drop(columns="v1").to_csv(tmp_path / "less.csv", index=False)
        done = cli("transform", model, tmp_path / "less.csv")
        assert done.code == 2
        assert "lacks the column(s) 'v1'" in done.err


class TestAuditOfAModel:
    @pytest.fixture
    def halves(self, cli, frame, tmp_path):
        """Return a model of every other row, and the path of the rows it has not seen."""
        frame.iloc[::2].to_csv(tmp_path / "old.csv", index=False)
        frame.iloc[1::2].to_csv(tmp_path / "new.csv", index=False)
        model = tmp_path / "m.skops"
        cli("fit", tmp_path / "old.csv", "-g", "sex", "-r", 2, "--drop", "city", "-o", model)
        return model, tmp_path / "new.csv"

    def test_numbers_are_those_of_the_rows_rebuilt(self, cli, halves, frame):
        model, new = halves
        data = cli("audit", new, "--model", model, "-g", "sex", "--json").json
        saved = load_model(model)
        rows = frame.iloc[1::2]
        X = saved.preparation.apply(rows).X
        left = X - saved.model.inverse_transform(saved.model.transform(X))
        squares = np.sum(left**2, axis=1)
        for i, group in enumerate(data["groups"]):
            mine = (rows["sex"] == group["group"]).to_numpy()
            assert group["count"] == mine.sum()
            assert group["error"] == pytest.approx(squares[mine].mean())
            centred = X[mine] - saved.model.mean_
            spectrum = np.linalg.eigvalsh(centred.T @ centred / mine.sum())
            assert group["loss"] == pytest.approx(group["error"] - spectrum[:-2].sum())
            assert group["trained_error"] == pytest.approx(saved.model.group_errors_[i])
            assert group["trained_count"] == saved.model.group_counts_[i]
        assert data["total_error"] == pytest.approx(squares.mean())

    def test_what_it_prints_and_writes(self, cli, halves, tmp_path):
        model, new = halves
        done = cli("audit", new, "--model", model, "-g", "sex")
        assert "On these rows the model, with 2 components, serves" in done.out
        assert "fitted to:" in done.out
        assert max(map(len, done.out.splitlines())) <= 80
        for ending in ("csv", "json"):
            assert (
                cli(
                    "audit", new, "--model", model, "-g", "sex", "-o", tmp_path / f"a.{ending}"
                ).code
                == 0
            )
        assert pd.read_csv(tmp_path / "a.csv")["group"].tolist() == ["f", "m"]
        assert "this is the audit of a model" in cli("report", tmp_path / "a.json").err
        done = cli("audit", new, "--model", model, "-g", "sex", "-o", tmp_path / "a.html")
        assert done.code == 2
        assert ".json or .csv" in done.err

    @pytest.mark.parametrize("engine", ["memory", "local"])
    def test_names_of_labels_are_remembered(self, cli, halves, tmp_path, engine):
        _, new = halves
        model = tmp_path / "named.skops"
        call = ("fit", tmp_path / "old.csv", "-g", "paid", "-r", 2, "--feature", "v*")
        cli(*call, "--labels", "0=owing", "--engine", engine, "-o", model)
        call = ("audit", new, "--model", model, "-g", "paid")
        groups = cli(*call, "--json").json["groups"]
        assert [group["group"] for group in groups] == ["1", "owing"]
        # The rows of the fit are found again under these names.
        assert all(group["trained_count"] for group in groups)
        assert "paid “owing”" in " ".join(cli(*call).out.split())
        # Rows without that label are no error, and other names replace those of the fit.
        table = pd.read_csv(new).query("paid == 1")
        table.to_csv(tmp_path / "ones.csv", index=False)
        one = ("audit", tmp_path / "ones.csv", *call[2:], "--json")
        assert [group["group"] for group in cli(*one).json["groups"]] == ["1"]
        again = cli(*one, "--labels", "1=paid up").json
        assert [group["group"] for group in again["groups"]] == ["paid up"]

    def test_groups_of_another_column_have_no_training_numbers(self, cli, halves):
        model, new = halves
        data = cli("audit", new, "--model", model, "-g", "plan", "--json").json
        assert [group["trained_error"] for group in data["groups"]] == [None] * 3

    def test_max_gap(self, cli, halves):
        model, new = halves
        call = ("audit", new, "--model", model, "-g", "sex", "--json")
        gap = cli(*call).json["gap"]
        assert cli(*call, "--max-gap", gap * 1.01).code == 0
        done = cli(*call, "--max-gap", gap * 0.99)
        assert done.code == 3
        assert "gap of m.skops on these rows" in done.err

    @pytest.mark.parametrize(
        ("more", "said"),
        [
            (("-r", 2), "-r with --model"),
            (("--feature", "v0"), "--feature with --model"),
            (("--no-standardize",), "--standardize with --model"),
            (("--center", "group"), "--center with --model"),
            (("--folds", 3), "--folds with --model"),
            (("--on", "rows"), "--on with --model"),
        ],
    )
    def test_what_the_file_decides_cannot_be_asked_for(self, cli, halves, more, said):
        model, new = halves
        done = cli("audit", new, "--model", model, "-g", "sex", *more)
        assert done.code == 2
        assert said in done.err

    def test_columns_that_do_not_match(self, cli, halves, frame, tmp_path):
        model, _ = halves
        frame.drop(columns="v1").to_csv(tmp_path / "less.csv", index=False)
        done = cli("audit", tmp_path / "less.csv", "--model", model, "-g", "sex")
        assert done.code == 2
        assert "lacks the column(s) 'v1'" in done.err
        done = cli("audit", tmp_path / "less.csv", "-g", "sex")
        assert "-r is missing" in done.err


class TestOthers:
    def test_report_is_the_page_of_the_audit(self, cli, csv, tmp_path, monkeypatch):
        monkeypatch.setenv("SOURCE_DATE_EPOCH", "0")
        call = ("audit", csv, "--group", "sex", "-r", 2)
        (tmp_path / "audit.json").write_text(cli(*call, "--json").out)
        cli(*call, "-o", tmp_path / "direct.html")
        page = tmp_path / "page.html"
        done = cli("report", tmp_path / "audit.json", "-o", page, "--json")
        assert done.json["bytes"] == page.stat().st_size
        assert page.read_text() == (tmp_path / "direct.html").read_text()
        assert cli("report", tmp_path / "audit.json").out.startswith("<!DOCTYPE html>")

    def test_compare(self, cli, csv, tmp_path):
        call = (
            "compare",
            csv,
            "--group",
            "sex",
            "-r",
            2,
            "--method",
            "PCA",
            "--method",
            "FairPCA",
        )
        done = cli(*call, "--json")
        assert [row["name"] for row in done.json["rows"]] == ["PCA", "FairPCA"]
        assert done.json["center"] == "global"
        about = cli(*call, "--center", "group", "--json").json
        assert about["center"] == "group"
        assert about["rows"][1]["gap"] < 1e-8
        assert about["rows"][1]["worst_loss"] != done.json["rows"][1]["worst_loss"]
        shown = cli(*call).out
        assert "place" in shown
        assert "worst" in shown
        for ending in ("csv", "json"):
            path = tmp_path / f"c.{ending}"
            assert cli(*call, "-o", path).code == 0
            assert "FairPCA" in path.read_text()
        assert cli("compare", csv, "-g", "sex", "-r", 2, "--method", "No").code == 2
        share = cli("compare", csv, "-g", "sex", "-r", "0.7", "--method", "PCA", "--json")
        assert share.json["rows"][0]["n_components"] >= 2

    def test_datasets(self, cli):
        names = [row["name"] for row in cli("datasets", "--json").json]
        assert "fetch_credit_default" in names
        assert "fetch_credit_default" in cli("datasets").out


class TestParsing:
    @pytest.mark.parametrize("text, value", [("5", 5), ("0.9", 0.9), ("1e-1", 0.1)])
    def test_components(self, text, value):
        assert parse_components(text) == value

    @pytest.mark.parametrize("text", ["1.0", "0.0", "-0.5", "abc", "", "nan", "1.5", "inf"])
    def test_components_refused(self, text):
        with pytest.raises(ValueError, match="-r"):
            parse_components(text)

    def test_ranks(self):
        assert parse_ranks("1-3,7, 5 ") == [1, 2, 3, 5, 7]
        for text in ("", "a", "1-", "3--4", "1-99999999"):
            with pytest.raises(ValueError, match="--ranks"):
                parse_ranks(text)


def test_json_is_one_document_on_stdout(cli, csv, tmp_path):
    """Notes never mix with results."""
    model = tmp_path / "m.skops"
    for call in (
        ("audit", csv, "-g", "sex", "-r", 2),
        ("fit", csv, "-g", "sex", "-r", 2, "-o", model),
        ("transform", model, csv),
        ("compare", csv, "-g", "sex", "-r", 2, "--method", "PCA"),
        ("datasets",),
        ("demo", "-o", tmp_path / "demo.png"),
    ):
        json.loads(cli(*call, "--json").out)


def test_audit_looks_at_balanced_pca(cli, csv):
    arguments = ["audit", csv, "-g", "sex", "-r", "1", "--drop", "id", "--bootstrap", "0"]
    plain, more = cli(*arguments, "--json").json, cli(*arguments, "--balanced", "--json").json
    assert "balanced PCA" not in plain["reducers"]
    assert "balanced PCA" in more["reducers"]
    held = {row["reducer"]: row["worst_loss"] for row in more["new_rows"]["findings"]}
    assert set(held) == {"PCA", "FairPCA", "shrunk FairPCA", "balanced PCA"}
    assert held["balanced PCA"] != held["PCA"]
