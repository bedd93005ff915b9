"""From an optimal relaxed P to a basis of slightly larger rank with no larger losses.

At the optimal weights P is one on the eigenvectors above the tied eigenvalue, zero below, and some
W with 0 <= W <= I on the tied eigenspace. The losses are linear in W, so W may be moved along any
direction that changes none of them until one of its eigenvalues reaches 0 or 1. What remains when
no such direction is left is an extreme point: with f fractional eigenvalues, f (f + 1) / 2 is at
most the number of conditions. Taking the fractional directions whole closes the gap.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fairpca._linalg import FloatArray, orthonormal, symmetric
from fairpca.solvers.dual import Relaxed

# Eigenvalues of W this close to 0 or 1 are taken to be there.
_WHOLE = 1e-9
# How far eigenvalues of A(t) may lie from the tied one to count as tied, relative to the scale.
_WIDTHS = (1e-13, 1e-11, 1e-9, 1e-7)


@dataclass(frozen=True)
class Extreme:
    """An extreme point: directions taken whole, fractional ones, and those left out.

    The first `fixed` of the whole ones lie above the tied eigenvalue.
    """

    fixed: int
    whole: FloatArray
    fractional: FloatArray
    occupation: FloatArray
    left: FloatArray


def extra_basis(relaxed: Relaxed, r: int, scale: float) -> FloatArray:
    """Return a basis of slightly larger rank none of whose losses exceeds the relaxed ones.

    The fractional directions of an extreme point are taken whole. For covariances (no negative
    variance) that can only lower the losses; at most ``floor(sqrt(2 k + 1/4) - 3/2)`` components
    come on top of r (Tantipongpipat et al. 2019).
    """
    found = []
    for width in _WIDTHS:
        extreme = extreme_point(relaxed, *_tied(relaxed, r, width * scale))
        found.append(np.hstack([extreme.whole, extreme.fractional]))
    return orthonormal(min(found, key=lambda basis: basis.shape[1]))


def _tied(relaxed: Relaxed, r: int, width: float) -> tuple[int, int]:
    """Return the block of the cluster widened by eigenvalues within `width` of it."""
    values, held = relaxed.point.pairs.values, relaxed.cluster
    first, last = held.first, held.last
    if first == last:
        first, last = r - 1, r + 1
    inside = np.flatnonzero(
        (values <= values[first] + width) & (values >= values[last - 1] - width)
    )
    return min(int(inside[0]), first), max(int(inside[-1]) + 1, last)


def extreme_point(relaxed: Relaxed, first: int, last: int) -> Extreme:
    """Move W on the block first..last to an extreme point with the same binding losses."""
    vectors, occupation = _block(relaxed, first, last)
    fixed = relaxed.point.pairs.vectors[:, :first]
    matrices = symmetric(vectors.T @ (relaxed.point.matrices @ vectors))
    losses = relaxed.losses.copy()
    level = float(losses.max())
    slack_size = 1e-9 * max(abs(level), float(np.abs(losses).max()))
    # Each round settles at least one direction.
    for _ in range(2 * len(occupation) + 2):
        free = np.flatnonzero((occupation > _WHOLE) & (occupation < 1 - _WHOLE))
        binding = losses >= level - slack_size
        direction = _neutral(matrices[binding][:, free][:, :, free])
        if direction is None:
            break
        changes = -np.einsum("kab,ab->k", matrices[:, free][:, :, free], direction)
        changes[binding] = 0.0
        length = _reach(occupation[free], direction, level - losses, changes)
        values, turn = np.linalg.eigh(np.diag(occupation[free]) + length * direction)
        occupation[free] = np.clip(values, 0.0, 1.0)
        vectors[:, free] = vectors[:, free] @ turn
        matrices = symmetric(vectors.T @ (relaxed.point.matrices @ vectors))
        losses = losses + length * changes
    open_ = (occupation > _WHOLE) & (occupation < 1 - _WHOLE)
    if np.count_nonzero(open_) == 1:
        # The trace is a whole number, so a single fraction is rounding.
        occupation[open_] = np.round(occupation[open_])
        open_[:] = False
    whole = np.hstack([fixed, vectors[:, ~open_ & (occupation >= 0.5)]])
    left = vectors[:, ~open_ & (occupation < 0.5)]
    return Extreme(first, orthonormal(whole), vectors[:, open_], occupation[open_], left)


def _block(relaxed: Relaxed, first: int, last: int) -> tuple[FloatArray, FloatArray]:
    """Return the eigenvectors of P in the block, and its eigenvalues there."""
    held, vectors = relaxed.cluster, relaxed.point.pairs.vectors
    above = vectors[:, first : held.first]
    below = vectors[:, held.last : last]
    occupation = np.concatenate(
        [np.ones(above.shape[1]), held.occupation, np.zeros(below.shape[1])]
    )
    return np.hstack([above, relaxed.held_vectors, below]), occupation


def _neutral(matrices: FloatArray) -> FloatArray | None:
    """Return a symmetric direction of trace zero orthogonal to all `matrices`, if there is one."""
    f = matrices.shape[-1]
    rows, columns = np.triu_indices(f)
    if len(rows) < 2:
        return None
    root = np.where(rows == columns, 1.0, np.sqrt(2.0))
    conditions = np.vstack([matrices[:, rows, columns] * root, (rows == columns).astype(float)])
    norms = np.linalg.norm(conditions, axis=1, keepdims=True)
    conditions = conditions / np.where(norms > 0, norms, 1.0)
    _, values, vt = np.linalg.svd(conditions)
    rank = int(np.count_nonzero(values > 1e-9 * values[0]))
    if rank == len(rows):
        return None
    direction = np.zeros((f, f))
    direction[rows, columns] = direction[columns, rows] = vt[-1] / root
    return direction


def _reach(
    occupation: FloatArray, direction: FloatArray, slack: FloatArray, changes: FloatArray
) -> float:
    """How far W may move: to the boundary of 0 <= W <= I or until another group binds."""
    lower = 1.0 / np.sqrt(occupation)
    upper = 1.0 / np.sqrt(1.0 - occupation)
    down = np.linalg.eigvalsh(direction * lower[:, None] * lower)[0]
    up = np.linalg.eigvalsh(direction * upper[:, None] * upper)[-1]
    reach = min(-1.0 / down if down < 0 else np.inf, 1.0 / up if up > 0 else np.inf)
    rising = changes > 0
    if rising.any():
        reach = min(reach, float((np.maximum(slack[rising], 0.0) / changes[rising]).min()))
    return float(reach)
