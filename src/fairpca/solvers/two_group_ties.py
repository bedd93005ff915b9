"""An orthonormal U for two groups when lambda_r is tied, or too nearly tied for t to resolve.

At the optimal t the loss difference g(U) = delta - Tr(U.T E U), E = S_1 - S_2, must vanish. When
lambda_r is tied the eigensolver returns some basis of the tied eigenspace, not the one with g = 0.
Two constructions move to it without ever losing rank; the caller keeps whichever candidate has the
smaller worst loss. (The paper interpolates ``orth(t V_M + (1 - t) V_m)``, which loses rank when
the two ends share directions and are listed in opposite order.)

`swap_candidates` needs to know which eigenvalues are tied, and then has a closed form.
`geodesic_candidate` needs a basis on either side of g = 0 instead.

It is an idea of its own: what to do where the optimal eigenvalue of two groups is tied.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from fairpca._linalg import FloatArray, orthonormal, symmetric
from fairpca.covariances.eigenpairs import EigenPairs

# Cluster widths tried by the swap, relative to the problem's scale. A tie is never known exactly,
# and a wrong guess costs nothing: the candidate then simply has the larger worst loss.
_CLUSTER_WIDTHS = (1e-14, 1e-12, 1e-10, 1e-8, 1e-6)


def swap_candidates(
    pairs: EigenPairs, r: int, difference: FloatArray, delta: float, scale: float
) -> Iterator[FloatArray]:
    """Yield bases with equal losses inside the eigenvalue clusters around position `r`.

    Inside a tied eigenspace every basis has the same weighted loss, so g may be moved to zero
    there without giving up the optimum.

    Parameters
    ----------
    pairs : EigenPairs
        All eigenpairs at the optimal weight.
    r : int
    difference : ndarray of shape (n, n)
        ``S_1 - S_2``.
    delta : float
        ``offsets[0] - offsets[1]``.
    scale : float
        Magnitude of the matrices, which cluster widths are relative to.

    Yields
    ------
    ndarray of shape (n, r)
        One for every cluster that is wide enough to reach g = 0; there may be none.
    """
    tried: set[tuple[int, int]] = set()
    for width in _CLUSTER_WIDTHS:
        near = np.abs(pairs.values - pairs.values[r - 1]) <= width * scale
        inside = np.flatnonzero(near)
        first, last = int(inside[0]), int(inside[-1]) + 1
        if last <= r or (first, last) in tried:
            continue
        tried.add((first, last))
        fixed, cluster = pairs.vectors[:, :first], pairs.vectors[:, first:last]
        chosen = _swap(fixed, cluster, r - first, difference, delta)
        if chosen is not None:
            yield orthonormal(np.hstack([fixed, chosen]))


def _swap(
    fixed: FloatArray, cluster: FloatArray, d: int, difference: FloatArray, delta: float
) -> FloatArray | None:
    """Return `d` directions of the cluster with which g vanishes, or None if g cannot reach zero.

    The d directions that make g smallest are exchanged one by one for those that make it largest.
    The exchange in which g changes sign is done in part, by a rotation whose angle is explicit.

    Parameters
    ----------
    fixed : ndarray of shape (n, r - d)
        The eigenvectors above the cluster, which stay.
    cluster : ndarray of shape (n, q)
        The tied eigenvectors, of which the basis takes d.
    d : int
    difference, delta
        As in `swap_candidates`.
    """
    # Directions of the cluster ordered by what they contribute to g = delta - Tr(U.T E U).
    gains, rotation = np.linalg.eigh(-symmetric(cluster.T @ difference @ cluster))
    directions = cluster @ rotation
    q = len(gains)
    value = delta - float(np.sum(fixed * (difference @ fixed))) + float(gains[:d].sum())
    if value > 0 or value + float(gains[q - d :].sum() - gains[:d].sum()) < 0:
        return None
    chosen: FloatArray = directions[:, :d].copy()
    # Source j and target q - d + j never collide when j runs downwards: rank cannot be lost.
    for j in range(d - 1, -1, -1):
        target = q - d + j
        rise = float(gains[target] - gains[j])
        if value + rise >= 0:
            sine2 = min(max(-value / rise, 0.0), 1.0) if rise > 0 else 0.0
            chosen[:, j] = (
                np.sqrt(1 - sine2) * directions[:, j] + np.sqrt(sine2) * directions[:, target]
            )
            return chosen
        chosen[:, j] = directions[:, target]
        value += rise
    return chosen


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
    difference, delta
        As in `swap_candidates`.

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
