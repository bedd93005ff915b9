"""Which files a source names, and what tells one version of a file from another."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairpca.io.tables import file_kind


@dataclass(frozen=True)
class DataFile:
    """A file as it was when the reading was planned.

    Attributes
    ----------
    path : str
        Absolute.
    size : int
        Bytes.
    mtime_ns : int
        Time of the last change.
    """

    path: str
    size: int
    mtime_ns: int

    @classmethod
    def at(cls, path: Path) -> DataFile:
        """Look at a file; FileNotFoundError or ValueError where there is none."""
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


def find_files(source: Any) -> tuple[list[DataFile], str]:
    """Return the files of a source, in order, and their kind.

    Parameters
    ----------
    source : path, pattern, directory, or a sequence of them
        A pattern such as ``data/*.parquet`` and a directory give files in the order of their
        names; in a directory, names that start with "." or "_" are left out.

    Returns
    -------
    files : list of DataFile
    kind : {"parquet", "arrow", "delimited", "numpy"}
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
    path = Path(entry)
    if path.is_dir():
        inside = sorted(p for p in path.iterdir() if p.is_file() and p.name[0] not in "._")
        if not inside:
            raise ValueError(f"{path} holds no files; pass a directory of tables.")
        return inside
    if not path.exists() and any(sign in str(entry) for sign in "*?["):
        found = sorted(glob.glob(str(entry), recursive=True))
        if not found:
            raise FileNotFoundError(f"no file matches {str(entry)!r}; check the pattern.")
        return [Path(name) for name in found]
    return [path]


def _refuse_repeats(paths: Sequence[str]) -> None:
    seen: set[str] = set()
    for path in paths:
        real = os.path.realpath(path)
        if real in seen:
            raise ValueError(
                f"{path} is given twice, and its rows would count twice; name every file once."
            )
        seen.add(real)
