"""RiskDisplay: training and validation risk, or a validation metric, along the path."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from cwboost._utils.checks import check_one_of, is_one_of
from cwboost.frames.columns import Floats
from cwboost.frames.result_table import ResultTable
from cwboost.metrics.metric import RISK
from cwboost.model.model import Model
from cwboost.model.path_checks import check_not_averaged

from .display import Display
from .inputs import as_model, check_options
from .mpl import Axes, Line2D
from .style import (
    BLUE,
    DASHES,
    RED,
    add_legend,
    add_note,
    cwboost_style,
    make_axes,
    mix_grey,
    set_path_axis,
    set_ticks,
    style_axes,
    use_log_axis,
)


class RiskDisplay(Display):
    """The risk of training and validation rows along the path, or a metric of the validation rows
    that the fit recorded, with the chosen iteration and the switch of a hybrid optimizer.
    Iterations that a rewind discarded are pale.

    Attributes
    ----------
    data : table of iteration, training risk and, with validation rows, validation risk; or of
        iteration and the metric
    ax_, figure_ : matplotlib axes and figure

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> import matplotlib; matplotlib.use("agg")
    >>> x = np.linspace(0, 6, 200)
    >>> display = RiskDisplay.from_estimator(cb.fit({"x": x}, np.sin(x), validation=0.3))
    >>> list(display.data)
    ['iteration', 'training', 'validation']
    >>> import matplotlib.pyplot as plt; plt.close(display.figure_)
    """

    figure_size = (6.2, 3.6)

    def __init__(self, model: Model, *, log: bool = True, metric: str | None = None) -> None:
        self.model, self.log, self.metric = model, log, metric

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        *,
        log: bool | None = None,
        metric: str | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Draw the risk.

        Parameters
        ----------
        model : Model, CWBRegressor or CWBClassifier
        log : bool, optional
            Show iterations on a logarithmic axis, on which the early iterations and the late ones
            can be seen; the default for at least 100 iterations.
        metric : str, optional
            A metric that the fit recorded (`metric=` of `cwboost.fit`), to be drawn instead.
        ax : matplotlib axes, optional
        """
        check_options(log=log, ax=ax)
        model = as_model(model)
        check_not_averaged(model, "the plot of the risk")
        if is_one_of(metric, (RISK,)):
            metric = None
        if metric is not None:
            known = model.validation_metrics
            if not known:
                raise ValueError("metric: the fit recorded no metrics; pass metric= to the fit")
            check_one_of("metric", metric, tuple(known))
        display = cls(model, log=use_log_axis(log, model.n_iter), metric=metric)
        return display.drawn(ax)

    @property
    def data(self) -> ResultTable:
        """Iterations from 0 and the risk, or the metric, after each of them."""
        iterations = np.arange(self.model.n_iter + 1)
        if self.metric is not None:
            values = self.model.validation_metrics[self.metric]
            return ResultTable({"iteration": iterations, self.metric: values})
        out = ResultTable(iteration=iterations, training=self.model.risk)
        if self.model.validation_risk is not None:
            out["validation"] = self.model.validation_risk
        return out

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the risk on the given axes or in a new figure."""
        risks = dict(list(self.data.items())[1:])
        with cwboost_style():
            ax = self.ax_ = make_axes(ax, self.figure_size)
            self.figure_ = ax.figure
            style_axes(ax)
            set_path_axis(ax, self.model.n_iter, self.log)
            for name, risk in risks.items():
                self._draw_line(name, risk)
            self._set_limits(np.concatenate(list(risks.values())))
            set_ticks(ax.yaxis)
            what = f"risk (mean {self.model.loss.name} loss)"
            ax.set_ylabel(what if self.metric is None else f"{self.metric} of the validation rows")
            self._add_marks()
            if self.metric is None:
                marks = [Line2D([], [], **self._style(name)) for name in risks]
                add_legend(ax, marks, risks, loc="lower left" if self.log else "upper right")
        return self

    def _style(self, name: str) -> dict[str, Any]:
        first = name == "training"
        dash = DASHES[0] if first else DASHES[1]
        return {"color": BLUE if first else RED, "linestyle": dash, "linewidth": 1.9, "zorder": 3}

    def _draw_line(self, name: str, risk: Floats) -> None:
        """Draw the risk in chronological order. Iterations that a rewind discarded are pale, and so
        is the validation risk once the validation rows are trained on.
        """
        path, at = self.model.path, np.arange(len(risk))
        style = self._style(name)
        pale = style | {"alpha": 0.4, "zorder": 2}
        if path.switched_after < 0:
            self.ax_.plot(at, risk, **style)
            return
        back, switch = path.rewound_to, path.switched_after
        trained = name != "training" and self.model.optimizer.ends_on_all_rows
        self.ax_.plot(at[: back + 1], risk[: back + 1], **style)
        self.ax_.plot(at[back : switch + 1], risk[back : switch + 1], **pale)
        later = np.append(risk[back], risk[switch + 1 :])
        self.ax_.plot(at[switch:], later, **(pale if trained else style))

    def _set_limits(self, risks: Floats) -> None:
        """Show the values from the best to the one at the start, even if the path diverged."""
        known = risks[np.isfinite(risks)]
        if self._rises:
            least, top = float(min(risks[0], known.max())), float(known.max())
        else:
            start = self.model.risk[0] if self.metric is None else risks[0]
            least, top = float(known.min()), float(max(start, known.min()))
        room = max(top - least, 1e-9 * abs(top), 1e-300)
        self.ax_.set_ylim(least - 0.07 * room, top + 0.07 * room)

    @property
    def _rises(self) -> bool:
        """Whether larger values are better."""
        return any(
            m.greater_is_better for m in self.model.settings.metrics if m.name == self.metric
        )

    def _add_marks(self) -> None:
        ax, model, path = self.ax_, self.model, self.model.path
        best, watched = model.best_iteration, model.validation_risk is not None
        if best > 0:
            *_, risks = self.data.values()
            risk = float(np.clip(np.nan_to_num(risks[best], nan=np.inf), *ax.get_ylim()))
            ax.plot([best], [risk], "o", color=RED if watched else BLUE, markersize=7, zorder=5,
                    mec=ax.get_facecolor(), mew=1.2, clip_on=False)  # fmt: skip
            share = np.log(best) / np.log(max(model.n_iter, 2)) if self.log else best / model.n_iter
            side: Any = ("right", -4) if share > 0.7 else ("left", 4)
            text, up = f"chosen: {best:,}", -16 if self._rises else 11
            add_note(ax, text, (best, risk), (side[1], up), ha=side[0], fontsize="small",
                  color=mix_grey(ax, 0.85), zorder=6)  # fmt: skip
        if path.switched_after >= 0:
            switch, on_all = path.switched_after, model.optimizer.ends_on_all_rows
            ax.axvline(switch, color=mix_grey(ax, 0.5), linewidth=1, linestyle=(0, (1, 2)))
            then = "plain, on all rows" if on_all else "plain"
            for text, side, shift in (("accelerated", "right", -5), (then, "left", 5)):
                where = ax.get_xaxis_transform()
                add_note(ax, text, (switch, 1.0), (shift, -2), where, ha=side, va="top")
