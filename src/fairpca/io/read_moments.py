"""`read_moments`: any number of files -> GroupMoments, in bounded memory, resumable.

Workers read pieces and square them. The caller's thread merges the results in the order of the
pieces, so neither the number of workers nor their timing changes a digit of the result. What is
counted is always the first so many pieces, and that is what a checkpoint keeps. Going on needs the
same options and the same versions of the files already begun; later files may have been repaired
or added since.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from fairpca._check import check_at_least, check_choice
from fairpca._arrays import available_cores
from fairpca.io.sources import Batch, Piece, Source, open_source, takes_in
from fairpca.moments.group_moments import GroupMoments, split_folds
from fairpca.moments.memory import check_moments_size
from fairpca.moments.scatter import clear_dust
from fairpca.moments.storage import ARRAYS, atomic_write, damage_named, read_archive, unpack

# Pieces read ahead beyond those being worked on, so that no worker waits for the merge. Each one
# more is one more set of moments in memory.
_AHEAD = 2
# Seconds between two checkpoints: an interruption costs a minute of work at most, and writing the
# moments of 1,000 features (8 MB a group) takes far less than that.
_CHECKPOINT_SECONDS = 60.0
# Version of the checkpoint file. A file of another version is refused, never guessed at.
_FORMAT = 1


@dataclass(frozen=True)
class Progress:
    """State of a reading after one more piece was counted.

    Attributes
    ----------
    rows : int
        Counted so far, those of an earlier run included.
    share : float
        Part of the data that is counted.
    rows_per_second : float
        Of this run.
    seconds_left : float or None
        None as long as nothing is known about it.

    Examples
    --------
    >>> from fairpca.io import Progress
    >>> Progress(rows=2_000, share=0.25, rows_per_second=500.0, seconds_left=12.0).text()
    '2,000 rows (25%), 500 rows/s, 12 s left'
    """

    rows: int
    share: float
    rows_per_second: float
    seconds_left: float | None

    def text(self) -> str:
        """Say it in one short line."""
        text = f"{self.rows:,} rows ({self.share:.0%}), {self.rows_per_second:,.0f} rows/s"
        if self.seconds_left is None:
            return text
        minutes, seconds = divmod(round(self.seconds_left), 60)
        left = f"{minutes} min {seconds:02d} s" if minutes else f"{seconds} s"
        if minutes >= 60:
            left = f"{minutes // 60} h {minutes % 60:02d} min"
        return f"{text}, {left} left"


def read_moments(
    source: Any,
    *,
    sensitive_features: Any,
    features: Sequence[Any] | None = None,
    drop: Sequence[Any] | None = None,
    sample_weight: Any = None,
    group_by: str = "intersection",
    unlabelled: str = "error",
    n_folds: int | None = None,
    batch_rows: int | None = None,
    n_jobs: int | None = None,
    backend: str = "thread",
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = _CHECKPOINT_SECONDS,
    keep_checkpoint: bool = False,
    memory_limit: int | None = None,
    progress: Callable[[Progress], None] | None = None,
    layout: Any = None,
) -> Any:
    """Count the rows of files that need not fit into memory.

    Parameters
    ----------
    source : path, pattern, directory, or a sequence of them
        Parquet, Arrow/Feather, CSV/TSV or .npy files, all of one kind.
    sensitive_features : str or sequence of str
        Label columns, or cuts of numbers such as ``"age>=65"``. Beside one .npy file also an
        array or a .npy file of labels; there, columns are called column1, column2, ... and whole
        numbers count them from 0.
    features : sequence of str, optional
        Feature columns; patterns such as ``BILL_*`` work. By default all but labels and weights.
    drop : sequence of str, optional
        Columns to leave out; patterns work.
    sample_weight : str, optional
        Column of weights.
    group_by, unlabelled : str
        As in `GroupMoments.from_array`.
    n_folds : int, optional
        Count the rows of every fold apart, in the same pass. The fold of a row depends on its
        number over all files in their order, as `fairpca.moments.groups.row_folds` says, and on
        nothing else.
    batch_rows : int, optional
        Most rows of a piece in memory at a time; by default as many as 64 MB of float64 hold.
    n_jobs : int, optional
        Pieces read at the same time; by default one per core.
    backend : {"thread", "process"}, default="thread"
        Decoding and squaring release the interpreter, so threads are rarely slower. A script that
        asks for processes calls this under ``if __name__ == "__main__":``, as they import it.
    checkpoint : path, optional
        File that keeps what was counted. A run that was interrupted goes on from it and counts
        no row twice; it is removed at the end.
    checkpoint_seconds : float, default=60
        Time between two writes of it.
    keep_checkpoint : bool, default=False
        Leave it at the end, complete, for a caller who has more to do that may fail: with it the
        same call counts nothing again.
    memory_limit : int, optional
        Most bytes of moments; by default a quarter of the machine's memory.
    progress : callable, optional
        Receives a `Progress` after every piece.
    layout : fairpca.io.delimited.Layout, optional
        Of delimited text; what is None is guessed.

    Returns
    -------
    moments : GroupMoments, or list of GroupMoments
        The same, to rounding, as `GroupMoments.from_array` of all rows at once, and the same to
        the last digit for any `n_jobs`, `backend` and number of interruptions. With `n_folds` a
        list of as many, for `fairpca.cross_fit`; a fold lacks the groups it has no row of.

    Raises
    ------
    ValueError
        Naming the file and the column, before any row is read where that is possible.
    MemoryError
        Where the moments would take more than `memory_limit`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from fairpca import FairPCA
    >>> from fairpca.io import read_moments
    >>> rows = chr(10).join(["age,income,sex", "30,2.5,f", "40,3.5,m", "50,3.0,f", "60,4.5,m"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = Path(folder, "people.csv").write_text(rows)
    ...     moments = read_moments(f"{folder}/people.csv", sensitive_features="sex")
    >>> moments.labels, moments.count.tolist()
    (('f', 'm'), [2, 2])
    >>> FairPCA(1).fit_moments(moments).n_features_in_
    2
    """
    check_choice("backend", backend, ("thread", "process"))
    jobs = available_cores() if n_jobs is None else n_jobs
    check_at_least("n_jobs", jobs, 1)
    # An array of labels beside a .npy file has no truth value, so only others are asked.
    if isinstance(sensitive_features, str | list | tuple | None) and not sensitive_features:
        raise ValueError("sensitive_features names no column; pass at least one.")
    columns = {"sensitive_features": sensitive_features, "sample_weight": sample_weight}
    columns |= {"features": features, "drop": drop}
    rules = {"group_by": group_by, "unlabelled": unlabelled, "n_folds": n_folds}
    place = None if checkpoint is None else Path(checkpoint)
    for entry in source if isinstance(source, list | tuple) else [source]:
        if place is not None and isinstance(entry, str | Path) and takes_in(entry, place):
            # Read again, the folder would hold the checkpoint as a table.
            raise ValueError(
                f"checkpoint={place} lies in {entry}, which is read; name a file elsewhere."
            )
    opened = open_source(source, batch_rows=batch_rows, layout=layout, **columns, **rules)
    # All that workers have counted and the caller has not merged yet is in memory at once.
    limits: dict[str, Any] = {"limit": memory_limit, "copies": jobs + _AHEAD}
    check_moments_size(opened.n_features, n_folds or 1, **limits)
    before = counted = Counted() if place is None else Counted.read(place, opened)
    saved = started = time.monotonic()
    try:
        with _workers(jobs, backend) as pool:
            for piece, moments in _in_order(opened, counted.pieces, limits, pool, jobs):
                total = merged(counted.moments, moments, **limits)
                counted = Counted(counted.pieces + 1, piece.file, total, piece.share)
                now = time.monotonic()
                if place is not None and now - saved >= checkpoint_seconds:
                    counted.write(place, opened)
                    saved = now
                if progress is not None:
                    progress(counted.progress(before, now - started))
    except BaseException:
        # An interruption as well as a damaged file: what is counted need not be counted again.
        if place is not None and counted.pieces > before.pieces:
            counted.write(place, opened)
        raise
    if counted.moments is None:
        raise ValueError(f"{opened.files[0].path}: the table has no rows; pass one with rows.")
    if place is not None and keep_checkpoint:
        counted.write(place, opened)
    elif place is not None:
        place.unlink(missing_ok=True)
    # A column that is constant in a group has no variance at all, not even rounding.
    scatter = counted.moments.scatter.copy()
    clear_dust(counted.moments.weight, counted.moments.mean, scatter)
    return split_folds(replace(counted.moments, scatter=scatter), n_folds)


@dataclass(frozen=True)
class Counted:
    """What has been counted of a source: the first `pieces` pieces, a `share` of all data.

    `file` is the position of the last file begun, -1 before the first; `moments` is None before
    the first row.
    """

    pieces: int = 0
    file: int = -1
    moments: GroupMoments | None = None
    share: float = 0.0

    def progress(self, before: Counted, seconds: float) -> Progress:
        """Return the state of a run that started `seconds` ago, with what was counted before."""
        rows, earlier = (
            0 if state.moments is None else int(state.moments.count.sum())
            for state in (self, before)
        )
        rate = (rows - earlier) / seconds if seconds > 0 else 0.0
        done = self.share - before.share
        return Progress(
            rows, self.share, rate, seconds * (1 - self.share) / done if done else None
        )

    def write(self, path: Path, source: Source) -> None:
        """Write a checkpoint, whole or not at all."""
        if self.moments is None:
            return
        state = {
            "format": _FORMAT,
            "options": source.identity(),
            "files": [[f.path, f.size, f.mtime_ns] for f in source.files[: self.file + 1]],
            "pieces": self.pieces,
            "share": self.share,
        }
        with atomic_write(path) as file:
            np.savez(file, state=np.array(json.dumps(state)), **self.moments.packed())

    @classmethod
    def read(cls, path: Path, source: Source) -> Counted:
        """Return what an earlier run has counted; ValueError if it is not of this source."""
        # Refused now, not after an hour when it is to be written.
        if path.is_dir():
            raise ValueError(f"checkpoint={path} is a directory; name a file.")
        if not path.parent.is_dir():
            raise ValueError(f"checkpoint={path}: there is no directory {path.parent}.")
        if not os.access(path.parent, os.W_OK):
            raise ValueError(
                f"checkpoint={path}: the directory {path.parent} cannot be written to."
            )
        if not path.exists():
            return cls()
        what = f"checkpoint={path} is not a checkpoint of this version"
        remedy = "name another file, or delete it if an earlier version has written it."
        with damage_named(what, remedy), path.open("rb") as file:
            parts = read_archive(file, ("state", "header", *ARRAYS))
            state = json.loads(str(parts["state"]))
            if state["format"] != _FORMAT:
                raise ValueError(f"format {state['format']} is not known")
            # Every field gets the type it must have: the file may come from anybody.
            options, share = dict(state["options"]), float(state["share"])
            begun = [[str(p), int(size), int(changed)] for p, size, changed in state["files"]]
            counted = cls(
                int(state["pieces"]), len(begun) - 1, GroupMoments(**unpack(parts)), share
            )
        _check_same(path, source, options, begun)
        return counted


def _check_same(path: Path, source: Source, options: dict[str, Any], begun: list[Any]) -> None:
    """Raise ValueError unless a checkpoint was written with these options, of these files."""
    remedy = f"Start over by deleting {path}, or name another checkpoint."
    differing = [key for key, now in source.identity().items() if options.get(key) != now]
    if differing:
        raise ValueError(
            f"checkpoint={path} was written with other {', '.join(differing)} than asked for now, "
            f"and cannot be continued. {remedy}"
        )
    files: list[Any] = [[f.path, f.size, f.mtime_ns] for f in source.files]
    for position, before in enumerate(begun):
        now = files[position] if position < len(files) else [None]
        if now != before:
            moved = f"which is not file number {position + 1} of this source"
            why = "and the file has changed since" if now[0] == before[0] else moved
            raise ValueError(f"checkpoint={path} has counted {before[0]}, {why}. {remedy}")


def _in_order(
    source: Source, skip: int, limits: dict[str, Any], pool: Executor, jobs: int
) -> Iterator[tuple[Piece, GroupMoments | None]]:
    """Count pieces in parallel and return them in order, at most a few of them ahead."""
    waiting: deque[tuple[Piece, Future[GroupMoments | None]]] = deque()
    try:
        # What an earlier run has counted is passed over; text is parsed to get there.
        for piece in islice(source.pieces(), skip, None):
            # Only the worker needs the rows of a piece; the queue would keep them in memory.
            queued = pool.submit(_count_piece, source, piece, limits)
            waiting.append((replace(piece, content=None), queued))
            if len(waiting) >= jobs + _AHEAD:
                first, future = waiting.popleft()
                yield first, future.result()
        while waiting:
            first, future = waiting.popleft()
            yield first, future.result()
    finally:
        for _, future in waiting:
            future.cancel()


def _count_piece(source: Source, piece: Piece, limits: dict[str, Any]) -> GroupMoments | None:
    file = source.files[piece.file]
    file.check_unchanged()
    found = count_batches(source.batches(piece), **limits)
    # Somebody may have written to it in the meantime.
    file.check_unchanged()
    return found


def count_batches(
    batches: Iterable[Batch], limit: int | None, copies: int = 1
) -> GroupMoments | None:
    """Return the moments of some batches, counted in their order; None if there is none.

    `limit` and `copies` are those of `check_moments_size`, which is asked before the moments of a
    batch, and those of all so far, are allocated.
    """
    found: GroupMoments | None = None
    for batch in batches:
        k = len(batch.groups.labels) + (0 if found is None else len(found.labels))
        check_moments_size(len(batch.names), k, limit, copies=copies)
        found = merged(found, batch.count(), limit, copies)
    return found


def merged(
    one: GroupMoments | None, other: GroupMoments | None, limit: int | None, copies: int = 1
) -> GroupMoments | None:
    """Return the moments of both, None where neither has rows; MemoryError past the limit."""
    if one is None or other is None:
        return other if one is None else one
    k = len({*one.labels, *other.labels})
    check_moments_size(one.n_features, max(k, 1), limit, copies=copies)
    return one.merge(other)


@contextlib.contextmanager
def _workers(jobs: int, backend: str) -> Iterator[Executor]:
    """Yield threads or processes that each compute with one BLAS thread."""
    pool: Executor = ThreadPoolExecutor(jobs)
    if backend == "process":
        # A forked child would inherit locks that threads of this process may hold.
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_start_process)
    # One BLAS thread a worker: more of them would only wait for each other, and the order in
    # which BLAS adds depends on their number.
    with threadpool_limits(1, user_api="blas"):
        try:
            yield pool
        finally:
            pool.shutdown(cancel_futures=True)


def _start_process() -> None:
    # An interrupt is the parent's to handle; it cancels what has not begun.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threadpool_limits(1, user_api="blas")
