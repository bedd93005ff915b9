"""Rows too wide or too sparse for explicit covariances give the same answer."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
import scipy.sparse
from scipy.sparse.linalg import aslinearoperator

from fairpca import FairPCA, GroupMoments, Groups
from fairpca.covariances.products import CellRows
from fairpca.covariances.sources import (
    MomentCovariances,
    OperatorCovariances,
    RowCovariances,
    RowSpaceCovariances,
    choose_source,
)
from fairpca.fitting import Settings, fit_source

from data_dir import reference
from tables import TABLES


def wide_rows(m=60, n=400, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(m, 8)) @ rng.normal(size=(8, n)) + 0.3 * rng.normal(size=(m, n)) + 2
    labels = np.array(["a", "b", "b"])[rng.integers(0, 3, size=m)]
    X[labels == "a"] *= np.linspace(0.5, 2, n)
    return X, labels, rng.uniform(0.5, 2, size=m)


def sparse_rows(m=400, n=700, seed=1):
    rng = np.random.default_rng(seed)
    X = scipy.sparse.random_array((m, n), density=0.03, random_state=rng, format="csr")
    labels = np.array(["a", "b"])[rng.integers(0, 2, size=m)]
    return X, labels, rng.uniform(0.5, 2, size=m)


def through_moments(X, labels, weight, **params):
    moments = GroupMoments.from_array(np.asarray(X), labels, sample_weight=weight)
    return FairPCA(**params).fit_moments(moments)


NAMES = (
    "mean_",
    "explained_variance_",
    "explained_variance_ratio_",
    "singular_values_",
    "group_losses_",
    "group_errors_",
    "group_values_",
    "group_means_",
    "group_counts_",
    "n_samples_",
)


def assert_same(got, want, atol=1e-8):
    for name in NAMES:
        np.testing.assert_allclose(
            getattr(got, name), getattr(want, name), atol=atol, rtol=1e-7, err_msg=name
        )
    # A gap closed to 1e-10 fixes the subspace to its square root.
    np.testing.assert_allclose(
        got.components_.T @ got.components_, want.components_.T @ want.components_, atol=1e-5
    )
    r = got.n_components_
    assert np.abs(got.components_ @ got.components_.T - np.eye(r)).max() < 1e-12
    assert got.certificate_.gap <= 1e-9


def chosen(X, labels, r=2, **how):
    options = {"group_by": "intersection", "center": "global", **how}
    return type(choose_source(X, Groups.from_labels(labels), None, r, **options))


@pytest.mark.parametrize("criterion", ["loss", "error", "relative"])
@pytest.mark.parametrize("weighted", [False, True])
def test_row_space(criterion, weighted):
    X, labels, weight = wide_rows()
    weight = weight if weighted else None
    params = dict(n_components=3, criterion=criterion)
    model = FairPCA(**params)
    assert chosen(X, labels) is RowSpaceCovariances
    model.fit(X, sensitive_features=labels, sample_weight=weight)
    assert_same(model, through_moments(X, labels, weight, **params))
    np.testing.assert_allclose(
        model.noise_variance_, through_moments(X, labels, weight, **params).noise_variance_
    )


@pytest.mark.parametrize("form", ["csr", "csc", "operator"])
@pytest.mark.parametrize("weighted", [False, True])
def test_products_only(form, weighted):
    X, labels, weight = sparse_rows()
    weight = weight if weighted else None
    want = through_moments(X.toarray(), labels, weight, n_components=4)
    rows = aslinearoperator(X) if form == "operator" else X.asformat(form)
    model = FairPCA(4).fit(rows, sensitive_features=labels, sample_weight=weight)
    assert_same(model, want)
    np.testing.assert_allclose(model.transform(X), model.transform(X.toarray()), atol=1e-10)


def test_the_choice_follows_the_rows():
    X, labels, _ = sparse_rows()
    assert chosen(X, labels) is OperatorCovariances
    assert chosen(X, labels, in_folds=True) is MomentCovariances
    assert chosen(X[:, :300], labels) is MomentCovariances
    assert chosen(X.toarray(), labels) is RowSpaceCovariances
    assert chosen(X.toarray()[:, :100], labels) is MomentCovariances
    # More entries than half of a covariance has: a product with the covariance reads less.
    many = scipy.sparse.random(8000, 520, 0.05, format="csr", random_state=0)
    assert chosen(many, np.arange(8000) % 2) is MomentCovariances
    few = np.random.default_rng(0).normal(size=(700, 765))
    assert chosen(few, np.arange(700) % 10, r=10) is RowCovariances
    assert chosen(few, np.arange(700) % 10, r=10, in_folds=True) is not RowCovariances


@pytest.mark.parametrize("criterion", ["loss", "relative"])
@pytest.mark.parametrize("center", ["global", "group"])
def test_few_rows_in_many_groups(criterion, center):
    rng = np.random.default_rng(2)
    labels = np.arange(300) % 6
    X = rng.normal(size=(300, 300)) * np.linspace(3, 0.1, 300) + labels[:, None] / 3
    weight = rng.uniform(0.5, 2, 300)
    options = dict(n_components=4, criterion=criterion, center=center)
    assert chosen(X, labels, r=4, center=center) is RowCovariances
    model = FairPCA(**options).fit(X, sensitive_features=labels, sample_weight=weight)
    want = through_moments(X, labels, weight, **options)
    assert_same(model, want)


@pytest.mark.parametrize("group_by", ["intersection", "marginal"])
def test_mixtures_of_cells(group_by):
    """Overlapping groups and unlabelled rows through products equal those through moments."""
    X, labels, weight = sparse_rows(n=30)
    rng = np.random.default_rng(3)
    table = {"x": labels, "y": np.where(rng.random(len(labels)) < 0.1, None, "u")}
    moments = GroupMoments.from_array(
        X, table, sample_weight=weight, group_by=group_by, unlabelled="ignore"
    )
    groups = Groups.from_labels(table, group_by=group_by, unlabelled="ignore")
    one = MomentCovariances(moments, group_by)
    other = OperatorCovariances(CellRows.from_rows(X, groups, weight), group_by)
    assert one.groups.labels == other.groups.labels
    np.testing.assert_allclose(one.groups.traces, other.groups.traces)
    np.testing.assert_allclose(one.groups.mean, other.groups.mean)
    np.testing.assert_allclose(one.total.mean, other.total.mean)
    assert one.total.trace == pytest.approx(other.total.trace)
    ones = np.ones(len(one.groups.labels))
    V = np.linalg.qr(rng.normal(size=(30, 5)))[0]
    np.testing.assert_allclose(one.oracle(ones).apply(V), other.oracle(ones).apply(V), atol=1e-12)
    t = np.full(len(ones), 1 / len(ones))
    mine, theirs = one.oracle(ones).leading(t, 4), other.oracle(ones).leading(t, 4)
    np.testing.assert_allclose(mine.values, theirs.values, rtol=1e-9)
    # Rounded upwards, so that the bound built on the sum stays valid.
    assert theirs.values.sum() >= mine.values.sum() - 1e-14
    np.testing.assert_allclose(one.total_compression(V), other.total_compression(V), atol=1e-12)


def test_sparse_partial_fit_and_small_sparse_rows():
    X, labels, _ = sparse_rows(n=40)
    whole = FairPCA(3).fit(X, sensitive_features=labels)
    stream = FairPCA(3)
    for start in range(0, 400, 130):
        part = slice(start, start + 130)
        stream.partial_fit(X[part], sensitive_features=labels[part])
    np.testing.assert_allclose(stream.components_, whole.components_, atol=1e-9)
    assert_same(whole, through_moments(X.toarray(), labels, None, n_components=3))


def test_partial_fit_after_a_wide_fit_says_why_not():
    X, labels, _ = wide_rows()
    model = FairPCA(2).fit(X, sensitive_features=labels)
    with pytest.raises(ValueError, match="too wide to keep their moments"):
        model.partial_fit(X, sensitive_features=labels)


def test_share_of_variance_through_products():
    X, labels, _ = sparse_rows(m=80, n=600)
    model = FairPCA(0.3).fit(X, sensitive_features=labels)
    want = through_moments(X.toarray(), labels, None, n_components=0.3)
    assert model.n_components_ == want.n_components_


SMALL = [("BM", r) for r in (1, 2, 4, 8, 10, 15)] + [("DCC", r) for r in (1, 4, 5, 10, 15)]


def check_reference(fit, name, r):
    want = reference("two_groups.json")[name]["r"][str(r)]
    assert fit.solution.certificate.value == pytest.approx(want["phi_star"], rel=1e-9)
    assert abs(fit.losses[0] / fit.losses[1] - 1) <= 1e-10
    assert fit.solution.certificate.gap <= 1e-10


@pytest.mark.parametrize("name,r", SMALL)
def test_reference_values_of_a_sparse_copy(name, r):
    X, labels = TABLES[name]()
    cells = CellRows.from_rows(scipy.sparse.csr_array(X), Groups.from_labels(labels))
    check_reference(fit_source(OperatorCovariances(cells, center="group"), r, Settings()), name, r)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("twice", [False, True])
def test_a_fit_leaves_sparse_rows_as_they_were(dtype, twice):
    """Entries in any order, or stored in two halves: sums and products of SciPy leave them so."""
    X, labels, _ = sparse_rows()
    X = X.astype(dtype)
    # The entries of every row backwards, and then each as two halves.
    order = np.concatenate([np.arange(b - 1, a - 1, -1) for a, b in pairwise(X.indptr)])
    data, indices, indptr = X.data[order], X.indices[order], X.indptr.copy()
    if twice:
        data, indices, indptr = np.repeat(data / 2, 2), np.repeat(indices, 2), 2 * indptr
    given = scipy.sparse.csr_array((data, indices, indptr), shape=X.shape)
    before = given.data.copy(), given.indices.copy(), given.indptr.copy()
    model = FairPCA(3).fit(given, sensitive_features=labels)
    for part, kept in zip((given.data, given.indices, given.indptr), before, strict=True):
        np.testing.assert_array_equal(part, kept)
    expected = FairPCA(3).fit(X, sensitive_features=labels)
    np.testing.assert_allclose(model.group_losses_, expected.group_losses_, rtol=1e-6)


def _dependent_rows(kind, rng):
    X = rng.normal(size=(90, 600))
    labels = np.repeat([0, 1, 2], [40, 30, 20])
    if kind == "copies":
        X[45:] = X[:45]
    elif kind == "nearly copies":
        X[45:] = X[:45] * (1 + 1e-9 * rng.normal(size=(45, 600)))
    elif kind == "four directions":
        X = rng.normal(size=(90, 4)) @ rng.normal(size=(4, 600))
    elif kind == "a small group":
        X[labels == 1] *= 1e-9
    elif kind == "one row repeated":
        X[labels == 2] = X[-1]
    elif kind == "one large column":
        X[:, 0] *= 1e6
    return X, labels


@pytest.mark.parametrize("criterion", ["loss", "relative"])
@pytest.mark.parametrize(
    "kind",
    [
        "copies",
        "nearly copies",
        "four directions",
        "a small group",
        "one row repeated",
        "one large column",
    ],
)
@pytest.mark.parametrize("r", [3, 12])
def test_wide_rows_that_depend_on_each_other_lose_what_is_claimed(kind, criterion, r):
    """Coordinates of the rows have to know directions that hardly any row has."""
    X, labels = _dependent_rows(kind, np.random.default_rng(0))
    model = FairPCA(r, criterion=criterion)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X, sensitive_features=labels)
    basis = model.components_.T
    np.testing.assert_allclose(basis.T @ basis, np.eye(r), atol=1e-14)
    rebuilt = model.inverse_transform(model.transform(X))
    for g, label in enumerate(model.groups_):
        rows = X[labels == label] - X.mean(axis=0)
        unit = np.sum(rows**2) / len(rows)
        error = np.sum((X - rebuilt)[labels == label] ** 2) / len(rows)
        assert model.group_errors_[g] == pytest.approx(error, abs=1e-13 * unit)
        own = np.sum(np.linalg.svd(rows, compute_uv=False)[:r] ** 2) / len(rows)
        loss = own - (unit - error)
        assert model.group_losses_[g] == pytest.approx(loss, abs=1e-13 * unit)
