"""Sweep over one-hot columns: what a fit states must be the value of what it returns.

``python -m tools.one_hot`` fits one column of n levels, for every n from 81 to 400, with 1, 2, 5
and 8 components and every criterion, and compares with values computed by NumPy alone. Nearly all
eigenvalues of such tables tie, which LAPACK's partial decompositions do not survive. It prints
what is wrong and makes the exit status one.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import threadpoolctl

from fairpca import FairPCA

CRITERIA = ("loss", "error", "variance", "relative", "share")
RANKS = (1, 2, 5, 8)
CENTERS = ("global", "group")


def one_hot(n: int) -> tuple[Any, Any]:
    """Return one column of n levels, each half of them twice as frequent in one of two groups."""
    h = n // 2
    a = np.r_[np.repeat(np.arange(h), 2), np.arange(h, n)]
    b = np.r_[np.arange(h), np.repeat(np.arange(h, n), 2)]
    return np.eye(n)[np.r_[a, b]], np.repeat(["a", "b"], [len(a), len(b)])


def second_moments(X: Any, labels: Any, center: str) -> Any:
    """Return every group's second moments, about the mean of all rows or about its own."""
    X = X - X.mean(axis=0)
    found = []
    for group in np.unique(labels):
        rows = X[labels == group]
        rows = rows - rows.mean(axis=0) if center == "group" else rows
        found.append(rows.T @ rows / len(rows))
    return np.array(found)


class Values:
    """Values and bounds of one criterion and rank, from matrices and their eigenvalues alone."""

    def __init__(self, matrices: Any, spectra: Any, criterion: str, r: int) -> None:
        traces = np.trace(matrices, axis1=1, axis2=2)
        top = spectra[:, ::-1][:, :r].sum(axis=1)
        offsets = {"loss": top, "relative": top, "variance": 0 * top}.get(criterion, traces)
        factors = 1 / traces if criterion in ("relative", "share") else np.ones(len(traces))
        self.matrices, self.offsets, self.r = matrices, offsets * factors, r
        self.factors, self.scale = factors, float((traces * factors).max())

    def of(self, components: Any) -> Any:
        """Return every group's value of orthonormal rows."""
        kept = [np.sum(components * (components @ matrix)) for matrix in self.matrices]
        return self.offsets - self.factors * np.array(kept)

    def bound(self, weights: Any) -> float:
        """Return the dual function at some weights: no basis has a smaller worst value."""
        mixed = np.tensordot(weights * self.factors, self.matrices, axes=1)
        return float(weights @ self.offsets - np.linalg.eigvalsh(mixed)[-self.r :].sum())


def wrong(n: int, center: str, criteria: Any = CRITERIA, ranks: Any = RANKS) -> Iterator[str]:
    """Yield what is wrong with the fits of a column of n levels; 1e-12 of the scale is allowed."""
    X, labels = one_hot(n)
    matrices = second_moments(X, labels, center)
    spectra = np.linalg.eigvalsh(matrices)
    for criterion in criteria:
        for r in ranks:
            model = FairPCA(r, criterion=criterion, center=center)
            true = Values(matrices, spectra, criterion, r)
            where, room = f"n={n}, r={r}, {criterion}, {center}", 1e-12 * true.scale
            try:
                model.fit(X, sensitive_features=labels)
            except Exception as error:
                yield f"{where}: {type(error).__name__}: {error}"
                continue
            proof, V = model.certificate_, model.components_
            values = true.of(V)
            if np.abs(V @ V.T - np.eye(r)).max() > 1e-12:
                yield f"{where}: components are not orthonormal"
            if not abs(values.max() - proof.value) <= room:
                yield f"{where}: value {values.max()!r}, {proof!r}"
            if not np.abs(values - model.group_values_).max() <= room:
                yield f"{where}: group values {values}, stated {model.group_values_}"
            if not proof.lower_bound <= values.max() + room:
                yield f"{where}: lower bound above the value {values.max()!r}, {proof!r}"
            if not proof.lower_bound <= true.bound(model.group_weights_) + room:
                yield f"{where}: lower bound above the dual function, {proof!r}"
            if not proof.optimal:
                yield f"{where}: gap open, {proof!r}"


def main() -> int:
    """Sweep over the numbers of levels; return one if something was wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--start", type=int, default=81)
    parser.add_argument("--stop", type=int, default=400, help="the last number of levels")
    options = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    start, found = time.perf_counter(), 0
    for n in range(options.start, options.stop + 1):
        # Matrices of this size are decomposed faster by one thread, where others work too.
        with threadpoolctl.threadpool_limits(1):
            for line in wrong(n, CENTERS[n % 2]):
                found += 1
                print(line, flush=True)
        if n % 20 == 0:
            print(f"up to n={n}: {time.perf_counter() - start:.0f} s", flush=True)
    fits = (options.stop - options.start + 1) * len(CRITERIA) * len(RANKS)
    print(f"{fits} fits in {time.perf_counter() - start:.0f} s; wrong: {found}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
