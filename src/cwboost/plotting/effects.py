"""EffectsDisplay: all effects of a model on one page, one panel each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from cwboost.explain.sizes import panels

from .display import DEFERRED, Display
from .drawing_data import (
    EffectScale,
    Scale,
    lines_of,
    one_line,
)
from .effect import EffectDisplay
from .inputs import as_model, as_rows, check_options
from .mpl import Line2D
from .style import (
    DASHES,
    add_note,
    cwboost_style,
    drawn_text,
    mix_grey,
    nth_colour,
)


class EffectsDisplay(Display):
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

    is_page = True

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
        """Compute the effects and draw them.

        Parameters
        ----------
        model : Model, CWBRegressor or CWBClassifier
        max_effects : int
            Draw this many effects, the most important ones; the others are named at the foot.
        share_scale : bool
            Use one scale of values for all effects, so that sizes can be compared.
        scale, output, table, max_levels, sort, labels, target, band, level
            As for `EffectDisplay.from_estimator`.
        figure : matplotlib figure or subfigure, optional
        """
        check_options(max_effects=max_effects, share_scale=share_scale, figure=figure)
        rows, model = as_rows(model, table), as_model(model)
        order = list(panels(model))
        displays = {
            name: EffectDisplay.from_estimator(
                model, name, scale=scale, output=output, table=rows, max_levels=max_levels,
                sort=sort, labels=labels, target=target, band=band, level=level, ax=DEFERRED,
            )
            for name in order[:max_effects]
        }  # fmt: skip
        label = EffectScale(model, scale, target).label
        if output is not None:
            label += f": {one_line(output, 20)}"
        display = cls(displays, label=label, share_scale=share_scale, left_out=order[max_effects:])
        return display.drawn(figure)

    @property
    def _shape(self) -> tuple[int, int]:
        """Rows and columns of panels."""
        n = max(1, len(self.displays))
        across = min(n, 3 if n != 4 else 2)
        return -(-n // across), across

    @property
    def figure_size(self) -> tuple[float, float]:
        """Width and height in inches of a new figure."""
        down, across = self._shape
        return max(3.1 * across, 4.0), 2.2 * down + (0.9 if self._surfaces else 0.5)

    @property
    def _surfaces(self) -> list[EffectDisplay]:
        return [d for d in self.displays.values() if d.kind == "surface"]

    def plot(self, figure: Any = None) -> Self:
        """Draw the page in the given figure or in a new one."""
        check_options(figure=figure)
        with cwboost_style():
            if figure is None:
                import matplotlib.pyplot as plt

                figure = plt.figure(figsize=self.figure_size, layout="constrained")
            self.figure_ = figure
            self.axes_ = figure.subplots(*self._shape, squeeze=False)
            for ax in self.axes_.flat[len(self.displays) :]:
                ax.set_axis_off()
            for ax, (name, display) in zip(self.axes_.flat, self.displays.items(), strict=False):
                display.draw_on(ax, small=True)
                ax.set_title(self._title(name, display), loc="left")
            if self.share_scale:
                self._share_limits()
            if self._surfaces:
                self._share_colours()
            self._add_texts()
        return self

    def _title(self, name: str, display: EffectDisplay) -> str:
        columns, title_of = display.series[0].shape.columns, display.drawing.title_of
        if len(columns) == 1:
            return title_of(columns[0], 30) if name == columns[0] else drawn_text(name, 30)
        across, up = (title_of(c, 16) for c in columns)
        of_class = display.series[0].name
        return f"{up} (up) by {across}" + (f": {drawn_text(of_class, 12)}" if of_class else "")

    def _share_limits(self) -> None:
        """Give all axes that show values the same limits."""
        drawings = [d.drawing for d in self.displays.values() if d.drawing.value_axis is not None]
        limits = [d.ax.get_xlim() if d.value_axis == "x" else d.ax.get_ylim() for d in drawings]
        for d in drawings:
            ends = (min(low for low, _ in limits), max(high for _, high in limits))
            (d.ax.set_xlim if d.value_axis == "x" else d.ax.set_ylim)(*ends)
            d.set_value_ticks(4)

    def _share_colours(self) -> None:
        """Give all surfaces the same colours, so that a small effect does not look large."""
        surfaces: list[Any] = [d.drawing for d in self._surfaces]
        top = max(d.image.norm.vmax for d in surfaces)
        for d in surfaces:
            d.image.set_clim(-top, top)
        bar = surfaces[0].add_colour_bar(list(self.axes_.flat), location="bottom", shrink=0.3,
                                         pad=0.02, anchor=(0.0, 0.0))  # fmt: skip
        bar.ax.set_ylabel("pairs", rotation=0, ha="right", va="center", fontsize="small")

    def _add_texts(self) -> None:
        """Add the title, the legend of classes, what marks mean, and what was left out."""
        figure, first = self.figure_, self.axes_.flat[0]
        if not self.displays:
            add_note(first, "no term was chosen", (0.5, 0.5), (0, 0), "axes fraction", ha="center")
            return
        figure.suptitle(drawn_text(self.label, 80), x=0.01, ha="left", fontsize="large")
        width = int(18 * figure.bbox.width / figure.dpi)  # in characters
        grey = mix_grey(first, 0.6)
        notes = "\n".join(lines_of(self._notes(), width))
        series = max((d.series for d in self.displays.values()), key=len)
        if len(series) == 1:
            figure.supxlabel(notes, x=0.01, ha="left", fontsize="small", color=grey)
            return
        dashes = [DASHES[k % len(DASHES)] for k in range(len(series))]
        marks = [
            Line2D([], [], color=nth_colour(first, k), linestyle=dash, linewidth=2)
            for k, dash in enumerate(dashes)
        ]
        names = [" " * s.name.startswith("_") + drawn_text(s.name, 20) for s in series]
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
        notes += dict.fromkeys(note for d in shown for note in d.notes)
        if self.left_out:
            names = ", ".join(drawn_text(name, 20) for name in self.left_out[:4])
            more = f" and {len(self.left_out) - 4:,} more" if len(self.left_out) > 4 else ""
            notes.append(f"not shown: {names}{more}")
        return notes
