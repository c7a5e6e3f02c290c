"""Models as text for a terminal: the summary, curves in one line, and the table of an effect."""

from __future__ import annotations

from typing import Any

import numpy as np

from cwboost._utils.text import format_cell, list_names, printable
from cwboost.explain.sizes import chosen_groups
from cwboost.export.tables import round_ends
from cwboost.frames.columns import Floats, Numbers
from cwboost.model.model import Model
from cwboost.model.term import find_terms

BLOCKS = "▁▂▃▄▅▆▇█"
CURVE_WIDTH = 48  # characters


def model_summary(model: Model) -> str:
    """Return what the model predicts, the columns with special roles, and `model.summary()`."""
    settings = model.settings
    target = "the target" if settings.target is None else printable(settings.target)
    roles = {"weights": settings.weights, "offset": settings.offset, "exposure": settings.exposure}
    lines = [f"predicts {target}" + (f": {list_names(model.classes)}" if model.classes else "")]
    lines += [f"{role}: {printable(name)}" for role, name in roles.items() if name is not None]
    return "\n".join([*lines, *map(printable, model.summary().split("\n"))])


def sparkline(values: Floats) -> str:
    """Return a curve in one line of text.

    Examples
    --------
    >>> sparkline(np.array([0.0, 1.0, 2.0, 1.0]))
    '▁▅█▅'
    """
    low, high = float(values.min()), float(values.max())
    heights = (values - low) / (high - low or 1.0) * (len(BLOCKS) - 1)
    return "".join(BLOCKS[int(h + 0.5)] for h in heights)


def curve_lines(model: Model) -> list[str]:
    """Return one line per numeric column, the most important first; none with several outputs."""
    out = []
    for column in _numeric_columns(model) if model.n_outputs == 1 else ():
        effect = model.effect(column, CURVE_WIDTH)
        at, values = effect.get(column), list(effect.values())[-1]
        if at is None or at.dtype == object:  # numbers used as categories
            continue
        known = ~np.isnan(at)
        at, values = at[known], values[known]
        if len(at):
            places = np.searchsorted(at, np.linspace(at[0], at[-1], CURVE_WIDTH), side="right") - 1
            curve = sparkline(values[np.maximum(places, 0)])
            out.append(f"  {format_cell(column):16} {at[0]:>6g} {curve} {at[-1]:g}")
    return out


def _numeric_columns(model: Model) -> list[str]:
    """Return the numeric columns with a chosen term of their own, the most important first."""
    groups, columns = chosen_groups(model), model.columns
    found = [groups[name][0].columns for name in model.importance()]
    return [c[0] for c in found if len(c) == 1 and columns[c[0]].kind == "numbers"]


def effect_table(model: Model, which: str, n: int) -> dict[str, Any]:
    """Return the effect of a term or column at every level, or at about n round numbers.

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
