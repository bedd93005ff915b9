"""GroupMoments: all that Fair PCA needs of the data, and the only thing that crosses chunks."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from fairpca.arrays import AnyArray, FloatArray, IntArray, is_sparse
from fairpca.checks import check_square, check_table, check_weights
from fairpca.column_scatter import column_scatter
from fairpca.files import atomic_write
from fairpca.groups import Groups
from fairpca.labels import Label, sort_labels
from fairpca.moments_file import pack, read_parts
from fairpca.scatter import Scatter, group_scatter
from fairpca.windows import check_alike, subtract


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
    """

    count: IntArray
    weight: FloatArray
    mean: FloatArray
    scatter: FloatArray
    labels: tuple[Label, ...]
    names: tuple[str, ...] = ("sensitive_feature",)

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
            Numeric rows without NaN. Read in blocks, so a memory map works.
        sensitive_features : array-like or Groups, optional
            Labels; None puts every row in one group.
        sample_weight : array-like of shape (m,), optional
            Non-negative, frequency-like: weight 2 is the row twice.
        group_by, unlabelled : str
            As in `Groups.from_labels`.
        """
        X = check_table(X)
        m = X.shape[0]
        if is_sparse(X):
            X = scipy.sparse.csr_array(X)
        groups = sensitive_features
        if groups is None:
            groups = Groups(np.zeros(m, dtype=np.int64), ("all",), ("all",), np.array([m]))
        elif not isinstance(groups, Groups):
            groups = Groups.from_labels(groups, n_rows=m, group_by=group_by, unlabelled=unlabelled)
        weights = check_weights(sample_weight, m)
        codes, labels, counts = _cells(groups)
        return cls._counted(group_scatter(X, codes, counts, weights), labels, groups.names)

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
        codes, labels, counts = _cells(groups)
        found = column_scatter(columns, codes, counts, weights)
        return cls._counted(found, labels, groups.names)

    @classmethod
    def _counted(
        cls, found: Scatter, labels: tuple[Label, ...], names: tuple[str, ...]
    ) -> GroupMoments:
        with np.errstate(over="ignore", invalid="ignore"):
            # Not only each entry: what is summed over columns and groups must be a number too.
            whole = np.trace(found.scatter, axis1=1, axis2=2).sum()
        check_square(found.mean, whole)
        return cls(found.count, found.weight, found.mean, found.scatter, labels, names)

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.mean.shape[1])

    @property
    def covariances(self) -> FloatArray:
        """Scatter over weight, shape (k, n, n); zero for a group without weight."""
        safe = np.where(self.weight > 0, self.weight, 1.0)
        return self.scatter / safe[:, None, None]

    def update(self, X: Any, sensitive_features: Any = None, **kwargs: Any) -> GroupMoments:
        """Return the moments with further rows counted in; arguments as in `from_array`."""
        return self.merge(type(self).from_array(X, sensitive_features, **kwargs))

    def merge(self, other: GroupMoments) -> GroupMoments:
        """Return the moments of the rows of both."""
        check_alike(self, other, "merged")
        if self.labels == other.labels:
            labels, mine, theirs = self.labels, self, other
        else:
            union = set(self.labels) | set(other.labels)
            rest = (None,) if None in union else ()
            labels = (*rest, *sort_labels(union - {None}))
            mine, theirs = self._spread(labels), other._spread(labels)
        weight = mine.weight + theirs.weight
        share = np.divide(theirs.weight, weight, out=np.zeros_like(weight), where=weight > 0)
        shift = theirs.mean - mine.mean
        mean = mine.mean + shift * share[:, None]
        between = shift * np.sqrt(mine.weight * share)[:, None]
        scatter = mine.scatter + theirs.scatter
        scatter += between[:, :, None] * between[:, None, :]
        return GroupMoments(mine.count + theirs.count, weight, mean, scatter, labels, self.names)

    def _spread(self, labels: tuple[Label, ...]) -> GroupMoments:
        """Return the same moments over a longer tuple of labels, empty where it is new."""
        k, n = len(labels), self.n_features
        count, weight = np.zeros(k, dtype=np.int64), np.zeros(k)
        mean, scatter = np.zeros((k, n)), np.zeros((k, n, n))
        position = {label: i for i, label in enumerate(labels)}
        rows = [position[label] for label in self.labels]
        count[rows], weight[rows] = self.count, self.weight
        mean[rows], scatter[rows] = self.mean, self.scatter
        return GroupMoments(count, weight, mean, scatter, labels, self.names)

    def select(self, keep: list[int]) -> GroupMoments:
        """Return the moments of some groups."""
        labels = tuple(self.labels[i] for i in keep)
        return GroupMoments(
            self.count[keep],
            self.weight[keep],
            self.mean[keep],
            self.scatter[keep],
            labels,
            self.names,
        )

    def pooled(self, keep: list[int] | None = None, label: Label = "all") -> GroupMoments:
        """Return the moments of all rows (or of some groups' rows) as one group."""
        chosen = self if keep is None else self.select(keep)
        weight = chosen.weight
        total = float(weight.sum())
        mean = weight @ chosen.mean / total if total > 0 else np.zeros(self.n_features)
        shifts = (chosen.mean - mean) * np.sqrt(weight)[:, None]
        scatter = chosen.scatter.sum(axis=0)
        scatter += shifts.T @ shifts
        return GroupMoments(
            chosen.count.sum(keepdims=True),
            np.array([total]),
            mean[None],
            scatter[None],
            (label,),
            self.names,
        )

    def grouped(self, group_by: str = "intersection") -> GroupMoments:
        """Return the groups of the minimax: without unlabelled rows, or each column's levels.

        With ``group_by="marginal"`` the labels are pairs (column, level) and groups overlap.
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
        return GroupMoments(
            np.concatenate([part.count for part in parts]),
            np.concatenate([part.weight for part in parts]),
            np.concatenate([part.mean for part in parts]),
            np.concatenate([part.scatter for part in parts]),
            labels,
            self.names,
        )

    def standardized(self) -> Standardized:
        """Return the moments of the columns with overall mean 0 and standard deviation 1.

        The scatter is scaled, not the rows, so one pass over the data is enough. All rows count,
        unlabelled ones and weights included; the divisor is the sum of weights minus one. A
        constant column is only centred.
        """
        total = self.pooled()
        mean, weight = total.mean[0], float(total.weight[0])
        freedom = weight - 1 if weight > 1 else max(weight, 1.0)
        scale = np.sqrt(np.diag(total.scatter[0]) / freedom)
        # Rounding leaves a constant column a tiny spread; dividing by it would blow noise up.
        constant = scale <= 1e-12 * np.maximum(np.abs(mean), 1e-300)
        scale[constant] = 1.0
        scatter = self.scatter / np.outer(scale, scale)
        scatter[:, constant] = 0.0
        scatter[:, :, constant] = 0.0
        means = np.where(self.weight[:, None] > 0, (self.mean - mean) / scale, 0.0)
        moments = GroupMoments(self.count, self.weight, means, scatter, self.labels, self.names)
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
        return subtract(self, other)

    def save(self, path: str | Path) -> None:
        """Write the moments as one npz file (no pickle), atomically."""
        arrays = pack(self)
        with atomic_write(path) as file:
            np.savez(file, **arrays)  # type: ignore[arg-type]

    @classmethod
    def load(cls, path: str | Path) -> GroupMoments:
        """Read moments written by `save`; raises ValueError for any other file."""
        with open(path, "rb") as file:
            return cls(**read_parts(file, str(path)))

    def to_bytes(self) -> bytes:
        """Return what `save` writes, for channels that carry bytes."""
        file = io.BytesIO()
        np.savez(file, **pack(self))  # type: ignore[arg-type]
        return file.getvalue()

    @classmethod
    def from_bytes(cls, data: bytes) -> GroupMoments:
        """Read what `to_bytes` returned."""
        return cls(**read_parts(io.BytesIO(data), "data"))


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


def _cells(groups: Groups) -> tuple[IntArray, tuple[Label, ...], IntArray]:
    """Return codes, labels and counts with the unlabelled rows, if there are any, as cell 0."""
    unlabelled = len(groups.codes) - int(groups.counts.sum())
    if not unlabelled:
        return groups.codes, groups.labels, groups.counts
    return groups.codes + 1, (None, *groups.labels), np.r_[unlabelled, groups.counts]


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
