"""Model files: everything comes back, and nothing else gets in."""

import io
import json
import os
import zipfile

import numpy as np
import pytest
import skops.io
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from fairpca import FairPCA, MaxMinDistanceAnalysis, methods
from fairpca.persistence import load_model, save_model

X = np.random.default_rng(0).normal(size=(80, 4)) * [3, 2, 1, 1]
GROUPS = np.array(["a", "b"] * 40)


@pytest.fixture
def saved(tmp_path):
    """Return a fitted model, and the path of its file."""
    model = FairPCA(2).fit(X, sensitive_features=GROUPS)
    save_model(tmp_path / "m.skops", model, notes={"text": "a note", "rows": np.arange(3)})
    return model, tmp_path / "m.skops"


def test_a_model_comes_back_whole(saved):
    model, path = saved
    again = load_model(path)
    np.testing.assert_array_equal(again.model.transform(X), model.transform(X))
    np.testing.assert_array_equal(again.model.group_losses_, model.group_losses_)
    assert again.model.certificate_ == model.certificate_
    assert again.model.groups_ == model.groups_
    assert again.model.get_params() == model.get_params()
    assert again.notes["text"] == "a note"
    assert again.notes["rows"].tolist() == [0, 1, 2]
    assert again.versions["fairpca"]


@pytest.mark.parametrize(
    "groups",
    [np.arange(80) % 3, [True, False] * 40, {"sex": GROUPS, "city": np.arange(80) % 2}],
)
def test_labels_of_every_kind_come_back(tmp_path, groups):
    model = FairPCA(1).fit(X, sensitive_features=groups)
    save_model(tmp_path / "m.skops", model)
    assert load_model(tmp_path / "m.skops").model.groups_ == model.groups_


def test_pipelines_and_other_estimators_come_back(tmp_path):
    rows = np.hstack([X, np.array([["u"], ["v"]] * 40, dtype=object)])
    numbers = ("numbers", SimpleImputer(), [0, 1, 2, 3])
    columns = ColumnTransformer([numbers, ("text", OneHotEncoder(), [4])])
    pipeline = Pipeline([("columns", columns), ("scale", StandardScaler()), ("fair", FairPCA(2))])
    pipeline.fit(rows, fair__sensitive_features=GROUPS)
    others = methods.BalancedPCA(2).fit(X, sensitive_features=GROUPS)
    apart = MaxMinDistanceAnalysis(1).fit(X, np.arange(80) % 3)
    for model, table in ((pipeline, rows), (others, X), (apart, X)):
        save_model(tmp_path / "m.skops", model)
        again = load_model(tmp_path / "m.skops").model
        np.testing.assert_array_equal(again.transform(table), model.transform(table))


def test_what_was_counted_is_stored_only_when_asked_for(tmp_path):
    model = FairPCA(2).partial_fit(X, sensitive_features=GROUPS)
    sizes = []
    for moments in (False, True):
        save_model(tmp_path / "m.skops", model, moments=moments)
        sizes.append((tmp_path / "m.skops").stat().st_size)
    assert sizes[0] < sizes[1]
    again = load_model(tmp_path / "m.skops").model
    again.partial_fit(X, sensitive_features=GROUPS)
    assert again.n_samples_ == 160


def npy(array):
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def rewritten(path, edit, compression=zipfile.ZIP_STORED):
    """Rewrite the members of a file by a function of their name and content."""
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, data in edit(members).items():
            archive.writestr(name, data)


def holding(members, array):
    """Return the name of the member that holds an array."""
    arrays = {n: np.load(io.BytesIO(d)) for n, d in members.items() if n.endswith(".npy")}
    return next(name for name, found in arrays.items() if np.array_equal(found, array))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda U: U * np.nan, "not finite"),
        (lambda U: U * 7, "not orthonormal"),
        (lambda U: U[:, :3], "shape"),
        (lambda U: U[:1], "shape"),
    ],
)
def test_numbers_that_are_no_model_are_refused(saved, change, said):
    model, path = saved
    U = model.components_
    rewritten(path, lambda m: {**m, holding(m, U): npy(change(U))})
    with pytest.raises(ValueError, match=rf"m\.skops is not a model file.*{said}"):
        load_model(path)


def test_swapped_members_are_refused(saved):
    model, path = saved

    def swap(members):
        one, other = holding(members, model.components_), holding(members, model.mean_)
        return {**members, one: members[other], other: members[one]}

    rewritten(path, swap)
    with pytest.raises(ValueError, match="is not a model file that can be read"):
        load_model(path)


def test_members_that_fill_the_memory_are_not_unpacked(saved):
    _, path = saved
    rewritten(path, lambda m: {**m, "more": b" " * 50_000_000}, zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 10**6
    with pytest.raises(ValueError, match="unpacks to"):
        load_model(path)


def test_a_header_that_claims_terabytes_is_refused(saved):
    model, path = saved
    header = io.BytesIO()
    claim = {"descr": "<f8", "fortran_order": False, "shape": (200_000, 2_000_000)}
    np.lib.format.write_array_header_1_0(header, claim)
    rewritten(path, lambda m: {**m, holding(m, model.components_): header.getvalue()})
    with pytest.raises(ValueError, match="is not a model file that can be read"):
        load_model(path)


@pytest.mark.parametrize("data", [b"", b"PK\x03\x04 and no more", b"no archive at all"])
def test_damaged_files_are_named(tmp_path, data):
    (tmp_path / "m.skops").write_bytes(data)
    with pytest.raises(ValueError, match=r"m\.skops is not a model file"):
        load_model(tmp_path / "m.skops")


class Runs:
    """What a hostile file would like to have run."""

    def __reduce__(self):
        return os.system, ("touch /tmp/this-must-not-exist",)


def test_nothing_in_a_file_is_run(tmp_path):
    skops.io.dump({"kind": "fairpca model 3", "model": Runs()}, tmp_path / "m.skops")
    with pytest.raises(ValueError, match="nothing in it was run"):
        load_model(tmp_path / "m.skops")
    with zipfile.ZipFile(tmp_path / "m.skops") as archive:
        assert "Runs" in json.dumps(json.loads(archive.read("schema.json")))


def test_what_could_not_be_read_back_is_not_written(tmp_path):
    model = FairPCA(1).fit(X, sensitive_features=GROUPS)
    model.groups_ = [Runs(), Runs()]
    with pytest.raises(ValueError, match="FairPCA cannot be saved"):
        save_model(tmp_path / "m.skops", model)
    assert not (tmp_path / "m.skops").exists()
