"""Edits: one term of a fitted model changed by hand.

An edit returns a new model and leaves the old one unchanged. First the mean of the term's effect
moves from the term to the start, which changes no prediction; then the coefficients are changed.
Effects, contributions, the intercept and files follow from the coefficients as always: effects
have mean zero over the training rows, and the intercept takes up the difference.

The model keeps no rows, so edits weigh by the mean row of the basis. For Category and Step it
holds the shares of the levels. For splines it holds the mass of each B-spline, B'W1 / sum(w), and
stands for the Gram matrix B'WB, whose rows add up to it.

To add an edit, write a function that returns `apply_change(...)` and add it to `EDITS`. What may be
done to a basis is asked of the basis (terms/bases/base.py).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import replace
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve
from scipy.optimize import isotonic_regression

from cwboost._utils.checks import as_real, check_one_of, check_whole, is_flag, is_number
from cwboost._utils.text import quote, quote_names
from cwboost._utils.unknown_arguments import check_keywords
from cwboost.frames.columns import Floats
from cwboost.terms.bases import Basis, BasisRows
from cwboost.terms.encoders import level_text

from .model import Model, check_model
from .records import Edit, Sizes
from .term import Term, averaged, column_groups, find_terms, with_coefficients

LEAST_SHARE = 1e-9  # of the largest mass; coefficients without rows follow their neighbours


def apply(model: Model, what: str, term: str, **parameters: Any) -> Model:
    """See Model.edit."""
    check_one_of("edit", what, EDITS)
    check_keywords(f"edit {quote(what)}", EDITS[what], parameters)
    return EDITS[what](model, term, **parameters)


# --- the edits ------------------------------------------------------------------------------------


def zero(model: Model, term: str) -> Model:
    """Return the model without a term, or without all terms of a column.

    The effect becomes zero and the intercept stays. Terms of two columns must be named
    themselves: `zero(model, "age")` leaves "age:income" as it is.

    Examples
    --------
    >>> import cwboost as cb
    >>> model = cb.fit({"g": ["a", "b"] * 9}, [0.0, 1.0] * 9, n_iter=200)
    >>> zero(model, "g").predict({"g": ["a", "b"]}).round(2)
    array([0.5, 0.5])
    """
    check_model(model, "zero")
    terms = find_terms(model.terms, term)
    shift = sum((t.mean for t in terms), np.zeros(model.n_outputs))
    betas = {t.name: np.zeros_like(t.beta) for t in terms}
    change = Change({}, shift, betas, f"{term!r} set to zero")
    return apply_change(model, "zero", term, change)


def rounded(model: Model, term: str, digits: int = 2) -> Model:
    """Return the model with rounded coefficients of a term.

    - Category and Step: the centred effect of every level is rounded, exactly.
    - Binary levels and Missing: the difference that they make is rounded.
    - Spline, Centered and Tensor: the coefficients of the centred curve are rounded, so that it
      moves by at most half a unit of the last digit within the training range.
    - Linear: the slope is rounded, to enough digits that the same holds.
    - Polynomial: the coefficients of z, z^2, ... are rounded, where z runs from -1 to 1 over the
      training range.

    The rounded numbers are the new coefficients; `effect` shows them minus their mean.

    Parameters
    ----------
    model : Model
    term : name of a term
    digits : int
        Number of decimals; -1 rounds to tens, -2 to hundreds.

    Examples
    --------
    >>> import cwboost as cb
    >>> model = cb.fit({"g": ["a", "b", "c"] * 9}, [0.0, 1.0, 3.0] * 9, n_iter=200)
    >>> rounded(model, "g", digits=1).terms["g"].coef
    array([-1.3, -0.3,  1.7])
    """
    check_model(model, "rounded")
    check_whole("rounded: digits", digits, -15, 15)
    digits = int(digits)
    found = _single(model, term)
    shift, beta = _centred(found)
    beta = found.plan.basis.rounded(beta, digits)
    words = f"{term!r} rounded to {digits} decimal{'s' * (digits != 1)}"
    change = Change({"digits": digits}, shift, {found.name: beta}, words)
    return apply_change(model, "rounded", term, change)


def smoothed(model: Model, term: str, df: float) -> Model:
    """Return the model with a smoother term: its coefficients, penalised once more.

    The new coefficients minimise (b - b0)' G (b - b0) + lambda b' P b, where b0 are the old ones, P
    is the term's penalty and the diagonal of G is the mean row. Splines and steps get smoother and
    keep their mean. The levels of a Category shrink towards their mean, rare levels more.

    Parameters
    ----------
    model : Model
    term : name of a term
        Spline, Centered, Step, Category (not binary), or a Tensor of these.
    df : float
        Degrees of freedom of this smoothing, counted as the term's learner counts its own. They
        determine lambda. With as many df as coefficients nothing changes.

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> x = np.linspace(0, 1, 100)
    >>> model = cb.fit({"x": x}, np.sin(9 * x), n_iter=300)
    >>> bool(np.ptp(smoothed(model, "x", df=3).effect("x")["effect"]) < 1)
    True
    """
    check_model(model, "smoothed")
    from cwboost.fitting.smoothing import factorize, find_smoothing, spectrum

    if not is_number(df) or df <= 0:
        raise ValueError(f"smoothed: df must be a finite number > 0, got {quote(df)}")
    found = _single(model, term)
    basis, learner = found.plan.basis, found.learner
    if not basis.has_masses:
        raise _cannot(found, "smoothed", "a Spline, Centered, Step, Category or a Tensor of these")
    if basis.is_interaction:
        return _smoothed_pair(model, found, df)
    masses, penalty = _mean_row(basis), basis.penalty()
    gram = masses if penalty.ndim == 1 else np.diag(masses)
    free = basis.least_df  # the effect of missing cells stays
    spec = spectrum(gram, penalty, free, masses)
    smoothing = find_smoothing(spec, df + learner.removed_df, learner.df_kind)
    if np.isnan(smoothing):
        raise ValueError(
            f"smoothed, term {quote(found.name)}: df must be above "
            f"{free - learner.removed_df:g}, the dimensions that the penalty leaves "
            f"free; got {df:g}"
        )
    factor = factorize(gram, penalty, smoothing, spec)
    shift, beta = _centred(found)
    if penalty.ndim == 1:
        beta = (gram / factor)[:, None] * beta
    else:
        beta = np.asarray(cho_solve((factor, True), gram @ beta))
    words = f"{term!r} smoothed to df {df:g}"
    change = Change({"df": float(df)}, shift, {found.name: beta}, words)
    return apply_change(model, "smoothed", term, change)


def _smoothed_pair(model: Model, term: Term, df: float) -> Model:
    """Smooth an interaction by fitting its learner to its coefficients; it stays orthogonal."""
    from cwboost.fitting.pair_systems import PairTask, solve_pairs
    from cwboost.fitting.smoothing import SmoothingTarget
    from cwboost.fitting.systems import core_learner

    masses = _mean_row(term.plan.basis)
    n = len(masses)
    rows = BasisRows(np.arange(n + 1), np.arange(n, dtype=np.int32), np.ones(n))
    free, trace_h = term.plan.basis.null_dim, term.learner.df_kind == "df1"
    target = SmoothingTarget(np.nan, float(df), False, trace_h, free)
    system = solve_pairs([PairTask(term.plan.basis, rows, masses, target)])[0]
    if system is None:
        raise ValueError(
            f"smoothed, term {quote(term.name)}: df must be above {free:g}, the dimensions that "
            f"the penalty leaves free; got {df:g}"
        )
    sums = np.ascontiguousarray((masses[:, None] * term.beta).T)
    beta = core_learner(0, rows, system).fit(sums)[0].T
    words = f"{term.name!r} smoothed to df {df:g}"
    edits = {term.name: np.ascontiguousarray(beta)}
    change = Change({"df": float(df)}, term.mean, edits, words)
    return apply_change(model, "smoothed", term.name, change)


def monotone(
    model: Model, term: str, increasing: bool = True, order: Sequence[str | None] | None = None
) -> Model:
    """Return the model with a term that only rises (or falls), also beyond the training range.

    - Spline: isotonic regression of the B-spline coefficients, weighted by their masses; rising
      coefficients make a rising curve.
    - Step and Category: isotonic regression of the effects of the levels, weighted by their shares.
    - Linear: a slope of the wrong sign becomes zero.

    The effect of missing cells stays.

    Parameters
    ----------
    model : Model
    term : name of a term
    increasing : bool
    order : sequence of str, optional
        All levels of a Category from first to last. Required if the levels are text in
        alphabetical order, which does not tell their rank; by default the model's order.

    Examples
    --------
    >>> import cwboost as cb
    >>> model = cb.fit({"g": [1, 2, 3] * 9}, [0.0, 2.0, 1.0] * 9, [cb.Category("g")], n_iter=200)
    >>> monotone(model, "g").effect("g")["effect"].round(2)
    array([-1. ,  0.5,  0.5])
    """
    check_model(model, "monotone")
    if not is_flag(increasing):
        raise TypeError(f"monotone: increasing must be True or False, got {quote(increasing)}")
    found = _single(model, term)
    basis = found.plan.basis
    slope, ordered = basis.slope, basis.ordered()
    if slope is None and ordered is None:
        raise _cannot(found, "monotone", "a Spline, Linear, Step or Category (not binary)")
    if model.n_outputs > 1:
        raise ValueError(
            f"monotone: the {model.loss.name} loss has {model.n_outputs} scores per row, and "
            "monotone scores do not make monotone responses"
        )
    parameters: dict[str, Any] = {"increasing": bool(increasing)}
    shift, beta = _centred(found)
    beta = beta.copy()
    if slope is not None:
        beta *= beta[slope] >= 0 if increasing else beta[slope] <= 0
    elif ordered is not None:
        at = ordered[_ranks(model, found, order, len(ordered))]
        if order is not None:
            parameters["order"] = tuple(level for level in order if level is not None)
        masses = np.maximum(_mean_row(basis)[at], LEAST_SHARE * _mean_row(basis).max())
        beta[at, 0] = isotonic_regression(beta[at, 0], weights=masses, increasing=increasing).x
    words = f"{term!r} made {'increasing' if increasing else 'decreasing'}"
    change = Change(parameters, shift, {found.name: beta}, words)
    return apply_change(model, "monotone", term, change)


def set_level(model: Model, term: str, level: Any, effect: Any) -> Model:
    """Return the model with the effect of one level replaced; other rows keep their scores.

    `effect` is on the scale of `model.effect(term)` before the edit, so that the effect of another
    level can be copied from there. Afterwards the effects of the term are centred again, which
    moves all of them and the intercept by a constant.

    Parameters
    ----------
    model : Model
    term : name of a term, or of a column with binary levels
    level : str, number or None
        A level of a Category, a number within a step of a Step, or None for missing cells (also of
        a Spline whose training rows had some).
    effect : float, or (q,) with several outputs

    Examples
    --------
    >>> import cwboost as cb
    >>> model = cb.fit({"g": ["a", "b", "c"] * 9}, [0.0, 1.0, 5.0] * 9, n_iter=200)
    >>> set_level(model, "g", "c", -1.0).predict({"g": ["a", "b", "c"]}).round(2)
    array([0., 1., 1.])
    """
    check_model(model, "set_level")
    try:
        new = np.atleast_1d(as_real(effect))
    except (TypeError, ValueError):
        new = np.array([np.nan])
    if new.shape != (model.n_outputs,) or not np.isfinite(new).all():
        raise ValueError(
            f"set_level: effect must be {model.n_outputs} finite number(s), got {quote(effect)}"
        )
    terms = find_terms(model.terms, term)
    found, at = _carrier(model, terms, level)
    old = sum((_effect_of(t, level) for t in terms), np.zeros(1))
    shift, beta = _centred(found)
    beta = beta.copy()
    literal = len(terms) == 1 and found.plan.basis.ones() is not None
    beta[at] = new if literal else beta[at] + (new - old)
    if level is None:
        which = "missing cells"
    elif found.plan.encoders[0].is_numeric:
        level, which = float(level), f"the step at {level:g}"
    else:
        level, which = level_text(level), f"level {level_text(level)!r}"
    words = f"{term!r}: effect of {which} set from {_shown(old)} to {_shown(new)}"
    value = float(new[0]) if len(new) == 1 else tuple(map(float, new))
    parameters = {"level": level, "effect": value}
    change = Change(parameters, shift, {found.name: beta}, words)
    return apply_change(model, "set_level", term, change)


def unedited(model: Model) -> Model:
    """Return the model as it was fitted, without its importance.

    Its coefficients are replayed from the path, or averaged again from its bags. A polished model
    returns to its boosted fit; `cb.polish` polishes it again.

    Examples
    --------
    >>> import cwboost as cb
    >>> model = cb.fit({"g": ["a", "b"] * 9}, [0.0, 1.0] * 9, n_iter=200)
    >>> unedited(zero(model, "g")).predict({"g": ["a", "b"]}).round(2)
    array([0., 1.])
    """
    check_model(model, "unedited")
    if not model.edits:
        return model
    start = model.start_vector - np.sum([edit.shift for edit in model.edits], axis=0)
    if model.polish is not None and model.polish.on_all_rows:
        return replace(model, edits=()).boosted
    if model.bags is None:
        terms = with_coefficients(model, model.path, model.best_iteration)
    else:
        terms = averaged(model)
    return replace(model, terms=terms, start_vector=start, edits=())


EDITS: dict[str, Callable[..., Model]] = {
    edit.__name__: edit for edit in (zero, rounded, smoothed, monotone, set_level)
}


# --- shared by the edits --------------------------------------------------------------------------


class Change(NamedTuple):
    """What an edit changes."""

    parameters: dict[str, Any]  # of the edit, as the record stores them
    shift: Floats  # (q,) what moves from the terms to the start
    betas: dict[str, Floats]  # new coefficients by term
    words: str  # what was done


def apply_change(model: Model, what: str, term: str, change: Change) -> Model:
    """Return the model with new coefficients, and a record of the edit `what` of a term."""
    terms = dict(model.terms)
    for name, beta in change.betas.items():
        terms[name] = replace(terms[name], beta=np.ascontiguousarray(beta + 0.0))  # no -0.0
    start = model.start_vector + change.shift
    edited = replace(
        model,
        terms=MappingProxyType(terms),
        start_vector=start,
        shares=None,
        sizes=_other_sizes(model, change.betas),
    )
    before, after = _scores(model, term), _scores(edited, term)
    moved = float(np.max(np.abs(after - before), initial=0.0))
    still = moved <= 1e-12 * float(np.max(np.abs(before), initial=0.0))
    by = "no score moves" if still else f"scores move by up to {moved:.3g}"
    parameters, shift = tuple(change.parameters.items()), tuple(map(float, change.shift))
    record = Edit(what, term, parameters, shift, f"{change.words}; {by}")
    return replace(edited, edits=(*model.edits, record))


def _other_sizes(model: Model, edited: Container[str]) -> Sizes | None:
    """Return the stored sizes of the terms and columns that an edit does not change."""
    if model.sizes is None:
        return None
    groups = column_groups(model.terms)
    return model.sizes.without(edited, {groups[name] for name in model.terms if name in edited})


def _scores(model: Model, term: str) -> Floats:
    """Return (q, points) intercept plus effect of a term, at its levels or a grid of its range."""
    values = list(model.effect(term).values())[-model.n_outputs :]
    return np.asarray(model.intercept_vector[:, None] + np.array(values))


def _single(model: Model, term: str) -> Term:
    terms = find_terms(model.terms, term)
    if len(terms) > 1:
        names = quote_names([t.name for t in terms])
        raise ValueError(f"column {quote(term)} has several terms; name one of {names}")
    return terms[0]


def _mean_row(basis: Basis) -> Floats:
    assert basis.mean is not None
    return basis.mean


def _centred(term: Term) -> tuple[Floats, Floats]:
    """Return the mean of the term and its coefficients without it.

    The mean is zero if the basis has no constant from which it could be subtracted.
    """
    constant = term.plan.basis.ones()
    if constant is None:
        return np.zeros(term.beta.shape[1]), term.beta
    return term.mean, term.beta - np.outer(constant, term.mean)


def _cannot(term: Term, what: str, expected: str) -> TypeError:
    kind = type(term.learner).__name__
    return TypeError(f"{what}, term {quote(term.name)}: expected {expected}, got a {kind}")


# --- levels ---------------------------------------------------------------------------------------


def _ranks(
    model: Model, term: Term, order: Sequence[str | None] | None, n: int
) -> NDArray[np.intp]:
    """Return the positions, among n ordered coefficients, from first to last."""
    levels = term.plan.encoders[0].levels
    if not levels:
        if order is not None:
            raise ValueError(
                f"monotone, term {quote(term.name)}: order= applies to levels only; numbers have "
                "an order of their own"
            )
        return np.arange(n)
    if order is None:
        text = model.columns[term.columns[0]].kind == "labels"
        if text and list(levels) == sorted(levels):
            raise ValueError(
                f"monotone, term {quote(term.name)}: its levels are text in alphabetical order; "
                f"pass order= with all of them from first to last: {quote_names(levels)}"
            )
        return np.arange(n)
    wanted = [level_text(level) for level in order if level is not None]
    if sorted(wanted) != sorted(levels):
        raise ValueError(
            f"monotone, term {quote(term.name)}: order must name every level once "
            f"({quote_names(levels)}), got {quote_names(wanted)}"
        )
    return np.array([levels.index(level) for level in wanted])


def _effect_of(term: Term, level: Any) -> Floats:
    """Return (q,) the effect of one cell."""
    code = term.plan.encoders[0].code_of(level)
    return np.asarray(term.effect_at(np.array([code], dtype=np.float64))[0])


def _own_coef(term: Term, level: Any) -> int | None:
    """Return the position of the coefficient of one level alone; None if others share it."""
    encoder = term.plan.encoders[0]
    if len(term.columns) > 1 or (encoder.is_numeric and level is not None and not is_number(level)):
        return None
    code = encoder.code_of(level)
    return None if code is None else term.plan.basis.own_coef(code)


def _carrier(model: Model, terms: Sequence[Term], level: Any) -> tuple[Term, int]:
    """Return the term that holds the effect of a level, and the position of its coefficient."""
    for term in terms:
        at = _own_coef(term, level)
        if at is not None:
            return term, at
    name = terms[0].name if len(terms) == 1 else terms[0].columns[0]
    if level is None and len(terms[0].columns) == 1:
        facts = model.columns[terms[0].columns[0]]
        why = "the term cannot show them" if facts.missing else "training had none"
        raise ValueError(
            f"set_level, {quote(name)}: missing cells have no effect of their own; {why}"
        )
    encoder = terms[0].plan.encoders[0]
    if len(terms[0].columns) > 1 or not encoder.is_coded:
        raise _cannot(terms[0], "set_level", "a term with levels (Category or Step)")
    if encoder.has_steps:
        raise ValueError(
            f"set_level, {quote(name)}: expected a number within a step, got {quote(level)}"
        )
    near = get_close_matches(level_text(level), encoder.levels, 3)
    remedy = (
        f"did you mean {quote_names(near)}?" if near else f"there are {quote_names(encoder.levels)}"
    )
    raise ValueError(f"set_level, {quote(name)}: there is no level {quote(level)}; {remedy}")


def _shown(values: Floats) -> str:
    texts = [f"{v:.4g}" for v in values + 0.0]
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
