"""PCA of the mean of the groups' matrices, in which each counts alike, and what was made of it."""

from __future__ import annotations

import numpy as np

from fairpca._arrays import rounding_level
from fairpca.covariances.dense import DenseOracle, leading_pairs
from fairpca.methods._base import Found, PublishedMethod, Sample, number


class BalancedPCA(PublishedMethod):
    """PCA of the mean of the groups' second moments.

    PCA weighs groups by their rows, so that a large one decides. Here each has the same weight.
    Nothing is said about the worst of them: a group whose variance is large still decides, and the
    mean of the groups' errors is as small as it can be. It is the first thing to try against
    `fairpca.FairPCA`.

    Parameters
    ----------
    n_components : int or None, default=None
        As in `fairpca.methods`.
    center : {"global", "group", "none"}, default="global"
        As in `fairpca.methods`. With "global" the means of the groups add to what is kept.

    Notes
    -----
    For single cells this is the idea of `multiBatchPCA` in batchelor (A. T. L. Lun, for L.
    Haghverdi et al., "Batch effects in single-cell RNA-sequencing data are corrected by matching
    mutual nearest neighbors", 2018), which subtracts the mean of the groups' means, where here it
    is the mean of all rows. `balanced_pca` of ALLCools (H. Liu et al., "DNA methylation atlas of
    the mouse brain at single-cell resolution", 2021) draws equally many rows of each group instead
    of weighing all of them.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.methods import BalancedPCA
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(size=(90, 2)) * [2, 1], rng.normal(size=(10, 2)) * [1, 5]])
    >>> model = BalancedPCA(1).fit(X, sensitive_features=["a"] * 90 + ["b"] * 10)
    >>> bool(abs(model.components_[0, 1]) > 0.9)
    True
    """

    notion = "mean error"

    center: str = "global"

    def _find(self, sample: Sample) -> Found:
        mixture = sample.second_moments(self.center).mean(axis=0)
        pairs = leading_pairs(mixture, self._rank(sample.n_features))
        return Found(pairs.vectors, "one decomposition")


class AnchorPCA(PublishedMethod):
    """PCA of the groups' mean covariance, with a bonus for directions that many groups share.

    B. Seiter, A. Fries, J. von Kuegelgen, J. Peters. Anchor PCA. arXiv:2606.06233, 2026.

    The components are the leading eigenvectors of ``S + 2 E lam P``: S is the mean of the E
    groups' matrices, P the mean of the projectors on each group's own r leading directions. A
    direction that varies much in one group only is passed over for one that all groups have. The
    authors claim that it serves groups that were not in the fit. Nothing is said about the worst
    group of the fit.

    Parameters
    ----------
    n_components, center
        As in all of `fairpca.methods`.
    lam : float, default=1.0
        Weight of what is shared, in units of variance; 0 is `BalancedPCA`. A group of fewer rows
        than components has only the directions in which it varies.

    Attributes
    ----------
    agreement_ : ndarray of shape (k,)
        Share of each group's own r leading directions that the components span, from 0 to 1.

    Examples
    --------
    >>> from fairpca import datasets, methods
    >>> known = datasets.make_shared_subspace(random_state=0)
    >>> model = methods.AnchorPCA(3, lam=10)
    >>> model = model.fit(known.data, sensitive_features=known.sensitive_features)
    >>> round(float(model.agreement_.min()), 2)
    0.67
    """

    lam: float = number(1.0, 0)
    center: str = "group"

    notion = "shared directions"

    def _find(self, sample: Sample) -> Found:
        matrices, r = sample.second_moments(self.center), self._rank(sample.n_features)
        own = []
        for pairs in DenseOracle(matrices).own_pairs(r):
            # Where a group does not vary, rounding alone would choose its directions.
            varies = pairs.values[:r] > rounding_level(float(pairs.values[0]), sample.n_features)
            own.append(pairs.vectors[:, :r][:, varies])
        shared = sum(vectors @ vectors.T for vectors in own)
        basis = leading_pairs(matrices.mean(axis=0) + 2 * self.lam * shared, r).vectors
        agreement = [
            np.sum((vectors.T @ basis) ** 2) / max(vectors.shape[1], 1) for vectors in own
        ]
        return Found(basis, "one decomposition", own={"agreement_": np.array(agreement)})
