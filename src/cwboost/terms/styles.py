"""Styles: which learners the columns of a table get if the user names none.

Does not know how learners work (see `learners`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cwboost._utils.checks import has_items, is_one_of
from cwboost._utils.text import quote
from cwboost._utils.user_warnings import warn_user
from cwboost.binning.number_statistics import statistics_of
from cwboost.frames.columns import Floats, Labels, Numbers
from cwboost.frames.table import Table

from .learners import STEP_BINS, Category, Centered, Learner, Linear, Spline, Step
from .screening import level_evidence, spike_evidence

MIN_ROWS = 1000  # in smaller tables columns are not checked for being identifiers
FEW_VALUES = 10  # with at most this number of distinct values a curve is no better than steps
MANY_LEVELS = 2 * FEW_VALUES  # with more, the target must speak for a term of single levels
MAX_SPIKES = 1024  # distinct values
ROWS_PER_SPIKE = 10
SPIKE_ERRORS = 5.0  # standard errors by which single values must deviate from a curve
LEVEL_ERRORS = 3.0  # standard errors by which levels must differ; less strict, because the
# alternative is to ignore the column


def _auto(column: Numbers) -> list[Learner]:
    """Return a curve and steps, if there are enough values to tell them apart.

    The fit chooses the curve where the data are smooth, and the steps where they jump. If most rows
    have the same value, the others are exceptions: there is no curve, and spikes are added if there
    are so few values that each of them may have a meaning.
    """
    name, distinct = column.name, statistics_of(column).distinct(None, STEP_BINS)
    n_values = np.inf if distinct is None else len(distinct)
    if n_values <= FEW_VALUES:
        return [Linear(name) if n_values <= 2 else Step(name)]
    if not statistics_of(column).mostly_one():
        return [Spline(name), Step(name)]
    spikes = [Step(name, kind="spikes")] if MANY_LEVELS < n_values <= STEP_BINS else []
    return [Step(name), *spikes]


# The learners of a numeric column, by style.
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
    target: Floats | None = None,
) -> list[Any]:
    """Return the learners for a table.

    Parameters
    ----------
    table : Table
    learners : list of learners, or the name of a style, optional
        These learners and no others. With an Ellipsis in the list (`[Spline("age", df=3), ...]`),
        columns that they do not name get learners of the style.
    exclude : names of columns that get no term
    terms : "auto", "linear", "smooth", "step" or "components"
        The style: what numeric columns get; others get a Category. "auto": a Spline and a Step
        (with at most 10 distinct values a Step only, with two a Linear; if more than half of the
        rows have the same value, a Step, and for 21 to 128 distinct values another one of kind
        "spikes"); "smooth": a Spline; "components": a Linear and a Centered.
    apart : names of columns that are not features
    target : (n, q) numbers, optional
        The target of the rows, see `screening.target_block`. With it and 1,000 rows or more, a
        column of more than 20 levels gets a Category only if its levels differ by more than noise.

    Examples
    --------
    >>> from cwboost.frames.read_frames import read
    >>> table = read({"age": [20.0, 30.0, 40.0], "job": ["a", "b", "a"]})
    >>> [type(x).__name__ for x in make_learners(table, "components")]
    ['Linear', 'Centered', 'Category']
    >>> [type(x).__name__ for x in make_learners(table, [Step("age"), ...])]
    ['Step', 'Category']
    """
    given, style, only_given = _read_argument(learners, terms)
    for name in exclude:
        table.check_name(name)
        if any(isinstance(x, Learner) and name in x.columns for x in given):
            raise ValueError(f"column {quote(name)} is excluded, but a learner names it")
    if only_given:
        return given
    out: list[Any] = list(given)
    for name in _columns_of_style(table, given, [*exclude, *apart]):
        column = _read_enough(table, name, style)
        if isinstance(column, Labels):
            out += _category(column, target if len(column) >= MIN_ROWS else None)
        elif column.boolean:
            out.append(Category(name))
        else:
            out += STYLES[style](column)
            _warn_of_row_numbers(column)
    return out


def spike_candidates(
    table: Table,
    learners: Any,
    exclude: Sequence[str],
    terms: str,
    apart: Sequence[str],
    target: Floats,
) -> list[Learner]:
    """Return spikes for columns in which single values seem to deviate from a curve.

    The arguments are those of `make_learners`. Only columns with learners of the style "auto" are
    tested, if they have 21 to 1,024 distinct values and ten rows for each.
    """
    given, style, only_given = _read_argument(learners, terms)
    if only_given or style != "auto" or table.n_rows < MIN_ROWS:
        return []
    columns = (table.unchecked(x) for x in _columns_of_style(table, given, [*exclude, *apart]))
    numbers = (x for x in columns if isinstance(x, Numbers) and not x.boolean)
    return [x for column in numbers if (x := _spikes(column, target)) is not None]


def _spikes(column: Numbers, target: Floats) -> Learner | None:
    """Return spikes if single values of the column deviate from a curve by more than noise."""
    points = statistics_of(column).distinct(None, MAX_SPIKES)
    if points is None or not MANY_LEVELS < len(points) <= len(column) / ROWS_PER_SPIKE:
        return None
    if len(points) <= STEP_BINS and statistics_of(column).mostly_one():
        return None  # `_auto` has added spikes
    codes = np.where(column.missing, -1, np.searchsorted(points, column.values))
    if spike_evidence(points, codes, target) < SPIKE_ERRORS:
        return None
    return Step(column.name, bins=max(STEP_BINS, len(points)), kind="spikes")


def _columns_of_style(table: Table, given: Sequence[Any], skipped: Sequence[str]) -> list[str]:
    """Return the columns that get learners of the style: no given learner is their main effect."""
    has_term = {x.columns[0] for x in given if isinstance(x, Learner) and x.is_main_effect}
    return [name for name in table.names if name not in has_term.union(skipped)]


def _category(column: Labels, target: Floats | None) -> list[Learner]:
    """Return a Category, or nothing if the levels of the column say nothing about new rows."""
    n, n_levels = int(np.count_nonzero(column.codes >= 0)), len(column.levels)
    if n_levels <= MANY_LEVELS:
        return [Category(column.name)]
    ignored = "it gets no term; exclude it, or name it in learners= or a formula to keep it"
    if n_levels >= n:
        _warn(column, f"a different level in every row: {ignored}")
        return []
    if target is not None and level_evidence(column.codes, n_levels, target) < LEVEL_ERRORS:
        _warn(column, f"{n_levels} levels in {n} rows that differ no more than noise: {ignored}")
        return []
    if n >= MIN_ROWS and 2 * n_levels > n:
        _warn(
            column,
            f"{n_levels} levels in {n} rows: its effects are shrunk and new levels have none; "
            "exclude it if it only identifies rows",
        )
    return [Category(column.name)]


def _warn(column: Numbers | Labels, text: str) -> None:
    warn_user(f"column {quote(column.name)} has {text}")


def _read_argument(learners: Any, style: str) -> tuple[list[Any], str, bool]:
    """Return the learners of the argument, the style of the other columns, and whether the other
    columns get no learners."""
    styles = ", ".join(map(repr, STYLES))
    if isinstance(learners, str):
        if learners not in STYLES:
            raise TypeError(
                "learners: expected learners such as cb.Spline('age'), or one of "
                f"{styles}; got {quote(learners)} of type str"
            )
        learners, style = None, learners
    if not is_one_of(style, STYLES):
        raise ValueError(f"terms: expected one of {styles}; got {quote(style)}")
    if learners is None:
        return [], style, False
    if not isinstance(learners, list | tuple):
        learners = list(learners) if has_items(learners) else [learners]
    given = [x for x in learners if x is not Ellipsis]
    return given, style, len(given) == len(learners)


def _read_enough(table: Table, name: str, style: str) -> Numbers | Labels:
    """Return the column, or only its first rows if they settle which learners it gets."""
    head = None if table.head is None or style == "auto" else table.head(name)
    if (
        isinstance(head, Numbers)
        and not head.missing.all()
        and not statistics_of(head).counts_rows(table.n_rows)
    ):
        return head
    return table.unchecked(name)


def _warn_of_row_numbers(column: Numbers) -> None:
    """Warn if the column seems to number the rows: it is then useless for new rows."""
    n = len(column)
    if n >= MIN_ROWS and statistics_of(column).counts_rows(n):
        _warn(
            column,
            "a different whole number in every row, like a row number, and gets a curve; exclude "
            "it if it only identifies rows",
        )
