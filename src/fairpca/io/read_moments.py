"""`read_moments`: any number of files -> GroupMoments, in bounded memory, resumable.

Workers read pieces and square them. The caller's thread merges the results in the order of the
pieces, so neither the number of workers nor their timing changes a digit of the result.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from threadpoolctl import threadpool_limits

from fairpca._checks import check_choice
from fairpca._threads import available_cores
from fairpca.io.checkpoint import Counted, check_place, read_checkpoint, write_checkpoint
from fairpca.io.delimited import Layout
from fairpca.io.open_source import open_source
from fairpca.io.sources import Batch, Piece, Source
from fairpca.moments.group_moments import GroupMoments
from fairpca.moments.memory import check_moments_size
from fairpca.moments.row_scatter import clear_dust

# Pieces read ahead beyond those being worked on, so that no worker waits for the merge. Each one
# more is one more set of moments in memory.
_AHEAD = 2
# Seconds between two checkpoints: an interruption costs a minute of work at most, and writing the
# moments of 1,000 features (8 MB a group) takes far less than that.
_CHECKPOINT_SECONDS = 60.0


@dataclass(frozen=True)
class Progress:
    """State of a reading after one more piece was counted.

    Attributes
    ----------
    rows : int
        Counted so far, those of an earlier run included.
    share : float or None
        Part of the data that is counted, where the files tell.
    rows_per_second : float
        Of this run.
    seconds_left : float or None
    """

    rows: int
    share: float | None
    rows_per_second: float
    seconds_left: float | None

    @classmethod
    def after(
        cls, rows: int, rows_before: int, share: float | None, share_before: float, seconds: float
    ) -> Progress:
        """Return the state `seconds` after this run started at `rows_before`."""
        rate = (rows - rows_before) / seconds if seconds > 0 else 0.0
        left = None
        if share is not None and share > share_before:
            left = seconds * (1 - share) / (share - share_before)
        return cls(rows, share, rate, left)

    def text(self) -> str:
        """Say it in one short line."""
        parts = [f"{self.rows:,} rows"]
        if self.share is not None:
            parts[0] += f" ({self.share:.0%})"
        parts.append(f"{self.rows_per_second:,.0f} rows/s")
        if self.seconds_left is not None:
            parts.append(f"{_duration(self.seconds_left)} left")
        return ", ".join(parts)


def _duration(seconds: float) -> str:
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def read_moments(
    source: Any,
    *,
    sensitive_features: Any,
    features: Sequence[Any] | None = None,
    drop: Sequence[Any] | None = None,
    sample_weight: Any = None,
    group_by: str = "intersection",
    unlabelled: str = "error",
    batch_rows: int | None = None,
    n_jobs: int | None = None,
    backend: str = "thread",
    checkpoint: str | Path | None = None,
    checkpoint_seconds: float = _CHECKPOINT_SECONDS,
    memory_limit: int | None = None,
    progress: Callable[[Progress], None] | None = None,
    layout: Layout | None = None,
) -> GroupMoments:
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
    batch_rows : int, optional
        Most rows of a piece in memory at a time; by default as many as 64 MB of float64 hold.
    n_jobs : int, optional
        Pieces read at the same time; by default one per core.
    backend : {"thread", "process"}, default="thread"
        Decoding and squaring release the interpreter, so threads are rarely slower.
    checkpoint : path, optional
        File that keeps what was counted. A run that was interrupted goes on from it and counts
        no row twice; it is removed at the end.
    checkpoint_seconds : float, default=60
        Time between two writes of it.
    memory_limit : int, optional
        Most bytes of moments; by default a quarter of the machine's memory.
    progress : callable, optional
        Receives a `Progress` after every piece.
    layout : Layout, optional
        Of delimited text; what is None is guessed.

    Returns
    -------
    moments : GroupMoments
        The same, to rounding, as `GroupMoments.from_array` of all rows at once, and the same to
        the last digit for any `n_jobs`, `backend` and number of interruptions.

    Raises
    ------
    ValueError
        Naming the file and the column, before any row is read where that is possible.
    MemoryError
        Where the moments would take more than `memory_limit`.
    """
    check_choice("backend", backend, ("thread", "process"))
    jobs = available_cores() if n_jobs is None else n_jobs
    if jobs < 1:
        raise ValueError(f"n_jobs={n_jobs!r} must be at least 1.")
    # An array of labels beside a .npy file has no truth value, so only lists are asked.
    if sensitive_features is None or (
        isinstance(sensitive_features, str | list | tuple) and not sensitive_features
    ):
        raise ValueError("sensitive_features names no column; pass at least one.")
    opened = open_source(
        source,
        sensitive_features=sensitive_features,
        features=features,
        drop=drop,
        sample_weight=sample_weight,
        group_by=group_by,
        unlabelled=unlabelled,
        batch_rows=batch_rows,
        layout=layout,
    )
    budget = Budget(opened.n_features, memory_limit, jobs + _AHEAD)
    budget.check(1)
    place = None if checkpoint is None else Path(checkpoint)
    counted = Counted()
    if place is not None:
        check_place(place)
        counted = read_checkpoint(place, opened)
    counted = _run(opened, counted, budget, jobs, backend, place, checkpoint_seconds, progress)
    if counted.moments is None:
        raise ValueError(f"{opened.files[0].path}: the table has no rows; pass one with rows.")
    if place is not None:
        place.unlink(missing_ok=True)
    return _settled(counted.moments)


@dataclass(frozen=True)
class Budget:
    """The memory that moments may take; what is too much is refused before it is allocated.

    Attributes
    ----------
    n_features : int
    limit : int or None
        Bytes; None for a share of the machine's memory.
    copies : int
        Moments held at the same time.
    """

    n_features: int
    limit: int | None
    copies: int

    def check(self, n_groups: int) -> None:
        """Raise MemoryError if this many groups are too many."""
        check_moments_size(self.n_features, n_groups, self.limit, copies=self.copies)


def _run(
    source: Source,
    counted: Counted,
    budget: Budget,
    jobs: int,
    backend: str,
    checkpoint: Path | None,
    checkpoint_seconds: float,
    progress: Callable[[Progress], None] | None,
) -> Counted:
    before, started = counted, time.monotonic()
    saved = started
    try:
        with _workers(jobs, backend) as pool:
            for piece, moments in _in_order(source, counted.pieces, budget, pool, jobs):
                counted = _add(source, counted, piece, moments, budget)
                now = time.monotonic()
                if checkpoint is not None and now - saved >= checkpoint_seconds:
                    write_checkpoint(checkpoint, source, counted)
                    saved = now
                if progress is not None:
                    share = source.share(piece)
                    progress(
                        Progress.after(
                            counted.rows, before.rows, share, before.share, now - started
                        )
                    )
    except BaseException:
        # An interruption as well as a damaged file: what is counted need not be counted again.
        if checkpoint is not None and counted.pieces > before.pieces:
            write_checkpoint(checkpoint, source, counted)
        raise
    return counted


def _add(
    source: Source, counted: Counted, piece: Piece, moments: GroupMoments | None, budget: Budget
) -> Counted:
    share = source.share(piece)
    step = replace(
        counted,
        pieces=counted.pieces + 1,
        file=piece.file,
        share=counted.share if share is None else share,
    )
    if moments is None:
        return step
    if counted.moments is None:
        return replace(step, moments=moments)
    budget.check(len({*counted.moments.labels, *moments.labels}))
    return replace(step, moments=counted.moments.merge(moments))


def _in_order(
    source: Source, skip: int, budget: Budget, pool: Executor, jobs: int
) -> Iterator[tuple[Piece, GroupMoments | None]]:
    """Count pieces in parallel and return them in order, at most a few of them ahead."""
    waiting: deque[tuple[Piece, Future[GroupMoments | None]]] = deque()
    try:
        for piece in source.pieces(skip):
            waiting.append((piece, pool.submit(count_piece, source, piece, budget)))
            if len(waiting) >= jobs + _AHEAD:
                first, future = waiting.popleft()
                yield replace(first, content=None), future.result()
        while waiting:
            first, future = waiting.popleft()
            yield replace(first, content=None), future.result()
    finally:
        for _, future in waiting:
            future.cancel()


def count_piece(source: Source, piece: Piece, budget: Budget) -> GroupMoments | None:
    """Return the moments of one piece; None if it has no rows."""
    source.files[piece.file].check_unchanged()
    return count_batches(source.batches(piece), budget)


def count_batches(batches: Iterable[Batch], budget: Budget) -> GroupMoments | None:
    """Return the moments of some batches; None if there is none.

    Parameters
    ----------
    batches : iterable of Batch
        Counted in this order.
    budget : Budget
        Asked before the moments of a batch, and those of all batches so far, are allocated.
    """
    found: GroupMoments | None = None
    for batch in batches:
        budget.check(len(batch.groups.labels) + (0 if found is None else len(found.labels)))
        moments = batch.count()
        found = moments if found is None else found.merge(moments)
    return found


@contextlib.contextmanager
def _workers(jobs: int, backend: str) -> Iterator[Executor]:
    pool: Executor
    if backend == "process":
        context = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(jobs, mp_context=context, initializer=_start_process)
    else:
        pool = ThreadPoolExecutor(jobs)
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


def _settled(moments: GroupMoments) -> GroupMoments:
    """Return moments in which a column that is constant in a group has no variance at all."""
    scatter = moments.scatter.copy()
    clear_dust(moments.weight, moments.mean, scatter)
    return replace(moments, scatter=scatter)
