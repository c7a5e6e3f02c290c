"""ImportanceDisplay: how important each column or term is, as bars."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

import numpy as np

from cwboost.explain.sizes import panels, sizes
from cwboost.frames.result_table import ResultTable

from .display import Display
from .inputs import as_model
from .mpl import Axes
from .style import (
    BLUE,
    add_note,
    cwboost_style,
    drawn_text,
    format_percent,
    label_levels,
    make_axes,
    mix_grey,
    set_ticks,
    style_axes,
)


class ImportanceDisplay(Display):
    """The reduction of the risk by each column or term, as bars.

    For a model that does not store its importance (an edited model, an earlier iterate) the bars
    are the standard deviations of the effects.

    Attributes
    ----------
    data : table of names and values, the largest first
    ax_, figure_ : matplotlib axes and figure

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
        """Compute the importance and draw it.

        Parameters
        ----------
        model : Model, CWBRegressor or CWBClassifier
        by : "column" or "term"
            "column" sums the terms of a column; pairs of columns have their own bars.
        max_bars : int
            Draw this many bars; the smallest values are combined in one more bar.
        labels : mapping of name to text, optional
        ax : matplotlib axes, optional
        """
        model = as_model(model)
        if by not in ("column", "term"):
            raise ValueError(f"by must be 'column' or 'term', got {by!r}")
        known = model.shares is not None
        values = panels(model) if by == "column" else model.importance() if known else sizes(model)
        display = cls(values, by=by, of_risk=known, max_bars=max_bars, labels=labels)
        return display.drawn(ax)

    @property
    def data(self) -> ResultTable:
        """Names and values, the largest first."""
        names = np.array(list(self.values), dtype=object)
        return ResultTable({self.by: names, "importance": np.array(list(self.values.values()))})

    @property
    def _bars(self) -> tuple[list[str], list[float]]:
        """The names and values of the bars; the smallest values are combined."""
        shown = [drawn_text(self.labels.get(name, name)) for name in self.values]
        values, rest = list(self.values.values()), len(self.values) - self.max_bars
        if rest <= 1:
            return shown, values
        names = [*shown[: self.max_bars], f"{rest:,} others"]
        return names, [*values[: self.max_bars], sum(values[self.max_bars :])]

    @property
    def figure_size(self) -> tuple[float, float]:
        return 5.6, min(1.0 + 0.27 * max(len(self._bars[0]), 2), 9.0)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the bars on the given axes or in a new figure."""
        names, values = self._bars
        with cwboost_style():
            ax = self.ax_ = make_axes(ax, self.figure_size)
            self.figure_ = ax.figure
            style_axes(ax, "x")
            gathered = len(names) > self.max_bars and len(self.values) > len(names)
            y = np.arange(len(names), dtype=float)
            colours: list[Any] = [BLUE] * len(names)
            if gathered:
                y[-1] += 0.3
                colours[-1] = mix_grey(ax, 0.45)
            ax.barh(y, values, height=0.62, color=colours, zorder=2)
            label_levels(ax, y, names)
            ax.axvline(0.0, color=mix_grey(ax, 0.45), linewidth=0.9, zorder=3)
            low, high = min([0.0, *values]), max([0.0, *values]) or 1.0
            ax.set_xlim(1.08 * low, high + 0.13 * (high - low))
            set_ticks(ax.xaxis)
            total = sum(self.values.values())
            if self.of_risk and total > 0:
                for place, value in zip(y, values, strict=True):
                    add_note(ax, format_percent(value / total), (max(value, 0.0), place), (4, 0))
            what = "fall of the training risk" if self.of_risk else "standard deviation"
            ax.set_xlabel(what if self.of_risk else f"{what} of the effect")
        return self
