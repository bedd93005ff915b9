"""``python -m benchmarks NAME``: one table of measurements; ``--help`` lists the names."""

from __future__ import annotations

import argparse
import importlib

from benchmarks.race import machine, show

NAMES = {
    "ratios": "FairPCA over PCA, wall and processor time, on the cores this process is given",
    "many": "proofs of three and more groups",
    "groups": "hundreds and thousands of groups",
    "audits": "audits and cross-fitting of small tables",
    "methods": "every published method beside FairPCA on the paper's tables",
    "new_rows": "rows left out: shares, careful FairPCA, power and coverage of the advice",
    "separation": "every pair of groups apart, beside LDA and others",
    "device": "the same tables on a CUDA device",
}


def main() -> None:
    """Run one benchmark and print its table."""
    lines = "\n".join(f"  {name:12}{text}" for name, text in NAMES.items())
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=lines,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("what", nargs="?", default="ratios", choices=NAMES)
    parser.add_argument("--quick", action="store_true", help="fewer or smaller tables")
    arguments = parser.parse_args()
    print("\n".join(f"{name}: {value}" for name, value in machine().items()) + "\n")
    found = importlib.import_module(f"benchmarks.{arguments.what}").run(arguments.quick)
    print(found if isinstance(found, str) else show(found))


if __name__ == "__main__":
    main()
