"""Effects of terms and columns as tables: where they are evaluated, and their values.

Does not know about bands (see bands.py) or drawing (see shapes.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from cwboost._utils.checks import check_whole
from cwboost.frames.columns import Floats, Labels, Numbers
from cwboost.frames.result_table import ResultTable
from cwboost.model.model import Model
from cwboost.model.records import ColumnFacts
from cwboost.model.scoring import output_labels
from cwboost.model.term import Term, find_terms

MAX_POINTS = 10_000_000  # of a curve
PAIR_POINTS = 40  # points per numeric column of a pair


def effect(model: Model, which: str, n: int = 200) -> ResultTable:
    """See Model.effect."""
    check_points(n, "effect")
    terms = find_terms(model.terms, which)
    grid = effect_grid(model, terms, n)
    out = ResultTable(zip(terms[0].columns, grid, strict=True))
    add_outputs(out, model, {"effect": total_effect(model, terms, grid)})
    return out


def check_points(n: Any, what: str) -> None:
    """Raise if n is not a number of points."""
    check_whole(f"{what}: n", n, 2, MAX_POINTS)


def effect_grid(model: Model, terms: Sequence[Term], n: int) -> list[Any]:
    """Return the points at which an effect is shown: per column the values of all points."""
    columns = terms[0].columns
    axes = [
        effect_axis(model.columns[c], [t for t in terms if c in t.columns], c, n) for c in columns
    ]
    return axes if len(axes) == 1 else cross(axes[0], axes[1])


def cross(a: Any, b: Any) -> list[Any]:
    """Return the values of both columns at all pairs of points; b varies fastest."""
    i, j = np.divmod(np.arange(len(a) * len(b)), len(b))
    return [a[i], b[j]]


def effect_axis(
    facts: ColumnFacts, terms: Sequence[Term], column: str, n: int, pair_points: int = PAIR_POINTS
) -> Any:
    """Return where the effect of one column is shown: levels, or points from low to high.

    Missing cells are the last point of a single column that had some in training: None among
    levels, NaN among numbers.
    """
    encoders = [t.plan.encoders[t.columns.index(column)] for t in terms]
    levels = [e.levels for e in encoders if e.levels]
    if levels and not any(e.is_numeric for e in encoders):
        labels: list[str | None] = [*levels[0], *([None] * facts.missing)]
        return np.array(labels, dtype=object)
    if facts.low is None or facts.high is None:
        return np.array([np.nan])
    single = len(terms[0].columns) == 1
    if not single:
        points = np.linspace(facts.low, facts.high, min(n, pair_points))
    elif all(e.has_steps for e in encoders):
        points = np.array([facts.low, facts.high])  # the ends of the steps say it all
    else:
        points = np.linspace(facts.low, facts.high, n)
    for encoder in encoders:
        points = encoder.add_steps(points)
    return np.append(points, np.nan) if facts.missing and single else points


def total_effect(model: Model, terms: Sequence[Term], grid: Sequence[Any]) -> Floats:
    """Return (n, q) the sum of the terms' effects at values of their columns."""
    total = np.zeros((len(grid[0]), model.n_outputs))
    for term, values in zip(terms, encode_grid(terms, grid), strict=True):
        total = total + term.effect_at(values)
    return total


def encode_grid(terms: Sequence[Term], grid: Sequence[Any]) -> list[Floats]:
    """Return the values of the columns as each term encodes them."""
    columns = terms[0].columns
    cells = {name: _as_column(values, name) for name, values in zip(columns, grid, strict=True)}
    return [term.plan.encode([cells[c] for c in term.columns]) for term in terms]


def _as_column(values: Any, name: str) -> Numbers | Labels:
    if values.dtype != object:
        return Numbers(name, values)
    levels = tuple(dict.fromkeys(v for v in values if v is not None))
    position = {level: i for i, level in enumerate(levels)}
    return Labels(name, np.array([position.get(v, -1) for v in values], dtype=np.int64), levels)


def add_outputs(out: ResultTable, model: Model, blocks: Mapping[str, Floats]) -> None:
    """Add blocks (n, q) to a table, one column per output.

    Outputs that a term does not move (zero columns of `Term.beta`) have an effect of zero.
    """
    for o, label in enumerate(output_labels(model)):
        for name, block in blocks.items():
            key = name if model.n_outputs == 1 else f"{name}[{label}]"
            while key in out:  # a column of the table has this name
                key += "_"
            out[key] = block[:, o]
