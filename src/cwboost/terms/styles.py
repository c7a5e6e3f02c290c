"""Which learners a table gets when people name a style instead of learners.

Knows the styles and what each makes of a column; knows nothing of how learners work.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from cwboost.binning.numbers import statistics_of
from cwboost.frames.table import Labels, Numbers, Table

from .learners import STEP_BINS, Category, Centered, Learner, Linear, Missing, Spline, Step

ENOUGH = 1000  # rows from which on a column can be told to name its rows
FEW = 10  # distinct numbers up to which a curve and its steps are one thing


def _auto(column: Numbers) -> list[Learner]:
    """A curve, and steps beside it where there are enough values to tell them apart: the fit
    takes the curve where the data are smooth and the steps where they jump or spike.

    Where most rows have one value, the others are exceptions: no curve, and spikes where there are
    so few that each of them may mean something.
    """
    name, found = column.name, statistics_of(column).distinct(None, STEP_BINS)
    n_values = np.inf if found is None else len(found)
    if n_values <= FEW:
        return [Linear(name) if n_values <= 2 else Step(name)]
    if not statistics_of(column).mostly_one():
        return [Spline(name), Step(name)]
    spikes = [Step(name, kind="spikes")] if 2 * FEW < n_values <= STEP_BINS else []
    return [Step(name), *spikes]


STYLES: dict[str, Callable[[Numbers], list[Learner]]] = {
    "auto": _auto,
    "linear": lambda column: [Linear(column.name)],
    "smooth": lambda column: [Spline(column.name)],
    "step": lambda column: [Step(column.name)],
    "components": lambda column: [Linear(column.name), Centered(column.name)],
}


def make_learners(
    table: Table,
    learners: Any = None,
    exclude: Sequence[str] = (),
    terms: str = "smooth",
    apart: Sequence[str] = (),
) -> list[Any]:
    """Learners for a table.

    Parameters
    ----------
    table : Table
    learners : list of learners, or the name of a style, optional
        These and no others; with an Ellipsis in it (`[Spline("age", df=3), ...]`) these, and the
        style for all columns that they do not name.
    exclude : names of columns that get no term
    terms : "auto", "linear", "smooth", "step" or "components"
        The style: what numeric columns get; others get a Category. "auto": a Spline and a Step
        side by side (a Step alone up to 10 distinct values, a Linear for two; where more than half
        of the rows have one value, a Step, and one of kind "spikes" beside it for 21 to 128
        distinct values); "smooth": a Spline; "components": a Linear and a Centered.

    Examples
    --------
    >>> from cwboost.frames.table import read
    >>> table = read({"age": [20.0, 30.0, 40.0], "job": ["a", "b", "a"]})
    >>> [type(x).__name__ for x in make_learners(table, "components")]
    ['Linear', 'Centered', 'Category']
    >>> [type(x).__name__ for x in make_learners(table, [Step("age"), ...])]
    ['Step', 'Category']
    """
    styles = ", ".join(map(repr, STYLES))
    if isinstance(learners, str):
        if learners not in STYLES:
            raise TypeError(
                "learners: expected learners such as cb.Spline('age'), or one of "
                f"{styles}; got {learners!r} of type str"
            )
        learners, terms = None, learners
    if terms not in STYLES:
        raise ValueError(f"terms: expected one of {styles}; got {terms!r}")
    if learners is not None and not isinstance(learners, list | tuple):
        learners = list(learners) if isinstance(learners, Iterable) else [learners]
    given = [] if learners is None else [x for x in learners if x is not Ellipsis]
    for name in exclude:
        if name not in table:
            table[name]  # raises, and says what the table has
        if any(isinstance(x, Learner) and name in x.columns for x in given):
            raise ValueError(f"column {name!r} gets no term, but a learner names it")
    if learners is not None and len(given) == len(learners):
        return given
    named = {
        x.columns[0]
        for x in given
        if isinstance(x, Learner) and len(x.columns) == 1 and not isinstance(x, Missing)
    }
    out: list[Any] = list(given)
    for name in table.names:
        if name not in named and name not in exclude and name not in apart:
            column = _enough_of(table, name, terms)
            if isinstance(column, Numbers) and not column.boolean:
                out += STYLES[terms](column)
            else:
                out.append(Category(name))
            _warn_of_identifiers(column)
    return out


def _enough_of(table: Table, name: str, terms: str) -> Numbers | Labels:
    """A column, or its first rows where they tell what it gets: numbers that do not count rows."""
    head = None if table.head is None or terms == "auto" else table.head(name)
    if (
        isinstance(head, Numbers)
        and not head.missing.all()
        and not statistics_of(head).counts_rows(table.n_rows)
    ):
        return head
    return table.unchecked(name)


def _warn_of_identifiers(column: Numbers | Labels) -> None:
    """Columns that only name their rows say nothing of new ones; people should know they are in."""
    n = len(column)
    if n < ENOUGH:
        return
    if isinstance(column, Labels):
        if 2 * len(column.levels) > n:
            warnings.warn(
                f"column {column.name!r} has {len(column.levels)} levels in {n} rows: its effects "
                "are shrunk and new levels get none; exclude it if it only names the rows",
                UserWarning,
                stacklevel=4,
            )
        return
    if statistics_of(column).counts_rows(n):
        warnings.warn(
            f"column {column.name!r} has another whole number in every row, like a count of the "
            "rows: it gets a curve over them; exclude it if it only names the rows",
            UserWarning,
            stacklevel=4,
        )
