"""Whom a projection serves on rows nobody has seen.

Whole groups of real tables are taken as the truth. From each group 2,000 rows are drawn, and only
`n_small` of one of them in turn. What counts is the worst group's loss in the population, for the
projection fitted to the sample: its error there minus that of the best projection for the group
alone, both through the mean of the sample.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import fairpca
from benchmarks.race import say
from fairpca import FairPCA, GroupMoments

# What is fitted to every sample; shrinkage 1 is PCA.
FITS: dict[str, dict[str, Any]] = {
    "PCA": {"shrinkage": 1.0},
    "FairPCA": {},
    "auto": {"shrinkage": "auto"},
}
# Rows drawn from every group but one.
_ROWS = 2000


def _populations() -> dict[str, tuple[Any, Any, tuple[int, ...]]]:
    """Return name, rows, labels and ranks of every table."""
    credit = fairpca.datasets.fetch_credit_default(sensitive="education")
    bank = fairpca.datasets.fetch_bank_marketing(sensitive="job")
    faces = fairpca.datasets.fetch_lfw_faces()
    # Every pixel is the mean of nine.
    small = np.asarray(faces.images)[:, :48].reshape(-1, 16, 3, 12, 3).mean(axis=(2, 4))
    digits = load_digits()
    return {
        "credit, education": (_scaled(credit.data), _text(credit), (5, 8)),
        "bank, job": (_scaled(bank.data), _text(bank), (3,)),
        "faces/9, sex": (small.reshape(len(small), -1) / small.std(), _text(faces), (5, 20)),
        "digits, below 5": (digits.data, (digits.target < 5).astype(str), (5, 20)),
    }


def _scaled(X: Any) -> Any:
    X = np.asarray(X, dtype=float)
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def _text(bunch: Any) -> Any:
    return np.asarray(bunch.sensitive_features).ravel().astype(str)


def run(small: tuple[int, ...] = (20, 50, 200, 1000), draws: int = 12, seed: int = 0) -> Any:
    """Return one row a table, rank and size of the small group.

    Parameters
    ----------
    small : tuple of int
        Rows of the small group.
    draws : int
        Samples; the small group is another one each time.
    seed : int
    """
    found = []
    for name, (X, labels, ranks) in _populations().items():
        counts = dict(zip(*np.unique(labels, return_counts=True), strict=True))
        groups = [X[labels == label] for label, count in counts.items() if count >= max(small) / 2]
        for r in ranks:
            for n_small in small:
                say(f"{name}, r = {r}, {n_small} rows")
                rng = np.random.default_rng(seed)
                losses = [_worst(groups, i % len(groups), n_small, r, rng) for i in range(draws)]
                mean = {fit: float(np.mean([loss[fit] for loss in losses])) for fit in FITS}
                best = min(mean["PCA"], mean["FairPCA"])
                found.append(
                    {"table": name, "r": r, "n_small": n_small}
                    | {fit: round(value, 3) for fit, value in mean.items()}
                    | {"auto / better of both": round(mean["auto"] / best, 2)}
                )
    return found


def _worst(groups: Any, small: int, n_small: int, r: int, rng: Any) -> dict[str, float]:
    """Return the worst population loss of every fit to one sample."""
    drawn = []
    for i, rows in enumerate(groups):
        wanted = n_small if i == small else _ROWS
        drawn.append(rows[rng.choice(len(rows), min(wanted, len(rows)), replace=False)])
    labels = np.repeat(np.arange(len(groups)), [len(rows) for rows in drawn])
    moments = GroupMoments.from_array(np.concatenate(drawn), labels)
    losses = {}
    for name, options in FITS.items():
        model = FairPCA(r, **options).fit_moments(moments)
        losses[name] = max(_loss(model, rows) for rows in groups)
    return losses


def _loss(model: Any, rows: Any) -> float:
    """Return what a group's whole population loses by the model's projection."""
    centred = rows - model.mean_
    second = centred.T @ centred / len(rows)
    best = np.linalg.eigvalsh(second)[-model.n_components_ :].sum()
    return float(best - np.einsum("rn,nm,rm->", model.components_, second, model.components_))
