"""GroupMoments: weight, mean and scatter of every group; moments of chunks merge.

With w the sum of weights, m the mean and M the centred scatter of a set of rows, two sets merge by

    w = w_a + w_b,   m = m_a + (w_b / w) d,   M = M_a + M_b + (w_a w_b / w) d d.T,   d = m_b - m_a

(Chan, Golub and LeVeque 1983). Sums of squares that are not centred would merge by one addition,
but lose the digits of the variance where columns are far from zero. Means are kept relative to one
origin among the rows, so that their distances keep their digits there, too. Read
`GroupMoments.merge` first.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
import sklearn
from scipy.sparse.linalg import LinearOperator, aslinearoperator

from fairpca._arrays import (
    EPS,
    FloatArray,
    IntArray,
    constant_columns,
    diagonals,
    dot,
    fetched,
    is_foreign,
    is_sparse,
    joined,
    library_of,
    one_ahead,
    placed,
)
from fairpca._check import check_square, check_table, check_weights, column_names
from fairpca.moments.groups import (
    UNNAMED,
    Batch,
    Groups,
    Label,
    Labels,
    Rows,
    Shaped,
    Weights,
    sort_labels,
)
from fairpca.moments.scatter import group_scatter, sender
from fairpca.moments.storage import ARRAYS, atomic_write, read_parts, write_parts


@dataclass(frozen=True)
class GroupMoments:
    """Weight, mean and centred scatter of every group.

    Moments of different rows merge into the moments of all of them, in any order and any
    grouping of the merges, to rounding.

    Attributes
    ----------
    count : ndarray of shape (k,)
        Rows.
    weight : ndarray of shape (k,)
        Sum of sample weights; equal to `count` without weights.
    offset : ndarray of shape (k, n)
        Mean of every group, less `origin`.
    scatter : ndarray of shape (k, n, n)
        ``sum_j w_j (x_j - mean)(x_j - mean).T``.
    origin : ndarray of shape (n,)
        A point among the rows.
    labels : tuple
        One label per group. The label None stands for unlabelled rows, which count in the total
        but are no group.
    names : tuple of str
        Names of the label columns.
    feature_names : tuple of str or None
        Names of the columns, where the rows had any. `merge` refuses moments of other columns, or
        of the same in another order.

    Examples
    --------
    >>> import numpy as np
    >>> from fairpca import FairPCA, GroupMoments
    >>> X = np.random.default_rng(0).normal(size=(100, 4))
    >>> labels = ["a", "b"] * 50
    >>> first = GroupMoments.from_array(X[:30], labels[:30])
    >>> moments = first.merge(GroupMoments.from_array(X[30:], labels[30:]))
    >>> moments.labels, moments.count.tolist(), moments.scatter.shape
    (('a', 'b'), [50, 50], (2, 4, 4))
    >>> FairPCA(2).fit_moments(moments).certificate_.optimal
    True
    """

    count: IntArray
    weight: FloatArray
    offset: FloatArray
    scatter: FloatArray
    origin: FloatArray
    labels: tuple[Label, ...]
    names: tuple[str, ...] = (UNNAMED,)
    feature_names: tuple[str, ...] | None = None

    @classmethod
    def from_array(
        cls,
        X: Rows,
        sensitive_features: Labels | None = None,
        *,
        sample_weight: Weights = None,
        group_by: str = "intersection",
        unlabelled: str = "error",
    ) -> GroupMoments:
        """Compute the moments of rows.

        Parameters
        ----------
        X : array or sparse matrix of shape (m, n)
            Numeric rows without NaN. Read in blocks, so a memory map works.
        sensitive_features : array-like or Groups, optional
            Labels; None puts every row in one group.
        sample_weight : array-like of shape (m,), optional
            Non-negative, frequency-like: weight 2 is the row twice, weight 0 is no row.
        group_by, unlabelled : str
            As in `Groups.from_labels`.

        Returns
        -------
        GroupMoments
            One entry for every label that occurs; unlabelled rows, if any, come first with the
            label None.

        Raises
        ------
        ValueError
            If X is not a table of finite real numbers whose squares are finite too, or if labels
            or weights do not fit its rows.
        """
        rows = check_table(X)
        groups = Groups.of(
            sensitive_features, rows.shape[0], rows=rows, group_by=group_by, unlabelled=unlabelled
        )
        # One batch of a table may have no others than zero.
        weights = check_weights(sample_weight, rows.shape[0], all_zero=True)
        found = cls.of_rows(*with_weight(rows, groups, weights))
        return replace(found, feature_names=column_names(X))

    @classmethod
    def of_rows(cls, X: Any, groups: Groups, weights: FloatArray | None) -> GroupMoments:
        """Return the moments of validated rows, none of them of weight zero."""
        codes, labels, count = groups.cells()
        rows = scipy.sparse.csr_array(X) if is_sparse(X) else X
        found = group_scatter(rows, codes, count, weights)
        # Of no rows the origin is zero.
        origin = found.shift[int(np.argmax(count))] if len(count) else np.zeros(X.shape[1])
        with np.errstate(invalid="ignore"):
            offset = (found.shift - origin) + found.off
        check_square(offset, diagonals(found.scatter).sum(), rows=X)
        return cls(count, found.weight, offset, found.scatter, origin, labels, groups.names)

    @classmethod
    def from_batches(
        cls, batches: Iterable[Batch], *, like: Shaped | None = None, **options: Any
    ) -> GroupMoments:
        """Count a table that comes in batches, each while the next one is on its way.

        Parameters
        ----------
        batches : iterable of (X, sensitive_features) or (X, sensitive_features, sample_weight)
            Of any sizes: slices of an array, row groups of a file. They are read one ahead, in a
            thread of its own. Within ``sklearn.config_context(array_api_dispatch=True)``, batches
            that are on a device already are counted there.
        like : array of another library, optional
            Batches are copied to the device of this array and counted there, so that a table
            larger than the device passes through it. Copies and products overlap.
        **options
            `group_by` and `unlabelled` of `from_array`.

        Returns
        -------
        GroupMoments
            Of all rows, for `FairPCA.fit_moments`.

        Examples
        --------
        >>> import numpy as np
        >>> from fairpca import FairPCA, GroupMoments
        >>> X = np.random.default_rng(0).normal(size=(1000, 4))
        >>> labels = np.arange(1000) % 2
        >>> batches = ((X[i : i + 100], labels[i : i + 100]) for i in range(0, 1000, 100))
        >>> moments = GroupMoments.from_batches(batches)
        >>> moments.count.tolist(), FairPCA(2).fit_moments(moments).certificate_.optimal
        ([500, 500], True)
        """
        send = sender(like)
        sent = ((send(X), *others) for X, *others in batches)
        found: GroupMoments | None = None
        followed = like is not None or sklearn.get_config()["array_api_dispatch"]
        with sklearn.config_context(array_api_dispatch=followed):
            for X, labels, *others in one_ahead(sent):
                weight = others[0] if others else None
                batch = cls.from_array(X, labels, sample_weight=weight, **options)
                found = batch if found is None else found.merge(batch)
        if found is None:
            raise ValueError("batches is empty; pass at least one pair (X, sensitive_features).")
        return found

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.offset.shape[1])

    @property
    def mean(self) -> FloatArray:
        """Mean of every group, shape (k, n)."""
        return self.offset + self.origin

    @property
    def covariances(self) -> FloatArray:
        """Scatter over weight, shape (k, n, n); zero for a group without weight."""
        weight = np.where(self.weight > 0, self.weight, 1.0)[:, None, None]
        return self.scatter / placed(weight, self.scatter)  # type: ignore[no-any-return]

    def merge(self, other: GroupMoments) -> GroupMoments:
        """Return the moments of the rows of both.

        Parameters
        ----------
        other : GroupMoments
            Of other rows with the same columns, grouped by the same label columns. Labels that
            only one side has are kept.

        Raises
        ------
        ValueError
            If the number or names of the columns, or the names of the label columns, differ.
        """
        self._check_columns(other, "merged")
        if other.names != self.names:
            raise ValueError(
                f"moments grouped by {self.names} and by {other.names} cannot be merged; pass "
                "sensitive_features with the same names of columns for both."
            )
        mine, theirs = self, other
        if self.labels != other.labels:
            labels = all_labels((*self.labels, *other.labels))
            mine, theirs = self.over(labels), other.over(labels)
        weight = mine.weight + theirs.weight
        share = np.divide(theirs.weight, weight, out=np.zeros_like(weight), where=weight > 0)
        far = theirs.offset + (theirs.origin - mine.origin)
        apart = far - mine.offset
        # A criterion that divides by a group's variance would take the rounding of means for data.
        size = np.abs(far) + np.abs(theirs.origin) + np.abs(mine.origin)
        apart[np.abs(apart) <= 16 * EPS * size] = 0.0
        # A group that only one side has keeps its mean to the last digit.
        offset = np.where(share[:, None] == 1, far, mine.offset + share[:, None] * apart)
        between = placed(np.sqrt(mine.weight * share)[:, None] * apart, mine.scatter)
        scatter = mine.scatter + placed(theirs.scatter, mine.scatter)
        scatter = scatter + between[:, :, None] * between[:, None, :]
        names = self.feature_names or other.feature_names
        found = replace(mine, count=mine.count + theirs.count, weight=weight, feature_names=names)
        return replace(found, offset=offset, scatter=scatter)

    def on_host(self) -> GroupMoments:
        """Return the same moments with all arrays here, where `scatter` lives elsewhere."""
        return replace(self, scatter=fetched(self.scatter))

    def _check_columns(self, other: Any, verb: str) -> None:
        """Raise ValueError where `other` is of other columns than these."""
        if other.n_features != self.n_features:
            raise ValueError(
                f"moments of {self.n_features} and of {other.n_features} features cannot be "
                f"{verb}; both sides must have the same columns."
            )
        ours, theirs = self.feature_names, other.feature_names
        if ours is not None and theirs is not None and ours != theirs:
            j = next(j for j, (a, b) in enumerate(zip(ours, theirs, strict=True)) if a != b)
            raise ValueError(
                f"moments of other columns cannot be {verb}: column {j + 1} is {ours[j]!r} here "
                f"and {theirs[j]!r} there; count the same columns, in the same order."
            )

    def over(self, labels: tuple[Label, ...]) -> GroupMoments:
        """Return the same moments over a longer tuple of labels, empty where it is new."""
        position = {label: i for i, label in enumerate(labels)}
        rows = [position[label] for label in self.labels]
        arrays: dict[str, Any] = {}
        for name in ARRAYS:
            part = fetched(getattr(self, name))
            arrays[name] = np.zeros((len(labels), *part.shape[1:]), dtype=part.dtype)
            arrays[name][rows] = part
        return replace(self, **arrays, labels=labels)

    def select(self, keep: Sequence[int]) -> GroupMoments:
        """Return the moments of some groups."""
        picks = np.array(keep, dtype=np.int64)
        arrays: Any = {name: some_rows(getattr(self, name), picks) for name in ARRAYS}
        return replace(self, **arrays, labels=tuple(self.labels[i] for i in keep))

    def pooled(self, keep: Sequence[int] | None = None, label: Label = "all") -> GroupMoments:
        """Return the moments of all rows (or of some groups' rows) as one group.

        `keep` are positions of groups; by default all count, unlabelled rows included. The scatter
        is the sum of the groups' own, and of what the distances between their means add to it.
        """
        chosen = self if keep is None else self.select(keep)
        weight = chosen.weight.sum(keepdims=True)
        # From the heaviest group, so that of one group or of equal ones the mean is exact.
        base = chosen.offset[np.argsort(chosen.weight)[-1:]].sum(axis=0)
        offset = base + chosen.weight @ (chosen.offset - base) / (weight if weight > 0 else 1.0)
        between = (chosen.offset - offset) * np.sqrt(chosen.weight)[:, None]
        apart = placed(between, chosen.scatter)
        summed = library_of(apart).sum(chosen.scatter, axis=0, keepdims=True)
        scatter = summed + dot(apart.T, apart)
        found = replace(self, labels=(label,), count=chosen.count.sum(keepdims=True))
        return replace(found, weight=weight, offset=offset[None], scatter=scatter)

    def distances_from(self, other: GroupMoments) -> FloatArray:
        """Return every group's mean minus the mean of moments of one group, shape (k, n)."""
        return np.asarray((self.offset - other.offset) + (self.origin - other.origin))

    def second_moments(self, about: FloatArray) -> FloatArray:
        """Return every group's mean of ``(x - about)(x - about).T``, shape (k, n, n).

        About its own mean a group's second moment is its covariance; about any other vector, such
        as the mean that a projection subtracts, the distance of the two adds to it.
        """
        shift = self.offset + (self.origin - about)
        return self.covariances + shift[:, :, None] * shift[:, None, :]

    def grouped(self, group_by: str = "intersection") -> GroupMoments:
        """Return the groups to compare: without unlabelled rows, or each column's levels.

        With ``group_by="marginal"`` the labels are pairs (column, level) and groups overlap: a row
        counts in one group for every column in which it has a label.
        """
        if None not in self.labels and (group_by == "intersection" or len(self.names) == 1):
            return self
        labels, member = memberships(self.labels, self.names, group_by)
        parts = [
            self.pooled(np.flatnonzero(row).tolist(), label=label)
            for label, row in zip(labels, member, strict=True)
        ]
        if not parts:
            return self.select([])
        arrays: Any = {n: joined([getattr(part, n) for part in parts], axis=0) for n in ARRAYS}
        return replace(self, **arrays, labels=labels)

    def standardized(self, like: GroupMoments | None = None) -> Standardized:
        """Return the moments of the columns with overall mean 0 and standard deviation 1.

        The scatter is scaled, not the rows, so one pass over the data is enough. All rows count,
        unlabelled ones and weights included; the divisor is the sum of weights, as in
        scikit-learn's StandardScaler. A constant column is only centred.

        Parameters
        ----------
        like : GroupMoments, optional
            Of the same columns: whose mean and standard deviation are taken; by default these
            moments' own. Folds of one table are standardised alike, by those of all of them
            together. A column that is constant there is only centred.

        Returns
        -------
        Standardized
            With `moments`, the `mean` that was subtracted and the `scale` that was divided by.
        """
        total = self.pooled()
        if like is not None:
            self._check_columns(like, "standardised alike")
            total = like.pooled()
        scale = np.sqrt(diagonals(total.scatter)[0] / (float(total.weight[0]) or 1.0))
        scale[constant_columns(total.mean[0], scale)] = 1.0
        moments = replace(
            self,
            offset=self.distances_from(total) / scale,
            origin=np.zeros_like(scale),
            scatter=self.scatter / placed(np.outer(scale, scale), self.scatter),
        )
        return Standardized(moments, total.mean[0], scale)

    def save(self, path: str | Path) -> None:
        """Write the moments as one npz file (no pickle), atomically."""
        with atomic_write(path) as file:
            write_parts(self, file)

    @classmethod
    def load(cls, path: str | Path) -> GroupMoments:
        """Read moments written by `save`; raises ValueError for any other file."""
        with open(path, "rb") as file:
            return cls(**read_parts(file, str(path)))

    def to_bytes(self) -> bytes:
        """Return what `save` writes, for channels that carry bytes."""
        file = io.BytesIO()
        write_parts(self, file)
        return file.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> GroupMoments:
        """Read what `to_bytes` returned."""
        return cls(**read_parts(io.BytesIO(data), "data"))


def as_folds(X: Any) -> list[GroupMoments] | None:
    """Return moments as a list of folds, those of all rows as one of them; None of anything else.

    Examples
    --------
    >>> from fairpca.moments.group_moments import as_folds
    >>> moments = GroupMoments.from_array([[1.0], [2.0]], ["a", "b"])
    >>> len(as_folds([moments, moments])), len(as_folds(moments)), as_folds([[1.0], [2.0]])
    (2, 1, None)
    """
    given = X if isinstance(X, list | tuple) else [X]
    return list(given) if given and isinstance(given[0], GroupMoments) else None


class Standardized(NamedTuple):
    """Moments of standardised columns, and what was done to the columns.

    Attributes
    ----------
    moments : GroupMoments
    mean, scale : ndarray of shape (n,)
        Subtracted from and divided into each column.
    """

    moments: GroupMoments
    mean: FloatArray
    scale: FloatArray


def with_weight(
    X: Any, groups: Groups, weights: FloatArray | None
) -> tuple[Any, Groups, FloatArray | None]:
    """Return rows, groups and weights without the rows of weight zero, which are no rows."""
    if weights is None or weights.all():
        return X, groups, weights
    kept = np.flatnonzero(weights)
    return some_rows(X, kept), groups.take(kept), weights[kept]


def some_rows(X: Any, picks: IntArray) -> Any:
    """Return some rows of an array or an operator, as one of the same kind."""
    if is_foreign(X):
        return library_of(X).take(X, placed(picks, X), axis=0)
    if not isinstance(X, LinearOperator):
        return X[picks]
    entries = np.ones(len(picks)), (np.arange(len(picks)), picks)
    return aslinearoperator(scipy.sparse.csr_array(entries, shape=(len(picks), X.shape[0]))) @ X


def split_folds(moments: GroupMoments, n_folds: int) -> Any:
    """Return moments counted by `Groups.in_folds` as a list, one entry a fold.

    A fold lacks the groups of which it has no row. Moments without folds come back as they are.

    Parameters
    ----------
    moments : GroupMoments
        Its labels are pairs (fold, label).
    n_folds : int
        0 for moments that were counted without folds.
    """
    if not n_folds:
        return moments
    place: dict[Any, int] = {cell: i for i, cell in enumerate(moments.labels)}
    folds = []
    for fold in range(n_folds):
        labels = all_labels(label for f, label in place if f == fold)
        cells = moments.select([place[fold, label] for label in labels])
        folds.append(replace(cells, labels=labels))
    return folds


def all_labels(labels: Iterable[Label]) -> tuple[Label, ...]:
    """Return distinct labels, sorted; that of unlabelled rows (None) comes first."""
    union = set(labels)
    return (*((None,) if None in union else ()), *sort_labels(union - {None}))


def memberships(
    cells: tuple[Label, ...], names: tuple[str, ...], group_by: str
) -> tuple[tuple[Label, ...], IntArray]:
    """Return the groups whose worst is minimised, and which cells belong to each.

    Parameters
    ----------
    cells : tuple
        Labels of the cells; None is the unlabelled one and belongs to no group.
    names : tuple of str
        Names of the label columns.
    group_by : {"intersection", "marginal"}

    Returns
    -------
    labels : tuple
    member : ndarray of shape (k, c)
        Ones and zeros.
    """
    labelled = [i for i, label in enumerate(cells) if label is not None]
    if group_by == "intersection" or len(names) == 1:
        return tuple(cells[i] for i in labelled), np.eye(len(cells), dtype=np.int64)[labelled]
    labels: list[Label] = []
    rows: list[list[bool]] = []
    for j, name in enumerate(names):
        level = [None if cell is None else cell[j] for cell in cells]  # type: ignore[index]
        for value in sort_labels(set(level) - {None}):
            labels.append((name, value))
            rows.append([value == v for v in level])
    return tuple(labels), np.array(rows, dtype=np.int64).reshape(-1, len(cells))
