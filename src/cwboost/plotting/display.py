"""The base class of all displays: what `model.plot`, `save` and the command line expect of one."""

from __future__ import annotations

from typing import Any, Self

DEFERRED: Any = object()  # passed instead of axes: compute, but do not draw yet


class Display:
    """A drawing in scikit-learn's manner.

    `from_estimator(model, *, ax=None, ...)` computes what is drawn, keeps it in the object, and
    returns `display.drawn(ax)`. `plot(ax)` draws it (again) and sets `ax_` and `figure_`.

    Attributes
    ----------
    is_page : bool
        Whether it fills a figure: `figure=` and `plot(figure)` take the place of `ax=` and
        `plot(ax)`.
    needs_row : bool
        Whether it draws one row: `from_estimator` then takes `table`, `row`, `offset` and
        `exposure`.
    """

    is_page = False
    needs_row = False

    @property
    def figure_size(self) -> tuple[float, float]:
        """Width and height in inches of a new figure."""
        return 6.2, 3.6

    def plot(self, ax: Any = None) -> Self:
        """Draw on the given axes or in a new figure."""
        raise NotImplementedError

    def drawn(self, ax: Any) -> Self:
        """Draw, unless drawing is deferred, and return the display."""
        return self if ax is DEFERRED else self.plot(ax)
