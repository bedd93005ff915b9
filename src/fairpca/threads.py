"""Tasks on every core, by helper threads that are kept between calls."""

from __future__ import annotations

import functools
import os
import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

from threadpoolctl import LibController, ThreadpoolController

_Result = TypeVar("_Result")

# Up to _TINY columns OpenBLAS multiplies on one thread by itself (2 n^3 up to 2^18). Up to _SMALL
# it had better, and up to ONE_THREAD_TO where few columns are multiplied, or SciPy decomposes
# (measured on two cores).
_TINY, _SMALL, ONE_THREAD_TO = 50, 300, 1200
FEW_COLUMNS = 32


def available_threads() -> int:
    """Threads this process may use: its cores, or fewer if the environment says so."""
    limits = [os.environ.get(name, "") for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")]
    stated = [int(limit) for limit in limits if limit.isdigit() and int(limit) > 0]
    return min([available_cores(), *stated])


def available_cores() -> int:
    """Cores this process may run on."""
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else (os.cpu_count() or 1)


def in_threads(tasks: Sequence[Callable[[], _Result]], n_threads: int) -> list[_Result]:
    """Run the tasks and return their results in order.

    With several threads BLAS gets one each: its own would only wait for each other.
    """
    if min(n_threads, len(tasks)) <= 1:
        return [task() for task in tasks]
    results: list[Any] = [None] * len(tasks)
    waiting = iter(range(len(tasks)))
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for j in waiting:
                results[j] = tasks[j]()
        except BaseException as failure:
            failures.append(failure)
        finally:
            # After a failure or an interrupt nobody starts another task.
            for _ in waiting:
                pass

    with blas_alone:
        offers = [_Offer(work) for _ in range(min(n_threads, len(tasks)) - 1)]
        for offer in offers:
            _offers().put(offer)
        work()
        for offer in offers:
            offer.settle()
    if failures:
        raise failures[0]
    return results


class _Offer:
    """Work that one helper thread may take up."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = [work]
        self._done = threading.Lock()
        self._done.acquire()

    def take_up(self) -> None:
        """Do the work, unless it was withdrawn."""
        try:
            work = self._work.pop()
        except IndexError:
            return
        try:
            work()
        finally:
            self._done.release()

    def settle(self) -> None:
        """Wait for the work to be done; withdraw it if its helper was busy elsewhere."""
        try:
            self._work.pop()
        except IndexError:
            self._done.acquire()


@functools.cache
def _offers() -> queue.SimpleQueue[_Offer]:
    """Return the queue that helper threads serve.

    They are kept, because starting threads takes as long as a tenth of a small fit; so would the
    futures of an executor take.
    """
    offers: queue.SimpleQueue[_Offer] = queue.SimpleQueue()

    def serve() -> None:
        while True:
            offers.get().take_up()

    for _ in range(available_threads()):
        threading.Thread(target=serve, name="fairpca", daemon=True).start()
    return offers


class _Alone:
    """A context for several threads at once: whoever limits BLAS also lifts the limit again.

    The limit is the process's. Were each to restore what it found, one that entered second and
    left last would leave the limit behind.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner: int | None = None
        self._depth = 0
        self._limits: list[int] = []

    def __enter__(self) -> None:
        with self._lock:
            if self._owner is None:
                self._owner = threading.get_ident()
                self._limits = [library.num_threads for library in _blas()]
                _set_threads([1] * len(self._limits))
            self._depth += self._owner == threading.get_ident()

    def __exit__(self, *error: object) -> None:
        with self._lock:
            if self._owner != threading.get_ident():
                return
            self._depth -= 1
            if not self._depth:
                _set_threads(self._limits)
                self._owner = None


# In this context BLAS uses no threads of its own. NumPy and SciPy each bring theirs, which spin
# for milliseconds after every call and take the cores from the other's: a solve of 512 columns by
# partial decompositions took twice as long.
blas_alone = _Alone()


def blas_for(n: int, r: int) -> AbstractContextManager[None]:
    """Return the context to solve a problem of n columns and r components in.

    The threads of BLAS go on spinning where they get in the way of the next fit, too: ten fits of
    500 columns and 5 components after each other took a fifth longer.
    """
    small = n <= _SMALL or (n <= ONE_THREAD_TO and r <= FEW_COLUMNS)
    return blas_alone if small and n > _TINY else nullcontext()


@functools.cache
def _blas() -> list[LibController]:
    # Looking for the libraries takes longer than a small fit; they do not change.
    libraries: list[LibController] = ThreadpoolController().select(user_api="blas").lib_controllers
    return libraries


def _set_threads(limits: list[int]) -> None:
    # threadpoolctl's own context also asks every library for its version and paths.
    for library, limit in zip(_blas(), limits, strict=True):
        library.set_num_threads(limit)


if hasattr(os, "register_at_fork"):
    # Threads do not survive a fork; a child makes its own, and nobody else is in the context.
    os.register_at_fork(after_in_child=_offers.cache_clear)
    os.register_at_fork(after_in_child=blas_alone.__init__)  # type: ignore[misc]
