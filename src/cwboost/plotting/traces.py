"""TracesDisplay: how the effects grow along the path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np

from cwboost.explain.trajectory import Traces, traces
from cwboost.frames.columns import Floats
from cwboost.frames.result_table import ResultTable
from cwboost.model.model import Model

from .display import Display
from .inputs import as_model, check_options
from .mpl import Axes, FixedLocator, LineCollection
from .style import (
    DASHES,
    add_note,
    cwboost_style,
    drawn_text,
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

LABELS = {  # of the kinds of size
    "size": "mean absolute effect",
    "deviation": "standard deviation of the effect",
    "range": "range of the effect",
}


class TracesDisplay(Display):
    """How the terms grow along the path: the size of every effect after each iteration. Marks at
    the foot show when each term was chosen.

    Attributes
    ----------
    data : table of iteration and the size of every term
    traces : cwboost.explain.trajectory.Traces, which also holds when terms were chosen
    ax_, figure_ : matplotlib axes and figure

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

    figure_size = (7.0, 4.2)
    _row = 0.028  # height of a row of marks, as a share of the axes

    def __init__(
        self,
        model: Model,
        traces: Traces,
        *,
        kind: str = "size",
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
        kind: Literal["size", "deviation", "range"] = "size",
        max_terms: int = 7,
        log: bool | None = None,
        labels: Mapping[str, str] | None = None,
        n: int = 150,
        ax: Axes | None = None,
    ) -> Self:
        """Compute the sizes and draw them.

        Parameters
        ----------
        model : Model, CWBRegressor or CWBClassifier
        kind : "size", "deviation" or "range"
            Mean absolute effect, or standard deviation of the effect, over the training rows, or
            largest minus smallest effect.
        max_terms : int
            Number of terms with a colour and a name; the others are grey.
        log : bool, optional
            Show iterations on a logarithmic axis; the default for at least 100 iterations.
        labels : mapping of term to text, optional
        n : int
            Compute the sizes after about n iterations.
        ax : matplotlib axes, optional
        """
        check_options(max_terms=max_terms, log=log, labels=labels, n=n, ax=ax)
        model = as_model(model)
        display = cls(
            model, traces(model, kind, n), kind=kind, max_terms=max_terms, labels=labels,
            log=use_log_axis(log, model.n_iter),
        )  # fmt: skip
        return display.drawn(ax)

    @property
    def data(self) -> ResultTable:
        """Iterations from 0 and the size of every term after each of them."""
        key = "iteration"
        while key in self.traces.sizes:  # a term of this name
            key += "_"
        return ResultTable({key: self.traces.iterations, **self.traces.sizes})

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the traces on the given axes or in a new figure."""
        with cwboost_style():
            ax = self.ax_ = make_axes(ax, self.figure_size)
            self.figure_ = ax.figure
            style_axes(ax)
            set_path_axis(ax, self.model.n_iter, self.log)
            top = list(self.traces.sizes)[: self.max_terms]
            for k, size in enumerate(self.traces.sizes.values()):
                self._draw_line(size, self._style(k) if k < len(top) else None)
            high = 1.04 * max((float(s.max()) for s in self.traces.sizes.values()), default=1.0)
            share = 0.03 + self._row * len(top)
            ax.set_ylim(-high * share / (1.0 - share), high)
            self._draw_rug(top)
            self._add_names(top)
            self._add_marks()
            set_ticks(ax.yaxis)
            ax.yaxis.set_major_locator(FixedLocator([t for t in ax.get_yticks() if 0 <= t <= high]))
            ax.set_ylabel(LABELS[self.kind], y=share + (1 - share) / 2)
        return self

    def _style(self, k: int) -> dict[str, Any]:
        dash = DASHES[k % len(DASHES)]
        return {
            "color": nth_colour(self.ax_, k),
            "linestyle": dash,
            "linewidth": 1.9,
            "zorder": 4,
        }

    def _draw_line(self, size: Floats, style: dict[str, Any] | None) -> None:
        """Draw a line, pale where a rewind discarded iterations."""
        at, path = self.traces.iterations, self.model.path
        style = style or {"color": mix_grey(self.ax_, 0.3), "linewidth": 0.8, "zorder": 2}
        left = (at > path.rewound_to) & (at <= path.switched_after)
        self.ax_.plot(at, np.where(left, np.nan, size), **style)
        if left.any():
            next_to_gap = left | np.append(left[1:], False)
            self.ax_.plot(at, np.where(next_to_gap, size, np.nan), **style | {"alpha": 0.35})

    def _draw_rug(self, top: Sequence[str]) -> None:
        """Draw a mark for every iteration that chose a term, one row per term."""
        ax = self.ax_
        ax.axhline(0.0, color=mix_grey(ax, 0.35), linewidth=0.8, zorder=2)
        for k, name in enumerate(top):
            low = 0.012 + self._row * (len(top) - 1 - k)
            at = self.traces.chosen[name]
            marks = [[(m, low), (m, low + 0.8 * self._row)] for m in at]
            drawn = LineCollection(
                marks, transform=ax.get_xaxis_transform(),
                colors=[nth_colour(ax, k)], linewidths=0.7,
                alpha=min(1.0, max(0.35, 200 / max(1, len(at)))), zorder=3,
            )  # fmt: skip
            ax.add_collection(drawn, autolim=False)

    def _add_names(self, top: Sequence[str]) -> None:
        """Write names at the right ends of the lines, moved apart where they would overlap."""
        ax, gap = self.ax_, 0.052
        low, high = ax.get_ylim()
        places = [(float(self.traces.sizes[name][-1]) - low) / (high - low) for name in top]
        rest = len(self.traces.sizes) - len(top)
        least = 0.02 + gap * (rest > 0)
        places = spread_apart(places, gap, least)
        for k, (name, place) in enumerate(zip(top, places, strict=True)):
            text, colour = (
                drawn_text(self.labels.get(name, name), 26),
                text_colour(ax, nth_colour(ax, k)),
            )
            add_note(
                ax, text, (1.0, place), (6, 0), "axes fraction", fontsize="small", color=colour
            )
        if rest > 0:
            foot = (1.0, places[-1] - gap)
            add_note(ax, f"{rest:,} others", foot, (6, 0), "axes fraction", fontsize="small")

    def _add_marks(self) -> None:
        ax, model = self.ax_, self.model
        switch = model.path.switched_after
        marks = {switch: "switch", model.best_iteration: "chosen"}
        for m, text in marks.items():
            if 0 < m < model.n_iter:
                ax.axvline(
                    m, color=mix_grey(ax, 0.5), linewidth=1, linestyle=(0, (1, 2)), zorder=1.5
                )
                add_note(ax, text, (m, 1.0), (3, -1), ax.get_xaxis_transform(), va="top")
