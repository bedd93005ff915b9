"""Print which files and functions of the package one fit enters: ``python -m tools.entered``.

``FairPCA(3).fit`` of 500 x 10 rows, once with two groups and once with five.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections import Counter
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import fairpca

PACKAGE = Path(fairpca.__file__).parent


def entered(n_groups: int) -> Counter[tuple[str, str]]:
    """Return how often a fit calls every function, by file and name."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(500, 10)) * np.linspace(3, 1, 10)
    labels = np.arange(500) % n_groups
    for group in range(n_groups):
        X[labels == group, group] *= 3
    model = fairpca.FairPCA(3)
    # What is imported on first use is imported here.
    model.fit(X, sensitive_features=labels)
    calls: Counter[tuple[str, str]] = Counter()

    def note(frame: FrameType, event: str, _: Any) -> None:
        path = frame.f_code.co_filename
        # Comprehensions and lambdas belong to the function they are written in.
        named = not frame.f_code.co_name.startswith("<")
        if event == "call" and named and path.startswith(str(PACKAGE)):
            calls[path[len(str(PACKAGE)) + 1 :], frame.f_code.co_qualname] += 1

    sys.setprofile(note)
    try:
        model.fit(X, sensitive_features=labels)
    finally:
        sys.setprofile(None)
    return calls


def main() -> None:
    """Print files, functions and calls."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--functions", action="store_true", help="name every function")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for n_groups in (2, 5):
        calls = entered(n_groups)
        files = sorted({path for path, _ in calls})
        print(
            f"{n_groups} groups: {len(files)} files, {len(calls)} functions, {calls.total()} calls"
        )
        for path in files:
            own = {name: count for (of, name), count in calls.items() if of == path}
            print(f"  {path}: {len(own)} functions, {sum(own.values())} calls")
            if arguments.functions:
                for name, count in own.items():
                    print(f"    {name} {count}")


if __name__ == "__main__":
    main()
