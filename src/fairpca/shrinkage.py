"""How far to shrink each group's covariance, from rows left out: ``shrinkage="auto"``."""

from __future__ import annotations

from functools import reduce

import numpy as np

from fairpca._arrays import FloatArray
from fairpca.covariances.dense import leading_pairs, leading_vectors
from fairpca.moments.group_moments import GroupMoments

# Parts that are left out in turn, and rows' worth of what all share that a group's own PCA gets:
# at least this share of the group, or rounding would choose the components that few rows lack.
_PARTS, _SHARED_ROWS, _LEAST_SHARED = 5, (0.0, 400.0, 2000.0), 1e-9
# Rows with which half of what they say is believed. The standard error of so few is known badly:
# halves of wine, 24 to 36 rows a group, had 1.25 times PCA's excess where all was believed.
# A group of fewer than a dozen is not asked: that would move its share by less than a hundredth.
_HALF_BELIEVED, _FEWEST = 50, 12


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
    """Return how far ``shrinkage="auto"`` moves each group's matrix towards what all share.

    Every fold is left out in turn. What the group's own PCA, fitted to the other folds, keeps of
    its left-out rows beyond what PCA of all rows keeps, less one standard error, is set against
    what the group seems to lose by that PCA in the rows at hand. With s the quotient of the two,
    between 0 and 1, and m rows, the group is moved by ``(1 - s / (1 + (50 / m)**4))**3``: hardly
    where its own directions hold for new rows, and all the way where they do not.

    Parameters
    ----------
    folds : list of GroupMoments
        The rows in parts, without unlabelled ones.
    r : int
        Components.
    center : {"global", "group"}
        What second moments are about: the mean of all rows, or each group's own.

    Returns
    -------
    ndarray of shape (k,)
        From 0 to 1, in the order of the groups' labels; 1 for a group that is in one fold only, or
        has fewer than 12 rows.
    """
    # More parts cost more decompositions and tell no more.
    parts = [reduce(GroupMoments.merge, folds[j::_PARTS]) for j in range(min(_PARTS, len(folds)))]
    whole = reduce(GroupMoments.merge, parts).on_host()
    about = whole.mean if center == "group" else whole.pooled().mean
    about = np.broadcast_to(about, whole.mean.shape)
    shape = (len(parts), len(whole.labels), whole.n_features, whole.n_features)
    sums, weight = np.zeros(shape), np.zeros(shape[:2])
    for j, part in enumerate(parts):
        places = [whole.labels.index(label) for label in part.labels]
        weight[j, places] = part.weight
        moments = part.on_host().second_moments(about[places])
        sums[j, places] = moments * part.weight[:, None, None]
    own, everything = sums.sum(axis=0), sums.sum(axis=(0, 1))
    rest = everything - sums.sum(axis=1)
    shared, pca = leading_vectors(rest, r), leading_pairs(everything, r).vectors
    seeming = _kept(own, leading_vectors(own, r)) - _kept(own, pca)
    shares = np.ones(len(own))
    for g, total in enumerate(own):
        held, loss = np.flatnonzero(weight[:, g]), seeming[g] / weight[:, g].sum()
        if len(held) < 2 or loss <= 0 or whole.count[g] < _FEWEST:
            continue
        gains, w = np.zeros((len(_SHARED_ROWS), len(held))), weight[held, g]
        for i, j in enumerate(held.tolist()):
            new, left = sums[j, g], weight[:, g].sum() - weight[j, g]
            # The group's rows alone, or with some rows' worth of what all share.
            rows = np.maximum(_SHARED_ROWS, _LEAST_SHARED * left)[:, None, None]
            matrices = total - new + rows / (weight.sum() - weight[j].sum()) * rest[j]
            bases = leading_vectors(matrices / (left + rows), r)
            gains[:, i] = _kept(new, bases) - _kept(new, shared[j])
        gains /= w
        mean = gains @ w / w.sum()
        error = np.sqrt((gains - mean[:, None]) ** 2 @ w / w.sum() / (len(held) - 1))
        believed = np.clip((mean - error).max() / loss, 0, 1)
        shares[g] = (1 - believed / (1 + (_HALF_BELIEVED / whole.count[g]) ** 4)) ** 3
    return shares


def _kept(matrices: FloatArray, bases: FloatArray) -> FloatArray:
    """Return what a basis keeps of a matrix, or each basis of its own one."""
    return np.asarray(np.einsum("...ir,...ir->...", bases, matrices @ bases))
