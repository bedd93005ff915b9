"""Pelegrina et al. 2022: an evolutionary search over subsets of PCA axes."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist

from fairpca._arrays import FloatArray, IntArray
from fairpca.covariances.dense import full_pairs
from fairpca.methods._base import (
    Found,
    PublishedMethod,
    Sample,
    choice,
    generator,
    kept_variance,
    number,
)
from fairpca.moments.groups import Seed


class SPEA2FairPCA(PublishedMethod):
    """Fair PCA by choosing among the PCA axes with SPEA2.

    G. D. Pelegrina, R. D. B. Brotto, L. T. Duarte, R. Attux, J. M. T. Romano. Analysis of
    Trade-offs in Fair Principal Component Analysis Based on Multi-objective Optimization.
    International Joint Conference on Neural Networks, 2022.

    Keeps r of the n eigenvectors of the pooled covariance so that the total error and the squared
    difference of the two groups' errors are both small. An evolutionary search collects subsets
    that no other beats in both; one of them is selected. Two groups only.

    Parameters
    ----------
    n_components, center, random_state
        As in all of `fairpca.methods`; the authors' center is "global", the default here.
    selection : {"weighted", "balanced", "error", "gap"}, default="weighted"
        Least weighted sum with weights from the ranges of the one-component front; least sum
        after scaling both costs to [0, 1]; least total error, which is PCA; least gap.
    population : int, default=100
        Subsets per generation.
    max_iter : int, default=50
        Generations.

    Attributes
    ----------
    front_, front_axes_ : ndarray of shape (p, 2), (p, r)
        Total error and squared error gap of the subsets found, by increasing error, and the
        subsets, as positions among the PCA axes.
    axes_, group_values_ : ndarray of shape (r,), (2,)
        The subset selected, and the groups' errors with the second moments of `center_`.

    Examples
    --------
    >>> from fairpca import datasets, methods
    >>> known = datasets.make_illustration(random_state=0)
    >>> model = methods.SPEA2FairPCA(1, selection="error")
    >>> model.fit(known.data, sensitive_features=known.sensitive_features).axes_.tolist()
    [0]
    """

    selection: str = choice("weighted", "balanced", "error", "gap")
    # Two parents and two others: below that, a generation has nobody to choose from.
    population: int = number(100, 4)
    max_iter: int = 50
    center: str = "global"
    random_state: Seed = None

    _group_range = (2, 2)
    notion = "error gap"

    def _find(self, sample: Sample) -> Found:
        r = self._rank(sample.n_features)
        covariances = sample.second_moments(self.center)
        axes = PCAAxes.of(covariances, sample.shares)
        population = _Population(axes, r, self.population, generator(self.random_state))
        front = population.evolve(self.max_iter)
        costs = axes.costs(front)
        chosen = front[self._select(axes, costs)]
        basis = axes.vectors[:, chosen]
        traces = np.trace(covariances, axis1=1, axis2=2)
        own = {
            "front_": costs,
            "front_axes_": front,
            "axes_": chosen,
            "group_values_": traces - kept_variance(basis, covariances),
        }
        return Found(basis, "all generations done", self.max_iter, own)

    def _select(self, axes: PCAAxes, costs: FloatArray) -> int:
        """Return the position of the subset to keep in the front."""
        if self.selection == "balanced":
            return int(np.argmin(_scaled(costs).sum(axis=1)))
        if self.selection != "weighted":
            return int(np.argmin(costs[:, 0 if self.selection == "error" else 1]))
        # The ranges of the two costs are crossed: each cost is divided by its own, up to a factor.
        singles = axes.front(np.arange(len(axes.vectors))[:, None])
        weights = np.ptp(axes.costs(singles), axis=0)[::-1]
        return int(np.argmin(costs @ (weights if weights.any() else np.ones(2))))


def _scaled(costs: FloatArray) -> FloatArray:
    """Scale every column to [0, 1]; a constant column becomes zero."""
    spread = np.ptp(costs, axis=0)
    return np.asarray((costs - costs.min(axis=0)) / np.where(spread > 0, spread, 1.0))


@dataclass(frozen=True)
class PCAAxes:
    """All PCA axes, and what keeping each does to the total error and to the error gap.

    `vectors` has the axes as columns, largest variance first. `whole` is the total error if
    nothing is kept, and then the error of the first group minus that of the second; each axis
    takes its column of `taken` off both.
    """

    vectors: FloatArray
    whole: FloatArray
    taken: FloatArray

    @classmethod
    def of(cls, covariances: FloatArray, shares: FloatArray) -> PCAAxes:
        """Compute the axes of two groups' second moments with these shares."""
        vectors = full_pairs(np.tensordot(shares, covariances, axes=1)).vectors
        kept = np.einsum("nj,knj->kj", vectors, covariances @ vectors)
        mixed = np.array([shares, [1.0, -1.0]])
        return cls(vectors, mixed @ np.einsum("kii->k", covariances), mixed @ kept)

    def costs(self, subsets: IntArray) -> FloatArray:
        """Return total error and squared error gap of every row of axis numbers."""
        left = self.whole[:, None] - self.taken[:, subsets].sum(axis=2)
        return np.stack([left[0], left[1] ** 2], axis=1)

    def front(self, subsets: Any) -> IntArray:
        """Return those rows of axis numbers that no other row beats in both costs."""
        rows = np.array(subsets)
        return np.asarray(rows[efficient(self.costs(rows))])


def efficient(costs: FloatArray) -> IntArray:
    """Return the rows that no other row beats in one cost without losing in the other.

    Positions are sorted by the first cost; of equal rows only one is kept.
    """
    order = np.lexsort((costs[:, 1], costs[:, 0]))
    best = np.minimum.accumulate(costs[order, 1])
    first = np.append(True, costs[order[1:], 1] < best[:-1])
    return np.asarray(order[first])


class _Population:
    """Subsets of `r` axes under the strength Pareto evolutionary algorithm (SPEA2)."""

    def __init__(self, axes: PCAAxes, r: int, size: int, rng: Any) -> None:
        self.axes, self.r, self.rng = axes, r, rng
        # At most half of all subsets, so that a generation can hold distinct ones.
        self.size = min(size, max(round(comb(len(axes.vectors), r) / 2), 2))
        self.room = max(round(self.size / 2), 2)

    def evolve(self, generations: int) -> IntArray:
        """Run the search; return the efficient subsets of the last archive."""
        n, r = len(self.axes.vectors), self.r
        if r in (1, n):
            # So few subsets are listed, as the authors do.
            return self.axes.front(list(combinations(range(n), r)))
        drawn = [np.sort(self.rng.choice(n, r, replace=False)) for _ in range(self.size - 1)]
        # PCA itself is always one of the first subsets.
        archive = self._survivors(np.vstack([np.arange(r), *drawn]))
        for generation in range(generations):
            cooling = generation / max(generations - 1, 1)
            members = [self._offspring(archive, i, cooling) for i in range(self.size)]
            archive = self._survivors(np.vstack([archive, *members]))
        return self.axes.front(archive)

    def _survivors(self, members: IntArray) -> IntArray:
        """Return the archive: all efficient subsets, thinned out or filled up to its size."""
        # Copies would crowd out everything else.
        members = np.unique(np.sort(members, axis=1), axis=0)
        costs = self.axes.costs(members)
        fitness = _fitness(costs, round(np.sqrt(self.size + self.room)))
        order = np.argsort(fitness, kind="stable")
        good = order[fitness[order] < 1]
        if len(good) > self.room:
            return np.asarray(members[good[_thin(_scaled(costs)[good], self.room)]])
        return np.asarray(members[order[: self.room]])

    def _offspring(self, archive: IntArray, index: int, cooling: float) -> IntArray:
        """Return a new subset: mutants and crossings in turn, half of each.

        Some axes leave the first parent, up to all in the first generation, one in the last. Those
        that enter come from outside it or, in a crossing, from a second parent.
        """
        # The archive is sorted by fitness, so the smaller position wins a tournament.
        first, second = self.rng.randint(len(archive), size=(2, 2)).min(axis=1)
        leave = parent = np.asarray(archive[first])
        enter, most = np.delete(np.arange(len(self.axes.vectors)), parent), self.r
        if index % 2 == 0:
            other = archive[second]
            leave, enter = np.setdiff1d(parent, other), np.setdiff1d(other, parent)
            most = len(leave) - 1
            if most < 1:
                # Swapping the one axis that differs would give the second parent.
                return parent
        limit = max(round(most + (1 - most) * cooling), 1)
        count = min(int(self.rng.randint(1, limit + 1)), len(enter))
        gone = self.rng.permutation(leave)[:count]
        return np.append(np.setdiff1d(parent, gone), self.rng.permutation(enter)[:count])


def _fitness(costs: FloatArray, neighbour: int) -> FloatArray:
    """Return SPEA2's fitness: below one exactly for subsets that none dominates."""
    no_worse = np.all(costs[:, None] <= costs, axis=2)
    dominates = no_worse & ~no_worse.T
    raw = dominates.sum(axis=1) @ dominates
    scaled = _scaled(costs)
    distances = np.sort(cdist(scaled, scaled), axis=1)
    # Of two subsets that equally many dominate, the one with more room around it is fitter; the 2
    # keeps the density below one.
    return np.asarray(raw + 1 / (distances[:, min(neighbour, len(costs) - 1)] + 2))


def _thin(points: FloatArray, room: int) -> IntArray:
    """Drop points one by one, always one of the closest pair; return those that stay."""
    keep = list(range(len(points)))
    while len(keep) > room:
        distances = np.sort(cdist(points[keep], points[keep]), axis=1)
        # Ties of the nearest distance are decided by the second nearest, and so on.
        del keep[int(np.lexsort(distances.T[::-1])[0])]
    return np.array(keep)
