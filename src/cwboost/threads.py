"""Work on many things side by side. Knows Python's threads and nothing of what they do.

Pays where the work is done outside Python (the core lets go of the interpreter) and takes long
beside what starting it costs. Results come in the order of the things, whatever the threads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")
U = TypeVar("U")


def spread(work: Callable[[T], U], things: Sequence[T], n_threads: int) -> list[U]:
    """[work(x) for x in things], by so many threads.

    Examples
    --------
    >>> spread(abs, [-1, 2, -3], 2)
    [1, 2, 3]
    """
    if n_threads == 1 or len(things) < 2:
        return [work(thing) for thing in things]
    pool = ThreadPoolExecutor(min(n_threads, len(things)))
    try:
        return list(pool.map(work, things))
    finally:
        pool.shutdown(cancel_futures=True)
