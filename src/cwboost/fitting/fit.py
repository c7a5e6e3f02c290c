"""fit(...) -> Model, and extend: the order of the work.

Read and check the data, hold out validation rows, plan the terms, bin the rows, set up the systems,
boost, make the model. Everything is checked before any work.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cwboost import _core
from cwboost._utils.checks import threads_for
from cwboost._utils.memory import garbage_collection_paused
from cwboost.binning.rules import as_bins
from cwboost.losses import as_loss
from cwboost.model.model import Model
from cwboost.optimizers import Optimizer
from cwboost.progress import Progress, as_progress
from cwboost.terms.formula import is_formula

from .callbacks import Interrupted
from .checkpoint import Checkpoint
from .input_data import FitInput
from .interactions import (
    Pairs,
    check_interactions,
    check_pairs,
)
from .options import FitOptions, as_seed, check_counts, check_min_rows
from .preparation import (
    bin_rows,
    prepare,
    read_formula,
    read_rows,
    reading,
    settings_of,
    with_pairs,
)
from .prepared import PreparedRows
from .problem import FitProblem, StartingPoint
from .repeat import pose_again


def fit(
    table: Any,
    y: Any = None,
    learners: Any = None,
    loss: Any = "squared",
    optimizer: Optimizer | None = None,
    n_iter: int = 200,
    bins: Any = "auto",
    weights: Any = None,
    offset: Any = None,
    start: Any = None,
    scale: Any = "auto",
    validation: Any = None,
    patience: int | None = 50,
    callback: Callable[..., Any] | None = None,
    time_limit: float | None = None,
    random_state: Any = 0,
    n_threads: int | None = None,
    *,
    exposure: Any = None,
    interactions: Any = None,
    bags: Any = None,
    search: str = "auto",
    progress: Any = None,
    checkpoint: Any = None,
    min_rows_per_bin: int | None = None,
    sites: str | None = None,
) -> Model:
    """Fits a sum of terms by componentwise gradient boosting.

    Parameters
    ----------
    table : data frame, 2-d array (columns x0, x1, ...), mapping of columns or Dataset
    y : array, the name of a column, or a formula such as "y ~ s(age, df=4) + job"
        A Dataset may know it.
    learners : list of learners, or "smooth", "auto", "linear", "step", "components", optional
        By default ("smooth") a Spline for every numeric column and a Category for every other;
        "auto" has a Step beside the Spline. An Ellipsis in the list, `[Step("age"), ...]`, stands
        for the default of all other columns. Not beside a formula, which has them.
    loss : str or loss
        "squared", "absolute", "quantile", "huber", "binomial", "multinomial", "poisson", "gamma",
        "tweedie", an instance such as `Quantile(0.9)`, or an object with the vectorised methods
        `loss(y, score)`, `gradient(y, score)` and `start(y, weights)`.
    optimizer : Plain, Accelerated or Hybrid
    n_iter : int
        Iterations, those that a rewind leaves behind included. With the squared loss the fit ends
        sooner if only rounding is left to gain.
    bins : "auto", "sqrt", "root4", "exact", int or Bins
        How numbers are merged for the fit; prediction never merges.
    weights, offset, exposure : array or name of a column, optional
        Weights of rows (zero: absent); fixed part of the score; exposure is exp(offset).
    start : float or (q,), optional
        Instead of the constant of least risk.
    scale : "auto" or float
        Factor of every step; "auto" makes the rate mean the same in all units of y.
    validation : fraction, mask or weights over the rows, or (table, y[, weights, offset])
        Rows held out to watch the risk; the best iterate is returned.
    patience : int or None
        Stop after so many iterations without a new best validation risk; None: never.
    callback : callable(iteration, risk, validation_risk, choice), optional
        Called after every iteration with what it takes of these; returns true to stop the fit.
    time_limit : float, optional
        Seconds after which the fit stops.
    random_state : int or numpy Generator
        For a validation fraction.
    n_threads : int, optional
        The result does not depend on it.
    interactions : int, "auto" or list of pairs of names, optional
        Pairs of columns that act together: so many, or these, or as many as seem to be more than
        noise. The fit then has two stages of `n_iter` iterations: main effects first, then
        main effects and pairs, `Tensor(a, b, orthogonal=True)`, together. All pairs are ranked by
        their gain on the residuals of the first stage; `model.interactions` has the ranking.
    bags : int or masks of shape (bags, n), optional
        The average of so many fits, each to a random share of the rows and watched by the rest:
        again one model, with one effect per term. `validation` is then the share that every bag
        leaves out, of every class alike (0.2 if it is not given). Masks mark the rows of each bag,
        for instance whole groups.
    search : "auto", "full", "certified" or "row-free"
        How the best term of an iteration is found; all find the same. "full" evaluates every term,
        "certified" only those that bounds do not exclude, "row-free" (squared loss) works on
        cross-products of terms instead of rows. "auto" estimates which costs less.
    progress : None, bool or Progress
        Whether to show a bar with risk, rate and time left. None: if the fit takes more than two
        seconds, in a terminal or a notebook. A Progress of work that this fit is a part of shows
        both.
    checkpoint : path, optional
        A file that has the path of the fit so far, written every ten seconds or so and at the end.
        If it is there the fit goes on from it, to exactly the model that it would have been; a file
        of another fit is an error. Not with bags.
    min_rows_per_bin : int, optional
        Bins with fewer rows are merged with their neighbours before the fit, and rare levels count
        as unseen, so that no sum over a bin tells of a few rows. Not with pairs or bags.
    sites : name of a column, optional
        Where rows are from: a bin then needs so many rows in every place that has some of it, as
        on the workers of a cluster. The column is no feature.

    Returns
    -------
    Model

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> rng = np.random.default_rng(1)
    >>> table = {"x": rng.uniform(size=300), "noise": rng.normal(size=300)}
    >>> model = cb.fit(table, np.sin(6 * table["x"]), n_iter=100)
    >>> set(model.choices)
    {'x'}

    >>> y, file = np.sin(6 * table["x"]), "fit.checkpoint"
    >>> part = cb.fit(table, y, n_iter=100, time_limit=1e-9, checkpoint=file)
    >>> part.n_iter
    1
    >>> cb.fit(table, y, n_iter=100, checkpoint=file).choices == model.choices
    True
    """
    began, bar = time.perf_counter(), as_progress(progress)
    check_counts(n_iter, patience, time_limit, n_threads)
    how = FitOptions.checked(optimizer, n_iter, patience, start, scale, time_limit, search)
    rule = as_bins(bins)
    seed, wanted = as_seed(random_state), check_interactions(interactions)
    if bags is not None:
        from .bags import check_bags, draw_bags, fit_bags

        check_bags(bags, validation, callback, checkpoint, min_rows_per_bin)
        with reading(table, bar):
            binned = prepare(table, y, learners, loss, bins, weights, offset, exposure, n_threads)
        check_pairs(
            wanted, binned.data.table, FitInput(table, y, weights, offset, exposure).columns
        )
        draw = draw_bags(bags, validation, binned.data, seed)
        return fit_bags(binned, draw, how, wanted, n_threads, bar)
    kept = None if checkpoint is None else Checkpoint(checkpoint)
    check_min_rows(min_rows_per_bin, sites)
    given = FitInput(
        table, y, weights, offset, exposure, validation, (), min_rows_per_bin, sites, rule
    )
    if is_formula(y):
        given, learners = read_formula(given, learners)
    with garbage_collection_paused(), reading(table, bar):
        data, chosen = read_rows(given, learners, as_loss(loss), seed)
        check_pairs(wanted, data.table, given.columns)
        how.check(data.loss, data.split)
        begin = StartingPoint.of(data, data.split, start, scale)
        settings = settings_of(given, data, rule, seed)
        binned = bin_rows(data, chosen, settings, threads_for(n_threads, len(data.y)))
    return run_stages(binned, begin, how, wanted, callback, bar, kept, began)


def run_stages(
    binned: PreparedRows,
    begin: StartingPoint,
    how: FitOptions,
    wanted: int | str | Pairs | None,
    callback: Callable[..., Any] | None,
    bar: Progress,
    kept: Checkpoint | None,
    began: float,
) -> Model:
    """The fit to binned rows: main effects, and if pairs are wanted both together after them."""
    optimizer, n_iter, patience, *_, time_limit, search = how
    split, history = binned.data.split, _core.Path()
    with garbage_collection_paused():
        problem = FitProblem.make(binned, split, optimizer, begin, began)
        model = problem.template(patience)
    if wanted is not None:
        half = None if time_limit is None else time_limit / 2
        main = problem.boost(model, history, n_iter, callback, half, bar, search, kept)
        with garbage_collection_paused():
            try:
                binned, ranking = with_pairs(binned, main, wanted, bar)
            except KeyboardInterrupt:
                raise Interrupted(main) from None
            if len(binned.plans) == len(main.terms):
                return replace(main, interactions=ranking)
            problem = FitProblem.make(binned, split, optimizer, begin, began)
            model = replace(problem.template(patience), interactions=ranking)
        model, history = problem.going_on(model, main)
        n_iter += model.n_iter
    return problem.boost(model, history, n_iter, callback, time_limit, bar, search, kept)


def extend(
    model: Model,
    n: int,
    table: Any,
    y: Any,
    *,
    weights: Any,
    offset: Any,
    exposure: Any,
    validation: Any,
    callback: Callable[..., Any] | None,
    time_limit: float | None,
    n_threads: int | None,
    progress: Any,
) -> Model:
    """See Model.extend."""
    bar = as_progress(progress)
    check_counts(n, None, time_limit, n_threads)
    given = FitInput(table, y, weights, offset, exposure, validation)
    problem = pose_again(model, given, "extend", n_threads)
    history = problem.history(model)
    return problem.boost(model, history, model.n_iter + n, callback, time_limit, bar)
