"""Statistics of a numeric column whose rows are on shards, combined from the shards' answers.

Exact quantiles need few round trips. The shards count the weight up to some numbers, interval by
interval, until every interval that holds a wanted rank has few rows. Then the shards send the
numbers of these intervals. All rows between two intervals stand at one number with their weight.
So the code that finds quantiles of local rows finds the same ones here.
Does not know about y, bins or the fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cwboost import _core
from cwboost._utils.lazy import cached_property
from cwboost.binning.number_statistics import NumberStatistics, Survey
from cwboost.binning.rules import AUTO_POINTS
from cwboost.binning.summary import ColumnSummary, Sample
from cwboost.frames.columns import Floats

from .shard_columns import RowNumbering, ShardColumnSummary, ValueCounts
from .shards import Shards

PARTS_OF_INTERVAL = 64
FEW_ROWS = 64  # at most this many rows of an interval are sent
NEAR = 1e-9  # ranks closer than this share of the weight are resolved together


class WeightedNumbers(NamedTuple):
    """Increasing numbers and their weights."""

    values: Floats
    weights: Floats


class ShardedNumbers(NumberStatistics):
    """Statistics of a column on shards, or of y - offset.

    The sample is always the training rows of the shards.
    """

    def __init__(
        self, name: str, shards: Shards, n_rows: int, found: Sequence[ShardColumnSummary]
    ) -> None:
        self.name, self.shards, self.n_rows = name, shards, n_rows
        self._found, self._few = found, _merge_counts(found)

    def __len__(self) -> int:
        return self.n_rows

    def survey(self, sample: Sample | None = None) -> Survey:  # noqa: ARG002
        low, high = min(d.low for d in self._found), max(d.high for d in self._found)
        lowest, highest = self._full_range()
        return Survey(
            low=low,
            high=high,
            missing=sum(d.missing for d in self._found),
            any_missing=sum(d.any_missing for d in self._found),
            beyond=bool(low <= high and (lowest < low or highest > high)),
            infinite=False,  # shards refuse infinite numbers
        )

    def full_range(self, summary: ColumnSummary) -> tuple[float, float]:  # noqa: ARG002
        return self._full_range()

    def _full_range(self) -> tuple[float, float]:
        return min(d.lowest for d in self._found), max(d.highest for d in self._found)

    def distinct(self, sample: Sample | None, limit: int) -> Floats | None:
        everywhere = sample is None
        if self._few is not None:
            values = self._few.values if everywhere else self._few_in_training().values
            return values if len(values) <= limit else None
        if everywhere and limit <= AUTO_POINTS:
            return None
        found = self.shards.ask("distinct", self.name, limit, everywhere)
        if any(values is None for values in found):
            return None
        values = np.unique(np.concatenate(found))
        return values if len(values) <= limit else None

    def all_distinct(self, sample: Sample) -> Floats:
        found = self.distinct(sample, len(self))
        assert found is not None
        return found

    def mean(self, sample: Sample) -> float:  # noqa: ARG002
        weight, total = self.shards.total("sums", self.name)
        return float(total / weight)

    def mostly_one(self) -> bool:
        if self._few is not None:
            counts = self._few.everywhere
            return bool(2 * counts.max(initial=0) > counts.sum())
        # A value that more than half of all rows have is the median of some shard.
        medians = [m for m in self.shards.ask("median", self.name) if m is not None]
        *counts, known = self.shards.total("count", self.name, np.unique(medians))
        return bool(2 * max(counts, default=0) > known)

    def counts_rows(self, n_rows: int) -> bool:
        found: list[RowNumbering] = self.shards.ask("row_numbering", self.name)
        low, high = min(x.low for x in found), max(x.high for x in found)
        if not all(x.distinct for x in found) or not high - low < 2 * n_rows:
            return False
        values = np.unique(np.concatenate([x.some for x in found]))
        *counts, _ = self.shards.total("count", self.name, values)
        return bool(max(counts) == 1)  # no two shards have the same number

    # --- ranks ------------------------------------------------------------------------------------

    def quantiles(self, sample: Sample, shares: Floats) -> Floats:  # noqa: ARG002
        values, weights = self.outline(shares)
        return _core.quantiles(values, None, weights, shares)

    def weigh_for_steps(self, sample: Sample, n_bins: int) -> tuple[Floats, Floats | None]:
        few = self.distinct(sample, n_bins)
        return self._outline_of_steps(n_bins) if few is None else (few, None)

    def outline(self, shares: Floats) -> WeightedNumbers:
        """Return a few numbers and weights that have the column's quantiles at these shares."""
        if self._few is not None:
            return self._few_in_training()
        return self._resolve(np.asarray(shares) * self._weight)

    def _outline_of_steps(self, n_bins: int) -> WeightedNumbers:
        """Return a few numbers and weights that give the column's cuts for n_bins bins."""
        if self._few is not None:
            return self._few_in_training()
        total = self._weight
        grid = np.arange(n_bins + 1) / n_bins * total
        _, w = self._resolve(grid)
        atom = w >= (1.0 - 1e-12) / n_bins * total  # numbers that were not resolved weigh less
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
        return self._resolve(np.concatenate([grid, before, after, *shifted]))

    def _few_in_training(self) -> WeightedNumbers:
        assert self._few is not None
        inside = self._few.training > 0
        return WeightedNumbers(self._few.values[inside], self._few.weights[inside])

    @cached_property
    def _weight(self) -> float:
        return float(self._up_to(np.array([np.inf]))[1, 0])

    def _up_to(self, ends: Floats) -> Floats:
        """Return (2, n) rows and weight of the training rows up to each of n numbers."""
        found: Floats = self.shards.total("up_to", self.name, ends)
        return found

    def _resolve(self, targets: Floats) -> WeightedNumbers:
        """Return numbers and weights in which every number that reaches a target is separate."""
        survey = self.survey()
        rows, total = self._up_to(np.array([np.inf]))[:, 0]
        near = NEAR * total
        wanted = np.unique(np.clip(np.concatenate([targets - near, targets + near]), 0.0, total))
        below = _key(float(np.nextafter(survey.low, -np.inf)))
        todo, done = [Interval(below, _key(survey.high), 0.0, rows, 0.0, total)], []
        while todo:
            inner = [_splitters(x.low, x.high) for x in todo]
            reached = self._up_to(_numbers([key for keys in inner for key in keys]))
            at, narrowed = 0, []
            for interval, keys in zip(todo, inner, strict=True):
                narrowed += interval.narrow(keys, reached[:, at : at + len(keys)], wanted)
                at += len(keys)
            done += [x for x in narrowed if x.small]
            todo = [x for x in narrowed if not x.small]
        return self._collect(sorted(done), total)

    def _collect(self, intervals: Sequence[Interval], total: float) -> WeightedNumbers:
        """Return the numbers of the intervals. The rows between two intervals stand at the first
        number after the first of them."""
        low, high = (_numbers([getattr(x, end) for x in intervals]) for end in ("low", "high"))
        before, after = np.array([(x.before, x.after) for x in intervals]).T
        found = self.shards.ask("between", self.name, low, high)
        following = np.min([a for *_, a in found], axis=0)
        rest = np.append(before[1:], total) - after  # between an interval and the next
        gap = rest > 1e-12 * total
        first = [self.survey().low] if before[0] > 0 else []
        values = np.concatenate([*(v for v, _, _ in found), following[gap], first])
        weights = np.concatenate([*(w for _, w, _ in found), rest[gap], before[: len(first)]])
        distinct, code = np.unique(values, return_inverse=True)
        sums = np.bincount(code, weights, minlength=len(distinct))
        return WeightedNumbers(distinct, np.asarray(sums, dtype=np.float64))


def _merge_counts(found: Sequence[ShardColumnSummary]) -> ValueCounts | None:
    """Return the distinct numbers of all shards; None if a shard has many."""
    few = [d.few for d in found if d.few is not None]
    if len(few) < len(found):
        return None
    values, code = np.unique(np.concatenate([c.values for c in few]), return_inverse=True)

    def add(counts: Sequence[NDArray[Any]]) -> Any:
        return np.bincount(code, np.concatenate(counts), minlength=len(values))

    return ValueCounts(
        values,
        add([c.weights for c in few]),
        add([c.training for c in few]),
        add([c.everywhere for c in few]),
    )


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

    def narrow(self, keys: Sequence[int], reached: Floats, wanted: Floats) -> list[Interval]:
        """Return the parts between keys that have rows and hold a wanted rank."""
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
    """Return an integer per float, in the same order."""
    bits = int(np.array([value + 0.0]).view(np.uint64)[0])
    return (~bits & (2**64 - 1)) if bits >> 63 else bits | 1 << 63


def _numbers(keys: Sequence[int]) -> Floats:
    """Return the floats of keys."""
    bits, top = np.array(keys, dtype=np.uint64), np.uint64(1 << 63)
    return np.where(bits & top, bits & ~top, ~bits).view(np.float64)


def _splitters(low: int, high: int) -> list[int]:
    """Return keys that split an interval; the last is its end."""
    n = min(PARTS_OF_INTERVAL, high - low)
    return [low + (high - low) * j // n for j in range(1, n + 1)]
