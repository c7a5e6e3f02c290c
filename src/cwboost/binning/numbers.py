"""Statistics of a numeric column: range, distinct values, quantiles, mean.

The numbers are an array, or `RemoteNumbers` (rows on a cluster, see `cwboost.distributed`). The
functions here accept both, so nobody else has to ask which it is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cwboost import _core
from cwboost.frames.table import Column, Floats, Labels

if TYPE_CHECKING:
    from .summary import Sample

HEAD_ROWS = 10_000  # rows among which most columns of whole numbers repeat a value


class RemoteNumbers(ABC):
    """The numbers of a column whose rows are not in this process.

    The object takes the place of the array of numbers. It knows which rows belong to the sample
    and their weights.
    """

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def survey(self) -> tuple[float, float, int, int, bool, bool]:
        """Return the fields of a `Survey`."""

    @abstractmethod
    def distinct(self, limit: int, everywhere: bool) -> Floats | None:
        """Return the distinct numbers of the sample or, with `everywhere`, of all rows.

        Return None if there are more than `limit`.
        """

    @abstractmethod
    def outline(self, shares: Floats) -> tuple[Floats, Floats]:
        """Return a few numbers and weights that have the column's quantiles at these shares."""

    @abstractmethod
    def outline_of_steps(self, n_bins: int) -> tuple[Floats, Floats]:
        """Return a few numbers and weights that give the column's cuts for n_bins bins.

        Called only if there are more distinct numbers than bins.
        """

    @abstractmethod
    def mean(self) -> float:
        """Return the weighted mean of the sample."""

    @abstractmethod
    def mostly_one(self) -> bool:
        """Whether more than half of the known cells of all rows have the same value."""

    @abstractmethod
    def counts_rows(self) -> bool:
        """Whether every row has a different whole number and they lie close together."""


class Survey(NamedTuple):
    """What one pass over a numeric column finds."""

    low: float  # smallest number of the sample; above `high` if there is none
    high: float
    missing: int  # missing cells of the sample
    any_missing: int  # missing cells of all rows
    beyond: bool  # some row has a number outside low..high
    infinite: bool  # some row has an infinite number


def survey(values: Floats | RemoteNumbers, sample: Sample) -> Survey:
    """Return ranges and counts of a numeric column."""
    if isinstance(values, RemoteNumbers):
        return Survey(*values.survey())
    return Survey(*_core.survey(values, sample.marks))


def distinct(values: Floats | RemoteNumbers, sample: Sample | None, limit: int) -> Floats | None:
    """Return the distinct numbers of the sample (None: of all rows), increasing.

    Return None if there are more than `limit`.
    """
    if isinstance(values, RemoteNumbers):
        return values.distinct(limit, sample is None)
    return _core.distinct(values, None if sample is None else sample.marks, limit)


def all_distinct(values: Floats | RemoteNumbers, sample: Sample) -> Floats | None:
    """Return the distinct numbers of the sample, increasing, however many there are."""
    if isinstance(values, RemoteNumbers):
        return values.distinct(len(values), False)
    return _core.weigh_distinct(values, sample.marks, None)[0]


def quantiles(values: Floats | RemoteNumbers, sample: Sample, shares: Floats) -> Floats:
    """Return weighted quantiles of the sample's numbers."""
    if isinstance(values, RemoteNumbers):
        values, weights = values.outline(shares)
        return _core.quantiles(values, None, weights, shares)
    return _core.quantiles(values, sample.marks, sample.weights, shares)


def weigh_for_steps(
    values: Floats | RemoteNumbers, sample: Sample, n_bins: int
) -> tuple[Floats, Floats | None]:
    """Return increasing numbers and their weights, from which cuts for n_bins bins follow.

    The weights are None if there are at most n_bins distinct numbers: each gets its own bin.
    """
    if isinstance(values, RemoteNumbers):
        few = values.distinct(n_bins, False)
        return values.outline_of_steps(n_bins) if few is None else (few, None)
    found, weights = _core.weigh_distinct(values, sample.marks, sample.weights)
    return found, weights if len(found) > n_bins else None


def mean(values: Floats | RemoteNumbers, sample: Sample) -> float:
    """Return the weighted mean of the sample's numbers."""
    if isinstance(values, RemoteNumbers):
        return values.mean()
    known, weights = sample.known(values)
    return float(np.average(known, weights=weights))


def mostly_one(values: Floats | RemoteNumbers) -> bool:
    """Whether more than half of the known cells have the same value, which is then the median."""
    if isinstance(values, RemoteNumbers):
        return values.mostly_one()
    median = _core.quantiles(values, None, None, np.array([0.5]))
    return bool(2 * np.count_nonzero(values == median) > np.count_nonzero(~np.isnan(values)))


def counts_rows(values: Floats | RemoteNumbers, n_rows: int) -> bool:
    """Whether the numbers look like row numbers of a table of n_rows rows.

    Every row has a different whole number, and their range is less than 2 * n_rows.
    """
    if isinstance(values, RemoteNumbers):
        return values.counts_rows()
    with np.errstate(invalid="ignore"):  # infinite numbers are refused later
        for part in (values[:100], values[:HEAD_ROWS], values):  # the first settles most columns
            if not np.all(part == np.round(part)) or not np.ptp(part) < 2 * n_rows:
                return False
            if len(np.unique(part)) < len(part):
                return False
    return True


def weighted_quantile(values: Floats, weights: Floats, q: float | Floats) -> Any:
    """Return the midpoint of the interval that minimizes the weighted check loss.

    Examples
    --------
    >>> weighted_quantile(np.array([1.0, 2.0, 4.0]), np.array([1.0, 1.0, 2.0]), 0.5)
    np.float64(3.0)
    """
    found = _core.quantiles(
        np.ascontiguousarray(values), None, np.ascontiguousarray(weights), np.atleast_1d(q)
    )
    return found[0] if np.ndim(q) == 0 else found


def numbers_of(column: Column) -> Floats:
    """Return the numbers of a column; raise a TypeError that names the text if it has text."""
    if isinstance(column, Labels):
        raise TypeError(not_numbers(column))
    return column.values


def not_numbers(column: Labels) -> str:
    """Return the error message for a text column where numbers are needed."""
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
