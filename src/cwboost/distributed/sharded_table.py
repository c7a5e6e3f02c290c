"""A table whose rows are on shards: columns that know their statistics but not their cells.

Does not know how statistics are computed (see sharded_numbers.py), or about y and the fit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cwboost.binning.min_rows import CodeCounts, Coder, MinRows
from cwboost.binning.number_statistics import NumberStatistics, RemoteColumn, statistics_of
from cwboost.binning.rules import Bins, Points
from cwboost.binning.summary import ColumnSummary, Sample
from cwboost.fitting.axis_binning import CodeBinning, PointBinning
from cwboost.frames.chunks import UnifiedColumn
from cwboost.frames.columns import Codes, Column, Floats, Labels, Numbers, format_number
from cwboost.frames.table import ComputedColumns, Table

from .shard_columns import ShardColumnSummary
from .sharded_numbers import ShardedNumbers
from .shards import Shards


@dataclass(frozen=True, eq=False, kw_only=True)
class ShardedColumn(RemoteColumn):
    """A numeric column on shards."""

    statistics: ShardedNumbers

    def labels(self) -> Labels:
        self.check_exact()
        n_rows = len(self)
        sample = Sample.of(n_rows)  # statistics of shards know their training rows
        values = self.statistics.distinct(None, n_rows)
        assert values is not None
        levels = tuple(format_number(v, self.boolean) for v in values)
        training = np.searchsorted(values, self.statistics.all_distinct(sample))
        survey = self.statistics.survey(sample)
        missing, any_missing = bool(survey.missing), bool(survey.any_missing)
        return ShardedLabels.make(self.name, levels, training, missing, any_missing, n_rows)


@dataclass(frozen=True, eq=False, kw_only=True)
class ShardedLabels(Labels):
    """A text column on shards: every code that occurs is there once."""

    training_codes: Codes  # codes that occur in the training rows
    n_rows: int

    @classmethod
    def make(
        cls,
        name: str,
        levels: tuple[str, ...],
        training: NDArray[np.int64],
        missing: bool,
        any_missing: bool,
        n_rows: int,
    ) -> ShardedLabels:
        """Return a column whose training rows have the codes `training`.

        Some training rows (`missing`) or some rows (`any_missing`) may be missing.
        """
        missing_code = np.array([-1])
        codes = np.concatenate([np.arange(len(levels)), missing_code[: int(any_missing)]])
        training_codes = np.concatenate([training, missing_code[: int(missing)]])
        return cls(name, codes, levels, training_codes=training_codes, n_rows=n_rows)

    def __len__(self) -> int:
        return self.n_rows

    def codes_of(self, marks: NDArray[np.bool_] | None) -> Codes:  # noqa: ARG002
        return self.training_codes


class ShardedMinRows(MinRows):
    """min_rows_per_bin for shards: every shard is a site."""

    def __init__(self, rows: int, rule: Bins, shards: Shards) -> None:
        super().__init__(rows, rule)
        self.shards = shards

    def by_points(self, column: Column, points: Points, summary: ColumnSummary) -> NDArray[Any]:
        binning = PointBinning(column.name, points, points.points[:0], summary)
        return np.concatenate(self.shards.ask("counts", binning))

    def by_code(self, column: Column, encoder: Coder, summary: ColumnSummary) -> CodeCounts:
        values = find_codes(self.shards, column.name, encoder, summary)
        binning = CodeBinning(column.name, encoder, values, summary)
        return CodeCounts(values, np.concatenate(self.shards.ask("counts", binning)))


def find_codes(shards: Shards, name: str, encoder: Coder, summary: ColumnSummary) -> Floats:
    """Return the codes of a column that occur on any shard, increasing, NaN last."""
    found = shards.ask("occurring", name, encoder, summary)
    return np.unique(np.concatenate(found), equal_nan=True)


class ShardedTable(Table):
    """The columns of all shards, described when they are first used."""

    def __init__(self, names: Sequence[str], n_rows: int, shards: Shards) -> None:
        super().__init__(names, n_rows, ComputedColumns(self._describe))
        self.shards = shards

    def check(self, column: Column, infinite: bool | None = None) -> None:
        """Do nothing: shards raise for infinite numbers."""

    def describe(self, names: Iterable[str]) -> None:
        """Describe many columns in one round trip."""
        names = [name for name in names if name in self and name not in self._kept]
        answers = self.shards.ask("describe", names) if names else []
        for name, *found in zip(names, *answers, strict=True):
            self._kept[name] = self._column(name, found)

    def _describe(self, name: str) -> Column:
        self.describe([name])
        return self._kept[name]

    def _column(self, name: str, found: Sequence[ShardColumnSummary]) -> Column:
        unified = UnifiedColumn(name)
        numbers = [unified.add(d.chunk, d.where) for d in found]
        whole = unified.finish()
        if isinstance(whole, Numbers):
            statistics = ShardedNumbers(name, self.shards, self.n_rows, found)
            return ShardedColumn(
                name, np.empty(0), whole.boolean, whole.exact, whole.unit, statistics=statistics
            )
        in_training = [
            number[d.in_training]
            for number, d in zip(numbers, found, strict=True)
            if d.in_training is not None
        ]
        training = np.unique(whole.codes[np.concatenate(in_training)])
        missing, any_missing = any(d.missing for d in found), any(d.any_missing for d in found)
        return ShardedLabels.make(name, whole.levels, training, missing, any_missing, self.n_rows)

    # --- what all rows contribute to bins (see axis_binning.RemoteRows) ---------------------------

    def statistics(self, name: str) -> NumberStatistics:
        """Return statistics of a numeric column."""
        return statistics_of(self[name])

    def occurring(self, name: str, encoder: Coder, summary: ColumnSummary) -> Floats:
        """Return the codes that occur in any row, increasing, NaN last."""
        return find_codes(self.shards, name, encoder, summary)

    def outside(self, name: str, points: Points, summary: ColumnSummary) -> Floats:
        """Return the distinct numbers of all rows that need points of their own, increasing."""
        return np.unique(np.concatenate(self.shards.ask("outside", name, points, summary)))
