"""What the training rows tell about a column: range, variation, missing cells.

Everything that is decided from data (bin points, knots, levels) is decided from a `Sample`, the
training rows. Validation rows decide nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cwboost.frames.columns import Column, Floats, Numbers, Unit
from cwboost.frames.weights import Observations, count_observations

from .number_statistics import statistics_of

if TYPE_CHECKING:
    from .min_rows import MinRows


class Sample(NamedTuple):
    """The training rows: which rows, their weights, their number."""

    marks: NDArray[np.bool_] | None  # (n,) over all rows; None if all rows are training rows
    weights: Floats | None  # (n,) over all rows; None if unweighted
    n_rows: int
    min_rows: MinRows | None = None  # the rule of min_rows_per_bin; None if it is not set
    n_observations: float | None = None  # that the weights stand for, if they are on shards

    @classmethod
    def of(cls, n_rows: int) -> Sample:
        """Return a sample of all n rows, unweighted."""
        return cls(None, None, n_rows)

    @property
    def size(self) -> int:
        """The number of observations: of rows, unless whole weights count as repetitions.

        Examples
        --------
        >>> [Sample(None, np.array(w), 2).size for w in ([1.0, 4.0], [0.5, 0.7])]
        [5, 2]
        """
        if self.n_observations is not None:
            return round(self.n_observations)
        if self.weights is None:
            return self.n_rows
        own = self.weights if self.marks is None else self.weights[self.marks]
        return round(count_observations([Observations.of(own)]))

    def weigh(self, rows: NDArray[np.bool_] | None = None) -> float:
        """Return the weight of the sample's rows that are marked in `rows` (None: of all)."""
        marks = self.marks if rows is None else rows if self.marks is None else rows & self.marks
        if self.weights is None:
            return float(self.n_rows if marks is None else np.count_nonzero(marks))
        return float(self.weights.sum() if marks is None else self.weights[marks].sum())

    def known(self, values: Floats) -> tuple[Floats, Floats]:
        """Return the sample's numbers in a column without missing cells, and their weights."""
        rows = ~np.isnan(values) if self.marks is None else self.marks & ~np.isnan(values)
        values = values[rows]
        return values, np.ones(len(values)) if self.weights is None else self.weights[rows]


class ColumnSummary(NamedTuple):
    """What a sample has in a column."""

    kind: Literal["numbers", "labels"]
    boolean: bool
    low: float  # smallest number; above `high` if there is none
    high: float
    varies: bool  # has at least two different values
    empty: bool  # has no value at all
    missing: bool  # some row of the sample is missing
    any_missing: bool  # some row of the table is missing
    beyond: bool  # some row of the table has a number outside low..high
    infinite: bool  # some row of the table has an infinite number
    unit: Unit = "numbers"  # as of Numbers


def summarize(column: Column, sample: Sample) -> ColumnSummary:
    """Return the summary of a column."""
    if isinstance(column, Numbers):
        survey = statistics_of(column).survey(sample)
        low, high = survey.low, survey.high
        return ColumnSummary(
            "numbers",
            column.boolean,
            low,
            high,
            low < high,
            low > high,
            survey.missing > 0,
            survey.any_missing > 0,
            survey.beyond,
            survey.infinite,
            column.unit,
        )
    codes = column.codes_of(sample.marks)
    known = codes[codes >= 0]
    empty = len(known) == 0
    varies = not empty and bool(known.min() < known.max())
    missing = len(known) < len(codes)
    any_missing = bool(missing or column.codes.min() < 0)
    return ColumnSummary(
        "labels", False, np.inf, -np.inf, varies, empty, missing, any_missing, False, False
    )
