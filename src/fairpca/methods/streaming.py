"""Lee et al. 2023: fair PCA of a stream, by the fair noisy power method."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from fairpca._arrays import FloatArray, complement, expand, fix_signs, orthonormal, outside, span
from fairpca.covariances.dense import full_pairs
from fairpca.methods._base import Found, PublishedMethod, Sample, generator, number
from fairpca.methods.null_space import leading_within, mean_directions
from fairpca.moments.groups import Groups, Label, Labels, Rows, Seed, Weights, sort_labels

# What there has to be enough of, in the words of the error.
_LEFT = "directions that are not removed"
# Share of the last power iterate that is added to the next: above rounding, below what blocks say.
_TRACE = 1e-10


class StreamingFairPCA(PublishedMethod):
    """Fair PCA that nulls out what separates two groups, also on a stream.

    J. Lee, H. Cho, S.-Y. Yun, C. Yun. Fair Streaming Principal Component Analysis: Statistical and
    Algorithmic Viewpoint. Advances in Neural Information Processing Systems 36, 2023.

    The difference of the two group means and the m directions along which their covariances
    differ most are removed; PCA of all rows is done in what remains. `fit` does so exactly.
    `partial_fit` reads blocks of rows and keeps O(n (r + m)) numbers: the first blocks learn the
    directions, the others the components, both by power iterations. The authors' stream code does
    not centre second moments; here a stream of full batches ends where `fit` does, provided the
    m-th and the next eigenvalue of the covariance difference differ in size.

    Parameters
    ----------
    n_components : int or None, default=None
        Rank r; needs ``r + m + 1 <= n``. None keeps all that remains.
    n_directions : int, default=0
        m, the directions of different covariance that are removed.
    learning_blocks : int, default=100
        Calls of `partial_fit` that learn what to remove; later calls learn the components.
    random_state
        As in all of `fairpca.methods`.

    Attributes
    ----------
    removed_ : ndarray of shape (n_features_in_, m + 1)
        Orthonormal columns, orthogonal to every component.
    components_, mean_, groups_, group_counts_, group_means_, n_iter_
        As in all of `fairpca.methods`; `n_iter_` counts blocks. `partial_fit` sets these once it
        learns components. All others need the n x n moments and are set by `fit` only.

    Examples
    --------
    >>> from fairpca import datasets, methods
    >>> known = datasets.make_shared_subspace((80, 80), random_state=0)
    >>> model = methods.StreamingFairPCA(2, learning_blocks=1)
    >>> for part in (slice(0, None, 2), slice(1, None, 2)):
    ...     labels = known.sensitive_features[part]
    ...     model = model.partial_fit(known.data[part], sensitive_features=labels)
    >>> bool(abs(model.components_ @ model.removed_).max() < 1e-12)
    True
    """

    n_directions: int = number(0, 0)
    learning_blocks: int = number(100, 1)
    random_state: Seed = None

    _group_range = (2, 2)
    notion = "mean gap"

    def _find(self, sample: Sample) -> Found:
        # A stream that was read before ends here: its directions are not those of these rows.
        self.__dict__.pop("_stream", None)
        covariances = sample.source.covariances
        pairs = full_pairs(covariances[0] - covariances[1])
        order = np.argsort(-np.abs(pairs.values), kind="stable")[: self.n_directions]
        # The two shifts from the overall mean are parallel; one of them is enough.
        removed = expand(pairs.vectors[:, order], span(mean_directions(sample)[:, :1]))
        allowed = complement(removed)
        basis = leading_within(sample.covariance, allowed, self._rank(allowed.shape[1], _LEFT))
        return Found(basis, "offline", own={"removed_": removed})

    def partial_fit(
        self, X: Rows, y: object = None, *,
        sensitive_features: Labels | None = None, sample_weight: Weights = None,
    ) -> Self:  # fmt: skip
        """Read one block of rows; arguments as in `fit`, labels are required.

        A block without one of the groups still counts, but cannot teach how covariances differ.
        Until both groups were seen no component is learned, and nothing can be projected.
        """
        self._check_params()
        stream: _Stream | None = copy.deepcopy(self.__dict__.get("_stream"))
        rows, groups, weight = self._rows(
            X, sensitive_features, sample_weight, reset=stream is None, part=True
        )
        n = rows.shape[1]
        r = self._rank(n - self.n_directions - 1, _LEFT)
        if stream is None:
            draw = generator(self.random_state).standard_normal
            first, second = draw((n, self.n_directions)), draw((n, r))
            stream = _Stream({}, orthonormal(first), orthonormal(second))
            # What `fit` found is not of this stream.
            self._set_fitted({})
        weight = np.ones(len(rows)) if weight is None else weight
        # One group so far is no mistake: the other may come with a later block.
        self._check_group_number(max(len({*stream.groups, *groups.labels}), 2))
        parts = stream.read(rows, groups, weight)
        if stream.blocks <= self.learning_blocks or len(stream.groups) < 2:
            stream.learn_directions(parts)
        elif parts:
            stream.learn_components(rows, weight)
            self._set_fitted(stream.attributes)
        self._stream = stream
        return self


@dataclass
class _Stream:
    """What survives a block: the groups seen so far, and two power iterates.

    `groups` has the rows, weight and mean of each, `directions`, shape (n, m), are those of
    different covariance, `components` has shape (n, r).
    """

    groups: dict[Label, tuple[int, float, FloatArray]]
    directions: FloatArray
    components: FloatArray
    blocks: int = 0

    @property
    def mean(self) -> FloatArray:
        """Mean of all rows so far."""
        _, weights, means = zip(*self.groups.values(), strict=True)
        return np.asarray(np.average(means, axis=0, weights=weights))

    @property
    def removed(self) -> FloatArray:
        """The directions to remove, the difference of the means included."""
        (*_, first), (*_, second) = self.groups.values()
        return np.asarray(expand(self.directions, span((first - second)[:, None])))

    @property
    def attributes(self) -> dict[str, Any]:
        """The fitted attributes that need no n x n moments."""
        labels = sort_labels(self.groups)
        counts, _, means = zip(*(self.groups[label] for label in labels), strict=True)
        return {
            "components_": fix_signs(np.ascontiguousarray(self.components.T)),
            "mean_": self.mean,
            "n_components_": self.components.shape[1],
            "removed_": self.removed,
            "groups_": labels,
            "group_counts_": np.array(counts),
            "group_means_": np.array(means),
            "n_iter_": self.blocks,
            "center_": "global",
        }

    def read(
        self, X: Any, groups: Groups, weight: FloatArray
    ) -> list[tuple[FloatArray, FloatArray]]:
        """Count a block into the groups' means; return the rows and weights of each group."""
        self.blocks += 1
        members = [groups.codes == code for code in range(groups.n_groups)]
        parts = [(X[member], weight[member]) for member in members]
        for label, (rows, w) in zip(groups.labels, parts, strict=True):
            count, known, mean = self.groups.get(label, (0, 0.0, np.zeros(X.shape[1])))
            total = known + float(w.sum())
            # By its distance from the mean so far: sums of many rows would lose their digits.
            mean = mean + w @ (rows - mean) / total
            self.groups[label] = count + len(rows), total, mean
        return parts

    def learn_directions(self, parts: list[tuple[FloatArray, FloatArray]]) -> None:
        """One power iteration on the difference of the block's group covariances."""
        if len(parts) == 2 and self.directions.shape[1] > 0:
            first, second = (
                _covariance_product(X, w, self.directions, w @ X / w.sum()) for X, w in parts
            )
            self.directions = _power_step(first - second, self.directions)

    def learn_components(self, X: Any, weight: FloatArray) -> None:
        """One power iteration on the block's covariance, outside the removed directions."""
        removed = self.removed
        start = outside(removed, self.components)
        image = _covariance_product(X, weight, start, self.mean)
        self.components = _power_step(outside(removed, image), start)


def _power_step(image: FloatArray, start: FloatArray) -> FloatArray:
    """Return the next power iterate."""
    # A block with few rows has an image of low rank; a trace of the last iterate keeps the missing
    # directions from becoming arbitrary, and moves no fixed point.
    norm = float(np.linalg.norm(image))
    # One row of each group has no covariance, and nothing to teach.
    return orthonormal(image + _TRACE * norm * start) if norm > 0 else start


def _covariance_product(
    X: Any, weight: FloatArray, columns: FloatArray, mean: FloatArray
) -> FloatArray:
    """Return the covariance of weighted rows times columns, the covariance never formed."""
    centred = X - mean
    return np.asarray(centred.T @ (weight[:, None] * (centred @ columns)) / weight.sum())
