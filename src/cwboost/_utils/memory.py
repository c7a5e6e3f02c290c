"""Room for the arrays and records of a fit. Knows sizes and types, nothing of what they mean.

A system gives memory page by page, and each page costs as much time as a kernel needs for it; in
few large blocks the pages are large. Arrays with the same contents are kept once.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK = 2**25  # bytes; what is not written to takes no memory
SMALL = 2**13  # numbers below which an array is better made by itself
ALIGNED = 64  # bytes: a line of the cache


@contextmanager
def garbage_collection_paused() -> Iterator[None]:
    """Keeps Python's collector from looking through all that thousands of terms are made of, again
    and again while they are made; nothing in them is a cycle."""
    worked = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if worked:
            gc.enable()


class ArrayPool:
    """Arrays out of large blocks; a block lives as long as one of its arrays.

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
        """n numbers of a type, unset."""
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
        """0, step, ..., n * step; not to be written to."""
        made = self._steps.get((n, step))
        if made is None:
            made = self._steps[n, step] = np.arange(0, n * step + 1, step, dtype=np.int64)
        return made

    def cycles(self, n: int, length: int) -> NDArray[np.int32]:
        """0, ..., length - 1, n times; not to be written to."""
        made = self._cycles.get((n, length))
        if made is None:
            made = self._cycles[n, length] = np.tile(np.arange(length, dtype=np.int32), n)
        return made
