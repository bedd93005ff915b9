"""Table 1: seconds of PCA, EigOpt, SDR and ours on the same rows, in one process, in turns."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from threadpoolctl import threadpool_limits

from experiments.baselines import (
    eigopt_as_coded,
    eigopt_on_gram,
    pca_as_coded,
    sdr_as_coded,
    sdr_on_gram,
)
from experiments.tables import PaperTable
from fairpca import FairPCA, GroupMoments

#: Columns of the table, in order, and what each of them is.
METHODS = {
    "pca_svd": "PCA as MATLAB does it: SVD of all rows",
    "pca_sklearn": "PCA of scikit-learn, default: by covariance; on LFW randomised, approximate",
    "eigopt": "EigOpt (Algorithm 2) as coded: SVDs of A and B, Brent, TolX 1e-8",
    "eigopt_gram": "EigOpt on Gram matrices",
    "ours": "FairPCA.fit, from rows and integer labels to certificate",
    "sdr": "SDR as coded: ten SVDs of the stacked rows",
    "sdr_gram": "SDR on Gram matrices: ten eigenproblems",
}


def methods(table: PaperTable, r: int) -> dict[str, Callable[[], object]]:
    """Return the contestants of one line of the table."""
    rows, in_a = table.loaded
    codes = np.where(in_a, 0, 1)
    whole, first, second = table.groups

    def sdr_gram() -> object:
        return sdr_on_gram(GroupMoments.from_array(rows, codes).covariances, r)

    def eigopt_gram() -> object:
        covariances = GroupMoments.from_array(rows, codes).covariances
        return eigopt_on_gram(covariances, r, 1e-8, [])

    return {
        "pca_svd": lambda: pca_as_coded(whole, r),
        "pca_sklearn": lambda: PCA(n_components=r).fit(whole),
        "eigopt": lambda: eigopt_as_coded(first, second, r, 1e-8),
        "ours": lambda: FairPCA(r, center="group").fit(rows, sensitive_features=codes),
        "eigopt_gram": eigopt_gram,
        "sdr_gram": sdr_gram,
        "sdr": lambda: sdr_as_coded(first, second, r),
    }


def line(
    table: PaperTable, r: int, *, threads: int, budget: float, skip: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Time one line: rounds over all methods until `budget` seconds a method are spent.

    With one thread the CPU time of the process is what counts, because other work on the machine
    does not enter it; with more threads the clock on the wall.
    """
    clock = time.process_time if threads == 1 else time.perf_counter
    contestants = {name: run for name, run in methods(table, r).items() if name not in skip}
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    wall: dict[str, list[float]] = {name: [] for name in contestants}
    with threadpool_limits(limits=threads):
        for _ in range(15):
            for name, run in contestants.items():
                if seconds[name] and sum(seconds[name]) > budget:
                    continue
                began, began_wall = clock(), time.perf_counter()
                run()
                seconds[name].append(clock() - began)
                wall[name].append(time.perf_counter() - began_wall)
    return {
        "r": r,
        "threads": threads,
        "rows": len(table.loaded[0]),
        "best": {name: min(values) for name, values in seconds.items()},
        "best_wall": {name: min(values) for name, values in wall.items()},
        "rounds": {name: len(values) for name, values in seconds.items()},
    }
