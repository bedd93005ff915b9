"""Some 2,600 generated tables, or 10,450 with FAIRPCA_TRUST_SHARE=1: what holds for all of them.

Each property states a theorem of the problem, not of the code. The counts are printed at the end
of the run.
"""

import itertools
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fairpca import FairPCA, GroupMoments, phi
from fairpca.covariances.sources import MomentCovariances

from trust_cases import SHAPES, cases, examples, rounding, same_value, tally

seeds = st.integers(0, 2**32 - 1)
# Dividing by a variance that is itself rounding multiplies rounding without limit.
SOLID = tuple(s for s in SHAPES if s not in ("far mean", "low rank", "same groups"))


def covariances(case):
    moments = GroupMoments.from_array(case.X, case.labels, sample_weight=case.weight)
    return MomentCovariances(moments).covariances


@settings(max_examples=examples(1800))
@given(cases("basis and certificate"))
def test_basis_and_certificate(case):
    model = case.fit()
    u, certificate = model.components_, model.certificate_
    assert np.abs(u @ u.T - np.eye(case.r)).max() <= 1e-12
    assert certificate.lower_bound <= certificate.value
    assert certificate.optimal, str(certificate)
    assert certificate.value == model.group_values_.max()
    assert model.group_weights_.min() >= 0
    assert model.group_weights_.sum() == pytest.approx(1, abs=1e-14)
    # The weights are the proof: the dual function there is the bound, up to rounding.
    dual = phi(covariances(case), case.r, model.group_weights_[0], criterion=case.criterion)
    assert dual >= certificate.lower_bound - rounding(model, case.X)


@settings(max_examples=examples(1000))
@given(cases("equal losses"))
def test_whoever_binds_has_the_worst_value(case):
    """Interior weights: both groups end equal. By theorem both always bind in "loss"."""
    model = case.fit()
    values, weights = model.group_values_, model.group_weights_
    slack = rounding(model, case.X) + 1e-9 * abs(values.max())
    assert np.all(weights * (values.max() - values) <= slack)
    if case.criterion == "loss":
        assert abs(values[0] - values[1]) <= slack


@settings(max_examples=examples(750))
@given(cases("order of rows and names"), seeds)
def test_order_of_rows_and_names_of_groups(case, seed):
    model = case.fit()
    shuffled = case.take(np.random.default_rng(seed).permutation(len(case.X)))
    same_value(model, shuffled.fit(), rounding(model, case.X))
    renamed = replace(case, labels=np.where(case.labels == 0, "z", "a")).fit()
    same_value(model, renamed, rounding(model, case.X))
    assert renamed.groups_ == ["a", "z"]
    np.testing.assert_array_equal(renamed.group_counts_, model.group_counts_[::-1])


@settings(max_examples=examples(750))
@given(cases("chunks"), st.lists(st.integers(1, 39), max_size=5))
def test_chunks(case, cuts):
    """partial_fit in any pieces, and moments merged in any order, are fit."""
    model, streamed = case.fit(), FairPCA(case.r, criterion=case.criterion)
    edges = sorted({0, len(case.X), *[cut for cut in cuts if cut < len(case.X)]})
    merged = None
    for first, last in itertools.pairwise(edges):
        part = case.take(slice(first, last))
        streamed.partial_fit(part.X, sensitive_features=part.labels, sample_weight=part.weight)
        moments = GroupMoments.from_array(part.X, part.labels, sample_weight=part.weight)
        merged = moments if merged is None else moments.merge(merged)
    slack = rounding(model, case.X)
    same_value(model, streamed, slack)
    same_value(model, FairPCA(case.r, criterion=case.criterion).fit_moments(merged), slack)
    np.testing.assert_allclose(streamed.mean_, model.mean_, rtol=1e-12, atol=1e-12)
    assert streamed.n_samples_ == len(case.X)


@settings(max_examples=examples(750))
@given(cases("units and axes", shapes=SOLID), st.sampled_from([1e-30, 1e-3, 7.0, 1e40]), seeds)
def test_units_and_axes(case, factor, seed):
    model = case.fit()
    unit = 1.0 if case.criterion in ("relative", "share") else factor**2
    slack = rounding(model, case.X)
    same_value(model, replace(case, X=factor * case.X).fit(), unit * slack, unit)
    n = case.X.shape[1]
    q = np.linalg.qr(np.random.default_rng(seed).normal(size=(n, n)))[0]
    turned = replace(case, X=case.X @ q).fit()
    same_value(model, turned, slack)
    shifted = replace(case, X=case.X + 50).fit()
    same_value(model, shifted, rounding(model, case.X + 50))


@settings(max_examples=examples(750))
@given(cases("weights as repetition"), seeds)
def test_a_weight_of_three_is_the_row_three_times(case, seed):
    times = np.random.default_rng(seed).integers(1, 4, size=len(case.X))
    weighted = replace(case, weight=times.astype(float)).fit()
    repeated = replace(case, weight=None).take(np.repeat(np.arange(len(times)), times)).fit()
    slack = rounding(weighted, case.X)
    same_value(weighted, repeated, slack)
    np.testing.assert_allclose(repeated.mean_, weighted.mean_, rtol=1e-12, atol=1e-12)
    got, want = repeated.explained_variance_, weighted.explained_variance_
    # Two best projections may differ where the optimum is not unique; all of them, at full rank.
    if case.r == case.X.shape[1]:
        # Identical rows: what is left is the square of the rounding of their mean.
        dust = 1e-28 * np.abs(case.X).max() ** 2
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=slack + dust)


@settings(max_examples=examples(750))
@given(cases("blends", criteria=("loss", "error", "relative", "share")), seeds)
def test_every_blend_is_served(case, seed):
    """For any mixture of the groups' covariances the value is at most the worst group's."""
    model = case.fit()
    S, u, r = covariances(case), model.components_, case.r
    if case.criterion in ("relative", "share"):
        traces = np.trace(S, axis1=1, axis2=2)
        S = S / np.where(traces > 0, traces, 1.0)[:, None, None]
    p = np.random.default_rng(seed).dirichlet([0.5, 0.5])
    blend = np.tensordot(p, S, axes=1)
    own = np.linalg.eigvalsh(blend)[::-1][:r].sum()
    offset = own if case.criterion in ("loss", "relative") else np.trace(blend)
    value = offset - np.trace(u @ blend @ u.T)
    assert value <= model.certificate_.value + rounding(model, case.X)


@settings(max_examples=examples(750))
@given(
    cases("storage", shapes=("plain", "integers", "constant column")),
    st.sampled_from(["float32", "float16", "int8", "bool", "object"]),
    st.sampled_from("CF"),
)
def test_storage_does_not_matter(case, dtype, order):
    """The same numbers in another dtype or memory order give the same fit."""
    stored = np.asarray(10 * case.X, order=order).astype(dtype)
    plain = replace(case, X=np.ascontiguousarray(stored, dtype=np.float64)).fit()
    other = replace(case, X=stored).fit()
    same_value(plain, other, rounding(plain, np.asarray(stored, dtype=float)))
    strided = np.repeat(np.repeat(stored, 2, axis=0), 2, axis=1)[::2, ::-2][:, ::-1]
    again = replace(case, X=strided).fit()
    same_value(plain, again, rounding(plain, np.asarray(stored, dtype=float)))


@settings(max_examples=examples(1200))
@given(cases("definitions"))
def test_values_are_what_the_definition_says(case):
    """Losses, errors and values again from the rows, by the formulas of the documentation."""
    model = case.fit()
    w = np.ones(len(case.X)) if case.weight is None else case.weight
    slack = rounding(model, case.X)
    mean = np.average(case.X, axis=0, weights=w)
    for i, label in enumerate(model.groups_):
        mine = case.labels == label
        rows = (case.X[mine] - mean) * np.sqrt(w[mine] / w[mine].sum())[:, None]
        total, kept = np.sum(rows**2), np.sum((rows @ model.components_.T) ** 2)
        own = np.sum(np.linalg.svd(rows, compute_uv=False)[: case.r] ** 2)
        raw = slack * max(total, 1.0) if case.criterion in ("relative", "share") else slack
        # Constant rows: the package says zero, the plain formula leaves rounding of the mean.
        raw += 1e-30 * np.abs(case.X).max() ** 2
        assert model.group_errors_[i] == pytest.approx(total - kept, abs=raw)
        assert model.group_losses_[i] == pytest.approx(own - kept, abs=raw)
        want = {"loss": own - kept, "error": total - kept, "variance": -kept}.get(case.criterion)
        if want is None and total > 1e-9:
            want = ((own if case.criterion == "relative" else total) - kept) / total
        if want is not None:
            assert model.group_values_[i] == pytest.approx(want, abs=slack)


@settings(max_examples=examples(1200))
@given(cases("moments"), st.integers(1, 39), seeds)
def test_moments_of_parts_are_moments_of_the_whole(case, cut, seed):
    whole = GroupMoments.from_array(case.X, case.labels, sample_weight=case.weight)
    mixed = case.take(np.random.default_rng(seed).permutation(len(case.X)))
    cut = min(cut, len(case.X) - 1)
    one, other = (
        GroupMoments.from_array(part.X, part.labels, sample_weight=part.weight)
        for part in (mixed.take(slice(cut)), mixed.take(slice(cut, None)))
    )
    size = 1 + np.abs(case.X).max() * (1 + np.ptp(case.X, axis=0).max())
    for both in (one.merge(other), other.merge(one)):
        assert both.labels == whole.labels
        np.testing.assert_array_equal(both.count, whole.count)
        np.testing.assert_allclose(both.weight, whole.weight, rtol=1e-14)
        np.testing.assert_allclose(both.mean, whole.mean, rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(both.scatter, whole.scatter, atol=1e-12 * size * len(case.X))
    pooled, alone = whole.pooled(), GroupMoments.from_array(case.X, sample_weight=case.weight)
    np.testing.assert_allclose(pooled.scatter, alone.scatter, atol=1e-12 * size * len(case.X))


@pytest.mark.filterwarnings("ignore:The gap between:sklearn.exceptions.ConvergenceWarning")
@settings(max_examples=examples(250))
@given(cases("three and more groups", k=st.integers(3, 5)), seeds)
def test_three_and_more_groups(case, seed):
    """A gap may be real here; the enclosure, the basis and the weights never give way."""
    model = case.fit()
    u, certificate = model.components_, model.certificate_
    assert np.abs(u @ u.T - np.eye(case.r)).max() <= 1e-12
    assert certificate.lower_bound <= certificate.value
    assert model.group_weights_.min() >= 0
    assert model.group_weights_.sum() == pytest.approx(1, abs=1e-12)
    # No projection beats the bound: neither a random one, nor any group's own, nor PCA.
    rng, S = np.random.default_rng(seed), covariances(case)
    slack = rounding(model, case.X)
    if case.criterion in ("relative", "share"):
        traces = np.trace(S, axis1=1, axis2=2)
        S = S / np.where(traces > 0, traces, 1.0)[:, None, None]
    values = np.linalg.eigvalsh(S)[:, ::-1]
    offsets = {"loss": values[:, : case.r], "relative": values[:, : case.r], "variance": []}
    c = np.sum(offsets.get(case.criterion, values), axis=-1) * np.ones(len(S))
    rivals = [*np.linalg.eigh(S)[1][:, :, ::-1], np.linalg.eigh(S.mean(axis=0))[1][:, ::-1]]
    rivals += [np.linalg.qr(rng.normal(size=S.shape[1:]))[0] for _ in range(5)]
    for rival in rivals:
        b = rival[:, : case.r]
        worst = (c - np.einsum("ij,kil,lj->k", b, S, b)).max()
        assert worst >= certificate.lower_bound - slack


@settings(max_examples=examples(500))
@given(st.integers(2, 6), st.data(), seeds)
def test_one_group_is_pca(n, data, seed):
    from sklearn.decomposition import PCA

    tally("one group")
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(data.draw(st.integers(n + 1, 40)), n)) * rng.uniform(0.2, 3, size=n) + 3
    r = data.draw(st.integers(1, n))
    model = FairPCA(r).fit(X, sensitive_features=["one"] * len(X))
    pca = PCA(r, svd_solver="full").fit(X)
    for name in ("mean_", "explained_variance_", "singular_values_", "noise_variance_"):
        np.testing.assert_allclose(
            getattr(model, name), getattr(pca, name), rtol=1e-9, atol=1e-11, err_msg=name
        )
    assert np.all(model.group_losses_ <= 1e-12)


def test_ten_thousand_cases_are_asked_for():
    asked = re.findall(r"max_examples=examples\((\d+)\)", Path(__file__).read_text())
    assert sum(map(int, asked)) >= 10_000
