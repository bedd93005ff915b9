"""Peak memory of a fit on a memory map of 2,000,000 x 100 float32 rows."""

from __future__ import annotations

import resource
import tempfile
from pathlib import Path

import numpy as np

from fairpca import FairPCA


def run(m: int = 2_000_000, n: int = 100) -> dict[str, float]:
    """Return the growth of resident memory in MB, of which the mapped file may be a part."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.npy"
        rng = np.random.default_rng(0)
        rows = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(m, n))
        for start in range(0, m, 50_000):
            rows[start : start + 50_000] = rng.standard_normal((50_000, n), dtype=np.float32)
        del rows
        groups = rng.integers(0, 2, size=m).astype(np.int8)
        mapped = np.load(path, mmap_mode="r")
        import tracemalloc

        tracemalloc.start()
        FairPCA(10).fit(mapped, sensitive_features=groups)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"allocated MB": peak / 2**20, "peak RSS MB, mapped pages included": rss}
