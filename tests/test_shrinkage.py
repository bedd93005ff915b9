"""Shrinkage: what its ends are, what left-out rows tell, and when `fit` warns of noise."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

import fairpca
from fairpca import FairPCA, GroupMoments, NoisyGroupWarning
from fairpca.moments.groups import row_folds
from fairpca.shrinkage import held_out_shares

CENTERS = ("global", "group")


@st.composite
def tables(draw):
    """Rows with a decaying spectrum, labels of two to four groups, a rank."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n, k = draw(st.integers(3, 8)), draw(st.integers(2, 4))
    counts = [draw(st.integers(4, 60)) for _ in range(k)]
    parts = [
        rng.normal(size=(m, n)) * np.exp(-rng.permutation(n)) + 2 * rng.normal(size=n)
        for m in counts
    ]
    return np.concatenate(parts), np.repeat(np.arange(k), counts), draw(st.integers(1, n - 1))


def projector(model):
    return model.components_.T @ model.components_


def in_folds(X, labels, fold):
    return [GroupMoments.from_array(X[fold == j], labels[fold == j]) for j in np.unique(fold)]


@settings(max_examples=10)
@given(tables(), st.sampled_from(CENTERS), st.sampled_from(["loss", "relative", "share"]))
@pytest.mark.filterwarnings("ignore")
def test_zero_is_the_plain_fit_and_one_has_all_groups_alike(table, center, criterion):
    X, labels, r = table
    options = {"center": center, "criterion": criterion}
    plain = FairPCA(r, **options).fit(X, sensitive_features=labels)
    zero = FairPCA(r, shrinkage=0.0, **options).fit(X, sensitive_features=labels)
    np.testing.assert_array_equal(projector(zero), projector(plain))
    assert zero.certificate_ == plain.certificate_
    one = FairPCA(r, shrinkage=1.0, **options).fit(X, sensitive_features=labels)
    means = np.array([X[labels == g].mean(axis=0) for g in labels])
    rows = X - (means if center == "group" else X.mean(axis=0))
    best = np.sum(np.linalg.svd(rows, compute_uv=False)[:r] ** 2)
    assert np.sum((rows @ one.components_.T) ** 2) == pytest.approx(best, rel=1e-9)


def shares_of_rows(X, labels, fold, r, center):
    """Return the shares by their definition, from rows."""
    means = np.array([X[labels == g].mean(axis=0) for g in range(labels.max() + 1)])
    Y = X - (means[labels] if center == "group" else X.mean(axis=0))

    def top(matrix):
        return np.linalg.eigh(matrix)[1][:, -r:]

    found, pca = [], top(Y.T @ Y)
    for g in range(labels.max() + 1):
        mine = Y[labels == g]
        own = np.sum(np.linalg.svd(mine, compute_uv=False)[:r] ** 2)
        loss = (own - np.sum((mine @ pca) ** 2)) / len(mine)
        gains, sizes = [], []
        for j in range(5):
            new, seen = Y[(labels == g) & (fold == j)], Y[(labels == g) & (fold != j)]
            if not len(new):
                continue
            rest = Y[fold != j]
            kept = np.sum((new @ top(rest.T @ rest)) ** 2)
            mixes = [seen.T @ seen + a * rest.T @ rest / len(rest) for a in (0, 400, 2000)]
            gains.append([(np.sum((new @ top(mix)) ** 2) - kept) / len(new) for mix in mixes])
            sizes.append(len(new))
        gains, w = np.array(gains), np.array(sizes)[:, None] / sum(sizes)
        mean = np.sum(w * gains, axis=0)
        error = np.sqrt(np.sum(w * (gains - mean) ** 2, axis=0) / (len(sizes) - 1))
        believed = np.clip((mean - error).max() / loss, 0, 1) / (1 + (50 / len(mine)) ** 4)
        found.append((1 - believed) ** 3)
    return found


@pytest.mark.parametrize("center", CENTERS)
@pytest.mark.parametrize("seed", range(4))
def test_shares_are_what_left_out_rows_say(center, seed):
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat([0, 1, 2], [200, 80, 30]))
    X = rng.normal(size=(310, 6)) * rng.uniform(0.5, 3, (3, 6))[labels] + labels[:, None]
    fold = rng.integers(5, size=310)
    expected = shares_of_rows(X, labels, fold, 2, center)
    found = held_out_shares(in_folds(X, labels, fold), 2, center=center)
    np.testing.assert_allclose(found, expected, atol=1e-7)


def with_few(rng, rows, spread=None, many=2000):
    """Rows with a decaying spectrum, and a few that have it too or have another."""
    usual = np.exp(-np.arange(12) / 4)
    X = rng.normal(size=(many + rows, 12)) * usual
    X[many:] = rng.normal(size=(rows, 12)) * (usual if spread is None else spread)
    order = rng.permutation(len(X))
    return X[order], np.repeat(["many", "few"], [many, rows])[order]


@pytest.mark.parametrize("rows", [50, 200, 1000])
@pytest.mark.parametrize("heavy", [False, True])
def test_groups_dealt_at_random_are_noise(rows, heavy):
    rng = np.random.default_rng(rows)
    X, labels = with_few(rng, rows)
    if heavy:
        X = X * rng.standard_t(2.5, size=(len(X), 1))
    auto = FairPCA(3, shrinkage="auto").fit(X, sensitive_features=labels)
    assert auto.shrinkage_[0] > 0.5


@pytest.mark.parametrize("rows", [50, 200, 1000])
def test_a_group_that_differs_is_believed(rows):
    X, labels = with_few(np.random.default_rng(rows), rows, np.exp(-np.arange(12)[::-1] / 4))
    auto = FairPCA(3, shrinkage="auto").fit(X, sensitive_features=labels)
    # Of what 50 rows say half is believed.
    assert auto.shrinkage_[0] < (0.25 if rows == 50 else 0.02)


def test_fewer_than_a_dozen_rows_are_not_asked():
    shares = []
    for rows in (11, 12):
        X, labels = with_few(np.random.default_rng(0), rows, np.exp(-np.arange(12)[::-1] / 4))
        shares.append(FairPCA(3, shrinkage="auto").fit(X, sensitive_features=labels).shrinkage_[0])
    assert shares[0] == 1 > shares[1] > 0.98


@pytest.mark.parametrize("seed", range(3))
def test_rounding_does_not_choose_components_that_a_group_lacks_rows_for(seed):
    rng, usual = np.random.default_rng(seed), np.exp(-np.arange(60) / 15)
    X, labels = rng.normal(size=(340, 60)) * usual, np.repeat(["many", "few"], [300, 40])
    X[300:] = 0.01 * X[300:, ::-1]
    turned = X @ np.linalg.qr(rng.normal(size=(60, 60)))[0]
    found, other = (clone_fit(FairPCA(36, shrinkage="auto"), Z, labels) for Z in (X, turned))
    assert found.shrinkage_[0] < 1
    np.testing.assert_allclose(found.shrinkage_, other.shrinkage_, atol=1e-9)


def test_rows_and_moments_of_their_folds_have_the_same_shares():
    X, labels = with_few(np.random.default_rng(0), 60)
    of_rows = FairPCA(3, shrinkage="auto").fit(X, sensitive_features=labels)
    folds = in_folds(X, labels, row_folds(0, len(X), 5))
    of_moments = FairPCA(3, shrinkage="auto").fit_moments(folds)
    np.testing.assert_allclose(of_moments.shrinkage_, of_rows.shrinkage_, atol=1e-9)
    weight = (np.arange(len(X)) % 3 > 0).astype(float)
    some = FairPCA(3, shrinkage="auto")
    weighted = clone_fit(some, X, labels, sample_weight=weight)
    kept = weight > 0
    np.testing.assert_allclose(
        weighted.shrinkage_, clone_fit(some, X[kept], labels[kept]).shrinkage_, atol=1e-9
    )
    sparse = clone_fit(some, scipy.sparse.csr_array(X), labels)
    np.testing.assert_allclose(sparse.shrinkage_, of_rows.shrinkage_, atol=1e-8)


def clone_fit(model, X, labels, **options):
    return FairPCA(**model.get_params()).fit(X, sensitive_features=labels, **options)


def test_auto_needs_rows_or_folds():
    X, labels = with_few(np.random.default_rng(0), 60)
    moments = GroupMoments.from_array(X, labels)
    with pytest.raises(ValueError, match="moments in folds"):
        FairPCA(3, shrinkage="auto").fit_moments(moments)
    with pytest.raises(ValueError, match="pass GroupMoments"):
        fairpca.solve(moments.covariances, 3, shrinkage="auto")
    # A group of one row is in one fold, so nothing is known about it.
    labels = np.where(np.arange(len(labels)) == 7, "one", labels)
    model = FairPCA(3, shrinkage="auto").fit(X, sensitive_features=labels)
    assert model.shrinkage_[model.groups_.index("one")] == 1


@pytest.mark.parametrize(("rows", "seed"), [(20, 0), (50, 1), (200, 2), (900, 0)])
def test_a_fit_that_rests_on_noise_warns_and_names_the_group(rows, seed):
    X, labels = with_few(np.random.default_rng(seed), rows)
    with pytest.warns(NoisyGroupWarning, match=rf"'few' \({rows} rows\).*shrinkage='auto'"):
        FairPCA(3).fit(X, sensitive_features=labels)


@pytest.mark.parametrize(("rows", "seed"), [(50, 0), (200, 1), (900, 2)])
def test_a_group_that_differs_is_no_noise(rows, seed):
    X, labels = with_few(np.random.default_rng(seed), rows, np.exp(-np.arange(12)[::-1] / 4))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FairPCA(3).fit(X, sensitive_features=labels)


@pytest.mark.parametrize(
    "options", [{"shrinkage": "auto"}, {"shrinkage": 0.5}, {"criterion": "error"}]
)
def test_only_losses_of_the_rows_themselves_are_suspected(options):
    X, labels = with_few(np.random.default_rng(0), 20)
    with warnings.catch_warnings():
        warnings.simplefilter("error", NoisyGroupWarning)
        FairPCA(3, **options).fit(X, sensitive_features=labels)


def test_where_nobody_loses_nothing_rests_on_noise():
    X = np.zeros((60, 8))
    X[:, :3] = np.random.default_rng(0).normal(size=(60, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        FairPCA(4).fit(X, sensitive_features=["a"] * 40 + ["b"] * 20)
