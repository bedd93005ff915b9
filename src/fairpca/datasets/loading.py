"""The one way from a published file to what a loader returns.

To add a table, write a function that reads and checks the file, a `Source` with it, and a loader
that calls `Source.load`. The docstring of the loader describes the table honestly; users see it as
`DESCR`.
"""

from __future__ import annotations

import hashlib
import inspect
import io
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import IO, Any

import numpy as np
from sklearn.utils import Bunch

from fairpca._check import check_choice, warn
from fairpca._arrays import AnyArray, FloatArray
from fairpca.datasets.cache import Remote, need, obtain
from fairpca.moments.storage import damage_named

# Where the UCI repository publishes files.
UCI = "https://archive.ics.uci.edu/static/public/"


@dataclass(frozen=True)
class Table:
    """A table as read, before anyone has chosen which attribute makes the groups.

    `data` are the features, without the target; `groupings` are attributes that can make groups,
    as readable labels. A column that only repeats such an attribute is called like it, up to upper
    case and up to a level after "=": `SEX` and `sex=Male` repeat "sex". These columns stay
    features only with `keep_groups`. `extras` are further entries of the Bunch.
    """

    data: FloatArray
    feature_names: Sequence[str]
    groupings: Mapping[str, AnyArray]
    target: AnyArray | None = None
    target_name: str = ""
    extras: Mapping[str, Any] = field(default_factory=dict)
    keep_groups: bool = False

    def as_in_paper(
        self, in_a: AnyArray, meaning: tuple[str, str], data: FloatArray, names: Sequence[str]
    ) -> Table:
        """Return the columns that the Fair PCA paper uses, with its groups "A" (`in_a`) and "B".

        `meaning` is what A and B stand for; the Bunch shows it as `group_meaning`.
        """
        groupings = {"group": np.where(in_a, "A", "B")}
        extras = {**self.extras, "group_meaning": dict(zip("AB", meaning, strict=True))}
        return Table(data, names, groupings, self.target, self.target_name, extras)

    def standardised(self) -> Table:
        """Subtract the mean and divide by the standard deviation (ddof=1) of all rows."""
        centred = self.data - self.data.mean(axis=0)
        return replace(self, data=centred / self.data.std(axis=0, ddof=1))

    def bunch(
        self, sensitive: str | Sequence[str] | None, as_frame: bool, **entries: Any
    ) -> Bunch:
        """Return the table without the columns that repeat its groups, made by `sensitive`."""
        sensitive = () if sensitive is None else sensitive
        chosen = [sensitive] if isinstance(sensitive, str) else list(sensitive)
        for name in chosen:
            check_choice("sensitive", name, tuple(self.groupings))
        # A group column among the features would make the groups easy to tell apart.
        repeats = [name.lower().partition("=")[0] in chosen for name in self.feature_names]
        keep = np.logical_not(repeats) | self.keep_groups
        # `data[:, keep]` would be in Fortran order, which slows down everything that follows.
        data: Any = self.data if keep.all() else np.compress(keep, self.data, axis=1)
        names = [name for name, kept in zip(self.feature_names, keep, strict=True) if kept]
        # As pandas and scikit-learn have texts.
        labels: Any = {name: self.groupings[name].astype(object) for name in chosen}
        target, frame = self.target, None
        if as_frame:
            pd = need("pandas")
            # The faces have 187 MB: a copy would double them.
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
            **self.extras,
            **entries,
        )


@dataclass(frozen=True)
class Source:
    """Where one published table comes from, and how it is read.

    `accepted` are the names the file may have in the data directory and `remotes` the addresses it
    can be downloaded from, both in order of preference. `read` gets the path of the file and
    raises ValueError if it is not what it should be. `paper` gets the `Table` and returns it as
    the Fair PCA paper uses it.
    """

    accepted: tuple[str, ...]
    remotes: tuple[Remote, ...]
    read: Callable[[Path], Table]
    paper: Callable[[Table], Table] | None = None

    def load(
        self,
        loader: Callable[..., Any],
        sensitive: str | Sequence[str] | None,
        variant: str,
        data_home: str | Path | None,
        download_if_missing: bool,
        return_X_y: bool,
        as_frame: bool,
    ) -> Any:
        """Find or download the file, read it, and return what `loader` returns."""
        check_choice("variant", variant, ("default", "paper") if self.paper else ("default",))
        path = obtain(loader.__name__, self.accepted, self.remotes, data_home, download_if_missing)
        try:
            table = self.read(path)
            expect(np.isfinite(table.data).all(), path, "it has missing values")
        except (OSError, ImportError, MemoryError):
            raise
        except Exception as error:
            # What a reader expects of the table it says itself, with the path in front.
            if str(error).startswith(str(path)):
                raise
            damage = f"{path} is not the table that {loader.__name__} reads"
            with damage_named(damage, "put the published file in its place, or remove it"):
                raise
        if self.paper is not None and variant == "paper":
            # The paper's matrix has its own groups.
            table, sensitive = self.paper(table), "group"
        found = table.bunch(sensitive, as_frame, filename=str(path), DESCR=description(loader))
        return (found.data, found.target) if return_X_y else found


def description(function: Callable[..., Any]) -> str:
    """Return a docstring up to its parameters; nothing where Python strips docstrings (-OO)."""
    return (inspect.getdoc(function) or "").partition("\n\nParameters\n")[0]


def open_member(path: Path, *names: str) -> IO[bytes]:
    """Open a plain file, or the member of a zip archive that has one of the names.

    It may lie in any directory, also of an archive inside the archive, as UCI packs some tables.
    """
    if path.suffix != ".zip":
        return open(path, "rb")
    with zipfile.ZipFile(path) as archive:
        packed = (name for name in archive.namelist() if name.endswith(".zip"))
        nested = (zipfile.ZipFile(io.BytesIO(archive.read(name))) for name in packed)
        for inside in chain([archive], nested):
            for member in inside.namelist():
                if Path(member).name in names:
                    return io.BytesIO(inside.read(member))
    raise ValueError(f"{path}: the archive has no {' and no '.join(names)}")


def expect(condition: object, path: Path, message: str) -> None:
    """Raise ValueError about the structure of a file unless `condition` holds."""
    if not condition:
        raise ValueError(f"{path}: {message}")


def check_digest(expected: str, path: Path, *arrays: AnyArray) -> None:
    """Warn when a table has the right shape but not the published values."""
    if digest(*arrays) != expected:
        warn(
            f"{path} has the expected shape but some values differ from the table behind the "
            "published numbers; they may not be reproduced exactly."
        )


def digest(*arrays: AnyArray) -> str:
    """Return the SHA-256 of the values of arrays, little-endian and row by row."""
    found = hashlib.sha256()
    for array in arrays:
        # The same numbers have the same bytes on every machine only in a fixed byte order.
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        found.update(np.ascontiguousarray(little).tobytes())
    return found.hexdigest()
