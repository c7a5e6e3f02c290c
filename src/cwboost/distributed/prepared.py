"""Prepared rows on shards: the terms of a fit over bins that all shards share.

Does not know about optimizers or boosting (see fitting/problem.py), nor how shards are reached.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from cwboost import _core
from cwboost._core import TRAINING_PART, VALIDATION_PART
from cwboost._utils.cores import threads_for
from cwboost._utils.memory import ArrayPool
from cwboost.binning.spread import SPREAD_RANKS, Spread
from cwboost.binning.summary import ColumnSummary
from cwboost.fitting.axis_binning import (
    CodeBinning,
    OccurringCodes,
    PairBinning,
    PointBinning,
    RuleBinning,
    SettledBinning,
    TermAxis,
    check_exact_cells,
    choose_binning,
)
from cwboost.fitting.prepared import PreparedTerms
from cwboost.fitting.shared_bins import SharedBins, core_rows, shared_axes
from cwboost.fitting.systems import basis_rows
from cwboost.frames.columns import Floats
from cwboost.frames.weights import count_observations
from cwboost.metrics.metric import Metric
from cwboost.terms.bases import Basis
from cwboost.terms.plan import Plan

from .data import ShardedData
from .rows import ShardedRows
from .sharded_table import ShardedColumn


class SharedBinnings(NamedTuple):
    """The binnings of the terms of a fit, and the number of each term's binning."""

    binnings: list[SettledBinning]
    of_term: list[int]


def settle_binnings(
    plans: Sequence[Plan], data: ShardedData, summaries: Mapping[str, ColumnSummary]
) -> SharedBinnings:
    """Decide how the columns of the terms are binned on all shards."""
    distinct, of_term = shared_axes(plans, data.source.bins)
    of_pairs: dict[TermAxis, SettledBinning] = {}  # many pairs share a column

    def settle(axis: TermAxis, bases: Sequence[Basis]) -> SettledBinning:
        column, summary = data.table[axis.column], summaries[axis.column]
        binning = choose_binning(axis, column, data.sample, summary, bases)
        if isinstance(binning, OccurringCodes | RuleBinning):
            return binning.settle(data.table)
        return binning

    out: list[SettledBinning] = []
    for axes, bases in distinct:
        if len(axes) == 1:
            out.append(settle(axes[0], bases))
            continue
        for axis in axes:
            if axis not in of_pairs:
                of_pairs[axis] = settle(axis, [])
        a, b = (of_pairs[axis] for axis in axes)
        assert isinstance(a, PointBinning | CodeBinning)
        assert isinstance(b, PointBinning | CodeBinning)
        cells = np.unique(np.concatenate(data.shards.ask("cells", a, b)))
        check_exact_cells(axes, len(cells))
        out.append(PairBinning(a, b, cells))
    return SharedBinnings(out, of_term)


@dataclass(frozen=True, eq=False)
class ShardedPreparedRows(PreparedTerms):
    """The terms of a fit over the rows of all shards."""

    data: ShardedData

    @classmethod
    def make(
        cls, data: ShardedData, plans: Sequence[Plan], summaries: Mapping[str, ColumnSummary]
    ) -> ShardedPreparedRows:
        """Bin the rows of all shards for some terms."""
        binnings, of_term = settle_binnings(plans, data, summaries)
        w = _add_shards(data.shards.tell("bin", binnings))
        bins = SharedBins([binning.without_rows() for binning in binnings], of_term)
        threads = threads_for(None, data.n_rows)
        plans, rows = basis_rows(plans, bins, w, ArrayPool(), threads)
        return cls(
            data=data,
            summaries=summaries,
            plans=plans,
            shared_bins=bins,
            basis_rows=rows,
            core_rows=core_rows(plans, bins, rows),
            bin_weights=w,
            n_threads=threads,
        )

    @property
    def has_validation(self) -> bool:
        return self.data.source.validation != "none"

    @property
    def has_own_split(self) -> bool:
        return False

    def measure(
        self, metrics: Sequence[Metric], rows: _core.Rows
    ) -> Callable[[float], list[float]]:
        means = [metric.row_mean for metric in metrics if metric.row_mean is not None]
        weight = rows.weight(VALIDATION_PART)

        def measure(validation_risk: float) -> list[float]:
            sums = iter(self.data.shards.total("metric_sums", means))
            return [
                metric.criterion(metric.row_mean.finish(float(next(sums)) / weight))
                if metric.row_mean is not None
                else validation_risk
                for metric in metrics
            ]

        return measure

    def with_more(
        self, plans: Sequence[Plan], summaries: Mapping[str, ColumnSummary]
    ) -> ShardedPreparedRows:
        return self.joined(ShardedPreparedRows.make(self.data, plans, summaries))

    def weigh(self, part: int) -> Sequence[Floats]:
        if part == TRAINING_PART:
            return self.bin_weights
        return _add_shards(self.data.shards.ask("weigh", part))

    def n_observations(self, part: int) -> float:
        return count_observations(self.data.shards.ask("observations", part))

    def rows(
        self,
        n_threads: int | None = None,  # noqa: ARG002
        learners: Sequence[Sequence[_core.Learner]] = (),
    ) -> ShardedRows:
        bases = [
            (rows, plan.basis.n_coef) for plan, rows in zip(self.plans, self.core_rows, strict=True)
        ]
        self.data.shards.tell("begin_rows", bases)
        numbers = {x.basis_key: k for of_terms in learners for k, x in enumerate(of_terms)}
        return ShardedRows(self.data, numbers)

    def _spread(self, name: str) -> Spread:
        total = float(sum(w[TRAINING_PART] for w in self.data.weights))
        column = self.data.table[name]
        if not isinstance(column, ShardedColumn):
            return Spread(total, 0.0, np.empty(0), np.empty(0))
        points, weights = column.statistics.outline(SPREAD_RANKS)
        missing = [max(0.0, total - float(weights.sum()))]
        return Spread.of_bins(np.append(points, np.nan), np.append(weights, missing))


def _add_shards(found: Sequence[Sequence[Floats]]) -> list[Floats]:
    """Return the sum over shards of the weights of every set."""
    return [np.sum(parts, axis=0) for parts in zip(*found, strict=True)]
