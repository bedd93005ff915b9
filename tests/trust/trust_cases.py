"""Generated tables of people: small, awkward, and counted.

Every example a property sees passes through `tally`, so the number printed at the end of a run is
the number of cases that were really tried.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from fairpca import FairPCA
from fairpca.criteria import CRITERIA

# conftest reads it at the end of the run; kept in a module of its own name so that every test
# file of one process counts into the same place.
COUNTS: dict[str, int] = sys.modules.setdefault(
    "_trust_counts", type(sys)("_trust_counts")
).__dict__


def examples(full: int) -> int:
    """Return how many cases to try: half of them (a minute), unless asked for others."""
    return max(int(full * float(os.environ.get("FAIRPCA_TRUST_SHARE", "0.25"))), 10)


def tally(kind: str) -> None:
    """Count one generated case."""
    name = f"cases {kind}"
    COUNTS[name] = COUNTS.get(name, 0) + 1


@dataclass(frozen=True)
class Case:
    """Rows, labels, weights, rank, criterion."""

    X: Any
    labels: Any
    weight: Any
    r: int
    criterion: str

    def fit(self, **params: Any) -> FairPCA:
        settings = {"criterion": self.criterion, **params}
        return FairPCA(self.r, **settings).fit(
            self.X, sensitive_features=self.labels, sample_weight=self.weight
        )

    def take(self, rows: Any) -> Case:
        weight = None if self.weight is None else self.weight[rows]
        return replace(self, X=self.X[rows], labels=self.labels[rows], weight=weight)


# What real tables look like at their worst; the plain one is drawn as often as all others.
SHAPES = (
    *["plain"] * 6,
    "integers",
    "duplicated rows",
    "one row in a group",
    "constant column",
    "copied column",
    "low rank",
    "same groups",
    "far mean",
)


def build(rng: np.random.Generator, shape: str, n: int, m: int, k: int) -> tuple[Any, Any]:
    """Return rows and labels of one kind of table."""
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
    elif shape == "far mean":
        X += 1e6
    return X, labels


@st.composite
def cases(
    draw: Any, kind: str, k: Any = 2, criteria: Any = tuple(CRITERIA), shapes: Any = SHAPES
) -> Case:
    """Draw one case and count it; hypothesis shrinks the sizes, the seed fills them."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    k = draw(k) if isinstance(k, st.SearchStrategy) else k
    n = draw(st.integers(2, 6))
    m = draw(st.integers(k + 1, 40))
    X, labels = build(rng, draw(st.sampled_from(shapes)), n, m, k)
    weight = rng.uniform(0.5, 2, size=m) if draw(st.booleans()) else None
    case = Case(X, labels, weight, draw(st.integers(1, n)), draw(st.sampled_from(criteria)))
    tally(kind)
    return case


def rounding(model: FairPCA, X: Any) -> float:
    """How far two roads to the same number may lie apart, in the units of the criterion.

    Rows far from zero carry the rounding of their own digits into every variance.
    """
    spread = float(np.abs(X).max(initial=0.0))
    digits = np.finfo(float).eps * spread * (1 + np.ptp(X, axis=0).max(initial=0.0))
    if model.criterion in ("relative", "share"):
        traces = model.group_errors_ + model.group_losses_
        digits /= max(float(traces[traces > 0].min(initial=np.inf)), 1e-9)
    return 1e4 * (model.certificate_.resolution + digits)


def same_value(one: FairPCA, other: FairPCA, slack: float, unit: float = 1.0) -> None:
    """Assert that two fits agree about the best worst value."""
    want, got = unit * one.certificate_.value, other.certificate_.value
    assert abs(got - want) <= 1e-8 * abs(want) + slack, (want, got, slack)


def second_moments(X: Any, labels: Any, weight: Any = None, center: str = "global") -> Any:
    """Every group's second moments by NumPy alone, about one mean or about the groups' own."""
    X, labels = np.asarray(X, dtype=float), np.asarray(labels)
    weight = np.ones(len(X)) if weight is None else np.asarray(weight, dtype=float)
    # A first mean takes the size of the columns away, a second one what rounding left.
    X = X - weight @ X / weight.sum()
    X = X - weight @ X / weight.sum()
    found = []
    for group in np.unique(labels):
        rows, w = X[labels == group], weight[labels == group] / weight[labels == group].sum()
        rows = rows - w @ rows if center == "group" else rows
        found.append((rows * w[:, None]).T @ rows)
    return np.array(found)


class Judge:
    """What bases and bounds are worth, from explicit matrices and NumPy alone."""

    def __init__(
        self, matrices: Any, r: int, criterion: str = "loss", spectra: Any = None
    ) -> None:
        traces = np.trace(matrices, axis1=1, axis2=2)
        spectra = np.linalg.eigvalsh(matrices) if spectra is None else spectra
        own = spectra[:, ::-1][:, :r].sum(axis=1)
        if criterion in ("relative", "share"):
            divisor = np.where(traces > 0, traces, 1.0)
            matrices, own = matrices / divisor[:, None, None], own / divisor
            traces = np.where(traces > 0, 1.0, 0.0)
        self.matrices, self.r, self.scale = matrices, r, float(traces.max())
        self.offsets = {"error": traces, "share": traces, "variance": 0 * traces}.get(
            criterion, own
        )

    def values(self, components: Any) -> Any:
        """Every group's criterion at orthonormal rows."""
        kept = np.einsum("rn,knm,rm->k", components, self.matrices, components, optimize=True)
        return self.offsets - kept

    def value(self, components: Any) -> float:
        """The worst group's criterion at orthonormal rows."""
        assert np.abs(components @ components.T - np.eye(len(components))).max() <= 1e-12
        return float(self.values(components).max())

    def bound(self, weights: Any) -> float:
        """The dual function: no basis has a smaller worst value."""
        mixed = np.tensordot(weights, self.matrices, axes=1)
        return float(weights @ self.offsets - np.linalg.eigvalsh(mixed)[::-1][: self.r].sum())

    def optimum(self) -> float:
        """The best worst value of two groups: the largest dual value, which is concave."""
        low, high = 0.0, 1.0
        for _ in range(60):
            a, b = low + (high - low) / 3, high - (high - low) / 3
            rising = self.bound(np.array([a, 1 - a])) < self.bound(np.array([b, 1 - b]))
            low, high = (a, high) if rising else (low, b)
        return max(self.bound(np.array([t, 1 - t])) for t in (0.0, low, high, 1.0))

    def check(
        self, components: Any, certificate: Any, attained: float, rtol: float = 1e-12
    ) -> None:
        """Assert that a value is that of the basis, and no bound above what some basis attains."""
        slack = rtol * self.scale + certificate.resolution
        true = self.value(components)
        assert abs(certificate.value - true) <= slack, ("value", certificate, true)
        assert certificate.lower_bound <= min(true, attained) + slack, (
            "bound",
            certificate,
            attained,
        )
