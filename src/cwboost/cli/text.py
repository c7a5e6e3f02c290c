"""Tables and curves as text for a terminal. Knows how they look; knows nothing of files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from cwboost.export.tables import round_ends
from cwboost.frames.table import Floats, Numbers
from cwboost.model.model import Model
from cwboost.model.term import find_terms

BLOCKS = "▁▂▃▄▅▆▇█"
CURVE = 48  # characters
LONGEST = 60  # characters of a cell


def printable(text: str) -> str:
    """Text that cannot move the cursor or break the line: names and levels may hold anything.

    Examples
    --------
    >>> printable("a\\nb")
    'a\\\\nb'
    """
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def cell(value: Any) -> str:
    """A value of a table.

    Examples
    --------
    >>> cell(0.123456789), cell(39.0), cell(None), cell(float("nan"))
    ('0.12346', '39', '(missing)', '(missing)')
    """
    if value is None or (isinstance(value, float | np.floating) and np.isnan(value)):
        return "(missing)"
    if isinstance(value, float | np.floating):
        number = float(value)
        return str(int(number)) if number.is_integer() and abs(number) < 1e9 else f"{number:.5g}"
    text = printable(str(value))
    return text if len(text) <= LONGEST else text[: LONGEST - 3] + "..."


def table_lines(columns: Mapping[str, Sequence[Any]]) -> list[str]:
    """Columns of values as aligned lines: numbers to the right, text to the left.

    Examples
    --------
    >>> print("\\n".join(table_lines({"job": ["cook", None], "effect": [-1.5, 12.0]})))
    job        effect
    cook         -1.5
    (missing)      12
    """
    lines = []
    for name, values in columns.items():
        cells = [cell(name), *map(cell, values)]
        width = max(map(len, cells))
        number = any(isinstance(v, float | int | np.number) for v in values)
        lines.append([c.rjust(width) if number else c.ljust(width) for c in cells])
    return ["  ".join(line).rstrip() for line in zip(*lines, strict=True)]


def sparkline(values: Floats) -> str:
    """A curve in one line of text.

    Examples
    --------
    >>> sparkline(np.array([0.0, 1.0, 2.0, 1.0]))
    '▁▅█▅'
    """
    low, high = float(values.min()), float(values.max())
    heights = (values - low) / (high - low or 1.0) * (len(BLOCKS) - 1)
    return "".join(BLOCKS[int(h + 0.5)] for h in heights)


def curve_lines(model: Model) -> list[str]:
    """The curve of every numeric column, the most important first; none with several outputs."""
    shares = model.importance() if model.shares is not None else {}
    chosen = {name: shares.get(name, 0.0) for name, term in model.terms.items() if term.chosen}
    total: dict[str, float] = {}
    for name, share in chosen.items():
        columns = model.terms[name].columns
        if len(columns) == 1 and model.columns[columns[0]].kind == "numbers":
            total[columns[0]] = total.get(columns[0], 0.0) + share
    out = []
    for column in sorted(total, key=lambda name: -total[name]) if model.n_outputs == 1 else ():
        shown = model.effect(column, CURVE)
        at, effect = shown.get(column), list(shown.values())[-1]
        if at is None or at.dtype == object:  # numbers as categories
            continue
        known = ~np.isnan(at)
        at, effect = at[known], effect[known]
        if len(at):
            places = np.searchsorted(at, np.linspace(at[0], at[-1], CURVE), side="right") - 1
            curve = sparkline(effect[np.maximum(places, 0)])
            out.append(f"  {cell(column):16} {at[0]:>6g} {curve} {at[-1]:g}")
    return out


def effect_table(model: Model, which: str, n: int) -> dict[str, Any]:
    """The effect of a term or column for reading: every level, or about n round numbers.

    Examples
    --------
    >>> import cwboost as cb
    >>> x = np.linspace(0, 6, 61)
    >>> effect_table(cb.fit({"x": x}, x**2), "x", 6)["x"]
    array([0., 1., 2., 3., 4., 5., 6.])
    """
    full = model.effect(which)
    columns = list(full)[: -model.n_outputs]
    facts, axis = model.columns[columns[0]], full[columns[0]]
    if len(columns) > 1:
        return model.effect(which, max(2, n // 2))
    if axis.dtype == object or facts.low is None or facts.high is None or facts.low == facts.high:
        return full
    places = round_ends(facts.low, facts.high, n)
    if facts.missing:
        places = np.append(places, np.nan)
    column = Numbers(columns[0], places)
    total = np.zeros((len(places), model.n_outputs))
    for term in find_terms(model.terms, which):
        total = total + term.effect_at(term.plan.encode([column]))
    return {columns[0]: places} | dict(zip(list(full)[1:], total.T, strict=True))


def words(names: Iterable[Any]) -> str:
    """Names in a sentence, the first ten of them."""
    found = [printable(str(name)) for name in names]
    return ", ".join(found[:10]) + ", ..." * (len(found) > 10)
