"""The training data, passed again: for extend, information criteria, bands and intervals."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType

from cwboost import _core
from cwboost._utils.checks import threads_for
from cwboost.model.model import Model

from .input_data import FitInput, read_data
from .prepared import PreparedRows
from .problem import FitProblem, StartingPoint
from .scores import score_batch
from .slots import SLOT_F, SLOT_R, TRAINING
from .term_plans import summarize_columns


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
