"""Bags: the average of fits to parts of the rows, which is again one model.

Draws the rows of the bags and averages starts and coefficients, which belong to the same bases.
Does not know how a single fit is made (see problem.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cwboost import _core
from cwboost._utils.checks import is_number, is_whole
from cwboost._utils.cores import threads_for
from cwboost._utils.lazy import cached_property
from cwboost._utils.text import quote
from cwboost.frames.columns import Floats
from cwboost.losses import risk
from cwboost.model.model import Model
from cwboost.model.path import Path
from cwboost.model.records import Bags
from cwboost.progress import Progress

from .callbacks import HaltCallback, Interrupted, RunContext
from .early_stopping import EarlyStopping
from .effect_sizes import effect_sizes
from .input_data import FitData, Split, hold_out
from .integral_importance import integral_shares
from .interactions import Pairs, usable_rule
from .options import FitOptions
from .pair_choice import (
    HeldOutScores,
    chosen_pairs,
    effect_at,
    fewest_pairs,
    largest_first,
    pairs_of,
)
from .parallel_fits import Halt, run_all
from .prepared import PreparedRows
from .problem import FitProblem
from .stages import lowest_risk, n_stages, with_pairs, without_pairs
from .starting_point import StartingPoint

MAX_BAGS = 10_000
LEFT_OUT = 0.2  # default fraction of the rows that a bag leaves out
Masks = NDArray[np.bool_]


# --- which rows -----------------------------------------------------------------------------------


def check_bags(
    bags: Any, validation: Any, callback: Any, checkpoint: Any, min_rows_per_bin: Any
) -> None:
    """Raise if `bags` or an argument that it excludes is wrong."""
    is_number_of_bags = is_whole(bags) and 2 <= bags <= MAX_BAGS
    try:
        n_masks, *others = (0,) if is_number_of_bags else np.shape(bags)
    except ValueError:  # rows of different lengths
        n_masks, others = 0, []
    if not is_number_of_bags and (len(others) != 1 or n_masks < 2):
        raise ValueError(
            f"bags: expected a whole number from 2 to {MAX_BAGS}, or masks of shape (bags, n) that "
            f"mark the rows of each bag; got {quote(bags)}"
        )
    if not is_number_of_bags and validation is not None:
        raise ValueError(
            "validation: not allowed with masks in bags=, which determine the rows that a bag "
            "leaves out"
        )
    if validation is not None and not (is_number(validation) and 0.0 < validation < 1.0):
        raise ValueError(
            "validation: with bags= it is the fraction of the rows that every bag leaves out, a "
            f"number between 0 and 1; got {quote(validation)}"
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
    held = np.array([hold_out(left_out, data.weights, classes, s, "bags") for s in seeds])
    if not (~held @ data.weights > 0).all():
        n = np.count_nonzero(data.weights)
        raise ValueError(f"bags: a bag would leave out all of the {n} rows; use bags=None")
    return Draw(held, left_out, seed)


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


FittedBags = dict[int, FittedBag]  # by number


@dataclass(frozen=True, eq=False)
class BaggedFit:
    """The fits of all bags to the same prepared rows."""

    prepared: PreparedRows
    draw: Draw
    options: FitOptions
    n_threads: int
    bar: Progress

    def fit(self, before: Mapping[int, FittedBag]) -> tuple[Model, FittedBags]:
        """Return the average and the bags; each continues from what it was before."""
        done: FittedBags = {}
        all_rows, options = self.all_rows, self.options
        try:
            jobs = [self._job(k, before.get(k)) for k in range(len(self.draw.held))]
            run_all(jobs, self.n_threads, self.bar, "bag", done.__setitem__)
        except KeyboardInterrupt:
            if len(done) < 2:
                raise
            raise Interrupted(_average(all_rows, self.draw, done, options.stopping)) from None
        return _average(all_rows, self.draw, done, options.stopping), done

    @cached_property
    def all_rows(self) -> FitProblem[PreparedRows]:
        """The fit to all rows, on which the average is judged and polished."""
        data, options = self.prepared.data, self.options
        begin = StartingPoint.of(data, data.split, options.start, options.scale)
        return FitProblem.make(self.prepared, options.optimizer, begin)

    def _job(self, number: int, before: FittedBag | None) -> Callable[[Halt], FittedBag]:
        n_bags, threads = len(self.draw.held), self.n_threads
        rounds = -(-n_bags // threads)
        options = self.options.within(1 / rounds)
        held, inner = self.draw.held[number], max(1, threads // n_bags)
        main = None if before is None else before.model
        return lambda halt: _fit_bag(self.pose(number, inner), held, options, main, halt)

    def pose(self, number: int, n_threads: int = 1) -> FitProblem[PreparedRows]:
        """Return the fit of one bag; the rows that it leaves out are its validation rows."""
        held, w, options = self.draw.held[number], self.prepared.data.weights, self.options
        return FitProblem.pose(
            replace(self.prepared, n_threads=1),
            Split(np.where(held, 0.0, w), np.where(held, w, 0.0), w),
            options.optimizer,
            start=options.start,
            scale=options.scale,
            n_threads=n_threads,
        )


def fit_bags(
    prepared: PreparedRows,
    draw: Draw,
    options: FitOptions,
    interactions: int | str | Pairs | None,
    n_threads: int | None,
    bar: Progress,
) -> Model:
    """Return the average of fits, each without the rows that its bag leaves out.

    Pairs are ranked on the average of main effects, from which every bag then continues. All bags
    have the same pairs. The average is polished if the options ask for it.
    """
    bagged = BaggedFit(prepared, draw, options, threads_for(n_threads), bar)
    model, bagged, bags = _boost_bags(bagged, interactions)
    if not options.polish:
        return model
    from .bag_polish import polish_average

    try:
        return polish_average(bagged, bags, model)
    except KeyboardInterrupt:
        raise Interrupted(model, in_polish=True) from None


def _boost_bags(
    bagged: BaggedFit, interactions: int | str | Pairs | None
) -> tuple[Model, BaggedFit, FittedBags]:
    """Return the average, the fit whose terms it has, and its bags."""
    prepared, bar, options = bagged.prepared, bagged.bar, bagged.options
    if interactions is None:
        model, bags = bagged.fit({})
        return model, bagged, bags
    interactions = usable_rule(interactions, not options.optimizer.ends_on_all_rows)
    bagged = replace(bagged, options=options.within(1 / n_stages(interactions)))
    main, main_bags = bagged.fit({})
    with_all, ranking = with_pairs(prepared, main, interactions, bar)
    if len(with_all.plans) == len(main.terms):
        return replace(main, interactions=ranking), bagged, main_bags
    full = replace(bagged, prepared=with_all)
    model, bags = full.fit(main_bags)
    if interactions != "auto" or ranking is None:
        return replace(model, interactions=ranking), full, bags
    kept = _choose_pairs(with_all, bagged.draw, (main, main_bags), (model, bags))
    if 0 < len(kept) < len(model.terms) - len(main.terms):
        full = replace(bagged, prepared=with_pairs(prepared, main, kept, bar)[0])
        model, bags = full.fit(main_bags)
    if kept and lowest_risk(model) < lowest_risk(main):
        return replace(model, interactions=ranking.with_pairs(kept)), full, bags
    return without_pairs(main, ranking), bagged, main_bags


def _choose_pairs(
    prepared: PreparedRows,
    draw: Draw,
    main: tuple[Model, FittedBags],
    full: tuple[Model, FittedBags],
) -> Pairs:
    """Return the pairs of `full` that stay.

    They are judged by all rows that some bags left out, with the mean score of these bags.
    """
    data, left_out = prepared.data, draw.held.any(axis=0)
    coef = chosen_pairs(full[0], len(main[0].terms))
    names = list(full[0].terms)

    def effect(k: int) -> Floats:
        zero = np.zeros_like(coef[k])
        effects = {
            b: effect_at(prepared, k, bag.coef.get(names[k], zero), draw.held[b])
            for b, bag in full[1].items()
        }
        return _mean_held_out(draw.held, effects)

    scores = HeldOutScores(
        loss=data.loss,
        y=data.y[left_out],
        weights=data.weights[left_out],
        main=_mean_held_out(draw.held, {b: bag.scores for b, bag in main[1].items()}),
        full=_mean_held_out(draw.held, {b: bag.scores for b, bag in full[1].items()}),
        effect=effect,
    )
    return pairs_of(full[0], fewest_pairs(scores, largest_first(prepared, coef)))


def _fit_bag(
    problem: FitProblem[PreparedRows],
    held: NDArray[np.bool_],
    options: FitOptions,
    main: Model | None,
    halt: Halt,
) -> FittedBag:
    context = RunContext(HaltCallback(halt))
    model, history = problem.template(options.stopping), _core.Path()
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
        start=model.start_vector,
        coef=coef,
        chosen={name: counts[name] for name in coef},
        n_iter=path.n_iter,
        best_iteration=m,
        validation_risk=float(path.validation_risk[m]),
        scores=problem.scores(model)[:, held],
        model=model,
    )


def _average(
    problem: FitProblem[PreparedRows],
    draw: Draw,
    done: Mapping[int, FittedBag],
    stopping: EarlyStopping,
) -> Model:
    """Return one model of all fitted bags: mean starts and coefficients.

    `problem` is the fit to all rows, on which the average is judged.
    """
    numbers = sorted(done)
    fitted = [done[number] for number in numbers]
    template = problem.template(stopping)
    coef = _coefficients(fitted, template)
    terms = {
        name: replace(term, beta=coef[name].mean(axis=0)) if name in coef else term
        for name, term in template.terms.items()
    }
    starts = np.array([bag.start for bag in fitted])
    model = replace(template, terms=MappingProxyType(terms), start_vector=starts.mean(axis=0))
    data, moved = problem.prepared.data, [k for k, name in enumerate(terms) if name in coef]
    bags = Bags(
        start=starts,
        coef=MappingProxyType(coef),
        chosen=MappingProxyType(
            {name: tuple(bag.chosen.get(name, 0) for bag in fitted) for name in coef}
        ),
        n_iter=tuple(bag.n_iter for bag in fitted),
        best_iteration=tuple(bag.best_iteration for bag in fitted),
        validation_risk=tuple(bag.validation_risk for bag in fitted),
        risk_at_start=risk(data.loss, data.y, data.offset + model.start_vector, data.weights),
    )
    stopped = f"average of {len(fitted)} bags"
    if len(fitted) < len(draw.held):
        stopped += f" of {len(draw.held)}, interrupted"
    path = _empty_path(
        risk(data.loss, data.y, problem.scores(model).T, data.weights),
        _held_out_risk(data, draw.held[numbers], fitted),
        stopped,
    )
    settings = replace(
        model.settings,
        seed=draw.seed,
        validation="rows" if draw.fraction is None else "fraction",
        fraction=draw.fraction,
    )
    return replace(
        model,
        columns=problem.with_spreads(model, moved),
        path=path,
        shares=integral_shares(problem, model, moved),
        sizes=effect_sizes(problem, model),
        bags=bags,
        settings=settings,
    )


def _coefficients(fitted: Sequence[FittedBag], template: Model) -> dict[str, Floats]:
    """Return (bags, n_coef, q) coefficients of the terms that any bag chose, else zero."""
    out: dict[str, Floats] = {}
    for name, term in template.terms.items():
        if any(name in bag.coef for bag in fitted):
            zero = np.zeros_like(term.beta)
            out[name] = np.array([bag.coef.get(name, zero) for bag in fitted])
    return out


def _empty_path(risk: float, validation_risk: float, stopped: str) -> Path:
    """Return the path of an average: no iterations, and the risks of the average itself."""
    path = Path.from_core(_core.Path())
    held = np.array([validation_risk])
    return replace(path, risk=np.array([risk]), validation_risk=held, stopped=stopped)


def _held_out_risk(data: FitData, held: Masks, fitted: Sequence[FittedBag]) -> float:
    """Return the risk of the rows by the mean score of the bags that left each of them out."""
    left_out = held.any(axis=0)
    scores = _mean_held_out(held, {b: bag.scores for b, bag in enumerate(fitted)}).T
    return risk(data.loss, data.y[left_out], scores, data.weights[left_out])


def _mean_held_out(held: Masks, of_bags: Mapping[int, Floats]) -> Floats:
    """Return (q, m) the mean over the bags that left each row out, for rows that any left out.

    `of_bags` has (q, rows) numbers of each bag for the rows that it left out.
    """
    times: NDArray[np.int64] = held.sum(axis=0)
    total: Floats = np.zeros((len(of_bags[0]), len(times)))
    for b, values in of_bags.items():
        total[:, held[b]] += values
    mean: Floats = total[:, times > 0] / times[times > 0]
    return mean
