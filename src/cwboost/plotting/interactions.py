"""InteractionsDisplay: the gain of the best pairs of columns, and the gain of noise."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from cwboost.frames.result_table import ResultTable
from cwboost.model.records import Ranking

from .display import Display
from .inputs import as_model, check_options
from .mpl import Axes, Patch
from .style import (
    BLUE,
    RED,
    add_legend,
    cwboost_style,
    drawn_text,
    label_levels,
    make_axes,
    mix_grey,
    set_ticks,
    style_axes,
)

LONGEST = 22  # characters of one name of a pair


class InteractionsDisplay(Display):
    """The gain of pairs of columns on the residuals of the main effects, as bars: the share of the
    residuals' sum of squares that one full step of the pair's learner removes.

    Attributes
    ----------
    ranking : Ranking
    data : table of the pairs that are drawn
    ax_, figure_ : matplotlib axes and figure

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> import matplotlib; matplotlib.use("agg")
    >>> rng = np.random.default_rng(1)
    >>> table = {name: rng.uniform(size=500) for name in "abc"}
    >>> model = cb.fit(table, table["a"] + table["b"] * table["c"], interactions=1)
    >>> model.plot(kind="interactions").data["a"]
    array(['b', 'a', 'a'], dtype=object)
    >>> import matplotlib.pyplot as plt; plt.close()
    """

    def __init__(self, ranking: Ranking, *, max_bars: int = 20) -> None:
        self.ranking, self.max_bars = ranking, max_bars

    @classmethod
    def from_estimator(cls, model: Any, *, max_bars: int = 20, ax: Axes | None = None) -> Self:
        """Draw the ranking of a model's fit.

        Parameters
        ----------
        model : Model, CWBRegressor, CWBClassifier or Ranking
            A model fitted with `interactions="auto"` or a number, or the result of
            `rank_interactions`.
        max_bars : int
            Number of pairs, the best ones.
        ax : matplotlib axes, optional
        """
        check_options(max_bars=max_bars, ax=ax)
        ranking = model if isinstance(model, Ranking) else as_model(model).interactions
        if ranking is None:
            raise ValueError(
                "the fit did not rank pairs; fit with interactions='auto', or draw the result of "
                "cb.rank_interactions(model, table, y)"
            )
        display = cls(ranking, max_bars=max_bars)
        return display.drawn(ax)

    @property
    def data(self) -> ResultTable:
        """The pairs that are drawn."""
        n = min(len(self.ranking), self.max_bars)
        return ResultTable({name: values[:n] for name, values in self.ranking.table.items()})

    @property
    def figure_size(self) -> tuple[float, float]:
        return 6.4, min(1.5 + 0.27 * max(len(self.data["a"]), 2), 9.0)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the bars on the given axes or in a new figure."""
        ranking, shown = self.ranking, self.data
        with cwboost_style():
            ax = self.ax_ = make_axes(ax, self.figure_size)
            self.figure_ = ax.figure
            style_axes(ax, "x")
            y, values = np.arange(len(shown["a"]), dtype=float), 100.0 * shown["share"]
            pale = mix_grey(ax, 0.3)
            colours = [BLUE if chosen else pale for chosen in shown["chosen"]]
            ax.barh(y, values, height=0.62, color=colours, zorder=2)
            names = [
                f"{drawn_text(a, LONGEST)} : {drawn_text(b, LONGEST)}"
                for a, b in zip(shown["a"], shown["b"], strict=True)
            ]
            label_levels(ax, y, names)
            noise = 100.0 * ranking.noise / ranking.residual if ranking.residual > 0 else 0.0
            ax.set_xlim(0.0, 1.08 * max([noise, *values]) or 1.0)
            set_ticks(ax.xaxis)
            line = ax.axvline(noise, color=RED, linewidth=1.2, linestyle=(0, (5, 1.5)), zorder=3)
            ax.set_xlabel("share of the residuals' sum of squares, %")
            self._add_legend(pale, line)
        return self

    def _add_legend(self, pale: Any, noise: Any) -> None:
        """Add a legend of the marks that are drawn above the bars, whose names may be long."""
        ranking, chosen = self.ranking, self.data["chosen"]
        inside = f"in the model: {ranking.chosen:,} of {ranking.n_pairs:,} pairs"
        marks = {inside: Patch(color=BLUE)} if any(chosen) else {}
        marks |= {} if all(chosen) else {"not in the model": Patch(color=pale)}
        marks |= {"best by noise": noise}
        add_legend(self.ax_, list(marks.values()), marks, loc="lower right", bbox_to_anchor=(1, 1),
                borderaxespad=0.2, borderpad=0.2, ncols=3, columnspacing=1.4,
                handlelength=1.6)  # fmt: skip
