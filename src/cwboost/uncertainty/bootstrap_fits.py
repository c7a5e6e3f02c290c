"""Bootstrap fits, Model.with_bands: the model fitted again to random draws of the rows, which shows
how uncertain its effects are. The bands are computed from these fits in explain/bands.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from cwboost._utils.checks import check_whole, fits_single_precision, is_number
from cwboost._utils.cores import check_threads, threads_for
from cwboost._utils.text import quote
from cwboost.fitting.early_stopping import EarlyStopping
from cwboost.fitting.input_data import FitData, FitInput, Split
from cwboost.fitting.options import as_seed
from cwboost.fitting.parallel_fits import Halt, run_all
from cwboost.fitting.polish.polish import polish_like
from cwboost.fitting.prepared import PreparedRows
from cwboost.fitting.problem import FitProblem
from cwboost.fitting.repeat import bin_for_refits
from cwboost.frames.columns import Floats
from cwboost.model.model import Model
from cwboost.model.path_checks import check_not_edited
from cwboost.model.records import Bands
from cwboost.optimizers import Optimizer, Plain
from cwboost.progress import Progress, as_progress
from cwboost.selection.folds import draw_with_replacement

LONGER = 8.0  # times the iterations of a boosted model, so that the bias is small
MIN_DRAWS = 10  # for a standard deviation
MAX_DRAWS = 1_000_000
MAX_NESTED_ITER = 2000  # iterations in which a draw is searched for its best one
PATIENCE = 50  # iterations without a better one that end the search


class BootstrapFit(NamedTuple):
    """The part of a bootstrap fit that is kept.

    Residuals are too small for rows in the draw and too large for the others. Let df be a share d
    of the number of rows. A draw contains 0.632 of the rows, so the ratio of mean squared residuals
    is 1 + 3.16 d to first order, while the variance between draws is too small by the factor 1 + d.
    The standard deviation is therefore multiplied by about the sixth root of the ratio.
    """

    n_iter: int
    coef: dict[str, Floats]  # coefficients of the chosen terms
    ratio: float  # mean squared residual of rows outside the draw / of rows inside


def with_bands(
    model: Model,
    table: Any,
    y: Any,
    *,
    n_boot: int,
    longer: float | None,
    nested: bool,
    weights: Any,
    offset: Any,
    exposure: Any,
    random_state: Any,
    n_threads: int | None,
    progress: Any,
) -> Model:
    """See Model.with_bands."""
    bar, seed = as_progress(progress), as_seed(random_state)
    _check(n_boot, longer, n_threads)
    check_not_edited(model, "with_bands")
    if not all(fits_single_precision(term.beta) for term in model.terms.values()):
        raise ValueError(
            "with_bands: the effects are too large or too small for single precision; rescale y "
            "and fit again"
        )
    if model.polished and (longer is not None or nested):
        raise ValueError(
            "longer and nested apply to boosted models: the draws of a polished model are boosted "
            "and polished as the model was; leave them out"
        )
    longer = LONGER if longer is None else float(longer)
    fit_input = FitInput.of(table, y, weights, offset=offset, exposure=exposure)
    binned = bin_for_refits(model, fit_input, "with_bands", n_threads)
    if model.polished:
        return _with_polished_bands(model, binned, n_boot, seed, threads_for(n_threads), bar)
    optimizer, m = _bootstrap_optimizer(model, nested)

    def fit_draw(draw_seed: int, halt: Halt) -> BootstrapFit:
        return _fit(binned, draw_counts(binned.data, draw_seed), optimizer, m, longer, halt)

    fits = run_all(
        [partial(fit_draw, s) for s in _seeds(seed, n_boot)], threads_for(n_threads), bar, "draw"
    )
    iterations = tuple(fit.n_iter for fit in fits)
    # The center of the bands: a fit to all rows with the median number of iterations.
    median = max(1, round(float(np.median(iterations)) / longer))
    all_rows = np.ones(len(binned.data.y))
    middle = _fit(binned, all_rows, optimizer, median, longer, lambda: False).coef
    return _with_draws(model, middle, fits, longer)


def _seeds(seed: int, n_boot: int) -> list[int]:
    found: list[int] = np.random.SeedSequence(seed).generate_state(n_boot, np.uint64).tolist()
    return found


def _with_draws(
    model: Model, middle: dict[str, Floats], fits: Sequence[BootstrapFit], longer: float
) -> Model:
    """Return the model with bands, given the coefficients of their center and the draws."""
    names = [n for n in model.terms if n in middle or any(n in fit.coef for fit in fits)]
    zero = {name: np.zeros_like(model.terms[name].beta) for name in names}
    center = {name: middle.get(name, zero[name]) for name in names}
    coef = {
        name: np.array([fit.coef.get(name, zero[name]) for fit in fits], dtype=np.float32)
        for name in names
    }
    maps = MappingProxyType(center), MappingProxyType(coef)
    iterations = tuple(fit.n_iter for fit in fits)
    inflation = float(np.mean([fit.ratio for fit in fits])) ** (1 / 6)
    return replace(model, bands=Bands(*maps, iterations, float(longer), max(1.0, inflation)))


def _with_polished_bands(
    model: Model, binned: PreparedRows, n_boot: int, seed: int, n_threads: int, bar: Progress
) -> Model:
    """Return a polished model with bands whose draws were boosted and polished as it was.

    A draw of an average of bags is a single fit.
    """
    n_iter = model.n_iter if model.bags is None else max(model.bags.n_iter)

    def fit_draw(draw_seed: int, halt: Halt) -> BootstrapFit:
        counts, w = draw_counts(binned.data, draw_seed), binned.data.weights
        held = None if model.settings.validation == "none" else np.where(counts == 0, w, 0.0)
        problem = FitProblem.pose(binned, Split(counts * w, held, counts * w), model.optimizer)
        stopping = None if held is None else EarlyStopping.again(model)
        fitted = problem.fit(n_iter, stopping=stopping, halt=halt)
        fitted = polish_like(problem, fitted, model)
        coef = {name: term.beta for name, term in fitted.terms.items() if term.chosen}
        ratio = _residual_ratio(problem.residuals(fitted), w, counts)
        return BootstrapFit(fitted.n_iter, coef, ratio)

    fits = run_all([partial(fit_draw, s) for s in _seeds(seed, n_boot)], n_threads, bar, "draw")
    center = {name: term.beta for name, term in model.terms.items() if term.chosen}
    return _with_draws(model, center, fits, 1.0)


def _bootstrap_optimizer(model: Model, nested: bool) -> tuple[Optimizer, int | None]:
    """Return the optimizer of the draws and their number of iterations; None: each finds its best.

    The optimizer is Plain, because momentum would diverge in the additional iterations.
    """
    step = model.optimizer.rate * model.scale  # the draws have the scale 1
    fast = Plain(max(step, model.loss.bootstrap_rate))
    if nested or model.optimizer.has_momentum:
        return fast, None
    m = model.best_iteration if model.bags is None else np.mean(model.bags.best_iteration)
    return fast, max(1, round(float(m) * step / fast.rate))


def _fit(
    binned: PreparedRows,
    counts: Floats,
    optimizer: Optimizer,
    n_iter: int | None,
    longer: float,
    halt: Halt,
) -> BootstrapFit:
    """Fit a draw, given by counts of rows, for `longer` times the best number of iterations."""
    w = binned.data.weights
    held = None if n_iter is not None else np.where(counts == 0, w, 0.0)
    problem = FitProblem.pose(binned, Split(counts * w, held, w), optimizer, scale=1)
    model = None
    if n_iter is None:
        model = problem.fit(MAX_NESTED_ITER, stopping=EarlyStopping(PATIENCE), halt=halt)
        n_iter = max(1, model.best_iteration)
    m = round(longer * n_iter)
    if model is None or model.n_iter < m:
        model = problem.fit(m, after=model, halt=halt)
    model = model.at(min(m, model.n_iter))
    coef = {name: term.beta for name, term in model.terms.items() if term.chosen}
    return BootstrapFit(model.n_iter, coef, _residual_ratio(problem.residuals(model), w, counts))


def _residual_ratio(residuals: Floats, w: Floats, counts: Floats) -> float:
    """Return the mean squared residual outside the draw / inside it, or 1 if it is undefined."""
    squares, others = (residuals**2).sum(axis=0), w * (counts == 0)
    inside = float(np.average(squares, weights=w * counts))
    if not (others.any() and inside > 0):
        return 1.0
    return float(np.average(squares, weights=others)) / inside


def _check(n_boot: Any, longer: Any, n_threads: Any) -> None:
    check_threads(n_threads)
    check_whole("n_boot", n_boot, MIN_DRAWS, MAX_DRAWS)
    if longer is not None and (not is_number(longer) or longer < 1):
        raise ValueError(f"longer must be a number of at least 1, got {quote(longer)}")


def draw_counts(data: FitData, seed: int) -> Floats:
    """(n,) how often each row is drawn: n rows in total, with replacement, stratified by class."""
    strata = data.y if data.classes else np.zeros(len(data.y))
    return draw_with_replacement(strata, np.random.default_rng(seed)).astype(np.float64)
