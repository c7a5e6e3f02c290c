"""Tuning with optuna (extra `optuna`): an objective that reports scores while its fits grow, so
that optuna can prune trials. This is the only file that imports optuna.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from cwboost._utils.cores import check_threads, threads_for
from cwboost.fitting.options import as_seed
from cwboost.fitting.parallel_fits import Halt, run_all
from cwboost.model.model import Model
from cwboost.progress import Progress

from .evaluation import Evaluator, MetricCurve
from .schedules import MAX_ITERATIONS, Halving
from .space import Configuration

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
    """Return an objective for optuna's `study.optimize`: it cross-validates the configurations that
    optuna suggests.

    The score is reported after about `least` iterations, then each time the number of iterations
    has grown by `factor`, until `n_iter`. At each report optuna may prune the trial; otherwise the
    same fits continue.

    Parameters
    ----------
    table, y, space, learners, loss, folds, metric, random_state, bins, weights, offset, exposure, \
groups, validation, greater_is_better
        See `cb.tune`.
    n_iter, least : int
        The largest number of iterations, and the number after which the first score is reported.
    factor : float
    n_threads : int, optional
        The number of folds that are fitted at a time.

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
    inputs = {
        "table": table, "y": y, "learners": learners, "loss": loss, "bins": bins,
        "weights": weights, "offset": offset, "exposure": exposure,
    }  # fmt: skip
    (rungs,) = Halving(MAX_ITERATIONS, least, n_iter, factor).brackets  # only budgets are used
    evaluator = Evaluator.make(
        inputs, space, folds=folds, groups=groups, metric=metric,
        greater_is_better=greater_is_better, validation=validation, seed=as_seed(random_state),
        n_threads=n_threads,
    )  # fmt: skip
    return Objective(evaluator, [r.budget for r in rungs], threads_for(n_threads))


class Objective:
    """An objective for optuna: called with a trial, it returns the score.

    A trial gets the attributes `n_iter` (the best iteration), `scores` (of the folds) and `budget`
    (the number of iterations that were run), also if it is pruned.

    Attributes
    ----------
    direction : "minimize" or "maximize"
    """

    def __init__(self, evaluator: Evaluator, budgets: list[int], n_threads: int) -> None:
        self.evaluator, self.budgets, self.n_threads = evaluator, budgets, n_threads
        self.direction = "maximize" if evaluator.metric.greater_is_better else "minimize"

    def suggest(self, trial: optuna.Trial) -> Configuration:
        """Return the configuration that optuna suggests."""
        space, out = self.evaluator.space, Configuration()
        order = sorted(space.parameters, key=lambda name: name != "optimizer")
        for name in order:
            distribution = space.parameters[name]
            if not space.matters(name, out):
                continue
            if distribution.labels is not None:
                out[name] = trial.suggest_categorical(name, distribution.labels)
            else:
                low, high = distribution.limits
                out[name] = trial.suggest_float(name, low, high, log=distribution.is_log)
        return out

    def __call__(self, trial: optuna.Trial) -> float:
        optuna, parameters = import_optuna(), self.suggest(trial)
        models: list[Model | None] = [None] * len(self.evaluator.folds)
        best, since = None, -1
        for budget in self.budgets:
            models, curves = self._continue_fits(parameters, models, since, budget)
            best, since = self.evaluator.best_iteration(curves, best), budget
            trial.set_user_attr("n_iter", best.n_iter)
            trial.set_user_attr("scores", best.scores)
            trial.set_user_attr("budget", budget)
            trial.report(best.score, budget)
            if budget < self.budgets[-1] and trial.should_prune():
                raise optuna.TrialPruned
        assert best is not None
        return best.score

    def _continue_fits(
        self, parameters: Configuration, models: Sequence[Model | None], since: int, budget: int
    ) -> tuple[list[Model | None], list[MetricCurve]]:
        """Continue the fits of all folds to a budget; return them with their curves."""
        evaluator, prepared = self.evaluator, self.evaluator.prepare(parameters)

        def job(fold: int, halt: Halt) -> tuple[Model, MetricCurve]:
            model = evaluator.fit_fold(parameters, prepared, fold, [budget], models[fold], halt)
            return model, evaluator.evaluate(prepared, model, fold, since, budget)

        jobs = [partial(job, fold) for fold in range(len(models))]
        found = run_all(jobs, self.n_threads, Progress())
        return [model for model, _ in found], [curve for _, curve in found]

    def arguments(self, trial: Any) -> dict[str, Any]:
        """Return a trial as arguments: `cb.fit(table, y, **objective.arguments(trial))`."""
        return self.evaluator.arguments(trial.params, trial.user_attrs["n_iter"])

    def fit(self, trial: Any, **changes: Any) -> Model:
        """Return a model of all rows for a finished trial, such as `study.best_trial`."""
        return self.evaluator.fit(self.arguments(trial) | changes)


def import_optuna() -> Any:
    """Import optuna, or raise ModuleNotFoundError that says how to install it."""
    try:
        import optuna
    except ModuleNotFoundError as error:
        if error.name != "optuna":
            raise
        raise ModuleNotFoundError(
            "optuna_objective needs optuna: pip install 'cwboost[optuna]'", name="optuna"
        ) from None
    return optuna
