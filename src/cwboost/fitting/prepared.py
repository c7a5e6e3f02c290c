"""Rows, binned once for some terms, from which any number of models can be fitted: folds, bags and
other settings of df are weights and systems on the same bins.

Knows what does not depend on how a fit weighs the rows (bins, bases over them) and makes of it what
does (systems, learners). Knows nothing of optimizers or of boosting.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from cwboost import _core
from cwboost._utils.memory import ArrayPool
from cwboost.binning.spread import Spread
from cwboost.binning.summary import ColumnSummary
from cwboost.binning.weights import RowWeights, as_part
from cwboost.frames.table import Floats
from cwboost.model.settings import Settings
from cwboost.terms.bases import BasisRows
from cwboost.terms.learners import Learner
from cwboost.terms.plan import Plan

from .index_sets import Sets, bin_weights, core_rows, core_set, fine_points, make_sets
from .input_data import FitData, Split
from .smoothing import System
from .systems import basis_rows, core_learner, make_systems


@dataclass(frozen=True, eq=False)
class PreparedRows:
    """The rows of a table and the terms over them."""

    data: FitData
    seen: Mapping[str, ColumnSummary]
    settings: Settings  # of the fits, as far as the rows decide them
    plans: Sequence[Plan]
    sets: Sets
    core_sets: Sequence[_core.IndexSet]
    matrices: Sequence[BasisRows]  # of each term's basis over the bins of its set
    bin_effects: Sequence[BasisRows]  # and over what the core calls these bins
    bin_weights: Sequence[Floats]  # of the training rows of `data`, for each set
    n_threads: int
    drawn: dict[str, Spread] = field(default_factory=dict)  # spreads that were asked for before

    @classmethod
    def make(
        cls,
        data: FitData,
        plans: Sequence[Plan],
        seen: Mapping[str, ColumnSummary],
        settings: Settings,
        n_threads: int,
    ) -> PreparedRows:
        room = ArrayPool()
        sets = make_sets(plans, data.table, data.sample, settings.bins, seen, room, n_threads)
        core_sets = [core_set(s) for s in sets.sets]
        alike = data.sample.marks is None and data.sample.weights is None
        w = bin_weights(sets.sets, None if alike else data.split.training, room, n_threads)
        plans, matrices = basis_rows(plans, sets, w, room, n_threads)
        effects = core_rows(plans, sets, matrices)
        return cls(data, seen, settings, plans, sets, core_sets, matrices, effects, w, n_threads)

    # --- other terms on the same bins -------------------------------------------------------------

    def with_learners(self, change: Callable[[Learner], Learner]) -> PreparedRows:
        """The same terms with other df or smoothing; nothing else of a learner may change."""

        def changed(plan: Plan) -> Plan:
            learner = change(plan.learner)
            if learner is plan.learner:
                return plan
            net_df = None if learner.states_smoothing else plan.net_df
            return replace(plan, learner=learner, net_df=net_df)

        return replace(self, plans=[changed(plan) for plan in self.plans])

    def with_terms(self, numbers: Sequence[int]) -> PreparedRows:
        """Some of the terms, in the order given."""
        return replace(
            self,
            plans=[self.plans[k] for k in numbers],
            sets=replace(self.sets, of_term=[self.sets.of_term[k] for k in numbers]),
            matrices=[self.matrices[k] for k in numbers],
            bin_effects=[self.bin_effects[k] for k in numbers],
        )

    def with_more(self, plans: Sequence[Plan], seen: Mapping[str, ColumnSummary]) -> PreparedRows:
        """These terms and others, of the same rows."""
        return self.joined(PreparedRows.make(self.data, plans, seen, self.settings, self.n_threads))

    def joined(self, more: PreparedRows) -> PreparedRows:
        """These terms and others of the same rows."""
        offset = len(self.sets.sets)
        numbers = [*self.sets.of_term, *(offset + k for k in more.sets.of_term)]
        return replace(
            self,
            plans=[*self.plans, *more.plans],
            sets=Sets([*self.sets.sets, *more.sets.sets], numbers),
            core_sets=[*self.core_sets, *more.core_sets],
            matrices=[*self.matrices, *more.matrices],
            bin_effects=[*self.bin_effects, *more.bin_effects],
            bin_weights=[*self.bin_weights, *more.bin_weights],
        )

    # --- what depends on the weights of the rows --------------------------------------------------

    def weigh(self, weights: RowWeights) -> Sequence[Floats]:
        """Weights of the bins of every set for weights of the rows."""
        if weights is self.data.split.training:
            return self.bin_weights
        return bin_weights(self.sets.sets, weights, ArrayPool(), self.n_threads)

    def systems(
        self, bin_weights: Sequence[Floats], smoothing: Sequence[float | None] | None = None
    ) -> list[System]:
        """Normal equations of all terms for the weights of the bins of every set; smoothing that is
        not given is found for the df of the learner."""
        of_terms = [bin_weights[k] for k in self.sets.of_term]
        given = [None] * len(self.plans) if smoothing is None else smoothing
        return make_systems(self.plans, self.matrices, of_terms, given, self.n_threads)

    def learners(self, systems: Sequence[System]) -> list[_core.Learner]:
        parts = zip(self.sets.of_term, self.bin_effects, systems, strict=True)
        return [core_learner(k, effects, system) for k, effects, system in parts]

    def rows(self, split: Split, n_threads: int | None = None) -> _core.LocalRows:
        """The rows with their training, validation and all weights as parts 0, 1 and 2."""
        data = self.data
        watched = split.training if split.validation is None else split.validation
        return _core.LocalRows(
            data.loss.core(data.y),
            data.y,
            np.ascontiguousarray(data.offset.T) if data.offset.any() else None,
            self.core_sets,
            [as_part(w) for w in (split.training, watched, split.all)],
            self.n_threads if n_threads is None else n_threads,
            split.crosses,
        )

    # --- for drawing ------------------------------------------------------------------------------

    def spreads(self, names: Container[str]) -> dict[str, Spread]:
        """How the training rows of `data` spread over some columns."""
        seen, rule, out = self.seen, self.settings.bins, self.drawn
        for plan, k in zip(self.plans, self.sets.of_term, strict=True):
            name = plan.columns[0]
            if name in names and name not in out:
                w = self.bin_weights[k]
                points = fine_points(plan, self.sets.sets[k], w, seen[name], rule)
                if points is not None:
                    out[name] = Spread.of_bins(points, w, seen[name].kind == "numbers")
        for name in (name for plan in self.plans for name in plan.columns):
            if name in names and name not in out:
                out[name] = self._spread(name)
        return {name: out[name] for name in self.columns if name in names}

    def _spread(self, name: str) -> Spread:
        """Where no bins show it."""
        return Spread.of(self.data.table[name], self.data.sample)

    @property
    def columns(self) -> list[str]:
        """Names of the columns that the terms use."""
        return list(dict.fromkeys(name for plan in self.plans for name in plan.columns))
