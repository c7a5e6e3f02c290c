"""Configurations climb the rungs of a schedule: the better ones of each go on to the next.

Knows who goes on, what is kept in a file, and threads; how a configuration is fitted and scored is
the bench's.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from cwboost._utils.fingerprint import fingerprint
from cwboost.fitting.parallel_fits import Halt, run_all
from cwboost.fitting.smoothing import one_blas_thread
from cwboost.frames.table import Labels
from cwboost.model.model import Model
from cwboost.progress import Progress

from .evaluation import Curve, Evaluator, PartialFit, marks
from .schedules import Bracket
from .space import Configuration
from .trial_log import TrialLog


def said(parameters: Configuration) -> str:
    """Parameters in a line."""
    return ", ".join(
        f"{name} {value:.3g}" if isinstance(value, float) else f"{name} {value}"
        for name, value in parameters.items()
    )


class Trial(NamedTuple):
    """One configuration after one rung.

    Attributes
    ----------
    configuration, bracket, rung : int
        Which.
    budget : int
        Iterations that it has had.
    parameters : dict
    n_iter : int
        The best iteration so far of the mean over the folds.
    scores : tuple
        Of the folds at that iteration; `score` is their mean, `sd` their standard deviation.
    seconds : float
        Fitting and scoring of this rung, all folds.
    curve : Curve
        Mean over the folds at some iterations of this rung.
    """

    configuration: int
    bracket: int
    rung: int
    budget: int
    parameters: Configuration
    standing: PartialFit
    seconds: float
    curve: Curve

    @property
    def scores(self) -> tuple[float, ...]:
        return self.standing.scores

    @property
    def n_iter(self) -> int:
        return self.standing.n_iter

    @property
    def score(self) -> float:
        return self.standing.score

    @property
    def sd(self) -> float:
        return self.standing.sd

    def __repr__(self) -> str:
        sd = "" if np.isnan(self.sd) else f" (sd {self.sd:.3g})"
        return (
            f"<Trial: {said(self.parameters)}: {self.score:.5g}{sd}, best iteration {self.n_iter} "
            f"of {self.budget}>"
        )

    @classmethod
    def read(cls, line: Mapping[str, Any]) -> Trial:
        """From a line of a journal."""
        standing = PartialFit(tuple(line["scores"]), line["n_iter"])
        curve = Curve(np.array(line["at"], dtype=np.int64), np.array(line["mean"], dtype=float))
        return cls(
            line["configuration"],
            line["bracket"],
            line["rung"],
            line["budget"],
            line["parameters"],
            standing,
            line["seconds"],
            curve,
        )

    def line(self) -> dict[str, Any]:
        """For a journal: what `read` reads."""
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


class HalvingResult(NamedTuple):
    """One fold of a configuration after a rung."""

    model: Model
    curve: Curve
    seconds: float


@dataclass(eq=False)
class SuccessiveHalving:
    """Configurations on their way up the rungs."""

    bench: Evaluator
    brackets: tuple[Bracket, ...]
    bar: Progress
    done: dict[tuple[int, int], Trial] = field(default_factory=dict)  # by configuration and rung
    models: dict[tuple[int, int], Model] = field(default_factory=dict)  # by configuration and fold

    def __post_init__(self) -> None:
        sizes = [bracket[0].n for bracket in self.brackets]
        self.first = np.cumsum([0, *sizes]).tolist()  # number of a bracket's first configuration
        self.parameters = self.bench.space.draw_all(self.bench.seed, sizes)

    @property
    def trials(self) -> tuple[Trial, ...]:
        """What is done, by configuration and rung."""
        return tuple(self.done[key] for key in sorted(self.done))

    def run(self, n_threads: int, journal: TrialLog | None) -> None:
        """All brackets together, level by level: a rung of few configurations alone would leave
        threads without work."""
        for line in [] if journal is None else journal.lines:
            trial = Trial.read(line)
            self.done[trial.configuration, trial.rung] = trial
        levels = sorted({(r.budget, i) for b in self.brackets for i, r in enumerate(b)})
        n_folds = len(self.bench.folds)
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
            warnings.simplefilter("ignore", RuntimeWarning)  # a fit diverges: its score says so
            self.count = n_folds * sum(map(self._iterations, self.done.values()))
            scores = (trial.score for trial in self.done.values())
            self.best = min(scores, key=self.bench.worse, default=float("nan"))
            for budget, rung in levels:
                self._level(budget, rung, n_threads, journal)

    def _iterations(self, trial: Trial) -> int:
        return trial.budget - self._since(trial.bracket, trial.rung, 0)

    def _since(self, bracket: int, rung: int, start: int) -> int:
        return self.brackets[bracket][rung - 1].budget if rung else start

    def members(self, bracket: int, rung: int) -> list[int]:
        """The configurations of a rung: those drawn, or the best of the rung below."""
        if rung == 0:
            return list(range(self.first[bracket], self.first[bracket + 1]))
        key = self.bench.worse
        below = self.members(bracket, rung - 1)
        order = sorted(below, key=lambda k: (key(self.done[k, rung - 1].score), k))
        return sorted(order[: self.brackets[bracket][rung].n])

    def _level(self, budget: int, rung: int, n_threads: int, journal: TrialLog | None) -> None:
        """All configurations that have this budget on this rung."""
        here = [
            (b, k)
            for b, bracket in enumerate(self.brackets)
            if rung < len(bracket) and bracket[rung].budget == budget
            for k in self.members(b, rung)
        ]
        n_folds = len(self.bench.folds)
        todo = [(b, k) for b, k in here if (k, rung) not in self.done]
        jobs = [job for b, k in todo for job in self._jobs(b, k, rung)]
        found: dict[int, dict[int, HalvingResult]] = {k: {} for _, k in todo}

        def end(number: int, climbed: HalvingResult) -> None:
            (b, k), fold = todo[number // n_folds], number % n_folds
            found[k][fold] = climbed
            self.models[k, fold] = climbed.model
            self.count += budget - self._since(b, rung, 0)
            if len(found[k]) == n_folds:
                trial = self._trial(b, k, rung, [found[k][f] for f in range(n_folds)])
                self.done[k, rung] = trial
                if journal is not None:
                    journal.write(trial.line())
                self.best = min(self.best, trial.score, key=self.bench.worse)
            known = {} if np.isnan(self.best) else {"best": self.best}
            self.bar.step(self.count, **known)

        run_all(jobs, n_threads, Progress(), done=end)
        self._forget(budget, rung)

    def _jobs(self, bracket: int, k: int, rung: int) -> list[Callable[[Halt], HalvingResult]]:
        """A configuration's fits of a rung, one per fold. Without the models of the rungs below
        (they were run by another process) those are climbed again."""
        bench, parameters = self.bench, self.parameters[k]
        binned = bench.binned(parameters)
        budgets = [r.budget for r in self.brackets[bracket][: rung + 1]]
        since = self._since(bracket, rung, -1)

        def job(fold: int, before: Model | None, halt: Halt) -> HalvingResult:
            began = time.perf_counter()
            rest = budgets if before is None else budgets[-1:]
            model = bench.run(parameters, binned, fold, rest, before, halt)
            curve = bench.measure(binned, model, fold, since, budgets[-1])
            return HalvingResult(model, curve, time.perf_counter() - began)

        return [partial(job, fold, self.models.get((k, fold))) for fold in range(len(bench.folds))]

    def _trial(self, bracket: int, k: int, rung: int, folds: Sequence[HalvingResult]) -> Trial:
        curves = [climbed.curve for climbed in folds]
        below = self.done.get((k, rung - 1))
        standing = self.bench.stand(curves, None if below is None else below.standing)
        budget, at = self.brackets[bracket][rung].budget, curves[0].at
        some = np.isin(at, marks(self._since(bracket, rung, -1), budget))
        mean = np.mean([curve.values for curve in curves], axis=0)
        return Trial(
            k,
            bracket,
            rung,
            budget,
            self.parameters[k],
            standing,
            sum(climbed.seconds for climbed in folds),
            Curve(at[some], mean[some]),
        )

    def _forget(self, budget: int, rung: int) -> None:
        """Models of configurations that do not go on."""
        for b, bracket in enumerate(self.brackets):
            if rung < len(bracket) and bracket[rung].budget == budget:
                on = set(self.members(b, rung + 1)) if rung + 1 < len(bracket) else set()
                for k in set(self.members(b, rung)) - on:
                    for fold in range(len(self.bench.folds)):
                        self.models.pop((k, fold), None)


def identity(climb: SuccessiveHalving) -> dict[str, str]:
    """What the result depends on, as text: equal for equal work, in any process."""
    bench, data = climb.bench, climb.bench.data

    def columns() -> Iterator[Any]:  # one by one: all may be more than memory holds
        for name in bench.default.columns:
            column = data.table[name]
            yield name
            if isinstance(column, Labels):
                yield from (*column.levels, column.codes)
            else:
                yield column.values

    learners = [repr(plan.learner) for plan in bench.default.plans]
    return {
        "data": fingerprint(chain([data.y, data.weights, data.offset], columns())),
        "learners": fingerprint(learners),
        "loss": data.loss.identity(),
        "bins": repr(bench.default.settings.bins),
        "space": ", ".join(f"{name}: {d!r}" for name, d in bench.space.parameters.items()),
        "folds": fingerprint(
            x for fold in bench.folds for x in (fold.training_counts, fold.test_counts)
        ),
        "metric": bench.metric.identity(),
        "schedule": " ".join(f"{r.budget}x{r.n}" for bracket in climb.brackets for r in bracket),
        "random_state": str(bench.seed),
        "validation": str(bench.share) if bench.held else "",
    }
