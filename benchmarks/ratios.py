"""FairPCA over PCA on the same rows, interleaved in one process.

The threads are those that the process is given: ``taskset -c 0-3 python -m benchmarks ratios``.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from sklearn.decomposition import PCA

from benchmarks.cases import Case, cases
from benchmarks.race import race, say
from fairpca import FairPCA


def run(quick: bool = False) -> list[dict[str, Any]]:
    """Time every case and return one row each."""
    rows = []
    for make in cases(quick):
        for case in make():
            say(f"timing {case.name} ...")
            rows.append(measure(case))
    return rows


def measure(case: Case) -> dict[str, Any]:
    """Time one case: the best of many rounds, and the same of processor time."""
    peer = PCA(case.r, svd_solver=case.solver, random_state=0)
    best, busy = race(
        {
            "FairPCA": partial(FairPCA(case.r).fit, case.X, sensitive_features=case.groups),
            "PCA": partial(peer.fit, case.X),
        },
        seconds=6 if case.X.shape[0] * case.X.shape[1] < 5e6 else 25,
    )
    return {
        "case": case.name,
        "FairPCA ms": 1e3 * best["FairPCA"],
        "PCA ms": 1e3 * best["PCA"],
        "ratio": best["FairPCA"] / best["PCA"],
        "of processor time": busy["FairPCA"] / busy["PCA"],
        "must": case.must,
    }
