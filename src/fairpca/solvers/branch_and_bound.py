"""A proof where the dual leaves a gap: best-first search over sectors of a tied pair.

Where the r-th eigenvalue is tied at the optimal weights, the relaxed optimum P is no projector,
and no basis need attain its losses. This search cuts P off. Let ``U1`` (r - 1 columns) and ``U2``
(two) be eigenvectors of P in decreasing order of its eigenvalues, and ``C = U2.T P U2`` for any
projector P of rank r.

*Lemma.* The smaller eigenvalue of C is at most ``(r - 1) - <P, U1 U1.T>``. *Proof.* The matrix
``M = [U1 U2].T P [U1 U2]`` has r + 1 rows, eigenvalues in [0, 1] and rank at most r, so
``M z = 0`` for a unit vector z = (a, b). Hence ``M <= I - z z.T``. Then
``tr(U1.T P U1) <= (r - 1) - |a|^2``, and the smaller eigenvalue of C is at most
``1 - |b|^2 = |a|^2``. Add the two.

If the leading eigenvector of C lies within an angle h of theta in the plane of U2, then with
``R = [[cos 2theta, sin 2theta], [sin 2theta, -cos 2theta]]``

    <P, U2 R U2.T>  >=  cos 2h (<P, U2 U2.T + 2 U1 U1.T> - 2 (r - 1)),

which is linear in P: a *cut* ``<P, G> >= level``. Four sectors cover all angles, so every
projector obeys the cut of one of them, and the fractional P none. A node of the search is the list
of cuts on the way to it. For any weights t on the simplex and any multipliers s >= 0 of its cuts

    t . offsets + s . levels - (sum of the r largest eigenvalues of A(t) + sum_j s_j G_j)

is a lower bound for every projector that obeys them. That is the dual with a few more matrices and
a cone beside the simplex, and the same barrier as in `interior_point` finds good multipliers, for
many nodes at once. The bound is valid for any multipliers, good or not. What is known after any
number of nodes is the least bound of those that are still open.

Ties of three values, with one or two components among them, are cut by their two middle vectors as
well, and take more nodes. Where two or more components are spread over four and more tied values,
the cut may hold for the relaxed optimum already; such a node keeps its bound and stays open. With
five groups that is rare, with twenty and more it is common, and the gap then stays.

Read `Search.run` first.
"""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from fairpca._arrays import EPS, FloatArray, symmetric
from fairpca.solvers.descent import descend
from fairpca.solvers.interior_point import above_phi, curvature, newton_steps, occupations
from fairpca.solvers.problem import Problem

#: Most columns of a problem that is searched: a node takes four decompositions of that size some
#: twenty times, and beyond this a single one would take seconds.
MOST_FEATURES = 256
# Nodes that are split together: small matrices are decomposed many at a time, one call each would
# be all overhead. More of them would split nodes that a better basis is about to close.
_BATCH = 8
# Numbers in the forms of one batch, which bounds its memory to some 100 MB.
_MOST_NUMBERS = 4_000_000
# Groups that take part in the bounds: those worst off in the relaxed problem. The others count as
# weight zero, which is valid; with fifty groups all of them take part.
_MOST_GROUPS = 64
# Cuts that a child inherits, those with the largest multipliers. Leaving one out is valid.
_MOST_CUTS = 14
# How much of the way from "the relaxed optimum obeys it" to "only a projector does" the cut of the
# middle sector goes; 0.85 and 0.95 took as many nodes on 35 open problems, 0.7 half as many again.
_SPLIT = 0.9
# Newton steps per batch; 60 are never reached on 35 open problems to gaps of 1e-8.
_MOST_STEPS = 80
# The barrier parameter falls by this factor once a node is near the path.
_SHRINK = 0.15
# A child's path begins at this share of the gap that is to be closed. With 0.075 and 0.3 the same
# problems take a fifth more steps.
_START = 0.02


@dataclass(frozen=True)
class Searched:
    """What the search proved.

    Attributes
    ----------
    bound, value : float
    basis : ndarray of shape (n, r)
        The best one known.
    nodes : int
        How many nodes got a bound.
    stuck : bool
        Whether the node with the least bound has no cut that divides it: more time would not help.
    """

    bound: float
    basis: FloatArray
    value: float
    nodes: int
    stuck: bool


@dataclass(frozen=True)
class _Node:
    """A list of cuts, what is proven under them, and the relaxed optimum there.

    Attributes
    ----------
    bound : float
        No projector that obeys the cuts has a smaller worst loss.
    forms, levels : ndarray of shape (j, n, n), ndarray of shape (j,)
        The cuts ``<P, forms[i]> >= levels[i]``.
    multipliers : ndarray of shape (g + j,)
        Weights of the groups and multipliers of the cuts at the bound.
    vectors, occupied : ndarray of shape (n, n), ndarray of shape (n,)
        Eigenvectors and eigenvalues of the relaxed P, in decreasing order.
    """

    bound: float
    forms: FloatArray
    levels: FloatArray
    multipliers: FloatArray
    vectors: FloatArray
    occupied: FloatArray


def _divides(occupied: FloatArray, r: int) -> bool:
    """Whether the cuts of a pair exclude the relaxed P with these eigenvalues."""
    missing = (r - 1) - float(occupied[: r - 1].sum())
    return bool(occupied[r] - missing > 1e-9)


def _rounded(node: _Node, r: int, number: int, random_state: int) -> Iterator[FloatArray]:
    """Yield random bases whose projectors are near the relaxed optimum of a node."""
    rng = np.random.default_rng(random_state)
    root = node.vectors * np.sqrt(np.maximum(node.occupied, 0.0))
    for _ in range(number):
        yield np.linalg.qr(root @ rng.standard_normal((root.shape[1], r)))[0]


def sectors(occupied: FloatArray, r: int) -> list[tuple[float, float]]:
    """Return the four sectors of a pair, each as its middle angle and its half width.

    The first lies around the direction that the relaxed P prefers, and is so narrow that the cut
    excludes P. The other three share the rest.

    Parameters
    ----------
    occupied : ndarray of shape (n,)
        Eigenvalues of P, in decreasing order; `_divides` holds for them.
    r : int
    """
    missing = (r - 1) - float(occupied[: r - 1].sum())
    both = float(occupied[r - 1] + occupied[r]) - 2 * missing
    ratio = float(occupied[r - 1] - occupied[r]) / both
    # The cut excludes P where cos 2h is above the ratio.
    first = 0.5 * float(np.arccos(min(ratio + (1 - ratio) * _SPLIT, 1.0 - 1e-15)))
    rest = (np.pi - 2 * first) / 6
    return [(0.0, first)] + [(first + rest * (2 * i + 1), rest) for i in range(3)]


def cut(vectors: FloatArray, r: int, angle: float, half: float) -> tuple[FloatArray, float]:
    """Return G and the level of the cut ``<P, G> >= level`` of one sector.

    Parameters
    ----------
    vectors : ndarray of shape (n, m)
        Orthonormal; the first r - 1 are U1, the next two U2.
    r : int
    angle, half : float
        The sector, in the plane of U2.
    """
    n = len(vectors)
    above, u, v = vectors[:, : r - 1], vectors[:, r - 1], vectors[:, r]
    along = np.cos(angle) * u + np.sin(angle) * v
    across = np.cos(angle) * v - np.sin(angle) * u
    width = float(np.cos(2 * half))
    # U2 R U2.T is `along` less `across`, and the two span U2.
    form = (1 - width) * np.outer(along, along) - (1 + width) * np.outer(across, across)
    form -= 2 * width * above @ above.T
    # The vectors are orthonormal to rounding only.
    rounding = 64 * n * r * EPS
    return form, -2 * (r - 1) * width - rounding


class Search:
    """A search for a larger lower bound of a problem with a gap, or for a better basis.

    The nodes with the least bounds are split first, since they hold the proof back; a descent from
    the relaxed optimum of every node may find a better basis, and better ones close nodes sooner.
    A node is closed when its bound reaches the best value less the tolerance. Bounds of many nodes
    are found at once, by a barrier on the dual with their cuts.

    Parameters
    ----------
    problem : Problem
        With at most `MOST_FEATURES` columns.
    basis : ndarray of shape (n, r)
        The best basis known.
    weights : ndarray of shape (k,)
        Optimal dual weights.
    bound : float
        The dual bound.
    tol : float
        Relative gap at which to stop.

    Attributes
    ----------
    value, goal : float
        The best value, and the bound at which a node is closed.
    chosen : ndarray of int of shape (g,)
        The groups that take part in the bounds.
    matrices, offsets : ndarray of shape (g, n, n), ndarray of shape (g,)
        Theirs.
    batch : int
        How many nodes to split at a time.
    """

    def __init__(
        self, problem: Problem, basis: FloatArray, weights: FloatArray, bound: float, tol: float
    ) -> None:
        oracle = problem.oracle
        self.problem, self.bound, self.tol = problem, bound, tol
        self.r, self.n = problem.n_components, oracle.n_features
        self.keep(basis, float(problem.losses(basis).max()))
        self.chosen = np.sort(np.argsort(-weights, kind="stable")[:_MOST_GROUPS])
        self.matrices, self.offsets = oracle.matrices[self.chosen], problem.offsets[self.chosen]
        self.weights = weights[self.chosen] / weights[self.chosen].sum()
        self.scale = oracle.scale or 1.0
        self.g = len(self.chosen)
        numbers = 4 * (self.g + _MOST_CUTS + 1) * self.n**2
        self.batch = max(1, min(_BATCH, _MOST_NUMBERS // numbers))

    def run(
        self,
        *,
        max_nodes: int,
        seconds: float = np.inf,
        roundings: int = 0,
        random_state: int = 0,
    ) -> Searched:
        """Split nodes until the gap is closed; return what that proved.

        Parameters
        ----------
        max_nodes : int
            Most nodes that get a bound; the last batch may exceed it.
        seconds : float
            Time after which no further batch is begun. Where it ends the search, another run may
            prove a little more or less; the result is valid in any case.
        roundings : int
            Descents from random bases near the relaxed optimum of the first node that no cut
            divides. There the bound stays, and what can still be had is a better basis: 200 of
            them found one in four of five problems with 50 groups, better by 0.4 to 2.3 %.
        random_state : int
            Draws these bases.

        Returns
        -------
        Searched
            Its bound is never below the dual bound, and valid however early the search stopped.
        """
        began, r = time.monotonic(), self.r
        root = self.root()
        self.improve(root, root.vectors[:, :r])
        nodes, count = 1, 0
        # The least bounds of the nodes that are closed, and of those that no cut splits.
        closed = stuck = np.inf
        queue = [(root.bound, count, root)]
        # Once a stuck node has the least bound, no other node holds the bound back.
        while queue and nodes < max_nodes and stuck > queue[0][0]:
            if time.monotonic() - began >= seconds:
                break
            taken = [heapq.heappop(queue)[2] for _ in range(min(self.batch, len(queue)))]
            split = []
            for node in taken:
                if node.bound >= self.goal:
                    closed = min(closed, node.bound)
                elif not _divides(node.occupied, r):
                    if np.isinf(stuck):
                        for start in _rounded(node, r, roundings, random_state):
                            self.improve(node, start)
                    stuck = min(stuck, node.bound)
                else:
                    split.append(node)
            for child in self.children(split) if split else ():
                nodes, count = nodes + 1, count + 1
                if child.bound < self.goal:
                    self.improve(child, child.vectors[:, :r])
                if child.bound >= self.goal:
                    closed = min(closed, child.bound)
                else:
                    heapq.heappush(queue, (child.bound, count, child))
        least = min(closed, stuck, self.value, queue[0][0] if queue else np.inf)
        end = least == stuck < self.goal
        return Searched(max(self.bound, least), self.basis, self.value, nodes, end)

    def keep(self, basis: FloatArray, value: float) -> None:
        """Keep the best basis."""
        self.basis, self.value = basis, value
        self.goal = value - max(self.tol * abs(value), self.problem.resolution)

    def improve(self, node: _Node, start: FloatArray) -> None:
        """Descend from a basis near the relaxed optimum of a node."""
        weights = np.zeros(self.problem.oracle.n_groups)
        weights[self.chosen] = node.multipliers[: self.g]
        found = descend(self.problem, start, weights, self.value)
        if found.value < self.value:
            self.keep(found.basis, found.value)

    def root(self) -> _Node:
        """Return the node without cuts, whose bound is that of the dual."""
        n, none = self.n, np.zeros(0)
        node = _Node(self.bound, np.zeros((0, n, n)), none, self.weights, np.eye(n), np.zeros(n))
        start = max(_START * (self.value - node.bound), self._end(node, 0))
        lift = min(0.05, start / self.scale)
        x = (1 - lift) * self.weights + lift / self.g
        forms, levels = np.zeros((1, 0, n, n)), np.zeros((1, 0))
        return self._solved([node], forms, levels, x[None], np.array([start]))[0]

    def children(self, nodes: list[_Node]) -> list[_Node]:
        """Return four children of every node, one for each sector of its relaxed optimum."""
        parents, cuts, starts, begins = [], [], [], []
        for node in nodes:
            # A child inherits the cuts that the bound leans on.
            multipliers = node.multipliers[self.g :]
            kept = np.flatnonzero(multipliers > 1e-6 * self.scale)
            kept = np.sort(kept[np.argsort(-multipliers[kept], kind="stable")[:_MOST_CUTS]])
            begin = max(_START * (self.value - node.bound), self._end(node, len(node.levels)))
            lift = min(0.05, 10 * begin / self.scale)
            weights = (1 - lift) * node.multipliers[: self.g] + lift / self.g
            inherited = np.maximum(multipliers[kept], begin)
            relaxed = (node.vectors * node.occupied) @ node.vectors.T
            for angle, half in sectors(node.occupied, self.r):
                form, level = cut(node.vectors, self.r, angle, half)
                # A multiplier times what the relaxed optimum lacks is what the bound may gain.
                lacking = max(level - float(np.sum(form * relaxed)), 0.01)
                parents.append(node)
                cuts.append(
                    (
                        np.append(node.forms[kept], form[None], axis=0),
                        np.append(node.levels[kept], level),
                    )
                )
                starts.append(np.concatenate([weights, inherited, [3 * begin / lacking]]))
                begins.append(begin)
        most = max(len(levels) for _, levels in cuts)
        # Nodes with fewer cuts get cuts that any P obeys: zero is at least minus one.
        forms = np.zeros((len(cuts), most, self.n, self.n))
        levels = np.full((len(cuts), most), -1.0)
        x = np.repeat(np.array(begins)[:, None], self.g + most, axis=1)
        for i, (own, own_levels) in enumerate(cuts):
            forms[i, : len(own)], levels[i, : len(own)] = own, own_levels
            x[i, : len(starts[i])] = starts[i]
        return self._solved(parents, forms, levels, x, np.array(begins))

    def _end(self, node: _Node, cuts: int) -> float:
        """Return the barrier parameter at which a bound is good enough.

        The bound at a parameter mu is within (2 n + g + j) mu of the best one. A twentieth of the
        gap will do for a node that is split again, a third of the tolerance for one that is not.
        """
        allowed = max(0.05 * (self.value - node.bound), self.value - self.goal)
        return 0.3 * allowed / (2 * self.n + self.g + cuts)

    def _solved(
        self,
        parents: list[_Node],
        forms: FloatArray,
        levels: FloatArray,
        x: FloatArray,
        mu: FloatArray,
    ) -> list[_Node]:
        """Follow the central paths of several nodes together; return them with their bounds.

        Parameters
        ----------
        parents : list of _Node
        forms, levels : ndarray of shape (m, j, n, n), ndarray of shape (m, j)
            The cuts of every node.
        x : ndarray of shape (m, g + j)
            Where the multipliers begin, all of them positive.
        mu : ndarray of shape (m,)
            The barrier parameters to begin with.
        """
        m, j = levels.shape
        forms = np.concatenate(
            [np.broadcast_to(self.matrices, (m, *self.matrices.shape)), forms], 1
        )
        offsets = np.concatenate([np.broadcast_to(self.offsets, (m, self.g)), levels], axis=1)
        # Cuts and groups may nearly cancel; the rounding of their sum is that of what was summed.
        sizes = np.abs(forms).max(axis=(2, 3))
        ends = np.array([self._end(parent, j) for parent in parents])
        mu = np.maximum(mu, ends)
        bound = np.full(m, -np.inf)
        vectors, occupied = np.zeros((m, self.n, self.n)), np.zeros((m, self.n))
        kept = x.copy()
        # Where the last step began, its direction and length, and F and the decrement there.
        base, direction, length = x.copy(), np.zeros_like(x), np.zeros(m)
        level, decrement = np.full(m, -np.inf), np.zeros(m)
        left = np.arange(m)
        for _ in range(_MOST_STEPS):
            here = self._newton(x[left], mu[left], forms[left], offsets[left], sizes[left])
            better = here.bound > bound[left]
            index = left[better]
            bound[index], kept[index] = here.bound[better], x[index]
            vectors[index], occupied[index] = here.vectors[better], here.occupied[better]
            # Near the path Newton's step is right even where rounding says that F fell.
            fell = (here.value < level[left] - 1e-12 * np.abs(here.value)) & (decrement[left] > 1)
            length[left[fell]] *= 0.3
            on = left[~fell]
            base[on], direction[on], length[on] = x[on], here.step[~fell], here.longest[~fell]
            level[on], decrement[on] = here.value[~fell], here.decrement[~fell]
            near = ~fell & (here.decrement < 1)
            done = (near & (mu[left] <= ends[left])) | (bound[left] >= self.goal)
            # F of another parameter is another function.
            falling = left[near]
            mu[falling] = np.maximum(_SHRINK * mu[falling], ends[falling])
            level[falling] = -np.inf
            left = left[~done]
            if not len(left):
                break
            x[left] = base[left] * (1.0 + length[left, None] * direction[left])
            x[left, : self.g] /= x[left, : self.g].sum(axis=1, keepdims=True)
        return [
            _Node(
                max(float(bound[i]), parents[i].bound),
                forms[i, self.g :],
                levels[i],
                kept[i],
                vectors[i],
                occupied[i],
            )
            for i in range(m)
        ]

    def _newton(
        self,
        x: FloatArray,
        mu: FloatArray,
        forms: FloatArray,
        offsets: FloatArray,
        sizes: FloatArray,
    ) -> _Steps:
        """Return bound, barrier function and Newton step of every node at multipliers `x`.

        As `interior_point` does for one node; only the groups' weights add up to one.
        `sizes` are the largest entries of the forms, from which the rounding of their sum follows.
        """
        r = self.r
        values, vectors = np.linalg.eigh(symmetric(np.einsum("mj,mjab->mab", x, forms)))
        values, vectors = values[:, ::-1], np.ascontiguousarray(vectors[:, :, ::-1])
        _, p, v = occupations(values, mu, r, 0.5 * (values[:, r - 1] + values[:, r]))
        turned = np.swapaxes(vectors, 1, 2)[:, None] @ forms @ vectors[:, None]
        gradient = offsets - np.einsum("mjaa,ma->mj", turned, p)
        step, decrement = newton_steps(curvature(turned, p, v, mu), gradient, x, mu, self.g)
        longest = np.minimum(1.0, 0.9 / np.maximum(-step.min(axis=1), 1e-300))
        phi = np.einsum("mj,mj->m", x, offsets) - values[:, :r].sum(axis=1)
        summed = np.maximum(np.abs(values).max(axis=1), np.einsum("mj,mj->m", x, sizes))
        rounding = 8 * self.n * EPS * summed * r
        value = phi + above_phi(values, p, v, x, mu, r)
        return _Steps(phi - rounding, value, step, decrement, longest, vectors, p)


@dataclass(frozen=True)
class _Steps:
    """What `Search._newton` finds for m nodes.

    Attributes
    ----------
    bound : ndarray of shape (m,)
        The dual value less what rounding may hide.
    value : ndarray of shape (m,)
        The barrier function F.
    step : ndarray of shape (m, g + j)
        Newton's step, in units of the multipliers.
    decrement, longest : ndarray of shape (m,)
        How far the path is away, and how much of the step keeps all multipliers positive.
    vectors, occupied : ndarray of shape (m, n, n), ndarray of shape (m, n)
        Eigenvectors and eigenvalues of the barrier's P, in decreasing order.
    """

    bound: FloatArray
    value: FloatArray
    step: FloatArray
    decrement: FloatArray
    longest: FloatArray
    vectors: FloatArray
    occupied: FloatArray
