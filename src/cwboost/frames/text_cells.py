"""What the text of a cell in a CSV or JSON lines file means: a number, a boolean, a date or text.

Does not know how files are split into cells (see files.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .cells import INEXACT_FROM
from .columns import Column, Numbers
from .read_frames import read_column

Kind = Literal["numbers", "dates", "text"]  # of a column, if the caller knows it
EXPECTED = {"numbers": "a number", "dates": "a date such as 2026-11-15"}  # cells of a kind
MISSING = {"", "na", "nan", "n/a", "null", "none"}  # in lower case
BOOLEANS = {"true": 1.0, "false": 0.0}
NEARLY_ALL = 0.9  # share of the levels of a text column that makes the others suspect
# What numbers of spreadsheets contain and ours do not: 1,25 or 1,000 or 12% or $5 or (5) for -5,
# and the minus sign U+2212.
NOT_IN_NUMBERS = re.compile("[(),'\u2019\u00a0\u202f%$\u20ac\u00a3\u00a5\u2212]")
# The zone is as ISO 8601 or a database writes it: Z, +02:00, +0200, +02 or UTC.
DATE = re.compile(
    r"\d{4}-\d\d-\d\d(?:[ T]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?"
    r"(?P<zone> ?(?:Z|UTC|[+-](?:[01]\d|2[0-3])(?::?[0-5]\d)?))?)?"
)
# Dates in the order and with the signs of spreadsheets, which are not read as dates.
LIKE_A_DATE = re.compile(r"(\d{4}([-/.])\d\d?\2\d\d?|\d\d?([-/.])\d\d?\3\d{4})([ T]\d.*)?")


class MixedZonesError(ValueError):
    """Only some times of a column have a zone."""

    def __init__(self, without: str, zoned: str) -> None:
        super().__init__(without, zoned)
        self.without, self.zoned = without, zoned  # a cell of each


class OddCell(NamedTuple):
    """A cell that makes a column text although nearly all others are numbers or dates."""

    cell: str
    problem: str  # ends a sentence that begins with the cell


def parse_column(cells: Sequence[str], name: str, kind: Kind | None) -> Column | None:
    """Return the column of CSV cells; None if a cell is not of the kind that the caller knows."""
    distinct = dict.fromkeys(cells)
    if kind in (None, "numbers"):
        for parser in (parse_number, parse_boolean):
            values = parse_all(parser, distinct)
            if values is not None:
                floats = np.array([values[cell] for cell in cells], dtype=np.float64)
                huge = any(abs(v) >= INEXACT_FROM and is_whole(c) for c, v in values.items())
                return Numbers(name, floats, boolean=parser is parse_boolean, exact=not huge)
    if kind != "text":
        dates = parse_dates([None if is_missing_word(c) else c for c in cells], name)
        if dates is not None or kind is not None:
            return dates
    return read_column([cell or None for cell in cells], name)


def fits(cell: str, kind: Kind) -> bool:
    """Return whether a CSV cell is missing or of a kind.

    Examples
    --------
    >>> [fits(cell, "dates") for cell in ("2026-11-15", "NA", "12", "2026-02-30")]
    [True, True, False, False]
    """
    if kind == "dates":
        return is_missing_word(cell) or is_date(cell)
    return kind == "text" or parse_number(cell) is not None


def is_missing_word(cell: str) -> bool:
    """Return whether a cell is empty or a word for a missing value."""
    return cell.strip().lower() in MISSING


# --- numbers and booleans -------------------------------------------------------------------------


def parse_all(
    parser: Callable[[str], float | None], distinct: Iterable[str]
) -> dict[str, float] | None:
    """Return the value of each distinct cell; None if the parser rejects one of them."""
    out = {}
    for cell in distinct:
        value = parser(cell)
        if value is None:
            return None
        out[cell] = value
    return out


def parse_number(cell: str) -> float | None:
    """Return a number, NaN if the cell is missing; None for other text."""
    try:
        return float(cell) if "_" not in cell else None
    except ValueError:
        return float("nan") if is_missing_word(cell) else None


def parse_boolean(cell: str) -> float | None:
    """Return 1 for true, 0 for false, NaN if the cell is missing; None for other text."""
    word = cell.strip().lower()
    return BOOLEANS.get(word, float("nan") if word in MISSING else None)


def is_whole(cell: str) -> bool:
    """Return whether the text is a whole number."""
    return cell.strip().lstrip("+-").isdigit()


# --- dates ----------------------------------------------------------------------------------------


def parse_dates(cells: Sequence[str | None], name: str) -> Column | None:
    """Return the column if all cells are dates or missing (None); else None.

    Times with a zone are converted to UTC. Raise if only some times have a zone: their distance to
    the others is unknown.

    Examples
    --------
    >>> parse_dates(["1970-01-02T02:00:00+02:00", None], "t").values
    array([ 1., nan])
    """
    distinct = {cell: None for cell in cells if cell is not None}
    found = [DATE.fullmatch(cell.strip()) for cell in distinct]
    dates = [date for date in found if date]
    if len(dates) < len(found):
        return None
    try:
        stamps = _in_utc(dates)
    except ValueError:  # such as the 31st of February
        return None
    zoned = [cell for cell, date in zip(distinct, dates, strict=True) if date["zone"]]
    if zoned and len(zoned) < len(dates):
        without = next(c for c, date in zip(distinct, dates, strict=True) if not date["zone"])
        raise MixedZonesError(without, zoned[0])
    place = {cell: k for k, cell in enumerate(distinct)} | {None: len(dates)}
    rows = np.array([place[cell] for cell in cells], dtype=np.intp)
    return read_column(np.append(stamps, np.datetime64("NaT", "us"))[rows], name)


def _in_utc(dates: Sequence[re.Match[str]]) -> NDArray[np.datetime64]:
    zones = [date["zone"] for date in dates]
    if not any(zones):
        return np.array([date[0] for date in dates], dtype="M8[us]")
    minutes = {zone: _minutes(zone) for zone in set(zones)}
    local = [date[0].removesuffix(date["zone"] or "") for date in dates]
    out: NDArray[np.datetime64] = np.array(local, dtype="M8[us]")
    out -= np.array([minutes[zone] for zone in zones], dtype="m8[m]")
    return out


def _minutes(zone: str | None) -> int:
    """Return the distance of a zone to UTC."""
    digits = re.sub(r"\D", "", zone or "")
    size = 60 * int(digits[:2] or 0) + int(digits[2:] or 0)
    return -size if zone and "-" in zone else size


def is_date(cell: str) -> bool:
    """Return whether the text is a date or a time with a date."""
    date = DATE.fullmatch(cell.strip())
    try:
        return date is not None and len(_in_utc([date])) == 1
    except ValueError:
        return False


# --- cells that make a column text ----------------------------------------------------------------


def odd_cell(levels: Sequence[str]) -> OddCell | None:
    """Return a level that is neither a number nor a date if nearly all others are.

    Numbers and dates as spreadsheets write them count as such.

    Examples
    --------
    >>> [found and found.cell for found in map(odd_cell, (["1,25", "2"], ["1"], ["1", "many"]))]
    ['1,25', None, None]
    >>> odd_cell(["(0.5)", "2"]).cell
    '(0.5)'
    """
    return _odd_number(levels) or odd_date(levels)


def _odd_number(levels: Sequence[str]) -> OddCell | None:
    cell = _first_odd(levels, _is_like_a_number, lambda level: parse_number(level) is not None)
    return None if cell is None else OddCell(
        cell,
        "is not a number; write numbers as 1234.5, without a decimal comma or other signs, and "
        "leave missing cells empty",
    )  # fmt: skip


def odd_date(levels: Sequence[str]) -> OddCell | None:
    """Return a level that is not a date if nearly all others are, at least in spreadsheets.

    Examples
    --------
    >>> odd_date(["2026-01-31", "2026-02-30"]).cell
    '2026-02-30'
    """
    cell = _first_odd(levels, _is_like_a_date, is_date)
    return None if cell is None else OddCell(
        cell,
        "is not a date; write dates as 2026-11-15 or 2026-11-15 08:30:00, and leave missing cells "
        "empty (null in JSON)",
    )  # fmt: skip


def _first_odd(
    levels: Sequence[str], is_like: Callable[[str], bool], is_one: Callable[[str], bool]
) -> str | None:
    """Return a level that is not one of a kind if nearly all levels are like that kind."""
    alike = [is_like(level) for level in levels]
    if sum(alike) < NEARLY_ALL * len(levels) or all(map(is_missing_word, levels)):
        return None
    strange = [level for level, like in zip(levels, alike, strict=True) if not like]
    odd = strange or [level for level in levels if not is_one(level)]
    return min(odd, key=is_missing_word, default=None)  # the first that is not missing


def _is_like_a_number(cell: str) -> bool:
    """Whether a cell is missing, or a number apart from signs of spreadsheets."""
    plain = NOT_IN_NUMBERS.sub("", cell)
    return parse_number(plain) is not None and (plain == cell or any(map(str.isdigit, plain)))


def _is_like_a_date(cell: str) -> bool:
    """Whether a cell is missing, or a date apart from the order and signs of spreadsheets."""
    return is_missing_word(cell) or LIKE_A_DATE.fullmatch(cell.strip()) is not None
