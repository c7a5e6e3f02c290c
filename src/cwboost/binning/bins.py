"""Columns -> bins. Knows points, cuts and levels; knows nothing of bases, learners or rows' scores.

`ColumnSummary` is what the training rows (a `Sample`) have in a column, found in one pass.

Every learner sees its column through an *encoder*, which turns a column into plain floats that a
basis can be evaluated at: the numbers themselves (`Values`), the number of a step bin (`Cuts`) or
of a level (`Levels`). NaN stands for a missing cell and -1 for a level never seen in training.
Encoders are part of the model: prediction needs them.

For the fit, rows with equal values share a bin (`IndexSet`): the number of a row's bin, and the
value each bin stands for. `Bins` is the rule that says how numbers are merged; "exact" merges only
equal ones. Everything here comes from the training rows alone: validation rows are binned by the
same points, and get points of their own only where they lie outside the training range (with
exact bins: wherever their value is new).
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cwboost import _core
from cwboost._utils.checks import is_number, is_whole
from cwboost._utils.memory import ArrayPool
from cwboost.frames.table import Column, Floats, Labels, Numbers, Table, format_number

AUTO_POINTS = 1024  # up to so many distinct values "auto" is exact
MAX_EXTRA_POINTS = 256  # per column, for validation values outside the training range
MAX_POINTS = 2**24  # of a rule that gives their number
UNSEEN = -1.0


# Weights of rows are floats, marks (a byte per row) where they are 0 or 1, or one number that
# stands for all rows and takes no memory (`ones`).
RowWeights = NDArray[Any]


def ones(n_rows: int) -> Floats:
    """The weights of rows that nobody has weighed."""
    return np.broadcast_to(np.ones(1), n_rows)


def all_weigh_one(weights: RowWeights) -> bool:
    """Whether they are `ones`."""
    return weights.strides == (0,)


def as_numbers(weights: RowWeights | None) -> Floats | None:
    """Weights as kernels take them; None: all rows weigh 1."""
    if weights is None or all_weigh_one(weights):
        return None
    return np.ascontiguousarray(weights, dtype=np.float64)


def as_part(weights: RowWeights) -> RowWeights:
    """Weights as the core's rows take them."""
    return np.ones(len(weights), np.bool_) if all_weigh_one(weights) else weights


class RemoteNumbers(ABC):
    """Numbers of a column whose rows are elsewhere: stands where an array of them would.

    They know which of them the sample has, and its weights.
    """

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def survey(self) -> tuple[float, float, int, int, bool, bool]:
        """As `_core.survey`."""

    @abstractmethod
    def distinct(self, limit: int, everywhere: bool) -> Floats | None:
        """Distinct numbers of the sample, or of all rows; None if there are more."""

    @abstractmethod
    def outline(self, shares: Floats) -> tuple[Floats, Floats]:
        """A few numbers and weights that have the same quantiles at these shares."""

    @abstractmethod
    def outline_of_steps(self, n_bins: int) -> tuple[Floats, Floats]:
        """A few numbers and weights that have the same cuts for so many bins, where there are more
        numbers than bins."""

    @abstractmethod
    def mean(self) -> float:
        """Of the sample."""

    @abstractmethod
    def mostly_one(self) -> bool:
        """Whether more than half of the known cells of all rows have one value."""

    @abstractmethod
    def counts_rows(self) -> bool:
        """Whether there is another whole number in every row, and they lie close together."""


def distinct(values: Floats | RemoteNumbers, sample: Sample | None, limit: int) -> Floats | None:
    """Distinct numbers of the sample (None: of all rows), increasing; None if there are more."""
    if isinstance(values, RemoteNumbers):
        return values.distinct(limit, sample is None)
    return _core.distinct(values, None if sample is None else sample.marks, limit)


def _all_distinct(values: Floats | RemoteNumbers, sample: Sample) -> Floats | None:
    if isinstance(values, RemoteNumbers):
        return values.distinct(len(values), False)
    return _core.weigh_distinct(values, sample.marks, None)[0]


def quantiles(values: Floats | RemoteNumbers, sample: Sample, shares: Floats) -> Floats:
    """Weighted quantiles of the numbers of a sample."""
    if isinstance(values, RemoteNumbers):
        values, weights = values.outline(shares)
        return _core.quantiles(values, None, weights, shares)
    return _core.quantiles(values, sample.marks, sample.weights, shares)


class Sample(NamedTuple):
    """The rows that decide: which they are, how much they weigh, how many they are."""

    marks: NDArray[np.bool_] | None  # (n,) over all rows; None: all of them
    weights: Floats | None  # (n,) over all rows; None: all weigh 1
    n_rows: int
    least: MinRows | None = None  # rows that a bin must have; None: any

    @classmethod
    def of(cls, n_rows: int) -> Sample:
        """All of so many rows."""
        return cls(None, None, n_rows)

    def weigh(self, rows: NDArray[np.bool_] | None = None) -> float:
        """Weight of those of its rows that are marked; None: of all."""
        marks = self.marks if rows is None else rows if self.marks is None else rows & self.marks
        if self.weights is None:
            return float(self.n_rows if marks is None else np.count_nonzero(marks))
        return float(self.weights.sum() if marks is None else self.weights[marks].sum())

    def known(self, values: Floats) -> tuple[Floats, Floats]:
        """Its numbers in a column, without the missing, and their weights."""
        rows = ~np.isnan(values) if self.marks is None else self.marks & ~np.isnan(values)
        values = values[rows]
        return values, np.ones(len(values)) if self.weights is None else self.weights[rows]

    def mean(self, values: Floats | RemoteNumbers) -> float:
        """Of its numbers in a column."""
        if isinstance(values, RemoteNumbers):
            return values.mean()
        known, weights = self.known(values)
        return float(np.average(known, weights=weights))


class MinRows(ABC):
    """How many rows a bin must have in every place that has some of it: of the training rows, and
    of all rows. `rule` is how numbers are merged where a learner does not say."""

    def __init__(self, rows: int, rule: Bins) -> None:
        self.rows, self.rule = rows, rule
        self._points: dict[tuple[str, Bins], Points] = {}

    @abstractmethod
    def by_points(self, column: Column, points: Points, seen: ColumnSummary) -> NDArray[Any]:
        """(places, bins) rows in the bins of points; the last may be that of missing cells."""

    @abstractmethod
    def by_code(self, column: Column, encoder: Cuts | Levels, seen: ColumnSummary) -> Any:
        """What codes occur, and (places, codes) rows that have them."""

    def small(self, counts: NDArray[Any]) -> NDArray[np.bool_]:
        """Bins that have too few rows in some place."""
        return np.asarray(((counts > 0) & (counts < self.rows)).any(axis=0))

    def refuse_missing(self, column: Column, values: Floats, counts: NDArray[Any]) -> None:
        """Missing cells have no neighbours to be merged with."""
        if len(values) and np.isnan(values[-1]) and self.small(counts)[-1]:
            raise ValueError(
                f"column {column.name!r}: missing cells are fewer than min_rows_per_bin = "
                f"{self.rows} in one place; fill them, or leave these rows out"
            )

    def points(self, column: Column, rule: Bins, sample: Sample, seen: ColumnSummary) -> Points:
        """Points of bins that have enough rows."""
        key = column.name, rule
        if key not in self._points:
            self._points[key] = rule.merged(column, sample, seen)
        return self._points[key]

    def pooled(
        self, column: Column, encoder: Cuts | Levels, seen: ColumnSummary
    ) -> tuple[Floats, int]:
        """What the bins of codes stand for, and the bin of those that are none of them: rows of
        rare levels, where all of them together are too few, count as the most frequent level."""
        values, counts = self.by_code(column, encoder, seen)
        unseen = values == UNSEEN
        if isinstance(encoder, Levels) and encoder.levels and self.small(counts)[unseen].any():
            values, counts = values[~unseen], counts[:, ~unseen]
        return values, int(np.argmax(np.where(np.isnan(values), -1, counts.sum(axis=0))))


def count_rows(
    bins: IndexSet, training: NDArray[np.bool_] | None, places: NDArray[np.int64] | None = None
) -> NDArray[Any]:
    """(places, bins) rows of every bin: of all rows, then of the training rows."""
    at = np.zeros(bins.n_rows, np.int64) if places is None else places
    n_places = int(at.max(initial=0)) + 1
    joint = at * bins.n_bins + bins.index
    parts = [joint] if training is None else [joint, joint[training]]
    size = n_places * bins.n_bins
    return np.concatenate(
        [np.bincount(part, minlength=size).reshape(n_places, -1) for part in parts]
    )


class LocalMinRows(MinRows):
    """For rows in this process, of one place or of several."""

    def __init__(
        self,
        rows: int,
        rule: Bins,
        training: NDArray[np.bool_] | None = None,
        places: NDArray[np.int64] | None = None,
    ) -> None:
        super().__init__(rows, rule)
        self.training, self.places = training, places

    def by_points(self, column: Column, points: Points, seen: ColumnSummary) -> NDArray[Any]:
        bins = points.place(VALUES.encode(column), seen, points.points[:0], ArrayPool())
        return count_rows(bins, self.training, self.places)

    def by_code(self, column: Column, encoder: Cuts | Levels, seen: ColumnSummary) -> Any:
        bins = encoder.bin(column, seen)
        return bins.values, count_rows(bins, self.training, self.places)


def _some(small: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Of neighbours that are small, every other: the rest may have enough rows then."""
    out = small.copy()
    for j in range(1, len(out)):
        out[j] = small[j] and not out[j - 1]
    return out


class ColumnSummary(NamedTuple):
    """What a sample has in a column."""

    kind: Literal["numbers", "labels"]
    boolean: bool
    low: float  # of the numbers; above `high`: there are none
    high: float
    varies: bool  # two values at the least
    empty: bool  # no value
    missing: bool  # cells of the sample
    any_missing: bool  # cells of all rows
    beyond: bool  # numbers of all rows lie outside low..high
    infinite: bool  # a cell of all rows


def summarize(column: Column, sample: Sample) -> ColumnSummary:
    if isinstance(column, Numbers):
        values: Floats | RemoteNumbers = column.values
        found = (
            values.survey()
            if isinstance(values, RemoteNumbers)
            else _core.survey(values, sample.marks)
        )
        low, high, missing, everywhere, beyond, infinite = found
        varies, empty, boolean = low < high, low > high, column.boolean
        lacks = missing > 0, everywhere > 0
        return ColumnSummary("numbers", boolean, low, high, varies, empty, *lacks, beyond, infinite)
    codes = column.codes_of(sample.marks)
    known = codes[codes >= 0]
    empty = len(known) == 0
    varies = not empty and bool(known.min() < known.max())
    missing = len(known) < len(codes)
    everywhere = bool(missing or column.codes.min() < 0)
    return ColumnSummary(
        "labels", False, np.inf, -np.inf, varies, empty, missing, everywhere, False, False
    )


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
        Equally spaced from the least to the largest value, or (weighted) quantiles. Without
        meaning for "exact" and "auto".

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
        if not (is_whole(self.n) and 2 <= self.n <= MAX_POINTS) and self.n not in known:
            raise ValueError(
                f"bins: expected one of {', '.join(map(repr, known))} or a whole number from 2 "
                f"to {MAX_POINTS}, got {self.n!r}"
            )
        if self.points not in ("equal", "quantile"):
            raise ValueError(f"bins: points must be 'equal' or 'quantile', got {self.points!r}")

    def make(
        self,
        values: Any,
        sample: Sample | None = None,
        seen: ColumnSummary | None = None,
    ) -> Points:
        """Points for the numbers (an array, or Elsewhere) that the sample (all rows) has in a
        column."""
        sample = Sample.of(len(values)) if sample is None else sample
        seen = summarize(Numbers("", values), sample) if seen is None else seen
        few = distinct(values, sample, AUTO_POINTS) if self.n == "auto" else None
        if self.n == "exact":
            few = _all_distinct(values, sample)
        if few is not None:
            return Points(few, "exact")
        low, high, n_rows = seen.low, seen.high, sample.n_rows
        if self.n == "auto":
            half = max(AUTO_POINTS, int(np.sqrt(n_rows))) // 2
            ranks = quantiles(values, sample, np.linspace(0.0, 1.0, half))
            return Points(np.unique(np.concatenate([np.linspace(low, high, half), ranks])), "other")
        roots = {"sqrt": n_rows**0.5, "root4": n_rows**0.25}
        size = max(2, int(np.floor(roots[self.n] if isinstance(self.n, str) else self.n)))
        if self.points == "quantile":
            ranks = quantiles(values, sample, np.linspace(0.0, 1.0, size))
            return Points(np.unique(np.concatenate([[low], ranks, [high]])), "other")
        return Points(np.linspace(low, high, size), "equal")

    def merged(self, column: Column, sample: Sample, seen: ColumnSummary) -> Points:
        """Points of which every one has as many rows as the sample says."""
        if self.n == "exact":
            raise ValueError(
                "bins: 'exact' tells all values apart, min_rows_per_bin merges them; take another"
            )
        least, points = sample.least, self.make(VALUES.encode(column), sample, seen).points
        assert least is not None
        while True:
            counts = least.by_points(column, Points(points, "other"), seen)
            least.refuse_missing(column, np.append(points, [np.nan] * seen.any_missing), counts)
            drop = _some(least.small(counts)[: len(points)])
            if not drop.any() and len(points) > 1:
                return Points(points, "other")
            if len(points) == 1:
                raise ValueError(
                    f"column {column.name!r} has no two bins of min_rows_per_bin = {least.rows} "
                    "rows in every place; lower it, or leave the column out"
                )
            if drop.all():
                drop[0] = False
            points = points[~drop]

    def bin(self, values: Floats, sample: Sample, seen: ColumnSummary, room: ArrayPool) -> IndexSet:
        """Bins of all rows by points that the sample decides."""
        if self.n == "exact" or (self.n == "auto" and len(values) <= AUTO_POINTS):
            return bin_exactly(values, sample, room)  # one sort finds points and bins
        return self.make(values, sample, seen).assign(values, seen, room)


def bin_exactly(values: Floats, sample: Sample, room: ArrayPool) -> IndexSet:
    """One bin per distinct value: first those of the sample, then other rows', then NaN."""
    most = len(values) + 1
    index, points = room.empty(len(values), _width(most)), room.empty(most, np.float64)
    n_bins = _core.bin_exactly(values, sample.marks, index, points)
    points = points[:n_bins] if 2 * n_bins > most else points[:n_bins].copy()
    narrow = _width(n_bins)
    return IndexSet(index if index.dtype == narrow else index.astype(narrow), points)


def as_bins(bins: Any) -> Bins:
    return bins if isinstance(bins, Bins) else Bins(bins)


@dataclass(frozen=True, eq=False)
class Points:
    """Bin points of one numeric column, increasing."""

    points: Floats
    spacing: Literal["equal", "exact", "other"]

    def assign(self, values: Floats, seen: ColumnSummary, room: ArrayPool) -> IndexSet:
        """Bins for all rows; values that training did not have may add bins, NaN adds one."""
        index, beyond = self._nearest(values, seen, room)
        new = self._beyond(values, index) if beyond else np.empty(0, np.int64)
        return self._finish(values, seen, index, new, self.thinned(np.unique(values[new])))

    def outside(self, values: Floats, seen: ColumnSummary) -> Floats:
        """The distinct numbers that need points of their own."""
        index, beyond = self._nearest(values, seen, ArrayPool())
        return np.unique(values[self._beyond(values, index)]) if beyond else values[:0]

    def thinned(self, extra: Floats) -> Floats:
        """Points for the numbers outside: if they are many, some of them."""
        if self.spacing != "exact" and len(extra) > MAX_EXTRA_POINTS:
            extra = extra[np.linspace(0, len(extra) - 1, MAX_EXTRA_POINTS).astype(int)]
        return extra

    def place(
        self, values: Floats, seen: ColumnSummary, extra: Floats, room: ArrayPool
    ) -> IndexSet:
        """Bins for some of the rows, whose numbers outside have these points."""
        index, beyond = self._nearest(values, seen, room)
        new = self._beyond(values, index) if beyond and len(extra) else np.empty(0, np.int64)
        return self._finish(values, seen, index, new, extra)

    def _nearest(
        self, values: Floats, seen: ColumnSummary, room: ArrayPool
    ) -> tuple[NDArray[Any], bool]:
        """The nearest point of every row, and whether some rows may need points of their own."""
        points, beyond = self.points, seen.beyond
        index = room.empty(len(values), _width(len(points) + seen.any_missing))
        if self.spacing == "equal" and points[0] < points[-1]:
            _core.assign_equal(values, points[0], points[-1], len(points), index)
        else:
            others = _core.assign_nearest(values, points, index)
            beyond = beyond or (self.spacing == "exact" and others > 0)
        return index, beyond

    def _finish(
        self,
        values: Floats,
        seen: ColumnSummary,
        index: NDArray[Any],
        new: NDArray[np.int64],
        extra: Floats,
    ) -> IndexSet:
        points, missing = self.points, seen.any_missing
        if len(extra):
            index = index.astype(_width(len(points) + len(extra) + missing), copy=False)
            index[new] = len(points) + nearest(extra, values[new])
            if missing:
                index[np.isnan(values)] = len(points) + len(extra)
        if len(extra) or missing:
            points = np.concatenate([points, extra, [np.nan] if missing else []])
        return IndexSet(index, points)

    def _beyond(self, values: Floats, index: NDArray[Any]) -> NDArray[np.int64]:
        """Rows whose values need points of their own."""
        if self.spacing == "exact":
            met = np.append(self.points, np.nan)[index]
            return np.flatnonzero((values != met) & ~np.isnan(values))
        return np.flatnonzero((values < self.points[0]) | (values > self.points[-1]))


def nearest(points: Floats, values: Floats) -> NDArray[np.int64]:
    """Position of the nearest of increasing points, halves up."""
    middles = points[:-1] + (points[1:] - points[:-1]) / 2
    return np.searchsorted(middles, values, side="right").astype(np.int64)


@dataclass(frozen=True, eq=False)
class IndexSet:
    """A bin per row, and what each bin stands for: (n_bins,) values, or (n_bins, 2) of a pair."""

    index: NDArray[Any]  # (n,) of 8, 16 or 32 bits
    values: Floats

    @property
    def n_bins(self) -> int:
        return len(self.values)

    @property
    def n_rows(self) -> int:
        return len(self.index)

    def weigh(self, weights: Floats | None, room: ArrayPool) -> Floats:
        """The weight of every bin; None: all rows weigh 1."""
        out = room.empty(self.n_bins, np.float64)
        _core.weigh_bins(self.index, weights, out)
        return out


def _width(n_bins: int) -> type[np.unsignedinteger[Any]]:
    """The type that holds so many bins in as few bits as possible."""
    return np.uint8 if n_bins <= 2**8 else np.uint16 if n_bins <= 2**16 else np.uint32


class CodedColumn(NamedTuple):
    """A code per row, and what each stands for; -1 is the last."""

    codes: NDArray[Any]
    values: Floats

    def occurring(self) -> Floats:
        """What occurs, in the order of the values (NaN last), equal ones as one."""
        codes, signed = self.codes, self.codes.dtype.kind == "i"
        counts = np.bincount(codes + 1 if signed else codes, minlength=len(self.values))
        if signed:
            counts = np.roll(counts, -1)
        return np.unique(self.values[np.flatnonzero(counts)], equal_nan=True)

    def bins(self, values: Floats, other: int = 0) -> IndexSet:
        """A bin for each of some increasing values (NaN last); what occurs and is none of them is
        in the bin `other`."""
        to = np.minimum(np.searchsorted(values, self.values), len(values) - 1)  # NaN is the largest
        met = (values[to] == self.values) | (np.isnan(values[to]) & np.isnan(self.values))
        return IndexSet(np.where(met, to, other).astype(_width(len(values)))[self.codes], values)

    def compact(self) -> IndexSet:
        """The bins that have rows."""
        return self.bins(self.occurring())


def pair(a: IndexSet, b: IndexSet) -> IndexSet:
    """Joint bins of two sets; only those that have rows."""
    joint = _joint(a, b)
    if a.n_bins * b.n_bins <= max(2**20, 4 * len(joint)):
        cells = np.flatnonzero(np.bincount(joint, minlength=a.n_bins * b.n_bins))
        to = np.zeros(a.n_bins * b.n_bins, _width(len(cells)))
        to[cells] = np.arange(len(cells))
        index = to[joint]
    else:
        cells, index = np.unique(joint, return_inverse=True)
        index = index.astype(_width(len(cells)))
    return IndexSet(index, pair_values(a, b, cells))


def _joint(a: IndexSet, b: IndexSet) -> NDArray[np.int64]:
    joint: NDArray[np.int64] = a.index.astype(np.int64) * b.n_bins + b.index
    return joint


def cells(a: IndexSet, b: IndexSet) -> NDArray[np.int64]:
    """Numbers of the joint bins of two sets that have rows."""
    return np.unique(_joint(a, b))


def pair_in(a: IndexSet, b: IndexSet, cells: NDArray[np.int64]) -> IndexSet:
    """Joint bins of two sets, some of whose rows are elsewhere: all that have rows anywhere."""
    index = np.searchsorted(cells, _joint(a, b)).astype(_width(len(cells)))
    return IndexSet(index, pair_values(a, b, cells))


def pair_values(a: IndexSet, b: IndexSet, cells: NDArray[np.int64]) -> Floats:
    """What joint bins stand for."""
    return np.column_stack([a.values[cells // b.n_bins], b.values[cells % b.n_bins]])


@dataclass(frozen=True)
class Values:
    """The encoder of numeric learners: the numbers themselves."""

    is_numeric: ClassVar[bool] = True
    levels: ClassVar[tuple[str, ...]] = ()
    cuts: ClassVar[tuple[float, ...]] = ()
    n_codes: ClassVar[None] = None

    def codes(self) -> None:
        """Return None: the basis is evaluated at any number."""

    def code_of(self, value: Any) -> float | None:
        """Return what the basis is evaluated at for one cell; None if it is not a number."""
        return as_number(value)

    def encode(self, column: Column) -> Floats:
        if isinstance(column, Labels):
            raise TypeError(not_numbers(column))
        return column.values


VALUES = Values()


@dataclass(frozen=True)
class Cuts:
    """The encoder of Step: bin j holds the numbers in (cuts[j-1], cuts[j]]."""

    cuts: tuple[float, ...]

    is_numeric: ClassVar[bool] = True
    levels: ClassVar[tuple[str, ...]] = ()

    @property
    def n_bins(self) -> int:
        return len(self.cuts) + 1

    @property
    def n_codes(self) -> int:
        return self.n_bins

    def codes(self) -> Floats:
        """Return all values that the basis is evaluated at: the steps, then missing cells."""
        return np.array([*range(self.n_bins), np.nan])

    def code_of(self, value: Any) -> float | None:
        """Return what the basis is evaluated at for one cell; None if it is not a number."""
        number = as_number(value)
        if number is None or np.isnan(number):
            return number
        return float(np.searchsorted(self.cuts, number))

    @classmethod
    def make(cls, values: Floats | RemoteNumbers, sample: Sample, n_bins: int) -> Cuts:
        """Cuts at weighted quantiles; values with a share of 1/n_bins or more stay alone, and all
        values where there are no more than n_bins."""
        if isinstance(values, RemoteNumbers):
            few = values.distinct(n_bins, False)
            distinct, share = values.outline_of_steps(n_bins) if few is None else (few, few)
        else:
            distinct, share = _core.weigh_distinct(values, sample.marks, sample.weights)
            few = distinct if len(distinct) <= n_bins else None
        inner = cls._quantiles(distinct, share, n_bins) if few is None else few[:-1]
        # Halfway to the next value: noise in the last digits must not move a row to another bin.
        last = np.unique(np.searchsorted(distinct, inner, side="right")) - 1
        low, high = distinct[last], distinct[last + 1]
        middle = low + (high - low) / 2
        return cls(tuple(float(c) for c in np.where(middle < high, middle, low)))

    @staticmethod
    def _quantiles(distinct: Floats, share: Floats, n_bins: int) -> Floats:
        """Values after which a bin ends."""
        share = share / share.sum()
        atom = share >= (1.0 - 1e-12) / n_bins
        before = np.flatnonzero(atom) - 1
        cuts = [distinct[atom], distinct[before[before >= 0]]]
        size = n_bins - int(atom.sum())
        if size > 1 and share[~atom].sum() > 0:
            reached = np.cumsum(share[~atom]) / share[~atom].sum()
            at = np.searchsorted(reached, np.arange(1, size) / size - 1e-12)
            cuts.append(distinct[~atom][np.minimum(at, len(reached) - 1)])
        return np.setdiff1d(np.concatenate(cuts), distinct[-1])

    def encode(self, column: Column) -> Floats:
        values = VALUES.encode(column)
        codes = np.searchsorted(np.asarray(self.cuts), values).astype(np.float64)
        return np.where(np.isnan(values), np.nan, codes)

    def bin(self, column: Column, seen: ColumnSummary) -> IndexSet:
        """A bin per code that occurs, and one for the missing."""
        return self.coded(column, seen).compact()

    def merged(self, column: Column, seen: ColumnSummary, least: MinRows) -> Cuts:
        """Steps of which every one has enough rows."""
        cuts = np.array(self.cuts)
        while True:
            values, counts = least.by_code(column, Cuts(tuple(cuts.tolist())), seen)
            least.refuse_missing(column, values, counts)
            small = np.zeros(len(cuts) + 1, bool)
            known = ~np.isnan(values)
            small[values[known].astype(np.intp)] = least.small(counts)[known]
            drop = _some(small)
            if not drop.any():
                return Cuts(tuple(cuts.tolist()))
            if not len(cuts):
                raise ValueError(
                    f"column {column.name!r} has fewer values than min_rows_per_bin = {least.rows} "
                    "in one place; lower it, or leave the column out"
                )
            # A step goes to the next one, the last to the one before.
            drop[-2] = drop[-2] or drop[-1]
            cuts = cuts[~drop[:-1]]

    def coded(self, column: Column, seen: ColumnSummary) -> CodedColumn:
        """The number of every row's step."""
        values = VALUES.encode(column)
        index = np.empty(len(values), _width(self.n_bins + seen.any_missing))
        _core.assign_cuts(values, np.asarray(self.cuts, dtype=np.float64), index)
        codes = np.arange(self.n_bins + seen.any_missing, dtype=np.float64)
        if seen.any_missing:
            codes[-1] = np.nan
        return CodedColumn(index, codes)


@dataclass(frozen=True)
class Levels:
    """The encoder of Category: the number of a level."""

    levels: tuple[str, ...]

    is_numeric: ClassVar[bool] = False
    cuts: ClassVar[tuple[float, ...]] = ()

    @property
    def n_codes(self) -> int:
        return len(self.levels)

    def codes(self) -> Floats:
        """Return all values that the basis is evaluated at: levels, missing and unseen cells."""
        return np.array([*range(len(self.levels)), np.nan, UNSEEN])

    def code_of(self, value: Any) -> float:
        """Return what the basis is evaluated at for one cell."""
        if value is None:
            return np.nan
        text = level_text(value)
        return float(self.levels.index(text)) if text in self.levels else UNSEEN

    @classmethod
    def make(cls, column: Column, sample: Sample) -> Levels:
        """The levels that the sample has, in the column's order."""
        labels = column.labels()
        codes = labels.codes_of(sample.marks)
        counts = np.bincount(codes + 1, minlength=len(labels.levels) + 1)
        return cls(tuple(labels.levels[c] for c in np.flatnonzero(counts[1:])))

    def encode(self, column: Column) -> Floats:
        if not self.levels:  # only missing cells are told apart
            return np.where(column.missing, np.nan, UNSEEN)
        labels = column.labels()
        return self._numbers(labels)[labels.codes]

    def _numbers(self, labels: Labels) -> Floats:
        """The number of each of a column's levels, at the end (and at -1) of missing cells."""
        position = {level: float(i) for i, level in enumerate(self.levels)}
        return np.array([*(position.get(level, UNSEEN) for level in labels.levels), np.nan])

    def bin(self, column: Column, seen: ColumnSummary) -> IndexSet:
        """A bin per number that occurs; the missing and the unseen have bins too."""
        return self.coded(column, seen).compact()

    def merged(self, column: Column, seen: ColumnSummary, least: MinRows) -> Levels:
        """Levels that have enough rows; the others count as unseen, and people are told."""
        values, counts = least.by_code(column, self, seen)
        least.refuse_missing(column, values, counts)
        known = values >= 0
        drop = np.zeros(len(self.levels), bool)
        drop[values[known].astype(np.intp)] = least.small(counts)[known]
        if not drop.any():
            return self
        rare = [level for level, gone in zip(self.levels, drop, strict=True) if gone]
        if drop.all():
            raise ValueError(
                f"column {column.name!r}: no level has min_rows_per_bin = {least.rows} rows "
                "in all places that have it; merge levels, or leave the column out"
            )
        shown = ", ".join(rare[:5]) + ", ..." * (len(rare) > 5)
        warnings.warn(
            f"column {column.name!r}: {len(rare)} of {len(self.levels)} levels have fewer rows "
            f"than min_rows_per_bin = {least.rows} and count as unseen: {shown}",
            UserWarning,
            stacklevel=2,
        )
        return Levels(tuple(level for level in self.levels if level not in set(rare)))

    def coded(self, column: Column, seen: ColumnSummary) -> CodedColumn:  # noqa: ARG002
        """The number of every row's level."""
        if not self.levels:
            return CodedColumn(column.missing.view(np.uint8), np.array([UNSEEN, np.nan]))
        labels = column.labels()
        return CodedColumn(labels.codes, self._numbers(labels))


Encoder = Values | Cuts | Levels


def level_text(level: Any) -> str:
    """Return a level as the model spells it."""
    if isinstance(level, bool | np.bool_) or is_number(level):
        return format_number(float(level), isinstance(level, bool | np.bool_))
    return str(level)


def as_number(value: Any) -> float | None:
    """Return a cell as a number, NaN for None; None if it does not stand for one."""
    if value is None:
        return np.nan
    try:
        return float({"True": 1.0, "False": 0.0}.get(level_text(value), value))
    except (TypeError, ValueError):
        return None


def not_numbers(column: Labels) -> str:
    """The sentence for text where numbers are needed; shows what does not read as a number."""
    bad = [level for level in column.levels if not _is_number(level)]
    if not bad:
        what = f"strings such as {column.levels[0]!r}" if column.levels else "text"
    else:
        rows = int(np.isin(column.codes, [column.levels.index(level) for level in bad]).sum())
        what = (
            f"strings ({bad[0]!r} in {rows} rows)"
            if len(bad) == 1
            else (f"strings ({bad[0]!r}, {bad[1]!r}, ... in {rows} rows)")
        )
    return f"column {column.name!r}: expected numbers, got {what}; pass it as Category or clean it"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def weighted_quantile(values: Floats, weights: Floats, q: float | Floats) -> Any:
    """Midpoint of the interval of minimisers of the weighted check loss.

    Examples
    --------
    >>> weighted_quantile(np.array([1.0, 2.0, 4.0]), np.array([1.0, 1.0, 2.0]), 0.5)
    np.float64(3.0)
    """
    found = _core.quantiles(
        np.ascontiguousarray(values), None, np.ascontiguousarray(weights), np.atleast_1d(q)
    )
    return found[0] if np.ndim(q) == 0 else found


def numbers_of(table: Table, name: str) -> Floats:
    """The numbers of a column, or the error that says why it has none."""
    return VALUES.encode(table[name])
