"""GroupMoments: all that Fair PCA needs of the data, and the only thing that crosses chunks."""

from __future__ import annotations

import json
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse

from fairpca.arrays import FloatArray, IntArray, is_sparse
from fairpca.checks import check_square, check_table, check_weights
from fairpca.files import atomic_write
from fairpca.groups import Groups, Label, sort_labels
from fairpca.scatter import group_scatter

_FORMAT = 1
_PARTS = ("header", "count", "weight", "mean", "scatter")


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
        unlabelled_rows = bool((groups.codes < 0).any())
        # The unlabelled cell, where there is one, takes position 0 while rows are counted.
        codes = groups.codes + 1 if unlabelled_rows else groups.codes
        labels = (None, *groups.labels) if unlabelled_rows else groups.labels
        with np.errstate(over="ignore", invalid="ignore"):
            found = group_scatter(X, codes, len(labels), weights)
            # Not only each entry: what is summed over columns and groups must be a number too.
            whole = np.trace(found.scatter, axis1=1, axis2=2).sum()
        check_square(found.mean, whole)
        return cls(found.count, found.weight, found.mean, found.scatter, labels, groups.names)

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
        if other.n_features != self.n_features:
            raise ValueError(
                f"moments of {self.n_features} and of {other.n_features} features cannot be "
                "merged; both sides must have the same columns."
            )
        if other.names != self.names:
            raise ValueError(
                f"moments grouped by {self.names} and by {other.names} cannot be merged; group "
                "both sides by the same columns."
            )
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
        chosen = list(range(len(self.labels))) if keep is None else keep
        weight = self.weight[chosen]
        total = float(weight.sum())
        mean = weight @ self.mean[chosen] / total if total > 0 else np.zeros(self.n_features)
        shifts = (self.mean[chosen] - mean) * np.sqrt(weight)[:, None]
        scatter = self.scatter[chosen].sum(axis=0) + shifts.T @ shifts
        return GroupMoments(
            self.count[chosen].sum(keepdims=True),
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

    def save(self, path: str | Path) -> None:
        """Write the moments as one npz file (no pickle), atomically."""
        header = json.dumps(
            {
                "format": _FORMAT,
                "labels": [_encode_label(label) for label in self.labels],
                "names": list(self.names),
            }
        )
        with atomic_write(path) as file:
            np.savez(
                file,
                header=np.array(header),
                count=self.count,
                weight=self.weight,
                mean=self.mean,
                scatter=self.scatter,
            )

    @classmethod
    def load(cls, path: str | Path) -> GroupMoments:
        """Read moments written by `save`; raises ValueError for any other file."""
        try:
            with open(path, "rb") as file:
                stored = np.load(file, allow_pickle=False)
                names = getattr(stored, "files", [])
                parts = {name: np.asarray(stored[name]) for name in _PARTS if name in names}
        except (
            zipfile.BadZipFile,
            zlib.error,
            EOFError,
            ValueError,
            NotImplementedError,
        ) as error:
            raise ValueError(
                f"{path} is not a readable moments file ({error}); write it again with "
                "GroupMoments.save."
            ) from None
        missing = set(_PARTS) - set(parts)
        if missing:
            raise ValueError(
                f"{path} is not a moments file: it lacks {', '.join(sorted(missing))}; write "
                "one with GroupMoments.save."
            )
        try:
            header = json.loads(str(parts.pop("header")))
            if header["format"] > _FORMAT:
                raise ValueError(
                    f"moments format {header['format']}, this version reads up to {_FORMAT}; "
                    "upgrade fairpca"
                )
            labels = tuple(_decode_label(label) for label in header["labels"])
            moments = cls(**parts, labels=labels, names=tuple(header["names"]))
            _check_parts(moments)
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path} cannot be used: {error}.") from None
        return moments


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


def _encode_label(label: Label) -> Any:
    if isinstance(label, tuple):
        return [_encode_label(part) for part in label]
    if label is None or isinstance(label, bool | int | float | str):
        return label
    raise ValueError(
        f"the label {label!r} of type {type(label).__name__} cannot be saved; use strings or "
        "numbers as group labels."
    )


def _check_parts(moments: GroupMoments) -> None:
    """Raise ValueError unless stored arrays fit together and are finite."""
    k, n = len(moments.labels), moments.mean.shape[-1]
    wanted = {"count": (k,), "weight": (k,), "mean": (k, n), "scatter": (k, n, n)}
    for name, shape in wanted.items():
        part = getattr(moments, name)
        if part.shape != shape or part.dtype.kind not in "iuf" or not np.all(np.isfinite(part)):
            raise ValueError(
                f"{name} has shape {part.shape} and type {part.dtype}; {k} groups of {n} features "
                f"need finite numbers of shape {shape}"
            )


def _decode_label(label: Any) -> Label:
    return tuple(_decode_label(part) for part in label) if isinstance(label, list) else label
