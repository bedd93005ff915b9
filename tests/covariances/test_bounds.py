"""Bounds on sums of eigenvalues against fifty digits; wrong pairs prove nothing false."""

import mpmath as mp
import numpy as np
import pytest

from fairpca._arrays import rounding_level
from fairpca.covariances.dense import full_pairs, sum_bound
from fairpca.covariances.oracle import EigenPairs

mp.mp.dps = 50


def spectra(n, rng):
    """Spectra as they come, and as they are hard: each of n values, the largest about one."""
    return {
        "random": rng.random(n),
        "clustered": 1 + 1e-9 * rng.random(n) - np.repeat([0.0, 0.5], [n - n // 2, n // 2]),
        "tied": np.repeat([1.0, 0.5, 0.25], [n // 3, n // 3, n - 2 * (n // 3)]),
        "deficient": np.r_[1 + rng.random(n // 3), np.zeros(n - n // 3)],
        "graded": 10.0 ** -np.linspace(0, 15, n),
        "identity": np.ones(n),
        "zero": np.zeros(n),
        "indefinite": rng.normal(size=n),
    }


FAMILIES = tuple(spectra(3, np.random.default_rng(0)))


def matrix_of(family, n, seed):
    rng = np.random.default_rng(seed)
    q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    matrix = (q * spectra(n, rng)[family]) @ q.T
    return 0.5 * (matrix + matrix.T)


def sums(matrix):
    """The sums of the r largest eigenvalues of a matrix of floats, r = 1 to n, to fifty digits."""
    exact = mp.matrix([[mp.mpf(float(x)) for x in row] for row in matrix])
    values = sorted(mp.eigsy(exact, eigvals_only=True), reverse=True)
    return [mp.fsum(values[:r]) for r in range(1, len(matrix) + 1)]


def check(found, exact, matrix):
    """A bound is no smaller than the sum, and larger by its slack and a few units only."""
    unit = rounding_level(float(np.abs(matrix).max()) * len(matrix), len(matrix))
    # The bound itself is rounded to a float once.
    assert np.nextafter(found.bound, np.inf) >= exact
    assert found.bound - exact <= mp.mpf(2 * found.slack + unit)
    assert found.slack <= 32 * unit


def random_seed(family, n):
    return 100 * FAMILIES.index(family) + n


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("n", [1, 2, 5, 12, 24])
def test_all_pairs_bound_every_sum(family, n):
    matrix = matrix_of(family, n, random_seed(family, n))
    exact, pairs = sums(matrix), full_pairs(matrix)
    for r in range(1, n + 1):
        found = sum_bound(matrix, pairs, r)
        assert found is not None
        check(found, exact[r - 1], matrix)


@pytest.mark.parametrize("r", [150, 299])
def test_one_large_eigenvalue_leaves_all_sums_known_to_rounding(r):
    """Vectors are orthogonal to rounding, which the largest eigenvalue must not multiply."""
    q = np.linalg.qr(np.random.default_rng(0).normal(size=(300, 300)))[0]
    matrix = (q * np.r_[1.0, np.full(299, 1e-9)]) @ q.T
    matrix = 0.5 * (matrix + matrix.T)
    found = sum_bound(matrix, full_pairs(matrix), r)
    assert found is not None
    assert found.slack <= 16 * rounding_level(float(np.trace(matrix)), 300)
    assert found.bound >= np.trace(matrix) - (300 - r) * 1e-9


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("n", [3, 9, 24])
def test_some_pairs_bound_every_sum_they_can_prove(family, n):
    matrix = matrix_of(family, n, random_seed(family, n))
    exact, pairs = sums(matrix), full_pairs(matrix)
    proven = 0
    for q in range(1, n):
        for r in range(1, q + 1):
            found = sum_bound(matrix, pairs.head(q), r)
            if found is not None:
                proven += 1
                check(found, exact[r - 1], matrix)
    # What has no step among the pairs cannot be told from the rest; all others can.
    assert proven > 0 or family in ("identity", "zero", "clustered", "tied")


@pytest.mark.parametrize("rotated", [False, True])
def test_a_clear_step_is_proven_whatever_basis_spans_the_pairs(rotated):
    n, r = 20, 3
    rng = np.random.default_rng(0)
    q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    matrix = (q * np.r_[5, 4, 3, 2, np.linspace(1, 0.1, n - 4)]) @ q.T
    matrix = 0.5 * (matrix + matrix.T)
    pairs = full_pairs(matrix).head(6)
    if rotated:
        turn = np.linalg.qr(rng.normal(size=(6, 6)))[0]
        pairs = EigenPairs(pairs.values, pairs.vectors @ turn)
    found = sum_bound(matrix, pairs, r)
    assert found is not None
    check(found, sums(matrix)[r - 1], matrix)


def wrong_pairs(pairs, rng):
    """Pairs that are not what they claim to be, by what is wrong with them."""
    values, vectors = pairs.values, pairs.vectors
    n, q = vectors.shape
    drawn = rng.normal(size=(n, q))
    twice = np.r_[0, 0, 1 : max(q - 1, 1)][:q]
    yield "a direction missing", EigenPairs(values[1:], vectors[:, 1:])
    yield "another direction missing", EigenPairs(values[:-1], vectors[:, :-1])
    yield "copies", EigenPairs(values[twice], vectors[:, twice])
    for size in (1e-14, 1e-10, 1e-7, 1e-4, 1e-1, 1.0):
        noisy = vectors + size * drawn
        yield f"perturbed by {size}", EigenPairs(values, noisy)
        yield f"turned by {size}", EigenPairs(values, np.linalg.qr(noisy)[0])
    yield "values too small", EigenPairs(0.9 * values, vectors)
    yield "values smaller by a hair", EigenPairs(values - 1e-10, vectors)
    yield "values in wrong order", EigenPairs(values[::-1], vectors)
    yield "all in wrong order", EigenPairs(values[::-1], vectors[:, ::-1])
    yield "not a number", EigenPairs(values, np.where(np.arange(q) == q - 1, np.nan, vectors))
    yield "values not a number", EigenPairs(np.full(q, np.nan), vectors)
    yield "values infinite", EigenPairs(np.r_[-np.inf, values[1:]], vectors)
    yield "zeros", EigenPairs(values, 0 * vectors)
    yield "short", EigenPairs(values, 0.5 * vectors)
    yield "drawn", EigenPairs(values, np.linalg.qr(drawn)[0])
    yield "huge", EigenPairs(values, 1e200 * vectors)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("n", [6, 16])
def test_wrong_pairs_never_prove_a_sum_that_is_too_small(family, n):
    matrix = matrix_of(family, n, random_seed(family, n))
    exact, right = sums(matrix), full_pairs(matrix)
    rng = np.random.default_rng(n)
    # Two roundings of a product, no more: the sums themselves are sums of floats.
    unit = np.finfo(float).eps * float(np.abs(matrix).max())
    for q in {2, n // 2, n - 1, n}:
        # Leading pairs, and others that are pairs but do not lead.
        others = EigenPairs(right.values[n - q :], right.vectors[:, n - q :])
        for base in (right.head(q), others):
            for what, pairs in [("nothing", base), *wrong_pairs(base, rng)]:
                for r in {1, 2, n // 2, n}:
                    if r > q:
                        continue
                    found = sum_bound(matrix, pairs, r)
                    if found is not None:
                        assert np.isfinite(found.bound), (what, q, r)
                        assert found.bound >= exact[r - 1] - unit, (what, q, r, found)


def test_columns_that_mix_across_a_narrow_step_prove_no_sum_that_is_too_small():
    """The step past two is a tenth of the widest one, and less than what is off the diagonal."""
    matrix = np.diag([20.0, 20.0, 19.0, 9.0, 19.24])
    matrix[0, 1] = matrix[1, 0] = 0.7
    # What the four columns leave out is coupled with the lower of the two that lead.
    matrix[:2, 4] = matrix[4, :2] = np.array([0.3, -0.3]) / np.sqrt(2)
    columns = np.eye(5)[:, :4]
    found = sum_bound(matrix, EigenPairs(np.diag(matrix)[:4], columns), 2)
    assert found is None or found.bound >= sums(matrix)[1]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("n", [130, 180])
def test_a_pair_replaced_in_a_large_matrix_is_noticed(n):
    """Large matrices are multiplied with one vector of signs only."""
    matrix = matrix_of("random", n, n)
    true = np.linalg.eigvalsh(matrix)[::-1]
    right = full_pairs(matrix)
    found = sum_bound(matrix, right, 3)
    assert found is not None
    assert true[:3].sum() <= found.bound <= true[:3].sum() + 1e-12 * n
    rng = np.random.default_rng(0)
    for what, pairs in wrong_pairs(right, rng):
        found = sum_bound(matrix, pairs, 3)
        assert found is None or found.bound >= true[:3].sum() - 1e-13 * n, what
