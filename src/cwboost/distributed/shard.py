"""One shard: the rows of a fit that are held by one process.

Bins and weighs its rows and runs the core's verbs on them. Its answers are sums, counts and, where
bins must be found, a few distinct values of a column; never its rows.
Does not know about other shards or about the client (see shards.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cwboost import _core
from cwboost._core import SLOT_F, TRAINING_PART, VALIDATION_PART
from cwboost._utils.memory import ArrayPool
from cwboost.binning.index_sets import IndexSet, cells
from cwboost.binning.min_rows import Coder, count_rows
from cwboost.binning.moments import MomentSet
from cwboost.binning.rules import Points
from cwboost.binning.summary import ColumnSummary
from cwboost.fitting.axis_binning import CodeBinning, PointBinning, SettledBinning
from cwboost.frames.columns import Floats
from cwboost.frames.weights import Observations, as_numbers, as_part
from cwboost.metrics.metric import HeldOutRows, RowMean
from cwboost.terms.bases import BasisRows

from .partitions import Partition
from .shard_columns import ShardColumns


class CrossRequest(NamedTuple):
    """The verb Cross as it is sent to shards: two sets and the numbers of two bases per pair."""

    pairs: list[tuple[int, int, int, int]]
    part: int
    by: int
    output: int


class Shard(ShardColumns):
    """Rows that are binned and take part in the fit.

    The client calls the methods by name, through `Shards.ask` and `Shards.tell`.
    """

    def __init__(self, partitions: Sequence[Partition], n_threads: int) -> None:
        super().__init__(partitions, n_threads)
        self.sets: list[IndexSet | MomentSet] = []

    # --- bins -------------------------------------------------------------------------------------

    def outside(self, name: str, points: Points, summary: ColumnSummary) -> Floats:
        """Return the distinct numbers of a column that need points of their own."""
        return points.outside(self._numbers(name), summary)

    def occurring(self, name: str, encoder: Coder, summary: ColumnSummary) -> Floats:
        """Return the codes that occur in a column."""
        return encoder.coded(self.table[name], summary).occurring()

    def cells(
        self, a: PointBinning | CodeBinning, b: PointBinning | CodeBinning
    ) -> NDArray[np.int64]:
        """Return the numbers of the joint bins of two columns that have rows."""
        return cells(a.bin(self.table), b.bin(self.table))

    def bin(self, binnings: Sequence[SettledBinning]) -> list[Floats]:
        """Bin the rows in further ways; return the training weights of these bins."""
        first = len(self.sets)
        self.sets += [binning.bin(self.table) for binning in binnings]
        return self._weigh(self.sets[first:], TRAINING_PART)

    def weigh(self, part: int) -> list[Floats]:
        """Return the weights of all bins of all sets."""
        return self._weigh(self.sets, part)

    def observations(self, part: int) -> Observations:
        """Return how many observations the weights of a part stand for."""
        return Observations.of(np.asarray(self.parts[part]))

    def _weigh(self, sets: Sequence[IndexSet | MomentSet], part: int) -> list[Floats]:
        weights = as_numbers(self.parts[part])
        return [s.weigh(weights, ArrayPool()) for s in sets]

    def counts(self, binning: PointBinning | CodeBinning) -> NDArray[Any]:
        """Return (2, bins) rows in each bin: of all rows, and of the training rows."""
        return count_rows(binning.bin(self.table), self.training)

    # --- verbs ------------------------------------------------------------------------------------

    def begin_rows(self, bases: Sequence[tuple[BasisRows, int]]) -> None:
        """Prepare for verbs. `bases`, with their numbers of coefficients, are for cross-Grams."""
        self.forget_sorted()
        self.forget_target()
        self.bases = [_core.Basis(*rows, n_coef) for rows, n_coef in bases]
        y, sets, parts = self.y, self.sets, self.parts
        if not self.n_rows:  # the core needs a row; this one has weight zero
            y, parts = np.ones(1), [np.zeros(1)] * len(parts)
            sets = [s.with_one_row() for s in sets]
        self.rows = _core.LocalRows(
            self.loss.core(y),
            np.ascontiguousarray(y),
            np.ascontiguousarray(self.offset.T) if self.offset.any() else None,
            [s.core() for s in sets],
            [np.ascontiguousarray(as_part(w)) for w in parts],
            self.n_threads,
        )

    def run(self, batch: Sequence[Any]) -> list[_core.Reply]:
        """Run a batch of verbs."""
        return self.rows.run([self._as_verb(request) for request in batch])

    def metric_sums(self, metrics: Sequence[RowMean]) -> Floats:
        """Return for each metric the weighted sum of its numbers per validation row."""
        weights = np.asarray(self.parts[VALIDATION_PART], dtype=np.float64)
        held = np.flatnonzero(weights)
        rows = HeldOutRows(self.loss, (), self.y[held], weights[held])
        scores = np.asarray(self.rows.read(SLOT_F))[:, held].T
        return np.array([metric.weighted_sum(rows, scores) for metric in metrics])

    def _as_verb(self, request: Any) -> Any:
        if not isinstance(request, CrossRequest):
            return request
        pairs = [(a, b, self.bases[x], self.bases[y]) for a, b, x, y in request.pairs]
        return _core.Cross(pairs, request.part, request.by, request.output)

    def replay(self, calls: Sequence[tuple[str, tuple[Any, ...]]]) -> None:
        """Repeat calls, to reach the state of a shard that was lost."""
        for method, arguments in calls:
            getattr(self, method)(*arguments)
