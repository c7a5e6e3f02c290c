"""What plots of a model show, as plain data: values on a scale, axis titles, levels and histograms.

Does not know about matplotlib (see the other files of this package) or SVG (see notebook.py), which
draw it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from cwboost._utils.checks import check_one_of
from cwboost._utils.text import quote, quote_names, readable_number
from cwboost.binning.spread import Spread
from cwboost.binning.summary import Sample
from cwboost.explain.explanation import INTERCEPT, OFFSET, SCORE
from cwboost.explain.shapes import Shape
from cwboost.explain.sizes import level_shares
from cwboost.frames.columns import Column, Floats
from cwboost.frames.result_table import ResultTable
from cwboost.frames.table import Table
from cwboost.model.model import Model
from cwboost.model.prediction import as_in_training
from cwboost.model.scoring import output_labels

Scale = Literal["score", "response", "ratio"]

HISTOGRAM_BARS = 36
GAP = 0.08  # share of the axis between neighbouring points that makes a stretch thin ...
GAP_RATIO = 6.0  # ... if it is also this many times the usual distance
LEAST_DENSITY = 2e-3  # share of the largest density below which a surface is left blank


# --- text -----------------------------------------------------------------------------------------


def one_line(name: Any, limit: int) -> str:
    """Return a name of any kind as one short line of text.

    Examples
    --------
    >>> one_line("two\\nlines", 20), one_line("x" * 10_000, 5)
    ('two\\\\nlines', 'xxxx…')
    """
    text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in str(name)[: limit + 1])
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def on_axis(value: float, low: float, high: float, digits: int = 6) -> str:
    """Return a number of an axis as text. Below 10,000 digits are not grouped: it may be years.

    Examples
    --------
    >>> on_axis(2003, 2003, 2009), on_axis(2500, 0, 10_000)
    ('2003', '2,500')
    """
    text = readable_number(value, digits)
    return text.replace(",", "") if max(abs(low), abs(high)) < 10_000 else text


def lines_of(remarks: Iterable[str], width: int) -> list[str]:
    """Return remarks joined into lines of at most `width` characters.

    Examples
    --------
    >>> lines_of(["one", "two", "three"], 10)
    ['one · two', 'three']
    """
    out: list[str] = []
    for remark in remarks:
        fits = bool(out) and len(out[-1]) + len(remark) + 3 <= width
        out = [*out[:-1], f"{out[-1]} · {remark}"] if fits else [*out, remark]
    return out


def factors(low: float, high: float, most: int) -> list[float]:
    """Return at most `most` round factors from low to high.

    Examples
    --------
    >>> factors(0.3, 4.0, 5), factors(0.9, 1.3, 6)
    ([0.5, 1.0, 2.0], [0.9, 1.0, 1.1, 1.2, 1.3])
    """
    sets: list[list[float]] = [
        [1], [1, 3], [1, 2, 5], [1, 1.5, 2, 3, 5, 7], [1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8],
        [*np.arange(10, 20) / 10, *np.arange(20, 50, 5) / 10, 5, 6, 7, 8, 9],
        [*np.arange(100, 200, 5) / 100, *np.arange(200, 1000, 25) / 100],
    ]  # fmt: skip
    decades = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    found = [1.0]
    for numbers in sets:
        at = [float(f"{m * 10.0**d:.6g}") for d in decades for m in numbers]
        seen = [value for value in at if low * (1 - 1e-9) <= value <= high * (1 + 1e-9)]
        if len(seen) <= most:
            found = seen
    return found


def short_numbers(text: str) -> str:
    """Return the text with long decimal fractions rounded.

    Examples
    --------
    >>> short_numbers("lon = -122.41941550000001")
    'lon = −122.4'
    """
    found = r"-?\d+\.\d{4,}(e[+-]?\d+)?"
    return re.sub(found, lambda match: readable_number(float(match[0]), 4), text)


def signed(value: float) -> str:
    """Return a number with its sign as text."""
    return ("+" if value > 0 else "") + readable_number(value)


# --- scales ---------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class EffectScale:
    """The scale on which effects of a model are drawn: its values, and the titles of axes."""

    model: Model
    scale: Scale = "score"
    target: str | None = None

    def __post_init__(self) -> None:
        check_one_of("scale", self.scale, ("score", "response", "ratio"))
        if self.scale == "ratio" and self.link not in ("logit", "log"):
            raise ValueError(
                "scale='ratio' requires a loss with a log or logit link, but the link of the "
                f"{self.model.loss.name} loss is {self.link}; use 'score' or 'response'"
            )

    @property
    def link(self) -> str | None:
        return self.model.loss.link

    @property
    def outputs(self) -> list[str]:
        return output_labels(self.model)

    def number_of(self, output: Any) -> int:
        """Return the position of an output, given its class."""
        if str(output) not in self.outputs or self.model.n_outputs == 1:
            known = quote_names(self.outputs) if self.model.n_outputs > 1 else "none"
            raise ValueError(f"output: expected one of the classes ({known}), got {quote(output)}")
        return self.outputs.index(str(output))

    def values(self, effect: Floats) -> Floats:
        """Return effects (..., q) on the scale."""
        if self.scale == "score":
            return effect
        with np.errstate(over="ignore"):
            if self.scale == "ratio":
                return np.exp(effect)
            flat = effect.reshape(-1, self.model.n_outputs) + self.model.intercept_vector
            return np.asarray(self.model.loss.response(flat)).reshape(effect.shape)

    def middle(self, output: int = 0) -> float:
        """Return the value of an effect of zero."""
        return float(self.values(np.zeros((1, self.model.n_outputs)))[0, output])

    @property
    def label(self) -> str:
        """The title of the axis of values.

        Examples
        --------
        >>> import cwboost as cb
        >>> model = cb.fit({"g": ["a", "b"] * 9}, ["no", "yes"] * 9, loss="binomial")
        >>> EffectScale(model).label, EffectScale(model, "response").label
        ('effect on the log odds of yes', 'probability of yes')
        """
        exposure = self.model.settings.exposure
        per = "" if exposure is None else f" per unit of {one_line(exposure, 20)}"
        if self.scale == "score":
            return f"effect on {self.score}{per}"
        if self.scale == "ratio":
            is_odds = self.link == "logit"
            return f"odds ratio{self._of_class}" if is_odds else f"factor of {self._y}{per}"
        if self.model.loss.target == "classes":
            return f"probability{self._of_class}"
        return ("prediction" if self._y == "the prediction" else f"expected {self._y}") + per

    @property
    def score(self) -> str:
        """The name of the score."""
        if self.link == "logit":
            return f"the log odds{self._of_class}"
        return {"log": f"log {self._y}", "identity": self._y}.get(self.link or "", "the score")

    @property
    def _y(self) -> str:
        target = self.target or self.model.settings.target
        return "the prediction" if target is None else one_line(target, 24)

    @property
    def _of_class(self) -> str:
        """The class that one score is about; several scores are about one class each."""
        about_one = self.model.n_outputs == 1 and self.model.classes
        return f" of {one_line(self.model.classes[-1], 20)}" if about_one else ""


# --- lines of an effect ---------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Series:
    """One line of a plot over the points of a shape: a class, a model or one term of a sum."""

    name: str
    shape: Shape
    values: Floats  # (points,) or (points a, points b), on the scale
    missing: float | None
    thin: bool = False
    band: tuple[Floats, Floats] | None = None  # (points,) lower and upper, on the scale
    missing_band: tuple[float, float] | None = None


def series_of(scale: EffectScale, shape: Shape, output: Any = None) -> list[Series]:
    """Return one series per output, or for the given output.

    A surface shows only one output: by default the one whose effect varies most.
    """
    values = scale.values(shape.effect)
    missing = None if shape.missing is None else scale.values(shape.missing[None])[0]
    outputs = list(range(scale.model.n_outputs))
    if output is not None:
        outputs = [scale.number_of(output)]
    elif shape.kind == "surface" and len(outputs) > 1:
        outputs = [int(np.argmax(shape.effect.std(axis=(0, 1))))]
    out = []
    for o in outputs:
        band, missing_band = _bands_on_scale(scale, shape, o)
        at_missing = None if missing is None else float(missing[o])
        series = Series(scale.outputs[o], shape, values[..., o], at_missing)
        out.append(replace(series, band=band, missing_band=missing_band))
    return out


def _bands_on_scale(scale: EffectScale, shape: Shape, o: int) -> tuple[Any, Any]:
    """Return the band of an output on the scale, and the band of a missing cell.

    Responses with several outputs do not have a band, because each depends on all effects.
    """
    band = shape.band
    if band is None or (scale.scale == "response" and scale.model.n_outputs > 1):
        return None, None
    ends = tuple(scale.values(end)[..., o] for end in (band.lower, band.upper))
    if band.missing is None:
        return ends, None
    return ends, tuple(float(scale.values(end[None])[0, o]) for end in band.missing)


def parts_of(scale: EffectScale, shape: Shape, output: Any) -> list[Series]:
    """Return one series for each chosen term that the effect is the sum of."""
    out = []
    for name, (effect, missing) in shape.parts.items():
        part = replace(shape, effect=effect, missing=missing, band=None)
        out += [replace(s, name=name, thin=True) for s in series_of(scale, part, output)]
    return out


def aligned(series: list[Series]) -> list[Series]:
    """Return the series over the union of their levels, without bands; curves stay as they are.

    Values are NaN where a series lacks a level.
    """
    if series[0].shape.kind != "levels":
        return series
    levels = list(dict.fromkeys(level for s in series for level in s.shape.at[0].tolist()))
    at = np.array(levels, dtype=object)
    out = []
    for s in series:
        known = dict(zip(s.shape.at[0].tolist(), s.values.tolist(), strict=True))
        values = np.array([known.get(level, np.nan) for level in levels])
        shape = replace(s.shape, at=(at,))
        out.append(replace(s, shape=shape, values=values, band=None, missing_band=None))
    return out


def series_table(series: list[Series], scale: Scale) -> ResultTable:
    """Return a table with the columns, then one column of values per series; missing cells last."""
    first = series[0].shape
    out = ResultTable()
    has_missing = any(s.missing is not None for s in series)
    if first.kind == "surface":
        i, j = np.divmod(np.arange(first.effect[..., 0].size), len(first.at[1]))
        out[first.columns[0]], out[first.columns[1]] = first.at[0][i], first.at[1][j]
    else:
        cell: Any = [None] if first.kind == "levels" else [np.nan]
        out[first.columns[0]] = np.concatenate([first.at[0], cell]) if has_missing else first.at[0]
    for s in series:
        key = s.name or ("effect" if scale == "score" else scale)
        while key in out:  # a column has this name
            key += "_"
        values = s.values.ravel()
        at_missing = np.nan if s.missing is None else s.missing
        out[key] = np.append(values, at_missing) if has_missing else values
        for k, end in enumerate(("lower", "upper")):
            if s.band is not None:
                name = f"{end} end of {key}" if len(series) > 1 or end in out else end
                at_missing = np.nan if s.missing_band is None else s.missing_band[k]
                out[name] = np.append(s.band[k], at_missing) if has_missing else s.band[k]
    return out


@dataclass(frozen=True)
class LevelLine:
    """One line of a plot of levels."""

    name: str
    kind: Literal["level", "rest", "missing"]
    place: float  # from the top
    values: tuple[float, ...]
    share: float  # of the rows; NaN if unknown
    span: tuple[float, float] | None = None  # lowest and highest of the pooled levels
    bands: tuple[tuple[float, float] | None, ...] = ()  # per series


def level_lines(
    series: list[Series], shares: Floats | None, most: int, sort: bool = True
) -> list[LevelLine]:
    """Return up to `most` levels, sorted by effect, then the pooled others, then missing cells.

    Examples
    --------
    >>> import cwboost as cb
    >>> from cwboost.explain.shapes import shape
    >>> model = cb.fit({"g": list("abbcccddddd") * 9}, list(range(11)) * 9, n_iter=300)
    >>> found = series_of(EffectScale(model), shape(model, "g"))
    >>> [line.name for line in level_lines(found, found[0].shape.shares[0], 2)]
    ['d', 'c', '2 other levels']
    """
    levels = series[0].shape.at[0].tolist()
    values = np.column_stack([s.values for s in series])  # (levels, series)
    share = _shares_of_lines(shares, len(levels))
    kept, pooled = _levels_to_keep(values, share[:-1], most)
    if sort:
        kept = kept[np.argsort(-values[kept, 0], kind="stable")]
    out = [
        LevelLine(
            levels[k],
            "level",
            float(place),
            tuple(values[k].tolist()),
            float(share[k]),
            bands=tuple(None if s.band is None else _pair(s.band, k) for s in series),
        )
        for place, k in enumerate(kept)
    ]
    place = len(out) + 0.3  # a small gap after the levels
    if len(pooled):
        out.append(_pooled_line(values[pooled], share[pooled], place))
        place += 1.0
    if any(s.missing is not None for s in series):
        at_missing = tuple(np.nan if s.missing is None else float(s.missing) for s in series)
        bands = tuple(s.missing_band for s in series)
        out.append(
            LevelLine("missing", "missing", place, at_missing, float(share[-1]), bands=bands)
        )
    return out


def _shares_of_lines(shares: Floats | None, n_levels: int) -> Floats:
    """Return the share of every level and of missing cells; NaN if unknown."""
    if shares is None:
        return np.full(n_levels + 1, np.nan)
    out = np.zeros(n_levels + 1)
    out[: len(shares)] = shares[: len(out)]
    return out


def _levels_to_keep(values: Floats, share: Floats, most: int) -> tuple[Any, Any]:
    """Return the positions of the `most` most frequent levels, and of the others.

    If the shares are unknown, the levels with the largest values are kept. A single other level is
    kept too, because a line for it takes as much room.
    """
    n = len(values)
    rank = np.nanmax(np.abs(values), axis=1) if np.isnan(share).any() else share
    kept = np.sort(np.argsort(-rank, kind="stable")[:most])
    if n == len(kept) + 1:
        kept = np.arange(n)
    return kept, np.setdiff1d(np.arange(n), kept)


def _pooled_line(values: Floats, share: Floats, place: float) -> LevelLine:
    """Return the line of several levels: their weighted mean, and for one series their span."""
    total = float(share.sum())
    mean = np.average(values, axis=0, weights=share if total > 0 else None)
    span = (float(values.min()), float(values.max())) if values.shape[1] == 1 else None
    name = f"{len(values):,} other levels"
    return LevelLine(name, "rest", place, tuple(mean.tolist()), total, span)


def _pair(band: tuple[Floats, Floats], k: int) -> tuple[float, float]:
    return float(band[0][k]), float(band[1][k])


# --- the spread of the rows -----------------------------------------------------------------------


def spread_of(model: Model, column: str, rows: Table | None = None) -> Spread | None:
    """Return how the given rows, or by default the training rows, spread over a column."""
    if rows is None:
        return model.columns[column].spread
    return Spread.of(column_of(model, column, rows), Sample.of(rows.n_rows))


def column_of(model: Model, column: str, rows: Table) -> Column:
    """Return a column of the given rows as the model reads it."""
    return as_in_training(rows[column], model.columns[column])


def shares_of(model: Model, column: str, levels: Any, rows: Table | None = None) -> Floats | None:
    """Return the shares of the levels and of missing cells: of the given or the training rows."""
    if rows is None:
        return level_shares(model, column)
    labels = column_of(model, column, rows).labels()
    own = {level: float(np.sum(labels.codes == k)) for k, level in enumerate(labels.levels)}
    counts = [own.get(level, 0.0) for level in levels]
    return np.array([*counts, float(labels.missing.sum())]) / max(1, rows.n_rows)


def thin_places(spread: Spread | None, low: float, high: float) -> list[tuple[float, float]]:
    """Return the stretches of the axis with hardly any rows, where a curve is uncertain."""
    if spread is None or len(spread.points) < 3:
        return []
    points = spread.points
    usual = float(np.median(np.diff(points)))
    edges = np.unique(np.concatenate([[low], points[(points > low) & (points < high)], [high]]))
    gaps = np.diff(edges)
    wide = (gaps > GAP * (high - low)) & (gaps > GAP_RATIO * usual)
    if len(points) > 50 and len(wide) > 1:  # a single point does not end a gap at an edge
        wide[0] |= wide[1]
        wide[-1] |= wide[-2]
    return [(float(edges[k]), float(edges[k + 1])) for k in np.flatnonzero(wide)]


def histogram(spread: Spread, low: float, high: float) -> tuple[Floats, Floats, Floats]:
    """Return left ends, widths and shares of bars: one per value if few, else of equal width."""
    seen = (spread.points >= low) & (spread.points <= high)
    points, shares = spread.points[seen], spread.shares[seen]
    if len(points) == 0 or high <= low:
        return np.empty(0), np.empty(0), np.empty(0)
    width = high - low
    if len(points) <= HISTOGRAM_BARS and len(spread.points) < 100:
        gap = float(np.diff(points).min()) if len(points) > 1 else width
        bar = float(np.clip(0.8 * gap, 0.004 * width, 0.05 * width))
        return points - bar / 2, np.full(len(points), bar), shares
    edges = np.linspace(low, high, HISTOGRAM_BARS + 1)
    middles = (points[1:] + points[:-1]) / 2
    left, right = np.append(low, middles), np.append(middles, high)
    atom = shares > 0.025  # a frequent value belongs to one bar
    inside = np.clip((edges[:, None] - left) / np.maximum(right - left, 1e-300), 0.0, 1.0)
    inside = np.where(atom, edges[:, None] > points, inside)
    inside[-1] = 1.0
    return edges[:-1], np.full(HISTOGRAM_BARS, width / HISTOGRAM_BARS), np.diff(inside @ shares)


# --- one prediction -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Bar:
    """One step from the intercept to the score."""

    kind: Literal["intercept", "offset", "column", "others", "score"]
    name: str
    value: str
    begin: float
    end: float


def waterfall(explained: ResultTable, output: int = 0, most: int = 10) -> list[Bar]:
    """Return the steps from the intercept to the score of an explained row.

    `explained` is the result of `explain`. Columns beyond the first `most` are pooled.

    Examples
    --------
    >>> import cwboost as cb
    >>> from cwboost.explain.explanation import explain
    >>> table = {"g": ["a", "b"] * 9, "h": ["x", "x", "y"] * 6}
    >>> model = cb.fit(table, [0.0, 1.0] * 9, n_iter=200)
    >>> [(bar.kind, round(bar.end, 2)) for bar in waterfall(explain(model, table, 1))]
    [('intercept', 0.5), ('column', 1.0), ('score', 1.0)]
    """
    names, values = explained["column"].tolist(), explained["value"].tolist()
    effects = list(explained.values())[2 + output]
    # Rows that are not columns come last; a column may have the name of one of them.
    n = len(names) - (3 if OFFSET in names[-2:] else 2)
    assert names[n] == INTERCEPT
    assert names[-1] == SCORE
    at = float(effects[n])
    out = [Bar("intercept", INTERCEPT, "", at, at)]

    def step(kind: Any, name: str, value: str, size: float) -> None:
        begin = out[-1].end
        out.append(Bar(kind, name, value, begin, begin + size))

    if n < len(names) - 2:
        step("offset", OFFSET, values[n + 1], float(effects[n + 1]))
    shown = n if n <= most + 1 else most
    for k in range(shown):
        step("column", names[k], values[k], float(effects[k]))
    if shown < n:
        step("others", f"{n - shown:,} others", "", float(np.sum(effects[shown:n])))
    end = float(effects[-1])
    return [*out, Bar("score", SCORE, "", end, end)]
