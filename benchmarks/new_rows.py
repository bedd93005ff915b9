"""Whom a projection serves on rows nobody has seen.

Whole groups of real tables are taken as the truth. From each group 2,000 rows are drawn, and only
`n_small` of one of them in turn. What counts is the worst group's loss in the population, for the
projection fitted to the sample: its error there minus that of the best projection for the group
alone, both through the mean of the sample.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.datasets import load_digits

import fairpca
from benchmarks.race import say
from fairpca import FairPCA, GroupMoments
from fairpca.cross_fitting import _dealt, own_errors, shared_errors

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
    }


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
    """Return how often the intervals of `fairpca.cross_fit` hold the truth, and its bias.

    The truth is the mean loss, in the whole population, of projections fitted to as many rows as
    four folds of five have.
    """
    found = []
    tables = _populations()
    for name, sizes, r in (
        ("credit, sex", (400, 50), 5),
        ("bank, marital", (600, 200, 100), 3),
        ("credit, education", (1000, 300, 60), 5),
    ):
        X, labels, _ = tables[name]
        counts = dict(zip(*np.unique(labels, return_counts=True), strict=True))
        largest = sorted(counts, key=lambda label: -counts[label])[: len(sizes)]
        groups = [X[labels == label] for label in largest]
        population = GroupMoments.from_array(
            np.concatenate(groups), np.repeat(np.arange(len(sizes)), [len(g) for g in groups])
        )
        drawn = np.repeat(np.arange(len(sizes)), sizes)
        fits = {fit: FairPCA(**options) for fit, options in FITS.items()}
        seen: list[Any] = []
        truth: list[Any] = []
        alone: list[Any] = []
        say(f"{name}, r = {r}")
        for draw in range(draws):
            rng = np.random.default_rng(seed + draw)
            rows = np.concatenate(
                [
                    g[rng.choice(len(g), m, replace=False)]
                    for g, m in zip(groups, sizes, strict=True)
                ]
            )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                seen.append(fairpca.cross_fit(rows, drawn, r, fits=fits, random_state=draw))
                fold = _dealt(drawn, 5, draw)
                training = GroupMoments.from_array(rows[fold > 0], drawn[fold > 0])
                models = [model.set_params(n_components=r) for model in fits.values()]
                shared = [shared_errors(model, training, population) for model in models]
                own = own_errors(training, population, r, "intersection")
            alone.append(own)
            truth.append(shared)
        true = np.mean(truth, axis=0) - np.mean(alone, axis=0).min(axis=0)
        low, high = (np.array([getattr(s, end)[:, 0] for s in seen]) for end in ("low", "high"))
        mean = np.mean([s.losses[:, 0] for s in seen], axis=0)
        error = np.std([s.losses[:, 0] for s in seen], axis=0) / np.sqrt(draws)
        size = np.mean([s.errors[:, 0] for s in seen], axis=0)
        for f, fit in enumerate(fits):
            for g, rows_of_group in enumerate(sizes):
                held = np.mean((low[:, f, g] <= true[f, g]) & (true[f, g] <= high[:, f, g]))
                found.append(
                    {
                        "table": name,
                        "r": r,
                        "rows": rows_of_group,
                        "fit": fit,
                        "true loss": round(true[f, g], 3),
                        "mean estimate": round(mean[f, g], 3),
                        "its error": round(error[f, g], 3),
                        "held by the interval": round(float(held), 3),
                        "error of rows": round(size[f, g], 2),
                    }
                )
    return found
