"""Work on many things side by side. Knows Python's threads and nothing of what they do.

Pays where the work is done outside Python (the core lets go of the interpreter) and takes long
beside the change from one thread to another. Results and errors are those of one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from threading import Lock
from typing import TypeVar

T = TypeVar("T")
U = TypeVar("U")


def map_in_threads(work: Callable[[T], U], things: Sequence[T], n_threads: int) -> list[U]:
    """[work(x) for x in things], by so many threads, this one among them.

    Examples
    --------
    >>> map_in_threads(abs, [-1, 2, -3], 2)
    [1, 2, 3]
    """
    if n_threads == 1 or len(things) < 2:
        return [work(thing) for thing in things]
    done: dict[int, U] = {}
    failed: dict[int, BaseException] = {}
    waiting, lock = iter(range(len(things))), Lock()

    def run() -> None:
        while not failed:
            with lock:
                number = next(waiting, None)
            if number is None:
                return
            try:
                done[number] = work(things[number])
            except BaseException as error:
                failed[number] = error

    n_others = min(n_threads, len(things)) - 1
    with ThreadPoolExecutor(n_others) as pool:
        for _ in range(n_others):
            pool.submit(run)
        run()
    if failed:
        raise failed[min(failed)]  # things are begun in order: that of the first is among them
    return [done[number] for number in range(len(things))]
