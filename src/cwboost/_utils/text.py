"""Names and tables as text for a terminal. Does not know where the text is printed."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import get_close_matches
from itertools import islice
from typing import Any

import numpy as np

LONGEST_CELL = 60  # characters
LONGEST_QUOTE = 100  # characters of a value in a message
MOST_NAMES = 10  # listed in a sentence
MOST_SUGGESTED = 3  # names that resemble another one


def printable(text: str) -> str:
    """Return the text with control characters escaped: names and levels may hold anything, and must
    not move the cursor or break the line.

    Examples
    --------
    >>> printable("a\\nb")
    'a\\\\nb'
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def shorten(text: str, longest: int = LONGEST_QUOTE) -> str:
    """Return a text without most of its middle if it is long.

    Examples
    --------
    >>> shorten("abcdefghijklmnopqrstuvwxyz", 10)
    'abcd...xyz'
    """
    if len(text) <= longest:
        return text
    tail = longest // 3
    return f"{text[: longest - tail - 3]}...{text[-tail:]}"


def quote(value: Any) -> str:
    """Return a value from a user as messages quote it: a short repr in one line.

    Examples
    --------
    >>> quote("age"), quote(np.array([[1, 2], [3, 4]]))
    ("'age'", 'array([[1, 2], [3, 4]])')
    >>> len(quote("x" * 10_000_000))
    124
    >>> quote("x" * 10_000_000)[-28:]
    "xxx' (10,000,000 characters)"
    """
    if isinstance(value, str) and len(value) > LONGEST_QUOTE:
        ends = repr(value[:LONGEST_QUOTE] + value[-LONGEST_QUOTE:])  # fast for very long texts
        return f"{shorten(ends)} ({len(value):,} characters)"
    try:
        text = repr(value)
        return shorten(text if isinstance(value, str) else " ".join(text.split()))
    except Exception as error:  # a whole number of thousands of digits, or a class of a user
        return f"<{type(value).__name__} that cannot be printed: {type(error).__name__}>"


def format_cell(value: Any) -> str:
    """Return a value of a table as text.

    Examples
    --------
    >>> [format_cell(value) for value in (0.123456789, 39.0, None, float("nan"))]
    ['0.12346', '39', '(missing)', '(missing)']
    """
    if value is None or (isinstance(value, float | np.floating) and np.isnan(value)):
        return "(missing)"
    if isinstance(value, float | np.floating):
        number = float(value)
        return str(int(number)) if number.is_integer() and abs(number) < 1e9 else f"{number:.5g}"
    text = printable(str(value))
    return text if len(text) <= LONGEST_CELL else text[: LONGEST_CELL - 3] + "..."


def format_table(columns: Mapping[str, Sequence[Any]]) -> list[str]:
    """Return columns of values as aligned lines: numbers to the right, text to the left.

    Examples
    --------
    >>> print("\\n".join(format_table({"job": ["cook", None], "effect": [-1.5, 12.0]})))
    job        effect
    cook         -1.5
    (missing)      12
    """
    lines = []
    for name, values in columns.items():
        cells = [format_cell(name), *map(format_cell, values)]
        width = max(map(len, cells))
        number = any(isinstance(v, float | int | np.number) for v in values)
        lines.append([c.rjust(width) if number else c.ljust(width) for c in cells])
    return ["  ".join(line).rstrip() for line in zip(*lines, strict=True)]


def list_names(names: Iterable[Any]) -> str:
    """Return the names separated by commas, at most ten of them.

    Examples
    --------
    >>> list_names(range(12))
    '0, 1, 2, 3, 4, 5, 6, 7, 8, 9, ...'
    """
    first = list(islice(names, MOST_NAMES + 1))
    texts = [printable(shorten(str(name))) for name in first[:MOST_NAMES]]
    return ", ".join(texts) + ", ..." * (len(first) > MOST_NAMES)


def quote_names(names: Iterable[Any]) -> str:
    """Return the names in quotes, separated by commas, at most ten of them.

    Examples
    --------
    >>> quote_names(["age", "job"])
    "'age', 'job'"
    """
    return list_names(map(quote, names))


def list_choices(names: Iterable[Any]) -> str:
    """Return the names in quotes as alternatives.

    Examples
    --------
    >>> list_choices(["size", "risk", "path"])
    "'size', 'risk' or 'path'"
    """
    *others, last = map(quote, names)
    return f"{', '.join(others)} or {last}" if others else last


def similar_names(word: str, known: Iterable[str], least: float = 0.6) -> list[str]:
    """Return at most three known names that resemble a word; case and outer blanks do not matter.

    `least` is the least similarity, from 0 to 1.

    Examples
    --------
    >>> similar_names("Wage", ["age", "WAGE", "wages", "job"])
    ['WAGE', 'wages', 'age']
    """
    if len(word) > LONGEST_QUOTE:
        return []
    by_key: dict[str, list[str]] = {}
    for name in known:
        by_key.setdefault(name.strip().casefold(), []).append(name)
    close = get_close_matches(word.strip().casefold(), by_key, MOST_SUGGESTED, least)
    return [name for key in close for name in by_key[key]][:MOST_SUGGESTED]


def suggest_names(word: str, known: Collection[str]) -> str:
    """Return the known names that resemble a word, as a question; if there are none, all names.

    Examples
    --------
    >>> suggest_names("Wage", ["wage", "job"]), suggest_names("b", [" b"])
    ("did you mean 'wage'?", "did you mean ' b', with the blanks?")
    >>> suggest_names("x", ["wage", "job"])
    "it has 'wage', 'job'"
    """
    close = similar_names(word, known, 0.7)  # x0, x1, x2 are no suggestions for x
    if not close:
        return f"it has {quote_names(known)}" if known else "it is empty"
    blanks = ", with the blanks" if close[0] != word and close[0].strip() == word else ""
    return "did you mean " + " or ".join(map(quote, close)) + f"{blanks}?"


def count(n: int, noun: str) -> str:
    """Return a number with its noun, which gets an "s" unless the number is 1.

    Examples
    --------
    >>> [count(n, "row") for n in (0, 1, 2)]
    ['0 rows', '1 row', '2 rows']
    """
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def readable_number(value: float, digits: int = 3) -> str:
    """Return a number as text with a given number of significant digits.

    Examples
    --------
    >>> [readable_number(value) for value in (12345.6, -0.01234, 2.0, 3.2e9)]
    ['12,346', '−0.0123', '2', '3.2e9']
    """
    size = abs(value)
    if size >= 1e7 or 0 < size < 1e-4 or not np.isfinite(value):
        text = re.sub(r"e([+-])0*", lambda found: "e" + found[1].strip("+"), f"{value:.{digits}g}")
    else:
        places = 0 if size == 0 else max(0, digits - 1 - int(np.floor(np.log10(size))))
        text = f"{value:,.{places}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.replace("-", "−")
