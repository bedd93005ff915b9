"""Tables as other programs write them, and what a terminal must not make of them."""

import codecs
import json

import numpy as np
import pandas as pd
import pyarrow
import pyarrow.parquet
import pytest
from fairpca.io.delimited import read_text

from fairpca import FairPCA
from fairpca.cli import run
from fairpca.criteria import CRITERIA, Criterion
from fairpca.io import read_moments
from fairpca.persistence import load_model


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(0)
    labels = {"city": rng.choice(list("AB"), 200), "sex": rng.choice(list("fmx"), 200)}
    return pd.DataFrame(labels | {f"x{i}": rng.normal(size=200) * (i + 1) for i in range(4)})


def fitted(tmp_path, *arguments):
    model = tmp_path / "model.skops"
    assert run(["fit", *map(str, arguments), "-r", "2", "-o", str(model), "--force"]) == 0
    return load_model(model).model


def test_names_of_rows_that_r_writes_have_no_name(people, tmp_path):
    # As write.table(d, sep=",") does: one name fewer than cells.
    lines = people.to_csv(index=False, header=False).splitlines()
    numbered = [f"{i + 1},{line}" for i, line in enumerate(lines)]
    table = tmp_path / "r.csv"
    table.write_text("\n".join([",".join(people), *numbered]))
    model = fitted(tmp_path, table, "-g", "sex")
    assert model.groups_ == ["f", "m", "x"]
    moments = read_moments(str(table), sensitive_features="sex", features=["x1", "x2"])
    np.testing.assert_allclose(moments.pooled().mean[0], people[["x1", "x2"]].mean(), rtol=1e-12)


def test_a_separator_at_the_end_of_rows_makes_no_column_of_row_names(people, tmp_path):
    lines = people.to_csv(index=False, header=False).splitlines()
    table = tmp_path / "end.csv"
    table.write_text("\n".join([",".join(people), *(f"{line}," for line in lines)]))
    assert fitted(tmp_path, table, "-g", "sex").groups_ == ["f", "m", "x"]


def test_a_first_row_that_is_too_long_is_refused(people, tmp_path, capsys):
    lines = people.to_csv(index=False).splitlines()
    for number in (1, 50, 100):
        lines[number] = lines[number].replace(",", ",1,", 1)
    table = tmp_path / "long.csv"
    table.write_text("\n".join(lines))
    assert run(["fit", str(table), "-g", "sex", "-r", "1", "-o", str(tmp_path / "m.skops")]) == 2
    assert "the first row has 7 cells and the header 6 names" in capsys.readouterr().err


def test_missing_values_in_the_first_row_are_no_names(people, tmp_path):
    table = tmp_path / "lag.csv"
    people = people.astype({f"x{i}": object for i in range(4)})
    people.loc[0, ["x0", "x1", "x2", "x3"]] = "NA"
    people.to_csv(table, index=False)
    model = fitted(tmp_path, table, "-g", "sex", "--missing", "drop")
    assert model.group_counts_.sum() == 199


@pytest.mark.parametrize("name", ["UTF-16", "utf16", "U16", "utf-16"])
def test_encodings_have_several_names(people, name, tmp_path):
    table = tmp_path / "wide.csv"
    table.write_text(people.to_csv(index=False), encoding="utf-16")
    assert fitted(tmp_path, table, "-g", "sex", "--encoding", name).groups_ == ["f", "m", "x"]


def test_the_mark_of_an_encoding_is_no_part_of_a_name(people, tmp_path):
    table = tmp_path / "marked.csv"
    text = people[["sex", "x0", "x1", "x2"]].to_csv(index=False)
    table.write_bytes(codecs.BOM_UTF8 + text.encode())
    assert fitted(tmp_path, table, "-g", "sex", "--encoding", "utf-8").groups_ == ["f", "m", "x"]


def test_lines_end_where_pandas_ends_them(people, tmp_path):
    table = tmp_path / "odd.csv"
    people.rename(columns={"x0": "x\u20280"}).to_csv(table, index=False)
    assert fitted(tmp_path, table, "-g", "sex").groups_ == ["f", "m", "x"]


def test_rows_without_a_label_have_no_name_either(people, tmp_path, capsys):
    table = tmp_path / "fractions.parquet"
    band = np.where(people["sex"] == "f", 0.5, 1.5)
    band[3] = np.nan
    people.drop(columns=["sex", "city"]).assign(band=band).to_parquet(table)
    names = ["-g", "band", "--labels", "0.5=low"]
    assert run(["fit", str(table), *names, "-r", "1", "-o", str(tmp_path / "m.skops")]) == 2
    assert "--unlabelled ignore" in capsys.readouterr().err
    model = fitted(tmp_path, table, *names, "--unlabelled", "ignore")
    assert model.groups_ == ["1.5", "low"]


def test_whole_numbers_beside_gaps_are_copied_whole_or_refused(people, tmp_path, capsys):
    fitted(tmp_path, _written(people, tmp_path), "-g", "sex")
    model, table = str(tmp_path / "model.skops"), tmp_path / "ids.parquet"
    people.head(3).assign(id=pd.array([7, 8, None], dtype="Int64")).to_parquet(table)
    capsys.readouterr()
    assert run(["transform", model, str(table), "--keep", "id"]) == 0
    assert [line.split(",")[0] for line in capsys.readouterr().out.split()] == ["id", "7", "8", ""]
    for ending in ("json", "npy", "parquet"):
        out = tmp_path / f"out.{ending}"
        assert run(["transform", model, str(table), "--keep", "id", "-o", str(out)]) == 0
    assert [row["id"] for row in json.loads((tmp_path / "out.json").read_text())] == [7, 8, None]
    np.testing.assert_array_equal(np.load(tmp_path / "out.npy")[:, 0], [7, 8, np.nan])
    assert pd.read_parquet(tmp_path / "out.parquet")["id"].tolist()[:2] == [7, 8]
    large = pd.array([1234567890123456789, 1234567890123456790, None], dtype="Int64")
    people.head(3).assign(id=large).to_parquet(table)
    capsys.readouterr()
    assert run(["transform", model, str(table), "--keep", "id"]) == 0
    assert "\n1234567890123456790," in capsys.readouterr().out
    # An array of fractions would round them.
    out = tmp_path / "long.npy"
    assert run(["transform", model, str(table), "--keep", "id", "-o", str(out)]) == 2
    assert "keeps 15 digits, and --keep id has more; write .csv" in capsys.readouterr().err
    assert not out.exists()
    # Without pandas' own notes in the file, gaps make fractions of them.
    numbers = pyarrow.array([1234567890123456789, 1234567890123456790, None])
    rows = pyarrow.Table.from_pandas(people.head(3)).append_column("id", numbers)
    pyarrow.parquet.write_table(rows.replace_schema_metadata(None), table)
    assert run(["transform", model, str(table), "--keep", "id"]) == 2
    assert "--keep id: whole numbers of more than 15 digits" in capsys.readouterr().err


def _written(people, tmp_path):
    people.to_csv(tmp_path / "people.csv", index=False)
    return tmp_path / "people.csv"


def test_infinite_values_are_named_wherever_a_model_is_used(people, tmp_path, capsys):
    fitted(tmp_path, _written(people, tmp_path), "-g", "sex")
    table = tmp_path / "new.csv"
    people.assign(x1=np.inf).to_csv(table, index=False)
    for verb in (["transform", tmp_path / "model.skops", table], ["audit", table, "-g", "sex"]):
        more = ["--model", str(tmp_path / "model.skops")] if verb[0] == "audit" else []
        assert run([*map(str, verb), *more]) == 2
        assert "column 'x1' has infinite values" in capsys.readouterr().err


def test_inspect_of_numbers_that_json_and_integers_do_not_hold(tmp_path, capsys):
    large = tmp_path / "large.parquet"
    pd.DataFrame({"h": [1e19, 2e19, None] * 20, "v": range(60)}).to_parquet(large)
    assert run(["inspect", str(large), "--json"]) == 0
    columns = {column["name"]: column for column in json.loads(capsys.readouterr().out)["columns"]}
    assert columns["h"]["distinct"] == 2
    assert sorted(columns["h"]["levels"].values()) == [20, 20]
    infinite = tmp_path / "infinite.csv"
    pd.DataFrame({"i": [1.0, np.inf, 2.5] * 20, "v": range(60)}).to_csv(infinite, index=False)
    assert run(["inspect", str(infinite), "--json"]) == 0
    columns = {column["name"]: column for column in json.loads(capsys.readouterr().out)["columns"]}
    assert columns["i"]["range"] == [1.0, "inf"]


def test_an_interrupt_that_pandas_lost_is_an_interrupt(people, tmp_path, monkeypatch):
    from fairpca.io.delimited import Layout, open_texts
    from fairpca.io.sources import DataFile

    table = _written(people, tmp_path)
    (text,) = open_texts([DataFile.at(table)], Layout())

    def interrupted(*arguments, **options):
        raise pd.errors.ParserError("Calling read(nbytes) on source failed. Try engine='python'.")

    monkeypatch.setattr(pd, "read_csv", interrupted)
    with pytest.raises(KeyboardInterrupt):
        next(read_text(str(table), text))


def test_a_criterion_that_is_added_is_known_everywhere(people, tmp_path):
    from fairpca.methods import RADA

    CRITERIA["shortfall"] = Criterion(lambda own, traces: 0.9 * traces)
    try:
        table = _written(people, tmp_path)
        model = fitted(tmp_path, table, "-g", "sex", "--criterion", "shortfall")
        X = people[[f"x{i}" for i in range(4)]]
        RADA(2, criterion="shortfall").fit(X, sensitive_features=people["sex"])
    finally:
        del CRITERIA["shortfall"]
    assert model.criterion == "shortfall"


def test_the_command_of_an_audit_in_python_fits_what_was_measured(people, tmp_path):
    from fairpca import audit

    X, sex = people[[f"x{i}" for i in range(4)]], people["sex"]
    found = audit(X * [1, 10, 100, 1000], sex, 2, ranks=[2], n_bootstrap=0)
    assert "--no-standardize" in found.to_dict()["new_rows"]["advice"]["command"]
    table = tmp_path / "scaled.csv"
    (X * [1, 10, 100, 1000]).assign(sex=sex).to_csv(table, index=False)
    model = fitted(tmp_path, table, "-g", "sex", "--no-standardize")
    wanted = FairPCA(2).fit(X * [1, 10, 100, 1000], sensitive_features=sex)
    np.testing.assert_allclose(model.group_losses_, wanted.group_losses_, rtol=1e-9)


def test_a_slip_after_counting_loses_no_checkpoint(people, tmp_path, capsys):
    table, checkpoint = tmp_path / "people.parquet", tmp_path / "counted.npz"
    people.to_parquet(table)
    arguments = ["fit", table, "-g", "sex", "-r", "2", "--feature", "x*", "--checkpoint"]
    arguments += [checkpoint, "-o", tmp_path / "model.skops", "--labels"]
    assert run([*map(str, arguments), "q=quark"]) == 2
    assert "'q' is no label of 'sex'" in capsys.readouterr().err
    assert checkpoint.exists()
    assert run([*map(str, arguments), "f=female"]) == 0
    assert not checkpoint.exists()
    assert load_model(tmp_path / "model.skops").model.groups_ == ["female", "m", "x"]


def test_a_model_is_not_its_own_checkpoint(people, tmp_path, capsys):
    table, model = tmp_path / "people.parquet", tmp_path / "model.skops"
    people.drop(columns="city").to_parquet(table)
    other_name = tmp_path / "folder" / ".." / model.name
    other_name.parent.parent.mkdir()
    arguments = ["fit", table, "-g", "sex", "-r", "2", "-o", model, "--checkpoint", other_name]
    assert run([*map(str, arguments)]) == 2
    assert "is the --checkpoint, too; choose another name" in capsys.readouterr().err
    assert not model.exists()


def test_a_note_in_one_row_makes_no_names_of_rows(people, tmp_path):
    lines = [f"{line}," for line in people.to_csv(index=False, header=False).splitlines()]
    lines[10] += "late"
    table = tmp_path / "note.csv"
    table.write_text("\n".join([",".join(people), *lines]))
    moments = read_moments(str(table), sensitive_features="sex", features=["x1", "x2"])
    assert moments.labels == ("f", "m", "x")
    np.testing.assert_allclose(moments.pooled().mean[0], people[["x1", "x2"]].mean(), rtol=1e-12)


def test_large_fractions_beside_gaps_are_copied_as_they_are(people, tmp_path):
    fitted(tmp_path, _written(people, tmp_path), "-g", "sex")
    table, out = tmp_path / "large.parquet", tmp_path / "out.parquet"
    people.head(3).assign(big=[3.612e23, np.nan, 1.5e22]).to_parquet(table)
    model = str(tmp_path / "model.skops")
    assert run(["transform", model, str(table), "--keep", "big", "-o", str(out)]) == 0
    np.testing.assert_array_equal(pd.read_parquet(out)["big"], [3.612e23, np.nan, 1.5e22])


@pytest.mark.parametrize("gap", ["", "NA"])
def test_gaps_beside_whole_numbers_past_the_largest_integer(people, tmp_path, capsys, gap):
    rows = people.drop(columns="city")
    hashed = [str(2**63 + 3**32 * i) if i % 5 else gap for i in range(len(rows))]
    table = tmp_path / "hashed.csv"
    rows.assign(key=hashed).to_csv(table, index=False)
    assert run(["inspect", str(table), "--json"]) == 0
    (key,) = [c for c in json.loads(capsys.readouterr().out)["columns"] if c["name"] == "key"]
    assert key["type"] == "whole number"
    assert key["missing"] == hashed.count(gap)
    fit = ["fit", str(table), "-g", "sex", "-r", "2", "-o", str(tmp_path / "no.skops")]
    for engine in ("memory", "local"):
        assert run([*fit, "--engine", engine]) == 2
        assert "missing" in capsys.readouterr().err.replace("no value", "missing")
    model = fitted(tmp_path, table, "-g", "sex", "--missing", "mean")
    assert model.n_features_in_ == 5
    fitted(tmp_path, table, "-g", "sex", "--drop", "key")
    out = tmp_path / "out.parquet"
    kept = ["transform", str(tmp_path / "model.skops"), str(table), "--keep", "key", "-o"]
    assert run([*kept, str(out)]) == 0
    copied = pyarrow.parquet.read_table(out)["key"].to_pylist()
    assert copied == [None if cell == gap else int(cell) for cell in hashed]
    assert run([*kept, str(out.with_suffix(".json"))]) == 0
    assert [row["key"] for row in json.loads(out.with_suffix(".json").read_text())] == copied
    # Of a file with smaller ones beside gaps pandas makes fractions, and of both together, too.
    small = tmp_path / "small.csv"
    rows.assign(key=["5", gap] * 100).to_csv(small, index=False)
    assert run([*kept[:3], str(small), *kept[3:], str(out), "--force"]) == 2
    assert "--keep key: whole numbers of more than 15 digits" in capsys.readouterr().err


@pytest.mark.parametrize("key", ["98765432101234567890", "-9876543210123456789"])
def test_whole_numbers_that_no_column_of_numbers_holds_are_copied_as_text_or_refused(
    people, tmp_path, capsys, key
):
    rows, model = people.drop(columns="city"), tmp_path / "model.skops"
    fitted(tmp_path, _written(rows, tmp_path), "-g", "sex")
    table, out = tmp_path / "keys.csv", tmp_path / "out.csv"
    rows.assign(key=[key, "5"] * 100).to_csv(table, index=False)
    kept = ["transform", str(model), str(table), "--keep", "key"]
    assert run([*kept, "-o", str(out)]) == 0
    assert out.read_text().splitlines()[1].startswith(f"{key},")
    for more in (["--json"], *(["-o", str(tmp_path / f"out.{e}")] for e in ("json", "parquet"))):
        capsys.readouterr()
        assert run([*kept, *more]) == 2
        assert f"--keep key: numbers such as {key} lose digits" in capsys.readouterr().err
    assert not (tmp_path / "out.parquet").exists()
    # Written as fractions they have no digits to lose.
    rows.assign(key=["9.5e30", "5"] * 100).to_csv(table, index=False)
    assert run([*kept, "-o", str(tmp_path / "out.parquet")]) == 0
