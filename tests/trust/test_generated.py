"""Generated tables of people, small and awkward: theorems of the problem that hold for all."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given
from hypothesis import strategies as st

from fairpca import FairPCA, GroupMoments
from fairpca.covariances.sources import MomentCovariances
from fairpca.criteria import CRITERIA

seeds = st.integers(0, 2**32 - 1)
pytestmark = pytest.mark.filterwarnings(
    "ignore:The gap between:sklearn.exceptions.ConvergenceWarning"
)
# What real tables look like at their worst.
SHAPES = (
    "plain",
    "integers",
    "duplicated rows",
    "one row in a group",
    "constant column",
    "copied column",
    "low rank",
    "same groups",
)


@dataclass(frozen=True)
class Case:
    """Rows, labels, weights, rank, criterion."""

    X: Any
    labels: Any
    weight: Any
    r: int
    criterion: str

    def fit(self) -> FairPCA:
        return FairPCA(self.r, criterion=self.criterion).fit(
            self.X, sensitive_features=self.labels, sample_weight=self.weight
        )

    def take(self, rows: Any) -> Case:
        weight = None if self.weight is None else self.weight[rows]
        return replace(self, X=self.X[rows], labels=self.labels[rows], weight=weight)

    def scaled(self) -> Any:
        """Return the groups' matrices as the criterion measures them."""
        moments = GroupMoments.from_array(self.X, self.labels, sample_weight=self.weight)
        S = MomentCovariances(moments).covariances
        traces = np.trace(S, axis1=1, axis2=2)
        if self.criterion in ("relative", "share"):
            S = S / np.where(traces > 0, traces, 1.0)[:, None, None]
        return S


@st.composite
def cases(draw: Any, k: int = 2) -> Case:
    """Draw the sizes, which hypothesis shrinks; the seed fills them."""
    rng, shape = np.random.default_rng(draw(seeds)), draw(st.sampled_from(SHAPES))
    n, m = draw(st.integers(2, 6)), draw(st.integers(k + 1, 40))
    X = rng.normal(size=(m, n)) * rng.uniform(0.2, 3, size=n)
    labels = np.r_[np.arange(k), rng.integers(0, k, size=m - k)]
    X += rng.normal(size=(k, n))[labels]
    X[labels == 0] *= rng.uniform(0.3, 3, size=n)
    if shape == "integers":
        X = rng.integers(-2, 3, size=(m, n)).astype(float)
    elif shape == "duplicated rows":
        X = X[rng.integers(0, max(m // 3, 1), size=m)]
    elif shape == "one row in a group":
        labels = np.r_[0, np.arange(1, k), rng.integers(1, k, size=m - k)]
    elif shape == "constant column":
        X[:, 0] = 0.1
    elif shape == "copied column":
        X[:, 0] = -2 * X[:, 1]
    elif shape == "low rank":
        X = rng.normal(size=(m, 1)) @ rng.normal(size=(1, n)) + rng.normal(size=n)
    elif shape == "same groups":
        X = X[np.maximum(np.arange(m) - labels, 0)]
    weight = rng.uniform(0.5, 2, size=m) if draw(st.booleans()) else None
    return Case(X, labels, weight, draw(st.integers(1, n)), draw(st.sampled_from([*CRITERIA])))


def rounding(case: Case) -> float:
    """How far two roads to the same number may lie apart."""
    return 1e-9 * (1 + float(np.trace(case.scaled(), axis1=1, axis2=2).max()))


@given(cases(), seeds, st.integers(1, 39))
def test_any_road_gives_one_value(case, seed, cut):
    """Rows in another order, groups by other names, batches, merged moments, sparse rows."""
    model, rng = case.fit(), np.random.default_rng(seed)
    shuffled = case.take(rng.permutation(len(case.X)))
    named = replace(case, labels=np.where(case.labels == 0, "z", "a"))
    parts = [
        case.take(slice(a, b)) for a, b in itertools.pairwise((0, cut, 41)) if a < len(case.X)
    ]
    streamed, merged = FairPCA(case.r, criterion=case.criterion), None
    for part in parts:
        if len(part.X) < 2 and merged is None:
            return
        streamed.partial_fit(part.X, sensitive_features=part.labels, sample_weight=part.weight)
        moments = GroupMoments.from_array(part.X, part.labels, sample_weight=part.weight)
        merged = moments if merged is None else moments.merge(merged)
    road = FairPCA(case.r, criterion=case.criterion)
    others = [
        shuffled.fit(),
        named.fit(),
        streamed,
        road.fit_moments(merged),
        replace(case, X=scipy.sparse.csr_array(case.X)).fit(),
    ]
    for other in others:
        assert abs(other.certificate_.value - model.certificate_.value) <= rounding(case)
        assert other.certificate_.optimal


@given(cases(), seeds)
def test_a_weight_of_three_is_the_row_three_times(case, seed):
    times = np.random.default_rng(seed).integers(1, 4, size=len(case.X))
    weighted = replace(case, weight=times.astype(float)).fit()
    repeated = replace(case, weight=None).take(np.repeat(np.arange(len(times)), times)).fit()
    assert abs(weighted.certificate_.value - repeated.certificate_.value) <= rounding(case)
    np.testing.assert_allclose(repeated.mean_, weighted.mean_, rtol=1e-12, atol=1e-12)


@given(cases(), seeds)
def test_every_blend_is_served(case, seed):
    """For any mixture of the groups' covariances the value is at most the worst group's."""
    model, S, r = case.fit(), case.scaled(), case.r
    u = model.components_
    p = np.random.default_rng(seed).dirichlet([0.5, 0.5])
    blend = np.tensordot(p, S, axes=1)
    own = np.linalg.eigvalsh(blend)[::-1][:r].sum()
    offset = {"loss": own, "relative": own, "variance": 0.0}.get(case.criterion, np.trace(blend))
    value = offset - np.trace(u @ blend @ u.T)
    assert value <= model.certificate_.value + rounding(case)


@given(cases())
def test_values_are_what_the_definition_says(case):
    """Losses, errors and values again from the rows, by the formulas of the documentation."""
    model, slack = case.fit(), rounding(case)
    w = np.ones(len(case.X)) if case.weight is None else case.weight
    mean = np.average(case.X, axis=0, weights=w)
    for i, label in enumerate(model.groups_):
        mine = case.labels == label
        rows = (case.X[mine] - mean) * np.sqrt(w[mine] / w[mine].sum())[:, None]
        total, kept = np.sum(rows**2), np.sum((rows @ model.components_.T) ** 2)
        own = np.sum(np.linalg.svd(rows, compute_uv=False)[: case.r] ** 2)
        raw = slack * max(total, 1.0)
        assert model.group_errors_[i] == pytest.approx(total - kept, abs=raw)
        assert model.group_losses_[i] == pytest.approx(own - kept, abs=raw)
        want = {"loss": own - kept, "error": total - kept, "variance": -kept}.get(case.criterion)
        if want is None and total > 1e-9:
            want = ((own if case.criterion == "relative" else total) - kept) / total
        if want is not None:
            assert model.group_values_[i] == pytest.approx(want, abs=slack)


@given(cases(k=4), seeds)
def test_no_rival_beats_the_bound_of_four_groups(case, seed):
    """Neither a random projection, nor any group's own, nor PCA."""
    model, S, rng = case.fit(), case.scaled(), np.random.default_rng(seed)
    certificate, r = model.certificate_, case.r
    assert certificate.lower_bound <= certificate.value
    assert model.group_weights_.min() >= 0
    assert model.group_weights_.sum() == pytest.approx(1, abs=1e-12)
    values = np.linalg.eigvalsh(S)[:, ::-1]
    offsets = {"loss": values[:, :r], "relative": values[:, :r], "variance": 0 * values}
    c = offsets.get(case.criterion, values).sum(axis=1)
    rivals = [*np.linalg.eigh(S)[1][:, :, ::-1], np.linalg.eigh(S.mean(axis=0))[1][:, ::-1]]
    rivals += [np.linalg.qr(rng.normal(size=S.shape[1:]))[0] for _ in range(5)]
    for rival in rivals:
        b = rival[:, :r]
        worst = (c - np.einsum("ij,kil,lj->k", b, S, b)).max()
        assert worst >= certificate.lower_bound - rounding(case)
