"""TuningDisplay: the scores of a tuning over every parameter, or over the iterations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, Self

import numpy as np

from cwboost._utils.checks import check_instance, check_one_of
from cwboost.frames.result_table import ResultTable
from cwboost.selection.tuning.successive_halving import Trial
from cwboost.selection.tuning.tune import Tuning

from .mpl import Axes, Figure, LinearSegmentedColormap, LineCollection, LogNorm, Normalize
from .plot import save_figure
from .style import (
    BLUE,
    RED,
    add_note,
    add_remarks,
    check_axes,
    cwboost_style,
    drawn_text,
    mix_grey,
    set_path_axis,
    set_ratio_ticks,
    set_ticks,
    style_axes,
)

SHOWN = 0.5  # share of the configurations, the best ones, that the axis of scores covers
PER_LINE = 3  # panels side by side


class TuningDisplay:
    """The score of the configurations over every parameter, or over the iterations.

    Configurations with more iterations are darker; the best one is red. Configurations that are
    much worse than most lie beyond the axis; their number is given.

    Attributes
    ----------
    data : table
        For kind "parameters" one row per configuration, at its last rung; for "paths" one row per
        iteration that was evaluated.
    axes_ : array of matplotlib axes
    figure_ : matplotlib figure

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> import matplotlib; matplotlib.use("agg")
    >>> x = np.linspace(0, 6, 100)
    >>> tuning = cb.tune({"x": x}, np.sin(x), schedule=cb.Halving(8, least=10, most=40))
    >>> display = tuning.plot()
    >>> list(display.data)
    ['configuration', 'budget', 'df.Spline', 'rate', 'n_iter', 'score']
    >>> import matplotlib.pyplot as plt; plt.close(display.figure_)
    """

    def __init__(self, tuning: Tuning, kind: Literal["parameters", "paths"] = "parameters") -> None:
        check_instance("tuning", tuning, Tuning)
        check_one_of("kind", kind, ("parameters", "paths"))
        self.tuning, self.kind = tuning, kind
        last = {t.configuration: t for t in tuning.trials}
        # the best are drawn last, above the others
        self.last = sorted(last.values(), key=lambda t: -tuning.evaluator.sort_key(t.score))

    @classmethod
    def from_tuning(
        cls,
        tuning: Tuning,
        *,
        kind: Literal["parameters", "paths"] = "parameters",
        axes: Any = None,
    ) -> Self:
        """Draw a tuning.

        Parameters
        ----------
        tuning : Tuning
        kind : "parameters" or "paths"
        axes : matplotlib axes, or array of them, optional
            One for each parameter and one for the iterations; for kind "paths" a single one.
        """
        return cls(tuning, kind).plot(axes)

    @property
    def data(self) -> ResultTable:
        """What is drawn, as a table."""
        if self.kind == "parameters":
            table = self.tuning.table()
            rows = {(c, r): i for i, (c, r) in enumerate(
                zip(table["configuration"], table["rung"], strict=True))}  # fmt: skip
            places = sorted(rows[t.configuration, t.rung] for t in self.last)
            names = ["configuration", "budget", *self.tuning.evaluator.space.parameters]
            return ResultTable({name: table[name][places] for name in [*names, "n_iter", "score"]})
        trials = self.tuning.trials
        return ResultTable(
            configuration=np.repeat(
                [t.configuration for t in trials], [len(t.curve.at) for t in trials]
            ),
            iteration=np.concatenate([t.curve.at for t in trials]),
            score=np.concatenate([t.curve.values for t in trials]),
        )

    def plot(self, axes: Any = None) -> Self:
        """Draw on the given axes or in a new figure."""
        names = [*self.tuning.evaluator.space.parameters, "n_iter"]
        wanted = len(names) if self.kind == "parameters" else 1
        with cwboost_style():
            if axes is None:
                import matplotlib.pyplot as plt

                axes = _grid(plt.figure(figsize=_grid_size(wanted), layout="constrained"), wanted)
            found = list(_flatten(axes))
            for ax in found:
                check_axes(ax)
            self.axes_ = np.array(found, dtype=object)
            if len(self.axes_) < wanted:
                raise ValueError(f"axes: expected {wanted}, got {len(self.axes_)}")
            self.figure_ = self.axes_[0].figure
            first = self.axes_[0]
            add_note(first, "darker: more iterations", (0, 1), (0, 3), "axes fraction", va="bottom")
            if self.kind == "paths":
                self._draw_paths(first)
            else:
                for ax, name in zip(self.axes_, names, strict=False):
                    self._draw_panel(ax, name)
        return self

    def _draw_panel(self, ax: Axes, name: str) -> None:
        """Draw the score over one parameter."""
        having = [t for t in self.last if name == "n_iter" or name in t.parameters]
        values: list[Any] = [t.n_iter if name == "n_iter" else t.parameters[name] for t in having]
        distribution = self.tuning.evaluator.space.parameters.get(name)  # None for n_iter
        labels = None if distribution is None else distribution.labels
        style_axes(ax)
        if labels is not None:
            spread = np.random.default_rng(0).uniform(-0.22, 0.22, len(having))
            at = np.array([labels.index(v) for v in values]) + spread
            ax.set_xticks(range(len(labels)), [drawn_text(v, 18) for v in labels])
            ax.set_xlim(-0.5, len(labels) - 0.5)
        else:
            at = np.array(values, dtype=float)
            _set_number_axis(ax, at, log=distribution is None or distribution.is_log)
        best = self.tuning.best.configuration
        for x, t in zip(at, having, strict=True):
            mine = t.configuration == best
            ax.plot(x, t.score, "o", color=RED if mine else self._colour(ax, t),
                    markersize=7 if mine else 4.5, mec=ax.get_facecolor(), mew=0.5,
                    zorder=5 if mine else 3)  # fmt: skip
        ax.set_xlabel("best iteration" if name == "n_iter" else drawn_text(name))
        self._set_score_axis(ax, having)
        if ax is not self.axes_[0] and len(self.axes_) > 1:
            ax.set_ylabel("")

    def _draw_paths(self, ax: Axes) -> None:
        """Draw the score over the iterations, one line per configuration."""
        style_axes(ax)
        best = self.tuning.best
        for trial in self.last:
            mine = trial.configuration == best.configuration
            of_it = [t for t in self.tuning.trials if t.configuration == trial.configuration]
            at = np.concatenate([t.curve.at for t in of_it])
            mean = np.concatenate([t.curve.values for t in of_it])
            line = np.column_stack([np.maximum(at, 0.5), mean])
            colour = RED if mine else self._colour(ax, trial)
            width = 2.0 if mine else 0.7
            ax.add_collection(
                LineCollection([line], colors=[colour], linewidths=width, zorder=4 if mine else 2)
            )
        most = max(t.budget for t in self.last)
        set_path_axis(ax, most, log=True)
        self._set_score_axis(ax, self.last)
        ax.plot(best.n_iter, best.score, "o", color=RED, markersize=7, mec=ax.get_facecolor(),
                mew=1.2, zorder=6, clip_on=False)  # fmt: skip
        near = best.n_iter > np.sqrt(most)
        add_note(ax, f"best: {best.score:.4g} after {best.n_iter:,}", (best.n_iter, best.score),
              (-6 if near else 6, 10 if self.tuning.metric.greater_is_better else -10),
              ha="right" if near else "left", fontsize="small", color=mix_grey(ax, 0.85),
              zorder=6)  # fmt: skip

    def _colour(self, ax: Axes, trial: Trial) -> Any:
        """Return a colour that is darker for configurations with more iterations."""
        budgets = [t.budget for t in self.last]
        low, high = min(budgets), max(budgets)
        norm: Any = LogNorm(low, high) if high > low else Normalize(low - 1, high)
        ends: Any = [mix_grey(ax, 0.22), BLUE]
        pale = LinearSegmentedColormap.from_list("budget", ends)
        return pale(float(norm(trial.budget)))

    def _set_score_axis(self, ax: Axes, drawn: Sequence[Trial]) -> None:
        """Limit the axis to the better configurations; the corner says how many lie beyond."""
        metric, known = self.tuning.metric, np.array([t.score for t in self.last])
        known = known[np.isfinite(known)]
        ax.set_ylabel(drawn_text(metric.name))
        if not len(known):
            return
        tail = 1 - SHOWN if metric.greater_is_better else SHOWN
        best = known.max() if metric.greater_is_better else known.min()
        worst = float(np.quantile(known, tail))
        room = abs(best - worst) or max(abs(best), 1.0) * 1e-3
        low, high = min(best, worst) - 0.12 * room, max(best, worst) + 0.12 * room
        ax.set_ylim(low, high)
        set_ticks(ax.yaxis, 5)
        beyond = sum(not low <= t.score <= high for t in drawn)
        if beyond:
            where = "below" if metric.greater_is_better else "above"
            add_remarks(ax, [f"{beyond} lie {where}"])


def save(tuning: Tuning, file: Any, *, form: str | None = None, dpi: int = 150) -> None:
    """Write the plot to a file without opening a window."""
    n = len(tuning.evaluator.space.parameters) + 1
    figure = Figure(figsize=_grid_size(n), layout="constrained")
    TuningDisplay(tuning).plot(_grid(figure, n))
    save_figure(figure, file, form, dpi)


def _grid_size(n: int) -> tuple[float, float]:
    across = min(n, PER_LINE)
    return (6.2, 3.8) if n == 1 else (3.1 * across, 2.7 * -(-n // across))


def _flatten(axes: Any) -> Iterator[Any]:
    """Yield the axes of nested lists and arrays."""
    if isinstance(axes, list | tuple | np.ndarray):
        for part in np.ravel(axes) if isinstance(axes, np.ndarray) else axes:
            yield from _flatten(part)
    else:
        yield axes


def _grid(figure: Figure, n: int) -> Any:
    """Return n axes of a figure, at most three side by side."""
    across = min(n, PER_LINE)
    grid = figure.subplots(-(-n // across), across, squeeze=False).ravel()
    for spare in grid[n:]:
        figure.delaxes(spare)
    return grid[:n]


def _set_number_axis(ax: Axes, values: Any, log: bool) -> None:
    if log:
        ax.set_xscale("log")
        low = max(float(np.min(values)), 1e-12)
        ax.set_xlim(low / 1.15, float(np.max(values)) * 1.15)
        set_ratio_ticks(ax.xaxis, 5)
    else:
        set_ticks(ax.xaxis, 5)
