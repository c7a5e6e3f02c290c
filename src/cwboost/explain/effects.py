"""What a model says, as plain tables: effects, importance, and the summary in words.

Knows grids and sums over terms; knows nothing of drawing (plots) or of how a model is made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from scipy.special import stdtrit

from cwboost import _core
from cwboost._utils.checks import is_number, is_whole
from cwboost.binning.min_rows import UNSEEN
from cwboost.binning.spread import Spread
from cwboost.binning.weights import as_part
from cwboost.fitting.input_data import read_weights, read_y
from cwboost.frames.table import Floats, Labels, Numbers, read
from cwboost.model.model import Model
from cwboost.model.records import Bags, Bands, ColumnFacts
from cwboost.model.term import Term
from cwboost.terms.bases import Basis, LevelBasis, MarkBasis, SplineBasis, TensorBasis
from cwboost.terms.encoders import Cuts, Levels, Values

TENSOR_GRID = 40  # points per numeric axis
SURFACE_GRID = 100  # the same in a picture
MAX_STAIRS = 150  # whole numbers that are drawn one by one
MAX_ROWS = 12  # so few values of a column are shown one by one on a surface
BAR = 24  # characters of the longest bar
LEVEL = 0.95  # of a band, if nothing else is said
OUTSIDE = 0.2  # share of the rows whose effect is outside of its band: then it is said why
TAIL = 0.005  # share of the rows at either end that may be left out of view ...
TAIL_ROOM = 0.4  # ... if it takes more than this share of the axis
BAND_GRID = 100  # points per column at which a band holds all draws at once


class Columns(dict[str, Any]):
    """A table as a dict of arrays that shows itself as a table; any data frame is made of it."""

    def __repr__(self) -> str:
        names = list(self)
        if not names:
            return "(no columns)"
        n = len(self[names[0]])
        if any(np.ndim(self[name]) != 1 for name in names):
            return dict.__repr__(self)
        rows = list(range(n)) if n <= 10 else [*range(5), None, *range(n - 5, n)]
        cells = [names] + [
            ["..."] * len(names) if i is None else [_cell(self[name][i]) for name in names]
            for i in rows
        ]
        widths = [max(len(line[j]) for line in cells) for j in range(len(names))]
        lines = ["  ".join(c.rjust(w) for c, w in zip(line, widths, strict=True)) for line in cells]
        return "\n".join([*lines, f"({n} rows)"])


def _cell(value: Any) -> str:
    if value is None:
        return "(missing)"
    return f"{value:.5g}" if isinstance(value, float | np.floating) else str(value)


# --- effects --------------------------------------------------------------------------------------


def effect(model: Model, which: str, n: int = 200) -> Columns:
    """See Model.effect."""
    if not is_whole(n) or n < 2:
        raise ValueError(f"effect: n must be a whole number of at least 2, got {n!r}")
    terms = _terms_of(model, which)
    axes = _grid(model, terms, n)
    out = Columns(zip(terms[0].columns, axes, strict=True))
    _add(out, model, {"effect": _total(model, terms, axes)})
    return out


def _grid(model: Model, terms: list[Term], n: int) -> list[Any]:
    """Per column the values of all points at which an effect is shown."""
    columns = terms[0].columns
    axes = [_axis(model.columns[c], [t for t in terms if c in t.columns], c, n) for c in columns]
    if len(axes) == 1:
        return axes
    i, j = np.divmod(np.arange(len(axes[0]) * len(axes[1])), len(axes[1]))
    return [axes[0][i], axes[1][j]]


def _add(out: Columns, model: Model, blocks: Mapping[str, Floats]) -> None:
    """Adds blocks (n, q) to a table, a column per output."""
    for o in range(model.n_outputs):
        label = model.classes[o] if model.classes else o
        for name, block in blocks.items():
            key = name if model.n_outputs == 1 else f"{name}[{label}]"
            while key in out:  # a column of this name
                key += "_"
            out[key] = block[:, o]


def _total(model: Model, terms: list[Term], axes: list[Any]) -> Floats:
    """(n, q) sum of the terms' effects at values of their columns."""
    total = np.zeros((len(axes[0]), model.n_outputs))
    for term, values in zip(terms, _encoded(terms, axes), strict=True):
        total = total + term.effect_at(values)
    return total


def _encoded(terms: list[Term], axes: list[Any]) -> list[Floats]:
    """Values of the columns of terms as each of them encodes them."""
    columns = terms[0].columns
    grid = {name: _as_column(axis, name) for name, axis in zip(columns, axes, strict=True)}
    return [term.plan.encode([grid[c] for c in term.columns]) for term in terms]


def _terms_of(model: Model, which: str) -> list[Term]:
    if which in model.terms:
        return [model.terms[which]]
    found = [t for t in model.terms.values() if t.columns == (which,)]
    if not found:
        names = list(model.terms)
        shown = ", ".join(map(repr, names[:10])) + ", ..." * (len(names) > 10)
        raise ValueError(f"no term or column {which!r}; the model has {shown or 'none'}")
    return found


def _axis(
    facts: ColumnFacts, terms: list[Term], column: str, n: int, most: int = TENSOR_GRID
) -> Any:
    """Where the effect is shown: levels, or points from the least to the largest value."""
    encoders = [t.plan.encoders[t.columns.index(column)] for t in terms]
    levels = [e for e in encoders if isinstance(e, Levels) and e.levels]
    if levels and not any(isinstance(e, Values | Cuts) for e in encoders):
        labels: list[str | None] = [*levels[0].levels, *([None] * facts.missing)]
        return np.array(labels, dtype=object)
    if facts.low is None or facts.high is None:
        return np.array([np.nan])
    if len(terms[0].columns) == 2:
        points = np.linspace(facts.low, facts.high, min(n, most))
    elif all(isinstance(e, Cuts) for e in encoders):
        points = np.array([facts.low, facts.high])  # the steps' ends say it all
    else:
        points = np.linspace(facts.low, facts.high, n)
    for encoder in encoders:
        if isinstance(encoder, Cuts):  # both sides of every step
            cuts = np.array(encoder.cuts)
            points = np.unique(np.concatenate([points, cuts, np.nextafter(cuts, np.inf)]))
    return np.append(points, np.nan) if facts.missing and len(terms[0].columns) == 1 else points


def _as_column(axis: Any, name: str) -> Numbers | Labels:
    if axis.dtype != object:
        return Numbers(name, axis)
    levels = tuple(dict.fromkeys(v for v in axis if v is not None))
    position = {level: i for i, level in enumerate(levels)}
    return Labels(name, np.array([position.get(v, -1) for v in axis], dtype=np.int64), levels)


# --- bands ----------------------------------------------------------------------------------------


def band(model: Model, which: str, n: int, level: float | None, kind: str) -> Columns:
    """See Model.band."""
    if not is_whole(n) or n < 2:
        raise ValueError(f"band: n must be a whole number of at least 2, got {n!r}")
    check_band(model, level, kind)
    terms = _terms_of(model, which)
    axes = _grid(model, terms, n)
    found = band_at(model, terms, axes, level, kind)
    if found is None:
        raise ValueError(f"band: the effect of {which!r} was edited after the fit; it has no band")
    out = Columns(zip(terms[0].columns, axes, strict=True))
    _add(out, model, {"effect": _total(model, terms, axes), "lower": found[0], "upper": found[1]})
    return out


def band_at(
    model: Model, terms: list[Term], axes: list[Any], level: float | None, kind: str
) -> tuple[Floats, Floats] | None:
    """(n, q) ends of the band around a sum of terms at values of their columns; None: there is
    none, or a term was edited."""
    names = {name for t in terms for name in (t.name, *t.columns[: len(t.columns) == 1])}
    if any(edit.term in names for edit in model.edits):
        return None
    if model.bands is not None:
        level = LEVEL if level is None else level
        center, draws = _replicates(model, model.bands, terms, axes)
        sd = model.bands.inflation * draws.std(axis=0, ddof=1)
        reach: Any = stdtrit(len(draws) - 1, 0.5 + level / 2)  # Student's t
        if kind == "simultaneous":
            reach = np.maximum(reach, _reach(model, terms, level))
        return center - reach * sd, center + reach * sd
    if model.bags is not None:
        _, draws = _replicates(model, model.bags, terms, axes)
        return draws.min(axis=0), draws.max(axis=0)
    return None


def band_words(model: Model, level: float | None, kind: str) -> str:
    """What a band is, for a legend."""
    if model.bands is None:
        return f"from lowest to highest of {len(model.bags or ())} bags"
    where = "at each point" if kind == "pointwise" else "of the whole curve"
    return f"{100 * (LEVEL if level is None else level):g}% bootstrap band {where}"


def _reason(model: Model, outside: Any, rows: Floats) -> str:
    """Why an effect lies outside of its band, if it does so at many of the rows."""
    far = rows @ outside.mean(axis=1) >= OUTSIDE * rows.sum() > 0
    if model.bands is None or model.bands.longer <= 1 or not far:
        return ""
    longer = f"{model.bands.longer:g} times as long"
    return f"outside the shade: the fit stopped early; the shade is of fits {longer}"


def _rows_at(at: Any, shares: Floats | None, spread: Spread | None) -> Floats:
    """How many rows every point of an axis stands for; all alike if that is not known."""
    out = np.zeros(len(at))
    if shares is not None:
        out[: len(shares)] = shares[: len(at)]
    elif spread is not None and len(at):
        np.add.at(out, np.searchsorted(at[:-1], spread.points), spread.shares)
    return out if out.any() else np.ones(len(at))


def check_band(model: Model, level: Any, kind: Any) -> None:
    """Whether there can be such a band."""
    if model.bands is None and model.bags is None:
        raise ValueError(
            "band: the model does not know how certain its effects are; call "
            "model.with_bands(table, y), or fit with bags="
        )
    if level is not None and not (is_number(level) and 0.0 < level < 1.0):
        raise ValueError(f"level: expected a number between 0 and 1, got {level!r}")
    if kind not in ("pointwise", "simultaneous"):
        raise ValueError(f"kind must be 'pointwise' or 'simultaneous', got {kind!r}")
    if model.bands is None and (level is not None or kind == "simultaneous"):
        raise ValueError(
            f"{'kind' if level is None else 'level'}: the band of an average of bags goes from the "
            "lowest to the highest of them at each point; call model.with_bands(table, y) for one "
            "of a level, or of the whole curve"
        )


def _replicates(
    model: Model, of: Bands | Bags, terms: list[Term], axes: list[Any]
) -> tuple[Floats, Floats]:
    """(n, q) the middle and (replicates, n, q) the effects of all replicates, centred as the
    model's."""
    n, q = len(axes[0]), model.n_outputs
    center, draws = np.zeros((n, q)), np.zeros((len(of), n, q))
    for term, values in zip(terms, _encoded(terms, axes), strict=True):
        if term.name in of.coef:
            basis = term.plan.basis
            assert basis.mean is not None
            matrix = np.asarray(basis.matrix(values) - basis.mean)
            middle = of.center[term.name] if isinstance(of, Bands) else term.beta
            center += matrix @ middle
            draws += matrix @ of.coef[term.name].astype(np.float64)
    return center, draws


def _reach(model: Model, terms: list[Term], level: float) -> Floats:
    """(q,) how many standard deviations hold so many of the draws at all points of the effect. Each
    is compared with the mean and the deviation of the others, as the truth is with all."""
    assert model.bands is not None
    _, draws = _replicates(model, model.bands, terms, _grid(model, terms, BAND_GRID))
    k = len(draws)
    away = np.square(draws - draws.mean(axis=0))
    total = away.sum(axis=0)
    without = (total - away * k / (k - 1)) / (k - 2)
    # Where hardly any draw moves, the ratio says nothing.
    moved = (without > 0) & (total > 1e-6 * total.max(axis=0, keepdims=True))
    ratio = np.divide(away, without, out=np.zeros_like(away), where=moved).max(axis=1) * k / (k - 1)
    return np.asarray(np.quantile(np.sqrt(ratio), level, axis=0))


# --- shapes: effects as they are drawn ------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Band:
    """The ends of a band around an effect, at the points of its shape."""

    words: str  # what it is
    reason: str  # why the effect lies outside at many of the rows; empty if it does not
    lower: Floats  # (points, q)
    upper: Floats
    missing: tuple[Floats, Floats] | None  # (q,) both ends for a missing cell


@dataclass(frozen=True, eq=False)
class Shape:
    """An effect with what is needed to draw it; effects are centred, on the score.

    Attributes
    ----------
    kind : "curve", "levels" or "surface"
        Of numbers (steps have both sides of every cut), of levels, of two columns.
    columns : names of the columns
    terms : names of the terms added up
    at : per column its numbers or levels, missing cells left out (a level None in a surface)
    effect : (points, q), or (points a, points b, q) for a surface
    missing : (q,) effect of a missing cell, or None if training had none
    shares : per column the share of the training rows at each level; None for numbers
    density : (points a, points b) of a surface, 0 where no training row is near; else None
    parts : per term that is added up its effect and that of a missing cell; none for one term
    band : Band around the effect, or None if the model knows none, or it is a surface
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
    """The effect of a term, or of a column (its terms added up), as it is drawn, with a band of
    that kind if the model knows one. Surfaces are without thin tails of the rows, unless `whole`.

    Examples
    --------
    >>> import cwboost as cb
    >>> found = shape(cb.fit({"g": ["a", "b", "b"] * 9}, [0.0, 1.0, 1.0] * 9, n_iter=200), "g")
    >>> found.kind, found.at[0].tolist(), found.shares[0].round(2)
    ('levels', ['a', 'b'], array([0.33, 0.67]))
    """
    terms = _terms_of(model, which)
    if len(terms[0].columns) == 2:
        return _surface(model, terms[0], whole)
    return shape_of(model, terms, n, band, level)


def shape_of(
    model: Model, terms: list[Term], n: int, band: str | None, level: float | None = None
) -> Shape:
    """The sum of terms of one column, as it is drawn."""
    names = tuple(t.name for t in terms)
    column, facts = terms[0].columns[0], model.columns[terms[0].columns[0]]
    axis = _stairs(facts) if any(isinstance(t.plan.encoders[0], Cuts) for t in terms) else None
    stairs = axis is not None  # a whole number's effect from halfway below it to halfway above
    if axis is None:
        axis = _axis(facts, terms, column, n)
    gone = np.array([v is None or v != v for v in axis])

    at_points = [np.round(axis) if stairs else axis]

    def effects(terms: list[Term]) -> tuple[Floats, Floats | None]:
        values = _total(model, terms, at_points)
        return values[~gone], values[gone][0] if gone.any() else None

    values, missing = effects(terms)
    parts = {t.name: effects([t]) for t in terms if t.chosen} if len(terms) > 1 else {}
    levels = axis.dtype == object
    shares = (level_shares(model, column) if levels else None,)
    kind: Literal["curve", "levels"] = "levels" if levels else "curve"
    at = (axis[~gone],)
    around = None
    ends = None if band is None else band_at(model, terms, at_points, level, band)
    if ends is not None and band is not None:
        lower, upper = ends
        apart = (lower[gone][0], upper[gone][0]) if gone.any() else None
        lower, upper = lower[~gone], upper[~gone]
        outside = (values < lower) | (values > upper)
        reason = _reason(model, outside, _rows_at(at[0], shares[0], facts.spread))
        around = Band(band_words(model, level, band), reason, lower, upper, apart)
    return Shape(kind, (column,), names, at, values, missing, shares, None, parts, around)


def _stairs(facts: ColumnFacts) -> Floats | None:
    """Both ends of the stair of every whole number of a column that has few of them and no others:
    steps and curves are added up there, and not in between, where no row is.
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
    axes = []
    for column in term.columns:
        facts = model.columns[column]
        if not whole and facts.low is not None and facts.high is not None:
            low, high = view(facts.low, facts.high, facts.spread)
            facts = replace(facts, low=low, high=high)
        axis = _axis(facts, [term], column, SURFACE_GRID, SURFACE_GRID)
        if axis.dtype != object:  # steps may lie beyond
            axis = axis[~((axis < facts.low) | (axis > facts.high))]
        few = facts.spread is not None and 0 < len(facts.spread.points) <= MAX_ROWS
        axes.append(facts.spread.points if few and facts.spread and axis.dtype != object else axis)
    i, j = np.divmod(np.arange(len(axes[0]) * len(axes[1])), len(axes[1]))
    grid = [axes[0][i], axes[1][j]]
    values = _total(model, [term], grid).reshape(len(axes[0]), len(axes[1]), -1)
    encoded = term.plan.encode([_as_column(g, c) for g, c in zip(grid, term.columns, strict=True)])
    near = _nearness(term, encoded).reshape(values.shape[:2])
    shares = tuple(
        level_shares(model, c) if axis.dtype == object else None
        for c, axis in zip(term.columns, axes, strict=True)
    )
    return Shape("surface", term.columns, (term.name,), tuple(axes), values, None, shares, near)


def view(low: float, high: float, spread: Spread | None) -> tuple[float, float]:
    """The range that is shown: all of it, but for a thin tail that would take most of the axis."""
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


def _nearness(term: Term, values: Floats) -> Floats:
    """Training rows near values of two columns: the mean product of the bases, 0 where none."""
    basis = term.plan.basis
    assert isinstance(basis, TensorBasis)
    assert basis.mean is not None
    if not all(isinstance(m, SplineBasis | LevelBasis) for m in (basis.a, basis.b)):
        return np.ones(len(values))  # powers are everywhere
    return np.asarray(basis.matrix(values) @ np.abs(basis.mean))


def level_shares(model: Model, column: str) -> Floats | None:
    """Shares of the levels of a column in the training rows, that of missing cells last if there
    are any; None if no term knows them.
    """
    marks: dict[int, float] = {}
    for term in model.terms.values():
        basis = term.plan.basis
        parts = (basis.a, basis.b) if isinstance(basis, TensorBasis) else (basis,)
        for name, encoder, part in zip(term.columns, term.plan.encoders, parts, strict=True):
            if name != column or not isinstance(encoder, Levels) or part.mean is None:
                continue
            if isinstance(part, LevelBasis):
                return part.mean
            if isinstance(part, MarkBasis) and encoder.levels:
                marks[len(encoder.levels) if part.level is None else part.level] = part.mean[0]
    return np.array([marks[k] for k in sorted(marks)]) if marks else None


def term_points(model: Model, term: Term) -> tuple[Floats, Floats]:
    """Encoded values that stand for the training rows, and their shares (of two columns as if they
    were independent).
    """
    basis = term.plan.basis
    parts = (basis.a, basis.b) if isinstance(basis, TensorBasis) else (basis,)
    axes = [_points(model.columns[c], part) for c, part in zip(term.columns, parts, strict=True)]
    if len(axes) == 1:
        return axes[0]
    (a, u), (b, v) = axes
    i, j = np.divmod(np.arange(len(a) * len(b)), len(b))
    return np.column_stack([a[i], b[j]]), np.outer(u, v).ravel()


def _points(facts: ColumnFacts, basis: Basis) -> tuple[Floats, Floats]:
    if isinstance(basis, LevelBasis) and basis.mean is not None:
        codes = np.arange(basis.n_coef, dtype=np.float64)
        return np.where(codes < basis.n_levels, codes, np.nan), basis.mean
    if isinstance(basis, MarkBasis) and basis.mean is not None:
        code = np.nan if basis.level is None else float(basis.level)
        share = float(basis.mean[0])
        return np.array([code, UNSEEN]), np.array([share, 1.0 - share])
    if facts.spread is not None and len(facts.spread.points):
        at, shares, gone = facts.spread.points, facts.spread.shares, facts.spread.missing
    else:  # of an old file
        at = np.linspace(facts.low or 0.0, facts.high or 0.0, 50)
        shares, gone = np.full(50, 0.02), 0.0
    if gone:
        at, shares = np.append(at, np.nan), np.append(shares * (1.0 - gone), gone)
    return at, shares


def sizes(model: Model) -> dict[str, float]:
    """Standard deviation of every chosen term's effect over the training rows (of several outputs
    the largest), the largest first. Unlike importance it is known of any model.

    Examples
    --------
    >>> import cwboost as cb
    >>> model = cb.fit({"g": ["a", "b"] * 9}, [0.0, 1.0] * 9, n_iter=200)
    >>> round(sizes(model.edit("set_level", "g", level="b", effect=0.0))["g"], 2)
    0.25
    """
    out = {}
    for name, term in model.terms.items():
        if term.chosen:
            values, weights = term_points(model, term)
            found = term.effect_at(values)
            mean = weights @ found
            out[name] = float(np.sqrt(weights @ (found - mean) ** 2).max())
    return dict(sorted(out.items(), key=lambda item: -item[1]))


def panels(model: Model) -> dict[str, float]:
    """What there is to draw: columns (their terms added up) and pairs of columns that have chosen
    terms, with their importance, or size if that is not stored; the largest first.
    """
    known = importance(model, "integral", {"table": None}) if model.shares is not None else {}
    out: dict[str, float] = {}
    for name, share in (known or sizes(model)).items():
        term = model.terms[name]
        key = name if len(term.columns) > 1 or _is_other_term(model, term) else term.columns[0]
        out[key] = out.get(key, 0.0) + share
    return dict(sorted(out.items(), key=lambda item: -item[1]))


def _is_other_term(model: Model, term: Term) -> bool:
    """Whether the column's name is that of a term, which then is not all of the column."""
    column = term.columns[0]
    return column in model.terms and (
        sum(t.columns == (column,) for t in model.terms.values()) > 1
        or model.terms[column].columns != (column,)
    )


# --- importance -----------------------------------------------------------------------------------


def importance(model: Model, kind: str, rows: Mapping[str, Any]) -> dict[str, float]:
    """See Model.importance."""
    if kind not in ("integral", "path"):
        raise ValueError(f"kind must be 'integral' or 'path', got {kind!r}")
    if rows["table"] is None and any(value is not None for value in rows.values()):
        raise TypeError("importance: rows other than the fit's need table= as well")
    if rows["table"] is not None and kind == "path":
        raise TypeError("importance: kind='path' is of the fit's own rows and takes no others")
    if kind == "path":
        model._refuse_bags("importance(kind='path')")
        model._refuse_edited("importance(kind='path')")
        shares = _path_shares(model)
    elif rows["table"] is not None:
        shares = _shares_on(model, rows)
    elif model.shares is not None:
        shares = model.shares
    else:
        which = "the edited model" if model.edits else "this iterate"
        raise ValueError(
            f"the importance of {which} is not stored, and a model holds no rows; pass table= and "
            "y="
        )
    found = {
        name: float(share)
        for (name, term), share in zip(model.terms.items(), shares, strict=True)
        if term.chosen
    }
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def _path_shares(model: Model) -> Floats:
    if np.any(model.path.corrections >= 0):
        raise ValueError(
            "kind='path' credits every iteration to its choice, which means nothing with momentum; "
            "use kind='integral'"
        )
    m = model.best_iteration
    falls = -np.diff(model.risk[: m + 1])
    return np.asarray(
        np.bincount(model.path.choices[:m], falls, minlength=len(model.terms)), dtype=np.float64
    )


def _shares_on(model: Model, rows: Mapping[str, Any]) -> Floats:
    """Importance on given rows, at their raw values."""
    data = read(rows["table"])
    y = rows["y"] if rows["y"] is not None else model.settings.target
    if y is None:
        raise TypeError("importance: pass y as well")
    y_values, _ = read_y(y, data, model.loss, model.classes or None)
    weights = rows["weights"]
    w = read_weights(model.settings.weights if weights is None else weights, data)
    offset = model._offset(data, rows["offset"], rows["exposure"])
    n, q = data.n_rows, model.n_outputs
    each = _core.IndexSet(np.arange(n, dtype=np.uint32), n)  # a bin per row
    core = _core.LocalRows(
        model.loss.core(np.ascontiguousarray(y_values)),
        np.ascontiguousarray(y_values),
        np.ascontiguousarray(offset.T),
        [each],
        [as_part(w)],
    )
    chosen = {name: term for name, term in model.terms.items() if term.chosen}
    effects = np.empty((len(chosen), n, q))
    model._write_effects(data, effects)
    effects += np.array([term.mean for term in chosen.values()]).reshape(-1, 1, q)
    score = effects.sum(axis=0)
    core.run(
        [
            _core.Fill(0, list(model.start_vector)),
            _core.Fill(1, list(model.start_vector)),
            _core.Add(1, 0, np.ascontiguousarray(score.T).ravel()),
            _core.MeanResidual(0, 1, 2),
        ]
    )
    residual = core.read(2).T
    shares = [float(w @ (effect * residual).sum(axis=1) / w.sum()) for effect in effects]
    out = dict(zip(chosen, shares, strict=True))
    return np.array([out.get(name, 0.0) for name in model.terms])


# --- summary --------------------------------------------------------------------------------------


def summary(model: Model) -> str:
    """See Model.summary."""
    lines = [f"{model.loss!r} loss, {model.optimizer!r}"]
    lines += _path_lines(model) if model.bags is None else _bag_lines(model, model.bags)
    lines.append(f"intercept {np.round(model.intercept, 6)}")
    if model.dropped:
        names = ", ".join(map(_shortened, model.dropped))
        lines.append(f"dropped before this fit for their small shares: {names}")
    if model.edits:
        lines += ["", "edited after the fit (the risks are the fit's):"]
        lines += [f"{i}. {edit.words}" for i, edit in enumerate(model.edits, 1)]
    chosen = [name for name, term in model.terms.items() if term.chosen]
    lines += ["", f"{len(chosen)} of {len(model.terms)} terms chosen:", *_term_lines(model, chosen)]
    return "\n".join(lines)


def _bag_lines(model: Model, bags: Bags) -> list[str]:
    low, high = min(bags.best_iteration), max(bags.best_iteration)
    return [
        f"{model.stopped}, {low} to {high} iterations each",
        f"training risk {bags.risk_at_start:.6g} -> {model.risk[0]:.6g}",
        f"risk of every row by the bags that left it out {model.path.validation_risk[0]:.6g}",
    ]


def _path_lines(model: Model) -> list[str]:
    path, m = model.path, model.best_iteration
    lines = [f"iteration {m} of {model.n_iter} ({model.stopped})"]
    if path.switched_after >= 0:
        lines.append(
            f"accelerated until iteration {path.switched_after}, went on from {path.rewound_to}"
        )
    if path.halvings.any():
        lines.append(f"steps halved in {int(np.count_nonzero(path.halvings))} iterations")
    if path.evaluations.any():
        lines.append(
            f"{path.evaluations.mean():.3g} passes over the rows per iteration to choose among "
            f"{len(model.terms)} terms"
        )
    lines.append(f"training risk {path.risk[0]:.6g} -> {path.risk[m]:.6g}")
    if model.validation_risk is not None:
        risk = model.validation_risk
        since = path.switched_after
        trained = model.optimizer.ends_on_all_rows and 0 <= since < m
        note = f" (these rows are trained on since iteration {since})" if trained else ""
        lines.append(f"validation risk {risk[0]:.6g} -> {risk[m]:.6g}{note}")
    return lines


def _term_lines(model: Model, chosen: list[str]) -> list[str]:
    kept = kept_iterations(model)
    picked = Counter(model.choices[i] for i in kept)
    if model.bags is not None:
        picked = Counter({name: sum(counts) for name, counts in model.bags.chosen.items()})
    corrected = Counter(model.corrections[i] for i in kept) if model.corrections else Counter()
    shares = importance(model, "integral", {"table": None}) if model.shares is not None else {}
    order = list(shares) or sorted(chosen, key=lambda name: -picked[name])
    top = max([*shares.values(), 0.0]) or 1.0
    rows = [["term", "learner", "df", "net df", "chosen", "corrected", "importance", ""]]
    for name in order:
        term, share = model.terms[name], shares.get(name)
        rows.append(
            [
                _shortened(name),
                type(term.learner).__name__,
                f"{term.df:.3g}",
                f"{term.net_df:.3g}",
                str(picked[name]),
                str(corrected[name]),
                "" if share is None else f"{share:.4g}",
                "" if share is None else "#" * round(BAR * max(share, 0.0) / top),
            ]
        )
    widths = [max(len(row[j]) for row in rows) for j in range(len(rows[0]))]
    right = (2, 3, 4, 5, 6)
    if not corrected:
        for row in rows:
            del row[5]
        del widths[5]
    return [
        "  ".join(
            c.rjust(w) if j in right else c.ljust(w)
            for j, (c, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def kept_iterations(model: Model) -> list[int]:
    """Positions in the path of the iterations that led to the model, a rewind's left out."""
    path, m = model.path, model.best_iteration
    left = range(path.rewound_to, path.switched_after) if path.switched_after < m else range(0)
    return [i for i in range(m) if i not in left]


def _shortened(name: str, limit: int = 40) -> str:
    name = name if name.isprintable() else repr(name)
    return name if len(name) <= limit else name[: limit - 3] + "..."
