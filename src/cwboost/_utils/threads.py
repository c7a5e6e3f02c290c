"""Applies a function to many items in several threads.

As in a loop, results come in the order of the items, and the first error is raised.

It saves time where the work happens outside Python (the core releases the interpreter lock) and
takes long compared with switching threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import Lock, Thread
from typing import TypeVar

# How many rows make a pass over, or a sort of, a column worth another thread.
MIN_PASS_ROWS = 300_000
MIN_SORT_ROWS = 10_000

T = TypeVar("T")
U = TypeVar("U")


class SharedItems(Iterator[T]):
    """Items that several threads take turns to take, each once.

    Examples
    --------
    >>> list(SharedItems([1, 2, 3]))
    [1, 2, 3]
    """

    def __init__(self, items: Iterable[T]) -> None:
        self._items = iter(items)
        self._lock = Lock()

    def __next__(self) -> T:
        with self._lock:
            return next(self._items)


def start_threads(threads: list[Thread], run: Callable[[], None], n_threads: int) -> None:
    """Append threads that call a function; fewer, or none, if the system refuses to start more.

    The caller owns the list, so that it has the threads also if Ctrl-C interrupts the start.

    Examples
    --------
    >>> threads, found = [], []
    >>> start_threads(threads, lambda: found.append("done"), 1)
    >>> threads[0].join()
    >>> found
    ['done']
    """
    for _ in range(n_threads):
        thread = Thread(target=run)
        try:
            thread.start()
        except (RuntimeError, MemoryError):  # too many threads, or no memory for a stack
            return
        threads.append(thread)


def map_in_threads(work: Callable[[T], U], items: Sequence[T], n_threads: int) -> list[U]:
    """Return `[work(item) for item in items]`, computed by n_threads threads (this one included).

    Examples
    --------
    >>> map_in_threads(abs, [-1, 2, -3], 2)
    [1, 2, 3]
    """
    if n_threads == 1 or len(items) < 2:
        return [work(item) for item in items]
    done: dict[int, U] = {}
    failed: dict[int, BaseException] = {}
    waiting = SharedItems(range(len(items)))

    def run() -> None:
        for number in waiting:
            try:
                done[number] = work(items[number])
            except BaseException as error:
                failed[number] = error
            if failed:
                return

    others: list[Thread] = []
    try:
        start_threads(others, run, min(n_threads, len(items)) - 1)
        run()
    finally:
        for _ in waiting:  # after Ctrl-C, the others must not do what is left
            pass
        for thread in others:
            thread.join()
    if failed:
        raise failed[min(failed)]  # items start in order, so the first error is among them
    return [done[number] for number in range(len(items))]
