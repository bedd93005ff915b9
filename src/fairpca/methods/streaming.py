"""Lee et al. 2023: fair PCA of a stream, by the fair noisy power method."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.utils import check_random_state

from fairpca._checks import check_rank
from fairpca._linalg import FloatArray, expand, fix_signs, orthonormal
from fairpca.base import Rows
from fairpca.covariances.eigenpairs import full_pairs
from fairpca.methods.base import PublishedMethod, check_positive
from fairpca.methods.null_space import allowed_directions, leading_within, mean_directions
from fairpca.moments.label_codes import Label, sort_labels


class StreamingFairPCA(PublishedMethod):
    """Fair PCA that nulls out what separates two groups, also on a stream (Lee et al., 2023).

    The difference of the two group means and the m directions along which their covariances
    differ most are removed; PCA of all rows is done in what remains. `fit` does so exactly.
    `partial_fit` reads blocks of rows and keeps O(n (r + m)) numbers: the first blocks learn the
    directions, the others the components, both by power iterations.

    Parameters
    ----------
    n_components : int or None, default=None
        Rank r; needs ``r + m + 1 <= n``. None keeps all that remains.
    n_directions : int, default=0
        m, the directions of different covariance that are removed.
    learning_blocks : int, default=100
        Calls of `partial_fit` that learn what to remove; later calls learn the components.
    random_state : int, RandomState instance or None, default=None
        Of the first power iterates; None is a fixed seed.

    Attributes
    ----------
    removed_ : ndarray of shape (n_features_in_, m + 1)
        Orthonormal columns, orthogonal to every component.
    components_, mean_, groups_, group_counts_, group_means_
        As in `fairpca.FairPCA`. `partial_fit` sets them once it learns components.
    group_losses_, group_errors_, explained_variance_, ...
        As in `fairpca.FairPCA`, after `fit` only: they need the n x n moments.
    n_iter_ : int
        Blocks read; 1 after `fit`.
    center_ : str
        Always "global". Covariances are about the group means, in the stream those of the block.

    Notes
    -----
    The authors' stream code uses second moments that are not centred, their offline code centred
    ones; both are centred here, so that a stream of full batches ends where `fit` does, provided
    the m-th and the next |eigenvalue| of the covariance difference are distinct.

    References
    ----------
    J. Lee, H. Cho, S.-Y. Yun, C. Yun. Fair Streaming Principal Component Analysis: Statistical and
    Algorithmic Viewpoint. Advances in Neural Information Processing Systems 36, 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca.methods import StreamingFairPCA
    >>> rng = np.random.default_rng(0)
    >>> X = np.vstack([rng.normal(size=(80, 4)), rng.normal(size=(20, 4)) + [3, 0, 0, 0]])
    >>> group = np.repeat([0, 1], [80, 20])
    >>> model = StreamingFairPCA(2, learning_blocks=1)
    >>> for block in np.array_split(rng.permutation(100), 4):
    ...     model = model.partial_fit(X[block], sensitive_features=group[block])
    >>> bool(np.abs(model.components_ @ model.removed_).max() < 1e-12)
    True
    """

    _group_range: ClassVar[tuple[int, int | None]] = (2, 2)
    notion: ClassVar[str] = "mean gap"

    def __init__(
        self,
        n_components: int | None = None,
        *,
        n_directions: int = 0,
        learning_blocks: int = 100,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.n_directions = n_directions
        self.learning_blocks = learning_blocks
        self.random_state = random_state

    def fit(
        self, X: Any, y: Any = None, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> StreamingFairPCA:
        """Fit all rows at once, exactly; arguments as in `fairpca.FairPCA.fit`, two groups."""
        self._check_params()
        sample = self._sample(X, sensitive_features, sample_weight)
        self.__dict__.pop("_stream", None)
        gap = mean_directions(sample)[:, :1]
        covariances = sample.moments.covariances
        pairs = full_pairs(covariances[0] - covariances[1])
        order = np.argsort(-np.abs(pairs.values), kind="stable")[: self.n_directions]
        removed = expand(pairs.vectors[:, order], _unit(gap))
        allowed = allowed_directions(removed)
        r = self._rank(allowed.shape[1], "the directions that are not removed,")
        return self._record(
            leading_within(sample.covariance, allowed, r),
            sample,
            center_="global",
            removed_=removed,
            n_iter_=1,
            stop_reason_="offline",
        )

    def partial_fit(
        self, X: Any, y: Any = None, *, sensitive_features: Any = None, sample_weight: Any = None
    ) -> StreamingFairPCA:
        """Read one block of rows; arguments as in `fit`.

        A block without one of the groups still counts, but cannot teach how covariances differ.
        Until both groups were seen no component is learned.
        """
        self._check_params()
        if sensitive_features is None:
            raise ValueError(
                f"{type(self).__name__} needs sensitive_features: pass one label per row."
            )
        stream: _Stream | None = self.__dict__.get("_stream")
        rows = self._read(X, sensitive_features, sample_weight, reset=stream is None)
        if self.n_components is not None:
            check_rank(self.n_components, rows.X.shape[1])
        if stream is None:
            stream = self._new_stream(rows.X.shape[1])
        stream.read(rows)
        if len(stream.groups) > 2:
            self._check_group_number(len(stream.groups))
        if stream.blocks <= self.learning_blocks or len(stream.groups) < 2:
            stream.learn_directions(rows)
        else:
            stream.learn_components(rows)
            self._publish(stream)
        self._stream = stream
        return self

    def _check_params(self) -> None:
        check_positive(learning_blocks=self.learning_blocks)
        if self.n_directions < 0:
            raise ValueError(f"n_directions={self.n_directions!r} must be zero or more.")

    def _new_stream(self, n: int) -> _Stream:
        r = self._rank(n - self.n_directions - 1, "the directions that are not removed,")
        rng = check_random_state(0 if self.random_state is None else self.random_state)
        return _Stream(
            {},
            orthonormal(rng.standard_normal((n, self.n_directions))),
            orthonormal(rng.standard_normal((n, r))),
        )

    def _publish(self, stream: _Stream) -> None:
        labels = sort_labels(stream.groups)
        self.components_ = fix_signs(np.ascontiguousarray(stream.components.T))
        self.mean_ = stream.mean
        self.n_components_ = len(self.components_)
        self.removed_ = stream.removed
        self.groups_ = labels
        self.group_counts_ = np.array([stream.groups[label].count for label in labels])
        self.group_means_ = np.array([stream.groups[label].mean for label in labels])
        self.n_iter_ = stream.blocks
        self.center_ = "global"


def _unit(columns: FloatArray) -> FloatArray:
    """Return columns of length one, those of length zero left out."""
    lengths = np.linalg.norm(columns, axis=0)
    return np.asarray(columns[:, lengths > 0] / lengths[lengths > 0])


@dataclass
class _Running:
    """Rows, weight and mean of one group so far."""

    count: int
    weight: float
    mean: FloatArray


@dataclass
class _Stream:
    """What survives a block: group means, the directions to remove and the components."""

    groups: dict[Label, _Running]
    directions: FloatArray
    components: FloatArray
    blocks: int = 0

    @property
    def mean(self) -> FloatArray:
        """Mean of all rows so far."""
        weight = np.array([group.weight for group in self.groups.values()])
        return np.asarray(weight @ [group.mean for group in self.groups.values()] / weight.sum())

    @property
    def removed(self) -> FloatArray:
        """The directions to remove, the difference of the means included."""
        first, second = (self.groups[label].mean for label in sort_labels(self.groups))
        return expand(self.directions, _unit((first - second)[:, None]))

    def read(self, rows: Rows) -> None:
        """Count the rows of a block into the groups' means."""
        self.blocks += 1
        for label, picks, weight in _parts(rows):
            total = float(weight.sum())
            mean = weight @ rows.X[picks] / total
            known = self.groups.setdefault(label, _Running(0, 0.0, np.zeros(rows.X.shape[1])))
            known.count += int(picks.sum())
            known.weight += total
            known.mean = known.mean + (mean - known.mean) * (total / known.weight)

    def learn_directions(self, rows: Rows) -> None:
        """One power iteration on the difference of the block's group covariances."""
        parts = _parts(rows)
        if len(parts) < 2 or self.directions.shape[1] == 0:
            return
        images = [
            _covariance_product(rows.X[picks], weight, self.directions)
            for _, picks, weight in parts
        ]
        self.directions = _power_step(images[0] - images[1], self.directions)

    def learn_components(self, rows: Rows) -> None:
        """One power iteration on the block's covariance, outside the removed directions."""
        removed = self.removed
        weight = np.ones(len(rows.X)) if rows.weight is None else rows.weight
        start = _without(self.components, removed)
        image = _covariance_product(rows.X, weight, start, self.mean)
        self.components = _power_step(_without(image, removed), start)


def _without(columns: FloatArray, removed: FloatArray) -> FloatArray:
    """Project columns; twice, so that rounding does not let a removed direction back in."""
    columns = columns - removed @ (removed.T @ columns)
    return columns - removed @ (removed.T @ columns)


def _power_step(image: FloatArray, start: FloatArray) -> FloatArray:
    """Return the next power iterate.

    A block with few rows has an image of low rank; a trace of the last iterate keeps the missing
    directions from becoming arbitrary, and moves no fixed point.
    """
    return orthonormal(image + 1e-10 * float(np.linalg.norm(image)) * start)


def _parts(rows: Rows) -> list[tuple[Label, Any, FloatArray]]:
    """Return label, rows and weights of every group of a block that has weight."""
    groups = rows.groups
    assert groups is not None
    found = []
    for code, label in enumerate(groups.labels):
        picks = groups.codes == code
        weight = np.ones(int(picks.sum())) if rows.weight is None else rows.weight[picks]
        if weight.sum() > 0:
            found.append((label, picks, weight))
    return found


def _covariance_product(
    X: Any, weight: FloatArray, columns: FloatArray, mean: FloatArray | None = None
) -> FloatArray:
    """Return the covariance of weighted rows times columns, the covariance never formed."""
    total = float(weight.sum())
    if mean is None:
        mean = weight @ X / total
    centred = X - mean
    return np.asarray(centred.T @ (weight[:, None] * (centred @ columns)) / total)
