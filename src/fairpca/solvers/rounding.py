"""From an optimal relaxed P to a basis of slightly larger rank with no larger losses.

At the optimal weights P is one on the eigenvectors above the tied eigenvalue, zero below, and some
W with 0 <= W <= I on the tied eigenspace. The losses are linear in W, so W may be moved along any
direction that changes none of them until one of its eigenvalues reaches 0 or 1. What remains when
no such direction is left is an extreme point: with f fractional eigenvalues, f (f + 1) / 2 is at
most the number of conditions (Pataki 1998). Taking the fractional directions whole closes the gap.

`extra_basis` is the whole of it; `settle` is the step to the extreme point.

It is an idea of its own: how a matrix between projectors becomes a projector.
"""

from __future__ import annotations

import numpy as np

from fairpca._arrays import FloatArray, orthonormal, symmetric
from fairpca.solvers.dual import Relaxed

# Eigenvalues of W this close to 0 or 1 are taken to be there.
_WHOLE = 1e-9
# Losses this close to the worst one, relative to it, are bound by it.
_BINDING = 1e-9
# How far eigenvalues of A(t) may lie from the tied one to count as tied, relative to the scale.
_WIDTHS = (1e-13, 1e-11, 1e-9, 1e-7)


def extra_basis(relaxed: Relaxed, r: int, scale: float) -> FloatArray:
    """Return a basis of slightly larger rank none of whose losses exceeds the relaxed ones.

    The fractional directions of an extreme point are taken whole. For covariances (no negative
    variance) that can only lower the losses; at most ``floor(sqrt(2 k + 1/4) - 3/2)`` components
    come on top of r (Tantipongpipat et al. 2019). Which eigenvalues are tied is tried at several
    widths relative to `scale`, and the smallest basis is returned.
    """
    found = []
    for width in _WIDTHS:
        vectors, occupation = extreme_point(relaxed, *_tied(relaxed, r, width * scale))
        found.append(vectors[:, occupation > 0])
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


def extreme_point(relaxed: Relaxed, first: int, last: int) -> tuple[FloatArray, FloatArray]:
    """Move W on the block first..last to an extreme point; no loss exceeds the worst one.

    Returned are eigenvectors of the new P and its eigenvalues: exactly 0 or 1, or fractions.
    """
    vectors, occupation = _block(relaxed, first, last)
    level = float(relaxed.losses.max())
    resolution = _BINDING * max(abs(level), float(np.abs(relaxed.losses).max()))
    vectors, occupation = settle(
        relaxed.point.matrices, vectors, occupation, level - relaxed.losses, resolution
    )
    above = relaxed.point.pairs.vectors[:, :first]
    return np.hstack([above, vectors]), np.concatenate([np.ones(first), occupation])


def settle(
    matrices: FloatArray,
    vectors: FloatArray,
    occupation: FloatArray,
    slack: FloatArray,
    resolution: float,
) -> tuple[FloatArray, FloatArray]:
    """Move ``P = vectors @ diag(occupation) @ vectors.T`` to an extreme point of the relaxation.

    The trace stays, and no group's loss rises by more than its slack. A group is bound when it has
    no slack left. As long as the fractional eigenspace has a direction in which only the first
    bound group changes, P moves along it, to that group's advantage, until an eigenvalue reaches 0
    or 1 or another group is bound. With b bound groups and f fractions at the end,
    f (f + 1) / 2 is at most b.

    Parameters
    ----------
    matrices : ndarray of shape (k, n, n)
    vectors : ndarray of shape (n, q)
        Orthonormal eigenvectors of P.
    occupation : ndarray of shape (q,)
        Their eigenvalues, between 0 and 1, with a whole number as their sum.
    slack : ndarray of shape (k,)
        By how much every group's loss may rise; zeros if nobody may lose.
    resolution : float
        Slack up to this size is none.

    Returns
    -------
    vectors : ndarray of shape (n, q)
        The eigenvectors of the extreme point; the span is the same.
    occupation : ndarray of shape (q,)
        Its eigenvalues, exactly 0 or 1 where they are not fractions.
    """
    vectors, occupation = vectors.copy(), occupation.copy()
    # Each round settles an eigenvalue or uses up the slack of a group.
    for _ in range(2 * len(occupation) + len(slack) + 2):
        free = np.flatnonzero((occupation > _WHOLE) & (occupation < 1 - _WHOLE))
        block = vectors[:, free]
        inner = symmetric(block.T @ (matrices @ block))
        binding = np.flatnonzero(slack <= resolution)
        direction = _neutral(inner[binding[1:]])
        if direction is None:
            break
        changes = -np.einsum("kab,ab->k", inner, direction)
        if binding.size and changes[binding[0]] > 0:
            direction, changes = -direction, -changes
        # What a bound group gains is not given back: it would be bound and free in turns.
        changes[binding] = 0.0
        length = _reach(occupation[free], direction, slack, changes)
        values, rotation = np.linalg.eigh(np.diag(occupation[free]) + length * direction)
        occupation[free] = np.clip(values, 0.0, 1.0)
        vectors[:, free] = block @ rotation
        slack = slack - length * changes
    fractional = (occupation > _WHOLE) & (occupation < 1 - _WHOLE)
    if np.count_nonzero(fractional) == 1:
        # The trace is a whole number, so a single fraction is rounding.
        fractional[:] = False
    return vectors, np.where(fractional, occupation, np.round(occupation))


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
