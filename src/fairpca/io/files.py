"""Which files a source names, of what kind they are, and whether they changed since.

Tables in memory, files read in pieces and clusters find their files here, so that a folder means
the same files to all of them.
"""

from __future__ import annotations

import glob
import os
from collections import Counter
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

# An ending in none of these is refused, because guessing the format of a file from its bytes goes
# wrong silently. A file without any ending is taken for text, as the UCI archive names its tables.
# Of every kind of file how its names end, and the module whose `open_files` reads it: a name, not
# an import, because such a module imports this one.
FORMATS = {
    "delimited": ((".csv", ".tsv", ".txt", ".dat", ".data", ""), "fairpca.io.delimited"),
    "parquet": ((".parquet", ".pq"), "fairpca.io.columnar"),
    "arrow": ((".feather", ".arrow", ".ipc"), "fairpca.io.columnar"),
    "numpy": ((".npy", ".npz"), "fairpca.io.npy"),
}
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
        """Return what is known about a file; an error if it is missing, no file, or empty."""
        if not path.exists():
            raise FileNotFoundError(f"{path} does not exist; check the name and the folder.")
        if not path.is_file():
            raise ValueError(f"{path} is not an ordinary file; pass files or one directory.")
        found = path.stat()
        if found.st_size == 0:
            raise ValueError(f"{path} is empty (0 bytes); leave it out or write it again.")
        return cls(os.path.abspath(path), found.st_size, found.st_mtime_ns)

    def check_unchanged(self) -> None:
        """Raise ValueError if the file was replaced since the reading was planned."""
        # Half of the rows of one version and half of another would be moments of no table.
        if DataFile.at(Path(self.path)) != self:
            raise ValueError(f"{self.path} changed while the tables were read; start again.")


def file_kind(path: Path) -> str:
    """Return which format a file has, a key of `FORMATS`, by the ending of its name.

    A ``.gz`` at the end is looked through. ValueError if the ending is not known.

    Examples
    --------
    >>> from pathlib import Path
    >>> from fairpca.io.files import file_kind
    >>> file_kind(Path("people.csv.gz")), file_kind(Path("people.pq"))
    ('delimited', 'parquet')
    """
    ending = (path.with_suffix("") if path.suffix.lower() == ".gz" else path).suffix.lower()
    for kind, (endings, _) in FORMATS.items():
        if ending in endings:
            return kind
    known = " ".join(filter(None, chain.from_iterable(endings for endings, _ in FORMATS.values())))
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
    # Two names may lead to one file by a link.
    counts = Counter(os.path.realpath(file.path) for file in files)
    path, count = counts.most_common(1)[0]
    if count > 1:
        raise ValueError(f"{path} is given twice, and its rows would count twice; name it once.")
    return files, next(iter(kinds))


def _expand(entry: Any) -> list[Path]:
    """Return the files that one entry of a source stands for."""
    path = Path(entry)
    if path.is_dir():
        inside = sorted(p for p in path.rglob("*") if p.is_file() and _is_data(p, path))
        if not inside:
            raise ValueError(f"{path} holds no files; pass a directory of tables.")
        return inside
    # A file may have a star in its name; only what is no file is a pattern.
    if path.exists() or not glob.has_magic(str(entry)):
        return [path]
    # The part of a pattern before its first wildcard was written by hand and may be anything.
    first = next(i for i, part in enumerate(path.parts) if glob.has_magic(part))
    above = Path(*path.parts[:first])
    found = [Path(name) for name in sorted(glob.glob(str(entry), recursive=True))]
    kept = [p for p in found if p.is_file() and _is_data(p, above)]
    if not kept:
        raise FileNotFoundError(f"no file matches {str(entry)!r}; check the pattern.")
    return kept


def _is_data(path: Path, above: Path) -> bool:
    """Return whether no name between a folder and a file marks what is not data."""
    return not any(part.startswith(_NOT_DATA) for part in path.relative_to(above).parts)
