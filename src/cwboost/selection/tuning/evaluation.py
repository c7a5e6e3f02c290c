"""Where configurations are tried: each is fitted to the folds and judged on their test rows, and
can go on where it was left. Knows how a fit of some iterations is scored; knows nothing of which
configurations are tried for how long.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cwboost import _core
from cwboost._utils.checks import is_number, threads_for
from cwboost.explain.trajectory import coefficients_at
from cwboost.fitting.callbacks import Interrupted
from cwboost.fitting.fit import fit
from cwboost.fitting.input_data import FitData, Split
from cwboost.fitting.parallel_fits import Halt
from cwboost.fitting.preparation import read_all
from cwboost.fitting.prepared import PreparedRows
from cwboost.fitting.problem import FitProblem
from cwboost.fitting.slots import SLOT_F
from cwboost.frames.table import Floats
from cwboost.model.model import Model
from cwboost.optimizers import Optimizer
from cwboost.selection.folds import Fold, as_folds, validation_rows
from cwboost.selection.metrics import RISK, HeldOutRows, Metric, as_metrics, first_best

from .space import Configuration, Space

PER_DOUBLING = 4  # iterations that a metric is computed at, from m to 2 m
Iterations = NDArray[np.int64]


def marks(since: int, budget: int) -> Iterations:
    """Iterations to look at after `since` (-1: none yet) and up to a budget, which is one of them:
    all of the first few, then in steps of 19%.

    Examples
    --------
    >>> marks(39, 78)
    array([45, 54, 64, 76, 78])
    """
    n = int(PER_DOUBLING * np.log2(max(budget, 1))) + 1
    spaced = np.round(2.0 ** (np.arange(n) / PER_DOUBLING)).astype(np.int64)
    found = np.unique([0, *spaced[spaced <= budget], budget])
    return found[found > since]


class Curve(NamedTuple):
    """The metric along a path."""

    at: Iterations
    values: Floats  # (iterations,)


class PartialFit(NamedTuple):
    """How good a configuration is: its folds at the best iteration of their mean."""

    scores: tuple[float, ...]  # per fold
    n_iter: int  # the best iteration

    @property
    def score(self) -> float:
        return sum(self.scores) / len(self.scores)

    @property
    def sd(self) -> float:
        """Standard deviation over the folds."""
        return float(np.std(self.scores, ddof=1)) if len(self.scores) > 1 else float("nan")


@dataclass(frozen=True, eq=False)
class Evaluator:
    """What all configurations share: rows, space, folds, metric."""

    given: Mapping[str, Any]  # arguments of read_all
    default: PreparedRows  # for configurations that do not say how to bin
    space: Space
    folds: Sequence[Fold]
    # per fold: the training rows that decide when an optimizer switches
    held: Sequence[NDArray[np.bool_]]
    share: float  # of them
    seed: int
    metric: Metric
    by_rule: dict[str, PreparedRows] = field(default_factory=dict)
    # by fold and whether the optimizer needs validation rows
    splits: dict[tuple[int, bool], Split] = field(default_factory=dict)

    @classmethod
    def make(
        cls,
        given: Mapping[str, Any],
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
        """From the arguments of `tune`, checked."""
        if not (is_number(validation) and 0 < validation < 1):
            raise ValueError(f"validation must be a share between 0 and 1, got {validation!r}")
        given = {**given, "apart": [groups] if isinstance(groups, str) else []}
        read = read_all(**given)
        default = read.bin(threads_for(n_threads, len(read.data.y)))
        data, chosen = default.data, Space.make(space, default.plans)
        judges = as_metrics(metric, greater_is_better, data.loss, data.classes)
        if len(judges) > 1:
            raise ValueError(f"metric: expected one, got {len(judges)}; only one can decide")
        parts = as_folds(folds, data, groups, seed)
        held = []
        if any(optimizer.needs_validation for optimizer in chosen.optimizers()):
            held = validation_rows(parts, folds, data, validation, groups, seed)
        return cls(given, default, chosen, parts, held, float(validation), seed, judges[0])

    def __reduce__(self) -> Any:
        """Bins cannot be pickled; they are made again from what was given."""
        apart = ("default", "by_rule", "splits")
        state = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in apart}
        return _restore, (state, self.default.n_threads)

    @property
    def data(self) -> FitData:
        return self.default.data

    @property
    def by_risk(self) -> bool:
        """Fits know the metric of the rows that they watch."""
        return self.metric.name == RISK

    def worse(self, score: float) -> float:
        """For sorting: the best is the least, what is no number comes last."""
        return np.inf if np.isnan(score) else -score if self.metric.greater_is_better else score

    def binned(self, parameters: Configuration) -> PreparedRows:
        """The rows, by the rule for bins and with the df of a configuration."""
        base, rule = self.default, self.space.value(parameters, "bins")
        if rule is not None:
            if repr(rule) not in self.by_rule:
                self.by_rule[repr(rule)] = read_all(**{**self.given, "bins": rule}).bin(
                    self.default.n_threads
                )
            base = self.by_rule[repr(rule)]
        learners = {id(p.learner): self.space.learner(parameters, p) for p in base.plans}
        return base.with_learners(lambda learner: learners[id(learner)])

    def arguments(self, parameters: Configuration, n_iter: int) -> dict[str, Any]:
        """What a configuration means for `fit`."""
        plans = self.binned(parameters).plans
        optimizer = self.space.optimizer(parameters)
        out: dict[str, Any] = {
            # one learner may make several terms
            "learners": list({id(plan.learner): plan.learner for plan in plans}.values()),
            "loss": self.given["loss"],
            "optimizer": optimizer,
            "n_iter": n_iter,
            "bins": self.space.value(parameters, "bins", self.given["bins"]),
        }
        if optimizer.needs_validation:
            out |= {"validation": self.share, "random_state": self.seed}
        return out

    def fit(self, arguments: Mapping[str, Any]) -> Model:
        """A fit to all rows."""
        rows = {name: self.given[name] for name in ("table", "y", "weights", "offset", "exposure")}
        target = self.default.settings.target
        if target is not None:
            rows["y"] = target  # a formula would bring learners of its own
        return fit(**{**rows, **arguments})

    def split(self, fold: int, optimizer: Optimizer) -> Split:
        """How a fold weighs the rows, the same for all configurations: test rows are watched where
        their risk is the metric, but not by an optimizer that learns from validation rows."""
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

    def run(
        self,
        parameters: Configuration,
        binned: PreparedRows,
        fold: int,
        budgets: Sequence[int],
        before: Model | None,
        halt: Halt,
    ) -> Model:
        """The fit of one fold, going on from `before`, after one budget and the next: a fit that
        stopped at each of them is the same to the last digit."""
        optimizer = self.space.optimizer(parameters)
        problem = FitProblem.pose(binned, self.split(fold, optimizer), optimizer)
        for budget in budgets:
            before = problem.fit(budget, after=before, halt=halt)
            if halt():
                raise Interrupted(before)
        assert before is not None
        return before

    def measure(
        self, binned: PreparedRows, model: Model, fold: int, since: int, budget: int
    ) -> Curve:
        """The metric on the test rows after since + 1 to `budget` iterations, or at some of them;
        NaN where the fit ended before."""
        chosen = self.folds[fold]
        if self.by_risk and not model.optimizer.needs_validation:
            assert model.validation_risk is not None
            at, known = np.arange(since + 1, budget + 1), model.validation_risk[since + 1 :]
            return Curve(at, np.append(known, np.full(len(at) - len(known), np.nan)))
        at = marks(since, budget)
        tested, rows = HeldOutRows.select(self.data, self.data.weights * chosen.test_counts)
        values = np.full(len(at), np.nan)
        there = at <= model.n_iter
        for k, score in enumerate(scores_at(binned, model, at[there])):
            values[k] = self.metric.value(tested, np.ascontiguousarray(score[:, rows].T))
        return Curve(at, values)

    def stand(self, curves: Sequence[Curve], before: PartialFit | None) -> PartialFit:
        """The best iteration of the mean over the folds, or what was better before."""
        if not len(curves[0].at):
            assert before is not None
            return before
        values = np.array([curve.values for curve in curves])
        best = first_best(values.mean(axis=0), self.metric.greater_is_better)
        new = PartialFit(tuple(values[:, best].tolist()), int(curves[0].at[best]))
        if before is None or self.worse(new.score) < self.worse(before.score):
            return new
        return before


def _restore(state: dict[str, Any], n_threads: int) -> Evaluator:
    return Evaluator(default=read_all(**state["given"]).bin(n_threads), **state)


def scores_at(binned: PreparedRows, model: Model, iterations: Iterations) -> Iterator[Floats]:
    """(q, n) scores of all rows, at the bins, after some iterations of a path."""
    data, of_term = binned.data, binned.sets.of_term
    rows = binned.rows(Split(data.weights, None, data.weights), 1)
    effects = {}  # (iterations, q, bins) of the terms that the path has moved
    for k, beta in enumerate(coefficients_at(model, iterations).values()):
        if beta.any():
            m, d, q = beta.shape
            flat = np.asarray(binned.bin_effects[k] @ beta.transpose(1, 0, 2).reshape(d, m * q))
            effects[k] = flat.reshape(-1, m, q).transpose(1, 2, 0)
    for i in range(len(iterations)):
        batch: list[Any] = [_core.Fill(SLOT_F, list(model.start_vector))]
        batch += [_core.Add(SLOT_F, of_term[k], e[i].ravel()) for k, e in effects.items()]
        rows.run(batch)
        yield rows.read(SLOT_F)
