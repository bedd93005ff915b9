"""Samadi et al. 2018: fair PCA by the relaxation 0 <= P <= I, Tr P = r of the projector.

The relaxed optimum is the dual optimum, so both solvers return a projector and weights whose phi
bounds every basis. The authors run multiplicative weights; column generation is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.optimize
import scipy.special

from fairpca._arrays import FloatArray, symmetric
from fairpca.covariances.dense import full_pairs
from fairpca.covariances.oracle import EigenPairs
from fairpca.methods._base import POSITIVE, Found, MinMaxMethod, certified, choice, number
from fairpca.solvers.problem import Problem

# Most linear programs of "columns"; `max_iter` counts the authors' ten steps, far too few for it.
_PROGRAMS = 500
# Feasibility tolerance asked of the linear program, the smallest that HiGHS accepts (its default,
# 1e-7, would be the accuracy of the bound), and what the program then achieves, in units of the
# largest variance. Waiting for more stalls: the same columns come back.
_LP_TOLERANCE, _LP_ACCURACY = 1e-10, 1e-9
# Eigenvalues above this count for `rank_`: interior-point solvers leave small ones at zeros.
_RANK_TOL = 1e-6


@dataclass(frozen=True)
class Relaxation:
    """A point of the relaxation, and weights that prove a bound.

    `projector` is symmetric with eigenvalues in [0, 1] and trace r, `weights` the point of the
    simplex with the best phi seen, `n_iter` in the solver's own unit.
    """

    projector: FloatArray
    weights: FloatArray
    n_iter: int
    stop_reason: str


def relaxed_losses(problem: Problem, projector: FloatArray) -> FloatArray:
    """Return ``c_i - <S_i, P>`` for every group."""
    kept = np.einsum("kij,ij->k", problem.oracle.matrices, projector)
    return np.asarray(problem.offsets - kept)


def multiplicative_weights(problem: Problem, *, eta: float, max_iter: int) -> Relaxation:
    """Run the authors' loop; return the better of the average and the last projector."""
    k, r = problem.oracle.n_groups, problem.n_components
    log_weights = np.zeros(k)
    average = np.zeros((problem.oracle.n_features,) * 2)
    bound, best_weights = -np.inf, np.full(k, 1 / k)
    for _ in range(max_iter):
        # The softmax subtracts the largest exponent: exp(eta z) itself overflows.
        weights = scipy.special.softmax(log_weights)
        pairs = problem.oracle.leading(weights, r)
        basis = pairs.vectors[:, :r]
        last = basis @ basis.T
        average += last / max_iter
        losses = problem.losses(basis)
        value = problem.phi(weights, pairs)
        if value > bound:
            bound, best_weights = value, weights
        log_weights = log_weights + eta * losses
    better = average if relaxed_losses(problem, average).max() < losses.max() else last
    return Relaxation(symmetric(better), best_weights, max_iter, "all iterations done")


def column_generation(problem: Problem, *, tol: float = 1e-9, max_iter: int = 500) -> Relaxation:
    """Solve the relaxation by linear programs over the projectors of weighted PCAs.

    The program's dual weights pose the next weighted PCA, whose value is a lower bound. A second
    PCA half way to the best weights so far keeps the weights from jumping between corners, where
    three or more groups would otherwise need hundreds of programs. `tol` is a relative gap.
    """
    k, r, scale = problem.oracle.n_groups, problem.n_components, problem.oracle.scale
    bases: list[FloatArray] = []
    losses: list[FloatArray] = []
    best, bound = np.empty(0), -np.inf

    def price(weights: FloatArray) -> None:
        """Add the best basis for these weights; keep them if their phi is the largest."""
        nonlocal best, bound
        pairs = problem.oracle.leading(weights, r)
        bases.append(pairs.vectors[:, :r])
        losses.append(problem.losses(bases[-1]))
        value = problem.phi(weights, pairs)
        if value > bound:
            best, bound = weights, value

    for row in (*np.eye(k), np.full(k, 1 / k)):
        price(row)
    reason, steps = "max_iter reached", 0
    while steps < max_iter:
        steps += 1
        value, shares, weights = least_worst(np.array(losses).T, total=1, unit=scale)
        if problem.certificate(bound, value).gap <= tol:
            reason = "gap closed"
            break
        before = bound
        price(weights)
        if k > 2:
            price(0.5 * (weights + best))
        if value - bound <= _LP_ACCURACY * scale and bound <= before:
            reason = "linear program at its accuracy"
            break
    # Columns priced in the last round have no share yet.
    _, shares, _ = least_worst(np.array(losses).T, total=1, unit=scale)
    # Columns times the root of their share, so that one product forms the sum of projectors.
    columns = np.hstack(bases) * np.sqrt(np.repeat(shares / shares.sum(), r))
    return Relaxation(symmetric(columns @ columns.T), best, steps, reason)


def least_worst(
    losses: FloatArray, *, total: int, unit: float
) -> tuple[float, FloatArray, FloatArray]:
    """Mix (k, j) columns of losses so that the worst group's sum is least.

    Each share is between zero and one, and their sum is `total`.
    `unit` is the magnitude of the losses: the tolerances of the program are absolute. Returns the
    worst sum, the shares, of which at most k are neither zero nor one, and the dual weights of the
    groups.
    """
    k, j = losses.shape
    names = ("primal_feasibility_tolerance", "dual_feasibility_tolerance")
    options: Any = dict.fromkeys(names, _LP_TOLERANCE)
    found = scipy.optimize.linprog(
        np.append(np.zeros(j), 1.0),
        A_ub=np.hstack([losses / (unit or 1.0), -np.ones((k, 1))]),
        b_ub=np.zeros(k),
        A_eq=np.append(np.ones(j), 0.0)[None],
        b_eq=[float(total)],
        bounds=[(0, 1)] * j + [(None, None)],
        # The dual simplex ends in a vertex; an interior point would keep every column.
        method="highs-ds",
        options=options,
    )
    if found.x is None:  # pragma: no cover - the program is feasible and bounded
        raise RuntimeError(f"the program over columns of losses failed: {found.message}")
    # Within its tolerance the program returns negative numbers, whose roots do not exist.
    shares = np.clip(found.x[:j], 0.0, 1.0)
    weights = np.maximum(-np.asarray(found.ineqlin.marginals), 0.0)
    return float((losses @ shares).max()), shares, weights / weights.sum()


def spectrum(projector: FloatArray) -> EigenPairs:
    """Return the eigenpairs of a relaxed projector, eigenvalues clipped to [0, 1]."""
    pairs = full_pairs(symmetric(projector))
    return EigenPairs(np.clip(pairs.values, 0.0, 1.0), pairs.vectors)


def from_spectrum(vectors: FloatArray, values: FloatArray) -> FloatArray:
    """Return the symmetric matrix with these eigenvectors (columns) and eigenvalues."""
    return symmetric((vectors * values) @ vectors.T)


def rounded(problem: Problem, relaxed: Relaxation, projector: FloatArray, **own: Any) -> Found:
    """Return the leading eigenvectors of `relaxed`, moved to `projector`, and what was relaxed."""
    own |= {
        "projector_": projector,
        "relaxed_losses_": relaxed_losses(problem, projector),
        "rank_": int(np.linalg.matrix_rank(projector, _RANK_TOL, hermitian=True)),
    }
    basis, steps = spectrum(projector).vectors[:, : problem.n_components], relaxed.n_iter
    return certified(problem, basis, relaxed.weights, steps, relaxed.stop_reason, **own)


class SDRFairPCA(MinMaxMethod):
    """Fair PCA by relaxing the projector.

    S. Samadi, U. Tantipongpipat, J. Morgenstern, M. Singh, S. Vempala. The Price of Fair PCA: One
    Extra Dimension. Advances in Neural Information Processing Systems 31, 2018.

    Minimises the largest group loss over matrices ``0 <= P <= I``, ``Tr P = r`` instead of
    projectors. ``solver="mw"`` is the loop of the authors' code, ten multiplicative-weights
    steps of which the better of the average and the last projector is kept. "columns" solves the
    relaxation and then chooses its eigenvalues by a linear program, as in the paper, which leaves
    a rank of at most r + k - 1.

    Parameters
    ----------
    n_components, center
        As in all of `fairpca.methods`; the paper has "group".
    solver : {"mw", "columns"}, default="mw"
        "columns" solves the relaxation by column generation, to `tol`.
    eta : float, default=1.0
        Learning rate of "mw", which multiplies losses in squared units of X.
    max_iter, tol : int, float, default=10, 1e-9
        Steps of "mw" (the authors use 10 on credit data and 5 on faces), gap of "columns".

    Attributes
    ----------
    projector_ : ndarray of shape (n_features_in_, n_features_in_)
        The relaxed P. `components_` are its r leading eigenvectors.
    square_root_map_ : ndarray of shape (n_features_in_, n_features_in_)
        ``I - (I - P)^(1/2)``. Applied to rows it realises the relaxed losses exactly; P itself,
        which is not idempotent, would report an error that is too small.
    relaxed_losses_, rank_ : ndarray of shape (k,), int
        Losses of P, at most those of any projection of rank r for the exact solvers, and its
        eigenvalues above 1e-6, often more than r.

    Examples
    --------
    >>> from fairpca import datasets, methods
    >>> known = datasets.make_illustration(random_state=0)
    >>> model = methods.SDRFairPCA(1, solver="columns")
    >>> model = model.fit(known.data, sensitive_features=known.sensitive_features)
    >>> model.rank_, bool(abs(model.relaxed_losses_.max() - known.optimum) < 1e-6)
    (1, True)
    """

    solver: str = choice("mw", "columns")
    eta: float = number(1.0, POSITIVE)
    max_iter: int = 10
    tol: float = 1e-9

    def _solve(self, problem: Problem) -> Found:
        if self.solver == "mw":
            relaxed = multiplicative_weights(problem, eta=self.eta, max_iter=self.max_iter)
        else:
            relaxed = column_generation(problem, tol=self.tol, max_iter=_PROGRAMS)
        projector = relaxed.projector
        pairs = spectrum(projector)
        # The authors' code returns the projector of its loop as it is.
        if self.solver != "mw":
            # The eigenvectors stay. The eigenvalues add up to r, so the offsets can be spread
            # over them; at most k - 1 beyond r stay positive at a vertex.
            images = problem.oracle.matrices @ pairs.vectors
            gains = np.einsum("nj,knj->kj", pairs.vectors, images)
            r, scale = problem.n_components, problem.oracle.scale
            losses = problem.offsets[:, None] / r - gains
            pairs = EigenPairs(least_worst(losses, total=r, unit=scale)[1], pairs.vectors)
            projector = from_spectrum(pairs.vectors, pairs.values)
        root_map = from_spectrum(pairs.vectors, 1 - np.sqrt(1 - pairs.values))
        return rounded(problem, relaxed, projector, square_root_map_=root_map)
