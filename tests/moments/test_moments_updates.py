"""Moments of columns, of standardised columns, of fading and of moving windows."""

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.preprocessing import StandardScaler

from fairpca import FairPCA, GroupMoments
from fairpca.io.preparation import prepare
from fairpca.moments.groups import Groups

seeds = st.integers(0, 2**31)


def assert_same(got, expected, rtol=1e-9, scale=None):
    assert got.labels == expected.labels
    np.testing.assert_array_equal(got.count, expected.count)
    np.testing.assert_allclose(got.weight, expected.weight, rtol=rtol)
    size = max(1.0, np.abs(expected.scatter).max(initial=0)) if scale is None else scale
    np.testing.assert_allclose(got.mean, expected.mean, rtol=rtol, atol=rtol)
    np.testing.assert_allclose(got.scatter, expected.scatter, rtol=rtol, atol=rtol * size)


class TestColumns:
    @given(
        seeds,
        st.integers(1, 300),
        st.integers(1, 7),
        st.sampled_from(["f8", "f4", "i4", "?"]),
        st.sampled_from([0.0, 1e4]),
        st.booleans(),
    )
    def test_columns_count_as_rows_do(self, seed, m, n, dtype, offset, weighted):
        rng = np.random.default_rng(seed)
        X = (rng.normal(size=(m, n)) * 5 + (offset if dtype[0] == "f" else 0)).astype(dtype)
        groups = Groups.from_labels(rng.integers(0, 4, size=m))
        weight = rng.uniform(0.1, 2, size=m) if weighted else None
        got = GroupMoments.from_columns(list(X.T), groups, sample_weight=weight)
        expected = GroupMoments.from_array(X.astype(float), groups, sample_weight=weight)
        assert_same(got, expected, rtol=1e-11)

    def test_many_blocks_and_a_large_mean(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(60_000, 3)) + np.array([0, 1e5, -1e3])
        labels = rng.choice(["a", "b", "c"], p=[0.9, 0.09, 0.01], size=len(X))
        groups = Groups.from_labels(labels)
        got = GroupMoments.from_columns(list(X.T), groups)
        assert_same(got, GroupMoments.from_array(X, labels), rtol=1e-12)

    def test_dictionaries_give_the_labels_of_memory(self):
        values = ["b", None, "a", "never", "b"]
        codes = np.array([0, 2, 4, 1, -1, 0])
        got = Groups.from_dictionaries({"g": (codes, values)}, unlabelled="ignore")
        expected = Groups.from_labels({"g": ["b", "a", "b", None, None, "b"]}, unlabelled="ignore")
        assert (got.labels, got.names) == (expected.labels, expected.names)
        np.testing.assert_array_equal(got.codes, expected.codes)
        np.testing.assert_array_equal(got.counts, expected.counts)


class TestStandardized:
    @given(seeds, st.sampled_from([0.0, 1e4]), st.booleans())
    def test_as_rows_standardised_first(self, seed, offset, weighted):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(50, 4)) * [1, 1e-3, 1e4, 1] + offset
        X[:, 3] = 0.1
        labels = rng.choice(["a", "b", None], size=50)
        weight = rng.integers(1, 4, size=50) if weighted else None
        moments = GroupMoments.from_array(X, labels, sample_weight=weight, unlabelled="ignore")
        got = moments.standardized()
        repeated = np.repeat(X, 1 if weight is None else weight, axis=0)
        scale = np.where(X.std(axis=0) < 1e-12, 1.0, repeated.std(axis=0))
        np.testing.assert_allclose(got.scale, scale, rtol=1e-9 if offset else 1e-12)
        rows = (X - repeated.mean(axis=0)) / scale
        rows[:, 3] = 0.0
        expected = GroupMoments.from_array(rows, labels, sample_weight=weight, unlabelled="ignore")
        # The offset costs the narrow column the digits it costs in memory too.
        assert_same(got.moments, expected, rtol=1e-6 if offset else 1e-12)

    def test_the_rule_of_the_preparation(self):
        pandas = pytest.importorskip("pandas")
        rng = np.random.default_rng(1)
        frame = pandas.DataFrame(rng.normal(size=(80, 3)) * [1, 10, 1], columns=list("abc"))
        frame["c"] = 1 / 3
        frame["d"] = 0.0
        preparation, prepared = prepare(frame, columns=list("abcd"))
        labels = rng.integers(0, 3, size=80)
        got = GroupMoments.from_array(frame.to_numpy(), labels).standardized()
        np.testing.assert_allclose(got.scale, [f.scale[0] for f in preparation.features])
        np.testing.assert_allclose(got.mean, [f.mean[0] for f in preparation.features])
        assert_same(got.moments, GroupMoments.from_array(prepared.X, labels), rtol=1e-12)


class TestDecay:
    def test_rows_of_less_weight(self):
        rng = np.random.default_rng(2)
        X, labels = rng.normal(size=(30, 3)), rng.choice(["a", "b"], size=30)
        old, new = (GroupMoments.from_array(X[i], labels[i]) for i in (slice(20), slice(20, 30)))
        weight = np.r_[np.full(20, 0.25), np.ones(10)]
        assert_same(
            old.decay(0.5).decay(0.5).merge(new),
            GroupMoments.from_array(X, labels, sample_weight=weight),
        )

    @pytest.mark.parametrize("factor", [0, -1, 1.5, float("nan")])
    def test_a_factor_is_a_share(self, factor):
        with pytest.raises(ValueError, match="above 0 and at most 1"):
            GroupMoments.from_array(np.eye(2)).decay(factor)


class TestSubtract:
    @given(seeds, st.integers(1, 30), st.integers(1, 30), st.booleans())
    def test_undoes_merge(self, seed, first, second, weighted):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(first + second, 3)) + 10
        labels = rng.choice(["a", "b", "c"], size=len(X))
        weight = rng.uniform(0.1, 2, size=len(X)) if weighted else np.ones(len(X))
        one, two = (
            GroupMoments.from_array(X[i], labels[i], sample_weight=weight[i])
            for i in (slice(first), slice(first, None))
        )
        whole = one.merge(two)
        left = whole.subtract(two)
        assert_same(left, one, scale=np.abs(whole.scatter).max() + 1e3)
        assert np.all(np.einsum("kii->ki", left.scatter) >= 0)

    @given(seeds, st.integers(1, 12))
    def test_a_moving_window_is_its_rows(self, seed, width):
        rng = np.random.default_rng(seed)
        blocks = [
            (rng.normal(size=(7, 3)) + 3, rng.choice(["a", "b", "c"], size=7)) for _ in range(20)
        ]
        counted = [GroupMoments.from_array(*block) for block in blocks]
        window = counted[0]
        for i in range(1, 20):
            window = window.merge(counted[i])
            if i >= width:
                window = window.subtract(counted[i - width])
        rows, labels = (np.concatenate(part) for part in zip(*blocks[-width:], strict=True))
        assert_same(window, GroupMoments.from_array(rows, labels), scale=100)

    @pytest.mark.parametrize("far", [0.0, 3.0, 1e4])
    def test_a_window_moves_on_for_long(self, far):
        """What rounding left of large rows was taken for rows that were never counted."""
        rng = np.random.default_rng(0)

        def block():
            X = rng.normal(size=(7, 3)) * [1, 1, 1e-3] + far
            X[:, 1] *= np.exp(3 * rng.normal(size=7))
            return GroupMoments.from_array(
                X, rng.choice(["a", "b", "c"], p=[0.85, 0.1, 0.05], size=7)
            )

        inside = [block()]
        window = inside[0]
        for _ in range(150):
            inside.append(block())
            window = window.merge(inside[-1])
            if len(inside) > 3:
                window = window.subtract(inside.pop(0))
        want = functools.reduce(GroupMoments.merge, inside)
        assert window.labels == want.labels
        np.testing.assert_array_equal(window.count, want.count)
        np.testing.assert_allclose(window.mean, want.mean, rtol=1e-6)

    def test_all_rows_may_go(self):
        moments = GroupMoments.from_array(np.eye(3), ["a", "b", "a"])
        assert moments.subtract(moments).labels == ()

    def test_a_column_left_constant_has_no_variance(self):
        rng = np.random.default_rng(3)
        varied, constant = rng.normal(size=(20, 2)) * 1e3, np.full((5, 2), 0.1)
        constant[:, 1] = np.arange(5)
        both = GroupMoments.from_array(varied).merge(GroupMoments.from_array(constant))
        left = both.subtract(GroupMoments.from_array(varied))
        assert np.all(left.scatter[0, 0] == 0)
        np.testing.assert_allclose(left.scatter[0, 1, 1], 10, rtol=1e-6)

    @pytest.mark.parametrize(
        "other, match",
        [
            (lambda X: GroupMoments.from_array(X, list("abc")), "'c' are not in the moments"),
            (lambda X: GroupMoments.from_array(np.vstack([X, X]), list("aaaaab")), "not among"),
            (lambda X: GroupMoments.from_array(X[:2] * 50, list("ab")), "not among"),
            (
                lambda X: GroupMoments.from_array(X[:1], ["a"], sample_weight=[2.5]),
                "not among",
            ),
            (lambda X: GroupMoments.from_array(X[:, :2], list("aab")), "3 and of 2 features"),
            (lambda X: GroupMoments.from_array(X, {"h": list("aab")}), "grouped by"),
        ],
    )
    def test_only_what_was_counted(self, other, match):
        X = np.random.default_rng(4).normal(size=(3, 3))
        with pytest.raises(ValueError, match=match):
            GroupMoments.from_array(X, list("aab")).subtract(other(X))


def test_folds_are_standardised_alike():
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(90, 4)) * [1, 10, 100, 1] + [5, 0, 0, 1], np.arange(90) % 3
    X[:, 3] = 7
    folds = [GroupMoments.from_array(X[i::2], labels[i::2]) for i in (0, 1)]
    whole = folds[0].merge(folds[1])
    alike = [fold.standardized(like=whole).moments for fold in folds]
    merged, wanted = alike[0].merge(alike[1]), whole.standardized().moments
    for name in ("weight", "mean", "scatter"):
        got = getattr(merged, name)
        np.testing.assert_allclose(got, getattr(wanted, name), rtol=1e-9, atol=1e-9)


def test_standardising_like_others_leaves_what_is_constant_only_there():
    rng = np.random.default_rng(1)
    X, labels = rng.normal(size=(60, 3)), np.arange(60) % 2
    training = X[:40].copy()
    training[:, 2] = 0.0
    like = GroupMoments.from_array(training, labels[:40])
    got = GroupMoments.from_array(X[40:], labels[40:]).standardized(like=like)
    rows = StandardScaler().fit(training).transform(X[40:])
    assert_same(got.moments, GroupMoments.from_array(rows, labels[40:]), rtol=1e-12)


def test_standardising_like_moments_of_other_columns_is_refused():
    X = np.random.default_rng(2).normal(size=(20, 3)) * [1, 10, 100]
    counted = GroupMoments.from_array(X, [0, 1] * 10)
    for other, match in (
        (counted.named("bac"), "column 1 is 'a' here and 'b' there"),
        (GroupMoments.from_array(X[:, :2], [0, 1] * 10), "3 and of 2 features"),
        (X, "a ndarray cannot be standardised alike"),
    ):
        with pytest.raises(ValueError, match=match):
            counted.named("abc").standardized(like=other)


def test_moments_of_no_rows_have_no_spread():
    counted = GroupMoments.from_array(np.eye(3), [0, 0, 1])
    nobody = counted.subtract(counted)
    assert nobody.pooled().count.tolist() == [0]
    assert nobody.standardized(like=counted).moments.labels == ()
    with pytest.raises(ValueError, match="0 sample"):
        FairPCA(1).fit_moments(nobody)
