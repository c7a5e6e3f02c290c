"""Shapes: effects with everything that is needed to draw them.

Does not know about drawing itself (see plotting, report).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from cwboost.binning.spread import Spread
from cwboost.frames.columns import Floats
from cwboost.model.model import Model
from cwboost.model.records import ColumnFacts
from cwboost.model.term import Term, find_terms

from .bands import band_at, band_words
from .effects import cross, effect_axis, encode_grid, total_effect
from .sizes import level_shares

SURFACE_GRID = 100  # points per numeric column of a surface
MAX_STAIRS = 150  # whole numbers up to which a column is drawn as stairs
MAX_ROWS = 12  # values of a column up to which a surface shows them one by one
OUTSIDE = 0.2  # share of the rows outside of the band, from which on a reason is given
TAIL = 0.005  # share of the rows at either end that may be left out of view ...
TAIL_ROOM = 0.4  # ... if it takes more than this share of the axis


@dataclass(frozen=True, eq=False)
class Band:
    """The band around an effect, at the points of its shape."""

    words: str  # what the band is, for a legend
    reason: str  # why the effect lies outside at many of the rows; empty if it does not
    lower: Floats  # (points, q)
    upper: Floats
    missing: tuple[Floats, Floats] | None  # (q,) both ends for a missing cell


@dataclass(frozen=True, eq=False)
class Shape:
    """An effect, with everything that is needed to draw it. Effects are centred, on the score.

    Attributes
    ----------
    kind : "curve", "levels" or "surface"
        A function of a number (steps have both sides of every cut), of levels, or of two columns.
    columns : names of the columns
    terms : names of the terms added up
    at : per column its numbers or levels, without missing cells (in a surface the level None)
    effect : (points, q), or (points a, points b, q) for a surface
    missing : (q,) effect of a missing cell, or None if training had none
    shares : per column the share of the training rows at each level; None for numbers
    density : (points a, points b) of a surface, 0 where no training row is near; else None
    parts : for several terms, the effect of each, and its effect of a missing cell
    band : Band around the effect; None for a surface, or if the model has no bands
    """

    kind: Literal["curve", "levels", "surface"]
    columns: tuple[str, ...]
    terms: tuple[str, ...]
    at: tuple[Any, ...]
    effect: Floats
    missing: Floats | None
    shares: tuple[Floats | None, ...]
    density: Floats | None = None
    parts: Mapping[str, tuple[Floats, Floats | None]] = field(default_factory=dict)
    band: Band | None = None


def shape(
    model: Model,
    which: str,
    n: int = 200,
    band: str | None = "pointwise",
    level: float | None = None,
    whole: bool = False,
) -> Shape:
    """Return the shape of a term, or of a column (its terms added up).

    Parameters
    ----------
    model : Model
    which : name of a term or column
    n : int
        Points of a curve.
    band : "pointwise", "simultaneous" or None
        Kind of the band, for models that have bands.
    level : float, optional
        Level of the band.
    whole : bool
        Whether a surface shows thin tails of the rows too.

    Examples
    --------
    >>> import cwboost as cb
    >>> found = shape(cb.fit({"g": ["a", "b", "b"] * 9}, [0.0, 1.0, 1.0] * 9, n_iter=200), "g")
    >>> found.kind, found.at[0].tolist(), found.shares[0].round(2)
    ('levels', ['a', 'b'], array([0.33, 0.67]))
    """
    terms = find_terms(model.terms, which)
    if len(terms[0].columns) == 2:
        return _surface(model, terms[0], whole)
    return shape_of(model, terms, n, band, level)


def shape_of(
    model: Model, terms: Sequence[Term], n: int, band: str | None, level: float | None = None
) -> Shape:
    """Return the shape of a sum of terms of one column."""
    column, facts = terms[0].columns[0], model.columns[terms[0].columns[0]]
    axis = _stairs(facts) if any(t.plan.encoders[0].has_steps for t in terms) else None
    grid = [axis if axis is None else np.round(axis)]  # a stair has the effect of its number
    if axis is None:
        axis = effect_axis(facts, terms, column, n)
        grid = [axis]
    missing = np.array([v is None or v != v for v in axis])

    def effects(terms: Sequence[Term]) -> tuple[Floats, Floats | None]:
        return _split_missing(total_effect(model, terms, grid), missing)

    values, at_missing = effects(terms)
    levels = axis.dtype == object
    out = Shape(
        kind="levels" if levels else "curve",
        columns=(column,),
        terms=tuple(t.name for t in terms),
        at=(axis[~missing],),
        effect=values,
        missing=at_missing,
        shares=(level_shares(model, column) if levels else None,),
        parts={t.name: effects([t]) for t in terms if t.chosen} if len(terms) > 1 else {},
    )
    ends = None if band is None else band_at(model, terms, grid, level, band)
    if band is None or ends is None:
        return out
    lower, lower_missing = _split_missing(ends.lower, missing)
    upper, upper_missing = _split_missing(ends.upper, missing)
    outside = (values < lower) | (values > upper)
    reason = _reason(model, outside, _rows_at(out.at[0], out.shares[0], facts.spread))
    missing_ends = None
    if lower_missing is not None and upper_missing is not None:
        missing_ends = (lower_missing, upper_missing)
    words = band_words(model, level, band)
    return replace(out, band=Band(words, reason, lower, upper, missing_ends))


def _split_missing(values: Floats, missing: NDArray[np.bool_]) -> tuple[Floats, Floats | None]:
    """Return the values at the points, and the value of missing cells, if any."""
    return values[~missing], values[missing][0] if missing.any() else None


def _stairs(facts: ColumnFacts) -> Floats | None:
    """Return both ends of the stair of every whole number; None unless the column has only few.

    Steps and curves are added up at the whole numbers, and not in between, where no row is.
    """
    if facts.spread is None or facts.low is None or facts.high is None or facts.boolean:
        return None
    points = np.append(facts.spread.points, [facts.low, facts.high])
    few = 1 <= facts.high - facts.low <= MAX_STAIRS and np.abs(points).max() < 1e9
    if not few or np.any(points != np.round(points)):
        return None
    inner = np.arange(facts.low, facts.high) + 0.5
    # Just below a half and just above it, so that each rounds to its own number.
    ends = np.column_stack([np.nextafter(inner, -np.inf), np.nextafter(inner, np.inf)]).ravel()
    stairs = np.concatenate([[facts.low], ends, [facts.high]])
    return np.append(stairs, np.nan) if facts.missing else stairs


def _surface(model: Model, term: Term, whole: bool) -> Shape:
    axes = [_surface_axis(model.columns[column], term, column, whole) for column in term.columns]
    grid = cross(*axes)
    values = total_effect(model, [term], grid).reshape(len(axes[0]), len(axes[1]), -1)
    near = _density(term, encode_grid([term], grid)[0]).reshape(values.shape[:2])
    shares = tuple(
        level_shares(model, c) if axis.dtype == object else None
        for c, axis in zip(term.columns, axes, strict=True)
    )
    return Shape("surface", term.columns, (term.name,), tuple(axes), values, None, shares, near)


def _surface_axis(facts: ColumnFacts, term: Term, column: str, whole: bool) -> Any:
    if not whole and facts.low is not None and facts.high is not None:
        low, high = view(facts.low, facts.high, facts.spread)
        facts = replace(facts, low=low, high=high)
    axis = effect_axis(facts, [term], column, SURFACE_GRID, SURFACE_GRID)
    if axis.dtype == object:
        return axis
    if facts.spread is not None and 0 < len(facts.spread.points) <= MAX_ROWS:
        return facts.spread.points
    return axis[~((axis < facts.low) | (axis > facts.high))]  # steps may lie beyond


def view(low: float, high: float, spread: Spread | None) -> tuple[float, float]:
    """Return the range that is shown: all of it, without a thin tail that would fill the axis."""
    if spread is None or len(spread.points) < 2:
        return low, high
    reached, last = np.cumsum(spread.shares), len(spread.points) - 1
    first_core = float(spread.points[min(int(np.searchsorted(reached, TAIL)), last)])
    last_core = float(spread.points[min(int(np.searchsorted(reached, 1 - TAIL - 1e-9)), last)])
    room = last_core - first_core
    start, end = low, high
    if first_core - low > TAIL_ROOM * (high - low):
        start = max(low, first_core - 0.05 * room)
    if high - last_core > TAIL_ROOM * (high - low):
        end = min(high, last_core + 0.05 * room)
    return (start, end) if start < end else (low, high)


def _density(term: Term, values: Floats) -> Floats:
    """Return the density of the training rows at encoded values of two columns.

    It is the mean product of the basis functions, 0 where no row is near. For bases whose
    functions reach everywhere it is 1.
    """
    basis = term.plan.basis
    assert basis.mean is not None
    if not basis.has_masses:
        return np.ones(len(values))
    return np.asarray(basis.matrix(values) @ np.abs(basis.mean))


def _reason(model: Model, outside: Any, rows: Floats) -> str:
    """Return why an effect lies outside of its band, if it does so at many of the rows."""
    far = rows @ outside.mean(axis=1) >= OUTSIDE * rows.sum() > 0
    if model.bands is None or model.bands.longer <= 1 or not far:
        return ""
    longer = f"{model.bands.longer:g} times as long"
    return f"outside the shade: the fit stopped early; the shade is of fits {longer}"


def _rows_at(at: Any, shares: Floats | None, spread: Spread | None) -> Floats:
    """Return the weight of the rows that every point of an axis stands for; 1 if not known."""
    out = np.zeros(len(at))
    if shares is not None:
        out[: len(shares)] = shares[: len(at)]
    elif spread is not None and len(at):
        np.add.at(out, np.searchsorted(at[:-1], spread.points), spread.shares)
    return out if out.any() else np.ones(len(at))
