"""Checks of arguments, and the number of threads to use."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

THREADS_FROM = 20_000  # with fewer rows a second thread costs more time than it saves
MAX_THREADS = 1024  # more than any machine has; the system refuses to start very many


def is_whole(value: Any) -> TypeGuard[int]:
    """Return whether a value is a whole number. Booleans are not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_number(value: Any) -> TypeGuard[float]:
    """Return whether a value is a finite number. Booleans are not."""
    real = isinstance(value, int | float | np.integer | np.floating)
    return real and not isinstance(value, bool) and bool(np.isfinite(value))


def as_real(value: Any) -> NDArray[np.float64]:
    """Return real numbers as an array of floats; raise TypeError or ValueError for anything else.

    NumPy alone would drop the imaginary part of complex numbers and the unit of dates.

    Examples
    --------
    >>> as_real([1, 2])
    array([1., 2.])
    """
    found = np.asarray(value)
    if found.dtype.kind in "cmM":
        raise TypeError(f"expected real numbers, got {found.dtype}")
    return found.astype(np.float64, copy=False)


def is_subclass(value: Any, parent: type) -> bool:
    """Return whether a value is a class derived from another."""
    return isinstance(value, type) and issubclass(value, parent)


def is_built_in(cls: type) -> bool:
    """Return whether a class is defined in this package, not by a user."""
    return cls.__module__.startswith("cwboost.")


def first_repeated(names: Iterable[str]) -> str | None:
    """Return the first name that occurs a second time; None if all names are different.

    Examples
    --------
    >>> first_repeated(["age", "job", "age"])
    'age'
    """
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def check_threads(n_threads: Any) -> None:
    """Raise if `n_threads` is neither None nor a possible number of threads."""
    if n_threads is not None and not (is_whole(n_threads) and 1 <= n_threads <= MAX_THREADS):
        raise ValueError(
            f"n_threads must be a whole number from 1 to {MAX_THREADS}, got {n_threads!r}"
        )


def threads_for(n_threads: int | None, n_rows: int = THREADS_FROM) -> int:
    """Return the given number of threads; for None, all cores or 1 if there are few rows."""
    if n_threads is not None:
        return int(n_threads)
    if n_rows < THREADS_FROM:
        return 1
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else (os.cpu_count() or 1)
