"""The fit to rows in many places, of which only sums leave: the same model, by the same code.

Knows which bins all shards share, and what a fit is told instead of rows. Knows nothing of how
shards are reached; `cwboost.dask` does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from cwboost import _core
from cwboost._core import TRAINING_PART
from cwboost._utils.checks import threads_for
from cwboost._utils.memory import ArrayPool
from cwboost.binning.rules import Bins
from cwboost.binning.spread import SPREAD_RANKS, Spread
from cwboost.binning.summary import ColumnSummary
from cwboost.fitting.axis_binning import (
    Axis,
    CodeBinning,
    OccurringCodes,
    PairBinning,
    PointBinning,
    RuleBinning,
    SettledBinning,
    choose_binning,
)
from cwboost.fitting.callbacks import RunContext
from cwboost.fitting.checkpoint import Checkpoint
from cwboost.fitting.index_sets import Sets, core_rows, shared_axes
from cwboost.fitting.input_data import FitInput
from cwboost.fitting.interactions import Pairs, check_pairs
from cwboost.fitting.options import FitOptions
from cwboost.fitting.preparation import has_formula
from cwboost.fitting.prepared import PreparedTerms
from cwboost.fitting.smoothing import System
from cwboost.fitting.stages import run_stages
from cwboost.fitting.starting_point import StartingPoint
from cwboost.fitting.systems import basis_rows
from cwboost.fitting.term_plans import check_learners, plan_terms, summarize_columns
from cwboost.frames.columns import Floats
from cwboost.frames.table import Table
from cwboost.losses import Loss
from cwboost.model.model import Model
from cwboost.progress import Progress
from cwboost.terms.bases import Basis
from cwboost.terms.formula import parse, target_of, tokenize
from cwboost.terms.plan import Plan
from cwboost.terms.styles import make_learners

from .columns import ShardedColumn, ShardedTable
from .data import ShardedData, ShardedTarget, names_of, read_sharded
from .rows import ShardedRows
from .shards import Shards


def _settle_binnings(
    plans: Sequence[Plan],
    data: ShardedData,
    default: Bins,
    seen: Mapping[str, ColumnSummary],
) -> tuple[list[SettledBinning], list[int]]:
    """Return the binnings that the terms share, and the number of each term's binning."""
    bases, of_term = shared_axes(plans, default)
    of_pairs: dict[Axis, SettledBinning] = {}  # many pairs share a column

    def settle(axis: Axis, bases: Sequence[Basis]) -> SettledBinning:
        column, summary = data.table[axis.column], seen[axis.column]
        binning = choose_binning(axis, column, data.sample, summary, bases)
        if isinstance(binning, OccurringCodes | RuleBinning):
            return binning.settle(data.table)
        return binning

    out: list[SettledBinning] = []
    for axes in bases:
        if len(axes) == 1:
            out.append(settle(axes[0], bases[axes]))
            continue
        for axis in axes:
            if axis not in of_pairs:
                of_pairs[axis] = settle(axis, [])
        a, b = (of_pairs[axis] for axis in axes)
        assert isinstance(a, PointBinning | CodeBinning)
        assert isinstance(b, PointBinning | CodeBinning)
        cells = np.unique(np.concatenate(data.shards.ask("cells", a, b)))
        out.append(PairBinning(a, b, cells))
    return out, of_term


@dataclass(frozen=True, eq=False)
class ShardedPreparedRows(PreparedTerms):
    """The rows of all shards and the terms over them."""

    data: ShardedData
    of_basis: dict[int, int] = field(default_factory=dict)  # by key, the number of its term

    @classmethod
    def of(cls, data: ShardedData, plans: Sequence[Plan], seen: Any) -> ShardedPreparedRows:
        binnings, of_term = _settle_binnings(plans, data, data.source.bins, seen)
        w = _added(data.shards.tell("bin", binnings))
        sets = Sets([binning.without_rows() for binning in binnings], of_term)
        threads = threads_for(None, data.n_rows)
        plans, matrices = basis_rows(plans, sets, w, ArrayPool(), threads)
        effects = core_rows(plans, sets, matrices)
        return cls(data, seen, plans, sets, matrices, effects, w, threads)

    @property
    def has_validation(self) -> bool:
        return self.data.source.validation != "none"

    @property
    def has_own_split(self) -> bool:
        return False

    def with_more(
        self, plans: Sequence[Plan], seen: Mapping[str, ColumnSummary]
    ) -> ShardedPreparedRows:
        return self.joined(ShardedPreparedRows.of(self.data, plans, seen))

    def weigh(self, part: int) -> Sequence[Floats]:
        if part == TRAINING_PART:
            return self.bin_weights
        return _added(self.data.shards.ask("weigh", part))

    def rows(self, n_threads: int | None = None) -> ShardedRows:  # noqa: ARG002
        bases = [
            (rows, plan.basis.n_coef)
            for plan, rows in zip(self.plans, self.bin_effects, strict=True)
        ]
        self.data.shards.tell("begin_rows", bases)
        return ShardedRows(self.data, self.of_basis)

    def learners(self, systems: Sequence[System]) -> list[_core.Learner]:
        out = super().learners(systems)
        self.of_basis.update({learner.basis_key: k for k, learner in enumerate(out)})
        return out

    def _spread(self, name: str) -> Spread:
        total = float(sum(w[TRAINING_PART] for w in self.data.weights))
        column = self.data.table[name]
        if not isinstance(column, ShardedColumn):
            return Spread(total, 0.0, np.empty(0), np.empty(0))
        points, weights = column.outline(SPREAD_RANKS)
        missing = [max(0.0, total - float(weights.sum()))]
        return Spread.of_bins(np.append(points, np.nan), np.append(weights, missing))


def _added(found: Sequence[Sequence[Floats]]) -> list[Floats]:
    return [np.sum(parts, axis=0) for parts in zip(*found, strict=True)]


class TermOptions(NamedTuple):
    """What the terms of a model shall be."""

    loss: Loss
    bins: Bins
    learners: Any = None
    style: str = "smooth"  # of columns without learners
    exclude: Sequence[str] = ()
    interactions: int | str | Pairs | None = None
    class_weight: Any = None


def fit_shards(
    shards: Shards,
    given: FitInput,
    asked: TermOptions,
    how: FitOptions,
    seed: int,
    callback: Callable[..., Any] | None,
    bar: Progress,
    kept: Checkpoint | None,
    began: float,
) -> Model:
    """The model of the rows of all shards, by the code of a fit to rows in this process."""
    loss, rule, learners, style, exclude, wanted, class_weight = asked
    if wanted is not None and not isinstance(wanted, list):
        raise ValueError(
            f"interactions: {wanted!r}: pairs are ranked where the rows are in one place; name "
            "them, for instance [('a', 'b')] from the ranking of a fit to a sample of the rows"
        )
    formula = None
    names = names_of(sorted(p for found in shards.ask("names") for p in found))
    given = replace(given, rule=rule)
    if has_formula(given.y, ShardedTable(names, 0, shards), learners):
        formula = given.y
        given = replace(given, y=target_of(formula, ShardedTable(names, 0, shards)))
    data = read_sharded(shards, given, names, loss, seed, class_weight)
    how.check(data.loss, data.source.validation != "none")
    table, apart = data.table, given.columns
    target = [name for name in (given.column("y"),) if name is not None]
    table.describe(_wanted(table, formula, learners, [*apart, *exclude]))
    if formula is None:
        chosen = make_learners(table, learners, [*target, *exclude], style, apart=apart)
    else:
        chosen = parse(formula, table, exclude=apart)[1]
    chosen = check_learners(chosen, table)
    check_pairs(wanted, table, given.columns)
    rows = ShardedTarget(shards, data.n_rows, private=data.sample.min_rows is not None)
    begin = StartingPoint.of_rows(data.loss, rows, how.start, how.scale)
    seen = summarize_columns(
        dict.fromkeys(name for learner in chosen for name in learner.columns), table, data.sample, 1
    )
    plans = plan_terms(list(chosen), table, data.sample, seen)
    prepared = ShardedPreparedRows.of(data, plans, seen)
    return run_stages(prepared, begin, how, wanted, RunContext(callback, bar, kept, began))


def _wanted(table: Table, formula: str | None, learners: Any, exclude: Sequence[str]) -> list[str]:
    """Columns that terms will ask for, to be described at once; any other is when it is."""
    named: set[str] | None = None
    if formula is not None:
        words = {token.text for token in tokenize(formula)}
        named = None if "." in words else words
    elif isinstance(learners, list | tuple) and not any(x is Ellipsis for x in learners):
        named = {name for x in learners for name in getattr(x, "columns", ())}
    names = (name for name in table.names if name not in exclude)
    return [name for name in names if named is None or name in named]
