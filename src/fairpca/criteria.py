"""The five criteria: which number per group is made as small as possible for the worst group.

Every criterion is ``f_i(U) = c_i - Tr(U.T S_i U)`` for an offset c_i, after an optional division
of S_i by its trace.

==========  =====================================  ==============================================
criterion   c_i                                    f_i is
==========  =====================================  ==============================================
loss        sum of the r largest eigenvalues       what the group loses against its own PCA
error       Tr S_i                                 the group's mean squared reconstruction error
variance    0                                      minus the variance kept
relative    as loss, all divided by Tr S_i         the loss as a share of the group's variance
share       as error, all divided by Tr S_i        one minus the share of variance kept
==========  =====================================  ==============================================
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from fairpca.arrays import FloatArray
from fairpca.checks import check_choice
from fairpca.solve.eigen import DenseOracle
from fairpca.solve.oracle import Oracle
from fairpca.solve.problem import Problem, own_pairs

CRITERIA = ("loss", "error", "variance", "relative", "share")


def check_criterion(criterion: str) -> None:
    """Raise ValueError unless `criterion` is one of the five."""
    check_choice("criterion", criterion, CRITERIA)


def group_scales(traces: FloatArray, criterion: str) -> FloatArray:
    """Return the factor each S_i is multiplied by; one, unless the criterion is a share.

    A group without variance loses nothing by any projection; its factor stays one.
    """
    if criterion not in ("relative", "share"):
        return np.ones_like(traces)
    return np.divide(1.0, traces, out=np.ones_like(traces), where=traces > 0)


def common_unit(traces: FloatArray, criterion: str) -> float:
    """Return the factor that brings very large or very small matrices into the middle range.

    Solvers square eigenvalues and take products of them; past 1e150 that is infinity, below
    1e-150 it is nothing. A power of two changes no digit, and ordinary data get one: themselves.
    """
    largest = float(np.max(np.abs(traces), initial=0.0))
    if criterion in ("relative", "share") or largest == 0 or 1e-60 < largest < 1e60:
        return 1.0
    # Clipped, because 2**1074, the reciprocal of the smallest number, is infinity.
    return float(2.0 ** -np.clip(np.frexp(largest)[1], -1000, 1000))


def pose(
    covariances: FloatArray,
    n_components: int,
    criterion: str = "loss",
    *,
    method: str = "auto",
    make_oracle: Callable[[FloatArray, str], Oracle] = DenseOracle,
) -> Problem:
    """Return the problem of `criterion` for explicit group covariances.

    Parameters
    ----------
    covariances : ndarray of shape (k, n, n)
    n_components : int
    criterion : str
    method : {"auto", "dense", "krylov"}
        How leading eigenpairs are computed.
    make_oracle : callable
        Builds the oracle from the (scaled) covariances.
    """
    check_criterion(criterion)
    traces = np.trace(covariances, axis1=1, axis2=2)
    scales = group_scales(traces, criterion)
    if np.any(scales != 1):
        covariances = covariances * scales[:, None, None]
    return pose_on(make_oracle(covariances, method), traces * scales, n_components, criterion)


def pose_on(oracle: Oracle, traces: FloatArray, n_components: int, criterion: str) -> Problem:
    """Return the problem of `criterion` for matrices already scaled and known by an oracle."""
    if criterion not in ("loss", "relative"):
        return Problem(oracle, rank_offsets(criterion, traces), n_components)
    own = own_pairs(oracle, n_components)
    sums = np.array([pairs.values.sum() for pairs in own])
    return Problem(oracle, sums, n_components, own)


def rank_offsets(criterion: str, traces: FloatArray) -> FloatArray:
    """Return the offsets of a criterion that needs no eigenvalues: the same for every rank."""
    if criterion == "variance":
        return np.zeros(len(traces))
    return np.array(traces, dtype=float)
