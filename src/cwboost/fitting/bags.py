"""Bags: the average of fits to shares of the rows, which is again one model.

Knows how rows are drawn and what is averaged: coefficients in the same bases, and starts. Knows
nothing of how a single fit is made.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cwboost import _core
from cwboost._utils.checks import is_number, is_whole, threads_for
from cwboost.frames.table import Floats
from cwboost.losses import risk
from cwboost.model.model import Model
from cwboost.model.path import Path
from cwboost.model.records import Bags
from cwboost.progress import Progress, as_progress

from .callbacks import HaltCallback, Interrupted
from .importance import integral_shares
from .input_data import FitData, Split, hold_out
from .interactions import Pairs
from .options import FitOptions
from .parallel_fits import Halt, run_all
from .preparation import with_pairs
from .prepared import PreparedRows
from .problem import FitProblem, StartingPoint

LEFT_OUT = 0.2  # share of the rows that a bag leaves out, if nothing else is said
Masks = NDArray[np.bool_]


# --- which rows -----------------------------------------------------------------------------------


def check_bags(
    bags: Any, validation: Any, callback: Any, checkpoint: Any, min_rows_per_bin: Any
) -> None:
    """Before any work."""
    many = is_whole(bags) and bags >= 2
    if not many and (np.ndim(bags) != 2 or np.shape(bags)[0] < 2):
        raise ValueError(
            "bags: expected a whole number of at least 2, or masks of shape (bags, n) that mark "
            f"the rows of each; got {bags!r}"
        )
    if not many and validation is not None:
        raise ValueError("validation: the masks of bags= say what every bag leaves out; omit it")
    if validation is not None and not (is_number(validation) and 0.0 < validation < 1.0):
        raise ValueError(
            "validation: with bags= it is the share of the rows that every bag leaves out, a "
            f"number between 0 and 1; got {validation!r}"
        )
    if callback is not None:
        raise ValueError("callback: is told of the iterations of one fit, and bags= makes several")
    if checkpoint is not None:
        raise ValueError("checkpoint: has the iterations of one fit, and bags= makes several")
    if min_rows_per_bin is not None:
        raise ValueError("min_rows_per_bin: not with bags=; fit without one of them")


class Draw(NamedTuple):
    """The rows that every bag leaves out."""

    held: Masks  # (bags, n)
    share: float | None = None  # drawn at random by this seed; None: the masks were given
    seed: int = 0


def draw_bags(bags: Any, share: Any, data: FitData, seed: int) -> Draw:
    """Bags of the rows of `data`, as `fit` is asked for them."""
    if not is_whole(bags):
        return Draw(_given(bags, data))
    classes = data.y if data.classes else None
    seeds = np.random.SeedSequence(seed).generate_state(int(bags), np.uint64).tolist()
    left = LEFT_OUT if share is None else float(share)
    held = [hold_out(left, data.weights, classes, s, "bags") for s in seeds]
    return Draw(np.array(held), left, seed)


def _given(bags: Any, data: FitData) -> Masks:
    inside = np.asarray(bags)
    if inside.dtype != bool:
        raise TypeError(f"bags: expected masks of true and false, got {inside.dtype}")
    if inside.shape[1] != data.n_given:
        raise ValueError(f"bags: masks of {inside.shape[1]} rows, the table has {data.n_given}")
    inside = data.of_present(inside.T).T
    for b, marks in enumerate(inside):
        if marks.all() or not marks.any():
            some = "all rows; leave some out to watch it" if marks.all() else "no row"
            raise ValueError(f"bags: bag {b} has {some}")
    return ~inside


# --- the fits and their average -------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Bag:
    """What is kept of the fit to one bag."""

    start: Floats
    coef: dict[str, Floats]  # of the chosen terms
    chosen: dict[str, int]
    n_iter: int
    best_iteration: int
    validation_risk: float
    scores: Floats  # (q, rows) of those that it left out, at the bins
    model: Model


def fit_bags(
    binned: PreparedRows,
    draw: Draw,
    how: FitOptions,
    wanted: int | str | Pairs | None,
    n_threads: int | None,
    bar: Progress,
) -> Model:
    """The average of fits, each without the rows that its bag leaves out. If pairs are wanted, they
    are ranked on the average of main effects, from which every bag goes on."""
    if wanted is None:
        return _fit_all(binned, draw, how, n_threads, bar)[0]
    how = how if how.time_limit is None else how._replace(time_limit=how.time_limit / 2)
    main, bags = _fit_all(binned, draw, how, n_threads, bar)
    binned, ranking = with_pairs(binned, main, wanted, bar)
    if len(binned.plans) > len(main.terms):
        main, _ = _fit_all(binned, draw, how, n_threads, bar, bags)
    return replace(main, interactions=ranking)


def _fit_all(
    binned: PreparedRows,
    draw: Draw,
    how: FitOptions,
    n_threads: int | None,
    bar: Progress,
    after: Mapping[int, Bag] = MappingProxyType({}),
) -> tuple[Model, dict[int, Bag]]:
    """The average, and the bags; each goes on from what it was before."""
    held, began = draw.held, time.perf_counter()
    threads = threads_for(n_threads)
    begin = StartingPoint.of(binned.data, binned.data.split, how.start, how.scale)
    whole = FitProblem.make(binned, binned.data.split, how.optimizer, begin, began)
    rounds = -(-len(held) // threads)
    limit = None if how.time_limit is None else how.time_limit / rounds
    inner, alone = max(1, threads // len(held)), replace(binned, n_threads=1)

    def job(number: int) -> Callable[[Halt], Bag]:
        main = after[number].model if after else None
        return lambda halt: _fit_bag(alone, held[number], how, main, limit, inner, halt)

    done: dict[int, Bag] = {}
    try:
        jobs = [job(number) for number in range(len(held))]
        run_all(jobs, threads, bar, "bag", done.__setitem__)
    except KeyboardInterrupt:
        if len(done) < 2:
            raise
        raise Interrupted(_average(whole, draw, done, how)) from None
    return _average(whole, draw, done, how), done


def _fit_bag(
    binned: PreparedRows,
    held: NDArray[np.bool_],
    how: FitOptions,
    main: Model | None,
    time_limit: float | None,
    n_threads: int,
    halt: Halt,
) -> Bag:
    w = binned.data.weights
    split = Split(np.where(held, 0.0, w), np.where(held, w, 0.0), w)
    problem = FitProblem.pose(
        binned, split, how.optimizer, start=how.start, scale=how.scale, n_threads=n_threads
    )
    model, history = problem.template(how.patience), _core.Path()
    if main is not None:
        model, history = problem.going_on(model, main)
    model = problem.boost(
        model,
        history,
        model.n_iter + how.n_iter,
        HaltCallback(halt),
        time_limit,
        as_progress(False),
        how.search,
    )
    path, m = model.path, model.best_iteration
    coef = {name: term.beta for name, term in model.terms.items() if term.chosen}
    kept = path.choices[path.kept(model.best_iteration)]
    picked = np.bincount(kept, minlength=len(model.terms)).tolist()
    counts = dict(zip(model.terms, picked, strict=True))
    return Bag(
        model.start_vector,
        coef,
        {name: counts[name] for name in coef},
        path.n_iter,
        m,
        float(path.validation_risk[m]),
        problem.scores(model)[:, held],
        model,
    )


def _average(whole: FitProblem, draw: Draw, done: dict[int, Bag], how: FitOptions) -> Model:
    """One model of all bags that were fitted: means of starts and coefficients, centred and judged
    on all rows."""
    numbers = sorted(done)
    fitted = [done[number] for number in numbers]
    template = whole.template(how.patience)
    names = [name for name in template.terms if any(name in bag.coef for bag in fitted)]
    coef = {
        name: np.array([bag.coef.get(name, np.zeros_like(template.terms[name].beta))
                        for bag in fitted])
        for name in names
    }  # fmt: skip
    terms = dict(template.terms)
    for name in names:
        terms[name] = replace(terms[name], beta=coef[name].mean(axis=0))
    starts = np.array([bag.start for bag in fitted])
    model = replace(template, terms=MappingProxyType(terms), start_vector=starts.mean(axis=0))
    moved = [k for k, name in enumerate(terms) if name in coef]
    data = whole.binned.data
    before = risk(data.loss, data.y, data.offset + model.start_vector, data.weights)
    after = risk(data.loss, data.y, whole.scores(model).T, data.weights)
    bags = Bags(
        starts,
        MappingProxyType(coef),
        MappingProxyType(
            {name: tuple(bag.chosen.get(name, 0) for bag in fitted) for name in names}
        ),
        tuple(bag.n_iter for bag in fitted),
        tuple(bag.best_iteration for bag in fitted),
        tuple(bag.validation_risk for bag in fitted),
        before,
    )
    watched = _held_out_risk(data, draw.held[numbers], fitted)
    stopped = f"average of {len(fitted)} bags"
    if len(fitted) < len(draw.held):
        stopped += f" of {len(draw.held)}, interrupted"
    kind: Any = "rows" if draw.share is None else "fraction"
    return replace(
        model,
        columns=whole.drawable(model, moved),
        path=_no_path(after, watched, stopped),
        shares=integral_shares(whole, model, moved),
        bags=bags,
        settings=replace(model.settings, seed=draw.seed, validation=kind, fraction=draw.share),
    )


def _no_path(risk: float, validation_risk: float, stopped: str) -> Path:
    """That of an average: the risks where it is."""
    path = Path.from_core(_core.Path())
    held = np.array([validation_risk])
    return replace(path, risk=np.array([risk]), validation_risk=held, stopped=stopped)


def _held_out_risk(data: FitData, held: Masks, fitted: list[Bag]) -> float:
    """Risk of the rows that any bag left out, by the mean score of those that did."""
    total, times = np.zeros(data.offset.T.shape), held.sum(axis=0)
    for marks, bag in zip(held, fitted, strict=True):
        total[:, marks] += bag.scores
    some = times > 0
    scores = (total[:, some] / times[some]).T
    return risk(data.loss, data.y[some], scores, data.weights[some])
