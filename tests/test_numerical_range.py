"""The joint numerical range and phi."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fairpca
from fairpca import joint_numerical_range, phi

from two_group_problems import psd


@given(st.integers(0, 2**31), st.integers(2, 7), st.data())
def test_every_projection_lies_inside(seed, n, data):
    r = data.draw(st.integers(1, n - 1))
    rng = np.random.default_rng(seed)
    S, T = psd(rng, n) - psd(rng, n), psd(rng, n) - psd(rng, n)
    W = fairpca.joint_numerical_range(S, T, r, n_angles=16, tol=0)
    U = np.linalg.qr(rng.normal(size=(n, r)))[0]
    y = np.array([np.trace(U.T @ S @ U), np.trace(U.T @ T @ U)])
    normals = np.stack([np.cos(W.angles), np.sin(W.angles)], axis=1)
    assert np.all(normals @ y <= np.sum(normals * W.points, axis=1) + 1e-9)


def test_refinement_reaches_the_tolerance():
    """Against a fine uniform sampling; a few angles placed well beat many placed evenly."""
    rng = np.random.default_rng(5)
    a, b = psd(rng, 8), psd(rng, 8, rank=2) * 20
    fine = fairpca.joint_numerical_range(a, b, 2, n_angles=4000, tol=0)
    refined = fairpca.joint_numerical_range(a, b, 2, n_angles=12, tol=1e-3)
    coarse = fairpca.joint_numerical_range(a, b, 2, n_angles=len(refined.angles), tol=0)
    angles = np.linspace(0, 2 * np.pi, 4000)
    normals = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    diameter = np.ptp(fine.points, axis=0).max()
    best, near, far = ((normals @ W.points.T).max(axis=1) for W in (fine, refined, coarse))
    assert np.max(best - near) <= min(1e-3 * diameter, np.max(best - far))
    assert len(refined.angles) < 400


def test_polygon_of_commuting_matrices():
    """Diagonal matrices, r = 1: the hull of the points (S_jj, T_jj)."""
    S, T = np.diag([0.0, 1.0, 0.0]), np.diag([0.0, 0.0, 1.0])
    W = fairpca.joint_numerical_range(S, T, 1, n_angles=9)
    assert W.area == pytest.approx(0.5, abs=1e-9)
    assert np.array_equal(W.outline[0], W.outline[-1])


def test_optimum_is_where_the_diagonal_enters():
    rng = np.random.default_rng(8)
    n, r = 6, 2
    S = np.array([psd(rng, n), psd(rng, n)])
    solution = fairpca.solve(S, r)
    c = np.linalg.eigvalsh(S)[:, ::-1][:, :r].sum(axis=1)
    H = (c / r)[:, None, None] * np.eye(n) - S
    W = fairpca.joint_numerical_range(*H, r, tol=1e-5)
    # No point of the range has max(y1, y2) below the optimum, and one comes close.
    assert W.points.max(axis=1).min() >= solution.certificate.value * (1 - 1e-9)
    assert W.points.max(axis=1).min() <= solution.certificate.value * 1.05


def test_phi_is_concave_vectorised_and_below_every_projection():
    rng = np.random.default_rng(9)
    S = np.array([psd(rng, 5), psd(rng, 5)])
    t = np.linspace(0, 1, 21)
    values = fairpca.phi(S, 2, t)
    assert values.shape == t.shape
    assert fairpca.phi(S, 2, t.reshape(3, 7)).shape == (3, 7)
    assert float(fairpca.phi(S, 2, 0.3)) == pytest.approx(float(np.interp(0.3, t, values)))
    assert np.all(values[1:-1] >= 0.5 * (values[:-2] + values[2:]) - 1e-12)
    assert values[0] == pytest.approx(0, abs=1e-12)
    assert values.max() <= fairpca.solve(S, 2).certificate.value + 1e-12


def test_phi_on_the_simplex():
    S = np.array([np.diag(row) for row in np.eye(3)])
    assert fairpca.phi(S, 1, np.full((2, 3), 1 / 3)).tolist() == pytest.approx([2 / 3, 2 / 3])


@pytest.mark.parametrize(
    "call,match",
    [
        (lambda: fairpca.phi(np.eye(3)[None], 1, [0.5]), "sum to one"),
        (lambda: fairpca.phi([np.eye(3)] * 2, 1, 1.5), "t=1.5 must hold weights"),
        (lambda: fairpca.phi([np.eye(3)] * 2, 4, 0.5), "n_components=4 must be between 1"),
        (lambda: fairpca.phi(np.eye(3), 1, 0.5), r"covariances has shape \(3, 3\)"),
        (lambda: fairpca.phi([[[1, 2], [0, 1]]], 1, [1.0]), "not symmetric"),
        (lambda: fairpca.phi([np.full((2, 2), np.nan)], 1, [1.0]), "covariances contains NaN"),
        (lambda: fairpca.joint_numerical_range(np.eye(2), np.eye(2), 1, n_angles=2), "n_angles=2"),
    ],
)
def test_bad_input(call, match):
    with pytest.raises(ValueError, match=match):
        call()


def test_units_are_those_that_solve_takes():
    S = np.array([np.diag([3.0, 1, 0]), np.diag([0, 1.0, 2])])
    for unit in (1e90, 1e-90):
        np.testing.assert_allclose(phi(S * unit, 1, [0.3]) / unit, phi(S, 1, [0.3]), rtol=1e-12)
        found = joint_numerical_range(*(S * unit), 1).points
        np.testing.assert_allclose(found / unit, joint_numerical_range(*S, 1).points, atol=1e-12)
    with pytest.raises(ValueError, match="divides by traces"):
        phi([np.diag([1.0, -3]), np.diag([1.0, 0])], 1, [0.5], criterion="relative")
    for wrong in ({"n_angles": "a"}, {"n_angles": 100.5}, {"tol": np.nan}, {"max_angles": None}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            joint_numerical_range(*S, 1, **wrong)
