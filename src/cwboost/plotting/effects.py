"""EffectsDisplay: the effects of a model, one panel each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

from matplotlib.lines import Line2D

from cwboost.explain.sizes import panels

from .drawing_data import (
    Scale,
    Scaled,
    lines_of,
    one_line,
)
from .effect import EffectDisplay
from .inputs import as_model, as_rows
from .style import (
    DASHES,
    LATER,
    add_note,
    blend,
    colour_of,
    drawn_text,
    styled,
)


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
        rows, model = as_rows(model, table), as_model(model)
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
        with styled():
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
            return display._title_of(columns[0], 30) if name == columns[0] else drawn_text(name, 30)
        across, up = (display._title_of(c, 16) for c in columns)
        of_class = display.series[0].name
        return f"{up} (up) by {across}" + (f": {drawn_text(of_class, 12)}" if of_class else "")

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
            add_note(first, "no term was chosen", (0.5, 0.5), (0, 0), "axes fraction", ha="center")
            return
        figure.suptitle(drawn_text(self.label, 80), x=0.01, ha="left", fontsize="large")
        width, grey = int(18 * figure.bbox.width / figure.dpi), blend(first, 0.6)  # in characters
        notes = "\n".join(lines_of(self._notes(), width))
        series = max((d.series for d in self.displays.values()), key=len)
        if len(series) == 1:
            figure.supxlabel(notes, x=0.01, ha="left", fontsize="small", color=grey)
            return
        dashes = [DASHES[k % len(DASHES)] for k in range(len(series))]
        marks = [
            Line2D([], [], color=colour_of(first, k), linestyle=dash, linewidth=2)
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
        notes += dict.fromkeys(word for d in shown for word in d._key())
        if self.left_out:
            names = ", ".join(drawn_text(name, 20) for name in self.left_out[:4])
            more = f" and {len(self.left_out) - 4:,} more" if len(self.left_out) > 4 else ""
            notes.append(f"not shown: {names}{more}")
        return notes
