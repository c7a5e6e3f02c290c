"""ExplanationDisplay: the prediction of one row as a waterfall of effects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np

from cwboost._utils.text import readable_number
from cwboost.explain.explanation import explain
from cwboost.frames.result_table import ResultTable

from .display import Display
from .drawing_data import (
    Bar,
    EffectScale,
    one_line,
    short_numbers,
    signed,
    waterfall,
)
from .inputs import as_model, as_rows, check_options
from .mpl import Axes
from .style import (
    BLUE,
    ORANGE,
    AxisLimits,
    add_note,
    axis_title,
    cwboost_style,
    drawn_text,
    format_percent,
    label_levels,
    make_axes,
    mix_grey,
    pad_range,
    set_ticks,
    style_axes,
)


class ExplanationDisplay(Display):
    """The prediction of one row: from the intercept, column by column, to the score.

    Attributes
    ----------
    data : table of column, value and effect, the largest first (see `explain.explanation`)
    bars : the steps as they are drawn; small ones are combined
    ax_, figure_ : matplotlib axes and figure

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

    needs_row = True

    def __init__(
        self,
        data: ResultTable,
        scaled: EffectScale,
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
        """Explain a row and draw it.

        Parameters
        ----------
        model : Model, CWBRegressor or CWBClassifier
        table : data frame, array or mapping with the columns of the chosen terms
        row : int
            Number of the row, from 0.
        output : class, optional
            With several classes, the one to draw; by default the most probable.
        max_bars : int
            Show this many columns; the others are combined.
        offset, exposure : name of a column, optional
            As for `Model.predict`.
        labels : mapping of column to text, optional
        target : str, optional
            What is predicted, for the title of the axis.
        ax : matplotlib axes, optional
        """
        check_options(max_bars=max_bars, labels=labels, target=target, ax=ax)
        rows, model = as_rows(model, table), as_model(model)
        data = explain(model, rows, row, offset=offset, exposure=exposure)
        scaled = EffectScale(model, "score", target)
        picked = int(np.argmax([values[-1] for values in list(data.values())[2:]]))
        if output is not None:
            picked = scaled.number_of(output)
        display = cls(data, scaled, output=picked, max_bars=max_bars, labels=labels)
        return display.drawn(ax)

    @property
    def figure_size(self) -> tuple[float, float]:
        return 6.4, 0.9 + 0.31 * len(self.bars)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the bars on the given axes or in a new figure."""
        with cwboost_style():
            ax = self.ax_ = make_axes(ax, self.figure_size)
            self.figure_ = ax.figure
            limits = AxisLimits(ax, "x")
            style_axes(ax, "x")
            for y, bar in enumerate(self.bars):
                self._draw_bar(y, bar)
            for y, bar in enumerate(self.bars[:-1]):
                ax.plot([bar.end] * 2, [y, y + 1], color=mix_grey(ax, 0.4), linewidth=0.8, zorder=2)
            label_levels(ax, np.arange(len(self.bars)), [self._name_of(bar) for bar in self.bars])
            limits.set(*pad_range([bar.end for bar in self.bars], False, 0.06, 0.24))
            set_ticks(ax.xaxis)
            label = self.scaled.score.removeprefix("the ")
            if self.scaled.model.n_outputs > 1:
                label = f"score of {one_line(self.scaled.outputs[self.output], 30)}"
            ax.set_xlabel(axis_title(label, 56))
        return self

    def _name_of(self, bar: Bar) -> str:
        if bar.kind == "column":
            name = drawn_text(self.labels.get(bar.name, bar.name), 24)
            return f"{name} = {drawn_text(short_numbers(bar.value), 18)}"
        if bar.kind == "others":
            return bar.name
        words = {"intercept": "average row", "score": "this row", "offset": "offset"}
        return drawn_text(short_numbers(bar.value), 30) if bar.value else words[bar.kind]

    def _draw_bar(self, y: int, bar: Bar) -> None:
        ax = self.ax_
        style = {"fontsize": "small", "color": mix_grey(ax, 0.85), "zorder": 5}
        if bar.kind in ("intercept", "score"):
            ax.plot([bar.end], [y], "D", color=mix_grey(ax, 0.85), markersize=6.5, zorder=4)
            add_note(ax, self._format_score(bar.end), (bar.end, y), (9, 0), **style)
            return
        rises = bar.end >= bar.begin
        ax.barh(y, bar.end - bar.begin, left=bar.begin, height=0.6, zorder=3,
                color=BLUE if rises else ORANGE)  # fmt: skip
        add_note(ax, signed(bar.end - bar.begin), (max(bar.begin, bar.end), y), (5, 0), **style)

    def _format_score(self, score: float) -> str:
        """Return a score as text, with its response."""
        model, text = self.scaled.model, readable_number(score)
        if self.scaled.link not in ("logit", "log"):
            return text
        response = float(model.loss.response(np.array([[score]]))[0])
        as_percent = self.scaled.link == "logit"
        return f"{text}  ({format_percent(response) if as_percent else readable_number(response)})"
