"""The whole study, step by step; every finished step is kept, so a second start continues."""

from __future__ import annotations

import csv
import platform
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import scipy
import sklearn
from threadpoolctl import threadpool_limits

import fairpca
from experiments import figures, geometry, timing
from experiments.curves import Curves
from experiments.many import groupings
from experiments.progress import progress
from experiments.report import write_report
from experiments.store import Store
from experiments.tables import PaperTable, paper_tables
from fairpca._check import require

#: The SVDs of all rows are the same whatever r is; on the large tables one rank is enough.
_SVD_ONCE = ("CM", "LFW")
_BUDGET = {"BM": 3.0, "DCC": 3.0, "CM": 4.0, "LFW": 8.0}


def run(
    output: Path,
    *,
    quick: bool = False,
    download: bool = True,
    threads: int = 1,
    reuse: bool = False,
    cache: Path | None = None,
) -> dict[str, Any]:
    """Compute everything, write figures, tables and RESULTS.md into `output`, return it all."""
    # Known to be missing before the work is done rather than after it.
    require("matplotlib", extra="app", purpose="python -m experiments")
    began = time.monotonic()
    output.mkdir(parents=True, exist_ok=True)
    store = Store(cache or output / ".cache", reuse=reuse)
    tables, missing = paper_tables(quick=quick, download=download)
    cut = groupings(quick=quick, download=download)
    timed = [table for table in tables if not (quick and table.key == "LFW")]
    pieces = {
        "illustration": geometry.illustration,
        "phi": geometry.phi_curve,
        "numerical_range": geometry.numerical_range,
        "three_lines": geometry.three_lines,
    }
    total = len(pieces) + sum(len(t.curve_r) + len(t.ratio_r) for t in tables)
    total += sum(len(_timed_ranks(t, quick)) for t in timed) + sum(len(g.ranks) for g in cut)
    found: dict[str, Any] = {
        "quick": quick,
        "missing": missing,
        "threads": threads,
        "machine": _machine(),
    }
    with progress(total) as bar, threadpool_limits(limits=threads):
        for name, compute in pieces.items():
            bar.step(name)
            found[name] = store.get(name, compute)
        found["tables"] = [
            _table(store, bar.step, table, quick, threads, timing_too=table in timed)
            for table in tables
        ]
        found["groupings"] = []
        for grouping in cut:
            curve = []
            for r in grouping.ranks:
                bar.step(f"{grouping.key}, r = {r}")
                curve.append(store.get(f"many/{grouping.key}/{r}", partial(grouping.at, r)))
            grouping.forget()
            found["groupings"].append(
                {"key": grouping.key, "title": grouping.title, "show_r": grouping.show_r,
                 "curve": curve}
            )  # fmt: skip
    _draw(output, found)
    _write_tables(output, found)
    found["seconds"] = time.monotonic() - began
    found["reused"] = store.hits
    found["computing"] = store.seconds
    found["steps"] = total
    write_report(output, found)
    return found


def _table(
    store: Store,
    announce: Callable[[str], None],
    table: PaperTable,
    quick: bool,
    threads: int,
    *,
    timing_too: bool,
) -> dict[str, Any]:
    curves = Curves(table)
    common = {"synthetic": table.synthetic, "quick": quick and table.synthetic}
    found: dict[str, Any] = {
        "key": table.key,
        "title": table.title,
        "synthetic": table.synthetic,
        "table_r": list(table.table_r),
        "curve": [],
        "ratios": [],
        "timing": [],
    }
    for r in table.curve_r:
        announce(f"{table.name}: errors and losses, r = {r}")
        found["curve"].append(store.get(f"curve/{table.key}/{r}", partial(curves.at, r), **common))
    for r in table.ratio_r:
        announce(f"{table.name}: loss ratios, r = {r}")
        found["ratios"].append(
            store.get(f"ratio/{table.key}/{r}", partial(curves.ratios, r), **common)
        )
    found.update(store.get(f"shape/{table.key}", lambda: _shape(table), **common))
    for r in _timed_ranks(table, quick) if timing_too else ():
        announce(f"{table.name}: running times, r = {r}")
        once = table.key in _SVD_ONCE and r != table.table_r[0]
        settings = {
            "threads": threads,
            "budget": 0.0 if quick else _BUDGET[table.key],
            "skip": ("sdr", "pca_svd") if once else (),
        }
        found["timing"].append(
            store.get(
                f"timing/{table.key}/{r}",
                partial(timing.line, table, r, **settings),
                **common,
                **settings,
            )
        )
    table.forget()
    return found


def _timed_ranks(table: PaperTable, quick: bool) -> tuple[int, ...]:
    """The short version times every method once, at the first rank."""
    return table.table_r[:1] if quick else table.table_r


def _shape(table: PaperTable) -> dict[str, Any]:
    rows, in_a = table.loaded
    return {
        "n_rows": len(rows),
        "n_features": rows.shape[1],
        "rows_A": int(in_a.sum()),
        "rows_B": int((~in_a).sum()),
    }


def _machine() -> dict[str, str]:
    return {
        "processor": platform.machine(),
        "system": platform.system(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
        "fairpca": fairpca.__version__,
    }


def _draw(output: Path, found: dict[str, Any]) -> None:
    figures.illustration(output, found["illustration"])
    figures.phi(output, found["phi"])
    figures.numerical_range(output, found["numerical_range"])
    if found["tables"]:
        figures.reconstruction_error(output, found["tables"])
        figures.reconstruction_loss(output, found["tables"])
        figures.loss_ratio(output, found["tables"])
        figures.price(output, found["tables"])
    if found["groupings"]:
        figures.many_groups(output, found["groupings"])


def _write_tables(output: Path, found: dict[str, Any]) -> None:
    curves = [
        {"set": table["key"], "synthetic": table["synthetic"], **row}
        for table in found["tables"]
        for row in table["curve"]
    ]
    ratios = [
        {"set": table["key"], "synthetic": table["synthetic"], **row}
        for table in found["tables"]
        for row in table["ratios"]
    ]
    times = [
        {
            "set": table["key"],
            "synthetic": table["synthetic"],
            "r": row["r"],
            "rows": row["rows"],
            "threads": row["threads"],
            "method": name,
            "seconds": seconds,
            "wall_seconds": row["best_wall"][name],
            "best_of": row["rounds"][name],
        }
        for table in found["tables"]
        for row in table["timing"]
        for name, seconds in row["best"].items()
    ]
    many = [
        {
            "grouping": grouping["key"],
            "r": row["r"],
            "group": group,
            "rows": row["counts"][i],
            "pca_loss": row["pca_losses"][i],
            "loss": row["losses"][i],
            "weight": row["weights"][i],
            "lower_bound": row["lower_bound"],
            "value": row["value"],
            "certified_gap": row["certified_gap"],
            "proven_optimal": row["optimal"],
        }
        for grouping in found["groupings"]
        for row in grouping["curve"]
        for i, group in enumerate(row["groups"])
    ]
    for name, rows in (
        ("curves", curves),
        ("loss_ratios", ratios),
        ("table1", times),
        ("many_groups", many),
    ):
        if rows:
            _write_csv(output / f"{name}.csv", rows)


def _write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
