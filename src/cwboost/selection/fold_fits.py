"""The fits of the folds of a cross-validation, and their polish.

A fold is a vector of weights on rows that are binned once. Does not know how folds are drawn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cwboost._core import ALL_PART, TRAINING_PART
from cwboost.fitting.input_data import FitData, Split
from cwboost.fitting.parallel_fits import Halt, run_all
from cwboost.fitting.polish.polish import polished_model
from cwboost.fitting.prepared import PreparedRows
from cwboost.fitting.problem import FitProblem
from cwboost.frames.columns import Floats
from cwboost.metrics.metric import RISK, HeldOutRows, Metric
from cwboost.model.model import Model
from cwboost.model.path import FINAL_REASONS, StopReason
from cwboost.optimizers import Optimizer
from cwboost.progress import Progress

from .cv_polish import PolishedFold, PolishedFolds, summarize_folds
from .cv_result import CV
from .folds import Fold


@dataclass(frozen=True, eq=False)
class FoldRows:
    """The rows of a fold."""

    fold: Fold
    data: FitData
    held: NDArray[np.bool_] | None  # training rows held out to find an optimizer's switch

    @property
    def test_weights(self) -> Floats:
        """(n,) weights of the test rows, zero elsewhere."""
        return np.asarray(self.data.weights * self.fold.test_counts)

    @property
    def split(self) -> Split:
        return self.fold.split(self.data.weights, self.held)


@dataclass(frozen=True, eq=False)
class _FoldPath:
    """The path of one fold: its model, the risk of the test rows, and metrics by iteration."""

    model: Model
    risk: Floats  # (its own n_iter + 1,)
    metrics: dict[str, dict[int, float]]


@dataclass(frozen=True, eq=False)
class FoldFits:
    """Fits the folds and collects their paths."""

    binned: PreparedRows
    parts: Sequence[FoldRows]
    optimizer: Optimizer
    metrics: Sequence[Metric]
    every: int
    start: Any = None
    scale: Any = "auto"

    def extend_to_best(
        self, n_iter: int, most: int, n_threads: int, bar: Progress
    ) -> tuple[CV, list[_FoldPath]]:
        """Fit all folds, and continue while the best iteration is at the edge of the paths."""
        paths: list[_FoldPath | None] = [None] * len(self.parts)
        asked = n_iter
        while True:
            done = self.fit_all(n_iter, paths, n_threads, bar)
            result = self.collect(done, asked)
            if not result.at_edge or n_iter >= most:
                return result, done
            paths, n_iter = list(done), min(2 * n_iter, most)

    def fit_all(
        self, n_iter: int, before: Sequence[_FoldPath | None], n_threads: int, bar: Progress
    ) -> list[_FoldPath]:
        """Return the paths of all folds to n_iter iterations, continuing earlier ones."""
        workers = min(n_threads, len(self.parts))
        inside = replace(self, binned=replace(self.binned, n_threads=max(1, n_threads // workers)))
        shown = bar if workers == 1 else None  # a bar belongs to one thread

        def job(k: int) -> Any:
            return lambda halt: inside.fit_one(
                self.parts[k], n_iter, before[k], None if workers == 1 else halt, shown
            )

        return run_all([job(k) for k in range(len(self.parts))], workers, bar, "fold")

    def pose(self, part: FoldRows) -> FitProblem[PreparedRows]:
        """Return the problem of one fold."""
        return FitProblem.pose(
            self.binned,
            part.split,
            self.optimizer,
            start=self.start,
            scale=self.scale,
            n_threads=self.binned.n_threads,
        )

    def fit_one(
        self,
        part: FoldRows,
        n_iter: int,
        before: _FoldPath | None,
        halt: Halt | None,
        bar: Progress | None,
    ) -> _FoldPath:
        """Return the path of one fold."""
        problem = self.pose(part)
        after = None if before is None else before.model
        model = problem.fit(n_iter, after=after, halt=halt, bar=bar)
        recorder = _MetricRecorder(self.metrics, self.every, part, model.n_iter, before, halt)
        risk = model.validation_risk
        if recorder.needed or part.held is not None or risk is None:
            callback = recorder.record if recorder.needed else None
            risk = problem.follow(model, part.test_weights, callback)
        return _FoldPath(model, risk, recorder.values)

    def collect(self, paths: Sequence[_FoldPath], asked: int) -> CV:
        """Return all paths as one result; a path that ended early keeps its last values."""
        n_iter = max(p.model.n_iter for p in paths)
        first, others = self.metrics[0], [m for m in self.metrics if m.name != RISK]
        grid = np.union1d(np.arange(0, n_iter + 1, self.every), [n_iter])
        metrics = {
            m.name: np.array([_on_grid(p.metrics[m.name], grid, p.model, m) for p in paths])
            for m in others
        }
        return CV(
            risk=np.array([_extend_risk(p.risk, n_iter, p.model) for p in paths]),
            training_risk=np.array([_extend_risk(p.model.risk, n_iter, p.model) for p in paths]),
            metrics=metrics,
            grid=grid,
            chosen_by=first.name,
            greater_is_better=first.greater_is_better,
            loss=self.binned.data.loss,
            optimizer=self.optimizer,
            asked=asked,
            ended=all(p.model.stopped in FINAL_REASONS for p in paths),
            distinct=_n_distinct_folds([part.fold for part in self.parts]),
        )


@dataclass(frozen=True, eq=False)
class FoldPolisher:
    """Polishes the models of all folds after the same number of iterations."""

    fits: FoldFits
    iteration: int
    required: bool
    keep: bool  # whether the models are wanted

    def polish(
        self, models: Sequence[Model], n_threads: int, bar: Progress
    ) -> tuple[PolishedFolds, list[Model]]:
        """Return the risks of the polished folds, and their models if they are wanted."""
        alone = replace(self.fits, binned=replace(self.fits.binned, n_threads=1))
        options = {"required": self.required, "keep": self.keep}

        def job(k: int, _halt: Halt) -> PolishedFold:
            part = alone.parts[k]
            rows = TRAINING_PART if part.held is None else ALL_PART  # never the test rows
            problem = alone.pose(part)
            return PolishedFold.of(problem, models[k], rows, part.test_weights, **options)

        jobs = [partial(job, k) for k in range(len(models))]
        folds = run_all(jobs, n_threads, bar, "polished fold")
        distinct = _n_distinct_folds([part.fold for part in alone.parts])
        found = summarize_folds(folds, self.iteration, alone.metrics, distinct)
        pairs = zip(folds, models, strict=True)
        return found, [
            model
            if fold.refit is None or not found.weight
            else polished_model(fold.refit, found.weight)
            for fold, model in pairs
        ]


class _MetricRecorder:
    """Computes and keeps the metrics of a fold's test rows along its path."""

    def __init__(
        self,
        metrics: Sequence[Metric],
        every: int,
        part: FoldRows,
        last: int,
        before: _FoldPath | None,
        halt: Halt | None,
    ) -> None:
        self.metrics = [m for m in metrics if m.name != RISK]
        self.every, self.last, self.halt = every, last, halt
        self.values = {
            m.name: {} if before is None else before.metrics[m.name] for m in self.metrics
        }
        self.needed = bool(self.metrics)
        if self.needed:
            self.test_rows, self.numbers = HeldOutRows.select(part.data, part.test_weights)

    def record(self, m: int, scores: Floats) -> bool:
        """Compute the metrics after m iterations; return whether to stop."""
        if m % self.every == 0 or m == self.last:
            score = scores[:, self.numbers].T
            for metric in self.metrics:
                if m not in self.values[metric.name]:
                    self.values[metric.name][m] = metric.value(self.test_rows, score)
        return self.halt is not None and self.halt()


def _n_distinct_folds(folds: Sequence[Fold]) -> float:
    """Return the number of rows that any fold tests / the mean number that one fold tests."""
    tested = np.zeros(len(folds[0].training_counts), bool)
    size = 0
    for fold in folds:
        marks = fold.test_counts > 0
        tested |= marks
        size += int(marks.sum())
    return int(tested.sum()) * len(folds) / size


def _extend_risk(risk: Floats, n_iter: int, model: Model) -> Floats:
    """(n_iter + 1,) the risk of a path that may have ended earlier."""
    last = np.inf if model.stopped == StopReason.diverged else risk[-1]
    return np.append(risk, np.full(n_iter + 1 - len(risk), last))


def _on_grid(values: dict[int, float], grid: Any, model: Model, metric: Metric) -> list[float]:
    """Return a metric at the iterations of a grid; a path that ended early keeps its last value."""
    worst = -np.inf if metric.greater_is_better else np.inf
    last = worst if model.stopped == StopReason.diverged else values[model.n_iter]
    return [values.get(m, last) if m <= model.n_iter else last for m in grid.tolist()]
