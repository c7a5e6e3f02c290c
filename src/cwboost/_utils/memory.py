"""Memory for the many arrays and records of a fit: a pool of large blocks, and no garbage
collection while thousands of terms are made.

The operating system hands out memory page by page, which can cost as much time as the computation
that fills a page; large blocks get large pages.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK = 2**25  # bytes; the part that is never written to takes no memory
SMALL = 2**13  # elements; a smaller array gets memory of its own
ALIGNED = 64  # bytes of a cache line


@contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Pause Python's garbage collector, which would scan thousands of terms again and again while
    they are made, although they hold no cycles."""
    worked = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if worked:
            gc.enable()


class ArrayPool:
    """Allocates arrays from large blocks. A block lives as long as one of its arrays.

    Examples
    --------
    >>> ArrayPool().empty(100_000, np.uint16).nbytes
    200000
    """

    def __init__(self) -> None:
        self._block = np.empty(0, np.uint8)
        self._used = 0
        self._steps: dict[tuple[int, int], NDArray[np.int64]] = {}
        self._cycles: dict[tuple[int, int], NDArray[np.int32]] = {}
        self._lock = Lock()

    def empty(self, n: int, dtype: Any) -> NDArray[Any]:
        """Return an uninitialised array of n elements."""
        if n < SMALL:
            return np.empty(n, dtype)
        size = n * np.dtype(dtype).itemsize
        with self._lock:
            if self._used + size > len(self._block):
                self._block, self._used = np.empty(max(size, BLOCK), np.uint8), 0
            begin = self._used
            self._used += -(-size // ALIGNED) * ALIGNED
            return self._block[begin : begin + size].view(dtype)

    def steps(self, n: int, step: int) -> NDArray[np.int64]:
        """Return 0, step, ..., n * step. The array is shared and must not be changed."""
        made = self._steps.get((n, step))
        if made is None:
            made = self._steps[n, step] = np.arange(0, n * step + 1, step, dtype=np.int64)
        return made

    def cycles(self, n: int, length: int) -> NDArray[np.int32]:
        """Return 0, ..., length - 1, n times over. The array is shared and must not be changed."""
        made = self._cycles.get((n, length))
        if made is None:
            made = self._cycles[n, length] = np.tile(np.arange(length, dtype=np.int32), n)
        return made
