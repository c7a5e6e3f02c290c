"""Checks of arguments."""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import fields
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from .text import list_choices, quote


def is_whole(value: Any) -> TypeGuard[int]:
    """Return whether a value is a whole number. Booleans are not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_number(value: Any) -> TypeGuard[float]:
    """Return whether a value is a finite number. Booleans are not."""
    if isinstance(value, bool) or not isinstance(value, int | float | np.integer | np.floating):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer beyond the range of floats
        return False


def is_flag(value: Any) -> TypeGuard[bool]:
    """Return whether a value is True or False."""
    return isinstance(value, bool | np.bool_)


def is_one_of(value: Any, choices: Container[str]) -> TypeGuard[str]:
    """Return whether a value is one of the texts that an argument can be; any value is allowed.

    Examples
    --------
    >>> [is_one_of(value, ("column", "term")) for value in ("term", "rows", ["term"], None)]
    [True, False, False, False]
    """
    return isinstance(value, str) and value in choices


def check_one_of(name: str, value: Any, choices: Collection[str]) -> None:
    """Raise if an argument is not one of the texts that it can be.

    Examples
    --------
    >>> check_one_of("kind", "rows", ("column", "term"))
    Traceback (most recent call last):
    ValueError: kind: expected 'column' or 'term', got 'rows'
    """
    if not is_one_of(value, choices):
        raise ValueError(f"{name}: expected {list_choices(choices)}, got {quote(value)}")


def has_items(value: Any) -> TypeGuard[Iterable[Any]]:
    """Return whether a value can be read item by item: neither text nor a mapping, and not an array
    without dimensions, which NumPy calls iterable.

    Examples
    --------
    >>> [has_items(value) for value in ([1], range(3), "age", {"a": 1}, np.array(3.0), 3)]
    [True, True, False, False, False, False]
    """
    is_text = isinstance(value, str | bytes | bytearray | Mapping)
    return isinstance(value, Iterable) and not is_text and getattr(value, "ndim", 1) > 0


def check_text(name: str, value: Any) -> None:
    """Raise if an argument is not text that a file can hold.

    Examples
    --------
    >>> check_text("title", 3)
    Traceback (most recent call last):
    TypeError: title: expected text, got 3
    """
    if not isinstance(value, str):
        raise TypeError(f"{name}: expected text, got {quote(value)}")
    if any("\ud800" <= c <= "\udfff" for c in value):
        raise ValueError(f"{name}: {quote(value)} contains half a surrogate pair; use other text")


def check_flag(name: str, value: Any) -> None:
    """Raise if an argument is neither True nor False."""
    if not is_flag(value):
        raise TypeError(f"{name}: expected True or False, got {quote(value)}")


def check_whole(name: str, value: Any, low: int, high: int) -> None:
    """Raise if an argument is not a whole number from low to high.

    Examples
    --------
    >>> check_whole("n", 2.5, 2, 1000)
    Traceback (most recent call last):
    ValueError: n: expected a whole number from 2 to 1000, got 2.5
    """
    if not (is_whole(value) and low <= value <= high):
        raise ValueError(
            f"{name}: expected a whole number from {low} to {high}, got {quote(value)}"
        )


def check_instance(name: str, value: Any, kind: type) -> None:
    """Raise if an argument is not an object of a class.

    Examples
    --------
    >>> check_instance("model", 3, dict)
    Traceback (most recent call last):
    TypeError: model: expected dict, got 3
    """
    if not isinstance(value, kind):
        raise TypeError(f"{name}: expected {kind.__name__}, got {quote(value)}")


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
    try:
        return found.astype(np.float64, copy=False)
    except OverflowError:
        raise ValueError("an integer is too large for a 64-bit float") from None


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


def simplify_fields(instance: Any) -> None:
    """Replace NumPy's numbers among the fields of a frozen dataclass by Python's, which do not
    overflow and can be written to files.

    Examples
    --------
    >>> from dataclasses import dataclass
    >>> @dataclass(frozen=True)
    ... class Point:
    ...     x: float
    ...     def __post_init__(self):
    ...         simplify_fields(self)
    >>> Point(np.float32(0.5))
    Point(x=0.5)
    """
    for field in fields(instance):
        value = getattr(instance, field.name)
        if isinstance(value, np.bool_ | np.integer | np.floating):
            object.__setattr__(instance, field.name, value.item())


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
