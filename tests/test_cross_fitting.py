"""Losses on rows left out: the same as refitting from rows, without reading them again."""

import time

import numpy as np
import pytest
from scipy.stats import t as student
from sklearn.decomposition import PCA

import fairpca
from fairpca import FairPCA, GroupMoments, audit, cross_fit
from fairpca.cross_fitting import _dealt

from data_dir import data_path

FAIR = {"FairPCA": FairPCA()}
BOTH = {"PCA": FairPCA(shrinkage=1.0), "FairPCA": FairPCA()}


def table(seed=0, sizes=(200, 60, 30), n=6):
    rng = np.random.default_rng(seed)
    rows = [rng.normal(size=(m, n)) * rng.uniform(0.5, 3, n) + rng.normal(size=n) for m in sizes]
    return np.vstack(rows), np.repeat(np.arange(len(sizes)), sizes)


def parts(X, labels, fold, **options):
    return [
        GroupMoments.from_array(X[fold == i], labels[fold == i], **options)
        for i in range(fold.max() + 1)
    ]


def refitted(X, labels, fold, r):
    """Return loss and error by fitting to the rows of the other folds."""
    folds = fold.max() + 1
    errors = np.zeros((folds, labels.max() + 1))
    own, weights = np.zeros_like(errors), np.zeros_like(errors)
    for i in range(folds):
        inside = fold != i
        # Fits to folds stop at this gap.
        model = FairPCA(r, tol=1e-6).fit(X[inside], sensitive_features=labels[inside])
        for g in range(errors.shape[1]):
            new = X[~inside & (labels == g)]
            if not len(new):
                continue
            again = model.inverse_transform(model.transform(new))
            errors[i, g] = np.mean(np.sum((new - again) ** 2, axis=1))
            # Shrunk or not: what serves the next fold's rows better, fitted without them.
            first = fold == (i + 1) % folds
            Y = X - X[inside].mean(axis=0)
            tried = [own_error(Y, labels, inside & ~first, first, g, r, a) for a in (0, 80)]
            amount = (0, 80)[int(np.argmin(tried))]
            own[i, g] = own_error(Y, labels, inside, ~inside, g, r, amount)
            weights[i, g] = len(new)
    share = weights / weights.sum(axis=0)
    return (share * (errors - own)).sum(axis=0), (share * errors).sum(axis=0)


def own_error(Y, labels, fitted, new, g, r, amount):
    """Return a group's error by its own second moments and some rows' worth of all."""
    mine, everybody = Y[fitted & (labels == g)], Y[fitted]
    mixed = mine.T @ mine + amount * everybody.T @ everybody / len(everybody)
    own, rows = np.linalg.eigh(mixed)[1][:, -r:], Y[new & (labels == g)]
    return np.mean(np.sum((rows - rows @ own @ own.T) ** 2, axis=1))


@pytest.mark.parametrize(("r", "repeats"), [(1, 1), (3, 2)])
def test_as_refitting_from_rows(r, repeats):
    X, labels = table()
    found = cross_fit(X, labels, r, fits=FAIR, n_folds=5, n_repeats=repeats, random_state=3)
    rng = np.random.default_rng(3)
    again = [refitted(X, labels, _dealt(labels, 5, rng), r) for _ in range(repeats)]
    loss, error = np.mean(again, axis=0)
    np.testing.assert_allclose(found.errors[0, 0], error, rtol=1e-8)
    np.testing.assert_allclose(found.losses[0, 0], loss, atol=1e-8 * error.max())


def test_moments_of_folds_are_the_rows_of_folds_and_dealings_are_averaged():
    X, labels = table(5)
    rng = np.random.default_rng(0)
    found = cross_fit(X, labels, [1, 2], fits=BOTH, n_folds=5, n_repeats=2)
    single = [
        cross_fit(parts(X, labels, _dealt(labels, 5, rng)), n_components=[1, 2], fits=BOTH)
        for _ in range(2)
    ]
    np.testing.assert_allclose(found.losses, np.mean([one.losses for one in single], axis=0))
    squares = np.mean([(one.high - one.low) ** 2 for one in single], axis=0)
    # Of five folds, two dealings know the mean as well as 10 values that share training rows.
    fewer = (1 / 2 + 5 / 4) / (1 + 5 / 4)
    np.testing.assert_allclose((found.high - found.low) ** 2, fewer * squares)
    gains = [cross.improvement("FairPCA", "PCA", 2) for cross in (found, *single)]
    widths = np.array([gain.high - gain.low for gain in gains])
    assert widths[0] ** 2 == pytest.approx(fewer * np.mean(widths[1:] ** 2))


def test_pca_is_that_of_all_rows_with_or_without_a_label():
    X, labels = table(2)
    marked = labels.astype(object)
    marked[:150] = None
    X[:150, 0] *= 5
    groups = fairpca.Groups.from_labels(marked, unlabelled="ignore")
    found = cross_fit(X, groups, 2, n_folds=5, n_repeats=1)
    fold, error = _dealt(groups.codes, 5, np.random.default_rng(0)), np.zeros(3)
    for i in range(5):
        pca, inside = PCA(2).fit(X[fold != i]), (fold == i) & (groups.codes >= 0)
        squares = np.sum((X - pca.inverse_transform(pca.transform(X))) ** 2, axis=1)
        error += np.bincount(labels[inside], squares[inside], minlength=3)
    np.testing.assert_allclose(found.errors[0, 0], error / groups.counts, rtol=1e-9)
    assert found.fits == ("PCA", "balanced PCA", "FairPCA", "careful FairPCA")
    assert np.all((found.low <= found.losses) & (found.losses <= found.high))
    worst = found.worst()
    np.testing.assert_array_equal(worst.value, found.losses.max(axis=2))
    assert len(found.to_frame()) == 12


def test_every_fold_has_its_share_of_every_group():
    labels = np.repeat([0, 1, 2], [23, 7, 50])
    fold = _dealt(labels, 5, np.random.default_rng(0))
    for code in range(3):
        assert np.ptp(np.bincount(fold[labels == code], minlength=5)) <= 1


def test_names_order_and_place_of_columns_change_nothing():
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(90, 4)) * [3, 2, 1, 1], rng.integers(0, 3, 90)
    one, other = (
        cross_fit(X, np.array(list(names))[codes], fits=BOTH) for names in ("abc", "zbc")
    )
    np.testing.assert_allclose(other.losses[..., [2, 0, 1]], one.losses, atol=1e-12)
    np.testing.assert_allclose(other.high[..., [2, 0, 1]], one.high, atol=1e-12)
    # A group with fewer rows than components: rounding does not decide.
    X, order = rng.normal(size=(210, 12)) * np.linspace(3, 1, 12), rng.permutation(12)
    labels = np.repeat(["few", "many"], [10, 200])
    how = {"fits": FAIR, "n_folds": 3, "n_repeats": 1}
    one, other = (cross_fit(Y, labels, 9, **how) for Y in (X, X[:, order] + 1))
    np.testing.assert_allclose(other.losses, one.losses, rtol=1e-4)


def test_rows_without_weight_are_no_rows_and_small_groups_are_named():
    X, labels = table(4, sizes=(80, 60, 30))
    weight = np.random.default_rng(0).integers(0, 3, len(X)).astype(float)
    # Of thirty rows four count: too few for five folds.
    weight[140:] = np.arange(30) < 4
    inside, how = weight > 0, {"n_folds": 5, "fits": FAIR}
    found = cross_fit(X, labels, 2, sample_weight=weight, **how)
    again = cross_fit(X[inside], labels[inside], 2, sample_weight=weight[inside], **how)
    assert found.unchecked == again.unchecked == (2,)
    assert np.isnan(found.losses[..., 2]).all()
    assert np.isfinite(found.losses[..., :2]).all()
    np.testing.assert_array_equal(found.counts, again.counts)
    np.testing.assert_allclose(found.losses, again.losses, rtol=1e-9)
    np.testing.assert_allclose(found.high, again.high, rtol=1e-9)
    nobody = cross_fit(X[:7], ["a"] * 3 + ["b"] * 4, 1, fits=BOTH)
    assert np.isnan(nobody.worst().value).all()
    assert np.isnan(nobody.improvement("FairPCA", than="PCA").low)


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"n_folds": 1}, "n_folds=1 must be at least 2, and an integer"),
        ({"n_repeats": 0}, "n_repeats=0 must be at least 1, and an integer"),
        ({"random_state": -1}, "random_state=-1 must be"),
        ({"n_components": 7}, "n_components=7 must be between 1 and"),
        ({"fits": {"pca": PCA()}}, "pass at least one FairPCA by its name"),
        ({"fits": {}}, "pass at least one FairPCA by its name"),
        ({"blocks": [1, 2]}, "blocks has 2 rows but X has 290"),
    ],
)
def test_wrong_arguments_are_named(change, match):
    X, labels = table()
    with pytest.raises(ValueError, match=match):
        cross_fit(X, labels, **{"n_components": 2} | change)


def test_moments_know_their_labels():
    X, labels = table()
    folds = parts(X, labels, np.arange(len(X)) % 2)
    with pytest.raises(ValueError, match="counted in the moments already"):
        cross_fit(folds, labels, 2)
    with pytest.raises(ValueError, match="leave nothing to fit to"):
        cross_fit(folds[:1], n_components=2)


def test_far_more_columns_than_rows_cost_no_more_than_the_rows():
    # Rows that are turned and moved in a space of 3,000 columns have the losses that they had.
    X, labels = table(sizes=(40, 30, 20))
    rng, how = np.random.default_rng(0), {"fits": BOTH, "n_folds": 5, "n_repeats": 1}
    turned = X @ np.linalg.qr(rng.normal(size=(3_000, 6)))[0].T + rng.normal(size=3_000)
    wanted, found = (cross_fit(rows, labels, [1, 3], **how) for rows in (X, turned))
    for name in ("losses", "errors", "low", "high"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), atol=1e-4)
    with pytest.raises(ValueError, match="NaN"):
        cross_fit(np.where(np.arange(3_000) == 7, np.nan, turned), labels)


def test_components_that_a_fit_chooses_at_will_keep_nothing_of_new_rows():
    rng = np.random.default_rng(0)
    X, fresh, labels = rng.normal(size=(50, 400)), rng.normal(size=(500, 400)), np.arange(50) % 2
    found = cross_fit(X, labels, 38, fits=FAIR, n_folds=5)
    model = FairPCA(38).fit(X, sensitive_features=labels)
    squares = np.sum((fresh - model.inverse_transform(model.transform(fresh))) ** 2, axis=1)
    np.testing.assert_allclose(found.errors, squares.mean(), rtol=0.03)


@pytest.mark.parametrize("known", [2, 5])
def test_folds_without_a_group_say_nothing_about_its_spread(known):
    """Where two of five folds hold it, its intervals were a quarter as wide as they should be."""
    rng = np.random.default_rng(0)
    X = np.vstack(
        [rng.normal(size=(400, 4)) * [3, 1, 1, 1], rng.normal(size=(60, 4)) * [1, 1, 1, 5]]
    )
    labels = np.repeat(["many", "few"], [400, 60])
    folds = parts(X, labels, np.r_[np.arange(400) % 5, np.arange(60) % known])
    # A fold that nobody is in adds nothing.
    folds.insert(2, GroupMoments.from_array(X[:4], labels[:4], sample_weight=np.zeros(4)))
    fits = {"PCA": FairPCA(shrinkage=1.0), "half": FairPCA(shrinkage=0.5)}
    found = cross_fit(folds, n_components=1, fits=fits)
    g = found.groups.index("few")
    assert np.all(found.losses[:, 0].argmax(axis=1) == g)
    losses = found.fold_losses[0, :known, :, 0, g]

    def half(values):
        # Nadeau and Bengio's correction, for folds that share training rows.
        spread = values.var(ddof=1) / known * (1 + known / (known - 1))
        return student.ppf(0.975, known - 1) * np.sqrt(spread)

    worst, gain = found.worst(), found.improvement("half", than="PCA")
    np.testing.assert_allclose(found.high[0, 0, g] - found.losses[0, 0, g], half(losses[:, 0]))
    np.testing.assert_allclose(worst.high[0, 0], found.high[0, 0, g])
    np.testing.assert_allclose(gain.high - gain.value, half(losses[:, 0] - losses[:, 1]))


def test_change_says_who_pays_for_all_groups_at_once():
    X, labels = table()
    found = cross_fit(X, labels, 2, fits=BOTH)
    change = found.change("FairPCA", than="PCA")
    np.testing.assert_allclose(change.value, (found.errors[1] - found.errors[0])[0])
    assert change.low.shape == (3,)
    assert np.all((change.low < change.value) & (change.value < change.high))
    back = found.change("PCA", than="FairPCA")
    np.testing.assert_allclose([back.low, back.high], [-change.high, -change.low])
    # Student's interval of the mean over folds with a third of the tails for each group.
    shares = found.fold_weight / found.fold_weight.sum(axis=1, keepdims=True)
    apart = found.fold_errors[:, :, 1, 0] - found.fold_errors[:, :, 0, 0]
    np.testing.assert_allclose(np.sum(shares * apart, axis=1).mean(axis=0), change.value)
    by_rows = student.ppf(1 - 0.025 / 3, 9) * apart.std(axis=1, ddof=1).mean(axis=0) / np.sqrt(10)
    np.testing.assert_allclose(change.high - change.value, 1.27 * by_rows, rtol=0.1)


def test_rows_of_one_block_are_left_out_together():
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(120), 5)
    X = (rng.normal(size=(120, 4)) * [3, 2, 1, 1])[person] + 0.3 * rng.normal(size=(600, 4))
    group = np.where(person < 30, 0, 1)
    together, apart = (
        cross_fit(X, group, 1, fits=FAIR, n_repeats=1, blocks=b) for b in (person, None)
    )
    change = [np.std(found.fold_errors, axis=1).mean() for found in (together, apart)]
    assert change[0] > 1.5 * change[1]


def test_a_group_nobody_has_seen_is_left_out_with_all_its_rows():
    X, labels = table(3)
    found = cross_fit(X, labels, [2], fits=BOTH, n_folds=5, n_repeats=1, unseen=True).unseen
    assert found.fits == ("PCA", "FairPCA", "AnchorPCA")
    for g in range(3):
        model = FairPCA(2).fit(X[labels != g], sensitive_features=labels[labels != g])
        new = X[labels == g] - model.mean_
        error = np.mean(np.sum((new - new @ model.components_.T @ model.components_) ** 2, axis=1))
        best = np.sum(np.linalg.svd(new, compute_uv=False)[2:] ** 2) / len(new)
        assert found.errors[1, 0, g] == pytest.approx(error, rel=1e-4)
        assert found.losses[1, 0, g] == pytest.approx(error - best, rel=1e-3)
    np.testing.assert_allclose(found.worst(), found.losses.max(axis=2))
    with pytest.raises(ValueError, match="it takes three"):
        cross_fit(X, labels == 0, 2, unseen=True)


def test_verdicts_on_new_rows():
    data_path("law_school.csv")
    rng, law = np.random.default_rng(0), fairpca.datasets.fetch_law_school()
    X, race = (law.data - law.data.mean(axis=0)) / law.data.std(axis=0), law.sensitive_features
    advice = audit(X, race, 2, ranks=[2]).advice
    assert advice.kind == "better"
    assert advice.cut > 0.5
    assert advice.harm < 0.02
    for seed in range(3):
        few = np.random.default_rng(seed).choice(len(X), 150, replace=False)
        assert audit(X[few], race[few], 2, ranks=[2]).advice.kind != "better"
    alike = rng.normal(size=(6000, 8)) * np.exp(-np.arange(8) / 4)
    advice = audit(alike, rng.integers(2, size=6000), 2, ranks=[2]).advice
    assert advice.kind == "as good"
    assert advice.most < 0.01


def test_processor_time():
    rng = np.random.default_rng(0)
    for m, n, k, most in ((167, 4, 3, 1), (15_000, 22, 6, 3)):
        X, labels = rng.normal(size=(m, n)) * np.exp(-np.arange(n) / 6), rng.integers(k, size=m)
        begin = time.process_time()
        cross_fit(X, labels, 2)
        assert time.process_time() - begin < most
