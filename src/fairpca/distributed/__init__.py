"""Rows that live on a cluster: every piece is counted where it is, and its moments are merged.

`dask` and `spark` turn distributed rows into `GroupMoments` and add projections to them. What a
worker does with one piece of the rows, whatever engine brought it there, is in this file.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np

from fairpca._arrays import AnyArray
from fairpca._check import listed
from fairpca.covariances.sources import memory_limit
from fairpca.moments.group_moments import GroupMoments, split_folds
from fairpca.moments.groups import Groups

__all__ = ["dask", "spark"]


@dataclass(frozen=True)
class Grouping:
    """How labels become groups, by the `rules` of `Groups.of`, and rows folds.

    Labels, weights and blocks are `named` columns of the rows, or come beside them.
    """

    rules: Mapping[str, str]
    n_folds: int
    named: Mapping[str, str | Sequence[str]]

    @property
    def others(self) -> list[str]:
        """Names of all columns that are no features."""
        lists = ([names] if isinstance(names, str) else names for names in self.named.values())
        return list(dict.fromkeys(name for names in lists for name in names))

    def count(
        self, rows: Any, beside: Mapping[str, Any], start: int, part: int
    ) -> GroupMoments | None:
        """Return the moments of one piece, None of no rows; ValueError names the piece.

        The first row has the number `start` in the whole table.
        """
        given = {**beside, **{argument: rows[names] for argument, names in self.named.items()}}
        labels, weight, blocks = map(given.get, ("sensitive_features", "sample_weight", "blocks"))
        X = rows.drop(columns=self.others) if self.named else rows
        if not len(X):
            return None
        try:
            groups = Groups.of(labels, len(X), **self.rules).dealt(self.n_folds, blocks, start)
            return GroupMoments.from_array(X, groups, sample_weight=weight)
        except (ValueError, TypeError) as error:
            raise ValueError(f"partition {part}: {error}") from None

    def finished(self, moments: GroupMoments | None) -> GroupMoments | list[GroupMoments]:
        """Return the moments of all pieces, fold by fold where there are folds."""
        if moments is None:
            raise ValueError("X has no rows; check the filter or the files it is read from.")
        return split_folds(moments, self.n_folds)  # type: ignore[no-any-return]


def check_columns(wanted: Sequence[str], known: Sequence[str], n_features: int) -> None:
    """Raise ValueError unless all columns are there, MemoryError where features are too many.

    What has to fit into this machine's memory are the moments of one group.
    """
    missing = [name for name in wanted if name not in known]
    if missing:
        raise ValueError(f"X has no column {listed(missing)}; it has {listed(known, 12)}.")
    most = int((memory_limit() / 8) ** 0.5)
    if n_features > most:
        raise MemoryError(
            f"X has {n_features:,} columns, and the moments of at most {most:,} fit into memory; "
            "choose columns, or fit sparse rows in memory, whose covariances are never formed."
        )


def merged(parts: Iterable[GroupMoments | None]) -> GroupMoments | None:
    """Merge moments in the order given; None stands for no rows."""
    known = (part for part in parts if part is not None)
    first = next(known, None)
    return None if first is None else reduce(GroupMoments.merge, known, first)


def light(model: Any) -> Any:
    """Return a copy of a model with what `transform` needs: no moments travel to the workers."""
    found = copy.copy(model)
    drop = {name for name in vars(model) if name[0] == "_"} | {"feature_names_in_"}
    found.__dict__ = {name: value for name, value in vars(model).items() if name not in drop}
    return found


def project(rows: Any, model: Any) -> AnyArray:
    """Return the components of one piece, which may have no rows."""
    X = rows.to_numpy(dtype=float, na_value=np.nan) if hasattr(rows, "columns") else rows
    found = model.transform(X) if len(X) else np.empty((0, model.n_components_), X.dtype)
    return np.asarray(found)
