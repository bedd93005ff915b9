"""Closing the gap of three and more groups: what a search proves, how fast, and if it is true.

`run` solves problems whose dual leaves a gap and prints what the dual, a default fit and
``prove=SECONDS`` prove. `rigour` attacks the bounds: on problems with a gap it looks for a better
projection from random starts, by a descent that shares nothing with the package.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np

import fairpca
from benchmarks.cases import several
from benchmarks.many import environments
from benchmarks.race import say
from fairpca import GroupMoments
from fairpca.criteria import pose
from fairpca.solvers.many_groups import solve_many_groups

# Most seconds that a search may take in the tables.
_SECONDS = 20.0
# Random problems per round of `rigour`, columns and groups of each drawn anew.
_COLUMNS, _GROUPS = (2, 9), (3, 9)


def _credit(by_sex: bool) -> Any:
    """Credit without both columns: by education in four levels, or by sex and three levels."""
    X, labels = several("credit", 8)
    sex, education = np.asarray(labels).astype(str).T
    if by_sex:
        rest = np.where(np.isin(education, ("graduate school", "university")), education, "rest")
        return GroupMoments.from_array(X, np.char.add(sex, rest)).covariances
    return GroupMoments.from_array(X, education).covariances


def _lines(k: int) -> Any:
    from many_group_problems import lines

    return lines(k)


def _lemma() -> Any:
    from many_group_problems import lemma_8_1

    return lemma_8_1()


def _listed() -> list[tuple[str, Any, int, str, float]]:
    """Return named problems: matrices, rank, criterion, and the gap that is asked for."""
    found: list[tuple[str, Any, int, str, float]] = []
    for seed, ranks in ((2, (2, 3, 6)), (3, (3, 5, 6)), (4, (3, 7))):
        matrices = environments(10, 5, seed)
        found += [(f"p=10 k=5 seed {seed} r={r}", matrices, r, "loss", 1e-8) for r in ranks]
    found.append(("credit sex x edu3 r=5", _credit(by_sex=True), 5, "loss", 1e-4))
    found.append(("credit edu4 r=6", _credit(by_sex=False), 6, "loss", 1e-4))
    for seed, r in ((2, 9), (3, 3), (4, 5)):
        found.append((f"p=50 k=5 seed {seed} r={r}", environments(50, 5, seed), r, "loss", 1e-4))
    for seed in (2, 3):
        found.append((f"p=10 k=50 seed {seed} r=3", environments(10, 50, seed), 3, "loss", 1e-3))
    found += [(f"{k} lines", _lines(k), 1, "loss", 1e-6) for k in (3, 4, 5, 7)]
    found.append(("26/17 against 7/4", _lemma(), 1, "variance", 1e-6))
    return found


def _row(name: str, matrices: Any, r: int, criterion: str, tol: float) -> dict[str, Any]:
    """Solve one problem by the dual alone, by default, and with a proof asked for."""
    alone = solve_many_groups(pose(matrices, r, criterion), exact_search=False).certificate
    begin = time.perf_counter()
    default = fairpca.solve(matrices, r, criterion=criterion).certificate
    middle = time.perf_counter()
    asked = {"prove": _SECONDS, "tol": tol}
    proven = fairpca.solve(matrices, r, criterion=criterion, **asked).certificate  # type: ignore[arg-type]
    return {
        "problem": name,
        "dual gap": alone.gap,
        "default gap": default.gap,
        "default s": middle - begin,
        "nodes": default.nodes,
        "asked": tol,
        "proven gap": proven.gap,
        "prove s": time.perf_counter() - middle,
        "prove nodes": proven.nodes,
        "value fell by": (alone.value - proven.value) / max(abs(alone.value), 1e-9),
    }


def run(fresh: int = 200, seed: int = 1000) -> list[dict[str, Any]]:
    """Return a row for every listed problem, and one for `fresh` random ones of five groups."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        rows = []
        for name, *rest in _listed():
            say(f"searching {name} ...")
            rows.append(_row(name, *rest))
        problems = ((environments(10, 5, seed + i // 9), 1 + i % 9) for i in range(fresh))
        taken = [_row("", matrices, r, "loss", 1e-3) for matrices, r in problems]
    columns = {key: np.array([row[key] for row in taken]) for key in taken[0] if key != "problem"}
    gaps = ("dual gap", "default gap", "proven gap")
    say(f"{fresh} fresh problems, 5 groups, 10 columns, all ranks:")
    for key in gaps:
        to = {tol: int(np.sum(columns[key] <= tol)) for tol in (1e-3, 1e-6, 1e-8)}
        say(f"  {key}: " + ", ".join(f"{many} to {tol:.0e}" for tol, many in to.items()))
    for key in ("default s", "prove s"):
        say(f"  {key}: median {np.median(columns[key]):.3f}, largest {columns[key].max():.1f}")
    return rows


def rigour(problems: int = 200, starts: int = 200, seed: int = 0) -> list[dict[str, Any]]:
    """Return one row: how many bounds were attacked, and by how much the best attack missed.

    Only problems whose dual leaves a gap count. Negative misses would be a false proof.
    """
    rng = np.random.default_rng(seed)
    missed: list[float] = []
    proven = tried = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while len(missed) < problems:
            tried += 1
            n, k = int(rng.integers(*_COLUMNS)), int(rng.integers(*_GROUPS))
            r = int(rng.integers(1, n))
            roots = rng.standard_normal((k, n, n)) * rng.uniform(0.2, 1.0, (k, 1, n))
            matrices = roots @ np.swapaxes(roots, 1, 2)
            alone = solve_many_groups(pose(matrices, r), exact_search=False).certificate
            if alone.gap <= 1e-6:
                continue
            found = fairpca.solve(matrices, r, prove=_SECONDS, tol=1e-6).certificate
            offsets = np.array([np.linalg.eigvalsh(matrix)[-r:].sum() for matrix in matrices])
            best = _attack(matrices, offsets, r, starts, rng)
            missed.append((best - found.lower_bound) / found.value)
            proven += found.gap <= 1.1e-6
    return [
        {
            "open duals": problems,
            "of": tried,
            "starts each": starts,
            "proven to 1e-6": proven,
            "least miss": float(np.min(missed)),
            "median miss": float(np.median(missed)),
        }
    ]


def _attack(matrices: Any, offsets: Any, r: int, starts: int, rng: Any) -> float:
    """Return the smallest worst loss of `starts` descents on a smooth maximum of the losses.

    Gradient steps with momentum on matrices of orthonormal columns, brought back by a QR
    decomposition; the maximum is smoothed by a temperature that falls.
    """
    n = matrices.shape[1]
    U = np.linalg.qr(rng.standard_normal((starts, n, r)))[0]
    scale = float(np.abs(matrices).max()) * n
    best = np.inf
    velocity = np.zeros_like(U)
    for step in range(300):
        images = np.einsum("kab,sbr->skar", matrices, U)
        losses = offsets - np.einsum("sar,skar->sk", U, images)
        best = min(best, float(losses.max(axis=1).min()))
        heat = scale * 10.0 ** (-1.5 - 4.0 * step / 300)
        soft = np.exp((losses - losses.max(axis=1, keepdims=True)) / heat)
        soft /= soft.sum(axis=1, keepdims=True)
        slope = np.einsum("sk,skar->sar", soft, images)
        slope -= U @ (np.swapaxes(U, 1, 2) @ slope)
        velocity = 0.8 * velocity + slope * (2.0 / scale) * 10.0 ** (-1.5 * step / 300)
        U = np.linalg.qr(U + velocity)[0]
    return best
