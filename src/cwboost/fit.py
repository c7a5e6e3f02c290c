"""fit(...) -> Model, and extend. The only caller of the core's boost.

Knows the order of the work: read and check the data, split off validation rows, plan the terms,
bin the rows, set up the systems, boost, make the model of the path. All is checked before any work.
"""

from __future__ import annotations

import inspect
import math
import time
import warnings
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from . import _core
from .bases import BasisRows
from .bins import Bins, Seen, as_bins
from .checks import check_threads, is_number, is_whole, threads_for
from .data import Data, Given, read_data
from .design import (
    Plan,
    Sets,
    basis_rows,
    bin_weights,
    check_learners,
    complete,
    core_learner,
    core_rows,
    core_set,
    fine_points,
    look_at,
    make_sets,
    make_systems,
    plan_terms,
)
from .formula import is_formula, parse
from .losses import as_loss
from .memory import Room, collector_at_rest
from .model import ColumnFacts, Model, Path, Settings, Spread, Term, with_coefficients
from .optimizers import Accelerated, Hybrid, Optimizer, Plain
from .progress import Progress, face
from .smoothing import System
from .table import Floats, read
from .terms import make_learners

MANY_COLUMNS = 1000  # of more, only those of chosen terms are remembered well enough to be drawn
SLOT_F, SLOT_R, SLOT_G = 0, 1, 2
TRAINING, VALIDATION, ALL = 0, 1, 2  # numbers of the parts
SEARCHES = {
    "auto": _core.How.automatic,
    "full": _core.How.full,
    "certified": _core.How.certified,
    "row-free": _core.How.row_free,
}
NAMED = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a fit; `.model` is the model fitted so far."""

    def __init__(self, model: Model) -> None:
        super().__init__(f"interrupted after {model.n_iter} iterations; .model has them")
        self.model = model

    def __reduce__(self) -> Any:
        return Interrupted, (self.model,)


def fit(
    table: Any,
    y: Any,
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
    search: str = "auto",
    progress: Any = None,
) -> Model:
    """Fits a sum of terms by componentwise gradient boosting.

    Parameters
    ----------
    table : data frame, 2-d array (columns x0, x1, ...) or mapping of columns
    y : array, the name of a column, or a formula such as "y ~ s(age, df=4) + job"
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
        Iterations, those that a rewind leaves behind included.
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
    search : "auto", "full", "certified" or "row-free"
        How the best term of an iteration is found; all find the same, as long as what is left to
        gain is more than rounding. "full" evaluates every term,
        "certified" only those that bounds do not exclude, "row-free" (squared loss) works on
        cross-products of terms instead of rows. "auto" estimates which costs less.
    progress : None, bool or Progress
        Whether to show a bar with risk, rate and time left. None: if the fit takes more than two
        seconds, in a terminal or a notebook. A Progress of work that this fit is a part of shows
        both.

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
    """
    began, bar = time.perf_counter(), face(progress)
    optimizer = _check_optimizer(Plain() if optimizer is None else optimizer)
    optimizer = type(optimizer)(**optimizer.get_params())  # the caller may change theirs
    _check_counts(n_iter, patience, time_limit, n_threads)
    rule = as_bins(bins)
    if search not in SEARCHES:
        raise ValueError(
            f"search: expected one of {', '.join(map(repr, SEARCHES))}, got {search!r}"
        )
    seed = _seed(random_state)
    given = Given(table, y, weights, offset, exposure, validation)
    if is_formula(y):
        given, learners = _read_formula(given, learners)
    with collector_at_rest():
        data = read_data(given, as_loss(loss), seed)
        if search == "row-free" and data.loss.name != "squared":
            raise ValueError(
                f"search: 'row-free' is for the squared loss, got {data.loss.name}; use 'auto'"
            )
        if isinstance(optimizer, Hybrid) and not data.has_validation:
            raise ValueError(
                "Hybrid needs validation rows to know when to switch; pass for instance "
                "validation=0.3"
            )
        target = [name for name in (given.column("y"),) if name is not None]
        chosen = make_learners(data.table, learners, target, apart=given.columns)
        chosen = check_learners(chosen, data.table)
        start_vector = _start(start, data)
        step_scale = _scale(scale, data, start_vector)
        threads = threads_for(n_threads, len(data.y))
        names = dict.fromkeys(name for learner in chosen for name in learner.columns)
        seen = look_at(names, data.table, data.sample, threads)
        plans = plan_terms(chosen, data.table, data.sample, seen, threads)
        problem = _Problem.make(data, plans, seen, rule, optimizer, threads, began)
        names = dict.fromkeys(name for plan in problem.plans for name in plan.columns)
        spreads = problem.spreads(names) if len(names) <= MANY_COLUMNS else {}
        template = Model(
            data.loss,
            optimizer,
            MappingProxyType({t.name: t for t in problem.terms()}),
            MappingProxyType({name: _facts(seen[name], spreads.get(name)) for name in names}),
            data.classes,
            start_vector,
            step_scale,
            Path.from_core(_core.Path()),
            0,
            Settings(
                bins=rule,
                patience=patience,
                seed=seed,
                validation=data.validation,
                fraction=float(validation) if data.validation == "fraction" else None,
                target=given.column("y"),
                weights=given.column("weights"),
                offset=given.column("offset"),
                exposure=given.column("exposure"),
                held=given.column("validation"),
                needs_offset=given.has_offset_arrays,
            ),
        )
    return problem.boost(template, _core.Path(), n_iter, callback, time_limit, bar, search)


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
    began, bar = time.perf_counter(), face(progress)
    _check_counts(n, None, time_limit, n_threads)
    old = model.settings
    if y is None:
        y = old.target
    if y is None:
        raise TypeError("extend: y was an array in the fit; pass it again")
    if validation is None:
        validation = old.fraction if old.validation == "fraction" else old.held
    if validation is None and old.validation == "rows":
        raise TypeError("extend: the fit had validation rows; pass the same validation= again")
    if old.needs_offset and offset is None and exposure is None:
        raise TypeError("extend: the fit had an offset or exposure; pass the same again")
    given = Given(
        table,
        y,
        old.weights if weights is None else weights,
        old.offset if offset is None else offset,
        old.exposure if exposure is None else exposure,
        validation,
    )
    data = read_data(given, model.loss, old.seed, model.classes)
    plans = [term.plan for term in model.terms.values()]
    threads = threads_for(n_threads, len(data.y))
    names = dict.fromkeys(name for plan in plans for name in plan.columns)
    problem = _Problem.make(
        data,
        plans,
        look_at(names, data.table, data.sample, threads),
        old.bins,
        model.optimizer,
        threads,
        began,
        smoothing=[term.smoothing for term in model.terms.values()],
    )
    history = model.path.to_core([plan.basis.n_coef for plan in plans], model.n_outputs)
    return problem.boost(model, history, model.n_iter + n, callback, time_limit, bar)


# --- the problem for the core ---------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Problem:
    """Rows, learners and what else the core's loop takes."""

    data: Data
    seen: Mapping[str, Seen]
    rule: Bins
    plans: list[Plan]
    sets: Sets
    rows: _core.LocalRows
    systems: list[System]
    training: list[_core.Learner]
    all: list[_core.Learner]
    bin_effects: list[BasisRows]  # basis over what the core calls the bins of each term's set
    bin_weights: list[Floats]  # of the training rows, for each set
    began: float  # when the fit was called

    @classmethod
    def make(
        cls,
        data: Data,
        plans: list[Plan],
        seen: Mapping[str, Seen],
        rule: Bins,
        optimizer: Optimizer,
        n_threads: int,
        began: float,
        smoothing: Sequence[float] | None = None,
    ) -> _Problem:
        room = Room()
        sets = make_sets(plans, data.table, data.sample, rule, seen, room, n_threads)
        parts = data.parts
        rows = _core.LocalRows(
            data.loss.core(data.y),
            data.y,
            np.ascontiguousarray(data.offset.T) if data.offset.any() else None,
            [core_set(s) for s in sets.sets],
            parts,
            n_threads,
        )
        alike = data.sample.marks is None and data.sample.weights is None
        w = bin_weights(sets.sets, None if alike else parts[TRAINING], room, n_threads)
        plans, matrices = basis_rows(plans, sets, w, room, n_threads)
        effects = core_rows(plans, sets, matrices)

        def systems(weights: list[Floats], given: Sequence[float | None]) -> list[System]:
            of_terms = [weights[k] for k in sets.of_term]
            return make_systems(plans, matrices, of_terms, given, n_threads)

        def core(made: list[System]) -> list[_core.Learner]:
            return [
                core_learner(k, over_bins, system)
                for k, over_bins, system in zip(sets.of_term, effects, made, strict=True)
            ]

        training = systems(w, [None] * len(plans) if smoothing is None else smoothing)
        everything: list[_core.Learner] = []
        if isinstance(optimizer, Hybrid) and optimizer.then == "all":
            # The same df on all rows; the smoothing that gives them is found anew.
            of_all = bin_weights(sets.sets, parts[ALL], room, n_threads)
            everything = core(systems(of_all, [None] * len(plans)))
        complete(plans, training)
        learners = core(training)
        return cls(
            data, seen, rule, plans, sets, rows, training, learners, everything, effects, w, began
        )

    def terms(self) -> list[Term]:
        """The terms before the first iteration; those of one size share their zeros."""
        q = self.data.loss.n_outputs
        zeros = {n: np.zeros((n, q)) for n in {plan.basis.n_coef for plan in self.plans}}
        return [
            Term(plan, zeros[len(system.mean)], system.smoothing, system.df, system.net_df)
            for plan, system in zip(self.plans, self.systems, strict=True)
        ]

    def spreads(self, names: Container[str]) -> dict[str, Spread]:
        """How rows spread over some columns, so that these can be drawn."""
        seen, rule = self.seen, self.rule
        out: dict[str, Spread] = {}
        for plan, k in zip(self.plans, self.sets.of_term, strict=True):
            name = plan.columns[0]
            if name in names and name not in out:
                w = self.bin_weights[k]
                points = fine_points(plan, self.sets.sets[k], w, seen[name], rule)
                if points is not None:
                    out[name] = Spread.of_bins(points, w, seen[name].kind == "numbers")
        for name in (name for plan in self.plans for name in plan.columns):
            if name in names and name not in out:
                out[name] = Spread.of(self.data.table[name], self.data.sample)
        return out

    def drawable(self, model: Model) -> Mapping[str, ColumnFacts]:
        """The columns, with the spread of those that the path has moved."""
        moved = np.union1d(model.path.choices, model.path.corrections)
        names = {name for k in moved[moved >= 0] for name in self.plans[k].columns}
        lacking = {name for name in names if model.columns[name].spread is None}
        facts = {name: _facts(self.seen[name], x) for name, x in self.spreads(lacking).items()}
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
    ) -> Model:
        """Runs the loop after `history` and makes the model of its path."""
        if time_limit is not None:  # what the set-up has left of it; one iteration at the least
            time_limit = max(1e-9, time_limit - (time.perf_counter() - self.began))
        patience, watched = model.settings.patience or 0, self.data.has_validation
        names = [plan.name for plan in self.plans]
        after, every = _told(callback, bar, names)
        early = watched and patience > 0
        with bar.work(n_iter, "iteration", done=model.n_iter, seconds=time_limit, early=early):
            found = _core.boost(
                self.rows,
                self.training,
                self.all,
                model.optimizer.core(),
                list(model.start_vector),
                model.scale,
                TRAINING,
                VALIDATION if watched else None,
                ALL,
                n_iter,
                patience,
                history,
                time_limit,
                after,
                SEARCHES[search],
                every,
            )
            path = Path.from_core(found)
            if path.n_iter > model.n_iter:  # the last iteration may have been too soon to tell
                last = path.risk[-1], path.validation_risk[-1], path.choices[-1]
                bar.step(path.n_iter, **_facts_of(*last, names))
        if not np.isfinite(path.risk[0]):
            raise ValueError(
                f"the {self.data.loss.name} loss is not finite at the start ({path.risk[0]}); "
                "check the loss, or rescale y"
            )
        m = best_iteration(path, model.optimizer, self.data.has_validation)
        terms = with_coefficients(model.terms, path, m, model.optimizer, model)
        model = replace(model, terms=terms, path=path, best_iteration=m)
        model = replace(model, columns=self.drawable(model))
        if path.stopped == "interrupted":
            raise Interrupted(replace(model, shares=None))
        model = replace(model, shares=self.shares(model))
        _warn_of_divergence(model)
        return model

    def shares(self, model: Model) -> Floats:
        """Importance of every term on the training rows."""
        q, total = model.n_outputs, float(self.data.weights[self.data.training].sum())
        batch: list[Any] = [
            _core.Fill(SLOT_F, list(model.start_vector)),
            _core.Fill(SLOT_G, list(model.start_vector)),
        ]
        effects = {}
        terms = list(model.terms.values())
        for k in np.union1d(model.path.choices, model.path.corrections).tolist():
            term = terms[k]
            if k >= 0 and term.chosen:
                effects[k] = np.ascontiguousarray((self.bin_effects[k] @ term.beta).T)
                batch.append(_core.Add(SLOT_F, self.sets.of_term[k], effects[k].ravel()))
        batch.append(_core.MeanResidual(SLOT_G, SLOT_F, SLOT_R))
        wanted = [self.sets.of_term[k] for k in effects]
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
    warnings.warn(what, RuntimeWarning, stacklevel=4)


def _facts(seen: Seen, spread: Spread | None) -> ColumnFacts:
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
    callback: Callable[..., Any] | None, bar: Progress, names: list[str]
) -> tuple[Callable[[int, float, float, int], bool] | None, float]:
    """What the core calls after an iteration, and the least seconds between two calls."""
    called = None if callback is None else _adapted(callback)
    every = bar.every
    if called is None and every is None:
        return None, 0.0

    def after(m: int, risk: float, validation_risk: float, choice: int) -> bool:
        facts = _facts_of(risk, validation_risk, choice, names)
        if every is not None:
            bar.step(m, **facts)
        return called is not None and called(m, *facts.values())

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


def _read_formula(given: Given, learners: Any) -> tuple[Given, Any]:
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


def _start(start: Any, data: Data) -> Floats:
    q = data.loss.n_outputs
    if start is not None:
        try:
            out = np.atleast_1d(np.asarray(start, dtype=np.float64))
        except (TypeError, ValueError):
            out = np.array([np.nan])
        if out.shape != (q,) or not np.isfinite(out).all():
            raise ValueError(f"start: expected {q} finite number(s), got {start!r}")
        return out
    y, w, offset = map(data.of_training, (data.y, data.weights, data.offset))
    out = data.loss.start(y, w, offset)
    if not np.isfinite(out).all():
        raise ValueError(
            f"the start of the {data.loss.name} loss is not finite ({out}); check y and offset"
        )
    return out


def _scale(scale: Any, data: Data, start: Floats) -> float:
    if isinstance(scale, str) and scale == "auto":
        y, w, offset = map(data.of_training, (data.y, data.weights, data.offset))
        found = data.loss.scale(y, w, offset, start)
    elif is_number(scale):
        found = float(scale)
    else:
        raise ValueError(f"scale: expected 'auto' or a number, got {scale!r}")
    if not (np.isfinite(found) and found > 0):
        raise ValueError(f"scale must be a positive number, got {found!r}")
    return found
