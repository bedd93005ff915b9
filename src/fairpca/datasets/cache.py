"""Where data files live, and how they get there: found, downloaded, verified, put in place.

A download arrives in a temporary directory. It goes to the data directory, which may be shared
with other people, under its final name and in one step, only after it is complete and verified: by
its SHA-256 where one is known, otherwise by its structure. A connection that breaks is continued
where it broke, within one call.
"""

from __future__ import annotations

import errno
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from fairpca._check import require
from fairpca.moments.storage import atomic_write, damage_named

# Environment variable that names the directory of data files. Users and CONTRIBUTING.md know it.
ENVIRONMENT = "FAIRPCA_DATA"

# How often one address is tried, and the seconds before the second attempt; every further pause is
# twice as long. That is about four seconds, long enough for a router to recover.
_ATTEMPTS, _PAUSE = 4, 0.5
# Seconds without a byte after which a connection counts as broken, and bytes per piece of a
# download: a broken connection loses at most one piece.
_TIMEOUT, _PIECE = 30.0, 1 << 16
# A full disk, a limit on the size of files, an exhausted quota: another address would fail, too.
_DISK_FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}


class DataUnavailableError(FileNotFoundError):
    """A data file is neither here nor downloadable.

    The message lists the accepted file names, every address that was tried with the reason why it
    failed, and the directory into which the file can be put by hand.

    Examples
    --------
    >>> from fairpca import datasets
    >>> try:
    ...     datasets.fetch_adult(data_home="no/such/directory", download_if_missing=False)
    ... except datasets.DataUnavailableError as error:
    ...     print(str(error).splitlines()[1])
    Nothing was downloaded (download_if_missing=False).
    """


@dataclass(frozen=True)
class Remote:
    """One public address of a data file, and how what arrives from there is verified.

    `name` is the name the file gets in the data directory; it may contain a subdirectory. `sha256`
    is the checksum of the file. Where no trustworthy one is known, `check` gets the path of the
    complete file and raises ValueError unless its structure is right.
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

    `caller` is the name of the loader. `accepted` are file names that will do and `remotes` the
    addresses to try, both in order of preference. Raises DataUnavailableError, which names all of
    them, and OSError if the disk is full.
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
    tried = ["Downloading did not work:", *failures]
    lines = [
        f"{caller} found none of {', '.join(accepted)} in {home}.",
        *(tried if failures else ["Nothing was downloaded (download_if_missing=False)."]),
        f"To place it by hand, download one of the following, put it into {home} under the name "
        f"given (or set {ENVIRONMENT} to the directory that holds it):",
        *(f"  {remote.name}  from  {remote.url}" for remote in remotes),
    ]
    raise DataUnavailableError("\n".join(lines))


def download(remote: Remote, home: Path) -> Path:
    """Download one file into `home`, which is made for a verified file only, and return its path.

    Raises OSError if the server does not answer, the connection stays broken, or the disk is full,
    and ValueError if what arrived is not the file that was expected.
    """
    target = home / remote.name
    with tempfile.TemporaryDirectory(prefix="fairpca-") as folder:
        part = Path(folder) / target.name
        try:
            with open(part, "wb") as file:
                _receive(remote, file)
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


def _receive(remote: Remote, file: IO[bytes]) -> None:
    """Write the remote file into an open one, continuing after a broken connection.

    What has arrived is kept for the next attempt if a checksum will confirm it, or if the server
    can tell whether the file is still the same. Otherwise two versions could be joined unnoticed.
    """
    need("pooch")
    # pooch brings requests. It is used directly because pooch cannot continue a broken download.
    import requests
    from requests import exceptions as http

    version = ""
    for attempt in range(_ATTEMPTS):
        have = file.tell() if version or remote.sha256 else 0
        # Compressed transfers have no byte positions to continue from.
        headers = {"Accept-Encoding": "identity"}
        if have:
            headers |= {"Range": f"bytes={have}-"} | ({"If-Range": version} if version else {})
        try:
            answer = requests.get(remote.url, stream=True, headers=headers, timeout=_TIMEOUT)
            with answer:
                answer.raise_for_status()
                # A strong tag says which version of the file this is, else its date does.
                tag = answer.headers.get("ETag", "W/")
                version = answer.headers.get("Last-Modified", "") if tag[:2] == "W/" else tag
                resumed = answer.headers.get("Content-Range", "").startswith(f"bytes {have}-")
                file.seek(have if resumed else 0)
                file.truncate()
                length = answer.headers.get("Content-Length")
                total = None if length is None else file.tell() + int(length)
                for piece in _shown(answer.iter_content(_PIECE), remote.name, length):
                    file.write(piece)
                file.flush()
                if total is not None and file.tell() != total:
                    raise http.ConnectionError(f"{file.tell()} of {total} bytes arrived")
            return
        except (http.ConnectionError, http.ChunkedEncodingError, http.Timeout):
            if attempt + 1 == _ATTEMPTS:
                raise
            time.sleep(_PAUSE * 2**attempt)


def _verify(remote: Remote, path: Path) -> None:
    """Raise ValueError unless a complete file has the known checksum or the right structure."""
    if remote.sha256 is not None:
        found = need("pooch").file_hash(str(path), alg="sha256")
        if found != remote.sha256:
            raise ValueError(f"its SHA-256 hash is {found} instead of {remote.sha256}")
    elif remote.check is not None:
        with damage_named("what arrived is not the expected file"):
            remote.check(path)


def _shown(pieces: Iterator[bytes], name: str, length: str | None) -> Iterable[bytes]:
    """Return pieces that move a progress bar on a terminal as they come, if rich is installed."""
    try:
        from rich.console import Console
        from rich.progress import track
    except ImportError:
        return pieces
    total = None if length is None else int(length) / _PIECE
    on, hidden = Console(stderr=True), not sys.stderr.isatty()
    return track(pieces, name, total, console=on, disable=hidden)
