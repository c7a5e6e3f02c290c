"""Checks of arguments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray


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


def fits_single_precision(numbers: NDArray[np.float64]) -> bool:
    """Return whether 32-bit floats can hold the numbers: none is too large, not all are too small.

    Examples
    --------
    >>> [fits_single_precision(np.array([x])) for x in (1.0, 1e39, 1e-40, 0.0)]
    [True, False, False, True]
    """
    largest = float(np.abs(numbers).max(initial=0.0))
    single = np.finfo(np.float32)
    return largest == 0.0 or float(single.tiny) / float(single.eps) < largest < float(single.max)
