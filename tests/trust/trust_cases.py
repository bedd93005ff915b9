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
    """Return how many cases to try: all, unless a quick look is asked for."""
    return max(int(full * float(os.environ.get("FAIRPCA_TRUST_SHARE", "1"))), 10)


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
