"""The study behind ``python -m experiments``: its numbers, its caution, its second start."""

import csv

import experiments.run as study
import numpy as np
import pytest
from experiments import baselines, figures, geometry
from experiments.__main__ import main
from experiments.tables import PaperTable

from fairpca import GroupMoments, methods

from data_dir import data_path, reference

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """Return what the short version writes from the published files."""
    data_path("lfw.npz")
    output = tmp_path_factory.mktemp("quick")
    assert main(["--quick", "--no-download", "--output", str(output)]) == 0
    return output


def rows(folder, name):
    with open(folder / f"{name}.csv", newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_numbers_are_those_of_the_reference(quick):
    tables, many = reference("two_groups.json"), reference("many_groups.json")["sex_edu4"]["21"]
    for row in rows(quick, "curves"):
        expected = tables.get(row["set"], {}).get("r", {}).get(row["r"])
        if expected is None:
            continue
        for name in ("loss_A", "loss_B", "pca_loss_A", "err_pca", "err_fpca", "phi_star"):
            assert float(row[name]) == pytest.approx(expected[name], rel=1e-9, abs=1e-12), row
        assert float(row["t_star"]) == pytest.approx(expected["t_star"], abs=2e-11), row
        assert float(row["ratio_ours"]) <= 1e-10
    for row in rows(quick, "many_groups"):
        if row["grouping"] == "DCC education x sex" and row["r"] in many:
            assert float(row["lower_bound"]) == pytest.approx(many[row["r"]]["phi"], rel=1e-8)
    # The published search compares values, so rounding decides where it stops.
    ratios = [row for row in rows(quick, "loss_ratios") if row["set"] != "CM"]
    assert max(float(row["ratio_eigopt"]) for row in ratios) <= 2e-5
    assert max(float(row["ratio_printed"]) for row in ratios) > 1e-3
    wide = [(row["set"], row["r"]) for row in ratios if int(row["rank_sdr"]) > int(row["r"])]
    bank, credit = [("BM", r) for r in (8, 9, 10, 13)], [("DCC", r) for r in (3, 5, 7, 13)]
    assert [(name, int(r)) for name, r in wide] == bank + credit


@pytest.mark.slow
def test_the_page_says_what_it_found_and_what_is_not_data(quick, tmp_path, monkeypatch, capsys):
    text = (quick / "RESULTS.md").read_text()
    for value in ("20.4374 %", "0.484002874597", "**CM is a synthetic matrix**"):
        assert value in text
    assert "CM" not in text.split("## Values at the ranks")[1].split("## Figures")[0]
    # Without data the rest is written, and what is missing is named.
    monkeypatch.setenv("FAIRPCA_DATA", str(tmp_path))
    assert main(["--quick", "--no-download", "--output", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().err
    for name in ("bank", "credit", "faces"):
        assert f"**The {name} table is missing.**" in (tmp_path / "out" / "RESULTS.md").read_text()
        assert f"{name}: left out" in said


def test_an_interrupted_run_continues_and_changed_code_computes_again(tmp_path, monkeypatch):
    data = np.random.default_rng(0).standard_normal((300, 6)) * np.arange(1, 7)
    split = data, np.arange(300) < 60
    table = PaperTable("BM", "small", lambda: split, False, (2,), (1, 2, 3), (2,))
    monkeypatch.setattr(study, "paper_tables", lambda **kwargs: ([table], {}))
    monkeypatch.setattr(study, "groupings", lambda **kwargs: [])
    monkeypatch.setattr(study, "_draw", lambda output, found: None)
    computed, compute = [], study.Curves.at
    monkeypatch.setattr(study.Curves, "at", lambda self, r: computed.append(r) or compute(self, r))
    with monkeypatch.context() as patch, pytest.raises(ZeroDivisionError):
        patch.setattr(study.Curves, "ratios", lambda self, r: 1 / 0)
        study.run(tmp_path, quick=True)
    assert not (tmp_path / "RESULTS.md").exists()
    first = study.run(tmp_path, quick=True)
    assert study.run(tmp_path, quick=True)["tables"] == first["tables"]
    assert computed == [1, 2, 3]
    monkeypatch.setattr("experiments.store.code_digest", lambda: "other")
    study.run(tmp_path, quick=True)
    assert computed == [1, 2, 3, 1, 2, 3]


def test_baselines_agree_with_the_library():
    rng = np.random.default_rng(1)
    parts = [rng.standard_normal((m, 8)) * np.linspace(*ends, 8)
             for m, ends in ((90, (3, 0.5)), (200, (0.5, 2)))]  # fmt: skip
    first, second = (part - part.mean(axis=0) for part in parts)
    moments = GroupMoments.from_array(np.vstack([first, second]), np.repeat([0, 1], [90, 200]))
    for r in (1, 3, 6):
        gram = baselines.sdr_on_gram(moments.covariances, r)
        coded = baselines.sdr_as_coded(first, second, r)
        np.testing.assert_allclose(coded.losses, gram.losses, rtol=1e-8)
        ours = methods.EigOpt(r).fit_moments(moments).components_
        for basis in (
            baselines.eigopt_as_coded(first, second, r, 1e-8),
            baselines.eigopt_on_gram(moments.covariances, r, 1e-8, []),
        ):
            assert np.linalg.norm(basis @ basis.T - ours.T @ ours) < 1e-5


@pytest.mark.slow
def test_geometry_agrees_with_the_known_answers_and_draws_the_same_bytes(tmp_path):
    picture, lines = geometry.illustration(), geometry.three_lines()
    assert picture["found"] == pytest.approx(picture["known_optimum"], abs=1e-12)
    assert lines["dual"] == pytest.approx(0.5, abs=1e-12)
    assert lines["value"] == pytest.approx(0.75, abs=1e-9)
    drawn = []
    for _ in range(2):
        figures.illustration(tmp_path, picture)
        drawn.append([(tmp_path / f"illustration.{end}").read_bytes() for end in ("png", "pdf")])
    assert drawn[0] == drawn[1]
