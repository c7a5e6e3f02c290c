"""Draws the effect of a numeric column as a curve above the distribution of the rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cwboost._utils.checks import as_real
from cwboost._utils.text import quote
from cwboost.explain.shapes import Shape, view
from cwboost.frames.columns import Floats
from cwboost.frames.table import Table
from cwboost.model.model import Model

from .drawing_data import Series, histogram, spread_of, thin_places
from .effect_drawing import BAND_ALPHA, EffectDrawing, describe_hidden_ends, is_whole_axis
from .mpl import Axes, Line2D, NullFormatter, Rectangle
from .style import (
    DASHES,
    MARKERS,
    AxisLimits,
    add_legend,
    add_note,
    add_remarks,
    axis_title,
    mix_grey,
    nth_colour,
    pad_range,
    set_ticks,
    style_axes,
)

if TYPE_CHECKING:
    from .effect import EffectDisplay

STRIP = 0.13  # share of the height that shows the distribution of the rows


class CurveDrawing(EffectDrawing):
    """Lines over a numeric column."""

    def __init__(self, display: EffectDisplay, ax: Axes) -> None:
        super().__init__(display, ax)
        self.series, self.view = display.series, display.view

    @staticmethod
    def background(model: Model, shape: Shape, rows: Table | None, wanted: Any) -> dict[str, Any]:
        """Return the distribution of the column, the range in view, and what is beyond it."""
        at = shape.at[0]
        spread = spread_of(model, shape.columns[0], rows)
        if isinstance(wanted, str) and wanted not in ("auto", "all"):
            raise ValueError(f"view must be 'auto', 'all' or (low, high), got {quote(wanted)}")
        shown = (float(at[0]), float(at[-1])) if len(at) else (0.0, 1.0)
        if not isinstance(wanted, str):
            shown = _as_range(wanted)
        elif wanted == "auto":
            shown = view(*shown, spread)
        ends = describe_hidden_ends(shown, (at[0], at[-1])) if len(at) else ""
        return {"spread": spread, "view": shown, "beyond": [f"values go {ends}"] if ends else []}

    @staticmethod
    def notes(display: EffectDisplay) -> list[str]:
        """Return what shades and pale lines mean."""
        out = EffectDrawing.notes(display)
        if thin_places(display.spread, *display.view):
            out.append("pale: hardly any rows")
        return out

    def draw(self, small: bool) -> None:
        """Draw lines, bands, the mark of missing cells and the distribution of the rows."""
        ax, (low, high), display = self.ax, self.view, self.display
        limits, span = AxisLimits(ax, "y"), AxisLimits(ax, "x")
        style_axes(ax)
        for k, s in enumerate(self.series):
            self._draw_band(s, k)
            self._draw_line(s, self._line_style(k))
        if display.middle is not None:
            ax.axhline(display.middle, color=mix_grey(ax, 0.45), linewidth=0.9, zorder=2)
        room, x = (high - low) or 1.0, self.series[0].shape.at[0]
        missing = any(s.missing is not None for s in self.series)
        if missing:
            self._draw_missing(high, room, small)
        stop = high - (0.22 if small else 0.06) * room if missing else np.inf
        set_ticks(ax.xaxis, 4 if small else 7, whole=is_whole_axis(x), stop=stop)
        span.set(low - 0.02 * room, high + (0.17 if missing else 0.02) * room)
        if display.scale == "ratio":
            ax.set_yscale("log")
            ax.yaxis.set_minor_formatter(NullFormatter())
        foot = STRIP + 0.04 if self._draw_distribution(room) else 0.0
        limits.set(
            *pad_range(self._values_in_view(), display.scale == "ratio", 0.05 + 1.1 * foot, 0.05)
        )
        self.set_value_ticks(4 if small else 6)
        if not small:
            self._add_texts()

    def _add_texts(self) -> None:
        ax, display = self.ax, self.display
        ax.set_xlabel(self.title_of(self.series[0].shape.columns[0]))
        ax.set_ylabel(axis_title(display.label))
        add_remarks(ax, display.beyond + self.notes(display))
        if len(self.series) > 1:
            marks = [Line2D([], [], **self._line_style(k)) for k in range(len(self.series))]
            add_legend(ax, marks, [s.name for s in self.series], handlelength=2.6)

    def _line_style(self, k: int) -> dict[str, Any]:
        return {
            "color": nth_colour(self.ax, k),
            "linestyle": DASHES[k % len(DASHES)],
            "linewidth": 1.3 if self.series[k].thin else 2.0,
            "zorder": 3 if self.series[k].thin else 4,
        }

    def _draw_band(self, s: Series, k: int) -> None:
        if s.band is None:
            return
        x, (low, high) = s.shape.at[0], self.view
        seen = (x >= low) & (x <= high)
        self.ax.fill_between(
            x[seen], s.band[0][seen], s.band[1][seen], color=nth_colour(self.ax, k),
            alpha=BAND_ALPHA, linewidth=0, zorder=2.5,
        )  # fmt: skip

    def _draw_line(self, s: Series, style: dict[str, Any]) -> None:
        """Draw a curve, pale where there are hardly any rows."""
        low, high = self.view
        x, y = s.shape.at[0], s.values
        seen, pale = (x >= low) & (x <= high), self._is_thin(x)
        self.ax.plot(x[seen], np.where(pale, np.nan, y)[seen], solid_capstyle="butt", **style)
        if pale.any():
            thin = style | {"alpha": 0.45, "linewidth": 0.7 * style["linewidth"]}
            self.ax.plot(x[seen], np.where(_with_neighbours(pale), y, np.nan)[seen], **thin)

    def _is_thin(self, x: Floats) -> Any:
        """Return marks of the points that have hardly any rows near."""
        out = np.zeros(len(x), bool)
        for begin, end in thin_places(self.display.spread, *self.view):
            out |= (x > begin) & (x < end)
        return out

    def _draw_missing(self, high: float, room: float, small: bool) -> None:
        """Draw the effect of missing cells apart from the curve, at the right."""
        ax, at = self.ax, high + 0.1 * room
        for k, s in enumerate(self.series):
            if s.missing_band is not None:
                ax.vlines(at, *s.missing_band, color=nth_colour(ax, k), linewidth=3.5,
                          alpha=BAND_ALPHA, zorder=2.5, clip_on=False)  # fmt: skip
            if s.missing is not None:
                ax.plot(
                    [at], [s.missing], marker=MARKERS[k % len(MARKERS)], markersize=6.5, mew=1.6,
                    color=nth_colour(ax, k), mfc=ax.get_facecolor(), zorder=5, clip_on=False,
                )  # fmt: skip
        edge, colour = high + 0.035 * room, mix_grey(ax, 0.35)
        ax.axvline(edge, color=colour, linewidth=0.8, linestyle=(0, (2, 2)))
        size = "x-small" if small else "small"
        add_note(ax, "missing", (at, 0), (0, -4), ax.get_xaxis_transform(), ha="center", va="top",
                 fontsize=size, fontstyle="italic", color=mix_grey(ax, 0.75))  # fmt: skip

    def _values_in_view(self) -> list[float]:
        """Return all values in view. Bands count only where there are rows: their wide ends must
        not set the scale.
        """
        low, high = self.view
        out = [] if self.display.middle is None else [self.display.middle]
        for s in self.series:
            at = s.shape.at[0]
            seen = (at >= low) & (at <= high)
            out += s.values[seen].tolist()
            for end in s.band or ():
                out += end[seen & ~_with_neighbours(self._is_thin(at))].tolist()
            out += [] if s.missing is None else [s.missing]
            out += s.missing_band or ()
        return out

    def _draw_distribution(self, room: float) -> bool:
        """Draw the distribution of the rows at the foot; return whether it is known."""
        ax, spread, (low, high) = self.ax, self.display.spread, self.view
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


def _with_neighbours(marks: Any) -> Any:
    """Return marks of the marked points and of their neighbours."""
    return marks | np.append(marks[1:], False) | np.append(False, marks[:-1])


def _as_range(wanted: Any) -> tuple[float, float]:
    """Return the range (low, high) that the user wants to see."""
    try:
        found = as_real(wanted)
    except (TypeError, ValueError):
        found = np.empty(0)
    if found.shape != (2,) or not found[0] < found[1]:
        raise ValueError(
            f"view: expected 'auto', 'all' or (low, high) with low < high, got {quote(wanted)}"
        )
    return float(found[0]), float(found[1])
