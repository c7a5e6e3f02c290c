"""Prepared rows: rows binned once for the terms of a model, from which any number of fits is made.

Folds, bags and other df are other weights and other systems over the same bins. Does not know about
optimizers or boosting (see problem.py), nor about the fitted model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol, Self

import numpy as np

from cwboost import _core
from cwboost._core import ALL_PART, SLOT_F
from cwboost._utils.memory import ArrayPool
from cwboost.binning.spread import Spread
from cwboost.binning.summary import ColumnSummary, Sample
from cwboost.frames.columns import Floats
from cwboost.frames.table import Table
from cwboost.frames.weights import Observations, RowWeights, as_part, count_observations
from cwboost.losses import Loss
from cwboost.metrics.metric import HeldOutRows, Metric
from cwboost.terms.bases import BasisRows
from cwboost.terms.learners import Learner
from cwboost.terms.plan import Plan

from .input_data import FitData, InputRecord, Split
from .shared_bins import SharedBins, bin_weights, core_rows, fine_points, make_shared_bins
from .smoothing import System
from .systems import basis_rows, core_learner, make_systems


class FitRows(Protocol):
    """What a fit must know about its rows, in this process or on the shards of a cluster."""

    @property
    def table(self) -> Table: ...

    @property
    def sample(self) -> Sample: ...

    @property
    def loss(self) -> Loss: ...

    @property
    def classes(self) -> tuple[Any, ...]: ...

    @property
    def source(self) -> InputRecord: ...


class SpreadCache:
    """The spreads of columns that were asked for before. Folds and bags share it."""

    def __init__(self) -> None:
        self._known: dict[str, Spread] = {}

    def get(self, name: str, make: Callable[[], Spread | None]) -> Spread | None:
        """Return the spread of a column, made if it is not known; None if it cannot be made."""
        if name not in self._known:
            spread = make()
            if spread is None:
                return None
            self._known[name] = spread
        return self._known[name]


@dataclass(frozen=True, eq=False)
class PreparedTerms(ABC):
    """The terms of a fit over binned rows, wherever the rows are.

    `PreparedRows` is for rows in this process; distributed rows have a class of their own.
    """

    data: FitRows
    summaries: Mapping[str, ColumnSummary]
    plans: Sequence[Plan]
    shared_bins: SharedBins
    basis_rows: Sequence[BasisRows]  # the basis of each term over the bins of its set
    core_rows: Sequence[BasisRows]  # the same over the core's bins, which are four per moment piece
    bin_weights: Sequence[Floats]  # of the training rows of `data`, for each set
    n_threads: int
    spread_cache: SpreadCache = field(default_factory=SpreadCache, kw_only=True)

    # --- what depends on where the rows are -------------------------------------------------------

    @property
    @abstractmethod
    def has_validation(self) -> bool:
        """Whether some rows are validation rows."""

    @property
    @abstractmethod
    def has_own_split(self) -> bool:
        """Whether the training rows are not the ones that `bin_weights` weighs."""

    @abstractmethod
    def weigh(self, part: int) -> Sequence[Floats]:
        """Return the weights of the bins of every set, from the training part or all rows."""

    @abstractmethod
    def n_observations(self, part: int) -> float:
        """Return how many observations the weights of a part stand for.

        Whole weights count as repetitions, others as one observation each.
        """

    @abstractmethod
    def rows(
        self, n_threads: int | None = None, learners: Sequence[Sequence[_core.Learner]] = ()
    ) -> _core.Rows:
        """Return the rows for the core, with their parts: training, validation and all.

        `learners` are lists of all terms' learners that will be fitted to the rows: rows elsewhere
        must know their bases.
        """

    @abstractmethod
    def with_more(self, plans: Sequence[Plan], summaries: Mapping[str, ColumnSummary]) -> Self:
        """Return these terms and further ones over the same rows."""

    @abstractmethod
    def measure(
        self, metrics: Sequence[Metric], rows: _core.Rows
    ) -> Callable[[float], list[float]]:
        """Return a function that computes metrics of the validation rows, to be minimised.

        It takes the validation risk and reads the scores of `rows` in SLOT_F.
        """

    @abstractmethod
    def _spread(self, name: str) -> Spread:
        """Return how the training rows spread over a column whose bins do not show it."""

    # --- what does not ----------------------------------------------------------------------------

    @property
    def columns(self) -> list[str]:
        """Names of the columns that the terms use."""
        return list(dict.fromkeys(name for plan in self.plans for name in plan.columns))

    def with_learners(self, change: Callable[[Learner], Learner]) -> Self:
        """Return the terms with other df or smoothing; nothing else of a learner may change."""

        def changed(plan: Plan) -> Plan:
            learner = change(plan.learner)
            if learner is plan.learner:
                return plan
            net_df = None if learner.states_smoothing else plan.net_df
            return replace(plan, learner=learner, net_df=net_df)

        return replace(self, plans=[changed(plan) for plan in self.plans])

    def with_terms(self, numbers: Sequence[int]) -> Self:
        """Return some of the terms, over the same bins."""
        of_term = [self.shared_bins.of_term[k] for k in numbers]
        return replace(
            self,
            plans=[self.plans[k] for k in numbers],
            shared_bins=SharedBins(self.shared_bins.sets, of_term),
            basis_rows=[self.basis_rows[k] for k in numbers],
            core_rows=[self.core_rows[k] for k in numbers],
        )

    def joined(self, more: PreparedTerms) -> Self:
        """Return these terms and others over the same rows."""
        offset = len(self.shared_bins.sets)
        numbers = [*self.shared_bins.of_term, *(offset + k for k in more.shared_bins.of_term)]
        return replace(
            self,
            summaries={**more.summaries, **self.summaries},
            plans=[*self.plans, *more.plans],
            shared_bins=SharedBins([*self.shared_bins.sets, *more.shared_bins.sets], numbers),
            basis_rows=[*self.basis_rows, *more.basis_rows],
            core_rows=[*self.core_rows, *more.core_rows],
            bin_weights=[*self.bin_weights, *more.bin_weights],
        )

    def systems(
        self, bin_weights: Sequence[Floats], smoothing: Sequence[float | None] | None = None
    ) -> list[System]:
        """Return the normal equations of all terms for the weights of the bins of every set.

        Smoothing that is not given is found from the df of the learner.
        """
        of_terms = [bin_weights[k] for k in self.shared_bins.of_term]
        known = [None] * len(self.plans) if smoothing is None else smoothing
        return make_systems(self.plans, self.basis_rows, of_terms, known, self.n_threads)

    def learners(self, systems: Sequence[System]) -> list[_core.Learner]:
        """Return the learners of all terms for the core."""
        parts = zip(self.shared_bins.of_term, self.core_rows, systems, strict=True)
        return [core_learner(number, rows, system) for number, rows, system in parts]

    def spreads(self, names: Container[str]) -> dict[str, Spread]:
        """Return how the training rows of `data` spread over some columns, for drawing.

        Fine bins show it; for other columns the rows are asked.
        """
        out: dict[str, Spread] = {}
        for k, plan in enumerate(self.plans):
            name = plan.columns[0]
            if name in names and name not in out:
                found = self.spread_cache.get(name, partial(self._spread_of_bins, k))
                if found is not None:
                    out[name] = found
        for name in self.columns:
            if name in names and name not in out:
                found = self.spread_cache.get(name, partial(self._spread, name))
                assert found is not None
                out[name] = found
        return {name: out[name] for name in self.columns if name in names}

    def _spread_of_bins(self, k: int) -> Spread | None:
        """Return the spread of the first column of term k, if the bins are fine enough."""
        plan, number = self.plans[k], self.shared_bins.of_term[k]
        summary, w = self.summaries[plan.columns[0]], self.bin_weights[number]
        points = fine_points(plan, self.shared_bins.sets[number], w, summary, self.data.source.bins)
        return None if points is None else Spread.of_bins(points, w, summary.kind == "numbers")


@dataclass(frozen=True, eq=False)
class PreparedRows(PreparedTerms):
    """Rows in this process, binned for some terms, and how a fit weighs them."""

    data: FitData
    core_sets: Sequence[_core.IndexSet]
    split: Split

    @classmethod
    def make(
        cls,
        data: FitData,
        plans: Sequence[Plan],
        summaries: Mapping[str, ColumnSummary],
        n_threads: int,
    ) -> PreparedRows:
        """Bin the rows for terms that are planned."""
        room, rule = ArrayPool(), data.source.bins
        bins = make_shared_bins(plans, data.table, data.sample, rule, summaries, room, n_threads)
        unweighted = data.sample.marks is None and data.sample.weights is None
        w = bin_weights(bins.sets, None if unweighted else data.split.training, room, n_threads)
        plans, rows = basis_rows(plans, bins, w, room, n_threads)
        return cls(
            data=data,
            summaries=summaries,
            plans=plans,
            shared_bins=bins,
            basis_rows=rows,
            core_rows=core_rows(plans, bins, rows),
            bin_weights=w,
            n_threads=n_threads,
            core_sets=[s.core() for s in bins.sets],
            split=data.split,
        )

    def with_split(self, split: Split) -> PreparedRows:
        """Return the same rows with other weights for training, validation and all rows."""
        return replace(self, split=split)

    @property
    def has_validation(self) -> bool:
        return self.split.has_validation

    @property
    def has_own_split(self) -> bool:
        return self.split is not self.data.split

    def with_more(
        self, plans: Sequence[Plan], summaries: Mapping[str, ColumnSummary]
    ) -> PreparedRows:
        more = PreparedRows.make(self.data, plans, summaries, self.n_threads)
        return replace(self.joined(more), core_sets=[*self.core_sets, *more.core_sets])

    def weigh(self, part: int) -> Sequence[Floats]:
        return self.weigh_rows(self.split.all if part == ALL_PART else self.split.training)

    def weigh_rows(self, weights: RowWeights) -> Sequence[Floats]:
        """Return the weights of the bins of every set, from weights of the rows."""
        if weights is self.data.split.training:
            return self.bin_weights
        return bin_weights(self.shared_bins.sets, weights, ArrayPool(), self.n_threads)

    def n_observations(self, part: int) -> float:
        w = self.split.all if part == ALL_PART else self.split.training
        return count_observations([Observations.of(w)])

    def rows(
        self,
        n_threads: int | None = None,
        learners: Sequence[Sequence[_core.Learner]] = (),  # noqa: ARG002
    ) -> _core.LocalRows:
        data, split = self.data, self.split
        validation = split.training if split.validation is None else split.validation
        return _core.LocalRows(
            data.loss.core(data.y),
            data.y,
            np.ascontiguousarray(data.offset.T) if data.offset.any() else None,
            self.core_sets,
            [as_part(w) for w in (split.training, validation, split.all)],
            self.n_threads if n_threads is None else n_threads,
            split.crosses,
        )

    def measure(
        self, metrics: Sequence[Metric], rows: _core.Rows
    ) -> Callable[[float], list[float]]:
        assert isinstance(rows, _core.LocalRows)
        assert self.split.validation is not None
        held, numbers = HeldOutRows.select(
            self.data, np.asarray(self.split.validation, dtype=np.float64)
        )

        def measure(validation_risk: float) -> list[float]:
            scores = np.asarray(rows.read(SLOT_F))[:, numbers].T

            def value(metric: Metric) -> float:
                if metric.is_risk:
                    return validation_risk
                where, remedy = "on the validation rows", "hold out other rows"
                return float(metric.criterion(metric.value(held, scores, where, remedy)))

            return [value(metric) for metric in metrics]

        return measure

    def _spread(self, name: str) -> Spread:
        return Spread.of(self.data.table[name], self.data.sample)
