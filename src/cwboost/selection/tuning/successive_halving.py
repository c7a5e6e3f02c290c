"""Successive halving: the best configurations of each rung of a schedule go on to the next rung.

This file decides which configurations go on, runs their fits in threads and writes the trial log.
How a configuration is fitted and scored is in evaluation.py.
"""

from __future__ import annotations

import json
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from cwboost._utils.fingerprint import fingerprint
from cwboost._utils.text import count, quote
from cwboost._utils.typed_fields import FieldError, Fields
from cwboost.fitting.parallel_fits import Halt, run_all
from cwboost.fitting.smoothing import one_blas_thread
from cwboost.frames.columns import Labels
from cwboost.model.model import Model
from cwboost.progress import Progress

from .evaluation import BestIteration, Evaluator, MetricCurve, metric_iterations
from .schedules import Bracket
from .space import Configuration
from .trial_log import TrialLog


def format_parameters(parameters: Configuration) -> str:
    """Return parameters as one line of text."""
    return ", ".join(
        f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in parameters.items()
    )


class Trial(NamedTuple):
    """One configuration after one rung.

    Attributes
    ----------
    configuration, bracket, rung : int
        Their numbers.
    budget : int
        The number of iterations that were run.
    parameters : dict
    n_iter : int
        The iteration with the best mean score over the folds so far.
    scores : tuple
        The scores of the folds at that iteration; `score` is their mean, `sd` their standard
        deviation.
    seconds : float
        The time for fitting and scoring all folds on this rung.
    curve : MetricCurve
        The mean over the folds at some iterations of this rung.
    """

    configuration: int
    bracket: int
    rung: int
    budget: int
    parameters: Configuration
    best: BestIteration
    seconds: float
    curve: MetricCurve

    @property
    def scores(self) -> tuple[float, ...]:
        return self.best.scores

    @property
    def n_iter(self) -> int:
        return self.best.n_iter

    @property
    def score(self) -> float:
        return self.best.score

    @property
    def sd(self) -> float:
        return self.best.sd

    def __repr__(self) -> str:
        sd = "" if np.isnan(self.sd) else f" (sd {self.sd:.3g})"
        return (
            f"<Trial: {format_parameters(self.parameters)}: {self.score:.5g}{sd}, best iteration "
            f"{self.n_iter} of {self.budget}>"
        )

    def to_line(self) -> dict[str, Any]:
        """Return the trial as a line of a trial log."""
        return {
            "configuration": self.configuration,
            "bracket": self.bracket,
            "rung": self.rung,
            "budget": self.budget,
            "parameters": self.parameters,
            "n_iter": self.n_iter,
            "scores": self.scores,
            "seconds": round(self.seconds, 4),
            "at": self.curve.at.tolist(),
            "mean": self.curve.values.tolist(),
        }


class FoldResult(NamedTuple):
    """The fit of one fold of a configuration after a rung."""

    model: Model
    curve: MetricCurve
    seconds: float


@dataclass(eq=False)
class SuccessiveHalving:
    """A search that gives the best configurations of each rung more iterations."""

    evaluator: Evaluator
    brackets: tuple[Bracket, ...]
    bar: Progress
    done: dict[tuple[int, int], Trial] = field(default_factory=dict)  # by configuration and rung
    models: dict[tuple[int, int], Model] = field(default_factory=dict)  # by configuration and fold
    n_iterations_done: int = 0  # of all folds together, for the progress bar
    best_score: float = float("nan")

    def __post_init__(self) -> None:
        sizes = [bracket[0].n for bracket in self.brackets]
        # the number of each bracket's first configuration
        self.first_configuration = np.cumsum([0, *sizes]).tolist()
        self.parameters = self.evaluator.space.draw_all(self.evaluator.seed, sizes)

    @property
    def trials(self) -> tuple[Trial, ...]:
        """The trials that are done, sorted by configuration and rung."""
        return tuple(self.done[key] for key in sorted(self.done))

    def run(self, n_threads: int, log: TrialLog | None) -> None:
        """Run all brackets, taking rungs with the same number and budget together.

        A single rung with few configurations would leave threads idle.
        """
        if log is not None:
            self._read_trials(log)
        levels = sorted({(r.budget, i) for b in self.brackets for i, r in enumerate(b)})
        n_folds = len(self.evaluator.folds)
        total = n_folds * sum(
            rung.n * (rung.budget - before)
            for bracket in self.brackets
            for rung, before in zip(bracket, [0, *(r.budget for r in bracket)], strict=False)
        )
        with (
            self.bar.work(total, "iteration"),
            warnings.catch_warnings(),
            one_blas_thread(),
        ):
            warnings.simplefilter("ignore", RuntimeWarning)  # the score shows if a fit diverges
            self.n_iterations_done = n_folds * sum(map(self._n_iterations, self.done.values()))
            scores = (trial.score for trial in self.done.values())
            self.best_score = min(scores, key=self.evaluator.sort_key, default=float("nan"))
            for budget, rung in levels:
                self._run_rung(budget, rung, n_threads, log)

    def _read_trials(self, log: TrialLog) -> None:
        """Take the trials of a log as done."""
        for number, line in enumerate(log.lines, 2):
            try:
                trial = self._read_trial(Fields(line, "trial"))
            except FieldError as error:
                raise log.damaged(number, str(error)) from None
            self.done[trial.configuration, trial.rung] = trial

    def _read_trial(self, line: Fields) -> Trial:
        """Return the trial of a line of a log; raise FieldError if it does not fit this search."""
        k = line.whole("configuration", high=len(self.parameters) - 1)
        bracket = line.whole("bracket", high=len(self.brackets) - 1)
        rung = line.whole("rung", high=len(self.brackets[bracket]) - 1)
        first, end = self.first_configuration[bracket : bracket + 2]
        line.require(first <= k < end, "configuration", f"{first} to {end - 1} in this bracket")
        budget = self.brackets[bracket][rung].budget
        line.whole("budget", low=budget, high=budget)
        parameters = self.parameters[k]
        drawn = json.loads(json.dumps(parameters))
        line.require(line.get("parameters") == drawn, "parameters", quote(drawn))
        scores, n_folds = line.numbers("scores"), len(self.evaluator.folds)
        line.require(len(scores) == n_folds, "scores", count(n_folds, "number"))
        at, mean = line.wholes("at", high=budget), line.numbers("mean")
        line.require(len(at) == len(mean), "mean", count(len(at), "number"))
        return Trial(
            configuration=k,
            bracket=bracket,
            rung=rung,
            budget=budget,
            parameters=parameters,
            best=BestIteration(tuple(scores), line.whole("n_iter", high=budget)),
            seconds=line.number("seconds"),
            curve=MetricCurve(np.array(at, dtype=np.int64), np.array(mean, dtype=float)),
        )

    def _n_iterations(self, trial: Trial) -> int:
        return trial.budget - self._since(trial.bracket, trial.rung, 0)

    def _since(self, bracket: int, rung: int, start: int) -> int:
        """Return the budget of the rung below, or `start` on the first rung."""
        return self.brackets[bracket][rung - 1].budget if rung else start

    def configurations(self, bracket: int, rung: int) -> list[int]:
        """Return the configurations of a rung: those drawn, or the best of the rung below."""
        if rung == 0:
            return list(
                range(self.first_configuration[bracket], self.first_configuration[bracket + 1])
            )
        key = self.evaluator.sort_key
        below = self.configurations(bracket, rung - 1)
        order = sorted(below, key=lambda k: (key(self.done[k, rung - 1].score), k))
        return sorted(order[: self.brackets[bracket][rung].n])

    def _run_rung(self, budget: int, rung: int, n_threads: int, log: TrialLog | None) -> None:
        """Run all configurations that have this budget on this rung."""
        here = [
            (b, k)
            for b, bracket in enumerate(self.brackets)
            if rung < len(bracket) and bracket[rung].budget == budget
            for k in self.configurations(b, rung)
        ]
        n_folds = len(self.evaluator.folds)
        todo = [(b, k) for b, k in here if (k, rung) not in self.done]
        jobs = [job for b, k in todo for job in self._jobs(b, k, rung)]
        found: dict[int, dict[int, FoldResult]] = {k: {} for _, k in todo}

        def end(number: int, result: FoldResult) -> None:
            (b, k), fold = todo[number // n_folds], number % n_folds
            found[k][fold] = result
            self.models[k, fold] = result.model
            self.n_iterations_done += budget - self._since(b, rung, 0)
            if len(found[k]) == n_folds:
                trial = self._trial(b, k, rung, [found[k][f] for f in range(n_folds)])
                self.done[k, rung] = trial
                if log is not None:
                    log.write(trial.to_line())
                best = min(self.best_score, trial.score, key=self.evaluator.sort_key)
                self.best_score = best
            known = {} if np.isnan(self.best_score) else {"best": self.best_score}
            self.bar.step(self.n_iterations_done, **known)

        run_all(jobs, n_threads, Progress(), done=end)
        self._drop_models(budget, rung)

    def _jobs(self, bracket: int, k: int, rung: int) -> list[Callable[[Halt], FoldResult]]:
        """Return the fits of a configuration on a rung, one per fold.

        If another process ran the rungs below, their models are missing and are fitted again.
        """
        evaluator, parameters = self.evaluator, self.parameters[k]
        prepared = evaluator.prepare(parameters)
        budgets = [r.budget for r in self.brackets[bracket][: rung + 1]]
        since = self._since(bracket, rung, -1)

        def job(fold: int, before: Model | None, halt: Halt) -> FoldResult:
            began = time.perf_counter()
            rest = budgets if before is None else budgets[-1:]
            model = evaluator.fit_fold(parameters, prepared, fold, rest, before, halt)
            curve = evaluator.evaluate(prepared, model, fold, since, budgets[-1])
            return FoldResult(model, curve, time.perf_counter() - began)

        return [
            partial(job, fold, self.models.get((k, fold))) for fold in range(len(evaluator.folds))
        ]

    def _trial(self, bracket: int, k: int, rung: int, folds: Sequence[FoldResult]) -> Trial:
        curves = [result.curve for result in folds]
        below = self.done.get((k, rung - 1))
        best = self.evaluator.best_iteration(curves, None if below is None else below.best)
        budget, at = self.brackets[bracket][rung].budget, curves[0].at
        some = np.isin(at, metric_iterations(self._since(bracket, rung, -1), budget))
        mean = np.mean([curve.values for curve in curves], axis=0)
        return Trial(
            configuration=k,
            bracket=bracket,
            rung=rung,
            budget=budget,
            parameters=self.parameters[k],
            best=best,
            seconds=sum(result.seconds for result in folds),
            curve=MetricCurve(at[some], mean[some]),
        )

    def _drop_models(self, budget: int, rung: int) -> None:
        """Forget the models of configurations that do not go on."""
        for b, bracket in enumerate(self.brackets):
            if rung < len(bracket) and bracket[rung].budget == budget:
                is_last = rung + 1 == len(bracket)
                promoted = set() if is_last else set(self.configurations(b, rung + 1))
                for k in set(self.configurations(b, rung)) - promoted:
                    for fold in range(len(self.evaluator.folds)):
                        self.models.pop((k, fold), None)


def identity(search: SuccessiveHalving) -> dict[str, str]:
    """Return everything the result depends on as text, which is equal in any process."""
    evaluator, data = search.evaluator, search.evaluator.data

    def columns() -> Iterator[Any]:  # one by one: all may be more than memory holds
        for name in evaluator.default.columns:
            column = data.table[name]
            yield name
            if isinstance(column, Labels):
                yield from (*column.levels, column.codes)
            else:
                yield column.values

    learners = [repr(plan.learner) for plan in evaluator.default.plans]
    return {
        "data": fingerprint(chain([data.y, data.weights, data.offset], columns())),
        "learners": fingerprint(learners),
        "loss": data.loss.identity(),
        "bins": repr(data.source.bins),
        "space": ", ".join(f"{name}: {d!r}" for name, d in evaluator.space.parameters.items()),
        "folds": fingerprint(
            x for fold in evaluator.folds for x in (fold.training_counts, fold.test_counts)
        ),
        "metric": evaluator.metric.identity(),
        "schedule": " ".join(f"{r.budget}x{r.n}" for bracket in search.brackets for r in bracket),
        "random_state": str(evaluator.seed),
        "validation": str(evaluator.share) if evaluator.held else "",
    }
