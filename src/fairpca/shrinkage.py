"""How much of a group is noise: what few rows tell of its covariance, and of its loss."""

from __future__ import annotations

from typing import Any

import numpy as np

from fairpca._arrays import FloatArray, rounding_level
from fairpca._check import listed, warn
from fairpca.covariances.dense import leading_pairs
from fairpca.moments.group_moments import GroupMoments

# Groups with at least this many rows are not suspected: what chance adds to their losses is small.
_MANY_ROWS = 1000
# Dual weight on suspected groups from which on the answer is theirs. Of two groups each has about
# half of the weight, whichever of them is noise.
_TELLING_WEIGHT = 0.25


class NoisyGroupWarning(UserWarning):
    """The optimum rests on groups with so few rows that it may serve their noise.

    Examples
    --------
    Whoever knows the group to be small silences it; ``shrinkage="auto"`` answers it.

    >>> import warnings
    >>> import numpy as np
    >>> from fairpca import FairPCA, NoisyGroupWarning
    >>> X = np.random.default_rng(0).normal(size=(500, 20))
    >>> labels = ["a"] * 485 + ["b"] * 15
    >>> with warnings.catch_warnings(record=True) as caught:
    ...     warnings.simplefilter("always", NoisyGroupWarning)
    ...     model = FairPCA(2).fit(X, sensitive_features=labels)
    >>> [warning.category.__name__ for warning in caught]
    ['NoisyGroupWarning']
    """


def held_out_shares(folds: list[GroupMoments], r: int, *, center: str = "global") -> FloatArray:
    """Return how far ``shrinkage="auto"`` moves each group's matrix towards what all share."""
    whole = folds[0]
    for fold in folds[1:]:
        whole = whole.merge(fold)
    total = whole.pooled()
    about = total.mean[0]
    labels = [label for label in whole.labels if label is not None]
    place = {label: i for i, label in enumerate(labels)}
    n, k = whole.n_features, len(labels)
    sums, weights = np.zeros((len(folds), k, n, n)), np.zeros((len(folds), k))
    for j, fold in enumerate(folds):
        moments = fold.second_moments(about)
        for i, label in enumerate(fold.labels):
            if label is not None:
                weights[j, place[label]] = fold.weight[i]
                sums[j, place[label]] = moments[i] * fold.weight[i]
    everything = sums.sum(axis=(0, 1))
    own_all, w_all = sums.sum(axis=0), weights.sum(axis=0)
    pooled = leading_pairs(everything / w_all.sum(), r).vectors
    shares = np.ones(k)
    for g in range(k):
        S = own_all[g] / w_all[g]
        loss = leading_pairs(S, r).values.sum() - np.einsum("ir,ij,jr->", pooled, S, pooled)
        gains = []
        for j in np.flatnonzero(weights[:, g]):
            left = w_all[g] - weights[j, g]
            if left <= 0:
                continue
            own = (own_all[g] - sums[j, g]) / left
            rest = (everything - sums[j, g]) / (w_all.sum() - weights[j, g])
            kept = leading_pairs(rest, r).vectors
            a = 80 / (left + 80)
            test = sums[j, g] / weights[j, g]
            base = np.einsum("ir,ij,jr->", kept, test, kept)
            gains.append(
                [
                    np.einsum("ir,ij,jr->", u, test, u) - base
                    for u in (leading_pairs((1 - b) * own + b * rest, r).vectors for b in (0, a))
                ]
            )
        if len(gains) > 1 and loss > 0:
            found = np.array(gains)
            best = (found.mean(axis=0) - found.std(axis=0) / np.sqrt(len(found))).max()
            shares[g] = (1 - np.clip(best / loss, 0, 1)) ** 2
    return shares


def warn_of_noise(
    groups: Any, losses: FloatArray, weights: FloatArray, spectrum: FloatArray, r: int
) -> None:
    """Warn where the optimum rests on groups whose losses are no larger than chance makes them.

    A group's own PCA fits the noise of its rows: it keeps more of them than it would of new ones.
    Take one direction inside the leading r and one outside, with variances a > b. In a sample
    their covariance is not zero; its square has the mean ``a b / rows``, and with that entry off
    the diagonal the larger eigenvalue of the 2 x 2 matrix exceeds a. The own PCA gains this in the
    rows at hand and loses about as much in new ones; both are added up over all pairs.

    Parameters
    ----------
    groups : GroupFacts
    losses, weights : ndarray of shape (k,)
        Losses and dual weights of the projection found.
    spectrum : ndarray of shape (n,)
        Variances of all rows, largest first.
    r : int
    """
    few = np.flatnonzero((groups.count < _MANY_ROWS) & (weights > 0))
    if len(weights) < 2 or weights[few].sum() <= _TELLING_WEIGHT or not spectrum[0] > 0:
        return
    if losses.max() <= rounding_level(float(groups.traces.max()), len(spectrum)):
        # Nobody loses anything, and then the dual weights say nothing.
        return
    inside, outside = spectrum[:r, None], spectrum[None, r:]
    apart = np.maximum(inside - outside, 0.0)
    unit = groups.traces[few] / spectrum.sum()
    rows = np.maximum(groups.count[few], 1.0)
    chance = np.array([np.sum(np.sqrt(apart**2 + 4 * inside * outside / m) - apart) for m in rows])
    noisy = few[losses[few] <= unit * chance]
    if weights[noisy].sum() <= _TELLING_WEIGHT:
        return
    order = noisy[np.argsort(-weights[noisy], kind="stable")]
    sizes = [f"{m} row{'s' if m != 1 else ''}" for m in groups.count]
    named = listed(order.tolist(), 5, lambda g: f"{groups.labels[g]!r} ({sizes[g]})")
    warn(
        f"The projection rests on groups whose loss is no larger than chance makes it in so few "
        f"rows: {named}. They count for {100 * weights[noisy].sum():.0f} % in its choice, "
        "and on new rows PCA may serve everybody as well. Pass shrinkage='auto', merge small "
        "groups or add rows; fairpca.cross_fit shows what every group loses on rows left out.",
        NoisyGroupWarning,
    )
