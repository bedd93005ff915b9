"""Kleindessner et al. 2023: PCA in the directions along which all group means agree."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from fairpca._arrays import FloatArray, complement, span, symmetric
from fairpca.covariances.dense import full_pairs, leading_pairs
from fairpca.methods._base import Found, PublishedMethod, Sample, number

# Differences of means below this share of the data's spread are rounding, and point anywhere.
_NO_GAP = 1e-12
# What there has to be enough of, in the words of the error.
AGREEING = "directions along which the group means agree"


def mean_directions(sample: Sample) -> FloatArray:
    """Return columns that span the differences of the groups' means."""
    shifts = sample.source.groups.shift.T
    spread = np.sqrt(np.trace(sample.covariance))
    return np.asarray(shifts[:, np.linalg.norm(shifts, axis=0) > _NO_GAP * spread])


def equal_mean_directions(sample: Sample) -> FloatArray:
    """Return an orthonormal basis of the directions along which the groups' means agree."""
    return complement(span(mean_directions(sample)))


def leading_within(covariance: FloatArray, allowed: FloatArray, r: int) -> FloatArray:
    """Return the PCA of rank r inside the span of an orthonormal basis."""
    inner = symmetric(allowed.T @ covariance @ allowed)
    return np.asarray(allowed @ leading_pairs(inner, r).vectors)


class NullSpaceFairPCA(PublishedMethod):
    """Fair PCA in closed form: no linear function of the result correlates with the group.

    M. Kleindessner, M. Donini, C. Russell, M. B. Zafar. Efficient Fair PCA for Fair Representation
    Learning. AISTATS, 2023.

    PCA of all rows, restricted to directions along which the groups' means coincide. As cheap as
    PCA, any number of groups. A direction is removed for every difference of means, even if the
    difference is noise. For equal opportunity instead of demographic parity fit on the rows with a
    positive label. The authors' kernel variant is ``make_pipeline(KernelPCA(kernel=...),
    NullSpaceFairPCA(r))``.

    Parameters
    ----------
    n_components : int or None, default=None
        Rank r, at most the number of directions left; None keeps all of these.
    n_kept_directions : int or None, default=None
        Keep this many of the directions with equal means, but at least r: those along which
        covariances differ least, all pairs of groups squared and added (the authors'
        "fair PCA-S", who keep 50 % or 85 % of n). None keeps all.

    Attributes
    ----------
    mean_gap_, n_allowed_ : float, int
        Largest distance of two group means after projection, zero up to rounding, and the number
        of directions that were left to choose from.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.methods import NullSpaceFairPCA
    >>> X, group = np.random.default_rng(0).normal(size=(100, 3)), np.arange(100) < 20
    >>> X[group, 0] += 3
    >>> model = NullSpaceFairPCA(2).fit(X, sensitive_features=group)
    >>> model.mean_gap_ < 1e-10
    True
    """

    n_kept_directions: int | None = number(None, 1)

    _group_range = (2, np.inf)
    notion = "mean gap"

    def _find(self, sample: Sample) -> Found:
        allowed = equal_mean_directions(sample)
        r = self._rank(allowed.shape[1], AGREEING)
        if self.n_kept_directions is not None:
            allowed = _most_alike(sample, allowed, max(r, self.n_kept_directions))
        basis = leading_within(sample.covariance, allowed, r)
        means = sample.source.groups.shift @ basis
        own = {
            "n_allowed_": allowed.shape[1],
            "mean_gap_": float(np.linalg.norm(means[:, None] - means, axis=2).max()),
        }
        return Found(basis, "closed form", own=own)


def _most_alike(sample: Sample, allowed: FloatArray, count: int) -> FloatArray:
    """Return the `count` allowed directions along which the covariances differ least."""
    inner = symmetric(allowed.T @ sample.source.covariances @ allowed)
    # Sum over pairs of (C_i - C_j)^2: for two groups, ordered as |eigenvalues| of C_1 - C_2. The
    # differences themselves could cancel.
    squares = sum((a - b) @ (a - b) for a, b in combinations(inner, 2))
    order = full_pairs(symmetric(np.asarray(squares))).vectors[:, ::-1]
    return np.asarray(allowed @ order[:, :count])
