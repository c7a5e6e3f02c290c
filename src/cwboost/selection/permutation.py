"""Permutation importance: how much the risk of given rows rises if a column is shuffled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cwboost._utils.checks import check_whole
from cwboost.explain.given_rows import GivenRows
from cwboost.fitting.options import as_seed
from cwboost.frames.columns import Column, Floats
from cwboost.frames.result_table import ResultTable
from cwboost.frames.table import ComputedColumns, Table
from cwboost.losses import risk
from cwboost.model.model import Model
from cwboost.model.prediction import Predictor
from cwboost.model.term import Term

from .grouping import By
from .importance_table import importance_table

REPEATS = 10  # by default
MAX_REPEATS = 100_000


def permutation_importance(
    model: Model, rows: GivenRows, by: By, repeats: int = REPEATS, random_state: Any = 0
) -> ResultTable:
    """Return the rise of the risk if a column, or the effect of a term, is shuffled.

    A column is shuffled in all its terms, also in pairs. The standard error is over the repeats;
    it does not include which rows were given. All columns are shuffled in the same orders.

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> rng = np.random.default_rng(0)
    >>> table = {"a": rng.normal(size=500), "b": rng.normal(size=500)}
    >>> y = 2 * table["a"] + table["b"]
    >>> found = cb.fit(table, y).importance("permutation", table=table, y=y)
    >>> list(found["column"]), bool(found["importance"][0] > 3 * found["importance"][1])
    (['a', 'b'], True)
    """
    check_whole("repeats", repeats, 2, MAX_REPEATS)
    rows = _with_weight(rows)
    rng = np.random.default_rng(as_seed(random_state))
    orders = [rng.permutation(rows.data.n_rows) for _ in range(repeats)]
    score = rows.offset + model.intercept_vector
    model.predictor.add(rows.data, score, 1)
    base = risk(model.loss, rows.y, score, rows.weights)
    out: dict[str, Floats] = {}
    for name, terms in _groups(model, by).items():
        alone = Predictor(terms, model.columns)
        rest = score - _effect(alone, rows.data, model.n_outputs)
        risks = []
        for order in orders:
            if by == "term":
                moved = _effect(alone, rows.data, model.n_outputs)[order]
            else:
                moved = _effect(alone, _shuffled(rows.data, name, order), model.n_outputs)
            risks.append(risk(model.loss, rows.y, rest + moved, rows.weights) - base)
        out[name] = np.array(risks)
    return importance_table(by, out)


def _with_weight(rows: GivenRows) -> GivenRows:
    """Return the rows whose weight is not zero."""
    some = rows.weights > 0
    if some.all():
        return rows
    y = np.ascontiguousarray(rows.y[some])
    return GivenRows(rows.data.take(some), y, rows.weights[some], rows.offset[some])


def _groups(model: Model, by: By) -> dict[str, dict[str, Term]]:
    """Return the chosen terms that depend on every column, or each term by itself."""
    chosen = model.predictor.terms
    if by == "term":
        return {name: {name: term} for name, term in chosen.items()}
    columns = dict.fromkeys(name for term in chosen.values() for name in term.columns)
    return {c: {n: t for n, t in chosen.items() if c in t.columns} for c in columns}


def _effect(predictor: Predictor, table: Table, n_outputs: int) -> Floats:
    """Return (n, q) the sum of the effects of some terms."""
    score = np.zeros((table.n_rows, n_outputs))
    predictor.add(table, score, 1)
    return score


def _shuffled(table: Table, name: str, order: NDArray[np.int64]) -> Table:
    """Return a table in which the cells of one column are in another order."""

    def compute(column: str) -> Column:
        found = table[column]
        return found.take(order) if column == name else found

    return Table(table.names, table.n_rows, ComputedColumns(compute))
