"""Seiter et al. 2026: PCA drawn towards the directions that groups have in common."""

from __future__ import annotations

import numpy as np

from fairpca._arrays import rounding_level
from fairpca.covariances.dense import DenseOracle, leading_pairs
from fairpca.methods._base import Found, PublishedMethod, Sample, number


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
    >>> bool(model.agreement_.min() > 0.99)
    True
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
