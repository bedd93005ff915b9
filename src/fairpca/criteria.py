"""The criteria: which number per group is made as small as possible for the worst group.

Every criterion is ``f_i(U) = c_i - Tr(U.T S_i U)`` for an offset c_i, after an optional division
of S_i by its trace. To add one, add a record to `CRITERIA`; everything else reads it from there.

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
from dataclasses import dataclass

import numpy as np

from fairpca._checks import check_choice
from fairpca._linalg import FloatArray
from fairpca.covariances.dense import DenseOracle
from fairpca.covariances.eigenpairs import EigenPairs
from fairpca.covariances.oracle import Oracle
from fairpca.solvers.problem import Problem


@dataclass(frozen=True)
class Criterion:
    """What is minimised for the worst group.

    Attributes
    ----------
    offsets : callable
        Maps two arrays of shape (k,) to the offsets c_i: the sums of each group's r largest
        eigenvalues (zeros unless `against_own_pca`) and the traces.
    against_own_pca : bool
        Whether the offsets need those eigenvalues.
    as_share : bool
        Whether every S_i is divided by its trace first.
    meaning : str
        What f_i is, where the name does not say so.
    """

    offsets: Callable[[FloatArray, FloatArray], FloatArray]
    against_own_pca: bool = False
    as_share: bool = False
    meaning: str = ""

    def scales(self, traces: FloatArray) -> FloatArray:
        """Return the factor each S_i is multiplied by.

        A group without variance loses nothing by any projection; its factor stays one. So it does
        below the smallest normal number, which has no reciprocal.
        """
        if not self.as_share:
            return np.ones_like(traces)
        some = traces >= np.finfo(float).tiny
        return np.divide(1.0, traces, out=np.ones_like(traces), where=some)

    def unit(self, traces: FloatArray) -> float:
        """Return the factor that brings very large or very small matrices into the middle range.

        Solvers square eigenvalues and take products of them; past 1e150 that is infinity, below
        1e-150 it is nothing. A power of two changes no digit, and ordinary data get one.
        """
        largest = float(np.max(np.abs(traces), initial=0.0))
        if self.as_share or largest == 0 or 1e-60 < largest < 1e60:
            return 1.0
        # Clipped, because 2**1074, the reciprocal of the smallest number, is infinity.
        return float(2.0 ** -np.clip(np.frexp(largest)[1], -1000, 1000))


def unit_for(matrices: FloatArray, criterion: str) -> float:
    """Return `Criterion.unit` of any symmetric matrices, shape (k, n, n).

    ValueError where the criterion divides by traces, and one of them is not positive.
    """
    found, traces = find_criterion(criterion), np.trace(matrices, axis1=1, axis2=2)
    # Only a matrix of zeros has nothing to be divided.
    wrong = (traces <= 0) & np.any(matrices, axis=(1, 2))
    if found.as_share and wrong.any():
        raise ValueError(
            f"criterion={criterion!r} divides by traces, and one of them is {traces.min():.3g}; "
            "choose 'loss', 'error' or 'variance'."
        )
    # Where eigenvalues have both signs, the trace may be far smaller than the entries.
    return found.unit(np.append(traces, np.abs(matrices).max(initial=0.0)))


def _own_sums(own: FloatArray, traces: FloatArray) -> FloatArray:
    return own


def _traces(own: FloatArray, traces: FloatArray) -> FloatArray:
    return np.array(traces, dtype=float)


def _nothing(own: FloatArray, traces: FloatArray) -> FloatArray:
    return np.zeros(len(traces))


#: Every criterion by its name.
CRITERIA: dict[str, Criterion] = {
    "loss": Criterion(_own_sums, against_own_pca=True),
    "error": Criterion(_traces),
    "variance": Criterion(_nothing, meaning="minus the variance kept"),
    "relative": Criterion(
        _own_sums, True, True, meaning="the loss as a share of the group's variance"
    ),
    "share": Criterion(_traces, as_share=True, meaning="one minus the share of variance kept"),
}


def find_criterion(name: str) -> Criterion:
    """Return the criterion of that name, or raise ValueError with the names there are."""
    check_choice("criterion", name, tuple(CRITERIA))
    return CRITERIA[name]


def pose(
    covariances: FloatArray, n_components: int, criterion: str = "loss", *, method: str = "auto"
) -> Problem:
    """Return the problem of a criterion for explicit group covariances, shape (k, n, n).

    The method, "auto", "dense" or "krylov", is how leading eigenpairs are computed.
    """
    chosen = find_criterion(criterion)
    traces = np.trace(covariances, axis1=1, axis2=2)
    scales = chosen.scales(traces)
    if np.any(scales != 1):
        covariances = covariances * scales[:, None, None]
    # Positive and negative eigenvalues may cancel in a trace. Without negative ones the trace is
    # the larger number.
    norms = np.sqrt(np.einsum("kij,kij->k", covariances, covariances))
    largest = float(np.maximum(np.abs(traces * scales), norms).max())
    oracle = DenseOracle(covariances, method, scale=largest)
    return pose_on(oracle, traces * scales, n_components, chosen)


def pose_on(
    oracle: Oracle,
    traces: FloatArray,
    n_components: int,
    criterion: Criterion,
    own: tuple[EigenPairs, ...] | None = None,
) -> Problem:
    """Return the problem of a criterion for matrices already scaled and known by an oracle.

    The traces are those of the scaled matrices. `own` are each group's own leading pairs where
    somebody has them; otherwise they are computed if they are needed.
    """
    if not criterion.against_own_pca:
        return Problem(oracle, criterion.offsets(np.zeros_like(traces), traces), n_components)
    own = own or oracle.own_pairs(n_components)
    sums = np.array([pairs.values[:n_components].sum() for pairs in own])
    return Problem(oracle, criterion.offsets(sums, traces), n_components, own)
