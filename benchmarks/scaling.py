"""Cost against rows, columns, components and groups, as a CSV and a picture."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.decomposition import PCA

from benchmarks.cases import rows_like
from benchmarks.race import race, say
from fairpca import FairPCA, GroupMoments

ROWS = (10_000, 30_000, 100_000, 300_000, 1_000_000)
WIDER = "rows m (800 columns)"
SWEEPS = {
    "rows m (30 columns)": [(m, 30, 8, 2) for m in ROWS],
    WIDER: [(m, 800, 5, 2) for m in ROWS],
    "columns n": [(20_000, n, 8, 2) for n in (16, 32, 64, 128, 256, 512, 1024)],
    "components r": [(20_000, 256, r, 2) for r in (2, 4, 8, 16, 32, 64, 128)],
    "groups k": [(50_000, 40, 8, k) for k in (2, 3, 4, 6, 8, 12, 16)],
}
# Position in (m, n, r, k) of what each sweep changes.
AXIS = dict(zip(SWEEPS, (0, 0, 1, 2, 3), strict=True))


def run(folder: Path) -> Path:
    """Time every sweep, write scaling.csv and scaling.png, and return the picture's path."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = []
    for sweep, points in SWEEPS.items():
        for point in points:
            m, n, r, k = point
            say(f"{sweep}: m={m} n={n} r={r} k={k}")
            X, groups = rows_like(m, n, k, "power" if sweep == WIDER else "exponential")
            best = race(
                {
                    "counting": lambda X=X, g=groups: GroupMoments.from_array(X, g),
                    "FairPCA": lambda X=X, g=groups, r=r: FairPCA(r).fit(X, sensitive_features=g),
                    "PCA": lambda X=X, r=r: PCA(r, random_state=0).fit(X),
                },
                seconds=3,
                most=12,
            )
            lines.append([sweep, m, n, r, k, best["FairPCA"], best["PCA"], best["counting"]])
    with open(folder / "scaling.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["sweep", "m", "n", "r", "k", "fairpca_s", "pca_s", "counting_s"])
        writer.writerows(lines)
    return _draw(lines, folder / "scaling.png")


def slope(mine: list[list[Any]], column: int) -> float:
    """Return the log-log slope of a column of times against the number of rows."""
    x, y = np.log(np.array([(line[1], line[column]) for line in mine])).T
    return float(np.polyfit(x, y, 1)[0])


def _draw(lines: list[list[Any]], path: Path) -> Path:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 5, figsize=(16, 3.4), layout="constrained")
    series = ((5, "o-", "#0072B2", "FairPCA"), (7, "^:", "#009E73", "of it, counting rows"))
    for ax, (sweep, position) in zip(axes, AXIS.items(), strict=True):
        mine = [line for line in lines if line[0] == sweep]
        x = [line[1 + position] for line in mine]
        for column, style, color, label in (*series, (6, "s--", "#D55E00", "PCA (default)")):
            ax.loglog(x, [line[column] for line in mine], style, color=color, label=label)
        ax.set_xticks(x, [f"{value:,}" for value in x], fontsize=7)
        ax.minorticks_off()
        # Whole decades: a curve within one would look steep, and have no number beside it.
        times = np.log10([line[column] for line in mine for column in (5, 6, 7)])
        ax.set_ylim(10 ** np.floor(times.min()), 10 ** np.ceil(times.max()))
        ax.set_xlabel(sweep)
        ax.grid(alpha=0.3)
        if not position:
            parts = f"slopes: {slope(mine, 7):.2f} counting, {slope(mine, 5):.2f} in all"
            ax.set_title(f"{parts}, {slope(mine, 6):.2f} PCA", fontsize=8)
    axes[0].set_ylabel("seconds, best of several")
    axes[0].legend(frameon=False)
    figure.savefig(path, dpi=150)
    plt.close(figure)
    return path
