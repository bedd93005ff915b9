"""How much of a group is noise: what few rows tell of its covariance, its mean and its loss.

The covariance of few rows is mostly noise. `shares_by_rows` says how far ``shrinkage="auto"``
moves it towards what all groups share, and `warn_of_noise` tells a user whose optimum rests on it.
"""

from __future__ import annotations

import numpy as np

from fairpca._checks import listed, warn
from fairpca._linalg import FloatArray, rounding_level
from fairpca.covariances.eigenpairs import EigenPairs
from fairpca.covariances.oracle import Oracle
from fairpca.covariances.sources import CovarianceSource

# What shrinkage="auto" is made of; `shares_by_rows` says how. All were chosen together, by the
# worst group's loss in the population, on samples of credit, bank and faces in which one group
# has 20 to 1,000 rows and the others 2,000. Over 60 samples each, the loss is 0.79 to 1.03 times
# that of the better of PCA and the fit without shrinkage in every one of 40 cases, and at most
# 1.01 times that of PCA with 20 or 50 rows. `python -m benchmarks new_rows` has the table.

# Rows at which half of the matrix is taken to be noise. With 200, groups of 200 faces lose 1.06
# times what they lose by the better fit; with 130, groups of 50 in credit by sex 1.02 times PCA's.
_NOISY_ROWS = 150.0
# How much a mean that explains the loss holds a group back. With the power 2, a table that holds
# the sensitive column itself has 1.45 times the loss of the better fit in place of 1.27; with 4,
# groups of 20 rows have 1.04 times PCA's.
_KNOWN_POWER = 3
# A mean is believed from this many times its squared error on. With 1, groups of 20 rows have 1.05
# times PCA's loss; with 2, credit by marriage 1.12 times that of the better fit.
_CLEAR_OF_CHANCE = 1.8
# Chance makes this many times more than among normal rows, whose tails are lighter than those of
# real columns. With 4, groups of 50 in bank by marital status have 1.02 times PCA's loss; with 8,
# two hundred digits are not believed to differ (1.19 times the better fit).
_TAILS = 6.0
# How fast a loss beyond chance frees a group. With 6 no ratio changes by more than 0.02.
_DOUBT_POWER = 4
# Numbers that products with many groups' means may hold at once; only memory depends on it.
_NUMBERS_AT_ONCE = 2**23
# Losses below this share of the variance explain nothing and are explained by nothing.
_NO_LOSS = 1e-6
# Groups with at least this many rows are not suspected: what chance adds to their losses is small,
# and looking would cost every fit a decomposition more.
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


def shares_by_rows(
    source: CovarianceSource, oracle: Oracle, unit: float, own: FloatArray, r: int
) -> FloatArray:
    """Return how far ``shrinkage="auto"`` moves each group's matrix towards what all share.

    The covariance of few rows is mostly noise, the more so the fewer they are, and is moved by
    ``1 / (1 + (rows / 150)**2)``. Two things say that a group is no noise, and make that less:

    * its mean, which few rows tell far better than a covariance, explains what it loses by PCA;
    * it loses more by PCA than chance makes groups of its size lose.

    Parameters
    ----------
    source : CovarianceSource
    oracle : Oracle
        Of the source's matrices times `unit`.
    unit : float
        One over the variance or so: squares of very large variances are no numbers.
    own : ndarray of shape (k,)
        What each group's own PCA of rank r keeps of its variance.
    r : int

    Returns
    -------
    ndarray of shape (k,)
        Between 0, the group's own matrix, and 1, the mean of all groups' matrices.
    """
    groups = source.groups
    # Beyond a million times as many rows the square may be no number, and nothing is moved.
    noisy = 1 / (1 + np.minimum(groups.rows / _NOISY_ROWS, 1e6) ** 2)
    pooled = groups.weight / groups.weight.sum()
    pca = oracle.leading(pooled, r)
    trace = unit * float(pooled @ groups.traces)
    if trace < np.finfo(float).tiny / _NO_LOSS:
        # The groups that have weight have no variance, and losses tell nothing.
        return np.asarray(noisy)
    losses = unit * own - oracle.retained_variance(pca.vectors)
    losses = np.maximum(losses, _NO_LOSS * trace)
    # The mean of n rows is off by a squared distance of a row's variance over n.
    shift = groups.shift * (np.sqrt(unit) if source.center == "global" else 0.0)
    squares = np.einsum("kn,kn->k", shift, shift)
    chance = _CLEAR_OF_CHANCE * trace / np.maximum(groups.rows, 1.0)
    real = 1 - np.divide(chance, squares, out=np.ones_like(squares), where=squares > chance) ** 2
    explained = _loss_of_mean(oracle, pooled, pca, shift * np.sqrt(real)[:, None])
    known = np.clip(explained / losses, 0.0, 1.0)
    # Products show the leading eigenvalues only; the others share the variance that is left.
    dimension = min(shift.shape[1], source.total.count)
    rest = np.full(max(dimension - r, 0), (trace - pca.values.sum()) / max(dimension - r, 1))
    by_chance = loss_of_chance(np.r_[pca.values, rest][None], groups.rows / _TAILS, r)
    doubtful = np.clip(by_chance / losses, 0.0, 1.0)
    return np.asarray(noisy * (1 - known) ** _KNOWN_POWER * doubtful**_DOUBT_POWER)


def _loss_of_mean(
    oracle: Oracle, pooled: FloatArray, pca: EigenPairs, shift: FloatArray
) -> FloatArray:
    """Return what PCA would lose for groups that differ from all rows by their mean alone.

    Such a group has the matrix W of all rows and beside it its mean times itself. In PCA's
    subspace and the one direction of the mean outside of it, that is a diagonal and one outer
    product; PCA gives the direction outside up, and the best choice gives up the least one.

    `pooled` are the weights of the groups in W, `pca` its leading pairs, and `shift`, of shape
    (k, n), the means of the groups minus the mean of all rows. The result has shape (k,).
    """
    inside = shift @ pca.vectors
    outside = shift - inside @ pca.vectors.T
    distance = np.linalg.norm(outside, axis=1)
    directions = (outside / np.where(distance > 0, distance, 1.0)[:, None]).T
    found = np.zeros(len(shift))
    few = max(1, _NUMBERS_AT_ONCE // outside.size)
    for start in range(0, len(shift), few):
        columns = directions[:, start : start + few]
        spread = pooled @ np.einsum("np,knp->kp", columns, oracle.apply(columns))
        for g, variance in enumerate(spread, start):
            ends = np.r_[inside[g], distance[g]]
            matrix = np.diag(np.r_[pca.values, variance]) + np.outer(ends, ends)
            found[g] = matrix[-1, -1] - np.linalg.eigvalsh(matrix)[0]
    return np.maximum(found, 0.0)


def loss_of_chance(spectra: FloatArray, rows: FloatArray, r: int) -> FloatArray:
    """Return the loss that groups show under the best shared projection by chance alone.

    A group's own PCA fits the noise of its rows: it keeps more of them than it would of new ones.
    Take one direction inside the leading r and one outside, with variances a > b. In a sample
    their covariance is not zero; its square has the mean ``a b / rows``. With that entry off the
    diagonal, the larger eigenvalue of the 2 x 2 matrix exceeds a by
    ``(sqrt((a - b)**2 + 4 a b / rows) - (a - b)) / 2``. The own PCA gains this in the rows at hand
    and loses about as much in new ones; both are added up over all pairs of directions.

    Spectra, of shape (q, n), are all eigenvalues of every group's matrix, largest first; the
    result, of shape (q,), is the gain in these rows and the loss in new ones together.
    """
    # In units of the largest: squares of very large variances are no numbers.
    unit = float(spectra.max(initial=0.0)) or 1.0
    spectra = np.maximum(spectra, 0.0) / unit
    inside, outside = spectra[:, :r, None], spectra[:, None, r:]
    apart = inside - outside
    # Weights may add up to less than one row; fewer than that nobody has.
    coupled = 4 * inside * outside / np.reshape(np.maximum(rows, 1.0), (-1, 1, 1))
    return np.asarray(unit * np.sum(np.sqrt(apart**2 + coupled) - apart, axis=(1, 2)))


def warn_of_noise(
    source: CovarianceSource, losses: FloatArray, weights: FloatArray, r: int
) -> None:
    """Warn where the optimum rests on groups whose losses are no larger than chance makes them.

    Losses and dual weights are those of the projection found, with r components. Nothing is said
    where matrices are known by products only.
    """
    groups = source.groups
    few = np.flatnonzero((groups.count < _MANY_ROWS) & (weights > 0) & (groups.weight > 0))
    if len(weights) < 2 or weights[few].sum() <= _TELLING_WEIGHT:
        return
    if losses.max() <= rounding_level(float(groups.traces.max()), groups.mean.shape[1]):
        # Nobody loses anything, and then the dual weights say nothing.
        return
    # What so few rows say about their own spectrum is noise, too, so every group gets that of all
    # groups, in units of its own variance. Of 670 samples of the tables of `benchmarks.new_rows`
    # the warning comes in 453, and in 215 of these PCA serves new rows as well. With a spectrum of
    # each group, shrunk by 80 / (rows + 80), that was 440 and 211, for a decomposition a group.
    shared = source.shared_spectrum()
    if shared is None:
        return
    traces = groups.traces[few] / (float(shared.sum()) or 1.0)
    noisy = few[losses[few] <= loss_of_chance(np.outer(traces, shared), groups.rows[few], r)]
    if weights[noisy].sum() <= _TELLING_WEIGHT:
        return
    order = noisy[np.argsort(-weights[noisy], kind="stable")]
    rows = [f"{m} row{'s' if m != 1 else ''}" for m in groups.count]
    named = listed(order.tolist(), 5, lambda g: f"{groups.labels[g]!r} ({rows[g]})")
    warn(
        f"The projection rests on groups whose loss is no larger than chance makes it in so few "
        f"rows: {named}. They count for {100 * weights[noisy].sum():.0f} % in its choice, "
        "and on new rows PCA may serve everybody as well. Pass shrinkage='auto', merge small "
        "groups or add rows; fairpca.cross_fit shows what every group loses on rows left out.",
        NoisyGroupWarning,
    )
