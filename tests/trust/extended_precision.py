"""The certificate again in fifty digits, from the same floating-point matrices."""

from __future__ import annotations

from typing import Any

import mpmath as mp
import numpy as np

mp.mp.dps = 50


def _exact(matrix: Any) -> Any:
    return mp.matrix([[mp.mpf(float(x)) for x in row] for row in matrix])


def _trace(matrix: Any) -> Any:
    return mp.fsum(matrix[i, i] for i in range(matrix.rows))


def _leading_sum(matrix: Any, r: int) -> Any:
    values = sorted(mp.eigsy(matrix, eigvals_only=True), reverse=True)
    return mp.fsum(values[:r])


def _orthonormal(components: Any) -> Any:
    """Columns with the exact span of float rows: rounding of their norms is not the basis's."""
    q, _ = mp.qr(_exact(np.asarray(components).T), mode="skinny")
    return q


def bound_and_value(
    covariances: Any, r: int, weights: Any, components: Any, criterion: str = "loss"
) -> tuple[Any, Any]:
    """Return phi at the weights, and the worst value of the basis, both to fifty digits."""
    S = [_exact(0.5 * (s + s.T)) for s in np.asarray(covariances, dtype=float)]
    if criterion in ("relative", "share"):
        S = [s / _trace(s) if _trace(s) > 0 else s for s in S]
    offsets = {
        "loss": lambda s: _leading_sum(s, r),
        "relative": lambda s: _leading_sum(s, r),
        "error": _trace,
        "share": _trace,
        "variance": lambda _: mp.mpf(0),
    }
    c = [offsets[criterion](s) for s in S]
    t = [mp.mpf(float(w)) for w in weights]
    t = [w / mp.fsum(t) for w in t]
    mixed = t[0] * S[0]
    for w, s in zip(t[1:], S[1:], strict=True):
        mixed += w * s
    bound = mp.fsum(w * x for w, x in zip(t, c, strict=True)) - _leading_sum(mixed, r)
    u = _orthonormal(components)
    return bound, max(x - _trace(u.T * s * u) for x, s in zip(c, S, strict=True))
