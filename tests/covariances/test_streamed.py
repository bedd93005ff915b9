"""Passes over rows give the answer and the certificate of explicit covariances."""

import dask.array as da
import numpy as np
import pytest
import scipy.sparse
from sklearn.exceptions import ConvergenceWarning

from fairpca import FairPCA, GroupMoments
from fairpca.covariances.block_krylov import Mixture, SharedSpace
from fairpca.covariances.eigenpairs import full_pairs
from fairpca.distributed import dask as dask_engine
from fairpca.distributed import parquet
from fairpca.distributed.pieces import GroupingOptions, PassOperators, piece_products, piece_sums

from engine_rows import write_rows


def face_like(m=1500, n=300, k=2, seed=0, decay=0.7):
    """Return rows with a decaying spectrum, rotated a little differently in every group."""
    rng = np.random.default_rng(seed)
    codes = rng.choice(k, size=m, p=np.arange(1, k + 1) / (k * (k + 1) / 2))
    X = rng.normal(size=(m, n)) / np.arange(1, n + 1) ** decay
    for g in range(k):
        turn = np.linalg.qr(3 * np.eye(n) + 0.3 * rng.normal(size=(n, n)))[0]
        X[codes == g] = X[codes == g] @ turn + g
    return X + 5, np.array(list("abcdefgh"))[codes], rng.uniform(0.5, 2, size=m)


def check(model, want, *, gap=1e-9):
    """Compare with a dense fit: the numbers, and the order bound <= optimum <= value."""
    ours, theirs = model.certificate_, want.certificate_
    slack = 2 * theirs.resolution
    assert ours.lower_bound <= theirs.value + slack
    assert theirs.lower_bound <= ours.value + slack
    assert ours.gap <= theirs.gap + gap
    np.testing.assert_allclose(model.mean_, want.mean_, rtol=1e-12)
    # What is not at its own optimum moves with the subspace: by the root of the gap.
    for name in ("group_losses_", "group_errors_", "explained_variance_"):
        np.testing.assert_allclose(
            getattr(model, name), getattr(want, name), rtol=2e-5, atol=1e-6, err_msg=name
        )
    np.testing.assert_allclose(ours.value, theirs.value, rtol=1e-9, atol=slack)
    np.testing.assert_allclose(
        model.components_.T @ model.components_, want.components_.T @ want.components_, atol=1e-4
    )
    assert model.groups_ == want.groups_
    assert model.solver_ == "streamed"


@pytest.mark.parametrize("criterion", ["loss", "error", "relative"])
@pytest.mark.parametrize("k,r,most", [(2, 1, 12), (2, 10, 14), (4, 10, 16)])
def test_dask_passes(criterion, k, r, most):
    X, labels, weight = face_like(k=k)
    params = dict(n_components=r, criterion=criterion)
    cells = dask_engine.operators(
        da.from_array(X, chunks=(400, 200)), labels, sample_weight=weight
    )
    model = FairPCA(**params).fit_operators(cells)
    moments = GroupMoments.from_array(X, labels, sample_weight=weight)
    check(model, FairPCA(**params).fit_moments(moments))
    assert cells.n_passes <= most, cells.n_passes
    np.testing.assert_allclose(cells.mean, moments.mean)
    np.testing.assert_allclose(cells.traces, np.trace(moments.covariances, axis1=1, axis2=2))


def test_parquet_passes(tmp_path):
    X, labels, _ = face_like()
    write_rows(tmp_path / "0.parquet", X[:700], labels[:700], row_group_size=300)
    write_rows(tmp_path / "1.parquet", X[700:], labels[700:])
    cells = parquet.operators([tmp_path], sensitive_features=["group"])
    model = FairPCA(5).fit_operators(cells)
    check(model, FairPCA(5).fit_moments(GroupMoments.from_array(X, labels)))
    assert cells.n_passes <= 14
    with pytest.raises(ValueError, match="moments"):
        model.partial_fit(X, sensitive_features=labels)


def test_fit_iterates_where_moments_do_not_fit(monkeypatch):
    X, labels, _ = face_like(m=500, n=60)
    A = da.from_array(X, chunks=(200, -1))
    dense = FairPCA(3).fit(A, sensitive_features=labels)
    assert dense.solver_ == "dense"
    monkeypatch.setattr("fairpca.distributed.pieces.default_limit", lambda: 60 * 60 * 8)
    check(FairPCA(3).fit(A, sensitive_features=labels), dense)


def source(X, labels, pieces=3, **rules):
    """Return passes over rows in memory."""
    rules = GroupingOptions(**rules)
    parts = [(X[i::pieces], labels[i::pieces], None) for i in range(pieces)]
    return PassOperators(
        lambda: [piece_sums(*part, rules, "here") for part in parts],
        lambda facts, V: sum(piece_products(*part, facts, V, rules) for part in parts),
    )


def test_overlapping_groups_and_unlabelled_rows():
    X, labels, _ = face_like(m=600, n=50, k=4)
    table = np.array([labels, np.where(np.arange(600) % 3 == 0, "u", "v")], dtype=object).T
    table[::40, 0] = None
    rules = dict(group_by="marginal", unlabelled="ignore")
    model = FairPCA(4, **rules).fit_operators(source(X, table, **rules))
    moments = GroupMoments.from_array(X, table, **rules)
    check(model, FairPCA(4, **rules).fit_moments(moments))


def test_hard_spectra():
    """Copies of an eigenvalue, no decay at all, directions without variance, all components."""
    rng = np.random.default_rng(0)
    n = 40
    signs = np.vstack([np.eye(n), -np.eye(n)])
    for scale in (np.ones(n), np.repeat([3.0, 1.0], [5, n - 5]), np.repeat([1.0, 0], [6, n - 6])):
        X = np.vstack([signs * np.sqrt(scale), signs[:, ::-1] * np.sqrt(scale) + 1])
        labels = np.repeat(["a", "b"], 2 * n)
        for r in (1, 4, n - 1, n):
            got = FairPCA(r).fit_operators(source(X, labels))
            want = FairPCA(r).fit_moments(GroupMoments.from_array(X, labels))
            assert got.certificate_.value == pytest.approx(want.certificate_.value, abs=1e-12)
            assert got.certificate_.optimal
    X = rng.normal(size=(300, n))
    got = FairPCA(3).fit_operators(source(X, labels := rng.choice(["a", "b"], 300)))
    check(got, FairPCA(3).fit_moments(GroupMoments.from_array(X, labels)))


def test_raised_values_bound_the_sums_at_every_step():
    """Every leading sum of the raised values is at least the true one, however rough the pairs."""
    rng = np.random.default_rng(1)
    n = 120
    for spectrum in (1 / np.arange(1, n + 1), np.exp(-np.arange(n) / 4), 1 + rng.random(n)):
        turn = np.linalg.qr(rng.normal(size=(n, n)))[0]
        S = turn * spectrum @ turn.T
        true = np.cumsum(full_pairs(S).values)
        space = SharedSpace(lambda V, S=S: (S @ V)[None], 1, n, max_columns=60)
        space.start(15)
        mixture = Mixture(np.ones(1), np.empty((0, n)))
        for step in range(40):
            raised = space.ritz(mixture, 15).pairs(5).values
            # The first steps know too little of what is outside; the solver does not stop there.
            if step >= 2:
                assert np.all(np.cumsum(raised) >= true[:5] - 1e-13 * true[4])
            if not space.refine([mixture], 5, 10, 1e-12):
                break
        assert np.cumsum(raised)[-1] == pytest.approx(true[4], rel=1e-9)
        assert space.width <= 60


def test_images_cost_a_pass_only_outside_the_space():
    passes = []
    S = np.diag(np.arange(30.0))
    space = SharedSpace(lambda V: passes.append(V.shape[1]) or (S @ V)[None], 1, 30)
    space.start(8)
    V = space.basis @ np.random.default_rng(0).normal(size=(8, 3))
    np.testing.assert_allclose(space.images(V)[0], S @ V, atol=1e-12)
    assert passes == [8]
    V[:, 0] += np.eye(30)[0]
    np.testing.assert_allclose(space.images(V)[0], S @ V, atol=1e-12)
    assert passes == [8, 1]


class DiagonalCells:
    """Cells with diagonal covariances, given as an array of shape (c, n)."""

    def __init__(self, diagonals):
        k, self.n_features = diagonals.shape
        self.diagonals, self.traces = diagonals, diagonals.sum(axis=1)
        self.count, self.weight = np.full(k, 1000), np.full(k, 1000.0)
        self.mean = self.origin = self.offset = np.zeros(diagonals.shape)
        self.labels, self.names = tuple(range(k)), ("group",)

    def products(self, columns):
        return self.diagonals[:, :, None] * columns


@pytest.mark.parametrize("seed", [0, 2])
def test_what_a_space_cut_back_has_lost_is_found_again(seed, monkeypatch):
    """Directions that matter to both groups together and to neither alone are no Ritz vectors."""
    # As in a table of so many columns that memory holds 120 columns of the space.
    monkeypatch.setattr("fairpca.covariances.sources._MOST_SHARED", 120)
    rng = np.random.default_rng(seed)
    r, n = 10, 800
    diagonals = 6.9 * rng.random((2, n))
    diagonals[:, :40] = 0.0
    diagonals[0, :20] = 10 + 0.01 * rng.random(20)
    diagonals[1, 20:40] = 10 + 0.01 * rng.random(20)
    diagonals[:, 40:60] = 6.5 + 0.3 * rng.random((2, 20))
    certificate = FairPCA(r).fit_operators(DiagonalCells(diagonals)).certificate_
    # Sums of the largest entries are sums of eigenvalues.
    top = np.sort(diagonals, axis=1)[:, -r:].sum(axis=1)
    shares = np.linspace(0, 1, 10001)
    phi = [t @ top - np.sort(t @ diagonals)[-r:].sum() for t in np.c_[shares, 1 - shares]]
    attained = (top - diagonals[:, 40 : 40 + r].sum(axis=1)).max()
    assert certificate.lower_bound <= attained
    assert certificate.lower_bound == pytest.approx(max(phi), rel=1e-6)
    assert certificate.optimal


def test_own_pairs_that_have_not_converged_are_no_proof(monkeypatch):
    """Losses are measured from their sums: where these may be too large, so may a bound be."""
    rng = np.random.default_rng(0)
    diagonals = 10 - 0.1 * rng.random((2, 400))
    top = np.sort(diagonals, axis=1)[:, -5:].sum(axis=1)
    shares = np.linspace(0, 1, 2001)
    best = max(t @ top - np.sort(t @ diagonals)[-5:].sum() for t in np.c_[shares, 1 - shares])
    # As for a spectrum that is flat over many more columns.
    monkeypatch.setattr("fairpca.covariances.streamed._MOST_PASSES", 2)
    with pytest.warns(ConvergenceWarning, match="is open"):
        certificate = FairPCA(5).fit_operators(DiagonalCells(diagonals)).certificate_
    assert not certificate.optimal
    assert certificate.lower_bound <= best <= certificate.value


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array])
def test_distances_between_means_far_from_zero_keep_their_digits(form):
    rng = np.random.default_rng(0)
    labels = np.arange(90) % 3
    X = scipy.sparse.random_array((90, 100), density=0.05, random_state=rng).toarray()
    # Times of three groups, and a column that says nothing.
    X[:, 7], X[:, 8] = 1.6e9 + 10 * rng.normal(size=90) + 5 * labels, 0.1
    model = FairPCA(1, criterion="variance").fit_operators(source(form(X), labels))
    X[:, 7] -= 1.6e9
    want = FairPCA(1, criterion="variance").fit(X, sensitive_features=labels).certificate_
    rounding = 2 * model.certificate_.resolution
    assert model.certificate_.lower_bound <= want.value + rounding
    assert model.certificate_.value == pytest.approx(want.value, abs=rounding)


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_array])
def test_equal_rows_far_from_zero_have_no_variance_in_pieces(form):
    X, labels = (
        np.tile(1e6 * np.random.default_rng(0).random(20) + 0.1, (50, 1)),
        np.arange(50) % 2,
    )
    X[labels == 1, 3] += np.arange(25)
    model = FairPCA(2, criterion="relative", center="group")
    model.fit_operators(source(form(X), labels, pieces=7))
    assert model.group_values_[0] == 0
    assert model.group_shares_ == pytest.approx([1, 1])
    assert model.certificate_.optimal
