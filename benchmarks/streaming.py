"""Rows per second of tables larger than memory, beside merely reading them.

Every contestant sees the same Parquet files in the same run. Reading alone is the bound: nothing
that needs every row can be faster.
"""

from __future__ import annotations

import importlib
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.race import say

if TYPE_CHECKING:
    # Not at run time: the memory of importing it is measured below.
    from fairpca import GroupMoments

_CHUNK = 250_000
_ROW_GROUP = 125_000


def run(rows: int, columns: int, folder: Path | None, repeats: int) -> list[dict[str, Any]]:
    """Write the files (once), time every contestant and return one row each."""
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary) if folder is None else folder
        say(f"writing {rows:,} x {columns} float32 ...")
        write(place, rows, columns)
        best: dict[str, float] = {}
        # Round after round, so that a slow minute of the machine meets everybody.
        for _ in range(repeats):
            for name, contestant in contestants(place).items():
                say(f"{name} ...")
                started = time.perf_counter()
                counted = contestant()
                taken = time.perf_counter() - started
                if counted != rows:
                    raise AssertionError(f"{name} counted {counted:,} of {rows:,} rows")
                best[name] = min(taken, best.get(name, taken))
        peak = peak_memory(place)
    reading = best["pyarrow, read only"]
    table = [
        {
            "what": name,
            "seconds": round(taken, 3),
            "rows/s": round(rows / taken),
            "of reading": round(reading / taken, 3),
        }
        for name, taken in best.items()
    ]
    return [*table, {"what": "peak RSS of the local engine, MB", **peak}]


def write(folder: Path, rows: int, columns: int) -> None:
    """Write files of correlated float32 columns and a text label, unless they are there."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    note = folder / "_written.json"
    plan = {"rows": rows, "columns": columns}
    if note.exists() and json.loads(note.read_text()) == plan:
        return
    for old in folder.glob("part*.parquet"):
        old.unlink()
    rng = np.random.default_rng(0)
    mix = (rng.standard_normal((columns, columns)) / columns**0.5).astype(np.float32)
    for number, start in enumerate(range(0, rows, _CHUNK)):
        m = min(_CHUNK, rows - start)
        X = rng.standard_normal((m, columns), dtype=np.float32) @ mix
        made = {f"x{j}": np.ascontiguousarray(X[:, j]) for j in range(columns)}
        made["group"] = rng.choice(["a", "b", "c"], size=m, p=[0.6, 0.3, 0.1])
        pq.write_table(
            pa.table(made), folder / f"part{number:04d}.parquet", row_group_size=_ROW_GROUP
        )
    note.write_text(json.dumps(plan))


def contestants(folder: Path) -> dict[str, Callable[[], int]]:
    """Return what is timed; each returns the number of rows it saw."""
    made: dict[str, Callable[[], int]] = {
        "pyarrow, read only": lambda: read_only(folder),
        "fairpca local, 1 job": lambda: int(local(folder, 1).count.sum()),
        "fairpca local, 2 jobs": lambda: int(local(folder, 2).count.sum()),
        "IncrementalPCA": lambda: incremental(folder),
    }
    for engine in ("dask", "spark"):
        try:
            room = importlib.import_module(f"fairpca.distributed.{engine}")
            importlib.import_module({"dask": "distributed", "spark": "pyspark"}[engine])
        except ImportError:
            continue
        made[f"fairpca {engine}"] = lambda room=room: int(cluster(folder, room).count.sum())  # type: ignore[misc]
    return made


def read_only(folder: Path) -> int:
    """Decode every column with pyarrow's own threads and forget it."""
    import pyarrow.parquet as pq

    rows = 0
    for path in sorted(folder.glob("part*.parquet")):
        with pq.ParquetFile(path) as file:
            for i in range(file.num_row_groups):
                rows += file.read_row_group(i, use_threads=True).num_rows
    return rows


def local(folder: Path, jobs: int) -> GroupMoments:
    """Count the moments here."""
    from fairpca.io import read_moments

    return read_moments(folder / "part*.parquet", sensitive_features="group", n_jobs=jobs)


def incremental(folder: Path, n_components: int = 10) -> int:
    """Fit scikit-learn's streaming PCA, which knows no groups, to the same chunks."""
    import pyarrow.parquet as pq
    from sklearn.decomposition import IncrementalPCA

    model = IncrementalPCA(n_components)
    rows = 0
    for path in sorted(folder.glob("part*.parquet")):
        with pq.ParquetFile(path) as file:
            names = [name for name in file.schema_arrow.names if name != "group"]
            for batch in file.iter_batches(65_536, columns=names):
                model.partial_fit(np.column_stack([c.to_numpy() for c in batch.columns]))
                rows += batch.num_rows
    return rows


def cluster(folder: Path, room: Any) -> GroupMoments:
    """Count the moments with an engine: its running cluster, or one it starts here."""
    found: GroupMoments = room.read_moments(
        sorted(folder.glob("part*.parquet")),
        sensitive_features=["group"],
        features=None,
        sample_weight=None,
        unlabelled="error",
        scheduler=None,
        memory_limit=None,
    )
    return found


def peak_memory(folder: Path) -> dict[str, float]:
    """Return the peak memory of a process that only counts, and of one that only imports."""
    found = {}
    for name, jobs in (("imports", 0), ("1 job", 1), ("2 jobs", 2)):
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.streaming", str(folder), str(jobs)],
            capture_output=True,
            text=True,
            check=True,
        )
        found[name] = float(done.stdout)
    return found


def show(rows: list[dict[str, Any]]) -> str:
    """Return the results as a table."""
    lines = [f"{'':32}{'seconds':>10}{'rows/s':>14}{'of reading':>12}"]
    for row in rows[:-1]:
        lines.append(
            f"{row['what']:32}{row['seconds']:>10}{row['rows/s']:>14,}{row['of reading']:>12}"
        )
    memory = ", ".join(f"{k}: {v}" for k, v in rows[-1].items() if k != "what")
    return "\n".join([*lines, f"{rows[-1]['what']}: {memory}"])


def own_peak() -> float:
    """Return this process's peak memory in MB."""
    try:
        # ru_maxrss of a child starts at its parent's peak; this starts at its own beginning.
        status = Path("/proc/self/status").read_text()
        return int(status.split("VmHWM:")[1].split()[0]) / 1024
    except (OSError, IndexError):
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    for module in ("pyarrow.parquet", "fairpca.io"):
        importlib.import_module(module)
    if int(sys.argv[2]):
        local(Path(sys.argv[1]), int(sys.argv[2]))
    print(round(own_peak()))
