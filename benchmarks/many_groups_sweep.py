"""How many decompositions three and more groups cost, over random problems of four families.

Run ``python benchmarks/many_groups_sweep.py [problems per k]``. For every number of groups k it
prints the count of full-size decompositions (those of the groups' own matrices not included), how
often the dual did not close, the share of problems proven optimal and the gaps of the others.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from fairpca.criteria import pose
from fairpca.solvers.descent import attain
from fairpca.solvers.dual import Dual
from fairpca.solvers.many_groups import maximise_dual

from many_group_problems import instances

GROUPS = (2, 3, 4, 6, 8, 10, 20)
FIRST_SEED = 20_000
TOL = 1e-10


def sweep(k: int, count: int) -> dict[str, str]:
    """Solve `count` problems with k groups and summarise them."""
    decompositions, seconds, gaps, unconverged, simple = [], [], [], 0, 0
    for item in instances(k, count, first_seed=FIRST_SEED):
        problem = pose(item.covariances, item.n_components)
        begin = time.perf_counter()
        dual = Dual(problem, max_iter=200, target=1e-3 * TOL)
        maximise_dual(dual, None)
        basis = attain(dual, TOL, 0).basis
        seconds.append(time.perf_counter() - begin)
        decompositions.append(len(dual.history))
        if abs(dual.gap) > TOL and not dual.closed:
            unconverged += 1
            print(f"  not converged: {item}, relaxed gap {dual.gap:.1e}")
        occupation = dual.relaxed.cluster.occupation
        simple += bool(np.all((occupation < 1e-6) | (occupation > 1 - 1e-6)))
        value = float(problem.losses(basis).max())
        gaps.append(problem.certificate(dual.bound, value).gap)
    open_gaps = [gap for gap in gaps if gap > 1e-8]
    counts = np.array(decompositions)
    middle, high = np.percentile(counts, [50, 90])
    return {
        "k": str(k),
        "problems": str(count),
        "eigs median/p90/max": f"{middle:g}/{high:.0f}/{counts.max()}",
        "unconverged": str(unconverged),
        "lambda_r simple": f"{simple / count:.0%}",
        "gap < 1e-8": f"{1 - len(open_gaps) / count:.1%}",
        "else median": f"{np.median(open_gaps):.1e}" if open_gaps else "-",
        "else max": f"{max(open_gaps):.1e}" if open_gaps else "-",
        "ms median/max": f"{1e3 * np.median(seconds):.0f}/{1e3 * max(seconds):.0f}",
    }


def main() -> None:
    """Print one row per number of groups."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 150
    rows = []
    for k in GROUPS:
        rows.append(sweep(k, count))
        if len(rows) == 1:
            print("| " + " | ".join(rows[0]) + " |")
            print("|" + "---|" * len(rows[0]))
        print("| " + " | ".join(rows[-1].values()) + " |", flush=True)


if __name__ == "__main__":
    main()
