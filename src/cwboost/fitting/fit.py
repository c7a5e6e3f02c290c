"""fit(...) -> Model, and extend. The only caller of the core's boost.

Knows the order of the work: read and check the data, split off validation rows, plan the terms,
bin the rows, set up the systems, boost, make the model of the path. All is checked before any work.
"""

from __future__ import annotations

import inspect
import math
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from cwboost import _core
from cwboost._utils.checks import check_threads, is_number, is_whole, threads_for
from cwboost._utils.memory import garbage_collection_paused
from cwboost.binning.bins import Bins, ColumnSummary, as_bins
from cwboost.frames.table import Floats, known_table, read
from cwboost.losses import Loss, TargetRows, as_loss
from cwboost.model.model import (
    ColumnFacts,
    Model,
    Path,
    Ranking,
    Settings,
    Spread,
    Term,
    with_coefficients,
)
from cwboost.optimizers import Accelerated, Hybrid, Optimizer, Plain
from cwboost.progress import Progress, as_progress
from cwboost.terms.formula import is_formula, parse
from cwboost.terms.learners import Learner
from cwboost.terms.styles import make_learners

from .checkpoint import Checkpoint, identity
from .design import Plan, centred, check_learners, complete, plan_terms, summarize_columns
from .input_data import FitData, FitInput, Split, read_data
from .interactions import (
    Pairs,
    check_interactions,
    check_pairs,
    how_many,
    pair_learners,
    rank,
)
from .prepared import PreparedRows
from .smoothing import System

MANY_COLUMNS = 1000  # of more, only those of chosen terms are remembered well enough to be drawn
SLOT_F, SLOT_R, SLOT_G = 0, 1, 3  # the last is the momentum's, which is done when it is wanted
TRAINING, VALIDATION, ALL = 0, 1, 2  # numbers of the parts
SEARCHES = {
    "auto": _core.How.automatic,
    "full": _core.How.full,
    "certified": _core.How.certified,
    "row-free": _core.How.row_free,
}
IMPATIENT = "no better validation risk"  # why a path ended, in the core's words;
ENDED = ("nothing left to gain", "diverged")  # for these it always will
NAMED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a fit; `.model` is the model fitted so far."""

    def __init__(self, model: Model) -> None:
        done = f"{model.n_iter} iterations" if model.bags is None else f"{len(model.bags)} bags"
        super().__init__(f"interrupted after {done}; .model has them")
        self.model = model

    def __reduce__(self) -> Any:
        return Interrupted, (self.model,)


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
    _check_counts(n_iter, patience, time_limit, n_threads)
    how = FitOptions.checked(optimizer, n_iter, patience, start, scale, time_limit, search)
    rule = as_bins(bins)
    seed, wanted = _seed(random_state), check_interactions(interactions)
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
        given, learners = _read_formula(given, learners)
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
    _check_counts(n, None, time_limit, n_threads)
    given = FitInput(table, y, weights, offset, exposure, validation)
    problem = pose_again(model, given, "extend", n_threads)
    history = problem.history(model)
    return problem.boost(model, history, model.n_iter + n, callback, time_limit, bar)


def pose_again(
    model: Model,
    given: FitInput,
    what: str,
    n_threads: int | None,
    names: Sequence[str] | None = None,
) -> FitProblem:
    """The problem whose solution a model is, from its rows given again for `what`; a validation
    fraction need not be given. `names`: with some of its terms only."""
    began, old, validation = time.perf_counter(), model.settings, given.validation
    if validation is None:
        validation = old.fraction if old.validation == "fraction" else old.held
    if validation is None and old.validation == "rows":
        raise TypeError(f"{what}: the fit had validation rows; pass the same validation= again")
    binned = bin_again(model, replace(given, validation=validation), what, n_threads, names)
    begin = StartingPoint(model.start_vector, model.scale)
    smoothing = [model.terms[plan.name].smoothing for plan in binned.plans]
    return FitProblem.make(binned, binned.data.split, model.optimizer, begin, began, smoothing)


def check_again(model: Model, given: FitInput, what: str, n_threads: int | None) -> None:
    """Raises unless the rows given again for `what` are those of the fit of a model."""
    old, held = model.settings, given.validation
    if held is None and model.bags is None:  # bags are judged on all rows
        held = old.fraction if old.validation == "fraction" else old.held
    chosen = [name for name, term in model.terms.items() if term.chosen]
    given = replace(given, validation=held)
    binned = bin_again(model, given, what, n_threads, chosen)
    small = replace(model, terms=MappingProxyType({name: model.terms[name] for name in chosen}))
    own = model.bags is None and old.validation == "rows" and held is None
    check_rows(small, binned, binned.rows(binned.data.split), what, among=own)


def check_rows(
    model: Model, binned: PreparedRows, rows: _core.LocalRows, what: str, *, among: bool = False
) -> None:
    """Raises unless the risk of rows is that of the rows of the fit; leaves their scores in SLOT_F.

    `among`: its training rows are among them, but which they are is not known. Then the risk can
    only be known not to be far from both risks of the fit.
    """
    batch = [*score_batch(model, binned), _core.Residual(SLOT_F, SLOT_R, [TRAINING])]
    m, risk = model.best_iteration, float(rows.run(batch)[-1].risk[0])
    first, low = float(model.risk[0]), float(model.risk[m])
    high, near = low, 1e-12 * abs(first) + 1e-6 * max(abs(risk), abs(low))
    if among:
        watched = float(model.path.validation_risk[m])
        low, high, near = min(low, watched), max(low, watched), near + abs(first - low)
    if not low - near <= risk <= high + near:
        then = f"{low:.6g}" + (f" to {high:.6g}" if among else "")
        raise ValueError(
            f"{what}: these are not the rows of the fit: its risk was {then}, here it is "
            f"{risk:.6g}; pass again all that the fit was given: table, y, weights, offset"
        )


def score_batch(model: Model, binned: PreparedRows) -> list[Any]:
    """For the core: writes the scores of rows by a model of their terms, at the bins, to SLOT_F."""
    batch: list[Any] = [_core.Fill(SLOT_F, list(model.start_vector))]
    for k, term in enumerate(model.terms.values()):
        if term.chosen:
            effect = np.ascontiguousarray((binned.bin_effects[k] @ term.beta).T)
            batch.append(_core.Add(SLOT_F, binned.sets.of_term[k], effect.ravel()))
    return batch


# --- from what people give to binned rows ---------------------------------------------------------


@contextmanager
def reading(table: Any, bar: Progress) -> Iterator[None]:
    """Shows which columns of a Dataset are read meanwhile."""
    found = known_table(table)
    told = None if found is None else found.on_read
    if told is None:
        yield
        return
    done, here = 0, threading.get_ident()  # a Progress belongs to one thread

    def tell(name: str) -> None:
        nonlocal done
        done += 1
        if threading.get_ident() == here:
            bar.step(done, column=name)

    with bar.work(None, "column"):
        told.append(tell)
        try:
            yield
        finally:
            told.remove(tell)


def read_rows(
    given: FitInput, learners: Any, loss: Loss, seed: int
) -> tuple[FitData, list[Learner]]:
    """The rows and the learners, checked; nothing is binned yet."""
    data = read_data(given, loss, seed)
    target = [name for name in (given.column("y"),) if name is not None]
    table = data.table  # rows of a validation table have no say in what the terms are
    if isinstance(given.validation, tuple):
        table = table.take(data.training)
    chosen = make_learners(table, learners, target, apart=given.columns)
    return data, check_learners(chosen, data.table)


def bin_rows(
    data: FitData, learners: Sequence[Learner], settings: Settings, n_threads: int
) -> PreparedRows:
    names = dict.fromkeys(name for learner in learners for name in learner.columns)
    seen = summarize_columns(names, data.table, data.sample, n_threads)
    plans = plan_terms(list(learners), data.table, data.sample, seen, n_threads)
    return PreparedRows.make(data, plans, seen, settings, n_threads)


class CheckedInput(NamedTuple):
    """Rows and learners that are read and checked, and nothing else."""

    data: FitData
    learners: list[Learner]
    settings: Settings

    def bin(self, n_threads: int) -> PreparedRows:
        with garbage_collection_paused():
            return bin_rows(self.data, self.learners, self.settings, n_threads)


def read_all(
    table: Any,
    y: Any,
    learners: Any = None,
    loss: Any = "squared",
    bins: Any = "auto",
    weights: Any = None,
    offset: Any = None,
    exposure: Any = None,
    apart: Sequence[str] = (),
) -> CheckedInput:
    """What the arguments of `fit` say: all are training rows. Columns `apart` are no features."""
    given, rule = FitInput(table, y, weights, offset, exposure, apart=tuple(apart)), as_bins(bins)
    if is_formula(y):
        given, learners = _read_formula(given, learners)
    data, chosen = read_rows(given, learners, as_loss(loss), 0)
    return CheckedInput(data, chosen, settings_of(given, data, rule, 0))


def bin_again(
    model: Model,
    given: FitInput,
    what: str,
    n_threads: int | None,
    names: Sequence[str] | None = None,
) -> PreparedRows:
    """The rows of a fit, given again for `what`, binned for the terms of its model, or for some."""
    old = model.settings
    data = read_data(old.again(given, what), model.loss, old.seed, model.classes)
    plans = [model.terms[name].plan for name in (model.terms if names is None else names)]
    threads = threads_for(n_threads, len(data.y))
    columns = dict.fromkeys(name for plan in plans for name in plan.columns)
    seen = summarize_columns(columns, data.table, data.sample, threads)
    return PreparedRows.make(data, plans, seen, old, threads)


def with_pairs(
    binned: PreparedRows, main: Model, wanted: int | str | Pairs, bar: Progress
) -> tuple[PreparedRows, Ranking | None]:
    """The rows with pairs as further terms: those that are wanted, or that a model of main effects
    leaves to be wished for."""
    data, seen, threads = binned.data, binned.seen, binned.n_threads
    ranking = None
    if not isinstance(wanted, list):
        ranking = rank(main, data, binned.columns, seen, binned.settings.seed, threads, bar)
        ranking = replace(ranking, chosen=how_many(wanted, ranking))
        wanted = ranking.pairs[: ranking.chosen]
    learners = pair_learners(wanted, binned.plans)
    if not learners:
        return binned, ranking
    names = dict.fromkeys(name for learner in learners for name in learner.columns)
    seen = {
        **summarize_columns([n for n in names if n not in seen], data.table, data.sample, threads),
        **seen,
    }
    plans = plan_terms(learners, data.table, data.sample, seen, threads, binned.plans)
    return replace(binned.with_more(plans, seen), seen=seen), ranking


def prepare(
    table: Any,
    y: Any,
    learners: Any = None,
    loss: Any = "squared",
    bins: Any = "auto",
    weights: Any = None,
    offset: Any = None,
    exposure: Any = None,
    n_threads: int | None = None,
    apart: Sequence[str] = (),
) -> PreparedRows:
    """Rows binned for `FitProblem.pose`: all are training rows, as the arguments of `fit` say."""
    check_threads(n_threads)
    read = read_all(table, y, learners, loss, bins, weights, offset, exposure, apart)
    return read.bin(threads_for(n_threads, len(read.data.y)))


def settings_of(given: FitInput, data: FitData, rule: Bins, seed: int) -> Settings:
    return Settings(
        bins=rule,
        patience=None,
        seed=seed,
        validation=data.validation,
        fraction=float(given.validation) if data.validation == "fraction" else None,
        target=given.column("y"),
        weights=given.column("weights"),
        offset=given.column("offset"),
        exposure=given.column("exposure"),
        held=given.column("validation"),
        needs_offset=given.has_offset_arrays,
        min_rows_per_bin=given.min_rows,
        sites=given.sites,
    )


# --- the problem for the core ---------------------------------------------------------------------


class StartingPoint(NamedTuple):
    """Where a fit begins, and the factor of its steps."""

    start: Floats  # (q,)
    scale: float

    @classmethod
    def of(cls, data: FitData, split: Split, start: Any, scale: Any) -> StartingPoint:
        y, weights, offset = map(split.of_training, (data.y, split.training, data.offset))
        w = np.ascontiguousarray(weights, dtype=np.float64)
        return cls.of_rows(data.loss, TargetRows(y, w, offset), start, scale)

    @classmethod
    def of_rows(cls, loss: Loss, rows: TargetRows, start: Any, scale: Any) -> StartingPoint:
        start = _start(start, loss, rows)
        return cls(start, _scale(scale, loss, rows, start))


class FitOptions(NamedTuple):
    """How each of several fits to the same binned rows is made."""

    optimizer: Optimizer
    n_iter: int
    patience: int | None = None
    start: Any = None
    scale: Any = "auto"
    time_limit: float | None = None
    search: str = "auto"

    @classmethod
    def checked(
        cls,
        optimizer: Any,
        n_iter: int,
        patience: int | None,
        start: Any,
        scale: Any,
        time_limit: float | None,
        search: str,
    ) -> FitOptions:
        """As people gave it."""
        optimizer = _check_optimizer(Plain() if optimizer is None else optimizer)
        optimizer = type(optimizer)(**optimizer.get_params())  # the caller may change theirs
        if search not in SEARCHES:
            raise ValueError(
                f"search: expected one of {', '.join(map(repr, SEARCHES))}, got {search!r}"
            )
        return cls(optimizer, n_iter, patience, start, scale, time_limit, search)

    def check(self, loss: Loss, split: Split) -> None:
        """Refuses what cannot be done with these rows."""
        if self.search == "row-free" and loss.name != "squared":
            raise ValueError(
                f"search: 'row-free' is for the squared loss, got {loss.name}; use 'auto'"
            )
        _check_watched(self.optimizer, split)


class HaltCallback:
    """A callback that is asked now and then whether to stop."""

    every = 0.05  # seconds

    def __init__(self, asked: Callable[[], bool]) -> None:
        self.asked = asked

    def __call__(self) -> bool:
        return self.asked()


@dataclass(frozen=True, eq=False)
class FitProblem:
    """Rows, learners and what else the core's loop takes."""

    binned: PreparedRows
    split: Split
    begin: StartingPoint
    optimizer: Optimizer
    plans: Sequence[Plan]  # whose bases know their mean over the training rows
    rows: Any  # _core.LocalRows, or other _core.Rows
    systems: list[System]
    training: list[_core.Learner]
    all: list[_core.Learner]
    began: float  # when the fit was called

    @classmethod
    def make(
        cls,
        binned: PreparedRows,
        split: Split,
        optimizer: Optimizer,
        begin: StartingPoint,
        began: float,
        smoothing: Sequence[float] | None = None,
        n_threads: int | None = None,
    ) -> FitProblem:
        systems = binned.systems(binned.weigh(split.training), smoothing)
        everything: list[_core.Learner] = []
        if isinstance(optimizer, Hybrid) and optimizer.then == "all":
            # The same df on all rows; the smoothing that gives them is found anew.
            everything = binned.learners(binned.systems(binned.weigh(split.all)))
        plans = binned.plans
        if split is binned.data.split:
            complete(plans, systems)
        else:
            plans = centred(plans, systems)
        return cls(
            binned,
            split,
            begin,
            optimizer,
            plans,
            binned.rows(split, n_threads),
            systems,
            binned.learners(systems),
            everything,
            began,
        )

    def template(self, patience: int | None) -> Model:
        """The model before the first iteration; terms of one size share their zeros."""
        binned, data = self.binned, self.binned.data
        q = data.loss.n_outputs
        zeros = {n: np.zeros((n, q)) for n in {plan.basis.n_coef for plan in self.plans}}
        terms = [
            Term(plan, zeros[len(system.mean)], system.smoothing, system.df, system.net_df)
            for plan, system in zip(self.plans, self.systems, strict=True)
        ]
        names = binned.columns
        spreads = binned.spreads(names) if len(names) <= MANY_COLUMNS else {}
        settings = replace(binned.settings, patience=patience)
        if settings.validation == "none" and self.split.validation is not None:
            settings = replace(settings, validation="rows")
        return Model(
            data.loss,
            self.optimizer,
            MappingProxyType({term.name: term for term in terms}),
            MappingProxyType(
                {name: _facts(binned.seen[name], spreads.get(name)) for name in names}
            ),
            data.classes,
            self.begin.start,
            self.begin.scale,
            Path.from_core(_core.Path()),
            0,
            settings,
        )

    @classmethod
    def pose(
        cls,
        binned: PreparedRows,
        split: Split,
        optimizer: Optimizer,
        *,
        start: Any = None,
        scale: Any = "auto",
        n_threads: int = 1,
    ) -> FitProblem:
        """A fit to rows that are binned already, weighed as a split says: start, scale and
        smoothing are the split's own."""
        _check_watched(optimizer, split)
        began = time.perf_counter()
        with garbage_collection_paused():
            begin = StartingPoint.of(binned.data, split, start, scale)
            return cls.make(binned, split, optimizer, begin, began, n_threads=n_threads)

    def fit(
        self,
        n_iter: int,
        *,
        patience: int | None = None,
        after: Model | None = None,
        halt: Callable[[], bool] | None = None,
        bar: Progress | None = None,
        search: str = "auto",
    ) -> Model:
        """The model of n_iter iterations, going on from the end of `after` if there is one.

        `halt` is asked twenty times a second whether to stop.
        """
        model, history = self.template(patience), _core.Path()
        if after is not None:
            model = replace(model, terms=after.terms, path=after.path, columns=after.columns)
            history = self.history(after)
        shown = as_progress(False) if bar is None else bar
        callback = None if halt is None else HaltCallback(halt)
        return self.boost(model, history, n_iter, callback, None, shown, search)

    def follow(
        self, model: Model, weights: Floats, at: Callable[[int, Floats], Any] | None = None
    ) -> Floats:
        """(M + 1,) risk of rows so weighed along the path of a model of this problem.

        `at` is called after 0, 1, ... iterations with their number and the scores (q, n), at the
        bins; it returns true to stop.
        """
        rows = self.binned.rows(Split(weights, None, weights), 1)
        return _core.follow(
            rows,
            self.training,
            self.optimizer.core(),
            list(model.start_vector),
            model.scale,
            TRAINING,
            self.history(model),
            None if at is None else lambda m: bool(at(m, rows.read(SLOT_F))),
        )

    def history(self, model: Model) -> _core.Path:
        """The path of a model of this problem, to go on from."""
        return model.path.to_core([p.basis.n_coef for p in self.plans], model.n_outputs)

    def going_on(self, model: Model, main: Model) -> tuple[Model, _core.Path]:
        """A model of this problem at the best iterate of one of its first terms, and its path.

        (A Hybrid that ends on all rows has none left to watch, and begins anew.)
        """
        if isinstance(self.optimizer, Hybrid) and self.optimizer.then == "all":
            return model, _core.Path()
        before = main.at(main.best_iteration)
        return replace(model, path=before.path), self.history(before)

    def drawable(self, model: Model, moved: Sequence[int]) -> Mapping[str, ColumnFacts]:
        """The columns, with the spread of those of terms that have been moved."""
        names = {name for k in moved for name in self.plans[k].columns}
        lacking = {name for name in names if model.columns[name].spread is None}
        found = self.binned.spreads(lacking) if lacking else {}
        facts = {name: _facts(self.binned.seen[name], spread) for name, spread in found.items()}
        return MappingProxyType({**model.columns, **facts}) if facts else model.columns

    def boost(
        self,
        model: Model,
        history: _core.Path,
        n_iter: int,
        callback: Callable[..., Any] | None,
        time_limit: float | None,
        bar: Progress,
        search: str = "auto",
        checkpoint: Checkpoint | None = None,
    ) -> Model:
        """Runs the loop after `history` and makes the model of its path.

        If there is a checkpoint, the loop goes on from what it has.
        """
        known: Path | None = None
        if checkpoint is not None:
            columns, prints = self.fingerprints(model)
            known = checkpoint.begin(identity(model, self.rows.n_rows(), prints))
        if checkpoint is not None and known is not None:
            self.check_path(model, known, f"checkpoint {checkpoint}")
            checkpoint.check_columns(columns)
            path = self.cut(model, known, n_iter)
            if path is not None:
                return self.made(model, path)
            history = known.to_core([p.basis.n_coef for p in self.plans], model.n_outputs)
        if time_limit is not None:  # what the set-up has left of it; one iteration at the least
            time_limit = max(1e-9, time_limit - (time.perf_counter() - self.began))
        patience, watched = model.settings.patience or 0, self.split.validation is not None
        names = [plan.name for plan in self.plans]
        after, every = _told(callback, bar, names, 0 if known is None else known.n_iter)
        early = watched and patience > 0
        with bar.work(n_iter, "iteration", done=model.n_iter, seconds=time_limit, early=early):
            path = self._run(
                history,
                n_iter,
                patience,
                time_limit,
                after,
                every,
                search,
                None if known is None else model.n_iter,
                checkpoint,
            )
            if path.n_iter > model.n_iter:  # the last iteration may have been too soon to tell
                last = path.risk[-1], path.validation_risk[-1], path.choices[-1]
                bar.step(path.n_iter, **_facts_of(*last, names))
        return self.made(model, path)

    def choose(
        self,
        n_iter: int,
        until: Callable[[int], bool],
        halt: Callable[[], bool],
        bar: Progress | None = None,
    ) -> Path:
        """The path of n_iter iterations, and no model of it.

        `until` is given the number of the term chosen after every iteration, and returns true if
        it was the last; `halt` is asked as in `fit`.
        """
        bar = as_progress(False) if bar is None else bar

        def after(m: int, risk: float, _validation_risk: float, choice: int) -> bool:
            bar.step(m, risk=risk)
            return until(choice) or halt()

        with bar.work(n_iter, "iteration", early=True):
            path = self._run(_core.Path(), n_iter, 0, None, after, 0.0, "auto")
        if path.stopped == "interrupted":
            raise KeyboardInterrupt
        return path

    def _run(
        self,
        history: _core.Path,
        n_iter: int,
        patience: int,
        time_limit: float | None,
        after: Callable[[int, float, float, int], bool] | None,
        every: float,
        search: str,
        given: int | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> Path:
        """The core's loop. Of a history that is its own, from a checkpoint, it was `given` the
        first so many iterations."""
        save = None if checkpoint is None else lambda p: checkpoint.save(Path.from_core(p))
        path = Path.from_core(
            _core.boost(
                self.rows,
                self.training,
                self.all,
                self.optimizer.core(),
                list(self.begin.start),
                self.begin.scale,
                TRAINING,
                None if self.split.validation is None else VALIDATION,
                ALL,
                n_iter,
                patience,
                history,
                time_limit,
                after,
                SEARCHES[search],
                every,
                given,
                save,
            )
        )
        if not np.isfinite(path.risk[0]):
            raise ValueError(
                f"the {self.binned.data.loss.name} loss is not finite at the start "
                f"({path.risk[0]}); check the loss, or rescale y"
            )
        if checkpoint is not None:
            checkpoint.save(path)
        return path

    def cut(self, model: Model, known: Path, n_iter: int) -> Path | None:
        """The path of the loop from a model, if no more is to be done for it than is known."""
        sizes, q = [p.basis.n_coef for p in self.plans], model.n_outputs
        path = Path.from_core(
            _core.cut(
                known.to_core(sizes, q),
                n_iter,
                model.settings.patience or 0,
                self.optimizer.core(),
                sizes,
                q,
                self.split.validation is not None,
                model.n_iter,
            )
        )
        if path.n_iter == n_iter or path.stopped == IMPATIENT:
            return path
        return known if known.stopped in ENDED else None

    def check_path(self, model: Model, path: Path, what: str) -> None:
        """Raises unless the rows have the risks that a path of this problem ends with, or that it
        has before a step that leapt: those leave rounding in the rows that coefficients have not.
        """
        m = int(np.append(path.halvings > 0, True).argmax())
        last = replace(model, terms=with_coefficients(model.terms, path, m, self.optimizer, model))
        parts = [TRAINING] if self.split.validation is None else [TRAINING, VALIDATION]
        batch = [*score_batch(last, self.binned), _core.Residual(SLOT_F, SLOT_R, parts)]
        risks = zip((path.risk, path.validation_risk), self.rows.run(batch)[-1].risk, strict=False)
        for then, here in risks:
            if not np.isclose(here, then[m], rtol=1e-6, atol=1e-12 * abs(path.risk[0])):
                raise ValueError(
                    f"{what}: these are not the rows of that fit: after {m} iterations its risk "
                    f"was {then[m]:.6g}, here it is {here:.6g}; pass the same rows again, delete "
                    "the file to begin anew, or take another name"
                )

    def fingerprints(self, model: Model) -> tuple[list[str], list[float]]:
        """Names of the columns of each set of bins, and a number that tells which rows are in which
        bin, as far as their residuals at the start differ. Rounding is that of sums over rows."""
        named = dict(zip(self.binned.sets.of_term, self.plans, strict=True))
        start = [float(f"{x:.9g}") for x in model.start_vector]  # in other shards the same bits
        batch = [
            _core.Fill(SLOT_F, start),
            _core.Mix(SLOT_R, 0.0, SLOT_F, 0.0, SLOT_F),  # nothing, so that all of it has moved
            _core.Residual(SLOT_F, SLOT_R, [ALL]),
            _core.BinSums([SLOT_R], list(named), ALL),
        ]
        *_, residual, found = self.rows.run(batch)
        size = residual.moved * math.sqrt(self.rows.weight(ALL)) or 1.0  # not below sum(|w r|)
        factors = (
            np.random.default_rng(k).uniform(0.5, 1.5, len(u)) for k, u in enumerate(found.sums)
        )
        prints = [float(u @ v) / size for u, v in zip(found.sums, factors, strict=True)]
        return [" and ".join(plan.columns) for plan in named.values()], prints

    def made(self, model: Model, path: Path) -> Model:
        """The model of a path of this problem, from that of its beginning."""
        m = best_iteration(path, model.optimizer, self.split.validation is not None)
        terms = with_coefficients(model.terms, path, m, model.optimizer, model)
        model = replace(model, terms=terms, path=path, best_iteration=m)
        moved = [k for k in np.union1d(path.choices, path.corrections).tolist() if k >= 0]
        model = replace(model, columns=self.drawable(model, moved))
        if path.stopped == "interrupted":
            raise Interrupted(replace(model, shares=None))
        model = replace(model, shares=self.shares(model, moved))
        _warn_of_divergence(model)
        return model

    def scores(self, model: Model) -> Floats:
        """(q, n) scores of all rows by a model of this problem, at the bins."""
        self.rows.run(score_batch(model, self.binned))
        return np.asarray(self.rows.read(SLOT_F))

    def residuals(self, model: Model) -> Floats:
        """(q, n) residuals of all rows by a model of this problem."""
        self.scores(model)
        self.rows.run([_core.Residual(SLOT_F, SLOT_R, [ALL])])
        return np.asarray(self.rows.read(SLOT_R))

    def shares(self, model: Model, moved: Sequence[int]) -> Floats:
        """Importance of every term on the training rows, given the numbers of those that have been
        moved."""
        q, total = model.n_outputs, self.rows.weight(TRAINING)
        binned, of_term = self.binned, self.binned.sets.of_term
        batch: list[Any] = [
            _core.Fill(SLOT_F, list(model.start_vector)),
            _core.Fill(SLOT_G, list(model.start_vector)),
        ]
        effects = {}
        terms = list(model.terms.values())
        for k in moved:
            term = terms[k]
            if term.chosen:
                effects[k] = np.ascontiguousarray((binned.bin_effects[k] @ term.beta).T)
                batch.append(_core.Add(SLOT_F, of_term[k], effects[k].ravel()))
        batch.append(_core.MeanResidual(SLOT_G, SLOT_F, SLOT_R, TRAINING))
        wanted = [of_term[k] for k in effects]
        batch.append(_core.BinSums([SLOT_R], wanted, TRAINING))
        sums = self.rows.run(batch)[-1].sums
        out = np.zeros(len(model.terms))
        for (k, effect), s in zip(effects.items(), sums, strict=True):
            out[k] = np.sum(effect * s.reshape(q, -1)) / total
        return out


def _warn_of_divergence(model: Model) -> None:
    """Momentum can make the training risk rise for good; nobody should overlook it.

    (Hybrid leaves that phase in time, and may then weigh other rows.)
    """
    risk, m = model.risk, model.best_iteration
    least = int(np.argmin(risk[: m + 1]))
    rose = risk[m] - risk[least] > 0.1 * (risk[0] - risk[least]) and m > least
    if rose and not isinstance(model.optimizer, Hybrid):
        what = (
            f"the training risk was least after {least} iterations ({risk[least]:.6g}) and is "
            f"{risk[m]:.6g} after {m}: the fit diverges; lower the rate or the momentum, give "
            f"validation rows, or take model.at({least})"
        )
    elif model.stopped == "diverged" and m == model.n_iter:
        what = (
            f"the training risk ran away after {m} iterations, where the fit stopped; lower the "
            "rate or the momentum"
        )
    else:
        return
    warnings.warn(what, RuntimeWarning, stacklevel=6)


def _facts(seen: ColumnSummary, spread: Spread | None) -> ColumnFacts:
    """What the model remembers of a training column."""
    if seen.kind == "labels":
        return ColumnFacts("labels", missing=seen.missing, spread=spread)
    if seen.empty:
        return ColumnFacts("numbers", missing=True, spread=spread)
    return ColumnFacts("numbers", seen.low, seen.high, seen.missing, seen.boolean, spread)


def best_iteration(path: Path, optimizer: Optimizer, has_validation: bool) -> int:
    """The iterate to return: the last, or with validation rows the best."""
    on_all = isinstance(optimizer, Hybrid) and optimizer.then == "all" and path.switched_after >= 0
    if not has_validation or on_all:
        return path.n_iter
    return int(np.argmin(np.where(np.isnan(path.validation_risk), np.inf, path.validation_risk)))


def _facts_of(risk: float, validation_risk: float, choice: int, names: list[str]) -> dict[str, Any]:
    """What is told of an iteration."""
    held = None if math.isnan(validation_risk) else float(validation_risk)
    return {"risk": float(risk), "validation_risk": held, "choice": names[choice]}


def _told(
    callback: Callable[..., Any] | None, bar: Progress, names: list[str], known: int = 0
) -> tuple[Callable[[int, float, float, int], bool] | None, float]:
    """What the core calls after an iteration, and the least seconds between two calls. Of the first
    `known` iterations the callback was told before."""
    if isinstance(callback, HaltCallback):
        return lambda *_: callback(), callback.every
    called = None if callback is None else _adapted(callback)
    every = bar.every
    if called is None and every is None:
        return None, 0.0

    def after(m: int, risk: float, validation_risk: float, choice: int) -> bool:
        facts = _facts_of(risk, validation_risk, choice, names)
        if every is not None:
            bar.step(m, **facts)
        return called is not None and m > known and called(m, *facts.values())

    return after, every if called is None and every is not None else 0.0


def _adapted(callback: Callable[..., Any]) -> Callable[..., bool]:
    """The callback, given those of the four facts that it takes."""
    facts = ("iteration", "risk", "validation_risk", "choice")
    try:
        parameters = inspect.signature(callback).parameters.values()
    except (TypeError, ValueError):
        raise TypeError(
            f"callback: expected a function of {', '.join(facts)}, got {callback!r}"
        ) from None
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        takes = 4
    else:
        takes = min(4, sum(p.kind in NAMED for p in parameters))
    needed = [p.name for p in parameters if p.default is p.empty and p.kind in NAMED]
    if len(needed) > 4:
        raise TypeError(f"callback takes {', '.join(needed)}; it is given {', '.join(facts)}")
    any_keyword = any(p.kind is p.VAR_KEYWORD for p in parameters)
    by_name = {p.name for p in parameters if p.kind is p.KEYWORD_ONLY}

    def called(*values: Any) -> bool:
        rest = dict(zip(facts[takes:], values[takes:], strict=True))
        keywords = {k: v for k, v in rest.items() if any_keyword or k in by_name}
        return bool(callback(*values[:takes], **keywords))

    return called


# --- checks and reading ---------------------------------------------------------------------------


def _check_optimizer(optimizer: Any) -> Optimizer:
    if isinstance(optimizer, type) and issubclass(optimizer, Plain | Accelerated | Hybrid):
        optimizer = optimizer()
    if not isinstance(optimizer, Plain | Accelerated | Hybrid):
        raise TypeError(
            "optimizer: expected cb.Plain(...), cb.Accelerated(...) or cb.Hybrid(...), got "
            f"{optimizer!r}"
        )
    optimizer.core()  # checks the parameters
    return optimizer


def _check_watched(optimizer: Optimizer, split: Split) -> None:
    if isinstance(optimizer, Hybrid) and split.validation is None:
        raise ValueError(
            "Hybrid needs validation rows to know when to switch; pass for instance validation=0.3"
        )


def check_min_rows(rows: Any, sites: Any = None) -> None:
    if rows is not None and not (is_whole(rows) and 1 <= rows < 2**31):
        raise ValueError(f"min_rows_per_bin: expected a whole number >= 1, got {rows!r}")
    if sites is not None and not isinstance(sites, str):
        raise TypeError(f"sites: expected the name of a column, got {type(sites).__name__}")
    if sites is not None and rows is None:
        raise ValueError("sites: it says where rows are counted for min_rows_per_bin; give both")


def _check_counts(n_iter: Any, patience: Any, time_limit: Any, n_threads: Any) -> None:
    check_threads(n_threads)
    most = 2**31 - 2
    for name, value, least in (("n_iter", n_iter, 0), ("patience", patience, 1)):
        if value is None and name != "n_iter":
            continue
        if not is_whole(value) or not least <= value <= most:
            raise ValueError(f"{name} must be a whole number from {least} to {most}, got {value!r}")
    if time_limit is not None and not (is_number(time_limit) and time_limit > 0):
        raise ValueError(f"time_limit must be a positive number of seconds, got {time_limit!r}")


def _read_formula(given: FitInput, learners: Any) -> tuple[FitInput, Any]:
    """What a formula says; a column whose name looks like one is a column all the same."""
    table = read(given.table)
    given = replace(given, table=table)
    if given.y in table:
        return given, learners
    if learners is not None:
        raise ValueError(
            f"learners: the formula {given.y!r} says which there are; give one or the other"
        )
    target, found = parse(given.y, table, exclude=given.columns)
    return replace(given, y=target), found


def _seed(random_state: Any) -> int:
    if is_whole(random_state):
        if random_state < 0:
            raise ValueError(f"random_state must be >= 0, got {random_state!r}")
        return int(random_state)
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    try:
        return int(np.random.default_rng(random_state).integers(2**63 - 1))
    except (TypeError, ValueError):
        raise TypeError(
            f"random_state must be a whole number, None or a numpy Generator, got {random_state!r}"
        ) from None


def _start(start: Any, loss: Loss, rows: TargetRows) -> Floats:
    q = loss.n_outputs
    if start is not None:
        try:
            out = np.atleast_1d(np.asarray(start, dtype=np.float64))
        except (TypeError, ValueError):
            out = np.array([np.nan])
        if out.shape != (q,) or not np.isfinite(out).all():
            raise ValueError(f"start: expected {q} finite number(s), got {start!r}")
        return out
    out = loss.start_of(rows)
    if not np.isfinite(out).all():
        raise ValueError(
            f"the start of the {loss.name} loss is not finite ({out}); check y and offset"
        )
    return out


def _scale(scale: Any, loss: Loss, rows: TargetRows, start: Floats) -> float:
    if isinstance(scale, str) and scale == "auto":
        found = loss.scale_of(rows, start)
    elif is_number(scale):
        found = float(scale)
    else:
        raise ValueError(f"scale: expected 'auto' or a number, got {scale!r}")
    if not (np.isfinite(found) and found > 0):
        raise ValueError(f"scale must be a positive number, got {found!r}")
    return found
