"""Checks of arguments."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeGuard

import numpy as np


def is_whole(value: Any) -> TypeGuard[int]:
    """Return whether a value is a whole number. Booleans are not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_number(value: Any) -> TypeGuard[float]:
    """Return whether a value is a finite number. Booleans are not."""
    real = isinstance(value, int | float | np.integer | np.floating)
    return real and not isinstance(value, bool) and bool(np.isfinite(value))


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
