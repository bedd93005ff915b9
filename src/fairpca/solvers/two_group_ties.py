"""An orthonormal U for two groups when lambda_r is tied, or too nearly tied for t to resolve.

At the optimal t the loss difference g(U) = delta - Tr(U.T E U), E = S_1 - S_2, must vanish. When
lambda_r is tied the eigensolver returns some basis of the tied eigenspace, not the one with g = 0.
`geodesic_candidate` moves to it from bases on either side of g = 0, without ever losing rank and
without knowing which eigenvalues are tied. (The paper interpolates ``orth(t V_M + (1 - t) V_m)``,
which loses rank when the two ends share directions and are listed in opposite order.)
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq

from fairpca._arrays import FloatArray, orthonormal


def geodesic_candidate(
    start: FloatArray, end: FloatArray, difference: FloatArray, delta: float
) -> FloatArray | None:
    """Return the basis with equal losses on the way from `start` (g >= 0) to `end` (g <= 0).

    One principal pair is rotated at a time, largest angle first. Along such a leg g is a constant
    plus a cosine and a sine of twice the angle, so its root is cheap to find. No cluster has to be
    guessed, which makes this the right tool for nearly tied eigenvalues.

    Parameters
    ----------
    start, end : ndarray of shape (n, r)
        Orthonormal.
    difference : ndarray of shape (n, n)
        ``S_1 - S_2``.
    delta : float
        ``offsets[0] - offsets[1]``.

    Returns
    -------
    ndarray of shape (n, r) or None
        None if g does not change sign on the way.
    """
    y, _, zt = np.linalg.svd(start.T @ end)
    source, target = start @ y, end @ zt.T
    cosines = np.sum(source * target, axis=0)
    residual = target - source * cosines
    # Angles from the residual: arccos of a cosine near 1 has lost half its digits.
    sines = np.linalg.norm(residual, axis=0)
    angles = np.arctan2(sines, cosines)
    normal = residual / np.where(sines > 0, sines, 1.0)

    image_source, image_normal = difference @ source, difference @ normal
    p = np.sum(source * image_source, axis=0)
    q = np.sum(source * image_normal, axis=0)
    s = np.sum(normal * image_normal, axis=0)

    value = delta - float(p.sum())
    basis = source.copy()
    for j in np.argsort(-angles, kind="stable"):
        half = 0.5 * (p[j] - s[j])

        def left(x: float, value: float = value, half: float = half, q: float = q[j]) -> float:
            """Return g after a rotation by x, without cancellation where x is small."""
            return value - float(2 * np.sin(x) * (q * np.cos(x) - half * np.sin(x)))

        after = left(angles[j])
        if value >= 0 >= after or value <= 0 <= after:
            x = brentq(left, 0.0, angles[j], xtol=1e-18, maxiter=200)
            basis[:, j] = np.cos(x) * source[:, j] + np.sin(x) * normal[:, j]
            return np.asarray(orthonormal(basis))
        basis[:, j] = target[:, j]
        value = after
    return None
