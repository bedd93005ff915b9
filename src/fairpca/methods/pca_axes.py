"""Subsets of the PCA axes: their two costs, and the exact set of efficient ones."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb

import numpy as np
import scipy.optimize

from fairpca._linalg import FloatArray, IntArray
from fairpca.covariances.eigenpairs import full_pairs

# Up to this many subsets are listed outright.
_LIST_BELOW = 200_000
# By how much the next efficient subset must lower the gap, relative to the largest change.
_MARGINS = (1e-5, 1e-4, 1e-3)


@dataclass(frozen=True)
class PCAAxes:
    """All PCA axes, and what keeping each does to the total error and to the error gap.

    Attributes
    ----------
    vectors : ndarray of shape (n, n)
        Eigenvectors of the pooled matrix as columns, largest eigenvalue first.
    total : float
        Total error when nothing is kept.
    gains : ndarray of shape (n,)
        What each axis takes off the total error.
    gap : float
        Error of the first group minus that of the second when nothing is kept.
    changes : ndarray of shape (n,)
        What each axis takes off the gap.
    """

    vectors: FloatArray
    total: float
    gains: FloatArray
    gap: float
    changes: FloatArray

    @classmethod
    def of(cls, covariances: FloatArray, shares: FloatArray) -> PCAAxes:
        """Compute the axes of two groups' second moments with these shares."""
        pooled = np.tensordot(shares, covariances, axes=1)
        vectors = full_pairs(pooled).vectors
        kept = np.einsum("nj,knj->kj", vectors, covariances @ vectors)
        traces = np.trace(covariances, axis1=1, axis2=2)
        return cls(
            vectors,
            float(shares @ traces),
            np.asarray(shares @ kept),
            float(traces[0] - traces[1]),
            np.asarray(kept[0] - kept[1]),
        )

    @property
    def n_axes(self) -> int:
        """Number of axes."""
        return len(self.gains)

    def costs(self, subsets: IntArray) -> FloatArray:
        """Return total error and squared error gap of every row of axis numbers."""
        error = self.total - self.gains[subsets].sum(axis=1)
        gap = self.gap - self.changes[subsets].sum(axis=1)
        return np.stack([error, gap**2], axis=1)


def efficient(costs: FloatArray) -> IntArray:
    """Return the rows that no other row beats in one cost without losing in the other.

    Sorted by the first cost; of equal rows only one is kept.
    """
    order = np.lexsort((costs[:, 1], costs[:, 0]))
    best = np.minimum.accumulate(costs[order, 1])
    first = np.append(True, costs[order[1:], 1] < best[:-1])
    return np.asarray(order[first])


def exact_front(axes: PCAAxes, r: int, *, max_points: int) -> IntArray:
    """Return efficient subsets, all of them unless there are more than `max_points`.

    Small cases are listed. Otherwise integer programs find the least error under a shrinking
    bound on the gap, from PCA on.
    """
    if comb(axes.n_axes, r) <= _LIST_BELOW:
        subsets = np.array(list(combinations(range(axes.n_axes), r)))
        return np.asarray(subsets[efficient(axes.costs(subsets))])
    found = [np.arange(r)]
    scale = float(np.abs(axes.changes).max()) or 1.0
    while len(found) < max_points:
        gap = float(np.sqrt(axes.costs(found[-1][None])[0, 1]))
        # Near the edge of its accuracy the integer solver returns the last subset again, or
        # nothing although there is one; a wider margin tells.
        trials = (_least_error(axes, r, gap - margin * scale, scale) for margin in _MARGINS)
        better = (s for s in trials if s is not None and not np.array_equal(s, found[-1]))
        subset = next(better, None)
        if subset is None:
            break
        found.append(subset)
    subsets = np.array(found)
    return np.asarray(subsets[efficient(axes.costs(subsets))])


def _least_error(axes: PCAAxes, r: int, gap: float, scale: float) -> IntArray | None:
    """Return the subset with the largest gain whose gap is at most `gap`, or None."""
    if gap < 0:
        return None
    n = axes.n_axes
    low, high = (axes.gap - gap) / scale, (axes.gap + gap) / scale
    found = scipy.optimize.milp(
        -axes.gains / max(float(axes.gains.max()), np.finfo(float).tiny),
        constraints=[
            scipy.optimize.LinearConstraint(np.ones((1, n)), r, r),
            scipy.optimize.LinearConstraint(axes.changes[None] / scale, low, high),
        ],
        integrality=np.ones(n, dtype=int),
        bounds=scipy.optimize.Bounds(0, 1),
        options={"mip_rel_gap": 0.0},
    )
    return None if found.x is None else np.flatnonzero(found.x > 0.5)
