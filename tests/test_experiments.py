"""The study behind ``python -m experiments``: its numbers, its caution, its second start."""

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from data_dir import data_path, reference

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

pytest.importorskip("matplotlib")

import experiments.run as study  # noqa: E402
from experiments import baselines, figures, geometry  # noqa: E402
from experiments.claims import PAPER_SIZES, PAPER_TABLE, claims  # noqa: E402
from experiments.store import Store  # noqa: E402
from experiments.tables import PaperTable, synthetic_crop  # noqa: E402


def command(output, folder, *options):
    environment = {**os.environ, "FAIRPCA_DATA": str(folder), "OPENBLAS_NUM_THREADS": "1"}
    line = [sys.executable, "-W", "error", "-m", "experiments", "--quick", "--no-download"]
    return subprocess.run(
        [*line, "--output", str(output), *options],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="session")
def quick(tmp_path_factory):
    """One run of the short version on the published files, shared by all workers."""
    fcntl = pytest.importorskip("fcntl")
    data_path("lfw.npz")
    folder = data_path("bank.csv").parent
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    output = shared / "quick"
    with open(shared / "quick.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (output / "RESULTS.md").exists():
            run = command(output, folder)
            assert run.returncode == 0, run.stderr
    return output


def rows(folder, name):
    with open(folder / f"{name}.csv", newline="") as file:
        return [
            {key: _number(value) for key, value in row.items()} for row in csv.DictReader(file)
        ]


def _number(text):
    try:
        return float(text)
    except ValueError:
        return text


def test_everything_is_written_and_small(quick):
    names = {path.name for path in quick.iterdir()}
    for name in (
        "illustration", "joint_numerical_range", "phi", "reconstruction_error",
        "reconstruction_loss", "loss_ratio", "price_of_fairness", "many_groups",
    ):  # fmt: skip
        assert {f"{name}.png", f"{name}.pdf"} <= names
        assert (quick / f"{name}.png").stat().st_size > 10_000
    assert {
        "RESULTS.md",
        "curves.csv",
        "loss_ratios.csv",
        "table1.csv",
        "many_groups.csv",
    } <= names
    assert sum(path.stat().st_size for path in quick.iterdir() if path.is_file()) < 3e6


def test_numbers_are_those_of_the_reference(quick):
    tables = reference("two_groups.json")
    compared = 0
    for row in rows(quick, "curves"):
        expected = tables.get(row["set"], {}).get("r", {}).get(str(int(row["r"])))
        if expected is None:
            continue
        compared += 1
        case = (row["set"], row["r"])
        assert row["t_star"] == pytest.approx(expected["t_star"], abs=2e-11), case
        assert row["phi_star"] == pytest.approx(expected["phi_star"], rel=1e-9), case
        # The reference's own precision: Octave and NumPy agree on these to nine digits.
        for name in ("loss_A", "loss_B", "pca_loss_A", "err_pca", "err_fpca"):
            assert row[name] == pytest.approx(expected[name], rel=2e-10, abs=1e-12), (case, name)
        assert row["gap_lambda"] == pytest.approx(expected["gap_lambda"], rel=1e-6), case
    assert compared >= 12


def test_the_printed_digits(quick):
    text = (quick / "RESULTS.md").read_text()
    increase = {
        (row["set"], int(row["r"])): f"{row['increase_percent']:.4f}"
        for row in rows(quick, "curves")
    }
    expected = {
        ("BM", 2): "3.6382", ("BM", 4): "5.5333", ("BM", 8): "13.1820", ("BM", 10): "20.4374",
        ("BM", 15): "80.0537", ("DCC", 1): "0.0086", ("DCC", 4): "0.0016", ("DCC", 5): "0.4612",
        ("DCC", 10): "0.0283", ("DCC", 15): "0.0198", ("LFW", 1): "0.0129", ("LFW", 50): "0.7972",
    }  # fmt: skip
    assert {case: increase[case] for case in expected} == expected
    for value in ("20.4374 %", "0.484002874597", "0.393284556640", "0.0277142887683"):
        assert value in text


def test_loss_ratios(quick):
    ours = [row["ratio_ours"] for row in rows(quick, "curves") if row["set"] != "CM"]
    assert max(ours) <= 1e-10
    ratios = [row for row in rows(quick, "loss_ratios") if row["set"] != "CM"]
    # The published search compares values, so rounding of the matrices decides where it stops:
    # 0.8e-5 and 1.3e-5 were seen for the same table.
    assert max(row["ratio_eigopt"] for row in ratios) <= 2e-5
    for key, above in (("BM", 13), ("DCC", 19)):
        printed = [row["ratio_printed"] for row in ratios if row["set"] == key]
        assert abs(sum(value > 1e-5 for value in printed) - above) <= 1
    wide = {
        key: [int(row["r"]) for row in ratios if row["set"] == key and row["rank_sdr"] > row["r"]]
        for key in ("BM", "DCC")
    }
    assert wide == {"BM": [8, 9, 10, 13], "DCC": [3, 5, 7, 13]}
    sdr = {key: [r["ratio_sdr"] for r in ratios if r["set"] == key] for key in ("BM", "DCC")}
    shown = {key: (f"{np.median(v):.1e}", f"{max(v):.1e}") for key, v in sdr.items()}
    assert shown == {"BM": ("1.4e-03", "7.4e-01"), "DCC": ("1.9e-01", "1.6e+00")}


def test_many_groups_carry_their_proof(quick):
    known = reference("many_groups.json")["sex_edu4"]["21"]
    table = rows(quick, "many_groups")
    assert {row["grouping"] for row in table} == {"DCC education", "DCC education x sex"}
    for row in table:
        assert row["lower_bound"] <= row["value"] * (1 + 1e-10) + 1e-12
        assert row["loss"] <= row["value"] * (1 + 1e-12)
    for r, expected in known.items():
        (found,) = {
            (row["lower_bound"], row["value"])
            for row in table
            if row["grouping"] == "DCC education x sex" and row["r"] == int(r)
        }
        assert found[0] == pytest.approx(expected["phi"], rel=1e-8)
        assert found[1] <= expected["value"] * (1 + 1e-8)


def test_the_page_says_what_is_not_data(quick):
    text = (quick / "RESULTS.md").read_text()
    assert "**CM is a synthetic matrix**" in text
    assert "*synthetic*" in text
    assert "| **agree" in text
    assert "| **differs** |" in text
    assert "CM" not in text.split("## Values at the ranks")[1].split("## Figures")[0]
    for row in rows(quick, "curves"):
        assert (row["synthetic"] == "True") == (row["set"] == "CM")


def test_times_are_stated_with_their_circumstances(quick):
    table = rows(quick, "table1")
    assert {row["threads"] for row in table} == {1}
    assert all(row["best_of"] >= 1 and row["seconds"] > 0 for row in table)
    methods = {row["method"] for row in table if row["set"] == "BM"}
    assert {"pca_svd", "pca_sklearn", "eigopt", "ours", "sdr", "sdr_gram"} <= methods


def test_without_data_the_rest_is_written(quick, tmp_path):
    (tmp_path / "nothing").mkdir()
    # What needs no file is known already.
    shutil.copytree(quick / ".cache", tmp_path / "out" / ".cache")
    run = command(tmp_path / "out", tmp_path / "nothing")
    assert run.returncode == 0, run.stderr
    text = (tmp_path / "out" / "RESULTS.md").read_text()
    for name in ("bank", "credit", "faces"):
        assert f"**The {name} table is missing.**" in text
        assert f"{name}: left out" in run.stderr
    assert "bank.csv" in text
    assert "https://" in run.stderr
    assert "three lines" in text
    assert (tmp_path / "out" / "phi.png").exists()


# A second start


@pytest.fixture
def small(monkeypatch):
    """A study of one small random table, with a count of what is computed."""
    rng = np.random.default_rng(0)
    data = rng.standard_normal((300, 6)) * np.arange(1, 7)
    table = PaperTable(
        "BM", "small", lambda: (data, np.arange(300) < 60), False, (2,), (1, 2, 3), (2,)
    )
    monkeypatch.setattr(study, "paper_tables", lambda **kwargs: ([table], {}))
    monkeypatch.setattr(study, "groupings", lambda **kwargs: [])
    monkeypatch.setattr(study, "_draw", lambda output, found: None)
    computed = []
    compute = study.Curves.at

    def counted(self, r):
        computed.append(r)
        return compute(self, r)

    monkeypatch.setattr(study.Curves, "at", counted)
    return computed


def test_an_interrupted_run_continues(small, tmp_path, monkeypatch):
    def interrupt(self, r):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(study.Curves, "ratios", interrupt)
        with pytest.raises(KeyboardInterrupt):
            study.run(tmp_path, quick=True)
    assert small == [1, 2, 3]
    assert not (tmp_path / "RESULTS.md").exists()
    first = study.run(tmp_path, quick=True)
    assert small == [1, 2, 3]
    second = study.run(tmp_path, quick=True)
    assert small == [1, 2, 3]
    assert second["tables"] == first["tables"]
    assert second["reused"] > first["reused"] > 0


def test_changed_code_computes_again(small, tmp_path, monkeypatch):
    study.run(tmp_path, quick=True)
    with monkeypatch.context() as patch:
        patch.setattr("experiments.store.code_digest", lambda: "other")
        study.run(tmp_path, quick=True, reuse=True)
        assert small == [1, 2, 3]
        study.run(tmp_path, quick=True)
        assert small == [1, 2, 3, 1, 2, 3]


def test_store_keeps_settings_apart(tmp_path):
    store = Store(tmp_path)
    assert store.get("a/b", lambda: [1.5], threads=1) == [1.5]
    assert store.get("a/b", lambda: [2.5], threads=2) == [2.5]
    assert store.get("a/b", lambda: 1 / 0, threads=1) == [1.5]
    assert all(json.loads(path.read_text())["code"] == store.code for path in tmp_path.iterdir())


# The parts


def test_baselines_agree_with_each_other():
    import fairpca

    rng = np.random.default_rng(1)
    first = rng.standard_normal((90, 8)) * np.linspace(3, 0.5, 8)
    second = rng.standard_normal((200, 8)) @ np.diag(np.linspace(0.5, 2, 8))
    first, second = first - first.mean(axis=0), second - second.mean(axis=0)
    covariances = np.array([part.T @ part / len(part) for part in (first, second)])
    for r in (1, 3, 6):
        coded = baselines.sdr_as_coded(first, second, r)
        gram = baselines.sdr_on_gram(covariances, r)
        np.testing.assert_allclose(coded.losses, gram.losses, rtol=1e-8)
        assert coded.rank == gram.rank
        assert gram.losses.max() >= fairpca.solve(covariances, r).certificate.lower_bound - 1e-9
        basis = baselines.eigopt_as_coded(first, second, r, 1e-8)
        ours = fairpca.solve(covariances, r, solver="paper", tol=1e-8).components
        assert np.linalg.norm(basis @ basis.T - ours.T @ ours) < 1e-5
        pca = baselines.pca_as_coded(np.vstack([first, second]), r)
        np.testing.assert_allclose(pca.T @ pca, np.eye(r), atol=1e-12)


def test_synthetic_crop_has_the_shape_of_the_table():
    data, in_a = synthetic_crop(1000)
    corn, other, n = PAPER_SIZES["CM"]
    assert data.shape == (corn // 1000 + other // 1000, n)
    assert in_a.sum() == corn // 1000
    np.testing.assert_allclose(data.std(axis=0, ddof=1), 1)
    assert np.array_equal(data, synthetic_crop(1000)[0])


def test_geometry_agrees_with_the_known_answers():
    picture = geometry.illustration()
    assert picture["found"] == pytest.approx(picture["known_optimum"], abs=1e-12)
    assert picture["losses"]["pca"][1] > 10 * picture["losses"]["pca"][0]
    lines = geometry.three_lines()
    assert lines["dual"] == pytest.approx(0.5, abs=1e-12)
    assert lines["value"] == pytest.approx(0.75, abs=1e-9)
    assert lines["proven"] <= 0.75 + 1e-12
    assert lines["best_on_grid"] == pytest.approx(0.75, abs=1e-12)
    outline = geometry.numerical_range()
    assert outline["largest_dent"] < 1e-9
    assert outline["optimum"][0] == pytest.approx(outline["optimum"][1], rel=1e-12)


def test_figures_are_the_same_bytes_every_time(tmp_path):
    picture = geometry.illustration()
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        figures.illustration(tmp_path / name, picture)
    for suffix in ("png", "pdf"):
        first, second = (tmp_path / n / f"illustration.{suffix}" for n in ("first", "second"))
        assert first.read_bytes() == second.read_bytes()


def test_claims_without_tables_are_those_of_theory():
    found = {
        "tables": [],
        "groupings": [],
        "phi": geometry.phi_curve(),
        "numerical_range": geometry.numerical_range(),
        "three_lines": geometry.three_lines(),
    }
    assert {claim.where for claim in claims(found)} == {"5.1", "Lemma 4.1", "3.4, Fig. 2", "6"}
    assert len(PAPER_TABLE) == 12
