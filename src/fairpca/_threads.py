"""Tasks on every core, and BLAS held to one thread where its own would get in the way.

NumPy and SciPy each bring a BLAS with threads of its own. They spin for milliseconds after every
call and take the cores from each other: a solve of 512 columns by partial decompositions took
twice as long with them. So small problems run with BLAS on one thread, and where there is work
for several cores, tasks of ours share them.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from threadpoolctl import LibController, ThreadpoolController

_Result = TypeVar("_Result")

# OpenBLAS itself multiplies on one thread up to this many columns (2 n^3 <= 2^18); asking it to
# do so would only cost the call. If wrong, small fits take some microseconds more.
_TINY = 50
# Up to this many columns one thread is faster whatever the rank (measured on two cores, 51 to 300
# columns: the median fit took 14.3 ms with threads and 6.4 without). If wrong, fits of about this
# size take up to twice as long.
_SMALL = 300
# With few components, or where SciPy decomposes, one thread wins up to this many columns (measured
# on two cores: ten fits of 500 columns and 5 components took a fifth longer with threads).
ONE_THREAD_TO = 1200
# "Few components" in the line above.
FEW_COLUMNS = 32


class _OneThread:
    """Holds every BLAS of the process to one thread while anybody is inside a context of it.

    The limit belongs to the process, so it is lifted when the last one leaves: were each to
    restore what it found, one that entered second and left last would leave the limit behind.
    Every step may be interrupted between any two lines, by Ctrl-C or by a signal handler that
    fits by itself, and the next call of `leave` still restores the limits.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.inside: set[int] = set()
        self.limits: list[int] | None = None

    def enter(self, visitor: int) -> None:
        """Count a visitor in, and set the limit if it is the first."""
        with self.lock:
            self.inside.add(visitor)
            # Read before it is asked whether anybody has: a signal handler may fit in between.
            now = [library.num_threads for library in _libraries()]
            if self.limits is None:
                self.limits = now
            _set_threads([1] * len(now))

    def leave(self, visitor: int) -> None:
        """Count a visitor out, and lift the limit if it was the last; calling twice is allowed."""
        with self.lock:
            self.inside.discard(visitor)
            if not self.inside and self.limits is not None:
                _set_threads(self.limits)
                self.limits = None

    def after_fork(self) -> None:
        """Free a child process of visitors that are threads of its parent."""
        self.lock = threading.RLock()
        self.inside.clear()
        self.leave(0)


_one_thread = _OneThread()


class _Visit:
    """One stay in the context; forgotten without being left, it leaves when it is deleted.

    An interrupt inside `__enter__` means that nobody calls `__exit__`.
    """

    def __enter__(self) -> None:
        _one_thread.enter(id(self))

    def __exit__(self, *error: object) -> None:
        _one_thread.leave(id(self))

    def __del__(self) -> None:
        if id(self) in _one_thread.inside:
            _one_thread.leave(id(self))


def one_blas_thread() -> AbstractContextManager[None]:
    """Return a context in which BLAS uses no threads of its own."""
    return _Visit()


def blas_for(n: int, r: int, place: object = None) -> AbstractContextManager[None]:
    """Return the context in which to solve a problem of n columns and r components.

    `place` is where large matrices live, if that is another device: what is left here is small.
    """
    small = n <= _SMALL or (n <= ONE_THREAD_TO and r <= FEW_COLUMNS) or place is not None
    return _Visit() if small and n > _TINY else contextlib.nullcontext()


def available_cores() -> int:
    """Cores this process may run on."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else (os.cpu_count() or 1)


def available_threads() -> int:
    """Threads this process may use: its cores, or as many as BLAS was allowed if that is less.

    So OMP_NUM_THREADS and its like, and limits set with threadpoolctl, bind our threads too.
    """
    limits = _one_thread.limits
    if limits is None:
        limits = [library.num_threads for library in _libraries()]
    return min(available_cores(), max(limits, default=available_cores()))


def _new_pool() -> ThreadPoolExecutor:
    """Return helper threads that start when they are needed and are kept from then on."""
    return ThreadPoolExecutor(max(available_cores() - 1, 1), thread_name_prefix="fairpca")


_pool = _new_pool()


def in_threads(tasks: Sequence[Callable[[], _Result]], n_threads: int) -> list[_Result]:
    """Run tasks on up to `n_threads` cores and return their results in order.

    The calling thread takes tasks too, so that everything is done even where no other thread can
    be started. After a failure no further task is begun.
    """
    helpers = min(n_threads, len(tasks)) - 1
    if helpers <= 0:
        return [task() for task in tasks]
    results: dict[int, _Result] = {}
    waiting = iter(enumerate(tasks))

    def work() -> None:
        try:
            # Advancing an iterator is one step of the interpreter: no task is taken twice.
            for position, task in waiting:
                results[position] = task()
        finally:
            for _ in waiting:
                pass

    with one_blas_thread():
        futures = list(_submitted(work, helpers))
        try:
            work()
        finally:
            # A helper that has not begun has nothing left to do.
            begun = [future for future in futures if not future.cancel()]
            for future in begun:
                future.result()
    return [results[position] for position in range(len(tasks))]


def one_ahead(items: Iterable[_Result]) -> Iterator[_Result]:
    """Yield items, each while a thread of its own makes the next one."""
    waiting = iter(items)
    with ThreadPoolExecutor(1, thread_name_prefix="fairpca-ahead") as pool:
        coming = pool.submit(next, waiting, _END)
        while (item := coming.result()) is not _END:
            coming = pool.submit(next, waiting, _END)
            yield item


# Stands for the end of an iteration; an exception would not pass a thread.
_END: Any = object()


def _submitted(work: Callable[[], None], helpers: int) -> Iterator[Future[None]]:
    """Hand the work to helper threads, as far as any can be had."""
    # No thread can be started while the interpreter shuts down.
    with contextlib.suppress(RuntimeError):
        for _ in range(helpers):
            yield _pool.submit(work)


@functools.cache
def _libraries() -> list[LibController]:
    """Return every BLAS of the process; looking for them takes longer than a small fit."""
    found: list[LibController] = ThreadpoolController().select(user_api="blas").lib_controllers
    return found


def _set_threads(limits: list[int]) -> None:
    """Set the threads of every BLAS, from whichever thread this is called.

    threadpoolctl's own context also asks every library for its version and its path, and since 3.7
    it heeds only the first Python thread that set a limit. Ours count visitors of all threads, so
    the last to leave must be able to lift the limit.
    """
    for library, limit in zip(_libraries(), limits, strict=True):
        getattr(library, "_real_set_num_threads", library.set_num_threads)(limit)


def _after_fork() -> None:
    """Start anew in a child process: the threads of its parent did not come along."""
    global _pool
    _pool = _new_pool()
    _one_thread.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
