"""ImportanceDisplay: how important each column or term is, as bars."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from functools import partial
from typing import Any, Literal, Self

import numpy as np

from cwboost._utils.text import readable_number
from cwboost._utils.unknown_arguments import check_keywords
from cwboost.explain.importance import KINDS, check_kind, size_words
from cwboost.frames.result_table import ResultTable

from .display import Display
from .inputs import as_model, check_options
from .mpl import Axes
from .style import (
    BLUE,
    add_note,
    cwboost_style,
    drawn_text,
    label_levels,
    make_axes,
    mix_grey,
    set_ticks,
    style_axes,
)

WIDTH = 60  # characters of a line below the axis


class ImportanceDisplay(Display):
    """The importance of each column or term, as bars.

    Attributes
    ----------
    data : table of names and values, the largest first; with standard errors if there are some
    ax_, figure_ : matplotlib axes and figure

    Examples
    --------
    >>> import cwboost as cb
    >>> import matplotlib; matplotlib.use("agg")
    >>> model = cb.fit({"g": ["a", "b"] * 9, "h": ["x", "y", "y"] * 6}, [0.0, 1.0] * 9)
    >>> display = ImportanceDisplay.from_estimator(model)
    >>> list(display.data["column"])
    ['g']
    >>> import matplotlib.pyplot as plt; plt.close(display.figure_)
    """

    def __init__(
        self,
        values: Mapping[str, float],
        *,
        by: str = "column",
        words: str = "",
        errors: Mapping[str, float] | None = None,
        max_bars: int = 20,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        self.values, self.by, self.words = dict(values), by, words
        self.errors = None if errors is None else dict(errors)
        self.max_bars, self.labels = max_bars, dict(labels or {})

    @classmethod
    def from_estimator(
        cls,
        model: Any,
        *,
        importance: str = "size",
        by: Literal["column", "term"] = "column",
        max_bars: int = 20,
        labels: Mapping[str, str] | None = None,
        ax: Axes | None = None,
        **rows: Any,
    ) -> Self:
        """Compute the importance and draw it.

        Parameters
        ----------
        model : Model, CWBRegressor or CWBClassifier
        importance : "size", "risk", "path", "permutation" or "drop"
            The kind of importance, see `Model.importance`. "permutation" and "drop" have lines of
            one standard error on both sides.
        by : "column" or "term"
            "column" adds up the terms of a column; pairs of columns have their own bars.
        max_bars : int
            Draw this many bars; the others are counted.
        labels : mapping of name to text, optional
        ax : matplotlib axes, optional
        **rows
            Further arguments of `Model.importance`: table, y, weights, repeats, folds, ...
        """
        check_options(max_bars=max_bars, labels=labels, ax=ax)
        model, kind = as_model(model), check_kind(importance)
        check_keywords("plot of the importance", partial(model.importance, kind), rows)
        found = model.importance(kind, by=by, **rows)
        errors = None
        words = size_words(model) if kind == "size" and not rows else KINDS[kind]
        if isinstance(found, ResultTable):
            names, values, deviations = found.values()
            errors = dict(zip(names, deviations, strict=True))
            found = dict(zip(names, values, strict=True))
            words += (
                f"; lines: standard error over {'repeats' if kind == 'permutation' else 'folds'}"
            )
        display = cls(found, by=by, words=words, errors=errors, max_bars=max_bars, labels=labels)
        return display.drawn(ax)

    @property
    def data(self) -> ResultTable:
        """Names and values, the largest first."""
        names = np.array(list(self.values), dtype=object)
        out = ResultTable({self.by: names, "importance": np.array(list(self.values.values()))})
        if self.errors is not None:
            out["standard error"] = np.array([self.errors[name] for name in self.values])
        return out

    @property
    def _shown(self) -> list[str]:
        """The names that have a bar: with very many, the largest."""
        return list(self.values)[: self.max_bars]

    @property
    def figure_size(self) -> tuple[float, float]:
        return 5.6, min(1.2 + 0.27 * max(len(self._shown), 2), 9.0)

    def plot(self, ax: Axes | None = None) -> Self:
        """Draw the bars on the given axes or in a new figure."""
        names = self._shown
        values = [self.values[name] for name in names]
        errors = [0.0 if self.errors is None else self.errors[name] for name in names]
        with cwboost_style():
            ax = self.ax_ = make_axes(ax, self.figure_size)
            self.figure_ = ax.figure
            style_axes(ax, "x")
            y = np.arange(len(names), dtype=float)
            ax.barh(y, values, height=0.62, color=BLUE, zorder=2)
            if self.errors is not None:
                ax.errorbar(values, y, xerr=errors, fmt="none", ecolor=mix_grey(ax, 0.75), zorder=3)
            label_levels(ax, y, [drawn_text(self.labels.get(name, name)) for name in names])
            ax.axvline(0.0, color=mix_grey(ax, 0.45), linewidth=0.9, zorder=3)
            ends = [*np.subtract(values, errors), *np.add(values, errors)]
            low, high = min([0.0, *ends]), max([0.0, *ends]) or 1.0
            ax.set_xlim(1.08 * low, high + 0.13 * (high - low))
            set_ticks(ax.xaxis)
            for place, value, error in zip(y, values, errors, strict=True):
                end = max(value + error, 0.0)
                add_note(ax, readable_number(value), (end, place), (4, 0))
            left_out = len(self.values) - len(names)
            note = f"; {left_out:,} smaller ones not shown" if left_out else ""
            ax.set_xlabel("\n".join(textwrap.wrap(self.words + note, WIDTH)))
        return self
