"""The one way from a published file to what a loader returns.

To add a table, write a loader that finds the file (`obtain`), reads it within `reading`, and
returns `Table.bunch`. Its docstring describes the table honestly; users see it as `DESCR`.
"""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias, TypedDict, Unpack

import numpy as np
from sklearn.utils import Bunch

from fairpca._arrays import AnyArray
from fairpca._check import check_choice, require
from fairpca.moments.storage import damage_named

# Environment variable that names the folder of data files.
ENVIRONMENT = "FAIRPCA_DATA"
#: Names of the attributes that make the groups.
Names: TypeAlias = str | Sequence[str] | None


class Options(TypedDict, total=False):
    """What all loaders take: see `fairpca.datasets`."""

    data_home: str | Path | None
    download_if_missing: bool
    as_frame: bool


class DataUnavailableError(FileNotFoundError):
    """A data file is neither here nor downloadable; the message says where to put it by hand."""


def need(module: str) -> Any:
    """Import an optional module, or say which extra brings it."""
    return require(module, extra="data", purpose="fairpca.datasets")


def resolve_home(data_home: str | Path | None = None) -> Path:
    """Return the folder of files: the argument, else FAIRPCA_DATA, else the user's cache."""
    chosen = data_home or os.environ.get(ENVIRONMENT)
    return Path(chosen).expanduser() if chosen else Path(need("pooch").os_cache("fairpca"))


def obtain(
    names: str | Sequence[str],
    url: str,
    sha256: str | None,
    data_home: str | Path | None = None,
    download_if_missing: bool = True,
    as_frame: bool = False,
) -> Path:
    """Return the path of the first of some files that is there; download the last if none is."""
    names, home = [names] if isinstance(names, str) else names, resolve_home(data_home)
    for name in names:
        if (home / name).exists():
            return home / name
    why = "nothing was downloaded (download_if_missing=False)"
    if download_if_missing:
        place = home / names[-1]
        try:
            return Path(need("pooch").retrieve(url, sha256, place.name, place.parent))
        except (OSError, ValueError) as error:
            why = f"downloading did not work ({str(error).splitlines()[0]})"
    raise DataUnavailableError(
        f"{home} has no {' and no '.join(names)}, and {why}. Put the file from {url} there as "
        f"{names[-1]}, or set {ENVIRONMENT} to the folder that has it."
    )


def reading(path: Path) -> contextlib.AbstractContextManager[None]:
    """Turn whatever a damaged or other file leads to into a ValueError that names the file."""
    return damage_named(
        f"{path} is not the published table", "put that in its place, or remove it"
    )


def check_shape(array: Any, shape: tuple[int, ...]) -> None:
    """Raise ValueError unless an array has the shape of the published table."""
    if array.shape != shape:
        raise ValueError(f"its shape is {array.shape} instead of {shape}")


def description(function: Callable[..., Any]) -> str:
    """Return a docstring up to its parameters; nothing where Python strips docstrings (-OO)."""
    return (inspect.getdoc(function) or "").partition("\n\nParameters\n")[0]


@dataclass(frozen=True)
class Table:
    """A table as read, before anyone has chosen which attribute makes the groups.

    `data` are the features, without the target; `groupings` are attributes that can make groups,
    as readable labels. A column that only repeats such an attribute is called like it, up to upper
    case and up to a level after "=": `SEX` and `sex=Male` repeat "sex". `extras` are further
    entries of the Bunch.
    """

    data: AnyArray
    feature_names: Sequence[str]
    groupings: Mapping[str, AnyArray]
    target: AnyArray | None = None
    target_name: str = ""
    extras: Mapping[str, Any] = field(default_factory=dict)

    def as_in_paper(self, in_a: AnyArray, data: AnyArray, names: Sequence[str]) -> Table:
        """Return the columns and groups of the Fair PCA paper, standardised (ddof=1)."""
        data = (data - data.mean(axis=0)) / data.std(axis=0, ddof=1)
        groupings = {"group": np.where(in_a, "A", "B")}
        return replace(self, data=data, feature_names=names, groupings=groupings)

    def bunch(
        self, loader: Callable[..., Any], path: Path, sensitive: Names, **options: Unpack[Options]
    ) -> Bunch:
        """Return what a loader returns, without the columns that repeat the chosen groups."""
        if "group" in self.groupings:
            # The paper's matrix has its own groups.
            sensitive = "group"
        as_frame = options.get("as_frame", False)
        chosen = [sensitive] if isinstance(sensitive, str) else list(sensitive or ())
        for name in chosen:
            check_choice("sensitive", name, tuple(self.groupings))
        # A group column among the features would make the groups easy to tell apart.
        keep = np.array([n.lower().partition("=")[0] not in chosen for n in self.feature_names])
        # `data[:, keep]` would be in Fortran order, which slows down everything that follows.
        data: Any = self.data if keep.all() else np.compress(keep, self.data, axis=1)
        names = [name for name, kept in zip(self.feature_names, keep, strict=True) if kept]
        labels: Any = {name: self.groupings[name].astype(object) for name in chosen}
        target, frame = self.target, None
        if as_frame:
            pd = need("pandas")
            data = frame = pd.DataFrame(data, columns=names, copy=False)
            labels = pd.DataFrame(labels)
            if target is not None:
                target = pd.Series(target, name=self.target_name)
                frame = pd.concat([data, target], axis=1)
        # One attribute is a vector, as scikit-learn and fairlearn expect; several are columns.
        if len(chosen) == 1:
            labels = labels[chosen[0]]
        elif not as_frame and chosen:
            labels = np.column_stack(list(labels.values()))
        return Bunch(
            data=data,
            target=target,
            target_names=[self.target_name],
            sensitive_features=labels if chosen else None,
            sensitive_names=chosen,
            feature_names=names,
            frame=frame,
            filename=str(path),
            DESCR=description(loader),
            **self.extras,
        )
