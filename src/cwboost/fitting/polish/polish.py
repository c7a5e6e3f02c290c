"""Polish a boosted model: refit its terms, weigh the two, and keep what bands need.

The terms are first refitted to the training rows, and the held-out rows decide the weight of the
polished scores (weight.py). Then the terms are refitted to all rows.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from cwboost import _core
from cwboost._core import ALL_PART, SLOT_F, SLOT_H, TRAINING_PART, VALIDATION_PART
from cwboost.fitting.problem import FitProblem
from cwboost.fitting.scores import score_batch
from cwboost.fitting.smoothing import one_blas_thread
from cwboost.frames.columns import Floats
from cwboost.model.model import Model
from cwboost.model.records import GONE, Polish
from cwboost.progress import Progress

from .cost import impossible, too_slow
from .polished_rows import SLOT_STEP, PolishedRows
from .posterior import posterior_factors
from .refit import Refit, Smoothing, refit
from .weight import HeldOutRisk, choose_weight, combine


def polish_fit(
    problem: FitProblem[Any],
    model: Model,
    bar: Progress,
    *,
    required: bool = False,
    weight: float | None = None,
) -> Model:
    """Return the polished model of a fit; a model that cannot be polished says why.

    With `required` it raises instead, and time does not matter. Without a weight, held-out rows
    choose it; a fit without them has the weight 1.
    """
    reason = impossible(problem, model) or (None if required else too_slow(problem, model))
    if reason is not None and required:
        raise ValueError(f"polish: {reason}")
    if reason is not None:
        return replace(model, polish=Polish.skipped(reason, model.start_vector))
    prepared, loss = problem.prepared, model.loss
    with one_blas_thread(), bar.work(2 if prepared.has_validation else 1, "refit"):
        rows = PolishedRows(problem, model, TRAINING_PART)
        smoothing = Smoothing(rows)
        if prepared.has_validation:
            if weight is None:
                first = refit(rows, loss, prepared.n_observations(TRAINING_PART), smoothing)
                held_out = held_out_risk(rows, problem, model, first.dispersion)
                weight = choose_weight(held_out)
                bar.step(1)
            if weight == 0.0:
                words = "the held-out rows prefer the boosted model"
                return replace(model, polish=Polish.skipped(words, model.start_vector))
            smoothing.rescale(rows.switch_to(ALL_PART))
        found = refit(rows, loss, prepared.n_observations(rows.part), smoothing)
        return polished_model(model, rows, found, smoothing, 1.0 if weight is None else weight)


def held_out_risk(
    rows: PolishedRows, problem: FitProblem[Any], model: Model, dispersion: float
) -> HeldOutRisk:
    """Return the losses of the validation rows between the boosted and the polished scores."""
    rows.rows.run(
        [*score_batch(model, problem.prepared), _core.Mix(SLOT_H, 1.0, SLOT_F, 0.0, SLOT_F)]
    )
    rows.score()
    total = rows.rows.weight(VALIDATION_PART)
    losses = []
    for share in (0.0, 0.5, 1.0):
        batch = [
            _core.Mix(SLOT_STEP, 1.0 - share, SLOT_H, share, SLOT_F),
            _core.Residual(SLOT_STEP, _core.NO_SLOT, [VALIDATION_PART]),
        ]
        losses.append(total * float(rows.rows.run(batch)[-1].risk[0]))
    return HeldOutRisk((losses[0], losses[1], losses[2]), dispersion)


def polished_model(
    model: Model, rows: PolishedRows, found: Refit, smoothing: Smoothing, weight: float
) -> Model:
    """Return the weighted mean of a boosted model and its refit, with the record of the refit."""
    terms, names, start = dict(model.terms), list(model.terms), found.intercept
    edf: dict[str, float] = {}
    differences: dict[str, Floats] = {}
    means: dict[str, Floats] = {}
    for i, (k, sums) in enumerate(
        zip(rows.terms, rows.weighted_sums(_core.ONES_SLOT), strict=True)
    ):
        term = terms[names[k]]
        basis, mean = term.plan.basis, sums / rows.weight
        means[term.name] = basis.mean
        edf[term.name] = float(found.edf[rows.places[i]].sum())
        polished = rows.coef(i, found.u)[:, None]
        if weight == 1.0 and edf[term.name] < GONE:  # its mean moves to the start
            start += float((mean @ polished)[0])
            polished = np.zeros_like(polished)
        if weight < 1.0:
            differences[term.name] = polished - term.beta
        plan = term.plan.with_basis(replace(basis, mean=mean))
        terms[term.name] = replace(term, plan=plan, beta=combine(weight, term.beta, polished))
    record = Polish(
        weight=weight,
        boosted_start=model.start_vector,
        boosted_means=MappingProxyType(means),
        differences=MappingProxyType(differences),
        edf=MappingProxyType(edf),
        smoothing=MappingProxyType(smoothing.by_term([names[k] for k in rows.terms])),
        dispersion=found.dispersion,
        factors=MappingProxyType(posterior_factors(rows, found, smoothing, names)),
    )
    return replace(
        model,
        terms=MappingProxyType(terms),
        start_vector=combine(weight, model.start_vector, np.array([start])),
        polish=record,
        shares=None,
    )
