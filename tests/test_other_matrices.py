"""Symmetric matrices that are no covariances, and constraints other than U.T U = I."""

import re
from pathlib import Path

import numpy as np
import pytest
import scipy.linalg
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cross_decomposition import CCA, PLSSVD

import fairpca

PAGE = Path(__file__).parents[1] / "docs" / "theory" / "other_matrices.md"


def indefinite(rng, k, n):
    roots = rng.standard_normal((k, n, n))
    return roots + np.swapaxes(roots, 1, 2)


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(1, 5), st.integers(2, 7))
def test_indefinite_matrices_are_solved_and_bounded(seed, k, n):
    rng = np.random.default_rng(seed)
    matrices, r = indefinite(rng, k, n), int(rng.integers(1, n))
    found = fairpca.solve(matrices, r, criterion="variance")
    U = found.components.T
    np.testing.assert_allclose(U.T @ U, np.eye(r), atol=1e-12)
    values = -np.einsum("ar,kab,br->k", U, matrices, U)
    np.testing.assert_allclose(found.losses, values, atol=1e-10)
    others = np.linalg.qr(rng.standard_normal((500, n, r)))[0]
    worst = (-np.einsum("sar,kab,sbr->sk", others, matrices, others)).max(axis=1)
    assert worst.min() >= found.certificate.lower_bound - 1e-9
    if k <= 2:
        assert found.certificate.optimal


@pytest.mark.parametrize("unit", [1.0, 1e-80, 1e80])
@pytest.mark.parametrize("k", [1, 2, 4])
@pytest.mark.parametrize("r", [1, 2])
def test_matrices_without_a_trace_have_a_magnitude(k, r, unit):
    """Covariances between two sets of columns have trace zero, which is no rounding level."""
    across = np.random.default_rng(0).standard_normal((20, 10))
    matrix = unit * np.block([[np.zeros((20, 20)), across], [across.T, np.zeros((10, 10))]])
    size = unit * np.linalg.norm(across, 2)
    for criterion in ("loss", "variance"):
        certificate = fairpca.solve([matrix] * k, r, criterion=criterion).certificate
        assert 1e-16 * size < certificate.resolution < 1e-12 * size
        assert certificate.optimal
        if criterion == "loss":
            assert certificate.gap == 0
    other = unit * np.diag(np.where(np.arange(30) % 2, 1.0, -1.0))
    assert fairpca.solve([matrix, other], r).certificate.optimal


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(2, 7))
def test_one_matrix_with_b_is_scipys_generalised_eigenproblem(seed, n):
    rng = np.random.default_rng(seed)
    matrix, root = indefinite(rng, 1, n)[0], rng.standard_normal((n, n)) + 3 * np.eye(n)
    B, r = root @ root.T, int(rng.integers(1, n))
    values, vectors = scipy.linalg.eigh(matrix, B)
    found = fairpca.solve([matrix], r, criterion="variance", B=B)
    C = found.components
    np.testing.assert_allclose(C @ B @ C.T, np.eye(r), atol=1e-9)
    assert -found.losses[0] == pytest.approx(values[-r:].sum(), abs=1e-9)
    if values[-r] - values[-r - 1] > 1e-3:
        top = vectors[:, -r:]
        np.testing.assert_allclose(C.T @ C, top @ top.T, atol=1e-7)


def test_two_groups_with_b_are_those_of_the_transformed_matrices():
    rng = np.random.default_rng(0)
    roots = rng.standard_normal((2, 6, 6))
    matrices = roots @ np.swapaxes(roots, 1, 2)
    L = np.tril(rng.standard_normal((6, 6))) + 4 * np.eye(6)
    inverse = np.linalg.inv(L)
    found = fairpca.solve(matrices, 2, B=L @ L.T)
    plain = fairpca.solve(inverse @ matrices @ inverse.T, 2)
    np.testing.assert_allclose(found.losses, plain.losses, rtol=1e-8)
    assert found.certificate.optimal
    kept = np.einsum("ra,kab,rb->k", found.components, matrices, found.components)
    own = [scipy.linalg.eigh(matrix, L @ L.T)[0][-2:].sum() for matrix in matrices]
    np.testing.assert_allclose(found.losses, own - kept, atol=1e-9)


def test_the_page_prints_what_it_shows_and_agrees_with_scikit_learn(capsys):
    """The code of the page runs; for one group it is CSP of SciPy, CCA and PLS of scikit-learn."""
    text = PAGE.read_text(encoding="utf-8")
    names = {}
    for code in re.findall(r"```python\n(.*?)```", text, flags=re.S):
        exec(code, names)
    shown = "".join(re.findall(r"```text\n(.*?)```", text, flags=re.S))
    assert capsys.readouterr().out.replace("-0.0", "0.0") == shown

    left, right = names["left"][0], names["right"][0]
    alone = fairpca.solve([left], 2, B=left + right, criterion="variance")
    top = scipy.linalg.eigh(left, left + right)[1][:, -2:]
    np.testing.assert_allclose(alone.components.T @ alone.components, top @ top.T, atol=1e-8)

    x, y = names["x"], names["y"]
    across, within = names["blocks"](x, y)
    canonical = fairpca.solve([across], 2, B=within, criterion="variance")
    a, b = CCA(2, scale=False, tol=1e-12, max_iter=5000).fit(x, y).transform(x, y)
    correlations = [np.corrcoef(a[:, i], b[:, i])[0, 1] for i in range(2)]
    assert -canonical.losses[0] == pytest.approx(sum(correlations), abs=1e-6)

    least = fairpca.solve([across], 2, criterion="variance")
    a, b = PLSSVD(2, scale=False).fit(x, y).transform(x, y)
    assert -least.losses[0] == pytest.approx(np.sum(a * b) / len(x), rel=1e-8)


def test_wrong_matrices_are_refused_in_words():
    matrices = np.array([np.diag([1.0, -3.0]), np.diag([2.0, 1.0])])
    with pytest.raises(ValueError, match=r"criterion='share' divides by traces.*-2.*'variance'"):
        fairpca.solve(matrices, 1, criterion="share")
    with pytest.raises(ValueError, match=r"criterion='relative' divides by traces.* is 0;"):
        fairpca.solve([np.diag([1.0, -1.0]), matrices[1]], 1, criterion="relative")
    with pytest.raises(ValueError, match="mismatch"):
        fairpca.solve(matrices, 1, B=np.eye(3))
    with pytest.raises(ValueError, match="not positive definite"):
        fairpca.solve(matrices, 1, B=np.diag([1.0, -1.0]))
    moments = fairpca.GroupMoments.from_array(np.eye(4), [0, 0, 1, 1])
    with pytest.raises(ValueError, match=r"moments\.covariances"):
        fairpca.solve(moments, 1, B=np.eye(4))


@pytest.mark.parametrize("condition", [1e2, 1e4, 1e6, 1e8])
def test_the_stated_rounding_covers_an_ill_conditioned_constraint(condition):
    rng = np.random.default_rng(2)
    turn = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    B = (turn * np.geomspace(1, 1 / condition, 6)) @ turn.T
    S = np.array([M @ M.T for M in rng.normal(size=(2, 6, 6))])
    found = fairpca.solve(S, 2, B=0.5 * (B + B.T), criterion="variance")
    values = -np.einsum("ra,kab,rb->k", found.components, S, found.components)
    proof = found.certificate
    assert (
        abs(values.max() - proof.value) <= proof.resolution <= 1e-6 * condition * abs(proof.value)
    )


def test_units_of_columns_lose_no_digits():
    rng = np.random.default_rng(1)
    S = np.array([v @ v.T for v in rng.normal(size=(3, 4, 2))])
    D = np.diag([1, 1, 1, 1e-8])
    plain, scaled = fairpca.solve(S, 2), fairpca.solve(D @ S @ D, 2, B=D @ D)
    assert scaled.certificate.resolution < 1e-12
    assert scaled.certificate.value == pytest.approx(plain.certificate.value, rel=1e-9)
