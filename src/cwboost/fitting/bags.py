"""Bags: the average of fits to parts of the rows, which is again one model.

Draws the rows of the bags and averages starts and coefficients, which belong to the same bases.
Does not know how a single fit is made (see problem.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cwboost import _core
from cwboost._utils.checks import is_number, is_whole, threads_for
from cwboost.frames.columns import Floats
from cwboost.losses import risk
from cwboost.model.model import Model
from cwboost.model.path import Path
from cwboost.model.records import Bags
from cwboost.progress import Progress

from .callbacks import HaltCallback, Interrupted, RunContext
from .input_data import FitData, Split, hold_out
from .integral_importance import integral_shares
from .interactions import Pairs
from .options import FitOptions
from .parallel_fits import Halt, run_all
from .prepared import PreparedRows
from .problem import FitProblem
from .stages import with_pairs
from .starting_point import StartingPoint

LEFT_OUT = 0.2  # default fraction of the rows that a bag leaves out
Masks = NDArray[np.bool_]


# --- which rows -----------------------------------------------------------------------------------


def check_bags(
    bags: Any, validation: Any, callback: Any, checkpoint: Any, min_rows_per_bin: Any
) -> None:
    """Raise if `bags` or an argument that it excludes is wrong."""
    is_number_of_bags = is_whole(bags) and bags >= 2
    if not is_number_of_bags and (np.ndim(bags) != 2 or np.shape(bags)[0] < 2):
        raise ValueError(
            "bags: expected a whole number of at least 2, or masks of shape (bags, n) that mark "
            f"the rows of each bag; got {bags!r}"
        )
    if not is_number_of_bags and validation is not None:
        raise ValueError(
            "validation: not allowed with masks in bags=, which determine the rows that a bag "
            "leaves out"
        )
    if validation is not None and not (is_number(validation) and 0.0 < validation < 1.0):
        raise ValueError(
            "validation: with bags= it is the fraction of the rows that every bag leaves out, a "
            f"number between 0 and 1; got {validation!r}"
        )
    if callback is not None:
        raise ValueError("callback: not allowed with bags=, which makes several fits")
    if checkpoint is not None:
        raise ValueError("checkpoint: not allowed with bags=, which makes several fits")
    if min_rows_per_bin is not None:
        raise ValueError("min_rows_per_bin and bags are mutually exclusive")


class Draw(NamedTuple):
    """The rows that every bag leaves out."""

    held: Masks  # (bags, n)
    fraction: float | None = None  # of a random draw; None if the user gave the masks
    seed: int = 0


def draw_bags(bags: Any, fraction: Any, data: FitData, seed: int) -> Draw:
    """Draw the bags that the user asked for."""
    if not is_whole(bags):
        return Draw(_read_masks(bags, data))
    classes = data.y if data.classes else None
    seeds = np.random.SeedSequence(seed).generate_state(int(bags), np.uint64).tolist()
    left_out = LEFT_OUT if fraction is None else float(fraction)
    held = [hold_out(left_out, data.weights, classes, s, "bags") for s in seeds]
    return Draw(np.array(held), left_out, seed)


def _read_masks(bags: Any, data: FitData) -> Masks:
    inside = np.asarray(bags)
    if inside.dtype != bool:
        raise TypeError(f"bags: expected masks of true and false, got {inside.dtype}")
    if inside.shape[1] != data.n_given:
        raise ValueError(f"bags: the masks have {inside.shape[1]} rows, the table {data.n_given}")
    inside = data.of_present(inside.T).T
    for b, mask in enumerate(inside):
        if mask.all():
            raise ValueError(f"bags: bag {b} has all rows; leave some out for validation")
        if not mask.any():
            raise ValueError(f"bags: bag {b} has no rows")
    return ~inside


# --- the fits and their average -------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FittedBag:
    """What the average needs to know about the fit of one bag."""

    start: Floats
    coef: dict[str, Floats]  # of the chosen terms
    chosen: dict[str, int]  # how often each of them was chosen
    n_iter: int
    best_iteration: int
    validation_risk: float
    scores: Floats  # (q, rows) of the rows that it left out, at the bins
    model: Model


@dataclass(frozen=True, eq=False)
class BaggedFit:
    """The fits of all bags to the same prepared rows."""

    prepared: PreparedRows
    draw: Draw
    options: FitOptions
    n_threads: int
    bar: Progress

    def fit(self, before: Mapping[int, FittedBag]) -> tuple[Model, dict[int, FittedBag]]:
        """Return the average and the bags; each continues from what it was before."""
        prepared, options, n_bags = self.prepared, self.options, len(self.draw.held)
        data = prepared.data
        begin = StartingPoint.of(data, data.split, options.start, options.scale)
        whole = FitProblem.make(prepared, options.optimizer, begin)
        done: dict[int, FittedBag] = {}
        try:
            jobs = [self._job(number, before.get(number)) for number in range(n_bags)]
            run_all(jobs, self.n_threads, self.bar, "bag", done.__setitem__)
        except KeyboardInterrupt:
            if len(done) < 2:
                raise
            raise Interrupted(_average(whole, self.draw, done, options)) from None
        return _average(whole, self.draw, done, options), done

    def _job(self, number: int, before: FittedBag | None) -> Callable[[Halt], FittedBag]:
        n_bags, threads = len(self.draw.held), self.n_threads
        rounds = -(-n_bags // threads)
        limit = self.options.time_limit
        options = self.options._replace(time_limit=None if limit is None else limit / rounds)
        alone = replace(self.prepared, n_threads=1)
        held, inner = self.draw.held[number], max(1, threads // n_bags)
        main = None if before is None else before.model
        return lambda halt: _fit_bag(alone, held, options, main, inner, halt)


def fit_bags(
    prepared: PreparedRows,
    draw: Draw,
    options: FitOptions,
    interactions: int | str | Pairs | None,
    n_threads: int | None,
    bar: Progress,
) -> Model:
    """Return the average of fits, each without the rows that its bag leaves out.

    Pairs are ranked on the average of main effects, from which every bag then continues.
    """
    threads = threads_for(n_threads)
    if interactions is None:
        return BaggedFit(prepared, draw, options, threads, bar).fit({})[0]
    if options.time_limit is not None:
        options = options._replace(time_limit=options.time_limit / 2)
    main, bags = BaggedFit(prepared, draw, options, threads, bar).fit({})
    prepared, ranking = with_pairs(prepared, main, interactions, bar)
    if len(prepared.plans) > len(main.terms):
        main, _ = BaggedFit(prepared, draw, options, threads, bar).fit(bags)
    return replace(main, interactions=ranking)


def _fit_bag(
    prepared: PreparedRows,
    held: NDArray[np.bool_],
    options: FitOptions,
    main: Model | None,
    n_threads: int,
    halt: Halt,
) -> FittedBag:
    context = RunContext(HaltCallback(halt))
    w = prepared.data.weights
    split = Split(np.where(held, 0.0, w), np.where(held, w, 0.0), w)
    problem = FitProblem.pose(
        prepared,
        split,
        options.optimizer,
        start=options.start,
        scale=options.scale,
        n_threads=n_threads,
    )
    model, history = problem.template(options.patience), _core.Path()
    if main is not None:
        model, history = problem.continue_from(model, main)
    options = options._replace(n_iter=model.n_iter + options.n_iter)
    model = problem.boost(model, history, options, context)
    path, m = model.path, model.best_iteration
    coef = {name: term.beta for name, term in model.terms.items() if term.chosen}
    choices = path.choices[path.kept(m)]
    times = np.bincount(choices, minlength=len(model.terms)).tolist()
    counts = dict(zip(model.terms, times, strict=True))
    return FittedBag(
        model.start_vector,
        coef,
        {name: counts[name] for name in coef},
        path.n_iter,
        m,
        float(path.validation_risk[m]),
        problem.scores(model)[:, held],
        model,
    )


def _average(
    whole: FitProblem[PreparedRows],
    draw: Draw,
    done: dict[int, FittedBag],
    options: FitOptions,
) -> Model:
    """Return one model of all fitted bags: mean starts and coefficients, judged on all rows."""
    numbers = sorted(done)
    fitted = [done[number] for number in numbers]
    template = whole.template(options.patience)
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
    data = whole.prepared.data
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
    held_out = _held_out_risk(data, draw.held[numbers], fitted)
    stopped = f"average of {len(fitted)} bags"
    if len(fitted) < len(draw.held):
        stopped += f" of {len(draw.held)}, interrupted"
    settings = replace(
        model.settings,
        seed=draw.seed,
        validation="rows" if draw.fraction is None else "fraction",
        fraction=draw.fraction,
    )
    return replace(
        model,
        columns=whole.with_spreads(model, moved),
        path=_empty_path(after, held_out, stopped),
        shares=integral_shares(whole, model, moved),
        bags=bags,
        settings=settings,
    )


def _empty_path(risk: float, validation_risk: float, stopped: str) -> Path:
    """Return the path of an average: no iterations, and the risks of the average itself."""
    path = Path.from_core(_core.Path())
    held = np.array([validation_risk])
    return replace(path, risk=np.array([risk]), validation_risk=held, stopped=stopped)


def _held_out_risk(data: FitData, held: Masks, fitted: list[FittedBag]) -> float:
    """Return the risk of rows by the mean score of those bags that left them out."""
    total, times = np.zeros(data.offset.T.shape), held.sum(axis=0)
    for marks, bag in zip(held, fitted, strict=True):
        total[:, marks] += bag.scores
    some = times > 0
    scores = (total[:, some] / times[some]).T
    return risk(data.loss, data.y[some], scores, data.weights[some])
