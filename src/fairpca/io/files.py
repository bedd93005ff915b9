"""Which files a source names, of what kind they are, and whether they changed since.

Tables in memory, files read in pieces and clusters find their files here, so that a folder means
the same files to all of them.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Endings of the files that can be read, by the kind of reader they need. An ending in none of
# these is refused, because guessing the format of a file from its bytes goes wrong silently.
DELIMITED = (".csv", ".tsv", ".txt", ".dat", ".data")
PARQUET = (".parquet", ".pq")
ARROW = (".feather", ".arrow", ".ipc")
NUMPY = (".npy", ".npz")
# A file without any ending is taken for text, as the tables of the UCI archive are named.
_KINDS = {"parquet": PARQUET, "arrow": ARROW, "numpy": NUMPY, "delimited": (*DELIMITED, "")}
# Spark, Hadoop and Dask give these first letters to files and folders that are not data, such as
# _SUCCESS, _temporary/ and .part.crc. Reading them would count rows twice.
_NOT_DATA = (".", "_")


@dataclass(frozen=True)
class DataFile:
    """A file as it was when the reading was planned.

    Attributes
    ----------
    path : str
        Absolute path.
    size : int
        Bytes.
    mtime_ns : int
        Time of the last change, in nanoseconds.
    """

    path: str
    size: int
    mtime_ns: int

    @classmethod
    def at(cls, path: Path) -> DataFile:
        """Return what is known about the file at a path.

        Raises
        ------
        FileNotFoundError
            If there is nothing.
        ValueError
            If it is no ordinary file, or has no bytes.
        """
        if not path.exists():
            raise FileNotFoundError(
                f"{path} does not exist; check the name and the current directory."
            )
        if not path.is_file():
            raise ValueError(f"{path} is not an ordinary file; pass files or one directory.")
        found = path.stat()
        if found.st_size == 0:
            raise ValueError(f"{path} is empty (0 bytes); leave it out or write it again.")
        return cls(os.path.abspath(path), found.st_size, found.st_mtime_ns)

    def check_unchanged(self) -> None:
        """Raise ValueError if the file was replaced since the reading was planned."""
        try:
            now = os.stat(self.path)
        except OSError as error:
            raise ValueError(
                f"{self.path} cannot be read any more: {error.strerror}; put it back and start "
                "again."
            ) from None
        if (now.st_size, now.st_mtime_ns) != (self.size, self.mtime_ns):
            raise ValueError(
                f"{self.path} changed while the tables were read; start again when nothing "
                "writes to it."
            )


def file_kind(path: Path) -> str:
    """Return which reader a file needs, by the ending of its name.

    Parameters
    ----------
    path : Path
        The name; ``.gz`` at the end is looked through.

    Returns
    -------
    {"parquet", "arrow", "numpy", "delimited"}

    Raises
    ------
    ValueError
        If the ending is not known.

    Examples
    --------
    >>> from pathlib import Path
    >>> from fairpca.io.files import file_kind
    >>> file_kind(Path("people.csv.gz")), file_kind(Path("people.pq"))
    ('delimited', 'parquet')
    """
    ending = (path.with_suffix("") if path.suffix.lower() == ".gz" else path).suffix.lower()
    for kind, endings in _KINDS.items():
        if ending in endings:
            return kind
    known = " ".join((*DELIMITED, *PARQUET, *ARROW, *NUMPY))
    raise ValueError(
        f"{path}: the ending {ending!r} is not known; pass a file that ends in one of {known}."
    )


def find_files(source: Any) -> tuple[list[DataFile], str]:
    """Return the files of a source, in order, and their kind.

    Parameters
    ----------
    source : path, pattern, directory, or a sequence of them
        A directory stands for the files in it and in its folders, a pattern such as
        ``data/**/*.parquet`` for the files that match; both in the order of their names. Files
        and folders whose names start with "." or "_" are left out, at every level.

    Returns
    -------
    files : list of DataFile
    kind : {"parquet", "arrow", "delimited", "numpy"}

    Raises
    ------
    FileNotFoundError
        If a file does not exist, or a pattern matches none.
    ValueError
        If there is no file, a file is given twice, or the files are of several kinds.
    """
    entries = [source] if isinstance(source, str | os.PathLike) else list(source)
    paths = [path for entry in entries for path in _expand(entry)]
    if not paths:
        raise ValueError("source names no file; pass at least one.")
    kinds = {file_kind(path): path for path in paths}
    if len(kinds) > 1:
        shown = ", ".join(f"{path.name} ({kind})" for kind, path in kinds.items())
        raise ValueError(f"source mixes kinds of files: {shown}; read one kind at a time.")
    files = [DataFile.at(path) for path in paths]
    _refuse_repeats([file.path for file in files])
    return files, next(iter(kinds))


def _expand(entry: Any) -> list[Path]:
    """Return the files that one entry of a source stands for."""
    path = Path(entry)
    if path.is_dir():
        inside = sorted(p for p in path.rglob("*") if p.is_file() and _is_data(p, path))
        if not inside:
            raise ValueError(f"{path} holds no files; pass a directory of tables.")
        return inside
    if path.exists() or not glob.has_magic(str(entry)):
        return [path]
    # The part of a pattern before its first wildcard was written by hand and may be anything.
    plain = [part for part in path.parts if not glob.has_magic(part)]
    above = Path(*plain[: next(i for i, part in enumerate(path.parts) if glob.has_magic(part))])
    found = [Path(name) for name in sorted(glob.glob(str(entry), recursive=True))]
    kept = [p for p in found if p.is_file() and _is_data(p, above)]
    if not kept:
        raise FileNotFoundError(f"no file matches {str(entry)!r}; check the pattern.")
    return kept


def _is_data(path: Path, above: Path) -> bool:
    """Return whether no name between a folder and a file marks what is not data."""
    return not any(part.startswith(_NOT_DATA) for part in path.relative_to(above).parts)


def _refuse_repeats(paths: Sequence[str]) -> None:
    """Raise ValueError if two paths lead to one file, links followed."""
    seen: set[str] = set()
    for path in paths:
        real = os.path.realpath(path)
        if real in seen:
            raise ValueError(
                f"{path} is given twice, and its rows would count twice; name every file once."
            )
        seen.add(real)
