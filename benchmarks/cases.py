"""The data of the benchmarks: real tables where the data directory has them, else the shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fairpca import datasets


@dataclass(frozen=True)
class Case:
    """Rows, labels, a number of components, the ratio to reach, and the PCA to compare with."""

    name: str
    X: Any
    groups: Any
    r: int
    must: float
    solver: str = "auto"


def _paper(fetch: Any) -> tuple[Any, Any]:
    bunch = fetch(variant="paper")
    # Codes, as a table has them that is ready for PCA: strings cost a few milliseconds more.
    codes = np.unique(np.asarray(bunch.sensitive_features), return_inverse=True)[1]
    return np.asarray(bunch.data, dtype=float), codes


def bank() -> tuple[Any, Any]:
    return _paper(datasets.fetch_bank_marketing)


def credit() -> tuple[Any, Any]:
    return _paper(datasets.fetch_credit_default)


def faces() -> tuple[Any, Any]:
    return _paper(datasets.fetch_lfw_faces)


def crop_shape(seed: int = 0) -> tuple[Any, Any]:
    """325,834 x 173 rows with a decaying spectrum and the published group sizes."""
    rng = np.random.default_rng(seed)
    m, n, small = 325_834, 173, 39_162
    spectrum = np.exp(-np.arange(n) / 25) + 1e-3
    mixing = np.linalg.qr(rng.normal(size=(n, n)))[0] * np.sqrt(spectrum)
    X = rng.normal(size=(m, n)) @ mixing.T
    groups = np.zeros(m, dtype=np.int64)
    groups[rng.choice(m, size=small, replace=False)] = 1
    X[groups == 1] *= 1 + 0.5 * rng.random(n)
    return X, groups


SPECTRA = ("exponential", "power", "flat", "few directions")


def rows_like(
    m: int, n: int, k: int, spectrum: str = "exponential", seed: int = 0
) -> tuple[Any, Any]:
    """Rows with one of `SPECTRA`, which differs between k groups."""
    rng = np.random.default_rng(seed)
    scale = {
        "exponential": np.exp(-np.arange(n) / (n / 6)),
        "power": 1 / np.arange(1, n + 1) ** 0.75,
        "flat": 1 + 0.5 * rng.random(n),
        "few directions": np.exp(-np.arange(n) / 8) + 1e-3,
    }[spectrum]
    X = rng.normal(size=(m, n))
    X *= scale
    groups = rng.integers(0, k, size=m)
    factors = 1 + 0.5 * rng.random((k, n))
    # A part at a time: the rows may be half the memory.
    for start in range(0, m, 10_000):
        X[start : start + 10_000] *= factors[groups[start : start + 10_000]]
    return X, groups


def few_rows() -> tuple[Any, Any]:
    """700 x 765 rows in ten groups."""
    return rows_like(700, 765, 10, "power")


def cases(quick: bool = False) -> list[Any]:
    """Return functions that make the cases, so that one set of rows is in memory at a time."""

    def tables(name: str, load: Any, ranks: Any, musts: Any, solver: str = "auto") -> Any:
        def make() -> list[Case]:
            X, groups = load()
            pairs = zip(ranks, musts, strict=True)
            return [Case(f"{name} r={r}", X, groups, r, must, solver) for r, must in pairs]

        return make

    small = [
        tables("bank", bank, (2, 4, 8), (1.1,) * 3),
        tables("credit", credit, (5, 10, 15), (1.3,) * 3),
        tables("10,000 x 120", lambda: rows_like(10_000, 120, 2), (10,), (1.7,)),
    ]
    if quick:
        return small
    return [
        *small,
        tables("20,000 x 800", lambda: rows_like(20_000, 800, 2), (20,), (1.5,)),
        tables("1,000,000 x 50, 8 groups", lambda: rows_like(1_000_000, 50, 8), (5,), (1.1,)),
        tables("crop shape", crop_shape, (30, 120), (1.0,) * 2),
        tables("faces", faces, (50, 200), (1.0,) * 2),
        tables(
            "700 x 765, 10 groups, PCA covariance_eigh",
            few_rows,
            (10, 30, 50),
            (1.6, 2.5, 3.6),
            "covariance_eigh",
        ),
    ]
