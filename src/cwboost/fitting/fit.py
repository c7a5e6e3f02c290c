"""fit(...) -> Model, and extend: the order of the work.

Check the arguments, read the rows, hold out validation rows, plan the terms, bin the rows, boost,
make the model. Everything is checked before any work begins.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from cwboost._utils.cores import threads_for
from cwboost._utils.memory import garbage_collection_paused
from cwboost._utils.text import quote
from cwboost._utils.unknown_arguments import explain_unknown
from cwboost._utils.user_warnings import warn_user
from cwboost.binning.rules import as_bins
from cwboost.losses import as_loss
from cwboost.model.model import Model
from cwboost.model.path_checks import check_has_path
from cwboost.optimizers import Optimizer
from cwboost.progress import as_progress

from .callbacks import RunContext
from .checkpoint import Checkpoint
from .early_stopping import EarlyStopping
from .input_data import FitInput
from .interactions import check_interactions, check_pairs
from .options import FitOptions, PolishWeight, as_seed, check_counts, check_min_rows
from .preparation import read_formula, read_rows, reading
from .repeat import pose_again
from .stages import boost_stages, last_stage
from .starting_point import StartingPoint


@explain_unknown
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
    patience: Any = 50,
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
    polish: str | bool | PolishWeight | None = None,
    tolerance: float = 0.0,
    metric: Any = None,
) -> Model:
    """Fit a sum of terms by componentwise gradient boosting.

    Parameters
    ----------
    table : data frame, 2-d array (columns x0, x1, ...), mapping of columns or Dataset
    y : array, the name of a column, or a formula such as "y ~ s(age, df=4) + job"
        May be omitted if a Dataset knows it.
    learners : list of learners, or "smooth", "auto", "linear", "step", "components", optional
        The default, "smooth", is a Spline for every numeric column and a Category for every other
        column. "auto" gives a numeric column a Spline and a Step; with 3 to 10 distinct values
        only a Step, with two a Linear. If more than half of the rows have the same value, the
        column gets a Step, and with 21 to 128 distinct values also a Step of kind "spikes". An
        Ellipsis in the list, `[Step("age"), ...]`, stands for the defaults of all other columns.
        Not allowed with a formula.
    loss : str or loss
        "squared", "absolute", "quantile", "huber", "binomial", "multinomial", "poisson", "gamma",
        "tweedie", an instance such as `Quantile(0.9)`, or an object with the vectorised methods
        `loss(y, score)`, `gradient(y, score)` and `start(y, weights)`.
    optimizer : Plain, Accelerated, Hybrid or another Optimizer
        An instance, a class or a name such as "accelerated". The default is `Plain()`.
    n_iter : int
        Number of iterations, including those that Hybrid discards when it rewinds. With the squared
        loss the fit stops earlier if only rounding errors are left to gain.
    bins : "auto", "sqrt", "root4", "exact", int or Bins
        How numbers are merged into bins for the fit. Predictions use the exact numbers.
    weights, offset, exposure : array or name of a column, optional
        Row weights (a row of weight zero counts as absent), a fixed part of the score, and the
        exposure, which adds its logarithm to the offset.
    start : float or (q,), optional
        The constant score from which the fit starts. By default the constant of lowest risk.
    scale : "auto" or float
        A factor of every step. "auto" makes a learning rate mean the same for all losses and in all
        units of y (4 for "binomial", 2 for "multinomial"); 1 gives the steps of other packages.
    validation : fraction, mask or weights over the rows, or (table, y[, weights, offset])
        Validation rows. The iterate with the lowest validation risk is returned, or the best one
        by `metric`.
    patience : int, Patience, Stagnation, a list of them, or None
        Early stopping: the number of iterations without a new best value on the validation rows, or
        rules, of which the first one that applies ends the fit. None: never.
    callback : callable(iteration, risk, validation_risk, choice), optional
        Called after every iteration with those of these four arguments that it accepts. The fit
        stops if it returns true.
    time_limit : float, optional
        Seconds after which the fit stops.
    random_state : int or numpy Generator
        Seed for a validation fraction.
    n_threads : int, optional
        By default all cores that this process may use (its affinity, the quota of its container)
        for 20,000 rows or more, otherwise one. The result does not depend on it.
    interactions : int, "auto", "all" or list of pairs of names, optional
        Pairs of columns whose interactions are fitted: the number of pairs, the pairs themselves,
        "all" for as many as gain more than noise does, or "auto" for the fewest of these whose
        validation risk is within one standard error of the lowest (the standard error of the
        difference between the two). The fit has stages of `n_iter` iterations: main effects, then
        main effects and pairs, `Tensor(a, b, orthogonal=True)`, together; "auto" then continues
        from the main effects again, with the pairs that stay, and keeps main effects alone if pairs
        do not lower the validation risk or, with `metric`, do not improve the first one. Without
        validation rows "auto" is "all". All pairs are ranked by their gain on the residuals of the
        main effects; `model.interactions` has the ranking and says how the pairs were chosen.
    bags : int or masks of shape (bags, n), optional
        Return the average of this many fits, each to a random part of the rows, with the other
        rows as validation rows. The average is again one model with one effect per term.
        `validation` is then the fraction that every bag leaves out, the same of every class
        (default 0.2). Masks mark the rows of each bag, for instance whole groups.
    search : "auto", "full", "certified" or "row-free"
        How the best term of an iteration is found. The result is the same. "full" evaluates every
        term, "certified" only those that bounds do not exclude, "row-free" (squared loss) works on
        cross-products of terms instead of rows. "auto" estimates which is cheapest.
    progress : None, bool or Progress
        Whether to show a progress bar with risk, rate and remaining time. None: in a terminal or a
        notebook, if the fit takes more than two seconds. A Progress of other work shows this fit as
        a part of that work.
    checkpoint : path, optional
        A file for the path of the fit, written about every ten seconds and at the end. If the file
        exists, the fit continues from it and gives exactly the model of an uninterrupted fit. The
        file of another fit is an error. Not with bags.
    min_rows_per_bin : int, optional
        Bins with fewer rows are merged with their neighbours before the fit, and rare levels count
        as unseen, so that no sum over a bin discloses a few rows. Not with pairs or bags.
    sites : name of a column, optional
        The site of every row. A bin then needs `min_rows_per_bin` rows in every site that has rows
        in it, as on the workers of a cluster. The column is not a feature.
    polish : None, "auto", "repeat" or True
        Refit the chosen terms after boosting, all together and on all rows, validation rows
        included, with one smoothing parameter per term that REML chooses (docs/polish.md). "auto"
        skips this where it is impossible, would take longer than boosting and a second, or is not
        better on held-out rows; `model.polish` says why. The iterations of boosting are then
        repeated on all rows; "repeat" does only that. True raises where polish is impossible.
    tolerance : float
        With patience: a validation risk counts as lower only if it is lower by this share of what
        the fit has gained so far. Polish needs no more than the right terms, so a fit that is to be
        polished may stop early. If polish is then skipped, boosting goes on without tolerance. With
        `interactions` it is for the last stage, after the pairs were chosen.
    metric : str, function, scorer, or a list or dict of them, optional
        Metrics of the validation rows, such as "auc", that are computed after every iteration and
        recorded in `model.validation_metrics`. The first one replaces the validation risk: it
        decides which iterate is returned, when patience ends the fit and when Hybrid switches. The
        names are those of `cwboost.cv`; a function takes y, the prediction and, if weights matter,
        `sample_weight`.

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
    check_counts(n_iter, time_limit, n_threads)
    check_min_rows(min_rows_per_bin, sites)
    options = FitOptions.checked(
        optimizer, n_iter, patience, start, scale, time_limit, search, polish, tolerance,
        metric,
    )  # fmt: skip
    roles = {"offset": offset, "exposure": exposure, "rule": as_bins(bins)}
    seed, interactions = as_seed(random_state), check_interactions(interactions)
    if bags is not None:
        from .bags import check_bags, draw_bags, fit_bags

        check_bags(bags, validation, callback, checkpoint, min_rows_per_bin)
        if polish == "repeat":
            raise ValueError(
                "polish: 'repeat' is not for bags, each of which holds out other rows; use 'auto'"
            )
        fit_input, learners = read_formula(FitInput.of(table, y, weights, **roles), learners)
        with reading(table, bar):
            checked = read_rows(fit_input, learners, as_loss(loss), 0)
            check_pairs(interactions, checked.data.table, fit_input.columns)
            loss_of, classes = checked.data.loss, checked.data.classes
            options = options.resolved(loss_of, classes, True)  # every bag leaves some rows out
            prepared = checked.bin(threads_for(n_threads, len(checked.data.y)))
        draw = draw_bags(bags, validation, prepared.data, seed)
        return fit_bags(prepared, draw, options, interactions, n_threads, bar)
    context = RunContext(
        callback, bar, None if checkpoint is None else Checkpoint(checkpoint), began
    )
    roles |= {"validation": validation, "min_rows": min_rows_per_bin, "sites": sites}
    fit_input, learners = read_formula(FitInput.of(table, y, weights, **roles), learners)
    with garbage_collection_paused(), reading(table, bar):
        checked = read_rows(fit_input, learners, as_loss(loss), seed)
        data = checked.data
        check_pairs(interactions, data.table, fit_input.columns)
        options = options.resolved(data.loss, data.classes, data.has_validation)
        begin = StartingPoint.of(data, data.split, start, scale)
        prepared = checked.bin(threads_for(n_threads, len(data.y)))
    model, problem = boost_stages(prepared, begin, options, interactions, context)
    warn_of_no_improvement(model)
    return last_stage(model, problem, options, context)


def warn_of_no_improvement(model: Model) -> None:
    """Warn if the metric that decides has its best value before the first iteration."""
    if model.settings.metrics and model.best_iteration == 0 < model.n_iter:
        warn_user(
            f"metric {quote(model.settings.metrics[0].name)}: no iteration improved it, so the "
            "model has no terms; check the metric and whether greater values are better"
        )


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
    asked: tuple[Any, Any] | None = None,
) -> Model:
    """See Model.extend. `asked` are the arguments `patience` and `metric`, if they are at hand."""
    check_has_path(model, "extend")
    context = RunContext(callback, as_progress(progress))
    check_counts(n, time_limit, n_threads, n_iter_name="n")
    fit_input = FitInput.of(
        table, y, weights, offset=offset, exposure=exposure, validation=validation
    )
    polish = None if model.polish is None else model.polish.argument
    model = replace(model, bands=None).boosted
    if asked is None:
        stopping = EarlyStopping.again(model)
    else:
        stopping = EarlyStopping.of(*asked, model.loss, model.classes)
        stopping.check_continues(model)
        model = replace(model, settings=replace(model.settings, patience=stopping.rules))
    problem = pose_again(model, fit_input, "extend", n_threads)
    options = FitOptions(
        model.optimizer, model.n_iter + n, stopping, time_limit=time_limit, polish=polish
    )
    extended = problem.boost(model, problem.history(model), options, context)
    return last_stage(extended, problem, options, context)
