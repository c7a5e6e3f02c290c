"""The style of all displays: colours, fonts, ticks, legends and notes.

No global setting of matplotlib is changed. Names of columns and levels may hold anything: they are
shown as text, shortened if they are long, and never read as formulas.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, Literal

import numpy as np

from cwboost._utils.text import quote, readable_number

from .drawing_data import (
    factors,
    lines_of,
    on_axis,
    one_line,
)
from .mpl import (
    Axes,
    FigureBase,
    FixedLocator,
    FuncFormatter,
    LinearSegmentedColormap,
    MaxNLocator,
    NullFormatter,
    font_manager,
    mpl,
    to_rgb,
)

BLUE, ORANGE, RED = "#0072B2", "#E69F00", "#D55E00"
INK = "ink"  # stands for the colour of text
# The colours of Okabe and Ito without yellow, ordered so that neighbours also differ in grey. Lines
# and points differ in style as well.
COLOURS = (BLUE, ORANGE, INK, "#56B4E9", RED, "#009E73", "#CC79A7")
DASHES: tuple[Any, ...] = ("-", (0, (5, 1.5)), (0, (1, 1.2)), (0, (6, 1.5, 1, 1.5)))
MARKERS = "osD^vPX"
DIVERGING = LinearSegmentedColormap.from_list(
    "cwboost", ["#00436b", BLUE, "#8fc1e3", "#f7f7f5", "#f5bd8a", RED, "#7a3200"]
)
LONGEST = 36  # characters of a name in a plot
LOG_FROM = 100  # iterations from which on the axis of a path is logarithmic
STYLE: Any = {
    "text.usetex": False,
    "text.parse_math": True,  # dollars in names are escaped
    "axes.formatter.use_mathtext": False,
    "axes.titlelocation": "left",
    "axes.titlesize": "medium",
    "axes.titleweight": "normal",
}


@contextmanager
def cwboost_style() -> Iterator[None]:
    """Apply the settings of matplotlib that all displays use, and restore them."""
    with mpl.rc_context(STYLE):
        yield


@lru_cache(maxsize=8)
def _glyphs(families: tuple[str, ...]) -> frozenset[int]:
    """Return the characters that the fonts can draw."""
    known = {font.name for font in font_manager.fontManager.ttflist}
    found: set[int] = set()
    for family in families:
        if family in known:
            file = font_manager.findfont(font_manager.FontProperties(family=family))
            found |= set(font_manager.get_font(file).get_charmap())
    return frozenset(found)


def _families() -> tuple[str, ...]:
    """Return the font families in use."""
    generic = ("serif", "sans-serif", "cursive", "fantasy", "monospace")
    settings: Any = mpl.rcParams
    out: list[str] = []
    for family in settings["font.family"]:
        out += settings[f"font.{family}"] if family in generic else [family]
    return tuple(out)


def drawn_text(name: Any, limit: int = LONGEST) -> str:
    """Return a name as it is drawn: one short line without formulas or unknown characters."""
    glyphs = _glyphs(_families())
    text = "".join(c if ord(c) in glyphs else "□" for c in one_line(name, limit))
    return text.replace("$", r"\$")


def axis_title(label: str, width: int = 40) -> str:
    """Return the title of an axis, in two lines if it is long."""
    words = [drawn_text(word, width) for word in label.split()]
    lines = [""]
    for word in words:
        new = len(lines[-1]) + len(word) >= width and len(lines) < 2
        lines = [*lines, word] if new else [*lines[:-1], f"{lines[-1]} {word}".strip()]
    return "\n".join(lines)


def _formatter(axis: Any) -> FuncFormatter:
    """Return a formatter with as many digits as the range of the axis needs."""
    return FuncFormatter(lambda value, _: on_axis(value, *axis.get_view_interval()))


def mix_grey(ax: Axes, strength: float) -> tuple[float, float, float]:
    """Return a grey between the background (0) and the colour of text (1), also on dark axes."""
    back, ink = to_rgb(ax.get_facecolor()), to_rgb(mpl.rcParams["text.color"])
    if abs(sum(back) - sum(ink)) < 0.6:  # text could not be read on these axes
        ink = (0.0, 0.0, 0.0) if sum(back) > 1.5 else (1.0, 1.0, 1.0)
    r, g, b = (strength * i + (1 - strength) * f for i, f in zip(ink, back, strict=True))
    return r, g, b


def nth_colour(ax: Axes, k: int) -> Any:
    """Return the colour of the line or point with number k."""
    colour = COLOURS[k % len(COLOURS)]
    return mix_grey(ax, 0.9) if colour == INK else colour


def text_colour(ax: Axes, colour: Any) -> Any:
    """Return a colour for text about a line: between the line's colour and the text colour."""
    ink = mix_grey(ax, 1.0)
    r, g, b = (0.6 * c + 0.4 * i for c, i in zip(to_rgb(colour), ink, strict=True))
    return r, g, b


def style_axes(ax: Axes, grid: Literal["x", "y"] | None = "y") -> None:
    """Style axes: two thin spines, and a faint grid along the values."""
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color(mix_grey(ax, 0.4))
    ax.spines[["left", "bottom"]].set_linewidth(0.8)
    ax.tick_params(colors=mix_grey(ax, 0.75), labelsize="small", width=0.8, length=3)
    ax.set_axisbelow(True)
    if grid is not None:
        ax.grid(True, axis=grid, color=mix_grey(ax, 0.1), linewidth=0.7)


def label_levels(ax: Axes, places: Any, names: Sequence[str]) -> None:
    """Write names at the left instead of an axis, from the top down."""
    ax.set_yticks(places, names)
    ax.tick_params(axis="y", length=0)
    ax.spines["left"].set_visible(False)
    ax.set_ylim(max(places, default=0.0) + 0.6, min(places, default=0.0) - 0.6)


def add_note(
    ax: Axes, text: str, at: Any, shift: Any, coords: Any = "data", **options: Any
) -> None:
    """Write small grey text next to a point."""
    style = {"fontsize": "x-small", "color": mix_grey(ax, 0.62), "va": "center"}
    ax.annotate(text, at, shift, xycoords=coords, textcoords="offset points", **style | options)


def add_remarks(ax: Axes, words: Sequence[str], width: int = 104) -> int:
    """Write remarks above the right corner, and return the number of lines."""
    lines = lines_of(words, width)
    if lines:
        add_note(ax, "\n".join(lines), (1, 1), (0, 3), "axes fraction", ha="right", va="bottom")
    return len(lines)


class RoundTicks(MaxNLocator):
    """Ticks at round numbers, none of them beyond `stop`, where a note is written."""

    def __init__(self, n: int, whole: bool = False, stop: float = np.inf) -> None:
        super().__init__(n, integer=whole, steps=[1, 2, 2.5, 5, 10])
        self.stop = stop

    def tick_values(self, vmin: float, vmax: float) -> Any:
        found = np.asarray(super().tick_values(vmin, vmax))
        return found[found <= self.stop]


def set_ticks(axis: Any, n: int = 6, whole: bool = False, stop: float = np.inf) -> None:
    """Set about n ticks at round numbers."""
    axis.set_major_locator(RoundTicks(n, whole, stop))
    axis.set_major_formatter(_formatter(axis))


def set_ratio_ticks(axis: Any, n: int) -> None:
    """Set about n ticks at round factors on a logarithmic axis."""
    low, high = axis.get_view_interval()
    axis.set_major_locator(FixedLocator(factors(low, high, n)))
    axis.set_major_formatter(FuncFormatter(lambda v, _: readable_number(v, 3)))
    axis.set_minor_locator(FixedLocator([]))


class AxisLimits:
    """Sets the limits of an axis. Axes that are shared or in use still show what they showed."""

    def __init__(self, ax: Axes, which: Literal["x", "y"]) -> None:
        group = ax.get_shared_x_axes() if which == "x" else ax.get_shared_y_axes()
        self.ax, self.which = ax, which
        self.in_use = any(other.has_data() for other in group.get_siblings(ax))
        self.before = ax.get_xlim() if which == "x" else ax.get_ylim()

    def set(self, low: float, high: float) -> None:
        if self.in_use:
            low, high = min(low, *self.before), max(high, *self.before)
        (self.ax.set_xlim if self.which == "x" else self.ax.set_ylim)(low, high)


def pad_range(values: Any, log: bool, below: float, above: float) -> tuple[float, float]:
    """Return the range of values, with shares of it added at both ends."""
    known = np.asarray(values, dtype=float)
    known = known[np.isfinite(known) & ((known > 0) | (not log))]
    if len(known) == 0:
        return (0.5, 2.0) if log else (-1.0, 1.0)
    known = np.log(known) if log else known
    low, high = float(known.min()), float(known.max())
    room = (high - low) or 0.1 * abs(high) or 1.0
    if log:
        return float(np.exp(low - below * room)), float(np.exp(high + above * room))
    return low - below * room, high + above * room


def add_legend(ax: Axes, handles: Sequence[Any], names: Iterable[Any], **options: Any) -> None:
    """Add a legend. Matplotlib hides names that begin with an underscore, so they get a space."""
    labels = [drawn_text(name, 28) for name in names]
    labels = [" " + label if label.startswith("_") else label for label in labels]
    ax.legend(list(handles), labels, frameon=False, fontsize="small", **options)


def check_axes(ax: Any) -> None:
    """Raise if an object is not matplotlib axes."""
    if not isinstance(ax, Axes):
        raise TypeError(f"ax: expected matplotlib axes, got {quote(ax)}")


def check_figure(figure: Any) -> None:
    """Raise if an object is not a matplotlib figure."""
    if not isinstance(figure, FigureBase):
        raise TypeError(f"figure: expected a matplotlib figure, got {quote(figure)}")


def make_axes(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """Return the given axes, or the axes of a new figure."""
    if ax is not None:
        check_axes(ax)
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=size, layout="constrained")[1]


def format_percent(share: float) -> str:
    """Return a share in percent, with a typographic minus sign."""
    return f"{share:.1%}".replace("-", "−")


def spread_apart(places: Sequence[float], gap: float, least: float) -> list[float]:
    """Return decreasing places of texts, moved apart so that none overlap."""
    out = list(places)
    for i in range(1, len(out)):  # from the top down, then up from the foot
        out[i] = min(out[i], out[i - 1] - gap)
    for i in reversed(range(len(out))):
        out[i] = max(out[i], out[i + 1] + gap if i + 1 < len(out) else least)
    return out


def set_path_axis(ax: Axes, n_iter: int, log: bool) -> None:
    """Set up the x axis for the iterations of a path."""
    if log:
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter(_formatter(ax.xaxis))
        ax.xaxis.set_minor_formatter(NullFormatter())
    else:
        set_ticks(ax.xaxis, 7, whole=True)
    ax.set_xlim(1 if log else 0, max(n_iter, 2 if log else 1))
    ax.set_xlabel("iteration")


def use_log_axis(log: bool | None, n_iter: int) -> bool:
    """Return whether the axis of a path is logarithmic: `log`, or for None by its length."""
    return n_iter >= LOG_FROM if log is None else bool(log)
