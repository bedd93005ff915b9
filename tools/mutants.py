"""Break the package on purpose, one small change at a time: the tests must notice every one.

``python -m tools.mutants`` copies the tree, applies one mutant after the other to the copies (the
checkout is never changed), runs the few tests that should catch it and prints a table. It fails
if a mutant survives, if its old text is not found exactly once, or if the tests chosen for it do
not pass on the unbroken tree. ``python -m tools.mutants --check`` runs no test: it only tells
which entries of the list no longer fit the source.
"""

from __future__ import annotations

import argparse
import os
import queue
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tools.mutant_list import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parents[1]


def copy_tree(target: Path) -> Path:
    """Copy what the tests need; the original is never written to."""
    for name in ("src", "tests", "tools", ".ci"):
        shutil.copytree(ROOT / name, target / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", target)
    return target


def run_tests(root: Path, tests: str) -> int:
    """Return pytest's exit status for some tests of one tree."""
    environment = {**os.environ, "PYTHONPATH": str(root / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    environment.update(FAIRPCA_TRUST_SHARE="0.05", OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
    # Outside CI a missing data file is a skip; there it would count as a caught mutant.
    environment.pop("CI", None)
    path, _, pattern = tests.partition(" -k ")
    chosen = [path, "-k", pattern] if pattern else [path]
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n0", "-p", "no:cacheprovider"]
    found = subprocess.run(
        [*command, "--hypothesis-seed=0", *chosen],
        cwd=root,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return found.returncode


def main() -> int:
    """Run all mutants, or those whose names contain a word."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.mutants", description=__doc__.splitlines()[0]
    )
    parser.add_argument("word", nargs="?", default="", help="only mutants whose name contains it")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time (default 2)")
    parser.add_argument("--check", action="store_true", help="only compare with the source")
    options = parser.parse_args()
    chosen = [mutant for mutant in MUTANTS if options.word in mutant.name]
    stale = [complaint for mutant in chosen if (complaint := mutant.complaint(ROOT))]
    print("\n".join([*stale, f"{len(chosen) - len(stale)} of {len(chosen)} mutants fit"]))
    if stale or options.check:
        return int(bool(stale))
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        trees: queue.Queue[Path] = queue.Queue()
        for i in range(options.jobs):
            trees.put(copy_tree(Path(folder) / str(i)))

        def in_a_tree(mutant: Mutant | None, tests: str) -> int:
            tree = trees.get()
            file = tree / "src" / "fairpca" / mutant.file if mutant else None
            try:
                if mutant and file:
                    file.write_text(mutant.apply(ROOT))
                return run_tests(tree, tests)
            finally:
                if mutant and file:
                    shutil.copy(ROOT / "src" / "fairpca" / mutant.file, file)
                trees.put(tree)

        with ThreadPoolExecutor(options.jobs) as pool:
            selections = sorted({mutant.tests for mutant in chosen})
            clean = dict(
                zip(selections, pool.map(lambda t: in_a_tree(None, t), selections), strict=True)
            )
            statuses = pool.map(lambda m: in_a_tree(m, m.tests), chosen)
            failed = 0
            for mutant, status in zip(chosen, statuses, strict=True):
                verdict = "caught" if status == 1 else f"SURVIVED (pytest exit {status})"
                if clean[mutant.tests] != 0:
                    verdict = f"INVALID: its tests fail unbroken ({clean[mutant.tests]})"
                failed += verdict != "caught"
                line = f"{verdict:10}  {mutant.name:57}  {mutant.file:30}  {mutant.tests}"
                print(line, flush=True)
    minutes = (time.perf_counter() - start) / 60
    print(f"{len(chosen) - failed} of {len(chosen)} mutants caught in {minutes:.1f} minutes")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
