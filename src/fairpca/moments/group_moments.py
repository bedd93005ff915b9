"""GroupMoments: all that Fair PCA needs of the data, and the only thing that crosses chunks.

With w the sum of weights, m the mean and M the centred scatter of a set of rows, two sets merge by

    w = w_a + w_b,   m = m_a + (w_b / w) d,   M = M_a + M_b + (w_a w_b / w) d d.T,   d = m_b - m_a

(Chan, Golub and LeVeque 1983). Sums of squares that are not centred would merge by one addition,
but lose the digits of the variance where columns are far from zero. Read `GroupMoments.merge`
first; `subtract` runs it backwards.
"""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse
import sklearn

from fairpca._checks import as_numpy, check_square, check_table, check_weights, column_names
from fairpca._linalg import (
    AnyArray,
    FloatArray,
    IntArray,
    constant_columns,
    fetched,
    is_dask,
    is_foreign,
    is_sparse,
    library_of,
    placed,
)
from fairpca._threads import one_ahead
from fairpca.moments.groups import Groups
from fairpca.moments.label_codes import Label, sort_labels
from fairpca.moments.row_scatter import (
    Columns,
    Scatter,
    check_between,
    clear_dust,
    group_scatter,
    merge_means,
    moved,
    overall_mean,
    sender,
)
from fairpca.moments.storage import ARRAYS, atomic_write, pack, read_parts

# Rounding, relative to the squares of all groups, that subtracting rows may leave behind. More
# means that other rows are subtracted than were counted. Rounding of larger rows that went before
# stays: in windows of 21 rows whose squares differ by 1e8 more than 1e-9 was left.
_SUBTRACT_SLACK = 1e-6
# How far a mean may be off for the same reason, in units of its rounding.
_MEAN_SLACK = 4096
_EPS = float(np.finfo(float).eps)


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
    mean : ndarray of shape (k, n)
    scatter : ndarray of shape (k, n, n)
        ``sum_j w_j (x_j - mean)(x_j - mean).T``.
    labels : tuple
        One label per group. The label None stands for unlabelled rows, which count in the total
        but are no group.
    names : tuple of str
        Names of the label columns.
    mean_rest : ndarray of shape (k, n)
        What rounding left of `mean`. With columns far from zero the distance between two means is
        smaller than the last digit of either, and merging would lose it.
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
    mean: FloatArray
    scatter: FloatArray
    labels: tuple[Label, ...]
    names: tuple[str, ...] = ("sensitive_feature",)
    mean_rest: FloatArray = None  # type: ignore[assignment]
    feature_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.__dict__["mean_rest"] is None:
            object.__setattr__(self, "mean_rest", np.zeros_like(self.mean))

    @classmethod
    def from_array(
        cls,
        X: Any,
        sensitive_features: Any = None,
        *,
        sample_weight: Any = None,
        group_by: str = "intersection",
        unlabelled: str = "error",
    ) -> GroupMoments:
        """Compute the moments of rows.

        Parameters
        ----------
        X : array or sparse matrix of shape (m, n)
            Numeric rows without NaN. Read in blocks, so a memory map works; of a Dask array chunk
            by chunk.
        sensitive_features : array-like or Groups, optional
            Labels; None puts every row in one group.
        sample_weight : array-like of shape (m,), optional
            Non-negative, frequency-like: weight 2 is the row twice.
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
        feature_names = column_names(X)
        X = check_table(X)
        m = X.shape[0]
        if is_sparse(X):
            X = scipy.sparse.csr_array(X)
        groups = Groups.of(sensitive_features, m, rows=X, group_by=group_by, unlabelled=unlabelled)
        # One batch of a table may have no others than zero.
        weights = check_weights(sample_weight, m, all_zero=True)
        if is_dask(X) and m:
            # Chunk by chunk: slices across chunks would compute each of them again and again.
            cuts = itertools.accumulate(X.chunks[0], initial=0)
            parts = [slice(*ends) for ends in itertools.pairwise(cuts)]
            counted = (
                cls.from_array(
                    X[part].compute(),
                    groups.with_codes(groups.codes[part]),
                    sample_weight=None if weights is None else weights[part],
                )
                for part in parts
                if part.start < part.stop
            )
            return reduce(cls.merge, counted)
        codes, labels, counts = groups.cells()
        found = cls._counted(group_scatter(X, codes, counts, weights), labels, groups.names)
        return found if feature_names is None else found.named(feature_names)

    @classmethod
    def from_batches(
        cls, batches: Iterable[tuple[Any, ...]], *, like: Any = None, **options: Any
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
        found: GroupMoments | None = None
        followed = like is not None or sklearn.get_config()["array_api_dispatch"]
        with sklearn.config_context(array_api_dispatch=followed):
            for X, labels, *weight in one_ahead(_sent(batches, like)):
                batch = cls.from_array(
                    X, labels, sample_weight=weight[0] if weight else None, **options
                )
                found = batch if found is None else found.merge(batch)
        if found is None:
            raise ValueError("batches is empty; pass at least one pair (X, sensitive_features).")
        return found

    @classmethod
    def from_columns(
        cls, columns: Sequence[AnyArray], groups: Groups, *, sample_weight: Any = None
    ) -> GroupMoments:
        """Compute the moments of rows that are stored column by column.

        Parameters
        ----------
        columns : sequence of ndarray of shape (m,)
            One numeric array a feature.
        groups : Groups
            Of the m rows.
        sample_weight : array-like of shape (m,), optional
            As in `from_array`; in a part of a table all may be zero.
        """
        weights = check_weights(sample_weight, len(groups.codes), all_zero=True)
        codes, labels, counts = groups.cells()
        found = group_scatter(Columns(columns, len(codes)), codes, counts, weights)
        return cls._counted(found, labels, groups.names)

    @classmethod
    def _counted(
        cls, found: Scatter, labels: tuple[Label, ...], names: tuple[str, ...]
    ) -> GroupMoments:
        """Return the moments of counted cells; ValueError where a sum is not a finite number."""
        with np.errstate(over="ignore", invalid="ignore"):
            # Not only each entry: what is summed over columns and groups must be a number too.
            whole = np.trace(found.scatter, axis1=1, axis2=2).sum()
        check_square(found.mean, whole)
        mean, rest = found.mean[:, 0], found.mean[:, 1]
        return cls(found.count, found.weight, mean, found.scatter, labels, names, rest)

    def named(self, feature_names: Iterable[str]) -> GroupMoments:
        """Return the same moments with names of their columns."""
        return replace(self, feature_names=tuple(map(str, feature_names)))

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.mean.shape[1])

    @property
    def covariances(self) -> FloatArray:
        """Scatter over weight, shape (k, n, n); zero for a group without weight."""
        safe = np.where(self.weight > 0, self.weight, 1.0)
        found: FloatArray = self.scatter / placed(safe[:, None, None], self.scatter)
        return found

    def update(self, X: Any, sensitive_features: Any = None, **kwargs: Any) -> GroupMoments:
        """Return the moments with further rows counted in; arguments as in `from_array`."""
        return self.merge(type(self).from_array(X, sensitive_features, **kwargs))

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
            If the number of columns or the names of the label columns differ, or if weights are so
            small that the distance between two means would be lost.
        """
        mine, theirs = self._aligned(other, "merged")
        weight, mean, between = merge_means(
            mine.weight, mine._exact_mean, theirs.weight, theirs._exact_mean
        )
        scatter = mine.scatter + theirs.scatter
        scatter += between[:, :, None] * between[:, None, :]
        check_between(between, weight, mean[:, 0], scatter)
        clear_dust(weight, mean[:, 0], scatter)
        return replace(
            mine,
            count=mine.count + theirs.count,
            weight=weight,
            mean=mean[:, 0],
            mean_rest=mean[:, 1],
            scatter=scatter,
        )

    def on_host(self) -> GroupMoments:
        """Return the same moments with all arrays here, where `scatter` lives elsewhere."""
        return replace(self, scatter=fetched(self.scatter)) if is_foreign(self.scatter) else self

    @property
    def _exact_mean(self) -> FloatArray:
        """The means with what rounding left of them, shape (k, 2, n)."""
        return np.stack([self.mean, self.mean_rest], axis=1)

    def _check_columns(self, other: Any, verb: str) -> None:
        """Raise ValueError where `other` is no moments, or of other columns than these."""
        if not isinstance(other, GroupMoments):
            raise ValueError(
                f"a {type(other).__name__} cannot be {verb}; pass GroupMoments, such as those of "
                "GroupMoments.from_array(X, labels)."
            )
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

    def _aligned(self, other: GroupMoments, verb: str) -> tuple[GroupMoments, GroupMoments]:
        """Return both moments over all labels of both; ValueError where they do not fit."""
        self._check_columns(other, verb)
        if other.names != self.names:
            raise ValueError(
                f"moments grouped by {self.names} and by {other.names} cannot be {verb}; pass "
                "sensitive_features with the same names of columns for both."
            )
        names = other.feature_names
        first = self if self.feature_names is not None or names is None else self.named(names)
        if self.labels == other.labels:
            return first, other
        labels = all_labels(self.labels, other.labels)
        return first._spread(labels), other._spread(labels)

    def _spread(self, labels: tuple[Label, ...]) -> GroupMoments:
        """Return the same moments over a longer tuple of labels, empty where it is new."""
        position = {label: i for i, label in enumerate(labels)}
        rows = [position[label] for label in self.labels]

        def spread(part: AnyArray) -> AnyArray:
            wider = np.zeros((len(labels), *part.shape[1:]), dtype=part.dtype)
            wider[rows] = part
            return wider

        return self._mapped(spread, labels)

    def _mapped(self, change: Callable[[AnyArray], AnyArray], labels: Any) -> GroupMoments:
        """Return moments whose every array, one line a group, went through `change`."""
        arrays: Any = {name: change(getattr(self, name)) for name in ARRAYS}
        return replace(self, **arrays, labels=tuple(labels))

    def select(self, keep: list[int]) -> GroupMoments:
        """Return the moments of some groups."""
        return self._mapped(lambda part: part[keep], [self.labels[i] for i in keep])

    def pooled(self, keep: list[int] | None = None, label: Label = "all") -> GroupMoments:
        """Return the moments of all rows (or of some groups' rows) as one group.

        `keep` are positions of groups; by default all count, unlabelled rows included. The scatter
        is the sum of the groups' own, and of what the distances between their means add to it.
        """
        chosen = self if keep is None else self.select(keep)
        weight = chosen.weight.sum(keepdims=True)
        mean = overall_mean(chosen.weight, chosen._exact_mean)
        between = (chosen._exact_mean - mean).sum(axis=1) * np.sqrt(chosen.weight)[:, None]
        apart = placed(between, chosen.scatter)
        scatter = library_of(apart).sum(chosen.scatter, axis=0, keepdims=True)
        scatter += apart.T @ apart
        largest = np.abs(between).max(axis=0, keepdims=True, initial=0.0)
        check_between(largest, weight, mean[:1], scatter)
        clear_dust(weight, mean[:1], scatter)
        return GroupMoments(
            chosen.count.sum(keepdims=True),
            weight,
            mean[:1],
            scatter,
            (label,),
            self.names,
            mean[1:],
            self.feature_names,
        )

    def distances_from(self, other: GroupMoments) -> FloatArray:
        """Return every group's mean minus the mean of moments of one group, shape (k, n)."""
        return np.asarray((self._exact_mean - other._exact_mean).sum(axis=1))

    def second_moments(self, about: FloatArray) -> FloatArray:
        """Return every group's mean of ``(x - about)(x - about).T``, shape (k, n, n).

        About its own mean a group's second moment is its covariance; about any other vector, such
        as the mean that a projection subtracts, the distance of the two adds to it.
        """
        shift = self.mean - about
        return self.covariances + shift[:, :, None] * shift[:, None, :]

    def grouped(self, group_by: str = "intersection") -> GroupMoments:
        """Return the groups of the minimax: without unlabelled rows, or each column's levels.

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
        arrays: Any = {n: np.concatenate([getattr(part, n) for part in parts]) for n in ARRAYS}
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
            together. A column that is constant there, but not here, is only centred.

        Returns
        -------
        Standardized
            With `moments`, the `mean` that was subtracted and the `scale` that was divided by.
        """
        own = total = self.pooled()
        if like is not None:
            self._check_columns(like, "standardised alike")
            total = like.pooled()
        mean, scale = total.mean[0], _deviations(total)
        constant = constant_columns(mean, scale)
        scale[constant] = 1.0
        scatter = self.scatter / np.outer(scale, scale)
        # What is constant there may vary here, such as a rare mark that no training row has.
        constant &= constant_columns(own.mean[0], _deviations(own))
        scatter[:, constant] = 0.0
        scatter[:, :, constant] = 0.0
        shifts = self.distances_from(total)
        means = np.where(self.weight[:, None] > 0, shifts / scale, 0.0)
        moments = replace(self, mean=means, scatter=scatter, mean_rest=np.zeros_like(means))
        return Standardized(moments, mean, scale)

    def decay(self, factor: float) -> GroupMoments:
        """Return moments that remember less: every row counted so far weighs `factor` as much.

        Decay, then merge the next batch, and old rows fade geometrically. Weights and scatter
        shrink; means stay, and so does `count`, which says how many rows were ever counted.
        """
        if not 0 < factor <= 1:
            raise ValueError(f"factor={factor!r} must be above 0 and at most 1, such as 0.99.")
        return replace(self, weight=self.weight * factor, scatter=self.scatter * factor)

    def subtract(self, other: GroupMoments) -> GroupMoments:
        """Return the moments without some of their rows: a window that moves on.

        Groups left without rows disappear. What remains carries the rounding of the larger
        moments it was taken from; a window that runs for long is best counted anew at times.

        Parameters
        ----------
        other : GroupMoments
            Of rows that are all counted in these moments, with the same weights.
        """
        whole, part = self._aligned(other, "subtracted")
        unknown = [label for label in other.labels if label not in self.labels]
        if unknown:
            raise ValueError(
                f"group(s) {', '.join(map(repr, unknown))} are not in the moments to subtract "
                "from; subtract only rows that were counted."
            )
        left, impossible = _difference(whole, part)
        if impossible.any():
            labels = [whole.labels[i] for i in np.flatnonzero(impossible)]
            raise ValueError(
                f"the rows to subtract from group(s) {', '.join(map(repr, labels))} are not among "
                "those counted: more rows, weight or variance would go than there is. Subtract "
                "only moments that were merged in before, decayed as often."
            )
        return left.select(np.flatnonzero(left.count > 0).tolist())

    def save(self, path: str | Path) -> None:
        """Write the moments as one npz file (no pickle), atomically."""
        packed = self.packed()
        with atomic_write(path) as file:
            np.savez(file, **packed)

    @classmethod
    def load(cls, path: str | Path) -> GroupMoments:
        """Read moments written by `save`; raises ValueError for any other file."""
        with open(path, "rb") as file:
            return cls(**read_parts(file, str(path)))

    def to_bytes(self) -> bytes:
        """Return what `save` writes, for channels that carry bytes."""
        file = io.BytesIO()
        np.savez(file, **self.packed())
        return file.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> GroupMoments:
        """Read what `to_bytes` returned."""
        return cls(**read_parts(io.BytesIO(data), "data"))

    def packed(self) -> Any:
        """Return the arrays of a moments file; ValueError for labels a file cannot hold."""
        arrays = {name: getattr(self, name) for name in ARRAYS}
        return pack(arrays, self.labels, self.names, self.feature_names)


@dataclass(frozen=True)
class Standardized:
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


def _sent(batches: Iterable[tuple[Any, ...]], like: Any) -> Iterator[tuple[Any, ...]]:
    """Yield batches with their rows on the device of an array, unless that is None."""
    send = sender(like)
    for batch in batches:
        if not isinstance(batch, tuple | list) or len(batch) not in (2, 3):
            raise ValueError(
                f"batches has a {type(batch).__name__}; each is a pair (X, sensitive_features), "
                "or three things with sample_weight."
            )
        X, *others = batch
        yield X if like is None else send(as_numpy(X)), *others


def _difference(whole: GroupMoments, part: GroupMoments) -> tuple[GroupMoments, AnyArray]:
    """Return the moments of the rows of `whole` that are not in `part`.

    The merge is solved for one of its sides, which cancels digits. So the result is checked: rows,
    weight and variance that are left must not be negative by more than rounding explains, and what
    is left of a constant column is set to zero.

    Returns
    -------
    left : GroupMoments
        With the labels of `whole`, which are those of `part` too.
    impossible : ndarray of bool of shape (k,)
        Whether `part` cannot have been a part of the group.
    """
    count = whole.count - part.count
    weight = np.where(count > 0, np.maximum(whole.weight - part.weight, 0.0), 0.0)
    impossible = count < 0
    missing = np.abs(whole.weight - part.weight - weight)
    impossible |= missing > _SUBTRACT_SLACK * whole.weight
    share = np.divide(part.weight, weight, out=np.zeros_like(weight), where=weight > 0)
    apart = (whole._exact_mean - part._exact_mean).sum(axis=1)
    mean = moved(whole._exact_mean, apart * share[:, None])
    mean[weight <= 0] = 0.0
    _, _, between = merge_means(weight, mean, part.weight, part._exact_mean)
    scatter = whole.scatter - part.scatter
    scatter -= between[:, :, None] * between[:, None, :]
    diagonal = np.einsum("kii->ki", scatter)
    before = np.einsum("kii->ki", whole.scatter)
    # Means are known to the square of the rounding unit, those of old files to one unit. Rows that
    # went before may have been larger than those left of their group; other groups show the size.
    unit = _EPS * np.abs(whole.mean)
    widest = unit.max(axis=0, initial=0.0)
    rounding = whole.weight[:, None] * widest * (_MEAN_SLACK**2 * widest + 4 * np.abs(apart))
    slack = _SUBTRACT_SLACK * np.diag(whole.pooled().scatter[0]) + rounding
    impossible |= np.any(diagonal < -slack, axis=1)
    # One row has no spread, and where none is left what went must have been everything.
    few = (count <= 1)[:, None]
    impossible |= np.any(few & (diagonal > slack), axis=1)
    gone = whole.weight[:, None] * apart**2
    impossible |= np.any((count == 0)[:, None] & (gone > slack), axis=1)
    # What is left of rows that were all counted has no negative variance in any direction.
    lowest = np.linalg.eigvalsh(scatter)[:, 0] if scatter.size else np.zeros(len(count))
    impossible |= lowest < -slack.sum(axis=1)
    scatter[count <= 1] = 0.0
    # What is left of a column that is now constant is the rounding of what went.
    dust = diagonal <= 64 * _EPS * before + whole.weight[:, None] * (16 * unit) ** 2
    scatter[dust[:, :, None] | dust[:, None, :]] = 0.0
    # No covariance is larger than the two variances allow.
    bound = np.sqrt(np.maximum(np.einsum("kii->ki", scatter), 0.0))
    limit = bound[:, :, None] * bound[:, None, :]
    np.clip(scatter, -limit, limit, out=scatter)
    left = replace(
        whole, count=count, weight=weight, mean=mean[:, 0], mean_rest=mean[:, 1], scatter=scatter
    )
    return left, impossible


def split_folds(moments: GroupMoments, n_folds: int | None) -> Any:
    """Return moments counted by `Groups.in_folds` as a list, one entry a fold.

    A fold lacks the groups of which it has no row. Moments without folds come back as they are.

    Parameters
    ----------
    moments : GroupMoments
        Its labels are pairs (fold, label).
    n_folds : int or None
        None for moments that were counted without folds.
    """
    if n_folds is None:
        return moments
    place: dict[Any, int] = {cell: i for i, cell in enumerate(moments.labels)}
    folds = []
    for fold in range(n_folds):
        labels = all_labels((label for f, label in place if f == fold), ())
        cells = moments.select([place[fold, label] for label in labels])
        folds.append(replace(cells, labels=labels))
    return folds


def _deviations(whole: GroupMoments) -> FloatArray:
    """Return the standard deviation of every column; the moments are those of one group."""
    return np.asarray(np.sqrt(np.diag(whole.scatter[0]) / (float(whole.weight[0]) or 1.0)))


def all_labels(one: Iterable[Label], other: Iterable[Label]) -> tuple[Label, ...]:
    """Return the labels of both, sorted; unlabelled rows (None) come first."""
    union = {*one, *other}
    return (*((None,) if None in union else ()), *sort_labels(union - {None}))


def memberships(
    cells: tuple[Label, ...], names: tuple[str, ...], group_by: str
) -> tuple[tuple[Label, ...], IntArray]:
    """Return the groups of the minimax and which cells belong to each.

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
    rows: list[list[int]] = []
    for j, name in enumerate(names):
        level = [None if cell is None else cell[j] for cell in cells]  # type: ignore[index]
        for value in sort_labels({v for v in level if v is not None}):
            labels.append((name, value))
            rows.append([int(v is not None and v == value) for v in level])
    return tuple(labels), np.array(rows, dtype=np.int64).reshape(-1, len(cells))
