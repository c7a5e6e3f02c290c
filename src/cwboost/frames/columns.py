"""The two kinds of column: `Numbers` and `Labels`.

- `Numbers`: float64, NaN where missing. Integers, floats, decimals and booleans. Dates and
  datetimes are days since 1970-01-01, durations are days.
- `Labels`: text levels and a code per row, -1 where missing. Strings and categorical columns.
  Levels have the order that their type declares (ordered categories, Enum); otherwise they are
  sorted.

A column in which all cells are missing is `Numbers`, whatever its type.
Does not know where columns come from (see read_frames.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cwboost import _core
from cwboost._utils.lazy import cached_property
from cwboost._utils.text import quote

Floats = NDArray[np.float64]
Unit = Literal["numbers", "dates", "durations"]
Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Numbers:
    """A numeric column."""

    name: str
    values: Floats  # (n,) NaN where missing
    boolean: bool = False
    exact: bool = True  # False: has integers so large that different ones may be one float
    unit: Unit = "numbers"  # what the numbers were; dates and durations count days

    def __len__(self) -> int:
        return len(self.values)

    def take(self, rows: NDArray[Any]) -> Numbers:
        """Return the column with some of the rows, given by a mask or by numbers."""
        return Numbers(self.name, self.values[rows], self.boolean, self.exact, self.unit)

    @cached_property
    def missing(self) -> NDArray[np.bool_]:
        """(n,) marks of the missing cells."""
        return np.isnan(self.values)

    def labels(self) -> Labels:
        """Return the column as categories: its distinct numbers are the levels, in order."""
        self.check_exact()
        index, distinct = np.empty(len(self), np.uint32), np.empty(len(self) + 1)
        distinct = distinct[: _core.bin_exactly(self.values, None, index, distinct)]
        codes = index.astype(np.int64)
        if len(distinct) and np.isnan(distinct[-1]):
            distinct = distinct[:-1]
            codes[codes == len(distinct)] = -1
        return Labels(self.name, codes, tuple(format_number(v, self.boolean) for v in distinct))

    def check_exact(self) -> None:
        """Raise if different integers may have become one float."""
        if not self.exact:
            raise ValueError(
                f"column {quote(self.name)}: integers beyond 2**53 cannot be told apart as "
                "numbers; turn them into strings to use them as categories"
            )

    def to_cells(self) -> NDArray[Any]:
        """Return the cells as a user would write them: booleans, integers or floats."""
        values = self.values
        if self.boolean and not self.missing.any():
            return np.asarray(values == 1)
        whole = self.exact and bool(np.all(values == np.floor(values)))
        return values.astype(np.int64) if whole else values


@dataclass(frozen=True, eq=False)
class Labels:
    """A categorical column."""

    name: str
    codes: Codes  # (n,) -1 where missing
    levels: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.codes)

    def take(self, rows: NDArray[Any]) -> Labels:
        """Return the column with some of the rows, given by a mask or by numbers."""
        return Labels(self.name, self.codes[rows], self.levels)

    @cached_property
    def missing(self) -> NDArray[np.bool_]:
        """(n,) marks of the missing cells."""
        return self.codes < 0

    def codes_of(self, marks: NDArray[np.bool_] | None) -> Codes:
        """Return the codes of the marked rows; None marks all rows."""
        return self.codes if marks is None else self.codes[marks]

    def labels(self) -> Labels:
        """Return the column itself."""
        return self

    def to_cells(self) -> NDArray[np.object_]:
        """Return the text of every row, None where missing."""
        return np.array([*self.levels, None], dtype=object)[self.codes]


Column = Numbers | Labels


class TargetError(ValueError):
    """A value of y that a loss cannot take, and its row among the rows that the loss was given."""

    def __init__(self, row: int, problem: str) -> None:
        super().__init__(row, problem)
        self.row, self.problem = row, problem

    def __str__(self) -> str:
        return f"y, row {self.row}: {self.problem}"


def format_number(value: float, boolean: bool = False) -> str:
    """Return the text of a number as a level: 3.0 -> '3', 2.5 -> '2.5', True -> 'True'."""
    if boolean:
        return str(bool(value))
    if isinstance(value, int):  # it may be beyond the range of floats
        return str(value)
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def concat(first: Column, second: Column) -> Column:
    """Return one column with the rows of `first`, then the rows of `second`.

    A column in which all cells are missing takes the kind of the other.
    """
    if isinstance(first, Numbers) and isinstance(second, Numbers):
        if first.unit != second.unit and not (first.missing.all() or second.missing.all()):
            raise _different_kinds(first, second)
        return Numbers(
            first.name,
            np.concatenate([first.values, second.values]),
            first.boolean and second.boolean,
            first.exact and second.exact,
            second.unit if first.missing.all() else first.unit,
        )
    if isinstance(first, Labels) and isinstance(second, Labels):
        if first.levels == second.levels:
            codes = np.concatenate([first.codes, second.codes])
            return Labels(first.name, codes, first.levels)
        levels = tuple(dict.fromkeys([*first.levels, *second.levels]))
        position = {level: i for i, level in enumerate(levels)}
        remap = np.array([position[level] for level in second.levels] + [-1], dtype=np.int64)
        return Labels(first.name, np.concatenate([first.codes, remap[second.codes]]), levels)
    if second.missing.all():
        return concat(first, _all_missing(first, len(second)))
    if first.missing.all():
        return concat(_all_missing(second, len(first)), second)
    raise _different_kinds(first, second)


def _different_kinds(first: Column, second: Column) -> TypeError:
    return TypeError(
        f"column {quote(first.name)}: {_kind(first)} in the first table, {_kind(second)} in the "
        "second"
    )


def _all_missing(like: Column, n: int) -> Column:
    if isinstance(like, Numbers):
        return Numbers(like.name, np.full(n, np.nan))
    return Labels(like.name, np.full(n, -1, dtype=np.int64), like.levels)


def _kind(column: Column) -> str:
    return column.unit if isinstance(column, Numbers) else "text"
