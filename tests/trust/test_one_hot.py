"""One-hot columns: nearly all eigenvalues tie, and what is stated is still what is returned."""

import numpy as np
import pytest

from fairpca import FairPCA
from fairpca.criteria import CRITERIA

from trust_cases import Judge, second_moments

RANKS = (1, 2, 5, 8)


def one_hot(n):
    """One column of n levels; each half of them is twice as frequent in one of the two groups."""
    h = n // 2
    a = np.r_[np.repeat(np.arange(h), 2), np.arange(h, n)]
    b = np.r_[np.arange(h), np.repeat(np.arange(h, n), 2)]
    return np.eye(n)[np.r_[a, b]], np.repeat(["a", "b"], [len(a), len(b)])


def sweep(n, ranks=RANKS, criteria=tuple(CRITERIA), centers=("global", "group")):
    """Return what is wrong with the fits of n levels: (center, r, criterion, what)."""
    X, labels = one_hot(n)
    wrong = []
    for center in centers:
        matrices = second_moments(X, labels, center=center)
        spectra = np.linalg.eigvalsh(matrices)
        for criterion in criteria:
            for r in ranks:
                judge = Judge(matrices, r, criterion, spectra)
                model = FairPCA(r, criterion=criterion, center=center)
                try:
                    model.fit(X, sensitive_features=labels)
                    judge.check(model.components_, model.certificate_, np.inf)
                    off = np.abs(model.group_values_ - judge.values(model.components_)).max()
                    assert off <= 1e-12 * judge.scale, ("group values", off)
                    assert model.certificate_.gap <= 1e-10, ("gap", model.certificate_)
                    # Any weights prove a bound; those stated prove the one stated.
                    proven = judge.bound(model.group_weights_)
                    assert model.certificate_.lower_bound <= proven + 1e-9 * judge.scale, (
                        "bound",
                        model.certificate_,
                        proven,
                    )
                except Exception as error:
                    wrong.append((center, r, criterion, f"{type(error).__name__}: {error}"))
    return wrong


@pytest.mark.parametrize("n", [81, 97, 209, 225, 256])
def test_one_hot_columns_state_the_value_of_what_they_return(n):
    ranks, criteria = (RANKS, tuple(CRITERIA)) if n < 100 else ((1, 8), ("loss", "share"))
    assert sweep(n, ranks, criteria) == []


@pytest.mark.parametrize("criterion", ["loss", "relative", "error"])
def test_one_hot_columns_attain_the_largest_dual_value(criterion):
    X, labels = one_hot(90)
    for r in (1, 5):
        judge = Judge(second_moments(X, labels), r, criterion)
        model = FairPCA(r, criterion=criterion).fit(X, sensitive_features=labels)
        judge.check(model.components_, model.certificate_, judge.optimum())
