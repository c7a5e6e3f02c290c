"""Cross-validation, cb.cv: the risk and the metrics of held-out rows along the path of a fit, over
several folds, and the number of iterations that is best.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cwboost._utils.checks import check_flag, is_flag, is_number, is_whole
from cwboost._utils.cores import threads_for
from cwboost._utils.text import quote
from cwboost._utils.unknown_arguments import explain_unknown
from cwboost._utils.user_warnings import warn_user
from cwboost.fitting.options import as_seed, check_counts, check_polish
from cwboost.fitting.preparation import read_all, reading
from cwboost.metrics.metric import as_metrics
from cwboost.optimizers import Optimizer, Plain, as_optimizer
from cwboost.progress import as_progress

from .cv_result import CV
from .fold_fits import FoldFits, FoldPolisher, FoldRows
from .folds import Fold, as_folds, validation_rows

MAX_EXTENSION = 8  # paths are continued to at most this multiple of n_iter
VALIDATION = 0.2  # default share of a fold's training rows that are held out to find a switch
MAX_EVALUATIONS = 1_000_000  # rows times iterations of a fold at which a metric is computed
MIN_POINTS = 50  # iterations at which it is computed at any rate


@explain_unknown
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
    check_counts(n_iter, None, n_threads)
    n_iter = int(n_iter)  # NumPy's small integers overflow
    check_polish(polish)
    for name, flag in {"keep_models": keep_models, "one_se": one_se}.items():
        check_flag(name, flag)
    most = _max_iterations(extend, n_iter)
    if every is not None and not (is_whole(every) and every > 0):
        raise ValueError(f"every must be a whole number > 0, got {quote(every)}")
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
    parts = [FoldRows(fold, data, marks) for fold, marks in zip(fold_list, held, strict=True)]
    threads = threads_for(n_threads)
    step = _step(every, n_iter, fold_list)
    with reading(table, bar):
        binned = checked.bin(threads)
    fits = FoldFits(binned, parts, optimizer, metrics, step, start, scale)
    try:
        result, paths = fits.extend_to_best(n_iter, most, threads, bar)
        m = result.best_iteration_1se if one_se else result.best_iteration
        models = [path.model.at(min(m, path.model.n_iter)) for path in paths]
        if polish:
            polisher = FoldPolisher(fits, m, required=polish is True, keep=keep_models)
            polished, models = polisher.polish(models, threads, bar)
            result = replace(result, polished=polished)
    except KeyboardInterrupt:
        raise KeyboardInterrupt("cv: interrupted; the results of all folds are lost") from None
    result = replace(result, models=tuple(models) if keep_models else None)
    _warn_at_edge(result, extension_requested=extend is not True)
    return result


def _max_iterations(extend: Any, n_iter: int) -> int:
    """Return the largest number of iterations to run."""
    if is_flag(extend):
        return MAX_EXTENSION * n_iter if extend else n_iter
    if not is_whole(extend) or extend < n_iter:
        raise ValueError(
            f"extend: expected True, False or a largest number of iterations >= n_iter = {n_iter}; "
            f"got {quote(extend)}"
        )
    return int(extend)


def _share(validation: float | None) -> float:
    share = VALIDATION if validation is None else validation
    if not (is_number(share) and 0.0 < share < 1.0):
        raise ValueError(f"validation: expected a share between 0 and 1, got {quote(share)}")
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
    warn_user(message)
