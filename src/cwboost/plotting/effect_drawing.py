"""What the drawings of an effect share: a curve, levels or a surface on one pair of axes.

Each drawing is a class in its own file (effect_curve.py, effect_levels.py, effect_surface.py).
Does not know how effects are computed (see effect.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from cwboost.explain.shapes import Shape
from cwboost.frames.table import Table
from cwboost.model.model import Model

from .drawing_data import on_axis
from .mpl import Axes, PatchCollection, Rectangle
from .style import drawn_text, mix_grey, set_ratio_ticks, set_ticks

if TYPE_CHECKING:
    from .effect import EffectDisplay

BAND_ALPHA = 0.22


class EffectDrawing:
    """Draws the effect of a display on axes.

    Attributes
    ----------
    value_axis : "x", "y" or None
        Which axis shows the values of the effect; None if colours do.
    """

    value_axis: Literal["x", "y"] | None = "y"

    def __init__(self, display: EffectDisplay, ax: Axes) -> None:
        self.display, self.ax = display, ax

    @staticmethod
    def background(model: Model, shape: Shape, rows: Table | None, view: Any) -> dict[str, Any]:
        """Return the display's arguments that say how rows are distributed and what is in view."""
        raise NotImplementedError

    def draw(self, small: bool) -> None:
        """Draw the effect; `small` leaves out titles and legends, for a panel of a page."""
        raise NotImplementedError

    @staticmethod
    def size(display: EffectDisplay) -> tuple[float, float]:
        """Return the width and height in inches of a new figure."""
        del display
        return 5.6, 3.5

    @staticmethod
    def notes(display: EffectDisplay) -> list[str]:
        """Return what shades, pale lines and blank places mean."""
        band = display.series[0].shape.band
        if band is None or not display.series[0].band:
            return []
        return [f"shade: {band.words}", *([band.reason] if band.reason else [])]

    def set_value_ticks(self, n: int) -> None:
        """Set about n ticks on the axis that shows the values."""
        axis = self.ax.xaxis if self.value_axis == "x" else self.ax.yaxis
        if self.display.scale == "ratio":
            set_ratio_ticks(axis, n + 1)
        else:
            set_ticks(axis, n)

    def title_of(self, column: str, limit: int = 48) -> str:
        """Return the title of a column: the user's label or its name."""
        return drawn_text(self.display.labels.get(column, column), limit)

    def _add_bars(self, bars: list[Rectangle], transform: Any) -> None:
        """Add grey bars, which show how many rows there are."""
        colour = mix_grey(self.ax, 0.2)
        drawn = PatchCollection(bars, transform=transform, facecolor=colour, linewidth=0, zorder=1)
        self.ax.add_collection(drawn, autolim=False)


def is_whole_axis(x: Any) -> bool:
    """Return whether the ticks of these values are to be whole numbers."""
    return len(x) > 1 and bool(x[0] == round(x[0]) and x[-1] == round(x[-1]) and x[-1] - x[0] >= 4)


def describe_hidden_ends(shown: Any, all_values: Any) -> str:
    """Return how far values go that are out of view, such as "to 90"; empty if all are in view."""
    low, high = (on_axis(end, all_values[0], all_values[1], 3) for end in all_values)
    ends = [f"from {low}"] if shown[0] > all_values[0] else []
    return " and ".join(ends + ([f"to {high}"] if shown[1] < all_values[1] else []))
