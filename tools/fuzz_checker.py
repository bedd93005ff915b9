"""What the fuzzing asks of fairpca, computed again from the definitions and nothing else.

Covariances and values are computed in extended precision from the rows; `Search` looks for a basis
better than the one returned. Nothing of the package is imported here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.linalg
import scipy.optimize

LONG, EPS = np.longdouble, float(np.finfo(float).eps)


def polished(basis: Any) -> Any:
    """Return nearly orthonormal columns, orthonormal in extended precision."""
    basis = basis.astype(LONG)
    for _ in range(2):
        basis = basis @ (3 * np.eye(basis.shape[1]) - basis.T @ basis) / 2
    return basis


@dataclass(frozen=True)
class Truth:
    """The groups' matrices, in the columns of `span` where rows are few.

    `dust` is the square of one rounding of every group's mean; `dusty` tells that some group is
    hardly more than that, so that nothing can be said about it.
    """

    matrices: Any
    span: Any = None
    dust: Any = 0.0
    dusty: bool = False

    @property
    def traces(self) -> Any:
        return np.trace(self.matrices, axis1=1, axis2=2)

    def kept(self, basis: Any) -> Any:
        inside = basis if self.span is None else self.span.T @ basis
        return np.array([np.sum(inside * (matrix @ inside)) for matrix in self.matrices])

    def tops(self, r: int) -> Any:
        """Return the sums of the r largest eigenvalues: Ritz values in extended precision."""
        sums = []
        for matrix, trace in zip(self.matrices, self.traces, strict=True):
            size = max(np.abs(matrix).max(), abs(trace)) or LONG(1)
            vectors = polished(np.linalg.eigh((matrix / size).astype(float))[1])
            ritz = np.sum(vectors * (matrix @ vectors), axis=0)
            sums.append(np.sort(ritz)[::-1][:r].sum())
        return np.array(sums)

    def posed(self, criterion: str, r: int) -> tuple[Any, Any]:
        """Return the factor and the offset of every group under a criterion."""
        traces = self.traces
        shares = criterion in ("relative", "share")
        factors = np.array([1 / t if shares and t > 0 else LONG(1) for t in traces])
        if criterion == "variance":
            return factors, np.zeros(len(traces), LONG)
        offsets = self.tops(r) if criterion in ("loss", "relative") else traces
        return factors, offsets * factors

    def shrunk(self, amount: Any, weight: Any) -> Truth:
        """Return every matrix moved towards what the groups share."""
        shared = np.tensordot(weight / weight.sum(), self.matrices, axes=1)
        amount = np.asarray(amount, LONG)[:, None, None]
        return replace(self, matrices=(1 - amount) * self.matrices + amount * shared)


def truth_of_rows(case: Any, members: list[Any], center: str) -> tuple[Truth, Any]:
    """Return the second moments of groups of rows, and the groups' weights.

    A column whose spread is below sixteen roundings of its mean counts as constant, and so does
    one whose variance is below the smallest normal number.
    """
    X = case.X.astype(LONG)
    w = np.ones(len(X), LONG) if case.weight is None else case.weight.astype(LONG)
    w = w / w.max()
    # Means are kept as distances from a row: far from zero, digits of the sum are few.
    near = X - X[np.argmax(w)]
    parts, shifts, dusts, means, dusty = [], [], [], [], False
    for member in members:
        p = w[member] / w[member].sum()
        base = X[member][np.argmax(p)]
        rows = X[member] - base
        own = p @ rows
        rows -= own
        rows -= p @ rows
        mean = base + own
        spread, dust = p @ rows**2, (16 * EPS * np.abs(mean)) ** 2
        # At that limit either reading is right; below it, only rounding of the mean is left.
        dusty |= bool(np.any((spread > 1e-6 * dust) & (spread < 16 * dust)))
        rows[:, (spread <= dust) | (spread < np.finfo(float).tiny)] = 0
        parts.append(rows * np.sqrt(p)[:, None])
        # From the mean of the other rows, times their share: the mean of all may be this one's to
        # the last digit, and the distance would be lost.
        others = np.where(member, 0, w)
        apart = p @ near[member] - others @ near / (others.sum() or LONG(1))
        apart = apart * (others.sum() / w.sum()) * (center == "global")
        # Squares that double precision does not know are no variance, as above.
        shifts.append(np.where(apart**2 < np.finfo(float).tiny, 0, apart))
        # What a group is made of must stand out from the rounding of its mean as a whole, too.
        size = np.sum(parts[-1] ** 2) + np.sum(shifts[-1] ** 2)
        dusty |= bool(0 < size < 1e4 * np.sum(dust))
        dusts.append(np.sum(dust) / 256)
        means.append(mean)
    parts = [np.vstack([part, shift]) for part, shift in zip(parts, shifts, strict=True)]
    span = None
    if X.shape[1] > 130 > sum(map(len, parts)):
        rows = np.vstack(parts)
        norms = np.sqrt(np.sum(rows**2, axis=1, keepdims=True))
        rows = (rows / np.where(norms > 0, norms, 1)).astype(float)
        span = polished(scipy.linalg.qr(rows.T, mode="economic")[0])
        parts = [part @ span for part in parts]
    weight = np.array([w[member].sum() for member in members])
    truth = Truth(np.array([part.T @ part for part in parts]), span, np.array(dusts), dusty)
    if case.road == "chunks" or case.shrinkage == "auto":
        # Parts are merged. Their means are kept relative to one origin among the rows, and have
        # the rounding of the distance to it.
        apart = float(np.linalg.norm(np.ptp(np.array(means), axis=0).astype(float)))
        truth = replace(truth, dust=truth.dust + 16 * EPS * apart * np.sqrt(truth.traces))
    return truth, weight


class Search:
    """Looks for good bases of one rank under one criterion, in double precision.

    Starts are leading eigenvectors of random weighted sums, bases that are known and random ones;
    all follow subgradients, and the best is finished by sequential quadratic programming.
    """

    def __init__(self, truth: Truth, criterion: str, r: int) -> None:
        self.truth, self.r = truth, r
        self.factors, self.offsets = truth.posed(criterion, r)
        scaled = truth.matrices * self.factors[:, None, None]
        self.scale = float(np.trace(scaled, axis1=1, axis2=2).max()) or 1.0
        self.S = (scaled / self.scale).astype(float)
        self.c = (self.offsets / self.scale).astype(float)
        self.dust = float(np.max(truth.dust * self.factors))

    def values(self, basis: Any) -> Any:
        """Return every group's value of a basis, from the definition."""
        return (self.offsets - self.factors * self.truth.kept(polished(basis))).astype(float)

    def traces(self) -> Any:
        """Return every group's variance, as the criterion measures it."""
        return (self.factors * self.truth.traces).astype(float)

    def dual(self) -> float:
        """Return an upper bound on the optimum of two groups, which is the largest dual value.

        The dual is concave in one number; tangents on both sides of its top meet above it.
        """
        ends = [self._tangent(0.0), self._tangent(1.0)]
        for _ in range(60):
            (a, at, rise), (b, bt, fall) = ends
            if rise <= 0 or fall >= 0:
                return (at if rise <= 0 else bt) * self.scale
            t = (bt - at + rise * a - fall * b) / (rise - fall)
            top = at + rise * (t - a)
            t = min(max(t, a + 1e-3 * (b - a)), b - 1e-3 * (b - a))
            middle = self._tangent(t)
            if not a < t < b or top - middle[1] <= EPS:
                break
            ends[middle[2] <= 0] = middle
        return float(top * self.scale)

    def _tangent(self, t: float) -> tuple[float, float, float]:
        vectors = np.linalg.eigh((1 - t) * self.S[0] + t * self.S[1])[1][:, -self.r :]
        f = self.c - np.einsum("qr,kqp,pr->k", vectors, self.S, vectors)
        return t, float((1 - t) * f[0] + t * f[1]), float(f[1] - f[0])

    def best(self, rng: Any, weights: Any, basis: Any) -> float:
        """Return the smallest worst value found."""
        k, q, r = len(self.S), self.S.shape[1], self.r
        if r > q:
            return np.inf
        few = 8 if q < 50 else 2
        draws = [np.full((1, k), 1 / k), np.eye(k)[:few], rng.dirichlet(np.full(k, 0.6), 2 * few)]
        draws += [] if weights is None else [weights[None]]
        mixed = np.tensordot(np.vstack(draws), self.S, axes=1)
        starts = np.linalg.eigh(mixed)[1][:, :, q - r :]
        order = np.argsort(self._worst(starts)[0])[:4]
        known = [] if basis is None else [self._inside(basis)]
        others = np.array([*known, rng.normal(size=(q, r))])
        U = np.linalg.qr(np.concatenate([starts[order], others]))[0]
        found, least = U.copy(), np.full(len(U), np.inf)
        for step in range(40 if q < 50 else 10):
            worst, f, images = self._worst(U)
            better = worst < least
            found[better], least[better] = U[better], worst[better]
            p = np.exp(np.maximum(2.0 ** (2 + step / 2) * (f - worst[:, None]), -700))
            p /= p.sum(axis=1, keepdims=True)
            U = U + 4 / (1 + step / 4) * np.einsum("bk,kbqr->bqr", p, images)
            U = np.linalg.qr(U)[0]
        ends = [found[np.argmin(least)]]
        if k > 2 and q * r <= 40:
            ends.append(self._finished(ends[0]))
        if self.truth.span is not None:
            ends = [self.truth.span.astype(float) @ end for end in ends]
        return min(float(self.values(end).max()) for end in ends)

    def _inside(self, basis: Any) -> Any:
        span = self.truth.span
        return basis if span is None else np.linalg.qr(span.T.astype(float) @ basis)[0]

    def _worst(self, U: Any) -> tuple[Any, Any, Any]:
        images = self.S[:, None] @ U
        f = self.c - np.einsum("bqr,kbqr->bk", U, images)
        return f.max(axis=1), f, images

    def _finished(self, start: Any) -> Any:
        q, r = start.shape

        def room(z: Any) -> Any:
            U = np.linalg.qr(z[:-1].reshape(q, r))[0]
            return z[-1] - self.c + np.einsum("qr,kqp,pr->k", U, self.S, U, optimize=True)

        def slopes(z: Any) -> Any:
            U, R = np.linalg.qr(z[:-1].reshape(q, r))
            images = self.S @ U
            images = 2 * (images - U @ (U.T @ images))
            if abs(np.diag(R)).min() > 1e-8:
                images = images @ np.linalg.inv(R).T
            return np.c_[images.reshape(len(self.S), -1), np.ones(len(self.S))]

        last = np.r_[np.zeros(q * r), 1.0]
        found = scipy.optimize.minimize(
            lambda z: z[-1],
            np.r_[start.ravel(), self._worst(start[None])[0][0]],
            jac=lambda z: last,
            constraints={"type": "ineq", "fun": room, "jac": slopes},
            method="SLSQP",
            options={"maxiter": 25, "ftol": 1e-14},
        )
        end = found.x[:-1].reshape(q, r)
        return np.linalg.qr(end)[0] if np.all(np.isfinite(end)) else start
