"""Polish a boosted model: refit its terms, weigh the two, and keep what bands need.

The terms are first refitted to the training rows, and the held-out rows decide the weight of the
polished scores (weight.py). A fit without held-out rows is repeated on folds for that. Then the
terms are refitted to all rows.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np

from cwboost._core import ALL_PART, TRAINING_PART
from cwboost._utils.checks import is_number
from cwboost._utils.text import quote
from cwboost._utils.unknown_arguments import explain_unknown
from cwboost.fitting.all_rows import with_ranges_of_all_rows
from cwboost.fitting.effect_sizes import effect_sizes
from cwboost.fitting.input_data import FitInput, Split
from cwboost.fitting.integral_importance import integral_shares
from cwboost.fitting.prepared import PreparedRows
from cwboost.fitting.problem import FitProblem
from cwboost.fitting.repeat import check_rows, pose_again
from cwboost.fitting.smoothing import one_blas_thread
from cwboost.frames.columns import Floats
from cwboost.losses import n_informative
from cwboost.model.model import Model, check_model
from cwboost.model.path_checks import check_not_edited
from cwboost.model.records import GONE, Polish

from .cost import impossible, too_slow
from .hessian import SingularError
from .model_refit import ModelRefit
from .posterior import posterior_factors
from .weight import HeldOutRisk, choose_weight, combine

PREFERS_BOOSTED = "held-out rows prefer the boosted model"  # why a model is not polished
N_FOLDS = 5
MANY_ROWS = 1000  # informative rows from which one fold is enough to choose the weight


def refit_model(
    problem: FitProblem[Any], model: Model, part: int, *, rough: bool = False
) -> ModelRefit:
    """Refit the terms of a model to the rows of a part; see `refit`."""
    out = ModelRefit(problem, model, part)
    out.run(rough=rough)
    return out


def polish_fit(
    problem: FitProblem[Any],
    model: Model,
    *,
    required: bool = False,
    weight: float | None = None,
    unfinished: bool = False,
) -> Model:
    """Return the polished model of a fit; a model that cannot be polished says why.

    With `required` it raises instead, and time does not matter. Without a weight, held-out rows
    choose it. `unfinished`: a tolerance has stopped the fit, which goes on without polish.
    """
    reason = impossible(problem, model)
    if reason is None and not required:
        reason = too_slow(problem, model, unfinished=unfinished)
    if reason is None and weight is None and not _can_hold_out(problem):
        reason = "without validation rows its weight cannot be chosen for rows on a cluster"
    if reason is None:
        try:
            return _refit_and_weigh(problem, model, weight)
        except SingularError as error:
            reason = str(error)
    return not_polished(model, reason, required=required)


def not_polished(model: Model, reason: str, *, required: bool = False) -> Model:
    """Return the boosted model with the reason why it was not polished; raise if it had to be."""
    if required:
        raise ValueError(f"polish: {reason}")
    return replace(model, polish=Polish.skipped(reason, model.start_vector))


def _refit_and_weigh(problem: FitProblem[Any], model: Model, weight: float | None) -> Model:
    """Return the polished model, or the boosted one if its weight is zero."""
    prepared = problem.prepared
    with one_blas_thread():
        part = ModelRefit(problem, model, TRAINING_PART)
        if weight is None and prepared.has_validation:
            part.run(rough=True)
            weight = choose_weight(part.held_out_risk())
        elif weight is None:
            weight = choose_weight(fold_risk(problem, model))
        if weight == 0.0:
            return not_polished(model, PREFERS_BOOSTED + _about_weights(problem))
        if prepared.has_validation:
            part.switch_to(ALL_PART)
        part.run()
        return polished_model(part, weight)


def _about_weights(problem: FitProblem[Any]) -> str:
    """Return a remark if weights make the rows count several times, which leads to rough curves."""
    n = problem.prepared.n_observations(ALL_PART)
    if n < 2 * problem.rows.n_rows():
        return ""
    return f" (whole weights count as {n:,.0f} rows; divide survey weights by their mean)"


def polish_like(problem: FitProblem[Any], fitted: Model, like: Model) -> Model:
    """Polish a fit as another model was polished, with the same weight, or not at all."""
    if not like.polished or impossible(problem, fitted):
        return fitted
    assert like.polish is not None
    return polish_fit(problem, fitted, required=True, weight=like.polish.weight)


@explain_unknown
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
    check_model(model, "polish")
    if weight is not None and not (is_number(weight) and 0.0 < weight <= 1.0):
        raise ValueError(f"weight: expected a number above 0 and up to 1, got {quote(weight)}")
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
    n = n_informative(prepared.data.y[w > 0.0], model.loss.target)
    for k in range(N_FOLDS if n < MANY_ROWS else 1):
        inside, outside = np.where(fold == k, 0.0, w), np.where(fold == k, w, 0.0)
        optimizer = model.optimizer.without_validation()
        try:
            part = FitProblem.pose(prepared, Split(inside, outside, w), optimizer)
        except ValueError:  # a fold without one of the classes, for instance
            return HeldOutRisk((0.0, 0.0, 0.0), 1.0)
        boosted = part.fit(model.best_iteration)
        boosted = boosted.at(boosted.n_iter)  # not the best iterate: these rows must not choose it
        if impossible(part, boosted) is None:
            refitted = refit_model(part, boosted, TRAINING_PART, rough=True)
            found.append(refitted.held_out_risk())
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


def polished_model(part: ModelRefit, weight: float) -> Model:
    """Return the weighted mean of a boosted model and its refit, with the record of the refit."""
    model = part.boosted
    terms, names, start = dict(model.terms), list(model.terms), part.start()
    coef, means, of_terms = part.coefficients(), part.means(), part.edf()
    differences: dict[str, Floats] = {}
    boosted_means: dict[str, Floats] = {}
    for k, polished in coef.items():
        term, mean = terms[names[k]], means[k]
        basis = term.plan.basis
        assert basis.mean is not None
        boosted_means[term.name] = basis.mean
        if weight == 1.0 and of_terms[k] < GONE:  # its mean moves to the start
            start = start + mean @ polished
            polished = np.zeros_like(polished)
        if weight < 1.0:
            differences[term.name] = polished - term.beta
        plan = term.plan.with_basis(replace(basis, mean=mean))
        terms[term.name] = replace(term, plan=plan, beta=combine(weight, term.beta, polished))
    record = Polish(
        weight=weight,
        boosted_start=model.start_vector,
        boosted_means=MappingProxyType(boosted_means),
        differences=MappingProxyType(differences),
        edf=MappingProxyType({names[k]: of_terms[k] for k in coef}),
        smoothing=MappingProxyType(
            {names[k]: values for k, values in part.smoothing_of_terms().items()}
        ),
        dispersion=part.dispersion,
        factors=MappingProxyType(posterior_factors(part, names)),
    )
    out = replace(
        model,
        terms=MappingProxyType(terms),
        columns=with_ranges_of_all_rows(part.problem, model),
        start_vector=combine(weight, model.start_vector, start),
        polish=record,
    )
    shares = integral_shares(part.problem, out, list(coef), part.part)
    return replace(out, shares=shares, sizes=effect_sizes(part.problem, out, part.part))
