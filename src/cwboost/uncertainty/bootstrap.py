"""Bootstrap draws of the rows, each fitted as the model was: how certain its effects are.

Knows how draws are made and how long their fits run; knows nothing of the bands that are made of
them (effects.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from cwboost._utils.checks import check_threads, is_number, is_whole, threads_for
from cwboost.fitting.input_data import FitData, FitInput, Split
from cwboost.fitting.options import as_seed
from cwboost.fitting.parallel_fits import Halt, run_all
from cwboost.fitting.prepared import PreparedRows
from cwboost.fitting.problem import FitProblem
from cwboost.fitting.repeat import bin_again, check_again
from cwboost.frames.table import Floats
from cwboost.model.model import Model
from cwboost.model.records import Bands
from cwboost.optimizers import Optimizer, Plain
from cwboost.progress import as_progress
from cwboost.selection.folds import draw_with_replacement

LEAST = 10  # draws that a standard deviation takes
MOST_NESTED = 2000  # iterations that a draw is looked at for its best
PATIENCE = 50  # without a better one


class BootstrapFit(NamedTuple):
    """What is kept of the fit to a draw.

    Residuals of rows that a fit has seen are too small, those of others too large. If df are a
    share d of the rows, of which 0.632 are in a draw, the ratio of their squares is 1 + 3.16 d to
    first order, while the variance between draws lacks a factor of 1 + d: about the sixth root of
    the ratio is what the standard deviation lacks.
    """

    n_iter: int
    coef: dict[str, Floats]  # of the chosen terms
    ratio: float  # mean squared residual of the rows that were not drawn, by that of the others


def with_bands(
    model: Model,
    table: Any,
    y: Any,
    *,
    n_boot: int,
    longer: float,
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
    model._refuse_edited("with_bands")
    given = FitInput.of(table, y, weights, offset=offset, exposure=exposure)
    check_again(model, given, "with_bands", n_threads)
    binned = replace(bin_again(model, given, "with_bands", n_threads), n_threads=1)
    optimizer, m = _how(model, nested)

    def job(number: int) -> Callable[[Halt], BootstrapFit]:
        return lambda halt: _fit(binned, draw(binned.data, number), optimizer, m, longer, halt)

    seeds = np.random.SeedSequence(seed).generate_state(n_boot, np.uint64).tolist()
    found = run_all([job(s) for s in seeds], threads_for(n_threads), bar, "draw")
    iterations = tuple(one.n_iter for one in found)
    # In the middle: all rows, for as long as the draws were fitted.
    usual = max(1, round(float(np.median(iterations)) / longer))
    whole = np.ones(len(binned.data.y))
    middle = _fit(binned, whole, optimizer, usual, longer, lambda: False).coef
    names = [n for n in model.terms if n in middle or any(n in one.coef for one in found)]
    zero = {name: np.zeros_like(model.terms[name].beta) for name in names}
    center = {name: middle.get(name, zero[name]) for name in names}
    coef = {
        name: np.array([one.coef.get(name, zero[name]) for one in found], dtype=np.float32)
        for name in names
    }
    maps = MappingProxyType(center), MappingProxyType(coef)
    inflation = float(np.mean([one.ratio for one in found])) ** (1 / 6)
    return replace(model, bands=Bands(*maps, iterations, float(longer), max(1.0, inflation)))


def _how(model: Model, nested: bool) -> tuple[Optimizer, int | None]:
    """The optimizer of the draws, and its iterations to where the model is; None: each finds its
    own. Momentum would run away if it went on, so that they are all Plain."""
    rate = model.optimizer.rate
    fast = Plain(max(rate, model.loss.bootstrap_rate))
    if nested or model.optimizer.has_momentum:
        return fast, None
    m = model.best_iteration if model.bags is None else np.mean(model.bags.best_iteration)
    return fast, max(1, round(float(m) * rate / fast.rate))


def _fit(
    binned: PreparedRows,
    counts: Floats,
    optimizer: Optimizer,
    n_iter: int | None,
    longer: float,
    halt: Halt,
) -> BootstrapFit:
    """The fit to rows that count so often, `longer` times as long as it should be to predict."""
    w = binned.data.weights
    held = None if n_iter is not None else np.where(counts == 0, w, 0.0)
    problem = FitProblem.pose(binned, Split(counts * w, held, w), optimizer)
    model = None
    if n_iter is None:
        model = problem.fit(MOST_NESTED, patience=PATIENCE, halt=halt)
        n_iter = max(1, model.best_iteration)
    m = round(longer * n_iter)
    if model is None or model.n_iter < m:
        model = problem.fit(m, after=model, halt=halt)
    model = model.at(min(m, model.n_iter))
    coef = {name: term.beta for name, term in model.terms.items() if term.chosen}
    return BootstrapFit(model.n_iter, coef, _ratio(problem.residuals(model), w, counts))


def _ratio(residuals: Floats, w: Floats, counts: Floats) -> float:
    squares, others = (residuals**2).sum(axis=0), w * (counts == 0)
    seen = float(np.average(squares, weights=w * counts))
    return float(np.average(squares, weights=others)) / seen if others.any() and seen > 0 else 1.0


def _check(n_boot: Any, longer: Any, n_threads: Any) -> None:
    check_threads(n_threads)
    if not is_whole(n_boot) or n_boot < LEAST:
        raise ValueError(f"n_boot must be a whole number of at least {LEAST}, got {n_boot!r}")
    if not is_number(longer) or longer < 1:
        raise ValueError(f"longer must be a number of at least 1, got {longer!r}")


def draw(data: FitData, seed: int) -> Floats:
    """(n,) how often each row is drawn: as many rows as there are, with replacement, of every class
    its own number."""
    kinds = data.y if data.classes else np.zeros(len(data.y))
    return draw_with_replacement(kinds, np.random.default_rng(seed)).astype(np.float64)
