"""The one way from a published file to what a loader returns.

Every loader has a `Source`: the names its file may have, the addresses it can be downloaded from,
and a function that reads the file into a `Table`. `Source.load` finds or downloads the file, reads
it, leaves out the columns that only repeat the groups, and returns a scikit-learn `Bunch`.

To add a table, write a module with a docstring that describes the table honestly (users see it as
`DESCR`), a function that reads and checks the file, a `Source`, and a loader that calls `load`.
"""

from __future__ import annotations

import hashlib
import io
import warnings
import zipfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import IO, Any

import numpy as np
from sklearn.utils import Bunch

from fairpca._checks import check_choice
from fairpca._linalg import AnyArray, FloatArray
from fairpca.datasets.cache import Remote, need, obtain
from fairpca.moments.label_codes import factorize


@dataclass(frozen=True)
class Table:
    """A table as read, before anyone has chosen which attribute makes the groups.

    Attributes
    ----------
    data : ndarray of shape (m, n)
        The features, without the target.
    feature_names : sequence of str
        Their names. A column that only repeats an attribute of `groupings` is called like it, up
        to upper case and up to a level after "=": `SEX` and `sex=Male` repeat "sex".
    groupings : dict of str to ndarray of shape (m,)
        Attributes that can make groups, as readable labels.
    target : ndarray of shape (m,), optional
        What the table's authors wanted to predict.
    target_name : str, default=""
        Its name.
    extras : dict, optional
        Further entries of the Bunch.
    keep_groups : bool, default=False
        Whether columns that repeat the groups stay features.
    """

    data: FloatArray
    feature_names: Sequence[str]
    groupings: Mapping[str, AnyArray]
    target: AnyArray | None = None
    target_name: str = ""
    extras: Mapping[str, Any] = field(default_factory=dict)
    keep_groups: bool = False

    def as_in_paper(
        self,
        in_a: AnyArray,
        meaning: tuple[str, str],
        data: FloatArray,
        feature_names: Sequence[str],
    ) -> Table:
        """Return the matrix of the Fair PCA paper with its groups.

        Parameters
        ----------
        in_a : ndarray of bool of shape (m,)
            The rows of group "A"; the others are "B".
        meaning : pair of str
            What A and B stand for; the Bunch shows it as `group_meaning`.
        data, feature_names
            The columns the paper uses.
        """
        return replace(
            self,
            data=data,
            feature_names=feature_names,
            groupings={"group": np.where(in_a, "A", "B")},
            extras={**self.extras, "group_meaning": dict(zip("AB", meaning, strict=True))},
        )

    def bunch(
        self, sensitive: str | Sequence[str] | None, as_frame: bool, **entries: Any
    ) -> Bunch:
        """Return the table without the columns that repeat its groups.

        Parameters
        ----------
        sensitive : str, sequence of str, or None
            The attributes of `groupings` that make the groups.
        as_frame : bool
            Whether rows, target and groups are pandas objects.
        **entries
            Further entries of the Bunch.
        """
        sensitive = () if sensitive is None else sensitive
        chosen = [sensitive] if isinstance(sensitive, str) else list(sensitive)
        for name in chosen:
            check_choice("sensitive", name, tuple(self.groupings))
        # A group column among the features would make the groups easy to tell apart, and its
        # variance would count among the losses.
        repeats = [name.lower().partition("=")[0] in chosen for name in self.feature_names]
        keep = np.logical_not(repeats) | self.keep_groups
        # `data[:, keep]` would be in Fortran order, which slows down everything that follows.
        data: Any = self.data if keep.all() else np.compress(keep, self.data, axis=1)
        names = [name for name, kept in zip(self.feature_names, keep, strict=True) if kept]
        labels: Any = {name: _as_objects(self.groupings[name]) for name in chosen}
        target, frame = self.target, None
        if as_frame:
            pd = need("pandas")
            # The faces have 187 MB: a copy would double them.
            data = frame = pd.DataFrame(data, columns=names, copy=False)
            labels = pd.DataFrame(labels)
            if target is not None:
                target = pd.Series(target, name=self.target_name)
                frame = pd.concat([data, target], axis=1)
        groups: Any = None
        # One attribute is a vector, as scikit-learn and fairlearn expect; several are columns.
        if len(chosen) == 1:
            groups = labels[chosen[0]]
        elif chosen:
            groups = labels if as_frame else np.column_stack(list(labels.values()))
        return Bunch(
            data=data,
            target=target,
            target_names=[self.target_name],
            sensitive_features=groups,
            sensitive_names=chosen,
            feature_names=names,
            frame=frame,
            **self.extras,
            **entries,
        )


@dataclass(frozen=True)
class Source:
    """Where one published table comes from, and how it is read.

    Attributes
    ----------
    caller : str
        The name of the loader, for messages.
    descr : str or None
        The description of the table. Loaders pass the docstring of their module, which is None
        where Python runs without docstrings.
    accepted : tuple of str
        Names the file may have in the data directory, in order of preference.
    remotes : tuple of Remote
        Where it can be downloaded from, in order of preference.
    read : callable
        Gets the path of the file and returns a `Table`; raises ValueError if the file is not what
        it should be.
    paper : callable, optional
        Gets the `Table` and returns it as the Fair PCA paper uses it.
    """

    caller: str
    descr: str | None
    accepted: tuple[str, ...]
    remotes: tuple[Remote, ...]
    read: Callable[[Path], Table]
    paper: Callable[[Table], Table] | None = None

    def load(
        self,
        sensitive: str | Sequence[str] | None,
        variant: str,
        data_home: str | Path | None,
        download_if_missing: bool,
        return_X_y: bool,
        as_frame: bool,
    ) -> Any:
        """Find or download the file, read it, and return what the loader returns.

        The parameters are those of every loader, in the same order.

        Parameters
        ----------
        sensitive : str, sequence of str, or None
            The attributes that make the groups; None for no groups.
        variant : {"default", "paper"}
            The table without its group columns, or the matrix of the Fair PCA paper, which has its
            own groups and ignores `sensitive`.
        data_home, download_if_missing
            As in `fairpca.datasets.cache.obtain`.
        return_X_y, as_frame : bool
            What comes back: a Bunch or ``(data, target)``, arrays or pandas objects.
        """
        check_choice("variant", variant, ("default", "paper") if self.paper else ("default",))
        path = obtain(self.caller, self.accepted, self.remotes, data_home, download_if_missing)
        table = self.read(path)
        if self.paper is not None and variant == "paper":
            table, sensitive = self.paper(table), "group"
        found = table.bunch(sensitive, as_frame, filename=str(path), DESCR=self.descr or "")
        return (found.data, found.target) if return_X_y else found


def _as_objects(labels: AnyArray) -> AnyArray:
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


def one_hot(frame: Any, names: Sequence[str]) -> tuple[FloatArray, list[str]]:
    """Return a frame as numbers, and the names of the columns.

    Each column in `names` becomes one 0/1 column per level, called ``column=level``, in sorted
    order; these come last. Of the two levels of "sex" one column says everything.
    """
    coded = need("pandas").get_dummies(frame, columns=list(names), prefix_sep="=")
    # Both columns together would count the sex twice.
    coded = coded.drop(columns="sex=Female", errors="ignore")
    return coded.to_numpy(dtype=float), list(coded.columns)


def open_member(path: Path, *names: str) -> IO[bytes]:
    """Open a plain file, or the member of a zip archive that has one of the names.

    The member may lie in any directory of the archive, also in an archive inside it, as the UCI
    repository packs some tables.
    """
    if path.suffix != ".zip":
        return open(path, "rb")
    with zipfile.ZipFile(path) as archive:
        found = _find_member(archive, names)
    if found is None:
        raise ValueError(f"{path}: the archive has no {' and no '.join(names)}")
    return io.BytesIO(found)


def _find_member(archive: zipfile.ZipFile, names: Sequence[str]) -> bytes | None:
    """Return the content of the first member with one of the names, or None."""
    for member in archive.namelist():
        if Path(member).name in names:
            return archive.read(member)
    for member in archive.namelist():
        if member.endswith(".zip"):
            with zipfile.ZipFile(io.BytesIO(archive.read(member))) as inner:
                found = _find_member(inner, names)
            if found is not None:
                return found
    return None


def expect(condition: object, path: Path, message: str) -> None:
    """Raise ValueError about the structure of a file unless `condition` holds."""
    if not condition:
        raise ValueError(f"{path}: {message}")


def check_digest(expected: str, path: Path, *arrays: AnyArray) -> None:
    """Warn when a table has the right shape but not the published values.

    Compares the SHA-256 of the values, which is the same for every file that holds them.
    """
    if digest(*arrays) != expected:
        warnings.warn(
            f"{path} has the expected shape but some values differ from the table behind the "
            "published numbers; they may not be reproduced exactly.",
            UserWarning,
            # The line that called the loader: loader, `Source.load` and `read` lie between.
            stacklevel=5,
        )


def digest(*arrays: AnyArray) -> str:
    """Return the SHA-256 of the values of arrays, little-endian and row by row."""
    found = hashlib.sha256()
    for array in arrays:
        # The same numbers have the same bytes on every machine only in a fixed byte order.
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        found.update(np.ascontiguousarray(little).tobytes())
    return found.hexdigest()
