"""Model files: everything comes back, and nothing else gets in."""

import io
import json
import os
import zipfile

import numpy as np
import pandas as pd
import pytest
import skops.io
from fairpca.io.preparation import prepare
from sklearn.decomposition import PCA

from fairpca import FairPCA
from fairpca.persistence import TRUSTED_TYPES, load_model, save_model


@pytest.fixture
def model(frame):
    X = frame[["v0", "v1", "v2", "v3"]].to_numpy()
    return FairPCA(2).fit(X, sensitive_features=frame["sex"]), X


def test_a_model_comes_back_whole(model, tmp_path, frame):
    fitted, X = model
    preparation, _ = prepare(frame, columns=["v0", "v1", "v2", "v3"])
    names = {"sex": {"f": "women"}}
    kept = {"preparation": preparation, "notes": ("a note",), "label_names": names}
    save_model(tmp_path / "m.skops", fitted, **kept)
    saved = load_model(tmp_path / "m.skops")
    assert saved.label_names == names
    np.testing.assert_array_equal(saved.model.transform(X), fitted.transform(X))
    np.testing.assert_array_equal(saved.model.group_losses_, fitted.group_losses_)
    assert saved.model.certificate_ == fitted.certificate_
    assert saved.model.groups_ == fitted.groups_
    assert saved.preparation == preparation
    assert saved.notes == ("a note",)
    assert saved.feature_names == ("x0", "x1", "x2", "x3")
    assert saved.versions["fairpca"]


def test_crossed_groups_and_frames(frame, tmp_path):
    X = frame[["v0", "v1", "v2"]]
    fitted = FairPCA(1).fit(X, sensitive_features=frame[["sex", "city"]])
    save_model(tmp_path / "m.skops", fitted)
    saved = load_model(tmp_path / "m.skops")
    assert saved.feature_names == ("v0", "v1", "v2")
    assert [tuple(label) for label in saved.model.groups_] == fitted.groups_
    np.testing.assert_array_equal(saved.model.transform(X), fitted.transform(X))


def test_the_file_holds_no_pickle_and_only_known_types(model, tmp_path):
    path = tmp_path / "m.skops"
    save_model(path, model[0])
    assert set(skops.io.get_untrusted_types(file=path)) <= set(TRUSTED_TYPES)
    with zipfile.ZipFile(path) as archive:
        assert not [name for name in archive.namelist() if name.endswith((".pkl", ".pickle"))]
        names = json.loads(archive.read("schema.json"))
    assert names


def test_links_and_permissions_stay(model, tmp_path):
    path, link = tmp_path / "m.skops", tmp_path / "latest.skops"
    path.write_text("old")
    # Who made it private does not want it shown to everybody after the next fit.
    path.chmod(0o600)
    link.symlink_to(path.name)
    save_model(link, model[0])
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o600
    assert load_model(path).model.groups_ == model[0].groups_


def test_a_link_that_leads_nowhere(cli, csv, tmp_path):
    link = tmp_path / "latest.skops"
    link.symlink_to("gone/m.skops")
    call = ("fit", csv, "-g", "sex", "-r", 2, "-o", link)
    done = cli(*call)
    assert done.code == 2
    assert "there is no directory" in done.err
    (tmp_path / "gone").mkdir()
    assert cli(*call).code == 0
    assert link.is_symlink()
    assert (tmp_path / "gone" / "m.skops").is_file()


def test_an_existing_file_survives_a_full_disk(model, tmp_path, monkeypatch):
    path = tmp_path / "m.skops"
    path.write_text("old")
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(OSError(28, "disk full")))
    with pytest.raises(OSError, match="disk full"):
        save_model(path, model[0])
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


class TestRefusals:
    def test_functions_and_foreign_classes(self, tmp_path):
        for i, evil in enumerate((os.system, eval, zipfile.ZipFile)):
            path = tmp_path / f"evil{i}.skops"
            content = {"kind": "fairpca model", "format": 1, "model": evil}
            path.write_bytes(skops.io.dumps(content))
            with pytest.raises(ValueError, match="refused"):
                load_model(path)

    def test_a_hidden_type_in_the_schema(self, model, tmp_path):
        path = tmp_path / "m.skops"
        save_model(path, model[0])
        changed = io.BytesIO()
        with zipfile.ZipFile(path) as old, zipfile.ZipFile(changed, "w") as new:
            for name in old.namelist():
                data = old.read(name)
                if name == "schema.json":
                    data = data.replace(b'"FairPCA"', b'"Popen"').replace(
                        b'"fairpca.estimator"', b'"subprocess"'
                    )
                new.writestr(name, data)
        path.write_bytes(changed.getvalue())
        with pytest.raises(ValueError, match=r"subprocess\.Popen"):
            load_model(path)

    def test_other_files(self, tmp_path, model):
        cases = {
            "text.skops": b"hello",
            "empty.skops": b"",
            "broken.skops": b"PK\x03\x04 rubbish",
            "pickle.skops": b"\x80\x04K\x01.",
            "other.skops": skops.io.dumps({"a": 1}),
            "pca.skops": skops.io.dumps(PCA(1).fit(model[1])),
        }
        for name, data in cases.items():
            (tmp_path / name).write_bytes(data)
            with pytest.raises(ValueError, match="model"):
                load_model(tmp_path / name)
        with pytest.raises(ValueError, match="directory"):
            load_model(tmp_path)
        with pytest.raises(FileNotFoundError):
            load_model(tmp_path / "none.skops")

    def test_cut_short(self, model, tmp_path):
        path = tmp_path / "m.skops"
        save_model(path, model[0])
        path.write_bytes(path.read_bytes()[:-200])
        with pytest.raises(ValueError, match="not a readable model file"):
            load_model(path)

    @pytest.mark.parametrize(
        "change",
        [
            {"format": 3},
            {"format": None},
            {"preparation": {"features": 3}},
            {"format": 2, "preparation": "{"},
            {"notes": 1},
        ],
    )
    def test_other_versions_and_damage(self, model, tmp_path, change):
        content = {
            "kind": "fairpca model",
            "format": 1,
            "versions": {"fairpca": "9.9"},
            "feature_names": [],
            "preparation": None,
            "notes": [],
            "model": model[0],
        }
        (tmp_path / "m.skops").write_bytes(skops.io.dumps(content | change))
        with pytest.raises(ValueError, match=r"format (3|None) .* upgrade fairpca|damaged"):
            load_model(tmp_path / "m.skops")

    def test_the_preparation_of_a_model_of_version_0_1(self, model, tmp_path):
        """It was stored as objects, which took ten seconds of 8,000 columns."""
        frame = pd.DataFrame({"a": [1.0, 2.0, 4.0], "b": ["x", "y", "x"]})
        preparation, _ = prepare(frame, columns=["a", "b"])
        path = tmp_path / "m.skops"
        save_model(path, model[0], preparation=preparation)
        content = skops.io.loads(path.read_bytes(), trusted=list(TRUSTED_TYPES))
        content |= {"format": 1, "preparation": json.loads(content["preparation"])}
        path.write_bytes(skops.io.dumps(content))
        assert load_model(path).preparation == preparation
