"""Whom a projection serves on rows nobody has seen.

Whole groups of real tables are taken as the truth. From each group 2,000 rows are drawn, and only
`n_small` of one of them in turn. What counts is the worst group's loss in the population, for the
projection fitted to the sample: its error there minus that of the best projection for the group
alone, both through the mean of the sample.
"""

from __future__ import annotations

import warnings
from functools import reduce
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import fairpca
from benchmarks.race import say
from fairpca import FairPCA, GroupMoments
from fairpca.cross_fitting import _dealings, fitted_without_warnings, own_errors, shared_errors

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
    by_sex = fairpca.datasets.fetch_credit_default(sensitive="sex")
    by_marriage = fairpca.datasets.fetch_credit_default(sensitive="marriage")
    marital = fairpca.datasets.fetch_bank_marketing(sensitive="marital")
    education = fairpca.datasets.fetch_bank_marketing(sensitive="education")
    faces = fairpca.datasets.fetch_lfw_faces()
    black = fairpca.datasets.fetch_lfw_faces(sensitive="black")
    asian = fairpca.datasets.fetch_lfw_faces(sensitive="asian")
    # Every pixel is the mean of nine.
    small = np.asarray(faces.images)[:, :48].reshape(-1, 16, 3, 12, 3).mean(axis=(2, 4))
    pixels = small.reshape(len(small), -1) / small.std()
    digits = load_digits()
    return {
        "credit, education": (_scaled(credit.data), _text(credit), (5, 8)),
        "credit, sex": (_scaled(by_sex.data), _text(by_sex), (5,)),
        "credit, marriage": (_scaled(by_marriage.data), _text(by_marriage), (5,)),
        # The sensitive column among the others: its mean alone tells the groups apart.
        "credit with sex, sex": (_scaled(by_marriage.data), _text(by_sex), (5,)),
        "bank, job": (_scaled(bank.data), _text(bank), (3,)),
        "bank, marital": (_scaled(marital.data), _text(marital), (3,)),
        "bank, education": (_scaled(education.data), _text(education), (3,)),
        "faces/9, sex": (pixels, _text(faces), (5, 20)),
        "faces/9, black": (pixels, _text(black), (5,)),
        "faces/9, asian": (pixels, _text(asian), (10,)),
        "digits, below 5": (digits.data, (digits.target < 5).astype(str), (5, 20)),
        # Nobody differs: whatever a group loses, beyond the noise of PCA itself, is chance.
        "credit, at random": (_scaled(credit.data), _at_random(credit.data), (5,)),
        "faces/9, at random": (pixels, _at_random(pixels), (5,)),
    }


def _at_random(X: Any) -> Any:
    return np.random.default_rng(0).integers(2, size=len(X)).astype(str)


def _scaled(X: Any) -> Any:
    X = np.asarray(X, dtype=float)
    spread = X.std(axis=0)
    return (X - X.mean(axis=0)) / np.where(spread > 0, spread, 1.0)


def _text(bunch: Any) -> Any:
    return np.asarray(bunch.sensitive_features).ravel().astype(str)


def run(small: tuple[int, ...] = (20, 50, 200, 1000), draws: int = 60, seed: int = 0) -> Any:
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
                    | {"auto / PCA": round(mean["auto"] / mean["PCA"], 2)}
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
        with warnings.catch_warnings():
            # Every sample has a small group, and fit says so.
            warnings.simplefilter("ignore")
            model = FairPCA(r, **options).fit_moments(moments)
        losses[name] = max(_loss(model, rows) for rows in groups)
    return losses


def _loss(model: Any, rows: Any) -> float:
    """Return what a group's whole population loses by the model's projection."""
    centred = rows - model.mean_
    second = centred.T @ centred / len(rows)
    best = np.linalg.eigvalsh(second)[-model.n_components_ :].sum()
    return float(best - np.einsum("rn,nm,rm->", model.components_, second, model.components_))


def intervals(draws: int = 200, seed: int = 0) -> Any:
    """Return the bias of `fairpca.cross_fit`, and how often its intervals hold the truth.

    The truth of one sample is what all other rows of the population lose by the very projections
    that were fitted to its folds, the groups' own ones included; an interval has to hold its mean
    over all samples.
    """
    found = []
    tables = _populations()
    for name, sizes, r in (
        ("credit, sex", (400, 50), 5),
        ("bank, marital", (600, 200, 100), 3),
        ("credit, education", (1000, 300, 60), 5),
    ):
        say(f"{name}, r = {r}")
        estimate, low, high, true = _cross_fitted(*tables[name][:2], sizes, r, draws, seed)
        mean = true.mean(axis=0)
        off = estimate - true
        for f, fit in enumerate(FITS):
            for g, rows in enumerate(sizes):
                held = (low[:, f, g] <= mean[f, g]) & (mean[f, g] <= high[:, f, g])
                found.append(
                    {
                        "table": name,
                        "r": r,
                        "rows": rows,
                        "fit": fit,
                        "true loss": round(mean[f, g], 4),
                        "estimate is off by": round(off[:, f, g].mean(), 4),
                        "its error": round(off[:, f, g].std() / np.sqrt(draws), 4),
                        "held by the interval": round(float(held.mean()), 3),
                    }
                )
    return found


def _cross_fitted(
    X: Any, labels: Any, sizes: tuple[int, ...], r: int, draws: int, seed: int
) -> list[Any]:
    """Return estimated losses, both ends of their intervals and true losses.

    Samples have so many rows of the largest groups. Every array has shape (draws, fits, groups).
    """
    counts = dict(zip(*np.unique(labels, return_counts=True), strict=True))
    largest = sorted(counts, key=lambda label: -counts[label])[: len(sizes)]
    groups = [X[labels == label] for label in largest]
    drawn = np.repeat(np.arange(len(sizes)), sizes)
    others = np.repeat(np.arange(len(sizes)), [len(g) for g in groups] - np.array(sizes))
    fits = {fit: FairPCA(r, **options) for fit, options in FITS.items()}
    found: list[Any] = []
    for draw in range(seed, seed + draws):
        rng = np.random.default_rng(draw)
        mixed = [rng.permutation(g) for g in groups]
        rows = np.concatenate([g[:m] for g, m in zip(mixed, sizes, strict=True)])
        unseen = GroupMoments.from_array(
            np.concatenate([g[m:] for g, m in zip(mixed, sizes, strict=True)]), others
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seen = fairpca.cross_fit(rows, drawn, r, fits=fits, random_state=draw)
            repeats, n_folds = seen.fold_losses.shape[:2]
            true = [
                _true_losses(folds, unseen, list(fits.values()), r)
                for folds in _dealings(rows, drawn, r, n_folds, repeats, None, draw)
            ]
        found.append([seen.losses[:, 0], seen.low[:, 0], seen.high[:, 0], np.mean(true, axis=0)])
    return [np.array(part) for part in zip(*found, strict=True)]


def _true_losses(folds: Any, unseen: Any, models: Any, r: int) -> Any:
    """Return what unseen rows lose by the projections of all folds, shape (fits, groups)."""
    losses = []
    for i in range(len(folds)):
        others = [*folds[i + 1 :], *folds[:i]]
        training = reduce(GroupMoments.merge, others)
        own = own_errors(others, unseen, np.array([r]), "intersection")[0]
        fitted = [fitted_without_warnings(model, training) for model in models]
        losses.append([shared_errors(model, unseen) - own for model in fitted])
    return np.mean(losses, axis=0)
