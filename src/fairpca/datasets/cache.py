"""Where data files live, and how they get there: found, downloaded, verified, put in place.

A download arrives in a temporary directory. It goes to the data directory, under its final name
and in one step, only after it is complete and verified: by its SHA-256 where one is known,
otherwise by its structure. A download that fails changes nothing in the data directory, which may
be shared with other people. A connection that breaks is continued where it broke, within one call.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from fairpca._checks import require
from fairpca.moments.storage import atomic_write

# Environment variable that names the directory of data files. Users and CONTRIBUTING.md know it.
ENVIRONMENT = "FAIRPCA_DATA"

# How often one address is tried before the next one. Four attempts with the pauses below last
# about four seconds: long enough for a router to recover, short enough to wait for.
_ATTEMPTS = 4
# Seconds before the second attempt; every further pause is twice as long.
_PAUSE = 0.5
# Seconds without a byte after which a connection counts as broken.
_TIMEOUT = 30.0
# Bytes per piece of a download. A broken connection loses at most one piece.
_PIECE = 1 << 16
# What a full disk, a limit on the size of files, and an exhausted quota are called. These errors
# end the search: another address would fail the same way.
_DISK_FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}
_log = logging.getLogger(__name__)


class DataUnavailableError(FileNotFoundError):
    """A data file is neither here nor downloadable.

    The message lists the accepted file names, every address that was tried with the reason why it
    failed, and the directory into which the file can be put by hand.

    Examples
    --------
    >>> from fairpca.datasets import DataUnavailableError, fetch_adult
    >>> try:
    ...     fetch_adult(data_home="no/such/directory", download_if_missing=False)
    ... except DataUnavailableError as error:
    ...     print(str(error).splitlines()[1])
    Nothing was downloaded (download_if_missing=False).
    """


@dataclass(frozen=True)
class Remote:
    """One public address of a data file.

    Attributes
    ----------
    name : str
        The name the file gets in the data directory. It may contain a subdirectory.
    url : str
        Where the file is downloaded from.
    sha256 : str, optional
        Checksum of the file. None where no trustworthy one is known; `check` then decides.
    check : callable, optional
        Used where `sha256` is None. It gets the path of the complete file and raises ValueError
        unless the structure of the file is right.
    """

    name: str
    url: str
    sha256: str | None = None
    check: Callable[[Path], object] | None = None


def need(module: str) -> Any:
    """Import an optional module, or say which extra brings it."""
    return require(module, extra="data", purpose="fairpca.datasets")


def resolve_home(data_home: str | Path | None = None) -> Path:
    """Return the data directory: the argument, else FAIRPCA_DATA, else the user's cache."""
    chosen = data_home or os.environ.get(ENVIRONMENT)
    if chosen:
        return Path(chosen).expanduser()
    return Path(need("pooch").os_cache("fairpca"))


def obtain(
    caller: str,
    accepted: Sequence[str],
    remotes: Sequence[Remote],
    data_home: str | Path | None = None,
    download_if_missing: bool = True,
) -> Path:
    """Return the path of the first accepted file, downloading it if none is there.

    Parameters
    ----------
    caller : str
        Name of the loader, for messages.
    accepted : sequence of str
        File names that will do, in order of preference.
    remotes : sequence of Remote
        Public addresses, tried in order.
    data_home : path, optional
        As in `resolve_home`.
    download_if_missing : bool, default=True
        Whether to try `remotes` when no accepted file is there.

    Returns
    -------
    Path

    Raises
    ------
    DataUnavailableError
        Names the file, its addresses, what went wrong with each, and where to put it by hand.
    OSError
        If the disk is full.
    """
    home = resolve_home(data_home)
    for name in accepted:
        if (home / name).exists():
            return home / name
    # Every address is tried before an error: the second may work where the first does not.
    failures: list[str] = []
    for remote in remotes if download_if_missing else ():
        try:
            return download(remote, home)
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno in _DISK_FULL:
                raise
            failures.append(f"  {remote.url}\n    {type(error).__name__}: {error}")
    lines = [f"{caller} found none of {', '.join(accepted)} in {home}."]
    if failures:
        lines += ["Downloading did not work:", *failures]
    else:
        lines.append("Nothing was downloaded (download_if_missing=False).")
    lines.append(
        f"To place it by hand, download one of the following, put it into {home} under the name "
        f"given (or set {ENVIRONMENT} to the directory that holds it):"
    )
    lines += [f"  {remote.name}  from  {remote.url}" for remote in remotes]
    raise DataUnavailableError("\n".join(lines))


def download(remote: Remote, home: Path) -> Path:
    """Download one file into `home` and return its path.

    Parameters
    ----------
    remote : Remote
        What to download, and how to verify it.
    home : Path
        The data directory. It is made where it does not exist, but not before there is a verified
        file to put into it.

    Raises
    ------
    OSError
        If the server does not answer, the connection stays broken, or the disk is full.
    ValueError
        If what arrived is not the file that was expected.
    """
    target = home / remote.name
    with tempfile.TemporaryDirectory(prefix="fairpca-") as folder:
        part = Path(folder) / target.name
        try:
            with open(part, "wb") as file:
                _receive(remote, file, (Path(folder), home))
            _verify(remote, part)
            target.parent.mkdir(parents=True, exist_ok=True)
            with open(part, "rb") as complete, atomic_write(target) as file:
                shutil.copyfileobj(complete, file)
        except OSError as error:
            if error.errno not in _DISK_FULL:
                raise
            raise OSError(
                error.errno,
                f"no room for {remote.name} in {home} or, while it arrives, in {folder}; the "
                f"incomplete download was removed. Free some space, or set {ENVIRONMENT} or "
                "TMPDIR to a directory on another disk",
            ) from error
    return target


def _receive(remote: Remote, file: IO[bytes], folders: Sequence[Path]) -> None:
    """Write the remote file into an open one, continuing after a broken connection.

    The bytes that have arrived are kept for the next attempt if a checksum will confirm them, or
    if the server can tell whether the file is still the same. Otherwise two versions of the file
    could be joined unnoticed, and the next attempt starts again.
    """
    need("pooch")
    # pooch brings requests. It is used directly because pooch cannot continue a broken download.
    import requests

    broken = (
        ConnectionError,
        requests.exceptions.ConnectionError,
        requests.exceptions.ChunkedEncodingError,
        requests.exceptions.Timeout,
    )
    version = ""
    for attempt in range(_ATTEMPTS):
        have = file.tell() if version or remote.sha256 else 0
        # Compressed transfers have no byte positions to continue from.
        headers = {"Accept-Encoding": "identity"}
        if have:
            headers["Range"] = f"bytes={have}-"
        if have and version:
            headers["If-Range"] = version
        try:
            with requests.get(
                remote.url, stream=True, headers=headers, timeout=_TIMEOUT
            ) as answer:
                answer.raise_for_status()
                version = _version(answer.headers)
                resumed = answer.headers.get("Content-Range", "").startswith(f"bytes {have}-")
                file.seek(have if resumed else 0)
                file.truncate()
                _append(remote, file, answer, folders)
            return
        except broken as error:
            if attempt + 1 == _ATTEMPTS:
                raise
            _log.info("%s broke off (%s); continuing", remote.url, error)
            time.sleep(_PAUSE * 2**attempt)


def _append(remote: Remote, file: IO[bytes], answer: Any, folders: Sequence[Path]) -> None:
    """Write what a server sends at the end of a file; ConnectionError if it is incomplete."""
    length = answer.headers.get("Content-Length")
    total = None if length is None else file.tell() + int(length)
    for folder in folders if total is not None else ():
        _check_room(folder, int(length))
    with _progress(remote.name, file.tell(), total) as advance:
        for piece in answer.iter_content(_PIECE):
            file.write(piece)
            advance(len(piece))
    file.flush()
    if total is not None and file.tell() != total:
        raise ConnectionError(f"{file.tell()} of {total} bytes arrived")


def _version(headers: Any) -> str:
    """Return what identifies this version of a file: a strong ETag, else its date."""
    tag = str(headers.get("ETag", ""))
    return tag if tag and not tag.startswith("W/") else str(headers.get("Last-Modified", ""))


def _verify(remote: Remote, path: Path) -> None:
    """Raise ValueError unless a complete file has the known checksum or the right structure."""
    if remote.sha256 is not None:
        found = need("pooch").file_hash(str(path), alg="sha256")
        if found != remote.sha256:
            raise ValueError(f"its SHA-256 hash is {found} instead of {remote.sha256}")
    elif remote.check is not None:
        try:
            remote.check(path)
        # Any error of a reader, also one of zipfile or pandas, says that this is another file.
        except Exception as error:
            raise ValueError(f"what arrived is not the expected file: {error}") from error


def _check_room(folder: Path, wanted: int) -> None:
    """Raise the error of a full disk unless `wanted` bytes fit into a folder, existing or not."""
    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if shutil.disk_usage(existing).free < wanted:
        raise OSError(errno.ENOSPC, f"{wanted} bytes do not fit into {folder}")


@contextlib.contextmanager
def _progress(name: str, done: int, total: int | None) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on a terminal, if rich is installed; yields what advances it."""
    try:
        from rich import progress
        from rich.console import Console
    except ImportError:
        yield lambda count: None
        return
    columns = (*progress.Progress.get_default_columns(), progress.DownloadColumn())
    with progress.Progress(
        *columns, console=Console(stderr=True), disable=not sys.stderr.isatty()
    ) as bar:
        task = bar.add_task(name, total=total, completed=done)
        yield lambda count: bar.advance(task, count)
