"""StabilityDisplay: how often stability selection chose each column."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self

import numpy as np

from cwboost._utils.checks import check_instance, check_one_of
from cwboost.frames.result_table import ResultTable
from cwboost.selection.stability import Stability

from .display import Display
from .inputs import check_options
from .mpl import Axes
from .style import (
    BLUE,
    DASHES,
    RED,
    add_note,
    add_remarks,
    cwboost_style,
    drawn_text,
    label_levels,
    make_axes,
    mix_grey,
    nth_colour,
    set_path_axis,
    set_ticks,
    spread_apart,
    style_axes,
    text_colour,
    use_log_axis,
)


class StabilityDisplay(Display):
    """How often the fits chose each column, with the cutoff; or how that share grew with the
    iterations.

    Made by `Stability.plot`.

    Attributes
    ----------
    data : table of what is drawn
    ax_, figure_ : matplotlib axes and figure

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> import matplotlib; matplotlib.use("agg")
    >>> X = np.random.default_rng(0).normal(size=(100, 10))
    >>> found = cb.stability(X, X @ np.arange(10), q=2, cutoff=0.9, n_samples=10)
    >>> display = StabilityDisplay.from_stability(found, kind="path")
    >>> display.ax_.get_ylabel()
    'share of the fits that chose the column'
    >>> import matplotlib.pyplot as plt; plt.close(display.figure_)
    """

    def __init__(
        self,
        stability: Stability,
        *,
        kind: Literal["frequency", "path"] = "frequency",
        max_names: int = 20,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        check_instance("stability", stability, Stability)
        self.stability, self.kind, self.max_names = stability, kind, max_names
        self.labels = dict(labels or {})

    @classmethod
    def from_stability(
        cls,
        stability: Stability,
        *,
        kind: Literal["frequency", "path"] = "frequency",
        max_names: int = 20,
        labels: Mapping[str, str] | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the result of stability selection.

        Parameters
        ----------
        stability : Stability
        kind : "frequency" or "path"
            The share of the fits that chose a column; or the same after every iteration.
        max_names : int
            Name this many columns, the most frequent ones.
        labels : mapping of column to text, optional
        ax : matplotlib axes, optional
        """
        check_one_of("kind", kind, ("frequency", "path"))
        check_options(max_names=max_names, labels=labels, ax=ax)
        display = cls(stability, kind=kind, max_names=max_names, labels=labels)
        return display.drawn(ax)

    @property
    def data(self) -> ResultTable:
        """Columns and frequencies, or iterations from 0 and the frequency of every column."""
        stability = self.stability
        if self.kind == "frequency":
            return stability.table()
        path, place = stability.path, {name: k for k, name in enumerate(stability.names)}
        key = "iteration"
        while key in place:  # a column of this name
            key += "_"
        shares = {name: path[:, place[name]] for name in stability.frequency}
        return ResultTable({key: np.arange(len(path)), **shares})

    @property
    def figure_size(self) -> tuple[float, float]:
        lines = min(len(self.stability.names), self.max_names + 1)
        return (5.6, min(1.1 + 0.26 * max(lines, 2), 9.0)) if self.kind == "frequency" else (7, 4.2)

    @property
    def _label(self) -> str:
        return f"share of the fits that chose the {self.stability.by}"

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the frequencies on the given axes or in a new figure."""
        stability = self.stability
        with cwboost_style():
            ax = self.ax_ = make_axes(ax, self.figure_size)
            self.figure_ = ax.figure
            if self.kind == "frequency":
                self._draw_bars()
            else:
                self._draw_lines()
            bound = f"at most {stability.pfer:.2g} expected by chance"
            add_remarks(
                ax, [f"{len(stability.selected)} of {len(stability.names)} selected", bound]
            )
        return self

    def _draw_bars(self) -> None:
        ax, stability, chosen = self.ax_, self.stability, set(self.stability.selected)
        style_axes(ax, "x")
        items = list(stability.frequency.items())
        rest = items[self.max_names :] if len(items) > self.max_names + 1 else []
        items = items[: len(items) - len(rest)]
        names = [drawn_text(self.labels.get(name, name)) for name, _ in items]
        colours = [BLUE if name in chosen else mix_grey(ax, 0.35) for name, _ in items]
        values, y = [share for _, share in items], np.arange(len(items) + (len(rest) > 0)) + 0.0
        if rest:  # as frequent as the most frequent of them
            names.append(f"each of {len(rest):,} others")
            colours.append(mix_grey(ax, 0.2))
            values.append(rest[0][1])
            y[-1] += 0.3
        ax.barh(y, values, height=0.62, color=colours, zorder=2)
        for place, value in zip(y, values, strict=True):
            note = f"{'≤ ' if rest and place == y[-1] else ''}{value:.2f}"
            add_note(ax, note, (value, place), (4, 0))
        label_levels(ax, y, names)
        ax.set_xlim(0.0, 1.09)
        set_ticks(ax.xaxis, stop=1.0)
        ax.axvline(stability.cutoff, color=RED, linewidth=1.3, linestyle=DASHES[1], zorder=3)
        text, foot = f"cutoff {stability.cutoff:.3g}", ax.get_xaxis_transform()
        add_note(
            ax, text, (stability.cutoff, 0.0), (-4, 4), foot, ha="right", va="bottom", color=RED
        )
        ax.set_xlabel(self._label)

    def _draw_lines(self) -> None:
        ax, stability, chosen = self.ax_, self.stability, set(self.stability.selected)
        style_axes(ax)
        data = list(self.data.items())
        at = data[0][1]
        named = [name for name, _ in data[1:] if name in chosen][: self.max_names]
        set_path_axis(ax, len(at) - 1, use_log_axis(None, len(at) - 1))
        for name, shares in data[1:]:
            style: dict[str, Any] = {"color": mix_grey(ax, 0.3), "linewidth": 0.8, "zorder": 2}
            if name in named:
                k = named.index(name)
                dash = DASHES[k % len(DASHES)]
                style = {
                    "color": nth_colour(ax, k),
                    "linewidth": 1.9,
                    "zorder": 4,
                    "linestyle": dash,
                }
            ax.plot(at, shares, **style, drawstyle="steps-post")
        ax.set_ylim(0.0, 1.03)
        set_ticks(ax.yaxis, stop=1.0)
        ax.axhline(stability.cutoff, color=RED, linewidth=1.3, linestyle=DASHES[1], zorder=3)
        behind = {"facecolor": ax.get_facecolor(), "edgecolor": "none", "pad": 1.0, "alpha": 0.85}
        add_note(ax, f"cutoff {stability.cutoff:.3g}", (0.0, stability.cutoff), (5, 8),
              ax.get_yaxis_transform(), color=RED, bbox=behind, zorder=5)  # fmt: skip
        gap = 0.052
        ends = spread_apart([stability.frequency[name] / 1.03 for name in named], gap, 0.02)
        for k, (name, place) in enumerate(zip(named, ends, strict=True)):
            text, colour = (
                drawn_text(self.labels.get(name, name), 26),
                text_colour(ax, nth_colour(ax, k)),
            )
            add_note(
                ax, text, (1.0, place), (6, 0), "axes fraction", fontsize="small", color=colour
            )
        ax.set_ylabel(self._label)
