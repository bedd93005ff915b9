"""The oracle of explicit matrices, and when it decomposes them in full."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from fairpca._linalg import FloatArray, IntArray, dot, fetched, rounding_level
from fairpca._threads import available_threads, in_threads
from fairpca.covariances.eigenpairs import (
    FULL_SHARE,
    LOW_RANK_SHARE,
    EigenPairs,
    by_krylov,
    by_lapack,
    full_pairs,
    pairs_of_factor,
    prefers_krylov,
    thin_factor,
)
from fairpca.covariances.oracle import Oracle
from fairpca.covariances.spectral_bounds import SumBound, sum_bound

# The crossovers between solving with full decompositions, which give second derivatives for
# nothing, and solving in a subspace of partial ones. All were measured on two cores with OpenBLAS
# on four kinds of spectra; a wrong one costs time and changes no result.

# Two groups take few decompositions: up to this many columns they are in full, because there
# LAPACK's partial driver takes as long as the full one, and every call shows (one thread, 10,000
# rows of 100 columns and 10 components: 2.4 times PCA in full, 3.2 in a subspace; of 150 columns
# 2.2 and 2.6; of 200 columns the same).
_PAIR_FULL_TO = 150
# Two groups, larger matrices: in full with more than this share of the components, because the
# subspace would be wide against the matrix (the worst spectrum counts; on average it is 1 / 9.5),
_PAIR_SHARE = 1 / 8
# but only up to this many columns, past which the vectors nobody asked for cost too much.
_PAIR_SHARE_TO = 800
# Three or more groups take many evaluations where eigenvalues tie, cheap only inside a subspace:
# in full where r exceeds n^2 over this.
_MANY_FULL_SQUARE = 2000
# Up to this many operations (about a millisecond) own decompositions are made on one thread.
_ALONE = 200_000
# Past this many columns BLAS uses more cores than there are groups, if there are so many.
_SPREAD_TO = 200


# Pairs past those asked for that own decompositions return: the proof that the others lead looks
# for a step of the spectrum among them.
_SPARE = 6
# Units of rounding by which a proven sum may exceed the sum of the pairs; more means that the
# pairs are not the leading ones.
_PROVEN = 32


class DenseOracle(Oracle):
    """The oracle of explicit symmetric matrices.

    Parameters
    ----------
    matrices : ndarray of shape (k, n, n)
    method : {"auto", "dense", "krylov"}
        What leading pairs come from; "auto" chooses by size.
    ranks : ndarray of shape (k,), optional
        What the rank of each matrix cannot exceed, where that is known.
    scale : float, optional
        Magnitude that rounding is relative to. By default the largest trace, which bounds every
        eigenvalue and costs nothing; a compression has the scale of what it was compressed from.
    apart : float, optional
        Magnitude whose rounding the matrices have on top, where they were made from something
        larger than they are.
    """

    cheap_products = True

    def __init__(
        self,
        matrices: FloatArray,
        method: str = "auto",
        ranks: IntArray | None = None,
        scale: float | None = None,
        apart: float = 0.0,
    ) -> None:
        self._matrices = matrices
        self._apart = apart
        self._ranks = ranks
        self.n_groups, self.n_features, _ = matrices.shape
        self.method = method
        self.driver = "krylov" if method == "krylov" else "dense"
        self._failures = 0
        if scale is None:
            scale = float(np.abs(np.trace(matrices, axis1=1, axis2=2)).max(initial=0.0))
        self.scale = scale

    @property
    def resolution(self) -> float:
        """Absolute accuracy of a sum of eigenvalues, that of the matrices themselves included."""
        return rounding_level(max(self.scale, self._apart), self.n_features)

    @property
    def matrices(self) -> FloatArray:
        """The matrices themselves."""
        return self._matrices

    def apply(self, columns: FloatArray) -> FloatArray:
        """Return ``S_i @ columns`` for every group."""
        return np.asarray(dot(self._matrices, columns))

    def combine(self, weights: FloatArray) -> Any:
        """Return ``sum_i weights[i] S_i``."""
        if np.count_nonzero(weights) == 1 and weights.max() == 1.0:
            return np.asarray(self._matrices[int(weights.argmax())])
        flat = self._matrices.reshape(self.n_groups, -1)
        return np.asarray((weights @ flat).reshape(self.n_features, self.n_features))

    def in_full(self, r: int) -> bool:
        """Whether a problem of rank `r` is best solved with all pairs of every matrix."""
        n: int = self.n_features
        if self.method == "krylov":
            return False
        if self.n_groups > 2:
            return r * _MANY_FULL_SQUARE > n * n or r > FULL_SHARE * n
        return n <= _PAIR_FULL_TO or r > n * (_PAIR_SHARE if n <= _PAIR_SHARE_TO else FULL_SHARE)

    def leading(
        self,
        weights: FloatArray,
        r: int,
        start: FloatArray | None = None,
        rough: bool = False,
        proven: bool = False,
    ) -> EigenPairs:
        """Return the `r` leading eigenpairs of the weighted sum.

        With `proven` the caller proves that they lead, and asks again where they do not.
        """
        self.n_eigen += 1
        matrix, n = self.combine(weights), self.n_features
        asked = self.method == "krylov" and r < n - 1
        # One matrix of low rank says nothing about the others; two failures do.
        if asked or (self.method == "auto" and self._failures < 2 and prefers_krylov(n, r)):
            found = by_krylov(matrix, r, start, patient=asked, rough=rough, proven=proven)
            if found is not None:
                return found
            self._failures += 1
        return by_lapack(matrix, r, rough)

    def sum_bound(self, weights: FloatArray, r: int, near: EigenPairs) -> tuple[float, float]:
        """Return a proven upper bound on the sum of the r largest eigenvalues.

        As in `Oracle`, but whatever `near` claims is checked against the matrix, and decomposed
        anew, in full, where it cannot be proven.
        """
        found = self._prove(weights, near, r)
        if found is None:
            self.n_eigen += 1
            matrix = fetched(self.combine(weights))
            found = sum_bound(matrix, full_pairs(matrix), r)
        return (np.inf, 0.0) if found is None else (found.bound, found.slack)

    def _prove(self, weights: FloatArray, near: EigenPairs, r: int) -> SumBound | None:
        """Return what pairs prove about the weighted sum, None if nothing."""
        return sum_bound(fetched(self.combine(weights)), near, r)

    def own_pairs(self, r: int) -> tuple[EigenPairs, ...]:
        """Return at least `r` leading eigenpairs of every matrix by itself.

        Losses are measured from their sums, so one that is too small would hide a loss. Sums of
        some pairs are proven; of all pairs none can be missing, and `are_pairs` checks them.
        """
        width = min(r + _SPARE, self.n_features)
        if not self.in_full(r):
            return tuple(self._own(i, r, width) for i in range(self.n_groups))
        self.n_eigen += self.n_groups
        k, n, threads = self.n_groups, self.n_features, available_threads()
        if k * n**3 <= _ALONE or (n > _SPREAD_TO and k < threads):
            threads = 1
        tasks = [functools.partial(_head, matrix, width) for matrix in self._matrices]
        return tuple(in_threads(tasks, threads))

    def _own(self, i: int, r: int, width: int) -> EigenPairs:
        """Return leading eigenpairs of one matrix, from a thin factor if it has one."""
        rank = self.n_features if self._ranks is None else int(self._ranks[i])
        if rank <= LOW_RANK_SHARE * self.n_features and self.method == "auto":
            # A factor leaves nothing of the trace, so its sums need no other proof.
            thin = thin_factor(self._matrices[i], rank)
            if thin is not None:
                self.n_eigen += 1
                return pairs_of_factor(thin, width)
        alone = np.eye(self.n_groups)[i]
        # The proof takes as long as a search for what a Krylov method missed, and says more.
        pairs = self.leading(alone, width, proven=True)
        proven = self._prove(alone, pairs, r)
        if proven is None or proven.bound - pairs.values[:r].sum() > _PROVEN * self.resolution:
            self.n_eigen += 1
            pairs = full_pairs(fetched(self.combine(alone))).head(width)
        return pairs


def _head(matrix: FloatArray, width: int) -> EigenPairs:
    """Return leading eigenpairs from a full decomposition; only what is asked for is kept."""
    pairs = full_pairs(matrix)
    return EigenPairs(pairs.values[:width], np.ascontiguousarray(pairs.vectors[:, :width]))
