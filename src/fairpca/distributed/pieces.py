"""What a worker does with one piece of the rows, whatever engine brought it there.

A piece is counted (`moments_of`), or, where moments would not fit, multiplied: a pass over all
pieces multiplies the covariances of all cells with a block of columns at once (`PassOperators`).
The solver (`fairpca.covariances.block_krylov`) keeps every image, so that few passes are needed.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from fairpca._check import as_numpy, check_weights
from fairpca._arrays import AnyArray, FloatArray, IntArray, is_sparse
from fairpca.covariances.implicit import GroupOperators
from fairpca.io.columns import Wanted, choose, known_column, not_numbers
from fairpca.io.read_moments import count_batches, merged
from fairpca.io.sources import Batch
from fairpca.moments.group_moments import GroupMoments, all_labels, split_folds
from fairpca.moments.groups import Groups, check_folds, row_folds
from fairpca.moments.groups import Label
from fairpca.moments.memory import default_limit, moments_bytes
from fairpca.moments.scatter import block_rows, merge_means, moved

# Counting the groups beforehand reads the labels once more. It is skipped while this many groups
# would fit into memory; with more groups than that, the error comes after the counting began.
_MANY_GROUPS = 64


@dataclass(frozen=True)
class GroupingOptions:
    """How labels become groups, and the bytes that moments may take.

    `group_by` and `unlabelled` are those of `FairPCA`. `limit` are the bytes that the moments of
    all groups may take in one process. The rows of a piece fall into `n_folds` folds by their
    position in it, into none with None.
    """

    group_by: str = "intersection"
    unlabelled: str = "error"
    limit: int = 0
    n_folds: int | None = None

    @classmethod
    def of(
        cls, group_by: str, unlabelled: str, memory_limit: int | None, n_folds: int | None = None
    ) -> GroupingOptions:
        """Return the options; the default limit is that of the machine that asks."""
        limit = default_limit() if memory_limit is None else memory_limit
        return cls(group_by, unlabelled, limit, check_folds(n_folds))

    def must_count_groups(self, n_features: int) -> bool:
        """Return whether an unlucky number of groups could exceed the limit."""
        return _MANY_GROUPS * moments_bytes(n_features, self.n_folds or 1) > self.limit


@contextlib.contextmanager
def named(where: str) -> Iterator[None]:
    """Say in every error which piece of the rows it is about."""
    try:
        yield
    except (ValueError, TypeError, MemoryError) as error:
        kind = MemoryError if isinstance(error, MemoryError) else ValueError
        # The trace of a worker says nothing to who asked; the name of the piece does.
        raise kind(f"{where}: {error}") from None


def unpack(
    rows: Any, labels: Any, sample_weight: Any, options: GroupingOptions, part: int = 0
) -> tuple[AnyArray, Groups, FloatArray | None]:
    """Return rows, groups and weights of one piece, checked against each other.

    Parameters
    ----------
    rows : array of shape (m, n) or frame
        Nulls become NaN, which is refused later by name.
    labels, options, part
        As in `groups_of`.
    sample_weight : array-like of shape (m,) or None
        All may be zero, as long as those of some other piece are not.

    Raises
    ------
    ValueError
        If lengths differ, or labels or weights have another index than the rows.
    """
    index = getattr(rows, "index", None)
    for name, values in (("sensitive_features", labels), ("sample_weight", sample_weight)):
        other = getattr(values, "index", None)
        # A list has a method of that name.
        if index is None or other is None or callable(other) or index.equals(other):
            continue
        raise ValueError(
            f"{name} has another index than X here, so that rows would get the values of others; "
            "take both from one dataframe, or reset the index of both."
        )
    X = _matrix(rows)
    weights = check_weights(sample_weight, X.shape[0], all_zero=True)
    return X, groups_of(labels, X.shape[0], options, part), weights


def groups_of(labels: Any, n_rows: int, options: GroupingOptions, part: int) -> Groups:
    """Return the groups of one piece, those of every fold apart where there are folds.

    Labels are what `Groups.of` takes. The number of the piece, `part`, decides about folds.
    """
    rules = {"group_by": options.group_by, "unlabelled": options.unlabelled}
    groups = Groups.of(labels, n_rows, **rules)
    if options.n_folds is None:
        return groups
    return groups.in_folds(row_folds(0, n_rows, options.n_folds, part), options.n_folds)


def cell_labels(groups: Groups) -> set[Label]:
    """Return the distinct labels of some rows, None for unlabelled ones."""
    return {*groups.labels, *((None,) if (groups.codes < 0).any() else ())}


def moments_of(
    rows: Any, labels: Any, sample_weight: Any, options: GroupingOptions, part: int
) -> GroupMoments | None:
    """Return the moments of one piece; arguments as in `unpack`."""
    where = f"partition {part}"
    with named(where):
        X, groups, weights = unpack(rows, labels, sample_weight, options, part)
    names = tuple(map(str, getattr(rows, "columns", range(X.shape[1]))))
    return count_batches([Batch(X, groups, weights, names, where, 0)], options.limit)


def _matrix(rows: Any) -> AnyArray:
    """Return rows as an array of numbers, NaN where a frame has nulls."""
    if hasattr(rows, "to_numpy") and hasattr(rows, "columns"):
        return np.asarray(rows.to_numpy(dtype=np.float64, na_value=np.nan))
    if isinstance(rows, np.ma.MaskedArray):
        # Refuses values that are hidden.
        rows = np.ma.getdata(as_numpy(rows))
    # Objects and texts would fail much later, in a product, without the name of the piece.
    if hasattr(rows, "dtype") and rows.dtype.kind not in "biuf":
        raise ValueError(f"X has dtype {rows.dtype}; convert its columns to numbers first.")
    return rows  # type: ignore[no-any-return]


def merge_moments(
    parts: Iterable[GroupMoments | None], options: GroupingOptions
) -> GroupMoments | None:
    """Merge partial moments in the order given, so that the same pieces give the same bits.

    None stands for a piece without rows, and is returned if no piece has any.
    """
    return reduce(lambda one, other: merged(one, other, options.limit), parts, None)


def check_counted(moments: GroupMoments | None, n_folds: int | None) -> Any:
    """Return moments that have rows with weight, fold by fold, or raise ValueError."""
    if moments is None or not moments.count.sum():
        raise ValueError("X has no rows; check the filter or the files it is read from.")
    if not moments.weight.any():
        raise ValueError("sample_weight is zero for every row; give some row a positive weight.")
    return split_folds(moments, n_folds)


def choose_from_frame(
    types: Mapping[str, tuple[bool, str]], labels: str | Sequence[str], **options: Any
) -> Wanted:
    """Choose the columns of a distributed dataframe, and check that features are numbers.

    `types` says of every column whether it holds numbers, and what its type is called. The other
    arguments are those of `fairpca.io.columns.choose`, but labels must be columns, not thresholds
    of them.
    """
    names, labels = list(types), [labels] if isinstance(labels, str) else labels
    labels = [known_column(name, names, "sensitive_features: X") for name in labels]
    wanted = choose(names, where="X", labels=labels, **options)
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


@dataclass(frozen=True)
class CellSums:
    """Rows, weight, mean and total scatter (its trace only) of every cell.

    Of c cells, `mean` and `mean_rest`, what rounding left of it, have the shape (c, n); the rest
    counts between means far from zero. `spread` is the weighted sum of squared distances to the
    mean of the cell. The label None is that of unlabelled rows; `names` are those of the label
    columns.
    """

    count: IntArray
    weight: FloatArray
    spread: FloatArray
    mean: FloatArray
    mean_rest: FloatArray
    labels: tuple[Label, ...]
    names: tuple[str, ...]

    def merge(self, other: CellSums) -> CellSums:
        """Return the sums of the rows of both."""
        labels = all_labels(self.labels, other.labels)
        count, weight, spread = np.zeros((3, 2, len(labels)))
        mean = np.zeros((2, len(labels), 2, self.mean.shape[1]))
        for i, part in enumerate((self, other)):
            at = [labels.index(label) for label in part.labels]
            count[i, at], weight[i, at], spread[i, at] = part.count, part.weight, part.spread
            mean[i, at, 0], mean[i, at, 1] = part.mean, part.mean_rest
        total, means, between = merge_means(weight[0], mean[0], weight[1], mean[1])
        spread = spread.sum(axis=0) + np.sum(between**2, axis=1)
        counts = count.sum(axis=0).astype(np.int64)
        return CellSums(counts, total, spread, means[:, 0], means[:, 1], labels, self.names)


def piece_sums(
    rows: Any, labels: Any, sample_weight: Any, options: GroupingOptions, where: str
) -> CellSums:
    """Return the sums of one piece, which errors call `where`; arguments as in `unpack`."""
    with named(where):
        X, groups, weights = unpack(rows, labels, sample_weight, options)
        found = GroupOperators.from_rows(X, groups, weights)
    spread = found.traces * found.weight
    mean = moved(np.stack([found.origin, np.zeros_like(found.origin)], axis=1), found.offset)
    return CellSums(
        found.count, found.weight, spread, mean[:, 0], mean[:, 1], found.labels, found.names
    )


def piece_products(
    rows: Any,
    labels: Any,
    sample_weight: Any,
    facts: CellSums,
    columns: FloatArray,
    options: GroupingOptions,
) -> FloatArray:
    """Return what one piece adds to ``S_c @ columns`` of every cell c, shape (c, n, q).

    The rows, labels and weights are as in `unpack`, `facts` are those of all rows.
    """
    total = np.zeros((len(facts.labels), *columns.shape))
    X, groups, weights = unpack(rows, labels, sample_weight, options)
    if is_sparse(X):
        # Never dense: of ten thousand columns a row may have an entry in a few hundred.
        own = GroupOperators.from_rows(X, groups, weights)
        for part in np.flatnonzero(own.weight):
            cell = facts.labels.index(own.labels[part])
            # The rows about their own mean, and the way from there to the mean of the whole cell.
            shift = own.origin[part] - facts.mean[cell]
            shift += own.offset[part] - facts.mean_rest[cell]
            image = own.product(int(part), columns) + np.outer(shift, shift @ columns)
            total[cell] += own.weight[part] / facts.weight[cell] * image
        return total
    codes, labels_here, _ = groups.cells()
    step = block_rows(X.shape[1])
    for place, label in enumerate(labels_here):
        cell, picks = facts.labels.index(label), np.flatnonzero(codes == place)
        for start in range(0, len(picks) if facts.weight[cell] > 0 else 0, step):
            some = picks[start : start + step]
            # About the mean of the whole cell: products of rows far from zero are mostly rounding.
            centred = np.asarray(X[some], dtype=np.float64) - facts.mean[cell]
            w = np.ones(len(some)) if weights is None else weights[some]
            share = (w / facts.weight[cell])[:, None]
            total[cell] += centred.T @ (centred @ columns * share)
    return total


class PassOperators:
    """The cells of a table known by passes over it; what `FairPCA.fit_operators` takes.

    `sums` returns the `CellSums` of every piece, in order; `products` maps those of all rows and
    columns (n, q) to ``S_c @ columns``, shape (c, n, q). Each is one pass. ValueError if no row
    has weight.

    Attributes
    ----------
    count, weight, traces : ndarray of shape (c,)
        Rows and weight of every cell, and the trace of its covariance.
    mean, origin : ndarray of shape (c, n)
        Mean of every cell.
    offset : ndarray of shape (c, n)
        What rounding left of the means.
    labels, names : tuple
        Labels of the cells, and names of the label columns.
    n_passes : int
        Passes over the rows so far, the first one (counts and means) included.
    feature_names : sequence of str or None
        Names of the columns, where they have any.
    """

    def __init__(
        self,
        sums: Callable[[], list[CellSums]],
        products: Callable[..., FloatArray],
        feature_names: Sequence[str] | None = None,
    ) -> None:
        self.feature_names = feature_names
        facts = reduce(CellSums.merge, sums())
        self._facts, self._products = facts, products
        self.n_passes = 1
        self.count, self.weight, self.mean = facts.count, facts.weight, facts.mean
        self.origin, self.offset = facts.mean, facts.mean_rest
        self.labels, self.names = facts.labels, facts.names
        if not self.weight.any():
            raise ValueError("X has no row with positive weight; check the filter or the files.")
        # A cell whose rows all weigh nothing has no variance, and must not divide by zero.
        self.traces = facts.spread / np.where(self.weight > 0, self.weight, 1.0)

    @classmethod
    def over(
        cls,
        pieces: Callable[[], Iterable[tuple[Any, Groups, Any, str]]],
        feature_names: Sequence[str] | None = None,
    ) -> PassOperators:
        """Return the products of rows that this machine reads, a piece after the other.

        `pieces` starts a pass: rows, groups and weights of every piece, and what errors call it.
        """
        as_read = GroupingOptions()

        def sums() -> list[CellSums]:
            found = [piece_sums(X, groups, w, as_read, where) for X, groups, w, where in pieces()]
            if not found:
                raise ValueError("X has no rows; check the files it is read from.")
            return found

        def products(facts: CellSums, columns: FloatArray) -> FloatArray:
            total = np.zeros((len(facts.labels), *columns.shape))
            for X, groups, w, _ in pieces():
                total += piece_products(X, groups, w, facts, columns, as_read)
            return total

        return cls(sums, products, feature_names)

    @property
    def n_features(self) -> int:
        """Number of columns."""
        return int(self.mean.shape[1])

    def products(self, columns: FloatArray) -> FloatArray:
        """Return the covariance of every cell times `columns`, shape (c, n, q): one pass."""
        self.n_passes += 1
        return self._products(self._facts, columns)
