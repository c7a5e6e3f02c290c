"""Columns of rows in many places: a table whose columns describe themselves.

Knows how the answers of several shards become facts of one column, and how exact ranks are found
from counts. Knows nothing of y, bins or the fit.

Exact quantiles of numbers elsewhere: the weight up to some numbers is asked for, interval by
interval, until those that hold a wanted rank have few rows; only these are told. The rest stands
for itself by its weight, so that the code that finds quantiles of rows in memory finds the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cwboost.binning.min_rows import CodeCounts, Coder, MinRows
from cwboost.binning.numbers import RemoteNumbers
from cwboost.binning.rules import AUTO_POINTS, Bins, Points
from cwboost.binning.summary import ColumnSummary
from cwboost.frames.chunks import UnifiedColumn
from cwboost.frames.columns import Codes, Column, Floats, Labels, Numbers, format_number
from cwboost.frames.table import ComputedColumns, Table

from .shard import CodeBinning, PointBinning, ShardColumnSummary, ValueCounts
from .shards import Shards

PARTS_OF_INTERVAL = 64
FEW_ROWS = 64  # of an interval that are told
NEAR = 1e-9  # ranks closer than this share of the weight are resolved together


def _merged(found: Sequence[ShardColumnSummary]) -> ValueCounts | None:
    """The distinct numbers of all shards; None: there are many."""
    few = [d.few for d in found if d.few is not None]
    if len(few) < len(found):
        return None
    values, code = np.unique(np.concatenate([c.values for c in few]), return_inverse=True)
    _, *counts = (np.concatenate(parts) for parts in zip(*few, strict=True))
    sums: list[Any] = [np.bincount(code, c, minlength=len(values)) for c in counts]
    return ValueCounts(values, *sums)


class ShardedNumbers(RemoteNumbers):
    """The numbers that shards have in a column, or as y - offset."""

    def __init__(
        self, name: str, shards: Shards, n_rows: int, found: Sequence[ShardColumnSummary]
    ) -> None:
        self.name, self.shards, self.n_rows = name, shards, n_rows
        self._found, self._few = found, _merged(found)

    def __len__(self) -> int:
        return self.n_rows

    def survey(self) -> tuple[float, float, int, int, bool, bool]:
        low, high = min(d.low for d in self._found), max(d.high for d in self._found)
        least, largest = self.ends
        missing = sum(d.missing for d in self._found)
        everywhere = sum(d.any_missing for d in self._found)
        beyond = low <= high and (least < low or largest > high)
        return low, high, missing, everywhere, bool(beyond), False

    @property
    def ends(self) -> tuple[float, float]:
        """Of all rows."""
        return min(d.least for d in self._found), max(d.largest for d in self._found)

    def distinct(self, limit: int, everywhere: bool) -> Floats | None:
        if self._few is not None:
            values = self._few.values if everywhere else self._of_few[0]
            return values if len(values) <= limit else None
        if everywhere and limit <= AUTO_POINTS:
            return None
        found = self.shards.ask("distinct", self.name, limit, everywhere)
        if any(values is None for values in found):
            return None
        values = np.unique(np.concatenate(found))
        return values if len(values) <= limit else None

    def mean(self) -> float:
        weight, total = self.shards.total("sums", self.name)
        return float(total / weight)

    def mostly_one(self) -> bool:
        if self._few is not None:
            counts = self._few.everywhere
            return bool(2 * counts.max(initial=0) > counts.sum())
        medians = [m for m in self.shards.ask("median", self.name) if m is not None]
        candidates = np.unique(medians)  # whoever has more than half has it in some shard
        *counts, known = self.shards.total("count", self.name, candidates)
        return bool(2 * max(counts, default=0) > known)

    def counts_rows(self) -> bool:
        each, low, high, some = zip(*self.shards.ask("counting", self.name), strict=True)
        if not all(each) or not max(high) - min(low) < 2 * self.n_rows:
            return False
        values = np.unique(np.concatenate(some))
        *counts, _ = self.shards.total("count", self.name, values)
        return bool(max(counts) == 1)  # one shard's numbers are no other's

    # --- ranks ------------------------------------------------------------------------------------

    def outline(self, shares: Floats) -> tuple[Floats, Floats]:
        if self._few is not None:
            return self._of_few
        return self._resolved(np.asarray(shares) * self._weight)

    def outline_of_steps(self, n_bins: int) -> tuple[Floats, Floats]:
        if self._few is not None:
            return self._of_few
        total = self._weight
        grid = np.arange(n_bins + 1) / n_bins * total
        _, w = self._resolved(grid)
        atom = w >= (1.0 - 1e-12) / n_bins * total  # what is not resolved weighs less
        after = np.cumsum(w)[atom]
        sizes = w[atom]
        before = after - sizes
        others = before - (np.cumsum(sizes) - sizes)  # weight of other values before each atom
        n_steps, rest = n_bins - len(sizes), total - sizes.sum()
        ranks = np.arange(1, n_steps) / n_steps * rest if n_steps > 1 else np.empty(0)
        shifted = [
            ranks + np.append(0.0, np.cumsum(sizes))[np.searchsorted(others, ranks, side=side)]
            for side in ("left", "right")
        ]
        return self._resolved(np.concatenate([grid, before, after, *shifted]))

    @property
    def _of_few(self) -> tuple[Floats, Floats]:
        assert self._few is not None
        inside = self._few.training > 0
        return self._few.values[inside], self._few.weights[inside]

    @cached_property
    def _weight(self) -> float:
        return float(self._up_to(np.array([np.inf]))[1, 0])

    def _up_to(self, ends: Floats) -> Any:
        return self.shards.total("up_to", self.name, ends)

    def _resolved(self, targets: Floats) -> tuple[Floats, Floats]:
        """Numbers and weights in which whatever reaches one of the targets is by itself."""
        low, high, *_ = self.survey()
        rows, total = self._up_to(np.array([np.inf]))[:, 0]
        near = NEAR * total
        wanted = np.unique(np.clip(np.concatenate([targets - near, targets + near]), 0.0, total))
        below = _key(float(np.nextafter(low, -np.inf)))
        todo, done = [Interval(below, _key(high), 0.0, rows, 0.0, total)], []
        while todo:
            inner = [_splitters(x.low, x.high) for x in todo]
            reached = self._up_to(_numbers([key for keys in inner for key in keys]))
            at, narrowed = 0, []
            for interval, keys in zip(todo, inner, strict=True):
                narrowed += interval.narrowed(keys, reached[:, at : at + len(keys)], wanted)
                at += len(keys)
            done += [x for x in narrowed if x.small]
            todo = [x for x in narrowed if not x.small]
        return self._told(sorted(done), total)

    def _told(self, intervals: Sequence[Interval], total: float) -> tuple[Floats, Floats]:
        """What the intervals hold, and between two of them all at its first number."""
        low, high = (_numbers([getattr(x, end) for x in intervals]) for end in ("low", "high"))
        before, after = np.array([(x.before, x.after) for x in intervals]).T
        found = self.shards.ask("between", self.name, low, high)
        following = np.min([a for *_, a in found], axis=0)
        rest = np.append(before[1:], total) - after  # between an interval and the next
        gap = rest > 1e-12 * total
        first = [self.survey()[0]] if before[0] > 0 else []
        values = np.concatenate([*(v for v, _, _ in found), following[gap], first])
        weights = np.concatenate([*(w for _, w, _ in found), rest[gap], before[: len(first)]])
        distinct, code = np.unique(values, return_inverse=True)
        sums: Any = np.bincount(code, weights, minlength=len(distinct))
        return distinct, sums


class Interval(NamedTuple):
    """Numbers above one key and up to another, with the rows and the weight up to either."""

    low: int
    high: int
    rows_before: float
    rows_after: float
    before: float
    after: float

    @property
    def small(self) -> bool:
        return self.rows_after - self.rows_before <= FEW_ROWS or self.high - self.low == 1

    def narrowed(self, keys: Sequence[int], reached: Floats, wanted: Floats) -> list[Interval]:
        """Its parts up to some keys that have rows and hold something wanted."""
        ends = [self.low, *keys]
        rows = [self.rows_before, *reached[0].tolist()]
        weight = np.append(self.before, reached[1])
        first = np.searchsorted(wanted, weight[:-1])
        last = np.searchsorted(wanted, weight[1:], side="right")
        return [
            Interval(*ends[j : j + 2], *rows[j : j + 2], *weight[j : j + 2].tolist())
            for j in np.flatnonzero(last > first).tolist()
            if rows[j + 1] > rows[j]
        ]


def _key(value: float) -> int:
    """Whole numbers in the order of floats."""
    bits = int(np.array([value + 0.0]).view(np.uint64)[0])
    return (~bits & (2**64 - 1)) if bits >> 63 else bits | 1 << 63


def _numbers(keys: Sequence[int]) -> Floats:
    """The floats of keys."""
    bits, top = np.array(keys, dtype=np.uint64), np.uint64(1 << 63)
    return np.where(bits & top, bits & ~top, ~bits).view(np.float64)


def _splitters(low: int, high: int) -> list[int]:
    """Keys that part an interval, the last of them its end."""
    n = min(PARTS_OF_INTERVAL, high - low)
    return [low + (high - low) * j // n for j in range(1, n + 1)]


@dataclass(frozen=True, eq=False)
class ShardedColumn(Numbers):
    """A numeric column elsewhere; `values` stands for its numbers."""

    def labels(self) -> Labels:
        if not self.exact:
            return super().labels()  # raises
        values: Any = self.values
        found = [values.distinct(len(values), everywhere) for everywhere in (True, False)]
        levels = tuple(format_number(v, self.boolean) for v in found[0])
        codes = np.searchsorted(found[0], found[1])
        missing, everywhere = values.survey()[2:4]
        return ShardedLabels(self.name, levels, codes, bool(missing), bool(everywhere), len(values))


class ShardedLabels(Labels):
    """Text elsewhere: codes that occur, one each, those of training rows apart."""

    def __init__(
        self,
        name: str,
        levels: tuple[str, ...],
        training: NDArray[np.int64],
        missing: bool,
        any_missing: bool,
        n_rows: int,
    ) -> None:
        gone = np.array([-1])
        super().__init__(
            name, np.concatenate([np.arange(len(levels)), gone[: int(any_missing)]]), levels
        )
        object.__setattr__(self, "_n_rows", n_rows)
        object.__setattr__(self, "_training", np.concatenate([training, gone[: int(missing)]]))

    def __len__(self) -> int:
        return self._n_rows  # type: ignore[attr-defined, no-any-return]

    def codes_of(self, marks: NDArray[np.bool_] | None) -> Codes:  # noqa: ARG002
        return self._training  # type: ignore[attr-defined, no-any-return]


class ShardedMinRows(MinRows):
    """What is asked of bins, every shard being a place."""

    def __init__(self, rows: int, rule: Bins, shards: Shards) -> None:
        super().__init__(rows, rule)
        self.shards = shards

    def by_points(self, column: Column, points: Points, seen: ColumnSummary) -> NDArray[Any]:
        recipe = PointBinning(column.name, points, points.points[:0], seen)
        return np.concatenate(self.shards.ask("counts", recipe))

    def by_code(self, column: Column, encoder: Coder, seen: ColumnSummary) -> CodeCounts:
        recipe = by_code(self.shards, column.name, encoder, seen)
        return CodeCounts(recipe.values, np.concatenate(self.shards.ask("counts", recipe)))


def by_code(shards: Shards, name: str, encoder: Coder, seen: ColumnSummary) -> CodeBinning:
    found = shards.ask("occurring", name, encoder, seen)
    return CodeBinning(name, encoder, np.unique(np.concatenate(found), equal_nan=True), seen)


class ShardedTable(Table):
    """The columns of all shards, described when they are first asked for."""

    def __init__(self, names: Sequence[str], n_rows: int, shards: Shards) -> None:
        super().__init__(names, n_rows, ComputedColumns(self._describe))
        self.shards = shards

    def check(self, column: Column, infinite: bool | None = None) -> None:
        """Shards refuse infinite numbers."""

    def describe(self, names: Iterable[str]) -> None:
        """Asks for many columns at once."""
        names = [name for name in names if name in self and name not in self._kept]
        answers = self.shards.ask("describe", names) if names else []
        for name, *found in zip(names, *answers, strict=True):
            self._kept[name] = self._column(name, found)

    def _describe(self, name: str) -> Column:
        self.describe([name])
        return self._kept[name]

    def _column(self, name: str, found: Sequence[ShardColumnSummary]) -> Column:
        unified = UnifiedColumn(name)
        numbers = [unified.add(d.piece, d.where) for d in found]
        whole = unified.finish()
        if isinstance(whole, Numbers):
            values: Any = ShardedNumbers(name, self.shards, self.n_rows, found)
            return ShardedColumn(name, values, whole.boolean, whole.exact)
        met = [number[d.met] for number, d in zip(numbers, found, strict=True) if d.met is not None]
        inside = np.unique(whole.codes[np.concatenate(met)])
        missing, everywhere = (any(counts) for counts in zip(*(d[2:4] for d in found), strict=True))
        return ShardedLabels(name, whole.levels, inside, missing, everywhere, self.n_rows)
