"""Reads the fields of JSON objects with their types, so that a damaged file gives a clear error.

Checkpoints, tuning files and saved Datasets are read with it. Does not know what the fields mean.
Model files are read by their annotations instead (see export/plain_data.py).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any, TypeGuard

from .text import quote

MAX_WHOLE = 2**53  # beyond it, JSON of other programs is not exact


class FieldError(ValueError):
    """A field of a file is missing or has an unexpected value."""


def parse_json(text: str | bytes) -> Any:
    """Return the content of JSON text; raise FieldError if it is not JSON."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FieldError(f"not JSON ({error})") from None


def require(ok: bool, where: str, expected: str, found: Any) -> None:
    """Raise FieldError unless `ok`."""
    if not ok:
        raise FieldError(f"{where}: expected {expected}, found {quote(found)}")


class Fields:
    """The fields of a JSON object.

    Parameters
    ----------
    data : object
    where : str
        Names the object in messages.

    Examples
    --------
    >>> fields = Fields({"n_rows": 3, "names": ["x", 1]}, "dataset")
    >>> fields.whole("n_rows")
    3
    >>> fields.texts("names")
    Traceback (most recent call last):
    cwboost._utils.typed_fields.FieldError: dataset, names: expected a list of texts, found ['x', 1]
    """

    def __init__(self, data: Any, where: str) -> None:
        require(isinstance(data, dict), where, "an object", data)
        self._data: dict[str, Any] = data
        self.where = where

    def __contains__(self, name: str) -> bool:
        return name in self._data

    def get(self, name: str) -> Any:
        """Return a field of any type."""
        if name not in self._data:
            raise FieldError(f"{self.where}: the field {quote(name)} is missing")
        return self._data[name]

    def require(self, ok: bool, name: str, expected: str) -> None:
        """Raise FieldError unless `ok`; the message names the field and its value."""
        require(ok, f"{self.where}, {name}", expected, self.get(name))

    def whole(self, name: str, low: int = 0, high: int = MAX_WHOLE) -> int:
        """Return a whole number from low to high."""
        value = self.get(name)
        ok = is_json_whole(value) and low <= value <= high
        self.require(ok, name, f"a whole number from {low} to {high}")
        return int(value)

    def number(self, name: str) -> float:
        """Return a number, which may be nan or infinite."""
        self.require(is_json_number(self.get(name)), name, "a number")
        return float(self.get(name))

    def flag(self, name: str) -> bool:
        """Return true or false."""
        self.require(isinstance(self.get(name), bool), name, "true or false")
        return bool(self.get(name))

    def text(self, name: str) -> str:
        """Return a text."""
        self.require(isinstance(self.get(name), str), name, "a text")
        return str(self.get(name))

    def texts(self, name: str) -> list[str]:
        """Return a list of texts."""
        return self._list(name, lambda v: isinstance(v, str), "a list of texts")

    def numbers(self, name: str) -> list[float]:
        """Return a list of numbers, which may be nan or infinite."""
        return [float(v) for v in self._list(name, is_json_number, "a list of numbers")]

    def wholes(self, name: str, low: int = 0, high: int = MAX_WHOLE) -> list[int]:
        """Return a list of whole numbers from low to high."""
        expected = f"a list of whole numbers from {low} to {high}"
        return self._list(name, lambda v: is_json_whole(v) and low <= v <= high, expected)

    def items(self, name: str) -> list[Any]:
        """Return a list of anything."""
        return self._list(name, lambda _: True, "a list")

    def inner(self, name: str) -> Fields:
        """Return the fields of an object."""
        return Fields(self.get(name), f"{self.where}, {name}")

    def records(self, name: str) -> list[Fields]:
        """Return the fields of every object of a list."""
        return [
            Fields(item, f"{self.where}, {name}[{k}]") for k, item in enumerate(self.items(name))
        ]

    def names(self) -> Iterable[str]:
        """Return the names of the fields."""
        return self._data.keys()

    def _list(self, name: str, fits: Callable[[Any], bool], expected: str) -> list[Any]:
        values = self.get(name)
        self.require(isinstance(values, list) and all(map(fits, values)), name, expected)
        return list(values)


def is_json_whole(value: Any) -> TypeGuard[int]:
    """Return whether a value of JSON is a whole number."""
    return type(value) is int


def is_json_number(value: Any) -> bool:
    """Return whether a value of JSON is a number that a float can hold."""
    if type(value) is float:
        return True
    return type(value) is int and abs(value) <= MAX_WHOLE
