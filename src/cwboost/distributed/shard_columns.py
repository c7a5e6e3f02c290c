"""Statistics of the columns of one shard: ranges, distinct values, ranks, counts.

Does not know how the statistics of several shards are combined (see sharded_table.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cwboost import _core
from cwboost._core import TRAINING_PART
from cwboost.binning.number_statistics import LocalNumbers
from cwboost.binning.rules import AUTO_POINTS
from cwboost.binning.summary import Sample
from cwboost.frames.chunks import Chunk, UnifiedColumn
from cwboost.frames.columns import Floats, Labels, Numbers
from cwboost.frames.table import check_finite

from .partitions import Partition
from .shard_rows import ShardRows

COMPARED = 64  # numbers of every shard that are looked for in the others
TARGET = "\0 y - offset"  # requested as if it were a column


class ValueCounts(NamedTuple):
    """The distinct numbers of a column that has few."""

    values: Floats
    weights: Floats  # of the training rows that have each value
    training: NDArray[np.int64]  # the number of these rows
    everywhere: NDArray[np.int64]  # the number of all rows that have each value


class ShardColumnSummary(NamedTuple):
    """What a shard has in a column."""

    chunk: Chunk  # without rows; of text with all values
    where: str  # names the partitions, for messages
    missing: int  # in the training rows
    any_missing: int  # in all rows
    in_training: NDArray[np.bool_] | None = None  # of text: the values that training rows have
    low: float = np.inf  # of the training rows; above `high` if they have no number
    high: float = -np.inf
    lowest: float = np.inf  # of all rows
    highest: float = -np.inf
    few: ValueCounts | None = None  # None if there are many distinct numbers


class RowNumbering(NamedTuple):
    """Whether the numbers of a column may number the rows of a table."""

    distinct: bool  # every row of the shard has a whole number of its own
    low: float
    high: float
    some: Floats  # a few of the numbers, to be looked for on other shards


class SortedColumn(NamedTuple):
    """The numbers of the training rows in a column, increasing, with cumulative weights."""

    values: Floats
    cumulative: Floats

    def up_to(self, ends: Floats) -> tuple[Floats, Floats]:
        """Return the number of rows, and their weight, up to each of some numbers."""
        n = np.searchsorted(self.values, ends, side="right")
        return n.astype(np.float64), np.append(self.cumulative, 0.0)[n - 1]

    def between(self, low: Floats, high: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the distinct numbers in the intervals (low, high], their weights, and the next
        number above each `high`."""
        begin, end = (np.searchsorted(self.values, x, side="right") for x in (low, high))
        found = [self._distinct(a, b) for a, b in zip(begin.tolist(), end.tolist(), strict=True)]
        values, weights = (np.concatenate(parts) for parts in zip(*found, strict=True))
        return values, weights, np.append(self.values, np.inf)[end]

    def _distinct(self, begin: int, end: int) -> tuple[Floats, Floats]:
        """Return the distinct numbers of some rows, and their weights."""
        if begin < end and self.values[begin] == self.values[end - 1]:  # avoids a long difference
            last = np.array([end - 1])
        else:
            last = begin + np.flatnonzero(np.diff(self.values[begin:end], append=np.inf))
        before = self.cumulative[begin - 1] if begin else 0.0
        return self.values[last], np.diff(self.cumulative[last], prepend=before)


class ShardColumns(ShardRows):
    """Rows that answer questions about their columns."""

    def __init__(self, partitions: Sequence[Partition], n_threads: int) -> None:
        super().__init__(partitions, n_threads)
        self._sorted: tuple[str, SortedColumn] | None = None  # the last column that was sorted

    # --- summaries --------------------------------------------------------------------------------

    def describe(self, names: Sequence[str]) -> list[ShardColumnSummary]:
        """Return summaries of some columns."""
        return [self._describe(name) for name in names]

    def _describe(self, name: str) -> ShardColumnSummary:
        where = ", ".join(str(p.number) for p in self.partitions[:5])
        where = f"partitions {where}" + ", ..." * (len(self.partitions) > 5)
        if name == TARGET:
            return self._describe_numbers(Numbers(name, self._numbers(name)), "numbers", where)
        unified = UnifiedColumn(name)
        column = self.gather_column(name, unified)
        if isinstance(column, Numbers):
            return self._describe_numbers(column, unified.kind, where)
        of_value = unified.finish()
        assert isinstance(of_value, Labels)
        in_training = np.isin(of_value.codes, column.codes_of(self.sample.marks))
        chunk = Chunk("text", np.arange(len(in_training)), unified.values, unified.order)
        missing, any_missing = int(column.missing[self.training].sum()), int(column.missing.sum())
        return ShardColumnSummary(chunk, where, missing, any_missing, in_training)

    def _describe_numbers(self, column: Numbers, kind: str, where: str) -> ShardColumnSummary:
        numbers, own = LocalNumbers(column.values), column.values[: self.n_own]
        found, everywhere = numbers.survey(self.sample), numbers.survey(Sample.of(self.n_rows))
        if found.infinite:
            check_finite(column, self.table)
        distinct = _core.distinct(own, None, AUTO_POINTS)
        return ShardColumnSummary(
            chunk=Chunk(kind, np.empty(0), exact=column.exact),
            where=where,
            missing=found.missing,
            any_missing=found.any_missing,
            low=found.low,
            high=found.high,
            lowest=everywhere.low,
            highest=everywhere.high,
            few=None if distinct is None else self._count_values(own, distinct),
        )

    def _count_values(self, values: Floats, distinct: Floats) -> ValueCounts:
        known = ~np.isnan(values)
        code, n = np.searchsorted(distinct, values[known]), len(distinct)
        rows, w = (x[: self.n_own][known] for x in (self.training, self.parts[TRAINING_PART]))
        return ValueCounts(
            distinct,
            np.bincount(code, w, minlength=n).astype(np.float64),
            np.bincount(code[rows], minlength=n),
            np.bincount(code, minlength=n),
        )

    def _numbers(self, name: str) -> Floats:
        if name == TARGET:
            return np.asarray(self.y - self.offset[:, 0])
        column = self.table.unchecked(name)
        assert isinstance(column, Numbers)
        return column.values

    # --- ranks of the training rows ---------------------------------------------------------------

    def _sort(self, name: str) -> SortedColumn:
        """Return the sorted column, which is kept until another column is requested."""
        if self._sorted is None or self._sorted[0] != name:
            values = self._numbers(name)
            rows = self.training & ~np.isnan(values)
            values = values[rows] + 0.0
            order = np.argsort(values, kind="stable")
            w = self.parts[TRAINING_PART][rows].astype(np.float64)
            self._sorted = name, SortedColumn(values[order], np.cumsum(w[order]))
        return self._sorted[1]

    def forget_sorted(self) -> None:
        """Free the sorted column."""
        self._sorted = None

    def up_to(self, name: str, ends: Floats) -> NDArray[np.float64]:
        """Return (2, n) rows and weight of the training rows up to each of n numbers."""
        return np.stack(self._sort(name).up_to(ends))

    def between(self, name: str, low: Floats, high: Floats) -> tuple[Floats, Floats, Floats]:
        """Return what `SortedColumn.between` returns."""
        return self._sort(name).between(low, high)

    # --- values and counts ------------------------------------------------------------------------

    def distinct(self, name: str, limit: int, everywhere: bool) -> Floats | None:
        """Return the distinct numbers of the training rows or, with `everywhere`, of all rows;
        None if there are more than `limit`."""
        values, marks = self._numbers(name), self.sample.marks
        if everywhere:
            return _core.distinct(values[: self.n_own], None, limit)
        return _core.distinct(values, marks, limit)

    def sums(self, name: str) -> NDArray[np.float64]:
        """Return the weight of the known training cells of a column, and their weighted sum."""
        values, weights = self.sample.known(self._numbers(name))
        return np.array([weights.sum(), weights @ values])

    def count(self, name: str, values: Floats) -> NDArray[np.int64]:
        """Return how many rows have each of some increasing values; last, how many are known."""
        column = self._numbers(name)[: self.n_own]
        code = np.searchsorted(values, column)
        hit = np.append(values, np.nan)[code] == column
        counts = np.bincount(code[hit], minlength=len(values))
        return np.append(counts, np.count_nonzero(~np.isnan(column)))

    def median(self, name: str) -> float | None:
        """Return the median of all rows; None if all cells are missing."""
        values = self._numbers(name)[: self.n_own]
        if np.isnan(values).all():
            return None
        return float(_core.quantiles(values, None, None, np.array([0.5]))[0])

    def row_numbering(self, name: str) -> RowNumbering:
        """Return whether a column may number the rows."""
        values = self._numbers(name)[: self.n_own]
        if np.isnan(values).any() or np.any(values != np.round(values)):
            return RowNumbering(False, 0.0, 0.0, values[:0])
        distinct = len(np.unique(values)) == len(values)
        low, high = float(values.min(initial=np.inf)), float(values.max(initial=-np.inf))
        return RowNumbering(distinct, low, high, values[:COMPARED])
