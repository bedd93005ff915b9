"""What a user would run instead, on the same rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse
from sklearn.decomposition import PCA

from fairpca import FairPCA, GroupMoments


def contestants(X: Any, groups: Any, r: int) -> dict[str, Callable[[], Any]]:
    """Return FairPCA and the ordinary PCAs that apply to these rows."""
    runs: dict[str, Callable[[], Any]] = {
        "FairPCA": lambda: FairPCA(r).fit(X, sensitive_features=groups)
    }
    if scipy.sparse.issparse(X):
        runs["PCA(arpack)"] = lambda: PCA(r, svd_solver="arpack", random_state=0).fit(X)
        return runs
    runs["PCA"] = lambda: PCA(r, random_state=0).fit(X)
    if X.shape[0] > X.shape[1]:
        runs["PCA(covariance_eigh)"] = lambda: PCA(r, svd_solver="covariance_eigh").fit(X)
    if X.shape[1] <= 2000 and X.shape[0] * X.shape[1] < 5e7:
        runs["PCA(arpack)"] = lambda: PCA(r, svd_solver="arpack", random_state=0).fit(X)
    return runs


def fair_peers(X: Any, groups: Any, r: int) -> dict[str, Callable[[], Any]]:
    """Return the published fair solvers on the moments of the same rows.

    All start from moments, so that the comparison is of solvers and not of reading rows.
    """
    moments = GroupMoments.from_array(X, groups)
    runs: dict[str, Callable[[], Any]] = {
        "FairPCA": lambda: FairPCA(r).fit_moments(moments),
        "SDR, 10 steps": lambda: multiplicative_weights(moments.covariances, r, steps=10),
        "Mirror-Prox, 500 steps": lambda: mirror_prox(moments.covariances, r, steps=500),
    }
    if len(moments.labels) == 2:
        runs["solver='paper'"] = lambda: FairPCA(r, solver="paper", tol=1e-8).fit_moments(moments)
    return runs


def multiplicative_weights(covariances: Any, r: int, *, steps: int, eta: float = 1.0) -> Any:
    """Samadi et al. 2018: reweight groups by their loss, average the projectors."""
    best = np.linalg.eigvalsh(covariances)[:, ::-1][:, :r].sum(axis=1)
    weights = np.full(len(covariances), 1 / len(covariances))
    average = np.zeros(covariances.shape[1:])
    for _ in range(steps):
        basis = np.linalg.eigh(np.tensordot(weights, covariances, 1))[1][:, -r:]
        loss = best - np.einsum("nr,knm,mr->k", basis, covariances, basis, optimize=True)
        average += basis @ basis.T / steps
        weights = weights * np.exp(eta * (loss - loss.max()))
        weights /= weights.sum()
    return average, weights


def mirror_prox(covariances: Any, r: int, *, steps: int, eta_init: float = 100.0) -> Any:
    """Wang, Liu, Lei, Bach and Guo 2026 (StablePCA), the "fair" form, as in their release."""
    k, n = len(covariances), covariances.shape[1]
    own = np.linalg.eigvalsh(covariances)[:, ::-1][:, :r].sum(axis=1)
    R = covariances - (own / r)[:, None, None] * np.eye(n)
    R = R / np.abs(np.linalg.eigvalsh(R)).max()
    M, w = np.eye(n) * r / n, np.full(k, 1 / k)
    eta = eta_init / 4 * np.sqrt(np.log(k) / (r * np.log(n / r)))
    eta_m, eta_w = eta / np.log(k), eta / (r * np.log(n / r))
    mean_M, mean_w = np.zeros_like(M), np.zeros_like(w)

    def step(M: Any, w: Any, M_at: Any, w_at: Any) -> Any:
        fresh = w * np.exp(-eta_w * np.einsum("knm,nm->k", R, M_at))
        values, vectors = np.linalg.eigh(M)
        log_M = (vectors * np.log(np.maximum(values, 1e-8))) @ vectors.T
        a, Q = np.linalg.eigh(log_M + eta_m * np.tensordot(w_at, R, 1))
        low, high = -a.max() - 50.0, -a.min() + 50.0
        for _ in range(60):
            shift = 0.5 * (low + high)
            grown = np.minimum(np.exp(np.minimum(a + shift, 0.0)), 1.0).sum() < r
            low, high = (shift, high) if grown else (low, shift)
        return (Q * np.exp(np.minimum(a + low, 0.0))) @ Q.T, fresh / fresh.sum()

    for _ in range(steps):
        M_half, w_half = step(M, w, M, w)
        M, w = step(M, w, M_half, w_half)
        mean_M += M_half / steps
        mean_w += w_half / steps
    return np.linalg.eigh(mean_M)[1][:, -r:], mean_w
