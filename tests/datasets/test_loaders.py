"""The loaders on the published files and on small stand-ins for those that are not at hand."""

import io
import sys
import warnings
import zipfile

import numpy as np
import pytest

from fairpca import FairPCA
from fairpca.datasets import (
    fetch_adult,
    fetch_bank_marketing,
    fetch_compas,
    fetch_credit_default,
    fetch_crop_mapping,
    fetch_lfw_faces,
    people,
    pixels,
)
from fairpca.datasets.cache import ENVIRONMENT

from data_dir import data_path, reference


@pytest.fixture
def home(monkeypatch):
    """The directory of published files, as users name it."""
    folder = data_path("bank.csv").parent
    monkeypatch.setenv(ENVIRONMENT, str(folder))
    return folder


def zipped(**members):
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        for name, data in members.items():
            archive.writestr(name.replace("__", "."), data)
    return content.getvalue()


# The paper's matrices


@pytest.mark.parametrize(
    ("key", "fetch", "r"),
    [("BM", fetch_bank_marketing, 10), ("DCC", fetch_credit_default, 5)],
)
def test_paper_variant_gives_the_reference_numbers(home, key, fetch, r):
    table = reference("two_groups.json")[key]
    bunch = fetch(variant="paper")
    assert bunch.data.shape == (table["m_A"] + table["m_B"], table["n"])
    in_a = bunch.sensitive_features == "A"
    assert in_a.sum() == table["m_A"]
    np.testing.assert_allclose(bunch.data.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(bunch.data.std(axis=0, ddof=1), 1)
    model = FairPCA(r, center="group")
    model.fit(bunch.data, sensitive_features=bunch.sensitive_features)
    expected = table["r"][str(r)]
    assert model.certificate_.value == pytest.approx(expected["phi_star"], rel=1e-12)
    assert model.group_weights_[0] == pytest.approx(expected["t_star"], abs=1e-11)
    # The label is the last feature, and is also the target.
    label = bunch.data[:, -1] > 0
    assert np.array_equal(label, bunch.target == 1)


def test_faces_of_the_paper(home):
    table = reference("two_groups.json")["LFW"]
    bunch = fetch_lfw_faces(variant="paper")
    assert bunch.data.shape == (table["m_A"] + table["m_B"], table["n"])
    assert (bunch.sensitive_features == "A").sum() == table["m_A"]
    assert bunch.group_meaning == {"A": "female", "B": "male"}
    assert 0 <= bunch.data.min() < bunch.data.max() <= 1
    assert bunch.target is None
    assert np.shares_memory(bunch.images, bunch.data)
    # Neighbours in a picture resemble each other; with rows of 42 pixels they would not.
    some = bunch.images[::97]
    vertical = np.abs(np.diff(some, axis=1)).mean()
    horizontal = np.abs(np.diff(some, axis=2)).mean()
    wrong = np.abs(np.diff(bunch.data[::97].reshape(-1, 42, 42), axis=1)).mean()
    assert max(vertical, horizontal) < 0.5 * wrong


def test_compas_splits(home):
    bunch = fetch_compas(variant="splits")
    other = fetch_compas(variant="splits", split=9, subset="test")
    assert bunch.data.shape == (1727, 11)
    assert other.data.shape == (741, 11)
    np.testing.assert_allclose(bunch.data.mean(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(bunch.data.std(axis=0), 1)
    race = bunch.data[:, bunch.feature_names.index("race")]
    assert set(bunch.sensitive_features[race > 0]) == {"Caucasian"}
    assert set(bunch.target) == {0, 1}
    with pytest.raises(ValueError, match="split=10"):
        fetch_compas(variant="splits", split=10)


def test_compas_splits_from_the_published_text_files(home, tmp_path):
    with np.load(home / "compas_splits.npz") as file:
        values = file["test_3"]
    (tmp_path / "compas_splits").mkdir()
    np.savetxt(tmp_path / "compas_splits" / "test_3.csv", values, delimiter=",")
    bunch = fetch_compas(variant="splits", split=3, subset="test", data_home=tmp_path)
    assert np.array_equal(bunch.data, values[:, :-2])
    values[7, 5] += 1
    np.savetxt(tmp_path / "compas_splits" / "test_3.csv", values, delimiter=",")
    with pytest.raises(ValueError, match="some values of test_3 differ"):
        fetch_compas(variant="splits", split=3, subset="test", data_home=tmp_path)


# Every loader's face


CALLS = {
    "bank": (fetch_bank_marketing, {}, 15, {"65 or older", "under 65"}),
    "credit": (
        fetch_credit_default,
        {},
        22,
        {"graduate school", "university", "high school", "other"},
    ),
    "credit by sex": (fetch_credit_default, {"sensitive": "sex"}, 22, {"female", "male"}),
    "faces": (fetch_lfw_faces, {}, 1764, {"female", "male"}),
}


@pytest.mark.parametrize("name", CALLS)
def test_default_drops_label_and_group_column(home, name):
    fetch, kwargs, n, groups = CALLS[name]
    bunch = fetch(**kwargs)
    assert bunch.data.shape[1] == n == len(bunch.feature_names) == len(set(bunch.feature_names))
    assert bunch.data.dtype == np.float64
    assert set(bunch.sensitive_features) == groups
    assert len(bunch.sensitive_features) == len(bunch.data)
    assert "questionable" in bunch.DESCR
    assert "Parameters" not in bunch.DESCR
    assert bunch.target_names[0] not in bunch.feature_names
    gone = {"age", "education", "sex"} & {s.lower() for s in bunch.sensitive_names}
    assert not gone & {feature.lower() for feature in bunch.feature_names}


def test_conveniences(home):
    X, y = fetch_credit_default(return_X_y=True)
    assert X.shape == (30000, 22)
    assert y.sum() == 6636
    frame = fetch_credit_default(as_frame=True, sensitive=("education", "sex"))
    assert list(frame.data.columns) == frame.feature_names
    assert list(frame.sensitive_features.columns) == ["education", "sex"]
    assert frame.frame.shape == (30000, 22)
    assert frame.target.name == "default payment next month"
    plain = fetch_credit_default(sensitive=("education", "sex"))
    assert plain.sensitive_features.shape == (30000, 2)
    # As pandas has text.
    assert plain.sensitive_features.dtype == object
    none = fetch_credit_default(sensitive=None)
    assert none.sensitive_features is None
    assert none.data.shape[1] == 23
    with pytest.raises(ValueError, match="sensitive='colour'"):
        fetch_credit_default(sensitive="colour")
    with pytest.raises(ValueError, match="variant='raw'"):
        fetch_credit_default(variant="raw")


def test_several_groupings_fit(home):
    bunch = fetch_bank_marketing(sensitive="marital", as_frame=True)
    assert set(bunch.sensitive_features) == {"married", "single", "divorced"}
    assert "age" in bunch.data.columns
    assert "marital" not in bunch.data.columns
    single = (bunch.sensitive_features == "single").to_numpy()
    model = FairPCA(3).fit(bunch.data, sensitive_features=np.where(single, "single", "other"))
    assert list(model.feature_names_in_) == bunch.feature_names


def test_overlapping_face_labels(home):
    bunch = fetch_lfw_faces(sensitive=("white", "black", "asian"))
    assert bunch.sensitive_names == ["white", "black", "asian"]
    assert (bunch.sensitive_features == "black").any(axis=0).tolist() == [False, True, False]


# Other layouts of the same tables


def uci_bank(codes):
    """Write the coded table as UCI writes it."""
    lines = [";".join(f'"{name}"' for name in people._BANK_NAMES)]
    for row in codes:
        cells = []
        for name, code in zip(people._BANK_NAMES, row, strict=True):
            if name in people._YES_NO:
                cells.append(f'"{("no", "yes")[code]}"')
            elif name in people._BANK_LEVELS:
                cells.append(f'"{people._BANK_LEVELS[name][code - 1]}"')
            else:
                cells.append(str(code))
        lines.append(";".join(cells))
    return ("\n".join(lines) + "\n").encode()


def test_bank_as_uci_packs_it(home, tmp_path):
    codes = np.loadtxt(home / "bank.csv", delimiter=",", dtype=int)
    text = uci_bank(codes)
    inner = io.BytesIO()
    with zipfile.ZipFile(inner, "w") as archive:
        archive.writestr("bank-full.csv", text)
        archive.writestr("bank.csv", "the sample")
    outer = io.BytesIO()
    with zipfile.ZipFile(outer, "w") as archive:
        archive.writestr("bank.zip", inner.getvalue())
        archive.writestr("bank-additional.zip", b"")
    expected = fetch_bank_marketing(variant="paper").data
    for name, content in (
        ("bank+marketing.zip", outer.getvalue()),
        ("bank.zip", inner.getvalue()),
        ("bank-full.csv", text),
    ):
        folder = tmp_path / name.replace(".", "_")
        folder.mkdir()
        (folder / name).write_bytes(content)
        assert np.array_equal(
            fetch_bank_marketing(variant="paper", data_home=folder).data, expected
        )


def test_the_ten_percent_sample_is_recognised(home, tmp_path):
    codes = np.loadtxt(home / "bank.csv", delimiter=",", dtype=int, max_rows=4521)
    (tmp_path / "bank.csv").write_bytes(uci_bank(codes))
    with pytest.raises(ValueError, match=r"10 % sample.*bank-full\.csv"):
        fetch_bank_marketing(data_home=tmp_path)


def test_unknown_levels_are_named(home, tmp_path):
    codes = np.loadtxt(home / "bank.csv", delimiter=",", dtype=int, max_rows=50)
    (tmp_path / "bank-full.csv").write_bytes(uci_bank(codes).replace(b"management", b"manager"))
    with pytest.raises(ValueError, match="'job' has the unknown value"):
        fetch_bank_marketing(data_home=tmp_path)


def test_credit_with_the_original_names(home, tmp_path):
    lines = (home / "default_degree.csv").read_text().splitlines()[1:]
    header = lines[0].replace("PAY_1,", "PAY_0,").replace("default payment", "default.payment")
    header = header.replace(" next month", ".next.month")
    # LIMIT_BAL first, as in the spreadsheet, and decimals as some copies write them.
    table = np.loadtxt(lines[1:], delimiter=",")
    order = [0, 3, 2, 1, *range(4, 25)]
    names = np.array(header.split(","))[order]
    with open(tmp_path / "UCI_Credit_Card.csv", "w") as file:
        file.write(",".join(names) + "\n")
        np.savetxt(file, table[:, order], delimiter=",", fmt="%.1f")
    expected = fetch_credit_default(variant="paper").data
    found = fetch_credit_default(variant="paper", data_home=tmp_path)
    assert np.array_equal(found.data, expected)


def test_a_missing_value_is_no_number(home, tmp_path):
    """It was loaded as -9223372036854775808."""
    text = (home / "default_degree.csv").read_text()
    (tmp_path / "default_degree.csv").write_text(text.replace("20000", "nan", 1))
    with pytest.raises(ValueError, match=r"default_degree\.csv: it has missing values"):
        fetch_credit_default(data_home=tmp_path)


def test_a_changed_value_warns(home, tmp_path):
    codes = np.loadtxt(home / "bank.csv", delimiter=",", dtype=int)
    codes[17, 5] += 1
    np.savetxt(tmp_path / "bank.csv", codes, delimiter=",", fmt="%d")
    with pytest.warns(UserWarning, match="some values differ") as caught:
        fetch_bank_marketing(data_home=tmp_path)
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("fetch", "name", "content", "message"),
    [
        (
            fetch_bank_marketing,
            "bank.csv",
            b"1,2,3\n4,5,6\n",
            r"shape is \(2, 3\) instead of \(45211, 17\)",
        ),
        (fetch_bank_marketing, "bank.zip", zipped(other__txt=b""), "no bank-full.csv"),
        (fetch_credit_default, "default_degree.csv", b"a,b\n1,2\n3,4\n", "no column EDUCATION"),
        (fetch_crop_mapping, "crop.csv", b"1,2,3\n1,2,4\n", "3 columns instead of"),
        (fetch_adult, "adult.zip", zipped(other__txt=b""), "no adult.data"),
        (fetch_adult, "adult.data", b"", r"adult.test must lie beside it"),
        (fetch_compas, "compas-scores-two-years.csv", b"a,b\n1,2\n", "no column age"),
        (fetch_lfw_faces, "fair-pca-data.zip", zipped(other__txt=b""), "no sex.txt"),
        # Errors of other libraries named neither the file nor a way out.
        (fetch_credit_default, "default_degree.csv", b"", "no column EDUCATION"),
        (
            fetch_credit_default,
            "default_degree.csv",
            b"\xff\xfe",
            "not the table .*remove it",
        ),
        (fetch_bank_marketing, "bank.zip", b"PK", r"bank.zip is not the table that fetch_bank"),
        (fetch_lfw_faces, "lfw.npz", b"", r"lfw.npz is not the table that fetch_lfw_faces reads"),
        (fetch_crop_mapping, "crop.csv", b"", "crop.csv is not the table"),
    ],
    # An archive holds the time it was made; in a test's name it would differ between processes.
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_a_wrong_file_is_described(tmp_path, fetch, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=message):
        fetch(data_home=tmp_path)


# Tables that are not at hand: the readers on stand-ins of the right shape


def test_crop_reader_on_real_rows(home):
    rows = pixels.read_crop_rows(home / "crop_mapping_sample.csv")
    assert rows.shape == (902, 175)
    assert set(rows[:, 0]) == {7}
    assert np.isfinite(rows).all()


def test_crop_from_an_archive_with_a_header(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    counts = (30, 3, 4, 5, 6, 7, 8)
    label = rng.permutation(np.repeat(np.arange(1, 8), counts))
    values = rng.normal(size=(len(label), 174)).round(4)
    header = "label," + ",".join(f"f{j}" for j in range(1, 175))
    text = io.StringIO()
    np.savetxt(text, np.column_stack([label, values]), delimiter=",", header=header, comments="")
    name = pixels._CROP.remotes[0].name
    inner = zipped(WinnipegDataset__txt=text.getvalue())
    (tmp_path / name).write_bytes(zipped(inner__zip=inner))
    with pytest.raises(ValueError, match="63 rows instead of 325834"):
        fetch_crop_mapping(data_home=tmp_path)
    monkeypatch.setattr(pixels, "_COUNTS", counts)
    plain = fetch_crop_mapping(data_home=tmp_path)
    np.testing.assert_allclose(plain.data, values)
    assert (plain.sensitive_features == "corn").sum() == 30
    seven = fetch_crop_mapping(data_home=tmp_path, sensitive="crop")
    assert set(seven.sensitive_features) == set(pixels.CROPS)
    paper = fetch_crop_mapping(data_home=tmp_path, variant="paper")
    assert paper.data.shape == (63, 173)
    assert (paper.sensitive_features == "A").sum() == 30
    np.testing.assert_allclose(paper.data.std(axis=0, ddof=1), 1)


def test_faces_from_the_archive_of_text_files(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    x3 = rng.integers(0, 766, size=(5, 1764))
    members = {
        f"data/images/img{i}.txt": "\n".join(f"{v / 3:.6f}" for v in row)
        for i, row in enumerate(x3)
    }
    members["data/images/sex.txt"] = "0\n1\n1\n0\n1\n"
    (tmp_path / "fair-pca-data.zip").write_bytes(zipped(**members))
    monkeypatch.setattr(pixels, "_PICTURES", 5)
    monkeypatch.setattr(pixels, "_DIGEST", _digest(x3))
    bunch = fetch_lfw_faces(data_home=tmp_path)
    np.testing.assert_allclose(bunch.data, x3 / 765)
    assert bunch.sensitive_features.tolist() == ["female", "male", "male", "female", "male"]
    # Read once, then kept in the small form.
    again = fetch_lfw_faces(data_home=tmp_path)
    assert again.filename.endswith("lfw.npz")
    assert np.array_equal(again.data, bunch.data)
    with pytest.raises(ValueError, match="sensitive='black'"):
        fetch_lfw_faces(data_home=tmp_path, sensitive="black")


def _digest(x3):
    from fairpca.datasets.loading import digest

    return digest(x3.astype(np.uint16), np.array([0, 1, 1, 0, 1], dtype=np.int8))


def fake_adult(rows, rng, *, test):
    levels = {
        "workclass": ["Private", "?"],
        "education": ["HS-grad"],
        "marital-status": ["Divorced"],
        "occupation": ["Sales", "?"],
        "relationship": ["Wife", "Husband"],
        "race": ["White", "Black", "Other"],
        "sex": ["Male", "Female"],
        "native-country": ["Portugal"],
        "income": [">50K.", "<=50K."] if test else [">50K", "<=50K"],
    }
    columns = [
        rng.choice(levels[name], rows) if name in levels else rng.integers(1, 90, rows).astype(str)
        for name in people._ADULT_NAMES
    ]
    lines = [", ".join(row) for row in zip(*columns, strict=True)]
    start = "|1x3 Cross validator\n" if test else ""
    return start + "\n".join(lines) + "\n\n"


def test_adult_reader(tmp_path, monkeypatch):
    monkeypatch.setattr(people, "_ADULT_ROWS", {"adult.data": 40, "adult.test": 20})
    rng = np.random.default_rng(0)
    files = {
        "adult.data": fake_adult(40, rng, test=False),
        "adult.test": fake_adult(20, rng, test=True),
    }
    (tmp_path / "adult.zip").write_bytes(zipped(**files))
    bunch = fetch_adult(data_home=tmp_path, as_frame=True)
    assert bunch.data.shape[0] == 60
    assert set(bunch.sensitive_features) == {"Male", "Female"}
    assert not [name for name in bunch.feature_names if name.startswith("sex")]
    assert "race=White" in bunch.feature_names
    assert "workclass=?" in bunch.feature_names
    assert bunch.sample_weight.shape == (60,)
    assert set(bunch.target) == {0, 1}
    by_race = fetch_adult(data_home=tmp_path, sensitive="race")
    assert not [name for name in by_race.feature_names if name.startswith("race")]
    for name, text in files.items():
        (tmp_path / "plain").mkdir(exist_ok=True)
        (tmp_path / "plain" / name).write_text(text)
    beside = fetch_adult(data_home=tmp_path / "plain")
    assert np.array_equal(beside.data, bunch.data)
    with pytest.raises(ValueError, match="SHA-256"):
        people._check_adult(tmp_path / "adult.zip")


def test_compas_reader(tmp_path):
    rng = np.random.default_rng(0)
    m = 7214
    columns = {
        "sex": rng.choice(["Male", "Female"], m),
        "age": rng.integers(18, 90, m),
        "race": rng.choice(["African-American", "Caucasian", "Other"], m),
        "juv_fel_count": rng.integers(0, 3, m),
        "juv_misd_count": rng.integers(0, 3, m),
        "juv_other_count": rng.integers(0, 3, m),
        "priors_count": rng.integers(0, 30, m),
        "days_b_screening_arrest": rng.choice(["-1", "400", ""], m),
        "c_charge_degree": rng.choice(["F", "M", "O"], m),
        "is_recid": rng.choice([0, 1, -1], m),
        "score_text": rng.choice(["Low", "N/A"], m),
        "two_year_recid": rng.integers(0, 2, m),
    }
    path = tmp_path / people._COMPAS.remotes[0].name
    rows = zip(*columns.values(), strict=True)
    lines = [",".join(columns), *(",".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n")
    keep = (
        (columns["days_b_screening_arrest"] == "-1")
        & (columns["c_charge_degree"] != "O")
        & (columns["is_recid"] != -1)
        & (columns["score_text"] == "Low")
    )
    bunch = fetch_compas(data_home=tmp_path)
    assert len(bunch.data) == keep.sum()
    assert np.array_equal(bunch.sensitive_features, columns["race"][keep])
    assert bunch.feature_names[-1] == "sex=Male"
    assert np.array_equal(bunch.target, columns["two_year_recid"][keep])


def test_missing_pandas_names_the_extra(home, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    fetch_bank_marketing()  # plain numbers need no pandas
    with pytest.raises(ImportError, match=r'pip install "\.\[data\]"'):
        fetch_bank_marketing(as_frame=True)


def test_published_files_load_without_a_warning(home):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fetch_bank_marketing()
        fetch_credit_default()
