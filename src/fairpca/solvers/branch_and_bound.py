"""A proof for small problems that the dual alone cannot give: branch and bound over subspaces.

Every r-dimensional subspace of R^n is, for some choice of r rows, the column span of a matrix that
is the identity on those rows and has entries in [-1, 1] elsewhere: take the rows of largest
volume. So the boxes ``|Z_ab| <= 1``, one per choice of rows, cover everything, and halving boxes
refines the cover. A box lies inside a ball around its centre: for the projectors P of its
subspaces ``<P, P_centre> >= r - radius``, one more linear condition on P, so for any weights t on
the simplex and any multiplier tau >= 0

    t . offsets + tau (r - radius) - (sum of the r largest eigenvalues of A(t) + tau P_centre)

is a lower bound on the worst loss of every basis in the cell. Near a centre all losses are linear
in P up to the radius, so the bound tightens as cells are halved. Good multipliers are found by a
few barrier steps for many cells at once; the bound is valid for any, good or not, and what is
known after any number of cells is the least bound of those still open.

What stops it is the dimension r (n - r) of the space of subspaces: around a minimiser the number
of open cells grows like a constant to that power. Measured on 120 random problems with a gap, all
closed to 1e-8: some 30 cells in one dimension, 130 in two, 700 in three, 5000 in four (1 to 2
seconds). Five dimensions take ten times that and seven never closed within 30000 cells, so beyond
`MAX_DIMENSION` the search is not begun.

It is an idea of its own: a search over the cells of a partition, with bounds of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from fairpca._linalg import FloatArray, IntArray, expand, span
from fairpca.covariances.dense import DenseOracle
from fairpca.solvers.descent import descend
from fairpca.solvers.interior_point import solved
from fairpca.solvers.problem import Problem


@dataclass(frozen=True)
class Cells:
    """Boxes, one per row: the chart's rows, the centre Z, the half widths, a known bound.

    Attributes
    ----------
    order : ndarray of int of shape (m, n)
        The r rows that are the identity in this chart, then all others.
    centre, half : ndarray of shape (m, d)
        With d = r (n - r): the entries of Z at the centre, and how far the box reaches from them.
    bound : ndarray of shape (m,)
        No basis of the box has a smaller worst loss.
    multipliers : ndarray of shape (m, k + 1)
        Weights of the groups and tau of the box's last bound (of its parent's, before it has one).
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
        return Cells(*(part[index] for part in vars(self).values()))

    def joined(self, other: Cells) -> Cells:
        """Return these cells followed by others."""
        both = zip(vars(self).values(), vars(other).values(), strict=True)
        return Cells(*map(np.concatenate, both))

    def halved(self) -> Cells:
        """Return two cells for each one, cut across its widest side."""
        rows = np.arange(len(self))
        widest = np.argmax(self.half, axis=1)
        half = self.half.copy()
        half[rows, widest] *= 0.5
        shift = np.zeros_like(half)
        shift[rows, widest] = half[rows, widest]
        left = replace(self, centre=self.centre - shift, half=half)
        return left.joined(replace(self, centre=self.centre + shift, half=half))

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


def cover(n: int, r: int, multipliers: FloatArray) -> Cells:
    """Return one box per choice of r rows, all with the same multipliers of shape (k + 1,).

    Together they hold every subspace; none has a bound yet.
    """
    charts = []
    for rows in combinations(range(n), r):
        charts.append([*rows, *(row for row in range(n) if row not in rows)])
    m, d = len(charts), r * (n - r)
    return Cells(
        np.array(charts),
        np.zeros((m, d)),
        np.ones((m, d)),
        np.full(m, -np.inf),
        np.tile(multipliers, (m, 1)),
    )


MAX_DIMENSION = 4
# Up to here it is worth looking for a smaller common range.
_MAX_FEATURES = 50
# About a millisecond each with twelve groups, half of that with three. A few seconds at most:
# 8,000 cells with three groups, 5,000 with twelve and more.
_MAX_CELLS = 10_000
_BATCH = 256
# Groups that take part in the bound of one cell: those worst off at its centre.
_MAX_GROUPS = 12
_SHRINK = 0.15
_MAX_STEPS = 60
# Newton decrement from which a path is begun anew instead of continued from the parent's.
_FAR = 5.0


@dataclass(frozen=True)
class Searched:
    """What the search proved: a lower bound, the best basis, and how many cells it took."""

    bound: float
    basis: FloatArray
    value: float
    cells: int


def raise_bound(
    problem: Problem, basis: FloatArray, weights: FloatArray, bound: float, *, tol: float
) -> Searched | None:
    """Search if the problem, or what is left of it in the groups' common range, is small enough.

    Parameters are those of `search`; None means that it was not begun.
    """
    n, r = problem.oracle.n_features, problem.n_components
    if r * (n - r) <= MAX_DIMENSION:
        return search(problem, basis, weights, bound, tol=tol)
    common = _common_range(problem) if n <= _MAX_FEATURES else None
    if common is None or not r * (common.shape[1] - r) <= MAX_DIMENSION:
        return None
    oracle = DenseOracle(problem.oracle.project(common), scale=problem.oracle.scale)
    inside = Problem(oracle, problem.offsets, r)
    # Leaving the common range never helps, so the best known basis may as well lie in it.
    within = common.T @ basis
    start = expand(span(within), np.eye(common.shape[1]))[:, :r]
    found = search(inside, start, weights, bound, tol=tol)
    if found.value >= float(problem.losses(basis).max()):
        return replace(found, basis=basis)
    return replace(found, basis=common @ found.basis)


def _common_range(problem: Problem) -> FloatArray | None:
    """Return a basis of the space outside which no group has variance, if it is a proper one.

    For covariances the best subspace lies in it: what a projector keeps outside is nothing, and
    its part inside is dominated by a projector of the same rank.
    """
    oracle = problem.oracle
    k, r = oracle.n_groups, problem.n_components
    pairs = oracle.full(np.full(k, 1.0 / k))
    rank = int(np.count_nonzero(pairs.values > problem.resolution / k))
    inside, outside = pairs.vectors[:, :rank], pairs.vectors[:, rank:]
    if not r < rank < oracle.n_features:
        return None
    left = float(np.abs(oracle.apply(outside)).max())
    least = float(np.linalg.eigvalsh(oracle.project(inside)).min())
    # A matrix with negative eigenvalues is no covariance, and the argument fails.
    return inside if left <= problem.resolution and least >= -problem.resolution else None


def search(
    problem: Problem,
    basis: FloatArray,
    weights: FloatArray,
    bound: float,
    *,
    tol: float,
    max_cells: int | None = None,
) -> Searched:
    """Raise the lower bound of a small problem, or find a better basis.

    The cells with the least bounds are halved first, since they hold the proof back. A cell is
    closed when its bound reaches the best value less the tolerance.

    Parameters
    ----------
    problem : Problem
        With r (n - r) small.
    basis : ndarray of shape (n, r)
        The best basis known.
    weights : ndarray of shape (k,)
        Optimal dual weights.
    bound : float
        The dual bound.
    tol : float
        Relative gap at which to stop.
    max_cells : int, optional
        Most cells that get a bound of their own; by default a few seconds' worth.

    Returns
    -------
    Searched
        Its bound is never below the dual bound, and valid however early the search stopped.
    """
    oracle, r = problem.oracle, problem.n_components
    if max_cells is None:
        max_cells = 12 * _MAX_CELLS // (12 + min(oracle.n_groups, _MAX_GROUPS))
    value = float(problem.losses(basis).max())
    bounds = CellBounds(problem)
    even = 0.9 * weights + 0.1 / len(weights)
    cells = cover(oracle.n_features, r, np.append(even, bounds.scale))
    used, proven, fresh = 0, np.inf, cells
    while True:
        goal = value - max(tol * abs(value), problem.resolution)
        fresh = bounds.improved(fresh, bound, goal)
        used += len(fresh)
        cells = fresh if used == len(fresh) else cells.joined(fresh)
        closed = cells.bound >= goal
        proven = min(proven, float(cells.bound[closed].min(initial=np.inf)))
        cells = cells.take(np.flatnonzero(~closed))
        if not len(cells) or used >= max_cells:
            break
        order = np.argsort(cells.bound, kind="stable")
        fresh, cells = cells.take(order[:_BATCH]), cells.take(order[_BATCH:])
        # The centre of the least bounded cell is the likeliest place for a better basis.
        found = descend(problem, fresh.take(np.array([0])).bases(r)[0], weights, value)
        if found.value < value:
            basis, value = found.basis, found.value
        # Few cells at a time would be all overhead: cut them along several sides at once.
        for _ in range(fresh.half.shape[1]):
            fresh = fresh.halved()
            if len(fresh) >= _BATCH:
                break
    proven = min(proven, value, float(cells.bound.min(initial=np.inf)))
    return Searched(max(bound, proven), basis, value, used)


class CellBounds:
    """Bounds of many cells at once by the barrier of `interior_point`, with one more multiplier.

    All cells take a step together: a loop over small matrices would be all overhead.

    Attributes
    ----------
    matrices : ndarray of shape (k, n, n)
    offsets : ndarray of shape (k,)
    scale : float
        The largest eigenvalue of any group, by magnitude.
    """

    def __init__(self, problem: Problem) -> None:
        oracle = problem.oracle
        self.matrices = oracle.matrices
        self.offsets = problem.offsets
        self.r, self.n, self.k = problem.n_components, oracle.n_features, oracle.n_groups
        self.scale = float(np.abs(np.linalg.eigvalsh(self.matrices)).max()) or 1.0

    def improved(self, cells: Cells, floor: float, goal: float) -> Cells:
        """Return the cells with bounds and multipliers of their own, never worse than before.

        `floor` is a bound that holds for all cells. A cell is left alone as soon as its bound
        reaches `goal`.
        """
        radii = np.maximum(cells.radii(self.r), 1e-14)
        chosen, forms, offsets = self._conditions(cells, radii)
        x, fresh = self._starts(cells, chosen, radii)
        # Over a cell the losses vary like its size and are linear up to its square: a fresh path
        # begins at the first, and every path ends below the second.
        end = 0.02 * radii * self.scale / (2 * self.n + self.k)
        start = np.maximum(0.1 * np.sqrt(radii) * self.scale, end)
        mu = np.minimum(8.0 * end, start)
        best, kept = np.maximum(cells.bound, floor), x.copy()
        left = np.arange(len(cells))
        for iteration in range(_MAX_STEPS):
            moved, decrement, phi = self._step(x[left], mu[left], forms[left], offsets[left])
            better = phi > best[left]
            best[left[better]], kept[left[better]] = phi[better], x[left[better]]
            if iteration == 0:
                # Too far from the parent's point of the path: begin anew.
                far = decrement > _FAR
                moved[far], mu[far], decrement[far] = fresh[far], start[far], np.inf
            x[left] = moved
            near = decrement < 1
            done = (near & (mu[left] <= end[left])) | (best[left] >= goal)
            left, shrinking = left[~done], left[near]
            mu[shrinking] = np.maximum(_SHRINK * mu[shrinking], end[shrinking])
            if not len(left):
                break
        multipliers = np.zeros_like(cells.multipliers)
        np.put_along_axis(multipliers, chosen, kept[:, :-1], axis=1)
        multipliers[:, self.k] = kept[:, -1]
        return replace(cells, bound=best, multipliers=multipliers)

    def _conditions(
        self, cells: Cells, radii: FloatArray
    ) -> tuple[IntArray, FloatArray, FloatArray]:
        """Return for every cell the groups that matter most, and all forms with their offsets.

        With g groups chosen the forms have shape (m, g + 1, n, n). The last one, the projector of
        the centre, is the cell's own condition. Leaving groups out is weight zero for them.
        """
        bases = cells.bases(self.r)
        centres = bases @ np.swapaxes(bases, 1, 2)
        losses = self.offsets - np.tensordot(centres, self.matrices, axes=([1, 2], [1, 2]))
        chosen = np.argsort(-losses, axis=1, kind="stable")[:, :_MAX_GROUPS]
        forms = np.concatenate([self.matrices[chosen], centres[:, None]], axis=1)
        offsets = np.column_stack([self.offsets[chosen], self.r - radii])
        return chosen, forms, offsets

    def _starts(
        self, cells: Cells, chosen: IntArray, radii: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the parent's multipliers for the chosen groups, and fresh ones."""
        weights = np.take_along_axis(cells.multipliers, chosen, axis=1) + 1e-12
        weights = weights / weights.sum(axis=1, keepdims=True)
        tau = np.maximum(cells.multipliers[:, self.k], 1e-12)
        even = np.full(chosen.shape, 1.0 / chosen.shape[1])
        fresh = np.column_stack([even, 0.3 * self.scale / np.sqrt(radii)])
        return np.column_stack([weights, tau]), fresh

    def _step(
        self, x: FloatArray, mu: FloatArray, forms: FloatArray, offsets: FloatArray
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """One damped Newton step for every cell; with it its decrement and the bound before.

        `x`, of shape (m, g + 1), holds the multipliers, the cell's own last; `mu`, of shape (m,),
        the barrier parameters; forms and offsets are those of `_conditions`.
        """
        m, j, n, _ = forms.shape
        values, vectors = _checked_eigh(np.einsum("mj,mjab->mab", x, forms))
        p, v = _occupations(values, mu, self.r)
        turned = np.swapaxes(vectors, 1, 2)[:, None] @ forms @ vectors[:, None]
        diagonals = np.diagonal(turned, axis1=2, axis2=3)
        gradient = offsets - np.einsum("mja,ma->mj", diagonals, p)
        omega = 1.0 / (1.0 / (p[:, :, None] * p[:, None]) + 1.0 / (v[:, :, None] * v[:, None]))
        flat = turned.reshape(m, j, n * n)
        hessian = (flat * omega.reshape(m, 1, -1)) @ np.swapaxes(flat, 1, 2)
        own = np.diagonal(omega, axis1=1, axis2=2)
        mean = np.einsum("mja,ma->mj", diagonals, own)
        hessian -= mean[:, :, None] * mean[:, None] / own.sum(axis=1)[:, None, None]
        system = np.zeros((m, j + 1, j + 1))
        system[:, :j, :j] = hessian / mu[:, None, None] * x[:, :, None] * x[:, None]
        system[:, :j, :j] += mu[:, None, None] * np.eye(j)
        # Only the groups' weights add up to one; the cell's own multiplier is free.
        size = np.abs(system).max(axis=(1, 2))
        system[:, : j - 1, j] = system[:, j, : j - 1] = size[:, None] * x[:, : j - 1]
        right = np.zeros((m, j + 1))
        right[:, :j] = x * gradient + mu[:, None]
        step = solved(system, right[:, :, None])[:, :j, 0]
        decrement = np.sqrt(np.maximum(np.einsum("mj,mj->m", step, right[:, :j]), 0.0) / mu)
        length = np.where(decrement > 1, 1.0 / (1.0 + decrement), 1.0)
        length = np.minimum(length, 0.9 / np.maximum(-step.min(axis=1), 1e-300))
        moved = x * (1.0 + length[:, None] * step)
        moved[:, : j - 1] /= moved[:, : j - 1].sum(axis=1, keepdims=True)
        return moved, decrement, self._bound(x, values, offsets)

    def _bound(self, x: FloatArray, values: FloatArray, offsets: FloatArray) -> FloatArray:
        """The bound at multipliers x from the eigenvalues there, less what rounding may hide."""
        level = np.einsum("mj,mj->m", x, offsets)
        rounding = 8 * self.n * np.finfo(float).eps * np.abs(values).max(axis=1) * self.r
        return np.asarray(level - values[:, self.n - self.r :].sum(axis=1) - rounding)


def _checked_eigh(matrices: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the eigenpairs of a stack of symmetric matrices, in increasing order, checked.

    Bounds of cells rest on them. Their sum and the sum of their squares must be the trace and the
    squared norm of the matrix; wrong or missing values change at least one of the two.
    """
    values, vectors = np.linalg.eigh(matrices)
    squares = np.einsum("mab,mab->m", matrices, matrices)
    size = np.sqrt(squares) + np.finfo(float).tiny
    apart = np.abs(values.sum(axis=1) - np.trace(matrices, axis1=1, axis2=2)) / size
    apart += np.abs((values**2).sum(axis=1) - squares) / size**2
    rising = np.all(values[:, 1:] >= values[:, :-1])
    if not (rising and np.all(apart <= 1e-10 * matrices.shape[1])):
        raise np.linalg.LinAlgError(
            "the eigenvalues of a small matrix came out wrong; check the linear algebra library."
        )
    return values, vectors


def _occupations(values: FloatArray, mu: FloatArray, r: int) -> tuple[FloatArray, FloatArray]:
    """Occupations of the barrier's P and their complements; eigenvalues ascend here."""
    n = values.shape[1]
    low, high = values[:, 0] - 2 * mu * n, values[:, -1] + 2 * mu * n
    level = 0.5 * (values[:, n - r - 1] + values[:, n - r])
    for _ in range(60):
        a = (level[:, None] - values) / mu[:, None]
        upper = np.abs(a) + np.sqrt(a * a + 4.0)
        small, large = 2.0 / (upper + 2.0), upper / (upper + 2.0)
        p, v = np.where(a >= 0, small, large), np.where(a >= 0, large, small)
        excess, deficit = p[:, : n - r].sum(axis=1), v[:, n - r :].sum(axis=1)
        # In logarithms the two sides are nearly straight lines, and Newton needs few steps.
        residual = np.log(excess / deficit)
        low, high = np.where(residual > 0, level, low), np.where(residual > 0, high, level)
        slopes = 1.0 / (p**-2 + v**-2)
        slope = slopes[:, : n - r].sum(axis=1) / excess + slopes[:, n - r :].sum(axis=1) / deficit
        step = level + mu * residual / slope
        settled = (np.abs(residual) <= 1e-9) | (np.abs(step - level) <= 1e-15 * np.abs(level))
        if np.all(settled):
            break
        inside = (step > low) & (step < high)
        level = np.where(settled, level, np.where(inside, step, 0.5 * (low + high)))
    return p, v
