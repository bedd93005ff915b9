"""``python -m benchmarks [ratios|solvers|scaling|memory|engines] [--quick]``."""

from __future__ import annotations

import argparse
import json
from pathlib import Path


def main() -> None:
    """Run one benchmark and print its table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument(
        "what",
        nargs="?",
        default="ratios",
        choices=["ratios", "solvers", "scaling", "memory", "engines"],
    )
    parser.add_argument("--rows", type=int, default=10_000_000, help="of engines")
    parser.add_argument("--quick", action="store_true", help="small tables only")
    parser.add_argument("--folder", type=Path, default=Path("benchmarks/results"))
    arguments = parser.parse_args()
    from benchmarks import memory, ratios, scaling

    print(ratios.header() + "\n")
    if arguments.what == "scaling":
        print(scaling.run(arguments.folder))
        return
    if arguments.what == "memory":
        print(json.dumps(memory.run(), indent=1))
        return
    if arguments.what == "engines":
        from benchmarks import engines

        print(engines.run(arguments.rows))
        return
    rows = ratios.run(arguments.quick) if arguments.what == "ratios" else ratios.compare_solvers()
    print(ratios.show(rows))
    arguments.folder.mkdir(parents=True, exist_ok=True)
    (arguments.folder / f"{arguments.what}.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
