"""Worst-case PCA of Fries, Reichstein, Blei and Peters (2026): their solver beside ours.

Their comparison again: covariances as they draw them, 10 columns with 5 and 50 environments and
50 columns with 5, every rank, for the least variance kept (MM_Var) and the largest loss (MM_Loss).
Two lines more are of samples, as in their third simulation. Their code
(github.com/anyafries/minPCA, needs torch) is run from the folder given with ``--peer``, with the
settings of their scripts; without it only our columns are filled. Everybody gets one thread, the
time is CPU time, and all bases are judged by the same function in double precision.
"""

from __future__ import annotations

import importlib
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

import fairpca
from benchmarks.many import environments
from benchmarks.race import say
from fairpca.criteria import pose

# How long a gap may be searched, in seconds, in the columns "prove".
_SECONDS = 20.0
# The relative gap that counts as proven here. Their code computes in single precision, so that
# much finer differences would say more about rounding than about the methods.
_PROVEN = 1e-3
# Everything is measured in variances of an environment, which are one. A value counts as beaten by
# more than this; less is rounding.
_BEATEN = 1e-9
# Values below this are zero to their single precision (at rank one all environments may share the
# first component), and an excess relative to them would be a ratio of rounding errors.
_ZERO = 1e-5
# The seeds of their figures.
_SEEDS = range(2, 12)


@dataclass(frozen=True)
class Line:
    """One line of the table: what is drawn, what is asked, and how their script calls their code.

    `rows` is how many rows each environment's sample has; zero takes the covariances themselves.
    """

    name: str
    p: int
    k: int
    criterion: str
    ranks: tuple[int, ...]
    function: str
    rows: int = 0
    norm: bool = False
    restarts: int = 5
    rate: float = 0.1
    steps: int = 100

    def problems(self, seeds: Any) -> Iterator[tuple[Any, int]]:
        """Yield covariances and rank."""
        for seed in seeds:
            covariances = environments(self.p, self.k, seed)
            if self.rows:
                covariances = _sampled(covariances, self.rows, seed)
            for r in self.ranks:
                yield covariances, r


def _sampled(covariances: Any, rows: int, seed: int) -> Any:
    """Return the covariances of so many normal rows of each environment."""
    rng = np.random.default_rng(seed)
    values, vectors = np.linalg.eigh(covariances)
    roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
    drawn = (rng.standard_normal((rows, len(root))) @ root.T for root in roots)
    return np.array([np.cov(X.T) for X in drawn])


def lines(quick: bool) -> list[Line]:
    """Return their grid; `quick` takes every sixth rank of fifty columns.

    From rank 30 on, five environments of fifty columns lose nothing: there is nothing to compare.
    """
    found = []
    for p, k in ((10, 5), (10, 50), (50, 5)):
        ranks = tuple(range(1, p) if p == 10 else range(1, 30, 6 if quick else 1))
        for name, criterion, function in (
            ("MM_Var", "variance", "minpca"),
            ("MM_Loss", "loss", "maxregret"),
        ):
            found.append(Line(f"{name} p={p} k={k}", p, k, criterion, ranks, function))
    for n in (100, 1000):
        found.append(
            Line(
                f"share, {n} rows each, p=20 k=5",
                20,
                5,
                "share",
                (5,),
                "minpca",
                rows=n,
                norm=True,
                restarts=10,
                rate=0.5,
                steps=1000,
            )
        )
    return found


def _load(peer: Path) -> Callable[[Any, int, Line], Any]:
    """Return a function that runs their code from its folder and gives an orthonormal basis."""
    sys.path.insert(0, str(peer))
    torch: Any = importlib.import_module("torch")
    method = importlib.import_module("minPCA.minpca").minPCA
    torch.set_num_threads(1)
    torch.manual_seed(2)

    def run(covariances: Any, r: int, line: Line) -> Any:
        model = method(n_components=r, norm=line.norm, function=line.function)
        model.fit(list(covariances), n_restarts=line.restarts, lr=line.rate, n_iters=line.steps)
        return np.linalg.qr(model.v_.detach().numpy().astype(float))[0]

    return run


def _timed(run: Callable[[], Any]) -> tuple[Any, float]:
    begin = time.process_time()
    found = run()
    return found, time.process_time() - begin


def _measure(line: Line, seeds: Any, theirs: Any) -> list[dict[str, float]]:
    """Return values, gaps and times of every problem of a line.

    Where a fit is proven by default, nothing is left to search and "prove" is that fit.
    """
    found = []
    for covariances, r in line.problems(seeds):

        def ours(prove: float | bool, S: Any = covariances, r: int = r) -> Any:
            return fairpca.solve(S, r, criterion=line.criterion, prove=prove)

        default, seconds = _timed(lambda: ours(False))
        longer, more = default, seconds
        if default.certificate.gap > _PROVEN:
            longer, more = _timed(lambda: ours(_SECONDS))
        row = {
            "default": default.certificate.value,
            "default gap": default.certificate.gap,
            "default s": seconds,
            "prove": longer.certificate.value,
            "prove gap": longer.certificate.gap,
            "prove s": more,
            "nodes": longer.certificate.nodes,
        }
        if theirs is not None:
            basis, taken = _timed(lambda S=covariances, r=r: theirs(S, r, line))
            value = pose(covariances, r, line.criterion).losses(basis).max()
            row |= {"theirs": float(value), "theirs s": taken}
        found.append(row)
    return found


def _row(line: Line, found: list[dict[str, float]]) -> dict[str, Any]:
    """Return one line of the table.

    "nodes" is the median of the problems that were searched, and "zero" how many problems have a
    best value of zero: they are left out of the two columns of relative excess.
    """
    of = {name: np.array([row[name] for row in found]) for name in found[0]}
    searched = of["default gap"] > _PROVEN
    table: dict[str, Any] = {
        "problems": line.name,
        "number": len(found),
        "ours ms": 1e3 * float(np.median(of["default s"])),
        "prove ms": 1e3 * float(np.median(of["prove s"])),
        "proven": len(found) - int(np.sum(searched)),
        "proven, prove": int(np.sum(of["prove gap"] <= _PROVEN)),
        "largest gap %": 100 * float(of["default gap"].max()),
        "largest gap %, prove": 100 * float(of["prove gap"].max()),
        "nodes": float(np.median(of["nodes"][searched])) if searched.any() else None,
    }
    if "theirs" not in of:
        return table
    above = of["theirs"] - of["default"]
    some = np.abs(of["default"]) > _ZERO
    relative = 100 * above[some] / np.abs(of["default"][some])
    table["theirs ms"] = 1e3 * float(np.median(of["theirs s"]))
    table["theirs above, median %"] = float(np.median(relative))
    table["largest %"] = float(relative.max())
    table["zero"] = int(np.sum(~some))
    for name in ("default", "prove"):
        beaten = int(np.sum(of["theirs"] < of[name] - _BEATEN))
        table[f"who beats {name}"] = f"theirs, {beaten} times" if beaten else "nobody"
    return table


def run(
    quick: bool = False, peer: Path | None = None, draws: int | None = None
) -> list[dict[str, Any]]:
    """Solve every line of the table; `quick` draws once and not ten times."""
    theirs = None if peer is None else _load(peer)
    seeds = _SEEDS[: draws or (1 if quick else None)]
    rows = []
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fairpca.solve(environments(10, 5, 0), 2)  # imports and first calls are not timed
        for line in lines(quick):
            say(f"solving {line.name} ...")
            rows.append(_row(line, _measure(line, seeds, theirs)))
    return rows
