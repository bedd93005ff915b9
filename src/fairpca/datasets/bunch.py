"""What every loader returns: rows, names, groups, target and an honest description."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from fairpca._checks import check_choice
from fairpca._linalg import AnyArray, FloatArray
from fairpca.datasets.cache import need
from fairpca.moments.label_codes import factorize


@dataclass(frozen=True)
class Table:
    """A table as read, before anyone has chosen which column makes the groups.

    Attributes
    ----------
    columns : dict of str to ndarray
        Numeric feature columns, in order; the target is not among them.
    groupings : dict of str to ndarray
        Attributes that can make groups, as readable labels.
    restates : dict of str to tuple of str
        The feature columns that say the same as a grouping and leave with it.
    target : ndarray or None
    target_name : str
    """

    columns: Mapping[str, AnyArray]
    groupings: Mapping[str, AnyArray]
    restates: Mapping[str, tuple[str, ...]]
    target: AnyArray | None
    target_name: str
    extras: dict[str, Any] = field(default_factory=dict)

    def bunch(self, sensitive: str | Sequence[str] | None, **kwargs: Any) -> Any:
        """Return the table without its group columns, grouped by `sensitive`."""
        if sensitive is None:
            chosen: tuple[str, ...] = ()
        else:
            chosen = (sensitive,) if isinstance(sensitive, str) else tuple(sensitive)
        for name in chosen:
            check_choice("sensitive", name, tuple(self.groupings))
        left_out = {column for name in chosen for column in self.restates[name]}
        kept = {name: values for name, values in self.columns.items() if name not in left_out}
        return make_bunch(
            np.column_stack([np.asarray(values, dtype=float) for values in kept.values()]),
            list(kept),
            {name: self.groupings[name] for name in chosen},
            target=self.target,
            target_name=self.target_name,
            extras=self.extras,
            **kwargs,
        )

    def matrix(self, *, with_target: bool) -> tuple[FloatArray, list[str]]:
        """Return all feature columns (and the target as the last one) and their names."""
        columns = dict(self.columns)
        if with_target:
            assert self.target is not None
            columns[self.target_name] = self.target
        stacked = np.column_stack([np.asarray(c, dtype=float) for c in columns.values()])
        return stacked, list(columns)


def make_bunch(
    data: FloatArray,
    feature_names: list[str],
    groupings: Mapping[str, AnyArray],
    *,
    target: AnyArray | None,
    target_name: str,
    descr: str,
    filename: Path,
    as_frame: bool = False,
    return_X_y: bool = False,
    extras: Mapping[str, Any] | None = None,
) -> Any:
    """Return a Bunch, or ``(data, target)``, as arrays or as pandas objects."""
    groupings = {name: _shared(labels) for name, labels in groupings.items()}
    sensitive: Any = None
    if len(groupings) == 1:
        (sensitive,) = groupings.values()
    elif groupings:
        sensitive = np.column_stack(list(groupings.values()))
    frame = None
    rows: Any = data
    if as_frame:
        pd = need("pandas")
        rows = pd.DataFrame(data, columns=feature_names, copy=False)
        frame = rows
        if target is not None:
            target = pd.Series(target, name=target_name)
            frame = pd.concat([rows, target], axis=1)
        if len(groupings) == 1:
            sensitive = pd.Series(sensitive, name=next(iter(groupings)))
        elif groupings:
            sensitive = pd.DataFrame(dict(groupings))
    if return_X_y:
        return rows, target
    return Bunch(
        data=rows,
        target=target,
        target_names=[target_name],
        sensitive_features=sensitive,
        sensitive_names=list(groupings),
        feature_names=feature_names,
        frame=frame,
        filename=str(filename),
        DESCR=descr,
        **(extras or {}),
    )


def _shared(labels: AnyArray) -> AnyArray:
    """Return text labels as objects, as pandas and scikit-learn do, one object for each label.

    Fixed-width text takes four bytes for every letter of the longest label, in every row.
    """
    if labels.dtype.kind != "U":
        return labels
    coded = factorize(labels)
    return np.array(coded.labels, dtype=object)[coded.codes]


def standardise(columns: FloatArray) -> FloatArray:
    """Subtract the mean and divide by the standard deviation (ddof=1) of all rows."""
    return np.asarray((columns - columns.mean(axis=0)) / columns.std(axis=0, ddof=1))


def digest(*arrays: AnyArray) -> str:
    """SHA-256 of the values of arrays, whatever file they came from."""
    found = hashlib.sha256()
    for array in arrays:
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        found.update(np.ascontiguousarray(little).tobytes())
    return found.hexdigest()


def check_digest(expected: str, path: Path, *arrays: AnyArray) -> None:
    """Warn when a table has the right shape but not the published values."""
    if digest(*arrays) != expected:
        warnings.warn(
            f"{path} has the expected shape but some values differ from the table behind the "
            "published numbers; they may not be reproduced exactly.",
            UserWarning,
            stacklevel=3,
        )


def expect(condition: bool, path: Path, message: str) -> None:
    """Raise ValueError about the structure of a file unless `condition` holds."""
    if not condition:
        raise ValueError(f"{path}: {message}")
