"""Tables larger than memory: files -> batches -> moments, in one pass.

What the preparation needs of all rows before one of them can be counted, levels of text and means
of columns with gaps, is found in a pass of its own over those columns. Columns are standardised
afterwards: the scatter is scaled, not the rows. Read `read_moments` first.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from fairpca._check import check_choice, require
from fairpca.io.tables import MISSING, MOST_LEVELS, Columns, Files, Layout, Roles, open_files
from fairpca.moments.group_moments import GroupMoments, as_folds, split_folds

# Entries of a batch: 64 MB of float64.
_BATCH_ENTRIES = 8_000_000
# More groups than this are measurements: their moments would fill the memory.
_MOST_GROUPS = 1000
_log = logging.getLogger("fairpca")


def read_moments(
    source: str | Path | Sequence[str | Path], *, sensitive_features: str | Sequence[str],
    columns: Sequence[str] | None = None, drop: Sequence[str] | None = None,
    sample_weight: str | None = None, blocks: str | None = None, group_by: str = "intersection",
    unlabelled: str = "error", missing: str = "error", n_folds: int = 0,
    layout: Layout | None = None,
) -> GroupMoments | list[GroupMoments]:  # fmt: skip
    """Count the rows of files that need not fit into memory.

    Parameters
    ----------
    source : path, or sequence of paths
        Parquet, Feather, CSV (also .gz) or .npy files of one kind, or folders of them. Columns of
        .npy files are called column1, column2, ...
    sensitive_features : str or sequence of str
        Label columns, or cuts of numbers such as ``"age>=65"``. Labels of delimited text are text.
    columns, drop : sequence of str, optional
        Features, by default all columns without another role, and columns to leave out. Patterns
        such as ``BILL_*`` work.
    sample_weight, blocks : str, optional
        Columns of weights, and of what rows belong to: rows of one block have the same fold.
    group_by, unlabelled : str
        As in `GroupMoments.from_array`.
    missing : {"error", "drop"}, default="error"
        What to do with rows that lack a feature.
    n_folds : int, default=0
        Count the rows of so many folds apart, in the same pass, by their position or their block.
    layout : Layout, optional
        Of delimited text.

    Returns
    -------
    GroupMoments, or list of GroupMoments
        The same, to rounding, as `GroupMoments.from_array` of all rows; with `n_folds` as many,
        for ``shrinkage="auto"`` and `fairpca.cross_fit`.

    Raises
    ------
    ValueError
        Naming the column, or the file that cannot be read.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from fairpca import FairPCA
    >>> from fairpca.io import read_moments
    >>> rows = chr(10).join(["age,income,sex", "30,2.5,f", "40,3.5,m", "50,3.0,f", "60,4.5,m"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "people.csv").write_text(rows)
    ...     moments = read_moments(f"{folder}/people.csv", sensitive_features="sex")
    >>> moments.labels, moments.count.tolist()
    (('f', 'm'), [2, 2])
    >>> FairPCA(1).fit_moments(moments).n_features_in_
    2
    """
    check_choice("missing", missing, ("error", "drop"))
    files = open_files(source, layout)
    asked: Any = {"columns": columns, "drop": drop, "sample_weight": sample_weight}
    asked |= {"sensitive_features": sensitive_features, "blocks": blocks}
    roles = Roles.choose(files.names, **asked)
    how = Columns(roles.features, {}, ()), missing, lambda rows: rows
    return _count(files, roles, *how, n_folds, group_by=group_by, unlabelled=unlabelled)


def count_prepared(
    files: Files,
    roles: Roles,
    *,
    missing: str = "error",
    standardize: bool = True,
    n_folds: int = 0,
) -> tuple[GroupMoments | list[GroupMoments], tuple[tuple[str, Any], ...], tuple[str, ...]]:
    """Count what `fairpca.io.tables.prepare` would make of the rows, without holding them.

    Arguments are those of `prepare` and `read_moments`; ``missing="median"`` needs all rows at
    once. Returns the moments, the fitted steps that prepare rows, and what was done.
    """
    check_choice("missing", missing, MISSING[:3])
    columns, means = _looked_at(files, roles, missing)
    pandas = require("pandas", extra="data", purpose="reading tables")
    # One row from which every fitted number follows: the means, and some level.
    row = pandas.DataFrame([means | {name: found[0] for name, found in columns.levels.items()}])
    transformer = columns.transformer(missing).fit(row)
    how = columns, missing, transformer.transform
    moments = _count(files, roles, *how, n_folds, labelled=missing == "drop")
    steps = [("columns", transformer)]
    if standardize:
        from sklearn.preprocessing import StandardScaler

        folds = as_folds(moments) or []
        total = functools.reduce(GroupMoments.merge, folds)
        found = total.standardized()
        scaled = [fold.standardized(like=total).moments for fold in folds]
        moments = scaled if n_folds else scaled[0]
        # Two rows with this mean and this standard deviation.
        scaler = StandardScaler().fit([found.mean - found.scale, found.mean + found.scale])
        steps.append(("scale", scaler))
    return moments, tuple(steps), columns.notes


def _looked_at(files: Files, roles: Roles, missing: str) -> tuple[Columns, dict[str, float]]:
    """Return kinds and levels of the features, and the mean of every number with gaps."""
    first = next(files.batches(roles.features, _batch_rows(roles)), None)
    if first is None:
        raise ValueError(f"{files.paths[0]} has no rows of data.")
    texts = [name for name in roles.features if first[name].dtype.kind == "O"]
    found = [n for n in roles.features if missing == "mean" and first[n].dtype.kind in "biuf"]
    levels: dict[str, set[str]] = {name: set() for name in texts}
    sums, counts = np.zeros(len(found)), np.zeros(len(found))
    for frame in _batches(files, roles, [*texts, *found]) if texts or found else ():
        for name, known in levels.items():
            if len(known) <= MOST_LEVELS:
                known.update(map(str, frame[name].dropna().unique()))
        values = frame[found].to_numpy(dtype=np.float64)
        sums += np.nansum(values, axis=0)
        counts += np.count_nonzero(~np.isnan(values), axis=0)
    columns = Columns.of(first, roles.features, levels)
    means = dict(zip(found, sums / np.maximum(counts, 1), strict=True))
    return columns, {name: means.get(name, 0.0) for name in columns.numbers}


def _batches(
    files: Files, roles: Roles, columns: Sequence[str], texts: Sequence[str] = ()
) -> Iterator[Any]:
    """Yield pieces of the table whose index counts its rows, without those of weight zero."""
    start, weight = 0, [] if roles.weight is None else [roles.weight]
    for frame in files.batches([*columns, *weight], _batch_rows(roles), texts):
        frame.index = frame.index + start
        start += len(frame)
        _log.info("read %s rows", f"{start:,}")
        yield roles.counting(frame)


def _batch_rows(roles: Roles) -> int:
    """Return how many rows of a table make a batch."""
    return max(_BATCH_ENTRIES // len(roles.features), 256)


def _count(
    files: Files,
    roles: Roles,
    columns: Columns,
    missing: str,
    change: Callable[[Any], Any],
    n_folds: int,
    labelled: bool = False,
    **rules: str,
) -> GroupMoments | list[GroupMoments]:
    """Return the moments of what `change` makes of the rows of every batch that can be used.

    Rows without a label are dropped where only `labelled` ones are wanted.
    """
    needed = [column for column, _ in roles.labels.values()] if labelled else []

    def batches() -> Iterator[tuple[Any, ...]]:
        seen = 0
        for batch in _batches(files, roles, roles.columns, roles.texts):
            frame = batch.dropna(subset=needed) if needed else batch
            X, kept = columns.take(frame, missing)
            if not len(X):
                continue
            groups, weight = roles.groups(frame, **rules), roles.weights(frame)
            if len(groups.labels) > _MOST_GROUPS:
                raise ValueError(
                    f"{len(groups.labels):,} labels are too many to be groups; cut a number in "
                    "two, such as 'age>=65', or join rare labels first."
                )
            rows = np.flatnonzero(kept)
            blocks = None if roles.blocks is None else frame[roles.blocks].iloc[rows]
            # As in memory, rows that are left out have no number.
            groups = groups.take(rows).dealt(n_folds, blocks, seen)
            seen += len(X)
            yield change(X), groups, None if weight is None else weight[rows]

    return split_folds(GroupMoments.from_batches(batches()), n_folds)  # type: ignore[no-any-return]
