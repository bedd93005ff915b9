"""Stored models and moments: they come back, across versions, and bad files say what is wrong."""

import io
import json
import pickle
import sys
from pathlib import Path

import cloudpickle
import joblib
import numpy as np
import pytest
import skops.io

from fairpca import FairPCA, GroupMoments
from fairpca.persistence import TRUSTED_TYPES, load_model, save_model

FIXTURES = Path(__file__).parents[1] / "fixtures"
sys.path.insert(0, str(FIXTURES))

from write_v0_1 import rows  # noqa: E402


@pytest.fixture(scope="module")
def fitted():
    X, sex, _ = rows()
    return FairPCA(2).fit(X, sensitive_features=sex), X


def through_joblib(model, path):
    joblib.dump(model, path / "m.joblib")
    return joblib.load(path / "m.joblib")


def through_skops(model, path):
    save_model(path / "m.skops", model)
    return load_model(path / "m.skops").model


ROADS = {
    "pickle": lambda model, _: pickle.loads(pickle.dumps(model)),
    "oldest pickle": lambda model, _: pickle.loads(pickle.dumps(model, protocol=2)),
    "cloudpickle": lambda model, _: pickle.loads(cloudpickle.dumps(model)),
    "joblib": through_joblib,
    "skops": through_skops,
}


@pytest.mark.parametrize("road", ROADS)
def test_every_road_brings_the_model_back(road, fitted, tmp_path):
    model, X = fitted
    again = ROADS[road](model, tmp_path)
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    assert again.certificate_ == model.certificate_
    assert again.get_params() == model.get_params()
    # It can be counted on: the moments travel too.
    _, sex, _ = rows()
    more = again.partial_fit(X, sensitive_features=sex)
    assert more.n_samples_ == 80


@pytest.mark.parametrize("road", ROADS)
def test_a_model_that_has_only_counted_comes_back(road, tmp_path):
    X, sex, _ = rows()
    counting = FairPCA(2).partial_fit(X, sensitive_features=sex)
    again = ROADS[road](counting, tmp_path)
    np.testing.assert_array_equal(again.components_, counting.components_)


def test_a_model_of_version_0_1_is_read():
    saved = load_model(FIXTURES / "model_v0_1.skops")
    X, sex, _ = rows()
    fresh = FairPCA(2).fit(X, sensitive_features=sex)
    assert saved.versions["fairpca"].startswith("0.1")
    assert saved.model.groups_ == ["f", "m"]
    np.testing.assert_allclose(saved.model.transform(X), fresh.transform(X), atol=1e-9)
    np.testing.assert_allclose(saved.model.group_losses_, fresh.group_losses_, rtol=1e-9)
    assert saved.model.certificate_.optimal


def test_moments_of_version_0_1_are_read():
    X, sex, site = rows()
    fresh = GroupMoments.from_array(X, {"sex": sex, "site": site})
    stored = GroupMoments.load(FIXTURES / "moments_v0_1.npz")
    assert stored.labels == fresh.labels
    assert stored.names == ("sex", "site")
    np.testing.assert_allclose(stored.scatter, fresh.scatter, rtol=1e-12, atol=1e-12)
    model = FairPCA(2, group_by="marginal").fit_moments(stored.merge(fresh))
    assert model.n_samples_ == 80


def test_only_listed_types_are_trusted(fitted, tmp_path):
    save_model(tmp_path / "m.skops", fitted[0])
    asked = set(skops.io.get_untrusted_types(file=tmp_path / "m.skops"))
    assert asked == set(TRUSTED_TYPES) & asked
    assert "fairpca.estimator.FairPCA" in asked


class Evil:
    """What a pickle would run on reading."""

    def __reduce__(self):
        return (pytest.fail, ("a file was executed",))


def parts(**changes):
    X, sex, _ = rows()
    moments = GroupMoments.from_array(X, sex)
    header = {"format": 1, "labels": ["f", "m"], "names": ["sensitive_feature"]}
    arrays = {name: getattr(moments, name) for name in ("count", "weight", "mean", "scatter")}
    header.update({k: v for k, v in changes.items() if k in ("format", "labels", "names")})
    arrays["header"] = np.array(json.dumps(header))
    arrays.update({k: v for k, v in changes.items() if k in arrays})
    return {name: value for name, value in arrays.items() if value is not None}


def archive(**changes):
    file = io.BytesIO()
    np.savez(file, **parts(**changes))
    return file.getvalue()


def evil_array():
    file = io.BytesIO()
    np.savez(file, **{**parts(), "mean": np.array([Evil()], dtype=object)})
    return file.getvalue()


BAD = {
    "newer format": (lambda: archive(format=99), "format 99, this version reads up to 2; upgrade"),
    "no scatter": (lambda: archive(scatter=None), "it lacks 'scatter'"),
    "broken header": (lambda: archive(header=np.array("{")), "not a moments file"),
    "header without labels": (lambda: archive(header=np.array('{"format": 1}')), "labels"),
    "a label too many": (lambda: archive(labels=["f", "m", "x"]), "3 groups of 6 features need"),
    "scatter of another size": (lambda: archive(scatter=np.zeros((2, 3, 3))), "scatter has shape"),
    "NaN inside": (lambda: archive(mean=np.full((2, 6), np.nan)), "need finite numbers"),
    "text inside": (lambda: archive(weight=np.array(["a", "b"])), "weight has shape"),
    "cut short": (lambda: archive()[:-300], "not a moments file"),
    "cut to half": (lambda: archive()[: len(archive()) // 2], "not a moments file"),
    "empty": (lambda: b"", "not a moments file"),
    "a pickle": (lambda: pickle.dumps(Evil()), "not a moments file"),
    "a pickle in an array": (evil_array, "not a moments file"),
    "text": (lambda: b"count,weight\n", "not a moments file"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_moments_files_say_why(case, tmp_path):
    make, message = BAD[case]
    path = tmp_path / "m.npz"
    path.write_bytes(make())
    with pytest.raises(ValueError, match=message) as error:
        GroupMoments.load(path)
    assert "m.npz" in str(error.value)


def test_one_array_is_no_moments_file(tmp_path):
    np.save(tmp_path / "m.npy", np.eye(3))
    with pytest.raises(ValueError, match="not a moments file"):
        GroupMoments.load(tmp_path / "m.npy")


def test_missing_file_is_missing(tmp_path):
    with pytest.raises(FileNotFoundError):
        GroupMoments.load(tmp_path / "none.npz")


@pytest.mark.parametrize("keep", [0.1, 0.5, 0.9, 0.99])
def test_a_model_file_cut_anywhere_is_refused(keep, tmp_path):
    data = (FIXTURES / "model_v0_1.skops").read_bytes()
    (tmp_path / "m.skops").write_bytes(data[: int(keep * len(data))])
    with pytest.raises(ValueError, match="not a readable model file"):
        load_model(tmp_path / "m.skops")


def test_one_changed_byte_never_passes_unseen(tmp_path):
    """Every part of both formats carries a checksum; a changed byte is an error, not a model."""
    original = load_model(FIXTURES / "model_v0_1.skops").model.components_
    data = (FIXTURES / "model_v0_1.skops").read_bytes()
    for at in range(0, len(data), len(data) // 40):
        changed = bytearray(data)
        changed[at] ^= 0xFF
        (tmp_path / "m.skops").write_bytes(bytes(changed))
        try:
            found = load_model(tmp_path / "m.skops").model.components_
        except ValueError:
            continue
        np.testing.assert_array_equal(found, original)


def test_a_malicious_pickle_inside_a_model_file_is_not_run(tmp_path):
    content = {"kind": "fairpca model", "format": 1, "model": Evil()}
    (tmp_path / "m.skops").write_bytes(skops.io.dumps(content))
    with pytest.raises(ValueError, match="was refused: it asks for"):
        load_model(tmp_path / "m.skops")
