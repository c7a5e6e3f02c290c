"""The training data, passed again: for extend, information criteria, bands and intervals.

A model keeps no rows. Here the rows of its fit are read again with the settings of the model, and
binned for its terms. If they do not have the risk of the fit, they are other rows, and refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from types import MappingProxyType
from typing import Any

from cwboost import _core
from cwboost._core import SLOT_F, SLOT_R, TRAINING_PART
from cwboost._utils.cores import threads_for
from cwboost.model.model import Model
from cwboost.model.settings import Settings

from .input_data import FitInput, InputRecord, read_data
from .prepared import PreparedRows
from .problem import FitProblem
from .scores import score_batch
from .starting_point import StartingPoint
from .term_plans import summarize_columns


def input_again(settings: Settings, fit_input: FitInput, method: str) -> FitInput:
    """Return the complete input of rows that are passed again to a method of the model.

    What the fit took from columns of the table need not be passed.
    """
    if fit_input.y is None and settings.target is None:
        raise TypeError(f"{method}: y was an array in the fit; pass it again")
    if settings.needs_offset and fit_input.offset is None and fit_input.exposure is None:
        raise TypeError(f"{method}: the fit had an offset or exposure; pass the same again")
    by_name = {
        "y": settings.target,
        "weights": settings.weights,
        "offset": settings.offset,
        "exposure": settings.exposure,
    }
    unset: Any = {role: name for role, name in by_name.items() if getattr(fit_input, role) is None}
    return replace(
        fit_input,
        **unset,
        min_rows=settings.min_rows_per_bin,
        sites=settings.sites,
        rule=settings.bins,
    )


def bin_again(
    model: Model,
    fit_input: FitInput,
    method: str,
    n_threads: int | None,
    names: Sequence[str] | None = None,
) -> PreparedRows:
    """Return the rows of a fit, passed again, binned for the terms of its model.

    `names` limits the terms.
    """
    model, settings = model.boosted, model.settings
    fit_input = input_again(settings, fit_input, method)
    data = read_data(fit_input, model.loss, settings.seed, model.classes)
    # Models that are fitted to these rows remember how the first fit was given them.
    record = {field.name: getattr(settings, field.name) for field in fields(InputRecord)}
    data = replace(data, source=InputRecord(**record))
    plans = [model.terms[name].plan for name in (model.terms if names is None else names)]
    threads = threads_for(n_threads, len(data.y))
    columns = dict.fromkeys(name for plan in plans for name in plan.columns)
    summaries = summarize_columns(columns, data.table, data.sample, threads)
    return PreparedRows.make(data, plans, summaries, threads)


def bin_for_refits(
    model: Model, fit_input: FitInput, method: str, n_threads: int | None
) -> PreparedRows:
    """Return all rows of a fit, passed again and checked, for fits that run one thread each."""
    check_again(model, fit_input, method, n_threads)
    return replace(bin_again(model, fit_input, method, n_threads), n_threads=1)


def pose_again(
    model: Model,
    fit_input: FitInput,
    method: str,
    n_threads: int | None,
    names: Sequence[str] | None = None,
) -> FitProblem[PreparedRows]:
    """Return the problem whose solution a model is, from its rows passed again.

    A validation fraction need not be passed. `names` limits the terms.
    """
    model = model.boosted
    settings, validation = model.settings, _validation_again(model, fit_input)
    if validation is None and settings.validation == "rows":
        raise TypeError(f"{method}: the fit had validation rows; pass the same validation= again")
    fit_input = replace(fit_input, validation=validation)
    prepared = bin_again(model, fit_input, method, n_threads, names)
    begin = StartingPoint(model.start_vector, model.scale)
    smoothing = [model.terms[plan.name].smoothing for plan in prepared.plans]
    return FitProblem.make(prepared, model.optimizer, begin, smoothing)


def _validation_again(model: Model, fit_input: FitInput) -> Any:
    if fit_input.validation is not None:
        return fit_input.validation
    settings = model.settings
    return settings.fraction if settings.validation == "fraction" else settings.held


def check_again(model: Model, fit_input: FitInput, method: str, n_threads: int | None) -> None:
    """Raise unless rows that are passed again are the rows of the model's fit."""
    model = model.boosted
    validation = fit_input.validation
    if model.bags is None:  # an average of bags has the risk of all rows
        validation = _validation_again(model, fit_input)
    chosen = [name for name, term in model.terms.items() if term.chosen]
    fit_input = replace(fit_input, validation=validation)
    prepared = bin_again(model, fit_input, method, n_threads, chosen)
    small = replace(model, terms=MappingProxyType({name: model.terms[name] for name in chosen}))
    unknown = model.bags is None and model.settings.validation == "rows" and validation is None
    check_rows(small, prepared, prepared.rows(), method, unknown_split=unknown)


def check_rows(
    model: Model,
    prepared: PreparedRows,
    rows: _core.LocalRows,
    method: str,
    *,
    unknown_split: bool = False,
) -> None:
    """Raise unless the rows have the risk of the model's fit; leave their scores in SLOT_F.

    `unknown_split`: the rows include the validation rows, and it is not known which they are. Then
    the risk is only required to be near the training and the validation risk of the fit.
    """
    batch = [*score_batch(model, prepared), _core.Residual(SLOT_F, SLOT_R, [TRAINING_PART])]
    m, risk = model.best_iteration, float(rows.run(batch)[-1].risk[0])
    first, low = float(model.risk[0]), float(model.risk[m])
    high, tolerance = low, 1e-12 * abs(first) + 1e-6 * max(abs(risk), abs(low))
    if unknown_split:
        validation_risk = float(model.path.validation_risk[m])
        low, high = min(low, validation_risk), max(low, validation_risk)
        tolerance += abs(first - low)
    if not low - tolerance <= risk <= high + tolerance:
        expected = f"{low:.6g}" + (f" to {high:.6g}" if unknown_split else "")
        raise ValueError(
            f"{method}: these are not the rows of the fit: its risk was {expected}, here it is "
            f"{risk:.6g}; pass everything again that the fit was given: table, y, weights, offset"
        )
