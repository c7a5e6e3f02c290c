"""TracesDisplay: the size of the terms along the path."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.ticker import FixedLocator

from cwboost.explain.trajectory import Traces, traces
from cwboost.frames.result_table import ResultTable
from cwboost.frames.table import Floats
from cwboost.model.model import Model

from .inputs import as_model
from .style import (
    DASHES,
    LATER,
    add_note,
    axes_or_new,
    blend,
    colour_of,
    darker,
    drawn_text,
    dress,
    is_log_axis,
    set_path_axis,
    set_ticks,
    spread_apart,
    styled,
)


class TracesDisplay:
    """How the terms grow along the path: the size of every effect after each iteration, and at the
    foot when each term was chosen.

    Attributes
    ----------
    data : table of iteration and, per term, its size
    traces : cwboost.explain.trajectory.Traces, which also says when terms were chosen
    ax_, figure_ : of matplotlib

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

    _size = (7.0, 4.2)
    _row = 0.028  # share of the height of a row of marks

    def __init__(
        self,
        model: Model,
        traces: Traces,
        *,
        kind: str = "deviation",
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
        kind: Literal["deviation", "range"] = "deviation",
        max_terms: int = 7,
        log: bool | None = None,
        labels: Mapping[str, str] | None = None,
        n: int = 150,
        ax: Axes | None = None,
    ) -> Self:
        """Computes the sizes and draws them.

        Parameters
        ----------
        model : Model, CWBRegressor or CWBClassifier
        kind : "deviation" or "range"
            Standard deviation of an effect over the training rows, or largest minus least effect.
        max_terms : int
            Terms with a colour and a name; the others are grey.
        log : bool, optional
            Iterations on a logarithmic axis; by default from 100 iterations on.
        labels : mapping of term to text, optional
        n : int
            About how many iterations are computed.
        ax : matplotlib axes, optional
        """
        model = as_model(model)
        made = cls(
            model, traces(model, kind, n), kind=kind, max_terms=max_terms, labels=labels,
            log=is_log_axis(log, model.n_iter),
        )  # fmt: skip
        return made if ax is LATER else made.plot(ax)

    @property
    def data(self) -> ResultTable:
        """Iterations from 0 and the size of every term after them."""
        key = "iteration"
        while key in self.traces.sizes:  # a term of this name
            key += "_"
        return ResultTable({key: self.traces.iterations, **self.traces.sizes})

    def plot(self, ax: Axes | None = None) -> Self:
        """Draws the traces, on the given axes or in a new figure."""
        with styled():
            ax = self.ax_ = axes_or_new(ax, self._size)
            self.figure_ = ax.figure
            dress(ax)
            set_path_axis(ax, self.model.n_iter, self.log)
            top = list(self.traces.sizes)[: self.max_terms]
            for k, size in enumerate(self.traces.sizes.values()):
                self._line(size, self._style(k) if k < len(top) else None)
            high = 1.04 * max((float(s.max()) for s in self.traces.sizes.values()), default=1.0)
            share = 0.03 + self._row * len(top)
            ax.set_ylim(-high * share / (1.0 - share), high)
            self._rug(top)
            self._names(top)
            self._marks()
            set_ticks(ax.yaxis)
            ax.yaxis.set_major_locator(FixedLocator([t for t in ax.get_yticks() if 0 <= t <= high]))
            what = "standard deviation" if self.kind == "deviation" else "range"
            ax.set_ylabel(f"{what} of the effect", y=share + (1 - share) / 2)
        return self

    def _style(self, k: int) -> dict[str, Any]:
        dash = DASHES[k % len(DASHES)]
        return {"color": colour_of(self.ax_, k), "linestyle": dash, "linewidth": 1.9, "zorder": 4}

    def _line(self, size: Floats, style: dict[str, Any] | None) -> None:
        """A line, pale where a rewind left it behind."""
        at, path = self.traces.iterations, self.model.path
        style = style or {"color": blend(self.ax_, 0.3), "linewidth": 0.8, "zorder": 2}
        left = (at > path.rewound_to) & (at <= path.switched_after)
        self.ax_.plot(at, np.where(left, np.nan, size), **style)
        if left.any():
            beside = left | np.append(left[1:], False)
            self.ax_.plot(at, np.where(beside, size, np.nan), **style | {"alpha": 0.35})

    def _rug(self, top: Sequence[str]) -> None:
        """A mark for every iteration that chose the term, a row per term."""
        ax = self.ax_
        ax.axhline(0.0, color=blend(ax, 0.35), linewidth=0.8, zorder=2)
        for k, name in enumerate(top):
            low = 0.012 + self._row * (len(top) - 1 - k)
            at = self.traces.chosen[name]
            marks = [[(m, low), (m, low + 0.8 * self._row)] for m in at]
            drawn = LineCollection(
                marks, transform=ax.get_xaxis_transform(),
                colors=[colour_of(ax, k)], linewidths=0.7,
                alpha=min(1.0, max(0.35, 200 / max(1, len(at)))), zorder=3,
            )  # fmt: skip
            ax.add_collection(drawn, autolim=False)

    def _names(self, top: Sequence[str]) -> None:
        """Names at the right ends of the lines, moved apart where they would meet."""
        ax, gap = self.ax_, 0.052
        low, high = ax.get_ylim()
        places = [(float(self.traces.sizes[name][-1]) - low) / (high - low) for name in top]
        rest = len(self.traces.sizes) - len(top)
        least = 0.02 + gap * (rest > 0)
        places = spread_apart(places, gap, least)
        for k, (name, place) in enumerate(zip(top, places, strict=True)):
            text, colour = drawn_text(self.labels.get(name, name), 26), darker(ax, colour_of(ax, k))
            add_note(
                ax, text, (1.0, place), (6, 0), "axes fraction", fontsize="small", color=colour
            )
        if rest > 0:
            foot = (1.0, places[-1] - gap)
            add_note(ax, f"{rest:,} others", foot, (6, 0), "axes fraction", fontsize="small")

    def _marks(self) -> None:
        ax, model = self.ax_, self.model
        switch = model.path.switched_after
        marks = {switch: "switch", model.best_iteration: "chosen"}
        for m, text in marks.items():
            if 0 < m < model.n_iter:
                ax.axvline(m, color=blend(ax, 0.5), linewidth=1, linestyle=(0, (1, 2)), zorder=1.5)
                add_note(ax, text, (m, 1.0), (3, -1), ax.get_xaxis_transform(), va="top")
