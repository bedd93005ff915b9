"""The loaders on the published files and on small stand-ins for those that are not at hand."""

import hashlib
import http.server
import io
import threading
import zipfile

import numpy as np
import pandas as pd
import pytest

from fairpca import FairPCA
from fairpca.datasets import (
    DataUnavailableError,
    fetch_adult,
    fetch_bank_marketing,
    fetch_compas,
    fetch_credit_default,
    fetch_crop_mapping,
    fetch_hapmap3,
    fetch_law_school,
    fetch_lfw_faces,
    load_japanese_vowels,
    loading,
    pixels,
)

from data_dir import data_path, reference

PUBLISHED = {
    fetch_bank_marketing: ("bank.csv", (45211, 15), {"65 or older": 810, "under 65": 44401}),
    fetch_credit_default: (
        "default_degree.csv",
        (30000, 22),
        {"graduate school": 10585, "high school": 4917, "other": 468, "university": 14030},
    ),
    fetch_law_school: ("law_school.csv", (20798, 10), {"Non-White": 3307, "White": 17491}),
    fetch_lfw_faces: ("lfw.npz", (13232, 1764), {"female": 2962, "male": 10270}),
}


@pytest.fixture(autouse=True)
def home(monkeypatch, request):
    """The folder of published files, as users name it."""
    if "tmp_path" not in request.fixturenames:
        monkeypatch.setenv(loading.ENVIRONMENT, str(data_path("bank.csv").parent))


@pytest.mark.parametrize("fetch", PUBLISHED)
def test_published_tables(fetch):
    name, shape, groups = PUBLISHED[fetch]
    data_path(name)
    bunch = fetch(download_if_missing=False)
    assert bunch.data.shape == shape
    assert bunch.data.flags.c_contiguous
    labels, counts = np.unique(bunch.sensitive_features, return_counts=True)
    assert dict(zip(labels, counts, strict=True)) == groups
    assert len(set(bunch.feature_names)) == shape[1]
    assert "questionable" in bunch.DESCR
    assert "Parameters" not in bunch.DESCR
    # Neither the group nor the target is a feature.
    told = {*bunch.sensitive_names, bunch.target_names[0]}
    assert not told & {feature.lower().partition("=")[0] for feature in bunch.feature_names}


@pytest.mark.parametrize(
    ("key", "fetch", "r"),
    [("BM", fetch_bank_marketing, 10), ("DCC", fetch_credit_default, 5)],
)
def test_paper_variant_gives_the_reference_numbers(key, fetch, r):
    table = reference("two_groups.json")[key]
    bunch = fetch(variant="paper")
    assert bunch.data.shape == (table["m_A"] + table["m_B"], table["n"])
    assert (bunch.sensitive_features == "A").sum() == table["m_A"]
    model = FairPCA(r, center="group")
    model.fit(bunch.data, sensitive_features=bunch.sensitive_features)
    assert model.certificate_.value == pytest.approx(table["r"][str(r)]["phi_star"], rel=1e-12)
    assert np.array_equal(bunch.data[:, -1] > 0, bunch.target == 1)


def test_frames_and_several_groupings():
    frame = fetch_credit_default(as_frame=True, sensitive=("education", "sex"))
    assert list(frame.data.columns) == frame.feature_names
    assert list(frame.sensitive_features.columns) == ["education", "sex"]
    assert frame.frame.shape == (30000, 22)
    assert frame.target.name == "default payment next month"
    plain = fetch_credit_default(sensitive=("education", "sex"))
    np.testing.assert_array_equal(plain.sensitive_features, frame.sensitive_features)
    assert fetch_credit_default(sensitive=None).data.shape == (30000, 23)
    assert "sex=male" not in fetch_law_school(sensitive="sex").feature_names
    for wrong, match in [
        ({"sensitive": "colour"}, "sensitive='colour'"),
        ({"variant": "raw"}, "variant='raw'"),
    ]:
        with pytest.raises(ValueError, match=match):
            fetch_credit_default(**wrong)


def test_rows_of_a_picture_are_its_neighbours():
    images = fetch_lfw_faces().images[::97]
    vertical, horizontal = (np.abs(np.diff(images, axis=axis)).mean() for axis in (1, 2))
    wrong = np.abs(np.diff(images.reshape(-1, 42, 42), axis=1)).mean()
    assert max(vertical, horizontal) < 0.5 * wrong


def test_genotypes_show_the_continents():
    data_path("hapmap3")
    people = fetch_hapmap3()
    assert people.data.shape == people.genotypes.shape == (957, 14079)
    assert set(np.unique(people.genotypes)) == {-127, 0, 1, 2}
    assert (people.genotypes < 0).mean() < 0.01
    np.testing.assert_allclose(people.data.mean(axis=0), 0, atol=1e-2)
    assert people.data.std() == pytest.approx(1, abs=0.1)
    # The first axis of a PCA: everybody of African descent on one side, everybody else beyond.
    some = people.data[::3]
    first = np.linalg.eigh(some @ some.T)[1][:, -1]
    african = np.isin(people.sensitive_features[::3], ["YRI", "LWK", "MKK", "ASW"])
    gaps = (
        first[african].min() - first[~african].max(),
        first[~african].min() - first[african].max(),
    )
    assert max(gaps) > 0


def test_the_voices_come_with_the_package(monkeypatch):
    monkeypatch.delenv(loading.ENVIRONMENT)
    voices = load_japanese_vowels()
    assert voices.data.shape == (9961, 12)
    assert np.all(np.diff(voices.utterance) >= 0)
    assert len(set(zip(voices.utterance, voices.sensitive_features, strict=True))) == 640
    assert (pd.Series(voices.utterance).value_counts().between(7, 29)).all()
    assert "CC BY 4.0" in voices.DESCR


# Tables that are not at hand: the readers on stand-ins


def zipped(members):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return content.getvalue()


def test_crop_from_an_archive_in_an_archive(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    label = rng.permutation(np.repeat(np.arange(1, 8), 9))
    values = rng.normal(size=(63, 174)).round(4)
    text = pd.DataFrame(values).set_axis([f"f{j}" for j in range(1, 175)], axis=1)
    text.insert(0, "label", label)
    inner = zipped({"WinnipegDataset.txt": text.to_csv(index=False)})
    (tmp_path / pixels._CROP_ARCHIVE).write_bytes(zipped({"data.zip": inner}))
    with pytest.raises(ValueError, match=r"published table \(its shape is \(63, 175\) instead"):
        fetch_crop_mapping(data_home=tmp_path)
    monkeypatch.setattr(pixels, "_CROP_SHAPE", (63, 175))
    plain = fetch_crop_mapping(data_home=tmp_path, sensitive="crop")
    np.testing.assert_array_equal(plain.data, values)
    assert plain.sensitive_features.tolist() == [pixels.CROPS[i - 1] for i in label]
    paper = fetch_crop_mapping(data_home=tmp_path, variant="paper")
    assert paper.data.shape == (63, 173)
    assert (paper.sensitive_features == "A").sum() == 9
    np.testing.assert_allclose(paper.data.std(axis=0, ddof=1), 1)


def test_faces_from_the_archive_of_text_files(tmp_path, monkeypatch):
    x3 = np.random.default_rng(0).integers(0, 766, size=(5, 1764))
    lines = ("\n".join(f"{v / 3:.6f}" for v in row) for row in x3)
    members = {f"data/images/img{i}.txt": text for i, text in enumerate(lines)}
    (tmp_path / "fair-pca-data.zip").write_bytes(zipped({**members, "sex.txt": "0\n1\n1\n0\n1\n"}))
    monkeypatch.setattr(pixels, "_PICTURES", 5)
    for kept in ("fair-pca-data.zip", "lfw.npz"):
        bunch = fetch_lfw_faces(data_home=tmp_path, variant="paper")
        assert bunch.filename.endswith(kept)
        np.testing.assert_allclose(bunch.data, x3 / 765)
        assert bunch.sensitive_features.tolist() == ["A", "B", "B", "A", "B"]


def test_adult_as_openml_has_it(tmp_path, monkeypatch):
    rng, m = np.random.default_rng(0), 60
    levels = {
        "sex": ["Male", "Female"],
        "race": ["White", "Black"],
        "workclass": ["Private", None],
    }
    names = "marital-status occupation relationship native-country education".split()
    frame = pd.DataFrame({n: pd.Categorical(rng.choice(v, m)) for n, v in levels.items()})
    frame[names] = "one"
    for name in "age fnlwgt education-num capital-gain capital-loss hours-per-week".split():
        frame[name] = rng.integers(1, 90, m)
    target = pd.Series(rng.choice([">50K", "<=50K"], m), name="class", dtype="category")
    found = loading.Bunch(data=frame, target=target)
    monkeypatch.setattr("sklearn.datasets.fetch_openml", lambda *a, **k: found)
    bunch = fetch_adult(data_home=tmp_path, as_frame=True)
    assert {"race=White", "workclass=?"} <= set(bunch.feature_names)
    assert not [n for n in bunch.feature_names if n.startswith(("sex", "fnlwgt", "education="))]
    assert np.array_equal(bunch.target == 1, target == ">50K")
    np.testing.assert_array_equal(bunch.sample_weight, frame["fnlwgt"])


def test_compas_after_the_filter_of_propublica(tmp_path):
    row = dict(sex="Male", race="Other", c_charge_degree="F", two_year_recid=1, is_recid=1)
    row |= dict(days_b_screening_arrest=3, score_text="Low", age=30, juv_fel_count=0)
    row |= dict(juv_misd_count=0, juv_other_count=0, priors_count=2)
    out = [{"days_b_screening_arrest": 31}, {"is_recid": -1}, {"c_charge_degree": "O"}]
    rows = [row, {**row, "sex": "Female", "race": "Caucasian"}]
    rows += [{**row, **change} for change in (*out, {"score_text": "N/A"})]
    pd.DataFrame(rows).to_csv(tmp_path / "compas-scores-two-years.csv", index=False)
    bunch = fetch_compas(data_home=tmp_path)
    assert bunch.sensitive_features.tolist() == ["Other", "Caucasian"]
    assert bunch.feature_names[-2:] == ["felony", "sex=Male"]


@pytest.mark.parametrize(
    ("fetch", "name", "content"),
    [
        (fetch_bank_marketing, "bank.csv", b"1,2,3\n4,5,6\n"),
        (fetch_credit_default, "default_degree.csv", b"\xff\xfe"),
        (fetch_law_school, "law_school.csv", b""),
        (fetch_compas, "compas-scores-two-years.csv", b"a,b\n1,2\n"),
        (fetch_lfw_faces, "lfw.npz", b"PK"),
        (fetch_lfw_faces, "fair-pca-data.zip", zipped({"other.txt": ""})),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_another_file_is_named(tmp_path, fetch, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=f"{name} is not the published table .*remove it"):
        fetch(data_home=tmp_path)


# Downloads


def test_a_download_is_verified_and_kept(tmp_path, monkeypatch):
    content = b"1,2\n3,4\n"

    class Server(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Server) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url, good = f"http://127.0.0.1:{server.server_port}/x", hashlib.sha256(content).hexdigest()
        with pytest.raises(DataUnavailableError, match="hash of downloaded file"):
            loading.obtain("t.csv", url, "0" * 64, tmp_path, True)
        assert not list(tmp_path.iterdir())
        path = loading.obtain(["other.csv", "t.csv"], url, good, tmp_path / "new", True)
        assert path.read_bytes() == content
        server.shutdown()
    monkeypatch.setenv(loading.ENVIRONMENT, str(tmp_path / "new"))
    assert loading.obtain("t.csv", url, good, None, True) == path


def test_without_a_file_the_message_says_what_to_put_where(tmp_path, monkeypatch):
    with pytest.raises(DataUnavailableError, match=r"has no bank\.csv, .*https:.*FAIRPCA_DATA"):
        fetch_bank_marketing(data_home=tmp_path, download_if_missing=False)
    with pytest.raises(DataUnavailableError, match="1590"):
        fetch_adult(data_home=tmp_path, download_if_missing=False)
    monkeypatch.delenv(loading.ENVIRONMENT, raising=False)
    assert loading.resolve_home().name == "fairpca"
