"""Every pair of groups apart: shares, certificate, parts of a table, new rows, numbers."""

import itertools
import time
from functools import cache

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.datasets import load_digits, load_iris
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import recall_score
from sklearn.model_selection import train_test_split

from fairpca import GroupMoments, MaxMinDistanceAnalysis
from fairpca.persistence import load_model, save_model
from fairpca.separation import keep_apart

SHAPES = {"tall": (90, 8), "wide": (40, 70)}


def blobs(shape, k=5, seed=0):
    """Rows of k groups of different sizes, correlated, and a weight for each."""
    rng = np.random.default_rng(seed)
    m, n = shape
    y = np.sort(np.concatenate([np.repeat(np.arange(k), 2), rng.integers(k, size=m - 2 * k)]))
    X = rng.normal(size=(m, n)) @ rng.normal(size=(n, n)) + 3 * rng.normal(size=(k, n))[y] + 5
    return X, np.array([f"g{c}" for c in y]), rng.integers(1, 4, size=m).astype(float)


def by_definition(X, y, weight, model):
    """Return the share that a model keeps of every distance, counted from rows in plain steps."""
    names, n = np.unique(y), X.shape[1]
    means = np.array([np.average(X[y == g], axis=0, weights=weight[y == g]) for g in names])
    W = np.eye(n)
    if model.within == "pooled":
        rest = X - means[np.searchsorted(names, y)]
        C = (weight[:, None] * rest).T @ rest / (weight.sum() - len(names))
        W = (1 - model.shrinkage_) * C + model.shrinkage_ * np.trace(C) / n * np.eye(n)
    U, shares = model.components_, np.ones((len(names),) * 2)
    np.testing.assert_allclose(U @ W @ U.T, np.eye(len(U)), atol=1e-9)
    for i, j in itertools.permutations(range(len(names)), 2):
        d = means[i] - means[j]
        shares[i, j] = np.sum((U @ d) ** 2) / (d @ np.linalg.solve(W, d))
    return shares


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("options", [{}, {"within": "identity"}, {"shrinkage": 0.3}], ids=str)
@pytest.mark.parametrize("weighted", [False, True])
def test_pair_shares_are_those_of_the_definition(shape, options, weighted):
    X, y, weight = blobs(SHAPES[shape])
    weight = weight if weighted else np.ones(len(y))
    model = MaxMinDistanceAnalysis(2, **options).fit(X, y, weight if weighted else None)
    expected = by_definition(X, y, weight, model)
    np.testing.assert_allclose(model.pair_shares_, expected, atol=1e-9)
    assert model.certificate_.value == pytest.approx(1 - expected.min(), abs=1e-9)
    assert 0 <= model.certificate_.lower_bound <= model.certificate_.value
    np.testing.assert_allclose(model.mean_, np.average(X, axis=0, weights=weight), atol=1e-12)


def assert_same(one, other, tol=1e-8):
    assert list(one.classes_) == list(other.classes_)
    np.testing.assert_allclose(one.components_, other.components_, atol=tol)
    np.testing.assert_allclose(one.pair_shares_, other.pair_shares_, atol=tol)
    assert one.shrinkage_ == pytest.approx(other.shrinkage_, abs=tol)


@cache
def fitted(shape, within):
    return MaxMinDistanceAnalysis(2, within=within).fit(*blobs(SHAPES[shape]))


@pytest.mark.parametrize("within", ["pooled", "identity"])
@pytest.mark.parametrize("shape", SHAPES)
class TestPartsAreTheWhole:
    @pytest.fixture
    def table(self, shape):
        return blobs(SHAPES[shape])

    @pytest.fixture
    def whole(self, shape, within):
        return fitted(shape, within)

    def test_repeated_rows(self, table, whole, within):
        X, y, weight = table
        times = weight.astype(int)
        again = MaxMinDistanceAnalysis(2, within=within).fit(X.repeat(times, 0), y.repeat(times))
        assert_same(again, whole)

    @pytest.mark.parametrize("kind", [scipy.sparse.csr_array, scipy.sparse.csc_matrix])
    def test_sparse_rows(self, table, whole, within, kind):
        X, y, weight = table
        rows = kind(X)
        again = MaxMinDistanceAnalysis(2, within=within).fit(rows, y, weight)
        assert_same(again, whole)
        np.testing.assert_allclose(again.transform(rows), whole.transform(X), atol=1e-8)

    def test_rows_of_weight_zero_are_no_rows(self, table, whole, within):
        X, y, weight = table
        more, labels = np.vstack([X, X[:3] + 9]), np.append(y, ["g0", "other", "other"])
        model = MaxMinDistanceAnalysis(2, within=within)
        assert_same(model.fit(more, labels, np.append(weight, [0, 0, 0])), whole)

    def test_batches_and_moments(self, table, whole, within):
        X, y, weight = table
        model = MaxMinDistanceAnalysis(2, within=within)
        half = len(y) // 2
        first = GroupMoments.from_array(X[:half], y[:half], sample_weight=weight[:half])
        second = GroupMoments.from_array(X[half:], y[half:], sample_weight=weight[half:])
        assert_same(model.fit_moments(second.merge(first)), whole)
        model = MaxMinDistanceAnalysis(2, within=within)
        model.partial_fit(X[:half], y[:half], sample_weight=weight[:half])
        model.partial_fit(X[half:], y[half:], sample_weight=weight[half:])
        assert_same(model, whole)

    def test_dask(self, table, whole, within):
        X, y, weight = table
        array = pytest.importorskip("dask.array").from_array(X, chunks=(17, X.shape[1]))
        assert_same(MaxMinDistanceAnalysis(2, within=within).fit(array, y, weight), whole)

    def test_float32(self, table, whole, within):
        X, y, weight = table
        again = MaxMinDistanceAnalysis(2, within=within).fit(X.astype(np.float32), y, weight)
        assert_same(again, whole, tol=1e-3)
        assert again.transform(X.astype(np.float32)).dtype == np.float32


def test_partial_fit_goes_on_from_a_fit_of_long_rows_only():
    X, y, _ = blobs(SHAPES["tall"])
    model = MaxMinDistanceAnalysis(2).fit(X[:50], y[:50]).partial_fit(X[50:], y[50:])
    assert_same(model, MaxMinDistanceAnalysis(2).fit(X, y))
    X, y, _ = blobs(SHAPES["wide"])
    with pytest.raises(ValueError, match="count all rows"):
        MaxMinDistanceAnalysis(2).fit(X, y).partial_fit(X, y)


class TestSpecialCases:
    @pytest.mark.parametrize("within", ["pooled", "identity"])
    @pytest.mark.parametrize("shape", SHAPES)
    def test_all_directions_keep_all_and_give_the_means_back(self, shape, within):
        X, y, _ = blobs(SHAPES[shape])
        for r in (None, 4, 30):
            model = MaxMinDistanceAnalysis(r, within=within).fit(X, y)
            assert model.n_components_ == 4
            np.testing.assert_allclose(model.pair_shares_, 1)
            assert model.certificate_.value == model.certificate_.gap == 0
            means = model.inverse_transform(model.transform(model.means_))
            np.testing.assert_allclose(means, model.means_, atol=1e-8)

    def test_two_groups_have_the_direction_of_discriminant_analysis(self):
        X, y = load_iris(return_X_y=True)
        X, y = X[50:], y[50:]
        model = MaxMinDistanceAnalysis(shrinkage=0.0).fit(X, y)
        scalings = LinearDiscriminantAnalysis(solver="eigen").fit(X, y).scalings_[:, 0]
        cosine = model.components_[0] @ scalings / np.linalg.norm(scalings)
        assert abs(cosine) == pytest.approx(np.linalg.norm(model.components_[0]))
        np.testing.assert_allclose(model.pair_shares_, 1)

    @pytest.mark.parametrize("within", ["pooled", "identity"])
    def test_one_group_or_the_same_means(self, within):
        X, y, _ = blobs(SHAPES["tall"], k=3)
        model = MaxMinDistanceAnalysis(1, within=within)
        with pytest.raises(ValueError, match="one class"):
            model.fit(X, np.zeros(len(X)))
        rows = np.round(X)
        with pytest.raises(ValueError, match="the same mean"):
            model.fit(np.vstack([rows, rows]), np.repeat([0, 1], len(X)))
        # Two groups of three with one mean: nothing of their distance can be lost.
        both = np.append(y, np.full(sum(y == "g0"), "h0"))
        model.fit(np.vstack([X, X[y == "g0"]]), both)
        assert model.pair_shares_[0, 3] == 1
        assert 0 < model.pair_shares_.min() < 1

    @pytest.mark.parametrize("within", ["pooled", "identity"])
    def test_groups_of_one_row(self, within):
        X = np.random.default_rng(0).normal(size=(6, 9))
        model = MaxMinDistanceAnalysis(2, within=within).fit(X, np.arange(6))
        assert np.array_equal(model.predict(X), np.arange(6))
        expected = MaxMinDistanceAnalysis(2, within="identity").fit(X, np.arange(6))
        np.testing.assert_allclose(model.pair_shares_, expected.pair_shares_)

    def test_what_makes_no_sense_is_refused(self):
        X, y, _ = blobs(SHAPES["wide"])
        for options, said in (
            ({"within": "total"}, "within='total'"),
            ({"n_components": 0}, "n_components=0"),
            ({"shrinkage": 2}, "shrinkage=2"),
            ({"shrinkage": 0.0}, "has no inverse"),
        ):
            with pytest.raises(ValueError, match=said):
                MaxMinDistanceAnalysis(**options).fit(X, y)
        with pytest.raises(ValueError, match="n_folds=1"):
            MaxMinDistanceAnalysis().new_rows(X, y, n_folds=1)


class TestCertificate:
    def test_three_lines(self):
        # At 0, 60 and 120 degrees a line keeps a quarter at most, and the relaxation a half.
        angles = np.pi / 3 * np.arange(3)
        lines = np.column_stack([np.cos(angles), np.sin(angles)])
        _, certificate = keep_apart(lines, 1)
        assert certificate.value == pytest.approx(0.75, abs=1e-9)
        assert certificate.lower_bound == pytest.approx(0.5, abs=1e-6)
        _, certificate = keep_apart(lines, 1, prove=True)
        assert certificate.lower_bound == pytest.approx(0.75, abs=1e-6)

    @settings(max_examples=5)
    @given(st.integers(2, 4), st.integers(0, 10**6))
    def test_no_basis_is_below_the_bound(self, r, seed):
        rng = np.random.default_rng(seed)
        lines = rng.normal(size=(12, 6)) * np.geomspace(1, 5, 6)
        lines /= np.linalg.norm(lines, axis=1, keepdims=True)
        basis, certificate = keep_apart(lines, r)
        np.testing.assert_allclose(basis.T @ basis, np.eye(r), atol=1e-12)
        lost = 1 - np.sum((lines @ basis) ** 2, axis=1).min()
        assert certificate.value == pytest.approx(lost, abs=1e-12)
        others = np.linalg.qr(rng.normal(size=(300, 6, r)))[0]
        assert (1 - np.sum((lines @ others) ** 2, axis=2).min(axis=1)).min() >= certificate.value
        assert certificate.lower_bound <= certificate.value


class TestNewRows:
    def test_noise_is_told_from_distance(self):
        # Three groups differ, and two more only seem to: ten rows each in 300 columns.
        rng = np.random.default_rng(1)
        y = np.repeat(np.arange(5), 10)
        X = rng.normal(size=(50, 300))
        X[:, :2] += 12 * np.array([[0, 0], [1, 0], [0, 1], [0, 0], [0, 0]])[y]
        model = MaxMinDistanceAnalysis(2)
        assert model.fit(X, y).pair_shares_.min() > 0.4
        found = model.new_rows(X, y)
        np.testing.assert_allclose(found.confusion.sum(axis=1), 1)
        assert found.recognised[[1, 2]].min() >= 0.9
        assert found.recognised[[0, 3, 4]].mean() < 0.6
        assert 0.3 < found.shares[1, 2] < 0.7

    @pytest.mark.slow
    def test_shares_have_no_bias(self):
        # All that the groups differ in lies in two columns, and all of that is kept.
        rng, k = np.random.default_rng(2), 4
        centres = 4 * np.array([[0, 0], [1, 0], [0, 1], [1, 1]])
        y, seen = np.repeat(np.arange(k), 12), []
        for _ in range(5):
            X = rng.normal(size=(len(y), 20))
            X[:, :2] += centres[y]
            seen.append(MaxMinDistanceAnalysis(2, within="identity").new_rows(X, y).shares)
        inside = np.mean(seen, axis=0)[np.triu_indices(k, 1)]
        assert inside.max() < 1.1
        assert inside.min() > 0.8

    def test_groups_too_small_to_be_left_out_in_halves(self):
        X, y, _ = blobs(SHAPES["tall"], k=3)
        y = np.append(["few", "few", "one"], y[3:])
        found = MaxMinDistanceAnalysis(1).new_rows(X, y, n_folds=3)
        one = list(found.classes).index("one")
        assert np.isnan(np.delete(found.shares[one], one)).all()
        assert found.recognised[one] == 0

    def test_means_of_few_rows_keep_their_own(self):
        rng, right = np.random.default_rng(3), []
        for _ in range(12):
            centres = np.array([[0.0, 0], [3, 0]])
            X = rng.normal(size=(104, 2)) + np.repeat(centres, [100, 4], axis=0)
            y = np.repeat([0, 1], [100, 4])
            model = MaxMinDistanceAnalysis(1).fit(X, y)
            new = rng.normal(size=(50, 2)) + centres[1]
            scores, means = model.transform(new), model.transform(model.means_)
            plain = np.abs(scores - means.T).argmin(axis=1)
            right.append([np.mean(model.predict(new) == 1), np.mean(plain == 1)])
        corrected, plain = np.mean(right, axis=0)
        assert corrected > plain + 0.005


@settings(max_examples=5)
@given(st.integers(0, 10**6))
def test_distances_within_the_pooled_covariance_do_not_know_units(seed):
    X, y, _ = blobs((60, 5), k=4, seed=seed)
    A = np.random.default_rng(seed).normal(size=(5, 5)) + 3 * np.eye(5)
    if np.linalg.cond(A) > 100:
        return
    one, other = (MaxMinDistanceAnalysis(2, shrinkage=0.0).fit(rows, y) for rows in (X, X @ A))
    np.testing.assert_allclose(one.distances_, other.distances_, rtol=1e-7, atol=1e-7)
    assert one.certificate_.value == pytest.approx(other.certificate_.value, abs=1e-5)


def test_stored_and_handed_on(tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y, weight = blobs(SHAPES["tall"])
    frame = pandas.DataFrame(X, columns=[f"v{j}" for j in range(X.shape[1])])
    model = MaxMinDistanceAnalysis(2).set_output(transform="pandas").fit(frame, y, weight)
    scores = model.transform(frame)
    assert list(scores.columns) == list(model.get_feature_names_out())
    save_model(tmp_path / "model.skops", model)
    again = load_model(tmp_path / "model.skops").model
    assert again.transform(frame).equals(scores)
    assert np.array_equal(again.predict(frame), model.predict(frame))
    np.testing.assert_allclose(model.to_sklearn().transform(frame), scores, atol=1e-10)


def test_scikit_learns_model_predicts_the_same_for_groups_of_one_size():
    X, y = load_iris(return_X_y=True)
    for rows in (slice(None), slice(50, None)):
        model = MaxMinDistanceAnalysis(1).fit(X[rows], y[rows])
        assert np.array_equal(model.to_sklearn().predict(X), model.predict(X))


class TestNumbersPromised:
    def test_digits_as_they_are(self):
        X, y = load_digits(return_X_y=True)
        for r, least in ((2, 0.168), (3, 0.4079), (5, 0.690)):
            model = MaxMinDistanceAnalysis(r, within="identity").fit(X, y)
            assert model.pair_shares_.min() >= least

    @pytest.mark.slow
    @pytest.mark.parametrize("r, mean, worst", [(3, 0.85, 0.66), (5, 0.92, 0.80)])
    def test_digits_left_out(self, r, mean, worst):
        X, y = load_digits(return_X_y=True)
        found = []
        for seed in range(5):
            parts = train_test_split(X, y, test_size=0.5, stratify=y, random_state=seed)
            train, test, labels, truth = parts
            lda = LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto").fit(train, labels)
            means = lda.means_ @ lda.scalings_[:, :r]
            far = ((test @ lda.scalings_[:, :r])[:, None] - means) ** 2
            guesses = [
                MaxMinDistanceAnalysis(r).fit(train, labels).predict(test),
                far.sum(axis=2).argmin(axis=1),
            ]
            recalls = [recall_score(truth, guess, average=None) for guess in guesses]
            found.append([[recall.mean(), recall.min()] for recall in recalls])
        ours, others = np.mean(found, axis=0)
        assert ours[0] >= mean
        assert ours[1] >= worst
        assert (ours > others).all()

    @pytest.mark.slow
    @pytest.mark.parametrize("k, n, seconds", [(26, 60, 4), (100, 60, 60)])
    def test_many_groups(self, k, n, seconds):
        rng = np.random.default_rng(0)
        y = np.repeat(np.arange(k), 20)
        X = rng.normal(size=(len(y), n)) + 2 * rng.normal(size=(k, n))[y]
        started = time.process_time()
        model = MaxMinDistanceAnalysis(5).fit(X, y)
        assert time.process_time() - started < seconds
        assert model.certificate_.gap < 1
