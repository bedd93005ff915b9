"""Every command from a file to its result, as a person types it."""

import json

import numpy as np
import pandas as pd
import pytest
from sklearn.preprocessing import StandardScaler

import fairpca
from fairpca import FairPCA, MaxMinDistanceAnalysis
from fairpca.cli import commands
from fairpca.io import stream
from fairpca.persistence import load_model

FEATURES = ["v0", "v1", "v2", "v3"]


@pytest.fixture
def model(cli, csv, tmp_path):
    """Return the path of a model of the table."""
    path = tmp_path / "m.skops"
    assert cli("fit", csv, "-g", "sex", "--drop", "paid", "--drop", "city", "-o", path).code == 0
    return path


def standardised(frame):
    return StandardScaler().fit_transform(frame[FEATURES])


def test_inspect_says_what_columns_are(cli, csv):
    done = cli("inspect", csv)
    assert done.code == 0
    assert "160 rows, 9 columns" in done.out
    lines = {line.split()[0]: line for line in done.out.splitlines() if line.strip()}
    assert "row number" in lines["id"]
    assert "f (110), m (50)" in lines["sex"]
    assert "0 (" in lines["paid"]
    assert "Likely groups (-g): sex, city, plan, paid." in done.out


def test_audit_prints_the_verdict_then_new_rows_then_these(cli, csv, frame):
    done = cli(
        "audit", csv, "-g", "sex", "-r", "2", "--drop", "paid", "--drop", "plan", "--drop", "city"
    )
    assert done.code == 0
    found = fairpca.audit(standardised(frame), {"sex": frame["sex"]}, 2)
    assert " ".join(found.verdict().split()) in " ".join(done.out.split())
    assert done.out.index("on new rows") < done.out.index("Loss on the rows in hand")
    assert found.advice.python in done.out
    assert "read people.csv: 160 rows; left out 'id' (row number)" in done.err


@pytest.mark.parametrize("ending", ["html", "json", "csv"])
def test_audit_writes_what_it_prints(cli, csv, tmp_path, ending):
    path = tmp_path / f"audit.{ending}"
    done = cli("audit", csv, "-g", "sex", "--ranks", "1-3", "--drop", "paid", "-o", path)
    assert done.code == 0
    assert f"wrote {path}" in done.err
    text = path.read_text()
    if ending == "json":
        content = json.loads(text)
        assert content["verdict"]["kind"] in ("better", "as good", "cannot tell")
        assert " ".join(content["verdict"]["text"].split()) in " ".join(done.out.split())
    elif ending == "csv":
        assert set(pd.read_csv(path)["n_components"]) == {1, 2, 3}
    else:
        assert text.startswith("<!DOCTYPE html>")


def test_audit_tells_the_rows_of_a_block_apart(cli, frame, tmp_path):
    rows = frame.loc[frame.index.repeat(3)].assign(person=np.repeat(np.arange(160) * 7, 3))
    rows.drop(columns=["id", "paid", "plan"]).to_csv(tmp_path / "t.csv", index=False)
    options = ["-g", "sex", "-o", tmp_path / "a.json"]
    alone = cli("audit", tmp_path / "t.csv", "--drop", "person", *options)
    assert alone.code == 0
    told = cli("audit", tmp_path / "t.csv", *options)
    assert "rows may belong together by 'person' (audit --block)" in told.err
    together = cli("audit", tmp_path / "t.csv", "--block", "person", *options)
    assert together.code == 0
    found = json.loads((tmp_path / "a.json").read_text())
    assert found["provenance"]["parameters"]["blocks"] is True
    assert "--drop person" in found["verdict"]["command"]
    assert "belong together" not in together.err


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_large_files_give_the_numbers_of_the_table_in_memory(
    cli, csv, frame, tmp_path, monkeypatch, kind
):
    path = tmp_path / f"people.{kind}"
    if kind == "parquet":
        frame.to_parquet(path)
    found = {}
    for large in (10**9, 0):
        monkeypatch.setattr(commands, "_LARGE", large)
        monkeypatch.setattr(stream, "_batch_rows", lambda roles: 23)
        target = tmp_path / f"{large}.skops"
        assert cli("fit", path, "-g", "sex", "-g", "city", "-r", "3", "-o", target).code == 0
        found[large] = load_model(target).model
    held, counted = found.values()
    np.testing.assert_allclose(counted[-1].components_, held[-1].components_, atol=1e-10)
    np.testing.assert_allclose(counted[-1].group_losses_, held[-1].group_losses_, rtol=1e-10)
    np.testing.assert_allclose(counted[1].scale_, held[1].scale_, rtol=1e-12)
    done = cli("audit", path, "-g", "sex", "-o", tmp_path / "a.csv")
    assert done.code == 0
    assert "on new rows" in done.out.lower()


def test_fit_stores_columns_with_the_model(cli, csv, frame, model, tmp_path):
    saved = load_model(model)
    columns, _, reducer = saved.model
    assert list(columns.get_feature_names_out()) == [
        *FEATURES,
        "plan_basic",
        "plan_plus",
        "plan_pro",
    ]
    X = StandardScaler().fit_transform(np.hstack([frame[FEATURES], pd.get_dummies(frame["plan"])]))
    expected = FairPCA(2).fit(X, sensitive_features=frame["sex"])
    np.testing.assert_allclose(reducer.components_, expected.components_, atol=1e-9)
    assert reducer.group_names_ == ["sex"]
    # Other columns, another order, and no groups.
    frame[["plan", *FEATURES[::-1]]].to_csv(tmp_path / "new.csv", index=False)
    done = cli("transform", tmp_path / "new.csv", "--model", model, "--keep", "plan")
    assert done.code == 0
    printed = pd.read_csv(pd.io.common.StringIO(done.out))
    assert printed["plan"].tolist() == frame["plan"].tolist()
    np.testing.assert_allclose(printed.iloc[:, 1:], expected.transform(X), atol=1e-9)


@pytest.mark.parametrize("ending", ["csv", "parquet", "npy"])
def test_transform_writes_files(cli, csv, model, tmp_path, ending):
    path = tmp_path / f"scores.{ending}"
    assert cli("transform", csv, "--model", model, "-o", path).code == 0
    read = {"csv": pd.read_csv, "parquet": pd.read_parquet, "npy": np.load}[ending]
    assert np.shape(read(path)) == (160, 2)


def test_every_setting_of_fit_arrives(cli, csv, tmp_path):
    path = tmp_path / "m.skops"
    options = "-r 0.8 --criterion error --shrinkage auto --max-harm 0.1 --raw".split()
    done = cli("fit", csv, "-g", "sex", "--sample-weight", "paid", *options, "-o", path)
    assert done.code == 0
    steps = load_model(path).model
    assert len(steps) == 2
    found = steps[-1].get_params()
    assert (found["criterion"], found["shrinkage"], found["max_harm"]) == ("error", "auto", 0.1)
    assert found["n_components"] == 0.8
    # A proof of shrunk matrices stands beside the numbers that it is about.
    assert '"error, shrunk"' in " ".join(done.out.split())


def test_fit_keeps_pairs_apart(cli, csv, frame, tmp_path):
    path = tmp_path / "m.skops"
    arguments = [csv, "--drop", "paid", "--drop", "sex", "-r", "1", "--separate", "-o", path]
    done = cli("fit", "-g", "plan", *arguments)
    assert done.code == 0
    assert "recognised when left out" in done.out
    model = load_model(path).model[-1]
    assert isinstance(model, MaxMinDistanceAnalysis)
    assert model.classes_.tolist() == ["basic", "plus", "pro"]
    refused = cli("fit", "-g", "plan", "-g", "city", *arguments)
    assert (refused.code, "one group column" in refused.err) == (2, True)


def test_genotypes_are_fitted_and_projected_as_plink_reads_them(cli, tmp_path):
    bed_reader = pytest.importorskip("bed_reader")
    rng = np.random.default_rng(0)
    populations = np.repeat(["A", "B", "C"], 20)
    often = rng.uniform(0.1, 0.9, (3, 60))[np.repeat(np.arange(3), 20)]
    people = [f"p{i}" for i in range(60)]
    bed_reader.to_bed(
        tmp_path / "cohort.bed",
        rng.binomial(2, often).astype(float),
        properties={"iid": people, "fid": people, "sid": [f"rs{j}" for j in range(60)]},
    )
    labels = "".join(f"{i} {p}\n" for i, p in zip(people, populations, strict=True))
    (tmp_path / "pops.txt").write_text(f"IID POP\n{labels}")
    model = tmp_path / "m.skops"
    arguments = [tmp_path / "cohort.bed", "-g", tmp_path / "pops.txt", "-r", "2", "--separate"]
    done = cli("fit", *arguments, "-o", model)
    assert done.code == 0
    assert f"--score {tmp_path / 'm.loadings'} 1 2" in done.err
    scores = pd.read_csv(tmp_path / "m.eigenvec", sep="\t")
    assert list(scores) == ["#FID", "IID", "PC1", "PC2"]
    loadings = pd.read_csv(tmp_path / "m.loadings", sep="\t")
    assert list(loadings) == ["#ID", "A1", "PC1", "PC2"]
    again = tmp_path / "again.eigenvec"
    new = cli("transform", tmp_path / "cohort.bed", "--model", model, "--eigenvec", again)
    assert new.code == 0
    np.testing.assert_allclose(pd.read_csv(again, sep="\t")["PC1"], scores["PC1"], atol=1e-9)
    bed_reader.to_bed(tmp_path / "other.bed", np.zeros((3, 60)))
    other = cli("transform", tmp_path / "other.bed", "--model", model)
    assert (other.code, "other snps than the fit" in other.err) == (2, True)
    # None of several files, and no option about tables, is passed over in silence.
    assert "one .bed file" in cli("fit", *arguments, "--drop", "rs1", "-o", model).err
    assert "one .bed file" in cli("transform", *arguments[:1] * 2, "--model", model).err


def test_audit_measures_a_stored_model(cli, csv, frame, model, tmp_path):
    done = cli("audit", csv, "-g", "city", "--model", model)
    assert done.code == 0
    assert "On these rows the model, with 2 components" in " ".join(done.out.split())
    cli("audit", csv, "-g", "sex", "--model", model, "-o", tmp_path / "a.csv")
    found = pd.read_csv(tmp_path / "a.csv")
    np.testing.assert_allclose(found["loss"], load_model(model).model[-1].group_losses_, rtol=1e-8)


def test_what_a_model_does_with_gaps_is_the_default(cli, frame, tmp_path):
    table, path = tmp_path / "t.csv", tmp_path / "m.skops"
    frame.mask(np.random.default_rng(0).uniform(size=frame.shape) < 0.02).assign(
        sex=frame["sex"]
    ).drop(columns="id").to_csv(table, index=False)
    assert "--missing drop, mean or median" in cli("fit", table, "-g", "sex", "-o", path).err
    assert cli("fit", table, "-g", "sex", "--missing", "median", "-o", path).code == 0
    for more in ([], ["--missing", "median"]):
        assert cli("audit", table, "-g", "sex", "--model", path, *more).code == 0
    other = cli("audit", table, "-g", "sex", "--model", path, "--missing", "mean")
    assert (other.code, "was fitted with --missing median" in other.err) == (2, True)


def test_compare_puts_methods_side_by_side(cli, csv, tmp_path):
    arguments = ["compare", csv, "-g", "sex", "--method", "PCA", "--method", "FairPCA"]
    done = cli(*arguments, "--missing", "median")
    assert done.code == 0
    assert all(name in done.out for name in ("PCA", "FairPCA"))
    assert cli(*arguments, "-o", tmp_path / "c.csv").code == 0
    assert set(pd.read_csv(tmp_path / "c.csv")["method"]) == {"PCA", "FairPCA"}
    wrong = cli("compare", csv, "-g", "sex", "--method", "fairpca")
    assert (wrong.code, "Did you mean 'FairPCA'?" in wrong.err) == (2, True)


def test_the_demo_wins_on_new_rows_says_who_pays_and_when_not_to(cli, tmp_path):
    done = cli("demo", "-o", tmp_path / "d.png")
    assert done.code == 0
    said = " ".join(done.out.split())
    for part in ("left out of the fit", "beyond noise", "Who pays", "When not to"):
        assert part in said
    assert (tmp_path / "d.png").read_bytes().startswith(b"\x89PNG")


def test_weights_of_zero_are_no_rows(cli, frame, tmp_path):
    table = frame.drop(columns=["id", "plan"]).assign(v0=frame["v0"].mask(frame["v1"] > 1))
    models = []
    for name, rows in {"all": table, "live": table[table["paid"] > 0]}.items():
        rows.to_csv(tmp_path / f"{name}.csv", index=False)
        arguments = ["-g", "sex", "--missing", "mean", "--sample-weight", "paid"]
        path = tmp_path / f"{name}.skops"
        assert cli("fit", tmp_path / f"{name}.csv", *arguments, "-o", path).code == 0
        models.append(load_model(path).model[-1])
    np.testing.assert_allclose(models[0].components_, models[1].components_, atol=1e-12)
    assert list(models[0].group_counts_) == list(models[1].group_counts_)


def test_options_have_the_names_of_arguments(cli):
    for name, most in {"audit": 20, "fit": 16}.items():
        assert cli(name, "--help").out.count(" --") <= most
