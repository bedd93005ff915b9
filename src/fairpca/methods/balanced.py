"""PCA in which every group counts alike, however many rows it has."""

from __future__ import annotations

from fairpca.covariances.dense import leading_pairs
from fairpca.methods._base import Found, PublishedMethod, Sample


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
