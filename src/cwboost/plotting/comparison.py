"""ComparisonDisplay: the effect of one column in several models."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np

from cwboost._utils.text import quote
from cwboost.explain.shapes import Shape
from cwboost.frames.result_table import ResultTable

from .display import DEFERRED
from .drawing_data import Series, aligned, series_table
from .effect import EffectDisplay
from .mpl import Axes


class ComparisonDisplay(EffectDisplay):
    """The effects of several models on one column, in one plot.

    Attributes
    ----------
    data : table of what is drawn; a model's column is named as the model
    ax_, figure_ : matplotlib axes and figure

    Examples
    --------
    >>> import numpy as np, cwboost as cb
    >>> import matplotlib; matplotlib.use("agg")
    >>> x = np.linspace(0, 6, 200)
    >>> models = {f"{m} iterations": cb.fit({"x": x}, np.sin(x), n_iter=m) for m in (5, 50)}
    >>> display = ComparisonDisplay.from_estimators(models, "x")
    >>> list(display.data)
    ['x', '5 iterations', '50 iterations']
    >>> import matplotlib.pyplot as plt; plt.close(display.figure_)
    """

    @classmethod
    def from_estimators(
        cls, models: Mapping[str, Any], which: str, *, ax: Axes | None = None, **options: Any
    ) -> Self:
        """Compute the effects and draw them.

        Parameters
        ----------
        models : mapping of name to Model or estimator
        which : name of a column (the sum of its terms) or of a term
        ax : matplotlib axes, optional
        **options
            As for `EffectDisplay.from_estimator`: scale, output, table, view, max_levels, sort,
            labels, target, n. The distribution of the rows is the one of the first model.
        """
        given: Any = models
        if not isinstance(given, Mapping):
            raise TypeError(f"expected a mapping of names to models, got {quote(given)}")
        if not models:
            raise ValueError("expected at least one model")
        if "parts" in options:
            raise TypeError("a comparison of models does not show parts")
        displays = [
            EffectDisplay.from_estimator(model, which, ax=DEFERRED, **options)
            for model in models.values()
        ]
        first, kinds = displays[0], {d.kind for d in displays}
        if "surface" in kinds or len(kinds) > 1:
            raise ValueError(
                f"{quote(which)}: a comparison can only draw curves, or levels, in the same axes; "
                "draw every model in its own axes with ax="
            )
        if any(len(d.series) > 1 for d in displays):
            raise ValueError("the models have several classes; choose one with output=")
        named = zip(models, displays, strict=True)
        series = [replace(d.series[0], name=str(name)) for name, d in named]
        low, high = (min(d.view[0] for d in displays), max(d.view[1] for d in displays))
        display = cls(
            aligned(series), label=first.label, scale=first.scale, spread=first.spread,
            middle=first.middle if first.scale != "response" else None, shares=first.shares,
            view=(low, high), labels=first.labels, max_levels=first.max_levels, sort=first.sort,
        )  # fmt: skip
        return display.drawn(ax)

    @property
    def data(self) -> ResultTable:
        """What is drawn, as a table, at the points of the first model."""
        first = self.series[0].shape
        if first.kind == "levels":
            return super().data
        return series_table([_at_points_of(first, s) for s in self.series], self.scale)


def _at_points_of(shape: Shape, series: Series) -> Series:
    """Return a series of another curve, with its band, at the points of a curve."""
    points, own = shape.at[0], series.shape.at[0]
    band = series.band
    if band is not None:
        band = (np.interp(points, own, band[0]), np.interp(points, own, band[1]))
    return replace(series, shape=shape, values=np.interp(points, own, series.values), band=band)
