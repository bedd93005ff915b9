"""What a worker does with one piece of the rows, whatever engine brought it there."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from fairpca._checks import check_weights
from fairpca._linalg import AnyArray, FloatArray, is_sparse
from fairpca.io.columns import Wanted, choose, not_numbers
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.groups import Groups
from fairpca.moments.label_codes import Label
from fairpca.moments.memory import check_moments_size, default_limit, moments_bytes

# How many partial moments one task may merge, the widest that fits first. Wide tasks mean few
# levels of the tree; all that a task merges is in one worker's memory at the same time.
_FAN_IN = (8, 4, 2)
# Counting the groups beforehand reads the labels once more. It is skipped while this many groups
# would fit into memory; with more groups than that, the error comes after the counting began.
_MANY_GROUPS = 64


@dataclass(frozen=True)
class GroupingOptions:
    """How labels become groups, and the bytes that moments may take.

    Attributes
    ----------
    group_by : {"intersection", "marginal"}
        As in `FairPCA`.
    unlabelled : {"error", "ignore"}
        As in `FairPCA`.
    limit : int
        Bytes that the moments of all groups may take in one process.
    """

    group_by: str = "intersection"
    unlabelled: str = "error"
    limit: int = 0

    @classmethod
    def of(cls, group_by: str, unlabelled: str, memory_limit: int | None) -> GroupingOptions:
        """Return the options; the default limit is that of the machine that asks."""
        limit = default_limit() if memory_limit is None else memory_limit
        return cls(group_by, unlabelled, limit)

    def must_count_groups(self, n_features: int) -> bool:
        """Return whether an unlucky number of groups could exceed the limit."""
        return _MANY_GROUPS * moments_bytes(n_features, 1) > self.limit

    def fan_in(self, n_features: int, n_groups: int) -> int:
        """Return how many partial moments one task may merge; MemoryError if not even two."""
        for width in _FAN_IN:
            # Those that are merged, and their sum.
            if moments_bytes(n_features, n_groups) * (width + 1) <= self.limit:
                return width
        check_moments_size(n_features, n_groups, self.limit, copies=_FAN_IN[-1] + 1)
        raise AssertionError("refused above")  # pragma: no cover


@contextlib.contextmanager
def named(where: str) -> Iterator[None]:
    """Say in every error which piece of the rows it is about."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise ValueError(f"{where}: {error}") from None
    except MemoryError as error:
        raise MemoryError(f"{where}: {error}") from None


def unpack(
    rows: Any, labels: Any, sample_weight: Any, options: GroupingOptions
) -> tuple[AnyArray, Groups, FloatArray | None]:
    """Return rows, groups and weights of one piece, checked against each other.

    Parameters
    ----------
    rows : array of shape (m, n) or frame
        Nulls become NaN, which is refused later by name.
    labels : Groups, None, or anything `Groups.from_labels` takes
        None puts all rows in one group.
    sample_weight : array-like of shape (m,) or None
        All may be zero, as long as those of some other piece are not.
    options : GroupingOptions
        How labels become groups.

    Raises
    ------
    ValueError
        If lengths differ, or labels or weights have another index than the rows.
    """
    index = getattr(rows, "index", None)
    for name, values in (("sensitive_features", labels), ("sample_weight", sample_weight)):
        other = getattr(values, "index", None)
        # A list has a method of that name.
        if index is None or other is None or callable(other):
            continue
        if not index.equals(other):
            raise ValueError(
                f"{name} has another index than X here, so that rows would get the values of "
                "others; take both from one dataframe, or reset the index of both."
            )
    X = _matrix(rows)
    weights = check_weights(sample_weight, X.shape[0], all_zero=True)
    return X, groups_of(labels, X.shape[0], options), weights


def groups_of(labels: Any, n_rows: int, options: GroupingOptions) -> Groups:
    """Return the groups of one piece; None is one group, `Groups` are taken as they are."""
    if labels is None:
        return Groups.one(n_rows)
    if isinstance(labels, Groups):
        if len(labels.codes) != n_rows:
            raise ValueError(
                f"sensitive_features has {len(labels.codes)} rows here but X has {n_rows}; pass "
                "one label per row of X."
            )
        return labels
    return Groups.from_labels(
        _without_declared_levels(labels),
        n_rows=n_rows,
        group_by=options.group_by,
        unlabelled=options.unlabelled,
    )


def cell_labels(groups: Groups) -> set[Label]:
    """Return the distinct labels of some rows, None for unlabelled ones."""
    return {*groups.labels, *((None,) if (groups.codes < 0).any() else ())}


def _without_declared_levels(labels: Any) -> Any:
    """Return labels of a frame or series as objects where they are categories.

    Categories are declared for the whole table, and one piece need not have a row of each.
    """
    dtypes = getattr(labels, "dtypes", None)
    if dtypes is None:
        return labels
    if hasattr(labels, "columns"):
        odd = [name for name, dtype in dtypes.items() if dtype.name == "category"]
        return labels.astype(dict.fromkeys(odd, object)) if odd else labels
    return labels.astype(object) if labels.dtype.name == "category" else labels


def moments_of(
    rows: Any, labels: Any, sample_weight: Any, options: GroupingOptions, where: str
) -> GroupMoments:
    """Return the moments of one piece.

    Parameters
    ----------
    rows, labels, sample_weight, options
        As in `unpack`.
    where : str
        Name of the piece, for errors.
    """
    with named(where):
        X, groups, weights = unpack(rows, labels, sample_weight, options)
        check_moments_size(X.shape[1], max(len(groups.labels), 1), options.limit)
        _check_finite(X, getattr(rows, "columns", None))
        if weights is None or weights.any():
            return GroupMoments.from_array(X, groups, sample_weight=weights)
        found = GroupMoments.from_array(X, groups)
        none = {
            name: np.zeros_like(getattr(found, name)) for name in ("weight", "mean", "scatter")
        }
        return replace(found, **none)


def _check_finite(X: AnyArray, features: Any) -> None:
    """Raise ValueError naming the columns with NaN or infinity."""
    if is_sparse(X) or X.dtype.kind != "f":
        return
    # A sum is finite unless an entry is not (or it overflows, which moments refuse by themselves).
    bad = np.flatnonzero(~np.isfinite(np.einsum("ij->j", X)))
    bad = bad[~np.isfinite(X[:, bad]).all(axis=0)]
    if len(bad):
        names = [repr(features[j]) if features is not None else str(j) for j in bad[:5]]
        raise ValueError(
            f"X contains NaN or infinity in column(s) {', '.join(names)}"
            f"{' ...' if len(bad) > 5 else ''}; impute or drop them first."
        )


def _matrix(rows: Any) -> AnyArray:
    """Return rows as an array of numbers, NaN where a frame has nulls."""
    if hasattr(rows, "to_numpy") and hasattr(rows, "columns"):
        return np.asarray(rows.to_numpy(dtype=np.float64, na_value=np.nan))
    if hasattr(rows, "dtype") and rows.dtype.kind not in "biuf":
        raise ValueError(f"X has dtype {rows.dtype}; convert its columns to numbers first.")
    return rows  # type: ignore[no-any-return]


def merge_moments(
    parts: Iterable[GroupMoments | None], options: GroupingOptions
) -> GroupMoments | None:
    """Merge partial moments in the order given, so that the same pieces give the same bits.

    Parameters
    ----------
    parts : iterable of GroupMoments or None
        None stands for a piece without rows.
    options : GroupingOptions
        Its limit is checked before each merge.

    Returns
    -------
    GroupMoments or None
        None if no piece has rows.
    """

    def join(one: GroupMoments, other: GroupMoments) -> GroupMoments:
        k = len(set(one.labels) | set(other.labels))
        check_moments_size(one.n_features, max(k, 1), options.limit)
        return one.merge(other)

    counted = [part for part in parts if part is not None]
    return reduce(join, counted) if counted else None


def check_counted(moments: GroupMoments | None) -> GroupMoments:
    """Return moments that have rows with weight, or raise ValueError."""
    if moments is None or not moments.count.sum():
        raise ValueError("X has no rows; check the filter or the files it is read from.")
    if not moments.weight.any():
        raise ValueError("sample_weight is zero for every row; give some row a positive weight.")
    return moments


def choose_from_frame(
    types: Mapping[str, tuple[bool, str]],
    labels: Sequence[str] = (),
    features: Sequence[str] | None = None,
    weight: str | None = None,
    unlabelled: str = "error",
) -> Wanted:
    """Choose the columns of a distributed dataframe, and check that features are numbers.

    Parameters
    ----------
    types : mapping of str to (bool, str)
        Of every column whether it holds numbers, and what its type is called.
    labels, features, weight, unlabelled
        As in `fairpca.io.columns.choose`, but labels must be columns, not thresholds of them.
    """
    absent = [name for name in labels if name not in types]
    if absent:
        raise ValueError(f"sensitive_features: X has no column {absent[0]!r}; name columns of X.")
    wanted = choose(
        list(types),
        where="X",
        labels=labels,
        features=features,
        weight=weight,
        unlabelled=unlabelled,
    )
    for name in wanted.features:
        is_number, kind = types[name]
        if not is_number:
            raise not_numbers("X", name, kind)
    return wanted


def project(rows: Any, mean: FloatArray, components: FloatArray) -> AnyArray:
    """Return the components of some rows; float32 stays float32."""
    X = _matrix(rows)
    dtype = np.float32 if X.dtype == np.float32 else np.float64
    dense = X.toarray() if is_sparse(X) else np.asarray(X)  # type: ignore[attr-defined]
    if not np.all(np.isfinite(dense)):
        raise ValueError("X contains NaN or infinity; impute or drop them before transform.")
    # Centred before the product: afterwards, a large mean would have eaten the digits.
    return np.asarray((dense - mean) @ components.T, dtype=dtype)
