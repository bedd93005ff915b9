"""What a certificate may claim from two numbers, and the words it says it in."""

import pytest

from fairpca.solvers import Certificate


def certificate(lower_bound, value=1.0, *, resolution=1e-15, **known):
    return Certificate.of(lower_bound, value, scale=1.0, resolution=resolution, **known)


@pytest.mark.parametrize("gap, optimal", [(0.0, True), (5e-9, True), (2e-8, False), (0.5, False)])
def test_optimal_means_a_gap_of_at_most_a_hundred_millionth(gap, optimal):
    found = certificate(1 - gap)
    assert found.optimal is found.closed is optimal
    assert found.gap == pytest.approx(gap, rel=1e-6, abs=1e-15)


def test_a_difference_below_rounding_is_no_gap_and_no_contradiction():
    below = certificate(1 - 4e-15, resolution=5e-15)
    above = certificate(1 + 4e-15, resolution=5e-15)
    assert below.gap == above.gap == 0
    assert above.lower_bound == above.value == 1


def test_a_bound_lowered_to_be_safe_counts_as_equal_only_within_rounding():
    assert certificate(1 - 8e-15, slack=1e-14).gap == 0
    assert certificate(1 - 1e-3, slack=1e-2).gap == pytest.approx(1e-3)


def test_rounding_that_hides_the_gap_proves_nothing():
    assert not certificate(1.0, resolution=1e-6).optimal


def test_the_words_are_those_of_the_numbers():
    assert "proven optimal" in str(certificate(1.0))
    assert "at most 25.00% could be gained" in str(certificate(0.75))
    assert "nothing could be proven" in str(certificate(float("-inf")))
