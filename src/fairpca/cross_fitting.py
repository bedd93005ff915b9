"""Losses on rows that a projection was not fitted to, without a second pass over the table.

Rows fall into folds, and the moments of every fold are counted once. The moments of all other
folds together are a training set; the moments of the fold itself say what the projection fitted
to them loses on rows it has not seen.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np
from scipy.stats import t as student
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import assert_all_finite

from fairpca._check import (
    check_at_least,
    check_choice,
    check_counted,
    check_groups,
    check_rank,
    check_table,
    check_weights,
    require,
)
from fairpca._arrays import AnyArray, FloatArray, IntArray
from fairpca._arrays import threads_for
from fairpca.base import warn_one_group
from fairpca.covariances.dense import leading_pairs
from fairpca.covariances.sources import (
    MomentCovariances,
    dense_if_wide,
    in_span,
    is_wide,
    seen_directions,
    seen_part,
)
from fairpca.estimator import FairPCA
from fairpca.moments.group_moments import GroupMoments, split_folds
from fairpca.moments.groups import Groups, warn_of_measurements
from fairpca.moments.groups import Label
from fairpca.shrinkage import NoisyGroupWarning

# Folds when the caller names no number: four fifths of the rows are fitted to each time.
_FOLDS = 5
# How often rows are dealt into folds when the caller names no number, and the most columns and
# groups for that: with more, once. Of 50 seeds on tumours, wine and digits the widest interval of
# a gain was 4 to 12 times as wide as the narrowest with one dealing, and 1.6 to 2.4 times with
# five. Time grows in proportion: 1,797 rows of 64 columns in ten groups took 1.7 and 8.7 s, 13,232
# rows of 1,764 columns in two groups 32 and 158 s.
_REPEATS = 5
_REPEATED_COLUMNS, _REPEATED_GROUPS = 200, 20
# Share of the interval in its two tails.
_TAILS = 0.05
# What all groups share counts as this many rows beside a group's own, for the projection that its
# loss is set against: next to none, or what makes good projections of few rows that are like all
# others. With none at all, the components that a group with fewer rows than components lacks would
# be any, and rounding would decide about its loss.
# One number for all would be wrong: with the second the error of digits on new rows is up to 16 %
# above that with none, with none that of faces is up to 42 % above that with the second. That one
# was chosen among 30, 50, 80, 100 and 150 on credit, bank and faces: with fewer, groups of 20 are
# fitted to their noise; with more, groups of 200 lose what is their own.
_SHARED_ROWS = (1e-7, 80.0)


@dataclass(frozen=True)
class Estimate:
    """A number, or an array of them, and the ends of its 95 % interval."""

    value: Any
    low: Any
    high: Any


@dataclass(frozen=True)
class CrossFit:
    """What every group loses on rows that were left out, for several fits and ranks.

    Attributes
    ----------
    fits : tuple of str
        Names of the fits, f of them.
    n_components : ndarray of shape (q,)
        The ranks.
    groups : tuple
        Labels of the groups, k of them.
    counts : ndarray of shape (k,)
        Rows of every group. Where rows are dealt out here, those of weight zero do not count.
    losses : ndarray of shape (f, q, k)
        Mean squared error on the rows left out, minus that of the group's own projection. It can
        be negative, and then nothing was lost. The group's own projection is fitted to the same
        rows, to its second moments about the mean of all of them, as they are or moved by
        80 / (rows + 80) towards those of all groups. Which of the two, one of the folds it is
        fitted to tells, from projections fitted to the others.
    errors : ndarray of shape (f, q, k)
        Mean squared error on the rows left out.
    total_errors : ndarray of shape (f, q)
        The same of all rows, those without a label and of groups that were not checked included.
    low, high : ndarray of shape (f, q, k)
        Ends of a 95 % interval for the loss, by the jackknife over folds (what the mean would be
        without each fold in turn), widened because folds share training rows. Losses and the
        variances behind these intervals are means over all dealings of the rows.
    unchecked : tuple
        Groups with fewer rows than folds, or with all their rows in one fold, for which all these
        numbers are NaN.
    fold_losses : ndarray of shape (repeats, folds, f, q, k)
        The losses on the rows of every fold of every dealing; NaN where it has none of the group.
    fold_weight : ndarray of shape (repeats, folds, k)
        Weight of every group's rows in every fold.

    Examples
    --------
    >>> import numpy as np
    >>> import fairpca
    >>> X = np.random.default_rng(0).normal(size=(300, 5)) * [3, 2, 1, 1, 1]
    >>> found = fairpca.cross_fit(X, ["a"] * 240 + ["b"] * 60, n_components=2)
    >>> found.groups, found.counts.tolist(), found.unchecked
    (('a', 'b'), [240, 60], ())
    >>> gained = found.improvement("FairPCA", than="PCA")
    >>> bool(gained.low > 0)
    False
    """

    fits: tuple[str, ...]
    n_components: IntArray
    groups: tuple[Label, ...]
    counts: IntArray
    losses: FloatArray
    errors: FloatArray
    total_errors: FloatArray
    low: FloatArray
    high: FloatArray
    unchecked: tuple[Label, ...]
    fold_losses: FloatArray = field(repr=False)
    fold_weight: FloatArray = field(repr=False)

    def worst(self) -> Estimate:
        """Return the largest loss of any group that was checked, in arrays of shape (f, q)."""
        return _jackknife(*self._worst())

    def improvement(self, fit: str, than: str, n_components: int | None = None) -> Estimate:
        """Return by how much the worst loss of one fit is smaller than that of another.

        Both worst losses are measured on the same rows, so their difference is known better than
        either. It is beyond noise where the lower end of its interval is above zero.

        Parameters
        ----------
        fit, than : str
            Two of `fits`.
        n_components : int, optional
            One of the ranks looked at; by default the first.
        """
        check_choice("fit", fit, self.fits)
        check_choice("than", than, self.fits)
        r = int(self.n_components[0]) if n_components is None else n_components
        check_choice("n_components", r, tuple(self.n_components.tolist()))
        j, f, g = self.n_components.tolist().index(r), self.fits.index(fit), self.fits.index(than)
        worst, without, held = self._worst()
        gain, gains = worst[g, j] - worst[f, j], without[..., g, j] - without[..., f, j]
        return _jackknife(gain, gains, np.minimum(held[g, j], held[f, j]))

    def _worst(self) -> tuple[FloatArray, FloatArray, IntArray]:
        """Return the largest losses, shape (f, q), and what they are without each fold in turn.

        Also in how many folds there are rows of the group that loses most, shape (f, q).
        """
        without = _without_each_fold(self.fold_losses, self.fold_weight)
        without[..., np.isnan(self.losses).all(axis=(0, 1))] = np.nan
        known = np.where(np.isnan(self.losses), -np.inf, self.losses)
        held = _held(self.fold_weight)[known.argmax(axis=-1)]
        # Where no group could be checked these are NaN, and no warning of NumPy's.
        return np.fmax.reduce(self.losses, axis=-1), np.fmax.reduce(without, axis=-1), held

    def to_frame(self) -> Any:
        """Return a pandas frame with one line a fit, rank and group."""
        pandas = require("pandas", extra="data", purpose="CrossFit.to_frame")
        lines = [
            {
                "fit": fit,
                "n_components": int(r),
                "group": label,
                "rows": int(self.counts[g]),
                "loss": self.losses[f, j, g],
                "low": self.low[f, j, g],
                "high": self.high[f, j, g],
                "error": self.errors[f, j, g],
            }
            for f, fit in enumerate(self.fits)
            for j, r in enumerate(self.n_components)
            for g, label in enumerate(self.groups)
        ]
        return pandas.DataFrame(lines)


def cross_fit(
    X: Any,
    sensitive_features: Any = None,
    n_components: int | Sequence[int] = 2,
    *,
    fits: Mapping[str, Any] | None = None,
    n_folds: int = _FOLDS,
    n_repeats: int | None = None,
    sample_weight: Any = None,
    random_state: int = 0,
) -> CrossFit:
    """Return what every group loses on rows that were left out of the fit.

    Parameters
    ----------
    X : array-like of shape (m, n), or sequence of GroupMoments
        Rows; or the moments of each fold, however they were counted.
    sensitive_features : array-like, optional
        Labels of the rows, as in `FairPCA.fit`; not with moments.
    n_components : int or sequence of int, default=2
        Ranks to look at.
    fits : mapping of str to estimator, optional
        What to compare: FairPCA, or another with `fit_moments` such as
        `fairpca.methods.BalancedPCA`; `n_components` of each is replaced. By default PCA,
        FairPCA and ``FairPCA(shrinkage="auto")``. Groups are those that `group_by` of the first
        makes.
    n_folds : int, default=5
        Folds that rows are dealt into, group by group, so that every fold has its share of every
        group. Not with moments.
    n_repeats : int, optional
        How often rows are dealt out, each time with new fits; by default 5 times with up to 200
        columns, or rows where these are far fewer, and 20 groups, and once with more, where fits
        take longer. What one dealing finds depends on its chances: widths of intervals differ up
        to twelvefold between seeds, with five dealings about twofold. Moments of folds are one
        dealing.
    sample_weight : array-like of shape (m,), optional
        As in `FairPCA.fit`; not with moments.
    random_state : int, default=0
        Seed of the dealings. An end of an interval near zero may still be on its other side with
        another seed.

    Returns
    -------
    CrossFit

    Examples
    --------
    >>> import numpy as np
    >>> import fairpca
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(300, 5)) * [3, 2, 1, 1, 1]
    >>> found = fairpca.cross_fit(X, ["a"] * 240 + ["b"] * 60, n_components=2)
    >>> found.fits, found.losses.shape
    (('PCA', 'FairPCA', 'FairPCA(shrinkage="auto")'), (3, 1, 2))
    """
    models = _models(fits)
    if sensitive_features is None and not isinstance(X, GroupMoments | Sequence):
        warn_one_group()
    ranks = np.atleast_1d(np.asarray(n_components))
    if not ranks.size:
        raise ValueError("n_components is empty; pass at least one number of components.")
    if ranks.dtype.kind not in "biuf":
        raise ValueError(f"n_components={n_components!r} must be an integer, or several.")
    largest = int(ranks.max())
    dealings = _dealings(
        X, sensitive_features, largest, n_folds, n_repeats, sample_weight, random_state
    )
    found = []
    for folds in dealings:
        with threads_for(folds[0].n_features):
            found.append(_each_left_out(folds, models, ranks))
    known = found[0][0]
    parts = zip(*(numbers for _, numbers in found), strict=True)
    errors, losses, weight, totals = map(np.stack, parts)
    mean_loss = _over_folds(losses, weight).mean(axis=0)
    known_to = _jackknife(mean_loss, _without_each_fold(losses, weight), _held(weight))
    unchecked = np.isnan(mean_loss).all(axis=(0, 1))
    mean_error = _over_folds(errors, weight).mean(axis=0)
    mean_error[..., unchecked] = np.nan
    return CrossFit(
        tuple(models),
        ranks,
        known.labels,
        known.count,
        mean_loss,
        mean_error,
        totals.mean(axis=0),
        known_to.low,
        known_to.high,
        tuple(known.labels[g] for g in np.flatnonzero(unchecked)),
        losses,
        weight,
    )


def _each_left_out(
    folds: list[GroupMoments], models: Mapping[str, Any], ranks: IntArray
) -> tuple[GroupMoments, tuple[FloatArray, FloatArray, FloatArray, FloatArray]]:
    """Leave each fold out of the fits in turn, and measure them on its rows.

    Returns all groups together; errors and losses of shape (folds, f, q, k), weights of shape
    (folds, k) and the mean error of all rows, shape (f, q). ValueError for fewer than two folds.
    """
    # A fold that nobody is in has nothing to fit to and nothing to measure.
    folds = [fold for fold in folds if fold.weight.any()]
    if len(folds) < 2:
        raise ValueError(
            f"{len(folds)} fold(s) leave nothing to fit to; pass at least two, or more rows."
        )
    for r in ranks.tolist():
        check_rank(r, folds[0].n_features)
    group_by = getattr(next(iter(models.values())), "group_by", "intersection")
    known = reduce(GroupMoments.merge, folds).grouped(group_by)
    check_groups(known.labels, known.weight)
    # A fold that has no weight of a group has nothing of it to fit to.
    folds = [
        fold if fold.weight.all() else fold.select(np.flatnonzero(fold.weight).tolist())
        for fold in folds
    ]
    shape = (len(folds), len(models), len(ranks), len(known.labels))
    errors, own = np.full(shape, np.nan), np.full((shape[0], *shape[2:]), np.nan)
    weight = np.zeros((len(folds), len(known.labels)))
    everything = sum(float(fold.weight.sum()) for fold in folds)
    totals = np.zeros(shape[1:3])
    column = {label: g for g, label in enumerate(known.labels)}
    for i, fold in enumerate(folds):
        others = [*folds[i + 1 :], *folds[:i]]
        training = reduce(GroupMoments.merge, others)
        seen = seen_directions(training)
        left_out, share = fold.grouped(group_by), float(fold.weight.sum()) / everything
        whole = fold.pooled()
        places = [column[label] for label in left_out.labels]
        weight[i, places] = left_out.weight
        own[i][:, places] = own_errors(others, left_out, ranks, group_by)
        for j, r in enumerate(ranks.tolist()):
            for f, model in enumerate(models.values()):
                model = fitted_without_warnings(clone(model).set_params(n_components=r), training)
                errors[i, f, j, places] = shared_errors(model, left_out, seen)
                totals[f, j] += share * shared_errors(model, whole, seen)[0]
    errors[..., known.count < len(folds)] = np.nan
    return known, (errors, errors - own[:, None], weight, totals)


def _dealings(
    X: Any,
    labels: Any,
    largest: int,
    n_folds: int,
    n_repeats: int | None,
    sample_weight: Any,
    random_state: int,
) -> Iterator[list[GroupMoments]]:
    """Yield the moments of the folds of every dealing; `largest` is the largest rank."""
    X = [X] if isinstance(X, GroupMoments) else X
    if isinstance(X, Sequence) and X and all(isinstance(fold, GroupMoments) for fold in X):
        check_counted(labels, sample_weight)
        yield list(X)
        return
    repeats = 1 if n_repeats is None else n_repeats
    check_at_least("n_folds", n_folds, 2)
    check_at_least("n_repeats", repeats, 1)
    rows = check_table(X)
    m = rows.shape[0]
    groups = Groups.of(labels, m)
    if groups is not labels:
        warn_of_measurements(groups)
    weights = check_weights(sample_weight, m)
    groups, counted = _weighted(groups, weights)
    rows = dense_if_wide(rows, largest)
    if is_wide(rows, largest):
        rows = np.asarray(rows, dtype=float)
        assert_all_finite(rows, input_name="X")
        rows = in_span(rows, groups, weights)[0]
    n = rows.shape[1]
    if n_repeats is None and n <= _REPEATED_COLUMNS and len(groups.labels) <= _REPEATED_GROUPS:
        repeats = _REPEATS
    try:
        rng = np.random.default_rng(random_state)
    except (TypeError, ValueError):
        raise ValueError(
            f"random_state={random_state!r} must be None, an integer of at least 0, or a "
            "numpy.random.Generator."
        ) from None
    for _ in range(repeats):
        fold = np.zeros(m, dtype=np.int64)
        fold[counted] = _dealt(groups.codes[counted], n_folds, rng)
        in_folds = groups.in_folds(fold, n_folds)
        moments = GroupMoments.from_array(rows, in_folds, sample_weight=weights)
        yield split_folds(moments, n_folds)


def _weighted(groups: Groups, weights: FloatArray | None) -> tuple[Groups, AnyArray]:
    """Return the groups of the rows that count, and which rows these are.

    A row without weight is as good as none: dealt out with the others, it would take the place of
    one that counts. It loses its label. A group without any weight keeps its rows, for the error
    that names it.
    """
    if weights is None:
        return groups, np.ones(len(groups.codes), dtype=bool)
    codes = groups.codes
    counted = (weights > 0) | (np.bincount(codes + 1, weights)[codes + 1] == 0)
    return groups.with_codes(np.where(counted, codes, -1)), counted


def _dealt(codes: IntArray, n_folds: int, rng: np.random.Generator) -> AnyArray:
    """Return the fold of every row: each group is shuffled and dealt out evenly.

    Groups come in the order in which the rows show them, so that what they are called changes
    nothing. Those with fewer rows than folds come last, in a random order: by the order of the
    rows a design with one row a combination would have every condition in a fold of its own.
    """
    fold = np.empty(len(codes), dtype=np.int64)
    known, first = np.unique(codes, return_index=True)
    few = []
    for start, code in enumerate(known[np.argsort(first)]):
        picks = rng.permutation(np.flatnonzero(codes == code))
        # Groups start at different folds, or the first fold would get what is left of all.
        fold[picks] = (np.arange(len(picks)) + start) % n_folds
        if len(picks) < n_folds:
            few.append(picks)
    if few:
        shuffled = np.concatenate([few[i] for i in rng.permutation(len(few))])
        fold[shuffled] = np.arange(len(shuffled)) % n_folds
    return fold


class _PooledPCA(FairPCA):
    """PCA of all rows, labelled or not, from the moments of their groups.

    ``FairPCA(shrinkage=1.0)`` is the same where every row has its labels.
    """

    def fit_moments(self, moments: GroupMoments) -> FairPCA:
        """Fit to all rows as one group."""
        return super().fit_moments(replace(moments.pooled(), names=("all",)))


def usual_fits() -> tuple[FairPCA, FairPCA, FairPCA]:
    """Return what is compared by default: PCA, FairPCA, and FairPCA of shrunk covariances."""
    return _PooledPCA(), FairPCA(), FairPCA(shrinkage="auto")


def _models(fits: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what is compared, by name."""
    if fits is None:
        names = ("PCA", "FairPCA", 'FairPCA(shrinkage="auto")')
        return dict(zip(names, usual_fits(), strict=True))
    named = dict(fits) if isinstance(fits, Mapping) else {}
    if not named or not all(hasattr(model, "fit_moments") for model in named.values()):
        raise ValueError(
            f"fits={fits!r}: pass at least one FairPCA by its name, such as "
            '{"FairPCA": FairPCA()}, or BalancedPCA; other estimators cannot be fitted to moments.'
        )
    return named


def fitted_without_warnings(model: Any, training: GroupMoments) -> Any:
    """Return a model fitted to moments, without the warnings of rows in hand."""
    with warnings.catch_warnings():
        # What counts here is the loss on the rows left out, whether or not the fit is proven best.
        for known in (ConvergenceWarning, NoisyGroupWarning):
            warnings.simplefilter("ignore", known)
        return model.fit_moments(training)


def shared_errors(
    model: Any, left_out: GroupMoments, seen: FloatArray | None = None
) -> FloatArray:
    """Return the error of every group's left-out rows by a fitted model; NaN where it has none.

    Where the rows of its training span less than all columns, `seen` are their `seen_directions`.
    """
    bases = [seen_part(model.components_.T, seen)] * len(left_out.labels)
    ranks = np.array([model.n_components_])
    return np.asarray(_errors(left_out, model.mean_, bases, ranks)[0])


def own_errors(
    training: Sequence[GroupMoments], left_out: GroupMoments, ranks: IntArray, group_by: str
) -> FloatArray:
    """Return the error of every group's left-out rows by its own projection, shape (q, k).

    It is NaN where there are no rows to fit to, or none left out. The first fold of the training
    tells which amount of shrinkage serves a group; with a single fold nothing does, and the group
    is taken as it is. The rows left out have no say: losses of 50 rows were too large by a third
    when they had.
    """
    first, *others = training
    by_amount = _own_errors(reduce(GroupMoments.merge, training), left_out, ranks, group_by)
    chosen = np.array(by_amount[0])
    if not others:
        return chosen
    known = first.grouped(group_by)
    tried = _own_errors(reduce(GroupMoments.merge, others), known, ranks, group_by)
    best = np.argmin(np.where(np.isnan(tried), np.inf, tried), axis=0)
    for g, label in enumerate(left_out.labels):
        if label in known.labels:
            amount = best[:, known.labels.index(label)]
            chosen[:, g] = by_amount[amount, np.arange(len(ranks)), g]
    return chosen


def _own_errors(
    training: GroupMoments, left_out: GroupMoments, ranks: IntArray, group_by: str
) -> FloatArray:
    """Return what `own_errors` does for each of `_SHARED_ROWS`, the first axis."""
    source = MomentCovariances(training, group_by, "global")
    known, own = source.groups.labels, source.groups.rows
    seen, found = seen_directions(training), []
    for rows in _SHARED_ROWS:
        shares = rows / np.where(own + rows > 0, own + rows, 1.0)
        matrices = source.shrunk(shares).covariances
        bases: list[FloatArray | None] = [None] * len(left_out.labels)
        for g, label in enumerate(left_out.labels):
            if label in known:
                basis = leading_pairs(matrices[known.index(label)], int(ranks.max())).vectors
                bases[g] = seen_part(basis, seen)
        found.append(_errors(left_out, source.total.mean, bases, ranks))
    return np.array(found)


def _errors(
    left_out: GroupMoments, mean: FloatArray, bases: Sequence[FloatArray | None], ranks: IntArray
) -> FloatArray:
    """Return every group's mean squared distance from its projection through a mean.

    The projection with r components has the first r columns of the group's basis. The result has
    shape (q, k).
    """
    found = np.full((len(ranks), len(bases)), np.nan)
    for g, (matrix, basis) in enumerate(zip(left_out.second_moments(mean), bases, strict=True)):
        if basis is not None and left_out.weight[g] > 0:
            kept = np.einsum("nr,nm,mr->r", basis, matrix, basis, optimize=True)
            found[:, g] = np.trace(matrix) - np.cumsum(kept)[ranks - 1]
    return found


def _over_folds(values: FloatArray, weight: FloatArray) -> FloatArray:
    """Return the means over the folds of every dealing by weight; NaN where no fold has a number.

    Values have shape (repeats, folds, f, q, k), weights (repeats, folds, k).
    """
    share = np.where(np.isfinite(values), weight[:, :, None, None, :], 0.0)
    total = share.sum(axis=1)
    sums = np.sum(share * np.where(np.isfinite(values), values, 0.0), axis=1)
    return np.asarray(np.divide(sums, total, out=np.full(total.shape, np.nan), where=total > 0))


def _without_each_fold(values: FloatArray, weight: FloatArray) -> FloatArray:
    """Return the means over all folds of a dealing but one, for each in turn along axis 1."""
    every = np.arange(values.shape[1])
    return np.stack(
        [_over_folds(values[:, every != i], weight[:, every != i]) for i in every], axis=1
    )


def _held(weight: FloatArray) -> IntArray:
    """Return in how many folds every group has weight, in the dealing where that is least."""
    return np.asarray(np.count_nonzero(weight, axis=1).min(axis=0))


def _jackknife(value: Any, without: FloatArray, known: Any) -> Estimate:
    """Return an estimate with its interval, from its values without each fold in turn.

    `known` says in how many folds there is something to estimate from: stored folds may lack a
    group, and one without it tells nothing about its spread.

    The variance between folds is raised as Nadeau and Bengio (2003) do because folds share
    training rows, and for several dealings as Bouckaert and Frank (2004) do. The degrees of
    freedom stay those of one dealing, since others are of the same rows: with those of all
    dealings, intervals of losses held the truth in 88 to 99 % of 200 samples of credit and bank,
    with these in 90 to 100 %.
    """
    repeats, folds = len(without), np.maximum(known, 2)
    off = without - without.mean(axis=1, keepdims=True)
    variance = (folds - 1) / folds * np.sum(off**2, axis=1).mean(axis=0)
    variance = variance * (1 / repeats + folds / (folds - 1))
    half = student.ppf(1 - _TAILS / 2, folds - 1) * np.sqrt(variance)
    return Estimate(value, value - half, value + half)
