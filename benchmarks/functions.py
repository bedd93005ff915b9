"""What every function costs on one table, beside PCA: no shape may make one of them hopeless.

Each is timed once after the first fit, which pays for imports; a factor of ten is what to look
for, not a tenth.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.decomposition import PCA

import fairpca
from benchmarks.race import say
from fairpca import FairPCA, metrics

# Rows, columns, groups and components: tall, a survey, many groups, genes.
_SHAPES = (
    (200_000, 30, 3, 5),
    (20_000, 200, 6, 10),
    (2_000, 12, 40, 3),
    (300, 2_000, 3, 10),
    (300, 20_000, 3, 10),
)


def _table(m: int, n: int, k: int) -> tuple[Any, Any]:
    """Return rows with a spectrum like that of real ones, one group of them mirrored."""
    rng = np.random.default_rng(0)
    labels = rng.choice([f"group {i}" for i in range(k)], size=m)
    X = rng.standard_normal((m, n)) / np.arange(1, n + 1) ** 0.7
    X[labels == "group 1"] = X[labels == "group 1", ::-1]
    return X, labels


def _tasks(X: Any, labels: Any, r: int) -> dict[str, Callable[[], Any]]:
    """Return what is timed, by name."""
    of_groups = {"sensitive_features": labels}
    model = FairPCA(r).fit(X, **of_groups)
    return {
        "PCA": lambda: PCA(r).fit(X),
        "fit": lambda: FairPCA(r).fit(X, **of_groups),
        "share 0.9": lambda: FairPCA(0.9).fit(X, **of_groups),
        "transform": lambda: model.transform(X),
        "score": lambda: model.score(X),
        "errors": lambda: metrics.group_errors(model, X, **of_groups),
        "losses": lambda: metrics.group_losses(model, X, **of_groups),
        "cross_fit": lambda: fairpca.cross_fit(X, labels, r),
        "compare": lambda: fairpca.compare([PCA(r), FairPCA(r)], X, labels),
        "audit": lambda: fairpca.audit(X, labels, r),
    }


def run() -> list[dict[str, Any]]:
    """Return the seconds of every function, one line a shape."""
    lines = []
    for m, n, k, r in _SHAPES:
        line: dict[str, Any] = {"rows": f"{m:,} x {n:,}", "groups": k, "r": r}
        with warnings.catch_warnings(action="ignore"):
            for name, task in _tasks(*_table(m, n, k), r).items():
                say(f"{line['rows']}: {name} ...")
                begin = time.perf_counter()
                task()
                line[name] = time.perf_counter() - begin
        lines.append(line)
    return lines
