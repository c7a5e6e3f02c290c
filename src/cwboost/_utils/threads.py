"""Applies a function to many items in several threads, with the results and errors of one thread.

It saves time where the work happens outside Python (the core releases the interpreter lock) and
takes long compared with switching threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TypeVar

# How many rows make a pass over, or a sort of, a column worth another thread.
MIN_PASS_ROWS = 300_000
MIN_SORT_ROWS = 10_000

T = TypeVar("T")
U = TypeVar("U")


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
    waiting, lock = iter(range(len(items))), Lock()

    def run() -> None:
        while not failed:
            with lock:
                number = next(waiting, None)
            if number is None:
                return
            try:
                done[number] = work(items[number])
            except BaseException as error:
                failed[number] = error

    n_others = min(n_threads, len(items)) - 1
    with ThreadPoolExecutor(n_others) as pool:
        for _ in range(n_others):
            pool.submit(run)
        run()
    if failed:
        raise failed[min(failed)]  # items start in order, so the first error is among them
    return [done[number] for number in range(len(items))]
