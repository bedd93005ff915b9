"""What a worker does with one piece of the rows, whatever engine brought it there."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np

from fairpca._checks import check_weights
from fairpca._linalg import AnyArray, FloatArray, is_sparse
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.groups import Groups
from fairpca.moments.label_codes import Label
from fairpca.moments.memory import check_moments_size, default_limit, moments_bytes

# Partial moments merged by one task: few levels of the tree, few of them in memory at once.
_FAN_IN = (8, 4, 2)
# Counting the groups beforehand reads the labels once more; it is skipped while this many fit.
_FEW = 64


@dataclass(frozen=True)
class Rules:
    """How labels become groups, and the bytes that moments may take."""

    group_by: str = "intersection"
    unlabelled: str = "error"
    limit: int = 0

    @classmethod
    def of(cls, group_by: str, unlabelled: str, memory_limit: int | None) -> Rules:
        """Return the rules; the default limit is that of the machine that asks."""
        limit = default_limit() if memory_limit is None else memory_limit
        return cls(group_by, unlabelled, limit)

    def must_count_groups(self, n_features: int) -> bool:
        """Whether an unlucky number of groups could exceed the limit."""
        return _FEW * moments_bytes(n_features, 1) > self.limit

    def fan_in(self, n_features: int, n_groups: int) -> int:
        """Return how many partial moments one task may merge, or refuse."""
        for width in _FAN_IN:
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


def groups_of(labels: Any, n_rows: int, rules: Rules) -> Groups:
    """Code the labels of one piece; None is one group, `Groups` are taken as they are."""
    if labels is None:
        codes = np.zeros(n_rows, dtype=np.int64)
        return Groups(codes, ("all",), ("all",), np.array([n_rows]))
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
        group_by=rules.group_by,
        unlabelled=rules.unlabelled,
    )


def cell_labels(labels: Any, rules: Rules, where: str) -> set[Label]:
    """Return the distinct labels of one piece, None for unlabelled rows."""
    with named(where):
        n_rows = len(next(iter(labels.values()))) if isinstance(labels, dict) else len(labels)
        groups = groups_of(labels, n_rows, rules)
        return {*groups.labels, *((None,) if (groups.codes < 0).any() else ())}


def _without_declared_levels(labels: Any) -> Any:
    # Categories are declared for the whole table; one piece need not have a row of each.
    dtypes = getattr(labels, "dtypes", None)
    if dtypes is None:
        return labels
    if hasattr(labels, "columns"):
        odd = [name for name, dtype in dtypes.items() if dtype.name == "category"]
        return labels.astype(dict.fromkeys(odd, object)) if odd else labels
    return labels.astype(object) if labels.dtype.name == "category" else labels


def weights_of(sample_weight: Any, n_rows: int) -> FloatArray | None:
    """Check the weights of one piece; they may all be zero as long as some piece's are not."""
    if sample_weight is None:
        return None
    weights = np.asarray(sample_weight, dtype=float)
    return (
        weights
        if weights.shape == (n_rows,) and not weights.any()
        else check_weights(weights, n_rows)
    )


def moments_of(
    rows: Any,
    labels: Any,
    sample_weight: Any,
    rules: Rules,
    where: str,
    features: Sequence[str] | None = None,
) -> GroupMoments:
    """Return the moments of one piece.

    Parameters
    ----------
    rows : array of shape (m, n) or frame
    labels : anything `Groups.from_labels` takes, Groups, or None
    sample_weight : array-like of shape (m,), optional
    rules : Rules
    where : str
        Name of the piece, for errors.
    features : sequence of str, optional
        Names of the columns, for errors; those of a frame by default.
    """
    with named(where):
        X = matrix(rows)
        groups = groups_of(labels, X.shape[0], rules)
        check_moments_size(X.shape[1], max(len(groups.labels), 1), rules.limit)
        weights = weights_of(sample_weight, X.shape[0])
        _check_finite(X, features or getattr(rows, "columns", None))
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


def matrix(rows: Any) -> AnyArray:
    """Return rows as an array of numbers; nulls become NaN, which is refused later by name."""
    if hasattr(rows, "to_numpy") and hasattr(rows, "columns"):
        return np.asarray(rows.to_numpy(dtype=np.float64, na_value=np.nan))
    if hasattr(rows, "dtype") and rows.dtype.kind not in "biuf":
        raise ValueError(f"X has dtype {rows.dtype}; convert its columns to numbers first.")
    return rows  # type: ignore[no-any-return]


def merge_moments(parts: Iterable[GroupMoments], rules: Rules) -> GroupMoments:
    """Merge partial moments in the order given, so that the same pieces give the same bits."""

    def join(one: GroupMoments, other: GroupMoments) -> GroupMoments:
        k = len(set(one.labels) | set(other.labels))
        check_moments_size(one.n_features, max(k, 1), rules.limit)
        return one.merge(other)

    return reduce(join, parts)


def check_counted(moments: GroupMoments) -> GroupMoments:
    """Return moments that have rows with weight, or raise."""
    if not moments.count.sum():
        raise ValueError("X has no rows; check the filter or the files it is read from.")
    if not moments.weight.any():
        raise ValueError("sample_weight is zero for every row; give some row a positive weight.")
    return moments


def feature_columns(
    columns: Sequence[str], numeric: Sequence[bool], features: Any, taken: Sequence[str]
) -> list[str]:
    """Return the feature columns of a table: those named, else all that are not taken.

    Parameters
    ----------
    columns : sequence of str
        All columns of the table.
    numeric : sequence of bool
        Which of them hold numbers.
    features : sequence of str, optional
        The columns asked for.
    taken : sequence of str
        Columns used as labels or weight.
    """
    missing = [name for name in (*(features or ()), *taken) if name not in columns]
    if missing:
        raise ValueError(
            f"the table has no column(s) {', '.join(map(repr, missing))}; it has "
            f"{', '.join(map(repr, columns[:20]))}{' ...' if len(columns) > 20 else ''}."
        )
    chosen = (
        [name for name in columns if name not in taken] if features is None else list(features)
    )
    words = [name for name, number in zip(columns, numeric, strict=True) if not number]
    odd = [name for name in chosen if name in words]
    if odd:
        raise ValueError(
            f"column(s) {', '.join(map(repr, odd))} do not hold numbers; encode them first, "
            "or choose features without them."
        )
    if not chosen:
        raise ValueError("features is empty; name at least one column of numbers.")
    return chosen


def project(X: AnyArray, mean: FloatArray, components: FloatArray) -> AnyArray:
    """Return the components of some rows; float32 stays float32."""
    dtype = np.float32 if X.dtype == np.float32 else np.float64
    dense = X.toarray() if is_sparse(X) else np.asarray(X)  # type: ignore[attr-defined]
    if not np.all(np.isfinite(dense)):
        raise ValueError("X contains NaN or infinity; impute or drop them before transform.")
    # Centred before the product: afterwards, a large mean would have eaten the digits.
    return np.asarray((dense - mean) @ components.T, dtype=dtype)
