"""The table of ratios: FairPCA over PCA on the same rows."""

from __future__ import annotations

from typing import Any

from benchmarks.cases import Case, cases
from benchmarks.peers import contestants, fair_peers
from benchmarks.race import machine, race, say


def run(quick: bool) -> list[dict[str, Any]]:
    """Time every case and return one row each."""
    rows = []
    for make in cases(quick):
        for case in make():
            say(f"timing {case.name} ...")
            rows.append(measure(case))
    return rows


def measure(case: Case) -> dict[str, Any]:
    """Time one case."""
    runs = contestants(case.X, case.groups, case.r)
    best = race(runs, seconds=6 if case.X.shape[0] * case.X.shape[1] < 5e6 else 25)
    ours = best.pop("FairPCA")
    default = best.get("PCA", best.get("PCA(arpack)", float("nan")))
    fastest = min(best.values())
    return {
        "case": case.name,
        "FairPCA s": ours,
        "PCA s": default,
        "ratio": ours / default,
        "limit": case.against_default,
        "fastest exact s": fastest,
        "ratio to it": ours / fastest,
        "its limit": case.against_exact,
    }


def compare_solvers() -> list[dict[str, Any]]:
    """Time the published fair solvers on the moments of bank, credit and faces."""
    from benchmarks.cases import bank, credit, faces

    rows = []
    for name, load, ranks in (
        ("bank", bank, (4,)),
        ("credit", credit, (5, 10)),
        ("faces", faces, (50,)),
    ):
        X, groups = load()
        for r in ranks:
            say(f"fair solvers on {name} r={r} ...")
            runs = fair_peers(X, groups, r)
            if name == "faces":
                runs.pop("Mirror-Prox, 500 steps")
            best = race(runs, seconds=10, most=8)
            ours = best["FairPCA"]
            rows.append(
                {"case": f"{name} r={r}", **{peer: taken / ours for peer, taken in best.items()}}
            )
    return rows


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


def header() -> str:
    """Return the machine in one paragraph."""
    return "\n".join(f"{name}: {value}" for name, value in machine().items())
