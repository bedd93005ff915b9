"""Two-group problems whose optimum has a tied or nearly tied r-th eigenvalue."""

from __future__ import annotations

import numpy as np


def psd(rng, n, rank=None):
    factor = rng.normal(size=(n, rank or n))
    return factor @ factor.T / n


def rotation(rng, n):
    q, r = np.linalg.qr(rng.normal(size=(n, n)))
    return q * np.sign(np.diag(r))


def degenerate_problems():
    """Return (name, S_A, S_B, r) for every construction."""
    rng = np.random.default_rng(20240)
    cases = []

    def add(name, a, b, r):
        cases.append((f"{name} n={len(a)} r={r}", a, b, r))

    for n, r in ((4, 1), (6, 2), (6, 3), (9, 4)):
        # Mirror images: exchanging the groups is a symmetry, so the optimum sits at t = 1/2.
        a = psd(rng, n)
        flip = np.eye(n)[::-1]
        add("mirror image", a, flip @ a @ flip, r)
    for n, r in ((5, 2), (8, 3), (8, 5), (12, 6)):
        q = rotation(rng, n)
        a, b = rng.integers(0, 4, n).astype(float), rng.integers(0, 4, n).astype(float)
        add("commuting integers", q @ np.diag(a) @ q.T, q @ np.diag(b) @ q.T, r)
        add("commuting integers, diagonal", np.diag(a), np.diag(b), r)
        c, d = rng.random(n), rng.random(n)
        add("commuting", q @ np.diag(c) @ q.T, q @ np.diag(d) @ q.T, r)
    for n, r in ((4, 1), (4, 2), (6, 3), (8, 4)):
        h = n // 2
        a, zero = psd(rng, h), np.zeros((h, h))
        add(
            "swapped blocks",
            np.block([[a, zero], [zero, 2 * a]]),
            np.block([[2 * a, zero], [zero, a]]),
            r,
        )
        add(
            "orthogonal supports",
            np.block([[a, zero], [zero, zero]]),
            np.block([[zero, zero], [zero, psd(rng, h)]]),
            r,
        )
    for copies, r in ((2, 1), (2, 3), (3, 1), (3, 2), (3, 4), (3, 5)):
        a, b = psd(rng, 4), psd(rng, 4)
        eye = np.eye(copies)
        add(f"S x I_{copies}", np.kron(a, eye), np.kron(b, eye), r)
    for exponent in range(3, 13):
        # Two directions exchange roles at t = 1/2 and a coupling of 10^-exponent keeps them apart.
        eps = 10.0**-exponent
        noise = psd(rng, 6)
        a = np.diag([5.0, 2.0, 1.0, 0.5, 0.2, 0.1]) + eps * noise
        b = np.diag([5.0, 1.0, 2.0, 0.5, 0.2, 0.1]) + eps * noise
        add(f"perturbed by 1e-{exponent}", a, b, 2)
        add(
            f"perturbed S x I_2 by 1e-{exponent}",
            np.kron(np.diag([2.0, 1.0]), np.eye(2)) + eps * psd(rng, 4),
            np.kron(np.diag([1.0, 2.0]), np.eye(2)) + eps * psd(rng, 4),
            1,
        )
    same = psd(rng, 5)
    add("identical groups", same, same, 2)
    add("identical isotropic groups", np.eye(4), np.eye(4), 2)
    add("circle", np.diag([1.0, -1.0]) + np.eye(2), np.array([[1.0, 1.0], [1.0, 1.0]]), 1)
    add("axes", np.diag([1.0, 0.0]), np.diag([0.0, 1.0]), 1)
    add("one group without variance", psd(rng, 4), np.zeros((4, 4)), 2)
    return cases
