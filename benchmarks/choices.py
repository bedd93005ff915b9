"""``solver="auto"`` against every driver it could have chosen, and the path of all ranks."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from benchmarks.cases import SPECTRA, bank, cases, credit, crop_shape, faces, rows_like
from benchmarks.race import race, say
from fairpca import FairPCA, GroupMoments, component_path

SHAPES = [(n, k) for n in (64, 128, 256, 512, 900) for k in (2, 4)]
RANKS = (4, 8, 16, 32)
SOLVERS = ("auto", "dense", "krylov")


def moments_like(n: int, k: int, spectrum: str) -> GroupMoments:
    """Return moments of k groups whose spectra differ, in a random basis."""
    X, groups = rows_like(10_000, n, k, spectrum)
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(n, n)))[0]
    return GroupMoments.from_array(X @ turn.T, groups)


def tables() -> Iterator[tuple[str, GroupMoments, int]]:
    """Yield the problems of the table of ratios that moments describe."""
    for make in cases():
        for case in make():
            if case.X.shape[1] < 5000 and " as " not in case.name:
                moments = GroupMoments.from_array(case.X, case.groups)
                yield case.name, moments, case.r


def grid() -> Iterator[tuple[str, GroupMoments, int]]:
    """Yield generated problems."""
    for n, k in SHAPES:
        for spectrum in SPECTRA:
            moments = moments_like(n, k, spectrum)
            for r in RANKS:
                yield f"{n} x {k} {spectrum} r={r}", moments, r


def run(quick: bool) -> list[dict[str, Any]]:
    """Solve every problem with every solver a user can name, the real tables' first."""
    rows = []
    for name, moments, r in chain(tables(), () if quick else grid()):
        say(f"{name} ...")
        runs = {
            solver: partial(FairPCA(r, solver=solver).fit_moments, moments) for solver in SOLVERS
        }
        best = race(runs, seconds=1, most=30)
        fastest = min(best.values())
        rows.append({"case": name, **best, "auto / best": best["auto"] / fastest})
    return rows


def summary(rows: list[dict[str, Any]]) -> str:
    """Return how far from the best choice the automatic one is."""
    ratios = np.array([row["auto / best"] for row in rows])
    within = np.mean(ratios <= 1.3)
    return (
        f"auto within 30 % of the best choice in {within:.0%} of {len(ratios)} problems, "
        f"worst {ratios.max():.2f}, median {np.median(ratios):.2f}"
    )


def ranks() -> list[dict[str, Any]]:
    """Time all ranks up to R against R alone, counting the rows included."""
    rows = []
    for name, load, most in (
        ("bank", bank, 15),
        ("credit", credit, 15),
        ("crop shape", crop_shape, 60),
        ("faces", faces, 20),
        ("faces", faces, 50),
    ):
        X, groups = load()
        say(f"ranks of {name} up to {most} ...")
        moments = GroupMoments.from_array(X, groups)
        best = race(
            {
                "counting": lambda X=X, g=groups: GroupMoments.from_array(X, g),
                "largest": lambda m=moments, r=most: FairPCA(r).fit_moments(m),
                "all": lambda m=moments, r=most: component_path(m, r),
            },
            seconds=10,
            most=10,
        )
        alone = best["counting"] + best["largest"]
        rows.append(
            {
                "case": f"{name} R={most}",
                **{f"{part} s": seconds for part, seconds in best.items()},
                "all / largest, with counting": (best["counting"] + best["all"]) / alone,
            }
        )
    return rows
