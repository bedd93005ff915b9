"""Stored models and moments: they come back, across versions, and bad files say what is wrong."""

import datetime
import decimal
import io
import json
import pickle
import sys
import tracemalloc
import zipfile
from pathlib import Path

import cloudpickle
import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
import skops.io
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import VotingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from fairpca import FairPCA, GroupMoments, methods
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
    save_model(path / "m.skops", model, moments=True)
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


def stored(model, path):
    """Return a model as it comes back from a file with the projection alone."""
    save_model(path / "m.skops", model)
    return load_model(path / "m.skops").model


def test_a_model_file_holds_the_projection_and_no_moments(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 60)) * np.linspace(4, 1, 60)
    group = np.arange(400) % 4
    model = FairPCA(2).fit(X, sensitive_features=group)
    again = stored(model, tmp_path)
    small = (tmp_path / "m.skops").stat().st_size
    save_model(tmp_path / "all.skops", model, moments=True)
    assert small + 4 * 60 * 60 * 8 <= (tmp_path / "all.skops").stat().st_size
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    assert again.certificate_ == model.certificate_
    assert again.groups_ == model.groups_
    with pytest.raises(ValueError, match="moments=True"):
        again.partial_fit(X, sensitive_features=group)
    # The model that was saved still has what it had.
    assert model.partial_fit(X, sensitive_features=group).n_samples_ == 800


def test_a_model_that_has_only_counted_is_solved_to_be_stored(tmp_path):
    X, sex, _ = rows()
    again = stored(FairPCA(2).partial_fit(X, sensitive_features=sex), tmp_path)
    fresh = FairPCA(2).fit(X, sensitive_features=sex)
    np.testing.assert_array_equal(again.components_, fresh.components_)
    assert again.n_samples_ == 40


# Few steps: here the number of steps is not the point.
QUICK = {"SPEA2FairPCA": {"max_iter": 3}, "ParetoFairPCA": {"max_iter": 50}}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("name", methods.__all__)
def test_every_published_method_comes_back(name, tmp_path):
    X, sex, _ = rows()
    model = getattr(methods, name)(2, **QUICK.get(name, {})).fit(X, sensitive_features=sex)
    again = stored(model, tmp_path)
    assert type(again) is type(model)
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    assert vars(again).keys() == vars(model).keys()


def test_a_stream_goes_on_after_a_file(tmp_path):
    X, sex, _ = rows()
    model, other = (methods.StreamingFairPCA(2, learning_blocks=1) for _ in range(2))
    for part in (slice(0, 20), slice(20, 40)):
        model.partial_fit(X[part], sensitive_features=sex[part])
        other = stored(other.partial_fit(X[part], sensitive_features=sex[part]), tmp_path)
    np.testing.assert_array_equal(other.components_, model.components_)


def test_a_kernel_comes_back(tmp_path):
    X, sex, _ = rows()
    model = methods.NullSpaceFairPCA(2, kernel="rbf").fit(X, sensitive_features=sex)
    np.testing.assert_array_equal(stored(model, tmp_path).transform(X), model.transform(X))


DAYS = [pd.Timestamp("2020-01-01"), pd.Timestamp("2021-06-01 12:30:00.000001")]
LABELS = {
    "dates": [day.date() for day in DAYS],
    "moments in time": [day.to_pydatetime() for day in DAYS],
    "timestamps": DAYS,
    "timestamps with a zone": [day.tz_localize("UTC") for day in DAYS],
    "datetime64": np.array(DAYS, dtype="datetime64[us]"),
    "durations": [datetime.timedelta(days=1), datetime.timedelta(days=2)],
    "pandas durations": [pd.Timedelta(days=1), pd.Timedelta(days=2)],
    "intervals": list(pd.interval_range(0.0, 2.0, periods=2)),
    "decimals": [decimal.Decimal("1.10"), decimal.Decimal("2")],
    "numbers": [1.5, 2],
    "truths": [False, True],
    "bytes": [b"a", b"b"],
}


@pytest.mark.parametrize("moments", [False, True])
@pytest.mark.parametrize("kind", LABELS)
def test_labels_of_any_kind_come_back(kind, moments, tmp_path):
    X, sex, _ = rows()
    labels = [LABELS[kind][i % 2] for i in range(40)]
    model = FairPCA(2).fit(X, sensitive_features={"when": labels, "sex": sex})
    save_model(tmp_path / "m.skops", model, moments=moments)
    again = load_model(tmp_path / "m.skops").model
    assert again.groups_ == model.groups_
    np.testing.assert_array_equal(again.transform(X), model.transform(X))
    if moments:
        more = again.partial_fit(X, sensitive_features={"when": labels, "sex": sex})
        assert more.group_counts_.tolist() == [2 * count for count in model.group_counts_]


@pytest.mark.parametrize(
    "labels",
    [
        list(pd.period_range("2020-01", periods=2, freq="M")),
        [1 + 2j, 2 + 1j],
        [pd.Timestamp(1), pd.Timestamp(2)],
        [frozenset("a"), frozenset("b")],
    ],
    ids=["periods", "complex", "nanoseconds", "sets"],
)
@pytest.mark.parametrize("moments", [False, True])
def test_what_cannot_come_back_is_refused_when_saving(labels, moments, tmp_path):
    X, _, _ = rows()
    model = FairPCA(2).fit(X, sensitive_features=[labels[i % 2] for i in range(40)])
    with pytest.raises(ValueError, match=r"FairPCA cannot be saved.*group labels"):
        save_model(tmp_path / "m.skops", model, moments=moments)
    assert not list(tmp_path.iterdir())


def test_other_estimators_are_refused_when_saving(tmp_path):
    from sklearn.cluster import KMeans

    class Mine(KMeans):
        pass

    X, _, _ = rows()
    with pytest.raises(ValueError, match="Mine cannot be saved"):
        save_model(tmp_path / "m.skops", Mine(2).fit(X))
    with pytest.raises(ValueError, match="not fitted"):
        save_model(tmp_path / "m.skops", FairPCA(2))


def test_a_model_of_version_0_1_is_read():
    saved = load_model(FIXTURES / "model_v0_1.skops")
    X, sex, _ = rows()
    # That version knew the groups' own means only.
    fresh = FairPCA(2, center="group").fit(X, sensitive_features=sex)
    assert saved.model.get_params() == fresh.get_params()
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


def test_what_a_model_does_not_ask_for_takes_no_memory(fitted, tmp_path):
    save_model(tmp_path / "m.skops", fitted[0])
    with zipfile.ZipFile(tmp_path / "m.skops", "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("more.npy", bytes(50_000_000))
    tracemalloc.start()
    try:
        load_model(tmp_path / "m.skops")
        assert tracemalloc.get_traced_memory()[1] < 10_000_000
    finally:
        tracemalloc.stop()


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


def test_every_damage_is_a_value_error_that_names_the_file(tmp_path):
    data = (FIXTURES / "model_v0_1.skops").read_bytes()
    first = data.index(b"PK\x01\x02")
    path = tmp_path / "m.skops"
    # The directory of the archive: flags, methods, sizes, names and places of its members.
    for at in range(first, first + 100):
        for bit in range(8):
            changed = bytearray(data)
            changed[at] ^= 1 << bit
            path.write_bytes(bytes(changed))
            try:
                load_model(path)
            except ValueError as error:
                assert "m.skops" in str(error)  # noqa: PT017


def test_a_schema_that_describes_nothing_is_named(tmp_path):
    path = tmp_path / "m.skops"
    for text in (b"", b"[]", b"null", b"[" * 100_000, b'{"__loader__": "x"}', b"\xff"):
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("schema.json", text)
        with pytest.raises(ValueError, match=r"m\.skops is not a readable model file"):
            load_model(path)


def test_a_malicious_pickle_inside_a_model_file_is_not_run(tmp_path):
    content = {"kind": "fairpca model", "format": 1, "model": Evil()}
    (tmp_path / "m.skops").write_bytes(skops.io.dumps(content))
    with pytest.raises(ValueError, match="was refused: it asks for"):
        load_model(tmp_path / "m.skops")


def test_a_pipeline_that_routes_labels_is_stored(tmp_path):
    X, group = np.random.default_rng(0).normal(size=(300, 4)), ["a", "b"] * 150
    reducer = FairPCA(2, shrinkage=0.5)
    with sklearn.config_context(enable_metadata_routing=True):
        reducer.set_fit_request(sensitive_features=True)
        pipeline = make_pipeline(StandardScaler(), reducer).fit(X, sensitive_features=group)
    save_model(tmp_path / "pipeline.skops", pipeline)
    stored = load_model(tmp_path / "pipeline.skops").model
    np.testing.assert_array_equal(stored.transform(X), pipeline.transform(X))


def test_what_holds_models_in_other_ways_is_refused_by_its_type(tmp_path):
    """It was refused for the depth of a recursion, and labels were to be written as text."""
    X, group = np.random.default_rng(0).normal(size=(60, 4)), np.array(["a", "b"] * 30)
    with sklearn.config_context(enable_metadata_routing=True):
        reducer = FairPCA(2).set_fit_request(sensitive_features=True)
        one = make_pipeline(reducer, LogisticRegression())
        wholes = {
            "Bunch": VotingClassifier([("one", one)]),
            "_CalibratedClassifier": CalibratedClassifierCV(one, cv=2),
            "_PassthroughScorer": GridSearchCV(one, {"fairpca__n_components": [1, 2]}, cv=2),
        }
        for kind, model in wholes.items():
            model.fit(X, X[:, 0] > 0, sensitive_features=group)
            with pytest.raises(ValueError, match=rf"save best_estimator_ .*joblib .*\.{kind}\b"):
                save_model(tmp_path / "m.skops", model)
    save_model(tmp_path / "m.skops", model.best_estimator_)
    again = load_model(tmp_path / "m.skops").model
    np.testing.assert_array_equal(again.predict(X), model.predict(X))


def test_a_pipeline_holds_no_moments_either(tmp_path):
    X, group = np.random.default_rng(0).normal(size=(300, 4)), ["a", "b"] * 150
    pipeline = make_pipeline(StandardScaler(), FairPCA(2))
    pipeline.fit(X, fairpca__sensitive_features=group)
    wanted = pipeline.transform(X)
    for moments in (False, True):
        save_model(tmp_path / "pipeline.skops", pipeline, moments=moments)
        stored = load_model(tmp_path / "pipeline.skops").model
        assert (stored[-1]._moments is not None) == moments
        np.testing.assert_array_equal(stored.transform(X), wanted)
    assert pipeline[-1]._moments is not None
