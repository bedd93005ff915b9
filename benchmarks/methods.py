"""Every published method on three tables: ``python -m benchmarks methods``.

Processor time, worst loss, and how far that is above what no projection can beat. A method that
optimises something else is listed with it, not judged by it.
"""

from __future__ import annotations

import time
from typing import Any
from unittest import mock

import numpy as np

from benchmarks.cases import bank, credit, faces
from benchmarks.race import say, show
from fairpca.comparison import Comparison, compare, default_estimators

RANK = 5
# Above this many features the matrix inequalities of the covariance constraint are out of reach:
# at 196 they take more than a quarter of an hour.
_LARGEST_LMI = 60


def small_faces() -> tuple[Any, Any]:
    """Return the faces at 14 x 14 pixels, each the mean of 3 x 3."""
    X, groups = faces()
    return X.reshape(-1, 14, 3, 14, 3).mean(axis=(2, 4)).reshape(len(X), -1), groups


def run(quick: bool = False) -> str:
    """Fit every method once on each table; return one text table of each."""
    tables = {"bank": bank, "credit": credit, "faces 14x14": small_faces}
    parts = []
    for name in list(tables)[: 1 if quick else None]:
        say(f"fitting every method on {name} ...")
        X, groups = tables[name]()
        estimators = default_estimators(RANK)
        if X.shape[1] > _LARGEST_LMI:
            model = estimators.pop("CovarianceConstrainedPCA")
            estimators["CovarianceConstrainedPCA(mu=0)"] = model.set_params(mu=0)
        # Processor time: other work on the machine does not enter it.
        with mock.patch.object(time, "perf_counter", time.process_time):
            found = compare(X, groups, estimators)
        bound = found["FairPCA"].bound
        title = f"{name}: {X.shape[0]} x {X.shape[1]}, r = {RANK}, bound {bound:.10g}"
        below = ", ".join(_beaten(found)) or "none"
        parts.append(f"{title}\n{show(_lines(found))}\nbelow FairPCA's worst loss: {below}")
        say(parts[-1])
    return "\n\n".join(parts)


def _lines(found: Comparison) -> list[dict[str, Any]]:
    """Return what the table shows of every method, the best worst loss first."""
    rows = sorted(found.rows, key=lambda row: (np.isnan(row.worst_loss), row.worst_loss))
    return [
        {
            "method": row.name,
            "optimises": row.optimises,
            "seconds": row.fit_seconds,
            "worst loss": row.worst_loss,
            "above bound": row.gap,
            "total error": row.total_error,
            "mean gap": row.mean_gap,
            "MMD^2": row.mmd_squared,
            "note": row.message[:60],
        }
        for row in rows
    ]


def _beaten(found: Comparison) -> list[str]:
    """Return the methods with a smaller worst loss than FairPCA's."""
    ours = found["FairPCA"].worst_loss
    return [row.name for row in found.rows if row.worst_loss < ours * (1 - 1e-8)]
