"""Cells that cover all subspaces of one rank, for an exhaustive search.

Every r-dimensional subspace of R^n is, for some choice of r rows, the column span of a matrix that
is the identity on those rows and has entries in [-1, 1] elsewhere: take the rows of largest
volume. So the boxes ``|Z_ab| <= 1``, one per choice of rows, cover everything, and halving boxes
refines the cover. A box lies inside a ball around its centre: for the projectors P of its
subspaces ``<P, P_centre> >= r - radius``.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from fairpca.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class Cells:
    """Boxes, one per row: the chart's rows, the centre Z, the half widths, a known bound.

    `multipliers` are those of the box's last bound (of its parent's, before it has one).
    """

    order: IntArray
    centre: FloatArray
    half: FloatArray
    bound: FloatArray
    multipliers: FloatArray

    def __len__(self) -> int:
        return len(self.bound)

    def take(self, index: IntArray) -> Cells:
        """Return the cells at `index`."""
        return Cells(
            self.order[index],
            self.centre[index],
            self.half[index],
            self.bound[index],
            self.multipliers[index],
        )

    def halved(self) -> Cells:
        """Return two cells for each one, cut across its widest side."""
        m = len(self)
        rows = np.arange(m)
        widest = np.argmax(self.half, axis=1)
        half = self.half.copy()
        half[rows, widest] *= 0.5
        shift = np.zeros_like(half)
        shift[rows, widest] = half[rows, widest]
        return Cells(
            np.concatenate([self.order, self.order]),
            np.concatenate([self.centre - shift, self.centre + shift]),
            np.concatenate([half, half]),
            np.concatenate([self.bound, self.bound]),
            np.concatenate([self.multipliers, self.multipliers]),
        )

    def bases(self, r: int) -> FloatArray:
        """Return an orthonormal basis of every centre, shape (m, n, r)."""
        m, n = self.order.shape
        columns = np.zeros((m, n, r))
        columns[:, :r] = np.eye(r)
        columns[:, r:] = self.centre.reshape(m, n - r, r)
        placed = np.zeros_like(columns)
        np.put_along_axis(placed, self.order[:, :, None], columns, axis=1)
        return np.asarray(np.linalg.qr(placed)[0])

    def radii(self, r: int) -> FloatArray:
        """Return for every cell an upper bound of ``r - <P, P_centre>`` over the cell.

        The sines of the angles between spans of [I; Z] and [I; Z0] are the singular values of
        ``(I + Z0 Z0')^(-1/2) (Z - Z0) (I + Z'Z)^(-1/2)``; the last factor is at most one, and for
        r = 1 at most its value where the box comes nearest to zero.
        """
        m, n = self.order.shape
        z = self.centre.reshape(m, n - r, r)
        h = self.half.reshape(m, n - r, r)
        metric = np.abs(np.linalg.inv(np.eye(n - r) + z @ np.swapaxes(z, 1, 2)))
        sines = np.einsum("mab,mac,mcb->m", h, metric, h)
        if r == 1:
            nearest = np.maximum(np.abs(self.centre) - self.half, 0.0)
            sines = sines / (1.0 + np.einsum("md,md->m", nearest, nearest))
        return np.asarray(np.minimum(sines, float(r)))


def cover(n: int, r: int, n_multipliers: int) -> Cells:
    """Return one box per choice of r rows."""
    charts = []
    for rows in combinations(range(n), r):
        charts.append([*rows, *(row for row in range(n) if row not in rows)])
    m, d = len(charts), r * (n - r)
    return Cells(
        np.array(charts),
        np.zeros((m, d)),
        np.ones((m, d)),
        np.full(m, -np.inf),
        np.zeros((m, n_multipliers)),
    )
