"""Tuning by optuna (extra `optuna`): an objective whose fits go on from budget to budget, so that
optuna can prune. The only file that knows optuna.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from cwboost._utils.checks import check_threads, threads_for
from cwboost.fitting.options import as_seed
from cwboost.fitting.parallel_fits import Halt, run_all
from cwboost.model.model import Model
from cwboost.progress import Progress

from .evaluation import Curve, Evaluator
from .schedules import Halving
from .space import Choice, Configuration, LogUniform

if TYPE_CHECKING:
    import optuna


def optuna_objective(
    table: Any,
    y: Any,
    space: Mapping[str, Any] | None = None,
    learners: Any = None,
    loss: Any = "squared",
    folds: Any = 3,
    metric: Any = None,
    n_iter: int = 1000,
    *,
    least: int = 30,
    factor: float = 2,
    random_state: Any = 0,
    n_threads: int | None = None,
    bins: Any = "auto",
    weights: Any = None,
    offset: Any = None,
    exposure: Any = None,
    groups: Any = None,
    validation: float = 0.3,
    greater_is_better: bool | None = None,
) -> Objective:
    """A function for `study.optimize` of optuna: cross-validated fits of the configurations that
    optuna suggests.

    After about `least` iterations, and `factor` times as many, and so on until `n_iter`, the score
    so far is reported, and optuna may prune the trial; else the same fits go on.

    Parameters
    ----------
    table, y, space, learners, loss, folds, metric, random_state, bins, weights, offset, exposure, \
groups, validation, greater_is_better
        As of `tune`.
    n_iter, least : int
        Iterations at the most, and when optuna is first asked.
    factor : float
    n_threads : int, optional
        Folds side by side.

    Returns
    -------
    Objective
        With `direction` for `optuna.create_study`, and `fit(trial)` for the final model.

    Examples
    --------
    >>> import numpy as np, cwboost as cb, optuna
    >>> optuna.logging.set_verbosity(optuna.logging.ERROR)
    >>> x = np.linspace(0, 6, 100)
    >>> objective = cb.optuna_objective({"x": x}, np.sin(x), n_iter=60)
    >>> study = optuna.create_study(direction=objective.direction)
    >>> study.optimize(objective, n_trials=3)
    >>> model = objective.fit(study.best_trial)
    >>> model.n_iter == study.best_trial.user_attrs["n_iter"]
    True
    """
    import_optuna()
    check_threads(n_threads)
    given = {
        "table": table, "y": y, "learners": learners, "loss": loss, "bins": bins,
        "weights": weights, "offset": offset, "exposure": exposure,
    }  # fmt: skip
    (rungs,) = Halving(2**31 - 2, least, n_iter, factor).brackets
    bench = Evaluator.make(
        given, space, folds=folds, groups=groups, metric=metric,
        greater_is_better=greater_is_better, validation=validation, seed=as_seed(random_state),
        n_threads=n_threads,
    )  # fmt: skip
    return Objective(bench, [r.budget for r in rungs], threads_for(n_threads))


class Objective:
    """What `optuna_objective` returns: called with a trial of optuna, it returns the score.

    A trial gets the attributes `n_iter` (the best iteration), `scores` (of the folds) and `budget`
    (iterations run), also if it is pruned.

    Attributes
    ----------
    direction : "minimize" or "maximize"
    """

    def __init__(self, bench: Evaluator, budgets: list[int], n_threads: int) -> None:
        self.bench, self.budgets, self.n_threads = bench, budgets, n_threads
        self.direction = "maximize" if bench.metric.greater_is_better else "minimize"

    def suggest(self, trial: optuna.Trial) -> Configuration:
        """A configuration, by optuna."""
        space, out = self.bench.space, Configuration()
        order = sorted(space.parameters, key=lambda name: name != "optimizer")
        for name in order:
            distribution = space.parameters[name]
            if not space.matters(name, out):
                continue
            if isinstance(distribution, Choice):
                out[name] = trial.suggest_categorical(name, distribution.labels)
            else:
                log = isinstance(distribution, LogUniform)
                out[name] = trial.suggest_float(name, distribution.low, distribution.high, log=log)
        return out

    def __call__(self, trial: optuna.Trial) -> float:
        optuna, parameters = import_optuna(), self.suggest(trial)
        models: list[Model | None] = [None] * len(self.bench.folds)
        standing, since = None, -1
        for budget in self.budgets:
            models, curves = self._go_on(parameters, models, since, budget)
            standing, since = self.bench.stand(curves, standing), budget
            trial.set_user_attr("n_iter", standing.n_iter)
            trial.set_user_attr("scores", standing.scores)
            trial.set_user_attr("budget", budget)
            trial.report(standing.score, budget)
            if budget < self.budgets[-1] and trial.should_prune():
                raise optuna.TrialPruned
        assert standing is not None
        return standing.score

    def _go_on(
        self, parameters: Configuration, models: Sequence[Model | None], since: int, budget: int
    ) -> tuple[list[Model | None], list[Curve]]:
        """All folds of a configuration from one budget to the next."""
        bench, binned = self.bench, self.bench.binned(parameters)

        def job(fold: int, halt: Halt) -> tuple[Model, Curve]:
            model = bench.run(parameters, binned, fold, [budget], models[fold], halt)
            return model, bench.measure(binned, model, fold, since, budget)

        jobs = [partial(job, fold) for fold in range(len(models))]
        found = run_all(jobs, self.n_threads, Progress())
        return [model for model, _ in found], [curve for _, curve in found]

    def arguments(self, trial: Any) -> dict[str, Any]:
        """What a finished trial means: `cb.fit(table, y, **objective.arguments(trial))`."""
        return self.bench.arguments(trial.params, trial.user_attrs["n_iter"])

    def fit(self, trial: Any, **changes: Any) -> Model:
        """A finished trial, such as `study.best_trial`, fitted to all rows."""
        return self.bench.fit(self.arguments(trial) | changes)


def import_optuna() -> Any:
    try:
        import optuna
    except ModuleNotFoundError as error:
        if error.name != "optuna":
            raise
        raise ModuleNotFoundError(
            "optuna_objective needs optuna: pip install 'cwboost[optuna]'", name="optuna"
        ) from None
    return optuna
