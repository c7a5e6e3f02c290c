"""Evaluates configurations: fits each to the folds, scores it on their test rows, and continues
earlier fits. Which configurations are tried for how long is decided in successive_halving.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cwboost import _core
from cwboost._core import SLOT_F
from cwboost._utils.checks import is_number
from cwboost._utils.cores import threads_for
from cwboost._utils.text import quote
from cwboost.explain.trajectory import coefficients_at
from cwboost.fitting.callbacks import Interrupted
from cwboost.fitting.fit import fit
from cwboost.fitting.input_data import FitData, Split
from cwboost.fitting.parallel_fits import Halt
from cwboost.fitting.preparation import read_all
from cwboost.fitting.prepared import PreparedRows
from cwboost.fitting.problem import FitProblem
from cwboost.frames.columns import Floats
from cwboost.metrics.metric import (
    RISK,
    HeldOutRows,
    Metric,
    as_metrics,
    first_best,
    standard_deviation,
)
from cwboost.model.model import Model
from cwboost.optimizers import Optimizer
from cwboost.selection.folds import Fold, as_folds, validation_rows

from .space import Configuration, Space

PER_DOUBLING = 4  # a metric is computed at this number of iterations between m and 2 m
Iterations = NDArray[np.int64]


def metric_iterations(since: int, budget: int) -> Iterations:
    """Return the iterations after `since` and up to `budget` at which a metric is computed.

    These are all of the first few iterations, then steps of 19%, and `budget` itself. `since` is -1
    if there was no earlier fit.

    Examples
    --------
    >>> metric_iterations(39, 78)
    array([45, 54, 64, 76, 78])
    """
    n = int(PER_DOUBLING * np.log2(max(budget, 1))) + 1
    spaced = np.round(2.0 ** (np.arange(n) / PER_DOUBLING)).astype(np.int64)
    iterations = np.unique([0, *spaced[spaced <= budget], budget])
    return iterations[iterations > since]


class MetricCurve(NamedTuple):
    """The metric after some of the iterations of a path."""

    at: Iterations
    values: Floats  # one per iteration of `at`


class BestIteration(NamedTuple):
    """The iteration of a configuration whose mean score over the folds is best so far."""

    scores: tuple[float, ...]  # per fold
    n_iter: int

    @property
    def score(self) -> float:
        return sum(self.scores) / len(self.scores)

    @property
    def sd(self) -> float:
        """Standard deviation over the folds."""
        return float(standard_deviation(np.array(self.scores)[:, None])[0])


@dataclass(frozen=True, eq=False)
class Evaluator:
    """Fits and scores configurations; holds what they share: rows, space, folds, metric."""

    inputs: Mapping[str, Any]  # arguments of read_all
    default: PreparedRows  # for configurations without a parameter "bins"
    space: Space
    folds: Sequence[Fold]
    # per fold: the training rows held out to find the switch of an optimizer
    held: Sequence[NDArray[np.bool_]]
    share: float  # the share of the training rows that is held out
    seed: int
    metric: Metric
    prepared_by_rule: dict[str, PreparedRows] = field(default_factory=dict)  # by bin rule
    # by fold and whether the optimizer needs validation rows
    splits: dict[tuple[int, bool], Split] = field(default_factory=dict)

    @classmethod
    def make(
        cls,
        inputs: Mapping[str, Any],
        space: Any,
        *,
        folds: Any,
        groups: Any,
        metric: Any,
        greater_is_better: bool | None,
        validation: Any,
        seed: int,
        n_threads: int | None,
    ) -> Evaluator:
        """Make an evaluator from the arguments of `tune`, checked."""
        if not (is_number(validation) and 0 < validation < 1):
            raise ValueError(f"validation must be a share between 0 and 1, got {quote(validation)}")
        inputs = {**inputs, "apart": [groups] if isinstance(groups, str) else []}
        checked = read_all(**inputs)
        default = checked.bin(threads_for(n_threads, len(checked.data.y)))
        data, chosen = default.data, Space.make(space, default.plans)
        metrics = as_metrics(metric, greater_is_better, data.loss, data.classes)
        if len(metrics) > 1:
            raise ValueError(f"metric: expected one, got {len(metrics)}; only one can decide")
        fold_list = as_folds(folds, data, groups, seed)
        held = []
        if any(optimizer.needs_validation for optimizer in chosen.optimizers()):
            held = validation_rows(fold_list, folds, data, validation, groups, seed)
        return cls(inputs, default, chosen, fold_list, held, float(validation), seed, metrics[0])

    def __reduce__(self) -> Any:
        """Pickle without the bins, which cannot be pickled and are made again."""
        remade = ("default", "prepared_by_rule", "splits")
        state = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in remade}
        return _rebuild, (state, self.default.n_threads)

    @property
    def data(self) -> FitData:
        return self.default.data

    @property
    def by_risk(self) -> bool:
        """Whether the metric is the risk, which a fit computes for its validation rows anyway."""
        return self.metric.name == RISK

    def sort_key(self, score: float) -> float:
        """Return a number by which scores are sorted: the best is the smallest, NaN the largest."""
        return np.inf if np.isnan(score) else -score if self.metric.greater_is_better else score

    def prepare(self, parameters: Configuration) -> PreparedRows:
        """Return the rows with the bin rule and the df of a configuration."""
        base, rule = self.default, self.space.value(parameters, "bins")
        if rule is not None:
            key = repr(rule)
            if key not in self.prepared_by_rule:
                checked = read_all(**{**self.inputs, "bins": rule})
                self.prepared_by_rule[key] = checked.bin(self.default.n_threads)
            base = self.prepared_by_rule[key]
        learners = {id(p.learner): self.space.learner(parameters, p) for p in base.plans}
        return base.with_learners(lambda learner: learners[id(learner)])

    def arguments(self, parameters: Configuration, n_iter: int) -> dict[str, Any]:
        """Return the arguments of `cb.fit` for a configuration."""
        plans = self.prepare(parameters).plans
        optimizer = self.space.optimizer(parameters)
        out: dict[str, Any] = {
            # one learner may make several terms
            "learners": list({id(plan.learner): plan.learner for plan in plans}.values()),
            "loss": self.inputs["loss"],
            "optimizer": optimizer,
            "n_iter": n_iter,
            "bins": self.space.value(parameters, "bins", self.inputs["bins"]),
        }
        if optimizer.needs_validation:
            out |= {"validation": self.share, "random_state": self.seed}
        return out

    def fit(self, arguments: Mapping[str, Any]) -> Model:
        """Return a fit to all rows."""
        rows = {name: self.inputs[name] for name in ("table", "y", "weights", "offset", "exposure")}
        target = self.data.source.target
        if target is not None:
            rows["y"] = target  # a formula would add its own learners
        return fit(**{**rows, **arguments})

    def split(self, fold: int, optimizer: Optimizer) -> Split:
        """Return the split of a fold, which is the same for all configurations.

        The test rows are validation rows if their risk is the metric, unless the optimizer uses
        validation rows to find its switch.
        """
        switches = optimizer.needs_validation
        if (fold, switches) not in self.splits:
            split = replace(self._split(fold, switches), crosses=_core.Crosses())
            self.splits.setdefault((fold, switches), split)  # another thread may have been faster
        return self.splits[fold, switches]

    def _split(self, fold: int, switches: bool) -> Split:
        weights, chosen = self.data.weights, self.folds[fold]
        if switches:
            return chosen.split(weights, self.held[fold])
        if self.by_risk:
            return chosen.split(weights)
        training = weights * chosen.training_counts
        return Split(training, None, training)

    def fit_fold(
        self,
        parameters: Configuration,
        prepared: PreparedRows,
        fold: int,
        budgets: Sequence[int],
        before: Model | None,
        halt: Halt,
    ) -> Model:
        """Continue the fit of one fold from `before` to one budget after the other.

        The result is bitwise equal to separate fits from budget to budget.
        """
        optimizer = self.space.optimizer(parameters)
        problem = FitProblem.pose(prepared, self.split(fold, optimizer), optimizer)
        for budget in budgets:
            before = problem.fit(budget, after=before, halt=halt)
            if halt():
                raise Interrupted(before)
        assert before is not None
        return before

    def evaluate(
        self, prepared: PreparedRows, model: Model, fold: int, since: int, budget: int
    ) -> MetricCurve:
        """Return the metric on the test rows at all or some of the iterations since + 1 to budget.

        It is NaN where the fit ended earlier.
        """
        chosen = self.folds[fold]
        if self.by_risk and not model.optimizer.needs_validation:
            assert model.validation_risk is not None
            at, known = np.arange(since + 1, budget + 1), model.validation_risk[since + 1 :]
            return MetricCurve(at, np.append(known, np.full(len(at) - len(known), np.nan)))
        at = metric_iterations(since, budget)
        test_rows, numbers = HeldOutRows.select(self.data, self.data.weights * chosen.test_counts)
        values = np.full(len(at), np.nan)
        reached = at <= model.n_iter
        for k, score in enumerate(scores_at(prepared, model, at[reached])):
            values[k] = self.metric.value(test_rows, np.ascontiguousarray(score[:, numbers].T))
        return MetricCurve(at, values)

    def best_iteration(
        self, curves: Sequence[MetricCurve], before: BestIteration | None
    ) -> BestIteration:
        """Return the best iteration of the mean of the folds' curves, or an earlier better one."""
        if not len(curves[0].at):
            assert before is not None
            return before
        values = np.array([curve.values for curve in curves])
        best = first_best(values.mean(axis=0), self.metric.greater_is_better)
        new = BestIteration(tuple(values[:, best].tolist()), int(curves[0].at[best]))
        if before is None or self.sort_key(new.score) < self.sort_key(before.score):
            return new
        return before


def _rebuild(state: dict[str, Any], n_threads: int) -> Evaluator:
    return Evaluator(default=read_all(**state["inputs"]).bin(n_threads), **state)


def scores_at(prepared: PreparedRows, model: Model, iterations: Iterations) -> Iterator[Floats]:
    """Yield the (q, n) scores of all rows, at their bins, after some iterations of a path."""
    data, of_term = prepared.data, prepared.shared_bins.of_term
    rows = prepared.with_split(Split(data.weights, None, data.weights)).rows(1)
    effects = {}  # (iterations, q, bins) by number of term, for terms that were chosen
    for k, beta in enumerate(coefficients_at(model, iterations).values()):
        if beta.any():
            m, d, q = beta.shape
            flat = np.asarray(prepared.core_rows[k] @ beta.transpose(1, 0, 2).reshape(d, m * q))
            effects[k] = flat.reshape(-1, m, q).transpose(1, 2, 0)
    for i in range(len(iterations)):
        batch: list[Any] = [_core.Fill(SLOT_F, list(model.start_vector))]
        batch += [_core.Add(SLOT_F, of_term[k], e[i].ravel()) for k, e in effects.items()]
        rows.run(batch)
        yield rows.read(SLOT_F)
