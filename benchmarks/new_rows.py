"""Whom a projection serves on rows nobody has seen: shares, limits, advice and intervals.

Every number is about rows that had no part in a fit. Whatever is fitted gets a part of a real
table, and the disjoint rest is the truth; rows of one utterance stay together. A group's excess is
its error minus that of the best projection of the rest's rows for this group alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from functools import reduce
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn import datasets as sk
from sklearn.preprocessing import scale

import fairpca
from benchmarks.race import say, show
from fairpca import FairPCA, GroupMoments, datasets
from fairpca.cross_fitting import _own_errors, usual_fits
from fairpca.moments.group_moments import split_folds
from fairpca.moments.groups import Groups, block_codes

_SPLITS, _SAMPLES, _COVERED = 6, 8, 12


class Cell(NamedTuple):
    """A table, its groups, numbers of components, and which rows belong together."""

    X: Any
    groups: Any
    ranks: tuple[int, ...]
    blocks: Any = None


def _cells() -> dict[str, Cell]:
    """Return real tables by name; in those called "at random" groups were dealt by chance."""
    law, voices = datasets.fetch_law_school(), datasets.load_japanese_vowels()
    credit = {s: datasets.fetch_credit_default(sensitive=s) for s in ("education", "marriage")}
    bank = {s: datasets.fetch_bank_marketing(sensitive=s) for s in ("job", "marital")}
    digits, wine, tumours = sk.load_digits(), sk.load_wine(), sk.load_breast_cancer()
    diabetes, iris = sk.load_diabetes(), sk.load_iris()
    # One split in two parts has every row once; its last column, race, is among the others, too.
    with np.load(Path(datasets.loading.resolve_home()) / "compas_splits.npz") as parts:
        compas = np.vstack([parts["train_0"], parts["test_0"]])
    utterance = block_codes(
        [f"{s} {u}" for s, u in zip(voices.sensitive_features, voices.utterance, strict=True)]
    )[0]
    named = {
        "law school by race": Cell(law.data, law.sensitive_features, (2, 4)),
        "voices by speaker": Cell(voices.data, voices.sensitive_features, (2, 4), utterance),
        "digits by digit": Cell(digits.data, digits.target, (5, 10)),
        "digits, 1 or not": Cell(digits.data, digits.target == 1, (5,)),
        "credit by education": Cell(*_of(credit["education"]), (5,)),
        "credit by marriage": Cell(*_of(credit["marriage"]), (5,)),
        "bank by job": Cell(*_of(bank["job"]), (3,)),
        "bank by marital status": Cell(*_of(bank["marital"]), (3,)),
        "compas by race": Cell(compas[:, :11], compas[:, 12], (3,)),
        "wine by cultivar": Cell(wine.data, wine.target, (2,)),
        "tumours by kind": Cell(tumours.data, tumours.target, (3,)),
        "diabetes by sex": Cell(
            np.delete(diabetes.data, 1, axis=1), diabetes.data[:, 1] > 0, (3,)
        ),
        "iris by species": Cell(iris.data, iris.target, (1,)),
        "law school at random": Cell(law.data, _dealt(law.data, 4), (2,)),
        "credit at random": Cell(
            credit["education"].data, _dealt(credit["education"].data, 2), (5,)
        ),
        "bank at random": Cell(bank["job"].data, _dealt(bank["job"].data, 6), (3,)),
        "digits at random": Cell(digits.data, _dealt(digits.data, 3), (5,)),
    }
    # Pixels have one unit; columns of people do not.
    return {
        name: cell._replace(X=cell.X if "digits" in name else scale(np.asarray(cell.X)))
        for name, cell in named.items()
    }


def _of(bunch: Any) -> tuple[Any, Any]:
    return bunch.data, bunch.sensitive_features


def _dealt(X: Any, k: int) -> Any:
    return np.random.default_rng(0).integers(k, size=len(X))


def run(quick: bool = False) -> str:
    """Return three tables: excess on the other half, the advice, and coverage."""
    cells = _cells()
    draws = (2, 4, 6) if quick else (_SPLITS, _SAMPLES, _COVERED)
    if quick:
        cells = {name: cell for name, cell in cells.items() if len(cell.X) < 3000}
    parts = {
        f"Excess of the worst group on the other half, over PCA's, {draws[0]} splits": halves(
            cells, draws[0]
        ),
        f"Advice from small samples, {draws[1]} of each table": advice(cells, draws[1]),
    }
    if not quick:
        title = f"Voices by utterance: share of 95 % intervals that hold, {draws[2]} samples"
        parts[title] = coverage(cells["voices by speaker"], draws[2])
    return "\n\n".join(f"{title}\n{show(table)}" for title, table in parts.items())


def _parts(cell: Cell, wanted: float, draws: int) -> Iterator[tuple[Any, Any]]:
    """Yield the rows of a sample, that share of every group's blocks, and all others."""
    blocks = np.arange(len(cell.X)) if cell.blocks is None else cell.blocks
    first = np.unique(blocks, return_index=True)[1]
    of_block = np.asarray(cell.groups)[first]
    for draw in range(draws):
        rng = np.random.default_rng(draw)
        inside = np.zeros(len(first), dtype=bool)
        for label in np.unique(of_block):
            mine = rng.permutation(np.flatnonzero(of_block == label))
            inside[mine[: round(wanted * len(mine))]] = True
        yield np.flatnonzero(inside[blocks]), np.flatnonzero(~inside[blocks])


def _folds(cell: Cell, rows: Any, seed: int) -> list[GroupMoments]:
    """Return the moments of rows in five folds."""
    blocks = rows if cell.blocks is None else cell.blocks[rows]
    blocks = np.random.default_rng(seed).permutation(len(cell.X))[blocks]
    groups = Groups.of(np.asarray(cell.groups)[rows], len(rows))
    counted = GroupMoments.from_array(cell.X[rows], groups.dealt(5, blocks))
    # A fold may lack a group.
    return [part.over(groups.labels) for part in split_folds(counted, 5)]


def _fits() -> dict[str, Any]:
    """Return what an audit compares, and shares without a limit on harm."""
    return {**usual_fits(), "auto": FairPCA(shrinkage="auto")}


def _fitted(fits: dict[str, Any], folds: list[GroupMoments], r: int) -> dict[str, Any]:
    """Return the fits, fitted."""
    whole = reduce(GroupMoments.merge, folds)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for fit in fits.values():
            known = fit.get_params()
            # Searches for the last digits take long and change nothing here.
            fit.set_params(n_components=r, **({"tol": 1e-6} if "tol" in known else {}))
            in_folds = known.get("shrinkage") == "auto"
            fit.fit_moments(folds if in_folds else whole)
    return fits


def _errors(fit: Any, S: Any) -> Any:
    """Return every group's error by its second moments."""
    return np.trace(S, axis1=1, axis2=2) - np.einsum(
        "rn,knm,rm->k", fit.components_, S, fit.components_
    )


def halves(cells: dict[str, Cell], splits: int) -> list[dict[str, Any]]:
    """Return a line a table and rank: the worst group's excess of every fit over PCA's."""
    lines = []
    for name, cell in cells.items():
        for r in cell.ranks:
            say(f"halves: {name}, r = {r}")
            worst: dict[str, list[float]] = {}
            change: dict[str, list[Any]] = {}
            for seed, (seen, new) in enumerate(_parts(cell, 0.5, splits)):
                fits = _fitted(_fits(), _folds(cell, seen, seed), r)
                truth = GroupMoments.from_array(cell.X[new], np.asarray(cell.groups)[new])
                S = truth.second_moments(fits["PCA"].mean_)
                own = np.linalg.eigvalsh(S)[:, :-r].sum(axis=1)
                errors = {fit: _errors(model, S) for fit, model in fits.items()}
                for fit, error in errors.items():
                    worst.setdefault(fit, []).append(float((error - own).max()))
                    share = (error - errors["PCA"]) / np.trace(S, axis1=1, axis2=2)
                    change.setdefault(fit, []).append(share)
            mean = {fit: float(np.mean(part)) for fit, part in worst.items()}
            harm = {fit: float(np.mean(part, axis=0).max()) for fit, part in change.items()}
            over = {fit: mean[fit] / mean["PCA"] for fit in mean}
            lines.append(
                {"table": name, "r": r, "PCA": mean["PCA"]}
                | {fit: over[fit] for fit in over if fit != "PCA"}
                | {"auto / better": over["auto"] / min(1.0, over["FairPCA"])}
                | {f"harm, {fit}": f"{100 * max(harm[fit], 0):.1f} %" for fit in _HARM}
            )
    real = [line for line in lines if "random" not in line["table"]]
    ratios = np.log([line["auto / better"] for line in real])
    lines.append(
        {"table": "geometric mean, real groups", "auto / better": float(np.exp(ratios.mean()))}
        | {
            fit: float(np.exp(np.mean(np.log([line[fit] for line in real]))))
            for fit in ("balanced PCA", "FairPCA", "careful FairPCA", "auto")
        }
    )
    return lines


_HARM = ("balanced PCA", "FairPCA", "careful FairPCA")

# Rows of a sample, as a share: so few that the gain is hard to see.
_SAMPLED = {
    "law school by race": 0.04,
    "digits, 1 or not": 0.15,
    "bank by job": 0.1,
    "bank by marital status": 0.04,
    "compas by race": 0.3,
    "law school at random": 0.1,
    "credit at random": 0.1,
    "bank at random": 0.1,
    "digits at random": 0.5,
}


def advice(cells: dict[str, Cell], samples: int) -> list[dict[str, Any]]:
    """Return how often an audit advises another fit, and how often its intervals hold the gain.

    On all rows that were not drawn: the gain of careful FairPCA, and of what was advised how much
    larger than PCA's the worst group's excess is, how far a group's error rises, and how far past
    the limit that the audit stated, each at its worst over samples.
    """
    lines = []
    for name, share in _SAMPLED.items():
        if name not in cells:
            continue
        cell, r = cells[name], cells[name].ranks[0]
        say(f"advice: {name}, r = {r}")
        kinds, held, gains, harms, worse = [], [], [], [], []
        for seed, (rows, rest) in enumerate(_parts(cell, share, samples)):
            groups = np.asarray(cell.groups)
            blocks = None if cell.blocks is None else cell.blocks[rows]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = fairpca.audit(
                    cell.X[rows], groups[rows], r, ranks=[r], blocks=blocks, random_state=seed
                )
            folds = _folds(cell, rows, seed)
            fits = _fitted(usual_fits(), folds, r)
            truth = GroupMoments.from_array(cell.X[rest], groups[rest])
            S = truth.second_moments(fits["PCA"].mean_)
            own = _own_errors(folds, truth, fits["PCA"].mean_, np.array([r]))[0]
            errors = {fit: _errors(fits[fit], S) for fit in usual_fits()}
            before = (errors["PCA"] - own).max()
            kinds.append(found.advice.kind)
            advised = errors[found.advice.reducer]
            harm = ((advised - errors["PCA"]) / np.trace(S, axis1=1, axis2=2)).max()
            harms.append((harm, harm - found.advice.harm))
            worse.append(((advised - own).max() - before) / before)
            for line in found.of("new", r)[1:]:
                gain = before - (errors[line.reducer] - own).max()
                held.append(line.gain_low <= gain <= line.gain_high)
                if line.reducer == "careful FairPCA":
                    gains.append(gain / before)
        lines.append(
            {"table": name, "r": r, "rows": len(rows)}
            | {"gain, careful": f"{100 * np.mean(gains):.0f} %"}
            | {kind: kinds.count(kind) / samples for kind in ("better", "as good", "cannot tell")}
            | {"gain held": float(np.mean(held)), "worst group": f"{100 * max(worse):+.1f} %"}
            | {
                name: f"{100 * max(part, 0):.1f} %"
                for name, part in zip(
                    ("harm", "past what was said"), np.max(harms, axis=0), strict=True
                )
            }
        )
    return lines


def coverage(cell: Cell, samples: int) -> list[dict[str, Any]]:
    """Return how often intervals of group losses hold the loss on all rows not drawn."""
    lines, r = [], cell.ranks[0]
    fits = {"PCA": usual_fits()["PCA"], "FairPCA": FairPCA(tol=1e-6)}
    groups = np.asarray(cell.groups)
    held: dict[str, list[Any]] = {"without blocks": [], "with blocks": []}
    for seed, (rows, rest) in enumerate(_parts(cell, 0.25, samples)):
        say(f"coverage: {seed + 1} of {samples}")
        folds = _folds(cell, rows, seed)
        truth = GroupMoments.from_array(cell.X[rest], groups[rest])
        known = _fitted(fits, folds, r)
        S = truth.second_moments(known["PCA"].mean_)
        own = _own_errors(folds, truth, known["PCA"].mean_, np.array([r]))[0]
        losses = np.array([_errors(known[fit], S) - own for fit in fits])
        for kind, blocks in (("without blocks", None), ("with blocks", cell.blocks[rows])):
            options = {"fits": fits, "blocks": blocks, "random_state": seed}
            found = fairpca.cross_fit(cell.X[rows], groups[rows], r, **options)
            held[kind].append((found.low[:, 0] <= losses) & (losses <= found.high[:, 0]))
    for kind, hits in held.items():
        mean = np.mean(hits, axis=0)
        lines.append(
            {
                "intervals": kind,
                "mean": float(mean.mean()),
                "least of any group": float(mean.min()),
            }
        )
    return lines
