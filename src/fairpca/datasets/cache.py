"""Where data files live, and how they get there: found, downloaded, resumed, verified.

A file is used only under its final name, and it gets that name only after it is complete and
verified: by its SHA-256 where one is known, otherwise by its structure. What has arrived so far
of an interrupted download waits under a hidden name and is continued by the next attempt.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fairpca._checks import require

#: Environment variable that names the directory of data files.
ENVIRONMENT = "FAIRPCA_DATA"

_CHUNK = 1 << 16
_DISK_FULL = {errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)}
_log = logging.getLogger(__name__)


class DataUnavailableError(FileNotFoundError):
    """A data file is neither here nor downloadable; the message says how to place it by hand."""


@dataclass(frozen=True)
class Remote:
    """One public address of a data file.

    Attributes
    ----------
    name : str
        The name the file gets in the data directory.
    url : str
    sha256 : str, optional
        None where no trustworthy checksum is known; `check` then decides.
    check : callable, optional
        Gets the path of the complete file and raises ValueError unless its structure is right.
    """

    name: str
    url: str
    sha256: str | None = None
    check: Callable[[Path], None] | None = None


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
    *,
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
    download_if_missing : bool, default=True

    Raises
    ------
    DataUnavailableError
        Names the file, its addresses, what went wrong with each, and where to put it by hand.
    """
    home = resolve_home(data_home)
    for name in accepted:
        if (home / name).exists():
            return home / name
    failures: list[str] = []
    for remote in remotes if download_if_missing else ():
        try:
            return download(remote, home)
        except (OSError, ValueError) as error:
            if isinstance(error, OSError) and error.errno in _DISK_FULL:
                raise
            failures.append(f"  {remote.url}\n    {type(error).__name__}: {error}")
    raise DataUnavailableError(_explain(caller, accepted, remotes, home, failures))


def _explain(
    caller: str,
    accepted: Sequence[str],
    remotes: Sequence[Remote],
    home: Path,
    failures: list[str],
) -> str:
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
    return "\n".join(lines)


def download(remote: Remote, home: Path) -> Path:
    """Download one file into `home` and return its path; resumes what an earlier call began."""
    pooch = need("pooch")
    home.mkdir(parents=True, exist_ok=True)
    target = home / remote.name
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(f".{target.name}.part")
    with _exclusive(part), _quiet(pooch.get_logger()):
        if target.exists():  # another process was faster
            return target
        _log.info("downloading %s", remote.url)
        try:
            pooch.retrieve(
                remote.url,
                known_hash=f"sha256:{remote.sha256}" if remote.sha256 else None,
                fname=target.name,
                path=target.parent,
                downloader=_Resuming(part, remote),
            )
        except OSError as error:
            if error.errno not in _DISK_FULL:
                raise
            _discard(part)
            raise OSError(
                error.errno,
                f"no room for {remote.name} in {home}; the incomplete download was removed. Free "
                f"some space, or set {ENVIRONMENT} to a directory on another disk",
            ) from error
    return target


class _Resuming:
    """A downloader for pooch that continues where a broken connection left off."""

    attempts = 4
    timeout = 30.0
    pause = 0.5

    def __init__(self, part: Path, remote: Remote) -> None:
        self.part = part
        self.remote = remote

    def __call__(self, url: str, output_file: str, pooch: Any, check_only: bool = False) -> None:
        import requests

        broken = (
            requests.exceptions.ConnectionError,
            requests.exceptions.ChunkedEncodingError,
            requests.exceptions.Timeout,
        )
        for attempt in range(self.attempts):
            try:
                self._receive(requests, url)
                break
            except broken as error:
                if attempt + 1 == self.attempts:
                    raise
                _log.info("%s broke off (%s); continuing", url, error)
                time.sleep(self.pause * 2**attempt)
        if self.remote.sha256 is None and self.remote.check is not None:
            try:
                self.remote.check(self.part)
            except Exception as error:
                _discard(self.part)
                raise ValueError(f"what arrived is not the expected file: {error}") from error
        # pooch compares the checksum of its temporary file and only then gives it its name.
        os.replace(self.part, output_file)
        _discard(self.part)

    def _receive(self, requests: Any, url: str) -> None:
        have = self._resumable()
        # Compressed transfers have no byte positions to resume from.
        headers = {"Accept-Encoding": "identity"}
        if have:
            headers["Range"] = f"bytes={have}-"
            validator = _stamp(self.part).read_text() if _stamp(self.part).exists() else ""
            if validator:
                headers["If-Range"] = validator
        with requests.get(url, stream=True, headers=headers, timeout=self.timeout) as answer:
            if answer.status_code == 416:
                _discard(self.part)
                raise requests.exceptions.ConnectionError("the server refused to continue")
            answer.raise_for_status()
            resumed = answer.status_code == 206 and answer.headers.get(
                "Content-Range", ""
            ).startswith(f"bytes {have}-")
            have = have if resumed else 0
            length = answer.headers.get("Content-Length")
            total = have + int(length) if length is not None else None
            if total is not None:
                _check_room(self.part.parent, total - have)
            _stamp(self.part).write_text(_validator(answer.headers))
            with (
                open(self.part, "ab" if resumed else "wb") as file,
                _progress(self.remote.name, have, total) as advance,
            ):
                for chunk in answer.iter_content(_CHUNK):
                    file.write(chunk)
                    advance(len(chunk))
                file.flush()
                os.fsync(file.fileno())
        size = self.part.stat().st_size
        if total is not None and size != total:
            raise requests.exceptions.ConnectionError(f"{size} of {total} bytes arrived")

    def _resumable(self) -> int:
        """Bytes of an earlier attempt that may be kept.

        Without a checksum they are kept only if the server can confirm that the file is still the
        same one; otherwise two versions could be glued together unnoticed.
        """
        if not self.part.exists():
            return 0
        confirmed = _stamp(self.part).exists() and _stamp(self.part).read_text() != ""
        return self.part.stat().st_size if confirmed or self.remote.sha256 else 0


def _stamp(part: Path) -> Path:
    return part.with_suffix(".stamp")


def _discard(part: Path) -> None:
    for path in (part, _stamp(part)):
        path.unlink(missing_ok=True)


def _validator(headers: Any) -> str:
    """Return what identifies this version of the file: a strong ETag, else its date."""
    tag = str(headers.get("ETag", ""))
    return tag if tag and not tag.startswith("W/") else str(headers.get("Last-Modified", ""))


def _check_room(folder: Path, wanted: int) -> None:
    if shutil.disk_usage(folder).free < wanted:
        raise OSError(errno.ENOSPC, f"{wanted} bytes do not fit into {folder}")


@contextlib.contextmanager
def _exclusive(part: Path) -> Iterator[None]:
    """Let one process at a time download into a directory (where the platform has locks)."""
    try:
        import fcntl
    except ImportError:  # Windows: the checksum and the length still catch a mixed file
        yield
        return
    # The directory itself is locked: a lock file could not be removed without a race.
    handle = os.open(part.parent, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


@contextlib.contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    # pooch would advise the reader of an unpinned file to pin it in code that is not theirs.
    level = logger.level
    logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextlib.contextmanager
def _progress(name: str, done: int, total: int | None) -> Iterator[Callable[[int], None]]:
    """A progress bar on a terminal, if rich is installed; silence otherwise."""
    try:
        from rich import progress
        from rich.console import Console
    except ImportError:
        yield lambda count: None
        return
    if not sys.stderr.isatty():
        yield lambda count: None
        return
    columns = (
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.DownloadColumn(),
        progress.TransferSpeedColumn(),
        progress.TimeRemainingColumn(),
    )
    with progress.Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(name, total=total, completed=done)
        yield lambda count: bar.advance(task, count)
