"""Draws the effect of two columns as a coloured surface with contours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from cwboost._utils.text import quote, readable_number
from cwboost.explain.shapes import Shape
from cwboost.frames.columns import Numbers
from cwboost.frames.table import Table
from cwboost.model.model import Model

from .drawing_data import LEAST_DENSITY, column_of, factors, on_axis
from .effect_drawing import EffectDrawing, describe_hidden_ends, is_whole_axis
from .mpl import Axes, FuncFormatter, MaxNLocator, TwoSlopeNorm
from .style import (
    DIVERGING,
    add_remarks,
    axis_title,
    drawn_text,
    mix_grey,
    set_ticks,
    style_axes,
)

if TYPE_CHECKING:
    from .effect import EffectDisplay

MOST_DOTS = 3000  # rows drawn as dots
MOST_LISTED = 12  # a numeric axis with at most this many values names each of them


class SurfaceDrawing(EffectDrawing):
    """Colours over two columns, blank where there are no rows."""

    value_axis = None

    def __init__(self, display: EffectDisplay, ax: Axes) -> None:
        super().__init__(display, ax)
        self.image: Any = None  # what matplotlib has drawn; its norm maps values to colours

    @staticmethod
    def background(model: Model, shape: Shape, rows: Table | None, view: Any) -> dict[str, Any]:
        """Return the rows to draw as dots, and which columns go beyond the view."""
        if not isinstance(view, str):
            raise ValueError(f"view of a pair must be 'auto' or 'all', got {quote(view)}")
        columns = [] if rows is None else [column_of(model, c, rows) for c in shape.columns]
        numbers = [c.values for c in columns if isinstance(c, Numbers)]
        out: dict[str, Any] = {"beyond": _describe_hidden(model, shape)}
        if len(numbers) == 2:
            some = np.random.default_rng(0).permutation(len(numbers[0]))[:MOST_DOTS]
            out["rows"] = (numbers[0][some], numbers[1][some])
        return out

    @staticmethod
    def notes(display: EffectDisplay) -> list[str]:
        """Return what blank places mean."""
        out = EffectDrawing.notes(display)
        if np.mean(np.ma.getmask(_masked_values(display)[1])) > 0.005:
            out.append("blank: no rows near")
        return out

    def draw(self, small: bool) -> None:
        """Draw colours, contours and dots."""
        ax, display, (axes, drawn) = self.ax, self.display, _masked_values(self.display)
        style_axes(ax, None)
        x, y = (np.arange(len(a)) if _is_listed(a) else a for a in axes)
        top = float(np.abs(drawn).max()) or 1.0
        colours = {"cmap": DIVERGING, "norm": TwoSlopeNorm(0.0, -top, top)}
        self.image = self._draw_image(x, y, drawn, colours)
        if not _is_listed(axes[0]) and not _is_listed(axes[1]):
            self._draw_contours(x, y, drawn, small)
            if display.rows is not None:
                ax.plot(*display.rows, ".", color="black", alpha=0.25, markersize=1.5, zorder=3)
            ax.set_xlim(x[0], x[-1])
            ax.set_ylim(y[0], y[-1])
        for axis, shown in zip((ax.xaxis, ax.yaxis), axes, strict=True):
            self._set_axis_ticks(axis, shown, small)
        if small:
            return
        a, b = display.series[0].shape.columns
        ax.set_xlabel(self.title_of(a))
        ax.set_ylabel(self.title_of(b))
        self.add_colour_bar(ax, pad=0.02).set_label(axis_title(display.label))
        add_remarks(ax, display.beyond + self.notes(display), 80)

    def _draw_image(self, x: Any, y: Any, drawn: Any, colours: dict[str, Any]) -> Any:
        """Draw the colours, smoothed where both axes are evenly spaced."""
        listed = any(_is_listed(axis) for axis in self.display.series[0].shape.at)
        steps = [np.diff(axis) for axis in (x, y)]
        if listed or not all(np.allclose(step, step[0]) for step in steps):
            return self.ax.pcolormesh(x, y, drawn.T, shading="nearest", rasterized=True, **colours)
        (a, b) = (step[0] / 2 for step in steps)
        extent = (x[0] - a, x[-1] + a, y[0] - b, y[-1] + b)
        return self.ax.imshow(
            drawn.T, origin="lower", extent=extent, aspect="auto", interpolation="bilinear",
            **colours,
        )  # fmt: skip

    def _draw_contours(self, x: Any, y: Any, drawn: Any, small: bool) -> None:
        if drawn.count() == 0 or float(np.ptp(drawn.compressed())) == 0.0:
            return
        n, low, high = 5 if small else 8, float(drawn.min()), float(drawn.max())
        if self.display.scale == "ratio":
            levels = np.log(factors(float(np.exp(low)), float(np.exp(high)), n))
        else:
            levels = np.asarray(MaxNLocator(n).tick_values(low, high))
        styles = ["--" if level < 0 else "-" for level in levels]
        lines = self.ax.contour(
            x, y, drawn.T, levels=levels, colors=["#222222"], linestyles=styles, alpha=0.6,
            linewidths=0.6 if small else 0.8,
        )  # fmt: skip
        if not small:
            self.ax.clabel(lines, fontsize="x-small", fmt=self._format_value)

    def _set_axis_ticks(self, axis: Any, shown: Any, small: bool) -> None:
        if not _is_listed(shown):
            set_ticks(axis, 4 if small else 6, whole=is_whole_axis(shown))
            return
        numeric = shown.dtype != object
        names = [on_axis(v, shown[0], shown[-1]) if numeric
                 else drawn_text(v, 14) if v is not None else "missing" for v in shown]  # fmt: skip
        axis.set_ticks(np.arange(len(shown)), names)
        axis.set_tick_params(length=0)
        if axis is self.ax.xaxis and sum(map(len, names)) > (24 if small else 48):
            axis.set_tick_params(labelrotation=90)

    def add_colour_bar(self, axes: Any, **options: Any) -> Any:
        """Add the colour key next to one or more axes, and return it."""
        bar = self.display.figure_.colorbar(self.image, ax=axes, aspect=30, **options)
        bar.outline.set_visible(False)
        colour = mix_grey(self.ax, 0.75)
        bar.ax.tick_params(colors=colour, labelsize="small", width=0.8, length=3)
        if self.display.scale == "ratio":
            low, high = np.exp([self.image.norm.vmin, self.image.norm.vmax])
            bar.set_ticks(np.log(factors(float(low), float(high), 7)).tolist())
        bar.long_axis.set_major_formatter(FuncFormatter(lambda value, _: self._format_value(value)))
        return bar

    def _format_value(self, value: float) -> str:
        """Return the effect that a colour or a contour stands for."""
        if self.display.scale == "ratio":
            return readable_number(float(np.exp(value)))
        return readable_number(value + (self.display.middle or 0.0))


def _is_listed(axis: Any) -> bool:
    """Return whether the values of an axis are named one by one."""
    return axis.dtype == object or len(axis) <= MOST_LISTED


def _masked_values(display: EffectDisplay) -> tuple[list[Any], Any]:
    """Return both axes, and the values relative to the middle, masked where no rows are near."""
    s, keep = display.series[0], [_shown_positions(display, k) for k in range(2)]
    axes = [s.shape.at[k][keep[k]] for k in range(2)]
    values, middle = s.values[np.ix_(*keep)], display.middle or 0.0
    drawn = np.ma.array(np.log(values) if display.scale == "ratio" else values - middle)
    if s.shape.density is not None:
        density = s.shape.density[np.ix_(*keep)]
        drawn = np.ma.masked_where(density < LEAST_DENSITY * density.max(), drawn)
    return axes, drawn


def _shown_positions(display: EffectDisplay, k: int) -> Any:
    """Return the positions of the values of an axis that are shown: the most frequent levels."""
    axis, shares = display.series[0].shape.at[k], display.series[0].shape.shares[k]
    n = len(axis)
    if axis.dtype != object or n <= display.max_levels:
        return np.arange(n)
    rank = np.zeros(n) if shares is None else np.append(shares, np.zeros(n))[:n]
    return np.sort(np.argsort(-rank, kind="stable")[: display.max_levels])


def _describe_hidden(model: Model, shape: Shape) -> list[str]:
    out = []
    for name, at in zip(shape.columns, shape.at, strict=True):
        facts = model.columns[name]
        if at.dtype != object:
            ends = describe_hidden_ends((at[0], at[-1]), (facts.low, facts.high))
            out += [f"{drawn_text(name, 20)} goes {ends}"] if ends else []
    return out
