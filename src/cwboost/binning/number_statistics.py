"""Statistics of a numeric column: range, distinct values, quantiles, mean.

`NumberStatistics` is what others ask for. `LocalNumbers` answers for an array of numbers;
`cwboost.distributed` answers for rows on a cluster. Callers need not know which it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cwboost import _core
from cwboost._utils.text import count, quote
from cwboost.frames.columns import Column, Floats, Labels, Numbers

if TYPE_CHECKING:
    from .summary import ColumnSummary, Sample

ADVICE_FIT = "pass it as Category or clean it"
ADVICE_PREDICT = "the model expects numbers in this column"
HEAD_ROWS = 10_000  # rows among which most columns of whole numbers repeat a value


class Survey(NamedTuple):
    """What one pass over a numeric column finds."""

    low: float  # smallest number of the sample; above `high` if there is none
    high: float
    missing: int  # missing cells of the sample
    any_missing: int  # missing cells of all rows
    beyond: bool  # some row has a number outside low..high
    infinite: bool  # some row has an infinite number


class NumberStatistics(ABC):
    """Statistics of the numbers of a column. NaN is a missing cell and is ignored."""

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of rows."""

    @abstractmethod
    def survey(self, sample: Sample) -> Survey:
        """Return ranges and counts."""

    @abstractmethod
    def full_range(self, summary: ColumnSummary) -> tuple[float, float]:
        """Return the smallest and the largest number of all rows."""

    @abstractmethod
    def distinct(self, sample: Sample | None, limit: int) -> Floats | None:
        """Return the distinct numbers of the sample (None: of all rows), increasing.

        Return None if there are more than `limit`.
        """

    @abstractmethod
    def all_distinct(self, sample: Sample) -> Floats:
        """Return the distinct numbers of the sample, increasing, however many there are."""

    @abstractmethod
    def quantiles(self, sample: Sample, shares: Floats) -> Floats:
        """Return weighted quantiles of the sample."""

    @abstractmethod
    def weigh_for_steps(self, sample: Sample, n_bins: int) -> tuple[Floats, Floats | None]:
        """Return increasing numbers and their weights, from which cuts for n_bins bins follow.

        The weights are None if there are at most n_bins distinct numbers: each gets its own bin.
        """

    @abstractmethod
    def mean(self, sample: Sample) -> float:
        """Return the weighted mean of the sample."""

    @abstractmethod
    def mostly_one(self) -> bool:
        """Return whether more than half of the known cells of all rows have the same value."""

    @abstractmethod
    def counts_rows(self, n_rows: int) -> bool:
        """Return whether the numbers look like row numbers of a table of n_rows rows.

        Every row has a different whole number, and their range is less than 2 * n_rows.
        """


class LocalNumbers(NumberStatistics):
    """Statistics of an array of numbers."""

    def __init__(self, values: Floats) -> None:
        self.values = values

    def __len__(self) -> int:
        return len(self.values)

    def survey(self, sample: Sample) -> Survey:
        return Survey(*_core.survey(self.values, sample.marks))

    def full_range(self, summary: ColumnSummary) -> tuple[float, float]:
        if not summary.beyond:
            return summary.low, summary.high
        return np.nanmin(self.values), np.nanmax(self.values)

    def distinct(self, sample: Sample | None, limit: int) -> Floats | None:
        return _core.distinct(self.values, None if sample is None else sample.marks, limit)

    def all_distinct(self, sample: Sample) -> Floats:
        return _core.weigh_distinct(self.values, sample.marks, None)[0]

    def quantiles(self, sample: Sample, shares: Floats) -> Floats:
        return _core.quantiles(self.values, sample.marks, sample.weights, shares)

    def weigh_for_steps(self, sample: Sample, n_bins: int) -> tuple[Floats, Floats | None]:
        found, weights = _core.weigh_distinct(self.values, sample.marks, sample.weights)
        return found, weights if len(found) > n_bins else None

    def mean(self, sample: Sample) -> float:
        known, weights = sample.known(self.values)
        return float(np.average(known, weights=weights))

    def mostly_one(self) -> bool:
        values = self.values
        median = _core.quantiles(values, None, None, np.array([0.5]))  # it has that value, if any
        return bool(2 * np.count_nonzero(values == median) > np.count_nonzero(~np.isnan(values)))

    def counts_rows(self, n_rows: int) -> bool:
        values = self.values
        with np.errstate(invalid="ignore"):  # infinite numbers are refused later
            # The first rows settle most columns.
            for part in (values[:100], values[:HEAD_ROWS], values):
                if not np.all(part == np.round(part)) or not np.ptp(part) < 2 * n_rows:
                    return False
                if len(np.unique(part)) < len(part):
                    return False
        return True


@dataclass(frozen=True, eq=False, kw_only=True)
class RemoteColumn(Numbers):
    """A numeric column whose rows are not in this process: `values` is empty."""

    statistics: NumberStatistics

    def __len__(self) -> int:
        return len(self.statistics)


def statistics_of(column: Column) -> NumberStatistics:
    """Return the statistics of a numeric column; raise a TypeError if it has text."""
    if isinstance(column, RemoteColumn):
        return column.statistics
    return LocalNumbers(numbers_of(column))


def as_statistics(numbers: Floats | NumberStatistics) -> NumberStatistics:
    """Return statistics of an array, or the statistics themselves."""
    return numbers if isinstance(numbers, NumberStatistics) else LocalNumbers(numbers)


def weighted_quantile(values: Floats, weights: Floats, q: float | Floats) -> Any:
    """Return the midpoint of the interval that minimizes the weighted check loss.

    Examples
    --------
    >>> weighted_quantile(np.array([1.0, 2.0, 4.0]), np.array([1.0, 1.0, 2.0]), 0.5)
    np.float64(3.0)
    """
    shares = np.atleast_1d(np.asarray(q, dtype=np.float64))
    found = _core.quantiles(
        np.ascontiguousarray(values), None, np.ascontiguousarray(weights), shares
    )
    return found[0] if np.ndim(q) == 0 else found


def numbers_of(column: Column, advice: str = ADVICE_FIT) -> Floats:
    """Return the numbers of a column; raise a TypeError that names the text if it has text.

    The error message ends with `advice`.
    """
    if isinstance(column, Labels):
        raise TypeError(not_numbers(column, advice))
    return column.values


def not_numbers(column: Labels, advice: str = ADVICE_FIT) -> str:
    """Return the error message for a text column where numbers are needed."""
    bad = [level for level in column.levels if not _is_number(level)]
    if not bad:
        what = f"strings such as {quote(column.levels[0])}" if column.levels else "text"
    else:
        rows = int(np.isin(column.codes, [column.levels.index(level) for level in bad]).sum())
        what = (
            f"strings ({quote(bad[0])} in {count(rows, 'row')})"
            if len(bad) == 1
            else (f"strings ({quote(bad[0])}, {quote(bad[1])}, ... in {count(rows, 'row')})")
        )
    return f"column {quote(column.name)}: expected numbers, got {what}; {advice}"


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
