"""Binning rules for numeric columns: the public class `Bins`, and the points it places.

A value goes to its nearest point. The training rows alone decide the points. Other rows get points
of their own only where they lie outside the training range (with exact bins: wherever their value
is new).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cwboost import _core
from cwboost._utils.checks import check_one_of, is_whole
from cwboost._utils.memory import ArrayPool
from cwboost._utils.text import quote
from cwboost.frames.columns import Column, Floats, Numbers

from .index_sets import IndexSet, index_dtype
from .min_rows import every_other
from .number_statistics import NumberStatistics, as_statistics, statistics_of
from .summary import ColumnSummary, Sample, summarize

AUTO_POINTS = 1024  # "auto" is exact up to this number of distinct values
MAX_EXTRA_POINTS = 256  # per column, for validation values outside the training range
MAX_POINTS = 2**24  # for rules that state the number of points


@dataclass(frozen=True)
class Bins:
    """How numbers are merged into bins: a value goes to its nearest bin point, halves up.

    Parameters
    ----------
    n : "auto", "sqrt", "root4", "exact" or int
        The number of points. "sqrt" and "root4" take the integer part of the root of the number
        of training rows; "exact" takes the distinct values; "auto" is exact up to 1024 distinct
        values, else `max(1024, sqrt(n))` points, half of them equally spaced, half quantiles.
    points : "equal" or "quantile"
        Equally spaced from the smallest to the largest value, or (weighted) quantiles. Ignored
        for "exact" and "auto".

    Examples
    --------
    >>> import numpy as np
    >>> Bins(5).make(np.arange(101.0)).points
    array([  0.,  25.,  50.,  75., 100.])
    """

    n: str | int = "auto"
    points: Literal["equal", "quantile"] = "equal"

    def __post_init__(self) -> None:
        known = ("auto", "sqrt", "root4", "exact")
        named = isinstance(self.n, str) and self.n in known
        if not named and not (is_whole(self.n) and 2 <= self.n <= MAX_POINTS):
            raise ValueError(
                f"bins: expected one of {', '.join(map(repr, known))} or a whole number from 2 "
                f"to {MAX_POINTS}, got {quote(self.n)}"
            )
        check_one_of("bins: points", self.points, ("equal", "quantile"))

    def make(
        self,
        values: Floats | NumberStatistics,
        sample: Sample | None = None,
        summary: ColumnSummary | None = None,
    ) -> Points:
        """Return the points for the numbers of a column.

        The sample (default: all rows) decides them. Without a summary, `values` is an array.
        """
        numbers = as_statistics(values)
        sample = Sample.of(len(numbers)) if sample is None else sample
        if summary is None:
            summary = summarize(Numbers("", np.asarray(values)), sample)
        few = numbers.distinct(sample, AUTO_POINTS) if self.n == "auto" else None
        if self.n == "exact":
            few = numbers.all_distinct(sample)
        if few is not None:
            return Points(few, "exact")
        low, high, n_rows = summary.low, summary.high, sample.n_rows
        if self.n == "auto":
            half = max(AUTO_POINTS, int(np.sqrt(n_rows))) // 2
            ranks = numbers.quantiles(sample, np.linspace(0.0, 1.0, half))
            return Points(np.unique(np.concatenate([np.linspace(low, high, half), ranks])), "other")
        roots = {"sqrt": n_rows**0.5, "root4": n_rows**0.25}
        size = max(2, int(np.floor(roots[self.n] if isinstance(self.n, str) else self.n)))
        if self.points == "quantile":
            ranks = numbers.quantiles(sample, np.linspace(0.0, 1.0, size))
            return Points(np.unique(np.concatenate([[low], ranks, [high]])), "other")
        return Points(np.linspace(low, high, size), "equal")

    def merged(self, column: Column, sample: Sample, summary: ColumnSummary) -> Points:
        """Return points whose bins all have min_rows_per_bin rows."""
        if self.n == "exact":
            raise ValueError(
                "bins: 'exact' keeps every value apart, but min_rows_per_bin merges values; "
                "use another rule, such as 'auto'"
            )
        min_rows = sample.min_rows
        assert min_rows is not None
        points = self.make(statistics_of(column), sample, summary).points
        while True:
            counts = min_rows.by_points(column, Points(points, "other"), summary)
            values = np.append(points, [np.nan] * summary.any_missing)
            min_rows.refuse_missing(column, values, counts)
            drop = every_other(min_rows.small(counts)[: len(points)])
            if not drop.any() and len(points) > 1:
                return Points(points, "other")
            if len(points) == 1:
                raise ValueError(
                    f"column {quote(column.name)} has no two bins with min_rows_per_bin = "
                    f"{min_rows.rows} rows at every site; lower it, or leave the column out"
                )
            if drop.all():
                drop[0] = False
            points = points[~drop]

    def bin(
        self, values: Floats, sample: Sample, summary: ColumnSummary, room: ArrayPool
    ) -> IndexSet:
        """Return the bins of all rows, by points that the sample decides."""
        if self.n == "exact" or (self.n == "auto" and len(values) <= AUTO_POINTS):
            return bin_exactly(values, sample, room)  # one sort finds points and bins
        return self.make(values, sample, summary).assign(values, summary, room)


def as_bins(bins: Any) -> Bins:
    """Return a binning rule: `bins` itself, or `Bins(bins)`."""
    return bins if isinstance(bins, Bins) else Bins(bins)


def bin_exactly(values: Floats, sample: Sample, room: ArrayPool) -> IndexSet:
    """Return one bin per distinct value: the sample's values, those of other rows, then NaN."""
    most = len(values) + 1
    index, points = room.empty(len(values), index_dtype(most)), room.empty(most, np.float64)
    n_bins = _core.bin_exactly(values, sample.marks, index, points)
    points = points[:n_bins] if 2 * n_bins > most else points[:n_bins].copy()
    narrow = index_dtype(n_bins)
    return IndexSet(index if index.dtype == narrow else index.astype(narrow), points)


@dataclass(frozen=True, eq=False)
class Points:
    """The bin points of one numeric column, increasing."""

    points: Floats
    spacing: Literal["equal", "exact", "other"]

    def assign(self, values: Floats, summary: ColumnSummary, room: ArrayPool) -> IndexSet:
        """Return bins for all rows. Values that training lacks may add bins; NaN adds one."""
        index, beyond = self._nearest(values, summary, room)
        new = self._beyond(values, index) if beyond else np.empty(0, np.int64)
        return self._finish(values, summary, index, new, self.thinned(np.unique(values[new])))

    def outside(self, values: Floats, summary: ColumnSummary) -> Floats:
        """Return the distinct numbers that need points of their own."""
        index, beyond = self._nearest(values, summary, ArrayPool())
        return np.unique(values[self._beyond(values, index)]) if beyond else values[:0]

    def thinned(self, extra: Floats) -> Floats:
        """Return points for the numbers outside, at most MAX_EXTRA_POINTS of them."""
        if self.spacing != "exact" and len(extra) > MAX_EXTRA_POINTS:
            extra = extra[np.linspace(0, len(extra) - 1, MAX_EXTRA_POINTS).astype(int)]
        return extra

    def place(
        self, values: Floats, summary: ColumnSummary, extra: Floats, room: ArrayPool
    ) -> IndexSet:
        """Return bins for the rows of one shard; `extra` are the points for numbers outside."""
        index, beyond = self._nearest(values, summary, room)
        new = self._beyond(values, index) if beyond and len(extra) else np.empty(0, np.int64)
        return self._finish(values, summary, index, new, extra)

    def _nearest(
        self, values: Floats, summary: ColumnSummary, room: ArrayPool
    ) -> tuple[NDArray[Any], bool]:
        """Return every row's nearest point, and whether rows may need points of their own."""
        points, beyond = self.points, summary.beyond
        index = room.empty(len(values), index_dtype(len(points) + summary.any_missing))
        if self.spacing == "equal" and points[0] < points[-1]:
            _core.assign_equal(values, points[0], points[-1], len(points), index)
        else:
            others = _core.assign_nearest(values, points, index)
            beyond = beyond or (self.spacing == "exact" and others > 0)
        return index, beyond

    def _finish(
        self,
        values: Floats,
        summary: ColumnSummary,
        index: NDArray[Any],
        new: NDArray[np.int64],
        extra: Floats,
    ) -> IndexSet:
        """Return the bins after the rows `new` moved to the extra points and NaN to the last."""
        points, missing = self.points, summary.any_missing
        if len(extra):
            index = index.astype(index_dtype(len(points) + len(extra) + missing), copy=False)
            index[new] = len(points) + nearest(extra, values[new])
            if missing:
                index[np.isnan(values)] = len(points) + len(extra)
        if len(extra) or missing:
            points = np.concatenate([points, extra, [np.nan] if missing else []])
        return IndexSet(index, points)

    def _beyond(self, values: Floats, index: NDArray[Any]) -> NDArray[np.int64]:
        """Return the rows whose values need points of their own."""
        if self.spacing == "exact":
            met = np.append(self.points, np.nan)[index]
            return np.flatnonzero((values != met) & ~np.isnan(values))
        return np.flatnonzero((values < self.points[0]) | (values > self.points[-1]))


def nearest(points: Floats, values: Floats) -> NDArray[np.int64]:
    """Return the position of the nearest of increasing points, halves up."""
    middles = points[:-1] + (points[1:] - points[:-1]) / 2
    return np.searchsorted(middles, values, side="right").astype(np.int64)
