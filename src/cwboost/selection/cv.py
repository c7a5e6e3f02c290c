"""cv(...): the risk of rows that a fit has not seen, along its path, averaged over folds; and the
number of iterations that it recommends.

Knows folds, fits and metrics; the rows are binned once, and a fold is weights on them. Knows
nothing of how the result is drawn.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cwboost._utils.checks import is_number, is_whole, threads_for
from cwboost.fitting.callbacks import Interrupted
from cwboost.fitting.input_data import FitData, Split
from cwboost.fitting.options import as_seed, check_counts
from cwboost.fitting.parallel_fits import Halt, run_all
from cwboost.fitting.preparation import read_all, reading
from cwboost.fitting.prepared import PreparedRows
from cwboost.fitting.problem import FitProblem
from cwboost.frames.result_table import ResultTable
from cwboost.frames.table import Floats
from cwboost.losses import Loss
from cwboost.model.model import Model
from cwboost.model.path import FINAL_REASONS, StopReason
from cwboost.optimizers import Optimizer, Plain, as_optimizer
from cwboost.progress import Progress, as_progress

from .folds import Fold, as_folds, watch
from .metrics import RISK, HeldOutRows, Metric, as_metrics, first_best

EDGE = 0.05  # last share of the iterations where a best one means that more may be better
MATTERS = 1e-4  # of what a path gains in all: less in its last iterations is not worth more of them
LONGEST = 8  # times the iterations asked for: as far as paths are continued
WATCHED = 0.2  # of the training rows of a fold, for a Hybrid to know when to switch
EVALUATIONS = 1_000_000  # rows times iterations of a fold at which a metric is computed
LEAST_POINTS = 50  # of a path at which it is computed all the same


@dataclass(frozen=True, eq=False)
class CV:
    """What `cb.cv` found: risks and metrics of the test rows of each fold along the path.

    Attributes
    ----------
    risk, training_risk : array of shape (folds, n_iter + 1)
        Mean loss of the test rows and of the training rows after 0, 1, ... iterations.
    metrics : dict of arrays of shape (folds, len(grid))
        Every other metric, after the iterations of `grid`.
    grid : array of iterations
    chosen_by : str
        "risk", or the metric that decides which iteration is best.
    greater_is_better : bool
        Whether more of it is better.
    loss, optimizer
        Of the fits.
    asked : int
        Iterations that were asked for; `n_iter` were run.
    ended : bool
        Whether no path can go on, since nothing is left to gain or it ran away.
    distinct : float
        So many folds would test the same rows once: the number of folds, unless repeated folds or
        draws test rows more often.
    models : tuple of Model, or None
        The model of each fold at the best iteration, if they were asked for.

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> rng = np.random.default_rng(1)
    >>> table = {"x": rng.uniform(size=200), "z": rng.normal(size=200)}
    >>> y = np.sin(6 * table["x"]) + rng.normal(0, 0.3, 200)
    >>> found = cb.cv(table, y, n_iter=100, folds=5)
    >>> found.risk.shape
    (5, 101)
    >>> model = cb.fit(table, y, n_iter=found.best_iteration)
    """

    risk: Floats
    training_risk: Floats
    metrics: dict[str, Floats]
    grid: NDArray[np.int64]
    chosen_by: str
    greater_is_better: bool
    loss: Loss
    optimizer: Optimizer
    asked: int
    ended: bool
    distinct: float
    models: tuple[Model, ...] | None = None

    @property
    def n_folds(self) -> int:
        return len(self.risk)

    @property
    def n_iter(self) -> int:
        """Iterations that were run."""
        return int(self.risk.shape[1]) - 1

    @property
    def values(self) -> Floats:
        """(folds, len(iterations)) of what decides: the risk, or a metric."""
        return self.risk if self.chosen_by == RISK else self.metrics[self.chosen_by]

    @property
    def iterations(self) -> NDArray[np.int64]:
        """The iterations of `values`, `mean` and `standard_error`."""
        return np.arange(self.n_iter + 1) if self.chosen_by == RISK else self.grid

    @property
    def mean(self) -> Floats:
        """Mean over the folds of what decides."""
        return np.asarray(self.values.mean(axis=0))

    @property
    def standard_error(self) -> Floats:
        """Of `mean`: the standard deviation over the folds / sqrt(distinct); nan for one fold.

        More draws of the same rows do not make it smaller. Folds share training rows, so it is a
        guide rather than an interval.
        """
        return self._error(self.values)

    def _error(self, values: Floats) -> Floats:
        if self.n_folds == 1:
            return np.full(values.shape[1], np.nan)
        with np.errstate(invalid="ignore"):  # of a path that ran away
            return np.asarray(values.std(axis=0, ddof=1) / np.sqrt(self.distinct))

    @property
    def best_iteration(self) -> int:
        """The iterations whose mean is best."""
        return int(self.iterations[self._best])

    @property
    def best_iteration_1se(self) -> int:
        """The fewest iterations whose mean is within one standard error of the best."""
        sign = -1.0 if self.greater_is_better else 1.0
        mean, error = sign * self.mean, self.standard_error[self._best]
        if not np.isfinite(error):
            return self.best_iteration
        return int(self.iterations[np.argmax(mean <= mean[self._best] + error)])

    @property
    def best(self) -> float:
        """The best mean."""
        return float(self.mean[self._best])

    @property
    def _best(self) -> int:
        return first_best(self.mean, self.greater_is_better)

    @property
    def at_edge(self) -> bool:
        """Whether the best iteration is among the last 5%, and better than those before by more
        than 1/10,000 of the way from the start to it: so that more may be better."""
        before = self.mean[self.iterations <= (1.0 - EDGE) * self.n_iter]
        if self.ended or len(before) > self._best:
            return False
        gain = abs(self.best - before[first_best(before, self.greater_is_better)])
        return bool(gain > MATTERS * abs(self.best - self.mean[0]))

    def table(self) -> ResultTable:
        """Means and standard errors as columns, a row per iteration; nan where a metric was not
        computed."""
        out = ResultTable(
            iteration=np.arange(self.n_iter + 1),
            risk=self.risk.mean(axis=0),
            risk_se=self._error(self.risk),
            training_risk=self.training_risk.mean(axis=0),
        )
        for name, values in self.metrics.items():
            for column, found in (
                (name, values.mean(axis=0)),
                (f"{name}_se", self._error(values)),
            ):
                out[column] = np.full(self.n_iter + 1, np.nan)
                out[column][self.grid] = found
        return out

    def summary(self) -> str:
        """The choices on a page, as text."""
        from .cv_text import summary

        return summary(self)

    def plot(self, **options: Any) -> Any:
        """Draws the folds, their mean and both choices (extra `plot`); see `CVDisplay`.

        Examples
        --------
        >>> import numpy as np, cwboost as cb
        >>> import matplotlib; matplotlib.use("agg")
        >>> rng = np.random.default_rng(0)
        >>> x = rng.uniform(size=100)
        >>> display = cb.cv({"x": x}, np.sin(6 * x) + rng.normal(size=100), n_iter=100).plot()
        >>> import matplotlib.pyplot as plt; plt.close(display.figure_)
        """
        from cwboost.plotting.cv import CVDisplay

        return CVDisplay.from_cv(self, **options)

    def __repr__(self) -> str:
        return (
            f"<cwboost.CV: {self.n_folds} folds, {self.n_iter} iterations; best {self.chosen_by} "
            f"{self.best:.5g} after {self.best_iteration}, within one standard error after "
            f"{self.best_iteration_1se}>"
        )

    def _repr_html_(self) -> str:
        from .cv_text import html

        return html(self)


def cv(
    table: Any,
    y: Any = None,
    learners: Any = None,
    loss: Any = "squared",
    optimizer: Optimizer | None = None,
    n_iter: int = 200,
    folds: Any = 10,
    groups: Any = None,
    metric: Any = None,
    bins: Any = "auto",
    weights: Any = None,
    offset: Any = None,
    exposure: Any = None,
    start: Any = None,
    scale: Any = "auto",
    extend: Any = True,
    random_state: Any = 0,
    n_threads: int | None = None,
    *,
    validation: float | None = None,
    greater_is_better: bool | None = None,
    every: int | None = None,
    keep_models: bool = False,
    progress: Any = None,
) -> CV:
    """Cross-validates the number of iterations.

    For every fold a model is fitted to its training rows and tested on the others, after every
    iteration. Columns are binned once, on all rows; start, scale and smoothing (lambda for the df
    asked for) are each fold's own.

    Parameters
    ----------
    table, y, learners, loss, optimizer, n_iter, bins, weights, offset, exposure, start, scale
        As of `cb.fit`.
    folds : int, Folds, splitter of scikit-learn, list of (training, test) or (n, folds) weights
        A number means k-fold, shuffled, with every class's share in each fold; `cb.Folds` has
        repeated k-fold, bootstrap, subsampling and windows in time. Own folds are row numbers,
        masks, or factors of the row weights with zero for test rows.
    groups : array or name of a column, optional
        Rows of a group stay together.
    metric : name, function, scorer, or a list or dict of them, optional
        Instead of the risk: "auc", "log_loss", "accuracy", "brier", "rmse", "mae", "r2", the name
        of a scorer of scikit-learn, or a function of y, prediction and (if there are weights)
        `sample_weight`; predictions are numbers, the probability of the second of two classes, or
        (n, classes) probabilities. The first decides; "risk" may be named among them.
    extend : bool or int
        Where the best iteration is among the last 5% (`CV.at_edge`), go on with twice as many:
        True up to 8 times `n_iter`, with a warning that says so; a number up to so many. False:
        only warn.
    random_state : int, RandomState, Generator or None
        For folds drawn at random.
    n_threads : int, optional
        Folds are fitted side by side; the result does not depend on it.
    validation : float, optional
        For a Hybrid only: the share of each fold's training rows that is watched for the switch
        (0.2; of groups if there are groups; the last ones for folds in time). The test rows never
        are.
    greater_is_better : bool, optional
        Of a metric that is a function whose name does not say it.
    every : int, optional
        Compute metrics after every so many iterations only; by default after each, unless there
        are many rows.
    keep_models : bool
        Keep the model of each fold.
    progress : None, bool or Progress
        As of `cb.fit`.

    Returns
    -------
    CV

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> rng = np.random.default_rng(1)
    >>> table = {"x": rng.uniform(size=200), "z": rng.normal(size=200)}
    >>> y = np.sin(6 * table["x"]) + rng.normal(0, 0.3, 200)
    >>> found = cb.cv(table, y, n_iter=100, folds=5, metric=["risk", "r2"])
    >>> found.best_iteration_1se < found.best_iteration < 100
    True
    >>> model = cb.fit(table, y, n_iter=found.best_iteration)
    """
    bar = as_progress(progress)
    optimizer = as_optimizer(Plain() if optimizer is None else optimizer)
    check_counts(n_iter, None, None, n_threads)
    most = _most(extend, n_iter)
    if every is not None and not (is_whole(every) and every > 0):
        raise ValueError(f"every must be a whole number > 0, got {every!r}")
    apart = [groups] if isinstance(groups, str) else []
    with reading(table, bar):
        read = read_all(table, y, learners, loss, bins, weights, offset, exposure, apart)
    data, seed = read.data, as_seed(random_state)
    metrics = as_metrics(metric, greater_is_better, data.loss, data.classes)
    made = as_folds(folds, data, groups, seed)
    watched: list[Any] = [None] * len(made)
    if optimizer.needs_validation:
        watched = watch(made, folds, data, _share(validation), groups, seed)
    elif validation is not None:
        raise ValueError(
            f"validation: {type(optimizer).__name__} uses no validation rows within a fold; "
            "it applies only to optimizers that switch, such as cb.Hybrid()"
        )
    parts = [_Part(fold, data, held) for fold, held in zip(made, watched, strict=True)]
    threads = threads_for(n_threads)
    step = _step(every, n_iter, made)
    with reading(table, bar):
        binned = read.bin(threads)
    run = Run(binned, parts, optimizer, metrics, step, start, scale)
    try:
        found = run.until_best(int(n_iter), most, threads, bar)
    except Interrupted:
        raise KeyboardInterrupt("cv: interrupted; no fold's result is kept") from None
    found = found if keep_models else replace(found, models=None)
    _warn_of_edge(found, told=extend is not True)
    return found


def _most(extend: Any, n_iter: int) -> int:
    """The most iterations to run."""
    if isinstance(extend, bool | np.bool_):
        return LONGEST * int(n_iter) if extend else int(n_iter)
    if not is_whole(extend) or extend < n_iter:
        raise ValueError(
            f"extend: expected True, False or the most iterations, at least n_iter = {n_iter}; got "
            f"{extend!r}"
        )
    return int(extend)


def _share(validation: float | None) -> float:
    share = WATCHED if validation is None else validation
    if not (is_number(share) and 0.0 < share < 1.0):
        raise ValueError(f"validation: expected a share between 0 and 1, got {share!r}")
    return float(share)


def _step(every: int | None, n_iter: int, folds: Sequence[Fold]) -> int:
    """Iterations from one computation of the metrics to the next."""
    if every is not None:
        return int(every)
    n_test = max(int(np.count_nonzero(fold.of_test)) for fold in folds)
    wanted = -(-n_test * (n_iter + 1) // EVALUATIONS)
    return max(1, min(wanted, n_iter // LEAST_POINTS))


def _warn_of_edge(found: CV, told: bool) -> None:
    m, last = found.best_iteration, found.n_iter
    if found.at_edge:
        what = f"cv: the best iteration, {m}, is among the last of {last}; raise n_iter or the rate"
    elif last > found.asked and not told:
        what = (
            f"cv: the best of the {found.asked} iterations asked for was among the last, so the "
            f"folds went on to {last}; the best iteration is now {m}"
        )
    else:
        return
    warnings.warn(what, UserWarning, stacklevel=3)


# --- the folds' fits ------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Part:
    """The rows of a fold."""

    fold: Fold
    data: FitData
    watched: NDArray[np.bool_] | None  # of the training rows, for a Hybrid

    @property
    def test(self) -> Floats:
        """(n,) weights."""
        return np.asarray(self.data.weights * self.fold.of_test)

    @property
    def split(self) -> Split:
        return self.fold.split(self.data.weights, self.watched)


@dataclass(frozen=True, eq=False)
class _FoldRun:
    """A fold's path: its model, the risk of the test rows, and metrics by iteration."""

    model: Model
    risk: Floats  # (its own n_iter + 1,)
    metrics: dict[str, dict[int, float]]


@dataclass(frozen=True, eq=False)
class Run:
    """Everything that the fits of all folds need."""

    binned: PreparedRows
    parts: Sequence[_Part]
    optimizer: Optimizer
    metrics: Sequence[Metric]
    every: int
    start: Any = None
    scale: Any = "auto"

    def until_best(self, n_iter: int, most: int, n_threads: int, bar: Progress) -> CV:
        """All folds, continued while the best iteration is at the edge of their paths."""
        ran: list[_FoldRun | None] = [None] * len(self.parts)
        asked = n_iter
        while True:
            done = self.run(n_iter, ran, n_threads, bar)
            found = self.gathered(done, asked)
            if not found.at_edge or n_iter >= most:
                return found
            ran, n_iter = list(done), min(2 * n_iter, most)

    def run(
        self, n_iter: int, before: Sequence[_FoldRun | None], n_threads: int, bar: Progress
    ) -> list[_FoldRun]:
        """The paths of all folds to n_iter iterations, going on from those before."""
        workers = min(n_threads, len(self.parts))
        inside = replace(self, binned=replace(self.binned, n_threads=max(1, n_threads // workers)))
        shown = bar if workers == 1 else None  # a bar belongs to one thread

        def job(k: int) -> Any:
            return lambda halt: inside.path(
                self.parts[k], n_iter, before[k], None if workers == 1 else halt, shown
            )

        return run_all([job(k) for k in range(len(self.parts))], workers, bar, "fold")

    def path(
        self,
        part: _Part,
        n_iter: int,
        before: _FoldRun | None,
        halt: Halt | None,
        bar: Progress | None,
    ) -> _FoldRun:
        """One fold."""
        problem = FitProblem.pose(
            self.binned,
            part.split,
            self.optimizer,
            start=self.start,
            scale=self.scale,
            n_threads=self.binned.n_threads,
        )
        after = None if before is None else before.model
        model = problem.fit(n_iter, after=after, halt=halt, bar=bar)
        watch = _Watch(self.metrics, self.every, part, model.n_iter, before, halt)
        risk = model.validation_risk
        if watch.wanted or part.watched is not None or risk is None:
            risk = problem.follow(model, part.test, watch.at if watch.wanted else None)
        return _FoldRun(model, risk, watch.found)

    def gathered(self, ran: Sequence[_FoldRun], asked: int) -> CV:
        """The paths side by side; those that ended early stay as they ended."""
        n_iter = max(r.model.n_iter for r in ran)
        first, others = self.metrics[0], [m for m in self.metrics if m.name != RISK]
        grid = np.union1d(np.arange(0, n_iter + 1, self.every), [n_iter])
        metrics = {
            m.name: np.array([_on_grid(r.metrics[m.name], grid, r.model, m) for r in ran])
            for m in others
        }
        found = CV(
            np.array([_padded(r.risk, n_iter, r.model) for r in ran]),
            np.array([_padded(r.model.risk, n_iter, r.model) for r in ran]),
            metrics,
            grid,
            first.name,
            first.greater_is_better,
            self.binned.data.loss,
            self.optimizer,
            asked,
            all(r.model.stopped in FINAL_REASONS for r in ran),
            _distinct([part.fold for part in self.parts]),
        )
        best = found.best_iteration
        models = tuple(r.model.at(min(best, r.model.n_iter)) for r in ran)
        return replace(found, models=models)


class _Watch:
    """Computes the metrics of a fold's test rows along its path."""

    def __init__(
        self,
        metrics: Sequence[Metric],
        every: int,
        part: _Part,
        last: int,
        before: _FoldRun | None,
        halt: Halt | None,
    ) -> None:
        self.metrics = [m for m in metrics if m.name != RISK]
        self.every, self.last, self.halt = every, last, halt
        self.found = {
            m.name: {} if before is None else before.metrics[m.name] for m in self.metrics
        }
        self.wanted = bool(self.metrics)
        if self.wanted:
            self.tested, self.rows = HeldOutRows.select(part.data, part.test)

    def at(self, m: int, scores: Floats) -> bool:
        """After m iterations; whether to stop."""
        if m % self.every == 0 or m == self.last:
            score = scores[:, self.rows].T
            for metric in self.metrics:
                if m not in self.found[metric.name]:
                    self.found[metric.name][m] = metric.value(self.tested, score)
        return self.halt is not None and self.halt()


def _distinct(folds: Sequence[Fold]) -> float:
    """Rows that are tested at all / rows that a fold tests."""
    tested = np.zeros(len(folds[0].of_training), bool)
    size = 0
    for fold in folds:
        marks = fold.of_test > 0
        tested |= marks
        size += int(marks.sum())
    return int(tested.sum()) * len(folds) / size


def _padded(risk: Floats, n_iter: int, model: Model) -> Floats:
    """(n_iter + 1,) the risk of a path that may have ended before."""
    last = np.inf if model.stopped == StopReason.diverged else risk[-1]
    return np.append(risk, np.full(n_iter + 1 - len(risk), last))


def _on_grid(found: dict[int, float], grid: Any, model: Model, metric: Metric) -> list[float]:
    worst = -np.inf if metric.greater_is_better else np.inf
    last = worst if model.stopped == StopReason.diverged else found[model.n_iter]
    return [found.get(m, last) if m <= model.n_iter else last for m in grid.tolist()]
