"""tune(...) -> Tuning: which df, rate, optimizer and number of iterations predict best.

Knows what people ask for and what the result can tell. Who goes on to the next rung is in climb.py,
how a configuration is fitted and scored in bench.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from cwboost._utils.checks import check_threads, is_number, threads_for
from cwboost.fitting.options import as_seed
from cwboost.fitting.preparation import reading
from cwboost.frames.result_table import ResultTable
from cwboost.model.model import Model
from cwboost.progress import as_progress
from cwboost.selection.metrics import Metric

from .evaluation import Evaluator
from .schedules import Bracket, Hyperband, as_brackets, at_most
from .successive_halving import SuccessiveHalving, Trial, identity, said
from .trial_log import TrialLog


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
    """Finds the df, rate, optimizer and number of iterations that predict best.

    Configurations are drawn at random from a space. All get a few iterations of boosting on every
    fold, the better ones more, the best most: their fits go on where they were left. A
    configuration is scored at the best iteration so far of the mean over the folds.

    Parameters
    ----------
    table, y, learners, loss, bins, weights, offset, exposure
        As of `fit`.
    space : mapping of parameters to distributions, optional
        Parameters: "rate", "momentum", "optimizer", "bins"; "df" of all smooth terms, "df.Spline"
        of a kind, "df.age" of a term. Distributions: `(low, high)`, `LogUniform(low, high)`, a list
        of choices, or one value. A df that a term cannot have counts as the nearest that it can.
        By default df of every kind of term there is, and the rate, with `Plain`.
    folds : int, Folds, splitter, list of (training, test) or weights
        Every configuration is fitted to all of them.
    metric : name, function or scorer, optional
        What decides, as of `cv`: "risk" (the mean loss, by default), "auc", "log_loss", "accuracy",
        "brier", "rmse", "mae", "r2", a scorer of scikit-learn, or a function of y and prediction.
        The risk is known after every iteration; others are computed at iterations 19% apart.
    schedule : Hyperband, Halving, RandomSearch or list of brackets
        How many configurations are tried for how long; by default `Hyperband()`.
    random_state : int or numpy Generator
        For folds and configurations.
    n_threads : int, optional
        Fits side by side, by default as many as there are cores. The result does not depend on it.
    file : path, optional
        Keeps what is done. Called again with the same arguments, the work goes on from there, and
        ends in the same result.
    groups : array or name of a column, optional
        Rows of a group stay together.
    validation : float
        Share of the training rows that a `Hybrid` watches to know when to switch.
    greater_is_better : bool, optional
        Of a metric that is a function whose name does not say it.
    progress : None, bool or Progress
        As of `fit`.

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
    <Tuning: 10 configurations, risk 0.06187 with df.Spline 5.06, rate 0.0852, n_iter 60>
    >>> model = tuning.fit()
    >>> model.n_iter == tuning.best.n_iter
    True
    """
    bar, seed = as_progress(progress), as_seed(random_state)
    brackets = as_brackets(Hyperband() if schedule is None else schedule)
    check_threads(n_threads)
    given = {
        "table": table, "y": y, "learners": learners, "loss": loss, "bins": bins,
        "weights": weights, "offset": offset, "exposure": exposure,
    }  # fmt: skip
    with reading(table, bar):
        bench = Evaluator.make(
            given, space, folds=folds, groups=groups, metric=metric, seed=seed,
            greater_is_better=greater_is_better, validation=validation, n_threads=n_threads,
        )  # fmt: skip
    brackets = at_most(brackets, bench.space.size)
    climb = SuccessiveHalving(bench, brackets, bar)
    with nullcontext() if file is None else TrialLog(file, "tuning", identity(climb)) as journal:
        try:
            climb.run(threads_for(n_threads), journal)
        except KeyboardInterrupt:
            raise TuningInterrupted(Tuning(climb.trials, bench, brackets)) from None
    return Tuning(climb.trials, bench, brackets)


class TuningInterrupted(KeyboardInterrupt):
    """Ctrl-C during `tune`; `.tuning` is what was found so far."""

    def __init__(self, tuning: Tuning) -> None:
        super().__init__(f"interrupted after {len(tuning.trials)} trials; .tuning has them")
        self.tuning = tuning

    def __reduce__(self) -> Any:
        return TuningInterrupted, (self.tuning,)


# --- the result -----------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Tuning:
    """What `tune` found.

    Attributes
    ----------
    trials : tuple of Trial
        Every configuration after each of its rungs, by bracket and configuration.
    best : Trial
        The one with the best score: `.parameters`, `.n_iter`, `.score`, `.sd`.
    arguments : dict
        What the best one means for `fit`: `cb.fit(table, y, **tuning.arguments)`.
    complete : bool
        Whether the whole schedule was run.
    """

    trials: tuple[Trial, ...]
    bench: Evaluator
    brackets: tuple[Bracket, ...]

    @property
    def metric(self) -> Metric:
        return self.bench.metric

    @property
    def complete(self) -> bool:
        return len(self.trials) == sum(rung.n for bracket in self.brackets for rung in bracket)

    @property
    def best(self) -> Trial:
        if not self.trials:
            raise ValueError("no configuration was finished; there is no best one")
        key = self.bench.worse
        return min(self.trials, key=lambda t: (key(t.score), t.n_iter, t.configuration, t.rung))

    @property
    def arguments(self) -> dict[str, Any]:
        return self.bench.arguments(self.best.parameters, self.best.n_iter)

    def fit(self, **changes: Any) -> Model:
        """The best configuration, fitted to all rows.

        Parameters
        ----------
        **changes
            Other arguments of `fit` than the best ones, such as `n_iter` or `progress`.
        """
        return self.bench.fit(self.arguments | changes)

    def table(self) -> ResultTable:
        """One row per trial: bracket, configuration, rung, budget, the parameters, score (mean over
        the folds) and its sd, best iteration, seconds."""
        trials, names = self.trials, self.bench.space.parameters
        out = ResultTable(
            {
                name: np.array([getattr(t, name) for t in trials], dtype=np.int64)
                for name in ("bracket", "configuration", "rung", "budget")
            }
        )
        for name in names:
            values = [t.parameters.get(name) for t in trials]
            numbers = all(v is None or is_number(v) for v in values)
            out[name] = np.array(values, dtype=np.float64 if numbers else object)
        for name, kind in (
            ("score", float),
            ("sd", float),
            ("n_iter", np.int64),
            ("seconds", float),
        ):
            out[name] = np.array([getattr(t, name) for t in trials], dtype=kind)
        return out

    def plot(self, kind: Literal["parameters", "paths"] = "parameters", **options: Any) -> Any:
        """Draws what was found (extra `plot`): a TuningDisplay.

        Parameters
        ----------
        kind : "parameters" or "paths"
            Score over every parameter, or score over the iterations.
        **options
            Of `TuningDisplay.from_tuning`.
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
            f"<Tuning: {n} configurations{more}, {self.metric.name} {best.score:.4g} with "
            f"{said(best.parameters)}, n_iter {best.n_iter}>"
        )

    def summary(self, n: int = 5) -> str:
        """The best configurations and what they took, as text."""
        trials, metric = self.trials, self.metric
        last = {t.configuration: t for t in trials}  # of each the highest rung
        order = sorted(last.values(), key=lambda t: (self.bench.worse(t.score), t.configuration))
        planned = sum(bracket[0].n for bracket in self.brackets)
        of = "" if self.complete else f" of {planned}"
        better = "larger" if metric.greater_is_better else "less"
        n_folds = len(self.bench.folds)
        over = "of one fold" if n_folds == 1 else "mean and sd over the folds"
        lines = [
            f"{len(last)}{of} configurations, {len(trials)} trials in {n_folds} folds",
            f"{metric.name} ({over}), {better} is better:",
        ]
        lines += [
            f"  {t.score:.5g}{'' if n_folds == 1 else f' ({t.sd:.3g})'}  {said(t.parameters)}, "
            f"n_iter {t.n_iter} of {t.budget}"
            for t in order[:n]
        ]
        most = max(rung.budget for bracket in self.brackets for rung in bracket)
        if trials and self.best.n_iter == most:
            lines.append(f"the best one is best after the last iteration: try more than {most}")
        return "\n".join(lines)
