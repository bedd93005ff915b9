"""Tasks on every core, and BLAS held to fewer threads where its own would get in the way.

NumPy and SciPy each bring a BLAS with threads of its own. They spin for milliseconds after every
call and take the cores from each other: a solve of 512 columns by partial decompositions took
twice as long with both. So small problems run with BLAS on one thread, large ones with the threads
of SciPy's alone, which decomposes; and where there is work for several cores, tasks of ours share
them.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from threadpoolctl import LibController, ThreadpoolController

_Result = TypeVar("_Result")

# Up to this many columns every BLAS has one thread: the threads of both made a median fit of 51 to
# 300 columns twice as slow. With SciPy's alone any number from 100 to 500 gave the same times on 2
# and on 16 cores; one thread leaves the other cores to other fits.
_SMALL = 300


class _Limits:
    """Holds BLAS to one thread while anybody is inside a context of it.

    The limit belongs to the process, so it is lifted when the last one leaves: were each to
    restore what it found, one that entered second and left last would leave the limit behind.
    Every step may be interrupted between any two lines, by Ctrl-C or by a signal handler that
    fits by itself, and the next call of `leave` still restores the limits.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        # Every visitor, and whether it holds every BLAS or NumPy's only.
        self.inside: dict[int, bool] = {}
        self.limits: list[int] | None = None

    def enter(self, visitor: int, every: bool) -> None:
        """Count a visitor in, and set the limit that it asks for."""
        with self.lock:
            self.inside[visitor] = every
            # Read before it is asked whether anybody has: a signal handler may fit in between.
            now = [library.num_threads for library in _libraries()]
            if self.limits is None:
                self.limits = now
            self._hold(self.limits)

    def leave(self, visitor: int) -> None:
        """Count a visitor out, and lift what nobody else asks for; calling twice is allowed."""
        with self.lock:
            self.inside.pop(visitor, None)
            if self.limits is not None:
                self._hold(self.limits)
                if not self.inside:
                    self.limits = None

    def _hold(self, limits: list[int]) -> None:
        """Set every BLAS to one thread or to its own limit, as those inside ask."""
        every = any(self.inside.values())
        held = [every or (numpys and bool(self.inside)) for numpys in _numpys()]
        _set_threads([1 if one else limit for one, limit in zip(held, limits, strict=True)])

    def after_fork(self) -> None:
        """Free a child process of visitors that are threads of its parent."""
        self.lock = threading.RLock()
        self.inside.clear()
        self.leave(0)


_limits = _Limits()


class _Visit:
    """One stay in the context; forgotten without being left, it leaves when it is deleted.

    An interrupt inside `__enter__` means that nobody calls `__exit__`.
    """

    def __init__(self, every: bool = True) -> None:
        self.every = every

    def __enter__(self) -> None:
        _limits.enter(id(self), self.every)

    def __exit__(self, *error: object) -> None:
        _limits.leave(id(self))

    def __del__(self) -> None:
        if id(self) in _limits.inside:
            _limits.leave(id(self))


def one_blas_thread() -> AbstractContextManager[None]:
    """Return a context in which BLAS uses no threads of its own."""
    return _Visit()


def blas_for(n: int, place: object = None) -> AbstractContextManager[None]:
    """Return the context in which to solve a problem of n columns.

    `place` is where large matrices live, if that is another device: what is left here is small.
    """
    return _Visit(every=n <= _SMALL or place is not None)


def available_cores() -> int:
    """Cores this process may run on."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else (os.cpu_count() or 1)


def available_threads() -> int:
    """Threads this process may use: its cores, or as many as BLAS was allowed if that is less.

    So OMP_NUM_THREADS and its like, and limits set with threadpoolctl, bind our threads too.
    """
    limits = _limits.limits
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


@functools.cache
def _numpys() -> list[bool]:
    """Return which BLAS is NumPy's own; none where SciPy uses the same one."""
    own = [re.search(r"[/\\]numpy(\.libs)?[/\\]", lib.filepath) for lib in _libraries()]
    return [bool(found) and not all(own) for found in own]


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
    _limits.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
