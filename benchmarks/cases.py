"""The data of the benchmarks: real tables where the data directory has them, else the shape."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse

from fairpca import datasets
from fairpca.moments.groups import Groups


@dataclass(frozen=True)
class Case:
    """Rows, labels, a number of components, and the limits the ratios must keep."""

    name: str
    X: Any
    groups: Any
    r: int
    against_default: float
    against_exact: float | None = None


def _paper(fetch: Any) -> tuple[Any, Any]:
    bunch = fetch(variant="paper")
    return np.asarray(bunch.data, dtype=float), np.asarray(bunch.sensitive_features)


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


def wide(seed: int = 0) -> tuple[Any, Any]:
    """1,000 x 20,000 dense rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(1000, 50)) * np.linspace(3, 0.5, 50) @ rng.normal(size=(50, 20_000))
    X += rng.normal(size=X.shape)
    return X, rng.choice(["a", "b"], size=1000, p=[0.3, 0.7])


def text_like(
    m: int = 200_000, n: int = 50_000, entries: int = 10_000_000, seed: int = 0
) -> tuple[Any, Any]:
    """Sparse rows with power-law columns, about so many entries."""
    rng = np.random.default_rng(seed)
    popularity = 1.0 / np.arange(1, n + 1) ** 0.9
    columns = rng.choice(n, size=entries, p=popularity / popularity.sum())
    rows = rng.integers(0, m, size=entries)
    values = rng.exponential(size=entries) + 0.1
    X = scipy.sparse.csr_array((values, (rows, columns)), shape=(m, n))
    X.sum_duplicates()
    return X, rng.choice(["a", "b"], size=m, p=[0.3, 0.7])


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


def several(name: str, k: int) -> tuple[Any, Any]:
    """Four or eight groups: credit by education (and sex), faces by sex and race, as text."""
    if name == "credit":
        sensitive = "education" if k == 4 else ["sex", "education"]
        bunch = datasets.fetch_credit_default(sensitive=sensitive)
        X = np.asarray(bunch.data, dtype=float)
        return (X - X.mean(axis=0)) / X.std(axis=0), bunch.sensitive_features
    sensitive = ["sex", "white"] if k == 4 else ["sex", "white", "black", "asian"]
    bunch = datasets.fetch_lfw_faces(sensitive=sensitive)
    labels = np.asarray(bunch.sensitive_features).astype(str)
    if k == 8:
        # One race each: the first of white, black, asian that the annotators gave, else other.
        race = np.full(len(labels), "other", dtype="U8")
        for column, text in ((3, "asian"), (2, "black"), (1, "white")):
            race[np.char.startswith(labels[:, column], text)] = text
        labels = np.stack([labels[:, 0], race], axis=1)
    return np.asarray(bunch.data, dtype=float), labels


def framed(X: Any, labels: Any) -> tuple[Any, Any]:
    """Return the same rows as a data frame, which stores them column by column."""
    return pd.DataFrame({f"x{i}": column for i, column in enumerate(X.T)}), labels


def coded(X: Any, labels: Any) -> tuple[Any, Any]:
    """Return the same groups as integers, one column."""
    return X, Groups.from_labels(labels).codes


def fixed(X: Any, labels: Any) -> tuple[Any, Any]:
    """Return the same groups as text of a fixed width, four bytes a letter."""
    return X, labels.astype(str)


def cases(quick: bool = False) -> list[Any]:
    """Return functions that make the cases, so that one set of rows is in memory at a time."""

    def tables(name: str, load: Any, ranks: Any, default: Any, exact: Any) -> Any:
        def make() -> list[Case]:
            X, groups = load()
            return [
                Case(f"{name} r={r}", X, groups, r, d, e)
                for r, d, e in zip(ranks, default, exact, strict=True)
            ]

        return make

    small = [
        tables("bank", bank, (2, 4, 8), (1.5,) * 3, (1.5,) * 3),
        tables("credit", credit, (5, 10, 15), (1.5,) * 3, (1.5,) * 3),
        tables("bank, data frame", lambda: framed(*bank()), (4,), (1.5,), (None,)),
        tables("credit, 4 groups", lambda: coded(*several("credit", 4)), (10,), (2.5,), (None,)),
        tables("credit, 8 groups", lambda: coded(*several("credit", 8)), (10,), (2.5,), (None,)),
        # The same groups as the loader names them, and as fixed-width text.
        tables("credit, 4 as text", lambda: several("credit", 4), (10,), (2.5,), (None,)),
        tables("credit, 8 as text", lambda: several("credit", 8), (10,), (2.5,), (None,)),
        tables("credit, 4 as U15", lambda: fixed(*several("credit", 4)), (10,), (2.5,), (None,)),
        tables("credit, 8 as U15", lambda: fixed(*several("credit", 8)), (10,), (2.5,), (None,)),
    ]
    if quick:
        return small
    return [
        *small,
        tables("crop shape", crop_shape, (30, 60, 120), (1.1,) * 3, (1.1,) * 3),
        tables("faces", faces, (50, 100, 200), (1.2, 1.2, 1.4), (1.5, 1.5, 2.3)),
        tables("faces, 4 groups", lambda: several("faces", 4), (50,), (2.0,), (None,)),
        tables("faces, 8 groups", lambda: several("faces", 8), (50,), (2.0,), (None,)),
        tables("crop shape, data frame", lambda: framed(*crop_shape()), (30,), (1.5,), (None,)),
        tables("wide 1,000 x 20,000", wide, (20,), (1.2,), (None,)),
        tables("sparse 200,000 x 50,000", text_like, (20,), (5.0,), (None,)),
        tables("sparse 500,000 x 2,000", lambda: text_like(500_000, 2000), (20,), (5.0,), (None,)),
    ]
