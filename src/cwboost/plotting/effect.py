"""EffectDisplay: the effect of one column or term."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.colors import TwoSlopeNorm
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullFormatter

from cwboost.binning.spread import Spread
from cwboost.explain.bands import check_band
from cwboost.explain.shapes import Shape, shape, view
from cwboost.frames.result_table import ResultTable
from cwboost.frames.table import Floats, Numbers, Table
from cwboost.model.model import Model

from .drawing_data import (
    LevelLine,
    Scale,
    Scaled,
    Series,
    column_of,
    factors,
    histogram,
    level_lines,
    number,
    on_axis,
    one_line,
    parts_of,
    series_of,
    series_table,
    shares_of,
    spread_of,
    thin_places,
)
from .inputs import as_model, as_rows
from .style import (
    BLUE,
    DASHES,
    DIVERGING,
    LATER,
    LONGEST,
    MARKERS,
    AxisLimits,
    add_legend,
    add_note,
    add_remarks,
    axes_or_new,
    axis_title,
    blend,
    colour_of,
    drawn_text,
    dress,
    dress_levels,
    padded_range,
    set_ratio_ticks,
    set_ticks,
    styled,
)

STRIP = 0.13  # share of the height that shows how the rows spread
SHADE = 0.22  # of a band
NEAR = 2e-3  # of the largest density: below it a surface says nothing


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
        rows, model = as_rows(model, table), as_model(model)
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
    def data(self) -> ResultTable:
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
        with styled():
            self._draw(axes_or_new(ax, self._size))
        return self

    def _draw(self, ax: Axes, small: bool = False) -> None:
        self.ax_, self.figure_ = ax, ax.figure
        draw = {"curve": self._curve, "levels": self._levels, "surface": self._surface}
        draw[self.kind](small)

    def _title_of(self, column: str, limit: int = 48) -> str:
        return drawn_text(self.labels.get(column, column), limit)

    # --- curves -----------------------------------------------------------------------------------

    def _line_style(self, k: int) -> dict[str, Any]:
        return {
            "color": colour_of(self.ax_, k),
            "linestyle": DASHES[k % len(DASHES)],
            "linewidth": 1.3 if self.series[k].thin else 2.0,
            "zorder": 3 if self.series[k].thin else 4,
        }

    def _curve(self, small: bool) -> None:
        ax, (low, high) = self.ax_, self.view
        limits, span = AxisLimits(ax, "y"), AxisLimits(ax, "x")
        dress(ax)
        for k, s in enumerate(self.series):
            self._draw_band(s, k)
            self._draw_line(s, self._line_style(k))
        if self.middle is not None:
            ax.axhline(self.middle, color=blend(ax, 0.45), linewidth=0.9, zorder=2)
        room, x = (high - low) or 1.0, self.series[0].shape.at[0]
        gone = any(s.missing is not None for s in self.series)
        if gone:
            self._missing_mark(high, room, small)
        stop = high - (0.22 if small else 0.06) * room if gone else np.inf
        set_ticks(ax.xaxis, 4 if small else 7, whole=_is_whole(x), stop=stop)
        span.set(low - 0.02 * room, high + (0.17 if gone else 0.02) * room)
        if self.scale == "ratio":
            ax.set_yscale("log")
            ax.yaxis.set_minor_formatter(NullFormatter())
        foot = STRIP + 0.04 if self._foot(room) else 0.0
        limits.set(*padded_range(self._shown, self.scale == "ratio", 0.05 + 1.1 * foot, 0.05))
        self._value_ticks(ax.yaxis, 4 if small else 6)
        if small:
            return
        ax.set_xlabel(self._title_of(self.series[0].shape.columns[0]))
        ax.set_ylabel(axis_title(self.label))
        add_remarks(ax, self.beyond + self._key())
        if len(self.series) > 1:
            styles = [self._line_style(k) for k in range(len(self.series))]
            marks = [Line2D([], [], **style) for style in styles]
            add_legend(ax, marks, [s.name for s in self.series], handlelength=2.6)

    def _draw_band(self, s: Series, k: int) -> None:
        """A shade from end to end."""
        if s.band is None:
            return
        x, (low, high) = s.shape.at[0], self.view
        seen = (x >= low) & (x <= high)
        self.ax_.fill_between(
            x[seen], s.band[0][seen], s.band[1][seen], color=colour_of(self.ax_, k), alpha=SHADE,
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
            set_ratio_ticks(axis, n + 1)
        else:
            set_ticks(axis, n)

    def _missing_mark(self, high: float, room: float, small: bool) -> None:
        """The effect of missing cells, apart at the right."""
        ax, at = self.ax_, high + 0.1 * room
        for k, s in enumerate(self.series):
            if s.missing_band is not None:
                ax.vlines(at, *s.missing_band, color=colour_of(ax, k), linewidth=3.5, alpha=SHADE,
                          zorder=2.5, clip_on=False)  # fmt: skip
            if s.missing is not None:
                ax.plot(
                    [at], [s.missing], marker=MARKERS[k % len(MARKERS)], markersize=6.5, mew=1.6,
                    color=colour_of(ax, k), mfc=ax.get_facecolor(), zorder=5, clip_on=False,
                )  # fmt: skip
        edge, grey = high + 0.035 * room, blend(ax, 0.35)
        ax.axvline(edge, color=grey, linewidth=0.8, linestyle=(0, (2, 2)))
        size = "x-small" if small else "small"
        add_note(ax, "missing", (at, 0), (0, -4), ax.get_xaxis_transform(), ha="center", va="top",
              fontsize=size, fontstyle="italic", color=blend(ax, 0.75))  # fmt: skip

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
        colour = blend(self.ax_, 0.2)
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
        limits, log = AxisLimits(ax, "x"), self.scale == "ratio"
        dress(ax, "x")
        y = np.array([line.place for line in lines])
        n = len(self.series)
        if n == 1 and self.middle is not None:
            ends = [line.values[0] for line in lines]
            ax.hlines(y, self.middle, ends, color=BLUE, linewidth=1.4, alpha=0.55, zorder=2)
        for k in range(n):
            self._draw_points(lines, k, 5.5 if small or n > 1 else 7.0)
        for line in lines:
            if line.span is not None:
                ax.hlines(line.place, *line.span, color=blend(ax, 0.5), linewidth=1.0, zorder=3)
        if self.middle is not None:
            ax.axvline(self.middle, color=blend(ax, 0.45), linewidth=0.9, zorder=1.5)
        if log:
            ax.set_xscale("log")
        limit = 16 if small else LONGEST
        dress_levels(ax, y, [drawn_text(line.name, limit) or "(empty)" for line in lines])
        for tick, line in zip(ax.get_yticklabels(), lines, strict=True):
            tick.set_fontstyle("normal" if line.kind == "level" else "italic")
        shown = [v for line in lines for v in (*line.values, *(line.span or ()))]
        shown += [v for line in lines for band in line.bands for v in band or ()]
        shown += [] if self.middle is None else [self.middle]
        limits.set(*padded_range(shown, log, 0.06, 0.24 if self._counts(lines, small) else 0.06))
        self._value_ticks(ax.xaxis, 4 if small else 6)
        if small:
            return
        ax.set_xlabel(axis_title(self.label, 56))
        above = add_remarks(ax, self._key())
        name = self._title_of(self.series[0].shape.columns[0])
        ax.set_title(name, loc="left", pad=12 * above if above > 1 else None)
        if n > 1:
            marks = [Line2D([], [], **self._point_style(k)) for k in range(n)]
            add_legend(ax, marks, [s.name for s in self.series], loc="upper left",
                    bbox_to_anchor=(1.1, 1.0))  # fmt: skip

    def _point_style(self, k: int) -> dict[str, Any]:
        marker = MARKERS[k % len(MARKERS)]
        return {"linestyle": "none", "marker": marker, "color": colour_of(self.ax_, k)}

    def _draw_points(self, lines: Sequence[LevelLine], k: int, size: float) -> None:
        n = len(self.series)
        shift = (k - (n - 1) / 2) * min(0.18, 0.6 / n)
        for line in lines:
            own = {} if line.kind == "level" else {"mfc": self.ax_.get_facecolor(), "mew": 1.5}
            band = line.bands[k] if line.bands else None
            if band is not None:
                self.ax_.hlines(line.place + shift, *band, color=colour_of(self.ax_, k),
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
            add_note(ax, shown, (1.0, line.place), (4, 0), ax.get_yaxis_transform())
        what = "rows" if rows is not None else "share"
        add_note(ax, what, (1.0, 1.0), (4, 2), "axes fraction", va="bottom")
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
        dress(ax, None)
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
        self._colour_bar(ax, pad=0.02).set_label(axis_title(self.label))
        add_remarks(ax, self.beyond + self._key(), 80)

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
            set_ticks(axis, 4 if small else 6, whole=_is_whole(shown))
            return
        numeric = shown.dtype != object
        names = [on_axis(v, shown[0], shown[-1]) if numeric
                 else drawn_text(v, 14) if v is not None else "missing" for v in shown]  # fmt: skip
        axis.set_ticks(np.arange(len(shown)), names)
        axis.set_tick_params(length=0)
        if axis is self.ax_.xaxis and sum(map(len, names)) > (24 if small else 48):
            axis.set_tick_params(labelrotation=90)

    def _colour_bar(self, beside: Any, **options: Any) -> Any:
        bar = self.figure_.colorbar(self._mesh, ax=beside, aspect=30, **options)
        bar.outline.set_visible(False)
        grey = blend(self.ax_, 0.75)
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
            out += [f"{drawn_text(name, 20)} goes {ends}"] if ends else []
    return out
