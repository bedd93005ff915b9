"""Rows of other array libraries: counted where they live, answered where they live."""

import importlib.util

import numpy as np
import pytest
import sklearn
from sklearn.utils import _array_api, estimator_checks

from fairpca import FairPCA, GroupMoments
from fairpca._arrays import fetched
from fairpca.covariances import partial

from data_dir import reference
from tables import COMMON, TABLES, credit_codes, education

# The standard's own strict library always, on a device that refuses to be mixed with another;
# PyTorch and CuPy where they are installed. scikit-learn's checks of every estimator try the first
# device, too.
LIBRARIES = [("array_api_strict", "device1")]
GPUS = [("torch", "cuda"), ("cupy", None)]
if importlib.util.find_spec("torch"):
    import torch

    LIBRARIES += [("torch", "cpu")] + [("torch", "cuda")] * torch.cuda.is_available()
if importlib.util.find_spec("cupy"):
    LIBRARIES += [("cupy", None)]

rng = np.random.default_rng(0)
X = rng.normal(size=(90, 6)) * np.linspace(3, 1, 6) + 100.0
X[::3] = X[::3, ::-1]
G = np.array(["a", "b", "b"])[np.arange(90) % 3]


@pytest.fixture(params=LIBRARIES, ids=["-".join(filter(None, pair)) for pair in LIBRARIES])
def library(request):
    """Return a function that puts NumPy arrays where this library keeps its own."""
    xp, device = estimator_checks._array_api_for_tests(*request.param)
    with sklearn.config_context(array_api_dispatch=True):
        yield lambda values: xp.asarray(values, device=device)


def projector(components):
    rows = np.asarray(fetched(components), dtype=float)
    return rows.T @ rows


@pytest.mark.filterwarnings("ignore:sensitive_features=None")
def test_a_model_and_rows_of_different_libraries_are_refused():
    estimator_checks.check_array_api_same_namespace(
        "FairPCA", FairPCA(3), array_namespace="array_api_strict"
    )


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("weight", [None, rng.uniform(0.5, 2, 90)], ids=["plain", "weights"])
def test_the_answer_is_that_of_numpy(library, dtype, weight):
    rows = X.astype(dtype)
    options = {"sensitive_features": G, "sample_weight": weight}
    want = FairPCA(2).fit(rows, **options)
    got = FairPCA(2).fit(library(rows), **options)
    assert np.abs(projector(got.components_) - projector(want.components_)).max() < 1e-8
    assert got.certificate_.optimal
    assert got.certificate_.value == pytest.approx(want.certificate_.value, rel=1e-10)
    np.testing.assert_allclose(fetched(got.group_losses_), want.group_losses_, rtol=1e-9)
    projected, before = got.transform(library(rows)), want.transform(rows)
    assert type(projected) is type(got.components_) is type(library(rows))
    tolerance = 1e-9 if dtype == "float64" else 1e-4
    signs = np.sign(np.sum(fetched(projected) * before, axis=0))
    np.testing.assert_allclose(fetched(projected) * signs, before, atol=tolerance)
    rebuilt = got.inverse_transform(projected)
    np.testing.assert_allclose(fetched(rebuilt), want.inverse_transform(before), atol=tolerance)


def test_rows_far_from_zero_keep_their_digits(library):
    far = X + 1e7
    want = GroupMoments.from_array(far, G)
    got = GroupMoments.from_array(library(far), G)
    np.testing.assert_allclose(fetched(got.scatter), want.scatter, rtol=1e-12, atol=1e-9)
    apart = got.distances_from(got.pooled()) - want.distances_from(want.pooled())
    assert np.abs(apart).max() < 1e-13


def test_labels_may_live_with_the_rows(library):
    codes = (G == "b").astype(int)
    got = FairPCA(2).fit(library(X), sensitive_features=library(codes))
    want = FairPCA(2).fit(X, sensitive_features=codes)
    assert got.groups_ == want.groups_ == [0, 1]
    assert np.abs(projector(got.components_) - projector(want.components_)).max() < 1e-8


def test_batches_are_counted_where_they_live(library):
    model = FairPCA(2)
    for part in (slice(0, 20), slice(20, 21), slice(21, 90)):
        model.partial_fit(library(X[part]), sensitive_features=G[part])
    whole = FairPCA(2).fit(library(X), sensitive_features=G)
    assert type(model.components_) is type(library(X))
    assert np.abs(projector(model.components_) - projector(whole.components_)).max() < 1e-8
    merged = GroupMoments.from_array(library(X[:40]), G[:40])
    merged = merged.merge(GroupMoments.from_array(library(X[40:]), G[40:]))
    want = FairPCA(2).fit_moments(merged)
    assert np.abs(projector(model.components_) - projector(want.components_)).max() < 1e-8


def test_more_columns_than_rows(library):
    wide = np.random.default_rng(1).normal(size=(30, 400))
    got = FairPCA(3).fit(library(wide), sensitive_features=G[:30])
    want = FairPCA(3).fit(wide, sensitive_features=G[:30])
    assert type(got.components_) is type(library(wide))
    assert np.abs(projector(got.components_) - projector(want.components_)).max() < 1e-8


def test_models_move(library):
    here = FairPCA(2, whiten=True).fit(X, sensitive_features=G)
    with pytest.raises(ValueError, match=r"FairPCA\.transform\(\).*move_estimator_to"):
        here.transform(library(X))
    xp, _, device = _array_api.get_namespace_and_device(library(X))
    there = _array_api.move_estimator_to(here, xp, device)
    np.testing.assert_allclose(fetched(there.transform(library(X))), here.transform(X), atol=1e-9)
    like_pca = there.to_sklearn().transform(library(X))
    np.testing.assert_allclose(fetched(like_pca), here.transform(X), atol=1e-9)
    with pytest.raises(ValueError, match=r"FairPCA\.transform\(\).*move_estimator_to"):
        there.transform(X)
    back = _array_api.move_estimator_to(there, np, "cpu")
    np.testing.assert_allclose(back.transform(X), here.transform(X))


def test_what_else_a_model_tells(library):
    got = FairPCA(2).fit(library(X), sensitive_features=G)
    want = FairPCA(2).fit(X, sensitive_features=G)
    np.testing.assert_allclose(fetched(got.get_covariance()), want.get_covariance(), atol=1e-8)
    np.testing.assert_allclose(fetched(got.get_precision()), want.get_precision(), atol=1e-8)
    assert got.score(library(X)) == pytest.approx(want.score(X))
    assert "groups that lose most" in got._repr_html_inner()


def test_wrong_rows_are_refused(library):
    with pytest.raises(ValueError, match="NaN"):
        FairPCA(2).fit(library(np.full((4, 3), np.nan)), sensitive_features=[0, 0, 1, 1])
    with pytest.raises(ValueError, match="shape"):
        GroupMoments.from_array(library(X[0]), G[:6])
    with pytest.raises(ValueError, match="real numbers"):
        GroupMoments.from_array(library(X.astype(complex)), G)


@pytest.fixture
def everything_there(monkeypatch):
    """Matrices of few columns stay on the device, and are decomposed by filtered blocks."""
    monkeypatch.setattr(partial, "_FILTER_FROM", 2)
    monkeypatch.setattr(partial, "_SPARE", 4)
    for name in ("_FILTER_SHARE", "_COLD_SHARE"):
        monkeypatch.setattr(partial, name, 0.5)
    monkeypatch.setattr(partial, "_MOST_PRODUCTS", 20.0)


@pytest.mark.parametrize("spectrum", ["steep", "flat", "tied"])
@pytest.mark.parametrize("far", [0.0, 1e6])
def test_filtered_blocks_find_the_answer_of_numpy(library, everything_there, spectrum, far):
    scales = {
        "steep": np.arange(1, 61) ** -1.5,
        "flat": np.linspace(3, 2.5, 60),
        "tied": np.r_[np.full(9, 4.0), np.ones(51)],
    }[spectrum]
    draw = np.random.default_rng(3)
    rows = draw.normal(size=(400, 60)) * scales + far
    labels = np.arange(400) % 2
    rows[labels == 1, :12] = rows[labels == 1, 11::-1]
    want = FairPCA(5).fit(rows, sensitive_features=labels)
    got = FairPCA(5).fit(library(rows), sensitive_features=library(labels))
    assert got.certificate_.optimal
    assert got.certificate_.value == pytest.approx(want.certificate_.value, rel=1e-9)
    assert np.abs(projector(got.components_) - projector(want.components_)).max() < 1e-8
    np.testing.assert_allclose(fetched(got.group_errors_), want.group_errors_, rtol=1e-9)
    np.testing.assert_allclose(fetched(got.mean_), want.mean_, rtol=1e-12)


@pytest.mark.parametrize(
    "options",
    [
        {"center": "group"},
        {"criterion": "relative"},
        {"criterion": "share"},
        {"shrinkage": "auto"},
        {"nested": True},
        {"max_harm": 0.02},
        {"n_components": 0.7},
        {"n_components": None},
    ],
    ids=str,
)
def test_every_option_where_matrices_stay_there(library, everything_there, options):
    options = {"n_components": 3, **options}
    want = FairPCA(**options).fit(X, sensitive_features=G)
    got = FairPCA(**options).fit(library(X), sensitive_features=G)
    assert got.n_components_ == want.n_components_
    assert np.abs(projector(got.components_) - projector(want.components_)).max() < 1e-8
    np.testing.assert_allclose(fetched(got.group_losses_), want.group_losses_, atol=1e-6)


@pytest.mark.parametrize("k", [3, 5])
def test_three_and_more_groups_whose_matrices_stay_there(library, everything_there, k):
    rows = np.random.default_rng(2).normal(size=(500, 24)) * np.linspace(3, 1, 24)
    labels = np.arange(500) % k
    rows[labels == 1] = rows[labels == 1, ::-1]
    want = FairPCA(4).fit(rows, sensitive_features=labels)
    got = FairPCA(4).fit(library(rows), sensitive_features=library(labels))
    assert got.certificate_.value == pytest.approx(want.certificate_.value, rel=1e-9)
    assert got.certificate_.lower_bound <= want.certificate_.value + got.certificate_.resolution


@pytest.mark.parametrize("bad", [np.nan, np.inf, 1e200])
def test_numbers_that_cannot_be_squared_are_named(library, everything_there, bad):
    rows = X.copy()
    rows[7, 3] = bad
    with pytest.raises(ValueError, match=r"NaN|infinity"):
        FairPCA(2).fit(library(rows), sensitive_features=G)


@pytest.mark.parametrize("n, center", [(6, "global"), (40, "global"), (40, "group")])
def test_constant_columns_and_groups_without_variance(library, everything_there, n, center):
    rows = np.resize(X, (90, n)) + np.arange(n)
    rows[:, 2] = 1e8 + 0.1
    rows[G == "a"] = rows[G == "a"][0]
    want = FairPCA(2, center=center).fit(rows, sensitive_features=G)
    got = FairPCA(2, center=center).fit(library(rows), sensitive_features=G)
    np.testing.assert_allclose(fetched(got.group_losses_), want.group_losses_, atol=1e-8)
    assert np.abs(projector(got.components_) - projector(want.components_)).max() < 1e-8


@pytest.mark.parametrize("weight", [None, rng.uniform(0.5, 2, 90)], ids=["plain", "weights"])
def test_batches_pass_through_the_device(library, weight):
    want = GroupMoments.from_array(X, G, sample_weight=weight)
    parts = [slice(0, 1), slice(1, 50), slice(50, 90)]
    batches = [(X[p], G[p], *(() if weight is None else (weight[p],))) for p in parts]
    for like in (None, library(X[:0])):
        got = GroupMoments.from_batches(iter(batches), like=like)
        assert got.labels == want.labels
        np.testing.assert_allclose(got.scatter, want.scatter, rtol=1e-12, atol=1e-10)
        np.testing.assert_allclose(got.mean, want.mean, rtol=1e-14)


def test_what_is_wrong_with_a_batch_is_said():
    with pytest.raises(ValueError, match="batches is empty"):
        GroupMoments.from_batches([])
    with pytest.raises(ValueError, match=r"X contains NaN"):
        GroupMoments.from_batches([(X, G), (X * np.nan, G)])

    def ends():
        yield X, G
        raise OSError("the file ends here")

    with pytest.raises(OSError, match="the file ends here"):
        GroupMoments.from_batches(ends())


@pytest.mark.parametrize("name", ["BM", "DCC", "LFW", *COMMON])
def test_reference_files_through_the_device(library, request, name):
    """Two groups about their own means, and two and three about the mean of all rows."""
    on_gpu = request.node.callspec.params["library"] in GPUS
    if name == "LFW" and not on_gpu:
        pytest.skip("needs a GPU")
    rows, labels = {**TABLES, **COMMON}[name]()
    there, labels = library(rows), np.asarray(labels)
    # Every third rank where nothing is faster for being an accelerator.
    step = 1 if on_gpu else 3
    own = reference("two_groups.json").get(name, {"r": {}})["r"]
    for r, expected in list(own.items())[::step]:
        model = FairPCA(int(r), center="group").fit(there, sensitive_features=labels)
        assert model.certificate_.optimal
        np.testing.assert_allclose(fetched(model.group_losses_), expected["phi_star"], rtol=1e-8)
    for r, expected in list(reference("common_mean.json").get(name, {}).items())[::step]:
        model = FairPCA(int(r)).fit(there, sensitive_features=labels)
        assert model.certificate_.optimal
        np.testing.assert_allclose(fetched(model.group_losses_), expected["losses"], rtol=1e-8)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("k", [2, 3, 4])
def test_reference_of_several_groups_through_the_device(library, request, k):
    step = 1 if request.node.callspec.params["library"] in GPUS else 6
    rows = library(credit_codes()[0])
    for r, known in list(reference("many_groups.json")[f"edu{k}"]["21"].items())[::step]:
        model = FairPCA(int(r), center="group").fit(rows, sensitive_features=education(k))
        found = model.certificate_
        assert known["phi"] * (1 - 1e-8) <= found.lower_bound <= found.value
        assert found.value <= known["value"] * (1 + 1e-8)
