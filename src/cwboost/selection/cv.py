"""Cross-validation, cb.cv: the risk and the metrics of held-out rows along the path of a fit, over
several folds, and the number of iterations that is best.

The rows are binned once; a fold is a vector of weights on them. Does not know how the result is
drawn (see plotting/cv.py) or written as text (see cv_text.py).
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cwboost._core import ALL_PART, TRAINING_PART
from cwboost._utils.checks import is_number, is_whole, threads_for
from cwboost._utils.text import count
from cwboost.fitting.callbacks import Interrupted
from cwboost.fitting.input_data import FitData, Split
from cwboost.fitting.options import as_seed, check_counts, check_polish
from cwboost.fitting.parallel_fits import Halt, run_all
from cwboost.fitting.polish.polish import polished_model
from cwboost.fitting.preparation import read_all, reading
from cwboost.fitting.prepared import PreparedRows
from cwboost.fitting.problem import FitProblem
from cwboost.frames.columns import Floats
from cwboost.frames.result_table import ResultTable
from cwboost.losses import Loss
from cwboost.model.model import Model
from cwboost.model.path import FINAL_REASONS, StopReason
from cwboost.optimizers import Optimizer, Plain, as_optimizer
from cwboost.progress import Progress, as_progress

from .cv_polish import PolishedFold, PolishedFolds, summarize_folds
from .folds import Fold, as_folds, validation_rows
from .metrics import RISK, HeldOutRows, Metric, as_metrics, first_best

EDGE = 0.05  # a best iteration in this last share of the path suggests that more may be better
MIN_GAIN = 1e-4  # share of the total gain below which the last iterations do not count as better
MAX_EXTENSION = 8  # paths are continued to at most this multiple of n_iter
VALIDATION = 0.2  # default share of a fold's training rows that are held out to find a switch
MAX_EVALUATIONS = 1_000_000  # rows times iterations of a fold at which a metric is computed
MIN_POINTS = 50  # iterations at which it is computed at any rate


@dataclass(frozen=True, eq=False)
class CV:
    """The result of `cb.cv`: risks and metrics of the test rows of each fold along the path.

    Attributes
    ----------
    risk, training_risk : array of shape (folds, n_iter + 1)
        Mean loss of the test rows and of the training rows after 0, 1, ... iterations.
    metrics : dict of arrays of shape (folds, len(grid))
        Every other metric after the iterations `grid`.
    grid : array of iterations
    chosen_by : str
        "risk", or the metric that decides which iteration is best.
    greater_is_better : bool
        Whether greater values of that metric are better.
    loss, optimizer
        The loss and the optimizer of the fits.
    asked : int
        The argument `n_iter`; the number of iterations that were run is `n_iter`.
    ended : bool
        Whether no path can go on, because nothing is left to gain or it diverged.
    distinct : float
        The number of folds of this size that test every row once: the number of folds, unless
        repeated folds or random draws test rows several times.
    models : tuple of Model, or None
        The model of each fold at the best iteration, with `keep_models=True`.
    polished : PolishedFolds or None
        Risks and metrics of the folds after polish, with `polish=`.

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
    polished: PolishedFolds | None = None

    @property
    def n_folds(self) -> int:
        return len(self.risk)

    @property
    def n_iter(self) -> int:
        """The number of iterations that were run."""
        return int(self.risk.shape[1]) - 1

    @property
    def values(self) -> Floats:
        """(folds, len(iterations)) values of the risk or metric that decides."""
        return self.risk if self.chosen_by == RISK else self.metrics[self.chosen_by]

    @property
    def iterations(self) -> NDArray[np.int64]:
        """The iterations of `values`, `mean` and `standard_error`."""
        return np.arange(self.n_iter + 1) if self.chosen_by == RISK else self.grid

    @property
    def mean(self) -> Floats:
        """Mean of `values` over the folds."""
        return np.asarray(self.values.mean(axis=0))

    @property
    def standard_error(self) -> Floats:
        """Standard error of `mean`: standard deviation over the folds / sqrt(distinct).

        It is NaN for one fold. More draws of the same rows do not make it smaller. Folds share
        training rows, so it is a guide rather than the basis of an exact interval.
        """
        return self._error(self.values)

    def _error(self, values: Floats) -> Floats:
        if self.n_folds == 1:
            return np.full(values.shape[1], np.nan)
        with np.errstate(invalid="ignore"):  # a path that diverged
            return np.asarray(values.std(axis=0, ddof=1) / np.sqrt(self.distinct))

    @property
    def best_iteration(self) -> int:
        """The number of iterations with the best mean."""
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
        """Whether more iterations may be better.

        That is so if the best iteration is among the last 5% and improves on the earlier ones by
        more than 1/10,000 of the total gain.
        """
        before = self.mean[self.iterations <= (1.0 - EDGE) * self.n_iter]
        if self.ended or len(before) > self._best:
            return False
        gain = abs(self.best - before[first_best(before, self.greater_is_better)])
        return bool(gain > MIN_GAIN * abs(self.best - self.mean[0]))

    def table(self) -> ResultTable:
        """Return means and standard errors as columns, one row per iteration.

        A metric is NaN where it was not computed.
        """
        out = ResultTable(
            iteration=np.arange(self.n_iter + 1),
            risk=self.risk.mean(axis=0),
            risk_se=self._error(self.risk),
            training_risk=self.training_risk.mean(axis=0),
        )
        for name, values in self.metrics.items():
            for column, on_grid in (
                (name, values.mean(axis=0)),
                (f"{name}_se", self._error(values)),
            ):
                out[column] = np.full(self.n_iter + 1, np.nan)
                out[column][self.grid] = on_grid
        return out

    def summary(self) -> str:
        """Return the best iterations and their risks and metrics as text."""
        from .cv_text import summary

        return summary(self)

    def plot(self, **options: Any) -> Any:
        """Draw the folds, their mean and both choices (extra `plot`); see `CVDisplay`.

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
            f"<cwboost.CV: {count(self.n_folds, 'fold')}, {count(self.n_iter, 'iteration')}; best "
            f"{self.chosen_by} {self.best:.5g} after {self.best_iteration}, within one standard "
            f"error after {self.best_iteration_1se}>"
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
    polish: str | bool | None = None,
    one_se: bool = False,
) -> CV:
    """Choose the number of iterations by cross-validation.

    For every fold a model is fitted to the training rows and evaluated on the test rows after every
    iteration. Columns are binned once, on all rows. Start, scale and smoothing (the lambda that
    gives the requested df) are computed for each fold.

    Parameters
    ----------
    table, y, learners, loss, optimizer, n_iter, bins, weights, offset, exposure, start, scale
        See `cb.fit`.
    folds : int, Folds, splitter of scikit-learn, list of (training, test) or (n, folds) weights
        A number means shuffled k-fold, stratified by class. `cb.Folds` offers repeated k-fold,
        bootstrap, subsampling and time windows. Pairs contain row numbers or masks; weights are
        factors of the row weights that are zero for test rows.
    groups : array or name of a column, optional
        Rows of a group stay together.
    metric : name, function, scorer, or a list or dict of them, optional
        "risk" (the mean loss, default), "auc", "log_loss", "accuracy", "brier", "rmse", "mae",
        "r2", the name of a scikit-learn scorer or of a metric that was registered, or a function of
        y, prediction and (if there are weights) `sample_weight`. Predictions are numbers, the
        probability of the second of two classes, or (n, classes) probabilities. The first metric
        decides.
    extend : bool or int
        If the best iteration is among the last 5% (`CV.at_edge`), double the number of iterations:
        True up to 8 times `n_iter` and with a warning, a number up to that many iterations. False
        only warns.
    random_state : int, RandomState, Generator or None
        For folds drawn at random.
    n_threads : int, optional
        Folds are fitted in parallel; the result does not depend on the number of threads.
    validation : float, optional
        For optimizers that switch, such as Hybrid: the share of each fold's training rows (or
        groups) that is held out to find the switch (default 0.2); for folds in time the last ones.
        Test rows are never used for it.
    greater_is_better : bool, optional
        For a metric that is a function whose name does not tell.
    every : int, optional
        Compute metrics after every `every` iterations; by default after each, unless there are many
        rows.
    keep_models : bool
        Keep the model of each fold.
    progress : None, bool or Progress
        See `cb.fit`.
    polish : None, "auto" or True
        Polish the model of every fold after the best iteration (see `cb.polish`) and report the
        risk and the metrics of its test rows in `CV.polished`. "auto" skips it where it is
        impossible or too slow, True raises where it is impossible.
    one_se : bool
        Polish, and keep models, after `best_iteration_1se` instead of `best_iteration`.

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
    check_polish(polish)
    most = _max_iterations(extend, n_iter)
    if every is not None and not (is_whole(every) and every > 0):
        raise ValueError(f"every must be a whole number > 0, got {every!r}")
    apart = [groups] if isinstance(groups, str) else []
    with reading(table, bar):
        checked = read_all(table, y, learners, loss, bins, weights, offset, exposure, apart)
    data, seed = checked.data, as_seed(random_state)
    metrics = as_metrics(metric, greater_is_better, data.loss, data.classes)
    fold_list = as_folds(folds, data, groups, seed)
    held: list[Any] = [None] * len(fold_list)
    if optimizer.needs_validation:
        held = validation_rows(fold_list, folds, data, _share(validation), groups, seed)
    elif validation is not None:
        raise ValueError(
            f"validation: {type(optimizer).__name__} uses no validation rows within a fold; "
            "it applies only to optimizers that switch, such as cb.Hybrid()"
        )
    parts = [_FoldRows(fold, data, marks) for fold, marks in zip(fold_list, held, strict=True)]
    threads = threads_for(n_threads)
    step = _step(every, n_iter, fold_list)
    with reading(table, bar):
        binned = checked.bin(threads)
    fits = FoldFits(binned, parts, optimizer, metrics, step, start, scale)
    try:
        result, paths = fits.extend_to_best(int(n_iter), most, threads, bar)
        m = result.best_iteration_1se if one_se else result.best_iteration
        models = [path.model.at(min(m, path.model.n_iter)) for path in paths]
        if polish:
            polisher = FoldPolisher(fits, m, required=polish is True, keep=keep_models)
            polished, models = polisher.polish(models, threads, bar)
            result = replace(result, polished=polished)
    except Interrupted:
        raise KeyboardInterrupt("cv: interrupted; the results of all folds are lost") from None
    result = replace(result, models=tuple(models) if keep_models else None)
    _warn_at_edge(result, extension_requested=extend is not True)
    return result


def _max_iterations(extend: Any, n_iter: int) -> int:
    """Return the largest number of iterations to run."""
    if isinstance(extend, bool | np.bool_):
        return MAX_EXTENSION * int(n_iter) if extend else int(n_iter)
    if not is_whole(extend) or extend < n_iter:
        raise ValueError(
            f"extend: expected True, False or a largest number of iterations >= n_iter = {n_iter}; "
            f"got {extend!r}"
        )
    return int(extend)


def _share(validation: float | None) -> float:
    share = VALIDATION if validation is None else validation
    if not (is_number(share) and 0.0 < share < 1.0):
        raise ValueError(f"validation: expected a share between 0 and 1, got {share!r}")
    return float(share)


def _step(every: int | None, n_iter: int, folds: Sequence[Fold]) -> int:
    """Return the number of iterations between two computations of the metrics."""
    if every is not None:
        return int(every)
    n_test = max(int(np.count_nonzero(fold.test_counts)) for fold in folds)
    wanted = -(-n_test * (n_iter + 1) // MAX_EVALUATIONS)
    return max(1, min(wanted, n_iter // MIN_POINTS))


def _warn_at_edge(result: CV, extension_requested: bool) -> None:
    """Warn if more iterations may be better, or if they were run although the user did not ask."""
    best, last = result.best_iteration, result.n_iter
    if result.at_edge:
        message = (
            f"cv: the best iteration, {best}, is among the last of {last}; raise n_iter or the rate"
        )
    elif last > result.asked and not extension_requested:
        message = (
            f"cv: the best of n_iter={result.asked} iterations was among the last, so the folds "
            f"were continued to {last}; the best iteration is now {best}"
        )
    else:
        return
    warnings.warn(message, UserWarning, stacklevel=3)


# --- the fits of the folds ------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _FoldRows:
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
    parts: Sequence[_FoldRows]
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

    def pose(self, part: _FoldRows) -> FitProblem[PreparedRows]:
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
        part: _FoldRows,
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
        part: _FoldRows,
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
