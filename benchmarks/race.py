"""Timing contestants fairly: interleaved in one process, the best of several rounds."""

from __future__ import annotations

import gc
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from importlib.metadata import version
from typing import Any

import fairpca

_PAUSE = 0.1


def race(contestants: Mapping[str, Callable[[], Any]], *, seconds: float, most: int = 60) -> Any:
    """Return the best wall time of each contestant, and its best processor time.

    Every round runs each contestant once; rounds go on for about `seconds` in all, at least two
    and at most `most`. The first round is not counted: it pays for imports and page faults.
    """
    best, busy = (dict.fromkeys(contestants, float("inf")) for _ in range(2))
    started, rounds = time.perf_counter(), 0
    while rounds < 3 or (rounds < most and time.perf_counter() - started < seconds):
        for name, run in contestants.items():
            gc.collect()
            # Threads of BLAS spin for a while after their last call; nobody pays for another's.
            time.sleep(_PAUSE)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                begin, used = time.perf_counter(), time.process_time()
                run()
                taken, used = time.perf_counter() - begin, time.process_time() - used
            if rounds:
                best[name], busy[name] = min(best[name], taken), min(busy[name], used)
        rounds += 1
    return best, busy


def show(rows: list[dict[str, Any]]) -> str:
    """Return rows as a text table."""

    def cell(value: Any) -> str:
        if value is None:
            return "-"
        return f"{value:.3g}" if isinstance(value, float) else str(value)

    names = list(dict.fromkeys(name for row in rows for name in row))
    table = [names] + [[cell(row.get(name)) for name in names] for row in rows]
    widths = [max(len(line[i]) for line in table) for i in range(len(names))]
    return "\n".join(
        "  ".join(
            text.ljust(w) if i == 0 else text.rjust(w)
            for i, (text, w) in enumerate(zip(line, widths, strict=True))
        )
        for line in table
    )


def machine() -> dict[str, str]:
    """Return what a reader needs to judge the numbers: CPU, threads, load, versions."""
    from threadpoolctl import threadpool_info

    cpu = platform.processor() or platform.machine()
    try:
        with open("/proc/cpuinfo") as file:
            names = [line.split(":")[1].strip() for line in file if line.startswith("model name")]
        cpu = names[0] if names else cpu
    except OSError:
        pass
    threads = {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}
    load = ", ".join(f"{value:.2f}" for value in os.getloadavg())
    return {
        "cpu": f"{cpu}, {len(os.sched_getaffinity(0))} cores",
        "threads": "BLAS " + "/".join(map(str, sorted(threads))),
        "load": load,
        "python": platform.python_version(),
        **{name: version(name) for name in ("numpy", "scipy", "scikit-learn")},
        "fairpca": fairpca.__version__,
    }


def say(text: str) -> None:
    """Print progress to stderr."""
    print(text, file=sys.stderr, flush=True)
