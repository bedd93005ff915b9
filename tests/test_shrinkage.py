"""Shrinkage: what its ends are, that it merges, and when the centre does not matter."""

from __future__ import annotations

import warnings
from functools import reduce

import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
from hypothesis import given, settings
from hypothesis import strategies as st

import fairpca
from fairpca import FairPCA, GroupMoments, NoisyGroupWarning
from fairpca.shrinkage import loss_of_chance

CENTERS = ("global", "group")


@st.composite
def tables(draw, same_means=False):
    """Rows with a decaying spectrum, labels of two to four groups, a rank."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, k = draw(st.integers(3, 8)), draw(st.integers(2, 4))
    counts = [draw(st.integers(4, 60)) for _ in range(k)]
    parts = []
    for m in counts:
        rows = rng.normal(size=(m, n)) * np.exp(-rng.permutation(n)) + 2 * rng.normal(size=n)
        parts.append(rows - rows.mean(axis=0) if same_means else rows)
    labels = np.repeat(np.arange(k), counts)
    return np.concatenate(parts), labels, draw(st.integers(1, n - 1))


def projector(model):
    return model.components_.T @ model.components_


def captured(rows, model):
    """Variance of centred rows that the projection keeps, whatever the basis inside it."""
    return float(np.sum((rows @ model.components_.T) ** 2))


@settings(max_examples=40, deadline=None)
@given(tables(), st.sampled_from(CENTERS), st.sampled_from(["loss", "relative", "share"]))
@pytest.mark.filterwarnings("ignore")
def test_zero_is_the_plain_fit(table, center, criterion):
    X, labels, r = table
    plain = FairPCA(r, center=center, criterion=criterion).fit(X, sensitive_features=labels)
    zero = FairPCA(r, center=center, criterion=criterion, shrinkage=0.0)
    zero.fit(X, sensitive_features=labels)
    np.testing.assert_array_equal(projector(zero), projector(plain))
    assert zero.certificate_ == plain.certificate_
    assert not zero.shrinkage_.any()


@settings(max_examples=40, deadline=None)
@given(tables(), st.sampled_from(CENTERS))
@pytest.mark.filterwarnings("ignore")
def test_one_has_all_groups_alike(table, center):
    X, labels, r = table
    model = FairPCA(r, center=center, shrinkage=1.0).fit(X, sensitive_features=labels)
    rows = X - X.mean(axis=0)
    if center == "group":
        rows = X - np.array([X[labels == g].mean(axis=0) for g in labels])
    best = float(np.sum(np.linalg.svd(rows, compute_uv=False)[:r] ** 2))
    assert captured(rows, model) == pytest.approx(best, rel=1e-10)


@settings(max_examples=40, deadline=None)
@given(tables(), st.sampled_from(CENTERS), st.integers(0, 2**32 - 1))
@pytest.mark.filterwarnings("ignore")
def test_auto_does_not_depend_on_the_order_of_merging(table, center, seed):
    X, labels, r = table
    rng = np.random.default_rng(seed)
    whole = FairPCA(r, center=center, shrinkage="auto").fit(X, sensitive_features=labels)
    piece = rng.integers(0, 4, len(X))
    parts = [
        GroupMoments.from_array(X[piece == i], labels[piece == i])
        for i in rng.permutation(4)
        if np.any(piece == i)
    ]
    merged = FairPCA(r, center=center, shrinkage="auto")
    merged.fit_moments(reduce(GroupMoments.merge, parts))
    np.testing.assert_allclose(merged.shrinkage_, whole.shrinkage_, rtol=0, atol=1e-9)


@settings(max_examples=40, deadline=None)
@given(tables(same_means=True), st.sampled_from([None, 0.4, "auto"]))
@pytest.mark.filterwarnings("ignore")
def test_the_centre_does_not_matter_where_means_agree(table, shrinkage):
    X, labels, r = table
    about = {
        center: FairPCA(r, center=center, shrinkage=shrinkage).fit(X, sensitive_features=labels)
        for center in CENTERS
    }
    values = [model.certificate_.value for model in about.values()]
    assert values[0] == pytest.approx(values[1], rel=1e-9, abs=1e-9 * X.var(axis=0).sum())
    for name in ("group_errors_", "shrinkage_"):
        first, second = (getattr(model, name) for model in about.values())
        if name == "shrinkage_" or all(m.certificate_.optimal for m in about.values()):
            np.testing.assert_allclose(first, second, rtol=1e-6, atol=1e-8 * X.var(axis=0).sum())


def with_few(rng, rows, *, mean=0.0, spread=None):
    """2,000 rows with a decaying spectrum, and a few with another mean or another spread."""
    usual = np.exp(-np.arange(12) / 4)
    X = rng.normal(size=(2000 + rows, 12)) * usual
    X[2000:] = rng.normal(size=(rows, 12)) * (usual if spread is None else spread)
    X[2000:, -1] += mean
    return X, np.repeat(["many", "few"], [2000, rows])


@pytest.mark.parametrize("rows", [20, 50, 200])
class TestAuto:
    """How far "auto" moves a small group: by its size, unless it is known to differ."""

    def share(self, X, labels):
        model = FairPCA(3, shrinkage="auto").fit(X, sensitive_features=labels)
        few, many = model.shrinkage_
        assert 0 <= many < 0.01
        return few * (1 + (np.sum(labels == "few") / 150) ** 2)

    def test_rows_like_all_others_are_taken_for_noise(self, rows):
        assert self.share(*with_few(np.random.default_rng(rows), rows)) == pytest.approx(1)

    def test_a_mean_of_its_own_is_believed(self, rows):
        assert self.share(*with_few(np.random.default_rng(rows), rows, mean=1.5)) < 0.1

    def test_a_loss_far_beyond_chance_is_believed(self, rows):
        spread = 3 * np.exp(-np.arange(12)[::-1])
        found = self.share(*with_few(np.random.default_rng(rows), rows, spread=spread))
        assert found < (0.02 if rows == 200 else 1.0)


@pytest.mark.parametrize("center", CENTERS)
def test_auto_is_the_same_on_every_road(center):
    rng = np.random.default_rng(0)
    X, labels = with_few(rng, 40, mean=1.0)
    options = {"center": center, "shrinkage": "auto"}
    usual = FairPCA(3, **options).fit(X, sensitive_features=labels)
    products = FairPCA(3, **options).fit(
        scipy.sparse.linalg.aslinearoperator(X), sensitive_features=labels
    )
    np.testing.assert_allclose(products.shrinkage_, usual.shrinkage_, rtol=0, atol=1e-9)
    wide = rng.normal(size=(60, 1500)) * np.exp(-np.arange(1500) / 20)
    groups = np.repeat(["a", "b"], [40, 20])
    dense = FairPCA(3, **options).fit(wide, sensitive_features=groups)
    sparse = FairPCA(3, **options).fit(scipy.sparse.csr_array(wide), sensitive_features=groups)
    np.testing.assert_allclose(sparse.shrinkage_, dense.shrinkage_, rtol=0, atol=1e-8)


def test_a_path_has_for_every_rank_what_a_fit_has():
    X, labels = with_few(np.random.default_rng(3), 40, mean=1.0)
    moments = GroupMoments.from_array(X, labels)
    path = fairpca.component_path(moments, shrinkage="auto", max_components=4)
    for r in (1, 4):
        model = FairPCA(r, shrinkage="auto").fit_moments(moments)
        np.testing.assert_allclose(path.losses[r - 1], model.group_losses_, atol=1e-8)
        np.testing.assert_allclose(path.shrinkage[r - 1], model.shrinkage_, atol=1e-12)


def small_group(rng, rows, different):
    """2,000 rows with a decaying spectrum, and a few that are like them or are not."""
    return with_few(rng, rows, spread=np.exp(-np.arange(12)[::-1] / 4) if different else None)


@pytest.mark.parametrize("rows", [20, 50, 200, 900])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_fit_that_rests_on_noise_warns_and_names_the_group(rows, seed):
    X, labels = small_group(np.random.default_rng(seed), rows, different=False)
    with pytest.warns(NoisyGroupWarning, match=rf"'few' \({rows} rows\).*shrinkage='auto'"):
        FairPCA(3).fit(X, sensitive_features=labels)


@pytest.mark.parametrize("rows", [50, 200, 900])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_group_that_differs_is_no_noise(rows, seed):
    X, labels = small_group(np.random.default_rng(seed), rows, different=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FairPCA(3).fit(X, sensitive_features=labels)


@pytest.mark.parametrize(
    "options", [{"shrinkage": "auto"}, {"shrinkage": 0.5}, {"criterion": "error"}]
)
def test_only_losses_of_the_rows_themselves_are_suspected(options):
    X, labels = small_group(np.random.default_rng(0), 20, different=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error", NoisyGroupWarning)
        FairPCA(3, **options).fit(X, sensitive_features=labels)


def test_moments_and_wide_rows_warn_too():
    rng = np.random.default_rng(0)
    X, labels = small_group(rng, 20, different=False)
    with pytest.warns(NoisyGroupWarning):
        FairPCA(3).fit_moments(GroupMoments.from_array(X, labels))
    wide = rng.normal(size=(60, 200))
    with pytest.warns(NoisyGroupWarning):
        FairPCA(3).fit(wide, sensitive_features=np.repeat(["a", "b"], [40, 20]))


def test_where_nobody_loses_nothing_rests_on_noise():
    rng = np.random.default_rng(0)
    X = np.zeros((60, 8))
    X[:, :3] = rng.normal(size=(60, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FairPCA(4).fit(X, sensitive_features=["a"] * 40 + ["b"] * 20)


def test_loss_of_chance_is_what_random_rows_show():
    # The truth: 40 rows from the same distribution as everybody's, against the known best basis.
    rng = np.random.default_rng(0)
    variances, r, rows = np.array([9.0, 5.0, 2.0, 1.0, 0.5, 0.25]), 2, 40
    gained, lost = [], []
    for _ in range(400):
        X = rng.normal(size=(rows, 6)) * np.sqrt(variances)
        values, vectors = np.linalg.eigh(X.T @ X / rows)
        gained.append(values[-r:].sum() - (X[:, :r] ** 2).sum() / rows)
        own = vectors[:, -r:]
        lost.append(variances[:r].sum() - np.einsum("ir,i,ir->", own, variances, own))
    stated = loss_of_chance(variances[None], np.array([rows]), r)[0]
    assert stated == pytest.approx(np.mean(gained) + np.mean(lost), rel=0.25)


def test_the_warning_has_a_public_name():
    assert issubclass(fairpca.NoisyGroupWarning, UserWarning)
