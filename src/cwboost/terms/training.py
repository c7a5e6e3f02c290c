"""The training rows as learners see them: the columns of a table, each with its summary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from cwboost.binning.number_statistics import NumberStatistics, statistics_of
from cwboost.binning.summary import ColumnSummary, Sample
from cwboost.frames.columns import Column
from cwboost.frames.table import Table

if TYPE_CHECKING:
    from .bases import Basis
    from .encoders import Encoder
    from .learners import Learner


class TrainingColumn(NamedTuple):
    """One column, and which rows are training rows."""

    name: str
    table: Table
    sample: Sample  # the training rows
    summary: ColumnSummary  # what they have in the column

    @property
    def column(self) -> Column:
        """The column itself, of all rows; reading it may take long."""
        return self.table[self.name]

    @property
    def numbers(self) -> NumberStatistics:
        """Statistics of the column's numbers; raises if the column has text."""
        return statistics_of(self.column)

    @property
    def is_numeric(self) -> bool:
        """Whether the column has numbers that are more than true and false."""
        return self.summary.kind == "numbers" and not self.summary.boolean

    def between(self, low: float, high: float) -> TrainingColumn:
        """Return the column as if the training rows had the range low..high."""
        return self._replace(summary=self.summary._replace(low=low, high=high))


@dataclass(frozen=True, eq=False)
class TrainingTable:
    """All columns, with their summaries."""

    table: Table
    sample: Sample
    summaries: Mapping[str, ColumnSummary]
    _margins: dict[Learner, tuple[Encoder, Basis]] = field(default_factory=dict, init=False)

    def __getitem__(self, name: str) -> TrainingColumn:
        return TrainingColumn(name, self.table, self.sample, self.summaries[name])

    def margin(self, learner: Learner) -> tuple[Encoder, Basis]:
        """Return encoder and basis of a Tensor's margin; many pairs share a margin, so it is made
        once."""
        found = self._margins.get(learner)
        if found is None:
            column = self[learner.columns[0]]
            encoder, basis = learner.encoder_and_basis(column)
            found = self._margins[learner] = encoder, basis.as_margin()
        return found
