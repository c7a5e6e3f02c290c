"""The explanation of one prediction: what every column adds to the score of a row, as a table."""

from __future__ import annotations

from typing import Any

import numpy as np

from cwboost._utils.checks import is_whole
from cwboost._utils.text import quote
from cwboost.frames.columns import Column, Numbers, format_number
from cwboost.frames.read_frames import read
from cwboost.frames.result_table import ResultTable
from cwboost.model.model import Model
from cwboost.model.scoring import output_labels, read_offsets

INTERCEPT, OFFSET, SCORE = "(intercept)", "(offset)", "(score)"


def explain(
    model: Model, table: Any, row: int = 0, *, offset: Any = None, exposure: Any = None
) -> ResultTable:
    """Return what every column adds to the score of one row, the largest effect first.

    Parameters
    ----------
    model : Model
    table : data frame, array or mapping with the columns of the chosen terms
    row : int
        Number of the row, counted from 0.
    offset, exposure : name of a column, optional
        As in `Model.predict`.

    Returns
    -------
    table with the columns "column", "value" and "effect" (with several classes "effect[<class>]").
    The terms of one column are added up; an interaction is "a:b". The last rows are the intercept,
    the offset if there is one, and the sum of all, the score.

    Examples
    --------
    >>> import cwboost as cb
    >>> table = {"g": ["a", "b"] * 9, "h": ["x", "x", "y"] * 6}
    >>> explain(cb.fit(table, [0.0, 1.0] * 9, n_iter=200), table, row=1)
         column  value  effect
              g      b     0.5
    (intercept)            0.5
        (score)              1
    (3 rows)
    """
    data = read(table)
    if not is_whole(row):
        raise TypeError(f"row: expected a whole number, got {quote(row)}")
    if not 0 <= row < data.n_rows:
        has = f"{data.n_rows} rows, 0 to {data.n_rows - 1}" if data.n_rows else "no rows"
        raise ValueError(f"row {row}: the table has {has}")
    one = data.take(np.arange(data.n_rows) == row)
    effects: dict[tuple[str, ...], Any] = {}
    for name, effect in model.contributions(one).items():
        columns = model.terms[name].columns
        effects[columns] = effects.get(columns, 0.0) + np.atleast_1d(effect[0])
    order = sorted(effects, key=lambda columns: -float(np.abs(effects[columns]).max()))
    values = [", ".join(_text(one[c]) or "(missing)" for c in columns) for columns in order]
    rows = [(":".join(c), v, effects[c]) for c, v in zip(order, values, strict=True)]
    rows.append((INTERCEPT, "", model.intercept_vector))
    offsets = read_offsets(model, one, offset, exposure)[0]
    if offsets.any():
        named = [name for name in (model.settings.offset, model.settings.exposure) if name]
        named = [str(name) for name in (offset, exposure) if name is not None] or named
        cells = ", ".join(f"{name} = {_text(one[name])}" for name in named if name in one)
        rows.append((OFFSET, cells, offsets))
    score = model.predict(one, kind="score", offset=offset, exposure=exposure)
    rows.append((SCORE, "", np.atleast_1d(score[0])))
    out = ResultTable(
        column=np.array([r[0] for r in rows], dtype=object),
        value=np.array([r[1] for r in rows], dtype=object),
    )
    for o, label in enumerate(output_labels(model)):
        name = "effect" if model.n_outputs == 1 else f"effect[{label}]"
        out[name] = np.array([float(r[2][o]) for r in rows])
    return out


def _text(column: Column) -> str:
    """Return the only cell of a column as text, empty if it is missing."""
    if column.missing[0]:
        return ""
    if isinstance(column, Numbers):
        return format_number(float(column.values[0]), column.boolean)
    return column.levels[int(column.codes[0])]
