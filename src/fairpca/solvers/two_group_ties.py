"""An orthonormal U for two groups when lambda_r is tied, or too nearly tied for t to resolve.

At the optimal t the loss difference g(U) = delta - Tr(U.T E U), E = S_1 - S_2, must vanish. When
lambda_r is tied the eigensolver returns some basis of the tied eigenspace, not the one with g = 0.
`geodesic_candidate` moves to it from bases on either side of g = 0, without ever losing rank and
without knowing which eigenvalues are tied. (The paper interpolates ``orth(t V_M + (1 - t) V_m)``,
which loses rank when the two ends share directions and are listed in opposite order.)

It is an idea of its own: what to do where the optimal eigenvalue of two groups is tied.
"""

from __future__ import annotations

import numpy as np

from fairpca._linalg import FloatArray, orthonormal


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
        theta = float(angles[j])
        leg = _Leg(float(p[j]), float(q[j]), float(s[j]))
        after = value - leg.rise(theta)
        if value >= 0 >= after or value <= 0 <= after:
            x = leg.solve(value, theta)
            basis[:, j] = np.cos(x) * source[:, j] + np.sin(x) * normal[:, j]
            return np.asarray(orthonormal(basis))
        basis[:, j] = target[:, j]
        value = after
    return None


class _Leg:
    """The quadratic form of the difference E along ``cos(x) a + sin(x) b``.

    Parameters
    ----------
    p, q, s : float
        ``a . E a``, ``a . E b`` and ``b . E b``, for orthonormal a and b.
    """

    def __init__(self, p: float, q: float, s: float) -> None:
        self.half, self.q = 0.5 * (p - s), q

    def rise(self, x: float) -> float:
        # p (cos^2 - 1) + 2 q sin cos + s sin^2, written without cancellation at small x.
        return float(2 * np.sin(x) * (self.q * np.cos(x) - self.half * np.sin(x)))

    def solve(self, value: float, theta: float) -> float:
        """Return x in [0, theta] with ``rise(x) == value``, by bisection.

        Sixty halvings leave nothing of the interval but rounding.
        """
        low, high = 0.0, theta
        sign = 1.0 if value >= 0 else -1.0
        for _ in range(60):
            middle = 0.5 * (low + high)
            if sign * (value - self.rise(middle)) >= 0:
                low = middle
            else:
                high = middle
        return 0.5 * (low + high)
