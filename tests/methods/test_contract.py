"""What every method shares: FairPCA's face and errors, moments, a page, no surprises."""

import pickle
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError

from fairpca import FairPCA, GroupMoments, methods
from test_weights import SETTINGS

PAGES = Path(__file__).parents[2] / "docs" / "methods"
NAMES = sorted(methods.__all__)
TWO = [name for name in NAMES if getattr(methods, name)._group_range[1] == 2]
NEED_LABELS = [name for name in NAMES if getattr(methods, name)._group_range[0] == 2]

every_method = pytest.mark.parametrize("name", NAMES)


def make(name, n_components=2, **params):
    return getattr(methods, name)(n_components, **{**SETTINGS.get(name, {}), **params})


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(3)
    sex = rng.choice(["female", "male"], size=160, p=[0.4, 0.6])
    X = rng.normal(size=(160, 5)) * [3, 1, 2, 1, 0.5]
    X[sex == "female"] = X[sex == "female"][:, [1, 0, 3, 2, 4]] + [0, 0, 0, 0, 0.5]
    return X + 5, sex


@every_method
def test_face(people, name):
    X, sex = people
    model = make(name)
    assert model.fit(X, sensitive_features=sex) is model
    U, Z = model.components_, model.transform(X)
    np.testing.assert_allclose(U @ U.T, np.eye(2), atol=1e-9)
    np.testing.assert_allclose(Z, (X - X.mean(axis=0)) @ U.T, atol=1e-12)
    np.testing.assert_allclose(model.explained_variance_, np.var(Z, axis=0, ddof=1))
    np.testing.assert_allclose(model.to_sklearn().transform(X), Z, atol=1e-12)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).transform(X), Z)
    np.testing.assert_array_equal(clone(model).fit_transform(X, sensitive_features=sex), Z)
    assert model.groups_ == ["female", "male"]
    assert model.group_counts_.tolist() == [int(np.sum(sex == g)) for g in model.groups_]
    # No method serves the worst group better than the certified optimum.
    best = FairPCA(2, center="group").fit(X, sensitive_features=sex).certificate_
    assert model.group_losses_.max() >= best.lower_bound - 1e-9
    if hasattr(model, "certificate_"):
        exact = FairPCA(2, criterion=model.criterion, center="group")
        optimum = exact.fit(X, sensitive_features=sex).certificate_.value
        found = model.certificate_
        assert found.lower_bound - 1e-9 <= optimum <= found.value + 1e-9
        assert found.value == pytest.approx(model.group_values_.max())
    if name != "MMDFairPCA":
        moments = clone(model).fit_moments(GroupMoments.from_array(X, sex))
        np.testing.assert_allclose(moments.group_losses_, model.group_losses_, atol=1e-9)
    assert isinstance(model.set_output(transform="pandas").transform(X), pd.DataFrame)


@every_method
def test_bad_rows_give_the_errors_of_fair_pca(people, name):
    X, sex = people
    bad = [
        (np.where(X[0, 0] == X, np.nan, X), sex, {}, "Input X contains NaN"),
        ([["a", "b"], ["c", "d"]], [0, 1], {}, "string|numbers"),
        (X, sex[:-1], {}, "sensitive_features"),
        (X, sex, {"sample_weight": -np.ones(len(X))}, "sample_weight"),
        (X[:1], sex[:1], {}, "1 sample|1 group"),
    ]
    model = make(name).fit(X, sensitive_features=sex)
    before = model.transform(X)
    for rows, labels, extra, match in bad:
        with pytest.raises(ValueError, match=match):
            model.fit(rows, sensitive_features=labels, **extra)
    # A refused fit leaves the fit before.
    np.testing.assert_array_equal(model.transform(X), before)
    with pytest.raises(NotFittedError):
        clone(model).transform(X)
    for r in (0, 6, 2.5, "2", True):
        with pytest.raises(ValueError, match="n_components="):
            make(name, r).fit(X, sensitive_features=sex)


@every_method
def test_numbers_of_groups(people, name):
    X, sex = people
    if name in NEED_LABELS:
        with pytest.raises(ValueError, match=f"{name} needs sensitive_features"):
            make(name).fit(X)
    else:
        with pytest.warns(UserWarning, match="ordinary PCA") as caught:
            model = make(name).fit(X)
        assert [warning.filename for warning in caught] == [__file__]
        pca = PCA(2).fit(X)
        np.testing.assert_allclose(model.explained_variance_, pca.explained_variance_, rtol=1e-7)
    several = {"sex": sex, "other": np.arange(len(X)) % 2}
    if name in TWO:
        with pytest.raises(ValueError, match=f"has 4 group.* and {name} is written for two"):
            make(name).fit(X, sensitive_features=several)
    else:
        model = make(name, 1).fit(X, sensitive_features=several)
        assert model.groups_ == [("female", 0), ("female", 1), ("male", 0), ("male", 1)]


@every_method
def test_all_components_lose_nothing(people, name):
    X, sex = people
    tau = {"tau": 0.9} if name == "MMDFairPCA" else {}
    model = make(name, None, **tau).fit(X, sensitive_features=sex)
    if model.n_components_ == 5:
        assert model.group_losses_.max() < 1e-9
    else:
        # What separates the means was removed.
        assert model.n_components_ == 4
        assert np.ptp(model.group_means_ @ model.components_.T, axis=0).max() < 1e-6


BAD = {
    "criterion": "best", "solver": "fast", "center": "middle", "tol": 2, "eta": -1, "max_iter": 0,
    "n_starts": 1.5, "beta": np.inf, "rho": [1], "inner_steps": 0, "floor": 2, "mu": -1,
    "selection": "best", "population": 1, "delta": "x", "tau": 0, "bandwidth": -1, "lam": np.nan,
    "max_rows": 0, "n_directions": -1, "learning_blocks": "x", "disparity_weight": -1,
    "n_kept_directions": 1e9, "variant": "minpca",
}  # fmt: skip


@every_method
def test_bad_parameters_are_named(people, name):
    X, sex = people
    for parameter in BAD.keys() & make(name).get_params():
        model = make(name).set_params(**{parameter: BAD[parameter]})
        with pytest.raises(ValueError, match=f"^{parameter}="):
            model.fit(X, sensitive_features=sex)


def test_a_page_says_by_whom_what_for_whom_and_when():
    index, listed = (PAGES / "index.md").read_text("utf-8").split("```{toctree}")
    assert {path.stem for path in PAGES.glob("*.md")} == {*NAMES, "index"}
    for name in NAMES:
        text = (PAGES / f"{name}.md").read_text("utf-8")
        for part in ("**By** ", "**What it optimises:** ", "**Groups:** ", "**Use it when** "):
            assert part in text, (name, part)
        assert f"{{py:class}}`fairpca.methods.{name}`" in text
        assert f"[{name}]({name}.md)" in index
        assert re.search(rf"^{name}$", listed, re.M), name
