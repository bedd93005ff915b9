"""``python -m experiments``: reproduce the paper's tables and figures."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from experiments.run import run

_RESULTS = Path(__file__).parent / "results"


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line and run everything."""
    parser = argparse.ArgumentParser(
        prog="python -m experiments",
        description="Reproduce the tables and figures of the Fair PCA paper, and some it does not "
        "have. Data files are looked for in FAIRPCA_DATA and downloaded when they are not there. "
        "An interrupted run continues where it stopped.",
    )
    parser.add_argument("--quick", action="store_true", help="a version of about a minute")
    parser.add_argument(
        "--output", type=Path, help="folder to write (default: experiments/results)"
    )
    parser.add_argument(
        "--no-download", action="store_true", help="use only files that are already there"
    )
    parser.add_argument("--threads", type=int, default=1, help="BLAS threads (default: 1)")
    parser.add_argument(
        "--reuse",
        action="store_true",
        help="keep results of older code too: redo only what is missing, figures and text",
    )
    options = parser.parse_args(arguments)
    output = options.output or (_RESULTS / "quick" if options.quick else _RESULTS)
    found = run(
        output,
        quick=options.quick,
        download=not options.no_download,
        threads=options.threads,
        reuse=options.reuse,
        cache=None if options.output else _RESULTS / ".cache",
    )
    for name, reason in found["missing"].items():
        print(f"{name}: left out. {reason}", file=sys.stderr)
    print(f"{output / 'RESULTS.md'} written after {found['seconds']:.0f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
