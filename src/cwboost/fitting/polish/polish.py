"""Polish a boosted model: refit its terms, weigh the two, and keep what bands need.

The terms are first refitted to the training rows, and the held-out rows decide the weight of the
polished scores (weight.py). A fit without held-out rows is repeated on folds for that. Then the
terms are refitted to all rows.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np

from cwboost import _core
from cwboost._core import ALL_PART, SLOT_F, SLOT_H, TRAINING_PART, VALIDATION_PART
from cwboost._utils.checks import is_number
from cwboost.fitting.effect_sizes import effect_sizes
from cwboost.fitting.input_data import FitInput, Split
from cwboost.fitting.integral_importance import integral_shares
from cwboost.fitting.prepared import PreparedRows
from cwboost.fitting.problem import FitProblem
from cwboost.fitting.repeat import check_rows, pose_again
from cwboost.fitting.scores import score_batch
from cwboost.fitting.smoothing import one_blas_thread
from cwboost.frames.columns import Floats
from cwboost.model.model import Model
from cwboost.model.path_checks import check_not_edited
from cwboost.model.records import GONE, Polish

from .cost import impossible, too_slow
from .polished_rows import SLOT_STEP, PolishedRows
from .posterior import posterior_factors
from .refit import Refit, Smoothing, refit
from .weight import HeldOutRisk, choose_weight, combine

PREFERS_BOOSTED = "held-out rows prefer the boosted model"  # why a model is not polished
N_FOLDS = 5
MANY_ROWS = 1000  # rows from which one fold is enough to choose the weight


class PolishedPart(NamedTuple):
    """The refit of a boosted model to one part of the rows."""

    boosted: Model
    rows: PolishedRows
    found: Refit
    smoothing: Smoothing

    @classmethod
    def of(cls, problem: FitProblem[Any], model: Model, part: int) -> PolishedPart:
        """Refit the terms of a model."""
        rows = PolishedRows(problem, model, part)
        smoothing = Smoothing(rows)
        found = refit(rows, model.loss, problem.prepared.n_observations(part), smoothing)
        return cls(model, rows, found, smoothing)

    def model(self, weight: float) -> Model:
        """Return the model that gives the refit a weight above 0."""
        return polished_model(self.boosted, self.rows, self.found, self.smoothing, weight)


def polish_fit(
    problem: FitProblem[Any],
    model: Model,
    *,
    required: bool = False,
    weight: float | None = None,
) -> Model:
    """Return the polished model of a fit; a model that cannot be polished says why.

    With `required` it raises instead, and time does not matter. Without a weight, held-out rows
    choose it.
    """
    reason = impossible(problem, model) or (None if required else too_slow(problem, model))
    if reason is None and weight is None and not _can_hold_out(problem):
        reason = "without validation rows its weight cannot be chosen for rows on a cluster"
    if reason is not None and required:
        raise ValueError(f"polish: {reason}")
    if reason is not None:
        return replace(model, polish=Polish.skipped(reason, model.start_vector))
    prepared, loss = problem.prepared, model.loss
    with one_blas_thread():
        rows = PolishedRows(problem, model, TRAINING_PART)
        smoothing = Smoothing(rows)
        if weight is None and prepared.has_validation:
            first = refit(rows, loss, prepared.n_observations(TRAINING_PART), smoothing)
            weight = choose_weight(held_out_risk(rows, problem, model, first.dispersion))
        elif weight is None:
            weight = choose_weight(fold_risk(problem, model))
        if weight == 0.0:
            return replace(model, polish=Polish.skipped(PREFERS_BOOSTED, model.start_vector))
        if prepared.has_validation:
            smoothing.rescale(rows.switch_to(ALL_PART))
        found = refit(rows, loss, prepared.n_observations(rows.part), smoothing)
        return polished_model(model, rows, found, smoothing, weight)


def polish_like(problem: FitProblem[Any], fitted: Model, like: Model) -> Model:
    """Polish a fit as another model was polished, with the same weight, or not at all."""
    if like.polish is None or like.polish.weight == 0.0 or impossible(problem, fitted):
        return fitted
    return polish_fit(problem, fitted, required=True, weight=like.polish.weight)


def polish(
    model: Model,
    table: Any,
    y: Any = None,
    *,
    weight: float | None = None,
    weights: Any = None,
    offset: Any = None,
    exposure: Any = None,
    validation: Any = None,
    n_threads: int | None = None,
) -> Model:
    """Refit the terms that boosting chose, all together, with one smoothing parameter per term.

    The chosen terms become one penalised additive model, fitted to all rows, validation rows
    included. REML chooses the smoothing. Terms that shrink to nothing are dropped. The model then
    knows the effective degrees of freedom of its terms, and `band` returns Bayesian bands.

    Parameters
    ----------
    model : Model
        A model of `fit`; a polished one is polished again from its boosted fit.
    table, y, weights, offset, exposure, validation
        The training data, passed again as for `Model.extend`.
    weight : float from 0 to 1, optional
        The score becomes (1 - weight) boosted + weight polished. By default the validation rows
        choose it; without them the fit is repeated on folds.
    n_threads : int, optional

    Returns
    -------
    Model
        Its `polish` has the weight, the effective df and the smoothing of every term. Its path, and
        `at`, are those of the boosted fit.

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> rng = np.random.default_rng(0)
    >>> table = {"a": rng.uniform(-2, 2, 2000), "b": rng.uniform(-2, 2, 2000)}
    >>> truth = np.sin(2 * table["a"])
    >>> y = truth + rng.normal(size=2000)
    >>> model = cb.fit(table, y)
    >>> polished = cb.polish(model, table, y)
    >>> polished.polish
    <Polish: weight 1, 8.6 effective df>
    >>> errors = [float(np.std(m.predict(table) - truth)) for m in (model, polished)]
    >>> errors[1] < errors[0]
    True
    """
    if not isinstance(model, Model):
        raise TypeError(
            f"polish: expected a Model, got {type(model).__name__}; an estimator has it as .model_"
        )
    if weight is not None and not (is_number(weight) and 0.0 < weight <= 1.0):
        raise ValueError(f"weight: expected a number above 0 and up to 1, got {weight!r}")
    if model.bags is not None:
        raise ValueError(
            "polish: the model is an average of bags, whose rows are not known any more; fit again "
            "with bags= and polish='auto'"
        )
    check_not_edited(model, "polish")
    boosted = model.boosted
    fit_input = FitInput.of(
        table, y, weights, offset=offset, exposure=exposure, validation=validation
    )
    problem = pose_again(boosted, fit_input, "polish", n_threads)
    check_rows(boosted, problem.prepared, problem.local_rows, "polish")
    weight = None if weight is None else float(weight)
    return polish_fit(problem, boosted, required=True, weight=weight)


def _can_hold_out(problem: FitProblem[Any]) -> bool:
    """Whether there are rows that can choose the weight."""
    return problem.prepared.has_validation or isinstance(problem.prepared, PreparedRows)


def fold_risk(problem: FitProblem[Any], model: Model) -> HeldOutRisk:
    """Return the losses of rows that were held out of the fit, boosted and polished again.

    With few rows all of them are held out in turn, otherwise one fold.
    """
    prepared = problem.prepared
    assert isinstance(prepared, PreparedRows)
    w = np.asarray(prepared.split.training, dtype=np.float64)
    fold = _draw_folds(prepared.data.y, w, prepared.data.source.seed)
    found = []
    for k in range(N_FOLDS if np.count_nonzero(w) < MANY_ROWS else 1):
        inside, outside = np.where(fold == k, 0.0, w), np.where(fold == k, w, 0.0)
        optimizer = model.optimizer.without_validation()
        try:
            part = FitProblem.pose(prepared, Split(inside, outside, w), optimizer)
        except ValueError:  # a fold without one of the classes, for instance
            return HeldOutRisk((0.0, 0.0, 0.0), 1.0)
        boosted = part.fit(model.best_iteration)
        boosted = boosted.at(boosted.n_iter)  # not the best iterate: these rows must not choose it
        if impossible(part, boosted) is None:
            refitted = PolishedPart.of(part, boosted, TRAINING_PART)
            found.append(held_out_risk(refitted.rows, part, boosted, refitted.found.dispersion))
    return HeldOutRisk.total(found)


def _draw_folds(y: Floats, w: Floats, seed: int) -> Floats:
    """Return the fold of every row: random, with about the same distribution of y in each."""
    rng = np.random.default_rng(seed)
    present = np.flatnonzero(w > 0.0)
    order = present[np.lexsort((rng.random(len(present)), y[present]))]
    out = np.full(len(y), -1)
    for begin in range(0, len(order), N_FOLDS):
        some = order[begin : begin + N_FOLDS]
        out[some] = rng.permutation(N_FOLDS)[: len(some)]
    return out


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
        batch: list[Any] = [
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
    sums = rows.weighted_sums(_core.ONES_SLOT).terms
    for i, k in enumerate(rows.terms):
        term = terms[names[k]]
        basis, mean = term.plan.basis, sums[i] / rows.weight
        assert basis.mean is not None
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
    out = replace(
        model,
        terms=MappingProxyType(terms),
        start_vector=combine(weight, model.start_vector, np.array([start])),
        polish=record,
    )
    problem = rows.problem
    shares = integral_shares(problem, out, rows.terms, rows.part)
    return replace(out, shares=shares, sizes=effect_sizes(problem, out, rows.part))
