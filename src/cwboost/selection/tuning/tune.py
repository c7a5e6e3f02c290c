"""Hyperparameter tuning, cb.tune: which df, rate, optimizer and number of iterations predict best.

This file has the function and its result. Which configurations go on is decided in
successive_halving.py; how they are fitted and scored is in evaluation.py.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from cwboost._utils.checks import check_whole, is_number
from cwboost._utils.cores import check_threads, threads_for
from cwboost._utils.text import count
from cwboost._utils.unknown_arguments import explain_unknown
from cwboost.fitting.options import as_seed
from cwboost.fitting.preparation import reading
from cwboost.frames.result_table import ResultTable
from cwboost.metrics.metric import Metric
from cwboost.model.model import Model
from cwboost.progress import as_progress

from .evaluation import Evaluator
from .schedules import Bracket, Hyperband, as_brackets, at_most
from .successive_halving import SuccessiveHalving, Trial, format_parameters, identity
from .trial_log import TrialLog


@explain_unknown
def tune(
    table: Any,
    y: Any = None,
    space: Mapping[str, Any] | None = None,
    learners: Any = None,
    loss: Any = "squared",
    folds: Any = 3,
    metric: Any = None,
    schedule: Any = None,
    random_state: Any = 0,
    n_threads: int | None = None,
    *,
    file: Any = None,
    bins: Any = "auto",
    weights: Any = None,
    offset: Any = None,
    exposure: Any = None,
    groups: Any = None,
    validation: float = 0.3,
    greater_is_better: bool | None = None,
    progress: Any = None,
) -> Tuning:
    """Find the df, rate, optimizer and number of iterations that predict best.

    Configurations are drawn at random from a space. All of them are fitted to every fold for a few
    iterations; the better ones continue for more. A configuration is scored at the iteration with
    the best mean over the folds so far.

    Parameters
    ----------
    table, y, learners, loss, bins, weights, offset, exposure
        See `cb.fit`.
    space : mapping of parameters to distributions, optional
        Parameters: "rate", "momentum", "optimizer", "bins"; "df" for all smooth terms, "df.Spline"
        for a kind of term, "df.age" for one term. Distributions: `(low, high)`,
        `LogUniform(low, high)`, a list of choices, or one value. A df below the smallest that a
        term can have is raised to it. The default space has the df of every kind of term and the
        rate, with the optimizer `Plain`.
    folds : int, Folds, splitter, list of (training, test) or weights
        Every configuration is fitted to all folds.
    metric : name, function or scorer, optional
        The metric that decides, see `cb.cv`: "risk" (the mean loss, default), "auc", "log_loss",
        "accuracy", "brier", "rmse", "mae", "r2", a scikit-learn scorer, a registered metric, or a
        function of y and prediction. The risk is computed after every iteration, other metrics
        at four iterations per doubling.
    schedule : Hyperband, Halving, RandomSearch or list of brackets
        How many configurations are tried for how many iterations; by default `Hyperband()`.
    random_state : int or numpy Generator
        For folds and configurations.
    n_threads : int, optional
        The number of fits at a time, by default one per core. The result does not depend on it.
    file : path, optional
        A log of finished trials. A later call with the same arguments resumes from it and ends
        with the same result.
    groups : array or name of a column, optional
        Rows of a group stay together.
    validation : float
        The share of the training rows that is held out to find the switch of a `Hybrid`.
    greater_is_better : bool, optional
        For a metric that is a function whose name does not tell.
    progress : None, bool or Progress
        See `cb.fit`.

    Returns
    -------
    Tuning

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> rng = np.random.default_rng(1)
    >>> table = {"x": rng.uniform(size=200), "noise": rng.normal(size=200)}
    >>> y = np.sin(6 * table["x"]) + rng.normal(size=200) / 3
    >>> tuning = cb.tune(table, y, schedule=cb.Hyperband(least=25, most=100))
    >>> tuning
    <Tuning: 10 configurations, risk 0.06173 with df.Spline 5.06, rate 0.0852, n_iter 56>
    >>> model = tuning.fit()
    >>> model.n_iter == tuning.best.n_iter
    True
    """
    bar, seed = as_progress(progress), as_seed(random_state)
    brackets = as_brackets(Hyperband() if schedule is None else schedule)
    check_threads(n_threads)
    inputs = {
        "table": table, "y": y, "learners": learners, "loss": loss, "bins": bins,
        "weights": weights, "offset": offset, "exposure": exposure,
    }  # fmt: skip
    with reading(table, bar):
        evaluator = Evaluator.make(
            inputs, space, folds=folds, groups=groups, metric=metric, seed=seed,
            greater_is_better=greater_is_better, validation=validation, n_threads=n_threads,
        )  # fmt: skip
    brackets = at_most(brackets, evaluator.space.size)
    search = SuccessiveHalving(evaluator, brackets, bar)
    with nullcontext() if file is None else TrialLog(file, "tuning", identity(search)) as log:
        try:
            search.run(threads_for(n_threads), log)
        except KeyboardInterrupt:
            raise TuningInterrupted(Tuning(search.trials, evaluator, brackets)) from None
    return Tuning(search.trials, evaluator, brackets)


class TuningInterrupted(KeyboardInterrupt):
    """Raised on Ctrl-C during `tune`; `.tuning` has the result so far."""

    def __init__(self, tuning: Tuning) -> None:
        super().__init__(f"interrupted after {len(tuning.trials)} trials; .tuning has them")
        self.tuning = tuning

    def __reduce__(self) -> Any:
        return TuningInterrupted, (self.tuning,)


# --- the result -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Tuning:
    """The result of `cb.tune`.

    Attributes
    ----------
    trials : tuple of Trial
        One trial per configuration and rung, sorted by configuration.
    best : Trial
        The trial with the best score: `.parameters`, `.n_iter`, `.score`, `.sd`.
    arguments : dict
        The best configuration as arguments of `fit`: `cb.fit(table, y, **tuning.arguments)`.
    complete : bool
        Whether the whole schedule was run.
    """

    trials: tuple[Trial, ...]
    evaluator: Evaluator
    brackets: tuple[Bracket, ...]

    @property
    def metric(self) -> Metric:
        return self.evaluator.metric

    @property
    def complete(self) -> bool:
        return len(self.trials) == sum(rung.n for bracket in self.brackets for rung in bracket)

    @property
    def best(self) -> Trial:
        if not self.trials:
            raise ValueError("no configuration was finished, so there is no best one")
        key = self.evaluator.sort_key
        return min(self.trials, key=lambda t: (key(t.score), t.n_iter, t.configuration, t.rung))

    @property
    def arguments(self) -> dict[str, Any]:
        return self.evaluator.arguments(self.best.parameters, self.best.n_iter)

    def fit(self, **changes: Any) -> Model:
        """Return the best configuration, fitted to all rows.

        Parameters
        ----------
        **changes
            Arguments of `cb.fit` that replace or extend the best ones, such as `n_iter`.
        """
        return self.evaluator.fit(self.arguments | changes)

    def table(self) -> ResultTable:
        """Return a table with one row per trial: bracket, configuration, rung, budget, parameters,
        score (mean over the folds) and its sd, best iteration, seconds."""
        trials = self.trials
        out = ResultTable(
            {
                name: np.array([getattr(t, name) for t in trials], dtype=np.int64)
                for name in ("bracket", "configuration", "rung", "budget")
            }
        )
        for name in self.evaluator.space.parameters:
            values = [t.parameters.get(name) for t in trials]
            numbers = all(v is None or is_number(v) for v in values)
            out[name] = np.array(values, dtype=np.float64 if numbers else object)
        for name in ("score", "sd", "n_iter", "seconds"):
            dtype = np.int64 if name == "n_iter" else np.float64
            out[name] = np.array([getattr(t, name) for t in trials], dtype=dtype)
        return out

    def plot(self, kind: Literal["parameters", "paths"] = "parameters", **options: Any) -> Any:
        """Draw the trials (extra `plot`) as a TuningDisplay.

        Parameters
        ----------
        kind : "parameters" or "paths"
            The score by parameter, or the score by iteration.
        **options
            Options of `TuningDisplay.from_tuning`.
        """
        from cwboost.plotting.tuning import TuningDisplay

        return TuningDisplay.from_tuning(self, kind=kind, **options)

    def __repr__(self) -> str:
        n = len({t.configuration for t in self.trials})
        if not n:
            return "<Tuning: no configuration finished>"
        best = self.best
        more = "" if self.complete else " so far"
        return (
            f"<Tuning: {count(n, 'configuration')}{more}, {self.metric.name} {best.score:.4g} with "
            f"{format_parameters(best.parameters)}, n_iter {best.n_iter}>"
        )

    def summary(self, n: int = 5) -> str:
        """Return the n best configurations as text."""
        check_whole("n", n, 1, sys.maxsize)
        trials, metric = self.trials, self.metric
        last = {t.configuration: t for t in trials}  # the highest rung of each configuration
        order = sorted(
            last.values(), key=lambda t: (self.evaluator.sort_key(t.score), t.configuration)
        )
        n_planned = sum(bracket[0].n for bracket in self.brackets)
        of = "" if self.complete else f" of {n_planned}"
        better = "greater" if metric.greater_is_better else "smaller"
        n_folds = len(self.evaluator.folds)
        over = "of one fold" if n_folds == 1 else "mean and sd over the folds"
        lines = [
            f"{len(last)}{of} {'configuration' if n_planned == 1 else 'configurations'}, "
            f"{count(len(trials), 'trial')} in {count(n_folds, 'fold')}",
            f"{metric.name} ({over}), {better} is better:",
        ]
        lines += [
            f"  {t.score:.5g}{'' if n_folds == 1 else f' ({t.sd:.3g})'}  "
            f"{format_parameters(t.parameters)}, n_iter {t.n_iter} of {t.budget}"
            for t in order[:n]
        ]
        most = max(rung.budget for bracket in self.brackets for rung in bracket)
        if trials and self.best.n_iter == most:
            lines.append(
                f"the best configuration is best after its last iteration; try more than {most}"
            )
        return "\n".join(lines)
