"""Columns -> bins. Knows points, cuts and levels; knows nothing of bases, learners or rows' scores.

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

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .checks import is_whole
from .table import Column, Floats, Labels, Numbers

AUTO_POINTS = 1024  # up to so many distinct values "auto" is exact
MAX_EXTRA_POINTS = 256  # per column, for validation values outside the training range
MAX_POINTS = 2**24  # of a rule that gives their number
UNSEEN = -1.0


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
    >>> Bins(5).make(np.arange(101.0), np.ones(101)).points
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

    def make(self, values: Floats, weights: Floats, n_rows: int | None = None) -> Points:
        """Points for training values without missing cells; `n_rows` counts those too."""
        distinct = np.unique(values)
        n_rows = len(values) if n_rows is None else n_rows
        if self.n == "exact" or (self.n == "auto" and len(distinct) <= AUTO_POINTS):
            return Points(distinct, "exact")
        low, high = float(distinct[0]), float(distinct[-1])
        if self.n == "auto":
            half = max(AUTO_POINTS, int(np.sqrt(n_rows))) // 2
            ranks = weighted_quantile(values, weights, np.linspace(0.0, 1.0, half))
            return Points(np.unique(np.concatenate([np.linspace(low, high, half), ranks])), "other")
        roots = {"sqrt": n_rows**0.5, "root4": n_rows**0.25}
        size = max(2, int(np.floor(roots[self.n] if isinstance(self.n, str) else self.n)))
        if self.points == "quantile":
            ranks = weighted_quantile(values, weights, np.linspace(0.0, 1.0, size))
            return Points(np.unique(np.concatenate([[low], ranks, [high]])), "other")
        return Points(np.linspace(low, high, size), "equal")


def as_bins(bins: Any) -> Bins:
    return bins if isinstance(bins, Bins) else Bins(bins)


@dataclass(frozen=True, eq=False)
class Points:
    """Bin points of one numeric column, increasing."""

    points: Floats
    spacing: Literal["equal", "exact", "other"]

    def assign(self, values: Floats) -> IndexSet:
        """Bins for all rows; values that training did not have may add bins, NaN adds one."""
        first, last = self.points[0], self.points[-1]
        missing = np.isnan(values)
        known = np.where(missing, first, values)
        index = self._nearest(np.clip(known, first, last))
        if self.spacing == "exact":
            new = known != self.points[index]
        else:
            new = (known < first) | (known > last)
        bin_values = self.points
        if new.any():
            extra = np.unique(known[new])
            if self.spacing != "exact" and len(extra) > MAX_EXTRA_POINTS:
                extra = extra[np.linspace(0, len(extra) - 1, MAX_EXTRA_POINTS).astype(int)]
            index[new] = len(bin_values) + nearest(extra, known[new])
            bin_values = np.concatenate([bin_values, extra])
        if missing.any():
            index[missing] = len(bin_values)
            bin_values = np.append(bin_values, np.nan)
        return IndexSet(narrow(index, len(bin_values)), bin_values)

    def _nearest(self, values: Floats) -> NDArray[np.int64]:
        if self.spacing != "equal" or self.points[0] == self.points[-1]:
            return nearest(self.points, values)
        first, last, size = self.points[0], self.points[-1], len(self.points)
        step = (last - first) / (size - 1)
        index = np.floor((values - first) / step + 0.5).astype(np.int64)
        return np.asarray(np.minimum(index, size - 1))


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


def narrow(index: NDArray[Any], n_bins: int) -> NDArray[Any]:
    """The index in as few bits as its bins allow."""
    dtype = np.uint8 if n_bins <= 2**8 else np.uint16 if n_bins <= 2**16 else np.uint32
    return np.ascontiguousarray(index, dtype=dtype)


def assign_codes(values: Floats) -> IndexSet:
    """One bin per distinct code; the missing (NaN) and the unseen (-1) have bins too."""
    distinct, index = np.unique(values, return_inverse=True, equal_nan=True)
    return IndexSet(narrow(index, len(distinct)), distinct)


def pair(a: IndexSet, b: IndexSet) -> IndexSet:
    """Joint bins of two sets; only those that have rows."""
    joint = a.index.astype(np.int64) * b.n_bins + b.index
    distinct, index = np.unique(joint, return_inverse=True)
    values = np.column_stack([a.values[distinct // b.n_bins], b.values[distinct % b.n_bins]])
    return IndexSet(narrow(index, len(distinct)), values)


@dataclass(frozen=True)
class Values:
    """The encoder of numeric learners: the numbers themselves."""

    def encode(self, column: Column) -> Floats:
        if isinstance(column, Labels):
            raise TypeError(not_numbers(column))
        return column.values


@dataclass(frozen=True)
class Cuts:
    """The encoder of Step: bin j holds the numbers in (cuts[j-1], cuts[j]]."""

    cuts: tuple[float, ...]

    @property
    def n_bins(self) -> int:
        return len(self.cuts) + 1

    @classmethod
    def make(cls, values: Floats, weights: Floats, n_bins: int) -> Cuts:
        """Cuts at weighted quantiles; values with a share of 1/n_bins or more stay alone."""
        distinct, inverse = np.unique(values, return_inverse=True)
        share = np.bincount(inverse, weights) / weights.sum()
        atom = share >= (1.0 - 1e-12) / n_bins
        before = np.flatnonzero(atom) - 1
        cuts = [distinct[atom], distinct[before[before >= 0]]]
        size = n_bins - int(atom.sum())
        if size > 1 and share[~atom].sum() > 0:
            reached = np.cumsum(share[~atom]) / share[~atom].sum()
            at = np.searchsorted(reached, np.arange(1, size) / size - 1e-12)
            cuts.append(distinct[~atom][np.minimum(at, len(reached) - 1)])
        inner = np.unique(np.concatenate(cuts))
        inner = inner[(inner >= distinct[0]) & (inner < distinct[-1])]
        # Halfway to the next value: noise in the last digits must not move a row to another bin.
        last = np.unique(np.searchsorted(distinct, inner, side="right")) - 1
        low, high = distinct[last], distinct[last + 1]
        middle = low + (high - low) / 2
        return cls(tuple(float(c) for c in np.where(middle < high, middle, low)))

    def encode(self, column: Column) -> Floats:
        values = Values().encode(column)
        codes = np.searchsorted(np.asarray(self.cuts), values).astype(np.float64)
        return np.where(np.isnan(values), np.nan, codes)


@dataclass(frozen=True)
class Levels:
    """The encoder of Category: the number of a level."""

    levels: tuple[str, ...]

    @classmethod
    def make(cls, column: Column) -> Levels:
        """The levels that occur, in the column's order."""
        labels = column.labels()
        return cls(tuple(labels.levels[c] for c in np.unique(labels.codes[labels.codes >= 0])))

    def encode(self, column: Column) -> Floats:
        if not self.levels:  # only missing cells are told apart
            return np.where(column.missing, np.nan, UNSEEN)
        labels = column.labels()
        position = {level: float(i) for i, level in enumerate(self.levels)}
        table = [position.get(level, UNSEEN) for level in labels.levels]
        return np.array([*table, np.nan])[labels.codes]


Encoder = Values | Cuts | Levels


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
    order = np.argsort(values, kind="stable")
    values, reached = values[order], np.cumsum(weights[order])
    at, slack = np.asarray(q) * reached[-1], 1e-12 * reached[-1]  # reached is rounded
    low = np.minimum(np.searchsorted(reached, at - slack), len(values) - 1)
    high = np.minimum(np.searchsorted(reached, at + slack, side="right"), len(values) - 1)
    return values[low] + (values[high] - values[low]) / 2


def numbers_of(column: Column) -> Numbers:
    """The column as numbers, or the error that says why it is none."""
    Values().encode(column)
    assert isinstance(column, Numbers)
    return column
