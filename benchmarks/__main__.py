"""``python -m benchmarks NAME``: one table of measurements; ``--help`` lists the names."""

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
        choices=(
            "ratios solvers choices ranks many gaps rigour worst_case new_rows intervals scaling "
            "memory streaming engines device calibrate functions"
        ).split(),
    )
    parser.add_argument("--quick", action="store_true", help="fewer tables")
    parser.add_argument("--folder", type=Path, default=Path("benchmarks/results"))
    parser.add_argument("--rows", type=int, help="streaming, engines: rows to write")
    parser.add_argument("--columns", type=int, default=50, help="streaming: columns to write")
    parser.add_argument(
        "--repeats", type=int, default=3, help="streaming: rounds; the best counts"
    )
    parser.add_argument(
        "--small",
        type=lambda text: tuple(map(int, text.split(","))),
        default=(20, 50, 200, 1000),
        help="new_rows: rows of the small group, such as 20,50",
    )
    parser.add_argument(
        "--draws",
        type=int,
        help="new_rows (60), intervals (200): samples; gaps, rigour (200): problems; "
        "worst_case (10): seeds",
    )
    parser.add_argument("--seed", type=int, default=0, help="new_rows: seed of the samples")
    parser.add_argument("--data", type=Path, help="streaming: keep the files in this folder")
    parser.add_argument("--peer", type=Path, help="worst_case: folder of the authors' minPCA")
    arguments = parser.parse_args()
    from benchmarks import (
        calibrate,
        choices,
        device,
        functions,
        gaps,
        many,
        memory,
        new_rows,
        ratios,
        scaling,
        streaming,
        worst_case,
    )

    print(ratios.header() + "\n")
    if arguments.what == "scaling":
        print(scaling.run(arguments.folder))
        return
    if arguments.what == "memory":
        print(json.dumps(memory.run(), indent=1))
        return
    if arguments.what == "streaming":
        found = streaming.run(
            arguments.rows or 5_000_000, arguments.columns, arguments.data, arguments.repeats
        )
        print(streaming.show(found))
        arguments.folder.mkdir(parents=True, exist_ok=True)
        (arguments.folder / "streaming.json").write_text(json.dumps(found, indent=1))
        return
    if arguments.what == "engines":
        from benchmarks import engines

        print(engines.run(arguments.rows or 10_000_000))
        return
    tables = {
        "ratios": lambda: ratios.run(arguments.quick),
        "device": lambda: device.run(arguments.quick),
        "calibrate": lambda: calibrate.run(arguments.quick),
        "solvers": ratios.compare_solvers,
        "choices": lambda: choices.run(arguments.quick),
        "ranks": choices.ranks,
        "many": many.run,
        "functions": functions.run,
        "gaps": lambda: gaps.run(arguments.draws or 200),
        "rigour": lambda: gaps.rigour(arguments.draws or 200, seed=arguments.seed),
        "worst_case": lambda: worst_case.run(arguments.quick, arguments.peer, arguments.draws),
        "new_rows": lambda: new_rows.run(arguments.small, arguments.draws or 60, arguments.seed),
        "intervals": lambda: new_rows.intervals(arguments.draws or 200, arguments.seed),
    }
    rows = tables[arguments.what]()
    print(ratios.show(rows))
    if arguments.what == "choices":
        print(choices.summary(rows))
    arguments.folder.mkdir(parents=True, exist_ok=True)
    (arguments.folder / f"{arguments.what}.json").write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
