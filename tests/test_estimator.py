"""FairPCA as its users meet it."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from sklearn.compose import ColumnTransformer
from sklearn.datasets import load_diabetes, load_wine
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.metrics import get_scorer
from sklearn.model_selection import GridSearchCV, cross_validate
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.preprocessing import StandardScaler

from fairpca import (
    FairPCA,
    GroupMoments,
)

from subspaces import subspace_distance


@pytest.fixture
def people():
    """Rows about people, two attributes, weights."""
    rng = np.random.default_rng(3)
    m = 300
    sex = rng.choice(["female", "male"], size=m, p=[0.3, 0.7])
    race = rng.choice(["x", "y"], size=m)
    X = rng.normal(size=(m, 6)) * [3, 1, 2, 1, 1, 0.5]
    X[sex == "female"] = X[sex == "female"][:, [1, 0, 3, 2, 4, 5]]
    return X + 5, sex, race, rng.uniform(0.5, 2, size=m)


def projector(model):
    return model.components_.T @ model.components_


def test_worst_loss_is_never_above_plain_pca(people):
    X, sex, _, _ = people
    for r in range(1, 6):
        model = FairPCA(r).fit(X, sensitive_features=sex)
        moments = GroupMoments.from_array(X, sex)
        pooled = PCA(r).fit(X).components_
        kept = np.einsum("rn,knm,rm->k", pooled, moments.covariances, pooled)
        own = np.linalg.eigvalsh(moments.covariances)[:, ::-1][:, :r].sum(axis=1)
        assert model.group_losses_.max() <= (own - kept).max() * (1 + 1e-12)
        assert model.certificate_.optimal
        assert np.isclose(*model.group_losses_, rtol=1e-10)


@pytest.mark.parametrize("criterion", ["loss", "variance", "share"])
def test_a_nested_sequence_keeps_the_share_asked_for(criterion):
    X, cultivar = load_wine(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    for share in (0.7, 0.9):
        model = FairPCA(share, nested=True, criterion=criterion, center="group")
        model.fit(X, sensitive_features=cultivar)
        assert model.group_shares_.min() >= share * (1 - 1e-12)
        assert len(model.nested_values_) == model.n_components_


@pytest.mark.filterwarnings("ignore:sensitive_features=None")
@pytest.mark.parametrize("shape", [(60, 5), (8, 12)])
def test_one_group_is_plain_pca(shape):
    X = np.random.default_rng(0).normal(size=shape) + 3
    r = min(shape) - 2
    model, pca = FairPCA(r).fit(X), PCA(r, svd_solver="full").fit(X)
    for name in (
        "mean_",
        "explained_variance_",
        "explained_variance_ratio_",
        "singular_values_",
        "noise_variance_",
    ):
        np.testing.assert_allclose(getattr(model, name), getattr(pca, name), rtol=1e-9, atol=1e-12)
    assert model.n_components_ == pca.n_components_
    assert model.n_samples_ == pca.n_samples_
    assert subspace_distance(model.components_.T, pca.components_.T) < 1e-10


def test_missing_groups_warn_once():
    with pytest.warns(UserWarning, match="ordinary PCA") as caught:
        FairPCA(1).fit(np.random.default_rng(0).normal(size=(9, 3)))
    assert len(caught) == 1


def test_components_read_like_pca(people):
    X, sex, _, _ = people
    model = FairPCA(3).fit(X, sensitive_features=sex)
    Z = model.transform(X)
    covariance = np.cov(Z.T)
    assert np.allclose(covariance, np.diag(model.explained_variance_))
    assert np.all(np.diff(model.explained_variance_) <= 0)
    # The sign rule: the entry of largest magnitude of every component is positive.
    largest = np.abs(model.components_).argmax(axis=1)
    assert np.all(model.components_[np.arange(3), largest] > 0)


def test_transform_needs_no_groups_and_inverts(people):
    X, sex, _, _ = people
    full = FairPCA().fit(X, sensitive_features=sex)
    np.testing.assert_allclose(full.inverse_transform(full.transform(X)), X, atol=1e-12)
    model = FairPCA(2)
    Z = model.fit_transform(X, sensitive_features=sex)
    np.testing.assert_allclose(Z, model.transform(X))
    back = model.inverse_transform(Z)
    np.testing.assert_allclose(model.transform(back), Z, atol=1e-12)


def test_transform_treats_every_row_alone(people):
    """The mean is that of the fit, whoever is transformed together."""
    X, sex, _, _ = people
    model = FairPCA(3).fit(X, sensitive_features=sex)
    np.testing.assert_allclose(model.transform(X[:1]), model.transform(X)[:1], atol=1e-12)
    np.testing.assert_allclose(model.transform(model.mean_[None]), 0, atol=1e-12)


def test_to_sklearn_transforms_the_same(people):
    X, sex, _, _ = people
    frame = pd.DataFrame(X, columns=list("abcdef"))
    model = FairPCA(2).fit(frame, sensitive_features=sex)
    pca = model.to_sklearn()
    assert isinstance(pca, PCA)
    np.testing.assert_allclose(pca.transform(frame), model.transform(frame), atol=1e-12)
    np.testing.assert_allclose(
        pca.inverse_transform(model.transform(frame)),
        model.inverse_transform(pca.transform(frame)),
    )


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9, 0.99])
def test_fractional_components_serve_every_group(people, share):
    X, sex, _, _ = people
    model = FairPCA(share).fit(X, sensitive_features=sex)
    traces = model.group_errors_ + np.einsum(
        "rn,knm,rm->k",
        model.components_,
        GroupMoments.from_array(X, sex).covariances,
        model.components_,
    )
    assert np.all(1 - model.group_errors_ / traces >= share - 1e-9)
    if model.n_components_ > 1:
        fewer = FairPCA(model.n_components_ - 1, criterion="loss").fit(X, sensitive_features=sex)
        assert np.any(1 - fewer.group_errors_ / traces < share)


CONTAINERS = {
    "list": lambda values: list(values),
    "array": np.asarray,
    "pandas": lambda values: pd.Series(values, name="sex"),
    "categorical": lambda values: pd.Series(pd.Categorical(values), name="sex"),
    "polars": lambda values: pl.Series("sex", values),
    "pyarrow": lambda values: pa.chunked_array([values]),
    "dict": lambda values: {"sex": values},
    "frame": lambda values: pl.DataFrame({"sex": values}),
}


@pytest.mark.parametrize("kind", CONTAINERS)
def test_label_containers_agree(people, kind):
    X, sex, _, _ = people
    want = FairPCA(2).fit(X, sensitive_features=sex)
    got = FairPCA(2).fit(X, sensitive_features=CONTAINERS[kind](list(sex)))
    np.testing.assert_array_equal(got.components_, want.components_)
    assert got.groups_ == ["female", "male"]


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame, pa.table])
def test_row_containers_agree(people, frame):
    X, sex, _, _ = people
    columns = {name: X[:, j] for j, name in enumerate("abcdef")}
    model = FairPCA(2).fit(frame(columns), sensitive_features=sex)
    want = FairPCA(2).fit(X, sensitive_features=sex).components_
    np.testing.assert_allclose(model.components_, want, atol=1e-12)
    assert list(model.feature_names_in_) == list("abcdef")
    assert list(model.get_feature_names_out()) == ["fairpca0", "fairpca1"]


@pytest.mark.parametrize("container,kind", [("pandas", pd.DataFrame), ("polars", pl.DataFrame)])
def test_set_output(people, container, kind):
    X, sex, _, _ = people
    model = FairPCA(2).set_output(transform=container).fit(X, sensitive_features=sex)
    out = model.transform(X)
    assert isinstance(out, kind)
    assert list(out.columns) == ["fairpca0", "fairpca1"]


def test_unlabelled_rows_count_in_the_mean_only(people):
    X, sex, _, _ = people
    labels = sex.astype(object)
    labels[::7] = None
    with pytest.raises(ValueError, match=r"missing label.*unlabelled='ignore'"):
        FairPCA(2).fit(X, sensitive_features=labels)
    # The mean of all rows enters about the groups' own means nowhere but in `mean_`.
    model = FairPCA(2, unlabelled="ignore", center="group").fit(X, sensitive_features=labels)
    known = labels != None  # noqa: E711
    alone = FairPCA(2, center="group").fit(X[known], sensitive_features=labels[known])
    np.testing.assert_allclose(model.mean_, X.mean(axis=0))
    np.testing.assert_allclose(projector(model), projector(alone), atol=1e-9)
    assert model.n_samples_ == len(X)
    assert model.group_counts_.sum() == known.sum()


def test_weights_act_like_repeated_rows(people):
    X, sex, _, _ = people
    times = np.random.default_rng(1).integers(0, 4, size=len(X))
    weighted = FairPCA(2).fit(X, sensitive_features=sex, sample_weight=times)
    repeated = FairPCA(2).fit(
        np.repeat(X, times, axis=0), sensitive_features=np.repeat(sex, times)
    )
    for name in ("components_", "mean_", "explained_variance_", "group_losses_", "group_means_"):
        np.testing.assert_allclose(getattr(weighted, name), getattr(repeated, name), atol=1e-9)


@pytest.mark.parametrize("total", [1.0, 1 + 2e-16, 1.001, 1.9])
def test_weights_divided_by_their_sum_say_the_same(people, total):
    """A sum a hair above one made variances of 1e16, and whitened rows of 1e-8."""
    X, sex, _, _ = people
    weight = np.full(len(X), total / len(X))
    found = FairPCA(2, whiten=True, shrinkage="auto")
    found.fit(X, sensitive_features=sex, sample_weight=weight)
    plain = FairPCA(2, whiten=True, shrinkage="auto").fit(X, sensitive_features=sex)
    for name in ("explained_variance_", "noise_variance_", "shrinkage_", "group_losses_"):
        np.testing.assert_allclose(getattr(found, name), getattr(plain, name), rtol=1e-9)
    np.testing.assert_allclose(found.transform(X), plain.transform(X), atol=1e-9)
    assert found.score(X) == pytest.approx(plain.score(X))


def test_a_model_without_noise_holds_other_rows_for_impossible():
    """Some had a log-likelihood of +5e19: the covariance has no inverse."""
    for seed in range(4):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(7, 300)) * np.exp(rng.normal(size=300)) + 3
        model = FairPCA(6).fit(X, sensitive_features=[0] * 7)
        assert model.noise_variance_ == 0
        assert np.all(model.score_samples(rng.normal(size=(3, 300))) == -np.inf)


@pytest.mark.parametrize("batch", [2, 7, 50, 300])
@pytest.mark.parametrize("weighted", [False, True])
def test_partial_fit_is_fit(people, batch, weighted):
    X, sex, _, weight = people
    # Sorted by group: whole batches lack a group.
    order = np.argsort(sex, kind="stable") if batch < 50 else np.arange(len(X))
    X, sex, weight = X[order], sex[order], (weight[order] if weighted else None)
    whole = FairPCA(2).fit(X, sensitive_features=sex, sample_weight=weight)
    stream = FairPCA(2)
    for start in range(0, len(X), batch):
        part = slice(start, start + batch)
        stream.partial_fit(
            X[part],
            sensitive_features=sex[part],
            sample_weight=None if weight is None else weight[part],
        )
    for name in ("components_", "mean_", "explained_variance_", "group_losses_", "group_errors_"):
        np.testing.assert_allclose(getattr(stream, name), getattr(whole, name), atol=1e-10)
    assert stream.n_samples_ == whole.n_samples_


def test_a_batch_without_weight_changes_nothing(people):
    X, sex, _, _ = people
    weights = np.ones(len(X))
    weights[:100] = 0.0
    batches = [(X[part], sex[part], weights[part]) for part in (slice(100, None), slice(100))]
    model = FairPCA(2)
    for rows, labels, weight in batches:
        model.partial_fit(rows, sensitive_features=labels, sample_weight=weight)
    counted = FairPCA(2).fit_moments(GroupMoments.from_batches(batches))
    whole = FairPCA(2).fit(X, sensitive_features=sex, sample_weight=weights)
    for found in (model, counted):
        np.testing.assert_allclose(found.group_losses_, whole.group_losses_, rtol=1e-9)
        np.testing.assert_allclose(found.mean_, whole.mean_, atol=1e-12)


def test_fit_moments_and_saved_moments(people, tmp_path):
    X, sex, race, _ = people
    moments = GroupMoments.from_array(X[:150], {"sex": sex[:150], "race": race[:150]})
    other = GroupMoments.from_array(X[150:], {"sex": sex[150:], "race": race[150:]})
    moments = moments.merge(other)
    moments.save(tmp_path / "m.npz")
    model = FairPCA(2, group_by="marginal", criterion="error")
    loaded = GroupMoments.load(tmp_path / "m.npz")
    assert loaded.labels == moments.labels
    assert loaded.names == ("sex", "race")
    np.testing.assert_array_equal(loaded.scatter, moments.scatter)
    one = GroupMoments.from_array(X, sex)
    np.testing.assert_allclose(
        FairPCA(2).fit_moments(one).components_,
        FairPCA(2).fit(X, sensitive_features=sex).components_,
    )
    assert model.get_params()["group_by"] == "marginal"


def test_float32_with_a_large_mean_gives_the_float64_answer(people):
    X, sex, _, _ = people
    big = (X + 1e4).astype(np.float32)
    single = FairPCA(2).fit(big, sensitive_features=sex)
    double = FairPCA(2).fit(big.astype(np.float64), sensitive_features=sex)
    np.testing.assert_allclose(projector(single), projector(double), atol=1e-6)
    np.testing.assert_allclose(single.group_losses_, double.group_losses_, rtol=1e-6)
    assert single.transform(big).dtype == np.float32


def test_pickle_before_and_after_solving(people):
    X, sex, _, _ = people
    lazy = FairPCA(2).partial_fit(X, sensitive_features=sex)
    copy = pickle.loads(pickle.dumps(lazy))
    np.testing.assert_array_equal(copy.components_, lazy.components_)
    assert copy.certificate_ == lazy.certificate_


def test_read_only_and_strided_input_is_untouched(people):
    X, sex, _, _ = people
    wide = np.repeat(X, 2, axis=1)
    before = wide.copy()
    view = wide[:, ::2]
    view.flags.writeable = False
    np.testing.assert_allclose(
        FairPCA(2).fit(view, sensitive_features=sex).components_,
        FairPCA(2).fit(X, sensitive_features=sex).components_,
        atol=1e-12,
    )
    np.testing.assert_array_equal(wide, before)


class TestRouting:
    """Groups and weights through pipelines and searches."""

    @pytest.fixture(autouse=True)
    def _routing(self):
        with sklearn.config_context(enable_metadata_routing=True):
            yield

    @staticmethod
    def reducer(r=2):
        return FairPCA(r).set_fit_request(sensitive_features=True, sample_weight=True)

    def data(self):
        bunch = load_diabetes()
        sex = np.where(bunch.data[:, 1] > 0, "b", "a")
        weight = np.random.default_rng(0).uniform(0.5, 2, size=len(sex))
        return np.delete(bunch.data, 1, axis=1), bunch.target, sex, weight

    def test_pipeline(self):
        X, y, sex, weight = self.data()
        scaler = StandardScaler().set_fit_request(sample_weight=False)
        pipeline = Pipeline(
            [
                ("scale", scaler),
                ("pca", self.reducer()),
                ("fit", Ridge().set_fit_request(sample_weight=True)),
            ]
        )
        pipeline.fit(X, y, sensitive_features=sex, sample_weight=weight)
        direct = FairPCA(2).fit(
            StandardScaler().fit_transform(X), sensitive_features=sex, sample_weight=weight
        )
        np.testing.assert_allclose(pipeline["pca"].components_, direct.components_)
        assert pipeline["pca"].groups_ == ["a", "b"]

    def test_grid_search_and_cross_validate(self):
        X, y, sex, weight = self.data()
        # A scorer of its own: scikit-learn 1.6 does not route weights to a pipeline's score.
        scorer = get_scorer("r2").set_score_request(sample_weight=True)
        ridge = Ridge().set_fit_request(sample_weight=True)
        pipeline = Pipeline([("pca", self.reducer()), ("fit", ridge)])
        search = GridSearchCV(pipeline, {"pca__n_components": [1, 3]}, cv=3, scoring=scorer)
        search.fit(X, y, sensitive_features=sex, sample_weight=weight)
        assert search.best_estimator_["pca"].groups_ == ["a", "b"]
        scores = cross_validate(
            pipeline,
            X,
            y,
            cv=3,
            scoring=scorer,
            params={"sensitive_features": sex, "sample_weight": weight},
        )
        assert np.all(np.isfinite(scores["test_score"]))

    def test_feature_union_and_column_transformer(self):
        X, y, sex, weight = self.data()
        union = FeatureUnion([("one", self.reducer(1)), ("two", self.reducer(2))])
        assert union.fit_transform(X, y, sensitive_features=sex, sample_weight=weight).shape == (
            len(X),
            3,
        )
        columns = ColumnTransformer(
            [("fair", self.reducer(2), [0, 1, 2, 3])], remainder="passthrough"
        )
        columns.fit(X, y, sensitive_features=sex, sample_weight=weight)
        direct = FairPCA(2).fit(X[:, :4], sensitive_features=sex, sample_weight=weight)
        np.testing.assert_allclose(
            columns.named_transformers_["fair"].components_, direct.components_
        )


def good():
    rng = np.random.default_rng(0)
    return rng.normal(size=(12, 4)), np.array(["a", "b"] * 6)


X0, G0 = good()
BAD = {
    "NaN": (dict(X=np.where(X0 > 1, np.nan, X0)), {}, "Input X contains NaN"),
    "infinity": (dict(X=np.where(X0 > 1, np.inf, X0)), {}, "Input X contains infinity"),
    "one row": (dict(X=X0[:1], g=G0[:1]), {}, "1 sample.*needs at least 2.*more rows"),
    "r = 0": ({}, dict(n_components=0), r"n_components=0 must be between 1 and .* 4"),
    "r > n": ({}, dict(n_components=5), r"n_components=5 must be between 1 and .* 4"),
    "r float": ({}, dict(n_components=1.5), r"n_components=1.5.*between 0 and 1.*integer"),
    "r text": ({}, dict(n_components="two"), r"n_components='two' must be an integer"),
    "labels too short": (
        dict(g=G0[:7]),
        {},
        "sensitive_features has 7 rows in column .* but X has 12; pass one",
    ),
    "missing labels": (
        dict(g=[None, *G0[1:]]),
        {},
        "sensitive_features has 1 missing label.*first in row 1, counting from 1; fill them",
    ),
    "NaN label": (dict(g=np.r_[np.nan, np.zeros(11)]), {}, "1 missing label"),
    "negative weight": (dict(w=-np.ones(12)), {}, "sample_weight has a negative value, -1"),
    "zero weights": (dict(w=np.zeros(12)), {}, "sample_weight is zero for every row; give"),
    "NaN weight": (dict(w=np.full(12, np.nan)), {}, "sample_weight contains NaN"),
    "weights too short": (dict(w=np.ones(3)), {}, r"sample_weight has shape \(3,\) but X has 12"),
    "unknown criterion": ({}, dict(criterion="mean"), "criterion='mean' is not known; choose one"),
    "unknown group_by": ({}, dict(group_by="all"), "group_by='all' is not known; choose one of"),
    "bad tol": ({}, dict(tol=0), "tol=0 must be between 0 and 1"),
    "bad max_iter": ({}, dict(max_iter=0), "max_iter=0 must be at least 1"),
    "three-dimensional labels": (dict(g=np.zeros((12, 2, 2))), {}, "has 3 dimensions"),
    "ragged labels": (dict(g=[["a"], ["a", "b"]] * 6), {}, "cannot be compared .unhashable"),
    "unhashable label": (dict(g=[{"a": 1}] * 12), {}, "unhashable type"),
    "strings in X": (dict(X=np.full((12, 4), "one")), {}, "could not convert string to float"),
    "complex X": (dict(X=X0 + 1j), {}, "Complex data not supported"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named(case):
    data, params, message = BAD[case]
    model = FairPCA(**{"n_components": 2, **params})
    with pytest.raises(ValueError, match=f"(?s){message}"):
        model.fit(
            data.get("X", X0), sensitive_features=data.get("g", G0), sample_weight=data.get("w")
        )
    with pytest.raises(NotFittedError):
        model.transform(X0)


def test_transform_with_other_columns():
    model = FairPCA(2).fit(X0, sensitive_features=G0)
    with pytest.raises(ValueError, match="X has 3 features, but FairPCA is expecting 4"):
        model.transform(X0[:, :3])
    with pytest.raises(ValueError, match="inverse_transform needs 2 columns"):
        model.inverse_transform(X0)
    frame = pd.DataFrame(X0, columns=list("abcd"))
    named = FairPCA(2).fit(frame, sensitive_features=G0)
    with pytest.raises(ValueError, match="feature names"):
        named.transform(frame.rename(columns={"a": "z"}))


def test_failed_refit_keeps_the_old_projection():
    model = FairPCA(2).fit(X0, sensitive_features=G0)
    before = model.components_
    with pytest.raises(ValueError, match="missing label"):
        model.fit(X0, sensitive_features=[None] * 12)
    np.testing.assert_array_equal(model.components_, before)


def test_no_warning_on_an_ordinary_fit():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        X = np.random.default_rng(0).normal(size=(3000, 3)) * [3, 2, 1]
        FairPCA(2).fit(X, sensitive_features=np.arange(3000) % 2)
