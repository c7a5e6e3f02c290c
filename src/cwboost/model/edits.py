"""Safe editing: one term of a fitted model changed by hand. Knows what may be done to which basis;
knows nothing of rows, so all it weighs by is what the model keeps of them, the mean basis row.

An edit returns a new model and leaves the old one alone. First the mean of the term's effect moves
from the term to the start, which changes no prediction; then its coefficients are changed. What
the new model says (effects, contributions, intercept, files) follows from its coefficients as
ever: effects have mean zero over the training rows, and the intercept takes what that leaves.

The mean row holds the shares of the levels for Category and Step. For splines it holds the mass of
each B-spline, B'W1 / sum(w), which stands in for the Gram matrix B'WB: its rows add up to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from math import ceil, log10
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve
from scipy.optimize import isotonic_regression

from cwboost._utils.checks import is_number, is_whole
from cwboost.binning.min_rows import UNSEEN
from cwboost.explain.effects import _terms_of
from cwboost.explain.effects import effect as effect_table
from cwboost.fitting.pair_systems import PairTask, solve_pairs
from cwboost.fitting.smoothing import Aim, factorize, find_smoothing, spectrum
from cwboost.fitting.systems import core_learner
from cwboost.frames.table import Floats, format_number
from cwboost.terms.bases import (
    Basis,
    BasisRows,
    LevelBasis,
    MarkBasis,
    PowerBasis,
    SplineBasis,
    TensorBasis,
)
from cwboost.terms.encoders import Cuts, Encoder, Levels

from .model import Model
from .records import Edit, EditKind
from .term import Term, with_coefficients

LEAST_SHARE = 1e-9  # of the largest: coefficients without rows follow their neighbours


def apply(model: Model, what: str, term: str, **parameters: Any) -> Model:
    """See Model.edit."""
    if what not in EDITS:
        raise ValueError(f"edit: expected one of {', '.join(map(repr, EDITS))}, got {what!r}")
    return EDITS[what](model, term, **parameters)


# --- the edits ------------------------------------------------------------------------------------


def zero(model: Model, term: str) -> Model:
    """The model without a term, or without all terms of a column.

    The effect becomes zero and the intercept stays. Terms of two columns are named by themselves:
    `zero(model, "age")` leaves "age:income" as it is.

    Examples
    --------
    >>> import cwboost as cb
    >>> model = cb.fit({"g": ["a", "b"] * 9}, [0.0, 1.0] * 9, n_iter=200)
    >>> zero(model, "g").predict({"g": ["a", "b"]}).round(2)
    array([0.5, 0.5])
    """
    terms = _terms_of(model, term)
    shift = sum((t.mean for t in terms), np.zeros(model.n_outputs))
    betas = {t.name: np.zeros_like(t.beta) for t in terms}
    return _edited(model, "zero", term, {}, shift, betas, f"{term!r} set to zero")


def rounded(model: Model, term: str, digits: int = 2) -> Model:
    """The model with round numbers in a term.

    Category and Step: the centred effect of every level is rounded, exactly; binary levels and
    Missing: the difference they make. Spline, Centered and Tensor: the coefficients of the centred
    curve, so that it moves by at most half a unit of the last digit within the training range.
    Linear: the slope, to so many digits that this holds too. Polynomial: the coefficients of
    z, z^2, ..., where z runs from -1 to 1 over the training range.

    The rounded numbers are the new coefficients; `effect` shows them less their common mean.

    Parameters
    ----------
    model : Model
    term : name of a term
    digits : int
        Decimals; negative ones round to tens, hundreds, ...

    Examples
    --------
    >>> import cwboost as cb
    >>> model = cb.fit({"g": ["a", "b", "c"] * 9}, [0.0, 1.0, 3.0] * 9, n_iter=200)
    >>> rounded(model, "g", digits=1).terms["g"].coef
    array([-1.3, -0.3,  1.7])
    """
    if not is_whole(digits) or abs(digits) > 15:
        raise ValueError(f"rounded: digits must be a whole number from -15 to 15, got {digits!r}")
    digits = int(digits)
    found = _single(model, term)
    shift, beta = _centred(found)
    basis = found.plan.basis
    if isinstance(basis, PowerBasis):
        beta = _rounded_powers(basis, beta, digits)
    else:
        beta = _round(beta, digits)
    words = f"{term!r} rounded to {digits} decimal{'s' * (digits != 1)}"
    return _edited(model, "rounded", term, {"digits": digits}, shift, {found.name: beta}, words)


def smoothed(model: Model, term: str, df: float) -> Model:
    """The model with a smoother term: its coefficients refitted to themselves under its penalty.

    The new coefficients minimise (b - b0)' G (b - b0) + lambda b' P b with the term's penalty P and
    the mean row as diagonal G. Splines and steps get smoother and keep their mean; the levels of a
    Category shrink towards their mean, rare ones more.

    Parameters
    ----------
    model : Model
    term : name of a term
        Spline, Centered, Step, Category (not binary), or a Tensor of these.
    df : float
        Degrees of freedom of this smoothing, counted as the term's learner counts its own; lambda
        follows from them. As many as there are coefficients change nothing.

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> x = np.linspace(0, 1, 100)
    >>> model = cb.fit({"x": x}, np.sin(9 * x), n_iter=300)
    >>> bool(np.ptp(smoothed(model, "x", df=3).effect("x")["effect"]) < 1)
    True
    """
    if not is_number(df) or df <= 0:
        raise ValueError(f"smoothed: df must be a finite number > 0, got {df!r}")
    found = _single(model, term)
    basis, learner = found.plan.basis, found.learner
    if not _has_masses(basis):
        raise _cannot(found, "smoothed", "a Spline, Centered, Step, Category or a Tensor of these")
    if isinstance(basis, TensorBasis) and basis.orthogonal:
        return _smoothed_pair(model, found, df)
    masses, penalty = _mean_row(basis), basis.penalty()
    gram = masses if penalty.ndim == 1 else np.diag(masses)
    spec = spectrum(gram, penalty, basis.null_dim, masses)
    smoothing = find_smoothing(spec, df + learner.df_beside, learner.df_kind)
    if np.isnan(smoothing):
        raise ValueError(
            f"smoothed, term {found.name!r}: df must be above "
            f"{basis.null_dim - learner.df_beside:g}, which the penalty leaves free; got {df:g}"
        )
    factor = factorize(gram, penalty, smoothing)
    shift, beta = _centred(found)
    if penalty.ndim == 1:
        beta = (gram / factor)[:, None] * beta
    else:
        beta = np.asarray(cho_solve((factor, True), gram @ beta))
    words = f"{term!r} smoothed to df {df:g}"
    return _edited(model, "smoothed", term, {"df": float(df)}, shift, {found.name: beta}, words)


def _smoothed_pair(model: Model, term: Term, df: float) -> Model:
    """The same for a pair without main effects, which it stays: its learner is fitted to its
    coefficients."""
    masses = _mean_row(term.plan.basis)
    n = len(masses)
    rows = BasisRows(np.arange(n + 1), np.arange(n, dtype=np.int32), np.ones(n))
    free, trace_h = term.plan.basis.null_dim, term.learner.df_kind == "df1"
    aim = Aim(np.nan, float(df), False, trace_h, free)
    system = solve_pairs([PairTask(term.plan.basis, rows, masses, aim)])[0]
    if system is None:
        raise ValueError(
            f"smoothed, term {term.name!r}: df must be above {free:g}, which the penalty leaves "
            f"free; got {df:g}"
        )
    sums = np.ascontiguousarray((masses[:, None] * term.beta).T)
    beta = core_learner(0, rows, system).fit(sums)[0].T
    words = f"{term.name!r} smoothed to df {df:g}"
    edits = {term.name: np.ascontiguousarray(beta)}
    return _edited(model, "smoothed", term.name, {"df": float(df)}, term.mean, edits, words)


def monotone(
    model: Model, term: str, increasing: bool = True, order: Sequence[str | None] | None = None
) -> Model:
    """The model with a term that only rises (or falls), beyond the training range too.

    Spline: isotonic regression of the B-spline coefficients, weighted by their masses; rising
    coefficients make a rising curve. Step and Category: of the effects of the levels, weighted by
    their shares. Linear: a slope of the wrong sign becomes zero. The effect of missing cells stays.

    Parameters
    ----------
    model : Model
    term : name of a term
    increasing : bool
    order : sequence of str, optional
        All levels of a Category from first to last. Needed if they are text in alphabetical
        order, which is no order of their own; else the model's order is taken.

    Examples
    --------
    >>> import cwboost as cb
    >>> model = cb.fit({"g": [1, 2, 3] * 9}, [0.0, 2.0, 1.0] * 9, [cb.Category("g")], n_iter=200)
    >>> monotone(model, "g").effect("g")["effect"].round(2)
    array([-1. ,  0.5,  0.5])
    """
    if not isinstance(increasing, bool | np.bool_):
        raise TypeError(f"monotone: increasing must be True or False, got {increasing!r}")
    found = _single(model, term)
    basis = found.plan.basis
    line = isinstance(basis, PowerBasis) and basis.degree == 1
    curve = isinstance(basis, SplineBasis) and not basis.centered
    if not (line or curve or isinstance(basis, LevelBasis)):
        raise _cannot(found, "monotone", "a Spline, Linear, Step or Category (not binary)")
    if model.n_outputs > 1:
        raise ValueError(
            f"monotone: the {model.loss.name} loss has {model.n_outputs} scores per row, and "
            "monotone scores do not make monotone responses"
        )
    parameters: dict[str, Any] = {"increasing": bool(increasing)}
    shift, beta = _centred(found)
    beta = beta.copy()
    if line:
        beta *= beta[-1] >= 0 if increasing else beta[-1] <= 0
    else:
        at = _in_order(model, found, order)
        if order is not None:
            parameters["order"] = tuple(level for level in order if level is not None)
        masses = np.maximum(_mean_row(basis)[at], LEAST_SHARE * _mean_row(basis).max())
        beta[at, 0] = isotonic_regression(beta[at, 0], weights=masses, increasing=increasing).x
    words = f"{term!r} made {'increasing' if increasing else 'decreasing'}"
    return _edited(model, "monotone", term, parameters, shift, {found.name: beta}, words)


def set_level(model: Model, term: str, level: Any, effect: Any) -> Model:
    """The model with the effect of one level replaced; all other rows keep their scores.

    `effect` is on the scale of `model.effect(term)` as it is now, so that the effect of another
    level can be copied from there. Afterwards the effects of the term are centred anew, which
    moves all of them and the intercept by a constant.

    Parameters
    ----------
    model : Model
    term : name of a term, or of a column with binary levels
    level : str, number or None
        Level of a Category; a number within a step of a Step; None: missing cells, also of a
        Spline that was trained on some.
    effect : float, or (q,) with several outputs

    Examples
    --------
    >>> import cwboost as cb
    >>> model = cb.fit({"g": ["a", "b", "c"] * 9}, [0.0, 1.0, 5.0] * 9, n_iter=200)
    >>> set_level(model, "g", "c", -1.0).predict({"g": ["a", "b", "c"]}).round(2)
    array([0., 1., 1.])
    """
    new = np.atleast_1d(np.asarray(effect, dtype=np.float64))
    if new.shape != (model.n_outputs,) or not np.isfinite(new).all():
        raise ValueError(
            f"set_level: effect must be {model.n_outputs} finite number(s), got {effect!r}"
        )
    terms = _terms_of(model, term)
    found, at = _carrier(model, terms, level)
    old = sum((t.effect_at(_code(t.plan.encoders[0], level))[0] for t in terms), np.zeros(1))
    shift, beta = _centred(found)
    beta = beta.copy()
    literal = len(terms) == 1 and found.plan.basis.ones() is not None
    beta[at] = new if literal else beta[at] + (new - old)
    if level is None:
        which = "missing cells"
    elif isinstance(found.plan.encoders[0], Levels):
        level, which = _text(level), f"level {_text(level)!r}"
    else:
        level, which = float(level), f"the step at {level:g}"
    words = f"{term!r}: effect of {which} set from {_shown(old)} to {_shown(new)}"
    value = float(new[0]) if len(new) == 1 else tuple(map(float, new))
    parameters = {"level": level, "effect": value}
    return _edited(model, "set_level", term, parameters, shift, {found.name: beta}, words)


def unedited(model: Model) -> Model:
    """The model as it was fitted, its coefficients replayed from the path, or averaged anew from
    its bags (without importance).

    Examples
    --------
    >>> import cwboost as cb
    >>> model = cb.fit({"g": ["a", "b"] * 9}, [0.0, 1.0] * 9, n_iter=200)
    >>> unedited(zero(model, "g")).predict({"g": ["a", "b"]}).round(2)
    array([0., 1.])
    """
    if not model.edits:
        return model
    start = model.start_vector - np.sum([edit.shift for edit in model.edits], axis=0)
    if model.bags is not None:
        means = {name: coef.mean(axis=0) for name, coef in model.bags.coef.items()}
        averaged = {name: replace(model.terms[name], beta=beta) for name, beta in means.items()}
        terms: Mapping[str, Term] = MappingProxyType({**model.terms, **averaged})
    else:
        m, optimizer = model.best_iteration, model.optimizer
        terms = with_coefficients(model.terms, model.path, m, optimizer, model)
    return replace(model, terms=terms, start_vector=start, edits=())


EDITS: dict[str, Callable[..., Model]] = {
    "zero": zero,
    "rounded": rounded,
    "smoothed": smoothed,
    "monotone": monotone,
    "set_level": set_level,
}


# --- what they share ------------------------------------------------------------------------------


def _edited(
    model: Model,
    what: EditKind,
    term: str,
    parameters: dict[str, Any],
    shift: Floats,
    betas: dict[str, Floats],
    words: str,
) -> Model:
    """The model with new coefficients and the record of them."""
    terms = dict(model.terms)
    for name, beta in betas.items():
        terms[name] = replace(terms[name], beta=np.ascontiguousarray(beta + 0.0))  # no -0.0
    edited = replace(
        model, terms=MappingProxyType(terms), start_vector=model.start_vector + shift, shares=None
    )
    before, after = _scores(model, term), _scores(edited, term)
    moved = float(np.max(np.abs(after - before), initial=0.0))
    still = moved <= 1e-12 * float(np.max(np.abs(before), initial=0.0))
    by = "no score moves" if still else f"scores move by up to {moved:.3g}"
    record = Edit(what, term, tuple(parameters.items()), tuple(map(float, shift)), f"{words}; {by}")
    return replace(edited, edits=(*model.edits, record))


def _scores(model: Model, term: str) -> Floats:
    """(q, points) intercept plus effect of a term, over its levels or a grid of its range."""
    values = list(effect_table(model, term).values())[-model.n_outputs :]
    return np.asarray(np.atleast_1d(model.intercept)[:, None] + np.array(values))


def _single(model: Model, term: str) -> Term:
    terms = _terms_of(model, term)
    if len(terms) > 1:
        names = ", ".join(repr(t.name) for t in terms[:10]) + ", ..." * (len(terms) > 10)
        raise ValueError(f"column {term!r} has several terms; name one of {names}")
    return terms[0]


def _mean_row(basis: Basis) -> Floats:
    assert basis.mean is not None
    return basis.mean


def _centred(term: Term) -> tuple[Floats, Floats]:
    """The mean of the term and its coefficients without it; zero if it cannot be taken out."""
    constant = term.plan.basis.ones()
    if constant is None:
        return np.zeros(term.beta.shape[1]), term.beta
    return term.mean, term.beta - np.outer(constant, term.mean)


def _has_masses(basis: Basis) -> bool:
    """Whether the mean row stands for the Gram matrix: basis functions that add up to 1."""
    if isinstance(basis, TensorBasis):
        return _has_masses(basis.a) and _has_masses(basis.b)
    return isinstance(basis, SplineBasis | LevelBasis)


def _cannot(term: Term, what: str, expected: str) -> TypeError:
    kind = type(term.learner).__name__
    return TypeError(f"{what}, term {term.name!r}: expected {expected}, got a {kind}")


def _round(values: Floats, digits: int) -> Floats:
    """The nearest decimal numbers; np.round multiplies first, which misses some."""
    return np.array([round(v, digits) for v in values.ravel().tolist()]).reshape(values.shape)


def _rounded_powers(basis: PowerBasis, beta: Floats, digits: int) -> Floats:
    """Rounded slopes, and the constant that keeps the mean at zero."""
    out, slopes = beta.copy(), slice(1 - basis.first, None)
    if basis.degree == 1:  # the slope as people read it: per unit of the column
        exact = digits + ceil(log10(basis.scale))
        out[slopes] = _round(beta[slopes] / basis.scale, exact) * basis.scale
    else:
        out[slopes] = _round(beta[slopes], digits)
    if basis.first == 0:
        out[0] = -_mean_row(basis)[1:] @ out[1:]
    return out


def _in_order(model: Model, term: Term, order: Sequence[str | None] | None) -> NDArray[np.int64]:
    """Positions of the coefficients from first to last, without that of missing cells."""
    encoder, basis = term.plan.encoders[0], term.plan.basis
    if not isinstance(encoder, Levels):
        if order is not None:
            raise ValueError(
                f"monotone, term {term.name!r}: order is for Category; numbers have one"
            )
        n = basis.n_splines if isinstance(basis, SplineBasis) else basis.n_levels  # type: ignore[attr-defined]
        return np.arange(n)
    levels = encoder.levels
    if order is None:
        text = model.columns[term.columns[0]].kind == "labels"
        if text and list(levels) == sorted(levels):
            raise ValueError(
                f"monotone, term {term.name!r}: its levels are text in alphabetical order; pass "
                f"order=, all of them from first to last: {_some(levels)}"
            )
        return np.arange(len(levels))
    wanted = [_text(level) for level in order if level is not None]
    if sorted(wanted) != sorted(levels):
        raise ValueError(
            f"monotone, term {term.name!r}: order must name every level once ({_some(levels)}), "
            f"got {_some(wanted)}"
        )
    return np.array([levels.index(level) for level in wanted])


# --- levels ---------------------------------------------------------------------------------------


def _text(level: Any) -> str:
    """A level as the model spells it."""
    if isinstance(level, bool | np.bool_) or is_number(level):
        return format_number(float(level), isinstance(level, bool | np.bool_))
    return str(level)


def _code(encoder: Encoder, level: Any) -> Floats:
    """(1,) what the basis is evaluated at."""
    if level is None:
        return np.array([np.nan])
    if isinstance(encoder, Levels):
        text = _text(level)
        code = encoder.levels.index(text) if text in encoder.levels else UNSEEN
        return np.array([code], dtype=np.float64)
    number = np.array([{"True": 1.0, "False": 0.0}.get(_text(level), level)], dtype=np.float64)
    if isinstance(encoder, Cuts):
        return np.searchsorted(encoder.cuts, number).astype(np.float64)
    return number


def _position(term: Term, level: Any) -> int | None:
    """Which coefficient of the term is the level's own; None: there is none."""
    if len(term.columns) > 1:
        return None
    basis, encoder = term.plan.basis, term.plan.encoders[0]
    if isinstance(basis, SplineBasis | LevelBasis) and level is None:
        return basis.n_coef - 1 if basis.missing else None
    numeric = not isinstance(encoder, Levels)
    if level is not None and numeric and not is_number(level):
        return None
    code = _code(encoder, level)[0]
    if isinstance(basis, LevelBasis):
        return int(code) if code >= 0 else None
    if isinstance(basis, MarkBasis):
        own = np.isnan(code) if basis.level is None else code == basis.level
        return 0 if own else None
    return None


def _carrier(model: Model, terms: list[Term], level: Any) -> tuple[Term, int]:
    """The term, and the number of its coefficient, that a level's effect is in."""
    for term in terms:
        at = _position(term, level)
        if at is not None:
            return term, at
    name = terms[0].name if len(terms) == 1 else terms[0].columns[0]
    if level is None and len(terms[0].columns) == 1:
        facts = model.columns[terms[0].columns[0]]
        why = "the term cannot show them" if facts.missing else "training had none"
        raise ValueError(f"set_level, {name!r}: missing cells have no effect of their own; {why}")
    encoder = terms[0].plan.encoders[0]
    if len(terms[0].columns) > 1 or not isinstance(encoder, Levels | Cuts):
        raise _cannot(terms[0], "set_level", "a term with levels (Category or Step)")
    if isinstance(encoder, Cuts):
        raise ValueError(f"set_level, {name!r}: expected a number within a step, got {level!r}")
    near = get_close_matches(_text(level), encoder.levels, 3)
    remedy = f"did you mean {_some(near)}?" if near else f"there are {_some(encoder.levels)}"
    raise ValueError(f"set_level, {name!r}: no level {level!r}; {remedy}")


def _some(words: Sequence[str]) -> str:
    return ", ".join(map(repr, words[:10])) + ", ..." * (len(words) > 10)


def _shown(values: Floats) -> str:
    texts = [f"{v:.4g}" for v in values + 0.0]
    return texts[0] if len(texts) == 1 else f"({', '.join(texts)})"
