"""Bands around effects: from the posterior of a polished model, from bootstrap draws
(`Model.with_bands`), or from the bags of an average.

Does not know how these are made (see fitting/polish, uncertainty/bootstrap_fits.py,
fitting/bags.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from cwboost._utils.checks import check_one_of, is_number
from cwboost._utils.text import quote
from cwboost.frames.columns import Floats
from cwboost.frames.result_table import ResultTable
from cwboost.model.model import Model
from cwboost.model.records import Bands
from cwboost.model.term import Term, find_terms

from .effects import add_outputs, check_points, effect_grid, encode_grid, total_effect

SOURCES = ("bootstrap", "bayesian", "bags", "auto")
LEVEL = 0.95  # of a band, by default
N_DRAWS = 4000  # posterior curves from which the reach of a simultaneous band is found
REACH_POINTS = 100  # points per column at which a simultaneous band holds


class Ends(NamedTuple):
    """The ends of a band, (n, q) each."""

    lower: Floats
    upper: Floats


def band(
    model: Model, which: str, n: int, level: float | None, kind: str, source: str = "auto"
) -> ResultTable:
    """See Model.band."""
    check_points(n, "band")
    check_band(model, level, kind, source)
    terms = find_terms(model.terms, which)
    grid = effect_grid(model, terms, n)
    ends = band_at(model, terms, grid, level, kind, source)
    if _is_edited(model, terms):
        raise ValueError(
            f"band: the effect of {quote(which)} was edited after the fit; it has no band"
        )
    if ends is None:
        raise ValueError(
            f"band: boosting never chose {quote(which)}, so its effect is zero and has no Bayesian "
            "band; model.with_bands(table, y) repeats the choice in bootstrap draws"
        )
    out = ResultTable(zip(terms[0].columns, grid, strict=True))
    blocks = {"effect": total_effect(model, terms, grid), "lower": ends.lower, "upper": ends.upper}
    add_outputs(out, model, blocks)
    return out


def find_source(model: Model, source: str = "auto") -> str | None:
    """Return where the bands of a model come from; None if it has no bands of this source."""
    has = {
        "bootstrap": model.bands is not None,
        "bayesian": model.polish is not None and bool(model.polish.factors),
        "bags": model.bags is not None,
    }
    names = SOURCES[:-1] if source == "auto" else (source,)
    return next((name for name in names if has[name]), None)


def check_band(model: Model, level: Any, kind: Any, source: Any = "auto") -> None:
    """Raise if the model has no band of this level, kind and source."""
    check_one_of("source", source, SOURCES)
    found = find_source(model, source)
    if found is None:
        wanted = "" if source == "auto" else f" of source {quote(source)}"
        remedy = "polish it (cb.polish or polish=), call"
        if model.polished and model.n_outputs > 1:
            remedy = "for several scores, call"
        elif model.polished:
            raise ValueError(
                "band: the effects are too large or too small for single precision; rescale y and "
                "fit again"
            )
        elif model.polish is not None and not model.polished:
            remedy = f"it was not polished ({model.polish.reason}); call"
        raise ValueError(
            f"band: the model does not have bands{wanted}; {remedy} model.with_bands(table, y), or "
            "fit with bags="
        )
    if level is not None and not (is_number(level) and 0.0 < level < 1.0):
        raise ValueError(f"level: expected a number between 0 and 1, got {quote(level)}")
    check_one_of("kind", kind, ("pointwise", "simultaneous"))
    if found == "bags" and (level is not None or kind == "simultaneous"):
        raise ValueError(
            f"{'kind' if level is None else 'level'}: the band of an average of bags goes from the "
            "lowest to the highest bag at each point; call model.with_bands(table, y) for a band "
            "with a level, or for the whole curve"
        )


def band_at(
    model: Model,
    terms: Sequence[Term],
    grid: Sequence[Any],
    level: float | None,
    kind: str,
    source: str = "auto",
) -> Ends | None:
    """Return the band around a sum of terms at values of their columns.

    Return None if the model has no bands, if a term was edited, or if polish had none of the terms.
    """
    if _is_edited(model, terms):
        return None
    found, q = find_source(model, source), model.n_outputs
    if found == "bayesian":
        assert model.polish is not None
        if not any(term.name in model.polish.edf for term in terms):
            return None
        return _posterior_band(model, terms, grid, LEVEL if level is None else level, kind)
    if found == "bootstrap":
        assert model.bands is not None
        level = LEVEL if level is None else level
        center = _effects_with(model.bands.center, terms, grid, (q,))
        draws = _effects_with(model.bands.coef, terms, grid, (len(model.bands), q))
        sd = model.bands.inflation * draws.std(axis=0, ddof=1)
        reach: Any = stdtrit(len(draws) - 1, 0.5 + level / 2)  # Student's t
        if kind == "simultaneous":
            reach = np.maximum(reach, _simultaneous_reach(model, model.bands, terms, level))
        return Ends(center - reach * sd, center + reach * sd)
    if found == "bags":
        assert model.bags is not None
        effects = _effects_with(model.bags.coef, terms, grid, (len(model.bags), q))
        return Ends(effects.min(axis=0), effects.max(axis=0))
    return None


def _is_edited(model: Model, terms: Sequence[Term]) -> bool:
    """Whether one of the terms was edited, alone or together with its column."""
    names = {name for t in terms for name in (t.name, *t.columns[: len(t.columns) == 1])}
    return any(edit.term in names for edit in model.edits)


def band_words(model: Model, level: float | None, kind: str) -> str:
    """Return what a band is, for a legend."""
    source = find_source(model)
    if source == "bags":
        return f"from lowest to highest of {len(model.bags or ())} bags"
    where = "at each point" if kind == "pointwise" else "of the whole curve"
    name = "Bayesian" if source == "bayesian" else source
    return f"{100 * (LEVEL if level is None else level):g}% {name} band {where}"


def _posterior_band(
    model: Model, terms: Sequence[Term], grid: Sequence[Any], level: float, kind: str
) -> Ends:
    """Return the band of a polished model: the effect and multiples of its standard deviation."""
    center = total_effect(model, terms, grid)
    spread = posterior_effects(model, terms, grid)
    sd = np.sqrt(np.sum(spread**2, axis=1, keepdims=True) + _between(model, terms, grid) ** 2)
    reach = float(ndtri(0.5 + level / 2))
    if kind == "simultaneous":
        points = effect_grid(model, terms, REACH_POINTS)
        reach = max(reach, _largest_deviation(posterior_effects(model, terms, points), level))
    return Ends(center - reach * sd, center + reach * sd)


def posterior_effects(model: Model, terms: Sequence[Term], grid: Sequence[Any]) -> Floats:
    """Return (n, r) the effects at values of the columns, as combinations of r standard normals."""
    assert model.polish is not None
    names = {term.name for term in terms}
    parts = [
        _effects_with(factors, terms, grid, next(iter(factors.values())).shape[1:])
        for factors in model.polish.factors.values()
        if not names.isdisjoint(factors)
    ]
    return np.hstack(parts) if parts else np.zeros((len(grid[0]), 1))


def _between(model: Model, terms: Sequence[Term], grid: Sequence[Any]) -> Floats:
    """Return (n, 1) the deviation between the boosted fit and the refit, if both have a weight."""
    assert model.polish is not None
    weight = model.polish.weight
    total = _effects_with(model.polish.differences, terms, grid, (1,))
    return np.asarray(np.sqrt(weight * (1.0 - weight)) * total)


def _largest_deviation(spread: Floats, level: float) -> float:
    """Return how many standard deviations hold a share `level` of posterior curves everywhere."""
    sd = np.sqrt(np.sum(spread**2, axis=1))
    known = sd > 1e-9 * sd.max(initial=0.0)
    draws = np.random.default_rng(0).normal(size=(spread.shape[1], N_DRAWS))
    away = np.abs(spread[known] @ draws) / sd[known, None]
    return float(np.quantile(away.max(axis=0, initial=0.0), level))


def _effects_with(
    coef: Mapping[str, NDArray[Any]],
    terms: Sequence[Term],
    grid: Sequence[Any],
    shape: tuple[int, ...],
) -> Floats:
    """Return (*leading, n, width) the sum of the terms' effects with the given coefficients.

    `shape` is (*leading, width). The coefficients of a term are (*leading, n_coef, width); a term
    without any has no effect. Effects are centred as the model's are.
    """
    *leading, width = shape
    out = np.zeros((*leading, len(grid[0]), width))
    for term, values in zip(terms, encode_grid(terms, grid), strict=True):
        if term.name in coef:
            basis = term.plan.basis
            assert basis.mean is not None
            matrix = np.asarray(basis.matrix(values) - basis.mean)
            out += matrix @ coef[term.name].astype(np.float64)
    return out


def _simultaneous_reach(model: Model, bands: Bands, terms: Sequence[Term], level: float) -> Floats:
    """Return (q,) how many standard deviations hold a share `level` of the draws at all points.

    Each draw is compared with the mean and the deviation of the other draws, in the same way as
    the truth is compared with the mean and the deviation of all draws.
    """
    grid = effect_grid(model, terms, REACH_POINTS)
    draws = _effects_with(bands.coef, terms, grid, (len(bands), model.n_outputs))
    k = len(draws)
    away = np.square(draws - draws.mean(axis=0))
    total = away.sum(axis=0)
    without = (total - away * k / (k - 1)) / (k - 2)
    # Where hardly any draw moves, the ratio says nothing.
    moved = (without > 0) & (total > 1e-6 * total.max(axis=0, keepdims=True))
    ratio = np.divide(away, without, out=np.zeros_like(away), where=moved).max(axis=1) * k / (k - 1)
    return np.asarray(np.quantile(np.sqrt(ratio), level, axis=0))
