"""CVDisplay: a cross-validation along the path, with its folds, mean and chosen iterations."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from cwboost._utils.checks import check_instance
from cwboost.frames.result_table import ResultTable
from cwboost.metrics.metric import RISK
from cwboost.selection.cv_result import CV

from .display import DEFERRED, Display
from .inputs import check_options
from .mpl import Axes, Line2D, Patch
from .plot import save_display
from .style import (
    BLUE,
    DASHES,
    RED,
    add_remarks,
    cwboost_style,
    drawn_text,
    make_axes,
    mix_grey,
    set_path_axis,
    set_ticks,
    style_axes,
    use_log_axis,
)

ONE_SE_COLOUR = "#009E73"  # the choice within one standard error
FAINT_FROM = 30  # with more folds their lines are fainter


class CVDisplay(Display):
    """The risk, or the metric that decides, on the test rows: every fold (pale), the mean with a
    band of one standard error, the best iteration, and the first one within a standard error.

    Attributes
    ----------
    cv : CV
    data : table of iteration, mean, standard_error and a column per fold
    ax_, figure_ : matplotlib axes and figure

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> import matplotlib; matplotlib.use("agg")
    >>> rng = np.random.default_rng(0)
    >>> x = rng.uniform(size=100)
    >>> found = cb.cv({"x": x}, np.sin(6 * x) + rng.normal(size=100), n_iter=100, folds=3)
    >>> list(CVDisplay.from_cv(found).data)
    ['iteration', 'mean', 'standard_error', 'fold 0', 'fold 1', 'fold 2']
    >>> import matplotlib.pyplot as plt; plt.close()
    """

    figure_size = (6.6, 4.0)

    def __init__(self, cv: CV, *, log: bool = True) -> None:
        check_instance("cv", cv, CV)
        self.cv, self.log = cv, log

    @classmethod
    def from_cv(cls, cv: CV, *, log: bool | None = None, ax: Axes | None = None) -> Self:
        """Draw a cross-validation.

        Parameters
        ----------
        cv : CV
            The result of `cb.cv`.
        log : bool, optional
            Show iterations on a logarithmic axis; the default for at least 100 iterations.
        ax : matplotlib axes, optional
        """
        check_instance("cv", cv, CV)
        check_options(log=log, ax=ax)
        display = cls(cv, log=use_log_axis(log, cv.n_iter))
        return display.drawn(ax)

    @property
    def data(self) -> ResultTable:
        """What is drawn."""
        cv = self.cv
        out = ResultTable(iteration=cv.iterations, mean=cv.mean, standard_error=cv.standard_error)
        for k, values in enumerate(cv.values):
            out[f"fold {k}"] = values
        return out

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw on the given axes or in a new figure."""
        cv = self.cv
        with cwboost_style():
            ax = self.ax_ = make_axes(ax, self.figure_size)
            self.figure_ = ax.figure
            style_axes(ax)
            set_path_axis(ax, cv.n_iter, self.log)
            at, mean, error = cv.iterations, cv.mean, cv.standard_error
            ax.plot(at, cv.values.T, **self._fold_style)
            ax.fill_between(at, mean - error, mean + error, color=BLUE, alpha=0.22, linewidth=0)
            ax.plot(at, mean, color=BLUE, linewidth=2.2, zorder=4)
            self._set_limits()
            set_ticks(ax.yaxis)
            ax.set_ylabel(
                f"risk of test rows (mean {cv.loss.name} loss)"
                if cv.chosen_by == RISK
                else f"{drawn_text(cv.chosen_by)} of test rows"
            )
            self._add_marks()
            self._add_legend()
        return self

    @property
    def _fold_style(self) -> dict[str, Any]:
        alpha = 0.9 if self.cv.n_folds <= FAINT_FROM else 0.45
        return {"color": mix_grey(self.ax_, 0.3), "linewidth": 0.7, "alpha": alpha, "zorder": 2}

    def _set_limits(self) -> None:
        """Show values from the start to the best of any fold, even if a path diverged."""
        cv, ax = self.cv, self.ax_
        values = cv.values[:, 1:] if self.log and cv.n_iter > 1 else cv.values
        ends = np.concatenate([values[:, 0], values.min(axis=0), values.max(axis=0)])
        start = cv.values[:, 0]
        known = ends[np.isfinite(ends)]
        if cv.greater_is_better:
            low, high = float(np.min(values[:, 0])), float(known.max())
        else:
            low, high = float(known.min()), float(max(values[:, 0].max(), start.mean()))
        room = max(high - low, 1e-9 * abs(high), 1e-300)
        ax.set_ylim(low - 0.05 * room, high + 0.05 * room)

    @property
    def _choices(self) -> dict[str, tuple[int, str]]:
        """The iteration and the colour of each choice, by its text in the legend."""
        best, fewer = self.cv.best_iteration, self.cv.best_iteration_1se
        return {
            f"within one standard error: {fewer:,}": (fewer, ONE_SE_COLOUR),
            f"best: {best:,} iterations": (best, RED),
        }

    def _add_marks(self) -> None:
        """Mark each choice on the mean, with a line to the side that has no legend."""
        cv, ax = self.cv, self.ax_
        end = ax.get_ylim()[1 if cv.greater_is_better else 0]
        for m, colour in self._choices.values():
            if m == 0 and self.log:
                continue
            value = float(cv.mean[np.searchsorted(cv.iterations, m)])
            ax.plot(
                [m, m], [value, end], color=colour, linewidth=1.2, linestyle=DASHES[1], zorder=3
            )
            ax.plot([m], [value], zorder=5, clip_on=False, **self._point_style(colour))

    def _point_style(self, colour: str) -> dict[str, Any]:
        back = self.ax_.get_facecolor()
        return {"marker": "o", "color": colour, "markersize": 7.5, "mec": back, "mew": 1.2}

    def _add_legend(self) -> None:
        ax, cv = self.ax_, self.cv
        handles: dict[str, Any] = {
            f"mean of {cv.n_folds} folds": Line2D([], [], color=BLUE, linewidth=2.2),
            "± one standard error": Patch(color=BLUE, alpha=0.22, linewidth=0),
            "each fold": Line2D([], [], **self._fold_style),
        }
        for words, (_, colour) in self._choices.items():
            handles[words] = Line2D([], [], linestyle="", **self._point_style(colour))
        place: Any = "upper right"
        if cv.greater_is_better:
            place = "lower right"
        elif cv.mean[-1] > np.mean(ax.get_ylim()):  # a diverged path ends there
            place = "upper center"
        ax.legend(
            list(handles.values()),
            list(handles),
            frameon=False,
            fontsize="small",
            loc=place,
        )
        if cv.at_edge:
            add_remarks(ax, ["the best is among the last: more iterations may be better"])


def save(cv: CV, file: Any, *, form: str | None = None, dpi: int = 150) -> None:
    """Write the plot to a file without opening a window."""
    save_display(CVDisplay.from_cv(cv, ax=DEFERRED), file, form, dpi)
