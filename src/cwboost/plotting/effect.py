"""EffectDisplay: the effect of one column or term.

Computes what is drawn; how it is drawn is in effect_curve.py, effect_levels.py and
effect_surface.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, Self

from cwboost._utils.checks import is_one_of
from cwboost.binning.spread import Spread
from cwboost.explain.bands import check_band
from cwboost.explain.shapes import shape
from cwboost.frames.columns import Floats
from cwboost.frames.result_table import ResultTable

from .display import Display
from .drawing_data import (
    EffectScale,
    LevelLine,
    Scale,
    Series,
    level_lines,
    one_line,
    parts_of,
    series_of,
    series_table,
)
from .effect_curve import CurveDrawing
from .effect_drawing import EffectDrawing
from .effect_levels import LevelsDrawing
from .effect_surface import SurfaceDrawing
from .inputs import as_model, as_rows, check_options
from .mpl import Axes
from .style import check_axes, cwboost_style, make_axes

DRAWINGS: dict[str, type[EffectDrawing]] = {  # by the kind of the effect's shape
    "curve": CurveDrawing,
    "levels": LevelsDrawing,
    "surface": SurfaceDrawing,
}


class EffectDisplay(Display):
    """The effect of a column or term: a curve above the distribution of the rows, levels with
    their counts, or a surface over two columns.

    Made by `EffectDisplay.from_estimator` or `model.plot("age")`.

    Attributes
    ----------
    data : table of what is drawn: the columns, then the values of every line
    ax_ : matplotlib axes
    figure_ : matplotlib figure

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> import matplotlib; matplotlib.use("agg")
    >>> x = np.linspace(0, 6, 200)
    >>> display = EffectDisplay.from_estimator(cb.fit({"x": x}, np.sin(x)), "x")
    >>> display.ax_.get_xlabel(), list(display.data)
    ('x', ['x', 'effect'])
    >>> import matplotlib.pyplot as plt; plt.close(display.figure_)
    """

    drawing: EffectDrawing  # the drawing on `ax_`

    def __init__(
        self,
        series: Sequence[Series],
        *,
        label: str,
        middle: float | None = None,
        scale: Scale = "score",
        spread: Spread | None = None,
        shares: Floats | None = None,
        view: tuple[float, float] = (0.0, 1.0),
        rows: tuple[Floats, Floats] | None = None,
        beyond: Sequence[str] = (),
        labels: Mapping[str, str] | None = None,
        max_levels: int = 20,
        sort: bool = True,
    ) -> None:
        self.beyond = list(beyond)  # remarks about values out of view
        self.series, self.label, self.middle, self.scale = list(series), label, middle, scale
        self.spread, self.shares, self.view, self.rows = spread, shares, view, rows
        self.labels, self.max_levels, self.sort = dict(labels or {}), max_levels, sort

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        which: str,
        *,
        scale: Scale = "score",
        parts: bool = False,
        output: Any = None,
        table: Any = None,
        view: Any = "auto",
        max_levels: int = 20,
        sort: bool = True,
        labels: Mapping[str, str] | None = None,
        target: str | None = None,
        n: int = 200,
        band: Any = "auto",
        level: float | None = None,
        ax: Axes | None = None,
    ) -> Self:
        """Compute the effect and draw it.

        Parameters
        ----------
        model : Model, CWBRegressor or CWBClassifier
        which : name of a column (the sum of its terms) or of a term
        scale : "score", "response" or "ratio"
            The effect on the score; the response of a row whose other effects are zero, with
            exposure 1; or exp(effect), for losses with a log or logit link.
        parts : bool
            Also draw the terms that are summed (only for scale "score").
        output : class, optional
            With several classes, draw only this one. A surface shows one class, by default the
            one with the largest effect.
        table : data frame, array or mapping, optional
            Rows whose distribution is shown instead of the training rows; on a surface they are
            dots.
        view : "auto", "all" or (low, high)
            Range of a numeric column; for a surface "auto" or "all". "auto" leaves out half a
            percent of the rows at an end whose tail would take most of the axis, and says so.
        max_levels : int
            Show this many levels; the rarer ones are combined in one line.
        sort : bool
            Sort levels by their effect; otherwise they are in the order of the column.
        labels : mapping of column to text, optional
            Titles for axes, such as units: {"age": "age (years)"}.
        target : str, optional
            What is predicted, for the title of the axis.
        n : int
            Number of points of a curve.
        band : "auto", "pointwise", "simultaneous" or None
            The band of a model that has one, from `with_bands` or bags; see `Model.band`. "auto"
            draws the pointwise band if there is one.
        level : float, optional
            Level of the band (default 0.95). The band of an average of bags has no level.
        ax : matplotlib axes, optional
        """
        check_options(
            parts=parts, sort=sort, max_levels=max_levels, labels=labels, target=target, n=n, ax=ax
        )
        rows, model = as_rows(model, table), as_model(model)
        is_auto = is_one_of(band, ("auto",))
        kind_of_band = "pointwise" if is_auto else band
        if kind_of_band is None and level is not None:
            raise ValueError("level= is the level of a band; leave it out or set band=")
        if not (band is None or is_auto) or level is not None:
            check_band(model, level, kind_of_band)
        scaled = EffectScale(model, scale, target)
        whole_range = isinstance(view, str) and view == "all"
        effect = shape(model, which, n, kind_of_band, level, whole_range)
        series = series_of(scaled, effect, output)
        label = scaled.label
        if model.n_outputs > 1 and len(series) == 1:
            label += f": {one_line(series[0].name, 20)}"
        several = len(series) > 1
        if parts and len(effect.terms) > 1:
            if scale != "score" or several:
                raise ValueError("parts=True is for scale='score' and one output")
            series = [replace(series[0], name="sum"), *parts_of(scaled, effect, output)]
        first = 0 if output is None else scaled.number_of(output)
        middle = None if several and scale == "response" else scaled.middle(first)
        display = cls(
            series, label=label, middle=middle, scale=scale, labels=labels, max_levels=max_levels,
            sort=sort, **DRAWINGS[effect.kind].background(model, effect, rows, view),
        )  # fmt: skip
        return display.drawn(ax)

    @property
    def data(self) -> ResultTable:
        """What is drawn, as a table; missing cells come last."""
        return series_table(self.series, self.scale)

    @property
    def kind(self) -> Literal["curve", "levels", "surface"]:
        """The kind of drawing."""
        return self.series[0].shape.kind

    @property
    def lines(self) -> list[LevelLine]:
        """The levels as they are drawn."""
        return level_lines(self.series, self.shares, self.max_levels, self.sort)

    @property
    def figure_size(self) -> tuple[float, float]:
        """Width and height in inches of a new figure."""
        return DRAWINGS[self.kind].size(self)

    @property
    def notes(self) -> list[str]:
        """What shades, pale lines and blank places mean."""
        return DRAWINGS[self.kind].notes(self)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the effect on the given axes or in a new figure."""
        with cwboost_style():
            self.draw_on(make_axes(ax, self.figure_size))
        return self

    def draw_on(self, ax: Axes, small: bool = False) -> None:
        """Draw the effect; `small` leaves out titles and legends, for a panel of a page."""
        check_axes(ax)
        self.ax_, self.figure_ = ax, ax.figure
        self.drawing = DRAWINGS[self.kind](self, ax)
        self.drawing.draw(small)
