"""Losses on rows left out: the same as refitting from rows, without reading them again."""

import numpy as np
import pytest
from scipy.stats import t as student
from sklearn.decomposition import PCA

import fairpca
from fairpca import FairPCA, GroupMoments, audit, cross_fit
from fairpca.cross_fitting import _dealt


def table(seed=0, sizes=(200, 60, 30), n=6):
    rng = np.random.default_rng(seed)
    rows = [rng.normal(size=(m, n)) * rng.uniform(0.5, 3, n) + rng.normal(size=n) for m in sizes]
    return np.vstack(rows), np.repeat(np.arange(len(sizes)), sizes)


def refitted(X, labels, fold, r, **options):
    """Return loss and error by fitting to the rows of the other folds."""
    folds = fold.max() + 1
    errors = np.zeros((folds, labels.max() + 1))
    own, weights = np.zeros_like(errors), np.zeros_like(errors)
    for i in range(folds):
        inside = fold != i
        model = FairPCA(r, **options).fit(X[inside], sensitive_features=labels[inside])
        for g in range(errors.shape[1]):
            new = X[~inside & (labels == g)]
            if not len(new):
                continue
            again = model.inverse_transform(model.transform(new))
            errors[i, g] = np.mean(np.sum((new - again) ** 2, axis=1))
            # Shrunk or not: what serves the next fold's rows better, fitted without them.
            first = fold == (i + 1) % folds
            tried = [own_error(X, labels, inside & ~first, first, g, r, a) for a in (0, 80)]
            amount = (0, 80)[int(np.argmin(tried))]
            own[i, g] = own_error(X, labels, inside, ~inside, g, r, amount)
            weights[i, g] = len(new)
    share = weights / weights.sum(axis=0)
    return (share * (errors - own)).sum(axis=0), (share * errors).sum(axis=0)


def own_error(X, labels, fitted, new, g, r, amount):
    """Return a group's error by its own second moments and some rows' worth of all."""
    mean = X[fitted].mean(axis=0)
    centred = X[fitted] - mean
    mine = centred[labels[fitted] == g]
    pooled = centred.T @ centred / len(centred)
    own = np.linalg.eigh(mine.T @ mine + amount * pooled)[1][:, -r:]
    rows = X[new & (labels == g)] - mean
    return np.mean(np.sum((rows - rows @ own @ own.T) ** 2, axis=1))


def dealt(labels, n_folds, seed=0, repeats=1):
    """Return the fold of every row, dealing by dealing."""
    rng = np.random.default_rng(seed)
    return [_dealt(labels, n_folds, rng) for _ in range(repeats)]


@pytest.mark.parametrize(("r", "repeats"), [(1, 1), (3, 1), (2, 3)])
def test_as_refitting_from_rows(r, repeats):
    X, labels = table()
    fits = {"fair": FairPCA()}
    found = cross_fit(X, labels, r, fits=fits, n_repeats=repeats, random_state=3)
    again = [refitted(X, labels, fold, r) for fold in dealt(labels, 5, 3, repeats)]
    loss, error = np.mean(again, axis=0)
    np.testing.assert_allclose(found.losses[0, 0], loss, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.errors[0, 0], error, rtol=1e-9)


def test_moments_of_folds_are_the_rows_of_folds():
    X, labels = table(1)
    (fold,) = dealt(labels, 4)
    folds = [GroupMoments.from_array(X[fold == i], labels[fold == i]) for i in range(4)]
    one = cross_fit(X, labels, [1, 2], n_folds=4, n_repeats=1)
    other = cross_fit(folds, n_components=[1, 2])
    np.testing.assert_allclose(other.losses, one.losses, atol=1e-9)
    np.testing.assert_allclose(other.low, one.low, atol=1e-9)


def test_losses_and_variances_are_means_over_dealings():
    X, labels = table(5)
    found = cross_fit(X, labels, 2, n_repeats=3)
    single = []
    for fold in dealt(labels, 5, repeats=3):
        folds = [GroupMoments.from_array(X[fold == i], labels[fold == i]) for i in range(5)]
        single.append(cross_fit(folds, n_components=2))
    np.testing.assert_allclose(found.losses, np.mean([one.losses for one in single], axis=0))
    squares = np.mean([(one.high - one.low) ** 2 for one in single], axis=0)
    # Of five folds, three dealings know the mean as well as 15 values that share training rows.
    fewer = (1 / 3 + 5 / 4) / (1 + 5 / 4)
    np.testing.assert_allclose((found.high - found.low) ** 2, fewer * squares)
    gains = [cross.improvement("FairPCA", "PCA") for cross in (found, *single)]
    widths = np.array([gain.high - gain.low for gain in gains])
    assert widths[0] ** 2 == pytest.approx(fewer * np.mean(widths[1:] ** 2))


def test_intervals_of_several_dealings_depend_less_on_the_seed():
    X, labels = table(7)
    spread = {}
    for repeats in (1, 5):
        options = {"fits": {"PCA": FairPCA(shrinkage=1.0)}, "n_repeats": repeats}
        found = [cross_fit(X, labels, 1, random_state=seed, **options) for seed in range(10)]
        widths = np.array([one.high - one.low for one in found])
        spread[repeats] = np.mean(widths.max(axis=0) / widths.min(axis=0))
    assert spread[1] > 3
    assert spread[5] < 2


def test_pca_is_among_the_fits():
    X, labels = table(2)
    found = cross_fit(X, labels, 2, n_repeats=1)
    (fold,) = dealt(labels, 5)
    error = np.zeros(3)
    for i in range(5):
        pca = PCA(2).fit(X[fold != i])
        new = X[fold == i]
        squares = np.sum((new - pca.inverse_transform(pca.transform(new))) ** 2, axis=1)
        error += np.bincount(labels[fold == i], squares, minlength=3)
    np.testing.assert_allclose(found.errors[0, 0], error / np.bincount(labels), rtol=1e-9)
    assert np.all(found.low <= found.losses)
    assert np.all(found.losses <= found.high)
    worst = found.worst()
    np.testing.assert_array_equal(worst.value, found.losses.max(axis=2))
    assert np.all(worst.low <= worst.value)
    assert np.all(worst.value <= worst.high)
    assert len(found.to_frame()) == 9


def test_rows_without_a_label_count_in_pca():
    X, labels = table(2)
    marked = labels.astype(object)
    marked[:150] = None
    X[:150, 0] *= 5
    groups = fairpca.Groups.from_labels(marked, unlabelled="ignore")
    found = cross_fit(X, groups, 2, n_repeats=1)
    (fold,) = dealt(groups.codes, 5)
    error = np.zeros(3)
    for i in range(5):
        pca = PCA(2).fit(X[fold != i])
        new = X[(fold == i) & (groups.codes >= 0)]
        squares = np.sum((new - pca.inverse_transform(pca.transform(new))) ** 2, axis=1)
        error += np.bincount(labels[(fold == i) & (groups.codes >= 0)], squares, minlength=3)
    np.testing.assert_allclose(found.errors[0, 0], error / groups.counts, rtol=1e-9)


def test_every_fold_has_its_share_of_every_group():
    labels = np.repeat([0, 1, 2], [23, 7, 50])
    (fold,) = dealt(labels, 5)
    for code in range(3):
        counts = np.bincount(fold[labels == code], minlength=5)
        assert counts.max() - counts.min() <= 1


def test_what_groups_are_called_changes_nothing():
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(90, 4)) * [3, 2, 1, 1], rng.integers(0, 3, 90)
    one = cross_fit(X, np.array(["a", "b", "c"])[codes], 2)
    other = cross_fit(X, np.array(["z", "b", "c"])[codes], 2)
    np.testing.assert_allclose(other.losses[..., [2, 0, 1]], one.losses, atol=1e-12)
    np.testing.assert_allclose(other.high[..., [2, 0, 1]], one.high, atol=1e-12)


def test_rounding_does_not_decide_about_groups_with_fewer_rows_than_components():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(210, 12)) * np.linspace(3, 1, 12)
    labels, order = np.repeat(["few", "many"], [10, 200]), rng.permutation(12)
    one, other = cross_fit(X, labels, 9), cross_fit(X[:, order] + 1, labels, 9)
    np.testing.assert_allclose(other.losses, one.losses, rtol=1e-6)


def test_groups_too_small_to_check_are_named():
    X, labels = table(4, sizes=(60, 40, 3))
    found = cross_fit(X, labels, 2)
    assert found.unchecked == (2,)
    assert np.all(np.isnan(found.losses[..., 2]))
    assert np.all(np.isfinite(found.losses[..., :2]))


def test_rows_without_weight_are_as_good_as_none():
    X, labels = table(4, sizes=(80, 60, 30))
    weight = np.random.default_rng(0).integers(0, 3, len(X)).astype(float)
    # Of thirty rows four count: too few for five folds.
    weight[140:] = np.arange(30) < 4
    inside = weight > 0
    found = cross_fit(X, labels, 2, sample_weight=weight)
    again = cross_fit(X[inside], labels[inside], 2, sample_weight=weight[inside])
    assert found.unchecked == again.unchecked == (2,)
    np.testing.assert_array_equal(found.counts, again.counts)
    np.testing.assert_allclose(found.losses, again.losses, rtol=1e-9)
    np.testing.assert_allclose(found.high, again.high, rtol=1e-9)


def test_a_group_may_have_weight_in_one_fold_only():
    X, labels = table(4)
    weight = np.where(labels == 2, 0.0, 1.0)
    with pytest.raises(ValueError, match=r"group\(s\) 2 have no row with positive sample_weight"):
        cross_fit(X, labels, 2, sample_weight=weight)
    weight[-1] = 1.0
    assert cross_fit(X, labels, 2, sample_weight=weight).unchecked == (2,)
    folds = [
        GroupMoments.from_array(X[i::5], labels[i::5], sample_weight=weight[i::5])
        for i in range(5)
    ]
    assert np.all(np.isfinite(cross_fit(folds, n_components=2).losses[..., :2]))


def test_losses_of_few_rows_are_optimistic_in_hand():
    """Two samples of one population: in hand PCA loses something, on new rows about nothing."""
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(440, 20)), np.repeat([0, 1], [400, 40])
    in_hand = FairPCA(5, shrinkage=1.0).fit(X, sensitive_features=labels).group_losses_[1]
    assert in_hand > 2
    assert cross_fit(X, labels, 5).losses[0, 0, 1] < 0.25 * in_hand


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"n_folds": 1}, "n_folds=1 must be at least 2, and an integer"),
        ({"n_repeats": 0}, "n_repeats=0 must be at least 1, and an integer"),
        ({"random_state": -1}, "random_state=-1 must be None, an integer of at least 0"),
        ({"n_components": 7}, "n_components=7 must be between 1 and"),
        ({"fits": {"pca": PCA()}}, "pass at least one FairPCA by its name"),
        ({"fits": {}}, "pass at least one FairPCA by its name"),
        ({"fits": [FairPCA()]}, "pass at least one FairPCA by its name"),
    ],
)
def test_wrong_arguments_are_named(change, match):
    X, labels = table()
    with pytest.raises(ValueError, match=match):
        cross_fit(X, labels, **{"n_components": 2} | change)


def test_moments_know_their_labels():
    X, labels = table()
    folds = [GroupMoments.from_array(X[i::2], labels[i::2]) for i in range(2)]
    with pytest.raises(ValueError, match="counted in the moments already"):
        cross_fit(folds, labels, 2)
    with pytest.raises(ValueError, match="leave nothing to fit to"):
        cross_fit(folds[:1], n_components=2)
    assert fairpca.cross_fit(folds, n_components=2).losses.shape == (3, 1, 3)


@pytest.mark.parametrize("center", ["global", "group"])
def test_a_small_group_that_differs_shows_its_loss(center):
    # 40 rows in another direction: PCA of all rows keeps their first column instead of the second.
    rng = np.random.default_rng(0)
    X = np.vstack([rng.normal(size=(90, 3)) * [3, 1, 1], rng.normal(size=(40, 3)) * [1, 3, 1]])
    fits = {"PCA": FairPCA(shrinkage=1.0, center=center)}
    found = cross_fit(X, ["many"] * 90 + ["few"] * 40, 1, fits=fits)
    lost = np.mean(X[90:, 1] ** 2 - X[90:, 0] ** 2)
    assert lost > 5
    assert found.losses[0, 0, found.groups.index("few")] == pytest.approx(lost, rel=0.1)


def test_far_more_columns_than_rows_cost_no_more_than_the_rows():
    # Rows that are turned and moved in a space of 3,000 columns have the losses that they had.
    X, labels = table(sizes=(40, 30, 20))
    rng = np.random.default_rng(0)
    turned = X @ np.linalg.qr(rng.normal(size=(3_000, 6)))[0].T + rng.normal(size=3_000)
    wanted, found = (cross_fit(rows, labels, [1, 3], n_repeats=2) for rows in (X, turned))
    for name in ("losses", "errors", "low", "high"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), atol=1e-8)
    objects = cross_fit(turned.astype(object), labels, [1, 3], n_repeats=2)
    np.testing.assert_array_equal(objects.losses, found.losses)
    with pytest.raises(ValueError, match="NaN"):
        cross_fit(np.where(np.arange(3_000) == 7, np.nan, turned), labels)


class TestMoreComponentsThanRows:
    """In coordinates of all rows, components that a fit chooses at will are rows left out."""

    def test_they_keep_nothing_of_new_rows(self):
        rng = np.random.default_rng(0)
        X, fresh = rng.normal(size=(50, 400)), rng.normal(size=(2000, 400))
        labels, fold = np.arange(50) % 2, np.arange(50) // 10
        folds = [GroupMoments.from_array(X[fold == i], labels[fold == i]) for i in range(5)]
        fits = {"FairPCA": FairPCA()}
        for r in (38, 45):
            of_rows = cross_fit(X, labels, r, fits=fits)
            of_moments = cross_fit(folds, n_components=r, fits=fits)
            model = FairPCA(r).fit(X, sensitive_features=labels)
            rebuilt = model.inverse_transform(model.transform(fresh))
            truth = np.sum((fresh - rebuilt) ** 2, axis=1).mean()
            for found in (of_rows, of_moments):
                np.testing.assert_allclose(found.errors, truth, rtol=0.03)
                # Before, the intervals of 45 components were two hundred times as wide.
                assert np.ptp([found.low, found.high]) < 40

    def test_rows_without_weight_are_no_rows(self):
        rng = np.random.default_rng(1)
        X, labels = rng.normal(size=(60, 400)), np.arange(60) % 2
        weight = np.repeat([1.0, 0.0], 30)
        X[45] = 1e16
        options = {"n_components": 28, "fits": {"FairPCA": FairPCA()}, "random_state": 0}
        found = cross_fit(X, labels, sample_weight=weight, **options)
        # 24 rows have 23 directions, and a mean that is off by a 24th of a row.
        np.testing.assert_allclose(found.errors, (400 - 23) * 25 / 24, rtol=0.06)


def test_folds_without_a_group_say_nothing_about_its_spread():
    """Two stored folds that lack the small group made its intervals a third narrower."""
    X, labels = table(sizes=(200, 60), n=4)
    large, small = X[labels == 0], X[labels == 1]
    folds = [
        GroupMoments.from_array(np.vstack([large[i::5], small[i::3]]), ["a"] * 40 + ["b"] * 20)
        for i in range(3)
    ]
    folds += [GroupMoments.from_array(large[i::5], ["a"] * 40) for i in (3, 4)]
    found = cross_fit(folds, n_components=1, fits={"FairPCA": FairPCA()})
    # Three folds of as many rows: the spread of their losses, with Nadeau and Bengio's correction.
    losses = found.fold_losses[0, :3, 0, 0, 1]
    half = student.ppf(0.975, 2) * np.sqrt(losses.var(ddof=1) / 3 * (1 + 3 / 2))
    np.testing.assert_allclose(found.high[0, 0, 1] - found.losses[0, 0, 1], half, rtol=1e-9)


@pytest.mark.parametrize("known", [2, 3, 5])
def test_the_worst_loss_is_as_uncertain_as_that_of_the_group_that_has_it(known):
    """Where two of five folds hold it, its interval was a quarter as wide as the group's own."""
    rng = np.random.default_rng(0)
    many = rng.normal(size=(400, 4)) * [3, 1, 1, 1]
    few = rng.normal(size=(60, 4)) * [1, 1, 1, 5]
    rows = [[many[i::5], *([few[i::known]] if i < known else [])] for i in range(5)]
    folds = [
        GroupMoments.from_array(
            np.vstack(part), np.repeat(["many", "few"][: len(part)], [len(x) for x in part])
        )
        for part in rows
    ]
    pca = {"PCA": FairPCA(shrinkage=1.0), "half": FairPCA(shrinkage=0.5)}
    found = cross_fit(folds, n_components=1, fits=pca)
    g = found.groups.index("few")
    assert found.losses[0, 0].argmax() == g
    worst = found.worst()
    np.testing.assert_allclose(worst.low[0, 0], found.low[0, 0, g])
    np.testing.assert_allclose(worst.high[0, 0], found.high[0, 0, g])
    gain = found.improvement("half", than="PCA")
    losses = found.fold_losses[0, :known, :, 0, g]
    assert found.losses[1, 0].argmax() == g
    change = losses[:, 0] - losses[:, 1]
    half = student.ppf(0.975, known - 1) * np.sqrt(
        change.var(ddof=1) / known * (1 + known / (known - 1))
    )
    np.testing.assert_allclose(gain.high - gain.value, half, rtol=1e-9)


@pytest.mark.parametrize("place", [0, 2, 3])
@pytest.mark.parametrize("rows", [0, 4])
def test_a_fold_that_nobody_is_in_adds_nothing(rows, place):
    X, labels = np.random.default_rng(0).normal(size=(90, 4)), np.arange(90) % 2
    folds = [GroupMoments.from_array(X[i::3], labels[i::3]) for i in range(3)]
    empty = GroupMoments.from_array(X[:rows], labels[:rows], sample_weight=np.zeros(rows))
    for known in (folds, folds[:2]):
        parts = [*known[:place], empty, *known[place:]]
        one, other = (cross_fit(given, n_components=2) for given in (known, parts))
        for name in ("total_errors", "losses", "low", "high", "fold_losses"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
        gains = [found.improvement("FairPCA", than="PCA").high for found in (one, other)]
        assert gains[0] == gains[1]
        audits = [audit(given, n_components=2).new_rows for given in (known, parts)]
        assert audits[0].n_folds == audits[1].n_folds == len(known)


def test_the_worst_loss_of_groups_too_small_to_check_is_not_known():
    X = np.random.default_rng(0).normal(size=(7, 3))
    found = cross_fit(X, ["a"] * 3 + ["b"] * 4, 1)
    assert found.unchecked == ("a", "b")
    assert np.isnan(found.worst().value).all()
    assert np.isnan(found.improvement("FairPCA", than="PCA").low)


def test_the_benchmark_of_intervals_runs():
    new_rows = pytest.importorskip("benchmarks.new_rows", reason="needs the benchmarks beside")
    X, labels = np.random.default_rng(0).normal(size=(900, 4)), np.repeat([0, 1], [600, 300])
    found = new_rows._cross_fitted(X, labels, (60, 40), 2, draws=2, seed=0)
    assert all(part.shape == (2, 3, 2) for part in found)
    estimate, low, high, true = found
    assert np.all((low < estimate) & (estimate < high))
    assert np.isfinite(true).all()
