"""One-hot columns: nearly all eigenvalues tie, and what is stated is still what is returned."""

import pytest
from tools.one_hot import CENTERS, CRITERIA, RANKS, one_hot, wrong

from fairpca import FairPCA

from trust_cases import Judge, second_moments


@pytest.mark.parametrize("center", CENTERS)
@pytest.mark.parametrize("n", [81, 97, 209, 225, 256])
def test_one_hot_columns_state_the_value_of_what_they_return(n, center):
    criteria, ranks = (CRITERIA, RANKS) if n < 100 else (("loss", "share"), (1, 8))
    assert list(wrong(n, center, criteria, ranks)) == []


@pytest.mark.parametrize("criterion", ["loss", "relative", "error"])
def test_one_hot_columns_attain_the_largest_dual_value(criterion):
    X, labels = one_hot(90)
    for r in (1, 5):
        judge = Judge(second_moments(X, labels), r, criterion)
        model = FairPCA(r, criterion=criterion).fit(X, sensitive_features=labels)
        judge.check(model.components_, model.certificate_, judge.optimum())
