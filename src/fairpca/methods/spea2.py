"""Pelegrina et al. 2022: an evolutionary search over subsets of PCA axes, and its exact front."""

from __future__ import annotations

from math import comb
from typing import Any, ClassVar

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.utils import check_random_state

from fairpca._checks import check_choice, check_limits
from fairpca._linalg import FloatArray, IntArray
from fairpca.methods.base import CENTERS, PublishedMethod
from fairpca.methods.pca_axes import PCAAxes, efficient, exact_front

_SELECTIONS = ("weighted", "balanced", "error", "gap")


class SPEA2FairPCA(PublishedMethod):
    """Fair PCA by choosing among the PCA axes with SPEA2 (Pelegrina et al., 2022).

    Keeps r of the n eigenvectors of the pooled covariance so that the total error and the squared
    difference of the two groups' errors are both small. An evolutionary search collects subsets
    that no other beats in both; one of them is selected.

    Parameters
    ----------
    n_components : int or None, default=None
        Rank r; None keeps all.
    search : {"spea2", "exact"}, default="spea2"
        The authors' evolutionary search, or the true front by listing subsets, where there are
        few, or by integer programs.
    selection : {"weighted", "balanced", "error", "gap"}, default="weighted"
        Least weighted sum with weights from the ranges of the one-component front; least sum
        after scaling both costs to [0, 1]; least total error, which is PCA; least gap.
    population : int, default=100
        Subsets per generation.
    max_iter : int, default=50
        Generations, or efficient subsets of "exact" beyond which it stops when there are too many
        subsets to list.
    center : {"global", "group", "none"}, default="global"
        Second moments are about the overall mean (the authors), each group's own mean, or zero.
    random_state : int, RandomState instance or None, default=None
        Of the search; None is a fixed seed.

    Attributes
    ----------
    front_ : ndarray of shape (p, 2)
        Total error and squared error gap of the subsets found, by increasing error.
    front_axes_ : ndarray of shape (p, r)
        The subsets, as positions among the PCA axes.
    axes_ : ndarray of shape (r,)
        The subset selected.
    group_values_ : ndarray of shape (2,)
        Errors with the second moments of `center_`.
    components_, mean_, group_losses_, group_errors_, ...
        As in `fairpca.FairPCA`, without a certificate: the method optimises no worst case.
    center_ : str
        What the second moments are about.

    Notes
    -----
    Subsets of PCA axes cannot equalise errors exactly in general. Two groups only. Costs come from
    three numbers per axis, so an evaluation does not touch the data.

    References
    ----------
    G. D. Pelegrina, R. D. B. Brotto, L. T. Duarte, R. Attux, J. M. T. Romano. Analysis of
    Trade-offs in Fair Principal Component Analysis Based on Multi-objective Optimization.
    International Joint Conference on Neural Networks, 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.methods import SPEA2FairPCA
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(size=(80, 4)) * [3, 1, 2, 1], rng.normal(size=(20, 4)) * 2])
    >>> model = SPEA2FairPCA(2, selection="error").fit(X, sensitive_features=[0] * 80 + [1] * 20)
    >>> model.axes_.tolist()
    [0, 1]
    """

    _group_range: ClassVar[tuple[int, int | None]] = (2, 2)
    notion: ClassVar[str] = "error gap"

    def __init__(
        self,
        n_components: int | None = None,
        *,
        search: str = "spea2",
        selection: str = "weighted",
        population: int = 100,
        max_iter: int = 50,
        center: str = "global",
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.search = search
        self.selection = selection
        self.population = population
        self.max_iter = max_iter
        self.center = center
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any = None, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> SPEA2FairPCA:
        """Fit the projection; arguments as in `fairpca.FairPCA.fit`, two groups required."""
        self._check_params()
        sample = self._sample(X, sensitive_features, sample_weight)
        covariances = sample.second_moments(self.center)
        r = self._rank(covariances.shape[1])
        axes = PCAAxes.of(covariances, sample.shares)
        if self.search == "exact":
            front = exact_front(axes, r, max_points=self.max_iter)
        else:
            rng = check_random_state(0 if self.random_state is None else self.random_state)
            front = Population(axes, r, self.population, rng).evolve(self.max_iter)
        costs = axes.costs(front)
        chosen = front[self._select(axes, costs)]
        basis = axes.vectors[:, chosen]
        kept = np.einsum("nr,knr->k", basis, covariances @ basis)
        return self._record(
            basis,
            sample,
            center_=self.center,
            front_=costs,
            front_axes_=front,
            axes_=chosen,
            group_values_=np.trace(covariances, axis1=1, axis2=2) - kept,
            n_iter_=self.max_iter,
            stop_reason_="all generations done" if self.search == "spea2" else "exact front",
        )

    def _check_params(self) -> None:
        check_choice("search", self.search, ("spea2", "exact"))
        check_choice("selection", self.selection, _SELECTIONS)
        check_choice("center", self.center, CENTERS)
        check_limits(0.5, self.max_iter)
        if self.population < 4:
            raise ValueError(f"population={self.population!r} must be at least 4.")

    def _select(self, axes: PCAAxes, costs: FloatArray) -> int:
        if self.selection == "error":
            return int(np.argmin(costs[:, 0]))
        if self.selection == "gap":
            return int(np.argmin(costs[:, 1]))
        if self.selection == "balanced":
            return int(np.argmin(_scaled(costs).sum(axis=1)))
        singles = np.arange(axes.n_axes)[:, None]
        front = axes.costs(singles)
        ranges = np.ptp(front[efficient(front)], axis=0)
        total = float(ranges.sum())
        weights = ranges[::-1] / total if total > 0 else np.full(2, 0.5)
        return int(np.argmin(costs @ weights))


def _scaled(costs: FloatArray) -> FloatArray:
    """Scale every column to [0, 1]; a constant column becomes zero."""
    low, spread = costs.min(axis=0), np.ptp(costs, axis=0)
    scaled = np.divide(costs - low, spread, out=np.zeros_like(costs), where=spread > 0)
    return np.asarray(scaled)


class Population:
    """Subsets of axes under the strength Pareto evolutionary algorithm (SPEA2).

    Parameters
    ----------
    axes : PCAAxes
    r : int
        Axes per subset.
    size : int
        Subsets per generation; fewer where there are fewer subsets.
    rng : RandomState
    """

    def __init__(self, axes: PCAAxes, r: int, size: int, rng: Any) -> None:
        self.axes, self.r, self.rng = axes, r, rng
        self.size = min(size, max(round(comb(axes.n_axes, r) / 2), 2))
        self.room = max(round(self.size / 2), 2)

    def evolve(self, generations: int) -> IntArray:
        """Run the search; return the efficient subsets of the last archive."""
        n, r = self.axes.n_axes, self.r
        if r == n:
            return np.arange(n)[None]
        if r == 1:
            singles = np.arange(n)[:, None]
            return np.asarray(singles[efficient(self.axes.costs(singles))])
        # PCA itself is always one of the first subsets.
        members = np.vstack([np.arange(r)[None], [self._random() for _ in range(self.size - 1)]])
        archive = self._survivors(members)
        for generation in range(generations):
            cooling = generation / max(generations - 1, 1)
            members = np.array([self._offspring(archive, i, cooling) for i in range(self.size)])
            archive = self._survivors(np.vstack([archive, members]))
        return np.asarray(archive[efficient(self.axes.costs(archive))])

    def _random(self) -> IntArray:
        return np.sort(self.rng.choice(self.axes.n_axes, self.r, replace=False))

    def _survivors(self, members: IntArray) -> IntArray:
        """Return the archive: all efficient subsets, thinned out or filled up to its size."""
        members = np.unique(np.sort(members, axis=1), axis=0)
        costs = self.axes.costs(members)
        fitness = _fitness(costs, round(np.sqrt(self.size + self.room)))
        order = np.argsort(fitness, kind="stable")
        good = order[fitness[order] < 1]
        if len(good) > self.room:
            good = good[_thin(_scaled(costs)[good], self.room)]
            return np.asarray(members[good])
        return np.asarray(members[order[: self.room]])

    def _offspring(self, archive: IntArray, index: int, cooling: float) -> IntArray:
        parent = self._winner(archive)
        if index % 2:
            return self._mutate(parent, cooling)
        return self._cross(parent, self._winner(archive), cooling)

    def _winner(self, archive: IntArray) -> IntArray:
        # The archive is sorted by fitness, so the smaller position wins a tournament.
        return np.asarray(archive[self.rng.randint(len(archive), size=2).min()])

    def _cross(self, first: IntArray, second: IntArray, cooling: float) -> IntArray:
        own = first[~np.isin(first, second)]
        other = second[~np.isin(second, first)]
        if len(own) < 2:
            return first
        return self._swap(first, own, other, self._count(len(own) - 1, cooling))

    def _mutate(self, parent: IntArray, cooling: float) -> IntArray:
        outside = np.delete(np.arange(self.axes.n_axes), parent)
        count = min(self._count(self.r, cooling), len(outside))
        return self._swap(parent, parent, outside, count)

    def _swap(self, genes: IntArray, leave: IntArray, enter: IntArray, count: int) -> IntArray:
        """Replace `count` genes out of `leave` by as many out of `enter`."""
        gone = leave[self.rng.permutation(len(leave))[:count]]
        come = enter[self.rng.permutation(len(enter))[:count]]
        return np.append(genes[~np.isin(genes, gone)], come)

    def _count(self, most: int, cooling: float) -> int:
        """Draw how many genes change: up to `most` in the first generation, one in the last."""
        limit = max(round(most + (1 - most) * cooling), 1)
        return int(self.rng.randint(1, limit + 1))


def _fitness(costs: FloatArray, neighbour: int) -> FloatArray:
    """Return SPEA2's fitness: below one exactly for subsets that none dominates."""
    no_worse = np.all(costs[:, None] <= costs, axis=2)
    dominates = no_worse & ~no_worse.T
    strength = dominates.sum(axis=1)
    raw = strength @ dominates
    scaled = _scaled(costs)
    distances = np.sort(cdist(scaled, scaled), axis=1)
    density = 1 / (distances[:, min(neighbour, len(costs) - 1)] + 2)
    return np.asarray(raw + density)


def _thin(points: FloatArray, room: int) -> IntArray:
    """Drop points one by one, always one of the closest pair; return those that stay."""
    keep = list(range(len(points)))
    while len(keep) > room:
        distances = np.sort(cdist(points[keep], points[keep]), axis=1)
        # Ties of the nearest distance are decided by the second nearest, and so on.
        crowded = np.lexsort(distances.T[::-1])[0]
        del keep[int(crowded)]
    return np.array(keep)
