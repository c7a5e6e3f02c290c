"""Draws the effect of a categorical column: a point per level, with the number of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from cwboost.explain.shapes import Shape
from cwboost.frames.table import Table
from cwboost.model.model import Model

from .drawing_data import LevelLine, shares_of, spread_of
from .effect_drawing import BAND_ALPHA, EffectDrawing
from .mpl import Line2D, Rectangle
from .style import (
    BLUE,
    LONGEST,
    MARKERS,
    AxisLimits,
    add_legend,
    add_note,
    add_remarks,
    axis_title,
    drawn_text,
    label_levels,
    mix_grey,
    nth_colour,
    pad_range,
    style_axes,
)

if TYPE_CHECKING:
    from .effect import EffectDisplay


class LevelsDrawing(EffectDrawing):
    """Points in rows, one row per level."""

    value_axis = "x"

    @staticmethod
    def background(model: Model, shape: Shape, rows: Table | None, view: Any) -> dict[str, Any]:
        """Return the number of rows and the share of every level."""
        del view
        column = shape.columns[0]
        shares = shares_of(model, column, shape.at[0], rows)
        return {"spread": spread_of(model, column, rows), "shares": shares}

    @staticmethod
    def size(display: EffectDisplay) -> tuple[float, float]:
        """Return a size that grows with the number of levels."""
        return 5.6, min(1.0 + 0.26 * (display.lines[-1].place + 1.0), 9.0)

    def draw(self, small: bool) -> None:
        """Draw points, bands and the number of rows of every level."""
        ax, display, lines = self.ax, self.display, self.display.lines
        limits, log = AxisLimits(ax, "x"), display.scale == "ratio"
        style_axes(ax, "x")
        y = np.array([line.place for line in lines])
        n = len(display.series)
        if n == 1 and display.middle is not None:
            ends = [line.values[0] for line in lines]
            ax.hlines(y, display.middle, ends, color=BLUE, linewidth=1.4, alpha=0.55, zorder=2)
        for k in range(n):
            self._draw_points(lines, k, 5.5 if small or n > 1 else 7.0)
        for line in lines:
            if line.span is not None:
                ax.hlines(line.place, *line.span, color=mix_grey(ax, 0.5), linewidth=1.0, zorder=3)
        if display.middle is not None:
            ax.axvline(display.middle, color=mix_grey(ax, 0.45), linewidth=0.9, zorder=1.5)
        if log:
            ax.set_xscale("log")
        limit = 16 if small else LONGEST
        label_levels(ax, y, [drawn_text(line.name, limit) or "(empty)" for line in lines])
        for tick, line in zip(ax.get_yticklabels(), lines, strict=True):
            tick.set_fontstyle("normal" if line.kind == "level" else "italic")
        above = 0.24 if self._draw_counts(lines, small) else 0.06
        limits.set(*pad_range(self._values(lines), log, 0.06, above))
        self.set_value_ticks(4 if small else 6)
        if not small:
            self._add_texts()

    def _values(self, lines: Sequence[LevelLine]) -> list[float]:
        """Return all values that must be in view."""
        out = [v for line in lines for v in (*line.values, *(line.span or ()))]
        out += [v for line in lines for band in line.bands for v in band or ()]
        return out + ([] if self.display.middle is None else [self.display.middle])

    def _add_texts(self) -> None:
        ax, display = self.ax, self.display
        ax.set_xlabel(axis_title(display.label, 56))
        above = add_remarks(ax, self.notes(display))
        name = self.title_of(display.series[0].shape.columns[0])
        ax.set_title(name, loc="left", pad=12 * above if above > 1 else None)
        if len(display.series) > 1:
            marks = [Line2D([], [], **self._point_style(k)) for k in range(len(display.series))]
            add_legend(ax, marks, [s.name for s in display.series], loc="upper left",
                       bbox_to_anchor=(1.1, 1.0))  # fmt: skip

    def _point_style(self, k: int) -> dict[str, Any]:
        marker = MARKERS[k % len(MARKERS)]
        return {"linestyle": "none", "marker": marker, "color": nth_colour(self.ax, k)}

    def _draw_points(self, lines: Sequence[LevelLine], k: int, size: float) -> None:
        n = len(self.display.series)
        shift = (k - (n - 1) / 2) * min(0.18, 0.6 / n)
        for line in lines:
            own = {} if line.kind == "level" else {"mfc": self.ax.get_facecolor(), "mew": 1.5}
            band = line.bands[k] if line.bands else None
            if band is not None:
                self.ax.hlines(line.place + shift, *band, color=nth_colour(self.ax, k),
                               linewidth=1.1 * size, alpha=BAND_ALPHA, zorder=3)  # fmt: skip
            style = self._point_style(k) | {"markersize": size, "zorder": 4.0, **own}
            self.ax.plot([line.values[k]], [line.place + shift], **style)

    def _draw_counts(self, lines: Sequence[LevelLine], small: bool) -> bool:
        """Draw bars and numbers of the rows at the right; return whether they are known."""
        ax, shares = self.ax, np.array([line.share for line in lines])
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
        rows = None if self.display.spread is None else self.display.spread.rows
        for line in lines:
            shown = f"{line.share:.1%}" if rows is None else f"{rows * line.share:,.0f}"
            add_note(ax, shown, (1.0, line.place), (4, 0), ax.get_yaxis_transform())
        what = "rows" if rows is not None else "share"
        add_note(ax, what, (1.0, 1.0), (4, 2), "axes fraction", va="bottom")
        return True
