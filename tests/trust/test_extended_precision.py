"""Hard numerics: the certificate is an enclosure, computed again in fifty digits."""

from __future__ import annotations

import numpy as np
import pytest

import fairpca
from fairpca import FairPCA
from fairpca.criteria import CRITERIA

pytest.importorskip("mpmath", reason="needs mpmath")

from extended_precision import bound_and_value

pytestmark = pytest.mark.filterwarnings(
    "ignore:The gap between:sklearn.exceptions.ConvergenceWarning"
)


def with_spectrum(rng, values):
    q = np.linalg.qr(rng.normal(size=(len(values), len(values))))[0]
    s = (q * values) @ q.T
    return (s + s.T) / 2


def conditioned(exponent, k, rng):
    return [with_spectrum(rng, np.logspace(0, -exponent, 5)) for _ in range(k)], 2


def near_tie(exponent, k, rng):
    """The r-th and the next eigenvalue differ by 10^-exponent, in every group."""
    gap = 10.0**-exponent
    spectra = [np.array([2.0, 1 + gap, 1.0, 1 - gap, 0.1]) * (1 + i) for i in range(k)]
    return [with_spectrum(rng, values) for values in spectra], 2


def crossing(exponent, k, rng):
    """Two directions exchange roles between the groups, kept apart by 10^-exponent."""
    noise = with_spectrum(rng, np.linspace(0, 1, 4)) * 10.0**-exponent
    orders = ([2.0, 1, 0.5, 0.2], [1.0, 2, 0.5, 0.2], [1.0, 1, 2, 0.2])[:k]
    return [np.diag(order) + noise for order in orders], 1


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("exponent", [6, 12, 15])
@pytest.mark.parametrize("family", [conditioned, near_tie, crossing])
def test_enclosure_in_fifty_digits(family, exponent, k):
    matrices, r = family(exponent, k, np.random.default_rng(exponent))
    for criterion in {"loss", sorted(CRITERIA)[(exponent + k) % len(CRITERIA)]}:
        found = fairpca.solve(matrices, r, criterion=criterion)
        c = found.certificate
        bound, value = bound_and_value(matrices, r, found.weights, found.components, criterion)
        assert abs(value - c.value) <= c.resolution
        # The resolution is that of the arithmetic, not an excuse.
        assert c.resolution <= 2e-14 * max(1.0, *np.trace(matrices, axis1=1, axis2=2))
        assert c.lower_bound <= c.value
        if not c.nodes:
            assert c.lower_bound <= bound + c.resolution


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("exponent", [-40, -10, 10, 40])
@pytest.mark.parametrize("criterion", CRITERIA)
def test_any_unit(k, exponent, criterion):
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(40, 4)) * [3, 2, 1, 0.5], np.arange(40) % k
    X[labels == 0] *= [0.5, 1, 2, 3]
    plain = FairPCA(2, criterion=criterion).fit(X, sensitive_features=labels)
    unit = 10.0**exponent
    other = FairPCA(2, criterion=criterion).fit(unit * X, sensitive_features=labels)
    size = 1.0 if criterion in ("relative", "share") else unit**2
    assert other.certificate_.value == pytest.approx(size * plain.certificate_.value, rel=1e-9)
    # Rounding may turn the sectors of a search, and then it proves a little more or less.
    assert abs(other.certificate_.gap - plain.certificate_.gap) <= 1e-7


@pytest.mark.parametrize("criterion", ["loss", "relative", "share"])
@pytest.mark.parametrize("offset", [1e4, 1e6])
def test_a_far_mean_leaves_the_enclosure(offset, criterion):
    rng = np.random.default_rng(1)
    X, labels = np.round(rng.normal(size=(60, 4)) * [3, 2, 1, 0.5], 3), np.arange(60) % 2
    near = FairPCA(2, criterion=criterion).fit(X, sensitive_features=labels).certificate_
    far = FairPCA(2, criterion=criterion).fit(X + offset, sensitive_features=labels).certificate_
    assert far.value == pytest.approx(near.value, rel=1e-8 * offset / 1e4)
    assert far.optimal
