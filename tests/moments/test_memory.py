"""The memory of moments is stated, and refused with a remedy."""

import pytest

from fairpca.moments.memory import check_moments_size, default_limit, moments_bytes, readable


def test_states_what_is_needed():
    text = check_moments_size(1764, 2, 10**9)
    assert "1,764 features" in text
    assert readable(moments_bytes(1764, 2)) == "49.8 MB"
    assert "49.8 MB" in text


def test_refuses_with_the_number_that_fits_and_a_remedy():
    with pytest.raises(MemoryError, match=r"about 11,180 features fit.*fit_operators"):
        check_moments_size(50_000, 1, 10**9)
    with pytest.raises(MemoryError, match="2 at a time"):
        check_moments_size(11_000, 1, 10**9, copies=2)


def test_default_limit_is_part_of_this_machine():
    assert 2**26 < default_limit() < 2**44
    assert readable(3e15) == "3,000.0 TB"
