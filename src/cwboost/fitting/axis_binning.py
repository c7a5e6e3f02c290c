"""How one axis (a column as a term sees it) is binned: decided here, for local rows and for shards.

`choose_binning` decides. A binning then bins rows in this process. Shards must agree on the bins
before any of them can bin its rows: `settle` collects what all rows contribute to the bins.
Does not know which terms share an axis (see shared_bins.py) or how shards are reached.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cwboost._utils.memory import ArrayPool
from cwboost._utils.text import quote
from cwboost.binning.index_sets import IndexSet, pair_in, pair_values
from cwboost.binning.min_rows import Coder
from cwboost.binning.moments import HasBreaks, MomentPieces, MomentSet, bin_by_rule, choose_pieces
from cwboost.binning.number_statistics import (
    LocalNumbers,
    NumberStatistics,
    numbers_of,
    statistics_of,
)
from cwboost.binning.rules import Bins, Points
from cwboost.binning.summary import ColumnSummary, Sample
from cwboost.frames.columns import Column, Floats
from cwboost.frames.table import Table
from cwboost.terms.encoders import Encoder

MAX_TENSOR_BINS = 255  # per axis of a pair, unless its bins are exact
MAX_EXACT_CELLS = 2**16 - 1  # of a pair with exact bins


class TermAxis(NamedTuple):
    """What the bins of a column depend on."""

    column: str
    encoder: Encoder
    rule: Bins | None  # None if the encoder gives codes
    of_pair: bool

    @property
    def key(self) -> str:
        """The name of the bins in a cache."""
        return repr((self.column, self.encoder, self.rule))


class RemoteRows(Protocol):
    """Rows on shards. Every shard sees only its own rows."""

    def statistics(self, name: str) -> NumberStatistics:
        """Return statistics of a numeric column."""

    def occurring(self, name: str, encoder: Coder, summary: ColumnSummary) -> Floats:
        """Return the codes that occur in any row, increasing, NaN last."""

    def outside(self, name: str, points: Points, summary: ColumnSummary) -> Floats:
        """Return the distinct numbers of all rows that need points of their own, increasing."""


# --- bins that all rows agree on ------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class PointBinning:
    """Every number goes to its nearest point; numbers outside the points have extra points."""

    column: str
    points: Points
    extra: Floats
    summary: ColumnSummary

    def bin_column(self, column: Column, room: ArrayPool) -> IndexSet:
        """Return the bins of some rows."""
        return self.points.place(numbers_of(column), self.summary, self.extra, room)

    def bin(self, table: Table) -> IndexSet:
        """Return the bins of the rows of a table."""
        return self.bin_column(table[self.column], ArrayPool())

    def without_rows(self) -> IndexSet:
        """Return the bins of no rows."""
        missing = [np.nan] if self.summary.any_missing else []
        return _no_rows(np.concatenate([self.points.points, self.extra, missing]))


@dataclass(frozen=True, eq=False)
class CodeBinning:
    """Every code of a list has a bin; other codes go to the bin `fallback`."""

    column: str
    encoder: Coder
    values: Floats  # codes, increasing, NaN last
    summary: ColumnSummary
    fallback: int = 0

    def bin_column(self, column: Column, room: ArrayPool) -> IndexSet:  # noqa: ARG002
        """Return the bins of some rows."""
        return self.encoder.coded(column, self.summary).bins(self.values, self.fallback)

    def bin(self, table: Table) -> IndexSet:
        """Return the bins of the rows of a table."""
        return self.bin_column(table[self.column], ArrayPool())

    def without_rows(self) -> IndexSet:
        """Return the bins of no rows."""
        return _no_rows(self.values)


@dataclass(frozen=True, eq=False)
class PieceBinning:
    """Moments over pieces instead of bins."""

    column: str
    pieces: MomentPieces

    def bin_column(self, column: Column, room: ArrayPool) -> MomentSet:
        """Return the pieces of some rows."""
        return self.pieces.place(numbers_of(column), room)

    def bin(self, table: Table) -> MomentSet:
        """Return the pieces of the rows of a table."""
        return self.bin_column(table[self.column], ArrayPool())

    def without_rows(self) -> MomentSet:
        """Return the pieces of no rows."""
        nothing = np.empty(0, np.uint16), np.empty(0)
        return MomentSet(*nothing, self.pieces.values, self.pieces.inverse)


@dataclass(frozen=True, eq=False)
class PairBinning:
    """The joint bins of two columns that have rows."""

    a: PointBinning | CodeBinning
    b: PointBinning | CodeBinning
    cells: NDArray[np.int64]

    def bin(self, table: Table) -> IndexSet:
        """Return the bins of the rows of a table."""
        return pair_in(self.a.bin(table), self.b.bin(table), self.cells)

    def without_rows(self) -> IndexSet:
        """Return the bins of no rows."""
        return _no_rows(pair_values(self.a.without_rows(), self.b.without_rows(), self.cells))


SettledBinning = PointBinning | CodeBinning | PieceBinning | PairBinning


def _no_rows(values: Floats) -> IndexSet:
    return IndexSet(np.empty(0, np.uint8), values)


# --- bins that depend on all rows -----------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class OccurringCodes:
    """Every code that occurs has a bin."""

    column: str
    encoder: Encoder
    summary: ColumnSummary

    def bin_column(self, column: Column, room: ArrayPool) -> IndexSet:  # noqa: ARG002
        """Return the bins of all rows, which are in this process."""
        return self.encoder.bin(column, self.summary)

    def settle(self, rows: RemoteRows) -> CodeBinning:
        """Return the binning that all shards use."""
        values = rows.occurring(self.column, self.encoder, self.summary)
        return CodeBinning(self.column, self.encoder, values, self.summary)


@dataclass(frozen=True, eq=False)
class RuleBinning:
    """A rule places points by the sample; numbers outside the sample's range add some."""

    column: str
    rule: Bins
    sample: Sample
    summary: ColumnSummary
    bases: Sequence[HasBreaks]
    of_pair: bool

    def bin_column(self, column: Column, room: ArrayPool) -> IndexSet | MomentSet:
        """Return the bins of all rows, which are in this process."""
        values = numbers_of(column)
        if self.of_pair:
            return self._points(LocalNumbers(values)).assign(values, self.summary, room)
        return bin_by_rule(values, self.rule, self.sample, self.summary, self.bases, room)

    def settle(self, rows: RemoteRows) -> PointBinning:
        """Return the binning that all shards use."""
        points = self._points(rows.statistics(self.column))
        extra = points.thinned(rows.outside(self.column, points, self.summary))
        return PointBinning(self.column, points, extra, self.summary)

    def _points(self, numbers: NumberStatistics) -> Points:
        points = self.rule.make(numbers, self.sample, self.summary)
        coarse = self.of_pair and self.rule.n != "exact"
        if coarse and len(points.points) > MAX_TENSOR_BINS:
            points = Bins(MAX_TENSOR_BINS).make(numbers, self.sample, self.summary)
        return points


AxisBinning = PointBinning | CodeBinning | PieceBinning | OccurringCodes | RuleBinning


def check_exact_cells(axes: Sequence[TermAxis], n_cells: int) -> None:
    """Raise if a pair with exact bins has too many cells with rows."""
    exact = any(axis.rule is not None and axis.rule.n == "exact" for axis in axes)
    if exact and n_cells > MAX_EXACT_CELLS:
        a, b = (axis.column for axis in axes)
        raise ValueError(
            f"bins='exact': the columns {quote(a)} and {quote(b)} have {n_cells:,} different pairs "
            f"of values, but a Tensor takes at most {MAX_EXACT_CELLS:,}; give the Tensor other "
            "bins, such as Tensor(..., bins='auto')"
        )


def choose_binning(
    axis: TermAxis,
    column: Column,
    sample: Sample,
    summary: ColumnSummary,
    bases: Sequence[HasBreaks],
) -> AxisBinning:
    """Decide how an axis is binned.

    Parameters
    ----------
    axis : TermAxis
    column : Column
        The column of the axis, local or on shards.
    sample : Sample
    summary : ColumnSummary
    bases : list
        The bases over the bins; their form may allow moments instead.
    """
    name, encoder, rule, of_pair = axis
    min_rows = sample.min_rows
    if rule is None:
        if min_rows is None:
            return OccurringCodes(name, encoder, summary)
        values, fallback = min_rows.pooled(column, encoder, summary)
        return CodeBinning(name, encoder, values, summary, fallback)
    if min_rows is not None:
        points = min_rows.points(column, rule, sample, summary)
        return PointBinning(name, points, points.points[:0], summary)
    if rule.n == "exact" and not of_pair:
        pieces = choose_pieces(statistics_of(column), summary, bases)
        if pieces is not None:
            return PieceBinning(name, pieces)
    return RuleBinning(name, rule, sample, summary, bases, of_pair)
