"""Runs many fits in parallel: folds, bags, draws, configurations. Handles Ctrl-C and progress.

Does not know what the fits are for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import TypeVar

from cwboost._utils.threads import SharedItems, start_threads
from cwboost.progress import Progress

from .smoothing import one_blas_thread

T = TypeVar("T")
Halt = Callable[[], bool]

WAIT = 0.05  # seconds between two checks for signals in the calling thread


def run_all(
    jobs: Sequence[Callable[[Halt], T]],
    n_threads: int,
    bar: Progress,
    unit: str = "fit",
    done: Callable[[int, T], None] | None = None,
) -> list[T]:
    """Return [job(halt) for job in jobs], computed by n threads; the results do not depend on n.

    A job calls `halt()` from time to time and ends early if it returns true: another job failed, or
    the user pressed Ctrl-C. The error is then raised here. `done` is called in this thread with the
    number and the result of each job that ends. `unit` is the word for a job in progress messages.

    Examples
    --------
    >>> from cwboost.progress import Progress
    >>> run_all([lambda halt: 1, lambda halt: 2], 2, Progress())
    [1, 2]
    """
    results: dict[int, T] = {}

    def end(number: int, result: T) -> None:
        results[number] = result
        if done is not None:
            done(number, result)
        bar.step(len(results))

    with bar.work(len(jobs), unit):
        if n_threads > 1 and len(jobs) > 1:
            with one_blas_thread():  # these threads already use all cores
                _by_threads(jobs, min(n_threads, len(jobs)), end)
        for number, job in enumerate(jobs):
            if number not in results:
                end(number, job(lambda: False))  # Ctrl-C reaches the job itself
    return [results[number] for number in range(len(jobs))]


def _by_threads(
    jobs: Sequence[Callable[[Halt], T]], n_threads: int, end: Callable[[int, T], None]
) -> None:
    """Run the jobs in other threads. This thread only waits, so that Ctrl-C reaches it at once.

    Runs none if the system cannot start a thread.
    """
    stop = Event()
    waiting = SharedItems(range(len(jobs)))
    ended: SimpleQueue[Callable[[], None]] = SimpleQueue()

    def run() -> None:
        for number in waiting:
            try:
                ended.put(partial(end, number, jobs[number](stop.is_set)))
            except BaseException as error:
                stop.set()
                ended.put(partial(_fail, error))
            if stop.is_set():
                return

    threads: list[Thread] = []
    try:
        start_threads(threads, run, n_threads)
        for _ in range(len(jobs) if threads else 0):
            _next(ended)()
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _fail(error: BaseException) -> None:
    raise error


def _next(ended: SimpleQueue[T]) -> T:
    """Wait for the next item; signals are seen meanwhile."""
    while True:
        try:
            return ended.get(timeout=WAIT)
        except Empty:
            continue
