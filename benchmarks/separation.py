"""Every pair of groups apart, beside discriminant analysis and others, on rows left out.

A method reduces the rows that it is fitted to, and new rows go to the nearest mean of a group; a
mean of few rows counts as nearer (`MaxMinDistanceAnalysis.predict`), for every method alike. The
numbers are the mean and the smallest over groups of the share of new rows that find their own.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.metrics import recall_score

from benchmarks.race import say
from fairpca import MaxMinDistanceAnalysis, genetics
from fairpca.datasets.loading import resolve_home

# Columns from which on methods other than ours work in the span of the rows.
_WIDE = 2000
Table = tuple[Any, Any, Any, Any]


def run(quick: bool = False) -> list[dict[str, Any]]:
    """Return one row for every table, number of components and method."""
    tables: dict[str, tuple[Callable[[int], Table], int, tuple[int, ...]]] = {
        "HapMap3": (hapmap(), 10, (2, 3, 4, 5, 8)),
        "digits, half of each class": (digits, 5, (2, 3, 5)),
        "digits, eight classes of 10": (few_digits, 5, (3, 5)),
        "cell types": (cells(), 5, (3, 5)),
    }
    found = []
    for name, (draw, n_draws, ranks) in tables.items():
        seen = defaultdict(list)
        for seed in range(2 if quick else n_draws):
            say(f"{name}, draw {seed} ...")
            table = draw(seed)
            for r in ranks:
                for method, numbers in measured(*table, r):
                    seen[r, method].append(numbers)
        for (r, method), numbers in seen.items():
            mean, worst, kept, gap, seconds = np.mean(numbers, axis=0)
            line = {"table": name, "r": r, "method": method, "mean": mean, "worst group": worst}
            ours = {"smallest kept share": kept, "gap": gap, "CPU s": seconds}
            found.append(line | (ours if "pair," in method else {}))
    return [*found, genotypes(1000 if quick else 5000, 20_000 if quick else 200_000)]


def measured(X: Any, y: Any, new: Any, truth: Any, r: int) -> Iterator[tuple[str, list[float]]]:
    """Yield what every method recognises of new rows, and what ours says of the rows in hand."""
    names, codes, count = np.unique(y, return_inverse=True, return_counts=True)
    rows, others = X - X.mean(axis=0), new - X.mean(axis=0)
    if X.shape[1] > _WIDE:
        # What is outside of the span of the rows is no method's business.
        span = np.linalg.svd(rows, full_matrices=False)[2][: len(X) - 1].T
        rows, others = rows @ span, others @ span
    means = np.stack([rows[codes == c].mean(axis=0) for c in range(len(names))])
    first, second = np.triu_indices(len(names), 1)
    apart = means[first] - means[second]
    apart /= np.linalg.norm(apart, axis=1, keepdims=True)
    rng = np.random.default_rng(0)
    some = [rng.choice(np.flatnonzero(codes == c), count.min(), False) for c in range(len(names))]
    few = rows[np.concatenate(some)]
    scalings = LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto").fit(rows, y).scalings_
    bases = {
        "PCA": axes(rows, r),
        "PCA, as few of each": axes(few - few.mean(axis=0), r),
        "PCA of means": axes(means - means.mean(axis=0), r),
        "mean over pairs": axes(apart, r),
        "LDA, shrunk": scalings[:, :r],
    }
    for name, basis in bases.items():
        squared = cdist(others @ basis, means @ basis, "sqeuclidean") / (1 + 1 / count)
        yield name, [*recognised(truth, names[squared.argmin(axis=1)]), 0, 0, 0]
    for within in ("identity", "pooled"):
        started = time.process_time()
        model = MaxMinDistanceAnalysis(r, within=within).fit(X, y)
        taken = time.process_time() - started
        hand = [float(model.pair_shares_.min()), model.certificate_.gap, taken]
        yield f"every pair, {within}", [*recognised(truth, model.predict(new)), *hand]


def axes(rows: Any, r: int) -> Any:
    """Return the leading right singular vectors of rows, as columns."""
    return np.linalg.svd(rows, full_matrices=False)[2][:r].T


def recognised(truth: Any, guess: Any) -> list[float]:
    """Return the mean and the smallest share over groups."""
    shares = recall_score(truth, guess, average=None, labels=np.unique(truth), zero_division=0)
    return [float(shares.mean()), float(shares.min())]


def hapmap() -> Callable[[int], Table]:
    """Return draws of 100 CEU, 79 TSI and ten of each other population; all others are new."""
    folder = resolve_home() / "hapmap3"
    people = genetics.read_plink(folder / "HM3_thinned_autosomal_overlap")
    pops = folder / "relationships_w_pops_121708.txt"
    pop = genetics.read_populations(pops, people.samples)

    def draw(seed: int) -> Table:
        rng, many = np.random.default_rng(100 + seed), {"CEU": 100, "TSI": 79}
        parts = [
            rng.choice(np.flatnonzero(pop == name), many.get(name, 10), False)
            for name in np.unique(pop)
        ]
        train = np.sort(np.concatenate(parts))
        new = np.setdiff1d(np.arange(len(pop)), train)
        rows = genetics.standardize(people.take(train))
        known = (rows.frequencies > 0.02) & (rows.frequencies < 0.98)
        others = genetics.standardize(people.take(new), frequencies=rows.frequencies)
        X, unseen = (part.columns(slice(None))[:, known] for part in (rows, others))
        return X, pop[train], unseen, pop[new]

    return draw


def dealt(X: Any, y: Any, size: Callable[[Any, int], int], seed: int) -> Table:
    """Return rows split at random, `size` of every group for the fit."""
    rng = np.random.default_rng(seed)
    groups = [(name, rng.permutation(np.flatnonzero(y == name))) for name in np.unique(y)]
    train = np.concatenate([rows[: size(name, len(rows))] for name, rows in groups])
    new = np.setdiff1d(np.arange(len(y)), train)
    return X[train], y[train], X[new], y[new]


def digits(seed: int) -> Table:
    """Return half of each class of digits, and the other half."""
    X, y = load_digits(return_X_y=True)
    return dealt(X, y, lambda name, m: m // 2, seed)


def few_digits(seed: int) -> Table:
    """Return 80 rows of two classes of digits and ten of each other, and the rest."""
    X, y = load_digits(return_X_y=True)
    return dealt(X, y, lambda name, m: 80 if name < 2 else 10, seed)


def cells() -> Callable[[int], Table]:
    """Return draws of half the blood cells of scanpy's small table, by types of 12 and more."""
    import scanpy

    table = scanpy.datasets.pbmc68k_reduced()
    kinds = table.obs["bulk_labels"].astype(str).to_numpy()
    X, counts = np.asarray(table.X, dtype=float), table.obs["bulk_labels"].value_counts()
    kept = np.isin(kinds, counts.index[counts >= 12])
    return lambda seed: dealt(X[kept], kinds[kept], lambda name, m: m // 2, seed)


def genotypes(m: int, n: int) -> dict[str, Any]:
    """Read, count, scale and fit simulated genotypes of 26 populations from a .bed file."""
    from bed_reader import to_bed

    rng, y = np.random.default_rng(0), np.arange(m) % 26
    rows = np.empty((m, n), dtype=np.int8, order="F")
    for start in range(0, n, 500):
        share = rng.uniform(0.2, 0.8, 500) + rng.uniform(-0.15, 0.15, (26, 500))
        alleles = rng.random((2, m, 500), dtype=np.float32) < share.astype(np.float32)[y]
        rows[:, start : start + 500] = alleles.sum(axis=0, dtype=np.int8)
    with tempfile.TemporaryDirectory() as folder:
        to_bed(f"{folder}/cohort.bed", rows)
        del rows
        say(f"genotypes of {m:,} people ...")
        started, busy = time.perf_counter(), time.process_time()
        model = MaxMinDistanceAnalysis(5)
        model.fit(genetics.standardize(genetics.read_plink(f"{folder}/cohort")), y)
        taken, busy = time.perf_counter() - started, time.process_time() - busy
    return {
        "table": f"simulated genotypes, {m:,} x {n:,}",
        "r": 5,
        "method": "every pair, pooled",
        "gap": model.certificate_.gap,
        "CPU s": busy,
        "wall s": taken,
        "most GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    }
