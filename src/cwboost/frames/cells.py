"""Arrays and lists of cells -> columns, without any data frame library.

Decides what a cell is: a number, a boolean, text, a date, a duration, or missing.
Does not know about series and data frames (see read_frames.py).
"""

from __future__ import annotations

import datetime
import decimal
import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cwboost._utils.text import count, quote

from .columns import Column, Floats, Labels, Numbers, format_number

MICROSECONDS_PER_DAY = 86_400e6
EXACT_UNITS = ("us", "ns", "ps", "fs", "as")  # they fit 64 bits in microseconds
INEXACT_FROM = 2**53  # from here on different integers may be one float


def read_array(array: NDArray[Any], name: str) -> Column:
    """Return the column of a one-dimensional array."""
    kind = array.dtype.kind
    if kind == "b":
        return Numbers(name, array.astype(np.float64), boolean=True)
    if kind in "iu":
        return integer_column(array.astype(np.float64), name)
    if array.dtype == np.float64:
        return Numbers(name, as_floats(array))
    if kind == "f":
        with np.errstate(over="ignore"):
            floats = as_floats(array)
        _check_size(np.isinf(floats) & np.isfinite(array), name)  # of wider floats
        return Numbers(name, floats)
    if kind in "Mm":
        return Numbers(name, _days(array, name), unit="dates" if kind == "M" else "durations")
    if kind in "OUT":
        return read_objects(array.tolist(), name)
    raise TypeError(
        f"column {quote(name)}: expected numbers, text or dates, got {array.dtype}; convert it"
    )


def _check_size(too_large: NDArray[np.bool_], name: str) -> None:
    """Raise if a number is too large for a 64-bit float."""
    if too_large.any():
        raise ValueError(
            f"column {quote(name)}, row {int(np.argmax(too_large))}: the number is too large for a "
            "64-bit float; rescale the column"
        )


def _days(stamps: NDArray[Any], name: str) -> Floats:
    """Return days since 1970-01-01, or the days of a duration, to the microsecond."""
    exact = stamps.astype(f"{stamps.dtype.kind}8[us]")
    _check_range(stamps, exact, name)
    return np.where(np.isnat(stamps), np.nan, exact.astype(np.int64) / MICROSECONDS_PER_DAY)


def _check_range(
    stamps: NDArray[Any], exact: NDArray[Any], name: str, rows: Sequence[int] | None = None
) -> None:
    """Raise if a date or duration did not fit 64 bits in microseconds; `rows` are its rows."""
    if np.datetime_data(stamps.dtype)[0] in EXACT_UNITS:
        return
    days = f"{stamps.dtype.kind}8[D]"
    wrapped = (exact.astype(days) != stamps.astype(days)) & ~np.isnat(stamps)
    if wrapped.any():
        at = int(np.flatnonzero(wrapped)[0])
        raise ValueError(
            f"column {quote(name)}, row {rows[at] if rows else at}: {stamps[at]} is out of range: "
            "microseconds since 1970 do not fit 64 bits; pass it as a number"
        )


def read_objects(values: list[Any], name: str) -> Column:
    """Return the column of a list of Python objects, which must be of one kind."""
    if set(map(type, values)) <= {str, type(None)}:
        return read_categories(*code_cells(values), name)
    missing = [is_missing(v) for v in values]
    kinds: dict[str, int] = {}
    example: dict[str, Any] = {}
    for value, absent in zip(values, missing, strict=True):
        if not absent:
            kind = _kind_of(value)
            kinds[kind] = kinds.get(kind, 0) + 1
            example.setdefault(kind, value)
    if set(kinds) == {"boolean"}:
        return Numbers(name, _to_floats(values, missing, name), boolean=True)
    if set(kinds) <= {"number", "boolean"}:
        return integer_column(_to_floats(values, missing, name), name)
    if set(kinds) == {"text"}:
        texts = [None if m else str(v) for v, m in zip(values, missing, strict=True)]
        return read_categories(*code_cells(texts), name)
    if set(kinds) in ({"date"}, {"duration"}):
        given = [None if m else v for v, m in zip(values, missing, strict=True)]
        _check_zones(given, name)
        stamps = [_without_zone(v) for v in given]
        exact = np.array(stamps, "M8[us]" if "date" in kinds else "m8[us]")
        by_type: dict[Any, list[int]] = {}  # rows with NumPy's dates; others always fit
        for row, stamp in enumerate(stamps):
            if isinstance(stamp, np.datetime64 | np.timedelta64):
                by_type.setdefault(stamp.dtype, []).append(row)
        for dtype, rows in by_type.items():
            _check_range(np.array([stamps[row] for row in rows], dtype), exact[rows], name, rows)
        return read_array(exact, name)
    found = ", ".join(
        f"{kind} ({quote(example[kind])} in {count(n, 'row')})" for kind, n in kinds.items()
    )
    raise TypeError(
        f"column {quote(name)}: expected numbers or text, got {found}; "
        "make it one kind, for instance strings for Category"
    )


def read_categories(
    codes: NDArray[Any], values: list[Any], name: str, order: Sequence[Any] | None = None
) -> Column:
    """Return the column of coded categories.

    Categories of any type become text: numbers by `format_number`, the rest by `str`. Levels that
    do not occur are left out. `order` is the order that the type declares.
    """

    def text(value: Any) -> str:
        if type(value) is str:
            return value
        kind = _kind_of(value)
        return (
            format_number(value, kind == "boolean") if kind in ("number", "boolean") else str(value)
        )

    occurs = np.zeros(len(values) + 1, dtype=bool)
    occurs[codes] = True  # code -1, missing, marks the last
    met = occurs[:-1].tolist()
    occurring = [c for c, value in enumerate(values) if met[c] and not is_missing(value)]
    if not occurring:
        return Numbers(name, np.full(len(codes), np.nan))
    if order is None and all(_kind_of(values[c]) == "number" for c in occurring):
        order = sorted(values[c] for c in occurring)
    texts = {c: text(values[c]) for c in occurring}
    found = set(texts.values())
    if len(found) < len(occurring):
        _check_different(texts, values, name)
    if order is None:
        levels = sorted(found)
    else:
        levels = [level for level in dict.fromkeys(map(text, order)) if level in found]
    position = {level: i for i, level in enumerate(levels)}
    to = [position[texts[c]] if c in texts else -1 for c in range(len(values))]
    return Labels(name, np.array([*to, -1], dtype=np.int64)[codes], tuple(levels))


def _check_different(texts: dict[int, str], values: list[Any], name: str) -> None:
    """Raise if two categories that differ have the same text, such as 1 and "1"."""
    first: dict[str, Any] = {}
    for code, text in texts.items():
        other = first.setdefault(text, values[code])
        if other != values[code]:
            raise TypeError(
                f"column {quote(name)}: the categories {quote(other)} and {quote(values[code])} "
                "have the same text; make all categories one type"
            )


def code_cells(cells: Sequence[Any]) -> tuple[NDArray[Any], list[Any]]:
    """Return a code per cell, and the distinct cells in the order of their codes."""
    found: dict[Any, int] = {}
    codes = (found.setdefault(cell, len(found)) for cell in cells)
    return np.fromiter(codes, dtype=np.int64, count=len(cells)), list(found)


def as_floats(array: NDArray[Any]) -> Floats:
    """Return numbers as the core takes them: contiguous and aligned float64."""
    floats: Floats = np.ascontiguousarray(array, dtype=np.float64)
    return floats if floats.flags.aligned else floats.copy()


def integer_column(values: Floats, name: str) -> Numbers:
    """Return a column of integers that were converted to floats."""
    return Numbers(name, values, exact=not np.any(np.abs(values) >= INEXACT_FROM))


def as_array(values: list[Any] | tuple[Any, ...]) -> NDArray[Any]:
    """Return an array that keeps mixed types apart (NumPy would turn [1, 'a'] into text)."""
    if all(isinstance(v, float | int | np.number) and not isinstance(v, bool) for v in values):
        return np.asarray(values)
    out = np.empty(len(values), dtype=object)
    for i, value in enumerate(values):  # out[:] = values would unpack lists
        out[i] = value
    return out


def _check_zones(stamps: list[Any], name: str) -> None:
    """Raise if only some times have a time zone: their distance to the others is unknown."""
    zoned = [None if stamp is None else _has_zone(stamp) for stamp in stamps]
    if True in zoned and False in zoned:
        row, other = zoned.index(True), zoned.index(False)
        raise ValueError(
            f"column {quote(name)}: the time of row {row} has a time zone, that of row {other} has "
            "not; give all times a zone, or none"
        )


def _has_zone(stamp: Any) -> bool:
    return getattr(stamp, "tzinfo", None) is not None


def _without_zone(stamp: Any) -> Any:
    """Return a datetime in UTC, without its time zone."""
    if not _has_zone(stamp):
        return stamp
    return stamp.astimezone(datetime.UTC).replace(tzinfo=None)


def _to_floats(values: list[Any], missing: list[bool], name: str) -> Floats:
    out = np.full(len(values), np.nan)
    too_large = np.zeros(len(values), dtype=bool)
    for row, (value, absent) in enumerate(zip(values, missing, strict=True)):
        if not absent:
            try:
                out[row] = float(value)
                too_large[row] = math.isinf(out[row]) and value not in (math.inf, -math.inf)
            except OverflowError:
                too_large[row] = True
    _check_size(too_large, name)
    return out


def is_missing(value: Any) -> bool:
    """Return whether a cell is None, NaN or another library's missing value."""
    if value is None or type(value).__name__ in ("NAType", "NaTType", "MaskedConstant"):
        return True
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    if isinstance(value, decimal.Decimal):
        return value.is_nan()
    return isinstance(value, float | np.floating) and bool(value != value)


def _kind_of(value: Any) -> str:
    if isinstance(value, bool | np.bool_):
        return "boolean"
    if isinstance(value, datetime.timedelta | np.timedelta64):  # the latter is an Integral
        return "duration"
    if isinstance(value, numbers.Real | decimal.Decimal):
        return "number"
    if isinstance(value, str):
        return "text"
    if isinstance(value, datetime.date | np.datetime64):
        return "date"
    if isinstance(value, numbers.Complex):
        return "complex number"
    return type(value).__name__
