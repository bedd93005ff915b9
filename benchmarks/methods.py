"""Every published method on three tables: ``python -m benchmarks.methods_table``.

Time, worst loss, and how far that is above what no projection can beat. A method that optimises
something else is listed with it, not judged by it.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.cases import bank, credit, faces
from benchmarks.race import say
from benchmarks.ratios import header, show
from fairpca.comparison import Comparison, compare, default_estimators

RANK = 5
# Above this many features the matrix inequalities of the covariance constraint are out of reach:
# at 196 they take more than a quarter of an hour.
_LARGEST_LMI = 60


def small_faces() -> tuple[Any, Any]:
    """Return the faces at 14 x 14 pixels, each the mean of 3 x 3."""
    X, groups = faces()
    return X.reshape(-1, 14, 3, 14, 3).mean(axis=(2, 4)).reshape(len(X), -1), groups


TABLES = {"bank": bank, "credit": credit, "faces 14x14": small_faces}


def measure(X: Any, groups: Any) -> Comparison:
    """Fit every method once on one table."""
    estimators = default_estimators(RANK)
    if X.shape[1] > _LARGEST_LMI:
        model = estimators.pop("CovarianceConstrainedPCA")
        estimators["CovarianceConstrainedPCA(mu=0)"] = model.set_params(mu=0)
    return compare(X, groups, estimators)


def lines(found: Comparison) -> list[dict[str, Any]]:
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


def beaten(found: Comparison) -> list[str]:
    """Return the methods with a smaller worst loss than FairPCA's."""
    ours = found["FairPCA"].worst_loss
    return [row.name for row in found.rows if row.worst_loss < ours * (1 - 1e-8)]


def main() -> None:
    """Run the tables asked for and print them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.methods_table")
    parser.add_argument("--table", nargs="*", choices=list(TABLES), default=list(TABLES))
    parser.add_argument("--folder", type=Path, default=Path("benchmarks/results"))
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    print(header())
    for name in arguments.table:
        say(f"fitting every method on {name} ...")
        X, groups = TABLES[name]()
        found = measure(X, groups)
        bound = found["FairPCA"].bound
        print(f"\n{name}: {X.shape[0]} x {X.shape[1]}, r = {RANK}, bound {bound:.10g}")
        print(show(lines(found)))
        smaller = beaten(found)
        print(f"below FairPCA's worst loss: {', '.join(smaller) or 'none'}")
        (arguments.folder / f"methods {name}.json").write_text(found.to_json(indent=1))


if __name__ == "__main__":
    main()
