"""Error and loss over the rank, for PCA, for Fair PCA, and for the published methods."""

from __future__ import annotations

from typing import Any

import numpy as np

import fairpca
from experiments.baselines import sdr_on_gram, smallest
from experiments.tables import FloatArray, PaperTable
from fairpca.methods import EigOpt


class Curves:
    """Everything about one table that depends on the rank; the spectra are computed once."""

    def __init__(self, table: PaperTable) -> None:
        self.table = table
        self._spectra: tuple[FloatArray, ...] | None = None

    def spectra(self) -> tuple[FloatArray, ...]:
        """Error of PCA for every rank, the groups' own variance, and what PCA keeps of it."""
        if self._spectra is None:
            covariances = self.table.moments.covariances
            values, vectors = np.linalg.eigh(self.table.gram)
            values, vectors = values[::-1], vectors[:, ::-1]
            own = np.cumsum(np.linalg.eigvalsh(covariances)[:, ::-1], axis=1)
            kept = np.cumsum(np.einsum("nr,knr->kr", vectors, covariances @ vectors), axis=1)
            self._spectra = (values.sum() - np.cumsum(values), own, kept)
        return self._spectra

    def at(self, r: int) -> dict[str, Any]:
        """Errors and losses of PCA and of ours at one rank."""
        covariances, gram = self.table.moments.covariances, self.table.gram
        errors, own, kept = self.spectra()
        ours = fairpca.solve(covariances, r, tol=1e-13)
        basis = ours.components
        err_fair = float(np.trace(gram) - np.sum((basis @ gram) * basis))
        err_pca = float(errors[r - 1])
        return {
            "r": r,
            "t_star": self._polished(covariances, float(ours.weights[0]), r),
            "phi_star": ours.certificate.lower_bound,
            "loss_A": float(ours.losses[0]),
            "loss_B": float(ours.losses[1]),
            "ratio_ours": ratio_error(ours.losses),
            "rounding": ours.certificate.resolution / float(ours.losses.min()),
            "certified_gap": ours.certificate.gap,
            "decompositions": ours.n_eigen,
            "pca_loss_A": float(own[0, r - 1] - kept[0, r - 1]),
            "pca_loss_B": float(own[1, r - 1] - kept[1, r - 1]),
            "err_pca": err_pca,
            "err_fpca": err_fair,
            "increase_percent": 100 * (err_fair / err_pca - 1),
            "gap_lambda": self._eigengap(covariances, ours.weights, r),
        }

    def ratios(self, r: int) -> dict[str, Any]:
        """How far from equal the losses of the published methods are at one rank."""
        covariances = self.table.moments.covariances
        printed, tight = (
            EigOpt(r, tol=tol).fit_moments(self.table.moments) for tol in (1e-4, 1e-8)
        )
        sdr = sdr_on_gram(covariances, r)
        return {
            "r": r,
            "ratio_eigopt": ratio_error(tight.group_values_),
            "ratio_printed": ratio_error(printed.group_values_),
            "decompositions_eigopt": tight.n_iter_,
            "decompositions_printed": printed.n_iter_,
            "ratio_sdr": ratio_error(sdr.losses),
            "worst_loss_sdr": float(sdr.losses.max()),
            "rank_sdr": sdr.rank,
        }

    @staticmethod
    def _polished(covariances: FloatArray, t: float, r: int) -> float:
        """Place t itself to all digits.

        The solver stops when value and bound agree; both are flat in t there, so t is known to
        half their digits. One secant step on the loss difference is enough.
        """
        own = np.array([-smallest(-matrix, r, tol=0)[0].sum() for matrix in covariances])

        def difference(at: float) -> float:
            basis = smallest(-(at * covariances[0] + (1 - at) * covariances[1]), r, tol=0)[1]
            losses = own - np.einsum("nr,knr->k", basis, covariances @ basis)
            return float(losses[0] - losses[1])

        step = 1e-5
        first, second = difference(t), difference(t + step)
        return t - first * step / (second - first)

    @staticmethod
    def _eigengap(covariances: FloatArray, weights: FloatArray, r: int) -> float:
        values = np.linalg.eigvalsh(np.tensordot(weights, covariances, axes=1))[::-1]
        return float(values[r - 1] - values[r])


def ratio_error(losses: FloatArray) -> float:
    """The paper's measure of unfairness, ``|loss_A / loss_B - 1|``."""
    return float(abs(losses[0] / losses[1] - 1))
