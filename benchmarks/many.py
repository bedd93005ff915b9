"""Three and more groups: how long a solve takes, how often it is proven, how far the rest is open.

Eleven suites of problems, solved one after the other on one thread. CPU time is what counts, so a
busy machine changes little; the number proven does not depend on the machine at all.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import fairpca
from benchmarks.race import say
from fairpca import GroupMoments

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

Problems = Iterator[tuple[Any, int]]


def _matrices(X: Any, labels: Any) -> Any:
    return GroupMoments.from_array(X, labels).covariances


def _credit(sensitive: Any, ranks: Any) -> Problems:
    bunch = fairpca.datasets.fetch_credit_default(sensitive=sensitive)
    X = np.asarray(bunch.data, dtype=float)
    covariances = _matrices((X - X.mean(axis=0)) / X.std(axis=0), bunch.sensitive_features)
    for r in ranks:
        yield covariances, r


def _credit_thirty() -> Problems:
    """Sex, marriage and five ages: thirty groups of 21 to 4,000 rows."""
    bunch = fairpca.datasets.fetch_credit_default(sensitive=["sex", "marriage"])
    X = np.asarray(bunch.data, dtype=float)
    ages = np.digitize(X[:, 1], (26, 31, 38, 46))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    labels = np.column_stack([np.asarray(bunch.sensitive_features, dtype=str), ages.astype(str)])
    _, codes = np.unique(labels, axis=0, return_inverse=True)
    kept = np.isin(codes, np.argsort(-np.bincount(codes.ravel()))[:30])
    covariances = _matrices(X[kept], codes.ravel()[kept])
    for r in (1, 2, 3, 5, 8, 12):
        yield covariances, r


def _bank_by_job() -> Problems:
    bunch = fairpca.datasets.fetch_bank_marketing(sensitive="job")
    X = np.asarray(bunch.data, dtype=float)
    covariances = _matrices((X - X.mean(axis=0)) / X.std(axis=0), bunch.sensitive_features)
    for r in range(1, covariances.shape[1], 2):
        yield covariances, r


def environments(p: int, k: int, seed: int) -> Any:
    """Covariances as Fries, Reichstein, Blei and Peters (2026) draw them."""
    from many_group_problems import environments as drawn

    return drawn(p, k, seed)


def _environments(p: int, k: int, ranks: Any, seeds: Any) -> Problems:
    for seed in seeds:
        covariances = environments(p, k, seed)
        for r in ranks:
            yield covariances, r


def _families() -> Problems:
    from many_group_problems import instances

    for k in (3, 4, 6, 10):
        for item in instances(k, 40, first_seed=50_000):
            yield item.covariances, item.n_components


def _large() -> Problems:
    rng = np.random.default_rng(0)
    for k in (3, 8):
        for n in (200, 400):
            base = np.linalg.qr(rng.standard_normal((n, n)))[0]
            spectrum = np.exp(-np.arange(n) / (n / 6))
            found = []
            for _ in range(k):
                rows = rng.standard_normal((3 * n, n)) * np.sqrt(spectrum)
                rows *= 1 + 0.5 * rng.random(n)
                found.append(base @ (rows.T @ rows / len(rows)) @ base.T)
            for r in (5, 20):
                yield np.array(found), r


def _hundreds() -> Problems:
    """Three hundred groups of forty rows in twelve columns."""
    rng = np.random.default_rng(1)
    for r in (2, 4):
        rows = rng.standard_normal((300, 40, 12)) * (1 + rng.random((300, 1, 12)))
        yield np.swapaxes(rows, 1, 2) @ rows / 40, r


def _seven_alike() -> Problems:
    """Eight large groups, seven of them samples of the same rows; the other one is mirrored."""
    rng = np.random.default_rng(2)
    m, n = 1_250_000, 50
    scales = np.linspace(3, 0.5, n)
    for _ in range(20):
        found = []
        for mirrored in (False, True, *[False] * 6):
            # The triangular factor of a random scatter matrix, by Bartlett's decomposition (1933).
            root = np.tril(rng.standard_normal((n, n)), -1)
            root += np.diag(np.sqrt(rng.chisquare(m - np.arange(n))))
            root *= scales[:: -1 if mirrored else 1, None]
            found.append(root @ root.T / m)
        yield np.array(found), 10


SUITES: dict[str, Callable[[], Problems]] = {
    "credit, 4 groups": lambda: _credit("education", range(1, 20, 2)),
    "credit, 8 groups": lambda: _credit(["sex", "education"], range(1, 20, 2)),
    "credit, 30 groups": _credit_thirty,
    "bank by job": _bank_by_job,
    "environments p=10 k=5": lambda: _environments(10, 5, range(1, 10), range(3)),
    "environments p=50 k=5": lambda: _environments(50, 5, range(1, 48, 4), range(3)),
    "environments p=10 k=50": lambda: _environments(10, 50, range(1, 10), range(3)),
    "four families k=3 to 10": _families,
    "200 and 400 columns": _large,
    "300 groups": _hundreds,
    "seven of eight alike": _seven_alike,
}


def run(quick: bool = False) -> list[dict[str, Any]]:
    """Solve every suite and return one row each."""
    rows = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in list(SUITES)[: 3 if quick else None]:
            say(f"solving {name} ...")
            seconds, gaps, eigen = [], [], []
            for covariances, r in SUITES[name]():
                begin = time.process_time()
                found = fairpca.solve(covariances, r)
                seconds.append(time.process_time() - begin)
                gaps.append(found.certificate.gap)
                eigen.append(found.n_eigen)
            rows.append(
                {
                    "suite": name,
                    "problems": len(gaps),
                    "median ms": 1e3 * float(np.median(seconds)),
                    "total s": float(np.sum(seconds)),
                    "proven": int(sum(gap <= 1e-8 for gap in gaps)),
                    "mean gap %": 100 * float(np.mean(gaps)),
                    "largest gap %": 100 * float(np.max(gaps)),
                    "decompositions": float(np.median(eigen)),
                }
            )
    return rows
