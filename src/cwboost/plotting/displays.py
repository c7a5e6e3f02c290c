"""Pictures of a model with matplotlib (extra `plot`), and the style of all pictures. Only this file
and plots_*.py know matplotlib.

Every picture is a display in scikit-learn's manner: `from_estimator(model, ...)` computes and
draws, the object keeps the numbers, `plot(ax=...)` draws them again, `ax_` and `figure_` say where.
What is shown is decided in pictures.py. No global setting of matplotlib is changed. Names of
columns and levels may hold anything: they are shown as text, shortened if they are long, and never
read as formulas.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal, Self

import numpy as np

from cwboost.binning.spread import Spread
from cwboost.explain.effects import Columns, Shape, check_band, panels, shape, sizes, view
from cwboost.explain.explanation import explain
from cwboost.explain.trajectory import Traces, traces
from cwboost.frames.table import Floats, Numbers, Table, read
from cwboost.model.model import Model

from .drawing_data import (
    Bar,
    LevelLine,
    Scale,
    Scaled,
    Series,
    aligned,
    column_of,
    factors,
    histogram,
    level_lines,
    lines_of,
    number,
    on_axis,
    one_line,
    parts_of,
    series_of,
    series_table,
    shares_of,
    short_numbers,
    signed,
    spread_of,
    thin_places,
    waterfall,
)

try:
    import matplotlib as mpl
    from matplotlib import font_manager
    from matplotlib.axes import Axes
    from matplotlib.collections import LineCollection, PatchCollection
    from matplotlib.colors import LinearSegmentedColormap, TwoSlopeNorm, to_rgb
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D
    from matplotlib.patches import Rectangle
    from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullFormatter
except ModuleNotFoundError as error:
    if error.name != "matplotlib":
        raise
    raise ModuleNotFoundError(
        "plots need matplotlib: pip install 'cwboost[plot]'", name="matplotlib"
    ) from None

LATER: Any = object()  # instead of axes: compute, do not draw
BLUE, ORANGE, RED = "#0072B2", "#E69F00", "#D55E00"
INK = "ink"  # the colour of text
# Okabe and Ito's colours but for yellow, in an order whose neighbours differ in grey; lines and
# points differ in style as well.
COLOURS = (BLUE, ORANGE, INK, "#56B4E9", RED, "#009E73", "#CC79A7")
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1.2)), (0, (6, 1.5, 1, 1.5)))
MARKERS = "osD^vPX"
DIVERGING = LinearSegmentedColormap.from_list(
    "cwboost", ["#00436b", BLUE, "#8fc1e3", "#f7f7f5", "#f5bd8a", RED, "#7a3200"]
)
LONGEST = 36  # characters of a name in a picture
LOG_FROM = 100  # iterations of a path from which on its axis is logarithmic
STRIP = 0.13  # share of the height that shows how the rows spread
SHADE = 0.22  # of a band
NEAR = 2e-3  # of the largest density: below it a surface says nothing
STYLE: Any = {
    "text.usetex": False,
    "text.parse_math": True,  # dollars in names are escaped
    "axes.formatter.use_mathtext": False,
    "axes.titlelocation": "left",
    "axes.titlesize": "medium",
    "axes.titleweight": "normal",
}


# --- text and style -------------------------------------------------------------------------------


@contextmanager
def _styled() -> Iterator[None]:
    with mpl.rc_context(STYLE):
        yield


@lru_cache(maxsize=8)
def _glyphs(families: tuple[str, ...]) -> frozenset[int]:
    """Characters that the fonts in use can draw."""
    known = {font.name for font in font_manager.fontManager.ttflist}
    found: set[int] = set()
    for family in families:
        if family in known:
            file = font_manager.findfont(font_manager.FontProperties(family=family))
            found |= set(font_manager.get_font(file).get_charmap())
    return frozenset(found)


def _families() -> tuple[str, ...]:
    generic = ("serif", "sans-serif", "cursive", "fantasy", "monospace")
    settings: Any = mpl.rcParams
    out: list[str] = []
    for family in settings["font.family"]:
        out += settings[f"font.{family}"] if family in generic else [family]
    return tuple(out)


def _text(name: Any, limit: int = LONGEST) -> str:
    """A name as it is drawn: one line, short, without what the fonts have not, no formula."""
    glyphs = _glyphs(_families())
    text = "".join(c if ord(c) in glyphs else "□" for c in one_line(name, limit))
    return text.replace("$", r"\$")


def _title(label: str, width: int = 40) -> str:
    """The title of an axis, in two lines if it is long."""
    words = [_text(word, width) for word in label.split()]
    lines = [""]
    for word in words:
        new = len(lines[-1]) + len(word) >= width and len(lines) < 2
        lines = [*lines, word] if new else [*lines[:-1], f"{lines[-1]} {word}".strip()]
    return "\n".join(lines)


def _formatter(axis: Any) -> FuncFormatter:
    return FuncFormatter(lambda value, _: on_axis(value, *axis.get_view_interval()))


def _blend(ax: Axes, strength: float) -> tuple[float, float, float]:
    """Grey between the background (0) and the colour of text (1), on dark axes as well."""
    back, ink = to_rgb(ax.get_facecolor()), to_rgb(mpl.rcParams["text.color"])
    if abs(sum(back) - sum(ink)) < 0.6:  # text as dark as the axes: a colour of one's own
        ink = (0.0, 0.0, 0.0) if sum(back) > 1.5 else (1.0, 1.0, 1.0)
    r, g, b = (strength * i + (1 - strength) * f for i, f in zip(ink, back, strict=True))
    return r, g, b


def _colour(ax: Axes, k: int) -> Any:
    colour = COLOURS[k % len(COLOURS)]
    return _blend(ax, 0.9) if colour == INK else colour


def _dark(ax: Axes, colour: Any) -> Any:
    """A colour for text: nearer to that of text than the line's."""
    ink = _blend(ax, 1.0)
    r, g, b = (0.6 * c + 0.4 * i for c, i in zip(to_rgb(colour), ink, strict=True))
    return r, g, b


def _dress(ax: Axes, grid: Literal["x", "y"] | None = "y") -> None:
    """The look of all pictures: two thin spines, a faint grid along the values."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(_blend(ax, 0.4))
    ax.spines[["left", "bottom"]].set_linewidth(0.8)
    ax.tick_params(colors=_blend(ax, 0.75), labelsize="small", width=0.8, length=3)
    ax.set_axisbelow(True)
    if grid is not None:
        ax.grid(True, axis=grid, color=_blend(ax, 0.1), linewidth=0.7)


def _dress_levels(ax: Axes, places: Any, names: Sequence[str]) -> None:
    """Names at the left instead of an axis, from the top down."""
    ax.set_yticks(places, names)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.set_ylim(max(places, default=0.0) + 0.6, min(places, default=0.0) - 0.6)


def _note(ax: Axes, text: str, at: Any, shift: Any, coords: Any = "data", **options: Any) -> None:
    """Small grey text beside a point."""
    style = {"fontsize": "x-small", "color": _blend(ax, 0.62), "va": "center"}
    ax.annotate(text, at, shift, xycoords=coords, textcoords="offset points", **style | options)


def _corner(ax: Axes, words: Sequence[str], width: int = 104) -> int:
    """Remarks above the right corner; in how many lines."""
    lines = lines_of(words, width)
    if lines:
        _note(ax, "\n".join(lines), (1, 1), (0, 3), "axes fraction", ha="right", va="bottom")
    return len(lines)


class _Ticks(MaxNLocator):
    """Round numbers, none beyond `stop`, where something else is said."""

    def __init__(self, n: int, whole: bool = False, stop: float = np.inf) -> None:
        super().__init__(n, integer=whole, steps=[1, 2, 2.5, 5, 10])
        self.stop = stop

    def tick_values(self, vmin: float, vmax: float) -> Any:
        found = np.asarray(super().tick_values(vmin, vmax))
        return found[found <= self.stop]


def _set_ticks(axis: Any, n: int = 6, whole: bool = False, stop: float = np.inf) -> None:
    axis.set_major_locator(_Ticks(n, whole, stop))
    axis.set_major_formatter(_formatter(axis))


def _set_ratio_ticks(axis: Any, n: int) -> None:
    """Round factors on a logarithmic axis."""
    low, high = axis.get_view_interval()
    axis.set_major_locator(FixedLocator(factors(low, high, n)))
    axis.set_major_formatter(FuncFormatter(lambda v, _: number(v, 3)))
    axis.set_minor_locator(FixedLocator([]))


class _Limits:
    """Limits of an axis; axes that are shared or in use keep showing what they show."""

    def __init__(self, ax: Axes, which: Literal["x", "y"]) -> None:
        group = ax.get_shared_x_axes() if which == "x" else ax.get_shared_y_axes()
        self.ax, self.which = ax, which
        self.taken = any(other.has_data() for other in group.get_siblings(ax))
        self.before = ax.get_xlim() if which == "x" else ax.get_ylim()

    def set(self, low: float, high: float) -> None:
        if self.taken:
            low, high = min(low, *self.before), max(high, *self.before)
        (self.ax.set_xlim if self.which == "x" else self.ax.set_ylim)(low, high)


def _padded(values: Any, log: bool, below: float, above: float) -> tuple[float, float]:
    """The range of values, with shares of it added at both ends."""
    known = np.asarray(values, dtype=float)
    known = known[np.isfinite(known) & ((known > 0) | (not log))]
    if len(known) == 0:
        return (0.5, 2.0) if log else (-1.0, 1.0)
    known = np.log(known) if log else known
    low, high = float(known.min()), float(known.max())
    room = (high - low) or 0.1 * abs(high) or 1.0
    if log:
        return float(np.exp(low - below * room)), float(np.exp(high + above * room))
    return low - below * room, high + above * room


def _legend(ax: Axes, handles: Sequence[Any], names: Iterable[Any], **options: Any) -> None:
    """A legend of names; matplotlib takes one that begins with _ for a secret."""
    labels = [_text(name, 28) for name in names]
    labels = [" " + label if label.startswith("_") else label for label in labels]
    ax.legend(list(handles), labels, frameon=False, fontsize="small", **options)


def _axes(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """The axes given, or those of a new figure."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=size, layout="constrained")[1]


def _model(model: Any) -> Model:
    """The model itself, or that of a fitted estimator."""
    if isinstance(model, Model):
        return model
    if hasattr(model, "get_params") and hasattr(model, "fit"):
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(model)
    found = getattr(model, "model_", None)
    if not isinstance(found, Model):
        raise TypeError(
            "expected a model of cwboost or a fitted CWBRegressor or CWBClassifier, got "
            f"{type(model).__name__}"
        )
    return found


def _rows(model: Any, table: Any) -> Table | None:
    """Rows as the model, or the estimator, reads them."""
    if table is None:
        return None
    made: Table = model._read(table) if hasattr(model, "_read") else read(table)
    return made


# --- one effect -----------------------------------------------------------------------------------


class EffectDisplay:
    """The effect of a column or term: a curve over the spread of the rows, levels with their
    counts, or a map of two columns.

    Made by `EffectDisplay.from_estimator` or `model.plot("age")`.

    Attributes
    ----------
    data : table of what is drawn: the columns, then the values of every line
    ax_ : matplotlib axes
    figure_ : matplotlib figure

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> import matplotlib; matplotlib.use("agg")
    >>> x = np.linspace(0, 6, 200)
    >>> display = EffectDisplay.from_estimator(cb.fit({"x": x}, np.sin(x)), "x")
    >>> display.ax_.get_xlabel(), list(display.data)
    ('x', ['x', 'effect'])
    >>> import matplotlib.pyplot as plt; plt.close(display.figure_)
    """

    def __init__(
        self,
        series: Sequence[Series],
        *,
        label: str,
        middle: float | None = None,
        scale: Scale = "score",
        spread: Spread | None = None,
        shares: Floats | None = None,
        view: tuple[float, float] = (0.0, 1.0),
        rows: tuple[Floats, Floats] | None = None,
        beyond: Sequence[str] = (),
        labels: Mapping[str, str] | None = None,
        max_levels: int = 20,
        sort: bool = True,
    ) -> None:
        self.beyond = list(beyond)  # what is said of values out of view
        self.series, self.label, self.middle, self.scale = list(series), label, middle, scale
        self.spread, self.shares, self.view, self.rows = spread, shares, view, rows
        self.labels, self.max_levels, self.sort = dict(labels or {}), max_levels, sort

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        which: str,
        *,
        scale: Scale = "score",
        parts: bool = False,
        output: Any = None,
        table: Any = None,
        view: Any = "auto",
        max_levels: int = 20,
        sort: bool = True,
        labels: Mapping[str, str] | None = None,
        target: str | None = None,
        n: int = 200,
        band: Any = "auto",
        level: float | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Computes the effect and draws it.

        Parameters
        ----------
        model : Model, CWBRegressor or CWBClassifier
        which : name of a column (its terms are added up) or of a term
        scale : "score", "response" or "ratio"
            The effect on the score; the response of a row whose other effects are zero, with
            exposure 1; or exp(effect), for losses with a log or logit link.
        parts : bool
            Also draw the terms that are added up (scale "score" only).
        output : class, optional
            With several classes: this one only. A map of two columns shows one; by default that
            whose effect is the largest.
        table : data frame, array or mapping, optional
            Rows whose spread is shown instead of the training rows'; on a map they are dots.
        view : "auto", "all" or (low, high)
            Range of a numeric column; of a map "auto" or "all". "auto" leaves out half a percent of
            the rows at an end whose tail would take most of the axis, and says so.
        max_levels : int
            Rarer levels are gathered in one line.
        sort : bool
            Levels by their effect; otherwise in the order of the column.
        labels : mapping of column to text, optional
            Titles for axes, such as units: {"age": "age (years)"}.
        target : str, optional
            What is predicted, for the title of the axis.
        n : int
            Points of a curve.
        band : "auto", "pointwise", "simultaneous" or None
            The band of a model that has one, from `with_bands` or bags; see `Model.band`. "auto":
            pointwise if there is any.
        level : float, optional
            Of the band; 0.95 unless given. That of an average of bags has none.
        ax : matplotlib axes, optional
        """
        rows, model = _rows(model, table), _model(model)
        asked = "pointwise" if band == "auto" else band
        if asked is None and level is not None:
            raise ValueError("level: it is that of a band, and band=None asks for none")
        if band not in ("auto", None) or level is not None:
            check_band(model, level, asked)
        scaled = Scaled(model, scale, target)
        drawn = shape(model, which, n, asked, level, isinstance(view, str) and view == "all")
        series = series_of(scaled, drawn, output)
        label = scaled.label
        if model.n_outputs > 1 and len(series) == 1:
            label += f": {one_line(series[0].name, 20)}"
        several = len(series) > 1
        if parts and len(drawn.terms) > 1:
            if scale != "score" or several:
                raise ValueError("parts=True is for scale='score' and one output")
            series = [replace(series[0], name="sum"), *parts_of(scaled, drawn, output)]
        first = 0 if output is None else scaled.number_of(output)
        middle = None if several and scale == "response" else scaled.middle(first)
        made = cls(
            series, label=label, middle=middle, scale=scale, labels=labels, max_levels=max_levels,
            sort=sort, **_background(model, drawn, rows, view),
        )  # fmt: skip
        return made if ax is LATER else made.plot(ax)

    @property
    def data(self) -> Columns:
        """What is drawn, as a table; missing cells come last."""
        return series_table(self.series, self.scale)

    @property
    def kind(self) -> Literal["curve", "levels", "surface"]:
        return self.series[0].shape.kind

    @property
    def lines(self) -> list[LevelLine]:
        """The levels as they are drawn."""
        return level_lines(self.series, self.shares, self.max_levels, self.sort)

    @property
    def _size(self) -> tuple[float, float]:
        if self.kind != "levels":
            return 5.6, 3.5
        return 5.6, min(1.0 + 0.26 * (self.lines[-1].place + 1.0), 9.0)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draws the effect, on the given axes or in a new figure."""
        with _styled():
            self._draw(_axes(ax, self._size))
        return self

    def _draw(self, ax: Axes, small: bool = False) -> None:
        self.ax_, self.figure_ = ax, ax.figure
        draw = {"curve": self._curve, "levels": self._levels, "surface": self._surface}
        draw[self.kind](small)

    def _title_of(self, column: str, limit: int = 48) -> str:
        return _text(self.labels.get(column, column), limit)

    # --- curves -----------------------------------------------------------------------------------

    def _line_style(self, k: int) -> dict[str, Any]:
        return {
            "color": _colour(self.ax_, k),
            "linestyle": DASHES[k % len(DASHES)],
            "linewidth": 1.3 if self.series[k].thin else 2.0,
            "zorder": 3 if self.series[k].thin else 4,
        }

    def _curve(self, small: bool) -> None:
        ax, (low, high) = self.ax_, self.view
        limits, span = _Limits(ax, "y"), _Limits(ax, "x")
        _dress(ax)
        for k, s in enumerate(self.series):
            self._draw_band(s, k)
            self._draw_line(s, self._line_style(k))
        if self.middle is not None:
            ax.axhline(self.middle, color=_blend(ax, 0.45), linewidth=0.9, zorder=2)
        room, x = (high - low) or 1.0, self.series[0].shape.at[0]
        gone = any(s.missing is not None for s in self.series)
        if gone:
            self._missing_mark(high, room, small)
        stop = high - (0.22 if small else 0.06) * room if gone else np.inf
        _set_ticks(ax.xaxis, 4 if small else 7, whole=_is_whole(x), stop=stop)
        span.set(low - 0.02 * room, high + (0.17 if gone else 0.02) * room)
        if self.scale == "ratio":
            ax.set_yscale("log")
            ax.yaxis.set_minor_formatter(NullFormatter())
        foot = STRIP + 0.04 if self._foot(room) else 0.0
        limits.set(*_padded(self._shown, self.scale == "ratio", 0.05 + 1.1 * foot, 0.05))
        self._value_ticks(ax.yaxis, 4 if small else 6)
        if small:
            return
        ax.set_xlabel(self._title_of(self.series[0].shape.columns[0]))
        ax.set_ylabel(_title(self.label))
        _corner(ax, self.beyond + self._key())
        if len(self.series) > 1:
            styles = [self._line_style(k) for k in range(len(self.series))]
            marks = [Line2D([], [], **style) for style in styles]
            _legend(ax, marks, [s.name for s in self.series], handlelength=2.6)

    def _draw_band(self, s: Series, k: int) -> None:
        """A shade from end to end."""
        if s.band is None:
            return
        x, (low, high) = s.shape.at[0], self.view
        seen = (x >= low) & (x <= high)
        self.ax_.fill_between(
            x[seen], s.band[0][seen], s.band[1][seen], color=_colour(self.ax_, k), alpha=SHADE,
            linewidth=0, zorder=2.5,
        )  # fmt: skip

    def _draw_line(self, s: Series, style: dict[str, Any]) -> None:
        """A curve, pale where there are hardly any rows."""
        low, high = self.view
        x, y = s.shape.at[0], s.values
        seen, pale = (x >= low) & (x <= high), self._thin(x)
        self.ax_.plot(x[seen], np.where(pale, np.nan, y)[seen], solid_capstyle="butt", **style)
        if pale.any():
            beside = _beside(pale)
            thin = style | {"alpha": 0.45, "linewidth": 0.7 * style["linewidth"]}
            self.ax_.plot(x[seen], np.where(beside, y, np.nan)[seen], **thin)

    def _thin(self, x: Floats) -> Any:
        """Marks the points with hardly any rows near."""
        out = np.zeros(len(x), bool)
        for begin, end in thin_places(self.spread, *self.view):
            out |= (x > begin) & (x < end)
        return out

    def _value_ticks(self, axis: Any, n: int) -> None:
        if self.scale == "ratio":
            _set_ratio_ticks(axis, n + 1)
        else:
            _set_ticks(axis, n)

    def _missing_mark(self, high: float, room: float, small: bool) -> None:
        """The effect of missing cells, apart at the right."""
        ax, at = self.ax_, high + 0.1 * room
        for k, s in enumerate(self.series):
            if s.missing_band is not None:
                ax.vlines(at, *s.missing_band, color=_colour(ax, k), linewidth=3.5, alpha=SHADE,
                          zorder=2.5, clip_on=False)  # fmt: skip
            if s.missing is not None:
                ax.plot(
                    [at], [s.missing], marker=MARKERS[k % len(MARKERS)], markersize=6.5, mew=1.6,
                    color=_colour(ax, k), mfc=ax.get_facecolor(), zorder=5, clip_on=False,
                )  # fmt: skip
        edge, grey = high + 0.035 * room, _blend(ax, 0.35)
        ax.axvline(edge, color=grey, linewidth=0.8, linestyle=(0, (2, 2)))
        size = "x-small" if small else "small"
        _note(ax, "missing", (at, 0), (0, -4), ax.get_xaxis_transform(), ha="center", va="top",
              fontsize=size, fontstyle="italic", color=_blend(ax, 0.75))  # fmt: skip

    @property
    def _shown(self) -> list[float]:
        """All values in view; of a band those where rows are, lest its ends set the scale."""
        low, high = self.view
        out = [] if self.middle is None else [self.middle]
        for s in self.series:
            at = s.shape.at[0]
            seen = (at >= low) & (at <= high)
            out += s.values[seen].tolist()
            for end in s.band or ():
                out += end[seen & ~_beside(self._thin(at))].tolist()
            out += [] if s.missing is None else [s.missing]
            out += s.missing_band or ()
        return out

    def _foot(self, room: float) -> bool:
        """The spread of the rows, at the foot; whether there is any."""
        ax, spread, (low, high) = self.ax_, self.spread, self.view
        if spread is None:
            return False
        left, width, height = histogram(spread, low, high)
        height = height * (1.0 - spread.missing)
        if spread.missing and any(s.missing is not None for s in self.series):
            left, width = np.append(left, high + 0.08 * room), np.append(width, 0.04 * room)
            height = np.append(height, spread.missing)
        largest = float(height.max(initial=0.0))
        if largest <= 0:
            return False
        share = np.where(height > 0, np.maximum(height / largest, 0.03), 0.0) * STRIP
        bars = [Rectangle((x, 0.0), w, h) for x, w, h in zip(left, width, share, strict=True) if h]
        self._add_bars(bars, ax.get_xaxis_transform())
        return True

    def _add_bars(self, bars: list[Rectangle], transform: Any) -> None:
        colour = _blend(self.ax_, 0.2)
        drawn = PatchCollection(bars, transform=transform, facecolor=colour, linewidth=0, zorder=1)
        self.ax_.add_collection(drawn, autolim=False)

    def _key(self) -> list[str]:
        """What shades, pale lines and blanks stand for."""
        band, out = self.series[0].shape.band, []
        if band is not None and self.series[0].band:
            out = [f"shade: {band.words}", *([band.reason] if band.reason else [])]
        if self.kind == "curve" and thin_places(self.spread, *self.view):
            out.append("pale: hardly any rows")
        if self.kind == "surface" and np.mean(np.ma.getmask(self._map()[1])) > 0.005:
            out.append("blank: no rows near")
        return out

    # --- levels -----------------------------------------------------------------------------------

    def _levels(self, small: bool) -> None:
        ax, lines = self.ax_, self.lines
        limits, log = _Limits(ax, "x"), self.scale == "ratio"
        _dress(ax, "x")
        y = np.array([line.place for line in lines])
        n = len(self.series)
        if n == 1 and self.middle is not None:
            ends = [line.values[0] for line in lines]
            ax.hlines(y, self.middle, ends, color=BLUE, linewidth=1.4, alpha=0.55, zorder=2)
        for k in range(n):
            self._draw_points(lines, k, 5.5 if small or n > 1 else 7.0)
        for line in lines:
            if line.span is not None:
                ax.hlines(line.place, *line.span, color=_blend(ax, 0.5), linewidth=1.0, zorder=3)
        if self.middle is not None:
            ax.axvline(self.middle, color=_blend(ax, 0.45), linewidth=0.9, zorder=1.5)
        if log:
            ax.set_xscale("log")
        limit = 16 if small else LONGEST
        _dress_levels(ax, y, [_text(line.name, limit) or "(empty)" for line in lines])
        for tick, line in zip(ax.get_yticklabels(), lines, strict=True):
            tick.set_fontstyle("normal" if line.kind == "level" else "italic")
        shown = [v for line in lines for v in (*line.values, *(line.span or ()))]
        shown += [v for line in lines for band in line.bands for v in band or ()]
        shown += [] if self.middle is None else [self.middle]
        limits.set(*_padded(shown, log, 0.06, 0.24 if self._counts(lines, small) else 0.06))
        self._value_ticks(ax.xaxis, 4 if small else 6)
        if small:
            return
        ax.set_xlabel(_title(self.label, 56))
        above = _corner(ax, self._key())
        name = self._title_of(self.series[0].shape.columns[0])
        ax.set_title(name, loc="left", pad=12 * above if above > 1 else None)
        if n > 1:
            marks = [Line2D([], [], **self._point_style(k)) for k in range(n)]
            _legend(ax, marks, [s.name for s in self.series], loc="upper left",
                    bbox_to_anchor=(1.1, 1.0))  # fmt: skip

    def _point_style(self, k: int) -> dict[str, Any]:
        marker = MARKERS[k % len(MARKERS)]
        return {"linestyle": "none", "marker": marker, "color": _colour(self.ax_, k)}

    def _draw_points(self, lines: Sequence[LevelLine], k: int, size: float) -> None:
        n = len(self.series)
        shift = (k - (n - 1) / 2) * min(0.18, 0.6 / n)
        for line in lines:
            own = {} if line.kind == "level" else {"mfc": self.ax_.get_facecolor(), "mew": 1.5}
            band = line.bands[k] if line.bands else None
            if band is not None:
                self.ax_.hlines(line.place + shift, *band, color=_colour(self.ax_, k),
                                linewidth=1.1 * size, alpha=SHADE, zorder=3)  # fmt: skip
            style = self._point_style(k) | {"markersize": size, "zorder": 4.0, **own}
            self.ax_.plot([line.values[k]], [line.place + shift], **style)

    def _counts(self, lines: Sequence[LevelLine], small: bool) -> bool:
        """Bars and numbers of the rows at the right; whether they are known."""
        ax, shares = self.ax_, np.array([line.share for line in lines])
        if len(lines) == 0 or not np.isfinite(shares).all() or shares.max() <= 0:
            return False
        lengths = 0.12 * shares / shares.max()
        bars = [
            Rectangle((1.0 - length, line.place - 0.3), length, 0.6)
            for line, length in zip(lines, lengths, strict=True)
        ]
        self._add_bars(bars, ax.get_yaxis_transform())
        if small:
            return True
        rows = None if self.spread is None else self.spread.rows
        for line in lines:
            shown = f"{line.share:.1%}" if rows is None else f"{rows * line.share:,.0f}"
            _note(ax, shown, (1.0, line.place), (4, 0), ax.get_yaxis_transform())
        what = "rows" if rows is not None else "share"
        _note(ax, what, (1.0, 1.0), (4, 2), "axes fraction", va="bottom")
        return True

    # --- surfaces ---------------------------------------------------------------------------------

    def _map(self) -> tuple[list[Any], Any]:
        """Both axes, and the values over the middle, masked where no rows are near."""
        s, keep = self.series[0], [self._kept(k) for k in range(2)]
        axes = [s.shape.at[k][keep[k]] for k in range(2)]
        values, middle = s.values[np.ix_(*keep)], self.middle or 0.0
        drawn = np.ma.array(np.log(values) if self.scale == "ratio" else values - middle)
        if s.shape.density is not None:
            near = s.shape.density[np.ix_(*keep)]
            drawn = np.ma.masked_where(near < NEAR * near.max(), drawn)
        return axes, drawn

    def _surface(self, small: bool) -> None:
        ax, (axes, drawn) = self.ax_, self._map()
        _dress(ax, None)
        x, y = (np.arange(len(a)) if _is_listed(a) else a for a in axes)
        top = float(np.abs(drawn).max()) or 1.0
        colours = {"cmap": DIVERGING, "norm": TwoSlopeNorm(0.0, -top, top)}
        self._mesh = self._image(x, y, drawn, colours)
        if not _is_listed(axes[0]) and not _is_listed(axes[1]):
            self._contours(x, y, drawn, small)
            if self.rows is not None:
                ax.plot(*self.rows, ".", color="black", alpha=0.25, markersize=1.5, zorder=3)
            ax.set_xlim(x[0], x[-1])
            ax.set_ylim(y[0], y[-1])
        for axis, shown in zip((ax.xaxis, ax.yaxis), axes, strict=True):
            self._surface_ticks(axis, shown, small)
        if small:
            return
        a, b = self.series[0].shape.columns
        ax.set_xlabel(self._title_of(a))
        ax.set_ylabel(self._title_of(b))
        self._colour_bar(ax, pad=0.02).set_label(_title(self.label))
        _corner(ax, self.beyond + self._key(), 80)

    def _image(self, x: Any, y: Any, drawn: Any, colours: dict[str, Any]) -> Any:
        """Colours, smooth where both axes are even."""
        listed = any(_is_listed(axis) for axis in self.series[0].shape.at)
        steps = [np.diff(axis) for axis in (x, y)]
        if listed or not all(np.allclose(step, step[0]) for step in steps):
            return self.ax_.pcolormesh(x, y, drawn.T, shading="nearest", rasterized=True, **colours)
        (a, b) = (step[0] / 2 for step in steps)
        extent = (x[0] - a, x[-1] + a, y[0] - b, y[-1] + b)
        return self.ax_.imshow(
            drawn.T, origin="lower", extent=extent, aspect="auto", interpolation="bilinear",
            **colours,
        )  # fmt: skip

    def _kept(self, k: int) -> Any:
        """Positions of the points of an axis that are shown: of levels the most frequent."""
        axis, shares = self.series[0].shape.at[k], self.series[0].shape.shares[k]
        n = len(axis)
        if axis.dtype != object or n <= self.max_levels:
            return np.arange(n)
        rank = np.zeros(n) if shares is None else np.append(shares, np.zeros(n))[:n]
        return np.sort(np.argsort(-rank, kind="stable")[: self.max_levels])

    def _back(self, value: float) -> str:
        """What a colour or a contour stands for."""
        if self.scale == "ratio":
            return number(float(np.exp(value)))
        return number(value + (self.middle or 0.0))

    def _contours(self, x: Any, y: Any, drawn: Any, small: bool) -> None:
        if drawn.count() == 0 or float(np.ptp(drawn.compressed())) == 0.0:
            return
        ax = self.ax_
        n, low, high = 5 if small else 8, float(drawn.min()), float(drawn.max())
        if self.scale == "ratio":
            levels = np.log(factors(float(np.exp(low)), float(np.exp(high)), n))
        else:
            levels = np.asarray(MaxNLocator(n).tick_values(low, high))
        styles = ["--" if level < 0 else "-" for level in levels]
        lines = ax.contour(
            x, y, drawn.T, levels=levels, colors=["#222222"], linestyles=styles, alpha=0.6,
            linewidths=0.6 if small else 0.8,
        )  # fmt: skip
        if not small:
            ax.clabel(lines, fontsize="x-small", fmt=self._back)

    def _surface_ticks(self, axis: Any, shown: Any, small: bool) -> None:
        if not _is_listed(shown):
            _set_ticks(axis, 4 if small else 6, whole=_is_whole(shown))
            return
        numeric = shown.dtype != object
        names = [on_axis(v, shown[0], shown[-1]) if numeric
                 else _text(v, 14) if v is not None else "missing" for v in shown]  # fmt: skip
        axis.set_ticks(np.arange(len(shown)), names)
        axis.set_tick_params(length=0)
        if axis is self.ax_.xaxis and sum(map(len, names)) > (24 if small else 48):
            axis.set_tick_params(labelrotation=90)

    def _colour_bar(self, beside: Any, **options: Any) -> Any:
        bar = self.figure_.colorbar(self._mesh, ax=beside, aspect=30, **options)
        bar.outline.set_visible(False)
        grey = _blend(self.ax_, 0.75)
        bar.ax.tick_params(colors=grey, labelsize="small", width=0.8, length=3)
        if self.scale == "ratio":
            low, high = np.exp([self._mesh.norm.vmin, self._mesh.norm.vmax])
            bar.set_ticks(np.log(factors(float(low), float(high), 7)).tolist())
        bar.long_axis.set_major_formatter(FuncFormatter(lambda value, _: self._back(value)))
        return bar


def _beside(marks: Any) -> Any:
    """The points that are marked, and their neighbours."""
    return marks | np.append(marks[1:], False) | np.append(False, marks[:-1])


def _is_whole(x: Any) -> bool:
    """Whether ticks are to be whole numbers."""
    return len(x) > 1 and bool(x[0] == round(x[0]) and x[-1] == round(x[-1]) and x[-1] - x[0] >= 4)


def _is_listed(axis: Any) -> bool:
    """Whether the values of an axis of a surface are shown one by one."""
    return axis.dtype == object or len(axis) <= 12


def _background(model: Model, drawn: Shape, rows: Table | None, wanted: Any) -> dict[str, Any]:
    """How rows spread, and what of the axis is shown."""
    if drawn.kind == "surface":
        if not isinstance(wanted, str):
            raise ValueError(f"view: of a pair 'auto' or 'all', got {wanted!r}")
        columns = [] if rows is None else [column_of(model, c, rows) for c in drawn.columns]
        numbers = [c.values for c in columns if isinstance(c, Numbers)]
        out: dict[str, Any] = {"beyond": _beyond_map(model, drawn)}
        if len(numbers) == 2:
            some = np.random.default_rng(0).permutation(len(numbers[0]))[:3000]
            out["rows"] = (numbers[0][some], numbers[1][some])
        return out
    column, at = drawn.columns[0], drawn.at[0]
    spread = spread_of(model, column, rows)
    if drawn.kind == "levels":
        return {"spread": spread, "shares": shares_of(model, column, at, rows)}
    if isinstance(wanted, str) and wanted not in ("auto", "all"):
        raise ValueError(f"view must be 'auto', 'all' or (low, high), got {wanted!r}")
    shown = (float(at[0]), float(at[-1])) if len(at) else (0.0, 1.0)
    if not isinstance(wanted, str):
        shown = (float(wanted[0]), float(wanted[1]))
        if not shown[0] < shown[1]:
            raise ValueError(f"view: expected low < high, got {wanted!r}")
    elif wanted == "auto":
        shown = view(*shown, spread)
    ends = _beyond(shown, (at[0], at[-1])) if len(at) else ""
    return {"spread": spread, "view": shown, "beyond": [f"values go {ends}"] if ends else []}


def _beyond(shown: Any, all_: Any) -> str:
    """How far values go that are out of view."""
    low, high = (on_axis(end, all_[0], all_[1], 3) for end in all_)
    ends = [f"from {low}"] if shown[0] > all_[0] else []
    return " and ".join(ends + ([f"to {high}"] if shown[1] < all_[1] else []))


def _beyond_map(model: Model, drawn: Shape) -> list[str]:
    out = []
    for name, at in zip(drawn.columns, drawn.at, strict=True):
        facts = model.columns[name]
        if at.dtype != object:
            ends = _beyond((at[0], at[-1]), (facts.low, facts.high))
            out += [f"{_text(name, 20)} goes {ends}"] if ends else []
    return out


# --- several models -------------------------------------------------------------------------------


class ComparisonDisplay(EffectDisplay):
    """The effects of several models on one column, in one picture.

    Attributes
    ----------
    data : table of what is drawn; a model's column is named as the model
    ax_, figure_ : of matplotlib

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> import matplotlib; matplotlib.use("agg")
    >>> x = np.linspace(0, 6, 200)
    >>> models = {f"{m} iterations": cb.fit({"x": x}, np.sin(x), n_iter=m) for m in (5, 50)}
    >>> display = ComparisonDisplay.from_estimators(models, "x")
    >>> list(display.data)
    ['x', '5 iterations', '50 iterations']
    >>> import matplotlib.pyplot as plt; plt.close(display.figure_)
    """

    @classmethod
    def from_estimators(
        cls, models: Mapping[str, Any], which: str, *, ax: Axes | None = None, **options: Any
    ) -> Self:
        """Computes the effects and draws them.

        Parameters
        ----------
        models : mapping of name to Model or estimator
        which : name of a column (its terms are added up) or of a term
        ax : matplotlib axes, optional
        **options
            As of `EffectDisplay.from_estimator`: scale, output, table, view, max_levels, sort,
            labels, target, n. The spread of the rows is that of the first model.
        """
        if not models:
            raise ValueError("expected at least one model")
        if "parts" in options:
            raise TypeError("a comparison of models does not show parts")
        displays = [
            EffectDisplay.from_estimator(model, which, ax=LATER, **options)
            for model in models.values()
        ]
        first, kinds = displays[0], {d.kind for d in displays}
        if "surface" in kinds or len(kinds) > 1:
            raise ValueError(
                f"{which!r}: only curves, or levels, can be drawn over each other; give every "
                "model its own axes with ax="
            )
        if any(len(d.series) > 1 for d in displays):
            raise ValueError("with several classes say which to compare, with output=")
        named = zip(models, displays, strict=True)
        series = [replace(d.series[0], name=str(name)) for name, d in named]
        low, high = (min(d.view[0] for d in displays), max(d.view[1] for d in displays))
        made = cls(
            aligned(series), label=first.label, scale=first.scale, spread=first.spread,
            middle=first.middle if first.scale != "response" else None, shares=first.shares,
            view=(low, high), labels=first.labels, max_levels=first.max_levels, sort=first.sort,
        )  # fmt: skip
        return made if ax is LATER else made.plot(ax)

    @property
    def data(self) -> Columns:
        """What is drawn, as a table, at the points of the first model."""
        first = self.series[0].shape
        if first.kind == "levels":
            return super().data
        values = [np.interp(first.at[0], s.shape.at[0], s.values) for s in self.series]
        pairs = zip(self.series, values, strict=True)
        return series_table([replace(s, shape=first, values=v) for s, v in pairs], self.scale)


# --- importance -----------------------------------------------------------------------------------


class ImportanceDisplay:
    """How much of the fall of the risk each column or term brought, as bars.

    Of a model whose importance is not stored (an edited one, an earlier iterate) the bars are the
    standard deviations of the effects.

    Attributes
    ----------
    data : table of names and values, the largest first
    ax_, figure_ : of matplotlib

    Examples
    --------
    >>> import cwboost as cb
    >>> import matplotlib; matplotlib.use("agg")
    >>> model = cb.fit({"g": ["a", "b"] * 9, "h": ["x", "y", "y"] * 6}, [0.0, 1.0] * 9)
    >>> display = ImportanceDisplay.from_estimator(model)
    >>> list(display.data["column"])
    ['g']
    >>> import matplotlib.pyplot as plt; plt.close(display.figure_)
    """

    def __init__(
        self,
        values: Mapping[str, float],
        *,
        by: str = "column",
        of_risk: bool = True,
        max_bars: int = 20,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self.values, self.by, self.of_risk = dict(values), by, of_risk
        self.max_bars, self.labels = max_bars, dict(labels or {})

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        *,
        by: Literal["column", "term"] = "column",
        max_bars: int = 20,
        labels: Mapping[str, str] | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Computes the importance and draws it.

        Parameters
        ----------
        model : Model, CWBRegressor or CWBClassifier
        by : "column" or "term"
            A column's terms are added up; pairs of columns stand for themselves.
        max_bars : int
            The least are gathered in one bar.
        labels : mapping of name to text, optional
        ax : matplotlib axes, optional
        """
        model = _model(model)
        if by not in ("column", "term"):
            raise ValueError(f"by must be 'column' or 'term', got {by!r}")
        known = model.shares is not None
        values = panels(model) if by == "column" else model.importance() if known else sizes(model)
        made = cls(values, by=by, of_risk=known, max_bars=max_bars, labels=labels)
        return made if ax is LATER else made.plot(ax)

    @property
    def data(self) -> Columns:
        """Names and values, the largest first."""
        names = np.array(list(self.values), dtype=object)
        return Columns({self.by: names, "importance": np.array(list(self.values.values()))})

    @property
    def _bars(self) -> tuple[list[str], list[float]]:
        """What is drawn, the least gathered."""
        shown = [_text(self.labels.get(name, name)) for name in self.values]
        values, rest = list(self.values.values()), len(self.values) - self.max_bars
        if rest <= 1:
            return shown, values
        names = [*shown[: self.max_bars], f"{rest:,} others"]
        return names, [*values[: self.max_bars], sum(values[self.max_bars :])]

    @property
    def _size(self) -> tuple[float, float]:
        return 5.6, min(1.0 + 0.27 * max(len(self._bars[0]), 2), 9.0)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draws the bars, on the given axes or in a new figure."""
        names, values = self._bars
        with _styled():
            ax = self.ax_ = _axes(ax, self._size)
            self.figure_ = ax.figure
            _dress(ax, "x")
            gathered = len(names) > self.max_bars and len(self.values) > len(names)
            y = np.arange(len(names), dtype=float)
            colours: list[Any] = [BLUE] * len(names)
            if gathered:
                y[-1] += 0.3
                colours[-1] = _blend(ax, 0.45)
            ax.barh(y, values, height=0.62, color=colours, zorder=2)
            _dress_levels(ax, y, names)
            ax.axvline(0.0, color=_blend(ax, 0.45), linewidth=0.9, zorder=3)
            low, high = min([0.0, *values]), max([0.0, *values]) or 1.0
            ax.set_xlim(1.08 * low, high + 0.13 * (high - low))
            _set_ticks(ax.xaxis)
            total = sum(self.values.values())
            if self.of_risk and total > 0:
                for place, value in zip(y, values, strict=True):
                    _note(ax, _percent(value / total), (max(value, 0.0), place), (4, 0))
            what = "fall of the training risk" if self.of_risk else "standard deviation"
            ax.set_xlabel(what if self.of_risk else f"{what} of the effect")
        return self


def _percent(share: float) -> str:
    return f"{share:.1%}".replace("-", "−")


# --- the path -------------------------------------------------------------------------------------


def _apart(places: Sequence[float], gap: float, least: float) -> list[float]:
    """Decreasing places of words, moved so far that none meet."""
    out = list(places)
    for i in range(1, len(out)):  # from the top down, then up from the foot
        out[i] = min(out[i], out[i - 1] - gap)
    for i in reversed(range(len(out))):
        out[i] = max(out[i], out[i + 1] + gap if i + 1 < len(out) else least)
    return out


def _path_axis(ax: Axes, n_iter: int, log: bool) -> None:
    if log:
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(_formatter(ax.xaxis))
        ax.xaxis.set_minor_formatter(NullFormatter())
    else:
        _set_ticks(ax.xaxis, 7, whole=True)
    ax.set_xlim(1 if log else 0, max(n_iter, 2 if log else 1))
    ax.set_xlabel("iteration")


def _is_log(log: bool | None, n_iter: int) -> bool:
    """Whether the axis of a path is logarithmic, if people do not say."""
    return n_iter >= LOG_FROM if log is None else bool(log)


class RiskDisplay:
    """The risk of training and validation rows along the path, the iteration that was chosen, and
    where Hybrid switched; iterations that it left behind are pale.

    Attributes
    ----------
    data : table of iteration, training and (if there are such rows) validation risk
    ax_, figure_ : of matplotlib

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> import matplotlib; matplotlib.use("agg")
    >>> x = np.linspace(0, 6, 200)
    >>> display = RiskDisplay.from_estimator(cb.fit({"x": x}, np.sin(x), validation=0.3))
    >>> list(display.data)
    ['iteration', 'training', 'validation']
    >>> import matplotlib.pyplot as plt; plt.close(display.figure_)
    """

    _size = (6.2, 3.6)

    def __init__(self, model: Model, *, log: bool = True) -> None:
        self.model, self.log = model, log

    @classmethod
    def from_estimator(cls, model: Any, *, log: bool | None = None, ax: Axes | None = None) -> Self:
        """Draws the risk.

        Parameters
        ----------
        model : Model, CWBRegressor or CWBClassifier
        log : bool, optional
            Iterations on a logarithmic axis, which shows the fall and what comes after it; by
            default from 100 iterations on.
        ax : matplotlib axes, optional
        """
        model = _model(model)
        model._refuse_bags("the picture of the risk")
        made = cls(model, log=_is_log(log, model.n_iter))
        return made if ax is LATER else made.plot(ax)

    @property
    def data(self) -> Columns:
        """Iterations from 0 and the risks after them."""
        out = Columns(iteration=np.arange(self.model.n_iter + 1), training=self.model.risk)
        if self.model.validation_risk is not None:
            out["validation"] = self.model.validation_risk
        return out

    def plot(self, ax: Axes | None = None) -> Self:
        """Draws the risk, on the given axes or in a new figure."""
        risks = dict(list(self.data.items())[1:])
        with _styled():
            ax = self.ax_ = _axes(ax, self._size)
            self.figure_ = ax.figure
            _dress(ax)
            _path_axis(ax, self.model.n_iter, self.log)
            for name, risk in risks.items():
                self._line(name, risk)
            self._limits(np.concatenate(list(risks.values())))
            _set_ticks(ax.yaxis)
            ax.set_ylabel(f"risk (mean {self.model.loss.name} loss)")
            self._marks()
            marks = [Line2D([], [], **self._style(name)) for name in risks]
            _legend(ax, marks, risks, loc="lower left" if self.log else "upper right")
        return self

    def _style(self, name: str) -> dict[str, Any]:
        first = name == "training"
        dash = DASHES[0] if first else DASHES[1]
        return {"color": BLUE if first else RED, "linestyle": dash, "linewidth": 1.9, "zorder": 3}

    def _line(self, name: str, risk: Floats) -> None:
        """Chronological: what a rewind left behind is pale, and so is the risk of validation rows
        that are trained on; the path goes on from the iterate kept.
        """
        path, at = self.model.path, np.arange(len(risk))
        style = self._style(name)
        pale = style | {"alpha": 0.4, "zorder": 2}
        if path.switched_after < 0:
            self.ax_.plot(at, risk, **style)
            return
        back, switch = path.rewound_to, path.switched_after
        trained = name == "validation" and getattr(self.model.optimizer, "then", "") == "all"
        self.ax_.plot(at[: back + 1], risk[: back + 1], **style)
        self.ax_.plot(at[back : switch + 1], risk[back : switch + 1], **pale)
        later = np.append(risk[back], risk[switch + 1 :])
        self.ax_.plot(at[switch:], later, **(pale if trained else style))

    def _limits(self, risks: Floats) -> None:
        """From the least risk to that of the start: a path that ran away does not set the scale."""
        known = risks[np.isfinite(risks)]
        least, top = float(known.min()), float(max(self.model.risk[0], known.min()))
        room = max(top - least, 1e-9 * abs(top), 1e-300)
        self.ax_.set_ylim(least - 0.07 * room, top + 0.07 * room)

    def _marks(self) -> None:
        ax, model, path = self.ax_, self.model, self.model.path
        best, watched = model.best_iteration, model.validation_risk is not None
        if best > 0:
            risks = model.risk if model.validation_risk is None else model.validation_risk
            risk = float(np.clip(np.nan_to_num(risks[best], nan=np.inf), *ax.get_ylim()))
            ax.plot([best], [risk], "o", color=RED if watched else BLUE, markersize=7, zorder=5,
                    mec=ax.get_facecolor(), mew=1.2, clip_on=False)  # fmt: skip
            share = np.log(best) / np.log(max(model.n_iter, 2)) if self.log else best / model.n_iter
            side: Any = ("right", -4) if share > 0.7 else ("left", 4)
            text = f"chosen: {best:,}"
            _note(ax, text, (best, risk), (side[1], 11), ha=side[0], fontsize="small",
                  color=_blend(ax, 0.85), zorder=6)  # fmt: skip
        if path.switched_after >= 0:
            switch, on_all = path.switched_after, getattr(model.optimizer, "then", "") == "all"
            ax.axvline(switch, color=_blend(ax, 0.5), linewidth=1, linestyle=(0, (1, 2)))
            then = "plain, on all rows" if on_all else "plain"
            for text, side, shift in (("accelerated", "right", -5), (then, "left", 5)):
                where = ax.get_xaxis_transform()
                _note(ax, text, (switch, 1.0), (shift, -2), where, ha=side, va="top")


class TracesDisplay:
    """How the terms grow along the path: the size of every effect after each iteration, and at the
    foot when each term was chosen.

    Attributes
    ----------
    data : table of iteration and, per term, its size
    traces : cwboost.explain.trajectory.Traces, which also says when terms were chosen
    ax_, figure_ : of matplotlib

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> import matplotlib; matplotlib.use("agg")
    >>> x = np.linspace(0, 6, 200)
    >>> model = cb.fit({"x": x, "z": x % 1}, np.sin(x) + x % 1)
    >>> display = TracesDisplay.from_estimator(model)
    >>> list(display.data)
    ['iteration', 'x', 'z']
    >>> import matplotlib.pyplot as plt; plt.close(display.figure_)
    """

    _size = (7.0, 4.2)
    _row = 0.028  # share of the height of a row of marks

    def __init__(
        self,
        model: Model,
        traces: Traces,
        *,
        kind: str = "deviation",
        max_terms: int = 7,
        log: bool = True,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self.model, self.traces, self.kind, self.max_terms = model, traces, kind, max_terms
        self.log, self.labels = log, dict(labels or {})

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        *,
        kind: Literal["deviation", "range"] = "deviation",
        max_terms: int = 7,
        log: bool | None = None,
        labels: Mapping[str, str] | None = None,
        n: int = 150,
        ax: Axes | None = None,
    ) -> Self:
        """Computes the sizes and draws them.

        Parameters
        ----------
        model : Model, CWBRegressor or CWBClassifier
        kind : "deviation" or "range"
            Standard deviation of an effect over the training rows, or largest minus least effect.
        max_terms : int
            Terms with a colour and a name; the others are grey.
        log : bool, optional
            Iterations on a logarithmic axis; by default from 100 iterations on.
        labels : mapping of term to text, optional
        n : int
            About how many iterations are computed.
        ax : matplotlib axes, optional
        """
        model = _model(model)
        made = cls(
            model, traces(model, kind, n), kind=kind, max_terms=max_terms, labels=labels,
            log=_is_log(log, model.n_iter),
        )  # fmt: skip
        return made if ax is LATER else made.plot(ax)

    @property
    def data(self) -> Columns:
        """Iterations from 0 and the size of every term after them."""
        key = "iteration"
        while key in self.traces.sizes:  # a term of this name
            key += "_"
        return Columns({key: self.traces.iterations, **self.traces.sizes})

    def plot(self, ax: Axes | None = None) -> Self:
        """Draws the traces, on the given axes or in a new figure."""
        with _styled():
            ax = self.ax_ = _axes(ax, self._size)
            self.figure_ = ax.figure
            _dress(ax)
            _path_axis(ax, self.model.n_iter, self.log)
            top = list(self.traces.sizes)[: self.max_terms]
            for k, size in enumerate(self.traces.sizes.values()):
                self._line(size, self._style(k) if k < len(top) else None)
            high = 1.04 * max((float(s.max()) for s in self.traces.sizes.values()), default=1.0)
            share = 0.03 + self._row * len(top)
            ax.set_ylim(-high * share / (1.0 - share), high)
            self._rug(top)
            self._names(top)
            self._marks()
            _set_ticks(ax.yaxis)
            ax.yaxis.set_major_locator(FixedLocator([t for t in ax.get_yticks() if 0 <= t <= high]))
            what = "standard deviation" if self.kind == "deviation" else "range"
            ax.set_ylabel(f"{what} of the effect", y=share + (1 - share) / 2)
        return self

    def _style(self, k: int) -> dict[str, Any]:
        dash = DASHES[k % len(DASHES)]
        return {"color": _colour(self.ax_, k), "linestyle": dash, "linewidth": 1.9, "zorder": 4}

    def _line(self, size: Floats, style: dict[str, Any] | None) -> None:
        """A line, pale where a rewind left it behind."""
        at, path = self.traces.iterations, self.model.path
        style = style or {"color": _blend(self.ax_, 0.3), "linewidth": 0.8, "zorder": 2}
        left = (at > path.rewound_to) & (at <= path.switched_after)
        self.ax_.plot(at, np.where(left, np.nan, size), **style)
        if left.any():
            beside = left | np.append(left[1:], False)
            self.ax_.plot(at, np.where(beside, size, np.nan), **style | {"alpha": 0.35})

    def _rug(self, top: Sequence[str]) -> None:
        """A mark for every iteration that chose the term, a row per term."""
        ax = self.ax_
        ax.axhline(0.0, color=_blend(ax, 0.35), linewidth=0.8, zorder=2)
        for k, name in enumerate(top):
            low = 0.012 + self._row * (len(top) - 1 - k)
            at = self.traces.chosen[name]
            marks = [[(m, low), (m, low + 0.8 * self._row)] for m in at]
            drawn = LineCollection(
                marks, transform=ax.get_xaxis_transform(), colors=[_colour(ax, k)], linewidths=0.7,
                alpha=min(1.0, max(0.35, 200 / max(1, len(at)))), zorder=3,
            )  # fmt: skip
            ax.add_collection(drawn, autolim=False)

    def _names(self, top: Sequence[str]) -> None:
        """Names at the right ends of the lines, moved apart where they would meet."""
        ax, gap = self.ax_, 0.052
        low, high = ax.get_ylim()
        places = [(float(self.traces.sizes[name][-1]) - low) / (high - low) for name in top]
        rest = len(self.traces.sizes) - len(top)
        least = 0.02 + gap * (rest > 0)
        places = _apart(places, gap, least)
        for k, (name, place) in enumerate(zip(top, places, strict=True)):
            text, colour = _text(self.labels.get(name, name), 26), _dark(ax, _colour(ax, k))
            _note(ax, text, (1.0, place), (6, 0), "axes fraction", fontsize="small", color=colour)
        if rest > 0:
            foot = (1.0, places[-1] - gap)
            _note(ax, f"{rest:,} others", foot, (6, 0), "axes fraction", fontsize="small")

    def _marks(self) -> None:
        ax, model = self.ax_, self.model
        switch = model.path.switched_after
        marks = {switch: "switch", model.best_iteration: "chosen"}
        for m, text in marks.items():
            if 0 < m < model.n_iter:
                ax.axvline(m, color=_blend(ax, 0.5), linewidth=1, linestyle=(0, (1, 2)), zorder=1.5)
                _note(ax, text, (m, 1.0), (3, -1), ax.get_xaxis_transform(), va="top")


# --- one prediction -------------------------------------------------------------------------------


class ExplanationDisplay:
    """Why one row gets its prediction: from the intercept, column by column, to the score.

    Attributes
    ----------
    data : table of column, value and effect, the largest first (see `explain.explanation`)
    bars : the steps as they are drawn, small ones gathered
    ax_, figure_ : of matplotlib

    Examples
    --------
    >>> import cwboost as cb
    >>> import matplotlib; matplotlib.use("agg")
    >>> table = {"g": ["a", "b"] * 9, "h": ["x", "y", "y"] * 6}
    >>> model = cb.fit(table, [0.0, 1.0] * 9)
    >>> display = ExplanationDisplay.from_estimator(model, table, row=1)
    >>> list(display.data["column"])
    ['g', '(intercept)', '(score)']
    >>> import matplotlib.pyplot as plt; plt.close(display.figure_)
    """

    def __init__(
        self,
        data: Columns,
        scaled: Scaled,
        *,
        output: int = 0,
        max_bars: int = 10,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self.data, self.scaled, self.output = data, scaled, output
        self.bars, self.labels = waterfall(data, output, max_bars), dict(labels or {})

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        table: Any,
        row: int = 0,
        *,
        output: Any = None,
        max_bars: int = 10,
        offset: Any = None,
        exposure: Any = None,
        labels: Mapping[str, str] | None = None,
        target: str | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Explains a row and draws it.

        Parameters
        ----------
        model : Model, CWBRegressor or CWBClassifier
        table : data frame, array or mapping with the columns of the chosen terms
        row : int
            Number of the row, from 0.
        output : class, optional
            With several classes: which one; by default the most probable.
        max_bars : int
            Columns shown; the others are gathered.
        offset, exposure : name of a column, optional
            As of `Model.predict`.
        labels : mapping of column to text, optional
        target : str, optional
            What is predicted, for the title of the axis.
        ax : matplotlib axes, optional
        """
        rows, model = _rows(model, table), _model(model)
        data = explain(model, rows, row, offset=offset, exposure=exposure)
        scaled = Scaled(model, "score", target)
        picked = int(np.argmax([values[-1] for values in list(data.values())[2:]]))
        if output is not None:
            picked = scaled.number_of(output)
        made = cls(data, scaled, output=picked, max_bars=max_bars, labels=labels)
        return made if ax is LATER else made.plot(ax)

    @property
    def _size(self) -> tuple[float, float]:
        return 6.4, 0.9 + 0.31 * len(self.bars)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draws the bars, on the given axes or in a new figure."""
        with _styled():
            ax = self.ax_ = _axes(ax, self._size)
            self.figure_ = ax.figure
            limits = _Limits(ax, "x")
            _dress(ax, "x")
            for y, bar in enumerate(self.bars):
                self._bar(y, bar)
            for y, bar in enumerate(self.bars[:-1]):
                ax.plot([bar.end] * 2, [y, y + 1], color=_blend(ax, 0.4), linewidth=0.8, zorder=2)
            _dress_levels(ax, np.arange(len(self.bars)), [self._name(bar) for bar in self.bars])
            limits.set(*_padded([bar.end for bar in self.bars], False, 0.06, 0.24))
            _set_ticks(ax.xaxis)
            label = self.scaled.score.removeprefix("the ")
            if self.scaled.model.n_outputs > 1:
                label = f"score of {one_line(self.scaled.outputs[self.output], 30)}"
            ax.set_xlabel(_title(label, 56))
        return self

    def _name(self, bar: Bar) -> str:
        if bar.kind == "column":
            name = _text(self.labels.get(bar.name, bar.name), 24)
            return f"{name} = {_text(short_numbers(bar.value), 18)}"
        if bar.kind == "others":
            return bar.name
        words = {"intercept": "average row", "score": "this row", "offset": "offset"}
        return _text(short_numbers(bar.value), 30) if bar.value else words[bar.kind]

    def _bar(self, y: int, bar: Bar) -> None:
        ax = self.ax_
        style = {"fontsize": "small", "color": _blend(ax, 0.85), "zorder": 5}
        if bar.kind in ("intercept", "score"):
            ax.plot([bar.end], [y], "D", color=_blend(ax, 0.85), markersize=6.5, zorder=4)
            _note(ax, self._meaning(bar.end), (bar.end, y), (9, 0), **style)
            return
        rises = bar.end >= bar.begin
        ax.barh(y, bar.end - bar.begin, left=bar.begin, height=0.6, zorder=3,
                color=BLUE if rises else ORANGE)  # fmt: skip
        _note(ax, signed(bar.end - bar.begin), (max(bar.begin, bar.end), y), (5, 0), **style)

    def _meaning(self, score: float) -> str:
        """A score, and the response that it stands for."""
        model, text = self.scaled.model, number(score)
        if self.scaled.link not in ("logit", "log"):
            return text
        response = float(model.loss.response(np.array([[score]]))[0])
        return (
            f"{text}  ({_percent(response) if self.scaled.link == 'logit' else number(response)})"
        )


# --- all effects ----------------------------------------------------------------------------------


class EffectsDisplay:
    """All effects of a model on one page, the most important first.

    Attributes
    ----------
    displays : dict of column or term to its EffectDisplay, which has the data
    left_out : names of the effects for which there was no room
    axes_ : array of matplotlib axes
    figure_ : matplotlib figure

    Examples
    --------
    >>> import cwboost as cb
    >>> import matplotlib; matplotlib.use("agg")
    >>> model = cb.fit({"g": ["a", "b"] * 9, "h": ["x", "y", "y"] * 6}, [0.0, 1.0] * 9)
    >>> display = EffectsDisplay.from_estimator(model)
    >>> list(display.displays)
    ['g']
    >>> import matplotlib.pyplot as plt; plt.close(display.figure_)
    """

    def __init__(
        self,
        displays: Mapping[str, EffectDisplay],
        *,
        label: str,
        share_scale: bool = False,
        left_out: Sequence[str] = (),
    ) -> None:
        self.displays, self.label = dict(displays), label
        self.share_scale, self.left_out = share_scale, list(left_out)

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        *,
        max_effects: int = 12,
        share_scale: bool = False,
        scale: Scale = "score",
        output: Any = None,
        table: Any = None,
        max_levels: int = 8,
        sort: bool = True,
        labels: Mapping[str, str] | None = None,
        target: str | None = None,
        band: Any = "auto",
        level: float | None = None,
        figure: Any = None,
    ) -> Self:
        """Computes the effects and draws them.

        Parameters
        ----------
        model : Model, CWBRegressor or CWBClassifier
        max_effects : int
            The most important so many; the others are named at the foot.
        share_scale : bool
            One scale of values for all, so that sizes can be compared.
        scale, output, table, max_levels, sort, labels, target, band, level
            As of `EffectDisplay.from_estimator`.
        figure : matplotlib figure or subfigure, optional
        """
        rows, model = _rows(model, table), _model(model)
        order = list(panels(model))
        displays = {
            name: EffectDisplay.from_estimator(
                model, name, scale=scale, output=output, table=rows, max_levels=max_levels,
                sort=sort, labels=labels, target=target, band=band, level=level, ax=LATER,
            )
            for name in order[:max_effects]
        }  # fmt: skip
        label = Scaled(model, scale, target).label
        if output is not None:
            label += f": {one_line(output, 20)}"
        made = cls(displays, label=label, share_scale=share_scale, left_out=order[max_effects:])
        return made if figure is LATER else made.plot(figure)

    @property
    def _shape(self) -> tuple[int, int]:
        n = max(1, len(self.displays))
        across = min(n, 3 if n != 4 else 2)
        return -(-n // across), across

    @property
    def _size(self) -> tuple[float, float]:
        down, across = self._shape
        return max(3.1 * across, 4.0), 2.2 * down + (0.9 if self._maps else 0.5)

    @property
    def _maps(self) -> list[EffectDisplay]:
        return [d for d in self.displays.values() if d.kind == "surface"]

    def plot(self, figure: Any = None) -> Self:
        """Draws the page, in the given figure or in a new one."""
        with _styled():
            if figure is None:
                import matplotlib.pyplot as plt

                figure = plt.figure(figsize=self._size, layout="constrained")
            self.figure_ = figure
            self.axes_ = figure.subplots(*self._shape, squeeze=False)
            for ax in self.axes_.flat[len(self.displays) :]:
                ax.set_axis_off()
            for ax, (name, display) in zip(self.axes_.flat, self.displays.items(), strict=False):
                display._draw(ax, small=True)
                ax.set_title(self._title(name, display), loc="left")
            if self.share_scale:
                self._share()
            if self._maps:
                self._share_colours()
            self._words()
        return self

    def _title(self, name: str, display: EffectDisplay) -> str:
        columns = display.series[0].shape.columns
        if len(columns) == 1:
            return display._title_of(columns[0], 30) if name == columns[0] else _text(name, 30)
        across, up = (display._title_of(c, 16) for c in columns)
        of_class = display.series[0].name
        return f"{up} (up) by {across}" + (f": {_text(of_class, 12)}" if of_class else "")

    def _share(self) -> None:
        """The same limits for all axes of values."""
        drawn = [d for d in self.displays.values() if d.kind != "surface"]
        across = [d.kind == "levels" for d in drawn]
        limits = [
            d.ax_.get_xlim() if a else d.ax_.get_ylim() for d, a in zip(drawn, across, strict=True)
        ]
        for d, a in zip(drawn, across, strict=True):
            ends = (min(low for low, _ in limits), max(high for _, high in limits))
            (d.ax_.set_xlim if a else d.ax_.set_ylim)(*ends)
            d._value_ticks(d.ax_.xaxis if a else d.ax_.yaxis, 4)

    def _share_colours(self) -> None:
        """The same colours for all maps, lest a small one looks like a large one."""
        top = max(d._mesh.norm.vmax for d in self._maps)
        for d in self._maps:
            d._mesh.set_clim(-top, top)
        bar = self._maps[0]._colour_bar(list(self.axes_.flat), location="bottom", shrink=0.3,
                                        pad=0.02, anchor=(0.0, 0.0))  # fmt: skip
        bar.ax.set_ylabel("pairs", rotation=0, ha="right", va="center", fontsize="small")

    def _words(self) -> None:
        """The title, the classes, what marks stand for, and what was left out."""
        figure, first = self.figure_, self.axes_.flat[0]
        if not self.displays:
            _note(first, "no term was chosen", (0.5, 0.5), (0, 0), "axes fraction", ha="center")
            return
        figure.suptitle(_text(self.label, 80), x=0.01, ha="left", fontsize="large")
        width, grey = int(18 * figure.bbox.width / figure.dpi), _blend(first, 0.6)  # in characters
        notes = "\n".join(lines_of(self._notes(), width))
        series = max((d.series for d in self.displays.values()), key=len)
        if len(series) == 1:
            figure.supxlabel(notes, x=0.01, ha="left", fontsize="small", color=grey)
            return
        dashes = [DASHES[k % len(DASHES)] for k in range(len(series))]
        marks = [
            Line2D([], [], color=_colour(first, k), linestyle=dash, linewidth=2)
            for k, dash in enumerate(dashes)
        ]
        names = [" " * s.name.startswith("_") + _text(s.name, 20) for s in series]
        legend = figure.legend(
            marks, names, loc="outside lower left", ncols=min(6, len(names)), frameon=False,
            fontsize="small", handlelength=2.6, title=notes, title_fontsize="small",
            alignment="left",
        )  # fmt: skip
        legend.get_title().set_color(grey)

    def _notes(self) -> list[str]:
        shown = self.displays.values()
        known = any(d.spread is not None or d.shares is not None for d in shown)
        notes = ["grey bars: rows"] if known else []
        notes += dict.fromkeys(word for d in shown for word in d._key())
        if self.left_out:
            names = ", ".join(_text(name, 20) for name in self.left_out[:4])
            more = f" and {len(self.left_out) - 4:,} more" if len(self.left_out) > 4 else ""
            notes.append(f"not shown: {names}{more}")
        return notes


# --- by name --------------------------------------------------------------------------------------

DISPLAYS: dict[str, Any] = {
    "effects": EffectsDisplay,
    "importance": ImportanceDisplay,
    "risk": RiskDisplay,
    "traces": TracesDisplay,
    "explanation": ExplanationDisplay,
}


def plot(model: Any, which: str | None = None, kind: str | None = None, **options: Any) -> Any:
    """See Model.plot."""
    if which is not None:
        if kind not in (None, "effects"):
            raise ValueError(f"kind={kind!r} is of the whole model; leave out {which!r}")
        return EffectDisplay.from_estimator(model, which, **options)
    kind = "effects" if kind is None else kind
    if kind == "interactions":
        from .interactions import InteractionsDisplay

        return InteractionsDisplay.from_estimator(model, **options)
    if kind not in DISPLAYS:
        known = ", ".join(map(repr, (*DISPLAYS, "interactions")))
        raise ValueError(f"kind must be one of {known}, got {kind!r}")
    if kind == "explanation" and options.get("table") is None:
        raise TypeError("kind='explanation' needs the row to explain: pass table= and row=")
    return DISPLAYS[kind].from_estimator(model, **options)


def save(
    model: Any,
    file: Any,
    which: str | None = None,
    kind: str | None = None,
    *,
    form: str | None = None,
    dpi: int = 150,
    **options: Any,
) -> None:
    """Writes a picture to a file without opening a window.

    Parameters
    ----------
    model : Model, CWBRegressor or CWBClassifier
    file : path or open file
        Its ending says the form (.png, .svg, .pdf), unless `form` does.
    which, kind, **options
        As of `Model.plot`.
    form : str, optional
    dpi : int
        Pixels per inch of a PNG.

    Examples
    --------
    >>> import cwboost as cb
    >>> model = cb.fit({"g": ["a", "b"] * 9}, [0.0, 1.0] * 9)
    >>> save(model, "g.svg", "g")
    """
    page = which is None and kind in (None, "effects")
    display = plot(model, which, kind, **options, **{"figure" if page else "ax": LATER})
    _write(display, file, form, dpi, page)


def _write(display: Any, file: Any, form: str | None, dpi: int, page: bool = False) -> None:
    """Draws a display that was made LATER and writes it."""
    figure = Figure(figsize=display._size, layout="constrained")
    display.plot(figure if page else figure.add_subplot())
    figure.savefig(file, format=form, dpi=dpi)
