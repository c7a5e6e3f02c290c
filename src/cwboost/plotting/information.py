"""InformationDisplay: an information criterion and the degrees of freedom along the path."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from cwboost._utils.checks import check_instance
from cwboost.frames.result_table import ResultTable
from cwboost.uncertainty.information import CRITERIA, Information

from .display import Display
from .inputs import check_options
from .mpl import Axes
from .style import (
    BLUE,
    DASHES,
    RED,
    add_note,
    cwboost_style,
    make_axes,
    mix_grey,
    set_path_axis,
    set_ticks,
    style_axes,
    use_log_axis,
)


class InformationDisplay(Display):
    """An information criterion along the path, its minimum, and the df (dashed, axis at right).

    Attributes
    ----------
    data : table of iteration, criterion and df
    ax_, figure_ : matplotlib axes and figure
    df_ax_ : matplotlib axes of the df

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> import matplotlib; matplotlib.use("agg")
    >>> rng = np.random.default_rng(1)
    >>> x, e = rng.uniform(size=(2, 200))
    >>> display = cb.aic(cb.fit({"x": x}, x + e), {"x": x}, x + e).plot()
    >>> list(display.data)
    ['iteration', 'criterion', 'df']
    >>> import matplotlib.pyplot as plt; plt.close(display.figure_)
    """

    figure_size = (6.2, 3.6)

    def __init__(self, information: Information, *, log: bool = True) -> None:
        check_instance("information", information, Information)
        self.information, self.log = information, log

    @classmethod
    def from_information(
        cls, information: Information, *, log: bool | None = None, ax: Axes | None = None
    ) -> Self:
        """Draw a criterion.

        Parameters
        ----------
        information : Information
        log : bool, optional
            Show iterations on a logarithmic axis; the default for at least 100 iterations.
        ax : matplotlib axes, optional
        """
        check_instance("information", information, Information)
        check_options(log=log, ax=ax)
        display = cls(information, log=use_log_axis(log, len(information.path) - 1))
        return display.drawn(ax)

    @property
    def data(self) -> ResultTable:
        """Iterations from 0, and the criterion and the df after each of them."""
        information = self.information
        return ResultTable(
            iteration=np.arange(len(information.path)),
            criterion=information.path.copy(),
            df=information.df.copy(),
        )

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the criterion on the given axes or in a new figure."""
        information, data = self.information, self.data
        best, last = information.best_iteration, len(information.path) - 1
        with cwboost_style():
            ax = self.ax_ = make_axes(ax, self.figure_size)
            self.figure_ = ax.figure
            style_axes(ax)
            set_path_axis(ax, last, self.log)
            df_axes = self.df_ax_ = ax.twinx()
            style_axes(df_axes, None)
            df_axes.spines["right"].set_visible(True)
            df_axes.spines["right"].set_color(mix_grey(ax, 0.4))
            df_axes.plot(data["iteration"], data["df"], color=RED, linestyle=DASHES[1], lw=1.3)
            df_axes.set_ylim(0.0, max(1.08 * float(information.df.max()), 1e-9))
            df_axes.set_ylabel("degrees of freedom", color=RED)
            set_ticks(df_axes.yaxis)
            ax.plot(data["iteration"], data["criterion"], color=BLUE, lw=1.9, zorder=3)
            self._set_limits()
            set_ticks(ax.yaxis)
            ax.set_ylabel(CRITERIA[information.criterion], color=BLUE)
            ax.set_zorder(df_axes.get_zorder() + 1)  # the criterion is in front
            ax.patch.set_visible(False)
            self._add_mark(best, last)
        return self

    def _set_limits(self) -> None:
        """Show values from the minimum to the start, or to the end if it is higher."""
        path = self.information.path
        known = path[np.isfinite(path)]
        least, top = float(known.min()), float(max(known[0], known[-1]))
        room = max(top - least, 1e-9 * abs(top), 1e-300)
        self.ax_.set_ylim(least - 0.12 * room, top + 0.07 * room)

    def _add_mark(self, best: int, last: int) -> None:
        ax, information = self.ax_, self.information
        at = max(best, 1) if self.log else best
        ax.plot([at], [information.value], "o", color=BLUE, markersize=7, zorder=5,
                mec=ax.get_facecolor(), mew=1.2, clip_on=False)  # fmt: skip
        share = np.log(at) / np.log(max(last, 2)) if self.log else best / max(last, 1)
        side: Any = ("right", -6) if share > 0.6 else ("left", 6)
        text = f"least: {best:,} (df {information.df[best]:.3g})"
        add_note(ax, text, (at, information.value), (side[1], -11), ha=side[0], fontsize="small",
              color=mix_grey(ax, 0.85), zorder=6)  # fmt: skip
