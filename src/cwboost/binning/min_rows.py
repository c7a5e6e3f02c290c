"""The option min_rows_per_bin: every bin must have a minimum number of rows at every site.

Bins below the minimum are merged with a neighbour (numbers) or with the unseen levels (text).
`LocalMinRows` counts rows in this process; `cwboost.distributed` counts them on shards.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from cwboost._utils.memory import ArrayPool
from cwboost._utils.text import quote
from cwboost.frames.columns import Column, Floats

from .index_sets import UNSEEN, CodedColumn, IndexSet
from .number_statistics import numbers_of
from .summary import ColumnSummary, Sample

if TYPE_CHECKING:
    from .rules import Bins, Points


class Coder(Protocol):
    """An encoder that gives every row a code (see `cwboost.terms.encoders`)."""

    @property
    def counts_unseen(self) -> bool:
        """Whether the code UNSEEN stands for levels that training did not have."""

    def coded(self, column: Column, summary: ColumnSummary) -> CodedColumn:
        """Return the code of every row."""


class CodeCounts(NamedTuple):
    """The rows that have each code."""

    values: Floats  # the codes that occur, increasing, NaN last
    counts: NDArray[Any]  # (sites, codes)


class PooledCodes(NamedTuple):
    """Bins of codes after pooling."""

    values: Floats  # the code of each bin
    fallback: int  # the bin of all other codes


class MinRows(ABC):
    """The minimum number of rows per bin at every site that has rows in it.

    It holds for the training rows and for all rows. `rule` is the binning rule of learners that
    do not have their own.
    """

    def __init__(self, rows: int, rule: Bins) -> None:
        self.rows, self.rule = rows, rule
        self._points: dict[tuple[str, Bins], Points] = {}

    @abstractmethod
    def by_points(self, column: Column, points: Points, summary: ColumnSummary) -> NDArray[Any]:
        """Return (sites, bins) rows in the bins of points; the last bin may be of missing cells."""

    @abstractmethod
    def by_code(self, column: Column, encoder: Coder, summary: ColumnSummary) -> CodeCounts:
        """Return how many rows have each code."""

    def small(self, counts: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which bins have too few rows at some site."""
        return np.asarray(((counts > 0) & (counts < self.rows)).any(axis=0))

    def refuse_missing(self, column: Column, values: Floats, counts: NDArray[Any]) -> None:
        """Raise if too few cells are missing: they have no neighbour to be merged with."""
        if len(values) and np.isnan(values[-1]) and self.small(counts)[-1]:
            raise ValueError(
                f"column {quote(column.name)} has fewer missing cells than min_rows_per_bin = "
                f"{self.rows} at one site; fill them, or leave these rows out"
            )

    def points(self, column: Column, rule: Bins, sample: Sample, summary: ColumnSummary) -> Points:
        """Return points whose bins have enough rows."""
        key = column.name, rule
        if key not in self._points:
            self._points[key] = rule.merged(column, sample, summary)
        return self._points[key]

    def pooled(self, column: Column, encoder: Coder, summary: ColumnSummary) -> PooledCodes:
        """Return bins of codes that have enough rows.

        If even all rare levels together have too few rows, they count as the most frequent level.
        """
        values, counts = self.by_code(column, encoder, summary)
        unseen = values == UNSEEN
        if encoder.counts_unseen and self.small(counts)[unseen].any():
            values, counts = values[~unseen], counts[:, ~unseen]
        fallback = int(np.argmax(np.where(np.isnan(values), -1, counts.sum(axis=0))))
        return PooledCodes(values, fallback)


class LocalMinRows(MinRows):
    """Counts rows in this process, which may come from several sites."""

    def __init__(
        self,
        rows: int,
        rule: Bins,
        training: NDArray[np.bool_] | None = None,
        sites: NDArray[np.int64] | None = None,
    ) -> None:
        super().__init__(rows, rule)
        self.training, self.sites = training, sites

    def by_points(self, column: Column, points: Points, summary: ColumnSummary) -> NDArray[Any]:
        bins = points.place(numbers_of(column), summary, points.points[:0], ArrayPool())
        return count_rows(bins, self.training, self.sites)

    def by_code(self, column: Column, encoder: Coder, summary: ColumnSummary) -> CodeCounts:
        bins = encoder.coded(column, summary).compact()
        return CodeCounts(bins.values, count_rows(bins, self.training, self.sites))


def count_rows(
    bins: IndexSet, training: NDArray[np.bool_] | None, sites: NDArray[np.int64] | None = None
) -> NDArray[Any]:
    """Return (2 * sites, bins) rows of every bin: of all rows, then of the training rows."""
    at = np.zeros(bins.n_rows, np.int64) if sites is None else sites
    n_sites = int(at.max(initial=0)) + 1
    joint = at * bins.n_bins + bins.index
    parts = [joint] if training is None else [joint, joint[training]]
    size = n_sites * bins.n_bins
    return np.concatenate(
        [np.bincount(part, minlength=size).reshape(n_sites, -1) for part in parts]
    )


def every_other(small: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return every other bin of each run of small bins: dropping it may be enough for the rest."""
    out = small.copy()
    for j in range(1, len(out)):
        out[j] = small[j] and not out[j - 1]
    return out
