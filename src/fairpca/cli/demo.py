"""``fairpca demo``: what PCA does to one group of real rows, what is better, and for whom not.

Everything it says and draws is about rows that were left out of the fits.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from fairpca._arrays import AnyArray, FloatArray
from fairpca._check import require
from fairpca.auditing.words import CAREFUL, percent
from fairpca.cli import output
from fairpca.cross_fitting import cross_fit, usual_fits
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.storage import atomic_write

_R = 3
# Of a hundred pictures that a program knows, those it sets aside as unreadable.
_SET_ASIDE = 0.05


def demo(target: Path) -> None:
    """Show PCA beside FairPCA on handwritten digits, draw it, and say where it does not help."""
    from sklearn.datasets import load_diabetes, load_digits

    from fairpca.plots import GroupLossDisplay

    figures = require("matplotlib.figure", extra="app", purpose="the demo's picture")
    X, digit = load_digits(return_X_y=True)
    groups = np.where(digit == 1, "1", "others")
    with output.progress("fitting and measuring"):
        fold = np.random.default_rng(0).permutation(len(X)) % 4
        fits = {name: usual_fits()[name] for name in ("PCA", CAREFUL)}
        folds = [GroupMoments.from_array(X[fold == j], groups[fold == j]) for j in range(4)]
        found = cross_fit(folds, n_components=_R, fits=fits)
        aside = np.stack([_set_aside(fit, X, groups, fold) for fit in fits.values()])
        flagged = np.stack([aside[:, groups == name].mean(axis=1) for name in found.groups], 1)
        patients = load_diabetes().data
        sex = np.where(patients[:, 1] > 0, "one", "other")
        few = cross_fit(np.delete(patients, 1, axis=1), sex, 2, fits=fits, n_folds=5)
    loss, gain, change = found.losses[:, 0], found.improvement(CAREFUL), found.change(CAREFUL)
    shares, worst = [[percent(x) for x in row] for row in loss / found.variances], loss[0].max()
    (one, one_careful), (other, other_careful) = (100 * flagged).T
    few_gain = percent(float(few.improvement(CAREFUL).high / few.variances.max()))
    few_loss = percent(float((few.losses[0, 0] / few.variances).max()))
    plain, careful = found.total_errors[:, 0]
    pays, all_pay = change.value[1] / found.errors[0, 0, 1], careful / plain - 1
    for paragraph in (
        f"1,797 handwritten digits that come with scikit-learn: {_R} numbers are kept of 64 "
        'pixels. One digit in ten is a "1". Everything here is about pictures '
        "that were left out of the fit.",
        f"A program rebuilds pictures from their {_R} numbers, and sets aside as unreadable the "
        f'{100 * _SET_ASIDE:.0f} in 100 that it rebuilds worst. Of 100 new "1"s it sets aside '
        f"{one:.0f} with PCA, and {one_careful:.0f} with {CAREFUL}, which lets no group pay "
        f"much; of 100 other digits {other:.0f}, and {other_careful:.0f}.",
        'Why: PCA keeps what most pictures have in common. The "1"s lose '
        f"{shares[0][0]} of their variance against a PCA of their own; with {CAREFUL} they lose "
        f"{shares[1][0]}. That is {percent(gain.value / worst)} less, and beyond noise (95 % "
        f"interval: {percent(gain.low / worst)} to {percent(gain.high / worst)}).",
        f"Who pays: the other digits, which are rebuilt with {percent(pays)} more error. For all "
        f"pictures together it is {percent(all_pay)} more.",
        "When not to: the women and men among 442 patients with diabetes, also of scikit-learn, "
        f"2 numbers kept. With PCA no group loses more than {few_loss} of its variance, and "
        f"{CAREFUL} would gain at most {few_gain}. PCA is as good there.",
    ):
        output.sentence(paragraph)
        output.show("")
    figure = figures.Figure(figsize=(9, 3.2), layout="constrained")
    left, right = figure.subplots(1, 2)
    names: dict[str, Any] = {"groups": list(found.groups), "reducers": list(fits), "title": ""}
    GroupLossDisplay(flagged, label="new pictures set aside as unreadable", **names).plot(left)
    ends = np.stack([found.low[:, 0], found.high[:, 0]], -1) / found.variances[:, None]
    label = "loss on new pictures, as a share of variance"
    GroupLossDisplay(loss / found.variances, intervals=ends, label=label, **names).plot(right)
    with atomic_write(target) as file:
        figure.savefig(file, format=target.suffix.lower().lstrip("."), dpi=120)
    output.show(f"Picture, of the same rows: {target}")
    output.show("Your own table:            fairpca audit TABLE.csv -g COLUMN -r 3")
    output.show(
        "In Python:                 "
        f'FairPCA({_R}, shrinkage="auto", max_harm=0.02).fit(X, sensitive_features=groups)'
    )


def _set_aside(fit: Any, X: FloatArray, groups: AnyArray, fold: AnyArray) -> AnyArray:
    """Return which rows are rebuilt worse, left out, than nearly all rows of their fit."""
    found = np.zeros(len(X), dtype=bool)
    for j in range(fold.max() + 1):
        known, new = fold != j, fold == j
        model = fit.set_params(n_components=_R)
        if hasattr(model, "fit"):
            model.fit(X[known], sensitive_features=groups[known])
        else:
            model.fit_moments(GroupMoments.from_array(X[known], groups[known]))
        centred = X - model.mean_
        errors = (centred**2).sum(axis=1) - ((centred @ model.components_.T) ** 2).sum(axis=1)
        found[new] = errors[new] > np.quantile(errors[known], 1 - _SET_ASIDE)
    return found
