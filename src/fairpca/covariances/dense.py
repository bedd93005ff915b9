"""The oracle of explicit matrices: NumPy's, PyTorch's, CuPy's or any other of the array API.

Matrices, their sums, products and decompositions stay where the matrices are, in float64. They are
decomposed in full, in part by LAPACK, or by an iterative method, whichever is cheapest for the
size.

A certificate rests on sums of the r largest eigenvalues: the dual bound on one at its weights,
every loss on one of the group's own matrix. An eigensolver that missed a direction makes the sum
too small, and the proof false. So a sum is never taken as it comes. `sum_bound` checks orthonormal
columns V that claim to span the leading eigenvectors against the matrix A itself:

* With all n columns, the residual A V - V diag(values) bounds every error.
* With fewer, split R^n into the span of V and the rest. A factorisation by Cholesky proves that A
  restricted to the rest is below some beta; the part that couples the two is the residual. Then
  ``diag(values) + R.T R / (values[j] - beta)`` on the span is no smaller than what A can reach,
  and the error is quadratic in the residual.
"""

from __future__ import annotations

import contextlib
import functools
from typing import Any, NamedTuple

import numpy as np
import scipy.linalg
from scipy.linalg.blas import dsymv
from scipy.sparse.linalg import ArpackError

from fairpca._arrays import (
    EPS,
    TINY,
    FloatArray,
    available_threads,
    diagonals,
    dot,
    expand,
    fetched,
    in_threads,
    is_foreign,
    is_positive,
    joined,
    library_of,
    orthonormal,
    placed,
    rounding_level,
    symmetric,
)
from fairpca.covariances.oracle import EigenPairs, Oracle
from fairpca.covariances.partial import filtered_pairs, krylov_pairs

# With more than this share of the pairs wanted, all of them cost no more (LAPACK reduces the
# whole matrix in any case).
FULL_SHARE = 1 / 6
# From this many columns on, and up to this share of the pairs, a Krylov method beats LAPACK's
# partial decomposition, unless the spectrum is flat.
KRYLOV_FROM, KRYLOV_SHARE = 250, 1 / 10

# The crossovers between solving with full decompositions, which give second derivatives for
# nothing, and solving in a subspace of partial ones. All were measured on two cores with OpenBLAS
# on four kinds of spectra; a wrong one costs time and changes no result.

# Two groups take few decompositions: up to this many columns they are in full, because there
# LAPACK's partial driver takes as long as the full one, and every call shows.
_PAIR_FULL_TO = 150
# Two groups, larger matrices: in full with more than this share of the components, because the
# subspace would be wide against the matrix (the worst spectrum counts; on average it is 1 / 9.5),
# but only up to so many columns, past which the vectors nobody asked for cost too much.
_PAIR_SHARE, _PAIR_SHARE_TO = 1 / 8, 800
# Three or more groups take many evaluations where eigenvalues tie, cheap only inside a subspace:
# in full where r exceeds n^2 over this.
_MANY_FULL_SQUARE = 2000
# Below this many columns a decomposition on the processor takes no longer than one on a device
# (1.3 ms there and 0.9 here with 100 columns, 1.6 and 3 with 173).
_DEVICE_FROM = 128
# Up to this many columns what groups keep is a product of all matrices with one projector: of a
# thousand small ones a product each takes ten times as long, of ten with 374 columns five times.
# Larger matrices are multiplied with the basis, on all cores.
_PROJECTOR_TO = 500
# Up to this many columns all pairs of a stack of matrices take no longer than some pairs of one
# after the other.
_STACKED_TO = 64
# Up to this many operations (some ten milliseconds) own decompositions are made on one thread.
_ALONE = 10_000_000
# Pairs past those asked for that own decompositions return: the proof that the others lead looks
# for a step of the spectrum among them.
_SPARE = 6
# Eigenvectors that tie are turned by any angle. With this number for it, weights that agree to
# eight digits count as the same.
_FASTEST = 1e4
# Units of rounding by which a proven sum may exceed the sum of the pairs; more means that the
# pairs are not the leading ones.
_PROVEN = 32
# Residuals past this share of the largest eigenvalue are no rounding: the pairs are wrong.
_WRONG = 1e-9
# A step of the spectrum of this share of the widest one will do. The bound is too large by the
# squared residual over the step, which is below rounding where pairs have converged.
_WIDE_STEP = 0.1


def full_pairs(matrix: Any) -> EigenPairs:
    """Return all eigenpairs of a symmetric matrix, largest first, where it lives."""
    if is_foreign(matrix):
        xp = library_of(matrix)
        values, vectors = xp.linalg.eigh(matrix)
        return EigenPairs(fetched(values)[::-1], xp.flip(vectors, axis=1))
    values, vectors = np.linalg.eigh(matrix)
    # A reversed view would be copied in every product.
    return EigenPairs(values[::-1], np.ascontiguousarray(vectors[:, ::-1]))


def leading_pairs(matrix: FloatArray, r: int) -> EigenPairs:
    """Return the `r` leading eigenpairs of a symmetric matrix by the cheapest driver."""
    found = by_krylov(matrix, r) if prefers_krylov(len(matrix), r) else None
    return by_lapack(matrix, r) if found is None else found


def leading_vectors(matrices: FloatArray, r: int) -> FloatArray:
    """Return the `r` leading eigenvectors of each of k symmetric matrices, shape (k, n, r)."""
    if matrices.shape[-1] > _STACKED_TO:
        return np.array([leading_pairs(matrix, r).vectors for matrix in matrices])
    return np.ascontiguousarray(np.linalg.eigh(matrices)[1][:, :, ::-1][:, :, :r])


def by_lapack(matrix: FloatArray, r: int) -> EigenPairs:
    """Return the `r` leading pairs by LAPACK."""
    n = len(matrix)
    if n > 2 / FULL_SHARE and r <= FULL_SHARE * n:
        # Where eigenvalues are tied LAPACK has returned fewer pairs than asked for, or none.
        with contextlib.suppress(np.linalg.LinAlgError):
            values, vectors = scipy.linalg.eigh(
                matrix, subset_by_index=(n - r, n - 1), driver="evr", check_finite=False
            )
            if vectors.shape == (n, r):
                return EigenPairs(values[::-1], np.ascontiguousarray(vectors[:, ::-1]))
    return full_pairs(matrix).head(r)


def prefers_krylov(n: int, r: int) -> bool:
    """Whether a Krylov method is the first choice for `r` pairs of a matrix of n columns."""
    return n >= KRYLOV_FROM and r <= KRYLOV_SHARE * n


def by_krylov(
    matrix: FloatArray, r: int, start: FloatArray | None = None, *, rough: bool = False
) -> EigenPairs | None:
    """Return the `r` leading pairs by a Krylov method, or None where LAPACK would be faster.

    A flat spectrum shows by the products it takes: LAPACK takes as long as about half as many as
    there are columns. What it may miss of repeated eigenvalues is left to the proof.
    """
    n, matrix = len(matrix), np.ascontiguousarray(matrix)

    def product(columns: FloatArray) -> FloatArray:
        if columns.ndim > 1:
            return np.asarray(dot(matrix, columns))
        # Reads one triangle only; a single vector costs what the memory takes to read.
        return np.asarray(dsymv(1.0, matrix.T, columns))

    most = max(int(2.2 * r) + 40, int(0.45 * n) - 45)
    try:
        return krylov_pairs(product, n, r, start, rough=rough, search=False, most=most)
    except (np.linalg.LinAlgError, ArpackError):
        return None


class SumBound(NamedTuple):
    """An upper bound on a sum of eigenvalues, and how much of it allows for rounding."""

    bound: float
    slack: float


def sum_bound(matrix: Any, pairs: EigenPairs, r: int) -> SumBound | None:
    """Return an upper bound on the sum of the `r` largest eigenvalues, None if none is proven.

    Parameters
    ----------
    matrix : array of shape (n, n)
        Symmetric; here, or on another device.
    pairs : EigenPairs
        More than r of them, or r = n; what they claim is checked.
    r : int

    Returns
    -------
    SumBound or None
        Above the sum of the r largest eigenvalues by about rounding, if the pairs are what they
        claim. None if they are not, or if no step of the spectrum among them is wide enough to
        separate them from the rest.
    """
    n, (_, q) = matrix.shape[0], pairs.columns.shape
    if not (r <= q <= n and np.all(np.isfinite(pairs.values))):
        return None
    vectors = placed(pairs.columns, matrix)
    return (
        _from_all(matrix, pairs.values, vectors, r) if q == n else _from_some(matrix, vectors, r)
    )


def _from_all(matrix: Any, values: FloatArray, vectors: Any, r: int) -> SumBound | None:
    """Return the bound from all n pairs: their sum, raised by residual and lack of orthogonality.

    Whatever V and D are, ``A - V D V.T = (A V - V D) V.T + A (I - V V.T)``, and a change of A by a
    matrix moves a sum of r eigenvalues by at most ``sqrt(r)`` times its Frobenius norm. Where V is
    nearly orthogonal the last term has the norm of ``D (I - V.T V)``, to first order: every
    direction counts with its own eigenvalue, not with the largest.
    """
    xp, n, there = library_of(matrix), len(values), placed(values, matrix)
    norm = xp.linalg.matrix_norm
    residual = float(norm(dot(matrix, vectors) - vectors * there))
    off = dot(vectors.T, vectors) - placed(np.eye(n), matrix)
    size = float(np.abs(values).max(initial=0.0))
    wrong = residual + size * float(norm(off))
    if not wrong <= _WRONG * np.sqrt(n) * size + TINY:
        return None
    slack = float(np.sqrt(r) * (residual + float(norm(there * off))))
    return SumBound(float(np.sort(values)[n - r :].sum()) + slack, slack)


def _from_some(matrix: Any, vectors: Any, r: int) -> SumBound | None:
    """Return the bound from fewer than n vectors, by a Cholesky factorisation of the rest."""
    basis = orthonormal(vectors)
    image = dot(matrix, basis)
    inner = symmetric(fetched(dot(basis.T, image)))
    if not np.all(np.isfinite(inner)):
        return None
    values = np.diag(inner)
    off = float(np.linalg.norm(inner - np.diag(values)))
    if np.any(np.diff(values) > 0) or off > 0.1 * _WIDE_STEP * _steps(values, r).max(initial=0.0):
        # The columns span something, but are no eigenvectors of it.
        values, rotation = np.linalg.eigh(inner)
        turn = placed(rotation[:, ::-1], basis)
        basis, image, values = basis @ turn, image @ turn, values[::-1]
        inner = np.diag(values)
    # Where the spectrum steps down: past r at once, unless it steps down far more later. A tie at
    # r is held in the span as a whole.
    steps = _steps(values, r)
    if not steps.max(initial=0.0) > 0:
        return None
    j = r + int(np.argmax(steps >= _WIDE_STEP * steps.max()))
    held, inner, step = basis[:, :j], inner[:j, :j], float(steps[j - r])
    beta = float(values[j]) + 0.5 * step
    if not _rest_is_below(matrix, held, values[:j], beta, 0.25 * step):
        return None
    residual = image[:, :j] - dot(held, placed(inner, basis))
    # The rest counts as beta + 0.4 step, which is below every value that is held.
    lifted = inner + fetched(dot(residual.T, residual)) / (0.4 * step)
    # The sum of all that are held is a trace.
    leading = np.diag(lifted) if j == r else np.linalg.eigvalsh(symmetric(lifted))[::-1][:r]
    # The basis is orthonormal and the products are right to a few units of the largest value.
    rounding = 4 * EPS * float(np.sqrt(basis.shape[0] * r) * np.abs(values).max())
    return SumBound(float(leading.sum()) + rounding, rounding)


def _steps(values: FloatArray, r: int) -> FloatArray:
    """Return by how much each value from the r-th on is above the next one."""
    return values[r - 1 : -1] - values[r:]


def _rest_is_below(matrix: Any, held: Any, values: FloatArray, beta: float, margin: float) -> bool:
    """Whether the matrix, outside the span of `held`, is proven to be below `beta`.

    ``beta I - A`` is made safely positive on the span and then factorised. If that succeeds, it is
    positive definite but for the rounding of forming and factorising it (Higham 2002, theorem
    10.7), which has to fit into the margin.
    """
    n, size = matrix.shape[0], float(np.abs(values).max(initial=0.0))
    # What is held lies above beta, so that the roots exist; rounding may say otherwise.
    lifted = held * placed(np.sqrt(np.maximum(values - beta, 0.0) + size), held)
    shifted = dot(lifted, lifted.T) - matrix
    if is_foreign(matrix):
        xp = library_of(matrix)
        # Made there: a copy of 8,000 columns would take longer than all the rest.
        unit = xp.eye(n, dtype=xp.float64, device=matrix.device)
        shifted = shifted + (beta - margin) * unit
    else:
        shifted[np.diag_indices(n)] += beta - margin
    trace = float(diagonals(shifted[None, :, :])[0].sum())
    if EPS * ((n + 2) * max(trace, 0.0) + n * (2 * size + abs(beta))) > margin:
        return False
    return is_positive(shifted)


class DenseOracle(Oracle):
    """The oracle of explicit symmetric matrices.

    Parameters
    ----------
    matrices : array of shape (k, n, n)
        Of any library of the array API.
    scale : float, optional
        Magnitude that rounding is relative to. By default the largest trace, which bounds every
        eigenvalue and costs nothing; a compression has the scale of what it was compressed from.
    apart : float, optional
        Magnitude whose rounding the matrices have on top, where they were made from something
        larger than they are.
    """

    driver = "dense"
    # Whether the matrices live on another device.
    _there = False
    _apart = 0.0
    # How often a Krylov method may take longer than LAPACK before no other is tried: one matrix
    # of low rank says nothing about the others.
    _patience = 2
    # The leading vectors of the last sum on a device: those of the next are not far from them.
    _block: Any = None

    def __init__(self, matrices: Any, scale: float | None = None, apart: float = 0.0) -> None:
        if matrices.shape[1] < _DEVICE_FROM:
            matrices = fetched(matrices)
        self._matrices, self._there = matrices, is_foreign(matrices)
        self._apart = apart
        self.n_groups, self.n_features, _ = matrices.shape
        if scale is None:
            traces = fetched(library_of(matrices).linalg.trace(matrices))
            scale = float(np.abs(traces).max(initial=0.0))
        self.scale = scale

    @property
    def resolution(self) -> float:
        """Absolute accuracy of a sum of eigenvalues, that of the matrices themselves included."""
        return rounding_level(max(self.scale, self._apart), self.n_features)

    @property
    def matrices(self) -> FloatArray:
        """The matrices themselves, brought here when they are first asked for."""
        if self._there:
            self._matrices, self._there = fetched(self._matrices), False
        return self._matrices  # type: ignore[no-any-return]

    def near(self, columns: Any) -> Any:
        """Return columns where the matrices are."""
        return placed(columns, self._matrices)

    def apply(self, columns: Any) -> Any:
        """Return ``S_i @ columns`` for every group, where the matrices are."""
        return dot(self._matrices, self.near(columns))

    def compressed(self, left: Any, right: Any) -> Any:
        """Return ``left.T @ S_i @ right`` for every group, where the matrices are."""
        return dot(self.near(left).T, self.apply(right))

    def combine(self, weights: FloatArray) -> Any:
        """Return ``sum_i weights[i] S_i``, where the matrices are."""
        if np.count_nonzero(weights) == 1 and weights.max() == 1.0:
            return self._matrices[int(weights.argmax()), :, :]
        xp = library_of(self._matrices)
        flat = xp.reshape(self._matrices, (self.n_groups, -1))
        shape = (self.n_features, self.n_features)
        return xp.reshape(placed(weights, flat) @ flat, shape)

    def retained_variance(self, basis: Any) -> FloatArray:
        """Return ``Tr(basis.T @ S_i @ basis)`` for every group, shape (k,)."""
        there = self.near(basis)
        if not self._there and self.n_features <= _PROJECTOR_TO:
            flat = np.reshape(self._matrices, (self.n_groups, -1))
            return np.asarray(flat @ (there @ there.T).ravel())
        image = dot(self._matrices, there)
        return fetched(library_of(there).sum(image * there, axis=(1, 2)))

    def in_full(self, r: int) -> bool:
        """Whether a problem of rank `r` is best solved with all pairs of every matrix."""
        n: int = self.n_features
        if self._there:
            return r > FULL_SHARE * n
        if self.n_groups > 2:
            return r * _MANY_FULL_SQUARE > n * n or r > FULL_SHARE * n
        return n <= _PAIR_FULL_TO or r > n * (_PAIR_SHARE if n <= _PAIR_SHARE_TO else FULL_SHARE)

    def leading(
        self, weights: FloatArray, r: int, start: Any = None, rough: bool = False
    ) -> EigenPairs:
        """Return the `r` leading eigenpairs of the weighted sum, where the matrices are."""
        self.n_eigen += 1
        matrix, n = self.combine(weights), self.n_features
        if not self._there:
            if self._patience and prefers_krylov(n, r):
                found = by_krylov(matrix, r, start, rough=rough)
                if found is not None:
                    return found
                self._patience -= 1
            return by_lapack(matrix, r)
        known = self._block
        if start is not None:
            known = placed(start, matrix)
            if self._block is not None:
                known = joined([known, self._block[:, known.shape[1] :]], axis=1)
        block = filtered_pairs(matrix, r, known, rough)
        found = full_pairs(matrix) if block is None else EigenPairs(*block)
        self._block = found.columns[:, : 2 * r]
        return found.head(r)

    def full(self, weights: FloatArray) -> EigenPairs:
        """Return all eigenpairs of the weighted sum, where the matrices are."""
        self.n_eigen += 1
        return full_pairs(self.combine(weights))

    def sum_bound(self, weights: FloatArray, r: int, near: EigenPairs) -> tuple[float, float]:
        """Return a proven upper bound on the sum of the r largest eigenvalues.

        As in `Oracle`, but whatever `near` claims is checked against the matrix, and decomposed
        anew, in full, where it cannot be proven.
        """
        matrix = self.combine(weights)
        found = sum_bound(matrix, near, r)
        if found is None:
            self.n_eigen += 1
            found = sum_bound(matrix, full_pairs(matrix), r)
        return (np.inf, 0.0) if found is None else (found.bound, found.slack)

    def own_pairs(self, r: int) -> tuple[EigenPairs, ...]:
        """Return at least `r` leading eigenpairs of every matrix by itself.

        Losses are measured from their sums, so one that is too small would hide a loss. Sums of
        some pairs are proven; of all pairs none can be missing.
        """
        width = min(r + _SPARE, self.n_features)
        if not self.in_full(r):
            return tuple(self._own(row, r, width) for row in np.eye(self.n_groups))
        self.n_eigen += self.n_groups
        k, n = self.n_groups, self.n_features
        if not self._there and k * n**3 <= _ALONE:
            values, vectors = np.linalg.eigh(self._matrices)
            vectors = np.ascontiguousarray(vectors[:, :, ::-1][:, :, :width])
            return tuple(map(EigenPairs, values[:, ::-1][:, :width], vectors))
        tasks = [functools.partial(full_pairs, self._matrices[i, :, :]) for i in range(k)]
        threads = 1 if self._there else available_threads()
        return tuple(pairs.head(width) for pairs in in_threads(tasks, threads))

    def _own(self, alone: FloatArray, r: int, width: int) -> EigenPairs:
        """Return leading eigenpairs of one matrix with a sum that is proven."""
        pairs = self.leading(alone, width)
        matrix = self.combine(alone)
        proven = sum_bound(matrix, pairs, r)
        if proven is None or proven.bound - pairs.values[:r].sum() > _PROVEN * self.resolution:
            self.n_eigen += 1
            pairs = full_pairs(matrix).head(width)
        return pairs


def derivatives(
    difference: Any, columns: Any, values: FloatArray, r: int
) -> tuple[float, float, float, float, tuple[Any, Any]]:
    """Return how the sum of the r largest eigenvalues of A + t E changes with t, at t = 0.

    Parameters
    ----------
    difference : array of shape (n, n)
        E, where the eigenvectors are.
    columns, values
        All eigenpairs of A, largest first.
    r : int

    Returns
    -------
    first, second, third : float
        Derivatives. The third is zero where eigenvalues are nearly tied.
    turning : float
        How far a unit of t turns the leading eigenvectors: the largest tangent, to first order.
    turn : pair of arrays of shape (n - r, r)
        What t adds of the other eigenvectors to each leading one: t times the first, t^2 times
        the second.
    """
    xp, leading, others = library_of(columns), columns[:, :r], columns[:, r:]
    image = difference @ leading
    coupling, known = others.T @ image, placed(values, image)
    # A vanishing gap means a kink: the huge second derivative makes a search stand still there.
    gaps = known[:r] - known[r:, None] + 1e-300
    rotation = coupling / gaps
    first = float(xp.sum(leading * image))
    second = 2 * float(xp.sum(coupling * rotation))
    turning, third, bend = float(xp.max(abs(rotation))) if r < len(values) else 0.0, 0.0, rotation
    if turning < _FASTEST:
        # The others' part of E is used once, so it is not formed.
        change = others.T @ (difference @ (others @ rotation)) - rotation @ (leading.T @ image)
        third, bend = 6 * float(xp.sum(rotation * change)), change / gaps
    return first, second, third, min(turning, _FASTEST), (rotation, bend)


class ProjectedBasis:
    """An orthonormal basis Q that is widened, and ``Q.T @ S_i @ Q`` for every group.

    `basis` has shape (n, q), `compressed` has shape (k, q, q).

    Parameters
    ----------
    oracle : Oracle
    here : bool
        Whether both are NumPy's; otherwise they live where the matrices are.
    """

    def __init__(self, oracle: Oracle, *, here: bool = True) -> None:
        self.oracle, self._here = oracle, here
        self.basis: Any = np.empty((oracle.n_features, 0))
        self.compressed: Any = np.empty((oracle.n_groups, 0, 0))
        self._halves: Any = None

    @property
    def width(self) -> int:
        """Dimension of the span."""
        return int(self.basis.shape[1])

    def widen(self, columns: Any) -> bool:
        """Add the span of unit columns; return whether it added a direction."""
        columns = fetched(columns) if self._here else columns
        wider = expand(placed(self.basis, columns), columns)
        fresh = wider[:, self.width :]
        if not fresh.shape[1]:
            return False
        half = self.oracle.halves(fresh)
        corner = symmetric(self.oracle.compressed(half, half))
        if self._halves is None:
            self.compressed, self._halves = corner, half
        else:
            side = self.oracle.compressed(self._halves, half)
            above = joined([placed(self.compressed, side), side], axis=2)
            self.compressed = joined([above, joined([side.mT, corner], axis=2)], axis=1)
            self._halves = joined([self._halves, half], axis=1)
        if self._here:
            self.compressed = fetched(self.compressed)
        self.basis = wider
        return True

    def lifted(self, coordinates: Any) -> Any:
        """Return ``basis @ coordinates``, where the basis lives."""
        return dot(self.basis, placed(coordinates, self.basis))

    def coordinates(self, columns: Any) -> Any:
        """Return ``basis.T @ columns``, where the basis lives."""
        return dot(self.basis.T, placed(columns, self.basis))

    def ritz(self, weights: FloatArray, r: int) -> EigenPairs:
        """Return up to `r` leading Ritz pairs of a weighted sum, without a product."""
        mixed = np.tensordot(weights, fetched(self.compressed), axes=1)
        pairs = full_pairs(mixed).head(r)
        return EigenPairs(pairs.values, fetched(self.lifted(pairs.vectors)))
